"""Handlers: warm programs that are handed one job after the other, as lines of JSON."""
