"""Measurements of queuectl against the limits of the machine it runs on.

Speed is told as ratios between things measured in the same run, several rounds interleaved, with
medians: machines differ and are shared. `python -m bench` runs all of them and prints a table.
"""
