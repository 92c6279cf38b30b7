"""Cover trees of vectors.

A cover tree finds nearest neighbours, ranges, nested prototypes and frontiers, and it allows inserts and removals.

A cell is a centre with the data below it; it stores the true radius of these data. The first child of a cell has the
same centre. The centres of the children are more than base**level apart, and the children cover the members of the
cell. Levels that would not split are skipped. Small, identical or unsplittable sets of data stay together in a leaf.
Searches are exact and use only stored distances and radii. Building computes O(c N log(spread)) distances, where c is
the expansion constant of the data; for data without one the number is limited. A query reads the cells that may contain
an answer, best first. Where they save few distances to the first queries, the others read all data in one pass, which
compares up to 64 columns by products with 32 queries.
"""


import numpy as np

from cython cimport final
from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from expfam.amounts import counted
from expfam.structures.cover_tree.build cimport (
    SPLIT_MEMORY, SPLIT_REFUSED, UNSPLITTABLE, cell_list, centre_list, cover_cell, free_centres, level_at, split,
    split_space,
)
from expfam.structures.cover_tree.boxes cimport PackedBoxes
from expfam.structures.cover_tree.neighbours cimport neighbour, offer, sort_found
from expfam.structures.cover_tree.tile_products cimport TileProducts
from expfam.structures.simd.distance cimport expfam_square_distance
from expfam.structures.simd.near_rows cimport EXPFAM_NEAR_POINTS
from expfam.structures.simd.prefetch cimport EXPFAM_PREFETCH

from expfam.structures.cover_tree.build import CELL as _CELL, build, centred, column_bounds
from expfam.structures.cover_tree.check import check_cover_tree
from expfam.structures.ground.threads import run, segments
from expfam.user_warnings import warn

cdef enum:
    QUERIES = 64                # queries in a task
    TRIALS = 4                  # first queries of a task, which tell whether cells save time

    MOST_COLUMNS = 64           # for boxes: with more, a row read is as dear as many cells
    FEW_ROWS = 1024             # boxes of fewer save little
    FEW_QUERIES = 64            # one of so many data as a query: fewer are done before boxes are made

cdef double SCAN_SHARE = 0.25   # of the data: who reads more by cells is slower than a pass in the order of memory
cdef double TILE_SHARE = 0.08   # of the tiles, with their boxes: who reads more is slower than products of all of them

cdef extern from "<math.h>" nogil:
    double c_pow "pow"(double x, double y)


class CoverTreeWarning(UserWarning):
    """Many data are in cells that could not be split; searches there read all data."""


cdef inline void _push(visit *visits, Py_ssize_t size, visit new) noexcept nogil:
    cdef Py_ssize_t at = size
    while at > 0 and visits[(at - 1) // 2].bound > new.bound:
        visits[at] = visits[(at - 1) // 2]
        at = (at - 1) // 2
    visits[at] = new


cdef inline visit _pop(visit *visits, Py_ssize_t size) noexcept nogil:
    cdef visit top = visits[0]
    cdef visit last = visits[size - 1]
    cdef Py_ssize_t at = 0, child
    while True:
        child = 2 * at + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and visits[child + 1].bound < visits[child].bound:
            child += 1
        if visits[child].bound >= last.bound:
            break
        visits[at] = visits[child]
        at = child
    visits[at] = last
    return top


@final
cdef class CoverTree:
    """Cover tree of the rows of a matrix under the Euclidean distance.

    Parameters
    ----------
    X : (N, F) array_like
        Dense and finite. Rows are centred in double precision and then stored in float32, so distances have a relative
        error of about 1e-7 and an absolute error of 1e-7 of the ranges of the columns.
    base : float
        Ratio of the separations of consecutive levels, above 1. With 1.3 building is faster, with 2 searches are
        somewhat faster.
    leaf : int
        A cell with at most this number of data is not split; after inserts, with at most twice this number.
    max_children : int
        Largest number of children of a cell of more than 4096 data; four times this number if each child would have 64
        data or more. A cell that would need more stays whole, with a `CoverTreeWarning`: at the scale of noise all
        pairs have about the same distance, and a tree of them is expensive and useless.
    n_threads : int or None
        Threads for building and for queries; -1 for all cores. Results are bitwise the same for any number.

    Attributes
    ----------
    center : (F,) float64 ndarray
        Vector that is subtracted from each row: the middle of the range of each column, rounded to a multiple of a
        power of 2.
    n_alive, n_cells, n_features : int
        Number of data, of cells, and of columns.
    is_compact : bool
        Whether the data of every cell are contiguous; true until the first insert or removal.
    radius_is_bound : bool
        Whether stored radii are only upper bounds; true after removals.

    Raises
    ------
    ValueError
        X is empty, not two-dimensional or not finite, a column has a range above 1e18, or all ranges are below 1e-15;
        or base <= 1, leaf < 1 or max_children < 8.

    Notes
    -----
    The tree follows Beygelzimer, Kakade and Langford (2006) with these differences: separation holds only among the
    children of one cell; a cell has an explicit child with the same centre; radii are the true ones; and members belong
    to the nearest centre, as in Izbicki and Shelton (2015). Centres are chosen farthest first inside each cell, in
    cells of more than 4096 data farthest first in a sample. Memory: one copy of the rows in float32, for each datum
    about 24 bytes during building and 8 afterwards, and 44 bytes for each cell. Many queries in up to 64 columns add a
    second copy of the rows, in boxes of sixteen, until the data change.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures import CoverTree
    >>> tree = CoverTree([[0.0, 0.0], [1.0, 0.0], [8.0, 8.0]], leaf=1)
    >>> distance, index = tree.knn([[0.2, 0.0]], 2)
    >>> index
    array([[0, 1]])
    >>> tree.range([[8.0, 8.0]], 0.5)
    (array([0, 1]), array([2]))
    """

    def __init__(self, X, *, base=1.3, leaf=16, max_children=512, n_threads=None):
        if not 1.0 < base < INFINITY:
            raise ValueError(f"base must be a finite number above 1; got {base!r}")
        if leaf < 1 or leaf != int(leaf):
            raise ValueError(f"leaf must be a positive integer; got {leaf!r}")
        if max_children < 8 or max_children != int(max_children):
            raise ValueError(f"max_children must be an integer of at least 8; got {max_children!r}")
        self.base, self.leaf, self.max_children, self.n_threads = base, leaf, max_children, n_threads
        X = _matrix(X)
        if len(X) == 0 or X.shape[1] == 0:
            raise ValueError(f"X has shape {X.shape}; a tree needs at least one row and one column")
        if len(X) > 2**31 - 1:
            raise ValueError(f"X has {counted(len(X), 'row')}; a tree holds at most 2**31 - 1")
        self._set_width(X.shape[1])
        bounds = run(column_bounds, [(X, lo, hi) for lo, hi in segments(len(X))], n_threads)
        self.center = _center(np.array(bounds))
        self._build(self._centred(X), np.arange(len(X), dtype=np.int32))
        self._next_id = len(X)

    # ---- storage -----------------------------------------------------------------------------------------------------

    def _set_width(self, n_features):
        """Store the number of columns and the numbers that depend on it."""
        self.n_features = self.F = n_features
        # a sum of m squares has (m + 2) roundings in any order; twice that for the root of two of them
        self.slack = (min(n_features, 4096) + 16) * 2.0**-24

    def _centred(self, X):
        """Return rows in the coordinates of the tree."""
        out = np.empty(X.shape, dtype=np.float32)
        run(centred, [(X, self.center, out, lo, hi) for lo, hi in segments(len(X))], self.n_threads)
        return out

    def _queries(self, Q):
        """Check queries and return them in the coordinates of the tree."""
        Q = _matrix(Q)
        if Q.shape[1] != self.n_features:
            raise ValueError(f"rows have {counted(Q.shape[1], 'column')}; the tree was built from {self.n_features}")
        Q = self._centred(Q)
        if not np.all(np.abs(Q) <= 1e18):  # also false for a NaN
            bad = np.flatnonzero(~np.all(np.abs(Q) <= 1e18, axis=1))[0]
            raise ValueError(f"row {bad} is not finite or more than 1e18 from the tree's centre; rescale the data")
        return Q

    def _build(self, rows, ids):
        """Build the tree over centred rows; the rows are sorted in place and stored."""
        cells, order, dist = build(
            rows, base=self.base, leaf=self.leaf, max_children=self.max_children, slack=self.slack,
            n_threads=self.n_threads,
        )
        _permute(rows, order)
        self._cells, self._points, self._ids, self._dist = cells, rows, ids[order], dist
        self.n_cells, self._n_positions, self.n_alive = len(cells), len(rows), len(rows)
        self._n_waste, self.is_compact, self.radius_is_bound = 0, True, False
        self._where = self._home = self._boxes = self._products = None
        self._aim()
        whole = cells["size"][(cells["flags"] & UNSPLITTABLE) != 0].sum()
        if whole:
            points = counted(len(rows), "point")
            warn(
                f"{counted(whole, f'of {points} lies', f'of {points} lie')} in cells that would need more than "
                f"{counted(self.max_children, 'child', 'children')} and were left whole: searches there look at every "
                "point. The data have no structure at that scale; reduce their dimension, or raise max_children if "
                "the tree is wanted nevertheless",
                CoverTreeWarning,
            )

    def _aim(self):
        """Point the C pointers to the arrays, which may have moved."""
        cdef char[::1] cells = self._cells.view(np.int8)
        cdef const float[:, ::1] points = self._points
        cdef const int32_t[::1] ids = self._ids
        cdef const float[::1] dist = self._dist
        self.cells, self.points, self.ids, self.dist = <cover_cell *> &cells[0], &points[0, 0], &ids[0], &dist[0]

    def __len__(self):
        return self.n_alive

    def __repr__(self):
        return (f"<CoverTree of {counted(self.n_alive, 'point')} in {counted(self.n_features, 'dimension')}: "
                f"{counted(self.n_cells, 'cell')}, base {self.base}, leaf {self.leaf}>")

    # ---- queries -----------------------------------------------------------------------------------------------------

    cdef Py_ssize_t nearest(self, const float *q, Py_ssize_t k, neighbour *found, visit *visits,
                            Py_ssize_t *n_read) noexcept nogil:
        cdef Py_ssize_t size = 0, waiting = 1, read = 1, p, c, F = self.F
        cdef double worst = INFINITY, d, apart, square
        cdef visit now, new
        cdef const cover_cell *cell
        now.cell, now.bound = 0, 0.0
        now.square = expfam_square_distance(q, self.points + self.cells[0].lo * F, F)
        if self.ids[self.cells[0].lo] >= 0:
            size = offer(found, size, k, neighbour(now.square, self.ids[self.cells[0].lo]))
            worst = sqrt(found[0].square) if size == k else INFINITY
        visits[0] = now
        while waiting:
            now = _pop(visits, waiting)
            waiting -= 1
            if now.bound > worst:
                break
            cell = &self.cells[now.cell]
            d = sqrt(now.square)
            if cell.child < 0:
                for p in range(cell.lo + 1, cell.lo + cell.size):  # the centre was offered at its first cell
                    if fabs(d - self.dist[p]) - self.slack * (d + self.dist[p]) > worst:
                        continue
                    read += 1
                    square = expfam_square_distance(q, self.points + p * F, F)
                    if size < k or square <= found[0].square:
                        size = offer(found, size, k, neighbour(square, self.ids[p]))
                        worst = sqrt(found[0].square) if size == k else INFINITY
                continue
            c = cell.child
            while c >= 0:
                cell = &self.cells[c]
                new.cell = <int32_t> c
                c = cell.next
                if cell.lo == self.cells[now.cell].lo:
                    new.square = now.square
                    apart = d
                else:
                    apart = fabs(d - cell.pdist) - cell.radius - self.slack * (d + cell.pdist + cell.radius)
                    if apart > worst:
                        continue
                    read += 1
                    new.square = expfam_square_distance(q, self.points + cell.lo * F, F)
                    if self.ids[cell.lo] >= 0 and (size < k or new.square <= found[0].square):
                        size = offer(found, size, k, neighbour(new.square, self.ids[cell.lo]))
                        worst = sqrt(found[0].square) if size == k else INFINITY
                    apart = sqrt(new.square)
                new.bound = apart - cell.radius - self.slack * (apart + cell.radius)
                if new.bound <= worst and cell.size > 1:
                    _push(visits, waiting, new)
                    waiting += 1
        sort_found(found, size)
        n_read[0] += read
        return size

    cdef Py_ssize_t nearest_of_all(self, const float *q, Py_ssize_t k, neighbour *found) noexcept nogil:
        """Do what `nearest` does, to the same bits, by reading all data as they lie in memory."""
        cdef Py_ssize_t p, size = 0, F = self.F
        cdef double square
        for p in range(self._n_positions):
            if self.ids[p] >= 0:
                square = expfam_square_distance(q, self.points + p * F, F)
                if size < k or square <= found[0].square:
                    size = offer(found, size, k, neighbour(square, self.ids[p]))
        sort_found(found, size)
        return size

    cdef Py_ssize_t next_below(self, Py_ssize_t c, Py_ssize_t top) noexcept nogil:
        """Return the cell after c in depth-first order below `top`, or -1."""
        if self.cells[c].child >= 0:
            return self.cells[c].child
        while c != top and self.cells[c].next < 0:
            c = self.cells[c].parent
        return -1 if c == top else self.cells[c].next

    cdef Py_ssize_t inside(self, const float *q, double r, visit *visits, int32_t **out, Py_ssize_t *cap,
                           Py_ssize_t size) noexcept nogil:
        """Append the data within r of q to a growing buffer.

        Returns the new size, or -1 without memory.
        """
        cdef Py_ssize_t waiting = 1, p, c, F = self.F
        cdef double d, square
        cdef bint whole
        cdef int32_t *grown
        cdef visit now, new
        cdef const cover_cell *cell
        now.cell, now.bound = 0, 0.0
        now.square = expfam_square_distance(q, self.points + self.cells[0].lo * F, F)
        visits[0] = now
        while waiting:
            waiting -= 1
            now = visits[waiting]
            cell = &self.cells[now.cell]
            d = sqrt(now.square)
            # bound < 0 marks cells below a cell that is completely inside
            whole = now.bound < 0.0 or d + cell.radius + self.slack * (d + cell.radius) <= r
            if not whole and d - cell.radius - self.slack * (d + cell.radius) > r:
                continue
            if cell.child >= 0:
                c = cell.child
                while c >= 0:
                    new.cell = <int32_t> c
                    new.square = now.square
                    new.bound = -1.0 if whole else 0.0
                    if not whole and self.cells[c].lo != cell.lo:
                        new.square = expfam_square_distance(q, self.points + self.cells[c].lo * F, F)
                    visits[waiting] = new
                    waiting += 1
                    c = self.cells[c].next
                continue
            if size + cell.size > cap[0]:
                grown = <int32_t *> realloc(out[0], 2 * (size + cell.size) * sizeof(int32_t))
                if grown == NULL:
                    return -1
                out[0] = grown
                cap[0] = 2 * (size + cell.size)
            for p in range(cell.lo, cell.lo + cell.size):
                if self.ids[p] < 0:
                    continue
                if not whole:
                    if fabs(d - self.dist[p]) - self.slack * (d + self.dist[p]) > r:
                        continue
                    square = now.square if p == cell.lo else expfam_square_distance(q, self.points + p * F, F)
                    if sqrt(square) > r:
                        continue
                out[0][size] = self.ids[p]
                size += 1
        return size

    cdef Py_ssize_t descend_to(self, const float *q, int32_t *path, Py_ssize_t room) noexcept nogil:
        cdef Py_ssize_t c, best, at = 0, depth = 0, F = self.F
        cdef double d, least, here = expfam_square_distance(q, self.points + self.cells[0].lo * F, F)
        while True:
            if path != NULL and depth < room:
                path[depth] = <int32_t> at
            depth += 1
            if self.cells[at].child < 0:
                return depth
            best = c = self.cells[at].child
            least = here
            c = self.cells[c].next
            while c >= 0:
                d = fabs(sqrt(here) - self.cells[c].pdist)
                if d * (1.0 - 4.0 * self.slack) <= sqrt(least):
                    d = expfam_square_distance(q, self.points + self.cells[c].lo * F, F)
                    if d < least:
                        least = d
                        best = c
                c = self.cells[c].next
            at, here = best, least

    def _knn_block(self, const float[:, ::1] Q, Py_ssize_t k, double[:, ::1] distance, Py_ssize_t[:, ::1] index,
                   Py_ssize_t lo, Py_ssize_t hi):
        """Write the answers of the queries lo..hi.

        Where cells save few distances to the first queries, as with noise in many columns, the others read all data.
        """
        cdef Py_ssize_t i, j, size, n_read = 0
        cdef bint saves = True
        cdef neighbour *found = <neighbour *> malloc(k * sizeof(neighbour))
        cdef visit *visits = <visit *> malloc(self.n_cells * sizeof(visit))
        if found == NULL or visits == NULL:
            free(found)
            free(visits)
            raise MemoryError("no memory for the search of a cover tree")
        with nogil:
            for i in range(lo, hi):
                if i == lo + TRIALS:
                    saves = n_read < TRIALS * SCAN_SHARE * self._n_positions
                if saves:
                    size = self.nearest(&Q[i, 0], k, found, visits, &n_read)
                else:
                    size = self.nearest_of_all(&Q[i, 0], k, found)
                for j in range(size):
                    distance[i, j] = sqrt(found[j].square)
                    index[i, j] = found[j].id
        free(found)
        free(visits)

    def _knn_by_boxes(self, const float[:, ::1] Q, Py_ssize_t k, double[:, ::1] distance, Py_ssize_t[:, ::1] index,
                      Py_ssize_t lo, Py_ssize_t hi):
        """Write the answers of the queries lo..hi.

        Where boxes leave out few rows of the first queries, the others are compared with all rows by products.
        """
        cdef PackedBoxes boxes = self._boxes
        cdef TileProducts products = self._products
        cdef Py_ssize_t i = lo, j, r, n = 1, n_read = 0
        cdef Py_ssize_t sizes[EXPFAM_NEAR_POINTS]
        cdef Py_ssize_t most = EXPFAM_NEAR_POINTS if k * EXPFAM_NEAR_POINTS <= self._n_positions else 1
        cdef neighbour *found = <neighbour *> malloc(most * k * sizeof(neighbour))
        cdef bint has_memory = found != NULL
        with nogil:
            while i < hi and has_memory:
                if i == lo + TRIALS and n_read >= TRIALS * TILE_SHARE * products.n_tiles:
                    n = most
                n = min(n, hi - i)
                if n == 1:
                    sizes[0] = boxes.nearest(&Q[i, 0], k, found, &n_read)
                elif products.nearest(&Q[i, 0], n, k, found, sizes):
                    has_memory = False
                    break
                for r in range(n):
                    for j in range(sizes[r]):
                        distance[i + r, j] = sqrt(found[r * k + j].square)
                        index[i + r, j] = found[r * k + j].id
                i += n
        free(found)
        if not has_memory:
            raise MemoryError("no memory for the search of a cover tree")

    def _range_block(self, const float[:, ::1] Q, double r, Py_ssize_t lo, Py_ssize_t hi):
        """Return the number of answers of each query lo..hi, and the answers."""
        cdef Py_ssize_t i, size = 0, cap = 0
        cdef int32_t *out = NULL
        cdef visit *visits = <visit *> malloc(self.n_cells * sizeof(visit))
        cdef int32_t[::1] view
        counts = np.empty(hi - lo, dtype=np.intp)
        cdef Py_ssize_t[::1] count = counts
        if visits == NULL:
            raise MemoryError("no memory for the search of a cover tree")
        with nogil:
            for i in range(lo, hi):
                count[i - lo] = size
                size = self.inside(&Q[i, 0], r, visits, &out, &cap, size)
                if size < 0:
                    break
                count[i - lo] = size - count[i - lo]
        free(visits)
        ids = np.empty(max(size, 0), dtype=np.int32)
        if size > 0:
            view = ids
            memcpy(&view[0], out, size * sizeof(int32_t))
        free(out)
        if size < 0:
            raise MemoryError("no memory for the answers of a range query")
        return counts, ids

    def knn(self, Q, k):
        """Find the k nearest data of each query, exactly.

        Parameters
        ----------
        Q : (M, F) array_like
        k : int
            At least 1. If the tree has fewer data, all are returned.

        Returns
        -------
        distance : (M, min(k, n_alive)) float64 ndarray
        index : (M, min(k, n_alive)) intp ndarray
            Sorted by distance, and equal distances by the number of the datum.

        Raises
        ------
        ValueError
            k < 1, or Q has another number of columns or values that are not finite.
        """
        if k < 1 or k != int(k):
            raise ValueError(f"k must be a positive integer; got {k!r}")
        Q = self._queries(Q)
        k = min(int(k), self.n_alive)
        distance, index = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.intp)
        if k:
            self._make_boxes(Q, k)
            tasks = [(Q, k, distance, index, lo, min(lo + QUERIES, len(Q))) for lo in range(0, len(Q), QUERIES)]
            run(self._knn_block if self._boxes is None else self._knn_by_boxes, tasks, self.n_threads)
        return distance, index

    def _make_boxes(self, Q, k):
        """Make boxes of the rows, until the data change, for many queries in few columns.

        Fewer queries have them where cells save few distances.
        """
        if not self.is_compact:
            self._boxes = self._products = None
        if not self.is_compact or self._boxes is not None or self.F > MOST_COLUMNS or self._n_positions < FEW_ROWS:
            return
        if FEW_QUERIES * len(Q) >= self._n_positions or (len(Q) >= QUERIES and not self._cells_save(Q[:TRIALS], k)):
            boxes = PackedBoxes(self._points, self._ids, self.slack)
            # boxes last: other threads that search the same tree take both as soon as there are boxes
            self._products = TileProducts(boxes)
            self._boxes = boxes

    def _cells_save(self, const float[:, ::1] Q, Py_ssize_t k):
        """Tell whether cells leave out so many rows that a pass over all rows takes longer."""
        cdef Py_ssize_t i, n_read = 0
        cdef neighbour *found = <neighbour *> malloc(k * sizeof(neighbour))
        cdef visit *visits = <visit *> malloc(self.n_cells * sizeof(visit))
        cdef bint has_memory = found != NULL and visits != NULL
        if has_memory:
            with nogil:
                for i in range(Q.shape[0]):
                    self.nearest(&Q[i, 0], k, found, visits, &n_read)
        free(found)
        free(visits)
        if not has_memory:
            raise MemoryError("no memory for the search of a cover tree")
        return n_read < Q.shape[0] * SCAN_SHARE * self._n_positions

    def range(self, Q, r):
        """Find the data within distance r of each query, including distance r itself.

        Parameters
        ----------
        Q : (M, F) array_like
        r : float
            Non-negative.

        Returns
        -------
        indptr : (M + 1,) intp ndarray
        index : (indptr[-1],) intp ndarray
            ``index[indptr[i]:indptr[i + 1]]``, ascending, belong to query i.

        Raises
        ------
        ValueError
            r is negative or NaN, or Q has another number of columns or values that are not finite.
        """
        if not r >= 0.0:
            raise ValueError(f"r must be a non-negative distance; got {r!r}")
        Q = self._queries(Q)
        tasks = [(Q, float(r), lo, min(lo + QUERIES, len(Q))) for lo in range(0, len(Q), QUERIES)]
        parts = run(self._range_block, tasks, self.n_threads)
        counts = np.concatenate([part[0] for part in parts] + [np.zeros(0, dtype=np.intp)])
        index = np.concatenate([part[1] for part in parts] + [np.zeros(0, dtype=np.int32)]).astype(np.intp)
        order = np.lexsort((index, np.repeat(np.arange(len(Q)), counts)))
        return np.concatenate([[0], np.cumsum(counts)]), index[order]

    def descend(self, x):
        """Descend from the root to a leaf, always to the child with the nearest centre.

        Parameters
        ----------
        x : (F,) array_like

        Returns
        -------
        (depth,) intp ndarray
            Cells on the way, the root first.
        """
        cdef const float[:, ::1] q = self._queries(np.atleast_2d(x))
        cdef Py_ssize_t depth = self.descend_to(&q[0, 0], NULL, 0)
        path = np.empty(depth, dtype=np.int32)
        cdef int32_t[::1] view = path
        self.descend_to(&q[0, 0], &view[0], depth)
        return path.astype(np.intp)

    # ---- levels and frontiers ----------------------------------------------------------------------------------------

    @property
    def cells(self):
        """Return a copy of the cells: (n_cells,) structured array."""
        return self._cells[: self.n_cells].copy()

    @property
    def levels(self):
        """Return the levels that occur, from the root's level down: (L,) ndarray."""
        return np.unique(self._cells["level"][: self.n_cells])[::-1].astype(np.intp)

    def cells_at(self, level):
        """Return the cells of one level of the tree.

        Each datum is in exactly one of them. Their centres are the prototypes of the level.

        Parameters
        ----------
        level : int

        Returns
        -------
        (m,) intp ndarray
            Cells at this level, and higher cells whose children all lie below it. Above the root it is the root alone.
        """
        cells = self._cells[: self.n_cells]
        child = cells["child"]
        ends = (child < 0) | (cells["level"][child] < level)
        is_root = cells["parent"] < 0
        return np.flatnonzero(ends & ((cells["level"] >= level) | is_root))

    def prototypes(self, level):
        """Return the data that are centres at a level, without removed ones: (m,) intp ndarray.

        Within a cell they are more than base**level apart, and all data are within base**(level + 1) of one.
        """
        ids = self._ids[self._cells["lo"][self.cells_at(level)]]
        return ids[ids >= 0].astype(np.intp)

    def frontier(self, max_size):
        """Return the largest cells with at most `max_size` data.

        A leaf with more data is included as it is.

        Parameters
        ----------
        max_size : int

        Returns
        -------
        (m,) intp ndarray
            Cells in tree order. Every datum is in exactly one of them.
        """
        if max_size < 1:
            raise ValueError(f"max_size must be at least 1; got {max_size!r}")
        cells = self._cells[: self.n_cells]
        small = (cells["size"] <= max_size) | (cells["child"] < 0)
        found = np.flatnonzero(small & ((cells["parent"] < 0) | ~small[cells["parent"]]))
        return found[np.argsort(cells["lo"][found], kind="stable")]

    def members(self, cell):
        """Return the data below a cell in tree order: (alive,) intp ndarray."""
        cdef Py_ssize_t c = cell
        if not 0 <= c < self.n_cells:
            raise IndexError(f"cell {cell} does not exist: the tree has {self.n_cells}")
        parts = []
        while c >= 0:
            if self.cells[c].child < 0:
                parts.append(self._ids[self.cells[c].lo : self.cells[c].lo + self.cells[c].size])
            c = self.next_below(c, cell)
        ids = np.concatenate(parts)
        return ids[ids >= 0].astype(np.intp)

    def assign(self, cells):
        """Find which of some cells contains each datum.

        Parameters
        ----------
        cells : (m,) array_like of int
            Disjoint cells, for example those of `frontier` or `cells_at`.

        Returns
        -------
        (n_ids,) intp ndarray
            Position in `cells`. It is -1 for removed data and for data in none of the cells.
        """
        cdef const Py_ssize_t[::1] tops = np.ascontiguousarray(cells, dtype=np.intp)
        cdef Py_ssize_t t, c, p
        group = np.full(self._next_id, -1, dtype=np.intp)
        cdef Py_ssize_t[::1] out = group
        if len(tops) and not (0 <= np.min(tops) and np.max(tops) < self.n_cells):
            raise IndexError(f"cells must lie in 0..{self.n_cells - 1}")
        with nogil:
            for t in range(tops.shape[0]):
                c = tops[t]
                while c >= 0:
                    if self.cells[c].child < 0:
                        for p in range(self.cells[c].lo, self.cells[c].lo + self.cells[c].size):
                            if self.ids[p] >= 0:
                                out[self.ids[p]] = t
                    c = self.next_below(c, tops[t])
        return group

    def vectors(self, data):
        """Return the stored rows of some data in the coordinates of X: (m, F) float64."""
        self._index()
        data = np.asarray(data, dtype=np.intp)
        where = self._where[data]
        if np.any((data < 0) | (where < 0)):
            raise KeyError(f"datum {data[(data < 0) | (where < 0)][0]} is not in the tree")
        return self._points[where].astype(np.float64) + self.center

    # ---- inserts and removals ----------------------------------------------------------------------------------------

    def _index(self):
        """Return the position and leaf of each datum; computed on first use."""
        if self._where is not None:
            return
        cells, ids = self._cells[: self.n_cells], self._ids[: self._n_positions]
        self._where = np.full(self._next_id, -1, dtype=np.int32)
        held = np.flatnonzero(ids >= 0)
        self._where[ids[held]] = held
        self._home = np.full(self._next_id, -1, dtype=np.int32)
        leaves = np.flatnonzero(cells["child"] < 0)
        self._home[:] = np.where(self._where >= 0, leaves[self.assign(leaves)], -1)

    def insert(self, X):
        """Add rows; each row descends through the nearest centres that cover it.

        Parameters
        ----------
        X : (M, F) array_like

        Returns
        -------
        (M,) intp ndarray
            Numbers of the new data; they continue all earlier numbers.

        Raises
        ------
        ValueError
            X has another number of columns, or values that are not finite or more than 1e18 away.

        Notes
        -----
        A row needs O(children on the way) distances. When inserts, removed centres and unused positions exceed a
        quarter of the data, the tree is built again. The numbers of the data do not change.
        """
        cdef Py_ssize_t i
        rows = self._queries(X)
        first = self._next_id
        if first + len(rows) > 2**31 - 1:
            raise ValueError("a tree numbers at most 2**31 - 1 data")
        ids = np.arange(first, first + len(rows), dtype=np.int32)
        self._index()
        self._next_id += len(rows)
        if len(rows) and 4 * len(rows) > self.n_alive:
            held = self._ids[: self._n_positions]
            alive = held >= 0
            self._build(np.concatenate([self._points[: self._n_positions][alive], rows]),
                        np.concatenate([held[alive], ids]))
            return ids.astype(np.intp)
        self._where = np.concatenate([self._where, np.full(len(rows), -1, dtype=np.int32)])
        self._home = np.concatenate([self._home, np.full(len(rows), -1, dtype=np.int32)])
        cdef const float[:, ::1] view = rows
        for i in range(len(rows)):
            self._insert(&view[i, 0], ids[i])
            self._n_waste += 1
        self._tidy()
        return ids.astype(np.intp)

    def remove(self, data):
        """Remove data.

        The vector of a removed centre stays in the tree, without a datum, until the tree is built again.

        Parameters
        ----------
        data : int or (M,) array_like of int

        Raises
        ------
        KeyError
            A number is not in the tree or occurs twice. Nothing is removed then.
        """
        data = np.atleast_1d(np.asarray(data, dtype=np.intp))
        self._index()
        known = (data >= 0) & (data < self._next_id)
        known[known] = self._where[data[known]] >= 0
        if not np.all(known):
            raise KeyError(f"datum {data[~known][0]} is not in the tree; nothing was removed")
        if len(np.unique(data)) < len(data):
            raise KeyError("a datum is named twice; nothing was removed")
        for datum in data:
            self._remove(datum)
        self._tidy()

    def _tidy(self):
        """Build the tree again if waste exceeds a quarter of the data."""
        if self.n_alive and 4 * self._n_waste > self.n_alive:
            held = self._ids[: self._n_positions]
            alive = np.flatnonzero(held >= 0)
            alive = alive[np.argsort(held[alive])]
            self._build(self._points[alive], held[alive])

    cdef Py_ssize_t _new_positions(self, Py_ssize_t count) except -1:
        """Return the first of `count` free positions at the end."""
        cdef Py_ssize_t first = self._n_positions, cap = len(self._ids)
        if first + count > 2**31 - 1:
            raise ValueError("a tree has at most 2**31 - 1 places")
        if first + count > cap:
            cap = 2 * (first + count)
            points, dist = np.zeros((cap, self.F), np.float32), np.zeros(cap, np.float32)
            ids = np.full(cap, -1, np.int32)
            points[:first], ids[:first], dist[:first] = self._points[:first], self._ids[:first], self._dist[:first]
            self._points, self._ids, self._dist = points, ids, dist
            self._aim()
        self._ids[first : first + count] = -1
        self._n_positions += count
        return first

    cdef Py_ssize_t _new_cell(self, cover_cell cell) except -1:
        """Append a cell to the array, which may move; return its number."""
        if self.n_cells == len(self._cells):
            grown = np.zeros(2 * self.n_cells + 8, dtype=_CELL)
            grown[: self.n_cells] = self._cells
            self._cells = grown
            self._aim()
        self.cells[self.n_cells] = cell
        self.n_cells += 1
        return self.n_cells - 1

    cdef Py_ssize_t _store(self, const float *x, Py_ssize_t datum, double d, Py_ssize_t position) except -1:
        """Write a datum to a position."""
        memcpy(<float *> self.points + position * self.F, x, self.F * sizeof(float))
        (<int32_t *> self.ids)[position] = <int32_t> datum
        (<float *> self.dist)[position] = <float> d
        if datum >= 0:
            self._where[datum] = position
        return position

    cdef int _relocate(self, Py_ssize_t c, Py_ssize_t cap) except -1:
        """Move a leaf to a larger block at the end, and all cells with the same centre."""
        cdef Py_ssize_t p, old = self.cells[c].lo, new = self._new_positions(cap)
        for p in range(self.cells[c].size):
            self._store(self.points + (old + p) * self.F, self.ids[old + p], self.dist[old + p], new + p)
            (<int32_t *> self.ids)[old + p] = -1
        self._n_waste += self.cells[c].cap // 4
        self.cells[c].cap = <int32_t> cap
        while True:
            self.cells[c].lo = <int32_t> new
            if self.cells[c].parent < 0 or self.cells[self.cells[c].parent].lo != old:
                return 0
            c = self.cells[c].parent

    cdef int _lift(self, Py_ssize_t c, int32_t level, float radius) except -1:
        """Put a cell between c and its children, so that c may have children at a higher level."""
        cdef cover_cell inner = self.cells[c]
        inner.parent, inner.next, inner.level, inner.pdist, inner.radius = <int32_t> c, -1, level, 0.0, radius
        inner.size -= 1  # c already counts the new datum
        inner.alive -= 1
        cdef Py_ssize_t number = self._new_cell(inner), child = inner.child
        self.cells[c].child = <int32_t> number
        while child >= 0:
            self.cells[child].parent = <int32_t> number
            child = self.cells[child].next
        return 0

    cdef int _insert(self, const float *x, Py_ssize_t datum) except -1:
        cdef Py_ssize_t c = 0, child, last, best, F = self.F
        cdef float d = <float> sqrt(expfam_square_distance(x, self.points + self.cells[0].lo * F, F))
        cdef float here, least, radius
        cdef double threshold
        cdef int32_t level
        cdef cover_cell cell
        self.n_alive += 1
        self.is_compact = False
        while True:
            radius = self.cells[c].radius
            self.cells[c].radius = max(radius, d)
            self.cells[c].size += 1
            self.cells[c].alive += 1
            child = self.cells[c].child
            if child < 0:
                return self._append(c, x, datum, d)
            level = self.cells[child].level
            threshold, least, best, last = c_pow(self.base, level), INFINITY, -1, -1
            while child >= 0:
                if fabs(d - self.cells[child].pdist) <= threshold * (1.0 + 8.0 * self.slack):
                    here = <float> sqrt(expfam_square_distance(x, self.points + self.cells[child].lo * F, F))
                    if here < least:
                        least, best = here, child
                last, child = child, self.cells[child].next
            if best >= 0 and least <= threshold:
                c, d = best, least
                continue
            if d > c_pow(self.base, level + 1):
                level_at(d, self.base, &level)
                self._lift(c, level, radius)
                last = self.cells[c].child
                if c == 0:
                    self.cells[0].level = max(self.cells[0].level, level + 1)
            cell = cover_cell(0.0, d, 0, 1, 1, 4, <int32_t> c, -1, -1, level, 0)
            cell.lo = <int32_t> self._new_positions(4)
            best = self._new_cell(cell)
            self.cells[last].next = <int32_t> best
            self._store(x, datum, 0.0, cell.lo)
            self._home[datum] = best
            return 0

    cdef int _append(self, Py_ssize_t c, const float *x, Py_ssize_t datum, double d) except -1:
        """Add a datum to a leaf that already counts it."""
        cdef int32_t level
        if self.cells[c].size > self.cells[c].cap:
            self.cells[c].size -= 1
            self._relocate(c, self.cells[c].size + self.cells[c].size // 4 + 4)
            self.cells[c].size += 1
        self._store(x, datum, d, self.cells[c].lo + self.cells[c].size - 1)
        self._home[datum] = c
        if c == 0 and self.cells[0].radius > 0.0:
            level_at(self.cells[0].radius, self.base, &level)
            self.cells[0].level = level + 1
        return self._split_leaf(c)

    cdef int _split_leaf(self, Py_ssize_t c) except -1:
        """Split a leaf that has become too large, and its children if needed."""
        cdef cover_cell cell = self.cells[c]
        cdef Py_ssize_t m = cell.size, p, t, first
        cdef int status
        if m <= 2 * self.leaf or cell.radius == 0.0 or cell.flags & UNSPLITTABLE:
            return 0
        cdef float[:, ::1] rows = self._points[cell.lo : cell.lo + m].copy()
        cdef int32_t[::1] held = self._ids[cell.lo : cell.lo + m].copy()
        cdef float[::1] near = self._dist[cell.lo : cell.lo + m].copy()
        cdef int32_t[:, ::1] integers = np.empty((3, m), dtype=np.int32)
        cdef float[::1] scratch = np.empty(m, dtype=np.float32)
        cdef centre_list centres
        cdef cell_list made = cell_list(NULL, 0, 0)
        cdef split_space space = split_space(&rows[0, 0], &integers[0, 0], &near[0], &integers[1, 0], &integers[2, 0],
                                             &scratch[0], self.F, self.base, self.max_children, self.slack)
        memset(&centres, 0, sizeof(centres))
        for p in range(m):
            integers[0, p] = <int32_t> p
        cell.lo = 0
        if self.radius_is_bound:
            cell.radius = np.max(near)
        status = split(&space, &centres, &cell, c, &made) if cell.radius > 0.0 else SPLIT_REFUSED
        free_centres(&centres)
        if status == SPLIT_MEMORY:
            free(made.cells)
            raise MemoryError("no memory for the cells of a cover tree")
        if status == SPLIT_REFUSED:
            free(made.cells)
            self.cells[c].radius = cell.radius
            if cell.radius > 0.0:
                self.cells[c].flags |= UNSPLITTABLE
            return 0
        first = self.n_cells
        for p in range(m):
            t = integers[0, p]
            self._store(&rows[t, 0], held[t], near[p], self.cells[c].lo + p)
        for t in range(made.n):
            made.cells[t].lo += self.cells[c].lo
            made.cells[t].alive -= self.ids[made.cells[t].lo] < 0
            made.cells[t].next = <int32_t> (first + t + 1) if t + 1 < made.n else -1
            self._new_cell(made.cells[t])
            for p in range(made.cells[t].lo, made.cells[t].lo + made.cells[t].size):
                if self.ids[p] >= 0:
                    self._home[self.ids[p]] = first + t
        m = made.n
        free(made.cells)
        self.cells[c].child = <int32_t> first
        for t in range(m):
            self._split_leaf(first + t)
        return 0

    cdef int _remove(self, Py_ssize_t datum) except -1:
        cdef Py_ssize_t p = self._where[datum], c = self._home[datum], last
        cdef bint is_centre = p == self.cells[c].lo
        self.n_alive -= 1
        self.is_compact = False
        self.radius_is_bound = True
        self._where[datum] = self._home[datum] = -1
        (<int32_t *> self.ids)[p] = -1
        if is_centre:
            self._n_waste += 1
        else:
            last = self.cells[c].lo + self.cells[c].size - 1
            if last != p:
                self._store(self.points + last * self.F, self.ids[last], self.dist[last], p)
                (<int32_t *> self.ids)[last] = -1
        while c >= 0:
            self.cells[c].alive -= 1
            self.cells[c].size -= not is_centre
            c = self.cells[c].parent
        return 0

    # ---- state -------------------------------------------------------------------------------------------------------

    def invariants(self):
        """Check all invariants of the tree from its arrays. O(N depth) in plain NumPy.

        Raises
        ------
        AssertionError
            An invariant does not hold; the message names the invariant and the cell.
        """
        check_cover_tree(self.to_arrays())

    def to_arrays(self):
        """Return the whole tree as a dict of arrays; `from_arrays` restores it bit for bit."""
        cells = self._cells[: self.n_cells]
        arrays = {name: cells[name].copy() for name in _CELL.names}
        n = self._n_positions
        arrays |= {"points": self._points[:n].copy(), "ids": self._ids[:n].copy(), "dist": self._dist[:n].copy()}
        arrays["center"] = self.center.copy()
        arrays["base"] = np.float64(self.base)
        counts = (self.leaf, self.max_children, self.n_alive, self._next_id, self._n_waste, self.is_compact,
                  self.radius_is_bound)
        return arrays | {"counts": np.array(counts, dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays, *, n_threads=None):
        """Make the tree from the arrays of `to_arrays`.

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays`.
        n_threads : int or None
            Threads of later searches; their results do not depend on it.

        Raises
        ------
        ValueError
            Arrays have wrong shapes, or links point outside of the tree.
        """
        cdef CoverTree tree = cls.__new__(cls)
        tree.base, tree.n_threads = float(arrays["base"]), n_threads
        (tree.leaf, tree.max_children, tree.n_alive, tree._next_id, tree._n_waste, tree.is_compact,
         tree.radius_is_bound) = (int(count) for count in arrays["counts"])
        tree._points = np.array(arrays["points"], dtype=np.float32, order="C", ndmin=2)
        tree._ids, tree._dist = np.array(arrays["ids"], np.int32), np.array(arrays["dist"], np.float32)
        tree.center = np.array(arrays["center"], dtype=np.float64)
        tree._cells = np.zeros(len(arrays["lo"]), dtype=_CELL)
        for name in _CELL.names:
            tree._cells[name] = arrays[name]
        tree.n_cells, tree._n_positions = len(tree._cells), len(tree._ids)
        _check_links(tree._cells, tree._points, tree._ids, tree._dist, tree.center, tree._next_id)
        tree._set_width(tree._points.shape[1])
        tree._aim()
        return tree

    def __reduce__(self):
        return _unpickle, (self.to_arrays(), self.n_threads)


def _unpickle(arrays, n_threads):
    return CoverTree.from_arrays(arrays, n_threads=n_threads)


def _check_links(cells, points, ids, dist, center, next_id):
    """Refuse arrays that would lead a search out of bounds or into a cycle."""
    n, m = len(cells), len(ids)
    if m == 0 or n == 0 or len(points) != m or len(dist) != m or center.shape != points.shape[1:]:
        raise ValueError(f"arrays of a cover tree do not fit: {counted(n, 'cell')}, {points.shape} points, "
                         f"{counted(m, 'id')}, {counted(len(dist), 'distance')}, center {center.shape}")
    lo, size = cells["lo"].astype(np.int64), cells["size"].astype(np.int64)
    is_leaf = cells["child"] < 0
    if np.any(lo < 0) or np.any(lo >= m) or np.any(size < 1) or np.any((lo + size)[is_leaf] > m):
        raise ValueError("a cell of the arrays lies outside the points")
    if np.any(ids < -1) or np.any(ids >= next_id):
        raise ValueError("the arrays name a datum that was never given")
    # in a tree, every cell except the root is the first child or next sibling of one cell, and its parent agrees
    links = np.concatenate([cells["child"][~is_leaf], cells["next"][cells["next"] >= 0]])
    parents = np.full(n, -1)
    if len(links) and links.max() >= n or not np.array_equal(np.sort(links), np.arange(1, n)):
        raise ValueError("the cells of the arrays do not form one tree")
    parents[cells["child"][~is_leaf]] = np.flatnonzero(~is_leaf)
    known = np.flatnonzero(parents >= 0)
    while len(known):  # along the rows of siblings
        known = known[cells["next"][known] >= 0]
        parents[cells["next"][known]] = parents[known]
        known = cells["next"][known]
    depth, at = 0, np.arange(n)
    while np.any(at > 0) and depth <= n:
        at, depth = np.where(at > 0, parents[np.maximum(at, 0)], 0), depth + 1
    if not np.array_equal(parents, cells["parent"]) or depth > n or np.any(at < 0):
        raise ValueError("the cells of the arrays do not form one tree")


def _permute(float[:, ::1] rows, const int32_t[::1] order):
    """Set rows := rows[order] in place, cycle by cycle.

    A second copy of the rows would double the memory.
    """
    cdef Py_ssize_t start, to, source, n = rows.shape[0], F = rows.shape[1]
    cdef char[::1] is_placed = np.zeros(n, dtype=np.int8)
    cdef float[::1] first = np.empty(F, dtype=np.float32)
    with nogil:
        for start in range(n):
            if is_placed[start] or order[start] == start:
                continue
            memcpy(&first[0], &rows[start, 0], F * sizeof(float))
            to, source = start, order[start]
            while source != start:
                EXPFAM_PREFETCH(&rows[order[source], 0])
                memcpy(&rows[to, 0], &rows[source, 0], F * sizeof(float))
                is_placed[to] = 1
                to, source = source, order[source]
            memcpy(&rows[to, 0], &first[0], F * sizeof(float))
            is_placed[to] = 1


def _matrix(X):
    """Return X as a two-dimensional C-contiguous float32 or float64 array."""
    if hasattr(X, "tocsr"):
        raise TypeError("a cover tree takes dense rows; project sparse ones to a few dozen columns first")
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        if X.dtype.kind not in "iubf":
            raise TypeError(f"X must hold real numbers; its dtype is {X.dtype}")
        X = X.astype(np.float64)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, columns); got shape {X.shape}")
    return np.ascontiguousarray(X)


def _center(bounds):
    """Return the middle of the range of each column after checking the values.

    The middle is rounded so that whole numbers stay whole numbers.
    """
    low, high, bad = bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0), bounds[:, 2].sum(axis=0)
    if np.any(bad != 0.0):
        raise ValueError(f"column {np.flatnonzero(bad != 0.0)[0]} of X holds NaN or infinity; remove or impute them")
    width = high - low
    if width.max() > 1e18 or 0.0 < width.max() < 1e-15:
        raise ValueError(f"the widest column of X spans {width.max():g}; squared distances would leave the range of "
                         "float32: rescale the data")
    # A multiple of a power of 2: differences to it are exact where the spacing of the data is coarser.
    unit = np.exp2(np.floor(np.log2(np.where(width > 0.0, width, 1.0))))
    return np.where(width > 0.0, np.round((0.5 * low + 0.5 * high) / unit) * unit, low)
