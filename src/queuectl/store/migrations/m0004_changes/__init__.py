"""Unique jobs, and runs that are paused."""
