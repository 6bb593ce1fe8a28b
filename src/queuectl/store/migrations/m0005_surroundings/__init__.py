"""What a job runs in: the shell that reads its command, a whole environment, and its stdin.

What runs read from stdin has a table of its own, in pieces, so that no claim reads it and no server
finds a piece too long. `stdin_bytes` says how much there is; most jobs have none.
"""
