"""Kernels, their compositions, the loop over steps, and the record of a run."""
