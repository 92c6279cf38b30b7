# Lists of the clusters that mattered to each row in an earlier pass, and bounds of all others.

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint64_t

from expfam.structures.rows.byte_codes cimport CodedRows, ScoredPoints

cdef enum:
    KEPT_LEVELS = 8         # of distances of rows from the means of their clusters
    KEPT_PLACES = 8         # clusters that a row keeps
    KEPT_RESTLESS = 4       # clusters that are scored wherever they may matter
    KEPT_MOST = KEPT_PLACES + KEPT_RESTLESS


cdef class Needs:
    cdef readonly object least                  # (K, KEPT_LEVELS) float32, see kept_lists.pyx
    cdef readonly object restless               # a tuple
    cdef object from_array
    cdef float[:, ::1] least_view
    cdef uint8_t[::1] from_level                # (K,) from which on restless clusters may matter
    cdef int32_t[KEPT_RESTLESS] some            # the restless clusters
    cdef Py_ssize_t n_restless


cdef class KeptLists:
    cdef readonly Py_ssize_t N, K, F
    cdef readonly object data, Theta, bias, centre, scale
    cdef readonly object means, ends            # (K, F) and (K, KEPT_LEVELS) float32
    cdef readonly object counts                 # (K,) rows of each first cluster that have a list
    cdef object arrays, means_of_distances
    cdef uint16_t[:, ::1] places                # (N, KEPT_PLACES), the cluster of the highest bound first
    cdef uint16_t[:, ::1] gaps                  # upper halves of floats: of the other places, and of all other clusters
    cdef uint8_t[::1] levels                    # of the distance from the mean of the first cluster
    cdef float[::1] distances
    cdef float[:, ::1] means_view
    # Keeps the list of a row whose bounds are `upper`; `near` has the n clusters that may be best. Room: K + 1 places.
    cdef void write(self, Py_ssize_t row, CodedRows rows, Py_ssize_t i, ScoredPoints points, const float *upper,
                    const float *x, const float *theta, double rounding, const int32_t *near, Py_ssize_t n,
                    int32_t *room) noexcept nogil
    cdef void keep(self, Py_ssize_t row, Py_ssize_t first, double low, float rest, const float *upper,
                   const int32_t *found, Py_ssize_t n) noexcept nogil
    # Writes the clusters that may matter, in order; returns their number, 0 where others may. Room: KEPT_MOST places.
    cdef Py_ssize_t candidates(self, Py_ssize_t row, Needs needs, int32_t *out) noexcept nogil
