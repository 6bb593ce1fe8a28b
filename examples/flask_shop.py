"""Flask: one request has pictures made smaller, another one asks how far that is.

flask --app examples.flask_shop run
queuectl --db shop.db worker start --app examples.flask_shop:queue
"""

import os
from typing import Any

from flask import Flask, request

from queuectl import NotFoundError, Queue, current_job

queue = Queue(os.environ.get("SHOP_DB", "shop.db"))
app = Flask(__name__)


@queue.task(queue="pictures", key="{customer}", retries=2)
def shrink(customer: str, pictures: list[str]) -> dict[str, int]:
    """Make pictures smaller; a worker does so."""
    job = current_job()
    sizes = {}
    for number, name in enumerate(pictures, 1):
        sizes[name] = len(name)
        job.progress(number / len(pictures), f"{number} of {len(pictures)}")
    return sizes


@app.post("/pictures")
def take_pictures() -> tuple[dict[str, Any], int]:
    """Take the names of pictures, and answer at once."""
    given = request.get_json()
    return {"job": shrink.enqueue(given["customer"], given["pictures"]).id}, 202


@app.get("/pictures/<id>")
def look(id: str) -> tuple[dict[str, Any], int]:
    """Say how far it is, and what came of it."""
    try:
        job = shrink.job(id)
    except NotFoundError as error:
        return {"error": str(error)}, 404
    if job.state != "completed":
        return {"state": job.state}, 200
    return {"state": job.state, "sizes": job.result()}, 200
