# Best slots of rows where most scores are bounded by matrix products.

from expfam.families.components cimport Components
from expfam.families.distance_scores cimport distance_scores_v1


cdef class FilteredScores:
    cdef readonly Components components
    cdef readonly Py_ssize_t m, d
    cdef readonly bint is_usable
    cdef distance_scores_v1 f
    cdef Py_ssize_t n_groups
    cdef const double *centre       # (d,)
    cdef const double *squares      # (m,) |w_k - centre|^2
    cdef const double *lengths      # (m,) |w_k - centre|
    cdef const double *terms        # (n_terms, m)
    cdef object table               # (d, m) float32, w_k - centre
    cdef object arrays              # behind the pointers
