"""Independent yes / no columns with beta priors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import betaln, digamma, expit

from expfam.families.base import Family
from expfam.families.column_sums import sums_of_rows
from expfam.families.independent_columns import check_positive, draw_log_gamma, resolved
from expfam.families.trials._beta import BetaComponents
from expfam.families.trials._natural import BetaLaw

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats


class Bernoulli(Family):
    """Independent yes / no columns with a Beta(a, b) prior on the probability of each.

    Parameters
    ----------
    a, b : "auto", float or (V,) array_like, positive
        Pseudo-counts of ones and of zeros. If both are ``"auto"``, each column has a prior of its own, worth 5
        observations.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.trials.bernoulli import Bernoulli
    >>> Bernoulli(a=1.0, b=1.0).log_marginal(np.array([2.0]), np.array([[1.0]])).round(6)
    array([-1.791759])

    Notes
    -----
    theta = logit p, g = -sum log(1 - p); A(n, S) = sum_j log B(a_j + S_j, b_j + n - S_j) - log B(a_j, b_j).
    The default prior differs by column because one prior for all columns fits sparse binary data badly.
    """

    support = "binary"
    has_independent_columns = True
    accepts_sparse = True
    hyper = {"a": "positive", "b": "positive"}
    worth_hyper = (("a", "b"),)
    a: Any
    b: Any

    def __init__(self, a: npt.ArrayLike = "auto", b: npt.ArrayLike = "auto") -> None:
        self.a, self.b = a, b
        check_positive(self)

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        share = (sums_of_rows(rows) + 0.5) / (rows.total_weight + 1.0)
        return resolved(self, rows.n_columns, a=5.0 * share, b=5.0 * (1.0 - share))

    def sufficient_statistics(self, X: Any) -> Any:
        return X

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        return self.log_marginal_by_column(n, S).sum(axis=1)

    def log_marginal_by_column(self, n: Floats, S: Floats) -> Floats:
        return betaln(self.a + S, self.b + n[:, None] - S) - betaln(self.a, self.b)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        m = n[:, None]
        no = digamma(self.b + m - S)
        return digamma(self.a + S) - no, (digamma(self.a + self.b + m) - no).sum(axis=1)

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return BetaLaw(self, None)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        yes = draw_log_gamma(self.a + S, rng)
        return self._with_partition(yes - draw_log_gamma(self.b + n[:, None] - S, rng))

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        return self._with_partition(np.log(self.a + S) - np.log(self.b + n[:, None] - S))

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        return (self.a * theta - (self.a + self.b) * np.logaddexp(0.0, theta)).sum(axis=1)

    def log_partition(self, theta: Floats) -> Floats:
        return np.logaddexp(0.0, theta).sum(axis=1)

    def _with_partition(self, theta):
        return theta, self.log_partition(theta)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        return {"probability": expit(theta)}

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        p = np.repeat(expit(theta), size, axis=0)
        return (rng.random(p.shape) < p).astype(np.float64)

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of probabilities of some clusters."""
        self.require_bound()
        return n_clusters * self.n_statistics_

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> BetaComponents:
        return BetaComponents(self, data, capacity, layout=layout)
