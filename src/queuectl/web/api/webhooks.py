"""Webhooks: who is told over HTTP what became of jobs."""

from collections.abc import Mapping
from hmac import compare_digest
from typing import Any
from urllib.parse import urlsplit

from queuectl.access import Right
from queuectl.errors import DuplicateError, UsageError, shown
from queuectl.values import replace
from queuectl.web import schemas
from queuectl.web.api import asking
from queuectl.web.api.once import OtherRequestError
from queuectl.web.call import Answer, Call, flag, text
from queuectl.web.route import Group
from queuectl.webhook import QUEUE, News, Webhook
from queuectl.webhooks import (
    PrivateAddressError,
    delivery_dict,
    named,
    read_webhook,
    tested_dict,
    webhook_dict,
)

group = Group(name="webhooks", about=__doc__ or "")

_WEBHOOK = schemas.ref("Webhook")
_OPTIONS = {
    "on": schemas.NEWS,
    "queues": schemas.array(schemas.NAME),
    "secret": schemas.or_null(schemas.TEXT),
    "allow_private": schemas.FLAG,
    "data": schemas.FLAG,
    "via": schemas.or_null(schemas.NAME),
}
_OPERATES: dict[str, Any] = {"needs": Right.OPERATE, "answers": _WEBHOOK}


def told(call: Call, webhook: Webhook) -> dict[str, Any]:
    """Describe a webhook as it is shown to who asks."""
    return webhook_dict(shown_to(call, webhook))


def shown_to(call: Call, webhook: Webhook) -> Webhook:
    """Leave out the secret of a webhook; a URL can be one, too, so not all are told it."""
    url = webhook.url
    if not (call.grant.may(Right.SUBMIT) or call.grant.may(Right.SECRETS)):
        parts = urlsplit(url)
        url = f"{parts.scheme}://{parts.netloc}/…"
    return replace(webhook, url=url, secret="")


def seen(call: Call) -> list[Webhook]:
    """Return the webhooks that who asks may have to do with, by name."""
    return [one for one in call.queue.webhooks.all() if _is_for(call, one)]


def found(call: Call, name: str | None = None) -> Webhook:
    """Return the webhook that is asked for; one that tells of other queues isn't there."""
    return named(call.path["name"] if name is None else name, seen(call))


def _is_for(call: Call, webhook: Webhook) -> bool:
    allowed = call.grant.queues
    return not allowed or (bool(webhook.queues) and set(webhook.queues) <= set(allowed))


@group.get("/webhooks", answers=schemas.array(_WEBHOOK))
def list_webhooks(call: Call) -> list[dict[str, Any]]:
    """List the webhooks, by name, without their secrets."""
    return [told(call, one) for one in seen(call)]


@group.get("/webhooks/{name}", query=(asking.LIMIT,), answers=schemas.ref("WebhookWhole"))
def show_webhook(call: Call) -> dict[str, Any]:
    """Show a webhook with its newest deliveries."""
    webhook = found(call)
    newest = call.queue.webhooks.deliveries(webhook.name, limit=asking.limit_of(call))
    return told(call, webhook) | {"deliveries": [delivery_dict(job) for job in newest]}


@group.put(
    "/webhooks/{name}",
    needs=Right.SUBMIT,
    takes=schemas.takes({"url": schemas.TEXT}, _OPTIONS),
    answers=schemas.tells({"webhook": _WEBHOOK, "secret": schemas.or_null(schemas.TEXT)}),
    status=201,
    also=(200,),
)
def add_webhook(call: Call) -> Answer:
    """Tell a URL of the ends of jobs from now on. Its secret is in this answer, and in no other.

    The same request again answers with the webhook, with 200 and without the secret. To be told of
    data takes the right to secrets, and addresses that aren't public the right to admin.
    """
    said = call.said("url", *_OPTIONS, need=("url",))
    wanted = asked(call, call.path["name"], said)
    try:
        made = call.queue.webhooks.add_read(wanted)
    except DuplicateError:
        there = call.queue.webhooks.get(wanted.name)
        if not _is_same(there, wanted, text(said, "secret")):
            raise OtherRequestError(
                f"There is another webhook {shown(wanted.name)}; choose another name."
            ) from None
        return Answer(value={"webhook": told(call, there), "secret": None}, status=200)
    return Answer(value={"webhook": told(call, made), "secret": made.secret}, status=201)


def asked(call: Call, name: str, said: Mapping[str, Any]) -> Webhook:
    """Return the webhook that is asked for, if who asks may add it."""
    queues = _names(said, "queues") or call.grant.queues
    via = text(said, "via", QUEUE) or ""
    if via != QUEUE:
        # That one is for the deliveries of all.
        call.need_queue(via)
    try:
        wanted = read_webhook(
            text(said, "url") or "",
            [News.DEAD] if said.get("on") is None else _names(said, "on"),
            name=name,
            queues=[call.need_queue(queue) for queue in queues],
            secret=text(said, "secret"),
            private=flag(said, "allow_private"),
            with_data=flag(said, "data"),
            via=via,
        )
    except PrivateAddressError as error:
        advice = "allow_private lets it be there, for who has the role admin."
        raise UsageError(str(error), advice=advice, field=error.field) from None
    if wanted.with_data:
        call.need(Right.SECRETS, "To tell data to others")
    if wanted.private:
        call.need(Right.ADMIN, "An address that isn't public")
    return wanted


def _names(said: Mapping[str, Any], name: str) -> list[str]:
    value = said.get(name) or []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{name} is a list of names.")
    return value


def _is_same(there: Webhook, wanted: Webhook, secret: str | None) -> bool:
    """Tell whether a webhook is the one that was asked for, however it has fared since."""
    if secret is not None and not compare_digest(there.secret, secret):
        return False
    return all(
        getattr(there, name) == getattr(wanted, name)
        for name in ("url", "news", "queues", "via", "private", "with_data")
    )


@group.delete("/webhooks/{name}", needs=Right.OPERATE)
def remove_webhook(call: Call) -> None:
    """Remove a webhook, and cancel its deliveries that wait."""
    call.queue.webhooks.remove(found(call).name)


@group.post("/webhooks/{name}/pause", **_OPERATES)
def pause_webhook(call: Call) -> dict[str, Any]:
    """Tell a webhook nothing until it is resumed."""
    call.queue.webhooks.pause(found(call).name)
    return told(call, found(call))


@group.post("/webhooks/{name}/resume", **_OPERATES)
def resume_webhook(call: Call) -> dict[str, Any]:
    """Tell a webhook again of what ends from now on; also one whose receiver was gone."""
    call.queue.webhooks.resume(found(call).name)
    return told(call, found(call))


@group.post("/webhooks/{name}/test", needs=Right.OPERATE, answers=schemas.ref("Tested"), slow=True)
def test_webhook(call: Call) -> dict[str, Any]:
    """Send a message to see, from the host of this server, and say what came back.

    What the receiver wrote is told to those with the right to secrets.
    """
    webhook = found(call)
    said = tested_dict(webhook.name, call.queue.webhooks.test(webhook.name))
    return said if call.may(Right.SECRETS) else {**said, "answer": None}
