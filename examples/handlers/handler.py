#!/usr/bin/env python3
"""A handler of data jobs, kept warm: queuectl worker start --serve ./handler.py."""

import json
import sys


def handle(job: dict[str, str]) -> dict[str, int]:
    print("counting the letters of", job["id"], file=sys.stderr)  # The job's output.
    return {"letters": len(job.get("data", ""))}


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if "hello" in message:
        say(ready=1)
    elif "job" in message:
        try:
            say(done=message["job"], result=handle(message))
        except Exception as error:
            say(failed=message["job"], error=f"{type(error).__name__}: {error}")
