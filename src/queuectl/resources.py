"""What jobs need and nodes have: amounts, devices and labels, and the classes that follow.

An amount is kept in thousandths, so that half a GPU is exact. A pool of devices is a resource of
which each piece has a number; of one device several jobs may have a share. All that a job needs is
its class of need, a text that is a part of its handler: so jobs that need the same are a line by
themselves, and what a node hasn't room for isn't looked at.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from queuectl.errors import shown
from queuectl.job import NEEDS

WHOLE = 1000
"""One of something, in thousandths."""
GPU = "gpu"
DEVICES = (GPU,)
"""Resources that are devices, wherever only their number is said."""
MOST_RESOURCES = 16
MOST_LABELS = 8
MOST_DEVICES = 1024
LARGEST = 2**53
LONGEST_CLASS = 200
"""Characters that a class of need may have: it is in the key of an index."""
LEAST_MEMORY = 2**20 * WHOLE
"""Who writes mem=8 means gigabytes."""
SIZES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,62}")
_AMOUNT = re.compile(r"(\d{1,16})(?:\.(\d{1,3}))?(?:([kmgt])i?b?)?", re.IGNORECASE | re.ASCII)
BETWEEN = r",(?![^\[]*\])"
"""A comma between resources; those in a list of devices are others."""
_PLACES = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", re.ASCII)

Devices = Mapping[str, tuple[int, ...]]
"""Which devices of each pool a run has."""


class AmountError(ValueError):
    """What was written is no amount, name or label; the text says what it should be."""


class Needs(NamedTuple):
    """What a node must have for a job, and what of it the job uses up."""

    amounts: tuple[tuple[str, int], ...] = ()
    """In thousandths, by name, in their order."""
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write it as a class: `cpu=2,gpu=0.5,mem=8589934592;ssd`, or nothing."""
        if not self.amounts and not self.labels:
            return ""
        labels = f";{','.join(self.labels)}" if self.labels else ""
        return f"{','.join(f'{name}={number_text(many)}' for name, many in self.amounts)}{labels}"


NOTHING = Needs()


class Room:
    """What a node has, or has left: amounts, and how much of each device."""

    __slots__ = ("amounts", "devices")

    def __init__(self, amounts: dict[str, int], devices: dict[str, dict[int, int]]) -> None:
        self.amounts = amounts
        self.devices = devices

    def copy(self) -> "Room":
        """Return the same, to be changed."""
        return Room(dict(self.amounts), {name: dict(pool) for name, pool in self.devices.items()})

    def fits(self, needs: Needs) -> bool:
        """Tell whether there is that much of everything."""
        return all(self.has(name, many) for name, many in needs.amounts)

    def has(self, name: str, many: int) -> bool:
        """Tell whether there is that much of one resource."""
        if name in self.devices:
            return self._choose(name, many) is not None
        return self.amounts.get(name, 0) >= many

    def _choose(self, name: str, many: int) -> tuple[int, ...] | None:
        """Say which devices of a pool to give for an amount; None if there aren't so many.

        Whole ones for whole numbers, and of one device a share: of that with the least left, so
        that whole ones stay free.
        """
        pool = self.devices[name]
        if many % WHOLE == 0:
            free = sorted(at for at, left in pool.items() if left == WHOLE)[: many // WHOLE]
            return tuple(free) if len(free) == many // WHOLE else None
        enough = [(left, at) for at, left in pool.items() if left >= many]
        return (min(enough)[1],) if many < WHOLE and enough else None

    def take(self, needs: Needs) -> Devices | None:
        """Use what is needed, and say which devices those are; None if it isn't there."""
        if not self.fits(needs):
            return None
        given = {
            name: found
            for name, many in needs.amounts
            if name in self.devices and (found := self._choose(name, many)) is not None
        }
        self.use(needs, given)
        return given

    def use(self, needs: Needs, given: Devices) -> None:
        """Count what a run has as used, whether it is there or not."""
        for name, many in needs.amounts:
            pool = self.devices.get(name)
            if pool is None:
                self.amounts[name] = self.amounts.get(name, 0) - many
                continue
            each = min(many, WHOLE)
            for at in given.get(name, ()):
                pool[at] = pool.get(at, 0) - each

    def totals(self) -> dict[str, int]:
        """Return how much there is of each resource, in thousandths, by name."""
        of_pools = {name: sum(pool.values()) for name, pool in self.devices.items()}
        return dict(sorted({**self.amounts, **of_pools}.items()))


# -- reading what people write ------------------------------------------------------------------


def read_needs(given: object) -> tuple[tuple[str, int], ...]:
    """Read what a job needs: `gpu=1,mem=8G`, or the same as a mapping."""
    found: dict[str, int] = {}
    for name, value in _pairs(given):
        check_name(name)
        if name in found:
            raise AmountError(f"{name} twice; say it once")
        many = read_amount(name, value)
        if name in DEVICES and many > WHOLE and many % WHOLE:
            raise AmountError(
                f"{name}={number_text(many)}; of one device a share such as {name}=0.5 can be had,"
                " and of several whole ones"
            )
        if many:
            found[name] = many
    if len(found) > MOST_RESOURCES:
        raise AmountError(f"{len(found)} resources; at most {MOST_RESOURCES} can be needed")
    return tuple(sorted(found.items()))


def _pairs(given: object) -> Iterable[tuple[str, object]]:
    if isinstance(given, Mapping):
        return [(str(name), value) for name, value in given.items()]
    if isinstance(given, tuple | list):
        return [pair for part in given for pair in _pairs(part)]
    if not isinstance(given, str):
        raise AmountError("neither text such as gpu=1,mem=8G nor an object of amounts")
    pairs = []
    for part in re.split(BETWEEN, given):
        name, is_said, value = part.partition("=")
        if not is_said or not value.strip():
            raise AmountError(f"{part.strip()[:60]!r}; write NAME=AMOUNT, such as gpu=1 or mem=8G")
        pairs.append((name.strip(), value.strip()))
    return pairs


def check_name(name: str) -> str:
    """Return the name of a resource, or raise."""
    if not _NAME.fullmatch(name):
        raise AmountError(
            f"{name[:60]!r}; a resource has a name such as gpu: small letters, digits and _"
        )
    if name in _taken_names():
        raise AmountError(
            f"{name!r}; QUEUECTL_{name.upper()} says something else, so take another name"
        )
    return name


@lru_cache(maxsize=1)
def _taken_names() -> frozenset[str]:
    """Return the names whose variables mean something else to queuectl, or to a run."""
    from queuectl.settings import NAMES

    told = (
        "job_id attempt attempts queue worker node db db_path type result progress schedule"
        " scheduled_for hook hook_of hook_attempt hook_exit_code run owner token color debug toml"
        " url plain_http parents index group parameters"
    )
    return frozenset(told.split()) | frozenset(NAMES)


def read_amount(name: str, value: object) -> int:
    """Read how much of a resource is meant, in thousandths: 2, 0.5, 8G."""
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    match = None if isinstance(value, bool) else _AMOUNT.fullmatch(text)
    if match is None:
        raise AmountError(
            f"{name}={text[:60] or value!r}; an amount is a number such as 2, 0.5 or 8G"
        )
    whole, part, unit = match.groups()
    factor = SIZES[unit.lower()] if unit else 1
    many = (int(whole) * WHOLE + int((part or "").ljust(3, "0"))) * factor
    if many > LARGEST * WHOLE:
        raise AmountError(f"{name}={text}; an amount is at most {LARGEST:,}")
    if name == "mem" and 0 < many < LEAST_MEMORY:
        if unit:
            raise AmountError(f"{name}={text}; memory is counted from a megabyte on: {name}=1M")
        raise AmountError(f"{name}={text}, which is in bytes; write {name}={text}G or {text}M")
    return many


def read_labels(given: object) -> tuple[str, ...]:
    """Read labels of a node, or those that a job requires: a text with commas, or a list."""
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, tuple | list):
        raise AmountError("neither text such as ssd nor a list of labels")
    for part in parts:
        if not isinstance(part, str):
            raise AmountError(f"{shown(part)}; a label is a text such as ssd")
    found = sorted({part.strip() for part in parts})
    for label in found:
        if not _LABEL.fullmatch(label):
            raise AmountError(
                f"{label[:60]!r}; a label is a word such as ssd: letters, digits and _.:/-"
            )
    if len(found) > MOST_LABELS:
        raise AmountError(f"{len(found)} labels; at most {MOST_LABELS} can be given")
    return tuple(found)


def read_resources(given: str) -> str:
    """Read what a node has, `cpu=8,gpu=[0,2],mem=32G`, into the form in which it is kept."""
    found: dict[str, str] = {}
    for name, value in _pairs(given):
        check_name(name)
        if name in found:
            raise AmountError(f"{name} twice; say it once")
        text = str(value)
        if text.startswith("["):
            places = _places(name, text)
            if not places:
                raise AmountError(f"{name}=[]; for none of them, write {name}=0")
            found[name] = f"[{_written(places)}]"
            continue
        many = read_amount(name, value)
        if name in DEVICES:
            if many % WHOLE or many > MOST_DEVICES * WHOLE:
                raise AmountError(
                    f"{name}={text}; a node has whole devices, {MOST_DEVICES} at most"
                )
            found[name] = f"[{_written(range(many // WHOLE))}]"
        else:
            found[name] = number_text(many)
    if len(found) > MOST_RESOURCES:
        raise AmountError(f"{len(found)} resources; a node has {MOST_RESOURCES} at most")
    return ",".join(f"{name}={text}" for name, text in sorted(found.items()))


def _places(name: str, text: str) -> list[int]:
    """Read the numbers of devices: `[0,2]`, `[0-3]`."""
    inside = text.removeprefix("[").removesuffix("]").replace(" ", "")
    if inside and not (_PLACES.fullmatch(inside) and text.endswith("]")):
        raise AmountError(f"{name}={text[:60]}; devices are listed as in {name}=[0,2] or [0-3]")
    found: set[int] = set()
    for part in inside.split(",") if inside else ():
        first, _, last = part.partition("-")
        places = range(int(first), int(last or first) + 1)
        if not places:
            raise AmountError(f"{name}={text[:60]}; {part} goes down, so write {last}-{first}")
        twice = next((at for at in places if at in found), None)
        if twice is not None:
            raise AmountError(f"{name}={text[:60]}, which has device {twice} twice; say it once")
        found.update(places)
    if len(found) > MOST_DEVICES:
        raise AmountError(f"{len(found):,} devices of {name}; a node has {MOST_DEVICES} at most")
    return sorted(found)


def _written(places: Iterable[int]) -> str:
    """Write numbers of devices in few words: `0-3,6`."""
    runs: list[list[int]] = []
    for at in places:
        if runs and runs[-1][1] == at - 1:
            runs[-1][1] = at
        else:
            runs.append([at, at])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


@lru_cache(maxsize=256)
def _room_of(resources: str) -> Room:
    amounts: dict[str, int] = {}
    devices: dict[str, dict[int, int]] = {}
    for name, value in _pairs(resources) if resources else ():
        text = str(value)
        if text.startswith("["):
            devices[name] = dict.fromkeys(_places(name, text), WHOLE)
        else:
            amounts[name] = read_amount("", text)
    return Room(amounts, devices)


def room_of(resources: str) -> Room:
    """Return what a node has as it is kept, with all of it free."""
    return _room_of(resources).copy()


def could_hold(resources: str, needs: Needs) -> bool:
    """Tell whether a node has that much at all, with all of it free."""
    return _room_of(resources).fits(needs)


# -- what is used of it ---------------------------------------------------------------------


class Holding(NamedTuple):
    """What a run has of its node."""

    at: int
    """Since when, by the store's clock."""
    needs: Needs
    devices: Devices


class Stock(NamedTuple):
    """What a node has, and what its runs have of it."""

    resources: str
    holdings: Sequence[Holding] = ()

    def room(self, since: int | None = None) -> Room:
        """Return what is free; or what would be, if only the runs since some time were there."""
        room = room_of(self.resources)
        for held in self.holdings:
            if since is None or held.at > since:
                room.use(held.needs, held.devices)
        return room


# -- classes of need ----------------------------------------------------------------------------


def with_needs(handler: str, needs: Needs) -> str:
    """Return what a node must have for a job that needs this: its handler, with a class of need."""
    text = str(needs)
    if not text:
        return handler
    if len(text) > LONGEST_CLASS:
        raise AmountError(
            f"{len(text)} characters in all; a job can need {LONGEST_CLASS} characters of names,"
            " amounts and labels"
        )
    return f"{NEEDS}{text} {handler}".rstrip()


@lru_cache(maxsize=1024)
def class_of(needs: str | None, requires: tuple[str, ...], handler: str = "") -> str:
    """Return the handler of a job that needs this, as its fields say it, besides its own."""
    return with_needs(handler, Needs(_amounts(needs or ""), requires))


def _amounts(text: str) -> tuple[tuple[str, int], ...]:
    """Read amounts as they are kept."""
    pairs = _pairs(text) if text else ()
    return tuple(sorted((name, read_amount("", value)) for name, value in pairs))


@lru_cache(maxsize=4096)
def needs_of(handler: str) -> Needs | None:
    """Return what is needed by the handler of a job; None if that can't be read."""
    if not handler.startswith(NEEDS):
        return NOTHING
    text = handler.removeprefix(NEEDS).partition(" ")[0]
    amounts, _, labels = text.partition(";")
    try:
        found = Needs(_amounts(amounts), read_labels(labels) if labels else ())
    except AmountError:
        return None
    # Only in its one true form: each class is one line.
    return found if str(found) == text else None


# -- showing ------------------------------------------------------------------------------------


def number_text(many: int) -> str:
    """Write an amount, exactly: `2`, `0.5`."""
    whole, part = divmod(many, WHOLE)
    return f"{whole}.{part:03}".rstrip("0") if part else str(whole)


def as_number(many: int) -> int | float:
    """Return an amount as JSON has it."""
    return many / WHOLE if many % WHOLE else many // WHOLE


def as_object(needs: str) -> dict[str, int | float]:
    """Return amounts as JSON has them, from the text in which they are kept."""
    return {name: as_number(many) for name, many in _amounts(needs)}


def told(amounts: Iterable[tuple[str, int]]) -> str:
    """Write amounts for people: `cpu=2, mem=8G`."""
    return ", ".join(f"{name}={told_amount(name, many)}" for name, many in amounts)


def told_amount(name: str, many: int) -> str:
    """Write an amount for people; memory in the largest unit in which it is whole."""
    if name == "mem" and many:
        for unit, factor in reversed(SIZES.items()):
            if many % (factor * WHOLE) == 0:
                return f"{many // (factor * WHOLE)}{unit.upper()}"
    return number_text(many)


def told_needs(needs: Needs) -> str:
    """Write what a job needs, for people: `gpu=1, mem=8G and label ssd`."""
    parts = [told(needs.amounts)] if needs.amounts else []
    if needs.labels:
        parts.append(f"label{'s' * (len(needs.labels) > 1)} {', '.join(needs.labels)}")
    return " and ".join(parts)


def device_text(places: Iterable[int]) -> str:
    """Write the numbers of devices as CUDA_VISIBLE_DEVICES has them."""
    return ",".join(map(str, places))
