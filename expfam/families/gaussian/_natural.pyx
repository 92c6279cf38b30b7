"""Posterior means (E theta, E g) of one cluster of a Gaussian family, computed in C.

The cost is O(d), or O(d^3) with a full covariance.
"""

import numpy as np

from libc.math cimport log

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.families.natural cimport NaturalLaw, digamma, natural_law
from expfam.structures.simd.cholesky cimport expfam_cholesky, expfam_scale
from expfam.structures.simd.vectors cimport expfam_dot

cdef double ROOT_HALF = 0.70710678118654752
cdef double LOG_2 = 0.69314718055994531


ctypedef struct gaussian_law:
    natural_law base
    Py_ssize_t d
    const double *shift             # (d,) prior location, centred
    const double *strength          # (d,), or one number
    const double *shape             # (d,), or one number: degrees of freedom
    const double *scale             # (d,) rates, or a packed symmetric matrix
    const double *known             # (d,) precisions of columns that are alike in all clusters, else 0; or NULL
    double n_varying                # of spherical clusters: columns that vary
    double variance
    double mean_variance
    bint is_shared                  # the variance: theta has its precision too
    bint zero_mean


cdef int diagonal_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                     double *work) noexcept nogil:
    cdef const gaussian_law *law = <const gaussian_law *> base
    g[0] = 0.0
    return columns_at(law, n, NULL, S, theta, g)


cdef int open_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                 double *work) noexcept nogil:
    """Compute theta of columns with own counts: minus their g, then their parameters."""
    cdef const gaussian_law *law = <const gaussian_law *> base
    g[0] = 0.0
    return columns_at(law, n, S, S + law.d, theta + law.d, theta)


cdef int columns_at(const gaussian_law *law, double n, const double *counts, const double *S, double *theta,
                    double *g) noexcept nogil:
    """Add the g of each column to g[0]; if there are `counts`, write it negated to g (d,)."""
    cdef Py_ssize_t f, d = law.d
    cdef double strength, about, rate, shape, mean, precision, own, last = -1.0, psi = 0.0
    for f in range(d):
        if law.known != NULL and law.known[f] > 0.0:
            theta[f], theta[d + f], own = 0.0, -0.5 * law.known[f], -0.5 * log(law.known[f])
            if counts != NULL:
                g[f] = -own
            else:
                g[0] += own
            continue
        if counts != NULL:
            n = counts[f]
        strength = law.strength[f] + n
        about = S[f] - n * law.shift[f]
        # sums about the prior location do not cancel the digits of the prior rate if that lies far from the data
        rate = law.scale[f] + 0.5 * (S[d + f] - law.shift[f] * (S[f] + about) - about * about / strength)
        if not rate > 0.0:
            return EXPFAM_NUMERICAL
        shape = law.shape[f] + 0.5 * n
        if shape != last:               # most columns have the same shape
            last, psi = shape, digamma(shape)
        mean = law.shift[f] + about / strength
        precision = shape / rate
        theta[f] = mean * precision
        theta[d + f] = -0.5 * precision
        own = 0.5 * (1.0 / strength + mean * mean * precision - psi + log(rate))
        if counts != NULL:
            g[f] = -own
        else:
            g[0] += own
    return EXPFAM_OK


cdef int radial_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                   double *work) noexcept nogil:
    cdef const gaussian_law *law = <const gaussian_law *> base
    cdef Py_ssize_t f, d = law.d
    cdef double strength = law.strength[0] + n, shape = law.shape[0] + 0.5 * n * law.n_varying, rate, precision
    cdef double about, squares = 0.0, cross = 0.0, length = 0.0
    for f in range(d):
        about = S[f] - n * law.shift[f]
        squares += about * about
        cross += law.shift[f] * (S[f] + about)
        theta[f] = law.shift[f] + about / strength
        length += theta[f] * theta[f]
    rate = law.scale[0] + 0.5 * (S[d] - cross - squares / strength)
    if not rate > 0.0:
        return EXPFAM_NUMERICAL
    precision = shape / rate
    for f in range(d):
        theta[f] *= precision
    theta[d] = -0.5 * precision
    g[0] = 0.5 * (law.n_varying / strength + length * precision - law.n_varying * (digamma(shape) - log(rate)))
    return EXPFAM_OK


cdef int spherical_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                      double *work) noexcept nogil:
    cdef const gaussian_law *law = <const gaussian_law *> base
    cdef Py_ssize_t f, d = law.d
    cdef double variance = 1.0 / (1.0 / law.mean_variance + n / law.variance)
    cdef double squares = law.n_varying * variance, mean
    for f in range(d):
        mean = variance * (law.shift[f] / law.mean_variance + S[f] / law.variance)
        theta[f] = mean / law.variance
        squares += mean * mean
    g[0] = 0.5 * squares / law.variance
    if law.is_shared:
        theta[d] = -0.5 / law.variance
        g[0] += 0.5 * law.n_varying * log(law.variance)
    return EXPFAM_OK


cdef int full_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                 double *work) noexcept nogil:
    """Compute theta and g from the Cholesky factor L of the posterior scale.

    Triangles are stored by columns of L, each from its diagonal on. The packed statistics have the same order.
    """
    cdef const gaussian_law *law = <const gaussian_law *> base
    cdef Py_ssize_t i, j, k, d = law.d, size = d * (d + 1) // 2
    cdef double *location = work                # sums about the prior location, later the posterior location
    cdef double *solved = work + d              # one column of the inverse
    cdef double *triangle = work + 2 * d
    cdef double *inverse = triangle + size
    cdef double *second = theta if law.zero_mean else theta + d
    cdef double *column
    cdef double *a
    cdef double *b
    cdef double dof = law.shape[0] + n, strength = 1.0 if law.zero_mean else law.strength[0] + n
    cdef double spread = 0.0, expected_log = d * LOG_2, entry
    for j in range(d):
        location[j] = 0.0 if law.zero_mean else S[j] - n * law.shift[j]
    expfam_scale(law.scale, S if law.zero_mean else S + d, law.shift if law.zero_mean else S, law.shift, n, location,
                 0.0 if law.zero_mean else 1.0 / strength, triangle, d)
    if expfam_cholesky(triangle, d):
        return EXPFAM_NUMERICAL
    column = inverse
    for j in range(d):
        for i in range(j, d):
            solved[i] = 1.0 if i == j else 0.0
        a = triangle + j * d - j * (j - 1) // 2
        for k in range(j, d):
            solved[k] /= a[0]
            for i in range(1, d - k):
                solved[k + i] -= a[i] * solved[k]
            column[k - j] = solved[k]
            a += d - k
        column += d - j
    a = triangle
    for j in range(d):
        expected_log += digamma(0.5 * (dof - j)) - 2.0 * log(a[0])
        a += d - j
    if not law.zero_mean:
        spread = d / strength
        for j in range(d):
            location[j] = law.shift[j] + location[j] / strength
            theta[j] = 0.0
    a = inverse
    for i in range(d):
        b = a
        for j in range(i, d):
            entry = dof * expfam_dot(a + (j - i), b, d - j)
            second[0] = -0.5 * entry if i == j else -ROOT_HALF * entry
            second += 1
            if not law.zero_mean:
                theta[i] += entry * location[j]
                if i != j:
                    theta[j] += entry * location[i]
            b += d - j
        a += d - i
    if not law.zero_mean:
        for j in range(d):
            spread += theta[j] * location[j]
    g[0] = 0.5 * (spread - expected_log)
    return EXPFAM_OK


cdef class GaussianLaw(NaturalLaw):
    """The law of a bound Gaussian family.

    `kind` is "diagonal", "open" (columns with own counts), "radial" (each cluster has one variance), "spherical" (one
    variance for all clusters), "full" or "zero_mean".
    """

    cdef gaussian_law own

    def __init__(self, family, kind):
        d = family.n_features_in_
        cdef gaussian_law *law = &self.own
        self.law = &law.base
        law.d, law.base.work_size = d, 0
        law.zero_mean = kind == "zero_mean"
        law.shift = self.keep(np.zeros(d) if law.zero_mean else family.mean - family.center_)
        if kind in ("radial", "spherical"):
            law.n_varying = family.n_varying
        if kind == "spherical":
            law.base.at = spherical_at
            law.is_shared = family.variance == "shared"
            law.variance = family.shared_variance if law.is_shared else family.variance
            law.mean_variance = family.mean_variance
        elif kind in ("full", "zero_mean"):
            law.base.at, law.base.work_size = full_at, 2 * d + d * (d + 1)
            law.strength = self.keep(0.0 if law.zero_mean else family.mean_strength)
            law.shape = self.keep(family.dof)
            law.scale = self.keep(np.asarray(family.scale)[np.triu_indices(d)])
        else:
            law.base.at = radial_at if kind == "radial" else open_at if kind == "open" else diagonal_at
            known = family.known_precisions() if kind in ("open", "diagonal") else None
            if known is not None:
                law.known = self.keep(known)
            law.strength, law.shape = self.keep(family.mean_strength), self.keep(family.shape)
            law.scale = self.keep(family.rate)
