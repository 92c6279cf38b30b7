"""Any likelihood by parameters on a grid: Student t and zero-inflated Poisson columns.

Let the parameters of a column take M values. Then log p(x | m) is <phi(x), theta> for phi(x) = (log p(x | 1), ...,
log p(x | M)), the unit vector theta of place m, and g = 0. The sum of phi over rows is all that a cluster needs, and
the evidence is a sum over the grid. Nothing is approximate but the prior, which has M points.
"""

import numpy as np
from scipy.special import gammaln, logsumexp, softmax, xlogy

from expfam import Family


class OnGrid(Family):
    """Base of families with independent columns whose parameters lie on a grid of M points.

    A subclass writes `points`, `log_density` and `draw`. The prior is uniform over the points.

    Notes
    -----
    phi has M blocks of V columns: the log density of each column at the first point, at the second one, and so on.
    """

    has_independent_columns = True

    def points(self):
        """Return the parameters of the grid by name: a dict of (M, V) arrays."""
        raise NotImplementedError

    def log_density(self, X, **points):
        """Return log densities of cells (N, 1, V) at parameters (M, V): (N, M, V)."""
        raise NotImplementedError

    def draw(self, size, rng, **params):
        """Draw cells (size, V) at one parameter (V,) of each column."""
        raise NotImplementedError

    def sufficient_statistics(self, X):
        X = np.asarray(X, dtype=np.float64)
        density = self.log_density(X[:, None, :], **self.points())
        return density.reshape(len(X), density.shape[1] * density.shape[2])

    def log_marginal(self, n, S):
        blocks = self._blocks(S)
        return (logsumexp(blocks, axis=1) - np.log(blocks.shape[1])).sum(axis=1)

    def expected_natural(self, n, S):
        return softmax(self._blocks(S), axis=1).reshape(S.shape), np.zeros(len(S))

    def draw_natural(self, n, S, rng):
        blocks = self._blocks(S)
        return self._chosen((blocks + rng.gumbel(size=blocks.shape)).argmax(axis=1), blocks.shape)

    def map_natural(self, n, S):
        blocks = self._blocks(S)
        return self._chosen(blocks.argmax(axis=1), blocks.shape)

    def log_prior(self, Theta, G):
        blocks = self._blocks(Theta)
        return np.full(len(Theta), -blocks.shape[2] * np.log(blocks.shape[1]))

    def to_params(self, Theta, G):
        blocks = self._blocks(Theta)
        return {name: (blocks * values).sum(axis=1) for name, values in self.points().items()}

    def n_free_parameters(self, n_clusters):
        # of the law that the grid stands for; phi has a statistic for each point of the grid
        return n_clusters * len(self.points()) * self.n_features_in_

    def sample(self, theta, size, rng):
        params = self.to_params(np.reshape(theta, (1, -1)), np.zeros(1))
        return self.draw(size, rng, **{name: values[0] for name, values in params.items()})

    def _blocks(self, S):
        """Return sums as (K, M, V)."""
        return np.asarray(S).reshape(len(S), S.shape[1] // self.n_features_in_, self.n_features_in_)

    def _chosen(self, at, shape):
        """Return unit vectors (K, F) at places (K, V) of the grid, and g = 0."""
        theta = np.zeros(shape)
        np.put_along_axis(theta, at[:, None, :], 1.0, axis=1)
        return theta.reshape(shape[0], shape[1] * shape[2]), np.zeros(shape[0])


def _product(first, second):
    """Return all pairs of (A, V) and (B, V) parameters: two (A * B, V) arrays."""
    return np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1))


class StudentT(OnGrid):
    """Independent Student t columns: clusters with far rows, which do not pull the centre.

    Parameters
    ----------
    dof : float, positive
        Degrees of freedom, the same for all clusters. A small number allows far rows; 30 is nearly Gaussian.
    n_locations, n_scales : int
        Points of the grid. Locations lie evenly over the bulk of a column; scales by equal factors, from the distance
        of two locations to a half of the bulk.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> X = np.array([[0.0], [1.0], [10.0]])
    >>> family = StudentT(dof=3.0, n_locations=5, n_scales=2).bind(X)
    >>> grid = family.points()
    >>> known = stats.t(3.0, grid["location"][:, 0], grid["scale"][:, 0]).logpdf(X)
    >>> np.allclose(family.sufficient_statistics(X), known)
    True
    """

    support = "real"

    def __init__(self, dof=4.0, n_locations=48, n_scales=10):
        self.dof, self.n_locations, self.n_scales = dof, n_locations, n_scales

    def validate(self, X):
        X = super().validate(X)
        if not self.dof > 0:
            raise ValueError(f"dof must be positive; got {self.dof!r}: write StudentT(dof=4.0)")
        for name in ("n_locations", "n_scales"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2; got {getattr(self, name)!r}: write StudentT({name}=10)")
        return X

    def resolve(self, X):
        low, high = np.quantile(np.asarray(X, dtype=np.float64), [0.005, 0.995], axis=0)
        width = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
        return {"low_": low - 0.02 * width, "width_": 1.04 * width}

    def points(self):
        place = np.linspace(0.0, 1.0, self.n_locations)[:, None]
        step = np.geomspace(1.0 / self.n_locations, 0.5, self.n_scales)[:, None]
        location, scale = _product(self.low_ + self.width_ * place, self.width_ * step)
        return {"location": location, "scale": scale}

    def log_density(self, X, location, scale):
        with np.errstate(divide="ignore"):  # log 0 at the location itself
            far = np.logaddexp(0.0, 2.0 * np.log(np.abs(X - location) / scale) - np.log(self.dof))
        half = 0.5 * (self.dof + 1.0)
        level = gammaln(half) - gammaln(0.5 * self.dof) - 0.5 * np.log(np.pi * self.dof)
        return level - np.log(scale) - half * far

    def draw(self, size, rng, location, scale):
        return location + scale * rng.standard_t(self.dof, size=(size, len(location)))


class ZeroInflatedPoisson(OnGrid):
    """Independent Poisson columns in which a share of the cells is zero for another reason.

    Parameters
    ----------
    n_rates, n_shares : int
        Points of the grid. Rates lie by equal factors up to above the largest count; shares of extra zeros are 0,
        1 / n_shares, 2 / n_shares and so on.

    Examples
    --------
    >>> import numpy as np
    >>> family = ZeroInflatedPoisson(n_rates=3, n_shares=2).bind(np.array([[0], [4], [9]]))
    >>> family.points()["share"].ravel()
    array([0. , 0.5, 0. , 0.5, 0. , 0.5])
    >>> family.sufficient_statistics(np.array([[0]])).round(2)[0, :2]  # log of e^-rate, and of (1 + e^-rate) / 2
    array([-0.05, -0.02])
    """

    support = "counts"

    def __init__(self, n_rates=40, n_shares=10):
        self.n_rates, self.n_shares = n_rates, n_shares

    def validate(self, X):
        X = super().validate(X)
        for name in ("n_rates", "n_shares"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)!r}: write {name}=10")
        return X

    def resolve(self, X):
        return {"high_": np.asarray(X).max(axis=0) * 1.2 + 1.0}

    def points(self):
        rate = np.geomspace(np.full_like(self.high_, 0.05), self.high_, self.n_rates)
        share = np.arange(self.n_shares)[:, None] / self.n_shares + np.zeros_like(self.high_)
        rate, share = _product(rate, share)
        return {"rate": rate, "share": share}

    # phi are logarithms, no counts: what follows for counts from `support` does not hold

    def coordinate_map(self, X):
        return lambda rows: np.sqrt(np.asarray(rows, dtype=np.float64))

    @property
    def has_exact_sums(self):
        return False

    @property
    def nonnegative_statistics(self):
        return np.zeros(self.n_statistics_, dtype=bool)

    def log_density(self, X, rate, share):
        with np.errstate(divide="ignore"):  # log 0: no extra zeros
            zero = np.logaddexp(np.log(share), np.log1p(-share) - rate)
        return np.where(X == 0, zero, np.log1p(-share) + xlogy(X, rate) - rate - gammaln(X + 1.0))

    def draw(self, size, rng, rate, share):
        is_counted = rng.random((size, len(rate))) >= share
        return is_counted * rng.poisson(rate, size=(size, len(rate)))
