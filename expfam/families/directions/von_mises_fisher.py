"""Directions: the von Mises-Fisher family.

Each cluster has its own concentration, or all have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.families.base import Family
from expfam.families.column_sums import means_of_rows
from expfam.families.compiled_phi import ColumnsPhi
from expfam.families.directions._von_mises_fisher import VonMisesFisherComponents, bessel_ratio, log_bessel
from expfam.families.support import check_hyper, check_unit, left_out, row_lengths, widened
from expfam.params import is_auto

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats

_MOST_NODES = 512
_HAS_LENGTH = {  # which rows have a direction, by whether the data are sparse
    False: "(numpy.asarray(X) != 0).any(axis=1)",
    True: "numpy.asarray((X != 0).sum(axis=1)).ravel() > 0",
}
_RANGE = (0.25, 1e4)  # of the concentrations that a cluster may have, over that of all data
_STEP = 0.4  # between logs of neighbouring nodes, times sqrt(d - 1): the nearest one loses 0.01 nats a row at most
_PRIOR_ROWS = 2.0
_PRIOR_GAIN = 10.0  # between the concentration that a cluster has a priori and that of all data
_BLOCK = 1 << 20  # numbers in a temporary array
_REMEDY = "pass normalize=True, or normalise the rows first"


class VonMisesFisher(Family):
    """Directions (rows of unit length) about the mean direction of a cluster.

    Each cluster has its own unknown concentration. Other choices are one concentration that all clusters share, and a
    known one. Suits embeddings that are compared by their cosine, and rows of tf-idf.

    Parameters
    ----------
    kappa : "cluster", "shared", "auto" or float
        If "cluster", each cluster has one unknown concentration, under a discrete prior. If "shared", all clusters have
        the hyper-parameter `shared_kappa`. A number is the known concentration of each cluster; "auto" is the number
        that gives clusters a tenth of the variance of all data.
    mean : "auto" or (V,) array_like of unit length
        Mode of the prior of mean directions; ``"auto"`` is the direction of the data's mean.
    strength : "auto" or float, positive
        Concentration of that prior; ``"auto"`` is the concentration of all data about their mean direction.
    shared_kappa : "auto" or float, positive
        With kappa="shared": the concentration before any is learned. ``"auto"`` gives clusters a tenth of the variance
        of all data.
    normalize : "auto" or bool
        Whether rows are divided by their length when they are read; the data are left as they are, and one number a row
        is kept. If False, rows of another length are refused. ``"auto"`` divides integers, and float16 whose lengths
        lie within 0.001 of 1.

    Attributes
    ----------
    kappa_nodes_ : (J,) float64 ndarray
        With kappa="cluster": the concentrations that a cluster may have, at most 512, at equal distances in logs.
    kappa_log_weights_ : (J,) float64 ndarray
        Logs of their prior probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.directions.von_mises_fisher import VonMisesFisher
    >>> family = VonMisesFisher(kappa=5.0).bind(np.eye(3))
    >>> family.to_params(*family.map_natural(np.array([1.0]), np.array([[0.0, 0.0, 1.0]])))["mean"].round(2)
    array([[0.2 , 0.2 , 0.96]])

    Rows of any length, for example of tf-idf in CSR:

    >>> from scipy import sparse
    >>> X = sparse.csr_array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
    >>> VonMisesFisher(normalize=True).bind(X).sufficient_statistics(X).toarray()
    array([[0.6, 0.8, 0. ],
           [0. , 0. , 1. ]])

    Notes
    -----
    phi = x, theta = kappa mu and g = -log C_d(kappa), with C_d the constant of the sphere. The mean direction has a von
    Mises-Fisher prior of mode m0 and concentration `strength`; the concentration takes the values kappa_j with weights
    w_j. With R_j = strength m0 + kappa_j S,

    A(n, S) = log sum_j w_j C_d(kappa_j)^n C_d(strength) / C_d(|R_j|).

    Posterior draws take a node by its share of this sum, then a direction about R_j (Wood 1994); the mode is the best
    node with the direction of its R_j. The nodes reach from a quarter of the concentration of all data to 1e4 times it.
    Their weights are w_j ~ exp(2 (log C_d(kappa_j) + rho kappa_j)): those of two rows that lie as they do under ten
    times the concentration of all data, so that a cluster of one row has a mode. The automatic strength is eq. 4.4 of
    Banerjee et al. 2005, "Clustering on the unit hypersphere".
    """

    support = "unit"
    accepts_sparse = True
    keeps_narrow_rows = True
    kappa: Any
    mean: Any
    strength: Any
    shared_kappa: Any
    normalize: Any
    kappa_nodes_: Floats
    kappa_log_weights_: Floats

    def __init__(
        self,
        kappa: Literal["cluster", "shared", "auto"] | float = "cluster",
        mean: npt.ArrayLike = "auto",
        strength: Literal["auto"] | float = "auto",
        shared_kappa: Literal["auto"] | float = "auto",
        normalize: Literal["auto"] | bool = "auto",
    ) -> None:
        self.kappa, self.mean, self.strength = kappa, mean, strength
        self.shared_kappa, self.normalize = shared_kappa, normalize
        if isinstance(kappa, str) and kappa not in ("cluster", "shared", "auto"):
            raise ValueError(
                f"{self.name}: kappa must be 'cluster', 'shared', 'auto' or a positive number; got {kappa!r}"
            )
        if not isinstance(kappa, str):
            check_hyper(self.name, "kappa", kappa, vector=False)
        for name in ("strength", "shared_kappa"):
            check_hyper(self.name, name, getattr(self, name), vector=False)
        if not is_auto(shared_kappa) and kappa != "shared":
            raise ValueError(
                f"{self.name}: shared_kappa belongs to kappa='shared'; got kappa={kappa!r}: write"
                f" VonMisesFisher(kappa={kappa!r}), or VonMisesFisher(kappa='shared', shared_kappa={shared_kappa!r})"
            )
        if not (is_auto(normalize) or isinstance(normalize, (bool, np.bool_))):
            raise ValueError(f"{self.name}: normalize must be 'auto', True or False; got {normalize!r}")

    @property
    def hyper(self) -> dict[str, str]:  # type: ignore[override]
        """Return the names of the hyper-parameters that may be learned; they depend on `kappa`."""
        own = {"cluster": (), "shared": ("shared_kappa",)}.get(str(self.kappa), ("kappa",))
        return dict.fromkeys((*own, "strength"), "positive")

    @property
    def learned_by_default(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the hyper-parameters that estimators learn unless a value was given.

        There are none if kappa is known.
        """
        return tuple(self.hyper) if self.kappa in ("cluster", "shared") else ()

    def of_one_width(self) -> VonMisesFisher | None:
        """Return the unbound family with one concentration; None if clusters have none of their own."""
        return VonMisesFisher(kappa="shared", normalize=self.normalize) if self.kappa == "cluster" else None

    # ---- rows --------------------------------------------------------------------------------------------------------

    def bind(self, X: Any, weight: npt.ArrayLike | None = None) -> Self:
        if self.is_bound or not is_auto(self.normalize):
            return super().bind(X, weight)
        kind = np.dtype(getattr(X, "dtype", None) or np.asarray(X).dtype)
        bound: Self = Family.bind(self._of_kind(kind), X, weight)
        if kind == np.float16:
            check_unit(bound.validate(X), family=self.name, tolerance=1e-3, remedy=_REMEDY)
        return bound

    def _of_kind(self, kind):
        """Return the family that normalises rows of this dtype, or not."""
        chosen = self._copy()
        chosen.__dict__["normalize"] = kind.kind in "biu" or kind == np.float16
        return chosen

    def for_kind(self, kind: np.dtype[Any]) -> Self:
        """Return the family that normalises rows of this dtype, or not, where that is "auto"."""
        return self if self.is_bound or not is_auto(self.normalize) else self._of_kind(kind)

    def validate(self, X: Any) -> Any:
        X = super().validate(X)
        if X.shape[1] < 2:
            raise DataError(f"von_mises_fisher needs at least two columns; got n_features={X.shape[1]}")
        return X

    def _check_lengths(self, X):
        """Refuse rows of another length than 1, or of length 0 if rows are normalised."""
        if self.normalize is True:
            self.inverse_lengths(X)
        else:
            check_unit(X, family=self.name, remedy=_REMEDY)

    def inverse_lengths(self, X: Any) -> Floats:
        """Return 1 / |x| of each row: (N,) float64.

        Raises
        ------
        DataError
            A row is zero; the message names it.
        """
        length = row_lengths(X)
        zero = np.flatnonzero(~(length > 0))
        if zero.size:
            raise DataError(
                f"{self.name}: row {zero[0]} is zero, so it has no direction "
                f"({counted(zero.size, 'row is', 'rows are')} zero): {left_out(_HAS_LENGTH[sparse.issparse(X)])}"
            )
        return 1.0 / length

    def sufficient_statistics(self, X: Any) -> Any:
        if self.normalize is not True:
            return widened(X)
        inverse = self.inverse_lengths(X)
        if sparse.issparse(X):
            X = sparse.csr_array(X, dtype=np.float64, copy=True)
            X.data *= np.repeat(inverse, np.diff(X.indptr))
            return X
        return X * inverse[:, None]

    def _compiled_phi(self):
        """Return the compiled form of `sufficient_statistics`; None where it divides by lengths."""
        return None if self.normalize is True else ColumnsPhi(np.zeros(self.n_features_in_))

    def coordinate_map(self, X: Any, weight: Floats | None = None) -> Callable[[Any], Any]:
        """Return the function that maps rows to their directions."""
        return self.sufficient_statistics

    # ---- hyper-parameters --------------------------------------------------------------------------------------------

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        d = rows.n_columns
        centre = means_of_rows(rows.mapped(self.sufficient_statistics, d, held=False))
        length = min(float(np.sqrt(centre @ centre)), 1.0 - 1e-6)
        spread = 1.0 - length**2
        direction = centre / np.sqrt(centre @ centre) if length > 1e-12 else np.full(d, d**-0.5)
        auto = {"mean": direction, "strength": max(length * (d - length**2) / spread, 1e-3)}
        values = {name: value for name, value in auto.items() if isinstance(getattr(self, name), str)}
        mean = np.asarray(values.get("mean", self.mean), dtype=np.float64)
        if mean.shape != (d,) or abs(float(mean @ mean) - 1.0) > 1e-6:
            raise DataError(f"von_mises_fisher needs a mean of shape ({d},) and unit length; got {self.mean!r}")
        return {**values, "mean": mean, **self._resolved_kappa(d, (d - 1) / spread)}

    def _resolved_kappa(self, d, overall):
        """Return what is known of the concentrations, from that of all data."""
        if is_auto(self.kappa):
            return {"kappa": _PRIOR_GAIN * overall}
        if self.kappa == "shared":
            return {"shared_kappa": _PRIOR_GAIN * overall if is_auto(self.shared_kappa) else float(self.shared_kappa)}
        if self.kappa != "cluster":
            return {}
        low, high = np.log(overall) + np.log(_RANGE)
        size = min(_MOST_NODES, 1 + int(np.ceil((high - low) * np.sqrt(d - 1) / _STEP)))
        nodes = np.exp(np.linspace(low, high, size))
        rows = _PRIOR_ROWS * (log_constant(d, nodes) + mean_length(d, _PRIOR_GAIN * overall) * nodes)
        return {"kappa_nodes_": nodes, "kappa_log_weights_": rows - _log_sum(rows[None])[0]}

    def check_learned(self) -> None:
        """Raise ValueError unless the nodes are positive and rise, as `bind` makes them."""
        nodes = self.__dict__.get("kappa_nodes_")
        if nodes is not None and not (np.all(nodes > 0) and np.all(np.diff(nodes) > 0)):
            raise ValueError(f"{self.name}: 'kappa_nodes_' must be positive numbers that rise; got {nodes!r:.200}")

    def nodes(self) -> tuple[Floats, Floats]:
        """Return the concentrations that a cluster may have, and their log prior weights.

        Both are (J,).
        """
        if self.kappa == "cluster":
            return self.kappa_nodes_, self.kappa_log_weights_
        return np.array([self.shared_kappa if self.kappa == "shared" else self.kappa], dtype=np.float64), np.zeros(1)

    def prior_rows(self) -> tuple[float, float]:
        """Return how many rows the prior of a concentration is worth, and the length of their sum."""
        if self.kappa != "cluster":
            return 0.0, 0.0
        d, overall = self.n_features_in_, self.kappa_nodes_[0] / _RANGE[0]
        return _PRIOR_ROWS, _PRIOR_ROWS * float(mean_length(d, _PRIOR_GAIN * overall))

    def log_constant(self, kappa: Floats) -> Floats:
        """Return log C_d of concentrations, nats."""
        return log_constant(self.n_features_in_, kappa)

    # ---- the law -----------------------------------------------------------------------------------------------------

    def _in_blocks(self, function, n, S, *extra):
        """Return the results of a function of (n, S) for all clusters.

        Temporary arrays have a bounded size.
        """
        n, S = np.asarray(n, dtype=np.float64), np.asarray(S, dtype=np.float64)
        rows = max(1, _BLOCK // len(self.nodes()[0]))
        parts = [function(n[k : k + rows], S[k : k + rows], *extra) for k in range(0, len(n), rows)]
        if not parts:
            parts = [function(n, S, *extra)]
        if isinstance(parts[0], tuple):
            return tuple(np.concatenate(results) for results in zip(*parts))
        return np.concatenate(parts)

    def _terms(self, n, S):
        """Return the terms of the evidence (K, J), nats, and the squares of |R_j| (K, J)."""
        kappa, log_weight = self.nodes()
        S = S[:, : self.n_features_in_]
        square, along = np.einsum("kd,kd->k", S, S)[:, None], (S @ np.asarray(self.mean))[:, None]
        squares = np.maximum(self.strength**2 + kappa * (2.0 * self.strength * along + kappa * square), 0.0)
        d = self.n_features_in_
        fixed = log_weight + log_constant(d, np.array([self.strength]))
        terms = fixed + n[:, None] * log_constant(d, kappa) + 0.5 * d * np.log(2.0 * np.pi)
        return terms + log_bessel(0.5 * d - 1.0, squares), squares

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        return self._in_blocks(self._log_marginal, n, S)

    def _log_marginal(self, n, S):
        # with no data the terms are those of a distribution, and their sum is 1 to within rounding
        return np.where((n == 0) & ~S.any(axis=1), 0.0, _log_sum(self._terms(n, S)[0]))

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        return self._in_blocks(self._expected_natural, n, S)

    def _expected_natural(self, n, S):
        kappa, _ = self.nodes()
        terms, squares = self._terms(n, S)
        share = _shares(terms)
        pull = share * kappa * bessel_ratio(0.5 * self.n_features_in_ - 1.0, squares)
        theta = self.strength * pull.sum(axis=1)[:, None] * np.asarray(self.mean) + (pull @ kappa)[:, None] * S
        return theta, -(share @ self.log_constant(kappa))

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        return self._in_blocks(self._draw_natural, n, S, rng)

    def _draw_natural(self, n, S, rng):
        cumulated = np.cumsum(_shares(self._terms(n, S)[0]), axis=1)
        chosen = (cumulated < rng.random(len(n))[:, None] * cumulated[:, -1:]).sum(axis=1)
        kappa = self.nodes()[0][chosen]
        R = self.strength * np.asarray(self.mean) + kappa[:, None] * S
        theta = kappa[:, None] * _draw_vmf(_unit(R), np.sqrt((R**2).sum(axis=1)), rng)
        return theta, -self.log_constant(kappa)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        return self._in_blocks(self._map_natural, n, S)

    def _map_natural(self, n, S):
        kappa, log_weight = self.nodes()
        _, squares = self._terms(n, S)
        best = np.argmax(log_weight + n[:, None] * self.log_constant(kappa) + np.sqrt(squares), axis=1)
        kappa = kappa[best]
        R = self.strength * np.asarray(self.mean) + kappa[:, None] * S
        return kappa[:, None] * _unit(R), -self.log_constant(kappa)

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the unnormalised log prior density: (K,) nats.

        Between the nodes it is that of the formula of their weights.
        """
        along = self.strength * (_unit(theta) @ np.asarray(self.mean))
        if self.kappa != "cluster":
            return along
        rows, total = self.prior_rows()
        kappa = np.sqrt((theta**2).sum(axis=1))
        return along + rows * self.log_constant(kappa) + total * kappa

    def log_partition(self, theta: Floats) -> Floats:
        return -log_constant(theta.shape[1], np.sqrt((theta**2).sum(axis=1)))

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        return {"mean": _unit(theta), "kappa": np.sqrt((theta**2).sum(axis=1))}

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        kappa = np.sqrt((theta**2).sum(axis=1))
        return _draw_vmf(np.repeat(_unit(theta), size, axis=0), np.repeat(kappa, size), rng)

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the free coordinates of directions, V - 1 each, and the unknown concentrations."""
        self.require_bound()
        unknown = {"cluster": n_clusters, "shared": 1}.get(str(self.kappa), 0)
        return n_clusters * (self.n_features_in_ - 1) + unknown

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> VonMisesFisherComponents:
        return VonMisesFisherComponents(self, data, capacity)


def _log_sum(terms):
    """Return the log of the sum of exponentials of each row."""
    top = terms.max(axis=1)
    return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))


def _shares(terms):
    share = np.exp(terms - terms.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    return share


def log_constant(d: int, kappa: npt.ArrayLike) -> Floats:
    """Return the log normaliser of the von Mises-Fisher density in d dimensions, nats.

    kappa may be 0.
    """
    kappa = np.asarray(kappa, dtype=np.float64)
    return -0.5 * d * np.log(2.0 * np.pi) - log_bessel(0.5 * d - 1.0, kappa**2)


def mean_length(d, kappa):
    """Return the length of the mean of a row, A_d(kappa) = I_{d/2}(kappa) / I_{d/2-1}(kappa)."""
    kappa = np.asarray(kappa, dtype=np.float64)
    return kappa * bessel_ratio(0.5 * d - 1.0, kappa**2)


def _unit(R):
    length = np.sqrt((R**2).sum(axis=1, keepdims=True))
    # a resultant of exactly zero has no direction: all directions are modes, and the first axis is one of them
    fallback = np.eye(1, R.shape[1])
    return np.where(length > 0, R / np.where(length > 0, length, 1.0), fallback)


def _draw_vmf(mean, kappa, rng):
    """Draw one direction about each mean: (K, d).

    The cosine to the mean is drawn by rejection (Wood 1994), the part orthogonal to the mean uniformly.
    """
    m, d = mean.shape
    b = (d - 1) / (2.0 * kappa + np.sqrt(4.0 * kappa**2 + (d - 1) ** 2))
    x0 = (1.0 - b) / (1.0 + b)
    level = kappa * x0 + (d - 1) * np.log(4.0 * b / (1.0 + b) ** 2)
    cosine = np.empty(m)
    left = np.arange(m)
    while left.size:
        z = rng.beta((d - 1) / 2, (d - 1) / 2, left.size)
        w = (1.0 - (1.0 + b[left]) * z) / (1.0 - (1.0 - b[left]) * z)
        score = kappa[left] * w + (d - 1) * np.log(1.0 - x0[left] * w) - level[left]
        accepted = score >= -rng.standard_exponential(left.size)
        cosine[left[accepted]] = w[accepted]
        left = left[~accepted]
    tangent = rng.standard_normal((m, d))
    tangent -= (tangent * mean).sum(axis=1, keepdims=True) * mean
    out = cosine[:, None] * mean + np.sqrt(np.maximum(1.0 - cosine**2, 0.0))[:, None] * _unit(tangent)
    return _unit(out)
