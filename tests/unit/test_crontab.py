"""Crontabs: what is read from them, and that what is written is read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.crontab import Entry, read_crontab, write_crontab
from queuectl.errors import UsageError
from queuectl.schedule import Overlap, Schedule

HOME = "/home/me"


def only(text: str) -> Entry:
    (entry,) = read_crontab(text).entries
    return entry


def a_schedule(rule: str = "0 3 * * *", **given: object) -> Schedule:
    request = {"command": "backup.sh", "cwd": HOME}
    fields = {"name": "nightly", "zone": "UTC", "request": request} | given
    return Schedule(
        rule=rule,
        anchor=0,
        done_until=0,
        created_at=0,
        updated_at=0,
        **fields,  # type: ignore[arg-type]
    )


# -- reading ------------------------------------------------------------------------------


def test_a_line_is_five_fields_and_a_command() -> None:
    entry = only("  */5  0-6 * JAN mon-fri\tcd /srv && ./run.sh  -a \n")
    assert entry.rule == "*/5 0-6 * JAN mon-fri"
    assert entry.command == "cd /srv && ./run.sh  -a "
    assert (entry.line, entry.stdin, entry.tz, entry.shell) == (1, None, None, None)


def test_words_are_rules() -> None:
    assert (only("@Daily x y").rule, only("@Daily x y").command) == ("@daily", "x y")


@pytest.mark.parametrize(
    "line",
    ["@daily " + "x" * 2_000_000, "x" * 2_000_000, "A=" + "\\" * 2_000_000, "* " * 1_000_000],
)
def test_a_line_that_no_command_can_fill_is_not_even_read(line: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_crontab(f"@daily true\n{line}\n")
    assert str(refused.value) == (
        f"the crontab, line 2: a line can have 1,048,576 characters at most; this has"
        f" {len(line):,}."
    )


def test_comments_and_blank_lines_say_nothing() -> None:
    assert read_crontab("# a\n\n   \n  # b\n").entries == []
    assert read_crontab("").entries == []


def test_lines_may_end_as_on_windows() -> None:
    assert only("@daily x\r\n").command == "x"


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=1", "A", "1"),
        ("A = 1 2  ", "A", "1 2"),
        ('A=" 1 "', "A", " 1 "),
        ("A=' 1\"'", "A", ' 1"'),
        ("'A'=x", "A", "x"),
        ("A=", "A", ""),
        ("A=$B:/bin", "A", "$B:/bin"),
    ],
)
def test_variables(line: str, name: str, value: str) -> None:
    assert only(f"{line}\n@daily x").env == {name: value}


def test_variables_hold_for_the_lines_below() -> None:
    first, second = read_crontab("@daily a\nA=1\nCRON_TZ=Asia/Tokyo\n@daily b").entries
    assert (first.env, first.tz) == ({}, None)
    assert (second.env, second.tz) == ({"A": "1"}, "Asia/Tokyo")


def test_what_only_cron_needs_is_noted() -> None:
    found = read_crontab("MAILTO=me\nSHELL=/bin/bash\n@daily x", "my.tab")
    assert found.notes == ["my.tab, line 1: MAILTO is ignored: output is kept with each job."]
    assert found.entries[0].env == {}
    assert found.entries[0].shell == "/bin/bash"


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        (r"date +\%F", "date +%F", None),
        ("cat%a", "cat", "a\n"),
        ("cat%a%b%", "cat", "a\nb\n"),
        (r"cat%50\% of\n", "cat", "50% of\\n\n"),
        ("cat%", "cat", "\n"),
        (r"a\\%b", r"a\\", "b\n"),
        (r"a \n \\\%", r"a \n \\%", None),
    ],
)
def test_percent_signs(text: str, command: str, stdin: str | None) -> None:
    entry = only(f"@daily {text}")
    assert (entry.command, entry.stdin) == (command, stdin)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("@daily /usr/local/bin/backup.sh --full", "backup"),
        ("@daily cd /srv && FOO=1 ./run.py", "run"),
        ("# Rotate the logs!\n@daily x", "rotate-the-logs"),
        ("# schedule: My Job / 1\n@daily x", "My Job / 1"),
        ("# far away\n\n@daily x", "x"),
        ("# 0 3 * * * old.sh\n@daily x", "x"),
        ("# m h  dom mon dow   command\n@daily x", "x"),
        (f"# {'long ' * 20}\n@daily x", "x"),
        ("@daily ''", "job"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert only(text).name == name


def test_names_that_are_made_differ() -> None:
    names = [entry.name for entry in read_crontab("@daily x\n@hourly x\n@weekly x").entries]
    assert names == ["x", "x-2", "x-3"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@reboot x", "@reboot is no time"),
        ("@often x", "there is no rule '@often'"),
        ("61 * * * * x", "has '61' as minute"),
        ("0 0 31 2 * x", "never comes"),
        ("* * * *", "is neither five fields and a command"),
        ("* * * * *", "has no command behind it"),
        ("@daily %x", "has no command behind it"),
        ("CRON_TZ=Mars/Base", "no time zone 'Mars/Base'"),
        ("# schedule: first\n@daily y", "line 2 is named 'first', too"),
    ],
)
def test_errors_name_their_line(line: str, why: str) -> None:
    number = 3 + line.count("\n")
    with pytest.raises(UsageError) as error:
        read_crontab(f"# schedule: first\n@daily x\n{line}\n", "my.tab")
    assert str(error.value).startswith(f"my.tab, line {number}: ")
    assert why in str(error.value)


# -- writing ------------------------------------------------------------------------------


def test_a_schedule_is_a_line_under_its_name() -> None:
    assert write_crontab([a_schedule()], home=HOME) == (
        "CRON_TZ=UTC\n# schedule: nightly\n0 3 * * * backup.sh\n"
    )
    assert write_crontab([], home=HOME) == ""


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        (a_schedule("every 15m"), "it counts from when it was added"),
        (a_schedule("0 3 L * *"), "cron doesn't know such a rule"),
        (a_schedule("0 3 * * 1#2"), "cron doesn't know such a rule"),
        (a_schedule(request={"command": "a\nb"}), "it has more than a line can say"),
        (a_schedule(request={"command": "x", "stdin": "no end"}), "it has more than a line"),
        (a_schedule(request={"command": "x", "env": {"A": "1\n2"}}), "the variable A can't be set"),
    ],
)
def test_what_no_line_can_say_is_a_comment(schedule: Schedule, why: str) -> None:
    text = write_crontab([schedule], home=HOME)
    assert text.startswith(f"# not in a crontab: nightly: {why}")
    assert read_crontab(text).entries == []


@pytest.mark.parametrize(
    ("schedule", "unsaid"),
    [
        (a_schedule(overlap=Overlap.ALLOW), "overlap is allow"),
        (a_schedule(jitter=5_000), "jitter is 5s"),
        (a_schedule(paused_at=1, paused_by="me"), "it is paused by me"),
        (a_schedule(request={"argv": ["a", "b c"]}), "it is run without a shell"),
        (a_schedule(request={"command": "x", "cwd": "/srv"}), "it runs in /srv"),
        (a_schedule(request={"command": "x", "queue": "slow"}), "queue is slow"),
    ],
)
def test_what_a_line_does_not_say_stands_above_it(schedule: Schedule, unsaid: str) -> None:
    text = write_crontab([schedule], home=HOME)
    assert f"# not said: {unsaid}\n" in text
    assert only(text).name == "nightly"


def test_a_whole_environment_is_not_written() -> None:
    request = {"command": "x", "env_all": True, "env": {"SECRET": "1"}}
    text = write_crontab([a_schedule(request=request)], home=HOME)
    assert "SECRET" not in text
    assert "# not said: it has a whole environment of its own\n" in text


texts = st.text(st.sampled_from("ab \\%'\"#=\n"), min_size=1)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"command": texts},
            optional={
                "stdin": texts,
                "shell": st.sampled_from(["bash", "/bin/dash"]),
                "env": st.dictionaries(st.sampled_from(["A", "B", "HOME"]), texts),
            },
        ),
        max_size=4,
    ),
    st.lists(st.sampled_from(["UTC", "Asia/Tokyo"]), min_size=4),
)
def test_what_is_written_is_read_back(requests: list[dict[str, object]], zones: list[str]) -> None:
    schedules = {
        f"job {number}": a_schedule(name=f"job {number}", request=request, zone=zone)
        for number, (request, zone) in enumerate(zip(requests, zones, strict=False))
    }
    text = write_crontab(schedules.values(), home=HOME)
    back = {entry.name: entry for entry in read_crontab(text).entries}
    assert len(back) + text.count("# not in a crontab: ") == len(schedules)
    for name, entry in back.items():
        request = schedules[name].request
        assert entry.command == request["command"]
        assert entry.stdin == request.get("stdin")
        assert entry.tz == schedules[name].zone
        assert entry.shell in (request.get("shell"), "/bin/sh")
        # Variables of those above can't be unset.
        env = dict(request.get("env", {}))
        assert {**entry.env, **env} == entry.env
        assert all(value == "" for name, value in entry.env.items() if name not in env)
