"""Who is let in over HTTP, and what a request that made a job was like."""
