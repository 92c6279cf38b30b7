"""Modes of independent Gaussian columns in natural coordinates, of one cluster in C."""

import numpy as np

from libc.math cimport INFINITY, fmax, log

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.families.modes cimport ModeLaw, mode_law


ctypedef struct column_modes:
    mode_law base
    Py_ssize_t d, n_own, n_alike
    const Py_ssize_t *own           # (n_own,) columns with parameters of each cluster
    const Py_ssize_t *alike         # (n_alike,) columns with one mean and one variance in all clusters
    const double *location          # (d,) of the prior, centred
    const double *strength          # (d,)
    const double *shape             # (d,)
    const double *rate              # (d,)
    const double *precision         # (n_alike,) of the columns that are alike; their means are the centres


cdef int mode_of_columns(const mode_law *base, double n, const double *S, double *theta, double *g) noexcept nogil:
    """Compute what `modes_of_columns` does for one cluster, with the sum of the columns' g."""
    cdef const column_modes *law = <const column_modes *> base
    cdef Py_ssize_t i, f, d = law.d
    cdef double about, strength, mean, rate, precision
    cdef int code = EXPFAM_OK
    g[0] = 0.0
    for i in range(law.n_own):
        f = law.own[i]
        about = S[f] - n * law.location[f]
        strength = law.strength[f] + n
        mean = law.location[f] + about / strength
        rate = law.rate[f] + 0.5 * (S[d + f] - law.location[f] * (S[f] + about) - about * about / strength)
        if not 0.0 < rate < INFINITY:
            code = EXPFAM_NUMERICAL
        precision = fmax(law.shape[f] + 0.5 * n - 1.5, 0.5) / rate
        theta[f], theta[d + f] = mean * precision, -0.5 * precision
        g[0] += 0.5 * (mean * mean * precision - log(precision))
    for i in range(law.n_alike):
        f = law.alike[i]
        theta[f], theta[d + f] = 0.0, -0.5 * law.precision[i]
        g[0] -= 0.5 * log(law.precision[i])
    return code


cdef double log_prior_of_column_modes(const mode_law *base, const double *theta, double g) noexcept nogil:
    """Compute what `log_prior_of_columns` computes for one cluster."""
    cdef const column_modes *law = <const column_modes *> base
    cdef Py_ssize_t i, f
    cdef double precision, off, total = 0.0
    for i in range(law.n_own):
        f = law.own[i]
        precision = -2.0 * theta[law.d + f]
        if not precision > 0.0:
            return -INFINITY
        off = theta[f] / precision - law.location[f]
        total += (law.shape[f] - 1.5) * log(precision)
        total -= (law.rate[f] + 0.5 * law.strength[f] * off * off) * precision
    return total


cdef class ColumnModeLaw(ModeLaw):
    """Modes under normal-gamma priors of independent columns.

    Parameters
    ----------
    location, strength, shape, rate : (d,) float64 ndarray
        Of the prior; the location is centred.
    own, alike : (m,) and (d - m,) intp ndarray
        Columns with parameters of each cluster, and those with one mean and one variance in all clusters.
    precision : (d - m,) float64 ndarray
        Of the latter.
    """

    cdef column_modes mine
    cdef const Py_ssize_t[::1] own, alike

    def __init__(self, location, strength, shape, rate, own, alike, precision):
        cdef column_modes *law = &self.mine
        self.own, self.alike = np.array(own, dtype=np.intp), np.array(alike, dtype=np.intp)
        law.base.at, law.base.log_prior = mode_of_columns, log_prior_of_column_modes
        law.d, law.n_own, law.n_alike = len(location), self.own.shape[0], self.alike.shape[0]
        law.own = &self.own[0] if law.n_own else NULL
        law.alike = &self.alike[0] if law.n_alike else NULL
        law.location, law.strength = self.keep(location), self.keep(strength)
        law.shape, law.rate = self.keep(shape), self.keep(rate)
        law.precision = self.keep(precision)
        self.law = &law.base
