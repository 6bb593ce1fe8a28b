"""Ids for jobs and nodes: short, random, easy to type."""

from os import urandom

_BASE32 = bytes.maketrans(bytes(range(256)), b"abcdefghijklmnopqrstuvwxyz234567" * 8)


def new_ids(count: int, length: int = 12) -> list[str]:
    """Make random ids of lower-case base32 characters, 5 bits each."""
    letters = urandom(count * length).translate(_BASE32).decode("ascii")
    return [letters[i : i + length] for i in range(0, count * length, length)]


def looks_made(id: str) -> bool:
    """Tell whether an id is like those that are made for jobs, here or by a database."""
    return len(id) == 12 and id.isascii() and id.isalnum() and id == id.lower()
