"""What requests about lists say in their query: which jobs, how many, and from where on."""

from typing import Any

from queuectl.errors import UsageError, shown
from queuectl.filter import Filter
from queuectl.job import State
from queuectl.web import schemas
from queuectl.web.call import Call, text
from queuectl.web.route import Param
from queuectl.when import parse_moment

MOST = 1_000
"""Items of a page at most."""
USUAL = 50

LIMIT = Param(
    name="limit",
    schema={"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
    about=f"How many at most: up to {MOST:,}.",
)
AFTER = Param(
    name="after", schema=schemas.ID, about="Go on behind this one: what `next` said of a page."
)
FILTERS = (
    Param(
        name="state", schema=schemas.STATE, about="Only jobs in this state; repeatable.", many=True
    ),
    Param(
        name="queue", schema=schemas.NAME, about="Only jobs of this queue; repeatable.", many=True
    ),
    Param(name="tag", schema=schemas.NAME, about="Only jobs with all of these tags.", many=True),
    Param(
        name="type",
        schema=schemas.TEXT,
        about="Only data jobs and tasks of this type; repeatable.",
        many=True,
    ),
    Param(
        name="text",
        schema=schemas.TEXT,
        about="Only jobs with this in their id, command, error or reason.",
    ),
    Param(name="since", schema=schemas.TEXT, about="Only jobs enqueued since: 1h (ago), a time."),
    Param(name="until", schema=schemas.TEXT, about="Only jobs enqueued before."),
)
_NAMES = {"state": "states", "queue": "queues", "tag": "tags", "type": "types"}
FILTER = schemas.takes(
    {},
    {
        **{name: schemas.array(schemas.NAME) for name in ("states", "queues", "tags")},
        "states": schemas.array(schemas.STATE),
        "types": schemas.array(schemas.TEXT),
        "text": schemas.TEXT,
        "since": schemas.TEXT,
        "until": schemas.TEXT,
    },
)
"""A filter in the body of a request."""


def filter_of(call: Call) -> Filter:
    """Return which jobs a query means, of those that who asks may see."""
    said = {_NAMES.get(name, name): value for name, value in call.query.items()}
    return _filter(call, {name: said[name] for name in said if name in FILTER["properties"]})


def filter_in(call: Call, said: Any) -> Filter:
    """Return which jobs a filter in the body means."""
    if not isinstance(said, dict) or not said.keys() <= FILTER["properties"].keys():
        known = ", ".join(FILTER["properties"])
        raise UsageError(f"A filter is an object of {known}, not {shown(said)}.")
    for name in ("text", "since", "until"):
        text(said, name)
    return _filter(call, said)


def _filter(call: Call, said: dict[str, Any]) -> Filter:
    now = call.queue.now()
    given = {name: value for name, value in said.items() if value is not None}
    for name in ("since", "until"):
        if name in given:
            given[name] = parse_moment(given[name], now=now)
    which = call.within(Filter(**given))
    # All of them restrict nothing; the store needn't look at each.
    return which if len(set(which.states)) < len(State) else _without_states(which)


def _without_states(which: Filter) -> Filter:
    from queuectl.values import replace

    return replace(which, states=())


def limit_of(call: Call) -> int:
    """Return how many are wanted."""
    limit: int = call.query.get("limit", USUAL)
    return limit
