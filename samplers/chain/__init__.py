"""Kernels, their compositions, the loop over steps, and what is recorded of it."""
