"""What one run is kept to: the plan of that, its control group, and what was left out."""

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from queuectl.guard.cgroups import Group
    from queuectl.guard.confine import Confined
    from queuectl.guard.outbox import Outbox
    from queuectl.guard.plan import Plan

NEVER = float("inf")


class Kept:
    """What one run is kept to, and by what."""

    __slots__ = ("confined", "group", "look_at", "noted", "outbox", "plan")

    def __init__(
        self, plan: "Plan", group: "Group | None", confined: "Confined", outbox: "Outbox | None"
    ) -> None:
        self.plan = plan
        self.group = group
        self.confined = confined
        self.noted = list(plan.refused)
        self.outbox = outbox
        self.look_at = NEVER

    def drop(self) -> None:
        """Be done with it, and have the result where the node looks for it."""
        if self.outbox is not None:
            self.outbox.empty()
        if self.group is not None:
            self.group.remove()
