"""Starting a run: from a spec to a process in a session of its own, or to one clear sentence."""

import errno
import os
import sys

from queuectl.guard import signals
from queuectl.guard.files import Files
from queuectl.guard.orphans import TOKEN

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Callable

    from queuectl.guard.wire import Spec

    Environment = dict[bytes, bytes]
    Action = tuple[int, int, int]
    Spawn = Callable[[str, list[str], Environment, list[Action]], int]

_TOKEN = TOKEN.encode()

_TRY_NEXT = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)
_EXHAUSTED = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class NotStartedError(Exception):
    """The run couldn't be started, for a reason one can act on."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.errno = code
        self.text = text


class UnableError(NotStartedError):
    """This host can't start any run now: no room for output, no more processes, no memory."""


class Spawner:
    """Starts processes from one place: the guard's environment and directory, no descriptors."""

    __slots__ = ("_cwd", "_encoding", "_files", "_home", "base")

    def __init__(self, files: Files) -> None:
        self._files = files
        self.base: Environment = dict(os.environb)
        """What all runs find in their environment, but for those that bring theirs along."""
        self._encoding = sys.getfilesystemencoding()
        self._home = _where_we_are()
        self._cwd = ""
        self.rest()

    def rest(self) -> None:
        """Leave the directory of the last job, which somebody may want to remove or unmount."""
        if self._cwd != "/":
            os.chdir("/")
            self._cwd = "/"

    def start(
        self,
        spec: "Spec",
        env: "Environment",
        spawn: "Spawn | None" = None,
        argv: list[str] | None = None,
    ) -> tuple[int, tuple[str, str]]:
        """Start the main process of a run in this environment, or raise `NotStartedError`.

        Returns its pid, and the files that it writes to. `spawn` starts one program that was found,
        if not just anyhow, and `argv` is what to start in place of the command.
        """
        opened: list[int] = []
        try:
            self._enter("/" if argv else spec["cwd"])
            files = self._open_files(spec, opened)
            actions = [(os.POSIX_SPAWN_DUP2, opened[0], 1), (os.POSIX_SPAWN_DUP2, opened[1], 2)]
            if spec["stdin"] is not None:
                opened.append(_open_input(spec["stdin"]))
                actions.append((os.POSIX_SPAWN_DUP2, opened[2], 0))
            called = None if argv else spec["called"]
            pid = _start_program(
                argv or spec["argv"], env, actions, called=called, spawn=spawn or _spawn
            )
            return pid, files
        except (KeyError, TypeError, ValueError) as error:
            raise _cannot(error) from error
        finally:
            for fd in opened:
                os.close(fd)

    def environment(self, spec: "Spec") -> "Environment":
        """Make the environment of a run, or raise `NotStartedError`."""
        try:
            env: Environment = {} if spec["whole"] else self.base.copy()
            for name, value in spec["env"].items():
                env[self._encode(name)] = self._encode(value)
            env.update(spec["told"])
            env[_TOKEN] = spec["token"].encode()
        except (KeyError, TypeError, ValueError) as error:
            raise _cannot(error) from error
        return env

    def _encode(self, text: str) -> bytes:
        return text.encode(self._encoding, "surrogateescape")

    def _enter(self, cwd: str | None) -> None:
        cwd = cwd or self._home
        if cwd == self._cwd:
            return
        # A relative directory would depend on the job before.
        path = cwd if cwd[0] == "/" else os.path.join(self._home, cwd)
        try:
            os.chdir(path)
        except OSError as error:
            raise NotStartedError(error.errno or errno.EINVAL, _cwd_text(error, cwd)) from error
        self._cwd = cwd

    def _open_files(self, spec: "Spec", opened: list[int]) -> tuple[str, str]:
        try:
            return self._files.open(spec, opened)
        except OSError as error:
            text = f"can't write {error.filename}: {_reason(error)}"
            raise UnableError(error.errno or errno.EIO, text) from error


def _cannot(error: Exception) -> NotStartedError:
    """Say what is wrong: a NUL, a lone surrogate, no command, `=` in the name of a variable."""
    return NotStartedError(errno.EINVAL, f"can't start this command: {error}")


def _open_input(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        text = f"can't read {path}: {_reason(error)}"
        raise UnableError(error.errno or errno.EIO, text) from error


def _where_we_are() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _start_program(
    argv: list[str],
    env: "Environment",
    actions: "list[Action]",
    *,
    called: str | None,
    spawn: "Spawn",
) -> int:
    """Run the program that `execvp` would run in this directory and environment."""
    if not argv:
        raise ValueError("it is empty")
    name = argv[0]
    called = called or name
    worst: OSError | None = None
    for program in (name,) if "/" in name else _candidates(name, env):
        try:
            return _spawn_or_interpret(program, argv, env, actions, spawn)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise UnableError(error.errno, _text(error, called)) from error
            if error.errno not in _TRY_NEXT:
                raise NotStartedError(error.errno or errno.EIO, _text(error, called)) from error
            # As with execvp, "not allowed" says more than "not here".
            if worst is None or error.errno == errno.EACCES:
                worst = error
    if worst is None:
        raise NotStartedError(errno.ENOENT, f"command not found: {called}")
    raise NotStartedError(worst.errno or errno.ENOENT, _text(worst, called)) from worst


def _candidates(name: str, env: "Environment") -> list[str]:
    """List the files of that name in the job's PATH, executable or not."""
    path = os.fsdecode(env.get(b"PATH", os.defpath.encode()))
    files = [os.path.join(directory or ".", name) for directory in path.split(":")]
    return [file for file in files if name and os.access(file, os.F_OK)]


def _spawn_or_interpret(
    program: str, argv: list[str], env: "Environment", actions: "list[Action]", spawn: "Spawn"
) -> int:
    try:
        return spawn(program, argv, env, actions)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without `#!`.
        return spawn("/bin/sh", ["/bin/sh", program, *argv[1:]], env, actions)


def _spawn(program: str, argv: list[str], env: "Environment", actions: "list[Action]") -> int:
    try:
        return os.posix_spawn(
            program,
            argv,
            env,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=signals.to_reset(),
        )
    except NotImplementedError:
        return _spawn_by_fork(program, argv, env, actions)


def _spawn_by_fork(
    program: str, argv: list[str], env: "Environment", actions: "list[Action]"
) -> int:
    """Do the same where posix_spawn can't make a session."""
    import subprocess

    streams = {target: fd for _, fd, target in actions}
    process = subprocess.Popen(
        argv,
        executable=program,
        env=env,
        stdin=streams.get(0),
        stdout=streams[1],
        stderr=streams[2],
        start_new_session=True,
        preexec_fn=signals.reset,
    )
    process.returncode = 0  # The guard reaps it; the object must not.
    return process.pid


def _cwd_text(error: OSError, cwd: str) -> str:
    match error.errno:
        case errno.ENOENT:
            return f"working directory does not exist: {cwd}"
        case errno.ENOTDIR:
            return f"working directory is not a directory: {cwd}"
        case errno.EACCES:
            return f"permission denied: working directory {cwd}"
        case _:
            return f"can't enter the working directory {cwd}: {_reason(error)}"


def _text(error: OSError, name: str) -> str:
    match error.errno:
        case errno.ENOENT if error.filename and os.path.exists(error.filename):
            return f"the interpreter named in its first line does not exist: {name}"
        case errno.ENOENT | errno.ENOTDIR:
            return f"command not found: {name}"
        case errno.EACCES if error.filename and os.path.isdir(error.filename):
            return f"is a directory: {name}"
        case errno.EACCES:
            return f"permission denied: {name}"
        case errno.E2BIG:
            return f"arguments and environment are too long for this system: {name}"
        case _:
            return f"can't start {name}: {_reason(error)}"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
