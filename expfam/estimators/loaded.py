"""Clusters of a fitted estimator, whose statistics are loaded once.

Loading costs O(K F), which for one row is nearly all the time. So the loaded statistics are kept between the calls of
one estimator, beside it and not in it: copies, pickles and files do not hold them. They are dropped with the estimator,
when another fit begins, and when its statistics are replaced by other arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from expfam.model.assignment import LoadedClusters

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from expfam.families.base import Family

_MOST_KEPT = 1 << 29  # bytes of dense statistics; larger ones are loaded for each call and freed after it

# Each operation on it is one of a dict, which threads may do at once; a lock would be held for ever in a forked child.
_kept: WeakKeyDictionary[Any, LoadedClusters] = WeakKeyDictionary()


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


def drop_loaded(estimator: Any) -> None:
    """Free the loaded clusters of an estimator."""
    _kept.pop(estimator, None)


def names_of_fit(estimator: Any) -> Any:
    """Return the names of the columns of the fit, for messages; None if it was one of an array."""
    return estimator.__dict__.get("feature_names_in_")


__all__ = ["drop_loaded", "loaded_clusters", "names_of_fit"]
