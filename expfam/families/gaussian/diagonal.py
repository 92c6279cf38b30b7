"""Gaussian clusters with independent columns; scoring a datum costs O(K d)."""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import psi

from expfam.families.gaussian._diagonal import DiagonalComponents
from expfam.families.gaussian._evidence import (
    ColumnHyper,
    RateEvidence,
    StrengthEvidence,
    evidence_by_column,
    evidence_of_columns,
    posterior_of_columns,
)
from expfam.families.gaussian._mode_law import ColumnModeLaw
from expfam.families.gaussian._modes import log_prior_of_columns, modes_of_columns
from expfam.families.gaussian._natural import GaussianLaw
from expfam.families.gaussian._open_diagonal import OpenDiagonalComponents
from expfam.families.gaussian._statistics import (
    GaussianPhi,
    as_floats,
    columns_and_squares,
    seen_columns_and_squares,
)
from expfam.families.gaussian.columns import (
    LEARNED_SHARE,
    LOG_2PI,
    MOST_FACTOR,
    PRIOR_SHARE,
    STRENGTHS,
    RealFamily,
    per_column,
    usable_variance,
)
from expfam.families.slice_sampling import MOST_ROUNDS, SETTLED
from expfam.families.support import YES_NO, check_choices, check_hyper
from expfam.params import is_auto

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats

_CERTAIN = 1e100  # nats


class DiagonalGaussian(RealFamily):
    """Independent Gaussian columns with unknown means and variances under normal-gamma priors.

    Parameters
    ----------
    mean : "auto", float or (V,) array_like
        Prior location m0 in the coordinates of the data; the column means if "auto".
    mean_strength : "auto", float or (V,) array_like
        Strength k0 of the prior location, as a number of data; 0.1 if "auto".
    shape : float or (V,) array_like
        Shape a0 of the gamma prior on each precision.
    rate : "auto", float or (V,) array_like
        Rate b0 of the gamma prior. If "auto", it is max(shape - 1, 0.5) times a tenth of the column's variance: for
        shapes from 1.5 on the prior mean of each variance is a tenth of the column's variance.
    missing : bool
        Whether NaN stands for a cell that a row lacks; otherwise NaN is refused. Such cells are integrated out: a
        cluster knows of a row only what was observed.
    alike : "auto", bool or (V,) array_like of bool
        Whether a column is alike in all clusters: normal with the mean and the variance of all data. Such a column says
        nothing about clusters. "auto" learns which columns these are, and so finds clusters that few of many columns
        tell apart; a column whose values are all equal is. False gives each cluster a mean and a variance of its own in
        every column.

    Attributes
    ----------
    center_ : (V,) float64 ndarray
        Column means of the observed cells at binding; statistics are sums about them.
    spread_ : (V,) float64 ndarray
        Column variances at binding, which columns that are alike have in all clusters.
    constant_ : (V,) float64 ndarray
        1 for columns that are alike because all their values were equal at binding, else 0.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DiagonalGaussian
    >>> family = DiagonalGaussian(rate=1.0).bind([[0.0, 1.0], [2.0, 4.0], [1.0, 1.0]])
    >>> family.log_marginal(np.zeros(1), np.zeros((1, 4)))
    array([0.])

    Notes
    -----
    phi = (x, x^2) about `center_`, theta = (lam mu, -lam / 2), g = sum lam mu^2 / 2 - log(lam) / 2.
    With kn = k0 + n, an = a0 + n/2, bn = b0 + (S2 + k0 m0^2 - kn mn^2) / 2,
    A = sum lG(an) - lG(a0) + a0 log b0 - an log bn + log(k0/kn) / 2. The predictive is a product of Student's t
    densities with 2 an degrees of freedom (Murphy 2007, sec. 3).

    A column that is `alike` in all clusters has A = -(n log v + S2 / v) / 2 with its variance v about `center_`. The
    prior odds that a column is alike are 1 / N: mean and variance of all N data, as known ones, gain about log N nats
    over learned ones, which the prior takes back.

    With `missing` a column counts its own data, because independent columns factorise: phi = (o, o x, o x^2) with o = 1
    for an observed cell and 0 for a missing one, theta = (-g_j, lam mu, -lam / 2) with the g_j of each column j, and
    g = 0. The posterior given the observed cells is exact if cells are missing at random.
    """

    name = "gaussian_diag"
    has_independent_columns = True
    hyper = {"mean_strength": "positive", "rate": "positive", "alike": YES_NO}  # noqa: RUF012
    learned_by_default = ("mean_strength", "rate", "alike")
    mean: Any
    mean_strength: Any
    shape: Any
    rate: Any
    missing: bool
    alike: Any
    spread_: Floats
    constant_: Floats
    mass_: float

    def __init__(
        self,
        mean: npt.ArrayLike = "auto",
        mean_strength: npt.ArrayLike = "auto",
        shape: npt.ArrayLike = 2.0,
        rate: npt.ArrayLike = "auto",
        missing: bool = False,
        alike: npt.ArrayLike = "auto",
    ) -> None:
        check_hyper(self.name, "mean", mean, positive=False)
        check_hyper(self.name, "mean_strength", mean_strength)
        if is_auto(shape):
            raise ValueError(f"{self.name}: shape must be a positive number, or one per column; got 'auto'")
        check_hyper(self.name, "shape", shape)
        check_hyper(self.name, "rate", rate)
        if missing not in (True, False):
            raise ValueError(f"{self.name}: missing must be True or False; got {missing!r}")
        self.mean, self.mean_strength, self.shape, self.rate = mean, mean_strength, shape, rate
        check_choices(self.name, "alike", alike)
        self.missing, self.alike = missing, alike

    @property
    def allows_missing(self) -> bool:  # type: ignore[override]
        """Return whether NaN stands for a cell that a row lacks."""
        return bool(self.missing)

    @property
    def nonnegative_statistics(self) -> npt.NDArray[np.bool_]:
        """Return which statistics are never negative: the counts of observed cells, (F,) bool."""
        self.require_bound()
        return np.arange(self.n_statistics_) < self.n_statistics_ - 2 * self.n_features_in_

    def raise_squares(self, n: Floats, S: Floats) -> None:
        """Raise sums of squares, in place, to those of equal values with the same sum."""
        V = self.n_features_in_
        count = S[:, :V] if self.missing else np.asarray(n)[:, None]
        least = np.divide(S[:, -2 * V : -V] ** 2, count, out=np.zeros((len(S), V)), where=count > 0.0)
        np.maximum(S[:, -V:], least, out=S[:, -V:])

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Return the hyper-parameters as (V,) arrays, and the learned attributes.

        These are center_, resolution_, variance_floor_, spread_, constant_ and mass_, the number or the
        weight of all rows, whichever is larger.
        """
        learned, variance = self.resolve_center(rows)
        d, name = rows.n_columns, self.name
        shape = per_column(name, "shape", self.shape, d)
        strength = PRIOR_SHARE if is_auto(self.mean_strength) else self.mean_strength
        if is_auto(self.rate):
            spread = usable_variance(variance, name)
            rate = np.maximum(shape - 1.0, 0.5) * PRIOR_SHARE * spread
        else:
            spread = np.where(variance > 0.0, variance, 1.0)
            rate = per_column(name, "rate", self.rate, d)
        mean = learned["center_"].copy() if is_auto(self.mean) else per_column(name, "mean", self.mean, d)
        strength = per_column(name, "mean_strength", strength, d)
        constant = np.where(variance == 0.0, 1.0, 0.0) if is_auto(self.alike) else np.zeros(d)
        alike = per_column(name, "alike", constant if is_auto(self.alike) else self.alike, d)
        learned |= {"spread_": spread, "constant_": constant, "alike": alike, "mean": mean, "mean_strength": strength}
        return {**learned, "mass_": float(max(rows.total_weight, rows.n_rows)), "shape": shape, "rate": rate}

    def _prior_variance(self, scale: Floats) -> Floats:
        return scale / np.maximum(self.shape - 1.0, 0.5)

    def _evidence_from(self, name: str, base: Floats, n: Floats, S: Floats) -> Callable[[float], float]:
        """Return the sum of log evidences along a hyper-parameter, without the gamma terms."""
        own, alike, _ = self.columns_apart()
        if not own.size:
            return lambda t: 0.0
        count, S = self._counts_and_sums(n, S)
        location, strength, shape, rate = self._prior()
        of, other = (RateEvidence, strength) if name == "rate" else (StrengthEvidence, rate)
        given = [location, shape, other, base]
        if alike.size:
            count = count[:, own] if self.missing else count
            S = np.concatenate([S[:, own], S[:, own + self.n_features_in_]], axis=1)
            given = [values[own] for values in given]
        return of(count, S, *given)

    def fit_hyper(self, n: Floats, S: Any, *, names: Sequence[str] | None = None) -> Self:
        """Do what `Family.fit_hyper` does, in one compiled call where all evidences are finite."""
        self.require_bound()
        names = tuple(self.hyper if names is None else names)
        found = self._fit_at_once(n, S, names) if self._is_fitted_at_once() else None
        return super().fit_hyper(n, S, names=names) if found is None else found

    def _is_fitted_at_once(self):
        """Tell whether nothing that the compiled call computes has another law in a derived class."""
        return not self.missing and _are_own(type(self), _OF_EVIDENCE)

    def _fit_at_once(self, n, S, names):
        """Return the fitted family; None where an evidence is not finite or all columns are alike."""
        count, S = self._counts_and_sums(n, S)
        hyper = self._learner(count, S)
        bounds = self._bounds_of_logs(hyper, names)
        of_alike = self._evidence_if_alike(count, S)
        is_sound = hyper.fit(bounds, of_alike, self.log_odds_of_yes("alike"), MOST_ROUNDS, SETTLED)
        if is_sound is None:
            return None
        family = self._with_learned(hyper, bounds)
        return family if is_sound or family._has_finite_evidence(n, S) else self

    def update_hyper(self, n: Floats, S: Any, rng: np.random.Generator, *, names: Sequence[str] | None = None) -> Self:
        """Do what `Family.update_hyper` does, by compiled updates."""
        self.require_bound()
        names = tuple(self.hyper if names is None else names)
        if not self._is_fitted_at_once():
            return super().update_hyper(n, S, rng, names=names)
        count, S = self._counts_and_sums(n, S)
        hyper = self._learner(count, S)
        bounds = self._bounds_of_logs(hyper, names)

        def evidence_at(name, t):
            with np.errstate(invalid="ignore"):  # what is not finite is told by `log_marginal`
                return self._with_learned(hyper, names)._at_factor(name, t).total_log_marginal(n, S)

        for name in names:
            if self.hyper[name] != YES_NO:
                hyper.draw(name, rng, *bounds[name], partial(evidence_at, name))
                continue
            self._check_rates(hyper.measure())
            of_alike = self._evidence_if_alike(count, S)
            log_odds = hyper.log_odds(of_alike, self.log_odds_of_yes(name))
            chosen = np.log(rng.random(len(log_odds))) < -np.logaddexp(0.0, -log_odds)
            hyper.set_alike(chosen.astype(np.float64))
        return self._with_learned(hyper, names)

    def _bounds_of_logs(self, hyper, names):
        """Return what `_log_bounds` does, in a tenth of its time."""
        if not _are_own(type(self), _OF_BOUNDS):
            return self._log_bounds(names)
        bounds: dict[str, Any] = {}
        for name in names:
            if self.hyper[name] == YES_NO:
                bounds[name] = ()
                continue
            if name == "mean_strength":
                low, high = hyper.strength_bounds(*STRENGTHS)
            else:
                low, high = hyper.least_rate(self.variance_floor_) or LEARNED_SHARE, MOST_FACTOR
            bounds[name] = [float(np.log(low)), float(np.log(high))]
        return bounds

    def _learner(self, count, S):
        return ColumnHyper(count, S, self._prior(), self.alike, self.__dict__.get("hyper_factors_", {}))

    def _with_learned(self, hyper, names):
        """Return a copy with learned hyper-parameters."""
        family = self.with_hyper(**{name: hyper.values(name) for name in names})
        return family.with_factors(hyper.factors) if hyper.factors else family

    # ---- columns that are alike in all clusters ----------------------------------------------------------------------

    def complete_saved(self) -> None:
        """Set what a family of an earlier version lacks: no column is alike or constant."""
        d = self.n_features_in_
        self.__dict__.setdefault("constant_", np.zeros(d))
        if is_auto(self.alike):
            self.__dict__.update(alike=np.zeros(d), spread_=np.ones(d), mass_=0.0)

    def for_more_rows(self) -> Self:
        """Return the family for rows of which more come: no column is known to be constant."""
        if not self.constant_.any():
            return self
        other = self.with_hyper(alike=self.alike * (1.0 - self.constant_))
        other.__dict__["constant_"] = np.zeros(self.n_features_in_)
        return other

    def columns_apart(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Floats]:
        """Return the columns with own parameters in each cluster, the others, and their precisions."""
        if not np.any(self.alike):
            return _all_columns(self.n_features_in_)
        alike = np.flatnonzero(self.alike)
        return np.flatnonzero(np.asarray(self.alike) == 0.0), alike, 1.0 / self.spread_[alike]

    def alike_columns(self) -> npt.NDArray[np.bool_]:
        """Return which columns have one mean and one variance in all clusters: (V,) bool."""
        return np.broadcast_to(np.asarray(self.alike) > 0.0, (self.n_features_in_,))

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of means and variances of some clusters; alike columns count once."""
        self.require_bound()
        n_alike = int(self.alike_columns().sum())
        return 2 * (n_clusters * (self.n_features_in_ - n_alike) + n_alike)

    def known_precisions(self) -> Floats | None:
        """Return the precisions of columns that are alike, else 0: (V,); None without such columns."""
        _, alike, precision = self.columns_apart()
        if not alike.size:
            return None
        known = np.zeros(self.n_features_in_)
        known[alike] = precision
        return known

    def log_odds_of_yes(self, name: str) -> float:
        """Return the log prior odds that a column is alike in all clusters: one row against all."""
        return -float(np.log(self.mass_)) if self.mass_ > 0.0 else -np.inf  # of files of earlier versions

    def log_odds_given(self, name: str, n: Floats, S: Any) -> Floats:
        """Return the log odds that a column is alike in all clusters, given these: (V,) nats."""
        count, S = self._counts_and_sums(n, S)
        apart, bad = evidence_by_column(count, S, *self._prior())
        self._check_rates(bad)
        return self._evidence_if_alike(count, S) - apart + self.log_odds_of_yes(name)

    def _evidence_if_alike(self, count, S):
        """Return the log evidence of each column if it is alike: (V,), from those of all clusters.

        A constant column is alike for certain. Else each cluster would learn how narrow it is there: the more rows the
        narrower, so that no partition would be as good as one cluster.
        """
        total = S.sum(axis=0)
        is_constant = (self.constant_ > 0.0) & (total[self.n_features_in_ :] == 0.0)
        return np.where(is_constant, _CERTAIN, self._alike_evidence(count.sum(axis=0), total))

    def _alike_evidence(self, count, S):
        """Return the log evidence of alike columns: (..., V) from counts and sums (..., 2 V)."""
        return -0.5 * (count * np.log(self.spread_) + S[..., self.n_features_in_ :] / self.spread_)

    def _values(self, X):
        """Return the rows that the model is about: the data as float64, or their logarithms."""
        X = X.astype(np.float64)
        return np.log(X) if self.of_logs else X

    def sufficient_statistics(self, X: Any) -> Floats:
        """Return phi of each row about center_, float64.

        It is (x, x^2), or (o, o x, o x^2) if cells may be missing: (N, 2 V) or (N, 3 V).
        """
        X = np.ascontiguousarray(self._values(X)) if self.of_logs else as_floats(X)
        return (seen_columns_and_squares if self.missing else columns_and_squares)(X, self.center_)

    def _compiled_phi(self):
        """Return the compiled form of `sufficient_statistics`; None for logarithms of the data."""
        return None if self.of_logs else GaussianPhi("seen" if self.missing else "squares", self.center_)

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row, -log(2 pi) / 2 for each observed cell: (N,) nats."""
        observed = np.count_nonzero(~np.isnan(X), axis=1) if self.missing else np.full(X.shape[0], X.shape[1])
        return -0.5 * LOG_2PI * observed

    def _counts_and_sums(self, n, S):
        """Return counts (K, 1), or (K, d) if cells may be missing, and sums of (x, x^2): (K, 2 d)."""
        S, d = np.asarray(S, dtype=np.float64), self.n_features_in_
        return (S[:, :d], S[:, d:]) if self.missing else (np.asarray(n, dtype=np.float64)[:, None], S)

    def _posterior(self, n, S):
        """Return posterior strength, location, shape and rate, each (K, d), in centred coordinates."""
        *posterior, bad = posterior_of_columns(*self._counts_and_sums(n, S), *self._prior())
        self._check_rates(bad)
        return posterior

    def _prior(self):
        """Return location, strength, shape and rate, each (d,); the location is centred."""
        return self.mean - self.center_, self.mean_strength, self.shape, self.rate

    def _check_rates(self, bad):
        if bad >= 0:
            raise FloatingPointError(f"{self.name}: the posterior rate of cluster {bad} is not finite and positive")

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence A(n, S) of each cluster: (K,) nats, without log-base."""
        return self.log_marginal_by_column(n, S).sum(axis=1)

    def log_marginal_by_column(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence of each cluster and column: (K, V) nats, without log-base."""
        evidence, bad = evidence_of_columns(*self._counts_and_sums(n, S), *self._prior())
        self._check_rates(bad)
        if np.any(self.alike):
            evidence = np.where(self.alike, self._alike_evidence(*self._counts_and_sums(n, S)), evidence)
        return evidence

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means (E theta, E g) of each cluster: (K, F) and (K,)."""
        strength, mean, shape, rate = self._posterior(n, S)
        precision = shape / rate
        g = 0.5 * (1.0 / strength + mean * mean * precision - psi(shape) + np.log(rate))
        return self._joined(mean * precision, -0.5 * precision, g)

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return GaussianLaw(self, "open" if self.missing else "diagonal")

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw parameters (Theta, G) from the posterior of each cluster: (K, F) and (K,)."""
        strength, mean, shape, rate = self._posterior(n, S)
        precision = rng.standard_gamma(shape) / rate
        return self._natural(mean + rng.standard_normal(mean.shape) / np.sqrt(strength * precision), precision)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode (Theta, G) of each posterior in natural coordinates: (K, F) and (K,).

        It has mean mn and precision (an - 3/2) / bn, with an - 3/2 at least 0.5.
        """
        theta, g, bad = modes_of_columns(*self._counts_and_sums(n, S), *self._prior())
        self._check_rates(bad)
        return self._joined(theta[:, : self.n_features_in_], theta[:, self.n_features_in_ :], g)

    def _mode_law(self):
        """Return the compiled form of `map_natural` and `log_prior`; None if cells may be missing."""
        return None if self.missing else ColumnModeLaw(*self._prior(), *self.columns_apart())

    def _natural(self, mean, precision):
        g = 0.5 * (mean * mean * precision - np.log(precision))
        return self._joined(mean * precision, -0.5 * precision, g)

    def _joined(self, first, second, g):
        """Return (Theta, G) from the natural parameters of each column and its g, each (K, d).

        Columns that are alike have the parameters that are known.
        """
        _, alike, precision = self.columns_apart()
        if alike.size:
            first[:, alike], second[:, alike], g[:, alike] = 0.0, -0.5 * precision, -0.5 * np.log(precision)
        if self.missing:
            return np.concatenate([-g, first, second], axis=1), np.zeros(len(g))
        return np.concatenate([first, second], axis=1), g.sum(axis=1)

    def _usual(self, theta):
        """Return centred means and precisions (K, d), and which rows lie inside the domain (K,).

        Means and precisions are NaN outside the domain.
        """
        d = self.n_features_in_
        theta = theta[:, -2 * d :]
        inside = (theta[:, d:] < 0).all(axis=1)
        precision = np.where(inside[:, None], -2.0 * theta[:, d:], np.nan)
        return theta[:, :d] / precision, precision, inside

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the unnormalised log prior density in natural coordinates: (K,) nats.

        It is -inf outside the domain.
        """
        own, alike, _ = self.columns_apart()
        theta, prior = theta[:, -2 * self.n_features_in_ :], self._prior()
        if alike.size:
            theta = np.concatenate([theta[:, own], theta[:, own + self.n_features_in_]], axis=1)
            prior = tuple(values[own] for values in prior)
        return log_prior_of_columns(theta, *prior)

    def log_partition(self, theta: Floats) -> Floats:
        """Return the log partition function g of each theta: (K,) nats; +inf outside the domain."""
        mean, precision, inside = self._usual(theta)
        natural, g = self._natural(mean, precision)
        if self.missing:  # of complete rows; 0 for all parameters that the other methods return
            d = self.n_features_in_
            g = (theta[:, :d] - natural[:, :d]).sum(axis=1)
        return np.where(inside, g, np.inf)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return means (K, V) and variances (K, V) in the coordinates of the data."""
        mean, precision, _ = self._usual(theta)
        return {"mean": mean + self.center_, "variance": 1.0 / precision}

    def from_params(self, mean: npt.ArrayLike, variance: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the natural parameters (Theta, G) of means (K, V) and variances (K, V).

        Parameters
        ----------
        mean : (K, V) array_like of float
            In the units of the data.
        variance : (K, V) array_like of positive float

        Returns
        -------
        theta : (K, F) float64 ndarray
        g : (K,) float64 ndarray
            Log-partition function of each theta, nats.
        """
        mean, variance = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
        return self._natural(mean - self.center_, 1.0 / variance)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter."""
        mean, precision, _ = self._usual(theta)
        noise = rng.standard_normal((theta.shape[0], size, self.n_features_in_))
        rows = (mean + self.center_)[:, None, :] + noise / np.sqrt(precision)[:, None, :]
        return rows.reshape(-1, self.n_features_in_)

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> DiagonalComponents | OpenDiagonalComponents:
        """Return the compiled owner of the statistics of `capacity` clusters."""
        return (OpenDiagonalComponents if self.missing else DiagonalComponents)(self, data, capacity)


# methods that compiled calls stand for
_OF_EVIDENCE = (
    "_evidence_along",
    "_evidence_from",
    "log_odds_given",
    "_evidence_if_alike",
    "_alike_evidence",
    "_spread_factor",
)
_OF_BOUNDS = ("hyper_bounds", "_bounds_from", "_prior_variance")


@cache
def _are_own(cls, names):
    """Tell whether methods of a class are those of this one."""
    return all(getattr(cls, name) is getattr(DiagonalGaussian, name) for name in names)


@lru_cache(maxsize=16)
def _all_columns(d):
    own, none, precision = np.arange(d), np.zeros(0, dtype=np.intp), np.zeros(0)
    for shared in (own, none, precision):
        shared.setflags(write=False)
    return own, none, precision
