"""Charts as paths of SVG: numbers in, text out. How they look is said by the style sheet."""

from collections.abc import Iterator, Sequence
from math import floor, log10

from queuectl.values import dataclass

WIDTH, HEIGHT = 600, 120
"""The field that a chart is drawn in; it is stretched to whatever place it gets."""
NICE = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One of the things that a chart shows."""

    kind: str
    """Its class in the style sheet."""
    path: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A part of a chart, to be pointed at, and what it stands for in numbers."""

    x: str
    width: str
    at: str
    cells: tuple[str, ...]
    """What each of the columns of the chart says then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What is drawn, and how high the top of it is."""

    title: str
    about: str
    """What it says, for who can't see it."""
    layers: tuple[Layer, ...]
    columns: tuple[str, ...]
    """What is told of each part."""
    spots: tuple[Spot, ...]
    top: str
    """The number at the top, as it is written there."""
    middle: str


def nice(most: float, least: float = 1) -> float:
    """Return a round number that is as high as this or a little higher."""
    most = max(most, least)
    power = 10.0 ** floor(log10(most))
    return next(n * power for n in NICE if most <= n * power * (1 + 1e-9))


def bars(stacks: Sequence[Sequence[float]], top: float) -> list[str]:
    """Return the paths of bars that stand on each other: a list of heights for each layer."""
    below = [0.0] * max(map(len, stacks), default=0)
    paths = []
    for stack in stacks:
        step = WIDTH / max(len(stack), 1)
        gap = min(1.5, step / 4)
        pieces = []
        for number, value in enumerate(stack):
            if value:
                low, high = _y(below[number], top), _y(below[number] + value, top)
                left, right = number * step + gap / 2, (number + 1) * step - gap / 2
                pieces.append(f"M{_n(left)} {_n(low)}V{_n(high)}H{_n(right)}V{_n(low)}Z")
                below[number] += value
        paths.append("".join(pieces))
    return paths


def line(values: Sequence[float | None], top: float) -> str:
    """Return the path of a line through the middle of each part; where nothing is, it is broken."""
    step = WIDTH / max(len(values), 1)
    pieces = []
    joined = False
    for number, value in enumerate(values):
        if value is not None:
            x, y = _n((number + 0.5) * step), _n(_y(value, top))
            # A point that stands alone is a line as well, else it wasn't to be seen.
            pieces.append(f"L{x} {y}" if joined else f"M{x} {y}h.1")
        joined = value is not None
    return "".join(pieces)


def area(values: Sequence[float], top: float) -> str:
    """Return the path of what lies under a line, for sparklines."""
    if len(values) < 2:
        return ""
    step = WIDTH / (len(values) - 1)
    points = (f"L{_n(number * step)} {_n(_y(value, top))}" for number, value in enumerate(values))
    return f"M0 {HEIGHT}{''.join(points)}L{WIDTH} {HEIGHT}Z"


def spots(rows: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Spot]:
    """Yield the places to point at, one for each part: when that was, and its numbers."""
    step = WIDTH / max(len(rows), 1)
    for number, (at, cells) in enumerate(rows):
        yield Spot(x=_n(number * step), width=_n(step), at=at, cells=tuple(cells))


def _y(value: float, top: float) -> float:
    return HEIGHT - min(value / top, 1) * (HEIGHT - 2)


def _n(number: float) -> str:
    return f"{number:.1f}".rstrip("0").rstrip(".") or "0"
