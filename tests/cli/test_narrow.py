"""Tables and help fit the terminal, whatever is in them, and use the room there is."""

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from queuectl import Queue
from queuectl.admission import Serving
from queuectl.cli.widths import width
from queuectl.facts import Event
from queuectl.job import Exited
from tests.cli.conftest import Cli
from tests.cli.test_manners import EVERY, help_of
from tests.contract.tools import HOUR, a_node, ended, finish, take

WIDTHS = (60, 80, 200)
LONG_ID = "import-" + "x" * 243 + "-wide寬"
QUEUE = "很長的隊列名稱" * 12
HOST = "a-very-long-host-name." * 8 + "example.org"
PATH = "/srv/data/" + "deep/folder/" * 20
COLOURS = r"\x1b\[[0-9;]*m"


def fill(queue: Queue) -> None:
    """Put jobs, nodes and events into a queue whose names are as long as names may be."""
    store = queue.store
    now = store.clock.now()
    a_node(
        store, "n" * 40, host=HOST, queues=Serving((QUEUE, "other", "third")), started_at=now - HOUR
    )
    # On another host, and its lease is over.
    a_node(store, "gone2345", host="h" * 120, lease=-1, started_at=now - 70 * HOUR)
    for n in range(3):
        queue.enqueue(
            f"convert {PATH}img_{n:04}.png --into 寬{'寬' * 60}/{n}",
            id=LONG_ID if n == 0 else f"job-{n}",
            queue=QUEUE,
            max_retries=0,
            priority=100 - n,
            tags=("t" * 100, "標籤"),
            cwd=PATH,
        )
    jobs = take(store, 2, node="n" * 40, now=now)
    finish(
        store,
        [
            ended(jobs[0], Exited(3), now=now + 90_000, host=HOST, error="寬 bad line " * 40),
            ended(jobs[1], now=now + 4_000_000, duration_ms=3_999_000, host=HOST),
        ],
    )
    queue.enqueue(["program", "with\ttabs\nand lines", "x" * 300], id="later", delay="99d")
    queue.enqueue("true", queue="other")
    queue.pause(QUEUE)
    queue.set_setting("max_retries", 7)
    store.history.record(
        *[
            Event(
                at=now,
                kind="rescue",
                job=LONG_ID,
                node="n" * 40,
                who=f"somebody@{HOST}",
                detail="寬 detail " * 50,
            )
        ]
        * 3
    )


@pytest.fixture(scope="module")
def once_filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with closing(Cli(tmp_path_factory.mktemp("filled"))) as cli:
        fill(cli.queue)
    return cli.db


@pytest.fixture
def filled(cli: Cli, once_filled: Path) -> Cli:
    """A copy of that queue for each test."""
    shutil.copy(once_filled, cli.db)
    return cli


TABLES = [
    ("list",),
    ("list", "--columns", "id,state,finished,cwd,tags,error,command"),
    (
        "list",
        "--columns",
        "id,queue,created,started,finished,updated,expires,age,due,node,cwd,tags",
    ),
    ("list", "--sort", "-duration"),
    ("dlq", "list"),
    ("status",),
    ("queues",),
    ("worker", "list"),
    ("show", LONG_ID),
    ("events",),
    ("stats",),
    ("config", "list"),
]


def shown(cli: Cli, columns: int, *args: str) -> list[str]:
    """Run a command on a terminal; returns its lines without colours."""
    result = cli.on_terminal(*args, columns=columns)
    assert result.code == 0, result
    return re.sub(COLOURS, "", result.stdout).splitlines()


def of_tables(lines: list[str]) -> Iterator[str]:
    """Yield lines that have to fit. Facts and headings are whole, so that they can be copied."""
    return (line for line in lines if not re.match(r"[A-Z][a-z ]+: |--- Job ", line))


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("args", TABLES, ids=lambda args: " ".join(args)[:40])
def test_no_line_is_wider_than_the_terminal(
    filled: Cli, args: tuple[str, ...], columns: int
) -> None:
    lines = shown(filled, columns, *args)
    assert len(lines) > 2
    for line in of_tables(lines):
        assert width(line) <= columns, line


@pytest.mark.parametrize("columns", [1, 7, 20, 40])
@pytest.mark.parametrize("args", TABLES[:1] + TABLES[4:10], ids=lambda args: " ".join(args)[:40])
def test_not_even_of_the_narrowest(filled: Cli, args: tuple[str, ...], columns: int) -> None:
    talk = r"Total: |Workers are |--- |sqlite:"
    for line in of_tables(shown(filled, columns, *args)):
        assert width(line) <= columns or re.match(talk, line), line


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("args", [(), ("enqueue",)], ids=" ".join)
def test_help_fits_the_terminal(cli: Cli, args: tuple[str, ...], columns: int) -> None:
    for line in shown(cli, columns, *args, "--help"):
        assert len(line) <= columns or "Here and now" in line or str(cli.db) in line, line


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_help_fits(path: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for line in help_of(path).splitlines():
        assert len(line) <= columns, line


def test_commands_are_cut_where_they_do_not_differ(filled: Cli) -> None:
    for columns in (60, 80):
        rows = shown(filled, columns, "list", "--queue", QUEUE)[1:4]
        ends = {row.rpartition("\N{HORIZONTAL ELLIPSIS}")[2] for row in rows}
        assert len(ends) == 3
        assert all(end.endswith(f"/{n}") for end, n in zip(sorted(ends), range(3), strict=True))


@pytest.mark.parametrize("columns", [60, 80])
def test_reasons_are_cut_at_their_end(cli: Cli, columns: int) -> None:
    id = cli.add("echo disk is full: no room for a.tar >&2; exit 2", "--max-retries", "0")
    cli.ok("worker", "start", "--drain")
    for args in (("dlq", "list"), ("events",), ("show", id)):
        page = "\n".join(shown(cli, columns, *args))
        assert "exit code 2: disk" in page or "exit code 2;" in page, page
        assert re.search("[a-z]\N{HORIZONTAL ELLIPSIS}( |$)", page, re.MULTILINE), page
        assert "\N{HORIZONTAL ELLIPSIS}allowed" not in page
    assert "exit code 2: disk is full" in "\n".join(shown(cli, columns, "dlq", "list"))


def test_a_time_is_whole_while_something_else_can_be_cut(filled: Cli) -> None:
    for line in shown(filled, 60, "list", "--columns", "created,cwd,started,command")[1:3]:
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  ", line), line


def test_a_wide_terminal_shows_all_of_it(cli: Cli) -> None:
    command = "echo " + "word " * 20 + "end"
    cli.add(command, "--id", "i" * 40)
    (row,) = [line for line in shown(cli, 200, "list") if command in line]
    assert row.startswith("i" * 40)
    assert "\N{HORIZONTAL ELLIPSIS}" in shown(cli, 80, "list")[1]


def test_what_a_terminal_cannot_show_fits_as_escapes(filled: Cli) -> None:
    filled.variables["PYTHONIOENCODING"] = "ascii"
    lines = shown(filled, 60, "list")
    assert any("..." in line for line in lines)
    assert max(map(len, lines)) <= 60


def test_what_is_not_for_a_terminal_is_whole(filled: Cli) -> None:
    table = filled.ok("list").stdout
    for text in (LONG_ID, QUEUE, f"convert {PATH}img_0002.png"):
        assert text in table


def test_examples_that_are_folded_can_be_copied(cli: Cli) -> None:
    lines = shown(cli, 60, "db", "--help")
    block = "\n".join(line[2:] for line in lines[lines.index("Examples:") + 1 :])
    assert (
        'queuectl db check && queuectl db backup \\\n    "queue-$(date +%F).db"\n'
        "# after a large prune\nqueuectl db vacuum\n"
    ) in block


def test_lists_of_commands_are_not_cut(cli: Cli) -> None:
    page = " ".join(" ".join(shown(cli, 60, "db", "--help")).split())
    assert "Write a consistent copy of the database to FILE while workers go on." in page
    assert "..." not in page.replace("[ARGS]...", "").replace("://...", "")
