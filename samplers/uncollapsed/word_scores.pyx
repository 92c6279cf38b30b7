"""Scores of rows of counts from lists of the components that differ at each column.

A score is the log weight of a component, minus the sum of the counts times its level, plus the counts times what its
parameters are above those of empty sums. So a row costs O(K) and the lists of its columns; see
`expfam.samplers.uncollapsed.listed_parameters`. Columns that differ in many components have rows of a table too.
"""

import numpy as np

from libc.math cimport ceil, fabs
from libc.stdint cimport int32_t, int64_t, uint16_t

from expfam.families.counts.long_lists cimport place_of
from expfam.samplers.uncollapsed.dense cimport DENSE_HOPELESS, DENSE_LANES, DENSE_NEVER, DenseScores
from expfam.structures.simd.dense_scores cimport expfam_add_scaled

from expfam.families.counts.natural_cells import LIST_SHARE, at_columns, long_lists
from expfam.samplers.uncollapsed.listed_parameters import ListedParameters


cdef enum:
    MOST_STEPS = 65535      # of a number of 16 bits


def scores_of(data, state, occurring=None):
    """Return the scores of rows under the parameters of a state.

    Parameters
    ----------
    data : Dataset
        Its statistics have all columns, or those of `occurring`.
    state : object
        Its `Theta`, `G`, `log_pi`, `n` and `S` are those of all data.
    occurring : OccurringColumns, optional
    """
    if isinstance(state.Theta, ListedParameters):
        return WordScores(data, state.Theta, state.log_pi, occurring)
    Theta = state.Theta if occurring is None else np.take(state.Theta, occurring.columns, axis=1)
    return DenseScores(data, Theta, state.G, state.log_pi, state.n, state.S)


ctypedef fused index_kind:
    int32_t
    int64_t


def largest_of_lists(const index_kind[::1] starts, const double[::1] values, double step, uint16_t[::1] out):
    """Write the largest number of each list in whole steps, rounded up: at most 65,535."""
    cdef Py_ssize_t w, e
    cdef double most
    with nogil:
        for w in range(out.shape[0]):
            most = 0.0
            for e in range(starts[w], starts[w + 1]):
                most = max(most, values[e])
            out[w] = <uint16_t> min(ceil(most / step), <double> MOST_STEPS)


cdef class WordScores(DenseScores):
    """Scores of CSR rows; the interface is that of `DenseScores`.

    Parameters
    ----------
    data : Dataset
    parameters : ListedParameters
    log_pi : (K,) float64 ndarray
    occurring : OccurringColumns or None
        Columns of the statistics of `data`; all if None.
    """

    def __init__(self, data, parameters, log_pi, occurring):
        empty, starts, clusters, above = self._lists_of(parameters, occurring)
        if occurring is not None:
            empty = np.broadcast_to(at_columns(empty, occurring.columns), occurring.columns.size)
        self.data, self.sparse, self.Theta = data, True, parameters
        self.K, self.F = parameters.shape[0], len(starts) - 1
        self.width = (self.K + DENSE_LANES - 1) // DENSE_LANES * DENSE_LANES
        self.bias = np.ascontiguousarray(log_pi - parameters.g)
        self.fits = bool(np.isfinite(self.bias.max()) and not np.isnan(self.bias).any())
        self._bound(starts, above, parameters.level)
        self._list(starts, clusters, above, empty, parameters.level)
        self._narrow_biases(parameters.level)

    @staticmethod
    def _lists_of(parameters, occurring):
        """Return the parameters of empty sums, and the lists: starts, components and what is above."""
        empty, by_column = parameters.by_column(occurring)
        kind = np.uint16 if by_column.shape[0] <= MOST_STEPS else np.int32
        return empty, by_column.indptr, by_column.indices.astype(kind, copy=False), by_column.data

    def _bound(self, starts, above, level):
        """Take bounds of the differences of two parameters of a column, in two bytes each.

        They tell only which rows single precision cannot hold, and are too large by 2e-5 of the largest one at most.
        """
        largest = float(above.max(initial=0.0))
        self.fits = self.fits and np.isfinite(largest)
        self.step = max(largest, 1e-300) / MOST_STEPS
        steps = np.zeros(self.F, dtype=np.uint16)
        if self.fits:
            largest_of_lists(starts, above, self.step, steps)
        self.steps, self.level_range = steps, level.max() - level.min()

    def _list(self, starts, clusters, above, empty, level):
        """Take the lists, and write long ones to a table."""
        cdef const int32_t[::1] narrow
        cdef const int64_t[::1] wide
        self.long_columns, rows = long_lists(self.K, starts, clusters, above)
        table = np.zeros((len(rows), self.width), dtype=np.float32)
        table[:, : self.K] = rows
        self.most, self.long_lists, self.level, self.empty = self.K // LIST_SHARE, table, level, empty
        self.is_narrow = clusters.dtype == np.uint16
        if self.is_narrow:
            self.clusters = clusters
        else:
            self.wide_clusters = clusters
        self.above, self.arrays = above, starts     # whose first number is pointed at
        if starts.dtype == np.int32:
            narrow = starts
            self.starts, self.wide_starts = &narrow[0], NULL
        else:
            wide = starts
            self.starts, self.wide_starts = NULL, &wide[0]

    def _narrow_biases(self, level):
        cdef const float[::1] narrow
        cdef const double[::1] bias = self.bias
        row_bias = np.full(self.width, DENSE_NEVER, dtype=np.float32)
        if self.fits:
            row_bias[: self.K] = np.maximum(self.bias - self.bias.max(), DENSE_NEVER)
        levels = np.zeros(self.width, dtype=np.float32)
        levels[: self.K] = level - level.mean()
        self.row_bias = narrow = row_bias
        self.narrow_level = levels
        self.row_bias_at, self.bias_at = &narrow[0], &bias[0]

    cdef Py_ssize_t start_of(self, Py_ssize_t column) noexcept nogil:
        """Return where the list of a column starts."""
        return self.wide_starts[column] if self.starts == NULL else self.starts[column]

    cdef Py_ssize_t cluster_of(self, Py_ssize_t e) noexcept nogil:
        """Return the component of an entry."""
        return self.clusters[e] if self.is_narrow else self.wide_clusters[e]

    cdef double above_of(self, Py_ssize_t column, Py_ssize_t k) noexcept nogil:
        """Return how much the parameter of component k is above that of an empty sum."""
        cdef Py_ssize_t low = self.start_of(column), high = self.start_of(column + 1), stop = high, middle
        while low < high:
            middle = (low + high) // 2
            if self.cluster_of(middle) < k:
                low = middle + 1
            else:
                high = middle
        return self.above[low] if low < stop and self.cluster_of(low) == k else 0.0

    cdef double sparse_size(self, const int64_t *columns, const double *values, Py_ssize_t n,
                            Py_ssize_t k) noexcept nogil:
        """Sum the absolute values of the terms of the score of component k."""
        cdef double total = fabs(self.row_bias_at[k])
        cdef Py_ssize_t t
        for t in range(n):
            if values[t] != 0.0:
                total += fabs(values[t]) * (self.above_of(columns[t], k) + fabs(self.narrow_level[k]))
        return total

    cdef double sparse_score(self, const int64_t *columns, const double *values, Py_ssize_t n,
                             Py_ssize_t k) noexcept nogil:
        """Compute the log weight of component k in double precision."""
        cdef double total = self.bias_at[k]
        cdef Py_ssize_t t
        for t in range(n):
            if values[t] != 0.0:
                total += values[t] * (self.empty[columns[t]] + self.above_of(columns[t], k) - self.level[k])
        return total

    cdef double sparse_row(self, const int64_t *columns, const double *values, Py_ssize_t n, const float **rows,
                           float *factors, float *out) noexcept nogil:
        """Score one row in single precision; return a bound on |<phi, theta>|."""
        cdef Py_ssize_t t, e, k, first, last, m = 0
        cdef double bound = 0.0, length = 0.0
        cdef float x
        for t in range(n):
            bound += fabs(values[t]) * (self.steps[columns[t]] * self.step + self.level_range)
            length += values[t]
        x = <float> length
        for k in range(self.width):
            out[k] = self.row_bias_at[k] - x * self.narrow_level[k]
        if not bound < DENSE_HOPELESS:
            return bound
        for t in range(n):
            if values[t] == 0.0:
                continue
            x = <float> values[t]
            first, last = self.start_of(columns[t]), self.start_of(columns[t] + 1)
            if last - first > self.most:
                rows[m], factors[m] = &self.long_lists[place_of(self.long_columns, columns[t]), 0], x
                m += 1
            elif self.is_narrow:
                for e in range(first, last):
                    out[self.clusters[e]] += x * <float> self.above[e]
            else:
                for e in range(first, last):
                    out[self.wide_clusters[e]] += x * <float> self.above[e]
        expfam_add_scaled(out, rows, factors, m, self.width)
        return bound
