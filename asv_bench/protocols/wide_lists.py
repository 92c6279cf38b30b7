"""Steps of a chain over wide rows that keep lists of their clusters, beside steps without lists.

A command of `asv_bench.protocols.wide`. CPU microseconds a row of one thread, float32. Parameters are drawn in each
step, and each label is drawn in both ways, which take turns; medians of the steps that use lists, or of the last ones.
`spectrum` has centres and rows whose columns have falling variances, `planted` isotropic ones, `near` those of
`spectrum` with rows as far from their centres as these from each other, `noise` no clusters at all.
"""

from statistics import median
from time import process_time
from typing import NamedTuple

import numpy as np
from reports import print_table

from expfam import MixtureModel, SphericalGaussian, SymmetricDirichlet
from expfam.samplers import UncollapsedGibbs
from expfam.samplers.uncollapsed.coded import coded_scores, draw_labels
from expfam.samplers.uncollapsed.remembered import memory_of
from expfam.structures.rows.byte_codes import has_byte_products

N_COUNTED = 3  # steps
MOST_LOSS = 1.03  # of all steps, where lists are of no use
BLOCK = 1 << 14


class Shape(NamedTuple):
    """Data, how many times faster a step with lists is to be (None: no slower), and the number of steps."""

    kind: str
    n_columns: int
    n_clusters: int
    n_each: int
    least: float | None
    n_steps: int = 7


SHAPES = (
    Shape("spectrum", 384, 1024, 100, 1.5),
    Shape("spectrum", 384, 1024, 300, 1.5),
    Shape("planted", 384, 1024, 300, 1.5),
    Shape("planted", 96, 256, 4000, 1.5),
    Shape("spectrum", 384, 4096, 100, 3.0),
    Shape("spectrum", 96, 4096, 300, 3.0),
    Shape("near", 384, 1024, 300, None, 16),
    Shape("noise", 96, 256, 100, None, 16),
)
QUICK_SHAPES = (Shape("planted", 96, 128, 100, None), Shape("noise", 96, 128, 100, None))


def rows_of(shape, seed=0):
    """Unit rows, float32, and labels; made by blocks of rows."""
    kind, d, K, n_each = shape[:4]
    rng = np.random.default_rng(seed)
    labels = rng.integers(K, size=K * n_each)
    scale = np.ones(d) if kind == "planted" else np.arange(1, d + 1) ** -0.5
    centres = (rng.normal(size=(K, d)) * scale * (kind != "noise")).astype(np.float32)
    scale = (scale * (1.0 if kind == "near" else 0.5)).astype(np.float32)
    X = np.empty((len(labels), d), dtype=np.float32)
    for start in range(0, len(X), BLOCK):
        rows = X[start : start + BLOCK]
        rng.standard_normal(dtype=np.float32, out=rows)
        rows *= scale
        rows += centres[labels[start : start + BLOCK]]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return X, labels


def timed(call):
    begin = process_time()
    return call(), process_time() - begin


def steps_of(shape):
    """Times of each step: what both share, its draw without lists and with them, and whether lists were used."""
    X, labels = rows_of(shape)
    model = MixtureModel(SphericalGaussian(), SymmetricDirichlet(shape.n_clusters)).bind(X)
    kernel = UncollapsedGibbs(draw="pruned", n_threads=1)
    state, steps = kernel.init(model, X, seed=0, start=labels), []
    for _ in range(shape.n_steps):
        shared = timed(state.draw_parameters)[1]
        plain, without = timed(lambda: draw_labels(state, 1, coded_scores(state))[0])
        memory = memory_of(state)
        had_lists = memory.lists is not None and not memory.is_trial
        listed, with_lists = timed(lambda: kernel.draw_labels(state)[0])
        np.testing.assert_array_equal(plain, listed)
        shared += timed(lambda labels=listed: state.move_labels(labels))[1]
        state.n_steps += 1
        steps.append((1e6 * shared / len(X), 1e6 * without / len(X), 1e6 * with_lists / len(X), had_lists))
    return steps


def lists(is_quick):
    """Print a line for each shape and return whether lists are as much faster as they should be."""
    lines, reached = [], True
    for shape in QUICK_SHAPES if is_quick else SHAPES:
        steps = steps_of(shape)
        used = [step for step in steps if step[3]]
        shared, without, with_lists = (median(step[i] for step in (used or steps)[-N_COUNTED:]) for i in range(3))
        whole = (shared + without) / (shared + with_lists)
        all_steps = sum(step[2] for step in steps) / sum(step[1] for step in steps)
        if has_byte_products() and not is_quick:
            reached &= all_steps <= MOST_LOSS if shape.least is None else whole >= shape.least
        lines.append({
            "rows": shape.kind, "columns": shape.n_columns, "clusters": shape.n_clusters, "a cluster": shape.n_each,
            "shared": shared, "without": without, "lists": with_lists, "steps with": len(used), "step, times": whole,
            "all draws": all_steps, "goal": shape.least or MOST_LOSS,
        })  # fmt: skip
    print_table(lines)
    return reached
