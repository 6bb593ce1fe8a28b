"""`status`, `list`, `show`, `stats` and `wait`: what readers see, in words and as JSON."""

import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from queuectl import State
from queuectl.cli.columns import NAMES, PLAIN
from tests.cli.conftest import Cli
from tests.contract.tools import a_node, ended, finish, take
from tests.support import wait_for


@pytest.fixture(scope="module")
def once_mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue with jobs in every state a command line can bring about."""
    with closing(Cli(tmp_path_factory.mktemp("mixed"))) as cli:
        command = "echo done; echo words >&2"
        cli.add(command, "--id", "fine", "-p", "10", "-t", "30s", "-T", "nightly")
        cli.add("exit 4", "--id", "gone", "--max-retries", "0", "-T", "nightly", "-T", "big")
        cli.add("exit 5", "--id", "again", "-p", "10", "--retry-delay", "1h", "--max-backoff", "2h")
        cli.add("true", "--id", "off", "-Q", "mail")
        cli.queue.cancel("off", reason="not wanted")
        cli.node("--drain", "--queue", "default")
        wait_for(lambda: cli.queue.get("again").state == State.FAILED, "the failure")
        wait_for(lambda: cli.queue.get("gone").state == State.DEAD, "the death")
        wait_for(lambda: cli.queue.get("fine").state == State.COMPLETED, "the success")
        cli.add("sleep 99", "--id", "later", "-Q", "mail", "--delay", "2h", "-p", "-5")
    return cli.db


@pytest.fixture
def mixed(cli: Cli, once_mixed: Path) -> Cli:
    """A copy of that queue for each test. It may be some minutes old."""
    shutil.copy(once_mixed, cli.db)
    return cli


# -- status -------------------------------------------------------------------


def test_status(mixed: Cli) -> None:
    mixed.queue.pause("mail")
    mixed.variables["TZ"] = "Europe/Berlin"
    shown = mixed.ok("status").lines
    for line in (
        "pending        1",
        "processing     0",
        "completed      1",
        "failed         1",
        "dead           1",
        "cancelled      1",
        "total          5",
    ):
        assert line in shown
    (mail,) = [line.split() for line in shown if line.startswith("mail")]
    assert mail == ["mail", "1", "0", "0", "0", "1", "paused"]
    (due,) = [line for line in shown if line.startswith("Next scheduled: ")]
    assert re.search(r": \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0[12]:00 \(in [0-9hms]+\)$", due)
    assert f"Database:       sqlite:{mixed.db}" in shown
    assert not any(line.endswith(" ") for line in shown)


def test_what_is_overdue_is_told_by_its_time(cli: Cli) -> None:
    cli.add("true", "--delay", "100ms")
    due = re.compile(r"^Next scheduled: [-0-9]+T[:0-9]+\S+ \(due \d+s ago\)$", re.MULTILINE)
    assert wait_for(lambda: due.search(cli.ok("status").stdout), "a job that is overdue")


def test_status_as_json(mixed: Cli) -> None:
    status = mixed.ok("status", "--json").json
    assert status["total"] == 5
    assert status["states"] == {
        "blocked": 0,
        "pending": 1,
        "processing": 0,
        "completed": 1,
        "failed": 1,
        "dead": 1,
        "cancelled": 1,
    }
    assert [queue["name"] for queue in status["queues"]] == ["default", "mail"]


def test_status_says_who_works(cli: Cli) -> None:
    cli.add("true", "--delay", "1h")
    assert "Workers are STOPPED; start some with: queuectl worker start" in cli.ok("status").lines
    vast = cli.add("true", "--needs", "mem=64G", "--requires", "ssd")
    start = "start some with: queuectl worker start --resources mem=64G --label ssd"
    assert f"Workers are STOPPED; {start}" in cli.ok("status").lines
    cli.ok("cancel", vast)
    node = cli.node(count=3)
    shown = cli.ok("status").stdout
    assert "Workers are RUNNING: 3 workers on 1 node, 0 busy" in shown
    (row,) = [line.split() for line in shown.splitlines() if f" {node.pid} " in line]
    assert row[2:4] == [str(node.pid), "0/3"]
    status = cli.ok("status", "--json").json
    assert (status["workers"], status["nodes"][0]["pid"]) == (3, node.pid)


def test_watch_redraws_until_interrupted(cli: Cli) -> None:
    cli.add("true")
    result = cli.on_terminal("status", "--watch", "0.1", until="every 100ms", key=b"\x03")
    assert result.code == 130
    assert "\x1b[H\x1b[J" in result.stdout
    assert result.stdout.rstrip().endswith("\x1b[?25h")
    assert "Traceback" not in result.stdout
    assert "can't be with it" in cli.refused("status", "--watch", "--json", code=2)


def test_watch_keeps_to_the_height_of_the_terminal(cli: Cli) -> None:
    for number in range(30):
        cli.queue.enqueue("true", queue=f"q{number:02}")
    cli.variables["NO_COLOR"] = "1"
    result = cli.on_terminal("status", "--watch", "0.1", until="every 100ms", key=b"\x03")
    first = result.stdout.split("\x1b[H\x1b[J")[1].partition(" ends it")[0].splitlines()
    assert len(first) == 23
    assert first[0].startswith("STATE")
    assert first[-1].endswith("every 100ms; Ctrl+C")


# -- list ---------------------------------------------------------------------


def test_list(mixed: Cli) -> None:
    header, *rows = mixed.ok("list").lines
    assert header.split() == ("ID STATE QUEUE PRI ATTEMPTS AGE DURATION DUE COMMAND".split())
    assert [row.split()[0] for row in rows] == ["later", "off", "again", "gone", "fine"]
    assert re.fullmatch(
        r"later +pending +mail +-5 +0/4 +[\dms]+ +in (2h|1h5\dm) +sleep 99", rows[0]
    )
    assert re.fullmatch(
        r"again +failed +default +10 +1/4 +[\dms]+ +[\d.ms]+ +in [1-5]\dm(\d\ds)? +exit 5", rows[2]
    )
    assert re.fullmatch(
        r"fine +completed +default +10 +1/4 +[\dms]+ +[\d.ms]+ +echo done; echo words >&2", rows[4]
    )


@pytest.mark.parametrize(
    ("args", "ids"),
    [
        ((), "later off again gone fine"),
        (("--state", "all"), "later off again gone fine"),
        (("--state", "dead"), "gone"),
        (("-s", "dead,failed"), "again gone"),
        (("-s", "DEAD", "-s", "cancelled"), "off gone"),
        (("--queue", "mail"), "later off"),
        (("--tag", "nightly"), "gone fine"),
        (("-T", "nightly", "-T", "big"), "gone"),
        (("--text", "EXIT"), "again gone"),
        (("--search", "%"), ""),
        (("--since", "1h"), "later off again gone fine"),
        (("--until", "1h"), ""),
        (("--oldest",), "fine gone again off later"),
        (("--limit", "2"), "later off"),
        (("--limit", "0"), "later off again gone fine"),
        (("--after", "again"), "gone fine"),
        (("--after", "again", "--oldest"), "off later"),
    ],
)
def test_filters(mixed: Cli, args: tuple[str, ...], ids: str) -> None:
    assert mixed.ok("list", "-q", *args).lines == ids.split()
    assert [job["id"] for job in mixed.ok("list", "--json", *args).json] == ids.split()


def test_list_says_how_to_go_on(cli: Cli) -> None:
    text = "".join(f'{{"id": "j{n}", "command": "echo it"}}\n' for n in range(7))
    cli.ok("enqueue", "--file", "-", "--tag", "a b", input=text)
    seen: list[str] = []
    args = ["list", "--format", "{id}", "--limit", "3", "--tag", "a b", "--text", "echo it"]
    more = ""
    while True:
        result = cli.ok(*args, *(("--after", seen[-1]) if more else ()))
        seen += result.lines
        more = result.stderr
        if not more:
            break
        assert more == (
            "There are more; go on with: queuectl list --tag 'a b' --text 'echo it' -n 3"
            f" --format '{{id}}' --after {seen[-1]}\n"
        )
    assert seen == [f"j{n}" for n in range(6, -1, -1)]


def test_how_to_go_on_keeps_the_database(cli: Cli) -> None:
    cli.ok("enqueue", "--lines", "-", input="true\n" * 3)
    for args in (("--db", str(cli.db), "list"), ("list", "--db", str(cli.db))):
        more = cli.ok(*args, "-s", "all", "-n", "1").stderr
        assert f"queuectl list --db {cli.db} --state all -n 1 --after " in more


def test_who_looks_for_failed_jobs_hears_of_the_dead(cli: Cli) -> None:
    cli.ok("enqueue", "--lines", "-", "-Q", "q", "--max-retries", "0", input="false\nfalse\n")
    cli.ok("worker", "start", "--drain")
    told = cli.ok("list", "--state", "failed").stderr
    assert told == "No jobs found; 2 are dead: queuectl dlq list\n"
    told = cli.ok("list", "--state", "failed", "--queue", "q").stderr
    assert told == "No jobs found; 2 are dead: queuectl dlq list --queue q\n"
    assert cli.ok("list", "--state", "pending").stderr == "No jobs found.\n"
    assert cli.ok("list", "--state", "failed", "--json").stderr == ""


def test_a_long_list_comes_whole(cli: Cli) -> None:
    cli.ok("enqueue", "--lines", "-", input="true\n" * 2_500)
    assert len(cli.ok("list", "--limit", "0", "-q").lines) == 2_500
    assert len(cli.ok("list", "--limit", "0", "--json").json) == 2_500
    assert cli.ok("list", "--limit", "0").stdout.count("true\n") == 2_500
    table = cli.ok("list")
    assert len(table.lines) == 51
    assert table.stderr.startswith("50 of 2,500 jobs shown; go on with: queuectl list --after ")


def test_what_programs_read_is_complete_unless_a_limit_is_given(cli: Cli) -> None:
    cli.ok("enqueue", "--lines", "-", "--tag", "t", input="true\n" * 120)
    for form in (("-q",), ("--format", "{id}")):
        whole = cli.ok("list", *form)
        assert (len(whole.lines), whole.stderr) == (120, "")
        limited = cli.ok("list", *form, "-n", "50")
        assert len(limited.lines) == 50
        more = "50 of 120 jobs shown; go on with: queuectl list -n 50 "
        assert limited.stderr.startswith("" if form == ("-q",) else more)
        assert bool(limited.stderr) == (form != ("-q",))
        shown = cli.on_terminal("list", *form).stdout.splitlines()
        assert len(shown) == 51
        assert shown[-1].startswith("50 of 120 jobs shown; go on with: queuectl list ")
    assert len(cli.ok("list", "--json").json) == 120
    assert len(cli.ok("list", "--json", "--limit", "7").json) == 7
    on_terminal = cli.on_terminal("list", "--json").stdout
    assert len(json.loads(on_terminal.rpartition("]")[0] + "]")) == 50
    assert "There are more; go on with" in cli.ok("list", "--tag", "t", "-n", "9").stderr


def test_totals(mixed: Cli) -> None:
    assert mixed.ok("list").stderr == "Total: 5 jobs.\n"
    assert mixed.ok("list", "--text", "sleep").stderr == "Total: 1 job.\n"
    assert mixed.ok("list", "-n", "1", "--queue", "mail").stderr.startswith("1 of 2 jobs shown; ")
    assert mixed.ok("list", "--after", "again").stderr == ""


@pytest.mark.parametrize(
    ("sort", "ids"),
    [
        ("id", "again fine gone later off"),
        ("-id", "off later gone fine again"),
        ("queue,-priority", "again fine gone off later"),
        ("-priority", "again fine off gone later"),
        ("state,created", "off fine gone again later"),
        ("exit_code,-created_at", "fine gone again later off"),
    ],
)
def test_sorting(mixed: Cli, sort: str, ids: str) -> None:
    assert mixed.ok("list", "-q", "--sort", sort).lines == ids.split()
    two = mixed.ok("list", "-q", "--sort", sort, "-n", "2")
    assert two.lines == ids.split()[:2]
    assert two.stderr == ""
    shown = mixed.ok("list", "--sort", sort, "-n", "2")
    assert shown.stderr == "2 of 5 jobs shown; --limit 0 shows all.\n"


def test_a_format(mixed: Cli) -> None:
    def lines(text: str, *args: str) -> list[str]:
        return mixed.ok("list", "--format", text, "--sort", "id", *args).stdout.split("\n")[:-1]

    assert lines("{id} {command}")[1:3] == ["fine echo done; echo words >&2", "gone exit 4"]
    assert lines(r"{state}\t{exit_code}\n{{x}} \\{tags}", "-s", "dead,cancelled") == [
        "dead\t4",
        "{x} \\nightly,big",
        "cancelled\t",
        "{x} \\",
    ]
    (job,) = mixed.ok("list", "--json", "-s", "completed").json
    names = ("created_at", "finished_at", "duration_ms", "priority", "queue")
    assert lines("|".join(f"{{{name}}}" for name in names), "-s", "completed") == [
        "|".join(str(job[name]) for name in names)
    ]
    assert re.fullmatch(r"[\d.ms]+ [\dms]+ {2}0/4", lines("{duration} {age} {due} 0/4")[1])
    mixed.queue.enqueue(["printf", "a b\n\x1b[31m"], id="odd")
    assert lines("{command}", "-Q", "default")[-1] == r"printf 'a b\n\x1b[31m'"


def test_columns(mixed: Cli) -> None:
    header, *rows = mixed.ok("list", "--columns", "id,EXIT_CODE, attempts ,finished").lines
    assert header.split() == "ID EXIT_CODE ATTEMPTS FINISHED".split()
    assert re.fullmatch(r"fine +0 +1/4 +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", rows[4])
    assert rows[0].split() == ["later", "0/4"]
    more = mixed.ok("list", "--columns", "id,error", "-n", "1").stderr
    assert "queuectl list -n 1 --columns id,error --after later" in more


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("--sort", "duratoin"), "can't be sorted by 'duratoin'; did you mean 'duration'?"),
        (("--sort", "id", "--after", "x"), "--after and --oldest go by the usual order"),
        (("--columns", "id,comand"), "Jobs have no field 'comand'; did you mean 'command'?"),
        (("--columns", ""), "Jobs have no field ''; use one of id, state, queue, "),
        (("--format", "{xyzzy}"), "Jobs have no field 'xyzzy'; use one of id, state"),
        (("--format", "{id.__class__}"), "Jobs have no field 'id.__class__'"),
        (("--format", "{id[0]}"), "Jobs have no field 'id[0]'"),
        (("--format", "{}"), "Jobs have no field ''"),
        (("--format", "{id:>10}"), "takes plain fields, such as {id}; --columns aligns them"),
        (("--format", "{id!r}"), "takes plain fields, such as {id}"),
        (("--format", "{id"), "has a brace without its other half; write {{ for a brace."),
        (("--format", "{id}", "-q"), "Give only one of --quiet, --json, --format and --columns"),
    ],
)
def test_bad_forms(mixed: Cli, args: tuple[str, ...], hint: str) -> None:
    assert hint in mixed.refused("list", *args, code=2)


def test_fields_are_those_of_json(mixed: Cli) -> None:
    (job,) = mixed.ok("list", "--json", "-n", "1").json
    assert set(job) == set(PLAIN)
    assert mixed.ok("list", "--columns", ",".join(NAMES), "-n", "1").lines


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("queuectl list --columns id,exi", ["id,exit_code"]),
        ("queuectl list --sort queue,-prio", ["queue,-priority"]),
    ],
)
def test_fields_are_completed(cli: Cli, words: str, expected: list[str]) -> None:
    cli.variables = {
        "_QUEUECTL_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    assert cli.ok().lines == [f"plain,{text}" for text in expected]


def test_an_empty_list(cli: Cli) -> None:
    cli.add("true")
    empty = cli.ok("list", "--state", "dead")
    assert (empty.stdout, empty.stderr) == ("", "No jobs found.\n")
    assert cli.ok("list", "--state", "dead", "--json").json == []


def test_commands_are_cut_to_the_width_of_a_terminal(cli: Cli) -> None:
    command = "echo " + "wide 寬 " * 40
    cli.add(command)
    assert command.rstrip() in cli.ok("list").stdout
    shown = cli.on_terminal("list", columns=72).stdout.splitlines()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown]
    assert "\N{HORIZONTAL ELLIPSIS}" in plain[1]
    assert max(len(line) + line.count("寬") for line in plain) <= 72


def test_a_narrow_terminal_shows_fewer_columns_and_shorter_ids(cli: Cli) -> None:
    cli.variables["NO_COLOR"] = "1"
    cli.add("echo a command that is long enough to be cut", "--id", "long-" + "x" * 60)

    def shown(columns: int) -> list[str]:
        lines = cli.on_terminal("list", columns=columns).stdout.splitlines()
        assert max(map(len, lines)) <= columns
        return lines

    assert shown(100)[0].split() == "ID STATE PRI ATTEMPTS AGE DURATION COMMAND".split()
    assert shown(72)[0].split() == "ID STATE PRI ATTEMPTS DURATION COMMAND".split()
    assert shown(60)[0].split() == "ID STATE PRI ATTEMPTS COMMAND".split()
    assert shown(46)[0].split() == "ID STATE COMMAND".split()
    assert shown(46)[1].split()[0] == "long-xx\N{HORIZONTAL ELLIPSIS}xxxxxx"
    header, row = cli.ok("list").lines
    assert header.split() == "ID STATE PRI ATTEMPTS AGE DURATION COMMAND".split()
    assert row.startswith("long-" + "x" * 60)


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("--state", "running"), "there is no state 'running'; use processing."),
        (("--state", "done"), "use completed."),
        (("--state", "finished"), "use completed, dead or cancelled."),
        (("--state", "queued"), "use pending."),
        (("--state", "error"), "use failed (it is retried) or dead"),
        (("--since", "lastweek"), "write it like 1h, 2d, monday or 09:00"),
        (("--state", "ready"), "there is no state 'ready'; use all, blocked, pending"),
        (("--since", "whenever"), "'whenever' is not a time"),
        (("--limit", "-1"), "--limit"),
    ],
)
def test_bad_filters(cli: Cli, args: tuple[str, ...], hint: str) -> None:
    assert hint in cli.refused("list", *args, code=2)


# -- show ---------------------------------------------------------------------


def test_show(mixed: Cli) -> None:
    mixed.variables["TZ"] = "Europe/Berlin"
    waits = mixed.ok("show", "later").stdout
    assert re.search(r"^Due: +[-0-9]+T[:0-9]+\+0[12]:00 \(in (2h|1h5\dm)\)$", waits, re.MULTILINE)
    assert re.search(r"^Created: +[-0-9]+T[:0-9]+\.\d{3}\+0[12]:00$", waits, re.MULTILINE)
    shown = mixed.ok("show", "gone").stdout
    for text in (
        "--- Job gone ---",
        "State:     dead",
        "Reason:    exit code 4",
        "Exit code: 4",
        "Attempts:  1/1",
        "Retries:   none",
        "Tags:      nightly, big",
        "--- Runs ---",
        "exited 4",
    ):
        assert text in shown
    assert "cancel" in mixed.ok("show", "off").stdout
    assert "not wanted" in mixed.ok("show", "off").stdout


def test_show_as_json(mixed: Cli) -> None:
    job = mixed.ok("show", "fine", "--json").json
    assert (job["id"], job["state"], job["timeout"], job["attempts"]) == (
        "fine",
        "completed",
        30,
        1,
    )
    (run,) = job["runs"]
    assert (run["number"], run["outcome"], run["exit_code"]) == (1, "exited", 0)
    assert (run["stdout_bytes"], run["stderr_bytes"]) == (5, 6)
    assert [e["kind"] for e in mixed.ok("show", "off", "--json").json["events"]] == ["cancel"]
    for name in ("created_at", "started_at", "finished_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", job[name])


def test_ids_by_their_first_characters(cli: Cli) -> None:
    for name in ("abcde1", "abcde2", "abXX", "other"):
        cli.add("true", "--id", name)
    assert cli.ok("show", "othe", "--json").json["id"] == "other"
    assert "fits several jobs (abcde1, abcde2)" in cli.refused("show", "abcd", code=2)
    assert "give at least 4 characters" in cli.refused("show", "oth", code=3)
    assert "There is no job 'xyz'; see" in cli.refused("show", "xyz", code=3)


# -- stats --------------------------------------------------------------------


def test_stats(mixed: Cli) -> None:
    shown = mixed.ok("stats").lines
    for line in (
        "--- Queue Statistics ---",
        "Total Jobs:   5",
        "Completed:    1",
        "Failed:       1",
        "Dead:         1",
        "Success Rate: 50.00%",
        "Jobs with timeout configured: 1",
        "--- Execution Time Statistics ---",
        "--- Waiting Time Statistics ---",
        "--- Top 5 Slowest Jobs ---",
        "--- Priority Distribution ---",
        "Priority 10: 2 jobs",
        "Priority 0: 2 jobs",
        "Priority -5: 1 job",
    ):
        assert line in shown
    assert any(re.fullmatch(r"Average: [\d.ms]+", line) for line in shown)
    assert any(re.fullmatch(r"Median:  [\d.ms]+", line) for line in shown)
    assert any(re.fullmatch(r"fine: echo done; echo words >&2 - [\d.ms]+", line) for line in shown)


def test_stats_as_json(mixed: Cli) -> None:
    stats = mixed.ok("stats", "--json").json
    assert (stats["total"], stats["success_rate"], stats["with_timeout"]) == (5, 50.0, 1)
    assert stats["runs"] == {"completed": 1, "dead": 1, "failed": 1}
    assert stats["run_time"]["count"] == 1
    mail = mixed.ok("stats", "--json", "--queue", "mail").json
    assert (mail["total"], mail["slowest"]) == (2, [])
    future = mixed.ok("stats", "--json", "--since", "+1h").json
    assert future["run_time"]["count"] == 0


def test_stats_of_a_tag(mixed: Cli) -> None:
    mixed.ok("rm", "again")
    result = mixed.ok("stats", "--tag", "nightly")
    for line in ("Total Jobs:   2", "Success Rate: 50.00%", "Priority 10: 1 job"):
        assert line in result.lines
    assert any(line.startswith("fine: echo done; echo words >&2 - ") for line in result.lines)
    assert "pruned ones aren't" in result.stderr
    stats = mixed.ok("stats", "--json", "-T", "nightly").json
    job = mixed.ok("show", "fine", "--json").json
    assert stats["run_time"]["median_ms"] == stats["run_time"]["max_ms"] == job["duration_ms"]
    assert (stats["wait_time"]["count"], stats["runs"]) == (2, {"completed": 1, "dead": 1})
    both = mixed.ok("stats", "--json", "-T", "nightly", "-T", "big").json
    assert (both["total"], both["success_rate"], both["run_time"]["count"]) == (1, 0.0, 0)
    assert mixed.ok("stats", "--json", "-T", "nightly", "-Q", "mail").json["total"] == 0
    later = mixed.ok("stats", "--json", "-T", "nightly", "--since", "+1h").json
    assert (later["total"], later["run_time"]["count"], later["runs"]) == (2, 0, {})


def test_slow_jobs_of_another_queue_hide_none_of_this_one(cli: Cli) -> None:
    store = cli.queue.store
    a_node(store)
    for queue, count in (("slow", 201), ("fast", 1)):
        cli.queue.enqueue_many({"command": "x", "queue": queue} for _ in range(count))
    jobs = take(store, 202, now=store.clock.now())
    finish(store, [ended(job, duration_ms=len(job.queue) + (job.queue == "slow")) for job in jobs])
    assert len(cli.ok("stats", "--json", "-Q", "fast").json["slowest"]) == 1


def test_stats_of_nothing(cli: Cli) -> None:
    cli.queue.close()
    assert "Success Rate: nothing finished yet" in cli.ok("stats").stdout


# -- wait ---------------------------------------------------------------------


def test_wait_for_one_is_its_own_exit_code(mixed: Cli) -> None:
    assert mixed.run("wait", "fine").code == 0
    result = mixed.run("wait", "gone")
    assert (result.code, result.stdout) == (4, "")
    assert "Job gone is dead: exit code 4" in result.stderr
    assert mixed.run("wait", "off").code == 1


def test_wait_for_several_is_all_or_1(mixed: Cli) -> None:
    mixed.add("true", "--id", "fine2")
    mixed.node("--drain", "--queue", "default")
    assert mixed.ok("wait", "fine", "fine2").stderr == "2 jobs completed.\n"
    result = mixed.run("wait", "fine", "gone", "--json")
    assert result.code == 1
    assert result.json == {"jobs": {"fine": "completed", "gone": "dead"}}


def test_wait_for_a_tag_counts_what_is_finished_already(mixed: Cli) -> None:
    result = mixed.run("wait", "--tag", "nightly", "--json")
    assert result.code == 1
    assert result.json == {"jobs": {"fine": "completed", "gone": "dead"}}
    assert result.stderr.endswith("1 job completed, 1 did not: 1 dead.\n")
    assert mixed.run("wait", "--tag", "big").code == 1, "1, not the job's own 4"
    assert mixed.run("wait", "--queue", "nobody").stderr.endswith("nothing to wait for.\n")
    assert "No job has the tag 'none'" in mixed.refused("wait", "--tag", "none", code=3)


def test_show_names_no_delay_that_max_backoff_cuts_short(cli: Cli) -> None:
    cli.ok("config", "set", "retry_delay", "10m")
    cli.add("exit 1", "--id", "late", "--backoff", "fixed", "--max-retries", "2")
    assert "up to 2, fixed backoff (5m)" in cli.ok("show", "late").stdout


def test_wait_gives_up(cli: Cli) -> None:
    cli.add("true", "--id", "never", "--tag", "it's red")
    for args, again in (
        (("never",), "go on with: queuectl wait never"),
        (("--all",), "see queuectl list"),
        (("--queue", "default"), "see queuectl list --queue default"),
        (("--tag", "it's red"), "see queuectl list --tag 'it'\"'\"'s red'"),
    ):
        result = cli.run("wait", *args, "--timeout", "0.1")
        assert result.code == 124
        assert f"1 job not finished after 100ms; {again}." in result.stderr


@pytest.mark.parametrize("args", [("--all",), ("--queue", "default"), ("--tag", "t")])
@pytest.mark.parametrize(("last", "code"), [("true", 0), ("false", 1)])
def test_wait_for_all_of_a_kind(cli: Cli, args: tuple[str, ...], last: str, code: int) -> None:
    cli.ok(
        "enqueue", "--lines", "-", "--tag", "t", "--max-retries", "0", input=f"sleep 0.3\n{last}"
    )
    waiting = cli.start("wait", *args)
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith(b"No worker is running")
    cli.node("--drain")
    assert waiting.wait(60) == code
    said = waiting.stderr.read().decode()
    if code == 0:
        assert said == "2 jobs completed.\n"
    else:
        failed, summary = said.splitlines()
        assert failed.endswith("is dead: exit code 1; no retries allowed.")
        assert summary == "1 job completed, 1 did not: 1 dead."


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((), "Say what to wait for: ids, --group"),
        (("x", "--all"), "Ids and --all can't be combined; wait for one, then for the other"),
        (("--all", "--tag", "x"), "--tag and --all can't be combined"),
        (("x", "-T", "x", "-Q", "y"), "Ids, --queue and --tag can't be combined"),
    ],
)
def test_wait_needs_one_thing_to_wait_for(cli: Cli, args: tuple[str, ...], why: str) -> None:
    assert why in cli.refused("wait", *args, code=2)


def test_wait_shows_progress_on_a_terminal(cli: Cli) -> None:
    cli.add("true", "--id", "slow")
    shown = cli.on_terminal("wait", "--all", until="0/1", key=b"\x03")
    assert shown.code == 130
    assert "Waiting" in shown.stdout
    assert "\nNothing was stopped; see queuectl list.\n" in shown.stdout
    assert json.loads(cli.ok("list", "--json").stdout)[0]["state"] == "pending"


def test_events_by_who_kind_text_and_time(mixed: Cli) -> None:
    mixed.ok("hold", "later")
    mixed.ok("pause", "default")
    assert [e["kind"] for e in mixed.ok("events", "--kind", "hold", "--json").json] == ["hold"]
    everything = mixed.ok("events", "--who", "@", "--since", "1d", "--json").json
    assert {"hold", "pause", "cancel"} <= {event["kind"] for event in everything}
    nobody = mixed.ok("events", "--who", "nobody at all")
    assert "No events fit." in nobody.stdout + nobody.stderr
    assert mixed.ok("events", "--until", "2001-01-01", "--json").json == []
