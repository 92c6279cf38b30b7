"""Kinds of split and merge moves: frozen settings, with what a third party's part of them has to keep."""

import numpy as np
from scipy import sparse

from expfam.errors import CapabilityError
from expfam.params import Settings
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


def compiled_code(allocator):
    """Number of the compiled routine of an allocator, the enum of `_allocators.pxd`; 7 for Python objects."""
    if type(allocator) is RestrictedGibbsAllocator:
        return 3 if allocator.launch == "coin" else 4
    codes = {CoinAllocator: 0, UrnAllocator: 1, SequentialAllocator: 2, CodeAllocator: 5, DelayedAllocator: 6}
    return codes.get(type(allocator), 7)


class Move(Settings):
    """Base of the kinds of moves.

    Parameters
    ----------
    weight : float
        How often the kind is chosen, relative to the others of a kernel.
    """

    kind = ""

    def __init__(self, *, weight=1.0):
        self.weight = weight

    def check(self, model, data):
        """Raise where settings, family or data do not allow the move."""
        if not 0 < self.weight < np.inf:
            raise ValueError(f"weight of {type(self).__name__} must be positive; got {self.weight!r}")

    def memory_per_row(self, model, data):
        """Bytes a datum that the move's parts hold, and need while they are made."""
        parts = (getattr(self, name, None) for name in ("anchors", "allocator", "tables"))
        return sum(part.memory_per_row(data) for part in parts if hasattr(part, "memory_per_row"))


def first_of_law(moves, place):
    """Place of the first of the moves that has the anchor law of the one at `place`: they share it, with its tables."""
    return next(k for k, move in enumerate(moves) if getattr(move, "anchors", None) == moves[place].anchors)


def moves_memory_per_row(moves, model, data):
    """Bytes a datum that the parts of all moves hold, shared ones once."""
    shared = [move.anchors for k, move in enumerate(moves) if hasattr(move, "anchors") and first_of_law(moves, k) < k]
    twice = sum(law.memory_per_row(data) for law in shared if hasattr(law, "memory_per_row"))
    return sum(move.memory_per_row(model, data) for move in moves) - twice


class AnchoredMoves(Move):
    """Two data by a law: split their cluster if they share one, else merge theirs.

    Parameters
    ----------
    anchors : Anchors
    allocator : Allocator
    rho : float in (0, 1]
        Probability with which a split is tried; merges are accepted the more easily.
    most : float
        Splits of n data are tried with probability min(rho, most / n): a bound of their expected cost.
    weight : float

    Examples
    --------
    >>> from expfam.samplers.split_merge.moves import AnchoredMoves
    >>> AnchoredMoves().rho
    1.0

    Notes
    -----
    With uniform anchors and `RestrictedGibbsAllocator` the sampler of Jain and Neal 2004.
    """

    kind = "anchored"

    def __init__(self, anchors=None, allocator=None, *, rho=1.0, most=np.inf, weight=1.0):
        super().__init__(weight=weight)
        self.anchors, self.allocator = anchors or UniformAnchors(), allocator or SequentialAllocator()
        self.rho, self.most = rho, most

    def check(self, model, data):
        """Parts of the right kinds, and probabilities."""
        super().check(model, data)
        _check_part(self.anchors, "anchors", model, data)
        _check_part(self.allocator, "allocator", model, data)
        if isinstance(self.rho, (str, bool)) or not 0 < self.rho <= 1:
            raise ValueError(f"rho must lie in (0, 1]; got {self.rho!r}")
        if not self.most > 0:
            raise ValueError(f"most must be positive; got {self.most!r}")


class MemberMoves(Move):
    """A fair coin: split the cluster of a uniform datum, or merge the clusters of two uniform data.

    Parameters
    ----------
    allocator : Allocator
    weight : float

    Examples
    --------
    >>> from expfam.samplers.split_merge.moves import MemberMoves
    >>> MemberMoves()
    MemberMoves(allocator=SequentialAllocator(), weight=1.0)

    Notes
    -----
    Splits are tried N / (2 n) times as often as by uniform anchors. With the ratio of both anchor laws,
    (n - 1) / N for a split of n data.
    """

    kind = "member"

    def __init__(self, allocator=None, *, weight=1.0):
        super().__init__(weight=weight)
        self.allocator = allocator or SequentialAllocator()

    def check(self, model, data):
        """An allocator."""
        super().check(model, data)
        _check_part(self.allocator, "allocator", model, data)


class BucketMoves(Move):
    """Split off what a cluster has in one bucket of a hash table; merge two clusters of which one is such a part.

    Reads the buckets as they stand. Alone it is reducible: rows that share every bucket are never parted nor joined.

    Parameters
    ----------
    tables : HashTables
    weight : float

    Examples
    --------
    >>> from expfam.samplers.split_merge.moves import BucketMoves
    >>> BucketMoves().kind
    'bucket'

    Notes
    -----
    Departs from the published sampler by minwise hashing: the probability of a split is that of the buckets which
    there are, not a bound of an average over buckets, and either side may be the bucket.
    """

    kind = "bucket"

    def __init__(self, tables=None, *, weight=1.0):
        super().__init__(weight=weight)
        self.tables = tables or HashTables()

    def check(self, model, data):
        """Settings of the tables."""
        super().check(model, data)
        self.tables.check(data)


class SoftmaxMoves(Move):
    """Merge a uniform cluster with one drawn in proportion to Bayes factors; split at random. O(K F) a move.

    Examples
    --------
    >>> from expfam.samplers.split_merge.moves import SoftmaxMoves
    >>> SoftmaxMoves()
    SoftmaxMoves(weight=1.0)

    Notes
    -----
    The idea is of Wang and Russell 2015, "A smart-dumb/dumb-smart algorithm for efficient split-merge MCMC"; each
    factor is evaluated at both ends of a move.
    """

    kind = "softmax"


class CutMoves(Move):
    """Cut a cluster in two at a uniform place of one column, columns in proportion to their ranges; or merge two.

    Alone it is reducible: equal rows are never parted nor joined. O(n V) for n data, in NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.split_merge.moves import CutMoves
    >>> round(CutMoves().log_q(np.array([[0.0, 0.0]]), np.array([[1.0, 3.0]])), 6)
    0.0
    """

    kind = "cut"

    def draw(self, X, rng):
        """Side (m,) int8 of each of some rows, or None where they are all the same."""
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

    def log_q(self, A, B):
        """Log probability that the rows of A and B together are cut into these two, nats."""
        (low_a, high_a), (low_b, high_b) = _ends(A), _ends(B)
        gap = np.maximum(np.maximum(low_a - high_b, low_b - high_a), 0.0).sum()
        width = (np.maximum(high_a, high_b) - np.minimum(low_a, low_b)).sum()
        return float(np.log(gap) - np.log(width)) if gap > 0 else -np.inf

    def check(self, model, data):
        """Columns of numbers that can be ordered."""
        super().check(model, data)
        if data.family.support == "categories":
            raise CapabilityError("CutMoves needs columns of numbers; those of categories have no order")


def _ends(X):
    """Least and largest value of each column, float64."""
    ends = X.min(axis=0), X.max(axis=0)
    return [np.asarray(e.toarray() if sparse.issparse(e) else e, dtype=np.float64).ravel() for e in ends]


def _check_part(part, kind, model, data):
    if getattr(part, "kind", None) != kind:
        raise CapabilityError(f"a split-merge move needs {kind} of kind {kind!r}; got {part!r}")
    if hasattr(part, "check"):
        part.check(model, data)


def moves_of(moves):
    """Kinds of moves as a list; one alone is one of them."""
    moves = [moves] if isinstance(moves, Move) else list(moves)
    if not moves:
        raise ValueError("a split-merge kernel needs at least one kind of moves")
    return moves
