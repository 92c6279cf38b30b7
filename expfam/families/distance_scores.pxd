# Scores that depend on a row through one distance to each slot, for searches that bound most scores by matrix products.

from libc.stdint cimport uint32_t

cdef extern from *:
    """
    #define EXPFAM_DISTANCE_SCORES "expfam.distance_scores_v1"
    """
    const char *DISTANCE_SCORES "EXPFAM_DISTANCE_SCORES"

# Each slot k has a location w_k, and the log predictive of a row x under it is a function of |x - w_k|^2 that only
# falls, or only rises. The functions below return 0, or a status < 0 of contracts.pxd; a status from `location` or
# `bounds` says that no bound is known, so that the scores have to be computed.
ctypedef struct distance_scores_v1:     # capsule "expfam.distance_scores_v1", attribute `distances` of components
    uint32_t abi_version                # EXPFAM_ABI
    uint32_t struct_size                # sizeof(distance_scores_v1) of the build that fills it
    void *self                          # valid as long as the owner of the components lives
    int rises                           # 1 if scores rise with the distance
    Py_ssize_t n_columns                # d
    Py_ssize_t group                    # slots whose scores are computed together
    Py_ssize_t work_size                # doubles of scratch memory that `exact` needs
    # writes row i as it is scored: (d,)
    int (*row)(void *self, Py_ssize_t i, double *out) noexcept nogil
    Py_ssize_t n_terms                  # numbers that bounds of the scores of a slot are made from
    # writes w_k: (d,), and the terms of slot k to terms[t m + k]
    int (*location)(void *self, Py_ssize_t k, Py_ssize_t m, double *out, double *terms) noexcept nogil
    # Writes upper bounds of the scores of a row under the slots 0..m-1, where squares[k] is a lower bound of
    # |x - w_k|^2, or an upper one if scores rise with it. `square` is |x|^2, with an error of some roundings. `out` may
    # be the memory of `squares`.
    int (*bounds)(void *self, double square, const double *squares, const double *terms, Py_ssize_t m,
                  double *out) noexcept nogil
    # writes out[first..stop-1], the bits of `log_predictive` of all slots; `first` is a multiple of `group`
    int (*exact)(void *self, const double *row, Py_ssize_t first, Py_ssize_t stop, double *out,
                 double *work) noexcept nogil
    # Appended; NULL if there is none. Returns a lower bound of the score of a row in its own slot k, from the other
    # data, -infinity if none is known. `distance` is a bound of |x - w_k|^2 on the other side than in `bounds`.
    double (*own)(void *self, Py_ssize_t k, double square, double distance, const double *terms,
                  Py_ssize_t m) noexcept nogil
