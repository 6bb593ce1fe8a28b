"""Mutants of what queues can do in the store: limits, unique jobs, schedules, pauses."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

LIMITS = "tests/contract/test_limits.py"
UNIQUE = "tests/contract/test_unique.py"
EDITS = "tests/contract/test_edit.py"
UNDO = "tests/contract/test_undo.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="limits-count-without-lock",
        broken="A claim counts the runs of a queue while somebody else begins some.",
        edits=[Edit(old="ORDER BY name{row_lock}", new="ORDER BY name", inside="LOCK_LIMITS")],
        tests=[f"{LIMITS}::TestAtOnce::test_of_two_who_claim_at_once_one_waits"],
    ),
    Mutant(
        name="limits-slot-kept",
        broken="The end of a run brings back nobody who waits for its key.",
        edits=[Edit(old="left=[end.job for end in ends],", new="left=[],")],
        tests=[f"{LIMITS}::TestAtOnce"],
    ),
    Mutant(
        name="limits-slot-of-the-dead",
        broken="A limit counts jobs that have ended too.",
        edits=[
            Edit(
                old="queue = :queue AND state = 'processing'",
                new="queue = :queue AND attempts > 0",
                inside="between:TAKEN_SLOTS",
            )
        ],
        tests=[f"{LIMITS}::TestAtOnce::test_the_slots_of_a_dead_node_are_free_again[sqlite]"],
    ),
    Mutant(
        name="limits-token-kept",
        broken="What a rate was charged for a run that never began isn't given back.",
        edits=[Edit(old="if unstarted and (limits.rates", new="if False and (limits.rates")],
        tests=[f"{LIMITS}::TestRates::test_a_run_that_never_began_is_given_back"],
    ),
    Mutant(
        name="limits-room-of-another-key",
        broken="Room of a key that the first who waits for it can't use is left empty.",
        edits=[
            Edit(
                old="if key != full and gates[job.queue].room_of(key)",
                new="if key == full and gates[job.queue].room_of(key)",
            )
        ],
        tests=[f"{LIMITS}::TestAtOnce::test_room_that_one_can_not_use_is_for_the_next"],
    ),
    Mutant(
        name="limits-key-never-opens",
        broken="Who waits for the rate of a key is forgotten once the key has opened.",
        edits=[Edit(old="if key and self._first_parked(name, key, 1):", new="if not name:")],
        tests=[f"{LIMITS}::TestRates::test_a_key_has_a_rate_of_its_own"],
    ),
    Mutant(
        name="limits-held-for-ever",
        broken="What a claim knows of a queue that it has locked is used by the next one, too.",
        edits=[
            Edit(old="self.wrote = False\n        self.held.clear()", new="self.wrote = False"),
            Edit(old="known.pop(name) for name", new="known[name] for name"),
        ],
        tests=[f"{LIMITS}::TestChanging"],
    ),
    Mutant(
        name="unique-look-then-insert",
        broken="Whether a unique key is free is looked up, and nobody is kept from looking too.",
        edits=[
            Edit(
                old="            if self._db.driver.remote:\n                nobody",
                new="            if False:\n                nobody",
            ),
            Edit(old="if self._db.driver.remote else set()", new="if False else set()"),
        ],
        tests=[f"{UNIQUE}::test_of_many_who_ask_at_once_one_has_it"],
    ),
    Mutant(
        name="unique-twice-by-retry",
        broken="A job that is retried doesn't ask whether another one has its unique key.",
        edits=[
            Edit(old="            take_again(self._db, back, self._now)", new="            pass")
        ],
        tests=[f"{UNIQUE}::TestRetry"],
    ),
    Mutant(
        name="unique-replaces-nobody",
        broken="A job waits beside the one whose unique key it took.",
        edits=[
            Edit(
                old="self._displaced.append(Displaced(holder.seq or holder.id, reason))",
                new="str(reason)",
            ),
        ],
        tests=[f"{UNIQUE}::TestReplace"],
    ),
    Mutant(
        name="swap-loses-the-schedule",
        broken="A schedule takes the job that its own has swapped places with for its own.",
        edits=[Edit(old="db.change(sql.MOVE_LAST, of_schedule)", new="pass")],
        tests=[f"{EDITS}::test_a_schedule_knows_its_job_in_another_place"],
    ),
    Mutant(
        name="undo-over-what-came-later",
        broken="What was done to a job is undone though somebody has changed it since.",
        edits=[
            Edit(
                old="if job.updated_at != event.at or last.get(job.id) != event.seq:",
                new="if False:",
            )
        ],
        tests=[f"{UNDO}::TestStays::test_a_job_that_was_changed_or_deleted_since"],
    ),
    Mutant(
        name="undo-takes-the-unique-key",
        broken="A job that is brought back doesn't ask whether another one has its unique key.",
        edits=[
            Edit(
                old="states |= {seq: job.state",
                new="_ = {seq: job.state",
                inside="Decided._take_keys",
            ),
        ],
        tests=[f"{UNDO}::TestMany::test_one_whose_unique_key_was_taken_keeps_none_of_the_others"],
    ),
    Mutant(
        name="undo-in-name-only",
        broken="A job is said to be brought back, and stays what it was made.",
        edits=[
            Edit(old="replace(again, parked=None) if again.parked else again", new="job"),
        ],
        tests=[f"{UNDO}::TestComesBack::test_a_job_is_again_what_it_was"],
    ),
    Mutant(
        name="undo-for-ever",
        broken="What was done can be undone however long ago that was.",
        edits=[Edit(old="if newest.at + UNDO_FOR < store.clock.now():", new="if False:")],
        tests=[f"{UNDO}::TestStays::test_what_was_done_too_long_ago"],
    ),
    Mutant(
        name="waiting-tick-never-woken",
        broken="The end of a job isn't told to the schedule whose next tick waits for it.",
        edits=[Edit(old="if change.ticked:", new="if False:", inside="Idiom.follow")],
        tests=[
            "tests/contract/test_schedules.py::TestEnds::test_every_end_wakes_what_waits_for_it",
            "tests/node/test_schedules.py::test_ticks_wait_for_the_job_before",
        ],
    ),
    Mutant(
        name="pause-of-another-run",
        broken="A run begins paused, as one was that had its number and never began.",
        edits=[
            Edit(
                old="AND j.attempts = p.number AND j.started_at <= p.at",
                new="AND j.attempts = p.number",
            )
        ],
        tests=[
            "tests/contract/test_pause.py::"
            "test_one_that_was_put_back_is_not_paused_when_it_is_claimed_again[sqlite]"
        ],
    ),
)
