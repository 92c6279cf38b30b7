"""Gaussian clusters with one variance for all columns; scoring a datum costs O(K d)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from expfam.errors import DataTypeError
from expfam.families.compiled_phi import ColumnsPhi
from expfam.families.gaussian._natural import GaussianLaw
from expfam.families.gaussian._spherical import KnownComponents, OwnComponents
from expfam.families.gaussian._statistics import GaussianPhi, as_floats
from expfam.families.gaussian.columns import (
    RealFamily,
    per_column,
    require_dense,
    usable_variance,
)
from expfam.families.gaussian.holes import PredictiveLaw
from expfam.families.gaussian.spherical_laws import KnownVariance, OwnVariance, SharedVariance
from expfam.families.support import check_hyper
from expfam.params import is_auto

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats

_KEYWORDS = {  # those that each law reads, beside variance and mean
    "auto": ("mean_strength", "shape", "rate"),
    "shared": ("shared_variance", "mean_variance"),
    "a number": ("mean_variance",),
}


class SphericalGaussian(RealFamily):
    """Gaussian with the same variance in all columns; each cluster has its own unknown variance.

    Other choices are one unknown variance that all clusters share, and a known variance.

    Parameters
    ----------
    variance : "auto", "shared" or float
        If "auto", each cluster has one unknown variance, under a normal-gamma prior. If "shared", all clusters have
        one unknown variance, the hyper-parameter `shared_variance`. A number is the known variance s2 of each column
        within each cluster.
    mean : "auto", float or (V,) array_like
        Prior location m0 in the coordinates of the data; the column means if "auto", zero for sparse data.
    mean_strength : "auto" or float
        With variance="auto": strength k0 of the prior location, as a number of data; 0.1 if "auto".
    shape : "auto" or float
        With variance="auto": shape a0 of the gamma prior on the precision of a cluster; one more than the columns that
        vary if "auto", which weighs as much as two rows.
    rate : "auto" or float
        With variance="auto": rate b0 of the gamma prior. If "auto", it is max(shape - 1, 0.5) times a tenth of the mean
        column variance: for shapes from 1.5 on the prior mean of a variance is a tenth of the mean column variance.
    mean_variance : "auto" or float
        With variance="shared" or a number: prior variance v0 of the cluster means; the mean column variance if "auto".
    shared_variance : "auto" or float
        With variance="shared": the variance before any is learned; a tenth of the mean column variance if "auto".

    Attributes
    ----------
    center_ : (V,) float64 ndarray
        Column means at binding; statistics are sums about them. Zeros for sparse data, so that these stay sparse.
    constant_ : (V,) float64 ndarray
        1 for columns whose values were all equal at binding, and equal to the prior location, else 0. They have no part
        in the density: the number of columns d of the formulas is that of the others.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import SphericalGaussian
    >>> family = SphericalGaussian(mean=0.0, mean_strength=1.0, rate=1.0).bind([[0.0, 1.0], [2.0, 4.0]])
    >>> n, S = np.array([1.0]), family.sufficient_statistics(np.array([[2.0, 4.0]]))
    >>> family.to_params(*family.map_natural(n, S))
    {'mean': array([[1., 2.]]), 'variance': array([3.])}

    A known variance needs no squares:

    >>> SphericalGaussian(variance=1.0).bind([[0.0, 1.0], [2.0, 4.0]]).n_statistics_
    2

    Notes
    -----
    Own variance: phi = (x, |x|^2) about `center_`, theta = (lam mu, -lam / 2), g = lam |mu|^2 / 2 - (d/2) log lam.
    With kn = k0 + n, an = a0 + n d / 2, bn = b0 + (S2 + k0 |m0|^2 - kn |mn|^2) / 2,
    A = lG(an) - lG(a0) + a0 log b0 - an log bn + (d/2) log(k0/kn). The predictive is Student's t with 2 an degrees of
    freedom. For one column this is `DiagonalGaussian`.

    Known variance: phi = x, theta = mu / s2, g = |mu|^2 / (2 s2), log_base = -|x|^2 / (2 s2) - (d/2) log(2 pi s2).
    With vn = 1 / (1/v0 + n/s2) and mn = vn (m0/v0 + S/s2),
    A = (d/2) log(vn/v0) + |mn|^2 / (2 vn) - |m0|^2 / (2 v0). The variance cannot be learned: A does not contain it.

    Shared variance: phi = (x, |x|^2). A is that of a known variance and -S2 / (2 s2) - (n d / 2) log s2, so that s2 can
    be learned like any hyper-parameter.
    """

    name = "gaussian_spherical"
    accepts_sparse = True
    keeps_narrow_rows = True
    constant_: Floats
    variance: Any
    mean: Any
    mean_variance: Any
    shared_variance: Any
    mean_strength: Any
    shape: Any
    rate: Any

    def __init__(
        self,
        variance: Literal["auto", "shared"] | float = "auto",
        mean: npt.ArrayLike = "auto",
        mean_variance: Literal["auto"] | float = "auto",
        shared_variance: Literal["auto"] | float = "auto",
        mean_strength: Literal["auto"] | float = "auto",
        shape: Literal["auto"] | float = "auto",
        rate: Literal["auto"] | float = "auto",
    ) -> None:
        if isinstance(variance, str) and variance not in ("auto", "shared"):
            raise ValueError(f"{self.name}: variance must be 'auto', 'shared' or a positive number; got {variance!r}")
        if not isinstance(variance, str):
            check_hyper(self.name, "variance", variance, vector=False)
        check_hyper(self.name, "mean", mean, positive=False)
        self.variance, self.mean = variance, mean
        self.mean_variance, self.shared_variance = mean_variance, shared_variance
        self.mean_strength, self.shape, self.rate = mean_strength, shape, rate
        given = variance if isinstance(variance, str) else "a number"
        for name in ("mean_variance", "shared_variance", "mean_strength", "shape", "rate"):
            value = getattr(self, name)
            check_hyper(self.name, name, value, vector=False)
            if not is_auto(value) and name not in _KEYWORDS[given]:
                users = " or ".join(f"variance={law!r}" for law in _KEYWORDS if name in _KEYWORDS[law])
                raise ValueError(
                    f"{self.name}: {name} belongs to {users.replace(repr('a number'), 'a number')}; with"
                    f" variance={variance!r} give {' or '.join(_KEYWORDS[given])}"
                )

    @property
    def _law(self):
        if is_auto(self.variance):
            return OwnVariance(self)
        return SharedVariance(self) if isinstance(self.variance, str) else KnownVariance(self)

    @property
    def hyper(self) -> dict[str, str]:  # type: ignore[override]
        """Return the names of the hyper-parameters that may be learned; they depend on `variance`."""
        return dict.fromkeys(self._law.hyper, "positive")

    @property
    def learned_by_default(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the hyper-parameters that estimators learn unless a value was given: all."""
        return tuple(self.hyper)

    def _bounds_from(self, name: str, base: Floats) -> tuple[float, float]:
        """Return `hyper_bounds`, given the value at binding.

        A shared variance exceeds the variance of rounding in columns with many tied values.
        """
        low, high = super()._bounds_from(name, base)
        if name == "shared_variance":
            low = min(1.0, max(low, float((self.resolution_**2).mean() / (12.0 * base))))
        return low, high

    def _prior_variance(self, scale: Floats) -> Floats:
        return scale / max(self.shape - 1.0, 0.5)

    def with_hyper(self, **values: Any) -> Self:
        """Return a copy with other hyper-parameters; a bound family keeps its kind of `variance`."""
        now = values.get("variance", self.variance)
        if self.is_bound and (now != self.variance if isinstance(self.variance, str) else isinstance(now, str)):
            raise ValueError(
                f"{self.name}: a bound family with variance={self.variance!r} cannot take variance={now!r}: bind a new"
                f" family: write {type(self).__name__}(variance={now!r}).bind(X)"
            )
        return super().with_hyper(**values)

    @property
    def is_metric(self) -> bool:
        """Return True: likelihoods depend on squared distances of the rows."""
        return True

    def of_one_width(self) -> SphericalGaussian | None:
        """Return the unbound family with one variance; None if clusters have none of their own."""
        return SphericalGaussian(variance="shared") if is_auto(self.variance) else None

    def validate(self, X: Any) -> Any:
        """Check data and return them as a dense array or canonical CSR; see `Family.validate`."""
        X = super().validate(X)
        if self.is_bound and np.any(self.center_):
            require_dense(self.name, X)
        return X

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Return the hyper-parameters, and center_, resolution_, variance_floor_ and constant_."""
        learned, variance = self.resolve_center(rows)
        d, means = rows.n_columns, learned["center_"]
        if rows.is_sparse:
            learned["center_"] = np.zeros(d)
            if not is_auto(self.mean) and np.any(self.mean):
                raise DataTypeError(f"{self.name} reads sparse data only with mean=0; got mean={self.mean!r}")
        mean = learned["center_"].copy() if is_auto(self.mean) else per_column(self.name, "mean", self.mean, d)
        constant = (variance == 0.0) & (means == mean)
        learned["constant_"] = np.zeros(d) if constant.all() else np.where(constant, 1.0, 0.0)
        law, typical = self._law, 1.0
        if any(is_auto(getattr(self, name)) for name in law.from_data):
            typical = float(usable_variance(variance, self.name).mean())
        return {**learned, "mean": mean, **law.resolve(int(d - learned["constant_"].sum()), typical)}

    @property
    def varying(self) -> Floats:
        """Return 1 for each column that has a part in the density, else 0: (V,)."""
        return 1.0 - self.constant_

    @property
    def n_varying(self) -> int:
        """Return the number of columns that have a part in the density."""
        return self.n_features_in_ - int(np.count_nonzero(self.constant_))

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of means and variances of some clusters; a shared variance counts once."""
        self.require_bound()
        return n_clusters * self.n_varying + self._law.n_variances(n_clusters)

    def complete_saved(self) -> None:
        """Set what a family of an earlier version lacks: no column is constant."""
        self.__dict__.setdefault("constant_", np.zeros(self.n_features_in_))

    def for_more_rows(self) -> Self:
        """Return the family for rows of which more come: no column is known to be constant."""
        other = self._copy()
        other.__dict__["constant_"] = np.zeros(self.n_features_in_)
        return other

    def raise_squares(self, n: Floats, S: Floats) -> None:
        """Raise sums of squared lengths, in place, to those of equal rows with the same sum."""
        V, used = self.n_features_in_, np.asarray(n) > 0.0
        if S.shape[1] > V:
            S[used, V] = np.maximum(S[used, V], (S[used, :V] ** 2).sum(axis=1) / n[used])

    def sufficient_statistics(self, X: Any) -> Any:
        """Return phi of each row: (N, V) with a known variance, else (N, V + 1).

        It is x about center_, followed by its squared length if the variance is unknown; float64, CSR for sparse X.
        """
        if sparse.issparse(X):
            return self._law.sparse_statistics(X.astype(np.float64))
        return self._law.statistics(as_floats(X))

    def _compiled_phi(self):
        """Return the compiled form of `sufficient_statistics` of dense rows."""
        is_known = self.n_statistics_ == self.n_features_in_
        return ColumnsPhi(self.center_) if is_known else GaussianPhi("length", self.center_)

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row: (N,) nats.

        It is -(d/2) log(2 pi), or -|x - center|^2 / (2 s2) - (d/2) log(2 pi s2) if s2 is known.
        """
        return self._law.log_base(X)

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence A(n, S) of each cluster: (K,) nats, without log-base."""
        return self._law.log_marginal(*_as_arrays(n, S))

    def predictive_law(self, n: Floats, S: Floats) -> PredictiveLaw:
        """Return the law of a new row in each cluster; see `Gaussian.predictive_law`.

        It is normal where the variance is known or shared.
        """
        dof, mean, variance = self._law.predictive(*_as_arrays(n, S))
        return PredictiveLaw(dof, mean + self.center_, variance[:, None, None] * np.eye(self.n_features_in_))

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means (E theta, E g) of each cluster: (K, F) and (K,)."""
        return self._law.expected_natural(*_as_arrays(n, S))

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return GaussianLaw(self, "radial" if is_auto(self.variance) else "spherical")

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw parameters (Theta, G) from the posterior of each cluster: (K, F) and (K,)."""
        return self._law.draw_natural(*_as_arrays(n, S), rng)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode (Theta, G) of each posterior: (K, F) and (K,).

        Its mean is mn; an own precision is (an - 1 - d/2) / bn, with an - 1 - d/2 at least 0.5.
        """
        return self._law.map_natural(*_as_arrays(n, S))

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the unnormalised log prior density in natural coordinates: (K,) nats.

        It is -inf outside the domain, and for precisions other than that of a shared variance.
        """
        return self._law.log_prior(theta)

    def log_partition(self, theta: Floats) -> Floats:
        """Return the log partition function g of each theta: (K,) nats; +inf outside the domain."""
        return self._law.log_partition(theta)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return means (K, V) in the coordinates of the data, and variances (K,)."""
        mean, variance = self._law.usual(theta)
        return {"mean": mean + self.center_, "variance": variance}

    def from_params(self, mean: npt.ArrayLike, variance: npt.ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Return the natural parameters (Theta, G) of means (K, V) and variances (K,).

        Parameters
        ----------
        mean : (K, V) array_like of float
            In the units of the data.
        variance : (K,) array_like of positive float, optional
            May be left out if the variance is known or shared; if given, it must equal that of the family.

        Returns
        -------
        theta : (K, F) float64 ndarray
        g : (K,) float64 ndarray
            Log-partition function of each theta, nats.
        """
        return self._law.from_params(np.asarray(mean, dtype=np.float64) - self.center_, variance)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter."""
        mean, variance = self._law.usual(theta)
        noise = self.varying * rng.standard_normal((theta.shape[0], size, mean.shape[1]))
        deviation = np.sqrt(variance)[:, None, None]
        return ((mean + self.center_)[:, None, :] + deviation * noise).reshape(-1, mean.shape[1])

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> KnownComponents | OwnComponents:
        """Return the compiled owner of the statistics of `capacity` clusters."""
        return OwnComponents(self, data, capacity) if is_auto(self.variance) else KnownComponents(self, data, capacity)


def _as_arrays(n, S):
    return np.asarray(n, dtype=np.float64), np.asarray(S, dtype=np.float64)
