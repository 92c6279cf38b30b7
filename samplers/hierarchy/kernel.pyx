"""Bayesian hierarchical clustering: each step merges the pair with the best odds.

The scores are the log odds of `HierarchyTree`, from `scores`, `count_scores` or `level_scores`; a `MergeQueue` finds
the best pair with deferred bounds, so the merges are those of the plain search over all pairs, ties included: about
N**2 scores in all, for any family. Diagonal Gaussians leave most of them out by bounds in single precision. Counts have
an inverted index, which finds them with far fewer; and any data may be given a graph of candidates. O(N) memory beside
the statistics of N clusters.

Compiled, although nothing here is fast: Python hears Ctrl-C between its own instructions only, so a merge is made whole
or not at all.
"""

import math

import numpy as np

from expfam.amounts import counted
from expfam.errors import ArchiveError, CapabilityError, DataWarning
from expfam.families.counts.components import CountComponents
from expfam.families.components import Components
from expfam.model.data import Dataset
from expfam.model.partitions import by_first_appearance
from expfam.model.statistics import label_statistics
from expfam.samplers.hierarchy.count_scores import CountScores, IndexPartners
from expfam.samplers.hierarchy.level_scores import LevelScores
from expfam.samplers.hierarchy.bounded_pairs import BoundedPartners, all_partners, partners_from_arrays
from expfam.samplers.hierarchy.pairs import AllPartners, GraphPartners
from expfam.samplers.hierarchy.tree import HierarchyTree
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.hierarchy.scores import OddsScores
from expfam.samplers.geometry.graphs import hash_graph, leaf_graph, neighbour_graph
from expfam.params import Integer, refuse_unused
from expfam.samplers.states.storage import memory_arrays, model_arrays, stored_memory, with_model_arrays
from expfam.samplers.hierarchy.stored_forest import check_forest, check_index, check_partners
from expfam.structures.rows.data_cells import DataCells
from expfam.structures.merging.queue import MergeQueue
from expfam.user_warnings import warn

_GRAPHS = {"knn": neighbour_graph, "hash": hash_graph}
_PARTNERS = {"AllPartners": partners_from_arrays} | {
    kind.__name__: kind.from_arrays for kind in (GraphPartners, IndexPartners)
}
_FEWER = 0.8  # of the leaves are distinct, where copies are looked for in groups
_MANY = 50_000  # leaves whose pairs are scored without a warning


def has_index(family, data):
    """Tell whether an inverted index serves a family: its components must be those of counts."""
    return _counts_as(family, data, ("multinomial", "poisson"))


def scores_of(family, data):
    """Return the class of the scores of a family: `CountScores`, `LevelScores` or `OddsScores`."""
    if has_index(family, data):
        return CountScores
    return LevelScores if _counts_as(family, data, ("categorical",)) else OddsScores


def _counts_as(family, data, models):
    if getattr(family, "count_model", None) not in models:
        return False
    one = Dataset(data.X[:1], family)  # a subclass may have components of its own
    return isinstance(Components(family, one, 1, layout="clusters").owner, CountComponents)


class MergeState:
    """State of a search for a hierarchy: a forest over the data, to which merges are added.

    Parameters
    ----------
    model : MixtureModel
        Its family is bound, and its weights are a Dirichlet process.
    data : Dataset
    labels : (N,) array_like of int
        Leaf of each datum: data of one leaf stay together.
    seed : int
        Not used by the search.
    leaf_weight : (L,) float64 ndarray, optional
        W of the leaves, nats.
    order : {"odds", "odds_size"}
    index : {"exact", "overlap", None}
        As of `HierarchicalClustering`.
    graph : (N, N) sparse matrix, optional
        Candidates.
    n_kept : int
        As of `MergeQueue`.
    n_threads : int or None

    Attributes
    ----------
    scores : OddsScores, CountScores or LevelScores
    partners : AllPartners, BoundedPartners, GraphPartners or IndexPartners
    queue : MergeQueue
    leaf : (N,) int32 ndarray
        Leaf of each datum, numbered by first appearance.
    n_clusters : int
        Trees of the forest.
    n_scores : int
    log_joint : float
        Log evidence of the forest: the bound of `HierarchyTree.log_evidence`, nats, without log-base.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import MergeState
    >>> data = Dataset([[0], [1], [40]], Poisson())
    >>> state = MergeState(MixtureModel(data.family, DirichletProcess()), data, [0, 1, 2], seed=0)
    >>> state.merge()
    True
    >>> state.tree().children
    array([[0, 1]])
    """

    def __init__(
        self,
        model,
        data,
        labels,
        *,
        seed,
        leaf_weight=None,
        order="odds",
        index="exact",
        graph=None,
        n_kept=8,
        n_threads=None,
        n_steps=0,
    ):
        self.model, self.data, self.seed, self.n_steps = model, data, int(seed), n_steps
        self.order, self.stamp, self.memory = order, 0, {}
        self.leaf = by_first_appearance(labels)[1]
        self._start(leaf_weight)
        self.partners = self._partners(index, graph)
        n_threads = n_threads if self.scores.can_fork else 1
        self.queue = MergeQueue(len(self.leaf_weight), self.partners, n_kept=n_kept, n_threads=n_threads)

    def by_size(self, *, n_threads=None):
        """Return the forest of the same leaves for a search in the order "odds_size", or None.

        It is that of the constructor, bit for bit but for bounds of pairs that were left out. All pairs of single data
        are merged into two: their scores are those of the order "odds" less log 2, and are not computed again.

        Parameters
        ----------
        n_threads : int or None
            As of the constructor.

        Returns
        -------
        MergeState or None
            None unless this forest is one of single data in the order "odds" without merges, where all pairs are
            scored by the family.
        """
        is_plain = type(self.scores) is OddsScores and isinstance(self.partners, (AllPartners, BoundedPartners))
        if self.order != "odds" or self.children or not is_plain or max(self.counts) > 1:
            return None
        other = type(self).__new__(type(self))
        other.model, other.data, other.seed, other.n_steps = self.model, self.data, self.seed, self.n_steps
        other.order, other.stamp, other.memory, other.leaf = "odds_size", 0, {}, self.leaf
        other._start(self.leaf_weight)
        other.partners = partners_from_arrays(self.partners.to_arrays(), other.scores)
        n_threads = n_threads if other.scores.can_fork else 1
        other.queue = MergeQueue.shifted(self.queue.to_arrays(), other.partners, float(np.log(2)), n_threads=n_threads)
        return other

    def _start(self, leaf_weight):
        """Set the forest of the leaves, without merges."""
        self.scores = scores_of(self.model.family, self.data)(
            self.model, self.data, self.leaf, leaf_weight=leaf_weight, by_size=self.order == "odds_size"
        )
        alpha, N = self.model.weights.alpha, self.data.n_rows
        self.leaf_weight, self.children = self.scores.weight.copy(), []
        self.log_block, self.counts = self.scores.block.tolist(), self.scores.count.tolist()
        self.ids = list(range(len(self.counts)))  # node in each slot
        self.log_joint = float(self.leaf_weight.sum()) + math.lgamma(alpha) - math.lgamma(alpha + N)

    def _partners(self, index, graph):
        """Make the object that finds the clusters with which a cluster may merge."""
        if graph is not None:
            return GraphPartners(self.scores, leaf_graph(graph, self.leaf))
        if index is not None and isinstance(self.scores, CountScores):
            return IndexPartners(self.scores, with_disjoint=index == "exact")
        group = self._copies()
        loose = np.flatnonzero(group < 0)
        return all_partners(self.scores, loose, loose, n_named=len(group), group=group)

    def _copies(self):
        """Return the group of each leaf among equal single data; -1 for all where few are equal."""
        L = len(self.leaf_weight)
        none = np.full(L, -1)
        if L < self.data.n_rows:
            return none
        rows = getattr(self.scores, "cells", self.data.X)  # they are fewer numbers
        group = DataCells.from_duplicates(rows, phi=np.zeros((L, 1))).group
        return group if group.max() + 1 < _FEWER * L else none

    @classmethod
    def of_children(cls, model, data, children, *, labels=None, leaf_weight=None):
        """Make the state after given merges of the leaves.

        Parameters
        ----------
        model : MixtureModel
        data : Dataset
        children : (M, 2) array_like of int
            Nodes as in `HierarchyTree`.
        labels, leaf_weight
            As of the constructor; single data if not given.
        """
        self = cls.__new__(cls)
        self.model, self.data, self.seed, self.n_steps = model, data, 0, 0
        self.order, self.stamp, self.memory = "odds", 0, {}
        self.leaf = np.arange(data.n_rows, dtype=np.int32) if labels is None else by_first_appearance(labels)[1]
        self.queue = self.partners = None
        self._start(leaf_weight)
        slot = list(range(len(self.ids)))  # of each node
        for i, j in np.asarray(children).tolist():
            if min(i, j) < 0 or max(i, j) >= len(slot) or i == j or slot[i] < 0 or slot[j] < 0:
                raise ValueError(
                    f"merge {len(self.children)} joins nodes {i} and {j}: each must exist by then, and be joined once"
                )
            older, younger = sorted((slot[i], slot[j]))
            self._join(min(i, j), max(i, j), older, younger)
            slot[i] = slot[j] = -1
            slot.append(older)
        return self

    def _join(self, i, j, older, younger):
        """Record the merge of nodes i and j, which are in the slots `older` and `younger`."""
        if isinstance(self.partners, GraphPartners):
            self.partners.foresee(older, younger)
        block, growth = self.scores.absorb(older, younger)
        if self.partners is not None:
            self.partners.absorb(older, younger)
        self.log_block.append(block)
        self.children.append((i, j))
        self.counts.append(self.counts[i] + self.counts[j])
        self.ids[older] = len(self.counts) - 1
        self.log_joint += growth
        self.stamp += 1

    @property
    def n_clusters(self):
        """Return the number of trees of the forest."""
        return len(self.leaf_weight) - len(self.children)

    @property
    def n_scores(self):
        """Return the number of pairs that have been scored so far."""
        return len(self.children) if self.queue is None else self.queue.n_scores

    def merge(self):
        """Merge the pair of clusters with the highest score.

        Returns
        -------
        bool
            False where no pair is left.
        """
        pair = self._best() if self.queue.n_live > 1 else None
        if pair is None:
            return False
        older, younger = pair[:2]
        self._join(self.ids[older], self.ids[younger], older, younger)
        self.queue.merge(older, younger)
        return True

    def _best(self):
        """Return the best pair: of the candidates, or where none are left of all roots."""
        pair = self.queue.best()
        if pair is None and not self.partners.is_wide:
            slots, ids = self.queue.slots, self.queue.ids
            self.partners = all_partners(self.scores, slots, ids, n_named=len(self.counts))
            self.queue.widen(self.partners)
            pair = self.queue.best()
        return pair

    def tree(self):
        """Return the merges so far as a `HierarchyTree` with the leaves 0..L-1."""
        return HierarchyTree(
            self.children, self.log_block, self.counts, alpha=self.model.weights.alpha, leaf_weight=self.leaf_weight
        )

    @property
    def labels(self):
        """Return the cluster of each datum, by the cut of the forest at even odds: (N,) int32."""
        return self.tree().cut("odds")[self.leaf].astype(np.int32)

    @property
    def partition(self):
        """Return `labels`, renumbered by first appearance: (N,) int32."""
        return by_first_appearance(self.labels)[1]

    def statistics(self):
        """Return counts (B,) and sums (B, F) of the clusters of `partition`."""
        labels = self.partition
        return label_statistics(self.data, labels, int(labels.max()) + 1)

    def check(self):
        """Score all live pairs again; compare them with the queue, and the evidence with the tree."""
        self.queue.check(self.partners.score)
        if isinstance(self.partners, GraphPartners):
            self.partners.check()
        tree = self.tree()
        assert np.allclose(tree.log_evidence, self.log_joint, rtol=1e-9, atol=1e-9), "the evidence has drifted"
        live = self.queue.slots
        assert np.array_equal(np.sort(np.asarray(self.ids)[live]), tree.roots), "live slots are not the roots"

    def to_arrays(self):
        """Return all that later merges read, to the bit, as a dict of arrays."""
        return {
            "model": model_arrays(self.model),
            "leaf": self.leaf.copy(),
            "leaf_weight": self.leaf_weight.copy(),
            "children": np.array(self.children, dtype=np.int64).reshape(-1, 2),
            "log_block": np.array(self.log_block),
            "counts": np.array(self.counts, dtype=np.int64),
            "ids": np.array(self.ids, dtype=np.int64),
            "log_joint": np.array(self.log_joint),
            "counters": np.array([self.n_steps, self.stamp], dtype=np.int64),
            "scores": self.scores.to_arrays(),
            "partners": {_stored_name(self.partners): self.partners.to_arrays()},
            "queue": self.queue.to_arrays(),
            "memory": memory_arrays(self.memory),
        }

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned; later merges have the same bits.

        Raises
        ------
        ArchiveError
            Arrays that are not those of such a search over these data.
        """
        forest = check_forest(arrays, self.data.n_rows)
        memory = stored_memory(arrays)
        ((name, found),) = arrays["partners"].items()
        check_partners(name, found, forest)
        self.model = with_model_arrays(self.model, arrays["model"])
        self.leaf = np.ascontiguousarray(arrays["leaf"], dtype=np.int32)
        self._start(np.asarray(arrays["leaf_weight"], dtype=np.float64))
        if any((name in arrays["scores"]) != hasattr(self.scores, name) for name in ("index", "home")):
            raise ArchiveError("the scores are of another kind: the file was altered, or is of other data")
        if hasattr(self.scores, "index"):
            check_index(arrays, self.scores.index.n_terms)
        self.scores.from_arrays(arrays["scores"])
        self.partners = _PARTNERS[name](found, self.scores)
        self.queue = MergeQueue.from_arrays(arrays["queue"], self.partners)
        self.children = [tuple(pair) for pair in np.asarray(arrays["children"]).reshape(-1, 2).tolist()]
        self.log_block, self.counts = arrays["log_block"].tolist(), arrays["counts"].tolist()
        self.ids, self.log_joint = arrays["ids"].tolist(), float(arrays["log_joint"])
        self.n_steps, self.stamp = (int(v) for v in arrays["counters"])
        self.memory = memory

    def as_type(self, state_type):
        """Return the state itself; refuse other types, because a forest is not the state of a chain."""
        if state_type is not MergeState:
            raise CapabilityError(f"a MergeState cannot become a {state_type.__name__}; start one from its `partition`")
        return self


def _stored_name(partners):
    """Return the name under which partners are stored: bounds are made again."""
    return AllPartners.__name__ if isinstance(partners, BoundedPartners) else type(partners).__name__


class HierarchicalClustering(Kernel):
    """Bayesian hierarchical clustering: merges from single data to one tree, best odds first.

    Parameters
    ----------
    order : {"auto", "odds", "odds_size", "best"}
        "odds" merges by the log odds of being one cluster. "odds_size" subtracts the log number of data of the merged
        cluster, which keeps large clusters from taking the data of overlapping neighbours. The odds of a tree are
        defined the same way for both. "best" makes both trees, and Ward's of dense rows without `candidates` that are
        no counts and no categories; the one with most evidence is kept, or Ward's where no other has 2 nats more.
        `BayesianHierarchy` alone takes "best". "auto" is "odds_size" for counts, categories and binary data, else
        "odds"; in a `BayesianHierarchy` it is "best" for real values and for binary data.
    duplicates : {"exact", "collapse"}
        "exact" makes a leaf of each datum, and computes scores of equal data once. "collapse" merges equal data first,
        with the weight of a chain of merges: this is faster still, and may change the tree.
    index : {"exact", "overlap", None}
        For multinomial and Poisson data. An inverted index finds pairs that share a word, and one score stands for all
        leaves of equal size that share none: the merges of "exact" are those of None, which scores all pairs. With
        "overlap" only clusters that share a word merge while there are any, a heuristic. Other families score all.
    candidates : None, "knn", "hash" or (N, N) sparse matrix
        Data whose clusters may merge while there are any, a heuristic with about N `n_neighbors` scores: the nearest
        ones of each, the nearest of those that share a bucket of hash tables, or the edges of a graph. "knn" costs
        less in few columns, "hash" for very many documents or columns; it refuses a single real column. Roots that are
        left are joined by scoring all pairs of them.
    n_neighbors : int
        For "knn" and "hash".
    n_kept : int
        Partners that each cluster remembers; it changes the cost only.
    n_merges : int
        Merges of one step.
    n_threads : int or None
        For the scores of leaves with leaves, and neighbours; the merges are the same for any number.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import HierarchicalClustering, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 3, axis=0)
    >>> kernel = HierarchicalClustering()
    >>> state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), X)
    >>> trace = sample(kernel, state, 1)
    >>> tree = state.tree()
    >>> tree.cut("odds")
    array([0, 0, 0, 1, 1, 1])

    Notes
    -----
    Heller and Ghahramani 2005, "Bayesian hierarchical clustering". The prior on partitions is a Dirichlet process; that
    of a Pitman-Yor process depends on the number of blocks and has no such recursion. ``init(start=labels)`` keeps data
    of one label together: a hierarchy over the clusters of any sampler. Scores are not reducible: a merged cluster may
    suit a third one better than either part, so nearest-neighbour chains find other trees.
    """

    state_type = MergeState
    _constraints = {
        "order": ("auto", "odds", "odds_size"), "duplicates": ("exact", "collapse"),
        "index": ("exact", "overlap", None),
        "n_neighbors": Integer(1), "n_kept": Integer(1), "n_merges": Integer(1),
    }

    def __init__(
        self,
        *,
        order="auto",
        duplicates="exact",
        index="exact",
        candidates=None,
        n_neighbors=10,
        n_kept=8,
        n_merges=256,
        n_threads=None,
    ):
        self.order, self.duplicates, self.index, self.candidates = order, duplicates, index, candidates
        self.n_neighbors, self.n_kept, self.n_merges, self.n_threads = n_neighbors, n_kept, n_merges, n_threads

    def check(self, model, data):
        """Raise an error for settings out of range, and for weights that are no Dirichlet process."""
        if self.order == "best":
            raise ValueError(
                "order='best' makes several trees and keeps the best one: give such a kernel to"
                " BayesianHierarchy(sampler=...), or take order='odds' or 'odds_size'"
            )
        super().check(model, data)
        if isinstance(self.candidates, str) and self.candidates not in _GRAPHS:
            raise ValueError(f"candidates must be None, 'knn', 'hash' or a sparse matrix; got {self.candidates!r}")
        self.refuse_unused()
        if model.weights.max_components is not None or getattr(model.weights, "discount", 0.0) != 0.0:
            raise CapabilityError(
                f"HierarchicalClustering needs the prior of a DirichletProcess; {model.weights!r} is no product over"
                " blocks alone"
            )
        if self.index == "overlap" and not has_index(model.family, data):
            raise CapabilityError(
                f"index='overlap' needs multinomial or Poisson counts; {model.family.name!r} has no such index"
            )

    def refuse_unused(self):
        """Refuse settings of searches that this kernel does not make."""
        if self.candidates is None:
            refuse_unused(self, ["n_neighbors"], why="candidates=None", remedy="take candidates='knn' or 'hash'")
            return
        refuse_unused(self, ["index"], why="a search among candidates", remedy="take candidates=None")
        if not isinstance(self.candidates, str):
            refuse_unused(self, ["n_neighbors"], why="a given graph of candidates", remedy="take 'knn' or 'hash'")

    def init(self, model, data, *, seed=None, start="auto", n_clusters=None):
        """Make the forest of leaves: one for each datum, each distinct datum, or each given label.

        Parameters
        ----------
        model : MixtureModel
        data : Dataset or array_like
        seed : ignored
        start : "auto" or (N,) array_like of int
            Labels of data that must stay together.
        n_clusters : ignored

        Returns
        -------
        MergeState
        """
        if not isinstance(data, Dataset):
            data = Dataset(data, model.family)
            model = model.with_family(data.family)
        if isinstance(start, str) and start != "auto":
            raise ValueError(
                f"a hierarchy starts from its data or from labels; got start={start!r}: write"
                f" {type(self).__name__}().init(model, data), or start=labels"
            )
        if self.duplicates == "collapse":
            if not isinstance(start, str):
                raise ValueError(
                    "duplicates='collapse' makes leaves of its own, and start has labels: write"
                    f" {type(self).__name__}(duplicates='exact')"
                )
            start = DataCells.from_duplicates(data.X, phi=np.zeros((data.n_rows, 1))).group
        elif isinstance(start, str):
            start = np.arange(data.n_rows)
        return super().init(model, data, seed=0, start=start)

    def _order(self, family):
        if self.order != "auto":
            return self.order
        return "odds_size" if family.is_discrete else "odds"

    def init_state(self, model, data, labels, *, seed):
        """Make the state of the leaves, which have not been merged yet."""
        weight = chain_weight(model, data, labels) if self.duplicates == "collapse" else None
        graph = self.candidates
        if isinstance(graph, str):
            graph = _GRAPHS[graph](data, self.n_neighbors, n_threads=self.n_threads)
        if graph is None and not (self.index and has_index(model.family, data)):
            _warn_of_many(len(np.unique(labels)))
        return MergeState(
            model,
            data,
            labels,
            seed=seed,
            leaf_weight=weight,
            order=self._order(model.family),
            index=self.index,
            graph=graph,
            n_kept=self.n_kept,
            n_threads=self.n_threads,
        )

    def move(self, state):
        """Make the next `n_merges` merges; make none where one tree is left."""
        n_merged = 0
        while n_merged < self.n_merges and state.merge():
            n_merged += 1
        return n_merged, n_merged, {"n_scores": state.n_scores}


def _warn_of_many(n_leaves):
    if n_leaves > _MANY:
        warn(
            f"all pairs of {counted(n_leaves, 'leaf', 'leaves')} need {float(n_leaves) ** 2:.1e} scores: "
            f"candidates='knn' needs about {30 * n_leaves:.0e}, and a start of labels makes fewer leaves",
            DataWarning,
        )


def chain_weight(model, data, labels):
    """Return W of leaves that hold copies of one datum: (L,) nats.

    The value is that of merging the copies one after the other.
    """
    labels = by_first_appearance(labels)[1]
    first, counts = np.unique(labels, return_index=True, return_counts=True)[1:]
    phi = data.family.sufficient_statistics(data.X[first])
    alpha = model.weights.alpha

    def block(n, rows):
        """Return C of n copies of the leaves `rows`."""
        A = model.family.log_marginal_of_rows(np.full(len(rows), float(n)), phi[rows] * n)
        return math.log(alpha) + math.lgamma(n) + A

    weight = one = block(1, np.arange(len(first)))
    weight = weight.copy()
    for n in range(2, int(counts.max()) + 1):
        rows = np.flatnonzero(counts >= n)
        weight[rows] = np.logaddexp(block(n, rows), weight[rows] + one[rows])
    return weight
