"""Directions on the sphere: the von Mises-Fisher family, conjugate in the mean direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import gammaln, ive, xlogy

from expfam.errors import DataError
from expfam.families.base import Family
from expfam.families.simple.columns import _check_positive, _column_sums

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats


class VonMisesFisher(Family):
    """Directions (rows of unit length) about the mean direction of a cluster.

    The concentration about that direction is known and the same for all clusters.

    Parameters
    ----------
    kappa : "auto" or float, positive
        Concentration of a cluster; ``"auto"`` gives clusters a tenth of the variance of all data.
    mean : "auto" or (V,) array_like of unit length
        Mode of the prior of mean directions; ``"auto"`` is the direction of the data's mean.
    strength : "auto" or float, positive
        Concentration of that prior; ``"auto"`` is the concentration of all data about their mean direction.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.simple.von_mises_fisher import VonMisesFisher
    >>> family = VonMisesFisher(kappa=5.0).bind(np.eye(3))
    >>> family.to_params(*family.map_natural(np.array([1.0]), np.array([[0.0, 0.0, 1.0]])))["mean"].round(2)
    array([[0.2 , 0.2 , 0.96]])

    Notes
    -----
    theta = kappa mu and g = -log C_d(kappa). With R = strength mean + kappa S,
    A(n, S) = n log C_d(kappa) + log C_d(strength) - log C_d(|R|). The automatic strength is eq. 4.4 of Banerjee et al.
    2005, "Clustering on the unit hypersphere"; the draws follow Wood 1994.
    """

    support = "unit"
    hyper = {"kappa": "positive", "strength": "positive"}
    kappa: Any
    mean: Any
    strength: Any

    def __init__(
        self,
        kappa: Literal["auto"] | float = "auto",
        mean: npt.ArrayLike = "auto",
        strength: Literal["auto"] | float = "auto",
    ) -> None:
        self.kappa, self.mean, self.strength = kappa, mean, strength
        _check_positive(self, names=("kappa", "strength"))

    def validate(self, X: Any) -> Any:
        X = super().validate(X)
        if X.shape[1] < 2:
            raise DataError(f"von_mises_fisher needs at least two columns; got n_features={X.shape[1]}")
        return X

    def resolve(self, X: Any) -> dict[str, Any]:
        d = X.shape[1]
        centre = _column_sums(X) / X.shape[0]
        length = min(float(np.sqrt(centre @ centre)), 1.0 - 1e-6)
        spread = 1.0 - length**2
        direction = centre / np.sqrt(centre @ centre) if length > 1e-12 else np.full(d, d**-0.5)
        auto = {"kappa": 10.0 * (d - 1) / spread, "mean": direction}
        auto["strength"] = max(length * (d - length**2) / spread, 1e-3)
        values = {name: value for name, value in auto.items() if isinstance(getattr(self, name), str)}
        mean = np.asarray(values.get("mean", self.mean), dtype=np.float64)
        if mean.shape != (d,) or abs(float(mean @ mean) - 1.0) > 1e-6:
            raise DataError(f"von_mises_fisher needs a mean of shape ({d},) and unit length; got {self.mean!r}")
        return {**values, "mean": mean}

    def sufficient_statistics(self, X: Any) -> Any:
        return X

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        d = S.shape[1]
        each = n * _log_vmf_constant(d, self.kappa)
        return each + _log_vmf_constant(d, self.strength) - _log_vmf_constant(d, self._resultant(S)[1])

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        d = S.shape[1]
        R, length = self._resultant(S)
        shrink = np.exp(_log_bessel_ratio(d / 2, length) - _log_bessel_ratio(d / 2 - 1, length))
        return self.kappa * shrink[:, None] * R, self._g(S)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        R, length = self._resultant(S)
        return self.kappa * _draw_vmf(_unit(R), length, rng), self._g(S)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        return self.kappa * _unit(self._resultant(S)[0]), self._g(S)

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        return theta @ np.asarray(self.mean) * (self.strength / self.kappa)

    def log_partition(self, theta: Floats) -> Floats:
        return -_log_vmf_constant(theta.shape[1], np.sqrt((theta**2).sum(axis=1)))

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        return {"mean": theta / self.kappa}

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        return _draw_vmf(np.repeat(_unit(theta), size, axis=0), np.full(len(theta) * size, float(self.kappa)), rng)

    def _g(self, S):
        return np.full(S.shape[0], -_log_vmf_constant(S.shape[1], self.kappa))

    def _resultant(self, S):
        R = self.strength * np.asarray(self.mean) + self.kappa * S
        return R, np.sqrt((R**2).sum(axis=1))


def _log_bessel_ratio(v, x):
    """Return log(I_v(x) / x^v), which is finite down to x = 0.

    It uses SciPy's scaled Bessel function, Debye's expansion if that underflows, and a series near 0.
    """
    x = np.asarray(x, dtype=np.float64)
    small = x < 1e-8
    safe = np.where(small, 1.0, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.log(ive(v, safe)) + safe
    usable = np.isfinite(direct) & (direct - safe > -600.0)
    value = np.where(usable, direct, _log_bessel_debye(v, safe)) - xlogy(v, safe)
    return np.where(small, -v * np.log(2.0) - gammaln(v + 1.0) + x**2 / (4.0 * (v + 1.0)), value)


def _log_bessel_debye(v, x):
    """Return log I_v(x) by three terms of Debye's expansion (Abramowitz and Stegun, 9.7.7).

    It is accurate for large v or large x.
    """
    r = np.hypot(v, x)
    t = (v / r) ** 2
    u1 = (3.0 - 5.0 * t) / (24.0 * r)
    u2 = (81.0 - 462.0 * t + 385.0 * t**2) / (1152.0 * r**2)
    u3 = (30375.0 - 369603.0 * t + 765765.0 * t**2 - 425425.0 * t**3) / (414720.0 * r**3)
    return r + v * np.log(x / (v + r)) - 0.5 * np.log(2.0 * np.pi * r) + np.log1p(u1 + u2 + u3)


def _log_vmf_constant(d, kappa):
    """Return the log normaliser of the von Mises-Fisher density in d dimensions, nats.

    kappa may be 0.
    """
    return -(d / 2) * np.log(2.0 * np.pi) - _log_bessel_ratio(d / 2 - 1, kappa)


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
