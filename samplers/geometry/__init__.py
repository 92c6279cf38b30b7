"""Geometry of the data: coordinates, hash tables and graphs of neighbours."""
