"""Runs in containers: the command line that is made for an engine, and that none is left behind.

Most of it is tested with a program that stands in for the engine. Where a real one runs containers,
and has an image to run (`QUEUECTL_TEST_IMAGE`), it is asked as well.
"""

import errno
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queuectl.guard import wire
from queuectl.guard.containers import flags
from queuectl.guard.leftovers import sweep
from tests.guard.harness import Harness, alive, until

ENGINE = r"""#!/bin/sh
# Notes each word that it is called with, and runs what comes behind the image, here.
for word in "$@"; do printf '%s\n' "$word"; done >> "$LOG"
echo -- >> "$LOG"
case $1 in
run)
    while [ "$1" != the-image ]; do
        case $1 in *:/run/queuectl) OUT=${1%%:*} ;; esac
        shift
    done
    shift
    QUEUECTL_RESULT=$OUT/result exec "$@" ;;
inspect) cat "$LOG.oom" 2> /dev/null || echo false ;;
esac
"""
IMAGE = os.environ.get("QUEUECTL_TEST_IMAGE")
"""An image that a real engine has, with a shell."""


class Engine:
    """A program that stands in for podman, and what it was called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        self.program = self.folder / "podman"
        self.program.write_text(ENGINE)
        self.program.chmod(0o755)
        self.log = folder / "log"
        self.env = {"PATH": f"{self.folder}:{os.environ['PATH']}", "LOG": str(self.log)}

    @property
    def calls(self) -> list[list[str]]:
        text = self.log.read_text() if self.log.exists() else ""
        return [call.splitlines() for call in text.split("--\n")[:-1]]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


@pytest.fixture
def guard(tmp_path: Path, engine: Engine) -> Iterator[Harness]:
    harness = Harness(tmp_path, engine.env)
    yield harness
    harness.guard.close()


def folders() -> list[str]:
    return [name for name in os.listdir("/tmp") if name.startswith("queuectl.")]


class TestCommandLine:
    def test_bounds_are_the_engines_business(self) -> None:
        bounds: Any = {
            "memory": 2**29,
            "cpus": 1.5,
            "nofile": 100,
            "nproc": 50,
            "user": "web",
            "read_only_root": True,
            "no_network": True,
            "mounts": ["/data:/data:ro"],
        }
        assert flags(bounds) == [
            *("--memory", "536870912b", "--memory-swap", "536870912b", "--cpus", "1.5"),
            *("--pids-limit", "50", "--ulimit", "nofile=100:100", "--user", "web"),
            *("--read-only", "--tmpfs", "/tmp", "--network", "none"),
            *("--volume", "/data:/data:ro"),
        ]
        assert flags({}) == []

    def test_what_is_started_and_what_ends_it(self, guard: Harness, engine: Engine) -> None:
        bounds = {"image": "the-image", "nproc": 7, "mounts": ["/srv:/site:rw"]}
        options: dict[str, Any] = {
            "bounds": bounds,
            "env": {"SECRET": "hidden value"},
            "told": {b"QUEUECTL_JOB_ID": b"x"},
            "cwd": "/site/inside",
        }
        run = guard.shell("echo $SECRET $QUEUECTL_JOB_ID; exit 3", **options)
        ended = guard.end(run)
        assert (ended.code, ended.how, ended.used) == (3, wire.EXITED, None)
        assert guard.output(run) == b"hidden value x\n"
        started, inspected, removed = engine.calls
        assert started[:2] == ["run", "--name"]
        name = started[2]
        assert name.startswith(f"queuectl.{guard.guard.pid}.")
        assert name.endswith(f"-{guard.guard.pid}-{run}")
        out = f"/tmp/{name}/out:/run/queuectl"
        assert started[3:] == [
            *("--label", "queuectl=run", "--env=SECRET", "--env=QUEUECTL_JOB_ID"),
            *("--env=QUEUECTL_RUN", "--pids-limit", "7", "--volume", "/srv:/site:rw"),
            *("--volume", out, "--workdir", "/site/inside", "the-image"),
            *("/bin/sh", "-c", "echo $SECRET $QUEUECTL_JOB_ID; exit 3"),
        ]
        assert inspected == ["inspect", "--format", "{{.State.OOMKilled}}", name]
        assert removed == ["rm", "--force", "--volumes", name]
        assert folders() == []

    def test_input_is_passed_on(self, guard: Harness, engine: Engine, tmp_path: Path) -> None:
        given = tmp_path / "given"
        given.write_text("from outside\n")
        run = guard.shell("cat", bounds={"image": "the-image"}, stdin=str(given))
        guard.end(run)
        assert guard.output(run) == b"from outside\n"
        assert "--interactive" in engine.calls[0]

    def test_its_result_comes_home(self, guard: Harness, tmp_path: Path) -> None:
        home = tmp_path / "1.result"
        told = {b"QUEUECTL_RESULT": str(home).encode()}
        bounds = {"image": "the-image"}
        guard.end(guard.shell("echo 7 > $QUEUECTL_RESULT", bounds=bounds, told=told))
        assert home.read_text() == "7\n"


class TestEnds:
    def test_out_of_memory_is_called_that(self, guard: Harness, engine: Engine) -> None:
        Path(f"{engine.log}.oom").write_text("true\n")
        bounds = {"image": "the-image", "memory": 2**29}
        ended = guard.end(guard.shell("exit 137", bounds=bounds))
        assert (ended.how, ended.code) == (wire.MEMORY, 137)

    def test_who_is_killed_is_removed_before_the_run_is_over(
        self, guard: Harness, engine: Engine
    ) -> None:
        run = guard.shell("exec sleep 600", bounds={"image": "the-image"})
        until(lambda: engine.calls, "the container to start")
        guard.tell("kill", run, wire.CANCEL)
        ended = guard.end(run)
        assert (ended.how, ended.code) == (wire.CANCEL, -signal.SIGKILL)
        assert engine.calls[-1][:2] == ["rm", "--force"]
        assert folders() == []
        assert guard.below() == []

    def test_a_killed_guard_leaves_it_to_whoever_comes_next(
        self, guard: Harness, engine: Engine, tmp_path: Path
    ) -> None:
        run = guard.shell("echo $$; exec sleep 600", bounds={"image": "the-image"})
        written = tmp_path / f"{run}.out"
        until(lambda: written.exists() and written.read_bytes().strip(), "the run to begin")
        pid = int(guard.output(run))
        (folder,) = folders()
        guard.guard.kill()
        until(lambda: not alive(guard.guard.pid), "the guard to be gone")
        os.environ["LOG"] = str(engine.log)
        try:
            sweep()
        finally:
            del os.environ["LOG"]
            os.kill(pid, signal.SIGKILL)
        assert engine.calls[-1] == ["rm", "--force", "--volumes", folder]
        assert folders() == []


class TestRefusals:
    def test_without_an_engine(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        guard = Harness(tmp_path, {"PATH": str(empty)})
        try:
            code, text = guard.refusal(guard.shell("true", bounds={"image": "the-image"}))
            assert code == errno.EPERM
            assert text == "image: this worker finds neither podman nor docker in its PATH"
        finally:
            guard.guard.close()

    def test_what_no_engine_does(self, guard: Harness) -> None:
        bounds = {"image": "the-image", "cpu_time": 60_000, "nice": 5}
        code, text = guard.refusal(guard.shell("true", bounds=bounds))
        assert code == errno.EPERM
        assert text.startswith("cpu_time: nobody counts it")
        assert "nice: " in text
        ended = guard.end(guard.shell("true", bounds={**bounds, "best_effort": True}))
        assert ended.noted.startswith("not enforced: cpu_time: ")


@pytest.mark.skipif(IMAGE is None, reason="needs an engine that runs, and the name of an image")
class TestForReal:
    """With a real engine: the first of podman and docker in the PATH."""

    @pytest.fixture
    def real(self, tmp_path: Path) -> Iterator[Harness]:
        harness = Harness(tmp_path)
        yield harness
        harness.guard.close()

    @staticmethod
    def names() -> str:
        engine = shutil.which("podman") or shutil.which("docker")
        assert engine is not None
        listed = subprocess.run(
            [engine, "ps", "--all", "--format", "{{.Names}}"], capture_output=True, check=True
        )
        return listed.stdout.decode()

    def test_it_runs_inside_and_its_result_comes_home(self, real: Harness, tmp_path: Path) -> None:
        home, shared = tmp_path / "1.result", tmp_path / "shared"
        shared.mkdir()
        bounds = {
            "image": IMAGE,
            "no_network": True,
            "nofile": 1_024,
            "nproc": 1_000,
            "mounts": [f"{shared}:/shared:rw"],
        }
        script = "cat /in-the-image; echo $NAME; echo 7 > $QUEUECTL_RESULT; echo x > /shared/made"
        told = {b"QUEUECTL_RESULT": str(home).encode()}
        run = real.shell(script, bounds=bounds, told=told, env={"NAME": "a b"})
        ended = real.end(run)
        assert ended.code == 0, real.errors(run)
        assert real.output(run) == b"this is the image\na b\n"
        assert home.read_text() == "7\n"
        assert (shared / "made").read_text() == "x\n"
        assert self.names() == ""
        assert folders() == []

    def test_killed_is_gone(self, real: Harness, tmp_path: Path) -> None:
        bounds = {"image": IMAGE, "no_network": True, "nofile": 1_024}
        run = real.shell("trap '' TERM; echo began; sleep 600", bounds=bounds, grace=0.5)
        written = tmp_path / f"{run}.out"
        until(lambda: written.exists() and written.read_bytes().strip(), "the container to begin")
        assert self.names().strip()
        real.tell("stop", run, wire.CANCEL)
        assert real.end(run).how == wire.CANCEL
        assert self.names() == ""
        assert real.below() == []

    def test_memory_is_bounded(self, real: Harness) -> None:
        bounds = {"image": IMAGE, "no_network": True, "nofile": 1_024, "memory": 2**25}
        script = "x=x; while :; do x=$x$x; done"
        ended = real.end(real.spawn(*shlex.split("/bin/sh -c"), script, bounds=bounds))
        assert ended.code == 128 + signal.SIGKILL
        # It is called what the engine calls it, and not all of them know.
        assert ended.how in (wire.MEMORY, wire.EXITED)
        assert self.names() == ""
