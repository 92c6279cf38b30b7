"""Steps of EM with many clusters beside scikit-learn's, from the same parameters.

A command of `asv_bench.protocols.wide`. CPU microseconds a row of one thread, float32; the sides take turns, medians of
three. Groups lie in three nested scales, or have normal centres (`normal`), about which rows lie with a spread of 1 or
.5 in each column. Both sides begin at the true labels, and their second step is timed: later ones may find that nothing
changes any more. Nested diagonal clusters are to take a tenth of the time of scikit-learn, full covariances of 64
columns 10 us. Many normal groups of 32 columns overlap, so that most responsibilities count; no goal is set there.

"""

import warnings
from statistics import median
from typing import NamedTuple

import numpy as np
from generated import data as generated
from reports import print_table
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from wide_draws import timed

from expfam import DiagonalGaussian, Gaussian, MixtureModel, SymmetricDirichlet
from expfam.samplers import ExpectationMaximization

ROUNDS, STEPS = 3, 2
KINDS = {"diagonal": (DiagonalGaussian, "diag"), "full": (Gaussian, "full")}


class Shape(NamedTuple):
    """Groups of rows, and the most that a step may take: times scikit-learn's, or microseconds a row."""

    kind: str
    n_clusters: int
    n_columns: int
    n_rows: int
    data: str
    scale: float  # of the finest scale of nested centres, or of the rows about normal ones
    most_of_sklearn: float | None = None
    most: float | None = None


SHAPES = (
    Shape("diagonal", 256, 16, 400_000, "nested", 1.0, most_of_sklearn=0.1),
    Shape("diagonal", 1024, 32, 60_000, "nested", 1.0, most_of_sklearn=0.1),
    Shape("diagonal", 4096, 64, 40_000, "nested", 0.7, most_of_sklearn=0.1),
    Shape("diagonal", 1024, 32, 60_000, "normal", 1.0),
    Shape("full", 200, 64, 60_000, "normal", 1.0, most=10.0),
    Shape("full", 200, 64, 60_000, "normal", 0.5, most=10.0),
)
QUICK_SHAPES = (
    Shape("diagonal", 64, 16, 10_000, "nested", 1.0, most_of_sklearn=0.5),
    Shape("full", 20, 16, 10_000, "normal", 1.0, most=10.0),
)


def rows_of(shape):
    """Rows, float32, and the groups that they come from."""
    K, d, N = shape.n_clusters, shape.n_columns, shape.n_rows
    if shape.data == "nested":
        X, labels = generated.nested_gaussians(N, K, n_features=d, separation=shape.scale)
        return X.astype(np.float32), labels
    rng = np.random.default_rng(0)
    labels = rng.integers(K, size=N)
    return (rng.normal(size=(K, d))[labels] + shape.scale * rng.normal(size=(N, d))).astype(np.float32), labels


def our_step(shape, X, labels):
    """A function that makes the second step of EM."""
    family, _ = KINDS[shape.kind]
    model = MixtureModel(family(), SymmetricDirichlet(shape.n_clusters)).bind(X)
    kernel = ExpectationMaximization(tol=0.0, n_threads=1)
    state = kernel.init(model, X, seed=0, start=labels)
    for _ in range(STEPS - 1):
        kernel.step(state)
    return lambda: kernel.step(state)


def their_steps(shape, X, labels):
    """A function that makes an iteration of scikit-learn's EM from settled parameters."""
    K, kind = shape.n_clusters, KINDS[shape.kind][1]
    counts, means = np.bincount(labels, minlength=K), np.zeros((K, shape.n_columns))
    np.add.at(means, labels, X)
    means /= np.maximum(counts, 1)[:, None]
    precision = np.float32(1.0 if shape.data == "nested" else shape.scale**-2)
    each = np.full(shape.n_columns, precision) if kind == "diag" else precision * np.eye(shape.n_columns)
    mixture = GaussianMixture(
        K,
        covariance_type=kind,
        max_iter=1,
        weights_init=(counts + 1.0) / (counts + 1.0).sum(),
        means_init=means.astype(np.float32),
        precisions_init=np.broadcast_to(each, (K, *each.shape)).astype(np.float32),
        reg_covar=1e-3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(X)

    def step():
        _, log_shares = mixture._e_step(X)  # `fit` makes one more of them
        mixture._m_step(X, log_shares)

    return step


def line_of(shape):
    """Times of both sides, and whether the goal is reached."""
    X, labels = rows_of(shape)
    theirs = their_steps(shape, X, labels)
    found = [(timed(our_step(shape, X, labels), shape.n_rows), timed(theirs, shape.n_rows)) for _ in range(ROUNDS)]
    step, rival = (median(each) for each in zip(*found, strict=True))
    most = np.inf
    if shape.most is not None or shape.most_of_sklearn is not None:
        most = shape.most if shape.most is not None else shape.most_of_sklearn * rival
    return {
        "clusters": f"{shape.n_clusters:,} {shape.kind}",
        "columns": shape.n_columns,
        "rows": f"{shape.n_rows:,} {shape.data}, {shape.scale}",
        "EM, us": step,
        "scikit-learn, us": rival,
        "times": rival / step,
        "goal": f"<= {most:.2g} us" if np.isfinite(most) else "",
    }, step <= most


def em(is_quick):
    """Print a line for each shape and return whether all steps reach their goals."""
    lines, reached = zip(*(line_of(shape) for shape in (QUICK_SHAPES if is_quick else SHAPES)), strict=True)
    print_table(lines)
    return all(reached)
