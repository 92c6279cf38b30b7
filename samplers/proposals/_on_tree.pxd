# What proposals share that search a tree of the clusters: rows of phi, names of slots, and the tree of one snapshot.

from libc.stdint cimport int32_t

from expfam.contracts cimport proposal_v1
from expfam.families.counts.rows cimport csr_rows
from expfam.structures.cluster_tree.cells cimport cluster_query, cluster_tree
from expfam.structures.cluster_tree.search cimport tree_search
from expfam.structures.cluster_tree.tree cimport ClusterTree

ctypedef struct tree_state:
    cluster_tree tree
    const float *rows               # (n, F) phi in single precision; NULL if sparse
    const Py_ssize_t *row_of        # (n_rows,) row of each datum, or NULL where it is the datum's own
    csr_rows entries                # if sparse
    Py_ssize_t n_rows
    Py_ssize_t most_entries         # of a row
    const Py_ssize_t *slots         # (n_columns,) slot of each cluster of the tree
    const Py_ssize_t *columns       # (n_slots,) -1 for slots that the snapshot has not
    Py_ssize_t n_columns
    Py_ssize_t n_slots              # -1 before the first refresh
    Py_ssize_t most                 # of `tree_search`
    double floor

cdef inline Py_ssize_t column_of(const tree_state *s, Py_ssize_t k) noexcept nogil:
    return s.columns[k] if 0 <= k < s.n_slots else -1

# set a search up for datum i, in scratch
cdef void aim(const tree_state *s, Py_ssize_t i, tree_search *w, cluster_query *q, double *work) noexcept nogil

cdef class OnTree:
    cdef proposal_v1 api
    cdef tree_state s
    cdef readonly object capsule
    cdef public object pending
    cdef object data, held, sample, map
    cdef readonly ClusterTree tree
