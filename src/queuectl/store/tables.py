"""The tables that make up a queue, with all their columns: what a copy has to take along."""

from typing import Any

from queuectl.fields import FIELDS
from queuectl.job import JOB_COLUMNS
from queuectl.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that is copied: all of its columns that aren't made from others."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    wide: tuple[str, ...] = ()
    """Columns in which a row may have megabytes."""
    numbered: bool = False
    """Whether the database gives out the key."""

    def key_of(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what a row is ordered by."""
        return tuple(row[self.columns.index(name)] for name in self.key)


TABLES = (
    Table(
        name="jobs",
        key=("seq",),
        columns=(*JOB_COLUMNS, "ready"),
        wide=tuple(field.column for field in FIELDS if field.is_long),
        numbered=True,
    ),
    Table(
        name="attempts",
        key=("seq", "number"),
        columns=tuple(
            "seq number node host worker started_at finished_at duration_ms outcome exit_code"
            " signal error stdout_bytes stderr_bytes peak_memory cpu_ms read_bytes written_bytes"
            " noted".split()
        ),
    ),
    Table(
        name="outputs",
        key=("seq", "number"),
        columns=("seq", "number", "stdout", "stderr"),
        wide=("stdout", "stderr"),
    ),
    Table(
        name="edges",
        key=("child", "parent"),
        columns=("child", "parent", "parent_id", "wanted", "came_to", "met"),
    ),
    Table(name="untold", key=("seq",), columns=("seq", "id", "state", "action", "how")),
    Table(
        name="groups",
        key=("seq",),
        columns=tuple(
            (
                "seq name made_at jobs open completed dead cancelled unneeded max_fails stopped_at"
                " stopping over_at rounds has_children"
            ).split()
        ),
        numbered=True,
    ),
    Table(name="inputs", key=("seq", "start"), columns=("seq", "start", "data"), wide=("data",)),
    Table(
        name="queues",
        key=("name",),
        columns=("name", "paused_at", "paused_by", "limits", "vtime", "closed_until"),
    ),
    Table(
        name="keys",
        key=("queue", "name"),
        columns=("queue", "name", "vtime", "meters", "used_until", "opens_at"),
    ),
    Table(name="uniques", key=("name",), columns=("name", "job", "starts", "until", "since")),
    Table(name="pauses", key=("seq", "number"), columns=("seq", "number", "at", "who")),
    Table(name="results", key=("seq",), columns=("seq", "number", "value"), wide=("value",)),
    Table(name="progress", key=("seq",), columns=("seq", "number", "percent", "note", "at")),
    Table(
        name="steps",
        key=("seq", "name"),
        columns=("seq", "name", "place", "number", "seen", "output", "at"),
        wide=("output",),
    ),
    Table(
        name="sleeps",
        key=("seq",),
        columns=("seq", "number", "step", "awaits", "until", "at", "woken"),
    ),
    Table(
        name="emitted",
        key=("name",),
        columns=("name", "asked", "payload", "at", "who"),
        wide=("payload",),
    ),
    Table(
        name="grants",
        key=("id",),
        columns=tuple(
            (
                "id kind name token digest roles queues created_at created_by expires_at used_at"
                " parent"
            ).split()
        ),
    ),
    Table(
        name="rollups",
        key=("at", "queue", "node", "measure", "bucket"),
        columns=tuple("at queue node measure bucket count total_ms least_ms most_ms".split()),
    ),
    Table(
        name="events",
        key=("seq",),
        columns=("seq", "at", "kind", "job", "node", "who", "detail", "action", "was"),
        numbered=True,
    ),
    Table(name="config", key=("name",), columns=("name", "value", "updated_at")),
    Table(
        name="schedules",
        key=("name",),
        columns=tuple(
            (
                "name rule zone anchor request missed missed_within overlap jitter pause_after"
                " paused_at paused_by done_until next_at failures last_tick last_job last_seq"
                " created_at updated_at"
            ).split()
        ),
    ),
    Table(
        name="ticks",
        key=("schedule", "planned"),
        columns=("schedule", "planned", "seq", "job", "made_at"),
    ),
    Table(
        name="webhooks",
        key=("name",),
        columns=tuple(
            (
                "name url news queues via secret private with_data paused_at paused_by created_at"
                " updated_at"
            ).split()
        ),
    ),
)
"""What is copied, in this order. No column of these tables may be missing."""

MAINTAINED = ("jobs", "attempts", "outputs", "inputs", "tags", "counts", "rollups", "events")
"""The tables that grow and shrink, whose unused space is worth giving back."""
