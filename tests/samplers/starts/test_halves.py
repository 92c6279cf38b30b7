"""Cuts of one cluster in two, and of single columns."""

import numpy as np
import pytest

from expfam import Dataset, DiagonalGaussian, DirichletProcess, Gaussian, MixtureModel, Poisson
from expfam.samplers.geometry.column_cuts import best_cut
from expfam.samplers.geometry.metrics import metrics_of
from expfam.samplers.starts import halves
from expfam.samplers.starts.ascent import ascend
from expfam.samplers.starts.halves import best_halves
from tests.support.tiny import PlainPoisson


def gain_of(column, low):
    """Return what two normal densities gain over one, in the plainest way."""
    n, total = len(column), 0.0
    for side in (column[low], column[~low]):
        total += 0.5 * len(side) * np.log(max(side.var(), 1e-3 * column.var())) - len(side) * np.log(len(side) / n)
    return 0.5 * n * np.log(column.var()) - total


def test_the_best_cut_is_the_best_of_all_cuts():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 3))
    points[:9, 1] += 5.0
    points[:, 2] = np.round(points[:, 2])  # equal values are never cut apart
    best = max(
        (gain_of(points[:, j], points[:, j] < value), j, value)
        for j in range(3)
        for value in np.unique(points[:, j])
        if 2 <= (points[:, j] < value).sum() <= 38
    )
    cut = best_cut(points)
    assert (cut.column, cut.threshold) == best[1:]
    assert cut.gain == pytest.approx(best[0], rel=1e-9)


def test_weights_of_a_cut_are_repeated_rows():
    rng = np.random.default_rng(3)
    points, weight = rng.normal(size=(50, 2)) + 4.0 * (np.arange(50) < 20)[:, None], rng.integers(1, 4, 50)
    one, other = best_cut(points, weight.astype(float)), best_cut(np.repeat(points, weight, axis=0))
    assert one[:2] == other[:2]
    assert one.gain == pytest.approx(other.gain, rel=1e-9)


def test_constant_columns_and_few_rows_are_not_cut():
    assert best_cut(np.ones((10, 3))) is None
    assert best_cut(np.arange(6.0).reshape(3, 2)) is None


@pytest.mark.parametrize("family", [DiagonalGaussian(), Gaussian()])
@pytest.mark.parametrize("n", [300, 5000])
def test_two_groups_told_apart_by_one_column_are_found(family, n):
    rng, y = np.random.default_rng(0), np.arange(n) % 2
    rows = rng.normal(size=(n, 8))
    rows[:, 5] = 1e-3 * (rows[:, 5] + 12.0 * y)
    data = Dataset(rows, family)
    model = MixtureModel(data.family, DirichletProcess())
    ((halves, rise),) = best_halves(model, data, [np.arange(data.n_rows)], seed=0)
    assert np.array_equal(halves == halves[0], y == y[0])
    n_, S = data.statistics(halves, 2)
    whole = data.family.total_log_marginal(*data.statistics(np.zeros(n, int), 1))
    assert rise == pytest.approx(data.family.total_log_marginal(n_, S) - whole, rel=1e-9)


def test_many_rows_of_one_group_are_not_cut():
    data = Dataset(np.random.default_rng(0).normal(size=(5000, 2)), DiagonalGaussian())
    n, S = data.statistics(np.zeros(5000, int), 1)
    family = data.family.fit_hyper(n, S)
    model = MixtureModel(family, DirichletProcess())
    (found,) = best_halves(model, data, [np.arange(data.n_rows)], seed=0)
    if found is None:
        return
    halves, rise = found
    assert rise + model.weights.log_prior(np.bincount(halves)) < model.weights.log_prior([5000])


def test_fewer_than_four_rows_are_not_cut():
    data = Dataset([[0.0], [9.0], [50.0]], DiagonalGaussian())
    assert best_halves(MixtureModel(data.family, DirichletProcess()), data, [np.arange(3)], seed=0) == [None]


@pytest.mark.parametrize("family", [DiagonalGaussian(), Gaussian(), Poisson(), "numpy"])
def test_clusters_that_are_cut_together_are_cut_as_alone(family):
    rng = np.random.default_rng(0)
    centres = rng.uniform(0, 60, (8, 3))
    rows = rng.poisson(centres[np.arange(400) % 8]).astype(float)
    data = Dataset(rows, PlainPoisson() if family == "numpy" else family)
    model = MixtureModel(data.family, DirichletProcess())
    clusters = [np.flatnonzero(np.arange(400) // 80 == k) for k in range(5)]
    together = best_halves(model, data, clusters, seed=0)
    for rows_of_one, found in zip(clusters, together):
        part = data.take(rows_of_one)
        n, S = part.statistics(found.labels, 2)
        whole = part.family.total_log_marginal(*part.statistics(np.zeros(80, int), 1))
        assert found.rise == pytest.approx(part.family.total_log_marginal(n, S) - whole, rel=1e-9)
        assert found.rise > 0.0
        moved = ascend(model, part, found.labels, max_passes=1)
        assert model.log_joint(part, moved) <= model.log_joint(part, found.labels) + 1e-9
    assert np.array_equal(best_halves(model, data, clusters[:1], seed=0)[0].labels, together[0].labels)


# ---- metrics -------------------------------------------------------------------------------------------------------


def test_whitened_columns_are_uncorrelated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    found = metrics_of(Dataset(X, DiagonalGaussian()), seed=0)
    assert set(found) == {"own", "raw", "white"}
    np.testing.assert_allclose(np.cov(found["white"].T, bias=True), np.eye(4), atol=1e-10)
    spread = found["raw"].std(axis=0) / X.std(axis=0)
    np.testing.assert_allclose(spread, spread[0])  # one scale for all columns


def test_metrics_that_tell_nothing_new_are_left_out():
    rng = np.random.default_rng(0)
    assert set(metrics_of(Dataset(rng.normal(size=(500, 1)), DiagonalGaussian()), seed=0)) == {"own"}
    assert set(metrics_of(Dataset(rng.normal(size=(8, 4)), DiagonalGaussian()), seed=0)) <= {"own", "raw"}
    assert set(metrics_of(Dataset(rng.poisson(2, (30, 3)), Poisson()), seed=0)) == {"own", "raw", "log"}


def test_missing_cells_are_at_the_mean_of_the_column():
    X = np.array([[0.0, 100.0], [np.nan, 300.0], [2.0, 200.0], [1.0, np.nan]])
    raw = metrics_of(Dataset(X, DiagonalGaussian(missing=True)), seed=0)["raw"]
    assert np.isfinite(raw).all()
    assert raw[1, 0] == pytest.approx(raw[3, 0])
    assert raw[3, 1] == pytest.approx(raw[2, 1])


def test_first_cuts_are_made_once_for_the_same_rows_at_the_same_place(monkeypatch):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 3)) + 5.0 * (np.arange(90) % 3)[:, None]
    data = Dataset(X, DiagonalGaussian())
    model, clusters = MixtureModel(data.family, DirichletProcess()), [np.arange(60), np.arange(60, 90)]
    other = MixtureModel(data.family.with_hyper(rate=3.0 * data.family.rate), DirichletProcess())
    made = []

    def noted(part, *, seed):
        made.append(part.n_rows)
        return metrics_of(part, seed=seed)

    monkeypatch.setattr(halves, "metrics_of", noted)

    def cut(model, clusters, data, **options):
        found = best_halves(model, data, clusters, seed=1, **options)
        return [(one.labels.tolist(), one.rise) for one in found]

    first = cut(model, clusters, data)
    assert made == [60, 30]
    later = [cut(other, clusters, data), cut(model, clusters[::-1], data), cut(model, clusters, data)]
    assert made == [60, 30, 30, 60]  # at another place of the list the numbers are others
    afresh = Dataset(X, DiagonalGaussian())
    assert later == [cut(other, clusters, afresh), cut(model, clusters[::-1], afresh), first]
    cut(model, clusters, data, by_columns=False)
    assert len(halves._kept[data]) == 6
    monkeypatch.setattr(halves, "_MOST_KEPT", 3)
    cut(model, [np.arange(50)], data)
    assert len(halves._kept[data]) == 1


@pytest.mark.parametrize("seed", range(4))
def test_compiled_gains_are_those_of_weights_of_one(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(60, 20)) + 4.0 * (np.arange(60) < 9 + 5 * seed)[:, None] * (np.arange(20) % 3 == 1)
    points[:, ::5], points[:, 7] = np.round(points[:, ::5]), 1.0
    assert best_cut(points) == best_cut(points, np.ones(60))
    by_column = best_cut(np.asfortranarray(points[:, :3]))  # NumPy adds these in another order
    assert by_column[:2] == best_cut(points[:, :3])[:2]
    assert by_column.gain == pytest.approx(best_cut(points[:, :3]).gain, rel=1e-12)


def test_equal_rows_have_no_cut():
    assert best_cut(np.ones((30, 2))) is None
    assert best_cut(np.array([[0.0], [0.0], [0.0], [1.0]])) is None  # a single row is no side
