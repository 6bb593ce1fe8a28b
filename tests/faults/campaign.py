"""A campaign: one kind of fault, done many times to a queue at work, and what came of it.

Every campaign is a function in `campaigns/` that gets an arena and its sizes, and writes into the
arena's report. The short sizes are for `make test`, the long ones for `make faults-long`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.arena import Arena

SQLITE, POSTGRES, MARIADB = "sqlite", "postgres", "mariadb"
SERVERS = (POSTGRES, MARIADB)
STORES = (SQLITE, *SERVERS)

Figure = int | float | str
Fight = Callable[..., None]
"""`fight(arena, **sizes)`."""


@dataclass(slots=True)
class Report:
    """What a campaign has seen."""

    figures: dict[str, Figure] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    """Every promise that was broken, in a sentence each."""

    def note(self, **figures: Figure) -> None:
        """Take down what was counted or measured."""
        self.figures |= figures

    def expect(self, kept: object, promise: str) -> None:
        """Take down a promise that wasn't kept."""
        if not kept:
            self.broken.append(promise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One kind of fault, and how often it is done."""

    row: int
    """Its place in the table of docs/reliability.md."""
    name: str
    about: str
    """What is done, in a few words."""
    goal: str
    stores: Sequence[str]
    trials: str
    """The figure that counts how often something could have gone wrong."""
    fight: Fight
    short: Mapping[str, int]
    long: Mapping[str, int]
    owns_server: bool
    """Whether it kills or changes the database server, which then can't be shared."""

    def least(self, size: str) -> int:
        """Return the smallest number that makes sense: 0 only for what may be left out."""
        return min(1, self.short[size], self.long[size])

    def run(self, arena: "Arena", sizes: Mapping[str, int]) -> Report:
        """Do it, and return what was seen."""
        self.fight(arena, **sizes)
        if self.trials not in arena.report.figures:
            raise LookupError(f"{self.name} didn't count its {self.trials}.")
        return arena.report


CAMPAIGNS: dict[str, Campaign] = {}
"""All of them by name, once `tests.faults.campaigns` is imported."""


def campaign(
    *,
    row: int,
    about: str,
    goal: str,
    trials: str,
    short: Mapping[str, int],
    long: Mapping[str, int],
    stores: Sequence[str] = STORES,
    owns_server: bool = False,
) -> Callable[[Fight], Fight]:
    """Make a campaign of a function, under the function's name."""

    def register(fight: Fight) -> Fight:
        name = fight.__name__
        CAMPAIGNS[name] = Campaign(
            row=row,
            name=name,
            about=about,
            goal=goal,
            stores=stores,
            trials=trials,
            fight=fight,
            short=short,
            long=long,
            owns_server=owns_server,
        )
        return fight

    return register


def percentile(values: Sequence[float], share: int) -> float:
    """Return the value that so many percent of all don't exceed, by the nearest rank."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(len(ranked) * share / 100) - 1)]
