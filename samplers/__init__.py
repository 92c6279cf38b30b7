"""Kernels that move a state of a model, and the one loop that drives them."""
