"""Sums of log evidences of diagonal Gaussian clusters as functions of one hyper-parameter.

Learning asks for them tens of times for a few clusters, where each NumPy call takes longer than the numbers.
"""

import numpy as np

from libc.math cimport NAN, exp

from expfam.structures.simd.logs cimport expfam_log

cdef enum:
    TOGETHER = 128      # logarithms in one call


cdef class RateEvidence:
    """Function of the log t of the factor of the rates.

    It is slope t - sum of shape log(own + base exp(t)).

    Parameters
    ----------
    shape, own : (K, d) float64 ndarray
        Posterior shapes, and the parts of the posterior rates that are not the prior's.
    base : (d,) float64 ndarray
        Rates whose factor it is.
    slope : float
    """

    cdef const double[:, ::1] shape, own
    cdef const double[::1] base
    cdef double slope

    def __init__(self, shape, own, base, double slope):
        self.shape, self.own = np.ascontiguousarray(shape), np.ascontiguousarray(own)
        self.base, self.slope = np.ascontiguousarray(base), slope
        if self.own.shape[0] != self.shape.shape[0] or not self.own.shape[1] == self.shape.shape[1] == len(base):
            raise ValueError(f"shape {np.shape(shape)}, own {np.shape(own)} and base {np.shape(base)} do not agree")

    def __call__(self, double t):
        """Return the value, or NaN where a rate is not a positive normal number."""
        cdef double[TOGETHER] rates
        cdef double factor = exp(t), total = self.slope * t
        cdef Py_ssize_t k, f, start, stop, j, d = self.base.shape[0]
        for k in range(self.own.shape[0]):
            for start in range(0, d, TOGETHER):
                stop = min(start + TOGETHER, d)
                for f in range(start, stop):
                    rates[f - start] = self.own[k, f] + self.base[f] * factor
                    if not 1e-300 < rates[f - start] < 1e300:
                        return NAN
                expfam_log(rates, rates, stop - start)
                for j in range(stop - start):
                    total -= self.shape[k, start + j] * rates[j]
        return total


cdef class StrengthEvidence:
    """Function of the log t of the factor of the mean strengths, k = base exp(t).

    It is the sum of log(k / (k + count)) / 2 - shape log(own - squares / (k + count)).

    Parameters
    ----------
    shape, own, squares, count : (K, d) float64 ndarray
    base : (d,) float64 ndarray
        Strengths whose factor it is.
    """

    cdef const double[:, ::1] shape, own, squares, count
    cdef const double[::1] base

    def __init__(self, shape, own, squares, count, base):
        self.shape, self.own = np.ascontiguousarray(shape), np.ascontiguousarray(own)
        self.squares, self.count = np.ascontiguousarray(squares), np.ascontiguousarray(count)
        self.base = np.ascontiguousarray(base)
        if not np.shape(shape) == np.shape(own) == np.shape(squares) == np.shape(count) == (len(shape), len(base)):
            raise ValueError(f"arrays of shape {[np.shape(each) for each in (shape, own, squares, count, base)]}")

    def __call__(self, double t):
        """Return the value, or NaN where a rate or a share is not a positive normal number."""
        cdef double[2 * TOGETHER] terms
        cdef double factor = exp(t), total = 0.0, before, after, share, rate
        cdef Py_ssize_t k, f, start, stop, j, d = self.base.shape[0], size
        for k in range(self.own.shape[0]):
            for start in range(0, d, TOGETHER):
                stop, size = min(start + TOGETHER, d), min(start + TOGETHER, d) - start
                for f in range(start, stop):
                    before = self.base[f] * factor
                    after = before + self.count[k, f]
                    share, rate = before / after, self.own[k, f] - self.squares[k, f] / after
                    if not (1e-300 < share < 1e300 and 1e-300 < rate < 1e300):
                        return NAN
                    terms[f - start], terms[size + f - start] = share, rate
                expfam_log(terms, terms, 2 * size)
                for j in range(size):
                    total += 0.5 * terms[j] - self.shape[k, start + j] * terms[size + j]
        return total
