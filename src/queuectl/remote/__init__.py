"""A queue behind `queuectl web`: the same `Queue`, asked over HTTP.

`calls` says what can be asked, `wire` how values get there and back, `http` sends it, `tokens` has
the tokens, `queue` is the `Queue` made of that.
"""
