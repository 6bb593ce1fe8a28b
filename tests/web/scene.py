"""A queue with something of everything in it, for browsers to look at."""

import math
from contextlib import closing
from typing import Any

import apsw

from queuectl import State, expand
from queuectl.store.histogram import bucket_of
from queuectl.store.rollups import Tally
from queuectl.values import replace
from queuectl.webhooks import read_webhook
from tests.support import Lab, wait_for

MINUTE = 60_000
LIVE = "report-2031"
"""A job that runs, and writes in colours."""
SWEEP = "sweep-x7k2"
"""A group whose jobs have parameters and results."""
COLOURS = (
    "#!/bin/sh\nprintf '\\033[1mrender\\033[0m %s\\n' 'monthly report'; i=0;"
    " while [ $i -lt 100000 ]; do i=$((i+1));"
    " printf '\\033[32mok\\033[0m page %s \\033[2m(%s rows)\\033[0m\\n' $i $((i*37));"
    " [ $((i % 7)) = 0 ] && printf '\\033[33mwarning\\033[0m: page %s is long\\n' $i >&2;"
    " sleep 0.4; done\n"
)


def fill(lab: Lab) -> None:
    """Enqueue, run and break things, and wait until they are as they are meant to be."""
    queue = lab.queue
    queue.limits.set("mail", limit=3, rates=["600/1m"])
    queue.limits.set("video", limit=1)
    queue.set_setting("retry_delay", "1h")
    schedules = queue.schedules

    def enqueue(command: str, **fields: Any) -> None:
        queue.enqueue({"command": command, "cwd": str(lab.folder), **fields})

    schedules.add("nightly-backup", "0 3 * * *", "backup.sh --all", tz="Europe/Zurich")
    schedules.add("refresh-feeds", "every 15m", {"command": "feeds refresh", "queue": "default"})
    schedules.add("month-end", "0 6 1 * *", "ledger close", tz="UTC")
    schedules.pause("month-end")
    # An address that no node may connect to, so that nothing leaves this host.
    inside = read_webhook(
        "https://10.20.0.5/queue?key=8c1f", "dead", name="ops", queues=["thumbs"], private=True
    )
    queue.webhooks.add_read(replace(inside, private=False))
    queue.webhooks.add("https://chat.example.com/hooks/T0/B1", ["dead", "failed"], name="chat")
    queue.webhooks.pause("chat")
    served = [
        part
        for name in ("mail", "reports", "default", "thumbs", "webhooks")
        for part in ("--queue", name)
    ]
    lab.node(*served, count=4)
    lab.node("--queue", "video", count=1)
    script = lab.folder / "render-report"
    script.write_text(COLOURS)
    script.chmod(0o755)
    command = "./render-report --month 10 --format pdf"
    enqueue(command, id=LIVE, queue="reports", tags=["monthly", "pdf"], priority=5)
    enqueue("sleep 600", id="encode-77", queue="video", timeout="1h")
    enqueue("ffmpeg -i talk.mov talk.webm", id="encode-78", queue="video")
    lab.wait_state(LIVE, State.PROCESSING)
    lab.wait_state("encode-77", State.PROCESSING)
    for number in range(12):
        enqueue(f"echo sent letter {number}", id=f"mail-{number}", queue="mail", tags=["news"])
    for number in range(9):
        command = f"echo 'smtp 10.0.0.{number}: connection refused' >&2; exit 69"
        enqueue(command, id=f"bounce-{number}", queue="mail", max_retries=0, tags=["news"])
    for number in range(3):
        command = "echo 'no space left on device' >&2; exit 28"
        enqueue(command, id=f"thumb-{number}", queue="thumbs", max_retries=0)
    enqueue("no-such-program --now", id="typo", max_retries=0)
    enqueue("echo 'it is Sunday' >&2; exit 1", id="weekday-only", backoff="fixed")
    made = [f"bounce-{n}" for n in range(9)] + [f"thumb-{n}" for n in range(3)] + ["typo"]
    for id in (*made, *(f"mail-{n}" for n in range(12))):
        lab.wait_state(id, State.DEAD, State.COMPLETED)
    lab.wait_state("weekday-only", State.FAILED)
    pipeline(lab)
    enqueue("invoice send 4411", id="held-invoice", queue="mail", priority=3, delay="2h")
    queue.hold("held-invoice")
    for number in range(2):
        enqueue("sleep 900", id=f"newsletter-{number}", queue="mail", tags=["news"])
        lab.wait_state(f"newsletter-{number}", State.PROCESSING)
    enqueue("remind --late", id="tomorrow", queue="mail", delay="1d")
    enqueue("tar -c 2025", id="cold-storage", queue="archive")
    enqueue("echo never", id="called-off", delay="1h")
    queue.cancel("called-off", reason="not needed any more")
    group(lab)
    wait_for(lambda: queue.counts(), "counts")


def group(lab: Lab) -> None:
    """Have a sweep that is over, and a pipeline that waits for what is dead."""
    queue = lab.queue
    told = (
        'test {seed} = 4 && exit 3; printf \'{"loss": 0.%s, "epochs": %s}\' $((97 * {seed} % 31))'
        ' $((20 + {seed})) > "$QUEUECTL_RESULT"'
    )
    sweep = {"lr": ["0.1", "0.01"], "seed": range(1, 5)}
    queue.enqueue_many(
        expand(told, sweep=sweep), group=SWEEP, max_retries=0, max_fails=5, cwd=str(lab.folder)
    )
    wait_for(lambda: not queue.groups.get(SWEEP).open, "the sweep")
    scanned = [{"command": f"scan --page {n}", "id": f"scan-{n}"} for n in range(1, 8)]
    queue.enqueue_many([{**one, "command": "true"} for one in scanned], group="ocr")
    queue.enqueue("echo 'no such page' >&2; exit 3", id="scan-8", group="ocr", max_retries=0)
    wait_for(lambda: queue.groups.get("ocr").open == 0, "what is scanned")
    for number in range(1, 4):
        command = f"ocr --chapter {number}"
        queue.enqueue(command, id=f"chapter-{number}", group="ocr", after="scan-8")
    queue.enqueue("book bind", id="bind", after_group="ocr")
    queue.groups.on_done("ocr", "mail -s 'the book' ann", id="tell-ann")


def pipeline(lab: Lab) -> None:
    """Run a night's work in which one job dies: what waits for that waits in vain."""
    own: dict[str, Any] = {"queue": "reports", "cwd": str(lab.folder), "max_retries": 0}
    shards = [f"shard-{number:02}" for number in range(1, 13)]
    bad = "echo 'checksum of shard-07 is wrong' >&2; exit 3"
    lab.queue.enqueue_many(
        [
            {**own, "id": "fetch", "command": "echo fetched 12 parts"},
            *({**own, "id": name, "command": f"echo {name}", "after": "fetch"} for name in shards),
            {**own, "id": "merge", "command": bad, "after": shards},
            {**own, "id": "approval", "command": "echo approved", "delay": "1d"},
            {**own, "id": "night-report", "command": "./report.py --pdf", "after": "merge"},
            {
                **own,
                "id": "publish",
                "command": "rsync -a out/ www:",
                "after": ["night-report", "approval"],
            },
            {**own, "id": "alert", "command": "echo alerted", "after": "merge:fail"},
            {**own, "id": "clean-up", "command": "echo cleaned", "after": "merge:any"},
        ]
    )
    for id in ("alert", "clean-up"):
        lab.wait_state(id, State.COMPLETED)


def remember(lab: Lab, hours: int = 26) -> None:
    """Have the queue look back on a busy day: times of runs, by the minute."""
    now = lab.queue.now()
    tally = Tally()
    for ago in range(2, hours * 60):
        at = (now - ago * MINUTE) // MINUTE * MINUTE
        wave = 1 + math.sin(ago / 23) + 0.5 * math.sin(ago / 5)
        for queue, weight in (("mail", 12), ("reports", 4), ("thumbs", 20), ("default", 3)):
            many = int(weight * max(wave, 0.1)) + ago % 3
            for number in range(8):
                share = many * (8 - number) // 20
                if share:
                    ms = int(90 * weight * (1 + number**1.7) * (1 + 0.3 * math.sin(ago / 11)))
                    merge(tally, at, queue, "completed", share, ms)
                    merge(tally, at, queue, "wait", share, 30 + ms // 9)
            if ago % 17 < 3:
                merge(tally, at, queue, "failed", 1 + weight // 8, 700)
            if ago % 53 < 2 and queue == "mail":
                merge(tally, at, queue, "dead", 2, 900)
    tally.count_for_ever()
    # By the library that we have it open with: another one would take our locks away.
    with closing(apsw.Connection(str(lab.db))) as db, db:
        names = "at queue node measure bucket count total_ms least_ms most_ms".split()
        db.executemany(
            f"INSERT INTO rollups ({', '.join(names)}) VALUES"
            f" ({', '.join(':' + name for name in names)}) ON CONFLICT DO NOTHING",
            list(tally.rows()),
        )


def merge(tally: Tally, at: int, queue: str, measure: str, many: int, ms: int) -> None:
    """Add so many durations of one kind."""
    tally.merge((at, queue, "", measure, bucket_of(ms)), (many, many * ms, ms, ms))
