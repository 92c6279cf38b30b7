# Search of the cells of clusters for one datum, without the gil.

from libc.stdint cimport int32_t

from expfam.structures.cluster_tree.cells cimport cluster_query, cluster_tree
from expfam.structures.ground.rng cimport philox_stream

ctypedef struct waiting_cell:
    double bound                # upper bound of f of all members
    double mass                 # bound + log of the sum of the weights
    double f                    # of the representative, in single precision
    double distance             # upper bound of |phi - a|
    int32_t cell

ctypedef struct tail_part:      # a cell or cluster that the search left out
    double log_mass             # upper bound of the log of its total weight
    int32_t what                # a cell, or -1 - position of a single cluster

ctypedef struct scored:
    double score                # log weight in double precision
    int32_t position

ctypedef struct tree_search:           # one search; the arrays are scratch
    waiting_cell *waiting       # (n_cells,)
    tail_part *tail             # (n_cells + K,)
    scored *found               # (K,)
    double *mass                # (n_cells + K,)
    int32_t *which              # (max_items,)
    double *before              # (max_items,) padded
    double *heavy               # (max_items,) padded
    double *f                   # (max_items,)
    double *distance            # (max_items,)
    float *products             # (max_items,)
    float *x                    # (F,) or (nnz,)
    int32_t *columns            # (nnz,)
    double *phi                 # (nnz,)
    Py_ssize_t n_waiting
    Py_ssize_t n_tail
    Py_ssize_t n_found
    double tau
    double best                 # lower bound of the largest log weight
    Py_ssize_t n_visits         # number of scores in single precision
    Py_ssize_t n_scored         # number of scores in double precision
    Py_ssize_t n_tails          # number of draws that fell into the tail

# Return the number of doubles that a search needs for data of `nnz` entries (F if dense). If `memory` is not NULL, put
# the arrays of `w` there.
cdef Py_ssize_t lay_out(const cluster_tree *tree, Py_ssize_t nnz, double *memory, tree_search *w) noexcept nogil
# Point the query to one datum; its centred and scaled copy is stored in the search.
cdef void prepare(const cluster_tree *tree, tree_search *w, cluster_query *q, const double *phi, const int32_t *columns,
                  Py_ssize_t nnz) noexcept nogil
# Start a search: only the root is in `waiting`.
cdef void begin(const cluster_tree *tree, const cluster_query *q, tree_search *w) noexcept nogil
# Score the children of a cell: add its clusters to `found` and its cells to `waiting`.
cdef void expand(const cluster_tree *tree, const cluster_query *q, tree_search *w, waiting_cell s) noexcept nogil
# Draw the position of a cluster from the exact law; -1 if no weight is finite.
cdef int32_t draw_bounded(const cluster_tree *tree, const cluster_query *q, tree_search *w,
                          philox_stream *rng) noexcept nogil
cdef int32_t draw_rejected(const cluster_tree *tree, const cluster_query *q, tree_search *w,
                           philox_stream *rng) noexcept nogil
