"""Kinds of columns of a table: a kind is one file with one contract."""
