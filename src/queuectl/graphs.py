"""Jobs that name each other before they are stored: who names whom, in which order they go.

No clock, no store.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from queuectl.dependencies import parent_text, read_parent, why_unwanted
from queuectl.errors import BadJobError, did_you_mean, shown
from queuectl.parameters import MOST, NAME
from queuectl.request import LONGEST_ID, check_name
from queuectl.values import dataclass

NAMES_SHOWN = 12
"""Jobs of a circle that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A job of a graph that is yet to be stored, as somebody wrote it down."""

    place: str
    """Where, such as `jobs.jsonl, line 3`."""
    fields: Mapping[str, Any]
    """A request, which may have a `name` by which others name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A graph that can be stored: requests in an order in which none comes before its parents."""

    requests: Sequence[dict[str, Any]]
    places: Sequence[str]
    """Where each was written down."""
    names: Mapping[str, str]
    """The ids of those that have a name of their own."""
    outside: Mapping[str, str]
    """Ids of other jobs that some wait for, and where the first of them was written down."""

    def named(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the jobs by their names, where others may stand for them: those of the requests.

        These have the same unique keys.
        """
        instead = {one["id"]: id for one, id in zip(self.requests, ids, strict=False)}
        return {name: instead.get(id, id) for name, id in self.names.items()}


TEMPLATES = ("x-", ".")
"""How names begin under which a file keeps what its jobs take over, and no job."""


def is_template(name: object) -> bool:
    """Tell whether what has this name, in a mapping of names to jobs, is no job."""
    return isinstance(name, str) and name.startswith(TEMPLATES)


def plan(entries: Sequence[Entry], make_ids: Callable[[int], Sequence[str]]) -> Plan:
    """Give jobs that name each other ids, and an order; what can't be is a `BadJobError`."""
    fields = [_plainly(entry) for entry in entries]
    own = _names_of(entries, fields)
    missing = [at for at, one in enumerate(fields) if "id" not in one]
    made = dict(zip(missing, make_ids(len(missing)), strict=True))
    ids = [made.get(at) or fields[at]["id"] for at in range(len(fields))]
    links: list[list[int]] = []
    outside: dict[str, str] = {}
    for at, (entry, one) in enumerate(zip(entries, fields, strict=True)):
        inside: list[int] = []
        after: dict[str, str] = {}
        for named, wanted in map(read_parent, one["after"]):
            other = own.get(named)
            if other == at:
                raise BadJobError(f"{entry.place}: {shown(named)} can't wait for itself.")
            if other is not None:
                inside.append(other)
            elif named not in outside:
                outside[named] = entry.place
            id = named if other is None else ids[other]
            if after.setdefault(id, text := parent_text(id, wanted)) != text:
                raise BadJobError(f"{entry.place}: after names {shown(named)} twice, in two ways.")
        links.append(inside)
        one["id"], one["after"] = ids[at], list(after.values())
        if not after:
            del one["after"]
    called = {at: name for name, at in reversed(own.items())}
    names = {one["name"]: ids[at] for at, one in enumerate(fields) if "name" in one}
    order = in_order(links, lambda at: called.get(at, ids[at]))
    _check_groups(fields, links, lambda at: called.get(at, ids[at]))
    return Plan(
        requests=[with_name(fields[at], has_own_id=at not in made) for at in order],
        places=[entries[at].place for at in order],
        names=names,
        outside=outside,
    )


def check_known(plan: Plan, known: Iterable[str]) -> None:
    """Raise which job that is waited for is neither in a graph nor stored, if one isn't."""
    there = set(known)
    for named, place in plan.outside.items():
        if named not in there:
            before, _, wanted = named.rpartition(":")
            if before in plan.names:
                raise BadJobError(f"{place}: {why_unwanted(before, wanted)}")
            hint = did_you_mean(named, plan.names)
            raise BadJobError(
                f"{place}: there is no job {shown(named)} to wait for, neither here nor in the"
                f" queue{'; ' + hint if hint else '.'}"
            )


def _plainly(entry: Entry) -> dict[str, Any]:
    """Return the fields of an entry, with those that matter here as they are checked."""
    fields = {str(name).strip().replace("-", "_"): it for name, it in entry.fields.items()}
    if "depends_on" in fields:
        if "after" in fields:
            raise BadJobError(f"{entry.place}: after and depends_on say the same; give one.")
        fields["after"] = fields.pop("depends_on")
    try:
        for word in ("id", "name"):
            if fields.get(word) is None:
                fields.pop(word, None)
            else:
                fields[word] = check_name(word, fields[word], longest=LONGEST_ID)
    except BadJobError as error:
        raise BadJobError(f"{entry.place}: {error}") from None
    after = fields.get("after")
    parents = [] if after is None else [after] if isinstance(after, str) else after
    if not isinstance(parents, list | tuple) or not all(isinstance(one, str) for one in parents):
        raise BadJobError(f"{entry.place}: after must be a list of names or ids.")
    fields["after"] = list(parents)
    return fields


def _names_of(entries: Sequence[Entry], fields: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return by which names and ids jobs are known, and which these are."""
    own: dict[str, int] = {}
    for word in ("name", "id"):
        for at, one in enumerate(fields):
            named = one.get(word)
            if named is not None and own.setdefault(named, at) != at:
                other = entries[own[named]].place
                raise BadJobError(
                    f"{entries[at].place}: the {word} {shown(named)} is taken by {other}."
                )
    return own


def _check_groups(
    fields: Sequence[Mapping[str, Any]], links: Sequence[Sequence[int]], name: Callable[[int], str]
) -> None:
    """Raise that jobs wait in a circle by way of groups that some of them are in.

    By way of those that are stored already, the store finds circles.
    """
    if not any("after_group" in one for one in fields):
        return
    groups = list(dict.fromkeys(one["group"] for one in fields if _is_text(one.get("group"))))
    places = {group: len(fields) + at for at, group in enumerate(groups)}
    members: list[list[int]] = [[] for _ in groups]
    ties = [list(some) for some in links]
    is_any_waited_for = False
    for at, one in enumerate(fields):
        if _is_text(one.get("group")):
            members[places[one["group"]] - len(fields)].append(at)
        wanted = one.get("after_group")
        # What is no text is refused when all of the job is read.
        for text in filter(_is_text, wanted if isinstance(wanted, list | tuple) else [wanted]):
            if (place := places.get(read_parent(text)[0])) is not None:
                ties[at].append(place)
                is_any_waited_for = True
    if is_any_waited_for:
        in_order(
            [*ties, *members],
            lambda at: name(at) if at < len(fields) else f"group {groups[at - len(fields)]}",
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def with_name(fields: dict[str, Any], *, has_own_id: bool) -> dict[str, Any]:
    """Return a request of fields; a name by which nothing else knows the job is kept with it."""
    name = fields.pop("name", None)
    own, env = fields.get("parameters"), fields.get("env")
    if name is None or (has_own_id and fields["id"] == name):
        return fields
    # What else they may be is refused when they are read; who sets the variable means that.
    if isinstance(own, Mapping | None) and not (isinstance(env, Mapping) and NAME in env):
        known = own or {}
        if NAME not in known and len(known) < MOST:
            fields["parameters"] = {NAME: name, **known}
    return fields


# -- order ------------------------------------------------------------------------------


def in_order(links: Sequence[Sequence[int]], name: Callable[[int], str]) -> list[int]:
    """Return the places of some things so that each comes after those that its links name.

    Otherwise they stay as they are: of those that could come next, it is the first. Things that
    name each other in a circle are a `BadJobError`, which names them.
    """
    if all(link < at for at, some in enumerate(links) for link in some):
        return list(range(len(links)))
    behind: list[list[int]] = [[] for _ in links]
    left = [0] * len(links)
    for at, some in enumerate(links):
        for link in some:
            behind[link].append(at)
        left[at] = len(some)
    ready = [at for at, count in enumerate(left) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        at = heappop(ready)
        order.append(at)
        for other in behind[at]:
            left[other] -= 1
            if not left[other]:
                heappush(ready, other)
    if len(order) < len(links):
        raise _circular([name(at) for at in _circle(links, left)])
    return order


def _circle(links: Sequence[Sequence[int]], left: Sequence[int]) -> list[int]:
    """Return some things that name each other in a circle, each after one that it names.

    `left` says how many links of each lead to such as can't be put in order.
    """
    at = next(at for at, count in enumerate(left) if count)
    seen: dict[int, int] = {}
    path: list[int] = []
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = next(link for link in links[at] if left[link])
    found = path[seen[at] :][::-1]
    # It begins with the one that was given first, so that it reads as it was written.
    first = found.index(min(found))
    return [*found[first:], *found[:first]]


def _circular(names: Sequence[str]) -> BadJobError:
    shown_names = [*names, names[0]]
    if len(names) > NAMES_SHOWN:
        half = NAMES_SHOWN // 2
        more = f"... {len(names) - 2 * half:,} more ..."
        shown_names = [*names[:half], more, *names[-half:], names[0]]
    return BadJobError(
        f"These jobs wait for each other in a circle, each after the one before it:"
        f" {' -> '.join(shown_names)}; nothing was enqueued.",
        field="after",
    )
