"""The dashboard: pages that the server draws, live by small scripts of its own."""

from queuectl.web.pages import (
    audit,
    dead,
    doors,
    graph,
    groups,
    job,
    jobs,
    making,
    nodes,
    overview,
    queues,
    results,
    schedules,
    settings,
    webhooks,
)
from queuectl.web.pages.page import Page

PAGES: tuple[Page, ...] = (
    *overview.pages,
    *jobs.pages,
    *job.pages,
    *graph.pages,
    *dead.pages,
    *groups.pages,
    *results.pages,
    *queues.pages,
    *schedules.pages,
    *webhooks.pages,
    *nodes.pages,
    *audit.pages,
    *settings.pages,
    *doors.pages,
    *making.pages,
)
"""All pages, in the order of the navigation."""
