r"""Crontabs: reads their text into entries, and writes schedules as such text. No queue, no clock.

It is what crontab(5) says: five fields or an @word, then a command for the shell; comments; and
`NAME=value`, which holds for the lines below it. In a command `\%` is a percent sign, the first
other one ends it, and what follows is stdin, where each further one is the end of a line.

A line gets its name from a comment right above it: `# schedule: NAME` as it stands, any other short
one in small letters. Without, the program that it runs names it.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from posixpath import basename
from shlex import join
from typing import Any

from queuectl.errors import UsageError, shown
from queuectl.rules import FIELDS, WORDS, read_rule, read_zone
from queuectl.schedule import Schedule
from queuectl.values import dataclass, replace
from queuectl.when import format_duration

NAMED = "schedule:"
"""What a comment begins with that has the name of the line below, as it stands."""
LONGEST_LINE = 2**20
"""Characters of a line: no command may be longer."""
LONGEST_COMMENT = 60
"""Characters of a comment that still is a name."""
LONGEST_MADE = 40
"""Characters of a name that is made."""
IGNORED = {
    "MAILTO": "output is kept with each job",
    "MAILFROM": "no mail is sent",
    "CONTENT_TYPE": "no mail is sent",
    "CONTENT_TRANSFER_ENCODING": "no mail is sent",
    "RANDOM_DELAY": "use --jitter",
}
"""Variables that only mean something to cron, and what to say of each."""
ZONE, SHELL, HOME = "CRON_TZ", "SHELL", "HOME"

_VARIABLE = re.compile(
    r"""\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[A-Za-z_]\w*))\s*=\s*(?P<value>.*)"""
)
_NO_NAME = re.compile(r"[\d*@]|m\s+h\b|min\b", re.IGNORECASE)
"""How comments begin that name nothing: lines put out of use, and headings of columns."""
_PLAIN_FIELD = re.compile(r"[\d*,/-]+")
"""What cron reads, once names of months and days are numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of a crontab that runs something, with all that holds for it."""

    line: int
    name: str
    rule: str
    command: str
    stdin: str | None = None
    tz: str | None = None
    shell: str | None = None
    home: str | None = None
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crontab:
    """What a crontab says."""

    entries: Sequence[Entry]
    notes: Sequence[str]
    """What of it has no effect here."""


def read_crontab(text: str, place: str = "the crontab") -> Crontab:
    """Read a crontab; errors name the line, in `place`."""
    reader = _Reader(place)
    for number, line in enumerate(text.split("\n"), 1):
        reader.take(number, line.removesuffix("\r"))
    return Crontab(entries=reader.entries, notes=reader.notes)


class _Reader:
    """Takes lines, and remembers what holds for those that follow."""

    def __init__(self, place: str) -> None:
        self.entries: list[Entry] = []
        self.notes: list[str] = []
        self._place = place
        self._env: dict[str, str] = {}
        self._special: dict[str, str] = {}
        self._comment = ""
        self._lines: dict[str, int] = {}

    def take(self, number: int, line: str) -> None:
        stripped = line.strip()
        if stripped.startswith("#"):
            self._comment = stripped.lstrip("#").strip()
            return
        try:
            if len(line) > LONGEST_LINE:
                most = f"{LONGEST_LINE:,} characters"
                raise UsageError(f"a line can have {most} at most; this has {len(line):,}.")
            if not stripped:
                pass
            elif variable := _VARIABLE.fullmatch(line):
                self._set(number, variable)
            else:
                self._add(number, line.lstrip())
        except UsageError as error:
            where = f"{self._place}, line {number}: {error}"
            raise UsageError(where, advice=error.advice) from None
        self._comment = ""

    def _set(self, number: int, found: re.Match[str]) -> None:
        name = found["double"] or found["single"] or found["plain"]
        if not name:
            raise UsageError("a variable needs a name.")
        value = found["value"].strip()
        if len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]:
            value = value[1:-1]
        if name in IGNORED:
            self.notes.append(f"{self._place}, line {number}: {name} is ignored: {IGNORED[name]}.")
        elif name in (ZONE, SHELL):
            if name == ZONE and value:
                read_zone(value)
            self._special[name] = value
        else:
            self._env[name] = value

    def _add(self, number: int, line: str) -> None:
        rule, command = _split(line)
        command, stdin = _without_percents(command)
        if not command.strip():
            raise UsageError(f"the rule {rule!r} has no command behind it.")
        zone = self._special.get(ZONE) or None
        read_rule(rule, read_zone(zone or "UTC"), anchor=0)
        self.entries.append(
            Entry(
                line=number,
                name=self._name(number, command),
                rule=rule,
                command=command,
                stdin=stdin,
                tz=zone,
                shell=self._special.get(SHELL) or None,
                home=self._env.get(HOME) or None,
                env=dict(self._env),
            )
        )

    def _name(self, number: int, command: str) -> str:
        given = self._comment
        if given.lower().startswith(NAMED) and (name := given[len(NAMED) :].strip()):
            if name in self._lines:
                raise UsageError(f"line {self._lines[name]} is named {shown(name)}, too.")
        else:
            short = given if len(given) <= LONGEST_COMMENT and not _NO_NAME.match(given) else ""
            made = _made_of(short) or _made_of(_program(command)) or "job"
            name, count = made, 1
            while name in self._lines:
                count += 1
                name = f"{made}-{count}"
        self._lines[name] = number
        return name


def _split(line: str) -> tuple[str, str]:
    """Take a line apart: the rule, and what stands behind it."""
    if line.startswith("@"):
        word, *rest = line.split(None, 1)
        if word.lower() == "@reboot":
            raise UsageError("@reboot is no time; let a service run what comes at every start.")
        if word.lower() not in WORDS:
            raise UsageError(f"there is no rule {shown(word)}; there are {', '.join(WORDS)}.")
        return word.lower(), rest[0] if rest else ""
    parts = line.split(None, len(FIELDS))
    if len(parts) < len(FIELDS):
        raise UsageError(
            f"{shown(line)} is neither five fields and a command, nor NAME=value, nor a comment."
        )
    return " ".join(parts[: len(FIELDS)]), parts[len(FIELDS)] if len(parts) > len(FIELDS) else ""


def _without_percents(text: str) -> tuple[str, str | None]:
    """Return the command and its stdin, with percent signs read as cron reads them."""
    found = re.match(r"(?:[^%\\]|\\.|\\$)*", text, re.DOTALL)
    end = found.end() if found else 0
    command = re.sub(r"\\(.)", lambda pair: "%" if pair[1] == "%" else pair[0], text[:end])
    if end == len(text):
        return command, None
    rest = re.sub(r"\\?%", lambda sign: "\n" if sign[0] == "%" else "%", text[end + 1 :])
    return command, rest if rest.endswith("\n") else rest + "\n"


def _with_percents(command: str, stdin: str | None) -> str:
    """Write a command and its stdin as cron reads them."""
    line = command.replace("%", "\\%")
    if stdin is None:
        return line
    return f"{line}%" + stdin.removesuffix("\n").replace("%", "\\%").replace("\n", "%")


def _program(command: str) -> str:
    """Return the name of the program that a command runs, as far as one sees it."""
    words = [word for word in command.split() if not re.match(r"\w+=", word)]
    while words and words[0] in ("cd", "exec", "nice", "sudo", "env", "&&", "time"):
        skipped = 2 if words[0] == "cd" else 1
        words = words[skipped:]
    name = basename(words[0].strip("\"';&|()")) if words else ""
    return re.sub(r"\.(?:sh|py|pl|rb)$", "", name)


def _made_of(text: str) -> str:
    """Make a name of a text."""
    return re.sub(r"[^\w.]+", "-", text.lower())[:LONGEST_MADE].strip("-.")


# -- writing ------------------------------------------------------------------------------


def write_crontab(schedules: Iterable[Schedule], *, home: str) -> str:
    """Write schedules as a crontab, with comments for what it can't say.

    `home` is where cron runs what it runs.
    """
    # Variables hold for all lines below, and none can be unset: who has fewest comes first.
    ordered = sorted(schedules, key=lambda one: (len(_env(one)), one.name))
    writer = _Writer(home)
    for schedule in ordered:
        writer.add(schedule)
    return "\n".join(writer.lines) + "\n" if writer.lines else ""


class _Writer:
    """Writes schedules one after the other, and remembers what holds by now."""

    def __init__(self, home: str) -> None:
        self.lines: list[str] = []
        self._home = home
        self._holds: dict[str, str] = {}

    def add(self, schedule: Schedule) -> None:
        if self.lines:
            self.lines.append("")
        entry = _entry(schedule)
        line = f"{entry.rule} {_with_percents(entry.command, entry.stdin)}"
        why_not = _why_not(schedule, entry, line)
        if why_not is not None:
            text = f"{schedule.name}: {why_not}: {schedule.rule} {entry.command}"
            self.lines.append(f"# not in a crontab: {_one_line(text)}")
            return
        wanted = {ZONE: schedule.zone, **_env(schedule)}
        if entry.shell is not None or SHELL in self._holds:
            wanted[SHELL] = entry.shell or "/bin/sh"
        unsaid = _unsaid(schedule, self._home)
        for name in self._holds.keys() - wanted.keys():
            wanted[name] = ""
            unsaid.append(f"{name} isn't set at all")
        for name, value in wanted.items():
            if self._holds.get(name) != value:
                self.lines.append(f"{name}={_quoted(value)}")
                self._holds[name] = value
        self.lines += [f"# not said: {_one_line(text)}" for text in unsaid]
        self.lines += [f"# {NAMED} {schedule.name}", line]


def _entry(schedule: Schedule) -> Entry:
    """Return the line that says most of a schedule."""
    request = schedule.request
    argv = request.get("argv")
    return Entry(
        line=0,
        name=schedule.name,
        rule=schedule.rule,
        command=str(request.get("command", request.get("cmd"))) if argv is None else join(argv),
        stdin=_stdin(request),
        shell=request.get("shell"),
        env=_env(schedule),
    )


def _env(schedule: Schedule) -> dict[str, str]:
    """Return the variables of its jobs, but for an environment that was kept as a whole."""
    request = schedule.request
    return {} if request.get("env_all") else dict(sorted(request.get("env", {}).items()))


def _stdin(request: Mapping[str, Any]) -> str | None:
    if "stdin_base64" in request:
        return b64decode(request["stdin_base64"]).decode("utf-8", "replace")
    return request.get("stdin")


def _why_not(schedule: Schedule, entry: Entry, line: str) -> str | None:
    """Say why no line of a crontab means a schedule, if none does."""
    if schedule.rule not in WORDS:
        fields = schedule.rule.split()
        if fields[0].lower() == "every":
            return "it counts from when it was added"
        if not all(map(_is_plain, fields)):
            return "cron doesn't know such a rule"
    for name, value in _env(schedule).items():
        if not name.isidentifier() or not _is_kept(value) or name in (ZONE, SHELL, *IGNORED):
            return f"the variable {name} can't be set there"
    try:
        (back,) = read_crontab(f"# {NAMED} {schedule.name}\n{line}").entries
    except (UsageError, ValueError):
        return "it has more than a line can say"
    same = replace(back, line=0, shell=entry.shell, env=entry.env)
    return None if same == entry else "it has more than a line can say"


def _is_plain(field: str) -> bool:
    """Tell whether cron reads a field, and not only we do."""
    without_names = re.sub(r"[a-z]{3}", "0", field, flags=re.IGNORECASE)
    return bool(_PLAIN_FIELD.fullmatch(without_names))


def _is_kept(value: str) -> bool:
    found = _VARIABLE.fullmatch(f"X={_quoted(value)}")
    return found is not None and "\n" not in value


def _quoted(value: str) -> str:
    """Write a value so that it is read as it is."""
    if value == value.strip() and value[:1] not in ('"', "'") and value:
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


_SAID = frozenset("command cmd argv env env_all shell stdin stdin_base64 cwd".split())


def _unsaid(schedule: Schedule, home: str) -> list[str]:
    """Say what of a schedule its line doesn't."""
    request = schedule.request
    found: list[str] = []
    if schedule.paused_at is not None:
        found.append(f"it is paused by {schedule.paused_by}")
    if "argv" in request:
        found.append("it is run without a shell")
    if request.get("env_all"):
        found.append("it has a whole environment of its own")
    if request.get("cwd") not in (None, _env(schedule).get(HOME, home)):
        found.append(f"it runs in {request['cwd']}")
    usual = Schedule(
        name="", rule="", zone="", anchor=0, request={}, done_until=0, created_at=0, updated_at=0
    )
    found += [
        f"{name} is {_shown(name, getattr(schedule, name))}"
        for name in ("missed", "missed_within", "overlap", "jitter", "pause_after")
        if getattr(schedule, name) != getattr(usual, name)
    ]
    found += [f"{n} is {_shown(n, value)}" for n, value in request.items() if n not in _SAID]
    return found


def _shown(name: str, value: Any) -> str:
    if name in ("missed_within", "jitter"):
        return format_duration(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())
