"""Parameters of the clusters of a table, part by part, and rows drawn under them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from expfam.families.columns._natural import ColumnsLaw
from expfam.families.columns.parts import LEVEL, PRESENCE
from expfam.families.columns.sums import PartSums

if TYPE_CHECKING:
    from expfam.protocols import Floats


class PartParameters(PartSums):
    """Base of `Columns`: natural and usual parameters.

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
