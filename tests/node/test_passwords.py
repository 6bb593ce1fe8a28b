"""Jobs that call queuectl themselves, on servers whose password is in a file of their user."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from queuectl import State
from tests.support import Lab, wait_for

APP = """
from queuectl import Queue, current_job

queue = Queue()


@queue.task(max_retries=0)
def pay() -> str:
    job = current_job()
    receipt = job.step("charge", lambda: "receipt")
    return f"{receipt}, {job.wait_for('paid')} paid"
"""
SCRIPT = """set -e
queuectl step charge -- sh -c 'echo charged >> ledger; echo 4711' > number
queuectl progress 40 charged
queuectl result "$(cat number)"
amount=$(queuectl await paid)
echo "$amount" >> ledger
"""


@pytest.fixture(params=["postgres", "mariadb"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A queue whose URL has no password, which is where the clients of its server look for it."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    parts = urlsplit(url)
    lab = Lab(tmp_path, url)
    secret = f"{parts.hostname}:{parts.port}:*:{parts.username}:{parts.password}\n"
    file = tmp_path / ".pgpass"
    if request.param == "mariadb":
        file, secret = tmp_path / ".my.cnf", f"[client]\npassword={parts.password}\n"
    lab.extra_env["QUEUECTL_DB"] = url.replace(f":{parts.password}@", "@", 1)
    assert "password" in lab.run("status").stderr
    file.write_text(secret)
    file.chmod(0o600)
    yield lab
    lab.close()


def test_steps_find_it(lab: Lab) -> None:
    command = lab.command()[0]
    script = SCRIPT.replace("queuectl ", f"{command} ")
    (lab.folder / "pay_by_task.py").write_text(APP)
    shell = lab.queue.enqueue(script, cwd=str(lab.folder), max_retries=0).id
    task = lab.queue.push("task", "{}", type="pay_by_task.pay", max_retries=0).id
    lab.node("--app", "pay_by_task:queue", count=2)
    jobs = [lab.queue.get(id) for id in (shell, task)]
    wait_for(
        lambda: len(lab.queue.sleeps([lab.queue.get(job.id) for job in jobs])) == 2,
        "both to wait",
    )
    lab.queue.emit("paid", 30)
    for id in (shell, task):
        done = lab.wait_state(id, State.COMPLETED, State.DEAD)
        assert done.state == State.COMPLETED, lab.queue.output(id)
    assert lab.lines("ledger") == ["charged", "30"]
    assert [lab.queue.result(id) for id in (shell, task)] == [4711, "receipt, 30 paid"]
    assert "secret" not in lab.log()
