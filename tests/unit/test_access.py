"""Roles and what they allow, names of tokens, and secrets."""

import pytest

from queuectl.access import (
    LONGEST_NAME,
    LONGEST_SECRET,
    PREFIXES,
    RIGHTS,
    Grant,
    Kind,
    Right,
    Role,
    check_name,
    digest_of,
    kind_of,
    new_secret,
    read_roles,
    write_roles,
)
from queuectl.errors import UsageError

NOW = 1_762_606_800_000


def a_grant(*roles: Role, queues: tuple[str, ...] = (), expires_at: int | None = None) -> Grant:
    return Grant(
        id="id",
        kind=Kind.TOKEN,
        name="ci",
        digest="digest",
        roles=roles,
        created_at=NOW,
        created_by="me",
        queues=queues,
        expires_at=expires_at,
    )


class TestRights:
    @pytest.mark.parametrize(
        ("roles", "rights"),
        [
            ((), set()),
            ((Role.VIEW,), {Right.SEE}),
            ((Role.OPERATE,), {Right.SEE, Right.OPERATE}),
            ((Role.SUBMIT,), {Right.SEE, Right.SUBMIT}),
            ((Role.ADMIN,), {Right.SEE, Right.SECRETS, Right.OPERATE, Right.ADMIN}),
            ((Role.VIEW, Role.SUBMIT), {Right.SEE, Right.SUBMIT}),
            ((Role.ADMIN, Role.SUBMIT), set(Right)),
        ],
    )
    def test_those_of_all_roles_together(self, roles: tuple[Role, ...], rights: set[Right]) -> None:
        grant = a_grant(*roles)
        assert grant.rights == rights
        assert {right for right in Right if grant.may(right)} == rights

    def test_to_run_commands_must_be_said(self) -> None:
        assert [role for role in Role if Right.SUBMIT in RIGHTS[role]] == [Role.SUBMIT]

    def test_every_role_is_told_what_it_allows(self) -> None:
        assert RIGHTS.keys() == set(Role)
        assert all(Right.SEE in rights for rights in RIGHTS.values())

    def test_queues(self) -> None:
        assert a_grant().is_for("any")
        grant = a_grant(queues=("mail", "slow"))
        assert (grant.is_for("mail"), grant.is_for("slow"), grant.is_for("Mail")) == (
            True,
            True,
            False,
        )

    def test_time(self) -> None:
        assert not a_grant().is_over(NOW)
        grant = a_grant(expires_at=NOW)
        assert (grant.is_over(NOW - 1), grant.is_over(NOW)) == (False, True)


class TestRoles:
    @pytest.mark.parametrize(
        ("names", "roles"),
        [
            ("view", (Role.VIEW,)),
            ("submit,view", (Role.VIEW, Role.SUBMIT)),
            ("admin, operate,admin", (Role.OPERATE, Role.ADMIN)),
            (["submit", "view"], (Role.VIEW, Role.SUBMIT)),
            ((Role.ADMIN,), (Role.ADMIN,)),
        ],
    )
    def test_they_are_read_once_each_and_in_order(self, names: str, roles: tuple[Role]) -> None:
        assert read_roles(names) == roles
        assert read_roles(write_roles(roles)) == roles

    @pytest.mark.parametrize("names", ["", ",", "viewer,", "root", "View", ["view,operate"], [3]])
    def test_others_are_refused(self, names: str) -> None:
        with pytest.raises(UsageError, match="There is no role"):
            read_roles(names)

    def test_the_nearest_is_named(self) -> None:
        with pytest.raises(UsageError, match=r"There is no role .viewer.; did you mean .view.\?"):
            read_roles("viewer")
        with pytest.raises(UsageError, match="use view, operate, submit, admin"):
            read_roles("x")

    def test_none_at_all_is_refused(self) -> None:
        with pytest.raises(UsageError, match="A role must be said: view, operate, submit, admin"):
            read_roles([])


class TestNames:
    @pytest.mark.parametrize("name", ["ci", "a", "0", "ci-2.x_y@host", "x" * LONGEST_NAME])
    def test_taken(self, name: str) -> None:
        assert check_name(name) == name

    @pytest.mark.parametrize(
        "name", ["", " ", "-x", ".x", "a b", "ü", "a\n", "a/b", "x" * (LONGEST_NAME + 1), 3, None]
    )
    def test_refused(self, name: str) -> None:
        with pytest.raises(UsageError, match="A token can't be called"):
            check_name(name)


class TestSecrets:
    @pytest.mark.parametrize("kind", Kind)
    def test_they_say_what_they_are_for(self, kind: Kind) -> None:
        secret = new_secret(kind)
        assert secret.startswith(PREFIXES[kind])
        assert kind_of(secret) == kind
        assert len(secret) == len(PREFIXES[kind]) + 43 <= LONGEST_SECRET
        assert secret.isascii() and secret.replace("-", "").replace("_", "").isalnum()

    def test_no_two_are_alike(self) -> None:
        assert len({new_secret(Kind.TOKEN) for _ in range(1_000)}) == 1_000

    @pytest.mark.parametrize("text", ["", "qtx_abc", "abc", "QTL_abc", "qtl", "qtl_" + "x" * 61])
    def test_what_can_not_be_one_is_for_nothing(self, text: str) -> None:
        assert kind_of(text) is None

    def test_a_digest_is_that_of_sha_256(self) -> None:
        abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        assert digest_of("abc") == abc
        assert digest_of("\udcff") != digest_of("?")
