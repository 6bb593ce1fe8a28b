"""The dead letters, grouped by what they died of."""

import re
from itertools import islice
from typing import Any

from queuectl.filter import Filter
from queuectl.job import Job, State
from queuectl.report import moment, why_ended
from queuectl.titles import titled
from queuectl.web.call import Call
from queuectl.web.pages import words
from queuectl.web.pages.page import Pages

LOOKED_AT = 1_000
"""Jobs that are grouped: of very many the newest."""
pages = Pages()

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|(?<!exit code )(?<!\d)\d[\d.,:]*")
"""Those that may differ between jobs that died of the same; an exit code says of what."""


@pages.show("/dead", "dead.html", title="Dead letters")
def dead(call: Call) -> dict[str, Any]:
    """Show the dead by what they died of."""
    which = call.within(Filter(states=(State.DEAD,)))
    found = list(islice(call.queue.iterate(which, limit=LOOKED_AT), LOOKED_AT))
    return {
        "groups": grouped(found),
        "total": call.queue.counted(which),
        "looked_at": len(found),
        "is_all": len(found) < LOOKED_AT,
    }


def grouped(jobs: list[Job]) -> list[dict[str, Any]]:
    """Group jobs by why they ended, such numbers aside; the largest group first."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(_NUMBERS.sub("#", why_ended(job)), []).append(job)
    return [
        {
            "reason": words.brief(why_ended(some[0])),
            "ids": [job.id for job in some],
            "queues": sorted({job.queue for job in some}),
            "newest": moment(max(job.finished_at or 0 for job in some)),
            "oldest": moment(min(job.finished_at or 0 for job in some)),
            "some": [
                {"id": job.id, "title": words.brief(titled(job, words.LONGEST))} for job in some[:3]
            ],
        }
        for some in sorted(groups.values(), key=len, reverse=True)
    ]
