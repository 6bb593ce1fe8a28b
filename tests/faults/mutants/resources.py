"""Mutants of what jobs need and nodes have: devices, classes of need, reservations."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

NEEDS = "tests/contract/test_needs.py"
ROOM = "tests/unit/test_resources.py::TestRoom"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="device-given-to-two",
        broken="A device that a run has is given to others as well.",
        edits=[
            Edit(
                old="            each = min(many, WHOLE)\n",
                new="            each = 0\n",
            )
        ],
        tests=[
            f"{ROOM}::test_no_device_is_ever_given_out_beyond_itself",
            f"{NEEDS}::TestRoom::test_devices_are_given_out_and_come_back",
        ],
    ),
    Mutant(
        name="two-halves-are-a-whole",
        broken="Halves of two devices are given to a job that needs a whole one.",
        edits=[
            Edit(
                old="for at, left in pool.items() if left == WHOLE)",
                new="for at, left in pool.items() if left)",
            )
        ],
        tests=[f"{ROOM}::test_halves_of_two_are_no_whole_one"],
    ),
    Mutant(
        name="large-jobs-starve",
        broken="No room is kept for a job that fits nowhere now.",
        edits=[
            Edit(
                old="if may_be_kept and self._may_keep(job, self._now_held):",
                new="if False:",
            )
        ],
        tests=[f"{NEEDS}::TestReservations::test_small_ones_that_keep_coming_dont_starve_it"],
    ),
    Mutant(
        name="kept-room-is-taken",
        broken="Other jobs take the room that is kept for one.",
        edits=[
            Edit(
                old="return all(left.has(name, many) for name, many in wanted.amounts"
                " if name in uses)",
                new="return True",
            )
        ],
        tests=[f"{NEEDS}::TestReservations::test_the_first_that_fits_nowhere_has_room_kept"],
    ),
    Mutant(
        name="reservation-before-priority",
        broken="Room that is kept for a job isn't given to one of a higher priority.",
        edits=[
            Edit(old="if not (same and job.priority > left.priority):", new="if True:"),
        ],
        tests=[f"{NEEDS}::TestReservations::test_a_higher_priority_takes_the_room_over"],
    ),
    Mutant(
        name="reservation-outlives-its-node",
        broken="Room is kept on a node that is gone.",
        edits=[
            Edit(
                old="        DELETE FROM reservations WHERE node = OLD.id;\n",
                new="        SELECT 1;\n",
            ),
            Edit(
                old="kept JOIN {nodes} n ON n.id = kept.node AND n.stop IS NULL",
                new="kept LEFT JOIN {nodes} n ON n.id = kept.node",
            ),
        ],
        tests=[f"{NEEDS}::TestReservations::test_it_goes_with_its_node"],
    ),
    Mutant(
        name="room-is-kept-everywhere",
        broken="Every node keeps room for the same job.",
        edits=[
            Edit(
                old="        return best == self._node\n",
                new="        return True\n",
            ),
            Edit(
                old="        if job.seq in self._taken_places or self._weighed >= MOST_WEIGHED:\n",
                new="        if self._weighed >= MOST_WEIGHED:\n",
            ),
        ],
        tests=[f"{NEEDS}::TestReservations::test_of_each_node_one_and_of_each_job_one"],
    ),
    Mutant(
        name="devices-not-written-down",
        broken="Which devices a run was given is forgotten.",
        edits=[
            Edit(
                old='self._db.change(self._sql.SET_DEVICES, {"seq": seq, "devices": text})',
                new='_ = {"seq": seq, "devices": text}',
            )
        ],
        tests=[f"{NEEDS}::TestRoom::test_devices_are_given_out_and_come_back"],
    ),
    Mutant(
        name="room-is-taken-ahead",
        broken="A job has its share of the node while it waits behind a run.",
        edits=[
            Edit(
                old="            free = [place for place in places if not place.ahead]\n",
                new="            free = places\n",
            )
        ],
        tests=[
            "tests/unit/test_fitting.py::TestWhoBegins::test_nobody_takes_room_ahead_of_its_time",
        ],
    ),
    Mutant(
        name="edit-keeps-the-class",
        broken="A job that is edited to need something else stays in its old class.",
        edits=[
            Edit(
                old="        to = replace(to, handler=_handler(to))\n",
                new="        pass\n",
            )
        ],
        tests=[f"{NEEDS}::TestRoom::test_an_edited_job_is_of_another_class"],
    ),
)
