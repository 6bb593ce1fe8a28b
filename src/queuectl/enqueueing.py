"""Enqueueing jobs: reads requests, completes them by queue and settings, and stores them."""

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, partial
from itertools import chain, islice, repeat
from operator import itemgetter
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from queuectl.bound_values import laid_over
from queuectl.errors import (
    BadJobError,
    DuplicateError,
    NotFoundError,
    QueueFullError,
    UsageError,
)
from queuectl.facts import Batch, Progress, QueueInfo, batch_of
from queuectl.fields import REQUESTED
from queuectl.job import DEFAULT_QUEUE, Job, NewJob, OneOfMany, distinct
from queuectl.place import Place
from queuectl.request import (
    Values,
    check_command,
    check_commands,
    check_request,
    current_environment,
    current_folder,
    read_some,
    read_values,
    with_environment,
)
from queuectl.settings import Settings
from queuectl.store.contract import Store, chunks
from queuectl.values import fields, in_order, replace

if TYPE_CHECKING:
    from queuectl.expansion import Expansion, Own

T = TypeVar("T")
Request = str | Sequence[str] | Mapping[str, Any] | NewJob

BATCH = 20_000
SOME = 500
"""Requests that are looked at together."""
MOST_AT_ONCE = 250_000
"""Jobs in one transaction. It holds up all other writers, who must renew their leases in time."""
SETTINGS_HOLD = 1.0
"""Seconds for which new jobs get what the settings said when they were last read. To ask a server
before each of them would take about as long as to store it."""

MOST_MODELS = 1_000
"""What is different each time need not be remembered."""
TRACES = "opentelemetry.trace"
"""The module that an application which makes spans has imported."""
_RAISED = {f.name: f.at_least for f in REQUESTED if f.at_least}
_OF_ONE = (BadJobError, DuplicateError, NotFoundError, QueueFullError)
"""What is wrong with one job; others can be stored all the same."""
_NOTHING: Values = {}
"""What a request says that is no more than a command."""


OF_WORKERS = ("timeout", "backoff", "backoff_base", "retry_delay", "max_backoff")
"""What is up to the worker that handles a data job, if neither that nor its queue says it."""


class Defaults:
    """What a job gets where its request says nothing: by its queue, the settings, here and now."""

    def __init__(
        self,
        settings: Settings,
        queues: Iterable[QueueInfo] = (),
        *,
        hidden: Collection[str] = (),
    ) -> None:
        """Take what was set for all, what was set on queues, and variables that hold passwords."""
        self._hidden = tuple(hidden)
        # All fields of a job, in their order.
        self._usual: Values = {
            **{f.name: f.default for f in fields(NewJob)},
            **{f.name: getattr(settings, f.setting) for f in REQUESTED if f.setting},
            "bounds": {},
        }
        queues = list(queues)
        self._of_queues = {
            queue.name: frozenset(read_some(queue.limits.defaults))
            for queue in queues
            if queue.limits is not None
        }
        self._limited = {
            queue.name: _filled(self._usual, read_some(queue.limits.defaults))
            | {"is_limited": True}
            for queue in queues
            if queue.limits is not None
        }

    def complete(
        self,
        given: Values,
        *,
        folder: Callable[[], str | None] = current_folder,
        environment: Callable[[tuple[str, ...]], Mapping[str, str]] = current_environment,
    ) -> NewJob:
        """Make a job of what is given.

        `folder` finds the current folder, and `environment` the current one, if that is needed.
        """
        usual = self._limited.get(given.get("queue", DEFAULT_QUEUE), self._usual)
        values = _filled(usual, given)
        if "type" in given:
            # Where and by what it is handled is the worker's business.
            values |= {"shell": None, "cwd": None} | given
            said = given.keys() | self._of_queues.get(values["queue"], frozenset())
            if "retry_delay" not in said:
                values |= {name: None for name in OF_WORKERS if name not in said}
            values["env_all"] = given.get("env_all", False)
        elif "cwd" not in given:
            values["cwd"] = folder()
        if "env" not in given:
            values["env"] = {}
        if usual["bounds"] and "bounds" in given:
            values["bounds"] = laid_over(given["bounds"], usual["bounds"])
        if values["at_once"] is not None:
            from queuectl.limits import key_of

            values["keys"] = (*values["keys"], key_of(values["at_once"]))
        if values["env_all"]:
            values["env"] = with_environment(environment(self._hidden), values["env"])
        return in_order(NewJob, values.values())


def _filled(usual: Values, given: Values) -> Values:
    """Lay what is given over what holds otherwise."""
    values = usual | given
    for name, other in _RAISED.items():
        if other in given and name not in given:
            values[name] = max(values[name], given[other])
    return values


class BulkDefaults:
    """The same for requests that are enqueued together: what they share is made once."""

    def __init__(
        self, defaults: Callable[[], Defaults], folder: Callable[[], str | None] = current_folder
    ) -> None:
        """Take from `defaults` what goes for a request at the moment."""
        self._defaults = defaults
        self._folder = cache(folder)
        self._environment = cache(current_environment)
        self._by: Defaults | None = None
        self._models: dict[Hashable, NewJob] = {}
        self._given: Values | None = None
        self._model = NewJob()

    def complete(self, given: Values) -> OneOfMany:
        """Make a job of what is given, which is taken apart.

        What doesn't differ from a request before isn't made again.
        """
        id = given.pop("id", None)
        command = given.pop("command", None)
        argv = given.pop("argv", None)
        stdin = given.pop("stdin", None)
        data = given.pop("data", None)
        parameters = given.pop("parameters", None)
        model = self._model_for(given)
        if data is not None:
            model = replace(model, data=data)
        if stdin is not None:
            # It may be long, and so isn't kept for those that follow.
            model = replace(model, stdin=stdin)
        own = None
        if parameters:
            from queuectl.parameters import write

            own = write(parameters)
        return id, command, argv, own, model

    def complete_commands(self, texts: list[str]) -> list[OneOfMany]:
        """Make jobs of commands that say no more."""
        nothing, model = repeat(None), repeat(self._model_for(_NOTHING))
        return list(zip(nothing, check_commands(texts), nothing, nothing, model, strict=False))

    def complete_own(
        self, some: "Sequence[Own]", shared: Values, *, quotes: bool
    ) -> list[OneOfMany]:
        """Make jobs of what elements of an expansion have to themselves, and what they share."""
        given = dict(shared)
        stdin = given.pop("stdin", None)
        model = self._model_for(given)
        if quotes:
            from queuectl.expansion import check_shell

            check_shell(model.shell)
        if stdin is not None:
            model = replace(model, stdin=stdin)
        commands, argvs, parameters = zip(*some, strict=True)
        nothing, shares = repeat(None), repeat(model)
        return list(zip(nothing, commands, argvs, parameters, shares, strict=False))

    def _model_for(self, given: Values) -> NewJob:
        defaults = self._defaults()
        if defaults is not self._by:
            self._by, self._given = defaults, None
            self._models.clear()
        if given != self._given:
            self._given, self._model = given, self._find_model(defaults, given)
        return self._model

    def _find_model(self, defaults: Defaults, given: Values) -> NewJob:
        what = tuple(given.items())
        try:
            model = self._models.get(what)
        except TypeError:
            # It sets variables, and so can't be looked up.
            return self._make(defaults, given)
        if model is None:
            if len(self._models) == MOST_MODELS:
                self._models.clear()
            model = self._models[what] = self._make(defaults, given)
        return model

    def _make(self, defaults: Defaults, given: Values) -> NewJob:
        return defaults.complete(given, folder=self._folder, environment=self._environment)


def _nowhere() -> None:
    """Say nothing of where jobs run: their worker knows."""


class Enqueuer:
    """Stores new jobs. What its verbs promise is said in `Queue`."""

    def __init__(self, store: Store, place: Place, *, here: bool = True) -> None:
        """Jobs that don't say where they run do so `here`, or else where their worker is."""
        self._store = store
        self._place = place
        self.folder: Callable[[], str | None] = current_folder if here else _nowhere
        self._settings_changed = 0
        """How often we have changed settings ourselves."""
        self._known_defaults: tuple[int, float, Defaults] | None = None
        self._plain: tuple[Defaults | None, NewJob] = None, NewJob()

    def note_new_settings(self) -> None:
        """Read the settings, and what is set on queues, again for the next job: they changed."""
        self._settings_changed += 1

    def take(self, what: Request | None, fields: Mapping[str, Any], connection: Any) -> Job:
        """Store one job, as `Queue.enqueue` does."""
        # One look at the clock: a delay counts from the moment the job is created.
        now = self._store.clock.now()
        new: NewJob | OneOfMany
        if type(what) is str and not fields:
            new = (None, check_command(what), None, None, self._plain_model())
        else:
            new = self._complete(_read(what, fields, now))
        return self.take_complete(new, now, connection)

    def take_values(self, given: Values, now: int) -> Job:
        """Store a job of what `request.read_values` has read; its environment is whole already."""
        new = self._defaults().complete(given, folder=_nowhere, environment=lambda hidden: {})
        return self.take_complete(new, now)

    def take_complete(self, new: NewJob | OneOfMany, now: int, connection: Any = None) -> Job:
        """Store one job that is complete."""
        if sys.modules.get(TRACES) is not None:
            from queuectl.tracing import enqueue_one

            return enqueue_one(new, partial(self._store_one, now=now, connection=connection))
        return self._store_one(new, now=now, connection=connection)

    def _store_one(self, new: NewJob | OneOfMany, *, now: int, connection: Any) -> Job:
        if connection is None:
            return self._store.jobs.enqueue_one(new, now=now)
        with self._on(connection):
            return self._store.jobs.enqueue_one(new, now=now)

    def complete_one(self, given: Mapping[str, Any], now: int) -> NewJob:
        """Make a job of the fields of a request."""
        return self._complete(read_values(given, now=now))

    def _complete(self, given: Values) -> NewJob:
        return self._defaults().complete(given, folder=self.folder)

    @staticmethod
    def as_fields(what: Request) -> Mapping[str, Any]:
        """Return the fields of a request."""
        if isinstance(what, NewJob):
            raise BadJobError("A NewJob is complete; give its fields.")
        return _given(what)

    def _plain_model(self) -> NewJob:
        """Return what a job is that says no more than its command: mostly what it was before."""
        defaults, folder = self._defaults(), self.folder()
        by, model = self._plain
        if by is not defaults or model.cwd != folder or model.env_all:
            model = defaults.complete({"cwd": folder})
            self._plain = defaults, model
        return model

    def read(self, what: Iterable[Request], under: Mapping[str, Any]) -> Iterator[OneOfMany]:
        """Make jobs of several requests, laid over the fields that hold for all of them."""
        if isinstance(what, str | bytes | Mapping | NewJob):
            raise UsageError("enqueue_many takes several jobs, such as a list; enqueue takes one.")
        if "id" in under:
            raise UsageError("An id is for a single job; of several, each says its own.")
        from queuectl.expansion import Expansion

        if isinstance(what, Expansion):
            return chain.from_iterable(self._read_expansion(what, under))
        return chain.from_iterable(self._read_by_some(what, under))

    def _read_expansion(
        self, what: "Expansion", under: Mapping[str, Any]
    ) -> Iterator[Iterable[OneOfMany]]:
        """Make jobs of an expansion: what all of them share is read once for many."""
        bulk = BulkDefaults(self._defaults, self.folder)
        shared = _laid(what.shared, under) if under else what.shared
        for some in _parts(what.own(), SOME):
            values = read_some(_given(shared), now=self._store.clock.now())
            yield bulk.complete_own(some, values, quotes=what.quotes)
        yield from self._read_by_some(what.behind, {})

    def _read_by_some(
        self, what: Iterable[Request], under: Mapping[str, Any]
    ) -> Iterator[Iterable[OneOfMany]]:
        bulk = BulkDefaults(self._defaults, self.folder)
        read = 0
        for some in _parts(what, SOME):
            made: Iterable[OneOfMany] | None = None
            commands = [item for item in some if type(item) is str]
            if len(commands) == len(some) and not under:
                # If one is wrong, it is found, and named, by reading them one by one.
                with suppress(BadJobError):
                    made = bulk.complete_commands(commands)
            if made is None:
                # A time such as +5m counts from when it is read; a delay, from when it is stored.
                now = self._store.clock.now()
                made = map(bulk.complete, _read_all(some, under, read + 1, now))
            yield made
            read += len(some)

    def complete(self, given: Iterable[Values]) -> Iterator[OneOfMany]:
        """Make jobs of several requests that `request.read_values` has read."""
        return map(BulkDefaults(self._defaults, self.folder).complete, given)

    def take_all(
        self,
        requests: Iterator[OneOfMany],
        *,
        keep_going: bool,
        connection: Any,
        progress: Progress | None,
        total: int,
    ) -> Batch:
        """Store what `read` or `complete` has made, as `Queue.enqueue_many` does."""
        store = partial(
            self._store_all,
            keep_going=keep_going,
            connection=connection,
            progress=progress,
            total=total,
        )
        if sys.modules.get(TRACES) is not None:
            from queuectl.tracing import enqueue_all

            return enqueue_all(requests, store)
        return store(requests)

    def _store_all(
        self,
        requests: Iterator[OneOfMany],
        *,
        keep_going: bool,
        connection: Any,
        progress: Progress | None,
        total: int,
    ) -> Batch:
        if keep_going and connection is None:
            parts = _parts(requests, BATCH)
            return self._store_batches(parts, progress, total, skip_duplicates=True)
        # Everything is read before the store is locked: others wait for the writing only.
        jobs = list(islice(requests, MOST_AT_ONCE + 1))
        if len(jobs) > MOST_AT_ONCE:
            raise BadJobError(
                f"More than {MOST_AT_ONCE:,} jobs can't be stored all at once without holding up"
                " the workers; split them, or keep going, which stores batch by batch."
            )

        order = _order(jobs)

        def store() -> Batch:
            parts = chunks(jobs if order is None else [jobs[at] for at in order], BATCH)
            return self._store_batches(parts, progress, len(jobs), skip_duplicates=keep_going)

        if connection is None:
            batch = self._store.transact(store)
        else:
            with self._on(connection):
                batch = store()
        return batch if order is None else _as_given(batch, order)

    def _on(self, connection: Any) -> AbstractContextManager[None]:
        return nullcontext() if connection is None else self._store.borrowed(connection)

    def _store_batches(
        self,
        parts: Iterable[Sequence[OneOfMany]],
        progress: Progress | None,
        total: int,
        *,
        skip_duplicates: bool,
    ) -> Batch:
        done: list[Batch] = []
        count = 0
        # A job of one batch may be asked to wait for one of another, for which a third stands.
        instead: dict[str, str] = {}
        for jobs in parts:
            jobs = _naming(jobs, instead)
            batch = self._store_good(jobs) if skip_duplicates else self._store_some(jobs)
            instead |= _stand_ins(jobs, batch)
            done.append(batch)
            count += batch.requests
            if progress is not None:
                progress(count, total)
        return batch_of(done)

    def _store_some(self, jobs: Sequence[OneOfMany], *, skip_duplicates: bool = False) -> Batch:
        now = self._store.clock.now()
        return self._store.jobs.enqueue(jobs, now=now, skip_duplicates=skip_duplicates)

    def _store_good(self, jobs: Sequence[OneOfMany]) -> Batch:
        """Store those of some jobs that can be, and say of each other one why it can't."""
        done: list[Batch] = []
        at, size = 0, len(jobs)
        instead: dict[str, str] = {}
        while some := _naming(jobs[at : at + size], instead):
            try:
                # What is refused is undone, and nothing else.
                batch = self._store.transact(partial(self._store_some, some, skip_duplicates=True))
            except _OF_ONE as error:
                if len(some) > 1:
                    # Which of them it is shows when they are stored one by one; and when that goes
                    # well, more and more at once.
                    size = 1
                    continue
                batch = Batch(ids=(), refused=(error.alone,), refused_at=(0,))
            else:
                size *= 2
                instead |= _stand_ins(some, batch)
            done.append(batch)
            at += len(some)
        return batch_of(done)

    def _defaults(self) -> Defaults:
        """What the settings say for new jobs; what others have changed counts a moment later."""
        changed = self._settings_changed
        known = self._known_defaults
        if known is None or known[0] != changed or monotonic() - known[1] > SETTINGS_HOLD:
            # Another thread may change them from here on: then these hold for this job only.
            known = self._known_defaults = (changed, monotonic(), self._new_defaults())
        return known[2]

    def _new_defaults(self) -> Defaults:
        settings, _ = self._place.settings(self._store.settings.config())
        queues = self._store.settings.queues()
        return Defaults(settings, queues, hidden=self._store.secret_variables)


def _order(jobs: Sequence[OneOfMany]) -> list[int] | None:
    """Return in which order jobs are to be stored that wait for each other; None as they are."""
    if not any(model.after for model in distinct(map(itemgetter(-1), jobs))):
        return None
    from queuectl.dependencies import read_parent
    from queuectl.graphs import in_order

    places = {id: at for at, (id, *_) in enumerate(jobs) if id is not None}
    links = [
        [places[id] for id, _ in map(read_parent, model.after) if id in places]
        for *_, model in jobs
    ]
    for at, some in enumerate(links):
        if at in some:
            raise BadJobError(f"Job {jobs[at][0]} can't wait for itself.", field="after")
    order = in_order(links, lambda at: str(jobs[at][0]))
    return None if order == list(range(len(order))) else order


def _stand_ins(jobs: Sequence[OneOfMany], batch: Batch) -> dict[str, str]:
    """Return which jobs stand for requests, by the ids of these: they have their unique keys."""
    if not batch.existing or len(batch.ids) < len(jobs):
        return {}
    asked = map(itemgetter(0), jobs)
    return {
        id: there for id, there in zip(asked, batch.ids, strict=True) if id not in (None, there)
    }


def _naming(jobs: Sequence[OneOfMany], instead: Mapping[str, str]) -> Sequence[OneOfMany]:
    """Have jobs wait for those that stand for their parents."""
    if not instead:
        return jobs
    from queuectl.dependencies import standing_in

    named: list[OneOfMany] = []
    for id, command, argv, own, model in jobs:
        if model.after and (after := standing_in(model.after, instead)) != tuple(model.after):
            model = replace(model, after=after)
        named.append((id, command, argv, own, model))
    return named


def _as_given(batch: Batch, order: Sequence[int]) -> Batch:
    """Return what was stored in another order than it was given in, by the latter."""
    if len(batch.ids) != len(order):
        return batch
    ids = dict(zip(order, batch.ids, strict=True))
    return replace(batch, ids=tuple(ids[at] for at in range(len(order))))


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of a size; those before one that can't be had come first, too."""
    part: list[T] = []
    try:
        for item in items:
            part.append(item)
            if len(part) == size:
                yield part
                part = []
    except Exception:
        if part:
            yield part
        raise
    if part:
        yield part


def _read_all(
    some: Sequence[Request], under: Mapping[str, Any], first: int, now: int
) -> Iterator[Values]:
    for number, item in enumerate(some, first):
        try:
            yield _read(_laid(item, under) if under else item, {}, now)
        except UsageError as error:
            raise type(error)(f"Job number {number:,}: {error}", advice=error.advice) from None


def _laid(what: Request, under: Mapping[str, Any]) -> Request:
    """Lay a request over fields that hold for all."""
    from queuectl.merging import merge_requests

    if isinstance(what, NewJob):
        raise BadJobError("A NewJob is complete; fields can't be added to it.")
    return merge_requests(under, _given(what))


def _given(what: Request) -> Mapping[str, Any]:
    if isinstance(what, str):
        return {"command": what}
    return what if isinstance(what, dict | Mapping) else {"argv": what}


def _read(what: Request | None, fields: Mapping[str, Any], now: int) -> Values:
    if isinstance(what, str) and not fields:
        return {"command": check_command(what)}
    if isinstance(what, NewJob):
        if fields:
            raise BadJobError("A NewJob is complete; keywords can't be added to it.")
        return check_request(what)
    given = {} if what is None else _given(what)
    return read_values({**given, **fields} if fields else given, now=now)
