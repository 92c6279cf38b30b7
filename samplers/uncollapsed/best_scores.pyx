"""Scores of the rows of a tile in their best clusters, in double precision.

Statistics are those of the tile: centred, and rounded to single precision. What rounding adds to a score is at most
2^-24 of the size of its terms, and rows where this may matter are marked as rough. Rows of one cluster follow each
other, so that its parameters are read once for all of them.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memset

from expfam.structures.ground.arrays cimport in_lines

cdef extern from *:
    """
    #include "dispatch.h"

    #define EXPFAM_DOT_NARROW(NAME, TARGET)                                                                           \
        TARGET static double NAME(const float *x, const double *theta, ptrdiff_t n) {                                 \
            double sum = 0.0;                                                                                         \
            EXPFAM_SIMD_SUM(sum)                                                                                      \
            for (ptrdiff_t j = 0; j < n; j++) sum += x[j] * theta[j];                                                 \
            return sum;                                                                                               \
        }
    EXPFAM_INSTANCES(EXPFAM_DOT_NARROW, double, expfam_dot_narrow, (const float *, const double *, ptrdiff_t))

    #define EXPFAM_CENTRED(NAME, TARGET)                                                                              \
        TARGET static void NAME(const double *x, const double *origin, const double *factor, double *out,             \
                                ptrdiff_t n) {                                                                        \
            EXPFAM_SIMD                                                                                               \
            for (ptrdiff_t j = 0; j < n; j++) out[j] = (x[j] - origin[j]) * factor[j];                                \
        }
    EXPFAM_INSTANCES(EXPFAM_CENTRED, void, expfam_centred,
                     (const double *, const double *, const double *, double *, ptrdiff_t))
    """
    void (*expfam_centred)(const double *x, const double *origin, const double *factor, double *out,
                           Py_ssize_t n) noexcept nogil
    double (*expfam_dot_narrow)(const float *x, const double *theta, Py_ssize_t n) noexcept nogil


cdef class BestScores:
    """What is needed to score the rows of one tile after the other.

    Parameters
    ----------
    scores : DenseScores
        Of dense statistics.
    """

    def __init__(self, DenseScores scores):
        rows = scores.tile_rows
        self.scores = scores
        self.arrays = (
            1.0 / scores.scale, in_lines(scores.F), in_lines(rows), in_lines(scores.K + 1, np.int32),
            in_lines(rows, np.int32),
        )
        self.factor, self.theta, self.values, self.starts, self.rows = self.arrays

    cdef void sort(self, Tile tile, const int32_t[::1] labels) noexcept nogil:
        """List the rows that are not rough by cluster; each start becomes the end of its cluster."""
        cdef Py_ssize_t i, k
        memset(&self.starts[0], 0, self.starts.shape[0] * sizeof(int32_t))
        for i in range(labels.shape[0]):
            if not tile.rough_view[i]:
                self.starts[labels[i] + 1] += 1
        for k in range(self.scores.K):
            self.starts[k + 1] += self.starts[k]
        for i in range(labels.shape[0]):
            if not tile.rough_view[i]:
                k = labels[i]
                self.rows[self.starts[k]] = <int32_t> i
                self.starts[k] += 1

    cdef double total(self, Tile tile, const double[::1] weight, const int32_t[::1] labels,
                      Py_ssize_t place) noexcept nogil:
        """Return the sum of weights times scores of rows in the clusters of their labels.

        The rows of the tile begin at `place`; rough rows have no score.
        """
        cdef Py_ssize_t i, k, e, F = self.scores.F, at = 0
        cdef double total = 0.0
        self.sort(tile, labels)
        for k in range(self.scores.K):
            if self.starts[k] == at:
                continue
            expfam_centred(self.scores.theta_at + k * F, self.scores.origin_at, &self.factor[0], &self.theta[0], F)
            for e in range(at, self.starts[k]):
                i = self.rows[e]
                self.values[i] = expfam_dot_narrow(&tile.phi_view[place + i, 0], &self.theta[0], F)
                self.values[i] += tile.offsets[i] + self.scores.shifted_at[k]
            at = self.starts[k]
        for i in range(labels.shape[0]):        # in the order of the rows
            if not tile.rough_view[i]:
                total += weight[i] * self.values[i]
        return total
