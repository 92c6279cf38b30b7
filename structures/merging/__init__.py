"""Merging of clusters: a queue of pairs by gain, and the pairs of Ward's method."""
