"""The guard: the small process between a node and its jobs. It runs as `python -m queuectl.guard`.

    loop.py       what it does, one message and one child at a time
    spawn.py      starting a run
    signals.py    what it ignores, and what a run gets
    run.py        the record of a run
    clocks.py     timeouts and the lease
    orphans.py    whose child is it?
    mark.py       what all processes of a run carry
    tree.py       finding and killing processes
    leftovers.py  what a dead node left running
    plan.py       what of a run's bounds this host can enforce, and how
    cgroups.py    control groups: finding, making, reading and removing them
    confine.py    starting a run with bounds
    containers.py runs in containers: the command lines of podman and docker
    outbox.py     where another user leaves the result of a run
    kept.py       what one run is kept to
    bounding.py   keeping runs to their bounds while they go on
    abilities.py  what of all that can be done here, for `doctor`
    output.py     bounding and reading what runs write
    wire.py       the messages between it and the node
    board.py      what was begun, for whoever finds the node dead
    files.py      the files that workers write to, used again and again
    line.py       runs that wait until their worker is free
    replies.py    what it says to the node, at once or a moment later

It counts its memory: it imports no more than it needs, and nothing here imports the rest.
"""
