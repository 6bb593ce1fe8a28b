"""Recipes with pipes, in help and on the pages, act on all jobs: on more than a page of them."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from queuectl import Queue, State
from queuectl.job import Exited, Output
from tests.cli.test_manners import EVERY, command_at
from tests.contract.tools import a_node, ended, finish, forget, take
from tests.docs.markdown import PAGES, blocks

MANY = 55
"""Dead jobs; a list that is made for people ends after 50."""
ID = "7f3kzzzzzzzz"


def recipes() -> Iterator[str]:
    """Yield the lines, without comments, in which another program reads what queuectl prints."""
    lines = [
        line
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"), "sh")
        for line in block.lines
    ]
    for path in EVERY:
        lines += str(getattr(command_at(path), "examples", "")).splitlines()
    for line in lines:
        text = re.split(r"\s+# ", line.strip())[0]
        if re.search(r"queuectl\b.*\| |\$\(queuectl (?!completion)", text):
            yield text


def lines(count: int) -> Callable[[Queue, str, int], bool]:
    """Expect so many lines."""
    return lambda queue, out, code: len(out.splitlines()) == count and code == 0


def prints(text: str) -> Callable[[Queue, str, int], bool]:
    """Expect this output."""
    return lambda queue, out, code: out.strip() == text and code == 0


def number(queue: Queue, out: str, code: int) -> bool:
    """Expect a number."""
    return code == 0 and float(out) >= 0


RETRY = "queuectl list --state dead -q | xargs -r queuectl retry --"
EXPECTED: dict[str, Callable[[Queue, str, int], bool]] = {
    RETRY: lambda queue, out, code: queue.status().states[State.PENDING] == MANY + 1,
    "queuectl dlq list -q | xargs -n 1 queuectl output --": lambda queue, out, code: (
        out.count("--- Job ") == MANY
    ),
    "queuectl list --json | jq '.[].command'": lines(MANY + 1),
    r"queuectl list --format '{id}\t{command}' | grep backup": lines(MANY),
    "queuectl list --state dead --since 1d --json | jq -r '.[] | \"\\(.id) \\(.reason)\"'": lines(
        MANY
    ),
    "queuectl status --json | jq .states.dead": prints(str(MANY)),
    "queuectl status --json | jq '.workers'": number,
    "queuectl status --json | jq '.states.pending'": prints("1"),
    'test "$(queuectl dlq count)" -eq 0': lambda queue, out, code: (out, code) == ("", 1),
    "queuectl show 7f3k --json | jq '.runs[].exit_code'": lines(0),
    "queuectl explain 7f3k --json | jq '.[].waits_for[].cause'": prints('"no_worker"'),
    "queuectl queue show default --json | jq .keys": prints("[]"),
    "queuectl stats --json | jq .run_time.p95_ms": prints("null"),
    "queuectl stats --since 1h --json | jq '.wait_time.p95_ms'": number,
    "queuectl stats --since 1h --json | jq '.runs'": lambda queue, out, code: (
        f'"dead": {MANY}' in out
    ),
    "queuectl worker list --json | jq '.[] | select(.alive | not)'": lambda queue, out, code: (
        code == 0
    ),
    "queuectl doctor --json | jq '.findings[] | select(.level == \"error\")'": lines(0),
    "queuectl logs --tag nightly --json | jq -r 'select(.stream == \"stderr\") | .text'": lines(
        MANY
    ),
    "queuectl doctor --json | jq -e .ok": prints("true"),
    "queuectl schedule list --json | jq '.[] | select(.paused).name'": prints('"nightly"'),
    "queuectl token list --json | jq -r '.[] | select(.used_at == null).name'": prints("ci"),
    "queuectl token sessions --json | jq -r '.[] | select(.name == \"ann\").id'": lines(1),
    "queuectl schedule show nightly --json | jq -r '.next[0]'": prints("null"),
    'queuectl queue set mail --on-dead \'jq -r "\\"\\(.id) is dead: \\(.reason)\\"" | mail -s'
    ' "queue mail" ops@example.org\'': lambda queue, out, code: (
        queue.limits.get("mail").defaults["on_dead"].startswith("jq -r")
    ),
}
"""What each of them does to a queue with so many dead jobs, one that waits, a schedule that is
paused, a token, and somebody who is signed in."""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with Queue(str(tmp_path / "queue.db")) as queue:
        store = queue.store
        a_node(store)
        queue.enqueue_many(
            {"command": f"backup {n}", "max_retries": 0, "tags": ["nightly"]} for n in range(MANY)
        )
        now = store.clock.now()
        wrote = Output(stderr=b"no space\n", stderr_bytes=9)
        finish(
            store,
            [
                ended(job, Exited(1), now=now + 5, started_at=now, output=wrote)
                for job in take(store, MANY, now=now)
            ],
        )
        queue.enqueue("true", id=ID)
        queue.schedules.add("nightly", "0 3 * * *", "backup")
        queue.schedules.pause("nightly")
        queue.access.add_token("ci", "view")
        queue.access.sign_in(queue.access.link("ann", "view"))
        forget(store, "node-1")
        yield queue


def test_every_recipe_is_tried() -> None:
    assert set(recipes()) == set(EXPECTED)


@pytest.mark.timeout(600)  # one of them runs a command for each job
@pytest.mark.parametrize("recipe", EXPECTED)
def test_recipes_act_on_all(queue: Queue, tmp_path: Path, recipe: str) -> None:
    outer = {k: v for k, v in os.environ.items() if not k.startswith("QUEUECTL_")}
    done = subprocess.run(
        ["bash", "-c", recipe],
        cwd=tmp_path,
        env=outer
        | {
            "QUEUECTL_DB": str(tmp_path / "queue.db"),
            "PATH": f"{Path(sys.executable).parent}:{outer['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert EXPECTED[recipe](queue, done.stdout, done.returncode), done
