"""Counts of trials with beta priors: Bernoulli, geometric, negative binomial."""
