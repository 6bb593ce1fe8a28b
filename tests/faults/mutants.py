"""Broken builds of queuectl, each of which the tests must catch: `python -m tests.faults.mutants`.

A test that never fails proves nothing. So each mutant is made in a copy of the checkout, shown as
a patch, and the tests that claim to catch it are run there: at least one of them must turn red,
by an assertion. First all of them are run in a copy without a fault, where none may.
"""

import argparse
import ast
import difflib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from xml.etree import ElementTree

from tests.servers.install import install_missing
from tests.servers.shared import CHECKOUT
from tests.support import is_gone, wait_for

COPIED = ("src", "tests", "pyproject.toml")
LIMITS = "tests/contract/test_limits.py"
DATA = "tests/contract/test_data.py"
UNIQUE = "tests/contract/test_unique.py"
PAUSE = "tests/guard/test_pause.py"
FORCED = "tests/contract/test_force_finish.py"
HOOKS = "tests/contract/test_hooks.py"
REPORTS = "tests/contract/test_reports.py"
SLEEPS = "tests/contract/test_sleeps.py"
_ANY_RUN = "for seq, number, value in rows"
EDITS = "tests/contract/test_edit.py"
SHORT_FORM = "tests/faults/test_short_form.py::test_all_promises_are_kept"
VERDICTS = ("assert", "Failed: DID NOT RAISE", "queuectl.errors.")
"""How the message of a test begins that found a broken promise, in small letters or not. What
the product says to its users counts; an error that no user could ever see doesn't."""
LONGEST = 900
"""Seconds that the tests of one mutant may take."""


Sources = dict[str, str]
"""The modules of the product, by their paths below src/queuectl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One text of the product that becomes another; it must be there exactly once.

    It is found by its words, in whatever module, on whatever lines: so it stays what it is when
    code moves.
    """

    old: str
    new: str
    inside: str = ""
    """Where, if there are several of that text: a function, a method or a constant, with its module
    if need be. `Store.commit`, `sqlite:FINISH`."""

    def apply(self, root: Path) -> str:
        """Make the change in a copy, and return it as a patch."""
        before = sources(root)
        name, after = self.applied_to(before)
        file = f"src/queuectl/{name}"
        (root / file).write_text(after, encoding="utf-8")
        lines = difflib.unified_diff(
            before[name].splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{file}",
            f"b/{file}",
            n=2,
        )
        return "".join(lines)

    def applied_to(self, texts: Sources) -> tuple[str, str]:
        """Return the module that it changes, and its text then."""
        words = re.compile(r"\s+".join(map(re.escape, self.old.split())))
        found = [
            (name, match)
            for name, text in texts.items()
            for match in words.finditer(text)
            if not self.inside or _is_inside(name, text, match.start(), self.inside)
        ]
        if len(found) != 1:
            places = ", ".join(name for name, _ in found)
            raise LookupError(f"{self.old!r} is there {len(found)} times, not once: {places}")
        [(name, match)] = found
        text = texts[name]
        return name, text[: match.start()] + self._new_at(text, match.start()) + text[match.end() :]

    def _new_at(self, text: str, start: int) -> str:
        """Return the new text, with the indentation of the place it comes to."""
        before = text[text.rfind("\n", 0, start) + 1 : start]
        if before.strip() or not self.old[:1].isspace():
            return self.new.rstrip("\n")
        shift = len(before) - _indentation(self.new)
        lines = self.new.rstrip("\n").splitlines()
        return "\n".join(" " * (_indentation(n) + shift) + n.lstrip() for n in lines).lstrip()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def sources(root: Path) -> Sources:
    """Read all modules of the product in a checkout."""
    top = root / "src/queuectl"
    return {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*.py"))}


def _is_inside(file: str, text: str, start: int, place: str) -> bool:
    """Tell whether a part of a module is in a function, or the text of a constant, of a name."""
    module, _, name = place.rpartition(":")
    if module and Path(file).stem != module:
        return False
    line = text.count("\n", 0, start) + 1
    return any(
        name == found and node.lineno <= line <= (node.end_lineno or 0)
        for found, node in _named(ast.parse(text))
    )


def _named(tree: ast.AST, above: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield above + node.name, node
            yield from _named(node, f"{above}{node.name}.")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield above + node.targets[0].id, node


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A broken build, and who must notice."""

    name: str
    broken: str
    """What is wrong with it, in a sentence."""
    edits: Sequence[Edit]
    tests: Sequence[str]
    """Their node ids; in the checkout all of them are green."""


MUTANTS: Sequence[Mutant] = (
    # -- the fifteen of the table in docs/reliability.md, some of them in several ways ----------
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
        name="rescue-without-kill",
        broken="The jobs of a dead node are given out again while what it left still runs.",
        edits=[
            Edit(
                old="if local and self._kill_leftovers(node.id):",
                new="if not local and self._kill_leftovers(node.id):",
            )
        ],
        tests=[
            "tests/node/test_hardening.py"
            "::test_a_run_that_cleared_its_environment_dies_before_it_runs_again",
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
        name="acknowledged-before-commit",
        broken="`enqueue` prints the id while its transaction is still open.",
        edits=[
            Edit(
                old="as queue, truthful(queue):\n        near = near_queue(queue, str",
                new="as queue, queue.store.transaction():\n        near = near_queue(queue, str",
            )
        ],
        tests=[
            f"{SHORT_FORM}[io_errors-sqlite]",
            "tests/faults/test_disk.py::test_a_full_disk_is_one_sentence_and_loses_nothing",
            "tests/faults/test_server_cuts.py"
            "::test_the_command_prints_the_id_of_an_enqueue_that_was_cut_off",
        ],
    ),
    Mutant(
        name="interrupted-unsaid",
        broken="An interrupt ends a command between storing something and saying so.",
        edits=[
            Edit(
                old="    queue.before_commit = _hold\n",
                new="    queue.before_commit = None\n",
            )
        ],
        tests=[
            "tests/cli/test_interrupts.py::test_what_was_stored_is_said_before_the_command_ends"
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
        name="lease-renewed-after-loss",
        broken="A node that was struck from the register goes on as if it had been renewed.",
        edits=[
            Edit(
                old="or not self._ask(store, lease):",
                new="or self._ask(store, lease) is None:",
            )
        ],
        tests=[
            "tests/faults/test_struck_out.py"
            "::test_a_node_that_was_struck_out_ends_its_runs_and_starts_over",
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
        name="output-read-after-unlink",
        broken="The files of a run are removed before they are read.",
        edits=[
            Edit(
                old="    output = gather(run, config.settings.output_limit)",
                new="    clean(run)\n    output = gather(run, config.settings.output_limit)",
            )
        ],
        tests=[
            "tests/node/test_keeping_output.py::test_the_output_of_every_attempt_is_kept",
        ],
    ),
    Mutant(
        name="output-unlinked-before-commit",
        broken="The files of a run are removed when they are read, though the commit may fail.",
        edits=[
            Edit(
                old="    output = gather(run, config.settings.output_limit)",
                new="    output = gather(run, config.settings.output_limit)\n    clean(run)",
            )
        ],
        tests=[
            "tests/faults/test_server_cuts.py::test_a_turn_that_is_made_again_keeps_the_output",
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
        name="retry-not-counted",
        broken="A failure doesn't use up a retry.",
        edits=[
            Edit(
                old="_to(job, State.FAILED, failures=failures, run_at=due)",
                new="_to(job, State.FAILED, run_at=due)",
            )
        ],
        tests=[
            "tests/unit/test_lifecycle.py::TestDecide::test_a_failure_with_retries_left_waits",
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
        name="wake-up-unheard",
        broken="A node that has nothing to do doesn't listen for work.",
        edits=[
            Edit(
                old="if Topic.WORK in topics and not self.claiming.may_be_work:",
                new="if Topic.WORK in topics and self.crew.running:",
            )
        ],
        tests=[
            "tests/node/test_many.py::test_an_idle_node_is_woken_by_new_work",
        ],
    ),
    Mutant(
        name="drain-that-kills",
        broken="A node that shall finish what runs ends it instead.",
        edits=[
            Edit(
                old="            self.stopping = Stop.DRAIN\n",
                new="            self.stopping = Stop.DRAIN\n"
                "            self.crew.kill(self.crew.running, wire.RELEASE)\n",
            )
        ],
        tests=[
            f"{SHORT_FORM}[signals-sqlite]",
            "tests/node/test_signals.py::test_the_first_signal_drains[15]",
        ],
    ),
    Mutant(
        name="run-forgotten-at-a-restart",
        broken="A node that is restarted in place goes on without one of its runs.",
        edits=[
            Edit(
                old="        if held.keys() != {(run.seq, run.attempt) for run in handed.runs}:",
                new="        handed.runs[:] = handed.runs[1:]\n        if False:",
            ),
            Edit(
                old="                    self._report(message)\n",
                new="                    if message.run in self.running:\n"
                "                        self._report(message)\n",
            ),
        ],
        tests=[
            "tests/node/test_restart.py::test_runs_go_on_under_the_same_pid_and_name[sqlite]",
            f"{SHORT_FORM}[signals-sqlite]",
        ],
    ),
    Mutant(
        name="registered-anew-at-a-restart",
        broken="A node that is restarted in place takes another name, though its runs go on.",
        edits=[
            Edit(
                old="            self.member.resume(handed)\n",
                new="            self.member.rename()\n            self.member.join()\n",
            )
        ],
        tests=[
            "tests/node/test_restart.py::test_runs_go_on_under_the_same_pid_and_name[sqlite]",
        ],
    ),
    Mutant(
        name="signals-lost-at-a-restart",
        broken="Signals that come while a program is replaced by the next do what they do by"
        " default: they end the node.",
        edits=[
            Edit(
                old="        hold(harmless())\n",
                new="",
            )
        ],
        tests=[
            "tests/node/test_restart.py::test_thousands_of_short_jobs_and_many_restarts[sqlite]",
            "tests/node/test_restart.py::test_hangups_in_a_row_do_no_harm",
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
    # -- and more --------------------------------------------------------------------------------
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
        name="environments-mixed",
        broken="A job that brought its whole environment along gets that of the worker as well.",
        edits=[
            Edit(
                old='{} if spec["whole"] else self._base.copy()',
                new="self._base.copy()",
            )
        ],
        tests=[
            "tests/cli/test_surroundings.py"
            "::test_the_whole_environment_takes_the_place_of_the_workers",
        ],
    ),
    Mutant(
        name="store-password-in-a-job",
        broken="The password of the database is kept with a job that gets all of an environment.",
        edits=[
            Edit(
                old="return Defaults(settings, queues, hidden=self._store.secret_variables)",
                new="return Defaults(settings, queues)",
            )
        ],
        tests=[
            "tests/cli/test_server_manners.py"
            "::TestSecrets::test_nor_does_it_travel_with_a_whole_environment",
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
        name="crash-counted-as-failure",
        broken="A crash of a node uses up one of the job's retries.",
        edits=[
            Edit(
                old="_to(job, State.PENDING, crashes=job.crashes + 1, run_at=now)",
                new="_to(job, State.PENDING, failures=job.failures + 1, run_at=now)",
            )
        ],
        tests=[
            "tests/unit/test_lifecycle.py::TestAlways::test_a_crash_never_uses_a_retry",
            "tests/node/test_crash.py::test_the_next_node_rescues_what_a_dead_one_held",
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
        name="lease-outlived",
        broken="The guard lets runs go on when the lease of their node has ended.",
        edits=[
            Edit(
                old="if not self._lease.noted and self._lease.is_over():",
                new="if self._lease.noted and self._lease.is_over():",
            )
        ],
        tests=[
            "tests/guard/test_guard.py::TestLease::test_end_of_lease_kills",
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
        name="leftovers-spared",
        broken="A run is over when its first process is, whatever that left behind.",
        edits=[
            Edit(
                old="if run.status is None or self._orphans.of(run):",
                new="if run.status is None:",
            )
        ],
        tests=[
            f"{SHORT_FORM}[hostile-sqlite]",
            "tests/guard/test_guard.py::TestLeftovers::test_daemon",
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
    # -- jobs that are claimed ahead -------------------------------------------------------------
    Mutant(
        name="line-without-waiting",
        broken="A job that was claimed ahead is started beside the one that its worker is at.",
        edits=[
            Edit(old="if worker in self._busy:", new="if worker in ():"),
            Edit(
                old="waiting = self._busy[worker]",
                new="waiting = self._busy.setdefault(worker, {})",
            ),
        ],
        tests=[
            "tests/guard/test_line.py::TestOneAtATime::test_a_worker_runs_one_after_the_other",
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
        name="board-unread",
        broken="All that a dead node had claimed counts a crash, whether or not it was begun.",
        edits=[
            Edit(
                old="read_boards(self.spool) if self.boards else None",
                new="None",
            )
        ],
        tests=[
            "tests/node/test_ahead.py"
            "::test_only_what_was_begun_counts_a_crash_when_the_node_is_killed",
        ],
    ),
    Mutant(
        name="board-begun-anew",
        broken="What was begun under a guard that is gone is forgotten with it, and runs again.",
        edits=[Edit(old="if _count(raw):", new="if False:")],
        tests=[
            "tests/node/test_ahead.py"
            "::test_what_was_begun_under_a_guard_that_is_gone_is_not_forgotten",
        ],
    ),
    Mutant(
        name="begins-without-node",
        broken="A guard begins what its dead node asked for, while others give that back.",
        edits=[Edit(old="if os.getppid() != self._node:", new="if False:")],
        tests=[
            "tests/guard/test_lost.py::test_a_guard_whose_node_is_gone_begins_nothing_any_more",
        ],
    ),
    Mutant(
        name="held-up-for-ever",
        broken="Jobs that wait behind a long one stay there, while others have nothing to do.",
        edits=[
            Edit(
                old="[number for number in held_up if not self.running[number].paused]",
                new="[]",
            )
        ],
        tests=[
            "tests/node/test_ahead.py::test_those_behind_a_long_job_are_released_for_others",
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
        name="lost-until-noticed",
        broken="A lost run seems to have lasted until somebody noticed that its node is gone.",
        edits=[
            Edit(
                old="over = max(over, min(now, max(self.heard, _wrote_at(run, now))))",
                new="over = now",
            )
        ],
        tests=[
            "tests/node/test_rescue.py"
            "::test_a_lost_run_ends_when_its_node_was_last_heard_of[later]",
        ],
    ),
    Mutant(
        name="rotated-by-two",
        broken="Two nodes that share a log may rotate it at the same time.",
        edits=[
            Edit(
                old="fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)",
                new="fcntl.flock(handle, fcntl.LOCK_UN)",
            )
        ],
        tests=[
            "tests/node/test_log.py::test_those_who_share_a_file_lose_no_line_when_it_is_rotated",
            "tests/node/test_log.py::test_a_rotation_that_somebody_else_is_at_is_left_to_them",
        ],
    ),
    Mutant(
        name="told-out-of-order",
        broken="The log says that a run has started before it says how the one before it ended.",
        edits=[Edit(old="if self._untold[worker]:", new="if False:")],
        tests=[
            "tests/node/test_ahead.py::test_the_log_tells_of_each_run_from_its_start_to_its_end",
        ],
    ),
    # -- handlers ---------------------------------------------------------------------------------
    Mutant(
        name="handlers-any-node",
        broken="A node claims jobs that it has no handler for.",
        edits=[
            Edit(
                old="if not serving.handlers:",
                new="if serving.handlers is None:",
                inside="Idiom.lines",
            ),
            Edit(
                old="if serving.handlers:",
                new='serving = type(serving)(handlers=("*",))\n        if serving.handlers:',
                inside="Idiom._look",
            ),
        ],
        tests=[f"{DATA}::TestWhoHandles::test_a_node_gets_what_it_handles[sqlite]"],
    ),
    Mutant(
        name="handlers-forgotten-in-register",
        broken="The register forgets what a node handles.",
        edits=[Edit(old='"in_order", False), handlers)', new='"in_order", False), ())')],
        tests=[f"{DATA}::TestWhoHandles::test_a_node_tells_what_it_handles[sqlite]"],
    ),
    Mutant(
        name="handlers-of-before-the-restart",
        broken="What a node can't handle is hidden after a restart: it is said to handle it still.",
        edits=[Edit(old="self._store.nodes.set_serving(self.id, self._queues)", new="pass")],
        tests=["tests/node/test_restart.py::test_it_says_anew_what_it_handles"],
    ),
    Mutant(
        name="forced-is-cancelled",
        broken="A job that is finished by hand while it runs ends as cancelled.",
        edits=[Edit(old="case _ if job.is_forced:", new="case _ if False:")],
        tests=[f"{FORCED}::TestRunning::test_whatever_its_run_comes_to_it_is_completed"],
    ),
    Mutant(
        name="forced-without-hook",
        broken="A job that is finished by hand while it waits calls no hook.",
        edits=[
            Edit(
                old="hooked = [seq for seq in completed if held[seq].has_hooks]",
                new="hooked: list[int] = []",
            )
        ],
        tests=[f"{FORCED}::TestWaiting::test_calls_its_hook_in_the_same_transaction"],
    ),
    Mutant(
        name="forced-for-ever",
        broken="A cancel of a job that was once finished by hand finishes it again.",
        edits=[
            Edit(
                old="SET cancel_reason = r.reason_, forced = r.forced_,",
                new="SET cancel_reason = r.reason_, forced = coalesce(r.forced_, forced),",
                inside="sqlite:ASK_CANCEL",
            )
        ],
        tests=[f"{FORCED}::TestRunning::test_a_later_cancel_is_not_taken_for_it[sqlite]"],
    ),
    Mutant(
        name="data-without-fence",
        broken="A run that has lost its lease changes the data of its job.",
        edits=[
            Edit(
                old="AND attempts = :attempt AND node = :node AND state = 'processing'{row_lock}",
                new="AND :attempt = :attempt AND :node = :node{row_lock}",
                inside="shared:HOLD_RUN",
            )
        ],
        tests=[f"{REPORTS}::TestData::test_a_run_that_lost_its_lease_changes_nothing[sqlite]"],
    ),
    Mutant(
        name="asked-once",
        broken="A run that is to end is asked only once, whatever kill_interval says.",
        edits=[Edit(old="run.known.clear()", new="pass")],
        tests=["tests/guard/test_guard.py::TestStopping::test_stop_is_repeated"],
    ),
    Mutant(
        name="handlers-room-for-first-only",
        broken="Room of a key is given to the commands that wait for it only.",
        edits=[
            Edit(
                old="handler = self._db.value(self._sql.NEXT_PARKED_HANDLER, **where)",
                new="handler = None",
            )
        ],
        tests=[f"{DATA}::TestLimits::test_room_of_a_key_is_for_who_can_use_it[sqlite]"],
    ),
    Mutant(
        name="handlers-one-line",
        broken="A limited claim looks at the line of one handler only.",
        edits=[
            Edit(
                old="whole=whole) for handler in handlers]",
                new="whole=whole) for handler in handlers[:1]]",
            )
        ],
        tests=[f"{DATA}::TestLimits::test_rates_are_those_of_the_queue[sqlite]"],
    ),
    # -- limits -----------------------------------------------------------------------------------
    Mutant(
        name="limits-count-without-lock",
        broken="A claim counts the runs of a queue while somebody else begins some.",
        edits=[Edit(old="ORDER BY name{row_lock}", new="ORDER BY name", inside="LOCK_LIMITS")],
        tests=[f"{LIMITS}::TestAtOnce::test_of_two_who_claim_at_once_one_waits"],
    ),
    Mutant(
        name="limits-slot-kept",
        broken="The end of a run brings back nobody who waits for its key.",
        edits=[Edit(old="left=[end.job for end in some],", new="left=[],")],
        tests=[f"{LIMITS}::TestAtOnce"],
    ),
    Mutant(
        name="limits-slot-of-the-dead",
        broken="A limit counts jobs that have ended too.",
        edits=[
            Edit(
                old="queue = :queue AND state = 'processing'",
                new="queue = :queue AND attempts > 0",
                inside="shared:TAKEN_SLOTS",
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
        name="limits-closed-by-a-clock",
        broken="After a clock was put back, a rate is used up for as long as that was.",
        edits=[Edit(old="now + rate.longest for rate", new="now + 1e15 for rate")],
        tests=[f"{LIMITS}::TestRates::test_a_clock_that_is_put_back_closes_nothing_for_long"],
    ),
    Mutant(
        name="limits-all-ahead",
        broken="Jobs that are claimed ahead of their time take all slots.",
        edits=[Edit(old="(2 if place.ahead else 1) * (len(slots) + 1)", new="(len(slots) + 1)")],
        tests=[f"{LIMITS}::TestAhead"],
    ),
    Mutant(
        name="limits-slot-of-any-worker",
        broken="A worker takes the slot that another worker of its node has.",
        edits=[Edit(old="return self.node, self.worker", new="return self.node, None")],
        tests=[f"{LIMITS}::TestAtOnce"],
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
        name="shares-first-come",
        broken="A key with many jobs goes before all others.",
        edits=[
            Edit(old="start = max(self._vtime, self.keys.get(key, 0))", new="start = self._vtime")
        ],
        tests=[f"{LIMITS}::TestShares"],
    ),
    Mutant(
        name="shares-saved-up",
        broken="A key that had nothing to do for a while goes before all others.",
        edits=[Edit(old="self.vtime = max(self.vtime, vtime)", new="self.vtime = 0")],
        tests=[f"{LIMITS}::TestShares::test_who_was_away_has_not_saved_up"],
    ),
    Mutant(
        name="full-by-one-more",
        broken="A queue takes one more job than may wait.",
        edits=[
            Edit(
                old="Full.QUEUE if taken >= limits.max_waiting + slots",
                new="Full.QUEUE if taken > limits.max_waiting + slots",
            )
        ],
        tests=[f"{LIMITS}::TestWhenFull"],
    ),
    Mutant(
        name="full-replaces-nobody",
        broken="A new job waits beside the one that it should replace.",
        edits=[
            Edit(
                old="goes = scope.waiting[:1] if self._how == WhenFull.REPLACE_WAITING",
                new="goes = [] if self._how == WhenFull.REPLACE_WAITING",
            )
        ],
        tests=[f"{LIMITS}::TestWhenFull"],
    ),
    # -- unique keys ------------------------------------------------------------------------------
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
        name="unique-never-free",
        broken="A unique key stays with a job that has started, though it was until then.",
        edits=[Edit(old="and job.attempts <= self.starts", new="or job.attempts > self.starts")],
        tests=[f"{UNIQUE}::TestWhoHasIt::test_until_its_start"],
    ),
    Mutant(
        name="unique-for-nothing",
        broken="A unique key is free at the end of its job, though it was for longer.",
        edits=[Edit(old="if self.until is not None and now < self.until:", new="if False:")],
        tests=[f"{UNIQUE}::TestWhoHasIt::test_for_a_time"],
    ),
    Mutant(
        name="debounce-that-never-runs",
        broken="Each request puts a debounced job off, for as long as they keep coming.",
        edits=[
            Edit(
                old="run_at if max_wait is None else min(run_at, since + max_wait)",
                new="run_at",
            )
        ],
        tests=[f"{UNIQUE}::TestDebounce::test_the_first_waits_no_longer_than_it_can"],
    ),
    Mutant(
        name="unique-twice-by-retry",
        broken="A job that is retried doesn't ask whether another one has its unique key.",
        edits=[Edit(old="            take_again(self._db, again, now)", new="            pass")],
        tests=[f"{UNIQUE}::TestRetry"],
    ),
    Mutant(
        name="unique-replaces-nobody",
        broken="A job waits beside the one whose unique key it took.",
        edits=[
            Edit(
                old="                self._displaced.append(Displaced(holder.id, reason))",
                new="                pass",
            ),
            Edit(
                old="if self._makes_room(holder, self._stored[id])\n        )",
                new="if False\n        )",
            ),
        ],
        tests=[f"{UNIQUE}::TestReplace"],
    ),
    # -- the queues of nodes, and their names -----------------------------------------------------
    Mutant(
        name="turns-forgotten",
        broken="A node begins the shares of its queues anew with each claim.",
        edits=[Edit(old="self.claiming.took(jobs)", new="")],
        tests=["tests/node/test_serving.py::test_shares_hold_while_all_have_jobs"],
    ),
    Mutant(
        name="turns-saved-up",
        broken="A queue of a node that had no jobs for a while goes before all others.",
        edits=[
            Edit(
                old="self._now = max(self._places[name], self._now)",
                new="self._now = self._places[name]",
            )
        ],
        tests=["tests/unit/test_precedence.py::test_nothing_is_saved_up_and_nothing_is_owed"],
    ),
    Mutant(
        name="order-left-to-priority",
        broken="A node that takes one queue after the other goes by priority.",
        edits=[Edit(old="if offer.order is not None:", new="if False:", inside="first_in_line")],
        tests=["tests/contract/test_serving.py::TestInOrder"],
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
    # -- changing what waits ----------------------------------------------------------------------
    Mutant(
        name="edit-keeps-the-room",
        broken="The room of a job that is edited out of the line is left to nobody.",
        edits=[
            Edit(
                old="return Changed(State.PENDING, done, wakes=True, left=_in_line(left))",
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
        name="swap-loses-the-schedule",
        broken="A schedule takes the job that its own has swapped places with for its own.",
        edits=[Edit(old="db.change(sql.MOVE_LAST, of_schedule)", new="pass")],
        tests=[f"{EDITS}::test_a_schedule_knows_its_job_in_another_place"],
    ),
    Mutant(
        name="edit-tells-secrets",
        broken="The event of an edit has the values of variables.",
        edits=[
            Edit(
                old="', '.join(n for n in names if was.get(n) != now.get(n))",
                new="', '.join(f'{n}={now.get(n)}' for n in names if was.get(n) != now.get(n))",
            )
        ],
        tests=["tests/unit/test_editing.py::TestEdited"],
    ),
    Mutant(
        name="swapped-is-gone",
        broken="A job that somebody holds in Python is gone for him when it has another place.",
        edits=[
            Edit(
                old="return _make_now(store, [finding.get(store, job) for job in jobs], change)",
                new="raise",
            )
        ],
        tests=["tests/unit/test_editing.py::TestQueue"],
    ),
    # -- schedules --------------------------------------------------------------------------------
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
        name="ticks-again-when-put-back",
        broken="After the clock was put back, the ticks of the last minute come again.",
        edits=[
            Edit(
                old="return schedule.done_until if within is None else"
                " max(schedule.done_until, until - within)",
                new="return min(schedule.done_until, until - MINUTE)",
                inside="schedule:_from",
            )
        ],
        tests=[
            "tests/unit/test_schedule.py"
            "::TestDue::test_a_clock_that_was_put_back_brings_none_again",
        ],
    ),
    Mutant(
        name="ticks-of-the-past",
        broken="A schedule that is edited or resumed makes the jobs of what was planned before.",
        edits=[
            Edit(
                old="done_until = max(schedule.done_until, now)",
                new="done_until = schedule.done_until",
                inside="schedule:started",
            ),
            Edit(
                old="done_until=max(schedule.done_until, now)",
                new="done_until=schedule.done_until",
                inside="schedule:resumed",
            ),
        ],
        tests=[
            "tests/unit/test_schedule.py::TestStart::test_nothing_of_the_past_comes",
            f"{SHORT_FORM}[ticks-sqlite]",
        ],
    ),
    Mutant(
        name="missed-window-ignored",
        broken="Missed ticks come however late they are.",
        edits=[
            Edit(
                old="within = ON_TIME if schedule.missed is Missed.OFF else schedule.missed_within",
                new="within: int | None = None",
            )
        ],
        tests=[
            "tests/unit/test_schedule.py::TestMissed::test_those_that_are_too_old_do_not_come",
            "tests/unit/test_schedule.py::TestMissed::test_none_comes",
            f"{SHORT_FORM}[ticks-sqlite]",
        ],
    ),
    Mutant(
        name="missed-ticks-forgotten",
        broken="Of several ticks that are due at once with `missed=all`, only the last comes.",
        edits=[Edit(old="if schedule.missed is Missed.ALL:", new="if False:")],
        tests=[
            "tests/unit/test_schedule.py::TestMissed::test_all_come_in_their_order",
            f"{SHORT_FORM}[ticks-sqlite]",
        ],
    ),
    Mutant(
        name="overlap-skip-ignored",
        broken="A tick makes its job although that of the one before isn't over.",
        edits=[
            Edit(
                old="if not schedule.waits_for(newest):",
                new="if schedule.overlap is Overlap.SKIP or not schedule.waits_for(newest):",
            )
        ],
        tests=["tests/unit/test_schedule.py::TestOverlap::test_skip"],
    ),
    Mutant(
        name="waiting-tick-never-woken",
        broken="The end of a job isn't told to the schedule whose next tick waits for it.",
        edits=[Edit(old="if change.ticked:", new="if False:", inside="Idiom.after_change")],
        tests=[
            "tests/contract/test_schedules.py::TestEnds::test_every_end_wakes_what_waits_for_it",
            "tests/node/test_schedules.py::test_ticks_wait_for_the_job_before",
        ],
    ),
    Mutant(
        name="daylight-saving-dropped",
        broken="A time of the day that the clock skips or repeats comes never or twice.",
        edits=[
            Edit(
                old='self._at_certain_times = not minute.startswith("*") and'
                ' not hour.startswith("*")',
                new="self._at_certain_times = False",
            )
        ],
        tests=[
            "tests/unit/test_rules.py::test_when_an_hour_is_skipped",
            "tests/unit/test_rules.py::test_when_an_hour_comes_twice",
            "tests/unit/test_rules.py::test_around_each_change_in_each_zone",
            f"{SHORT_FORM}[ticks-sqlite]",
        ],
    ),
    Mutant(
        name="pause-after-ignored",
        broken="A schedule goes on however many of its jobs in a row die.",
        edits=[
            Edit(
                old="if schedule.paused_at is None and schedule.pause_after and"
                " failures >= schedule.pause_after:",
                new="if False:",
            )
        ],
        tests=[
            "tests/unit/test_schedule.py::TestEnds::test_failures_in_a_row_pause_it",
            "tests/contract/test_schedules.py"
            "::TestEnds::test_too_many_pause_it_in_the_same_transaction",
        ],
    ),
    # -- what runs tell and keep --------------------------------------------------------------
    Mutant(
        name="step-without-fence",
        broken="A run that has lost its lease keeps steps.",
        edits=[
            Edit(
                old="WHERE id = :id AND attempts = :attempt AND node = :node AND state ="
                " 'processing'{row_lock}",
                new="WHERE id = :id AND :attempt >= 0 AND :node >= ''{row_lock}",
            )
        ],
        tests=[f"{REPORTS}::TestSteps::test_a_run_that_lost_its_lease_stores_nothing"],
    ),
    Mutant(
        name="step-by-name-alone",
        broken="A run comes by the same step twice, and nobody says so.",
        edits=[Edit(old="if step.seen == run.attempt:", new="if False:")],
        tests=[f"{REPORTS}::TestSteps::test_no_run_comes_by_a_step_twice"],
    ),
    Mutant(
        name="emit-lost-before-the-end",
        broken="What is emitted between an await and the end of its run brings nobody back.",
        edits=[Edit(old="    if sleep.woken:\n", new="    if sleep.woken and False:\n")],
        tests=[
            f"{SLEEPS}::TestEmitting::test_between_the_look_and_the_end_of_the_run_it_is_not_lost"
        ],
    ),
    Mutant(
        name="emit-last-wins",
        broken="Of two that emit under one name, the last one counts.",
        edits=[
            Edit(
                old="if (first := self._hold(name)) is not None:",
                new="if (first := self._hold(name)) is not None and False:",
            )
        ],
        tests=[f"{SLEEPS}::TestEmitting::test_the_first_one_wins"],
    ),
    Mutant(
        name="sleep-counts-as-failure",
        broken="A run that gives its worker back counts as failed.",
        edits=[
            Edit(
                old="ends = self._asleep(over.judge(stuck, asked, now))",
                new="ends = over.judge(stuck, asked, now)",
            )
        ],
        tests=[f"{SLEEPS}::TestSleeping::test_whatever_its_exit_code_is"],
    ),
    Mutant(
        name="sleep-without-fence",
        broken="A run that has lost its lease has its job sleep.",
        edits=[
            Edit(
                old="seq = self._reports.held(run)\n        name",
                new="seq = self._db.value(self._sql.GET, id=run.job)\n        name",
            )
        ],
        tests=[f"{SLEEPS}::TestSleeping::test_a_run_that_lost_its_lease_can_not"],
    ),
    Mutant(
        name="sleep-begins-anew",
        broken="A job that comes back too early sleeps the whole time once more.",
        edits=[
            Edit(
                old="if was is None else (was.until, was.at)",
                new="if was is None or True else (None, 0)",
            )
        ],
        tests=[f"{SLEEPS}::TestSleeping::test_who_comes_too_early_sleeps_on_until_the_same_time"],
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
        name="result-of-the-failed",
        broken="What a run that failed says that its job came to is kept.",
        edits=[
            Edit(
                old="if end.result is not None and end.transition.state == State.COMPLETED:",
                new="if end.result is not None:",
            ),
            Edit(old="for seq, number, value in rows if wanted[seq] == number", new=_ANY_RUN),
        ],
        tests=[f"{REPORTS}::TestResults::test_that_of_a_failed_run_is_not_kept"],
    ),
    Mutant(
        name="result-of-an-older-run",
        broken="A job that was retried by hand has the result of the run before.",
        edits=[Edit(old="for seq, number, value in rows if wanted[seq] == number", new=_ANY_RUN)],
        tests=[
            f"{REPORTS}::TestResults::test_a_job_that_runs_again_has_none_until_it_is_completed",
        ],
    ),
    Mutant(
        name="progress-without-fence",
        broken="A run that has lost its lease tells how far its job has come.",
        edits=[
            Edit(old="if self._hold(run) is not None:", new="if self._hold(run) or True:"),
        ],
        tests=[f"{REPORTS}::TestProgress::test_a_run_that_lost_its_lease_tells_nothing"],
    ),
    # -- runs that are paused ----------------------------------------------------------------
    Mutant(
        name="pause-main-only",
        broken="Of a run that is paused, only the main process and its group are stopped.",
        edits=[
            Edit(
                old="found, refused = tree.freeze(lambda: self._members(run))",
                new="found, refused = tree.freeze(lambda: self._members(run)[:1])",
            )
        ],
        tests=[f"{PAUSE}::TestAWholeTree::test_a_session_and_an_orphan_of_its_own_belong_to_it"],
    ),
    Mutant(
        name="pause-clock-goes-on",
        broken="The timeout of a run goes on while it is paused.",
        edits=[
            Edit(old="run.left = run.due - now", new="run.left = run.due"),
            Edit(
                old="self._timers.set(run, time.monotonic() + run.left)",
                new="self._timers.set(run, run.left)",
            ),
        ],
        tests=[f"{PAUSE}::TestTheClock::test_stands_still"],
    ),
    Mutant(
        name="resume-main-only",
        broken="Of a run that is resumed, only the main process and its group go on.",
        edits=[Edit(old="tree.thaw(self._members(run))", new="tree.thaw(self._members(run)[:1])")],
        tests=[f"{PAUSE}::TestAWholeTree::test_a_session_and_an_orphan_of_its_own_belong_to_it"],
    ),
    Mutant(
        name="pause-in-line-ignored",
        broken="A run that is paused before its turn is started when its turn comes.",
        edits=[
            Edit(
                old="(self._held if run in self._paused else self._ready)[run] = waiting.pop(run)",
                new="self._ready[run] = waiting.pop(run)",
            )
        ],
        tests=[f"{PAUSE}::TestInLine"],
    ),
    Mutant(
        name="pause-until-stopped-ignored",
        broken="A parent that waits for its child to become a program isn't stopped.",
        edits=[Edit(old="tree.let_exec(process)", new="pass")],
        tests=[
            f"{PAUSE}::TestAWholeTree::test_a_parent_that_waits_for_its_child_to_become_a_program"
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
    Mutant(
        name="pause-forgotten-by-nodes",
        broken="A node doesn't look for runs that somebody wants paused.",
        edits=[Edit(old="if running:\n            self._mind_pauses()\n", new="")],
        tests=["tests/node/test_pause.py::test_a_pause_that_nobody_told_the_node_of_is_found"],
    ),
    # -- hooks ------------------------------------------------------------------------------------
    Mutant(
        name="hooks-outside",
        broken="The jobs of hooks are made in a transaction of their own.",
        edits=[
            Edit(
                old="self._call_hooks(hooked)",
                new="__import__('threading').Thread(target=self._call_hooks,"
                " args=(hooked,)).start()",
            )
        ],
        tests=[
            f"{HOOKS}::TestExactlyOnce::test_what_is_undone_has_made_nothing[sqlite]",
            f"{SHORT_FORM}[hooks-sqlite]",
        ],
    ),
    Mutant(
        name="hooks-of-a-lost-lease",
        broken="A run that was rescued meanwhile makes the jobs of its hooks a second time.",
        edits=[
            Edit(
                old="hooked=[(ended_job(end), end.outcome) for end in some if end.job.has_hooks]",
                new="hooked=[(ended_job(end), end.outcome) for end in some if end.job.has_hooks]"
                " + [(ended_job(end), end.outcome) for end in ends if end.job.has_hooks]",
            ),
        ],
        tests=[f"{HOOKS}::TestExactlyOnce"],
    ),
    Mutant(
        name="hooks-of-hooks",
        broken="A hook that dies calls the hooks of the job that it tells of.",
        edits=[
            Edit(old="hook=mark,", new="hook=mark, on_dead=job.on_dead,"),
            Edit(old="hooks is not None and self.hook is None", new="hooks is not None"),
        ],
        tests=[f"{HOOKS}::TestTheJob"],
    ),
    Mutant(
        name="hooks-of-types-for-any-node",
        broken="A hook that names a type is taken for a command, by a node without a handler.",
        edits=[Edit(old="is_data = hook.startswith(TYPE)", new="is_data = False")],
        tests=[f"{HOOKS}::TestForAHandler::test_only_a_node_that_handles_it_claims_it[sqlite]"],
    ),
    Mutant(
        name="hooks-not-of-the-expired",
        broken="A job that expires has no hook for its death.",
        edits=[
            Edit(old="hooked = [(job, None) for job in jobs if job.has_hooks]", new="hooked = []")
        ],
        tests=[f"{HOOKS}::TestOccasions::test_a_job_that_expires"],
    ),
    Mutant(
        name="hooks-not-of-crashes",
        broken="A run that is lost with its worker is no failure to its hook.",
        edits=[
            Edit(
                old="isinstance(outcome, Released)",
                new="type(outcome).__name__ in ('Released', 'Lost')",
                inside="occasions",
            )
        ],
        tests=[f"{HOOKS}::TestOccasions::test_the_end_of_a_run"],
    ),
    Mutant(
        name="hooks-by-ids-that-are-taken",
        broken="The job of a hook gets the id of another, and the end of the run can't be stored.",
        edits=[Edit(old="if id not in used:", new="if True:", inside="free_ids")],
        tests=[f"{HOOKS}::TestTheJob::test_an_id_that_is_taken"],
    ),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of some tests."""

    green: Sequence[str]
    red: Sequence[str]
    """Those that failed by an assertion."""
    broken: Mapping[str, str]
    """Those that failed otherwise, and what they said: that proves nothing."""


@contextmanager
def copy_of_checkout() -> Iterator[Path]:
    """Lend out a copy of what the tests need. All processes that were started there end with it."""
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        for name in COPIED:
            source = CHECKOUT / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, root / name, ignore=ignored)
            else:
                shutil.copy2(source, root / name)
        try:
            yield root
        finally:
            end_processes_of(root)


def environment(root: Path) -> dict[str, str]:
    """Return an environment in which the code of a copy runs, in all processes below as well."""
    hidden = ("QUEUECTL_", "PYTEST_")
    outer = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return outer | {"PYTHONPATH": str(root / "src")}


def end_processes_of(root: Path) -> None:
    """Kill what a broken build has left behind; it has the copy in its environment."""
    mark = os.fsencode(root / "src")
    left = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes():
                left.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_for(lambda: all(map(is_gone, left)), "what a broken build left to end")


def check_copy_runs(root: Path) -> None:
    """Make sure that it is the code of the copy that runs."""
    where = [sys.executable, "-P", "-c", "import queuectl; print(queuectl.__file__)"]
    said = subprocess.check_output(where, env=environment(root), cwd=root, text=True).strip()
    if not Path(said).is_relative_to(root / "src"):
        raise RuntimeError(f"{said} would be tested, not the copy in {root}.")


def run_tests(root: Path, tests: Sequence[str]) -> Verdict:
    """Run tests in a copy and return what became of them."""
    check_copy_runs(root)
    results = root / "results.xml"
    results.unlink(missing_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *(f"--junitxml={results}", f"--basetemp={root / 'tmp'}", "-o", "junit_family=xunit1"),
            *tests,
        ],
        env=environment(root),
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    if done.returncode not in (0, 1) or not results.exists():
        return Verdict([], [], {"all of them": done.stdout})
    return read_results(results)


def read_results(path: Path) -> Verdict:
    """Read what pytest wrote: a failure is of the test itself, an error of what is around it."""
    green, red, broken = [], [], {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = node_id(case)
        failure, error = case.find("failure"), case.find("error")
        if failure is not None and is_verdict(failure.get("message", "")):
            red.append(name)
        elif failure is not None or error is not None:
            trouble = error if failure is None else failure
            assert trouble is not None
            broken[name] = f"{trouble.get('message')}\n{trouble.text}"
        elif case.find("skipped") is not None:
            broken[name] = "skipped"
        else:
            green.append(name)
    return Verdict(green, red, broken)


def node_id(case: ElementTree.Element) -> str:
    """Return the name by which pytest would find a test again."""
    file, place = case.get("file", ""), case.get("classname", "")
    classes = place.removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
    return "::".join([file, *filter(None, classes.split(".")), case.get("name", "")])


def is_verdict(message: str) -> bool:
    """Tell whether a test failed because it found a promise broken."""
    return message.lower().startswith(tuple(start.lower() for start in VERDICTS))


def try_unbroken(tests: Sequence[str]) -> bool:
    """Tell whether tests are green in a copy without a fault."""
    with copy_of_checkout() as root:
        verdict = run_tests(root, tests)
    for test in verdict.red:
        print(f"Red without a fault: {test}")
    for test, said in verdict.broken.items():
        print(f"Broken without a fault: {test}: {said}")
    return bool(verdict.green) and not verdict.red and not verdict.broken


def try_mutant(mutant: Mutant, tests: Sequence[str], repeat: int) -> list[Verdict]:
    """Make a broken build, show it, and run tests on it so many times."""
    with copy_of_checkout() as root:
        print(f"\n{mutant.name}: {mutant.broken}")
        for edit in mutant.edits:
            print(edit.apply(root), end="", flush=True)
        verdicts = []
        for _ in range(repeat):
            verdicts.append(run_tests(root, tests))
            end_processes_of(root)
        return verdicts


def tell(mutant: Mutant, verdicts: Sequence[Verdict], seconds: float) -> str:
    """Return a line of the table."""
    caught = [verdict for verdict in verdicts if verdict.red]
    times = "" if len(verdicts) == 1 else f"{len(caught)}/{len(verdicts)} "
    by = "SURVIVED"
    if caught:
        first, *more = caught[0].red
        by = f"{first} and {len(more)} more" if more else first
    return f"{mutant.name:<32} {times}{by} ({seconds:.0f} s)"


def hunt(mutants: Sequence[Mutant], tests: Sequence[str] = (), repeat: int = 1) -> int:
    """Try mutants, against other tests than their own if some are given; 1 if one survives."""
    needed = sorted({test for mutant in mutants for test in tests or mutant.tests})
    if not try_unbroken(needed):
        print("Tests that fail without a fault prove nothing; mend them first.")
        return 1
    lines, survivors = [], []
    for mutant in mutants:
        began = monotonic()
        verdicts = try_mutant(mutant, tests or mutant.tests, repeat)
        line = tell(mutant, verdicts, monotonic() - began)
        print(line, flush=True)
        lines.append(line)
        if not all(verdict.red for verdict in verdicts):
            survivors.append(mutant.name)
            for verdict in verdicts:
                for name, said in verdict.broken.items():
                    print(f"   proves nothing: {name}: {said}")
    print("\n" + "\n".join(lines))
    if survivors:
        print(f"Not caught each time: {', '.join(survivors)}.")
    return 1 if survivors else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Try the mutants that the command line names; fail if one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which mutants (default: all)")
    parser.add_argument("--repeat", type=int, default=1, help="run each so often, and count")
    parser.add_argument("--tests", nargs="+", default=(), help="try these tests, not the named")
    parser.add_argument("--list", action="store_true", help="list the mutants and exit")
    args = parser.parse_args(argv)
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = [name for name in args.names if name not in known]
    if unknown:
        parser.error(f"no such mutant: {', '.join(unknown)}; see --list")
    chosen = [known[name] for name in args.names] or MUTANTS
    if args.list:
        for mutant in chosen:
            print(f"{mutant.name:<32} {mutant.broken}")
        return 0
    install_missing()
    return hunt(chosen, args.tests, args.repeat)


if __name__ == "__main__":
    sys.exit(main())
