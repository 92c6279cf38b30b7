"""Exact draws of labels by branch and bound over a tree of the clusters.

The clusters of a mixture are in cells, and each cell has a bound of the scores of its members. A search scores a datum
against the clusters of those cells that can have a relevant weight. A datum costs O(F) for each scored cluster. These
are about K clusters where clusters overlap, and far fewer where they are separated on several scales. Building the tree
costs O(K F depth).
"""

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.amounts import counted
from expfam.structures.cluster_tree.cells cimport ClusterCells, cluster_query, exact_score
from expfam.structures.cluster_tree.search cimport (
    begin,
    draw_bounded,
    draw_rejected,
    expand,
    lay_out,
    prepare,
    waiting_cell,
    tree_search,
)
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_init, philox_stream

from expfam.errors import ExpFamError

_ROUNDING = 1e-12    # a spread of a column below this share of its size is rounding error


cdef class Scratch:
    """Memory of a `ClusterTree` for one search at a time."""

    def __init__(self, ClusterTree owner):
        self.owner, self.tree, self.room = owner, &owner.tree, 0
        self.reserve(16)

    cdef int reserve(self, Py_ssize_t nnz) except -1:
        """Reserve room for a datum of `nnz` entries; data of an earlier search are lost."""
        cdef double[::1] memory
        if nnz > self.room:
            self.room = nnz if not self.tree.is_sparse else max(nnz, 2 * self.room)
            memory = np.empty(lay_out(self.tree, self.room, NULL, NULL))
            lay_out(self.tree, self.room, &memory[0], &self.w)
            self.held = memory
        return 0


cdef class _Block:
    """Rows of phi as pointers."""

    def __init__(self, arrays):
        cdef const double[::1] values = arrays[0].reshape(-1) if arrays[0].size else np.zeros(1)
        cdef const int32_t[::1] columns = arrays[1] if arrays[1].size else np.zeros(1, np.int32)
        cdef const int64_t[::1] starts = arrays[2]
        self.values, self.columns, self.starts = &values[0], &columns[0], &starts[0]
        self.most = int(np.diff(arrays[2]).max(initial=0))
        self.held = (values, columns, starts)


cdef class ClusterTree(ClusterCells):
    """Tree of clusters for exact draws of labels without scoring every cluster.

    Parameters
    ----------
    Theta : (K, F) array_like
        Natural parameters.
    G : (K,) array_like
        Log partition function.
    log_pi : (K,) array_like
        Log weights, nats. A cluster with -inf is left out.
    means : (K, F) array_like, optional
        Vectors near which the bounds are tight. All vectors are valid; the mean of phi in each cluster is best.
    center : (F,) array_like, optional
        Vector that is subtracted from dense phi; the mean of phi is best.
    spread : (F,) array_like, optional
        Root mean square of phi minus the mean of its cluster, by column.
    is_sparse : bool
        Whether phi is CSR.
    base : float
        Ratio of the separations of consecutive levels.
    leaf : int
        Cells with at most this number of clusters are not divided.
    n_threads : int or None
        Threads for building the tree; results do not depend on it.

    Attributes
    ----------
    cells : (n_cells,) structured ndarray
    order : (n,) int32 ndarray
    center, shift, scale : (F,) ndarray
        As in `ClusterCells`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.cluster_tree.tree import ClusterTree
    >>> mean = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0]])      # Gaussians of variance 1
    >>> tree = ClusterTree(mean, (mean**2).sum(axis=1) / 2, np.log([0.5, 0.25, 0.25]), means=mean)
    >>> labels, counts = tree.draw(np.array([[9.0, 8.0], [0.1, -3.0]]), seed=0)
    >>> labels
    array([2, 0], dtype=int32)

    Notes
    -----
    The draw from cells of clusters follows Zaheer et al. 2016, "Canopy: fast sampling with cover trees", section 3.2,
    with these differences. The bounds hold for any vector a and use the curvature of the log partition function. Cells
    are left out by their mass, so that rejection is rare. ``method="rejection"`` is the published sampler with two
    corrections: it uses the true radius of a subtree, which can be up to 2^(i+1) where the paper has 2^i (with a
    smaller radius the children can have more weight than the envelope of their parent), and new random numbers at each
    level.
    """

    def _open(self, phi):
        """Check phi; return its values (n, F), or values, columns and starts of CSR rows."""
        F = self.tree.F
        if phi.ndim != 2 or phi.shape[1] != F:
            raise ExpFamError(f"phi has shape {phi.shape}; the tree's clusters have {counted(F, 'column')}")
        if sparse.issparse(phi) != self.tree.is_sparse:
            raise ExpFamError(f"the tree was made with is_sparse={bool(self.tree.is_sparse)}; phi is a {type(phi)}")
        if not self.tree.is_sparse:
            return np.ascontiguousarray(phi, dtype=np.float64), np.zeros(1, np.int32), np.zeros(1, np.int64)
        phi = phi.tocsr()
        return tuple(
            np.ascontiguousarray(v, dtype=kind)
            for v, kind in ((phi.data, np.float64), (phi.indices, np.int32), (phi.indptr, np.int64))
        )

    cdef void _datum(self, _Block block, Py_ssize_t i, tree_search *w, cluster_query *q) noexcept nogil:
        cdef Py_ssize_t start
        if self.tree.is_sparse:
            start = block.starts[i]
            prepare(&self.tree, w, q, block.values + start, block.columns + start, block.starts[i + 1] - start)
        else:
            prepare(&self.tree, w, q, block.values + i * self.tree.F, NULL, self.tree.F)

    def draw(self, phi, *, seed, step=0, first_row=0, labels=None, tau=12.0, method="tree", Scratch scratch=None):
        """Draw the cluster of each row from its exact law.

        Parameters
        ----------
        phi : (n, F) ndarray or CSR
        seed, step, first_row : int
            Row i uses the stream of unit ``first_row + i`` at this step.
        labels : (n,) array_like of int, optional
            A guess for each row, for example its present cluster. It changes only the cost.
        tau : float
            Cells that are more than tau nats below the best cluster join the tail. It changes only the cost.
        method : {"tree", "rejection"}
        scratch : Scratch, optional

        Returns
        -------
        labels : (n,) int32 ndarray
            -1 where no cluster has a finite weight.
        counts : (3,) int64 ndarray
            Number of scores in single precision, of scores in double precision, and of rejected draws.
        """
        cdef _Block block = _Block(self._open(phi))
        cdef Py_ssize_t i, n = phi.shape[0]
        out = np.empty(n, dtype=np.int32)
        cdef int32_t[::1] drawn = out
        cdef const int32_t[::1] guess = np.full(n, -1, np.int32) if labels is None else np.ascontiguousarray(
            labels, dtype=np.int32)
        cdef Py_ssize_t K = self.arrays["position"].shape[0], turn
        # Data with guesses close to each other read the same cells. Each datum has its own random numbers.
        cdef const Py_ssize_t[::1] order = np.argsort(self.arrays["position"][np.asarray(guess).clip(0, K - 1)])
        cdef uint64_t first = first_row, step_number = step
        cdef philox_stream rng
        cdef cluster_query q
        cdef int32_t p
        cdef bint by_rejection = method == "rejection"
        scratch = Scratch(self) if scratch is None else scratch
        cdef tree_search *w = &scratch.w
        if method not in ("tree", "rejection") or not tau > 0.0:
            raise ValueError(f"method must be 'tree' or 'rejection' and tau positive; got {method!r}, {tau!r}")
        if guess.shape[0] != n:
            raise ValueError(f"{counted(guess.shape[0], 'label')} for {counted(n, 'row')}")
        scratch.reserve(block.most)
        w.tau, w.n_visits, w.n_scored, w.n_tails = tau, 0, 0, 0
        philox_init(&rng, seed, MOVE)
        with nogil:
            for turn in range(n):
                i = order[turn]
                self._datum(block, i, w, &q)
                philox_aim(&rng, first + <uint64_t> i, step_number)
                if by_rejection:
                    p = draw_rejected(&self.tree, &q, w, &rng)
                else:
                    w.best = -INFINITY
                    p = self.tree.position[guess[i]] if 0 <= guess[i] < K else -1
                    if p >= 0:
                        w.best = exact_score(&self.tree, &q, p)
                        w.n_scored += 1
                    p = draw_bounded(&self.tree, &q, w, &rng)
                drawn[i] = self.tree.cluster[p] if p >= 0 else -1
        return out, np.array([w.n_visits, w.n_scored, w.n_tails], dtype=np.int64)

    def bounds(self, phi):
        """Return the bound of the scores of each cell that a search uses, for each row.

        Parameters
        ----------
        phi : (n, F) ndarray or CSR

        Returns
        -------
        (n, n_cells) float64 ndarray
            Upper bounds of <phi, Theta_z> - G_z over the members z, nats; NaN for cells of one cluster.
        """
        cdef _Block block = _Block(self._open(phi))
        cdef Py_ssize_t i, n = phi.shape[0]
        out = np.full((n, self.tree.n_cells), np.nan)
        cdef double[:, ::1] bound = out
        cdef Scratch scratch = Scratch(self)
        cdef cluster_query q
        cdef tree_search *w = &scratch.w
        cdef waiting_cell s
        scratch.reserve(block.most)
        w.tau = INFINITY
        with nogil:
            for i in range(n):
                self._datum(block, i, w, &q)
                begin(&self.tree, &q, w)
                w.best = 0.0
                while w.n_waiting:
                    w.n_waiting -= 1
                    s = w.waiting[w.n_waiting]
                    bound[i, s.cell] = s.bound + q.offset
                    expand(&self.tree, &q, w, s)
        return out

    def members(self, Py_ssize_t cell):
        """Return the clusters of a cell, its representative first: (m,) int32 ndarray."""
        return self.order[self.cells["lo"][cell] : self.cells["hi"][cell]].copy()

    def children(self, Py_ssize_t cell):
        """Return the cells and clusters into which a cell is divided.

        Returns
        -------
        cells : (m,) intp ndarray
            Child cells. If there is a smaller cell of the same representative, it is the last.
        clusters : (s,) int32 ndarray
            Members that are in no child cell.
        """
        here, items = self.cells[cell], self.arrays["items"]
        items = items[here["item"] : here["item"] + here["n_items"]]
        cells = items["cell"][items["cell"] >= 0].astype(np.intp)
        clusters = self.order[items["position"][items["cell"] < 0]]
        if here["own"] >= 0:
            return np.append(cells, here["own"]), clusters
        return cells, np.append(clusters, self.order[here["lo"]]).astype(np.int32)

    def __repr__(self):
        return f"<ClusterTree of {counted(self.tree.n_positions, 'cluster')}: {counted(self.tree.n_cells, 'cell')}>"


# ---- labels of a state ---------------------------------------------------------------------------------------------


def smoothed_means(n, S, Theta):
    """Return the mean of phi over all data (F,) and a smoothed mean of each cluster (K, F).

    The mean of a cluster with few data is shrunk towards a regression line: it is (S + line) / (n + 1), where the line
    is the regression of phi on Theta, column by column. A column of Theta that is the same for all data but for
    rounding, as where one cluster holds them all, has slope 0.
    """
    n = np.asarray(n, dtype=np.float64)
    S = S.toarray() if sparse.issparse(S) else np.asarray(S)
    center = S.sum(axis=0) / n.sum()
    theta = Theta - np.einsum("k,kf->f", n, Theta) / n.sum()
    square = np.einsum("k,kf,kf->f", n, theta, theta)
    varies = square > _ROUNDING**2 * np.einsum("k,kf,kf->f", n, Theta, Theta)
    slope = np.where(varies, np.einsum("kf,kf->f", theta, S), 0.0) / np.where(varies, square, 1.0)
    return center, (S + center + slope * theta) / (n[:, None] + 1.0)
