"""The guard, with real processes: what it starts, what it ends, and that nothing gets away."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from queuectl.guard import tree
from queuectl.guard.wire import Spawn, Stop
from queuectl.node.guards import Guard, GuardLostError
from tests.guard.harness import Harness, alive, pids_in, until

PYTHON = sys.executable


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    harness.guard.close()


class TestEnds:
    @pytest.mark.parametrize("code", [0, 1, 7, 255])
    def test_exit_code(self, guard: Harness, code: int) -> None:
        ended = guard.end(guard.shell(f"exit {code}"))
        assert (ended.code, ended.how) == (code, "exited")
        assert 0 <= ended.ended - ended.started < 60

    def test_foreign_signal_is_an_exit(self, guard: Harness) -> None:
        ended = guard.end(guard.shell("kill -SEGV $$"))
        assert (ended.code, ended.how) == (-signal.SIGSEGV, "exited")

    def test_sizes_are_counted(self, guard: Harness) -> None:
        run = guard.shell("printf 12345; printf 123 >&2")
        ended = guard.end(run)
        assert (ended.out, ended.err) == (5, 3)
        assert (guard.output(run), guard.errors(run)) == (b"12345", b"123")

    def test_both_streams_may_share_a_file(self, guard: Harness, tmp_path: Path) -> None:
        both = str(tmp_path / "both")
        ended = guard.end(guard.shell("echo a; echo b >&2; echo c", stdout=both, stderr=both))
        assert Path(both).read_text() == "a\nb\nc\n"
        assert (ended.out, ended.err) == (6, 6)


class TestStart:
    def test_arguments_arrive_exactly(self, guard: Harness) -> None:
        words = [
            "",
            " ",
            "a b",
            "'\"",
            "new\nline",
            "$HOME *",
            "\u00e9\u4e2d\U0001f600",
            "\udcff",
            "-n",
        ]
        run = guard.shell('for a; do printf "%s\\0" "$a"; done')
        guard.wait(run)
        run = guard.spawn("/bin/sh", "-c", 'for a; do printf "%s\\0" "$a"; done', "sh", *words)
        assert guard.end(run).code == 0
        assert guard.output(run) == b"".join(os.fsencode(word) + b"\0" for word in words)

    def test_environment(self, guard: Harness) -> None:
        run = guard.shell('echo "$COLOUR:$QUEUECTL_RUN:$HOME"', env={"COLOUR": "gr\u00fcn"})
        assert guard.end(run).code == 0
        token = f"token-{os.getpid()}-{guard.guard.pid}-{run}"
        assert guard.output(run).decode() == f"gr\u00fcn:{token}:{os.environ.get('HOME', '')}\n"

    def test_no_input_is_end_of_file(self, guard: Harness) -> None:
        run = guard.shell("cat; echo end")
        assert guard.end(run).code == 0
        assert guard.output(run) == b"end\n"

    def test_input_from_a_file(self, guard: Harness, tmp_path: Path) -> None:
        (tmp_path / "data").write_bytes(b"\0\xff data")
        run = guard.spawn("cat", stdin=str(tmp_path / "data"))
        assert guard.end(run).code == 0
        assert guard.output(run) == b"\0\xff data"

    def test_no_descriptor_leaks(self, guard: Harness) -> None:
        other = guard.shell("sleep 1000")
        run = guard.spawn("ls", "/proc/self/fd")
        assert guard.end(run).code == 0
        # The fourth is the directory that `ls` reads.
        assert guard.output(run).split() == [b"0", b"1", b"2", b"3"]
        guard.tell("kill", other, "enough")
        guard.wait(other)

    def test_signals_are_as_new(self, guard: Harness) -> None:
        run = guard.spawn("grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status")
        assert guard.end(run).code == 0
        # Two signals beyond the classic 31 are the C library's own.
        classic = (1 << 31) - 1
        masks = [int(line.split()[1], 16) & classic for line in guard.output(run).splitlines()]
        assert masks == [0, 0]

    def test_own_session(self, guard: Harness) -> None:
        run = guard.shell("cut -d' ' -f1,6 /proc/$$/stat")
        assert guard.end(run).code == 0
        pid, session = guard.output(run).split()
        assert pid == session

    def test_output_is_private_whatever_the_umask(self, tmp_path: Path) -> None:
        for umask in (0o000, 0o277):
            before = os.umask(umask)
            try:
                harness = Harness(tmp_path)
            finally:
                os.umask(before)
            run = harness.shell("umask", stdout=str(tmp_path / str(umask)))
            assert harness.end(run).code == 0
            assert (tmp_path / str(umask)).stat().st_mode & 0o777 == 0o600
            assert int((tmp_path / str(umask)).read_text(), 8) == umask
            harness.guard.close()

    def test_program_from_the_path_of_the_job(self, guard: Harness, tmp_path: Path) -> None:
        tool = _script(tmp_path / "bin" / "frobnicate", "#!/bin/sh\necho found $1")
        path = f"/nowhere:{tool.parent}:{os.environ['PATH']}"
        run = guard.spawn("frobnicate", "it", env={"PATH": path})
        assert guard.end(run).code == 0
        assert guard.output(run) == b"found it\n"

    def test_relative_program_and_directory(self, guard: Harness, tmp_path: Path) -> None:
        _script(tmp_path / "sub" / "tool", "#!/bin/sh\npwd")
        run = guard.spawn("./tool", cwd=str(tmp_path / "sub"))
        assert guard.end(run).code == 0
        assert guard.output(run).decode() == f"{tmp_path}/sub\n"

    def test_script_without_interpreter_line(self, guard: Harness, tmp_path: Path) -> None:
        _script(tmp_path / "plain", 'echo "plain $1"')
        run = guard.spawn("./plain", "a b")
        assert guard.end(run).code == 0
        assert guard.output(run) == b"plain a b\n"

    def test_no_directory_is_pinned(self, guard: Harness, tmp_path: Path) -> None:
        assert guard.end(guard.shell("true")).code == 0
        until(lambda: os.readlink(f"/proc/{guard.guard.pid}/cwd") == "/", "the guard to be in /")

    def test_without_a_directory_it_starts_where_the_node_is(self, guard: Harness) -> None:
        run = guard.spawn("pwd", cwd=None)
        assert guard.end(run).code == 0
        assert guard.output(run).decode() == f"{os.getcwd()}\n"


class TestNotStarted:
    def test_reasons(self, guard: Harness, tmp_path: Path) -> None:
        plain = tmp_path / "plain"
        plain.write_text("#!/bin/sh\n")
        _script(tmp_path / "orphaned", "#!/nowhere/interpreter\n")
        no = {"stdout": f"{tmp_path}/nowhere/out"}
        cases = {
            guard.spawn("frobnicate"): (errno.ENOENT, "command not found: frobnicate"),
            guard.spawn(""): (errno.ENOENT, "command not found: "),
            guard.spawn("./nope"): (errno.ENOENT, "command not found: ./nope"),
            guard.spawn("./plain/x"): (errno.ENOTDIR, "command not found: ./plain/x"),
            guard.spawn("./plain"): (errno.EACCES, "permission denied: ./plain"),
            guard.spawn("/usr"): (errno.EACCES, "is a directory: /usr"),
            guard.spawn("plain", env={"PATH": str(tmp_path)}): (
                errno.EACCES,
                "permission denied: plain",
            ),
            guard.spawn("./orphaned"): (
                errno.ENOENT,
                "the interpreter named in its first line does not exist: ./orphaned",
            ),
            guard.spawn("true", cwd="/nowhere"): (
                errno.ENOENT,
                "working directory does not exist: /nowhere",
            ),
            guard.spawn("true", cwd=str(plain)): (
                errno.ENOTDIR,
                f"working directory is not a directory: {plain}",
            ),
            guard.spawn("true", **no): (
                errno.ENOENT,
                f"can't write {tmp_path}/nowhere/out: no such file or directory",
            ),
            guard.spawn("true", "x" * 200_000): (
                errno.E2BIG,
                "arguments and environment are too long for this system: true",
            ),
            guard.spawn("echo", "a\0b"): (
                errno.EINVAL,
                "can't start this command: embedded null byte",
            ),
            guard.spawn(): (errno.EINVAL, "can't start this command: it is empty"),
        }
        assert {run: guard.refusal(run) for run in cases} == cases
        assert guard.below() == []

    def test_the_guard_goes_on(self, guard: Harness) -> None:
        guard.refusal(guard.spawn("frobnicate", "\ud800"))
        guard.refusal(guard.spawn("true", env={"A=B": "c"}))
        assert guard.end(guard.shell("exit 3")).code == 3

    def test_a_number_in_use_is_refused(self, guard: Harness) -> None:
        run, spec = guard.spec("sleep", "1000")
        guard.guard.send([Spawn(run, spec), Spawn(run, spec)])
        assert guard.refusal(run)[0] == errno.EEXIST


DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
with open(sys.argv[1], "a") as f: f.write(f"{os.getpid()}\\n")
time.sleep(1000)
"""


class TestLeftovers:
    def test_background_child(self, guard: Harness, tmp_path: Path) -> None:
        run = guard.shell("sleep 1000 & echo $! > pids; echo hi")
        ended = guard.end(run)
        assert (ended.code, ended.how) == (0, "exited")
        assert guard.output(run) == b"hi\n"
        assert not any(map(alive, pids_in(tmp_path / "pids", 1)))

    def test_daemon(self, guard: Harness, tmp_path: Path) -> None:
        (tmp_path / "daemon.py").write_text(DAEMON)
        run = guard.shell(f"{PYTHON} daemon.py pids; while [ ! -s pids ]; do sleep 0.01; done")
        assert guard.end(run).code == 0
        assert not any(map(alive, pids_in(tmp_path / "pids", 1)))
        assert guard.below() == []

    def test_daemon_without_environment_alone(self, guard: Harness, tmp_path: Path) -> None:
        (tmp_path / "daemon.py").write_text(DAEMON)
        run = guard.shell(_hidden("pids"))
        assert guard.end(run).code == 0
        assert not any(map(alive, pids_in(tmp_path / "pids", 1)))

    def test_daemon_without_environment_among_others(self, guard: Harness, tmp_path: Path) -> None:
        (tmp_path / "daemon.py").write_text(DAEMON)
        other = guard.shell("echo $$ > other; exec sleep 1000")
        pids_in(tmp_path / "other", 1)
        assert guard.end(guard.shell(_hidden("pids"))).code == 0
        assert not any(map(alive, pids_in(tmp_path / "pids", 1)))
        assert not guard.over(other)

    def test_daemon_without_a_mark_among_others(self, guard: Harness, tmp_path: Path) -> None:
        (tmp_path / "daemon.py").write_text(DAEMON)
        other = guard.shell("echo $$ > other; exec sleep 1000")
        pids_in(tmp_path / "other", 1)
        unmarked = "prlimit --rttime=unlimited --pid $$;" + _hidden("pids")
        assert guard.end(guard.shell(unmarked)).code == 0
        later = guard.shell("echo $$ > later; exec sleep 1000")
        pids_in(tmp_path / "later", 1)
        # It may belong to the other run, so it lives until that one ends, too, and no longer.
        [pid] = pids_in(tmp_path / "pids", 1)
        assert alive(pid)
        guard.tell("kill", other, "enough")
        guard.end(other)
        assert not alive(pid)
        assert not guard.over(later)

    def test_the_guard_itself_carries_no_mark(self, guard: Harness) -> None:
        run = guard.shell("cat /proc/self/limits")
        guard.end(run)
        limits = f"/proc/{guard.guard.pid}/limits"
        until(lambda: _limit(Path(limits).read_text()) == "unlimited")
        assert _limit(guard.output(run).decode()).isdigit()

    def test_daemon_recognised_by_its_output(self, guard: Harness, tmp_path: Path) -> None:
        other = guard.shell("echo $$ > other; exec sleep 1000")
        pids_in(tmp_path / "other", 1)
        run = guard.shell(
            "(env -i setsid sh -c 'echo $$ > pids; exec sleep 1000' &) ;"
            "while [ ! -s pids ]; do sleep 0.01; done"
        )
        assert guard.end(run).code == 0
        assert not any(map(alive, pids_in(tmp_path / "pids", 1)))
        assert not guard.over(other)

    def test_others_are_left_alone(self, guard: Harness, tmp_path: Path) -> None:
        (tmp_path / "daemon.py").write_text(DAEMON)
        busy = guard.shell(f"{PYTHON} daemon.py busy; while [ ! -e go ]; do sleep 0.01; done")
        [daemon] = pids_in(tmp_path / "busy", 1)
        for _ in range(3):
            guard.end(guard.shell("sleep 1000 & true"))
        assert alive(daemon)
        (tmp_path / "go").touch()
        assert guard.end(busy).code == 0
        assert not alive(daemon)


class TestStopping:
    def test_timeout_ends_the_whole_tree(self, guard: Harness, tmp_path: Path) -> None:
        (tmp_path / "daemon.py").write_text(DAEMON)
        run = guard.shell(
            f"""
            sh -c 'sleep 1000 & echo $! >> pids; wait' &
            setsid sh -c 'echo $$ >> pids; exec sleep 1000' &
            {PYTHON} daemon.py pids
            sh -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 1; done' &
            echo $$ >> pids
            wait
            """,
            timeout=2.0,
            grace=0.3,
        )
        pids = pids_in(tmp_path / "pids", 5)
        assert all(map(alive, pids))
        assert guard.end(run).how == "timeout"
        assert not any(map(alive, pids))
        assert guard.below() == []

    def test_a_run_in_time_is_not_stopped(self, guard: Harness) -> None:
        ended = guard.end(guard.shell("exit 4", timeout=60.0))
        assert (ended.code, ended.how) == (4, "exited")

    @pytest.mark.parametrize("timeout", [30 * 86400.0, 1e300, float("inf")])
    def test_long_timeouts(self, guard: Harness, timeout: float) -> None:
        assert guard.end(guard.shell("sleep 0.1", timeout=timeout)).how == "exited"

    def test_stop_gives_time_to_clean_up(self, guard: Harness, tmp_path: Path) -> None:
        run = guard.shell(
            "trap 'echo bye; exit 9' TERM; echo $$ > pids; while :; do sleep 0.05; done"
        )
        pids_in(tmp_path / "pids", 1)
        guard.tell("stop", run, "cancelled")
        guard.tell("stop", run, "released")
        ended = guard.end(run)
        assert (ended.code, ended.how) == (9, "cancelled")
        assert guard.output(run) == b"bye\n"

    def test_stop_waits_for_children_too(self, guard: Harness, tmp_path: Path) -> None:
        run = guard.shell(
            """
            sh -c 'trap "sleep 0.3; echo child; exit" TERM; echo $$ >> pids
                   while :; do sleep 0.05; done' &
            echo $$ >> pids
            exec sleep 1000
            """
        )
        pids_in(tmp_path / "pids", 2)
        guard.tell("stop", run, "released")
        assert guard.end(run).how == "released"
        assert guard.output(run) == b"child\n"

    def test_stop_reaches_what_starts_late(self, guard: Harness, tmp_path: Path) -> None:
        # The new child gets a moment to become `sleep`: as a fork of the shell it has its traps.
        run = guard.shell(
            "trap 'sleep 1000 & sleep 0.5; exit 8' TERM; echo $$ > pids;"
            "while :; do sleep 0.05; done",
            grace=3600.0,
        )
        pids_in(tmp_path / "pids", 1)
        guard.tell("stop", run, "cancelled")
        assert guard.end(run).code == 8
        assert guard.below() == []

    def test_grace_ends(self, guard: Harness, tmp_path: Path) -> None:
        run = guard.shell("trap '' TERM; echo $$ > pids; while :; do sleep 1; done", grace=0.2)
        pids = pids_in(tmp_path / "pids", 1)
        guard.tell("stop", run, "cancelled")
        ended = guard.end(run)
        assert (ended.code, ended.how) == (-signal.SIGKILL, "cancelled")
        assert not any(map(alive, pids))

    def test_stop_is_repeated(self, guard: Harness, tmp_path: Path) -> None:
        command = "trap 'echo x >> asked' TERM; echo $$ > pids; while :; do sleep 0.01; done"
        run = guard.shell(command, grace=30.0, interval=0.1)
        pids_in(tmp_path / "pids", 1)
        guard.tell("stop", run, "cancelled")
        asked = tmp_path / "asked"
        until(lambda: asked.exists() and len(asked.read_text().split()) >= 3, "three requests")
        guard.tell("kill", run, "cancelled")
        assert guard.end(run).code == -signal.SIGKILL

    def test_repeating_it_puts_no_end_off(self, guard: Harness, tmp_path: Path) -> None:
        command = "trap '' TERM; echo $$ > pids; while :; do sleep 0.01; done"
        run = guard.shell(command, grace=0.5, interval=0.2)
        pids_in(tmp_path / "pids", 1)
        guard.tell("stop", run, "cancelled")
        assert guard.end(run).code == -signal.SIGKILL

    def test_stop_reaches_a_stopped_process(self, guard: Harness, tmp_path: Path) -> None:
        run = guard.shell("echo $$ > pids; kill -STOP $$; sleep 1000")
        [pid] = pids_in(tmp_path / "pids", 1)
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        guard.tell("stop", run, "cancelled")
        assert guard.end(run).code == -signal.SIGTERM

    def test_kill_waits_for_nothing(self, guard: Harness, tmp_path: Path) -> None:
        run = guard.shell("trap '' TERM; echo $$ > pids; while :; do sleep 1; done")
        pids_in(tmp_path / "pids", 1)
        guard.tell("stop", run, "cancelled")
        guard.tell("kill", run, "killed")
        ended = guard.end(run)
        assert (ended.code, ended.how) == (-signal.SIGKILL, "cancelled")

    def test_unknown_runs_are_ignored(self, guard: Harness) -> None:
        guard.tell("stop", 999, "cancelled")
        guard.tell("kill", 999, "cancelled")
        assert guard.end(guard.shell("true")).code == 0

    def test_stop_before_start(self, guard: Harness) -> None:
        run, spec = guard.spec("sh", "-c", "touch started")
        guard.guard.send([Spawn(run, spec), Stop(run, "cancelled")])
        ended = guard.end(run)
        assert (ended.code, ended.how) == (-signal.SIGKILL, "cancelled")
        assert not (guard.folder / "started").exists()

    @pytest.mark.parametrize("main_stays", [True, False])
    def test_fork_bomb(self, guard: Harness, tmp_path: Path, main_stays: bool) -> None:
        (tmp_path / "bomb.py").write_text(BOMB)
        how, timeout = ("stay", 1.0) if main_stays else ("go", None)
        run = guard.spawn(PYTHON, "bomb.py", how, timeout=timeout, grace=0.0)
        assert guard.end(run).how == ("timeout" if main_stays else "exited")
        assert guard.below() == []
        assert [p.pid for p in psutil.process_iter(["cmdline"]) if _is_bomb(p, tmp_path)] == []


# Fifty processes, half of them in sessions of their own, each of which forks and exits for ever.
# They begin when all are there, and end by themselves if the guard fails.
BOMB = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 30
begin, begins = os.pipe()
for number in range(50):
    if os.fork() == 0:
        os.close(begins)
        if number % 2: os.setsid()
        os.read(begin, 1)
        while time.monotonic() < end:
            if os.fork(): os._exit(0)
        os._exit(0)
if sys.argv[1] == "stay":
    os.close(begins)
    time.sleep(30)
"""


class TestLease:
    def test_end_of_lease_kills(self, guard: Harness, tmp_path: Path) -> None:
        run = guard.shell("trap '' TERM; echo $$ > pids; sleep 1000 & echo $! >> pids; wait")
        pids = pids_in(tmp_path / "pids", 2)
        clock = time.CLOCK_BOOTTIME
        guard.tell("lease", clock, time.clock_gettime(clock) + 0.3)
        ended = guard.end(run)
        assert (ended.code, ended.how) == (-signal.SIGKILL, "lease")
        assert not any(map(alive, pids))

        never = guard.shell("touch started")
        until(lambda: never in guard.heard())
        assert not (tmp_path / "started").exists()

        guard.tell("lease", clock, time.clock_gettime(clock) + 60)
        assert guard.end(guard.shell("true")).how == "exited"
        guard.tell("lease", clock, None)
        assert guard.end(guard.shell("true")).how == "exited"

    def test_extension_keeps_runs_alive(self, guard: Harness) -> None:
        clock = time.CLOCK_MONOTONIC
        first = time.monotonic() + 2.0
        guard.tell("lease", clock, first)
        run = guard.shell("while [ ! -e go ]; do sleep 0.02; done")
        guard.tell("lease", clock, first + 60)
        until(lambda: time.monotonic() > first + 0.1)
        (guard.folder / "go").touch()
        assert guard.end(run).how == "exited"


class TestMany:
    def test_eight_at_once(self, guard: Harness) -> None:
        # Each waits for all the others, so they end only if they run side by side.
        script = "touch at.$1; while [ $(ls at.* | wc -l) -lt 8 ]; do sleep 0.02; done; exit $1"
        runs = [guard.spawn("sh", "-c", script, "sh", str(number)) for number in range(8)]
        assert [guard.end(run).code for run in runs] == list(range(8))

    def test_nothing_piles_up(self, guard: Harness) -> None:
        process = psutil.Process(guard.guard.pid)
        guard.end(guard.shell("true"))
        before = process.num_fds()
        for _ in range(25):
            runs = [guard.shell("echo x; exit 5", timeout=3600.0) for _ in range(20)]
            assert {guard.end(run).code for run in runs} == {5}
        assert guard.below() == []
        assert process.num_fds() == before

    def test_two_thousand_in_one_send(self, guard: Harness) -> None:
        specs = [guard.spec("/bin/true") for _ in range(2000)]
        guard.guard.send([Spawn(run, spec) for run, spec in specs])
        guard.wait(*(run for run, _ in specs))
        assert {ended.code for ended in guard.ended.values()} == {0}
        assert len(guard.ended) == 2000
        assert guard.below() == []

    def test_long_messages_both_ways_do_not_block(self, guard: Harness) -> None:
        long = ["x" * 100_000, "y" * 100_000]
        # Each refusal repeats the long name, so the replies fill the socket, too.
        specs = [guard.spec("z" * 50_000, *long) for _ in range(400)]
        guard.guard.send([Spawn(run, spec) for run, spec in specs])
        guard.wait(*(run for run, _ in specs))
        assert {code for code, _ in guard.not_started.values()} == {errno.ENOENT}
        assert guard.end(guard.spawn("true", *long)).code == 0


# A node that starts two runs, writes down all pids and waits.
NODE = """
import os, sys, time
from queuectl.guard import tree
from queuectl.node.guards import Guard, GuardLostError
from tests.guard.harness import Harness, pids_in, until
from pathlib import Path

folder = Path(sys.argv[1])
tree.become_subreaper()
harness = Harness(folder)
harness.shell("trap '' TERM; sleep 1000 & echo $! >> pids; echo $$ >> pids; wait")
harness.shell(f"{sys.executable} daemon.py pids; sleep 1000")
pids_in(folder / "pids", 3)
(folder / "guard").write_text(str(harness.guard.pid))
"""


def _node(tmp_path: Path, then: str) -> "subprocess.Popen[bytes]":
    (tmp_path / "daemon.py").write_text(DAEMON)
    (tmp_path / "node.py").write_text(NODE + textwrap.dedent(then))
    path = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [PYTHON, str(tmp_path / "node.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
    )


class TestDeaths:
    def test_death_of_the_node_ends_everything(self, tmp_path: Path) -> None:
        node = _node(tmp_path, "time.sleep(1000)")
        [guard] = pids_in(tmp_path / "guard", 1)
        pids = pids_in(tmp_path / "pids", 3)
        assert all(map(alive, [guard, *pids]))
        node.kill()
        node.wait()
        until(lambda: not any(map(alive, [guard, *pids])))

    def test_death_of_the_guard_is_noticed_and_cleaned_up(self, tmp_path: Path) -> None:
        node = _node(
            tmp_path,
            """
            spared = os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ)
            (folder / "spared").write_text(str(spared))
            os.kill(harness.guard.pid, 9)
            try:
                while True:
                    harness.hear(1.0)
            except GuardLostError as error:
                print(error)
            try:
                harness.shell("true")
            except GuardLostError as error:
                print(error)
            assert tree.kill_descendants(spare=[spared]) == []
            assert harness.guard.close() is False
            (folder / "cleaned").touch()
            os.waitpid(spared, 0)
            """,
        )
        pids = pids_in(tmp_path / "pids", 3)
        [spared] = pids_in(tmp_path / "spared", 1)
        until((tmp_path / "cleaned").exists)
        assert not any(map(alive, pids))
        assert alive(spared)
        os.kill(spared, signal.SIGKILL)
        assert node.wait() == 0

    def test_a_stopped_node_loses_its_runs_with_its_lease(self, tmp_path: Path) -> None:
        node = _node(
            tmp_path,
            """
            harness.tell("lease", time.CLOCK_MONOTONIC, time.monotonic() + 1.0)
            (folder / "leased").touch()
            time.sleep(1000)
            """,
        )
        until((tmp_path / "leased").exists)
        pids = pids_in(tmp_path / "pids", 3)
        node.send_signal(signal.SIGSTOP)
        until(lambda: not any(map(alive, pids)))
        node.kill()
        node.wait()

    def test_an_error_of_the_guard_leaves_nothing(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        harness = Harness(tmp_path)
        harness.shell("sleep 1000 & echo $! > pids; wait")
        pids = pids_in(tmp_path / "pids", 1)
        harness.tell("ready", 1)
        with pytest.raises(GuardLostError):
            harness.hear(60.0)
        assert harness.guard.close() is False
        assert not any(map(alive, pids))
        assert "unknown message" in capfd.readouterr().err

    def test_close_ends_the_runs(self, tmp_path: Path) -> None:
        with Guard.start() as guard:
            assert tree.same_process(guard.pid, guard.start_time)
            pid = guard.pid
        assert not alive(pid)

    def test_signals_do_not_end_the_guard(self, guard: Harness) -> None:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(guard.guard.pid, signum)
        assert guard.end(guard.shell("exit 6")).code == 6
        assert os.getsid(guard.guard.pid) == guard.guard.pid


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _hidden(pids: str) -> str:
    """Return a script that starts a daemon which can't be traced back to its run."""
    return (
        f"env -i {PYTHON} daemon.py {pids} >/dev/null 2>&1 </dev/null;"
        f"while [ ! -s {pids} ]; do sleep 0.01; done"
    )


def _limit(limits: str) -> str:
    [line] = [line for line in limits.splitlines() if line.startswith("Max realtime timeout")]
    return line.split()[3]


def _is_bomb(process: psutil.Process, folder: Path) -> bool:
    try:
        return "bomb.py" in process.cmdline() and process.cwd() == str(folder)
    except psutil.Error:
        return False
