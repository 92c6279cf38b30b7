"""Bayesian hierarchical clustering."""
