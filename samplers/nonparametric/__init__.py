"""Samplers of hierarchical Dirichlet processes: groups share clusters of unknown number.

The sweeps are those of a given number of clusters, at pseudo-counts alpha beta_k. One slot without data stands for all
clusters that are not listed; weights and concentrations are drawn between sweeps.
"""
