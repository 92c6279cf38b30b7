"""Python interface of the vectorised inner loops, for tests and benchmarks."""

import numpy as np

from libc.stdint cimport int8_t, int32_t, uint8_t

from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.dispatch cimport expfam_isa
from expfam.structures.simd.int8 cimport expfam_int8_dots
from expfam.structures.simd.logs cimport expfam_log, expfam_log_rising
from expfam.structures.simd.softmax cimport expfam_exp_blocks, expfam_max, expfam_pick
from expfam.structures.simd.vectors cimport expfam_add_row, expfam_dot


def instruction_set():
    """Return the instruction set in use: ``"base"``, ``"avx2"`` or ``"avx512"``.

    The environment variable EXPFAM_ISA can lower it.
    """
    return ("base", "avx2", "avx512")[expfam_isa()]


def dot(const double[::1] a, const double[::1] b):
    """Return the inner product of two vectors of the same length."""
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"lengths differ: {a.shape[0]} and {b.shape[0]}")
    return expfam_dot(&a[0], &b[0], a.shape[0]) if a.shape[0] else 0.0


def log(const double[::1] x):
    """Return the natural logarithm of positive normal numbers."""
    out = np.empty(x.shape[0])
    cdef double[::1] view = out
    if x.shape[0]:
        expfam_log(&x[0], &view[0], x.shape[0])
    return out


def log_rising(const double[::1] z, double m):
    """Return lgamma(z + m) - lgamma(z) without cancellation, for z > 0 and m >= 0."""
    out = np.empty(z.shape[0])
    cdef double[::1] view = out
    if z.shape[0]:
        expfam_log_rising(&z[0], m, 1 if np.min(z) < 16 else 0, &view[0], z.shape[0])
    return out


def add_row(const double[::1] out, const double[::1] row, double factor):
    """Return out + factor * row."""
    if out.shape[0] != row.shape[0]:
        raise ValueError(f"lengths differ: {out.shape[0]} and {row.shape[0]}")
    total = np.array(out)
    cdef double[::1] view = total
    if view.shape[0]:
        expfam_add_row(&view[0], &row[0], factor, view.shape[0])
    return total


def softmax_weights(const double[::1] x):
    """Return unnormalised weights exp(x - max x), their sums by blocks of 64, and the total.

    These are the numbers that a draw uses.
    """
    weights = np.array(x)
    sums = np.empty((x.shape[0] + EXPFAM_BLOCK - 1) // EXPFAM_BLOCK)
    cdef double[::1] w = weights
    cdef double[::1] s = sums
    total = expfam_exp_blocks(&w[0], expfam_max(&x[0], x.shape[0]), &s[0], x.shape[0])
    return weights, sums, total


def pick(const double[::1] weights, const double[::1] sums, double total, double uniform):
    """Draw an index from the weights of `softmax_weights` by one uniform number."""
    return expfam_pick(&weights[0], &sums[0], total, uniform, weights.shape[0])


def int8_dots(const uint8_t[:, :, :, ::1] rows, const int8_t[::1] query):
    """Return the inner products of a query with rows of small integers.

    Rows are stored as proposals store them.

    Parameters
    ----------
    rows : (B, n_groups, 64, 4) uint8 ndarray
        Entry f of row k plus 128 is at ``[k // 64, f // 4, k % 64, f % 4]``; 1 to 255.
    query : (4 n_groups,) int8 ndarray
        Numbers from -127 to 127.

    Returns
    -------
    (64 B,) int32 ndarray
    """
    if rows.shape[2] != 64 or rows.shape[3] != 4 or query.shape[0] != 4 * rows.shape[1]:
        raise ValueError("rows must be (B, n_groups, 64, 4) and query (4 n_groups,)")
    out = np.zeros(64 * rows.shape[0], dtype=np.int32)
    cdef int32_t[::1] view = out
    if rows.shape[0] and rows.shape[1]:
        expfam_int8_dots(&rows[0, 0, 0, 0], &query[0], rows.shape[1], &view[0], rows.shape[0])
    return out
