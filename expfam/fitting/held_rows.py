"""Densities of rows that a fit has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from expfam.fitted.scoring import log_scores, log_sum_exp
from expfam.model.data import Dataset
from expfam.model.statistics import weighted_statistics

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.mixture import MixtureModel
    from expfam.protocols import Floats


def held_out_densities(
    model: MixtureModel,
    data: Dataset,
    labels: npt.NDArray[np.integer],
    new: npt.NDArray[np.floating],
    *,
    n_threads: int | None,
) -> Floats:
    """Return the log predictive density of new rows under a partition of others.

    Parameters
    ----------
    model : MixtureModel
        Its family is bound.
    data : Dataset
        Rows of the partition.
    labels : (N,) ndarray of int
        Numbers from 0 without gaps.
    new : (M, V) ndarray
    n_threads : int or None
        The result does not depend on it.

    Returns
    -------
    (M,) float64 ndarray
        Nats, with log-base. A row may also open a new cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.fitting.held_rows import held_out_densities
    >>> data = Dataset([[0.0], [1.0], [9.0], [10.0]], DiagonalGaussian())
    >>> model = MixtureModel(data.family, DirichletProcess())
    >>> near, far = held_out_densities(model, data, np.array([0, 0, 1, 1]), np.array([[9.5], [60.0]]), n_threads=None)
    >>> bool(near > far)
    True
    """
    n, S = weighted_statistics(data, labels, int(labels.max()) + 1)
    weights, empty = model.weights.posterior_mean(n)
    held = Dataset(new, model.family)
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.append(weights, empty))
    parts = log_scores(held, n, S, log_weights, lambda scores, start, stop: log_sum_exp(scores), n_threads)
    return np.concatenate(parts) + held.log_base
