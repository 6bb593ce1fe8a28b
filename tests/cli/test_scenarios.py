"""The promises a newcomer tries first, through the installed command and real workers."""

import json
from itertools import pairwise
from typing import Any

from tests.cli.conftest import Cli
from tests.support import Lab


def enqueue(lab: Lab, *args: str) -> str:
    done = lab.run("enqueue", "-q", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def show(lab: Lab, id: str) -> dict[str, Any]:
    done = lab.run("show", id, "--json")
    assert done.returncode == 0, done.stderr
    job: dict[str, Any] = json.loads(done.stdout)
    return job


def work(lab: Lab, *args: str) -> str:
    """Run workers until nothing is left to do; returns what they said."""
    done = lab.run("worker", "start", "--drain", *args, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


def listed(lab: Lab, state: str) -> list[str]:
    done = lab.run("list", "--state", state, "-q")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_01_a_job_completes(lab: Lab) -> None:
    said = lab.run("enqueue", "echo 'Hello World'")
    assert said.stdout.startswith("Enqueued job ")
    assert "echo 'Hello World'" in said.stdout
    log = work(lab)
    (id,) = listed(lab, "completed")
    job = show(lab, id)
    assert (job["state"], job["failures"], job["exit_code"]) == ("completed", 0, 0)
    assert f"job {id} started" in log
    assert f"job {id} completed in " in log


def test_02_a_failing_job_is_retried_after_2_and_4_seconds_then_dead(lab: Lab) -> None:
    assert lab.run("config", "set", "max_retries", "2").stdout == (
        "Config updated: max_retries = 2\n"
    )
    lab.run("config", "set", "backoff_base", "2")
    id = enqueue(lab, "exit 1")
    log = work(lab)
    job = show(lab, id)
    assert (job["state"], job["attempts"], job["failures"]) == ("dead", 3, 3)
    assert job["reason"] == "exit code 1; given up after 2 retries"
    runs = lab.queue.attempts(id)
    waits = [later.started_at - earlier.finished_at for earlier, later in pairwise(runs)]
    # Not before its time, by the store's own clock; how soon after depends on the machine.
    assert waits[0] >= 2000
    assert waits[1] >= 4000
    assert log.count("; retry at ") == 2
    assert f"job {id} dead" in log
    assert id in lab.run("dlq", "list").stdout


def test_03_two_workers_share_four_jobs(lab: Lab) -> None:
    ids = [enqueue(lab, f"echo 'Job {n}'; sleep 0.2") for n in range(4)]
    work(lab, "--count", "2")
    jobs = [show(lab, id) for id in ids]
    assert {job["worker"] for job in jobs} == {1, 2}
    assert [job["attempts"] for job in jobs] == [1, 1, 1, 1]


def test_04_an_unknown_command_fails_readably(lab: Lab) -> None:
    id = enqueue(lab, "nonexistent-command-xyz", "--max-retries", "1", "--retry-delay", "10ms")
    work(lab)
    job = show(lab, id)
    assert job["state"] == "dead"
    assert "command not found" in job["error"]
    assert listed(lab, "dead") == [id]


def test_05_jobs_survive_though_no_worker_ever_ran(lab: Lab) -> None:
    ids = [enqueue(lab, f"echo {n}") for n in range(2)]
    status = json.loads(lab.run("status", "--json").stdout)
    assert (status["states"]["pending"], status["workers"]) == (2, 0)
    work(lab)
    assert sorted(listed(lab, "completed")) == sorted(ids)


def test_06_a_dead_job_is_retried_by_hand(lab: Lab) -> None:
    id = enqueue(lab, "test -e now-it-works", "--max-retries", "0")
    work(lab)
    (lab.folder / "now-it-works").touch()
    moved = lab.run("dlq", "retry", id)
    assert moved.returncode == 0
    assert "pending" in moved.stdout
    job = show(lab, id)
    assert (job["state"], job["failures"], job["crashes"]) == ("pending", 0, 0)
    work(lab)
    assert show(lab, id)["state"] == "completed"
    assert lab.run("dlq", "retry", id).returncode == 4
    assert lab.run("dlq", "retry", "nobody").returncode == 3


def test_07_a_job_over_its_timeout_is_killed(lab: Lab) -> None:
    id = enqueue(lab, "sleep 30", "--timeout", "1", "--max-retries", "1", "--retry-delay", "10ms")
    work(lab)
    job = show(lab, id)
    assert (job["state"], job["attempts"]) == ("dead", 2)
    assert "timed out after 1s" in lab.run("output", id).stdout
    inside = enqueue(lab, "sleep 0.1; echo in time", "--timeout", "30")
    work(lab)
    assert show(lab, inside)["state"] == "completed"


def test_08_priorities(lab: Lab) -> None:
    for priority in ("0", "5", "10", "20", "-5"):
        enqueue(lab, f"echo {priority} >> order", "--priority", priority)
    work(lab)
    assert lab.lines("order") == ["20", "10", "5", "0", "-5"]


def test_09_a_delayed_job_waits_for_its_time(lab: Lab) -> None:
    id = enqueue(lab, "echo later", "--run-at", "+2s")
    assert show(lab, id)["state"] == "pending"
    for unit in ("s", "m", "h", "d"):
        enqueue(lab, "true", "--run-at", f"+30{unit}", "--queue", "far")
    work(lab, "--queue", "default")
    job = show(lab, id)
    assert job["state"] == "completed"
    assert job["started_at"] >= job["run_at"]
    assert lab.queue.status().queues["far"]["pending"] == 4  # type: ignore[index]


def test_10_output_of_success_and_failure(lab: Lab) -> None:
    good = enqueue(lab, "echo 'Success message'", "--priority", "5")
    bad = enqueue(lab, "echo 'Error' 1>&2 && exit 1", "--max-retries", "0")
    work(lab)
    text = lab.run("output", good).stdout
    for fact in ("Success message", "Command:", "State:", "completed", "Priority:", "5", "STDOUT:"):
        assert fact in text
    text = lab.run("output", bad).stdout
    assert "Error" in text.partition("STDERR:")[2]


def test_11_statistics_over_a_mix(lab: Lab) -> None:
    for seconds, priority in (("0.05", "10"), ("0.1", "5"), ("0.2", "0")):
        enqueue(lab, f"sleep {seconds}", "--priority", priority)
    enqueue(lab, "sleep 0.3", "--timeout", "15m")
    enqueue(lab, "exit 1", "--max-retries", "0")
    work(lab, "--count", "2")
    text = lab.run("stats").stdout
    for fact in ("80.00%", "Average", "Median", "Min", "Max", "Priority 10", "sleep 0.3"):
        assert fact in text, text
    stats = json.loads(lab.run("stats", "--json").stdout)
    assert (stats["total"], stats["states"]["completed"], stats["states"]["dead"]) == (5, 4, 1)
    assert stats["with_timeout"] == 1
    # On a busy machine that needn't be the one that sleeps longest.
    took = {job.id: job.duration_ms or 0 for job in lab.queue.list(state="completed")}
    assert [row["duration_ms"] for row in stats["slowest"]] == sorted(took.values(), reverse=True)
    assert all(took[row["id"]] == row["duration_ms"] for row in stats["slowest"])
    assert [(row["priority"], row["jobs"]) for row in stats["priorities"]] == [
        (10, 1),
        (5, 1),
        (0, 3),
    ]
    run = stats["run_time"]
    assert run["min_ms"] <= run["median_ms"] <= run["max_ms"]


def test_12_all_options_together(lab: Lab) -> None:
    id = enqueue(lab, "echo all", "--priority", "10", "--timeout", "25", "--run-at", "+1s")
    work(lab)
    job = show(lab, id)
    assert (job["state"], job["priority"], job["timeout"]) == ("completed", 10, 25)
    assert job["started_at"] >= job["run_at"]


def test_json_jobs_through_a_daemon(lab: Lab) -> None:
    for text in (
        '{"id":"job1","command":"echo Hello from job1"}',
        '{"id":"job2","command":"sleep 0.2 && echo Done"}',
        '{"id":"job3","command":"bash -c \\"exit 1\\"","max_retries":1,"retry_delay":"100ms"}',
        '{"id":"job4","command":"echo due","run_at":"2025-11-08T12:00:00Z"}',
    ):
        assert lab.run("enqueue", text).returncode == 0
    started = lab.run("worker", "start", "--count", "2", "--daemon")
    assert started.returncode == 0, started.stderr
    try:
        assert lab.run("wait", "job1", "job2", "job4").returncode == 0
        assert lab.run("wait", "job3").returncode == 1
        assert lab.run("dlq", "count").stdout.strip() == "1"
        pids = lab.run("config", "get", "worker_pids").stdout
        assert str(lab.queue.nodes()[0]["pid"]) in pids
    finally:
        stopped = lab.run("worker", "stop")
    assert stopped.returncode == 0, stopped.stderr
    assert lab.queue.nodes() == []
    assert lab.queue.output("job2").stdout == b"Done\n"


def test_a_node_for_each_gpu(cli: Cli) -> None:
    """A job sees the GPU of the node that took it; with all of its caller's variables, another."""
    for gpu in ("0", "1"):
        cli.variables["CUDA_VISIBLE_DEVICES"] = gpu
        cli.node("--queue", "gpu", "--queue", f"gpu{gpu}", count=1)
    cli.variables["CUDA_VISIBLE_DEVICES"] = "mine"
    script = "echo $CUDA_VISIBLE_DEVICES"
    # Each waits for the other, so that both nodes have to take one.
    meet = "touch $CUDA_VISIBLE_DEVICES.up; until [ -e 0.up -a -e 1.up ]; do sleep 0.02; done"
    pair = [cli.add(f"{meet}; {script}", "--queue", "gpu") for _ in range(2)]
    one = cli.add(script, "--queue", "gpu1")
    other = cli.add(script, "--queue", "gpu1", "--env-all")
    cli.ok("wait", *pair, one, other)
    outputs = [cli.queue.output(id).stdout.decode().strip() for id in (*pair, one, other)]
    assert sorted(outputs[:2]) == ["0", "1"]
    assert outputs[2:] == ["1", "mine"]


def test_nothing_is_left_where_uninstalling_does_not_look(cli: Cli) -> None:
    cli.variables["QUEUECTL_DB"] = ""
    before = set(cli.folder.rglob("*"))
    cli.add("echo hello")
    cli.ok("worker", "start", "--drain")
    cli.ok("worker", "start", "--daemon")
    cli.ok("worker", "stop")
    made = set(cli.folder.rglob("*")) - before
    home = cli.folder / "data"
    assert {path for path in made if not path.is_relative_to(home / "queuectl")} <= {home}
