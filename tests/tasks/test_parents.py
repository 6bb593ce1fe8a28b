"""What a task knows of the jobs that it has waited for, with a real node and program."""

import pytest

from queuectl import State
from tests.cli.conftest import Cli
from tests.support import wait_for

APP = """
from queuectl import Queue, chain, parallel
from queuectl.tasks.current import current_job

queue = Queue("queue.db")


@queue.task(max_retries=0)
def number(n: int) -> int:
    if n < 0:
        raise ValueError("no")
    return n


@queue.task(max_retries=0)
def total() -> list[str]:
    return [f"{one.id} {one.state} {one.result}" for one in current_job().parents]


@queue.task(max_retries=0)
def more(n: int) -> str:
    child = number.using(id="child", after=current_job()).enqueue(n)
    return child.state.value
"""


@pytest.fixture
def app(cli: Cli) -> Cli:
    (cli.folder / "sums.py").write_text(APP)
    return cli


def push(cli: Cli, id: str, task: str, data: str = "{}", **fields: object) -> None:
    cli.queue.enqueue({"id": id, "type": f"sums.{task}", "data": data, "max_retries": 0, **fields})


def test_a_task_reads_what_its_parents_came_to(app: Cli) -> None:
    push(app, "two", "number", '{"n": 2}')
    push(app, "one", "number", '{"n": 1}')
    push(app, "bad", "number", '{"n": -1}')
    app.queue.enqueue("true", id="plain")
    push(app, "total", "total", after=["two", "one", "bad:any", "plain"])
    app.node("--app", "sums:queue")
    wait_for(lambda: app.queue.get("total").state == State.COMPLETED)
    assert app.queue.result("total") == [
        "two completed 2",
        "one completed 1",
        "bad dead None",
        "plain completed None",
    ]


def test_a_task_adds_a_child_of_its_own(app: Cli) -> None:
    push(app, "parent", "more", '{"n": 7}')
    app.node("--app", "sums:queue")
    wait_for(lambda: app.queue.find("child") is not None)
    wait_for(lambda: app.queue.get("child").state == State.COMPLETED)
    assert app.queue.result("parent") == "blocked"
    assert app.queue.result("child") == 7
    assert app.queue.get("child").after == ("parent",)
