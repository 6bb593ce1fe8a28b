"""Reads what somebody says that a run may use: memory, cores, CPU time, and what it is kept from.

`none`, 0 and false take a bound away, also `nice`, as 0 is what it is without one.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from queuectl.errors import BadJobError, BadTimeError, did_you_mean, shown
from queuectl.sizes import format_size, parse_size
from queuectl.when import parse_duration

if TYPE_CHECKING:
    from queuectl.bounds import Bounds

LEAST_MEMORY = 2**20
LEAST_CORES, MOST_CORES = 0.01, 100_000
LEAST_TIME = 10
"""Milliseconds of CPU time; no program starts with less."""
MOST = 2**31 - 1
LONGEST_USER = 64
LONGEST_IMAGE = 512
MOST_MOUNTS = 32
LONGEST_MOUNT = 1_000
NOTHING = (None, False, 0, "0", "none", "false", "no")


def read_bound(name: str, value: object) -> Any:
    """Return a bound as it is kept, None for none; raises `BadJobError`."""
    if value is None or (isinstance(value, bool | int | float | str) and value in NOTHING):
        return None
    try:
        return _READ[name](value)
    except BadTimeError as error:
        raise BadJobError(f"Bad {name}: {error}", field=name) from None
    except ValueError as error:
        raise BadJobError(f"{name} takes {error}, not {shown(value)}.", field=name) from None


def read_bounds(value: object, *, in_milliseconds: bool = False) -> dict[str, Any]:
    """Read several of them by name; a time may be said in milliseconds, as it is kept."""
    if not isinstance(value, Mapping):
        raise BadJobError("bounds must map names to values, such as {'memory': '512M'}.")
    found = {}
    for name, said in value.items():
        if name not in _READ:
            hint = did_you_mean(str(name), _READ, f"valid names: {', '.join(_READ)}.")
            raise BadJobError(f"Unknown bound {shown(name)}; {hint}")
        if name == "cpu_time" and in_milliseconds and isinstance(said, int):
            said = said / 1000
        found[name] = read_bound(name, said)
    return found


def laid_over(strong: Mapping[str, Any], weak: Mapping[str, Any]) -> "Bounds":
    """Return bounds with others laid over them; one that is None there takes the other away."""
    # In the order of the table, whoever said which.
    both = {**weak, **strong}
    return cast("Bounds", {name: both[name] for name in _READ if both.get(name) is not None})


def _memory(value: object) -> int:
    size = parse_size(value)
    if size < LEAST_MEMORY:
        raise ValueError(f"a size of at least {format_size(LEAST_MEMORY)}")
    return size


def _cores(value: object) -> float:
    wanted = f"a number of cores from {LEAST_CORES} to {MOST_CORES:,}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(wanted)
    try:
        # Python reads digits of other scripts as well.
        cores = float(value) if str(value).isascii() else -1.0
    except ValueError:
        raise ValueError(wanted) from None
    if not LEAST_CORES <= cores <= MOST_CORES:
        raise ValueError(wanted)
    return cores


def _time(value: object) -> int:
    seconds = getattr(value, "total_seconds", None)
    if seconds is not None:
        value = seconds()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a duration such as 60, '90s' or '2h'")
    time = parse_duration(value)
    if time and time < LEAST_TIME:
        raise ValueError(f"at least {LEAST_TIME} ms")
    return time


def _whole(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        try:
            number = int(value) if isinstance(value, str) and value.isascii() else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return number

    return read


def _user(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise ValueError("the name of a user")
    if len(value) > LONGEST_USER or set(value) & set(":/ "):
        raise ValueError("the name of a user")
    return value


def _flag(value: object) -> bool:
    if value is not True and value not in ("true", "yes"):
        raise ValueError("true or false")
    return True


def _image(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise ValueError("the name of an image")
    # What begins with a dash would be an option of the engine.
    if value.startswith("-") or " " in value or len(value) > LONGEST_IMAGE:
        raise ValueError("the name of an image")
    return value


def _mounts(value: object) -> list[str]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or len(given) > MOST_MOUNTS:
        raise ValueError(f"up to {MOST_MOUNTS} texts such as /data:/data:ro")
    return [_mount(one) for one in given]


def _mount(value: object) -> str:
    """Read SOURCE[:TARGET][:ro]; what is said of no target goes to the same place."""
    wanted = "SOURCE[:TARGET][:ro], with whole paths, such as /data:/data:ro"
    if not isinstance(value, str) or not value.isprintable() or len(value) > LONGEST_MOUNT:
        raise ValueError(wanted)
    parts = value.split(":")
    mode = parts.pop() if parts[-1] in ("ro", "rw") else "rw"
    if len(parts) not in (1, 2) or not all(part.startswith("/") for part in parts):
        raise ValueError(wanted)
    return f"{parts[0]}:{parts[-1]}:{mode}"


_READ: dict[str, Callable[[object], Any]] = {
    "memory": _memory,
    "cpus": _cores,
    "cpu_time": _time,
    "nofile": _whole(3, MOST),
    "nproc": _whole(1, MOST),
    "nice": _whole(-20, 19),
    "user": _user,
    "read_only_root": _flag,
    "no_network": _flag,
    "best_effort": _flag,
    "image": _image,
    "mounts": _mounts,
}
"""How each is read: a `ValueError` says what it takes."""
NAMES = tuple(_READ)
