"""Exponential families with their conjugate priors: what every model and sampler stands on."""
