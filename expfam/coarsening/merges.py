"""Merges of the clusters of a fit, and the cut of them that is asked for.

A posterior that describes data well often has many more clusters than a person wants to look at. Without a wish the
result has the groups that halves of the rows find again, see `recognised_groups`. The merges that cost least of the log
joint need (n, S) alone, so they work on a loaded model too. One run of merges serves all numbers of clusters; each
`robust` is a run of its own. A run costs about K**2 evidences.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.coarsening.linkages import cut, linkage_of, node_leaves
from expfam.coarsening.overlapping import overlapping_groups
from expfam.fitted.scoring import opened_statistics
from expfam.params import check_value
from expfam.samplers.starts.greedy_merge import merge_sequence, merged_clusters

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.coarsening.curve import CoarseningCurve
    from expfam.coarsening.rows import KeptRows
    from expfam.fitted.clusters import FittedClusters
    from expfam.model.mixture import MixtureModel
    from expfam.protocols import Floats

_NAMED = 5  # classes that a message names


class Wish(NamedTuple):
    """Which coarser partition is asked for.

    Without any wish it has the groups that halves of the rows find again.

    Attributes
    ----------
    n_clusters : int or None
    robust, overlap : float or None
    tree : {None, "cost", "known"}

    Examples
    --------
    >>> from expfam.coarsening.merges import Wish
    >>> Wish(n_clusters=3).needs_rows, Wish().needs_rows
    (False, True)
    """

    n_clusters: int | None = None
    robust: float | None = None
    overlap: float | None = None
    tree: str | None = None

    @property
    def needs_rows(self) -> bool:
        """Tell whether rows have a part in the answer."""
        return self.robust is None and (self.n_clusters is None or self.tree == "known")


class Merges:
    """Merges of the clusters of a fit.

    Parameters
    ----------
    model : MixtureModel
    n, S : (K,) and (K, F)
        Statistics of the clusters.
    sizes : (K,) ndarray
    classes : (K,) int ndarray, optional
        Known class of each cluster, -1 for none; clusters of two classes are never merged.
    class_names : (C,) array_like
    """

    def __init__(
        self,
        model: MixtureModel,
        n: Floats,
        S: Any,
        sizes: npt.NDArray[Any],
        classes: npt.NDArray[np.integer] | None = None,
        class_names: npt.ArrayLike = (),
    ) -> None:
        self.model, self.n, self.S, self.sizes = model, n, S, sizes
        self.classes, self.class_names = classes, np.asarray(class_names)
        self.found_again: CoarseningCurve | None = None  # once it was made

    def are_of(self, n: Any, S: Any) -> bool:
        """Tell whether the merges were computed from these statistics, and not from another fit."""
        return self.n is n and self.S is S

    @cached_property
    def tree(self) -> Floats:
        """All merges, as SciPy's linkage matrix: (K - 1, 4) float64."""
        return linkage_of(*merge_sequence(self.model, self.n, self.S, self.classes))

    def home(
        self,
        wish: Wish,
        curve: Callable[[], CoarseningCurve],
        shared_mass: Callable[[], Floats],
    ) -> npt.NDArray[np.integer]:
        """Return the group of each cluster: (K,).

        Parameters
        ----------
        wish : Wish
        curve, shared_mass : callable
            Make the agreement of halves of the rows, and the rows that clusters share, where a wish needs them.
        """
        if wish.n_clusters is not None:
            n_clusters = self._checked_number(wish.n_clusters)
            return cut(self.tree if wish.tree != "known" else curve().trees["known"], n_clusters)
        if wish.robust is not None:
            zeta = _checked_share("robust", wish.robust, most=1)
            return merged_clusters(self.model, zeta * self.n, zeta * self.S, classes=self.classes)
        if wish.overlap is not None:
            share = _checked_share("overlap", wish.overlap)
            return overlapping_groups(shared_mass(), share, self.classes)
        return curve().home(wish.tree)

    def log_joint_of_cuts(self, tree: Floats) -> Floats:
        """Return the log joint of each cut of a tree, from one cluster on: (K,) nats.

        It is NaN for soft statistics.
        """
        if not are_hard(self.n, self.sizes):
            return np.full(len(tree) + 1, np.nan)
        model, below = self.model, sparse.csr_array(node_leaves(tree))
        n, S, sizes = below @ self.n, below @ self.S, below @ self.sizes
        S = sparse.csr_array(S) if sparse.issparse(self.S) else S
        evidence = [model.family.total_log_marginal(n[node : node + 1], S[node : node + 1]) for node in range(len(n))]
        K = len(tree) + 1
        live, found = list(range(K)), []
        for t in range(K):
            found.append(sum(evidence[node] for node in live) + model.weights.log_prior(sizes[live]))
            if t < K - 1:
                live = [node for node in live if node not in tree[t, :2]] + [K + t]
        return np.array(found[::-1])

    def _checked_number(self, n_clusters):
        K, classes = len(self.n), self._present_classes()
        if isinstance(n_clusters, bool) or not isinstance(n_clusters, (int, np.integer)) or not 1 <= n_clusters <= K:
            raise ValueError(
                f"coarsen: n_clusters must be an integer from 1 to {K}, the number of clusters of the fit;"
                f" got {n_clusters!r}"
            )
        if n_clusters < len(classes):
            named = ", ".join(map(repr, classes[:_NAMED])) + ", ..." * (len(classes) > _NAMED)
            raise ValueError(
                f"coarsen: the clusters are of {counted(len(classes), 'class', 'classes')} ({named}), and clusters of "
                f"two classes are never merged; got n_clusters={n_clusters}: write coarsen(n_clusters={len(classes)}),"
                " or more"
            )
        return int(n_clusters)

    def _present_classes(self):
        """Return the names of the classes that clusters have."""
        places = np.unique(np.empty(0, dtype=np.int32) if self.classes is None else self.classes)
        return self.class_names[places[places >= 0]].tolist() if places.size else []


def shared_mass(clusters: FittedClusters, rows: KeptRows) -> Floats:
    """Return how many rows of each cluster each cluster is expected to get: (K, K)."""
    data, K = rows.data, clusters.n_clusters
    S = opened_statistics(clusters.family, data.family, clusters.n, clusters.S)
    loaded = clusters.load(data.family, clusters.n, S, n_empty=len(clusters.log_weights) - K)

    def reduce(scores, start, stop):
        p = np.exp(scores[:, :K] - scores[:, :K].max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        own = rows.labels[start:stop]
        count = np.ones(stop - start) if data.weight is None else data.weight[start:stop]
        member = sparse.csr_array((count, (own, np.arange(stop - start))), shape=(K, stop - start))
        return member @ p

    return np.sum(loaded.each_block(data, clusters.log_weights, reduce, n_threads=clusters.n_threads), axis=0)


# ---- unions of clusters ----------------------------------------------------------------------------------------------


def united(
    home: npt.NDArray[np.integer], n: npt.NDArray[np.float64], S: Any, sizes: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], Any, npt.NDArray[Any]]:
    """Return n, S and sizes of unions of clusters, in the order of their numbers.

    Parameters
    ----------
    home : (K,) int ndarray
        Number of the union of each cluster.
    n : (K,) float64 ndarray
        Counts of the clusters.
    S : (K, F) ndarray or CSR
        Sums of their phi.
    sizes : (K,) ndarray
        Numbers of their rows, or sums of weights.
    """
    K = int(home.max()) + 1
    member = sparse.csr_array((np.ones(len(home)), (home, np.arange(len(home)))), shape=(K, len(home)))
    total = member @ S
    total = sparse.csr_array(total) if sparse.issparse(S) else np.ascontiguousarray(total)
    return member @ n, total, np.bincount(home, weights=sizes, minlength=K).astype(sizes.dtype)


def are_hard(n: npt.ArrayLike, sizes: npt.ArrayLike) -> bool:
    """Tell whether counts are numbers of rows; expected counts and sums of weights are not.

    Examples
    --------
    >>> from expfam.coarsening.merges import are_hard
    >>> are_hard([2.0, 3.0], [2, 3]), are_hard([2.1, 2.9], [2, 3])
    (True, False)
    """
    n, sizes = np.asarray(n), np.asarray(sizes)
    return bool((n == sizes).all() and (n == np.rint(n)).all())  # expected sums of weights are sizes too


def hard_log_joint(model: MixtureModel, n: Floats, S: Any, sizes: npt.NDArray[Any]) -> float:
    """Return the log joint of a partition, nats; NaN where its statistics are soft."""
    if not are_hard(n, sizes):
        return np.nan
    return float(model.weights.log_prior(sizes) + model.family.total_log_marginal(n, S))


# ---- checks ----------------------------------------------------------------------------------------------------------


def check_wish(wish: Wish) -> None:
    """Raise ValueError where more than one of the ways to coarsen is asked for."""
    n_clusters, robust, overlap, tree = wish
    given = {"n_clusters": n_clusters, "robust": robust, "overlap": overlap}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) > 1:
        found = " and ".join(f"{name}={value!r}" for name, value in given.items())
        name, value = next(iter(given.items()))
        raise ValueError(
            f"coarsen takes one of n_clusters, robust and overlap; got {found}: write coarsen({name}={value!r})"
        )
    if tree is None:
        return
    check_value("coarsen: tree", tree, ("cost", "known"))
    if given and "n_clusters" not in given:
        name, value = next(iter(given.items()))
        raise ValueError(
            f"coarsen: tree={tree!r} goes with n_clusters, or alone; got {name}={value!r} too: write"
            f" coarsen({name}={value!r})"
        )


def _checked_share(name, value, most=None):
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not 0 < value <= 1 or (most is None and value == 1):
        limit = "at most 1" if most else "below 1"
        raise ValueError(f"coarsen: {name} must be a number above 0 and {limit}; got {value!r}")
    return float(value)
