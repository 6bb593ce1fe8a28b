"""A second implementation of what `queuectl.rules` says, which shares no code with it.

No search, no cronsim: each minute of the time in question is looked at.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms(moment: datetime) -> int:
    """Return a moment in milliseconds since 1970."""
    return round((moment - EPOCH).total_seconds() * 1000)


class Plain:
    """Five fields with numbers, lists, ranges and steps, as crontab(5) describes them."""

    def __init__(self, rule: str) -> None:
        fields = rule.split()
        bounds = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
        self.minute, self.hour, self.day, self.month, self.weekday = (
            self._numbers(field, *bound) for field, bound in zip(fields, bounds, strict=True)
        )
        self.either = not fields[2].startswith("*") and not fields[4].startswith("*")
        self.certain = not fields[0].startswith("*") and not fields[1].startswith("*")

    @staticmethod
    def _numbers(field: str, low: int, high: int) -> set[int]:
        found: set[int] = set()
        for term in field.split(","):
            span, _, step = term.partition("/")
            first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
            end = int(last) if last else (high if step else int(first))
            found |= set(range(int(first), end + 1, int(step or 1)))
        return found

    def fits(self, wall: datetime) -> bool:
        """Tell whether a clock on the wall that shows this time shows one of the rule."""
        weekday = wall.isoweekday() % 7
        days = wall.day in self.day, weekday in self.weekday or (weekday == 0 and 7 in self.weekday)
        return (
            wall.minute in self.minute
            and wall.hour in self.hour
            and wall.month in self.month
            and (any(days) if self.either else all(days))
        )

    def ticks(self, zone: tzinfo, begin: datetime, end: datetime) -> list[int]:
        """Return the ticks from one moment until before another."""
        # What the clock shows at each minute, from long before: times come twice.
        shown: dict[datetime, datetime] = {}
        by_the_wall, moment = [], begin - timedelta(hours=30)
        walls: list[datetime] = []
        while moment < end:
            wall = moment.astimezone(zone).replace(tzinfo=None, fold=0)
            if wall not in shown:
                shown[wall] = moment
            walls.append(wall)
            if self.fits(wall) and moment >= begin:
                by_the_wall.append(ms(moment))
            moment += MINUTE
        if not self.certain:
            return by_the_wall
        found: set[int] = set()
        for before, after in pairwise(walls):
            # One step of the clock, which may skip minutes: those come when it has skipped them.
            skipped = before + MINUTE
            while skipped < after:
                if self.fits(skipped):
                    found.add(ms(shown[after]))
                skipped += MINUTE
            if self.fits(after):
                found.add(ms(shown[after]))
        return sorted(tick for tick in found if ms(begin) <= tick < ms(end))
