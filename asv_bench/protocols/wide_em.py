"""Steps of EM with many clusters beside scikit-learn's, from the same parameters.

A command of `asv_bench.protocols.wide`. CPU microseconds a row of one thread, float32; the sides take turns, medians of
three. Groups have normal centres, and rows lie about them with a spread of 1 or .5 in each column. Both sides begin at
the parameters of the true labels; the fifth step is timed, where responsibilities have settled, and the fifth iteration
of scikit-learn. Diagonal clusters are to take a tenth of its time, full covariances of 64 columns 10 us.
"""

import warnings
from statistics import median
from time import process_time
from typing import NamedTuple

import numpy as np
from reports import print_table
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from expfam import DiagonalGaussian, Gaussian, MixtureModel, SymmetricDirichlet
from expfam.samplers import ExpectationMaximization

ROUNDS, STEPS = 3, 5
KINDS = {"diagonal": (DiagonalGaussian, "diag"), "full": (Gaussian, "full")}


class Shape(NamedTuple):
    """Groups of rows, and the most that a step may take: times scikit-learn's, or microseconds a row."""

    kind: str
    n_clusters: int
    n_columns: int
    n_rows: int
    spread: float
    most_of_sklearn: float | None
    most: float | None


SHAPES = (
    Shape("diagonal", 256, 16, 100_000, 1.0, 0.1, None),
    Shape("diagonal", 1024, 32, 60_000, 1.0, 0.1, None),
    Shape("diagonal", 4096, 64, 40_000, 1.0, 0.1, None),
    Shape("full", 200, 64, 60_000, 1.0, None, 10.0),
    Shape("full", 200, 64, 60_000, 0.5, None, 10.0),
)
QUICK_SHAPES = (Shape("diagonal", 64, 16, 10_000, 1.0, 0.5, None), Shape("full", 20, 16, 10_000, 1.0, None, 10.0))


def rows_of(shape):
    """Rows, float32, and the groups that they come from."""
    rng = np.random.default_rng(0)
    labels = rng.integers(shape.n_clusters, size=shape.n_rows)
    centres = rng.normal(size=(shape.n_clusters, shape.n_columns))
    return (centres[labels] + shape.spread * rng.normal(size=(shape.n_rows, shape.n_columns))).astype(
        np.float32
    ), labels


def our_steps(shape, X, labels):
    """A function that makes a step of EM; four were made."""
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
    precision = np.float32(1.0 / shape.spread**2)
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


def timed(call, n_rows):
    begin = process_time()
    call()
    return 1e6 * (process_time() - begin) / n_rows


def line_of(shape):
    """Times of both sides, and whether the goal is reached."""
    X, labels = rows_of(shape)
    ours, theirs = our_steps(shape, X, labels), their_steps(shape, X, labels)
    found = [(timed(ours, shape.n_rows), timed(theirs, shape.n_rows)) for _ in range(ROUNDS)]
    step, rival = (median(each) for each in zip(*found, strict=True))
    most = shape.most if shape.most is not None else shape.most_of_sklearn * rival
    return {
        "clusters": f"{shape.n_clusters:,} {shape.kind}",
        "columns": shape.n_columns,
        "spread": shape.spread,
        "EM, us": step,
        "scikit-learn, us": rival,
        "times": rival / step,
        "goal": f"<= {most:.2g} us",
    }, step <= most


def em(is_quick):
    """Print a line for each shape and return whether all steps reach their goals."""
    lines, reached = zip(*(line_of(shape) for shape in (QUICK_SHAPES if is_quick else SHAPES)), strict=True)
    print_table(lines)
    return all(reached)
