"""Posteriors, modes and prior densities of some Gaussian clusters, each in one call.

A step of EM on a few hundred rows asks for them, and each NumPy call on the way takes as long as all the numbers.
"""

import numpy as np

from libc.math cimport INFINITY, fmax, isfinite, log, sqrt
from scipy.linalg.cython_lapack cimport dpotrf, dpotri, dpotrs

from expfam.amounts import counted
from expfam.families.gaussian._evidence import of_columns

cdef double ROOT_2 = sqrt(2.0)
cdef double ROOT_HALF = sqrt(0.5)


# ---- full covariances ------------------------------------------------------------------------------------------------

def posterior_of_full(const double[::1] n, const double[:, ::1] S, const double[::1] location, double strength,
                      const double[:, ::1] scale):
    """Return the posteriors of clusters under a normal-inverse-Wishart prior.

    Parameters
    ----------
    n : (K,) float64 ndarray
    S : (K, d + d (d + 1) / 2) float64 ndarray
        Sums of the centred rows and of their packed products, see `svec`.
    location : (d,) float64 ndarray
        Of the prior, centred.
    strength : float
    scale : (d, d) float64 ndarray

    Returns
    -------
    strength, location, scale : (K,), (K, d) and (K, d, d) float64 ndarray
    """
    cdef Py_ssize_t k, K = n.shape[0], d = location.shape[0]
    _check_shapes(n, S, d, d + d * (d + 1) // 2)
    strengths, locations, scales = np.empty(K), np.empty((K, d)), np.empty((K, d, d))
    cdef double[::1] new_strength = strengths
    cdef double[:, ::1] new_location = locations
    cdef double[:, :, ::1] new_scale = scales
    with nogil:
        for k in range(K):
            new_strength[k] = strength + n[k]
            posterior_at(n[k], S[k], location, new_strength[k], scale, new_location[k], new_scale[k])
    return strengths, locations, scales


cdef void posterior_at(double n, const double[::1] S, const double[::1] m0, double strength,
                       const double[:, ::1] prior, double[::1] location, double[:, ::1] scale) noexcept nogil:
    """Write the posterior location and scale of one cluster, given its posterior strength.

    Sums about the prior location do not cancel the digits of the prior scale if that lies far from the data.
    """
    cdef Py_ssize_t i, j, t, d = m0.shape[0]
    cdef double second
    for i in range(d):
        location[i] = S[i] - n * m0[i]
    t = d
    for i in range(d):
        for j in range(i, d):
            second = S[t] if i == j else S[t] * ROOT_HALF
            second = second - S[i] * m0[j] - S[j] * m0[i] + n * (m0[i] * m0[j])
            scale[i, j] = prior[i, j] + second - location[i] * location[j] / strength
            scale[j, i] = prior[j, i] + second - location[i] * location[j] / strength
            t += 1
    for i in range(d):
        location[i] = m0[i] + location[i] / strength


def modes_of_full(const double[::1] n, const double[:, ::1] S, const double[::1] location, double strength,
                  const double[:, ::1] scale, double dof):
    """Return the modes of the posteriors in natural coordinates.

    The parameters are those of `posterior_of_full`, and the degrees of freedom of the prior.

    Returns
    -------
    theta, g : (K, F) and (K,) float64 ndarray
    bad : int
        First cluster whose posterior scale is not positive definite; -1 if there is none.
    """
    cdef Py_ssize_t i, j, k, t, K = n.shape[0], d = location.shape[0], bad = -1
    _check_shapes(n, S, d, d + d * (d + 1) // 2)
    thetas, gs = np.empty((K, d + d * (d + 1) // 2)), np.empty(K)
    cdef double[:, ::1] theta = thetas, precision = np.empty((d, d))
    cdef double[::1] g = gs, mean = np.empty(d)
    cdef int size = <int> d, info = 0
    cdef char upper = b"U"      # LAPACK stores by columns: its upper triangle is the lower one of these rows
    cdef double weight, log_det, product
    with nogil:
        for k in range(K):
            posterior_at(n[k], S[k], location, strength + n[k], scale, mean, precision)
            weight = fmax(dof + n[k] - d - 2.0, 1.0)
            dpotrf(&upper, &size, &precision[0, 0], &size, &info)
            log_det = d * log(weight)
            for i in range(d):
                log_det -= 2.0 * log(precision[i, i])
            if info != 0 or not isfinite(log_det):
                bad = k
                break
            dpotri(&upper, &size, &precision[0, 0], &size, &info)
            t, product = d, 0.0
            for i in range(d):
                theta[k, i] = 0.0
            for i in range(d):
                for j in range(i, d):
                    theta[k, i] += weight * precision[j, i] * mean[j]
                    if i != j:
                        theta[k, j] += weight * precision[j, i] * mean[i]
                    theta[k, t] = -0.5 * weight * precision[j, i] * (1.0 if i == j else ROOT_2)
                    t += 1
            for i in range(d):
                product += theta[k, i] * mean[i]
            g[k] = 0.5 * (product - log_det)
    return thetas, gs, bad


def log_prior_of_full(const double[:, :] theta, const double[::1] location, double strength,
                      const double[:, ::1] scale, double dof):
    """Return the unnormalised log prior densities of natural parameters: (K,) float64 ndarray.

    The parameters have shape (K, F). The densities are -inf where the precision is not positive definite.
    """
    cdef Py_ssize_t i, j, k, t, K = theta.shape[0], d = location.shape[0]
    densities = np.full(K, -np.inf)
    cdef double[::1] density = densities, mean = np.empty(d)
    cdef double[:, ::1] precision = np.empty((d, d)), root = np.empty((d, d))
    cdef int size = <int> d, info = 0, one = 1
    cdef char upper = b"U"
    cdef double log_det, inside, away, row
    if theta.shape[1] != d + d * (d + 1) // 2:
        n_numbers = counted(d + d * (d + 1) // 2, "number")
        raise ValueError(f"parameters of {counted(d, 'column')} have {n_numbers}; got {theta.shape[1]}")
    with nogil:
        for k in range(K):
            t, inside = d, 0.0
            for i in range(d):
                mean[i] = theta[k, i]
                for j in range(i, d):
                    precision[i, j] = -2.0 * theta[k, t] * (1.0 if i == j else ROOT_HALF)
                    precision[j, i] = precision[i, j]
                    inside += scale[i, j] * precision[i, j]
                    if i != j:
                        inside += scale[j, i] * precision[i, j]
                    t += 1
            root[:, :] = precision
            dpotrf(&upper, &size, &root[0, 0], &size, &info)
            log_det = 0.0
            for i in range(d):
                log_det += 2.0 * log(root[i, i])
            if info != 0 or not isfinite(log_det):
                continue
            dpotrs(&upper, &size, &one, &root[0, 0], &size, &mean[0], &size, &info)
            away = 0.0
            for i in range(d):
                mean[i] -= location[i]
            for i in range(d):
                row = 0.0
                for j in range(d):
                    row += precision[i, j] * mean[j]
                away += row * mean[i]
            density[k] = 0.5 * (dof - d - 2.0) * log_det - 0.5 * (inside + strength * away)
    return densities


# ---- independent columns ---------------------------------------------------------------------------------------------

def modes_of_columns(const double[:, :] count, const double[:, :] S, location, strength, shape, rate):
    """Return the modes of columns under normal-gamma priors in natural coordinates.

    Parameters
    ----------
    count, S, location, strength, shape, rate
        As of `expfam.families.gaussian._evidence.posterior_of_columns`.

    Returns
    -------
    theta : (K, 2 d) float64 ndarray
    g : (K, d) float64 ndarray
        Log partition function of each column.
    bad : int
        First cluster with a posterior rate that is not finite and positive; -1 if there is none.
    """
    cdef Py_ssize_t k, f, K = S.shape[0], d = S.shape[1] // 2, bad = -1
    cdef const double[::1] at = of_columns(location, d), strength0 = of_columns(strength, d)
    cdef const double[::1] shape0 = of_columns(shape, d), rate0 = of_columns(rate, d)
    if count.shape[0] != K or count.shape[1] not in (1, d) or S.shape[1] != 2 * d:
        raise ValueError(f"counts of shape {np.shape(count)} and sums of shape {np.shape(S)} do not agree")
    thetas, gs = np.empty((K, 2 * d)), np.empty((K, d))
    cdef double[:, ::1] theta = thetas, g = gs
    cdef double n, about, own, mean, precision
    with nogil:
        for k in range(K):
            for f in range(d):
                n = count[k, f if count.shape[1] > 1 else 0]
                about = S[k, f] - n * at[f]
                own = strength0[f] + n
                mean = at[f] + about / own
                own = rate0[f] + 0.5 * (S[k, d + f] - at[f] * (S[k, f] + about) - about * about / own)
                if bad < 0 and not 0.0 < own < INFINITY:
                    bad = k
                precision = fmax(shape0[f] + 0.5 * n - 1.5, 0.5) / own
                theta[k, f] = mean * precision
                theta[k, d + f] = -0.5 * precision
                g[k, f] = 0.5 * (mean * mean * precision - log(precision))
    return thetas, gs, bad


def log_prior_of_columns(const double[:, :] theta, location, strength, shape, rate):
    """Return the unnormalised log prior densities of natural parameters: (K,) float64 ndarray.

    The parameters have shape (K, 2 d). The densities are -inf where a precision is not positive.
    """
    cdef Py_ssize_t k, f, K = theta.shape[0], d = theta.shape[1] // 2
    cdef const double[::1] at = of_columns(location, d), strength0 = of_columns(strength, d)
    cdef const double[::1] shape0 = of_columns(shape, d), rate0 = of_columns(rate, d)
    densities = np.empty(K)
    cdef double[::1] density = densities
    cdef double precision, off, total
    with nogil:
        for k in range(K):
            total = 0.0
            for f in range(d):
                precision = -2.0 * theta[k, d + f]
                if not precision > 0.0:
                    total = -INFINITY
                    break
                off = theta[k, f] / precision - at[f]
                total += (shape0[f] - 1.5) * log(precision)
                total -= (rate0[f] + 0.5 * strength0[f] * off * off) * precision
            density[k] = total
    return densities


def _check_shapes(n, S, d, F):
    """Refuse sums that are not those of as many clusters and columns."""
    if np.shape(S) != (len(n), F):
        raise ValueError(f"sums of clusters have shape ({len(n)}, {F}); got {np.shape(S)}")
