"""Splitting the cells of a cover tree, and the batch build from the root down.

A cell is split at the largest level that separates its members: centres are taken farthest first until every member
lies within base**level of one, members go to the nearest centre, and a stable counting sort makes them contiguous.
Cells of one level are independent; they are packed into tasks by their sizes alone, and the children are numbered in
the order of the tasks, so the tree does not depend on threads. O(N) distances a level for data of low intrinsic
dimension, never more than 4 `max_children` a datum and level beyond 4096 members.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, ceil, log, sqrt
from libc.stdint cimport int32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from expfam.structures._kernels cimport expfam_square_distance

from expfam.structures._threads import run, segments

CELL = np.dtype(
    [("radius", "f4"), ("pdist", "f4")]
    + [(name, "i4") for name in ("lo", "size", "alive", "cap", "parent", "child", "next", "level", "flags")]
)
assert CELL.itemsize == sizeof(cover_cell)

cdef enum:
    GUARDED = 4096              # cells up to this size are always split; also the least work of a task
    LARGE = 20000               # passes over larger cells are cut into chunks
    CHUNK = 8192

cdef extern from "<math.h>" nogil:
    double c_pow "pow"(double x, double y)


cdef double level_at(double radius, double base, int32_t *level) noexcept nogil:
    """Smallest level with base**(level + 1) >= radius > base**level, and that threshold."""
    cdef int32_t i = <int32_t> ceil(log(radius) / log(base))
    while c_pow(base, i - 1) >= radius:  # the quotient of logarithms may be rounded either way
        i -= 1
    while c_pow(base, i) < radius:
        i += 1
    level[0] = i - 1
    return c_pow(base, i - 1)


cdef double distance(const split_space *space, Py_ssize_t p, Py_ssize_t q) noexcept nogil:
    cdef Py_ssize_t F = space.F
    return sqrt(expfam_square_distance(space.rows + space.order[p] * F, space.rows + space.order[q] * F, F))


cdef int append_cell(cell_list *cells, const cover_cell *cell) noexcept nogil:
    cdef Py_ssize_t cap
    cdef cover_cell *grown
    if cells.n == cells.cap:
        cap = max(64, 2 * cells.cap)
        grown = <cover_cell *> realloc(cells.cells, cap * sizeof(cover_cell))
        if grown == NULL:
            return SPLIT_MEMORY
        cells.cells = grown
        cells.cap = cap
    cells.cells[cells.n] = cell[0]
    cells.n += 1
    return SPLIT_DONE


cdef int append_centre(centre_list *centres, Py_ssize_t position) noexcept nogil:
    cdef Py_ssize_t cap
    cdef void *grown[4]
    if centres.n == centres.cap:
        cap = max(64, 2 * centres.cap)
        grown[0] = realloc(centres.position, cap * sizeof(int32_t))
        centres.position = <int32_t *> grown[0] if grown[0] != NULL else centres.position
        grown[1] = realloc(centres.gap, cap * sizeof(float))
        centres.gap = <float *> grown[1] if grown[1] != NULL else centres.gap
        grown[2] = realloc(centres.count, cap * sizeof(int32_t))
        centres.count = <int32_t *> grown[2] if grown[2] != NULL else centres.count
        grown[3] = realloc(centres.start, cap * sizeof(int32_t))
        centres.start = <int32_t *> grown[3] if grown[3] != NULL else centres.start
        if grown[0] == NULL or grown[1] == NULL or grown[2] == NULL or grown[3] == NULL:
            return SPLIT_MEMORY
        centres.cap = cap
    centres.position[centres.n] = <int32_t> position
    centres.n += 1
    return SPLIT_DONE


cdef void free_centres(centre_list *centres) noexcept nogil:
    free(centres.position)
    free(centres.gap)
    free(centres.count)
    free(centres.start)


cdef void measure_gaps(const split_space *space, centre_list *centres) noexcept nogil:
    """Distances from the newest centre to the others, for the triangle inequality in `relax`."""
    cdef Py_ssize_t k, q = centres.position[centres.n - 1]
    for k in range(centres.n - 1):
        centres.gap[k] = <float> distance(space, q, centres.position[k])


cdef Py_ssize_t relax(split_space *space, const centre_list *centres, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    """Give the positions lo..hi to the newest centre where it is nearer; returns the first that is farthest from all.

    With one centre only the farthest is looked for: distances to the cell's own centre are known from above.
    """
    cdef Py_ssize_t p, far = lo, newest = centres.n - 1, F = space.F
    cdef float worst = -1.0
    cdef float d
    cdef double keep = 0.5 * (1.0 - 4.0 * space.slack)
    cdef double square
    cdef float *near = space.near
    cdef int32_t *owner = space.owner
    cdef const float *q = space.rows + space.order[centres.position[newest]] * F
    for p in range(lo, hi):
        if newest == 0:
            owner[p] = 0
        elif keep * centres.gap[owner[p]] < near[p]:
            square = expfam_square_distance(q, space.rows + space.order[p] * F, F)
            if square < <double> near[p] * near[p]:
                d = <float> sqrt(square)
                if d < near[p]:
                    near[p] = d
                    owner[p] = <int32_t> newest
        if near[p] > worst:
            worst = near[p]
            far = p
    return far


cdef int guard(const split_space *space, Py_ssize_t n_centres, const cover_cell *cell, double threshold) noexcept nogil:
    """Whether a large cell shows itself as unsplittable: too many centres would be needed to cover it.

    Asked at an eighth, a quarter, a half of `max_children` and so on. Children of many members each are worth four
    times as many: a thousand distant clusters are structure, not noise.
    """
    cdef Py_ssize_t p, covered = 0, by_others = 0, asked = space.max_children // 8
    cdef double limit = space.max_children
    if cell.size <= GUARDED:
        return 0
    while asked < n_centres:
        asked *= 2
    if asked != n_centres:
        return 0
    for p in range(cell.lo, cell.lo + cell.size):
        covered += space.near[p] <= threshold
        by_others += space.near[p] <= threshold and space.owner[p] > 0
    if by_others >= 64 * n_centres:  # the own centre's ball may hold half of any noise
        limit *= 4
    return n_centres * <double> cell.size > limit * <double> (covered + 1) or covered < 4 * n_centres


cdef void give_back(split_space *space, const cover_cell *cell) noexcept nogil:
    """Distances to the cell's own centre again, after centres that were not kept."""
    cdef Py_ssize_t p
    for p in range(cell.lo, cell.lo + cell.size):
        space.near[p] = <float> distance(space, cell.lo, p)


cdef int hand_out(split_space *space, centre_list *centres, const cover_cell *cell, Py_ssize_t number, int32_t level,
                  cell_list *children) noexcept nogil:
    """Sort the members by centre, each centre first, and append the children."""
    cdef Py_ssize_t p, k, lo = cell.lo, hi = cell.lo + cell.size
    cdef Py_ssize_t first = children.n
    cdef cover_cell child
    child.radius = 0.0
    child.parent = <int32_t> number
    child.child = child.next = -1
    child.level = level
    child.flags = 0
    for k in range(centres.n):
        centres.count[k] = 0
    for p in range(lo, hi):
        centres.count[space.owner[p]] += 1
    p = lo
    for k in range(centres.n):
        centres.start[k] = <int32_t> p + 1
        child.lo = <int32_t> p
        child.size = child.alive = child.cap = centres.count[k]
        child.pdist = <float> distance(space, lo, centres.position[k]) if k else 0.0
        if append_cell(children, &child) != SPLIT_DONE:
            return SPLIT_MEMORY
        p += centres.count[k]
    for p in range(lo, hi):
        k = space.owner[p]
        if p == centres.position[k]:
            space.order_scratch[children.cells[first + k].lo] = space.order[p]
            space.near_scratch[children.cells[first + k].lo] = 0.0
            continue
        space.order_scratch[centres.start[k]] = space.order[p]
        space.near_scratch[centres.start[k]] = space.near[p]
        centres.start[k] += 1
        if space.near[p] > children.cells[first + k].radius:
            children.cells[first + k].radius = space.near[p]
    memcpy(space.order + lo, space.order_scratch + lo, cell.size * sizeof(int32_t))
    memcpy(space.near + lo, space.near_scratch + lo, cell.size * sizeof(float))
    return SPLIT_DONE


cdef int split(split_space *space, centre_list *centres, const cover_cell *cell, Py_ssize_t number,
               cell_list *children) noexcept nogil:
    """Split one cell of positive radius; its children are appended with `parent` = number."""
    cdef int32_t level
    cdef double threshold = level_at(cell.radius, space.base, &level)
    cdef Py_ssize_t lo = cell.lo, hi = cell.lo + cell.size
    centres.n = 0
    if append_centre(centres, lo) != SPLIT_DONE:
        return SPLIT_MEMORY
    cdef Py_ssize_t far = relax(space, centres, lo, hi)
    while space.near[far] > threshold:
        if guard(space, centres.n, cell, threshold):
            give_back(space, cell)
            return SPLIT_REFUSED
        if append_centre(centres, far) != SPLIT_DONE:
            return SPLIT_MEMORY
        measure_gaps(space, centres)
        far = relax(space, centres, lo, hi)
    return hand_out(space, centres, cell, number, level, children)


# ---- columns of the data ---------------------------------------------------------------------------------------------

def column_bounds(const floating[:, ::1] X, Py_ssize_t lo, Py_ssize_t hi):
    """Smallest and largest value of each column in the rows lo..hi, and 0 or NaN where some value is not finite."""
    cdef Py_ssize_t i, j, F = X.shape[1]
    out = np.empty((3, F))
    out[0], out[1], out[2] = INFINITY, -INFINITY, 0.0
    cdef double[:, ::1] view = out
    cdef double *low = &view[0, 0]
    cdef double *high = &view[1, 0]
    cdef double *bad = &view[2, 0]
    cdef const floating *x
    with nogil:
        for i in range(lo, hi):
            x = &X[i, 0]
            for j in range(F):
                low[j] = x[j] if x[j] < low[j] else low[j]
                high[j] = x[j] if x[j] > high[j] else high[j]
                bad[j] += x[j] * 0
    return out


def centred(const floating[:, ::1] X, const double[::1] centre, float[:, ::1] out, Py_ssize_t lo, Py_ssize_t hi):
    """X - centre, in double, into the float32 rows lo..hi of `out`; returns the sums of its columns."""
    cdef Py_ssize_t i, j, F = X.shape[1]
    sums = np.zeros(F)
    cdef double[::1] view = sums
    cdef const floating *x
    cdef float *y
    with nogil:
        for i in range(lo, hi):
            x = &X[i, 0]
            y = &out[i, 0]
            for j in range(F):
                y[j] = <float> (x[j] - centre[j])
                view[j] += y[j]
    return sums


# ---- the batch build -------------------------------------------------------------------------------------------------

cdef class _Children:
    """Cells that one task has made."""

    cdef cell_list list

    def __cinit__(self):
        self.list.cells = NULL
        self.list.n = self.list.cap = 0

    def __dealloc__(self):
        free(self.list.cells)


cdef class _Build:
    """Working arrays of one build over fixed vectors."""

    cdef split_space space
    cdef cell_list tree
    cdef object rows, arrays, n_threads
    cdef Py_ssize_t n, leaf
    cdef centre_list large          # centres of the large cell at hand

    def __cinit__(self, const float[:, ::1] rows, double base, Py_ssize_t leaf, Py_ssize_t max_children, double slack,
                  n_threads):
        cdef int32_t[::1] order, owner, order_scratch
        cdef float[::1] near, near_scratch
        self.tree.cells = NULL
        self.tree.n = self.tree.cap = 0
        self.large = centre_list(NULL, NULL, NULL, NULL, 0, 0)
        self.n = rows.shape[0]
        integers = np.empty((3, self.n), dtype=np.int32)
        floats = np.empty((2, self.n), dtype=np.float32)
        integers[0] = np.arange(self.n)
        order, owner, order_scratch = integers
        near, near_scratch = floats
        self.rows, self.arrays, self.n_threads, self.leaf = rows, (integers, floats), n_threads, leaf
        self.space = split_space(&rows[0, 0], &order[0], &near[0], &owner[0], &order_scratch[0], &near_scratch[0],
                                 rows.shape[1], base, max_children, slack)

    def __dealloc__(self):
        free(self.tree.cells)
        free_centres(&self.large)

    def measure(self, const float[::1] point, Py_ssize_t lo, Py_ssize_t hi):
        """Distances from a point into `near`; returns the nearest and the farthest position."""
        cdef Py_ssize_t p, nearest = lo, F = self.space.F
        with nogil:
            for p in range(lo, hi):
                self.space.near[p] = <float> sqrt(expfam_square_distance(&point[0], self.space.rows + p * F, F))
                if self.space.near[p] < self.space.near[nearest]:
                    nearest = p
        return nearest

    def root(self, point):
        """Make the vector nearest to a point the root's centre."""
        cdef cover_cell cell
        cdef Py_ssize_t nearest, p
        cdef int32_t level = 0
        bounds = chunks(0, self.n)
        found = run(self.measure, [(point, lo, hi) for lo, hi in bounds], self.n_threads)
        nearest = min(found, key=lambda p: (self.arrays[1][0][p], p))
        run(self.measure, [(np.asarray(self.rows)[nearest], lo, hi) for lo, hi in bounds], self.n_threads)
        self.space.order[0], self.space.order[nearest] = nearest, 0
        self.space.near[nearest] = self.space.near[0]
        self.space.near[0] = 0.0
        cell.radius = self.arrays[1][0].max()
        if cell.radius > 0.0:
            level_at(cell.radius, self.space.base, &level)
            level += 1
        cell.pdist = 0.0
        cell.lo = cell.flags = 0
        cell.size = cell.alive = cell.cap = <int32_t> self.n
        cell.parent = cell.child = cell.next = -1
        cell.level = level
        if append_cell(&self.tree, &cell) != SPLIT_DONE:
            raise MemoryError

    def cells_of(self, const int32_t[::1] numbers):
        """Children of some cells of ordinary size."""
        cdef _Children made = _Children()
        cdef centre_list centres = centre_list(NULL, NULL, NULL, NULL, 0, 0)
        cdef Py_ssize_t t
        cdef int status = SPLIT_DONE
        cdef cover_cell *cell
        with nogil:
            for t in range(numbers.shape[0]):
                cell = &self.tree.cells[numbers[t]]
                status = split(&self.space, &centres, cell, numbers[t], &made.list)
                if status == SPLIT_REFUSED:
                    cell.flags = cell.flags | UNSPLITTABLE
                elif status == SPLIT_MEMORY:
                    break
        free_centres(&centres)
        if status == SPLIT_MEMORY:
            raise MemoryError("no memory for the cells of a cover tree")
        return made

    def relax_chunk(self, Py_ssize_t lo, Py_ssize_t hi):
        """`relax` of one chunk of a large cell."""
        cdef Py_ssize_t far
        with nogil:
            far = relax(&self.space, &self.large, lo, hi)
        return far

    def relax_all(self, bounds):
        """`relax` of a large cell: the first of the farthest positions."""
        found = run(self.relax_chunk, bounds, self.n_threads)
        near = self.arrays[1][0]
        return max(found, key=lambda p: (near[p], -p))

    def large_cell(self, Py_ssize_t number):
        """Children of one large cell, its passes shared by the threads."""
        cdef _Children made = _Children()
        cdef cover_cell cell = self.tree.cells[number]
        cdef int32_t level
        cdef double threshold = level_at(cell.radius, self.space.base, &level)
        cdef Py_ssize_t far
        bounds = chunks(cell.lo, cell.lo + cell.size)
        self.large.n = 0
        far = cell.lo
        while self.large.n == 0 or self.space.near[far] > threshold:
            if guard(&self.space, self.large.n, &cell, threshold):
                self.tree.cells[number].flags |= UNSPLITTABLE
                give_back(&self.space, &cell)
                return made
            if append_centre(&self.large, far) != SPLIT_DONE:
                raise MemoryError("no memory for the centres of a cover tree")
            measure_gaps(&self.space, &self.large)
            far = self.relax_all(bounds)
        if hand_out(&self.space, &self.large, &cell, number, level, &made.list) != SPLIT_DONE:
            raise MemoryError("no memory for the cells of a cover tree")
        return made

    cdef adopt(self, _Children made):
        """Number the children of a task and link them to their parents."""
        cdef Py_ssize_t t, number
        cdef cover_cell *child
        for t in range(made.list.n):
            child = &made.list.cells[t]
            number = self.tree.n
            if self.tree.cells[child.parent].child < 0:
                self.tree.cells[child.parent].child = <int32_t> number
            else:
                self.tree.cells[number - 1].next = <int32_t> number
            if append_cell(&self.tree, child) != SPLIT_DONE:
                raise MemoryError("no memory for the cells of a cover tree")

    def grow(self):
        """Split level by level until every cell is a leaf."""
        cdef Py_ssize_t c, first = 0, last = self.tree.n, weight
        cdef cover_cell *cell
        while first < last:
            tasks, pack, weight = [], [], 0
            for c in range(first, last):
                cell = &self.tree.cells[c]
                if cell.size <= self.leaf or cell.radius == 0.0:
                    continue
                if cell.size > LARGE:
                    tasks.append((c, True))
                    continue
                pack.append(c)
                weight += cell.size
                if weight >= GUARDED:
                    tasks.append((np.array(pack, dtype=np.int32), False))
                    pack, weight = [], 0
            if pack:
                tasks.append((np.array(pack, dtype=np.int32), False))
            self.split_tasks(tasks)
            first, last = last, self.tree.n

    def split_tasks(self, tasks):
        """Run the tasks of a level; children are adopted in the order of the tasks."""
        small = iter(run(self.cells_of, [(numbers,) for numbers, is_large in tasks if not is_large], self.n_threads))
        for number, is_large in tasks:
            self.adopt(self.large_cell(number) if is_large else next(small))

    def result(self):
        """Cells as a structured array, rows in tree order, and their distances to the leaf's centre."""
        cells = np.empty(self.tree.n, dtype=CELL)
        cdef char[::1] view = cells.view(np.int8)
        memcpy(&view[0], self.tree.cells, self.tree.n * sizeof(cover_cell))
        return cells, self.arrays[0][0].copy(), self.arrays[1][0].copy()


def chunks(lo, hi):
    """Bounds of the chunks of a long pass, cut by its length alone."""
    return [(start, min(start + CHUNK, hi)) for start in range(lo, hi, CHUNK)]


def build(rows, *, base, leaf, max_children, slack, n_threads):
    """Cells, order of the rows and distances to the leaves' centres of a tree over float32 vectors.

    Parameters
    ----------
    rows : (N, F) float32 ndarray, C-contiguous
    base : float
    leaf, max_children : int
    slack : float
        Relative error of a computed distance.
    n_threads : int or None

    Returns
    -------
    cells : (C,) structured ndarray of `CELL`
        Breadth first; the children of a cell follow one another.
    order : (N,) int32 ndarray
    dist : (N,) float32 ndarray
    """
    work = _Build(rows, base, leaf, max_children, slack, n_threads)
    sums = run(lambda lo, hi: rows[lo:hi].sum(axis=0, dtype=np.float64), segments(len(rows)), n_threads)
    work.root((np.sum(sums, axis=0) / len(rows)).astype(np.float32))
    work.grow()
    return work.result()
