"""Starting labels of a run: given ones, checked, or made by a named rule.

A start is a function of the data, the seed and the number of clusters alone; its random numbers have their own
purpose, so it never depends on threads, and random labels of a shard are those of its rows in the whole. Random and
one cost O(N); k-means++ O(N K F) in products of matrices, mostly in single precision; tree the building of a cover
tree; sequential one predictive of every cluster for each datum.
"""

import math
from importlib import import_module
from typing import Any

import numpy as np

from expfam.families.components import Components
from expfam.model.assignment import extended_labels
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.near_names import near_names
from expfam.samplers.geometry.coordinates import SEEDS_AT_ONCE, NearestSeeds, Rows, nearest, squared_distances
from expfam.samplers.starts.kmeans import kmeans_labels
from expfam.samplers.starts.tree import tree_labels
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run, single_blas

_MOST_DEFAULT = 256
_SEEDING_ROWS = 20_000
_MOST_BITS = 30
_PICKED_A_DRAW = 4  # seeds that there are for each row drawn at once


def starting_labels(
    start: Any,
    model: MixtureModel,
    data: Dataset,
    *,
    seed: int,
    n_clusters: int | None = None,
    n_threads: int | None = None,
) -> np.ndarray:
    """Return the cluster in which each datum begins: (N,) int32 ndarray.

    Parameters
    ----------
    start : str, (N,) array_like of int, or object with a method `labels`
        Labels are checked and used as they are; an object with a method `labels` is asked; or a rule by name:

        - "random": uniform over `n_clusters`; some may get no datum;
        - "kmeans++": nearest of `n_clusters` data chosen with probability proportional to squared distance;
        - "kmeans": one run of Lloyd's passes from greedy k-means++ seeds, at most 30, on at most 20 000 + 20 K rows;
        - "tree": exactly `n_clusters` cells of a cover tree of the data;
        - "tree_point": nearest of those cells' centres;
        - "buckets": the sides of random hyperplanes through the middle of the data on which a datum lies, at most
          `n_clusters` different ones;
        - "variational": ten passes of `SparseVariational` from k-means++ with `n_clusters`, merged greedily. It finds
          fewer clusters than that. Rows of counts in many common columns often stay in one cluster;
        - "sequential": one pass in random order, each datum drawn from its predictive given those before it;
        - "one": all in cluster 0;
        - "auto": what `automatic_rule` says, for every kernel.
    model, data : bound MixtureModel and Dataset
    seed : int
    n_clusters : int, optional
        At most N of them are used. If not given, all components of finite weights; for a Dirichlet or Pitman-Yor
        process at most 256, and no more than N/8 of discrete data or sqrt N of real ones: too many clusters of counts
        soon lose their rows, too many clusters of vectors remain. "sequential" opens as many as it draws, up to
        `n_clusters` if that is given.
    n_threads : int or None
        Threads of "kmeans++", "kmeans", "tree" and "tree_point"; the labels do not depend on it.

    Raises
    ------
    ValueError
        For an unknown name, labels that cannot be used, more clusters than the weights allow, or with "tree" and
        "tree_point" more clusters than distinct rows.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers.starts.rules import starting_labels
    >>> model = MixtureModel(Poisson(), DirichletProcess())
    >>> data = Dataset([[0], [1], [30], [31]], model.family)
    >>> labels = starting_labels("kmeans++", model.bind(data), data, seed=0, n_clusters=2)
    >>> labels[0] == labels[1] != labels[2] == labels[3]
    np.True_

    Notes
    -----
    Weights of rows are multiplicities: "kmeans++", "kmeans", "buckets" and "variational" are those of the rows
    repeated. The other rules take each row once. Rows of weight 0 join their most probable cluster at the end.

    "kmeans++": Arthur & Vassilvitskii 2007, the seeds from a random 20 000 + 20 K rows; distances between
    standardised columns of real data, between square roots of counts, whose variance hardly depends on the mean, and
    between other statistics as they are. "tree": see `expfam.samplers.starts.tree`; in the same coordinates.
    """
    if callable(getattr(start, "labels", None)):
        limit = _limit(n_clusters, model.weights)
        return _checked(
            start.labels(model, data, seed=seed, n_clusters=limit, n_threads=n_threads), model.weights, data.n_rows
        )
    if not isinstance(start, str):
        return _checked(start, model.weights, data.n_rows)
    if start == "auto":
        start = automatic_rule(model)
    if start in _GONE:
        raise ValueError(
            f"start={start!r} was a rule of earlier versions and is gone: write start={_GONE[start]!r}, or"
            " Mixture(start='auto'), which searches a start"
        )
    if start not in _RULES and start not in _WARM:
        names = ["auto", *_RULES, *_WARM]
        near = near_names(start, names, _SYNONYMS)
        hint = f": write start={near[0]!r}" if near else ""
        raise ValueError(f"start must be one of {names} or an array of labels; got {start!r}{hint}")
    limit = _limit(n_clusters, model.weights)
    rule = import_module(_WARM[start]).named_start if start in _WARM else _RULES[start]
    counted = data if start in _BLIND else data.counted()
    labels = rule(model, counted, seed, limit, n_threads).astype(np.int32)
    return labels if counted is data else extended_labels(model, counted, labels, data, n_threads=n_threads)


def automatic_rule(model: MixtureModel) -> str:
    """Return the name of the rule that ``start="auto"`` is, for every kernel.

    Discrete data begin at "random": a sequential pass over counts gives most data to the clusters that come first, and
    Gibbs sweeps hardly change that. Real-valued data begin at "kmeans++" where the number of clusters is given, and at
    "variational" where it is open: from the many clusters of k-means++ dozens of sweeps are needed to reach as few.
    Estimators search a start instead, before a kernel begins.

    Parameters
    ----------
    model : MixtureModel

    Examples
    --------
    >>> from expfam import DiagonalGaussian, DirichletProcess, MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers.starts.rules import automatic_rule
    >>> automatic_rule(MixtureModel(DiagonalGaussian(), SymmetricDirichlet(3)))
    'kmeans++'
    >>> automatic_rule(MixtureModel(DiagonalGaussian(), DirichletProcess()))
    'variational'
    >>> automatic_rule(MixtureModel(Poisson(), DirichletProcess()))
    'random'
    """
    if model.family.is_discrete:
        return "random"
    is_open = model.weights.max_components is None
    return "variational" if is_open and "variational" in model.family.capabilities else "kmeans++"


def default_n_clusters(model: MixtureModel, n_rows: int) -> int:
    """Return the number of clusters that a start uses where none is given."""
    if model.weights.max_components is not None:
        return model.weights.max_components
    few = math.ceil(n_rows / 8) if model.family.is_discrete else math.isqrt(max(n_rows - 1, 0)) + 1
    return min(few, _MOST_DEFAULT)


def _limit(n_clusters, weights):
    if n_clusters is None:
        return None
    if n_clusters != int(n_clusters) or n_clusters < 1:
        raise ValueError(f"n_clusters must be an integer of at least 1; got {n_clusters!r}")
    if weights.max_components is not None and n_clusters > weights.max_components:
        raise ValueError(f"n_clusters = {n_clusters} is more than the components of {weights!r}")
    return int(n_clusters)


def _checked(labels, weights, n_rows):
    labels = np.asarray(labels)
    if labels.shape != (n_rows,):
        raise ValueError(f"starting labels must have shape ({n_rows},); got {labels.shape}")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"starting labels must be integers; got dtype {labels.dtype}")
    if labels.min() < 0:
        raise ValueError(f"starting labels must be non-negative; row {int(np.argmin(labels))} holds {labels.min()}")
    limit = n_rows if weights.max_components is None else weights.max_components
    if labels.max() >= limit:
        raise ValueError(
            f"starting labels must be below {limit}, the number of"
            f" {'data' if weights.max_components is None else 'components'}; row {int(np.argmax(labels))} holds"
            f" {labels.max()}: renumber them, np.unique(labels, return_inverse=True)[1]"
        )
    return labels.astype(np.int32)


# ---- rules -----------------------------------------------------------------------------------------------------------


def _one(model, data, seed, limit, n_threads):
    return np.zeros(data.n_rows)


def _random(model, data, seed, limit, n_threads):
    K = limit or default_n_clusters(model, data.n_rows)
    rng = generator(seed, "start")
    rng.bit_generator.advance(data.row_offset // 4)  # a block of the stream is four words, one for each row
    uniform = rng.random(data.row_offset % 4 + data.n_rows)[data.row_offset % 4 :]
    return np.minimum((uniform * K).astype(np.int64), K - 1)


def _sequential(model, data, seed, limit, n_threads):
    weights, N = model.weights, data.n_rows
    rng = generator(seed, "start")
    order, uniform = rng.permutation(N), rng.random(N)
    components = Components(model.family, data, 8)
    counts, labels, B = np.zeros(8), np.empty(N, dtype=np.int64), 0
    for t, i in enumerate(order):
        if counts.size < B + 1:
            counts = np.concatenate([counts, np.zeros(counts.size)])
            components.reserve(counts.size)
        log_p = components.log_predictive(i, np.arange(B + 1))
        log_p[:B] += np.log(counts[:B] + weights.offset)
        log_p[B] += -np.inf if limit is not None and limit <= B else weights.log_new_mass(t, B)[B]
        p = np.cumsum(np.exp(log_p - log_p.max()))
        k = int(np.searchsorted(p, uniform[t] * p[-1], side="right"))
        components.add(i, k)
        counts[k] += 1
        labels[i], B = k, max(B, k + 1)
    return labels


def _kmeans(model, data, seed, limit, n_threads):
    K = min(limit or default_n_clusters(model, data.n_rows), data.n_rows)
    rng = generator(seed, "start")
    rows = Rows(data, n_threads=n_threads)
    chosen = np.sort(rng.permutation(data.n_rows)[: _SEEDING_ROWS + 20 * K])
    weight = None if data.weight is None else data.weight[chosen]
    points = rows.take(chosen)
    picked, found = _distant(points, K, rng, n_threads, weight)
    if chosen.size == data.n_rows:
        return found.index
    seeds = points[picked]
    blocks = rows.blocks(min(seeds.shape[0], SEEDS_AT_ONCE))
    return np.concatenate(run(lambda a, b: nearest(rows.take(slice(a, b)), seeds), blocks, n_threads))


def distant_rows(
    points: Any, K: int, rng: np.random.Generator, n_threads: int | None = None, weight: Any = None
) -> Any:
    """Pick K rows of `points` by D^2 sampling; fewer where there are fewer distinct rows.

    Several rows are drawn at a time, by their distances to the rows picked before. Each is kept with probability equal
    to the share of its distance that the rows kept before it leave. This rejection gives the law of picking one row
    after the other, and the distances of all data can be computed as products of matrices.

    Parameters
    ----------
    points : (N, C) float64 ndarray or CSR
        Coordinates of the rows.
    K : int
    rng : numpy Generator
    n_threads : int or None
        Number of threads; the result does not depend on it.
    weight : (N,) float64 ndarray, optional
        How often each row counts.

    Returns
    -------
    (K, C) ndarray or CSR
        The picked rows of `points`.
    """
    return points[_distant(points, K, rng, n_threads, weight)[0]]


def _distant(points, K, rng, n_threads, weight):
    """Return the numbers of rows picked by D^2 sampling, and the nearest of them of each row."""
    picked = [int(rng.integers(points.shape[0])) if weight is None else _drawn(weight, rng)]
    found = NearestSeeds(points)
    with single_blas():  # the bits of a product must not depend on the number of threads
        found.add(points[picked], n_threads)
        while len(picked) < K:
            total = np.cumsum(found.distance if weight is None else found.distance * weight)
            if total[-1] == 0:
                break
            size = min(max(1, len(picked) // _PICKED_A_DRAW), SEEDS_AT_ONCE, K - len(picked))
            drawn = np.searchsorted(total, rng.random(size) * total[-1], side="right")
            kept = _kept(points[drawn], found.norms[drawn], found.distance[drawn], rng.random(size))
            found.add(points[drawn[kept]], n_threads)
            picked.extend(drawn[kept].tolist())
    return picked, found


def _drawn(weight, rng):
    """Draw a row with the probability of its weight."""
    total = np.cumsum(weight)
    return min(int(np.searchsorted(total, rng.random() * total[-1], side="right")), len(total) - 1)


def _kept(points, norms, distance, uniform):
    """Return the places of the drawn points that stay.

    A point stays with probability equal to the share of its distance that the points before it leave.
    """
    between, left, kept = squared_distances(points, norms, points), distance.copy(), []
    for j in range(len(uniform)):
        if uniform[j] * distance[j] < left[j]:
            kept.append(j)
            left = np.minimum(left, between[j])
            left[j] = 0.0
    return np.array(kept)


def _tree(model, data, seed, limit, n_threads):
    K = limit or default_n_clusters(model, data.n_rows)
    return tree_labels(data, K, seed=seed, name="tree", n_threads=n_threads)


def _tree_point(model, data, seed, limit, n_threads):
    K = limit or default_n_clusters(model, data.n_rows)
    return tree_labels(data, K, seed=seed, name="tree_point", n_threads=n_threads)


def _buckets(model, data, seed, limit, n_threads):
    n_bits = min(_MOST_BITS, int(limit or default_n_clusters(model, data.n_rows)).bit_length() - 1)
    points = Rows(data, n_threads=n_threads).embedding(seed, n_threads)
    # angles at an origin beside the data tell no clusters apart
    points -= points.mean(axis=0, dtype=np.float64) if data.weight is None else _weighted_mean(points, data.weight)
    planes = generator(seed, "start", unit=4).standard_normal((points.shape[1], n_bits))
    with single_blas():
        codes = (points @ planes >= 0) @ (1 << np.arange(n_bits))
    return np.unique(codes, return_inverse=True)[1]


def _weighted_mean(points, weight):
    return np.average(points, axis=0, weights=weight)


def _lloyd(model, data, seed, limit, n_threads):
    return kmeans_labels(data, limit or default_n_clusters(model, data.n_rows), seed=seed, n_threads=n_threads)


_RULES = {
    "random": _random,
    "kmeans++": _kmeans,
    "kmeans": _lloyd,
    "tree": _tree,
    "tree_point": _tree_point,
    "sequential": _sequential,
    "one": _one,
    "buckets": _buckets,
}
_SYNONYMS = {
    **dict.fromkeys(("k_means++", "kmeans_++", "kmeanspp", "plusplus", "++"), ("kmeans++",)),
    **dict.fromkeys(("k_means", "lloyd"), ("kmeans",)),
    **dict.fromkeys(("random_from_data", "uniform"), ("random",)),
    **dict.fromkeys(("single", "together"), ("one",)),
}  # words of other libraries: names of this package
_BLIND = ("random", "one")  # rules that look at no row
_GONE = {"progressive": "variational"}  # rules of earlier versions, and what takes their place
_WARM = {  # rules that run kernels, which stand above this module: imported when they are asked for
    "variational": "expfam.samplers.warm_starts.variational",
}
