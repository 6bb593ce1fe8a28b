"""What a disk would hold had the power gone: a replay of every write that programs made.

`traced` runs a command under strace, with all that it starts. `read_trace` makes events of what
strace wrote, in the order in which they happened. `Disk` takes the events and knows at any moment
what is safe, because it was synced, and what is merely written. `Disk.lose_power` makes a folder
of what is safe and of a part of the rest, by chance: none, all, the first, some, or one of the
writes torn at a sector.

A name in a folder is safe when the folder was synced, not the file. A sync covers what was
written before it began, and counts once it has returned.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.servers.install import program

T = TypeVar("T")

SECTOR = 512
"""What a disk writes whole or not at all."""
LONGEST = 1 << 24
WATCHED = (
    "open,openat,creat,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,link,linkat,"
    "write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,copy_file_range,"
    "fsync,fdatasync,sync,syncfs,sync_file_range,mmap,io_uring_setup"
)
SYNCS = ("fsync", "fdatasync")
HARMLESS = ("sync_file_range",)
"""It promises nothing."""


@dataclass(frozen=True, slots=True)
class Made:
    """A file or folder was made, and is empty."""

    path: str
    folder: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """A name was removed."""

    path: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A file got another name in the same folder, in place of what had it."""

    path: str
    to: str


@dataclass(frozen=True, slots=True)
class Wrote:
    """Bytes were written into a file."""

    path: str
    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        """Do it."""
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data

    def torn(self, random: Random) -> Sequence["Wrote | Cut"]:
        """Return the parts of it that got to the disk: some of its sectors."""
        edges = range(self.offset - self.offset % SECTOR, self.offset + len(self.data), SECTOR)
        parts = []
        for edge in edges:
            begin = max(edge, self.offset)
            data = self.data[begin - self.offset : edge + SECTOR - self.offset]
            if random.random() < 0.5:
                parts.append(Wrote(self.path, begin, data))
        return parts


@dataclass(frozen=True, slots=True)
class Cut:
    """A file was cut, or made longer with zeros."""

    path: str
    size: int

    def apply(self, content: bytearray) -> None:
        """Do it."""
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))

    def torn(self, random: Random) -> Sequence["Wrote | Cut"]:
        """Return it: a size is changed whole."""
        return [self]


@dataclass(frozen=True, slots=True)
class SyncBegan:
    """A file or folder is being synced; the number pairs it with its end."""

    path: str
    number: int


@dataclass(frozen=True, slots=True)
class SyncEnded:
    """A sync has returned: all that was written before it began is safe."""

    path: str
    number: int


@dataclass(frozen=True, slots=True)
class Said:
    """A program wrote something for us to hear, outside of the disk."""

    path: str
    text: str


Event = Made | Removed | Moved | Wrote | Cut | SyncBegan | SyncEnded | Said


class TraceError(Exception):
    """The trace holds something that can't be replayed."""


# -- reading -----------------------------------------------------------------------------


def traced(command: Sequence[str], trace: Path) -> list[str]:
    """Return the command that runs a command, and all that it starts, with its writes traced."""
    return [
        program("strace"), "--follow-forks", "--seccomp-bpf", "--decode-fds=path", "--signal=none",
        f"--string-limit={LONGEST}", f"--trace={WATCHED}", f"--output={trace}", "--", *command,
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    args: str
    result: str
    began: int
    ended: int
    """The lines of the trace where it was entered and left."""


_WHOLE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\w+|\?).*", re.DOTALL)
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*?),? *<unfinished \.\.\.>", re.DOTALL)
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>,? *(.*)\) += (-?\w+|\?).*", re.DOTALL)


def _calls(lines: Iterable[str]) -> Iterator[_Call]:
    """Return the calls in the order in which they were left."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        line = line.rstrip("\n")
        if line.endswith("<unfinished ...>"):
            if found := _BEGUN.fullmatch(line):
                begun[found[1]] = number, found[3]
        elif found := _RESUMED.fullmatch(line):
            since, args = begun.pop(found[1])
            if found[3]:
                args = f"{args}, {found[3]}"
            yield _Call(found[2], args, found[4], since, number)
        elif found := _WHOLE.fullmatch(line):
            yield _Call(found[2], found[3], found[4], number, number)


class _Reader:
    """Makes events of calls."""

    def __init__(self, disk: Path, heard: Path, ignored: re.Pattern[str]) -> None:
        self._disk = str(disk)
        self._heard = f"{heard}/"
        self._ignored = ignored

    def events(self, number: int, call: _Call) -> Iterator[tuple[int, Event]]:
        """Return what a call came to, each with the line at which it counts."""
        if call.result.startswith("-") or call.result == "?":
            return
        if call.name in ("sync", "syncfs", "io_uring_setup"):
            raise TraceError(f"{call.name} isn't understood.")
        path = self._path_of(call)
        if path is None:
            return
        if call.name == "write" and path.startswith(self._heard):
            # Whoever says it knew it before.
            yield call.began, Said(path, _data(call).decode(errors="replace"))
        if not self._is_on_disk(path) or call.name in HARMLESS:
            return
        if call.name in SYNCS:
            yield call.began, SyncBegan(path, number)
            yield call.ended, SyncEnded(path, number)
            return
        if (event := self._change(call, path)) is not None:
            yield call.ended, event

    def _is_on_disk(self, path: str) -> bool:
        inside = path == self._disk or path.startswith(f"{self._disk}/")
        return inside and not self._ignored.search(path)

    def _path_of(self, call: _Call) -> str | None:
        """Return the file that a call is about; None when it isn't about a named one."""
        if call.name == "mmap":
            found = re.search(r"MAP_SHARED\S*, \d+<(/[^>]*)>", call.args)
            return found[1] if found and "PROT_WRITE" in call.args else None
        if found := re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>, \"((?:[^\"\\]|\\.)*)\"", call.args):
            name = _unescaped(found[2]).decode(errors="surrogateescape")
            if call.name.endswith("at") or call.name == "renameat2":
                return name if name.startswith("/") else f"{found[1]}/{name}"
        if found := re.match(r"\"((?:[^\"\\]|\\.)*)\"", call.args):
            name = _unescaped(found[1]).decode(errors="surrogateescape")
            return name if name.startswith("/") else None
        # A descriptor. One of a file that has no name any more is nothing that we could find.
        found = re.match(r"\d+<(/[^>]*)>(\(deleted\))?", call.args)
        return found[1] if found and not found[2] else None

    def _change(self, call: _Call, path: str) -> Event | None:
        match call.name:
            case "open" | "openat" if "O_TRUNC" in call.args:
                raise TraceError(f"{path} was cut when it was opened, which isn't understood.")
            case "open" | "openat":
                return Made(path) if "O_CREAT" in call.args else None
            case "mkdir" | "mkdirat":
                return Made(path, folder=True)
            case "unlink" | "unlinkat" | "rmdir":
                return Removed(path)
            case "rename":
                names = re.findall(r"\"((?:[^\"\\]|\\.)*)\"", call.args)
                return Moved(path, _unescaped(names[1]).decode(errors="surrogateescape"))
            case "pwrite64":
                offset = int(call.args.rpartition(", ")[2])
                return Wrote(path, offset, _data(call)[: int(call.result)])
            case "ftruncate":
                return Cut(path, int(call.args.rpartition(", ")[2]))
        raise TraceError(f"{call.name} of {path} isn't understood.")


def read_trace(
    lines: Iterable[str], *, disk: Path, heard: Path, ignored: str = "$."
) -> list[Event]:
    """Return what happened on a disk, and what programs said, in the order it happened.

    `disk` is the folder that is the disk, which was empty. Paths in which the pattern `ignored`
    is found count as not on it. What is written to files in `heard` is what programs said.
    """
    reader = _Reader(disk, heard, re.compile(ignored))
    timed = [
        (at, number, event)
        for number, call in enumerate(_calls(lines))
        for at, event in reader.events(number, call)
    ]
    return [event for _, _, event in sorted(timed, key=lambda one: one[:2])]


def _data(call: _Call) -> bytes:
    found = re.search(r"\"((?:[^\"\\]|\\.)*)\"(\.\.\.)?", call.args)
    if found is None or found[2]:
        raise TraceError(f"The trace doesn't hold what this {call.name} wrote.")
    return _unescaped(found[1])


def _unescaped(text: str) -> bytes:
    # strace writes as C does, and so does Python.
    value: bytes = ast.literal_eval(f'b"{text}"')
    return value


# -- replaying ---------------------------------------------------------------------------


class _Node:
    """A file or a folder: what is safe, and the changes that aren't yet."""

    def __init__(self) -> None:
        self._synced = 0
        """How many changes are safe, of all that there were."""
        self._begun: dict[int, int] = {}

    def begin_sync(self, number: int, changes: int) -> None:
        self._begun[number] = self._synced + changes

    def end_sync(self, number: int) -> int:
        """Return how many of the changes have become safe."""
        many = max(0, self._begun.pop(number) - self._synced)
        self._synced += many
        return many


class _File(_Node):
    def __init__(self) -> None:
        super().__init__()
        self.safe = bytearray()
        self.changes: list[Wrote | Cut] = []

    def settle(self, many: int) -> None:
        for change in self.changes[:many]:
            change.apply(self.safe)
        del self.changes[:many]

    def left(self, random: Random) -> bytes:
        """Return what may be left of it."""
        content = bytearray(self.safe)
        for change in _survivors(random, self.changes, lambda change: change.torn(random)):
            change.apply(content)
        return bytes(content)


Entries = dict[str, "_File | _Folder | None"]
"""Names, and what they are to stand for; None for a name that is gone."""


class _Folder(_Node):
    def __init__(self) -> None:
        super().__init__()
        self.safe: Entries = {}
        self.changes: list[Entries] = []
        self.now: dict[str, _File | _Folder] = {}

    def change(self, entries: Entries) -> None:
        self.changes.append(entries)
        for name, node in entries.items():
            if node is None:
                self.now.pop(name, None)
            else:
                self.now[name] = node

    def settle(self, many: int) -> None:
        for entries in self.changes[:many]:
            self.safe |= entries
        del self.changes[:many]

    def left(self, random: Random) -> dict[str, "_File | _Folder"]:
        """Return which names may be left in it."""
        entries = dict(self.safe)
        for change in _survivors(random, self.changes, lambda change: [change]):
            entries |= change
        return {name: node for name, node in entries.items() if node is not None}


class Disk:
    """A disk, which was empty and safe at first."""

    def __init__(self, root: Path) -> None:
        self._prefix = str(root)
        self._root = _Folder()

    def take(self, event: Event) -> None:
        """Let something happen to it."""
        match event:
            case Said():
                return
            case Made(path, is_folder):
                folder, name = self._parent(path)
                if name not in folder.now:
                    folder.change({name: _Folder() if is_folder else _File()})
            case Removed(path):
                folder, name = self._parent(path)
                folder.change({name: None})
            case Moved(path, to):
                folder, name = self._parent(path)
                other, new = self._parent(to)
                if other is not folder:
                    raise TraceError("A move between folders isn't understood.")
                folder.change({name: None, new: folder.now[name]})
            case Wrote(path) | Cut(path):
                file = self._find(path)
                assert isinstance(file, _File), path
                file.changes.append(event)
            case SyncBegan(path, number):
                node = self._find(path)
                node.begin_sync(number, len(node.changes))
            case SyncEnded(path, number):
                node = self._find(path)
                node.settle(node.end_sync(number))

    def lose_power(self, random: Random, into: Path) -> None:
        """Make a folder of what may be left of it."""
        _write(self._root, random, into)

    def _find(self, path: str) -> _File | _Folder:
        node: _File | _Folder = self._root
        for name in path.removeprefix(self._prefix).split("/"):
            if name:
                assert isinstance(node, _Folder), path
                node = node.now[name]
        return node

    def _parent(self, path: str) -> tuple[_Folder, str]:
        above, _, name = path.rpartition("/")
        folder = self._find(above)
        assert isinstance(folder, _Folder), path
        return folder, name


def _write(folder: _Folder, random: Random, into: Path) -> None:
    into.mkdir()
    for name, node in folder.left(random).items():
        if isinstance(node, _File):
            (into / name).write_bytes(node.left(random))
        else:
            _write(node, random, into / name)


def _survivors(
    random: Random, changes: Sequence[T], torn: Callable[[T], Sequence[T]]
) -> Sequence[T]:
    """Return what got to the disk of changes that weren't synced, in one way of many."""
    at = random.randrange(len(changes) + 1)
    match random.choice(("none", "all", "first", "some", "torn")):
        case "none":
            return []
        case "all":
            return changes
        case "first":
            return changes[:at]
        case "some":
            share = random.random()
            return [change for change in changes if random.random() < share]
        case _:
            parts = [part for change in changes[at : at + 1] for part in torn(change)]
            return [*changes[:at], *parts]
