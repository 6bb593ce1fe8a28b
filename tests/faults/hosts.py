"""Hosts on a network, on one machine: namespaces, with a switch that has a database server on it.

Each host has its own network, processes, name and home; the disk is common to all. For the
product they are different hosts. Only root may make them.
"""

import ctypes
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from tests.faults.arena import Arena
from tests.servers import QUEUECTL, Login
from tests.servers.install import program
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres
from tests.support import children_of, is_gone, wait_for

SUBNET = "10.213.7"
SERVER = f"{SUBNET}.1"
"""Where the database server is."""
NOWHERE = "02:00:00:00:00:01"
"""The hardware address of nobody."""
NAMES = re.compile(r"(\w+) (?:pid \d+ on |Goes on as node )")
"""How a node says its name as it starts, or when it has to take a new one."""
CLONE_NEWNET = 0x40000000


def ip(*args: str) -> None:
    """Change something about the network."""
    subprocess.run([program("ip"), *args], check=True, capture_output=True, timeout=60)


def inside(namespace: str, *command: str) -> list[str]:
    """Return a command line that runs a command in a network namespace."""
    return [program("ip"), "netns", "exec", namespace, *command]


def _neighbour(action: str, address: str, device: str) -> list[str]:
    """Return what sends packets for an address astray, or lets them find their way again."""
    return ["neighbour", action, address, "lladdr", NOWHERE, "dev", device, "nud", "permanent"]


class Host:
    """A host that is plugged into a switch."""

    def __init__(self, switch: "Switch", number: int, name: str, folder: Path) -> None:
        self.name = name
        self.home = folder / f"home-{name}"
        self.home.mkdir()
        self.log = folder / f"{name}.log"
        self.log.touch()
        self._switch = switch.namespace
        self._port = f"port{number}"
        self._address = f"{SUBNET}.{number + 1}"
        self._namespace = f"{switch.namespace}-{name}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._names_before = 0
        ip("netns", "add", self._namespace)
        ip("-n", self._switch, "link", "add", self._port, "type", "veth", "peer", "name", "eth0",
           "netns", self._namespace)  # fmt: skip
        ip("-n", self._switch, "link", "set", self._port, "master", "switch", "up")
        ip("-n", self._namespace, "address", "add", f"{self._address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", self._namespace, "link", "set", device, "up")

    def unplug(self) -> None:
        """Pull its cable."""
        ip("-n", self._switch, "link", "set", self._port, "down")

    def plug(self) -> None:
        """Put it in again."""
        ip("-n", self._switch, "link", "set", self._port, "up")

    def mute(self) -> None:
        """Lose all that it sends to the server; it still hears."""
        ip("-n", self._namespace, *_neighbour("replace", SERVER, "eth0"))

    def unmute(self) -> None:
        """Let it be heard again."""
        ip("-n", self._namespace, *_neighbour("delete", SERVER, "eth0"))

    def deafen(self) -> None:
        """Lose all that the server sends to it; it is still heard."""
        ip("-n", self._switch, *_neighbour("replace", self._address, "switch"))

    def undeafen(self) -> None:
        """Let it hear again."""
        ip("-n", self._switch, *_neighbour("delete", self._address, "switch"))

    def node(self, url: str, *args: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a node on it, and return once it greets."""
        process = self.boot(url, *args, env=env)
        wait_for(lambda: self.is_up or process.poll() is not None, "a node that greets")
        assert process.poll() is None, self.said()
        return process

    def boot(
        self, url: str, *args: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a node on it, as the first process of a host that boots."""
        self._names_before = len(self.ids)
        command = [queuectl(), "worker", "start", *args]
        boot = f'hostname {self.name}; exec "$@"'
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                inside(
                    self._namespace,
                    # It ends with the one who started it.
                    *("setpriv", "--pdeathsig=KILL", "--"),
                    *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"),
                    *("sh", "-c", boot, "sh", *command),
                ),
                env={**environment(self.home, url), **(env or {})},
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    @property
    def is_up(self) -> bool:
        """Whether the node that was started last has greeted."""
        return len(self.ids) > self._names_before

    @property
    def gave_up(self) -> bool:
        """Whether a node didn't come up, because the network wasn't ready when it started."""
        return self._processes[-1].poll() is not None

    @property
    def ids(self) -> list[str]:
        """The names that its nodes have had so far, the last one last."""
        return NAMES.findall(self.said())

    def said(self) -> str:
        """Return what its nodes have said so far."""
        return self.log.read_text(errors="replace")

    def crash(self) -> None:
        """Lose all its processes at once. What the kernel would tell their peers is told nobody."""
        self.unplug()
        self._end()

    def _end(self) -> None:
        """Kill the first process of each system on it: the kernel kills all others with it."""
        for process in self._processes:
            first = children_of(process.pid)
            # Whoever started the first ends when all are gone.
            for pid in first or [process.pid]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def close(self) -> None:
        """End what runs on it, and remove it."""
        self._end()
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

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this thread, and what it starts, be on the host of the server."""
        outer, inner = "/proc/thread-self/ns/net", f"/var/run/netns/{self.namespace}"
        with open(outer, "rb") as before, open(inner, "rb") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

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


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@contextmanager
def network(arena: Arena) -> Iterator[Switch]:
    """Make a network, and have the arena's queue on the server that is in it."""
    with Switch(arena.store, arena.folder) as switch, switch.entered():
        arena.move_to(switch.url)
        yield switch


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
