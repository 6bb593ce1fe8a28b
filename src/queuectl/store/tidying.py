"""Tidying: what makes small again what has grown, and costs nobody who works anything."""

from queuectl.store.changed import GROUPS_AT
from queuectl.store.contract import Nodes, Topic
from queuectl.store.idiom import Idiom
from queuectl.store.rollups import EVER, Tally

HOUR = 3_600_000
KEEP_RECEIPTS = 24 * HOUR
"""Milliseconds after which nobody can be in doubt about a commit any more."""
KEEP_GROUPS = 24 * HOUR
"""Milliseconds for which is kept how a group ended whose jobs are gone."""
KEEP_TICKS = 30 * 24 * HOUR
"""Milliseconds for which is kept which job a tick has made."""
EVENTS_AT_ONCE = 1_000
"""Events that are deleted in one transaction."""


class Tidying:
    """What has grown in an SQL database."""

    def __init__(self, idiom: Idiom, nodes: Nodes) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql
        self._nodes = nodes

    def tidy(self, now: int, events_before: int | None, emitted_before: int | None) -> None:
        """Do all of it, in several transactions."""
        self._db.atomic(lambda: self._coarsen(now))
        self._db.atomic(lambda: self._drop_stale_output(now))
        if self._db.driver.remote:
            self._db.again(self._sql.DROP_RECEIPTS, before=now - KEEP_RECEIPTS)
        self._db.again(self._sql.DROP_OLD_TICKS, before=now - KEEP_TICKS)
        self._db.again(self._sql.DROP_OLD_PAUSES)
        self._db.again(self._sql.DROP_EMITTED, before=emitted_before or 0)
        while self._db.atomic(self._idiom.settle):
            continue
        before = {"before": now - KEEP_GROUPS, "groups_at": GROUPS_AT}
        self._db.again(self._sql.DROP_GROUPS, **before)
        if self._db.rows(self._sql.LIMITED):
            self._db.atomic(lambda: self._see_to_limits(now))
        if events_before is not None:
            while self._db.atomic(lambda: self._prune_events(events_before)) == EVENTS_AT_ONCE:
                continue

    def _see_to_limits(self, now: int) -> None:
        """Forget idle keys, and bring back jobs that somebody forgot to, if that can be."""
        self._db.change(self._sql.DROP_KEYS, {"now": now})
        if self._idiom.limiting.mend(now):
            self._db.nudge(Topic.WORK)

    def _coarsen(self, now: int) -> None:
        """Merge old rollups into hours, older ones into days."""
        self._db.rows(self._sql.HOLD_ROLLUPS)
        for span, age in ((HOUR, 48 * HOUR), (24 * HOUR, 60 * 24 * HOUR)):
            bounds = {"span": span, "before": now - age - (now - age) % span}
            self._db.change(self._sql.COARSEN, bounds)
            self._db.change(self._sql.DROP_FINE, bounds)
        self._bring_totals_together()

    def _bring_totals_together(self) -> None:
        """Add the totals of nodes that are gone to those under no name."""
        gone = {node for (node,) in self._db.rows(self._sql.TOTALED_NODES)}
        gone -= {node.id for node in self._nodes.all()}
        if not gone:
            return
        tally = Tally()
        rows = []
        for queue, node, measure, bucket, *sums in self._db.rows(
            self._sql.TOTALS, ids=self._idiom.bind(sorted(gone))
        ):
            tally.merge((EVER, queue, "", measure, bucket), tuple(map(int, sums)))  # type: ignore[arg-type]
            rows.append({"queue": queue, "node": node, "measure": measure, "bucket": bucket})
        self._db.insert(self._sql.ADD_ROLLUPS, list(tally.rows()))
        self._db.each(self._sql.DROP_TOTAL, rows)

    def _drop_stale_output(self, now: int) -> None:
        """Take away live output that nobody watches any more."""
        self._db.change(self._sql.DROP_STALE_WATCHES, {"now": now})
        self._db.change(self._sql.DROP_STALE_LIVE, {})

    def _prune_events(self, before: int) -> int:
        """Delete the oldest events from before a time; says how many."""
        old = self._db.rows(self._sql.OLD_EVENTS, before=before, limit=EVENTS_AT_ONCE)
        if not old:
            return 0
        seqs = self._idiom.bind([seq for (seq,) in old])
        return self._db.change(self._sql.PRUNE_EVENTS, {"seqs": seqs})
