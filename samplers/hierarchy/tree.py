"""A binary tree over data as a Bayesian hierarchy: evidence, cuts, linkage, Newick.

With C_k = log alpha + lgamma(n_k) + log marginal likelihood of the data below node k, the weight of a leaf is W = C
and a merge obeys

    log odds of merging i and j into k    s_k = C_k - (W_i + W_j)
    weight                                W_k = log(exp C_k + exp(W_i + W_j)) = W_i + W_j + log(1 + exp s_k).

exp W_k is the sum over all partitions of the data below k that the tree can be cut into. So W of the root is a lower
bound of the evidence of the Dirichlet process mixture, and it compares trees. Everything costs O(N), except the cut
into a given number of clusters, which costs O(N K).
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import ResourceError
from expfam.model.partitions import by_first_appearance

MOST_SHARES = 1 << 28  # numbers of 4 bytes that the cut into a given number of clusters may keep


class HierarchyTree:
    """Merges of N leaves with the log odds of each; a forest where the search ended early.

    Parameters
    ----------
    children : (M, 2) array_like of int
        Nodes joined by each merge; leaves are 0..N-1, the t-th merge makes node N + t.
    log_block : (N + M,) array_like of float
        C_k of each node: log weight of its data as one block, nats.
    counts : (N + M,) array_like of int
        Data below each node; a leaf may stand for several.
    alpha : float
        Concentration of the Dirichlet process.
    leaf_weight : (N,) array_like of float, optional
        W of the leaves; their C if not given.

    Attributes
    ----------
    children, log_block, counts
        As given, read-only.
    log_odds : (M,) float64 ndarray
        s of each merge, nats; positive where one cluster is more probable than the two sides' best cuts together.
    log_weight : (N + M,) float64 ndarray
        W of each node, nats.
    roots : ndarray of int
        Nodes without a parent, ascending.
    log_evidence : float
        Lower bound of the log evidence of the Dirichlet process mixture, nats, without log-base.

    Raises
    ------
    ValueError
        If `children` is not a forest over the leaves.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.hierarchy.tree import HierarchyTree
    >>> tree = HierarchyTree([[0, 1], [2, 3]], [-2.0, -2.0, -2.0, -3.0, -9.0], [1, 1, 1, 2, 3], alpha=1.0)
    >>> tree.log_odds.round(2)
    array([ 1.  , -4.31])
    >>> tree.cut("odds")
    array([0, 0, 1])

    Notes
    -----
    Heller and Ghahramani 2005, "Bayesian hierarchical clustering". The paper's r_k is the logistic function of the log
    odds; it rounds to one above 37 nats, so nothing here is ordered by it.
    """

    def __init__(
        self,
        children: npt.ArrayLike,
        log_block: npt.ArrayLike,
        counts: npt.ArrayLike,
        *,
        alpha: float,
        leaf_weight: npt.ArrayLike | None = None,
    ) -> None:
        self.children = np.array(children, dtype=np.int64).reshape(-1, 2)
        self.log_block = np.array(log_block, dtype=np.float64)
        self.counts = np.array(counts, dtype=np.int64)
        self.alpha = float(alpha)
        self.n_leaves = len(self.log_block) - len(self.children)
        self.parent = _parents(self.children, self.n_leaves)
        if self.counts.shape != self.log_block.shape:
            raise ValueError(f"{counted(len(self.log_block), 'node has', 'nodes have')} {self.counts.shape} counts")
        leaves = self.log_block[: self.n_leaves] if leaf_weight is None else np.asarray(leaf_weight, dtype=np.float64)
        self.log_weight, self.log_odds = _recursion(self.children, self.log_block, leaves)
        for array in (self.children, self.log_block, self.counts, self.parent, self.log_weight, self.log_odds):
            array.setflags(write=False)

    @property
    def n_nodes(self) -> int:
        """Return the number of leaves and merges."""
        return len(self.log_block)

    @property
    def roots(self) -> np.ndarray:
        """Return the nodes without a parent, ascending."""
        return np.flatnonzero(self.parent < 0)

    @property
    def log_evidence(self) -> float:
        """Return the log of the sum over all cuts under the Dirichlet process prior: nats."""
        n_data = int(self.counts[self.roots].sum())
        return float(self.log_weight[self.roots].sum()) - math.lgamma(self.alpha + n_data) + math.lgamma(self.alpha)

    def __repr__(self):
        return (
            f"HierarchyTree({counted(self.n_leaves, 'leaf', 'leaves')}, {counted(len(self.roots), 'root')}, "
            f"log_evidence={self.log_evidence:.6g})"
        )

    # ---- posterior of nodes ------------------------------------------------------------------------------------------

    def log_posterior(self) -> np.ndarray:
        """Return the log probability that each node is a block of the partition: (N + M,) nats.

        The data and the tree are given.
        """
        passed = np.zeros(self.n_nodes)  # log probability that no ancestor is a block
        stays, splits = -np.logaddexp(0.0, -self.log_odds), -np.logaddexp(0.0, self.log_odds)
        for t in range(len(self.children) - 1, -1, -1):
            passed[self.children[t]] = passed[self.n_leaves + t] + splits[t]
        passed[self.n_leaves :] += stays
        return passed

    # ---- cuts --------------------------------------------------------------------------------------------------------

    def cut(self, rule: str = "odds", *, threshold: float = 0.0, n_clusters: int | None = None) -> np.ndarray:
        """Cut the tree into clusters; return the labels of the leaves, numbered by first appearance.

        Parameters
        ----------
        rule : {"odds", "map"}
            "odds" takes the highest nodes whose log odds reach `threshold`. "map" takes the most probable partition
            that the tree can be cut into; it is never finer than the cut by odds with threshold 0.
        threshold : float
            Nats, for "odds".
        n_clusters : int, optional
            In place of a rule: the most probable cut into exactly this number of clusters.

        Returns
        -------
        (N,) int64 ndarray

        Raises
        ------
        ValueError
            For an unknown rule, or a number of clusters that no cut has.
        ResourceError
            Where the cut into a given number would need more than 1 GiB.
        """
        if n_clusters is not None:
            blocks = self._exact_cut(n_clusters)
        elif rule == "odds":
            blocks = self._highest(self.log_odds >= threshold)
        elif rule == "map":
            blocks = self._highest(self._map_blocks())
        else:
            raise ValueError(f"rule must be 'odds' or 'map'; got {rule!r}")
        return self._labels(blocks)

    def _highest(self, is_block):
        """Return the nodes of the cut: the highest blocks, and the leaves that lie below no block."""
        inside = np.zeros(self.n_nodes, dtype=bool)  # below a node that was taken
        taken = np.zeros(self.n_nodes, dtype=bool)
        for t in range(len(self.children) - 1, -1, -1):
            node = self.n_leaves + t
            taken[node] = is_block[t] and not inside[node]
            inside[self.children[t]] = taken[node] or inside[node]
        taken[: self.n_leaves] = ~inside[: self.n_leaves]
        return np.flatnonzero(taken)

    def _map_blocks(self):
        best = self.log_block.copy()
        is_block = np.zeros(len(self.children), dtype=bool)
        for t, (i, j) in enumerate(self.children.tolist()):
            node, split = self.n_leaves + t, best[i] + best[j]
            is_block[t] = best[node] >= split
            best[node] = max(best[node], split)
        return is_block

    def _labels(self, blocks):
        """Number the leaves by the block above them, and the blocks by their first leaf."""
        block = np.full(self.n_nodes, -1, dtype=np.int64)
        block[blocks] = blocks
        for t in range(len(self.children) - 1, -1, -1):
            if block[self.n_leaves + t] >= 0:
                block[self.children[t]] = block[self.n_leaves + t]
        return by_first_appearance(block[: self.n_leaves])[1].astype(np.int64)

    def _exact_cut(self, n_clusters):
        """Return the blocks of the best cut into exactly `n_clusters`.

        Best values of each node by number of blocks are computed from the leaves up.
        """
        roots = self.roots
        if n_clusters != int(n_clusters) or not len(roots) <= n_clusters <= self.n_leaves:
            raise ValueError(
                f"n_clusters must be an integer from {len(roots)}, the number of roots, to {self.n_leaves},"
                f" that of leaves; got {n_clusters!r}"
            )
        n_clusters = int(n_clusters)
        if self.n_leaves * n_clusters > MOST_SHARES:
            raise ResourceError(
                f"the best cut of {counted(self.n_leaves, 'leaf', 'leaves')} into exactly "
                f"{counted(n_clusters, 'cluster')} would need up to {4 * self.n_leaves * n_clusters >> 20} MiB; cut by "
                "odds, or ask for fewer"
            )
        values = {k: np.array([self.log_block[k]]) for k in range(self.n_leaves)}
        left = {}  # blocks that the first child gets, by node and number of blocks
        for t, (i, j) in enumerate(self.children.tolist()):
            node = self.n_leaves + t
            best, left[node] = _join(values.pop(i), values.pop(j), n_clusters)
            values[node] = np.concatenate([[self.log_block[node]], best])[:n_clusters]
        shares = _shares([values[int(r)] for r in roots], n_clusters)
        blocks, pending = [], list(zip(roots.tolist(), shares))
        while pending:
            node, share = pending.pop()
            if share == 1:
                blocks.append(node)
                continue
            first = int(left[node][share - 2])
            i, j = self.children[node - self.n_leaves].tolist()
            pending += [(i, first), (j, share - first)]
        return np.array(sorted(blocks))

    # ---- other forms -------------------------------------------------------------------------------------------------

    def linkage_matrix(self, height: str = "odds") -> np.ndarray:
        """Return the tree as SciPy's linkage matrix, valid and monotone: (N - 1, 4) float64.

        Parameters
        ----------
        height : {"odds", "rank"}
            "odds" is -log r = log(1 + exp(-log odds)), raised to the height of the children where a later merge has
            better odds. "rank" is the number of the merge; take it where most heights by odds are zero.

        Notes
        -----
        ``scipy.cluster.hierarchy.fcluster(Z, log(2), "distance")`` keeps a node only if all below it have log odds of 0
        or more: it refines ``cut("odds")``, and differs from it only where log odds rise through zero on the way up.
        """
        if len(self.roots) > 1:
            raise ValueError(f"a linkage matrix needs one root; this forest has {len(self.roots)}")
        if height not in ("odds", "rank"):
            raise ValueError(f"height must be 'odds' or 'rank'; got {height!r}")
        N, M = self.n_leaves, len(self.children)
        heights = np.logaddexp(0.0, -self.log_odds) if height == "odds" else np.arange(1.0, M + 1.0)
        sizes = np.ones(self.n_nodes, dtype=np.int64)
        for t, (i, j) in enumerate(self.children.tolist()):
            below = [heights[c - N] for c in (i, j) if c >= N]
            heights[t] = max([heights[t], *below])
            sizes[N + t] = sizes[i] + sizes[j]
        order = np.argsort(heights, kind="stable")
        rank = np.arange(self.n_nodes)
        rank[N + order] = N + np.arange(M)
        pairs = np.sort(rank[self.children[order]], axis=1)
        return np.column_stack([pairs, heights[order], sizes[N + order]]).astype(np.float64)

    def to_newick(self, names: Sequence[str] | None = None, *, height: str = "odds") -> str:
        """Return the forest in Newick's format, one line for each tree.

        Branch lengths are differences of linkage heights.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the leaves; if not given, their numbers. Names are quoted where the format requires it.
        height : {"odds", "rank"}
            Heights of the nodes, as of `linkage_matrix`.

        Returns
        -------
        str
        """
        names = [str(k) for k in range(self.n_leaves)] if names is None else [_quoted(str(name)) for name in names]
        if len(names) != self.n_leaves:
            raise ValueError(f"{counted(len(names), 'name')} for {counted(self.n_leaves, 'leaf', 'leaves')}")
        heights = np.zeros(self.n_nodes)
        own = np.logaddexp(0.0, -self.log_odds) if height == "odds" else np.arange(1.0, len(self.children) + 1.0)
        parts = dict(enumerate(names))
        for t, (i, j) in enumerate(self.children.tolist()):
            node = self.n_leaves + t
            heights[node] = max(own[t], heights[i], heights[j])
            sides = ",".join(f"{parts.pop(c)}:{heights[node] - heights[c]:.6g}" for c in (i, j))
            parts[node] = f"({sides})"
        return "\n".join(f"{parts[int(r)]};" for r in self.roots)

    def path(self, leaf: int) -> list[int]:
        """Return the nodes from a leaf up to its root, the leaf first."""
        if not 0 <= leaf < self.n_leaves:
            raise IndexError(f"leaf {leaf} does not exist: there are {self.n_leaves}")
        nodes = [int(leaf)]
        while self.parent[nodes[-1]] >= 0:
            nodes.append(int(self.parent[nodes[-1]]))
        return nodes

    def leaves(self, node: int) -> np.ndarray:
        """Return the leaves below a node, ascending: (m,) int64."""
        if not 0 <= node < self.n_nodes:
            raise IndexError(f"node {node} does not exist: there are {self.n_nodes}")
        found, pending = [], [int(node)]
        while pending:
            k = pending.pop()
            if k < self.n_leaves:
                found.append(k)
            else:
                pending += self.children[k - self.n_leaves].tolist()
        return np.array(sorted(found), dtype=np.int64)


def _parents(children, n_leaves):
    if n_leaves < 1:
        raise ValueError(
            f"{counted(len(children), 'merge leaves', 'merges leave')} {counted(n_leaves, 'leaf', 'leaves')} of the "
            "nodes given"
        )
    nodes, merge = children.ravel(), np.repeat(np.arange(len(children)), 2)
    wrong = (nodes < 0) | (nodes >= n_leaves + merge)
    is_again = np.ones(len(nodes), dtype=bool)
    is_again[np.unique(nodes, return_index=True)[1]] = False
    if (wrong | is_again).any():
        t = merge[np.argmax(wrong | is_again)]
        raise ValueError(f"merge {t} joins nodes {children[t].tolist()}: each must exist by then, and be joined once")
    parent = np.full(n_leaves + len(children), -1, dtype=np.int64)
    parent[nodes] = n_leaves + merge
    return parent


def _recursion(children, log_block, leaf_weight):
    """Return W of all nodes and the log odds of all merges."""
    # plain floats: several times faster than elements of an array
    N = len(leaf_weight)
    block, weight, odds = log_block.tolist(), leaf_weight.tolist(), []
    for t, (i, j) in enumerate(children.tolist()):
        apart = weight[i] + weight[j]
        score = block[N + t] - apart
        odds.append(score)
        weight.append(apart + (score + math.log1p(math.exp(-score)) if score > 0 else math.log1p(math.exp(score))))
    return np.array(weight), np.array(odds)


def _join(first, second, most):
    """Return the best sums of two sides by number of blocks 2.., and the first side's share.

    The cost is the product of both sizes.
    """
    if len(first) > len(second):
        best, share = _join(second, first, most)
        return best, np.arange(2, len(share) + 2, dtype=np.int32) - share
    size = min(len(first) + len(second), most) - 1
    best, share = np.full(max(size, 0), -np.inf), np.zeros(max(size, 0), dtype=np.int32)
    for m, value in enumerate(first[:size].tolist()):  # m + 1 blocks on the first side
        reach = second[: size - m] + value
        better = reach > best[m : m + len(reach)]
        best[m : m + len(reach)][better] = reach[better]
        share[m : m + len(reach)][better] = m + 1
    return best, share


def _shares(values, n_clusters):
    """Return the number of blocks of each root in the best cut into `n_clusters` in all."""
    total, history = values[0], []
    for side in values[1:]:
        before = total
        best, share = _join(before, side, n_clusters)
        total = np.concatenate([[-np.inf], best])
        history.append(share)
    shares, rest = [], n_clusters
    for share in reversed(history):
        first = int(share[rest - 2])
        shares.append(rest - first)
        rest = first
    return [rest, *reversed(shares)]


def _quoted(name):
    return name if name and not set(name) & set(" ()[]':;,\t\n") else "'" + name.replace("'", "''") + "'"
