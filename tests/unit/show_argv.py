"""A program that writes the arguments it was called with, each with a NUL behind it."""

import os
import sys

sys.stdout.buffer.write(b"".join(os.fsencode(word) + b"\0" for word in sys.argv[1:]))
