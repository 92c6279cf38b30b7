"""Families written in NumPy, as a plug-in would write them."""
