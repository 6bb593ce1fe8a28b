"""The web: an HTTP API, a dashboard and what they need: see `server.py` for where it begins.

The core is synchronous, and so is every handler: it is called in a thread with a `Call`, asks
`Queue`, and returns what is told. What is asynchronous stays in `app`, `live` and `server`.
"""
