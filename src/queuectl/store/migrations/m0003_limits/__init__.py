"""Keys of jobs, limits of queues, and jobs that are parked or held."""
