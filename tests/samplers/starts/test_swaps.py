"""Swaps cut one cluster and merge two others, those that gain most, at an equal number of clusters."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from expfam import Dataset, DiagonalGaussian, DirichletProcess, Gaussian, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.samplers.starts.halves import best_halves
from expfam.samplers.starts.swaps import swapped_partitions

RNG = np.random.default_rng(0)
ANGLES = np.sort(RNG.uniform(0, 2 * np.pi, 240))
RING = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]) * 5.0 + 0.3 * RNG.normal(size=(240, 2))
ARCS = np.digitize(ANGLES, [0.3, 0.6, 2.5, 3.6, 4.8]).astype(np.int32)  # narrow ones and a wide one
COUNTS = sparse.csr_array(RNG.poisson(np.repeat([[9.0, 1.0, 1.0], [1.0, 9.0, 1.0], [1.0, 1.0, 9.0]], 40, axis=0)))
CASES = {
    "diagonal": (DiagonalGaussian(), RING, ARCS, DirichletProcess()),
    "full": (Gaussian(), RING, ARCS, SymmetricDirichlet(6, 1.0)),
    "counts": (Multinomial(), COUNTS, np.repeat([0, 0, 1, 2], [40, 40, 20, 20]), SymmetricDirichlet(3)),
}


def made(name):
    family, X, labels, weights = CASES[name]
    data = Dataset(X, family)
    return MixtureModel(data.family, weights), data, labels


@pytest.mark.parametrize("name", CASES)
def test_the_best_swap_is_that_of_all_pairs(name):
    model, data, labels = made(name)
    K = labels.max() + 1
    clusters = [np.flatnonzero(labels == k) for k in range(K)]
    cuts = best_halves(model, data, clusters, seed=0)
    reached = {}
    for c, cut in enumerate(cuts):
        if cut is None:
            continue
        for a, b in combinations([k for k in range(K) if k != c], 2):
            moved = labels.copy()
            moved[labels == b] = a
            moved[clusters[c][cut.labels == 1]] = b
            reached[c] = max(reached.get(c, -np.inf), model.log_joint(data, moved))
    found = swapped_partitions(model, data, labels, most=2, seed=0)
    expected = sorted(reached.values(), reverse=True)[:2]
    np.testing.assert_allclose([model.log_joint(data, swapped) for swapped in found], expected, atol=1e-8)
    assert all(np.unique(swapped).size == K for swapped in found)


def test_weights_are_multiplicities():
    family, X, labels, weights = CASES["diagonal"]
    family = family.bind(np.repeat(X, 3, axis=0))
    model = MixtureModel(family, weights)
    weighted = swapped_partitions(model, Dataset(X, family, weight=np.full(240, 3.0)), labels, most=1, seed=0)[0]
    repeated = swapped_partitions(model, Dataset(np.repeat(X, 3, axis=0), family), np.repeat(labels, 3), most=1, seed=0)
    np.testing.assert_array_equal(np.repeat(weighted, 3), repeated[0])


def test_few_and_many_clusters_have_no_swaps():
    model, data, labels = made("diagonal")
    assert swapped_partitions(model, data, (labels > 2).astype(np.int32), most=4, seed=0) == []
    assert swapped_partitions(model, data, np.arange(240) % 65, most=4, seed=0) == []
