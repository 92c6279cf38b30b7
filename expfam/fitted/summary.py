"""A few lines of text about the clusters of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def summary_text(
    sizes: npt.NDArray[Any], *, noun: str = "cluster", unit: str = "row", more: str = "", lines: Sequence[str] = ()
) -> str:
    """Return number and sizes of clusters in two lines, and further lines.

    Parameters
    ----------
    sizes : (K,) ndarray
        Clusters of size 0 are not counted.
    noun, unit : str
        What is counted, and what of.
    more : str
        End of the first line.
    lines : sequence of str
        After the two.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitted.summary import summary_text
    >>> print(summary_text(np.array([60, 30]), more="; coarsen() merges them"))
    2 clusters; coarsen() merges them
    90 rows: 60 in the largest cluster, 30 in the smallest
    """
    held = np.asarray(sizes)[np.asarray(sizes) > 0]
    second = counted(held.sum(), unit, spec=",.6g")
    if len(held) > 1:
        second += f": {held.max():,.6g} in the largest {noun}, {held.min():,.6g} in the smallest"
    return "\n".join([counted(len(held), noun, spec=",") + more, second, *lines])


__all__ = ["summary_text"]
