"""Gaussian families: full, diagonal, spherical and zero-mean."""
