"""All rows of data, in one place or in several: a family is bound by sums of their answers.

The answers of parts of the rows are added up. They must be the same bits for any order of the rows and any division
into parts: counts, extremes, and exact sums.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.engines.parts import Least
from expfam.structures.ground.threads import READERS, of_parts
from expfam.structures.rows.exact_sums import lifts, total_of

if TYPE_CHECKING:
    from expfam.protocols import Floats

_BLOCK_CELLS = 1 << 16  # of rows that are mapped together: memory that is taken again and again costs more than the map


class Block(NamedTuple):
    """Rows that lie in one place.

    Attributes
    ----------
    X : (n, V) ndarray or CSR
    weight : (n,) float64 ndarray or None
    first_row : int
        Number of the first row among all.
    """

    X: Any
    weight: Floats | None
    first_row: int


class AllRows(ABC):
    """All rows to which a family is bound; `Family.resolve_rows` asks them.

    Attributes
    ----------
    n_rows, n_columns : int
    is_sparse, is_weighted : bool
    dtype : numpy.dtype

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.all_rows import RowsHere
    >>> rows = RowsHere(np.array([[1.0, 5.0], [2.0, 3.0]]))
    >>> rows.total(lambda block: block.X.sum(axis=0))
    array([3., 8.])
    """

    n_rows: int
    n_columns: int
    is_sparse: bool
    is_weighted: bool
    dtype: np.dtype[Any]

    @abstractmethod
    def total(self, question: Callable[[Block], Any]) -> Any:
        """Return the sum of the answers of all blocks of rows.

        Parameters
        ----------
        question : callable
            Called as ``question(block)``, with a `Block`. It can be pickled, and its answers have ``a + b``. If it has
            a method ``is_shared(X)`` that returns True, it has threads read the rows X (see
            `expfam.structures.ground.threads.readers`), so they are one block.
        """

    @abstractmethod
    def mapped(self, function: Callable[[Any], Any], n_columns: int, *, held: bool = True) -> AllRows:
        """Return the rows that a function makes of these, (n, V) of (n, U), with the same weights.

        Unless they are to be held, the function is called for blocks of rows, at each question.
        """

    @cached_property
    def heaviest(self) -> float:
        """Return the largest weight of a row; 1 without weights."""
        return float(-self.total(_Heaviest()).values) if self.is_weighted else 1.0

    @cached_property
    def total_weight(self) -> float:
        """Return the sum of the weights of the rows; without weights it is their number."""
        if not self.is_weighted:
            return float(self.n_rows)
        return float(total_of(self.total(_WeightSum(self.heaviest, self.n_rows)))[0])


class RowsHere(AllRows):
    """Rows that lie in this process.

    Parameters
    ----------
    X : (N, V) ndarray or CSR
    weight : (N,) float64 ndarray, optional
        Multiplicity of each row.
    """

    def __init__(self, X: Any, weight: Floats | None = None) -> None:
        self.X, self.weight = X, weight
        self._function: Callable[[Any], Any] | None = None
        self.n_rows, self.n_columns = (int(size) for size in X.shape)
        self.is_sparse, self.is_weighted, self.dtype = sparse.issparse(X), weight is not None, X.dtype

    def total(self, question: Callable[[Block], Any]) -> Any:
        """Return the answer of the rows, or the sum of those of parts that threads read."""
        is_whole = self.is_sparse or READERS.get() == 1  # parts of CSR would be copies
        if is_whole or (self._function is None and hasattr(question, "is_shared") and question.is_shared(self.X)):
            return self._answer(question, 0, self.n_rows)
        answers = of_parts(partial(self._answer, question), self.n_rows, self.n_rows * self.X.shape[1])
        return functools.reduce(operator.add, answers)

    def _answer(self, question, start, stop):
        """Return the answer of some rows."""
        if self._function is None:
            is_whole = stop - start == self.n_rows
            return question(Block(self.X, self.weight, 0) if is_whole else self._block(start, stop))
        step = max(1, _BLOCK_CELLS // self.n_columns)
        firsts = range(start, stop, step)
        return functools.reduce(operator.add, (question(self._block(at, min(at + step, stop))) for at in firsts))

    def _block(self, start, stop):
        """Return some rows, or what the function makes of them."""
        weight, X = None if self.weight is None else self.weight[start:stop], self.X[start:stop]
        return Block(X if self._function is None else self._function(X), weight, start)

    def mapped(self, function: Callable[[Any], Any], n_columns: int, *, held: bool = True) -> RowsHere:
        """Return the rows that a function makes of these."""
        if held:
            return RowsHere(function(self.X), self.weight)
        other = RowsHere(self.X, self.weight)
        other._function, other.n_columns = function, n_columns
        return other


# Questions are classes, not functions: their objects are sent to the rows by pickle.


class _Heaviest:
    """The largest weight, times -1."""

    def __call__(self, block: Block) -> Least:
        return Least(-np.asarray(block.weight, dtype=np.float64).max(initial=0.0))


class _WeightSum:
    """Pieces (3, 1) of the sum of the weights."""

    def __init__(self, heaviest: float, n_rows: int) -> None:
        self.lifts = lifts(np.array([heaviest]), n_rows)

    def __call__(self, block: Block) -> Floats:
        return pieces_of(block.weight, self.lifts)


def pieces_of(terms: Any, lift: npt.NDArray[np.float64]) -> Floats:
    """Return the sums of the pieces of terms (n,), by the `lifts` of one column: (3, 1).

    >>> import numpy as np
    >>> from expfam.families.all_rows import pieces_of
    >>> from expfam.structures.rows.exact_sums import lifts, total_of
    >>> total_of(pieces_of(np.array([1e16, 1.0, -1e16]), lifts(np.array([1e16]), 3))).tolist()
    [1.0]
    """
    sums, terms = np.zeros((len(lift), 1)), np.asarray(terms, dtype=np.float64)
    for piece, up in enumerate(lift[:, 0]):
        taken = (terms + up) - up
        sums[piece], terms = taken.sum(), terms - taken
    return sums
