"""A store and a plain model live through random histories in which clients and nodes crash.

Here the model in `tests/contract/toy/` is the judge, not the ledger: it knows what every verb
of the store must answer, so the verbs are what this campaign uses. Everything is compared after
every step. Clients are killed with SIGKILL in a process of their own: in a transaction, while they
commit, or right after it. Connections are cut around COMMIT and in the middle of transactions.
Nodes lose their lease and are rescued, and go on as if nothing had happened. Requests are sent
again by those who don't know what became of them, and stores are closed and opened again.
"""

from collections import Counter
from contextlib import ExitStack, closing

from hypothesis import HealthCheck, Phase, seed, settings

from tests.contract.crashes import live_through
from tests.contract.places import Place, ServerPlace, SqlitePlace
from tests.contract.victim import Victims
from tests.faults.arena import Arena
from tests.faults.campaign import POSTGRES, SQLITE, campaign


@campaign(
    row=16,
    about="random histories of a store and of a model in plain Python, with crashes and restarts",
    goal="0 differences",
    trials="histories",
    short={"histories": 10, "steps": 40},
    long={"histories": 2_000, "steps": 60},
)
def histories(arena: Arena, *, histories: int, steps: int) -> None:
    """Live through histories of up to so many steps until one differs, or all are over."""
    seen: Counter[str] = Counter(histories=0, steps=0)
    difference = ""
    with ExitStack() as stack:
        place = stack.enter_context(closing(place_of(arena)))
        victims = stack.enter_context(closing(Victims()))
        run = live_through([place], victims, length=steps, seen=seen)
        # The seed tells where it fails, so nothing is made shorter or remembered.
        chosen = settings(
            max_examples=histories,
            database=None,
            deadline=None,
            derandomize=False,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        try:
            seed(arena.random.randrange(2**32))(chosen(run))()
        except AssertionError as error:
            difference = str(error)
    arena.report.note(**seen, differences=int(bool(difference)))
    arena.report.expect(not difference, difference)
    arena.report.expect(difference or seen["histories"] >= histories, "too few histories were run")


def place_of(arena: Arena) -> Place:
    """Return a place for a store of its own, beside the arena's."""
    if arena.store == SQLITE:
        return SqlitePlace(arena.folder)
    name = "schema=histories" if arena.store == POSTGRES else "prefix=histories_"
    return ServerPlace(arena.store, f"{arena.url}?{name}")
