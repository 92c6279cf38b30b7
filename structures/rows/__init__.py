"""Rows of numbers: k-means, exact sums, distinct values, fixed division of data."""
