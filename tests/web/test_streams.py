"""Streams: what happens, and what a job writes, from where somebody left off."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pytest

from queuectl.web.call import LONG_PART
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import API, Client, Reply, Serve, Server

LONG = 1_000_000


@dataclass(frozen=True)
class Told:
    """An event of a stream."""

    name: str
    data: Any
    id: str | None


class Stream:
    """Somebody who listens."""

    def __init__(self, client: Client, path: str, since: str | None = None) -> None:
        headers = {**client.headers, **({} if since is None else {"Last-Event-ID": since})}
        self._connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE)
        self._connection.request("GET", API + path, headers=headers)
        self._reply = self._connection.getresponse()
        self.status = self._reply.status
        self.type = self._reply.getheader("Content-Type", "")

    def __iter__(self) -> Iterator[Told]:
        said: dict[str, str] = {}
        while line := self._reply.readline():
            text = line.decode().rstrip("\n")
            if text:
                name, _, value = text.partition(": ")
                said[name] = value
            elif "data" in said:
                yield Told(said["event"], json.loads(said["data"]), said.get("id"))
                said = {}

    def hear_out(self) -> None:
        """Listen until the end, which must come."""
        deadline = monotonic() + PATIENCE
        while self._reply.readline():
            assert monotonic() < deadline, "it goes on"

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def viewer(server: Server) -> Client:
    return server.client("view")


def test_what_happens_is_told_to_all(lab: Lab, viewer: Client) -> None:
    lab.queue.enqueue("true", id="j")
    with closing(Stream(viewer, "/live")) as one, closing(Stream(viewer, "/live")) as other:
        assert one.type.startswith("text/event-stream")
        for stream in (one, other):
            assert next(told for told in stream if told.name == "status").data["total"] == 1
        lab.queue.hold("j")
        for stream in (one, other):
            event = next(told for told in stream if told.name == "event")
            assert (event.data["kind"], event.data["job"]) == ("hold", "j")


def test_nothing_is_missed_over_a_reconnect(lab: Lab, viewer: Client) -> None:
    lab.queue.enqueue("true", id="j")
    with closing(Stream(viewer, "/live")) as stream:
        here = next(told for told in stream if told.name == "here").id
    for _ in range(20):
        lab.queue.hold("j")
        lab.queue.release("j")
    with closing(Stream(viewer, "/live", here)) as stream:
        seen = []
        for told in stream:
            if told.name == "event":
                seen.append(told)
            if len(seen) == 25:
                break
    assert [told.data["kind"] for told in seen] == (["hold", "release"] * 13)[:25]
    with closing(Stream(viewer, "/live", seen[-1].id)) as stream:
        rest = []
        for told in stream:
            if told.name == "event":
                rest.append(told.data["kind"])
            if len(rest) == 15:
                break
    assert rest == (["release", "hold"] * 8)[:15]


def test_who_was_away_for_long_is_told_to_look_anew(lab: Lab, viewer: Client) -> None:
    lab.queue.enqueue_many([{"command": "true"} for _ in range(1_200)])
    with closing(Stream(viewer, "/live")) as stream:
        here = next(told for told in stream if told.name == "here").id
    lab.queue.hold_all(lab.queue.list(limit=None))
    with closing(Stream(viewer, "/live", here)) as stream:
        first = next(told for told in stream if told.name in ("reset", "event"))
        assert first.name == "reset"


def test_a_place_that_is_none_begins_now(lab: Lab, viewer: Client) -> None:
    for since in ("x", "-1", "9" * 30, ""):
        with closing(Stream(viewer, "/live", since)) as stream:
            assert next(told for told in stream if told.name == "here").id is not None


class TestEnd:
    """A stream ends soon after what let it in."""

    @pytest.fixture
    def bot(self, lab: Lab, server: Server) -> Client:
        return server.client("view", name="bot")

    def test_with_the_token(self, lab: Lab, bot: Client) -> None:
        lab.queue.enqueue("true", id="j")
        for path in ("/live", "/jobs/j/follow"):
            lab.queue.access.remove_token("bot")
            _, secret = lab.queue.access.add_token("bot", ["view"])
            client = Client(bot.port, {"Authorization": f"Bearer {secret}"})
            with closing(Stream(client, path)) as stream:
                assert stream.status == 200
                lab.queue.access.remove_token("bot")
                stream.hear_out()
            lab.queue.access.add_token("bot", ["view"])

    def test_of_another_one_it_goes_on(self, lab: Lab, bot: Client, viewer: Client) -> None:
        lab.queue.enqueue("true", id="j")
        with closing(Stream(viewer, "/live")) as stream, closing(Stream(bot, "/live")) as ending:
            told = iter(stream)
            assert next(one for one in told if one.name == "status")
            lab.queue.access.remove_token("bot")
            ending.hear_out()
            lab.queue.hold("j")
            assert next(one for one in told if one.name == "event" and one.data["job"] == "j")

    def test_an_export_says_that_it_is_not_whole(self, lab: Lab, bot: Client) -> None:
        # More than what is on its way to a client that doesn't read.
        text = "x" * 100_000
        lab.queue.enqueue_many([{"command": text} for _ in range(600)])
        connection = http.client.HTTPConnection("127.0.0.1", bot.port, timeout=PATIENCE)
        with closing(connection), closing(Stream(bot, "/live")) as stream:
            connection.request("GET", f"{API}/bulk/jobs", headers=bot.headers)
            reply = connection.getresponse()
            first = reply.readline()
            lab.queue.access.remove_token("bot")
            # All that goes on for a token is ended at once; this one is read till then.
            stream.hear_out()
            *_, last = reply.read().splitlines()
        assert json.loads(first)["command"] == text
        assert json.loads(last)["problem"]["status"] == 401


def test_what_has_no_body_opens_no_stream(viewer: Client) -> None:
    for path in ("/live", "/bulk/jobs"):
        reply = viewer.ask("HEAD", path)
        assert (reply.status, reply.body) == (200, b"")


class TestOutput:
    def test_it_comes_while_the_job_writes(self, lab: Lab, viewer: Client) -> None:
        gate = lab.folder / "gate"
        lab.queue.enqueue(f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two", id="j")
        lab.node()
        with closing(Stream(viewer, "/jobs/j/follow")) as stream:
            told = iter(stream)
            assert next(one for one in told if one.name == "output").data["text"] == "one\n"
            gate.touch()
            assert next(one for one in told if one.name == "output").data["text"] == "two\n"
            end = next(one for one in told if one.name == "end").data
            assert (end["state"], end["attempt"]) == ("completed", 1)
            assert list(told) == []

    def test_who_comes_back_goes_on_where_it_was(self, lab: Lab, viewer: Client) -> None:
        lab.queue.enqueue("printf 'äöü'; echo no >&2; printf ß", id="j")
        lab.node()
        wait_for(lambda: lab.queue.get("j").state == "completed", "its end")
        for out in range(9):
            with closing(Stream(viewer, "/jobs/j/follow", f"1.{out}.3")) as stream:
                told = list(stream)
            assert all(one.data["stream"] == "stdout" for one in told if one.name == "output")
            text = "äöüß".encode()[out:]
            assert b"".join(_bytes(one) for one in told if one.name == "output") == text

    def test_runs_that_fail_are_told_apart(self, lab: Lab, viewer: Client) -> None:
        command = "echo run $QUEUECTL_ATTEMPT; [ $QUEUECTL_ATTEMPT = 2 ]"
        lab.queue.enqueue(command, id="j", retry_delay=0, max_retries=3)
        lab.node()
        with closing(Stream(viewer, "/jobs/j/follow")) as stream:
            told = [(one.name, one.data.get("text")) for one in stream]
        outputs = [text for name, text in told if name == "output"]
        assert outputs == ["run 1\n", "run 2\n"]

    def test_bytes_that_are_no_text(self, lab: Lab, viewer: Client) -> None:
        lab.queue.enqueue("printf '\\377\\376ok'", id="j")
        lab.node()
        with closing(Stream(viewer, "/jobs/j/follow")) as stream:
            told = [one for one in stream if one.name == "output"]
        assert b"".join(map(_bytes, told)) == b"\xff\xfeok"

    def test_a_job_that_is_not_there(self, viewer: Client) -> None:
        assert viewer.get("/jobs/none/follow").status == 404


def _bytes(told: Told) -> bytes:
    from base64 import b64decode

    return b64decode(told.data["base64"]) if "base64" in told.data else told.data["text"].encode()


def test_a_server_that_is_asked_to_stop_ends_its_streams(lab: Lab, serve: Serve) -> None:
    server = serve("--no-link")
    viewer = server.client("view")
    lab.queue.enqueue("sleep 60", id="j")
    with (
        closing(Stream(viewer, "/live")) as live,
        closing(Stream(viewer, "/jobs/j/follow")),
    ):
        assert next(iter(live)).name == "here"
        assert server.stop() == 0
        assert [told.name for told in live if told.name == "event"] == []


class TestUploads:
    """What a token sends for long is taken as long as the token is good."""

    @pytest.fixture
    def bot(self, server: Server) -> Client:
        return server.client("submit", name="bot")

    def end(self, lab: Lab, bot: Client) -> None:
        lab.queue.access.remove_token("bot")
        wait_for(lambda: bot.get("/me").status == 401, "the end of the token")

    def test_lines_are_stored_and_told_until_then(self, lab: Lab, bot: Client) -> None:
        with closing(Upload(bot, "/bulk/jobs", "application/jsonl")) as upload:
            # A few make a part where they are long.
            before = [f"before-{number}" for number in range(LONG_PART // LONG + 1)]
            for id in before:
                upload.line(id=id, command="true " + "x" * LONG)
            wait_for(lambda: lab.queue.find(before[-1]), "the first part")
            upload.line(id="pending", command="true")
            self.end(lab, bot)
            upload.line(id="after", command="true")
            *told, problem = upload.end().lines
        assert [one["id"] for one in told] == before
        assert problem["problem"]["status"] == 401
        assert [job.id for job in lab.queue.iterate(oldest=True)] == before

    @pytest.mark.parametrize("keep_going", ["true", "false"])
    def test_a_call_stores_nothing_more(self, lab: Lab, bot: Client, keep_going: str) -> None:
        path = f"/calls/enqueue_many?keep_going={keep_going}"
        with closing(Upload(bot, path, "application/jsonl")) as upload:
            upload.line(id="pending", command="true")
            self.end(lab, bot)
            upload.line(id="after", command="true")
            assert upload.end().problem == "unknown"
        assert lab.queue.count() == 0

    def test_one_job_that_comes_slowly(self, lab: Lab, bot: Client) -> None:
        with closing(Upload(bot, "/jobs", "application/json")) as upload:
            upload.send(b'{"id": "late", ')
            self.end(lab, bot)
            upload.send(b'"command": "true"}')
            assert upload.end().problem == "unknown"
        assert lab.queue.count() == 0

    def test_who_waits_is_not_told(self, lab: Lab, bot: Client) -> None:
        lab.queue.enqueue("true", id="j")
        with closing(Upload(bot, "/jobs/j/wait?timeout=60", "", method="GET")) as waiting:
            self.end(lab, bot)
            lab.queue.cancel("j")
            assert waiting.reply().problem == "unknown"


class Upload:
    """A request whose body is sent bit by bit."""

    def __init__(self, client: Client, path: str, kind: str, *, method: str = "POST") -> None:
        self._wire = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE)
        self._wire.putrequest(method, API + path)
        for name, value in client.headers.items():
            self._wire.putheader(name, value)
        if kind:
            self._wire.putheader("Content-Type", kind)
            self._wire.putheader("Transfer-Encoding", "chunked")
        self._wire.endheaders()

    def send(self, text: bytes) -> None:
        self._wire.send(b"%x\r\n%b\r\n" % (len(text), text))

    def line(self, **fields: str) -> None:
        self.send(json.dumps(fields).encode() + b"\n")

    def end(self) -> Reply:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._wire.send(b"0\r\n\r\n")
        return self.reply()

    def reply(self) -> Reply:
        with closing(self._wire.getresponse()) as reply:
            named = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, named, reply.read())

    def close(self) -> None:
        self._wire.close()
