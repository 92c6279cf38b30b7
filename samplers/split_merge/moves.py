"""Kinds of split and merge moves: frozen settings, and checks of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.errors import CapabilityError
from expfam.params import POSITIVE, PartSettings, Real
from expfam.samplers.geometry.hash_tables import HashTables
from expfam.samplers.split_merge.allocators import (
    CodeAllocator,
    CoinAllocator,
    DelayedAllocator,
    RestrictedGibbsAllocator,
    SequentialAllocator,
    UrnAllocator,
)
from expfam.samplers.split_merge.anchors import UniformAnchors

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.split_merge.allocators import Allocator
    from expfam.samplers.split_merge.anchors import Anchors


def compiled_code(allocator: Any) -> int:
    """Return the number of an allocator's compiled routine; 7 for Python objects.

    The numbers are those of the enum in `_allocators.pxd`.
    """
    if type(allocator) is RestrictedGibbsAllocator:
        return 3 if allocator.launch == "coin" else 4
    codes = {CoinAllocator: 0, UrnAllocator: 1, SequentialAllocator: 2, CodeAllocator: 5, DelayedAllocator: 6}
    return codes.get(type(allocator), 7)


class Move(PartSettings):
    """Base of the kinds of moves.

    `weight` says how often the kind is chosen, relative to the weights of the kernel's other kinds.
    """

    kind = ""
    _constraints: ClassVar = {"weight": POSITIVE}

    def __init__(self, *, weight: float = 1.0) -> None:
        self.weight = weight

    def memory_per_row(self, model: MixtureModel, data: Dataset) -> int:
        """Return the bytes per row that the move's parts hold, and need while they are made.

        Parameters
        ----------
        model, data : bound MixtureModel and Dataset
        """
        parts: Iterator[Any] = (getattr(self, name, None) for name in ("anchors", "allocator", "tables"))
        return sum(part.memory_per_row(data) for part in parts if hasattr(part, "memory_per_row"))


def first_of_law(moves: Sequence[Any], place: int) -> int:
    """Return the place of the first move that has the anchor law of the move at `place`.

    Moves with equal laws share one bound law and its tables.
    """
    return next(k for k, move in enumerate(moves) if getattr(move, "anchors", None) == moves[place].anchors)


def moves_memory_per_row(moves: Sequence[Any], model: MixtureModel, data: Dataset) -> int:
    """Return the bytes per row of the parts of all moves; shared parts count once."""
    shared = [move.anchors for k, move in enumerate(moves) if hasattr(move, "anchors") and first_of_law(moves, k) < k]
    twice = sum(law.memory_per_row(data) for law in shared if hasattr(law, "memory_per_row"))
    return sum(move.memory_per_row(model, data) for move in moves) - twice


class AnchoredMoves(Move):
    """Draw two data by a law: split their cluster if they share one, else merge their clusters.

    Parameters
    ----------
    anchors : Anchors
        Law of the two data.
    allocator : Allocator
        Law by which a cluster is divided between them.
    rho : float in (0, 1]
        Probability with which a split is tried. The smaller it is, the more easily merges are accepted.
    most : float
        Splits of n data are tried with probability min(rho, most / n), which bounds their expected cost.
    weight : float
        See `Move`.

    Examples
    --------
    >>> from expfam.samplers.split_merge.moves import AnchoredMoves
    >>> AnchoredMoves().rho
    1.0

    Notes
    -----
    With uniform anchors and `RestrictedGibbsAllocator` they are the sampler of Jain and Neal 2004.
    """

    kind = "anchored"
    _constraints: ClassVar = {"rho": Real(0, 1, "(]"), "most": Real(0, ends="(]")}

    def __init__(
        self,
        anchors: Anchors | None = None,
        allocator: Allocator | None = None,
        *,
        rho: float = 1.0,
        most: float = np.inf,
        weight: float = 1.0,
    ) -> None:
        super().__init__(weight=weight)
        self.anchors, self.allocator = anchors or UniformAnchors(), allocator or SequentialAllocator()
        self.rho, self.most = rho, most

    def check(self, model: MixtureModel, data: Dataset) -> None:
        """Raise an error for parts of the wrong kinds, and for settings out of range."""
        super().check(model, data)
        _check_part(self.anchors, "anchors", model, data)
        _check_part(self.allocator, "allocator", model, data)


class MemberMoves(Move):
    """Split the cluster of a uniform datum, or merge the clusters of two uniform data.

    A fair coin decides which of the two is tried.

    Parameters
    ----------
    allocator : Allocator
        Law by which a cluster is divided between two data.
    weight : float
        See `Move`.

    Examples
    --------
    >>> from expfam.samplers.split_merge.moves import MemberMoves
    >>> MemberMoves()
    MemberMoves(allocator=SequentialAllocator(), weight=1.0)

    Notes
    -----
    Splits are tried N / (2 n) times as often as by uniform anchors. The acceptance ratio of a split of n data has the
    factor (n - 1) / N, the ratio of the two laws of anchors.
    """

    kind = "member"

    def __init__(self, allocator: Allocator | None = None, *, weight: float = 1.0) -> None:
        super().__init__(weight=weight)
        self.allocator = allocator or SequentialAllocator()

    def check(self, model: MixtureModel, data: Dataset) -> None:
        """Raise an error where `allocator` is no allocator, or does not fit family and data."""
        super().check(model, data)
        _check_part(self.allocator, "allocator", model, data)


class BucketMoves(Move):
    """Split off the part of a cluster in one bucket of a hash table, or merge two clusters.

    Clusters are merged where one of them could have been split off in this way. The tables are fixed while they are
    read. Alone this kind of move cannot reach every partition: rows that share every bucket are never split nor merged.

    Parameters
    ----------
    tables : HashTables
        Settings of the hash tables.
    weight : float
        See `Move`.

    Examples
    --------
    >>> from expfam.samplers.split_merge.moves import BucketMoves
    >>> BucketMoves().kind
    'bucket'

    Notes
    -----
    This move differs from the published sampler with minwise hashing in two ways. The probability of a split is exact
    for the present buckets, and no bound of an average over random buckets. Either side may be the bucket.
    """

    kind = "bucket"

    def __init__(self, tables: HashTables | None = None, *, weight: float = 1.0) -> None:
        super().__init__(weight=weight)
        self.tables = tables or HashTables()

    def check(self, model: MixtureModel, data: Dataset) -> None:
        """Raise an error for settings out of range, also for those of the tables."""
        super().check(model, data)
        self.tables.check(data)


class SoftmaxMoves(Move):
    """Merge a uniform cluster with one drawn in proportion to Bayes factors, or split at random.

    A move costs O(K F).

    Examples
    --------
    >>> from expfam.samplers.split_merge.moves import SoftmaxMoves
    >>> SoftmaxMoves()
    SoftmaxMoves(weight=1.0)

    Notes
    -----
    The idea is from Wang and Russell 2015, "A smart-dumb/dumb-smart algorithm for efficient split-merge MCMC". Here
    each factor is evaluated at both ends of a move.
    """

    kind = "softmax"


class CutMoves(Move):
    """Cut a cluster in two at a uniform value of one column, or merge two clusters.

    The column is drawn in proportion to its range in the cluster. Alone this kind of move cannot reach every partition:
    equal rows are never split nor merged. A missing value counts as the middle between the least and the largest value
    of its column among the rows of the move. A move of n data costs O(n V), in NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.split_merge.moves import CutMoves
    >>> round(CutMoves().log_q(np.array([[0.0, 0.0]]), np.array([[1.0, 3.0]])), 6)
    0.0
    """

    kind = "cut"

    def draw(self, X: Any, rng: np.random.Generator) -> npt.NDArray[np.int8] | None:
        """Draw the sides (m,) of the rows X (m, V); return None where all rows are equal.

        Parameters
        ----------
        X : (m, V) ndarray or CSR
            All rows of the cluster that is cut. A missing value counts as the middle of its column's range.
        rng : numpy Generator
        """
        X = _completed(X)
        low, high = _ends(X)
        width = high - low
        total = width.sum()
        if not 0 < total < np.inf:
            return None
        column = int(np.searchsorted(np.cumsum(width), rng.random() * total, side="right"))
        column = min(column, len(width) - 1)
        values = X[:, [column]].toarray().ravel() if sparse.issparse(X) else X[:, column]
        sides = (values >= low[column] + rng.random() * width[column]).astype(np.int8)
        return sides if 0 < sides.sum() < len(sides) else None

    def log_q(self, A: Any, B: Any) -> float:
        """Return the log probability that a cut of all these rows gives A and B, nats.

        Parameters
        ----------
        A, B : (a, V) and (b, V) ndarrays or CSR
            Rows on either side of the cut.

        Returns
        -------
        float
            -inf if no cut of one column separates A from B.
        """
        if _has_missing(A) or _has_missing(B):
            A, B = np.split(_completed(np.concatenate([A, B])), [len(A)])
        (low_a, high_a), (low_b, high_b) = _ends(A), _ends(B)
        gap = np.maximum(np.maximum(low_a - high_b, low_b - high_a), 0.0).sum()
        width = (np.maximum(high_a, high_b) - np.minimum(low_a, low_b)).sum()
        return float(np.log(gap) - np.log(width)) if gap > 0 else -np.inf

    def check(self, model: MixtureModel, data: Dataset) -> None:
        """Raise an error for settings out of range, and for columns of categories."""
        super().check(model, data)
        if data.family.tags()["categorical"]:
            raise CapabilityError("CutMoves needs columns of numbers; those of categories have no order")


def _has_missing(X):
    return not sparse.issparse(X) and X.dtype.kind == "f" and bool(np.isnan(X).any())


def _completed(X):
    """Return rows with the middle between the ends of its column in place of each missing value.

    Both ends of a move give the same rows, whatever their order, since the ends are those of all rows of the move.
    """
    if not _has_missing(X):
        return X
    middle = 0.5 * np.fmin.reduce(X, axis=0) + 0.5 * np.fmax.reduce(X, axis=0)
    return np.where(np.isnan(X), np.nan_to_num(middle), X)


def _ends(X):
    """Return the least and the largest value of each column: two (V,) float64 arrays."""
    ends = X.min(axis=0), X.max(axis=0)
    return [np.asarray(e.toarray() if sparse.issparse(e) else e, dtype=np.float64).ravel() for e in ends]


def _check_part(part, kind, model, data):
    if getattr(part, "kind", None) != kind:
        raise CapabilityError(f"a split-merge move needs {kind} of kind {kind!r}; got {part!r}")
    if hasattr(part, "check"):
        part.check(model, data)


def moves_of(moves: Any) -> list[Any]:
    """Return a Move, or a sequence of moves, as a list."""
    moves = [moves] if isinstance(moves, Move) else list(moves)
    if not moves:
        raise ValueError("a split-merge kernel needs at least one kind of moves")
    return moves
