"""What is measured becomes readings, one per round; the readings of all rounds make a figure.

A figure has an id of words between slashes: the measure, the subject, and what was varied, such
as `drain/sqlite/4` or `latency/rq/idle/p99`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

Json = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value that a subject gave in one round."""

    id: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What several rounds came to: the middle, and how far they were apart."""

    median: float
    low: float
    high: float
    rounds: int


@dataclass(slots=True, kw_only=True)
class Figure:
    """All readings of one id, by round."""

    id: str
    unit: str
    values: dict[int, float] = field(default_factory=dict)

    @property
    def summary(self) -> Summary:
        """The median of all rounds, with the lowest and the highest."""
        return summarize(self.values.values())

    def over(self, other: "Figure") -> Summary:
        """Compare with another figure: the ratio within each round that both have.

        What disturbs a machine for a while disturbs both, so a ratio of neighbours is steadier
        than one of medians.
        """
        both = self.values.keys() & other.values.keys()
        return summarize(self.values[n] / other.values[n] for n in both if other.values[n])


def summarize(values: Iterable[float]) -> Summary:
    """Return the median, lowest and highest of some values, of which there must be one."""
    known = sorted(values)
    return Summary(median=median(known), low=known[0], high=known[-1], rounds=len(known))


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that at least this share of the values doesn't exceed."""
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]


class Book:
    """All figures of a run, and what could not be measured."""

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}
        self.missing: dict[str, str] = {}
        """What wasn't measured, and why."""
        self.configured: dict[str, str] = {}
        """How subjects were set up that have a choice."""
        self.disturbed = 0
        """How often others on the same host took too much for a measurement to count."""

    def add(self, round: int, readings: Iterable[Reading]) -> None:
        """Write down what a subject gave in a round."""
        for reading in readings:
            figure = self.figures.setdefault(reading.id, Figure(id=reading.id, unit=reading.unit))
            figure.values[round] = reading.value

    def matching(self, pattern: str) -> list[Figure]:
        """Return the figures whose id fits, word by word; `*` is any one word."""
        wanted = pattern.split("/")
        return [figure for figure in self.figures.values() if _fits(figure.id, wanted)]

    def best(self, pattern: str, *, lowest: bool = False) -> Figure | None:
        """Return the one with the highest (or lowest) median of those that fit."""
        found = self.matching(pattern)
        if not found:
            return None
        choose = min if lowest else max
        return choose(found, key=lambda figure: figure.summary.median)

    def as_json(self) -> Json:
        """Return everything as plain values."""
        return {
            "figures": {
                figure.id: {
                    "unit": figure.unit,
                    "median": figure.summary.median,
                    "low": figure.summary.low,
                    "high": figure.summary.high,
                    "values": {str(n): value for n, value in sorted(figure.values.items())},
                }
                for figure in self.figures.values()
            },
            "configured": self.configured,
            "not_measured": self.missing,
            "disturbed": self.disturbed,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Book":
        """Read what `as_json` made."""
        book = cls()
        for id, figure in given["figures"].items():
            values = {int(n): float(value) for n, value in figure["values"].items()}
            book.figures[id] = Figure(id=id, unit=figure["unit"], values=values)
        book.configured = dict(given["configured"])
        book.missing = dict(given["not_measured"])
        book.disturbed = int(given.get("disturbed", 0))
        return book

    def renew(self, measures: Iterable[str], newer: "Book") -> None:
        """Replace all that is known of some measures by what was found later."""
        for name in measures:
            _replace(self.figures, newer.figures, f"{name}/")
            _replace(self.configured, newer.configured, f"{name}: ")
            _replace(self.missing, newer.missing, f"{name}: ")
        self.disturbed += newer.disturbed


def _replace(known: dict[str, T], newer: dict[str, T], beginning: str) -> None:
    for name in [name for name in known if name.startswith(beginning)]:
        del known[name]
    known.update((name, value) for name, value in newer.items() if name.startswith(beginning))


def _fits(id: str, wanted: list[str]) -> bool:
    words = id.split("/")
    return len(words) == len(wanted) and all(
        want in ("*", word) for word, want in zip(words, wanted, strict=True)
    )
