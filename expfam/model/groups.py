"""Groups of rows, for example the patches of one image or the cells of one patient.

A group is an integer from 0 on, and may have a name. Rows may be in any order, and a group may have no rows. Rows are
sorted once, O(N).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.families.support import check_unmasked, left_out

_MOST_EMPTY, _MOST_EMPTY_EACH = 1 << 20, 100  # groups without rows; with more, the integers are probably names


class Groups:
    """Group of each row and rows of each group.

    Parameters
    ----------
    of_row : (N,) array_like of non-negative int
        Group of each row.
    n_groups : int, optional
        G. If not given, it is the largest group number plus one.

    Attributes
    ----------
    of_row : (N,) intp ndarray
    n_groups : int
    names : (G,) object ndarray or None
        Name of each group, if groups were made by `of_names`.
    rows : (N,) intp ndarray
        Rows by group, ascending within each.
    starts : (G + 1,) intp ndarray
        Group g has ``rows[starts[g]:starts[g + 1]]``.

    Raises
    ------
    DataError
        A group number is not an integer, is negative, or is not below `n_groups`; the message names the row.

    Examples
    --------
    >>> from expfam.model.groups import Groups
    >>> groups = Groups([2, 0, 2])
    >>> groups.n_groups, groups.sizes
    (3, array([1, 0, 2]))
    """

    names: npt.NDArray[Any] | None = None

    def __init__(self, of_row: npt.ArrayLike, *, n_groups: int | None = None) -> None:
        check_unmasked(of_row, owner="groups")
        of_row = np.asarray(of_row)
        if of_row.ndim != 1 or of_row.dtype.kind not in "iu":
            raise DataError(
                "groups must be a one-dimensional array of integers, the group of each row; got"
                f" {of_row.dtype} {of_row.shape}: number other names, np.unique(groups, return_inverse=True)[1]"
            )
        if of_row.size and of_row.min() < 0:
            raise DataError(f"groups must be non-negative; row {int(np.argmin(of_row))} holds {of_row.min()}")
        found = int(of_row.max()) + 1 if of_row.size else 0
        if n_groups is not None and found > n_groups:
            raise DataError(f"groups must be below {n_groups}; row {int(np.argmax(of_row))} holds {found - 1}")
        if n_groups is None and found > _MOST_EMPTY + _MOST_EMPTY_EACH * of_row.size:
            raise DataError(
                f"groups reach {found - 1} for {counted(of_row.size, 'row')}: number them,"
                " np.unique(groups, return_inverse=True)[1], or give n_groups to Groups if empty groups are meant"
            )
        self.of_row = np.ascontiguousarray(of_row, dtype=np.intp)
        self.n_groups = found if n_groups is None else int(n_groups)
        self.rows = np.argsort(self.of_row, kind="stable").astype(np.intp, copy=False)
        sizes = np.bincount(self.of_row, minlength=self.n_groups)
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)

    @classmethod
    def of_offsets(cls, offsets: npt.ArrayLike) -> Groups:
        """Return groups of neighbouring rows from the first row of each group.

        Group g has the rows offsets[g]..offsets[g + 1] - 1.

        Examples
        --------
        >>> from expfam.model.groups import Groups
        >>> Groups.of_offsets([0, 2, 2, 3]).of_row
        array([0, 0, 2])
        """
        offsets = np.asarray(offsets)
        if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or offsets.size == 0:
            raise DataError(f"offsets must be a one-dimensional array of integers; got {offsets.dtype} {offsets.shape}")
        sizes = np.diff(offsets)
        if offsets[0] != 0 or (sizes < 0).any():
            raise DataError("offsets must begin with 0 and never fall")
        return cls(np.repeat(np.arange(len(sizes)), sizes), n_groups=len(sizes))

    @classmethod
    def of_names(cls, names: Any, text: str = "groups") -> Groups:
        """Return the groups of rows that have the name of their group.

        Parameters
        ----------
        names : (N,) sequence
            Anything that can be the key of a dict. Groups are numbered in the order of their sorted names, or by first
            appearance where names cannot be sorted.
        text : str
            How the names are typed, for messages; a column of a frame is ``X['patient']``.

        Raises
        ------
        DataError
            A name is missing (None, NaN or NA), or cannot be the key of a dict; the message names the row.

        Examples
        --------
        >>> from expfam.model.groups import Groups
        >>> groups = Groups.of_names(["bob", "ann", "bob"])
        >>> groups.of_row, groups.names
        (array([1, 0, 1]), array(['ann', 'bob'], dtype=object))
        """
        cells = names.tolist() if hasattr(names, "tolist") else list(names)
        places: dict[Any, int] = {}
        of_row = np.array([_place_of(row, name, places, text) for row, name in enumerate(cells)], dtype=np.intp)
        found = list(places)
        try:
            order = sorted(range(len(found)), key=found.__getitem__)
        except TypeError:  # of several types
            order = list(range(len(found)))
        number = np.empty(len(order), dtype=np.intp)
        number[order] = np.arange(len(order))
        groups = cls(number[of_row], n_groups=len(found))
        groups.names = np.empty(len(found), dtype=object)
        groups.names[:] = [found[place] for place in order]
        return groups

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each group: (G,) int64."""
        return np.diff(self.starts).astype(np.int64)

    def __len__(self):
        return self.n_groups

    def __repr__(self):
        return f"Groups({counted(self.n_groups, 'group')} of {counted(len(self.of_row), 'row')})"


def _place_of(row, name, places, text):
    """Return the number of a name by first appearance, which is noted in `places`."""
    if name is None or type(name).__name__ in ("NAType", "NaTType") or (isinstance(name, float) and name != name):
        raise DataError(
            f"groups: row {row} has no group, but {name!r}: {left_out(f'pandas.notna({text})')}; or give them a name:"
            f" write {text} = pandas.Series({text}, dtype=object).fillna('none')"
        )
    try:
        return places.setdefault(name, len(places))
    except TypeError:
        raise DataError(
            f"groups: row {row} holds a {type(name).__name__}, {name!r}, which cannot be a name: write"
            f" {text} = [str(name) for name in {text}]"
        ) from None


def as_groups(groups: Any, n_rows: int) -> Groups:
    """Return `groups` as a Groups object.

    An array gives the number or the name of the group of each row.

    Raises a DataError if the number of rows is not `n_rows`.
    """
    if not isinstance(groups, Groups):
        groups = Groups(groups) if _are_numbers(groups) else Groups.of_names(groups)
    if len(groups.of_row) != n_rows:
        raise DataError(f"groups must name the group of each of the {counted(n_rows, 'row')}; got {len(groups.of_row)}")
    return groups


def _are_numbers(groups):
    """Return whether groups are an array of integers, or what `Groups` refuses."""
    check_unmasked(groups, owner="groups")
    if isinstance(groups, (str, bytes)) or not (hasattr(groups, "__len__") or hasattr(groups, "__array__")):
        raise DataError(
            f"groups must have the number or name of the group of each row; got {groups!r}: write groups=df['patient']"
        )
    if isinstance(groups, (list, tuple)) and any(isinstance(name, (tuple, str)) for name in groups):
        return False
    found = np.asarray(groups)
    return found.ndim != 1 or found.dtype.kind in "iu" or found.size == 0
