# Best slots of rows where most scores are bounded by matrix products.

from libc.stdint cimport uint8_t

from expfam.families.components cimport Components
from expfam.families.distance_scores cimport distance_scores_v1


ctypedef struct tile_scratch:       # some rows and their products with all locations, and numbers of one row
    float *rows                     # (n, d) rows less the centre
    double *x                       # (n, d) rows as they are scored
    double *lengths                 # (n, 2) |x - centre|^2 and |x|^2
    float *products                 # (n, m)
    double *bounds                  # (m,) distances, then bounds of scores
    double *tops                    # (n_groups,) largest bound of each group, -inf for groups that are computed
    double *scores                  # (m,)
    double *best                    # (L,) the highest scores, in order
    double *work
    uint8_t *is_known               # (n_groups,)


cdef class FilteredScores:
    cdef readonly Components components
    cdef readonly Py_ssize_t m, d
    cdef readonly bint is_usable
    cdef distance_scores_v1 f
    cdef Py_ssize_t n_groups
    cdef double *centre             # (d,)
    cdef double *squares            # (m,) |w_k - centre|^2
    cdef double *lengths            # (m,) |w_k - centre|
    cdef double *terms              # (n_terms, m)
    cdef double *place              # (d,) scratch
    cdef float *narrow              # (d,) scratch
    cdef float *columns             # (d, m) w_k - centre
    cdef object table               # the array of `columns`
    cdef object arrays              # behind the other pointers
    cdef int put(self, Py_ssize_t k, const double *location) noexcept nogil
    cdef int renew(self, const Py_ssize_t *slots, Py_ssize_t n) noexcept nogil


cdef class RowTile:                 # scratch memory of one thread
    cdef tile_scratch w
    cdef object arrays, rows, products
    cdef int read(self, FilteredScores s, const Py_ssize_t *order, Py_ssize_t start, Py_ssize_t n) except -1


cdef bint near_scores(FilteredScores s, tile_scratch *w, Py_ssize_t r, const double *mass, double best, double depth,
                      double *out, double *rest) noexcept nogil
