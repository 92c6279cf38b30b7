"""Warning of more clusters than distinct rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expfam.amounts import counted
from expfam.errors import DataWarning
from expfam.model.equal_rows import n_distinct_rows
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from expfam.model.data import Dataset


def warn_of_equal_rows(data: Dataset, n_components: int | None, n_found: int) -> None:
    """Warn where fewer clusters were found because fewer rows are distinct.

    Parameters
    ----------
    data : Dataset
    n_components : int or None
        Clusters that were asked for.
    n_found : int
    """
    if n_components is None or n_found >= n_components:
        return
    n_distinct = n_distinct_rows(data.X, n_components)
    if n_distinct < n_components:
        warn(
            f"Mixture: n_components={n_components}, but {counted(n_distinct, 'row is', 'rows are')} distinct, and "
            f"equal rows have equal labels: {counted(n_found, 'cluster holds', 'clusters hold')} data. Take "
            f"n_components={n_distinct}, or None for an open number",
            DataWarning,
        )
