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
                old='{} if spec["whole"] else self.base.copy()',
                new="self.base.copy()",
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
    Mutant(
        name="bounds-that-nobody-keeps",
        broken="A bound that this host can't enforce is left out, and nobody is told.",
        edits=[
            Edit(
                old="if controller not in powers.controllers:",
                new="if controller in ():",
            )
        ],
        tests=["tests/unit/test_bounds.py::TestPlan::test_without_them_it_says_what_that_takes"],
    ),
    Mutant(
        name="cpu-time-without-end",
        broken="A run that has used up its CPU time goes on.",
        edits=[Edit(old="if left <= 0:", new="if left <= -60:", inside="Bounding.look")],
        tests=["tests/guard/test_bounds.py::TestCpu::test_time_that_is_used_up_ends_it"],
    ),
    Mutant(
        name="group-of-root-kept",
        broken="A run by another user keeps the group of the worker.",
        edits=[
            Edit(
                old="os.setresgid(account.gid, account.gid, account.gid)",
                new="os.getresgid()",
            )
        ],
        tests=["tests/guard/test_bounds.py::TestUser::test_no_rights_are_left"],
    ),
    Mutant(
        name="network-kept",
        broken="A run without network has that of its worker.",
        edits=[
            Edit(
                old="flags = _CLONE_NEWNET if self._plan.no_network else 0",
                new="flags = 0",
            )
        ],
        tests=["tests/guard/test_bounds.py::TestNetwork::test_it_is_gone"],
    ),
    Mutant(
        name="container-left",
        broken="A run is over before its container is removed.",
        edits=[Edit(old="return container.is_gone", new="return True")],
        tests=[
            "tests/guard/test_containers.py::TestEnds::test_out_of_memory_is_called_that",
        ],
    ),
    Mutant(
        name="usage-of-the-first-run",
        broken="What a job's first run has used is told of its newest.",
        edits=[
            Edit(
                old="WHERE seq {in_seqs} ORDER BY seq, number\n",
                new="WHERE seq {in_seqs} ORDER BY seq, number DESC\n",
                inside="shared:USAGES",
            )
        ],
        tests=["tests/contract/test_usage.py::TestUsage::test_of_the_newest_run_that_is_over"],
    ),
)
