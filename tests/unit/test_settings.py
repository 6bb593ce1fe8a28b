"""Settings: names and aliases, values that are read and refused, layers, files, environment."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl import settings
from queuectl.errors import BadSettingError
from queuectl.job import Strategy
from queuectl.settings import (
    NAMES,
    SPECS,
    Layer,
    Settings,
    canonical,
    environment_layer,
    find_file,
    layered,
    read_file,
    read_value,
    unknown_variables,
    write_value,
)

ALIASES = {
    "backoff_strategy": "backoff",
    "job_retry_delay": "retry_delay",
    "max_backoff_seconds": "max_backoff",
    "timeout": "job_timeout",
    "max_concurrent_jobs": "workers",
    "concurrency": "workers",
    "lock_lease_seconds": "lease",
    "worker_heartbeat_interval": "heartbeat",
    "default_max_tries": "max_attempts",
}
DAY = 24 * 3600 * 1000

anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.lists(st.integers(), max_size=3)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)


DEEP = b"a = " + b"[" * 5_000


class TestNames:
    def test_every_setting_is_explained_in_a_sentence(self) -> None:
        for name in NAMES:
            assert SPECS[name].help.endswith(".")
            assert SPECS[name].help[0].isupper()

    @pytest.mark.parametrize("name", [*NAMES, "max_attempts"])
    def test_a_name_stands_for_itself(self, name: str) -> None:
        assert canonical(name) == name

    @pytest.mark.parametrize(("alias", "name"), ALIASES.items())
    def test_other_names_are_accepted(self, alias: str, name: str) -> None:
        assert canonical(alias) == name

    def test_there_are_no_other_aliases(self) -> None:
        found = {alias for name in NAMES for alias in SPECS[name].aliases}
        assert found == set(ALIASES) - {"default_max_tries"}

    @pytest.mark.parametrize("name", ["max-retries", "MAX_RETRIES", " Max-Retries "])
    def test_dashes_letter_case_and_spaces_around_do_not_matter(self, name: str) -> None:
        assert canonical(name) == "max_retries"

    def test_a_dashed_alias_is_one_too(self) -> None:
        assert canonical("Lock-Lease-Seconds") == "lease"

    @pytest.mark.parametrize(
        ("name", "nearest"),
        [
            ("max_retry", "max_retries"),
            ("hartbeat", "heartbeat"),
            ("max_attempt", "max_attempts"),
            ("backof", "backoff"),
        ],
    )
    def test_an_unknown_name_gets_the_nearest(self, name: str, nearest: str) -> None:
        with pytest.raises(BadSettingError) as caught:
            canonical(name)
        assert str(caught.value) == f"There is no setting {name!r}; did you mean {nearest}?"

    @pytest.mark.parametrize("name", ["", " ", "zzz", "color", "x" * 10_000, "\ud800"])
    def test_a_name_like_no_other_gets_the_valid_ones(self, name: str) -> None:
        with pytest.raises(BadSettingError) as caught:
            canonical(name)
        valid = ", ".join(sorted(NAMES))
        assert str(caught.value) == f"There is no setting {name!r}; there are {valid}."

    @given(st.text())
    def test_any_text_is_a_name_or_an_error(self, name: str) -> None:
        with suppress(BadSettingError):
            assert canonical(name) in (*NAMES, "max_attempts")


class TestValues:
    @pytest.mark.parametrize(
        ("name", "value", "typed"),
        [
            ("max_retries", 5, 5),
            ("max_retries", "5", 5),
            ("max_retries", " 0 ", 0),
            ("max_retries", 3.0, 3),
            ("max_retries", 2**31 - 1, 2**31 - 1),
            ("backoff", "linear", Strategy.LINEAR),
            ("backoff", " FIXED ", Strategy.FIXED),
            ("backoff", Strategy.EXPONENTIAL, Strategy.EXPONENTIAL),
            ("backoff_base", 1, 1.0),
            ("backoff_base", "1.5", 1.5),
            ("backoff_base", "1e9", 1e9),
            ("retry_delay", "1m30s", 90_000),
            ("retry_delay", 1.5, 1_500),
            ("max_backoff", 0, 0),
            ("jitter", "0.25", 0.25),
            ("jitter", 1, 1.0),
            ("job_timeout", "1h", 3_600_000),
            ("expire", "4d", 4 * DAY),
            ("max_crashes", "1", 1),
            ("kill_grace", "0", 0),
            ("kill_grace", "1d", DAY),
            ("output_limit", "64k", 65_536),
            ("output_limit", 0, 0),
            ("output_limit", "512MiB", 2**29),
            ("workers", "10000", 10_000),
            ("lease", "1s", 1_000),
            ("heartbeat", "100ms", 100),
            ("retention", "30d", 30 * DAY),
            ("dlq_retention", "90d", 90 * DAY),
            ("events_retention", "365d", 365 * DAY),
            ("emitted_retention", "365d", 365 * DAY),
            ("log_size", "1k", 1_024),
            ("log_files", 0, 0),
            ("shell", " bash ", "bash"),
            ("shell", "/opt/my tools/zsh", "/opt/my tools/zsh"),
            ("env_all", True, True),
            ("env_all", " Yes ", True),
            ("env_all", "off", False),
            ("env_all", 0, False),
        ],
    )
    def test_reads(self, name: str, value: object, typed: Any) -> None:
        assert read_value(name, value) == (name, typed)
        assert type(read_value(name, value)[1]) is type(typed)

    @pytest.mark.parametrize(
        ("name", "value", "wanted"),
        [
            ("max_retries", -1, "a whole number from 0 to 2147483647"),
            ("max_retries", 2**31, "a whole number from 0 to 2147483647"),
            ("max_retries", 10**30, "a whole number from 0 to 2147483647"),
            ("max_retries", "many", "a whole number"),
            ("max_retries", "", "a whole number"),
            ("max_retries", "1.5", "a whole number"),
            ("max_retries", 1.5, "a whole number"),
            ("max_retries", float("nan"), "a whole number"),
            ("max_retries", float("inf"), "a whole number"),
            ("max_retries", True, "a whole number"),
            ("max_retries", None, "a whole number"),
            ("max_retries", [3], "a whole number"),
            pytest.param("max_retries", "9" * 5_000, "a whole number", id="5000 digits of text"),
            pytest.param("max_retries", 10**5_000, "a whole number", id="5000 digits"),
            ("max_crashes", 0, "a whole number from 1 to"),
            ("workers", 0, "a whole number from 1 to 10000"),
            ("workers", 10_001, "a whole number from 1 to 10000"),
            ("log_files", 1_001, "a whole number from 0 to 1000"),
            ("backoff", "quadratic", "one of exponential, linear, fixed"),
            ("backoff", None, "one of exponential, linear, fixed"),
            ("backoff_base", 0.99, "a number from 1 to 1e+09"),
            ("backoff_base", 1.1e9, "a number from 1 to 1e+09"),
            ("backoff_base", "nan", "a number from 1"),
            ("backoff_base", "two", "a number from 1"),
            ("backoff_base", True, "a number from 1"),
            pytest.param("backoff_base", 10**5_000, "a number from 1", id="base of 5000 digits"),
            ("jitter", -0.1, "a number from 0 to 1"),
            ("jitter", 1.01, "a number from 0 to 1"),
            ("retry_delay", "soon", "a duration such as 30s"),
            ("retry_delay", "-5s", "a duration such as 30s"),
            ("retry_delay", True, "a duration such as 30s"),
            ("retry_delay", None, "a duration such as 30s"),
            ("retry_delay", b"5s", "a duration such as 30s"),
            ("kill_grace", "1d1ms", "a duration of at most 1d"),
            ("lease", "999ms", "a duration of at least 1s"),
            ("lease", "25h", "a duration of at most 1d"),
            ("heartbeat", "99ms", "a duration of at least 100ms"),
            ("output_limit", "1x", "a size such as 1.5G, 512M or 64MiB"),
            ("output_limit", "-1", "a size such as"),
            ("output_limit", "1.5", "a size such as"),
            ("output_limit", "", "a size such as"),
            ("output_limit", "k", "a size such as"),
            ("output_limit", True, "a size such as"),
            ("output_limit", 2**29 + 1, "a size from 0 to 512MiB"),
            ("output_limit", 2**41, "a size of at most 1024 GiB"),
            pytest.param("output_limit", "9" * 5_000, "a size", id="size of 5000 digits of text"),
            pytest.param("output_limit", 10**5_000, "a size", id="size of 5000 digits"),
            ("log_size", 1_023, "a size from 1KiB to 1024GiB"),
            ("shell", "bash -e", "the name or path of one program, without options"),
            ("shell", "", "the name or path of one program"),
            ("shell", None, "the name or path of one program"),
            ("env_all", "some", "true or false"),
            ("env_all", None, "true or false"),
        ],
    )
    def test_refuses_and_says_what_it_takes(self, name: str, value: object, wanted: str) -> None:
        with pytest.raises(BadSettingError) as caught:
            read_value(name, value)
        message = str(caught.value)
        assert message.startswith(f"{name} takes {wanted}")
        assert len(message) < 200

    def test_the_message_uses_the_name_that_was_given(self) -> None:
        with pytest.raises(BadSettingError, match=r"^Lock-Lease-Seconds takes a duration"):
            read_value("Lock-Lease-Seconds", "x")

    @pytest.mark.parametrize("name", ["max_attempts", "max-attempts", "default_max_tries"])
    def test_max_attempts_counts_runs(self, name: str) -> None:
        assert read_value(name, "3") == ("max_retries", 2)
        assert read_value(name, 1) == ("max_retries", 0)
        with pytest.raises(BadSettingError, match=f"^{name} takes a whole number from 1 to"):
            read_value(name, 0)

    @given(st.sampled_from([*NAMES, "max_attempts", *ALIASES]), anything)
    def test_any_value_is_read_or_refused_in_one_sentence(self, name: str, value: object) -> None:
        try:
            key, typed = read_value(name, value)
        except BadSettingError as error:
            assert str(error).startswith(f"{name} takes ")
            assert str(error).endswith(".")
            assert len(str(error)) < 300
        else:
            assert isinstance(typed, type(getattr(Settings(), key)))


class TestTexts:
    @pytest.mark.parametrize(
        ("name", "value", "key", "text"),
        [
            ("max_retries", 4, "max_retries", "4"),
            ("max-attempts", "4", "max_retries", "3"),
            ("backoff", "LINEAR", "backoff", "linear"),
            ("backoff_base", "3", "backoff_base", "3"),
            ("backoff_base", 1.5, "backoff_base", "1.5"),
            ("timeout", 90, "job_timeout", "1m30s"),
            ("output_limit", 1_048_576, "output_limit", "1MiB"),
            ("output_limit", 1_000, "output_limit", "1000"),
            ("output_limit", "0", "output_limit", "0"),
            ("env_all", "ON", "env_all", "true"),
            ("shell", "zsh", "shell", "zsh"),
        ],
    )
    def test_values_are_kept_the_way_a_person_types_them(
        self, name: str, value: object, key: str, text: str
    ) -> None:
        assert write_value(name, value) == (key, text)

    def test_bad_values_are_not_written(self) -> None:
        with pytest.raises(BadSettingError):
            write_value("jitter", 2)

    def test_max_attempts_is_shown_as_runs(self) -> None:
        assert Settings(max_retries=2).text("max-attempts") == "3"
        assert Settings(max_retries=2).text("default_max_tries") == "3"

    @pytest.mark.parametrize("name", NAMES)
    def test_the_default_is_written_and_read_back(self, name: str) -> None:
        default = getattr(Settings(), name)
        assert read_value(name, Settings().text(name)) == (name, default)

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("backoff_base", st.floats(1, 1e9)),
            ("jitter", st.floats(0, 1)),
            ("retry_delay", st.integers(0, 36_525 * DAY)),
            ("output_limit", st.integers(0, 2**29)),
            ("log_size", st.integers(2**10, 2**40)),
            ("max_retries", st.integers(0, 2**31 - 1)),
        ],
    )
    def test_any_value_is_written_and_read_back(
        self, name: str, values: st.SearchStrategy[Any]
    ) -> None:
        @given(values)
        def holds(value: Any) -> None:
            written = Settings(**{name: value}).text(name)
            assert read_value(name, written) == (name, value)

        holds()


class TestLayers:
    def test_without_layers_everything_is_the_default(self) -> None:
        assert layered([]) == (Settings(), {})

    def test_the_first_layer_wins_and_each_value_knows_its_source(self) -> None:
        layers = [
            Layer("the command line", {"max-retries": 1}),
            Layer("the environment", {"max_retries": "2", "jitter": "0.5"}),
            Layer("a file", {"max_retries": 3, "jitter": 0.25, "workers": 7}),
            Layer("the config table", {"max_retries": "4", "lease": "20s"}),
        ]
        settings, sources = layered(layers)
        assert settings == Settings(max_retries=1, jitter=0.5, workers=7, lease=20_000)
        assert sources == {
            "max_retries": "the command line",
            "jitter": "the environment",
            "workers": "a file",
            "lease": "the config table",
        }

    def test_max_attempts_outranks_max_retries_of_a_weaker_layer(self) -> None:
        settings, sources = layered(
            [Layer("strong", {"max_attempts": 5}), Layer("weak", {"max_retries": 9})]
        )
        assert settings.max_retries == 4
        assert sources == {"max_retries": "strong"}

    @pytest.mark.parametrize(
        "values",
        [
            {"max_retries": 2, "max_attempts": 3},
            {"max-retries": 2, "max_retries": 2},
            {"lease": "20s", "lock_lease_seconds": 20},
        ],
    )
    def test_one_layer_may_not_say_a_thing_twice(self, values: dict[str, object]) -> None:
        one, other = values
        with pytest.raises(BadSettingError, match=f"a file sets both {one} and {other}"):
            layered([Layer("a file", values)])

    def test_an_error_names_the_layer_even_one_that_would_be_outranked(self) -> None:
        layers = [Layer("the environment", {"jitter": 0}), Layer("a file", {"jitter": "much"})]
        with pytest.raises(BadSettingError, match=r"^In a file: jitter takes a number"):
            layered(layers)

    def test_an_unknown_name_names_the_layer(self) -> None:
        with pytest.raises(BadSettingError, match=r"^In a file: There is no setting 'jiter'"):
            layered([Layer("a file", {"jiter": 0})])

    def test_heartbeat_of_half_the_lease_is_the_most(self) -> None:
        assert Settings(lease=10_000, heartbeat=5_000).check()
        with pytest.raises(BadSettingError, match=r"heartbeat \(5\.001s\) must be at most half"):
            Settings(lease=10_000, heartbeat=5_001).check()

    def test_layers_that_contradict_each_other_are_refused(self) -> None:
        layers = [Layer("one", {"lease": "4s"}), Layer("other", {"heartbeat": "3s"})]
        with pytest.raises(BadSettingError, match=r"lease \(4s\)"):
            layered(layers)

    def test_settings_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            Settings().max_retries = 5  # type: ignore[misc]


class TestEnvironment:
    def test_reads_variables_with_the_prefix(self) -> None:
        layer = environment_layer(
            {"QUEUECTL_MAX_RETRIES": "7", "QUEUECTL_JITTER": "0.5", "MAX_RETRIES": "1", "HOME": "/"}
        )
        assert layer.source == "the environment"
        assert layer.values == {"max_retries": "7", "jitter": "0.5"}

    @pytest.mark.parametrize(
        "name", ["DB", "DB_PATH", "JOB_ID", "ATTEMPT", "QUEUE", "NODE", "RUN", "WORKER", "TOML"]
    )
    def test_what_is_no_setting_is_left_alone(self, name: str) -> None:
        assert environment_layer({f"QUEUECTL_{name}": "x"}).values == {}
        assert unknown_variables({f"QUEUECTL_{name}": "x"}) == ()

    def test_all_that_we_use_ourselves_are_known(self) -> None:
        source = Path(settings.__file__).parent.rglob("*.py")
        used = {
            name for path in source for name in re.findall(r"QUEUECTL_[A-Z]\w*", path.read_text())
        }
        assert {"QUEUECTL_DB", "QUEUECTL_HANDOVER"} <= used
        assert unknown_variables(dict.fromkeys(used, "x")) == ()

    def test_what_the_completion_of_a_shell_sets_is_left_alone(self) -> None:
        environ = {"_QUEUECTL_COMPLETE": "x", "QUEUECTL__X": "y"}
        assert environment_layer(environ).values == {}
        assert unknown_variables(environ) == ()

    def test_an_unknown_one_is_ignored_and_named(self) -> None:
        environ = {"QUEUECTL_MAX_RETRY": "1", "QUEUECTL_DBB": "x", "QUEUECTL_ZZZZ": "y"}
        assert environment_layer(environ).values == {}
        assert unknown_variables(environ) == (
            "QUEUECTL_MAX_RETRY means nothing to queuectl, and is ignored; did you mean"
            " QUEUECTL_MAX_RETRIES?",
            "QUEUECTL_DBB means nothing to queuectl, and is ignored; did you mean QUEUECTL_DB?",
            "QUEUECTL_ZZZZ means nothing to queuectl, and is ignored.",
        )


class TestFile:
    def test_the_nearest_one_upwards_is_found(self, tmp_path: Path) -> None:
        inner = tmp_path / "a" / "b" / "c"
        inner.mkdir(parents=True)
        (tmp_path / "queuectl.toml").touch()
        assert find_file(str(inner), {}) == str(tmp_path / "queuectl.toml")
        (tmp_path / "a" / "queuectl.toml").touch()
        assert find_file(str(inner), {}) == str(tmp_path / "a" / "queuectl.toml")

    def test_a_folder_of_that_name_is_not_it(self, tmp_path: Path) -> None:
        (tmp_path / "a" / "queuectl.toml").mkdir(parents=True)
        (tmp_path / "queuectl.toml").touch()
        assert find_file(str(tmp_path / "a"), {}) == str(tmp_path / "queuectl.toml")

    def test_the_environment_can_name_another(self, tmp_path: Path) -> None:
        (tmp_path / "queuectl.toml").touch()
        assert find_file(str(tmp_path), {"QUEUECTL_TOML": "other.toml"}) == "other.toml"

    def test_there_may_be_none(self, tmp_path: Path) -> None:
        found = find_file(str(tmp_path / "nowhere"), {})
        assert found is None or not found.startswith(str(tmp_path))

    def test_reads_toml(self, tmp_path: Path) -> None:
        file = tmp_path / "queuectl.toml"
        file.write_text('db = "jobs.db"\nmax-retries = 5\njitter = 0.5\n')
        assert read_file(str(file)) == {"db": "jobs.db", "max-retries": 5, "jitter": 0.5}

    @pytest.mark.parametrize(
        "content", [b"max_retries =", b"= 3", b"a = 1\na = 2", b"\xff\xfe", b"x" * 10_000, DEEP]
    )
    def test_what_is_not_toml_is_named(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "queuectl.toml"
        file.write_bytes(content)
        with pytest.raises(BadSettingError, match="isn't valid TOML") as caught:
            read_file(str(file))
        assert str(file) in str(caught.value)

    def test_a_number_that_python_does_not_read_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "queuectl.toml"
        file.write_text("max_retries = " + "9" * 5_000)
        with pytest.raises(BadSettingError, match=r"toml has a number of thousands of digits\.$"):
            read_file(str(file))

    def test_what_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(BadSettingError, match="can't be read: No such file"):
            read_file(str(tmp_path / "missing.toml"))
        with pytest.raises(BadSettingError, match="can't be read: Is a directory"):
            read_file(str(tmp_path))

    def test_a_table_in_it_is_an_unknown_setting(self, tmp_path: Path) -> None:
        file = tmp_path / "queuectl.toml"
        file.write_text("[worker]\ncount = 3\n")
        with pytest.raises(BadSettingError, match="There is no setting 'worker'"):
            layered([Layer(str(file), read_file(str(file)))])
