"""Nearest rows of few columns by boxes, sixteen at a time.

Rows are cut at medians of their widest columns into tiles of sixteen. Each tile has a box, sixteen tiles a box, sixteen
of these a box, and so on. A query computes its distances to sixteen boxes together, and visits the near ones first.
Distances that decide are those of `CoverTree`, to the bit; boxes only leave rows out.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from expfam.structures.cover_tree.neighbours cimport neighbour, offer, sort_found
from expfam.structures.simd.boxes cimport EXPFAM_BOX_LANES, expfam_box_squares, expfam_point_squares
from expfam.structures.simd.distance cimport expfam_square_distance

cdef enum:
    MOST_WAITING = 16 * (MOST_LEVELS + 1)


# ---- building --------------------------------------------------------------------------------------------------------

cdef Py_ssize_t widest(const float *rows, const int32_t *order, Py_ssize_t lo, Py_ssize_t hi,
                       Py_ssize_t F) noexcept nogil:
    """Return the column of largest range of the rows order[lo:hi]."""
    cdef Py_ssize_t f, i, best = 0
    cdef float low, high, x, most = -1.0
    for f in range(F):
        low = high = rows[order[lo] * F + f]
        for i in range(lo + 1, hi):
            x = rows[order[i] * F + f]
            low = x if x < low else low
            high = x if x > high else high
        if high - low > most:
            most = high - low
            best = f
    return best


cdef void part(const float *x, int32_t *order, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t at,
               Py_ssize_t F) noexcept nogil:
    """Move rows within [lo, hi): none before `at` has then a larger value than one from `at` on.

    x[i F] is the value of row i.
    """
    cdef Py_ssize_t i, j
    cdef float middle
    cdef int32_t other
    hi -= 1
    while lo < hi:
        middle = x[order[(lo + hi) // 2] * F]
        i, j = lo, hi
        while i <= j:
            while x[order[i] * F] < middle:
                i += 1
            while x[order[j] * F] > middle:
                j -= 1
            if i <= j:
                other = order[i]
                order[i] = order[j]
                order[j] = other
                i += 1
                j -= 1
        if at <= j:
            hi = j
        elif at >= i:
            lo = i
        else:
            return


cdef void cut(const float *rows, int32_t *order, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t F) noexcept nogil:
    """Sort rows into tiles.

    The first part of a cut has the largest power of two of tiles that is less than all. So every sixteen tiles, and
    every sixteen of these, are rows that were cut from the others.
    """
    cdef Py_ssize_t half, column
    while hi - lo > EXPFAM_BOX_LANES:
        half = EXPFAM_BOX_LANES
        while 2 * half < hi - lo:
            half *= 2
        column = widest(rows, order, lo, hi, F)
        part(rows + column, order, lo, hi, lo + half, F)
        cut(rows, order, lo, lo + half, F)
        lo += half


cdef void lay_out(const float *rows, const int32_t *order, Py_ssize_t n, Py_ssize_t F, float *tiles,
                  float *boxes) noexcept nogil:
    """Write the rows to their tiles, and the box of each tile."""
    cdef Py_ssize_t i, f, tile, lane
    cdef float x
    cdef float *box
    for i in range(n):
        tile, lane = i // EXPFAM_BOX_LANES, i % EXPFAM_BOX_LANES
        box = boxes + tile // EXPFAM_BOX_LANES * 2 * F * EXPFAM_BOX_LANES + tile % EXPFAM_BOX_LANES
        for f in range(F):
            x = rows[order[i] * F + f]
            tiles[(tile * F + f) * EXPFAM_BOX_LANES + lane] = x
            box[f * EXPFAM_BOX_LANES] = min(box[f * EXPFAM_BOX_LANES], x)
            box[(F + f) * EXPFAM_BOX_LANES] = max(box[(F + f) * EXPFAM_BOX_LANES], x)


cdef void gather(const float *below, Py_ssize_t n_groups, Py_ssize_t F, float *boxes) noexcept nogil:
    """Write the box around each group of sixteen boxes."""
    cdef Py_ssize_t group, f, lane
    cdef const float *own
    cdef float *box
    for group in range(n_groups):
        own = below + group * 2 * F * EXPFAM_BOX_LANES
        box = boxes + group // EXPFAM_BOX_LANES * 2 * F * EXPFAM_BOX_LANES + group % EXPFAM_BOX_LANES
        for f in range(F):
            for lane in range(EXPFAM_BOX_LANES):
                box[f * EXPFAM_BOX_LANES] = min(box[f * EXPFAM_BOX_LANES], own[f * EXPFAM_BOX_LANES + lane])
                box[(F + f) * EXPFAM_BOX_LANES] = max(box[(F + f) * EXPFAM_BOX_LANES],
                                                      own[(F + f) * EXPFAM_BOX_LANES + lane])


def _empty_boxes(n, F):
    """Return groups of sixteen empty boxes for n of them: (groups, 2 F, 16)."""
    boxes = np.empty(((n + EXPFAM_BOX_LANES - 1) // EXPFAM_BOX_LANES, 2 * F, EXPFAM_BOX_LANES), dtype=np.float32)
    boxes[:, :F], boxes[:, F:] = np.inf, -np.inf
    return boxes


cdef class PackedBoxes:
    """Boxes of rows, for their nearest neighbours.

    Parameters
    ----------
    rows : (N, F) float32 ndarray
    ids : (N,) int32 ndarray
        Datum of each row.
    slack : float
        Relative error of a computed distance.
    """

    def __init__(self, const float[:, ::1] rows, const int32_t[::1] ids, double slack):
        cdef Py_ssize_t N = rows.shape[0], F = rows.shape[1], n_tiles = (N + EXPFAM_BOX_LANES - 1) // EXPFAM_BOX_LANES
        cdef Py_ssize_t n_groups
        positions = np.full(n_tiles * EXPFAM_BOX_LANES, -1, dtype=np.int32)
        positions[:N] = np.arange(N)
        tiles = np.full((n_tiles, F, EXPFAM_BOX_LANES), np.inf, dtype=np.float32)
        cdef int32_t[::1] order = positions
        cdef float[:, :, ::1] tile = tiles, box = _empty_boxes(n_tiles, F), above
        with nogil:
            cut(&rows[0, 0], &order[0], 0, N, F)
            lay_out(&rows[0, 0], &order[0], N, F, &tile[0, 0, 0], &box[0, 0, 0])
        self.arrays = [rows.base, ids.base, positions, tiles, box.base]
        self.rows, self.ids, self.F, self.slack = &rows[0, 0], &ids[0], F, slack
        self.tiles, self.position = &tile[0, 0, 0], &order[0]
        self.boxes[0], self.n_levels = &box[0, 0, 0], 1
        while box.shape[0] > 1:
            n_groups = box.shape[0]
            above = _empty_boxes(n_groups, F)
            gather(&box[0, 0, 0], n_groups, F, &above[0, 0, 0])
            self.arrays.append(above.base)
            self.boxes[self.n_levels] = &above[0, 0, 0]
            self.n_levels += 1
            box = above

    # ---- search ------------------------------------------------------------------------------------------------------

    cdef Py_ssize_t nearest(self, const float *q, Py_ssize_t k, neighbour *found, Py_ssize_t *n_read) noexcept nogil:
        """Write the k nearest data to `found`, sorted by (distance, id); return their number.

        The number of groups of boxes and of tiles that were read is added to `n_read`.
        """
        cdef waiting stack[MOST_WAITING]
        cdef float squares[EXPFAM_BOX_LANES]
        cdef Py_ssize_t n_waiting = 1, first, at, size = 0, F = self.F
        cdef int lane
        cdef float limit = INFINITY
        cdef waiting now
        stack[0].square, stack[0].level, stack[0].place = 0.0, self.n_levels - 1, 0
        while n_waiting:
            n_waiting -= 1
            now = stack[n_waiting]
            if now.square > limit:
                continue
            n_read[0] += 1
            if now.level < 0:
                size = self._read_tile(q, k, found, size, now.place, &limit)
                continue
            expfam_box_squares(self.boxes[now.level] + now.place * 2 * F * EXPFAM_BOX_LANES, q, F, squares)
            first = n_waiting
            for lane in range(EXPFAM_BOX_LANES):
                if not squares[lane] <= limit or squares[lane] == INFINITY:     # infinite: no box
                    continue
                at = n_waiting
                while at > first and stack[at - 1].square < squares[lane]:
                    stack[at] = stack[at - 1]
                    at -= 1
                stack[at].square, stack[at].level = squares[lane], now.level - 1
                stack[at].place = now.place * EXPFAM_BOX_LANES + lane
                n_waiting += 1
        sort_found(found, size)
        return size

    cdef Py_ssize_t _read_tile(self, const float *q, Py_ssize_t k, neighbour *found, Py_ssize_t size, Py_ssize_t tile,
                               float *limit) noexcept nogil:
        """Offer the rows of a tile; return how many data are found, and lower the limit."""
        cdef float squares[EXPFAM_BOX_LANES]
        cdef int lane
        cdef Py_ssize_t p, F = self.F
        cdef double square
        expfam_point_squares(self.tiles + tile * F * EXPFAM_BOX_LANES, q, F, squares)
        for lane in range(EXPFAM_BOX_LANES):
            if not squares[lane] <= limit[0]:
                continue
            p = self.position[tile * EXPFAM_BOX_LANES + lane]
            if p < 0:
                continue
            square = expfam_square_distance(q, self.rows + p * F, F)
            if size < k or square <= found[0].square:
                size = offer(found, size, k, neighbour(square, self.ids[p]))
                if size == k:
                    limit[0] = <float> (found[0].square * (1.0 + 4.0 * self.slack))
        return size
