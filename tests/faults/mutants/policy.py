"""Mutants of what is decided without a store: lifecycle, rules, requests; and of `Queue`."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

LIMITS = "tests/contract/test_limits.py"
UNIQUE = "tests/contract/test_unique.py"
FORCED = "tests/contract/test_force_finish.py"
HOOKS = "tests/contract/test_hooks.py"
SLEEPS = "tests/contract/test_sleeps.py"
SHORT_FORM = "tests/faults/test_short_form.py::test_all_promises_are_kept"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="retry-not-counted",
        broken="A failure doesn't use up a retry.",
        edits=[
            Edit(
                old="_to(job, State.FAILED, failures=failures, run_at=due)",
                new="_to(job, State.FAILED, run_at=due)",
            )
        ],
        tests=[
            "tests/unit/test_lifecycle.py::TestDecide::test_a_failure_with_retries_left_waits",
        ],
    ),
    Mutant(
        name="store-password-in-a-job",
        broken="The password of the database is kept with a job that gets all of an environment.",
        edits=[
            Edit(
                old="return Defaults(settings, queues, hidden=self._store.secret_variables)",
                new="return Defaults(settings, queues)",
            )
        ],
        tests=[
            "tests/cli/test_server_manners.py"
            "::TestSecrets::test_nor_does_it_travel_with_a_whole_environment",
        ],
    ),
    Mutant(
        name="crash-counted-as-failure",
        broken="A crash of a node uses up one of the job's retries.",
        edits=[
            Edit(
                old="_to(job, State.PENDING, crashes=job.crashes + 1, run_at=now)",
                new="_to(job, State.PENDING, failures=job.failures + 1, run_at=now)",
            )
        ],
        tests=[
            "tests/unit/test_lifecycle.py::TestAlways::test_a_crash_never_uses_a_retry",
            "tests/node/test_crash.py::test_the_next_node_rescues_what_a_dead_one_held",
        ],
    ),
    Mutant(
        name="forced-is-cancelled",
        broken="A job that is finished by hand while it runs ends as cancelled.",
        edits=[Edit(old="case _ if job.is_forced:", new="case _ if False:")],
        tests=[f"{FORCED}::TestRunning::test_whatever_its_run_comes_to_it_is_completed"],
    ),
    Mutant(
        name="limits-closed-by-a-clock",
        broken="After a clock was put back, a rate is used up for as long as that was.",
        edits=[Edit(old="now + rate.longest for rate", new="now + 1e15 for rate")],
        tests=[f"{LIMITS}::TestRates::test_a_clock_that_is_put_back_closes_nothing_for_long"],
    ),
    Mutant(
        name="limits-all-ahead",
        broken="Jobs that are claimed ahead of their time take all slots.",
        edits=[Edit(old="(2 if place.ahead else 1) * (len(slots) + 1)", new="(len(slots) + 1)")],
        tests=[f"{LIMITS}::TestAhead"],
    ),
    Mutant(
        name="limits-slot-of-any-worker",
        broken="A worker takes the slot that another worker of its node has.",
        edits=[Edit(old="return self.node, self.worker", new="return self.node, None")],
        tests=[f"{LIMITS}::TestAtOnce"],
    ),
    Mutant(
        name="shares-first-come",
        broken="A key with many jobs goes before all others.",
        edits=[
            Edit(old="start = max(self._vtime, self.keys.get(key, 0))", new="start = self._vtime")
        ],
        tests=[f"{LIMITS}::TestShares"],
    ),
    Mutant(
        name="shares-saved-up",
        broken="A key that had nothing to do for a while goes before all others.",
        edits=[Edit(old="self.vtime = max(self.vtime, vtime)", new="self.vtime = 0")],
        tests=[f"{LIMITS}::TestShares::test_who_was_away_has_not_saved_up"],
    ),
    Mutant(
        name="full-by-one-more",
        broken="A queue takes one more job than may wait.",
        edits=[
            Edit(
                old="Full.QUEUE if taken >= limits.max_waiting + slots",
                new="Full.QUEUE if taken > limits.max_waiting + slots",
            )
        ],
        tests=[f"{LIMITS}::TestWhenFull"],
    ),
    Mutant(
        name="unique-never-free",
        broken="A unique key stays with a job that has started, though it was until then.",
        edits=[Edit(old="and job.attempts <= self.starts", new="or job.attempts > self.starts")],
        tests=[f"{UNIQUE}::TestWhoHasIt::test_until_its_start"],
    ),
    Mutant(
        name="unique-for-nothing",
        broken="A unique key is free at the end of its job, though it was for longer.",
        edits=[Edit(old="if self.until is not None and now < self.until:", new="if False:")],
        tests=[f"{UNIQUE}::TestWhoHasIt::test_for_a_time"],
    ),
    Mutant(
        name="debounce-that-never-runs",
        broken="Each request puts a debounced job off, for as long as they keep coming.",
        edits=[
            Edit(
                old="run_at if max_wait is None else min(run_at, since + max_wait)",
                new="run_at",
            )
        ],
        tests=[f"{UNIQUE}::TestDebounce::test_the_first_waits_no_longer_than_it_can"],
    ),
    Mutant(
        name="turns-saved-up",
        broken="A queue of a node that had no jobs for a while goes before all others.",
        edits=[
            Edit(
                old="self._now = max(self._places[name], self._now)",
                new="self._now = self._places[name]",
            )
        ],
        tests=["tests/unit/test_precedence.py::test_nothing_is_saved_up_and_nothing_is_owed"],
    ),
    Mutant(
        name="order-left-to-priority",
        broken="A node that takes one queue after the other goes by priority.",
        edits=[Edit(old="if offer.order is not None:", new="if False:", inside="first_in_line")],
        tests=["tests/contract/test_serving.py::TestInOrder"],
    ),
    Mutant(
        name="edit-tells-secrets",
        broken="The event of an edit has the values of variables.",
        edits=[
            Edit(
                old="', '.join(n for n in names if was.get(n) != now.get(n))",
                new="', '.join(f'{n}={now.get(n)}' for n in names if was.get(n) != now.get(n))",
            )
        ],
        tests=["tests/unit/test_editing.py::TestEdited"],
    ),
    Mutant(
        name="swapped-is-gone",
        broken="A job that somebody holds in Python is gone for him when it has another place.",
        edits=[
            Edit(
                old="return _make_now(store, [finding.get(store, job) for job in jobs], change)",
                new="raise",
            )
        ],
        tests=["tests/unit/test_editing.py::TestQueue"],
    ),
    Mutant(
        name="ticks-again-when-put-back",
        broken="After the clock was put back, the ticks of the last minute come again.",
        edits=[
            Edit(
                old="return schedule.done_until if within is None else"
                " max(schedule.done_until, until - within)",
                new="return min(schedule.done_until, until - MINUTE)",
                inside="schedule:_from",
            )
        ],
        tests=[
            "tests/unit/test_schedule.py"
            "::TestDue::test_a_clock_that_was_put_back_brings_none_again",
        ],
    ),
    Mutant(
        name="ticks-of-the-past",
        broken="A schedule that is edited or resumed makes the jobs of what was planned before.",
        edits=[
            Edit(
                old="done_until = max(schedule.done_until, now)",
                new="done_until = schedule.done_until",
                inside="schedule:started",
            ),
            Edit(
                old="done_until=max(schedule.done_until, now)",
                new="done_until=schedule.done_until",
                inside="schedule:resumed",
            ),
        ],
        tests=[
            "tests/unit/test_schedule.py::TestStart::test_nothing_of_the_past_comes",
            f"{SHORT_FORM}[ticks-sqlite]",
        ],
    ),
    Mutant(
        name="missed-window-ignored",
        broken="Missed ticks come however late they are.",
        edits=[
            Edit(
                old="within = ON_TIME if schedule.missed is Missed.OFF else schedule.missed_within",
                new="within: int | None = None",
            )
        ],
        tests=[
            "tests/unit/test_schedule.py::TestMissed::test_those_that_are_too_old_do_not_come",
            "tests/unit/test_schedule.py::TestMissed::test_none_comes",
            f"{SHORT_FORM}[ticks-sqlite]",
        ],
    ),
    Mutant(
        name="missed-ticks-forgotten",
        broken="Of several ticks that are due at once with `missed=all`, only the last comes.",
        edits=[Edit(old="if schedule.missed is Missed.ALL:", new="if False:")],
        tests=[
            "tests/unit/test_schedule.py::TestMissed::test_all_come_in_their_order",
            f"{SHORT_FORM}[ticks-sqlite]",
        ],
    ),
    Mutant(
        name="overlap-skip-ignored",
        broken="A tick makes its job although that of the one before isn't over.",
        edits=[
            Edit(
                old="if not schedule.waits_for(newest):",
                new="if schedule.overlap is Overlap.SKIP or not schedule.waits_for(newest):",
            )
        ],
        tests=["tests/unit/test_schedule.py::TestOverlap::test_skip"],
    ),
    Mutant(
        name="daylight-saving-dropped",
        broken="A time of the day that the clock skips or repeats comes never or twice.",
        edits=[
            Edit(
                old='self._at_certain_times = not minute.startswith("*") and'
                ' not hour.startswith("*")',
                new="self._at_certain_times = False",
            )
        ],
        tests=[
            "tests/unit/test_rules.py::test_when_an_hour_is_skipped",
            "tests/unit/test_rules.py::test_when_an_hour_comes_twice",
            "tests/unit/test_rules.py::test_around_each_change_in_each_zone",
            f"{SHORT_FORM}[ticks-sqlite]",
        ],
    ),
    Mutant(
        name="pause-after-ignored",
        broken="A schedule goes on however many of its jobs in a row die.",
        edits=[
            Edit(
                old="if schedule.paused_at is None and schedule.pause_after and"
                " failures >= schedule.pause_after:",
                new="if False:",
            )
        ],
        tests=[
            "tests/unit/test_schedule.py::TestEnds::test_failures_in_a_row_pause_it",
            "tests/contract/test_schedules.py"
            "::TestEnds::test_too_many_pause_it_in_the_same_transaction",
        ],
    ),
    Mutant(
        name="emit-lost-before-the-end",
        broken="What is emitted between an await and the end of its run brings nobody back.",
        edits=[Edit(old="    if sleep.woken:\n", new="    if sleep.woken and False:\n")],
        tests=[
            f"{SLEEPS}::TestEmitting::test_between_the_look_and_the_end_of_the_run_it_is_not_lost"
        ],
    ),
    Mutant(
        name="hooks-of-hooks",
        broken="A hook that dies calls the hooks of the job that it tells of.",
        edits=[
            Edit(old="hook=mark,", new="hook=mark, on_dead=job.on_dead,"),
            Edit(old="hooks is not None and self.hook is None", new="hooks is not None"),
        ],
        tests=[f"{HOOKS}::TestTheJob"],
    ),
    Mutant(
        name="hooks-of-types-for-any-node",
        broken="A hook that names a type is taken for a command, by a node without a handler.",
        edits=[Edit(old="is_data = hook.startswith(TYPE)", new="is_data = False")],
        tests=[f"{HOOKS}::TestForAHandler::test_only_a_node_that_handles_it_claims_it[sqlite]"],
    ),
    Mutant(
        name="hooks-not-of-crashes",
        broken="A run that is lost with its worker is no failure to its hook.",
        edits=[
            Edit(
                old="isinstance(outcome, Released | Snoozed)",
                new="type(outcome).__name__ in ('Released', 'Lost')",
                inside="occasions",
            )
        ],
        tests=[f"{HOOKS}::TestOccasions::test_the_end_of_a_run"],
    ),
)
