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


def leaf_names(
    names: Sequence[Any] | npt.NDArray[Any], leaf: npt.NDArray[np.integer], n_leaves: int, *, is_short: bool = False
) -> list[str]:
    """Return a name for each leaf: list of str.

    Parameters
    ----------
    names : sequence of (N,) or (n_leaves,)
        Names of the rows, which are joined by "+" where a leaf has several, or names of the leaves.
    leaf : (N,) integer ndarray
        Leaf of each row.
    n_leaves : int
    is_short : bool
        Of a leaf of more than three rows only three names are given, and the number of the others.

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
