"""Independent negative binomial columns of known size with beta priors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from scipy.special import betaln, digamma, gammaln

from expfam.families.base import Family
from expfam.families.column_sums import mean_squares_of_rows, means_of_rows
from expfam.families.independent_columns import check_positive, draw_log_gamma, resolved
from expfam.families.trials._beta import BetaComponents
from expfam.families.trials._natural import BetaLaw
from expfam.params import is_auto

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats

_SIZES = (1e-2, 1e4)  # of "auto"; beyond 1e4 the law is that of a Poisson family


class NegativeBinomial(Family):
    """Independent over-dispersed counts of failures before the r-th success.

    A trial fails with probability p.

    Parameters
    ----------
    r : "auto" or float, positive
        Number of successes, the same for all columns; it is not learned. The mean of a column is r p / (1 - p), its
        variance exceeds the mean by mean^2 / r. ``"auto"`` solves this for the means and variances of all columns
        together, within 0.01 and 10,000.
    a, b : "auto", float or (V,) array_like, positive
        Beta(a, b) prior of p; ``"auto"`` is worth one observation of the column's mean.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.trials.negative_binomial import NegativeBinomial
    >>> family = NegativeBinomial(r=2.0, a=1.0, b=3.0)
    >>> family.log_marginal(np.array([1.0]), np.array([[0.0]])).round(6)
    array([-0.510826])

    Notes
    -----
    theta = log p, g = -r sum log(1 - p); A(n, S) = sum_j log B(a_j + S_j, b_j + n r) - log B(a_j, b_j).
    """

    support = "counts"
    has_independent_columns = True
    accepts_sparse = True
    hyper = {"a": "positive", "b": "positive"}
    r: Any
    a: Any
    b: Any

    def __init__(self, r: Literal["auto"] | float = 1.0, a: npt.ArrayLike = "auto", b: npt.ArrayLike = "auto") -> None:
        self.r, self.a, self.b = r, a, b
        check_positive(self)

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        mean = means_of_rows(rows)
        r = self.r
        if is_auto(r):
            excess = float((mean_squares_of_rows(rows) - mean * mean - mean).sum())
            r = float(np.clip(float((mean * mean).sum()) / max(excess, 1e-300), *_SIZES))
        auto = resolved(self, len(mean), a=mean + 1.0 / max(rows.total_weight, 1.0), b=np.full(len(mean), 1.0 + r))
        return {**auto, "r": r} if is_auto(self.r) else auto

    def sufficient_statistics(self, X: Any) -> Any:
        return X

    def log_base(self, X: Any) -> Floats:
        r = self.r

        def weight(x):
            return gammaln(x + r) - gammaln(r) - gammaln(x + 1.0)

        if not hasattr(X, "indptr"):
            return weight(np.asarray(X, dtype=np.float64)).sum(axis=1)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        total = np.bincount(rows, weights=weight(X.data.astype(np.float64)), minlength=X.shape[0])
        return cast("Floats", total)

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        return self.log_marginal_by_column(n, S).sum(axis=1)

    def log_marginal_by_column(self, n: Floats, S: Floats) -> Floats:
        return betaln(self.a + S, self.b + self.r * n[:, None]) - betaln(self.a, self.b)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        m = self.r * n[:, None]
        both = digamma(self.a + self.b + S + m)
        return digamma(self.a + S) - both, self.r * (both - digamma(self.b + m)).sum(axis=1)

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return BetaLaw(self, self.r)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        up = draw_log_gamma(self.a + S, rng)
        down = draw_log_gamma(np.broadcast_to(self.b + self.r * n[:, None], S.shape), rng)
        both = np.logaddexp(up, down)
        return up - both, self.r * (both - down).sum(axis=1)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode theta (K, F) of each posterior in natural coordinates, and its g (K,).

        It exists if b + n r > 1; otherwise b + n r - 1 is replaced by 1e-3.
        """
        up, down = self.a + S, np.maximum(self.b + self.r * n[:, None] - 1.0, 1e-3)
        return np.log(up) - np.log(up + down), self.r * (np.log(up + down) - np.log(down)).sum(axis=1)

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        return (self.a * theta + (np.asarray(self.b) - 1.0) * np.log(-np.expm1(theta))).sum(axis=1)

    def log_partition(self, theta: Floats) -> Floats:
        return -self.r * np.log(-np.expm1(theta)).sum(axis=1)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        return {"mean": self.r * np.exp(theta) / -np.expm1(theta), "probability": np.exp(theta)}

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        return rng.negative_binomial(self.r, np.repeat(-np.expm1(theta), size, axis=0)).astype(np.float64)

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of probabilities of some clusters; `r` is known."""
        self.require_bound()
        return n_clusters * self.n_statistics_

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> BetaComponents:
        return BetaComponents(self, data, capacity, r=self.r, layout=layout)
