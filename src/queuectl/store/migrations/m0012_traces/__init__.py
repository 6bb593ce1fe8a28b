"""Traces: of which one a job is a part."""
