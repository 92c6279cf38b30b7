# This module has only C functions: see _buckets.pxd.
