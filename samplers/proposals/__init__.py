"""Proposals: where a datum may go, with the exact probability of saying so."""
