"""Data structures that know numbers, not models; each is useful on its own."""
