"""Finds the programs that tests need, and installs those that are missing.

A missing server is a failure, never a skip. `python -m tests.servers.install` sees to it before
the tests run; the tests find what they need through `program` and install it likewise.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = {
    "openssl": "openssl",
    "initdb": "postgresql",
    "postgres": "postgresql",
    "pg_ctl": "postgresql",
    "psql": "postgresql",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "mariadb": "mariadb-client",
    "pgbouncer": "pgbouncer",
    "chromium": "chromium",
    "sqlite3": "sqlite3",
    "ss": "iproute2",
    "ip": "iproute2",
    "faketime": "faketime",
    "strace": "strace",
    "jq": "jq",
    "promtool": "prometheus",
    "nginx": "nginx",
    "caddy": "caddy",
    "zsh": "zsh",
    "fish": "fish",
}
"""Every program we need, and the package of Debian that has it."""
OLD_NAMES = {"mariadbd": "mysqld", "mariadb-install-db": "mysql_install_db", "mariadb": "mysql"}
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
POSTGRES = Path("/usr/lib/postgresql")
POLICY = Path("/usr/sbin/policy-rc.d")


class InstallError(Exception):
    """A program isn't there and can't be installed."""


def find(name: str) -> str | None:
    """Return the path of a program, or None; of several PostgreSQLs, the newest."""
    path = os.pathsep.join(
        # Before PATH, where Debian has a slow wrapper of psql.
        [*_postgres_folders(), os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS]
    )
    old = OLD_NAMES.get(name)
    return shutil.which(name, path=path) or (shutil.which(old, path=path) if old else None)


def program(name: str) -> str:
    """Return the path of a program, which is installed if it must be."""
    found = find(name)
    if found is None:
        install_missing([name])
        found = find(name)
    if found is None:
        raise InstallError(f"{PACKAGES[name]} is installed, but there is no {name} in it.")
    return found


def install_missing(names: Iterable[str] = PACKAGES) -> list[str]:
    """Install the packages of the programs that aren't there, and return them."""
    names = list(names)
    if not _packages_without(names):
        return []
    with _one_at_a_time():
        # Asked again: while we waited, another test run may have installed them.
        packages = _packages_without(names)
        if packages:
            install_packages(packages)
    missing = [name for name in names if find(name) is None]
    if missing:
        raise InstallError(f"These programs are missing even now: {', '.join(missing)}.")
    return packages


def _postgres_folders() -> list[str]:
    """Return the folders of the installed versions of PostgreSQL, the newest first."""
    versions = [p for p in POSTGRES.glob("*/bin") if p.parent.name.isdigit()]
    return [str(p) for p in sorted(versions, key=lambda p: int(p.parent.name), reverse=True)]


def _packages_without(names: Iterable[str]) -> list[str]:
    return sorted({PACKAGES[name] for name in names if find(name) is None})


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Keep the other test processes of this checkout waiting."""
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install_packages(packages: list[str]) -> None:
    """Install packages of Debian, without starting the servers among them."""
    by_hand = f"Install them yourself: apt-get install {' '.join(packages)}"
    if shutil.which("apt-get") is None:
        raise InstallError(f"Servers for the tests are missing, and so is apt-get. {by_hand}")
    if os.geteuid() != 0:
        raise InstallError(f"Servers for the tests are missing, and you aren't root. {by_hand}")
    with no_services(POLICY):
        _apt_get("update", "-qq")
        _apt_get("install", "-y", "-qq", "--no-install-recommends", *packages)


def _apt_get(*args: str) -> None:
    done = subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=300", *args],
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise InstallError(f"apt-get {' '.join(args)} failed:\n{done.stdout}")


@contextmanager
def no_services(policy: Path) -> Iterator[None]:
    """Keep Debian from starting the servers it installs, unless the host has its own policy."""
    try:
        with policy.open("x") as file:
            file.write("#!/bin/sh\nexit 101\n")
    except FileExistsError:
        yield
        return
    try:
        policy.chmod(0o755)
        yield
    finally:
        policy.unlink()


def main() -> int:
    """Install what is missing, and say what was done."""
    try:
        installed = install_missing()
    except InstallError as error:
        print(error, file=sys.stderr)
        return 1
    if installed:
        print(f"Installed for the tests: {', '.join(installed)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
