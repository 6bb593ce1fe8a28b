"""Backends for frameworks: queuectl where another interface is expected."""
