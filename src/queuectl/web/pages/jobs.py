"""The list of jobs: searched, filtered, page by page; and what can be done to many of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from queuectl import changes, editing
from queuectl.errors import UsageError
from queuectl.filter import Filter
from queuectl.job import OPEN, Job, State
from queuectl.job_json import moment
from queuectl.report import job_dict, progress_dict, why_ended
from queuectl.titles import titled
from queuectl.web import schemas
from queuectl.web.api import asking
from queuectl.web.call import Call
from queuectl.web.pages import words
from queuectl.web.pages.page import Pages
from queuectl.web.route import Param

PAGE = 50
pages = Pages()

_MORE = (
    asking.AFTER,
    Param(name="oldest", schema=schemas.FLAG, about="Oldest first instead of newest first."),
)


def wrong(call: Call, said: Mapping[str, list[str]], error: UsageError) -> dict[str, Any]:
    """Show what is wrong with a filter beside the form, as it was filled in."""
    many = {param.name for param in asking.FILTERS if param.many}
    known = {param.name: said.get(param.name) for param in asking.FILTERS}
    filled = {name: it if name in many or it is None else it[0] for name, it in known.items()}
    return {
        "said": {**filled, "oldest": None},
        "oldest": said.get("oldest") == ["true"],
        "total": None,
        "filtered": True,
        "queues": _queues(call),
        "wrong": error.advised,
    }


@pages.show("/jobs", "jobs.html", title="Jobs", query=(*asking.FILTERS, *_MORE), if_wrong=wrong)
def jobs(call: Call) -> dict[str, Any]:
    """Show a page of the jobs that fit."""
    which = asking.filter_of(call)
    after = None if (id := call.query.get("after")) is None else call.job(id)
    oldest = call.query.get("oldest", False)
    said = {param.name: call.query.get(param.name) for param in asking.FILTERS}
    found = call.queue.search(which, limit=PAGE, after=after, oldest=oldest)
    return {
        "jobs": told(call, found.jobs),
        "next": None if found.next is None else found.next.id,
        "reached": moment(found.next.created_at) if found.stopped and found.next else None,
        "said": {**said, "oldest": "true" if oldest else None},
        "first": after is None,
        "oldest": oldest,
        "total": call.queue.counted(which),
        "filter": {name: it for name, it in call.query.items() if name in said},
        "filtered": any(said.values()),
        "unused": {} if found.jobs else _unused(call, which.queues),
        "queues": _queues(call),
        "deeds": _deeds(which),
        "wrong": None,
    }


def _deeds(which: Filter) -> list[dict[str, Any]]:
    """Return what can be done to many jobs, and which states are meant where none is asked for."""
    return [
        {
            "name": name,
            "title": title,
            "only": None if which.states else " or ".join(usual),
            "danger": name in ("cancel", "remove"),
        }
        for name, title, usual in (
            ("retry", "Retry", changes.RETRY.usual),
            ("hold", "Hold", editing.HOLD.usual),
            ("release", "Release", editing.RELEASE.usual),
            ("cancel", "Cancel", OPEN),
            ("remove", "Delete", changes.REMOVE.usual),
        )
    ]


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
                "title": words.brief(titled(job, words.LONGEST)),
                "why": words.brief(_why(job) or ""),
                "progress": progress_dict(progress.get(job.seq)),
            }
        )
    return rows


def _why(job: Job) -> str | None:
    return why_ended(job) if job.state in (State.DEAD, State.CANCELLED) else job.error


_ROW = (
    "id queue state priority attempts max_retries tags held paused_at created_at run_at started_at"
    " finished_at duration_ms schedule type task group"
).split()


def _unused(call: Call, names: Sequence[str]) -> dict[str, str | None]:
    """Return those of these queues that nobody uses, each with the name that may be meant."""
    found = call.queue.unused(names)
    return {
        name: near if near is not None and call.grant.is_for(near) else None
        for name, near in found.items()
    }


def _queues(call: Call) -> list[str]:
    names = {count.queue for count in call.queue.counts() if count.jobs}
    return sorted(name for name in names if call.grant.is_for(name))
