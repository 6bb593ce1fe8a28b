"""Mutants of the guard."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

PAUSE = "tests/guard/test_pause.py"
SHORT_FORM = "tests/faults/test_short_form.py::test_all_promises_are_kept"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="environments-mixed",
        broken="A job that brought its whole environment along gets that of the worker as well.",
        edits=[
            Edit(
                old='{} if spec["whole"] else self._base.copy()',
                new="self._base.copy()",
            )
        ],
        tests=[
            "tests/cli/test_surroundings.py"
            "::test_the_whole_environment_takes_the_place_of_the_workers",
        ],
    ),
    Mutant(
        name="lease-outlived",
        broken="The guard lets runs go on when the lease of their node has ended.",
        edits=[
            Edit(
                old="if not self._lease.noted and self._lease.is_over():",
                new="if self._lease.noted and self._lease.is_over():",
            )
        ],
        tests=[
            "tests/guard/test_guard.py::TestLease::test_end_of_lease_kills",
        ],
    ),
    Mutant(
        name="leftovers-spared",
        broken="A run is over when its first process is, whatever that left behind.",
        edits=[
            Edit(
                old="if run.status is None or self._orphans.of(run):",
                new="if run.status is None:",
            )
        ],
        tests=[
            f"{SHORT_FORM}[hostile-sqlite]",
            "tests/guard/test_guard.py::TestLeftovers::test_daemon",
        ],
    ),
    Mutant(
        name="line-without-waiting",
        broken="A job that was claimed ahead is started beside the one that its worker is at.",
        edits=[
            Edit(old="if worker in self._busy:", new="if worker in ():"),
            Edit(
                old="waiting = self._busy[worker]",
                new="waiting = self._busy.setdefault(worker, {})",
            ),
        ],
        tests=[
            "tests/guard/test_line.py::TestOneAtATime::test_a_worker_runs_one_after_the_other",
        ],
    ),
    Mutant(
        name="board-begun-anew",
        broken="What was begun under a guard that is gone is forgotten with it, and runs again.",
        edits=[Edit(old="if _count(raw):", new="if False:")],
        tests=[
            "tests/node/test_ahead.py"
            "::test_what_was_begun_under_a_guard_that_is_gone_is_not_forgotten",
        ],
    ),
    Mutant(
        name="begins-without-node",
        broken="A guard begins what its dead node asked for, while others give that back.",
        edits=[Edit(old="if os.getppid() != self._node:", new="if False:")],
        tests=[
            "tests/guard/test_lost.py::test_a_guard_whose_node_is_gone_begins_nothing_any_more",
        ],
    ),
    Mutant(
        name="asked-once",
        broken="A run that is to end is asked only once, whatever kill_interval says.",
        edits=[Edit(old="run.known.clear()", new="pass")],
        tests=["tests/guard/test_guard.py::TestStopping::test_stop_is_repeated"],
    ),
    Mutant(
        name="pause-main-only",
        broken="Of a run that is paused, only the main process and its group are stopped.",
        edits=[
            Edit(
                old="found, refused = tree.freeze(lambda: self._members(run))",
                new="found, refused = tree.freeze(lambda: self._members(run)[:1])",
            )
        ],
        tests=[f"{PAUSE}::TestAWholeTree::test_a_session_and_an_orphan_of_its_own_belong_to_it"],
    ),
    Mutant(
        name="pause-clock-goes-on",
        broken="The timeout of a run goes on while it is paused.",
        edits=[
            Edit(old="run.left = run.due - now", new="run.left = run.due"),
            Edit(
                old="self._timers.set(run, time.monotonic() + run.left)",
                new="self._timers.set(run, run.left)",
            ),
        ],
        tests=[f"{PAUSE}::TestTheClock::test_stands_still"],
    ),
    Mutant(
        name="resume-main-only",
        broken="Of a run that is resumed, only the main process and its group go on.",
        edits=[Edit(old="tree.thaw(self._members(run))", new="tree.thaw(self._members(run)[:1])")],
        tests=[f"{PAUSE}::TestAWholeTree::test_a_session_and_an_orphan_of_its_own_belong_to_it"],
    ),
    Mutant(
        name="pause-in-line-ignored",
        broken="A run that is paused before its turn is started when its turn comes.",
        edits=[
            Edit(
                old="(self._held if run in self._paused else self._ready)[run] = waiting.pop(run)",
                new="self._ready[run] = waiting.pop(run)",
            )
        ],
        tests=[f"{PAUSE}::TestInLine"],
    ),
    Mutant(
        name="pause-until-stopped-ignored",
        broken="A parent that waits for its child to become a program isn't stopped.",
        edits=[Edit(old="tree.let_exec(process)", new="pass")],
        tests=[
            f"{PAUSE}::TestAWholeTree::test_a_parent_that_waits_for_its_child_to_become_a_program"
        ],
    ),
)
