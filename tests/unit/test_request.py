"""What a user asks for: every field, its limits, its other names, and every way to get it wrong."""

import os
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queuectl.errors import BadJobError
from queuectl.fields import Keywords
from queuectl.job import NewJob, Strategy
from queuectl.request import (
    LONGEST_ARGUMENT,
    LONGEST_COMMAND,
    LONGEST_STDIN,
    SYSTEM_FIELDS,
    check_name,
    current_environment,
    read_request,
    with_environment,
)
from queuectl.when import LATEST
from tests.unit.samples import NOW

INT32 = 2**31 - 1
HUGE = 10**5_000
"""A number that Python itself refuses to print."""


def read(**fields: Any) -> NewJob:
    """Read a request for `true` with some more fields."""
    return read_request({"command": "true", **fields}, now=NOW)


def refusal(asked: Mapping[Any, Any]) -> str:
    """Return the sentence with which a request is refused."""
    with pytest.raises(BadJobError) as caught:
        read_request(asked, now=NOW)
    message = str(caught.value)
    assert len(message) < 700
    assert message.encode("utf-8", "backslashreplace").decode().isprintable()
    return message


class TestWork:
    def test_a_command_alone_is_enough(self) -> None:
        assert read_request({"command": "echo hi"}, now=NOW) == NewJob(command="echo hi")

    def test_an_argv_alone_is_enough(self) -> None:
        asked = {"argv": ["printf", "%s", "a b", "", "ä"]}
        assert read_request(asked, now=NOW) == NewJob(argv=("printf", "%s", "a b", "", "ä"))

    def test_every_field_finds_its_place(self) -> None:
        job = read_request(
            {
                "command": "sleep 1",
                "id": "job-2",
                "queue": "queue-3",
                "priority": 4,
                "delay": "5s",
                "expire": "6s",
                "timeout": "7s",
                "max_retries": 8,
                "backoff": "linear",
                "backoff_base": 9.5,
                "retry_delay": "10s",
                "max_backoff": "11s",
                "cwd": "/folder/12",
                "env": {"NAME_13": "value 14"},
                "tags": ["tag-15", "tag-16"],
                "env_all": True,
                "shell": "shell-17",
                "stdin": "input 18",
            },
            now=NOW,
        )
        assert job == NewJob(
            command="sleep 1",
            id="job-2",
            queue="queue-3",
            priority=4,
            delay=5_000,
            expire=6_000,
            timeout=7_000,
            max_retries=8,
            backoff=Strategy.LINEAR,
            backoff_base=9.5,
            retry_delay=10_000,
            max_backoff=11_000,
            cwd="/folder/12",
            env={"NAME_13": "value 14"},
            tags=("tag-15", "tag-16"),
            env_all=True,
            shell="shell-17",
            stdin=b"input 18",
        )

    def test_every_keyword_of_the_python_interface_is_a_field(self) -> None:
        for name in Keywords.__annotations__:
            message = refusal({name: object()})
            assert "Unknown field" not in message

    @pytest.mark.parametrize("asked", [{}, {"id": "x"}, {"command": None}, {"argv": None}])
    def test_without_work_there_is_no_job(self, asked: dict[str, object]) -> None:
        assert refusal(asked).startswith("A job needs a command")

    def test_command_and_argv_together_are_refused(self) -> None:
        assert refusal({"command": "true", "argv": ["true"]}) == (
            "A job has either a command or an argv; give one of them."
        )

    def test_null_means_not_given(self) -> None:
        assert read(priority=None, tags=None, max_retries=None, max_attempts=None) == read()

    @pytest.mark.parametrize("size", [1, 128 * 1024, LONGEST_COMMAND])
    def test_a_command_may_have_a_mebibyte(self, size: int) -> None:
        command = "x" * size
        assert read_request({"command": command}, now=NOW).command == command

    def test_a_longer_command_is_refused(self) -> None:
        assert refusal({"command": "x" * (LONGEST_COMMAND + 1)}) == (
            "command is 1,048,577 bytes long; at most 1,048,576 are allowed."
        )

    def test_bytes_count_not_characters(self) -> None:
        assert read_request({"command": "ä" * (LONGEST_COMMAND // 2)}, now=NOW)
        assert refusal({"command": "ä" * (LONGEST_COMMAND // 2) + "x"})

    def test_an_argument_may_be_as_long_as_the_system_takes(self) -> None:
        assert read_request({"argv": ["x", "y" * LONGEST_ARGUMENT]}, now=NOW).argv
        message = refusal({"argv": ["x", "y" * (LONGEST_ARGUMENT + 1)]})
        assert message.startswith("argv[1] is 131,072 bytes long")

    def test_all_arguments_together_may_have_a_mebibyte(self) -> None:
        arguments = ["y" * 99_999] * 10
        fits = ["x" * (LONGEST_COMMAND - 10 * 100_000 - 1), *arguments]
        assert read_request({"argv": fits}, now=NOW).argv == tuple(fits)
        assert "in all" in refusal({"argv": [fits[0] + "x", *arguments]})

    @pytest.mark.parametrize("argv", ["ls -l", b"ls", [], (), {}, {"a": 1}, 5, True, {"ls"}])
    def test_an_argv_is_a_list_of_texts(self, argv: object) -> None:
        assert refusal({"argv": argv}).startswith("argv")

    @pytest.mark.parametrize("item", [1, None, True, b"x", ["x"]])
    def test_every_argument_is_text(self, item: object) -> None:
        assert refusal({"argv": ["x", item]}).startswith("argv[1] must be text, not ")

    @pytest.mark.parametrize("program", ["", " ", "\n"])
    def test_the_program_has_a_name(self, program: str) -> None:
        assert refusal({"argv": [program, "x"]}) == "argv[0] is empty."


class TestText:
    """What no text may contain, in whatever field."""

    FIELDS = ("command", "id", "queue", "cwd")

    @pytest.mark.parametrize("field", FIELDS)
    def test_nul_is_refused(self, field: str) -> None:
        assert "contains a NUL byte" in refusal({"command": "true", field: "a\0b"})

    @pytest.mark.parametrize("field", FIELDS)
    @pytest.mark.parametrize("surrogate", ["\ud800", "\udcff", "\udfff"])
    def test_lone_surrogates_are_refused(self, field: str, surrogate: str) -> None:
        message = refusal({"command": "true", field: f"a{surrogate}b"})
        assert message == f"{field} contains bytes that aren't valid UTF-8."

    @pytest.mark.parametrize("field", FIELDS)
    @pytest.mark.parametrize("blank", ["", " ", "\t\n"])
    def test_blank_is_refused(self, field: str, blank: str) -> None:
        assert refusal({"command": "true", field: blank}).startswith(f"{field} ")

    @pytest.mark.parametrize("field", FIELDS)
    @pytest.mark.parametrize("value", [5, 1.5, True, b"x", ["x"], {"x": 1}])
    def test_other_types_are_refused(self, field: str, value: object) -> None:
        message = refusal({"command": "true", field: value})
        assert message == f"{field} must be text, not {type(value).__name__}."

    @pytest.mark.parametrize(
        "asked",
        [
            {"argv": ["x", "a\0b"]},
            {"argv": ["x", "\udcff"]},
            {"command": "x", "tags": ["a\0b"]},
            {"command": "x", "tags": ["\udcff"]},
            {"command": "x", "env": {"A": "a\0b"}},
            {"command": "x", "env": {"A": "\udcff"}},
            {"command": "x", "env": {"A\0": "a"}},
            {"command": "x", "env": {"\udcff": "a"}},
        ],
    )
    def test_nor_may_the_parts_of_lists_and_maps(self, asked: dict[str, object]) -> None:
        message = refusal(asked)
        assert "NUL byte" in message or "aren't valid UTF-8" in message


class TestNames:
    @pytest.mark.parametrize("name", ["a", "Größe 5", "x" * 128, "日" * 128, "a/b:c", "-", "%_!"])
    def test_a_queue_is_one_printable_line(self, name: str) -> None:
        assert read(queue=name).queue == name

    @pytest.mark.parametrize(
        "name", [" a", "a ", "a\nb", "a\tb", "\x1b[31m", "a\u200bb", "a\u2028b"]
    )
    def test_anything_else_is_refused(self, name: str) -> None:
        for field in ("queue", "id"):
            assert f"{field} must be printable" in refusal({"command": "x", field: name})

    def test_lengths_count_characters(self) -> None:
        assert read(id="日" * 256).id == "日" * 256
        assert refusal({"command": "x", "id": "日" * 257}) == (
            "id has 257 characters; at most 256 are allowed."
        )
        assert refusal({"command": "x", "queue": "x" * 129}) == (
            "queue has 129 characters; at most 128 are allowed."
        )

    def test_the_same_check_serves_the_commands(self) -> None:
        assert check_name("queue", "high") == "high"
        with pytest.raises(BadJobError, match="queue must be text, not int"):
            check_name("queue", 5)


class TestNumbers:
    @pytest.mark.parametrize(
        ("value", "priority"),
        [
            (0, 0),
            (-5, -5),
            (INT32, INT32),
            (-INT32 - 1, -INT32 - 1),
            ("7", 7),
            ("+7", 7),
            (" -7 ", -7),
        ],
    )
    def test_priority_is_any_signed_32_bit_number(self, value: object, priority: int) -> None:
        assert read(priority=value).priority == priority

    @pytest.mark.parametrize(
        "value",
        [INT32 + 1, -INT32 - 2, 2**63, 10**30, str(2**31), "9" * 39],
    )
    def test_out_of_range_says_the_range(self, value: object) -> None:
        message = refusal({"command": "x", "priority": value})
        assert message.startswith("priority must be from -2147483648 to 2147483647, not ")

    @pytest.mark.parametrize("field", ["priority", "max_retries", "max_attempts", "timeout_ms"])
    @pytest.mark.parametrize(
        "value",
        [
            True,
            False,
            1.0,
            1.5,
            float("nan"),
            float("inf"),
            "",
            " ",
            "x",
            "1.5",
            "1e3",
            "0x10",
            "--5",
            "+-5",
            "-",
            "5-",
            b"5",
            [5],
            {"a": 5},
        ],
    )
    def test_what_is_no_whole_number_is_refused(self, field: str, value: object) -> None:
        message = refusal({"command": "x", field: value})
        assert message.startswith(f"{field} must be a whole number, not ")

    @pytest.mark.parametrize("value", [HUGE, -HUGE, "9" * 5_000], ids=["huge", "-huge", "text"])
    @pytest.mark.parametrize(
        "field",
        [
            "priority",
            "max_retries",
            "max_attempts",
            "timeout_ms",
            "timeout",
            "delay",
            "run_at",
            "backoff_base",
            "retry_delay",
        ],
    )
    def test_numbers_too_long_to_print_are_refused(self, field: str, value: object) -> None:
        assert field in refusal({"command": "x", field: value})

    def test_max_retries_counts_retries(self) -> None:
        assert read(max_retries=0).max_retries == 0
        assert read(max_retries="2").max_retries == 2
        assert read(max_retries=INT32).max_retries == INT32
        assert "from 0 to" in refusal({"command": "x", "max_retries": -1})

    def test_max_attempts_counts_runs(self) -> None:
        assert read(max_attempts=1).max_retries == 0
        assert read(max_attempts=3).max_retries == 2
        assert "from 1 to" in refusal({"command": "x", "max_attempts": 0})


class TestTimes:
    @pytest.mark.parametrize(
        ("value", "ms"),
        [
            (0, 0),
            (30, 30_000),
            (1.5, 1_500),
            ("30", 30_000),
            ("1h30m", 5_400_000),
            (timedelta(minutes=2, milliseconds=3), 120_003),
        ],
    )
    @pytest.mark.parametrize("field", ["delay", "expire", "timeout", "timeout_seconds"])
    def test_durations(self, field: str, value: object, ms: int) -> None:
        job = read(**{field: value})
        assert getattr(job, field.removesuffix("_seconds")) == ms

    @pytest.mark.parametrize(
        "value",
        [
            True,
            -1,
            -0.5,
            "-1s",
            "soon",
            "",
            float("nan"),
            float("inf"),
            10**30,
            b"5s",
            [5],
            timedelta(seconds=-1),
            timedelta.max,
            "101y",
            "40000d",
        ],
    )
    @pytest.mark.parametrize(
        "field", ["delay", "expire", "timeout", "timeout_seconds", "retry_delay", "max_backoff"]
    )
    def test_what_is_no_duration_is_refused(self, field: str, value: object) -> None:
        assert field in refusal({"command": "x", field: value})

    def test_timeout_ms_counts_milliseconds(self) -> None:
        assert read(timeout_ms=1_500).timeout == 1_500
        assert read(timeout_ms="7").timeout == 7
        assert read(timeout_ms=0).timeout == 0
        assert "timeout_ms" in refusal({"command": "x", "timeout_ms": -1})
        assert "100 years" in refusal({"command": "x", "timeout_ms": 10**14})

    @given(st.integers(0, 36_525 * 24 * 3600 * 1000))
    def test_timeout_ms_is_exact(self, ms: int) -> None:
        assert read(timeout_ms=ms).timeout == ms

    @pytest.mark.parametrize(
        ("value", "moment"),
        [
            ("now", NOW),
            ("+5m", NOW + 300_000),
            ("2030-01-31T09:00:00.123Z", 1_896_080_400_123),
            ("2001-09-09T01:46:40Z", 10**12),
            ("1960-01-01T00:00Z", 0),
            ("@1731672000", 1_731_672_000_000),
            (datetime(2030, 1, 31, 9, tzinfo=UTC), 1_896_080_400_000),
            (datetime(2030, 1, 31, 9, tzinfo=timezone(timedelta(hours=2))), 1_896_073_200_000),
            (datetime(1960, 1, 1, tzinfo=UTC), 0),
        ],
    )
    @pytest.mark.parametrize("field", ["run_at", "expires_at"])
    def test_moments(self, field: str, value: object, moment: int) -> None:
        assert getattr(read(**{field: value}), field) == moment

    @given(st.integers(0, LATEST))
    @example(NOW + 1)
    @example(1_500_000_000_003)
    def test_a_datetime_keeps_its_milliseconds(self, ms: int) -> None:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        assert read(run_at=moment).run_at == ms

    @pytest.mark.parametrize(
        "moment",
        [
            datetime.min,
            datetime.max,
            datetime.min.replace(tzinfo=UTC),
            datetime.max.replace(tzinfo=UTC),
            datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        ],
    )
    def test_the_ends_of_the_calendar_are_read_or_refused(self, moment: datetime) -> None:
        try:
            run_at = read(run_at=moment).run_at
        except BadJobError as error:
            assert "run_at" in str(error)
        else:
            assert run_at is not None
            assert 0 <= run_at <= LATEST

    @pytest.mark.parametrize(
        "value", ["soon", "", "25:00", "2030-02-30", "30", 0, 1731672000, 1.5, True, b"now", [1]]
    )
    @pytest.mark.parametrize("field", ["run_at", "expires_at"])
    def test_what_is_no_moment_is_refused(self, field: str, value: object) -> None:
        assert field in refusal({"command": "x", field: value})

    def test_a_bare_number_is_refused_with_the_way_to_say_it(self) -> None:
        assert "'@1731672000'" in refusal({"command": "x", "run_at": 1731672000})


class TestRetries:
    def test_a_retry_delay_alone_means_a_fixed_wait(self) -> None:
        assert read(retry_delay=5).backoff == Strategy.FIXED
        assert read(retry_delay=5, backoff="linear").backoff == Strategy.LINEAR
        assert read().backoff is None

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("backoff", "quadratic"),
            ("backoff", 5),
            ("backoff_base", 0.5),
            ("backoff_base", "two"),
            ("backoff_base", True),
            ("backoff_base", float("nan")),
        ],
    )
    def test_they_are_checked_like_the_settings(self, field: str, value: object) -> None:
        assert refusal({"command": "x", field: value}).startswith(f"Bad {field}: {field} takes ")


class TestTwice:
    @pytest.mark.parametrize(
        "asked",
        [
            {"max_retries": 2, "max_attempts": 3},
            {"run_at": "now", "delay": 5},
            {"expire": 5, "expires_at": "now"},
            {"timeout": 5, "timeout_ms": 5_000},
            {"timeout": 5, "timeout_seconds": 5},
            {"timeout_ms": 5_000, "timeout_seconds": 5},
        ],
    )
    def test_two_ways_to_say_one_thing_are_refused(self, asked: dict[str, object]) -> None:
        message = refusal({"command": "x", **asked})
        assert message.endswith("say the same thing twice; give one of them.")
        assert all(name in message for name in asked)

    @pytest.mark.parametrize(
        "asked",
        [
            {"max_retries": 1, "max-retries": 2},
            {"tag": "a", "tags": ["b"]},
            {"run_at": "now", "run_after": "+5m"},
            {"max_backoff": 5, "max_backoff_seconds": 6},
        ],
    )
    def test_two_names_of_one_field_are_refused(self, asked: dict[str, object]) -> None:
        refusal({"command": "x", **asked})
        refusal({"command": "x", **dict(reversed(asked.items()))})

    def test_null_does_not_count(self) -> None:
        assert read(max_retries=2, max_attempts=None).max_retries == 2


class TestFieldNames:
    @pytest.mark.parametrize(
        ("name", "field", "value", "result"),
        [
            ("max-retries", "max_retries", 4, 4),
            ("run-at", "run_at", "now", NOW),
            ("run_after", "run_at", "now", NOW),
            ("tag", "tags", "red", ("red",)),
            ("max_backoff_seconds", "max_backoff", 5, 5_000),
            (" queue ", "queue", "q", "q"),
        ],
    )
    def test_other_names(self, name: str, field: str, value: object, result: object) -> None:
        assert getattr(read(**{name: value}), field) == result

    @pytest.mark.parametrize("name", sorted(SYSTEM_FIELDS))
    def test_what_only_the_system_sets_is_refused(self, name: str) -> None:
        assert refusal({"command": "x", name: 1}) == (
            f"The field {name!r} is set by queuectl only; leave it out."
        )

    @pytest.mark.parametrize("name", ["state", "attempts", "failures", "crashes", "exit_code"])
    def test_the_fields_that_would_forge_a_run_are_among_them(self, name: str) -> None:
        assert name in SYSTEM_FIELDS

    @pytest.mark.parametrize(
        ("name", "nearest"),
        [
            ("comand", "command"),
            ("prioriy", "priority"),
            ("max_retry", "max_retries"),
            ("Queue", "queue"),
            ("time_out", "timeout"),
        ],
    )
    def test_an_unknown_one_gets_the_nearest(self, name: str, nearest: str) -> None:
        message = refusal({name: "x"})
        assert message == f"Unknown field {name!r}; did you mean {nearest!r}?"

    def test_what_others_call_dependencies_is_known(self) -> None:
        assert refusal({"depends": "a"}) == ("Unknown field 'depends'; that is called \"after\".")
        assert '"ID:any"' in refusal({"finally": "a"})

    @pytest.mark.parametrize("name", ["zzz", "", " ", "日本", "x" * 10_000, "\ud800", "a\nb"])
    def test_one_like_no_other_gets_the_valid_ones(self, name: str) -> None:
        message = refusal({"command": "x", name: "y"})
        assert "valid fields: after, after_group, argv" in message or "did you mean" in message

    @pytest.mark.parametrize("name", [1, None, True, 1.5, b"command", ("a",)])
    def test_a_name_that_is_no_text_is_refused(self, name: object) -> None:
        assert "field" in refusal({"command": "x", name: "y"}).lower()


class TestFolder:
    def test_an_absolute_path_stays(self) -> None:
        assert read(cwd="/a/b").cwd == "/a/b"

    def test_a_relative_one_starts_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert read(cwd="sub/../other").cwd == f"{tmp_path}/other"

    def test_a_relative_one_needs_a_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert "cwd" in refusal({"command": "x", "cwd": "relative"})

    def test_a_path_object_will_do(self) -> None:
        assert read(cwd=PurePosixPath("/a/b")).cwd == "/a/b"

    def test_too_long_is_refused(self) -> None:
        assert refusal({"command": "x", "cwd": "/" + "x" * 4_096}).startswith("cwd is 4,097 bytes")


class TestEnvironment:
    def test_names_and_texts(self) -> None:
        env = {"A": "1", "lower": "", "WITH SPACE": "a=b", "Ü": "\n"}
        assert read(env=env).env == env

    @pytest.mark.parametrize("env", ["A=1", ["A=1"], 5, True, [("A", "1")]])
    def test_is_a_map(self, env: object) -> None:
        assert refusal({"command": "x", "env": env}).startswith("env must map names to texts")

    @pytest.mark.parametrize("value", [1, None, True, b"x", ["x"]])
    def test_values_are_text(self, value: object) -> None:
        message = refusal({"command": "x", "env": {"A": value}})
        assert message.startswith("env[A] must be text, not ")

    @pytest.mark.parametrize("name", ["", " ", "A=B", "=", 1, None, "x" * 1_025])
    def test_names_are_names(self, name: object) -> None:
        assert "name in env" in refusal({"command": "x", "env": {name: "1"}})

    @pytest.mark.parametrize("name", ["QUEUECTL_DB", "QUEUECTL_JOB_ID", "QUEUECTL_"])
    def test_what_queuectl_sets_is_refused(self, name: str) -> None:
        message = refusal({"command": "x", "env": {name: "1"}})
        assert message == f"{name} is set by queuectl only; choose another name."

    def test_a_value_the_system_would_not_take_is_refused(self) -> None:
        longest = LONGEST_ARGUMENT - 1024
        assert read(env={"A": "x" * longest}).env["A"]
        assert "env[A] is 130,048 bytes" in refusal(
            {"command": "x", "env": {"A": "x" * (longest + 1)}}
        )

    def test_all_of_it_may_have_a_mebibyte(self) -> None:
        names = [f"NAME_{n:02}" for n in range(16)]
        full = dict.fromkeys(names, "x" * (2**16 - len("NAME_00") - 2))
        assert read(env=full).env == full
        message = refusal({"command": "x", "env": full | {"ONE": ""}})
        assert message.startswith("env has 1,048,581 bytes in all; at most 1,048,576")

    @pytest.mark.parametrize("value", ["yes", 1, 0, "", []])
    def test_whether_it_is_whole_is_true_or_false(self, value: object) -> None:
        assert refusal({"command": "x", "env_all": value}).startswith("env_all must be true or")
        assert read(env_all=False).env_all is False
        assert read().env_all is None


class TestWholeEnvironment:
    def test_all_but_what_must_not_travel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = {"PATH": "/venv/bin:/bin", "BASH_FUNC_f%%": "() {\n  x\n}", "EMPTY": "", "Ü": "ü"}
        left = "_ SHLVL PWD OLDPWD QUEUECTL_DB QUEUECTL_JOB_ID _QUEUECTL_COMPLETE PGPASSWORD"
        monkeypatch.setattr(os, "environ", kept | dict.fromkeys(left.split(), "left"))
        assert current_environment(("PGPASSWORD", "PGSSLPASSWORD")) == kept
        assert current_environment() == kept | {"PGPASSWORD": "left"}

    def test_what_is_no_text_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ODD", "sec\udcffret")
        with pytest.raises(BadJobError) as caught:
            current_environment()
        assert str(caught.value) == (
            "All of the environment can't be kept: the variable 'ODD' of this environment contains"
            " bytes that aren't valid UTF-8; unset it, or name with env what the job needs."
        )

    def test_what_is_given_lies_over_it(self) -> None:
        whole = with_environment({"A": "1", "B": "2"}, {"B": "3", "C": "4"})
        assert whole == {"A": "1", "B": "3", "C": "4"}

    def test_more_than_a_program_can_be_handed_is_refused(self) -> None:
        whole = {f"NAME_{n}": "x" * 100_000 for n in range(10)}
        with pytest.raises(BadJobError, match=r"the whole environment has 1,1\d\d,\d\d\d bytes"):
            with_environment(whole, {"MORE": "x" * 100_000})


class TestShell:
    @pytest.mark.parametrize("shell", ["bash", "/bin/zsh", "/opt/my tools/sh", "./sh"])
    def test_is_a_program(self, shell: str) -> None:
        assert read(shell=shell).shell == shell

    @pytest.mark.parametrize("shell", ["", " ", "bash -e", "-c", "ba\nsh", "x" * 1_001, 5, ["sh"]])
    def test_is_one_program_and_nothing_else(self, shell: object) -> None:
        message = refusal({"command": "x", "shell": shell})
        assert message.startswith("Bad shell: shell takes the name or path of one program, without")

    def test_a_program_with_arguments_needs_none(self) -> None:
        message = refusal({"argv": ["x"], "shell": "bash"})
        assert message == "A program with its arguments runs without a shell; leave shell out."


class TestStdin:
    @pytest.mark.parametrize("given", ["a\nü", "a\nü".encode(), bytearray("a\nü".encode())])
    def test_is_text_or_bytes(self, given: object) -> None:
        assert read(stdin=given).stdin == b"a\n\xc3\xbc"

    @pytest.mark.parametrize("given", [5, ["a"], True, {"a": "b"}])
    def test_is_nothing_else(self, given: object) -> None:
        assert refusal({"command": "x", "stdin": given}).startswith("stdin must be text or bytes")

    def test_may_be_base64(self) -> None:
        assert read(stdin_base64="AP8K\n").stdin == b"\0\xff\n"
        assert read(stdin_base64="").stdin == b""
        for wrong in ("AP8", "A*8=", "ü"):
            assert refusal({"command": "x", "stdin_base64": wrong}).endswith("valid base64.")

    def test_is_given_once(self) -> None:
        asked = {"command": "x", "stdin": "a", "stdin_base64": "YQ=="}
        assert refusal(asked).startswith("stdin and stdin_base64 say the same thing twice")

    def test_has_16_mebibytes_at_most(self) -> None:
        data = bytes(LONGEST_STDIN)
        assert read(stdin=data).stdin == data
        data += b"x"
        for name, long in (("stdin", data), ("stdin_base64", b64encode(data).decode())):
            message = refusal({"command": "x", name: long})
            assert message.startswith(f"{name} has 16,777,217 bytes; at most 16,777,216 are kept")

    def test_what_is_no_text_is_refused(self) -> None:
        assert "valid UTF-8" in refusal({"command": "x", "stdin": "\udcff"})


class TestTrace:
    PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    def test_it_is_kept_as_w3c_has_it(self) -> None:
        job = read(traceparent=self.PARENT, tracestate=" a=1 , b=2")
        assert (job.traceparent, job.tracestate) == (self.PARENT, "a=1,b=2")

    @pytest.mark.parametrize("wrong", ["", "x", PARENT.upper(), PARENT + " ", 7, True, [PARENT]])
    def test_what_is_wrong_is_refused(self, wrong: object) -> None:
        told = refusal({"command": "true", "traceparent": wrong})
        assert told.startswith("traceparent must be as W3C Trace Context has it, such as 00-4bf9")

    @pytest.mark.parametrize("wrong", ["", "A=1", "a=1,a=2", "a=" + "x" * 600, 7])
    def test_a_wrong_state_is_refused(self, wrong: object) -> None:
        told = refusal({"command": "true", "traceparent": self.PARENT, "tracestate": wrong})
        assert told.startswith("tracestate must be a list of NAME=VALUE of at most 512 characters")

    def test_a_state_needs_a_trace(self) -> None:
        told = refusal({"command": "true", "tracestate": "a=1"})
        assert told == "A tracestate goes with a trace; give its traceparent, too."


class TestTags:
    def test_a_text_is_one_tag(self) -> None:
        assert read(tags="red").tags == ("red",)

    def test_a_list_keeps_its_order_and_loses_doubles(self) -> None:
        assert read(tags=["b", "a", "b"]).tags == ("b", "a")

    def test_none_at_all(self) -> None:
        assert read(tags=[]).tags == ()

    def test_64_are_the_most(self) -> None:
        many = [f"tag{n}" for n in range(64)]
        assert read(tags=many).tags == tuple(many)
        assert read(tags=[*many, "tag0"]).tags == tuple(many)
        assert refusal({"command": "x", "tags": [*many, "one more"]}) == (
            "A job can have at most 64 tags, not 65."
        )

    @pytest.mark.parametrize("tags", [5, True, {"a": 1}, {"a"}])
    def test_are_a_list(self, tags: object) -> None:
        assert refusal({"command": "x", "tags": tags}) == "tags must be a list of texts."

    @pytest.mark.parametrize("tag", ["", " ", " a", "a\nb", 5, None, True, ["a"], "x" * 129])
    def test_are_names(self, tag: object) -> None:
        assert refusal({"command": "x", "tags": [tag]}).startswith("a tag ")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["+-5", "1e3", "+5m", "now", "@9", "\ud800", "a\0b", "-0", "٣", "9" * 30]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
python_values = (
    st.binary()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.timedeltas()
    | st.decimals()
    | st.fractions()
    | st.integers(2**60, 2**80)
    | st.builds(PurePosixPath, st.just("x"))
)
field_names = (
    st.sampled_from(sorted(Keywords.__annotations__))
    | st.sampled_from(["tag", "run-at", "state", "after", "comand"])
    | st.text()
)


class TestAnything:
    """Whatever is asked, the answer is a job or a `BadJobError`: nothing else ever escapes."""

    @given(st.dictionaries(field_names, json_values | python_values, max_size=5), st.booleans())
    @example({"command": "x", "priority": "+-5"}, False)
    @example({"command": "x", "run_at": datetime.min}, False)
    @example({1: "x"}, False)
    def test_is_a_job_or_a_refusal(self, fields: dict[Any, Any], work: bool) -> None:
        try:
            job = read_request({"command": "true", **fields} if work else fields, now=NOW)
        except BadJobError as error:
            assert str(error)
        else:
            check_sound(job)

    @given(st.text(), st.sampled_from(["command", "id", "queue", "cwd", "run_at", "delay"]))
    def test_any_text_in_any_field(self, text: str, field: str) -> None:
        try:
            check_sound(read_request({"command": "true", field: text}, now=NOW))
        except BadJobError as error:
            assert str(error)

    @given(st.lists(st.text() | json_values, max_size=4))
    def test_any_list(self, items: list[Any]) -> None:
        for fields in ({"argv": items}, {"command": "x", "tags": items}):
            try:
                check_sound(read_request(fields, now=NOW))
            except BadJobError as error:
                assert str(error)


def check_sound(job: NewJob) -> None:
    """Check that a request that was let through can be stored and run."""
    assert [job.command, job.argv, job.data].count(None) == 2
    assert -INT32 - 1 <= job.priority <= INT32
    texts = [job.command or "x", *(job.argv or ()), job.id or "x", job.queue, job.cwd or "/"]
    for text in [*texts, *job.tags, *job.env, *job.env.values()]:
        assert "\0" not in text.encode().decode()
    for ms in (job.run_at, job.expires_at):
        assert ms is None or 0 <= ms <= LATEST
    for ms in (job.delay, job.expire, job.timeout, job.retry_delay, job.max_backoff):
        assert ms is None or 0 <= ms <= 36_525 * 24 * 3600 * 1000
    assert job.max_retries is None or 0 <= job.max_retries <= INT32
