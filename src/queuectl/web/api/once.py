"""Requests that are sent again, and do nothing then: by the id of the job, or a key.

What makes sure is the row of the job itself: its id, which only one can have, and the digest of the
body with which it was asked for. Whoever comes at the same moment with the same waits for the
transaction of the first, and finds it then.
"""

import json
from base64 import b32encode
from hashlib import sha256
from typing import Any

from queuectl.errors import DuplicateError, UsageError
from queuectl.job import Job
from queuectl.web.call import Call
from queuectl.web.route import Param

LONGEST_KEY = 255
KEY = Param(
    name="Idempotency-Key",
    schema={"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
    about="Names the request: what comes again with the same key adds nothing.",
)


class OtherRequestError(UsageError):
    """The id or key is that of another request."""


def enqueue(call: Call, asked: dict[str, Any], key: str | None) -> tuple[Job, bool]:
    """Store a job, once if there is a key; returns it, and whether it is new."""
    if key is None:
        return _ours(call, call.queue.enqueue(asked)), True
    if not 0 < len(key) <= LONGEST_KEY:
        raise UsageError(f"An Idempotency-Key has 1 to {LONGEST_KEY} characters.")
    asked.setdefault("id", _id_of(call.grant.name, key))
    return keep(call, asked, digest(call))


def keep(call: Call, asked: dict[str, Any], digest: str) -> tuple[Job, bool]:
    """Store a job under its id, or return the one that the same request has stored before."""
    try:
        job, new = call.queue.enqueue_once(asked, digest)
        return _ours(call, job), new
    except DuplicateError:
        raise OtherRequestError(
            f"Another request was made under {asked['id']!r}; this adds nothing."
        ) from None


def _ours(call: Call, job: Job) -> Job:
    """Return the job that a request came to, unless it is in a queue that isn't for who asks."""
    if not call.grant.is_for(job.queue):
        raise DuplicateError("There is such a job in another queue; nothing was enqueued.")
    return job


def digest(call: Call) -> str:
    """Return what tells the body of a request from others, however it was written."""
    plain = json.dumps(call.body, sort_keys=True, separators=(",", ":"))
    return sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def _id_of(who: str, key: str) -> str:
    """Return the id of the job that is added under a key: nobody else's key has the same."""
    hashed = sha256(f"{who}\0{key}".encode("utf-8", "surrogatepass")).digest()
    return b32encode(hashed[:16]).decode().rstrip("=").lower()
