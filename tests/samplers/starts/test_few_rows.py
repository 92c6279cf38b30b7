"""The compiled passes over few rows are those over many, and their log joint is that of the model."""

import numpy as np
import pytest
from planted import PLANTED, planted

from expfam import Dataset, DirichletProcess, Gaussian, MixtureModel, PitmanYor, SymmetricDirichlet
from expfam.samplers.starts import ascent
from expfam.samplers.starts.few_rows import FewRows, are_few_rows, first_lost

PRIORS = [SymmetricDirichlet(9, alpha=0.7), DirichletProcess(2.0), PitmanYor(1.0, 0.2)]
DENSE = [name for name in PLANTED if not Dataset(planted(name)[1], planted(name)[0]).has_sparse_phi]


def made(name, weights):
    family, X, labels = planted(name)
    data = Dataset(X, family)
    model = MixtureModel(data.family, weights)
    rng = np.random.default_rng(0)
    disturbed = np.where(rng.random(labels.size) < 0.3, rng.integers(0, labels.max() + 1, labels.size), labels)
    return model, data, disturbed.astype(np.int32)


@pytest.mark.parametrize("weights", PRIORS, ids=lambda w: type(w).__name__)
@pytest.mark.parametrize("name", DENSE)
def test_log_joint_and_labels_are_those_of_the_model(name, weights):
    model, data, labels = made(name, weights)
    K = int(labels.max()) + 2  # one cluster holds no row
    if not are_few_rows(model, data, K):
        assert "compiled" not in data.family.capabilities
        return
    rows = FewRows(model, data, K)
    rows.load(labels)
    assert np.isclose(rows.log_joint(), model.log_joint(data, labels), rtol=1e-11)
    n, S = data.statistics(labels, K)
    np.testing.assert_array_equal(rows.n, n)
    with np.errstate(divide="ignore"):
        scores = data.family.log_predictive(data.X, n, S) + np.log(model.weights.posterior_mean(n)[0])
    np.testing.assert_array_equal(rows.most_probable(), scores.argmax(axis=1))
    rows.load(np.zeros(data.n_rows, dtype=np.int32))  # nothing is left of the former labels
    assert np.isclose(rows.log_joint(), model.log_joint(data, np.zeros(data.n_rows, dtype=int)), rtol=1e-11)


@pytest.mark.parametrize("keep_clusters", [False, True])
@pytest.mark.parametrize("weights", PRIORS, ids=lambda w: type(w).__name__)
@pytest.mark.parametrize("name", DENSE)
def test_an_ascent_ends_where_that_over_many_rows_does(name, weights, keep_clusters, monkeypatch):
    model, data, labels = made(name, weights)
    labels[:3] = labels.max() + np.arange(1, 4)  # clusters of one row, which an ascent may empty or has to keep
    few = ascent.climb(model, data, labels, keep_clusters=keep_clusters, max_passes=50, n_threads=None)
    monkeypatch.setattr(ascent, "are_few_rows", lambda *_: False)
    many = ascent.climb(model, data, labels, keep_clusters=keep_clusters, max_passes=50, n_threads=None)
    np.testing.assert_array_equal(few.labels, many.labels)
    np.testing.assert_array_equal(few.most_probable, many.most_probable)


def test_rows_that_count_several_times_or_are_many_go_the_general_way():
    X = np.random.default_rng(0).normal(size=(50, 2))
    data = Dataset(X, Gaussian())
    model = MixtureModel(data.family, DirichletProcess())
    assert are_few_rows(model, data, 3)
    assert not are_few_rows(model, data, 100_000)
    assert not are_few_rows(model, Dataset(X, data.family, weight=np.full(50, 2.0)), 3)
    assert not are_few_rows(model, Dataset(np.repeat(X, 4000, axis=0), data.family), 3)


def test_the_first_cluster_that_loses_all_rows():
    before, after = np.array([0, 1, 1, 2, 3], dtype=np.int32), np.array([0, 0, 0, 2, 2], dtype=np.int32)
    assert first_lost(before, after, 4) == 1
    assert first_lost(after, before, 4) == -1
    assert first_lost(before, np.array([0, 1, 1, 2, 2], dtype=np.int32), 4) == 3


def test_labels_of_another_length_are_refused():
    model, data, labels = made(DENSE[0], DirichletProcess())
    with pytest.raises(ValueError, match="3 labels for"):
        FewRows(model, data, 9).load(labels[:3])
