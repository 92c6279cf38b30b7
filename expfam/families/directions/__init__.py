"""Directions: rows of length 1, such as embeddings."""
