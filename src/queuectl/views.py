"""What front ends show of a queue: dicts for `--json`, the API and pages, asked of a `Queue`.

What can be said of a value by itself is in `report`. Only ever extend these dicts.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from queuectl.errors import NotFoundError, QueuectlError
from queuectl.facts import Emitted, QueueInfo
from queuectl.filter import Filter
from queuectl.job import WAITING, Job, State
from queuectl.limits import Limits
from queuectl.report import (
    attempt_dict,
    event_dict,
    group_dict,
    job_dict,
    limits_dict,
    moment,
    parameters_dict,
    progress_dict,
    relative_dict,
    root_dict,
    seconds,
    sleep_dict,
)
from queuectl.schedule import Overlap, Schedule
from queuectl.settings import SPECS, Settings
from queuectl.when import iso

if TYPE_CHECKING:
    from queuectl.explain import Reason
    from queuectl.facts import Group
    from queuectl.groups import Row
    from queuectl.lineage import Relative
    from queuectl.queue import Queue
    from queuectl.queue_limits import KeyUse
    from queuectl.report import Status

TABLE = "the config table"
"""Where a setting comes from that was set for all."""
TICKS_SHOWN = 5
"""Ticks to come, and ticks that were, that are told of a schedule."""
CHILDREN_SHOWN = 100
"""Jobs that wait for a job, and are told of it."""
BLOCKED_COUNTED = 100
"""Blocked jobs of a group that are counted, so that it costs the same however many there are."""
ROOTS_SHOWN = 20
"""Jobs that are told of all that keep those of a group from running."""
WAITING_OVERLAPS = (Overlap.LATEST, Overlap.ALL, Overlap.CANCEL)


# -- jobs -------------------------------------------------------------------------------


def job_whole(
    queue: "Queue", job: Job, *, sees: Callable[[str], bool] = lambda _: True
) -> dict[str, Any]:
    """Describe a job with its runs, hooks, its history, why it waits, and what it tells.

    Of hooks those are told that are in queues which who asks `sees`.
    """
    events = list(queue.iterate_events(job.id))[::-1]
    hooks = list(queue.hooks(job)) if any(event.kind == "hook" for event in events) else []
    pause = queue.pauses().get(job.seq) if job.state == State.PROCESSING else None
    reasons = queue.explain(job.id)
    return {
        **job_dict(job, pause if pause is not None and pause.is_of(job) else None),
        "waits_for": [reason.as_dict() for reason in reasons],
        "runs": [attempt_dict(run) for run in queue.attempts(job.id)],
        "events": [event_dict(event) for event in events],
        "hooks": [{"id": hook.id, "state": str(hook.state)} for hook in hooks if sees(hook.queue)],
        "progress": progress_dict(queue.progress([job]).get(job.seq)),
        "result": queue.results([job]).get(job.seq),
        "sleep": sleep_dict(queue.sleeps([job]).get(job.seq)),
        "parents": [relative_dict(one) for one in queue.parents(job)] if job.awaits else [],
        "children": [relative_dict(one) for one in children_of(queue, job)],
    }


def children_of(queue: "Queue", job: Job, limit: int = CHILDREN_SHOWN) -> "list[Relative]":
    """Return the first of those that wait for a job, or did; most jobs have none."""
    return queue.children(job, limit=limit) if job.has_children else []


def result_dict(row: "Row") -> dict[str, Any]:
    """Describe what a job of a group came to."""
    job = row.job
    return {
        "id": job.id,
        "parameters": parameters_dict(job),
        "state": job.state.value,
        "exit_code": job.exit_code,
        "duration": seconds(job.duration_ms),
        "peak_memory": row.peak_memory,
        "result": row.result,
        "last_line": row.last_line,
    }


def group_dicts(queue: "Queue", groups: "Sequence[Group]") -> list[dict[str, Any]]:
    """Describe groups, and how many of their jobs run."""
    now = queue.now()
    running = queue.groups.running() if any(group.open for group in groups) else {}
    still = [group.name for group in groups if group.open and not running.get(group.name)]
    stuck = set(queue.groups.stuck(still)) if still else set()
    return [
        {
            **group_dict(group, now, is_stuck=group.name in stuck),
            "running": min(running.get(group.name, 0), group.open),
        }
        for group in groups
    ]


def group_whole(queue: "Queue", group: "Group") -> dict[str, Any]:
    """Describe a group with what keeps it from being over, and who waits for it.

    Of very many jobs, some of the newest tell: it costs no more with a million of them.
    """
    (told,) = group_dicts(queue, [group])
    children = queue.groups.children(group.name, limit=CHILDREN_SHOWN + 1)
    follower = queue.groups.follower(group.name) if children else None
    waiting = group.open > told["running"]
    roots = queue.groups.roots(group.name) if waiting else None
    blocked = Filter(groups=(group.name,), states=(State.BLOCKED,))
    held = queue.search(blocked, limit=BLOCKED_COUNTED) if waiting else None
    return {
        **told,
        "waits_for": [one.as_dict() for one in queue.groups.why(group.name)] if waiting else [],
        "kept_by": [root_dict(root) for root in roots.found[:ROOTS_SHOWN]] if roots else [],
        "blocked": 0 if held is None else len(held.jobs),
        "blocked_more": held is not None and held.next is not None,
        "children": [relative_dict(one) for one in children[:CHILDREN_SHOWN]],
        "on_done": None if follower is None else {"id": follower.id, "state": str(follower.state)},
    }


def reasons_dict(job: Job, reasons: "list[Reason]") -> dict[str, Any]:
    """Say why a job waits."""
    return {
        "id": job.id,
        "queue": job.queue,
        "state": job.state.value,
        "waits_for": [reason.as_dict() for reason in reasons],
    }


def emitted_dict(one: Emitted) -> dict[str, Any]:
    """Describe what was emitted."""
    return {"name": one.name, "payload": one.value, "emitted_at": iso(one.at), "who": one.who}


# -- queues -----------------------------------------------------------------------------


def queue_dicts(queue: "Queue", status: "Status | None" = None) -> list[dict[str, Any]]:
    """Describe all queues that have jobs, or on which something is set.

    How many they have is asked anew, unless a status says it already.
    """
    infos = {info.name: info for info in queue.queues()}
    counts = (status or queue.status()).queues
    limited = {name for name, info in infos.items() if info.limits not in (None, Limits())}
    return [
        _one_queue(name, counts.get(name) or dict.fromkeys(State, 0), infos.get(name))
        for name in sorted({*counts, *limited})
    ]


def _one_queue(name: str, states: dict[State, int], info: QueueInfo | None) -> dict[str, Any]:
    return {
        "name": name,
        "waiting": sum(states[state] for state in WAITING),
        "running": states[State.PROCESSING],
        "completed": states[State.COMPLETED],
        "dead": states[State.DEAD],
        "cancelled": states[State.CANCELLED],
        "paused": info is not None and info.paused_at is not None,
        "paused_at": None if info is None else moment(info.paused_at),
        "paused_by": None if info is None else info.paused_by,
        "states": {state.value: count for state, count in states.items()},
        "limits": limits_dict((info and info.limits) or Limits()),
    }


def queue_dict(queue: "Queue", name: str, *, hints: bool = True) -> dict[str, Any]:
    """Describe a queue with all there is to it; one that nobody uses is an error.

    With `hints` that names another queue which may have been meant.
    """
    found = {row["name"]: row for row in queue_dicts(queue)}.get(name)
    if found is None:
        unused = queue.unused([name])
        if name in unused:
            meant = f"did you mean {unused[name]!r}?" if hints and unused[name] else ""
            advice = meant or "see queuectl queue list."
            raise NotFoundError(f"Nothing is in queue {name!r}, or set on it.", advice=advice)
        found = _one_queue(name, dict.fromkeys(State, 0), None)
    serving = [node for node in queue.living_nodes() if node.serves(name) and node.stop is None]
    return {
        **found,
        "workers": sum(node.workers for node in serving),
        "nodes": [node.id for node in serving],
        "keys": [_key_dict(key) for key in queue.limits.keys(name)],
    }


def _key_dict(key: "KeyUse") -> dict[str, Any]:
    return {
        "key": key.name,
        "running": key.running,
        "waiting": key.waiting,
        "limit": key.limit,
        "weight": key.weight,
    }


# -- schedules --------------------------------------------------------------------------


def in_words(schedule: Schedule) -> str | None:
    """Say its rule in English; None where this host doesn't know its zone."""
    try:
        return schedule.read().in_words()
    except QueuectlError:
        return None


def schedule_dict(schedule: Schedule) -> dict[str, Any]:
    """Describe a schedule for `--json`; of the environment of its jobs only the names are there."""
    return {
        "name": schedule.name,
        "rule": schedule.rule,
        "in_words": in_words(schedule),
        "tz": schedule.zone,
        "missed": schedule.missed.value,
        "missed_within": seconds(schedule.missed_within),
        "overlap": schedule.overlap.value,
        "jitter": seconds(schedule.jitter),
        "pause_after": schedule.pause_after,
        "paused": schedule.paused_at is not None,
        "paused_at": moment(schedule.paused_at),
        "paused_by": schedule.paused_by,
        "next_at": moment(schedule.next_at),
        "last_tick": moment(schedule.last_tick),
        "last_job": schedule.last_job,
        "failures": schedule.failures,
        "created_at": moment(schedule.created_at),
        "updated_at": moment(schedule.updated_at),
        "job": request_dict(schedule.request),
    }


def request_dict(request: Mapping[str, Any]) -> dict[str, Any]:
    """Describe what a schedule enqueues, without secrets."""
    shown = {name: value for name, value in request.items() if not name.startswith("stdin")}
    if "env" in shown:
        shown["env"] = sorted(shown["env"])
    if (length := _stdin_bytes(request)) is not None:
        shown["stdin_bytes"] = length
    return shown


def _stdin_bytes(request: Mapping[str, Any]) -> int | None:
    if "stdin_base64" in request:
        return len(b64decode(request["stdin_base64"]))
    return len(request["stdin"].encode()) if "stdin" in request else None


def why_waiting(queue: "Queue", schedule: Schedule) -> str | None:
    """Say why no time is known at which it has something to do; None if there is one."""
    if schedule.next_at is not None:
        return None
    if schedule.paused_at is not None:
        return f"paused by {schedule.paused_by}"
    last = schedule.last_job if schedule.overlap in WAITING_OVERLAPS else None
    if last is not None and schedule.waits_for(_job(queue, last)):
        return f"a tick waits for job {last} to be over"
    return "its rule has no more ticks"


def _job(queue: "Queue", id: str) -> Any:
    try:
        return queue.get(id)
    except NotFoundError:
        return None


def schedule_whole(queue: "Queue", schedule: Schedule) -> dict[str, Any]:
    """Describe a schedule with what was and what comes."""
    return {
        **schedule_dict(schedule),
        "waits_for": why_waiting(queue, schedule),
        "next": [moment(at) for at in planned_of(queue, schedule)],
        "ticks": [
            {
                "planned": moment(tick.planned),
                "made_at": moment(tick.made_at),
                "job": tick.job,
                "state": state_of_id(queue, tick.job),
            }
            for tick in queue.schedules.ticks(schedule.name, TICKS_SHOWN)
        ],
    }


def planned_of(queue: "Queue", schedule: Schedule) -> list[int]:
    """Return the next times of a schedule."""
    if schedule.paused_at is not None:
        return []
    try:
        return queue.schedules.next(schedule.name, TICKS_SHOWN)
    except QueuectlError:  # a zone that this host doesn't know
        return []


def state_of_id(queue: "Queue", id: str) -> str | None:
    """Return the state of a job; None if it is gone."""
    job = _job(queue, id)
    return None if job is None else str(State(job.state))


# -- settings ---------------------------------------------------------------------------


def source_shown(source: str) -> str:
    """Say where a setting comes from."""
    return "config set" if source == TABLE else source


def setting_dict(name: str, settings: Settings, sources: dict[str, str]) -> dict[str, Any]:
    """Describe a setting. `value` is a number where `text`, which is what one types, is one."""
    key = "max_retries" if name == "max_attempts" else name
    text, spec = settings.text(name), SPECS[key]
    return {
        "name": name,
        "value": _value(text),
        "text": text,
        "source": source_shown(sources.get(key, "default")),
        "default": Settings().text(name),
        "aliases": list(spec.aliases) if key == name else [],
        "takes_effect": spec.taken.value,
        "help": spec.help if key == name else "Runs a job may take: max_retries + 1.",
    }


def _value(text: str) -> str | int | float:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
