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
from queuectl.together import Prepared
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


def prepare(call: Call, asked: dict[str, Any], key: str | None) -> Prepared:
    """Read the request of a job, which is stored once if there is a key."""
    if key is None:
        return call.queue.together.prepare(asked)
    if not 0 < len(key) <= LONGEST_KEY:
        raise UsageError(f"An Idempotency-Key has 1 to {LONGEST_KEY} characters.")
    named = asked.get("id") is not None
    if not named:
        asked["id"] = id_of(call.grant.root, key)
    return call.queue.together.prepare(asked, digest=digest(call), named=named)


def found(call: Call, prepared: Prepared, job: Job) -> Job:
    """Return the job that a request came to, unless it is in a queue that isn't for who asks."""
    if not call.grant.is_for(job.queue):
        told = "There is such a job in another queue; nothing was enqueued."
        raise explained(DuplicateError(told), prepared)
    return job


def explained(error: Exception, prepared: Prepared) -> Exception:
    """Return what is told of an error: that an id is taken says that it was another request."""
    if prepared.new.body_digest is None or not isinstance(error, DuplicateError):
        return error
    return OtherRequestError(
        f"Another request was made under {prepared.new.id!r}; this adds nothing."
    )


def digest(call: Call) -> str:
    """Return what tells the body of a request from others, however it was written."""
    plain = json.dumps(call.body, sort_keys=True, separators=(",", ":"))
    return sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def id_of(who: str, key: str) -> str:
    """Return the id of the job that is added under a key: nobody else's key has the same."""
    hashed = sha256(f"{who}\0{key}".encode("utf-8", "surrogatepass")).digest()
    return b32encode(hashed[:16]).decode().rstrip("=").lower()
