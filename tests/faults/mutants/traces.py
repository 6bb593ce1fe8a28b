"""Mutants of traces: what is lost on the way from a request to all that it leads to."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

NODE = "tests/node/test_traces.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="trace-not-handed-on",
        broken="A job finds no TRACEPARENT, though it is a part of a trace.",
        edits=[
            Edit(
                old="return None if job.traceparent is None else"
                " read_trace(job.traceparent, job.tracestate)",
                new="return None",
                inside="Crew._trace_of",
            )
        ],
        tests=["tests/cli/test_traces.py::TestWithoutOpenTelemetry::test_a_trace_is_handed_on"],
    ),
    Mutant(
        name="trace-of-a-request-lost",
        broken="What is enqueued over HTTP is no part of the trace of the request.",
        edits=[
            Edit(old='if trace is not None and asked.get("traceparent") is None:', new="if False:")
        ],
        tests=["tests/web/test_jobs.py::test_a_request_that_is_part_of_a_trace_makes_jobs_of_it"],
    ),
    Mutant(
        name="trace-ends-at-a-hook",
        broken="The hook of a job is in no trace, or in one of its own.",
        edits=[Edit(old="traceparent=job.traceparent,", new="traceparent=None,")],
        tests=["tests/contract/test_traces.py::test_a_hook_is_in_the_trace_of_its_job[sqlite]"],
    ),
    Mutant(
        name="trace-one-span-for-all-attempts",
        broken="All runs of a job are one and the same span.",
        edits=[
            Edit(
                old="run = job.id, job.attempts, job.node, job.started_at",
                new="run = job.id, 0, 0, 0",
            )
        ],
        tests=[f"{NODE}::test_retries_are_spans_side_by_side"],
    ),
    Mutant(
        name="trace-told-the-wait",
        broken="What a run does is shown as done while its job waited.",
        edits=[Edit(old="_, run = self._start(job,", new="run, _ = self._start(job,")],
        tests=[f"{NODE}::test_a_job_is_told_the_span_of_its_run[sqlite]"],
    ),
)
