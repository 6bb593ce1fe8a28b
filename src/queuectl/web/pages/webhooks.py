"""Webhooks: who is told of ends of jobs, and what came of the newest messages."""

from typing import Any

from queuectl.job import Job, State
from queuectl.web.api.webhooks import found, seen, told
from queuectl.web.call import Call
from queuectl.web.pages import forms
from queuectl.web.pages.page import Pages
from queuectl.webhook import Webhook
from queuectl.webhooks import delivery_dict

LOOKED_AT = 10
"""Deliveries of each webhook that its failures are counted in."""
DELIVERIES_SHOWN = 50
pages = Pages()


@pages.show("/webhooks", "webhooks.html", title="Webhooks")
def webhooks(call: Call) -> dict[str, Any]:
    """Show all webhooks, and how their newest deliveries went."""
    return {
        "webhooks": [_row(call, one) for one in seen(call)],
        "form": forms.Form(
            method="PUT",
            path="/webhooks/{name}",
            button="Add",
            done="That webhook is there already.",
            parts=(forms.of_webhook(call),),
        ),
        "looked_at": LOOKED_AT,
    }


def _row(call: Call, webhook: Webhook) -> dict[str, Any]:
    newest = call.queue.webhooks.deliveries(webhook.name, limit=LOOKED_AT)
    return {
        **told(call, webhook),
        "last": _delivery(call, newest[0]) if newest else None,
        "failures": sum(job.state in (State.FAILED, State.DEAD) for job in newest),
    }


@pages.show("/webhooks/{name}", "webhook.html")
def webhook(call: Call) -> dict[str, Any]:
    """Show one webhook with its newest deliveries."""
    one = found(call)
    newest = call.queue.webhooks.deliveries(one.name, limit=DELIVERIES_SHOWN)
    return {
        "webhook": told(call, one),
        "deliveries": [_delivery(call, job) for job in newest],
    }


def _delivery(call: Call, job: Job) -> dict[str, Any]:
    """Describe a delivery; who may not see the queue in which it waits gets no link to it."""
    return {**delivery_dict(job), "is_open": call.grant.is_for(job.queue)}
