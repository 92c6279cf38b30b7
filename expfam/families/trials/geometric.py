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
        Beta(a, b) prior of the probability p of a failure; ``"auto"`` is worth one observation of the column's mean.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.trials.geometric import Geometric
    >>> Geometric(a=1.0, b=1.0).log_marginal(np.array([1.0]), np.array([[2.0]])).round(6)
    array([-2.484907])

    Notes
    -----
    It is the negative binomial with r = 1.
    """

    r = 1.0

    def __init__(self, a: npt.ArrayLike = "auto", b: npt.ArrayLike = "auto") -> None:
        self.a, self.b = a, b
        check_positive(self)
