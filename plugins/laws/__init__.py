"""The laws that families, components, proposals, kernels and their parts have to keep."""
