"""Exact draws of labels over wide rows: all scores, scores that bounds of integers leave, and faiss' nearest centres.

A command of `asv_bench.protocols.wide`. CPU microseconds a row of one thread, float32, 384 columns; the sides take
turns, medians of three. Labels are drawn given parameters that were drawn given the true labels. `spectrum` has centres
and rows whose columns have falling variances, `planted` isotropic ones, `noise` no clusters at all.
"""

from statistics import median
from time import process_time
from typing import NamedTuple

import numpy as np
from reports import print_table

from expfam import MixtureModel, SphericalGaussian, SymmetricDirichlet
from expfam.samplers import UncollapsedGibbs
from expfam.structures.rows.byte_codes import has_byte_products

COLUMNS = 384
ROUNDS = 3
MOST_OF_DENSE = 1.05  # what the choice of the default may take where integers are of no use
SETTINGS = ("dense", "pruned", "auto")


class Goal(NamedTuple):
    """A shape of data, and the most microseconds a row that the default draw may take; None: beside the dense one."""

    kind: str
    n_clusters: int
    most: float | None


GOALS = (
    Goal("spectrum", 1024, 2.5),
    Goal("spectrum", 4096, 7.0),
    Goal("planted", 1024, 2.5),
    Goal("planted", 4096, 7.0),
    Goal("noise", 1024, None),
)
QUICK_GOALS = (Goal("planted", 256, None), Goal("noise", 256, None))


def rows_of(kind, n_rows, n_clusters, seed=0):
    """Unit rows, float32, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_clusters, size=n_rows)
    scale = np.arange(1, COLUMNS + 1) ** -0.5 if kind == "spectrum" else np.ones(COLUMNS)
    X = 0.5 * rng.normal(size=(n_rows, COLUMNS)) * scale
    if kind != "noise":
        X += (rng.normal(size=(n_clusters, COLUMNS)) * scale)[labels]
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), labels


def faiss_index(X, labels, n_clusters):
    """An index of the means of the clusters."""
    import faiss

    faiss.omp_set_num_threads(1)
    sums = np.zeros((n_clusters, COLUMNS))
    np.add.at(sums, labels, X)
    index = faiss.IndexFlatL2(COLUMNS)
    index.add((sums / np.maximum(np.bincount(labels, minlength=n_clusters), 1)[:, None]).astype(np.float32))
    return index


def timed(call, n_rows):
    begin = process_time()
    call()
    return 1e6 * (process_time() - begin) / n_rows


def times_of(kind, n_rows, n_clusters):
    """Microseconds a row of each way to draw, and of the nearest centres."""
    X, labels = rows_of(kind, n_rows, n_clusters)
    model = MixtureModel(SphericalGaussian(), SymmetricDirichlet(n_clusters)).bind(X)
    kernels = {draw: UncollapsedGibbs(draw=draw, n_threads=1) for draw in SETTINGS}
    state = kernels["dense"].init(model, X, seed=0, start=labels)
    state.draw_parameters()
    index = faiss_index(X, labels, n_clusters)
    found = {name: [] for name in (*SETTINGS, "faiss")}
    for _ in range(ROUNDS):
        for draw, kernel in kernels.items():
            found[draw].append(timed(lambda kernel=kernel: kernel.draw_labels(state), n_rows))
        found["faiss"].append(timed(lambda: index.search(X, 1), n_rows))
    return {name: median(each) for name, each in found.items()}


def draws(is_quick):
    """Print a line for each shape and return whether the default draw reaches its goals.

    Only machines with products of bytes have goals in microseconds.
    """
    lines, reached = [], True
    for kind, n_clusters, most in QUICK_GOALS if is_quick else GOALS:
        found = times_of(kind, 4_000 if is_quick else 20_000, n_clusters)
        most = MOST_OF_DENSE * found["dense"] if most is None or not has_byte_products() else most
        reached &= found["auto"] <= most
        lines.append({"rows": kind, "clusters": n_clusters, **found, "goal": f"auto <= {most:.1f}"})
    print_table(lines)
    return reached
