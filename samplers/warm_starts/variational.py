"""Starting labels from ten variational passes, merged greedily."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess
from expfam.samplers.chain.driver import advance
from expfam.samplers.starts.greedy_merge import merged_labels
from expfam.samplers.starts.rules import default_n_clusters
from expfam.samplers.variational.mixture import SparseVariational

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_PASSES = 10


def named_start(
    model: Any, data: Dataset, seed: int, limit: int | None, n_threads: int | None
) -> npt.NDArray[np.int32]:
    """Return the labels of ``start="variational"``: (N,) int32 ndarray.

    Parameters
    ----------
    model : MixtureModel
    data : Dataset
    seed : int
        Seed of the chain, 64 bits.
    limit : int or None
        Number of clusters at the start of the passes, at most N; None for the default of the model.
    n_threads : int or None
        Number of threads; the labels do not depend on it.
    """
    K = min(limit or default_n_clusters(model, data.n_rows), data.n_rows)
    kernel = SparseVariational(truncation=K, n_threads=n_threads)
    free = MixtureModel(model.family, DirichletProcess())
    state = kernel.init(free, data, seed=seed, start="kmeans++", n_clusters=K)
    advance(kernel, state, _PASSES)
    return merged_labels(model, data, state.labels)
