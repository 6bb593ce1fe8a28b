"""Where a browser may be sent after signing in: to a page of ours, and nowhere else."""

import re

from queuectl.web.routing import Routes

_TEXT = re.compile(r"/[!-~]*")
LONGEST = 2_000


def page_of_ours(asked: str | None, pages: Routes) -> str:
    """Return the path that was asked for if it is one of these; else that of the first page."""
    path = (asked or "").partition("?")[0]
    good = (
        asked is not None
        and len(asked) <= LONGEST
        and _TEXT.fullmatch(asked) is not None
        and not set(path) & set("\\#")
        and pages.find(path) is not None
    )
    return asked if good and asked is not None else "/"
