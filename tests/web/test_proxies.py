"""Behind nginx and Caddy, by the recipes of `docs/web.md` as they stand there."""

import http.client
import json
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPResponse
from urllib.parse import urlencode, urlsplit

import pytest

from queuectl.access import Role
from tests.docs.markdown import blocks, read
from tests.servers import HOST
from tests.servers.webproxies import NAME, Caddy, Nginx, WebProxy, tls
from tests.support import PATIENCE, Lab

PAGE = read("docs/web.md")


def recipe(title: str, language: str) -> tuple[str, list[str]]:
    """Return what the page has for a proxy: its configuration, and the options of our server."""
    text = PAGE.partition(f"### {title}\n")[2].partition("\n### ")[0]
    (config,) = blocks(text, language)
    (command,) = blocks(text, "sh")
    program, name, *options = shlex.split(command.lines[0])
    assert (program, name) == ("queuectl", "web")
    return "".join(f"{line}\n" for line in config.lines), options


class _Https(http.client.HTTPSConnection):
    """A connection to a proxy, whose name leads nowhere."""

    def __init__(self, port: int) -> None:
        super().__init__(NAME, port, timeout=PATIENCE, context=tls())

    def connect(self) -> None:
        wire = socket.create_connection((HOST, self.port), PATIENCE)
        self.sock = tls().wrap_socket(wire, server_hostname=NAME)


@dataclass
class Site:
    """Where a server is found behind its proxy, and the link that it has printed."""

    port: int
    base: str
    link: str
    headers: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def asking(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> Iterator[HTTPResponse]:
        """Ask for a path, and read what is answered."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(_Https(self.port)) as wire:
            wire.request(method, self.base + path, body, self.headers | named)
            yield wire.getresponse()

    @property
    def origin(self) -> str:
        """What a browser says that shows one of its pages."""
        return f"https://{NAME}:{self.port}"


@contextmanager
def serving(lab: Lab, proxy: WebProxy, options: list[str]) -> Iterator[tuple[str, str]]:
    """Start our server; yields where it says that it listens, and its link."""
    process = subprocess.Popen(
        lab.command("web", *options, "--allow-submit"),
        env=lab.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        said = process.stderr.readline()
        yield said, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(params=["nginx", "caddy"])
def site(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A server of ours behind a proxy."""
    if request.param == "nginx":
        config, options = recipe("Behind nginx", "nginx")
        proxy: WebProxy = Nginx(config)
        path = str(proxy.folder / "web.sock")
        proxy.recipe = config.replace("/run/queuectl/web.sock", path)
        assert path in proxy.recipe
        options[options.index("--socket") + 1] = path
        with serving(lab, proxy, options) as (_, link), proxy:
            # Its user has to be in the group of the socket, as the page says.
            os.chown(path, -1, proxy.folder.stat().st_gid)
            yield Site(proxy.port, "/queue", link)
    else:
        config, options = recipe("Behind Caddy", "text")
        options[options.index("--port") + 1] = "0"
        proxy = Caddy(config)
        with serving(lab, proxy, options) as (said, link):
            found = re.search(r"http://127\.0\.0\.1:(\d+)", said)
            assert found is not None
            proxy.recipe = config.replace(":8080", f":{found[1]}")
            assert proxy.recipe != config
            with proxy:
                yield Site(proxy.port, "", link)


def test_one_signs_in_looks_and_changes_something(lab: Lab, site: Site) -> None:
    link = urlsplit(site.link)
    assert (link.scheme, link.netloc, link.path) == ("https", NAME, f"{site.base}/sign-in")
    with site.asking("GET", "/sign-in") as reply:
        assert reply.status == 200
        assert f'action="{site.base}/sign-in"' in reply.read().decode()
        assert reply.headers["Strict-Transport-Security"]
    form = urlencode({"secret": link.fragment, "to": "/jobs"}).encode()
    kind = "application/x-www-form-urlencoded"
    with site.asking("POST", "/sign-in", form, Origin=site.origin, Content_Type=kind) as reply:
        assert (reply.status, reply.headers["Location"]) == (303, f"{site.base}/jobs")
        cookie = reply.headers["Set-Cookie"]
    assert "Secure" in cookie
    site.headers["Cookie"] = cookie.partition(";")[0]
    lab.queue.enqueue("echo behind", id="a/b ü", delay="1h")
    with site.asking("GET", "/jobs") as reply:
        assert (reply.status, b"echo behind" in reply.read()) == (200, True)
    path = "/api/v1/jobs/a%2Fb%20%C3%BC/hold"
    with site.asking("POST", path, Origin=site.origin) as reply:
        assert json.load(reply)["state"] == "pending"
    with site.asking("POST", path, Origin="https://evil.example") as reply:
        assert json.load(reply)["type"].endswith("cross-site")
    assert [event.kind for event in lab.queue.events("a/b ü")] == ["hold"]


def test_a_stream_flows_at_once(lab: Lab, site: Site) -> None:
    _, secret = lab.queue.access.add_token("t", list(Role))
    site.headers["Authorization"] = f"Bearer {secret}"
    with site.asking("GET", "/api/v1/live") as reply:
        assert reply.headers["Content-Type"] == "text/event-stream"
        heard(reply, b"event: status")
        lab.queue.enqueue("true", id="j")
        lab.queue.hold("j")
        heard(reply, b"event: event")


def heard(reply: HTTPResponse, line: bytes) -> None:
    """Read until a line comes; the connection gives up after a while."""
    while (got := reply.readline()) and got.strip() != line:
        pass
    assert got.strip() == line


def test_much_is_taken_and_given_as_lines(lab: Lab, site: Site) -> None:
    _, secret = lab.queue.access.add_token("t", list(Role))
    site.headers["Authorization"] = f"Bearer {secret}"
    line = json.dumps({"command": "true", "stdin": "x" * 400_000}).encode() + b"\n"
    with site.asking("POST", "/api/v1/bulk/jobs", line * 4, Content_Type="application/jsonl") as at:
        told = at.read().splitlines()
    assert [json.loads(one)["error"] for one in told] == [None] * 4
    assert lab.queue.count() == 4


def test_what_somebody_sends_as_a_body_is_no_request(lab: Lab, site: Site) -> None:
    """A proxy passes `Upgrade` on; what follows is still what its sender may send."""
    _, secret = lab.queue.access.add_token("t", list(Role))
    site.headers["Authorization"] = f"Bearer {secret}"
    lab.queue.enqueue("true", id="j", delay="1h")
    body = json.dumps({"command": "true", "id": "inside"})
    inner = (
        f"POST {site.base}/api/v1/jobs HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {secret}"
        f"\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    with closing(_Https(site.port)) as wire:
        wire.putrequest("GET", f"{site.base}/api/v1/jobs/j/wait?timeout=60")
        asked = {"Connection": "Upgrade", "Upgrade": "websocket", "Content-Length": str(len(inner))}
        for name, value in (site.headers | asked).items():
            wire.putheader(name, value)
        wire.endheaders()
        wire.send(inner.encode())
        lab.queue.cancel("j")
        with closing(wire.getresponse()) as reply:
            assert json.load(reply)["state"] == "cancelled"
    with site.asking("GET", "/api/v1/me") as reply:
        assert reply.status == 200
    assert [job.id for job in lab.queue.iterate()] == ["j"]
