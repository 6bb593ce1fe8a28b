"""Mutants of warm programs, and of tasks."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

NODE = "tests/tasks/test_node.py"
SERVE = "tests/tasks/test_serve.py"
LANES = "tests/unit/test_handlers.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="tasks-not-on-the-board",
        broken="A program doesn't note what it begins: what takes its node down never counts.",
        edits=[
            Edit(
                old='self._board.note(worker, f"{self._node}.{job.seq}.{job.attempt}")', new="pass"
            )
        ],
        tests=[f"{NODE}::test_a_node_that_dies_has_begun_only_what_ran"],
    ),
    Mutant(
        name="tasks-all-begun",
        broken="All that a program was handed counts as begun when its node dies.",
        edits=[
            Edit(
                old="        if not warm.handler.is_ours:\n            # It doesn't say in time",
                new="        if True:\n            # It doesn't say in time",
            )
        ],
        tests=[f"{NODE}::test_a_node_that_dies_has_begun_only_what_ran"],
    ),
    Mutant(
        name="resumed-too-early",
        broken="A job that is resumed before its program has dropped it is held for ever.",
        edits=[Edit(old='            warm.runs[number].unwanted = ""\n', new="            pass\n")],
        tests=["tests/tasks/test_ahead.py"],
    ),
    Mutant(
        name="tasks-fail-with-their-program",
        broken="What a program hadn't begun when it died has failed.",
        edits=[
            Edit(
                old="        for number in list(warm.begun):\n"
                "            handed = warm.end(number)",
                new="        for number in list(warm.runs):\n            handed = warm.end(number)",
            )
        ],
        tests=[f"{NODE}::test_how_one_ends_harms_no_other[killed]"],
    ),
    Mutant(
        name="tasks-lost-with-their-program",
        broken="What a program hadn't begun when it died is forgotten by its node.",
        edits=[Edit(old="for worker in self._lanes.take_back(back):", new="for worker in []:")],
        tests=[f"{NODE}::test_how_one_ends_harms_no_other[killed]"],
    ),
    Mutant(
        name="tasks-fork-goes-on",
        broken="What a task has forked goes on as the program does.",
        edits=[Edit(old="if os.getpid() != self._pid:", new="if False:", inside="Child._run")],
        tests=[f"{NODE}::test_what_forks_comes_to_one_end"],
    ),
    Mutant(
        name="tasks-leave-processes",
        broken="Processes that a task has left live as long as its program.",
        edits=[Edit(old="            if _has_children():", new="            if False:")],
        tests=[f"{NODE}::test_processes_that_are_left_are_ended"],
    ),
    Mutant(
        name="tasks-without-timeout",
        broken="A task takes as long as it likes.",
        edits=[
            Edit(
                old="handed.due = handed.began + timeout if timeout else inf",
                new="handed.due = inf",
            )
        ],
        tests=[f"{NODE}::test_one_that_hangs_in_c_is_ended_in_time"],
    ),
    Mutant(
        name="tasks-output-of-the-one-before",
        broken="What a task has written is said to be of those after it, too.",
        edits=[Edit(old="os.ftruncate(self._saved[fd], 0)", new="pass")],
        tests=["tests/tasks/test_child.py::test_what_it_writes_is_its_output_and_of_no_other"],
    ),
    Mutant(
        name="handlers-side-by-side",
        broken="A worker runs a command while a task of it goes on.",
        edits=[
            Edit(
                old="if not self._lanes.at_work(worker):\n            return True",
                new="if True:\n            return True",
            )
        ],
        tests=[f"{NODE}::test_a_worker_has_one_run_whoever_runs_it"],
    ),
    Mutant(
        name="handlers-run-what-is-withdrawn",
        broken="What was withdrawn while it waited is still passed on if its turn comes just then.",
        edits=[
            Edit(
                old="self._lanes.over(number)\n            self._news.append(unbegun(number, how))",
                new="self._news.append(unbegun(number, how))",
            )
        ],
        tests=[f"{LANES}::TestWithdrawn"],
    ),
    Mutant(
        name="handlers-last-words-unheard",
        broken="What a program has said just before its end isn't heard any more.",
        edits=[Edit(old="while not warm.is_read_out:", new="while False:")],
        tests=[f"{LANES}::test_the_last_words_of_a_program_are_heard"],
    ),
    Mutant(
        name="handlers-trusted-to-speak",
        broken="A handler that says what isn't of the protocol is left alone.",
        edits=[
            Edit(old="self._fleet.order(warm, wire.Kill(warm.number, wire.EXITED))", new="pass")
        ],
        tests=[f"{SERVE}::test_a_bad_end_harms_no_other"],
    ),
    Mutant(
        name="handlers-for-ever",
        broken="A program that is to be replaced stays.",
        edits=[Edit(old="if warm.retiring and not warm.runs:", new="if False:")],
        tests=[f"{NODE}::test_a_program_is_replaced_after_so_many_jobs"],
    ),
)
