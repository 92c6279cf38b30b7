"""Soft counts and sums of clusters that are the same bits for any parts of the data.

Rows are taken in segments that begin at multiples of their size in the global numbers of rows. The terms of a segment
are added in the order of the rows. The sums of segments are split into pieces that are never rounded, see
`expfam.structures.rows.exact_sums`, so they may be added in any order and in any groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expfam.model.piece_sums import add_rows_by_label
from expfam.samplers.uncollapsed.em_few_rows import expectation_of_few_rows
from expfam.structures.rows.exact_sums import lifts

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.label_sums import PhiBounds
    from expfam.protocols import Floats

_LEAST_ROWS, _MOST_ROWS = 1024, 8192  # of a segment: powers of two, which all tiles divide
_MOST_SPARSE_ROWS = 65_536
_SEGMENTS = 64  # more make sums dearer, fewer leave threads without work
_ENTRIES_A_COLUMN = 64  # of a segment of sparse rows: adding its sums then costs some 3 % of computing them
_LEAST_SEGMENTS = 8  # unless the rows are few
_WIDE_CELLS = 1 << 22  # of all sums: a pass over fewer of them takes no time beside the scores
_LISTED_ROWS = 2  # rows for each column: what they give to the components then takes less memory than pieces of sums
_CELLS_OF_ENTRY = 2  # sums for each stored entry: the entries by column then take less memory than these
_SLACK = 2.0  # of bounds, for the rounding of terms in single precision


class Sizes(NamedTuple):
    """Sizes of all data: they decide where segments begin.

    Attributes
    ----------
    n_rows, n_statistics : int
    n_stored : int or None
        Entries of X that are not 0 where statistics are sparse, else None.
    is_few : bool
        Whether the rows are so few that they are one segment in double precision.
    """

    n_rows: int
    n_statistics: int
    n_stored: int | None
    is_few: bool

    @property
    def segment_rows(self) -> int:
        """Number of rows of a segment: a power of two, or all rows where they are few.

        >>> from expfam.samplers.uncollapsed.soft_sums import Sizes
        >>> Sizes(1_000_000, 10, None, False).segment_rows, Sizes(500, 10, None, True).segment_rows
        (8192, 500)
        """
        if self.is_few:
            return self.n_rows
        rows, most = self.n_rows / _SEGMENTS, _MOST_ROWS
        if self.n_stored is None:
            most_rows = 1 << (self.n_rows // _LEAST_SEGMENTS).bit_length() >> 1  # a power of two
            rows = max(rows, min(self.n_statistics, most_rows))  # a sum costs as much as several rows of as many terms
        else:
            rows = _ENTRIES_A_COLUMN * self.n_statistics * self.n_rows / max(self.n_stored, 1)
            rows = min(rows, self.n_rows / _LEAST_SEGMENTS)
            most = _MOST_SPARSE_ROWS
        return int(min(max(1 << int(np.ceil(rows) - 1).bit_length(), _LEAST_ROWS), most))

    @property
    def n_segments(self) -> int:
        """Number of segments of all data."""
        return -(-self.n_rows // self.segment_rows)


def sums_are_by_column(sizes: Sizes, n_components: int) -> bool:
    """Return whether sums of all rows are made column by column.

    They are, of sparse rows with very many columns.

    Parameters
    ----------
    sizes : Sizes
    n_components : int

    Examples
    --------
    >>> from expfam.samplers.uncollapsed.soft_sums import Sizes, sums_are_by_column
    >>> sums_are_by_column(Sizes(20_000, 100_000, 400_000, False), 200)
    True
    >>> sums_are_by_column(Sizes(20_000, 5_000, 400_000, False), 200)
    False
    """
    if sizes.n_stored is None:
        return False
    cells = sizes.n_statistics * n_components
    is_small = sizes.n_rows <= _LISTED_ROWS * sizes.n_statistics and _CELLS_OF_ENTRY * sizes.n_stored <= cells
    return cells >= _WIDE_CELLS and is_small


class Bounds(NamedTuple):
    """Largest sizes in all rows of weighted statistics, and of weights.

    Attributes
    ----------
    phi : (F,) float64 ndarray
    weight : float
    """

    phi: Floats
    weight: float

    @classmethod
    def of(cls, bounds: PhiBounds) -> Bounds:
        """Return those of `Dataset.weighted_bounds`."""
        return cls(bounds.most[:-1], float(bounds.most[-1]))


class SoftSums:
    """Soft counts, sums and log likelihood of some segments; ``a + b`` are those of both.

    Parameters
    ----------
    tables : dict of str to ndarray
        Pieces of sums, by kind: "near" (K, 3, F + 1) about `centre` in units of `scale`, or (F + 1, 3, K) where
        statistics are sparse, with counts last; "rough" (K, 3, F + 1) of rows in double precision; "few" (K, F + 1)
        of a whole data set.
    log_likelihood : Fraction
        Exact sum of the log likelihoods of the segments.
    scale, centre : (F,) float64 ndarray or None
        None where statistics are sparse or few.

    Examples
    --------
    >>> from fractions import Fraction
    >>> import numpy as np
    >>> from expfam.samplers.uncollapsed.soft_sums import SoftSums
    >>> one = SoftSums({"few": np.array([[2.0, 1.0]])}, Fraction(-3))
    >>> [value.tolist() for value in (one + SoftSums({}, Fraction(1, 2))).total()[:2]]
    [[1.0], [[2.0]]]
    """

    __slots__ = ("centre", "log_likelihood", "scale", "tables")

    def __init__(self, tables: dict[str, Any], log_likelihood: Fraction, scale: Any = None, centre: Any = None) -> None:
        self.tables, self.log_likelihood, self.scale, self.centre = tables, log_likelihood, scale, centre

    def __add__(self, other: SoftSums) -> SoftSums:
        tables = dict(self.tables)
        for kind, table in other.tables.items():
            tables[kind] = tables[kind] + table if kind in tables else table
        named = self if self.scale is not None else other
        return SoftSums(tables, self.log_likelihood + other.log_likelihood, named.scale, named.centre)

    def __getstate__(self):
        return self.tables, self.log_likelihood, self.scale, self.centre

    def __setstate__(self, state):
        self.tables, self.log_likelihood, self.scale, self.centre = state

    def total(self) -> tuple[Floats, Floats, float]:
        """Return counts (K,), sums (K, F) in the coordinates of phi, and the log likelihood."""
        parts = []
        for kind, table in self.tables.items():
            sums = table if kind == "few" else table[:, 0] + (table[:, 1] + table[:, 2])
            if kind == "near" and self.scale is None:
                sums = sums.T
            elif kind == "near":
                sums = np.column_stack([sums[:, :-1] / self.scale + sums[:, -1:] * self.centre, sums[:, -1]])
            parts.append((kind, sums))
        both = sum(sums for _, sums in sorted(parts))  # two addends at most: any order has the same bits
        return both[:, -1].copy(), np.ascontiguousarray(both[:, :-1]), float(self.log_likelihood)


def no_sums() -> SoftSums:
    """Return the sums of no segment."""
    return SoftSums({}, Fraction(0))


class Pieces:
    """Table to which sums of segments are added in pieces.

    Parameters
    ----------
    shape : (int, int)
        Of the sums of a segment.
    bounds : (columns,) float64 ndarray
        Largest size of a term of each column.
    n_terms : int
        Largest number of segments.
    """

    __slots__ = ("_rows", "lift", "table")

    def __init__(self, shape: tuple[int, int], bounds: Floats, n_terms: int) -> None:
        self.lift = lifts(bounds, n_terms)
        self.table = np.zeros((shape[0], len(self.lift), shape[1]))
        self._rows = np.arange(shape[0], dtype=np.int32)

    def add(self, sums: Floats) -> None:
        """Add the sums of a segment."""
        add_rows_by_label(self.table, sums, self._rows, self.lift)


def bounds_of_terms(sizes: Sizes, bounds: Bounds, scale: Any = None, centre: Any = None) -> Floats:
    """Return bounds (F + 1,) of the sums of a segment; the last is that of counts.

    Parameters
    ----------
    sizes : Sizes
    bounds : Bounds
        Largest absolute value of each statistic and of the weights.
    scale : (F,) float64 ndarray, optional
        Factor of each statistic, after its centre is subtracted.
    centre : (F,) float64 ndarray, optional
        Needed with `scale`.
    """
    phi = bounds.phi if scale is None else (bounds.phi + bounds.weight * np.abs(centre)) * scale
    return _SLACK * sizes.segment_rows * np.append(phi, bounds.weight)


def sums_of_few(data: Any, state: Any) -> tuple[SoftSums, npt.NDArray[np.int32]]:
    """Return the soft sums of all rows, which are few, and the most probable component of each."""
    n, S, log_likelihood, labels = expectation_of_few_rows(data, state.Theta, state.G, state.log_pi)
    return SoftSums({"few": np.column_stack([S, n])}, Fraction(log_likelihood)), labels


def exact_log_likelihood(values: Sequence[float]) -> Fraction:
    """Return the exact sum of log likelihoods.

    Raises
    ------
    FloatingPointError
        One of them is not finite.
    """
    if not np.isfinite(values).all():
        raise FloatingPointError("the log likelihood of the data is larger than floating-point numbers")
    return sum(map(Fraction, values), Fraction(0))
