"""Arrays and sweeps through a server: they are what they are beside the database."""

from queuectl.expansion import expand
from tests.remote.conftest import Pair

NAMES = [b"a b", b"\xff'\n", bytes(range(1, 256))]


def test_elements_come_through_whole(pair: Pair) -> None:
    with pair.remote() as remote:
        there = remote.enqueue_many(
            expand("show {} {/}", lines=NAMES, at_once=2, name="n"),
            tags=["odd"],
            queue="arrays",
        )
        found = [remote.get(id) for id in there.ids]
    near = pair.far.queue
    assert found == [near.get(id) for id in there.ids]
    assert [job.parameters["line"] for job in found] == [
        name.decode("utf-8", "surrogateescape") for name in NAMES
    ]
    assert {(job.keys, job.tags, job.queue) for job in found} == {(("%2 n",), ("odd",), "arrays")}
    assert found[1].command == 'show "${QUEUECTL_LINE}" "${QUEUECTL_LINE_NAME}"'
    assert "line=\\xff'" in pair.far.run("show", there.ids[1]).stdout


def test_the_command_does_the_same_through_a_server(pair: Pair) -> None:
    told = []
    given = ("-Q", "odd", "--at-once", "1", "--group", "one")
    for lab in (pair.near, pair.far):
        done = lab.run("enqueue", "x {lr}", "--sweep", "lr=1,2", *given)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
        last = lab.run("list", "-Q", "odd", "--columns", "command,parameters", "--limit", "2")
        told.append(last.stdout)
    assert told[:2] == told[2:]
    assert "x 2" in told[1]
