"""The parameters of a job: what it has to itself of an array or a sweep, as names and texts.

They are kept as one JSON text. A text may have bytes that aren't UTF-8, as names of files do: each
of those is a surrogate in Python (`surrogateescape`), and an escape such as `\\udcff` in JSON. So
they can be stored everywhere, and come back whole.
"""

from collections.abc import Mapping

try:
    # What `json` writes texts with; most commands need none of the rest.
    from _json import encode_basestring as _quoted
    from _json import encode_basestring_ascii as _escaped
except ImportError:
    from json.encoder import encode_basestring as _quoted
    from json.encoder import encode_basestring_ascii as _escaped

from queuectl.errors import BadJobError, shown

Value = str | int
Parameters = Mapping[str, Value]

INDEX = "index"
"""The number of an element among those of its request."""
LINE = "line"
"""The line that an element is for."""
NAME = "name"
"""What a job of a graph is called there, unless it has a parameter of that name."""
OURS = {
    INDEX: "QUEUECTL_INDEX",
    LINE: "QUEUECTL_LINE",
    "line_stem": "QUEUECTL_LINE_STEM",
    "line_name": "QUEUECTL_LINE_NAME",
    "line_folder": "QUEUECTL_LINE_FOLDER",
    "line_name_stem": "QUEUECTL_LINE_NAME_STEM",
}
"""The parameters that queuectl gives by itself, and their variables."""
MOST = 64
LONGEST = 128 * 1024 - 1024
"""Bytes of one text: the kernel takes no variable of 128 KiB or more."""
LONGEST_TOGETHER = 2**19
LONGEST_NAME = 128


def variable_of(name: str) -> str:
    """Return the variable by which a run gets a parameter."""
    return OURS.get(name, name)


def variables(parameters: Parameters) -> dict[bytes, bytes]:
    """Return the variables that a run gets for its parameters, with the bytes that were meant."""
    return {variable_of(name).encode(): as_bytes(str(it)) for name, it in parameters.items()}


def as_bytes(text: str) -> bytes:
    """Return the bytes that a text stands for."""
    return text.encode("utf-8", "surrogateescape")


def as_text(data: bytes) -> str:
    """Return the text that stands for bytes, whatever they are."""
    return data.decode("utf-8", "surrogateescape")


def is_plain(text: str) -> bool:
    """Tell whether a text is valid by itself, and stands for no odd bytes."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_name(name: object) -> str:
    """Return the name of a parameter that people may give, or raise."""
    if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
        raise BadJobError(
            f"{shown(name)} can't be the name of a parameter, as it is that of a variable as well;"
            " use letters, digits and _."
        )
    if len(name) > LONGEST_NAME:
        raise BadJobError(f"The name of a parameter has {LONGEST_NAME} characters at most.")
    if name.startswith("QUEUECTL_"):
        raise BadJobError(f"{name[:60]} is set by queuectl only; choose another name.")
    return name


def check_all(what: str, value: object) -> dict[str, Value]:
    """Return parameters that can be stored and handed to a program, or raise."""
    if not isinstance(value, Mapping):
        raise BadJobError(f"{what} must map names to texts, such as {{'seed': '1'}}.")
    if len(value) > MOST:
        raise BadJobError(f"A job can have at most {MOST} parameters, not {len(value)}.")
    found: dict[str, Value] = {}
    for name, item in value.items():
        check_name(name)
        found[name] = item if name == INDEX and type(item) is int else check_text(name, item)
    check_together(found)
    return found


def check_together(found: Parameters) -> None:
    """Raise if parameters are too much for one program."""
    if sum(len(as_bytes(str(text))) for text in found.values()) > LONGEST_TOGETHER:
        raise BadJobError(
            f"The parameters of a job have at most {LONGEST_TOGETHER:,} bytes together."
        )


def check_text(name: str, value: object) -> str:
    """Return the text of a parameter that a program can be given, or raise."""
    if type(value) is str and len(value) <= LONGEST and value.isascii() and "\0" not in value:
        return value
    if not isinstance(value, str):
        raise BadJobError(f"The parameter {name} must be text, not {type(value).__name__}.")
    if "\0" in value:
        raise BadJobError(f"The parameter {name} has a NUL byte, which no program can be given.")
    try:
        size = len(value) if value.isascii() else len(as_bytes(value))
    except UnicodeEncodeError:
        raise BadJobError(f"The parameter {name} isn't valid text.") from None
    if size > LONGEST:
        raise BadJobError(
            f"The parameter {name} is {size:,} bytes long; at most {LONGEST:,} can be handed to a"
            " program."
        )
    return value


def write(parameters: Parameters) -> str:
    """Write parameters as they are stored: always alike, so that one can be looked for in it."""
    return f"{{{', '.join([written(*one) for one in parameters.items()])}}}"


def written(name: str, value: Value) -> str:
    """Write one parameter as it stands among others."""
    if isinstance(value, int):
        return f"{_quoted(name)}: {value}"
    return f"{_quoted(name)}: {_quoted(value) if is_plain(value) else _escaped(value)}"


def read(text: str) -> dict[str, Value]:
    """Read what `write` has written; of what somebody else has put there, as much as can be."""
    import json

    found = json.loads(text)
    if not isinstance(found, dict):
        return {}
    return {name: it if type(it) is int else str(it) for name, it in found.items()}


def legible(value: Value) -> str:
    """Write a value for people and for JSON: odd bytes as `\\xff`, and all else as it is."""
    text = str(value)
    return text if is_plain(text) else as_bytes(text).decode("utf-8", "backslashreplace")
