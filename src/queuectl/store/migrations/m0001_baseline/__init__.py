"""The baseline: jobs, their attempts, output and input, nodes, queues, settings and history.

The schema is a public interface: `INSERT INTO jobs (id, command) VALUES (...)` is a valid
enqueue from any client. Defaults and triggers fill the rest, checks refuse what can't be run.

Counters stand still when a job is claimed or put back: one that runs is counted as pending, and how
many run is told by the running jobs themselves. Rollups of all time are the rows with `at = 0`.
"""
