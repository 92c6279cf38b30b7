"""Parameters of the clusters of a table, part by part and column by column, and drawn rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.families.columns._natural import ColumnsLaw
from expfam.families.columns.roles import Roles
from expfam.families.columns.statistics import PartSums
from expfam.families.columns.table import LEVEL, PRESENCE
from expfam.families.counts.categorical import Categorical

if TYPE_CHECKING:
    from expfam.protocols import Floats

_IN_UNITS = ("mean", "median")  # parameters that move with the data


class PartParameters(PartSums):
    """Base of `Columns` with natural and usual parameters.

    -g of a part with an indicator is the natural parameter of the indicator.
    """

    def _natural(self, n, S, method):
        """Return (Theta, G) whose parts are those of the families' `method`.

        -g of a part with an indicator is the parameter of the indicator.
        """
        theta, total = np.empty(np.shape(S)), np.zeros(np.shape(n))
        for part, place, count, sums in self._each(n, S):
            theta[:, place], g = method(part.family)(count, sums)
            if part.has_indicator:
                theta[:, place.start - 1] = -g
            else:
                total += g
        return theta, total

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means (E theta, E g) of each cluster: (K, F) and (K,)."""
        return self._natural(n, S, lambda family: family.expected_natural)

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return ColumnsLaw(self)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw parameters (Theta, G) from the posterior of each cluster: (K, F) and (K,)."""
        return self._natural(n, S, lambda family: lambda count, sums: family.draw_natural(count, sums, rng))

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode (Theta, G) of each posterior in natural coordinates: (K, F) and (K,)."""
        return self._natural(n, S, lambda family: family.map_natural)

    def _each_theta(self, theta):
        """Yield each part with its natural parameters (K, F_p) and g (K,)."""
        theta = np.asarray(theta, dtype=np.float64)
        for start, stop, part in zip(self.offsets_[:-1], self.offsets_[1:], self._parts):
            own = np.ascontiguousarray(theta[:, start + part.has_indicator : stop])
            yield part, own, -theta[:, start] if part.has_indicator else part.family.log_partition(own)

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of free parameters of all parts, of informative holes too."""
        return sum(part.family.n_free_parameters(n_clusters) for part in self._parts)

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the log prior density in natural coordinates, up to a constant: (K,) nats."""
        total = np.zeros(len(theta))
        for part, own, own_g in self._each_theta(theta):
            total += part.family.log_prior(own, own_g)
        return total

    def log_partition(self, theta: Floats) -> Floats:
        """Return the sum of g of the parts that every row has: (K,) nats."""
        total = np.zeros(len(theta))
        for part, _, g in self._each_theta(theta):
            if not part.has_indicator:
                total += g
        return total

    def _prefixes(self):
        """Return the names of the parts in `to_params`, with columns where parts share one."""
        names = [part.name for part in self._parts]
        return [
            f"{part.name}[{','.join(map(str, part.columns))}]" if names.count(part.name) > 1 else part.name
            for part in self._parts
        ]

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return the usual parameters of each part, as in ``{"gaussian_diag.mean": (K, V_p)}``.

        A name that several parts share is followed by the columns of the part.
        """
        out: dict[str, Floats] = {}
        for prefix, (part, own, own_g) in zip(self._prefixes(), self._each_theta(theta)):
            if hasattr(part.family, "to_params"):
                out |= {f"{prefix}.{key}": value for key, value in part.family.to_params(own, own_g).items()}
        return out

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter.

        Cells are missing only with ``missing="informative"``, as often as the parameters say.
        """
        X = np.full((len(theta) * size, self.n_features_in_), np.nan)
        drawn = [(part, part.family.sample(own, size, rng)) for part, own, _ in self._each_theta(theta)]
        for part, cells in sorted(drawn, key=lambda pair: pair[0].reading == PRESENCE):
            if part.reading == PRESENCE:
                X[np.ix_(cells[:, 0] == 0, part.columns)] = np.nan
            else:
                X[:, part.columns] = cells if part.reading != LEVEL else _without_level(cells, part.family.levels_)
        return X


def _without_level(codes, levels):
    """Return codes in which the last level of each column is a missing value."""
    return np.where(codes == levels - 1.0, np.nan, codes)


class ColumnParameters(PartSums):
    """Base of `Columns` with the method `cluster_params`."""

    names: Any
    roles: Any
    _prefixes: Any

    def cluster_params(self, n: Floats, S: Any) -> dict[str, Any]:
        """Return the usual parameters of clusters, column by column, in the units of the data.

        Parameters
        ----------
        n : (K,) float64
        S : (K, F) float64 or CSR

        Returns
        -------
        dict of dict
            By the name of the column, or by its number as text where columns have no names: parameters by name, each
            (K,), such as "mean" and "variance". A category has "probability" (K, L), and "levels" (L,) where these are
            known; a level that stands for unseen values is left out. A column of a part with a covariance has also
            "covariance" (K, V_p), those with the columns "with" (V_p,). A column with ``missing="informative"`` has
            "missing" (K,), the probability that its cell is missing.
        """
        roles = Roles(self.roles).kept if self.roles else None
        found: dict[int, dict[str, Any]] = {j: {} for j in range(self.n_features_in_)}
        for part, _, count, sums in self._each(n, S):
            params = part.family.cluster_params(count, sums)
            for place, j in enumerate(part.columns):
                role = None if roles is None else roles[j]
                if part.reading == PRESENCE:
                    found[j]["missing"] = params["probability"][:, 0, 0]
                elif isinstance(part.family, Categorical):
                    found[j] |= _of_levels(part, params["probability"][:, place], place, role)
                    if part.reading == LEVEL:
                        found[j]["missing"] = params["probability"][:, place, int(part.family.levels_[place]) - 1]
                else:
                    found[j] |= self._of_numbers(part, params, place, role)
        return {self._plain_name(j): params for j, params in found.items()}

    def entries_of_params(self) -> dict[str, list[str]]:
        """Return names of the entries of `to_params`, by the name of the part.

        They are the columns of the part, or the levels of its categories, such as "kind=b".

        Examples
        --------
        >>> from expfam import Categorical, Columns, Poisson
        >>> family = Columns([(Poisson(), (0,)), (Categorical(), (1,))], names=["eggs", "kind"])
        >>> family.bind([[3, 0], [1, 2]]).entries_of_params()
        {'poisson': ['eggs'], 'categorical': ['kind=0', 'kind=1', 'kind=2']}
        """
        roles = Roles(self.roles).kept if self.roles else None
        found = {}
        for prefix, part in zip(self._prefixes(), self._parts):
            names = [self._plain_name(j) for j in part.columns]
            found[prefix] = names
            if part.reading == PRESENCE:
                found[prefix] = [f"{', '.join(names)} {state}" for state in ("missing", "there")]
            elif isinstance(part.family, Categorical):
                levels = [_levels(part, place, roles and roles[j]) for place, j in enumerate(part.columns)]
                found[prefix] = [f"{name}={level}" for name, own in zip(names, levels) for level in own]
        return found

    def check_learned(self) -> None:
        """Raise ValueError for roles that are not one for each column."""
        kept = Roles(self.roles).kept if self.roles else ()
        if self.roles and len(kept) != self.n_features_in_:
            raise ValueError(
                f"columns: there are roles of {counted(len(kept), 'column')}, not of {self.n_features_in_}"
            )

    def _plain_name(self, j):
        """Return the name of a column, or its number as text."""
        if self.roles:
            return Roles(self.roles).names[j]
        return str(j) if self.names is None else str(self.names[j])

    def _of_numbers(self, part, params, place, role):
        """Return the parameters of one column of a part by name."""
        width, offset = len(part.columns), 0.0 if role is None else role.offset
        own: dict[str, Any] = {}
        for name, values in params.items():
            values = np.asarray(values)
            if values.ndim == 3 and values.shape[1:] == (width, width):
                own["variance"] = values[:, place, place].copy()
                own[name] = values[:, place].copy()
                own["with"] = np.array([self._plain_name(j) for j in part.columns])
            elif values.ndim == 2 and values.shape[1] == width:
                own[name] = values[:, place] - offset if name in _IN_UNITS else values[:, place].copy()
            else:  # of all columns of the part together
                own[name] = values
        return own if role is None or not role.is_category else _of_binary(own, role)


def _of_levels(part, probability, place, role):
    """Return the probabilities of the levels of a category, and the levels."""
    n_levels = int(part.family.levels_[place]) - (part.reading == LEVEL)
    if role is not None and role.other:
        n_levels = len(role.levels)
    known = probability[:, :n_levels]
    found = {"probability": known / known.sum(axis=1, keepdims=True)}
    return found if role is None else found | {"levels": np.array(role.levels[:n_levels], dtype=object)}


def _levels(part, place, role):
    """Return the levels of a category with those of unseen and of missing values."""
    missing = ["missing"] if part.reading == LEVEL else []
    n_levels = int(part.family.levels_[place]) - len(missing)
    known = list(range(n_levels)) if role is None else [*role.levels, "other"][:n_levels]
    return known + missing


def _of_binary(own, role):
    """Return the probabilities of both levels in place of that of the second one."""
    p = own["probability"]
    return {"probability": np.column_stack([1.0 - p, p]), "levels": np.array(role.levels, dtype=object)}
