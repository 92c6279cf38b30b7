"""Figures of fitted models and traces."""
