"""Runs in containers: the command line of podman or docker that is started in place of a command.

The container has a name that tells whose it is, and is removed when its run is over, also by who
finds its guard dead. The engine, and not this host, keeps it to its bounds.
"""

import os
from contextlib import suppress

from queuectl.guard import tree
from queuectl.guard.confine import ConfineError
from queuectl.guard.outbox import PROGRESS, RESULT

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from queuectl.bounds import Bounds
    from queuectl.guard.wire import Spec

ENGINES = ("podman", "docker")
"""The first that is found in the worker's PATH is taken."""
INSIDE = "/run/queuectl"
"""Where a container finds the folder for its result."""
_RECORD, _OOM = "container", "oom"
"""Files beside it: which container it is for, and whether its memory ran out."""
_NO_ENGINE = "this worker finds neither podman nor docker in its PATH"
_NOT_THERE = {
    "cpu_time": "nobody counts it over all processes of a container",
    "nice": "a container has the priority that its engine gives it",
}


class Container:
    """The container of one run."""

    __slots__ = ("_engine", "_folder", "_image", "is_gone", "name", "remover")

    def __init__(self, image: str, token: str, path: str) -> None:
        """Choose an engine among the programs in a PATH, or raise `ConfineError`."""
        me = os.getpid()
        kept = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in token)
        self.name = f"queuectl.{me}.{tree.process_start(me)}.{kept}"
        self._image = image
        self._engine = engine_in(path)
        self._folder = f"/tmp/{self.name}"
        self.remover = 0
        """The process that removes it, once it has been started."""
        self.is_gone = False

    def open(self) -> None:
        """Make the folder for its result, which also tells others of it; raises OSError."""
        os.mkdir(self._folder, 0o700)
        os.mkdir(f"{self._folder}/out")
        # Whoever it runs as in there may write to it; out here the folder around it is closed.
        os.chmod(f"{self._folder}/out", 0o777)
        with open(f"{self._folder}/{_RECORD}", "w", encoding="utf-8") as file:
            file.write(f"{self._engine}\n{self.name}\n")

    def argv(self, spec: "Spec", bounds: "Bounds", env: dict[bytes, bytes]) -> list[str]:
        """Return what is started in place of a command; `env` is made what it is to be there."""
        named = [*spec["env"], *(os.fsdecode(name) for name in spec["told"]), "QUEUECTL_RUN"]
        for variable in (RESULT, PROGRESS):
            if variable in env:
                word = os.fsdecode(variable).removeprefix("QUEUECTL_").lower()
                env[variable] = f"{INSIDE}/{word}".encode()
        argv = [self._engine, "run", "--name", self.name, "--label", "queuectl=run"]
        # Of variables only the names: anybody may read the arguments of a program.
        argv += [f"--env={name}" for name in dict.fromkeys(named)]
        argv += ["--interactive"] if spec["stdin"] is not None else []
        argv += flags(bounds)
        argv += ["--volume", f"{self._folder}/out:{INSIDE}"]
        if (cwd := spec["cwd"]) and any(_covers(mount, cwd) for mount in bounds.get("mounts", ())):
            argv += ["--workdir", cwd]
        return [*argv, self._image, *spec["argv"]]

    def removal(self) -> list[str]:
        """Return the command that removes it, whatever it does, and notes if its memory ran out."""
        script = (
            '"$1" inspect --format "{{.State.OOMKilled}}" "$2" > "$3" 2> /dev/null;'
            ' exec "$1" rm --force --volumes "$2" > /dev/null 2>&1'
        )
        note = f"{self._folder}/{_OOM}"
        return ["/bin/sh", "-c", script, "queuectl", self._engine, self.name, note]

    def ran_out_of_memory(self) -> bool:
        """Tell whether the engine says so; known once it is gone."""
        with suppress(OSError), open(f"{self._folder}/{_OOM}", encoding="utf-8") as file:
            return file.read().strip() == "true"
        return False

    @property
    def result(self) -> str:
        """Where its result is, if it left one."""
        return f"{self._folder}/out/result"

    def close(self) -> None:
        """Remove the folder."""
        import shutil

        shutil.rmtree(self._folder, ignore_errors=True)


def flags(bounds: "Bounds") -> list[str]:
    """Return the options by which an engine keeps a container to its bounds."""
    made: list[str] = []
    if (memory := bounds.get("memory")) is not None:
        # As much with swap as without: none.
        made += ["--memory", f"{memory}b", "--memory-swap", f"{memory}b"]
    if (cpus := bounds.get("cpus")) is not None:
        made += ["--cpus", f"{cpus:g}"]
    if (nproc := bounds.get("nproc")) is not None:
        made += ["--pids-limit", str(nproc)]
    if (nofile := bounds.get("nofile")) is not None:
        made += ["--ulimit", f"nofile={nofile}:{nofile}"]
    if (user := bounds.get("user")) is not None:
        made += ["--user", user]
    if bounds.get("read_only_root"):
        made += ["--read-only", "--tmpfs", "/tmp"]
    if bounds.get("no_network"):
        made += ["--network", "none"]
    for mount in bounds.get("mounts", ()):
        made += ["--volume", mount]
    return made


def refused(bounds: "Bounds") -> list[str]:
    """Say which bounds no engine keeps a container to."""
    return [f"{name}: {why}" for name, why in _NOT_THERE.items() if name in bounds]


def engine_in(path: str) -> str:
    """Find an engine in a PATH, or raise `ConfineError`."""
    for name in ENGINES:
        for folder in path.split(":"):
            program = os.path.join(folder or ".", name)
            if os.access(program, os.X_OK) and os.path.isfile(program):
                return program
    raise ConfineError(f"image: {_NO_ENGINE}")


def left_in(folder: str) -> list[str] | None:
    """Return the command that removes the container that a folder was made for; None: for none."""
    try:
        with open(f"{folder}/{_RECORD}", encoding="utf-8") as file:
            engine, name = file.read().split("\n")[:2]
    except (OSError, ValueError):
        return None
    return [engine, "rm", "--force", "--volumes", name]


def _covers(mount: str, path: str) -> bool:
    target = mount.split(":")[1]
    return path == target or path.startswith(target.rstrip("/") + "/")
