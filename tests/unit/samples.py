"""A job in which no two fields are alike, so that a test sees which one the code reads."""

from dataclasses import replace
from typing import Any

from queuectl.job import Job, State, Strategy

NOW = 1_762_606_800_000
"""2025-11-08T13:00:00Z."""

SAMPLE = Job(
    seq=101,
    id="job-102",
    queue="queue-103",
    state=State.PROCESSING,
    priority=104,
    command="echo 105",
    argv=None,
    task=None,
    data=None,
    cwd="/folder/106",
    env={"NAME_107": "value 108"},
    env_all=True,
    shell="shell-129",
    stdin_bytes=130,
    tags=("tag-109", "tag-110"),
    needs="cpu=142,gpu=0.143",
    requires=("label-144", "label-145"),
    devices={"gpu": (146,)},
    after=("parent-140", "parent-141:any"),
    after_group=("group-143",),
    group="group-144",
    if_parent_fails="cancel",
    parameters={"index": 140, "line": "line 141"},
    unique_key="key-111",
    unique_until="start",
    unique_for=13_700,
    on_success="rm -r tmp",
    on_failure="log failure",
    on_dead="mail root",
    hook="dead 2 7 other job",
    tick="1762600000131 schedule-132",
    keys=("key-133", "key-134"),
    vtime=135,
    parked="key-136",
    handler="",
    forced=None,
    body_digest="digest-138",
    traceparent="00-0000000000000000000000000000137a-000000000000138b-01",
    tracestate="vendor=139",
    bounds={"memory": 143 * 2**20, "cpu_time": 144_000, "user": "user-145", "no_network": True},
    open_parents=142,
    has_children=False,
    run_at=NOW - 9_112,
    expires_at=NOW + 9_113,
    timeout=11_400,
    max_retries=2,
    backoff=Strategy.EXPONENTIAL,
    backoff_base=3.0,
    retry_delay=11_600,
    max_backoff=300_000,
    attempts=118,
    failures=0,
    crashes=1,
    node="node-119",
    worker=120,
    created_at=NOW - 20_121,
    updated_at=NOW - 8_122,
    started_at=NOW - 7_123,
    finished_at=NOW - 6_124,
    duration_ms=125,
    exit_code=126,
    error="error 127",
    reason="reason 128",
    cancel_reason=None,
)


def a_job(**changes: Any) -> Job:
    """Return the sample job with some fields changed."""
    return replace(SAMPLE, **changes)
