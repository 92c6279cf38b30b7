"""Labels drawn exactly by branch and bound over a tree of the clusters.

A search leaves a cell aside once a bound of all its weight together lies tau nats below the largest weight known; what
it leaves aside is a tail with a known bound, and a draw that falls there looks at the members and is repeated unless it
falls on their true weight. So labels follow the law of a dense pass to double rounding, whatever tau and the bounds:
these decide the cost. Clusters are scored in single precision with a bound of the error, and again in double where
that cannot rule them out. O(visits F) a datum, with visits near K where clusters overlap, and far fewer where they lie
apart in several scales.
"""

import threading

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY, exp, log, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.samplers._cluster_cells cimport (
    ClusterCells,
    cluster_cell,
    cluster_query,
    cluster_tree,
    exact_score,
    item_scores,
    near_distances,
    rise,
    root_score,
    tree_item,
)
from expfam.structures._kernels cimport EXPFAM_BLOCK, EXPFAM_FLOAT_CHUNK, expfam_dot, expfam_exp_blocks
from expfam.structures._rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

from expfam.errors import ExpFamError
from expfam.structures._threads import run

cdef enum:
    ROWS = 256                          # data of a task
    TRIALS = 512                        # data that tell whether a tree pays

cdef double UNIT = 5.9604644775390625e-08      # rounding of a float

# Nanoseconds on a machine with AVX-512: a visit of the tree, a cluster of the dense pass, and of both by column.
_TREE_COST, _DENSE_COST = (12.0, 0.16), (1.3, 0.022)


# ---- one datum -----------------------------------------------------------------------------------------------------

cdef inline double *take(double **memory, Py_ssize_t n_bytes) noexcept nogil:
    """The next so many bytes, by whole doubles."""
    cdef double *here = memory[0]
    memory[0] += (n_bytes + 7) // 8
    return here


cdef Py_ssize_t lay_out(const cluster_tree *tree, Py_ssize_t nnz, Py_ssize_t most, double *memory,
                        walk *w) noexcept nogil:
    cdef Py_ssize_t parts = 0 if most else tree.n_cells + tree.n_positions, room = nnz if tree.is_sparse else tree.F
    cdef Py_ssize_t m = tree.max_items
    cdef walk counted
    cdef double *end = memory
    if w == NULL:
        w = &counted
    w.waiting = <waiting_cell *> take(&end, tree.n_cells * sizeof(waiting_cell))
    w.tail = <tail_part *> take(&end, parts * sizeof(tail_part))
    w.found = <scored *> take(&end, (most if most else tree.n_positions) * sizeof(scored))
    w.mass = take(&end, (parts + parts // EXPFAM_BLOCK + 1) * sizeof(double))
    w.before = take(&end, m * sizeof(double))
    w.f = take(&end, m * sizeof(double))
    w.distance = take(&end, m * sizeof(double))
    w.phi = take(&end, room * sizeof(double))
    w.x = <float *> take(&end, room * sizeof(float))
    w.products = <float *> take(&end, m * sizeof(float))
    w.which = <int32_t *> take(&end, m * sizeof(int32_t))
    w.columns = <int32_t *> take(&end, room * sizeof(int32_t))
    w.n_waiting = w.n_tail = w.n_found = w.n_visits = w.n_scored = w.n_tails = 0
    w.most, w.tau, w.best = most, INFINITY, -INFINITY
    return end - memory


cdef void prepare(const cluster_tree *tree, walk *w, cluster_query *q, const double *phi, const int32_t *columns,
                  Py_ssize_t nnz) noexcept nogil:
    cdef Py_ssize_t t, f
    cdef double value, square = 0.0
    q.x, q.columns, q.phi, q.nnz, q.offset = w.x, columns, phi, nnz, 0.0
    if not tree.is_sparse:
        for f in range(tree.F):
            value = (phi[f] - tree.center[f]) * tree.inverse[f]
            w.x[f] = <float> value
            square += value * value
        q.offset = expfam_dot(phi, tree.shift, tree.F)
        q.error = UNIT * (min(tree.F, EXPFAM_FLOAT_CHUNK) + tree.F // EXPFAM_FLOAT_CHUNK + 8)
    else:
        for t in range(nnz):
            value = phi[t] * tree.inverse[columns[t]]
            w.x[t] = <float> value
            square += value * value
            q.offset += phi[t] * tree.shift[columns[t]]
        q.error = UNIT * (nnz + 8)
    q.norm = sqrt(square)


# ---- search --------------------------------------------------------------------------------------------------------

cdef inline double threshold(const walk *w) noexcept nogil:
    """Log mass, or log weight, below which a cell is left aside."""
    if w.most == 0:
        return w.best - w.tau
    return w.found[w.n_found - 1].score if w.n_found == w.most else -INFINITY


cdef inline void leave(walk *w, double log_mass, int32_t what) noexcept nogil:
    if w.most == 0:
        w.tail[w.n_tail] = tail_part(log_mass, what)
        w.n_tail += 1


cdef inline void score(const cluster_tree *tree, const cluster_query *q, walk *w, int32_t position) noexcept nogil:
    """Find a cluster: its weight in double precision."""
    cdef double value = exact_score(tree, q, position)
    cdef Py_ssize_t at = w.n_found
    w.n_scored += 1
    w.best = value if value > w.best else w.best
    if w.most:
        if at == w.most:
            at -= 1
            if not value > w.found[at].score:
                return
        else:
            w.n_found += 1
        while at > 0 and w.found[at - 1].score < value:
            w.found[at] = w.found[at - 1]
            at -= 1
    else:
        w.n_found += 1
    w.found[at] = scored(value, position)


cdef inline void wait(walk *w, double bound, double f, double distance, int32_t cell) noexcept nogil:
    w.waiting[w.n_waiting] = waiting_cell(bound, f, distance, cell)
    w.n_waiting += 1


cdef inline bint is_out(const walk *w, double bound, double log_beta, double log_top) noexcept nogil:
    """A NaN is never out."""
    return bound + (log_top if w.most else log_beta) < threshold(w)


cdef void expand(const cluster_tree *tree, const cluster_query *q, walk *w, waiting_cell s) noexcept nogil:
    """Score the children of a cell, find its single members, let its cells wait, the best of them first in turn."""
    cdef const cluster_cell *cell = &tree.cells[s.cell]
    cdef const cluster_cell *child
    cdef const tree_item *items = tree.items + cell.item
    cdef const tree_item *item
    cdef double base = s.f + q.error * q.norm * tree.theta_norm[cell.lo], bound, slack
    cdef Py_ssize_t j, n = 0, n_cells = 0, first = w.n_waiting, top
    for j in range(cell.n_items):
        bound = base + rise(&items[j].members, s.distance)
        bound = bound if bound < s.bound else s.bound
        if is_out(w, bound, items[j].log_beta, items[j].log_top):
            leave(w, bound + items[j].log_beta, items[j].cell if items[j].cell >= 0 else -1 - items[j].position)
            continue
        w.which[n], w.before[n] = <int32_t> j, bound
        n += 1
        n_cells += j < cell.n_cells
    if n:
        item_scores(tree, q, cell, w.which, n, w.products, w.f)
        w.n_visits += n
        if w.most == 0:
            for j in range(n):
                item = &items[w.which[j]]
                bound = w.f[j] - q.error * q.norm * item.norm + item.log_pi
                w.best = bound if bound > w.best else w.best
    if n_cells:
        near_distances(tree, q, cell, w.which, w.f, n_cells, w.products, w.distance)
    for j in range(n):
        item = &items[w.which[j]]
        slack = q.error * q.norm * item.norm
        bound = w.f[j] + slack
        if j < n_cells:
            child = &tree.cells[item.cell]
            bound = bound + rise(&child.members, w.distance[j])
        bound = bound if bound < w.before[j] else w.before[j]
        if is_out(w, bound, item.log_beta, item.log_top):
            leave(w, bound + item.log_beta, item.cell if j < n_cells else -1 - item.position)
        elif j < n_cells:
            wait(w, bound, w.f[j], w.distance[j], item.cell)
        else:
            score(tree, q, w, item.position)
    if cell.own >= 0:
        child = &tree.cells[cell.own]
        bound = base + rise(&child.members, s.distance)
        wait(w, bound if bound < s.bound else s.bound, s.f, s.distance, cell.own)
    else:
        bound = base if base < s.bound else s.bound
        if is_out(w, bound, tree.log_pi[cell.lo], tree.log_pi[cell.lo]):
            leave(w, bound + tree.log_pi[cell.lo], -1 - cell.lo)
        else:
            score(tree, q, w, cell.lo)
    top = first
    for j in range(first, w.n_waiting):
        if w.waiting[j].bound + tree.cells[w.waiting[j].cell].log_beta > (
            w.waiting[top].bound + tree.cells[w.waiting[top].cell].log_beta
        ):
            top = j
    if w.n_waiting > first:
        s = w.waiting[top]
        w.waiting[top] = w.waiting[w.n_waiting - 1]
        w.waiting[w.n_waiting - 1] = s


cdef void begin(const cluster_tree *tree, const cluster_query *q, walk *w) noexcept nogil:
    """Let the root wait."""
    cdef double f, distance, bound
    w.n_waiting = w.n_tail = w.n_found = 0
    root_score(tree, q, w.products, &f, &distance)
    w.n_visits += 1
    bound = f + q.error * q.norm * tree.theta_norm[tree.cells[0].lo] + rise(&tree.cells[0].members, distance)
    wait(w, bound, f, distance, 0)


cdef void search(const cluster_tree *tree, const cluster_query *q, walk *w) noexcept nogil:
    cdef waiting_cell s
    begin(tree, q, w)
    while w.n_waiting:
        w.n_waiting -= 1
        s = w.waiting[w.n_waiting]
        if is_out(w, s.bound, tree.cells[s.cell].log_beta, tree.cells[s.cell].log_top):
            leave(w, s.bound + tree.cells[s.cell].log_beta, s.cell)
        else:
            expand(tree, q, w, s)


# ---- draws ---------------------------------------------------------------------------------------------------------

cdef int32_t fall(const cluster_tree *tree, const cluster_query *q, walk *w, int32_t what, double left) noexcept nogil:
    """Member of a part of the tail on whose true weight `left` falls, or -1; weights relative to the best."""
    cdef Py_ssize_t p, lo = -1 - what, hi = -what
    if what >= 0:
        lo, hi = tree.cells[what].lo, tree.cells[what].hi
    for p in range(lo, hi):
        w.n_scored += 1
        left -= exp(exact_score(tree, q, p) - w.best)
        if left < 0.0:
            return <int32_t> p
    return -1


cdef int32_t draw_bounded(const cluster_tree *tree, const cluster_query *q, walk *w, philox_stream *rng) noexcept nogil:
    """Position of a cluster drawn from its exact law by branch and bound; -1 where no weight is finite."""
    cdef double known = 0.0, rest = 0.0, u, top = -INFINITY
    cdef Py_ssize_t j
    cdef int32_t p
    search(tree, q, w)
    for j in range(w.n_found):
        top = w.found[j].score if w.found[j].score > top else top
    if not -INFINITY < top < INFINITY:
        return -1
    w.best = top
    for j in range(w.n_found):
        w.found[j].score = exp(w.found[j].score - top)
        known += w.found[j].score
    if not known < INFINITY:
        return -1
    for j in range(w.n_tail):
        w.mass[j] = w.tail[j].log_mass
    rest = expfam_exp_blocks(w.mass, top, w.mass + w.n_tail, w.n_tail)
    while True:
        u = philox_double(rng) * (known + rest)
        if u < known or rest == 0.0:
            for j in range(w.n_found):
                u -= w.found[j].score
                if u < 0.0:
                    return w.found[j].position
            j = w.n_found - 1               # rounding of the sum
            while w.found[j].score == 0.0:
                j -= 1
            return w.found[j].position
        w.n_tails += 1
        u -= known
        for j in range(w.n_tail):
            if u < w.mass[j]:
                p = fall(tree, q, w, w.tail[j].what, u)
                if p >= 0:
                    return p
                break
            u -= w.mass[j]


cdef inline double lifted_rise(const cluster_query *q, double radius) noexcept nogil:
    """Largest f_z - f_c at a distance of `radius` in (theta, g)."""
    return radius * sqrt(1.0 + q.norm * q.norm)


cdef void open_cell(const cluster_tree *tree, const cluster_query *q, walk *w, waiting_cell s) noexcept nogil:
    """Score all children of a cell into `which`, `f` and, as envelopes, `before`."""
    cdef const cluster_cell *cell = &tree.cells[s.cell]
    cdef const tree_item *item
    cdef Py_ssize_t j
    for j in range(cell.n_items):
        w.which[j] = <int32_t> j
    if cell.n_items:
        item_scores(tree, q, cell, w.which, cell.n_items, w.products, w.f)
    w.n_visits += cell.n_items
    for j in range(cell.n_items):
        item = &tree.items[cell.item + j]
        w.before[j] = w.f[j] + q.error * q.norm * item.norm
        if item.cell >= 0:
            w.before[j] += lifted_rise(q, tree.cells[item.cell].lifted)
        w.before[j] = w.before[j] if w.before[j] < s.bound else s.bound


cdef inline double own_envelope(const cluster_tree *tree, const cluster_query *q, waiting_cell s) noexcept nogil:
    """Of what is left of a cell without its items: a smaller cell of the same representative, or that alone."""
    cdef const cluster_cell *cell = &tree.cells[s.cell]
    cdef double bound = s.f + q.error * q.norm * tree.theta_norm[cell.lo]
    if cell.own >= 0:
        bound += lifted_rise(q, tree.cells[cell.own].lifted)
    return bound if bound < s.bound else s.bound


cdef void open_frontier(const cluster_tree *tree, const cluster_query *q, walk *w) noexcept nogil:
    """The largest cells whose envelopes are within e of their members, in `waiting`; single clusters in `found`."""
    cdef waiting_cell s
    cdef const tree_item *item
    cdef Py_ssize_t i = 0, j
    w.n_waiting = w.n_found = 0
    s.cell, s.distance = 0, 0.0
    root_score(tree, q, w.products, &s.f, &s.distance)
    w.n_visits += 1
    s.bound = s.f + q.error * q.norm * tree.theta_norm[tree.cells[0].lo] + lifted_rise(q, tree.cells[0].lifted)
    wait(w, s.bound, s.f, 0.0, 0)
    while i < w.n_waiting:
        s = w.waiting[i]
        if not lifted_rise(q, tree.cells[s.cell].lifted) <= 1.0 or tree.cells[s.cell].n_items == 0:
            open_cell(tree, q, w, s)
            w.waiting[i].cell = -1
            for j in range(tree.cells[s.cell].n_items):
                item = &tree.items[tree.cells[s.cell].item + j]
                if item.cell >= 0:
                    wait(w, w.before[j], w.f[j], 0.0, item.cell)
                else:
                    score(tree, q, w, item.position)
            if tree.cells[s.cell].own >= 0:
                wait(w, own_envelope(tree, q, s), s.f, 0.0, tree.cells[s.cell].own)
            else:
                score(tree, q, w, tree.cells[s.cell].lo)
        i += 1


cdef int32_t descend(const cluster_tree *tree, const cluster_query *q, walk *w, waiting_cell s,
                     philox_stream *rng) noexcept nogil:
    """Position of a member of a cell, drawn by the shares of its envelope, or -1 where no member has the share."""
    cdef const cluster_cell *cell
    cdef const tree_item *item
    cdef Py_ssize_t j
    cdef int32_t position
    cdef double u, parent, envelope
    while True:
        cell = &tree.cells[s.cell]
        open_cell(tree, q, w, s)
        parent = s.bound + cell.log_beta
        u = philox_double(rng)
        position = -1
        for j in range(cell.n_items):
            item = &tree.items[cell.item + j]
            envelope = w.before[j] + item.log_beta
            u -= exp(envelope - parent)
            if u < 0.0:
                break
        if u < 0.0:
            if item.cell >= 0:
                s = waiting_cell(w.before[j], w.f[j], 0.0, item.cell)
                continue
            position = item.position
        else:
            s.bound = own_envelope(tree, q, s)
            envelope = s.bound + tree.log_pi[cell.lo] if cell.own < 0 else s.bound + tree.cells[cell.own].log_beta
            u -= exp(envelope - parent)
            if u >= 0.0:
                return -1
            if cell.own >= 0:
                s.cell = cell.own
                continue
            position = cell.lo
        w.n_scored += 1
        return position if philox_double(rng) < exp(exact_score(tree, q, position) - envelope) else -1


cdef int32_t draw_rejected(const cluster_tree *tree, const cluster_query *q, walk *w,
                           philox_stream *rng) noexcept nogil:
    """Position of a cluster drawn from its exact law by rejection from cells; -1 where no weight is finite."""
    cdef double top = -INFINITY, known = 0.0, rest = 0.0, u
    cdef Py_ssize_t j
    cdef int32_t p
    w.best = -INFINITY
    open_frontier(tree, q, w)
    top = w.best
    for j in range(w.n_waiting):
        if w.waiting[j].cell >= 0:
            top = max(top, w.waiting[j].bound + tree.cells[w.waiting[j].cell].log_beta)
    if not -INFINITY < top < INFINITY:
        return -1
    for j in range(w.n_found):
        w.found[j].score = exp(w.found[j].score - top)
        known += w.found[j].score
    for j in range(w.n_waiting):
        w.mass[j] = 0.0
        if w.waiting[j].cell >= 0:
            w.mass[j] = exp(w.waiting[j].bound + tree.cells[w.waiting[j].cell].log_beta - top)
        rest += w.mass[j]
    if not 0.5 <= known + rest < INFINITY:
        return -1
    while True:
        u = philox_double(rng) * (known + rest)
        for j in range(w.n_found):
            u -= w.found[j].score
            if u < 0.0:
                return w.found[j].position
        for j in range(w.n_waiting):
            u -= w.mass[j]
            if u < 0.0:
                break
        if u < 0.0:
            p = descend(tree, q, w, w.waiting[j], rng)
            if p >= 0:
                return p
        w.n_tails += 1


# ---- Python --------------------------------------------------------------------------------------------------------

cdef class Scratch:
    """Memory of one search at a time.

    Parameters
    ----------
    owner : ClusterTree

    Examples
    --------
    >>> from expfam.samplers.cluster_tree import ClusterTree, Scratch
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
    >>> from expfam.samplers.cluster_tree import ClusterTree
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

    cdef void _datum(self, _Block block, Py_ssize_t i, walk *w, cluster_query *q) noexcept nogil:
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
        cdef Py_ssize_t K = self.arrays["position"].shape[0]
        cdef uint64_t first = first_row, step_number = step
        cdef philox_stream rng
        cdef cluster_query q
        cdef int32_t p
        cdef bint by_rejection = method == "rejection"
        scratch = Scratch(self) if scratch is None else scratch
        cdef walk *w = &scratch.w
        if method not in ("tree", "rejection") or not tau > 0.0:
            raise ValueError(f"method must be 'tree' or 'rejection' and tau positive; got {method!r}, {tau!r}")
        if guess.shape[0] != n:
            raise ValueError(f"{guess.shape[0]} labels for {n} rows")
        scratch.reserve(block.most)
        w.tau, w.n_visits, w.n_scored, w.n_tails = tau, 0, 0, 0
        philox_init(&rng, seed, MOVE)
        with nogil:
            for i in range(n):
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
        cdef walk walked
        cdef walk *w = &walked
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
        cdef walk *w = &scratch.w
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

def tree_of(state, *, n_threads=None, **options):
    """Tree of a state's clusters, its means and spread those of the data under the state's labels.

    Parameters
    ----------
    state : UncollapsedState
        With drawn parameters.
    n_threads : int or None
    **options
        base and leaf of `ClusterTree`.

    Returns
    -------
    ClusterTree
    """
    is_sparse, n = state.data.has_sparse_phi, np.asarray(state.n, dtype=np.float64)
    S = state.S.toarray() if sparse.issparse(state.S) else np.asarray(state.S)
    center = S.sum(axis=0) / n.sum()
    means = np.where(n[:, None] > 0.0, S / np.maximum(n, 1e-300)[:, None], center)
    spread = _spread(state, means, center)
    return ClusterTree(state.Theta, state.G, state.log_pi, means=means, center=None if is_sparse else center,
                       spread=spread, is_sparse=is_sparse, n_threads=n_threads, **options)


def _spread(state, means, center):
    """Root mean square of phi about the means, by column, from about a thousand rows."""
    data, N = state.data, state.data.n_rows
    total, rows = np.zeros(center.shape), 0
    for start, stop in _sample(N, 1024):
        if data.has_sparse_phi:
            phi = data.phi_csr(start, stop)
            total += np.asarray(phi.multiply(phi).sum(axis=0)).ravel()
        else:
            total += ((data.phi(start, stop) - means[state.labels[start:stop]]) ** 2).sum(axis=0)
        rows += stop - start
    if data.has_sparse_phi:     # rare columns are zero in a sample; counts vary as much as their mean
        return np.sqrt(np.maximum(total / rows - center**2, np.abs(center)))
    return np.sqrt(total / rows)


def _sample(n_rows, most, block=64):
    """Bounds of blocks of rows, evenly spaced, of at most so many rows together."""
    if n_rows <= most:
        return [(0, n_rows)]
    n = most // block
    starts = [(n_rows - block) * b // (n - 1) for b in range(n)]
    return [(start, start + block) for start in starts]


def draw_labels(state, n_threads, *, tau=12.0, method="tree"):
    """Labels of all data drawn from their exact law given Theta, G and log pi.

    Parameters
    ----------
    state : UncollapsedState
        With drawn parameters; its labels serve as guesses.
    n_threads : int or None
        The result does not depend on it.
    tau : float
        Nats below the best cluster at which cells are left to the tail; it changes the cost only.
    method : {"tree", "rejection"}

    Returns
    -------
    labels : (N,) int32 ndarray
    extra : dict
        ``visits``: clusters scored for a datum, the mean; ``tails``: rejected draws for a datum, the mean.

    Raises
    ------
    FloatingPointError
        A datum has no cluster with a finite weight.
    """
    tree = tree_of(state, n_threads=n_threads)
    N = state.data.n_rows
    labels = np.empty(N, dtype=np.int32)
    counts = _draw_blocks(tree, state, labels, [(a, min(a + ROWS, N)) for a in range(0, N, ROWS)], n_threads, tau, method)
    return labels, {"visits": float(counts[0] / N), "tails": float(counts[2] / N)}


def _draw_blocks(tree, state, labels, blocks, n_threads, tau, method):
    """Draw the labels of blocks of rows; returns the sums of the counts."""
    data, held, lock = state.data, [], threading.Lock()

    def draw_block(start, stop):
        with lock:
            scratch = held.pop() if held else Scratch(tree)
        phi = data.phi_csr(start, stop) if data.has_sparse_phi else data.phi(start, stop)
        drawn, counts = tree.draw(
            phi, seed=state.seed, step=state.n_steps, first_row=data.row_offset + start,
            labels=state.labels[start:stop], tau=tau, method=method, scratch=scratch,
        )
        if (drawn < 0).any():
            raise FloatingPointError(
                f"family {data.family.name!r}, datum {start + int(np.argmin(drawn))}: no component has a finite score"
                " under the drawn parameters"
            )
        labels[start:stop] = drawn
        with lock:
            held.append(scratch)
        return counts

    return np.sum(run(draw_block, blocks, n_threads, uses_blas=False), axis=0)


def prefers_tree(state):
    """Whether a tree of the clusters is expected to draw labels in less time than a dense pass.

    Parameters
    ----------
    state : UncollapsedState
        With drawn parameters.

    Returns
    -------
    bool

    Notes
    -----
    False for fewer than 512 clusters. Else labels of 512 data are drawn by a tree, and the clusters visited on average,
    times the cost of a visit, are compared with all clusters times their cost in a dense pass. The costs are constants
    of the package: a choice by the clock would make results depend on the machine's load.
    """
    if state.K < 512:
        return False
    tree = tree_of(state)
    blocks = _sample(state.data.n_rows, TRIALS)
    counts = _draw_blocks(tree, state, np.empty(state.data.n_rows, np.int32), blocks, 1, 12.0, "tree")
    n, columns = sum(stop - start for start, stop in blocks), _columns(state.data)
    visit, entry = (fixed + slope * columns for fixed, slope in (_TREE_COST, _DENSE_COST))
    return bool(counts[0] / n * visit < state.K * entry)


def _columns(data):
    """Numbers of phi that a score reads: its columns, or the entries of a sparse row."""
    if not data.has_sparse_phi:
        return data.phi(0, 1).shape[1]
    blocks = _sample(data.n_rows, TRIALS)
    return sum(data.phi_csr(start, stop).nnz for start, stop in blocks) / sum(stop - start for start, stop in blocks)
