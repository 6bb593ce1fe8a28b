"""Mutants of the web: what keeps requests to what their senders may, and to what is fair."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

ACCESS = "tests/web/test_access.py"
ATTACKS = "tests/web/test_attacks.py"
PATIENCE = "tests/web/test_patience.py"
SCOPE = "tests/unit/test_scope.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="field-checked-by-one-name",
        broken="A field by another of its names isn't checked.",
        edits=[Edit(old="asked = by_name(said, nulls=nulls)", new="asked = dict(said)")],
        tests=[
            f"{ACCESS}::TestNames::test_of_the_queue[queue ]",
            f"{ACCESS}::TestNames::test_of_an_environment[env-all]",
        ],
    ),
    Mutant(
        name="changes-unchecked",
        broken="What can't be asked for from afar can be made of a job that is there.",
        edits=[Edit(old="_check_afar(asked)", new="pass", inside="_changes")],
        tests=[f"{ACCESS}::TestNames::test_of_a_folder[cwd]"],
    ),
    Mutant(
        name="border-looked-at-before",
        broken="A job that is moved to another queue meanwhile is changed there.",
        edits=[
            Edit(
                old="held = {seq: job for seq, job in found.items() if reaches(job.queue)}",
                new="held = found",
            )
        ],
        tests=[f"{SCOPE}::test_a_job_that_was_moved_away_meanwhile[cancel some]"],
    ),
    Mutant(
        name="unique-over-the-border",
        broken="A unique key gives the job of another queue that has it, or takes its place.",
        edits=[Edit(old="is_ours = reaches(holder.queue)", new="is_ours = True")],
        tests=[
            f"{SCOPE}::test_a_unique_key_of_a_job_elsewhere[replace]",
            f"{ACCESS}::TestUnique::test_of_a_job_elsewhere[return]",
        ],
    ),
    Mutant(
        name="body-for-ever",
        broken="A body that comes byte by byte is waited for.",
        edits=[Edit(old="waited += clock() - began", new="waited = 0.0")],
        tests=[f"{PATIENCE}::TestBodies::test_that_come_byte_by_byte"],
    ),
    Mutant(
        name="unread-for-ever",
        broken="An answer that nobody reads keeps its connection.",
        edits=[Edit(old="if self._is_unread(left):", new="if False:")],
        tests=[f"{PATIENCE}::test_an_answer_that_nobody_reads_keeps_no_connection"],
    ),
    Mutant(
        name="connections-without-end",
        broken="Connections are taken until there are no descriptors left.",
        edits=[Edit(old="if self._taken >= self._most:", new="if False:")],
        tests=[f"{PATIENCE}::TestConnections::test_more_than_there_may_be_are_hung_up_on"],
    ),
    Mutant(
        name="stream-goes-on",
        broken="Whoever listens when their token is removed listens on.",
        edits=[Edit(old="over.set()", new="over", inside="Standing")],
        tests=["tests/web/test_streams.py::TestEnd::test_with_the_token"],
    ),
    Mutant(
        name="all-threads-for-one",
        broken="One token has all threads.",
        edits=[Edit(old="max(most * 3 // 4, 1)", new="most")],
        tests=["tests/web/test_threads.py::test_one_leaves_some_to_others"],
    ),
    Mutant(
        name="good-token-locked-out",
        broken="Wrong secrets from an address lock out good ones.",
        edits=[
            Edit(
                old="return self._by_token(given, address)",
                new="self.tries.failed(address)\n            return self._by_token(given, address)",
            )
        ],
        tests=[f"{ACCESS}::test_a_secret_cannot_be_guessed_by_trying"],
    ),
    Mutant(
        name="first-of-two-names",
        broken="Of two headers that say who asks, one is believed.",
        edits=[Edit(old="if request.repeated:", new="if False:")],
        tests=[f"{ATTACKS}::test_who_says_to_be_the_proxy_is_believed_only_where_it_is"],
    ),
    Mutant(
        name="errors-for-strangers",
        broken="Strangers are told where the database is when it can't be used.",
        edits=[
            Edit(old='return replace(problem, detail=f"{problem.title}.")', new="return problem")
        ],
        tests=[f"{ACCESS}::TestStrangers::test_a_database_that_cannot_be_used"],
    ),
    Mutant(
        name="token-outlives-its-maker",
        broken="Who makes a token has it for longer than their own.",
        edits=[Edit(old="bound = self._end_of(maker)", new="bound = None")],
        tests=["tests/unit/test_grants.py::TestMakers::test_it_ends_no_later"],
    ),
)
