"""Every attempt keeps its output: all bytes, within the limit, with the node's memory flat."""

from pathlib import Path

from queuectl import State
from queuectl.filter import Filter
from tests.support import Lab, wait_for

MIB = 2**20


def memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def disk(folder: str) -> int:
    """Return the bytes of disk the files of a folder occupy."""
    total = 0
    for path in Path(folder).rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def test_arbitrary_bytes_survive(lab: Lab) -> None:
    program = "import os; os.write(1, bytes(range(256)) * 3); os.write(2, b'\\xff\\xfe\\x00bad\\n')"
    id = lab.queue.enqueue(["python3", "-c", program + "; os._exit(3)"], max_retries=0).id
    lab.node()
    job = lab.wait_state(id, State.DEAD)
    output = lab.queue.output(id)
    assert output.stdout == bytes(range(256)) * 3
    assert output.stderr == b"\xff\xfe\x00bad\n"
    assert job.exit_code == 3
    assert job.error == "exit code 3: \ufffd\ufffd\ufffdbad"


def test_two_hundred_megabytes(lab: Lab) -> None:
    node = lab.node()
    warm = lab.queue.enqueue("echo warm").id
    lab.wait_state(warm, State.COMPLETED)
    before = memory(node.pid)
    # A busy machine may take long to free the middle of it; so the job waits for that.
    freed = "until [ $(stat -Lc %b /proc/$$/fd/1) -lt 20000 ]; do sleep 0.05; done"
    some = f"yes 0123456789abcdef | head -c 20000000; {freed}"
    script = f"echo HEAD; for n in 1 2 3 4 5 6 7 8 9 10; do {some}; done; echo; echo TAIL; exit 7"
    id = lab.queue.enqueue(script, max_retries=0).id
    most_disk = most_memory = 0

    def over() -> bool:
        nonlocal most_disk, most_memory
        most_disk = max(most_disk, disk(lab.queue.store.folder.spool))
        most_memory = max(most_memory, memory(node.pid))
        return lab.queue.get(id).state == State.DEAD

    wait_for(over, "the chatty job")
    output = lab.queue.output(id)
    assert lab.queue.get(id).exit_code == 7
    assert len(output.stdout) == MIB
    assert output.stdout_bytes == 200_000_000 + len("HEAD\n\nTAIL\n")
    assert output.stdout.startswith(b"HEAD\n0123456789abcdef\n")
    assert output.stdout.endswith(b"\nTAIL\n")
    assert most_memory - before < 16 * MIB
    assert most_disk < 40 * MIB


def test_the_output_of_every_attempt_is_kept(lab: Lab) -> None:
    id = lab.queue.enqueue(
        "echo run $QUEUECTL_ATTEMPT; false", max_retries=2, retry_delay="10ms"
    ).id
    lab.node()
    lab.wait_state(id, State.DEAD)
    kept = [lab.queue.output(id, number).stdout for number in (1, 2, 3)]
    assert kept == [b"run 1\n", b"run 2\n", b"run 3\n"]


def test_a_stream_that_cannot_be_read_leaves_the_other(lab: Lab) -> None:
    # A socket can't be opened as files are, whoever tries.
    program = (
        "import os, socket; folder, name = os.path.split(os.readlink('/proc/self/fd/2'));"
        "os.write(1, b'kept'); os.chdir(folder); os.unlink(name);"
        "socket.socket(socket.AF_UNIX).bind(name)"
    )
    id = lab.queue.enqueue(["python3", "-c", program]).id
    lab.node()
    lab.wait_state(id, State.COMPLETED)
    assert lab.queue.output(id).stdout == b"kept"


def test_a_limit_of_nothing_keeps_nothing(lab: Lab) -> None:
    lab.queue.set_setting("output_limit", "0")
    id = lab.queue.enqueue("echo something").id
    lab.node()
    lab.wait_state(id, State.COMPLETED)
    output = lab.queue.output(id)
    assert (output.stdout, output.stdout_bytes) == (b"", len("something\n"))


def test_long_commands_run(lab: Lab) -> None:
    filler = "x" * 300_000
    id = lab.queue.enqueue(f"v={filler}; echo ${{#v}}").id
    long_argument = "y" * 100_000
    exact = lab.queue.enqueue(["sh", "-c", 'echo "${#1}"', "sh", long_argument]).id
    other = lab.queue.enqueue(f"v={filler}; [[ $v == x* ]] && wc -c", shell="bash", stdin="ab").id
    lab.node()
    lab.wait_state(id, State.COMPLETED)
    assert lab.queue.output(id).stdout == b"300000\n"
    lab.wait_state(exact, State.COMPLETED)
    assert lab.queue.output(exact).stdout == b"100000\n"
    lab.wait_state(other, State.COMPLETED)
    assert lab.queue.output(other).stdout == b"2\n"
    # What was made for them to read is gone with them.
    spool = Path(lab.queue.store.folder.spool)
    wait_for(lambda: not [*spool.glob("*/*.sh"), *spool.glob("*/*.in")], "an empty spool")


def test_a_thousand_quick_jobs_keep_their_own_output(lab: Lab) -> None:
    lab.queue.enqueue_many([f"echo {n}; echo err {n} >&2" for n in range(1000)])
    lab.node("--drain", count=8).wait(120)
    jobs = lab.queue.list(Filter(states=(State.COMPLETED,)), limit=None, oldest=True)
    assert len(jobs) == 1000
    for n, job in enumerate(jobs):
        output = lab.queue.output(job.id)
        assert (output.stdout, output.stderr) == (f"{n}\n".encode(), f"err {n}\n".encode())
