"""A handler of queuectl: a program that is handed jobs as lines of JSON. docs/handlers.md has more.

It does nothing with them, and could be in any language: nothing of queuectl is imported here.
"""

import json
import sys

from bench.peers.noop import mark


def say(message: dict[str, int]) -> None:
    """Tell the node something, at once."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Handle jobs until there are no more."""
    for line in sys.stdin:
        match json.loads(line):
            case {"hello": version}:
                say({"ready": version})
            case {"job": run, "data": data}:
                # What a job has is text to a handler; this one's is JSON.
                mark(json.loads(data)["number"])
                say({"done": run})


if __name__ == "__main__":
    main()
