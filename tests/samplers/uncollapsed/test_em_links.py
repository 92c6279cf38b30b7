"""EM with rows that belong together: each link group is one item, with the weight and the sums of its rows."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

from expfam import Dataset, DirichletProcess, Known, Mixture, MixtureModel, Poisson, SymmetricDirichlet
from expfam.samplers import ExpectationMaximization, sample

N = 60
RNG = np.random.default_rng(0)
Z = RNG.integers(0, 3, N)
X = RNG.poisson(np.array([[1.0, 8.0], [8.0, 1.0], [4.0, 4.0]])[Z])
LINKS = np.where(np.arange(N) < 24, np.arange(N) // 4, -1)  # rows of different groups too
Y = np.where(np.arange(N) > 50, Z, -1)
WEIGHT = RNG.random(N) + 0.5
KNOWN = {"links": Known(links=LINKS), "classes and links": Known(Y, links=LINKS), "classes": Known(Y)}


def expected(state, known, weight):
    """Log likelihood and soft counts, written out for each row and group."""
    phi = state.data.phi(0, N)
    scores = weight[:, None] * (np.asarray(phi) @ state.Theta.T - state.G + state.log_pi)
    total, n = 0.0, np.zeros(state.K)
    items = [*known.groups, *(np.array([row]) for row in known.free)]
    for rows in items:
        own = scores[rows].sum(axis=0)
        if len(rows) == 1:  # a row of weight w counts w times, each with its own label
            w = weight[rows[0]]
            total += w * logsumexp(own / w)
            n += w * np.exp(own / w - logsumexp(own / w))
            continue
        total += logsumexp(own)
        n += weight[rows].sum() * np.exp(own - logsumexp(own))
    if known.classes is not None:
        for row in np.flatnonzero(known.classes >= 0):
            total += scores[row, state.labels[row]]
            n[state.labels[row]] += weight[row]
    return total, n


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["rows", "weights"])
@pytest.mark.parametrize("prior", [SymmetricDirichlet(3), DirichletProcess()], ids=["dirichlet", "dp"])
def test_a_step_is_the_expectation_written_out(known, weight, prior):
    if known.classes is not None and prior.max_components is None:
        pytest.skip("classes on ordered sticks are refused")
    data = Dataset(X, Poisson(), known=known, weight=weight)
    kernel = ExpectationMaximization(tol=0, truncation=5)
    state = kernel.init(MixtureModel(data.family, prior), data, seed=0)
    objective = sample(kernel, state, 25).column("objective")
    total, n = expected(state, known, np.ones(N) if weight is None else weight)
    np.testing.assert_allclose(state.log_likelihood, total, rtol=1e-6)
    np.testing.assert_allclose(state.n, n, rtol=1e-4, atol=1e-4)
    assert (np.diff(objective) >= -1e-5).all()
    assert known.agrees(state.labels)
    state.check()


def test_a_group_is_one_item_and_not_independent_rows():
    known = KNOWN["links"]
    data, free = Dataset(X, Poisson(), known=known), Dataset(X, Poisson())
    kernel = ExpectationMaximization(tol=0)
    start = known.agreeing(Z)
    prior = SymmetricDirichlet(3)
    states = [kernel.init(MixtureModel(each.family, prior), each, seed=0, start=start) for each in (data, free)]
    for state in states:
        sample(kernel, state, 10)
    assert abs(states[0].n - states[1].n).max() > 0.1


@pytest.mark.parametrize("rows", [X, sparse.csr_array(X.astype(float))], ids=["dense", "csr"])
@pytest.mark.parametrize("sampler", ["em", "stochastic_em"])
def test_a_mixture_keeps_linked_rows_together(rows, sampler):
    settings = {"sampler": sampler, "random_state": 0}
    for n_threads in (1, 2):
        mixture = Mixture("poisson", 3, n_threads=n_threads, **settings).fit(rows, links=LINKS)
        assert KNOWN["links"].agrees(mixture.labels_)
        both = Mixture("poisson", 3, labels="clusters", n_threads=n_threads, **settings).fit(rows, Y, links=LINKS)
        assert KNOWN["classes and links"].agrees(both.labels_)
        if n_threads == 1:
            first = mixture.labels_, both.labels_
        np.testing.assert_array_equal((mixture.labels_, both.labels_), first)
    free = Mixture("poisson", 3, **settings).fit(rows)
    assert not KNOWN["links"].agrees(free.labels_)


def test_weights_and_links_together():
    weight = np.where(np.arange(N) % 7 == 0, 0.0, WEIGHT)
    mixture = Mixture("poisson", 3, sampler="em", random_state=0).fit(X, sample_weight=weight, links=LINKS)
    assert KNOWN["links"].agrees(mixture.labels_)
    np.testing.assert_allclose(mixture.cluster_sizes_.sum(), weight.sum())


def test_links_of_nobody_change_no_bit():
    plain = Mixture("poisson", 3, sampler="em", random_state=0, start="kmeans").fit(X)
    alone = Mixture("poisson", 3, sampler="em", random_state=0, start="kmeans").fit(X, links=np.arange(N))
    np.testing.assert_array_equal(plain.labels_, alone.labels_)
    np.testing.assert_allclose(plain.log_joint_, alone.log_joint_)
