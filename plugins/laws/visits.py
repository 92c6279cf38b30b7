"""How often a chain visits each partition, against the probabilities of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t

if TYPE_CHECKING:
    import numpy.typing as npt

LEVEL = 1e-5  # of tests of frequencies
_BATCHES = 40
_COMMON = 60.0  # expected visits of a partition that is compared alone


def check_visits(visits: npt.NDArray[np.intp], probability: npt.NDArray[np.float64], what: str) -> None:
    """Compare the frequencies of one chain with probabilities, by Student's t of batches.

    Each common partition is compared; rare partitions are added up and compared as one.

    Parameters
    ----------
    visits : (T,) integer ndarray
        Place of the partition after each step.
    probability : (P,) float64 ndarray
        Of all partitions.
    what : str
        What was drawn, in the plural, for the message.

    Raises
    ------
    AssertionError
        A frequency differs at the level 1e-5.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.plugins.laws.visits import check_visits
    >>> visits = np.random.default_rng(0).integers(0, 2, 4000)
    >>> check_visits(visits, np.array([0.5, 0.5]), "labels")
    """
    size = len(visits) // _BATCHES
    batches = visits[: size * _BATCHES].reshape(_BATCHES, size)
    found = np.stack([np.bincount(batch, minlength=len(probability)) / size for batch in batches])
    common = probability * len(visits) > _COMMON
    found = np.column_stack([found[:, common], found[:, ~common].sum(axis=1)])
    expected = np.append(probability[common], probability[~common].sum())
    error = np.maximum(found.std(axis=0, ddof=1) / np.sqrt(_BATCHES), 1.0 / len(visits))
    gap = np.abs(found.mean(axis=0) - expected)
    p = expected.size * 2 * t.sf(gap / error, _BATCHES - 1).min()
    assert p > LEVEL, f"{what} have total variation {0.5 * gap.sum():.3f} from the posterior (p = {p:.1e})"
