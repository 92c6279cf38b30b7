"""Angles: independent columns of von Mises laws on the circle.

A column is the von Mises-Fisher family in two dimensions, with the same priors. So evidence, posterior draws and modes
are those of `VonMisesFisher`, exact for the prior of its nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.families.base import Family
from expfam.families.directions._von_mises_fisher import log_evidence_of_angles
from expfam.families.directions.angle_components import AngleComponents
from expfam.families.directions.von_mises_fisher import VonMisesFisher, mean_length
from expfam.families.support import check_hyper
from expfam.params import is_auto

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats

UNITS = {"degrees": 360.0, "radians": 2.0 * np.pi, "hours": 24.0}  # of which a full turn has this many


def turn_of(unit: str | float) -> float:
    """Return how many of a unit of angles make a full turn."""
    return UNITS[unit] if isinstance(unit, str) else float(unit)


class _Taken:
    """Function that takes some columns of rows."""

    def __init__(self, columns: list[int]) -> None:
        self.columns = columns

    def __call__(self, X: Any) -> Any:
        return X[:, self.columns]


class VonMises(Family):
    """Independent columns of angles about a mean angle of each cluster.

    Each cluster has its own unknown concentration in each column, or a known one. Suits directions of wind, times of
    day and phases: 359 and 1 degrees are neighbours.

    Parameters
    ----------
    unit : {"degrees", "radians", "hours"} or float, positive
        Unit of the data, or how many units make a full turn, such as 7 for days of the week. Data of any turn are
        taken: -90 and 270 degrees are the same angle.
    kappa : "cluster", "auto", float or (V,) array_like, positive
        If "cluster", each cluster has one unknown concentration in each column, under a discrete prior. A number is
        the known concentration; ``"auto"`` is the number that gives clusters a tenth of the variance of all data.
    mean : "auto", float or (V,) array_like
        Mode of the prior of mean angles, in the unit of the data; ``"auto"`` is the mean angle of all data.
    strength : "auto", float or (V,) array_like, positive
        Concentration of that prior; ``"auto"`` is that of all data about their mean angle.

    Attributes
    ----------
    kappa_nodes_, kappa_log_weights_ : (V, J) float64 ndarray
        With kappa="cluster": the concentrations that a cluster may have in each column, and logs of their prior
        probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.directions.von_mises import VonMises
    >>> wind = np.array([[350.0], [10.0], [358.0], [4.0], [170.0], [190.0], [176.0]])
    >>> family = VonMises(kappa=20.0).bind(wind)
    >>> n, S = np.array([4.0]), family.sufficient_statistics(wind[:4]).sum(axis=0, keepdims=True)
    >>> family.to_params(*family.map_natural(n, S))["mean"].round(1)
    array([[0.5]])

    Notes
    -----
    phi = (cos x, sin x), theta = kappa (cos mu, sin mu) and g = log(2 pi I_0(kappa)) of each column, with all cosines
    before all sines. The evidence of a column is that of `VonMisesFisher` in two dimensions. The base measure is the
    length of the circle in the unit of the data: densities are per unit.
    """

    has_independent_columns = True
    unit: Any
    kappa: Any
    mean: Any
    strength: Any
    kappa_nodes_: Floats
    kappa_log_weights_: Floats

    def __init__(
        self,
        unit: Literal["degrees", "radians", "hours"] | float = "degrees",
        kappa: Any = "cluster",
        mean: npt.ArrayLike = "auto",
        strength: npt.ArrayLike = "auto",
    ) -> None:
        self.unit, self.kappa, self.mean, self.strength = unit, kappa, mean, strength
        if isinstance(unit, str) and unit not in UNITS:
            raise ValueError(f"{self.name}: unit must be one of {list(UNITS)}, or a positive number; got {unit!r}")
        if not isinstance(unit, str):
            check_hyper(self.name, "unit", unit, vector=False)
        if isinstance(kappa, str) and kappa not in ("cluster", "auto"):
            raise ValueError(f"{self.name}: kappa must be 'cluster', 'auto' or positive numbers; got {kappa!r}")
        if not isinstance(kappa, str):
            check_hyper(self.name, "kappa", kappa)
        check_hyper(self.name, "strength", strength)
        _check_angle(self.name, mean)

    @property
    def hyper(self) -> dict[str, str]:  # type: ignore[override]
        """Return the names of the hyper-parameters that may be learned; they depend on `kappa`."""
        known = isinstance(self.kappa, str) and self.kappa == "cluster"
        return dict.fromkeys(("strength",) if known else ("kappa", "strength"), "positive")

    @property
    def learned_by_default(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the hyper-parameters that estimators learn unless a value was given.

        There are none if kappa is known.
        """
        return tuple(self.hyper) if isinstance(self.kappa, str) and self.kappa == "cluster" else ()

    @property
    def turn(self) -> float:
        """Return how many units of the data make a full turn."""
        return turn_of(self.unit)

    # ---- rows --------------------------------------------------------------------------------------------------------

    def radians(self, X: Any) -> Floats:
        """Return angles in radians, float64.

        They are reduced to one turn before, so that many turns cost no precision.
        """
        return np.fmod(np.asarray(X, dtype=np.float64), self.turn) * (2.0 * np.pi / self.turn)

    def sufficient_statistics(self, X: Any) -> Any:
        x = self.radians(X)
        return np.concatenate([np.cos(x), np.sin(x)], axis=1)

    def log_base(self, X: Any) -> Floats:
        """Return the log of radians per unit, once for each cell of a row: (N,) nats."""
        return np.full(X.shape[0], X.shape[1] * np.log(2.0 * np.pi / self.turn))

    def coordinate_map(self, X: Any, weight: Floats | None = None) -> Callable[[Any], Any]:
        """Return the function that maps angles to points of the circle."""
        return self.sufficient_statistics

    def support_grid(self, X: Any) -> tuple[Floats, Floats]:
        """Return points of one full turn, and the log distance of each to the next."""
        n_points = 4000
        grid: Floats = np.arange(n_points, dtype=np.float64)[:, None] * (self.turn / n_points)
        return grid, np.full(n_points, np.log(self.turn / n_points))

    # ---- hyper-parameters --------------------------------------------------------------------------------------------

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        d = rows.n_columns
        given = {name: _each(self.name, name, getattr(self, name), d) for name in ("kappa", "mean", "strength")}
        phi, circles = rows.mapped(self.sufficient_statistics, 2 * d), []
        for j in range(d):
            mean = given["mean"][j]
            direction = mean if is_auto(mean) else _point(self.radians(mean))
            circle = VonMisesFisher(given["kappa"][j], direction, given["strength"][j], normalize=False)
            circles.append(circle.bind_rows(phi.mapped(_Taken([j, d + j]), 2), np.array([[1.0, 0.0]])))
        points = np.array([circle.mean for circle in circles])
        out: dict[str, Any] = {"strength": np.array([circle.strength for circle in circles])}
        out["mean"] = self._angles(points[:, 0], points[:, 1])
        if isinstance(self.kappa, str) and self.kappa == "cluster":
            out["kappa_nodes_"] = np.array([circle.kappa_nodes_ for circle in circles])
            out["kappa_log_weights_"] = np.array([circle.kappa_log_weights_ for circle in circles])
        else:
            out["kappa"] = np.array([float(circle.kappa) for circle in circles])
        return out

    def check_learned(self) -> None:
        """Raise ValueError unless the nodes are positive and rise, as `bind` makes them."""
        nodes = self.__dict__.get("kappa_nodes_")
        if nodes is not None and not (np.ndim(nodes) == 2 and np.all(nodes > 0) and np.all(np.diff(nodes) > 0)):
            raise ValueError(f"{self.name}: 'kappa_nodes_' must be positive numbers that rise; got {nodes!r:.200}")

    def of_columns(self, columns: Sequence[int]) -> tuple[Self, npt.NDArray[np.intp]]:
        """Return the same family on some of the columns, and their columns of phi."""
        part, found = super().of_columns(columns)
        at = np.asarray(columns, dtype=np.intp)
        for name in ("kappa_nodes_", "kappa_log_weights_"):
            if name in self.__dict__:
                part.__dict__[name] = np.asarray(self.__dict__[name])[at]
        return part, found

    def circle(self, j: int) -> VonMisesFisher:
        """Return the law of one column of a bound family, on points of the circle."""
        is_known = not isinstance(self.kappa, str)
        found = VonMisesFisher(float(_at(self.kappa, j)) if is_known else self.kappa, normalize=False)
        found.__dict__.update(
            mean=_point(self.radians(_at(self.mean, j))),
            strength=float(_at(self.strength, j)),
            n_features_in_=2,
            n_statistics_=2,
        )
        if not is_known:
            found.__dict__.update(
                kappa_nodes_=self.kappa_nodes_[j],
                kappa_log_weights_=self.kappa_log_weights_[j],
            )
        return found

    # ---- the law -----------------------------------------------------------------------------------------------------

    def _each_circle(self, S):
        """Yield each column's law, number, and its sums (K, 2)."""
        d = self.n_features_in_
        for j in range(d):
            yield self.circle(j), j, np.ascontiguousarray(np.asarray(S, dtype=np.float64)[:, [j, d + j]])

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        return self.log_marginal_by_column(n, S).sum(axis=1)

    def log_marginal_by_column(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence of each cluster and column: (K, V) nats."""
        n, S = np.ascontiguousarray(n, dtype=np.float64), np.ascontiguousarray(S, dtype=np.float64)
        if isinstance(self.kappa, str):
            kappa, log_weight = self.kappa_nodes_, self.kappa_log_weights_
        else:
            kappa = self._of_columns(self.kappa)[:, None]
            log_weight = np.zeros_like(kappa)
        mean, strength = self.radians(self._of_columns(self.mean)), self._of_columns(self.strength)
        return log_evidence_of_angles(n, S, kappa, log_weight, mean, strength)

    def _of_columns(self, value):
        """Return a hyper-parameter of each column: (V,) float64."""
        return np.full(self.n_features_in_, value) if np.ndim(value) == 0 else np.ascontiguousarray(value, dtype=float)

    def _natural(self, n, S, method):
        """Return (Theta, G) of the columns' laws: (K, 2 V) and (K,)."""
        d, theta, total = self.n_features_in_, np.empty(np.shape(S)), np.zeros(len(n))
        for circle, j, sums in self._each_circle(S):
            theta[:, [j, d + j]], g = method(circle)(n, sums)
            total += g
        return theta, total

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        return self._natural(n, S, lambda circle: circle.expected_natural)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        return self._natural(n, S, lambda circle: lambda count, sums: circle.draw_natural(count, sums, rng))

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        return self._natural(n, S, lambda circle: circle.map_natural)

    def log_partition(self, theta: Floats) -> Floats:
        parts = [circle.log_partition(own) for circle, _, own in self._each_circle(theta)]
        return np.sum(parts, axis=0)

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the unnormalised log prior density: (K,) nats; see `VonMisesFisher`."""
        parts = [circle.log_prior(own, circle.log_partition(own)) for circle, _, own in self._each_circle(theta)]
        return np.sum(parts, axis=0)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return mean angles, their spread, and concentrations: (K, V) each.

        Angles and spread are in the unit of the data. `sd` is the circular standard deviation, sqrt(-2 log A(kappa)),
        with A the length of the mean of a row.
        """
        d = self.n_features_in_
        cosine, sine = theta[:, :d], theta[:, d:]
        kappa = np.hypot(cosine, sine)
        length = np.minimum(mean_length(2, kappa), 1.0)
        with np.errstate(divide="ignore"):
            sd = np.sqrt(-2.0 * np.log(length)) * (self.turn / (2.0 * np.pi))
        return {"mean": self._angles(cosine, sine), "sd": sd, "kappa": kappa}

    def _angles(self, cosine, sine):
        """Return angles of points in the unit of the data, from 0 to below a full turn."""
        angle = np.arctan2(sine, cosine) * (self.turn / (2.0 * np.pi))
        angle = np.where(angle < 0.0, angle + self.turn, angle)
        return np.where(angle >= self.turn, 0.0, angle)  # rounding

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        drawn = [circle.sample(own, size, rng) for circle, _, own in self._each_circle(theta)]
        points = np.stack(drawn, axis=1)
        return self._angles(points[..., 0], points[..., 1])

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of mean angles and unknown concentrations of some clusters."""
        self.require_bound()
        return n_clusters * self.n_features_in_ * (1 if not isinstance(self.kappa, str) else 2)

    def components(self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features") -> Any:
        """Return the owner of the statistics: compiled for one column."""
        if self.n_features_in_ == 1:
            return AngleComponents(self, data, capacity)
        return super().components(data, capacity, layout=layout)


def _point(angle):
    """Return the point of the circle at an angle in radians: (2,)."""
    return np.array([np.cos(angle), np.sin(angle)])


def _at(values, j):
    """Return the value of a column."""
    return np.broadcast_to(values, j + 1)[j] if np.ndim(values) == 0 else np.asarray(values)[j]


def _each(family, name, value, d):
    """Return a hyper-parameter for each of d columns, words as they are."""
    if isinstance(value, str) or np.ndim(value) == 0:
        return [value if isinstance(value, str) else float(value)] * d
    value = np.asarray(value, dtype=np.float64)
    if value.shape != (d,):
        raise DataError(f"{family}: {name} has {counted(value.size, 'value')} for data of {counted(d, 'column')}")
    return [float(own) for own in value]


def _check_angle(family, mean):
    """Raise an error unless the mean is "auto" or finite numbers."""
    if is_auto(mean):
        return
    try:
        is_fine = np.ndim(mean) <= 1 and bool(np.isfinite(np.asarray(mean, dtype=np.float64)).all())
    except (TypeError, ValueError):
        is_fine = False
    if not is_fine:
        raise ValueError(f'{family}: mean must be "auto" or finite angles in the unit of the data; got {mean!r}')
