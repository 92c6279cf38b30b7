"""`BayesianHierarchy`: a tree over the data, its cuts and its predictions, for scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import ClusterMixin
from sklearn.utils.metadata_routing import UNUSED

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.estimators.base import Estimator
from expfam.estimators.family_estimator import FamilyEstimator
from expfam.estimators.leaf_names import leaf_names
from expfam.estimators.leaves import MANY_ROWS, fitted_leaves, has_cluster_leaves
from expfam.estimators.loaded import clusters_of_fit, names_of_fit
from expfam.estimators.resumed import kept_fit, seeded_fit
from expfam.estimators.tree_choice import best_tree, has_ward_tree, order_for, warn_of_one_cluster
from expfam.families.support import check_structure
from expfam.fitted.row_certainty import certainty_of_labels
from expfam.fitting.kept_run import not_keeping
from expfam.fitting.phases import Phase
from expfam.fitting.steps import run_phases, with_progress
from expfam.forecast.memory import check_memory, forecast_tree
from expfam.forecast.time import check_duration, forecast_tree_duration
from expfam.lazy import made_on_use
from expfam.model.assignment import LoadedClusters
from expfam.model.data import Dataset
from expfam.model.known import Known
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess
from expfam.params import check_value, is_auto, refuse_unused
from expfam.samplers.hierarchy.kernel import HierarchicalClustering, MergeState
from expfam.samplers.hierarchy.tuning import tuned_alpha, tuned_family, tuned_worth, ward_state
from expfam.samplers.named import find_sampler
from expfam.samplers.warm_starts.ties import spread_alike, spread_memory
from expfam.stages import shows_progress, stage, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from expfam.families.base import Family

_LEAVES = ("auto", "rows", "clusters")
_SPREAD_COPIES = 3  # of rows whose repeated values are spread: distinct ones, these spread, and all of them
_LEAST_WEIGHT = math.log(1e-12)  # nodes of less are left out of predictions


class BayesianHierarchy(ClusterMixin, FamilyEstimator):
    """Tree of clusters of any exponential family, with the odds of every merge.

    Merging ends by itself, without `n_steps`. The page docs/settings.md says more about each setting and result.

    Parameters
    ----------
    family : str or Family
        Name of a family, one with settings, or "auto": by the data, of a table by the role of each column.
    n_components : int or None
        Clusters of the cut that becomes `labels_`; None for those that `cut` chooses.
    alpha : float or "auto"
        Concentration of the Dirichlet process; "auto" takes the one with most evidence on some rows.
    sampler : "auto" or HierarchicalClustering
        "auto" scores all pairs; ``HierarchicalClustering(candidates="knn")`` is faster.
    learn_hyper : bool, "auto" or dict of str to sequence
        Choose hyper-parameters of the family by the evidence of trees: all, those of categories, or from a grid.
    start : "auto" or (N,) array_like of int
        Labels of data that stay together.
    leaves : {"auto", "rows", "clusters"}
        What a leaf is: a row, or a cluster of a `Mixture`; "auto" takes clusters where rows are many.
    cut : {"odds", "map"}
        The highest nodes with odds of one at least, or the most probable cut.
    n_threads, random_state, callbacks, memory_limit, time_limit
        Threads (-1: all cores), seed, functions ``callback(info, state)`` called after each step or "progress" for a
        progress bar, and bytes and seconds that a fit may need, also as text such as "4GB" and "10min".

    Attributes
    ----------
    labels_, probabilities_ : (N,) int32 and float32 ndarrays
        Cluster of each row by first appearance, and its probability.
    n_components_, n_clusters_ : int
        Clusters of the cut.
    cluster_sizes_, weights_ : (K,) ndarrays
        Rows of each cluster; probability of each for a new row.
    params_, clusters_ : dict of (K, ...) ndarrays, frame
        Parameters by name; a table of sizes, means and modes in the units of the data.
    log_joint_, converged_, n_iter_, interrupted_ : float, bool, int, bool
        Log joint of `labels_` and data; whether all merges were made; their number; Ctrl-C.
    tree_, leaf_, leaf_names_, row_names_ : HierarchyTree, (N,) int32 ndarray, (L,) and (N,) ndarrays
        The tree; leaf of each row; names of leaves and rows, if the index of a pandas frame has some.
    children_, log_odds_, log_weight_, counts_, log_evidence_, order_, n_scores_, alpha_, family_, roles_
        Of the tree: merges, their odds, and a lower bound of the log evidence; settings that were found.

    See Also
    --------
    Mixture, GroupedMixture, TopicModel : clusters without a tree; rows in groups; words of documents.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from expfam import BayesianHierarchy
    >>> hierarchy = BayesianHierarchy("gaussian", n_components=3).fit(load_iris().data)
    >>> hierarchy.n_clusters_, hierarchy.linkage_matrix().shape
    (3, (149, 4))

    Notes
    -----
    Heller and Ghahramani 2005, "Bayesian hierarchical clustering". About N**2 scores where all are tried, a minute
    at N = 50,000; an index makes sparse counts faster, and ``HierarchicalClustering(candidates="knn")`` all data.
    """

    saved_kind = "hierarchy"
    fit_predict = Estimator.fit_predict  # that of scikit-learn drops y
    no_components = "the clusters that `cut` chooses"

    __metadata_request__fit = {"resume": UNUSED}  # noqa: RUF012 - of this call alone

    def __init__(
        self,
        family: str | Family = "auto",
        n_components: int | None = None,
        *,
        alpha: float | Literal["auto"] = 1.0,
        sampler: Literal["auto"] | HierarchicalClustering = "auto",
        learn_hyper: bool | Literal["auto"] | Mapping[str, Sequence] = "auto",
        start: Any = "auto",
        leaves: Literal["auto", "rows", "clusters"] = "auto",
        cut: Literal["odds", "map"] = "odds",
        n_threads: int | None = None,
        random_state: Any = None,
        callbacks: Sequence[Callable] | Literal["progress"] | None = None,
        memory_limit: float | str | None = None,
        time_limit: float | str | None = None,
    ) -> None:
        self.family, self.n_components, self.alpha, self.sampler = family, n_components, alpha, sampler
        self.learn_hyper, self.start, self.leaves, self.cut = learn_hyper, start, leaves, cut
        self.n_threads, self.random_state, self.callbacks = n_threads, random_state, callbacks
        self.memory_limit, self.time_limit = memory_limit, time_limit

    # ---- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, links: npt.ArrayLike | None = None, resume: Any = None) -> Self:
        """Merge until one tree is left.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)
        y : ignored
        links : (N,) array_like of int, optional
            Rows with an equal number of at least 0 are one leaf of the tree; -1 for rows without a link. `link_groups`
            makes them from pairs of rows. Clusters as leaves keep linked rows together.
        resume : path_like or Checkpoint, optional
            Folder in which the merges are kept, every minute; where it holds those of an earlier call with the same
            data and settings, the fit goes on from there, and ends as if it had never been stopped, bit for bit.
            ``Checkpoint(path, every_seconds=5)`` says how often.

        Returns
        -------
        self

        Raises
        ------
        DataError, SupportError, CapabilityError, ResourceError, ValueError
            Before any work begins, but for limits and an `n_components` that clusters of a mixture do not allow.
        """
        check_value("BayesianHierarchy: cut", self.cut, ("odds", "map"))
        K = self._check_components()
        if K is not None:
            refuse_unused(self, ["cut"], why=f"n_components={K!r}", remedy="leave out n_components")
        self._kernel().refuse_unused()
        self._check_leaves()
        data = Dataset(self._validate(X, reset=True), self._family(), names=names_of_fit(self))
        if K is not None and data.n_rows < K:
            raise ValueError(f"n_components must be from 1 to the {counted(data.n_rows, 'datum', 'data')}; got {K!r}")
        if not isinstance(self.start, str):
            self._check_cut(self.start, kind="the labels of start")
        start = self._start(links, data.n_rows)
        with seeded_fit(self, resume):
            seed = self._seed()
        is_fitted = self._has_cluster_leaves(data)
        if not is_fitted:
            self._check_memory(data, start)
        with kept_fit(self, resume, data, seed, start=start):
            states = self._searched(data, start, links, seed, is_fitted=is_fitted)
        self.order_, best = best_tree(states)
        self._adopt(best, data)
        self.n_scores_ = sum(state.n_scores for state in states.values())
        if self.n_components_ == 1 and K is None and not self.interrupted_:
            given = repr(self.family)
            warn_of_one_cluster(self.family_, n_rows=data.n_rows, tunes=self._tunes(), given=given)
        return self

    def _searched(self, data, start, links, seed, *, is_fitted):
        """Return finished searches by the name of their order, after leaves and settings are found."""
        was_stopped = False
        with stage("choosing hyper-parameters"):
            model, seen = self._model(data, seed)
        data = Dataset(data.X, model.family)
        if is_fitted:
            start, was_stopped = self._fitted_leaves(data, seed, start, links)
            self._check_memory(data, start)
        if self.time_limit is not None and not was_stopped:
            grow = partial(self._grow_sample, model, start)
            with not_keeping():
                duration = forecast_tree_duration(grow, seen, seed=seed)
            check_duration(duration, self.time_limit)
        return self._states(model, seen, start, data, was_stopped=was_stopped)

    def _check_memory(self, data, start):
        """Tell the memory that the tree needs, and refuse it if there is less."""
        needed = self._memory(data, start).with_copy(self._n_copied)
        check_memory(needed, self.memory_limit)
        tell(lambda: f"{counted(data.n_rows, 'row', spec=',')}; memory: about {needed}")

    def _check_leaves(self):
        """Refuse leaves that are unknown, and those that other settings replace."""
        if not isinstance(self.leaves, str) or self.leaves not in _LEAVES:
            raise ValueError(f"leaves must be one of {', '.join(map(repr, _LEAVES))}; got {self.leaves!r}")
        if not isinstance(self.start, str):
            refuse_unused(self, ["leaves"], why="a tree over the labels of start", remedy="take start='auto'")
        if self.leaves == "clusters" and self._kernel().duplicates == "collapse":
            why, remedy = "duplicates='collapse', which makes leaves of its own,", "take duplicates='exact'"
            refuse_unused(self, ["leaves"], why=why, remedy=remedy)

    def _has_cluster_leaves(self, data):
        """Return whether leaves are clusters of a mixture that is fitted first."""
        if self.leaves != "auto" or not is_auto(self.start):
            return self.leaves == "clusters" and is_auto(self.start)
        kernel = self._kernel()
        return kernel.candidates is None and kernel.duplicates != "collapse" and has_cluster_leaves(data)

    def _start(self, links, n_rows):
        """Return `start`, or where rows are linked the labels of the leaves that they begin from."""
        if links is None:
            return self.start
        if not isinstance(self.start, str):
            raise ValueError("BayesianHierarchy: start and links both say which rows are together: give one of them")
        known = Known(links=links)
        if known.n_rows != n_rows:
            raise DataError(
                f"BayesianHierarchy: links has {counted(known.n_rows, 'value')}, X has {counted(n_rows, 'row')}"
            )
        leaves = known.agreeing(np.arange(n_rows))
        self._check_cut(leaves, kind="rows and groups of linked rows")
        return leaves

    def _fitted_leaves(self, data, seed, start, links):
        """Return the leaf of each datum, and whether Ctrl-C ended the fit of the mixture."""
        labels, was_stopped = fitted_leaves(
            data.family if self._tunes() else self._family(),
            data,
            links=links,
            alpha=self.alpha_,
            seed=seed,
            n_threads=self.n_threads,
            shows_progress=shows_progress(self.callbacks),
            memory_limit=self.memory_limit,
            time_limit=self.time_limit,
        )
        lacks_clusters = self.n_components is not None and self.n_components > labels.max() + 1
        if lacks_clusters and self.leaves == "auto" and data.n_rows <= MANY_ROWS and not was_stopped:
            return start, False  # rows, of which as many clusters as were asked for can be cut
        self._check_cut(labels, kind="clusters of a mixture")
        return labels, was_stopped

    def _check_cut(self, labels, *, kind):
        """Refuse a cut into more clusters than there are leaves, before the tree is made."""
        n_leaves, K = len(np.unique(labels)), self.n_components
        if K is not None and n_leaves < K:
            raise ValueError(
                f"n_components={K} is more than the {counted(n_leaves, 'leaf', 'leaves')} of the tree, which are "
                f"{kind}: write BayesianHierarchy(n_components={n_leaves}), or "
                "BayesianHierarchy(leaves='rows', start='auto') for a tree over single rows, or give the labels of a"
                " finer partition as start"
            )

    def _tunes(self):
        """Return whether hyper-parameters are chosen by evidence."""
        return isinstance(self.learn_hyper, Mapping) or (not is_auto(self.learn_hyper) and bool(self.learn_hyper))

    def _model(self, data, seed):
        """Return the model and the data as trees see them, after hyper-parameters were chosen.

        Repeated real values are spread over what they stand for: a cluster of rows that are equal in one column has
        infinite density, so that one common value of a column outweighs all others.
        """
        if isinstance(self.alpha, str) and self.alpha != "auto":
            raise ValueError(f"alpha must be a positive number or 'auto'; got {self.alpha!r}")
        is_grid = isinstance(self.learn_hyper, Mapping)
        if not is_grid and not (is_auto(self.learn_hyper) or isinstance(self.learn_hyper, (bool, np.bool_))):
            raise ValueError(
                f"BayesianHierarchy: learn_hyper must be 'auto', True, False or a grid for each hyper-parameter; got"
                f" {self.learn_hyper!r}"
            )
        alpha, data = 1.0 if isinstance(self.alpha, str) else self.alpha, spread_alike(data)
        if self._tunes():
            grid = self.learn_hyper if is_grid else None
            data = Dataset(data.X, tuned_family(data.family, data.X, grid=grid, seed=seed, alpha=alpha))
        elif is_auto(self.learn_hyper):
            data = Dataset(data.X, tuned_worth(data.family, data.X, given=self._family(), alpha=alpha))
        if isinstance(self.alpha, str):
            alpha = tuned_alpha(data, seed=seed)
        self.alpha_ = float(alpha)
        return MixtureModel(data.family, DirichletProcess(alpha)).bind(data), data

    def _states(self, model, data, start, rows, *, was_stopped=False):
        """Return finished searches by the name of their order; after Ctrl-C those that were begun.

        `rows` are the data before repeated values were spread.
        """
        kernel, order = self._kernel(), order_for(self._kernel().order, data.family)
        is_best = order == "best"
        if was_stopped:
            state = _with_settings(kernel, order="auto" if is_best else order).init(model, data, start=start)
            self.interrupted_ = True
            return {state.order: state}
        states, self.interrupted_, forest = {}, False, None
        for each in ("odds", "odds_size") if is_best else (order,):
            if not self.interrupted_:
                kernel = _with_settings(kernel, order=each)
                state = kernel.init(model, data, start=start) if forest is None else forest
                forest = state.by_size(n_threads=kernel.n_threads) if is_best and each == "odds" else None
                self._grow(kernel, state, each)
                states[state.order] = state
        if is_best and kernel.candidates is None and not self.interrupted_ and has_ward_tree(data):
            collapse = kernel.duplicates == "collapse"
            states["ward"] = ward_state(model, data, states["odds"].leaf, rows=rows, collapse=collapse)
        if self.interrupted_:  # forests of different sizes do not compare
            states = {name: state for name, state in states.items() if state.n_clusters == 1} or states
        return states

    def _memory(self, data, start):
        """Forecast the memory of the trees that are held together, and of the graph for one."""
        kernel = self._kernel()
        n_leaves = None if isinstance(start, str) else len(np.unique(start))
        n_neighbors = 0 if kernel.candidates is None else kernel.n_neighbors
        is_best = order_for(kernel.order, data.family) == "best"
        n_trees = 2 + (kernel.candidates is None and has_ward_tree(data)) if is_best else 1
        found = forecast_tree(data, n_leaves=n_leaves, n_neighbors=n_neighbors, n_trees=n_trees)
        return replace(found, scratch=found.scratch + _SPREAD_COPIES * spread_memory(data, None))

    def _grow_sample(self, model, start, rows, data):
        """Grow the trees of some rows, for the time that they take."""
        probe = type(self)(**self.get_params(deep=False)).set_params(callbacks=None)
        start = start if isinstance(start, str) else np.asarray(start)[rows]
        kernel = self._kernel()
        if sparse.issparse(kernel.candidates):
            check_structure(kernel.candidates, owner="candidates")
            probe.sampler = _with_settings(kernel, candidates=sparse.csr_array(kernel.candidates)[rows][:, rows])
        probe._states(model, data, start, data)
        if probe.interrupted_:
            raise KeyboardInterrupt

    def _kernel(self):
        found = find_sampler(self.sampler, model="BayesianHierarchy")
        return HierarchicalClustering(n_threads=self.n_threads) if found is None else found

    def _grow(self, kernel, state, order):
        """Make all merges of a forest."""
        n_steps = -(-(state.n_clusters - 1) // kernel.n_merges)
        trace = run_phases(
            state,
            [Phase(kernel, n_steps, None)],
            callbacks=lambda total: with_progress(self.callbacks, total),
            name=f"merges in the order {order!r}",
        )
        self.interrupted_ = trace.interrupted

    def _adopt(self, state, data):
        """Take the tree of a search; clusters are those of the data as they are."""
        self._set_tree(state.tree(), state.leaf, state.model.family)
        data = Dataset(data.X, self.family_)
        self._n, self._S = data.statistics(self.leaf_, self.tree_.n_leaves)
        self._set_certainty(data)

    def _set_certainty(self, data):
        """Set `probabilities_`, by the clusters of the chosen cut; Ctrl-C leaves it out."""
        self.__dict__.pop("probabilities_", None)
        n, S = self._blocks()
        try:
            self.probabilities_ = certainty_of_labels(
                self.family_, data, n, S, self._labels, np.log(n), n_threads=self.n_threads
            )
        except KeyboardInterrupt:
            self.interrupted_ = True

    def _set_tree(self, tree, leaf, family, *, labels=None):
        self.tree_, self.leaf_, self.family_ = tree, np.asarray(leaf, dtype=np.int32), family
        self.children_, self.log_odds_ = tree.children, tree.log_odds
        self.log_weight_, self.counts_, self.log_evidence_ = tree.log_weight, tree.counts, tree.log_evidence
        self.labels_ = labels
        if labels is None:
            self.labels_ = tree.cut(self.cut, n_clusters=self.n_components)[self.leaf_].astype(np.int32)
        self.n_components_ = int(self._labels.max()) + 1

    @classmethod
    def from_linkage(cls, Z: npt.ArrayLike, X: Any, family: str | Family = "auto", **params: Any) -> BayesianHierarchy:
        """Return a hierarchy on the merges of a linkage matrix, such as one of SciPy or fastcluster.

        It has odds, evidence, cuts and predictions like a fitted one.

        Parameters
        ----------
        Z : (N - 1, 4) array_like
        X : array_like or sparse matrix, shape (N, V)
            The data that were linked.
        family : str or Family
        **params
            Keywords of the constructor.

        Returns
        -------
        BayesianHierarchy
            Fitted. Its leaves are the rows: ``leaves="clusters"`` is refused.
        """
        self = cls(family, **params)
        if self.leaves == "clusters":
            raise ValueError("the leaves of a linkage are the rows that it joins: leave out leaves='clusters'")
        data = Dataset(self._validate(X, reset=True), self._family(), names=names_of_fit(self))
        children = np.asarray(Z, dtype=np.float64)[:, :2].astype(np.int64)
        if len(children) != data.n_rows - 1:
            raise ValueError(
                f"a linkage of {counted(data.n_rows, 'row')} has {counted(data.n_rows - 1, 'merge')}; got "
                f"{len(children)}"
            )
        model, seen = self._model(data, self._seed())
        self._adopt(MergeState.of_children(model, seen, children), data)
        self.n_scores_, self.interrupted_, self.order_ = len(children), False, "linkage"
        return self

    # ---- prediction -------------------------------------------------------------------------------------------------

    def _statistics(self, nodes):
        """Return statistics of nodes, each the sum over the leaves below it."""
        below = [self.tree_.leaves(node) for node in nodes]
        indptr = np.concatenate([[0], np.cumsum([len(leaves) for leaves in below])]).astype(np.int64)
        shape, none = (len(nodes), self.tree_.n_leaves), np.zeros(0, dtype=np.int64)
        member = sparse.csr_array((np.ones(indptr[-1]), np.concatenate([none, *below]), indptr), shape=shape)
        S = member @ self._S
        return member @ self._n, sparse.csr_array(S) if sparse.issparse(S) else np.ascontiguousarray(S)

    def _blocks(self):
        """Return statistics of the clusters of the chosen cut, in the order of the labels."""
        label_of_leaf = np.empty(self.tree_.n_leaves, dtype=np.int64)
        label_of_leaf[self.leaf_] = self._labels
        n = np.bincount(label_of_leaf)
        S = sparse.csr_array(
            (np.ones(len(label_of_leaf)), (label_of_leaf, np.arange(len(label_of_leaf)))),
            shape=(len(n), len(label_of_leaf)),
        )
        total = S @ self._S
        return S @ self._n, sparse.csr_array(total) if sparse.issparse(total) else np.ascontiguousarray(total)

    def _scored(self):
        """Return the nodes that matter, with their weights and that of a new cluster."""
        total = math.log(self._total())
        weights = self.tree_.log_posterior() + np.log(self.counts_) - total
        nodes = np.flatnonzero(weights >= _LEAST_WEIGHT)
        log_weights = np.append(weights[nodes], math.log(self.alpha_) - total)
        n, S = self._statistics(nodes)
        read = {"sizes": n, "weights": np.exp(weights[nodes]), "load": LoadedClusters}
        return clusters_of_fit(self, n, S, log_weights=log_weights, **read)

    def _clusters(self):
        """Return the clusters of the chosen cut."""
        n, S = self._blocks()
        read = {"sizes": self.cluster_sizes_, "weights": self.weights_, "load": LoadedClusters}
        return clusters_of_fit(self, n, S, log_weights=np.log(n), **read)

    @property
    @made_on_use
    def cluster_sizes_(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each cluster of the chosen cut: (K,) int64."""
        self._check_fitted()
        return np.bincount(self._labels, minlength=self.n_components_).astype(np.int64)

    @property
    @made_on_use
    def weights_(self) -> npt.NDArray[np.float64]:
        """Return the posterior predictive probability of each cluster of the chosen cut: (K,)."""
        self._check_fitted()
        return self.cluster_sizes_ / self._total()

    @property
    @made_on_use
    def log_joint_(self) -> float:
        """Return the log joint of `labels_` and the data, nats, without log-base."""
        self._check_fitted()
        n, S = self._blocks()
        weights = DirichletProcess(self.alpha_)
        return float(weights.log_prior(self.cluster_sizes_) + self.family_.total_log_marginal(n, S))

    @property
    @made_on_use
    def converged_(self) -> bool:
        """Return whether all merges were made: False after Ctrl-C."""
        self._check_fitted()
        return not self.interrupted_

    @property
    @made_on_use
    def n_iter_(self) -> int:  # type: ignore[override]
        """Return the number of merges."""
        self._check_fitted()
        return len(self.children_)

    def _total(self):
        """Return the number of data and the concentration together."""
        return self.alpha_ + int(self.counts_[self.tree_.roots].sum())

    # ---- the tree ---------------------------------------------------------------------------------------------------

    def linkage_matrix(self, height: str = "odds") -> npt.NDArray[np.float64]:
        """Return the tree as SciPy's linkage matrix over the leaves; see `HierarchyTree`."""
        self._check_fitted()
        return self.tree_.linkage_matrix(height)

    def to_newick(self, names: Sequence | None = None, *, height: str = "odds") -> str:
        """Return the tree in Newick's format; see `HierarchyTree.to_newick`.

        Parameters
        ----------
        names : sequence, optional
            Names of the rows, or of the leaves; by default `row_names_`, and where there are none the numbers of the
            leaves. Names of the rows of one leaf are joined by "+".
        height : {"odds", "rank"}
            Heights of the nodes, as of `linkage_matrix`.

        Returns
        -------
        str
        """
        self._check_fitted()
        return self.tree_.to_newick(self._leaf_names(names), height=height)

    @property
    @made_on_use
    def leaf_names_(self) -> npt.NDArray[Any]:
        """Return the name of each leaf of a tree whose rows have names: (L,) ndarray of str objects.

        Those of the rows of one leaf are joined by "+".
        """
        self._check_fitted()
        found = self._leaf_names(None)
        if found is None:
            raise AttributeError(
                "BayesianHierarchy has no leaf_names_: the rows of the fit had no names; fit a frame of pandas whose"
                " index has them, or give names to to_newick and DendrogramDisplay.from_estimator"
            )
        return np.array(found, dtype=object)

    def _leaf_names(self, names, *, is_short=False):
        """Return a name for each leaf, or None where there are none."""
        names = getattr(self, "row_names_", None) if names is None else names
        return None if names is None else leaf_names(names, self.leaf_, self.tree_.n_leaves, is_short=is_short)

    def node_params(self, node: int) -> dict[str, np.ndarray]:
        """Return posterior-mean parameters of the cluster of one node: dict of arrays.

        The family names them.
        """
        self._check_fitted()
        if not hasattr(self.family_, "to_params"):
            raise AttributeError(f"family {self.family_.name!r} has no usual parameters (to_params)")
        n, S = self._statistics([node])
        return self.family_.to_params(*self.family_.map_natural(n, S.toarray() if sparse.issparse(S) else S))

    # ---- scikit-learn ------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self):
        return hasattr(self, "tree_")


def _with_settings(kernel, **settings):
    """Return the kernel with some other settings."""
    return type(kernel)(**kernel.get_params() | settings)
