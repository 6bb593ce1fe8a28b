"""Nodes with applications: the files of this folder are copied to where their nodes run."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queuectl import Job, State
from tests.cli.conftest import cli as cli
from tests.support import Lab

HERE = Path(__file__).parent


class Works(Lab):
    """A lab whose nodes run tasks of `trouble.py`."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        super().__init__(folder, url)
        shutil.copy(HERE / "trouble.py", folder)
        self.queue.set_setting("kill_grace", "300ms")

    def app_node(self, *args: str, count: int = 1) -> "subprocess.Popen[bytes]":
        """Start a node that runs the tasks."""
        return self.node("--app", "trouble:queue", *args, count=count)

    def call(self, task: str, *, with_: dict[str, Any] | None = None, **data: Any) -> str:
        """Enqueue a call of a task and return the job's id."""
        fields: dict[str, Any] = {"max_retries": 0, **(with_ or {})}
        job = self.queue.enqueue(type=f"trouble.{task}", data=json.dumps(data), **fields)
        return job.id

    def over(self, id: str) -> Job:
        """Wait until a job is over."""
        return self.wait_state(id, State.COMPLETED, State.DEAD, State.CANCELLED)

    def result(self, id: str) -> Any:
        """Wait until a job is completed, and return what it came to."""
        assert self.over(id).state == State.COMPLETED, self.queue.get(id)
        return self.queue.result(id)

    def said(self, id: str) -> str:
        """Return what the last attempt of a job wrote to stdout."""
        return self.queue.output(id).stdout.decode()


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Works]:
    works = Works(tmp_path)
    yield works
    works.close()
