"""What requests about lists say in their query: which jobs, how many, and from where on."""

from typing import TYPE_CHECKING, Any

from queuectl.errors import UsageError, did_you_mean, shown
from queuectl.filter import EventFilter, Filter, due_bounds
from queuectl.job import DUE, State
from queuectl.web import schemas
from queuectl.web.call import Call, text
from queuectl.web.route import Param
from queuectl.when import parse_moment

if TYPE_CHECKING:
    from queuectl.listing import SearchedEvents

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
SEQ: schemas.Json = {"type": "integer", "minimum": 0, "maximum": 2**62}
BEFORE = Param(
    name="before", schema=SEQ, about="Go on to events older than this: what `next` said of a page."
)
NEWER = Param(
    name="after",
    schema=SEQ,
    about="Go back to events newer than this: what `previous` said of a page.",
)
JOB = Param(name="job", schema=schemas.ID, about="Only events of this job, also if it is gone.")
ACTION = Param(name="action", schema=schemas.NAME, about="Only events of this action.")
EVENT_FILTERS = (
    Param(
        name="who",
        schema=schemas.TEXT,
        about="Only events of who has this in the name: a user, or a token.",
    ),
    Param(name="kind", schema=schemas.TEXT, about="Only events of this kind, such as `cancel`."),
    Param(name="text", schema=schemas.TEXT, about="Only events with this in their detail."),
    Param(name="since", schema=schemas.TEXT, about="Only events since: 1h (ago), a time."),
    Param(name="until", schema=schemas.TEXT, about="Only events before."),
)
EVENTS = (JOB, ACTION, *EVENT_FILTERS, BEFORE, NEWER, LIMIT)
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
        name="key",
        schema=schemas.TEXT,
        about="Only jobs with all of these keys, by which limits count.",
        many=True,
    ),
    Param(
        name="group",
        schema=schemas.NAME,
        about="Only jobs of this group; repeatable.",
        many=True,
    ),
    Param(
        name="due",
        schema={"type": "string", "enum": list(DUE)},
        about="Only jobs that wait: for their time (later), or no longer for that (now).",
    ),
    Param(
        name="text",
        schema=schemas.TEXT,
        about="Only jobs with this in their id, command, error or reason.",
    ),
    Param(name="since", schema=schemas.TEXT, about="Only jobs enqueued since: 1h (ago), a time."),
    Param(name="until", schema=schemas.TEXT, about="Only jobs enqueued before."),
)
_SEVERAL = {param.name: f"{param.name}s" for param in FILTERS if param.many}
"""What a `Filter` calls what there may be several of. In a body that will do as well."""
_ONE = {several: name for name, several in _SEVERAL.items()}
FILTER = schemas.takes(
    {},
    {
        param.name: {"anyOf": [param.schema, schemas.array(param.schema)]}
        if param.many
        else param.schema
        for param in FILTERS
    },
)
"""A filter in the body of a request: what a query says, under the same names."""


def filter_of(call: Call) -> Filter:
    """Return which jobs a query means, of those that who asks may see."""
    known = FILTER["properties"]
    return _filter(call, {name: value for name, value in call.query.items() if name in known})


def filter_in(call: Call, said: Any) -> Filter:
    """Return which jobs a filter in the body means."""
    known = FILTER["properties"]
    if not isinstance(said, dict):
        raise UsageError(f"A filter is an object of {', '.join(known)}, not {shown(said)}.")
    asked: dict[str, Any] = said
    for name in asked:
        if name not in known and name not in _ONE:
            hint = did_you_mean(name, known, f"it takes {', '.join(known)}.")
            raise UsageError(f"There is no field {shown(name)} in a filter; {hint}")
    for name in known.keys() - _SEVERAL.keys():
        text(asked, name)
    return _filter(call, {_ONE.get(name, name): value for name, value in asked.items()})


def _filter(call: Call, said: dict[str, Any]) -> Filter:
    now = call.queue.now()
    given = {_SEVERAL.get(name, name): it for name, it in said.items() if it is not None}
    given |= due_bounds(given.pop("due", None), now)
    for name in ("since", "until"):
        if name in given:
            given[name] = parse_moment(given[name], now=now)
    which = call.within(Filter(**given))
    # All of them restrict nothing; the store needn't look at each.
    return which if len(set(which.states)) < len(State) else _without_states(which)


def _without_states(which: Filter) -> Filter:
    from queuectl.values import replace

    return replace(which, states=())


def events_of(call: Call, *, limit: int) -> "SearchedEvents":
    """Return the events that a query means."""
    query = call.query
    if "job" in query and "action" in query:
        raise UsageError("Say either job or action.")
    given = {param.name: query[param.name] for param in EVENT_FILTERS if param.name in query}
    for name in ("since", "until"):
        if name in given:
            given[name] = parse_moment(given[name], now=call.queue.now())
    return call.queue.search_events(
        EventFilter(**given),
        id=query.get("job"),
        action=query.get("action"),
        before=query.get("before"),
        after=query.get("after"),
        limit=limit,
    )


def limit_of(call: Call) -> int:
    """Return how many are wanted."""
    limit: int = call.query.get("limit", USUAL)
    return limit
