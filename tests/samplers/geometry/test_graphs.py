"""Graphs of neighbours of sparse counts are those of all products, sorted."""

import numpy as np
import pytest
from scipy import sparse

from expfam import Dataset, Multinomial
from expfam.errors import DataWarning
from expfam.samplers.geometry.graphs import _points, neighbour_graph


def by_sorting(points, k):
    """The k other rows of the largest products with each row, ties by number; only rows that share a word."""
    near = (points @ points.T).toarray()
    shared = ((points != 0).astype(int) @ (points != 0).astype(int).T).toarray() > 0
    np.fill_diagonal(shared, False)
    return [sorted(np.lexsort((np.flatnonzero(own), -row[own]))[:k].tolist()) for row, own in zip(near, shared)], shared


@pytest.mark.parametrize("k", [1, 3, 10, 79])
def test_neighbours_of_counts_are_the_largest_products(k):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.03, size=(80, 70))
    X[40:50] = X[:10]  # copies: equal products
    X[60:64] = 0  # rows without words have no neighbours
    X[64:70, 0] = 1
    with pytest.warns(DataWarning, match="rows are empty"):
        data = Dataset(sparse.csr_array(X), Multinomial())
    graph = neighbour_graph(data, k, n_threads=1)
    expected, shared = by_sorting(_points(data, 1), k)
    for i in range(80):
        found = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        assert sorted(found.tolist()) == np.flatnonzero(shared[i])[expected[i]].tolist()
    assert not np.diff(graph.indptr)[60:64].any()
