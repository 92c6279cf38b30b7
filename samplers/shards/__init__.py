"""Sampling of data that lie in parts, on one machine or on several."""
