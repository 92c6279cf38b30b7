# Scores of all clusters in single precision, and their correction in double precision.

from libc.stdint cimport int64_t

from expfam.families.dense_source cimport DenseSource


cdef enum:
    DENSE_LANES = 16            # widths of tables and scores are multiples of it

cdef double DENSE_REACH         # up to this sum of |phi theta| single precision is precise enough
cdef double DENSE_HOPELESS      # above this sum it is not tried
cdef float DENSE_DEPTH          # blocks of clusters that lie this many nats below the best one are dropped
cdef float DENSE_NEVER          # log weight of impossible clusters


cdef class DenseScores:
    cdef readonly object data, Theta, bias, table, row_bias, shifted, centre, scale, reach, origin
    cdef readonly Py_ssize_t K, F, width
    cdef readonly bint sparse, fits
    cdef DenseSource source         # None where the statistics are held, or are not compiled
    cdef const double *theta_at     # (K, F)
    cdef const double *bias_at      # (K,) log pi - g
    cdef const double *shifted_at   # (K,) log pi - g for centred statistics
    cdef const double *centre_at    # (F,)
    cdef const double *scale_at
    cdef const double *reach_at
    cdef const double *origin_at
    cdef const float *table_at      # (F + 1, width) dense, (F, width) sparse
    cdef const float *row_bias_at   # (width,)

    cdef void score_whole_tile(self, Tile tile, const double *phi, Py_ssize_t n, Py_ssize_t place) noexcept nogil
    cdef void _narrow_row(self, Tile tile, const double *phi, Py_ssize_t place, Py_ssize_t i) noexcept nogil
    cdef double size(self, const double *phi, Py_ssize_t k) noexcept nogil
    cdef double narrow_size(self, Tile tile, Py_ssize_t row, Py_ssize_t k) noexcept nogil
    cdef double sparse_size(self, const int64_t *columns, const double *values, Py_ssize_t n,
                            Py_ssize_t k) noexcept nogil
    cdef double score(self, const double *phi, Py_ssize_t k) noexcept nogil
    cdef double sparse_score(self, const int64_t *columns, const double *values, Py_ssize_t n,
                             Py_ssize_t k) noexcept nogil
    cdef double sparse_row(self, const int64_t *columns, const double *values, Py_ssize_t n, const float **rows,
                           float *factors, float *out) noexcept nogil


cdef class Tile:
    cdef readonly object phi, scores, rough
    cdef object bounds_array, offsets_array, row_array, tops_array, sums_array
    cdef float[:, ::1] phi_view
    cdef float[:, ::1] score_view
    cdef double[::1] bounds
    cdef double[::1] offsets            # <phi, origin> of the rows, where these are asked for
    cdef double[::1] row                # (2 F,) scratch
    cdef float[::1] tops
    cdef double[::1] sums
    cdef unsigned char[::1] rough_view


cdef Py_ssize_t best_of(const float *x, float best, const float *tops, Py_ssize_t n) noexcept nogil
