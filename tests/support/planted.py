"""Data whose clusters are known: some six of every family, and twelve of texts and of points for whole sweeps."""

import numpy as np
from scipy import sparse

import expfam as ef

REAL = {
    "gaussian": ef.Gaussian(),
    "gaussian_diag": ef.DiagonalGaussian(),
    "gaussian_spherical": ef.SphericalGaussian(),
    "gaussian_spherical_shared": ef.SphericalGaussian(variance="shared"),
}
PLANTED = ["multinomial", "poisson", "categorical", *REAL, "gaussian_zero"]

RNG = np.random.default_rng(5)
TOPICS = RNG.dirichlet(np.full(60, 0.1), size=12)
CLASSES = np.arange(600) % 12
TEXT = sparse.csr_array(np.array([RNG.multinomial(15, TOPICS[k]) for k in CLASSES]))
POINTS = RNG.normal(size=(600, 3)) + 6.0 * RNG.normal(size=(12, 3))[CLASSES]


def planted(name, n=400, seed=0):
    """A family of `PLANTED`, data of about six clusters, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 6, n)
    if name == "multinomial":
        topics = rng.dirichlet(np.full(20, 0.2), 6)
        return ef.Multinomial(concentration=0.3), np.array([rng.multinomial(12, topics[k]) for k in labels]), labels
    if name == "poisson":
        return ef.Poisson(shape=0.8, rate=0.3), rng.poisson(rng.gamma(1.0, 5.0, (6, 5))[labels]), labels
    if name == "categorical":
        laws = rng.dirichlet(np.full(4, 0.3), (6, 5)).cumsum(axis=2)
        codes = (rng.random((n, 5, 1)) > laws[labels]).sum(axis=2)
        codes[rng.random((n, 5)) < 0.1] = -1
        return ef.Categorical(concentration=0.5, n_levels=4), codes, labels
    if name == "gaussian_zero":
        axes = rng.normal(size=(6, 4, 4))
        return ef.ZeroMeanGaussian(), np.einsum("nij,nj->ni", axes[labels], rng.normal(size=(n, 4))), labels
    centres = rng.normal(scale=2.0, size=(6, 3))
    return REAL[name], centres[labels] + rng.normal(size=(n, 3)) + 100.0, labels


def planted_groups():
    """1,200 rows of 40 groups, their groups, and their clusters: five, with other weights in each group."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(5, 0.3), 40)
    groups = np.repeat(np.arange(40), 30)
    labels = np.array([rng.choice(5, p=weights[g]) for g in groups])
    X = 7.0 * np.eye(5)[labels] + rng.normal(size=(1200, 5))
    return X, groups, labels


def assert_never_falls(values, slack=1e-9):
    """Each of the values is at least the one before it, up to rounding of the first one's size."""
    assert (np.diff(values) >= -slack * abs(values[0])).all(), np.diff(values).min()
