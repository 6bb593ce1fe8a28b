"""What one run is kept to: the plan of that, its control group or container, what was left out."""

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from queuectl.guard.cgroups import Group
    from queuectl.guard.confine import Confined
    from queuectl.guard.containers import Container
    from queuectl.guard.outbox import Outbox
    from queuectl.guard.plan import Plan

NEVER = float("inf")


class Kept:
    """What one run is kept to, and by what."""

    __slots__ = (
        "argv",
        "confined",
        "container",
        "group",
        "home",
        "look_at",
        "noted",
        "outbox",
        "plan",
    )

    def __init__(
        self,
        plan: "Plan",
        confined: "Confined",
        *,
        group: "Group | None" = None,
        outbox: "Outbox | None" = None,
        container: "Container | None" = None,
    ) -> None:
        self.plan = plan
        self.confined = confined
        self.noted = list(plan.refused)
        self.group = group
        self.outbox = outbox
        self.container = container
        self.argv: list[str] | None = None
        """What is started in place of its command, if anything is."""
        self.home = b""
        """Where the node looks for the result that its container leaves."""
        self.look_at = NEVER

    def drop(self) -> None:
        """Be done with it, and have the result where the node looks for it."""
        if self.outbox is not None:
            self.outbox.empty()
        if self.container is not None:
            self.container.close()
        if self.group is not None:
            self.group.remove()
