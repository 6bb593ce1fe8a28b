"""The jobs that histories are about, with texts that databases take for each other."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st

from queuectl.job import NewJob, Strategy
from queuectl.uniqueness import OnDuplicate, Until

# Texts that databases like to take for each other, or for something else.
IDS = ("a", "A", "a ", "á", "a\u0301", "ab", "b%", "b_", "b\\", "ß", "ss", "🎈", "\uff21")
COMMANDS = (
    "echo Hello",
    "ÉCHO 100%_done",
    'it\'s "so"',
    "back\\slash",
    "a\ttab\nline",
    "🎈 straße",
)
QUEUES = ("one", "One", "zwei ü")
TAGS = ("red", "Red", "red ", "grün", '"quoted"', "🎈")
NODES = ("node-1", "node-2", "node-3")
NAMES = ("max-retries", "Max-Retries", "jitter")

SHAPES: dict[str, Sequence[Any]] = {
    "run_at": (None, 0, 0, 0, None, 5, 30),
    "expires_at": (None, None, None, 3, 40),
    "queue": QUEUES,
    "priority": (0, 0, 1, -1, -(2**31), 2**31 - 1),
    "max_retries": (None, 0, 1),
    "timeout": (None, 0, 1_000),
    "retry_delay": (None, 0, 10),
    "backoff": (None, *Strategy),
    "max_backoff": (None, 20),
    "backoff_base": (None, 1.5, 1e9),
}
"""What the fields of a job may hold; times are counted from now."""
TRIMMINGS: dict[str, Sequence[Any]] = {
    "command": (*COMMANDS, *([None] * len(COMMANDS))),
    "argv": (*((one,) for one in COMMANDS), ("🎈 straße", "echo Hello"), ("", 'it\'s "so"')),
    "tags": ((), (), *((tag,) for tag in TAGS), ("red", "Red"), ("🎈", "grün", "🎈")),
    "cwd": (None, "/tmp/ü"),
    "env": ({}, {"A": "1", "B": "ü\n"}),
    "env_all": (None, None, True),
    "shell": (None, None, "bash", "/opt/ü/zsh"),
    "stdin": (None, None, None, b"\0\xff'\\ \xc3\xbc"),
    "keys": ((), (), (), ("k",), ("K",), ("k", "ü=1"), ("ü=1",)),
    "unique": (*([None] * 5), "u", "u", "U", "ü "),
    "unique_until": (None, Until.START, Until.END),
    "unique_for": (None, None, 10),
    "on_duplicate": (None, *OnDuplicate),
    "max_wait": (None, 20),
    "on_success": (None, None, None, "echo süß"),
    "on_failure": (None, None, "echo 🎈"),
    "on_dead": (None, None, 'it\'s "dead"'),
    "type": (None, None, None, "", "a", "ü"),
    "traceparent": (None, None, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    "tracestate": (None, None, "a=1,b=2"),
    "after": (*([()] * 6), ("a",), ("a:any", "A"), ("b%:fail",), ("ab", "ß:any"), ("🎈",)),
    "after_group": (*([()] * 7), ("g",), ("G:any",), ("g", "ü 🎈")),
    "group": (None, None, None, "g", "G", "ü 🎈"),
    "max_fails": (None, None, None, 1, 2),
    "if_parent_fails": (None, None, "cancel", "run"),
    "needs": (*([None] * 5), "cpu=1", "cpu=2,gpu=0.5", "gpu=1"),
    "requires": (*([()] * 5), ("ssd",)),
}


def _many(fields: dict[str, Sequence[Any]]) -> int:
    many = 1
    for values in fields.values():
        many *= len(values)
    return many


def _chosen(number: int, fields: dict[str, Sequence[Any]]) -> dict[str, Any]:
    """Read a number as a choice of a value for each field."""
    chosen = {}
    for name, values in fields.items():
        number, n = divmod(number, len(values))
        chosen[name] = values[n]
    return chosen


def _job(now: int, id: str, shape: int, trimmings: int) -> NewJob:
    fields = _chosen(shape, SHAPES) | _chosen(trimmings, TRIMMINGS)
    for time in ("run_at", "expires_at"):
        if fields[time] is not None:
            fields[time] += now
    if fields["type"] is not None:
        fields |= {"command": None, "argv": None, "data": b"\0\xff" * len(fields["type"])}
    elif fields["command"] is not None:
        fields["argv"] = None
    return NewJob(id=id, **fields)


# Few draws for many fields: to draw is most of what a history costs.
_IDS = st.sampled_from(IDS)
_SHAPES = st.integers(0, _many(SHAPES) - 1)
_TRIMMINGS = st.integers(0, _many(TRIMMINGS) - 1)


def new_jobs(now: int) -> st.SearchStrategy[NewJob]:
    """A job with something in every field."""
    return st.builds(partial(_job, now), _IDS, _SHAPES, _TRIMMINGS)
