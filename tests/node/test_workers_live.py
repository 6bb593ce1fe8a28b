"""The number of workers follows the setting while a node runs: up at once, down as runs end."""

from queuectl import State
from tests.support import PATIENCE, Lab, wait_for


def start(lab: Lab, *args: str) -> None:
    """Start a node that has no number of its own, and return once it is registered."""
    number = len(lab.nodes)
    lab.start_node(*args, count=None)
    wait_for(lambda: "starting" in lab.log(number), "a node that registers")


def gated(lab: Lab, name: str) -> str:
    return (
        f"echo $$ > {lab.folder}/{name}.pid;"
        f" while [ ! -e {lab.folder}/{name}.open ]; do sleep 0.02; done"
    )


def running(lab: Lab) -> int:
    return len(lab.queue.list(state=State.PROCESSING))


def test_a_node_grows_at_once_and_shrinks_as_runs_end(lab: Lab) -> None:
    start(lab)
    ids = [lab.queue.enqueue(gated(lab, f"g{n}")).id for n in range(5)]
    lab.pid_in("g0.pid")
    assert running(lab) == 1
    lab.queue.set_setting("max_concurrent_jobs", 3)
    for n in range(3):
        lab.pid_in(f"g{n}.pid")
    assert running(lab) == 3
    wait_for(lambda: lab.queue.nodes()[0]["workers"] == 3, "the register to say so")
    wait_for(lambda: "3 workers from now on, not 1" in lab.log(), "the log to say so")
    lab.queue.set_setting("workers", 1)
    wait_for(lambda: lab.queue.nodes()[0]["workers"] == 1, "the register to say so")
    assert running(lab) == 3
    # Whichever of them end: nothing begins until they are few enough.
    for n in (0, 1):
        (lab.folder / f"g{n}.open").touch()
        lab.wait_state(ids[n], State.COMPLETED)
    assert (running(lab), lab.queue.get(ids[3]).state) == (1, State.PENDING)
    (lab.folder / "g2.open").touch()
    lab.pid_in("g3.pid")
    assert running(lab) == 1
    for n in (3, 4):
        (lab.folder / f"g{n}.open").touch()
    for id in ids:
        assert lab.wait_state(id, State.COMPLETED).attempts == 1


def test_short_jobs_go_on_while_it_changes(lab: Lab) -> None:
    start(lab)
    count = 1_500
    lab.queue.enqueue_many([f"echo {n} >> {lab.folder}/ran" for n in range(count)])
    for workers in (4, 1, 8, 2, 3, 1, 16):
        lab.queue.set_setting("workers", workers)
        assert lab.queue.followers(within=PATIENCE)[0], f"the node has {workers} workers"
    wait_for(lambda: lab.queue.status().states[State.COMPLETED] == count, "all to be done")
    assert sorted(map(int, lab.lines("ran"))) == list(range(count))


def test_config_set_says_who_follows_and_who_does_not(lab: Lab) -> None:
    start(lab)
    lab.node(count=2)
    one, two = sorted(lab.queue.nodes(), key=lambda node: int(node["workers"]))
    done = lab.run("config", "set", "max_concurrent_jobs", "3")
    assert done.stdout == "Config updated: workers = 3\n"
    follows, keeps = done.stderr.splitlines()
    assert (
        follows == f"Node {one['id']} (PID: {one['pid']}, host: {one['host']}) has 3 workers now."
    )
    assert keeps == (
        f"Node {two['id']} (PID: {two['pid']}, host: {two['host']}) keeps its 2 workers: it has its"
        " number from --count, its environment or its queuectl.toml."
    )
    assert {node["id"]: node["workers"] for node in lab.queue.nodes()} == {
        one["id"]: 3,
        two["id"]: 2,
    }
    assert "has 1 worker now" in lab.run("config", "unset", "workers").stderr
    follows, same = sorted(lab.run("config", "set", "workers", "2").stderr.splitlines(), key=len)
    assert follows.startswith(f"Node {one['id']}") and follows.endswith("has 2 workers now.")
    assert same.startswith(f"Node {two['id']}") and same.endswith("has 2 workers already.")


def test_the_log_is_rotated_by_what_the_settings_say_now(lab: Lab) -> None:
    start(lab, "--log", "my.log")
    lab.queue.set_setting("log_size", "1k")
    lab.queue.set_setting("log_files", 1)
    for _ in range(12):
        lab.wait_state(lab.queue.enqueue("true", tags=["x" * 50]).id, State.COMPLETED)
    wait_for(lambda: (lab.folder / "my.log.1").exists(), "the log to be rotated")
    assert not (lab.folder / "my.log.2").exists()
