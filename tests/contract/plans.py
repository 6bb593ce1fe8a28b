"""What the tests of query plans share: the statements that must not scan, and values for them."""

import json
import re
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from queuectl.facts import Stop
from queuectl.filter import Filter
from queuectl.job import NewJob, State
from queuectl.store import Store
from queuectl.store.dialects import MYSQL, POSTGRESQL, SQLITE, Dialect
from queuectl.store.statements.shared import EDITED, RESTORED
from queuectl.values import replace
from tests.contract.tools import (
    HOUR,
    MINUTE,
    NOW,
    ask_cancel,
    ended,
    finish,
    force_finish,
    foresee,
    release,
    remove,
    renew,
    slowest,
    strays,
    take,
    take_one,
    the,
    waiting,
)

BIG = ("jobs", "attempts", "outputs", "inputs", "tags", "events", "edges")
"""The tables that grow with every job."""

VALUES: dict[str, Any] = {
    "after": 900,
    "last": 850,
    "looks": 19,
    "attempt": 1,
    "before": NOW,
    "beyond": "job 5\U0010ffff",
    "bucket": 5,
    "client": "nobody",
    "crashes": 0,
    "data": b"x",
    "group": "group 1",
    "groups_at": 1 << 60,
    "handler": "",
    "type": "a",
    "devices": None,
    "rows": '[{"queue_": "queue 1", "handler_": "needs:cpu=1", "limit_": 4}]',
    "has_children": 0,
    "met": 1,
    "parent": 5,
    "handlers": ["", "type:a"],
    "first": 820,
    "first_handler": "type:",
    "last_handler": "type;",
    "heed": -1,
    "idle": True,
    "duration_ms": 5,
    "end": "tag\U0010ffff",
    "error": None,
    "excluded": [],
    "exit_code": 0,
    "action": "action 5",
    "failures": 0,
    "final": 1,
    "finished_at": NOW,
    "forced": None,
    "settled_at": NOW,
    "wanted": "ok",
    "host": "host-1",
    "how": "drain",
    "id": "job 5",
    "ids": ["job 5", "job 6"],
    "job": "job 5",
    "keys": "[]",
    "lease": 5,
    "limit": 20,
    "name": "default",
    "node": "node-1",
    "now": NOW,
    "number": 1,
    "outcome": "exited",
    "parked": "key 1",
    "prefix": "job 5",
    "priority": 0,
    "queue": "queue 1",
    "queues": [],
    "ready": None,
    "reason": "x",
    "run_at": None,
    "seq": 5,
    "seqs": [5, 6],
    "serial": 1,
    "signal": None,
    "since": NOW,
    "start": 99,
    "started_at": NOW,
    "state": "pending",
    "stderr_bytes": 0,
    "stdout_bytes": 0,
    "steady": 5,
    "tag": "tag 3",
    "tag0": "tag 3",
    "tag1": "all",
    "timeout": None,
    "until": NOW,
    "was": "pending",
    "worker": 1,
    "workers": [1, 2],
    "version": "1",
    "count": 7,
    "to": -5,
    "vtime": 0,
}
VALUES |= {f"queue{n}": "queue 1" for n in range(32)} | {f"handler{n}": "" for n in range(32)}
VALUES |= {f"limit{n}": 4 for n in range(32)}
VALUES |= {name: None for name in (*EDITED, *RESTORED) if name not in VALUES}
"""A value for every name that a hot statement binds. Lists become what the dialect binds."""

HOT = [
    "READY_QUEUES",
    "READY_LINES",
    "LINE_LENGTH",
    "NEXT_HANDLER",
    "OLDEST",
    "BUSY",
    "NEXT_PARKED_HANDLER",
    "LOOK_LINES",
    "OUTLOOK_LINES",
    "CLAIM_LINES_AT_ONCE",
    "CLAIM_LINES_ALONE",
    "CLAIM_CLASSES_AT_ONCE",
    "CLAIM_CLASSES_ALONE",
    "FIRST_OF_LINES",
    "NEXT_HANDLERS",
    "LOCK_LINE",
    "USING",
    "SET_DEVICES",
    "RESERVATIONS",
    "BEFORE",
    "READY",
    "READY_WHOLE",
    "READY_LIMITED",
    "PARK",
    "UNPARK",
    "FIRST_PARKED",
    "NEXT_PARKED",
    "TAKEN_SLOTS",
    "RUNNING_OF",
    "LONGEST_WAITING",
    "OF_SAME_KEYS",
    "COUNT_SAME_KEYS",
    "JOBS_NAMED",
    "DROP_INPUT",
    "READY_UNLOCKED",
    "LOCK_READY",
    "DUE",
    "PROMOTE",
    "EXPIRED",
    "LOOK",
    "KEEP_LEASE",
    "CLAIM",
    "CLAIM_AT_ONCE",
    "CLAIM_ALONE",
    "CLAIMED",
    "FINISH",
    "FINISH_AND_KEEP",
    "FINISH_COUNTED",
    "PUT_BACK",
    "NEXT_DUE",
    "OUTLOOK",
    "HELD",
    "TO_CANCEL",
    "PAUSES",
    "HOLD_RUN",
    "RUNNING",
    "DATA",
    "SET_DATA",
    "FIND_RUN",
    "BRING_BACK",
    "DROP_OLD_PAUSES",
    "COUNTS",
    "GET",
    "IDS_LIKE",
    "NEXT_TAG",
    "STATES",
    "PLACES",
    "JOBS_LIKE",
    "JOBS_AT",
    "LOCK_JOBS",
    "SLOWEST",
    "APPLY",
    "ASK_CANCEL",
    "REMOVE",
    "EDIT",
    "RESTORE",
    "HELD_BY_HAND",
    "FIRST_READY",
    "FIRST_OF_KEY",
    "MOVE_JOB",
    "MOVE_ATTEMPTS",
    "MOVE_OUTPUTS",
    "MOVE_INPUTS",
    "MOVE_TAGS",
    "PUT_ASIDE",
    "OLD",
    "RENEW",
    "LAST_EVENTS",
    "LAST_REQUESTS",
    "ATTEMPTS",
    "OUTPUT",
    "ADD_INPUT",
    "INPUT",
    "LOCK_PARENTS",
    "HAVE_CHILDREN",
    "SET_PARENTS",
    "LOCK_CHILDREN",
    "LET_GO",
    "OPEN_EDGES",
    "OPEN_PARENTS",
    "EDGES_FROM",
    "SETTLE_EDGES",
    "SETTLE_ALL_EDGES",
    "REOPEN_EDGES",
    "PARENTS",
    "CHILDREN",
    "WAITING_OF_GROUP",
    "AFTER_OWN_GROUP",
    "BLOCKED_OF_GROUPS",
    "RUNNING_OF_GROUPS",
    "CHILDREN_OF_GROUP",
]
COLD = {"ENQUEUE", "ENQUEUE_ONE", "ENQUEUE_RETURNING", "ENQUEUE_ALONE"} | {
    *(
        "SELECT",
        "SELECT_RUNNING",
        "SELECT_TAGGED",
        "SELECT_SORTED",
        "HORIZON",
        # All jobs of a queue.
        "RENAME_JOBS",
        "LEFT_IN_QUEUE",
        # What a change of limits brings back is all of it.
        "UNPARK_ALL",
        "PRUNABLE",
        "STRAYS",
        "TEXTS",
        # A check of the whole store, and a copy of it, read all of it.
        "WRONG_COUNTS",
        "ORPHANED_ATTEMPTS",
        "ORPHANED_OUTPUTS",
        "ORPHANED_INPUTS",
        "ORPHANED_TAGS",
        "ORPHANED_RESULTS",
        "ORPHANED_PROGRESS",
        "ORPHANED_STEPS",
        "ORPHANED_SLEEPS",
        "ORPHANED_EDGES",
        "WRONG_PARENTS",
        "UNLINKED_PARENTS",
        "WRONG_GROUPS",
        # Groups are few.
        "DROP_GROUPS",
        "SHORT_INPUTS",
        "HELD_BY_NOBODY",
        "HOLDERS",
    )
}
"""Statements about jobs that are checked in another way, or that may take their time."""
SELECTED: dict[str, tuple[str, list[str]]] = {
    "SELECT by queue and state": ("SELECT", ["WHERE_QUEUE", "WHERE_STATE"]),
    "SELECT what is pending": ("SELECT", ["WHERE_QUEUE", "WHERE_PENDING"]),
    "SELECT by queue what runs": ("SELECT_RUNNING", ["WHERE_QUEUE"]),
    "SELECT the next page": ("SELECT", ["WHERE_QUEUE", "WHERE_STATE", "WHERE_BEFORE"]),
    "SELECT the next pending": ("SELECT", ["WHERE_QUEUE", "WHERE_PENDING", "WHERE_BEFORE"]),
    "SELECT all, next page": ("SELECT", ["WHERE_BEFORE"]),
    "SELECT all, oldest first": ("SELECT", ["WHERE_AFTER"]),
    "SELECT by type, next page": ("SELECT", ["WHERE_TYPE", "WHERE_BEFORE"]),
    "SELECT by type and state": ("SELECT", ["WHERE_QUEUE", "WHERE_STATE", "WHERE_TYPE"]),
    "SELECT by type and tag": ("SELECT_TAGGED", ["WHERE_TYPE"]),
    "SELECT by group": ("SELECT", ["WHERE_GROUP"]),
    "SELECT by group, next page": ("SELECT", ["WHERE_GROUP", "WHERE_BEFORE"]),
    "HORIZON of a group": ("HORIZON", ["WHERE_GROUP", "WHERE_BEFORE"]),
    "SELECT by tag": ("SELECT_TAGGED", []),
    "SELECT by tag, next page": ("SELECT_TAGGED", ["WHERE_TAG_BEFORE"]),
    "SELECT by two tags": ("SELECT_TAGGED", ["WHERE_TAGGED", "WHERE_STATE"]),
    "SELECT up to a horizon": ("SELECT", ["WHERE_QUEUE", "WHERE_STATE", "WHERE_DOWN_TO"]),
    "SELECT by tag up to one": ("SELECT_TAGGED", ["WHERE_TAG_DOWN_TO", "WHERE_TYPE"]),
    "HORIZON of all": ("HORIZON", ["WHERE_BEFORE"]),
    "HORIZON by queue and state": ("HORIZON", ["WHERE_QUEUE", "WHERE_STATE", "WHERE_BEFORE"]),
    "HORIZON of what is pending": ("HORIZON", ["WHERE_QUEUE", "WHERE_PENDING", "WHERE_BEFORE"]),
    "HORIZON of a tag": ("HORIZON_TAGGED", ["WHERE_TAG_BEFORE"]),
    "EVENTS": ("EVENTS", ["EVENT_BEFORE"]),
    "EVENTS, the next newer": ("EVENTS", ["EVENT_AFTER"]),
    "EVENTS of a job": ("EVENTS", ["EVENT_OF_JOB", "EVENT_BEFORE"]),
    "EVENTS of an action": ("EVENTS", ["EVENT_OF_ACTION", "EVENT_BEFORE"]),
    "HORIZON of events": ("EVENTS_HORIZON", ["EVENT_BEFORE"]),
    "HORIZON of events of a job": ("EVENTS_HORIZON", ["EVENT_OF_JOB", "EVENT_BEFORE"]),
}
"""Listings: a statement, and its conditions."""


def statements(dialect: Dialect) -> ModuleType:
    """Return all statements of a database."""
    return import_module(f"queuectl.store.statements.{dialect.name}")


def rendered(dialect: Dialect, name: str) -> str:
    """Return the text of a hot statement or a listing."""
    known = vars(statements(dialect))
    if name not in SELECTED:
        return dialect.render(known[name])
    statement, conditions = SELECTED[name]
    page = [known[name] for name in conditions if "_TAG_" in name]
    where = [known[name] for name in conditions if "_TAG_" not in name]
    text: str = known[statement]
    for hole, filling in {
        "page": " AND ".join(page) or "1 = 1",
        "conditions": " AND ".join(where) or "1 = 1",
        "direction": "ASC" if {"WHERE_AFTER", "EVENT_AFTER"} & {*conditions} else "DESC",
        "types": ":type",
        "groups": ":group",
        "n": "1",
    }.items():
        text = text.replace(f"{{{hole}}}", filling)
    return dialect.render(text)


def bound(dialect: Dialect, text: str, **other: Any) -> dict[str, Any]:
    """Return the values that a rendered statement binds."""
    pattern = r"%\(([a-z_0-9]+)\)s" if dialect.percent else r"(?<!:):([a-z_0-9]+)"
    values = VALUES | other
    row = {f"{name}_": value for name, value in values.items() if not isinstance(value, bytes)}
    values["rows"] = json.dumps([row])
    if dialect.name == MYSQL.name:
        values["handlers"] = json.dumps(values["handlers"])
    return {
        name: dialect.bind_list(values[name]) if isinstance(values[name], list) else values[name]
        for name in re.findall(pattern, text)
    }


def about_jobs() -> set[str]:
    """Return the names of all statements that touch jobs, in any database."""
    return {
        name
        for dialect in (SQLITE, POSTGRESQL, MYSQL)
        for name, text in vars(statements(dialect)).items()
        if name.isupper() and isinstance(text, str) and "{jobs}" in text
        if not name.startswith("WHERE_")
    }


Verb = Callable[[Store], Any]
VERBS: dict[str, Verb] = {
    "get": lambda s: s.jobs.get("job 5"),
    "ids_like": lambda s: s.jobs.like("job 55"),
    "tags_like": lambda s: s.jobs.like("tag", tags=True),
    "list": lambda s: s.jobs.select(Filter(), limit=20),
    "list, next page": lambda s: s.jobs.select(Filter(), limit=20, after=1_000),
    "list a state": lambda s: s.jobs.select(Filter(states=(State.DEAD,)), limit=20),
    "list a queue": lambda s: s.jobs.select(Filter(queues=("queue 1",)), limit=20),
    "list what runs": lambda s: s.jobs.select(Filter(states=(State.PROCESSING,)), limit=20),
    "list a state that is rare": lambda s: s.jobs.select(
        Filter(states=(State.CANCELLED,)), limit=5
    ),
    "list a state that is nowhere": lambda s: s.jobs.select(
        Filter(states=(State.BLOCKED,)), limit=20
    ),
    "list a tag": lambda s: s.jobs.select(Filter(tags=("tag 3",)), limit=20),
    "list a tag, next page": lambda s: s.jobs.select(
        Filter(tags=("tag 3",)), limit=20, after=1_000
    ),
    "list a group": lambda s: s.jobs.select(Filter(groups=("group 1",)), limit=20),
    "list two tags": lambda s: s.jobs.select(Filter(tags=("all", "tag 3")), limit=20),
    "states": lambda s: s.jobs.states(["job 1", "job 2"]),
    "counts": lambda s: s.jobs.counts(),
    "slowest": lambda s: slowest(s, 5),
    "next_due": lambda s: s.runs.outlook().due,
    "waiting": lambda s: waiting(s),
    "outlook": lambda s: foresee(s, [], now=NOW),
    "held": lambda s: s.runs.held("node-2"),
    "strays": lambda s: strays(s),
    "to_cancel": lambda s: s.runs.held("node-1", to_cancel=True),
    "oldest": lambda s: s.runs.oldest("queue 1", [0, 5, 6], limit=5),
    "busy": lambda s: s.runs.busy(),
    "attempts": lambda s: s.history.attempts(the(s, "job 5")),
    "output": lambda s: s.history.output(the(s, "job 5"), 1),
    "stdin": lambda s: s.jobs.stdin(replace(the(s, "job 5"), stdin_bytes=8)),
    "enqueue with stdin": lambda s: s.jobs.enqueue_one(NewJob(command="x", stdin=b"x"), now=NOW),
    "events": lambda s: s.history.events(limit=20),
    "events, next page": lambda s: s.history.events(limit=20, before=1_000),
    "events of a job": lambda s: s.history.events("job 5"),
    "events, the next newer": lambda s: s.history.events(limit=20, after=1_000, oldest=True),
    "renew": lambda s: renew(s, "node-1", until=s.clock.steady() + HOUR),
    "ask_stop": lambda s: s.nodes.ask_stop("nobody", Stop.DRAIN),
    "enqueue": lambda s: s.jobs.enqueue([NewJob(command="x", tags=("all",))], now=NOW),
    "enqueue with an id": lambda s: s.jobs.enqueue(
        [NewJob(id="job 5", command="x"), NewJob(id=None, command="x")],
        now=NOW,
        skip_duplicates=True,
    ),
    "claim": lambda s: take(s, 1),
    "claim from one queue": lambda s: take(s, 1, queues=["queue 2"]),
    "claim and put back": lambda s: release(s, [take_one(s)], now=NOW),
    "claim and finish": lambda s: finish(s, [ended(take_one(s), now=NOW + MINUTE)]),
    "cancel": lambda s: ask_cancel(s, the(s, "job 5"), "x", now=NOW),
    "force_finish": lambda s: force_finish(s, the(s, "job 5"), "1", now=NOW),
    "remove": lambda s: remove(s, s.jobs.select(Filter(states=(State.DEAD,)), limit=1)[0]),
    "prune": lambda s: s.jobs.prune(State.COMPLETED, NOW + HOUR, limit=3),
    "tidy": lambda s: s.tidy(now=NOW),
}
"""What a store does all day, each done once."""


def names(dialect: Dialect) -> list[str]:
    """Return the names of the hot statements and listings of a database."""
    return [
        name for name in (*HOT, *SELECTED) if name in SELECTED or name in vars(statements(dialect))
    ]
