"""Whole numbers, and what they may be: numbers of a Gaussian, counts, or categories.

Ratings from 1 to 5 are categories to people and numbers to an array. Held-out rows tell which they are. A density and
a probability are compared by cells: the whole numbers that a Gaussian reads are spread evenly over the step between
values, and the mean log density of what is spread, times the step, is at most the log probability of the cell.

Cells that rows lack are drawn from the other cells of their column, for the comparison alone: every family in question
sees the same.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expfam.errors import ExpFamError
from expfam.families.columns.family import Columns
from expfam.families.columns.roles import Roles
from expfam.families.counts.poisson import Poisson
from expfam.families.trials.negative_binomial import NegativeBinomial
from expfam.fitting.candidates import Candidate
from expfam.frames.array_frame import frame_of_array, holds_whole_numbers
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from expfam.families.base import Family

_MOST_VALUES = 500  # distinct ones of all columns; more, such as pixels, take minutes as categories
_MOST_OF_COLUMN = 21  # that count: more are no categories
_ROWS_A_VALUE = 2  # of a column on average; fewer, and a level for each value says nothing of new rows
_UNIT, _UNIT_OF_HOLES = 16, 17  # streams of the purpose "start"


class WholeNumbers(NamedTuple):
    """Columns of whole numbers whose family held-out rows choose.

    Attributes
    ----------
    cells : (N, V) ndarray
        Without holes: those are drawn.
    has_holes : bool
    has_many_values : bool
        Whether the columns have so many distinct values that they are taken for numbers, such as pixels.
    by_roles : Columns or None
        Family by the roles of the columns, which encodes the rows; None where it is out of the question.
    """

    cells: npt.NDArray[Any]
    has_holes: bool
    has_many_values: bool
    by_roles: Columns | None


def whole_numbers(X: npt.NDArray[Any], by_roles: Columns | None, *, seed: int) -> WholeNumbers | None:
    """Return whole numbers whose family is to be chosen; None where other rules hold.

    Parameters
    ----------
    X : (N, V) ndarray
        NaN where cells are missing.
    by_roles : Columns or None
        Family by the roles of the columns; None where a column is left out that is not constant.
    seed : int

    Returns
    -------
    WholeNumbers or None
        None where not all cells are whole numbers, a column has none, or all of several are 0 and 1. Roles are out of
        the question where the columns have more than 500 distinct values, or a category has more than one value for two
        rows.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitting.whole_numbers import columns_of_array, whole_numbers
    >>> X = np.array([[1, 4], [3, 4], [1, 2], [3, np.nan]])
    >>> found = whole_numbers(X, columns_of_array(X), seed=0)
    >>> found.has_holes, found.cells[3].tolist() in ([3.0, 4.0], [3.0, 2.0])
    (True, True)
    """
    if by_roles is None or X.dtype.kind not in "iuf" or not X.size:
        return None
    lacks = np.isnan(X) if X.dtype.kind == "f" else np.zeros(1, dtype=bool)
    has_holes = bool(lacks.any())
    if has_holes and lacks.all(axis=0).any():
        return None
    cells = _filled(X, lacks, seed) if has_holes else X
    if not holds_whole_numbers(cells) or (X.shape[1] > 1 and ((cells == 0) | (cells == 1)).all()):
        return None
    has_many = has_many_values(cells)
    is_out = has_many or not _repeats(cells, by_roles)
    return WholeNumbers(cells, has_holes, has_many, None if is_out else by_roles)


def _filled(X, lacks, seed):
    """Return rows whose missing cells are drawn from the other cells of their column."""
    filled, rng = X.copy(), generator(seed, "start", unit=_UNIT_OF_HOLES)
    for j in np.flatnonzero(lacks.any(axis=0)):
        filled[lacks[:, j], j] = rng.choice(X[~lacks[:, j], j], int(lacks[:, j].sum()))
    return filled


def _repeats(cells, by_roles):
    """Return whether the values of each category stand in two rows or more, on average."""
    of_category = [j for j, role in enumerate(by_roles.roles) if role["role"] == "category"]
    return all(_ROWS_A_VALUE * len(np.unique(cells[:, j])) <= len(cells) for j in of_category)


def whole_candidates(
    X: npt.NDArray[Any], reals: Sequence[Family], by_roles: Columns | None, *, seed: int
) -> list[Candidate]:
    """Return the families in question of whole numbers, each with the rows as it reads them.

    Parameters
    ----------
    X : (N, V) ndarray
    reals : sequence of Family
        Gaussians.
    by_roles : Columns or None
        Made of a frame of these columns; None where it is out of the question.
    seed : int

    Returns
    -------
    list of Candidate
        The Gaussians, on columns that are not constant; of numbers from 0 on Poisson columns, and negative binomial
        ones whose size is to be found;
        and, if some columns are categories, the columns by their roles, which have most parameters.
    """
    varies = (X[0] != X).any(axis=0)
    spread, base = _spread(X[:, varies], seed)
    found = [Candidate(family, spread, base) for family in reals if spread.shape[1]]
    if X.min() >= 0:
        found += [Candidate(Poisson(), X), Candidate(NegativeBinomial("auto"), X)]
    if by_roles is None or all(role["role"] in ("count", "dropped") for role in by_roles.roles):
        return found  # with laws of their own they fit best what piles up at the ends of a scale, and cut classes by it
    return [*found, Candidate(by_roles, Roles(by_roles.roles).encode_array(X))]


def _spread(X, seed):
    """Return whole numbers spread evenly over their steps, and the sum of the logs of the steps."""
    steps = np.array([np.gcd.reduce(np.diff(np.unique(column)).astype(np.int64)) for column in X.T], dtype=np.float64)
    shift = generator(seed, "start", unit=_UNIT).uniform(-0.5, 0.5, X.shape)
    return X + shift * steps, float(np.log(steps).sum())


def columns_of_array(X: npt.NDArray[Any], names: Sequence[str] | None = None) -> Columns | None:
    """Return the family of whole numbers by the roles of their columns, as that of a frame.

    Parameters
    ----------
    X : (N, V) ndarray
    names : sequence of str, optional
        Of the columns. Without them later rows are read by place.

    Returns
    -------
    Columns or None
        None where not all cells that are there are whole numbers, where a column that is not constant would be left
        out, such as the number of the row, and where the columns have more than 500 distinct values, such as pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitting.whole_numbers import columns_of_array
    >>> family = columns_of_array(np.array([[1, 4], [3, 4], [5, 2], [3, 3]]))
    >>> [(role["column"], role["family"]) for role in family.roles]
    [('0', 'categorical'), ('1', 'categorical')]
    """
    known = X[~np.isnan(X)] if X.dtype.kind == "f" else X
    if not holds_whole_numbers(known) or has_many_values(X):
        return None
    found = _of_frame(frame_of_array(X, names), X)
    return found if names is not None or found is None else _by_place(found, X)


def columns_of_numbers(X: npt.NDArray[Any]) -> Columns | None:
    """Return the family of numbers with holes by the roles of a frame of the array.

    Parameters
    ----------
    X : (N, V) ndarray of float
        Some cells are NaN, and some are no whole numbers.

    Returns
    -------
    Columns or None
        Later rows are read by place. None where all cells are whole numbers, which other rules are about, and where a
        column that is not constant would be left out.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitting.whole_numbers import columns_of_numbers
    >>> X = np.array([[1, 0.5], [2, -1.5], [np.nan, 2.25], [2, 0.75], [1, np.nan]])
    >>> [role["family"] for role in columns_of_numbers(X).roles]
    ['categorical', 'gaussian_diag']
    """
    if holds_whole_numbers(X[~np.isnan(X)]):
        return None
    found = _of_frame(frame_of_array(X, whole=False), X)
    return None if found is None else _by_place(found, X)


def _of_frame(frame, X):
    """Return the family of a frame of an array, None if it leaves out a column that varies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns that are left out
        try:
            found = Columns.from_frame(frame)
        except ExpFamError:
            return None
    left = [j for j, role in enumerate(found.roles) if role["role"] == "dropped"]
    return None if any(varies(X[:, j]) for j in left) else found


def varies(values: npt.NDArray[Any]) -> bool:
    """Return whether the values that a column has differ.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitting.whole_numbers import varies
    >>> varies(np.array([2.0, np.nan, 2.0])), varies(np.array([2, 3]))
    (False, True)
    """
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return bool(known.size) and bool((known != known[0]).any())


def has_many_values(X: npt.NDArray[Any]) -> bool:
    """Return whether the columns have too many distinct values for a comparison in seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitting.whole_numbers import has_many_values
    >>> has_many_values(np.tile(np.arange(5)[:, None], 20)), has_many_values(np.tile(np.arange(17)[:, None], 64))
    (False, True)
    """
    total = 0
    for column in X.T:
        total += min(len(np.unique(column)), _MOST_OF_COLUMN)
        if total > _MOST_VALUES:
            return True
    return False


def _by_place(family, X):
    """Return the family for arrays, which knows the one value of each column that is left out."""
    roles = []
    for j, role in enumerate(family.roles):
        kept = {"levels": [_only_value(X[:, j])]} if role["role"] == "dropped" else {}
        roles.append({**role, **kept, "by_place": True})
    return Columns(family.parts, names=family.names, roles=tuple(roles))


def _only_value(values):
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return (known if known.size else values)[0].item()
