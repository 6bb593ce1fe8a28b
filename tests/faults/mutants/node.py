"""Mutants of the node."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

SHORT_FORM = "tests/faults/test_short_form.py::test_all_promises_are_kept"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="rescue-without-kill",
        broken="The jobs of a dead node are given out again while what it left still runs.",
        edits=[
            Edit(
                old="if local and self._kill_leftovers(node.id):",
                new="if not local and self._kill_leftovers(node.id):",
            )
        ],
        tests=[
            "tests/node/test_hardening.py"
            "::test_a_run_that_cleared_its_environment_dies_before_it_runs_again",
        ],
    ),
    Mutant(
        name="lease-renewed-after-loss",
        broken="A node that was struck from the register goes on as if it had been renewed.",
        edits=[
            Edit(
                old="or not self._ask(store, lease):",
                new="or self._ask(store, lease) is None:",
            )
        ],
        tests=[
            "tests/faults/test_struck_out.py"
            "::test_a_node_that_was_struck_out_ends_its_runs_and_starts_over",
        ],
    ),
    Mutant(
        name="output-read-after-unlink",
        broken="The files of a run are removed before they are read.",
        edits=[
            Edit(
                old="    output = gather(run, config.settings.output_limit)",
                new="    clean(run)\n    output = gather(run, config.settings.output_limit)",
            )
        ],
        tests=[
            "tests/node/test_keeping_output.py::test_the_output_of_every_attempt_is_kept",
        ],
    ),
    Mutant(
        name="output-unlinked-before-commit",
        broken="The files of a run are removed when they are read, though the commit may fail.",
        edits=[
            Edit(
                old="    output = gather(run, config.settings.output_limit)",
                new="    output = gather(run, config.settings.output_limit)\n    clean(run)",
            )
        ],
        tests=[
            "tests/faults/test_server_cuts.py::test_a_turn_that_is_made_again_keeps_the_output",
        ],
    ),
    Mutant(
        name="wake-up-unheard",
        broken="A node that has nothing to do doesn't listen for work.",
        edits=[
            Edit(
                old="if Topic.WORK in topics and not self.claiming.may_be_work:",
                new="if Topic.WORK in topics and self.crew.running:",
            )
        ],
        tests=[
            "tests/node/test_many.py::test_an_idle_node_is_woken_by_new_work",
        ],
    ),
    Mutant(
        name="drain-that-kills",
        broken="A node that shall finish what runs ends it instead.",
        edits=[
            Edit(
                old="            self.stopping = Stop.DRAIN\n",
                new="            self.stopping = Stop.DRAIN\n"
                "            self.crew.kill(self.crew.running, wire.RELEASE)\n",
            )
        ],
        tests=[
            f"{SHORT_FORM}[signals-sqlite]",
            "tests/node/test_signals.py::test_the_first_signal_drains[15]",
        ],
    ),
    Mutant(
        name="run-forgotten-at-a-restart",
        broken="A node that is restarted in place goes on without one of its runs.",
        edits=[
            Edit(
                old="        if held.keys() != {(run.seq, run.attempt) for run in handed.runs}:",
                new="        handed.runs[:] = handed.runs[1:]\n        if False:",
            ),
            Edit(
                old="                    self._report(message)\n",
                new="                    if message.run in self.running:\n"
                "                        self._report(message)\n",
            ),
        ],
        tests=[
            "tests/node/test_restart.py::test_runs_go_on_under_the_same_pid_and_name[sqlite]",
            f"{SHORT_FORM}[signals-sqlite]",
        ],
    ),
    Mutant(
        name="registered-anew-at-a-restart",
        broken="A node that is restarted in place takes another name, though its runs go on.",
        edits=[
            Edit(
                old="            self.member.resume(handed)\n",
                new="            self.member.rename()\n            self.member.join()\n",
            )
        ],
        tests=[
            "tests/node/test_restart.py::test_runs_go_on_under_the_same_pid_and_name[sqlite]",
        ],
    ),
    Mutant(
        name="signals-lost-at-a-restart",
        broken="Signals that come while a program is replaced by the next do what they do by"
        " default: they end the node.",
        edits=[
            Edit(
                old="        hold(harmless())\n",
                new="",
                inside="Interrupts.hold",
            )
        ],
        tests=[
            "tests/node/test_restart.py::test_thousands_of_short_jobs_and_many_restarts[sqlite]",
            "tests/node/test_restart.py::test_hangups_in_a_row_do_no_harm",
        ],
    ),
    Mutant(
        name="board-unread",
        broken="All that a dead node had claimed counts a crash, whether or not it was begun.",
        edits=[
            Edit(
                old="read_boards(self.spool) if self.boards else None",
                new="None",
            )
        ],
        tests=[
            "tests/node/test_ahead.py"
            "::test_only_what_was_begun_counts_a_crash_when_the_node_is_killed",
        ],
    ),
    Mutant(
        name="held-up-for-ever",
        broken="Jobs that wait behind a long one stay there, while others have nothing to do.",
        edits=[
            Edit(
                old="[number for number in held_up if not self.running[number].paused]",
                new="[]",
            )
        ],
        tests=[
            "tests/node/test_ahead.py::test_those_behind_a_long_job_are_released_for_others",
        ],
    ),
    Mutant(
        name="lost-until-noticed",
        broken="A lost run seems to have lasted until somebody noticed that its node is gone.",
        edits=[
            Edit(
                old="over = max(over, min(now, max(self.heard, _wrote_at(run, now))))",
                new="over = now",
            )
        ],
        tests=[
            "tests/node/test_rescue.py"
            "::test_a_lost_run_ends_when_its_node_was_last_heard_of[later]",
        ],
    ),
    Mutant(
        name="rotated-by-two",
        broken="Two nodes that share a log may rotate it at the same time.",
        edits=[
            Edit(
                old="fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)",
                new="fcntl.flock(handle, fcntl.LOCK_UN)",
            )
        ],
        tests=[
            "tests/node/test_log.py::test_those_who_share_a_file_lose_no_line_when_it_is_rotated",
            "tests/node/test_log.py::test_a_rotation_that_somebody_else_is_at_is_left_to_them",
        ],
    ),
    Mutant(
        name="told-out-of-order",
        broken="The log says that a run has started before it says how the one before it ended.",
        edits=[Edit(old="if self._untold[worker]:", new="if False:")],
        tests=[
            "tests/node/test_ahead.py::test_the_log_tells_of_each_run_from_its_start_to_its_end",
        ],
    ),
    Mutant(
        name="handlers-of-before-the-restart",
        broken="What a node can't handle is hidden after a restart: it is said to handle it still.",
        edits=[Edit(old="self._store.nodes.set_serving(self.id, self._queues)", new="pass")],
        tests=["tests/node/test_restart.py::test_it_says_anew_what_it_handles"],
    ),
    Mutant(
        name="turns-forgotten",
        broken="A node begins the shares of its queues anew with each claim.",
        edits=[Edit(old="self.claiming.took(jobs)", new="")],
        tests=["tests/node/test_serving.py::test_shares_hold_while_all_have_jobs"],
    ),
    Mutant(
        name="pause-forgotten-by-nodes",
        broken="A node doesn't look for runs that somebody wants paused.",
        edits=[Edit(old="if running:\n            self._mind_pauses()\n", new="")],
        tests=["tests/node/test_pause.py::test_a_pause_that_nobody_told_the_node_of_is_found"],
    ),
)
