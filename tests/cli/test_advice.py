"""What is said to those who type what they are used to from elsewhere."""

import click
import pytest

from queuectl.cli import synonyms
from queuectl.cli.main import root
from tests.cli.conftest import Cli


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("restart", "use retry for a job, worker restart for nodes"),
        ("stash", "use hold for a job"),
        ("clean", "use prune for finished jobs"),
        ("purge", "use dlq purge for dead jobs, prune for finished ones"),
        ("add", "use enqueue"),
        ("top", "status --watch"),
        ("tail", "use logs -f"),
        ("sbatch", "use enqueue"),
        ("squeue", "use list"),
        ("scancel", "use cancel"),
        ("parallel 4", "config set workers N for how many run at once"),
        ("tags", "use list --columns id,tags,command"),
        ("job list", "list for many"),
        ("inspect active", "list --state processing"),
        ("priority k3v9", "use edit --priority N, or top"),
        ("update k3v9", "use edit"),
        ("mv k3v9", "use move --to QUEUE"),
        ("worker scale 4", "use queuectl config set workers N"),
        ("worker logs", "use list, which names the log of each"),
        ("enqueue-in", "use enqueue --delay"),
        ("cron", "use schedule add NAME RULE COMMAND"),
        ("throttle", "use queue set NAME --limit N, --rate N/TIME"),
        ("why k3v9", "use explain"),
        ("queue limit mail", "use set"),
        ("queue create mail", "enqueue --queue NAME: a queue is made by its first job"),
        ("queue delete mail", "use rm"),
        ("queue unset mail", "use set NAME --clear"),
        ("queue mv mail post", "use rename"),
        ("worker ps", "use list"),
        ("worker kill", "use stop"),
        ("dlq clear", "use purge"),
        ("config rm", "use unset"),
        ("db restore", "a backup is restored by"),
        ("output get k3v9", "output takes the id itself"),
    ],
)
def test_commands_of_other_tools(cli: Cli, typed: str, advice: str) -> None:
    assert advice in cli.refused(*typed.split(), code=2)


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("enqueue true --cron", "use queuectl schedule add NAME RULE COMMAND"),
        ("enqueue true --every", "use queuectl schedule add NAME RULE COMMAND"),
        ("enqueue true --depends-on", "use --after"),
        ("enqueue true --dedupe", "--unique"),
        ("enqueue true --at", "use --run-at"),
        ("enqueue true --in", "use --delay"),
        ("enqueue true --retry", "use --max-retries"),
        ("enqueue true --label", "use --tag"),
        ("enqueue true --limit", "is set on their queue: queue set NAME --limit N"),
        ("enqueue true --concurrency", "is set on their queue: queue set NAME --limit N"),
        ("enqueue true --throttle", "queue set NAME --rate 100/1m"),
        ("queue set mail --concurrency", "use --limit"),
        ("worker start --strict", "use --in-order"),
        ("worker start --except", "use --exclude"),
        ("worker start --weight", "use --queue NAME:N"),
        ("queue set mail --rps", "use --rate N/TIME"),
        ("worker start --concurrency", "use --count"),
        ("list --status", "use --state"),
        ("list --all", "use --state all"),
        ("list --failed", "--state dead for jobs that were given up"),
        ("list --dead", "--state dead for jobs that were given up"),
        ("list --state deda", "did you mean 'dead'?"),
        ("retry --all", "use --state all"),
        ("rm --all", "use --state all"),
        ("prune --all", "use --state all"),
        ("prune --tag", "use rm with --state completed,cancelled"),
        ("logs k3v9 --tail", "use queuectl logs ID | tail -n N"),
        ("output --tag", "use logs --tag TAG"),
    ],
)
def test_options_of_other_tools(cli: Cli, typed: str, advice: str) -> None:
    told = cli.refused(*typed.split(), "5", code=2)
    assert advice in told
    assert "quotes" not in told
    assert not cli.db.exists()


def test_a_command_in_quotes_is_not_asked_for_quotes(cli: Cli) -> None:
    told = cli.refused("enqueue", "sleep 1", "--zzz", code=2)
    assert told == "queuectl: There is no option --zzz. See queuectl enqueue --help."


@pytest.mark.parametrize(
    "words", [(), ("worker",), ("worker", "start"), ("enqueue",), ("dlq", "retry")], ids=" ".join
)
def test_help_is_a_command_too(cli: Cli, words: tuple[str, ...]) -> None:
    wanted = cli.ok(*words, "--help").stdout
    assert cli.ok("help", *words).stdout == wanted
    if len(words) > 1:
        assert cli.ok(words[0], "help", *words[1:]).stdout == wanted


def test_help_for_what_is_not_there(cli: Cli) -> None:
    assert "There is no command 'wroker'; did you mean 'worker'?" in cli.refused(
        "help", "wroker", code=2
    )


def test_version_is_a_command_too(cli: Cli) -> None:
    assert cli.ok("version").stdout == cli.ok("--version").stdout


def every_command(group: click.Group, path: str = "") -> dict[str, click.Command]:
    """Return all commands by the words that name them, the root group as well."""
    found: dict[str, click.Command] = {path: group}
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        below = f"{path} {name}".strip()
        found |= every_command(command, below) if isinstance(command, click.Group) else {}
        found[below] = command
    return found


EVERY = every_command(root)


@pytest.mark.parametrize("path", synonyms.COMMANDS)
def test_advice_on_commands_is_about_what_is_missing_and_names_what_is_there(path: str) -> None:
    group = EVERY[path]
    assert isinstance(group, click.Group)
    known = group.list_commands(click.Context(group))
    for name, advice in synonyms.COMMANDS[path].items():
        assert name not in known
        told = synonyms.command_for(path, name, known)
        assert told is not None
        assert told.startswith(("use ", "this version has no", "a backup is")), (name, advice)


def test_advice_on_options_is_about_what_is_missing_and_names_what_is_there() -> None:
    options = {name for command in EVERY.values() for p in command.params for name in p.opts}
    assert set(synonyms.OPTIONS.values()) <= options
    for path, instead in synonyms.INSTEAD.items():
        assert not {name for param in EVERY[path].params for name in param.opts} & {*instead}
    enqueue = {name for param in EVERY["enqueue"].params for name in param.opts}
    assert not enqueue & {*synonyms.OPTIONS, *synonyms.CLAUSES}
