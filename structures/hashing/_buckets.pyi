# Nothing but C: see _lsh_buckets.pxd.
