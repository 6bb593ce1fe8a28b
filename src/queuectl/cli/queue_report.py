"""How queues are shown: in a table, and in words."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from queuectl.cli.render import Column, heading, plural, write, write_facts, write_table
from queuectl.limits import WhenFull
from queuectl.when import local, parse_time

if TYPE_CHECKING:
    pass

KEYS_SHOWN = 20
_DROP = {"cancelled": 1, "completed": 2}
"""What is least missed where a terminal is narrow."""
_REFUSED = {
    WhenFull.REJECT: "others are refused",
    WhenFull.DROP_NEWEST: "others are dropped",
    WhenFull.REPLACE_WAITING: "others take the place of one that waits",
    WhenFull.CANCEL_RUNNING: "others take the place of all that run and wait",
}


def write_queues(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table of queues."""
    counts = ("waiting", "running", "completed", "dead", "cancelled")
    limits = [_brief(row) for row in rows]
    columns = [
        Column("QUEUE", least=10),
        *(Column(count.upper(), right=True, drop=_DROP.get(count, 0)) for count in counts),
        Column("PAUSED", least=8),
    ]
    lines = [[row["name"], *(str(row[count]) for count in counts), _paused(row)] for row in rows]
    if any(limits):
        columns.append(Column("LIMITS", least=12, is_sentence=True))
        lines = [[*line, text or "none"] for line, text in zip(lines, limits, strict=True)]
    write_table(columns, lines)


def _paused(row: dict[str, Any]) -> str:
    return f"by {row['paused_by']}" if row["paused"] else "no"


def _brief(row: dict[str, Any]) -> str:
    """Say what a queue allows, and how much of it is used, in a few words."""
    limits = row["limits"]
    parts = []
    if limits["limit"]:
        parts.append(f"{_at_once(row['running'], limits['limit'])} of {limits['limit']} run")
    parts += limits["rates"]
    if limits["key_limit"]:
        parts.append(f"{limits['key_limit']} per key")
    parts += [f"{key} {number}" for key, number in limits["key_limits"].items()][:KEYS_SHOWN]
    parts += [f"{rate} per key" for rate in limits["key_rates"]]
    if limits["max_waiting"]:
        parts.append(f"{row['waiting']} of {limits['max_waiting']} wait")
    return ", ".join(parts)


def write_shown(row: dict[str, Any]) -> None:
    """Print all there is to a queue."""
    heading(f"Queue {row['name']}")
    paused = "no"
    if row["paused"]:
        since = local(parse_time(row["paused_at"], now=0))
        paused = f"by {row['paused_by']} since {since}"
    write_facts(
        [
            ("Paused", paused),
            ("Workers", _workers(row)),
            *((state.capitalize(), f"{n:,}") for state, n in row["states"].items() if n),
        ]
    )
    if facts := limit_facts(row["limits"], row["running"], row["waiting"]):
        write()
        heading("Limits")
        write_facts(facts)
    if row["limits"]["defaults"]:
        write()
        heading("What its jobs get where they say nothing")
        write_facts(default_facts(row["limits"]))
    if row["keys"]:
        write()
        heading("Keys")
        write_table(_KEY_COLUMNS, [_key(key) for key in row["keys"][:KEYS_SHOWN]])
        if len(row["keys"]) > KEYS_SHOWN:
            write(f"and {plural(len(row['keys']) - KEYS_SHOWN, 'other key')}")


def _workers(row: dict[str, Any]) -> str:
    if not row["workers"]:
        return "none serves it"
    return f"{row['workers']} on {plural(len(row['nodes']), 'node')}"


_KEY_COLUMNS = (
    Column("KEY", least=10),
    Column("RUNNING", right=True),
    Column("WAITING", right=True),
    Column("WEIGHT", right=True, drop=1),
)


def _key(key: dict[str, Any]) -> tuple[str, ...]:
    running = _at_once(key["running"], key["limit"])
    limit = f" of {key['limit']}" if key["limit"] else ""
    return key["key"], f"{running}{limit}", f"{key['waiting']:,}", str(key["weight"])


def _at_once(running: int, limit: int | None) -> int:
    """Leave out jobs that a worker has next: they count as running, but take no slot."""
    return running if limit is None else min(running, limit)


def limit_facts(
    limits: dict[str, Any], running: int | None = None, waiting: int | None = None
) -> list[tuple[str, str | None]]:
    """Say what a queue allows, line by line, and how much of it is used where that is told."""
    if running is not None:
        running = _at_once(running, limits["limit"])
    facts = [
        ("Limit", _of(limits["limit"], running, "at once")),
        ("Rates", ", ".join(limits["rates"])),
        ("Each key", _of(limits["key_limit"], None, "at once")),
        ("Some keys", _some(limits["key_limits"])),
        ("Rates of each key", ", ".join(limits["key_rates"])),
        ("Weights", _some(limits["weights"])),
        ("Waiting", _of(limits["max_waiting"], waiting, "at most")),
        ("When full", _when_full(limits)),
    ]
    return [(name, text) for name, text in facts if text]


def _some(of_keys: dict[str, int]) -> str:
    """Say what was set for keys, of very many for some."""
    named = [f"{key} {n:,}" for key, n in islice(of_keys.items(), KEYS_SHOWN)]
    more = len(of_keys) - len(named)
    return ", ".join(named) + (f" and {plural(more, 'other key')}" if more else "")


def _of(most: int | None, used: int | None, how: str) -> str:
    if most is None:
        return ""
    return f"{most:,} {how}" if used is None else f"{used:,} of {most:,} {how}"


def _when_full(limits: dict[str, Any]) -> str:
    if limits["when_full"] is None and limits["max_waiting"] is None:
        return ""
    when_full = WhenFull(limits["when_full"] or WhenFull.REJECT)
    return when_full.value if when_full is WhenFull.WAIT else f"{when_full} ({_REFUSED[when_full]})"


def default_facts(limits: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Say what jobs of a queue get where they say nothing, line by line."""
    return [
        (name.replace("_", " ").capitalize(), "none" if value == "0s" else str(value))
        for name, value in limits["defaults"].items()
    ]
