"""Webhooks: whom the ends of jobs are told to."""
