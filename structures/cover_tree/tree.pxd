# Search of a cover tree without the gil. Vectors are float32 and centred like those of the tree.

from libc.stdint cimport int32_t

from expfam.structures.cover_tree.build cimport cover_cell
from expfam.structures.cover_tree.neighbours cimport neighbour

ctypedef struct visit:
    double bound                # lower bound of the distance of all members
    double square               # squared distance to the centre
    int32_t cell

cdef class CoverTree:
    cdef cover_cell *cells      # (n_cells,), the root first
    cdef const float *points    # (n_positions, F) in tree order
    cdef const int32_t *ids     # (n_positions,) datum at each position, -1 for a removed centre or a hole
    cdef const float *dist      # (n_positions,) distance to the centre of the leaf
    cdef Py_ssize_t F
    cdef double slack           # relative error of a computed distance
    cdef readonly double base
    cdef readonly Py_ssize_t leaf, max_children, n_cells, n_alive, n_features
    cdef readonly bint is_compact, radius_is_bound
    cdef public object n_threads
    cdef readonly object center
    cdef object _cells, _points, _ids, _dist, _where, _home, _boxes, _products, __weakref__
    cdef Py_ssize_t _n_positions, _next_id, _n_waste

    # Write the k nearest data to `found`, sorted by (distance, id), and return their number. `visits` has room for
    # n_cells; the number of distances is added to `n_read`.
    cdef Py_ssize_t nearest(self, const float *q, Py_ssize_t k, neighbour *found, visit *visits,
                            Py_ssize_t *n_read) noexcept nogil
    cdef Py_ssize_t nearest_of_all(self, const float *q, Py_ssize_t k, neighbour *found) noexcept nogil
    # Descend to a leaf through the nearest centres. Return the number of cells on the way; write them to `path` unless
    # it is NULL.
    cdef Py_ssize_t descend_to(self, const float *q, int32_t *path, Py_ssize_t room) noexcept nogil
    cdef Py_ssize_t next_below(self, Py_ssize_t c, Py_ssize_t top) noexcept nogil
    cdef Py_ssize_t inside(self, const float *q, double r, visit *visits, int32_t **out, Py_ssize_t *cap,
                           Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t _store(self, const float *x, Py_ssize_t datum, double d, Py_ssize_t position) except -1
    cdef int _insert(self, const float *x, Py_ssize_t datum) except -1
    cdef int _append(self, Py_ssize_t c, const float *x, Py_ssize_t datum, double d) except -1
    cdef Py_ssize_t _new_cell(self, cover_cell cell) except -1
    cdef Py_ssize_t _new_positions(self, Py_ssize_t count) except -1
    cdef int _relocate(self, Py_ssize_t c, Py_ssize_t cap) except -1
    cdef int _lift(self, Py_ssize_t c, int32_t level, float radius) except -1
    cdef int _split_leaf(self, Py_ssize_t c) except -1
    cdef int _remove(self, Py_ssize_t datum) except -1
