"""The measures, in the order in which they are run: what disturbs the disk most comes last."""

from bench.measures import (
    api,
    backlog,
    claims,
    drain,
    duel,
    enqueue,
    idle,
    latency,
    parts,
    size,
    startup,
    tasks,
    warm,
    web,
)
from bench.subject import Measure

MEASURES: dict[str, Measure] = {
    module.MEASURE.name: module.MEASURE
    for module in (
        drain,
        duel,
        latency,
        tasks,
        warm,
        parts,
        enqueue,
        api,
        startup,
        idle,
        claims,
        size,
        backlog,
        web,
    )
}
