"""Settings of a hierarchy that its evidence chooses, and Ward's tree as a rival of the greedy one."""

import numpy as np

from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess
from expfam.samplers.geometry.coordinates import Rows
from expfam.samplers.hierarchy.kernel import HierarchicalClustering, MergeState, chain_weight
from expfam.structures.ground.rng import generator, resolve_seed
from expfam.structures.merge_table import MergeTable, WardScores

_ALPHAS = np.geomspace(1e-3, 1e3, 13)


def tuned_alpha(data, *, subsample=1000, seed=0, alphas=None):
    """Concentration under which the greedy tree over a subsample has most evidence.

    Parameters
    ----------
    data : Dataset
        Of a bound family.
    subsample : int
        Data used, drawn without replacement.
    seed : None, int, numpy Generator or RandomState
        Chooses them.
    alphas : sequence of float, optional
        To choose from; 13 from 1/1000 to 1000 if not given.

    Returns
    -------
    float

    Examples
    --------
    >>> from expfam import Dataset, Poisson
    >>> from expfam.samplers.hierarchy.tuning import tuned_alpha
    >>> tuned_alpha(Dataset([[0], [1], [40], [41]], Poisson(shape=1.0, rate=0.1)), alphas=[0.01, 1.0, 100.0])
    1.0
    """
    N = data.n_rows
    rows = np.arange(N)
    if subsample < N:
        rows = np.sort(generator(resolve_seed(seed), "subsample").choice(N, subsample, replace=False))
    part = Dataset(data.X[rows], data.family)
    alphas = _ALPHAS if alphas is None else np.asarray(alphas, dtype=np.float64)
    return float(alphas[int(np.argmax([tree_evidence(part, alpha) for alpha in alphas]))])


def tree_evidence(data, alpha):
    """Log evidence of the greedy tree over all data, nats, without log-base."""
    kernel = HierarchicalClustering()
    state = kernel.init(MixtureModel(data.family, DirichletProcess(float(alpha))), data)
    while state.merge():
        pass
    return state.log_joint


def ward_state(model, data, labels=None, *, collapse=False):
    """Ward's tree over the leaves, as a state with the odds of its merges.

    Parameters
    ----------
    model : MixtureModel
        Bound.
    data : Dataset
    labels : (N,) array_like of int, optional
        Leaf of each datum; single data if not given.
    collapse : bool
        Leaves are copies of one datum each, weighed like a chain of merges.

    Returns
    -------
    MergeState

    Notes
    -----
    Ward 1963, in the coordinates of `Rows`: standardised columns, where greedy odds follow scale and shape of each
    cluster. N**2 / 2 distances and more are computed, O(N) memory.
    """
    points = Rows(data).embedding(0, None).astype(np.float64)
    labels = np.arange(data.n_rows) if labels is None else np.asarray(labels)
    first, leaf, n = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)[1:]
    rank = np.argsort(np.argsort(first))  # leaves are numbered by their first datum
    means = np.zeros((len(n), points.shape[1]))
    np.add.at(means, rank[leaf], points)
    sizes = np.empty(len(n))
    sizes[rank] = n
    children, _ = MergeTable(len(n), WardScores(means / sizes[:, None], size=sizes)).run()
    weight = chain_weight(model, data, labels) if collapse else None
    return MergeState.of_children(model, data, children, labels=labels, leaf_weight=weight)
