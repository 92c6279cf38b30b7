"""Families written as a stranger would write them: plain NumPy, no compiled part, found through entry points.

They prove that the public protocol is enough. Each is log p(x|theta) = <phi(x), theta> - g(theta) + log_base(x) with
independent columns (or, on the sphere, one vector), so every method is a few vectorised lines of O(K V).
"""

import warnings

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, ive, xlogy

from expfam.errors import DataError, DataWarning
from expfam.families.base import Family
from expfam.families.support import check_scales

__all__ = ["Bernoulli", "Exponential", "Geometric", "NegativeBinomial", "VonMisesFisher"]


class Bernoulli(Family):
    """Independent yes / no columns with a Beta(a, b) prior on the probability of each.

    Parameters
    ----------
    a, b : "auto", float or (V,) array_like, positive
        Prior counts of ones and of zeros. Both ``"auto"`` give each column its own prior worth 5 observations.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.simple.families import Bernoulli
    >>> Bernoulli(a=1.0, b=1.0).log_marginal(np.array([2.0]), np.array([[1.0]])).round(6)
    array([-1.791759])

    Notes
    -----
    theta = logit p, g = -sum log(1 - p); A(n, S) = sum_j log B(a_j + S_j, b_j + n - S_j) - log B(a_j, b_j).
    A prior shared by all columns suits sparse binary data badly, hence the default by column.
    """

    support = "binary"
    accepts_sparse = True
    hyper = {"a": "positive", "b": "positive"}

    def __init__(self, a="auto", b="auto"):
        self.a, self.b = a, b
        _check_positive(self)

    def resolve(self, X):
        share = (_column_sums(X) + 0.5) / (X.shape[0] + 1.0)
        return _resolved(self, X, a=5.0 * share, b=5.0 * (1.0 - share))

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        return (betaln(self.a + S, self.b + n[:, None] - S) - betaln(self.a, self.b)).sum(axis=1)

    def expected_natural(self, n, S):
        m = n[:, None]
        no = digamma(self.b + m - S)
        return digamma(self.a + S) - no, (digamma(self.a + self.b + m) - no).sum(axis=1)

    def draw_natural(self, n, S, rng):
        yes = _draw_log_gamma(self.a + S, rng)
        return self._with_partition(yes - _draw_log_gamma(self.b + n[:, None] - S, rng))

    def map_natural(self, n, S):
        return self._with_partition(np.log(self.a + S) - np.log(self.b + n[:, None] - S))

    def log_prior(self, theta, g):
        return (self.a * theta - (self.a + self.b) * np.logaddexp(0.0, theta)).sum(axis=1)

    def log_partition(self, theta):
        return np.logaddexp(0.0, theta).sum(axis=1)

    def _with_partition(self, theta):
        return theta, self.log_partition(theta)

    def to_params(self, theta, g):
        return {"probability": expit(theta)}

    def sample(self, theta, size, rng):
        p = np.repeat(expit(theta), size, axis=0)
        return (rng.random(p.shape) < p).astype(np.float64)


class Exponential(Family):
    """Independent waiting times with a Gamma(a, b) prior on the rate of each column.

    Parameters
    ----------
    a : float or (V,) array_like, positive
        Shape of the prior.
    b : "auto", float or (V,) array_like, positive
        Rate of the prior, in the unit of the data; ``"auto"`` makes the prior mean of 1 / rate the column's mean.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.simple.families import Exponential
    >>> Exponential(a=2.0, b=1.0).log_marginal(np.array([1.0]), np.array([[1.0]])).round(6)
    array([-1.386294])

    Notes
    -----
    theta = -rate, g = -sum log rate; the predictive of a column is Lomax(a + n, b + S).
    """

    support = "nonnegative"
    hyper = {"a": "positive", "b": "positive"}

    def __init__(self, a=2.0, b="auto"):
        self.a, self.b = a, b
        _check_positive(self)

    def resolve(self, X):
        mean = _column_sums(X) / X.shape[0]
        zero = np.flatnonzero(mean == 0)
        if zero.size:
            message = f"exponential: column {zero[0]} holds zeros only; its scale is taken as 1"
            warnings.warn(message, DataWarning, stacklevel=3)
            mean[zero] = 1.0
        check_scales(mean**2, family=self.name)  # the standard deviation of a waiting time is its mean
        a = np.asarray(2.0 if isinstance(self.a, str) else self.a, dtype=np.float64)
        return _resolved(self, X, a=np.full(X.shape[1], 2.0), b=np.maximum(a - 1.0, 0.5) * mean)

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        shape = self.a + n[:, None]
        ratio = gammaln(shape) - gammaln(self.a) - n[:, None] * np.log(self.b)
        return (ratio - shape * np.log1p(S / self.b)).sum(axis=1)

    def expected_natural(self, n, S):
        shape, rate = self.a + n[:, None], self.b + S
        return -shape / rate, (np.log(rate) - digamma(shape)).sum(axis=1)

    def draw_natural(self, n, S, rng):
        shape = np.broadcast_to(self.a + n[:, None], S.shape)
        log_rate = _draw_log_gamma(shape, rng) - np.log(self.b + S)
        return -np.exp(log_rate), -log_rate.sum(axis=1)

    def map_natural(self, n, S):
        """Mode in natural coordinates; it exists where a + n > 1, below that the shape is held at 1e-3."""
        rate = np.maximum(self.a + n[:, None] - 1.0, 1e-3) / (self.b + S)
        return -rate, -np.log(rate).sum(axis=1)

    def log_prior(self, theta, g):
        return ((np.asarray(self.a) - 1.0) * np.log(-theta) + self.b * theta).sum(axis=1)

    def log_partition(self, theta):
        return -np.log(-theta).sum(axis=1)

    def to_params(self, theta, g):
        return {"mean": -1.0 / theta, "rate": -theta}

    def sample(self, theta, size, rng):
        return rng.exponential(np.repeat(-1.0 / theta, size, axis=0))


class NegativeBinomial(Family):
    """Independent over-dispersed counts: failures, each with probability p, before the r-th success.

    Parameters
    ----------
    r : float, positive
        Successes waited for; known, the same for all columns. The mean of a column is r p / (1 - p).
    a, b : "auto", float or (V,) array_like, positive
        Beta(a, b) prior of p; ``"auto"`` is worth one observation of the column's mean.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.simple.families import NegativeBinomial
    >>> family = NegativeBinomial(r=2.0, a=1.0, b=3.0)
    >>> family.log_marginal(np.array([1.0]), np.array([[0.0]])).round(6)
    array([-0.510826])

    Notes
    -----
    theta = log p, g = -r sum log(1 - p); A(n, S) = sum_j log B(a_j + S_j, b_j + n r) - log B(a_j, b_j).
    """

    support = "counts"
    accepts_sparse = True
    hyper = {"a": "positive", "b": "positive"}

    def __init__(self, r=1.0, a="auto", b="auto"):
        self.r, self.a, self.b = r, a, b
        _check_positive(self)

    def resolve(self, X):
        mean = _column_sums(X) / X.shape[0] + 1.0 / X.shape[0]
        return _resolved(self, X, a=mean, b=np.full(X.shape[1], 1.0 + self.r))

    def sufficient_statistics(self, X):
        return X

    def log_base(self, X):
        r = self.r

        def weight(x):
            return gammaln(x + r) - gammaln(r) - gammaln(x + 1.0)

        if not hasattr(X, "indptr"):
            return weight(np.asarray(X, dtype=np.float64)).sum(axis=1)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        return np.bincount(rows, weights=weight(X.data.astype(np.float64)), minlength=X.shape[0])

    def log_marginal(self, n, S):
        return (betaln(self.a + S, self.b + self.r * n[:, None]) - betaln(self.a, self.b)).sum(axis=1)

    def expected_natural(self, n, S):
        m = self.r * n[:, None]
        both = digamma(self.a + self.b + S + m)
        return digamma(self.a + S) - both, self.r * (both - digamma(self.b + m)).sum(axis=1)

    def draw_natural(self, n, S, rng):
        up = _draw_log_gamma(self.a + S, rng)
        down = _draw_log_gamma(np.broadcast_to(self.b + self.r * n[:, None], S.shape), rng)
        both = np.logaddexp(up, down)
        return up - both, self.r * (both - down).sum(axis=1)

    def map_natural(self, n, S):
        """Mode in natural coordinates; it exists where b + n r > 1, below that the latter excess is held at 1e-3."""
        up, down = self.a + S, np.maximum(self.b + self.r * n[:, None] - 1.0, 1e-3)
        return np.log(up) - np.log(up + down), self.r * (np.log(up + down) - np.log(down)).sum(axis=1)

    def log_prior(self, theta, g):
        return (self.a * theta + (np.asarray(self.b) - 1.0) * np.log(-np.expm1(theta))).sum(axis=1)

    def log_partition(self, theta):
        return -self.r * np.log(-np.expm1(theta)).sum(axis=1)

    def to_params(self, theta, g):
        return {"mean": self.r * np.exp(theta) / -np.expm1(theta), "probability": np.exp(theta)}

    def sample(self, theta, size, rng):
        return rng.negative_binomial(self.r, np.repeat(-np.expm1(theta), size, axis=0)).astype(np.float64)


class Geometric(NegativeBinomial):
    """Independent counts of failures before the first success; the support starts at 0.

    Parameters
    ----------
    a, b : "auto", float or (V,) array_like, positive
        Beta(a, b) prior of the probability p of a failure; ``"auto"`` is worth one observation of the column's mean.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.simple.families import Geometric
    >>> Geometric(a=1.0, b=1.0).log_marginal(np.array([1.0]), np.array([[2.0]])).round(6)
    array([-2.484907])

    Notes
    -----
    The negative binomial with r = 1.
    """

    r = 1.0

    def __init__(self, a="auto", b="auto"):
        self.a, self.b = a, b
        _check_positive(self)


class VonMisesFisher(Family):
    """Directions (rows of unit length) about a cluster's mean direction, at a known concentration.

    Parameters
    ----------
    kappa : "auto" or float, positive
        Concentration of a cluster; ``"auto"`` gives clusters a tenth of the variance of all data.
    mean : "auto" or (V,) array_like of unit length
        Mode of the prior of mean directions; ``"auto"`` is the direction of the data's mean.
    strength : "auto" or float, positive
        Concentration of that prior; ``"auto"`` is that of the data as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.simple.families import VonMisesFisher
    >>> family = VonMisesFisher(kappa=5.0).bind(np.eye(3))
    >>> family.to_params(*family.map_natural(np.array([1.0]), np.array([[0.0, 0.0, 1.0]])))["mean"].round(2)
    array([[0.2 , 0.2 , 0.96]])

    Notes
    -----
    theta = kappa mu, g = -log C_d(kappa), both fixed by kappa: with R = strength mean + kappa S,
    A(n, S) = n log C_d(kappa) + log C_d(strength) - log C_d(|R|). Banerjee et al. 2005, "Clustering on the unit
    hypersphere", eq. 4.4 for the automatic strength; Wood 1994 for the draws.
    """

    support = "unit"
    hyper = {"kappa": "positive", "strength": "positive"}

    def __init__(self, kappa="auto", mean="auto", strength="auto"):
        self.kappa, self.mean, self.strength = kappa, mean, strength
        _check_positive(self, names=("kappa", "strength"))

    def validate(self, X):
        X = super().validate(X)
        if X.shape[1] < 2:
            raise DataError(f"von_mises_fisher needs at least two columns; got n_features={X.shape[1]}")
        return X

    def resolve(self, X):
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

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        d = S.shape[1]
        each = n * _log_vmf_constant(d, self.kappa)
        return each + _log_vmf_constant(d, self.strength) - _log_vmf_constant(d, self._resultant(S)[1])

    def expected_natural(self, n, S):
        d = S.shape[1]
        R, length = self._resultant(S)
        shrink = np.exp(_log_bessel_ratio(d / 2, length) - _log_bessel_ratio(d / 2 - 1, length))
        return self.kappa * shrink[:, None] * R, self._g(S)

    def draw_natural(self, n, S, rng):
        R, length = self._resultant(S)
        return self.kappa * _draw_vmf(_unit(R), length, rng), self._g(S)

    def map_natural(self, n, S):
        return self.kappa * _unit(self._resultant(S)[0]), self._g(S)

    def log_prior(self, theta, g):
        return theta @ np.asarray(self.mean) * (self.strength / self.kappa)

    def log_partition(self, theta):
        return -_log_vmf_constant(theta.shape[1], np.sqrt((theta**2).sum(axis=1)))

    def to_params(self, theta, g):
        return {"mean": theta / self.kappa}

    def sample(self, theta, size, rng):
        return _draw_vmf(np.repeat(_unit(theta), size, axis=0), np.full(len(theta) * size, float(self.kappa)), rng)

    def _g(self, S):
        return np.full(S.shape[0], -_log_vmf_constant(S.shape[1], self.kappa))

    def _resultant(self, S):
        R = self.strength * np.asarray(self.mean) + self.kappa * S
        return R, np.sqrt((R**2).sum(axis=1))


# ---- parameters ----------------------------------------------------------------------------------------------------


def _check_positive(family, names=None):
    for name in names or family.get_params():
        value = getattr(family, name)
        if isinstance(value, str):
            if value == "auto":
                continue
            raise ValueError(f'{family.name}: {name} must be positive or "auto"; got {value!r}')
        numbers = np.asarray(value, dtype=np.float64)
        if numbers.ndim > 1 or not (np.isfinite(numbers) & (numbers > 0)).all():
            raise ValueError(
                f"{family.name}: {name} must be positive and finite, one number or one for each column; got {value!r}"
            )


def _resolved(family, X, **auto):
    """Values in place of ``"auto"``, and given sequences as arrays of the right length."""
    out = {}
    for name, default in auto.items():
        value = getattr(family, name)
        value = default if isinstance(value, str) else np.asarray(value, dtype=np.float64)
        if value.ndim and value.shape != (X.shape[1],):
            raise DataError(f"{family.name}: {name} has {value.shape[0]} values for data of {X.shape[1]} columns")
        out[name] = value if value.ndim else float(value)
    return out


def _column_sums(X):
    """Sums by column in float64, as if rows had no order: exactly rounded for dense columns would cost too much, so
    rows are sorted within each column where the sum could depend on them.
    """
    if hasattr(X, "indptr"):
        return np.asarray(X.astype(np.float64).sum(axis=0), dtype=np.float64).ravel()
    return np.sort(np.asarray(X, dtype=np.float64), axis=0).sum(axis=0)


def _draw_log_gamma(shape, rng):
    """Logs of Gamma(shape, 1) variates; log G(a) = log G(a + 1) + log(U) / a stays finite for shapes down to 1e-300."""
    return np.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential(np.shape(shape)) / shape


# ---- the sphere ----------------------------------------------------------------------------------------------------


def _log_bessel_ratio(v, x):
    """log(I_v(x) / x^v), finite down to x = 0: from the scaled function, or Debye's expansion where that underflows."""
    x = np.asarray(x, dtype=np.float64)
    small = x < 1e-8
    safe = np.where(small, 1.0, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.log(ive(v, safe)) + safe
    usable = np.isfinite(direct) & (direct - safe > -600.0)
    value = np.where(usable, direct, _log_bessel_debye(v, safe)) - xlogy(v, safe)
    return np.where(small, -v * np.log(2.0) - gammaln(v + 1.0) + x**2 / (4.0 * (v + 1.0)), value)


def _log_bessel_debye(v, x):
    """log I_v(x), three terms, uniform in x for large v or large x (Abramowitz and Stegun, 9.7.7)."""
    r = np.hypot(v, x)
    t = (v / r) ** 2
    u1 = (3.0 - 5.0 * t) / (24.0 * r)
    u2 = (81.0 - 462.0 * t + 385.0 * t**2) / (1152.0 * r**2)
    u3 = (30375.0 - 369603.0 * t + 765765.0 * t**2 - 425425.0 * t**3) / (414720.0 * r**3)
    return r + v * np.log(x / (v + r)) - 0.5 * np.log(2.0 * np.pi * r) + np.log1p(u1 + u2 + u3)


def _log_vmf_constant(d, kappa):
    """Log normaliser of the von Mises-Fisher density on the sphere in d dimensions, nats; kappa may be 0."""
    return -(d / 2) * np.log(2.0 * np.pi) - _log_bessel_ratio(d / 2 - 1, kappa)


def _unit(R):
    length = np.sqrt((R**2).sum(axis=1, keepdims=True))
    # A resultant of exactly zero has no direction: every one is a mode, and the first axis is as good as any.
    fallback = np.eye(1, R.shape[1])
    return np.where(length > 0, R / np.where(length > 0, length, 1.0), fallback)


def _draw_vmf(mean, kappa, rng):
    """One direction about each mean: the cosine by rejection (Wood 1994), the rest uniform about it."""
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
