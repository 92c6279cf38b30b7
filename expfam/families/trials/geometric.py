"""Independent geometric columns: negative binomial columns of size 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expfam.families.independent_columns import check_positive
from expfam.families.trials.negative_binomial import NegativeBinomial

if TYPE_CHECKING:
    import numpy.typing as npt


class Geometric(NegativeBinomial):
    """Independent counts of failures before the first success; the least count is 0.

    Parameters
    ----------
    a, b : "auto", float or (V,) array_like, positive
        Beta(a, b) prior of the probability p of a failure; ``"auto"`` counts as one observation of the column's mean.

    Examples
    --------
    >>> from expfam import Geometric, Mixture
    >>> Mixture(Geometric(), 2, random_state=0).fit([[0], [1], [0]] * 4 + [[70], [80]] * 2).cluster_sizes_
    array([12,  4])

    Notes
    -----
    It is the negative binomial with r = 1.
    """

    r = 1.0

    def __init__(self, a: npt.ArrayLike = "auto", b: npt.ArrayLike = "auto") -> None:
        self.a, self.b = a, b
        check_positive(self)
