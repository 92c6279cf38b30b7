"""Ground of the proposals that search a tree of the clusters.

The tree is made of the snapshot's parameters and prior weights and of a fixed sample of the data, never of the
clusters' statistics: with drawn parameters those depend on the labels that are to be moved. Dense phi is held in single
precision, N F floats; sparse phi is read where it lies.
"""

import numpy as np
from scipy import sparse

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t

from expfam.contracts cimport EXPFAM_ABI, proposal_v1
from expfam.families.counts.rows cimport entry_column, entry_value, open_rows, row_start
from expfam.structures.cluster_tree.cells cimport cluster_query
from expfam.structures.cluster_tree.search cimport lay_out, prepare, tree_search
from expfam.structures.cluster_tree.tree cimport ClusterTree

from expfam.errors import ExpFamError
from expfam.structures.cluster_tree.tree import smoothed_means
from expfam.structures.ground.threads import single_blas

_SAMPLE = 1024                          # data from which the tree takes means and scale
_BLOCK_ENTRIES = 1 << 20                # of phi made at once


cdef void aim(const tree_state *s, Py_ssize_t i, tree_search *w, cluster_query *q, double *work) noexcept nogil:
    cdef Py_ssize_t row = i if s.row_of == NULL else s.row_of[i], F = s.tree.F, f, t, start, nnz = 0
    lay_out(&s.tree, s.most_entries, s.most, work, w)
    if s.rows != NULL:
        for f in range(F):
            w.phi[f] = s.rows[row * F + f]
        prepare(&s.tree, w, q, w.phi, NULL, F)
        return
    start = row_start(&s.entries, row)
    nnz = row_start(&s.entries, row + 1) - start
    for t in range(nnz):
        w.phi[t] = entry_value(&s.entries, start + t)
        w.columns[t] = <int32_t> entry_column(&s.entries, start + t)
    prepare(&s.tree, w, q, w.phi, w.columns, nnz)


cdef class OnTree:
    """Working object of a proposal over a tree of the clusters; subclasses set the functions of the struct.

    Parameters
    ----------
    data : Dataset
    floor : float
    rows : (G, F) ndarray, optional
        Vectors that stand for the data's phi.
    row_of : (N,) intp ndarray, optional
        Which of them stands for each datum.

    Attributes
    ----------
    capsule : PyCapsule
    pending : BaseException or None
    tree : ClusterTree
        Of the last snapshot.
    """

    def __init__(self, data, floor, rows=None, row_of=None):
        cdef const float[:, ::1] dense
        cdef const Py_ssize_t[::1] places
        self.data, self.s.floor, self.s.n_rows, self.s.n_slots = data, floor, data.n_rows, -1
        self.s.rows, self.s.row_of, self.s.most_entries, self.s.most = NULL, NULL, data.n_statistics, 1
        if rows is None and data.has_sparse_phi:
            phi = data.phi_csr(0, data.n_rows)
            values = phi.data if phi.data.dtype.name in ("float64", "float32", "int64", "int32") else phi.data * 1.0
            self.held = (values, phi.indices, phi.indptr)
            open_rows(&self.s.entries, values, phi.indices, phi.indptr)
            self.s.most_entries = int(np.diff(phi.indptr).max(initial=1))
        else:
            dense = _single(data) if rows is None else np.ascontiguousarray(rows, dtype=np.float32)
            self.s.rows, self.held = &dense[0, 0], [dense]
            if row_of is not None:
                places = np.ascontiguousarray(row_of, dtype=np.intp)
                self.s.row_of = &places[0]
                self.held.append(places)
        chosen = np.unique(np.linspace(0, data.n_rows - 1, min(_SAMPLE, data.n_rows)).astype(np.intp))
        self.sample = data.family.sufficient_statistics(data.X[chosen])
        self.sample = self.sample.tocsr() if sparse.issparse(self.sample) else np.asarray(self.sample, dtype=np.float64)
        self.api.abi_version, self.api.struct_size = EXPFAM_ABI, sizeof(proposal_v1)
        self.api.self = <void *> &self.s
        self.capsule = PyCapsule_New(&self.api, "expfam.proposal_v1", NULL)

    def refresh(self, snapshot):
        """Make the tree of a snapshot's parameters and prior weights."""
        cdef const Py_ssize_t[::1] slots, columns
        if snapshot.log_weight_new > -np.inf:
            raise ExpFamError("a tree of clusters has no place for a new one: use finite weights and the mode 'frozen'")
        Theta, G, log_weight = snapshot.Theta, snapshot.G, snapshot.log_weight
        is_sparse = self.s.rows == NULL
        center, means, spread = _geometry(self.sample, Theta, log_weight - G)
        self.tree = ClusterTree(Theta, G, log_weight, means=means, center=None if is_sparse else center, spread=spread,
                                is_sparse=is_sparse)
        self.s.tree = self.tree.tree
        names = np.array(snapshot.slots, dtype=np.intp)
        where = np.full(int(names.max()) + 1, -1, dtype=np.intp)
        where[names] = np.arange(len(names))
        slots, columns = names, where
        self.map = (slots, columns)
        self.s.slots, self.s.columns = &slots[0], &columns[0]
        self.s.n_columns, self.s.n_slots = slots.shape[0], columns.shape[0]
        self._settle()

    def _settle(self):
        """After a refresh: the work of a call."""
        self.api.work_size = lay_out(&self.s.tree, self.s.most_entries, self.s.most, NULL, NULL)

    def to_arrays(self):
        """Nothing: `refresh` remakes it all."""
        return {}

    def from_arrays(self, arrays):
        """Nothing to restore; a `refresh` must follow."""


def _single(data):
    """phi of all data in single precision, made block by block."""
    rows = np.empty((data.n_rows, data.n_statistics), dtype=np.float32)
    step = max(1, _BLOCK_ENTRIES // data.n_statistics)
    for start in range(0, data.n_rows, step):
        rows[start : start + step] = data.phi(start, min(start + step, data.n_rows))
    return rows


def _geometry(phi, Theta, bias):
    """Centre, means of phi in each cluster and spread about them, from a sample put to its best clusters.

    Clusters that the sample does not reach have the mean that the line of `smoothed_means` has at their Theta.
    """
    is_sparse, K = sparse.issparse(phi), len(bias)
    with single_blas():                 # the bits of a product may depend on the number of threads
        scores = np.asarray(phi @ Theta.T) + bias
    label = np.nan_to_num(scores, nan=-np.inf).argmax(axis=1)
    n = np.bincount(label, minlength=K).astype(np.float64)
    member = sparse.csr_array((np.ones(len(label)), (label, np.arange(len(label)))), shape=(K, len(label)))
    sums = member @ phi
    sums = sums.toarray() if is_sparse else np.asarray(sums)
    center, means = smoothed_means(n, sums, Theta)
    squares = np.asarray((phi.multiply(phi) if is_sparse else phi * phi).sum(axis=0)).ravel()
    inside = squares - 2.0 * np.einsum("kf,kf->f", sums, means) + np.einsum("k,kf,kf->f", n, means, means)
    spread = np.sqrt(np.maximum(inside / len(label), 0.0))
    return center, means, np.maximum(spread, np.sqrt(np.abs(center) / len(label))) if is_sparse else spread
