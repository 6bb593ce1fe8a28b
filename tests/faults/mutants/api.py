"""Mutants of jobs that are added together: who is told what, and when."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

TOGETHER = "tests/contract/test_together.py"
ADDING = "tests/web/test_adding.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="together-told-before-the-commit",
        broken="Who asks is told of a job while its transaction can still be undone, and it is.",
        edits=[
            Edit(
                old="return self._store.transact(lambda: [self._part(one) for one in prepared])",
                new="outcomes: list[Outcome] = []\n"
                "                def part() -> None:\n"
                "                    outcomes.extend(self._part(one) for one in prepared)\n"
                "                    raise DuplicateError('undone')\n"
                "                try:\n"
                "                    self._store.transact(part)\n"
                "                except DuplicateError:\n"
                "                    return outcomes",
            )
        ],
        tests=[f"{TOGETHER}::test_they_share_one_commit_and_each_gets_its_own_job[sqlite]"],
    ),
    Mutant(
        name="together-takes-others-along",
        broken="What the database refuses of one job is the error of all that came with it.",
        edits=[
            Edit(
                old="return self._one_by_one(prepared)",
                new="return [DuplicateError('refused')] * len(prepared)",
            )
        ],
        tests=[f"{TOGETHER}::test_what_the_database_refuses_takes_nobody_along[sqlite]"],
    ),
    Mutant(
        name="together-taken-id-undoes-all",
        broken="An id that is taken undoes what came before it in the same commit, for nothing.",
        edits=[
            Edit(
                old="        except DuplicateError as error:\n            # That was seen",
                new="        except LookupError as error:\n            # That was seen",
            )
        ],
        tests=[f"{TOGETHER}::test_an_id_that_is_taken_is_the_error_of_that_one[sqlite]"],
    ),
    Mutant(
        name="together-answers-mixed-up",
        broken="Of requests that came together, each is answered with the job of another.",
        edits=[
            Edit(
                old="zip(ready, outcomes, strict=True)",
                new="zip(ready, reversed(outcomes), strict=True)",
            )
        ],
        tests=[f"{ADDING}::test_who_comes_meanwhile_shares_the_next_commit_and_hears_after_it"],
    ),
    Mutant(
        name="together-waits-for-others",
        broken="A job whose id somebody else may have locked holds up all that came with it.",
        edits=[Edit(old=" and not one.prepared.may_wait", new="")],
        tests=[f"{ADDING}::test_who_comes_meanwhile_shares_the_next_commit_and_hears_after_it"],
    ),
    Mutant(
        name="together-key-forgotten",
        broken="An Idempotency-Key means nothing if the body says that the job has no id.",
        edits=[
            Edit(old='named = asked.get("id") is not None', new='named = "id" in asked'),
        ],
        tests=[f"{ADDING}::test_a_key_that_comes_twice_at_the_same_moment_adds_one_job"],
    ),
)
