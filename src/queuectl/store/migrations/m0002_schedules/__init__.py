"""Schedules, and the ticks that made jobs."""
