"""What a node goes by: what it was asked for, and the settings as they are now."""

from collections.abc import Callable
from dataclasses import dataclass, field

from queuectl.admission import ALL_QUEUES, Serving
from queuectl.lifecycle import Policy
from queuectl.node.handover import Again, HandedNode
from queuectl.node.programs import Programs
from queuectl.place import Place
from queuectl.settings import NAMES, Settings
from queuectl.values import fields

_POLICY = [f.name for f in fields(Policy) if f.name in NAMES]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What `worker start` was asked for."""

    place: Place
    id: str | None = None
    """Its name, if somebody has to know it beforehand."""
    count: int | None = None
    queues: Serving = ALL_QUEUES
    programs: Programs = field(default_factory=Programs)
    """What handles data jobs."""
    drain: bool = False
    backoff_base: float | None = None
    reload: bool = False
    """Whether it starts again when a file of Python has changed."""
    log: str | None = None
    log_json: bool = False
    pidfile: str | None = None
    ready: Callable[[], None] | None = None
    """Called once the node is registered and can run jobs."""
    to_terminal: bool = True
    again: Again | None = None
    """How it is restarted; None if it can't be."""
    handed: HandedNode | None = None
    """What the program before it in this process has left for it to go on with."""


class Config:
    """The settings, and what follows from them: one for all parts, so that each sees a change."""

    def __init__(
        self, settings: Settings, *, count: int | None = None, forced_base: float | None = None
    ) -> None:
        """`count` and `forced_base` were asked for by hand, and stay, whatever the settings say."""
        self._fixed_count = count
        self._forced_base = forced_base
        self.take(settings)

    def take(self, settings: Settings) -> None:
        """Go by these settings from now on."""
        self.settings = settings
        self.count = self._fixed_count or settings.workers
        """How many workers there are."""
        self.policy = Policy(
            **{name: getattr(settings, name) for name in _POLICY},
            forced_base=self._forced_base,
        )
        """What becomes of a job where it says nothing itself."""
