"""Jobs that name each other, as YAML: a list of jobs, or a mapping of names to jobs.

A file is looked through before it is read: a few lines that name each other may stand for more than
fits in memory, and of names that come twice YAML would take the last.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from queuectl.errors import BadJobError, UsageError, how_to_install
from queuectl.graphs import Entry, is_template

MOST_MERGED = 1_000_000
"""Fields that `<<` may copy in one file."""
MOST_VALUES = 100_000
"""Values that a job may have, with those that its aliases stand for."""
_TAGS = "tag:yaml.org,2002:"
_ODD = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError)
"""What PyYAML raises of values that aren't what their tags say."""


def read_yaml(path: str) -> list[Entry]:
    """Read the jobs of a file."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise UsageError(
            f"To read {path} takes PyYAML; install it {how_to_install('yaml')}, or write JSON."
        ) from None
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}.") from None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        return [] if node is None else [*_entries(path, loader, node)]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        why = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise BadJobError(f"{path}{where}: invalid YAML: {why}.") from None


def _entries(path: str, loader: Any, node: Any) -> Iterator[Entry]:
    look = _Look(path, loader)
    look.at(node)
    if node.id == "mapping":
        loader.flatten_mapping(node)
        # What a mapping says itself stands behind what it merges, and outranks it.
        jobs = {loader.construct_object(key): (key, value) for key, value in node.value}
        for name, (key, value) in jobs.items():
            if is_template(name):
                continue
            place = look.place(key)
            fields = _job(place, look.read(key, value))
            if fields.get("name", name) != name:
                raise BadJobError(f"{place}: it has two names, {name!r} and {fields['name']!r}.")
            yield Entry(place=place, fields={"name": name, **fields})
    elif node.id == "sequence":
        for item in node.value:
            place = look.place(item)
            yield Entry(place=place, fields=_job(place, look.read(item, item)))
    else:
        raise BadJobError(f"{path}: it must be a list of jobs, or names with a job each.")


def _job(place: str, job: Any) -> dict[str, Any]:
    if isinstance(job, str):
        return {"command": job}
    if not isinstance(job, dict):
        raise BadJobError(f"{place}: a job must be a command, or fields such as command: make.")
    return {str(name): value for name, value in job.items()}


class _Look:
    """Looks through a file, each of its nodes once, however often aliases name it."""

    def __init__(self, path: str, loader: Any) -> None:
        self._path = path
        self._loader = loader
        self._values: dict[Any, int | None] = {}
        """How many values a node stands for; None while it is looked at."""
        self._pairs: dict[Any, int] = {}
        """How many names a mapping has, with those that it merges."""
        self._merged = 0

    def place(self, node: Any) -> str:
        """Say where something is."""
        return f"{self._path}, line {node.start_mark.line + 1}"

    def at(self, node: Any) -> int:
        """Return how many values a node stands for; what can't be read is an error."""
        if node in self._values:
            found = self._values[node]
            if found is None:
                raise BadJobError(f"{self.place(node)}: it contains itself.")
            return found
        self._values[node] = None
        if node.id == "mapping":
            self._check_names(node)
            count = sum(self.at(value) + 1 for _, value in node.value)
            self._count_merged(node)
        elif node.id == "sequence":
            count = sum(map(self.at, node.value))
        else:
            self._scalar(node)
            count = 0
        self._values[node] = count + 1
        return count + 1

    def read(self, named: Any, node: Any) -> Any:
        """Return what a job, which is named somewhere, says."""
        if self.at(node) > MOST_VALUES:
            raise BadJobError(
                f"{self.place(named)}: with its aliases, it has more than {MOST_VALUES:,} values."
            )
        try:
            return self._loader.construct_object(node, deep=True)
        except _ODD:
            raise BadJobError(
                f"{self.place(named)}: invalid YAML: a value isn't what its tag says."
            ) from None

    def _check_names(self, node: Any) -> None:
        """Raise that a name comes twice, or is none."""
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.id != "scalar":
                raise BadJobError(f"{self.place(key)}: a name must be a text.")
            # 1 and 0x1 are one name, and so are yes and true.
            names = (
                {key.value}
                if _is_special(key)
                else {key.value, value := self._scalar(key), str(value)}
            )
            if not seen.isdisjoint(names):
                raise BadJobError(f"{self.place(key)}: the name {key.value!r} comes twice.")
            seen |= names

    def _scalar(self, node: Any) -> Any:
        try:
            return self._loader.construct_object(node)
        except _ODD:
            kind = node.tag.removeprefix(_TAGS)
            raise BadJobError(
                f"{self.place(node)}: invalid YAML: {node.value[:60]!r} can't be read as {kind}."
            ) from None

    def _count_merged(self, node: Any) -> None:
        merged = sum(
            self._pairs.get(source, 0)
            for key, value in node.value
            if key.tag == f"{_TAGS}merge"
            for source in _sources(value)
        )
        self._pairs[node] = len(node.value) + merged
        self._merged += merged
        if self._merged > MOST_MERGED:
            raise BadJobError(
                f"{self.place(node)}: the file merges more than {MOST_MERGED:,} fields."
            )


def _is_special(key: Any) -> bool:
    """Tell whether a name is one of those that YAML takes out of a mapping."""
    return key.tag in (f"{_TAGS}merge", f"{_TAGS}value")


def _sources(value: Any) -> Sequence[Any]:
    """Return the mappings that `<<` names."""
    return value.value if value.id == "sequence" else [value]
