"""Statistics of the rows of a table, the evidence of their sums, and coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.errors import DataError
from expfam.families import support as _support
from expfam.families.columns.opening import Opening
from expfam.families.columns.stacked import stacked_rows
from expfam.families.columns.table import OBSERVED, PRESENCE, Part, Rows, cells_of, is_missing
from expfam.families.components import Components
from expfam.families.counts.categorical import Categorical
from expfam.families.weighing import counted_rows

if TYPE_CHECKING:
    from expfam.protocols import Floats


class PartSums(Opening):
    """Base of `Columns` with phi and the log evidence, those of the parts side by side."""

    def sufficient_statistics(self, X: Any) -> Any:
        """Return phi of each row: (N, F), part by part; a part with holes begins with its indicator.

        It is CSR if categories have so many levels that most statistics of a row are zero.
        """
        blocks = [self._phi(part, X) for part in self._parts]
        if self._is_sparse:
            return stacked_rows(blocks, X.shape[0])
        return np.concatenate([_support.dense_rows(block) for block in blocks], axis=1)

    def _phi(self, part, X):
        """Return indicator and phi of one part: (N, width), zeros in rows that lack the part."""
        rows, cells = cells_of(part, X)
        self._check_layout(part, X, rows)
        if rows is None and not part.has_indicator:
            return part.family.sufficient_statistics(cells)
        out = np.zeros((X.shape[0], part.width))
        at = slice(None) if rows is None else rows
        if cells.shape[0]:
            out[at, 1:] = _support.dense_rows(part.family.sufficient_statistics(cells))
            out[at, 0] = 1.0
        return out

    def _check_layout(self, part, X, rows):
        """Raise DataError if a row lacks cells that the layout of the statistics needs."""
        if rows is None or (part.has_indicator and (self.rows == "complete" or len(part.columns) == 1)):
            return
        missing = is_missing(X[:, part.columns])
        bad = missing.any(axis=1) & ~(missing.all(axis=1) & part.has_indicator)
        if bad.any():
            row = int(np.argmax(bad))
            column = part.columns[int(np.argmax(missing[row]))]
            raise DataError(
                f"columns: row {row} lacks column {self.name_of(column)}, which the data of `bind` never lacked alone:"
                " bind the family to data with such holes, or write family.set_params(holes='any') before `bind`"
            )

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of the observed cells of each row: (N,) nats."""
        total = np.zeros(X.shape[0])
        for part in self.opened_for(X)._parts:
            rows, cells = cells_of(part, X)
            if cells.shape[0]:
                total[slice(None) if rows is None else rows] += part.family.log_base(cells)
        return total

    def _sums_by_name(self, n, S, names):
        """Return counts (K,) and sums (K, F_p) of the parts of some names; only these are dense."""
        n, found = np.asarray(n, dtype=np.float64), {name: [] for name in names}
        for start, stop, part in zip(self.offsets_[:-1], self.offsets_[1:], self.parts):
            if part.name in found:
                own = S[:, start:stop]
                found[part.name].append(own_sums(part, n, own.toarray() if sparse.issparse(own) else own))
        return found

    def _each(self, n, S):
        """Yield each part with its place in the statistics, its counts (K,) and sums (K, F_p).

        Sums of clusters that no observed row is in are exactly 0, whatever rounding has left.
        """
        n, S = np.asarray(n, dtype=np.float64), _support.dense_rows(S)
        for start, stop, part in zip(self.offsets_[:-1], self.offsets_[1:], self.parts):
            count, sums = own_sums(part, n, S[:, start:stop])
            yield part, slice(stop - sums.shape[1], stop), count, sums

    def log_marginal(self, n: Floats, S: Any) -> Floats:
        """Return the log evidence of each cluster: (K,) nats, the sum over parts."""
        total = np.zeros(np.shape(n))
        for part, _, count, sums in self._each(n, S):
            total += part.family.log_marginal(count, sums)
        return total

    def log_marginal_by_column(self, n: Floats, S: Any) -> Floats:
        """Return the log evidence of each cluster and column: (K, V) nats.

        A part that does not know the evidence of its columns answers in its first column for all, with NaN in the
        others. The evidence of `missing="informative"` is added to the column that is missing.

        Parameters
        ----------
        n : (K,) float64 ndarray
            Number of data in each cluster; fractions are allowed.
        S : (K, F) float64 ndarray or CSR
            Sum of phi in each cluster.
        """
        out = np.zeros((len(np.asarray(n)), self.n_features_in_))
        for part, _, count, sums in self._each(n, S):
            by_column = getattr(part.family, "log_marginal_by_column", None)
            if getattr(part.family, "has_full_covariance", False):
                by_column = None  # its columns' own evidences do not add up
            if by_column is not None and part.reading != PRESENCE:
                out[:, part.columns] += by_column(count, sums)
            else:
                out[:, part.columns[0]] += part.family.log_marginal(count, sums)
                if part.reading != PRESENCE:
                    out[:, part.columns[1:]] = np.nan
        return out

    def log_predictive(self, X: Any, n: Floats, S: Any) -> Floats:
        """Return the log probability of observed cells of each row given each cluster: (N, K) nats."""
        X, n = self.validate(X), np.asarray(n, dtype=np.float64)
        family = self.opened_for(X)
        if family is not self:
            S = self.open_statistics(family, n, S)
        if n.shape[0] == 0:
            return np.empty((X.shape[0], 0))
        components = Components(family, Rows(X, family), n.shape[0])
        components.load(n, S)
        return components.log_predictive_block(0, X.shape[0], n.shape[0])


def own_sums(part: Part, n: Floats, S: Floats) -> tuple[Floats, Floats]:
    """Return counts (K,) and sums (K, F_p) of a part from its statistics, (K, width)."""
    if part.reading != OBSERVED:
        return n, np.ascontiguousarray(S)
    count, sums = np.maximum(S[:, 0], 0.0), S[:, 1:]
    return count, np.ascontiguousarray(sums if count.all() else np.where(count[:, None] > 0.0, sums, 0.0))


def table_coordinates(parts: Iterable[Part], X: Any, weight: Floats | None = None) -> Callable[[Any], Floats]:
    """Return the function that maps rows to coordinates.

    It depends on the bound parts, and on all data with their weights.
    """
    maps = []
    for part in parts:
        rows, cells = cells_of(part, X) if part.reading != PRESENCE else (None, X[:0])
        own = weight if weight is None or rows is None else weight[rows]
        if cells.shape[0]:
            maps.append((part, _centred(part, cells, own)))
    return lambda rows: np.concatenate([_scattered(part, rows, transform) for part, transform in maps], axis=1)


def _centred(part, cells, weight):
    """Return a map of cells to coordinates whose means are 0, which missing cells then have."""
    rows, given = counted_rows(part.family.coordinate_map, cells, weight)
    transform = part.family.coordinate_map(rows, **given)
    points = _support.dense_rows(transform(cells))
    centre = np.average(points, axis=0, weights=weight)
    has_codes = isinstance(part.family, Categorical)  # the statistics of a missing code are zeros
    scale = np.ones_like(centre) if not has_codes else np.full_like(centre, np.sqrt(0.5))
    if part.family.has_counts:
        spread = np.sqrt(np.average((points - centre) ** 2, axis=0, weights=weight))
        scale = 1.0 / np.where(spread > 0.0, spread, 1.0)
    return lambda own: (_support.dense_rows(transform(own)) - (0.0 if has_codes else centre)) * scale


def _scattered(part, X, transform):
    """Return coordinates of all rows, 0 in those that lack the part."""
    rows, cells = cells_of(part, X)
    points = transform(cells) if cells.shape[0] else transform(np.ones((1, len(part.columns))))[:0]
    if rows is None:
        return np.nan_to_num(points)
    out = np.zeros((X.shape[0], points.shape[1]))
    out[rows] = points
    return out
