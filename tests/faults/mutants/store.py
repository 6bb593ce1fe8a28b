"""Mutants of the store: claims, ends, leases, fences and what is written with them."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

LIMITS = "tests/contract/test_limits.py"
REPORTS = "tests/contract/test_reports.py"
EDITS = "tests/contract/test_edit.py"
SHORT_FORM = "tests/faults/test_short_form.py::test_all_promises_are_kept"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="fence-dropped",
        broken="The end of a run is written without asking whether the run still has the job.",
        edits=[
            Edit(
                old="AND attempts = r.attempt_ AND node = r.node_", new="", inside="sqlite:FINISH"
            ),
            Edit(
                old="AND attempts = r.attempt_ AND node = r.node_",
                new="",
                inside="postgresql:FINISH_AND_KEEP",
            ),
            Edit(old="AND attempts = :attempt AND node = :node", new="", inside="mysql:FINISH"),
            Edit(
                old="AND attempts = :attempt AND node = :node",
                new="",
                inside="mysql:FINISH_COUNTED",
            ),
        ],
        tests=[
            "tests/contract/test_finish.py::TestFence::test_a_run_whose_job_another_node_has_now",
        ],
    ),
    Mutant(
        name="synchronous-off",
        broken="SQLite says that a commit is durable before it is on the disk.",
        edits=[Edit(old="synchronous = FULL", new="synchronous = OFF")],
        tests=[
            f"{SHORT_FORM}[power-sqlite]",
            "tests/contract/test_sqlite.py"
            "::TestDurability::test_the_log_is_written_ahead_and_every_commit_synced",
        ],
    ),
    Mutant(
        name="unsent-forgotten",
        broken="What MariaDB is to insert before its next statement is forgotten then.",
        edits=[
            Edit(
                old="kept = db.take_unsent() if is_ours else []",
                new="kept: list[str] = db.take_unsent()[:0]",
            )
        ],
        tests=[
            "tests/contract/test_transaction.py::TestTransaction"
            "::test_what_the_database_refuses_in_an_inner_one_undoes_only_that[mariadb]",
        ],
    ),
    Mutant(
        name="deferred-begin",
        broken="A transaction on SQLite reads before it has the lock that it will write under.",
        edits=[Edit(old='"BEGIN IMMEDIATE"', new='"BEGIN DEFERRED"')],
        tests=[
            f"{SHORT_FORM}[crowds-sqlite]",
            "tests/contract/test_transaction.py"
            "::TestTransaction::test_one_that_reads_first_may_write_then[sqlite]",
        ],
    ),
    Mutant(
        name="host-clock-for-leases",
        broken="Whether the lease of another host is over is told by the clock of this one.",
        edits=[
            Edit(
                old="if node.lease <= 0 or (read_at - self._seen[node.id][1]) * 1000 > node.lease",
                new="if clock_gettime(0) * 1000 > node.lease_until",
            )
        ],
        tests=[
            f"{SHORT_FORM}[clocks-postgres]",
            "tests/faults/test_clocks.py"
            "::test_a_node_whose_clock_is_off_does_everything_in_time[+1h-postgres]",
        ],
    ),
    Mutant(
        name="host-clock-for-leases-sqlite",
        broken="Leases count by the wall clock, which people and NTP set.",
        edits=[
            Edit(
                old="return clock_gettime_ns(CLOCK_MONOTONIC) // 1_000_000",
                new="return time_ns() // 1_000_000",
            )
        ],
        tests=[
            f"{SHORT_FORM}[clocks-sqlite]",
            "tests/contract/test_nodes.py"
            "::TestClocks::test_where_leases_go_by_the_steady_clock_nobody_sets_it[sqlite]",
        ],
    ),
    Mutant(
        name="claim-without-lock",
        broken="A claim reads without locking, and takes a job that another took meanwhile.",
        edits=[
            Edit(old="AND 0 <> int4(ready = 1)", new="", inside="postgresql:_claim"),
            Edit(old="AND 1 = (ready = 1)", new="", inside="mysql:CLAIM"),
            Edit(
                old="LIMIT :limit FOR UPDATE SKIP LOCKED",
                new="LIMIT :limit",
                inside="postgresql:_claim",
            ),
            Edit(old="} FOR UPDATE SKIP LOCKED", new="}", inside="mysql:READY"),
            Edit(
                old="LIMIT :limit FOR UPDATE SKIP LOCKED",
                new="LIMIT :limit",
                inside="mysql:READY_WHOLE",
            ),
        ],
        tests=[
            f"{SHORT_FORM}[storms-postgres]",
            f"{SHORT_FORM}[storms-mariadb]",
        ],
    ),
    Mutant(
        name="claim-without-lock-sqlite",
        broken="A claim on SQLite chooses its jobs before it has the lock to take them.",
        edits=[
            Edit(old="AND +(ready = 1)", new="", inside="sqlite:CLAIM"),
            Edit(
                old="return self.db.atomic(lambda: self.claim_within(node, offer, self.time(now)))",
                new="return self.claim_within(node, offer, self.time(now))",
                inside="Idiom.claim",
            ),
        ],
        tests=[
            "tests/contract/test_sqlite_processes.py"
            "::TestThreads::test_eight_that_enqueue_claim_and_finish_get_each_job_once",
        ],
    ),
    Mutant(
        name="claim-in-pieces",
        broken="A claim on SQLite is several transactions: cut off, it is half done.",
        edits=[
            Edit(
                old="return self.db.atomic(lambda: self.claim_within(node, offer, self.time(now)))",
                new="return self.claim_within(node, offer, self.time(now))",
                inside="Idiom.claim",
            )
        ],
        tests=[
            "tests/contract/test_claim.py::test_one_that_is_cut_off_anywhere_has_done_nothing",
        ],
    ),
    Mutant(
        name="claim-without-skip-locked",
        broken="Nodes that claim at once on a server all go for the same jobs.",
        edits=[
            Edit(
                old="LIMIT :limit FOR UPDATE SKIP LOCKED",
                new="LIMIT :limit",
                inside="postgresql:_claim",
            ),
            Edit(old="} FOR UPDATE SKIP LOCKED", new="}", inside="mysql:READY"),
            Edit(
                old="LIMIT :limit FOR UPDATE SKIP LOCKED",
                new="LIMIT :limit",
                inside="mysql:READY_WHOLE",
            ),
        ],
        tests=[
            "tests/contract/test_claim.py"
            "::TestOneJob::test_two_who_claim_at_once_on_a_server_get_one_each",
        ],
    ),
    Mutant(
        name="finish-by-id-alone",
        broken="The end of a run is written to whatever job has the id, in whatever state.",
        edits=[
            Edit(
                old="AND attempts = r.attempt_ AND node = r.node_ AND state = 'processing'",
                new="",
                inside="sqlite:FINISH",
            ),
            Edit(
                old="AND attempts = r.attempt_ AND node = r.node_ AND state = 'processing'",
                new="",
                inside="postgresql:FINISH_AND_KEEP",
            ),
            Edit(
                old="AND attempts = :attempt AND node = :node AND state = 'processing'",
                new="",
                inside="mysql:FINISH",
            ),
            Edit(
                old="AND attempts = :attempt AND node = :node AND state = 'processing'",
                new="",
                inside="mysql:FINISH_COUNTED",
            ),
        ],
        tests=[
            "tests/contract/test_finish.py::TestFence::test_a_run_that_has_ended",
        ],
    ),
    Mutant(
        name="acknowledged-in-doubt",
        broken="A commit whose answer never came is taken for done.",
        edits=[
            Edit(
                inside="Session._commit",
                old='self.settle(receipt["serial"], error)',
                new="return",
            )
        ],
        tests=[
            "tests/faults/test_server_cuts.py::test_an_enqueue_that_is_cut_off_is_settled",
        ],
    ),
    Mutant(
        name="lease-renewed-after-its-end",
        broken="A lease that has run out can be renewed as if nothing had happened.",
        edits=[
            Edit(
                old='lease_holds="lease_until > :steady"',
                new='lease_holds=":steady > 0"',
            )
        ],
        tests=[
            "tests/contract/test_nodes.py"
            "::TestRenew::test_a_lease_that_was_let_run_out_is_lost[sqlite]",
        ],
    ),
    Mutant(
        name="promote-ignoring-run-at",
        broken="Jobs become ready without regard to their time.",
        edits=[
            Edit(
                old="AND parked IS NULL AND run_at <= :now",
                new="AND parked IS NULL AND :now > 0",
            ),
            Edit(old="look.due is not None and look.due <= now", new="look.due is not None"),
        ],
        tests=[
            f"{SHORT_FORM}[histories-sqlite]",
            "tests/contract/test_claim.py"
            "::TestTime::test_a_job_is_invisible_until_exactly_its_time",
        ],
    ),
    Mutant(
        name="wake-up-lost-sqlite",
        broken="Nobody is woken when a job is enqueued in an SQLite file.",
        edits=[
            Edit(
                inside="SqliteDriver.wake",
                old="files.touch(self.companion, topics, self.make_companion)",
                new="return",
            )
        ],
        tests=[
            "tests/contract/test_sqlite.py::TestWakeUps::test_an_enqueue_does",
        ],
    ),
    Mutant(
        name="wake-up-lost-postgres",
        broken="Nodes aren't notified of what is asked of them through PostgreSQL.",
        edits=[
            Edit(
                old="        for topic in sorted(topics):",
                new="        for topic in ():",
            )
        ],
        tests=[
            "tests/contract/test_transaction.py"
            "::TestWakeUps::test_nobody_is_woken_before_the_commit[postgresql]",
        ],
    ),
    Mutant(
        name="wake-up-lost-mariadb",
        broken="The doorbell isn't rung when a job is enqueued in MariaDB.",
        edits=[
            Edit(
                inside="ServerDriver.wake",
                old="files.touch(self.companion, topics, self.make_companion)",
                new="return",
            )
        ],
        tests=[
            "tests/contract/test_transaction.py"
            "::TestLooking::test_the_doorbell_is_heard[control-mariadb]",
        ],
    ),
    Mutant(
        name="unlock-before-write",
        broken="What a thread does in its transaction is done on whichever connection is free.",
        edits=[Edit(old="self._mine.session = session", new="pass", inside="Database._take")],
        tests=[
            "tests/contract/test_transaction.py"
            "::TestTransaction::test_another_thread_is_not_drawn_into_it",
        ],
    ),
    Mutant(
        name="connection-shared",
        broken="Two threads use one connection at the same time.",
        edits=[
            Edit(
                old="session = self._idle.pop()",
                new="session = self._idle[-1]",
                inside="Database._take",
            )
        ],
        tests=[
            "tests/contract/test_sqlite_processes.py"
            "::TestThreads::test_eight_that_enqueue_claim_and_finish_get_each_job_once",
        ],
    ),
    Mutant(
        name="unlock-before-write-lease",
        broken="A claim on a server is written though its node may be struck out meanwhile.",
        edits=[
            Edit(
                old="self.db.rows(self.sql.KEEP_LEASE, id=node)",
                new="self.db.rows(self.sql.LOOK, id=node)",
            ),
        ],
        tests=[
            "tests/contract/test_claim.py"
            "::TestLease::test_whoever_strikes_a_node_out_sees_all_that_it_has_claimed",
        ],
    ),
    Mutant(
        name="unlock-before-write-by-hand",
        broken="A job is read and let go again before it is changed by hand.",
        edits=[Edit(old='JOBS_AT + "{row_lock}"', new="JOBS_AT")],
        tests=[
            "tests/contract/test_server_settings.py::test_what_is_locked_nobody_else_changes",
            "tests/contract/test_by_hand.py"
            "::TestRemove::test_one_that_is_being_claimed_is_waited_for",
        ],
    ),
    Mutant(
        name="unlock-before-write-prune",
        broken="A job that somebody puts back in line while it is being pruned is deleted.",
        edits=[
            Edit(
                old="ORDER BY finished_at LIMIT :limit{skip_locked}",
                new="ORDER BY finished_at LIMIT :limit",
            )
        ],
        tests=[
            "tests/contract/test_by_hand.py::TestPrune::test_nor_is_one_that_somebody_is_retrying",
        ],
    ),
    Mutant(
        name="expired-claimed",
        broken="A job starts after its time to start is over, because too many others are, too.",
        edits=[
            Edit(
                old="AND (expires_at IS NULL OR expires_at > :now)", new="", inside="sqlite:READY"
            ),
            Edit(
                old="AND (expires_at IS NULL OR expires_at > :now)",
                new="",
                inside="sqlite:READY_WHOLE",
            ),
            Edit(
                old="AND (expires_at IS NULL OR expires_at > :now)",
                new="",
                inside="postgresql:_claim",
            ),
            Edit(
                old="AND (expires_at IS NULL OR expires_at > :now)",
                new="",
                inside="postgresql:READY",
            ),
            Edit(
                old="AND (expires_at IS NULL OR expires_at > :now)",
                new="",
                inside="postgresql:READY_WHOLE",
            ),
            Edit(
                old="AND (expires_at IS NULL OR expires_at > :now)",
                new="",
                inside="mysql:READY_UNLOCKED",
            ),
            Edit(
                old="AND (expires_at IS NULL OR expires_at > :now)",
                new="",
                inside="mysql:READY_WHOLE",
            ),
        ],
        tests=[
            "tests/contract/test_claim.py"
            "::TestExpiry::test_nor_does_one_that_no_claim_has_buried_yet",
        ],
    ),
    Mutant(
        name="stdin-left-behind",
        broken="What the runs of a job read from stdin stays in the store when the job is deleted.",
        edits=[
            Edit(
                old="DELETE FROM inputs WHERE seq = OLD.seq;",
                new="DELETE FROM inputs WHERE seq = -OLD.seq;",
            )
        ],
        tests=["tests/contract/test_surroundings.py::TestStdin::test_it_goes_with_its_job[sqlite]"],
    ),
    Mutant(
        name="stdin-of-a-duplicate",
        broken="A request that is skipped, as its id is taken, changes the stdin of another job.",
        edits=[
            Edit(
                old="kept = {n: inputs[at] for n, at in enumerate(fresh.values()) if at in inputs}",
                new="kept = {n: data for n, data in inputs.items() if n < len(fresh)}",
            )
        ],
        tests=[
            "tests/contract/test_surroundings.py"
            "::TestStdin::test_that_of_a_duplicate_goes_nowhere[sqlite]",
        ],
    ),
    Mutant(
        name="lease-watched-too-shortly",
        broken="A node on another host is taken for dead after half its lease.",
        edits=[
            Edit(
                old="* 1000 > node.lease",
                new="* 2000 > node.lease",
            )
        ],
        tests=[
            "tests/contract/test_nodes.py::TestLapsed::test_only_a_whole_lease_of_silence_will_do",
        ],
    ),
    Mutant(
        name="rescue-of-the-living",
        broken="A node that showed life after it was looked at is struck out all the same.",
        edits=[
            Edit(
                old="WHERE id = :id AND beat = :beat",
                new="WHERE id = :id AND :beat >= 0",
            )
        ],
        tests=[
            "tests/contract/test_nodes.py"
            "::TestForget::test_one_that_has_shown_life_since_is_not_struck",
        ],
    ),
    Mutant(
        name="priority-ignored",
        broken="Jobs of one queue run in the order in which they came, whatever their priority.",
        edits=[
            Edit(
                old="ORDER BY priority DESC, vtime, seq LIMIT",
                new="ORDER BY seq LIMIT",
                inside="sqlite:READY",
            ),
            Edit(
                old="ORDER BY priority DESC, vtime, seq LIMIT",
                new="ORDER BY seq LIMIT",
                inside="sqlite:READY_WHOLE",
            ),
            Edit(
                old="ORDER BY priority DESC, vtime, seq LIMIT :limit FOR UPDATE SKIP LOCKED",
                new="ORDER BY seq LIMIT :limit FOR UPDATE SKIP LOCKED",
                inside="postgresql:_claim",
            ),
            Edit(
                old="ORDER BY urgency, vtime, seq LIMIT",
                new="ORDER BY seq LIMIT",
                inside="mysql:READY_UNLOCKED",
            ),
            Edit(
                old="ORDER BY urgency, vtime, seq LIMIT",
                new="ORDER BY seq LIMIT",
                inside="mysql:READY_WHOLE",
            ),
        ],
        tests=[
            "tests/contract/test_claim.py::TestOrder::test_one_by_one_it_is_the_same_order",
        ],
    ),
    Mutant(
        name="receipt-not-left",
        broken="A commit in doubt is called undone, and done again, though it came through.",
        edits=[
            Edit(
                old="return bool(rows) and int(rows[0][0]) >= serial",
                new="return False",
            )
        ],
        tests=[
            "tests/faults/test_server_cuts.py::test_an_enqueue_that_is_cut_off_is_settled",
        ],
    ),
    Mutant(
        name="receipt-left-late",
        broken="A commit that was called undone, and done again, comes through after all.",
        edits=[
            Edit(
                old="CASE WHEN abs({receipts}.serial) < {excluded[serial]} THEN",
                new="CASE WHEN true THEN",
            )
        ],
        tests=[
            "tests/faults/test_server_cuts.py"
            "::test_a_commit_that_was_called_undone_doesnt_come_through_later",
        ],
    ),
    Mutant(
        name="durability-left-to-the-server",
        broken="PostgreSQL may acknowledge before it is durable, if it is set to.",
        edits=[
            Edit(
                old='"; SET synchronous_commit = on" if commit == "off"',
                new='"" if commit == "off"',
            )
        ],
        tests=[
            "tests/contract/test_server_settings.py"
            "::test_of_a_role_in_postgresql[synchronous_commit = off]",
        ],
    ),
    Mutant(
        name="put-back-the-cancelled",
        broken="A job that is to be cancelled is put back in line, and runs after all.",
        edits=[
            Edit(old="AND cancel_reason IS NULL", new="", inside="sqlite:PUT_BACK"),
            Edit(old="AND cancel_reason IS NULL", new="", inside="postgresql:PUT_BACK"),
            Edit(old="AND cancel_reason IS NULL", new="", inside="mysql:PUT_BACK"),
        ],
        tests=[
            "tests/contract/test_put_back.py::test_what_is_to_be_cancelled_is_not_put_back",
        ],
    ),
    Mutant(
        name="expired-unheard",
        broken="A job that expired is dead, and no event says so.",
        edits=[
            Edit(
                old="self.after_burial(buried, now, node)",
                new="pass",
                inside="Idiom._bury_expired",
            )
        ],
        tests=[
            "tests/contract/test_claim.py"
            "::TestExpiry::test_whoever_claims_is_told_and_so_is_everybody_else[sqlite]",
        ],
    ),
    Mutant(
        name="full-replaces-nobody",
        broken="A new job waits beside the one that it should replace.",
        edits=[
            Edit(
                old="for one in islice(waiting, 1) if self._how == WhenFull.REPLACE_WAITING",
                new="for one in islice(waiting, 0) if self._how == WhenFull.REPLACE_WAITING",
            )
        ],
        tests=[f"{LIMITS}::TestWhenFull"],
    ),
    Mutant(
        name="excluded-served",
        broken="On PostgreSQL a node gets jobs of a queue that it excludes.",
        edits=[
            Edit(
                old="AND pair.name <> ALL(:excluded) ) AS first",
                new=") AS first",
                inside="postgresql:_claim",
            )
        ],
        tests=["tests/contract/test_serving.py::TestExcluded"],
    ),
    Mutant(
        name="renamed-without-its-keys",
        broken="What waits for a key when its queue is renamed waits for ever.",
        edits=[Edit(old="self._sql.RENAME_KEYS,", new="")],
        tests=[
            "tests/contract/test_queues.py::TestRenamed::test_what_waits_for_a_key_waits_no_longer"
        ],
    ),
    Mutant(
        name="renamed-over-its-history",
        broken="The times of a queue that is renamed replace those under that name.",
        edits=[
            Edit(
                old="count = {rollups}.count + {excluded[count]},",
                new="count = {excluded[count]},",
                inside="RENAME_ROLLUPS",
            )
        ],
        tests=[
            "tests/contract/test_queues.py"
            "::TestRenamed::test_its_times_come_to_those_that_are_there",
        ],
    ),
    Mutant(
        name="removed-but-for-its-keys",
        broken="What the keys of a queue have used is held against them after it was removed.",
        edits=[
            Edit(
                old='self._db.change(self._sql.DROP_KEYS_OF, {"name": queue})',
                new="",
            )
        ],
        tests=["tests/contract/test_queues.py::TestRemoved::test_so_does_what_its_keys_have_used"],
    ),
    Mutant(
        name="edit-keeps-the-room",
        broken="The room of a job that is edited out of the line is left to nobody.",
        edits=[
            Edit(
                old="return Changed(State.PENDING, done, wakes=True, left=holding_slots(left))",
                new="return Changed(State.PENDING, done, wakes=True)",
            )
        ],
        tests=[f"{EDITS}::test_one_that_leaves_the_line_lets_another_have_its_room"],
    ),
    Mutant(
        name="edit-stays-parked",
        broken="A job that gets another key still waits for the limit of the old one.",
        edits=[
            Edit(
                old='vtime=_seat(idiom, job), parked="" if job.is_held else None',
                new="vtime=_seat(idiom, job)",
            )
        ],
        tests=[f"{EDITS}::test_another_key_is_another_line"],
    ),
    Mutant(
        name="held-until-it-is-due",
        broken="A job that is held runs when its time has come.",
        edits=[
            Edit(
                old="WHERE ready = 0 AND parked IS NULL AND run_at <= :now",
                new="WHERE ready = 0 AND run_at <= :now",
                inside="shared:DUE",
            )
        ],
        tests=[f"{EDITS}::test_one_that_is_held_waits_until_it_is_released"],
    ),
    Mutant(
        name="top-among-equals",
        broken="Whoever is put first comes behind those who were put first before.",
        edits=[
            Edit(
                old="return min([-now, *(place - 1 for place in places if place is not None)])",
                new="return -1",
            ),
            Edit(old="vtime=min(before - 1, _first(idiom, job, now))", new="vtime=-1"),
        ],
        tests=[f"{EDITS}::test_who_is_put_first_goes_before_all_of_its_priority"],
    ),
    Mutant(
        name="swap-leaves-the-output",
        broken="Jobs that take each other's place get each other's output.",
        edits=[Edit(old="db.change(sql.MOVE_OUTPUTS, to)", new="pass")],
        tests=[f"{EDITS}::test_all_that_is_kept_of_two_jobs_goes_along"],
    ),
    Mutant(
        name="watermark-after-the-insert",
        broken="A schedule goes on in another transaction than the one that stores the tick's job.",
        edits=[
            Edit(
                old="return self._db.transact("
                "lambda: self._tick(look, name, self._idiom.time(now)))",
                new="return self._tick(look, name, self._idiom.time(now))",
            )
        ],
        tests=["tests/contract/test_schedules.py::TestTick::test_all_of_it_or_nothing"],
    ),
    Mutant(
        name="retry-from-forgets-one",
        broken="A retry from a step does only that step again, but none of those after it.",
        edits=[Edit(old="seq = :seq AND place >= :place", new="seq = :seq AND place = :place")],
        tests=[
            f"{REPORTS}::TestSteps::test_a_retry_from_a_step_forgets_it_and_those_after_it",
        ],
    ),
    Mutant(
        name="filter-without-type",
        broken="A bulk command finds jobs of all types, whichever it was given.",
        edits=[Edit(old="if which.types:", new="if False:")],
        tests=[
            "tests/contract/test_select.py::TestFilters"
            "::test_by_type_of_which_a_job_has_one[sqlite-types4-]"
        ],
    ),
)
