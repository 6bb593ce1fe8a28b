"""Ids: short, random, easy to type."""

from collections.abc import Callable, Collection, Sequence
from os import urandom
from threading import Lock

_LETTERS = b"234567abcdefghijklmnopqrstuvwxyz"
"""Base32, in alphabetical order."""
_RANDOM = bytes.maketrans(bytes(range(256)), _LETTERS * 8)
_OF_JOB = 12

_WHEELS = tuple(
    b"".join(bytes([letter]) * times for letter in _LETTERS) for times in (32 * 32, 32, 1)
)
"""The first characters of ids that are made one after the other, like the wheels of an odometer."""
_lock = Lock()
_turned = int.from_bytes(urandom(4), "big")


def new_ids(count: int, length: int) -> list[str]:
    """Make random ids, of lower-case characters with 5 bits each."""
    return _cut(urandom(count * length).translate(_RANDOM), length)


def job_ids(count: int) -> list[str]:
    """Make ids for jobs: each starts with what comes after the last one, and is random from there.

    So jobs that one process enqueues one after the other lie side by side in the index of ids, and
    three characters tell 32,768 of them apart. What is random keeps them from those of others.
    """
    global _turned
    with _lock:
        start = _turned
        _turned += count
    if count == 1:
        return [f"{_letter(start >> 10)}{_letter(start >> 5)}{_letter(start)}{new_ids(1, 9)[0]}"]
    letters = bytearray(urandom(count * _OF_JOB).translate(_RANDOM))
    for place, wheel in enumerate(_WHEELS):
        at = start % len(wheel)
        turns = (at + count) // len(wheel) + 1
        letters[place::_OF_JOB] = (wheel * turns)[at : at + count]
    return _cut(letters, _OF_JOB)


def free_ids(wanted: Sequence[str], taken: Callable[[Sequence[str]], Collection[str]]) -> list[str]:
    """Return ids that are free, as `taken` tells; one that isn't gets a number behind it."""
    found: dict[int, str] = {}
    number = 1
    while len(found) < len(wanted):
        again = [at for at in range(len(wanted)) if at not in found]
        tried = {at: wanted[at] if number == 1 else f"{wanted[at]}.{number}" for at in again}
        used = {*taken(list(tried.values())), *found.values()}
        for at, id in tried.items():
            if id not in used:
                used.add(id)
                found[at] = id
        number += 1
    return [found[at] for at in range(len(wanted))]


def _letter(number: int) -> str:
    return chr(_LETTERS[number % 32])


def _cut(letters: bytes | bytearray, length: int) -> list[str]:
    text = letters.decode("ascii")
    return [text[at : at + length] for at in range(0, len(text), length)]


def looks_made(id: str) -> bool:
    """Tell whether an id is like those that are made for jobs, here or by a database."""
    return len(id) == _OF_JOB and id.isascii() and id.isalnum() and id == id.lower()
