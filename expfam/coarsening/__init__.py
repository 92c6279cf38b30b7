"""Fewer clusters: merges of those of a fit, and groups that halves of the rows find again."""
