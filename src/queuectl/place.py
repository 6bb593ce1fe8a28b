"""Finds the queue and its settings: flag, environment, `queuectl.toml`, shared table, default."""

import os
from collections.abc import Mapping

from queuectl.address import is_remote, without_secrets
from queuectl.errors import BadSettingError, UsageError
from queuectl.settings import (
    Layer,
    Settings,
    environment_layer,
    find_file,
    layered,
    read_file,
    unknown_variables,
)
from queuectl.values import dataclass, field

DEFAULT = "default"
"""Who chose a place that nobody named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the queue is, who said so, and the settings that outrank its shared ones."""

    url: str
    chosen_by: str
    layers: tuple[Layer, ...] = field(default=())
    oddities: tuple[str, ...] = field(default=())
    """What is ignored, though it may have been meant for us; one sentence each."""

    @property
    def is_default(self) -> bool:
        """Whether nobody has named a queue, so that it is the one in the data directory."""
        return self.chosen_by == DEFAULT

    def settings(self, shared: Mapping[str, str]) -> tuple[Settings, dict[str, str]]:
        """Merge with the store's shared settings; says where each value came from."""
        return layered([*self.layers, Layer("the config table", shared)])


def near(place: Place) -> Place:
    """Return a place whose database is reached from here; one behind a server is an error."""
    if is_remote(place.url):
        raise UsageError(
            f"That can't be done through {without_secrets(place.url)}.",
            advice="do it on a host that reaches the database, with --db naming that.",
        )
    return place


def find_place(
    url: str | None = None,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    check: bool = True,
) -> Place:
    """Find the queue that a command started here and now means.

    A setting that can't be is a `BadSettingError` here already, whether it will be needed or not;
    unless `check` is off, for who wants to look at it.
    """
    environ = os.environ if environ is None else environ
    layers = [Layer("the command line", flags)] if flags else []
    layers.append(environment_layer(environ))
    file = find_file(cwd or _cwd(), environ)
    content = {} if file is None else read_file(file)
    written = content.pop("db", None)
    if file is not None:
        layers.append(Layer(file, content, also=("db",)))
    if url:
        chosen, by = url, "--db"
    elif found := environ.get("QUEUECTL_DB") or environ.get("QUEUECTL_DB_PATH"):
        chosen, by = found, "the environment"
    elif file is not None and written is not None:
        chosen, by = _beside(file, written), file
    else:
        chosen, by = default_path(environ), DEFAULT
    for layer in layers if check else ():
        layer.check()
    oddities = unknown_variables(environ)
    return Place(url=chosen, chosen_by=by, layers=tuple(layers), oddities=oddities)


def default_path(environ: Mapping[str, str]) -> str:
    """Return `queue.db` in the user's data directory."""
    if os.name == "posix" and os.uname().sysname == "Linux":
        # What platformdirs would answer, without the cost of importing it on every command.
        home = environ.get("XDG_DATA_HOME", "").strip()
        # The specification wants a relative path ignored: it would mean another queue everywhere.
        if not os.path.isabs(home):
            home = os.path.join(os.path.expanduser("~"), ".local", "share")
        return os.path.join(home, "queuectl", "queue.db")
    import platformdirs

    return os.path.join(platformdirs.user_data_dir("queuectl", appauthor=False), "queue.db")


def _beside(file: str, written: object) -> str:
    """Read `db` of a `queuectl.toml`: relative paths are relative to that file."""
    if not isinstance(written, str) or not written.strip():
        raise BadSettingError(f"In {file}: db must be a path or URL in quotes.")
    if "://" in written or os.path.isabs(written):
        return written
    path = written.removeprefix("sqlite:")
    return os.path.join(os.path.dirname(os.path.abspath(file)), os.path.expanduser(path))


def _cwd() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"
