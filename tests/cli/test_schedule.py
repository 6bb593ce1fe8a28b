"""The `schedule` commands: adding, showing, changing and filling in schedules."""

import re
from datetime import UTC, datetime

import pytest

from tests.cli.conftest import Cli
from tests.cli.test_completion import complete

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def nightly(cli: Cli) -> Cli:
    """A queue that has a schedule."""
    cli.ok(
        *("schedule", "add", "nightly", "0 3 * * *", "backup.sh", "--tz", "Europe/Berlin"),
        *("--timeout", "5m", "--tag", "night", "--env", "A=secret", "--jitter", "10m"),
    )
    return cli


# -- add ----------------------------------------------------------------------------------


def test_a_schedule_is_added_and_said_in_words(cli: Cli) -> None:
    told = cli.ok("schedule", "add", "nightly", "0 3 * * *", "backup.sh", "--tz", "Asia/Tokyo")
    assert re.fullmatch(
        r"Added schedule nightly: At 03:00 every day"
        r" \(next \d{4}-\d\d-\d\dT03:00:00\+09:00, Asia/Tokyo\)\n",
        told.stdout,
    )
    assert "Made a new queue" in told.stderr
    assert "No worker is running" in told.stderr


def test_quiet_prints_the_name(cli: Cli) -> None:
    told = cli.ok("schedule", "add", "x", "@daily", "true", "-q")
    assert (told.stdout, told.stderr) == ("x\n", "")


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        (("echo a b",), {"command": "echo a b"}),
        (("--", "echo", "a b", "--json"), {"argv": ["echo", "a b", "--json"]}),
        (('{"command": "x", "queue": "slow"}',), {"command": "x", "queue": "slow"}),
        (('{"command": "x", "queue": "slow"}', "-Q", "q"), {"command": "x", "queue": "q"}),
        (("--command", "{ x; }"), {"command": "{ x; }"}),
        (
            ("x", "--max-retries", "2", "-T", "a"),
            {"command": "x", "max_retries": "2", "tags": ["a"]},
        ),
    ],
)
def test_what_it_runs_is_said_as_for_enqueue(
    cli: Cli, args: tuple[str, ...], fields: dict[str, object]
) -> None:
    made = cli.ok("schedule", "add", "--json", "x", "@daily", *args).json
    assert made["job"] == fields | {"cwd": str(cli.folder)}


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("x", "61 * * * *", "true"), "has '61' as minute; that is 0-59."),
        (("x", "0 0 31 2 *", "true"), "never comes"),
        (("x", "0 3 * *", "true"), "has 4 fields"),
        (("x", "0" + ",0" * 1000 + " * * * *", "true"), "A rule can have 200 characters at most"),
        (("x", "*/0 * * * *", "true"), "has '*/0' as minute; that is 0-59."),
        (("x", "0 0 * * *\n", "true"), "A rule is five fields"),
        (("x", "every 0s", "true"), "A rule can tick every 1s to 366d; 'every 0s' can't be."),
        (("x", "every -5m", "true"), "The rule 'every -5m' names no time"),
        (("x", "every", "true"), "The rule 'every' names no time"),
        (("", "@daily", "true"), "The name of a schedule is empty."),
        (("a\nb", "@daily", "true"), "The name of a schedule must be printable"),
        ((" x", "@daily", "true"), "The name of a schedule must be printable"),
        (("x" * 129, "@daily", "true"), "has 129 characters; at most 128 are allowed."),
        (("x" * 100_000, "@daily", "true"), "is 100,000 bytes long; at most 512 are allowed."),
        (("x", "every 15m", "true", "--jitter", "1h"), "'every 15m' has 15m, and 1h is more."),
        (("x", "0,5 3 * * *", "true", "--jitter", "6m"), "'0,5 3 * * *' has 5m, and 6m is more."),
        (("x", "@daily", "true", "--jitter", "400d"), "jitter can be a year at most."),
        (("x", "@daily", "true", "--jitter", "-1m"), "--jitter"),
        (("x", "@daily", "true", "--missed-within", "2y"), "missed"),
        (("x", "@daily", "true", "--tz", "/etc/passwd"), "There is no time zone '/etc/passwd'"),
        (("x", "@daily", "true", "--tz", ""), "There is no time zone ''"),
        (("x", "@daily", "true", "--tz", "Mars/Base"), "There is no time zone 'Mars/Base' here"),
        (("x", "@daily"), "Say what it runs"),
        (("x", "@daily", "--"), "Nothing stands behind --"),
        (("x", "@daily", "echo", "a"), "A command is given as one argument"),
        (("x", "@daily", "rsync", "-a", "b"), "queuectl schedule add NAME RULE -- rsync -a ..."),
        (("x", "@daily", "true", "--priority", "high"), "Priority must be"),
        (("x", "@daily", "true", "--missed", "some"), "--missed"),
        (("x", "@daily", "true", "--jitter", "soon"), "--jitter"),
        (("x", "@daily", "true", "--pause-after", "0"), "--pause-after"),
        (("x", "@daily", "true", "--command", "true"), "Give only one of"),
    ],
)
def test_what_can_not_be_is_refused_and_makes_no_queue(
    cli: Cli, args: tuple[str, ...], why: str
) -> None:
    said = cli.refused("schedule", "add", *args, code=2)
    assert why in said
    assert len(said) < 500
    assert not cli.db.exists()


def test_a_name_that_is_taken_is_refused(nightly: Cli) -> None:
    said = nightly.refused("schedule", "add", "nightly", "@daily", "true", code=4)
    assert "There is a schedule 'nightly' already" in said
    assert nightly.queue.schedules.get("nightly").rule == "0 3 * * *"


# -- looking ------------------------------------------------------------------------------


def test_json_of_a_schedule(nightly: Cli) -> None:
    (shown,) = nightly.ok("schedule", "list", "--json").json
    times = {name: shown.pop(name) for name in ("next_at", "created_at", "updated_at")}
    assert all(ISO.fullmatch(time) for time in times.values())
    assert shown == {
        "name": "nightly",
        "rule": "0 3 * * *",
        "in_words": "At 03:00 every day",
        "tz": "Europe/Berlin",
        "missed": "latest",
        "missed_within": None,
        "overlap": "skip",
        "jitter": 600,
        "pause_after": None,
        "paused": False,
        "paused_at": None,
        "paused_by": None,
        "last_tick": None,
        "last_job": None,
        "failures": 0,
        "job": {
            "command": "backup.sh",
            "cwd": str(nightly.folder),
            "env": ["A"],
            "tags": ["night"],
            "timeout": "5m",
        },
    }
    more = nightly.ok("schedule", "show", "nightly", "--json").json
    assert more.keys() - shown.keys() - times.keys() == {"waits_for", "next", "ticks"}
    assert (more["waits_for"], len(more["next"]), more["ticks"]) == (None, 5, [])


def test_a_list_for_people(cli: Cli) -> None:
    cli.ok("db", "init")
    assert cli.ok("schedule", "list").stderr == "There are no schedules.\n"
    assert cli.ok("schedule", "list", "--json").json == []
    cli.ok("schedule", "add", "b", "every 15m", "x", "-q")
    cli.ok("schedule", "add", "a", "@daily", "-q", "--", "echo", "a b")
    header, first, second = cli.ok("schedule", "list").lines
    assert header.split() == ["NAME", "RULE", "ZONE", "NEXT", "LAST", "JOB", "RUNS"]
    assert first.split()[:2] == ["a", "@daily"]
    assert first.endswith("echo 'a b'")
    assert second.startswith("b     every 15m")
    assert cli.ok("schedule", "list", "-q").lines == ["a", "b"]


def test_show_says_it_all_but_secrets(nightly: Cli) -> None:
    job = nightly.ok("schedule", "run", "nightly", "-q").stdout.strip()
    nightly.ok("schedule", "pause", "nightly")
    shown = nightly.ok("schedule", "show", "nightly").stdout
    for text in ("At 03:00 every day", "Europe/Berlin", "backup.sh", "paused by ", job, "pending"):
        assert text in shown
    assert "secret" not in shown + nightly.ok("schedule", "show", "nightly", "--json").stdout


def test_show_says_what_a_tick_waits_for(cli: Cli) -> None:
    cli.ok("schedule", "add", "x", "every 1s", "true", "--overlap", "latest", "-q")
    job = cli.ok("schedule", "run", "x", "-q").stdout.strip()

    def waits() -> str | None:
        cli.queue.schedules.tick()
        waits: str | None = cli.ok("schedule", "show", "x", "--json").json["waits_for"]
        return waits

    from tests.support import wait_for

    assert wait_for(waits, "a tick that waits") == f"a tick waits for job {job} to be over"


@pytest.mark.parametrize(
    "command", ["show", "next", "run", "pause", "resume", "rm", "edit --rule @daily"]
)
def test_an_unknown_name_comes_with_the_nearest(nightly: Cli, command: str) -> None:
    said = nightly.refused("schedule", *command.split(), "nigthly", code=3)
    assert said == "queuectl: There is no schedule 'nigthly'; did you mean 'nightly'?"


def test_next_has_the_zone_and_utc(nightly: Cli) -> None:
    planned = nightly.ok("schedule", "next", "nightly", "3", "--json").json
    assert len(planned) == 3
    header, *rows = nightly.ok("schedule", "next", "nightly", "3").lines
    assert header.split() == ["Europe/Berlin", "UTC"]
    for row, at in zip(rows, planned, strict=True):
        there, utc = row.split()
        assert there[10:19] == "T03:00:00"
        assert datetime.fromisoformat(there) == datetime.fromisoformat(utc)
        assert datetime.fromisoformat(utc) == datetime.fromisoformat(at)
    assert len(nightly.ok("schedule", "next", "nightly", "--json").json) == 10
    nightly.refused("schedule", "next", "nightly", "0", code=2)


# -- changing -----------------------------------------------------------------------------


def test_run_makes_a_job_now(nightly: Cli) -> None:
    made = nightly.ok("schedule", "run", "nightly", "--json").json
    assert (made["command"], made["timeout"], made["tags"]) == ("backup.sh", 300, ["night"])
    assert nightly.queue.get(made["id"]).env == {"A": "secret"}
    assert "Enqueued job " in nightly.ok("schedule", "run", "nightly").stdout


def test_pause_and_resume(nightly: Cli) -> None:
    nightly.ok("schedule", "add", "other", "@daily", "true", "-q")
    assert nightly.ok("schedule", "pause", "nightly", "other", "nightly", "--json").json == [
        {"name": "nightly", "paused": True, "changed": True},
        {"name": "other", "paused": True, "changed": True},
    ]
    assert nightly.ok("schedule", "pause", "other").stdout == (
        "Schedule 'other' was paused already.\n"
    )
    assert nightly.queue.schedules.get("other").next_at is None
    assert nightly.ok("schedule", "resume", "other").stdout == "Schedule 'other' is resumed.\n"
    assert nightly.ok("schedule", "resume", "other", "--json").json == [
        {"name": "other", "paused": False, "changed": False}
    ]
    assert nightly.queue.schedules.get("other").next_at is not None


def test_a_wrong_name_changes_no_other(nightly: Cli) -> None:
    for command in ("pause", "rm"):
        nightly.refused("schedule", command, "nightly", "nosuch", code=3)
    assert nightly.queue.schedules.get("nightly").paused_at is None


def test_edit_keeps_the_rest(nightly: Cli) -> None:
    (before,) = nightly.ok("schedule", "list", "--json").json
    after = nightly.ok("schedule", "edit", "nightly", "--rule", "0 4 * * *", "--json").json
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"rule", "in_words", "next_at", "updated_at"}
    after = nightly.ok("schedule", "edit", "nightly", "full.sh", "-p", "3", "--json").json
    assert after["job"] == before["job"] | {"command": "full.sh", "priority": "3"}
    after = nightly.ok("schedule", "edit", "nightly", "--json", "--", "full", "a b").json
    assert after["job"]["argv"] == ["full", "a b"]
    assert "command" not in after["job"]
    assert nightly.queue.schedules.get("nightly").request["env"] == {"A": "secret"}


def test_edit_takes_away(nightly: Cli) -> None:
    after = nightly.ok(
        *("schedule", "edit", "nightly", "--json"),
        *("--unset", "timeout", "--unset", "--tag", "--unset", "jitter"),
    ).json
    assert not {"timeout", "tags"} & after["job"].keys()
    assert after["jitter"] == 0
    said = nightly.refused("schedule", "edit", "nightly", "--unset", "timout", code=2)
    assert "did you mean 'timeout'?" in said
    args = ("--unset", "timeout", "--timeout", "3")
    assert "not both" in nightly.refused("schedule", "edit", "nightly", *args, code=2)


def test_edit_says_the_same_field_in_another_way(cli: Cli) -> None:
    cli.ok("schedule", "add", "x", "@daily", "true", "--max-attempts", "3", "-q")
    after = cli.ok("schedule", "edit", "x", "--max-retries", "0", "--json").json
    assert after["job"] == {"command": "true", "max_retries": "0", "cwd": str(cli.folder)}


def test_edit_of_nothing_and_to_nonsense(nightly: Cli) -> None:
    assert "Say what to change" in nightly.refused("schedule", "edit", "nightly", code=2)
    nightly.refused("schedule", "edit", "nightly", "--rule", "61 * * * *", code=2)
    nightly.refused("schedule", "edit", "nightly", "--tz", "Mars/Base", code=2)
    said = nightly.refused("schedule", "edit", "nightly", "--rule", "every 5m", code=2)
    assert "jitter can't be longer than the time between two ticks" in said
    assert nightly.queue.schedules.get("nightly").rule == "0 3 * * *"


def test_the_environment_of_who_adds_it_is_kept(cli: Cli) -> None:
    cli.variables["COLOUR"] = "blue"
    cli.ok("schedule", "add", "x", "@daily", "true", "--env-all", "-q")
    cli.variables["COLOUR"] = "red"
    cli.variables["OTHER"] = "1"
    job = cli.queue.get(cli.ok("schedule", "run", "x", "-q").stdout.strip())
    assert job.env["COLOUR"] == "blue"
    assert "OTHER" not in job.env
    cli.ok("schedule", "edit", "x", "--env-all")
    job = cli.queue.get(cli.ok("schedule", "run", "x", "-q").stdout.strip())
    assert (job.env["COLOUR"], job.env["OTHER"]) == ("red", "1")


def test_rm(nightly: Cli) -> None:
    job = nightly.ok("schedule", "run", "nightly", "-q").stdout.strip()
    assert nightly.ok("schedule", "rm", "nightly").stdout == "Schedule 'nightly' removed.\n"
    assert nightly.queue.schedules.all() == []
    assert nightly.queue.get(job).command == "backup.sh"
    nightly.ok("schedule", "add", "x", "@daily", "true", "-q")
    assert nightly.ok("schedule", "rm", "x", "--json").json == [{"name": "x", "removed": True}]


# -- backfill -----------------------------------------------------------------------------


def test_backfill_makes_what_was_not_made(nightly: Cli) -> None:
    week = ("backfill", "nightly", "2026-11-01T00:00Z", "2026-11-08T00:00Z")
    nights = [f"2026-11-0{day}T02:00:00.000Z" for day in range(1, 8)]
    told = nightly.ok("schedule", *week, "--dry-run", "--json").json
    assert told == {"name": "nightly", "dry_run": True, "ticks": nights}
    tried = nightly.ok("schedule", *week, "--dry-run")
    assert len(tried.lines) == 8
    assert tried.stderr == "7 jobs would be made. Nothing was changed.\n"
    assert list(nightly.queue.list()) == []
    assert nightly.ok("schedule", *week).stdout == "7 jobs made.\n"
    assert len(list(nightly.queue.list())) == 7
    assert nightly.ok("schedule", *week, "--json").json["ticks"] == []
    shown = nightly.ok("schedule", "show", "nightly", "--json").json
    assert [tick["planned"] for tick in shown["ticks"]] == nights[:1:-1]


def test_backfill_is_about_the_past(nightly: Cli) -> None:
    later = f"{datetime.now(UTC).year + 1}-01-01"
    said = nightly.refused("schedule", "backfill", "nightly", "1d", later, code=2)
    assert "can't be in the future" in said
    nightly.refused("schedule", "backfill", "nightly", "whenever", "now", code=2)


# -- completion ---------------------------------------------------------------------------


def test_names_complete(nightly: Cli) -> None:
    nightly.ok("schedule", "add", "noon", "@daily", "true", "-q")
    nightly.ok("schedule", "pause", "noon")
    assert complete(nightly, "queuectl schedule show n") == ["nightly", "noon"]
    assert complete(nightly, "queuectl schedule resume ") == ["noon"]
    assert complete(nightly, "queuectl schedule rm noon n") == ["nightly"]
    assert complete(nightly, "queuectl crontab export ni") == ["nightly"]
    assert complete(nightly, "queuectl schedule edit noon --tz Europe/Berl") == ["Europe/Berlin"]
