# Searching cells of clusters for one datum, without the gil.

from libc.stdint cimport int32_t

from expfam.structures.cluster_tree.cells cimport cluster_query, cluster_tree
from expfam.structures.ground.rng cimport philox_stream

ctypedef struct waiting_cell:
    double bound                # no member's f is larger
    double mass                 # bound and the log of the sum of the weights, or of the largest if the best are wanted
    double f                    # of the representative, in single precision
    double distance             # at least |phi - a|
    int32_t cell

ctypedef struct tail_part:      # left out of the search
    double log_mass             # at least the log of its total weight
    int32_t what                # a cell, or -1 - position of a single cluster

ctypedef struct scored:
    double score                # log weight in double precision
    int32_t position

ctypedef struct tree_search:           # one search; the arrays are scratch
    waiting_cell *waiting       # (n_cells,)
    tail_part *tail             # (n_cells + K,)
    scored *found               # (K,); of a search for the k best these, best first
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
    Py_ssize_t most             # number of best ones wanted, or 0 to collect all whose cells reach best - tau
    double tau
    double best                 # the largest log weight is not below it
    Py_ssize_t n_visits         # scores in single precision
    Py_ssize_t n_scored         # in double precision
    Py_ssize_t n_tails          # draws that looked at the tail

# doubles that a search needs for data of `nnz` entries (F if dense); with memory the arrays of `w` are put there
cdef Py_ssize_t lay_out(const cluster_tree *tree, Py_ssize_t nnz, Py_ssize_t most, double *memory,
                        tree_search *w) noexcept nogil
# point the query at one datum, its centred and scaled copy in the search
cdef void prepare(const cluster_tree *tree, tree_search *w, cluster_query *q, const double *phi, const int32_t *columns,
                  Py_ssize_t nnz) noexcept nogil
# fill `found` and `tail`; what is known of the best weight goes in as w.best
cdef void search(const cluster_tree *tree, const cluster_query *q, tree_search *w) noexcept nogil
# the root alone waits
cdef void begin(const cluster_tree *tree, const cluster_query *q, tree_search *w) noexcept nogil
# score the children of a cell, find its single members, let its cells wait
cdef void expand(const cluster_tree *tree, const cluster_query *q, tree_search *w, waiting_cell s) noexcept nogil
# position of a cluster drawn from its exact law, -1 where no weight is finite
cdef int32_t draw_bounded(const cluster_tree *tree, const cluster_query *q, tree_search *w,
                          philox_stream *rng) noexcept nogil
cdef int32_t draw_rejected(const cluster_tree *tree, const cluster_query *q, tree_search *w,
                           philox_stream *rng) noexcept nogil
