"""Samplers that keep parameters: Gibbs, Metropolis, EM and stochastic EM."""
