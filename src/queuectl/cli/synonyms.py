"""Commands and options of other tools, which people type from habit, and what does that here.

It is looked into only when there is no such command or option. Advice that begins with a command,
or with an option, is to use that; other advice is said as it stands.
"""

from collections.abc import Collection, Mapping

RECURRING = "use queuectl schedule add NAME RULE COMMAND"

MANY_AT_ONCE = "enqueue --lines FILE for many jobs, config set workers N for how many run at once"
AT_ONCE = "queue set NAME --limit N"
STATES = "--state dead for jobs that were given up, --state failed for those that will be retried"


def _all(names: str, advice: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), advice)


COMMANDS: Mapping[str, Mapping[str, str]] = {
    "": {
        **_all("add create put send new batch sbatch ts tsp", "enqueue"),
        **_all("run exec do", "enqueue to add a job, or worker start to run jobs"),
        **_all("srun", "enqueue --follow"),
        **_all("parallel xargs map", MANY_AT_ONCE),
        **_all("scale concurrency", f"config set workers N for each node, {AT_ONCE} over all"),
        **_all("limit limits rate throttle quota semaphore", f"{AT_ONCE}, --rate N/TIME"),
        **_all("why reason", "explain"),
        **_all("signal notify publish trigger fire", "emit NAME for jobs that await it"),
        **_all("snooze nap", "sleep inside a job, enqueue --delay TIME for a new one"),
        **_all("signals", "emitted"),
        **_all("webhook webhooks hooks callback", "hook"),
        **_all("at enqueue-at", "enqueue --run-at TIME"),
        **_all("in delay enqueue-in", "enqueue --delay TIME"),
        **_all("cron every beat recurring periodic", "schedule add NAME RULE COMMAND"),
        **_all("schedules", "schedule list"),
        **_all("start work daemon serve up", "worker start"),
        **_all("stop shutdown quit down", "worker stop"),
        **_all("restart", "retry for a job, worker restart for nodes"),
        **_all("workers nodes ps sinfo", "worker list"),
        **_all("ls jobs squeue atq tasks", "list"),
        **_all("history", "list for jobs, events for what was done by hand"),
        **_all("watch monitor dashboard flower", "status --watch"),
        **_all("size len length count", "status"),
        **_all("tail follow", "logs -f"),
        **_all("log cat", "output for what a job wrote, logs -f while it runs"),
        **_all("info get describe", "show"),
        **_all("inspect job", "show for one job, list for many: list --state processing"),
        **_all("tags", "list --columns id,tags,command; list --tag TAG for those that have it"),
        **_all("sacct report metrics", "stats"),
        **_all("kill abort scancel revoke", "cancel"),
        **_all("finish complete done force_finish force-complete", "force-finish"),
        **_all("stash", "hold for a job, pause for a queue"),
        **_all("freeze suspend", "pause for a queue, hold for a job"),
        **_all("unpause unfreeze continue", "resume for a queue, release for a job"),
        **_all("unhold unstash", "release"),
        **_all("requeue rerun redo replay", "retry"),
        **_all("delete remove del atrm", "rm"),
        **_all("clean clear cleanup", "prune for finished jobs, rm for any that don't run"),
        **_all("purge", "dlq purge for dead jobs, prune for finished ones, rm for waiting ones"),
        **_all("reset flush", "db reset, after worker stop"),
        **_all("update change modify alter reschedule", "edit"),
        **_all("priority prioritize reprioritize nice", "edit --priority N, or top"),
        **_all("bump first urgent promote", "top"),
        **_all("switch exchange reorder", "swap"),
        **_all("mv transfer", "move --to QUEUE"),
        **_all("group", "groups; list, wait, progress, retry and cancel have --group NAME"),
        **_all("dead failed deadletter dead-letter", "dlq list"),
        **_all("settings set", "config"),
        **_all("tokens", "token list"),
        **_all("sessions", "token sessions"),
        **_all("grant apikey api-key users user auth", "token add NAME --role ROLE"),
        **_all("signout sign-out", "token sign-out"),
        **_all("diagnose health check", "doctor"),
        **_all("init", "db init"),
        **_all("migrate upgrade", "db migrate"),
        **_all("backup", "db backup"),
    },
    "worker": {
        **_all("run up work", "start"),
        **_all("kill quit down shutdown", "stop"),
        **_all("ls status ps show", "list"),
        **_all("scale", "use queuectl config set workers N, or start for one more node"),
        **_all("log logs", "list, which names the log of each; queuectl logs has what jobs write"),
    },
    "queue": {
        **_all("ls", "list"),
        **_all("get info describe status keys", "show"),
        **_all("limit limits update edit change config configure rate", "set"),
        **_all(
            "create make add new",
            "use queuectl enqueue --queue NAME: a queue is made by its first job",
        ),
        **_all("stop suspend disable off freeze", "pause"),
        **_all("start unpause continue enable on", "resume"),
        **_all("unset reset clear", "set NAME --clear"),
        **_all("delete remove del destroy drop", "rm"),
        **_all(
            "purge empty", "use queuectl rm --queue NAME: that removes its jobs, queue rm the rest"
        ),
        **_all("mv move call", "rename"),
    },
    "schedule": {
        **_all("ls", "list"),
        **_all("create new set put", "add"),
        **_all("update change modify alter", "edit"),
        **_all("get info describe", "show"),
        **_all("delete remove del unset", "rm"),
        **_all("trigger start now kick", "run"),
        **_all("stop disable suspend off", "pause"),
        **_all("start-again enable unpause on", "resume"),
        **_all("fill catchup catch-up", "backfill"),
        **_all("upcoming preview", "next"),
        **_all("import export", "use queuectl crontab import, or crontab export"),
    },
    "crontab": {
        **_all("load install", "import"),
        **_all("dump save", "export"),
        **_all("ls list -l", "use queuectl schedule list, or export"),
        **_all("edit -e", "use queuectl schedule edit"),
    },
    "dlq": {
        **_all("ls", "list"),
        **_all("get info", "show"),
        **_all("requeue replay rerun redrive", "retry"),
        **_all("rm delete remove clear clean empty flush", "purge"),
        **_all("size len", "count"),
    },
    "config": {
        **_all("ls show", "list"),
        **_all("rm delete remove reset", "unset"),
        **_all("add put", "set"),
    },
    "token": {
        **_all("ls show", "list"),
        **_all("create new issue generate make", "add"),
        **_all("delete remove del revoke", "rm"),
        **_all("session who", "sessions"),
        **_all("logout signout", "sign-out"),
    },
    "db": {
        **_all("ls show status path", "info"),
        **_all("create make setup", "init"),
        **_all("upgrade", "migrate"),
        **_all("verify integrity fsck", "check"),
        **_all("dump export save", "backup"),
        **_all("compact shrink", "vacuum"),
        **_all("move clone", "copy"),
        **_all(
            "restore import load",
            "a backup is restored by putting it in the place of the database"
            " (docs/operations.md, Backup and restore)",
        ),
    },
}
"""For each group, by the words before it: what may be typed there, and what does it."""

OPTIONS: Mapping[str, str] = {
    **_all("--at --when --eta --begin --start-at --not-before", "--run-at"),
    **_all("--in --countdown --defer", "--delay"),
    **_all("--retry --tries --attempts --max-tries", "--max-retries"),
    **_all("--name --label --labels --title --tags --job-name", "--tag"),
    **_all("--partition --pool --topic", "--queue"),
    **_all("--dir --chdir --workdir --directory -C", "--cwd"),
    **_all("--deadline --ttl --expires", "--expire"),
    **_all("--time-limit --max-time --walltime", "--timeout"),
    **_all("--workers --concurrency --processes --procs --jobs --parallel -j -P", "--count"),
    **_all("--burst --once --stop-when-empty", "--drain"),
    **_all("--background --detach --daemonize", "--daemon"),
    **_all("--status", "--state"),
    **_all("--grep --match --filter", "--text"),
    **_all("--unique-key --dedupe --dedup --singleton --idempotency-key", "--unique"),
    **_all("--on-conflict --if-exists", "--on-duplicate"),
    **_all("--depends --depends-on --depend --dependency --then --parent --wait-for", "--after"),
    **_all("--on-parent-failure --if-dependency-fails --kill-on-invalid-dep", "--if-parent-fails"),
    **_all("--database --url --dsn --broker", "--db"),
}
"""Options, and which one is meant if the command has it."""

CLAUSES: Mapping[str, str] = {
    **_all("--cron --every --schedule --repeat --interval --recurring --calendar", RECURRING),
    **_all(
        "--limit --concurrency --max-running --parallel --workers --jobs -j -P",
        f"how many run at once is set on their queue: {AT_ONCE}",
    ),
    **_all(
        "--rate --throttle --rate-limit --max-rate",
        "how many begin in a time is set on their queue: queue set NAME --rate 100/1m",
    ),
    **_all("--background --detach", "a job always runs in the background, unless you --wait"),
}
"""Options of no command here, and what to do instead; only `enqueue` is asked for such."""

INSTEAD: Mapping[str, Mapping[str, str]] = {
    "list": {
        **_all("--all -a", "use --state all, and --limit 0 for more than a page"),
        **_all("--failed --dead --errors", f"use {STATES}"),
        **_all("--running --active", "use --state processing"),
        **_all("--pending --waiting --queued", "use --state pending"),
        **_all("--completed --done", "use --state completed"),
    },
    "retry": {
        **_all("--all -a", "use --state all, or dlq retry --all for dead jobs only"),
        **_all("--failed --dead", f"use {STATES}"),
    },
    "rm": {
        **_all("--all -a", "use --state all"),
        **_all("--older-than", "use prune --older-than AGE, or --until TIME"),
    },
    "prune": {
        **_all("--all -a", "use --state all"),
        **_all(
            "--tag -T --queue -Q --text",
            "use rm with --state completed,cancelled: prune goes by state and age only",
        ),
    },
    "queue set": {
        **_all(
            "--concurrency --max-running --parallel --workers --slots --max-concurrency --count -j",
            "use --limit",
        ),
        **_all("--throttle --rate-limit --max-rate --rps", "use --rate N/TIME, such as 100/1m"),
        **_all("--per-key --key-concurrency --concurrency-per-key", "use --key-limit"),
        **_all("--share --shares --weights", "use --weight KEY=N"),
        **_all("--max-size --max-length --maxlen --capacity --size", "use --max-waiting"),
        **_all("--overflow --on-full --policy", "use --when-full"),
        **_all("--unset --reset --remove --no-limit", "use --limit none, or --clear for all"),
    },
    "worker start": {
        **_all("--strict --strict-order --ordered --order", "use --in-order"),
        **_all("--except --skip --ignore --without --but --not", "use --exclude"),
        **_all("--weight --weights --share --shares", "use --queue NAME:N, such as mail:3"),
    },
    "logs": _all("--tail --lines -n", "use queuectl logs ID | tail -n N"),
    "output": {
        **_all("--tag -T --queue -Q", "use logs --tag TAG"),
        **_all("--follow -f", "use logs -f ID"),
        **_all("--tail -n", "use queuectl output ID --stdout | tail -n N"),
    },
}
"""Options that a command hasn't got, by its words, and what does their work."""


def command_for(group: str, name: str, known: Collection[str]) -> str | None:
    """Return what does the work of a command that isn't in a group, as the end of a sentence."""
    advice = COMMANDS.get(group, {}).get(name.lower())
    if advice is None:
        return None
    return f"use {advice}" if advice.split()[0].rstrip(",;") in known else advice


def option_for(command: str, name: str, known: Collection[str]) -> str | None:
    """Return what does the work of an option that a command doesn't have."""
    if (instead := INSTEAD.get(command, {}).get(name)) is not None:
        return instead
    found = OPTIONS.get(name)
    if found in known:
        return f"use {found}"
    return CLAUSES.get(name) if command == "enqueue" else None
