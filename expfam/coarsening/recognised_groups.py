"""The groups of a fit's clusters that halves of the rows find again.

A posterior that describes data well has more clusters than people have groups. Groups that are there, rather than
slices of one group, are found again in halves of the rows. The rule of the answer is in `curve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.coarsening.curve import CoarseningCurve, curve_of
from expfam.coarsening.found_again import known_tree
from expfam.coarsening.half_fits import ComparedModel, HalfFit, half_fits, tables_of
from expfam.coarsening.linkages import linkage_of, node_leaves
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.full import Gaussian
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.params import is_auto
from expfam.samplers.starts.greedy_merge import merge_sequence
from expfam.samplers.warm_starts.ties import spread_ties
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from expfam.coarsening.rows import KeptRows
    from expfam.fitting.plan import Asked
    from expfam.protocols import Floats

_MOST_COLUMNS_OF_FULL = 40  # more, and halves have too few rows for covariances
_LITTLE = 1e-6


def groups_found_again(
    models: Sequence[ComparedModel],
    rows: KeptRows,
    sizes: npt.ArrayLike,
    cost_tree: Floats,
    log_joint_of: Callable[[Floats], Floats],
    *,
    classes: npt.NDArray[np.integer] | None = None,
    seed: int,
    n_threads: int | None,
) -> CoarseningCurve:
    """Return how well the cuts of a fit's clusters are found again by halves of its rows.

    Parameters
    ----------
    models : sequence of ComparedModel
        As `models_compared` returns them, that of the fit first.
    rows : KeptRows
        Some rows and their clusters.
    sizes : (K,) array_like
        Of the clusters.
    cost_tree : (K - 1, 4) array
        Merges of the clusters that cost least of the log joint.
    log_joint_of : callable
        Of a linkage: the log joint of each cut, from one cluster to K.
    classes : (K,) int array, optional
        Known class of each cluster, -1 for none.
    seed : int
    n_threads : int or None

    Returns
    -------
    CoarseningCurve
    """
    found = half_fits(models, seed=seed, n_threads=n_threads)
    plain = PlainTree("cost", cost_tree, _cost_tree, log_joint_of)
    return agreement_of_halves(
        found,
        rows.labels,
        rows.data.weight,
        sizes,
        plain,
        own=models[0].model.family.name,
        classes=classes,
        n_threads=n_threads,
    )


class PlainTree(NamedTuple):
    """A tree over the clusters of a fit that needs no other fit.

    Attributes
    ----------
    name : str
    tree : (K - 1, 4) array
    of_half : callable
        Of a `HalfFit`: the same tree over its clusters.
    log_joint_of : callable
        Of a linkage: the log joint of each cut, from one cluster to K.
    """

    name: str
    tree: Floats
    of_half: Callable[[HalfFit], Floats]
    log_joint_of: Callable[[Floats], Floats]


def agreement_of_halves(
    found: list[HalfFit],
    labels: npt.NDArray[np.integer],
    weight: npt.NDArray[np.float64] | None,
    sizes: npt.ArrayLike,
    plain: PlainTree,
    *,
    own: str,
    classes: npt.NDArray[np.integer] | None = None,
    n_threads: int | None,
) -> CoarseningCurve:
    """Return how well the cuts of a fit's clusters are found again by fits of halves.

    Parameters
    ----------
    found : list of HalfFit
        Of the rows, or of the tokens, that `labels` are of.
    labels : (N,) array of int
        Clusters of the fit.
    weight : (N,) array, optional
        How often each of them counts.
    sizes : (K,) array_like
        Of the clusters.
    plain : PlainTree
    own : str
        Name of the family of the fit.
    classes, n_threads
        As in `groups_found_again`.
    """
    sizes = np.asarray(sizes)
    half_trees = trees_of_halves(found, weight, plain, n_threads=n_threads)
    tables = tables_of(labels, len(sizes), found, weight)
    trees = {plain.name: plain.tree, "known": known_tree(_filled(tables, plain.tree), classes)}
    of_classes = 0 if classes is None else len({*np.unique(classes).tolist()} - {-1})
    return curve_of(
        trees,
        tables,
        half_trees,
        is_own=[one.family == own for one in found],
        sizes=sizes,
        log_joint={name: plain.log_joint_of(tree) for name, tree in trees.items()},
        fewest=max(2, of_classes),
    )


def _cost_tree(half):
    return linkage_of(*merge_sequence(half.model, half.n, half.S))


def models_compared(
    model: MixtureModel, data: Dataset, asked: Asked, *, is_left: bool, seed: int
) -> list[ComparedModel]:
    """Return the models whose fits of halves are compared: that of the fit first.

    Where the family was left to the estimator, numbers are fitted with diagonal and with full covariances. Repeated
    values are spread, as the fit has seen them.

    Parameters
    ----------
    model : MixtureModel
        Of the fit.
    data : Dataset
    asked : Asked
        What was asked of the fit.
    is_left : bool
        Whether the family was left to the estimator.
    seed : int
        Seed of the fit, 64 bits.
    """
    own, weights = model.family, model.weights
    learned, adapts = _learned_of_fit(own, asked, is_left=is_left)
    found = [ComparedModel(MixtureModel(own, weights), data, learned, adapts)]
    if is_left and type(own) in (DiagonalGaussian, Gaussian) and 1 < data.n_features <= _MOST_COLUMNS_OF_FULL:
        other = Gaussian() if type(own) is DiagonalGaussian else DiagonalGaussian()
        view = Dataset(data.X, other, weight=data.weight)
        adapts = is_auto(getattr(other, "scale", None))
        found.append(ComparedModel(MixtureModel(view.family, weights), view, asked.learned_of(other), adapts))
    return [one._replace(data=spread_ties(one.data, weights.max_components, seed=seed)) for one in found]


def _learned_of_fit(own, asked, *, is_left):
    """Return names of hyper-parameters that the fit learned, and whether its prior took a shape.

    Values of a bound family do not tell what was left to the fit; of a loaded model that chose its family there is no
    other.
    """
    if is_left and asked.family is own and is_auto(asked.learn_hyper):
        return tuple(own.learned_by_default), hasattr(own, "scale")
    return asked.learned_of(asked.family), is_auto(getattr(asked.family, "scale", None))


def trees_of_halves(
    found: list[HalfFit], weight: npt.NDArray[np.float64] | None, plain: PlainTree, *, n_threads: int | None
) -> list[dict[str, Floats]]:
    """Return both trees over the clusters of each fit of a half."""

    def trees(place):
        one = found[place]
        others = [other for at, other in enumerate(found) if at != place]
        known = known_tree(tables_of(one.labels, one.n_clusters, others, weight))
        return {plain.name: plain.of_half(one), "known": known}

    return run(trees, [(place,) for place in range(len(found))], n_threads)


def _filled(tables, cost_tree):
    """Return the tables without empty rows, which no information has.

    A cluster without a row among those that are looked at gets a millionth of a row, spread as the rows of the smallest
    union of the cost tree that holds it and some rows.
    """
    below = node_leaves(cost_tree).astype(bool)
    of_nodes = below @ tables[0].sum(axis=1)
    found = [table.copy() for table in tables]
    for k in np.flatnonzero(tables[0].sum(axis=1) == 0):
        node = next(node for node in np.flatnonzero(below[:, k]) if of_nodes[node] > 0)
        for table, filled in zip(tables, found):
            filled[k] = _LITTLE * (below[node] @ table) / of_nodes[node]
    return found
