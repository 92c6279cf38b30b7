"""`BayesianHierarchy`: a tree over the data, its cuts and its predictions, for scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import ClusterMixin
from sklearn.utils.metadata_routing import UNUSED

from expfam.amounts import counted
from expfam.estimators.base import Estimator
from expfam.estimators.family_estimator import FamilyEstimator
from expfam.estimators.leaf_names import leaf_names
from expfam.estimators.loaded import clusters_of_fit, names_of_fit
from expfam.estimators.resumed import kept_fit, seeded_fit
from expfam.estimators.tree_choice import best_tree, warn_of_one_cluster
from expfam.estimators.tree_plan import check_learning, planned_tree, tunes_by_evidence
from expfam.estimators.tree_run import model_of_tree, searched_trees
from expfam.fitted.row_certainty import certainty_of_labels
from expfam.lazy import made_on_use
from expfam.model.assignment import LoadedClusters
from expfam.model.data import Dataset
from expfam.model.weights import DirichletProcess
from expfam.samplers.hierarchy.kernel import HierarchicalClustering, MergeState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from expfam.families.base import Family

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
        with seeded_fit(self, resume):
            plan = planned_tree(self, X, links)
        with kept_fit(self, resume, plan.data, plan.seed, start=plan.start):
            states = searched_trees(self, plan)
        self.order_, best = best_tree(states)
        self._adopt(best, plan.data)
        self.n_scores_ = sum(state.n_scores for state in states.values())
        if self.n_components_ == 1 and self.n_components is None and not self.interrupted_:
            n_rows, tunes = plan.data.n_rows, tunes_by_evidence(self)
            warn_of_one_cluster(self.family_, n_rows=n_rows, tunes=tunes, given=repr(self.family))
        return self

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
        check_learning(self)
        if self.leaves == "clusters":
            raise ValueError("the leaves of a linkage are the rows that it joins: leave out leaves='clusters'")
        data = Dataset(self._validate(X, reset=True), self._family(), names=names_of_fit(self))
        children = np.asarray(Z, dtype=np.float64)[:, :2].astype(np.int64)
        if len(children) != data.n_rows - 1:
            raise ValueError(
                f"a linkage of {counted(data.n_rows, 'row')} has {counted(data.n_rows - 1, 'merge')}; got "
                f"{len(children)}"
            )
        model, seen = model_of_tree(self, data, self._seed())
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
