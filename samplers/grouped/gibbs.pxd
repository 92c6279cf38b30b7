# The sweep over rows in groups, as the kernel uses it whose number of clusters is unknown.

from libc.stdint cimport int64_t

from expfam.samplers.collapsed.gibbs cimport Sweep, sweep
from expfam.structures.ground.rng cimport philox_stream


ctypedef struct group_counts:   # counts of the present group
    const Py_ssize_t *of_row    # (N,) group of each row
    const Py_ssize_t *rows      # (N,) rows sorted by group
    const Py_ssize_t *starts    # (G + 1,) first place of each group in `rows`
    double *alpha               # (K,) pseudo-count of each cluster; changed only where their number is unknown
    int64_t *counts             # (K,) data of the group in each cluster
    double *log_mass            # (K,) log(n + alpha)
    Py_ssize_t visited          # number of the present group; -1 before the first one


cdef bint begin_in_group(sweep *s, Py_ssize_t i) noexcept nogil
cdef void change_in_group(sweep *s, Py_ssize_t old, Py_ssize_t new, philox_stream *rng) noexcept nogil


cdef class GroupedSweep(Sweep):
    cdef group_counts groups
