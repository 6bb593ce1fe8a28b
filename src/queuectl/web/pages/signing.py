"""Signing in and out: how browsers get a session, and keep it fresh.

The link that `queuectl web` prints has its secret behind a `#`, which no browser sends: a script
takes it from there, and posts it. The secret of a session is in a cookie that no script can read.
"""

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from queuectl.access import Grant, Kind, Refusal, digest_of
from queuectl.errors import NotFoundError, StoreError, UsageError
from queuectl.web.http import Request, Response

if TYPE_CHECKING:
    from queuectl.queue import Queue
    from queuectl.web.gate import Gate, Rules

FRESH = 3_600_000
"""Milliseconds after which a session gets another secret."""
LONGEST_FORM = 8 << 10


class Signing:
    """Has people sign in and out, in a thread."""

    def __init__(self, queue: "Queue", rules: "Rules", gate: "Gate") -> None:
        self._queue = queue
        self._rules = rules
        self._gate = gate

    def sign_in(self, secret: str, address: str) -> tuple[Grant, str] | Refusal:
        """Begin a session by what somebody pasted: a token, or a whole link; or say why not."""
        given = secret.strip().rpartition("#")[2]
        lasting = self._rules.session_lasts / 1000
        found = self._queue.access.sign_in(given, lasting=lasting)
        if found is None:
            self._gate.tries.failed(address)
            return self._queue.access.refusal(given)
        return found

    def sign_out(self, grant: Grant | None, secret: str | None) -> None:
        """End a session, if there is one."""
        if grant is not None and grant.kind is Kind.SESSION and secret is not None:
            with suppress(NotFoundError):
                self._queue.access.remove_session(grant.id)
            self._gate.forget(secret)

    def fresh(self, grant: Grant, secret: str | None) -> tuple[Grant, str] | None:
        """Return another secret for a session whose own is old; None if it needs none."""
        if secret is None or grant.kind is not Kind.SESSION or grant.digest != digest_of(secret):
            return None
        if self._queue.now() - grant.created_at < FRESH:
            return None
        # Who can't write stays with what is there.
        with suppress(StoreError):
            return self._queue.access.rotate(grant)
        return None

    def keep(self, response: Response, session: Grant, secret: str) -> None:
        """Have a browser keep the secret of a session, for as long as that lasts."""
        left = None
        if session.expires_at is not None:
            left = max((session.expires_at - self._queue.now()) // 1000, 0)
        self._set_cookie(response, secret, left)

    def drop(self, response: Response) -> None:
        """Have a browser forget it."""
        self._set_cookie(response, "", 0)

    def _set_cookie(self, response: Response, value: str, lasting: int | None) -> None:
        response.set_cookie(
            self._gate.cookie,
            value,
            lasting=lasting,
            path=self._rules.base_path or "/",
            secure=self._rules.secure,
        )


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a small form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise UsageError("That is no form.")
    body = await request.read(LONGEST_FORM)
    try:
        found = parse_qs(body.decode("ascii"), max_num_fields=8)
    except ValueError:
        raise UsageError("That is no form.") from None
    return {name: values[0] for name, values in found.items()}
