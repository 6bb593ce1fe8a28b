"""What jobs sleep for, and what is emitted for those that wait."""
