"""The page about the API: its table is that of the code, and its examples run."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import queuectl.web
from queuectl.errors import QueuectlError, UsageError
from queuectl.web.problems import problem_of
from tests.support import PATIENCE, Lab
from tests.web import document
from tests.web.conftest import Client, Server

PAGE = (document.DOCS / "api.md").read_text()
BLOCKS = re.findall(r"```(bash|python|js)\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = {
    "bash": ["bash", "-euo", "pipefail", "-c"],
    "python": ["python3", "-c"],
    "js": ["node", "--input-type=module", "-e"],
}


def test_what_is_made_from_the_routes_is_up_to_date() -> None:
    """Write them anew by `python -m tests.web.document`."""
    assert (document.DOCS / "openapi.json").read_text() == document.document()
    assert document.page(PAGE) == PAGE


@pytest.fixture
def environment(lab: Lab, server: Server) -> dict[str, str]:
    """What the examples find in their environment."""
    token = server.client("submit", "operate").headers["Authorization"].removeprefix("Bearer ")
    lab.node()
    return {**os.environ, "API": f"http://127.0.0.1:{server.port}/api/v1", "TOKEN": token}


def test_the_examples_run(lab: Lab, environment: dict[str, str]) -> None:
    assert {language for language, _ in BLOCKS} == set(PROGRAMS)
    for language, text in BLOCKS:
        done = subprocess.run(
            [*PROGRAMS[language], text],
            env=environment,
            cwd=lab.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, (text, done.stderr)
        if "state" in text:
            assert done.stdout.strip() == "completed", text
    output = lab.queue.output("first").stdout
    assert output == b"hello\n"
    assert lab.queue.count(tag="many") == 1_000
    assert lab.queue.count(tag="many", state="pending") == 0


def test_the_example_about_webhooks_runs(lab: Lab, server: Server) -> None:
    (text,) = re.findall(
        r"```bash\n(.*?)```", (document.DOCS / "webhooks.md").read_text(), re.DOTALL
    )
    token = server.client("submit", "operate").headers["Authorization"].removeprefix("Bearer ")
    place = {"API": f"http://127.0.0.1:{server.port}/api/v1", "TOKEN": token}
    for _ in range(2):
        done = subprocess.run(
            [*PROGRAMS["bash"], text],
            env=os.environ | place,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    assert '"paused":true' in done.stdout
    (made,) = lab.queue.webhooks.all()
    assert (made.news, made.queues) == (("completed", "dead"), ("mail",))
    assert made.secret not in done.stdout


def every_error() -> Iterator[QueuectlError]:
    """Make one of each; some want more to be made than a text, which doesn't matter here."""
    found, seen = [QueuectlError], set()
    while found:
        seen.add(kind := found.pop())
        found += [each for each in kind.__subclasses__() if each not in seen]
        error = kind.__new__(kind)
        plain = UsageError if issubclass(kind, UsageError) else QueuectlError
        plain.__init__(error, "x")
        yield error


def test_each_problem_that_is_known_is_in_the_table() -> None:
    source = "".join(path.read_text() for path in Path(*queuectl.web.__path__).rglob("*.py"))
    known = set(re.findall(r'refused\(\s*\d+,\s*"([a-z-]+)"', source))
    known |= {problem_of(error).kind for error in every_error()}
    told = set(re.findall(r"`([a-z-]+)`", PAGE.partition("| Status |")[2].partition("##")[0]))
    assert known - told == set()


def test_a_client_of_the_page_may_not_do_more(server: Server) -> None:
    assert Client(server.port).get("/jobs").problem == "unknown"
