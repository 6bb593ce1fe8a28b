"""Mutants of webhooks: what is told of whom, exactly once, and where messages may go."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

STORE = "tests/contract/test_webhooks.py"
DELIVERY = "tests/unit/test_delivery.py"
NODE = "tests/node/test_webhooks.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="webhooks-of-deliveries",
        broken="Of the end of a delivery a webhook is told as of any other.",
        edits=[
            Edit(old="if news is None or job.webhook is not None:", new="if news is None:"),
        ],
        tests=[f"{STORE}::TestTheDelivery::test_of_its_end_nobody_is_told"],
    ),
    Mutant(
        name="webhooks-not-by-hand",
        broken="A webhook isn't told of jobs that are cancelled or finished by hand.",
        edits=[Edit(old='if r["final"] and may_tell(held[r["seq"]])', new="if False")],
        tests=[f"{STORE}::TestOccasions::test_what_is_done_by_hand"],
    ),
    Mutant(
        name="webhooks-by-memory",
        broken="Deliveries are made for webhooks as they were a second ago, also of one removed.",
        edits=[
            Edit(
                old="for webhook in webhooks_of(db.rows(db.sql.WEBHOOKS))",
                new="for webhook in known",
            )
        ],
        tests=[
            f"{STORE}::TestExactlyOnce"
            "::test_one_that_others_have_paused_or_removed_gets_nothing_more[sqlite]"
        ],
    ),
    Mutant(
        name="webhooks-gone-goes-on",
        broken="A receiver that says that it is gone gets messages all the same.",
        edits=[
            Edit(
                old="return job.webhook if outcome == Exited(GONE) else None",
                new="return None",
            )
        ],
        tests=[f"{STORE}::TestPaused::test_a_receiver_that_is_gone_pauses_it"],
    ),
    Mutant(
        name="webhooks-to-the-name",
        broken="The address of a receiver is checked, and then its name is connected to.",
        edits=[Edit(old="sock.connect(where)", new="sock.connect((host, where[1]))")],
        tests=[f"{DELIVERY}::TestSending::test_a_name_that_means_something_else_a_moment_later"],
    ),
    Mutant(
        name="webhooks-to-mapped-addresses",
        broken="An IPv6 address that stands for one of IPv4 is taken for public.",
        edits=[
            Edit(
                old="if inner is not None and not is_public(str(inner)):",
                new="if inner is not None and False:",
            )
        ],
        tests=[f"{DELIVERY}::TestAddresses::test_others"],
    ),
    Mutant(
        name="webhooks-dripping",
        broken="A receiver that says a byte now and then holds a worker for as long as it likes.",
        edits=[Edit(old="timer.start()", new="pass", inside="delivery:_connected")],
        tests=[f"{DELIVERY}::TestSending::test_one_who_says_a_byte_now_and_then"],
    ),
)
