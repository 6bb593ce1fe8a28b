"""Arrays and sweeps on real nodes: what their runs see, and how many run at once."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queuectl import Queue, State
from queuectl.expansion import expand
from tests.support import Lab, lab_in

SHOW = Path(__file__).parents[1] / "unit" / "show_argv.py"
COUNT = """
import fcntl, os, time
with open("count", "r+") as file:
    def count(change):
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        running = int(file.read() or 0) + change
        file.seek(0); file.truncate(); file.write(str(running)); file.flush()
        fcntl.flock(file, fcntl.LOCK_UN)
        return running
    now = count(1)
    with open("seen", "a") as seen:
        seen.write(f"{now} {os.environ['QUEUECTL_INDEX']}\\n")
    open(f"ran-{os.environ['QUEUECTL_INDEX']}", "x").close()
    # The first three are there together, or this never ends.
    while now <= 3 and not all(os.path.exists(f"ran-{n}") for n in (1, 2, 3)):
        time.sleep(0.01)
    count(-1)
"""


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A queue in each database."""
    kind = request.param
    url = None if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")
    with lab_in(tmp_path, url) as lab:
        yield lab


def test_no_more_than_so_many_run_at_once_and_all_run(anywhere: Lab) -> None:
    lab = anywhere
    (lab.folder / "count").write_text("0")
    (lab.folder / "count.py").write_text(COUNT)
    done = lab.run(
        *("enqueue", "--array", "1-60%3", "--max-retries", "0", "--cwd", str(lab.folder)),
        *("--", sys.executable, "-S", "count.py"),
    )
    assert done.stdout.startswith("Enqueued 60 jobs"), done.stderr
    nodes = [lab.node("--drain", count=4) for _ in range(3)]
    for node in nodes:
        node.wait(120)
    assert lab.queue.count(state=State.COMPLETED) == 60
    seen = [line.split() for line in lab.lines("seen")]
    assert sorted(int(index) for _, index in seen) == [*range(1, 61)]
    assert max(int(running) for running, _ in seen) == 3


def argv_of(queue: Queue, job: str) -> list[bytes]:
    """Return what a run of `SHOW` was called with."""
    return queue.output(job).stdout.split(b"\0")[:-1]


def test_every_run_has_its_variables(lab: Lab) -> None:
    show = 'echo "$QUEUECTL_INDEX/$lr/$seed"'
    batch = lab.queue.enqueue_many(
        expand(f"{show} {{lr}}", sweep={"lr": ["0.1", "a  b"], "seed": range(2)}),
        env={"lr": "other", "QUIET": "1"},
    )
    lab.node("--drain").wait(60)
    assert [lab.queue.output(id).stdout.decode() for id in batch.ids] == [
        "1/0.1/0 0.1\n",
        "2/0.1/1 0.1\n",
        "3/a  b/0 a  b\n",
        "4/a  b/1 a  b\n",
    ]


def test_a_variable_may_have_any_name_but_one_of_ours(lab: Lab) -> None:
    own: dict[str, str | int] = {"PATH": "/x:/bin:/usr/bin", "index": 7}
    job = lab.queue.enqueue('echo "$QUEUECTL_INDEX $PATH"', parameters=own)
    lab.node("--drain").wait(60)
    assert lab.queue.output(job.id).stdout == b"7 /x:/bin:/usr/bin\n"


def test_a_program_for_data_has_them_too(lab: Lab) -> None:
    lab.queue.push("one", "x", type="t", parameters={"lr": "0.1", "index": 3})
    lab.node("--drain", "--exec", "t=sh", "--", "-c", 'echo "$QUEUECTL_INDEX $lr"').wait(60)
    assert lab.queue.output("one").stdout == b"3 0.1\n"


def test_another_run_has_them_too(lab: Lab) -> None:
    (id,) = lab.queue.enqueue_many(expand("echo {}; exit 1", lines=[b"\xff'"]), max_retries=0).ids
    lab.node("--drain").wait(60)
    lab.queue.retry(id)
    copy = lab.queue.clone(id).job
    lab.node("--drain").wait(60)
    assert lab.queue.output(id, 2).stdout == lab.queue.output(copy.id).stdout == b"\xff'\n"


names = st.lists(
    st.binary(min_size=1, max_size=60).map(lambda data: data.replace(b"\0", b"\n")),
    min_size=1,
    max_size=12,
)
ALL = [bytes(range(1, 256)), b"-rf", b" ", b"\n", b"a\n", b"'\"$(x)`\\", b"\xff", b"x.\xe9/.y"]


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(some=names)
def test_names_of_files_reach_their_programs_whole(lab: Lab, some: list[bytes]) -> None:
    queue = lab.queue
    template = "SHOW {} {.} {/} {//} {/.} pre-{} {#}".replace("SHOW", f"{sys.executable} -S {SHOW}")
    given = [*ALL, *some]
    by_shell = queue.enqueue_many(expand(template, lines=given)).ids
    words = [sys.executable, "-S", str(SHOW), *template.split()[3:]]
    by_argv = queue.enqueue_many(expand(words, lines=given)).ids
    appended = queue.enqueue_many(expand(words[:3], lines=given)).ids
    numbered = queue.enqueue_many(expand(template.partition("{}")[0] + "{}", array="5-6")).ids
    lab.node("--drain", count=2).wait(120)
    for line, shell, argv, last in zip(given, by_shell, by_argv, appended, strict=True):
        text = os.fsdecode(line)
        expected = argv_of(queue, shell)
        assert expected[0] == line, text
        assert expected[5] == b"pre-" + line
        assert expected[2] == line.rpartition(b"/")[2]
        assert len(expected) == 7
        assert argv_of(queue, argv) == expected
        assert argv_of(queue, last) == [line]
    assert [argv_of(queue, id) for id in numbered] == [[b"5"], [b"6"]]
