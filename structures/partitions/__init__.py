"""Partitions of rows: member lists, tables of draws, and the search for one partition."""
