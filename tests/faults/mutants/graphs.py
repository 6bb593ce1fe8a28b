"""Mutants of graphs and groups: who is told of an end, who is let go, when a group is over."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

EDGES = "tests/contract/test_edges.py"
GROUPS = "tests/contract/test_groups.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="children-of-a-run-forgotten",
        broken="A run whose job got its first child since it was claimed ends as if it had none.",
        edits=[
            Edit(old="AND has_children = r.has_children_", new="", inside="sqlite:FINISH"),
            Edit(
                old="AND has_children = r.has_children_",
                new="",
                inside="postgresql:FINISH_AND_KEEP",
            ),
            Edit(old="AND has_children = :has_children", new="", inside="mysql:FINISH"),
            Edit(old="AND has_children = :has_children", new="", inside="mysql:FINISH_COUNTED"),
        ],
        tests=[f"{EDGES}::TestRaces::test_a_child_that_comes_while_its_parent_runs"],
    ),
    Mutant(
        name="end-not-written-again",
        broken="The end of a run whose job got its first child meanwhile is taken for a late one.",
        edits=[Edit(old="if lost:", new="if False:", inside="SqlRuns._finish")],
        tests=[f"{EDGES}::TestRaces::test_among_other_ends"],
    ),
    Mutant(
        name="parents-miscounted",
        broken="How many parents a job still waits for is told wrongly when one of them ends.",
        edits=[
            Edit(old="open_parents = open_parents - :count", new="open_parents = :count - 1"),
        ],
        tests=[f"{EDGES}::TestWaiting::test_a_job_waits_until_its_parents_have_completed"],
    ),
    Mutant(
        name="cancelling-stays-where-it-is",
        broken="The children of a child that is cancelled with its parent wait for ever.",
        edits=[
            Edit(
                old="left.extend(self._tell(judged, now, moves, is_whole=is_whole))",
                new="self._tell(judged, now, moves, is_whole=is_whole)",
            )
        ],
        tests=[f"{EDGES}::TestByHand::test_cancelling_flows_down_and_never_up"],
    ),
    Mutant(
        name="below-what-was-read-ahead-forgotten",
        broken="Of a long chain that is cancelled, all behind what is read ahead wait for ever.",
        edits=[
            Edit(
                old="return [end for end in ends if end.seq not in judged.told]",
                new="return [] if judged.told else ends",
            )
        ],
        tests=[f"{EDGES}::TestReadingAhead::test_a_chain_takes_few_rounds"],
    ),
    Mutant(
        name="told-without-being-asked",
        broken="What is said to be told to all who wait for a job isn't what each of them wants.",
        edits=[Edit(old="if is_whole and len(by_met) == 1:", new="if is_whole:")],
        tests=[f"{EDGES}::TestReadingAhead::test_children_of_one_that_is_dead_are_each_asked"],
    ),
    Mutant(
        name="said-to-be-told",
        broken="Of very many children, those that aren't told yet are said to have been.",
        edits=[Edit(old="if is_whole and len(by_met) == 1:", new="if len(by_met) == 1:")],
        tests=[f"{EDGES}::TestVeryMany::test_the_others_are_told_later"],
    ),
    Mutant(
        name="rest-of-the-children-forgotten",
        broken="Of very many children, those that one transaction doesn't tell are never told.",
        edits=[
            Edit(
                old="self._db.change(self._sql.ADD_UNTOLD, _kept_row(end))",
                new="continue",
            )
        ],
        tests=[f"{EDGES}::TestVeryMany::test_the_others_are_told_later"],
    ),
    Mutant(
        name="told-though-it-runs-again",
        broken="Children go on to be told of an end of a job that was put back in line since.",
        edits=[
            Edit(
                old="self._db.change(self._sql.DROP_UNTOLD, bound)\n",
                new="",
            )
        ],
        tests=[f"{EDGES}::TestVeryMany::test_who_isnt_told_yet_of_a_job_that_runs_again"],
    ),
    Mutant(
        name="repair-in-vain",
        broken="A parent that is retried doesn't let those go on that its death has blocked.",
        edits=[
            Edit(
                old="self._db.change(self._sql.REOPEN_EDGES, bound)",
                new="return",
            )
        ],
        tests=[f"{EDGES}::TestRepair::test_with_its_parent_a_blocked_job_goes_on"],
    ),
    Mutant(
        name="met-for-now-only",
        broken="What a parent has allowed once is asked anew when it is retried.",
        edits=[
            Edit(old="AND came_to IS NOT NULL AND met = 0", new="", inside="between:REOPEN_EDGES"),
        ],
        tests=[f"{EDGES}::TestRepair::test_what_was_met_stays_met"],
    ),
    Mutant(
        name="retried-past-its-parents",
        broken="A job that is retried runs though jobs that it waits for haven't ended.",
        edits=[
            Edit(
                old="return State.BLOCKED if job.open_parents else State.PENDING",
                new="return State.PENDING",
            )
        ],
        tests=[f"{EDGES}::TestRepair::test_a_cancelled_child_waits_again_for_whom_it_waited"],
    ),
    Mutant(
        name="late-child-not-told",
        broken="A job that is to follow one that is over already waits for ever.",
        edits=[
            Edit(
                old="if end is not None and end.state in FINISHED:",
                new="if end is None:",
            )
        ],
        tests=[f"{EDGES}::TestConditions::test_what_an_end_means"],
    ),
    Mutant(
        name="fails-are-successes",
        broken="A job that is to run if its parent fails runs if that completes.",
        edits=[
            Edit(
                old="case Wanted.FAIL, State.DEAD:",
                new="case Wanted.FAIL, State.COMPLETED:",
            )
        ],
        tests=[f"{EDGES}::TestConditions::test_what_an_end_means"],
    ),
    Mutant(
        name="blocked-ones-run",
        broken="A new job that waits for others is put in line at once.",
        edits=[
            Edit(
                old="with_values(row, state=State.BLOCKED.value, ready=None)",
                new="row",
            )
        ],
        tests=[f"{EDGES}::TestWaiting::test_a_job_waits_until_its_parents_have_completed"],
    ),
    Mutant(
        name="group-over-twice",
        broken="A group is said to be over at each end of one of its jobs.",
        edits=[Edit(old="if after.open > 0:", new="if after.open > 1:", inside="_counted")],
        tests=[f"{GROUPS}::TestCounting::test_jobs_are_counted_as_they_come_and_end"],
    ),
    Mutant(
        name="group-never-over",
        broken="Of the last two jobs of a group that end at the same time, neither is the last.",
        edits=[
            Edit(old="ORDER BY name{{row_lock}}", new="ORDER BY name", inside="between:LOCK_GROUPS")
        ],
        tests=[f"{GROUPS}::TestCounting::test_the_last_two_end_at_the_same_time"],
    ),
    Mutant(
        name="group-that-is-stopped-goes-on",
        broken="A job of a stopped group that fails once more is retried.",
        edits=[
            Edit(
                old="if job.state == State.PROCESSING:",
                new="if job.state == State.DEAD:",
                inside="Moves.move",
            )
        ],
        tests=[f"{GROUPS}::TestStopping::test_so_is_what_comes_back"],
    ),
    Mutant(
        name="group-that-is-stopped-leaves-its-rubbish",
        broken="What cleans up after jobs of a group is cancelled with them when it is stopped.",
        edits=[Edit(old="if not some:", new="if some:", inside="Counting._clean_ups")],
        tests=[
            f"{GROUPS}::TestStopping::test_what_comes_after_its_jobs_however_these_end_comes_still"
        ],
    ),
    Mutant(
        name="circle-by-a-group",
        broken="A job may wait for what waits for the end of its own group.",
        edits=[Edit(old="if place in found:", new="if not some:", inside="Edges._leads_to")],
        tests=[f"{GROUPS}::TestWaitingForGroups::test_circles_by_way_of_groups"],
    ),
)
