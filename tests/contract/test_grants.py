"""What a store promises about grants: who is let in, once, and until when."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier
from typing import Any, TypeVar

import pytest

from queuectl.access import Grant, Kind, Role
from queuectl.errors import DuplicateError
from queuectl.facts import Event
from queuectl.store import Store, open_store
from queuectl.values import replace
from tests.contract.tools import DAY, HOUR, MINUTE, NOW, Client

T = TypeVar("T")
ALL = Grant(
    id="id-1",
    kind=Kind.TOKEN,
    name="name-2",
    digest="digest 3",
    roles=(Role.VIEW, Role.SUBMIT),
    created_at=4,
    created_by="who 5 ü",
    queues=("queue-6", "ü 'q' \"7\""),
    expires_at=NOW + 8,
    used_at=9,
    parent="parent 10",
)
EVENT = Event(at=NOW, kind="token-add", job=None, node=None, who="me", detail="so")


def a_grant(store: Store, id: str, kind: Kind = Kind.SESSION, **changes: Any) -> Grant:
    """Keep a grant."""
    grant = made(id, kind, **changes)
    store.grants.add(grant, now=NOW)
    return grant


def made(id: str, kind: Kind = Kind.SESSION, **changes: Any) -> Grant:
    """Make a grant."""
    given: dict[str, Any] = {
        "name": f"name of {id}",
        "digest": f"digest of {id}",
        "roles": (Role.VIEW,),
        "created_at": NOW,
        "created_by": "somebody",
    }
    return Grant(id=id, kind=kind, **given | changes)


def ids(store: Store) -> list[str]:
    return [grant.id for grant in store.grants.all()]


def at_once(store: Store, url: str, actions: list[Callable[[Store], T]]) -> list[T]:
    """Do several things in as many clients at the same time."""
    stores = [store, *(open_store(url) for _ in actions[1:])]
    barrier = Barrier(len(actions))

    def do(action: Callable[[Store], T], store: Store) -> T:
        barrier.wait()
        return action(store)

    with ThreadPoolExecutor(len(actions)) as pool:
        done = list(pool.map(do, actions, stores))
    for other in stores[1:]:
        other.close()
    return done


def exchange(was: Grant, grant: Grant) -> Callable[[Store], bool]:
    return lambda store: store.grants.exchange(was, grant)


def removal(id: str) -> Callable[[Store], bool]:
    return lambda store: bool(store.grants.remove(id))


class TestAdd:
    def test_everything_comes_back(self, store: Store) -> None:
        store.grants.add(ALL, now=NOW)
        assert store.grants.all() == [ALL]
        assert store.grants.find("digest 3") == store.grants.get("id-1") == ALL

    def test_what_may_be_missing_may(self, store: Store) -> None:
        session = a_grant(store, "a")
        assert store.grants.all() == [session]
        assert (session.queues, session.expires_at, session.used_at) == ((), None, None)

    def test_what_is_not_there_is_not_found(self, store: Store) -> None:
        a_grant(store, "a")
        assert store.grants.find("digest of b") is None
        assert store.grants.find("DIGEST OF A") is None
        assert store.grants.find("digest of a ") is None
        assert store.grants.get("b") is None
        assert store.grants.get("A") is None

    def test_the_oldest_come_first(self, store: Store) -> None:
        for id, at in (("c", 2), ("a", 3), ("b", 1), ("d", 2)):
            a_grant(store, id, created_at=at)
        assert ids(store) == ["b", "c", "d", "a"]

    def test_an_event_is_kept_of_it(self, store: Store) -> None:
        store.grants.add(ALL, now=NOW, event=EVENT)
        assert store.history.events() == [EVENT]

    def test_no_two_tokens_have_one_name(self, store: Store) -> None:
        first = a_grant(store, "a", Kind.TOKEN, name="ci")
        with pytest.raises(DuplicateError, match="ci"):
            store.grants.add(made("b", Kind.TOKEN, name="ci"), now=NOW, event=EVENT)
        assert store.grants.all() == [first]
        assert store.history.events() == []
        other = a_grant(store, "c", Kind.TOKEN, name="CI")
        assert store.grants.all() == [first, other]

    def test_sessions_and_links_may_have_any(self, store: Store) -> None:
        for id, kind in enumerate((Kind.TOKEN, Kind.SESSION, Kind.SESSION, Kind.LINK, Kind.LINK)):
            a_grant(store, str(id), kind, name="ci")
        assert ids(store) == ["0", "1", "2", "3", "4"]

    @pytest.mark.needs("transactions")
    def test_of_two_at_a_time_one_gets_the_name(self, store: Store, url: str) -> None:
        def add(id: str) -> Callable[[Store], str | None]:
            def do(store: Store) -> str | None:
                try:
                    store.grants.add(made(id, Kind.TOKEN, name="ci"), now=NOW)
                except DuplicateError:
                    return None
                return id

            return do

        added = at_once(store, url, [add(id) for id in "abcd"])
        assert [id for id in added if id is not None] == ids(store)
        assert len(ids(store)) == 1


class TestTime:
    def test_those_that_are_over_are_there_until_another_is_added(self, store: Store) -> None:
        a_grant(store, "a", expires_at=NOW + HOUR)
        a_grant(store, "b", expires_at=NOW + HOUR + 1)
        a_grant(store, "c")
        assert ids(store) == ["a", "b", "c"]
        store.grants.add(made("d", expires_at=NOW), now=NOW + HOUR)
        # One that was over before it was added is so all the same.
        assert ids(store) == ["b", "c", "d"]

    def test_the_name_of_a_token_that_is_over_is_free(self, store: Store) -> None:
        a_grant(store, "a", Kind.TOKEN, name="ci", expires_at=NOW + HOUR)
        store.grants.add(made("b", Kind.TOKEN, name="ci"), now=NOW + HOUR)
        assert ids(store) == ["b"]

    def test_use_is_noted(self, store: Store) -> None:
        a_grant(store, "a")
        other = a_grant(store, "b")
        store.grants.touch("a", NOW + 3)
        assert [grant.used_at for grant in store.grants.all()] == [NOW + 3, None]
        store.grants.touch("a", NOW + 2)
        store.grants.touch("nobody", NOW + 2)
        assert [grant.used_at for grant in store.grants.all()] == [NOW + 3, None]
        assert store.grants.get("b") == other


class TestExchange:
    def test_another_takes_its_place(self, store: Store) -> None:
        link = a_grant(store, "link", Kind.LINK)
        rest = a_grant(store, "rest", created_at=NOW + 1)
        session = replace(ALL, kind=Kind.SESSION)
        assert store.grants.exchange(link, session, event=EVENT)
        assert store.grants.all() == [session, rest]
        assert store.grants.find(link.digest) is None
        assert store.history.events() == [EVENT]

    def test_once(self, store: Store) -> None:
        link = a_grant(store, "link", Kind.LINK)
        assert store.grants.exchange(link, made("a"))
        assert not store.grants.exchange(link, made("b"), event=EVENT)
        assert ids(store) == ["a"]
        assert store.history.events() == []

    def test_not_for_one_that_is_gone(self, store: Store) -> None:
        link = a_grant(store, "link", Kind.LINK)
        store.grants.remove("link")
        assert not store.grants.exchange(link, made("a"), left=made("b"))
        assert ids(store) == []

    def test_something_of_it_may_be_left(self, store: Store) -> None:
        session = a_grant(store, "session", parent="token")
        renewed = replace(session, digest="digest 2", created_at=NOW + 2)
        left = replace(session, id="former", parent="session", expires_at=NOW + MINUTE)
        assert store.grants.exchange(session, renewed, left=left)
        assert store.grants.all() == [left, renewed]
        # Who comes with the secret of before gets no third.
        assert not store.grants.exchange(session, replace(session, digest="digest 3"))
        assert store.grants.all() == [left, renewed]

    @pytest.mark.needs("transactions")
    def test_of_two_at_a_time_only_one_gets_something(self, store: Store, url: str) -> None:
        for n in range(5):
            link = a_grant(store, f"link {n}", Kind.LINK)
            names = [f"{n} {who}" for who in "abcd"]
            got = at_once(store, url, [exchange(link, made(id)) for id in names])
            assert got.count(True) == 1
            assert [id for id in ids(store) if id.startswith(f"{n} ")] == [names[got.index(True)]]

    @pytest.mark.needs("transactions")
    def test_one_that_is_removed_meanwhile_is_gone(self, store: Store, url: str) -> None:
        for n in range(5):
            session = a_grant(store, f"session {n}")
            renewed = replace(session, digest=f"digest {n}")
            at_once(store, url, [exchange(session, renewed), removal(session.id)])
            assert ids(store) == []


class TestRemove:
    def test_one_goes(self, store: Store) -> None:
        one, rest = a_grant(store, "a"), a_grant(store, "b")
        assert store.grants.remove("a", event=EVENT) == [one]
        assert store.grants.all() == [rest]
        assert store.history.events() == [EVENT]

    def test_and_all_that_was_derived_from_it(self, store: Store) -> None:
        token = a_grant(store, "token", Kind.TOKEN)
        sessions = [a_grant(store, f"s{n}", parent="token", created_at=NOW + n) for n in range(3)]
        former = a_grant(store, "former", parent="s1")
        rest = a_grant(store, "rest", parent="another")
        assert store.grants.remove("token") == [token, *sessions, former]
        assert store.grants.all() == [rest]

    def test_but_not_what_that_was_derived_from(self, store: Store) -> None:
        token = a_grant(store, "token", Kind.TOKEN)
        session = a_grant(store, "session", parent="token")
        assert store.grants.remove("session") == [session]
        assert store.grants.all() == [token]

    def test_what_is_not_there_leaves_no_event(self, store: Store) -> None:
        rest = a_grant(store, "a")
        assert store.grants.remove("A", event=EVENT) == []
        assert store.grants.all() == [rest]
        assert store.history.events() == []

    def test_the_name_is_free_again(self, store: Store) -> None:
        a_grant(store, "a", Kind.TOKEN, name="ci")
        store.grants.remove("a")
        a_grant(store, "b", Kind.TOKEN, name="ci")
        assert ids(store) == ["b"]


class TestOthers:
    def test_another_client_sees_it(self, store: Store, other: Store) -> None:
        grant = a_grant(store, "a", expires_at=NOW + DAY)
        assert other.grants.all() == [grant]
        other.grants.touch("a", NOW)
        assert store.grants.get("a") == replace(grant, used_at=NOW)

    def test_a_role_that_nobody_knows_allows_nothing(self, store: Store, client: Client) -> None:
        a_grant(store, "a", roles=(Role.VIEW, Role.ADMIN))
        client.run("UPDATE {grants} SET roles = ?", "root,view,")
        (grant,) = store.grants.all()
        assert grant.roles == (Role.VIEW,)

    @pytest.mark.needs("transactions")
    def test_it_is_part_of_a_transaction(self, store: Store) -> None:
        def fail() -> None:
            a_grant(store, "a")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.transact(fail)
        assert store.grants.all() == []

    @pytest.mark.needs("transactions")
    def test_a_name_that_is_taken_leaves_the_rest_of_a_transaction(self, store: Store) -> None:
        def add() -> None:
            a_grant(store, "a", Kind.TOKEN, name="ci")
            with pytest.raises(DuplicateError):
                a_grant(store, "b", Kind.TOKEN, name="ci")

        store.transact(add)
        assert ids(store) == ["a"]

    def test_the_secret_itself_is_nowhere(self, store: Store, client: Client, url: str) -> None:
        from queuectl import Queue

        with closing(Queue(url)) as queue:
            _, secret = queue.access.add_token("ci", "view")
        rows = client.run("SELECT * FROM {grants}") + client.run("SELECT * FROM {events}")
        assert len(rows) == 2
        assert secret not in repr(rows)
