"""JSON Schemas of what the API takes and answers, made from the tables that the code uses.

Those of jobs come from `fields.py`, those of settings from `settings.py`. What is only told, in a
form that `report` or `views` makes, is described here; a test holds both against each other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from queuectl.access import Kind, Role
from queuectl.fields import REQUESTED, Field
from queuectl.job import State
from queuectl.job_json import KINDS
from queuectl.request import (
    LARGEST_PRIORITY,
    LONGEST_COMMAND,
    LONGEST_ID,
    LONGEST_NAME,
    MOST_GROUPS,
    MOST_KEYS,
    MOST_PARENTS,
    MOST_TAGS,
)
from queuectl.resources import MOST_LABELS
from queuectl.webhook import News

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
FLAG: Json = {"type": "boolean"}
COUNT: Json = {"type": "integer", "minimum": 0}
NUMBER: Json = {"type": "number"}
ANY: Json = {}
TIME: Json = {"type": "string", "format": "date-time"}
NAME: Json = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
ID: Json = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
SECONDS: Json = {"type": "number", "minimum": 0}
DURATION: Json = {
    "type": ["string", "number"],
    "description": "A duration: '90s', '1h30m', '7d', or a number of seconds.",
}
MOMENT: Json = {
    "type": ["string", "integer"],
    "description": "A time: ISO 8601, '+5m', 'tomorrow 09:00', or milliseconds since 1970.",
}
STATE: Json = {"type": "string", "enum": [state.value for state in State]}
ROLES: Json = {"type": "array", "items": {"type": "string", "enum": list(Role)}, "minItems": 1}


def or_null(schema: Json) -> Json:
    """Return a schema that allows null as well."""
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def array(items: Mapping[str, Any]) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def by_name(values: Json) -> Json:
    """Return the schema of an object with any names."""
    return {"type": "object", "additionalProperties": values}


def takes(required: Json, optional: Json | None = None) -> Json:
    """Return the schema of an object that is sent to us: it has these fields, and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def tells(fields: Json) -> Json:
    """Return the schema of an object that we answer: it has these fields, and later maybe more."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def ref(name: str) -> Json:
    """Refer to a schema of this module by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


# -- jobs that are asked for ------------------------------------------------------------

_ASKED: dict[str, Json] = {
    "text": {"type": "string", "minLength": 1, "maxLength": LONGEST_COMMAND},
    "arguments": {"type": "array", "items": TEXT, "minItems": 1},
    "id": ID,
    "name": NAME,
    "integer": {"type": "integer", "minimum": -LARGEST_PRIORITY, "maximum": LARGEST_PRIORITY},
    "count": COUNT,
    "runs": {"type": "integer", "minimum": 1},
    "number": NUMBER,
    "time": MOMENT,
    "duration": DURATION,
    "milliseconds": COUNT,
    "limit": DURATION,
    "wait": DURATION,
    "strategy": {"type": "string", "enum": ["exponential", "linear", "fixed"]},
    "folder": TEXT,
    "program": TEXT,
    "variables": by_name(TEXT),
    "flag": FLAG,
    "bytes": TEXT,
    "base64": {"type": "string", "contentEncoding": "base64"},
    "type": NAME,
    "data": TEXT,
    "data_base64": {"type": "string", "contentEncoding": "base64"},
    "labels": {"type": ["array", "string"], "items": NAME, "maxItems": MOST_TAGS},
    "keys": {"type": ["array", "string"], "items": NAME, "maxItems": MOST_KEYS},
    "parents": {"type": ["array", "string"], "items": TEXT, "maxItems": MOST_PARENTS},
    "groups": {"type": ["array", "string"], "items": TEXT, "maxItems": MOST_GROUPS},
    "needs": {
        "type": ["object", "string"],
        "additionalProperties": {"type": ["number", "string"]},
    },
    "required": {"type": ["array", "string"], "items": NAME, "maxItems": MOST_LABELS},
    "parameters": by_name({"type": ["string", "integer"]}),
    "at_once": TEXT,
    "if_fails": {"type": "string", "enum": ["block", "cancel", "run"]},
    "until": {"type": "string", "enum": ["start", "end"]},
    "collision": {"type": "string", "enum": ["return", "reject", "replace", "debounce"]},
    "hook": {"type": ["string", "boolean"]},
    "trace": TEXT,
    "trace_state": TEXT,
}
"""How each kind of field is asked for."""


_BOUNDS: dict[str, Json] = {
    "memory": {"type": ["string", "integer"], "description": "512M, 1.5Gi, or bytes."},
    "cpus": {"type": ["number", "string"]},
    "cpu_time": DURATION,
    "nofile": {"type": "integer"},
    "nproc": {"type": "integer"},
    "nice": {"type": "integer", "minimum": -20, "maximum": 19},
    "user": TEXT,
    "read_only_root": FLAG,
    "no_network": FLAG,
    "best_effort": FLAG,
    "image": TEXT,
    "mounts": {"type": ["array", "string"], "items": TEXT},
}
"""How each bound is asked for. Null says nothing, and `none` takes one away."""


def _kind_of(field: Field) -> Json:
    if field.kind == "bounds":
        return takes({}, {name: or_null(form) for name, form in _BOUNDS.items()})
    return _BOUNDS[field.name] if field.within else _ASKED[field.kind]


def _asked(field: Field) -> Json:
    about = field.help.rstrip() or (
        "" if not field.gives else f"Another way to give {field.gives}."
    )
    made = or_null(_kind_of(field))
    return {**made, "description": about} if about else made


def _new_job(fields: Sequence[Field]) -> Json:
    return {
        "type": "object",
        "properties": {field.name: _asked(field) for field in fields},
        "additionalProperties": False,
        "description": "What is to be run: a command, argv, or data for a handler of a type.",
    }


# -- jobs that are told -----------------------------------------------------------------

_TOLD: dict[str, Json] = {
    "text": TEXT,
    "arguments": array(TEXT),
    "id": TEXT,
    "name": TEXT,
    "integer": {"type": "integer"},
    "count": COUNT,
    "number": NUMBER,
    "time": TIME,
    "duration": SECONDS,
    "limit": SECONDS,
    "wait": SECONDS,
    "strategy": TEXT,
    "folder": TEXT,
    "program": TEXT,
    "variables": array(TEXT),
    "bounds": {"type": "object"},
    "flag": FLAG,
    "type": TEXT,
    "labels": array(TEXT),
    "keys": array(TEXT),
    "parents": array(TEXT),
    "groups": array(TEXT),
    "needs": by_name(NUMBER),
    "required": array(TEXT),
    "devices": by_name(array(COUNT)),
    "parameters": by_name({"type": ["string", "integer"]}),
    "if_fails": TEXT,
    "until": TEXT,
    "collision": TEXT,
    "hook": TEXT,
    "state": STATE,
    "size": COUNT,
    "trace": TEXT,
    "trace_state": TEXT,
}
_BESIDES: Json = {
    "task": or_null(TEXT),
    "at_once": or_null(TEXT),
    "data": or_null(TEXT),
    "data_base64": or_null({"type": "string", "contentEncoding": "base64"}),
    "type": or_null(TEXT),
    "shell": or_null(TEXT),
    "schedule": or_null(TEXT),
    "scheduled_for": or_null(TIME),
    "paused_at": or_null(TIME),
    "paused_by": or_null(TEXT),
    "held": FLAG,
    "hook": or_null(TEXT),
    "hook_of": or_null(TEXT),
    "trace_id": or_null(TEXT),
}
"""What `job_dict` tells besides the fields."""
_ALWAYS = ("id", "queue", "state", "priority", "attempts", "failures", "crashes", "created_at")


def _job() -> Json:
    told = {
        name: _TOLD[kind] if name in _ALWAYS else or_null(_TOLD[kind])
        for name, kind in KINDS.items()
        if kind in _TOLD
    }
    return tells({**told, **_BESIDES})


PROGRESS = or_null(
    tells(
        {
            "percent": or_null({"type": "number", "minimum": 0, "maximum": 100}),
            "note": TEXT,
            "at": or_null(TIME),
        }
    )
)
SLEEP = or_null(
    tells({"step": TEXT, "awaits": or_null(TEXT), "until": or_null(TIME), "since": or_null(TIME)})
)

CHANGE = tells(
    {
        "id": TEXT,
        "queue": or_null(TEXT),
        "command": or_null(TEXT),
        "was": or_null(STATE),
        "state": or_null(STATE),
        "node": or_null(TEXT),
        "error": or_null(TEXT),
        "changes": by_name(tells({"was": ANY, "is": ANY})),
    }
)
REASON = tells(
    {
        "cause": TEXT,
        "text": TEXT,
        "remedy": or_null(TEXT),
        "until": or_null(TIME),
        "jobs": array(TEXT),
        "groups": array(TEXT),
    },
)
ATTEMPT = tells(
    {
        "number": COUNT,
        "node": or_null(TEXT),
        "host": or_null(TEXT),
        "worker": or_null(COUNT),
        "started_at": or_null(TIME),
        "finished_at": or_null(TIME),
        "duration_ms": or_null(COUNT),
        "outcome": TEXT,
        "exit_code": or_null({"type": "integer"}),
        "signal": or_null({"type": "integer"}),
        "error": or_null(TEXT),
        "stdout_bytes": COUNT,
        "stderr_bytes": COUNT,
        "peak_memory": or_null(COUNT),
        "cpu_ms": or_null(COUNT),
        "read_bytes": or_null(COUNT),
        "written_bytes": or_null(COUNT),
        "noted": or_null(TEXT),
    }
)
EVENT = tells(
    {
        "seq": COUNT,
        "at": TIME,
        "kind": TEXT,
        "job": or_null(TEXT),
        "node": or_null(TEXT),
        "who": TEXT,
        "detail": or_null(TEXT),
        "action": or_null(TEXT),
        "undo_until": or_null(TIME),
    }
)
RELATIVE = tells(
    {
        "id": TEXT,
        "group": FLAG,
        "wanted": TEXT,
        "state": or_null(STATE),
        "came_to": or_null(STATE),
        "met": FLAG,
        "command": or_null(TEXT),
        "queue": or_null(TEXT),
    }
)
GRAPH = tells(
    {
        "id": TEXT,
        "jobs": array(
            tells(
                {
                    "id": TEXT,
                    "group": FLAG,
                    "state": or_null(STATE),
                    "command": TEXT,
                    "queue": or_null(TEXT),
                    "reason": or_null(TEXT),
                    "root_cause": FLAG,
                }
            )
        ),
        "edges": array(
            tells(
                {
                    "parent": TEXT,
                    "child": TEXT,
                    "wanted": TEXT,
                    "came_to": or_null(STATE),
                    "met": FLAG,
                    "in_vain": FLAG,
                }
            )
        ),
        "whole": FLAG,
    }
)
STEP = tells({"name": TEXT, "attempt": COUNT, "done_at": TIME, "output": TEXT})
OUTPUT = tells(
    {
        "job": ref("Job"),
        "attempt": or_null(COUNT),
        "run": or_null(ref("Attempt")),
        "live": FLAG,
        "whole": FLAG,
        **{
            field: schema
            for name in ("stdout", "stderr")
            for field, schema in (
                (name, TEXT),
                (f"{name}_base64", or_null({"type": "string", "contentEncoding": "base64"})),
                (f"{name}_bytes", COUNT),
            )
        },
    }
)
_STATES = by_name(COUNT)
LIMITS: Json = {"type": "object", "description": "What a queue allows: see docs/limits.md."}
QUEUE = {
    "name": TEXT,
    "waiting": COUNT,
    "running": COUNT,
    "completed": COUNT,
    "dead": COUNT,
    "cancelled": COUNT,
    "paused": FLAG,
    "paused_at": or_null(TIME),
    "paused_by": or_null(TEXT),
    "states": _STATES,
    "limits": LIMITS,
}
KEY = tells(
    {
        "key": TEXT,
        "running": COUNT,
        "waiting": COUNT,
        "limit": or_null(COUNT),
        "weight": or_null(NUMBER),
    }
)
NODE = tells(
    {
        "id": TEXT,
        "host": TEXT,
        "pid": COUNT,
        "workers": COUNT,
        "running": COUNT,
        "queues": array(TEXT),
        "excluded": array(TEXT),
        "weights": by_name(NUMBER),
        "in_order": FLAG,
        "handlers": array(TEXT),
        "labels": array(TEXT),
        "resources": by_name(
            {
                "type": "object",
                "required": ["total", "used", "free"],
                "properties": {
                    "total": NUMBER,
                    "used": NUMBER,
                    "free": NUMBER,
                    "devices": by_name(NUMBER),
                },
            }
        ),
        "alive": FLAG,
        "stopping": or_null(TEXT),
        "version": TEXT,
        "started_at": TIME,
        "seen_at": TIME,
    }
)
STATUS = tells(
    {
        "database": TEXT,
        "total": COUNT,
        "states": _STATES,
        "queues": array(tells({"name": TEXT, "paused": FLAG, "states": _STATES})),
        "nodes": array(ref("Node")),
        "workers": COUNT,
        "next_due": or_null(TIME),
        "unserved": by_name(COUNT),
        "paused_jobs": array(
            tells({"id": TEXT, "paused_at": or_null(TIME), "paused_by": or_null(TEXT)})
        ),
        "held": by_name(COUNT),
        "unhandled": by_name(COUNT),
    }
)
_TIMES = tells(
    {
        "count": COUNT,
        **{
            f"{name}_ms": or_null(NUMBER)
            for name in ("average", "median", "p95", "p99", "min", "max")
        },
    }
)
_SPREAD = tells(
    {"count": COUNT, "median": or_null(COUNT), "p95": or_null(COUNT), "max": or_null(COUNT)}
)
STATS = tells(
    {
        "total": COUNT,
        "states": _STATES,
        "success_rate": or_null(NUMBER),
        "run_time": _TIMES,
        "wait_time": _TIMES,
        "runs": by_name(COUNT),
        "slowest": array(tells({"id": TEXT, "command": TEXT, "duration_ms": or_null(COUNT)})),
        "priorities": array(tells({"priority": {"type": "integer"}, "jobs": COUNT})),
        "with_timeout": COUNT,
        "peak_memory": _SPREAD,
        "cpu_ms": _SPREAD,
    }
)
SCHEDULE = {
    "name": TEXT,
    "rule": TEXT,
    "in_words": or_null(TEXT),
    "tz": TEXT,
    "missed": TEXT,
    "missed_within": or_null(SECONDS),
    "overlap": TEXT,
    "jitter": or_null(SECONDS),
    "pause_after": or_null(COUNT),
    "paused": FLAG,
    "paused_at": or_null(TIME),
    "paused_by": or_null(TEXT),
    "next_at": or_null(TIME),
    "last_tick": or_null(TIME),
    "last_job": or_null(TEXT),
    "failures": COUNT,
    "created_at": TIME,
    "updated_at": TIME,
    "job": by_name(ANY),
}
TICK = tells({"planned": TIME, "made_at": or_null(TIME), "job": TEXT, "state": or_null(STATE)})
SETTING = tells(
    {
        "name": TEXT,
        "value": {"type": ["string", "number", "null"]},
        "text": TEXT,
        "source": TEXT,
        "default": TEXT,
        "aliases": array(TEXT),
        "takes_effect": TEXT,
        "help": TEXT,
    }
)
EMITTED = tells({"name": TEXT, "payload": ANY, "emitted_at": TIME, "who": TEXT})
FINDING = tells({"level": TEXT, "subject": TEXT, "text": TEXT, "advice": or_null(TEXT)})
TOKEN = tells(
    {
        "id": TEXT,
        "kind": {"type": "string", "enum": list(Kind)},
        "name": TEXT,
        "roles": ROLES,
        "queues": array(TEXT),
        "created_at": TIME,
        "created_by": TEXT,
        "expires_at": or_null(TIME),
        "expired": FLAG,
        "used_at": or_null(TIME),
    }
)
NEWS: Json = {
    "type": "array",
    "items": {"type": "string", "enum": list(News)},
    "minItems": 1,
}
WEBHOOK = {
    "name": TEXT,
    "url": TEXT,
    "on": NEWS,
    "queues": array(TEXT),
    "via": TEXT,
    "allow_private": FLAG,
    "data": FLAG,
    "paused": FLAG,
    "paused_at": or_null(TIME),
    "paused_by": or_null(TEXT),
    "created_at": TIME,
    "updated_at": TIME,
}
DELIVERY = tells(
    {
        "id": TEXT,
        "job": or_null(TEXT),
        "state": STATE,
        "attempts": COUNT,
        "error": or_null(TEXT),
        "created_at": TIME,
        "finished_at": or_null(TIME),
    }
)
TESTED = tells(
    {
        "name": TEXT,
        "delivered": FLAG,
        "status": or_null(COUNT),
        "reason": or_null(TEXT),
        "answer": or_null(TEXT),
        "error": or_null(TEXT),
        "duration_ms": COUNT,
    }
)
GROUP = {
    "name": TEXT,
    "state": {"type": "string", "enum": ["open", "completed", "dead", "cancelled"]},
    **dict.fromkeys(("jobs", "done", "open", "completed", "dead", "cancelled"), COUNT),
    "not_needed": COUNT,
    "max_fails": or_null(COUNT),
    "stopped": FLAG,
    "stopped_at": or_null(TIME),
    "made_at": TIME,
    "over_at": or_null(TIME),
    "rounds": COUNT,
    "left": or_null(SECONDS),
    "stuck": FLAG,
    "running": COUNT,
}
ALONG = tells({"jobs": COUNT, "ids": array(TEXT), "whole": FLAG})
ROOT = tells(
    {
        "id": TEXT,
        "group": FLAG,
        "state": or_null(STATE),
        "stuck": FLAG,
        "reason": or_null(TEXT),
        "child": TEXT,
    }
)
GROUP_RESULT = tells(
    {
        "id": TEXT,
        "parameters": {"type": "object"},
        "state": STATE,
        "exit_code": or_null({"type": "integer"}),
        "duration": or_null(SECONDS),
        "peak_memory": or_null(COUNT),
        "result": ANY,
        "last_line": or_null(TEXT),
    }
)
PROBLEM = tells({"type": TEXT, "title": TEXT, "status": COUNT, "detail": TEXT})
PROBLEM["properties"]["field"] = TEXT | {"description": "What of the body it is about."}
_JOB = _job()

SCHEMAS: dict[str, Json] = {
    "Along": ALONG,
    "Attempt": ATTEMPT,
    "Change": CHANGE,
    "Delivery": DELIVERY,
    "Emitted": EMITTED,
    "Event": EVENT,
    "Finding": FINDING,
    "Group": tells(GROUP),
    "GroupWhole": tells(
        {
            **GROUP,
            "waits_for": array(ref("Reason")),
            "kept_by": array(ref("Root")),
            "blocked": COUNT,
            "blocked_more": FLAG,
            "children": array(ref("Relative")),
            "on_done": or_null(tells({"id": TEXT, "state": STATE})),
        }
    ),
    "GroupResult": GROUP_RESULT,
    "Job": _JOB,
    "Graph": GRAPH,
    "JobWhole": tells(
        {
            **_JOB["properties"],
            "waits_for": array(ref("Reason")),
            "runs": array(ref("Attempt")),
            "events": array(ref("Event")),
            "hooks": array(tells({"id": TEXT, "state": STATE})),
            "progress": PROGRESS,
            "result": ANY,
            "sleep": SLEEP,
            "parents": array(ref("Relative")),
            "children": array(ref("Relative")),
        }
    ),
    "NewJob": _new_job(REQUESTED),
    "Node": NODE,
    "Output": OUTPUT,
    "Problem": PROBLEM,
    "Queue": tells(QUEUE),
    "QueueWhole": tells(
        {**QUEUE, "workers": COUNT, "nodes": array(TEXT), "keys": array(ref("Key"))}
    ),
    "Key": KEY,
    "Reason": REASON,
    "Relative": RELATIVE,
    "Root": ROOT,
    "Schedule": tells(SCHEDULE),
    "ScheduleWhole": tells(
        {
            **SCHEDULE,
            "waits_for": or_null(TEXT),
            "next": array(or_null(TIME)),
            "ticks": array(ref("Tick")),
        }
    ),
    "Setting": SETTING,
    "Stats": STATS,
    "Status": STATUS,
    "Step": STEP,
    "Tested": TESTED,
    "Tick": TICK,
    "Token": TOKEN,
    "Webhook": tells(WEBHOOK),
    "WebhookWhole": tells({**WEBHOOK, "deliveries": array(ref("Delivery"))}),
}
"""By their names, which references use."""


def page_of(name: str, **places: Json) -> Json:
    """Return the schema of a page of a list: `next` is what to ask for behind it."""
    return tells({"items": array(ref(name)), "next": or_null(TEXT), **places})
