"""Columns of category codes, each with a Dirichlet prior on the probabilities of its levels.

phi(x) is the one-hot coding of the row: a CSR row with one entry for each value that is not missing. All methods use
theta = log p and g = 0. Each column is a block of statistics with its own total, which is smaller than n if values are
missing. A score costs O(columns) for each datum and cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import digamma

from expfam.amounts import counted
from expfam.engines.parts import Least
from expfam.errors import CapabilityError, DataError, SupportError
from expfam.families import support as _support
from expfam.families.all_rows import AllRows, Block, RowsHere
from expfam.families.column_factors import ColumnFactors
from expfam.families.counts import pseudocounts as counts
from expfam.families.counts._natural import CountLaw
from expfam.families.counts.components import CountComponents
from expfam.structures.rows.exact_sums import lifts, total_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.protocols import Floats

_BLOCK_CELLS = 1 << 17  # whose levels are counted at a time
_MOST_LEVELS = 1 << 20  # of one column
_MOST_TYPED = 12  # columns whose numbers of levels a message lists
_MOST_STATISTICS = 1 << 24  # levels of all columns together
_PRIOR_ROWS = 4.0  # as many as stand behind the prior variances of Gaussian columns, whose shape is 2
# A learned prior is never worth less than at binding: weaker ones make a split by the levels of one column cheap, and
# rows between two clusters become clusters of their own, since labels are hard.
_LEAST_FACTOR, _MOST_FACTOR = 1.0, 1e4


class Categorical(ColumnFactors):
    """Independent columns of codes from 0 on, with a Dirichlet prior on the levels of each.

    The code -1 means a missing value.

    Parameters
    ----------
    concentration : "auto", float or (F,) array_like, positive
        Pseudo-count of each level; an array runs over the levels of the first column, then of the second, and so on.
        ``"auto"`` is 4 times the frequency of the level in the data of `bind`, (count + 1/2) / (total + levels / 2):
        each column's prior is worth four observations, and clusters of few rows are thought to be like the whole.
        `Mixture` learns how many observations the prior of each column is worth: many where clusters are alike, four
        where they differ.
    n_levels : int or (V,) sequence of int, optional
        Number of levels of each column. Give it if later data may have levels that the data of `bind` lack; otherwise
        it is one more than the largest code at `bind`. A column may have 2**20 levels, all columns together 2**24:
        each level takes memory, whether the data hold it or not.

    Attributes
    ----------
    levels_ : (V,) int64 ndarray
        Number of levels of each column.
    offsets_ : (V + 1,) int64 ndarray
        First column of phi of each block.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Categorical
    >>> family = Categorical(concentration=1.0).bind([[0, 2], [1, -1]])
    >>> family.sufficient_statistics(np.array([[1.0, -1.0]])).toarray()
    array([[0., 1., 0., 0., 0.]])

    Notes
    -----
    A(n, S) = sum over columns j of sum_l [log G(a_jl + S_jl) - log G(a_jl)] - log G(a_j + S_j.) + log G(a_j).
    A missing value adds nothing to S, which integrates it out.
    """

    name = "categorical"
    count_model: ClassVar[str] = "categorical"  # the model that the compiled components compute; subclasses inherit it
    support = "categories"
    accepts_sparse = False
    reads_uncounted_rows: ClassVar[bool] = True  # a level is there however much its rows count
    hyper: ClassVar[dict] = {"concentration": "positive"}
    hyper_by_column = ("concentration",)
    learned_by_default = ("concentration",)
    worth_hyper = (("concentration",),)
    concentration: Any
    n_levels: Any
    levels_: npt.NDArray[np.int64]
    offsets_: npt.NDArray[np.int64]

    def __init__(self, concentration: npt.ArrayLike = "auto", n_levels: npt.ArrayLike | None = None) -> None:
        counts.check_positive(concentration, "concentration", self.name)
        if n_levels is not None:
            self._check_levels(n_levels)
        self.concentration = concentration
        self.n_levels = n_levels

    @staticmethod
    def _check_levels(n_levels):
        levels = np.asarray(n_levels)
        if levels.ndim > 1 or levels.dtype.kind not in "iu" or (levels < 1).any():
            raise ValueError(f"categorical: n_levels must be positive integers; got {n_levels!r}")
        if (levels > _MOST_LEVELS).any():
            raise ValueError(f"categorical: n_levels must be at most {_MOST_LEVELS} (2**20); got {n_levels!r}")
        return levels.astype(np.int64)

    def validate(self, X: Any) -> Any:
        """Check codes and return them as a C-contiguous array.

        Codes are integers from -1; a bound family accepts only known ones.
        """
        X = super().validate(X)
        bad = _support.first_where(X, lambda v: (v < -1) | (v != np.rint(v)))
        if bad is not None:
            raise SupportError(
                f"categorical needs integer codes 0, 1, ... or -1 for missing; row {bad[0]}, column {bad[1]}"
                f" holds {bad[2]}: code the categories first, for example with an OrdinalEncoder"
            )
        if self.is_bound:
            self._check_known(RowsHere(X), self.levels_, _levels_of(RowsHere(X)))
        else:
            self._check_size(X.max(axis=0))
        return X

    @staticmethod
    def _check_size(codes):
        """Raise SupportError if the largest code of each column (V,) asks for too many levels.

        Call it before arrays of that size are made.
        """
        column = int(np.argmax(codes))
        if codes[column] >= _MOST_LEVELS:
            rule = f"a column may have {_MOST_LEVELS} levels (2**20)"
        elif (codes + 1.0).sum() > _MOST_STATISTICS:
            rule = f"all columns together may have {_MOST_STATISTICS} levels (2**24)"
        else:
            return
        raise SupportError(
            f"categorical: column {column} holds the code {int(codes[column])}; {rule}: number the categories that"
            " occur 0, 1, ..., for example with an OrdinalEncoder, or join rare ones"
        )

    def _check_known(self, rows, levels, found):
        """Refuse codes above those of `levels` (V,); `found` (V,) are the levels of the rows."""
        unknown = np.flatnonzero(found > levels)
        if unknown.size:
            column = int(unknown[0])
            first = rows.total(_AskUnknown(column, levels[column]))
            raise SupportError(
                f"categorical: column {column} has the levels 0..{levels[column] - 1}; row {first.row} holds the"
                f" unknown code {first.code}: write Categorical(n_levels={self._room_for(found, levels)}) to leave room"
                " for levels not seen at fit, or code it as -1"
            )

    @staticmethod
    def _room_for(found, levels):
        """Return `n_levels` that hold known and new codes: a number, or one for each column."""
        room = np.maximum(levels, found)
        return int(room.max()) if room.size > _MOST_TYPED or (room == room[0]).all() else room.tolist()

    def example_rows(self, n_columns: int) -> npt.NDArray[np.float64]:
        """Return two rows that the family takes: the first and the last level of each column."""
        last = self.levels_ - 1.0 if self.is_bound else np.ones(n_columns)
        return np.stack([np.zeros(n_columns), last])

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Return the levels of each column, and the concentration of each level."""
        levels = found = np.maximum(_levels_of(rows), 1)
        if self.n_levels is not None:
            given = self._check_levels(self.n_levels)
            if given.ndim and given.shape[0] != rows.n_columns:
                raise DataError(
                    f"categorical: n_levels has {counted(given.shape[0], 'entry', 'entries')} for "
                    f"{counted(rows.n_columns, 'column')}"
                )
            levels = np.array(np.broadcast_to(given, rows.n_columns))
            self._check_size(levels - 1)
            self._check_known(rows, levels, found)
        offsets = np.concatenate([[0], np.cumsum(levels)])
        return {
            "concentration": self._pseudocounts_of(rows, offsets),
            "levels_": levels,
            "offsets_": offsets,
        }

    def _pseudocounts_of(self, rows, offsets):
        """Return the concentration of each level, or the number that all have."""
        a = counts.check_positive(self.concentration, "concentration", self.name, size=int(offsets[-1]))
        if not isinstance(a, str):
            return a
        if rows.is_weighted:
            observed = total_of(rows.total(_LevelWeights(offsets, rows.heaviest, rows.n_rows)))
        else:
            observed = rows.total(_LevelCounts(offsets))
        observed = np.split(observed, offsets[1:-1])
        return np.concatenate([_PRIOR_ROWS * (n + 0.5) / (n + 0.5).sum() for n in observed])

    def of_columns(self, columns: Sequence[int]) -> tuple[Self, npt.NDArray[np.intp]]:
        """Return the same family on some of the columns, and their columns of phi.

        Raises
        ------
        CapabilityError
            The family is not bound, and has a concentration for each level: the columns of the levels are not known.

        Examples
        --------
        >>> from expfam import Categorical
        >>> family = Categorical().bind([[0, 2, 1], [1, 0, 0]])
        >>> part, columns = family.of_columns([1])
        >>> part.levels_, columns
        (array([3]), array([2, 3, 4]))
        """
        at, part = np.asarray(columns, dtype=np.intp), self._copy()
        if self.n_levels is not None and np.ndim(self.n_levels):
            part.__dict__["n_levels"] = np.asarray(self.n_levels)[at]
        if not self.is_bound:
            if np.ndim(self.concentration):
                raise CapabilityError("categorical: an unbound family with a concentration for each level has no parts")
            return part, at[:0]
        levels = self.levels_[at]
        phi = np.concatenate([np.arange(self.offsets_[j], self.offsets_[j + 1]) for j in at])
        if np.ndim(self.concentration):
            part.__dict__["concentration"] = np.asarray(self.concentration)[phi]
        offsets = np.concatenate([[0], np.cumsum(levels)])
        part.__dict__.update(levels_=levels, offsets_=offsets, n_features_in_=at.size, n_statistics_=phi.size)
        return part, phi

    def hot_columns(self, X: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.intp]]:
        """Return columns of phi, starts of rows (N + 1,), and columns of X.

        The first and third array have an entry for each value that is not missing, row by row.
        """
        present = X >= 0
        columns = (X + self.offsets_[:-1])[present].astype(np.int64)
        return columns, np.concatenate([[0], np.cumsum(present.sum(axis=1))]), np.nonzero(present)[1]

    def sufficient_statistics(self, X: Any) -> Any:
        """Return the one-hot coding of the rows: (N, F) CSR; F is the total number of levels."""
        self.require_bound()
        columns, starts, _ = self.hot_columns(X)
        shape = (X.shape[0], int(self.offsets_[-1]))
        return sparse.csr_array((np.ones(columns.size), columns, starts), shape=shape)

    def _blocks(self, values):
        """Return the sums of the last axis by block: (..., V)."""
        return np.add.reduceat(np.asarray(values, dtype=np.float64), self.offsets_[:-1], axis=-1)

    def _block_totals(self, S):
        if not sparse.issparse(S):
            return self._blocks(S)
        rows, columns, values = counts.entries(S)
        width = len(self.levels_)
        block = np.repeat(np.arange(width), self.levels_)[columns]
        return np.bincount(rows * width + block, weights=values, minlength=S.shape[0] * width).reshape(-1, width)

    def pseudocounts(self) -> tuple[Floats, Floats]:
        """Return the pseudo-counts of the levels (F,) and their total in each column (V,)."""
        self.require_bound()
        width = int(self.offsets_[-1])
        a = np.ascontiguousarray(np.broadcast_to(np.asarray(self.concentration, dtype=np.float64), width))
        return a, self._blocks(a)

    def hyper_bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a learned concentration, as factors of its value at binding."""
        return (_LEAST_FACTOR, _MOST_FACTOR) if self.has_column_factors(name) else super().hyper_bounds(name)

    def _spread_factor(self, name, factor):
        return np.repeat(factor, self.levels_) if np.ndim(factor) else factor

    def _column_evidence(self, name, n, S):
        """Return the log evidence of the columns along the logs of their factors.

        Only entries that are not 0 count, and equal counts of a level are summed up once.
        """
        _, columns, values = counts.entries(S)
        (cells, repeats), block = _distinct(columns, values), np.repeat(np.arange(len(self.levels_)), self.levels_)
        (totals, total_repeats) = _distinct(*counts.entries(self._block_totals(S))[1:])
        (at, S_at), (own, m), (a, mass) = cells, totals, self._base_pseudocounts()
        at_block, V = block[at], len(self.levels_)

        def evidence(t: Floats) -> Floats:
            factor = np.exp(t)
            gain = repeats * counts.log_rising(a[at] * factor[at_block], S_at)
            loss = total_repeats * counts.log_rising((mass * factor)[own], m)
            return np.asarray(np.bincount(at_block, gain, V) - np.bincount(own, loss, V), dtype=np.float64)

        return evidence

    def _base_pseudocounts(self):
        """Return `pseudocounts` as they were at binding."""
        a = np.broadcast_to(self._base_of("concentration"), int(self.offsets_[-1]))
        return a, self._blocks(a)

    def _spread(self, blocks):
        """Return the values of blocks (K, V), repeated over their levels: (K, F)."""
        return np.repeat(blocks, self.levels_, axis=1)

    def log_marginal(self, n: Floats, S: Any) -> Floats:
        """Return the log evidence of each cluster: (K,) nats, without log-base.

        `S` (K, F) may be dense or CSR.
        """
        a, totals = self.pseudocounts()
        return counts.sum_log_rising(a, S) - counts.log_rising(totals, self._block_totals(S)).sum(axis=1)

    def log_marginal_by_column(self, n: Floats, S: Any) -> Floats:
        """Return the log evidence of each cluster and column: (K, V) nats, without log-base."""
        a, totals = self.pseudocounts()
        S = _support.dense_rows(S)
        return self._blocks(counts.log_rising(a, S)) - counts.log_rising(totals, self._blocks(S))

    def log_predictive(self, X: Any, n: Floats, S: Any) -> Floats:
        """Return the log probability of each row given each cluster's data: (N, K) nats."""
        self.require_bound()
        return counts.predict(self, X, n, S)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means of the log probabilities, (K, F), and g, which is 0, (K,)."""
        a, totals = self.pseudocounts()
        return digamma(a + S) - self._spread(digamma(totals + self._blocks(S))), np.zeros(S.shape[0])

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return CountLaw(self)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw log p (K, F) from the Dirichlet posterior of each column; return it and g = 0 (K,)."""
        a, _ = self.pseudocounts()
        return self._log_normalise(counts.draw_log_gamma(a + S, rng)), np.zeros(S.shape[0])

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior mode in natural coordinates (K, F), and g = 0 (K,).

        The mode is the log of (a + S) over the total of its column.
        """
        a, totals = self.pseudocounts()
        return np.log((a + S) / self._spread(totals + self._blocks(S))), np.zeros(S.shape[0])

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the log prior density in natural coordinates, up to a constant: (K,) nats."""
        return (self.concentration * theta).sum(axis=1)

    def _block_log_sums(self, theta):
        top = np.maximum.reduceat(theta, self.offsets_[:-1], axis=1)
        return top + np.log(self._blocks(np.exp(theta - self._spread(top))))

    def _log_normalise(self, theta):
        theta = np.asarray(theta, dtype=np.float64)
        return theta - self._spread(self._block_log_sums(theta))

    def log_partition(self, theta: Floats) -> Floats:
        """Return the log normaliser of a row without missing values: (K,) nats.

        It is 0 if each block of theta holds log probabilities.
        """
        self.require_bound()
        return self._block_log_sums(np.asarray(theta, dtype=np.float64)).sum(axis=1)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows of codes under each parameter: (K * size, V), grouped by parameter.

        No value is missing.
        """
        p = np.repeat(np.exp(self._log_normalise(theta)), size, axis=0)
        n_rows: int = p.shape[0]
        out = np.empty((n_rows, len(self.levels_)))
        for j, (start, stop) in enumerate(zip(self.offsets_[:-1], self.offsets_[1:])):
            steps = np.cumsum(p[:, start:stop], axis=1)[:, :-1]
            out[:, j] = (rng.random(n_rows)[:, None] >= steps).sum(axis=1)
        return out

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return the probabilities of the levels, column by column: ``{"probability": (K, F)}``."""
        return {"probability": np.exp(self._log_normalise(theta))}

    def cluster_params(self, n: Floats, S: Any) -> dict[str, Any]:
        """Return the probabilities of the levels of each column: ``{"probability": (K, V, L)}``.

        L is the largest number of levels of a column; those that a column does not have are 0.
        """
        flat = super().cluster_params(n, S)["probability"]
        found = np.zeros((len(flat), len(self.levels_), int(self.levels_.max())))
        for j, (start, stop) in enumerate(zip(self.offsets_[:-1], self.offsets_[1:])):
            found[:, j, : stop - start] = flat[:, start:stop]
        return {"probability": found}

    def from_params(self, probability: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the natural parameters (theta, g) of positive probabilities (K, F)."""
        self.require_bound()
        p = np.asarray(probability, dtype=np.float64)
        if p.ndim != 2 or p.shape[1] != self.offsets_[-1] or not (p > 0).all():
            raise ValueError(f"categorical: probability must be a (K, {self.offsets_[-1]}) array of positive numbers")
        return self._log_normalise(np.log(p)), np.zeros(p.shape[0])

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of free probabilities of some clusters: those of a column sum to 1."""
        self.require_bound()
        return n_clusters * (self.n_statistics_ - self.n_features_in_)

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> CountComponents:
        """Return compiled components; see `expfam.families.counts.components`."""
        return CountComponents(self, data, capacity, layout=layout)


# ---- questions that the rows answer ----------------------------------------------------------------------------------


def _levels_of(rows):
    """Return the largest code of each column, plus 1: (V,) int64."""
    return 1 - rows.total(_negative_codes).values


def _negative_codes(block: Block) -> Least:
    """Return the largest code of each column, times -1."""
    return Least(-np.max(block.X, axis=0, initial=-1.0).astype(np.int64))


class Unknown(NamedTuple):
    """Row and code of an unknown level; ``a + b`` is the first of both."""

    row: int
    code: int

    def __add__(self, other: Unknown) -> Unknown:  # type: ignore[override]
        return min(self, other)


_NONE_UNKNOWN = Unknown(1 << 62, 0)


class _AskUnknown:
    """The first row whose code of a column is at least a number."""

    def __init__(self, column: int, n_levels: int) -> None:
        self.column, self.n_levels = column, n_levels

    def __call__(self, block: Block) -> Unknown:
        codes = block.X[:, self.column]
        places = np.flatnonzero(codes >= self.n_levels)
        return Unknown(block.first_row + int(places[0]), int(codes[places[0]])) if places.size else _NONE_UNKNOWN


class _LevelCounts:
    """Number of rows at each level of all columns: (F,) int64.

    Blocks of rows are read once: a column alone would be read as slowly as all of them.
    """

    def __init__(self, offsets: npt.NDArray[np.int64]) -> None:
        self.offsets = offsets

    def __call__(self, block: Block) -> npt.NDArray[Any]:
        total = np.zeros(int(self.offsets[-1]), dtype=np.int64)
        for levels, seen, _ in self._levels(block):
            total += np.bincount(levels[seen].ravel(), minlength=total.size)
        return total

    def _levels(self, block):
        """Yield columns of phi, which of them are there, and the rows, in blocks."""
        X, width = block.X, int(self.offsets[-1])
        step = max(1, max(_BLOCK_CELLS, width) // X.shape[1])
        for start in range(0, X.shape[0], step):
            levels = X[start : start + step].astype(np.int64)
            seen = levels >= 0
            levels += self.offsets[:-1]
            yield levels, slice(None) if seen.all() else seen, slice(start, start + step)


class _LevelWeights(_LevelCounts):
    """Pieces (3, F) of the weight of the rows at each level of all columns."""

    def __init__(self, offsets: npt.NDArray[np.int64], heaviest: float, n_rows: int) -> None:
        super().__init__(offsets)
        self.lifts = lifts(np.array([heaviest]), n_rows)[:, 0]

    def __call__(self, block: Block) -> Floats:
        total = np.zeros((len(self.lifts), int(self.offsets[-1])))
        for levels, seen, rows in self._levels(block):
            terms = np.broadcast_to(block.weight[rows, None], levels.shape)[seen].ravel()  # type: ignore[index]
            for of_piece, up in zip(total, self.lifts):
                piece = (terms + up) - up
                of_piece += np.bincount(levels[seen].ravel(), weights=piece, minlength=total.shape[1])
                terms = terms - piece
        return total


def _distinct(columns, values):
    """Return the distinct pairs of column and value as two arrays, and how often each occurs."""
    order = np.lexsort((values, columns))
    columns, values = columns[order].astype(np.int64), values[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (columns[1:] != columns[:-1]) | (values[1:] != values[:-1])
    starts = np.flatnonzero(is_new)
    return (columns[starts], values[starts]), np.diff(np.append(starts, len(order)))
