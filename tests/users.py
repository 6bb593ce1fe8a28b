"""Other users of this host, for whom the command is run as it is for anybody who may do little.

They exist only for the processes that are started here: in a mount namespace of their own these
see another `/etc/passwd` and `/etc/group`, and the interpreter, should it lie in a folder that
only root may enter. It takes root to set that up.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import queuectl
from tests.support import PATIENCE

COMMAND = str(Path(sys.executable).with_name("queuectl"))
NEEDED = [sys.prefix, sys.base_prefix, str(Path(queuectl.__file__).parents[1])]
"""What somebody must be able to read to run the command."""

PASSWD = "alice:x:12345:12345::/nonexistent:/bin/sh\nbob:x:12346:12346::/nonexistent:/bin/sh\n"
GROUP = "alice:x:12345:\nbob:x:12346:\nbuilders:x:12400:alice,bob\nothers:x:12401:\n"

_LAUNCH = """
import os, subprocess, sys, tempfile
uid, gid, groups, umask, needed, passwd, group, *command = sys.argv[1:]
def mount(*args): subprocess.run(["mount", *args], check=True)
for name, lines in (("/etc/passwd", passwd), ("/etc/group", group)):
    with tempfile.NamedTemporaryFile("w", dir="/tmp", delete=False) as file:
        file.write(open(name).read() + lines)
        os.fchmod(file.fileno(), 0o644)
    mount("--bind", file.name, name)
    os.unlink(file.name)
def closed(path):
    above = [path]
    while above[-1] != "/":
        above.append(os.path.dirname(above[-1]))
    return next((p for p in reversed(above) if not os.stat(p).st_mode & 1), None)
for path in needed.split(":"):
    if (outer := closed(path)) is not None:
        with tempfile.TemporaryDirectory(dir="/tmp") as aside:
            os.chmod(aside, 0o755)
            mount("--bind", path, aside)
            mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", outer)
            os.makedirs(path, exist_ok=True)
            mount("--move", aside, path)
os.umask(int(umask, 8))
os.setgroups([int(g) for g in groups.split(",") if g])
os.setresgid(int(gid), int(gid), int(gid))
os.setresuid(int(uid), int(uid), int(uid))
os.execv(command[0], command)
"""


@dataclass(frozen=True)
class User:
    """Somebody with an account here."""

    name: str
    uid: int
    groups: tuple[int, ...] = ()
    umask: int = 0o022

    def command(self, *args: str) -> list[str]:
        """Return what runs the installed command as this user."""
        needed = ":".join(NEEDED)
        who = [str(self.uid), str(self.uid), ",".join(map(str, self.groups)), f"{self.umask:o}"]
        launch = [sys.executable, "-c", _LAUNCH, *who, needed, PASSWD, GROUP]
        return ["unshare", "--mount", "--propagation", "private", *launch, COMMAND, *args]

    def environment(self, db: str) -> dict[str, str]:
        """Return what this user has set."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "USER": self.name,
            "LC_ALL": "C.UTF-8",
            "QUEUECTL_DB": db,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, db: Path, *args: str) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end."""
        return subprocess.run(
            self.command(*args),
            env=self.environment(str(db)),
            cwd="/tmp",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def ok(self, db: Path, *args: str) -> str:
        """Run the command, which must succeed; returns what it printed."""
        done = self.run(db, *args)
        assert done.returncode == 0, done
        return done.stdout

    def refused(self, db: Path, *args: str, code: int = 5) -> str:
        """Run the command, which must fail with one sentence; returns it."""
        done = self.run(db, *args)
        assert (done.returncode, done.stdout) == (code, ""), done
        (line,) = done.stderr.splitlines()
        return line

    def start(self, db: Path, *args: str) -> "subprocess.Popen[bytes]":
        """Start the command and leave it running."""
        return subprocess.Popen(
            self.command(*args),
            env=self.environment(str(db)),
            cwd="/tmp",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


BUILDERS = 12400
ALICE = User("alice", 12345, (BUILDERS,), umask=0o077)
BOB = User("bob", 12346, (BUILDERS,), umask=0o002)
STRANGER = User("bob", 12346)
