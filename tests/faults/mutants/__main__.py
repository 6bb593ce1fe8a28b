"""Starts the hunt."""

import sys

from tests.faults.mutants.hunt import main

sys.exit(main())
