# C interface of the tree of clusters, and memory for its searches.

from libc.stdint cimport int32_t, int64_t

from expfam.structures.cluster_tree.cells cimport ClusterCells, cluster_query, cluster_tree
from expfam.structures.cluster_tree.search cimport tree_search

cdef class Scratch:
    cdef tree_search w
    cdef const cluster_tree *tree
    cdef object held, owner
    cdef Py_ssize_t room            # largest number of entries of a datum
    cdef int reserve(self, Py_ssize_t nnz) except -1

cdef class _Block:
    cdef const double *values
    cdef const int32_t *columns
    cdef const int64_t *starts
    cdef readonly Py_ssize_t most       # largest number of entries of a row
    cdef object held

cdef class ClusterTree(ClusterCells):
    cdef void _datum(self, _Block block, Py_ssize_t i, tree_search *w, cluster_query *q) noexcept nogil
