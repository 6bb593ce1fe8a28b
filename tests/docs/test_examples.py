"""The examples do what the pages say: shell sessions, Python, and the syntax of every command."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import forks
from tests.cli.test_manners import parse
from tests.docs.markdown import PAGES, blocks, read, tables
from tests.support import wait_for

BIN = Path(sys.executable).parent
SHOWN = [
    "README.md",
    "docs/quickstart.md",
    "docs/settings.md",
    "docs/schema.md",
    "docs/results.md",
    "docs/steps.md",
    "docs/data-jobs.md",
    "docs/traces.md",
    "docs/arrays.md",
    "docs/graphs.md",
    "docs/groups.md",
]
"""Pages whose `console` blocks are sessions of one reader, in order."""
PYTHON = [
    *("README.md", "docs/python.md", "docs/coming-from.md", "docs/arrays.md"),
    *("docs/graphs.md", "docs/groups.md"),
]
PATIENCE = 110


class Home:
    """A reader's home: an empty folder, and no settings but those the reader makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = ("QUEUECTL_", "XDG_", "NO_COLOR", "PYTHON")
        outer = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        self.env = outer | {
            "HOME": str(folder),
            "PATH": f"{BIN}:{outer['PATH']}",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "200",
        }

    def run(self, *args: str, input: str | None = None) -> str:
        """Run a program and return all that it printed."""
        if args[0] == "queuectl":
            given = (input or "").encode()
            ours = forks.run(
                args[1:],
                env=self.env,
                cwd=self.folder,
                timeout=PATIENCE,
                input=given,
                together=True,
            )
            return ours.stdout.decode()
        done = subprocess.run(
            args,
            cwd=self.folder,
            env=self.env,
            input=input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        for db in [*tmp_path.rglob("*.db")]:
            home.run("queuectl", "--db", str(db), "worker", "stop", "--force")


# -- shell sessions -----------------------------------------------------------------------


@dataclass
class Step:
    """A command of a session, and the lines that are shown under it."""

    command: str
    shown: list[str]


def steps(page: str) -> list[list[Step]]:
    """Return the sessions of a page: its `console` blocks."""
    sessions = []
    for block in blocks(read(page), "console"):
        session: list[Step] = []
        for line in block.lines:
            if line.startswith("$ "):
                session.append(Step(line[2:], []))
            elif line.startswith("> "):
                session[-1].command += "\n" + line[2:]
            else:
                session[-1].shown.append(line)
        sessions.append(session)
    return sessions


# What is different each time, and what stands for it. An id is remembered: later commands use it.
_VOLATILE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?(?:Z|[+-]\d\d:\d\d))"
    r"|(?P<node>\bnode [a-z2-7]{8}\b)"
    r"|(?P<teller>(?<=Z )[a-z2-7]{8}(?= ))"
    r"|(?P<pid>\b(?:PID: |pid )\d+)"
    r"|(?P<host>\bhost: \w+)"
    r"|(?P<place>\bsqlite:\S+|(?:/\w+)+/queuectl\.toml)"
    r"|(?P<took>\b(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+\b)"
    r"|(?P<id>\b(?=[a-z2-7]*[2-7])[a-z2-7]{12}\b)"
)
_STANDS_FOR = {
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?(?:Z|[+-]\d\d:\d\d)",
    "node": r"node [a-z2-7]{8}",
    "teller": r"[a-z2-7]{8}",
    "pid": r"(?:PID: |pid )\d+",
    "host": r"host: [\w.-]+",
    "place": r"(?:sqlite:\S+|/\S+/queuectl\.toml)",
    "took": r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+",
    "id": r"([a-z2-7]{12})",
}


class Session:
    """Checks what commands printed against what is shown, and learns the real ids from it."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def real(self, command: str) -> str:
        """Put the real ids in the place of those that the page shows."""
        for shown, real in self.ids.items():
            for length in (12, 4):
                command = re.sub(rf"\b{shown[:length]}\b", real[:length], command)
        return command

    def check(self, shown: list[str], printed: str) -> None:
        """Find every shown line among the printed ones; the two streams may be mixed anyhow."""
        lines = [" ".join(line.split()) for line in printed.splitlines()]
        for line in filter(None, (" ".join(line.split()) for line in shown)):
            fitting = [found for found in lines if self._fits(line, found)]
            assert fitting, f"{line!r} not in:\n{printed}"
            lines.remove(fitting[0])

    def _fits(self, shown: str, found: str) -> bool:
        names = [m["id"] for m in _VOLATILE.finditer(shown) if m["id"]]
        parts = [re.escape(part) for part in _split(shown)]
        stand_ins = [_STANDS_FOR[m.lastgroup or ""] for m in _VOLATILE.finditer(shown)]
        pattern = "".join(
            part + stand_in for part, stand_in in zip(parts, [*stand_ins, ""], strict=True)
        )
        match = re.fullmatch(pattern, found)
        if match is None:
            return False
        self.ids.update(zip(names, match.groups(), strict=True))
        return True


def _split(text: str) -> list[str]:
    """Return what stands between the volatile parts of a line."""
    ends = [0, *(end for m in _VOLATILE.finditer(text) for end in m.span()), len(text)]
    return [text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]


@pytest.mark.parametrize("page", SHOWN)
def test_a_reader_who_types_what_is_shown_sees_what_is_shown(page: str, home: Home) -> None:
    session = Session()
    for shown in steps(page):
        code = 0
        for number, step in enumerate(shown):
            # $? of a command is shown by the next one, if it is shown.
            script = f"(exit {code}); {session.real(step.command)}\nprintf '\\ncode %d\\n' $?"
            printed, _, last = home.run("sh", "-c", script).rpartition("\ncode ")
            code = int(last)
            told = number + 1 < len(shown) and shown[number + 1].command == "echo $?"
            assert code == 0 or told, f"{step.command} exited with {code}:\n{printed}"
            session.check(step.shown, printed)


# -- Python -------------------------------------------------------------------------------


def check_program(home: Home, lines: list[str], *options: str, is_up: bool = True) -> None:
    """Run a program beside a worker; `#> x` in it says that x is printed.

    The worker has these options; the program waits for it if it `is_up` before.
    """
    worker = subprocess.Popen(
        ["queuectl", "--db", "jobs.db", "worker", "start", "--count", "2", *options],
        cwd=home.folder,
        env=home.env,
        stderr=subprocess.DEVNULL,
    )
    try:
        if is_up:
            wait_for((home.folder / "jobs.db.d" / "spool").exists, "a worker that is up")
        printed = home.run(sys.executable, "-W", "error", "-", input="\n".join(lines))
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE)
    assert "Traceback" not in printed, printed
    wanted = [line.partition("#> ")[2] for line in lines if line.lstrip().startswith("#> ")]
    assert wanted
    Session().check(wanted, printed)


@pytest.mark.parametrize("page", PYTHON)
def test_python_examples_run_and_print_what_they_say(page: str, home: Home) -> None:
    """The `python` blocks of a page are one program."""
    lines = [line for block in blocks(read(page), "python") for line in block.lines]
    check_program(home, lines, is_up=page != "README.md")


# -- syntax -------------------------------------------------------------------------------


def commands_in(lines: list[str]) -> Iterator[list[str]]:
    """Yield the arguments of each `queuectl` that a shell would run in these lines."""
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split = True
        words = list(lexer)
        while "queuectl" in words:
            before, words = _cut(words, words.index("queuectl"))
            end = next((i for i, word in enumerate(words) if set(word) <= set("|&;()<>")), None)
            if "xargs" not in before:  # which brings the rest of the arguments
                yield words[:end]


def _cut(words: list[str], at: int) -> tuple[list[str], list[str]]:
    return words[:at], words[at + 1 :]


def shell_in(page: Path) -> Iterator[str]:
    """Yield what a page shows to be typed: in blocks, and to those who come from other tools."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(text, "sh"):
        yield from block.lines
    for table in tables(text) if page.name == "coming-from.md" else ():
        for *_, here in (row.values() for row in table):
            for command in re.findall(r"`([^`]*\bqueuectl [^`]*)`", here):
                if "…" not in command and "CMD" not in command:
                    yield command


EXAMPLES = sorted(
    {
        shlex.join(args)
        for page in PAGES
        for args in commands_in(list(shell_in(page)))
        # By itself it names the program, as in `systemctl disable queuectl`.
        if args not in ([], ["--help"])
    }
)


@pytest.mark.parametrize("line", EXAMPLES)
def test_commands_in_the_pages_are_commands(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("node.toml", "bills.toml", "FILE"):  # What worker start -f reads.
        (tmp_path / name).touch()
    assert parse(shlex.split(line))


def test_there_are_such_commands() -> None:
    assert len(EXAMPLES) > 50
