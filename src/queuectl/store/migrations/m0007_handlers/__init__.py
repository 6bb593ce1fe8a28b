"""Who can run a job: the handler that it needs is part of its line."""
