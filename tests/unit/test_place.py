"""Where the queue is: flag, environment, file, default; and which settings come along."""

from pathlib import Path

import pytest

from queuectl.errors import BadSettingError
from queuectl.place import Place, default_path, find_place
from queuectl.settings import Layer, Settings


def write(folder: Path, text: str) -> str:
    """Write a `queuectl.toml` and return its path."""
    folder.mkdir(exist_ok=True, parents=True)
    file = folder / "queuectl.toml"
    file.write_text(text)
    return str(file)


class TestUrl:
    def test_a_flag_outranks_everything(self, tmp_path: Path) -> None:
        write(tmp_path, 'db = "file.db"')
        place = find_place("flag.db", environ={"QUEUECTL_DB": "env.db"}, cwd=str(tmp_path))
        assert (place.url, place.chosen_by) == ("flag.db", "--db")

    def test_the_environment_outranks_the_file(self, tmp_path: Path) -> None:
        write(tmp_path, 'db = "file.db"')
        place = find_place(environ={"QUEUECTL_DB": "env.db"}, cwd=str(tmp_path))
        assert (place.url, place.chosen_by) == ("env.db", "the environment")

    def test_the_other_name_of_the_variable_works_and_is_weaker(self, tmp_path: Path) -> None:
        environ = {"QUEUECTL_DB_PATH": "other.db"}
        assert find_place(environ=environ, cwd=str(tmp_path)).url == "other.db"
        environ["QUEUECTL_DB"] = "one.db"
        assert find_place(environ=environ, cwd=str(tmp_path)).url == "one.db"

    def test_empty_means_not_given(self, tmp_path: Path) -> None:
        environ = {"QUEUECTL_DB": "", "QUEUECTL_DB_PATH": "", "XDG_DATA_HOME": "/data"}
        place = find_place("", environ=environ, cwd=str(tmp_path))
        assert (place.url, place.chosen_by) == ("/data/queuectl/queue.db", "default")

    @pytest.mark.parametrize(
        ("written", "found"),
        [
            ("jobs.db", "{folder}/jobs.db"),
            ("sub/jobs.db", "{folder}/sub/jobs.db"),
            ("sqlite:jobs.db", "{folder}/jobs.db"),
            ("/var/jobs.db", "/var/jobs.db"),
            ("sqlite:/var/jobs.db", "/var/jobs.db"),
            ("sqlite:///var/jobs.db", "sqlite:///var/jobs.db"),
            ("postgresql://host/db", "postgresql://host/db"),
        ],
    )
    def test_a_path_in_the_file_is_relative_to_the_file(
        self, tmp_path: Path, written: str, found: str
    ) -> None:
        file = write(tmp_path, f'db = "{written}"')
        inner = tmp_path / "deep" / "inside"
        inner.mkdir(parents=True)
        place = find_place(environ={}, cwd=str(inner))
        assert (place.url, place.chosen_by) == (found.format(folder=tmp_path), file)

    def test_a_tilde_in_the_file_is_the_home_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", "/home/somebody")
        write(tmp_path, 'db = "~/jobs.db"')
        assert find_place(environ={}, cwd=str(tmp_path)).url == "/home/somebody/jobs.db"

    @pytest.mark.parametrize("value", ["5", "true", '""', '" "', "[]", '["a.db"]'])
    def test_nonsense_in_the_file_is_named(self, tmp_path: Path, value: str) -> None:
        file = write(tmp_path, f"db = {value}")
        with pytest.raises(BadSettingError, match="db must be a path or URL in quotes") as caught:
            find_place(environ={}, cwd=str(tmp_path))
        assert file in str(caught.value)

    def test_a_file_named_by_the_environment_counts(self, tmp_path: Path) -> None:
        file = write(tmp_path / "elsewhere", 'db = "jobs.db"\nworkers = 3')
        place = find_place(environ={"QUEUECTL_TOML": file}, cwd=str(tmp_path))
        assert place.url == str(tmp_path / "elsewhere" / "jobs.db")
        assert place.settings({})[0].workers == 3

    def test_a_file_named_by_the_environment_must_exist(self, tmp_path: Path) -> None:
        missing = str(tmp_path / "missing.toml")
        with pytest.raises(BadSettingError, match="can't be read"):
            find_place(environ={"QUEUECTL_TOML": missing}, cwd=str(tmp_path))


class TestDefault:
    def test_is_in_the_data_folder(self) -> None:
        assert default_path({"XDG_DATA_HOME": "/data"}) == "/data/queuectl/queue.db"

    @pytest.mark.parametrize(
        "environ", [{}, {"XDG_DATA_HOME": ""}, {"XDG_DATA_HOME": " "}, {"XDG_DATA_HOME": "data"}]
    )
    def test_is_in_the_home_folder_without_one(
        self, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", "/home/somebody")
        assert default_path(environ) == "/home/somebody/.local/share/queuectl/queue.db"

    def test_is_what_the_platform_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import platformdirs

        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        folder = platformdirs.user_data_dir("queuectl", appauthor=False)
        assert default_path({}) == f"{folder}/queue.db"

    def test_a_folder_that_is_gone_does_not_matter(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert find_place("jobs.db", environ={}).url == "jobs.db"


class TestSettings:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("max_retrys = 3", "There is no setting 'max_retrys'; did you mean max_retries?"),
            ("dbs = 'x.db'", "There is no setting 'dbs'; did you mean db?"),
            ("workers = 0", "workers takes a whole number from 1 to 10000, not '0'."),
        ],
    )
    def test_one_that_cannot_be_is_an_error_at_once(
        self, tmp_path: Path, text: str, told: str
    ) -> None:
        file = write(tmp_path, text)
        with pytest.raises(BadSettingError) as caught:
            find_place(environ={}, cwd=str(tmp_path))
        assert str(caught.value) == f"In {file}: {told}"
        assert find_place(environ={}, cwd=str(tmp_path), check=False).is_default

    def test_variables_that_mean_nothing_are_odd(self, tmp_path: Path) -> None:
        (odd,) = find_place(environ={"QUEUECTL_LEASES": "1"}, cwd=str(tmp_path)).oddities
        assert odd.endswith("did you mean QUEUECTL_LEASE?")

    def test_come_in_the_order_flag_environment_file_table_default(self, tmp_path: Path) -> None:
        file = write(tmp_path, "workers = 3\nmax_retries = 3\njitter = 0.3\nlog_files = 3")
        place = find_place(
            flags={"workers": 1},
            environ={"QUEUECTL_WORKERS": "2", "QUEUECTL_MAX_RETRIES": "2"},
            cwd=str(tmp_path),
        )
        shared = {"workers": "4", "max_retries": "4", "jitter": "0.4", "max_crashes": "4"}
        settings, sources = place.settings(shared)
        assert settings == Settings(
            workers=1, max_retries=2, jitter=0.3, log_files=3, max_crashes=4
        )
        assert sources == {
            "workers": "the command line",
            "max_retries": "the environment",
            "jitter": file,
            "log_files": file,
            "max_crashes": "the config table",
        }

    def test_the_database_is_not_one_of_them(self, tmp_path: Path) -> None:
        write(tmp_path, 'db = "jobs.db"')
        place = find_place(environ={"QUEUECTL_DB": "x", "QUEUECTL_DB_PATH": "y"}, cwd=str(tmp_path))
        assert place.settings({}) == (Settings(), {})

    def test_a_bad_value_in_the_shared_table_is_named(self) -> None:
        place = Place(url="x", chosen_by="--db", layers=(Layer("the environment", {}),))
        with pytest.raises(BadSettingError, match=r"^In the config table: workers takes"):
            place.settings({"workers": "none"})

    def test_the_real_environment_counts_by_default(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("QUEUECTL_DB", "from-env.db")
        monkeypatch.setenv("QUEUECTL_WORKERS", "6")
        place = find_place()
        assert place.url == "from-env.db"
        assert place.settings({})[0].workers == 6
