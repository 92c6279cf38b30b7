"""How well halves of the rows find the cuts of two trees over a fit's clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.coarsening.found_again import cut_agreements
from expfam.coarsening.linkages import cut, node_leaves, sums_of_squares
from expfam.frames.new_frames import new_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.protocols import Floats

KEPT_AGREEMENT = 0.9  # of a fit with the halves of its own family, from which it is the answer itself


@dataclass(frozen=True)
class CoarseningCurve:
    """Agreement of halves of the rows on every cut of the trees over a fit's clusters.

    Arrays of a tree have one place for each number of clusters, from one cluster to all K.

    Attributes
    ----------
    trees : dict of str to (K - 1, 4) ndarray
        Linkage matrices: "cost" merges where the log joint falls least, "known" where other fits of halves tell the
        clusters apart least.
    sizes : (K,) ndarray
        Rows of the clusters of the fit.
    agreement, spread : dict of str to (K,) ndarray
        Mean over the fits of halves of the adjusted Rand index with their most similar cut, and its standard deviation.
    score : dict of str to (K,) ndarray
        Agreement times 1 - (sum of squared shares of the rows)**2, which takes away what few groups agree on by chance.
    log_joint : dict of str to (K,) ndarray
        Nats; NaN where statistics are soft.
    own_agreement : float
        Mean adjusted Rand index of the fit with the fits of halves in its own family, as they are.
    tree : str
        Tree of the answer.
    n_clusters : int
        Number of groups of the answer.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Mixture
    >>> X = np.random.default_rng(0).normal(size=(90, 2)) + 20 * np.repeat(np.eye(3, 2), 30, axis=0)
    >>> curve = Mixture(random_state=0).fit(X).coarsening_curve_
    >>> curve.n_clusters, float(curve.agreement[curve.tree][2])
    (3, 1.0)
    """

    trees: dict[str, Floats]
    sizes: npt.NDArray[Any]
    agreement: dict[str, Floats]
    spread: dict[str, Floats]
    score: dict[str, Floats]
    log_joint: dict[str, Floats]
    own_agreement: float
    tree: str
    n_clusters: int

    def home(self, tree: str | None = None, n_clusters: int | None = None) -> npt.NDArray[np.int64]:
        """Return the group of each cluster of the fit, by default in the answer: (K,) int64.

        With `tree` alone, the best cut of that tree is meant.
        """
        if n_clusters is None:
            n_clusters = self.n_clusters if tree in (None, self.tree) else self.best_of(tree or self.tree)
        return cut(self.trees[tree or self.tree], n_clusters)

    def best_of(self, tree: str) -> int:
        """Return the number of groups at which the score of a tree is highest."""
        return 1 + int(np.argmax(self.score[tree]))

    def peaks(self, n: int = 3) -> list[tuple[str, int, float]]:
        """Return the answer and the next best local maxima of the scores: tree, groups, score."""
        found = []
        for name, score in self.score.items():
            padded = np.concatenate([[-np.inf], score, [-np.inf]])
            tops = np.flatnonzero((score >= padded[:-2]) & (score > padded[2:]))
            found += [(name, int(place) + 1, float(score[place])) for place in tops]
        answer = (self.tree, self.n_clusters, float(self.score[self.tree][self.n_clusters - 1]))
        others = sorted((peak for peak in found if peak[1] != self.n_clusters), key=lambda peak: -peak[2])
        return [answer, *others][:n]

    def sizes_of(self, tree: str, n_clusters: int) -> npt.NDArray[Any]:
        """Return the rows of each group of a cut, the largest first."""
        home = cut(self.trees[tree], n_clusters)
        return np.sort(np.bincount(home, weights=self.sizes).astype(self.sizes.dtype))[::-1]

    def frame(self, backend: str = "pandas") -> Any:
        """Return the curve as a frame with one row for each tree and number of groups."""
        K = len(self.sizes)
        names = list(self.trees)
        columns: dict[str, Any] = {"tree": [name for name in names for _ in range(K)]}
        columns["n_clusters"] = np.tile(np.arange(1, K + 1), len(names))
        for key in ("agreement", "spread", "score", "log_joint"):
            columns[key] = np.concatenate([getattr(self, key)[name] for name in names])
        columns["largest"] = np.concatenate([_extreme_sizes(self.trees[name], self.sizes)[0] for name in names])
        columns["smallest"] = np.concatenate([_extreme_sizes(self.trees[name], self.sizes)[1] for name in names])
        chosen = (np.array(columns["tree"]) == self.tree) & (columns["n_clusters"] == self.n_clusters)
        return new_frame({**columns, "is_answer": chosen}, backend=backend)


def curve_of(
    trees: dict[str, Floats],
    tables: Sequence[Floats],
    half_trees: Sequence[dict[str, Floats]],
    *,
    is_own: Sequence[bool],
    sizes: npt.NDArray[Any],
    log_joint: dict[str, Floats],
    fewest: int = 2,
) -> CoarseningCurve:
    """Return the curve of a fit, and its answer.

    Parameters
    ----------
    trees : dict of str to (K - 1, 4) array
        Over the clusters of the fit.
    tables : sequence of (K, K') array
        Rows that they share with the clusters of each fit of a half.
    half_trees : sequence of dict of str to (K' - 1, 4) array
        Over these.
    is_own : sequence of bool
        Which of the halves are of the family of the fit.
    sizes : (K,) array
        Rows, or weights, of the clusters.
    log_joint : dict of str to (K,) array
        Of each cut, from one cluster to K.
    fewest : int
        Least number of groups of the answer, if there are as many clusters.

    Notes
    -----
    The maximum over the cuts of a half does not mind rows that the half splits off earlier or later.
    """
    K = len(sizes)
    agreement, spread, score = {}, {}, {}
    for name, tree in trees.items():
        found = [
            cut_agreements(tree, other, table).max(axis=1)[::-1]
            for table, others in zip(tables, half_trees)
            for other in others.values()
        ]
        total = float(tables[0].sum())
        told = 1.0 - (sums_of_squares(tree, tables[0].sum(axis=1))[::-1] / total**2) ** 2
        agreement[name], spread[name] = np.mean(found, axis=0), np.std(found, axis=0)
        score[name] = told * agreement[name]
    plain = next(iter(trees.values()))
    own = [
        cut_agreements(plain, next(iter(others.values())), table)[0, 0]
        for table, others, is_of_family in zip(tables, half_trees, is_own)
        if is_of_family
    ]
    of_own = float(np.mean(own))
    answer = _answer(score, K, fewest) if of_own < KEPT_AGREEMENT else (next(iter(trees)), K)
    return CoarseningCurve(trees, sizes, agreement, spread, score, log_joint, of_own, *answer)


def _answer(score, K, fewest):
    """Return the tree and the number of groups of the highest score; of ties fewer groups."""
    fewest = min(fewest, K)
    best = {name: fewest + int(np.argmax(of_tree[fewest - 1 :])) for name, of_tree in score.items()}
    name = max(best, key=lambda name: score[name][best[name] - 1])
    return name, best[name]


def _extreme_sizes(tree, sizes):
    """Return the largest and the smallest group of each cut, from one group on."""
    K = len(sizes)
    of_nodes, live = node_leaves(tree) @ sizes, list(range(K))
    found = [(of_nodes[live].max(), of_nodes[live].min())]
    for t, (a, b) in enumerate(tree[:, :2].astype(np.intp).tolist()):
        live = [node for node in live if node not in (a, b)] + [K + t]
        found.append((of_nodes[live].max(), of_nodes[live].min()))
    largest, smallest = np.array(found[::-1]).T
    return largest, smallest
