"""Hooks: what is run when a job completes, fails or dies."""
