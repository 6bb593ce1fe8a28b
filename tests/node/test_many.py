"""Many workers, many jobs: each exactly once, in order, and woken without polling."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl import State
from tests.support import Lab, wait_for

ENQUEUER = """
import sys
from queuectl import Queue
queue = Queue(sys.argv[1])
for n in range(int(sys.argv[3])):
    queue.enqueue(f"echo $QUEUECTL_JOB_ID $QUEUECTL_ATTEMPT >> {sys.argv[4]}/ledger{n % 7}",
                  id=f"{sys.argv[2]}-{n}")
"""

INATTENTIVE = """
from queuectl.node import node
node.ROUND = 1000.0
from queuectl.cli.main import main
main()
"""
"""A node that finds nothing by itself but once when it starts: it has to be told."""

FOREIGN_CLIENT = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
with db:
    db.execute("INSERT INTO jobs (id, command) VALUES ('raw', 'echo raw')")
db.close()
"""


def test_no_job_runs_twice(lab: Lab) -> None:
    """3 nodes x 8 workers over 2,000 jobs, enqueued by 4 processes while they run."""
    for _ in range(3):
        lab.node(count=8)
    program = [sys.executable, "-c", ENQUEUER, str(lab.db)]
    enqueuers = [
        subprocess.Popen([*program, f"e{n}", "500", str(lab.folder)], env=lab.env) for n in range(4)
    ]
    for enqueuer in enqueuers:
        assert enqueuer.wait(300) == 0
    wait_for(lambda: lab.queue.status().states[State.COMPLETED] == 2000, "2,000 jobs", within=300)
    ran = Counter(line for n in range(7) for line in lab.lines(f"ledger{n}"))
    assert ran == Counter(f"e{e}-{n} 1" for e in range(4) for n in range(500))
    assert lab.queue.store.verify() == []


def test_higher_priority_first_then_first_come_first_served(lab: Lab) -> None:
    order = lab.folder / "order"
    for name, priority in [("a", 0), ("b", 5), ("c", 10), ("d", 20), ("e", -5), ("f", 5)]:
        lab.queue.enqueue(f"echo {name} >> {order}", priority=priority)
    lab.node("--drain").wait(60)
    assert lab.lines("order") == ["d", "c", "b", "f", "a", "e"]


def test_rows_inserted_by_another_client_run(lab: Lab) -> None:
    lab.node()
    # In a process of its own: two SQLite libraries in one process break each other's locks.
    subprocess.run(
        [sys.executable, "-c", FOREIGN_CLIENT, str(lab.db)], check=True, timeout=60, env=lab.env
    )
    job = lab.wait_state("raw", State.COMPLETED)
    assert lab.queue.output("raw").stdout == b"raw\n"
    assert job.max_retries is None


def test_everything_that_makes_work_wakes_an_idle_node(lab: Lab) -> None:
    lab.node()
    dead = lab.queue.enqueue("[ -e gate ] && echo again", max_retries=0, cwd=str(lab.folder)).id
    lab.wait_state(dead, State.DEAD)
    (lab.folder / "gate").touch()
    lab.queue.retry(dead)
    lab.wait_state(dead, State.COMPLETED)
    lab.queue.pause("default")
    held = lab.queue.enqueue("true").id
    delayed = lab.queue.enqueue("true", queue="other", delay="300ms").id
    lab.wait_state(delayed, State.COMPLETED)
    assert lab.queue.get(held).state == State.PENDING
    lab.queue.resume("default")
    lab.wait_state(held, State.COMPLETED)


class Inattentive(Lab):
    """A lab whose nodes don't look around."""

    def command(self, *args: str) -> list[str]:
        if args[:2] == ("worker", "start"):
            return [sys.executable, "-c", INATTENTIVE, *args]
        return super().command(*args)


@pytest.fixture
def inattentive(tmp_path: Path) -> Iterator[Lab]:
    lab = Inattentive(tmp_path)
    # Nor does a renewal of its lease wake one.
    lab.extra_env = {"QUEUECTL_LEASE": "2h", "QUEUECTL_HEARTBEAT": "1h"}
    yield lab
    lab.close()


def test_an_idle_node_is_woken_by_new_work(inattentive: Lab) -> None:
    lab = inattentive
    lab.node()
    for n in range(5):
        lab.queue.enqueue("true", id=f"job{n}")
        lab.wait_state(f"job{n}", State.COMPLETED)


def test_a_node_that_nobody_disturbs_retries_in_time(lab: Lab) -> None:
    # Nobody writes but the node itself, and what it writes is no news to it.
    lab.extra_env = {"QUEUECTL_LEASE": "2h", "QUEUECTL_HEARTBEAT": "1h"}
    lab.node(count=2)
    failing = "exit $((3 - QUEUECTL_ATTEMPT))"
    id = lab.queue.enqueue(failing, max_retries=2, retry_delay="300ms").id
    assert lab.wait_state(id, State.COMPLETED).attempts == 3


def test_an_expired_job_is_dead_without_having_run(lab: Lab) -> None:
    late = lab.queue.enqueue("true", expire="1ms").id
    lab.node()
    job = lab.wait_state(late, State.DEAD)
    assert (job.attempts, job.reason) == (0, "expired before it could start")


def test_a_job_that_expires_while_it_waits_is_dead_by_then(lab: Lab) -> None:
    lab.extra_env = {"QUEUECTL_LEASE": "2h", "QUEUECTL_HEARTBEAT": "1h"}
    lab.queue.pause("default")
    lab.node()
    late = lab.queue.enqueue("true", expire="1s").id
    assert lab.wait_state(late, State.DEAD).attempts == 0


def test_settings_are_live(lab: Lab) -> None:
    lab.node()
    lab.run("config", "set", "output_limit", "10")
    chatty = lab.queue.enqueue("echo 0123456789abcdefghij").id
    lab.wait_state(chatty, State.COMPLETED)
    assert lab.queue.output(chatty).stdout == b"01234ghij\n"


def test_retention_prunes_by_rule(lab: Lab) -> None:
    lab.queue.set_setting("retention", "1ms")
    done = lab.queue.enqueue("true").id
    dead = lab.queue.enqueue("false", max_retries=0).id
    lab.node("--drain").wait(60)
    lab.node()
    wait_for(lambda: not lab.queue.store.jobs.get(done), "the completed job to be pruned")
    assert lab.queue.get(dead).state == State.DEAD
    told = "retention: 1 completed"
    wait_for(lambda: told in [event.detail for event in lab.queue.events()], "the event of that")


def test_events_are_pruned_by_a_rule_of_their_own(lab: Lab) -> None:
    lab.queue.set_setting("retention", "1ms")
    lab.queue.pause("mail")
    assert [event.kind for event in lab.queue.events()] == ["pause", "config"]
    lab.queue.set_setting("events-retention", "1ms")
    lab.node()
    wait_for(lambda: not lab.queue.events(), "the events to be pruned")


def test_drain_says_what_it_leaves_in_paused_queues(lab: Lab) -> None:
    held = lab.queue.enqueue("true").id
    lab.queue.pause("default")
    assert lab.node("--drain").wait(60) == 0
    assert "Nothing left to do; 1 job waits, in paused queues." in lab.log()
    assert lab.queue.get(held).state == State.PENDING


def test_drain_sums_up_what_it_did(lab: Lab) -> None:
    for command in ("true", "true", "false"):
        lab.queue.enqueue(command, max_retries=0)
    assert lab.node("--drain").wait(60) == 0
    assert "Nothing left to do: 2 completed, 1 dead.\n" in lab.log()


def test_drain_says_what_keeps_what_is_left(lab: Lab) -> None:
    lab.queue.enqueue("false", id="dead", max_retries=0)
    lab.queue.enqueue("true", after="dead")
    lab.queue.hold(lab.queue.enqueue("true"))
    lab.queue.enqueue("true", needs={"gpu": 1})
    lab.queue.push("data", b"x", type="mail")
    assert lab.node("--drain").wait(60) == 0
    told = (
        "Nothing left to do: 1 dead; 1 job waits, held; 1 job waits, for other nodes to handle;"
        " 1 job waits, for nodes that have what is needed (see queuectl status);"
        " 1 job waits, blocked by others (see queuectl groups, and queuectl explain ID).\n"
    )
    assert told in lab.log()


def test_drain_says_what_it_waits_for(lab: Lab) -> None:
    later = lab.queue.enqueue("true", delay="2h").id
    node = lab.node("--drain")
    wait_for(lambda: "1 job waits for later; the next is due 20" in lab.log(), "a word about it")
    assert re.search(r"is due \S+ \(in (2h|1h5[0-9]m)\)\.\n", lab.log())
    lab.queue.retry(later)
    assert node.wait(60) == 0
    assert lab.log().count("waits for later") == 1


@pytest.mark.parametrize("command", ["[[ a == a ]]", "source /dev/null", "declare x=1"])
def test_what_only_bash_knows_is_told(lab: Lab, command: str) -> None:
    id = lab.queue.enqueue(command, shell="/bin/sh", max_retries=0).id
    lab.node("--drain").wait(60)
    assert (lab.queue.get(id).error or "").endswith("(bash knows it: enqueue with --shell bash)")
