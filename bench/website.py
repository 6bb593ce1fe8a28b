"""The web server of a queue, as a user starts it, and people who have its dashboard open."""

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.lab import CHECKOUT, Lab, queuectl
from bench.processes import BenchError, Group, last_words, wait_for
from queuectl import Queue
from queuectl.access import Role

_TOLD = re.compile(r"http://127\.0\.0\.1:(\d+)")

OPTIONS = ("web", "--allow-submit", "--no-link")


@dataclass(frozen=True, slots=True, kw_only=True)
class Website:
    """A server that runs, and the secret of somebody who may do everything there."""

    port: int
    secret: str
    group: Group

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def broker(self) -> str:
        """Where it is, for a program that asks with the secret."""
        return f"http://:{self.secret}@127.0.0.1:{self.port}"


@contextmanager
def website(lab: Lab, url: str, *program: str) -> Iterator[Website]:
    """Serve a queue, by the installed command or another program that does as it does."""
    with Queue(url) as queue:
        _, secret = queue.access.add_token(
            f"bench{secrets.token_hex(4)}", [str(role) for role in Role]
        )
    log = lab.log()
    path = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    with Group(
        [*program, *OPTIONS] if program else queuectl(*OPTIONS),
        env=lab.environment(QUEUECTL_DB=url, PYTHONPATH=path),
        cwd=lab.folder,
        log=log,
    ) as group:
        wait_for(lambda: bool(_TOLD.search(log.read_text())), "the web server", group.check)
        found = _TOLD.search(log.read_text())
        assert found is not None
        yield Website(port=int(found[1]), secret=secret, group=group)


class Audience:
    """Many who have a dashboard of it open: see `bench/audience.py`."""

    def __init__(self, process: "subprocess.Popen[str]", site: Website) -> None:
        self._process = process
        self._site = site

    def heard(self) -> int:
        """Return how many events they have heard since this was asked last."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        events: int = self.told()["events"]
        return events

    def wait(self, events: int) -> None:
        """Return when they have heard so many events since they were asked last."""
        heard = 0

        def enough() -> bool:
            nonlocal heard
            heard += self.heard()
            return heard >= events

        wait_for(enough, f"{events} events to those who listen", self._site.group.check)

    def told(self) -> dict[str, Any]:
        """Return the next that they say."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self._site.group.check()
        if not line:
            raise BenchError("those who listen are gone")
        said: dict[str, Any] = json.loads(line)
        if said["refused"]:
            raise BenchError(f"some who would listen were refused: {said['refused']}")
        return said


@contextmanager
def audience(lab: Lab, site: Website, many: int, *page: str) -> Iterator[Audience]:
    """Have many listen, and ask for a page of it if there is one; begins when all are there."""
    log = lab.log()
    command: Sequence[str] = [sys.executable, "-m", "bench.audience", str(site.port), str(many)]
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*command, *page],
            env=lab.environment(QUEUECTL_TOKEN=site.secret),
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        )
    try:
        found = Audience(process, site)
        try:
            found.told()
        except BenchError as error:
            raise BenchError(f"{error}: {last_words(log)}") from None
        yield found
    finally:
        process.kill()
        process.communicate()
