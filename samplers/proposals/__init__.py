"""Proposals: laws of the next cluster of a datum, with exact probabilities."""
