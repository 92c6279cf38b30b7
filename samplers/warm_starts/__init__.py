"""Starts whose labels are made by short runs of samplers."""
