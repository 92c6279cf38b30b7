"""How well halves of the rows find the cuts of two trees over a fit's clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.coarsening.found_again import cut_agreements
from expfam.coarsening.linkages import cut, node_leaves, sums_of_squares
from expfam.frames.new_frames import new_frame
from expfam.model.partitions import by_first_appearance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.protocols import Floats

KEPT_AGREEMENT = 0.9  # of a fit with the halves of its own family, from which it is the answer itself
LEAST_AGREEMENT = 1 / 3  # of the best cut with the halves; below it they tell nothing
FEW_CLUSTERS, CLEAR = 5, 3.0  # so few are merged where the score rises by this number of standard errors


@dataclass(frozen=True)
class CoarseningCurve:
    """Agreement of halves of the rows on every cut of the trees over a fit's clusters.

    Arrays of a tree have one place for each number of clusters, from one cluster to all K.

    Attributes
    ----------
    trees : dict of str to (K - 1, 4) ndarray
        Linkage matrices: "cost" merges where the log joint falls least (of topics "words": where their words tell them
        apart least), "known" where other fits of halves tell the clusters apart least.
    sizes : (K,) ndarray
        Rows of the clusters of the fit, or tokens of its topics.
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
    found_again : (K,) ndarray
        Of each cluster of the fit: mean over the fits of halves in its own family of the largest Jaccard index of its
        rows with those of a cluster, or of a union of their first tree. Above a half it is of no other.

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
    found_again: Floats

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
        """Return the answer and the next best local maxima of the scores: tree, groups, score.

        No number of groups is named twice, and no cut that divides the rows as a better one does.
        """
        found = []
        for name, score in self.score.items():
            padded = np.concatenate([[-np.inf], score, [-np.inf]])
            tops = np.flatnonzero((score >= padded[:-2]) & (score > padded[2:]))
            found += [(name, int(place) + 1, float(score[place])) for place in tops]
        answer = (self.tree, self.n_clusters, float(self.score[self.tree][self.n_clusters - 1]))
        numbers: dict[int, tuple[str, int, float]] = {}
        for peak in [answer, *sorted(found, key=lambda peak: -peak[2])]:
            numbers.setdefault(peak[1], peak)
        distinct: dict[bytes, tuple[str, int, float]] = {}
        for peak in numbers.values():
            distinct.setdefault(self._division(peak), peak)
        return list(distinct.values())[:n]

    def _division(self, peak):
        """Return the division of the rows by a cut, whatever clusters without rows it holds."""
        home = cut(self.trees[peak[0]], peak[1])[self.sizes > 0]
        return by_first_appearance(home)[1].tobytes()

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
    The maximum over the cuts of a half does not mind rows that the half splits off earlier or later. The answer is the
    cut of the highest score. It is all K clusters where the halves of the own family agree with them by 0.9, where no
    half agrees with the best cut by a third on average, and of five clusters or fewer where the best score is not
    higher by three standard errors.
    """
    K, rows = len(sizes), tables[0].sum(axis=1)
    found = {name: _agreements(tree, tables, half_trees) for name, tree in trees.items()}
    told = {name: _told_apart(tree, rows) for name, tree in trees.items()}
    plain = next(iter(trees.values()))
    own = [
        cut_agreements(plain, next(iter(others.values())), table)[0, 0]
        for table, others, is_of_family in zip(tables, half_trees, is_own)
        if is_of_family
    ]
    agreement = {name: of_tree.mean(axis=(0, 1)) for name, of_tree in found.items()}
    score = {name: told[name] * agreement[name] for name in trees}
    of_halves = {name: told[name] * of_tree.mean(axis=1) for name, of_tree in found.items()}
    of_own, answer = float(np.mean(own)), _answer(score, K, fewest)
    if of_own >= KEPT_AGREEMENT or not _is_told(answer, agreement, of_halves):
        answer = next(iter(trees)), K
    return CoarseningCurve(
        trees=trees,
        sizes=sizes,
        agreement=agreement,
        spread={name: of_tree.std(axis=(0, 1)) for name, of_tree in found.items()},
        score=score,
        log_joint=log_joint,
        own_agreement=of_own,
        tree=answer[0],
        n_clusters=answer[1],
        found_again=np.mean(
            [
                _best_jaccard(table, next(iter(others.values())))
                for table, others, is_of_family in zip(tables, half_trees, is_own)
                if is_of_family
            ],
            axis=0,
        ),
    )


def _agreements(tree, tables, half_trees):
    """Return agreements of cuts with the most similar one of each tree of a half: (H, trees, K)."""
    return np.array(
        [
            [cut_agreements(tree, other, table).max(axis=1)[::-1] for other in others.values()]
            for table, others in zip(tables, half_trees)
        ]
    )


def _best_jaccard(table, other_tree):
    """Return the largest Jaccard index of each cluster with a node of another tree: (K,)."""
    below = node_leaves(other_tree)
    shared = table @ below.T
    union = table.sum(axis=1)[:, None] + below @ table.sum(axis=0) - shared
    return np.max(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0), axis=1)


def _told_apart(tree, rows):
    """Return 1 - (sum of squared shares of the rows)**2 of each cut: (K,)."""
    return 1.0 - (sums_of_squares(tree, rows)[::-1] / rows.sum() ** 2) ** 2


def _is_told(answer, agreement, of_halves):
    """Return whether halves say enough for a cut to take the place of the fit.

    They must agree on it more than not. A fit of few clusters needs no merging: its score must be lower by three
    standard errors of the difference.
    """
    name, k = answer
    if agreement[name][k - 1] < LEAST_AGREEMENT:
        return False
    scores = next(iter(of_halves.values()))
    if scores.shape[1] > FEW_CLUSTERS:
        return True
    gains = of_halves[name][:, k - 1] - scores[:, -1]
    return len(gains) > 1 and gains.mean() > CLEAR * gains.std(ddof=1) / np.sqrt(len(gains))


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
