"""Undo: which events are one action, and what jobs were before it."""
