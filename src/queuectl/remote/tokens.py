"""The tokens by which servers know us: from the environment, or a file that only we can read.

They are never among the arguments of a command, where everybody on the host can see them.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from stat import S_IMODE

from queuectl.address import Remote
from queuectl.errors import StoreDeniedError, StoreError, UsageError

VARIABLE = "QUEUECTL_TOKEN"
PLAIN = "QUEUECTL_PLAIN_HTTP"
"""Set to 1, it lets tokens go over networks without TLS."""
LONGEST = 1_000


def file_path(environ: Mapping[str, str] | None = None) -> str:
    """Return where tokens are kept: in the user's folder of configuration."""
    environ = os.environ if environ is None else environ
    folder = environ.get("XDG_CONFIG_HOME", "").strip()
    if not os.path.isabs(folder):
        folder = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "queuectl", "tokens.json")


def check_way(remote: Remote, environ: Mapping[str, str] | None = None) -> None:
    """Refuse to send a token where others on the way can read it."""
    environ = os.environ if environ is None else environ
    if not remote.is_secure and not remote.is_here and environ.get(PLAIN) != "1":
        raise UsageError(
            f"{remote.url} is without TLS, so others on the way could read the token; use https://,"
            f" or set {PLAIN}=1 if the network is safe."
        )


def token_for(remote: Remote, environ: Mapping[str, str] | None = None) -> str:
    """Return the token that a server is told."""
    environ = os.environ if environ is None else environ
    check_way(remote, environ)
    if given := environ.get(VARIABLE, "").strip():
        return check_token(given)
    path = file_path(environ)
    known = _read(path)
    if remote.url not in known:
        raise StoreDeniedError(
            f"No token is known for {remote.url}.",
            advice=f"queuectl login {remote.url} takes one, or set {VARIABLE}.",
        )
    return check_token(known[remote.url])


def check_token(text: str) -> str:
    """Return what may be a token."""
    token = text.strip()
    if not 0 < len(token) <= LONGEST or not token.isascii() or not token.isprintable():
        raise UsageError(
            "That is no token.", advice="queuectl token add prints one, which begins with qtl_."
        )
    if " " in token:
        raise UsageError("A token has no spaces; give nothing else with it.")
    return token


def keep(remote: Remote, token: str | None) -> str:
    """Keep a token for a server, or forget it; returns the path of the file."""
    path = file_path()
    known = _read(path)
    if token is None:
        known.pop(remote.url, None)
    else:
        known[remote.url] = check_token(token)
    _write(path, known)
    return path


def is_kept(remote: Remote) -> bool:
    """Tell whether a token is kept for a server."""
    return remote.url in _read(file_path())


def _read(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            mode, owner = S_IMODE(os.fstat(file.fileno()).st_mode), os.fstat(file.fileno()).st_uid
            if mode & 0o077 or owner not in (os.getuid(), 0):
                raise StoreDeniedError(
                    f"Others may read {path}, so the tokens in it aren't used.",
                    advice=f"chmod 600 {path} mends that; then replace the tokens.",
                )
            known = json.load(file)
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as error:
        raise StoreError(f"{path} can't be read: {error}.") from None
    if not isinstance(known, dict) or not all(isinstance(one, str) for one in known.values()):
        raise StoreError(f"{path} isn't a file with tokens; remove it.")
    return known


def _write(path: str, known: Mapping[str, str]) -> None:
    """Replace the file as a whole: whoever reads it finds what was there, or what is."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}"
    try:
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "w", encoding="utf-8") as opened:
            json.dump(known, opened, indent=1)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
