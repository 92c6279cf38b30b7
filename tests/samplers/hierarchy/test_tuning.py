"""The tree's evidence bound against plain definitions, and tuning on data whose hyper-parameters are known."""

import numpy as np
import pytest
from enumeration import set_partitions
from scipy import sparse
from scipy.special import gammaln

from expfam.errors import CapabilityError, DataWarning
from expfam.families.base import Family
from expfam.families.counts.multinomial import Multinomial
from expfam.families.counts.poisson import Poisson
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.generic import GenericComponents
from expfam.model.data import Dataset
from expfam.model.weights import DirichletProcess
from expfam.samplers import tuned_family
from expfam.samplers.hierarchy.tuning import tree_evidence


class Shifts(Family):
    """Gaussian columns of known variance with a normal prior on the means, in plain NumPy."""

    hyper = {"strength": "positive", "variance": "positive"}  # noqa: RUF012

    def __init__(self, *, strength=0.01, variance=1.0):
        self.strength, self.variance = strength, variance

    def sufficient_statistics(self, X):
        return np.hstack([X, (X**2).sum(axis=1, keepdims=True)])

    def log_marginal(self, n, S):
        k, d = self.strength + n, S.shape[1] - 1
        square = S[:, -1] - (S[:, :-1] ** 2).sum(axis=1) / k
        return 0.5 * (
            d * np.log(self.strength / k) - d * n * np.log(2 * np.pi * self.variance) - square / self.variance
        )


class WithoutParts(Multinomial):
    """The same family without compiled components."""

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self, data, capacity)


def bound_by_definition(family, X, alpha):
    """All pairs at every step, in plain loops."""
    phi = np.asarray(family.sufficient_statistics(X), dtype=np.float64)
    nodes = [(1.0, row, np.log(alpha) + family.log_marginal(np.ones(1), row[None])[0]) for row in phi]
    while len(nodes) > 1:
        best = (-np.inf,)
        for a in range(len(nodes)):
            for b in range(a):
                n, S = nodes[a][0] + nodes[b][0], nodes[a][1] + nodes[b][1]
                C = np.log(alpha) + gammaln(n) + family.log_marginal(np.array([n]), S[None])[0]
                best = max(best, (C - nodes[a][2] - nodes[b][2], a, b, n, S, C), key=lambda entry: entry[0])
        _, a, b, n, S, C = best
        merged = (n, S, np.logaddexp(C, nodes[a][2] + nodes[b][2]))
        nodes = [node for place, node in enumerate(nodes) if place not in (a, b)] + [merged]
    return nodes[0][2] - gammaln(alpha + len(phi)) + gammaln(alpha)


def documents(M=40, V=30, a=0.1, topics=5, length=12, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(V, a), size=topics)
    return np.array([rng.multinomial(length, p[k]) for k in rng.integers(0, topics, M)]).astype(float)


def blobs(M=40, spread=5.0, groups=5, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=(groups, d))[rng.integers(0, groups, M)] + rng.normal(size=(M, d))


CASES = [
    (Multinomial(concentration=0.2), documents()),
    (Multinomial(concentration=np.linspace(0.1, 2.0, 30)), documents()),
    (Poisson(shape=0.5, rate=0.3), documents()),
    (Shifts(strength=0.05), blobs()),
]


@pytest.mark.parametrize("alpha", [0.3, 2.0])
@pytest.mark.parametrize(("family", "X"), CASES, ids=["multinomial", "vector", "poisson", "gaussian"])
def test_bound_is_that_of_the_plain_algorithm(family, X, alpha):
    family = family.bind(X)
    assert tree_evidence(Dataset(X, family), alpha) == pytest.approx(bound_by_definition(family, X, alpha), abs=1e-8)


def test_bound_is_the_same_of_sparse_rows_and_of_a_family_without_compiled_components():
    X = documents(M=60)
    expected = tree_evidence(Dataset(X, Multinomial(concentration=0.2)), 1.0)
    assert tree_evidence(Dataset(sparse.csr_array(X), Multinomial(concentration=0.2)), 1.0) == pytest.approx(
        expected, abs=1e-8
    )
    assert tree_evidence(Dataset(X, WithoutParts(concentration=0.2)), 1.0) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(
    ("family", "X"), [(family, X[:7]) for family, X in CASES], ids=["multinomial", "vector", "poisson", "gaussian"]
)
def test_bound_lies_below_the_evidence_over_set_partitions(family, X, alpha):
    family, weights = family.bind(X), DirichletProcess(alpha=alpha)
    phi = np.asarray(family.sufficient_statistics(X), dtype=np.float64)
    terms = []
    for z in set_partitions(7):
        z = np.asarray(z)
        n, S = np.bincount(z).astype(float), np.array([phi[z == k].sum(axis=0) for k in range(z.max() + 1)])
        terms.append(weights.log_prior(n) + family.log_marginal(n, S).sum())
    evidence = np.logaddexp.reduce(terms)
    bound = tree_evidence(Dataset(X, family), alpha)
    assert bound < evidence + 1e-9
    assert bound > max(terms) - 1.0  # and not idly so: the tree finds what dominates


def test_bound_of_one_and_two_data_is_exact():
    X = documents(M=2)
    family = Multinomial(concentration=0.2).bind(X)
    one = family.log_marginal(np.ones(2), X)
    assert tree_evidence(Dataset(X[:1], family), 0.7) == pytest.approx(one[0], abs=1e-12)
    both = family.log_marginal(np.full(1, 2.0), X.sum(axis=0, keepdims=True))[0]
    exact = np.logaddexp(both - np.log1p(0.7), one.sum() + np.log(0.7) - np.log1p(0.7))
    assert tree_evidence(Dataset(X, family), 0.7) == pytest.approx(exact, abs=1e-10)


def test_tuning_finds_the_concentration_of_documents():
    grid = {"concentration": [0.001, 0.01, 0.1, 1.0, 10.0]}
    for a in (0.01, 0.1, 1.0):
        X = sparse.csr_array(documents(M=250, V=200, a=a, topics=20, length=40, seed=3))
        assert tuned_family(Multinomial(), X, grid=grid, subsample=200).concentration == a


def test_tuning_finds_two_parameters_of_gaussian_groups():
    X = 3.0 * blobs(M=200, spread=10.0, groups=12, seed=1)
    tuned = tuned_family(Shifts(), X, grid={"strength": [1e-4, 1e-2, 1.0], "variance": [1.0, 9.0, 81.0]})
    assert tuned.variance == 9.0
    assert tuned.strength == 1e-2
    assert tuned.is_bound


def test_default_grids_multiply_what_binding_chose():
    X = documents(M=60)
    bound = Multinomial().bind(X)
    tuned = tuned_family(Multinomial(), X)
    factors = np.geomspace(1e-2, 1e2, 9)
    assert np.isclose(tuned.concentration / bound.concentration, factors).any()
    evidence = [
        tree_evidence(Dataset(X, bound.with_hyper(concentration=bound.concentration * c)), 1.0) for c in factors
    ]
    assert tuned.concentration == pytest.approx(bound.concentration * factors[np.argmax(evidence)])
    both = tuned_family(Poisson(), X)
    start = Poisson().bind(X)
    for name in ("shape", "rate"):
        ratio = np.asarray(getattr(both, name)) / np.asarray(getattr(start, name))
        assert np.ptp(ratio) < 1e-12 * np.max(ratio)
        assert np.isclose(np.max(ratio), [0.01, 0.1, 1.0, 10.0, 100.0]).any()


def test_the_seed_chooses_the_subsample(monkeypatch):
    X, seen = documents(M=300), []
    monkeypatch.setattr(
        "expfam.samplers.hierarchy.tuning.tree_evidence", lambda data, alpha: seen.append(data.X) or 0.0
    )
    for seed in (1, 1, 2):
        tuned_family(Multinomial(), X, grid={"concentration": [0.1, 0.2]}, subsample=50, seed=seed)
    assert seen[0].shape == (50, 30)
    np.testing.assert_array_equal(seen[0], seen[2])
    assert not np.array_equal(seen[0], seen[4])


def test_edges_and_bad_grids_are_named():
    X = documents()
    with pytest.warns(DataWarning, match=r"best concentration lies at the edge of the grid \(10.0\)"):
        tuned_family(Multinomial(), X, grid={"concentration": [10.0, 20.0, 30.0]})
    for options, words in [
        ({"grid": {"length": [1.0]}}, r"\['concentration'\] of 'multinomial'; got \['length'\]"),
        ({"grid": {"concentration": []}}, "is empty"),
        ({"grid": {"concentration": [0.0, 1.0]}}, "must hold positive values; got 0.0"),
        ({"subsample": 1}, "subsample .* got 1"),
        ({"grid": {"concentration": [1.0]}, "alpha": 0.0}, "alpha must be positive"),
    ]:
        with pytest.raises(ValueError, match=words):
            tuned_family(Multinomial(), X, **options)


def test_a_family_without_hyper_parameters_says_so():
    class Fixed(Shifts):
        hyper = {}  # noqa: RUF012

    with pytest.raises(CapabilityError, match="nothing to tune"):
        tuned_family(Fixed(), blobs())


def test_a_number_stands_for_every_column_of_a_bound_family():
    X = np.random.default_rng(0).normal(size=(30, 3))
    family = DiagonalGaussian().bind(X).with_hyper(mean_strength=0.5)
    np.testing.assert_array_equal(family.mean_strength, np.full(3, 0.5))
    with pytest.warns(DataWarning, match="the best mean_strength lies at the edge"):  # one cluster about the mean
        tuned = tuned_family(DiagonalGaussian(), X, grid={"mean_strength": [0.05, 0.5, 5.0]})
    assert tuned.mean_strength.shape == (3,)
