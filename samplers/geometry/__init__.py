"""Rows as points where distance makes sense: coordinates, hash tables, graphs of neighbours."""
