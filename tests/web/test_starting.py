"""How a server is started, what it says where it is found, and a database that goes away."""

import os
import re
import socket
import subprocess
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest

from queuectl import Queue
from queuectl.access import Role
from queuectl.web.server import Place, found_at, open_sockets
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import Client, Serve
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
        try:
            assert process.stdout is not None
            said = Said(process)
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
            process.communicate()

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
            assert asked.json["detail"] == sentence
            assert asked.headers["retry-after"]
        for path in ("/", "/jobs", "/sign-in"):
            page = browser.get(path)
            assert page.status == 503, path
            assert sentence in page.body.decode()
            assert page.headers["content-type"].startswith("text/html")
        assert client.post("/jobs/ghost/hold").status == 503
        # Who listens is sent away, and asks again.
        wait_for(lambda: not stream.is_alive(), "the end of the stream")
        assert server.stop() == 0
        wait_for(lambda: sentence in said.lines, "the log")
        assert said.lines.count(sentence) == 1
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
