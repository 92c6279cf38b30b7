"""Discovery of families and proposals by entry point, and the laws that they must keep."""
