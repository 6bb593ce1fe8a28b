"""Who may come in: tokens of programs, and who is signed in."""

from typing import Any

from queuectl.access import Right
from queuectl.web.api.tokens import told
from queuectl.web.call import Call
from queuectl.web.pages import forms
from queuectl.web.pages.page import Pages
from queuectl.web.route import Scope

pages = Pages()


@pages.show("/access", "access.html", title="Access", needs=Right.ADMIN, scope=Scope.ALL)
def doors(call: Call) -> dict[str, Any]:
    """Show tokens and sessions, without their secrets."""
    access = call.queue.access
    return {
        "tokens": [told(call, one) for one in access.tokens()],
        "sessions": [told(call, one) for one in access.sessions()],
        "form": forms.Form(
            method="POST", path="/tokens", button="Make it", done="", parts=(forms.of_token(),)
        ),
    }
