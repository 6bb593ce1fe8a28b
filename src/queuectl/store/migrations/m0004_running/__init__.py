"""Counters that stand still when a job is claimed or put back.

A running job is counted as one that waits: under 'pending'. How many run, and so how many of those
don't wait, is told by the running jobs themselves: there are never many, and they have an index.
"""
