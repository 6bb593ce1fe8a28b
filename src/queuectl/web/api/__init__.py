"""All that the API can do: a group of routes for each subject, beside what answers them."""

from queuectl.web.api import (
    bulk,
    calls,
    emitted,
    groups,
    jobs,
    maintenance,
    nodes,
    queues,
    reports,
    schedules,
    tokens,
    webhooks,
)
from queuectl.web.route import Group, Route

PREFIX = "/api/v1"

GROUPS: tuple[Group, ...] = (
    jobs.group,
    bulk.group,
    reports.group,
    queues.group,
    groups.group,
    schedules.group,
    webhooks.group,
    emitted.group,
    nodes.group,
    maintenance.group,
    tokens.group,
    calls.group,
)


def routes() -> list[Route]:
    """Return all routes, in the order in which a request is compared with them."""
    return [route for group in GROUPS for route in group]
