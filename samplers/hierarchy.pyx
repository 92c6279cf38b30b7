"""Bayesian hierarchical clustering: the pair of clusters with the best odds of being one is merged, again and again.

The scores are the log odds of `HierarchyTree`; a `MergeTable` finds the best pair with deferred bounds, so the merges
are those of the plain search over all pairs, ties included. Any family serves: only the log marginal likelihood of two
clusters together is asked for. About N**2 scores in all, O(N) memory beside the statistics of N clusters.
"""

import math

import numpy as np

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport exp, log1p
from libc.stdint cimport int32_t, int64_t

from expfam.contracts cimport EXPFAM_OK, EXPFAM_PYTHON, components_v1
from expfam.families.components cimport Components
from expfam.structures.merge_table cimport MERGE_NUMERICAL, MERGE_OK, MERGE_PYTHON, merge_scores_v1

from expfam.errors import CapabilityError
from expfam.model.data import Dataset
from expfam.model.statistics import label_statistics
from expfam.samplers.hierarchy_tree import HierarchyTree
from expfam.samplers.kernel import Kernel
from expfam.samplers.state import memory_arrays, model_arrays, with_model_arrays
from expfam.structures.grouping import Grouping
from expfam.structures.merge_table import MergeTable

_ORDERS = ("odds", "odds_size")
_DUPLICATES = ("exact", "collapse")


ctypedef struct odds_state:         # what scores read; slots are those of the components
    components_v1 *c
    double *work
    double *weight                  # (N,) W of the cluster in each slot
    int64_t *count                  # (N,) its data
    const double *log_gamma         # (n_data + 1,)
    const double *log_size          # (n_data + 1,) of a merged cluster, subtracted; zeros for order="odds"
    double log_alpha


cdef int odds_score(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out) noexcept nogil:
    """Log odds that slot k and each of ls are one cluster; sums of two, so the same bits from either side."""
    cdef odds_state *s = <odds_state *> self
    cdef Py_ssize_t i
    cdef int64_t n
    cdef int code = s.c.log_merged(s.c.self, k, ls, m, out, s.work)
    if code != EXPFAM_OK:
        return MERGE_PYTHON if code == EXPFAM_PYTHON else MERGE_NUMERICAL
    for i in range(m):
        n = s.count[k] + s.count[ls[i]]
        out[i] = (s.log_alpha + s.log_gamma[n] + out[i]) - (s.weight[k] + s.weight[ls[i]]) - s.log_size[n]
    return MERGE_OK


cdef class OddsScores:
    """Log odds of merging two clusters, for a `MergeTable`, and the merging itself.

    Parameters
    ----------
    model : MixtureModel
        Its family bound, its weights a Dirichlet process.
    data : Dataset
    labels : (N,) int32 ndarray
        Leaf of each datum, 0..L-1 and none empty.
    leaf_weight : (L,) float64 ndarray or None
        W of the leaves; None for one block each.
    by_size : bool
        Subtract the log number of data of the merged cluster.

    Attributes
    ----------
    capsule : PyCapsule
        ``"expfam.merge_scores_v1"``.
    pending : BaseException or None
    components : Components
        Statistics by slot.
    weight : (L,) float64 ndarray
        W by slot.
    count : (L,) int64 ndarray
        Data by slot.
    block : (L,) float64 ndarray
        Log weight of each leaf as one block, nats.
    """

    cdef readonly object capsule, weight, count, block
    cdef readonly Components components
    cdef odds_state s
    cdef merge_scores_v1 functions
    cdef object log_gamma, log_size

    def __init__(self, model, data, labels, *, leaf_weight, by_size):
        cdef const int32_t[::1] leaf = labels
        L, N = int(labels.max()) + 1, data.n_rows
        self.components = Components(model.family, data, L, layout="clusters")
        self.count = np.bincount(labels, minlength=L).astype(np.int64)
        self.log_gamma = np.array([0.0, *(math.lgamma(n) for n in range(1, N + 1))])
        self.log_size = np.log(np.maximum(np.arange(N + 1), 1)) if by_size else np.zeros(N + 1)
        self.s.log_alpha = math.log(model.weights.alpha)
        self._add(leaf)
        self.block = self.s.log_alpha + self.log_gamma[self.count] + self.components.log_marginal(np.arange(L))
        self.weight = np.array(self.block if leaf_weight is None else leaf_weight, dtype=np.float64)
        self._aim()

    def _add(self, const int32_t[::1] leaf):
        cdef Py_ssize_t i, n_rows = leaf.shape[0]
        cdef int code = EXPFAM_OK
        cdef components_v1 *c = &self.components.c
        with nogil:
            for i in range(n_rows):
                code = c.add(c.self, i, leaf[i])
                if code != EXPFAM_OK:
                    break
        if code != EXPFAM_OK:
            raise self.components.fail(code, i, leaf[i])

    def _aim(self):
        cdef double[::1] weight = self.weight
        cdef const double[::1] log_gamma = self.log_gamma, log_size = self.log_size
        cdef int64_t[::1] count = self.count
        self.s.c, self.s.work = &self.components.c, &self.components.work[0]
        self.s.weight, self.s.count = &weight[0], &count[0]
        self.s.log_gamma, self.s.log_size = &log_gamma[0], &log_size[0]
        self.functions.self = &self.s
        self.functions.score = odds_score
        self.functions.bound = NULL
        self.functions.candidates = NULL
        self.functions.absorb = NULL
        self.capsule = PyCapsule_New(&self.functions, "expfam.merge_scores_v1", NULL)

    @property
    def pending(self):
        """The exception behind a failed score of a family in Python."""
        return getattr(self.components.owner, "pending", None)

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Slot k takes up slot l; returns the log weight of both as one block, nats."""
        cdef double together = 0.0, block, apart, odds
        cdef int code = self.s.c.log_merged(self.s.c.self, k, &l, 1, &together, self.s.work)
        if code == EXPFAM_OK:
            code = self.s.c.absorb(self.s.c.self, k, l)
        if code != EXPFAM_OK:
            raise self.components.fail(code, k, l)
        self.s.count[k] += self.s.count[l]
        self.s.count[l] = 0
        block = self.s.log_alpha + self.s.log_gamma[self.s.count[k]] + together
        apart = self.s.weight[k] + self.s.weight[l]
        odds = block - apart
        self.s.weight[k] = apart + (odds + log1p(exp(-odds)) if odds > 0 else log1p(exp(odds)))
        return block

    def to_arrays(self):
        """Weights, numbers of data and statistics by slot."""
        return {"weight": self.weight.copy(), "count": self.count.copy(), "components": self.components.to_arrays()}

    def from_arrays(self, arrays):
        """Restore what `to_arrays` gave."""
        self.weight[:] = arrays["weight"]
        self.count[:] = arrays["count"]
        self.components.from_arrays(arrays["components"])
        self._aim()


class MergeState:
    """A forest over the data that grows by merges: what a chain's state is to a sampler.

    Parameters
    ----------
    model : MixtureModel
        Its family bound, its weights a Dirichlet process.
    data : Dataset
    labels : (N,) array_like of int
        Leaf of each datum: data of one leaf stay together.
    seed : int
        Not used by the search.
    leaf_weight : (L,) float64 ndarray, optional
        W of the leaves, nats.
    order : {"odds", "odds_size"}
    n_kept : int
        As of `MergeTable`.

    Attributes
    ----------
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

    def __init__(self, model, data, labels, *, seed, leaf_weight=None, order="odds", n_kept=4, n_steps=0):
        self.model, self.data, self.seed, self.n_steps = model, data, int(seed), n_steps
        self.order, self.n_kept, self.stamp, self.memory = order, n_kept, 0, {}
        self.leaf = _by_appearance(labels)
        self._start(leaf_weight)
        self.table = MergeTable(len(self.leaf_weight), self.scores, n_kept=n_kept)

    def _start(self, leaf_weight):
        """The forest of nothing but leaves."""
        self.scores = OddsScores(self.model, self.data, self.leaf, leaf_weight=leaf_weight,
                                 by_size=self.order == "odds_size")
        alpha, N = self.model.weights.alpha, self.data.n_rows
        self.leaf_weight, self.children = self.scores.weight.copy(), []
        self.log_block, self.counts = self.scores.block.tolist(), self.scores.count.tolist()
        self.ids = list(range(len(self.counts)))    # node in each slot
        self.log_joint = float(self.leaf_weight.sum()) + math.lgamma(alpha) - math.lgamma(alpha + N)

    @classmethod
    def of_children(cls, model, data, children):
        """State after given merges of the single data, whoever chose them.

        Parameters
        ----------
        model : MixtureModel
        data : Dataset
        children : (M, 2) array_like of int
            Nodes as in `HierarchyTree`.
        """
        self = cls.__new__(cls)
        self.model, self.data, self.seed, self.n_steps = model, data, 0, 0
        self.order, self.n_kept, self.stamp, self.memory = "odds", 1, 0, {}
        self.leaf, self.table = np.arange(data.n_rows, dtype=np.int32), None
        self._start(None)
        slot = list(range(data.n_rows))             # of each node
        for i, j in np.asarray(children).tolist():
            if not 0 <= min(i, j) or not max(i, j) < len(slot) or i == j or slot[i] < 0 or slot[j] < 0:
                raise ValueError(f"merge {len(self.children)} joins nodes {i} and {j}: each must exist by then, and be"
                                 " joined once")
            older, younger = sorted((slot[i], slot[j]))
            self._join(min(i, j), max(i, j), older, younger)
            slot[i] = slot[j] = -1
            slot.append(older)
        return self

    def _join(self, i, j, older, younger):
        """Write down that nodes i and j, in slots `older` and `younger`, are one."""
        weight = self.scores.weight
        apart = weight[older] + weight[younger]
        self.log_block.append(self.scores.absorb(older, younger))
        self.children.append((i, j))
        self.counts.append(int(self.scores.count[older]))
        self.ids[older] = len(self.counts) - 1
        self.log_joint += float(weight[older] - apart)
        self.stamp += 1

    @property
    def n_clusters(self):
        """Trees of the forest."""
        return len(self.leaf_weight) - len(self.children)

    @property
    def n_scores(self):
        """Pairs scored so far."""
        return self.table.n_scores

    def merge(self):
        """Make the best merge there is.

        Returns
        -------
        bool
            False where no pair is left.
        """
        pair = self.table.best() if self.table.n_live > 1 else None
        if pair is None:
            return False
        k, l, _ = pair
        self._join(self.ids[k], self.ids[l], k, l)
        try:
            self.table.merge(k, l)
        except KeyboardInterrupt:               # heard by a family in Python: a merge is made whole or not at all
            self.table.merge(k, l)
            raise
        return True

    def tree(self):
        """The forest so far, with leaves 0..L-1: HierarchyTree."""
        return HierarchyTree(self.children, self.log_block, self.counts, alpha=self.model.weights.alpha,
                             leaf_weight=self.leaf_weight)

    @property
    def labels(self):
        """Cluster of each datum by the cut of the forest at even odds: (N,) int32 ndarray."""
        return self.tree().cut("odds")[self.leaf].astype(np.int32)

    @property
    def partition(self):
        """`labels` renumbered by first appearance: (N,) int32 ndarray."""
        return _by_appearance(self.labels)

    def statistics(self):
        """Counts (B,) and sums (B, F) of the clusters of `partition`."""
        labels = self.partition
        return label_statistics(self.data, labels, int(labels.max()) + 1)

    def check(self):
        """Score all live pairs anew and compare with what the table believes; recompute the weights from the tree."""
        self.table.check()
        tree = self.tree()
        assert np.allclose(tree.log_evidence, self.log_joint, rtol=1e-9, atol=1e-9), "the evidence has drifted"
        live = self.table.slots
        assert np.array_equal(np.sort(np.asarray(self.ids)[live]), tree.roots), "live slots are not the roots"

    def to_arrays(self):
        """Every bit that a later merge reads, as a dict of arrays."""
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
            "table": self.table.to_arrays(),
            "memory": memory_arrays(self.memory),
        }

    def from_arrays(self, arrays):
        """Restore what `to_arrays` gave; later merges are the same as if nothing had happened."""
        self.model = with_model_arrays(self.model, arrays["model"])
        self.leaf = np.ascontiguousarray(arrays["leaf"], dtype=np.int32)
        self._start(np.asarray(arrays["leaf_weight"], dtype=np.float64))
        self.scores.from_arrays(arrays["scores"])
        self.table = MergeTable.from_arrays(arrays["table"], self.scores)
        self.children = [tuple(pair) for pair in np.asarray(arrays["children"]).reshape(-1, 2).tolist()]
        self.log_block, self.counts = arrays["log_block"].tolist(), arrays["counts"].tolist()
        self.ids, self.log_joint = arrays["ids"].tolist(), float(arrays["log_joint"])
        self.n_steps, self.stamp = (int(v) for v in arrays["counters"])
        self.memory = dict(arrays.get("memory", {}))

    def as_type(self, state_type):
        """Only its own: a forest is not the state of a chain."""
        if state_type is not MergeState:
            raise CapabilityError(f"a MergeState cannot become a {state_type.__name__}; start one from its `partition`")
        return self


class HierarchicalClustering(Kernel):
    """Bayesian hierarchical clustering: merges the pair with the best odds, from single data to one tree.

    Parameters
    ----------
    order : {"odds", "odds_size"}
        By the log odds of being one cluster; or by these less the log number of data of the merged cluster, which keeps
        large clusters from swallowing neighbours where clusters overlap. The odds of a tree are defined the same way
        for both.
    duplicates : {"exact", "collapse"}
        Treat equal data like any others; or merge them first, which is faster and may change the tree.
    n_kept : int
        Partners that each cluster remembers; it changes the cost only.
    n_merges : int
        Merges of one step.

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

    def __init__(self, *, order="odds", duplicates="exact", n_kept=4, n_merges=256):
        self.order, self.duplicates, self.n_kept, self.n_merges = order, duplicates, n_kept, n_merges

    def check(self, model, data):
        """Needs a Dirichlet process."""
        if self.order not in _ORDERS:
            raise ValueError(f"order must be one of {list(_ORDERS)}; got {self.order!r}")
        if self.duplicates not in _DUPLICATES:
            raise ValueError(f"duplicates must be one of {list(_DUPLICATES)}; got {self.duplicates!r}")
        for name in ("n_kept", "n_merges"):
            value = getattr(self, name)
            if value != int(value) or value < 1:
                raise ValueError(f"{name} must be a positive integer; got {value!r}")
        if model.weights.max_components is not None or getattr(model.weights, "discount", 0.0) != 0.0:
            raise CapabilityError(
                f"HierarchicalClustering needs the prior of a DirichletProcess; {model.weights!r} is no product over"
                " blocks alone"
            )

    def init(self, model, data, *, seed=None, start="auto", n_clusters=None):
        """Forest of leaves: one for each datum, for each distinct one, or for each of given labels.

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
            raise ValueError(f"a hierarchy starts from its data or from labels; got start={start!r}")
        if self.duplicates == "collapse":
            if not isinstance(start, str):
                raise ValueError("duplicates='collapse' makes leaves of its own; give labels with duplicates='exact'")
            start = Grouping.from_duplicates(data.X, phi=np.zeros((data.n_rows, 1))).group
        elif isinstance(start, str):
            start = np.arange(data.n_rows)
        return super().init(model, data, seed=0, start=start)

    def init_state(self, model, data, labels, *, seed):
        """State of the leaves."""
        weight = chain_weight(model, data, labels) if self.duplicates == "collapse" else None
        return MergeState(model, data, labels, seed=seed, leaf_weight=weight, order=self.order, n_kept=self.n_kept)

    def move(self, state):
        """The next merges; nothing where one tree is left."""
        n_merged = 0
        while n_merged < self.n_merges and state.merge():
            n_merged += 1
        return n_merged, n_merged, {"n_scores": state.n_scores}


def chain_weight(model, data, labels):
    """W of leaves that hold copies of one datum, as if they were merged one copy after the other: (L,) nats."""
    labels = _by_appearance(labels)
    first, counts = np.unique(labels, return_index=True, return_counts=True)[1:]
    phi = data.family.sufficient_statistics(data.X[first])
    alpha = model.weights.alpha

    def block(n, rows):
        """C of n copies of the leaves `rows`."""
        return math.log(alpha) + math.lgamma(n) + model.family.log_marginal(
            np.full(len(rows), float(n)), np.asarray((phi[rows] * float(n)).todense() if hasattr(phi, "todense")
                                                     else phi[rows] * float(n))
        )

    weight = one = block(1, np.arange(len(first)))
    weight = weight.copy()
    for n in range(2, int(counts.max()) + 1):
        rows = np.flatnonzero(counts >= n)
        weight[rows] = np.logaddexp(block(n, rows), weight[rows] + one[rows])
    return weight


def _by_appearance(labels):
    """Labels renumbered 0.. in the order of their first appearance: (N,) int32."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[inverse]
