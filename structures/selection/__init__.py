"""Selection: alias tables, the largest values of a row, and an inverted index."""
