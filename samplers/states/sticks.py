"""Open sticks: slices of the data decide how many clusters without data a sweep looks at.

Under a Dirichlet process the weights of clusters with data and the rest are Dirichlet; the rest is broken into sticks.
Each datum draws a slice below the weight of its cluster, and then a label among the clusters that are heavier than its
slice, with their likelihoods alone (Walker 2007, "Sampling the Dirichlet mixture model with slices"; Kalli, Griffin and
Walker 2011, "Slice sampling mixture models"). Sticks are broken until the rest is below every slice, so none is left
out, and the law of the partition is that of the process itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.errors import ResourceError
from expfam.structures.ground.rng import log_uniforms

if TYPE_CHECKING:
    from expfam.protocols import Floats

_MOST_STICKS = 1 << 20


def log_slices(row_offset: int, labels: npt.NDArray[np.int32], log_pi: Floats, seed: int, step: int) -> Floats:
    """Return the log slice of each datum: (n,) float64, at most the log weight of its cluster.

    Parameters
    ----------
    row_offset : int
        Global number of the first datum.
    labels : (n,) int32 ndarray
    log_pi : (K,) float64 ndarray
    seed, step : int
    """
    return log_uniforms(seed, "slice", row_offset, labels.size, step) + log_pi[labels]


def live_weights(n: Floats, alpha: float, rng: np.random.Generator) -> tuple[Floats, float]:
    """Draw the weights of clusters with data, and their rest, under a Dirichlet process.

    Parameters
    ----------
    n : (K,) float64 ndarray
    alpha : float
    rng : numpy.random.Generator

    Returns
    -------
    log_pi : (K,) float64 ndarray
        -inf for slots without data.
    log_rest : float
        -inf if the rest is below the least floating-point number.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.states.sticks import live_weights
    >>> log_pi, log_rest = live_weights(np.array([3.0, 0.0, 1.0]), 2.0, np.random.default_rng(0))
    >>> bool(np.isclose(np.exp(log_pi).sum() + np.exp(log_rest), 1.0)), float(log_pi[1])
    (True, -inf)
    """
    live = np.flatnonzero(n > 0)
    g = rng.standard_gamma(np.append(n[live], alpha))
    with np.errstate(divide="ignore"):  # a tiny alpha leaves nothing, which is below every slice
        logs = np.log(g) - np.log(g.sum())
    log_pi = np.full(n.size, -np.inf)
    log_pi[live] = logs[:-1]
    return log_pi, float(logs[-1])


def with_new_sticks(
    log_pi: Floats, log_rest: float, least: float, alpha: float, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Break sticks off the rest until it is below the least slice; return all log weights.

    New sticks take the slots without a weight first, and then further ones.

    Parameters
    ----------
    log_pi : (K,) float64 ndarray
        Log weight of each cluster; -inf for a slot without a weight.
    log_rest : float
        Log of the weight that no stick has.
    least : float
        Log of the least slice.
    alpha : float
        Concentration of the process.
    rng : numpy Generator

    Raises
    ------
    ResourceError
        More than a million sticks would be needed.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.states.sticks import with_new_sticks
    >>> with_new_sticks(np.array([-0.1, -np.inf]), -2.0, -1.0, 1.0, np.random.default_rng(0)).tolist()
    [-0.1, -inf]
    """
    sticks: list[float] = []
    while log_rest >= least:
        step = rng.standard_exponential() / alpha  # -log(1 - v) of a stick v from Beta(1, alpha)
        sticks.append(log_rest + float(np.log(-np.expm1(-step))))
        log_rest -= step
        if len(sticks) > _MOST_STICKS:
            raise ResourceError(
                f"alpha={alpha:.3g} needs more than {_MOST_STICKS:,} clusters without data: write DirichletProcess(1.0)"
            )
    free = np.flatnonzero(np.isneginf(log_pi))[: len(sticks)]
    made = np.append(log_pi, np.full(len(sticks) - free.size, -np.inf))
    made[np.append(free, np.arange(log_pi.size, made.size))] = sticks
    return made
