"""Mutants of what runs tell and keep, and of what follows from their ends: steps, sleeps, hooks."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

DATA = "tests/contract/test_data.py"
FORCED = "tests/contract/test_force_finish.py"
HOOKS = "tests/contract/test_hooks.py"
REPORTS = "tests/contract/test_reports.py"
SLEEPS = "tests/contract/test_sleeps.py"
_ANY_RUN = "for seq, number, value in rows"
SHORT_FORM = "tests/faults/test_short_form.py::test_all_promises_are_kept"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="handlers-any-node",
        broken="A node claims jobs that it has no handler for.",
        edits=[
            Edit(
                old="if not serving.has_lines:",
                new="if serving.handlers is None:",
                inside="Idiom.lines",
            ),
            Edit(
                old="if serving.has_lines:",
                new='serving = type(serving)(handlers=("*",))\n        if serving.has_lines:',
                inside="Idiom._look",
            ),
        ],
        tests=[f"{DATA}::TestWhoHandles::test_a_node_gets_what_it_handles[sqlite]"],
    ),
    Mutant(
        name="handlers-forgotten-in-register",
        broken="The register forgets what a node handles.",
        edits=[
            Edit(
                old="in_order, handlers, no_commands, resources",
                new="in_order, (), no_commands, resources",
            )
        ],
        tests=[f"{DATA}::TestWhoHandles::test_a_node_tells_what_it_handles[sqlite]"],
    ),
    Mutant(
        name="forced-without-hook",
        broken="A job that is finished by hand while it waits calls no hook.",
        edits=[
            Edit(
                old="hooked = self._lock([seq for seq in completed if held[seq].has_hooks])",
                new="hooked = self._lock([])",
            )
        ],
        tests=[f"{FORCED}::TestWaiting::test_calls_its_hook_in_the_same_transaction"],
    ),
    Mutant(
        name="forced-for-ever",
        broken="A cancel of a job that was once finished by hand finishes it again.",
        edits=[
            Edit(
                old="SET cancel_reason = r.reason_, forced = r.forced_,",
                new="SET cancel_reason = r.reason_, forced = coalesce(r.forced_, forced),",
                inside="sqlite:ASK_CANCEL",
            )
        ],
        tests=[f"{FORCED}::TestRunning::test_a_later_cancel_is_not_taken_for_it[sqlite]"],
    ),
    Mutant(
        name="data-without-fence",
        broken="A run that has lost its lease changes the data of its job.",
        edits=[
            Edit(
                old="AND attempts = :attempt AND node = :node AND state = 'processing'{row_lock}",
                new="AND :attempt = :attempt AND :node = :node{row_lock}",
                inside="shared:HOLD_RUN",
            )
        ],
        tests=[f"{REPORTS}::TestData::test_a_run_that_lost_its_lease_changes_nothing[sqlite]"],
    ),
    Mutant(
        name="handlers-room-for-first-only",
        broken="Room of a key is given to the commands that wait for it only.",
        edits=[
            Edit(
                old="handler = self._db.value(self._sql.NEXT_PARKED_HANDLER, **where)",
                new="handler = None",
            )
        ],
        tests=[f"{DATA}::TestLimits::test_room_of_a_key_is_for_who_can_use_it[sqlite]"],
    ),
    Mutant(
        name="handlers-one-line",
        broken="A limited claim looks at the line of one handler only.",
        edits=[
            Edit(
                old="whole=whole) for handler in handlers]",
                new="whole=whole) for handler in handlers[:1]]",
            )
        ],
        tests=[f"{DATA}::TestLimits::test_rates_are_those_of_the_queue[sqlite]"],
    ),
    Mutant(
        name="step-without-fence",
        broken="A run that has lost its lease keeps steps.",
        edits=[
            Edit(
                old="WHERE id = :id AND attempts = :attempt AND node = :node AND state ="
                " 'processing'{row_lock}",
                new="WHERE id = :id AND :attempt >= 0 AND :node >= ''{row_lock}",
            )
        ],
        tests=[f"{REPORTS}::TestSteps::test_a_run_that_lost_its_lease_stores_nothing"],
    ),
    Mutant(
        name="step-by-name-alone",
        broken="A run comes by the same step twice, and nobody says so.",
        edits=[Edit(old="if step.seen == run.attempt:", new="if False:")],
        tests=[f"{REPORTS}::TestSteps::test_no_run_comes_by_a_step_twice"],
    ),
    Mutant(
        name="emit-last-wins",
        broken="Of two that emit under one name, the last one counts.",
        edits=[
            Edit(
                old="if (first := self._hold(name)) is not None:",
                new="if (first := self._hold(name)) is not None and False:",
            )
        ],
        tests=[f"{SLEEPS}::TestEmitting::test_the_first_one_wins"],
    ),
    Mutant(
        name="sleep-counts-as-failure",
        broken="A run that gives its worker back counts as failed.",
        edits=[
            Edit(
                old="ends = self._asleep(over.judge(stuck, asked, now))",
                new="ends = over.judge(stuck, asked, now)",
            )
        ],
        tests=[f"{SLEEPS}::TestSleeping::test_whatever_its_exit_code_is"],
    ),
    Mutant(
        name="sleep-without-fence",
        broken="A run that has lost its lease has its job sleep.",
        edits=[
            Edit(
                old="seq = self._reports.held(run)\n        name",
                new="seq = self._db.value(self._sql.GET, id=run.job)\n        name",
            )
        ],
        tests=[f"{SLEEPS}::TestSleeping::test_a_run_that_lost_its_lease_can_not"],
    ),
    Mutant(
        name="sleep-begins-anew",
        broken="A job that comes back too early sleeps the whole time once more.",
        edits=[
            Edit(
                old="if was is None else (was.until, was.at)",
                new="if was is None or True else (None, 0)",
            )
        ],
        tests=[f"{SLEEPS}::TestSleeping::test_who_comes_too_early_sleeps_on_until_the_same_time"],
    ),
    Mutant(
        name="result-of-the-failed",
        broken="What a run that failed says that its job came to is kept.",
        edits=[
            Edit(
                old="if end.result is not None and end.transition.state == State.COMPLETED:",
                new="if end.result is not None:",
            ),
            Edit(old="for seq, number, value in rows if wanted[seq] == number", new=_ANY_RUN),
        ],
        tests=[f"{REPORTS}::TestResults::test_that_of_a_failed_run_is_not_kept"],
    ),
    Mutant(
        name="result-of-an-older-run",
        broken="A job that was retried by hand has the result of the run before.",
        edits=[Edit(old="for seq, number, value in rows if wanted[seq] == number", new=_ANY_RUN)],
        tests=[
            f"{REPORTS}::TestResults::test_a_job_that_runs_again_has_none_until_it_is_completed",
        ],
    ),
    Mutant(
        name="progress-without-fence",
        broken="A run that has lost its lease tells how far its job has come.",
        edits=[
            Edit(old="if self._hold(run) is not None:", new="if self._hold(run) or True:"),
        ],
        tests=[f"{REPORTS}::TestProgress::test_a_run_that_lost_its_lease_tells_nothing"],
    ),
    Mutant(
        name="hooks-outside",
        broken="The jobs of hooks are made in a transaction of their own.",
        edits=[
            Edit(
                old="self._call_hooks(hooked)",
                new="__import__('threading').Thread(target=self._call_hooks,"
                " args=(hooked,)).start()",
            )
        ],
        tests=[
            f"{HOOKS}::TestExactlyOnce::test_what_is_undone_has_made_nothing[sqlite]",
            f"{SHORT_FORM}[hooks-sqlite]",
        ],
    ),
    Mutant(
        name="hooks-of-a-lost-lease",
        broken="A run that was rescued meanwhile makes the jobs of its hooks a second time.",
        edits=[
            Edit(
                old="hooked=[(ended_job(end), end.outcome) for end in some if end.job.has_hooks]",
                new="hooked=[(ended_job(end), end.outcome) for end in some if end.job.has_hooks]"
                " + [(ended_job(end), end.outcome) for end in ends if end.job.has_hooks]",
            ),
        ],
        tests=[f"{HOOKS}::TestExactlyOnce"],
    ),
    Mutant(
        name="hooks-not-of-the-expired",
        broken="A job that expires has no hook for its death.",
        edits=[
            Edit(old="hooked = [(job, None) for job in jobs if job.has_hooks]", new="hooked = []")
        ],
        tests=[f"{HOOKS}::TestOccasions::test_a_job_that_expires"],
    ),
    Mutant(
        name="hooks-by-ids-that-are-taken",
        broken="The job of a hook gets the id of another, and the end of the run can't be stored.",
        edits=[Edit(old="if id not in used:", new="if True:", inside="free_ids")],
        tests=[f"{HOOKS}::TestTheJob::test_an_id_that_is_taken"],
    ),
)
