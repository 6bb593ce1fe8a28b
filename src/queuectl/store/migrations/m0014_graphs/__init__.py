"""Graphs: jobs that wait for others, groups of jobs, and what each of many was made with."""
