"""nginx and Caddy: what stands before the web server, with the recipes of our page."""

import signal
import socket
import ssl
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from tests.servers import HOST, PATIENCE, Server
from tests.servers.install import program

NAME = "jobs.example.com"
"""What the recipes call the host."""


def tls() -> ssl.SSLContext:
    """Return how a client speaks to them: nobody knows who has signed their certificates."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class WebProxy(Server):
    """A proxy of our own that serves https for what its recipe says."""

    ACCOUNT: ClassVar[str] = "www-data"
    STOP: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, recipe: str) -> None:
        program(self.NAME)
        super().__init__()
        self.recipe = recipe
        self.env = {"HOME": str(self.folder)}

    def _prepare(self) -> None:
        return

    def _command(self) -> list[str]:
        return [program(self.NAME), *self._options(self._write("config", self._config()))]

    @abstractmethod
    def _config(self) -> str:
        """Return the configuration, with the recipe in it."""

    @abstractmethod
    def _options(self, config: Path) -> list[str]:
        """Return the arguments that run it in the foreground."""

    def _answers(self) -> bool:
        try:
            with (
                socket.create_connection((HOST, self.port), PATIENCE) as wire,
                tls().wrap_socket(wire, server_hostname=NAME),
            ):
                return True
        except OSError:
            return False


class Nginx(WebProxy):
    """nginx, with a recipe for one of its servers."""

    NAME: ClassVar[str] = "nginx"

    def _prepare(self) -> None:
        made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem"
        self._tool(*made.split(), "-subj", f"/CN={NAME}")

    def _config(self) -> str:
        kept = "".join(
            f"    {kind}_temp_path {self.folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        return (
            f"daemon off;\npid {self.folder}/pid;\nerror_log stderr;\nevents {{}}\n"
            f"http {{\n    access_log off;\n{kept}"
            f"    server {{\n    listen {HOST}:{self.port} ssl;\n    server_name {NAME};\n"
            f"    ssl_certificate {self.folder}/cert.pem;\n"
            f"    ssl_certificate_key {self.folder}/key.pem;\n{self.recipe}    }}\n}}\n"
        )

    def _options(self, config: Path) -> list[str]:
        return ["-e", "stderr", "-p", str(self.folder), "-c", str(config)]


class Caddy(WebProxy):
    """Caddy, with a recipe for a site, whose certificate it makes itself."""

    NAME: ClassVar[str] = "caddy"

    def _config(self) -> str:
        return (
            "{\n    admin off\n    auto_https disable_redirects\n    local_certs\n"
            f"    skip_install_trust\n    https_port {self.port}\n    default_bind {HOST}\n}}\n"
            f"{self.recipe}"
        )

    def _options(self, config: Path) -> list[str]:
        return ["run", "--adapter", "caddyfile", "--config", str(config)]
