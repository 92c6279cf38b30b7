"""Measures of agreement between partitions."""
