"""What a job runs in: the environment, the shell and stdin given along; and JSON arrays."""

import base64
import json
import subprocess
import sys
from typing import Any

import pytest

from queuectl import State
from queuectl.cli.main import COMMANDS
from queuectl.request import LONGEST_STDIN
from tests.cli.conftest import COMMAND, Cli, Result

BYTES = bytes(range(256)) * 50
OWN = b', "stdin": "own\\n"'


def ran(cli: Cli, *args: str, input: bytes = b"") -> bytes:
    """Enqueue a job, wait until it has completed, and return what it wrote."""
    result = cli.ok("enqueue", "-q", "--wait", *args, input=input)
    return cli.ok("output", "--stdout", result.lines[0]).out


def variables(text: bytes) -> dict[str, str]:
    """Read what `env -0` writes."""
    lines = text.decode().split("\0")
    return dict(line.split("=", 1) for line in lines if line)


# -- the environment ------------------------------------------------------------------------


def test_a_job_enqueued_in_a_virtual_environment_runs_its_python(working: Cli) -> None:
    venv = working.folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    prefix = ("python", "-c", "import sys; print(sys.prefix)")
    working.variables = {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:/usr/bin:/bin"}
    assert ran(working, "--env-all", "--", *prefix) == f"{venv}\n".encode()
    assert (
        ran(working, "--env-all", " ".join([*prefix[:2], f"'{prefix[2]}'"])).decode() == f"{venv}\n"
    )
    assert ran(working, "--", *prefix) != f"{venv}\n".encode()


def test_the_whole_environment_takes_the_place_of_the_workers(cli: Cli) -> None:
    cli.variables = {"OF_THE_WORKER": "1", "BOTH": "worker"}
    cli.node()
    cli.variables = {"MINE": "ü\n2", "BOTH": "mine", "OLDPWD": "/nowhere", "SHLVL": "7"}
    told = {"JOB_ID", "ATTEMPT", "QUEUE", "DB", "NODE", "WORKER", "RUN", "OWNER"}
    told |= {"RESULT", "PROGRESS"}
    found = variables(ran(cli, "--env-all", "--env", "MORE=3", "--cwd", "/usr", "--", "env", "-0"))
    assert {name for name in found if name.startswith("QUEUECTL_")} == {
        f"QUEUECTL_{name}" for name in told
    }
    mine = {k: v for k, v in cli.env.items() if k not in ("OLDPWD", "SHLVL", "_", "QUEUECTL_DB")}
    rest = {k: v for k, v in found.items() if not k.startswith("QUEUECTL_")}
    assert rest == mine | {"MORE": "3", "PWD": "/usr"}
    # Without it, all is as it was.
    found = variables(ran(cli, "--env", "MORE=3", "--", "env", "-0"))
    assert (found["OF_THE_WORKER"], found["BOTH"], found["MORE"]) == ("1", "worker", "3")
    assert "MINE" not in found


def test_the_setting_does_it_for_every_job(cli: Cli) -> None:
    cli.variables = {"MINE": "2"}

    def whole(*args: str) -> bool:
        job = cli.queue.get(cli.add("x", *args))
        assert job.env_all == ("MINE" in job.env)
        return job.env_all

    assert not whole()
    assert whole("--env-all")
    cli.ok("config", "set", "env-all", "yes")
    assert cli.ok("config", "get", "env_all").stdout == "env_all = true\n"
    assert whole()
    assert not whole("--no-env-all")
    lines = b'{"command": "a"}\n{"command": "b", "env_all": false}\n'
    ids = cli.ok("enqueue", "--file", "-", "-q", input=lines).lines
    assert [cli.queue.get(id).env_all for id in ids] == [True, False]
    cli.variables["QUEUECTL_ENV_ALL"] = "off"
    assert not whole()
    del cli.variables["QUEUECTL_ENV_ALL"]
    (cli.folder / "queuectl.toml").write_text("env_all = false\n")
    assert not whole()


def test_an_environment_that_cannot_be_kept_is_refused(cli: Cli) -> None:
    cli.variables = {f"LARGE_{n}": "x" * 100_000 for n in range(11)}
    said = cli.refused("enqueue", "true", "--env-all", code=2)
    assert "the whole environment has 1,1" in said
    cli.variables = {"ODD": "secret \udcff"}
    said = cli.refused("enqueue", "true", "--env-all", code=2)
    assert "the variable 'ODD'" in said
    assert "secret" not in said
    assert not cli.db.exists()


def schedule_commands(name: str) -> list[tuple[str, ...]]:
    """Return commands that say something about a schedule."""
    return [
        *(("show", name), ("next", name), ("run", name), ("pause", name), ("resume", name)),
        *(("edit", name, "--priority", "3"), ("backfill", name, "3d", "now"), ("rm", name)),
    ]


@pytest.mark.timeout(900)
def test_no_value_of_a_variable_is_shown_anywhere(cli: Cli) -> None:
    secret = "hush-hush-4711"
    cli.variables = {"ALL_SECRET": f"all {secret}"}
    seen: list[Result] = []

    def look(*args: str, input: str = "") -> Result:
        # With --json also where that isn't an option: an error must not tell either.
        seen.extend([cli.run(*args, "--json", input=input), cli.run(*args, input=input)])
        return seen[-1]

    one, wrong = ("--env", f"ONE_SECRET=one {secret}"), f"QUEUECTL_X={secret}"
    look("enqueue", "false", *one, "--max-retries", "0", "--id", "dead")
    look("enqueue", "true", "--env-all", "--id", "done", "--stdin", "-", input=secret)
    look("enqueue", "sleep 100", *one, "--id", "later", "--queue", "idle")
    look("enqueue", "sleep 100", *one, "--group", "g", "--after", "later", "--queue", "idle")
    look("enqueue", "x", "--env", wrong)
    look("enqueue", json.dumps({"command": "x", "env": f"A={secret}"}))
    look("enqueue", json.dumps({"command": "x", "env": {"A": [secret]}}))
    look("enqueue", json.dumps([{"command": "x", "env": {"A=B": secret}}]))
    look("enqueue", json.dumps({"command": "x", "env": {"A": "x"}, "stdin": [secret]}))
    look("schedule", "add", "one", "@daily", "true", *one)
    look("schedule", "add", "all", "@daily", "true", "--env-all", "--stdin", "-", input=secret)
    look("schedule", "add", "bad", "@daily", "true", "--env", wrong)
    look("crontab", "import", input=f"A={secret}\n@daily true\n")
    look("crontab", "import", input=f"A={secret}\n@daily true\n61 * * * * true\n")
    del cli.variables["ALL_SECRET"]
    seen.append(
        cli.run("worker", "start", "--drain", "-Q", "default", "--log-json", "--log", "x.log")
    )
    look("enqueue", "false", *one, "--max-retries", "0", "--id", "text")
    seen.append(cli.run("worker", "start", "--drain", "-Q", "default"))
    assert cli.queue.get("done").state == State.COMPLETED
    assert cli.queue.get("done").env["ALL_SECRET"] == f"all {secret}"
    assert cli.queue.get("dead").env["ONE_SECRET"] == f"one {secret}"
    ids = ("dead", "done", "later")
    commands = [
        *(("worker", "list"), ("pause", "default"), ("resume", "default"), ("queues",)),
        *(("pause", "--job", "dead"), ("resume", "done"), ("pause", "later")),
        *(("queue", "list"), ("queue", "show", "idle"), ("queue", "set", "idle", "--limit", "9")),
        *(("status",), ("list",), ("stats",), ("events",), ("list", "--text", "hush")),
        *(("graph", "later"), ("graph", "--group", "g"), ("groups",), ("results", "--group", "g")),
        *(("explain", id) for id in ids),
        *((name, id) for id in ids for name in ("show", "output", "events")),
        *(("logs", *ids[:2]), ("logs", "-a", "dead"), ("wait", *ids[:2])),
        *(("dlq", "list"), ("dlq", "show", "dead"), ("dlq", "count"), ("dlq", "retry", "dead")),
        *(("hold", "later"), ("explain", "later"), ("release", "later"), ("top", "later")),
        *(("edit", "later", *one, "--priority", "3", "--json"), ("edit", "later", "--env", wrong)),
        *(("swap", "later", "dead"), ("move", "later", "--to", "elsewhere"), ("show", "later")),
        *(("retry", "dead", "--with", f"env.ONE_SECRET=two {secret}", "--with", "id=no"),),
        *(("cancel", "later"), ("cancel", "later"), ("retry", "later"), ("rm", "done")),
        *(("config", "list"), ("db", "info"), ("db", "check"), ("doctor",)),
        *(("db", "copy", str(cli.db), str(cli.folder / "copy.db")), ("prune", "--yes")),
        ("db", "backup", str(cli.folder / "backup.db")),
        # An export has them, and says so: it is what a crontab is.
        *(("schedule", *rest) for name in ("one", "all") for rest in schedule_commands(name)),
        *(("schedule", "list"), ("crontab", "import", "nosuch")),
        *(("steps", "dead"), ("result", "--of", "dead"), ("progress", "5"), ("push", "d", "x")),
        *(("step", "one", "--", "true"), ("submit", "e", "x"), ("force-finish", "d")),
        *(("sleep", "2d"), ("await", "x"), ("emit", "x"), ("emitted",)),
        *(("undo", "--dry-run", "--json"), ("undo",), ("events", "--json")),
        *(("login", "nowhere"), ("logout", "nowhere")),
        ("token", "list"),
        ("hook", "list"),
        # What a server says is looked at where it is asked.
        ("web", "--socket", str(cli.folder / "none" / "web.sock")),
    ]
    covered = {command[0] for command in commands} | {"enqueue"}
    assert set(COMMANDS) - covered == {"completion", "demo"}
    for command in commands:
        look(*command)
    for result in seen:
        assert secret not in result.stdout + result.stderr
    assert "ONE_SECRET" in cli.ok("show", "later").stdout
    for log in cli.folder.rglob("*.log"):
        assert secret not in log.read_text()


# -- the shell ------------------------------------------------------------------------------


def test_a_command_may_be_for_another_shell(working: Cli) -> None:
    command = '[[ abc == a* ]] && echo "${BASH_VERSION:+bash}"'
    assert ran(working, command, "--shell", "bash") == b"bash\n"
    assert ran(working, "print(6 * 7)", "--shell", sys.executable) == b"42\n"
    job = json.dumps({"command": command, "shell": "/bin/bash"})
    assert ran(working, job) == b"bash\n"
    assert ran(working, 'echo "${BASH_VERSION-no}"') == b"no\n"


def test_the_shell_of_the_setting_is_copied_into_the_job(cli: Cli) -> None:
    cli.ok("config", "set", "shell", "bash")
    old = cli.add("echo $BASH_VERSION")
    cli.ok("config", "unset", "shell")
    new = cli.add("echo $BASH_VERSION")
    assert cli.ok("show", old, "--json").json["shell"] == "bash"
    assert cli.ok("show", new, "--json").json["shell"] == "/bin/sh"
    assert "Shell:" in cli.ok("show", old).stdout
    assert "Shell:" not in cli.ok("show", new).stdout


def test_a_shell_is_one_program_and_for_commands_only(cli: Cli) -> None:
    assert "without options" in cli.refused("enqueue", "x", "--shell", "bash -e", code=2)
    said = cli.refused("enqueue", "--shell", "bash", "--", "ls", code=2)
    assert "runs without a shell" in said
    # In a file an option is what holds where a line says nothing else.
    lines = b'{"argv": ["ls"]}\n{"command": "ls"}\n'
    ids = cli.ok("enqueue", "--file", "-", "--shell", "bash", "-q", input=lines).lines
    assert [cli.ok("show", id, "--json").json["shell"] for id in ids] == [None, "bash"]


@pytest.mark.parametrize("shell", ["no-such-shell", "/no/such/shell"])
def test_a_shell_that_is_not_there_is_named(working: Cli, shell: str) -> None:
    id = working.add("true", "--shell", shell, "--max-retries", "0")
    assert working.run("wait", id).code == 1
    found = working.ok("show", id, "--json").json
    assert found["error"] == f"could not start: command not found: {shell}, the shell of this job"
    assert [run["outcome"] for run in found["runs"]] == ["not started"]


# -- stdin ------------------------------------------------------------------------------------


def test_stdin_comes_from_a_file_or_from_ours(working: Cli) -> None:
    path = working.folder / "input"
    path.write_bytes(BYTES)
    assert ran(working, "cat", "--stdin", "-", input=BYTES) == BYTES
    assert ran(working, "cat", "--stdin", str(path)) == BYTES
    assert ran(working, "--stdin", "input", "--", "cat") == BYTES
    assert ran(working, "cat", "--stdin", "-", input=b"") == b""
    assert ran(working, "cat") == b""


def test_every_run_reads_it_from_the_beginning(working: Cli) -> None:
    script = 'head -c 3; echo; [ -f /dev/stdin ] && [ "$QUEUECTL_ATTEMPT" -eq 3 ]'
    id = working.add(script, "--retry-delay", "0", "--stdin", "/proc/version")
    working.ok("wait", id)
    shown = working.ok("logs", "--all", id).stdout
    assert shown.count("Lin\n") == 3


def test_a_run_cannot_write_to_it(working: Cli) -> None:
    script = "echo changed >&0 || echo refused"
    assert ran(working, script, "--stdin", "/proc/version") == b"refused\n"


def test_json_has_it_as_text_or_base64(working: Cli) -> None:
    text = json.dumps({"command": "cat", "stdin": "ü\n"})
    coded = json.dumps({"command": "cat", "stdin_base64": base64.b64encode(BYTES).decode()})
    assert ran(working, text) == "ü\n".encode()
    assert ran(working, coded) == BYTES
    ids = working.ok("enqueue", "--file", "-", "-q", "--wait", input=f"{text}\n{coded}\n").lines
    assert [working.ok("output", "--stdout", id).out for id in ids[:2]] == ["ü\n".encode(), BYTES]


def test_the_lines_of_a_file_may_share_it(working: Cli) -> None:
    (working.folder / "input").write_text("shared\n")
    lines = b"".join(b'{"command": "cat"%s}\n' % own for own in (b"", OWN, b', "stdin": ""'))
    args = ("enqueue", "--file", "-", "--stdin", "input", "-q", "--wait")
    ids = working.ok(*args, input=lines).lines
    outputs = [working.ok("output", "--stdout", id).stdout for id in ids[:3]]
    assert outputs == ["shared\n", "own\n", ""]


def test_its_size_is_shown_and_nothing_else(cli: Cli) -> None:
    id = cli.ok("enqueue", "cat", "-q", "--stdin", "-", input=b"secret\n" * 200).stdout.strip()
    assert "Stdin:     1.4 KiB" in cli.ok("show", id).stdout
    assert cli.ok("show", id, "--json").json["stdin_bytes"] == 1_400
    for command in (("show", id), ("list",), ("output", id)):
        assert "secret" not in cli.ok(*command, "--json").stdout + cli.ok(*command).stdout
    assert "Stdin:" not in cli.ok("show", cli.add("true")).stdout


def test_what_is_too_much_or_not_there_is_refused(cli: Cli) -> None:
    (cli.folder / "large").write_bytes(bytes(LONGEST_STDIN + 1))
    said = cli.refused("enqueue", "cat", "--stdin", "large", code=2)
    assert "large has more than 16MiB" in said
    assert "COMMAND < FILE" in said
    assert "can't be read" in cli.refused("enqueue", "cat", "--stdin", "none", code=2)
    assert "can't be read" in cli.refused("enqueue", "cat", "--stdin", str(cli.folder), code=2)
    for source in ("--lines", "--file"):
        said = cli.refused("enqueue", source, "-", "--stdin", "-", code=2)
        assert "can't both come from our stdin" in said
    assert not cli.db.exists()


@pytest.mark.parametrize("args", ["true --stdin -", "--lines -", "--file -"])
def test_one_that_is_closed_is_not_an_empty_one(cli: Cli, args: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{COMMAND} enqueue {args} <&-"], env=cli.env, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"There is no stdin to read from" in done.stderr
    assert not cli.db.exists()


def test_the_largest_that_is_kept_comes_through(working: Cli) -> None:
    large = bytes(n % 251 for n in range(2**16)) * 2**8
    assert len(large) == LONGEST_STDIN
    id = working.ok("enqueue", "-q", "--stdin", "-", "cksum", input=large).stdout.strip()
    working.ok("wait", id)
    (expected, size) = subprocess.run(
        ["cksum"], input=large, capture_output=True, check=True
    ).stdout.split()
    assert working.ok("output", "--stdout", id).out.split() == [expected, size]


def test_one_that_is_gone_is_named(cli: Cli) -> None:
    id = cli.ok("enqueue", "cat", "-q", "--max-retries", "0", "--stdin", "-", input=b"x").lines[0]
    store: Any = cli.queue.store
    store.db.run("DELETE FROM inputs")
    assert cli.run("db", "check").code == 1
    cli.run("worker", "start", "--drain")
    assert "could not start: its stdin isn't in the store any more" in cli.ok("show", id).stdout


# -- arrays -----------------------------------------------------------------------------------


def test_a_json_array_is_several_jobs(cli: Cli) -> None:
    array = '\n [{"command": "a", "id": "one"}, {"argv": ["b", "c d"], "priority": 7}]\n'
    result = cli.ok("enqueue", array, "--priority", "3", "--tag", "x", "--json").json
    assert (result["enqueued"], result["ids"][0], result["errors"]) == (2, "one", [])
    one, two = cli.queue.list(oldest=True)
    assert (one.command, one.priority, one.tags) == ("a", 3, ("x",))
    assert (two.argv, two.priority, two.tags) == (("b", "c d"), 7, ("x",))
    assert cli.ok("enqueue", "[]").stdout == "Enqueued 0 jobs.\n"


def test_an_array_is_stored_whole_or_not_at_all(cli: Cli) -> None:
    cli.add("first", "--id", "taken")
    for item, code, hint in (
        ('{"command": "x", "priority": "high"}', 2, "the array, element 2: priority"),
        ('{"id": "good", "command": "x"}', 2, "element 2: the id 'good' is that of element 1"),
        ('{"id": "taken", "command": "x"}', 4, "element 2: the id 'taken' is taken"),
        ("[]", 2, "element 2: a job must be a JSON object"),
        ('"echo hi"', 2, "element 2: a text could be a command or an argument; write an object"),
        ('{"command": "a", "command": "b"}', 2, "the name 'command' comes twice"),
        ('{"command": "x"},', 2, "Invalid JSON: Expecting value at column"),
        ('{"command": "x"', 2, "a command that begins with [ is given with --command"),
    ):
        array = f'[{{"id": "good", "command": "x"}}, {item}]'
        assert hint in cli.refused("enqueue", array, code=code)
        assert [job.id for job in cli.queue.list()] == ["taken"]
    assert "for a single job" in cli.refused("enqueue", '[{"command": "x"}]', "--id", "a", code=2)
    # A list of texts is refused: it may be meant as commands, or as one program.
    assert "element 1" in cli.refused("enqueue", '["a", "b"]', code=2)


def test_of_an_array_the_good_may_be_stored(cli: Cli) -> None:
    array = '[{"command": "a"}, {"comand": "b"}, {"command": "c"}]'
    result = cli.run("enqueue", array, "--keep-going", "--json")
    assert (result.code, result.json["enqueued"]) == (1, 2)
    assert [error["element"] for error in result.json["errors"]] == [2]
    result = cli.run("enqueue", array, "--keep-going")
    assert result.stdout == "Enqueued 2 jobs; 1 element could not be.\n"


@pytest.mark.parametrize(
    "command",
    ["[ -f x ] && y", "[[ -f x ]] || y", '[ "$x" = y ]', "[ {a,b} ]", "[", "[ 1 ", "[a-z]* -v"],
)
def test_what_a_shell_reads_is_a_command(cli: Cli, command: str) -> None:
    assert cli.queue.get(cli.add(command)).command == command


def test_an_array_may_be_meant_as_a_command(cli: Cli) -> None:
    assert cli.queue.get(cli.add("--command", '[{"a": "b"}]')).command == '[{"a": "b"}]'


def test_an_array_may_be_waited_for(working: Cli) -> None:
    array = '[{"command": "true"}, {"command": "exit 3", "max_retries": 0}]'
    assert working.run("enqueue", array, "--wait").code != 0
    assert {job.state for job in working.queue.list()} == {State.COMPLETED, State.DEAD}


def test_what_python_set_for_itself_does_not_go_along(cli: Cli) -> None:
    bare = {"HOME": cli.env["HOME"], "PATH": cli.env["PATH"], "QUEUECTL_DB": str(cli.db)}
    for id, more in (("bare", {}), ("own", {"LC_CTYPE": "C.UTF-8"})):
        command = [COMMAND, "enqueue", "env", "--env-all", "--id", id]
        subprocess.run(command, env=bare | more, cwd=cli.folder, check=True)
    assert cli.queue.get("bare").env == {"HOME": bare["HOME"], "PATH": bare["PATH"]}
    assert (cli.queue.get("own").env or {})["LC_CTYPE"] == "C.UTF-8"
