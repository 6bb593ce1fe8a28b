"""The settings of a node as they are now, and what follows from them: its policy and its size."""

from queuectl.lifecycle import Policy
from queuectl.settings import NAMES, Settings
from queuectl.values import fields

_POLICY = [f.name for f in fields(Policy) if f.name in NAMES]


class Config:
    """What a node goes by: one for all of its parts, so that a change reaches each of them."""

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
