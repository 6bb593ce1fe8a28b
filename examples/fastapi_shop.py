"""FastAPI: one request has an invoice written, another one asks for it.

uvicorn examples.fastapi_shop:app
queuectl --db shop.db worker start --app examples.fastapi_shop:queue
"""

import os
from decimal import Decimal

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from queuectl import NotFoundError, Queue, TaskFailedError, current_job

queue = Queue(os.environ.get("SHOP_DB", "shop.db"))
app = FastAPI()


class Order(BaseModel):
    """What somebody buys."""

    item: str
    count: int
    price: Decimal


class Invoice(BaseModel):
    """What that costs."""

    text: str
    total: Decimal


@queue.task(queue="invoices", retries=3, timeout="1m")
def write_invoice(order: Order) -> Invoice:
    """Write an invoice; a worker does so."""
    current_job().log.info("writing the invoice for %s", order.item)
    total = order.count * order.price
    return Invoice(text=f"{order.count} x {order.item}", total=total)


@app.post("/orders", status_code=202)
async def take_order(order: Order) -> dict[str, str]:
    """Take an order, and answer at once."""
    job = await write_invoice.aenqueue(order)
    return {"job": job.id}


@app.get("/invoices/{id}")
def invoice(id: str, wait: float = 0) -> Invoice:
    """Return an invoice, as soon as it is written."""
    try:
        return write_invoice.job(id).result(timeout=wait)
    except NotFoundError as error:
        raise HTTPException(404, str(error)) from None
    except TaskFailedError as error:
        raise HTTPException(410, str(error)) from None
    except TimeoutError:
        raise HTTPException(404, "It isn't written yet.") from None
