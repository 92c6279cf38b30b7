"""Exponential families with their conjugate priors, which every model and sampler uses."""
