"""Labels drawn exactly by branch and bound over a tree of the clusters.

The clusters of a mixture stand in cells with a bound of their members' scores; a search scores a datum against the
clusters of those cells that may hold weight. O(visits F) a datum, with visits near K where clusters overlap, and far
fewer where they lie apart in several scales; O(K F depth) to make the tree.
"""

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.structures.cluster_tree.cells cimport ClusterCells, cluster_query, exact_score
from expfam.structures.cluster_tree.search cimport (
    begin,
    draw_bounded,
    draw_rejected,
    expand,
    lay_out,
    prepare,
    search,
    waiting_cell,
    tree_search,
)
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_init, philox_stream

from expfam.errors import ExpFamError

cdef class Scratch:
    """Memory of one search at a time.

    Parameters
    ----------
    owner : ClusterTree

    Examples
    --------
    >>> from expfam.structures.cluster_tree.tree import ClusterTree, Scratch
    >>> tree = ClusterTree([[0.0], [1.0]], [0.0, 0.5], [-0.7, -0.7])
    >>> labels, counts = tree.draw(tree.order[:, None] * 1.0, seed=0, scratch=Scratch(tree))
    """

    def __init__(self, ClusterTree owner):
        self.owner, self.tree, self.room = owner, &owner.tree, 0
        self.reserve(16)

    cdef int reserve(self, Py_ssize_t nnz) except -1:
        """Room for a datum of so many entries; what a search left there is lost."""
        cdef double[::1] memory
        if nnz > self.room:
            self.room = nnz if not self.tree.is_sparse else max(nnz, 2 * self.room)
            memory = np.empty(lay_out(self.tree, self.room, 0, NULL, NULL))
            lay_out(self.tree, self.room, 0, &memory[0], &self.w)
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
    """Tree of the clusters of a mixture from which labels are drawn exactly, without scoring every cluster.

    Parameters
    ----------
    Theta : (K, F) array_like
        Natural parameters.
    G : (K,) array_like
        Log partition function.
    log_pi : (K,) array_like
        Log weights, nats; -inf leaves a cluster out.
    means : (K, F) array_like, optional
        Vectors a near which the bounds are tight: best the mean of phi in each cluster. Any are valid.
    center : (F,) array_like, optional
        Subtracted from dense phi, best its mean.
    spread : (F,) array_like, optional
        Root mean square of phi about the means of the clusters, by column.
    is_sparse : bool
        Whether phi comes as CSR.
    base : float
        Ratio of the separations of neighbouring levels.
    leaf : int
        Cells of at most so many clusters are not divided.
    n_threads : int or None
        Threads of the build; results do not depend on it.

    Attributes
    ----------
    cells : (n_cells,) structured ndarray
    order : (n,) int32 ndarray
    center, shift, scale : (F,) ndarray
        As of `ClusterCells`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.cluster_tree.tree import ClusterTree
    >>> mean = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0]])      # Gaussians of variance 1
    >>> tree = ClusterTree(mean, (mean**2).sum(axis=1) / 2, np.log([0.5, 0.25, 0.25]), means=mean)
    >>> labels, counts = tree.draw(np.array([[9.0, 8.0], [0.1, -3.0]]), seed=0)
    >>> labels
    array([2, 0], dtype=int32)
    >>> tree.best(np.array([[0.0, 0.4]]), 2)[0]
    array([[0, 1]], dtype=int32)

    Notes
    -----
    The draw from cells of clusters is that of Zaheer et al. 2016, "Canopy: fast sampling with cover trees", section
    3.2. Departs from it in the bounds, which hold about any vector a and use the curvature of the log partition
    function; in leaving cells aside by their mass, so that rejection is the rare case; and with ``method="rejection"``,
    the published sampler, in the radius of a subtree (2^(i+1) where the paper has 2^i; here the true one), without
    which children may outweigh their parent's envelope, and in fresh random numbers at each level.
    """

    def _open(self, phi):
        """Checked phi: its values (n, F), or values, columns and starts of CSR rows."""
        F = self.tree.F
        if phi.ndim != 2 or phi.shape[1] != F:
            raise ExpFamError(f"phi has shape {phi.shape}; the tree's clusters have {F} columns")
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
            Row i draws from the stream of unit ``first_row + i`` at this step.
        labels : (n,) array_like of int, optional
            A guess for each row, such as its present cluster; it changes the cost only.
        tau : float
            Nats below the best cluster at which cells are left to the tail; it changes the cost only.
        method : {"tree", "rejection"}
        scratch : Scratch, optional

        Returns
        -------
        labels : (n,) int32 ndarray
            -1 where no cluster has a finite weight.
        counts : (3,) int64 ndarray
            Clusters scored in single precision, in double precision, and rejected draws.
        """
        cdef _Block block = _Block(self._open(phi))
        cdef Py_ssize_t i, n = phi.shape[0]
        out = np.empty(n, dtype=np.int32)
        cdef int32_t[::1] drawn = out
        cdef const int32_t[::1] guess = np.full(n, -1, np.int32) if labels is None else np.ascontiguousarray(
            labels, dtype=np.int32)
        cdef Py_ssize_t K = self.arrays["position"].shape[0], turn
        # data of near clusters one after another read the same cells; each has its own random numbers
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
            raise ValueError(f"{guess.shape[0]} labels for {n} rows")
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

    def best(self, phi, Py_ssize_t k):
        """The k clusters of the largest weight for each row, the largest first, by search.

        Parameters
        ----------
        phi : (n, F) ndarray or CSR
        k : int

        Returns
        -------
        clusters : (n, m) int32 ndarray
            m is k or the number of clusters with a positive weight, if that is less.
        log_weight : (n, m) float64 ndarray
            <phi, Theta> - G + log_pi, nats.
        """
        cdef _Block block = _Block(self._open(phi))
        cdef Py_ssize_t i, j, n = phi.shape[0], m = min(k, self.tree.n_positions)
        if k < 1:
            raise ValueError(f"k must be at least 1; got {k}")
        clusters, scores = np.full((n, m), -1, dtype=np.int32), np.full((n, m), -np.inf)
        cdef int32_t[:, ::1] names = clusters
        cdef double[:, ::1] values = scores
        cdef double[::1] memory = np.empty(lay_out(&self.tree, block.most, m, NULL, NULL))
        cdef cluster_query q
        cdef tree_search walked
        cdef tree_search *w = &walked
        lay_out(&self.tree, block.most, m, &memory[0], w)
        with nogil:
            for i in range(n):
                self._datum(block, i, w, &q)
                w.best = -INFINITY
                search(&self.tree, &q, w)
                for j in range(w.n_found):
                    names[i, j] = self.tree.cluster[w.found[j].position]
                    values[i, j] = w.found[j].score + q.offset
        return clusters, scores

    def bounds(self, phi):
        """What a search knows of each cell for each row: no member's f is larger.

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
        """Clusters of a cell: (m,) int32 ndarray, its representative first."""
        return self.order[self.cells["lo"][cell] : self.cells["hi"][cell]].copy()

    def children(self, Py_ssize_t cell):
        """What a cell is divided into.

        Returns
        -------
        cells : (m,) intp ndarray
            The smaller cell of the same representative, if there is one, is the last.
        clusters : (s,) int32 ndarray
            Clusters on their own.
        """
        here, items = self.cells[cell], self.arrays["items"]
        items = items[here["item"] : here["item"] + here["n_items"]]
        cells = items["cell"][items["cell"] >= 0].astype(np.intp)
        clusters = self.order[items["position"][items["cell"] < 0]]
        if here["own"] >= 0:
            return np.append(cells, here["own"]), clusters
        return cells, np.append(clusters, self.order[here["lo"]]).astype(np.int32)

    def __repr__(self):
        return f"<ClusterTree of {self.tree.n_positions} clusters: {self.tree.n_cells} cells>"


# ---- labels of a state ---------------------------------------------------------------------------------------------


def smoothed_means(n, S, Theta):
    """Mean of phi over all data, and in each cluster, drawn towards a line where the cluster has few.

    Parameters
    ----------
    n : (K,) array_like
    S : (K, F) array_like or CSR
    Theta : (K, F) ndarray

    Returns
    -------
    center : (F,) float64 ndarray
    means : (K, F) float64 ndarray
        (S + line) / (n + 1); the line is the regression of phi on Theta, column by column.
    """
    n = np.asarray(n, dtype=np.float64)
    S = S.toarray() if sparse.issparse(S) else np.asarray(S)
    center = S.sum(axis=0) / n.sum()
    theta = Theta - np.einsum("k,kf->f", n, Theta) / n.sum()
    square = np.einsum("k,kf,kf->f", n, theta, theta)
    slope = np.einsum("kf,kf->f", theta, S) / np.where(square > 0.0, square, 1.0)
    return center, (S + center + slope * theta) / (n[:, None] + 1.0)
