"""The `demo` command: the real commands at work in a throw-away queue, and a check on them."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any

import click

from queuectl.cli.command import Command
from queuectl.cli.interrupts import raised
from queuectl.cli.render import paint, say, write
from queuectl.errors import QueuectlError

PATIENCE = 10
"""Seconds a command gets to end after it was interrupted."""


@click.command(
    cls=Command,
    examples="""
    queuectl demo
    """,
)
def demo() -> None:
    """See it all work in a throw-away queue.

    In about ten seconds it sets things up, enqueues jobs of every kind, runs them with two
    workers, and looks at what became of them. Your own queue isn't touched. It exits with 0 only
    if everything came out as promised.
    """
    with (
        raised(),
        TemporaryDirectory(prefix="queuectl-demo-", ignore_cleanup_errors=True) as folder,
    ):
        stage = _Stage(folder)
        for scene in (_set_up, _add_jobs, _run_them, _look, _mend):
            scene(stage)
    write()
    write(paint("Everything came out as promised.", "bold", "green"))
    say('Now it is your turn: queuectl enqueue "echo Hello World"')
    say("(In a clone with a virtual environment the command is .venv/bin/queuectl.)")


class _Stage:
    """A folder with a queue of its own, and the commands that are run in it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.environ = _clean(os.environ) | {"QUEUECTL_DB": os.path.join(folder, "queue.db")}

    def tell(self, text: str) -> None:
        write()
        write(paint(f"# {text}", "bold"))

    def show(self, *args: str, expect: int = 0) -> None:
        """Run a command in front of the audience."""
        write(paint(f"$ queuectl {shlex.join(args)}", "cyan"))
        sys.stdout.flush()
        process = subprocess.Popen(_command(args), cwd=self.folder, env=self.environ)
        try:
            code = process.wait()
        except BaseException:
            # The terminal has told the command too; this is its second signal, which hurries it.
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
            raise
        self.check(code == expect, f"{shlex.join(args)} exited with {code}, not {expect}")

    def read(self, *args: str) -> Any:
        """Run a command behind the curtain and return its JSON."""
        done = subprocess.run(
            _command([*args, "--json"]), cwd=self.folder, env=self.environ, stdout=subprocess.PIPE
        )
        self.check(done.returncode == 0, f"{shlex.join(args)} exited with {done.returncode}")
        return json.loads(done.stdout)

    def check(self, promise: bool, otherwise: str) -> None:
        """End the demo, and exit with 1, if something isn't as promised."""
        if not promise:
            raise QueuectlError(f"The demo didn't come out as promised: {otherwise}.")

    def check_jobs(self, expected: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, Any]]:
        """Check fields of jobs, and return all jobs by their ids."""
        jobs = {job["id"]: job for job in self.read("list")}
        for id, fields in expected.items():
            for name, value in fields.items():
                found = jobs[id][name]
                self.check(found == value, f"{name} of job {id} is {found!r}, not {value!r}")
        return jobs


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Leave out what would point the demo at the user's own queue or settings."""
    return {name: value for name, value in environ.items() if not name.startswith("QUEUECTL_")}


def _command(args: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "queuectl", *args]


def _set_up(stage: _Stage) -> None:
    stage.tell("Settings are kept in the queue, for all its workers: two retries, a second apart.")
    stage.show("config", "set", "max_retries", "2")
    stage.show("config", "set", "backoff_base", "1")
    found = stage.read("config", "get", "max_retries")["value"]
    stage.check(found == 2, f"max_retries is {found}, not 2")


def _add_jobs(stage: _Stage) -> None:
    stage.tell("Jobs are shell commands: a good one, one that fails, one that takes too long.")
    stage.show("enqueue", "echo Hello World", "--id", "hello")
    stage.show("enqueue", "cat settings.ini", "--id", "broken")
    stage.show("enqueue", "sleep 60", "--id", "slow", "--timeout", "1s", "--max-retries", "0")
    stage.tell("Higher priority goes first; a delayed job waits for its time.")
    stage.show("enqueue", "echo last", "--id", "minor", "--priority", "-5")
    stage.show("enqueue", "echo first", "--id", "major", "--priority", "10")
    stage.show("enqueue", "echo at last", "--id", "later", "--delay", "2s")
    states = stage.read("status")["states"]
    stage.check(states["pending"] == 6, f"{states['pending']} jobs are pending, not 6")


def _run_them(stage: _Stage) -> None:
    stage.tell("Two workers run it all, retries and delayed jobs included, and exit.")
    stage.show("worker", "start", "--count", "2", "--drain")
    jobs = stage.check_jobs(
        {
            "hello": {"state": "completed", "attempts": 1, "exit_code": 0},
            "broken": {"state": "dead", "attempts": 3, "exit_code": 1},
            "slow": {"state": "dead", "attempts": 1},
            "major": {"state": "completed", "attempts": 1},
            "minor": {"state": "completed", "attempts": 1},
            "later": {"state": "completed", "attempts": 1},
        }
    )
    reason, later = jobs["slow"]["reason"], jobs["later"]
    stage.check("timed out" in reason, f"job slow is dead because {reason}")
    major, minor = jobs["major"]["started_at"], jobs["minor"]["started_at"]
    stage.check(major <= minor, "the higher priority didn't go first")
    stage.check(later["started_at"] >= later["run_at"], "the delayed job ran before its time")


def _look(stage: _Stage) -> None:
    stage.tell("What became of them?")
    stage.show("status")
    stage.show("list")
    stage.show("output", "hello")
    stage.tell("Jobs that were given up wait in the dead letter queue, with the reason.")
    stage.show("dlq", "list")
    dead = sorted(job["id"] for job in stage.read("dlq", "list"))
    stage.check(dead == ["broken", "slow"], f"dead are {dead}")


def _mend(stage: _Stage) -> None:
    stage.tell("Mend what was broken, and give the job another chance.")
    write(paint("$ echo all is well > settings.ini", "cyan"))
    with open(os.path.join(stage.folder, "settings.ini"), "w", encoding="utf-8") as file:
        file.write("all is well\n")
    stage.show("dlq", "retry", "broken")
    stage.show("worker", "start", "--drain")
    stage.check_jobs({"broken": {"state": "completed", "attempts": 4, "exit_code": 0}})
    stage.show("stats")
    total = stage.read("stats")["total"]
    stage.check(total == 6, f"stats count {total} jobs, not 6")
