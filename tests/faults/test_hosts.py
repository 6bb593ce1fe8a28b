"""Nodes on several hosts, of which one is cut off or dies: others take over, and never too soon."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import time_ns

import pytest

from queuectl import State
from tests.faults.hosts import Host, Switch
from tests.faults.places import LONG
from tests.support import Lab, is_gone, wait_for

LEASE = 3
SETTINGS = {"QUEUECTL_LEASE": f"{LEASE}s", "QUEUECTL_HEARTBEAT": "1s"}
WITHIN = LEASE + 5
"""Seconds in which others take over."""
CUTS = 6 if LONG else 1


@pytest.fixture(params=["postgres", "mariadb"])
def switch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Switch]:
    """A network with a server."""
    with Switch(request.param, tmp_path) as switch:
        yield switch


class Witness:
    """Jobs that note their starts, every moment they live, and their ends in a common folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._script = folder / "witness.sh"
        self._script.write_text(
            f"""
            cd {folder}
            run=$QUEUECTL_JOB_ID.$QUEUECTL_ATTEMPT
            echo $QUEUECTL_JOB_ID $QUEUECTL_ATTEMPT $(date +%s%N) $(hostname) >> starts
            while [ ! -e over ]; do date +%s%N >> beats.$run; sleep 0.05; done
            echo $QUEUECTL_JOB_ID >> ends
            """
        )

    @property
    def command(self) -> str:
        """What a job is to run."""
        return f"exec sh {self._script}"

    def starts(self, id: str) -> list[tuple[int, str]]:
        """Return when and where runs of a job started, in their order."""
        path = self._folder / "starts"
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(int(at), host) for job, _, at, host in rows if job == id]

    def last_sign(self, id: str, attempt: int) -> int:
        """Return when a run was last alive."""
        return int((self._folder / f"beats.{id}.{attempt}").read_text().split()[-1])

    def let_end(self) -> None:
        """Let all of them end."""
        (self._folder / "over").touch()

    @property
    def ends(self) -> list[str]:
        """The jobs that came to their end."""
        path = self._folder / "ends"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """Jobs that can be told to have run at the same time, or not."""
    return Witness(tmp_path)


def test_a_host_that_is_cut_off_never_runs_what_others_have_taken_over(
    switch: Switch, witness: Witness
) -> None:
    one, other = switch.host("one"), switch.host("other")
    one.node(switch.url, "--count", "4", env=SETTINGS)
    for id in ("job1", "job2"):
        switch.run("enqueue", "--id", id, "--max-retries", "0", witness.command)
        wait_for(lambda id=id: witness.starts(id), f"{id} to start")  # type: ignore[misc]
    other.node(switch.url, "--count", "4", env=SETTINGS)
    switch.run("enqueue", "--id", "job3", witness.command)
    wait_for(lambda: witness.starts("job3"), "job3 to start")
    hosts = {"one": one, "other": other}
    switch.run("config", "set", "max-crashes", "100")
    for _ in range(CUTS):
        cut_off_and_back(hosts[witness.starts("job1")[-1][1]], witness)
    # One whose power fails is a host that never comes back.
    loser = hosts[witness.starts("job1")[-1][1]]
    take_over(loser, witness, loser.crash)
    witness.let_end()
    for id in ("job1", "job2", "job3"):
        wait_for(lambda id=id: show(switch, id)["state"] == "completed", id)  # type: ignore[misc]
    assert sorted(witness.ends) == ["job1", "job2", "job3"]


def cut_off_and_back(host: Host, witness: Witness) -> None:
    """Cut off a host until others have all its jobs, and let it come back."""
    names = host.said().count("Goes on as node")
    take_over(host, witness, host.unplug)
    host.plug()
    at = time_ns()
    wait_for(lambda: host.said().count("Goes on as node") > names, "it to go on")
    print(f"{host.name} went on {(time_ns() - at) / 1e9:.2f} s after it was back")


def take_over(host: Host, witness: Witness, lose: Callable[[], None]) -> None:
    """Lose a host, and see its jobs run elsewhere: soon, and not before they are dead there."""
    runs = {id: len(witness.starts(id)) for id in ("job1", "job2", "job3")}
    lost = [id for id in runs if witness.starts(id)[-1][1] == host.name]
    lose()
    at = time_ns()
    for id in lost:
        wait_for(lambda id=id: len(witness.starts(id)) > runs[id], id)  # type: ignore[misc]
        start, where = witness.starts(id)[runs[id]]
        took = (start - at) / 1e9
        gap = (start - witness.last_sign(id, runs[id])) / 1e6
        print(f"{id} was taken over after {took:.2f} s, and had been dead for {gap:.0f} ms")
        assert where != host.name
        assert gap > 0
        assert took < WITHIN


def show(switch: Switch, id: str) -> dict[str, object]:
    """Return what the command says of a job."""
    found: dict[str, object] = json.loads(switch.run("show", id, "--json"))
    return found


def test_a_dead_node_is_taken_over_at_once_on_its_own_host(server_lab: Lab) -> None:
    lab = server_lab
    lab.extra_env = {"QUEUECTL_LEASE": "1h"}
    victim = lab.node()
    lab.queue.enqueue(f"echo $$ $(date +%s%N) >> {lab.folder}/starts; exec sleep 1000", id="job1")
    pid = lab.pid_in("starts")
    lab.node()
    victim.kill()
    at = time_ns()
    wait_for(lambda: len(lab.lines("starts")) == 2, "job1 to be taken over")
    took = (int(lab.lines("starts")[1].split()[1]) - at) / 1e9
    print(f"taken over after {took:.2f} s")
    assert is_gone(pid)
    lab.queue.cancel("job1")
    lab.wait_state("job1", State.CANCELLED)


def test_a_node_that_was_struck_out_ends_its_runs_and_starts_over(server_lab: Lab) -> None:
    lab = server_lab
    # So long that nobody else takes its jobs over.
    lab.extra_env = {"QUEUECTL_LEASE": "1h", "QUEUECTL_HEARTBEAT": "200ms"}
    lab.node()
    lab.queue.enqueue(
        f"echo $$ >> {lab.folder}/pids; [ $QUEUECTL_ATTEMPT -gt 1 ] || exec sleep 1000", id="job1"
    )
    pid = lab.pid_in("pids")
    lab.queue.store.forget(lab.queue.nodes()[0]["id"])
    wait_for(lambda: "Goes on as node" in lab.log(), "the node to start over", within=30)
    assert is_gone(pid)
    assert lab.wait_state("job1", State.COMPLETED).attempts == 2
