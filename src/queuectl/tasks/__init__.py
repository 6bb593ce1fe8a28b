"""Python tasks: functions that are called later, elsewhere, by a worker."""
