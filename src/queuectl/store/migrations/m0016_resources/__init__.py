"""Needs of jobs: amounts of resources, labels, devices, and room that is kept for a job."""
