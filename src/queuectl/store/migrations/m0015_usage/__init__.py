"""Usage: what runs may use, and what they have used."""
