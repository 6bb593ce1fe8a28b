"""The nodes of a queue: who lives, who is dead, and asking them to stop or to start again."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from queuectl.errors import NotFoundError, StateError, UsageError
from queuectl.facts import Node, Stop
from queuectl.host import belongs_to_terminal, catches, host_identity, is_running
from queuectl.job import Job, State
from queuectl.settings import Layer, layered
from queuectl.store.contract import Store

if TYPE_CHECKING:
    from signal import Signals

# -- who lives --------------------------------------------------------------------------


def living(store: Store) -> list[Node]:
    return [node for node in store.nodes.all() if is_alive(store, node)]


def is_alive(store: Store, node: Node) -> bool:
    return (
        not _is_known_dead(store, node)
        and node.lease_until > store.clock.steady()
        # Paths mean the same only in processes that share a host.
        and not (node.boot == host_identity() and store.folder.is_elsewhere(node))
    )


def is_dead(store: Store, node: Node) -> bool:
    return _is_known_dead(store, node) or node.lapsed


def _is_known_dead(store: Store, node: Node) -> bool:
    here = host_identity()
    if node.boot == here and not is_running(node.pid, node.pid_start):
        return True
    # The steady clock starts anew with the machine: a lease from before means nothing.
    return store.one_host and node.boot.partition("/")[0] != here.partition("/")[0]


def is_left_behind(store: Store, job: Job) -> bool:
    if job.state != State.PROCESSING:
        return False
    return all(node.id != job.node or is_dead(store, node) for node in store.nodes.all())


def refuse_living(store: Store, *, advice: str = "") -> None:
    """Raise a `StateError` if a node lives."""
    if nodes := living(store):
        raise StateError(
            f"Workers are at work on {store.url} (node {nodes[0].id}); stop them first.",
            advice=advice,
        )


def busy_workers(store: Store, node: Node) -> int:
    """Count the workers of a node that run something."""
    # A worker may have short jobs in line behind the one that it runs.
    return len({job.worker for job in store.runs.held(node.id)})


# -- asking them ------------------------------------------------------------------------


def stop(store: Store, names: Sequence[str], *, force: bool) -> list[str]:
    from queuectl.history import event_of

    how = Stop.RELEASE if force else Stop.DRAIN
    asked = []
    for node in _wanted(store, names):
        event = event_of(store.clock.now(), "stop", node=node.id, detail=how.value)
        if store.nodes.ask_stop(node.id, how, event=event):
            asked.append(node.id)
    return asked


def restart(store: Store, names: Sequence[str], *, now: bool) -> list[dict[str, Any]]:
    import signal

    from queuectl.history import record

    told = []
    for node in _wanted(store, names):
        signum = signal.SIGHUP if now else signal.SIGUSR1
        reason = _why_not_restarted(node, signum)
        if reason is None:
            # First, so that whoever can't be told of it isn't restarted.
            record(store, "restart", node=node.id, detail="release" if now else "hand over")
            reason = _kill(node, signum)
        facts = {"id": node.id, "pid": node.pid, "host": node.host}
        told.append(facts | {"asked": reason is None, "reason": reason})
    return told


def _why_not_restarted(node: Node, signum: "Signals") -> str | None:
    """Return why a node can't be asked by a signal to start again; None if it can."""
    if node.boot != host_identity():
        return f"it can only be asked on its own host, {node.host}"
    if not is_running(node.pid, node.pid_start):
        return "it isn't running any more"
    if node.stop is not None:
        return "it is stopping"
    if signum.name == "SIGHUP" and belongs_to_terminal(node.pid):
        return "it belongs to a terminal; leave out --now, or stop it there and start it anew"
    if not catches(node.pid, signum):
        # It would be ended by it: an older version, or one that isn't up yet.
        return f"it doesn't listen to {signum.name}; stop it and start it anew"
    return None


def _kill(node: Node, signum: "Signals") -> str | None:
    """Send a signal to a node; or return why that couldn't be done."""
    try:
        os.kill(node.pid, signum)
    except PermissionError:
        return "it belongs to another user"
    except ProcessLookupError:
        return "it isn't running any more"
    return None


def followers(store: Store, *, within: float) -> tuple[list[Node], list[Node]]:
    from queuectl.waiting import wait_until

    shared = layered([Layer("the config table", store.settings.config())])[0].workers
    found: tuple[list[Node], list[Node]] = [], []

    def look() -> int:
        for some in found:
            some.clear()
        for node in living(store):
            if node.stop is None:
                found[node.workers != shared].append(node)
        return len(found[1])

    with suppress(TimeoutError):
        wait_until(look, store.changed, timeout=within)
    return found


def _wanted(store: Store, names: Sequence[str]) -> list[Node]:
    """Return the nodes of these names; all that live, if none is named."""
    if isinstance(names, str):
        # Its letters could be the beginnings of other nodes' ids.
        raise UsageError("Nodes are named by a list of their ids.")
    known = store.nodes.all()
    found = [_named(known, name) for name in names]
    return found or [node for node in known if is_alive(store, node)]


def _named(known: Sequence[Node], name: str) -> Node:
    found = [node for node in known if node.id == name] or [
        node for node in known if name and node.id.startswith(name)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} fits several nodes; give more characters.")
    raise NotFoundError(f"There is no node {name!r}.", advice="see queuectl worker list.")
