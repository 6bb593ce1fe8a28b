"""What a node goes by: what it was asked for, and the settings as they are now."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from queuectl.admission import ALL_QUEUES, Serving
from queuectl.job import Job
from queuectl.lifecycle import Policy
from queuectl.node.handover import Again, HandedNode
from queuectl.node.programs import Programs
from queuectl.place import Place
from queuectl.settings import NAMES, Settings
from queuectl.values import fields, replace

_POLICY = [f.name for f in fields(Policy) if f.name in NAMES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What a node was told to do in another way than the settings say."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that are others for it."""
    of_data: Mapping[str, Any] = field(default_factory=dict)
    """The same where data jobs say nothing themselves: retries, timeout, expiry."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that are set for all that it runs."""
    poll_interval: int | None = None
    """Milliseconds between looks for news, where the database can't tell of them."""
    verbose: bool = False
    traces: bool = False
    """Whether it makes spans of its runs."""


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
    tuning: Tuning = field(default_factory=Tuning)
    metrics: tuple[str, int] | None = None
    """The host and port where they are served."""
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
        self,
        settings: Settings,
        *,
        count: int | None = None,
        forced_base: float | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        """What was asked for by hand stays, whatever the settings say."""
        self._fixed_count = count
        self._tuning = tuning or Tuning()
        self._forced_base = forced_base
        self.take(settings)

    def take(self, settings: Settings) -> None:
        """Go by these settings from now on."""
        self.settings = settings = replace(settings, **self._tuning.settings)
        self.count = self._fixed_count or settings.workers
        """How many workers there are."""
        self.policy = self._policy(settings)
        """What becomes of a job where it says nothing itself."""
        self._of_data = self.settings, self.policy
        if self._tuning.of_data:
            settings = replace(settings, **self._tuning.of_data)
            # Whoever asks for a long wait means it, whatever the general cap is.
            longest = max(settings.max_backoff, self._tuning.of_data.get("retry_delay", 0))
            settings = replace(settings, max_backoff=longest)
            self._of_data = settings, self._policy(settings)

    def told(self) -> str:
        """Say which settings aren't as they are by default; of data jobs by themselves."""
        usual = Settings()
        told = [f"{name} = {self.settings.text(name)}" for name in self._others(usual)]
        of_data = self._of_data[0]
        told += [
            f"for data jobs {name} = {of_data.text(name)}"
            for name in NAMES
            if getattr(of_data, name) != getattr(self.settings, name)
        ]
        return "Settings: " + (", ".join(told) or "all as they are by default") + "."

    def _others(self, usual: Settings) -> list[str]:
        return [name for name in NAMES if getattr(self.settings, name) != getattr(usual, name)]

    def _policy(self, settings: Settings) -> Policy:
        return Policy(
            **{name: getattr(settings, name) for name in _POLICY},
            forced_base=self._forced_base,
        )

    def settings_of(self, job: Job) -> Settings:
        """Return the settings that hold for a job, where it says nothing itself."""
        return self.settings if job.type is None else self._of_data[0]

    def policy_of(self, job: Job) -> Policy:
        """Return what becomes of a job, where it says nothing itself."""
        return self.policy if job.type is None else self._of_data[1]

    def too_old(self, job: Job) -> int | None:
        """Return how old a data job may be that this node runs, if it is older; else None.

        Its age counts from when it was first due, or put back in line by hand.
        """
        oldest = 0 if job.type is None else self._tuning.of_data.get("expire", 0)
        since = job.created_at if job.failures or job.crashes else job.run_at
        is_late = oldest and job.expires_at is None and (job.started_at or 0) - since >= oldest
        return oldest if is_late else None
