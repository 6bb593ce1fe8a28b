"""Jobs that are completed by hand while they run: what each is to come to."""
