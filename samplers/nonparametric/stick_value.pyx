"""The part of the bound that depends on weights that all groups share, and its slopes.

`stick_posterior` has the formulas. An optimisation asks for the value some dozen times, and steps of a run make many of
them, so all sums are made in two loops over the sticks.
"""

from libc.math cimport log, log1p
from scipy.special.cython_special cimport betaln, psi

from expfam.model.pseudo_counts import PRIOR_RATE
from expfam.structures.ground.stored import TINY

cdef double RATE = PRIOR_RATE
cdef double LEAST = TINY            # of a pseudo-count
cdef double CURVATURE = 0.8224670334241132  # pi^2 / 12


cdef double trigamma(double x) noexcept nogil:
    """Return the second derivative of log G(x), x > 0: shifted to 10, by the asymptotic series."""
    cdef double low = 0.0, i, z, series
    while x < 10.0:
        low += 1.0 / (x * x)
        x += 1.0
    i = 1.0 / x
    z = i * i
    series = 1.0 / 30 - z * (5.0 / 66 - z * (691.0 / 2730 - z * (7.0 / 6)))
    series = 1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z * series))
    return low + i + 0.5 * z + i * z * series


cdef inline double prior_of_stick(double gamma, Py_ssize_t n_known, Py_ssize_t k) noexcept nogil:
    """Return g of the prior Beta(1, g) of a stick; known ones that follow count 1 each."""
    return gamma + (n_known - 1 - k) if k < n_known else gamma


def value_of_sticks(const double[::1] mean, const double[::1] size, double alpha, double gamma, Py_ssize_t n_known,
                    const double[:, ::1] rising, double falling, double n_groups, double[::1] slopes=None):
    """Return the part of the bound that depends on the shared weights, nats.

    Parameters
    ----------
    mean, size : (K,) float64 ndarrays
        Of each stick.
    alpha, gamma : float
        Concentrations.
    n_known : int
        The first clusters, which are known to exist.
    rising : (2, K) float64 ndarray
    falling, n_groups : float
        What the groups say, see `Tables`.
    slopes : (2 K + 2,) float64 ndarray, optional
        Filled with the slopes of the value in logits of means, and in logs of sizes, of `alpha` and of `gamma`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.nonparametric.stick_value import value_of_sticks
    >>> mean, size = np.array([0.5, 0.4]), np.array([20.0, 15.0])
    >>> round(value_of_sticks(mean, size, 1.0, 1.0, 0, np.array([[5.0, 3.0], [0.0, 0.0]]), 2.0, 4.0), 6)
    -14.472876
    """
    cdef Py_ssize_t K = mean.shape[0], k
    cdef double rho, p, r, g, at_p, at_r, at_size, after, M, taken, scale = CURVATURE * alpha * alpha
    cdef double left = 1.0, left_square = 1.0          # E and E of the square of what the sticks so far leave
    cdef double gap = 0.0, spread = 0.0, divergence = 0.0, tangents = 0.0, kept = 0.0, pull = 0.0, shares = 0.0, value
    with nogil:
        for k in range(K):
            rho, after = mean[k], K - k
            p, r, g = rho * size[k], (1.0 - rho) * size[k], prior_of_stick(gamma, n_known, k)
            at_p, at_r, at_size = psi(p), psi(r), psi(size[k])
            gap += log(rho) - at_p + at_size + after * (log1p(-rho) - at_r + at_size)
            divergence += (p - 1.0) * at_p + (r - g) * at_r + (1.0 + g - size[k]) * at_size
            divergence -= log(g) + betaln(p, r)
            shares += gamma / g
            taken = rho * left
            spread += left_square * rho * (p + 1.0) / (size[k] + 1.0) - taken * taken
            M = max(alpha * taken, LEAST)
            tangents += rising[0, k] * log(M) - rising[1, k] / M
            pull += rising[0, k] + rising[1, k] / M
            kept += at_r - at_size
            left *= 1.0 - rho
            left_square *= (1.0 - rho) * (r + 1.0) / (size[k] + 1.0)
        spread = max(spread + left_square - left * left, 0.0)
    value = tangents - falling * alpha - n_groups * (gap + scale * spread) - divergence - RATE * (alpha + gamma)
    if slopes is not None:
        slopes_of_sticks(mean, size, alpha, gamma, n_known, rising, n_groups, slopes)
        slopes[2 * K] = pull - alpha * (falling + RATE + 2.0 * n_groups * CURVATURE * alpha * spread)
        slopes[2 * K + 1] = shares + gamma * (kept - RATE)
    return value


cdef void slopes_of_sticks(const double[::1] mean, const double[::1] size, double alpha, double gamma,
                           Py_ssize_t n_known, const double[:, ::1] rising, double n_groups,
                           double[::1] slopes) noexcept nogil:
    """Write slopes in logits of means and logs of sizes, from the last stick to the first.

    They need sums over all later sticks.
    """
    cdef Py_ssize_t K = mean.shape[0], k
    cdef double rho, omega, p, r, g, bend_p, bend_r, bend, after, down_p, down_r, pull, of_mean, of_size
    cdef double left = 1.0, left_square = 1.0, scale = n_groups * CURVATURE * alpha * alpha
    cdef double up, square, later_pull = 0.0, later_up, later_square
    for k in range(K):
        slopes[k], slopes[K + k] = left, left_square     # of the sticks before, until these are reached
        left *= 1.0 - mean[k]
        left_square *= (1.0 - mean[k]) * ((1.0 - mean[k]) * size[k] + 1.0) / (size[k] + 1.0)
    later_up, later_square = left_square, left * left
    for k in range(K - 1, -1, -1):
        rho, omega, after = mean[k], size[k], K - k
        p, r, g = rho * omega, (1.0 - rho) * omega, prior_of_stick(gamma, n_known, k)
        bend_p, bend_r, bend = trigamma(p), trigamma(r), trigamma(omega)
        left, left_square = slopes[k], slopes[K + k]
        up, square = left_square * rho * (p + 1.0) / (omega + 1.0), (rho * left) * (rho * left)
        pull = rising[0, k] + rising[1, k] / max(alpha * rho * left, LEAST)
        down_p = (p - 1.0 - n_groups) * bend_p
        down_r = (r - g - n_groups * after) * bend_r
        bend *= n_groups * (1.0 + after) + 1.0 + g - omega
        of_mean = (pull - n_groups) / rho - (later_pull - n_groups * after) / (1.0 - rho) - omega * (down_p - down_r)
        of_size = -(rho * down_p + (1.0 - rho) * down_r + bend)
        of_mean -= scale * (up * (1.0 / rho + omega / (p + 1.0)) - later_up * (1.0 / (1.0 - rho) + omega / (r + 1.0))
                            - 2.0 * square / rho + 2.0 * later_square / (1.0 - rho))
        of_size -= scale * (up * rho / (p + 1.0) + later_up * (1.0 - rho) / (r + 1.0) - (up + later_up) / (omega + 1.0))
        slopes[k], slopes[K + k] = of_mean * rho * (1.0 - rho), of_size * omega
        later_pull += pull
        later_up += up
        later_square += square
