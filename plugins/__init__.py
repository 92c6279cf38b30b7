"""Discovery of families and proposals by entry point, and the laws they have to keep."""
