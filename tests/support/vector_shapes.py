"""Generated real values of many shapes: blobs, far and near groups, strips and rings, wide rows, odd small data.

Each function of sizes returns a function of a seed, which gives rows and their true clusters.
"""

import numpy as np
from sklearn.datasets import load_digits, make_moons

# ---- blobs and groups ------------------------------------------------------------------------------------------------


def blob(n, d):
    def make(seed):
        return np.random.default_rng(seed).normal(size=(n, d)), np.zeros(n, dtype=int)

    return make


def plain(n, d, k):
    """Groups around centres N(0, 10^2 I)."""

    def make(seed):
        rng = np.random.default_rng(seed)
        centres, z = rng.normal(size=(k, d)) * 10.0, rng.integers(0, k, n)
        return centres[z] + rng.normal(size=(n, d)), z

    return make


def components(n, d, k):
    """The first d principal components of k groups in 200 columns, which lie far apart along the first ones."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % k
        X = (rng.normal(size=(k, 200)) * 3.0)[z] + rng.normal(size=(n, 200))
        u, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        return u[:, :d] * s[:d], z

    return make


def telling(n, n_noise, gap, noise=1.0, k=2):
    """One column with k groups `gap` standard deviations apart, among columns of noise."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % k
        return np.column_stack([gap * z + rng.normal(size=n), noise * rng.normal(size=(n, n_noise))]), z

    return make


def grid(n):
    """Twenty-five groups on a square grid of two columns."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 25
        return np.column_stack([z // 5, z % 5]) * 6.0 + rng.normal(size=(n, 2)), z

    return make


def lattice(n, d, k, gap):
    """Groups on a grid of k x k places of the first two columns of d."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % k**2
        X = rng.normal(size=(n, d))
        X[:, :2] += gap * np.column_stack([z // k, z % k])
        return X, z

    return make


def standardised(shape):
    """Let a shape have columns of mean 0 and variance 1, so that noise is as wide as what tells."""

    def make(seed):
        X, z = shape(seed)
        return (X - X.mean(axis=0)) / X.std(axis=0), z

    return make


# ---- sizes, spreads, tails and repeated values -----------------------------------------------------------------------


def unequal_sizes(sizes, d=3, gap=8.0):
    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.repeat(np.arange(len(sizes)), sizes)
        return gap * np.eye(len(sizes), d)[z] + rng.normal(size=(len(z), d)), z

    return make


def scattered(sizes, d, spread, *, shaped=False):
    """Groups of given sizes around centres N(0, spread^2 I); `shaped` ones have a covariance each."""

    def make(seed):
        rng, z = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
        centres, X = spread * rng.normal(size=(len(sizes), d)), np.empty((len(z), d))
        for k, size in enumerate(sizes):
            shape = np.eye(d) + 0.6 * rng.normal(size=(d, d)) if shaped else np.eye(d)
            X[z == k] = centres[k] + rng.normal(size=(size, d)) @ shape
        return X, z

    return make


def steps_of_sizes(k, ratio, n):
    """About n rows in k groups, the largest of which has `ratio` times the rows of the smallest: list of int."""
    sizes = np.geomspace(1.0, ratio, k)
    return [max(2, round(size)) for size in sizes * (n / sizes.sum())]


def unequal_spreads(n):
    """Two groups with standard deviations of 1 and 30, the narrow one beside the middle of the wide one."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 2
        return 40.0 * z[:, None] + np.where(z, 1.0, 30.0)[:, None] * rng.normal(size=(n, 3)), z

    return make


def unequal_units(n):
    """Three groups in four columns, two in units of a thousandth and two in units of a million."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 3
        return (8.0 * np.eye(3, 4)[z] + rng.normal(size=(n, 4))) * [1e-3, 1e6, 1e-3, 1e6], z

    return make


def heavy_tails(n, k, d=4):
    """Student's t with three degrees of freedom around k centres."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % k
        return 20.0 * np.eye(k, d)[z] + rng.standard_t(3, size=(n, d)), z

    return make


def pairs(n):
    """Three groups in which each row has a twin a millionth away."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n // 2) % 3
        X = 8.0 * np.eye(3)[z] + rng.normal(size=(n // 2, 3))
        return np.repeat(X, 2, axis=0) + 1e-6 * rng.normal(size=(n, 3)), np.repeat(z, 2)

    return make


def rounded(n):
    """Three groups with few different values in each column."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 3
        return np.round(6.0 * np.eye(3)[z] + rng.normal(size=(n, 3))), z

    return make


def near_corners(n, n_constant):
    """Three groups 3.5 standard deviations apart, beside constant columns."""

    def make(seed):
        X, z = _corners(seed, n, 2.5)
        return np.column_stack([X, np.full((n, n_constant), 7.0)]), z

    return make


def with_copies(n):
    """Three groups 3.5 standard deviations apart, beside copies and the sum of their columns."""

    def make(seed):
        X, z = _corners(seed, n, 2.5)
        return np.column_stack([X, X[:, :2], X.sum(axis=1)]), z

    return make


def coarse_triangle(n, step):
    """Three groups 3 standard deviations apart in two columns, whose values are multiples of a step."""

    def make(seed):
        rng, z = np.random.default_rng(seed), np.arange(n) % 3
        centres = 3.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])
        return step * np.round((centres[z] + rng.normal(size=(n, 2))) / step), z

    return make


def bounded(n, share):
    """Three groups 4.2 standard deviations apart; a share of each column is at its upper bound."""

    def make(seed):
        X, z = _corners(seed, n, 3.0)
        return np.minimum(X, np.quantile(X, 1.0 - share, axis=0)), z

    return make


def real_counts(n):
    """Counts of three groups in six columns, as real values."""

    def make(seed):
        rng, z = np.random.default_rng(seed), np.arange(n) % 3
        rates = np.exp(rng.normal(1.0, 0.7, size=(3, 6)))
        return rng.poisson(rates[z]).astype(np.float64), z

    return make


def with_binary(n):
    """Three groups 4.2 standard deviations apart, beside a column of 0 and 1 with another share in each."""

    def make(seed):
        X, z = _corners(seed, n, 3.0)
        is_one = np.random.default_rng(seed + 1).random(n) < np.array([0.2, 0.5, 0.8])[z]
        return np.column_stack([X, is_one]), z

    return make


def _corners(seed, n, gap):
    rng, z = np.random.default_rng(seed), np.arange(n) % 3
    return gap * np.eye(3)[z] + rng.normal(size=(n, 3)), z


def digits(seed):
    """Handwritten digits, 64 columns of 17 values; they do not depend on the seed."""
    return load_digits(return_X_y=True)


# ---- bent shapes -----------------------------------------------------------------------------------------------------


def zeros(n, share):
    """Positive values of one law, a share of which are 0."""

    def make(seed):
        rng = np.random.default_rng(seed)
        X = np.exp(rng.normal(size=(n, 4)))
        X[rng.random(X.shape) < share] = 0.0
        return X, np.zeros(n, dtype=int)

    return make


def one_hot(n, k=8):
    """Categories as columns of 0 and 1, one of which is 1: four groups, each with one frequent category."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 4, n)
        return np.eye(k)[np.where(rng.random(n) < 0.72, 2 * z, rng.integers(0, k, n))], z

    return make


def clipped(n, limit):
    """Groups around centres N(0, 2^2 I) in three columns that end at a limit on both sides."""

    def make(seed):
        rng = np.random.default_rng(seed)
        centres, z = 2.0 * rng.normal(size=(4, 3)), rng.integers(0, 4, n)
        return np.clip(centres[z] + rng.normal(size=(n, 3)), -limit, limit), z

    return make


def outliers(n, k, n_far):
    """Groups around centres N(0, 5^2 I) in three columns; the first rows are hundreds of standard deviations away."""

    def make(seed):
        rng = np.random.default_rng(seed)
        centres, z = 5.0 * rng.normal(size=(k, 3)), rng.integers(0, k, n)
        X = centres[z] + rng.normal(size=(n, 3))
        X[:n_far] += 500.0 * rng.normal(size=(n_far, 3))
        return X, z

    return make


def strip(n):
    """One blob whose two columns have a correlation of .995."""

    def make(seed):
        rng = np.random.default_rng(seed)
        along, across = rng.normal(size=(2, n))
        return np.column_stack([along, along + 0.1 * across]), np.zeros(n, dtype=int)

    return make


def ring(n):
    """A circle of radius 10 whose rows are one group."""

    def make(seed):
        rng = np.random.default_rng(seed)
        angle = 2.0 * np.pi * rng.random(n)
        return 10.0 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(size=(n, 2)), np.zeros(n, dtype=int)

    return make


def moons(n):
    def make(seed):
        return make_moons(n, noise=0.07, random_state=seed)

    return make


def uniform(n, d=2):
    def make(seed):
        return np.random.default_rng(seed).random((n, d)), np.zeros(n, dtype=int)

    return make


# ---- wide rows -------------------------------------------------------------------------------------------------------


def wide(n, d, k):
    """Groups with a covariance each, around centres N(0, 2^2 I)."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z, X = np.arange(n) % k, np.empty((n, d))
        for j in range(k):
            own = z == j
            shape = np.eye(d) + 0.5 * rng.normal(size=(d, d)) / np.sqrt(d)
            X[own] = 2.0 * rng.normal(size=d) + rng.normal(size=(own.sum(), d)) @ shape
        return X, z

    return make


def directions(n, d, k, noise):
    """Unit vectors around random directions; `noise` is the expected length of what is added to a direction."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z, centres = np.arange(n) % k, rng.normal(size=(k, d))
        X = centres[z] / np.linalg.norm(centres, axis=1)[z, None] + noise * rng.normal(size=(n, d)) / np.sqrt(d)
        return X / np.linalg.norm(X, axis=1, keepdims=True), z

    return make


# ---- odd small data --------------------------------------------------------------------------------------------------


def two_rows(seed):
    return np.random.default_rng(seed).normal(size=(2, 2)), np.arange(2)


def two_values(n):
    """Two different rows, many times each."""

    def make(seed):
        z = np.random.default_rng(seed).permutation(n) % 2
        return z[:, None].astype(np.float64), z

    return make


def constant_column(n):
    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 3
        return np.column_stack([6.0 * np.eye(3)[z] + rng.normal(size=(n, 3)), np.full(n, 7.0)]), z

    return make
