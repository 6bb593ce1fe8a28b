"""Who may come in: tokens of programs, and who is signed in."""

from typing import Any

from queuectl.access import Right
from queuectl.web.api.tokens import grant_dict
from queuectl.web.call import Call
from queuectl.web.pages.page import Pages
from queuectl.web.route import Scope

pages = Pages()


@pages.show("/access", "access.html", title="Access", needs=Right.ADMIN, scope=Scope.ALL)
def access(call: Call) -> dict[str, Any]:
    """Show tokens and sessions, without their secrets."""
    now = call.queue.now()
    return {
        "tokens": [
            {**grant_dict(one), "is_over": one.is_over(now)} for one in call.queue.access.tokens()
        ],
        "sessions": [grant_dict(one) for one in call.queue.access.sessions()],
    }
