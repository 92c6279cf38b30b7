"""Multinomial rows of counts with a Dirichlet prior on the probabilities of the words.

phi(x) = x, theta = log p and g = 0 in all methods, so the statistics of a cluster are its summed counts. The evidence
is a sum over words plus a term of the total; word-major tables and inverted indices rely on it. All methods cost
O(nnz).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from expfam.amounts import counted
from expfam.errors import DataWarning
from expfam.families.all_rows import AllRows, Block, pieces_of
from expfam.families.base import Family
from expfam.families.coordinates import roots_of_shares
from expfam.families.counts import pseudocounts as counts
from expfam.families.counts._natural import CountLaw
from expfam.families.counts.components import CountComponents
from expfam.structures.rows.exact_sums import lifts, total_of
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from expfam.protocols import Floats


class Multinomial(Family):
    """Rows of counts with a Dirichlet prior on the probabilities of the columns.

    Parameters
    ----------
    concentration : "auto", float or (V,) array_like, positive
        Pseudo-counts of the Dirichlet prior. ``"auto"`` is min(0.5, 500 / V), so their total is at most 500.
    allow_fractional : bool
        Whether to accept non-negative weights that are not integers, for example tf-idf.

    Attributes
    ----------
    length_ : int
        Rounded mean number of tokens of a row, at least 1; `sample` draws rows of this length. Set by `bind`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Multinomial
    >>> family = Multinomial(concentration=1.0).bind([[2, 0], [1, 1]])
    >>> family.log_marginal(np.array([2.0]), np.array([[3.0, 1.0]])).round(6)
    array([-2.995732])

    Notes
    -----
    A(n, S) = sum_w [log G(a_w + S_w) - log G(a_w)] - log G(a + S.) + log G(a) with a = sum a_w and S. = sum S_w
    (Ahmed et al. 2012, eq. 18, is a difference of two of these terms). Empty rows are allowed: their evidence is 0.
    """

    name = "multinomial"
    count_model: ClassVar[str] = "multinomial"  # the model that the compiled components compute; subclasses inherit it
    support = "counts"
    accepts_sparse = True
    reads_uncounted_rows: ClassVar[bool] = True  # a warning of empty rows names them by their numbers
    hyper: ClassVar[dict] = {"concentration": "positive"}
    concentration: Any
    length_: int

    def __init__(self, concentration: npt.ArrayLike = "auto", allow_fractional: bool = False) -> None:
        counts.check_positive(concentration, "concentration", self.name)
        self.concentration = concentration
        self.allow_fractional = allow_fractional

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Return the concentration, and the mean number of tokens of a row."""
        n_words = rows.n_columns
        a = counts.check_positive(self.concentration, "concentration", self.name, size=n_words)
        lengths = rows.total(_row_lengths)
        if lengths.n_empty:
            of_all = counted(rows.n_rows, "row")
            warn(
                f"multinomial: {counted(lengths.n_empty, f'of {of_all} is', f'of {of_all} are')} empty, the first is"
                f" row {lengths.first_empty}; only the prior of the weights decides their cluster",
                DataWarning,
            )
        tokens = float(total_of(rows.total(_TotalLength(lengths.longest, rows.n_rows)))[0])
        return {
            "concentration": min(0.5, 500.0 / n_words) if isinstance(a, str) else a,
            "length_": max(1, round(tokens / rows.total_weight)),
        }

    def sufficient_statistics(self, X: Any) -> Any:
        """Return the rows unchanged: (N, V), dense or CSR."""
        return X

    def neighbour_map(self, X: Any, weight: Floats | None = None) -> Callable[[Any], Any]:
        """Return the function that maps rows to square roots of shares: their lengths do not matter."""
        return roots_of_shares

    def log_base(self, X: Any) -> Floats:
        """Return the log multinomial coefficient of each row: (N,) nats."""
        return gammaln(counts.row_sums(X) + 1.0) - counts.row_log_gamma(X)

    def _total(self, S):
        a = self.concentration
        return float(np.sum(a)) if np.ndim(a) else a * S.shape[1]

    def log_marginal(self, n: Floats, S: Any) -> Floats:
        """Return the log evidence of each cluster: (K,) nats, without log-base.

        `S` (K, V) may be dense or CSR.
        """
        return counts.sum_log_rising(self.concentration, S) - counts.log_rising(self._total(S), counts.row_sums(S))

    def separable(self) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
        """Return the terms of the evidence by column; see `Family.separable`."""
        self.require_bound()
        a = self.concentration
        total = self._total(np.broadcast_to(a, self.n_features_in_)[None])
        return lambda n, s: -counts.log_rising(total, s), lambda w, s: counts.log_rising(counts.of_columns(a, w), s)

    def log_predictive(self, X: Any, n: Floats, S: Any) -> Floats:
        """Return the log probability of each row given each cluster's data: (N, K) nats.

        The log base measure is left out.
        """
        self.require_bound()
        return counts.predict(self, X, n, S)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior mean of log p (K, V), and g = 0 (K,)."""
        theta = digamma(self.concentration + S) - digamma(self._total(S) + S.sum(axis=1, keepdims=True))
        return theta, np.zeros(S.shape[0])

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return CountLaw(self)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw log p (K, V) from the Dirichlet posterior; return it and g = 0 (K,)."""
        return counts.log_normalise(counts.draw_log_gamma(self.concentration + S, rng)), np.zeros(S.shape[0])

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior mode in natural coordinates (K, V), and g = 0 (K,).

        The mode is the log of (a_w + S_w) / (a + S.).
        """
        p = (self.concentration + S) / (self._total(S) + S.sum(axis=1, keepdims=True))
        return np.log(p), np.zeros(S.shape[0])

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the log prior density in natural coordinates, up to a constant: (K,) nats."""
        return (self.concentration * theta).sum(axis=1)

    def log_partition(self, theta: Floats) -> Floats:
        """Return the log normaliser of a row of `length_` tokens: (K,) nats.

        It is 0 if theta holds log probabilities.
        """
        top = theta.max(axis=1)
        return self._length() * (top + np.log(np.exp(theta - top[:, None]).sum(axis=1)))

    def _length(self):
        return getattr(self, "length_", 1)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter.

        Each row has `length_` tokens, or 1 token if the family is unbound.
        """
        p = np.exp(counts.log_normalise(np.asarray(theta, dtype=np.float64)))
        return np.concatenate([rng.multinomial(self._length(), row, size=size) for row in p]).astype(np.float64)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return the probabilities of the columns: ``{"probability": (K, V)}``."""
        return {"probability": np.exp(counts.log_normalise(np.asarray(theta, dtype=np.float64)))}

    def from_params(self, probability: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the natural parameters (theta, g) of positive probabilities (K, V)."""
        p = np.asarray(probability, dtype=np.float64)
        if p.ndim != 2 or not (p > 0).all():
            raise ValueError("multinomial: probability must be a (K, V) array of positive numbers")
        return np.log(p / p.sum(axis=1, keepdims=True)), np.zeros(p.shape[0])

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of free probabilities of some clusters: those of a cluster sum to 1."""
        self.require_bound()
        return n_clusters * (self.n_features_in_ - 1)

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> CountComponents:
        """Return compiled components; see `expfam.families.counts.components`."""
        return CountComponents(self, data, capacity, layout=layout)

    def pseudocounts(self) -> tuple[Floats, Floats]:
        """Return the pseudo-counts of the columns (V,) and their total (1,)."""
        a = np.ascontiguousarray(np.broadcast_to(np.asarray(self.concentration, dtype=np.float64), self.n_features_in_))
        return a, np.array([self._total(a[None])])


# ---- questions that the rows answer ----------------------------------------------------------------------------------


class Lengths(NamedTuple):
    """Number of empty rows, the first of them, and the largest weighted length."""

    n_empty: int
    first_empty: int
    longest: float

    def __add__(self, other: Lengths) -> Lengths:  # type: ignore[override]
        first = min(self.first_empty, other.first_empty)
        return Lengths(self.n_empty + other.n_empty, first, max(self.longest, other.longest))


def _row_lengths(block: Block) -> Lengths:
    totals = counts.row_sums(block.X)
    empty = np.flatnonzero(totals == 0)
    first = block.first_row + int(empty[0]) if empty.size else 1 << 62
    return Lengths(int(empty.size), first, float(_weighted(totals, block).max(initial=0.0)))


def _weighted(totals, block):
    return totals if block.weight is None else totals * block.weight


class _TotalLength:
    """Pieces (3, 1) of the sum of the weighted lengths of the rows."""

    def __init__(self, longest: float, n_rows: int) -> None:
        self.lifts = lifts(np.array([longest]), n_rows)

    def __call__(self, block: Block) -> Floats:
        return pieces_of(_weighted(counts.row_sums(block.X), block), self.lifts)
