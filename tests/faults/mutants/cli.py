"""Mutants of the command line."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

SHORT_FORM = "tests/faults/test_short_form.py::test_all_promises_are_kept"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="acknowledged-before-commit",
        broken="`enqueue` prints the id while its transaction is still open.",
        edits=[
            Edit(
                old="as queue, truthful(queue):\n        near = near_queue(queue, str",
                new="as queue, queue.store.transaction():\n        near = near_queue(queue, str",
            )
        ],
        tests=[
            f"{SHORT_FORM}[io_errors-sqlite]",
            "tests/faults/test_disk.py::test_a_full_disk_is_one_sentence_and_loses_nothing",
            "tests/faults/test_server_cuts.py"
            "::test_the_command_prints_the_id_of_an_enqueue_that_was_cut_off",
        ],
    ),
    Mutant(
        name="interrupted-unsaid",
        broken="An interrupt ends a command between storing something and saying so.",
        edits=[
            Edit(
                old="    queue.before_commit = _hold\n",
                new="    queue.before_commit = None\n",
            )
        ],
        tests=[
            "tests/cli/test_interrupts.py::test_what_was_stored_is_said_before_the_command_ends"
        ],
    ),
    Mutant(
        name="explain-runs-of-the-dead",
        broken="A job is said to run on a node that is gone.",
        edits=[Edit(old="if job.node in living:", new="if job.node:")],
        tests=["tests/cli/test_explain.py::test_its_node_is_gone"],
    ),
)
