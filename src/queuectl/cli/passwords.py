"""Passwords on the command line: kept out of the list of processes and of messages.

Everybody on the host can read the arguments of every process, for as long as it lives. So the
password in a URL is overwritten where the kernel looks for it. It was there for the moment it
took to start; in the environment or in a file it never is.
"""

import re
import sys
from collections.abc import Sequence

_PASSWORD = re.compile(r"://[^:/?#]*:([^/?#]*)@|[?&](?:password|passwd|sslpassword)=([^&#]*)")


def passwords_in(arguments: Sequence[str]) -> list[str]:
    """Return the passwords in URLs among these arguments."""
    return [
        text
        for argument in arguments
        if "://" in argument
        for found in _PASSWORD.finditer(argument)
        for text in found.groups()
        if text
    ]


def without_passwords(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with their passwords blotted out."""
    secrets = passwords_in(arguments)
    shown = list(arguments)
    for secret in secrets:
        shown = [argument.replace(secret, "*" * len(secret)) for argument in shown]
    return shown


def hide_passwords(arguments: Sequence[str]) -> None:
    """Overwrite the passwords among the arguments this process was started with."""
    secrets = passwords_in(arguments)
    if secrets and sys.platform == "linux":
        for secret in secrets:
            _overwrite(secret.encode("utf-8", "surrogateescape"))


def _overwrite(secret: bytes) -> None:
    import ctypes

    start, end = _argument_area()
    there = ctypes.string_at(start, end - start)
    at = there.find(secret)
    while at >= 0:
        ctypes.memmove(start + at, b"*" * len(secret), len(secret))
        at = there.find(secret, at + len(secret))


def _argument_area() -> tuple[int, int]:
    """Return where the kernel reads the arguments of this process from."""
    from queuectl.host import stat_fields

    fields = stat_fields("self")
    return int(fields[45]), int(fields[46])
