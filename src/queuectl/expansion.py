"""Expansions: one request for each number of an array, each line, each object, or each combination.

Pure, and lazy: elements are made as they are asked for. What of a request differs from element to
element is its command or arguments, and its parameters; all else they share.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, product, repeat
from math import prod
from os import PathLike, fspath, urandom
from os.path import basename
from typing import Any, NamedTuple

from queuectl import parameters
from queuectl.errors import BadJobError, UsageError, did_you_mean, shown
from queuectl.parameters import INDEX, LINE, Value
from queuectl.placeholders import SHELLS, argv_template, shell_template
from queuectl.request import LONGEST_ARGUMENT, LONGEST_COMMAND, by_name, check_command, read_values
from queuectl.values import dataclass

MOST = 10_000_000
"""Elements of an array, or of a sweep."""
MOST_VALUES = 1_000_000
"""Values of one name in a sweep."""
MOST_RANGES = 10_000
LARGEST = 2**53
"""The largest number of an element: what JSON has of numbers, everybody reads exactly."""
MOST_AT_ONCE = 1_000_000
"""The highest limit of how many elements run at once."""
Request = str | Sequence[str] | Mapping[str, Any]
Line = str | bytes | PathLike[str] | PathLike[bytes]
Element = dict[str, Value]
"""The parameters of one element, its number first."""


Own = tuple[str | None, tuple[str, ...] | None, str]
"""What an element has to itself: its command or its argv, and its parameters as they are stored."""


# -- what there is to make elements of ----------------------------------------------------


class Array(NamedTuple):
    """The numbers of an array, and how many of its elements run at once, if that was said."""

    ranges: tuple[range, ...]
    at_once: int | None

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return sum(map(len, self.ranges))

    def __str__(self) -> str:
        return ",".join(map(_range_text, self.ranges))


def parse_array(text: str) -> Array:
    """Read an array such as `1-100`, `1-100:5`, `1,3,7-9`, each with `%4` for at most 4 at once."""
    numbers, percent, most = text.strip().partition("%")
    ranges = tuple(map(_parse_range, islice(numbers.split(","), MOST_RANGES + 1)))
    if len(ranges) > MOST_RANGES:
        raise UsageError(f"An array is of at most {MOST_RANGES:,} numbers and ranges.")
    array = Array(ranges, check_at_once(most) if percent else None)
    _check_count(array.size)
    _check_apart(ranges)
    return array


def check_at_once(value: object) -> int:
    """Return how many elements may run at once, or raise."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:20])
    if type(value) is not int or not 1 <= value <= MOST_AT_ONCE:
        raise UsageError(
            f"How many run at once is a number from 1 to {MOST_AT_ONCE:,}, such as %4 behind an"
            f" array, not {shown(value)}."
        )
    return value


def _parse_range(text: str) -> range:
    span, colon, step = text.strip().partition(":")
    first, dash, last = span.partition("-")
    numbers = [first, last if dash else first, step if colon else "1"]
    if not all(one.isascii() and one.isdecimal() and len(one) < 20 for one in numbers):
        raise UsageError(
            "An array is of numbers and ranges, such as 1-100, 1,3,7-9 or 1-100:5, with %4 behind"
            f" it for at most 4 at once; {shown(text)} isn't one."
        )
    if any(one != "0" and one.startswith("0") for one in numbers[:2]):
        raise UsageError(
            f"The numbers of an array have no zeros in front, as {shown(text)} has; leave them out,"
            " and write $(printf %03d {}) in the command for such as 007."
        )
    low, high, by = map(int, numbers)
    if low > high or by < 1 or high > LARGEST or (colon and not dash):
        raise UsageError(
            f"The range {shown(text)} must go up, from 0 to {LARGEST:,}, and by steps of 1 or more."
        )
    return range(low, high + 1, by)


def _range_text(numbers: range) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    step = "" if numbers.step == 1 else f":{numbers.step}"
    return f"{numbers[0]}-{numbers[-1]}{step}"


def _check_count(count: int) -> None:
    if count > MOST:
        raise UsageError(f"That makes {count:,} jobs; one request makes at most {MOST:,}.")


def _check_apart(ranges: Sequence[range]) -> None:
    """Refuse a number that comes twice: by it, an element is known."""
    reaching: list[range] = []
    for numbers in sorted(ranges, key=lambda one: one[0]):
        reaching = [other for other in reaching if other[-1] >= numbers[0]]
        for other in reaching:
            few, many = sorted((numbers, other), key=len)
            twice = next((number for number in few if number in many), None)
            if twice is not None:
                raise UsageError(f"The number {twice} is in that array twice; leave one out.")
        reaching.append(numbers)


def parse_sweep(text: str) -> tuple[str, Sequence[Value]]:
    """Read what a name sweeps over: `lr=0.1,0.01`, `seed=1..5`, or `size=10..100..10`."""
    name, equals, values = text.partition("=")
    if not equals:
        raise UsageError(
            "A sweep is a name and its values, such as lr=0.1,0.01 or seed=1..5, not"
            f" {shown(text)}."
        )
    if not values:
        raise UsageError(f"{name}= sweeps over no value; one that is empty is written {name}=,a.")
    found = [_parse_values(name, part) for part in values.split(",")]
    return name, found[0] if len(found) == 1 else [*chain.from_iterable(found)]


def _parse_values(name: str, text: str) -> Sequence[Value]:
    """Return the values of a span of whole numbers, or the text itself."""
    ends = text.split("..")
    numbers = [one.removeprefix("-") for one in ends]
    if len(ends) not in (2, 3) or not all(
        one.isascii() and one.isdecimal() and len(one) < 20 for one in numbers
    ):
        if len(ends) > 1 and all(map(_is_number, ends)):
            raise UsageError(
                f"{name}={text} isn't a span: FIRST..LAST, or FIRST..LAST..STEP, of whole numbers;"
                " list others: 0.1,0.2,0.3."
            )
        return [text]
    if any(one != "0" and one.startswith("0") for one in numbers[:2]):
        raise UsageError(
            f"{name}={text} has zeros in front, which its numbers wouldn't have; leave them out, or"
            f" list the texts: {name}=01,02,03."
        )
    first, last, step = (*map(int, ends), 1)[:3]
    if step < 1:
        raise UsageError(f"The step of {name}={text} must be 1 or more.")
    return range(first, last + 1, step) if first <= last else range(first, last - 1, -step)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _axis(name: object, values: Iterable[object]) -> tuple[str, Sequence[Value]]:
    """Return a name and the texts that it sweeps over, or raise."""
    known = _own_name(name)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise UsageError(f"{known} sweeps over several values, such as a list.")
    if isinstance(values, range):
        texts: Sequence[Value] = values
    else:
        texts = [text_of(known, one) for one in islice(values, MOST_VALUES + 1)]
        if len(set(texts)) < len(texts):
            twice = next(text for at, text in enumerate(texts) if text in texts[:at])
            raise UsageError(f"{known} sweeps over {shown(twice)} twice; leave one out.")
    if not texts:
        raise UsageError(f"{known} sweeps over no value.")
    if len(texts) > MOST_VALUES:
        raise UsageError(f"{known} sweeps over more than {MOST_VALUES:,} values.")
    return known, texts


def _own_name(name: object) -> str:
    known = parameters.check_name(name)
    if known in parameters.OURS:
        raise BadJobError(f"{known} stands for {_OURS_MEAN[known]}; choose another name.")
    return known


_OURS_MEAN = dict.fromkeys(parameters.OURS, "a part of a line") | {
    INDEX: "the number of an element",
    LINE: "the line of an element",
}


def text_of(name: str, value: object) -> str:
    """Return a value as a program gets it: texts as they are, the rest as JSON writes it."""
    if isinstance(value, PathLike):
        value = fspath(value)
    if isinstance(value, bytes):
        value = parameters.as_text(value)
    if not isinstance(value, str):
        import json

        try:
            value = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError):
            raise BadJobError(
                f"The parameter {name} must be text, a number or something of JSON, not"
                f" {type(value).__name__}."
            ) from None
    return parameters.check_text(name, value)


# -- the expansion ------------------------------------------------------------------------


class Expansion:
    """Many requests that share all but what each has to itself. They can be gone through once."""

    def __init__(
        self, shared: Mapping[str, Any], own: Iterator[Own], *, count: int = 0, quotes: bool = False
    ) -> None:
        self.shared = shared
        """The fields that hold for all of them."""
        self.count = count
        """How many there are; 0 if nobody knows yet."""
        self.quotes = quotes
        """Whether their shell has to read values in quotes."""
        self.behind: list[Request] = []
        """Requests that are stored with them, behind the last of them."""
        self._own = own

    def own(self) -> Iterator[Own]:
        """Yield what each has to itself, in their order."""
        return self._own

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield whole requests."""
        for one in self._own:
            yield {**self.shared, **fields_of(one)}
        yield from self.behind  # type: ignore[misc]

    def skip(self, elements: int) -> None:
        """Leave out the first so many of them."""
        for _ in islice(self._own, elements):
            pass
        self.count = max(self.count - elements, 0)

    def part(self, most: int) -> "Expansion":
        """Return the next so many of them, or all that are left: they are made now."""
        some = [*islice(self._own, most)]
        self.count = max(self.count - len(some), 0)
        return Expansion(self.shared, iter(some), count=len(some), quotes=self.quotes)


def fields_of(one: Own) -> dict[str, Any]:
    """Return the fields of a request that an element has to itself."""
    command, argv, own = one
    what = {"argv": list(argv or ())} if command is None else {"command": command}
    return {**what, "parameters": parameters.read(own)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What elements are made of."""

    array: Array | None = None
    lines: Iterable[Line] | None = None
    each: Iterable[Mapping[str, Any]] | None = None
    names: tuple[str, ...] = ()
    """What stands for something in a command: of objects, what the first of them has."""
    sweep: Mapping[str, Sequence[Value]]

    @property
    def count(self) -> int:
        """How many elements there are; 0 if nobody knows yet."""
        if self.lines is not None or self.each is not None:
            return 0
        if self.array is not None:
            return self.array.size
        return prod(map(len, self.sweep.values()))


def expand(
    what: Request,
    *,
    array: str | range | None = None,
    lines: Iterable[Line] | None = None,
    each: Iterable[Mapping[str, Any]] | None = None,
    sweep: Mapping[str, Iterable[object]] | None = None,
    at_once: int | None = None,
    name: str | None = None,
) -> Expansion:
    """Return many requests made of one, for `Queue.enqueue_many`.

    - `array`: one for each number, such as `"1-100%4"` or a range;
    - `lines`: one for each text, such as the name of a file, whatever bytes it has;
    - `each`: one for each mapping of names to values;
    - `sweep`: one for each combination of values, also with `lines` or `each`;
    - `at_once`: how many of them run at once; those of one `name`, if several calls give it.

    Raises:
        UsageError: That can't be, or the command has a placeholder where none can stand.
    """
    sources = _sources(array, lines, each, sweep or {})
    shared, maker = _read_template(what, sources)
    most = at_once
    if sources.array is not None and sources.array.at_once is not None:
        if at_once is not None:
            raise UsageError("How many run at once is said twice; leave % or at_once out.")
        most = sources.array.at_once
    if most is not None:
        if "at_once" in shared:
            raise UsageError("How many run at once is said twice; leave at_once out.")
        shared["at_once"] = f"{check_at_once(most)} {name or urandom(5).hex()}"
    own = _made(sources, maker)
    return Expansion(shared, own, count=sources.count, quotes=maker.quotes)


def _array_of(array: str | range) -> Array:
    if isinstance(array, str):
        return parse_array(array)
    if not array or array[0] < 0 or array[-1] < 0 or max(array[0], array[-1]) > LARGEST:
        raise UsageError(f"An array is of numbers from 0 to {LARGEST:,}, not {array!r}.")
    _check_count(len(array))
    return Array((array,), None)


def _sources(
    array: str | range | None,
    lines: Iterable[Line] | None,
    each: Iterable[Mapping[str, Any]] | None,
    sweep: Mapping[str, Iterable[object]],
) -> Sources:
    """Read what elements are to be made of, or raise why that can't be."""
    given = {"an array": array, "lines": lines, "objects": each}
    several = [name for name, source in given.items() if source is not None]
    if len(several) > 1:
        raise UsageError(f"Elements are made either of {' or of '.join(several)}; give one.")
    if not several and not sweep:
        raise UsageError("Say of what elements are made, such as array='1-100'.")
    if array is not None and sweep:
        raise UsageError(
            "An array and a sweep each number their elements; sweep over a name in place of the"
            " array, such as n=1..100."
        )
    if isinstance(lines, str | bytes) or isinstance(each, str | bytes | Mapping):
        raise UsageError(f"{several[0].capitalize()} are several, such as a list.")
    axes = dict(_axis(name, values) for name, values in sweep.items())
    names = [INDEX] if lines is None else [INDEX, LINE]
    if each is not None:
        items = iter(each)
        first = [*islice(items, 1)]
        each = chain(first, items) if first else ()
        names += [str(name) for item in first if isinstance(item, Mapping) for name in item]
    sources = Sources(
        array=None if array is None else _array_of(array),
        lines=lines,
        each=each,
        names=(*names, *axes),
        sweep=axes,
    )
    _check_count(sources.count or prod(map(len, axes.values())))
    return sources


# -- its command --------------------------------------------------------------------------


def _read_template(
    what: Request, sources: Sources
) -> "tuple[dict[str, Any], _Commands | _Programs]":
    """Return the fields that all share, and what makes the rest of each."""
    fields = _fields(what)
    for name, why in _OF_ONE.items():
        if fields.get(name) is not None:
            raise BadJobError(f"{why}; leave {name} out.", field=name)
    values = read_values(fields, now=0)
    if "type" in values:
        raise BadJobError("What is expanded is a command or a program, not data.")
    shared = {name: value for name, value in fields.items() if name not in ("command", "argv")}
    if sources.each == ():
        # There is no object to say what the places in the command mean, and none is needed.
        return shared, _Programs((), sources)
    if "command" in values:
        commands = _Commands(values["command"], sources)
        if commands.quotes:
            check_shell(values.get("shell"))
        return shared, commands
    return shared, _Programs(values["argv"], sources)


def check_shell(shell: str | None) -> None:
    """Refuse values in commands for a shell that reads quotes in another way."""
    if shell is not None and basename(shell) not in SHELLS:
        raise BadJobError(
            f"Values can't be quoted for {shell}; use the variables, such as QUEUECTL_INDEX, in"
            " place of the placeholders, or another shell.",
            field="shell",
        )


_OF_ONE = {
    "id": "An id is for a single job",
    "unique": "One job at a time has a unique key, so only the first element would be stored",
    "parameters": "Each element has parameters of its own",
}


def _fields(what: Request) -> dict[str, Any]:
    if isinstance(what, str):
        return {"command": what}
    if isinstance(what, Mapping):
        return by_name(what)
    return {"argv": [*what]}


class _Commands:
    """Commands for the shell, in which each value is one word."""

    def __init__(self, command: str, sources: Sources) -> None:
        self._template = shell_template(command, sources.names)
        is_silent = not self._template.names and parameters.OURS[LINE] not in command
        if sources.lines is not None and is_silent:
            self._template = shell_template(f"{command} {{}}", sources.names)
        self._names = self._template.names
        self.quotes = bool(self._names)
        """Whether the shell has to read values in quotes."""
        self._command = command

    def make(self, element: Element) -> Own:
        if not self.quotes:
            return self._command, None, _stored(element)
        _need(self._names, element)
        command, more = self._template.shell(element)
        if len(command) > LONGEST_COMMAND // 4:
            check_command(command)
        return command, None, _stored(element | more if more else element)

    def number(self, numbers: Callable[[], Iterator[int]]) -> Iterator[Own]:
        """Make those of an array: by the million, each step counts."""
        commands = self._template.numbered(numbers())
        return zip(commands, repeat(None), map(_BY_NUMBER, numbers()), strict=False)


class _Programs:
    """Programs and their arguments, in which values stand as they are."""

    quotes = False

    def __init__(self, argv: Sequence[str], sources: Sources) -> None:
        self._templates = [argv_template(word, sources.names) for word in argv]
        if sources.lines is not None and not any(one.names for one in self._templates):
            self._templates.append(argv_template("{}", sources.names))
        self._names = tuple({name: None for one in self._templates for name in one.names})

    def make(self, element: Element) -> Own:
        _need(self._names, element)
        argv = tuple([template.plain(element) for template in self._templates])
        if not all(map(parameters.is_plain, argv)):
            return self._by_shell(element, argv[0])
        if sum(map(len, argv)) > LONGEST_ARGUMENT // 4:
            read_values({"argv": argv}, now=0)
        return None, argv, _stored(element)

    def number(self, numbers: Callable[[], Iterator[int]]) -> Iterator[Own]:
        """Make those of an array: by the million, each step counts."""
        words = [one.numbered(numbers()) for one in self._templates]
        return zip(
            repeat(None), zip(*words, strict=False), map(_BY_NUMBER, numbers()), strict=False
        )

    def _by_shell(self, element: Element, program: str) -> Own:
        """Have a shell put the arguments together, as variables carry bytes that no text has.

        It then becomes the program.
        """
        more: Element = {}
        words = []
        for template in self._templates:
            word, added = template.as_word(element)
            words.append(word)
            more |= added
        # What begins with a dash would be an option of `exec`.
        begin = "" if program.startswith("-") else "exec "
        argv = ("/bin/sh", "-c", begin + " ".join(words))
        read_values({"argv": argv}, now=0)
        return (None, argv, _stored(element | more))


_BY_NUMBER = '{"index": %d}'.__mod__


def _need(names: Sequence[str], element: Element) -> None:
    """Raise if an object lacks what the command has a place for."""
    for name in names:
        if name not in element:
            hint = did_you_mean(name, element, f"there are {', '.join(element)}.")
            raise BadJobError(f"it has no {name!r}, for which the command has a place; {hint}")


def _stored(element: Element) -> str:
    text = parameters.write(element)
    if len(text) > parameters.LONGEST_TOGETHER // 4:
        parameters.check_together(element)
    return text


# -- its elements -------------------------------------------------------------------------


def _made(sources: Sources, maker: _Commands | _Programs) -> Iterator[Own]:
    """Make what each element has to itself; of what is wrong with one, it is said which."""
    make = maker.make
    if sources.array is not None:
        return maker.number(partial(chain.from_iterable, sources.array.ranges))
    combinations = [*_combinations(sources.sweep)] if sources.count == 0 else None
    if combinations is None:
        return (
            make({INDEX: index, **values})
            for index, values in enumerate(_combinations(sources.sweep), 1)
        )
    if sources.lines is not None:
        # What has no name is no file.
        lines = ((place, line) for place, line in enumerate(sources.lines, 1) if line)
        return _numbered(lines, _line, combinations, make, "Line")
    read = partial(_object, sources.sweep)
    return _numbered(enumerate(sources.each or (), 1), read, combinations, make, "Object")


def _numbered(
    items: Iterable[tuple[int, Any]],
    read: Callable[[Any], Element],
    combinations: Sequence[Element],
    make: Callable[[Element], Own],
    unit: str,
) -> Iterator[Own]:
    index = 0
    for place, item in items:
        try:
            base = read(item)
            for values in combinations:
                index += 1
                yield make({INDEX: index, **base, **values})
        except BadJobError as error:
            raise BadJobError(f"{unit} {place:,}: {error}", advice=error.advice) from None


def _line(line: Line) -> Element:
    return {LINE: text_of(LINE, line)}


def _object(sweep: Mapping[str, object], item: object) -> Element:
    if not isinstance(item, Mapping):
        raise BadJobError(f"it must be an object of names and values, not {shown(item)}.")
    if len(item) > parameters.MOST:
        raise BadJobError(f"it has more than {parameters.MOST} values.")
    found: Element = {}
    for name, value in item.items():
        known = _own_name(name)
        if known in sweep:
            raise BadJobError(f"it has {known!r}, which is swept over as well.")
        found[known] = text_of(known, value)
    return found


def _combinations(sweep: Mapping[str, Sequence[Value]]) -> Iterator[Element]:
    """Yield all combinations; the last name changes from one to the next."""
    if not sweep:
        yield {}
        return
    *names, last = sweep
    for values in product(*(sweep[name] for name in names)):
        begin = {name: str(value) for name, value in zip(names, values, strict=True)}
        for value in sweep[last]:
            yield {**begin, last: str(value)}
