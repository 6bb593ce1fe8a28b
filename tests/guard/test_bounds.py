"""Bounds, with real processes: what a run may use is kept to, or refused in words.

What this host can do decides what is asserted: that a run is stopped at its bound, or that it isn't
started and why. Neither is skipped.
"""

import errno
import os
import pwd
import resource
import signal
import socket
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl.guard import cgroups, confine, wire
from queuectl.guard.bounding import powers_of
from tests.guard.harness import Harness, alive, until

PYTHON = sys.executable
MIB = 2**20
IS_ROOT = os.geteuid() == 0
POWERS, PLACE = powers_of(os.getpid(), change=False)
NO_NETWORK = confine.can(confine.try_no_network)
NO_WRITING = confine.can(confine.try_read_only_root)


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    harness.guard.close()


def python(guard: Harness, script: str, **options: object) -> int:
    return guard.spawn(PYTHON, "-S", "-E", "-c", textwrap.dedent(script), **options)


def refused(guard: Harness, run: int, *words: str) -> None:
    code, text = guard.refusal(run)
    assert code == errno.EPERM
    for word in words:
        assert word in text, text


class TestUsage:
    def test_a_plain_run_tells_what_it_used(self, guard: Harness) -> None:
        run = python(
            guard,
            """
            import os, time
            taken = bytearray(60 << 20)
            taken[::4096] = b"x" * len(taken[::4096])
            while sum(os.times()[:2]) < 0.3:
                pass
            """,
        )
        memory, cpu, _, _ = guard.end(run).used
        assert 60 * MIB < memory < 200 * MIB
        assert 290 <= cpu < 5_000

    def test_children_that_it_waited_for_count(self, guard: Harness) -> None:
        script = "import os\nwhile sum(os.times()[:2]) < 0.3: pass"
        run = guard.shell(f"{PYTHON} -S -E -c '{script}'; true")
        assert guard.end(run).used[1] >= 290

    def test_what_went_its_own_way_counts(self, guard: Harness) -> None:
        script = 'import os\nwhile sum(os.times()[:2]) < 0.3: pass\nopen("over", "w")'
        run = guard.shell(
            f"setsid {PYTHON} -S -E -c '{script}' & while ! test -e over; do sleep 0.05; done"
        )
        assert guard.end(run).used[1] >= 290

    def test_one_that_never_ran_has_used_nothing(self, guard: Harness) -> None:
        first = guard.shell("sleep 60", worker=1)
        second = guard.shell("true", worker=1)
        guard.tell("kill", second, wire.CANCEL)
        assert guard.end(second).used is None
        guard.tell("kill", first, wire.CANCEL)
        assert guard.end(first).used is not None


class TestMemory:
    GREEDY = """
        import sys, time
        print("began", flush=True)
        kept = []
        for _ in range(100):
            kept.append(bytearray(4 << 20))
            time.sleep(0.01)
        print("done", flush=True)
    """

    def test_beyond_it_all_of_a_run_is_killed(self, guard: Harness) -> None:
        run = python(guard, self.GREEDY, bounds={"memory": 64 * MIB})
        if "memory" in POWERS.controllers:
            ended = guard.end(run)
            assert (ended.how, ended.code) == (wire.MEMORY, -signal.SIGKILL)
            assert guard.output(run) == b"began\n"
            assert 32 * MIB < ended.used[0] <= 65 * MIB
            assert ended.noted == ""
        else:
            refused(guard, run, "memory 64MiB", "memory controller", "--best-effort")

    def test_the_one_that_is_killed_may_be_a_child(self, guard: Harness) -> None:
        script = textwrap.dedent(self.GREEDY)
        run = guard.shell(
            f"{PYTHON} -S -E -c '{script}'; echo survived", bounds={"memory": 64 * MIB}
        )
        if "memory" in POWERS.controllers:
            assert guard.end(run).how == wire.MEMORY
            assert b"survived" not in guard.output(run)
        else:
            refused(guard, run, "memory 64MiB")

    def test_with_best_effort_it_is_looked_at_where_the_kernel_does_not(
        self, guard: Harness
    ) -> None:
        run = python(guard, self.GREEDY, bounds={"memory": 64 * MIB, "best_effort": True})
        ended = guard.end(run)
        assert ended.how == wire.MEMORY
        assert b"done" not in guard.output(run)
        if "memory" in POWERS.controllers:
            assert ended.noted == ""
        else:
            sampled = "watched by sampling, not by the kernel: memory 64MiB: "
            assert ended.noted.startswith(sampled)

    def test_within_it_nothing_happens(self, guard: Harness) -> None:
        bounds = {"memory": 256 * MIB, "best_effort": True}
        ended = guard.end(guard.shell("echo fine", bounds=bounds))
        assert (ended.how, ended.code) == (wire.EXITED, 0)


class TestCpu:
    BURN = "import os\nwhile sum(os.times()[:2]) < 60: pass"

    def test_time_that_is_used_up_ends_it(self, guard: Harness) -> None:
        run = python(guard, self.BURN, bounds={"cpu_time": 500})
        ended = guard.end(run)
        assert (ended.how, ended.code) == (wire.CPU_TIME, -signal.SIGTERM)
        assert 500 <= ended.used[1] < 5_000

    def test_time_counts_over_all_processes(self, guard: Harness) -> None:
        script = """
            import os, subprocess, sys
            burn = "import os\\nwhile sum(os.times()[:2]) < 0.2: pass"
            while True:
                subprocess.run([sys.executable, "-S", "-E", "-c", burn])
        """
        ended = guard.end(python(guard, script, bounds={"cpu_time": 1_000}))
        assert ended.how == wire.CPU_TIME
        assert 1_000 <= ended.used[1] < 6_000

    def test_who_ignores_the_end_is_killed(self, guard: Harness) -> None:
        script = "trap '' TERM; while :; do :; done"
        ended = guard.end(guard.shell(script, bounds={"cpu_time": 1_500}, grace=0.1))
        assert (ended.how, ended.code) == (wire.CPU_TIME, -signal.SIGKILL)

    def test_the_kernel_ends_one_process_too(self, guard: Harness) -> None:
        run = guard.shell("ulimit -t; ulimit -Ht", bounds={"cpu_time": 61_500})
        guard.end(run)
        assert guard.output(run) == b"63\n67\n"

    def test_who_sleeps_uses_none(self, guard: Harness) -> None:
        ended = guard.end(guard.shell("sleep 2.5", bounds={"cpu_time": 2_000}))
        assert (ended.how, ended.code) == (wire.EXITED, 0)

    def test_cores_are_shared_out(self, guard: Harness) -> None:
        script = "import os\nwhile sum(os.times()[:2]) < 0.4: pass"
        run = guard.spawn(PYTHON, "-S", "-E", "-c", script, bounds={"cpus": 0.2})
        if "cpu" in POWERS.controllers:
            ended = guard.end(run)
            # A fifth of a core takes five times as long, but for what it had in the first period.
            assert ended.ended - ended.started > 1.2
        else:
            refused(guard, run, "cpus 0.2", "cpu controller")


class TestProcesses:
    FORKS = """
        import os, signal, time
        made = []
        try:
            for _ in range(30):
                pid = os.fork()
                if not pid:
                    time.sleep(60)
                    os._exit(0)
                made.append(pid)
        except OSError as error:
            print(len(made), error.errno, flush=True)
        for pid in made:
            os.kill(pid, signal.SIGKILL)
    """

    def test_no_more_than_so_many(self, guard: Harness) -> None:
        run = python(guard, self.FORKS, bounds={"nproc": 10})
        if "pids" in POWERS.controllers:
            guard.end(run)
            assert guard.output(run) == b"9 %d\n" % errno.EAGAIN
        elif IS_ROOT:
            refused(guard, run, "nproc 10", "pids controller", "another user")
        else:
            guard.wait(run)
            assert run in guard.not_started or b"%d\n" % errno.EAGAIN in guard.output(run)

    def test_of_another_user_too(self, guard: Harness) -> None:
        script = "n=0; while [ $n -lt 30 ]; do sleep 60 & n=$((n + 1)); echo $n; done"
        run = guard.shell(script, bounds={"nproc": 10, "user": "nobody"})
        if not IS_ROOT:
            refused(guard, run, "user nobody")
            return
        ended = guard.end(run)
        assert ended.code != 0
        assert b"fork" in guard.errors(run)
        # Whatever else runs as that user counts as well, where only the user can be bounded.
        assert len(guard.output(run).split()) <= 9


class TestFiles:
    def test_no_more_than_so_many_are_open(self, guard: Harness) -> None:
        script = """
            import os
            try:
                for number in range(50):
                    os.dup(0)
            except OSError as error:
                print(number, error.errno)
        """
        run = python(guard, script, bounds={"nofile": 20})
        guard.end(run)
        assert guard.output(run) == b"17 %d\n" % errno.EMFILE

    def test_more_than_there_can_be_is_refused(self, guard: Harness) -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        run = guard.shell("ulimit -n", bounds={"nofile": most + 1})
        if not IS_ROOT:
            refused(guard, run, f"nofile {most + 1}", str(most))
        else:
            guard.wait(run)
            assert run in guard.not_started or guard.output(run) == b"%d\n" % (most + 1)


class TestNice:
    def test_it_gives_way(self, guard: Harness) -> None:
        mine = os.getpriority(os.PRIO_PROCESS, guard.guard.pid)
        run = guard.shell("nice", bounds={"nice": 7})
        guard.end(run)
        assert guard.output(run) == b"7\n"
        assert os.getpriority(os.PRIO_PROCESS, guard.guard.pid) == mine

    def test_before_others_only_by_root(self, guard: Harness) -> None:
        run = guard.shell("nice", bounds={"nice": -5})
        if IS_ROOT:
            guard.end(run)
            assert guard.output(run) == b"-5\n"
        else:
            refused(guard, run, "nice -5", "root")


class TestNetwork:
    def test_it_is_gone(self, guard: Harness) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            script = f"""
                import socket
                try:
                    socket.create_connection(("127.0.0.1", {port}), timeout=5)
                except OSError as error:
                    print(type(error).__name__)
                with socket.create_server(("127.0.0.1", 0)) as own:
                    socket.create_connection(own.getsockname()).close()
                    print("talks to itself")
                print(len(socket.if_nameindex()))
            """
            run = python(guard, script, bounds={"no_network": True})
            if NO_NETWORK is not None:
                refused(guard, run, "no_network", NO_NETWORK)
                return
            guard.end(run)
            assert guard.output(run).splitlines()[:2] == [
                b"ConnectionRefusedError",
                b"talks to itself",
            ]
        # Ours is as it was.
        assert socket.if_nameindex()


class TestReadOnlyRoot:
    def test_nothing_can_be_written_but_what_is_for_that(
        self, guard: Harness, tmp_path: Path
    ) -> None:
        home = Path("/var/lib") if IS_ROOT else Path.home()
        own = f"{home}/queuectl-test-{os.getpid()}"
        script = f"""
            import os
            for path in ("{own}", "{tmp_path}/mine", "/tmp/queuectl-test-{os.getpid()}"):
                try:
                    open(path, "w").close()
                except OSError as error:
                    print(error.errno)
                else:
                    os.unlink(path)
                    print("written")
            open("here", "w").close()
            print("out")
        """
        run = python(guard, script, bounds={"read_only_root": True})
        if NO_WRITING is not None:
            refused(guard, run, "read_only_root", NO_WRITING)
            return
        guard.end(run)
        assert guard.output(run).splitlines() == [
            b"%d" % errno.EROFS,
            b"written",
            b"written",
            b"out",
        ]
        # Ours can be written as before.
        with open(own, "w"):
            os.unlink(own)


class TestUser:
    def test_it_is_another_one(self, guard: Harness) -> None:
        run = guard.shell("id -un; echo $USER $HOME $LOGNAME", bounds={"user": "nobody"})
        if not IS_ROOT:
            refused(guard, run, "user nobody", "runs as root")
            return
        guard.end(run)
        home = pwd.getpwnam("nobody").pw_dir
        assert guard.output(run).decode() == f"nobody\nnobody {home} nobody\n"

    def test_its_own_variables_win(self, guard: Harness) -> None:
        bounds = {"user": "nobody"}
        run = guard.shell("echo $USER $HOME", bounds=bounds, env={"HOME": "/mine"})
        if IS_ROOT:
            guard.end(run)
            assert guard.output(run) == b"nobody /mine\n"
        else:
            refused(guard, run, "user nobody")

    def test_no_rights_are_left(self, guard: Harness) -> None:
        run = guard.shell("id -u; id -g; id -G; cat /etc/shadow", bounds={"user": "nobody"})
        if not IS_ROOT:
            refused(guard, run, "user nobody")
            return
        ended = guard.end(run)
        found = pwd.getpwnam("nobody")
        assert ended.code != 0
        assert guard.output(run).decode().splitlines()[:2] == [str(found.pw_uid), str(found.pw_gid)]
        assert "0" not in guard.output(run).decode().splitlines()[2].split()

    def test_its_result_comes_home_though_the_folder_is_closed(
        self, guard: Harness, tmp_path: Path
    ) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        home = closed / "1.result"
        told = {b"QUEUECTL_RESULT": str(home).encode()}
        script = "echo 7 > $QUEUECTL_RESULT; dirname $QUEUECTL_RESULT"
        run = guard.shell(script, bounds={"user": "nobody"}, told=told)
        if not IS_ROOT:
            refused(guard, run, "user nobody")
            return
        guard.end(run)
        assert home.read_text() == "7\n"
        folder = guard.output(run).decode().strip()
        assert folder.startswith("/tmp/queuectl.")
        assert not os.path.exists(folder)

    def test_a_result_that_leads_elsewhere_is_none(self, guard: Harness, tmp_path: Path) -> None:
        home = tmp_path / "1.result"
        told = {b"QUEUECTL_RESULT": str(home).encode()}
        script = "ln -s /etc/shadow $QUEUECTL_RESULT"
        run = guard.shell(script, bounds={"user": "nobody"}, told=told)
        guard.wait(run)
        assert (run in guard.ended) == IS_ROOT
        assert not home.exists()

    def test_who_we_are_already_needs_no_change(self, guard: Harness) -> None:
        me = pwd.getpwuid(os.geteuid()).pw_name
        run = guard.shell("id -un", bounds={"user": me})
        guard.end(run)
        assert guard.output(run).decode() == f"{me}\n"

    def test_no_effort_makes_up_for_one_that_is_not_there(self, guard: Harness) -> None:
        bounds = {"user": "no-such-user", "best_effort": True}
        code, text = guard.refusal(guard.shell("id", bounds=bounds))
        assert code == errno.EPERM
        assert "user no-such-user" in text


class TestStarting:
    def test_what_is_not_there_is_said_as_ever(self, guard: Harness) -> None:
        code, text = guard.refusal(guard.spawn("no-such-program", bounds={"nice": 1}))
        assert (code, text) == (errno.ENOENT, "command not found: no-such-program")

    def test_a_script_without_a_first_line_runs(self, guard: Harness, tmp_path: Path) -> None:
        script = tmp_path / "script"
        script.write_text("echo ran $1\n")
        script.chmod(0o755)
        run = guard.spawn(str(script), "it", bounds={"nice": 1})
        guard.end(run)
        assert guard.output(run) == b"ran it\n"

    def test_no_descriptor_leaks_and_no_signal_stays_ignored(self, guard: Harness) -> None:
        script = """
            import os
            print(sorted(int(fd) for fd in os.listdir("/proc/self/fd")))
            print(os.getsid(0) == os.getpid())
            for line in open("/proc/self/status"):
                if line[:6] in ("SigBlk", "SigIgn"):
                    print(line[:6], int(line.split()[1], 16) % 2**31)
        """
        # Beyond the first 31 the C library has two of its own.
        plain, bounded = python(guard, script), python(guard, script, bounds={"nice": 1})
        guard.end(plain)
        guard.end(bounded)
        assert guard.output(plain) == guard.output(bounded)

    def test_a_run_can_be_ended_as_ever(self, guard: Harness) -> None:
        run = guard.shell("sleep 60 & setsid sleep 60 & wait", bounds={"cpu_time": 60_000})
        until(lambda: len(guard.below()) >= 3)
        guard.tell("stop", run, wire.CANCEL)
        assert guard.end(run).how == wire.CANCEL
        assert guard.below() == []


class TestGroups:
    """Where groups can be made, none is left behind, whatever becomes of the guard."""

    @staticmethod
    def left() -> list[str]:
        try:
            path = cgroups.find(os.getpid()).path
        except cgroups.NoGroupsError:
            return []
        return [name for name in os.listdir(path) if name.startswith("queuectl.")]

    def test_a_run_that_is_over_leaves_none(self, guard: Harness) -> None:
        before = self.left()
        guard.end(guard.shell("true", bounds={"cpu_time": 60_000}))
        assert self.left() == before

    def test_one_that_can_not_start_leaves_none(self, guard: Harness) -> None:
        before = self.left()
        guard.refusal(guard.spawn("no-such-program", bounds={"cpu_time": 60_000}))
        assert self.left() == before

    def test_a_guard_that_leaves_takes_all_along(self, guard: Harness, tmp_path: Path) -> None:
        before = self.left()
        run = guard.shell("echo $$; exec sleep 600", bounds={"cpu_time": 60_000})
        written = tmp_path / f"{run}.out"
        until(lambda: written.exists() and written.read_bytes().strip(), "the run to begin")
        guard.guard.close()
        assert not alive(int(guard.output(run)))
        assert self.left() == before

    def test_what_a_killed_guard_left_is_ended(self, guard: Harness, tmp_path: Path) -> None:
        before = self.left()
        run = guard.shell("echo $$; exec sleep 600", bounds={"cpu_time": 60_000})
        written = tmp_path / f"{run}.out"
        until(lambda: written.exists() and written.read_bytes().strip(), "the run to begin")
        pid = int(guard.output(run))
        assert len(self.left()) == len(before) + (PLACE is not None)
        guard.guard.kill()
        until(lambda: not alive(guard.guard.pid), "the guard to be gone")
        if PLACE is None:
            assert self.left() == before
            os.kill(pid, signal.SIGKILL)
            return
        cgroups.sweep()
        assert self.left() == before
        until(lambda: not alive(pid), "the run to be gone")
