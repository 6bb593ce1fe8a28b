"""Rollups of all time, beside those of each minute: how long the past is costs `stats` nothing.

They are the rows with `at = 0`, per node; those of nodes that are gone come together under no name.
"""
