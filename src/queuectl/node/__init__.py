"""The node: a process that claims jobs for its workers and sees to their runs.

start.py       its beginning, and the very end of a restart
node.py        its life and its loop
agenda.py      what is to be done when
claiming.py    whether to claim, for which workers, and when to look again
workers.py     what each worker has to do, and how many jobs are claimed ahead
turns.py       its commits: each ends runs and claims jobs
crew.py        which worker has which run
runner.py      what it wants of whoever runs jobs
processes.py   runs that are trees of processes
guards.py      its guards, and which worker each looks after
runs.py        the record of a run, and what its end comes to
config.py      what it was asked for, and the settings as they are now
membership.py  its place in the register
lease.py       its right to run jobs, which it renews
upkeep.py      what it does for everybody: rescue of what the dead held, retention
broadcast.py   the output of runs, for those who watch from elsewhere
orders.py      what it was told: to stop, to start again, to change
signals.py     what signals mean to it
restart.py     how far it has come with starting again: the installed queuectl is asked first
handover.py    what the next program of its process is handed
daemon.py      going to the background
log.py         what it says; joblog.py: what happens to jobs, in words
console.py     its standard error; logfiles.py: the log files of nodes in the background
"""
