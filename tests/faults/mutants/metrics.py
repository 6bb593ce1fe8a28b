"""Mutants of metrics: figures that are wrong, without bounds, or for anybody."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

FIGURES = "tests/unit/test_metrics.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="metrics-labels-without-bound",
        broken="Each queue that ever was has series of its own, however many they are.",
        edits=[
            Edit(
                old="(self._own if len(self._own) < self._most else self._others).add(name)",
                new="self._own.add(name)",
            )
        ],
        tests=[f"{FIGURES}::test_of_many_queues_the_rest_is_summed_up"],
    ),
    Mutant(
        name="metrics-lag-of-the-next",
        broken="How late schedules are is told of the one that is due last.",
        edits=[Edit(old="min(comes, default=figures.now)", new="max(comes, default=figures.now)")],
        tests=[f"{FIGURES}::test_schedules_are_told_with_their_lag"],
    ),
    Mutant(
        name="metrics-of-the-dead",
        broken="A node that is gone is told of as if it worked.",
        edits=[
            Edit(
                old="living = [one for one in figures.nodes if one.alive]",
                new="living = list(figures.nodes)",
            )
        ],
        tests=[f"{FIGURES}::test_nodes_that_are_gone_leave"],
    ),
    Mutant(
        name="metrics-failures-mixed-up",
        broken="Of failures nobody is told how they came about.",
        edits=[Edit(old="kind = total.measure.removeprefix(FAILURE)", new='kind = "exited"')],
        tests=[f"{FIGURES}::test_runs_waits_and_failures_come_from_the_totals"],
    ),
    Mutant(
        name="metrics-of-other-queues",
        broken="A token for one queue reads the figures of all.",
        edits=[
            Edit(
                old='if grant.queues: raise ForbiddenError(f"{grant.name} is let in for some queues'
                ' only, not for that.") accept =',
                new="accept =",
            )
        ],
        tests=["tests/web/test_metrics.py::test_who_may_see_them"],
    ),
    Mutant(
        name="metrics-by-any-name",
        broken="A page of another site reads the figures of a node, once its name points there.",
        edits=[Edit(old="if not all(map(self._is_ours, called)):", new="if False:")],
        tests=["tests/node/test_metrics.py::test_a_name_of_somebody_else_is_refused"],
    ),
)
