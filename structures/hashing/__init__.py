"""Sign hashes, weighted min-hash, hash tables and random projections."""
