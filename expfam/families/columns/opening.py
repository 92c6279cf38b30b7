"""Same model in another layout: parts split, and opened for cells that may be missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.errors import DataError
from expfam.families.columns.table import (
    LEVEL,
    PRESENCE,
    Part,
    PartsLayout,
    groups,
    opened_family,
    patterns,
    reads_holes,
    split_groups,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from expfam.protocols import Floats


class Opening(PartsLayout):
    """Base of `Columns` with the opening of parts, and sums of statistics in the new layout."""

    def opened_for(self, X: Any) -> Self:
        """Return the family with a layout that fits the holes of other data.

        The model and its hyper-parameters are the same: parts are split and get indicators where rows of `X` lack
        cells. The family itself is returned if it fits already.

        Parameters
        ----------
        X : (N, V) ndarray, validated

        Raises
        ------
        CapabilityError
            Holes in columns that depend on each other.
        """
        parts = []
        for part in self._parts:
            keys = {} if self._reads_any(part) else patterns(X, part.columns, holes="seen")
            parts += self._opened(part, keys, X)
        return self if tuple(parts) == self._parts else self._with_parts(parts)

    def opened(self, columns: Iterable[int] | None = None) -> Self:
        """Return the same family with an indicator for each of some columns, or of all.

        Parameters
        ----------
        columns : iterable of int, optional

        Examples
        --------
        >>> from expfam import Columns, DiagonalGaussian
        >>> family = Columns([(DiagonalGaussian(), (0, 1))]).bind([[0.0, 1.0], [2.0, 5.0]])
        >>> family.n_statistics_, family.opened().n_statistics_
        (4, 6)
        """
        chosen = set(range(self.n_features_in_) if columns is None else columns)
        parts = []
        for part in self._parts:
            keys = {j: (j in chosen, j if j in chosen else None) for j in part.columns}
            parts += self._opened(part, {} if self._reads_any(part) else keys, None)
        return self._with_parts(parts)

    @staticmethod
    def _reads_any(part):
        return part.reading in (PRESENCE, LEVEL) or reads_holes(part.family)

    def _opened(self, part, keys, X):
        """Return the parts that one bound part is split into by keys; none leaves it as it is."""
        if not any(is_open for is_open, _ in keys.values()) and len(set(keys.values())) < 2:
            return [part]
        opened = opened_family(part.family)
        if opened is not None and not part.has_indicator:
            return [part._replace(family=opened)] if any(is_open for is_open, _ in keys.values()) else [part]
        found = groups(part.columns, keys, is_observed=part.has_indicator)
        found = split_groups(part.family, part.columns, found, X, self)
        if len(found) == 1:
            return [part._replace(reading=found[0][1])]
        return [
            Part(part.family.of_columns(at)[0], tuple(part.columns[i] for i in at), reading, part.name)
            for at, reading in found
        ]

    def opened_like(self, other: PartsLayout) -> Self:
        """Return the family with its parts split and opened where those of another family are."""
        keys: dict[int, tuple[bool, Any]] = {}
        for place, part in enumerate(other._parts):
            if part.reading != PRESENCE:
                is_open = part.has_indicator or reads_holes(part.family)
                keys |= dict.fromkeys(part.columns, (is_open, place))
        parts = []
        for part in self._parts:
            parts += self._opened(part, {} if self._reads_any(part) else {j: keys[j] for j in part.columns}, None)
        return self._with_parts(parts)

    def open_statistics(self, other: PartsLayout, n: Floats, S: Any) -> Any:
        """Return sums of statistics in the layout of another family, which was opened from this one.

        Parameters
        ----------
        other : Columns
            Result of `opened`, `opened_for` or `opened_like`.
        n : (K,) float64
        S : (K, F) float64 or CSR
            In the layout of this family.

        Returns
        -------
        (K, F') float64 ndarray or CSR
            For the same clusters: the count of a part that every row had is n.
        """
        columns = np.concatenate([self._source_columns(part) for part in other._parts])
        n = np.asarray(n, dtype=np.float64)[:, None]
        if sparse.issparse(S):
            wide = sparse.csr_array(sparse.hstack([S, n])).tocsc()[:, columns].tocsr()
            return sparse.csr_array(wide) if other._is_sparse else wide.toarray()
        wide = np.ascontiguousarray(np.concatenate([S, n], axis=1)[:, columns])
        return sparse.csr_array(wide) if other._is_sparse else wide

    def _source_columns(self, part):
        """Return the columns of phi that hold a part of another family; F stands for n."""
        for start, own in zip(self.offsets_, self._parts):
            is_presence = own.reading == PRESENCE
            if set(part.columns) <= set(own.columns) and is_presence == (part.reading == PRESENCE):
                places = [own.columns.index(j) for j in part.columns]
                whole = places == list(range(len(own.columns)))
                found = np.arange(own.family.n_statistics_) if whole else own.family.of_columns(places)[1]
                found = found + start + own.has_indicator
                count = start if own.has_indicator else self.n_statistics_
                if part.family.n_statistics_ > found.size:  # the same family with a count of each column
                    return np.concatenate([[count] * len(part.columns), found])
                return np.concatenate([[count], found]) if part.has_indicator else found
        raise DataError(f"columns: no part of {self!r} holds {self.names_of(part.columns)} together")
