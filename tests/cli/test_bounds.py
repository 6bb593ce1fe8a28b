"""Bounds of runs through the command line: asked for, told, enforced or refused, and counted."""

import json
import os
from typing import Any

import apsw

from queuectl.bound_values import NAMES
from queuectl.guard.bounding import powers_of
from tests.cli.conftest import Cli

IS_ROOT = os.geteuid() == 0
CAN_BOUND_MEMORY = "memory" in powers_of(os.getpid(), change=False)[0].controllers
BURN = "while :; do :; done"


def drain(cli: Cli) -> str:
    """Run all there is; returns the log."""
    return cli.run("worker", "start", "--count", "2", "--drain", timeout=120).stderr


def shown(cli: Cli, id: str) -> dict[str, Any]:
    job: dict[str, Any] = cli.ok("show", id, "--json").json
    return job


def insert(cli: Cli, id: str, command: str, bounds: str) -> None:
    """Enqueue a job as a foreign program does."""
    with apsw.Connection(str(cli.db)) as connection:
        connection.execute(
            "INSERT INTO jobs (id, command, bounds, max_retries) VALUES (?, ?, ?, 0)",
            (id, command, bounds),
        )


class TestAsking:
    def test_all_of_them(self, cli: Cli) -> None:
        cli.ok(
            *("enqueue", "--id", "x", "--memory", "512M", "--cpus", "1.5", "--cpu-time", "1m30s"),
            *("--nofile", "100", "--nproc", "50", "--nice", "5", "--user", "nobody"),
            *("--read-only-root", "--no-network", "--best-effort", "true"),
        )
        assert shown(cli, "x")["bounds"] == {
            "memory": 2**29,
            "cpus": 1.5,
            "cpu_time": 90,
            "nofile": 100,
            "nproc": 50,
            "nice": 5,
            "user": "nobody",
            "read_only_root": True,
            "no_network": True,
            "best_effort": True,
        }
        told = cli.ok("show", "x").stdout
        assert "memory 512MiB, cpus 1.5, cpu-time 90s, nofile 100, nproc 50, nice 5" in told

    def test_none_of_them(self, cli: Cli) -> None:
        cli.ok("enqueue", "--id", "x", "true")
        assert shown(cli, "x")["bounds"] == {}
        assert "Bounds" not in cli.ok("show", "x").stdout

    def test_in_json_one_by_one_or_together(self, cli: Cli) -> None:
        cli.ok("enqueue", '{"id": "x", "command": "true", "memory": "1G", "no_network": true}')
        cli.ok("enqueue", '{"id": "y", "command": "true", "bounds": {"cpu_time": 90}}')
        assert shown(cli, "x")["bounds"] == {"memory": 2**30, "no_network": True}
        assert shown(cli, "y")["bounds"] == {"cpu_time": 90}

    def test_what_json_shows_can_be_enqueued_again(self, cli: Cli) -> None:
        cli.ok("enqueue", "--id", "x", "--cpu-time", "1.5", "--memory", "3M", "true")
        again = {"command": "true", "id": "y", "bounds": shown(cli, "x")["bounds"]}
        cli.ok("enqueue", json.dumps(again))
        assert shown(cli, "y")["bounds"] == shown(cli, "x")["bounds"]

    def test_what_makes_no_sense_is_refused(self, cli: Cli) -> None:
        told = cli.refused("enqueue", "--memory", "lots", "true", code=2)
        assert "memory takes a size such as 1.5G, 512M or 64MiB, not 'lots'" in told
        assert "Bad cpu_time" in cli.refused("enqueue", "--cpu-time", "soon", "true", code=2)

    def test_edit_changes_one_and_takes_another_away(self, cli: Cli) -> None:
        cli.ok("enqueue", "--id", "x", "--memory", "1G", "--cpus", "2", "--no-network", "true")
        cli.ok("edit", "x", "--memory", "2G", "--network", "--cpus", "none", "--nice", "3")
        assert shown(cli, "x")["bounds"] == {"memory": 2**31, "nice": 3}
        told = cli.ok("show", "x").stdout
        assert "bounds memory 1GiB, cpus 2, no-network -> memory 2GiB, nice 3" in told

    def test_what_a_queue_says_holds_where_a_job_says_nothing(self, cli: Cli) -> None:
        cli.ok("queue", "set", "q", "--memory", "1G", "--cpu-time", "1h", "--nice", "4")
        cli.ok("enqueue", "--queue", "q", "--id", "x", "true")
        cli.ok("enqueue", "--queue", "q", "--id", "y", "--memory", "2G", "--nice", "0", "true")
        assert shown(cli, "x")["bounds"] == {"memory": 2**30, "cpu_time": 3600, "nice": 4}
        assert shown(cli, "y")["bounds"] == {"memory": 2**31, "cpu_time": 3600}

    def test_clones_have_them_too(self, cli: Cli) -> None:
        cli.ok("enqueue", "--id", "x", "--memory", "1G", "true")
        drain(cli)
        cli.ok("retry", "x", "--with", "cpus=2")
        assert shown(cli, "x")["bounds"] == {"memory": 2**30, "cpus": 2.0}


class TestEnforcing:
    def test_what_this_host_can_not_do_is_refused_when_the_run_starts(self, cli: Cli) -> None:
        cli.ok("enqueue", "--id", "x", "--max-retries", "0", "--memory", "64M", "echo ran")
        drain(cli)
        job = shown(cli, "x")
        if CAN_BOUND_MEMORY:
            assert job["state"] == "completed"
            return
        assert job["state"] == "dead"
        (run,) = job["runs"]
        assert run["outcome"] == "not started"
        assert "could not start: memory 64MiB: it takes" in run["error"]
        assert "--best-effort" in run["error"]
        assert run["peak_memory"] is None

    def test_or_noted_with_best_effort(self, cli: Cli) -> None:
        cli.ok("enqueue", "--id", "x", "--memory", "64M", "--best-effort", "echo ran")
        drain(cli)
        job = shown(cli, "x")
        assert job["state"] == "completed"
        (run,) = job["runs"]
        assert (run["noted"] is None) == CAN_BOUND_MEMORY
        if not CAN_BOUND_MEMORY:
            how = "watched by sampling, not by the kernel: memory 64MiB: it takes"
            assert run["noted"].startswith(how)
            assert "watched by sampling" in cli.ok("show", "x").stdout

    def test_several_are_told_once_and_what_helps_is_named(self, cli: Cli) -> None:
        args = ("enqueue", "true", "--cpus", "1", "--nproc", "10", "--max-retries", "0")
        cli.ok(*args, "--id", "x")
        cli.ok("enqueue", "true", "--id", "behind", "--after", "x")
        drain(cli)
        if shown(cli, "x")["state"] == "completed":
            return
        told = cli.run("wait", "x").stderr
        assert told.count("nproc 10: ") == told.count("cpus 1: ") <= 1
        help = "queuectl retry x --with best_effort=true"
        explained = cli.ok("explain", "x").stdout
        assert explained.count("(--best-effort would run it without)") == 1
        assert f"Run it as well as this host can with: {help}; or start a worker" in explained
        assert f"; repair that with: {help}\n" in cli.ok("explain", "behind").stdout
        cli.ok(*help.split()[1:])
        drain(cli)
        assert shown(cli, "behind")["state"] == "completed"

    def test_out_of_memory_is_called_that(self, cli: Cli) -> None:
        script = "import time; kept = [bytearray(4 << 20) and time.sleep(0.01) for _ in range(3)]"
        script += "; more = b'x' * (300 << 20); time.sleep(60)"
        program = ("--", "python3", "-c", script)
        cli.ok(
            *("enqueue", "--id", "x", "--max-retries", "0", "--memory", "64M", "--best-effort"),
            *program,
        )
        drain(cli)
        job = shown(cli, "x")
        assert job["reason"].startswith("out of memory: killed, as it may have 64MiB; no retries")
        (run,) = job["runs"]
        assert (run["outcome"], run["exit_code"], run["signal"]) == ("out of memory", None, None)
        told = cli.ok("explain", "x").stdout
        assert told.endswith("Give it more with: queuectl retry x --with memory=128MiB\n")

    def test_so_is_cpu_time(self, cli: Cli) -> None:
        cli.ok("enqueue", "--id", "x", "--max-retries", "0", "--cpu-time", "1", BURN)
        drain(cli)
        job = shown(cli, "x")
        assert job["reason"] == "out of CPU time: ended after 1s of it; no retries allowed"
        (run,) = job["runs"]
        assert run["outcome"] == "out of CPU time"
        assert run["cpu_ms"] >= 1_000

    def test_bounds_written_by_hand_that_make_no_sense_do_no_harm(self, cli: Cli) -> None:
        cli.ok("enqueue", "--id", "good", "true")
        for id, bounds in (("bad", '{"memory": "lots"}'), ("odd", '{"nonsense": 1}')):
            insert(cli, id, "true", bounds)
        insert(cli, "fine", "nice", '{"nice": 3}')
        drain(cli)
        assert shown(cli, "good")["state"] == "completed"
        assert "its bounds: memory takes a size" in shown(cli, "bad")["reason"]
        assert "its bounds: Unknown bound 'nonsense'" in shown(cli, "odd")["reason"]
        assert cli.queue.output("fine").stdout == b"3\n"


class TestTelling:
    def test_what_runs_used(self, cli: Cli) -> None:
        script = "kept = b'x' * (50 << 20); n = 0\nwhile n < 3_000_000: n += 1"
        cli.ok("enqueue", "--id", "x", "--", "python3", "-c", script)
        drain(cli)
        cli.ok("enqueue", "--id", "y", "true")
        (run,) = shown(cli, "x")["runs"]
        assert run["peak_memory"] > 50 << 20
        assert run["cpu_ms"] > 0
        assert run["read_bytes"] >= 0
        assert run["written_bytes"] >= 0
        assert run["noted"] is None
        listed = cli.ok("list", "--columns", "id,peak_memory,cpu,read,written").stdout
        head, *rows = listed.splitlines()
        assert head.split() == ["ID", "MEMORY", "CPU", "READ", "WRITTEN"]
        assert [row.split()[0] for row in rows[:2]] == ["y", "x"]
        assert " MiB" in rows[1]
        assert rows[0].split() == ["y"]
        lines = cli.ok("list", "--format", "{id} {peak_memory} {cpu}").stdout.splitlines()
        assert lines == ["y  ", f"x {run['peak_memory']} {run['cpu_ms']}"]
        told = cli.ok("show", "x").stdout
        assert "MEMORY" in told

    def test_stats_of_the_newest_runs(self, cli: Cli) -> None:
        for n in range(3):
            cli.ok("enqueue", "--queue", f"q{n % 2}", "true")
        drain(cli)
        found = cli.ok("stats", "--json").json
        assert found["peak_memory"]["count"] == found["cpu_ms"]["count"] == 3
        memory = found["peak_memory"]
        assert 0 < memory["median"] <= memory["p95"] <= memory["max"]
        assert cli.ok("stats", "--queue", "q1", "--json").json["cpu_ms"]["count"] == 1
        assert "Memory, median:" in cli.ok("stats").stdout

    def test_the_doctor_says_what_this_host_can_do(self, cli: Cli) -> None:
        cli.ok("enqueue", "true")
        bounds = cli.ok("doctor", "--json").json["bounds"]
        assert [one["name"] for one in bounds] == [
            n for n in NAMES if n not in ("best_effort", "mounts")
        ]
        by_name = {one["name"]: one for one in bounds}
        assert all((one["by"] is None) != (one["why_not"] is None) for one in bounds)
        assert (by_name["memory"]["by"] is not None) == CAN_BOUND_MEMORY
        assert (by_name["user"]["by"] is not None) == IS_ROOT
        told = cli.ok("doctor").stdout
        assert "Bounds of runs" in told
        assert "cpu-time:" in told


class TestSomebodyElse:
    def test_a_result_of_another_user_is_kept(self, cli: Cli) -> None:
        command = "id -un; echo '{\"n\": 7}' > $QUEUECTL_RESULT"
        cli.ok(
            "enqueue", "--id", "x", "--user", "nobody", "--cwd", "/", "--max-retries", "0", command
        )
        drain(cli)
        job = shown(cli, "x")
        if not IS_ROOT:
            assert "user nobody: only a node that runs as root" in job["reason"]
            return
        assert job["state"] == "completed"
        assert job["result"] == {"n": 7}
        assert cli.queue.output("x").stdout == b"nobody\n"
