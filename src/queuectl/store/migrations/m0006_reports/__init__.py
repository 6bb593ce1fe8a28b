"""What runs tell and keep: results, progress and steps."""
