"""Proposals over a tree of the clusters: log_prob is the law of draw, and what it is said to be."""

import numpy as np
import pytest
from enumeration import exact_posterior, total_variation, visit_frequencies
from scipy import sparse, stats

from expfam import Dataset, DiagonalGaussian, MixtureModel, Multinomial, Poisson, SphericalGaussian, SymmetricDirichlet
from expfam.errors import CapabilityError, ExpFamError, PluginError
from expfam.samplers import CollapsedMetropolis, CoverTreeProposal, NearestProposal
from expfam.samplers.proposals.handle import ProposalHandle
from expfam.samplers.proposals.snapshot import Snapshot

K = 40


def make(name, N=120, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(K, size=N)
    if name.startswith("multinomial"):
        p = rng.dirichlet(np.full(9, 0.5), size=K)
        X = np.stack([rng.multinomial(20, p[k]) for k in z])
        family = Multinomial(concentration=0.4)
        X = sparse.csr_array(X) if name.endswith("csr") else X
    elif name == "poisson_csr":
        X, family = sparse.csr_array(rng.poisson(rng.gamma(0.7, 5.0, size=(K, 5))[z])), Poisson(shape=0.5, rate=0.1)
    else:
        X = rng.normal(size=(K, 2))[z] * 2.0 + rng.normal(size=(N, 2))
        family = SphericalGaussian(variance=1.0) if name == "spherical" else DiagonalGaussian(mean_strength=0.1)
    data = Dataset(X, family)
    n, S = data.statistics(z, K)
    model = MixtureModel(data.family, SymmetricDirichlet(K))
    view = Snapshot(data.family, n, np.arange(K), lambda: S, log_weight=np.log(n + 1.0 / K))
    return data, model, view


def handle_of(proposal, name="spherical"):
    data, model, view = make(name)
    handle = ProposalHandle(proposal.bind(model, data, seed=0), type(proposal).__name__)
    handle.refresh(view)
    return handle, data, view


def weights(data, view, i):
    phi = data.phi(i, i + 1)[0]
    log_w = view.Theta @ phi - view.G + view.log_weight
    return np.exp(log_w - log_w.max())


FAMILIES = ["spherical", "diagonal", "multinomial", "multinomial_csr", "poisson_csr"]
PROPOSALS = [NearestProposal(k=5), NearestProposal(k=100), NearestProposal(k=1, floor=0.2), CoverTreeProposal()]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("proposal", PROPOSALS, ids=repr)
def test_draws_follow_log_prob(name, proposal):
    handle = handle_of(proposal, name)[0]
    rng = np.random.default_rng(1)
    for i in (0, 7):
        log_q = handle.log_prob(i, 0, range(K))
        q = np.exp(log_q)
        assert q.sum() == pytest.approx(1.0, abs=1e-12)
        assert q.min() >= proposal.floor / K * (1 - 1e-12)
        labels = []
        for _ in range(3000):
            k, back = handle.draw(i, 3, rng)
            assert back == pytest.approx(log_q[3] - log_q[k], abs=1e-12)
            labels.append(k)
        counts, common = np.bincount(labels, minlength=K), 3000 * q >= 5
        counts = np.append(counts[common], counts[~common].sum())
        expected = np.append(q[common], q[~common].sum()) * 3000
        keep = expected > 0
        assert stats.chisquare(counts[keep], expected[keep]).pvalue > 1e-4
        if np.ptp(q) > 1e-12:  # with k=1 all have the weight of the best
            assert stats.chisquare(counts[keep], np.roll(expected[keep], 1)).pvalue < 1e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_the_nearest_have_their_weights_and_the_rest_that_of_the_last(name):
    handle, data, view = handle_of(NearestProposal(k=6, floor=0.05), name)
    for i in range(10):
        w = weights(data, view, i)
        order = np.argsort(-w)
        expected = np.full(K, w[order[5]])
        expected[order[:6]] = w[order[:6]]
        q = np.exp(handle.log_prob(i, 0, range(K)))
        assert np.allclose(q, 0.95 * expected / expected.sum() + 0.05 / K, rtol=2e-5)


def test_a_refresh_makes_searches_of_before_forgotten():
    handle, data, view = handle_of(NearestProposal(k=K, floor=1e-9))
    before = np.exp(handle.log_prob(0, 0, range(K)))
    handle.draw(0, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(np.exp(handle.log_prob(0, 0, range(K))), before)  # a kept search, the same law
    other = Snapshot(data.family, view.n, np.arange(K), lambda: view.S[::-1], log_weight=np.zeros(K))
    handle.refresh(other)
    w = weights(data, other, 0)
    assert np.allclose(np.exp(handle.log_prob(0, 0, range(K))), w / w.sum(), rtol=1e-5, atol=1e-9)
    assert not np.allclose(before, w / w.sum(), rtol=0.1)


def test_all_clusters_near_is_the_conditional_law():
    handle, data, view = handle_of(NearestProposal(k=K, floor=1e-9))
    for i in range(5):
        w = weights(data, view, i)
        assert np.allclose(np.exp(handle.log_prob(i, 0, range(K))), w / w.sum(), rtol=1e-5, atol=1e-9)


def test_walks_favour_clusters_of_large_weight():
    handle, data, view = handle_of(CoverTreeProposal())
    gain = []
    for i in range(60):
        w = weights(data, view, i)
        gain.append(np.exp(handle.log_prob(i, 0, range(K))) @ (w / w.sum()))
    assert np.mean(gain) > 4 / K  # a uniform law has 1 / K


def test_cells_of_data_share_a_walk():
    data, model, view = make("spherical")
    groups = []
    for level in (10, 2, -40):
        bound = CoverTreeProposal(level).bind(model, data, seed=0)
        handle = ProposalHandle(bound, "cover_tree")
        handle.refresh(view)
        laws = np.array([handle.log_prob(i, 0, range(K)) for i in range(data.n_rows)])
        groups.append(bound.n_groups)
        assert len(np.unique(laws.round(9), axis=0)) == bound.n_groups
    assert groups[0] == 1
    assert 1 < groups[1] < groups[2]
    assert groups[2] == data.n_rows


def test_slots_may_have_other_names():
    data, model, view = make("spherical")
    names = np.arange(K)[::-1] * 2 + 1
    renamed = Snapshot(data.family, view.n, names, lambda: view.S, log_weight=view.log_weight)
    for proposal in (NearestProposal(k=4), CoverTreeProposal()):
        plain, other = (ProposalHandle(proposal.bind(model, data, seed=0), "tree") for _ in range(2))
        plain.refresh(view)
        other.refresh(renamed)
        assert np.allclose(plain.log_prob(0, 0, range(K)), other.log_prob(0, 1, names), atol=1e-12)
        assert np.isneginf(other.log_prob(0, 1, [0, 2, 1000, -1])).all()
        k, _ = other.draw(0, 1, np.random.default_rng(0))
        assert k in names


def test_a_cluster_without_weight_can_be_proposed():
    data, model, view = make("spherical")
    log_weight = view.log_weight.copy()
    log_weight[4] = -np.inf
    for proposal in (NearestProposal(k=4), CoverTreeProposal()):
        handle = ProposalHandle(proposal.bind(model, data, seed=0), "tree")
        handle.refresh(Snapshot(data.family, view.n, np.arange(K), lambda: view.S, log_weight=log_weight))
        q = np.exp(handle.log_prob(0, 4, range(K)))
        assert q.sum() == pytest.approx(1.0, abs=1e-12)
        assert 0 < q[4] < 0.2
        assert np.isfinite(handle.draw(0, 4, np.random.default_rng(0))[1])


def test_bad_input_is_named():
    data, model, view = make("spherical")
    for proposal, match in (
        (NearestProposal(k=0), "k must be"),
        (NearestProposal(k=2.5), "k must be"),
        (NearestProposal(floor=0.0), "floor"),
        (CoverTreeProposal(floor=1.0), "floor"),
        (CoverTreeProposal(level=0.5), "level"),
    ):
        with pytest.raises(ValueError, match=match):
            proposal.bind(model, data, seed=0)
    with pytest.raises(CapabilityError, match="dense"):
        CoverTreeProposal(0).bind(*make("multinomial_csr")[1::-1], seed=0)
    handle = ProposalHandle(NearestProposal().bind(model, data, seed=0), "nearest")
    with pytest.raises(PluginError, match="slot it does not know"):
        handle.log_prob(0, 0, [0])
    opening = Snapshot(
        data.family, view.n, np.arange(K), lambda: view.S, log_weight=view.log_weight, log_weight_new=0.0
    )
    with pytest.raises(ExpFamError, match="finite weights"):
        handle.refresh(opening)
    handle.refresh(view)
    for arguments in ((0, -1), (data.n_rows, 0), (0, K)):
        with pytest.raises(PluginError):
            handle.draw(*arguments, np.random.default_rng(0))
    assert NearestProposal(k=3).memory(model, data, K) == data.n_rows * (4 * 2 + 12 * 3 + 12)
    assert NearestProposal(k=3) == NearestProposal(3)


@pytest.mark.parametrize("proposal", [NearestProposal(k=2, floor=0.1), CoverTreeProposal(floor=0.1)], ids=repr)
def test_frozen_in_the_collapsed_kernel_keeps_the_posterior(proposal):
    X = np.array([[0.1], [0.5], [2.1], [2.4], [1.2]])
    weights = SymmetricDirichlet(3, alpha=0.8)
    model = MixtureModel(SphericalGaussian(variance=0.6, mean=1.0, mean_variance=2.0), weights)
    partitions, pi = exact_posterior(model, X)
    kernel = CollapsedMetropolis(proposal, mode="frozen")
    state = kernel.init(model, X, seed=2)
    frequency = visit_frequencies(kernel, state, partitions, 6000)
    assert total_variation(frequency, pi) < 0.06
