"""Finds the jobs a filter means without scanning past those it doesn't, where an index can help.

A listing by state or queue walks the index of each (queue, state) pair that has jobs and merges
the pairs: twenty dead jobs among ten million completed ones are found in twenty steps.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from queuectl.facts import Count
from queuectl.filter import EventFilter, Filter, Sort
from queuectl.job import JOB_COLUMNS, State
from queuectl.when import milliseconds

NO_LIMIT = 2**62
SLOWEST = (Filter(states=(State.COMPLETED,)), (Sort("duration_ms", descending=True),))
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
Look = Callable[[str, Sequence[str], str, Mapping[str, Any]], list[int]]
"""Runs a selecting statement with conditions, a direction and parameters; returns places."""


def select_seqs(
    sql: ModuleType,
    look: Look,
    counts: Callable[[], Iterable[Count]],
    which: Filter,
    *,
    needle: Callable[[str], str],
    limit: int | None,
    after: int | None,
    last: int | None,
    oldest: bool,
) -> list[int]:
    """Return the places in the line of the jobs that fit, in the order of the listing."""
    conditions, params = _conditions(sql, which, needle, limit)
    direction = "ASC" if oldest else "DESC"
    if after is not None:
        params["after"] = after
    if last is not None:
        params["last"] = last
    if which.tags:
        page = _page(sql, after, last, oldest=oldest)
        statement = sql.SELECT_TAGGED.replace("{page}", page)
        conditions += _pair_conditions(which.queues, which.states, params)
        return look(statement, conditions, direction, params)
    if after is not None:
        conditions.append(sql.WHERE_AFTER if oldest else sql.WHERE_BEFORE)
    if last is not None:
        conditions.append(sql.WHERE_UP_TO if oldest else sql.WHERE_DOWN_TO)
    if which.groups or (not which.states and not which.queues):
        conditions += _pair_conditions(which.queues, which.states, params)
        return look(sql.SELECT, conditions, direction, params)
    found: list[int] = []
    for queue, state in _pairs(counts(), which):
        pair = {"queue": queue, "state": state}
        narrowed = [sql.WHERE_QUEUE, *conditions]
        statement = sql.SELECT_RUNNING
        if state != State.PROCESSING:
            statement = sql.SELECT
            narrowed.append(_where_state(sql, state))
        found += look(statement, narrowed, direction, params | pair)
    found.sort(reverse=not oldest)
    return found if limit is None else found[:limit]


def _page(sql: ModuleType, after: int | None, last: int | None, *, oldest: bool) -> str:
    """Say between which places a listing by tag looks."""
    page: list[str] = []
    if after is not None:
        page.append(sql.WHERE_TAG_AFTER if oldest else sql.WHERE_TAG_BEFORE)
    if last is not None:
        page.append(sql.WHERE_TAG_UP_TO if oldest else sql.WHERE_TAG_DOWN_TO)
    return " AND ".join(page) or "1 = 1"


def horizon(
    sql: ModuleType,
    look: Look,
    counts: Callable[[], Iterable[Count]],
    which: Filter,
    *,
    looks: int,
    after: int | None,
    oldest: bool,
) -> int | None:
    """Return the last place that a listing looks at; None, if no more than so many are left."""
    direction = "ASC" if oldest else "DESC"
    params: dict[str, Any] = {} if after is None else {"after": after}
    if which.tags:
        statement = sql.HORIZON_TAGGED.replace("{page}", _page(sql, after, None, oldest=oldest))
        asked = params | {"tag0": which.tags[0], "looks": looks - 1}
        found = look(statement, [], direction, asked)
        return found[0] if found else None
    conditions = [] if after is None else [sql.WHERE_AFTER if oldest else sql.WHERE_BEFORE]
    if which.groups:
        names = _numbered("group", which.groups, params)
        conditions.append(sql.WHERE_GROUP.replace("{groups}", names))
    if which.groups or (not which.states and not which.queues):
        found = look(sql.HORIZON, conditions, direction, params | {"looks": looks - 1})
        return found[0] if found else None
    # Those that run are few.
    pairs = [pair for pair in _pairs(counts(), which) if pair[1] != State.PROCESSING]
    found = []
    for queue, state in pairs:
        narrowed = [sql.WHERE_QUEUE, _where_state(sql, state), *conditions]
        asked = {"queue": queue, "state": state, "looks": max(looks // len(pairs), 1) - 1}
        found += look(sql.HORIZON, narrowed, direction, params | asked)
    # Up to the nearest of them, none has more than its share.
    return (min if oldest else max)(found, default=None)


def _where_state(sql: ModuleType, state: str) -> str:
    found: str = sql.WHERE_PENDING if state == State.PENDING else sql.WHERE_STATE
    return found


def sorted_seqs(
    sql: ModuleType,
    look: Look,
    counts: Callable[[], Iterable[Count]],
    which: Filter,
    by: Sequence[Sort],
    *,
    needle: Callable[[str], str],
    limit: int | None,
) -> list[int]:
    """Return the places in the line of the jobs that fit, sorted by columns."""
    if (which, tuple(by)) == SLOWEST and limit is not None:
        # For these there is an index.
        return look(sql.SLOWEST, (), "", {"limit": limit})
    conditions, params = _conditions(sql, which, needle, limit)
    if which.states or which.queues:
        # With the names of both, an index on both finds them.
        pairs = list(_pairs(counts(), which))
        if not pairs:
            return []
        queues, states = (tuple(sorted(set(names))) for names in zip(*pairs, strict=True))
        conditions += _pair_conditions(queues, states, params)
    if which.tags:
        conditions.append(sql.WHERE_IN_TAG)
    order = ", ".join([*map(_order, by), "j.seq DESC"])
    return look(sql.SELECT_SORTED.replace("{order}", order), conditions, "", params)


def _order(by: Sort) -> str:
    if by.column not in JOB_COLUMNS:
        raise ValueError(f"jobs have no column {by.column!r}")
    # Databases differ in where they put what isn't there.
    column = f'j."{by.column}"'
    return f"{column} IS NULL, {column} {'DESC' if by.descending else 'ASC'}"


def _pairs(counts: Iterable[Count], which: Filter) -> Iterable[tuple[str, str]]:
    """The (queue, state) pairs that have jobs and fit."""
    return sorted(
        {
            (count.queue, count.state.value)
            for count in counts
            if (not which.states or count.state in which.states)
            and (not which.queues or count.queue in which.queues)
        }
    )


def _conditions(
    sql: ModuleType, which: Filter, needle: Callable[[str], str], limit: int | None
) -> tuple[list[str], dict[str, Any]]:
    """Return what holds of each job that fits, its queue, state and first tag aside."""
    conditions: list[str] = []
    params: dict[str, Any] = {"limit": NO_LIMIT if limit is None else min(limit, NO_LIMIT)}
    for name, condition in (
        ("since", sql.WHERE_SINCE),
        ("until", sql.WHERE_UNTIL),
        ("finished_since", sql.WHERE_FINISHED_SINCE),
        ("finished_before", sql.WHERE_FINISHED_BEFORE),
        ("due_since", sql.WHERE_DUE_SINCE),
        ("due_before", sql.WHERE_DUE_BEFORE),
    ):
        if (value := getattr(which, name)) is not None:
            conditions.append(condition)
            params[name] = milliseconds(value)
    if which.text:
        conditions.append(sql.WHERE_TEXT)
        # Databases agree on the lower case of ASCII letters only.
        text = which.text.translate(_LOWER)
        params["text"] = needle(text)
        # Arguments are kept as JSON, in which some characters look different.
        params["quoted"] = needle(json.dumps(text, ensure_ascii=False)[1:-1])
    if which.types:
        types = _numbered("type", which.types, params)
        conditions.append(sql.WHERE_TYPE.replace("{types}", types))
    if which.groups:
        names = _numbered("group", which.groups, params)
        conditions.append(sql.WHERE_GROUP.replace("{groups}", names))
    for n, key in enumerate(which.keys):
        params[f"key{n}"] = key
        conditions.append(sql.WHERE_KEY.replace("{n}", str(n)))
    for n, tag in enumerate(which.tags):
        params[f"tag{n}"] = tag
        if n:
            conditions.append(sql.WHERE_TAGGED.replace("{n}", str(n)))
    return conditions, params


def event_conditions(
    sql: ModuleType, which: EventFilter, needle: Callable[[str], str], params: dict[str, Any]
) -> list[str]:
    """Return what holds of each event that fits, and bind what it names."""
    known = {
        sql.EVENT_WHO: ("who", needle(which.who.translate(_LOWER)) if which.who else None),
        sql.EVENT_KIND: ("kind", which.kind or None),
        sql.EVENT_TEXT: ("text", needle(which.text.translate(_LOWER)) if which.text else None),
        sql.EVENT_SINCE: ("since", None if which.since is None else milliseconds(which.since)),
        sql.EVENT_UNTIL: ("until", None if which.until is None else milliseconds(which.until)),
    }
    said = {condition: pair for condition, pair in known.items() if pair[1] is not None}
    params |= dict(said.values())
    return [*said]


def _pair_conditions(
    queues: Sequence[str], states: Sequence[str], params: dict[str, Any]
) -> list[str]:
    conditions = []
    for column, values in (("state", states), ("queue", queues)):
        if values:
            conditions.append(f"j.{column} IN ({_numbered(column, values, params)})")
    return conditions


def _numbered(name: str, values: Iterable[str], params: dict[str, Any]) -> str:
    """Bind values one by one, and return the places of them."""
    bound = {f"{name}{n}": str(value) for n, value in enumerate(values)}
    params.update(bound)
    return ", ".join(f":{place}" for place in bound)
