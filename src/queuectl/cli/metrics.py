"""The option of `worker start` that says where the metrics of a node are served."""

import click

from queuectl.errors import shown

LOOPBACK = "127.0.0.1"
HIGHEST_PORT = 65_535

metrics_option = click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus there, at /metrics; at /metrics/node without those of the"
    " queue. HOST is 127.0.0.1 unless it is given.",
)


def read_address(text: str) -> tuple[str, int]:
    """Return the host and port that somebody means: `9464`, `0.0.0.0:9464`, `[::1]:9464`."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= HIGHEST_PORT
    if not is_port or (colon and not host):
        raise click.UsageError(
            f"--metrics takes PORT or HOST:PORT, such as 9464 or 0.0.0.0:9464, not {shown(text)}"
        )
    return host or LOOPBACK, int(port)
