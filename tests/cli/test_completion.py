"""`completion`: the scripts, and what they complete to."""

import os
import pty
import select
import shutil
import socket
import subprocess
import termios
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

from queuectl.cli.completers import BY_NAME
from queuectl.cli.main import COMMANDS, root
from tests.cli.conftest import COMMAND, Cli
from tests.servers.install import program
from tests.support import PATIENCE, wait_for


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_the_command(cli: Cli, shell: str) -> None:
    result = cli.ok("completion", shell)
    assert "_QUEUECTL_COMPLETE" in result.stdout
    assert "queuectl" in result.stdout
    assert result.stderr == ""
    assert not cli.db.exists()


def test_bash_takes_the_script(cli: Cli) -> None:
    script = cli.ok("completion", "bash").stdout
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_shell_is_refused(cli: Cli) -> None:
    assert "tcsh" in cli.refused("completion", "tcsh", code=2)
    missing = cli.refused("completion", code=2)
    assert missing.endswith("Choose from: bash, zsh, fish. See queuectl completion --help.")
    assert "\\" not in missing


# -- what is completed to, as shells are told ---------------------------------------------


def ask(cli: Cli, line: str, shell: str = "bash") -> "subprocess.CompletedProcess[str]":
    words = line.split(" ")
    asked = {
        "_QUEUECTL_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
    }
    done = subprocess.run(
        [COMMAND],
        env=cli.env | asked,
        cwd=cli.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    return done


def complete(cli: Cli, line: str) -> list[str]:
    return [item.partition(",")[2] for item in ask(cli, line).stdout.splitlines() if item]


def test_commands_options_states_settings_and_ids_complete(cli: Cli) -> None:
    cli.add("true", "--id", "nightly-1", "--queue", "mail")
    assert complete(cli, "queuectl pru") == ["prune"]
    assert complete(cli, "queuectl dlq r") == ["retry"]
    assert "--older-than" in complete(cli, "queuectl prune --o")
    assert complete(cli, "queuectl --vers") == ["--version"]
    assert complete(cli, "queuectl list --state comp") == ["completed"]
    assert complete(cli, "queuectl config get max_r") == ["max_retries"]
    assert complete(cli, "queuectl cancel nig") == ["nightly-1"]
    assert complete(cli, "queuectl pause m") == ["mail"]


@pytest.fixture(scope="module")
def once_full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with closing(Cli(tmp_path_factory.mktemp("full"))) as cli:
        cli.add("true", "--id", "j-done")
        cli.add("exit 1", "--id", "j-dead", "--max-retries", "0")
        cli.ok("worker", "start", "--drain")
        cli.add("true", "--id", "j-waits", "--tag", "nightly", "--tag", "night shift")
        cli.add("true", "--id", "j-late", "--queue", "mail", "--tag", "weekly", "--delay", "1h")
        cli.add("true", "--id", "j-gone")
        cli.ok("cancel", "j-gone")
    return cli.db


@pytest.fixture
def full(cli: Cli, once_full: Path) -> Cli:
    """A queue with a job in every state that is easy to have."""
    shutil.copy(once_full, cli.db)
    return cli


@pytest.mark.parametrize(
    ("command", "ids"),
    [
        ("cancel", "j-late j-waits"),
        ("retry", "j-dead j-done j-gone"),
        ("rm", "j-dead j-done j-gone j-late j-waits"),
        ("dlq retry", "j-dead"),
        ("dlq purge", "j-dead"),
        ("dlq show", "j-dead"),
        ("output", "j-dead j-done j-gone j-late j-waits"),
        ("logs", "j-dead j-done j-gone j-late j-waits"),
        ("list --after", "j-dead j-done j-gone j-late j-waits"),
    ],
)
def test_only_jobs_complete_that_the_command_takes(full: Cli, command: str, ids: str) -> None:
    assert sorted(complete(full, f"queuectl {command} j-")) == ids.split()


def test_a_running_job_can_be_cancelled_but_not_removed(working: Cli) -> None:
    working.add("while :; do sleep 0.05; done", "--id", "runs")
    wait_for(lambda: working.queue.get("runs").state == "processing", "the job to run")
    assert complete(working, "queuectl cancel r") == ["runs"]
    assert complete(working, "queuectl rm r") == []
    (node,) = working.queue.nodes()
    assert complete(working, f"queuectl worker stop --node {node['id'][:2]}") == [node["id"]]


def test_hooks_complete_to_what_living_nodes_handle(cli: Cli) -> None:
    cli.add("true")
    for command in ("enqueue true", "queue set mail"):
        assert complete(cli, f"queuectl {command} --on-dead ") == ["none"]
    cli.node("--exec", "mail=cat")
    assert complete(cli, "queuectl enqueue true --on-dead t") == ["type:mail"]


def test_types_complete_that_jobs_have_or_nodes_handle(cli: Cli) -> None:
    cli.ok("push", "one", "d", "--type", "mailbox")
    cli.ok("push", "two", "d")
    assert complete(cli, "queuectl list --type ") == ["mailbox"]
    cli.node("--exec", "mail=cat", "--exec", "cat")
    for command in ("list", "cancel", "dlq retry", "push three d"):
        assert complete(cli, f"queuectl {command} --type m") == ["mail", "mailbox"]


def test_names_of_what_is_emitted_complete(cli: Cli) -> None:
    cli.add(f"{COMMAND} await paid-2", "--id", "waits")
    cli.queue.emit("paid-1", 30)
    cli.node()
    wait_for(
        lambda: [each.cause for each in cli.queue.explain("waits")] == ["awaits"], "it to wait"
    )
    assert complete(cli, "queuectl emit p") == ["paid-2"]
    assert complete(cli, "queuectl emitted p") == ["paid-1"]
    assert complete(cli, "queuectl await p") == ["paid-1", "paid-2"]


def test_an_id_that_is_on_the_line_is_not_offered_again(full: Cli) -> None:
    assert complete(full, "queuectl cancel j-late j-") == ["j-waits"]


def test_an_old_job_completes_among_very_many(cli: Cli) -> None:
    cli.add("true", "--id", "zebra-1")
    cli.queue.enqueue_many(["true"] * 2_000)
    assert complete(cli, "queuectl cancel zebra-") == ["zebra-1"]
    assert len(complete(cli, "queuectl cancel ")) == 50


def test_queues_and_tags_complete_wherever_they_are_asked_for(full: Cli) -> None:
    for command in ("list", "cancel", "dlq list", "stats", "wait", "logs", "worker start"):
        assert complete(full, f"queuectl {command} --queue m") == ["mail"]
    assert complete(full, "queuectl enqueue -Q m") == ["mail"]
    for command in ("list", "rm", "dlq retry", "wait", "enqueue"):
        assert complete(full, f"queuectl {command} --tag night") == [r"night\ shift", "nightly"]
    full.ok("pause", "reports")
    assert complete(full, "queuectl resume ") == ["reports"]
    assert complete(full, "queuectl pause ") == ["default", "mail", "reports"]
    full.ok("queue", "set", "slow", "--limit", "1")
    assert complete(full, "queuectl queue set ") == ["default", "mail", "reports", "slow"]
    assert complete(full, "queuectl queue show s") == ["slow"]
    assert complete(full, "queuectl queue resume ") == ["reports"]
    assert complete(full, "queuectl queue set slow --when-full re") == ["reject", "replace-waiting"]


def test_states_complete_to_those_of_the_command(cli: Cli) -> None:
    assert complete(cli, "queuectl prune --state ") == ["all", "completed", "dead", "cancelled"]
    assert complete(cli, "queuectl retry -s c") == ["cancelled", "completed"]
    assert complete(cli, "queuectl cancel --state p") == ["pending", "processing"]
    assert complete(cli, "queuectl list --state dead,c") == ["dead,completed", "dead,cancelled"]
    assert complete(cli, "queuectl list --state dead,d") == []


def test_settings_complete_to_what_they_may_be(cli: Cli) -> None:
    cli.ok("config", "set", "max_retries", "7")
    assert complete(cli, "queuectl config set backoff ") == ["exponential", "linear", "fixed"]
    assert complete(cli, "queuectl config set max_retries ") == ["3", "7"]
    assert complete(cli, "queuectl config set max-ret") == ["max_retries"]
    assert complete(cli, "queuectl config set env_all ") == ["true", "false"]
    assert complete(cli, "queuectl enqueue --backoff l") == ["linear"]
    assert complete(cli, "queuectl enqueue --shell bas") == ["bash"]
    assert complete(cli, "queuectl list --sort dur") == ["duration"]
    cli.variables["MY_OWN_TOKEN"] = "x"
    assert complete(cli, "queuectl enqueue --env MY_OWN") == ["MY_OWN_TOKEN"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("enqueue --file ", "file"),
        ("enqueue -F ", "file"),
        ("enqueue --lines ", "file"),
        ("enqueue --cwd ", "dir"),
        ("enqueue -- rsync ", "file"),
        ("list --db ", "file"),
        ("--db ", "file"),
        ("worker start --log ", "file"),
        ("worker start --daemon ", "file"),
        ("db backup ", "file"),
        ("db copy ", "file"),
    ],
)
def test_files_are_left_to_the_shell(cli: Cli, line: str, kind: str) -> None:
    assert ask(cli, f"queuectl {line}x").stdout == f"{kind},x\n"


def test_a_queue_that_is_named_on_the_line_is_the_one_that_is_read(full: Cli) -> None:
    other = full.folder / "other.db"
    full.ok("--db", str(other), "enqueue", "true", "--id", "j-other")
    for line in ("--db other.db cancel j-", "cancel --db other.db j-", "cancel --db ~/other.db j-"):
        assert complete(full, f"queuectl {line}") == ["j-other"]


def test_every_option_that_takes_a_queue_a_tag_or_a_file_completes() -> None:
    """An option of another name for the same thing would be forgotten."""
    context = click.Context(root, info_name="queuectl")
    kinds = {"TAG", "FILE", "DIR", "STATE", "[PIDFILE]", "URL"}
    found = set()
    commands = [root.get_command(context, name) for name in COMMANDS]
    while commands:
        command = commands.pop()
        assert command is not None
        commands += command.commands.values() if isinstance(command, click.Group) else []
        options = [p for p in command.params if isinstance(p, click.Option)]
        for option in options:
            if option.metavar in kinds:
                assert set(option.opts) & set(BY_NAME), (command.name, option.opts)
                found.add(option.metavar)
    assert found == kinds


# -- manners ------------------------------------------------------------------------------


def test_without_a_database_nothing_completes_and_none_is_made(cli: Cli) -> None:
    for line in ("cancel nig", "pause m", "list --tag x", "worker stop --node a"):
        assert complete(cli, f"queuectl {line}") == []
    assert not list(cli.folder.glob("queue.db*"))


def test_what_cannot_be_read_completes_to_nothing(cli: Cli) -> None:
    cli.db.write_text("This is no database, but a text of some length. " * 100)
    assert complete(cli, "queuectl cancel nig") == []
    (cli.folder / "queuectl.toml").write_text("max_retries = [")
    assert complete(cli, "queuectl cancel nig") == []
    assert complete(cli, "queuectl list --state comp") == ["completed"]


def test_a_server_that_does_not_answer_is_given_up_soon(cli: Cli) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        cli.variables["QUEUECTL_DB"] = f"postgresql://nobody@127.0.0.1:{port}/jobs"
        done = ask(cli, "queuectl cancel nig")
    assert (done.returncode, done.stdout) == (1, "")


def test_an_unknown_shell_or_wish_is_no_error_on_the_screen(cli: Cli) -> None:
    cli.variables["_QUEUECTL_COMPLETE"] = "tcsh_complete"
    result = cli.run("list")
    assert (result.code, result.stdout, result.stderr) == (1, "", "")


# -- real shells --------------------------------------------------------------------------


def test_fish_shows_what_a_job_runs(full: Cli) -> None:
    full.add("echo a, b", "--id", "k, l")
    script = full.ok("completion", "fish").stdout
    env = full.env | {"PATH": f"{Path(COMMAND).parent}:{full.env['PATH']}"}

    def offered(line: str) -> list[str]:
        done = subprocess.run(
            [program("fish"), "--no-config", "-c", f"{script}\ncomplete -C '{line}'"],
            env=env,
            cwd=full.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return done.stdout.splitlines()

    assert offered("queuectl cancel k") == ["k, l\tpending: echo a, b"]
    assert offered("queuectl list --state failed,de") == ["failed,dead"]
    (full.folder / "jobs.jsonl").touch()
    assert offered("queuectl enqueue --file jo") == ["jobs.jsonl"]
    assert offered("queuectl pru") == [
        "prune\tDelete finished jobs by state and age, with their output."
    ]


class Terminal:
    """A person at a shell."""

    def __init__(self, cli: Cli, *command: str) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 100))
        self._process = subprocess.Popen(
            command,
            env=cli.env | {"PATH": f"{Path(COMMAND).parent}:{cli.env['PATH']}", "PS1": "ready> "},
            cwd=cli.folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""

    def type(self, keys: str) -> None:
        """Press some keys, after which only what is new is looked at."""
        self.shown = ""
        os.write(self._master, keys.encode())

    def sees(self, text: str) -> bool:
        """Wait until the terminal shows a text; an `AssertionError` if it never does."""

        def look() -> bool:
            if select.select([self._master], [], [], 0)[0]:
                self.shown += os.read(self._master, 65536).decode()
            return text in self.shown

        return wait_for(look, f"{text!r} on the terminal, which shows {self.shown!r}")

    def close(self) -> None:
        """End the shell, by its pid."""
        self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._master)


@pytest.fixture
def bash(full: Cli) -> Iterator[Terminal]:
    """Bash, with completion loaded."""
    with closing(Terminal(full, program("bash"), "--norc", "--noprofile", "-i")) as terminal:
        terminal.sees("ready> ")
        terminal.type("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'\r")
        terminal.sees("ready> ")
        terminal.type('eval "$(queuectl completion bash)"; echo loa""ded\r')
        terminal.sees("loaded")
        yield terminal


def test_bash_completes_what_is_typed(full: Cli, bash: Terminal) -> None:
    (full.folder / "my jobs.jsonl").touch()
    (full.folder / "folder").mkdir()
    (full.folder / "folio").touch()
    full.add("true", "--id", "report:2026 x*")
    for typed, completed in [
        ("queuectl pru\t", "queuectl prune "),
        ("queuectl cancel j-w\t", "queuectl cancel j-waits "),
        ("queuectl list --state=comp\t", "--state=completed "),
        ("queuectl list --state failed,de\t", "failed,dead "),
        ("queuectl list -T nightl\t", "nightly "),
        ("queuectl cancel report:20\t", r"report:2026\ x\* "),
        ("queuectl cancel 'report:20\t", "'report:2026 x*' "),
        ("queuectl enqueue --file my\t", r"my\ jobs.jsonl "),
        ("queuectl enqueue --cwd fol\t", "--cwd folder/"),
    ]:
        bash.type(typed)
        assert bash.sees(completed)
        bash.type("\x15\r")
        bash.sees("ready> ")


def test_bash_is_not_disturbed_when_nothing_can_be_read(cli: Cli, bash: Terminal) -> None:
    bash.type("export QUEUECTL_DB=postgresql://x@localhost:1/y QUEUECTL_NO_SUCH=1\r")
    bash.sees("ready> ")
    bash.type("queuectl cancel x\ty\r")
    bash.sees("ready> ")
    line, *rest = bash.shown.splitlines()
    assert line == "queuectl cancel xy"
    assert "Traceback" not in "".join(rest)


def test_zsh_shows_what_a_job_runs(full: Cli) -> None:
    with closing(Terminal(full, program("zsh"), "-f", "-i")) as zsh:
        zsh.type("PS1='ready> '; unsetopt prompt_sp; autoload -Uz compinit; compinit -D -u\r")
        zsh.type('eval "$(queuectl completion zsh)"; echo loa""ded\r')
        zsh.sees("loaded")
        zsh.type("queuectl pru\t")
        zsh.sees("prune")
        zsh.type("\x15queuectl cancel j-\t")
        zsh.sees("pending: true")
        assert "j-waits" in zsh.shown
        assert "j-done" not in zsh.shown
