"""A web server that is killed while many enqueue: what it has acknowledged is there, once."""

import http.client
import json
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import count

from queuectl.access import Role
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import API, Server

ASKERS = 8
KILLS = 3
AT_LEAST = 40
"""Answers that come before each kill."""


@dataclass
class Told:
    """What askers were told, and what they don't know."""

    ids: dict[str, str] = field(default_factory=dict)
    """Of jobs that were acknowledged, by their commands."""
    unknown: set[str] = field(default_factory=set)


class Asker:
    """Somebody who enqueues one job after the other, over one connection."""

    def __init__(self, name: str, secret: str) -> None:
        self._name = name
        self._headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self._numbers = count()

    def ask(self, port: int, told: Told) -> None:
        """Enqueue until the server is gone."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            while True:
                number = next(self._numbers)
                # Each second one has a key.
                command = f"echo {self._name} {number} {'key' if number % 2 else ''}".strip()
                told.unknown.add(command)
                told.ids[command] = self.add(connection, command)
                told.unknown.discard(command)
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()

    def add(self, connection: http.client.HTTPConnection, command: str) -> str:
        """Add a job, and return its id."""
        key = {"Idempotency-Key": command} if command.endswith("key") else {}
        body = json.dumps({"command": command})
        connection.request("POST", f"{API}/jobs", body=body, headers=self._headers | key)
        reply = connection.getresponse()
        said = json.loads(reply.read())
        assert reply.status in (HTTPStatus.CREATED, HTTPStatus.OK), said
        return str(said["id"])


def killed_again_and_again(lab: Lab) -> None:
    _, secret = lab.queue.access.add_token("asker", [str(role) for role in Role])
    askers = [Asker(f"asker{number}", secret) for number in range(ASKERS)]
    told = Told()
    for _ in range(KILLS):
        wanted = len(told.ids) + AT_LEAST + random.randrange(AT_LEAST)
        server = Server(lab, "--allow-submit", "--no-link")
        try:
            with ThreadPoolExecutor(ASKERS) as crew:
                asking = [crew.submit(asker.ask, server.port, told) for asker in askers]
                try:
                    wait_for(partial(has, told, wanted), "answers")
                finally:
                    server.process.send_signal(signal.SIGKILL)
            for one in asking:
                one.result()
        finally:
            server.close()
    ask_again(lab, askers[0], told)
    jobs = lab.queue.list(limit=None)
    commands = [job.command for job in jobs]
    assert len(commands) == len(set(commands))
    assert {(job.id, job.command) for job in jobs} >= {
        (id, command) for command, id in told.ids.items()
    }
    assert set(commands) - told.ids.keys() <= told.unknown


def has(told: Told, answers: int) -> bool:
    return len(told.ids) >= answers


def ask_again(lab: Lab, asker: Asker, told: Told) -> None:
    """Send what nobody knows of and has a key once more, twice; and some that was answered."""
    keyed = [command for command in told.unknown if command.endswith("key")]
    known = [command for command in told.ids if command.endswith("key")][:ASKERS]
    server = Server(lab, "--allow-submit", "--no-link")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        for command in keyed:
            told.ids[command] = asker.add(connection, command)
        for command in (*keyed, *known):
            assert asker.add(connection, command) == told.ids[command]
    finally:
        connection.close()
        server.close()


def test_on_sqlite(lab: Lab) -> None:
    killed_again_and_again(lab)


def test_on_servers(server_lab: Lab) -> None:
    killed_again_and_again(server_lab)
