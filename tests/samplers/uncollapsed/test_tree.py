"""Trees of clusters: bounds hold for every family and any vectors, draws have the exact law, wrong samplers fail."""

import numpy as np
import pytest
from enumeration import exact_posterior, total_variation, visit_frequencies
from instruction_sets import output_under
from scipy import sparse, stats

import expfam as ef
from expfam.errors import ExpFamError
from expfam.families.waiting.exponential import Exponential
from expfam.samplers import Canopy, ClusterTree, StochasticEM, UncollapsedGibbs, UncollapsedState
from expfam.samplers.uncollapsed.tree import draw_labels, preferred_tree, tree_of

FAMILIES = ["multinomial", "multinomial_csr", "poisson", "spherical", "diagonal", "gaussian", "exponential"]
SIGNIFICANT = 1e-4


def make_state(name, K, N=400, seed=0):
    """State whose parameters are drawn given a plausible partition of clustered data."""
    rng = np.random.default_rng(seed)
    z = rng.integers(K, size=N)
    if name.startswith("multinomial"):
        p = rng.dirichlet(np.full(12, 0.4), size=K)
        X = np.stack([rng.multinomial(rng.integers(1, 30), p[k]) for k in z])
        family, X = ef.Multinomial(concentration=0.3), sparse.csr_array(X) if name.endswith("csr") else X
    elif name == "poisson":
        family, X = ef.Poisson(shape=0.5, rate=0.1), rng.poisson(rng.gamma(0.7, 6.0, size=(K, 4))[z])
    elif name == "exponential":
        family, X = Exponential(), rng.exponential(rng.gamma(0.7, 3.0, size=(K, 3))[z]) + 1e-3
    else:
        X = rng.normal(size=(K, 3))[z] * 3.0 + rng.normal(size=(N, 3)) * rng.uniform(0.4, 1.0, size=(K, 1))[z]
        family = {
            "spherical": ef.SphericalGaussian(variance=0.5),
            "diagonal": ef.DiagonalGaussian(mean_strength=0.1, shape=2.0),
            "gaussian": ef.Gaussian(mean_strength=0.1, dof=6.0),
        }[name]
    data = ef.Dataset(X, family)
    state = UncollapsedState(ef.MixtureModel(data.family, ef.SymmetricDirichlet(K)), data, z, n_clusters=K, seed=seed)
    state.draw_parameters()
    return state


def phi_of(data, start=0, stop=None):
    stop = data.n_rows if stop is None else stop
    return data.phi_csr(start, stop) if data.has_sparse_phi else data.phi(start, stop)


def dense(phi):
    return phi.toarray() if sparse.issparse(phi) else phi


def repeated(row, times):
    return sparse.vstack([row] * times, format="csr") if sparse.issparse(row) else np.repeat(row, times, axis=0)


def probabilities(phi, Theta, G, log_pi, temperature=1.0):
    log_w = (dense(phi) @ np.asarray(Theta).T - G + log_pi) / temperature
    p = np.exp(log_w - log_w.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def p_value(labels, p):
    """Of the chi-square test of draws against a law; rare outcomes together, impossible ones must not occur."""
    counts, expected = np.bincount(labels, minlength=len(p)), p * len(labels)
    assert counts[p == 0].sum() == 0
    common = expected >= 5
    counts, expected = (
        np.append(counts[common], counts[~common].sum()),
        np.append(expected[common], expected[~common].sum()),
    )
    if expected[-1] < 1e-3:
        assert counts[-1] < 4
        counts, expected = counts[:-1], expected[:-1]
    if len(counts) < 2:
        return 1.0
    return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue


def wrong_means(state, rng):
    center = dense(phi_of(state.data)).mean(axis=0)
    return center + rng.normal(size=state.Theta.shape) * (1.0 + np.abs(center))


# ---- bounds ----------------------------------------------------------------------------------------------------------


def excess_of_bounds(tree, state):
    """Bounds less the true maxima, and bounds less those of the cell around, for all data and cells of several."""
    phi = phi_of(state.data)
    f, bounds = dense(phi) @ state.Theta.T - state.G, tree.bounds(phi)
    over, inside = [], []
    for c in np.flatnonzero(tree.cells["n_items"]):
        over.append(bounds[:, c] - f[:, tree.members(c)].max(axis=1))
        inside += [bounds[:, c] - bounds[:, child] for child in tree.children(c)[0]]
    return np.array(over), np.array(inside)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("given", ["means", "wrong", "none"])
def test_bounds_hold(name, given):
    state = make_state(name, 150, N=4000)
    tree = tree_of(state, leaf=2)
    if given != "means":
        means = wrong_means(state, np.random.default_rng(1)) if given == "wrong" else None
        tree = ClusterTree(state.Theta, state.G, state.log_pi, means=means, is_sparse=state.data.has_sparse_phi, leaf=2)
    over, inside = excess_of_bounds(tree, state)
    assert over.size > 100_000
    assert over.min() >= 0.0
    assert inside.min() >= 0.0
    assert np.isfinite(over).all()


def nested_means(K, d, rng, offsets=(9.0, 3.0, 1.0)):
    """Means in three nested scales."""
    k = int(np.ceil(K ** (1 / 3)))
    mean = sum(c * rng.normal(size=(k, *[k] * s, *[1] * (2 - s), d)) for s, c in enumerate(offsets))
    return mean.reshape(-1, d)[:K]


def test_means_save_visits_and_visits_are_few_where_clusters_lie_apart():
    rng = np.random.default_rng(0)
    mean = nested_means(1000, 16, rng)
    z = rng.integers(1000, size=500)
    X, G, log_pi = mean[z] + rng.normal(size=(500, 16)), (mean**2).sum(axis=1) / 2, np.zeros(1000)
    visits = {}
    for given, means in (("means", mean), ("none", None)):
        tree = ClusterTree(mean, G, log_pi, means=means, center=mean.mean(axis=0), spread=np.ones(16))
        visits[given] = tree.draw(X, seed=0, labels=z)[1][0] / 500
    assert visits["means"] < 0.7 * visits["none"]
    assert visits["means"] < 100


def test_bounds_hold_where_single_precision_is_coarse():
    """Scores of some 1e7 whose differences of order one a float cannot hold."""
    rng = np.random.default_rng(0)
    mean = 3000.0 + rng.normal(size=(100, 4)) * 0.01
    X = mean[rng.integers(100, size=400)] + rng.normal(size=(400, 4)) * 0.01
    G, log_pi, f = (mean**2).sum(axis=1) / 2, np.zeros(100), X @ mean.T
    tree = ClusterTree(mean, G, log_pi, means=mean, leaf=2)  # no centre, so that phi is large too
    bounds, true = tree.bounds(X), f - G
    for c in np.flatnonzero(tree.cells["n_items"]):
        assert (bounds[:, c] >= true[:, tree.members(c)].max(axis=1) - 1e-8).all()
    p = probabilities(X[:1], mean, G, log_pi)[0]
    assert p_value(tree.draw(np.repeat(X[:1], 20_000, axis=0), seed=0)[0], p) > SIGNIFICANT


def test_cells_divide_the_clusters():
    state = make_state("spherical", 200)
    tree = tree_of(state, leaf=3)
    assert sorted(tree.order) == list(range(200))
    for c in range(len(tree.cells)):
        cells, clusters = tree.children(c)
        parts = np.concatenate([clusters, *[tree.members(child) for child in cells]])
        assert sorted(parts) == sorted(tree.members(c))
    found = np.exp(state.log_pi[tree.members(0)]).sum()
    assert np.exp(tree.cells["log_beta"][0]) == pytest.approx(found, rel=1e-9)


# ---- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("tau", "warm"), [(2.0, False), (2.0, True), (12.0, False), (12.0, True)])
def test_draws_have_the_exact_law(name, tau, warm):
    state = make_state(name, 60)
    tree, n, tails = tree_of(state, leaf=4), 6000, 0
    for i in range(6):
        row = phi_of(state.data, i, i + 1)
        guess = np.full(n, state.labels[i], dtype=np.int32) if warm else None
        labels, counts = tree.draw(repeated(row, n), seed=i, labels=guess, tau=tau)
        assert p_value(labels, probabilities(row, state.Theta, state.G, state.log_pi)[0]) > SIGNIFICANT
        tails += counts[2]
    assert tau > 2.0 or tails > 30  # draws that fell on the tail and were repeated


@pytest.mark.parametrize("name", ["spherical", "multinomial_csr", "exponential"])
def test_rejection_has_the_exact_law(name):
    state = make_state(name, 60)
    # cells small enough for the envelopes only near the leaves: clusters in pairs make such cells
    Theta, G, log_pi = np.repeat(state.Theta, 2, axis=0), np.repeat(state.G, 2), np.repeat(state.log_pi, 2)
    Theta = Theta * (1.0 + 1e-3 * np.random.default_rng(0).normal(size=Theta.shape))
    tree, rejected = ClusterTree(Theta, G, log_pi, is_sparse=state.data.has_sparse_phi, leaf=1), 0
    for i in range(4):
        row = phi_of(state.data, i, i + 1)
        labels, counts = tree.draw(repeated(row, 6000), seed=i, method="rejection")
        assert p_value(labels, probabilities(row, Theta, G, log_pi)[0]) > SIGNIFICANT
        rejected += counts[2]
    assert rejected > 30


@pytest.mark.parametrize("K", [1, 2, 60, 500])
@pytest.mark.parametrize("weights", ["equal", "one_zero", "extreme"])
@pytest.mark.parametrize("method", ["tree", "rejection"])
def test_numbers_of_clusters_and_weights(K, weights, method):
    rng = np.random.default_rng(K)
    mean = rng.normal(size=(K, 2)) * 1.5
    log_pi = np.zeros(K)
    if weights == "one_zero" and K > 1:
        log_pi[rng.integers(K)] = -np.inf
    if weights == "extreme":
        log_pi = rng.uniform(-300.0, 300.0, size=K)
        log_pi[: K // 2] = 290.0  # several that count
    G = (mean**2).sum(axis=1) / 2
    tree = ClusterTree(mean, G, log_pi, means=mean, leaf=4)
    row = rng.normal(size=(1, 2))
    for tau in (1.0, 12.0):
        labels, _ = tree.draw(np.repeat(row, 8000, axis=0), seed=3, tau=tau, method=method)
        assert p_value(labels, probabilities(row, mean, G, log_pi)[0]) > SIGNIFICANT


def test_clusters_that_are_equal_or_share_theta():
    Theta = np.repeat([[0.0, 1.0], [2.0, -1.0]], 20, axis=0)
    G = np.tile(np.linspace(0.0, 1.0, 20), 2)  # no log partition function: the same theta, another g
    tree = ClusterTree(Theta, G, np.zeros(40), means=Theta, leaf=2)
    row = np.array([[0.3, 0.2]])
    for tau in (0.5, 12.0):
        labels, _ = tree.draw(np.repeat(row, 20_000, axis=0), seed=0, tau=tau)
        assert p_value(labels, probabilities(row, Theta, G, np.zeros(40))[0]) > SIGNIFICANT


def overlapping(K):
    """A datum that many of K spherical Gaussians explain."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(K, 2)) * 1.3
    return np.array([[0.4, -0.3]]), mean, (mean**2).sum(axis=1) / 2, np.log(rng.dirichlet(np.ones(K)))


def test_another_temperature_fails():
    row, Theta, G, log_pi = overlapping(60)
    tree, p = ClusterTree(Theta, G, log_pi, means=Theta), probabilities(row, Theta, G, log_pi)[0]
    warmer = probabilities(row, Theta, G, log_pi, temperature=1.03)[0]
    labels, _ = tree.draw(np.repeat(row, 400_000, axis=0), seed=0)
    assert p_value(labels, p) > SIGNIFICANT
    assert p_value(labels, warmer) < 1e-6


def frontier_draws(tree, row, log_w, log_pi, n, is_biased, seed=0):
    """Draws from a frontier of cells that each rejection refines, kept over the trials of one draw.

    After the division of a cell a trial goes on into its parts by their shares of the cell; the biased variant begins
    anew with the finer frontier, which favours clusters that come to light early.
    """
    rng, bounds = np.random.default_rng(seed), tree.bounds(row)[0]
    parts, mass, top = {}, {}, log_w.max()
    for c in np.flatnonzero(tree.cells["n_items"]):
        cells, clusters = tree.children(c)
        parts[c] = [int(child) for child in cells] + [-1 - int(k) for k in clusters]
        mass[c] = np.exp(bounds[c] + np.logaddexp.reduce(log_pi[tree.members(c)]) - top)
        mass.update({-1 - int(k): np.exp(log_w[k] - top) for k in clusters})
    labels = []
    for _ in range(n):
        frontier, label = [0], None
        while label is None:
            share = np.cumsum([mass[c] for c in frontier])
            c = frontier[int(np.searchsorted(share, rng.random() * share[-1], side="right"))]
            while c is not None and c >= 0:
                frontier.remove(c)
                frontier += parts[c]
                if is_biased:
                    c = None
                    break
                share = np.cumsum([mass[part] for part in parts[c]])
                at = int(np.searchsorted(share, rng.random() * mass[c], side="right"))
                c = parts[c][at] if at < len(parts[c]) else None
            label = None if c is None else -1 - c
        labels.append(label)
    return np.array(labels)


def test_beginning_anew_after_each_division_is_biased():
    row, Theta, G, log_pi = overlapping(40)
    tree, p = ClusterTree(Theta, G, log_pi, means=Theta, leaf=2), probabilities(row, Theta, G, log_pi)[0]
    log_w = (row @ Theta.T - G + log_pi)[0]
    assert p_value(frontier_draws(tree, row, log_w, log_pi, 4000, False), p) > SIGNIFICANT
    assert p_value(frontier_draws(tree, row, log_w, log_pi, 4000, True), p) < 1e-8
    assert p_value(tree.draw(np.repeat(row, 4000, axis=0), seed=0)[0], p) > SIGNIFICANT


# ---- states and kernels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["multinomial_csr", "diagonal"])
@pytest.mark.parametrize("method", ["tree", "rejection"])
def test_labels_do_not_depend_on_threads_nor_on_the_past(name, method):
    state = make_state(name, 100, N=1500)
    labels, extra = draw_labels(state, 1, tau=12.0, method=method)
    again, other = draw_labels(state, 2, tau=12.0, method=method)
    assert labels.dtype == np.int32
    assert np.array_equal(labels, again)
    assert extra == other
    assert 1.0 <= extra["visits"] <= 100 * (1 if method == "tree" else 40)
    p = probabilities(phi_of(state.data), state.Theta, state.G, state.log_pi)
    assert (p[np.arange(1500), labels] > 0).all()
    # of the sum over data of -log p of the drawn labels: its mean is the entropy
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = np.where(p > 0, -np.log(p), 0.0)
    mean, square = (p * surprise).sum(axis=1), (p * surprise**2).sum(axis=1)
    z = (surprise[np.arange(1500), labels].sum() - mean.sum()) / np.sqrt((square - mean**2).sum())
    assert abs(z) < 4.5


@pytest.mark.parametrize("method", ["tree", "rejection"])
def test_chain_visits_partitions_by_their_posterior(method):
    X = np.array([[0.1], [0.5], [2.1], [2.4], [1.2]])
    model = ef.MixtureModel(
        ef.SphericalGaussian(variance=0.6, mean=1.0, mean_variance=2.0), ef.SymmetricDirichlet(2, alpha=0.8)
    )
    partitions, pi = exact_posterior(model, X)
    kernel = UncollapsedGibbs(draw=method)
    state = kernel.init(model, X, seed=1)
    frequency = visit_frequencies(kernel, state, partitions, 1200)
    assert total_variation(frequency, pi) < 0.08
    assert total_variation(frequency, np.roll(pi, 1)) > 0.1


def test_stochastic_em_with_the_tree_is_as_good_as_with_all_clusters():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))[rng.integers(30, size=600)] * 6.0 + rng.normal(size=(600, 2))
    model, finals = ef.MixtureModel(ef.SphericalGaussian(variance=1.0), ef.SymmetricDirichlet(30)), {}
    for draw in ("dense", "tree"):
        for seed in range(20):
            kernel = StochasticEM(draw=draw)
            state = kernel.init(model, X, seed=seed)
            for _ in range(20):
                kernel.step(state)
            finals[draw, seed] = state.log_joint / 600
    gap = np.mean([finals["tree", s] - finals["dense", s] for s in range(20)])
    assert abs(gap) < 0.05  # two runs differ by 0.07, one deviation: three of the mean


def test_auto_asks_the_tree_only_where_clusters_lie_apart():
    rng = np.random.default_rng(0)
    state = make_state("spherical", 60)
    assert preferred_tree(state) is None
    K, d, N = 4096, 16, 24_000
    apart, together = nested_means(K, d, rng, (18.0, 6.0, 2.0)), rng.normal(size=(K, d)) * 0.05
    for mean, n, expected in ((apart, N, True), (together, N, False), (apart, 2000, False)):  # the last: too few data
        z = rng.integers(K, size=n)
        data = ef.Dataset(mean[z] + rng.normal(size=(n, d)), ef.SphericalGaussian(variance=1.0))
        state = UncollapsedState(ef.MixtureModel(data.family, ef.SymmetricDirichlet(K)), data, z, n_clusters=K, seed=0)
        state.Theta = mean - data.family.center_
        state.G, state.log_pi = (state.Theta**2).sum(axis=1) / 2, np.full(K, -np.log(K))
        assert (preferred_tree(state) is not None) is expected


@pytest.mark.parametrize(("offsets", "kind"), [((200.0, 60.0, 20.0), "tree"), ((0.1, 0.1, 0.1), "dense")])
def test_canopy_takes_the_tree_with_few_clusters_only_where_it_saves_time(offsets, kind):
    rng, K, d, N = np.random.default_rng(0), 480, 64, 40_000
    z = rng.integers(K, size=N)
    X = nested_means(K, d, rng, offsets)[z] + 0.3 * rng.normal(size=(N, d))
    model, drawn = ef.MixtureModel(ef.SphericalGaussian(variance=0.09), ef.SymmetricDirichlet(K)), []
    for kernel in (Canopy(variant=2), UncollapsedGibbs(draw=kind)):
        state = kernel.init(model, X, seed=0, start=z)
        state.draw_parameters()
        drawn.append(kernel.draw_labels(state))
    assert np.array_equal(drawn[0][0], drawn[1][0])
    assert drawn[0][1].keys() == drawn[1][1].keys() == ({"visits", "tails"} if kind == "tree" else set())


def test_many_columns_are_projected_for_the_cells_only():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(700, 0.05), size=80)
    z = rng.integers(80, size=300)
    X = sparse.csr_array(np.stack([rng.multinomial(60, p[k]) for k in z]))
    data = ef.Dataset(X, ef.Multinomial(concentration=0.1))
    state = UncollapsedState(ef.MixtureModel(data.family, ef.SymmetricDirichlet(80)), data, z, n_clusters=80, seed=0)
    state.draw_parameters()
    tree = tree_of(state, leaf=4)
    over, inside = excess_of_bounds(tree, state)
    assert over.min() >= 0.0
    assert inside.min() >= 0.0
    row = phi_of(data, 0, 1) * 0.05
    labels, _ = tree.draw(repeated(row, 20_000), seed=0)
    assert p_value(labels, probabilities(row, state.Theta, state.G, state.log_pi)[0]) > SIGNIFICANT


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_other_instructions_have_the_same_law(isa):
    code = """
import numpy as np
from test_tree import FAMILIES, SIGNIFICANT, excess_of_bounds, make_state, p_value, phi_of, probabilities
from test_tree import repeated, tree_of
for name in FAMILIES:
    state = make_state(name, 60)
    tree, row = tree_of(state, leaf=4), phi_of(state.data, 0, 1)
    over, inside = excess_of_bounds(tree, state)
    assert over.min() >= 0.0 and inside.min() >= 0.0, name
    labels, _ = tree.draw(repeated(row, 5000), seed=0, tau=2.0)
    assert p_value(labels, probabilities(row, state.Theta, state.G, state.log_pi)[0]) > SIGNIFICANT, name
"""
    output_under(isa, code, file=__file__)


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_bad_input_is_named():
    with pytest.raises(ExpFamError, match="do not fit"):
        ClusterTree([[0.0], [1.0]], [0.0], [0.0, 0.0])
    with pytest.raises(ExpFamError, match="none has a finite log weight"):
        ClusterTree([[0.0]], [0.0], [-np.inf])
    with pytest.raises(ExpFamError, match="cluster 1 are not finite"):
        ClusterTree([[0.0], [np.nan]], [0.0, 0.0], [0.0, -1.0])
    tree = ClusterTree([[0.0], [1.0]], [0.0, 0.5], [0.0, 0.0])
    with pytest.raises(ExpFamError, match="phi has shape"):
        tree.draw(np.zeros((2, 3)), seed=0)
    with pytest.raises(ExpFamError, match="is_sparse"):
        tree.draw(sparse.csr_array(np.zeros((2, 1))), seed=0)
    with pytest.raises(ValueError, match="tau"):
        tree.draw(np.zeros((1, 1)), seed=0, tau=0.0)
    with pytest.raises(ValueError, match="method"):
        tree.draw(np.zeros((1, 1)), seed=0, method="table")
    assert tree.draw(np.array([[np.nan]]), seed=0)[0][0] == -1


def test_infinite_scores_are_an_error_that_names_the_datum():
    state = make_state("spherical", 5)
    state.G = np.full(5, np.nan)
    with pytest.raises((FloatingPointError, ExpFamError)):
        draw_labels(state, 1)
