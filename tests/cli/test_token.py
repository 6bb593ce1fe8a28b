"""`token`: adding, listing and removing tokens, and ending sessions."""

from pathlib import Path

from queuectl.access import Kind, digest_of, kind_of
from queuectl.host import whoami
from queuectl.when import HOUR
from tests.cli.conftest import Cli
from tests.cli.test_completion import complete


def sign_in(cli: Cli, name: str) -> str:
    """Sign somebody in by a link; returns the id of the session."""
    made = cli.queue.access.sign_in(cli.queue.access.link(name, "view"))
    assert made is not None
    return made[0].id


class TestAdd:
    def test_the_secret_is_alone_on_stdout(self, cli: Cli) -> None:
        done = cli.ok("token", "add", "ci", "--role", "submit", "--queue", "builds")
        secret = done.stdout.removesuffix("\n")
        assert kind_of(secret) == Kind.TOKEN and secret.split() == [secret]
        made, (token,) = done.stderr.splitlines()[0], cli.queue.access.tokens()
        assert "queue.db" in made
        assert done.stderr.splitlines()[1:] == [
            "Token ci may submit in builds. Its secret is shown only now; keep it safe."
        ]
        assert (token.name, token.roles, token.queues) == ("ci", ("submit",), ("builds",))
        assert cli.queue.access.known(secret) is not None

    def test_several_roles_and_queues(self, cli: Cli) -> None:
        args = "--role admin,submit --role view -Q a --queue b --expires 90d".split()
        told = cli.ok("token", "add", "ann", *args, "--json").json
        (token,) = cli.queue.access.tokens()
        assert token.roles == ("view", "submit", "admin")
        assert token.queues == ("a", "b")
        assert token.expires_at == token.created_at + 90 * 86_400_000
        assert token.digest == digest_of(told.pop("secret"))
        assert [told] == cli.ok("token", "list", "--json").json

    def test_it_is_an_event_without_the_secret(self, cli: Cli) -> None:
        secret = cli.ok("token", "add", "ci", "--role", "view").stdout.strip()
        (event,) = cli.ok("events", "--json").json
        assert (event["kind"], event["who"], event["detail"]) == ("token-add", whoami(), "ci: view")
        assert secret.encode() not in cli.db.read_bytes()

    def test_what_can_not_be_is_refused(self, cli: Cli) -> None:
        cli.ok("token", "add", "ci", "--role", "view")
        for args, code, said in (
            ("ci --role view", 4, "There is a token 'ci' already; remove it, or choose another"),
            ("a/b --role view", 2, "A token can't be called 'a/b'"),
            ("cd --role viewer", 2, "There is no role 'viewer'; did you mean 'view'?"),
            ("cd", 2, "Missing option '--role'"),
            ("cd --role view --expires never", 2, "'never' is not a time"),
            ("cd --role view --expires yesterday", 2, "can't end at a time that has been"),
        ):
            assert said in cli.refused("token", "add", *args.split(), code=code)
        assert len(cli.queue.access.tokens()) == 1

    def test_a_secret_that_nobody_could_be_shown_is_told_of(self, cli: Cli) -> None:
        with Path("/dev/full").open("wb") as full:
            process = cli.start("token", "add", "ci", "--role", "view", stdout=full)
            _, said = process.communicate()
        assert process.returncode == 1
        assert b"Token ci is stored, and nobody knows its secret; remove it, but stdout" in said
        assert [token.name for token in cli.queue.access.tokens()] == ["ci"]


class TestLink:
    def test_one_signs_in_once(self, cli: Cli) -> None:
        told = cli.ok("token", "link", "ann", "--role", "view", "--queue", "mail")
        (secret,) = told.lines
        assert "ann may view. It signs in once; paste it into the sign-in page." in told.stderr
        made = cli.queue.access.sign_in(secret)
        assert made is not None
        assert (made[0].name, made[0].roles, made[0].queues) == ("ann", ("view",), ("mail",))
        assert cli.queue.access.sign_in(secret) is None

    def test_with_where_it_leads(self, cli: Cli) -> None:
        told = cli.ok("token", "link", "--url", "https://jobs.lan/q/", "--expires", "8h", "--json")
        assert told.json["name"] == "link"
        assert told.json["roles"] == ["operate", "admin"]
        url, _, secret = told.json["link"].partition("#")
        assert url == "https://jobs.lan/q/sign-in"
        (link,) = (one for one in cli.queue.store.grants.all() if one.digest == digest_of(secret))
        assert link.expires_at == link.created_at + 8 * HOUR

    def test_what_cannot_be(self, cli: Cli) -> None:
        for args, said in (
            ("--role king", "There is no role 'king'"),
            ("--url jobs.lan", "--url is where the dashboard is, such as https://"),
            ("--expires 2d", "--expires can be up to 1d."),
        ):
            assert said in cli.refused("token", "link", *args.split(), code=2)
        assert not cli.db.exists()


class TestList:
    def test_for_programs(self, cli: Cli) -> None:
        cli.ok("token", "add", "ci", "--role", "view", "--queue", "ü", "--expires", "2099-01-01")
        (told,) = cli.ok("token", "list", "--json").json
        (token,) = cli.queue.access.tokens()
        assert told.pop("created_at").endswith("Z")
        assert told.pop("expires_at").startswith(("2098-12-31T", "2099-01-01T"))
        assert told == {
            "id": token.id,
            "name": "ci",
            "kind": "token",
            "roles": ["view"],
            "queues": ["ü"],
            "created_by": whoami(),
            "expired": False,
            "used_at": None,
        }

    def test_for_people(self, cli: Cli) -> None:
        cli.ok("token", "add", "ci", "--role", "view,submit", "--queue", "a", "--queue", "b")
        secret = cli.ok("token", "add", "ann", "--role", "admin", "--expires", "1h").stdout.strip()
        cli.queue.access.known(secret)
        head, *rows = cli.ok("token", "list").lines
        assert head.split() == "NAME ROLES QUEUES ADDED BY UNTIL USED".split()
        assert [row.split()[:3] for row in rows] == [
            ["ann", "admin", "all"],
            ["ci", "view,submit", "a,b"],
        ]
        assert rows[0].endswith("s ago")
        assert rows[1].split()[-4:] == ["it", "is", "removed", "never"]
        assert cli.ok("token", "list", "-q").lines == ["ann", "ci"]

    def test_one_that_is_over(self, cli: Cli) -> None:
        cli.ok("token", "add", "ci", "--role", "view", "--expires", "1ms")
        assert cli.ok("token", "list").lines[1].split()[-2:] == ["expired", "never"]
        assert cli.ok("token", "list", "--json").json[0]["expired"] is True

    def test_where_there_are_none(self, cli: Cli) -> None:
        cli.queue.close()
        done = cli.ok("token", "list")
        assert (done.stdout, done.stderr) == (
            "",
            "There are no tokens, so nobody is let in with one.\n",
        )
        assert cli.ok("token", "list", "--json").json == []
        assert cli.ok("token", "sessions").stderr == "Nobody is signed in.\n"


class TestRemove:
    def test_with_the_sessions(self, cli: Cli) -> None:
        secret = cli.ok("token", "add", "ci", "--role", "view").stdout.strip()
        cli.ok("token", "add", "cd", "--role", "view")
        for _ in range(2):
            cli.queue.access.sign_in(secret)
        assert cli.ok("token", "rm", "cd", "ci", "cd").lines == [
            "Token 'cd' removed.",
            "Token 'ci' removed, and 2 sessions with it.",
        ]
        assert (cli.queue.access.tokens(), cli.queue.access.sessions()) == ([], [])

    def test_for_programs(self, cli: Cli) -> None:
        secret = cli.ok("token", "add", "ci", "--role", "view").stdout.strip()
        cli.queue.access.sign_in(secret)
        assert cli.ok("token", "rm", "ci", "--json").json == [
            {"name": "ci", "removed": True, "sessions": 1}
        ]

    def test_one_that_is_not_there_removes_no_other(self, cli: Cli) -> None:
        cli.ok("token", "add", "deploy", "--role", "view")
        said = cli.refused("token", "rm", "deploy", "deplo", code=3)
        assert "There is no token 'deplo'; did you mean 'deploy'?" in said
        assert cli.ok("token", "list", "-q").lines == ["deploy"]


class TestSessions:
    def test_they_are_listed(self, cli: Cli) -> None:
        ids = [sign_in(cli, "ann"), sign_in(cli, "bob")]
        head, *rows = cli.ok("token", "sessions").lines
        assert head.split() == "ID NAME ROLES QUEUES UNTIL USED".split()
        assert {tuple(row.split()[:4]) for row in rows} == {
            (id, name, "view", "all") for id, name in zip(ids, ("ann", "bob"), strict=True)
        }
        assert sorted(cli.ok("token", "sessions", "-q").lines) == sorted(ids)
        told = cli.ok("token", "sessions", "--json").json
        assert {(one["id"], one["name"], one["kind"]) for one in told} == {
            (ids[0], "ann", "session"),
            (ids[1], "bob", "session"),
        }

    def test_they_end(self, cli: Cli) -> None:
        ids = [sign_in(cli, name) for name in ("ann", "ann", "bob", "cyd")]
        assert cli.ok("token", "sign-out", ids[0], ids[0]).lines == [
            f"Session {ids[0]} of 'ann' ended."
        ]
        assert cli.ok("token", "sign-out", "--of", "ann", "--json").json == [
            {"id": ids[1], "name": "ann", "ended": True}
        ]
        assert len(cli.ok("token", "sign-out", "--all").lines) == 2
        done = cli.ok("token", "sign-out", "--all", "--json")
        assert (done.json, done.stderr) == ([], "")
        assert cli.ok("token", "sign-out", "--all").stderr == "Nobody was signed in.\n"

    def test_it_must_be_said_which(self, cli: Cli) -> None:
        id = sign_in(cli, "ann")
        for args in ([], [id, "--all"], ["--of", "ann", "--all"], [id, "--of", "ann"]):
            assert "Say which" in cli.refused("token", "sign-out", *args, code=2)
        assert "There is no session 'x'" in cli.refused("token", "sign-out", "x", code=3)
        assert "Nobody called 'bob'" in cli.refused("token", "sign-out", "--of", "bob", code=3)
        assert cli.ok("token", "sessions", "-q").lines == [id]

    def test_what_was_done_before_an_error_is_said(self, cli: Cli) -> None:
        id = sign_in(cli, "ann")
        done = cli.run("token", "sign-out", id, "x")
        assert done.code == 3
        assert done.stderr.splitlines()[0] == f"Session {id} of 'ann' ended."


def test_names_roles_and_ids_complete(cli: Cli) -> None:
    cli.ok("token", "add", "ci-1", "--role", "view")
    cli.ok("token", "add", "ci-2", "--role", "view")
    id = sign_in(cli, "ann")
    cli.add("true", "--queue", "mail")
    assert complete(cli, "queuectl token rm c") == ["ci-1", "ci-2"]
    assert complete(cli, "queuectl token rm ci-1 c") == ["ci-2"]
    assert complete(cli, "queuectl token sign-out ") == [id]
    assert complete(cli, "queuectl token sign-out --of ") == ["ann"]
    assert complete(cli, "queuectl token add x --role s") == ["submit"]
    assert complete(cli, "queuectl token add x --role view,o") == ["view,operate"]
    assert complete(cli, "queuectl token add x --queue m") == ["mail"]


def test_a_reset_leaves_them(cli: Cli) -> None:
    cli.ok("token", "add", "ci", "--role", "view")
    assert "tokens are as before" in cli.ok("db", "reset", "--yes").stdout
    assert cli.ok("token", "list", "-q").lines == ["ci"]
    cli.ok("db", "reset", "--settings", "--yes")
    assert cli.ok("token", "list", "-q").lines == []
