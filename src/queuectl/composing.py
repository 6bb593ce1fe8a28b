"""Jobs that are put together in Python: one after the other, side by side, or as a graph.

All of them are stored in one transaction, or none.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Union, Unpack

from queuectl.dependencies import Wanted, parent_text
from queuectl.enqueueing import Enqueuer, Request
from queuectl.errors import StateError, UsageError, shown
from queuectl.facts import Batch
from queuectl.fields import Identified, Keywords
from queuectl.graphs import Entry, Plan, check_known, plan
from queuectl.job import NewJob
from queuectl.merging import merge_requests
from queuectl.request import by_name
from queuectl.store.ids import job_ids
from queuectl.values import dataclass

Item = Union[Request, "Chain", "Parallel"]
After = str | Identified | Sequence[str | Identified]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Jobs of which each waits for the one before it."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """Jobs that wait for the same, and for all of which the next one waits."""

    items: tuple[Any, ...]


def chain(items: Iterable[Item]) -> Chain:
    """Put jobs one after the other: `chain(["fetch", parallel(["a", "b"]), "merge"])`."""
    return Chain(items=_several("chain", items))


def parallel(items: Iterable[Item]) -> Parallel:
    """Put jobs side by side."""
    return Parallel(items=_several("parallel", items))


def _several(call: str, items: Iterable[Item]) -> tuple[Item, ...]:
    if isinstance(items, str | bytes | Mapping | NewJob) or not isinstance(items, Iterable):
        raise UsageError(f"{call} takes several jobs, such as a list.")
    return tuple(items)


class Enqueues(Protocol):
    """What stores many jobs at once."""

    def __call__(self, what: Iterable[Request], /, **fields: Unpack[Keywords]) -> Batch:
        """Store all of them, or none."""


class Planned:
    """A job of a graph that is stored when the graph is."""

    def __init__(self, id: str) -> None:
        self.id = id
        """The id that it will have; that of another one, if that has its unique key."""

    def __repr__(self) -> str:
        return f"<Planned {self.id}>"


class GraphBuilder:
    """A graph that is put together, and stored when the `with` block ends without an error."""

    def __init__(self, enqueue: Enqueues, fields: Mapping[str, Any]) -> None:
        """Take what stores it, and fields that hold for all its jobs."""
        self._enqueue = enqueue
        self._fields = dict(fields)
        self._requests: list[dict[str, Any]] = []
        self._planned: list[Planned] = []
        self._by_text: dict[str, Planned] = {}
        """By what names them, as others wait for them."""
        self._is_over = False
        self.batch: Batch | None = None
        """What was stored; None before that."""

    def add(self, what: Request | None = None, /, **fields: Unpack[Keywords]) -> Planned:
        """Add a job; `after` says for which others of the graph, or stored ones, it waits."""
        return self._add(self._read(what, fields), [])

    def chain(self, items: Iterable[Item], *, after: After = ()) -> list[Planned]:
        """Add jobs of which each waits for the one before it; returns those at its end."""
        return self.put(chain(items), after)

    def parallel(self, items: Iterable[Item], *, after: After = ()) -> list[Planned]:
        """Add jobs side by side; returns those at its end, for which others can wait."""
        return self.put(parallel(items), after)

    def put(self, item: Chain | Parallel, after: After = ()) -> list[Planned]:
        """Add what is put together; returns the jobs at its end."""
        ends = self._put(item, _refs(after))
        return [self._by_text[text] for text in ends if text in self._by_text]

    def _put(self, item: Any, after: list[str]) -> list[str]:
        """Add what is put together; returns for what whoever comes next is to wait."""
        match item:
            case Chain(items=items):
                for one in items:
                    after = self._put(one, after)
                return after
            case Parallel(items=items) if items:
                return [end for one in items for end in self._put(one, after)]
            case Parallel():
                return after
        return [parent_text(self._add(self._read(item, {}), after).id, Wanted.OK)]

    def _read(self, what: Request | None, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {**({} if what is None else Enqueuer.as_fields(what)), **fields}

    def _add(self, request: dict[str, Any], after: list[str]) -> Planned:
        if self._is_over:
            raise StateError("This graph is stored already; make another one.")
        given = by_name(request, nulls=True)
        own = given.get("after")
        if after or own is not None:
            given["after"] = list(dict.fromkeys([*after, *([] if own is None else _refs(own))]))
        if given.get("id") is None:
            (given["id"],) = job_ids(1)
        made = Planned(given["id"])
        self._requests.append(given)
        self._planned.append(made)
        self._by_text[parent_text(made.id, Wanted.OK)] = made
        return made

    def store(self) -> Batch:
        """Store all of it; the `with` block does so at its end."""
        if self._is_over:
            raise StateError("This graph is stored already; make another one.")
        self._is_over = True
        self.batch = self._enqueue(self._requests, **self._fields)
        for planned, id in zip(self._planned, self.batch.ids, strict=False):
            planned.id = id
        return self.batch

    def __enter__(self) -> "GraphBuilder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.store()
        self._is_over = True


def store(enqueue: Enqueues, item: Chain | Parallel, fields: Mapping[str, Any]) -> Batch:
    """Store what is put together, with fields that hold for all."""
    shared = {**fields}
    after = shared.pop("after", ())
    builder = GraphBuilder(enqueue, shared)
    builder.put(item, after)
    return builder.store()


# -- graphs in which jobs have names ----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A graph that was stored."""

    batch: Batch
    names: Mapping[str, str]
    """The ids of those that have a name of their own."""


class Storing(Protocol):
    """A queue that stores graphs."""

    def states(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the states of those of these jobs that there are."""

    def enqueue_many(self, what: Iterable[Request], /, **fields: Unpack[Keywords]) -> Batch:
        """Store jobs."""


def store_named(
    queue: Storing, jobs: Iterable[Mapping[str, Any]], fields: Mapping[str, Any]
) -> Stored:
    """Store jobs that name each other, as `Queue.enqueue_graph` does."""
    # A job has its name as a parameter, besides those that all have, unless it is a variable.
    shared = {name: fields[name] for name in ("parameters", "env") if fields.get(name) is not None}
    entries = [
        Entry(place=f"Job number {n:,}", fields=merge_requests(shared, job) if shared else job)
        for n, job in enumerate(jobs, 1)
    ]
    found = planned(queue, entries)
    batch = queue.enqueue_many(found.requests, **fields)
    return Stored(batch=batch, names=found.named(batch.ids))


def planned(queue: Storing, entries: Sequence[Entry]) -> Plan:
    """Return a graph as it can be stored, with all that it waits for."""
    found = plan(entries, job_ids)
    check_known(found, queue.states([*found.outside]) if found.outside else ())
    return found


def _refs(after: Any) -> list[str]:
    """Return for what a job waits, as texts."""
    # A job is a tuple, and has an id.
    is_several = isinstance(after, list | tuple) and not hasattr(after, "id")
    texts = []
    for item in after if is_several else [after]:
        named = getattr(item, "id", item)
        if not isinstance(named, str):
            raise UsageError(f"after takes ids, jobs, or what add has returned, not {shown(item)}.")
        texts.append(named if named is item else parent_text(named, Wanted.OK))
    return texts
