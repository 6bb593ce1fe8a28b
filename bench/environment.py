"""Makes the environment of the benchmarks: `python3 -m bench.environment FOLDER`.

FOLDER becomes a virtual environment with queuectl, as it is in this checkout, the peers that are
in Python, what draws, and what drives a browser. Peers that don't bear with the others have folders
in `apart`. Peers, servers and the browser that Debian has are installed if they are missing and we
are root. Only the standard library is imported here.

Whatever can't be installed is named, and is told again by the benchmarks as not measured.
"""

import subprocess
import sys
import venv
from pathlib import Path

from tests.servers.install import InstallError, find, install_packages

CHECKOUT = Path(__file__).parents[1]
PEERS = (
    "huey",
    "rq",
    "dramatiq[redis]",
    "celery[redis]",
    "procrastinate",
    "flexiq",
    "redis[hiredis]",
    "psycopg[binary]",
)
TOOLS = ("matplotlib", "playwright")
"""What draws, and what drives a browser."""
APART = {
    "saq": ("saq[redis,hiredis]",),
    "taskiq": ("taskiq[uv]", "taskiq-redis", "hiredis"),
    "arq": ("arq", "redis[hiredis]"),
}
"""Peers that want other versions of the same client of Redis: each has a folder of packages."""
PROGRAMS = {
    "postgres": "postgresql",
    "mariadbd": "mariadb-server",
    "mariadb": "mariadb-client",
    "redis-server": "redis-server",
    "tsp": "task-spooler",
    "parallel": "parallel",
    "chromium": "chromium",
}


def main(folder: Path) -> int:
    """Make it, and say what couldn't be; only without queuectl itself there is no point."""
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    if not install(folder, "-e", f"{CHECKOUT}[postgres,mysql,web]"):
        return 1
    for package in (*PEERS, *TOOLS):
        if not install(folder, package):
            print(f"{package} can't be installed; it won't be measured.", file=sys.stderr)
    for name, packages in APART.items():
        apart = folder / "apart" / name
        if not apart.exists() and not install(folder, "--target", str(apart), *packages):
            print(f"{name} can't be installed; it won't be measured.", file=sys.stderr)
    try:
        install_programs()
    except InstallError as error:
        print(f"{error}\nWhat needs them won't be measured.", file=sys.stderr)
    return 0


def install(folder: Path, *what: str) -> bool:
    """Install something by pip, and tell whether it worked."""
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq"]
    done = subprocess.run([*pip, "--disable-pip-version-check", *what], check=False)
    return done.returncode == 0


def install_programs() -> None:
    """Install the packages of Debian whose programs aren't there."""
    missing = sorted({package for program, package in PROGRAMS.items() if find(program) is None})
    if missing:
        install_packages(missing)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
