"""The same command line on a file and through a server: what is said, and the exit codes."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from tests.remote.conftest import Pair
from tests.support import Lab

READING = """
list
list --state dead,completed --json
list --queue mail --tag slow
list --sort -priority,id --limit 2
list --limit 1
list --oldest --limit 2 -q
list --tag nigthly
list --queue mial
list --text later
list --since 1h --until +1m
list --after later
list --after nothing
list --state odd
list --sort odd
show good
show bad --json
show rows
show later
show data
show exact
show nothing
show lat
explain later
explain exact
explain
explain --json
show child
show grandchild --json
explain grandchild
graph grandchild
graph later --json
graph later --format mermaid --limit 2
graph nothing
cancel later --dry-run
cancel later --dry-run --json
rm child --dry-run --json
output good
output bad --json
output bad --stdout
output rows good
output later
output good --attempt 7
logs good
logs good --stderr
logs bad --json
logs --tag nightly
logs later
logs good -f
logs good bad -f
logs rows data --json
result rows
result good
result later
steps good
status --json
stats --json
stats --queue mail
events -q
events --limit 3
events --kind hold --text o --since 1d --json
events --who nobody
events good --json
dlq list
dlq list --json
dlq show bad
dlq count
queue list
queue show mail --json
queue show default
queues
groups
groups --json
groups -q
groups nothing
groups sweep
progress --group sweep --once
progress --group sweep --json
progress --group nothing
results --group sweep
results --group sweep --csv
results --group sweep --json --last-line
results --group nothing
list --group sweep -q
list --group nothing
wait --group sweep --timeout 1ms
wait --group nothing
explain el-1
emitted
emitted paid --json
hook list
hook list --json
hook list -q
hook show ops
hook show ops --json
hook show odd
hook show opps
hook pause odd
schedule list
schedule show backup
schedule show odd
schedule next backup --count 2
config list
config get max_retries
worker list
token show
wait good
wait bad
wait good bad
wait nothing
wait later --timeout 1ms
wait --tag nosuch
version
""".strip().splitlines()

CHANGING = """
enqueue true --id one --priority 3 --tag a --timeout 1h
enqueue true --id one
enqueue true --queue mali --id two
enqueue {"command":"x","odd":1}
enqueue true --priority high
enqueue true --delay 1h --id three --unique k
enqueue true --delay 1h --id four --unique k
enqueue true --id five --run-at 2001-01-01 --json
enqueue --id six --delay 1d -- printf "%s" "a b"
enqueue [{"command":"true","id":"m1"},{"command":"true","id":"m2","queue":"mail"}]
enqueue [{"command":"true","id":"m3"},{"command":"true","id":"m1"}]
enqueue --keep-going [{"command":"true","id":"m4"},{"command":"true","id":"m1"},{"id":"bad"}]
push d1 some-data --type t
push d1 some-data
edit one --priority 7 --timeout 2h
edit good --priority 7
edit one nothing --priority 8 --json
hold one
hold one
retry one
release one
move one --to other
move one --to other
top one m1
swap m1 m4
swap m1 one
retry bad --from-step nothing
retry bad --with command=true --dry-run
retry bad
retry --state dead
enqueue "echo {}" --array 1-3 --group arr --max-fails 1 --on-done "echo over" --delay 1d -q
enqueue true --group arr --on-done "echo again" --id el-4
enqueue true --on-done "echo again"
cancel el-1 el-4
cancel --group arr --dry-run
retry --group sweep
cancel --group arr --json
retry --group arr
retry --group nothing
cancel m1 nothing --reason enough
cancel m1
cancel --tag a --dry-run
cancel --queue other --json
force-finish m4 --result {"a":1}
force-finish later --result {
rm m1
rm --state cancelled --json
rm
prune --state completed --older-than 1000d
prune --state completed --older-than 1000d --json
dlq retry bad
dlq purge --all --yes
pause default
pause default
enqueue true --id seven
resume default
resume nosuch
queue set mail --limit 3 --rate 10/1m
queue set mail --limit none --json
queue set mail --limit many
queue rename other more
queue rename nosuch more
queue rm nosuch
schedule add hourly --every 1h -- true
schedule add hourly --every 1h -- true
schedule add odd --cron "99 * * * *" -- true
schedule edit hourly --jitter 1m
schedule pause hourly
schedule resume hourly
schedule run hourly
schedule rm hourly nothing
config set max_retries 5
config set max_retries lots
config set max_retires 5
config unset max_retries
emit paid 1
emit unpaid 1
token add t1 --role view --json
token add t1 --role view
token add t2 --role odd
token rm t1
token rm t1
worker stop
hold --tag nightly --dry-run --json
hold exact m1 nothing
undo --dry-run
undo --json
undo
undo nosuch
hook add https://hooks.example.com/a --on dead,cancelled --queue mail
hook add https://hooks.example.com/a
hook add https://hooks.example.com/b --name second --via mine --data --json
hook add ftp://hooks.example.com
hook add https://hooks.example.com/b --name third --on dad
hook pause second hooks.example.com
hook pause second --json
hook resume second odd
hook resume second hooks.example.com
hook add http://127.0.0.1:1/ --allow-private --name local
hook test local
hook test local --json
hook test odd
cancel exact
hook show hooks.example.com
hook show hooks.example.com --json
hook rm second odd
hook rm second hooks.example.com --json
""".strip().splitlines()

ALIKE = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME"),
    (r"\b\d+(\.\d+)?(ms|s|m|h|d)(\d+[hms])*\b", "SPAN"),
    (r"\b([a-z2-7]{12}|[a-z2-7]{8})\b", "ID"),
    (r"\"(id|secret|who|created_by|cwd|node|database|queuectl|host)\": (\"[^\"]*\"|null)", r"\1"),
    (r"(\"\w*_ms\"|\"worker\"|\"pid\"|\"at\"): [\d.]+", r"\1"),
    (r"(\"(peak_memory|read_bytes|written_bytes|median|p95|max)\"): \d+", r"\1"),
    (r"\b\d+(\.\d+)? (bytes|KiB|MiB)", "SIZE"),
    (r"\S+@\S+|laptop \(web\)", "WHO"),
    (r"sqlite:\S+?/queue.db|http://127.0.0.1:\d+", "WHERE"),
    (r"\(\d+\.\d\d s\)", "(SPAN)"),
    (r"\"left\": [\d.]+", "left"),
    (r"whsec_\S+", "SECRET"),
    (r"-{3,}", "---"),
    (r" +", " "),
)
"""What may differ: times, ids, and who it was."""


FOLLOWS_TWO = "logs good bad -f"
"""Whose output comes first isn't said."""


def plain(text: str) -> str:
    for pattern, instead in ALIKE:
        text = re.sub(pattern, instead, text)
    return text


FORKING = """
import json, os, sys, tempfile
import queuectl.cli.main, queuectl.remote.queue, queuectl.remote.news

told = []
for words in json.load(sys.stdin):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if not (pid := os.fork()):
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.argv = ["queuectl", *words]
            try:
                queuectl.cli.main.main(words)
            except SystemExit as end:
                sys.stdout.flush()
                os._exit(end.code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said = [(file.seek(0), file.read().decode("latin-1"))[1] for file in (out, err)]
        told.append([str(code), *said])
json.dump(told, sys.stdout)
"""
"""Runs commands one after the other as processes that needn't import anything any more."""


def run_all(lab: Lab, lines: list[list[str]]) -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        env=lab.env,
        cwd=lab.folder,
        input=json.dumps(lines),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [[plain(part) for part in told] for told in json.loads(done.stdout)]


def in_any_order(said: list[str]) -> list[list[str]]:
    return [sorted(part.splitlines()) for part in said]


def compare(pair: Pair, lines: list[str]) -> None:
    words = [line.split(" ") if re.search(r"[\[{]", line) else shlex.split(line) for line in lines]
    near, far = run_all(pair.near, words), run_all(pair.far, words)
    odd = [
        f"{line}\n  near: {one}\n  far:  {other}"
        for line, one, other in zip(lines, near, far, strict=True)
        if one != other and (line != FOLLOWS_TWO or in_any_order(one) != in_any_order(other))
    ]
    assert not odd, "\n".join(odd)


@pytest.mark.parametrize("part", range(2))
def test_what_reads_says_the_same(pair: Pair, part: int) -> None:
    compare(pair, READING[part::2])


def test_what_changes_something_says_and_does_the_same(pair: Pair) -> None:
    compare(pair, CHANGING)
    with pair.remote() as remote:
        near, far = (
            {job.id: (job.state, job.queue, job.priority, job.timeout) for job in queue.iterate()}
            for queue in (pair.near.queue, remote)
        )
    made = {id for id in near.keys() | far.keys() if len(id) == 12}
    assert {k: v for k, v in near.items() if k not in made} == {
        k: v for k, v in far.items() if k not in made
    }
