# Best slots of rows where most scores are bounded by matrix products.

from libc.stdint cimport uint8_t

from expfam.families.components cimport Components
from expfam.families.distance_scores cimport distance_scores_v1
from expfam.structures.rows.byte_codes cimport CodedPoints, CodedRows


ctypedef struct filtered_slots:     # what bounds of the scores of loaded slots are made from
    distance_scores_v1 f
    Py_ssize_t m, d, n_groups
    double *centre              # (d,)
    double *squares             # (m,) |w_k - centre|^2
    double *lengths             # (m,) |w_k - centre|
    double *terms               # (n_terms, m)


ctypedef struct moved_slots:        # slots as they are after the products of a tile
    float *locations            # (room, d) w_k - centre
    double *squares             # (room,) |w_k - centre|^2
    double *terms               # (room, n_terms)
    double *place               # (d,) scratch
    Py_ssize_t room


ctypedef struct tile_scratch:       # some rows and their products with all locations, and numbers of one row
    float *rows                     # (n, d) rows less the centre
    double *x                       # (n, d) rows as they are scored
    double *lengths                 # (n, 2) |x - centre|^2 and |x|^2
    float *products                 # (n, stride)
    Py_ssize_t stride
    double *slacks                  # (n, 2) errors of products, for each unit of `lengths` and of `errors` of slots
    const double *errors            # (m,) of the slots
    double *bounds                  # (m,) distances, then bounds of scores
    double *tops                    # (n_groups,) largest bound of each group, -inf for groups that are computed
    double *scores                  # (m,)
    double *best                    # (L,) the highest scores, in order
    double *work
    uint8_t *is_known               # (n_groups,)
    Py_ssize_t n_near               # groups that `near_scores` has scored since the tile was read


cdef class FilteredScores:
    cdef readonly Components components
    cdef readonly Py_ssize_t m, d
    cdef readonly bint is_usable
    cdef public bint is_coded       # whether tiles are multiplied as integers, where a caller has no reason not to
    cdef CodedPoints points         # the locations as integers, or None
    cdef filtered_slots s
    cdef double *place              # (d,) scratch
    cdef float *narrow              # (d,) scratch
    cdef float *columns             # (d, m) w_k - centre
    cdef object table               # the array of `columns`
    cdef object arrays              # behind the other pointers and those of `s`
    cdef int put(self, Py_ssize_t k, const double *location) noexcept nogil
    cdef int renew(self, const Py_ssize_t *slots, Py_ssize_t n) noexcept nogil


cdef class MovedSlots:
    cdef moved_slots v
    cdef object arrays


cdef class RowTile:                 # scratch memory of one thread
    cdef tile_scratch w
    cdef object arrays, rows, products
    cdef CodedRows coded
    cdef int read(self, FilteredScores s, const Py_ssize_t *order, Py_ssize_t start, Py_ssize_t n,
                  bint is_coded) except -1


cdef bint codes_are_dear(const filtered_slots *s, Py_ssize_t n_rows, Py_ssize_t n_scored, Py_ssize_t L) noexcept nogil
cdef bint bound_groups(const filtered_slots *s, tile_scratch *w, Py_ssize_t r, const double *mass) noexcept nogil
cdef double weights_of_others(const filtered_slots *s, tile_scratch *w, Py_ssize_t r, Py_ssize_t own, double own_mass,
                              double least, double *low) noexcept nogil
cdef bint read_moved(const filtered_slots *s, moved_slots *v, Py_ssize_t j, Py_ssize_t k) noexcept nogil
cdef double moved_bound(const filtered_slots *s, const moved_slots *v, Py_ssize_t j, const tile_scratch *w,
                        Py_ssize_t r) noexcept nogil
cdef bint near_scores(const filtered_slots *s, tile_scratch *w, Py_ssize_t r, const double *mass, double best,
                      double depth, double *out, double *rest) noexcept nogil
