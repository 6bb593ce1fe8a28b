"""Jobs that are put together in Python: one after the other, side by side, or as a graph.

All of them are stored in one transaction, or none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Union, Unpack

from queuectl.dependencies import Wanted, each_parent, parent_text, read_parent
from queuectl.enqueueing import Enqueuer, Request
from queuectl.errors import BadJobError, StateError, UsageError, shown
from queuectl.facts import Batch
from queuectl.fields import Identified, Keywords, Several
from queuectl.graphs import Entry, Plan, check_known, is_template, plan, with_name
from queuectl.job import NewJob
from queuectl.merging import merge_requests
from queuectl.parameters import NAME
from queuectl.request import LONGEST_ID, by_name, check_name
from queuectl.store.ids import job_ids
from queuectl.values import dataclass

Item = Union[Request, "Chain", "Parallel"]
After = str | Identified | Several | Sequence[str | Identified | Several]


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
        self._ids: dict[str, str] = {}
        """The ids of jobs by their names in this graph, and by those that people gave."""
        self._is_over = False
        self.batch: Batch | None = None
        """What was stored; None before that."""

    def add(
        self,
        what: Request | None = None,
        /,
        *,
        name: str | None = None,
        **fields: Unpack[Keywords],
    ) -> Planned:
        """Add a job; `after` says for which others of the graph, or stored ones, it waits.

        By its `name`, which it keeps as a parameter, others of this graph may name it there.
        """
        named = {} if name is None else {NAME: name}
        return self._add(self._read(what, {**fields, **named}), [])

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
        name = request.pop(NAME, None)
        given = by_name(request, nulls=True)
        own = given.get("after")
        if after or own is not None:
            given["after"] = list(dict.fromkeys([*after, *([] if own is None else _refs(own))]))
        id = given.get("id")
        if id is None:
            (given["id"],) = job_ids(1)
        else:
            self._call(id, id)
        if name is not None:
            self._call(check_name(NAME, name, longest=LONGEST_ID), given["id"])
            shared = {one: self._fields[one] for one in _BESIDES if self._fields.get(one)}
            laid = merge_requests(shared, given) if shared else given
            given = with_name({**laid, NAME: name}, has_own_id=id is not None)
        made = Planned(given["id"])
        self._requests.append(given)
        self._planned.append(made)
        self._by_text[parent_text(made.id, Wanted.OK)] = made
        return made

    def _call(self, name: str, id: str) -> None:
        """Have a job be known by a name, which no other one of this graph may have."""
        if self._ids.setdefault(name, id) != id:
            raise BadJobError(f"The name {shown(name)} is taken by another job of this graph.")

    def _parent(self, text: str) -> str:
        """Return for what a job waits, which may be named as it is in this graph."""
        named, wanted = read_parent(text)
        return parent_text(self._ids[named], wanted) if named in self._ids else text

    def store(self) -> Batch:
        """Store all of it; the `with` block does so at its end."""
        if self._is_over:
            raise StateError("This graph is stored already; make another one.")
        self._is_over = True
        for request in self._requests:
            if request.get("after"):
                request["after"] = [*map(self._parent, request["after"])]
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

_BESIDES = ("parameters", "env")
"""A job has its name as a parameter, besides those that all have, unless it is a variable."""


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
    queue: Storing, jobs: Iterable[Request] | Mapping[str, Request], fields: Mapping[str, Any]
) -> Stored:
    """Store jobs that name each other, as `Queue.enqueue_graph` does."""
    shared = {name: fields[name] for name in _BESIDES if fields.get(name) is not None}
    entries = [
        Entry(place=place, fields=merge_requests(shared, job) if shared else job)
        for place, job in _placed(jobs)
    ]
    found = planned(queue, entries)
    batch = queue.enqueue_many(found.requests, **fields)
    return Stored(batch=batch, names=found.named(batch.ids))


def _placed(
    jobs: Iterable[Request] | Mapping[str, Request],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the fields of jobs, and how to call each in an error."""
    if isinstance(jobs, str | bytes | NewJob) or not isinstance(jobs, Iterable):
        raise UsageError(
            "enqueue_graph takes several jobs, such as a list, or names with a job each."
        )
    if not isinstance(jobs, Mapping):
        for n, job in enumerate(jobs, 1):
            yield f"Job number {n:,}", _job(f"Job number {n:,}", job)
        return
    for name, job in jobs.items():
        if is_template(name):
            continue
        place = f"Job {shown(name)}"
        fields = _job(place, job)
        if fields.get(NAME, name) != name:
            raise BadJobError(f"{place}: it has two names, {name!r} and {fields[NAME]!r}.")
        yield place, {NAME: name, **fields}


def _job(place: str, job: Any) -> Mapping[str, Any]:
    if not isinstance(job, str | Mapping | list | tuple) or isinstance(job, NewJob):
        raise BadJobError(f"{place}: a job must be a command, a list, or fields, not {shown(job)}.")
    return Enqueuer.as_fields(job)


def planned(queue: Storing, entries: Sequence[Entry]) -> Plan:
    """Return a graph as it can be stored, with all that it waits for."""
    found = plan(entries, job_ids)
    check_known(found, queue.states([*found.outside]) if found.outside else ())
    return found


def _refs(after: Any) -> list[str]:
    """Return for what a job waits, as texts."""
    texts = []
    for item in each_parent(after):
        named = getattr(item, "id", item)
        if not isinstance(named, str):
            raise UsageError(
                f"after takes ids, jobs, a batch, or what add has returned, not {shown(item)}."
            )
        texts.append(named if named is item else parent_text(named, Wanted.OK))
    return texts
