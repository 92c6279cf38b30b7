"""Steps of nested k-means are, bit for bit, those that NumPy and SciPy make."""

import numpy as np
import pytest
from scipy import sparse

from expfam.samplers.geometry.nearest_means import best_means, cells_of_means, centred_rows, sums_by_mean
from expfam.samplers.geometry.neighbourhood import means_groups
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run


def plain_groups(points, max_group, seed):
    """Groups of nested k-means by NumPy: cells in the order in which they are found."""
    centre = points.mean(axis=0, dtype=np.float64).astype(np.float32)
    group, n_groups, level, waiting = np.zeros(len(points), dtype=np.intp), 0, 0, [np.arange(len(points))]
    while waiting:
        tasks = [(points - centre, rows, max_group, seed, (level << 32) + at) for at, rows in enumerate(waiting)]
        found = run(plain_cells, tasks, 1)  # products of several threads round otherwise
        waiting, level = [], level + 1
        for rows in (rows for cells in found for rows in cells):
            if len(rows) > max_group:
                waiting.append(rows)
            else:
                group[rows], n_groups = n_groups, n_groups + 1
    return group


def plain_cells(points, rows, max_group, seed, unit):
    """Rows of a cell by their nearest means, or in runs where all are equal."""
    if len(rows) <= max_group:
        return [rows]
    k = min(32, len(rows), -(-2 * len(rows) // max_group))
    sample = points[rows[generator(seed, "tables", unit=3, step=unit).permutation(len(rows))[: 64 * k]]]
    means = sample[:k]
    for _ in range(3):
        near = plain_nearest(sample, means)
        n = np.bincount(near, minlength=k).astype(np.float32)
        member = sparse.csr_array((np.ones(len(sample), np.float32), (near, np.arange(len(sample)))), (k, len(sample)))
        means = np.where(n[:, None] > 0, (member @ sample) / np.maximum(n, 1)[:, None], means)
    near = plain_nearest(points[rows], means)
    cells = [rows[near == j] for j in range(k) if (near == j).any()]
    return cells if len(cells) > 1 else np.array_split(rows, k)


def plain_nearest(points, means):
    """Numbers of the nearest means, of equal ones the first."""
    return (points @ means.T - 0.5 * np.einsum("kd,kd->k", means, means)).argmax(axis=1)


@pytest.mark.parametrize("shape", [(3000, 8), (900, 70), (5000, 1), (2000, 2)])
@pytest.mark.parametrize("is_whole", [False, True])  # whole numbers: many equal rows, and rows as near to two means
def test_groups_are_those_of_plain_steps(shape, is_whole):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=shape) if is_whole else rng.normal(size=shape) + 8 * rng.integers(0, 4, (shape[0], 1))
    points = np.ascontiguousarray(X, dtype=np.float32)
    assert np.array_equal(means_groups(points, 60, 5), plain_groups(points, 60, 5))


@pytest.mark.parametrize("k", [1, 7, 16, 17, 32, 33, 256])
def test_the_best_mean_is_the_first_of_the_largest(k):
    rng = np.random.default_rng(k)
    products = rng.integers(0, 5, size=(200, k)).astype(np.float32)
    bias = rng.integers(0, 2, size=k).astype(np.float32)
    expected, found = (products + bias).argmax(axis=1), np.empty(200, dtype=np.uint8)
    best_means(products, bias, found)
    assert np.array_equal(found, expected)
    best_means(np.full((3, k), np.nan, dtype=np.float32), bias, found[:3])
    assert found[:3].max() < k  # rows without a number belong to some mean


def test_rows_sums_and_cells_are_those_of_numpy():
    rng = np.random.default_rng(0)
    points, centre = rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    rows, room = rng.permutation(50)[:30], np.zeros((40, 3), dtype=np.float32)
    centred_rows(points, rows, centre, room)
    assert np.array_equal(room[:30], points[rows] - centre)
    assert not room[30:].any()
    near = rng.choice([0, 2, 3], size=30).astype(np.uint8)
    n, sums = sums_by_mean(room[:30], near, 5)
    assert np.array_equal(n, np.bincount(near, minlength=5))
    np.testing.assert_allclose(sums, [room[:30][near == j].sum(axis=0) for j in range(5)], rtol=1e-5, atol=1e-6)
    cells = cells_of_means(near, rows, 5)
    assert [cell.tolist() for cell in cells] == [rows[near == j].tolist() for j in (0, 2, 3)]


def test_what_does_not_fit_is_refused():
    room, rows, near = np.zeros((4, 3), np.float32), np.arange(5), np.zeros(4, np.uint8)
    with pytest.raises(ValueError, match="rows do not fit"):
        centred_rows(np.zeros((5, 3), np.float32), rows, np.zeros(3, np.float32), room)
    with pytest.raises(ValueError, match="means do not fit"):
        best_means(np.zeros((4, 257), np.float32), np.zeros(257, np.float32), near)
