"""Sufficient statistics of real values: columns, their squares, products of two columns.

One pass writes all statistics of a row; NumPy would make an array for each term, and joins of narrow blocks would cost
more than the arithmetic. The cost is O(N F).
"""

import numpy as np

from libc.math cimport isnan

from expfam.families.compiled_phi cimport CentredPhi, centred_phi, phi_law

from expfam.families.support import NARROW_KINDS

cdef enum:
    LANES = 8

_SINGLE = (np.float32, *NARROW_KINDS)     # a float32 holds their values exactly

cdef extern from *:
    """
    #include "dispatch.h"

    /* Products of all pairs of entries, packed as by svec: those of two different entries times the root of 2 */
    #define EXPFAM_PRODUCTS(NAME, TARGET)                                                                             \
        TARGET static void NAME(const double *x, ptrdiff_t n, double *out) {                                          \
            for (ptrdiff_t a = 0; a < n; out += n - a, a++) {                                                         \
                const double first = x[a];                                                                            \
                out[0] = first * first;                                                                               \
                EXPFAM_SIMD                                                                                           \
                for (ptrdiff_t b = a + 1; b < n; b++) out[b - a] = first * x[b] * 1.4142135623730951;                 \
            }                                                                                                         \
        }
    EXPFAM_INSTANCES(EXPFAM_PRODUCTS, void, expfam_products, (const double *, ptrdiff_t, double *))
    """
    void (*expfam_products)(const double *x, Py_ssize_t n, double *out) noexcept nogil


ctypedef fused real:
    float
    double


def as_floats(X):
    """Return contiguous dense rows, in single precision where it holds them exactly."""
    return np.ascontiguousarray(X, dtype=np.float32 if X.dtype in _SINGLE else np.float64)


cdef double squared_length(const double *x, Py_ssize_t n) noexcept nogil:
    """Return the sum of squares, with the same bits on machines with other instructions."""
    cdef double lanes[LANES]
    cdef double total = 0.0
    cdef Py_ssize_t j = 0, lane
    for lane in range(LANES):
        lanes[lane] = 0.0
    while j + LANES <= n:
        for lane in range(LANES):
            lanes[lane] += x[j + lane] * x[j + lane]
        j += LANES
    while j < n:
        total += x[j] * x[j]
        j += 1
    for lane in range(LANES):
        total += lanes[lane]
    return total


# ---- one row ---------------------------------------------------------------------------------------------------------


cdef inline void length_row(const real *row, const double *center, Py_ssize_t V, double *to) noexcept nogil:
    """Write x about `center`, and its squared length."""
    cdef Py_ssize_t j
    for j in range(V):
        to[j] = <double> row[j] - center[j]
    to[V] = squared_length(to, V)


cdef inline void squares_row(const real *row, const double *center, Py_ssize_t V, double *to) noexcept nogil:
    """Write (x, x^2) about `center`."""
    cdef Py_ssize_t j
    cdef double x
    for j in range(V):
        x = <double> row[j] - center[j]
        to[j] = x
        to[V + j] = x * x


cdef inline void seen_row(const real *row, const double *center, Py_ssize_t V, double *to) noexcept nogil:
    """Write (o, o x, o x^2) about `center`; o is 0 where x is NaN, else 1."""
    cdef Py_ssize_t j
    cdef double x
    for j in range(V):
        if isnan(row[j]):
            to[j], to[V + j], to[2 * V + j] = 0.0, 0.0, 0.0
            continue
        x = <double> row[j] - center[j]
        to[j], to[V + j], to[2 * V + j] = 1.0, x, x * x


# ---- rows ------------------------------------------------------------------------------------------------------------


def columns_and_length(const real[:, ::1] X, const double[::1] center):
    """Return x of each row about `center`, and its squared length: (N, V) to (N, V + 1) float64."""
    cdef Py_ssize_t N = X.shape[0], V = X.shape[1], i
    out = np.empty((N, V + 1))
    cdef double[:, ::1] to = out
    with nogil:
        for i in range(N):
            length_row(&X[i, 0], &center[0], V, &to[i, 0])
    return out


def columns_and_squares(const real[:, ::1] X, const double[::1] center):
    """Return (x, x^2) of each row about `center`: (N, V) to (N, 2 V) float64."""
    cdef Py_ssize_t N = X.shape[0], V = X.shape[1], i
    out = np.empty((N, 2 * V))
    cdef double[:, ::1] to = out
    with nogil:
        for i in range(N):
            squares_row(&X[i, 0], &center[0], V, &to[i, 0])
    return out


def seen_columns_and_squares(const real[:, ::1] X, const double[::1] center):
    """Return (o, o x, o x^2) of each row about `center`: (N, V) to (N, 3 V) float64.

    o is 0 where x is NaN, else 1.
    """
    cdef Py_ssize_t N = X.shape[0], V = X.shape[1], i
    out = np.empty((N, 3 * V))
    cdef double[:, ::1] to = out
    with nogil:
        for i in range(N):
            seen_row(&X[i, 0], &center[0], V, &to[i, 0])
    return out


def columns_and_products(const real[:, ::1] X, const double[::1] center, bint with_columns):
    """Return (x, x x') of each row about `center`, or x x' alone, packed as by `svec`.

    The result is (N, V + V (V + 1) / 2) or (N, V (V + 1) / 2) float64.
    """
    cdef Py_ssize_t N = X.shape[0], V = X.shape[1], begin = V if with_columns else 0, i, a
    out = np.empty((N, begin + V * (V + 1) // 2))
    cdef double[:, ::1] to = out
    cdef double[::1] row = np.empty(V)
    with nogil:
        for i in range(N):
            for a in range(V):
                row[a] = <double> X[i, a] - center[a]
            for a in range(begin):
                to[i, a] = row[a]
            expfam_products(&row[0], V, &to[i, begin])
    return out


# ---- compiled forms --------------------------------------------------------------------------------------------------


cdef void length_of(const phi_law *base, const real *row, double *phi) noexcept nogil:
    cdef const centred_phi *law = <const centred_phi *> base
    length_row(row, law.center, law.V, phi)


cdef void squares_of(const phi_law *base, const real *row, double *phi) noexcept nogil:
    cdef const centred_phi *law = <const centred_phi *> base
    squares_row(row, law.center, law.V, phi)


cdef void seen_of(const phi_law *base, const real *row, double *phi) noexcept nogil:
    cdef const centred_phi *law = <const centred_phi *> base
    seen_row(row, law.center, law.V, phi)


cdef class GaussianPhi(CentredPhi):
    """Compiled form of the statistics of rows about a center.

    Parameters
    ----------
    form : {"length", "squares", "seen"}
        For `columns_and_length`, `columns_and_squares` or `seen_columns_and_squares`.
    center : (V,) float64 array_like
    """

    def __init__(self, form, center):
        super().__init__(center, {"length": len(center) + 1, "squares": 2 * len(center), "seen": 3 * len(center)}[form])
        if form == "length":
            self.own.base.of_floats, self.own.base.of_doubles = length_of[float], length_of[double]
        elif form == "squares":
            self.own.base.of_floats, self.own.base.of_doubles = squares_of[float], squares_of[double]
        else:
            self.own.base.of_floats, self.own.base.of_doubles = seen_of[float], seen_of[double]
