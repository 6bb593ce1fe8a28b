"""What databases say differently: one `Dialect` each, and nowhere an `if dialect ==`."""

from dataclasses import dataclass

from queuectl.job import JOB_COLUMNS

TABLES = "jobs attempts outputs tags counts nodes queues rollups events config meta".split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The words that fill the holes of a statement."""

    name: str
    prefix: str
    """What stands before each table name: a schema and a dot, or a prefix."""
    skip_locked: str
    """How a read for a claim passes over rows that others are claiming."""
    instr: str
    """The function that finds a text in a text."""
    ids: str
    """A bound list of texts, for `IN`."""
    seqs: str
    """A bound list of numbers, for `IN`."""

    def render(self, statement: str, **more: str) -> str:
        """Fill the holes of a statement."""
        words = {table: self.prefix + table for table in TABLES}
        words |= {
            "job_columns": ", ".join(JOB_COLUMNS),
            "skip_locked": self.skip_locked,
            "instr": self.instr,
            "ids": self.ids,
            "seqs": self.seqs,
        }
        return statement.format_map(words | more)


SQLITE = Dialect(
    name="sqlite",
    prefix="",
    # A claim runs under BEGIN IMMEDIATE: there are no others.
    skip_locked="",
    instr="instr",
    ids="(SELECT value FROM json_each(:ids))",
    seqs="(SELECT value FROM json_each(:seqs))",
)
