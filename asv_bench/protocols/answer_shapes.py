"""Generated data of many shapes, for the question whether a fit is below what anybody can write down.

Each shape is a function of a seed that gives rows and the true clusters, and names the families that fit it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from expfam import SphericalGaussian

SHARED = "gaussian_spherical_shared"
OBJECTS = {SHARED: lambda: SphericalGaussian(variance="shared")}  # families that no name stands for
DIAG, FULL, SPHERICAL = GAUSSIANS = ("gaussian_diag", "gaussian", "gaussian_spherical")


class Shape(NamedTuple):
    """Data with known clusters.

    Attributes
    ----------
    name : str
    make : callable
        (seed) -> rows and their true clusters.
    families : tuple of str
    n_rows : int
    given : int
        Number of clusters that is given in half of the fits.
    seeds : int or None
        The most that are worth their time.
    """

    name: str
    make: Callable[[int], tuple[Any, np.ndarray]]
    families: tuple[str, ...]
    n_rows: int
    given: int
    seeds: int | None = None

    @property
    def is_small(self):
        return self.n_rows <= 2000 and self.seeds is None


def family_of(name):
    """What `Mixture` is given for the name of a family."""
    return OBJECTS[name]() if name in OBJECTS else name


def shapes():
    """All shapes."""
    return [*_of_vectors(), *_of_counts()]


# ---- vectors ---------------------------------------------------------------------------------------------------------


def _of_vectors():
    for n, d in ((500, 1), (500, 4), (2000, 2)):
        yield Shape(f"blob-{n}x{d}", blob(n, d), GAUSSIANS, n, 3)
    yield Shape("components-2-30", components(1000, 30, 2), (DIAG, FULL), 1000, 2)
    yield Shape("components-3-20", components(1500, 20, 3), (DIAG, FULL), 1500, 3)
    yield Shape("telling-12", telling(1000, 12, 20.0), (DIAG, FULL), 1000, 2)
    yield Shape("telling-30", telling(1000, 30, 20.0), (DIAG,), 1000, 2)
    yield Shape("unequal-sizes", unequal_sizes((900, 50, 50)), GAUSSIANS, 1000, 3)
    yield Shape("heavy-tails-1", heavy_tails(1000, 1), (DIAG, FULL), 1000, 3)
    yield Shape("strip", strip(1000), (DIAG, FULL), 1000, 2)
    yield Shape("uniform-square", uniform(1000), (DIAG, SPHERICAL), 1000, 4)
    yield Shape("grid-25", grid(1250), GAUSSIANS, 1250, 25)


def blob(n, d):
    def make(seed):
        return np.random.default_rng(seed).normal(size=(n, d)), np.zeros(n, dtype=int)

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


def telling(n, n_noise, gap, noise=1.0):
    """One column with two groups `gap` standard deviations apart, among columns of noise."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 2
        return np.column_stack([gap * z + rng.normal(size=n), noise * rng.normal(size=(n, n_noise))]), z

    return make


def unequal_sizes(sizes, d=3, gap=8.0):
    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.repeat(np.arange(len(sizes)), sizes)
        return gap * np.eye(len(sizes), d)[z] + rng.normal(size=(len(z), d)), z

    return make


def heavy_tails(n, k, d=4):
    """Student's t with three degrees of freedom around k centres."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % k
        return 20.0 * np.eye(k, d)[z] + rng.standard_t(3, size=(n, d)), z

    return make


def strip(n):
    """One blob whose two columns have a correlation of .995."""

    def make(seed):
        rng = np.random.default_rng(seed)
        along, across = rng.normal(size=(2, n))
        return np.column_stack([along, along + 0.1 * across]), np.zeros(n, dtype=int)

    return make


def uniform(n):
    def make(seed):
        return np.random.default_rng(seed).random((n, 2)), np.zeros(n, dtype=int)

    return make


def grid(n):
    """Twenty-five groups on a square grid of two columns."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 25
        return np.column_stack([z // 5, z % 5]) * 6.0 + rng.normal(size=(n, 2)), z

    return make


# ---- counts ----------------------------------------------------------------------------------------------------------


def _of_counts():
    yield Shape("poisson-blob", poisson_blob(800, 5), ("poisson", "negative_binomial"), 800, 2)
    yield Shape("poisson-strong", strong_count(1000, 40), ("poisson", "negative_binomial"), 1000, 2)
    yield Shape("words-long", words(600, 4, 80), ("multinomial",), 600, 4)


def poisson_blob(n, d):
    def make(seed):
        return np.random.default_rng(seed).poisson(4.0, (n, d)), np.zeros(n, dtype=int)

    return make


def strong_count(n, n_noise):
    """One column with rates of 10 and 300, among columns of Poisson noise."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 2
        return np.column_stack([rng.poisson(np.where(z, 300, 10)), rng.poisson(3, (n, n_noise))]), z

    return make


def words(n, k, length, n_words=200):
    """Word counts of texts of some length, each of one topic."""

    def make(seed):
        rng = np.random.default_rng(seed)
        topics = rng.dirichlet(np.full(n_words, 0.1), k)
        z = np.arange(n) % k
        return np.array([rng.multinomial(length, topics[j]) for j in z]), z

    return make
