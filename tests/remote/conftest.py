"""Two queues with the same in them: one that is opened as a file, one behind a server."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from queuectl import Queue
from queuectl.access import Role
from tests.support import Lab, lab_in
from tests.web.conftest import Server, serve, server

__all__ = ["Pair", "pair", "serve", "server", "token_of"]


def token_of(lab: Lab, name: str, *roles: Role | str, queues: tuple[str, ...] = ()) -> str:
    """Add a token, and return its secret."""
    return lab.queue.access.add_token(name, [*map(str, roles)], queues=queues)[1]


@dataclass
class Pair:
    """The same queue twice."""

    near: Lab
    far: Lab
    server: Server

    @property
    def url(self) -> str:
        return self.server.url

    def remote(self) -> Queue:
        """Open the one behind the server, as a program does."""
        return Queue(self.url)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both, with jobs that have run, wait, and died; for all tests of a module."""
    folders: list[Path] = [tmp_path_factory.mktemp("near"), tmp_path_factory.mktemp("far")]
    with ExitStack() as stack:
        near, far = (stack.enter_context(lab_in(folder, None)) for folder in folders)
        for lab in (near, far):
            secret = token_of(lab, "laptop", *Role)
            fill(lab.queue)
            assert lab.run("worker", "start", "--count", "1", "--drain").returncode == 0
            wait_there(lab.queue)
        server = Server(far, "--allow-submit", "--no-link")
        stack.callback(server.close)
        far.url = server.url
        far.extra_env["QUEUECTL_TOKEN"] = secret
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("QUEUECTL_TOKEN", secret)
        yield Pair(near, far, server)


def fill(queue: Queue) -> None:
    """Enqueue what is run at once."""
    queue.enqueue("echo out; echo err >&2", id="good", tags=["nightly"], env={"SECRET": "hush"})
    queue.enqueue("printf '\\377\\001\\033[31mred'; exit 3", id="bad", max_retries=0)
    ours = Path(sys.executable).with_name("queuectl")
    queue.enqueue(f"seq 3; {ours} result '{{\"rows\": 3}}'", id="rows", queue="mail", priority=5)
    queue.push("data", b"\xff\x00odd", type="thumb", queue="none")


def wait_there(queue: Queue) -> None:
    """Enqueue what stays."""
    queue.enqueue("echo later", id="later", delay="2d", tags=["nightly", "slow"])
    queue.enqueue(["printf", "%s", "a b"], id="exact", queue="mail", delay="3d", timeout="5m")
    queue.enqueue("echo child", id="child", after=["later", "good:any"], if_parent_fails="run")
    queue.enqueue("echo grandchild", id="grandchild", after="child")
    queue.limits.set("mail", limit=2, max_waiting=100)
    queue.pause("mail")
    queue.schedules.add("backup", "0 3 * * *", "backup.sh", tz="UTC", env={"SECRET": "hush"})
    queue.webhooks.add("https://ops.example.com/hook", ["cancelled"], name="ops", queues=["odd"])
    queue.emit("paid", {"order": 7})
    queue.enqueue_many(
        [{"id": f"el-{n}", "command": "x", "parameters": {"lr": f"0.{n}"}} for n in range(3)],
        group="sweep",
        max_fails=2,
        delay="2d",
    )
    queue.groups.on_done("sweep", "echo over")
