"""What the settings say becomes part of a request, and what requests share is made once."""

import os
from pathlib import Path
from typing import Any, ClassVar

import pytest

from queuectl.enqueueing import MOST_MODELS, BulkDefaults, Defaults
from queuectl.errors import BadJobError
from queuectl.facts import QueueInfo
from queuectl.job import NewJob, Strategy
from queuectl.limits import Limits
from queuectl.request import check_request
from queuectl.settings import Settings
from queuectl.values import replace
from tests.unit.samples import NOW


def complete(new: NewJob, settings: Settings) -> NewJob:
    return Defaults(settings).complete(check_request(new))


class TestComplete:
    """What the settings say is copied into the job, where it says nothing itself."""

    SETTINGS = Settings(
        max_retries=1,
        backoff=Strategy.LINEAR,
        backoff_base=2.5,
        retry_delay=3_000,
        max_backoff=4_000,
        job_timeout=5_000,
        expire=6_000,
        shell="shell-7",
    )

    def test_a_bare_request_takes_everything_from_the_settings(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert complete(NewJob(command="x"), self.SETTINGS) == NewJob(
            command="x",
            expire=6_000,
            timeout=5_000,
            max_retries=1,
            backoff=Strategy.LINEAR,
            backoff_base=2.5,
            retry_delay=3_000,
            max_backoff=4_000,
            cwd=str(tmp_path),
            env_all=False,
            shell="shell-7",
        )

    def test_what_a_request_says_stays(self) -> None:
        new = NewJob(
            command="x",
            id="job-7",
            queue="queue-8",
            priority=9,
            run_at=NOW + 10,
            expire=11,
            timeout=12,
            max_retries=13,
            backoff=Strategy.FIXED,
            backoff_base=14.0,
            retry_delay=15,
            max_backoff=16,
            cwd="/folder/17",
            env={"NAME_18": "value 19"},
            tags=("tag-20",),
            env_all=False,
            shell="shell-21",
            stdin=b"input 22",
        )
        assert complete(new, self.SETTINGS) == new

    def test_zero_is_something_said(self) -> None:
        new = NewJob(
            command="x", timeout=0, max_retries=0, retry_delay=0, max_backoff=0, expire=0, cwd="/"
        )
        done = complete(new, self.SETTINGS)
        assert (done.timeout, done.max_retries, done.retry_delay, done.max_backoff) == (0, 0, 0, 0)
        assert done.expire == 0

    def test_by_default_nothing_expires_or_times_out(self) -> None:
        done = complete(NewJob(command="x"), Settings())
        assert (done.expires_at, done.expire, done.timeout) == (None, 0, 0)
        assert (done.run_at, done.delay) == (None, None)

    def test_a_folder_that_is_gone_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        with pytest.raises(BadJobError, match="current folder doesn't exist any more"):
            complete(NewJob(command="x"), Settings())
        assert complete(NewJob(command="x", cwd="/"), Settings()).cwd == "/"


class TestByQueue:
    """What a queue says beats the settings; what the request says beats the queue."""

    SETTINGS = TestComplete.SETTINGS
    SAID: ClassVar[dict[str, Any]] = {
        "priority": 31,
        "timeout": "32s",
        "max_retries": 33,
        "backoff": "fixed",
        "backoff_base": 3.4,
        "retry_delay": "35s",
        "max_backoff": "36s",
        "expire": "37s",
    }

    def complete(self, given: dict[str, Any], **defaults: Any) -> NewJob:
        mail = QueueInfo(
            name="mail", paused_at=None, paused_by=None, limits=Limits(defaults=defaults)
        )
        plain = QueueInfo(name="plain", paused_at=1, paused_by="me")
        return Defaults(self.SETTINGS, [mail, plain]).complete({"command": "x", "cwd": "/"} | given)

    def test_what_a_queue_says_beats_the_settings(self) -> None:
        assert self.complete({"queue": "mail"}, **self.SAID) == NewJob(
            command="x",
            queue="mail",
            priority=31,
            timeout=32_000,
            max_retries=33,
            backoff=Strategy.FIXED,
            backoff_base=3.4,
            retry_delay=35_000,
            max_backoff=36_000,
            expire=37_000,
            cwd="/",
            env_all=False,
            shell="shell-7",
            is_limited=True,
        )

    def test_what_a_request_says_beats_the_queue(self) -> None:
        given = {"queue": "mail", "priority": 0, "timeout": 1, "max_retries": 2, "expire": 0}
        done = self.complete(given, **self.SAID)
        assert (done.priority, done.timeout, done.max_retries, done.expire) == (0, 1, 2, 0)
        assert done.max_backoff == 36_000

    @pytest.mark.parametrize("queue", ["default", "plain", "other"])
    def test_other_queues_have_nothing_of_it(self, queue: str) -> None:
        done = self.complete({"queue": queue}, **self.SAID)
        assert (done.priority, done.timeout, done.is_limited) == (0, 5_000, False)

    def test_a_queue_with_limits_may_say_nothing_about_jobs(self) -> None:
        done = self.complete({"queue": "mail"})
        assert (done.priority, done.timeout, done.is_limited) == (0, 5_000, True)

    def test_a_long_delay_raises_the_general_cap(self) -> None:
        by_queue = self.complete({"queue": "mail"}, retry_delay="1h")
        assert (by_queue.backoff, by_queue.max_backoff) == (Strategy.FIXED, 3_600_000)
        by_request = self.complete({"queue": "mail", "retry_delay": 50_000}, **self.SAID)
        assert (by_request.retry_delay, by_request.max_backoff) == (50_000, 50_000)

    def test_requests_that_are_enqueued_together_have_their_own_queues(self) -> None:
        mail = QueueInfo(
            name="mail", paused_at=None, paused_by=None, limits=Limits(defaults={"priority": 4})
        )
        defaults = Defaults(Settings(), [mail])
        bulk = BulkDefaults(lambda: defaults)
        models = [bulk.complete({"command": "x", "queue": q})[-1] for q in ("mail", "a", "mail")]
        assert [model.priority for model in models] == [4, 0, 4]


class TestEnvironment:
    @pytest.fixture(autouse=True)
    def here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "environ", {"MINE": "1", "PGPASSWORD": "secret"})

    @pytest.mark.parametrize(
        ("said", "setting", "whole"),
        [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
    )
    def test_all_of_it_goes_along_if_asked_for(
        self, said: bool | None, setting: bool, whole: bool
    ) -> None:
        given = NewJob(command="x", env={"A": "b"}, env_all=said)
        defaults = Defaults(Settings(env_all=setting), hidden=("PGPASSWORD",))
        for done in (
            defaults.complete(check_request(given)),
            BulkDefaults(lambda: defaults).complete(check_request(given))[-1],
        ):
            assert done.env_all is whole
            env = {name: done.env[name] for name in done.env if name != "PYTEST_CURRENT_TEST"}
            assert env == ({"MINE": "1", "A": "b"} if whole else {"A": "b"})

    def test_it_is_read_once_for_all_that_are_enqueued_together(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bulk = BulkDefaults(lambda: Defaults(Settings(env_all=True)))
        first = bulk.complete({"command": "x"})[-1]
        monkeypatch.setenv("MINE", "2")
        assert bulk.complete({"command": "y", "priority": 1})[-1].env == first.env

    def test_stdin_is_not_remembered(self) -> None:
        defaults = Defaults(Settings())
        bulk = BulkDefaults(lambda: defaults)
        plain = bulk.complete({"command": "x"})[-1]
        assert bulk.complete({"command": "x", "stdin": b"a"})[-1] == replace(plain, stdin=b"a")
        assert bulk.complete({"command": "x"})[-1] is plain


class TestBulkDefaults:
    """Requests that are enqueued together share what they don't say differently."""

    def bulk(self, *settings: Settings) -> BulkDefaults:
        said = [Defaults(each) for each in settings]
        return BulkDefaults(lambda: said.pop(0) if len(said) > 1 else said[0])

    def test_each_has_its_own_id_and_its_own_work(self) -> None:
        bulk = self.bulk(Settings())
        first = bulk.complete({"id": "a", "command": "x"})
        second = bulk.complete({"argv": ("y", "z")})
        assert first[:3] == ("a", "x", None)
        assert second[:3] == (None, None, ("y", "z"))
        assert first[-1] is second[-1]
        assert (first[-1].id, first[-1].command, first[-1].argv) == (None, None, None)

    @pytest.mark.parametrize(
        "given",
        [{"priority": 1}, {"env": {"A": "1"}}, {"tags": ("a",)}, {"delay": 5}, {"cwd": "/"}],
    )
    def test_what_they_say_differently_they_do_not_share(self, given: dict[str, Any]) -> None:
        bulk = self.bulk(Settings())
        models = [
            bulk.complete({"command": "x", **said})[-1]
            for said in ({}, given, dict(given), {}, given)
        ]
        assert models[1] is models[2]
        plain, different = models[0], models[1]
        assert models == [plain, different, different, plain, different]
        assert different == Defaults(Settings()).complete(given) != plain

    def test_what_was_said_before_is_remembered(self) -> None:
        bulk = self.bulk(Settings())
        models = [bulk.complete({"command": "x", "priority": n % 3})[-1] for n in range(6)]
        assert [model.priority for model in models] == [0, 1, 2, 0, 1, 2]
        assert all(models[n] is models[n + 3] for n in range(3))

    def test_not_everything_is_remembered(self) -> None:
        bulk = self.bulk(Settings())
        first = bulk.complete({"command": "x", "priority": -1})[-1]
        for n in range(MOST_MODELS):
            assert bulk.complete({"command": "x", "priority": n})[-1].priority == n
        again = bulk.complete({"command": "x", "priority": -1})[-1]
        assert again == first
        assert again is not first

    def test_new_settings_hold_from_the_next_request_on(self) -> None:
        bulk = self.bulk(Settings(max_retries=1), Settings(max_retries=2))
        assert [bulk.complete({"command": "x"})[-1].max_retries for _ in range(3)] == [1, 2, 2]

    def test_all_of_them_are_enqueued_where_the_first_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bulk = self.bulk(Settings())
        monkeypatch.chdir(tmp_path)
        first = bulk.complete({"command": "x"})[-1]
        monkeypatch.chdir("/")
        other = bulk.complete({"command": "x", "priority": 1})[-1]
        assert (first.cwd, other.cwd) == (str(tmp_path), str(tmp_path))
