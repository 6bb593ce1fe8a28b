"""Mutants of who is let in over HTTP: roles, tokens, sessions and links."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

POLICY = "tests/unit/test_access.py"
GRANTS = "tests/contract/test_grants.py"
FACADE = "tests/unit/test_grants.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="admin-runs-commands",
        broken="An administrator may have commands run, though nobody said so.",
        edits=[Edit(old="Right.SECRETS, Right.OPERATE, Right.ADMIN})", new="*Right})")],
        tests=[f"{POLICY}::TestRights::test_to_run_commands_must_be_said"],
    ),
    Mutant(
        name="secret-kept",
        broken="The secret of a token is kept as it is.",
        edits=[
            Edit(
                old='return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()',
                new="return secret",
            )
        ],
        tests=[f"{GRANTS}::TestOthers::test_the_secret_itself_is_nowhere[sqlite]"],
    ),
    Mutant(
        name="token-for-ever",
        broken="A token is good after its time.",
        edits=[Edit(old="if one is None or one.is_over(now):", new="if one is None:")],
        tests=[f"{FACADE}::TestKnown::test_until_its_time_is_over"],
    ),
    Mutant(
        name="token-gone-session-stays",
        broken="A session of a token that was removed is good.",
        edits=[
            Edit(
                old="if one is None or one.is_over(now):\n                return False",
                new="if one is None or one.is_over(now):\n                return one is None",
            )
        ],
        tests=[f"{FACADE}::TestSessions::test_a_session_whose_token_is_gone_is_not_good"],
    ),
    Mutant(
        name="removed-alone",
        broken="What was derived from a token stays when that is removed.",
        edits=[
            Edit(old="newest = self._grants(self._sql.LOCK_DERIVED, ids=ids)", new="newest = []")
        ],
        tests=[f"{GRANTS}::TestRemove::test_and_all_that_was_derived_from_it[sqlite]"],
    ),
    Mutant(
        name="token-name-shared",
        broken="Of two tokens with one name, the second is lost, and nobody is told.",
        edits=[
            Edit(
                old="if token is not None and self._db.value(",
                new="if token is None and self._db.value(",
            )
        ],
        tests=[f"{GRANTS}::TestAdd::test_no_two_tokens_have_one_name[sqlite]"],
    ),
    Mutant(
        name="link-used-twice",
        broken="Who comes second with a link gets a session, too.",
        edits=[
            Edit(
                old="_row_of(grant) | of):\n                return False",
                new="_row_of(grant) | of):\n                self._keep(grant)",
            )
        ],
        tests=[
            f"{GRANTS}::TestExchange::test_once[sqlite]",
            f"{FACADE}::TestSigningIn::test_of_many_who_have_one_link_one_gets_in",
        ],
    ),
    Mutant(
        name="session-rotated-twice",
        broken="A session gets another secret for each request that asks for one.",
        edits=[Edit(old=" WHERE id = :was AND digest = :was_digest", new=" WHERE id = :was")],
        tests=[f"{GRANTS}::TestExchange::test_something_of_it_may_be_left[sqlite]"],
    ),
    Mutant(
        name="old-secret-for-ever",
        broken="The secret that a session had before is good as long as the session.",
        edits=[
            Edit(
                old="end = min(now + HOLDS_ON, there.expires_at or LATEST)",
                new="end = there.expires_at or LATEST",
            )
        ],
        tests=[f"{FACADE}::TestSessions::test_a_secret_is_replaced"],
    ),
    Mutant(
        name="acting-for-everybody",
        broken="What others do meanwhile is on record as done for the same one.",
        edits=[
            Edit(
                old='before = _other["name"].set(name)',
                new='_other["name"] = ContextVar("name", default=name)\n'
                '    before = _other["name"].set(name)',
            ),
            Edit(
                old="    if not _other:\n        from contextvars import ContextVar\n",
                new="    from contextvars import ContextVar\n    if not _other:\n",
            ),
            Edit(old='_other["name"].reset(before)', new="before"),
        ],
        tests=[
            f"{FACADE}::TestActing::test_others_who_do_something_meanwhile_are_themselves",
        ],
    ),
)
