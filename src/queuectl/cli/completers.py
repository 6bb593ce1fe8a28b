"""What the words of a command line may be: the candidates that a shell offers on TAB.

Nothing here changes anything or makes a queue; what can't be read has no candidates.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from click.shell_completion import CompletionItem

from queuectl.cli.command import DB
from queuectl.errors import EXIT_FAILED, QueuectlError
from queuectl.job import ANY_TYPE, FINISHED, TYPE, Job, State, Strategy
from queuectl.queue import Queue

Candidates = list[CompletionItem]
Completer = Callable[[click.Context, click.Parameter, str], Candidates]

MOST = 50
"""Candidates from the queue that are offered at once."""
LONGEST_TITLE = 60
PATIENCE = 2.0
"""Seconds after which a server that doesn't answer has no candidates."""


def teach(command: click.Command) -> None:
    """Let the parameters of a command, and of those in a group, complete by what is here."""
    for param in command.params:
        names = param.opts if isinstance(param, click.Option) else [param.name or ""]
        completer = next((BY_NAME[name] for name in names if name in BY_NAME), None)
        if completer is not None and not isinstance(param.type, _Completed):
            param.type = _Completed(param.type, completer)
    for child in command.commands.values() if isinstance(command, click.Group) else ():
        teach(child)


class _Completed(click.ParamType):  # type: ignore[type-arg]
    """A type that reads values as another does, and completes them; to nothing, if it can't."""

    def __init__(self, inner: click.ParamType, completer: Completer) -> None:  # type: ignore[type-arg]
        self.name = inner.name
        self._inner = inner
        self._completer = completer

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._inner.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> Candidates:
        try:
            return self._completer(ctx, param, incomplete)
        except (QueuectlError, OSError):
            return []


# -- from the queue ---------------------------------------------------------------------


@contextmanager
def _open(ctx: click.Context) -> Iterator[Queue]:
    """Open the queue that the line means, if it is there."""
    from queuectl.address import is_server
    from queuectl.place import find_place

    url: str | None = ctx.meta.get(DB)
    # The shell has not expanded the words yet.
    place = find_place(os.path.expanduser(url) if url and url.startswith("~") else url)
    if is_server(place.url):
        _give_up_in_time()
    with Queue(place=place, create=False) as queue:
        yield queue


def _give_up_in_time() -> None:
    """End this process when time is over, whatever it waits for."""
    from threading import Timer

    timer = Timer(PATIENCE, os._exit, [EXIT_FAILED])
    timer.daemon = True
    timer.start()


def complete_jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete ids of jobs in states that the command takes, those that are newest first."""
    given = ctx.params.get(param.name or "")
    taken = set(given) if isinstance(given, tuple) else set()
    with _open(ctx) as queue:
        return [
            CompletionItem(job.id, help=_described(job))
            for job in queue.jobs_like(incomplete, _states_of(ctx), limit=MOST)
            if job.id not in taken
        ]


def complete_after(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete ids of jobs; behind a colon, how the job is to end."""
    from queuectl.dependencies import Wanted

    id, colon, begun = incomplete.rpartition(":")
    if not colon or _command(ctx) == "list":
        return complete_jobs(ctx, param, incomplete)
    endings = [f"{id}:{wanted}" for wanted in Wanted if wanted.startswith(begun)]
    return [*complete_jobs(ctx, param, incomplete), *map(CompletionItem, endings)]


def complete_of(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete ids of jobs, or names of those who are signed in, as the command has it."""
    if _command(ctx) == "result":
        return complete_jobs(ctx, param, incomplete)
    return complete_signed_in(ctx, param, incomplete)


def _described(job: Job) -> str:
    from queuectl.cli.render import safe
    from queuectl.cli.widths import cut
    from queuectl.titles import titled

    return f"{job.state}: {cut(safe(titled(job, LONGEST_TITLE)), LONGEST_TITLE)}"


def complete_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of queues that are in use; to be resumed, those that are paused."""
    with _open(ctx) as queue:
        paused = {info.name for info in queue.queues() if info.paused_at is not None}
        if _command(ctx) in ("resume", "queue resume"):
            return _starting(incomplete, sorted(paused))
        used = {count.queue for count in queue.counts() if count.jobs} | set(queue.limits.all())
        return _starting(incomplete, sorted(used | paused))


def complete_pausable(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of queues, and ids of jobs that run; to be resumed, what is paused."""
    return [*complete_queues(ctx, param, incomplete), *complete_runs(ctx, param, incomplete)]


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete ids of jobs that run; to be resumed, those that are paused."""
    with _open(ctx) as queue:
        pauses = queue.pauses()
        resuming = _command(ctx) == "resume"
        return [
            CompletionItem(job.id, help=_described(job))
            for job in queue.jobs_like(incomplete, (State.PROCESSING,), limit=MOST)
            if (job.seq in pauses) == resuming
        ]


def complete_tags(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete tags that jobs have."""
    with _open(ctx) as queue:
        return _starting(incomplete, queue.tags_like(incomplete, limit=MOST))


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of groups; a group of this host is another thing."""
    if _command(ctx) == "db init":
        return []
    given = ctx.params.get(param.name or "")
    taken = set(given) if isinstance(given, tuple) else set()
    with _open(ctx) as queue:
        names = queue.groups.like(incomplete, limit=MOST)
    return _starting(incomplete, [name for name in names if name not in taken])


def complete_after_group(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of groups; behind a colon, how the group is to end."""
    from queuectl.dependencies import Wanted

    name, colon, begun = incomplete.rpartition(":")
    wanted = [one for one in (Wanted.OK, Wanted.ANY) if colon and one.startswith(begun)]
    endings = [CompletionItem(f"{name}:{one}") for one in wanted]
    return [*complete_groups(ctx, param, incomplete), *endings]


def complete_after_each(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of groups; behind a colon, how each of its jobs is to end."""
    from queuectl.dependencies import Wanted

    name, colon, begun = incomplete.rpartition(":")
    wanted = [one for one in Wanted if colon and one.startswith(begun)]
    endings = [CompletionItem(f"{name}:{one}") for one in wanted]
    return [*complete_groups(ctx, param, incomplete), *endings]


def complete_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete types that the newest jobs have, or that nodes handle."""
    with _open(ctx) as queue:
        return _starting(incomplete, queue.types_like(incomplete, limit=MOST))


def complete_emitted(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names that were emitted; to be emitted, those that jobs wait for."""
    came = {"emit": False, "emitted": True}.get(_command(ctx))
    with _open(ctx) as queue:
        return _starting(incomplete, queue.emitted_like(incomplete, came=came, limit=MOST))


def complete_nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete ids of nodes that live, with where they are."""
    with _open(ctx) as queue:
        nodes = queue.living_nodes()
    helped = {node.id: f"pid {node.pid} on {node.host}" for node in nodes}
    return _starting(incomplete, helped, helped)


def complete_hooks(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete hooks that aren't commands: types that living nodes handle, and none at all."""
    with _open(ctx) as queue:
        handled = {one for node in queue.living_nodes() for one in node.queues.handlers}
    named = sorted(one for one in handled if one.startswith(TYPE) and one != ANY_TYPE)
    return _starting(incomplete, ["none", *named])


def complete_schedules(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of schedules, with their rules; to be resumed, those that are paused."""
    given = ctx.params.get(param.name or "")
    taken = set(given) if isinstance(given, tuple) else set()
    with _open(ctx) as queue:
        found = queue.schedules.all()
    if _command(ctx) in ("schedule pause", "schedule resume"):
        is_paused = _command(ctx) == "schedule resume"
        found = [one for one in found if (one.paused_at is not None) == is_paused]
    helped = {one.name: one.rule for one in found if one.name not in taken}
    return _starting(incomplete, helped, helped)


def complete_webhooks(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of webhooks, with their URLs; to be resumed, those that are paused."""
    given = ctx.params.get(param.name or "")
    taken = set(given) if isinstance(given, tuple) else set()
    with _open(ctx) as queue:
        found = queue.webhooks.all()
    if _command(ctx) in ("hook pause", "hook resume"):
        is_paused = _command(ctx) == "hook resume"
        found = [one for one in found if (one.paused_at is not None) == is_paused]
    helped = {one.name: one.url for one in found if one.name not in taken}
    return _starting(incomplete, helped, helped)


# -- from what is known without it ------------------------------------------------------


def complete_tokens(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of tokens, with their roles."""
    given = ctx.params.get(param.name or "")
    taken = set(given) if isinstance(given, tuple) else set()
    with _open(ctx) as queue:
        found = queue.access.tokens()
    helped = {one.name: ", ".join(one.roles) for one in found if one.name not in taken}
    return _starting(incomplete, helped, helped)


def complete_sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete ids of sessions, with whose they are."""
    given = ctx.params.get(param.name or "")
    taken = set(given) if isinstance(given, tuple) else set()
    with _open(ctx) as queue:
        found = queue.access.sessions()
    helped = {one.id: one.name for one in found if one.id not in taken}
    return _starting(incomplete, helped, helped)


def complete_signed_in(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of those who are signed in."""
    with _open(ctx) as queue:
        return _starting(incomplete, sorted({one.name for one in queue.access.sessions()}))


# -- from what is known without it ------------------------------------------------------


def complete_states(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of states that the command takes, also behind a comma."""
    before, comma, last = incomplete.rpartition(",")
    names = [str(state) for state in _states_of(ctx) or State]
    if not comma:
        return _starting(last, ["all", *names])
    given = before.split(",")
    return [
        CompletionItem(f"{before},{name}")
        for name in names
        if name.startswith(last) and name not in given
    ]


def complete_news(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete what a webhook is told of, also behind a comma."""
    from queuectl.webhook import News

    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{news}")
        for news in News
        if news.startswith(last) and news not in given
    ]


def complete_roles(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of roles, also behind a comma."""
    from queuectl.access import Role

    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{role}")
        for role in Role
        if role.startswith(last) and role not in given
    ]


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of settings, with what they mean."""
    from queuectl.settings import SPECS

    helped = {name: spec.help for name, spec in SPECS.items()}
    return _starting(incomplete.replace("-", "_"), helped, helped)


def complete_values(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete what a setting may be: its choices, its value now and its default."""
    from queuectl.settings import SPECS, Settings, canonical

    name = canonical(str(ctx.params["name"]))
    helped = dict.fromkeys(SPECS[name].kind.choices if name in SPECS else (), "")
    helped |= {Settings().text(name): "its default"}
    try:
        with _open(ctx) as queue:
            helped |= {queue.settings.text(name): "its value now"}
    except QueuectlError:
        pass
    return _starting(incomplete, helped, helped)


def complete_backoff(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete how waits for retries may grow."""
    return _starting(incomplete, [strategy.value for strategy in Strategy])


def complete_if_parent_fails(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> Candidates:
    """Complete what may become of a job whose parent is dead."""
    from queuectl.dependencies import IfParentFails

    return _starting(incomplete, [how.value for how in IfParentFails])


def complete_until(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete until when a job can have its unique key."""
    from queuectl.uniqueness import Until

    return _starting(incomplete, [until.value for until in Until])


def complete_on_duplicate(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> Candidates:
    """Complete what becomes of a request for a unique key that another job has."""
    from queuectl.uniqueness import OnDuplicate

    return _starting(incomplete, [how.value for how in OnDuplicate])


def complete_variables(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of variables that may be copied into a job."""
    return _starting(incomplete, sorted(os.environ))


def complete_zones(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of time zones."""
    from zoneinfo import available_timezones

    return _starting(incomplete, sorted(available_timezones()))


def complete_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete rules that are one word."""
    from queuectl.rules import WORDS

    return _starting(incomplete, WORDS, WORDS)


def complete_shells(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Complete names of shells that this host has."""
    with open("/etc/shells", encoding="utf-8") as file:
        paths = [line.strip() for line in file if line.startswith("/")]
    return _starting(incomplete, sorted({path.rpartition("/")[2] for path in paths}))


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Let the shell complete the path of a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Let the shell complete the path of a folder."""
    return [CompletionItem(incomplete, type="dir")]


# -- which is whose ---------------------------------------------------------------------


def _command(ctx: click.Context) -> str:
    """Return the name of the command without the program's: `dlq retry`."""
    return ctx.command_path.partition(" ")[2]


def _states_of(ctx: click.Context) -> tuple[State, ...]:
    """Return the states of jobs that the command takes; none for all."""
    from queuectl.changes import PURGE, REMOVE, RETRY, RETRY_DEAD, cancelling, finishing
    from queuectl.editing import TOP

    return {
        **dict.fromkeys(("edit", "hold", "release", "top", "swap", "move"), TOP.allowed),
        "cancel": cancelling().allowed,
        "force-finish": finishing().allowed,
        "retry": RETRY.allowed,
        "rm": REMOVE.allowed,
        "prune": FINISHED,
        "dlq retry": RETRY_DEAD.allowed,
        "dlq purge": PURGE.allowed,
        "dlq show": (State.DEAD,),
    }.get(_command(ctx), ())


def _starting(
    prefix: str, values: Iterable[str], helped: Mapping[str, str] | None = None
) -> Candidates:
    return [
        CompletionItem(value, help=(helped or {}).get(value) or None)
        for value in values
        if value.startswith(prefix)
    ]


BY_NAME: dict[str, Completer] = {
    "--after": complete_after,
    "--after-each": complete_after_each,
    "--after-group": complete_after_group,
    "--group": complete_groups,
    "group_names": complete_groups,
    "--finally": complete_jobs,
    "--if-parent-fails": complete_if_parent_fails,
    "id": complete_jobs,
    "ids": complete_jobs,
    "other": complete_jobs,
    **dict.fromkeys(("--queue", "--exclude", "--to", "--via"), complete_queues),
    "--job": complete_runs,
    "names": complete_pausable,
    "queue_name": complete_queues,
    "queue_names": complete_queues,
    "--tag": complete_tags,
    "--type": complete_types,
    "--node": complete_nodes,
    "--state": complete_states,
    "name": complete_settings,
    "emitted_name": complete_emitted,
    "value": complete_values,
    "token_names": complete_tokens,
    "session_ids": complete_sessions,
    "--of": complete_of,
    "webhook_name": complete_webhooks,
    "webhook_names": complete_webhooks,
    "--on": complete_news,
    "--role": complete_roles,
    "schedule_name": complete_schedules,
    "schedule_names": complete_schedules,
    "--tz": complete_zones,
    "rule": complete_rules,
    "--rule": complete_rules,
    "--backoff": complete_backoff,
    "--unique-until": complete_until,
    "--on-duplicate": complete_on_duplicate,
    **dict.fromkeys(("--on-success", "--on-failure", "--on-dead"), complete_hooks),
    "--env": complete_variables,
    "--shell": complete_shells,
    "--cwd": complete_folders,
    **dict.fromkeys(
        "--daemon --db --each-json --each-line --exec --file --graph --lines --log --stdin".split(),
        complete_files,
    ),
    **dict.fromkeys(("--each-line", "--each-json"), complete_files),
    **dict.fromkeys(("--access-log", "--socket", "--tls-cert", "--tls-key"), complete_files),
    **dict.fromkeys(("file", "source", "target", "text"), complete_files),
}
"""What completes an option, or an argument by its name, in whatever command it is."""
