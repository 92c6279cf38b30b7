"""Scores of rows under many points: those near the best one exactly, others by bounds.

Products of integers bound all scores <x, theta_k> + c_k, see `expfam.structures.rows.byte_codes`. Responsibilities
below exp(-30) are lost in single precision beside the largest one: soft steps need no better scores of such clusters.
"""

import numpy as np

from libc.string cimport memcpy

from expfam.structures.rows.byte_codes cimport CodedRows, ScoredPoints
from expfam.structures.simd.float_dots cimport expfam_float_dots

from expfam.structures.rows.byte_codes import column_scales, has_byte_products, suits_codes

cdef enum:
    ROWS = 32               # that are multiplied together
    MOST_SHARE = 12         # a score alone takes the time that integers save in so many
    MOST_SKIPPED = 63
cdef float NEVER = -1e30    # bias of points without weight


def may_code(n_points, n_columns):
    """Tell whether integers may save time for rows of so many columns and so many points."""
    return has_byte_products() and suits_codes(n_points, n_columns, is_soft=True)


cdef class NearScores:
    """Parameters in single precision, and their codes.

    Parameters
    ----------
    theta : (K, F) float32 ndarray
    c : (K,) float32 ndarray
    spread : (F,) ndarray
        Sizes of the entries of rows in each column.
    """

    def __init__(self, theta, c, spread):
        cdef Py_ssize_t k
        cdef float[:, ::1] balanced
        self.theta, self.c = theta, np.maximum(c, NEVER)
        self.K, self.F = theta.shape
        scale = column_scales(np.maximum(theta.max(axis=0), -theta.min(axis=0)), spread).astype(np.float32)
        self.points, self.scale, balanced = ScoredPoints(self.K, self.F), scale, theta / scale
        for k in range(self.K):
            self.points.put_scored(k, &balanced[k, 0], self.c[k], 0.0)

    cdef Py_ssize_t write(self, NearScratch w, const float *x, Py_ssize_t stride, Py_ssize_t n, float depth, float *out,
                          Py_ssize_t width, unsigned char *is_open) noexcept nogil:
        cdef Py_ssize_t first = 0, i, j, m, n_open = 0, n_block
        cdef const float *row
        cdef float *scores
        while first < n:
            n_block = min(n - first, <Py_ssize_t> ROWS)
            for i in range(n_block):
                row = x + (first + i) * stride
                for j in range(self.F):
                    w.balanced[j] = row[j] * self.scale[j]
                w.rows.put(i, &w.balanced[0])
            self.points.multiply(w.rows, n_block, &w.products[0, 0], self.points.width)
            for i in range(n_block):
                m = self.points.near(w.rows, i, &w.products[i, 0], depth, 0.0, &w.places[0])
                w.n_rows += 1
                w.n_near += m if m else self.K
                is_open[first + i] = m == 0 or m * MOST_SHARE > self.K
                if is_open[first + i]:
                    n_open += 1
                    continue
                scores = out + (first + i) * width
                memcpy(scores, &w.products[i, 0], self.K * sizeof(float))
                expfam_float_dots(x + (first + i) * stride, self.F, &self.theta[0, 0], &w.places[0], m, &w.dots[0])
                for j in range(m):
                    scores[w.places[j]] = w.dots[j] + self.c[w.places[j]]
            first += n_block
        return n_open

    def score(self, const float[:, ::1] X, float[:, ::1] out, NearScratch scratch, depth=30.0):
        """Write the scores (n, K) of rows where that saves time; return whether it was done.

        The first rows show it; where it saves none, it is not tried in some of the next calls with the same scratch.

        Parameters
        ----------
        X : (n, F) float32 ndarray
        out : (n, K) float32 ndarray
        scratch : NearScratch
        depth : float
            Scores that lie farther below the best one of a row are upper bounds.

        Returns
        -------
        bool
        """
        cdef Py_ssize_t n = X.shape[0], first = 0, last, n_open
        cdef float reach = depth
        cdef bint pays = True
        if scratch.n_skipped < scratch.skips:
            scratch.n_skipped += 1
            return False
        scratch.n_rows = scratch.n_near = 0
        with nogil:
            while first < n and pays:
                last = min(first + ROWS, n)
                n_open = self.write(scratch, &X[first, 0], self.F, last - first, reach, &out[first, 0], self.K,
                                    &scratch.is_open[0])
                pays = scratch.pays(self.K)
                if pays and n_open:
                    self.complete(scratch, X, first, last, out)
                first = last
        scratch.n_tried += scratch.n_rows
        scratch.skips, scratch.n_skipped = 0 if pays else min(2 * scratch.skips + 1, <Py_ssize_t> MOST_SKIPPED), 0
        return pays

    cdef void complete(self, NearScratch w, const float[:, ::1] X, Py_ssize_t first, Py_ssize_t last,
                       float[:, ::1] out) noexcept nogil:
        """Compute all scores of the rows that are marked, of first..last-1."""
        cdef Py_ssize_t i, k
        for i in range(first, last):
            if w.is_open[i - first]:
                expfam_float_dots(&X[i, 0], self.F, &self.theta[0, 0], &w.every[0], self.K, &out[i, 0])
                for k in range(self.K):
                    out[i, k] += self.c[k]


cdef class NearScratch:
    """Working memory of one thread."""

    def __init__(self, NearScores scores):
        width = scores.points.width
        self.rows, self.n_rows, self.n_near, self.n_tried = CodedRows(ROWS, scores.F), 0, 0, 0
        self.balanced = np.empty(scores.F, dtype=np.float32)
        self.products, self.dots = np.empty((ROWS, width), np.float32), np.empty(width, np.float32)
        self.places, self.every = np.empty(width + 1, dtype=np.int32), np.arange(scores.K, dtype=np.int32)
        self.is_open, self.skips, self.n_skipped = np.empty(ROWS, dtype=np.uint8), 0, 0

    cdef bint pays(self, Py_ssize_t K) noexcept nogil:
        return self.n_near * MOST_SHARE <= self.n_rows * K
