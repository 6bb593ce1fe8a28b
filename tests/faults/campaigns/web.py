"""Web servers are killed while many add jobs there, change them, and take that back.

What was acknowledged is there, once. What was done to jobs by hand, whether or not anybody was
told so, was done with all that is kept of it: each job is what its events come to, one after the
other. The jobs wait in a paused queue, so that nothing else changes them.
"""

import http.client
import json
import signal
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import count
from random import Random
from typing import Any

from queuectl import State
from queuectl.access import Role
from queuectl.facts import Event
from tests.faults.arena import Arena
from tests.faults.campaign import campaign
from tests.support import PATIENCE, wait_for
from tests.web.conftest import API, Server

ASKERS = 8
AT_LEAST = 40
"""Answers that come before each kill."""
AT_ONCE = 20
"""Jobs that are changed by one request."""
DEEDS = ("cancel", "hold", "release", "retry")
GOOD = (HTTPStatus.OK, HTTPStatus.CREATED)


@campaign(
    row=26,
    about="SIGKILLs of web servers while many add jobs at the same moments, some with keys, and"
    " cancel, hold, release and retry them, one and many, and undo that",
    goal="what was acknowledged is there, once, and each job is what its events come to",
    trials="kills",
    short={"kills": 3},
    long={"kills": 300},
)
def web(arena: Arena, *, kills: int) -> None:
    """Kill one server after the other, and compare what askers were told with what there is."""
    arena.queue.pause("default")
    secret = arena.queue.access.add_token("asker", [str(role) for role in Role])[1]
    told = Told()
    askers = [Asker(f"asker{n}", secret, arena.random.random(), told) for n in range(ASKERS)]
    for _ in range(kills):
        wanted = told.answers.total() + AT_LEAST + arena.random.randrange(AT_LEAST)
        with closing(serve(arena)) as server, ThreadPoolExecutor(ASKERS) as crew:
            asking = [crew.submit(asker.ask, server.port) for asker in askers]
            try:
                wait_for(partial(has_answered, told, asking, wanted), "answers")
            finally:
                server.process.send_signal(signal.SIGKILL)
            for one in asking:
                one.result()
    with closing(serve(arena)) as server:
        askers[0].ask_again(server.port)
    arena.report.note(kills=kills, **told.answers)
    judge(arena, told)


def serve(arena: Arena) -> Server:
    """Start a server that takes jobs."""
    return Server(arena, "--allow-submit", "--no-link")


@dataclass
class Told:
    """What askers were told, and what they don't know."""

    answers: Counter[str] = field(default_factory=Counter)
    ids: dict[str, str] = field(default_factory=dict)
    """Of jobs that were acknowledged, by their commands."""
    unknown: set[str] = field(default_factory=set)
    """Commands of which nobody knows whether they were stored."""
    done: set[tuple[str, str, str]] = field(default_factory=set)
    """What was done, by action and job."""
    undone: Counter[str] = field(default_factory=Counter)
    """How often changes of jobs were taken back, by their ids."""


def has_answered(told: Told, asking: Sequence[Any], answers: int) -> bool:
    """Tell whether there were so many answers, or somebody has given up."""
    return told.answers.total() >= answers or any(one.done() for one in asking)


class Asker:
    """Somebody who asks for one thing after the other, over one connection."""

    def __init__(self, name: str, secret: str, seed: float, told: Told) -> None:
        self._name = name
        self._headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self._numbers = count()
        self._random = Random(seed)
        self._told = told
        self._action = ""
        """What was done last."""
        self._server: http.client.HTTPConnection

    def ask(self, port: int) -> None:
        """Go on until the server is gone."""
        with closing(self._connect(port)):
            try:
                while True:
                    self._ask()
            except (OSError, http.client.HTTPException):
                return

    def ask_again(self, port: int) -> None:
        """Send what nobody knows of and has a key once more, twice; and some that was answered."""
        told = self._told
        keyed = [command for command in told.unknown if command.endswith("key")]
        known = [command for command in told.ids if command.endswith("key")][:ASKERS]
        with closing(self._connect(port)):
            for command in keyed:
                told.ids[command] = self._add(command)
            for command in (*keyed, *known):
                assert self._add(command) == told.ids[command], command

    def _connect(self, port: int) -> http.client.HTTPConnection:
        self._server = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        return self._server

    def _ask(self) -> None:
        chance = self._random.random()
        if chance < 0.5:
            self._enqueue()
        elif chance < 0.8:
            self._change()
        elif self._action:
            self._undo()

    def _enqueue(self) -> None:
        told, number = self._told, next(self._numbers)
        # Each second one has a key.
        command = f"echo {self._name} {number} {'key' if number % 2 else ''}".strip()
        told.unknown.add(command)
        told.ids[command] = self._add(command)
        told.unknown.discard(command)
        told.answers["jobs"] += 1

    def _add(self, command: str) -> str:
        key = {"Idempotency-Key": command} if command.endswith("key") else {}
        status, _, said = self._send("/jobs", {"command": command}, key)
        assert status in GOOD, said
        return str(said[0]["id"])

    def _change(self) -> None:
        """Do something to a job, or to some; what others have done to them may be in the way."""
        ids = list(self._told.ids.values())
        do = self._random.choice(DEEDS)
        if not ids:
            return
        if self._random.random() < 0.5:
            id = self._random.choice(ids)
            status, action, said = self._send(f"/jobs/{id}/{do}", {})
            done = [id] if status == HTTPStatus.OK else []
            assert done or status == HTTPStatus.CONFLICT, said
        else:
            some = self._random.sample(ids, min(AT_ONCE, len(ids)))
            status, action, said = self._send("/bulk/changes", {"do": do, "ids": some})
            assert status == HTTPStatus.OK, said
            done = changed_in(said)
        self._told.done |= {(action, id, do) for id in done}
        self._told.answers["changes"] += len(done)
        self._action = action if done else self._action

    def _undo(self) -> None:
        action, self._action = self._action, ""
        status, _, said = self._send(f"/actions/{action}/undo", {})
        assert status == HTTPStatus.OK, said
        undone = changed_in(said)
        self._told.undone.update(undone)
        self._told.answers["undone"] += len(undone)

    def _send(
        self, path: str, body: Any, headers: dict[str, str] | None = None
    ) -> tuple[int, str, list[Any]]:
        """Ask for something, and return status, action, and the lines of the answer."""
        sent = self._headers | (headers or {})
        self._server.request("POST", API + path, body=json.dumps(body), headers=sent)
        reply = self._server.getresponse()
        lines = [json.loads(line) for line in reply.read().splitlines()]
        return reply.status, reply.headers["Queuectl-Action"] or "", lines


def changed_in(lines: Sequence[Any]) -> list[str]:
    """Return the ids of the jobs of which an answer says that they were changed."""
    return [line["id"] for line in lines if line["error"] is None]


def judge(arena: Arena, told: Told) -> None:
    """Compare what there is with what was told, and each job with its events."""
    report = arena.report
    jobs = {job.id: job for job in arena.queue.list(limit=None)}
    commands = Counter(job.command for job in jobs.values())
    lost = {(i, c) for c, i in told.ids.items() if i not in jobs or jobs[i].command != c}
    report.expect(not lost, f"acknowledged, and lost: {sorted(lost)[:5]}")
    twice = [command for command, many in commands.items() if many > 1]
    report.expect(not twice, f"stored twice: {twice[:5]}")
    made_up = commands.keys() - told.ids.keys() - told.unknown
    report.expect(not made_up, f"never asked for, and there: {sorted(map(str, made_up))[:5]}")
    events: dict[str, list[Event]] = {id: [] for id in jobs}
    for event in arena.queue.iterate_events():
        if event.job in events:
            events[event.job].insert(0, event)
    kept = {(str(e.action), id, e.kind) for id, some in events.items() for e in some}
    unkept = told.done - kept
    report.expect(not unkept, f"done, and nothing is kept of it: {sorted(unkept)[:5]}")
    undone = Counter(id for id, some in events.items() for e in some if e.kind == "undo")
    forgotten = told.undone - undone
    report.expect(not forgotten, f"undone, and not: {sorted(forgotten)[:5]}")
    odd = [
        f"{id} is {job.state}, held: {job.is_held}; {[event.kind for event in events[id]]}"
        for id, job in jobs.items()
        if (job.state, job.is_held) != comes_to(events[id])
    ]
    report.expect(not odd, f"not what their events come to: {odd[:5]}")
    report.expect(told.undone.total(), "nothing was ever undone")


def comes_to(events: Sequence[Event]) -> tuple[State, bool]:
    """Return the state that a job comes to by what was done to it, and whether it is held."""
    now = before = (State.PENDING, False)
    after = {
        "cancel": (State.CANCELLED, False),
        "hold": (State.PENDING, True),
        "release": (State.PENDING, False),
        "retry": (State.PENDING, False),
    }
    for event in events:
        now, before = (before if event.kind == "undo" else after[event.kind]), now
    return now
