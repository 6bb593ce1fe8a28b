"""The queues that a user would pick instead, and how each is set up.

Each `*_app.py` is the program that a user of that queue would write: a task that runs a shell
command, one that does nothing, or both, and the calls that enqueue them. They are run by the
interpreter of the bench environment, which has the peers installed, and never imported by the
benchmarks themselves.
"""
