"""Tokens, sessions and links: `queue.access`."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from queuectl import Queue
from queuectl.access import Grant, Kind, Role, digest_of, new_secret
from queuectl.errors import (
    BadTimeError,
    DuplicateError,
    NotFoundError,
    StoreReadOnlyError,
    UsageError,
)
from queuectl.grants import DEEPEST, Access
from queuectl.host import acting_as, whoami
from queuectl.store.sqlite.driver import HostClock
from queuectl.values import replace
from queuectl.when import DAY, HOUR, LATEST, MINUTE, SECOND

NOW = 1_762_606_800_000
"""2025-11-08T13:00:00Z."""


class StillClock(HostClock):
    """A clock that stands where it is put."""

    at = NOW

    def now(self) -> int:
        return self.at


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with Queue(str(tmp_path / "queue.db")) as queue:
        yield queue


@pytest.fixture
def clock(queue: Queue) -> StillClock:
    """The clock of the queue."""
    store: Any = queue.store
    store.clock = store.db.driver.clock = clock = StillClock()
    return clock


@pytest.fixture
def access(queue: Queue, clock: StillClock) -> Access:
    return queue.access


def told(queue: Queue) -> list[tuple[str, str | None]]:
    """Return the events, oldest first."""
    return [(event.kind, event.detail) for event in reversed(queue.events())]


def held(access: Access, secret: str) -> str | None:
    """Return the name of who has a secret."""
    known = access.known(secret)
    return None if known is None else known.name


class TestTokens:
    def test_one_is_added_with_a_secret_that_is_kept_nowhere(
        self, access: Access, queue: Queue
    ) -> None:
        token, secret = access.add_token("ci", "submit,view", queues=["mail", "slow", "mail"])
        assert (token.kind, token.name, token.roles) == (Kind.TOKEN, "ci", (Role.VIEW, Role.SUBMIT))
        assert token.queues == ("mail", "slow")
        assert (token.created_at, token.created_by) == (NOW, whoami())
        assert (token.expires_at, token.used_at, token.parent) == (None, None, None)
        assert token.digest == digest_of(secret)
        assert access.tokens() == [token]
        assert told(queue) == [("token-add", "ci: view, submit in mail, slow")]
        assert secret not in repr((token, queue.events()))

    @pytest.mark.parametrize(
        ("expires", "at"),
        [
            ("90d", NOW + 90 * DAY),
            ("90", NOW + 90 * SECOND),
            (1.5, NOW + 1_500),
            (timedelta(days=2), NOW + 2 * DAY),
            ("2026-01-01T00:00:00Z", 1_767_225_600_000),
            (datetime(2026, 1, 1, tzinfo=UTC), 1_767_225_600_000),
            ("+1h", NOW + HOUR),
            (None, None),
        ],
    )
    def test_it_ends_at_a_time(self, access: Access, expires: Any, at: int | None) -> None:
        token, _ = access.add_token("ci", "view", expires=expires)
        assert token.expires_at == at
        assert access.tokens() == [token]

    def test_the_event_says_when(self, access: Access, queue: Queue) -> None:
        access.add_token("ci", "admin", expires="1h")
        assert told(queue) == [("token-add", "ci: admin, until 2025-11-08T14:00:00.000Z")]

    @pytest.mark.parametrize(
        "expires",
        ["0", 0, "2025-11-08T12:59:59Z", "2025-11-08T13:00:00Z", datetime(2020, 1, 1), "yesterday"],
    )
    def test_not_at_one_that_has_been(self, access: Access, expires: Any) -> None:
        with pytest.raises(UsageError, match="can't end at a time that has been"):
            access.add_token("ci", "view", expires=expires)
        assert access.tokens() == []

    @pytest.mark.parametrize("expires", ["soon", "", "-1h", True, -3, [], "200y"])
    def test_not_at_what_is_no_time(self, access: Access, expires: Any) -> None:
        with pytest.raises(UsageError):
            access.add_token("ci", "view", expires=expires)

    @pytest.mark.parametrize(
        ("name", "roles", "queues", "said"),
        [
            ("a b", "view", [], "A token can't be called 'a b'"),
            ("ci", "viewer", [], "There is no role 'viewer'"),
            ("ci", [], [], "A role must be said"),
            ("ci", "view", [""], "queue is empty"),
            ("ci", "view", ["a\n"], "queue must be printable"),
            ("ci", "view", "mail", "queues takes several names"),
        ],
    )
    def test_what_can_not_be_is_refused(
        self, access: Access, queue: Queue, name: str, roles: str, queues: list[str], said: str
    ) -> None:
        with pytest.raises(UsageError, match=said):
            access.add_token(name, roles, queues=queues)
        assert (access.tokens(), told(queue)) == ([], [])

    def test_a_name_is_taken_once(self, access: Access, queue: Queue) -> None:
        access.add_token("ci", "view")
        with pytest.raises(DuplicateError, match="There is a token 'ci' already"):
            access.add_token("ci", "admin")
        assert len(told(queue)) == 1
        access.remove_token("ci")
        access.add_token("ci", "admin")

    def test_they_come_by_name(self, access: Access) -> None:
        for name in "bca":
            access.add_token(name, "view")
        access.link("x", "view")
        assert [token.name for token in access.tokens()] == ["a", "b", "c"]

    def test_one_goes_with_all_who_signed_in_with_it(self, access: Access, queue: Queue) -> None:
        token, secret = access.add_token("ci", "view")
        other = access.sign_in(access.add_token("other", "view")[1])
        mine = access.sign_in(secret)
        assert mine is not None and other is not None
        assert access.remove_token("ci") == [replace(token, used_at=NOW), mine[0]]
        assert [held(access, one) for one in (secret, mine[1], other[1])] == [None, None, "other"]
        assert told(queue)[-1] == ("token-rm", "ci")

    def test_one_that_is_not_there_can_not_go(self, access: Access, queue: Queue) -> None:
        access.add_token("deploy", "view")
        access.link("deplo", "view")
        with pytest.raises(NotFoundError) as error:
            access.remove_token("deplo")
        assert error.value.advised == "There is no token 'deplo'; did you mean 'deploy'?"
        with pytest.raises(NotFoundError, match="There is no token 'x'"):
            access.remove_token("x")
        assert len(told(queue)) == 2


class TestMakers:
    """A token that somebody makes who has one themselves."""

    def test_it_ends_no_later(self, access: Access) -> None:
        maker, secret = access.add_token("boss", "admin", expires="1h")
        assert access.add_token("a", "view", maker=maker)[0].expires_at == NOW + HOUR
        assert access.add_token("b", "view", expires="5m", maker=maker)[0].expires_at is not None
        with pytest.raises(UsageError, match="It can be good until 2025-11-08T14:00:00"):
            access.add_token("c", "view", expires="2h", maker=maker)
        made = access.sign_in(secret)
        assert made is not None
        rotated = access.rotate(made[0])
        assert rotated is not None
        former = access.known(made[1])
        for session in (rotated[0], former):
            token, _ = access.add_token(f"of-{session and session.id}", "view", maker=session)
            assert token.expires_at == NOW + HOUR

    def test_who_came_by_a_link_has_no_end_to_pass_on(self, access: Access) -> None:
        made = access.sign_in(access.link("ann", "admin"))
        assert made is not None
        assert access.add_token("a", "view", maker=made[0])[0].expires_at is None
        boss, _ = access.add_token("boss", "admin")
        assert access.add_token("b", "view", maker=boss)[0].expires_at is None

    def test_a_token_has_so_many_sessions_at_a_time(
        self, access: Access, clock: StillClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("queuectl.grants.MOST_SESSIONS", 3)
        _, secret = access.add_token("ci", "view")
        _, other = access.add_token("other", "view")
        assert access.sign_in(other) is not None
        ids = []
        for number in range(5):
            clock.at = NOW + number
            made = access.sign_in(secret)
            assert made is not None
            ids.append(made[0].id)
        there = {one.id for one in access.sessions() if one.name == "ci"}
        assert there == set(ids[2:])
        assert [one.name for one in access.sessions()].count("other") == 1


class TestKnown:
    def test_by_its_secret(self, access: Access) -> None:
        token, secret = access.add_token("ci", "view")
        assert access.known(secret) == replace(token, used_at=NOW)
        for wrong in (secret[:-1], secret + "x", secret.swapcase(), "", new_secret(Kind.TOKEN)):
            assert access.known(wrong) is None
        assert access.known("qtl_\udcff") is None
        assert access.known("qtl_" + "x" * 10_000_000) is None

    def test_only_as_what_is_asked_for(self, access: Access) -> None:
        _, secret = access.add_token("ci", "view")
        link = access.link("me", "view")
        signed_in = access.sign_in(secret)
        assert signed_in is not None
        secrets = {Kind.TOKEN: secret, Kind.LINK: link, Kind.SESSION: signed_in[1]}
        for kind in Kind:
            for other, one in secrets.items():
                assert (access.known(one, [kind]) is not None) == (kind == other)
        assert [held(access, one) for one in secrets.values()] == ["ci", None, "ci"]

    def test_until_its_time_is_over(self, access: Access, clock: StillClock) -> None:
        _, secret = access.add_token("ci", "view", expires="1h")
        clock.at = NOW + HOUR - 1
        assert held(access, secret) == "ci"
        clock.at = NOW + HOUR
        assert held(access, secret) is None
        assert [token.name for token in access.tokens()] == ["ci"]

    def test_that_it_was_used_is_noted_once_a_minute(
        self, access: Access, clock: StillClock
    ) -> None:
        _, secret = access.add_token("ci", "view")
        seen = []
        for passed in (0, 1, MINUTE - 1, MINUTE, MINUTE + 1, 3 * MINUTE):
            clock.at = NOW + passed
            known = access.known(secret)
            assert known is not None and known == access.tokens()[0]
            seen.append(known.used_at)
        noted = [0, 0, 0, MINUTE, MINUTE, 3 * MINUTE]
        assert seen == [NOW + passed for passed in noted]

    def test_who_may_only_read_the_queue_knows_as_well(
        self, access: Access, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, secret = access.add_token("ci", "view")

        def refuse(id: str, at: int) -> None:
            raise StoreReadOnlyError("no")

        monkeypatch.setattr(queue.store.grants, "touch", refuse)
        assert held(access, secret) == "ci"

    def test_what_is_derived_from_itself_is_not_good(self, access: Access, queue: Queue) -> None:
        for length in (1, 2, DEEPEST + 1):
            secrets = [new_secret(Kind.SESSION) for _ in range(length)]
            for n, secret in enumerate(secrets):
                grant = Grant(
                    id=f"{length} {n}",
                    kind=Kind.SESSION,
                    name="x",
                    digest=digest_of(secret),
                    roles=(Role.VIEW,),
                    created_at=NOW,
                    created_by="x",
                    parent=f"{length} {(n + 1) % length}",
                )
                queue.store.grants.add(grant, now=NOW)
            assert [held(access, secret) for secret in secrets] == [None] * length
        assert access.sessions() == []


class TestSigningIn:
    def test_by_a_link_once(self, access: Access, queue: Queue) -> None:
        link = access.link("ann@home", ["operate"], queues=["mail"])
        signed_in = access.sign_in(link, lasting="2h")
        assert signed_in is not None
        session, secret = signed_in
        assert (session.kind, session.name, session.roles, session.queues) == (
            Kind.SESSION,
            "ann@home",
            (Role.OPERATE,),
            ("mail",),
        )
        assert (session.created_at, session.expires_at) == (NOW, NOW + 2 * HOUR)
        assert session.created_by == f"ann@home via {whoami()}"
        assert session.parent is None
        assert access.sessions() == [session]
        assert held(access, secret) == "ann@home"
        assert access.sign_in(link) is None
        assert told(queue) == [
            ("link", "ann@home: operate in mail, until 2025-11-08T13:15:00.000Z"),
            ("sign-in", "ann@home: operate in mail, until 2025-11-08T15:00:00.000Z"),
        ]
        assert queue.events()[0].who == f"ann@home via {whoami()}"

    def test_by_a_token_again_and_again(self, access: Access) -> None:
        token, secret = access.add_token("ci", "view,submit", queues=["mail"])
        made = [access.sign_in(secret, lasting=timedelta(minutes=3)) for _ in range(3)]
        sessions = [one[0] for one in made if one is not None]
        assert {(s.name, s.roles, s.queues, s.parent, s.expires_at) for s in sessions} == {
            ("ci", token.roles, ("mail",), token.id, NOW + 3 * MINUTE)
        }
        assert len({session.digest for session in sessions}) == 3
        assert sorted(access.sessions(), key=str) == sorted(sessions, key=str)

    def test_it_lasts_no_longer_than_the_token(self, access: Access) -> None:
        _, secret = access.add_token("ci", "view", expires="1h")
        for lasting, end in (("59m", NOW + 59 * MINUTE), ("2h", NOW + HOUR)):
            made = access.sign_in(secret, lasting=lasting)
            assert made is not None
            assert made[0].expires_at == end

    def test_a_link_is_good_for_a_while(self, access: Access, clock: StillClock) -> None:
        late, soon = access.link("a", "view", good_for="1h"), access.link("b", "view")
        clock.at = NOW + HOUR
        assert access.sign_in(late) is None
        clock.at = NOW + 15 * MINUTE - 1
        assert access.sign_in(soon) is not None

    def test_nothing_else_is_good_for_it(self, access: Access) -> None:
        made = access.sign_in(access.link("a", "view"))
        assert made is not None
        assert access.sign_in(made[1]) is None
        for wrong in ("", "x", new_secret(Kind.LINK), new_secret(Kind.TOKEN)):
            assert access.sign_in(wrong) is None
        assert len(access.sessions()) == 1

    @pytest.mark.parametrize("lasting", ["0", -1, "367d", "x", None])
    def test_spans_that_can_not_be(self, access: Access, lasting: Any) -> None:
        link = access.link("a", "view")
        with pytest.raises(UsageError):
            access.sign_in(link, lasting=lasting)
        with pytest.raises(UsageError):
            access.link("a", "view", good_for=lasting)
        assert access.sign_in(link) is not None

    @pytest.mark.parametrize("name", ["", " ", "a\nb", "a\0", "x" * 200, 3])
    def test_names_that_can_not_be(self, access: Access, name: Any) -> None:
        with pytest.raises(UsageError):
            access.link(name, "view")

    def test_what_became_of_a_link_is_known_for_a_while(
        self, access: Access, clock: StillClock
    ) -> None:
        used, late = access.link("a", "view"), access.link("b", "view", good_for="30m")
        good, gone = access.link("c", "view", good_for="1d"), new_secret(Kind.LINK)
        _, token = access.add_token("t", "view", expires="30m")
        made = access.sign_in(used)
        assert made is not None
        assert access.known(used, (Kind.LINK,)) is None
        clock.at += HOUR - 1
        # Whoever signs in meanwhile doesn't have it forgotten.
        assert access.sign_in(good) is not None
        assert access.sign_in(access.link("d", "view")) is not None
        found = [access.refusal(one) for one in (used, late, token, good, gone, made[1], "")]
        assert found == ["used", "expired", "expired", "used", "wrong", "wrong", "wrong"]
        clock.at += HOUR
        access.link("e", "view")
        assert [access.refusal(one) for one in (used, late)] == ["wrong", "wrong"]

    def test_of_many_who_have_one_link_one_gets_in(self, access: Access) -> None:
        link = access.link("a", "view")
        got: list[object] = []
        threads = [Thread(target=lambda: got.append(access.sign_in(link))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one is None for one in got].count(False) == 1
        assert len(access.sessions()) == 1


class TestSessions:
    @pytest.fixture
    def signed_in(self, access: Access) -> tuple[Grant, str]:
        made = access.sign_in(access.link("ann", "view"))
        assert made is not None
        return made

    def test_one_ends(self, access: Access, queue: Queue, signed_in: tuple[Grant, str]) -> None:
        session, secret = signed_in
        assert access.remove_session(session.id) == session
        assert (held(access, secret), access.sessions()) == (None, [])
        assert told(queue)[-1] == ("sign-out", f"ann: session {session.id}")
        with pytest.raises(NotFoundError, match="There is no session"):
            access.remove_session(session.id)

    def test_a_token_is_no_session(self, access: Access) -> None:
        token, _ = access.add_token("ci", "view")
        with pytest.raises(NotFoundError):
            access.remove_session(token.id)

    def test_those_of_somebody_or_all_end(self, access: Access) -> None:
        _, secret = access.add_token("ci", "view")
        for one in (secret, secret, access.link("ann", "view"), access.link("bob", "view")):
            access.sign_in(one)
        assert access.remove_sessions("nobody") == []
        assert [session.name for session in access.remove_sessions("ci")] == ["ci", "ci"]
        assert sorted(session.name for session in access.sessions()) == ["ann", "bob"]
        assert len(access.remove_sessions()) == 2
        assert access.sessions() == []
        assert held(access, secret) == "ci"

    def test_those_that_are_over_are_not_told(self, access: Access, clock: StillClock) -> None:
        for lasting in ("1h", "2h"):
            access.sign_in(access.link("ann", "view"), lasting=lasting)
        clock.at = NOW + HOUR
        assert [session.expires_at for session in access.sessions()] == [NOW + 2 * HOUR]
        assert len(access.remove_sessions()) == 1

    def test_a_secret_is_replaced(
        self, access: Access, clock: StillClock, signed_in: tuple[Grant, str]
    ) -> None:
        session, secret = signed_in
        clock.at = NOW + HOUR
        made = access.rotate(session)
        assert made is not None
        rotated, new = made
        at = clock.at
        assert rotated == replace(session, digest=digest_of(new), created_at=at, used_at=at)
        assert access.sessions() == [rotated]
        clock.at = at + MINUTE - 1
        assert (held(access, secret), held(access, new)) == ("ann", "ann")
        clock.at = at + MINUTE
        assert (held(access, secret), held(access, new)) == (None, "ann")

    def test_only_once(self, access: Access, signed_in: tuple[Grant, str]) -> None:
        session, secret = signed_in
        made = access.rotate(session)
        assert made is not None
        # Who comes with the old one may have read it before or after that.
        former = access.known(secret)
        assert former is not None and former.parent == session.id
        assert (access.rotate(session), access.rotate(former)) == (None, None)
        assert access.sessions() == [made[0]]
        again = access.rotate(made[0])
        assert again is not None
        assert [held(access, one) for one in (secret, made[1], again[1])] == ["ann"] * 3

    def test_of_many_at_a_time_one_does_it(
        self, access: Access, signed_in: tuple[Grant, str]
    ) -> None:
        got: list[object] = []
        threads = [Thread(target=lambda: got.append(access.rotate(signed_in[0]))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one is None for one in got].count(False) == 1

    @pytest.mark.parametrize("by_former", [False, True])
    def test_who_signs_out_takes_both_secrets_along(
        self, access: Access, signed_in: tuple[Grant, str], by_former: bool
    ) -> None:
        session, secret = signed_in
        made = access.rotate(session)
        former = access.known(secret)
        assert made is not None and former is not None
        assert access.remove_session(former.id if by_former else session.id) == made[0]
        assert (held(access, secret), held(access, made[1])) == (None, None)

    def test_with_the_token_all_secrets_go(self, access: Access) -> None:
        _, token = access.add_token("ci", "view")
        signed_in = access.sign_in(token)
        assert signed_in is not None
        rotated = access.rotate(signed_in[0])
        assert rotated is not None
        assert len(access.remove_token("ci")) == 3
        assert [held(access, one) for one in (token, signed_in[1], rotated[1])] == [None] * 3

    def test_it_lasts_no_longer_for_that(
        self, access: Access, clock: StillClock, signed_in: tuple[Grant, str]
    ) -> None:
        session, secret = signed_in
        assert session.expires_at is not None
        clock.at = session.expires_at - SECOND
        made = access.rotate(session)
        assert made is not None
        clock.at = session.expires_at
        assert (held(access, secret), held(access, made[1])) == (None, None)
        assert access.rotate(made[0]) is None

    def test_not_when_it_is_gone(self, access: Access, signed_in: tuple[Grant, str]) -> None:
        access.remove_sessions()
        assert access.rotate(signed_in[0]) is None

    def test_not_for_a_token(self, access: Access) -> None:
        token, _ = access.add_token("ci", "view")
        with pytest.raises(UsageError, match="Only the secret of a session"):
            access.rotate(token)

    def test_a_session_whose_token_is_gone_is_not_good(
        self, access: Access, queue: Queue, signed_in: tuple[Grant, str]
    ) -> None:
        # Such as one that was added while its token was being removed.
        secret = new_secret(Kind.SESSION)
        lost = replace(signed_in[0], id="lost", digest=digest_of(secret), parent="gone")
        queue.store.grants.add(lost, now=NOW)
        assert held(access, secret) is None
        assert access.sessions() == [signed_in[0]]
        assert access.rotate(lost) is None


class TestActing:
    def test_who_it_is_done_for_is_on_record(self, queue: Queue) -> None:
        me = whoami()
        assert "@" in me and " via " not in me
        queue.enqueue("true", id="a")
        with acting_as("ann"):
            assert whoami() == f"ann via {me}"
            with acting_as("bob"):
                queue.cancel("a")
            assert whoami() == f"ann via {me}"
        assert whoami() == me
        assert [(event.kind, event.who) for event in queue.events()] == [
            ("cancel", f"bob via {me}")
        ]

    def test_it_ends_with_an_error(self) -> None:
        with pytest.raises(ZeroDivisionError), acting_as("ann"):
            raise ZeroDivisionError
        assert " via " not in whoami()

    def test_others_who_do_something_meanwhile_are_themselves(self) -> None:
        me, seen = whoami(), {}

        def act(name: str) -> None:
            seen[name] = whoami()

        with acting_as("ann"):
            thread = Thread(target=act, args=["thread"])
            thread.start()
            thread.join()
        assert seen == {"thread": me}

    def test_tasks_of_asyncio_and_their_threads_have_their_own(self) -> None:
        async def act(name: str, turn: asyncio.Event, other: asyncio.Event) -> str:
            with acting_as(name):
                other.set()
                await turn.wait()
                return await asyncio.to_thread(whoami)

        async def both() -> list[str]:
            one, two = asyncio.Event(), asyncio.Event()
            return list(await asyncio.gather(act("ann", one, two), act("bob", two, one)))

        assert asyncio.run(both()) == [f"{name} via {whoami()}" for name in ("ann", "bob")]


def test_the_latest_time_is_one(access: Access) -> None:
    token, _ = access.add_token("ci", "view", expires="9999-12-30T00:00:00Z")
    assert token.expires_at is not None and token.expires_at <= LATEST
    with pytest.raises(BadTimeError):
        access.add_token("cd", "view", expires="10000-01-01")
