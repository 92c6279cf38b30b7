"""Names of the leaves of a tree, from the names of the rows.

Those of the rows of one leaf are joined by "+".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted

_SHOWN = 3  # names of a leaf in a figure


def row_names(X: Any) -> npt.NDArray[np.str_] | None:
    """Return the names of the rows of a frame of pandas: (N,) ndarray of str, or None.

    Rows whose names are the numbers from 0 on have no names.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.estimators.leaf_names import row_names
    >>> row_names(pd.DataFrame({"height": [1.8, 1.6]}, index=["ann", "bob"]))
    array(['ann', 'bob'], dtype='<U3')
    >>> row_names([[1.8], [1.6]]) is None
    True
    """
    index = getattr(X, "index", None) if type(X).__module__.startswith("pandas") else None
    if index is None:
        return None
    names = [" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in index.tolist()]
    if names == [str(row) for row in range(len(names))]:
        return None
    return np.array(names, dtype=str)


def leaf_names(
    names: Sequence[Any] | npt.NDArray[Any], leaf: npt.NDArray[np.integer], n_leaves: int, *, is_short: bool = False
) -> list[str]:
    """Return a name for each leaf.

    Parameters
    ----------
    names : sequence of (N,) or (n_leaves,)
        Names of the rows, which are joined by "+" where a leaf has several, or names of the leaves.
    leaf : (N,) integer ndarray
        Leaf of each row.
    n_leaves : int
    is_short : bool
        Of a leaf of more than three rows only three names are given, and the number of the others.

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        There are neither as many names as rows nor as many as leaves.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.estimators.leaf_names import leaf_names
    >>> leaf_names(["ann", "bob", "cat"], np.array([0, 1, 0]), 2)
    ['ann+cat', 'bob']
    """
    texts = [str(name) for name in names]
    if len(texts) != len(leaf):
        if len(texts) == n_leaves:
            return texts
        rows = counted(len(leaf), "row") + (
            f" and {counted(n_leaves, 'leaf', 'leaves')}" if n_leaves != len(leaf) else ""
        )
        raise ValueError(
            f"there are {counted(len(texts), 'name')} for {rows}: give one name for each row, or for each leaf"
        )
    below: list[list[str]] = [[] for _ in range(n_leaves)]
    for place, text in zip(leaf.tolist(), texts):
        below[place].append(text)
    if is_short:
        below = [[*own[:_SHOWN], f"{len(own) - _SHOWN} more"] if len(own) > _SHOWN + 1 else own for own in below]
    return ["+".join(own) for own in below]


__all__ = ["leaf_names", "row_names"]
