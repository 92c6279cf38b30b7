"""Sparse variational inference of mixtures."""
