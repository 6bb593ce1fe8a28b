"""The first schema: jobs, their attempts and outputs, nodes, queues, settings and history.

The schema is a public interface: `INSERT INTO jobs (id, command) VALUES (...)` is a valid
enqueue from any client. Defaults and triggers fill the rest, checks refuse what can't be run.
"""
