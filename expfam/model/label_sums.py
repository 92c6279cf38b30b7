"""Exact sums of statistics by cluster: those of parts add up to those of all, bit for bit.

Sums of floating-point numbers depend on their order, so data in parts would get other sums than the whole. Here each
term is split into pieces whose sums are never rounded, see `expfam.structures.rows.exact_sums`. `phi_bounds` of the
parts add up to those of all data; with the number of all rows they decide the pieces (`PhiBounds.scale`). Whole
numbers, such as counts and categories, need one piece. Sums cost O(N F) or O(nnz) time and O(K F) memory, for each
piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.errors import DataError
from expfam.families.support import chosen_rows
from expfam.model.piece_sums import add_rows_by_label, has_whole_cells, move_rows_by_label
from expfam.model.statistics import label_statistics
from expfam.structures.rows.exact_sums import MOST, column_extremes, lifts

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.data import Dataset
    from expfam.protocols import Floats

_BLOCK_CELLS = 1 << 16  # of dense statistics that are made at a time
_BLOCK_ROWS = 1 << 14  # of sparse statistics
_SUMMED_TYPES = ("float64", "float32", "int64", "int32")  # whose sums need no copy in double precision
_MOST_WHOLE = 2.0**53  # sums of whole numbers up to this size are exact


@dataclass(frozen=True, eq=False)
class PhiBounds:
    """Largest size of each column of phi in some rows, and whether all cells are whole.

    ``a + b`` are those of the rows of both.

    Attributes
    ----------
    most : (F,) float64 ndarray
    is_whole : bool

    Examples
    --------
    >>> from expfam import Dataset, Poisson
    >>> from expfam.model.label_sums import phi_bounds
    >>> data = Dataset([[0, 2], [3, 1]], Poisson())
    >>> (phi_bounds(data.rows(0, 1)) + phi_bounds(data.rows(1, 2))).most
    array([3., 2.])
    """

    most: Floats
    is_whole: bool

    def __add__(self, other: PhiBounds) -> PhiBounds:
        return PhiBounds(np.maximum(self.most, other.most), self.is_whole and other.is_whole)

    def scale(self, n_rows: int) -> Scale:
        """Return how terms are split into pieces so that sums of up to `n_rows` of them are exact.

        Raises
        ------
        DataError
            A cell of phi is larger than 2^900.
        """
        if not (self.most <= MOST).all():
            column = int(np.argmax(self.most))
            raise DataError(
                f"statistic {column} reaches {self.most[column]:.3g}, more than exact sums hold (2^900): scale the"
                " columns of the data, X / 1e100"
            )
        if self.is_whole and (self.most.max(initial=0.0) * max(n_rows, 1) <= _MOST_WHOLE):
            return Scale(np.zeros((1, self.most.size)))
        return Scale(lifts(self.most, max(n_rows, 1)))


@dataclass(frozen=True, eq=False)
class Scale:
    """How terms are split into pieces; sums that are added must have one scale.

    Attributes
    ----------
    lift : (P, F) float64 ndarray
        Adding and subtracting it rounds a term to a piece; P is 1 or 3.
    """

    lift: Floats

    @property
    def n_pieces(self) -> int:
        """Number of pieces of each term."""
        return int(self.lift.shape[0])


class LabelSums:
    """Counts and sums of phi of each cluster in some rows; ``a + b`` are those of both.

    Parameters
    ----------
    n : (K,) float64 ndarray
    pieces : (K, P, F) float64 ndarray, or tuple of P CSR arrays of shape (K, F)

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.model.label_sums import label_sums, phi_bounds
    >>> data = Dataset(np.array([[0.1], [0.2], [0.3], [7.0]]), DiagonalGaussian())
    >>> scale, labels = phi_bounds(data).scale(4), np.array([0, 0, 1, 1], dtype=np.int32)
    >>> whole = label_sums(data, labels, 2, scale)
    >>> halves = [label_sums(data.rows(i, i + 2), labels[i : i + 2], 2, scale) for i in (2, 0)]
    >>> bool(((halves[0] + halves[1]).total()[1] == whole.total()[1]).all())
    True
    """

    __slots__ = ("n", "pieces")

    def __init__(self, n: Floats, pieces: Any) -> None:
        self.n, self.pieces = n, pieces

    def __add__(self, other: LabelSums) -> LabelSums:
        if isinstance(self.pieces, tuple):
            return LabelSums(self.n + other.n, tuple(a + b for a, b in zip(self.pieces, other.pieces)))
        return LabelSums(self.n + other.n, self.pieces + other.pieces)

    def __getstate__(self):
        return self.n, self.pieces

    def __setstate__(self, state):
        self.n, self.pieces = state

    def widened(self, n_clusters: int) -> LabelSums:
        """Return the same sums with clusters without rows up to `n_clusters`."""
        n_new = n_clusters - self.n.size
        if n_new == 0:
            return self
        n = np.append(self.n, np.zeros(n_new))
        if not isinstance(self.pieces, tuple):
            return LabelSums(n, np.concatenate([self.pieces, np.zeros((n_new, *self.pieces.shape[1:]))]))
        empty = sparse.csr_array((n_new, self.pieces[0].shape[1]))
        return LabelSums(n, tuple(sparse.csr_array(sparse.vstack([piece, empty])) for piece in self.pieces))

    def row(self, cluster: int) -> Floats:
        """Return the pieces (P, F) of a cluster, a copy."""
        if not isinstance(self.pieces, tuple):
            return np.array(self.pieces[cluster])
        found = np.zeros((len(self.pieces), self.pieces[0].shape[1]))
        for p, piece in enumerate(self.pieces):
            cells = slice(piece.indptr[cluster], piece.indptr[cluster + 1])
            found[p, piece.indices[cells]] = piece.data[cells]
        return found

    def with_rows(self, n: Floats, rows: Mapping[int, Floats]) -> LabelSums:
        """Return sums with other counts (K,), and with other pieces (P, F) of some clusters."""
        wide = self.widened(n.size)
        if not rows:
            return LabelSums(n, wide.pieces)
        chosen, table = np.fromiter(rows, dtype=np.int64), np.stack(list(rows.values()))
        if not isinstance(wide.pieces, tuple):
            pieces = wide.pieces.copy()
            pieces[chosen] = table
            return LabelSums(n, pieces)
        kept = np.ones(n.size)
        kept[chosen] = 0.0
        kept = sparse.dia_array((kept[None], [0]), shape=(n.size, n.size)).tocsr()
        place = sparse.csr_array((np.ones(chosen.size), (chosen, np.arange(chosen.size))), (n.size, chosen.size))
        made = [kept @ piece + place @ sparse.csr_array(table[:, p]) for p, piece in enumerate(wide.pieces)]
        return LabelSums(n, tuple(map(sparse.csr_array, made)))

    def total(self, *, in_place: bool = False) -> tuple[Floats, Any]:
        """Return the counts n (K,) and the sums S (K, F): dense, or CSR without stored zeros.

        With `in_place` sparse sums may be those of a piece, and the pieces are of no more use.
        """
        if not isinstance(self.pieces, tuple):
            p = self.pieces
            return self.n, np.ascontiguousarray(p[:, 0] if p.shape[1] == 1 else p[:, 0] + (p[:, 1] + p[:, 2]))
        S = self.pieces[0] if len(self.pieces) == 1 else self.pieces[0] + (self.pieces[1] + self.pieces[2])
        S = sparse.csr_array(S, copy=len(self.pieces) == 1 and not in_place)
        S.eliminate_zeros()
        S.sort_indices()
        return self.n, S


def phi_bounds(data: Any) -> PhiBounds:
    """Return the bounds of the sufficient statistics of the rows of a data set."""
    most, is_whole = np.zeros(data.n_statistics), True
    for _, phi in phi_blocks(data, np.arange(data.n_rows)):
        if sparse.issparse(phi):
            np.maximum.at(most, phi.indices, np.abs(phi.data))
            is_whole = is_whole and bool((phi.data == np.rint(phi.data)).all())
        elif phi.size:
            low, high, _ = column_extremes(phi)
            most = np.maximum(most, np.maximum(np.abs(low), np.abs(high)))
            is_whole = is_whole and has_whole_cells(phi)
    return PhiBounds(most, is_whole)


def label_sums(data: Any, labels: npt.NDArray[np.int32], n_clusters: int, scale: Scale) -> LabelSums:
    """Return the exact counts and sums of phi of each cluster.

    Parameters
    ----------
    data : Dataset
        Its weights are not read.
    labels : (N,) int32 ndarray
        Rows of negative labels are left out.
    n_clusters : int
    scale : Scale
        Of the bounds and of the number of all rows, of which these may be a part.
    """
    n = np.bincount(labels[labels >= 0], minlength=n_clusters).astype(np.float64)
    if data.has_sparse_phi:
        sums = [label_statistics(_PieceOf(data, scale, p), labels, n_clusters)[1] for p in range(scale.n_pieces)]
        return LabelSums(n, tuple(sums))
    table = np.zeros((n_clusters, scale.n_pieces, data.n_statistics))
    for rows, phi in phi_blocks(data, np.flatnonzero(labels >= 0)):
        add_rows_by_label(table, phi, labels[rows], scale.lift)
        del phi  # before the next block is made: both would not fit the cache
    return LabelSums(n, table)


def weighted_bounds(data: Dataset) -> PhiBounds:
    """Return the bounds of the statistics times the weights of their rows.

    They have F + 1 columns; the last is that of the weights.
    """
    if data.weight is None:
        bounds = phi_bounds(data)
        return PhiBounds(np.append(bounds.most, 1.0), bounds.is_whole)
    return phi_bounds(_Weighted(data))


def weighted_label_sums(data: Dataset, labels: npt.NDArray[np.int32], n_clusters: int, scale: Scale) -> LabelSums:
    """Return the exact sums of weighted phi of each cluster.

    They have F + 1 columns; the last holds the sums of the weights.

    Parameters
    ----------
    data : Dataset
    labels : (N,) int32 ndarray
        Not negative.
    n_clusters : int
    scale : Scale
        Of `weighted_bounds` and of the number of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.model.label_sums import weighted_bounds, weighted_label_sums
    >>> data = Dataset([[1], [5]], Poisson(), weight=[0.5, 2.0])
    >>> labels = np.array([1, 1], dtype=np.int32)
    >>> weighted_label_sums(data, labels, 2, weighted_bounds(data).scale(2)).total()[1].tolist()
    [[0.0, 0.0], [10.5, 2.5]]
    """
    if data.weight is not None:
        return label_sums(_Weighted(data), labels, n_clusters, scale)
    lift = scale.lift[:, :-1]
    sums = label_sums(data, labels, n_clusters, Scale(lift if data.has_sparse_phi else lift.copy()))
    counts = [sums.n, *(np.zeros(n_clusters),) * (scale.n_pieces - 1)]
    if isinstance(sums.pieces, tuple):
        pieces = [sparse.hstack([piece, column[:, None]], "csr") for piece, column in zip(sums.pieces, counts)]
        return LabelSums(sums.n, tuple(map(sparse.csr_array, pieces)))
    return LabelSums(sums.n, np.concatenate([sums.pieces, np.stack(counts, axis=1)[:, :, None]], axis=2))


def moved_sums(
    data: Dataset, old: npt.NDArray[np.int32], new: npt.NDArray[np.int32], n_clusters: int, scale: Scale
) -> LabelSums:
    """Return by how much the counts and sums of clusters change if labels `old` become `new`.

    Only the rows whose label differs are read. Added to the sums of the old labels, the result is exactly the sums of
    the new ones.

    Parameters
    ----------
    data : Dataset
    old, new : (N,) int32 ndarrays
        Labels before and after.
    n_clusters : int
        K, above all labels.
    scale : Scale
        How terms are split into pieces; that of the sums.
    """
    moved = np.flatnonzero(old != new)
    before, after = old[moved], new[moved]
    K = n_clusters
    n = (np.bincount(after, minlength=K) - np.bincount(before, minlength=K)).astype(np.float64)
    if not data.has_sparse_phi:
        table = np.zeros((K, scale.n_pieces, data.n_statistics))
        _move(table, data, moved, old, new, scale)
        return LabelSums(n, table)
    phi, m = _phi_of(data, moved), moved.size
    signs = sparse.csr_array((np.repeat([1.0, -1.0], m), (np.append(after, before), np.tile(np.arange(m), 2))), (K, m))
    return LabelSums(n, tuple(sparse.csr_array(signs @ piece) for piece in _pieces(phi, scale)))


def updated_sums(
    data: Dataset,
    sums: LabelSums,
    old: npt.NDArray[np.int32],
    new: npt.NDArray[np.int32],
    scale: Scale,
    *,
    moved: npt.NDArray[np.intp] | None = None,
) -> LabelSums:
    """Return the sums of labels `new` from those of labels `old`, with the bits of `label_sums`.

    All rows are read where more than half of the labels differ, else those whose label differs.

    Parameters
    ----------
    data : Dataset
    sums : LabelSums
        Sums of the labels `old`; they stay as they are.
    old, new : (N,) int32 ndarrays
        Labels before and after.
    scale : Scale
        How terms are split into pieces; that of the sums.
    moved : (M,) intp ndarray, optional
        The rows whose label differs, ascending; they are found if not given.
    """
    K, moved = sums.n.size, np.flatnonzero(old != new) if moved is None else moved
    if 2 * moved.size > data.n_rows:
        return label_sums(data, new, K, scale)
    if data.has_sparse_phi:
        return sums + moved_sums(data, old, new, K, scale)
    n = sums.n + (np.bincount(new[moved], minlength=K) - np.bincount(old[moved], minlength=K))
    table = sums.pieces.copy()  # what was returned before stays as it is
    _move(table, data, moved, old, new, scale)
    return LabelSums(n, table)


def _move(table, data, moved, old, new, scale):
    """Move the statistics of the rows `moved` to their new labels, in a dense table."""
    for rows, phi in phi_blocks(data, moved):
        move_rows_by_label(table, phi, old[rows], new[rows], scale.lift)
        del phi


def phi_blocks(data: Any, rows: npt.NDArray[np.intp]) -> Iterator[tuple[npt.NDArray[np.intp], Any]]:
    """Yield numbers and phi of blocks of the given rows, which ascend: dense float64, or CSR."""
    step = _BLOCK_ROWS if data.has_sparse_phi else max(1, _BLOCK_CELLS // max(data.n_statistics, 1))
    for start in range(0, rows.size, step):
        chosen = rows[start : start + step]
        first, stop = int(chosen[0]), int(chosen[-1]) + 1
        if stop - first == chosen.size:
            yield chosen, data.phi_csr(first, stop) if data.has_sparse_phi else data.phi(first, stop)
            continue
        yield chosen, _phi_of(data, chosen)


def _phi_of(data, rows):
    """Return the statistics of the rows with the given numbers, dense or CSR."""
    phi = data.family.sufficient_statistics(chosen_rows(data.X, rows))
    if data.has_sparse_phi:
        return phi.tocsr()
    return np.ascontiguousarray(phi.toarray() if sparse.issparse(phi) else phi, dtype=np.float64)


def _pieces(phi: Any, scale: Scale) -> Iterator[Any]:
    """Yield CSR matrices of the pieces of the entries of a CSR matrix."""
    values = phi.data.astype(np.float64)
    if scale.n_pieces == 1:
        yield sparse.csr_array((values, phi.indices, phi.indptr), phi.shape)
        return
    for lift in scale.lift:
        piece = (values + lift[phi.indices]) - lift[phi.indices]
        yield sparse.csr_array((piece, phi.indices, phi.indptr), phi.shape)
        values = values - piece


class _PieceOf:
    """One piece of the sparse statistics of a data set, with what `label_statistics` reads."""

    has_sparse_phi = True

    def __init__(self, data: Any, scale: Scale, piece: int) -> None:
        self._data, self._scale, self._piece = data, scale, piece
        self.n_rows, self.n_statistics = data.n_rows, data.n_statistics

    def phi_csr(self, start: int, stop: int) -> Any:
        phi = self._data.phi_csr(start, stop)
        if self._scale.n_pieces == 1 and phi.dtype.name in _SUMMED_TYPES:
            return phi
        pieces = _pieces(phi, self._scale)
        return next(piece for number, piece in enumerate(pieces) if number == self._piece)


class _Weighted:
    """Statistics of a data set times the weights of its rows, with these weights last."""

    def __init__(self, data: Dataset) -> None:
        self._data, self.n_rows, self.n_statistics = data, data.n_rows, data.n_statistics + 1
        self.has_sparse_phi = data.has_sparse_phi
        self._weight: Any = data.weight

    def phi(self, start: int, stop: int) -> Floats:
        weight = self._weight[start:stop, None]
        return np.hstack([self._data.phi(start, stop) * weight, weight])

    def phi_csr(self, start: int, stop: int) -> Any:
        weight = self._weight[start:stop, None]
        phi = self._data.phi_csr(start, stop)
        return sparse.csr_array(sparse.hstack([phi.multiply(weight), sparse.csr_array(weight)], format="csr"))
