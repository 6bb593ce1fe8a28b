"""A handler of queuectl: a program that is handed jobs as lines of JSON. docs/handlers.md has more.

It does nothing with them, and could be in any language: nothing of queuectl is imported here. It
takes jobs ahead, so a thread listens while another one runs them: one that waits may be dropped.
"""

import json
import sys
from threading import Condition, Thread

from bench.peers.noop import mark

AHEAD = 128
waiting: dict[int, str] = {}
"""The jobs that haven't begun, with their data."""
news = Condition()


def say(message: dict[str, int]) -> None:
    """Tell the node something, at once."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def listen() -> None:
    """Take in what the node says, until it hangs up."""
    for line in sys.stdin:
        message = json.loads(line)
        with news:
            match message:
                case {"hello": version}:
                    say({"ready": version, "ahead": AHEAD})
                case {"job": run, "data": data}:
                    waiting[run] = data
                case {"drop": run} if waiting.pop(run, None) is not None:
                    say({"dropped": run})
            news.notify()
    with news:
        waiting[0] = ""
        news.notify()


def main() -> None:
    """Handle jobs until there are no more."""
    Thread(target=listen, daemon=True).start()
    done: dict[str, int] = {}
    while True:
        with news:
            if not waiting and done:
                say(done)
                done = {}
            news.wait_for(lambda: waiting)
            run = next(iter(waiting))
            data = waiting.pop(run)
            if not run:
                return
            # That one is done and the next begins is said in one line.
            say({**done, "next": run} if done else {"began": run})
        # What a job has is text to a handler; this one's is JSON.
        mark(json.loads(data)["number"])
        done = {"done": run}


if __name__ == "__main__":
    main()
