"""Mutants of the web: who may what, what is fair, what browsers are kept from, what is shown."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

ACCESS = "tests/web/test_access.py"
ATTACKS = "tests/web/test_attacks.py"
PATIENCE = "tests/web/test_patience.py"
SCOPE = "tests/unit/test_scope.py"
SIGNING = "tests/web/test_signing.py"
STARTING = "tests/web/test_starting.py"
WEBHOOKS = "tests/web/test_webhooks.py"

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
        edits=[Edit(old="_check_afar(asked)", new="pass", inside="changes_of")],
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
            Edit(
                old='return replace(problem, detail=f"{problem.title}.", error=None)',
                new="return problem",
            )
        ],
        tests=[f"{ACCESS}::TestStrangers::test_a_database_that_cannot_be_used"],
    ),
    Mutant(
        name="token-outlives-its-maker",
        broken="Who makes a token has it for longer than their own.",
        edits=[Edit(old="bound = self._end_of(maker)", new="bound = None")],
        tests=["tests/unit/test_grants.py::TestMakers::test_it_ends_no_later"],
    ),
    Mutant(
        name="web-any-role-will-do",
        broken="Whoever has a token may do everything with it, whatever its role.",
        edits=[
            Edit(old="if needs is not None and not grant.may(needs):", new="if needs is None:"),
        ],
        tests=[f"{ACCESS}::test_each_role_may_what_the_table_says_and_no_more"],
    ),
    Mutant(
        name="web-submits-unasked",
        broken="Something can be made to run through a server that was never told to allow it.",
        edits=[Edit(old='if needs == "submit" and not self.rules.may_submit:', new="if False:")],
        tests=[
            f"{ACCESS}::TestRights::test_a_server_submits_and_changes_nothing_unless_it_was_told_so"
        ],
    ),
    Mutant(
        name="web-read-only-changes",
        broken="A server that is to change nothing does.",
        edits=[Edit(old="if route.changes and self.rules.read_only:", new="if False:")],
        tests=[
            f"{ACCESS}::TestRights::test_a_server_submits_and_changes_nothing_unless_it_was_told_so"
        ],
    ),
    Mutant(
        name="web-one-queue-sees-all",
        broken="A token for some queues is let in to what is about all of them.",
        edits=[
            Edit(
                old="if route.scope is Scope.ALL and grant.queues:",
                new="if False:",
                inside="App._check",
            )
        ],
        tests=[f"{ACCESS}::test_a_token_for_some_queues_keeps_to_what_is_about_them"],
    ),
    Mutant(
        name="web-data-for-everybody",
        broken="Whoever may see jobs sees their data and the names of their variables.",
        edits=[Edit(old="if not call.may(Right.SECRETS):", new="if False:", inside="masked")],
        tests=[f"{ACCESS}::TestRights::test_a_secret_of_a_job_is_for_who_may_see_it"],
    ),
    Mutant(
        name="web-token-heard-for-ever",
        broken="A token that was good once is good for as long as the server runs.",
        edits=[Edit(old="now + min(KNOWN_FOR, left / 1000)", new="inf")],
        tests=[f"{ACCESS}::TestRights::test_nobody_gives_away_what_they_have_not"],
    ),
    Mutant(
        name="web-any-page-may-change",
        broken="A page of another site has a browser change something with our cookie.",
        edits=[Edit(old="if method in SAFE:", new="if method:")],
        tests=[f"{ATTACKS}::TestCrossSite::test_others_may_not"],
    ),
    Mutant(
        name="web-any-name-is-ours",
        broken="A page of another site reads everything, once its name points to this server.",
        edits=[
            Edit(
                old='if name is None or (name not in known and "*" not in known):',
                new="if name is None:",
            )
        ],
        tests=[f"{ATTACKS}::TestNames::test_a_name_that_points_here_is_not_ours"],
    ),
    Mutant(
        name="web-proxy-from-anywhere",
        broken="Whoever says so in a header is whom the proxy would have said.",
        edits=[Edit(old="if not proxy.is_at(address):", new="if False:")],
        tests=[f"{ATTACKS}::test_who_says_to_be_the_proxy_is_believed_only_where_it_is"],
    ),
    Mutant(
        name="web-cookie-for-scripts",
        broken="A script in a page can read the secret of the session.",
        edits=[Edit(old='"HttpOnly", ', new="")],
        tests=[f"{SIGNING}::TestIn::test_the_printed_link_opens_a_session_once"],
    ),
    Mutant(
        name="web-sent-anywhere",
        broken="Who signs in is sent on to a page of somebody else.",
        edits=[Edit(old="and pages.find(path) is not None", new="")],
        tests=[f"{SIGNING}::TestWhere::test_one_is_sent_to_no_place_but_our_own_pages"],
    ),
    Mutant(
        name="web-markup-of-jobs",
        broken="What a job is called is markup on a page.",
        edits=[Edit(old="autoescape=True", new="autoescape=False")],
        tests=["tests/web/test_browser.py::test_what_jobs_say_is_text_and_never_markup"],
    ),
    Mutant(
        name="web-scripts-of-others",
        broken="A page runs scripts that stand in it.",
        edits=[Edit(old="script-src 'self';", new="script-src 'self' 'unsafe-inline';")],
        tests=[f"{ATTACKS}::TestHeaders::test_each_answer_has_them"],
    ),
    Mutant(
        name="web-nothing-ever-changes",
        broken="All answers have the same ETag: who has one is told that it is still so.",
        edits=[Edit(old="tag = f'\"{sha256(body).hexdigest()[:32]}\"'", new="tag = '\"same\"'")],
        tests=["tests/web/test_jobs.py::TestLists::test_what_has_not_changed_is_not_sent_again"],
    ),
    Mutant(
        name="web-reconnect-begins-anew",
        broken="A stream that comes back begins anew, wherever it was.",
        edits=[
            Edit(
                old='return request.headers.get("last-event-id") or request.param("since")',
                new='return request.param("since")',
            )
        ],
        tests=["tests/web/test_streams.py::TestOutput::test_who_comes_back_goes_on_where_it_was"],
    ),
    Mutant(
        name="web-shows-a-ghost",
        broken="What was in a database that was deleted is shown for ever.",
        edits=[Edit(old="self._queue.check_place()", new="pass")],
        tests=[f"{STARTING}::TestGone::test_nobody_is_shown_a_ghost[deleted]"],
    ),
    Mutant(
        name="web-secret-in-the-log",
        broken="The access log has secrets that stand in a path.",
        edits=[
            Edit(old='_SECRET.sub(r"\\1...", _ODD.sub("?", target))', new='_ODD.sub("?", target)')
        ],
        tests=[f"{STARTING}::TestAccessLog::test_each_request_is_a_line_without_secrets"],
    ),
    Mutant(
        name="web-webhook-secret-again",
        broken="Whoever asks for a webhook that is there is told its secret.",
        edits=[
            Edit(
                old='"webhook": told(call, there), "secret": None}',
                new='"webhook": told(call, there), "secret": there.secret}',
            )
        ],
        tests=[f"{WEBHOOKS}::TestAdd::test_the_same_again_adds_nothing_and_tells_no_secret"],
    ),
    Mutant(
        name="web-webhooks-of-others",
        broken="A token for some queues pauses and removes webhooks of others.",
        edits=[
            Edit(
                old="return not allowed or (bool(webhook.queues) and"
                " set(webhook.queues) <= set(allowed))",
                new="return True or allowed",
            )
        ],
        tests=[f"{WEBHOOKS}::TestRights::test_a_token_for_some_queues_keeps_to_webhooks_of_these"],
    ),
)
