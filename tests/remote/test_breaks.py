"""What goes wrong between a client and its server, and what is said of it."""

import os
import signal
import ssl
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from socket import create_connection, create_server, socket
from threading import Event, Thread

import pytest

from queuectl import Queue
from queuectl.access import Role
from queuectl.errors import (
    DuplicateError,
    NotFoundError,
    StoreDeniedError,
    StoreError,
    StoreUnreachableError,
    StoreUnsettledError,
    UsageError,
)
from queuectl.job import State
from queuectl.remote import http
from tests.remote.conftest import Pair, token_of
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import Serve, Server


class Cutter:
    """A proxy that cuts connections when the server has answered certain requests."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.cuts: Callable[[bytes], bool] = lambda request: False
        """Whether the answer to this request is lost."""
        self.asked: list[bytes] = []
        Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            Thread(target=self._pass, args=[client], daemon=True).start()

    def _pass(self, client: socket) -> None:
        cut = Event()
        with client, create_connection(("127.0.0.1", self._to)) as server:
            back = Thread(target=self._back, args=[server, client, cut], daemon=True)
            back.start()
            while data := _read(client):
                if data.startswith((b"POST", b"GET")):
                    self.asked.append(data)
                    if self.cuts(data):
                        cut.set()
                server.sendall(data)
            server.shutdown(1)
            back.join()

    def _back(self, server: socket, client: socket, cut: Event) -> None:
        while data := _read(server):
            if cut.is_set():
                # The server has answered: what was asked for is done.
                client.shutdown(2)
                return
            client.sendall(data)


def _read(connection: socket) -> bytes:
    try:
        return connection.recv(1 << 20)
    except OSError:
        return b""


@pytest.fixture
def cutter(pair: Pair) -> Iterator[Cutter]:
    with closing(Cutter(pair.server.port)) as cutter:
        yield cutter


def first(path: bytes) -> Callable[[bytes], bool]:
    """Cut off the first request for a path."""
    left = [path]
    return lambda request: path in request.split(b"\r\n")[0] and bool(left and left.pop())


def test_an_enqueue_whose_answer_is_lost_is_enqueued_once(pair: Pair, cutter: Cutter) -> None:
    with Queue(cutter.url) as queue:
        cutter.cuts = first(b"/calls/enqueue ")
        job = queue.enqueue("true", tags=["once"])
        assert queue.count(tag="once") == 1 and queue.get(job.id).tags == ("once",)
        assert sum(b"/calls/enqueue " in one.split(b"\r\n")[0] for one in cutter.asked) == 2


@pytest.mark.parametrize("keep_going", [False, True])
def test_so_are_many(pair: Pair, cutter: Cutter, keep_going: bool) -> None:
    tag = f"many-{keep_going}"
    with Queue(cutter.url) as queue:
        cutter.cuts = first(b"/calls/enqueue_many")
        batch = queue.enqueue_many(["true"] * 50, keep_going=keep_going, tags=[tag])
        assert len(batch.ids) == 50 and not batch.duplicates
        assert {job.id for job in queue.iterate(tag=tag)} == set(batch.ids)


def test_of_another_change_it_is_said_that_nobody_knows(pair: Pair, cutter: Cutter) -> None:
    with Queue(cutter.url) as queue:
        job = queue.enqueue("true", delay="1d")
        cutter.cuts = first(b"/calls/change_all")
        with pytest.raises(StoreUnsettledError, match="may or may not have been done"):
            queue.cancel(job.id)
        assert queue.get(job.id).state == State.CANCELLED


def test_an_enqueue_that_never_hears_its_answer_may_have_been_done(
    pair: Pair, cutter: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "PATIENCE", 0.5)
    with Queue(cutter.url) as queue:
        cutter.cuts = lambda request: b"/calls/enqueue " in request
        with pytest.raises(StoreUnsettledError, match="may or may not have been done") as caught:
            queue.enqueue("true", id="unheard")
        assert caught.value.advice == "queuectl show unheard says whether the job is there."
        assert queue.get("unheard").command == "true"


def test_a_server_that_never_answers_is_waited_for_once(pair: Pair, cutter: Cutter) -> None:
    cutter.cuts = lambda request: True
    done = pair.far.run("--db", cutter.url, "enqueue", "true", "--queue", "misspelt")
    assert done.returncode == 5 and "Nobody answers at" in done.stderr, done
    assert {one.split(b" ")[1] for one in cutter.asked} == {b"/api/v1/calls/unused"}
    assert pair.far.queue.count(queue="misspelt") == 0


def test_what_reads_is_asked_again(pair: Pair, cutter: Cutter) -> None:
    with Queue(cutter.url) as queue:
        cutter.cuts = first(b"/calls/get")
        assert queue.get("good").id == "good"


def test_the_python_interface_returns_the_same(pair: Pair) -> None:
    with pair.remote() as queue:
        near = pair.near.queue
        assert isinstance(queue, Queue)
        assert queue.get("good").command == near.get("good").command
        assert queue.output("bad") == near.output("bad")
        assert [run.outcome for run in queue.attempts("bad")] == ["exited"]
        assert queue.result("rows") == {"rows": 3}
        assert queue.limits.get("mail") == near.limits.get("mail")
        assert queue.schedules.get("backup").rule == near.schedules.get("backup").rule
        assert queue.settings.max_retries == near.settings.max_retries
        assert queue.get("data").data == b"\xff\x00odd"
        assert queue.get("good").env == {"SECRET": ""}
        with pytest.raises(NotFoundError):
            queue.get("nothing")
        with pytest.raises(DuplicateError):
            queue.enqueue("true", id="good")
        with pytest.raises(UsageError, match="can't be done through"):
            queue.reset()


def test_a_job_of_a_mebibyte_comes_back_as_it_was(pair: Pair) -> None:
    data = bytes(range(256)) * 4096
    with pair.remote() as queue:
        queue.push("large", data, queue="large")
        assert queue.get("large").data == data
        assert queue.list(queue="large")[0].data == data


def test_what_somebody_may_not_see_is_not_sent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECTL_TOKEN", token_of(pair.far, "viewer", Role.VIEW))
    with pair.remote() as queue:
        job = queue.get("data")
        assert job.data is None and queue.get("good").env == {}
        assert "env" not in queue.schedules.get("backup").request
        for change in (
            lambda: queue.enqueue("true"),
            lambda: queue.cancel("later"),
            lambda: queue.set_setting("max_retries", 1),
        ):
            with pytest.raises(StoreDeniedError, match="needs the right to"):
                change()


def test_a_token_for_a_queue_sees_nothing_else(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = token_of(pair.far, "mailer", Role.OPERATE, queues=("mail",))
    monkeypatch.setenv("QUEUECTL_TOKEN", secret)
    with pair.remote() as queue:
        assert {job.queue for job in queue.iterate()} == {"mail"}
        assert queue.states(["good", "rows"]).keys() == {"rows"}
        assert queue.find("good") is None and not queue.jobs_like("goo")
        for name in ("good", "goo", "lat"):
            with pytest.raises(NotFoundError, match="There is no job"):
                queue.get(name)
        with pytest.raises(NotFoundError):
            queue.cancel("later")
        with pytest.raises(StoreDeniedError):
            queue.status()


def test_a_webhook_shows_its_secret_to_who_adds_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, url = pair.far.queue.webhooks, "https://hooks.example.com/secret-part"
    with pair.remote() as queue:
        made = queue.webhooks.add(url, ["cancelled"], name="mine", queues=["mail"])
        assert made == here.get("mine")
        assert queue.webhooks.get("mine").secret == ""
        queue.cancel(queue.enqueue("true", id="off", queue="mail"))
        [told], [known] = queue.webhooks.deliveries("mine"), here.deliveries("mine")
        assert (told.id, told.hook_of, told.data) == (known.id, "off", None) and known.data
    refused = pair.far.run("hook", "show", "mine", "--secret")
    assert (refused.returncode, refused.stdout) == (5, "")
    assert "doesn't tell the secret of webhook 'mine'" in refused.stderr
    here.add(url, name="all")
    with monkeypatch.context() as changed, pair.remote() as queue:
        changed.setenv("QUEUECTL_TOKEN", token_of(pair.far, "hooker", Role.VIEW, queues=("mail",)))
        [seen] = queue.webhooks.all()
        assert (seen.name, seen.url) == ("mine", "https://hooks.example.com/…")
        with pytest.raises(StoreDeniedError):
            queue.webhooks.pause("mine")
        changed.setenv(
            "QUEUECTL_TOKEN",
            token_of(pair.far, "adder", Role.SUBMIT, Role.OPERATE, queues=("mail",)),
        )
        for wanted in (
            {"queues": ["other"]},
            {"via": "other"},
            {"private": True},
            {"with_data": True},
        ):
            with pytest.raises(StoreDeniedError):
                queue.webhooks.add(url, name="more", **wanted)
        for deed in (queue.webhooks.pause, queue.webhooks.remove, queue.webhooks.test):
            with pytest.raises(NotFoundError, match="There is no webhook 'all'"):
                deed("all")
        assert queue.webhooks.add(url, name="more").queues == ("mail",)
        assert queue.webhooks.pause("more")
        assert str(here.get("more").paused_by).startswith("adder (web)")


def test_an_exported_crontab_says_that_values_are_left_out(pair: Pair) -> None:
    done = pair.far.run("crontab", "export", "backup")
    assert done.returncode == 0 and "backup.sh" in done.stdout and "hush" not in done.stdout
    assert "doesn't tell the values of variables" in done.stderr


def test_undo_is_of_who_asks_and_only_of_what_that_one_may(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = pair.far.queue
    for id, name in (("ours", "mail"), ("theirs", "other")):
        here.enqueue("true", id=id, queue=name, delay="1d")
    here.hold("theirs")
    here.edit("ours", command="false")
    held, edited = (here.events(id, limit=1)[0].action for id in ("theirs", "ours"))
    clerk = token_of(pair.far, "clerk", Role.OPERATE, queues=("mail",))
    with monkeypatch.context() as changed, pair.remote() as queue:
        changed.setenv("QUEUECTL_TOKEN", clerk)
        with pytest.raises(NotFoundError, match="You have done nothing"):
            queue.undo()
        with pytest.raises(NotFoundError, match=f"There is no action '{held}'"):
            queue.undo(held)
        undone = queue.undo(edited)
        assert (undone.action, undone.jobs, undone.refused) == (edited, 0, 1)
        queue.hold("ours")
        assert queue.undo(dry_run=True).jobs == 1 and here.get("ours").is_held
        assert queue.undo().jobs == 1 and not here.get("ours").is_held
    assert here.get("theirs").is_held
    with pair.remote() as queue:
        queue.edit("theirs", command="false")
        assert queue.undo(may_change_work=False).refused == 1
        assert queue.undo().jobs == 1 and here.get("theirs").command == "true"


@pytest.mark.parametrize("secret", ["qtl_wrong", "odd token", ""])
def test_a_wrong_token_is_said(
    pair: Pair, secret: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QUEUECTL_TOKEN", secret)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pair.remote() as queue, pytest.raises((StoreDeniedError, UsageError)):
        queue.get("good")


def test_login_keeps_a_token_that_only_we_can_read(pair: Pair, tmp_path: Path) -> None:
    env = {k: v for k, v in pair.far.env.items() if k != "QUEUECTL_TOKEN"}
    env |= {"XDG_CONFIG_HOME": str(tmp_path)}

    def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = pair.far.command(*words)
        return subprocess.run(
            command, env=env, input=given, capture_output=True, text=True, check=False
        )

    assert run("list").returncode == 5
    refused = run("login", pair.url, given="qtl_wrong\n")
    assert refused.returncode == 5 and "doesn't know the token" in refused.stderr
    secret = pair.far.extra_env["QUEUECTL_TOKEN"]
    done = run("login", pair.url, given=f"{secret}\n")
    assert done.returncode == 0 and f"Signed in to {pair.url} as laptop" in done.stdout
    kept = tmp_path / "queuectl" / "tokens.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert secret not in done.stdout + done.stderr
    assert run("show", "good").returncode == 0
    kept.chmod(0o644)
    assert "Others may read" in run("show", "good").stderr
    kept.chmod(0o600)
    assert run("logout", pair.url).returncode == 0
    assert run("show", "good").returncode == 5


@pytest.mark.parametrize(
    "words",
    ["worker start", "worker restart", "db init", "db check", "web", "doctor", "db migrate"],
)
def test_what_needs_the_database_says_so(pair: Pair, words: str) -> None:
    done = pair.far.run(*words.split())
    assert done.returncode == 2, done
    assert f"can't be done through {pair.url}; do it on a host" in done.stderr


def test_nobody_there_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECTL_TOKEN", "qtl_any")
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Queue(f"http://127.0.0.1:{port}") as queue, pytest.raises(StoreUnreachableError):
        queue.counts()


def test_a_token_goes_nowhere_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECTL_TOKEN", "qtl_any")
    with pytest.raises(UsageError, match="without TLS"):
        Queue("http://jobs.example.com")
    with pytest.raises(UsageError, match="no place for a token"):
        Queue("https://qtl_any@jobs.example.com")


def answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def _read_request(connection: socket) -> None:
    """Read all of it: who closes before that resets the connection, and its answer is lost."""
    with connection.makefile("rb") as file:
        length = 0
        while line := file.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        file.read(length)


def url_at(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def answering(text: bytes) -> Iterator[int]:
    """Answer every request in this way."""
    with create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    _read_request(connection)
                    connection.sendall(text)

        Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\n\r\n", "sends us to"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "There is no queue at"),
        (answer(b"no"), "isn't understood: that is no JSON"),
        (answer(b'"no"'), "isn't understood: There must be a whole number"),
        (answer(b"[" * 200_000 + b"]" * 200_000), "isn't understood: that is too deep"),
    ],
)
def test_what_is_no_server_of_ours_is_said(
    text: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUECTL_TOKEN", "qtl_any")
    for port in answering(text):
        with Queue(url_at(port)) as queue, pytest.raises(StoreError, match=said):
            queue.now()


def test_a_path_at_which_there_is_no_queue_is_named(
    lab: Lab, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUECTL_TOKEN", token_of(lab, "laptop", *Role))
    server = serve("--base-path", "/queue", "--no-link")
    for base, said in (("", "Everything here is under /queue/"), ("/queue/api/v1", "There is no")):
        with Queue(url_at(server.port) + base) as queue, pytest.raises(StoreError, match=said) as e:
            queue.now()
        assert "base path" in e.value.advice
    with Queue(f"{url_at(server.port)}/queue") as queue:
        assert queue.count() == 0


def test_an_answer_that_is_not_understood_may_be_that_of_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUEUECTL_TOKEN", "qtl_any")
    for port in answering(answer(b"no")):
        said = r"no JSON: .* may or may not have been"
        with Queue(url_at(port)) as queue, pytest.raises(StoreUnsettledError, match=said):
            queue.pause("mail")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", "the answer breaks off"),
        (b"SSH-2.0-OpenSSH\r\n", "what comes is no answer of HTTP"),
    ],
)
def test_answers_that_break_off_again_and_again_are_said(
    text: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUECTL_TOKEN", "qtl_any")
    monkeypatch.setattr(http, "PATIENCE", 0.5)
    for port in answering(text):
        with Queue(url_at(port)) as queue:
            with pytest.raises(StoreUnreachableError, match=said) as read:
                queue.get("one")
            assert not isinstance(read.value, StoreUnsettledError)
            with pytest.raises(StoreUnsettledError, match=said) as added:
                queue.enqueue("true", id="one")
            assert added.value.advice == "queuectl show one says whether the job is there."


def test_a_certificate_that_nobody_has_signed_is_refused(
    lab: Lab, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(cert), "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
        ],
        check=True,
        capture_output=True,
    )
    server = serve("--no-link", "--tls-cert", str(cert), "--tls-key", str(key))
    monkeypatch.setenv("QUEUECTL_TOKEN", token_of(lab, "laptop", Role.VIEW))
    url = f"https://localhost:{server.port}"
    with Queue(url) as queue, pytest.raises(StoreDeniedError, match="isn't to be trusted"):
        queue.counts()
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    assert ssl.get_default_verify_paths().cafile == str(cert)
    with Queue(url) as queue:
        assert queue.counts() == []


def connections(pid: int) -> int:
    """Count the connections of a process."""
    found = 0
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found += os.readlink(file).startswith("socket:")
    return found


def test_waiting_and_following_outlast_a_restart_of_the_server(lab: Lab, serve: Serve) -> None:
    server = serve("--no-link", "--allow-submit")
    lab.extra_env["QUEUECTL_TOKEN"] = token_of(lab, "laptop", *Role)
    gate = lab.folder / "gate"
    os.mkfifo(gate)
    lab.queue.enqueue(f"echo before; read line < {gate}; echo $line", id="slow")
    lab.node()

    def begin(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            lab.command("--db", server.url, *words),
            env=lab.env,
            cwd=lab.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with begin("wait", "slow", "--json") as waiting, begin("logs", "slow", "-f") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "before\n"
        # It has asked, and listens: who never found a server isn't waiting for it to come back.
        wait_for(lambda: connections(waiting.pid) == 2, "somebody who waits")
        assert server.stop(by=signal.SIGTERM) == 0
        again = serve("--no-link", "--allow-submit", "--port", str(server.port))
        wait_for(lambda: again.process.poll() is None, "a server that is there again")
        gate.write_text("after\n")
        assert following.communicate(timeout=PATIENCE)[0] == "after\n"
        out, err = waiting.communicate(timeout=PATIENCE)
        assert waiting.returncode == following.returncode == 0, err
        assert '"completed"' in out


def test_all_that_runs_is_followed(lab: Lab, server: Server) -> None:
    lab.extra_env["QUEUECTL_TOKEN"] = token_of(lab, "laptop", *Role)
    lab.queue.enqueue_many([f"echo {number}" for number in range(5)], tags=["t"])
    lab.start_node("--drain")
    done = lab.run("--db", server.url, "logs", "--tag", "t", "-f")
    assert sorted(line.split()[-1] for line in done.stdout.splitlines()) == list("01234"), done
