"""Hosts on a network, on one machine: namespaces, with a switch that has a database server on it.

Each host has its own network, processes, name and home; the disk is common to all. For the
product they are different hosts. Only root may make them.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.servers import QUEUECTL, Login
from tests.servers.install import program
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres
from tests.support import is_gone, wait_for

SUBNET = "10.213.7"
SERVER = f"{SUBNET}.1"
"""Where the database server is."""


def ip(*args: str) -> None:
    """Change something about the network."""
    subprocess.run([program("ip"), *args], check=True, capture_output=True, timeout=60)


def inside(namespace: str, *command: str) -> list[str]:
    """Return a command line that runs a command in a network namespace."""
    return [program("ip"), "netns", "exec", namespace, *command]


class Host:
    """A host that is plugged into a switch."""

    def __init__(self, switch: "Switch", number: int, name: str, folder: Path) -> None:
        self.name = name
        self.home = folder / f"home-{name}"
        self.home.mkdir()
        self.log = folder / f"{name}.log"
        self._switch = switch.namespace
        self._port = f"port{number}"
        self._namespace = f"{switch.namespace}-{name}"
        self._processes: list[subprocess.Popen[bytes]] = []
        ip("netns", "add", self._namespace)
        ip("-n", self._switch, "link", "add", self._port, "type", "veth", "peer", "name", "eth0",
           "netns", self._namespace)  # fmt: skip
        ip("-n", self._switch, "link", "set", self._port, "master", "switch", "up")
        ip("-n", self._namespace, "address", "add", f"{SUBNET}.{number + 1}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", self._namespace, "link", "set", device, "up")

    def unplug(self) -> None:
        """Pull its cable."""
        ip("-n", self._switch, "link", "set", self._port, "down")

    def plug(self) -> None:
        """Put it in again."""
        ip("-n", self._switch, "link", "set", self._port, "up")

    def node(self, url: str, *args: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a node on it, as the first process of a host that boots."""
        command = [queuectl(), "worker", "start", *args]
        boot = f'hostname {self.name}; exec "$@"'
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                inside(
                    self._namespace,
                    *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"),
                    *("sh", "-c", boot, "sh", *command),
                ),
                env={**environment(self.home, url), **env},
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        wait_for(
            lambda: "starting" in self.said() or process.poll() is not None, "a node that greets"
        )
        assert process.poll() is None, self.said()
        return process

    def said(self) -> str:
        """Return what its nodes have said so far."""
        return self.log.read_text(errors="replace")

    def crash(self) -> None:
        """Lose all its processes at once."""
        for process in self._processes:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End what runs on it, and remove it."""
        self.crash()
        ip("netns", "delete", self._namespace)


class Switch:
    """A network with a database server, into which hosts are plugged."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.namespace = f"qctl{secrets.token_hex(3)}"
        self._folder = folder
        self._hosts: list[Host] = []
        ip("netns", "add", self.namespace)
        ip("-n", self.namespace, "link", "set", "lo", "up")
        ip("-n", self.namespace, "link", "add", "switch", "type", "bridge")
        ip("-n", self.namespace, "address", "add", f"{SERVER}/24", "dev", "switch")
        ip("-n", self.namespace, "link", "set", "switch", "up")
        there = PostgresThere if kind == "postgres" else MariaDBThere
        self.server: PostgresThere | MariaDBThere = there(self.namespace)

    def host(self, name: str) -> Host:
        """Plug in a new host."""
        host = Host(self, len(self._hosts) + 1, name, self._folder)
        self._hosts.append(host)
        return host

    def run(self, *args: str) -> str:
        """Run the command on the host of the server, which nobody cuts off."""
        done = subprocess.run(
            inside(self.namespace, queuectl(), *args),
            env=environment(self._folder, self.url),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def url(self) -> str:
        """Where the queue is, seen from any host."""
        return self.server.url("queue").replace("127.0.0.1", SERVER)

    def __enter__(self) -> Self:
        try:
            self.server.start()
            self.server.create_database("queue")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End and remove everything."""
        for host in self._hosts:
            host.close()
        pids = self.server.processes()
        self.server.close()
        wait_for(lambda: all(map(is_gone, pids)), "the server to end")
        ip("netns", "delete", self.namespace)


class PostgresThere(Postgres):
    """PostgreSQL in another network namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        super().__init__(fast=True)

    def _settings(self) -> list[str]:
        return [*super()._settings(), f"listen_addresses = '127.0.0.1,{SERVER}'"]

    def _prepare(self) -> None:
        super()._prepare()
        with (self._data / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {SUBNET}.0/24 scram-sha-256\n")

    def _as_account(self, *command: str, **how: object) -> list[str]:
        return inside(self._namespace, *super()._as_account(*command, **how))  # type: ignore[arg-type]

    def client(
        self, database: str, *, login: Login = QUEUECTL, port: int | None = None
    ) -> list[str]:
        return inside(self._namespace, *super().client(database, login=login, port=port))


class MariaDBThere(MariaDB):
    """MariaDB in another network namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        super().__init__(fast=True)

    def _settings(self) -> list[str]:
        return [*super()._settings(), "bind_address = *"]

    def _introduce(self) -> None:
        super()._introduce()
        self.sql(f"CREATE USER '{QUEUECTL.name}'@'%' IDENTIFIED BY '{QUEUECTL.password}'")

    def create_database(self, name: str) -> None:
        super().create_database(name)
        self.sql(f"GRANT ALL ON `{name}`.* TO '{QUEUECTL.name}'@'%'")

    def _as_account(self, *command: str, **how: object) -> list[str]:
        return inside(self._namespace, *super()._as_account(*command, **how))  # type: ignore[arg-type]

    def client(
        self, database: str, *, login: Login = QUEUECTL, port: int | None = None
    ) -> list[str]:
        return inside(self._namespace, *super().client(database, login=login, port=port))


def queuectl() -> str:
    """Return the installed command."""
    return str(Path(sys.executable).with_name("queuectl"))


def environment(home: Path, url: str) -> dict[str, str]:
    """Return an environment in which nothing of the outer queue shines through."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("QUEUECTL_")}
    return outer | {"QUEUECTL_DB": url, "HOME": str(home)}
