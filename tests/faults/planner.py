"""A process that changes schedules as it is told, on a host whose clock somebody may move.

`python -m tests.faults.planner` with the queue in the environment. Each line of stdin is a list in
JSON: a verb of `queue.schedules`, its positional arguments, and its keywords. Each is answered by a
line with the state of that schedule, or, to `quiet`, with the time if all that is due has come.
"""

import json
import sys
from typing import Any

from queuectl import Queue
from queuectl.store import clock
from tests.contract.tools import transaction


def state(queue: Queue, name: str) -> dict[str, Any]:
    """Return what is told of a schedule: times in milliseconds."""
    there = queue.schedules.get(name)
    return {"anchor": there.anchor, "changed": there.updated_at}


def quiet(queue: Queue) -> int | None:
    """Return the time until which all that is due has come; None if something hasn't."""
    # It is as a transaction begins that a server's clock is asked.
    with transaction(queue.store):
        schedules, now = queue.schedules.all(), queue.now()
    for there in schedules:
        # One that isn't paused and has no time waits for the end of a job.
        if there.paused_at is None and (there.next_at is None or there.next_at <= now):
            return None
    return now


def main() -> None:
    """Do what stdin says, until it ends."""
    # What the server's clock says is asked each time: it has jumped since.
    clock.STALE = 0.0
    with Queue() as queue:
        for line in sys.stdin:
            verb, args, keywords = json.loads(line)
            if verb == "quiet":
                answer: Any = quiet(queue)
            else:
                getattr(queue.schedules, verb)(*args, **keywords)
                answer = state(queue, args[0])
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
