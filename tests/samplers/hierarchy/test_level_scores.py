"""Scores of categorical clusters by their cells off the most frequent levels are those of the evidence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from expfam import Categorical, Dataset, DirichletProcess, MixtureModel
from expfam.families.counts.off_cells import off_cells
from expfam.samplers import HierarchicalClustering
from expfam.samplers.hierarchy import kernel as hierarchy
from expfam.samplers.hierarchy.level_scores import LevelScores
from expfam.samplers.hierarchy.scores import OddsScores


def nearly_constant(n_rows, n_columns, *, off=0.05, missing=0.02, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.integers(4, size=n_columns)
    X = np.where(rng.random((n_rows, n_columns)) < off, rng.integers(4, size=(n_rows, n_columns)), base)
    return np.where(rng.random(X.shape) < missing, -1, X)


def scores_of(family, X, labels, *, leaf_weight=None, kind=LevelScores):
    data = Dataset(X, family)
    model = MixtureModel(data.family, DirichletProcess(0.7)).bind(data)
    return data, kind(model, data, np.asarray(labels, dtype=np.int32), leaf_weight=leaf_weight, by_size=False)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 1.0), st.floats(0.0, 0.7), st.floats(-3.0, 3.0))
def test_scores_are_those_of_the_evidence(seed, off, missing, scale):
    rng = np.random.default_rng(seed)
    X = nearly_constant(40, 7, off=off, missing=missing, seed=seed)
    levels = np.full(7, 4)
    family = Categorical(n_levels=levels, concentration=10.0**scale * rng.gamma(1.0, size=28) + 1e-9)
    labels = np.concatenate([np.arange(6), rng.integers(6, size=34)])
    data, scores = scores_of(family, X, labels)
    scores.absorb(0, 3)
    labels[labels == 3] = 0
    n, S = data.statistics(labels, 6)
    S, live = S.toarray(), np.array([0, 1, 2, 4, 5])
    for k in live:
        others = live[live != k]
        together = data.family.log_marginal(n[k] + n[others], S[k] + S[others])
        expected = np.log(0.7) + gammaln(n[k] + n[others]) + together - scores.weight[k] - scores.weight[others]
        np.testing.assert_allclose(scores.score(k, others), expected, rtol=1e-9, atol=1e-9)
        assert [scores.score(l, [k])[0] for l in others] == scores.score(k, others).tolist()


def test_large_clusters_and_tiny_pseudo_counts_neither_overflow_nor_lose_digits():
    X = nearly_constant(6000, 30, off=0.4)
    labels = np.repeat(np.arange(4), [3000, 2990, 9, 1])
    for concentration in (1e-90, 0.3, 1e8):
        data, scores = scores_of(Categorical(concentration=concentration), X, labels)
        n, S = data.statistics(labels, 4)
        S, others = S.toarray(), np.arange(1, 4)
        together = data.family.log_marginal(n[0] + n[others], S[0] + S[others])
        expected = np.log(0.7) + gammaln(n[0] + n[others]) + together - scores.weight[0] - scores.weight[others]
        np.testing.assert_allclose(scores.score(0, others), expected, rtol=1e-8, atol=1e-6)


def test_trees_are_those_of_plain_scores(monkeypatch):
    X = np.concatenate([nearly_constant(40, 60, seed=s) for s in range(3)])
    trees = {}
    for kind in (LevelScores, OddsScores):
        monkeypatch.setattr(hierarchy, "LevelScores", kind)
        data = Dataset(X, Categorical())
        state = HierarchicalClustering().init(MixtureModel(data.family, DirichletProcess()), data)
        assert type(state.scores) is kind
        while state.merge():
            pass
        trees[kind] = state.tree()
    assert np.array_equal(trees[LevelScores].children, trees[OddsScores].children)
    np.testing.assert_allclose(trees[LevelScores].log_evidence, trees[OddsScores].log_evidence, rtol=1e-10)


def test_scores_that_are_read_back_are_the_same_bits():
    X = nearly_constant(30, 20)
    _, scores = scores_of(Categorical(), X, np.arange(30))
    for k, l in ((1, 5), (0, 1), (7, 9)):
        scores.absorb(k, l)
    _, again = scores_of(Categorical(), X, np.arange(30))
    again.from_arrays(scores.to_arrays())
    live = np.setdiff1d(np.arange(30), [1, 5, 9])
    for k in live:
        assert np.array_equal(scores.score(k, live), again.score(k, live))
    assert scores.absorb(0, 7) == again.absorb(0, 7)


def test_scores_kept_from_earlier_merges_are_never_used_again():
    X = nearly_constant(24, 30, off=0.3)
    _, scores = scores_of(Categorical(), X, np.arange(24))
    live = np.arange(24)
    for k, l in ((0, 1), (0, 2), (5, 6), (0, 5), (7, 8), (7, 0)):
        for slot in live:
            scores.score(slot, live)
        scores.absorb(k, l)
        live = live[live != l]
        _, fresh = scores_of(Categorical(), X, np.arange(24))
        fresh.from_arrays(scores.to_arrays())
        other = scores.fork()
        for slot in live:
            expected = fresh.score(slot, live)
            assert np.array_equal(scores.score(slot, live), expected)
            assert np.array_equal(other.score(slot, live), expected)


def test_a_cluster_that_has_grown_is_computed_anew_at_the_same_number_of_rows():
    """Three rows and one are as many as two and two."""
    X = nearly_constant(24, 30, off=0.3)
    _, scores = scores_of(Categorical(), X, np.arange(24))
    for k, l in ((0, 1), (0, 2), (3, 4)):
        scores.absorb(k, l)
    scores.score(0, [9])
    scores.absorb(9, 10)
    _, fresh = scores_of(Categorical(), X, np.arange(24))
    fresh.from_arrays(scores.to_arrays())
    assert scores.score(3, [9]) == fresh.score(3, [9])


def test_leaves_that_belong_to_other_clusters_are_refused():
    from expfam.errors import ArchiveError

    data = Dataset(nearly_constant(12, 5), Categorical())
    model = MixtureModel(data.family, DirichletProcess())
    state = HierarchicalClustering().init(model, data)
    state.merge()
    arrays = state.to_arrays()
    arrays["scores"]["home"] = np.arange(12)
    other = HierarchicalClustering().init(model, data)
    with pytest.raises(ArchiveError, match="leaves are of other clusters"):
        other.from_arrays(arrays)


def test_off_cells_are_those_of_a_loop_and_do_not_depend_on_blocks(monkeypatch):
    from expfam.families.counts import off_cells as module

    X = nearly_constant(50, 6, off=0.5, missing=0.2)
    family = Categorical().bind(X)
    expected = []
    for row in X:
        for j, code in enumerate(row):
            counts = np.bincount(X[X[:, j] >= 0, j], minlength=family.levels_[j])
            if code != np.argmax(counts):
                place = family.offsets_[j] + j + (family.levels_[j] if code < 0 else code)
                expected.append(place)
    for cells in (1 << 20, 12):
        monkeypatch.setattr(module, "_BLOCK_CELLS", cells)
        found = off_cells(family, X)
        assert found.cells.indices.tolist() == expected
        assert np.array_equal(found.column[found.prior == 0], np.arange(6))
