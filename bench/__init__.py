"""Measurements of queuectl against the limits of the machine it runs on, and against its peers.

Speed is told as ratios between things measured in the same run, round by round in turns, with
medians: machines differ and are shared. `python -m bench --help` says how to run it.
"""
