"""The verbs of the contract over the named statements, as SQL databases share them."""
