"""Splits of the cells of a cover tree, and the batch build from the root down.

A cell is split at the largest level that separates its members. Centres are chosen farthest first until every member is
within base**level of a centre. Each member joins its nearest centre, and a stable counting sort makes the members of a
child contiguous. In a large cell the centres are chosen farthest first in a sample of the members, then in a sample of
the members that are still uncovered, until all are covered; so one pass over all members handles many centres. Passes
over large cells are cut into chunks. The subtrees of smaller cells are grouped into tasks by their sizes alone, and
cells are numbered in the order of the tasks, so the tree does not depend on threads. Data of low intrinsic dimension
need O(N) distances for each level. In cells of more than 4096 members, a datum and level never need more than
4 `max_children` distances.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, ceil, log, sqrt
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from expfam.structures.simd.distance cimport EXPFAM_TILE, expfam_square_distance, expfam_tile_fill, expfam_tile_relax

from expfam.structures.ground.threads import run, segments

CELL = np.dtype(
    [("radius", "f4"), ("pdist", "f4")]
    + [(name, "i4") for name in ("lo", "size", "alive", "cap", "parent", "child", "next", "level", "flags")]
)
assert CELL.itemsize == sizeof(cover_cell)

cdef enum:
    GUARDED = 4096              # cells up to this size are always split; also the smallest size of a task
    LARGE = 12288               # passes over larger cells are cut into chunks
    CHUNK = 8192
    BLOCK = 128                 # members in tiles at a time, where all members would be too many
    TILED_FEATURES = 512        # with more features, a distance along a row costs no more than across rows
    TILED_FLOATS = 1048576      # largest size of the tiles of one thread, unless GUARDED rows need more

cdef extern from "<math.h>" nogil:
    double c_pow "pow"(double x, double y)


cdef double level_at(double radius, double base, int32_t *level) noexcept nogil:
    """Find the level with base**(level + 1) >= radius > base**level; return base**level."""
    cdef int32_t i = <int32_t> ceil(log(radius) / log(base))
    while c_pow(base, i - 1) >= radius:  # the quotient of logarithms may be rounded up or down
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
    free(centres.candidates.position)
    free(centres.candidates.near)
    free(centres.candidates.owner)
    free(centres.candidates.tiles)


# ---- candidates for the next centre ----------------------------------------------------------------------------------

cdef int reserve(candidate_list *found, Py_ssize_t n, Py_ssize_t n_floats) noexcept nogil:
    """Reserve room for n candidates and their tiles; old contents are lost."""
    cdef Py_ssize_t room = (n + EXPFAM_TILE - 1) // EXPFAM_TILE * EXPFAM_TILE
    if room > found.cap:
        free(found.position)
        free(found.near)
        free(found.owner)
        found.cap = 0
        found.position = <int32_t *> malloc(room * sizeof(int32_t))
        found.near = <float *> malloc(room * sizeof(float))
        found.owner = <int32_t *> malloc(room * sizeof(int32_t))
        if found.position == NULL or found.near == NULL or found.owner == NULL:
            return SPLIT_MEMORY
        found.cap = room
    if n_floats > found.n_floats:
        free(found.tiles)
        found.n_floats = 0
        found.tiles = <float *> malloc(n_floats * sizeof(float))
        if found.tiles == NULL:
            return SPLIT_MEMORY
        found.n_floats = n_floats
    return SPLIT_DONE


cdef int load(const split_space *space, candidate_list *found) noexcept nogil:
    """Load distance and owner of the candidates at `position`, and their vectors in tiles.

    Tiles are left out if they would be too large.
    """
    cdef Py_ssize_t i, t, u, F = space.F, n = found.n
    cdef Py_ssize_t n_tiles = (n + EXPFAM_TILE - 1) // EXPFAM_TILE
    cdef const float *row[EXPFAM_TILE]
    found.is_tiled = F <= TILED_FEATURES and n_tiles * EXPFAM_TILE * F <= max(TILED_FLOATS, GUARDED * F)
    if found.is_tiled and reserve(found, n, n_tiles * EXPFAM_TILE * F) != SPLIT_DONE:
        return SPLIT_MEMORY
    for i in range(n):
        found.near[i] = space.near[found.position[i]]
        found.owner[i] = space.owner[found.position[i]]
    if not found.is_tiled:
        return SPLIT_DONE
    for i in range(n, n_tiles * EXPFAM_TILE):
        found.near[i] = -1.0
        found.owner[i] = 0
    for t in range(n_tiles):
        for u in range(EXPFAM_TILE):
            row[u] = space.rows + space.order[found.position[min(t * EXPFAM_TILE + u, n - 1)]] * F
        expfam_tile_fill(row, F, found.tiles + t * EXPFAM_TILE * F)
    return SPLIT_DONE


cdef Py_ssize_t farthest(const candidate_list *found) noexcept nogil:
    cdef Py_ssize_t i, far = 0
    for i in range(1, found.n):
        if found.near[i] > found.near[far]:
            far = i
    return far


cdef Py_ssize_t relax(const split_space *space, centre_list *centres) noexcept nogil:
    """Move candidates to the newest centre where it is nearer; return the farthest candidate.

    It is the first candidate with the largest distance to its nearest centre.
    """
    cdef candidate_list *found = &centres.candidates
    cdef Py_ssize_t i, newest = centres.n - 1, F = space.F
    cdef double keep = 0.5 * (1.0 - 4.0 * space.slack), square
    cdef const float *q = space.rows + space.order[centres.position[newest]] * F
    cdef float d
    if found.is_tiled:
        return expfam_tile_relax(found.tiles, (found.n + EXPFAM_TILE - 1) // EXPFAM_TILE, q, F, <int32_t> newest,
                                 found.near, found.owner)
    for i in range(newest):  # by the triangle inequality, an owner twice as far from q keeps its member
        centres.gap[i] = <float> distance(space, centres.position[newest], centres.position[i])
    for i in range(found.n):
        if keep * centres.gap[found.owner[i]] >= found.near[i]:
            continue
        square = expfam_square_distance(q, space.rows + space.order[found.position[i]] * F, F)
        if square < <double> found.near[i] * found.near[i]:
            d = <float> sqrt(square)
            if d < found.near[i]:
                found.near[i] = d
                found.owner[i] = <int32_t> newest
    return farthest(found)


cdef int choose(const split_space *space, centre_list *centres, const census *known, double threshold) noexcept nogil:
    """Choose centres farthest first until every candidate is within the threshold of one."""
    cdef candidate_list *found = &centres.candidates
    cdef Py_ssize_t far, first = centres.n
    if load(space, found) != SPLIT_DONE:
        return SPLIT_MEMORY
    far = farthest(found)
    while found.near[far] > threshold:
        if is_hopeless(space, centres, known, first, threshold):
            return SPLIT_REFUSED
        if append_centre(centres, found.position[far]) != SPLIT_DONE:
            return SPLIT_MEMORY
        far = relax(space, centres)
    return SPLIT_DONE


cdef bint is_hopeless(const split_space *space, const centre_list *centres, const census *known, Py_ssize_t first,
                      double threshold) noexcept nogil:
    """Say whether a large cell needs too many centres, so that it cannot be split.

    The test is made at an eighth, a quarter, a half of `max_children` centres and so on. It estimates the number of
    covered members from the last count and from the share of the candidates that are covered since then. New centres
    are left out of this share, because each covers itself. If the children have many members each, four times as many
    are allowed: a thousand distant clusters are structure and not noise.
    """
    cdef const candidate_list *found = &centres.candidates
    cdef Py_ssize_t i, covered = 0, by_others = 0, fresh = centres.n - first, asked = space.max_children // 8
    cdef double share, n_covered, n_by_others, limit = space.max_children
    if known.size <= GUARDED:
        return False
    while asked < centres.n:
        asked *= 2
    if asked != centres.n:
        return False
    for i in range(found.n):
        covered += found.near[i] <= threshold
        by_others += found.near[i] <= threshold and found.owner[i] > 0
    share = (known.uncovered - fresh) / <double> max(found.n - fresh, 1)
    n_covered = known.covered + fresh + share * max(covered - fresh, 0)
    n_by_others = known.by_others + fresh + share * max(by_others - fresh, 0)
    if n_by_others >= 64.0 * centres.n:  # the ball of the cell's own centre may contain half of any noise
        limit *= 4
    return centres.n * <double> known.size > limit * (n_covered + 1.0) or n_covered < 4.0 * centres.n


# ---- all members of a large cell -------------------------------------------------------------------------------------

cdef Py_ssize_t begin(split_space *space, centre_list *centres, const cover_cell *cell, census *known) noexcept nogil:
    """Assign all members to the cell's own centre; none counts as covered yet."""
    cdef Py_ssize_t p
    known.size = cell.size
    known.covered = known.by_others = 0
    known.uncovered = cell.size
    centres.n = 0
    for p in range(cell.lo, cell.lo + cell.size):
        space.owner[p] = 0
        space.order_scratch[p] = <int32_t> p
    return append_centre(centres, cell.lo)


cdef int sample(const split_space *space, centre_list *centres, const cover_cell *cell,
                const census *known) noexcept nogil:
    """Choose candidates from the uncovered members: all, or one of each stratum.

    The uncovered members are listed from `order_scratch[cell.lo]` on.
    """
    cdef Py_ssize_t i, n = max(GUARDED, cell.size // 64)
    cdef const int32_t *uncovered = space.order_scratch + cell.lo
    cdef double stratum, shift
    if n * space.F > TILED_FLOATS:
        n = max(GUARDED, TILED_FLOATS // space.F)
    n = min(n, known.uncovered)
    if reserve(&centres.candidates, n, 0) != SPLIT_DONE:
        return SPLIT_MEMORY
    centres.candidates.n = n
    stratum = known.uncovered / <double> n
    for i in range(n):  # positions in the strata by a multiplicative hash, because data may be periodic
        shift = <uint32_t> (<uint32_t> i * <uint32_t> 2654435761) / 4294967296.0 if n < known.uncovered else 0.0
        centres.candidates.position[i] = uncovered[min(<Py_ssize_t> ((i + shift) * stratum), known.uncovered - 1)]
    return SPLIT_DONE


cdef int measure_gaps(const split_space *space, const centre_list *centres, Py_ssize_t first,
                      float **gaps) noexcept nogil:
    """Compute the distances from each centre since `first` to all centres before it.

    `assign` uses them for the triangle inequality.
    """
    cdef Py_ssize_t j, k, n = centres.n
    gaps[0] = <float *> malloc(max((n - first) * n, 1) * sizeof(float))
    if gaps[0] == NULL:
        return SPLIT_MEMORY
    for j in range(first, n):
        for k in range(j):
            gaps[0][(j - first) * n + k] = <float> distance(space, centres.position[j], centres.position[k])
    return SPLIT_DONE


cdef bint is_block_worth(const split_space *space, const centre_list *centres, Py_ssize_t first) noexcept nogil:
    """Say whether there are enough new centres to put all members into tiles."""
    return space.F <= TILED_FEATURES and centres.n - first >= 6


cdef int assign(split_space *space, const centre_list *centres, Py_ssize_t first, const float *gaps, Py_ssize_t lo,
                Py_ssize_t hi) noexcept nogil:
    """Move the positions lo..hi to the centres since `first` where these are nearer."""
    cdef Py_ssize_t p, k, n = centres.n, F = space.F
    cdef double keep = 0.5 * (1.0 - 4.0 * space.slack), square
    cdef const float *x
    cdef float d
    if is_block_worth(space, centres, first):
        return assign_blocks(space, centres, first, lo, hi)
    for p in range(lo, hi):
        x = space.rows + space.order[p] * F
        for k in range(first, n):
            if keep * gaps[(k - first) * n + space.owner[p]] >= space.near[p]:
                continue
            square = expfam_square_distance(space.rows + space.order[centres.position[k]] * F, x, F)
            if square < <double> space.near[p] * space.near[p]:
                d = <float> sqrt(square)
                if d < space.near[p]:
                    space.near[p] = d
                    space.owner[p] = <int32_t> k
    return SPLIT_DONE


cdef int assign_blocks(split_space *space, const centre_list *centres, Py_ssize_t first, Py_ssize_t lo,
                       Py_ssize_t hi) noexcept nogil:
    """Do the work of `assign` with blocks of members in tiles that fit in a core's cache."""
    cdef candidate_list block
    cdef Py_ssize_t i, k, start, n_tiles, F = space.F
    cdef const float *q
    cdef int status = SPLIT_DONE
    memset(&block, 0, sizeof(block))
    if reserve(&block, BLOCK, 0) != SPLIT_DONE:
        status = SPLIT_MEMORY
    start = lo
    while start < hi and status == SPLIT_DONE:
        block.n = min(BLOCK, hi - start)
        for i in range(block.n):
            block.position[i] = <int32_t> (start + i)
        if load(space, &block) != SPLIT_DONE:
            status = SPLIT_MEMORY
            break
        n_tiles = (block.n + EXPFAM_TILE - 1) // EXPFAM_TILE
        for k in range(first, centres.n):
            q = space.rows + space.order[centres.position[k]] * F
            expfam_tile_relax(block.tiles, n_tiles, q, F, <int32_t> k, block.near, block.owner)
        memcpy(space.near + start, block.near, block.n * sizeof(float))
        memcpy(space.owner + start, block.owner, block.n * sizeof(int32_t))
        start += BLOCK
    free(block.position)
    free(block.near)
    free(block.owner)
    free(block.tiles)
    return status


cdef void count(split_space *space, const cover_cell *cell, double threshold, census *known) noexcept nogil:
    """Count covered members; list the uncovered ones from `order_scratch[cell.lo]` on."""
    cdef Py_ssize_t p
    known.covered = known.by_others = known.uncovered = 0
    for p in range(cell.lo, cell.lo + cell.size):
        if space.near[p] <= threshold:
            known.covered += 1
            known.by_others += space.owner[p] > 0
        else:
            space.order_scratch[cell.lo + known.uncovered] = <int32_t> p
            known.uncovered += 1


cdef void give_back(split_space *space, const cover_cell *cell) noexcept nogil:
    """Restore the distances to the cell's own centre after a split that was refused."""
    cdef Py_ssize_t p
    for p in range(cell.lo, cell.lo + cell.size):
        if space.owner[p] > 0:
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
    """Split one cell of positive radius; append its children with `parent` = number."""
    cdef int32_t level
    cdef double threshold = level_at(cell.radius, space.base, &level)
    cdef int status = cover_all(space, centres, cell, threshold) if cell.size > GUARDED \
        else cover_small(space, centres, cell, threshold)
    return hand_out(space, centres, cell, number, level, children) if status == SPLIT_DONE else status


cdef int cover_small(split_space *space, centre_list *centres, const cover_cell *cell,
                     double threshold) noexcept nogil:
    """Choose the centres of a small cell; all its members are candidates."""
    cdef candidate_list *found = &centres.candidates
    cdef Py_ssize_t i
    cdef census known
    if begin(space, centres, cell, &known) != SPLIT_DONE or reserve(found, cell.size, 0) != SPLIT_DONE:
        return SPLIT_MEMORY
    found.n = cell.size
    for i in range(cell.size):
        found.position[i] = <int32_t> (cell.lo + i)
    if choose(space, centres, &known, threshold) != SPLIT_DONE:
        return SPLIT_MEMORY
    memcpy(space.near + cell.lo, found.near, cell.size * sizeof(float))
    memcpy(space.owner + cell.lo, found.owner, cell.size * sizeof(int32_t))
    return SPLIT_DONE


cdef int cover_all(split_space *space, centre_list *centres, const cover_cell *cell, double threshold) noexcept nogil:
    """Choose the centres of a large cell from samples of its uncovered members."""
    cdef census known
    cdef Py_ssize_t first
    cdef float *gaps
    cdef int status = <int> begin(space, centres, cell, &known)
    while status == SPLIT_DONE and known.uncovered:
        first = centres.n
        gaps = NULL
        status = sample(space, centres, cell, &known)
        if status == SPLIT_DONE:
            status = choose(space, centres, &known, threshold)
        if status == SPLIT_DONE and not is_block_worth(space, centres, first):
            status = measure_gaps(space, centres, first, &gaps)
        if status == SPLIT_DONE:
            status = assign(space, centres, first, gaps, cell.lo, cell.lo + cell.size)
        free(gaps)
        if status == SPLIT_DONE:
            count(space, cell, threshold, &known)
    if status == SPLIT_REFUSED:
        give_back(space, cell)
    return status


# ---- columns of the data ---------------------------------------------------------------------------------------------

def column_bounds(const floating[:, ::1] X, Py_ssize_t lo, Py_ssize_t hi):
    """Return the smallest and largest value of each column in the rows lo..hi: (3, F).

    The third row is 0, or NaN where a value of the column is not finite.
    """
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
    """Write X - centre, computed in double, to the rows lo..hi of `out` (float32).

    Returns the sums of the columns.
    """
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
    """List of the cells that one task has made."""

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
    cdef centre_list large          # centres of the large cell that is split now
    cdef float *gaps                # distances between these centres

    def __cinit__(self, const float[:, ::1] rows, double base, Py_ssize_t leaf, Py_ssize_t max_children, double slack,
                  n_threads):
        cdef int32_t[::1] order, owner, order_scratch
        cdef float[::1] near, near_scratch
        self.tree.cells = NULL
        self.tree.n = self.tree.cap = 0
        self.gaps = NULL
        memset(&self.large, 0, sizeof(self.large))
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
        free(self.gaps)

    def measure(self, const float[::1] point, Py_ssize_t lo, Py_ssize_t hi):
        """Write distances from a point to `near`; return the nearest and farthest position."""
        cdef Py_ssize_t p, nearest = lo, F = self.space.F
        with nogil:
            for p in range(lo, hi):
                self.space.near[p] = <float> sqrt(expfam_square_distance(&point[0], self.space.rows + p * F, F))
                if self.space.near[p] < self.space.near[nearest]:
                    nearest = p
        return nearest

    def root(self, point):
        """Make the root; its centre is the vector nearest to a point."""
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

    def subtrees(self, const int32_t[::1] numbers):
        """Build the subtrees of some cells of ordinary size.

        A parent that is one of the new cells is stored as -2 - its index in the result.
        """
        cdef _Children made = _Children()
        cdef centre_list centres
        cdef Py_ssize_t t
        cdef int status = SPLIT_DONE
        cdef cover_cell cell
        cdef cover_cell *whole
        memset(&centres, 0, sizeof(centres))
        with nogil:
            for t in range(numbers.shape[0]):
                cell = self.tree.cells[numbers[t]]
                status = split(&self.space, &centres, &cell, numbers[t], &made.list)
                if status == SPLIT_REFUSED:
                    whole = &self.tree.cells[numbers[t]]
                    whole.flags = whole.flags | UNSPLITTABLE
                elif status == SPLIT_MEMORY:
                    break
            t = 0
            while t < made.list.n and status != SPLIT_MEMORY:
                cell = made.list.cells[t]  # a copy, because the list may be reallocated
                if cell.size > self.leaf and cell.radius > 0.0:
                    status = split(&self.space, &centres, &cell, -2 - t, &made.list)
                    if status == SPLIT_REFUSED:
                        whole = &made.list.cells[t]
                        whole.flags = whole.flags | UNSPLITTABLE
                t += 1
        free_centres(&centres)
        if status == SPLIT_MEMORY:
            raise MemoryError("no memory for the cells of a cover tree")
        return made

    def assign_chunk(self, Py_ssize_t first, Py_ssize_t lo, Py_ssize_t hi):
        """Run `assign` for one chunk of a large cell."""
        cdef int status
        with nogil:
            status = assign(&self.space, &self.large, first, self.gaps, lo, hi)
        if status != SPLIT_DONE:
            raise MemoryError("no memory for the members of a cover tree's cell")

    def cover_large(self, Py_ssize_t number):
        """Choose the centres of a large cell with passes over several threads.

        Returns whether the cell can be split.
        """
        cdef cover_cell cell = self.tree.cells[number]
        cdef census known
        cdef int32_t level
        cdef Py_ssize_t first
        cdef double threshold = level_at(cell.radius, self.space.base, &level)
        cdef int status = <int> begin(&self.space, &self.large, &cell, &known)
        bounds = chunks(cell.lo, cell.lo + cell.size)
        while status == SPLIT_DONE and known.uncovered:
            first = self.large.n
            with nogil:
                status = sample(&self.space, &self.large, &cell, &known)
                if status == SPLIT_DONE:
                    status = choose(&self.space, &self.large, &known, threshold)
                if status == SPLIT_DONE and not is_block_worth(&self.space, &self.large, first):
                    status = measure_gaps(&self.space, &self.large, first, &self.gaps)
            if status == SPLIT_DONE:
                run(self.assign_chunk, [(first, lo, hi) for lo, hi in bounds], self.n_threads)
                count(&self.space, &cell, threshold, &known)
            free(self.gaps)
            self.gaps = NULL
        if status == SPLIT_MEMORY:
            raise MemoryError("no memory for the centres of a cover tree")
        if status == SPLIT_REFUSED:
            give_back(&self.space, &cell)
        return status == SPLIT_DONE

    def large_cell(self, Py_ssize_t number):
        """Split one large cell and return its children."""
        cdef _Children made = _Children()
        cdef cover_cell cell = self.tree.cells[number]
        cdef int32_t level
        if not self.cover_large(number):
            self.tree.cells[number].flags |= UNSPLITTABLE
            return made
        level_at(cell.radius, self.space.base, &level)
        if hand_out(&self.space, &self.large, &cell, number, level, &made.list) != SPLIT_DONE:
            raise MemoryError("no memory for the cells of a cover tree")
        return made

    cdef adopt(self, _Children made):
        """Number the cells of a task and link them to their parents."""
        cdef Py_ssize_t t, number, offset = self.tree.n
        cdef cover_cell child
        for t in range(made.list.n):
            child = made.list.cells[t]
            if child.parent < 0:
                child.parent = <int32_t> (offset - 2 - child.parent)
            number = self.tree.n
            if self.tree.cells[child.parent].child < 0:
                self.tree.cells[child.parent].child = <int32_t> number
            else:
                self.tree.cells[number - 1].next = <int32_t> number
            if append_cell(&self.tree, &child) != SPLIT_DONE:
                raise MemoryError("no memory for the cells of a cover tree")

    def grow(self):
        """Split the large cells one by one, then build the subtrees of all others in tasks."""
        cdef Py_ssize_t c = 0, weight = 0
        cdef cover_cell cell
        tasks, pack = [], []
        while c < self.tree.n:
            cell = self.tree.cells[c]
            if cell.size > LARGE and cell.radius > 0.0:
                self.adopt(self.large_cell(c))
            elif cell.size > self.leaf and cell.radius > 0.0:
                pack.append(c)
                weight += cell.size
                if weight >= GUARDED:
                    tasks.append((np.array(pack, dtype=np.int32),))
                    pack, weight = [], 0
            c += 1
        if pack:
            tasks.append((np.array(pack, dtype=np.int32),))
        for made in run(self.subtrees, tasks, self.n_threads):
            self.adopt(made)

    def result(self):
        """Return the cells, the rows in tree order, and their distances to the leaf's centre."""
        cells = np.empty(self.tree.n, dtype=CELL)
        cdef char[::1] view = cells.view(np.int8)
        memcpy(&view[0], self.tree.cells, self.tree.n * sizeof(cover_cell))
        return cells, self.arrays[0][0].copy(), self.arrays[1][0].copy()


def chunks(lo, hi):
    """Return the bounds of the chunks of a long pass; they depend on its length alone."""
    return [(start, min(start + CHUNK, hi)) for start in range(lo, hi, CHUNK)]


def build(rows, *, base, leaf, max_children, slack, n_threads):
    """Build a cover tree over float32 vectors (N, F).

    `slack` is the relative error of a computed distance. Return cells (C,) of `CELL`, where parents come before
    children and the children of a cell are consecutive; the row at each position of the tree (N,) int32; and its
    distance to the centre of its leaf (N,) float32, by position.
    """
    work = _Build(rows, base, leaf, max_children, slack, n_threads)
    sums = run(lambda lo, hi: rows[lo:hi].sum(axis=0, dtype=np.float64), segments(len(rows)), n_threads)
    work.root((np.sum(sums, axis=0) / len(rows)).astype(np.float32))
    work.grow()
    return work.result()
