"""Cells of one column in each cluster: mean and spread, or probabilities of levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from expfam.protocols import Floats


class CellLaw(NamedTuple):
    """What the cells of one column are in each cluster.

    Attributes
    ----------
    mean : (K,) float64 ndarray or None
        Posterior mean of numbers.
    sd : (K,) float64 ndarray or None
        Standard deviation of numbers at the posterior mode; NaN if the family does not tell it.
    center : (K,) float64 ndarray or None
        What stands for a missing number: the mean, or that of the logarithms of log-normal columns, whose posterior
        predictive has no mean.
    of_logs : bool
        Whether `center` is of logarithms.
    probability : (K, L) float64 ndarray or None
        Posterior predictive probabilities of the levels of categories.
    turn : float
        Of angles: how many units make a full turn; else 0.
    length : (K,) float64 ndarray or None
        Of angles: the length of the mean of a cell's point on the circle.
    """

    mean: npt.NDArray[np.float64] | None = None
    sd: npt.NDArray[np.float64] | None = None
    center: npt.NDArray[np.float64] | None = None
    of_logs: bool = False
    probability: npt.NDArray[np.float64] | None = None
    turn: float = 0.0
    length: npt.NDArray[np.float64] | None = None

    def average(self, p: Floats) -> npt.NDArray[Any]:
        """Return what stands for missing cells, by the probabilities p (m, K) of clusters: (m,).

        Of numbers it is the mean, of categories the most probable level, of angles the direction of the mean point.
        """
        if self.probability is not None:
            return np.einsum("mk,kl->ml", p, self.probability).argmax(axis=1)
        assert self.center is not None
        if self.length is not None:
            angle = self.center * (2.0 * np.pi / self.turn)
            found = np.arctan2(p @ (self.length * np.sin(angle)), p @ (self.length * np.cos(angle)))
            return np.mod(found * (self.turn / (2.0 * np.pi)), self.turn)
        found = (p * self.center).sum(axis=1)
        return np.exp(found) if self.of_logs else found


def joined_laws(laws: Sequence[CellLaw]) -> CellLaw:
    """Return the law of one column in the clusters of several laws, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.columns.kinds.laws import CellLaw, joined_laws
    >>> joined_laws([CellLaw(center=np.array([1.0])), CellLaw(center=np.array([3.0, 5.0]))]).center
    array([1., 3., 5.])
    """
    of_clusters = ("mean", "sd", "center", "probability", "length")
    present = [name for name in of_clusters if getattr(laws[0], name) is not None]
    joined: dict[str, Any] = {name: np.concatenate([getattr(law, name) for law in laws]) for name in present}
    return laws[0]._replace(**joined)
