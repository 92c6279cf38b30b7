"""Fewer clusters from those of a fit: greedy merges of their statistics, without the data.

A posterior that describes data well often has many more clusters than a person wants to look at. The merges that cost
least of the log joint lead from the one to the other. They need (n, S) alone, so they work on a loaded model too. One
run of merges serves all numbers of clusters; each `robust` is a run of its own. A run costs about K**2 evidences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from expfam.amounts import counted
from expfam.estimators.known_rows import keep_classes
from expfam.estimators.linkages import cut, linkage_of
from expfam.lazy import made_on_use
from expfam.model.mixture import MixtureModel
from expfam.samplers.starts.greedy_merge import merge_sequence, merged_clusters

if TYPE_CHECKING:
    from typing import Self

_NAMED = 5  # classes that a message names
_OF_THE_FIT = ("n_iter_", "interrupted_", "n_features_in_", "feature_names_in_", "_not_kept", "_backend", "_output")


class Coarsening:
    """Base of mixtures: `coarsen` and the merges that it follows.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.estimators.coarsen import Coarsening
    >>> issubclass(Mixture, Coarsening)
    True
    """

    n_: npt.NDArray[np.float64]
    S_: Any
    model_: Any
    cluster_sizes_: npt.NDArray[Any]
    log_joint_: float
    labels_: npt.NDArray[np.int32]
    get_params: Any
    predict: Any
    _set_model: Any

    def coarsen(self, n_clusters: int | None = None, robust: float | None = None, X: Any = None) -> Self:
        """Return a new fitted mixture with fewer clusters: those of this one, merged greedily.

        Give exactly one of `n_clusters` and `robust`.

        Parameters
        ----------
        n_clusters : int, optional
            The number of clusters that is left, at most `n_components_`, and at least the number of classes that the
            fit knew. Merges are made also where the log joint falls; each is the one that costs least. Fewer clusters
            are always unions of more.
        robust : float, optional
            Merge as long as the log joint rises when every cluster counts with `robust` of its statistics, above 0 and
            at most 1. The smaller it is, the fewer clusters are left: differences between clusters must then be larger
            to be worth a cluster of their own. 1 makes the merges that gain under the full statistics, if there are
            any. The result keeps the full statistics.
        X : array_like or sparse matrix, shape (N, V), optional
            Rows to label: `labels_` is then the result's `predict` of them.

        Returns
        -------
        Mixture
            With the settings of this one. `n_`, `S_` and `cluster_sizes_` are sums over the merged clusters. `labels_`
            are those of this mixture, renamed, where it has any and `X` is not given. `log_joint_` is that of the
            partition, and NaN where statistics are soft and clusters were merged. Clusters of two classes are never
            merged, so `classes_`, `cluster_classes_` and `predict_class` stay. There is no `trace_` and no `stream_`;
            `partial_fit` goes on from the clusters.

        Raises
        ------
        ValueError
            For neither or both of `n_clusters` and `robust`, or a value out of range.
        CapabilityError
            If a cluster, counted with `robust`, has less data than the discount of a Pitman-Yor prior.

        Notes
        -----
        Merges are decided under A(zeta n, zeta S) with zeta = `robust`, which is the coarsened posterior of Miller and
        Dunson 2018, "Robust Bayesian inference via coarsening", applied to the clusters of a fit.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(place, 1.0, size=(50, 2)) for place in (0.0, 6.0, 40.0)])
        >>> mixture = Mixture("gaussian", random_state=0).fit(X)
        >>> mixture.n_components_, mixture.coarsen(n_clusters=2).cluster_sizes_
        (3, array([100,  50]))
        """
        check_is_fitted(self)
        _check_one_given(n_clusters, robust)
        if robust is None:
            home = cut(self.coarsening_, _checked_number(n_clusters, len(self.n_), _present_classes(self)))
        else:
            zeta = _checked_share(robust)
            classes = getattr(self, "cluster_classes_", None)
            home = merged_clusters(self.model_, zeta * self.n_, zeta * self.S_, classes=classes)
        coarse = self._of_unions(home)
        if X is not None:
            coarse.labels_ = coarse.predict(X)
        return coarse

    @property
    @made_on_use
    def coarsening_(self) -> npt.NDArray[np.float64]:
        """Return all merges of the clusters as SciPy's linkage matrix: (K - 1, 4) float64.

        Each merge costs least of the log joint; the last one leaves one cluster. Row t joins two clusters into cluster
        K + t; clusters 0..K-1 are those of the fit. The columns are the two clusters, the height, and the number of
        clusters of the fit below. The height is by how many nats the log joint has fallen since the fit, after all
        merges so far, made non-decreasing: the largest fall so far, 0 where it only rose. Where the fit knew classes,
        clusters of two classes are joined last. The matrix is made on first use, from `n_` and `S_`.
        """
        check_is_fitted(self)
        held = self.__dict__.get("_coarsening")
        if held is None or held[0] is not self.n_ or held[1] is not self.S_:  # after a new fit these are new arrays
            classes = getattr(self, "cluster_classes_", None)
            held = (self.n_, self.S_, linkage_of(*merge_sequence(self.model_, self.n_, self.S_, classes)))
            self.__dict__["_coarsening"] = held
        return held[2]

    def _of_unions(self, home):
        """Return a mixture whose clusters are unions of the clusters of this one."""
        coarse = type(self)(**self.get_params(deep=False))
        for name in _OF_THE_FIT:
            if name in self.__dict__:
                setattr(coarse, name, self.__dict__[name])
        coarse.n_, coarse.S_, coarse.cluster_sizes_ = united(home, self.n_, self.S_, self.cluster_sizes_)
        coarse._set_model(MixtureModel(self.model_.family, self.model_.weights))
        is_same = len(coarse.n_) == len(self.n_)
        coarse.log_joint_ = self.log_joint_ if is_same else hard_log_joint(coarse)
        if "labels_" in self.__dict__:
            coarse.labels_ = home[self.labels_].astype(np.int32)
        keep_classes(coarse, [self], [home])
        return coarse


# ---- unions of clusters ----------------------------------------------------------------------------------------------


def united(
    home: npt.NDArray[np.integer], n: npt.NDArray[np.float64], S: Any, sizes: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], Any, npt.NDArray[Any]]:
    """Return n, S and sizes of the unions of clusters that have one `home`, in order."""
    K = int(home.max()) + 1
    member = sparse.csr_array((np.ones(len(home)), (home, np.arange(len(home)))), shape=(K, len(home)))
    total = member @ S
    total = sparse.csr_array(total) if sparse.issparse(S) else np.ascontiguousarray(total)
    return member @ n, total, np.bincount(home, weights=sizes, minlength=K).astype(sizes.dtype)


def hard_log_joint(mixture: Any) -> float:
    """Return the log joint of a mixture's partition, nats; NaN where its statistics are soft."""
    n, sizes = mixture.n_, mixture.cluster_sizes_
    if not ((n == sizes).all() and (n == np.rint(n)).all()):  # expected sums of weights are sizes too
        return np.nan
    model = mixture.model_
    return float(model.weights.log_prior(sizes) + model.family.total_log_marginal(n, mixture.S_))


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_one_given(n_clusters, robust):
    if (n_clusters is None) == (robust is None):
        found = "neither" if n_clusters is None else f"n_clusters={n_clusters!r} and robust={robust!r}"
        raise ValueError(f"coarsen needs exactly one of n_clusters and robust; got {found}")


def _present_classes(mixture):
    """Return the names of the classes that clusters of a mixture have."""
    places = np.unique(getattr(mixture, "cluster_classes_", np.empty(0, dtype=np.int32)))
    return mixture.classes_[places[places >= 0]].tolist() if places.size else []


def _checked_number(n_clusters, K, classes):
    if isinstance(n_clusters, bool) or not isinstance(n_clusters, (int, np.integer)) or not 1 <= n_clusters <= K:
        raise ValueError(
            f"coarsen: n_clusters must be an integer from 1 to {K}, the number of clusters of the fit;"
            f" got {n_clusters!r}"
        )
    if n_clusters < len(classes):
        named = ", ".join(map(repr, classes[:_NAMED])) + ", ..." * (len(classes) > _NAMED)
        raise ValueError(
            f"coarsen: the clusters are of {counted(len(classes), 'class', 'classes')} ({named}), and clusters of two "
            f"classes are never merged; got n_clusters={n_clusters}: write coarsen(n_clusters={len(classes)}), or more"
        )
    return int(n_clusters)


def _checked_share(robust):
    is_number = isinstance(robust, (int, float, np.integer, np.floating)) and not isinstance(robust, bool)
    if not is_number or not 0 < robust <= 1:
        raise ValueError(f"coarsen: robust must be a number above 0 and at most 1; got {robust!r}")
    return float(robust)
