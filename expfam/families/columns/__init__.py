"""Columns of several kinds with holes: a product of families over groups of columns."""
