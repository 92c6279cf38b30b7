"""Drawing labels with a tree of the clusters, where it costs less than a dense pass."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from expfam.errors import ExpFamError
from expfam.structures.cluster_tree.tree import ClusterTree, Scratch, smoothed_means
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_BLOCK_ENTRIES = 1 << 17  # entries of a block of phi
_TRIALS = 512  # data for which a trial counts the clusters that a tree scores

# Nanoseconds on a machine with AVX-512, for dense (False) and CSR (True) statistics. A score in the tree, and a cluster
# of the dense pass: fixed cost, and cost of each number of phi that a score reads. Making the tree: cost of each number
# of Theta.
_VISIT_COST = {False: (50.0, 0.1), True: (20.0, 1.5)}
_ENTRY_COST = {False: (0.75, 0.016), True: (0.75, 0.12)}
_BUILD_COST = {False: 70.0, True: 140.0}
_ROUNDING = 1e-12  # a spread below this share of a column's size is rounding error
_MOST_FOR_TRIAL = 0.1  # maximal cost of making a tree for a trial, as a share of the dense pass


def tree_of(state: Any, *, n_threads: int | None = None, **options: Any) -> ClusterTree:
    """Make a tree of the clusters of a state with drawn parameters.

    The means and the spread of the tree are those of the data under the state's labels.

    Parameters
    ----------
    state : UncollapsedState
    n_threads : int or None
        Number of threads; the tree does not depend on it.
    **options
        `base` and `leaf` of `ClusterTree`.

    Returns
    -------
    ClusterTree
    """
    is_sparse = state.data.has_sparse_phi
    center, means = smoothed_means(state.n, state.S, state.Theta)
    spread = _spread(state, means, center)
    return ClusterTree(
        state.Theta,
        state.G,
        state.log_pi,
        means=means,
        center=None if is_sparse else center,
        spread=spread,
        is_sparse=is_sparse,
        n_threads=n_threads,
        **options,
    )


def _spread(state, means, center):
    """Compute the root mean square of phi about the means, by column, from about 1000 rows."""
    data, N = state.data, state.data.n_rows
    total, rows = np.zeros(center.shape), 0
    for start, stop in sample_blocks(N, 1024):
        if data.has_sparse_phi:
            phi = data.phi_csr(start, stop)
            total += np.asarray(phi.multiply(phi).sum(axis=0)).ravel()
        else:
            total += ((data.phi(start, stop) - means[state.labels[start:stop]]) ** 2).sum(axis=0)
        rows += stop - start
    if data.has_sparse_phi:  # rare columns may be zero in a sample; the variance of counts is about their mean
        return np.sqrt(np.maximum(total / rows - center**2, np.abs(center)))
    spread, size = np.sqrt(total / rows), np.abs(means[np.asarray(state.n) > 0]).max(axis=0)
    return np.where(spread > _ROUNDING * size, spread, 0.0)  # with one datum in each cluster all deviations may be 0


def sample_blocks(n_rows, most, block=64):
    """Return bounds of evenly spaced blocks of rows, with at most `most` rows in total."""
    if n_rows <= most:
        return [(0, n_rows)]
    n = most // block
    starts = [(n_rows - block) * b // (n - 1) for b in range(n)]
    return [(start, start + block) for start in starts]


def draw_labels(
    state: Any,
    n_threads: int | None,
    *,
    tau: float = 12.0,
    method: Literal["tree", "rejection"] = "tree",
    tree: ClusterTree | None = None,
) -> tuple[npt.NDArray[np.int32], dict[str, float]]:
    """Draw labels of all data from their exact law given Theta, G and log pi.

    Parameters
    ----------
    state : UncollapsedState
        Its parameters are drawn; its labels serve as guesses.
    n_threads : int or None
        Number of threads; the labels do not depend on it.
    tau : float
        Nats. Cells this far below the best cluster are left to the tail. It changes only the cost.
    method : {"tree", "rejection"}
        As in `UncollapsedGibbs`.
    tree : ClusterTree, optional
        Tree of the state's parameters, if it exists already.

    Returns
    -------
    labels : (N,) int32 ndarray
    extra : dict
        ``visits`` and ``tails``, the mean numbers of clusters that were scored and of rejected draws for a datum.

    Raises
    ------
    FloatingPointError
        A datum has no finite weight.
    """
    tree = tree_of(state, n_threads=n_threads) if tree is None else tree
    N = state.data.n_rows
    labels = np.empty(N, dtype=np.int32)
    rows = min(max(_BLOCK_ENTRIES // state.Theta.shape[1], 256), 4096)
    blocks = [(start, min(start + rows, N)) for start in range(0, N, rows)]
    counts = _draw_blocks(tree, state, labels, blocks, n_threads, tau, method)
    return labels, {"visits": float(counts[0] / N), "tails": float(counts[2] / N)}


def _draw_blocks(tree, state, labels, blocks, n_threads, tau, method):
    """Draw the labels of blocks of rows; return the sums of the counts."""
    data, held, lock = state.data, [], threading.Lock()

    def draw_block(start, stop):
        with lock:
            scratch = held.pop() if held else Scratch(tree)
        phi = data.phi_csr(start, stop) if data.has_sparse_phi else data.phi(start, stop)
        drawn, counts = tree.draw(
            phi,
            seed=state.seed,
            step=state.n_steps,
            first_row=data.row_offset + start,
            labels=state.labels[start:stop],
            tau=tau,
            method=method,
            scratch=scratch,
        )
        if (drawn < 0).any():
            raise FloatingPointError(
                f"family {data.family.name!r}, datum {start + int(np.argmin(drawn))}: no component has a finite score"
                " under the drawn parameters"
            )
        labels[start:stop] = drawn
        with lock:
            held.append(scratch)
        return counts

    return np.sum(run(draw_block, blocks, n_threads, uses_blas=False), axis=0)


def dense_cost(data: Dataset, n_clusters: int) -> float:
    """Return the nanoseconds that a dense pass takes for a datum."""
    fixed, slope = _ENTRY_COST[data.has_sparse_phi]
    return n_clusters * (fixed + slope * _columns(data))


def preferred_tree(
    state: Any, *, least_clusters: int = 512, at_most: float | None = None, n_threads: int | None = None
) -> ClusterTree | None:
    """Make a tree of the clusters if it should draw labels faster than a dense pass.

    Labels of 512 data are drawn by a tree. The costs of making it and of as many scores for each datum are compared
    with the cost of a dense pass. The costs are constants of the package: a choice by the clock would make results
    depend on the machine's load.

    Parameters
    ----------
    state : UncollapsedState
        With drawn parameters.
    least_clusters : int
        Least number of clusters for a tree.
    at_most : float, optional
        Nanoseconds for a datum, which the tree has to take less than; those of a dense pass if not given.
    n_threads : int or None
        Number of threads; the result does not depend on it.

    Returns
    -------
    ClusterTree or None
        None also if making a tree costs more than a tenth of the dense pass.
    """
    if least_clusters > state.K:
        return None
    is_sparse, N = state.data.has_sparse_phi, state.data.n_rows
    fixed, slope = _VISIT_COST[is_sparse]
    visit = fixed + slope * _columns(state.data)
    build = _BUILD_COST[is_sparse] * state.Theta.size
    dense = N * (dense_cost(state.data, state.K) if at_most is None else at_most)
    if build > _MOST_FOR_TRIAL * dense:
        return None
    try:
        tree = tree_of(state, n_threads=n_threads)
    except ExpFamError:  # single precision cannot hold the parameters; a dense pass can use them
        return None
    blocks = sample_blocks(N, _TRIALS)
    counts = _draw_blocks(tree, state, np.empty(N, np.int32), blocks, 1, 12.0, "tree")
    visits = counts[0] / sum(stop - start for start, stop in blocks)
    return tree if build + visits * visit * N < dense else None


def _columns(data):
    """Return how many numbers of phi a score reads: its columns, or the entries of a sparse row."""
    if not data.has_sparse_phi:
        return data.n_statistics
    blocks = sample_blocks(data.n_rows, _TRIALS)
    return sum(data.phi_csr(start, stop).nnz for start, stop in blocks) / sum(stop - start for start, stop in blocks)
