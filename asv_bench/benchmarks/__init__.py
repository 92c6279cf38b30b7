"""Benchmarks by what a user does: import, score, step, fit, predict."""
