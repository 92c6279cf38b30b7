"""Mixtures of rows in groups: Gibbs and variational."""
