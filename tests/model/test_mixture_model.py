"""The joint probability against its definition, enumerated and by hand."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln

from expfam.errors import DataError
from expfam.families.base import Family
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess, SymmetricDirichlet


class Counts(Family):
    """Independent Poisson columns with a gamma prior, in plain NumPy."""

    support = "counts"
    accepts_sparse = True

    def __init__(self, *, shape=1.0, rate=1.0):
        self.shape, self.rate = shape, rate

    def resolve(self, X):
        return {"rate": 2.0} if self.rate == "auto" else {}

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        a, b = self.shape, self.rate
        return (gammaln(a + S) - gammaln(a) + a * np.log(b) - (a + S) * np.log(b + n)[:, None]).sum(axis=1)

    def log_base(self, X):
        return -np.asarray(gammaln(np.asarray(X.todense() if sparse.issparse(X) else X) + 1.0)).sum(axis=1)


class OtherCounts(Counts):
    pass


X = np.array([[0.0, 2.0], [3.0, 1.0], [1.0, 0.0], [5.0, 5.0]])
LABELS = np.array([7, 2, 7, 2])


def by_hand(weights):
    total = weights.log_prior([2, 2])
    for rows in ([0, 2], [1, 3]):
        s = X[rows].sum(axis=0)
        total += (gammaln(1.0 + s) - (1.0 + s) * np.log(3.0)).sum()
    return total


@pytest.mark.parametrize("weights", [DirichletProcess(alpha=0.5), SymmetricDirichlet(5)], ids=repr)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda x: Dataset(x, Counts())])
def test_log_joint_is_its_definition(weights, form):
    model = MixtureModel(Counts(), weights)
    value = model.log_joint(form(X), LABELS)
    assert value == pytest.approx(by_hand(weights), abs=1e-12)
    base = -gammaln(X + 1).sum()
    assert model.log_joint(form(X), LABELS, include_base=True) == pytest.approx(value + base, abs=1e-12)


def test_names_of_labels_do_not_matter():
    model = MixtureModel(Counts(), DirichletProcess()).bind(X)
    assert model.log_joint(X, LABELS) == pytest.approx(model.log_joint(X, [0, 1, 0, 1]), abs=1e-12)
    assert model.log_joint(X, LABELS) == pytest.approx(model.log_joint(X, [10**15, 7, 10**15, 7]), abs=1e-12)
    assert model.log_joint(X, LABELS) != pytest.approx(model.log_joint(X, [0, 1, 1, 0]), abs=1e-3)


def test_too_many_clusters_are_impossible():
    assert MixtureModel(Counts(), SymmetricDirichlet(3)).log_joint(X, [0, 1, 2, 3]) == -np.inf


def test_bind_and_value():
    model = MixtureModel(Counts(rate="auto"), DirichletProcess())
    bound = model.bind(X)
    assert not model.is_bound
    assert bound.is_bound
    assert bound.family.rate == 2.0
    assert bound.bind(X) == bound
    assert bound != model
    assert pickle.loads(pickle.dumps(bound)) == bound
    assert model.with_weights(SymmetricDirichlet(2)).weights == SymmetricDirichlet(2)
    assert model.with_family(Counts(shape=2.0)).family == Counts(shape=2.0)
    assert repr(model) == "MixtureModel(family=Counts(shape=1.0, rate='auto'), weights=DirichletProcess(alpha=1.0))"
    with pytest.raises(AttributeError):
        model.family = None


def test_a_dataset_keeps_the_models_own_parameters():
    data = Dataset(X, Counts(shape=9.0))
    assert MixtureModel(Counts(shape=3.0), DirichletProcess()).bind(data).family.shape == 3.0
    with pytest.raises(DataError, match="another family"):
        MixtureModel(OtherCounts(), DirichletProcess()).bind(data)


@pytest.mark.parametrize(
    ("labels", "words"),
    [([0, 1], r"shape \(4,\); got \(2,\)"), ([0.0, 1, 1, 1], "float64"), ([0, -1, 0, 0], "row 1 holds -1")],
)
def test_bad_labels_are_named(labels, words):
    with pytest.raises(ValueError, match=words):
        MixtureModel(Counts(), DirichletProcess()).log_joint(X, labels)
