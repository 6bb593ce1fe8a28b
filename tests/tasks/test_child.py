"""The program that runs tasks, by itself: what it is told, and what it says."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queuectl.handlers import lines

HERE = Path(__file__).parent


class Program:
    """The program, and both ends of its pipes."""

    def __init__(self, folder: Path, app: str = "shop:queue") -> None:
        self.paths = [folder / "in", folder / "say"]
        self.files = [folder / "out", folder / "err"]
        for path in self.paths:
            os.mkfifo(path)
        self.ends = [os.open(path, os.O_RDWR) for path in self.paths]
        out, err = (path.open("ab") for path in self.files)
        with out, err:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "queuectl.handlers",
                    "app",
                    app,
                    *map(str, self.paths),
                ],
                cwd=HERE,
                env={**os.environ, "SHOP_DB": str(folder / "shop.db")},
                stdout=out,
                stderr=err,
            )
        self._reader = lines.Reader()
        self._heard: list[dict[str, Any]] = []
        self._last = 0

    def tell(self, message: dict[str, Any]) -> None:
        os.write(self.ends[0], lines.line(message))

    def hand(self, task: str, **data: Any) -> int:
        self._last += 1
        self.tell(
            {
                "job": self._last,
                "id": f"job{self._last}",
                "type": f"shop.{task}",
                "queue": "default",
                "attempt": 1,
                "data": json.dumps(data),
            }
        )
        return self._last

    def heard(self) -> dict[str, Any]:
        """Return the next message, but for those that say only that something began."""
        while True:
            while not self._heard:
                self._heard += self._reader.feed(os.read(self.ends[1], 1 << 16))
            message = self._heard.pop(0)
            message.pop("next", None)
            if "began" not in message:
                return message

    def run(self, task: str, **data: Any) -> dict[str, Any]:
        self.hand(task, **data)
        return self.heard()

    def close(self) -> int:
        for fd in self.ends:
            os.close(fd)
        return self.process.wait(60)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    ready = program.heard()
    assert ready["ready"] == lines.VERSION
    yield program
    if program.process.poll() is None:
        program.process.kill()
        program.process.wait()


def test_what_a_task_returns_is_its_result(program: Program) -> None:
    assert program.run("add", a=1, b=2) == {"done": 1, "result": 3}
    assert program.run("add", a=1) == {"done": 2, "result": 2}
    assert program.run("later", x=4) == {"done": 3, "result": 5}
    assert program.close() == 0


def test_what_it_writes_is_its_output_and_of_no_other(program: Program) -> None:
    assert program.run("say", text="one", error="two") == {
        "done": 1,
        "stdout": "one\n",
        "stderr": "two",
    }
    assert program.run("add", a=1) == {"done": 2, "result": 2}
    end = program.run("say_in_all_ways")
    assert base64.b64decode(end["stdout64"]) == b"python\nbytes \xff\nprogram\n"
    assert end["stderr"] == "trouble\nINFO shop: logged\n"


def test_of_much_the_ends_are_kept(program: Program) -> None:
    end = program.run("say", text="a" * (3 << 20))
    assert base64.b64decode(end["stdout64"]) == b"a" * ((1 << 20) - 1) + b"\n"
    assert end["stdout_bytes"] == (3 << 20) + 1
    assert program.run("say", text="b")["stdout"] == "b\n"


def test_an_error_is_a_failure_with_its_traceback(program: Program) -> None:
    end = program.run("raise_it", how="error")
    assert end["error"] == "ValueError: first line"
    assert "in raise_it" in end["stderr"]
    assert "second line" in end["stderr"]
    assert "handlers/child.py" not in end["stderr"]
    assert program.run("raise_it", how="unprintable")["error"] == (
        "UnprintableError (which can't be printed)"
    )
    assert program.run("raise_it", how="exit")["error"] == "SystemExit: 3"
    assert program.run("add", a=1)["result"] == 2


def test_a_task_says_what_becomes_of_its_job(program: Program) -> None:
    retry, discard, snooze = (
        program.run("raise_it", how=how) for how in ("retry", "discard", "snooze")
    )
    assert retry == {"failed": 1, "error": "busy", "retry_after": 60.0}
    assert discard == {"failed": 2, "error": "no use", "discard": True}
    assert snooze == {"failed": 3, "error": "snoozed (5)", "snooze": 5}


def test_closed_streams_are_open_for_the_next(program: Program) -> None:
    assert program.run("close_streams")["done"] == 1
    assert program.run("say", text="still here")["stdout"] == "still here\n"


def test_results_that_can_not_be_kept_are_failures(program: Program) -> None:
    assert "takes more than 1,048,576 bytes" in program.run("big", size=5 << 20)["error"]
    assert "its result must be JSON" in program.run("not_json")["error"]
    assert len(program.run("big", size=(1 << 20) - 2)["result"]) == (1 << 20) - 2


def test_arguments_of_another_time_are_failures(program: Program) -> None:
    assert program.run("add", a="x")["error"].startswith("TypeError: shop.add: a must be int")
    assert program.run("add", c=1)["error"].endswith("it has no parameter 'c'")
    assert program.run("add")["error"].endswith("a is missing")


def test_what_a_hook_is_told_is_its_sole_argument(program: Program) -> None:
    told = {"id": "a", "ended": {"hook": "dead"}}
    message = {"id": "h", "type": "shop.name", "queue": "q", "attempt": 1}
    program.tell({"job": 1, **message, "hook": "dead", "data": json.dumps(told)})
    assert program.heard() == {"done": 1, "result": "a: dead"}


def test_one_that_waits_can_be_dropped_while_another_runs(program: Program) -> None:
    first, second = program.hand("wait_for_stop"), program.hand("add", a=1)
    program.tell({"drop": second})
    assert program.heard() == {"dropped": second}
    program.tell({"stop": first, "why": "cancelled"})
    assert program.heard() == {"done": first, "result": "cancelled", "stdout": "waiting\n"}


def test_what_it_was_handed_is_finished_at_the_end(program: Program) -> None:
    for n in range(3):
        program.hand("add", a=n)
    said = os.dup(program.ends[1])
    os.close(program.ends[0])
    assert program.process.wait(60) == 0
    assert os.read(said, 1 << 16).count(b'"done"') == 3
    program.ends[0] = said


@pytest.mark.parametrize("how", [0, 3, -signal.SIGSEGV])
def test_who_dies_has_said_what_was_before(program: Program, how: int) -> None:
    program.hand("add", a=1)
    program.hand("die", how=how)
    assert program.process.wait(60) == how
    assert program.heard() == {"done": 1, "result": 2}
    assert "last words" in program.files[0].read_text()


def test_an_application_that_can_not_be_imported_is_told(tmp_path: Path) -> None:
    program = Program(tmp_path, "nowhere:queue")
    assert program.heard() == {"unable": "ModuleNotFoundError: No module named 'nowhere'"}
    assert program.process.wait(60) == 65
