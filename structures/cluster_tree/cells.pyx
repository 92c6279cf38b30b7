"""Cells over the clusters of a mixture, with bounds of the scores of their members.

Each cell has a representative cluster and numbers that bound the score of every member.

For clusters z and c, any vector a and t = |theta_z - theta_c|, with b_z = g_z - g_c - <a, theta_z - theta_c>,

    f_z(x) = f_c(x) + <phi(x) - a, theta_z - theta_c> - b_z <= f_c(x) + |phi(x) - a| t - b_z,

which follows from an identity and the Cauchy-Schwarz inequality; no derivative of g is needed. A cell stores the range
of t, the smallest b and the largest lambda with b >= lambda t^2 / 2 over its members. Where a is near the mean
parameter of c, lambda is the strong convexity of the log partition function there; for a spherical Gaussian the bound
is the triangle inequality. Coordinates are centred and scaled so that, around the means of their clusters, data have
the same spread in every coordinate. This changes all scores of a datum by the same number. Sums are in double
precision. Scores in single precision have a bound of their rounding error. The cells are those of a cover tree of the
thetas: O(K F) memory and O(K F depth) time for the sums.
"""

import numpy as np

from libc.math cimport INFINITY, exp, fabs, log, sqrt
from libc.stdint cimport int32_t

from expfam.amounts import counted
from expfam.structures.simd.reach cimport EXPFAM_REACHES
from expfam.structures.simd.vectors cimport expfam_dot

from expfam.errors import ExpFamError
from expfam.structures.cover_tree.build import build
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import single_blas

cdef double WIDEN = 1e-9                # relative margin for the rounding of double sums
cdef double TOLERANCE = 1e-12           # of b, relative to the terms whose difference is b
_MOST = 1e18                            # largest coordinate, so that squared distances are finite in single precision
_MOST_COLUMNS, _PROJECTED = 256, 64     # above this number of columns the cells are made from a projection
_NEAR_ENOUGH = 0.25                     # squared distance of a line from the means, relative to the spread of the data

_REACH = np.dtype([(name, "f8") for name in ("low", "high", "reciprocal", "curvature", "least", "excess")])
_CELL = np.dtype(
    [("members", _REACH), ("log_beta", "f8"), ("lifted", "f8")]
    + [(name, "i4") for name in ("lo", "hi", "item", "n_items", "n_cells", "own", "near", "reach")],
    align=True,
)
_ITEM = np.dtype(
    [("members", _REACH)]
    + [(name, "f8") for name in ("log_beta", "log_pi", "g", "norm")]
    + [(name, "i4") for name in ("position", "cell", "what")],
    align=True,
)
assert _CELL.itemsize == sizeof(cluster_cell)
assert _ITEM.itemsize == sizeof(tree_item)


cdef void gather(reach *m, const double *t, const double *b, Py_ssize_t n, double tolerance) noexcept nogil:
    """Compute the bounding numbers of n members from their t and b."""
    cdef Py_ssize_t z
    cdef double low = INFINITY, high = 0.0, least = INFINITY, excess = tolerance, curvature = INFINITY, here
    for z in range(n):
        low = min(low, t[z])
        high = max(high, t[z])
        least = min(least, b[z])
        if t[z] == 0.0:
            excess = max(excess, tolerance - b[z])      # equal theta but another g
    for z in range(n):
        if t[z] > 0.0:
            here = 2.0 * (b[z] + excess) / (t[z] * t[z])
            curvature = min(curvature, here)
    if curvature == INFINITY:
        curvature = 0.0
    m.low, m.high = low * (1.0 - WIDEN), high * (1.0 + WIDEN)
    m.curvature = curvature - WIDEN * fabs(curvature)
    m.reciprocal = 1.0 / m.curvature if m.curvature > 0.0 else 0.0
    m.least, m.excess = least - tolerance, excess


cdef double log_sum(const double *log_pi, Py_ssize_t n) noexcept nogil:
    """Return an upper bound of the log of the sum of n weights."""
    cdef Py_ssize_t z
    cdef double total = 0.0, top = -INFINITY
    for z in range(n):
        top = max(top, log_pi[z])
    for z in range(n):
        total += exp(log_pi[z] - top)
    return top + log(total) + TOLERANCE


cdef class ClusterCells:
    """Tree of cells over the clusters with a positive weight.

    `Theta` is (K, F), `G` and `log_pi` are (K,); a log weight of -inf leaves a cluster out. `means` (K, F) are the
    vectors a: all give valid bounds, the mean of phi in each cluster is best, and the default is the centre. `center`
    (F,) is subtracted from phi; it is 0 by default and for sparse phi. `spread` (F,), the root mean square of phi minus
    the mean of its cluster, sets the scale of the coordinates. `is_sparse` tells that the data are CSR rows. `base` and
    `leaf` are as in `CoverTree`.

    An ExpFamError tells that no cluster has a positive weight, or that parameters are not finite or too far apart for
    single precision.

    Attributes
    ----------
    cells : (n_cells,) structured ndarray
        Cell 0 is the root. A cell of one cluster has `n_items` 0.
    order : (n,) int32 ndarray
        Clusters with a positive weight; the clusters of a cell are contiguous.
    center, shift, scale : (F,) ndarray
        The tree uses the coordinates (phi - center) / scale and (Theta - shift) * scale.
    """

    def __init__(self, Theta, G, log_pi, *, means=None, center=None, spread=None, is_sparse=False, base=2.0, leaf=16,
                 n_threads=None):
        Theta = np.ascontiguousarray(Theta, dtype=np.float64)
        G, log_pi = (np.ascontiguousarray(v, dtype=np.float64) for v in (G, log_pi))
        K, F = Theta.shape
        clusters = np.flatnonzero(log_pi > -np.inf)
        if G.shape != (K,) or log_pi.shape != (K,) or F == 0:
            raise ExpFamError(f"Theta {Theta.shape}, G {G.shape} and log_pi {log_pi.shape} do not fit")
        if clusters.size == 0 or not np.isfinite(log_pi[clusters]).all():
            raise ExpFamError(
                f"of {counted(K, 'cluster')} none has a finite log weight, or one has weight infinity or NaN"
            )
        is_finite = np.isfinite(Theta[clusters]).all(axis=1) & np.isfinite(G[clusters])
        if not is_finite.all():
            raise ExpFamError(f"the parameters of cluster {clusters[np.argmin(is_finite)]} are not finite")
        weight = np.exp(log_pi[clusters] - log_pi[clusters].max())
        weight /= weight.sum()
        self.center = np.zeros(F) if center is None or is_sparse else np.array(center, dtype=np.float64)
        self.shift = np.einsum("k,kf->f", weight, Theta[clusters])
        theta = Theta[clusters] - self.shift
        g = G[clusters] - np.einsum("kf,f->k", theta, self.center)
        self.scale, spread = _scale(theta, spread)
        theta *= self.scale
        rows = theta.astype(np.float32)
        if not (np.abs(rows) < _MOST).all():
            raise ExpFamError("the parameters are too far apart for a tree of clusters; draw='dense' serves them")
        near, slope = _near(None if means is None else np.asarray(means)[clusters], theta, weight, spread, self)
        points = _few_columns(rows)
        made, order, _ = build(points, base=base, leaf=leaf, max_children=512,
                               slack=(points.shape[1] + 16) * 2.0**-24, n_threads=n_threads)
        self.order = clusters[order].astype(np.int32)
        position = np.full(K, -1, dtype=np.int32)
        position[self.order] = np.arange(len(order), dtype=np.int32)
        rows = rows[order]
        self.arrays = {
            "Theta": Theta, "bias": log_pi - G, "position": position, "cluster": self.order, "g": g[order],
            "log_pi": log_pi[self.order], "inverse": 1.0 / self.scale,
            "theta_norm": np.sqrt(np.einsum("kf,kf->k", rows, rows, dtype=np.float64)),
        }
        self.tree.F, self.tree.n_positions, self.tree.is_sparse, self.tree.slope = F, len(order), is_sparse, slope
        items, near_positions = self._link(made)
        near = slope * rows.astype(np.float64) if near is None else near[order].astype(np.float64)
        self._fill(theta[order], near)
        self._store(rows, items, near, near_positions)

    def _link(self, made):
        """Make cells and items from the cells of a cover tree.

        Returns the table of items and the positions of the representatives that have a stored vector a.
        """
        cdef const int32_t[::1] lo = made["lo"].copy(), size = made["size"].copy(), child = made["child"].copy()
        cdef const int32_t[::1] following = made["next"].copy()
        cdef Py_ssize_t n = made.shape[0], K = self.tree.n_positions, c, d, z, n_items = 1, n_near = 1, first
        self.cells, table = np.zeros(n, dtype=_CELL), np.zeros(K, dtype=_ITEM)
        cdef char[::1] cell_bytes = self.cells.view(np.int8), item_bytes = table.view(np.int8)
        cdef cluster_cell *cells = <cluster_cell *> &cell_bytes[0]
        cdef tree_item *items = <tree_item *> &item_bytes[0]
        near_positions = np.zeros(n, dtype=np.int32)
        cdef int32_t[::1] near = near_positions
        self.tree.max_items = 1
        items[0].position = lo[0]
        for c in range(n):
            cells[c].lo, cells[c].hi, cells[c].own = lo[c], lo[c] + size[c], -1
            cells[c].item = <int32_t> n_items
        for c in range(n):
            if size[c] == 1:
                continue
            first = n_items
            d = child[c]
            if d >= 0:
                cells[d].near = cells[c].near
                cells[c].own = <int32_t> d if size[d] > 1 else -1
                d = following[d]
            while d >= 0:
                if size[d] > 1:
                    items[n_items].position, items[n_items].cell = lo[d], <int32_t> d
                    cells[d].near, near[n_near] = <int32_t> n_near, lo[d]
                    n_items += 1
                    n_near += 1
                d = following[d]
            cells[c].n_cells = <int32_t> (n_items - first)
            d = following[child[c]] if child[c] >= 0 else -1
            while d >= 0:
                if size[d] == 1:
                    items[n_items].position, items[n_items].cell = lo[d], -1
                    n_items += 1
                d = following[d]
            if child[c] < 0:
                for z in range(lo[c] + 1, lo[c] + size[c]):
                    items[n_items].position, items[n_items].cell = <int32_t> z, -1
                    n_items += 1
            cells[c].item, cells[c].n_items = <int32_t> first, <int32_t> (n_items - first)
            self.tree.max_items = max(self.tree.max_items, n_items - first)
        near[0] = lo[0]
        self.arrays["items"] = table
        self.tree.cells, self.tree.items, self.tree.n_cells = cells, items, n
        return table, near_positions[:n_near]

    cdef void _fill(self, const double[:, ::1] theta, const double[:, ::1] near) except *:
        """Compute bounds and weights of cells and items."""
        cdef cluster_cell *cells = <cluster_cell *> self.tree.cells
        cdef tree_item *items = <tree_item *> self.tree.items
        cdef Py_ssize_t n = self.tree.n_cells, K = self.tree.n_positions, F = self.tree.F, c, cell, j, z, p, first, f
        cdef const double[::1] g = self.arrays["g"], log_pi = self.arrays["log_pi"], norm = self.arrays["theta_norm"]
        cdef double[::1] t = np.empty(K), b = np.empty(K), lifted = np.empty(K), gap = np.empty(F)
        cdef double tolerance, square, step
        cdef char[::1] is_done = np.zeros(n, dtype=np.int8)
        norms = np.sqrt(np.einsum("kf,kf->k", theta, theta)).max() * np.sqrt(np.einsum("kf,kf->k", near, near)).max()
        tolerance = TOLERANCE * (1.0 + np.abs(self.arrays["g"]).max() + 2.0 * norms)
        with nogil:
            for c in range(n):
                cells[c].log_beta = log_sum(&log_pi[cells[c].lo], cells[c].hi - cells[c].lo)
                if is_done[c] or cells[c].n_items == 0:
                    continue
                p = cells[c].lo
                for z in range(p, cells[c].hi):
                    square = 0.0
                    for f in range(F):
                        gap[f] = theta[z, f] - theta[p, f]
                    square = expfam_dot(&gap[0], &gap[0], F)
                    step = g[z] - g[p]
                    t[z] = sqrt(square)
                    b[z] = step - expfam_dot(&near[p, 0], &gap[0], F)
                    lifted[z] = sqrt(square + step * step)
                cell = c
                while cell >= 0:            # from the largest to the smallest cell of one representative
                    is_done[cell] = 1
                    gather(&cells[cell].members, &t[p], &b[p], cells[cell].hi - p, tolerance)
                    for z in range(p, cells[cell].hi):
                        cells[cell].lifted = max(cells[cell].lifted, lifted[z] * (1.0 + WIDEN))
                    for j in range(cells[cell].item, cells[cell].item + cells[cell].n_items):
                        first = items[j].position
                        z = 1 if items[j].cell < 0 else cells[items[j].cell].hi - first
                        gather(&items[j].members, &t[first], &b[first], z, tolerance)
                        items[j].log_beta = log_sum(&log_pi[first], z)
                        items[j].log_pi, items[j].g, items[j].norm = log_pi[first], g[first], norm[first]
                    cell = cells[cell].own

    def _store(self, rows, items, near, near_positions):
        """Store the vectors in the order in which a search reads them."""
        cells, is_sparse = self.cells, self.tree.is_sparse
        ours = rows[items["position"]]
        theirs = None
        if self.tree.slope == 0.0 and near.any():
            theirs = near[near_positions].astype(np.float32)
            self.arrays["near_norm"] = np.sqrt(np.einsum("kf,kf->k", theirs, theirs, dtype=np.float64))
        if is_sparse:
            inner = np.flatnonzero(cells["n_items"])
            _interleave(ours, cells["item"][inner], cells["n_items"][inner])
            if theirs is not None:
                inner = inner[cells["n_cells"][inner] > 0]
                starts = cells["near"][items["cell"][cells["item"][inner]]]
                _interleave(theirs, starts, cells["n_cells"][inner])
        self.arrays |= {"rows": ours, "near_rows": theirs, "reaches": _reaches(cells, items)}
        self._aim()

    cdef void _aim(self) except *:
        cdef const float[:, ::1] rows = self.arrays["rows"], near_rows
        cdef const int32_t[::1] cluster = self.arrays["cluster"], position = self.arrays["position"]
        cdef const double[::1] log_pi = self.arrays["log_pi"], g = self.arrays["g"], bias = self.arrays["bias"]
        cdef const double[::1] theta_norm = self.arrays["theta_norm"], near_norm
        cdef const double[:, ::1] Theta = self.arrays["Theta"]
        cdef const double[::1] reaches = self.arrays["reaches"]
        cdef const double[::1] center = self.center, shift = self.shift, inverse = self.arrays["inverse"]
        self.tree.center, self.tree.shift, self.tree.inverse = &center[0], &shift[0], &inverse[0]
        self.tree.rows, self.tree.cluster, self.tree.position = &rows[0, 0], &cluster[0], &position[0]
        self.tree.log_pi, self.tree.g, self.tree.bias, self.tree.Theta = &log_pi[0], &g[0], &bias[0], &Theta[0, 0]
        self.tree.reaches = &reaches[0]
        self.tree.theta_norm, self.tree.near_rows, self.tree.near_norm = &theta_norm[0], NULL, NULL
        if self.arrays["near_rows"] is not None:
            near_rows, near_norm = self.arrays["near_rows"], self.arrays["near_norm"]
            self.tree.near_rows, self.tree.near_norm = &near_rows[0, 0], &near_norm[0]


def _reaches(cells, items):
    """Return the bounding numbers of the items of each cell as `expfam_rises` reads them.

    Each field is a row of the columns of a cell. This also sets the fields `reach` of cells and `what` of items.
    """
    items["what"] = np.where(items["cell"] >= 0, items["cell"], -1 - items["position"])
    inner = np.flatnonzero(cells["n_items"])
    width = -(-cells["n_items"][inner] // EXPFAM_REACHES) * EXPFAM_REACHES
    cells["reach"][inner] = np.cumsum(width) - width
    n_items = cells["n_items"][inner]
    cell = np.repeat(np.arange(len(inner)), n_items)
    place = np.arange(len(cell)) - np.repeat(np.cumsum(n_items) - n_items, n_items)
    here = items[cells["item"][inner][cell] + place]
    members = here["members"]
    fields = [members[name] for name in ("low", "high", "reciprocal", "curvature", "least", "excess")]
    fields[0] = np.where(members["curvature"] > 0.0, fields[0], fields[1])      # no maximum: the farther end
    out = np.zeros(REACH_ROWS * int(width.sum()) + 1)
    first = REACH_ROWS * cells["reach"][inner][cell].astype(np.intp) + place
    for row, values in enumerate([*fields, here["log_beta"]]):
        out[first + row * width[cell]] = values
    return out


def _scale(theta, spread):
    """Return the scale of each coordinate that equalises the spread, and the scaled spread.

    The Hessian of g is the covariance of phi. In units of the spread of the data, g is about equally convex in all
    directions. The bounds use only the least convex direction, so they are then as tight as possible.
    """
    if spread is None:
        return np.ones(theta.shape[1]), None
    spread = np.asarray(spread, dtype=np.float64)
    theta = np.sqrt(np.mean(theta * theta, axis=0))
    scale = np.where(spread > 0.0, spread, 1.0 / np.where(theta > 0.0, theta, 1.0))     # phi is constant: any will do
    return scale, spread / scale


def _few_columns(rows):
    """Return the vectors whose distances define the cells.

    They are the rows, or their products with random signs. Every division into cells is valid, because the bounds are
    computed from the rows themselves.
    """
    F = rows.shape[1]
    if F <= _MOST_COLUMNS:
        return rows
    signs = generator(0, "tables").integers(0, 2, size=(F, _PROJECTED), dtype=np.int8)
    with single_blas():                     # the last bits of a product can depend on the number of threads
        return rows @ (signs.astype(np.float32) * 2.0 - 1.0).astype(np.float32) * np.float32(_PROJECTED**-0.5)


def _near(means, theta, weight, spread, cells):
    """Return the vectors a in the coordinates of the tree and the slope 0.

    If a line through the vectors is good enough, return None and the slope of the line.
    """
    if means is None:
        return None, 0.0
    near = ((means - cells.center) / cells.scale).astype(np.float32)
    if not (np.abs(near) < _MOST).all():
        raise ExpFamError("means are not finite or too large for a tree of clusters")
    if spread is None:
        return near, 0.0
    square = np.einsum("k,kf,kf->", weight, theta, theta)
    slope = float(np.einsum("k,kf,kf->", weight, theta, near) / square) if square > 0.0 else 0.0
    gap = np.einsum("k,kf->", weight, (near - slope * theta) ** 2)
    if slope > 0.0 and gap <= _NEAR_ENOUGH * np.sum(spread**2):
        return None, slope
    return near, 0.0


def _interleave(rows, starts, counts):
    """Transpose each block of rows in place, so that the numbers of a column are contiguous."""
    width = rows.shape[1]
    flat = rows.reshape(-1)
    for start, count in zip(starts, counts):
        flat[start * width : (start + count) * width] = rows[start : start + count].T.ravel()
