"""Mean, variance and resolution of columns of real numbers.

Column summaries are exact sums, so their bits do not depend on the order of the rows, or on how they are divided into
parts. The rows are read in blocks, a few times; no column is copied, or sorted where there are many rows, unless it has
more than 2048 distinct values and many repeats. A sample of the rows shows which columns repeat so few values that they
have no resolution; it is wrong for less than one column in 10^7. The cost is O(V N).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.families.all_rows import AllRows, Block, RowsHere
from expfam.families.support import NOTED_EXTREMES, chosen_rows
from expfam.structures.ground.threads import READERS, readers
from expfam.structures.rows.distinct_values import STEPS, DistinctValues
from expfam.structures.rows.exact_sums import ExactSums, column_extremes, lifts, total_of
from expfam.structures.rows.repeats import drawn_rows, repeats

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats
    from expfam.structures.ground.team import Team

_TINY = np.finfo(np.float64).tiny
_MOST_WIDTH = 2.0**448  # of a column whose squares can be summed
_SINGLE = 4  # bytes of a number of single precision
_READ_AS_THEY_LIE = (np.float32, np.float64)
_BLOCK_CELLS = 1 << 18  # cells of rows that are read together
_FEW_ROWS = 1 << 10  # up to here sorting a column is faster than counting its distinct values
# Of columns of which half of the values are repeats, those of N / 2 values that occur twice show fewest repeats among n
# rows drawn at random: n^2 / 2N. A fourth of 60 comes by chance once in 10^11 columns, of 40 once in 10^7.
_REPEATS, _FEWEST_REPEATS = 60, 40
# share of distinct values, as estimated, above which fewer than half of all values are repeats: five errors
_SURELY_FREE = 0.6
_MOST_DISTINCT = 1 << 20  # of a column whose gaps are looked at: smaller ones change no bound of a variance


def column_summaries(X: Any, weight: Floats | None = None, *, of_logs: bool = False) -> tuple[Floats, Floats, Floats]:
    """Return mean, variance (divided by N) and resolution of each column of an array.

    See `summaries_of_rows`.

    >>> import numpy as np
    >>> from expfam.families.column_summaries import column_summaries
    >>> [values.tolist() for values in column_summaries(np.array([[1.0], [3.0], [3.0], [1.0]]))]
    [[2.0], [1.0], [2.0]]
    """
    return summaries_of_rows(RowsHere(X, weight), of_logs=of_logs)


def summaries_of_rows(rows: AllRows, *, of_logs: bool = False) -> tuple[Floats, Floats, Floats]:
    """Return mean, variance (divided by N) and resolution of each column, or of its logarithms.

    The resolution of a column is the smallest gap between its distinct values, if at least half of the values are
    repeats; otherwise, or if there are more than 2^20 distinct values, it is 0.0. It is 0.0 for all columns of CSR
    data. A variance that overflows is infinite. Cells that hold NaN are left out; all three are NaN for a column of
    such cells. Rows count as often as their weights say, which are above 0.
    """
    if rows.is_sparse:
        mean, variance = _sparse_moments(rows)
        return mean, variance, np.zeros(rows.n_columns)
    mean, variance, low, high, mass = _dense_moments(rows, of_logs)
    return mean, variance, _resolutions(rows, of_logs, low, high, mass)


def column_moments(X: Any, weight: Floats | None = None, *, of_logs: bool = False) -> tuple[Floats, Floats]:
    """Return mean and variance of each column of a dense array, as `column_summaries` does.

    >>> import numpy as np
    >>> from expfam.families.column_summaries import column_moments
    >>> [values.tolist() for values in column_moments(np.array([[1.0], [3.0]]))]
    [[2.0], [1.0]]
    """
    rows = RowsHere(X, weight) if READERS.get() > 1 else _RowsAtOnce(X, weight)
    return _dense_moments(rows, of_logs)[:2]


class _RowsAtOnce(RowsHere):
    """Rows that one thread reads at once."""

    def total(self, question):
        return question(Block(self.X, self.weight, 0))


def _dense_moments(rows, of_logs):
    """Return mean, variance, least value, largest value and total weight of each column."""
    found = rows.total(_AskExtremes(of_logs))
    low, high, count = found.low, found.high, found.count
    is_empty = count == 0
    if is_empty.any():
        low, high, count = (np.where(is_empty, np.nan, each) for each in (low, high, count))
    with np.errstate(over="ignore", invalid="ignore"):  # in columns that are too wide
        width = high - low
        wide = ~(width <= _MOST_WIDTH)
        usable = np.where(wide, 0.0, width)
        mean, second, mass = _moments(rows, of_logs, low, usable, count)
        # squares that underflow do not make a column constant
        variance = np.where(width == 0, 0.0, np.maximum(second, _TINY))
        if wide.any():
            wide &= ~is_empty
            mean, variance = np.where(wide, low / 2 + high / 2, low + mean), np.where(wide, np.inf, variance)
        else:
            mean = low + mean
    return mean, variance, low, high, np.where(is_empty, 0.0, mass)


def _moments(rows, of_logs, low, width, count):
    """Return the mean less the least value, the variance, and the weight of each column."""
    if not rows.is_weighted:
        mean = total_of(rows.total(_Sums(of_logs, low, width, rows.n_rows))) / count
        squares = rows.total(_Squares(of_logs, low, width, rows.n_rows, mean))
        return mean, total_of(squares) / count, count
    unit = _power_above(rows.heaviest)
    pieces = rows.total(_WeightedSums(of_logs, low, width, rows.n_rows, unit))
    sums, shares = total_of(pieces[0]), total_of(pieces[1])
    mean = sums / shares
    squares = rows.total(_WeightedSquares(of_logs, low, width, rows.n_rows, unit, mean))
    return mean, total_of(squares) / shares, shares * unit


def _power_above(weight):
    """Return the least power of two above a weight, by which weights are divided exactly."""
    return float(np.ldexp(1.0, int(np.frexp(weight)[1])))


def _lies_ready(X: Any, of_logs: bool) -> bool:
    """Return whether rows are read as they lie."""
    return not of_logs and X.dtype in _READ_AS_THEY_LIE and X.flags.c_contiguous


def _as_read(X: Any, of_logs: bool) -> Iterator[npt.NDArray[Any]]:
    """Yield rows that are read as they lie at once, and others in blocks."""
    if _lies_ready(X, of_logs):
        yield X  # between blocks threads would wait for each other
    else:
        yield from _blocks(X, of_logs)


def _team(rows: npt.NDArray[Any]) -> Team | None:
    """Return the threads that read rows."""
    return readers(rows.size) if READERS.get() > 1 else None


def _blocks(X: Any, of_logs: bool) -> Iterator[npt.NDArray[Any]]:
    """Yield the rows in blocks, of their logarithms if asked for: few are copied at a time."""
    step = max(1, _BLOCK_CELLS // max(X.shape[1], 1))
    for start in range(0, max(len(X), 1), step):
        block = X[start : start + step]
        yield np.log(block, dtype=np.float64) if of_logs else _as_floats(block)


def _as_floats(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return cells in C order; those of less than four bytes become single precision."""
    is_single = block.itemsize < _SINGLE or block.dtype == np.float32
    return np.ascontiguousarray(block, dtype=np.float32 if is_single else np.float64)


# ---- questions that the rows answer ----------------------------------------------------------------------------------


class Extremes:
    """Least value, largest value and number of values of each column (V,)."""

    def __init__(self, low: Floats, high: Floats, count: Floats) -> None:
        self.low, self.high, self.count = low, high, count

    def __add__(self, other: Extremes) -> Extremes:
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Extremes(low, high, self.count + other.count)


class _Shared:
    """Question whose answer threads find together, for rows that are read as they lie."""

    of_logs: bool

    def is_shared(self, X: Any) -> bool:
        return _lies_ready(X, self.of_logs)


class _AskExtremes(_Shared):
    def __init__(self, of_logs: bool) -> None:
        self.of_logs = of_logs

    def __call__(self, block: Block) -> Extremes:
        noted = None if self.of_logs else _noted(block.X)
        if noted is not None:
            return Extremes(*noted)
        parts = _as_read(block.X, self.of_logs)
        return reduce(operator.add, (Extremes(*column_extremes(rows, _team(rows))) for rows in parts))


def _noted(X):
    """Return the extremes that a check of these very rows has noted, or None."""
    return next((found for rows, found in NOTED_EXTREMES.get() or () if rows is X), None)


class _Terms:
    def __init__(self, of_logs: bool, low: Floats, width: Floats, n_rows: int) -> None:
        self.of_logs, self.low, self.width, self.n_rows = of_logs, low, width, n_rows


class _Sums(_Shared, _Terms):
    """Pieces (3, V) of sums of cells less `low`."""

    def __call__(self, block: Block) -> Floats:
        sums = ExactSums(self.width, self.n_rows)
        for rows in _as_read(block.X, self.of_logs):
            sums.add(rows, self.low, _team(rows))
        return sums.pieces()


class _Squares(_Sums):
    """Pieces (3, V) of sums of squares about `low` + `mean`."""

    def __init__(self, of_logs: bool, low: Floats, width: Floats, n_rows: int, mean: Floats) -> None:
        super().__init__(of_logs, low, width, n_rows)
        self.mean = mean

    def __call__(self, block: Block) -> Floats:
        squares = ExactSums(self.width**2, self.n_rows)
        for rows in _as_read(block.X, self.of_logs):
            squares.add_squares(rows, self.low, self.mean, _team(rows))
        return squares.pieces()


class _WeightedSums(_Terms):
    """Pieces (2, 3, V) of weighted sums of cells less `low`, and of weights, by `unit`."""

    def __init__(self, of_logs: bool, low: Floats, width: Floats, n_rows: int, unit: float) -> None:
        super().__init__(of_logs, low, width, n_rows)
        self.unit = unit

    def __call__(self, block: Block) -> Floats:
        sums, shares = ExactSums(self.width, self.n_rows), ExactSums(np.ones(len(self.width)), self.n_rows)
        for rows, own in self._shared(block):
            sums.add((rows - self.low) * own)
            shares.add(np.where(np.isnan(rows), 0.0, own))
        return np.stack([sums.pieces(), shares.pieces()])

    def _shared(self, block):
        """Yield blocks of rows in float64, with their weights (n, 1) divided by the unit."""
        start = 0
        for rows in _blocks(block.X, self.of_logs):
            yield rows.astype(np.float64), block.weight[start : start + len(rows), None] / self.unit
            start += len(rows)


class _WeightedSquares(_WeightedSums):
    """Pieces (3, V) of weighted sums of squares about `low` + `mean`, divided by `unit`."""

    def __init__(self, of_logs: bool, low: Floats, width: Floats, n_rows: int, unit: float, mean: Floats) -> None:
        super().__init__(of_logs, low, width, n_rows, unit)
        self.mean = mean

    def __call__(self, block: Block) -> Floats:
        squares = ExactSums(self.width**2, self.n_rows)
        for rows, own in self._shared(block):
            squares.add((rows - self.low - self.mean) ** 2 * own)
        return squares.pieces()


# ---- repeated values -------------------------------------------------------------------------------------------------


def _resolutions(rows, of_logs, low, high, count):
    """Return the resolution of each column (V,); `count` is the number of its values."""
    out = np.where(count > 0, 0.0, np.nan)
    doubtful = np.flatnonzero(low < high)
    if rows.n_rows > _FEW_ROWS:
        if not rows.is_weighted:
            doubtful = _repeating(rows, of_logs, low, high, count, doubtful)
        doubtful = _counted(rows, of_logs, low, high, count, doubtful, out)
    if doubtful.size:
        for column, values in zip(doubtful, rows.total(_AskDistinct(of_logs, doubtful)).values):
            out[column] = _gap(values, count[column])
    return out


def _repeating(rows, of_logs, low, high, count, columns):
    """Return the columns of which half of the values may be repeats, as a few rows show."""
    if not columns.size:
        return columns
    sample = rows.total(_AskSome(of_logs, rows.n_rows))
    team = readers(rows.n_rows * rows.n_columns) if READERS.get() > 1 else None
    n = len(sample.X) if sample.numbers is None else len(sample.numbers)
    enough = n**2 / (8.0 * count[columns]) + 1.0  # more than a fourth of what is expected
    found = repeats(sample.X, sample.numbers, columns, low[columns], high[columns], enough, team)
    expected = found[1].astype(np.float64) ** 2 / (2.0 * count[columns])
    return columns[(expected < _FEWEST_REPEATS) | (4 * found[0] > expected)]


def _counted(rows, of_logs, low, high, count, columns, out):
    """Note resolutions of columns with few distinct values; return the doubtful columns."""
    if not columns.size:
        return columns
    found = rows.total(_AskCounts(of_logs, columns, low[columns], high[columns], rows.n_rows))
    counts, gaps = found.counts(), found.gaps()
    is_open = np.isnan(gaps)
    if not is_open.all():
        is_tied = np.isfinite(gaps) & (2 * counts <= count[columns])
        out[columns[is_tied]] = gaps[is_tied]
    return columns[is_open & (counts < _SURELY_FREE * count[columns])]


def _gap(values, count):
    """Return the resolution of a column from its distinct values in order; None is too many."""
    if values is None:
        return 0.0
    gaps = np.diff(values)
    # gaps of rounding errors do not count: 0.3 and 0.1 * 3 are one value
    gaps = gaps[gaps > (values[-1] - values[0]) / STEPS]
    return gaps.min() if gaps.size and 2 * (gaps.size + 1) <= count else 0.0


class SomeRows:
    """Some rows of (N, V), float32 or float64, C-contiguous: those with numbers (n,), or all."""

    def __init__(self, X: npt.NDArray[Any], numbers: npt.NDArray[np.intp] | None = None) -> None:
        self.X, self.numbers = X, numbers

    def __add__(self, other: SomeRows) -> SomeRows:
        return SomeRows(np.concatenate([self._copied(), other._copied()]))

    def __reduce__(self):
        return SomeRows, (self._copied(),)

    def _copied(self):
        return self.X if self.numbers is None else chosen_rows(self.X, self.numbers)


class _AskSome:
    """Rows that are drawn at random among all; they are the same for any division into parts."""

    def __init__(self, of_logs: bool, n_rows: int) -> None:
        self.of_logs, self.n_rows = of_logs, n_rows

    def __call__(self, block: Block) -> SomeRows:
        share, first = math.sqrt(2 * _REPEATS / self.n_rows), block.first_row
        numbers = drawn_rows(first, first + len(block.X), share) - first
        if _lies_ready(block.X, self.of_logs):
            return SomeRows(block.X, numbers)
        cells = _as_floats(chosen_rows(block.X, numbers))
        return SomeRows(np.log(cells, dtype=np.float64) if self.of_logs else cells)

    def is_shared(self, X: Any) -> bool:
        """Tell that few rows are not worth a division."""
        return True


class _AskCounts(_Shared):
    def __init__(self, of_logs: bool, columns: Any, low: Floats, high: Floats, n_rows: int) -> None:
        self.of_logs, self.columns, self.low, self.high, self.n_rows = of_logs, columns, low, high, n_rows

    def __call__(self, block: Block) -> DistinctValues:
        found = DistinctValues(self.low, self.high, self.n_rows)
        for rows in self._cells(block.X):
            found.add(rows, _team(rows))
        return found

    def is_shared(self, X: Any) -> bool:
        """Tell whether the rows hold the columns side by side, as they are read."""
        are_neighbours = self.columns[-1] - self.columns[0] == len(self.columns) - 1
        return are_neighbours and X.strides[1] == X.itemsize and not self.of_logs and X.dtype in _READ_AS_THEY_LIE

    def _cells(self, X):
        """Yield the cells of the columns: as they lie where that can be."""
        if self.is_shared(X):
            yield X[:, self.columns[0] : self.columns[-1] + 1]
            return
        step = max(1, _BLOCK_CELLS // len(self.columns))
        for start in range(0, len(X), step):
            cells = _as_floats(X[start : start + step, self.columns])
            yield np.log(cells, dtype=np.float64) if self.of_logs else cells


class DistinctLists:
    """Distinct values of columns in order, None where there are too many."""

    def __init__(self, values: list[Floats | None]) -> None:
        self.values = values

    def __add__(self, other: DistinctLists) -> DistinctLists:
        return DistinctLists([_joined(own, added) for own, added in zip(self.values, other.values)])


def _joined(own, added):
    if own is None or added is None:
        return None
    return _few(np.union1d(own, added))


def _few(values):
    return values if len(values) <= _MOST_DISTINCT else None


class _AskDistinct:
    def __init__(self, of_logs: bool, columns: npt.NDArray[np.intp]) -> None:
        self.of_logs, self.columns = of_logs, columns

    def __call__(self, block: Block) -> DistinctLists:
        return DistinctLists([self._distinct(block.X[:, column]) for column in self.columns])

    def _distinct(self, cells):
        cells = cells.astype(np.float64)
        cells = np.sort(np.log(cells) if self.of_logs else cells)
        is_first = np.append(True, cells[1:] != cells[:-1])[: len(cells)]
        return _few(cells[is_first & (cells == cells)])


# ---- CSR -------------------------------------------------------------------------------------------------------------


def _sparse_moments(rows):
    """Return mean and variance of the columns of CSR data."""
    found = rows.total(_largest_entries)
    wide = found.high > _MOST_WIDTH
    largest, unit = np.where(wide, 0.0, found.high), _power_above(rows.heaviest) if rows.is_weighted else 1.0
    total, V = rows.total_weight / unit, rows.n_columns
    mean = total_of(rows.total(_Entries(largest, wide, rows.n_rows, unit))) / total
    squares = total_of(rows.total(_Entries(4.0 * largest**2, wide, rows.n_rows, unit, centre=mean)))
    present = total_of(rows.total(_Entries(np.ones(V), wide, rows.n_rows, unit, is_count=True)))
    variance = (squares + np.maximum(total - present, 0.0) * mean**2) / total
    tiny = (mean != 0) & (np.abs(mean) < np.sqrt(_TINY))
    return mean, np.where(wide, np.inf, np.where(tiny, np.maximum(variance, _TINY), variance))


def _largest_entries(block: Block) -> Extremes:
    """Return the largest size of an entry of each column."""
    largest = np.zeros(block.X.shape[1])
    np.maximum.at(largest, block.X.indices, np.abs(block.X.data.astype(np.float64)))
    return Extremes(np.zeros_like(largest), largest, np.zeros_like(largest))


class _Entries:
    """Pieces (3, V) of weighted sums of entries, of squares about a centre, or of ones."""

    def __init__(
        self, bounds: Floats, wide: Any, n_rows: int, unit: float, *, centre: Any = None, is_count: bool = False
    ) -> None:
        self.bounds, self.wide, self.n_rows, self.unit = bounds, wide, n_rows, unit
        self.centre, self.is_count = centre, is_count

    def __call__(self, block: Block) -> Floats:
        X, columns = block.X, block.X.indices
        values = np.where(self.wide[columns], 0.0, X.data.astype(np.float64))
        if self.is_count:
            values = np.ones(len(columns))
        elif self.centre is not None:
            values = (values - self.centre[columns]) ** 2
        if sparse.issparse(X) and block.weight is not None:
            values = values * (block.weight / self.unit)[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))]
        lift, sums = lifts(self.bounds, self.n_rows), []
        for up in lift:
            piece = (values + up[columns]) - up[columns]
            sums.append(np.bincount(columns, weights=piece, minlength=len(self.bounds)))
            values = values - piece
        return np.array(sums)
