# Cells over the clusters of a mixture and upper bounds of their members' scores, as plain structs for nogil searches.
# Scores are f_z(x) = <phi(x) - centre, theta_z - shift> - g_z, with the centre and the shift of the tree. They differ
# from <phi(x), theta_z> - G_z by a number that is the same for all clusters.

from libc.math cimport sqrt
from libc.stdint cimport int32_t

from expfam.structures.simd.float_dots cimport expfam_float_dots, expfam_sparse_dots
from expfam.structures.simd.reach cimport EXPFAM_REACHES
from expfam.structures.simd.vectors cimport expfam_dot

ctypedef struct reach:              # of members z from a cluster c; gives a bound of f_z - f_c at |phi - a_c|
    double low                      # smallest and largest |theta_z - theta_c|
    double high
    double reciprocal               # 1 / curvature if that is positive
    double curvature                # b_z >= curvature t_z^2 / 2 - excess, b_z = g_z - g_c - <a_c, theta_z - theta_c>
    double least                    # b_z >= least
    double excess

ctypedef struct cluster_cell:       # positions [lo, hi) of the order; the representative is at lo
    reach members
    double log_beta                 # log of the sum of the weights
    double lifted                   # largest distance in (theta, g)
    int32_t lo
    int32_t hi
    int32_t item                    # items [item, item + n_items) cover all members except those of its own cell
    int32_t n_items
    int32_t n_cells                 # number of items that are cells; they come first
    int32_t own                     # smaller cell of the same representative, or -1: it is a single member
    int32_t near                    # index of the representative among those with a stored vector a
    int32_t reach                   # column of `reaches` where those of its items start

ctypedef struct tree_item:          # a child with another representative
    reach members                   # from the representative of the parent cell
    double log_beta
    double log_pi                   # of the child's representative
    double g
    double norm                     # |theta|
    int32_t position                # of the child's representative
    int32_t cell                    # -1 for a single member
    int32_t what                    # the cell, or -1 - position of a single member

ctypedef struct cluster_tree:
    const cluster_cell *cells       # (n_cells,)
    const tree_item *items          # (K,) item 0 is the root's representative
    const double *reaches           # for each cell REACH_ROWS rows over its items, as `expfam_rises` reads them
    const float *rows               # theta of the items: (K, F); if is_sparse, transposed for the items of each cell
    const float *near_rows          # likewise the vectors a of the representatives of cells; NULL where a = slope theta
    double slope
    const int32_t *cluster          # (n_positions,) cluster at each position
    const double *log_pi            # (n_positions,) all finite
    const double *g                 # (n_positions,)
    const double *theta_norm        # (n_positions,)
    const double *near_norm         # (number of representatives of cells,)
    const double *Theta             # (K, F) as given
    const double *bias              # (K,) log pi - G as given
    const int32_t *position         # (K,) position of each cluster, -1 where it has no weight
    const double *center            # (F,)
    const double *shift             # (F,)
    const double *inverse           # (F,) 1 / scale
    Py_ssize_t F
    Py_ssize_t n_cells
    Py_ssize_t n_positions
    Py_ssize_t max_items            # largest number of items of a cell
    bint is_sparse

ctypedef struct cluster_query:      # one datum
    const float *x                  # phi, centred and scaled: (F,), or (nnz,) if sparse
    const int32_t *columns          # (nnz,) if sparse
    const double *phi               # as given: (F,) or (nnz,)
    Py_ssize_t nnz
    double offset                   # <phi, shift>: exact scores are <phi, Theta_z> - G_z minus this
    double norm                     # of phi, centred and scaled
    double error                    # of a product in single precision, relative to |phi| |theta|


cdef enum:
    REACH_ROWS = 7                  # six of the reach, and log_beta


cdef inline Py_ssize_t padded(Py_ssize_t n_items) noexcept nogil:
    """Return the number of columns of `reaches` for `n_items` items."""
    return (n_items + EXPFAM_REACHES - 1) // EXPFAM_REACHES * EXPFAM_REACHES


cdef inline double rise(const reach *m, double distance) noexcept nogil:
    """Return a bound of f_z - f_c over the members if |phi - a_c| is at most `distance`."""
    cdef double t = m.high, linear = distance * m.high - m.least, curved
    if m.curvature > 0.0:
        t = distance * m.reciprocal
        t = m.low if t < m.low else m.high if t > m.high else t
    curved = distance * t - 0.5 * m.curvature * t * t + m.excess
    return curved if curved < linear else linear


cdef inline double exact_score(const cluster_tree *tree, const cluster_query *q, Py_ssize_t position) noexcept nogil:
    """Return the log weight of a cluster in double precision, on the scale of the tree."""
    cdef Py_ssize_t k = tree.cluster[position], t
    cdef const double *row = tree.Theta + k * tree.F
    cdef double total = 0.0
    if not tree.is_sparse:
        return expfam_dot(q.phi, row, tree.F) + tree.bias[k] - q.offset
    for t in range(q.nnz):
        total += q.phi[t] * row[q.columns[t]]
    return total + tree.bias[k] - q.offset


cdef inline void item_scores(const cluster_tree *tree, const cluster_query *q, const cluster_cell *cell,
                             const int32_t *which, Py_ssize_t n, float *scratch, double *out) noexcept nogil:
    """Compute f of the representatives of the items `which` of a cell.

    Items are numbered from the first one of the cell. `scratch` has room for n_items.
    """
    cdef Py_ssize_t j
    cdef const float *rows = tree.rows + <Py_ssize_t> cell.item * tree.F
    if tree.is_sparse:
        expfam_sparse_dots(q.x, q.columns, q.nnz, rows, cell.n_items, scratch)
        for j in range(n):
            out[j] = scratch[which[j]] - tree.items[cell.item + which[j]].g
    else:
        expfam_float_dots(q.x, tree.F, rows, which, n, scratch)
        for j in range(n):
            out[j] = scratch[j] - tree.items[cell.item + which[j]].g


cdef inline double distance_of(const cluster_query *q, double product, double norm) noexcept nogil:
    """Return an upper bound of |phi - a| from <phi, a> in single precision and |a|."""
    cdef double square = q.norm * q.norm + norm * norm - 2.0 * product + 2.0 * q.error * q.norm * norm
    return sqrt(square) if square > 0.0 else 0.0 if square <= 0.0 else square   # a NaN stays: then nothing is left out


cdef inline void near_distances(const cluster_tree *tree, const cluster_query *q, const cluster_cell *cell,
                                const int32_t *which, const double *f, Py_ssize_t n, float *scratch,
                                double *out) noexcept nogil:
    """Compute upper bounds of |phi - a_c| of items that are cells; f are their scores."""
    cdef Py_ssize_t j
    cdef const tree_item *item
    cdef const cluster_cell *child
    cdef const float *rows
    if tree.near_rows == NULL:
        for j in range(n):
            item = &tree.items[cell.item + which[j]]
            out[j] = distance_of(q, tree.slope * (f[j] + item.g), tree.slope * item.norm)
        return
    rows = tree.near_rows + <Py_ssize_t> tree.cells[tree.items[cell.item].cell].near * tree.F
    if tree.is_sparse:
        expfam_sparse_dots(q.x, q.columns, q.nnz, rows, cell.n_cells, scratch)
        for j in range(n):
            child = &tree.cells[tree.items[cell.item + which[j]].cell]
            out[j] = distance_of(q, scratch[which[j]], tree.near_norm[child.near])
    else:
        expfam_float_dots(q.x, tree.F, rows, which, n, scratch)
        for j in range(n):
            child = &tree.cells[tree.items[cell.item + which[j]].cell]
            out[j] = distance_of(q, scratch[j], tree.near_norm[child.near])


cdef inline void root_score(const cluster_tree *tree, const cluster_query *q, float *scratch, double *f,
                            double *distance) noexcept nogil:
    """Compute the score of the root's representative and an upper bound of |phi - a|."""
    cdef int32_t which = 0
    cdef Py_ssize_t p = tree.cells[0].lo
    if tree.is_sparse:
        expfam_sparse_dots(q.x, q.columns, q.nnz, tree.rows, 1, scratch)
    else:
        expfam_float_dots(q.x, tree.F, tree.rows, &which, 1, scratch)
    f[0] = scratch[0] - tree.g[p]
    if tree.near_rows == NULL:
        distance[0] = distance_of(q, tree.slope * scratch[0], tree.slope * tree.theta_norm[p])
        return
    if tree.is_sparse:
        expfam_sparse_dots(q.x, q.columns, q.nnz, tree.near_rows, 1, scratch)
    else:
        expfam_float_dots(q.x, tree.F, tree.near_rows, &which, 1, scratch)
    distance[0] = distance_of(q, scratch[0], tree.near_norm[0])


cdef class ClusterCells:
    cdef cluster_tree tree
    cdef dict arrays                # arrays that own the memory of the pointers
    cdef readonly object cells      # (n_cells,) structured
    cdef readonly object order      # (n_positions,) int32, cluster at each position
    cdef readonly object center     # (F,) of phi
    cdef readonly object shift      # (F,) of Theta
    cdef readonly object scale      # (F,) the tree uses phi / scale and Theta * scale
    cdef void _aim(self) except *
    cdef void _fill(self, const double[:, ::1] theta, const double[:, ::1] near) except *
