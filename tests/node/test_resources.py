"""Nodes with resources: what runs are told, what is never in use twice, and what survives what."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl import State
from queuectl.inventory import find_gpus
from tests.support import PATIENCE, Lab, lab_in, wait_for

TELL = 'echo "$CUDA_VISIBLE_DEVICES|$QUEUECTL_GPU|$QUEUECTL_CPU|$QUEUECTL_MEM"'
HOLD = """\
import fcntl, os, sys, time

# Usage: hold.py FOLDER COUNT: holds as many lock files of a folder, or says that they aren't there.
folder, count = sys.argv[1], int(sys.argv[2])
held = []
for name in sorted(os.listdir(folder)):
    if len(held) == count or name == "over":
        break
    file = open(os.path.join(folder, name), "a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held.append(file)
    except BlockingIOError:
        file.close()
if len(held) < count:
    open(os.path.join(folder, "over"), "a").write(os.environ["QUEUECTL_JOB_ID"] + "\\n")
time.sleep(float(sys.argv[3]))
"""


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def any_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A lab on each kind of store."""
    store = request.param
    url = None if store == "sqlite" else request.getfixturevalue(f"{store}_url")
    with lab_in(tmp_path, url) as lab:
        yield lab


def gated(lab: Lab, name: str) -> str:
    """A job that says what it was given, and goes on until the test creates a file."""
    return (
        f"{TELL} > {lab.folder}/{name}.told.new;"
        f" mv {lab.folder}/{name}.told.new {lab.folder}/{name}.told;"
        f" while [ ! -e {lab.folder}/{name}.open ]; do sleep 0.02; done"
    )


def told(lab: Lab, name: str) -> str:
    path = lab.folder / f"{name}.told"
    wait_for(path.exists, f"job {name} to begin")
    return path.read_text().strip()


def open_gate(lab: Lab, *names: str) -> None:
    for name in names:
        (lab.folder / f"{name}.open").touch()


def run_all(lab: Lab, *resources: str, count: int = 4) -> None:
    done = lab.run("worker", "start", "--count", str(count), "--drain", *resources)
    assert done.returncode == 0, done.stderr


def output(lab: Lab, id: str) -> str:
    return lab.run("logs", id).stdout.strip()


def wait_all(lab: Lab) -> None:
    """Wait until no job waits or runs."""
    open_states = (State.PENDING, State.FAILED, State.PROCESSING)
    wait_for(
        lambda: not any(lab.queue.status().states.get(state) for state in open_states),
        "all jobs to be over",
    )


def is_state(lab: Lab, id: str, state: State) -> bool:
    return lab.queue.get(id).state == state


class TestTold:
    def test_runs_are_told_what_is_theirs(self, any_lab: Lab) -> None:
        lab = any_lab
        lab.queue.enqueue(TELL, id="one", needs="gpu=1,cpu=2,mem=1G")
        lab.queue.enqueue(TELL, id="both", needs={"gpu": 2})
        lab.queue.enqueue(TELL, id="half", needs="gpu=0.5,cpu=0.5")
        lab.queue.enqueue(TELL, id="none")
        lab.queue.enqueue(TELL, id="own", env={"CUDA_VISIBLE_DEVICES": "7"})
        run_all(lab, "--resources", "gpu=[2,5],cpu=4,mem=2G", count=1)
        assert output(lab, "one") == "2|2|2|1073741824"
        assert output(lab, "both") == "2,5|2,5||"
        assert output(lab, "half") == "2|2|0.5|"
        # Who hasn't asked for a GPU sees none, where they are given out; unless it knows better.
        assert output(lab, "none") == "|||"
        assert output(lab, "own") == "7|||"
        assert lab.queue.get("both").devices == {"gpu": (2, 5)}

    def test_without_gpus_nothing_is_hidden(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
        lab.queue.enqueue(TELL, id="x", needs="cpu=1")
        run_all(lab, "--resources", "cpu=1")
        assert output(lab, "x") == "3||1|"

    def test_programs_that_stay_are_told_as_well(self, lab: Lab) -> None:
        program = lab.folder / "serve.py"
        program.write_text(
            "#!" + sys.executable + "\n"
            "import json, sys\n"
            "for line in sys.stdin:\n"
            "    job = json.loads(line)\n"
            "    if 'job' in job and 'id' in job:\n"
            "        print(json.dumps({'done': job['job'], 'result': job.get('given')}),"
            " flush=True)\n"
        )
        program.chmod(0o755)
        lab.queue.push("x", b"", type="t", needs="gpu=1,cpu=2")
        run_all(lab, "--serve", f"t={program}", "--resources", "gpu=[4],cpu=2")
        assert lab.queue.result("x") == {
            "QUEUECTL_CPU": "2",
            "QUEUECTL_GPU": "4",
            "CUDA_VISIBLE_DEVICES": "4",
        }


class TestNeverTwice:
    def test_what_jobs_use_they_have_for_themselves(self, any_lab: Lab) -> None:
        """Each takes as many locks as it needs; one that finds too few says so."""
        lab = any_lab
        hold = lab.folder / "hold.py"
        hold.write_text(HOLD)
        sizes = {"a": 3, "b": 5}
        for name, many in sizes.items():
            (lab.folder / name).mkdir()
            for n in range(many):
                (lab.folder / name / str(n)).touch()
        for n in range(24):
            count = 1 + n % 3
            lab.queue.enqueue(
                f"exec {sys.executable} -I -S {hold} {lab.folder}/$MACHINE {count} 0.1",
                id=f"j{n}",
                needs={"license": count},
            )
        lab.queue.enqueue(
            f"exec {sys.executable} -I -S {hold} {lab.folder}/$MACHINE 5 0.1",
            id="largest",
            needs="license=5",
        )
        for name, many in sizes.items():
            lab.node("--resources", f"license={many}", "--env", f"MACHINE={name}", count=8)
        wait_all(lab)
        assert [one for one in sizes if (lab.folder / one / "over").exists()] == []
        assert is_state(lab, "largest", State.COMPLETED)
        assert lab.queue.store.runs.reservations() == []

    def test_a_device_is_free_when_its_run_is_gone(self, lab: Lab) -> None:
        """A job that is cancelled, and takes its time to end, still has its device."""
        path = lab.folder
        lab.queue.enqueue(
            f"trap 'sleep 1; touch {path}/gone; exit' TERM; touch {path}/ready;"
            " while :; do sleep 0.02; done",
            id="stubborn",
            needs="gpu=1",
        )
        lab.node("--resources", "gpu=1", count=2)
        wait_for((path / "ready").exists, "the job to begin")
        lab.queue.enqueue(f"test -e {path}/gone", id="next", needs="gpu=1", max_retries=0)
        lab.queue.cancel("stubborn")
        wait_all(lab)
        assert is_state(lab, "next", State.COMPLETED)


class TestSurvives:
    def test_a_restart_in_place(self, any_lab: Lab) -> None:
        lab = any_lab
        for name in ("a", "b"):
            lab.queue.enqueue(gated(lab, name), id=name, needs="gpu=0.5")
        node = lab.node("--resources", "gpu=[6,7]", count=4)
        assert told(lab, "a") == told(lab, "b") == "6|6||"
        node.send_signal(signal.SIGUSR1)
        wait_for(lambda: "goes on with" in lab.log(), "the node to go on")
        lab.queue.enqueue(gated(lab, "c"), id="c", needs="gpu=1")
        lab.queue.enqueue(gated(lab, "d"), id="d", needs="gpu=1")
        assert told(lab, "c") == "7|7||"
        assert is_state(lab, "d", State.PENDING)
        open_gate(lab, "a", "b")
        assert told(lab, "d") == "6|6||"
        open_gate(lab, "c", "d")
        wait_all(lab)

    def test_a_kill_of_its_node(self, lab: Lab) -> None:
        lab.queue.enqueue(gated(lab, "a"), id="a", needs="cpu=4")
        first = lab.node("--resources", "cpu=4")
        told(lab, "a")
        lab.queue.enqueue("true", id="b", needs="cpu=4")
        first.kill()
        first.wait()
        (lab.folder / "a.told").unlink()
        lab.node("--resources", "cpu=4")
        told(lab, "a")
        assert lab.queue.get("a").attempts == 2
        open_gate(lab, "a")
        wait_all(lab)

    def test_a_stop_gives_back_what_was_reserved(self, lab: Lab) -> None:
        lab.queue.enqueue(gated(lab, "a"), id="a", needs="cpu=1")
        first = lab.node("--resources", "cpu=2", count=2)
        told(lab, "a")
        lab.queue.enqueue("true", id="large", needs="cpu=2")
        reservations = lab.queue.store.runs.reservations
        wait_for(lambda: len(reservations()) == 1, "room to be kept")
        first.terminate()
        wait_for(lambda: not reservations(), "the room to be given up")
        lab.node("--resources", "cpu=2")
        wait_for(lambda: is_state(lab, "large", State.COMPLETED), "the large one to run elsewhere")
        open_gate(lab, "a")
        assert first.wait(PATIENCE) == 0


class TestSeen:
    def test_nodes_show_what_is_in_use(self, lab: Lab) -> None:
        lab.queue.enqueue(gated(lab, "a"), id="a", needs="gpu=0.5,mem=1G")
        lab.node("--resources", "gpu=2,mem=4G", "--label", "ssd", "--label", "eu", count=2)
        told(lab, "a")
        [node] = lab.queue.nodes()
        assert node["labels"] == ["eu", "ssd"]
        assert node["resources"] == {
            "gpu": {"total": 2, "used": 0.5, "free": 1.5, "devices": {"0": 0.5, "1": 1}},
            "mem": {"total": 4 * 2**30, "used": 2**30, "free": 3 * 2**30},
        }
        shown = lab.run("worker", "list").stdout
        assert "gpu 0.5/2, mem 1G/4G" in shown
        assert "eu, ssd" in shown
        open_gate(lab, "a")

    def test_it_is_explained_why_a_job_waits(self, lab: Lab) -> None:
        lab.queue.enqueue(gated(lab, "a"), id="a", needs="gpu=2")
        [waits] = causes(lab, "a")
        assert waits == ("no_worker", "queuectl worker start --resources gpu=2")
        lab.node("--resources", "gpu=2,cpu=2", count=3)
        told(lab, "a")
        lab.queue.enqueue("true", id="later", needs="gpu=1")
        lab.queue.enqueue("true", id="large", needs="gpu=3,cpu=1")
        lab.queue.enqueue("true", id="foreign", needs="fpga=1")
        lab.queue.enqueue("true", id="picky", requires=["ssd"])
        lab.queue.push("data", b"", type="t", needs="cpu=1")
        assert causes(lab, "later") == [("no_room", None)]
        assert causes(lab, "large") == [
            ("too_large", "queuectl worker start --resources cpu=1,gpu=3")
        ]
        assert causes(lab, "foreign") == [("too_large", "queuectl worker start --resources fpga=1")]
        assert causes(lab, "picky") == [("no_label", "queuectl worker start --label ssd")]
        assert causes(lab, "data") == [
            ("no_handler", "queuectl worker start --exec t=PROGRAM --resources cpu=1")
        ]
        status = lab.run("status").stdout
        assert "no worker has label ssd" in status
        assert "the most that one has is cpu=2, gpu=2, and none has any fpga" in status
        found = lab.run("doctor").stdout
        assert "2 jobs are ready that can never run" in found
        open_gate(lab, "a")
        wait_for(lambda: is_state(lab, "later", State.COMPLETED), "the job that waited for room")

    def test_room_that_is_kept_for_another_is_named(self, lab: Lab) -> None:
        lab.queue.enqueue(gated(lab, "a"), id="a", needs="cpu=1")
        lab.node("--resources", "cpu=4", count=4)
        told(lab, "a")
        lab.queue.enqueue("true", id="large", needs="cpu=4")
        wait_for(lambda: lab.queue.store.runs.reservations(), "room to be kept")
        lab.queue.enqueue("true", id="small", needs="cpu=1")
        [reason] = lab.queue.explain("small")
        assert (reason.cause, "job large" in reason.text) == ("reserved", True)
        [reason] = lab.queue.explain("large")
        assert (reason.cause, "keeps room for it" in reason.text) == ("no_room", True)
        open_gate(lab, "a")
        wait_all(lab)

    def test_a_draining_node_leaves_what_it_can_never_run(self, lab: Lab) -> None:
        lab.queue.enqueue("true", id="fits", needs="cpu=1")
        lab.queue.enqueue("true", id="large", needs="cpu=9")
        run_all(lab, "--resources", "cpu=2")
        assert is_state(lab, "fits", State.COMPLETED)
        assert is_state(lab, "large", State.PENDING)


def causes(lab: Lab, id: str) -> list[tuple[str, str | None]]:
    found = [reason.as_dict() for reason in lab.queue.explain(id)]
    return [(one["cause"], one["remedy"]) for one in found]


class TestFound:
    """What `auto` finds."""

    def test_cores_and_memory(self, lab: Lab) -> None:
        lab.node("--resources", "auto,license=2", count=1)
        [node] = lab.queue.nodes()
        has = node["resources"]
        assert has["cpu"]["total"] == len(os.sched_getaffinity(0))
        assert has["mem"]["total"] > 2**28
        assert has["license"]["total"] == 2

    def test_gpus_are_those_that_nvidia_smi_names(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        smi = lab.folder / "bin" / "nvidia-smi"
        smi.parent.mkdir()
        smi.write_text('#!/bin/sh\n[ "$1" = --query-gpu=index ] && printf "0\\n1\\n3\\n"\n')
        smi.chmod(0o755)
        monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
        lab.queue.enqueue(TELL, id="x", needs="gpu=3")
        run_all(lab, "--resources", "auto")
        assert output(lab, "x") == "0,1,3|0,1,3||"
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
        lab.queue.enqueue(TELL, id="y", needs="gpu=2")
        run_all(lab, "--resources", "auto")
        assert output(lab, "y") == "1,3|1,3||"

    def test_one_that_fails_finds_none(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        smi = lab.folder / "bin" / "nvidia-smi"
        smi.parent.mkdir()
        smi.write_text("#!/bin/sh\necho NVIDIA-SMI has failed; exit 9\n")
        smi.chmod(0o755)
        monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
        lab.node("--resources", "auto", count=1)
        assert "gpu" not in lab.queue.nodes()[0]["resources"]

    @pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA driver here")
    def test_those_that_are_really_here(self) -> None:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
        there = [line for line in listed.stdout.splitlines() if line.startswith("GPU ")]
        shown = os.environ.get("CUDA_VISIBLE_DEVICES")
        assert len(find_gpus()) == len(there) or shown is not None
