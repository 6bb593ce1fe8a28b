"""Steps of Python tasks, with a real node and the real program that runs them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import pytest

from queuectl import Queue, State
from queuectl.errors import StateError
from queuectl.job import Job, Lost
from queuectl.store.contract import Over
from queuectl.tasks.current import CurrentJob
from queuectl.tasks.outcomes import Asleep, LeaseLost
from tests.cli.conftest import Cli
from tests.contract.tools import a_node, ended, take_one
from tests.support import wait_for

APP = """
import asyncio
from dataclasses import dataclass
from pathlib import Path

import apsw

from queuectl import Queue
from queuectl.tasks.current import current_job

queue = Queue("queue.db")
ledger = Path("ledger")


@dataclass
class Receipt:
    order: int
    amount: float


def note(text: str) -> None:
    with ledger.open("a") as file:
        file.write(f"{text}\\\\n")


def charge(order: int) -> Receipt:
    note("charge")
    return Receipt(order, 1.5)


@queue.task(max_retries=0)
def deliver(order: int) -> str:
    job = current_job()
    receipt = job.step("charge", charge, order)
    assert receipt == Receipt(order, 1.5)
    try:
        job.sleep("1ms")
    except Exception:
        note("caught")
    paid = job.wait_for("paid")

    @job.step
    def ship(to: str) -> str:
        note("ship")
        return f"{receipt.amount} {paid} {to}"

    return ship("home")


async def fetch(n: int) -> int:
    await asyncio.sleep(0)
    note("fetch")
    return n + 1


@queue.task(max_retries=0)
async def gather() -> int:
    job = current_job()
    one = await job.step("one", fetch, 1)
    await job.asleep("1ms")
    try:
        await job.await_for("never", timeout="1ms")
    except TimeoutError:
        note("late")
    return one + await job.step("two", fetch, 2)


@queue.task(max_retries=3, backoff="fixed", retry_delay="0s")
def pay(order: int) -> int:
    job = current_job()
    own = apsw.Connection("queue.db")
    own.setbusytimeout(60_000)

    def write() -> int:
        own.execute("INSERT INTO orders VALUES (?, ?)", (order, job.attempt))
        return job.attempt

    own.execute("BEGIN IMMEDIATE")
    with job.step_in(own) as step:
        done = step("write", write)
    # The first run is undone: nothing of it is there, nor that it is done.
    own.execute("ROLLBACK" if job.attempt == 1 else "COMMIT")
    if job.attempt < 3:
        raise ValueError("again")
    return done
"""


@pytest.fixture
def app(cli: Cli) -> Cli:
    (cli.folder / "shop.py").write_text(APP.replace("\\\\n", "\\n"))
    return cli


def enqueue(cli: Cli, task: str, data: str = "{}") -> str:
    """Enqueue a job of a task, as the application would."""
    cli.queue.push("job", data, type=f"shop.{task}", max_retries=3 if task == "pay" else 0)
    return "job"


class TestWithAWorker:
    def test_a_task_goes_on_where_it_was(self, app: Cli) -> None:
        id = enqueue(app, "deliver", '{"order": 7}')
        app.node("--app", "shop:queue")
        wait_for(lambda: any(s.awaits for s in app.queue.sleeps([app.queue.get(id)]).values()))
        job = app.queue.get(id)
        assert (job.state, job.failures) == (State.PENDING, 0)
        assert (app.folder / "ledger").read_text().split() == ["charge"]
        assert app.queue.emit("paid", {"by": "card"}).waiting == 1
        wait_for(lambda: app.queue.get(id).state == State.COMPLETED)
        assert app.queue.result(id) == "1.5 {'by': 'card'} home"
        assert (app.folder / "ledger").read_text().split() == ["charge", "ship"]
        names = [step.name for step in app.queue.steps(id)]
        assert names == ["charge", "sleep 1ms", "await paid", "ship"]
        assert [run.outcome for run in app.queue.attempts(id)] == ["snoozed"] * 2 + ["exited"]

    def test_an_async_one_does_so_too(self, app: Cli) -> None:
        id = enqueue(app, "gather")
        app.run("worker", "start", "--app", "shop:queue", "--drain")
        assert app.queue.result(id) == 5
        assert (app.folder / "ledger").read_text().split() == ["fetch", "late", "fetch"]

    def test_a_step_is_done_if_and_only_if_its_transaction_is(self, app: Cli) -> None:
        id = enqueue(app, "pay", '{"order": 7}')
        own = apsw.Connection(str(app.folder / "queue.db"))
        own.execute("CREATE TABLE orders (number INTEGER, attempt INTEGER)")
        own.close()
        app.run("worker", "start", "--app", "shop:queue", "--drain")
        assert app.queue.result(id) == 2
        own = apsw.Connection(str(app.folder / "queue.db"))
        assert own.execute("SELECT * FROM orders").fetchall() == [(7, 2)]
        own.close()
        [step] = app.queue.steps(id)
        assert (step.name, step.number, step.output) == ("write", 2, b"2")


class TestByThemselves:
    @pytest.fixture
    def queue(self, tmp_path: Path) -> Iterator[Queue]:
        with Queue(str(tmp_path / "queue.db")) as queue:
            a_node(queue.store)
            yield queue

    def current(self, queue: Queue, **changes: object) -> CurrentJob:
        """Return the only job as its own code sees it."""
        jobs = queue.list(state="processing")
        if not jobs:
            queue.enqueue("true", id="a")
            take_one(queue.store, now=queue.now())
        message = {"job": 1, "id": "a", "type": "t", "queue": "default", "attempt": 1}
        node = str(changes.pop("node", "node-1"))
        job = CurrentJob({**message, **changes}, lambda _: None, node)
        job.belongs_to(queue)
        return job

    def test_a_run_that_lost_its_lease_ends_there(self, queue: Queue) -> None:
        self.current(queue)
        for changes in ({"attempt": 2}, {"node": "node-2"}, {"id": "b"}):
            job = self.current(queue, **changes)
            called: list[int] = []
            with pytest.raises(LeaseLost, match="has lost its lease"):
                job.step("one", called.append, 1)
            with pytest.raises(LeaseLost):
                job.sleep("2d")
            with pytest.raises(LeaseLost):
                job.wait_for("paid")
            assert called == []
        assert not issubclass(LeaseLost, Exception)
        assert queue.steps("a") == []

    def test_one_that_loses_it_meanwhile_stores_nothing(self, queue: Queue) -> None:
        job = self.current(queue)

        def lose() -> None:
            queue.store.runs.rescue("node-1", _given_up)

        with pytest.raises(LeaseLost):
            job.step("one", lose)
        assert queue.steps("a") == []

    def test_sleeping_is_no_exception_that_is_caught(self, queue: Queue) -> None:
        job = self.current(queue)
        with pytest.raises(Asleep, match="sleeps"):
            job.sleep(3600)
        assert not issubclass(Asleep, Exception)
        with pytest.raises(StateError, match="should have ended there"):
            job.step("one", print)

    def test_what_can_not_be_stored_is_an_error(self, queue: Queue) -> None:
        job = self.current(queue)
        with pytest.raises(TypeError, match="step 'one': its result must be JSON"):
            job.step("one", object)
        with pytest.raises(StateError, match="1 MiB"):
            job.step("two", lambda: "x" * (1 << 20))
        assert queue.steps("a") == []

    def test_without_a_queue_there_are_none(self) -> None:
        message = {"job": 1, "id": "a", "type": "t", "queue": "default", "attempt": 1}
        with pytest.raises(StateError, match="without its queue"):
            CurrentJob(message, lambda _: None).step("one", print)


def _given_up(held: Sequence[Job], now: int) -> Over:
    ends = [ended(job, Lost("gone"), now=now) for job in held]
    return Over(judge=lambda stuck, asked, at: ends)
