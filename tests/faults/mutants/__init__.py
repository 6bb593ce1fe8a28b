"""Broken builds of queuectl, each of which the tests must catch: `python -m tests.faults.mutants`.

A file for each room of the product says which there are.
"""

from collections.abc import Sequence

from tests.faults.mutants import (
    access,
    api,
    arrays,
    cli,
    graphs,
    guard,
    handlers,
    metrics,
    node,
    policy,
    queues,
    reports,
    resources,
    store,
    traces,
    web,
    webhooks,
)
from tests.faults.mutants.mutant import Mutant

ROOMS = (
    *(store, queues, reports, webhooks, policy, node, handlers, guard, cli, access, api, web),
    *(metrics, traces, arrays, graphs, resources),
)
MUTANTS: Sequence[Mutant] = tuple(mutant for room in ROOMS for mutant in room.MUTANTS)
