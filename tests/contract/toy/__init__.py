"""A toy store in plain Python: what the contract says, with lists and dicts, however slow.

It says what the real ones must answer. And it is as poor as a store may be: it changes one item
after the other, and has no tables that somebody else could use. A module for each group of verbs,
as in `store/verbs/`.
"""
