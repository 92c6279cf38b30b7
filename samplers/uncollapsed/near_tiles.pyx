"""Scores of the rows of a tile: those near the best one exactly, others by bounds.

A row of which many scores are near takes those of the product of the whole tile. Whether it does depends on this row
and the parameters alone, and whether bounds are tried depends on the parameters: so bits do not depend on how the data
are cut into parts.
"""

import numpy as np

from libc.string cimport memcpy

from expfam.samplers.uncollapsed.dense cimport DENSE_NEVER, DenseScores, Tile
from expfam.structures.rows.near_scores cimport NearScores, NearScratch

from expfam.families.support import dense_rows
from expfam.structures.rows.near_scores import may_code

cdef float DEPTH = 31.0         # nats; more than those below which responsibilities are lost
cdef float APART = 60.0         # between the means of clusters, whose rows lie nearer to other clusters

_LEAST_WEIGHT = 4096.0          # of the data: codes of parameters take the time of a few hundred rows
_MEANS = 64                     # clusters at whose means the numbers of near scores are counted


def near_scores(DenseScores scores, state):
    """Return what scores rows by bounds if clusters lie far enough apart, or None.

    Parameters
    ----------
    scores : DenseScores
    state : UncollapsedState
        With the statistics and the parameters of the scores.
    """
    if scores.sparse or not scores.fits or not may_code(scores.K, scores.F) or not state.n.sum() >= _LEAST_WEIGHT:
        return None
    used = np.flatnonzero(state.n > 0.0)
    chosen = used[:: max(1, used.size // _MEANS)]
    means = dense_rows(state.S[chosen]) / state.n[chosen, None]
    narrow = ((means - scores.centre) * scores.scale).astype(np.float32)
    theta = np.ascontiguousarray(scores.table[: scores.F, : scores.K].T)
    near = NearScores(theta, scores.row_bias[: scores.K], np.sqrt(np.square(narrow, dtype=np.float64).mean(axis=0)))
    cdef float[:, ::1] rows = narrow
    cdef float[:, ::1] out = np.empty((rows.shape[0], scores.K), dtype=np.float32)
    cdef unsigned char[::1] is_open = np.empty(rows.shape[0], dtype=np.uint8)
    cdef NearScratch scratch = NearScratch(near)
    cdef NearScores each = near
    each.write(scratch, &rows[0, 0], scores.F, rows.shape[0], APART, &out[0, 0], scores.K, &is_open[0])
    return near if scratch.pays(scores.K) else None


cdef class NearTile:
    """Working memory of one thread.

    Parameters
    ----------
    scores : DenseScores
    near : NearScores
        Of the same parameters.
    """

    def __init__(self, DenseScores scores, NearScores near):
        self.scores, self.near, self.scratch, self.whole = scores, near, NearScratch(near), None
        self.is_open = self.marks = np.empty(scores.tile_rows, dtype=np.uint8)

    cdef int write(self, Tile tile, Py_ssize_t place, Py_ssize_t n) except -1:
        """Write the scores of n narrowed rows of a tile, from `place` on."""
        cdef Py_ssize_t i, k, n_open, width = self.scores.width
        cdef float[:, ::1] whole
        with nogil:
            n_open = self.near.write(self.scratch, &tile.phi_view[place, 0], self.scores.F + 1, n, DEPTH,
                                     &tile.score_view[place, 0], width, &self.is_open[0])
            for i in range(n):
                for k in range(self.scores.K, width):
                    tile.score_view[place + i, k] = DENSE_NEVER
        if not n_open:
            return 0
        if self.whole is None:
            self.whole = np.empty_like(tile.scores)
        np.matmul(tile.phi, self.scores.table, out=self.whole)
        whole = self.whole
        for i in range(n):
            if self.is_open[i]:
                memcpy(&tile.score_view[place + i, 0], &whole[place + i, 0], width * sizeof(float))
        return 0
