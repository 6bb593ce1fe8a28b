"""The list of jobs: searched, filtered, page by page; and what can be done to many of them."""

from typing import Any

from queuectl.job import Job, State
from queuectl.report import job_dict, progress_dict, why_ended
from queuectl.web import schemas
from queuectl.web.api import asking
from queuectl.web.call import Call
from queuectl.web.pages.page import Pages
from queuectl.web.route import Param

PAGE = 50
pages = Pages()

_MORE = (
    asking.AFTER,
    Param(name="oldest", schema=schemas.FLAG, about="Oldest first instead of newest first."),
)


@pages.show("/jobs", "jobs.html", title="Jobs", query=(*asking.FILTERS, *_MORE))
def jobs(call: Call) -> dict[str, Any]:
    """Show a page of the jobs that fit."""
    which = asking.filter_of(call)
    after = None if (id := call.query.get("after")) is None else call.job(id)
    oldest = call.query.get("oldest", False)
    said = {param.name: call.query.get(param.name) for param in asking.FILTERS}
    page = call.queue.page(which, limit=PAGE, after=after, oldest=oldest)
    rows = list(page)
    return {
        "jobs": told(call, rows),
        "next": page.last.id if page.more and page.last is not None else None,
        "said": {**said, "oldest": "true" if oldest else None},
        "first": after is None,
        "oldest": oldest,
        "total": call.queue.counted(which),
        "filter": _as_filter(call),
        "filtered": any(said.values()),
        "queues": _queues(call),
    }


def told(call: Call, jobs: list[Job]) -> list[dict[str, Any]]:
    """Describe jobs as rows: what is of no use there, or secret, isn't asked of them."""
    pauses, progress = call.queue.pauses(), call.queue.running_progress()
    rows = []
    for job in jobs:
        pause = pauses.get(job.seq)
        said = job_dict(job, pause if pause is not None and pause.is_of(job) else None)
        rows.append(
            {
                **{name: said[name] for name in _ROW},
                "title": job.title,
                "why": why_ended(job) if job.state in (State.DEAD, State.CANCELLED) else job.error,
                "progress": progress_dict(progress.get(job.seq)),
            }
        )
    return rows


_ROW = (
    "id queue state priority attempts max_retries tags held paused_at created_at run_at started_at"
    " finished_at duration_ms schedule type task"
).split()


def _as_filter(call: Call) -> dict[str, Any]:
    """Return the same filter as the API takes it in a body, for what is done to all that fit."""
    names = {"state": "states", "queue": "queues", "tag": "tags", "type": "types"}
    known = {param.name for param in asking.FILTERS}
    return {names.get(name, name): it for name, it in call.query.items() if name in known}


def _queues(call: Call) -> list[str]:
    names = {count.queue for count in call.queue.counts() if count.jobs}
    return sorted(name for name in names if call.grant.is_for(name))
