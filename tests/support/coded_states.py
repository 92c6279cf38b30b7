"""States whose labels are drawn by products of integers, and the labels that all scores give."""

import numpy as np

import expfam as ef
from expfam.samplers import UncollapsedState
from expfam.samplers.uncollapsed.dense import DenseScores, draw_rows

FAMILIES = {
    "spherical": ef.SphericalGaussian(),
    "diagonal": ef.DiagonalGaussian(),
    "full": ef.Gaussian(),
    "von Mises-Fisher": ef.load_family("von_mises_fisher", normalize=True),
    "poisson": ef.Poisson(shape=2.0, rate=0.5),
}


def rows_of(kind, n=500, d=12, K=70, seed=0):
    """Rows, and clusters that they might have been drawn from."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(K, size=n)
    X = rng.normal(size=(K, d))[labels] * 3.0 + {"planted": 0.3, "noise": 30.0}.get(kind, 1.0) * rng.normal(size=(n, d))
    if kind == "ties":
        X = np.repeat(X[:25], n // 25, axis=0)
    if kind == "zeros":
        X[::3] = 0.0
    if kind == "one cluster":
        labels[:] = 0  # all others are empty
    if kind == "far":
        X[5], X[6], X[7] = 1e12, 1e6, 1e-300
    return X, labels


def state_of(name, kind, K=70, **options):
    X, labels = rows_of(kind, K=K, **options)
    X = np.abs(np.rint(X)) if name == "poisson" else X + (1e-3 if "Mises" in name else 0.0)
    data = ef.Dataset(X, FAMILIES[name])
    state = UncollapsedState(ef.MixtureModel(data.family, ef.SymmetricDirichlet(K)), data, labels, n_clusters=K, seed=1)
    state.draw_parameters()
    return state


def whole_labels(state):
    """The label that the uniform number of each row picks among all weights in double precision."""
    N = state.data.n_rows
    scores = DenseScores(state.data, state.Theta, state.G, state.log_pi, state.n, state.S)
    labels = np.empty(N, dtype=np.int32)
    assert draw_rows(scores.exact_scores(state.data.phi(0, N)), np.arange(N), labels, state.seed, state.n_steps, 0) < 0
    return labels


def embedded(kind, n=20_000, K=512, d=128):
    """A state of many rows, in clusters that lie apart or in one another."""
    rng = np.random.default_rng(0)
    labels = rng.integers(K, size=n)
    X = (3.0 if kind == "apart" else 0.0) * rng.normal(size=(K, d))[labels] + rng.normal(size=(n, d))
    data = ef.Dataset(X.astype(np.float32), ef.SphericalGaussian())
    state = UncollapsedState(ef.MixtureModel(data.family, ef.SymmetricDirichlet(K)), data, labels, n_clusters=K, seed=0)
    state.draw_parameters()
    return state
