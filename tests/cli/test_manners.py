"""What holds for every command: help, exit codes, quiet errors, harmless text, quick starts."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import queuectl
from queuectl.cli.main import COMMANDS, root
from queuectl.store.migrations import current
from tests.cli.conftest import COMMAND, Cli

ESCAPES = "\x1b[31mred\x07\x9b1m\u202e"


def all_commands() -> Iterator[tuple[str, ...]]:
    """Every command and every command of a group."""
    ctx = click.Context(root)
    for name in COMMANDS:
        yield (name,)
        command = root.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from ((name, sub) for sub in command.list_commands(ctx))


EVERY = list(all_commands())


def command_at(path: tuple[str, ...]) -> click.Command:
    found: click.Command = root
    for name in path:
        assert isinstance(found, click.Group)
        command = found.get_command(click.Context(found), name)
        assert command is not None
        found = command
    return found


def help_of(path: tuple[str, ...]) -> str:
    command = command_at(path)
    name = " ".join(("queuectl", *path))
    return command.get_help(command.make_context(name, [], resilient_parsing=True))


def parse(args: list[str]) -> tuple[str, ...]:
    """Read a command line as click would, without running it; return which command it names.

    What can't be read is an error of click's.
    """
    command: click.Command = root
    # As it is in earnest: a command remembers the help option of its first context.
    context = click.Context(root, info_name="queuectl", **root.context_settings)
    path, rest = ["queuectl"], args
    while isinstance(command, click.Group):
        _, rest, _ = command.make_parser(context).parse_args(rest)
        found, child, rest = command.resolve_command(context, rest)
        assert found is not None and child is not None
        command = child
        path.append(found)
        context = click.Context(
            command, info_name=found, parent=context, **command.context_settings
        )
    command.make_context(path[-1], rest, parent=context.parent)
    return tuple(path[1:])


# -- help ---------------------------------------------------------------------


def test_the_front_page_says_it_all(cli: Cli) -> None:
    page = cli.ok("--help").stdout
    for name, entry in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(entry.help)}$", page, re.MULTILINE)
    for text in ("Quick start:", "Add work:", "Run it:", "Watch:", "Change:", "Set up:"):
        assert text in page
    assert str(cli.db) in page
    assert cli.ok("-h").stdout == page
    assert max(len(line) for line in page.splitlines() if str(cli.db) not in line) <= 80


def test_the_quick_start_works_as_printed(cli: Cli) -> None:
    page = cli.ok("--help").stdout
    block = page.split("Quick start:\n")[1].split("\n\n")[0]
    id = ""
    shown = ""
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] == "queuectl"
        shown = cli.ok(*(id[:4] if word == "ID" else word for word in words[1:])).stdout
        id = id or shown.split()[2].rstrip(":")
    assert "STDOUT:\nHello World\n" in shown


def test_nothing_is_a_usage_error_that_shows_help(cli: Cli) -> None:
    result = cli.run()
    assert (result.code, result.stdout) == (2, "")
    assert "Quick start:" in result.stderr
    assert cli.run("dlq").code == 2


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_is_explained(path: tuple[str, ...]) -> None:
    command, page = command_at(path), help_of(path)
    assert "Examples:" in page, "ends in examples"
    assert page.split("Examples:")[1].count("queuectl ") >= 1
    assert "--db" in page
    assert "-h, --help" in page
    assert (command.help or "")[0].isupper()
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.opts} is explained"
    assert all(line == line.rstrip() for line in page.splitlines())


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_examples_can_be_parsed(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every example names existing commands and options."""
    monkeypatch.chdir(tmp_path)
    # What worker start -f reads.
    (tmp_path / "node.toml").touch()
    named = set()
    for line in str(getattr(command_at(path), "examples", "")).splitlines():
        for part in re.split(r"\||&&|;|\$\(|<\(", line.replace("\\n", "")):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:
                continue  # half of a quoted pipe
            if "queuectl" in words[:3]:
                given = words[words.index("queuectl") + 1 :]
                given = given[: next((i for i, w in enumerate(given) if w in "<>"), None)]
                named.add(parse(given))
    assert any(name[: len(path)] == path for name in named), "one of them shows the command"


def test_the_front_page_agrees_with_the_commands() -> None:
    for name, entry in COMMANDS.items():
        help = command_at((name,)).help or ""
        assert help.partition("\n")[0] == entry.help, name


def test_version(cli: Cli) -> None:
    wanted = f"queuectl {queuectl.__version__} (schema {current()})\n"
    assert cli.ok("--version").stdout == wanted
    assert cli.ok("-V").stdout == wanted
    module = subprocess.run(
        [sys.executable, "-m", "queuectl", "--version"],
        env=cli.env,
        capture_output=True,
        check=True,
    )
    assert module.stdout.decode() == wanted


# -- errors -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "hint"),
    [
        (("enqeue", "x"), 2, "did you mean 'enqueue'?"),
        (("xyzzy",), 2, "There is no command 'xyzzy'"),
        (("run", "x"), 2, "use enqueue to add a job, or worker start to run jobs."),
        (("start",), 2, "use worker start."),
        (("stop",), 2, "use worker stop."),
        (("ls",), 2, "use list."),
        (("delete", "x"), 2, "use rm."),
        (("complete", "x"), 2, "use force-finish."),
        (("tail",), 2, "use logs -f."),
        (("workers",), 2, "use worker list."),
        (("kill", "x"), 2, "use cancel."),
        (("at", "x"), 2, "use enqueue --run-at TIME."),
        (("schedules",), 2, "use schedule list."),
        (("worker", "ls"), 2, "use list."),
        (("enqueue", "x", "--priority", "high"), 2, "queuectl: Priority must be"),
        (("list", "--nope"), 2, "See queuectl list --help."),
        (("list", "--after"), 2, "requires an argument. See queuectl list --help."),
        (("list", "--limit", "many"), 2, "--limit"),
        (("show",), 2, "ID"),
        (("--db", "", "status"), 2, "it is empty"),
        (("status",), 5, "There is no queue at"),
        (("show", "some"), 5, "There is no queue at"),
        (("--db", "oracle://x/y", "status"), 2, "oracle"),
    ],
)
def test_errors_are_one_sentence(cli: Cli, args: tuple[str, ...], code: int, hint: str) -> None:
    assert hint in cli.refused(*args, code=code)
    assert not cli.db.exists()


@pytest.mark.parametrize("option", ["--queue", "--tag"])
@pytest.mark.parametrize(
    "command",
    [
        ("list",), ("stats",), ("logs",), ("wait",), ("cancel",), ("retry",), ("rm",),
        ("dlq", "list"), ("dlq", "retry"), ("dlq", "purge"),
    ],
)  # fmt: skip
def test_a_name_that_is_no_text_is_refused_by_every_command(
    cli: Cli, command: tuple[str, ...], option: str
) -> None:
    cli.add("true")
    assert "valid UTF-8" in cli.refused(*command, option, "\udcff", code=2)
    assert len(cli.queue.list()) == 1


def test_commands_that_delete_are_not_suggested_because_they_sound_alike(cli: Cli) -> None:
    for words in (("prun",), ("r",), ("rmm",), ("dlq", "purg")):
        assert "did you mean" not in cli.refused(*words, code=2)


def test_reading_a_file_that_is_no_queue(cli: Cli) -> None:
    cli.db.write_text("not a database, but long enough to look at" * 100)
    cli.refused("status", code=5)
    cli.refused("enqueue", "true", code=5)
    assert cli.db.read_text().startswith("not a database")


ANY = [
    ("enqueue", "true"),
    ("status",),
    ("list",),
    ("show", "some"),
    ("output", "some"),
    ("cancel", "some"),
    ("dlq", "count"),
    ("queues",),
    ("pause",),
    ("stats",),
    ("worker", "start", "--drain"),
    ("worker", "list"),
    ("config", "list"),
    ("config", "set", "workers", "2"),
    ("wait", "--all"),
    ("db", "init"),
    ("db", "info"),
    ("db", "copy", "queue.db", "other.db"),
]
"""Commands of every kind that have to do with a queue."""


@pytest.mark.parametrize("args", ANY, ids=" ".join)
def test_a_setting_that_cannot_be_is_an_error_of_every_command(
    cli: Cli, args: tuple[str, ...]
) -> None:
    file = cli.folder / "queuectl.toml"
    for text, told in (
        ("max_retrys = 3", "There is no setting 'max_retrys'; did you mean max_retries?"),
        ("lease = 'soon'", "lease takes a duration such as 30s, 5m or 1h30m, not 'soon'."),
    ):
        file.write_text(text)
        assert cli.refused(*args, code=2) == f"queuectl: In {file}: {told}"
    assert not cli.db.exists()


@pytest.mark.parametrize("args", ANY, ids=" ".join)
def test_a_variable_that_means_nothing_is_noted_by_every_command(
    cli: Cli, args: tuple[str, ...]
) -> None:
    cli.queue.enqueue("true", id="some", run_at="+1h")
    cli.queue.cancel("some")
    cli.variables["QUEUECTL_MAX_RETRYS"] = "3"
    cli.variables["QUEUECTL_JOB_ID"] = "ours"
    note = (
        "Note: QUEUECTL_MAX_RETRYS means nothing to queuectl, and is ignored;"
        " did you mean QUEUECTL_MAX_RETRIES?"
    )
    result = cli.run(*args)
    assert result.stderr.splitlines().count(note) == 1
    assert result.code == (4 if args[0] == "cancel" else 0)


def test_db_stands_anywhere(cli: Cli) -> None:
    other = str(cli.folder / "other.db")
    cli.ok("--db", other, "enqueue", "true", "--id", "there")
    assert cli.ok("list", "-q", "--db", other).lines == ["there"]
    assert cli.ok("--db", "/nonexistent/x", "list", "-q", f"--db=sqlite:{other}").lines == ["there"]
    assert not cli.db.exists()


def test_default_database_is_in_the_data_directory(cli: Cli) -> None:
    cli.variables["QUEUECTL_DB"] = ""
    cli.ok("enqueue", "true")
    assert (cli.folder / "data" / "queuectl" / "queue.db").exists()


def test_interrupt_is_130_without_a_word(cli: Cli) -> None:
    id = cli.add("true")
    following = cli.start_reader("logs", "-f", id)
    following.send_signal(signal.SIGINT)
    assert following.wait(60) == 130
    assert following.stderr is not None
    assert following.stderr.read() == b""


def test_an_unexpected_error_is_one_line_unless_debugging(cli: Cli) -> None:
    code = (
        "import sys; import queuectl.cli.status as s; s.describe = lambda queue: 1 / 0;"
        "from queuectl.cli.main import main; main(['status'])"
    )
    cli.add("true")

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code], env=cli.env, capture_output=True, text=True, check=False
        )

    quiet = run()
    assert quiet.returncode == 1
    assert quiet.stderr == (
        "queuectl: Unexpected ZeroDivisionError: division by zero"
        " (a bug; QUEUECTL_DEBUG=1 shows where it happened).\n"
    )
    cli.variables["QUEUECTL_DEBUG"] = "1"
    assert "Traceback" in run().stderr


def on_full_disk(cli: Cli, *args: str) -> str:
    """Run a command whose stdout is full; returns what it says on stderr."""
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with open("/dev/full", "wb") as full:
        process = cli.start(*args, stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    return err.decode()


def test_a_full_stdout_is_an_error(cli: Cli) -> None:
    cli.add("true")
    assert on_full_disk(cli, "list") == "queuectl: No space left on device.\n"


def test_what_was_stored_is_said_though_stdout_is_full(cli: Cli) -> None:
    why = "but stdout can't be written: No space left on device.\n"
    jobs = cli.folder / "jobs.txt"
    jobs.write_text("true\n" * 2_000)
    told = on_full_disk(cli, "enqueue", "true", "--id", "mine", "-q")
    assert told == f"queuectl: Job mine is stored, {why}"
    assert cli.queue.get("mine").state == "pending"
    told = on_full_disk(cli, "enqueue", "--lines", str(jobs), "-q", "--tag", "m")
    assert told == f"queuectl: 2,000 jobs stored, {why}"
    told = on_full_disk(cli, "cancel", "mine", "--json")
    assert told == f"queuectl: 1 job cancelled, {why}"
    assert cli.queue.get("mine").state == "cancelled"
    told = on_full_disk(cli, "rm", "--tag", "m")
    assert told == f"2,000 jobs removed.\nqueuectl: 2,000 jobs removed, {why}"
    assert cli.queue.status().total == 1
    told = on_full_disk(cli, "pause", "mail")
    assert told.splitlines()[-1] == f"queuectl: What was asked for is done, {why}".rstrip()
    assert cli.queue.status().paused == ("mail",)


@pytest.mark.parametrize(
    ("closing", "code", "out", "err"),
    [
        ("2>&-", 3, "", ""),
        (">&-", 3, "", "queuectl: There is no job 'nope'; see queuectl list.\n"),
        ("<&-", 3, "", "queuectl: There is no job 'nope'; see queuectl list.\n"),
    ],
)
def test_closed_streams_are_not_mixed_up(
    cli: Cli, closing: str, code: int, out: str, err: str
) -> None:
    cli.add("true")
    done = subprocess.run(
        ["sh", "-c", f"{COMMAND} show nope {closing}"],
        env=cli.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)
    listed = subprocess.run(
        ["sh", "-c", f"{COMMAND} list -q {closing}"], env=cli.env, capture_output=True, check=False
    )
    assert (listed.returncode, listed.stderr) == (0, b"")


def test_a_reader_that_leaves_is_no_error(cli: Cli) -> None:
    cli.ok("enqueue", "--lines", "-", input="true\n" * 3_000)
    script = f"{COMMAND} list --limit 0 | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], env=cli.env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (141, "")
    assert done.stdout.startswith("ID ")


@pytest.mark.parametrize("form", ["-q", "--json"])
def test_a_change_goes_on_when_its_reader_leaves(cli: Cli, form: str) -> None:
    cli.ok("enqueue", "--lines", "-", "--tag", "m", input="true\n" * 5_000)

    def remove(*options: str) -> subprocess.CompletedProcess[str]:
        command = shlex.join([COMMAND, "rm", "--tag", "m", form, *options])
        script = f"{command} | head -c 1 >&-; exit ${{PIPESTATUS[0]}}"
        return subprocess.run(
            ["bash", "-c", script], env=cli.env, capture_output=True, text=True, check=False
        )

    tried = remove("--dry-run")
    assert (tried.returncode, "removed" in tried.stderr) == (141, False)
    assert cli.queue.status().total == 5_000
    done = remove()
    assert done.returncode == 141
    told = "queuectl: 5,000 jobs removed, but stdout can't be written: Broken pipe.\n"
    assert done.stderr.endswith(told)
    assert cli.queue.status().total == 0


# -- looks --------------------------------------------------------------------


@pytest.mark.parametrize(
    "args", [("list",), ("show", "evil"), ("output", "evil"), ("status",), ("stats",)]
)
def test_text_of_jobs_cannot_harm_a_terminal(cli: Cli, args: tuple[str, ...]) -> None:
    told = cli.ok("enqueue", f"echo {ESCAPES}", "--id", "evil", "--queue", "q").stdout
    assert "echo \\x1b[31mred\\x07\\x9b1m\\u202e" in told
    cli.queue.cancel("evil", reason=ESCAPES)
    for shown in (cli.ok(*args).stdout, cli.on_terminal(*args).stdout):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert not set(plain) & set("\x1b\x07\x9b\u202e")
    as_json = cli.ok(*args, "--json")
    assert not set(as_json.stdout) & set("\x1b\x07\x9b\u202e")
    if args == ("show", "evil"):
        assert as_json.json["command"] == f"echo {ESCAPES}"


def test_colour_is_for_terminals_that_want_it(cli: Cli) -> None:
    cli.add("true")
    assert "\x1b[" not in cli.ok("list").stdout
    assert "\x1b[33mpending" in cli.on_terminal("list").stdout
    cli.variables["NO_COLOR"] = "1"
    assert "\x1b[" not in cli.on_terminal("list").stdout
    cli.variables = {"QUEUECTL_COLOR": "always"}
    assert "\x1b[33mpending" in cli.ok("list").stdout


@pytest.mark.parametrize("args", [("status",), ("list",), ("show", "some"), ("stats",)])
def test_plain_text_has_no_trailing_spaces_and_json_is_one_value(
    cli: Cli, args: tuple[str, ...]
) -> None:
    cli.add("true", "--id", "some", "-Q", "other")
    assert all(line == line.rstrip() for line in cli.ok(*args).lines)
    assert cli.ok(*args, "--json").json
    assert cli.ok(*args, "--json").stderr == ""


def test_text_the_locale_cannot_show_is_escaped(cli: Cli) -> None:
    cli.add("echo é 寬", "--id", "wide")
    cli.variables["PYTHONIOENCODING"] = "latin-1"
    assert b"echo \xe9 \\u5bec" in cli.ok("list").out


# -- completion and start-up --------------------------------------------------


def test_completion_knows_commands_states_and_ids(cli: Cli) -> None:
    cli.add("true", "--id", "my-job")
    for words, expected in (
        ("queuectl enq", "enqueue"),
        ("queuectl list --state comp", "completed"),
        ("queuectl show my", "my-job"),
    ):
        cli.variables = {
            "_QUEUECTL_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        assert cli.ok().stdout == f"plain,{expected}\n"


HEAVY = "rich psutil cronsim tomllib platformdirs logging asyncio subprocess".split()


@pytest.mark.parametrize(
    "args", [(), ("enqueue", "true"), ("list",), ("status",), ("show", "some"), ("output", "some")]
)
def test_only_what_a_command_needs_is_imported(cli: Cli, args: tuple[str, ...]) -> None:
    cli.add("true", "--id", "some")
    code = (
        "import sys; from queuectl.cli.main import run\n"
        f"if {args!r}: run({args!r})\n"
        f"print(sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=cli.env, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from queuectl.cli.main import run; run(['--help'])\n"
        "print(*(m for m in sys.modules if m.startswith(('queuectl.store', 'apsw'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_every_module_of_the_command_line_is_named_in_the_table() -> None:
    folder = Path(queuectl.__file__).parent / "cli"
    homes = {entry.home.partition(":")[0] for entry in COMMANDS.values()}
    assert homes <= {path.stem for path in folder.glob("*.py")}
