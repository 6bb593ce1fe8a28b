"""The goals: what must hold on two cores, as data. The report says of each whether it does.

A goal names a figure, what it is compared with (nothing, or another figure of the same run), and
a bound. A `*` in a name stands for the best of those that fit.
"""

from dataclasses import dataclass

from bench.figures import Book, Figure, Summary

REACHED, MISSED, UNKNOWN = "reached", "missed", "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure, or its ratio to another, must be."""

    about: str
    figure: str
    against: str | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def bound(self) -> str:
        """Say what must hold, without the unit."""
        sign, limit = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{sign} {limit:,g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a goal, with the figure that says so."""

    goal: Goal
    found: Summary | None
    unit: str
    of: tuple[str, ...]
    """The ids of the figures that were used."""

    @property
    def status(self) -> str:
        """Say whether it was reached."""
        if self.found is None:
            return UNKNOWN
        if self.goal.at_least is not None and self.found.median < self.goal.at_least:
            return MISSED
        if self.goal.at_most is not None and self.found.median > self.goal.at_most:
            return MISSED
        return REACHED

    @property
    def is_close(self) -> bool:
        """Whether it was missed by less than a hundredth."""
        limit = self.goal.at_least or self.goal.at_most or 0.0
        missed_by = abs(self.found.median - limit) if self.found is not None else 0.0
        return self.status == MISSED and missed_by < 0.01 * limit


def judge(goal: Goal, book: Book) -> Verdict:
    """Compare a goal with what was measured."""
    lowest = goal.at_most is not None
    figure = book.best(goal.figure, lowest=lowest)
    if goal.against is None:
        used: list[Figure | None] = [figure]
        found = figure.summary if figure else None
        unit = figure.unit if figure else ""
    else:
        other = book.best(goal.against, lowest=lowest)
        used = [figure, other]
        found = figure.over(other) if figure and other else None
        unit = "x"
    return Verdict(goal=goal, found=found, unit=unit, of=tuple(one.id for one in used if one))


def _drain() -> list[Goal]:
    goals = [
        Goal(
            about="drain on SQLite, at 4 workers, against `xargs -P 4`",
            figure="duel/sqlite-4/ours",
            against="duel/sqlite-4/limit",
            at_least=0.8,
        )
    ]
    for store, name, share in (
        ("sqlite", "SQLite", 0.9),
        ("postgresql", "PostgreSQL", 0.8),
        ("mariadb", "MariaDB", 0.7),
    ):
        goals.append(
            Goal(
                about=f"drain on {name}, at its best, against the best `xargs -P`",
                figure=f"duel/{store}/ours",
                against=f"duel/{store}/limit",
                at_least=share,
            )
        )
        goals.append(
            Goal(
                about=f"drain on {name}, at its best, against the best peer",
                figure=f"drain/{store}/*",
                against="drain/peer/*",
                at_least=1,
            )
        )
    return goals


def _latency() -> list[Goal]:
    return [
        Goal(
            about=f"enqueue to start on {name}, idle, {share}, ms",
            figure=f"latency/{store}/idle/{share}",
            at_most=limit,
        )
        for store, name, share, limit in (
            ("sqlite", "SQLite", "p50", 4),
            ("sqlite", "SQLite", "p99", 20),
            ("postgresql", "PostgreSQL", "p50", 6),
            ("postgresql", "PostgreSQL", "p99", 20),
        )
    ]


def _tasks() -> list[Goal]:
    return [
        *(
            Goal(
                about=f"drain of Python tasks on {name}, against the best peer",
                figure=f"tasks/ours/{store}",
                against="tasks/peer/*",
                at_least=1.5,
            )
            for store, name in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL"))
        ),
        Goal(
            about="enqueue to start of a task on SQLite, p50, ms",
            figure="warm/sqlite/p50",
            at_most=3,
        ),
        Goal(
            about="the same with a handler that reads lines of JSON, against that",
            figure="warm/handler/p50",
            against="warm/sqlite/p50",
            at_most=1.3,
        ),
    ]


def _enqueue() -> list[Goal]:
    return [
        Goal(
            about="bulk enqueue from Python on SQLite, jobs/s",
            figure="enqueue/sqlite/bulk",
            at_least=100_000,
        ),
        Goal(
            about="bulk enqueue from Python on PostgreSQL, jobs/s",
            figure="enqueue/postgresql/bulk",
            at_least=50_000,
        ),
        Goal(
            about="bulk enqueue from a JSONL file by the command, jobs/s",
            figure="enqueue/sqlite/jsonl",
            at_least=50_000,
        ),
        Goal(
            about="single durable enqueues against raw APSW inserts",
            figure="enqueue/sqlite/single",
            against="enqueue/apsw/single",
            at_least=0.6,
        ),
    ]


def _backlog(small: int, large: int) -> list[Goal]:
    goals = []
    for store, name in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL")):
        for what in ("drain", "status", "list", "stats", "enqueue"):
            slower = None if what == "drain" else 2.0
            goals.append(
                Goal(
                    about=f"{what} on {name} with {large:,} of each, against {small:,}",
                    figure=f"backlog/{store}/{large}/{what}",
                    against=f"backlog/{store}/{small}/{what}",
                    at_least=0.9 if slower is None else None,
                    at_most=slower,
                )
            )
    return goals


def _idle() -> list[Goal]:
    return [
        Goal(about="4 idle workers, % CPU", figure="idle/sqlite/4/cpu", at_most=0.1),
        *(
            Goal(
                about=f"{workers} idle workers, proportional memory, MB",
                figure=f"idle/sqlite/{workers}/memory",
                at_most=limit,
            )
            for workers, limit in ((4, 30), (64, 35), (256, 50))
        ),
    ]


def _startup() -> list[Goal]:
    return [
        Goal(
            about=f"`{command}` against `python -c 'import click, apsw'`",
            figure=f"startup/{id}",
            against="startup/imports",
            at_most=1.5,
        )
        for id, command in (("enqueue", "queuectl enqueue true"), ("help", "queuectl --help"))
    ]


def _web() -> list[Goal]:
    stores = (("sqlite", "SQLite"), ("postgresql", "PostgreSQL"), ("mariadb", "MariaDB"))
    goals = [
        Goal(
            about=f"enqueue through the API on {name}, against `Queue.enqueue`",
            figure=f"api/{store}/api",
            against=f"api/{store}/threads",
            at_least=0.5,
        )
        for store, name in stores
    ]
    goals += [
        Goal(
            about=f"drain on {name} beside open dashboards, against one alone",
            figure=f"web/{store}/beside",
            against=f"web/{store}/alone",
            at_least=0.95,
        )
        for store, name in stores
    ]
    goals += [
        Goal(
            about=f"{what} on {name} with 1,000,000 jobs, p95, ms",
            figure=f"web/{store}/{id}",
            at_most=limit,
        )
        for store, name in stores[:2]
        for id, what, limit in (("overview", "overview", 100), ("paint", "first paint", 300))
    ]
    goals.append(
        Goal(
            about="statements of a web server to which 1,000 listen, against one",
            figure="web/sqlite/streams/many",
            against="web/sqlite/streams/one",
            at_most=1.1,
        )
    )
    return goals


GOALS = (
    *_drain(),
    *_latency(),
    *_tasks(),
    *_enqueue(),
    *_backlog(1_000, 1_000_000),
    *_idle(),
    *_startup(),
    *_web(),
)
