"""How a server is started, what it says where it is found, and a database that goes away."""

import json
import os
import re
import socket
import subprocess
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest
from markupsafe import escape

from queuectl import Queue
from queuectl.access import Role
from queuectl.errors import UsageError
from queuectl.web.gate import GONE
from queuectl.web.server import Place, check_closed, found_at, open_sockets
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import Client, Serve
from tests.web.test_server import UnixConnection
from tests.web.test_signing import cookie_of, sign_in


class Said:
    """What a program says on a pipe, line by line as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        assert process.stderr is not None
        self._pipe = process.stderr
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self._pipe:
            self.lines.append(line.strip())

    def rest(self) -> list[str]:
        """Return all that was said, once the program is over."""
        self._thread.join(PATIENCE)
        self._pipe.close()
        return self.lines


class TestFirstRun:
    def test_the_session_outlives_the_first_job(self, lab: Lab) -> None:
        home = lab.folder / "first"
        home.mkdir()
        env = {name: it for name, it in lab.env.items() if name != "QUEUECTL_DB"}
        env |= {"HOME": str(home)}
        process = subprocess.Popen(
            lab.command("web"),
            env=env,
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        said = Said(process)
        try:
            link = process.stdout.readline().strip()
            path = home / ".local/share/queuectl/queue.db"
            assert said.lines[0] == f"Made a new queue at sqlite:{path}."
            found = re.search(r"http://127.0.0.1:(\d+)/sign-in#(\S+)", link)
            assert found is not None
            place = Client(int(found[1]), base="")
            reply = place.ask(
                "POST",
                "/sign-in",
                f"secret={found[2]}".encode(),
                {
                    "Content-Type": "application/x-www-form-urlencoded",
                    "Sec-Fetch-Site": "same-origin",
                },
            )
            cookie = {"Cookie": str(reply.headers["set-cookie"]).partition(";")[0]}
            with closing(Queue(path)) as queue:
                queue.enqueue("true", id="first")
            assert b"first" in place.ask("GET", "/jobs", headers=cookie).body
            assert place.ask("GET", "/api/v1/jobs/first", headers=cookie).status == 200
        finally:
            process.kill()
            process.wait(PATIENCE)
            said.rest()
            process.stdout.close()

    def test_where_nothing_is_changed_nothing_is_made(self, lab: Lab) -> None:
        there = lab.folder / "none.db"
        done = lab.run("--db", str(there), "web", "--read-only")
        assert done.returncode == 5
        assert f"There is no queue at {there} yet" in done.stderr
        assert not there.exists()


class TestGone:
    """A file that is deleted or replaced while it is served."""

    @pytest.mark.parametrize("how", ["deleted", "replaced"])
    def test_nobody_is_shown_a_ghost(self, lab: Lab, serve: Serve, how: str) -> None:
        server = serve()
        lab.queue.enqueue("true", id="ghost")
        client = server.client(*Role)
        cookie = cookie_of(sign_in(server, server.link.partition("#")[2]))
        browser = Client(server.port, {"Cookie": cookie}, base="")
        plain = Client(server.port, base="")
        assert plain.get("/health").status == 200
        said = Said(server.process)
        stream = self.listen(client)
        if how == "replaced":
            other = lab.folder / "other.db"
            Queue(other).close()
            for log in ("-wal", "-shm"):
                # Or SQLite would find in the new file what was in the old one.
                (lab.folder / f"{lab.db.name}{log}").unlink()
            os.replace(other, lab.db)
        else:
            lab.db.unlink()
        sentence = f"{lab.db} was {how} while it was in use; restart queuectl web."
        for asked in (plain.get("/health"), client.get("/jobs/ghost"), client.get("/live")):
            assert (asked.status, asked.problem) == (503, "missing")
            assert asked.json["detail"] == GONE
            assert lab.db.name not in asked.body.decode()
            assert asked.headers["retry-after"]
        for path in ("/", "/jobs", "/sign-in"):
            page = browser.get(path)
            assert page.status == 503, path
            assert str(escape(GONE)) in page.body.decode()
            assert page.headers["content-type"].startswith("text/html")
        assert client.post("/jobs/ghost/hold").status == 503
        # Who listens is sent away, and asks again.
        wait_for(lambda: not stream.is_alive(), "the end of the stream")
        assert server.stop() == 0
        assert said.rest().count(sentence) == 1
        if how == "replaced":
            # A new one serves what is there now.
            with closing(Queue(lab.db)) as new:
                _, secret = new.access.add_token("new", ["view"])
            again = Client(serve("--no-link").port, {"Authorization": f"Bearer {secret}"})
            assert again.get("/jobs").json["items"] == []

    @staticmethod
    def listen(client: Client) -> Thread:
        """Listen to what happens, until that ends."""
        began: SimpleQueue[bool] = SimpleQueue()

        def read() -> None:
            with closing(socket.create_connection(("127.0.0.1", client.port), PATIENCE)) as wire:
                lines = ["GET /api/v1/live HTTP/1.1", "Host: localhost"]
                lines += [f"{name}: {value}" for name, value in client.headers.items()]
                wire.sendall("\r\n".join([*lines, "", ""]).encode())
                heard = b""
                while b"\r\n0\r\n\r\n" not in heard:
                    part = wire.recv(65536)
                    if not part:
                        break
                    heard += part
                    if b"event: status" in heard:
                        began.put(True)

        thread = Thread(target=read, daemon=True)
        thread.start()
        began.get(timeout=PATIENCE)
        return thread

    def test_one_that_comes_back_is_served_again(self, lab: Lab, serve: Serve) -> None:
        server = serve("--no-link")
        plain = Client(server.port, base="")
        moved = lab.folder / "moved.db"
        os.rename(lab.db, moved)
        assert plain.get("/health").status == 503
        os.rename(moved, lab.db)
        assert plain.get("/health").status == 200


class TestLinks:
    """Links that are of use where they are printed for."""

    @pytest.mark.parametrize(
        ("place", "base", "urls"),
        [
            (Place(), "", ["http://127.0.0.1:PORT"]),
            (Place(names=("jobs.lan",)), "/q", ["http://127.0.0.1:PORT/q"]),
            (Place(https=True, names=("jobs.lan",)), "/q", ["https://jobs.lan/q"]),
            (Place(https=True), "", ["https://127.0.0.1"]),
            (Place(host="0.0.0.0"), "", ["http://localhost:PORT"]),
            (
                Place(host="0.0.0.0", names=("jobs.lan", "10.0.0.5", "jobs.lan", "*")),
                "",
                ["http://jobs.lan:PORT", "http://10.0.0.5:PORT"],
            ),
            (
                Place(host="0.0.0.0", cert="c", key="k", names=("a.lan", "fd00::7")),
                "/q",
                ["https://a.lan:PORT/q", "https://[fd00::7]:PORT/q"],
            ),
        ],
    )
    def test_over_a_port(self, place: Place, base: str, urls: list[str]) -> None:
        (opened,) = open_sockets(place)
        with closing(opened):
            found = found_at(place, opened, base)
            port = str(opened.getsockname()[1])
        assert [url.replace(port, "PORT") for url in found.urls] == urls
        scheme = "https" if place.cert else "http"
        assert found.listens == f"{scheme}://{place.host}:{port}{base}"

    @pytest.mark.parametrize(
        ("https", "names", "urls"),
        [
            (
                True,
                ("jobs.example.com", "j.lan"),
                ["https://jobs.example.com/q", "https://j.lan/q"],
            ),
            (False, ("jobs.example.com",), ["http://jobs.example.com/q"]),
            (False, (), ["http://localhost/q"]),
        ],
    )
    def test_over_a_socket(
        self, tmp_path: Path, https: bool, names: tuple[str, ...], urls: list[str]
    ) -> None:
        place = Place(socket=str(tmp_path / "w.sock"), https=https, names=names)
        (opened,) = open_sockets(place)
        with closing(opened):
            found = found_at(place, opened, "/q")
        assert (found.listens, list(found.urls)) == (f"unix:{place.socket}", urls)

    def test_they_are_printed(self, lab: Lab) -> None:
        process = subprocess.Popen(
            lab.command(
                *("web", "--socket", "w.sock", "--base-path", "/queue", "--https"),
                *("--allow-host", "jobs.example.com", "--allow-host", "other.lan"),
            ),
            env=lab.env,
            cwd=lab.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            links = [process.stdout.readline().strip() for _ in range(2)]
            secret = links[0].partition("#")[2]
            assert links == [
                f"https://jobs.example.com/queue/sign-in#{secret}",
                f"https://other.lan/queue/sign-in#{secret}",
            ]
            assert lab.queue.access.sign_in(secret) is not None
        finally:
            process.kill()
            _, said = process.communicate()
        assert "on unix:w.sock (" in said


class TestCertificates:
    """What is wrong with which file."""

    @staticmethod
    def made(lab: Lab, name: str) -> tuple[str, str]:
        cert, key = str(lab.folder / f"{name}.pem"), str(lab.folder / f"{name}.key")
        openssl = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
        subprocess.run(
            [*openssl.split(), "-keyout", key, "-out", cert], check=True, capture_output=True
        )
        return cert, key

    def test_each_is_named(self, lab: Lab) -> None:
        cert, key = self.made(lab, "one")
        _, other = self.made(lab, "two")
        locked = str(lab.folder / "locked.key")
        subprocess.run(
            [*"openssl pkey -aes256 -passout pass:x -in".split(), key, "-out", locked], check=True
        )
        broken = lab.folder / "broken.pem"
        broken.write_text("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
        for files, sentence in {
            ("/none.pem", key): "--tls-cert: /none.pem can't be read: No such file or directory.",
            (cert, "/none.key"): "--tls-key: /none.key can't be read: No such file or directory.",
            (key, key): f"--tls-cert: {key} has no BEGIN CERTIFICATE in it, as PEM files have.",
            (cert, cert): f"--tls-key: {cert} has no PRIVATE KEY in it, as PEM files have.",
            (cert, other): f"{other} isn't the key of the certificate in {cert}.",
            (cert, locked): f"`openssl pkey -in {locked} -out FILE` decrypts it.",
            (str(broken), key): f"{broken} and {key} can't be used as a certificate and its key: ",
        }.items():
            done = lab.run("web", "--tls-cert", files[0], "--tls-key", files[1])
            assert done.returncode == 2
            assert sentence in done.stderr, done.stderr
            assert "Traceback" not in done.stderr


class TestProxyBySocket:
    """A proxy that comes by a socket in the file system, and says who asks."""

    HEADER = ("--proxy-header", "X-User", "--proxy-role", "view")

    def test_it_is_believed_there_and_nowhere_else(self, lab: Lab, serve: Serve) -> None:
        path = lab.folder / "w.sock"
        trusting = ("--trust-proxy", "unix", *self.HEADER, "--no-link")
        process = subprocess.Popen(
            lab.command("web", "--socket", str(path), *trusting),
            env=lab.env,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            process.stderr.readline()
            with closing(UnixConnection(path)) as wire:
                wire.request("GET", "/api/v1/me", headers={"X-User": "ann"})
                reply = wire.getresponse()
                assert (reply.status, json.load(reply)["name"]) == (200, "ann")
                wire.request("GET", "/api/v1/me")
                assert wire.getresponse().status == 401
        finally:
            process.kill()
            process.communicate()
        elsewhere = serve("--trust-proxy", "10.9.9.9", *self.HEADER, "--no-link")
        assert Client(elsewhere.port).get("/me", X_User="ann").problem == "not-the-proxy"

    def test_over_a_port_it_is_refused(self, lab: Lab) -> None:
        done = lab.run("web", "--trust-proxy", "unix", *self.HEADER)
        assert done.returncode == 2
        assert "--trust-proxy unix goes with --socket." in done.stderr

    def test_a_socket_that_everybody_may_open_is_refused(self, tmp_path: Path) -> None:
        with closing(socket.socket(socket.AF_UNIX)) as opened:
            opened.bind(str(tmp_path / "w.sock"))
            (tmp_path / "w.sock").chmod(0o666)
            with pytest.raises(UsageError, match="Everybody may open"):
                check_closed([opened])
            (tmp_path / "w.sock").chmod(0o660)
            check_closed([opened])
        with closing(socket.socket(socket.AF_UNIX)) as opened:
            opened.bind(f"\0queuectl-{os.getpid()}")
            with pytest.raises(UsageError, match="Everybody may open"):
                check_closed([opened])


class TestAccessLog:
    LINE = re.compile(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z 127\.0\.0\.1 (\S+ \S+ \S+) (\d+) \d+ms"
    )

    def test_each_request_is_a_line_without_secrets(self, lab: Lab, serve: Serve) -> None:
        log = lab.folder / "access.log"
        server = serve("--access-log", str(log))
        secret = server.link.partition("#")[2]
        client = server.client("view")
        token = client.headers["Authorization"].removeprefix("Bearer ")
        client.get("/jobs?state=dead")
        client.get("/jobs/%0a%22x")
        Client(server.port, base="").get(f"/{token}?a={secret}")
        assert sign_in(server, secret).status == 303
        wait_for(lambda: len(log.read_text().splitlines()) == 4, "four lines")
        found = [self.LINE.fullmatch(line) for line in log.read_text().splitlines()]
        assert [one and one[1] for one in found] == [
            "GET /api/v1/jobs?state=dead 200",
            "GET /api/v1/jobs/%0a%22x 404",
            "GET /qtl_...?a=qtk_... 404",
            "POST /sign-in 303",
        ]
        assert found[0] is not None and int(found[0][2]) > 0
        for one in (token, secret):
            assert one not in log.read_text()
        # One that is moved away is opened anew.
        os.rename(log, lab.folder / "access.log.1")
        client.get("/me")
        wait_for(log.exists)
        wait_for(lambda: "GET /api/v1/me 200" in log.read_text())

    def test_on_stderr(self, lab: Lab, serve: Serve) -> None:
        server = serve("--access-log", "-", "--no-link")
        said = Said(server.process)
        Client(server.port, base="").get("/health")
        wait_for(lambda: any("GET /health 200" in line for line in said.lines))
        assert server.stop() == 0
        said.rest()

    def test_without_it_there_is_none(self, lab: Lab, serve: Serve) -> None:
        server = serve("--no-link")
        said = Said(server.process)
        Client(server.port, base="").get("/health")
        assert server.stop() == 0
        assert said.rest() == []

    def test_one_that_cannot_be_written(self, lab: Lab) -> None:
        done = lab.run("web", "--access-log", "/none/access.log")
        assert done.returncode == 2
        assert "The access log /none/access.log can't be written: No such file" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--base-path", "queue"], "begins with a slash"),
        (["--socket", "w.sock", "--port", "80"], "instead of --host and --port"),
        (["--socket", "w.sock", "--host", "::1"], "instead of --host and --port"),
        (["--allow-host", "http://jobs.lan"], "takes a name such as jobs.example.com"),
    ],
)
def test_options_that_can_not_work(lab: Lab, options: list[str], said: str) -> None:
    done = lab.run("web", *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_what_is_refused_says_the_next_step(serve: Serve) -> None:
    server = serve("--base-path", "/q", "--no-link")
    client = server.client("view")
    client.base = "/q/api/v1"
    assert (
        client.post("/queues/x/pause")
        .json["detail"]
        .endswith("which t0 hasn't; it takes a token or a link with the role operate or admin.")
    )
    assert client.get("/job").json["detail"] == (
        "There is no '/api/v1/job'; /q/api/v1/openapi.json says what is."
    )
    client.base = "/q"
    assert "it takes a token or a link with the role admin" in client.get("/access").body.decode()
