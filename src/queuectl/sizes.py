"""Numbers of bytes, as people give them and as they are told."""

LARGEST = 2**40
_WANTED = "a size such as 1.5G, 512M or 64MiB"
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_size(value: object) -> int:
    """Read a number of bytes: `4096`, `64k`, `1MiB`, `2G`, `1.5Gi`; or raise ValueError."""
    if isinstance(value, int | float) and abs(value) > LARGEST:
        raise ValueError("a size of at most 1024 GiB")
    text = str(value).strip().lower().replace("_", "")
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip()
    unit = unit if unit == "b" else unit.removesuffix("b").removesuffix("i")
    whole, point, part = digits.partition(".")
    if not digits.isascii() or not whole.isdigit() or unit not in _UNITS:
        raise ValueError(_WANTED)
    if point and not (part.isdigit() and _UNITS[unit] > 1):
        raise ValueError(_WANTED)
    if len(digits) > 20:
        raise ValueError("a size of at most 1024 GiB")
    size = int(whole) * _UNITS[unit] + int(part or 0) * _UNITS[unit] // int("1" + "0" * len(part))
    if size > LARGEST:
        raise ValueError("a size of at most 1024 GiB")
    return size


def format_size(size: int) -> str:
    """Write a number of bytes in the largest unit that divides it."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
