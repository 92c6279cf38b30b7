"""The Bayesian information criterion of rows under a mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.base import Family


def criterion_of_rows(family: Family, n_clusters: int, log_densities: npt.NDArray[np.float64]) -> float:
    """Return -2 sum_i log p(x_i) + p log N of rows under a finite mixture; see `Mixture.bic`.

    Parameters
    ----------
    family : Family
        Bound.
    n_clusters : int
        K; the mixture has K - 1 free weights.
    log_densities : (N,) float64 ndarray
        Log density of each row under the mixture, nats.

    Raises
    ------
    CapabilityError
        The family does not say how many free parameters it has.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> from expfam.evaluation.criterion import criterion_of_rows
    >>> round(criterion_of_rows(Poisson().bind([[1], [7]]), 2, np.array([-1.0, -2.0])), 3)
    8.079
    """
    n_free = n_clusters - 1 + family.n_free_parameters(n_clusters)
    return float(-2.0 * log_densities.sum() + n_free * np.log(log_densities.size))
