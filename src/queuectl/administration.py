"""Running the queue itself: its settings, queues, nodes, retention and the store's own health."""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from queuectl.completion import Completion
from queuectl.errors import NotFoundError, StateError, UsageError
from queuectl.host import host_identity, is_running, whoami
from queuectl.job import FINISHED, State
from queuectl.place import Place
from queuectl.request import check_name
from queuectl.settings import Layer, Settings, canonical, layered, write_value
from queuectl.store import open_store
from queuectl.store.contract import Event, Node, Progress, QueueInfo, Stop, Store, Topic
from queuectl.when import parse_duration

if TYPE_CHECKING:
    from queuectl.store.copying import Copied
    from queuectl.store.health import Finding

SETTINGS_HOLD = 1.0
"""Seconds for which new jobs get what the settings said when they were last read. To ask a server
before each of them would take about as long as to store it."""


class Administration:
    """What `Queue` can do besides handling jobs. It is a part of `Queue`, not used by itself."""

    place: Place
    store: Store

    # -- settings -------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings in force right now."""
        return self.place.settings(self.store.config())[0]

    def explain_settings(self) -> tuple[Settings, dict[str, str]]:
        """Return the settings in force, and for those that aren't defaults where they come from."""
        return self.place.settings(self.store.config())

    def set_setting(self, name: str, value: object) -> tuple[str, str]:
        """Set a setting for all nodes and users of this store; returns its name and text."""
        key, text = write_value(name, value)
        self._change_shared(key, text)
        return key, text

    def unset_setting(self, name: str) -> str:
        """Forget a shared setting, so that its default holds again; returns its name."""
        key = canonical(name)
        key = "max_retries" if key == "max_attempts" else key
        self._change_shared(key, None)
        return key

    def _change_shared(self, key: str, text: str | None) -> None:
        """Change a shared setting, if those that are shared then still fit together."""

        def change() -> None:
            others = {k: v for k, v in self.store.config().items() if k != key}
            shared = others if text is None else others | {key: text}
            layered([Layer("the config table", shared)])
            self.store.set_config(key, text, now=self.store.now())
            self._record("config", detail=f"{key} unset" if text is None else f"{key} = {text}")
            self.store.nudge(Topic.CONTROL)

        self.store.transact(change)
        self._settings_changed += 1

    _settings_changed = 0
    """How often we have changed settings ourselves."""
    _completed_by: tuple[int, float, Completion] | None = None

    def _completion(self) -> Completion:
        """What the settings say for new jobs; what others have changed counts a moment later."""
        changed = self._settings_changed
        known = self._completed_by
        if known is None or known[0] != changed or monotonic() - known[1] > SETTINGS_HOLD:
            # Another thread may change them from here on: then these hold for this job only.
            known = self._completed_by = (changed, monotonic(), Completion(self.settings))
        return known[2]

    # -- queues and nodes -------------------------------------------------------

    def pause(self, queue: str) -> bool:
        """Stop giving out jobs of a queue; running ones go on. False when it was paused already."""
        return self._set_paused(queue, paused=True)

    def resume(self, queue: str) -> bool:
        """Give out jobs of a queue again. False when it wasn't paused."""
        return self._set_paused(queue, paused=False)

    def _set_paused(self, queue: str, *, paused: bool) -> bool:
        name = check_name("queue", queue)

        def change() -> bool:
            now = self.store.now()
            changed = self.store.set_paused(name, paused=paused, who=whoami(), now=now)
            if changed:
                self._record("pause" if paused else "resume", detail=name)
                self.store.nudge(Topic.WORK)
            return changed

        return self.store.transact(change)

    def queues(self) -> list[QueueInfo]:
        """Return the queues on which something was set."""
        return self.store.queues()

    def nodes(self) -> list[dict[str, Any]]:
        """Return the registered nodes, with whether they live and how many jobs they run."""
        from queuectl.report import node_dict

        return [
            node_dict(node, alive=self.is_alive(node), running=self._busy_workers(node))
            for node in self.store.nodes()
        ]

    def _busy_workers(self, node: Node) -> int:
        # A worker may have short jobs in line behind the one that it runs.
        return len({job.worker for job in self.store.held(node.id)})

    def is_alive(self, node: Node) -> bool:
        """Tell whether a node lives: by its process where we can see it, and by its lease."""
        return _is_alive(self.store, node)

    def is_dead(self, node: Node) -> bool:
        """Tell whether a node can't be alive, beyond doubt: then its jobs may be given to others.

        Between the living and the dead are those on other hosts whose lease seems to be over.
        """
        return _is_known_dead(self.store, node) or self.store.lapsed(node)

    def stop_nodes(self, nodes: Sequence[str] = (), *, force: bool = False) -> list[str]:
        """Ask nodes (all living ones by default) to stop; returns the ids of those asked."""
        how = Stop.RELEASE if force else Stop.DRAIN
        known = self.store.nodes()
        wanted = [self._node(known, name) for name in nodes] or [
            node for node in known if self.is_alive(node)
        ]

        def ask() -> list[str]:
            asked = [node.id for node in wanted if self.store.ask_stop(node.id, how)]
            for id in asked:
                self._record("stop", node=id, detail=how.value)
            self.store.nudge(Topic.CONTROL)
            return asked

        return self.store.transact(ask)

    def _node(self, known: Sequence[Node], name: str) -> Node:
        found = [node for node in known if node.id == name] or [
            node for node in known if name and node.id.startswith(name)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{name!r} fits several nodes; give more characters.")
        raise NotFoundError(f"There is no node {name!r}; see queuectl worker list.")

    # -- retention ----------------------------------------------------------------

    def prune(
        self, states: Sequence[State], older_than: int | str, *, dry_run: bool = False
    ) -> dict[State, int]:
        """Delete finished jobs that are older than a duration; says how many of which.

        The duration is text such as "7d", or a number of milliseconds.
        """
        if isinstance(older_than, str):
            older_than = parse_duration(older_than)
        wrong = [state for state in states if state not in FINISHED]
        if wrong:
            raise UsageError(f"Only finished jobs can be pruned, not {wrong[0]} ones.")
        states = [State(state) for state in states]
        before = self.store.now() - older_than
        if dry_run:
            return {state: self.store.prunable(state, before) for state in states}
        pruned = {state: self._prune(state, before) for state in states}
        if any(pruned.values()):
            detail = ", ".join(f"{count} {state}" for state, count in pruned.items())
            self._record("prune", detail=detail)
        return pruned

    def _prune(self, state: State, before: int) -> int:
        total = 0
        while count := self.store.prune(state, before, limit=1000):
            total += count
        return total

    # -- the store ----------------------------------------------------------------

    def info(self) -> Mapping[str, Any]:
        """Describe the store: engine, version, size, durability."""
        return self.store.info()

    def checkup(self) -> "list[Finding]":
        """Check the queue, its database and this host; says of each finding what to do."""
        from queuectl.store.health import check_store
        from queuectl.store.health.common import check_place, check_queue, check_settings, gather

        found = [*check_place(self.place), *check_store(self.store)]
        checks = {
            "settings": lambda: check_settings(self.place, self.store),
            "nodes": lambda: check_queue(self.store, self.is_alive),
        }
        return found + gather(checks, found)

    def verify(self) -> list[str]:
        """Check the store's integrity; returns what is wrong, one sentence each."""
        return self.store.verify()

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """Write a consistent copy while everything goes on."""
        self.store.backup(path, progress)

    def vacuum(self) -> None:
        """Give unused space back to the filesystem."""
        self.store.vacuum()

    def copy_to(
        self,
        url: str,
        *,
        overwrite: bool = False,
        force: bool = False,
        progress: Progress | None = None,
        verifying: Progress | None = None,
    ) -> "list[Copied]":
        """Copy everything to another store, which is made if need be, and compare both.

        A copy that was cut short is gone on with. A target that isn't empty is a `StateError`,
        unless it may be overwritten. Stop the workers first: while nodes live here, it is one
        as well, unless it is forced. What they run then counts as lost at the target, and runs
        again there.
        """
        from queuectl.store.copying import copy
        from queuectl.store.sql import SqlStore

        source = self.store
        # There is no other kind of store.
        assert isinstance(source, SqlStore)
        if not force:
            _refuse_living(source, "or use --force, and what they run will run again at the target")
        target = open_store(url, create=True, unfinished=True)
        try:
            _refuse_living(target, "it is to be filled")
            return copy(source, target, progress, verifying=verifying, overwrite=overwrite)
        finally:
            target.close()

    def _record(
        self,
        kind: str,
        *,
        job: str | None = None,
        node: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.store.record(
            Event(at=self.store.now(), kind=kind, job=job, node=node, who=whoami(), detail=detail)
        )


def _is_alive(store: Store, node: Node) -> bool:
    return not _is_known_dead(store, node) and node.lease_until > store.steady()


def _is_known_dead(store: Store, node: Node) -> bool:
    here = host_identity()
    if node.boot == here and not is_running(node.pid, node.pid_start):
        return True
    # The steady clock starts anew with the machine: a lease from before means nothing.
    return store.one_host and node.boot.partition("/")[0] != here.partition("/")[0]


def _refuse_living(store: Store, otherwise: str) -> None:
    living = [node.id for node in store.nodes() if _is_alive(store, node)]
    if living:
        raise StateError(
            f"Workers are at work on {store.url} (node {living[0]}); stop them first, {otherwise}."
        )
