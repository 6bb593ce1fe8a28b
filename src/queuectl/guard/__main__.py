"""`python -m queuectl.guard FD`: serve the node at the other end of the socket FD."""

from queuectl.guard.loop import main

main()
