"""The installed command without its start-up: in a fork of a process that has imported it.

Starting Python and importing is nearly all that a short command costs, and the tests run thousands
of them. A fork runs the same `main` in a process of its own, with its own arguments, environment,
folder, streams and end. What a test is about in how a process begins, or goes on, needs a real one:
`Cli.start`, `Cli.on_terminal`, `Lab.start_node`, and whatever calls `Popen`.
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from pkgutil import iter_modules
from threading import Lock
from typing import Any, NoReturn, TextIO

import queuectl

COMMAND = str(Path(sys.executable).with_name("queuectl"))
REAL = {"worker", "web", "demo"}
"""Words of commands that stay, or start themselves again."""
DECIDING = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "COVERAGE_")
"""How variables begin that tell Python, or the C library, something when a process starts."""
MOST_INPUT = 60_000
"""Bytes that fit into a pipe before anybody reads it."""
PRELOADED = ("apsw", "psutil", "pymysql", "psycopg", "rich.console", "rich.table", "rich.text")
"""What commands import besides our own modules."""
ASIDE = {"web", "testing", "contrib", "__main__"}
"""Those of our own that they don't."""


def run(
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    timeout: float,
    input: bytes = b"",
    together: bool = False,
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command to its end, in a fork if that is the same; as `subprocess.run` would.

    With `together`, stderr goes where stdout goes.
    """
    if not REAL & set(args) and len(input) <= MOST_INPUT and not _is_elsewhere():
        done = _fork_for(env).run(args, env, cwd, timeout, input, together=together)
        if done is not None:
            return done
    return subprocess.run(
        [COMMAND, *args],
        env=env,
        cwd=cwd,
        input=input,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if together else subprocess.PIPE,
        timeout=timeout,
        check=False,
    )


def _network() -> str:
    return os.readlink("/proc/thread-self/ns/net")


_NETWORK = _network()
"""What the processes that fork see, which are started here."""


def _is_elsewhere() -> bool:
    """Tell whether this thread has gone to another network since."""
    return _network() != _NETWORK


_forks: "dict[frozenset[tuple[str, str]], Fork]" = {}


def _fork_for(env: Mapping[str, str]) -> "Fork":
    """Return a process that was started with all that decides how a process starts."""
    decides = frozenset(item for item in env.items() if item[0].startswith(DECIDING))
    if decides not in _forks:
        _forks[decides] = Fork(env)
    return _forks[decides]


class Fork:
    """A process that has imported the command, and forks for each that is to be run."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._busy = Lock()
        self._link, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forks", str(theirs.fileno())],
                cwd=Path(__file__).parents[1],
                env=dict(env),
                pass_fds=[theirs.fileno()],
            )
        # However else we end, the link does, and so does the process.
        atexit.register(self._close)

    def _close(self) -> None:
        self._link.close()
        self._process.wait()

    def run(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        timeout: float,
        input: bytes,
        *,
        together: bool,
    ) -> "subprocess.CompletedProcess[bytes] | None":
        """Run a command to its end; None if that can't be done here, or not just now."""
        if not self._busy.acquire(blocking=False):
            return None
        try:
            deadline = time.monotonic() + timeout
            order = {"argv": [COMMAND, *args], "env": dict(env), "cwd": str(cwd)}
            with _pipes(input, together=together) as (theirs, ours):
                try:
                    _order(self._link, order, theirs)
                    pid = _number(self._link)
                except (EOFError, ConnectionError):
                    # Python doesn't even start, with these variables: that is to be seen.
                    return None
                try:
                    read = _read(ours, deadline)
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired([COMMAND, *args], timeout) from None
                finally:
                    code = os.waitstatus_to_exitcode(_number(self._link))
            return subprocess.CompletedProcess([COMMAND, *args], code, *read)
        finally:
            self._busy.release()


@contextmanager
def _pipes(input: bytes, *, together: bool) -> Iterator[tuple[list[int], list[int]]]:
    """Make the streams of a command: its three ends, which `_order` closes, and those to read."""
    given, put = os.pipe()
    os.write(put, input)
    os.close(put)
    pairs = [os.pipe() for _ in range(1 if together else 2)]
    theirs = [given, pairs[0][1], pairs[-1][1]]
    try:
        yield theirs, [reader for reader, _ in pairs]
    finally:
        for reader, _ in pairs:
            os.close(reader)


def _order(link: socket.socket, order: Mapping[str, Any], fds: Sequence[int]) -> None:
    """Hand an order over, with the streams of the command, which are closed here."""
    text = json.dumps(order).encode()
    try:
        socket.send_fds(link, [len(text).to_bytes(8)], list(fds))
        link.sendall(text)
    finally:
        for fd in set(fds):
            os.close(fd)


def _number(link: socket.socket) -> int:
    return int.from_bytes(_exactly(link, 8))


def _exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _read(readers: Sequence[int], deadline: float) -> list[bytes]:
    """Read all there is, until nobody has the other ends any more."""
    found = dict.fromkeys(readers, b"")
    with selectors.DefaultSelector() as selector:
        for fd in readers:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                data = os.read(key.fd, 65_536)
                found[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
    return [found[fd] for fd in readers]


# -- in the process that forks ------------------------------------------------------------


def _serve(link: socket.socket) -> None:
    """Fork for each order. Returns in the forks only, which have become what was ordered."""
    while True:
        head, fds, _, _ = socket.recv_fds(link, 8, 3)
        if not head:
            sys.exit()
        size = int.from_bytes(head + _exactly(link, 8 - len(head)))
        order = json.loads(_exactly(link, size))
        pid = os.fork()
        if not pid:
            link.detach()
            _become(order, fds)
            return
        for fd in fds:
            os.close(fd)
        link.sendall(pid.to_bytes(8))
        _, status = os.waitpid(pid, 0)
        link.sendall(status.to_bytes(8))


def _become(order: Mapping[str, Any], fds: Sequence[int]) -> None:
    """Be as a process is that was just started with these."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    os.closerange(3, max(fds) + 64)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    os.chdir(order["cwd"])
    sys.argv[:] = order["argv"]
    sys.path[0] = str(Path(COMMAND).parent)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number, getattr(sys, name))
        for attribute in (name, f"__{name}__"):
            setattr(sys, attribute, stream)


def _stream(number: int, like: TextIO) -> TextIOWrapper:
    """Return a stream that reads or writes as one that Python has made."""
    file = FileIO(number, "w" if number else "r", closefd=False)
    return TextIOWrapper(
        BufferedWriter(file) if number else BufferedReader(file),
        encoding=like.encoding,
        errors=like.errors,
        newline="\n" if number else None,
        line_buffering=number == 2,
    )


def _preload() -> None:
    """Import what commands import, each when it needs it."""
    for module in (*PRELOADED, *_modules(queuectl.__path__, "queuectl.")):
        with suppress(ImportError):
            import_module(module)
    gc.collect()
    gc.freeze()


def _modules(path: Iterable[str], before: str) -> Iterator[str]:
    for module in iter_modules(path, before):
        name = module.name
        if name.rpartition(".")[2] not in ASIDE:
            yield name
            if module.ispkg:
                yield from _modules(
                    [f"{folder}/{name.rpartition('.')[2]}" for folder in path], f"{name}."
                )


def _end(code: int) -> NoReturn:
    """Do what Python does when it ends, but for taking each module apart."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _preload()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from queuectl.__main__ import main

    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        _end(ended.code)
