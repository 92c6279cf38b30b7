"""What is kept beside an estimator: its loaded clusters, and some rows of its fit.

Loading statistics costs O(K F), which for one row is nearly all the time, so they are kept between calls. Rows are kept
for questions that need data. Copies, pickles and files hold neither. Both are dropped with the estimator, and when its
statistics are replaced by other arrays.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from expfam.coarsening.rows import some_rows
from expfam.fitted.clusters import FittedClusters
from expfam.model.assignment import LoadedClusters

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from expfam.coarsening.rows import KeptRows
    from expfam.families.base import Family
    from expfam.model.data import Dataset

_MOST_KEPT = 1 << 29  # bytes of dense statistics; larger ones are loaded for each call and freed after it

# Each operation on it is one of a dict, which threads may do at once; a lock would be held for ever in a forked child.
_kept: WeakKeyDictionary[Any, LoadedClusters] = WeakKeyDictionary()
_rows: WeakKeyDictionary[Any, tuple[Any, KeptRows]] = WeakKeyDictionary()  # with the sizes of the clusters


def loaded_clusters(
    estimator: Any, family: Family, n: npt.NDArray[np.float64], S: Any, *, n_empty: int = 1
) -> LoadedClusters:
    """Return the clusters of an estimator and empty ones, loaded now or in an earlier call.

    Parameters
    ----------
    estimator : Estimator
        Whose clusters are kept.
    family : Family
        Bound. Clusters of another family than that of the fit, which was opened for the rows of one call, are not kept.
    n, S : (K,) and (K, F)
        Statistics of the clusters, S dense or CSR. They are compared with those of the earlier call by identity.
    n_empty : int
        Number of empty clusters after them.

    Returns
    -------
    LoadedClusters
        Several threads may use it.
    """
    found = _kept.get(estimator)
    if (
        found is not None
        and found.n is n
        and found.S is S
        and found.family is family
        and found.n_slots == len(n) + n_empty
    ):
        return found
    found = LoadedClusters(family, n, S, n_empty=n_empty)
    if family is not estimator.family_:
        return found
    if 8 * S.shape[0] * S.shape[1] <= _MOST_KEPT:
        _kept[estimator] = found
    else:
        drop_loaded(estimator)
    return found


def clusters_of_fit(estimator: Any, n: Any, S: Any, **options: Any) -> FittedClusters:
    """Return clusters of a fit, whose loaded statistics are kept for the next call."""
    options = {"load": partial(loaded_clusters, estimator), "n_threads": estimator.n_threads, **options}
    return FittedClusters(estimator.family_, n, S, names=names_of_fit(estimator), **options)


def drop_loaded(estimator: Any) -> None:
    """Free the loaded clusters of an estimator."""
    _kept.pop(estimator, None)


def keep_rows(estimator: Any, data: Dataset, labels: npt.ArrayLike, *, seed: int) -> None:
    """Keep some rows of a fit; rows of an earlier fit are dropped."""
    _rows[estimator] = _statistics(estimator), some_rows(data, labels, seed=seed)


def rows_of_fit(estimator: Any) -> KeptRows | None:
    """Return the rows that are kept of a fit; None if there are none, or it went on."""
    found = _rows.get(estimator)
    return found[1] if found is not None and found[0] is _statistics(estimator) else None


def _statistics(estimator):
    """Return an array that each fit replaces."""
    given = estimator.__dict__
    return given["n_"] if "n_" in given else given["components_"]


def names_of_fit(estimator: Any) -> Any:
    """Return the names of the columns of the fit, for messages; None if it was one of an array."""
    return estimator.__dict__.get("feature_names_in_")
