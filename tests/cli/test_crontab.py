"""The `crontab` commands: schedules from a crontab and back."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli

CRONTAB = r"""# m h  dom mon dow   command
MAILTO=me@example.org
CRON_TZ=Europe/Paris
GREETING="hello there"

# Rotate the logs
0 3 * * 1-5 cd /srv && ./rotate.sh 50\% %one%two
@daily /usr/bin/report.py
SHELL=/bin/bash
*/10 * * * * /usr/bin/report.py <(date)
"""


@pytest.fixture
def file(cli: Cli) -> Path:
    path = cli.folder / "my.crontab"
    path.write_text(CRONTAB)
    return path


def test_every_line_becomes_a_schedule(cli: Cli, file: Path) -> None:
    told = cli.ok("crontab", "import", "my.crontab", "--queue", "cron", "--overlap", "allow")
    note = "Note: my.crontab, line 2: MAILTO is ignored: output is kept with each job."
    assert note in told.stderr
    assert "3 schedules added." in told.stderr
    found = {one.name: one for one in cli.queue.schedules.all()}
    assert list(found) == ["report", "report-2", "rotate-the-logs"]
    rotate = found["rotate-the-logs"]
    assert (rotate.rule, rotate.zone, rotate.overlap) == ("0 3 * * 1-5", "Europe/Paris", "allow")
    assert rotate.request == {
        "command": "cd /srv && ./rotate.sh 50% ",
        "cwd": str(cli.folder),
        "env": {"GREETING": "hello there"},
        "queue": "cron",
        "stdin": "one\ntwo\n",
    }
    assert found["report-2"].request["shell"] == "/bin/bash"


def test_json_and_a_dry_run_that_makes_nothing(cli: Cli, file: Path) -> None:
    cli.ok("db", "init")
    told = cli.ok("crontab", "import", "--dry-run", "--json", "--prefix", "web-", input=CRONTAB)
    assert told.stderr == ""
    assert told.json.keys() == {"dry_run", "schedules", "notes"}
    assert told.json["dry_run"] is True
    names = [one["name"] for one in told.json["schedules"]]
    assert names == ["web-rotate-the-logs", "web-report", "web-report-2"]
    assert told.json["notes"] == ["stdin, line 2: MAILTO is ignored: output is kept with each job."]
    assert (
        "3 schedules would be added."
        in cli.ok("crontab", "import", "-", "--dry-run", input=CRONTAB).stderr
    )
    assert cli.queue.schedules.all() == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@reboot /usr/bin/x", "stdin, line 11: @reboot is no time"),
        ("61 * * * * x", "stdin, line 11: The rule '61 * * * *' has '61' as minute"),
        ("CRON_TZ=Mars/Base", "stdin, line 11: There is no time zone 'Mars/Base' here"),
        ("what is this", "stdin, line 11: 'what is this' is neither five fields"),
    ],
)
def test_all_or_nothing(cli: Cli, line: str, why: str) -> None:
    cli.ok("db", "init")
    said = cli.refused("crontab", "import", input=CRONTAB + line + "\n", code=2)
    assert said.startswith(f"queuectl: {why}")
    assert cli.queue.schedules.all() == []


def test_a_name_that_is_taken(cli: Cli, file: Path) -> None:
    cli.ok("schedule", "add", "report-2", "@daily", "true", "-q")
    said = cli.refused("crontab", "import", "my.crontab", code=4)
    assert "my.crontab, line 10: there is a schedule 'report-2' already; choose" in said
    assert [one.name for one in cli.queue.schedules.all()] == ["report-2"]
    cli.ok("crontab", "import", "my.crontab", "--prefix", "new-")


def test_a_file_that_is_not_there(cli: Cli) -> None:
    assert "nosuch" in cli.refused("crontab", "import", "nosuch", code=2)
    assert "UTF-8" in cli.refused("crontab", "import", input=b"\xff\xfe", code=2)
    assert not cli.db.exists()


def test_what_is_exported_is_imported_the_same(cli: Cli, file: Path) -> None:
    cli.ok("crontab", "import", "my.crontab")
    text = cli.ok("crontab", "export").stdout
    other = str(cli.folder / "other.db")
    cli.ok("--db", other, "crontab", "import", input=text)
    assert cli.ok("--db", other, "crontab", "export").stdout == text
    before, after = (
        cli.ok("--db", db, "schedule", "list", "--json").json for db in (str(cli.db), other)
    )
    for one in (*before, *after):
        del one["created_at"], one["updated_at"], one["next_at"]
        one["job"].pop("shell", None)
    assert before == after
    assert cli.ok("crontab", "export", "--json").json == {"crontab": text}


def test_what_a_crontab_can_not_say_is_a_comment(cli: Cli) -> None:
    cli.ok("schedule", "add", "poll", "every 15m", "fetch", "-q")
    cli.ok(
        "schedule", "add", "noon", "0 12 * * *", "eat", "-q", "--queue", "slow", "--jitter", "5m"
    )
    lines = cli.ok("crontab", "export", "noon", "poll").lines
    assert "# not said: queue is slow" in lines
    assert "# not said: jitter is 5m" in lines
    assert lines[-1].startswith("# not in a crontab: poll: ")
    assert "poll" not in cli.ok("crontab", "export", "noon").stdout
    assert "did you mean 'noon'?" in cli.refused("crontab", "export", "nooon", code=3)
    assert cli.run("crontab", "export", "nooon").code == 3


def test_nothing_to_export(cli: Cli) -> None:
    cli.ok("db", "init")
    told = cli.ok("crontab", "export")
    assert (told.stdout, told.stderr) == ("", "There are no schedules.\n")
