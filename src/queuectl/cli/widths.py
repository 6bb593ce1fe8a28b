"""Widths on a terminal: how many cells text takes, which columns have room, where text is cut.

Nothing here writes. `render` says what there is, and how wide the terminal is.
"""

from collections.abc import Sequence

GAP = 2
"""Cells between two columns."""
STUMP = 3
"""Cells to which any column is cut where nothing else helps."""


def fit(
    natural: Sequence[int], least: Sequence[int], drop: Sequence[int], room: int
) -> dict[int, int]:
    """Return which columns are shown, and how wide, so that a line takes no more than the room.

    Columns have their natural width if they can. Otherwise they are cut, to their least width at
    worst, and share what is free. If that is not enough, columns with a number in `drop` are left
    out, the lowest first. If even that is not, those that may be cut are cut to a stump, then all
    are, and the last are left out.
    """
    kept = list(range(len(natural)))
    leaving = sorted((i for i in kept if drop[i]), key=lambda i: drop[i])
    while leaving and len(kept) > 1 and _needed(kept, least) > room:
        kept.remove(leaving.pop(0))
    if _needed(kept, least) > room:
        # A time, say, is worth nothing without its end: what can be cut gives way to it.
        least = [_stump(size) if size < natural[i] else size for i, size in enumerate(least)]
    if _needed(kept, least) > room:
        least = [_stump(size) for size in least]
        while len(kept) > 1 and _needed(kept, least) > room:
            kept.pop()
    if _needed(kept, least) > room:
        return {i: min(least[i], room) for i in kept}
    return _shared(kept, least, natural, room)


def _stump(size: int) -> int:
    return min(size, STUMP)


def _needed(kept: Sequence[int], least: Sequence[int]) -> int:
    return sum(least[i] for i in kept) + GAP * (len(kept) - 1)


def _shared(
    kept: Sequence[int], least: Sequence[int], natural: Sequence[int], room: int
) -> dict[int, int]:
    """Give what is free in equal parts to the columns that need it; who needs less gets that."""
    widths = {i: least[i] for i in kept}
    free = room - _needed(kept, least)
    for count, i in enumerate(sorted(kept, key=lambda i: natural[i] - least[i])):
        more = min(natural[i] - least[i], free // (len(kept) - count))
        widths[i] += more
        free -= more
    return widths


def width(text: str) -> int:
    """Count the terminal cells of a text."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(c) or c == "\u200d" else 2 if east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, limit: int, mark: str = "...") -> str:
    """Shorten a sentence to so many cells, ending in a mark where something was left out."""
    if width(text) <= limit:
        return text
    if limit <= width(mark):
        return _start(mark, limit)
    return _start(text, limit - width(mark)).rstrip() + mark


def cut_middle(text: str, limit: int, mark: str = "...") -> str:
    """Shorten a name or command to so many cells, with a mark in the middle.

    Its end stays: `convert scans/2026/a…/img_0299.png` is told apart from its neighbours by that.
    """
    if width(text) <= limit:
        return text
    left = limit - width(mark)
    if left < 2:
        return _start(mark, limit) if left < 0 else _start(text, left) + mark
    end = _start(text[::-1], left // 2)[::-1]
    return _start(text, left - width(end)) + mark + end


def _start(text: str, limit: int) -> str:
    """Return as much of the start of a text as has room in so many cells."""
    kept: list[str] = []
    left = limit
    for character in text:
        left -= width(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept)
