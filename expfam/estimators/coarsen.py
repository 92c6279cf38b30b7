"""Fewer clusters from those of a fit.

A posterior that describes data well often has many more clusters than a person wants to look at. Without a wish the
result has the groups that halves of the rows find again, see `recognised_groups`. The merges that cost least of the log
joint need (n, S) alone, so they work on a loaded model too. One run of merges serves all numbers of clusters; each
`robust` is a run of its own. A run costs about K**2 evidences.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.estimators.classes import keep_classes
from expfam.estimators.kept_rows import rows_of_fit, some_rows
from expfam.estimators.linkages import cut, linkage_of, node_leaves
from expfam.estimators.overlapping import overlapping_groups
from expfam.estimators.recognised_groups import groups_found_again
from expfam.fitted.scoring import opened_statistics
from expfam.lazy import made_on_use
from expfam.model.mixture import MixtureModel
from expfam.params import check_value
from expfam.samplers.starts.greedy_merge import merge_sequence, merged_clusters

if TYPE_CHECKING:
    from typing import Self

    from expfam.estimators.coarsening_curve import CoarseningCurve

_FEWEST_ROWS = 4
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
    _seed: Any
    _clusters: Any
    _validate: Any
    family_: Any
    n_threads: Any

    def coarsen(
        self,
        n_clusters: int | None = None,
        robust: float | None = None,
        X: Any = None,
        *,
        tree: Literal["cost", "known"] | None = None,
        overlap: float | None = None,
    ) -> Self:
        """Return a new fitted mixture with fewer clusters: those of this one, merged.

        Without arguments the result has the groups that halves of the rows find again. Give at most one of
        `n_clusters`, `robust` and `overlap`.

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
            For more than one of `n_clusters`, `robust` and `overlap`, or a value out of range.
        DataError
            Rows are needed, and this mixture has none: it was loaded, merged or learned from chunks. Give `X`.
        CapabilityError
            If a cluster, counted with `robust`, has less data than the discount of a Pitman-Yor prior.

        Notes
        -----
        Groups that are found again: both halves of four random splits are fitted, where the family was left to the
        estimator with diagonal and with full covariances, and label all rows. The score of a cut is the mean, over
        these fits and their two trees, of the adjusted Rand index with the most similar cut there, times
        1 - (sum of squared shares)**2. The highest score wins; a fit on which its own halves agree by 0.9 stays as it
        is. `coarsening_curve_` has all scores. No number is certain: look at the next best ones too. One group is never
        the answer.

        With `robust`, merges are decided under A(zeta n, zeta S) with zeta = `robust`, which is the coarsened posterior
        of Miller and Dunson 2018, "Robust Bayesian inference via coarsening", applied to the clusters of a fit.
        `overlap` is the rule of misclassification probabilities of Hennig 2010, "Methods for merging Gaussian mixture
        components".

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(place, 1.0, size=(50, 2)) for place in (0.0, 6.0, 40.0)])
        >>> mixture = Mixture("gaussian", random_state=0).fit(X)
        >>> mixture.n_components_, mixture.coarsen(n_clusters=2).cluster_sizes_
        (3, array([100,  50]))
        >>> mixture.coarsen().cluster_sizes_
        array([50, 50, 50])
        """
        check_is_fitted(self)
        _check_given(n_clusters, robust, overlap, tree)
        by_rows = robust is None and (n_clusters is None or tree == "known")
        home = self._home(n_clusters, robust, X, tree, overlap)
        coarse = self._of_unions(home)
        if X is not None:
            coarse.labels_ = home[self.predict(X)].astype(np.int32) if by_rows else coarse.predict(X)
        return coarse

    def _home(self, n_clusters, robust, X, tree, overlap):
        """Return the group of each cluster."""
        classes = getattr(self, "cluster_classes_", None)
        if n_clusters is not None:
            n_clusters = _checked_number(n_clusters, len(self.n_), _present_classes(self))
            return cut(self.coarsening_ if tree != "known" else self._curve(X).trees["known"], n_clusters)
        if robust is not None:
            zeta = _checked_share("robust", robust, most=1)
            return merged_clusters(self.model_, zeta * self.n_, zeta * self.S_, classes=classes)
        if overlap is not None:
            share = _checked_share("overlap", overlap)
            return overlapping_groups(self._shared_mass(X), share, classes)
        return self._curve(X).home(tree)

    @property
    @made_on_use
    def coarsening_curve_(self) -> CoarseningCurve:
        """Agreement of halves of the rows on every cut, and the answer of `coarsen()`.

        It is made on first use, from rows that are kept of the fit, or by ``coarsen(X=X)`` from these rows. It costs
        eight fits of half of the rows in each family that is compared; `n_threads` serves. See `CoarseningCurve`
        and `expfam.displays.CoarseningDisplay`.
        """
        check_is_fitted(self)
        return self._curve(None)

    def _curve(self, X):
        held = self.__dict__.get("_coarsening_curve")
        if X is None and held is not None and held[0] is self.n_ and held[1] is self.S_:
            return held[2]
        seed = self._seed()
        rows = self._rows_asked(X, seed)
        classes = getattr(self, "cluster_classes_", None)
        curve = groups_found_again(
            self, rows, self.coarsening_, partial(_log_joint_of_cuts, self), classes=classes, seed=seed
        )
        self.__dict__["_coarsening_curve"] = (self.n_, self.S_, curve)
        return curve

    def _rows_asked(self, X, seed):
        """Return some of the given rows with their clusters, or those that are kept of the fit."""
        rows = rows_of_fit(self) if X is None else some_rows(self._read(X), self.predict(X), seed=seed)
        if rows is None:
            raise DataError(
                f"coarsen: halves of the rows, known merges and overlap need rows, and this {type(self).__name__} holds"
                " none, because it was loaded, copied, merged, coarsened or learned from chunks: write coarsen(X=X), or"
                " coarsen(n_clusters=...)"
            )
        if rows.data.n_rows < _FEWEST_ROWS:
            raise DataError(
                f"coarsen: halves of {counted(rows.data.n_rows, 'row')} tell nothing, and at least {_FEWEST_ROWS} are"
                " needed: write coarsen(n_clusters=...)"
            )
        return rows

    def _read(self, X):
        """Return the data set of new rows."""
        return self._clusters().loaded(self._validate(X, reset=False))[0]

    def _shared_mass(self, X):
        """Return the expected number of rows of each cluster that each cluster is given: (K, K)."""
        rows = self._rows_asked(X, self._seed())
        data, found = rows.data, self._clusters()
        S = opened_statistics(self.family_, data.family, self.n_, self.S_)
        clusters = found.load(data.family, self.n_, S, n_empty=1)

        def reduce(scores, start, stop):
            p = np.exp(scores[:, :-1] - scores[:, :-1].max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            weight = None if data.weight is None else data.weight[start:stop]
            own = rows.labels[start:stop]
            count = np.ones(stop - start) if weight is None else weight
            member = sparse.csr_array((count, (own, np.arange(stop - start))), shape=(len(self.n_), stop - start))
            return member @ p

        return np.sum(clusters.each_block(data, found.log_weights, reduce, n_threads=self.n_threads), axis=0)

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


def groups_text(mixture: Any) -> str:
    """Return the end of a line: how many groups halves of the data agree on, if it is known."""
    held = mixture.__dict__.get("_coarsening_curve")
    if held is None or held[0] is not mixture.n_:
        return "; coarsen() merges them"
    n_groups = held[2].n_clusters
    if n_groups == mixture.n_components_:
        return ", on which halves of the data agree"
    return f", of which halves of the data agree on {n_groups:,}: coarsen()"


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


def _log_joint_of_cuts(mixture, tree):
    """Return the log joint of each cut of a tree, from one cluster on: (K,) nats."""
    if not np.isfinite(hard_log_joint(mixture)):
        return np.full(len(tree) + 1, np.nan)
    model, below = mixture.model_, sparse.csr_array(node_leaves(tree))
    n, S, sizes = below @ mixture.n_, below @ mixture.S_, below @ mixture.cluster_sizes_
    S = sparse.csr_array(S) if sparse.issparse(mixture.S_) else S
    evidence = [model.family.total_log_marginal(n[node : node + 1], S[node : node + 1]) for node in range(len(n))]
    K = len(tree) + 1
    live, found = list(range(K)), []
    for t in range(K):
        found.append(sum(evidence[node] for node in live) + model.weights.log_prior(sizes[live]))
        if t < K - 1:
            live = [node for node in live if node not in tree[t, :2]] + [K + t]
    return np.array(found[::-1])


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_given(n_clusters, robust, overlap, tree):
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


def _checked_share(name, value, most=None):
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not 0 < value <= 1 or (most is None and value == 1):
        limit = "at most 1" if most else "below 1"
        raise ValueError(f"coarsen: {name} must be a number above 0 and {limit}; got {value!r}")
    return float(value)
