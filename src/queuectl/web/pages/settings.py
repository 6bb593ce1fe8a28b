"""Settings: what is in force, and where it comes from."""

from typing import Any

from queuectl.access import Right
from queuectl.settings import NAMES, SPECS
from queuectl.views import setting_dict
from queuectl.web.api.maintenance import RUNS
from queuectl.web.call import Call
from queuectl.web.pages.page import Pages
from queuectl.web.route import Scope

pages = Pages()


@pages.show("/settings", "settings.html", title="Settings", needs=Right.ADMIN, scope=Scope.ALL)
def settings(call: Call) -> dict[str, Any]:
    """Show all settings."""
    found, sources = call.queue.explain_settings()
    rows = [setting_dict(name, found, sources) for name in NAMES]
    return {
        "settings": [
            {
                **row,
                "is_mine": row["name"] not in RUNS or call.may(Right.SUBMIT),
                "choices": SPECS[row["name"]].kind.choices,
            }
            for row in rows
        ]
    }
