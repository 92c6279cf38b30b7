"""Nearest rows of several queries by products with all rows, where boxes leave out few.

A product with 32 queries reads the rows once for all of them. Products are in single precision and cancel, so they only
leave rows out, by a bound of their rounding; the distances that decide are those of `CoverTree`, to the bit.

The squared distance less |q|^2 is |x|^2 - 2 <q, x>. A sum of F products has a relative error of at most (F + 2) 2^-24
of (|q| + |x|)^2, and the slack of the tree is more than that.
"""

import numpy as np

from libc.math cimport INFINITY, sqrt
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

from expfam.structures.cover_tree.boxes cimport PackedBoxes
from expfam.structures.cover_tree.neighbours cimport neighbour, offer, sort_found
from expfam.structures.simd.distance cimport expfam_square_distance
from expfam.structures.simd.near_rows cimport EXPFAM_NEAR_POINTS, EXPFAM_NEAR_ROWS, expfam_rows_within

cdef enum:
    CHUNK = 16                                      # tiles that are compared before limits are lowered
    MOST_FOUND = CHUNK * EXPFAM_NEAR_ROWS * EXPFAM_NEAR_POINTS


cdef class TileProducts:
    """Tiles of rows with their squared lengths, for many queries at once.

    Parameters
    ----------
    boxes : PackedBoxes
        They hold the rows in tiles.
    """

    def __init__(self, PackedBoxes boxes):
        tiles = boxes.arrays[3]
        self.boxes, self.n_tiles = boxes, tiles.shape[0]
        norms = np.square(tiles).sum(axis=1)
        n_chunks = (self.n_tiles + CHUNK - 1) // CHUNK
        largest = np.zeros((n_chunks, CHUNK))
        largest.ravel()[: self.n_tiles] = np.where(np.isfinite(norms), norms, 0.0).max(axis=1)
        lengths = np.sqrt(largest.max(axis=1)) * (1.0 + boxes.slack)
        self.arrays = [norms, lengths]
        cdef const float[:, ::1] of_rows = norms
        cdef const double[::1] of_chunks = lengths
        self.norms, self.lengths = &of_rows[0, 0], &of_chunks[0]

    cdef int nearest(self, const float *Q, Py_ssize_t n_queries, Py_ssize_t k, neighbour *found,
                     Py_ssize_t *sizes) noexcept nogil:
        """Write the k nearest data of each of up to 32 queries to `found`, sorted.

        Their numbers go to `sizes`. Return -1 without memory, and 0 otherwise.
        """
        cdef Py_ssize_t F = self.boxes.F, tile, n, c, i, j, p
        cdef float most[EXPFAM_NEAR_POINTS]
        cdef double length[EXPFAM_NEAR_POINTS]
        cdef double square
        cdef float *points = <float *> malloc(F * EXPFAM_NEAR_POINTS * sizeof(float))
        cdef int32_t *pairs = <int32_t *> malloc(MOST_FOUND * sizeof(int32_t))
        if points == NULL or pairs == NULL:
            free(points)
            free(pairs)
            return -1
        for i in range(EXPFAM_NEAR_POINTS):
            most[i], length[i] = -INFINITY, 0.0
            for j in range(F):
                points[j * EXPFAM_NEAR_POINTS + i] = -2.0 * Q[i * F + j] if i < n_queries else 0.0
                length[i] += <double> points[j * EXPFAM_NEAR_POINTS + i] * points[j * EXPFAM_NEAR_POINTS + i]
            length[i] = 0.5 * sqrt(length[i])
        for i in range(n_queries):
            sizes[i] = 0
        tile = 0
        while tile < self.n_tiles:
            for i in range(n_queries):
                most[i] = self._limit(length[i], found[i * k].square if sizes[i] == k else INFINITY, tile // CHUNK)
            n = expfam_rows_within(points, n_queries, F, self.boxes.tiles + tile * F * EXPFAM_NEAR_ROWS,
                                   self.norms + tile * EXPFAM_NEAR_ROWS, min(<Py_ssize_t> CHUNK, self.n_tiles - tile),
                                   most, pairs)
            for c in range(n):
                i = pairs[c] % EXPFAM_NEAR_POINTS
                p = self.boxes.position[tile * EXPFAM_NEAR_ROWS + pairs[c] // EXPFAM_NEAR_POINTS]
                if p < 0:
                    continue
                square = expfam_square_distance(Q + i * F, self.boxes.rows + p * F, F)
                if sizes[i] < k or square <= found[i * k].square:
                    sizes[i] = offer(found + i * k, sizes[i], k, neighbour(square, self.boxes.ids[p]))
            tile += CHUNK
        for i in range(n_queries):
            sort_found(found + i * k, sizes[i])
        free(points)
        free(pairs)
        return 0

    cdef float _limit(self, double length, double worst, Py_ssize_t chunk) noexcept nogil:
        """Return the largest product of a row that may be as near as the farthest of those found."""
        cdef double slack = self.boxes.slack, reach = length + self.lengths[chunk]
        if worst == INFINITY:
            return <float> INFINITY
        worst = worst * (1.0 + 4.0 * slack) + 2.0 * slack * reach * reach
        return <float> (worst - length * length)
