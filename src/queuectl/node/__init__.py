"""The node: one running `queuectl worker start`, its guard process and its upkeep."""
