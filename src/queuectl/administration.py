"""Running the queue itself: its settings, queues, nodes, retention and the store's own health."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from queuectl.completion import Completion
from queuectl.errors import NotFoundError, StateError, UsageError
from queuectl.facts import Event, Node, Progress, QueueInfo, Stop
from queuectl.host import belongs_to_terminal, catches, host_identity, is_running, whoami
from queuectl.job import DEFAULT_QUEUE, FINISHED, Job, State
from queuectl.place import Place
from queuectl.request import check_name, check_sought, plain, read_duration
from queuectl.settings import Layer, Settings, canonical, layered, write_value
from queuectl.store import open_store
from queuectl.store.contract import Store, Topic
from queuectl.waiting import wait_until

if TYPE_CHECKING:
    from datetime import timedelta

    from queuectl.store.copying import Copied
    from queuectl.store.health import Finding

SETTINGS_HOLD = 1.0
"""Seconds for which new jobs get what the settings said when they were last read. To ask a server
before each of them would take about as long as to store it."""


MOST_TAGS = 200
"""Tags among which one is looked for that may be meant."""
SETTINGS_TABLES = ("config", "queues")
"""The tables of what was set, rather than done."""
FOLLOWED_WITHIN = 3.0
"""Seconds within which running nodes follow a change of the number of workers."""


class Administration:
    """What `Queue` can do besides handling jobs. It is a part of `Queue`, not used by itself."""

    place: Place
    store: Store

    # -- settings -------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings in force right now."""
        return self.place.settings(self.store.settings.config())[0]

    def explain_settings(self) -> tuple[Settings, dict[str, str]]:
        """Return the settings in force, and for those that aren't defaults where they come from."""
        return self.place.settings(self.store.settings.config())

    def set_setting(self, name: str, value: object) -> tuple[str, str]:
        """Set a setting for all nodes and users of this store; returns its name and text.

        A duration is text such as "7d", a timedelta, or a number of seconds.
        """
        key, text = write_value(name, plain(value))
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
            others = {k: v for k, v in self.store.settings.config().items() if k != key}
            shared = others if text is None else others | {key: text}
            layered([Layer("the config table", shared)])
            self.store.settings.set_config(key, text, now=self.store.now())
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
            known = self._completed_by = (changed, monotonic(), self._new_completion())
        return known[2]

    def _new_completion(self) -> Completion:
        return Completion(self.settings, hidden=self.store.secret_variables)

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
            changed = self.store.settings.set_paused(name, paused=paused, who=whoami(), now=now)
            if changed:
                self._record("pause" if paused else "resume", detail=name)
                self.store.nudge(Topic.WORK)
            return changed

        return self.store.transact(change)

    def queues(self) -> list[QueueInfo]:
        """Return the queues on which something was set."""
        return self.store.settings.queues()

    def unused(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return those of these queues that nobody has used, each with a used one that looks alike.

        Nobody has used a queue if no job is in it, none has run there, and nothing was set on it.
        """
        names = [check_sought("queue", name) for name in names]
        used = {count.queue for count in self.store.jobs.counts()}
        used |= {queue.name for queue in self.store.settings.queues()} | {DEFAULT_QUEUE}
        new = [
            name
            for name in names
            if name not in used and not self.store.history.rollups(queue=name)
        ]
        if not new:
            return {}
        from difflib import get_close_matches

        near = {name: get_close_matches(name, sorted(used), n=1) for name in new}
        return {name: found[0] if found else None for name, found in near.items()}

    def unknown_tags(self, tags: Iterable[str]) -> dict[str, str | None]:
        """Return those of these tags that no job has, each with a known one that looks alike."""
        tags = [check_sought("tag", tag) for tag in tags]
        unknown = [tag for tag in tags if tag not in self.store.jobs.tags_like(tag, 1)]
        if not unknown:
            return {}
        from difflib import get_close_matches

        some = self.store.jobs.tags_like("", MOST_TAGS)
        near = {
            tag: get_close_matches(
                tag, [*self.store.jobs.tags_like(tag[:1], MOST_TAGS), *some], n=1
            )
            for tag in unknown
        }
        return {tag: found[0] if found else None for tag, found in near.items()}

    def living_nodes(self) -> list[Node]:
        """Return the nodes that live; cheaper than `nodes`, which says what each of them runs."""
        return [node for node in self.store.nodes.all() if self.is_alive(node)]

    def nodes(self) -> list[dict[str, Any]]:
        """Return the registered nodes, with whether they live and how many jobs they run."""
        from queuectl.report import node_dict

        return [
            node_dict(node, alive=self.is_alive(node), running=self._busy_workers(node))
            for node in self.store.nodes.all()
        ]

    def _busy_workers(self, node: Node) -> int:
        # A worker may have short jobs in line behind the one that it runs.
        return len({job.worker for job in self.store.runs.held(node.id)})

    def is_alive(self, node: Node) -> bool:
        """Tell whether a node lives: by its process where we can see it, and by its lease."""
        return _is_alive(self.store, node)

    def is_dead(self, node: Node) -> bool:
        """Tell whether a node can't be alive, beyond doubt: then its jobs may be given to others.

        Between the living and the dead are those on other hosts whose lease seems to be over.
        """
        return _is_known_dead(self.store, node) or self.store.nodes.lapsed(node)

    def is_left_behind(self, job: Job) -> bool:
        """Tell whether a job is only called running because nobody has taken it over yet."""
        if job.state != State.PROCESSING:
            return False
        return all(node.id != job.node or self.is_dead(node) for node in self.store.nodes.all())

    def stop_nodes(self, nodes: Sequence[str] = (), *, force: bool = False) -> list[str]:
        """Ask nodes (all living ones by default) to stop; returns the ids of those asked."""
        how = Stop.RELEASE if force else Stop.DRAIN
        known = self.store.nodes.all()
        wanted = self._wanted(known, nodes)

        def ask() -> list[str]:
            asked = [node.id for node in wanted if self.store.nodes.ask_stop(node.id, how)]
            for id in asked:
                self._record("stop", node=id, detail=how.value)
            self.store.nudge(Topic.CONTROL)
            return asked

        return self.store.transact(ask)

    def restart_nodes(
        self, nodes: Sequence[str] = (), *, now: bool = False
    ) -> list[dict[str, Any]]:
        """Ask nodes on this host (all living ones by default) to start again in place.

        Their runs go on meanwhile; with `now` they are released. Says of each node whether it was
        `asked`, and if not, for which `reason`. What came of it is in the log of the node.
        """
        known = self.store.nodes.all()
        wanted = self._wanted(known, nodes)
        told = []
        for node in wanted:
            reason = self._why_not_restarted(node, now=now)
            if reason is None:
                # First, so that whoever can't be told of it isn't restarted.
                self._record("restart", node=node.id, detail="release" if now else "hand over")
                reason = self._restart(node, now=now)
            facts = {"id": node.id, "pid": node.pid, "host": node.host}
            told.append(facts | {"asked": reason is None, "reason": reason})
        return told

    def _why_not_restarted(self, node: Node, *, now: bool) -> str | None:
        """Return why a node can't be asked to start again; None if it can."""
        import signal

        signum = signal.SIGHUP if now else signal.SIGUSR1
        if node.boot != host_identity():
            return f"it can only be asked on its own host, {node.host}"
        if not is_running(node.pid, node.pid_start):
            return "it isn't running any more"
        if node.stop is not None:
            return "it is stopping"
        if now and belongs_to_terminal(node.pid):
            return "it belongs to a terminal; leave out --now, or stop it there and start it anew"
        if not catches(node.pid, signum):
            # It would be ended by it: an older version, or one that isn't up yet.
            return f"it doesn't listen to {signum.name}; stop it and start it anew"
        return None

    def _restart(self, node: Node, *, now: bool) -> str | None:
        """Ask a node to start again; or return why that couldn't be done."""
        import signal

        try:
            os.kill(node.pid, signal.SIGHUP if now else signal.SIGUSR1)
        except PermissionError:
            return "it belongs to another user"
        except ProcessLookupError:
            return "it isn't running any more"
        return None

    def followers(self, *, within: float = FOLLOWED_WITHIN) -> tuple[list[Node], list[Node]]:
        """Return the nodes with as many workers as the shared settings say, and the others.

        Waits, if need be, for nodes that are about to follow a change. Others have been told a
        number of their own: by `--count`, their environment or a `queuectl.toml`.
        """
        shared = layered([Layer("the config table", self.store.settings.config())])[0].workers
        found: tuple[list[Node], list[Node]] = [], []

        def look() -> int:
            for some in found:
                some.clear()
            for node in self.store.nodes.all():
                if node.stop is None and self.is_alive(node):
                    found[node.workers != shared].append(node)
            return len(found[1])

        with suppress(TimeoutError):
            wait_until(look, self.store.changed, timeout=within)
        return found

    def _wanted(self, known: Sequence[Node], names: Sequence[str]) -> list[Node]:
        """Return the nodes of these names; all that live, if none is named."""
        if isinstance(names, str):
            # Its letters could be the beginnings of other nodes' ids.
            raise UsageError("Nodes are named by a list of their ids.")
        found = [self._node(known, name) for name in names]
        return found or [node for node in known if self.is_alive(node)]

    def _node(self, known: Sequence[Node], name: str) -> Node:
        found = [node for node in known if node.id == name] or [
            node for node in known if name and node.id.startswith(name)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{name!r} fits several nodes; give more characters.")
        raise NotFoundError(f"There is no node {name!r}.", advice="see queuectl worker list.")

    # -- retention ----------------------------------------------------------------

    def prune(
        self,
        states: Sequence[State],
        older_than: "str | float | timedelta",
        *,
        dry_run: bool = False,
        progress: Callable[[State, int], None] | None = None,
    ) -> dict[State, int]:
        """Delete finished jobs that are older than a duration; says how many of which.

        The duration is text such as "7d", a timedelta, or a number of seconds. They go in batches,
        each for good: `progress` hears of those of a state that are gone so far.
        """
        age = read_duration("older_than", older_than)
        wrong = [state for state in states if state not in FINISHED]
        if wrong:
            raise UsageError(f"Only finished jobs can be pruned, not {wrong[0]} ones.")
        states = [State(state) for state in states]
        before = self.store.now() - age
        if dry_run:
            return {state: self.store.jobs.prunable(state, before) for state in states}
        pruned = dict.fromkeys(states, 0)
        try:
            for state in states:
                while count := self.store.jobs.prune(state, before, limit=1000):
                    pruned[state] += count
                    if progress is not None:
                        progress(state, pruned[state])
        finally:
            if any(pruned.values()):
                detail = ", ".join(f"{count} {state}" for state, count in pruned.items())
                self._record("prune", detail=detail)
        return pruned

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
            "settings": lambda: check_settings(self.place, self.store.settings.config()),
            "nodes": lambda: check_queue(self.store, self.is_alive),
        }
        return found + gather(checks, found)

    def share(self, group: str) -> None:
        """Let the members of a group of this host use the queue as its owner does.

        They can add jobs, which run as the user of the workers. Only a queue in a file can be
        shared, one in a folder of its own. To share it again mends what isn't the group's.
        """
        self.store.share(group)
        self._record("share", detail=f"with group {group}")

    def verify(self) -> list[str]:
        """Check the store's integrity; returns what is wrong, one sentence each."""
        return self.store.verify()

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """Write a consistent copy while everything goes on."""
        from queuectl.store.copying import backup
        from queuectl.store.sqlstore import SqlStore

        assert isinstance(self.store, SqlStore)
        backup(self.store, path, progress)

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
        from queuectl.store.sqlstore import SqlStore

        source = self.store
        # There is no other kind of store.
        assert isinstance(source, SqlStore)
        if not force:
            again = "or use --force, and what they run will run again at the target."
            _refuse_living(source, advice=again)
        target = open_store(url, create=True, unfinished=True)
        try:
            _refuse_living(target)
            return copy(source, target, progress, verifying=verifying, overwrite=overwrite)
        finally:
            target.close()

    def reset(self, *, settings: bool = False, progress: Progress | None = None) -> int:
        """Delete all jobs with their output, and all history; returns how many jobs there were.

        Settings and pauses stay, unless `settings` goes as well. While nodes live it is a
        `StateError`. Events of before go, too: the first that follows says who did it.
        """
        from queuectl.store.copying import empty
        from queuectl.store.sqlstore import SqlStore

        # There is no other kind of store.
        assert isinstance(self.store, SqlStore)
        _refuse_living(self.store)
        jobs = sum(count.jobs for count in self.store.jobs.counts())
        empty(self.store, spared=() if settings else SETTINGS_TABLES, progress=progress)
        self.store.history.fold()
        self._settings_changed += settings
        self._record("reset", detail=f"jobs: {jobs}" + (", settings" if settings else ""))
        return jobs

    def _record(
        self,
        kind: str,
        *,
        job: str | None = None,
        node: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.store.history.record(
            Event(at=self.store.now(), kind=kind, job=job, node=node, who=whoami(), detail=detail)
        )


def _is_alive(store: Store, node: Node) -> bool:
    return (
        not _is_known_dead(store, node)
        and node.lease_until > store.steady()
        # Paths mean the same only in processes that share a host.
        and not (node.boot == host_identity() and store.is_elsewhere(node))
    )


def _is_known_dead(store: Store, node: Node) -> bool:
    here = host_identity()
    if node.boot == here and not is_running(node.pid, node.pid_start):
        return True
    # The steady clock starts anew with the machine: a lease from before means nothing.
    return store.one_host and node.boot.partition("/")[0] != here.partition("/")[0]


def _refuse_living(store: Store, *, advice: str = "") -> None:
    living = [node.id for node in store.nodes.all() if _is_alive(store, node)]
    if living:
        raise StateError(
            f"Workers are at work on {store.url} (node {living[0]}); stop them first.",
            advice=advice,
        )
