"""What the jobs of a group came to, as a table: sorted, page by page, and to be taken away.

In the order of the line a page costs the same wherever it is. To be sorted, all jobs of a group
are read, a few at a time, of which no more is kept than by what they are sorted.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from queuectl.errors import NotFoundError
from queuectl.facts import Group
from queuectl.filter import Filter
from queuectl.groups import Row
from queuectl.job import FINISHED, Job, State
from queuectl.job_json import moment
from queuectl.report import parameters_dict, why_ended
from queuectl.values import dataclass
from queuectl.web import schemas
from queuectl.web.api import asking
from queuectl.web.call import Call
from queuectl.web.pages import words
from queuectl.web.pages.page import Pages
from queuectl.web.route import Param, Scope

PAGE = 50
MOST_SORTED = 10_000
"""Jobs of a group that are sorted here; of more, whoever wants that takes the table away."""
MOST_FIELDS = 12
"""Fields of results that get a column of their own."""
KEY = 200
"""Letters of a text by which is sorted."""
pages = Pages()

_SORT = Param(
    name="sort",
    schema=schemas.TEXT,
    about="Sort by a column, such as duration, parameter.lr or result.loss; -duration: backwards.",
)
_OF_RUNS = ("result", "memory")
"""Columns for which more has to be read than the jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table, and how a link says that it is to be sorted by it."""

    name: str
    title: str
    is_number: bool = False


@pages.show("/groups/{name}/results", "results.html", scope=Scope.ALL, query=(asking.AFTER, _SORT))
def results(call: Call) -> dict[str, Any]:
    """Show what the jobs of a group came to."""
    group = call.queue.groups.get(call.path["name"])
    sort, after = call.query.get("sort"), call.query.get("after")
    is_long = group.jobs > MOST_SORTED
    if sort is None or is_long:
        behind = None if after is None else _member(call, group, after)
        found = [*_line(call, group, behind)]
    else:
        found = _sorted(call, group, sort, after)
    shown = [*call.queue.groups.rows(found[:PAGE])]
    columns = columns_of(shown)
    return {
        "group": group.name,
        "jobs": group.jobs,
        "columns": columns,
        "rows": [_row(row, columns) for row in shown],
        "sort": None if is_long else sort,
        "is_long": is_long and sort is not None,
        "most": MOST_SORTED,
        "first": after is None,
        "next": found[PAGE - 1].id if len(found) > PAGE else None,
        "now": moment(call.queue.now()),
    }


def _member(call: Call, group: Group, id: str) -> Job:
    """Return the job behind which a page begins: one of this group."""
    job = call.job(id)
    if job.group != group.name:
        raise NotFoundError(f"Job {job.id} isn't in group {group.name!r}.")
    return job


def _line(call: Call, group: Group, after: Job | None) -> Iterable[Job]:
    which = Filter(groups=(group.name,))
    return call.queue.iterate(which, limit=PAGE + 1, after=after, oldest=True)


# -- sorting ----------------------------------------------------------------------------


def _sorted(call: Call, group: Group, sort: str, after: str | None) -> list[Job]:
    """Return a page of the jobs of a group, and one more, sorted by a column."""
    name = sort.removeprefix("-")
    jobs = call.queue.iterate(Filter(groups=(group.name,)), limit=MOST_SORTED, oldest=True)
    is_of_runs = name.partition(".")[0] in _OF_RUNS
    rows = call.queue.groups.rows(jobs) if is_of_runs else (Row(job=job) for job in jobs)
    ids = in_order(((_value(row, name), row.job.id) for row in rows), backwards=sort[:1] == "-")
    if after is not None and after not in ids:
        raise NotFoundError(f"Job {after} isn't in group {group.name!r}.")
    start = 0 if after is None else ids.index(after) + 1
    found = (call.queue.find(id) for id in ids[start : start + PAGE + 1])
    return [job for job in found if job is not None]


def in_order(pairs: Iterable[tuple[Any, str]], *, backwards: bool) -> list[str]:
    """Return the seconds of pairs, sorted by the firsts: numbers before texts, what is none last.

    Those that are alike stay in their order, either way.
    """
    there: list[tuple[tuple[int, float, str], str]] = []
    missing: list[str] = []
    for value, id in pairs:
        if value is None:
            missing.append(id)
        else:
            there.append((_key(value), id))
    there.sort(key=lambda pair: pair[0], reverse=backwards)
    return [*(id for _, id in there), *missing]


def _key(value: Any) -> tuple[int, float, str]:
    """Return by what a value is sorted: a parameter is text, but may be that of a number."""
    if isinstance(value, str | int | float):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return (1, 0.0, str(value)[:KEY])
        if number == number:
            return (0, number, "")
    return (1, 0.0, _cell(value)[:KEY])


def _value(row: Row, name: str) -> Any:
    """Return what a row has in a column; None if it has nothing there."""
    kind, dot, rest = name.partition(".")
    job = row.job
    if dot and kind == "parameter":
        return parameters_dict(job).get(rest)
    if dot and kind == "result":
        return row.result.get(rest) if isinstance(row.result, Mapping) else None
    known = {
        "state": job.state.value,
        "exit_code": job.exit_code,
        "duration": job.duration_ms,
        "memory": row.peak_memory,
        "result": row.result if row.has_result else None,
    }
    return known.get(name)


# -- columns and cells ------------------------------------------------------------------


def columns_of(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of some rows: parameters first, and those of their results last.

    Results that are all objects have a column for each field.
    """
    own = dict.fromkeys(name for row in rows for name in row.job.parameters)
    has_exit = any(row.job.exit_code is not None for row in rows)
    told = [row.result for row in rows if row.has_result]
    fields: dict[str, None] = {}
    if all(isinstance(one, Mapping) for one in told):
        fields = dict.fromkeys(name for one in told for name in one)
    is_plain = len(fields) > MOST_FIELDS or not fields
    return [
        *(Column(name=f"parameter.{name}", title=name) for name in own),
        Column(name="state", title="State"),
        *([Column(name="exit_code", title="Exit", is_number=True)] if has_exit else []),
        Column(name="duration", title="Took", is_number=True),
        Column(name="memory", title="Memory", is_number=True),
        *(
            [Column(name="result", title="Result")]
            if is_plain
            else [
                Column(name=f"result.{name}", title=f"result.{name}" if name in own else name)
                for name in fields
                if not _is_repeated(rows, name)
            ]
        ),
    ]


def _is_repeated(rows: Sequence[Row], name: str) -> bool:
    """Tell whether a field of results says nothing but what the parameter of its name does."""
    told = [row for row in rows if isinstance(row.result, Mapping) and name in row.result]
    return all(
        name in row.job.parameters and _key(row.job.parameters[name]) == _key(row.result[name])
        for row in told
    )


def _row(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    said = [_shown(row, column) for column in columns]
    job = row.job
    why = why_ended(job) if job.state in FINISHED and job.state != State.COMPLETED else None
    return {"id": job.id, "state": job.state.value, "why": why, "cells": said}


def _shown(row: Row, column: Column) -> str:
    """Write what a row has in a column."""
    value = _value(row, column.name)
    if column.name == "duration":
        return "" if value is None else words.duration(value)
    if column.name == "memory":
        return "" if value is None else words.size(value)
    if value is None and column.name.startswith("parameter."):
        return ""
    if value is None:
        return "null" if _has_null(row, column.name) else ""
    return words.brief(_cell(value))


def _has_null(row: Row, name: str) -> bool:
    """Tell whether a result, or that field of one, is there, and is null."""
    if name == "result":
        return row.has_result
    field = name.partition(".")[2]
    return isinstance(row.result, Mapping) and field in row.result


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
