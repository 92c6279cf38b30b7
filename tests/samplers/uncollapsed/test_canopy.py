"""Metropolis sweeps given parameters: rows of the transition matrix by the code itself, chains against enumeration."""

import itertools
import tracemalloc

import numpy as np
import pytest
from by_mean import ByMean
from instruction_sets import output_under
from scipy import sparse, stats
from tiny import FAMILIES, PlainPoisson

from expfam import (
    Dataset,
    DiagonalGaussian,
    Gaussian,
    MixtureModel,
    Multinomial,
    Poisson,
    SphericalGaussian,
    SymmetricDirichlet,
)
from expfam.errors import CapabilityError, DataError, ExactnessWarning, PluginError
from expfam.samplers import (
    Canopy,
    Int8Proposal,
    PrototypeProposal,
    Snapshot,
    TableProposal,
    UncollapsedGibbs,
    UncollapsedMetropolis,
    load_sampler,
)
from expfam.samplers.geometry.neighbourhood import means_groups, neighbourhood
from expfam.samplers.proposals.handle import ProposalHandle
from expfam.samplers.uncollapsed.laws import update_law
from expfam.structures import DataCells

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

GROUPS = {
    "anchors": PrototypeProposal(data_cells="tree", max_group=4, n_anchors=2),
    "mean": PrototypeProposal(data_cells="means", max_group=6, n_anchors=0),
    "many": PrototypeProposal(data_cells="means", max_group=3, n_anchors=9, floor=0.2),
}
CASES = {
    "multinomial_csr": (Multinomial(concentration=0.4), lambda X: sparse.csr_array(X)),
    "multinomial": (Multinomial(concentration=0.4), lambda X: X),
    "poisson": (Poisson(shape=0.8, rate=0.5), lambda X: X),
    "plain_poisson": (PlainPoisson(shape=0.8, rate=0.5), lambda X: X),
    "poisson_csr": (Poisson(shape=0.8, rate=0.5), lambda X: sparse.csr_array(X.astype(np.int32))),
    "spherical": (SphericalGaussian(variance=0.6), lambda X: X + 0.3),
    "diagonal": (DiagonalGaussian(), lambda X: X.astype(np.float32)),
    "gaussian": (Gaussian(), lambda X: X + np.random.default_rng(3).normal(size=X.shape)),
}


def make_state(name, N=14, K=5, seed=0, concentration=1.0):
    family, change = CASES[name]
    X = np.random.default_rng(seed).poisson(3 * np.eye(4)[np.arange(N) % 4] + 0.5).astype(float)
    data = Dataset(change(X), family)
    model = MixtureModel(data.family, SymmetricDirichlet(K, alpha=concentration))
    labels = np.random.default_rng(seed + 1).integers(0, K, N)
    state = UncollapsedGibbs().init(model, data, seed=seed, start=labels)
    state.draw_parameters("draw")
    return state


def exact_law(state):
    """p(z | x, parameters) of every datum from its plain definition."""
    phi = state.data.phi(0, state.data.n_rows)
    score = phi @ state.Theta.T - state.G + state.log_pi
    p = np.exp(score - score.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


# ---- the step, row by row --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("proposal", GROUPS)
@pytest.mark.parametrize("name", CASES)
def test_each_step_is_reversible(name, proposal):
    state = make_state(name)
    kernel, pi = UncollapsedMetropolis(GROUPS[proposal]), exact_law(state)
    for i in range(state.data.n_rows):
        P = update_law(kernel, state, i)
        assert np.abs(P.sum(axis=1) - 1).max() < 1e-12
        flow = pi[i][:, None] * P
        np.testing.assert_allclose(flow, flow.T, rtol=1e-8, atol=1e-14)
        assert (P > 0).all()


def test_old_tables_are_as_exact():
    state = make_state("poisson")
    kernel = UncollapsedMetropolis(GROUPS["anchors"], refresh="never")
    update_law(kernel, state, 0)  # makes the tables
    state.n_steps += 1
    state.draw_parameters("draw")
    pi = exact_law(state)
    for i in range(state.data.n_rows):
        flow = pi[i][:, None] * update_law(kernel, state, i, is_fresh=False)
        np.testing.assert_allclose(flow, flow.T, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("name", ["multinomial_csr", "gaussian", "poisson"])
def test_sweeps_follow_the_rows(name):
    state, n_sweeps = make_state(name, K=3), 3000
    kernel = UncollapsedMetropolis(GROUPS["anchors"], steps=2, redraw=False)
    laws = [np.linalg.matrix_power(update_law(kernel, state, i), 2) for i in range(14)]
    sweeper = kernel.sweeper(state)
    for k in range(3):
        state.labels, counts = np.full(14, k, dtype=np.int32), np.zeros((14, 3))
        for step in range(n_sweeps):
            state.n_steps = step
            counts[np.arange(14), sweeper.sweep(state, 2, 1)[0]] += 1
        for law, found in zip(laws, counts):
            z = (found - n_sweeps * law[k]) / np.sqrt(n_sweeps * law[k] * (1 - law[k]) + 1)
            assert np.abs(z).max() < 4.8
            assert found[law[k] == 0].sum() == 0


def counts_after_sweeps(kernel, state, pi, n_sweeps, *, n_threads, redraw):
    """How often each row of 400 is in each cluster after a sweep from exact labels; the law stays."""
    rng, counts, K = np.random.default_rng(5), np.zeros((400, state.K)), state.K
    sweeper = kernel.sweeper(state)
    sweeper.refresh(Snapshot.of_parameters(state.model.family, state.Theta, state.G, state.log_pi, n_rows=400), True)
    for step in range(n_sweeps):
        state.n_steps = step
        state.labels = (pi.cumsum(axis=1) < rng.random(400)[:, None]).sum(axis=1).clip(max=K - 1).astype(np.int32)
        counts[np.arange(400), sweeper.sweep(state, 2, n_threads, redraw=redraw)[0]] += 1
    z = (counts - n_sweeps * pi).sum(axis=0) / np.sqrt(n_sweeps * (pi * (1 - pi)).sum(axis=0) + 1e-9)
    assert np.abs(z).max() < 4.5
    return counts


@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_sweeps_leave_the_law_of_labels(name, redraw):
    # labels drawn exactly, then one sweep: the law of each label is what it was
    state = make_state(name, N=400, K=4)
    pi = exact_law(state)
    kernel = UncollapsedMetropolis(GROUPS["anchors"], steps=2, redraw=redraw, n_threads=2)
    n_sweeps = 200
    counts = counts_after_sweeps(kernel, state, pi, n_sweeps, n_threads=2, redraw=redraw)
    spread = ((counts - n_sweeps * pi) ** 2).sum() / (n_sweeps * (pi * (1 - pi)).sum())
    assert abs(spread - 1) < 0.25


@pytest.mark.parametrize("name", ["poisson", "multinomial_csr"])
def test_data_of_clusters_that_their_group_does_not_list_stay_in_their_law(name):
    # one prototype for all data: it lists few clusters, and many data are in others
    state = make_state(name, N=400, K=12)
    pi, group = exact_law(state), DataCells(np.zeros(400, dtype=np.int64))
    kernel = UncollapsedMetropolis(PrototypeProposal(data_cells=group, n_anchors=0, floor=0.5), steps=2)
    counts_after_sweeps(kernel, state, pi, 200, n_threads=1, redraw=True)
    law = np.exp(ProposalHandle(kernel.sweeper(state).handle.owner, "p").log_prob(0, 0, np.arange(12)))
    ratio = law / (0.9 * np.exp(state.log_pi) + 0.1 / 12)
    unlisted = ratio < 1.001 * ratio.min()
    assert 0.1 < pi[:, unlisted].sum() / 400 < 0.9


@pytest.mark.parametrize("n_groups", [1, 2])
def test_lists_are_those_of_the_parameters_of_the_sweep(n_groups):
    state, group = make_state("spherical", N=60, K=6), DataCells(np.arange(60) % n_groups)
    kernel = UncollapsedMetropolis(PrototypeProposal(data_cells=group), steps=1)
    first = kernel.sweeper(state)
    first.refresh(view_of(state), False)
    first.sweep(state, 1, 1, redraw=True)
    state.n_steps += 1
    state.draw_parameters()
    state.memory.clear()
    labels = []
    for sweeper in (first, kernel.sweeper(state)):
        sweeper.refresh(view_of(state), False)
        labels.append(sweeper.sweep(state, 1, 1, redraw=True)[0])
    assert np.array_equal(*labels)


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_other_instructions_leave_the_law_too(isa):
    code = """
from test_canopy import CASES, test_sweeps_leave_the_law_of_labels as check
for name in CASES:
    check(name, True)
"""
    output_under(isa, code, file=__file__)


def test_a_ratio_without_q_is_found_out():
    state = make_state("poisson")
    kernel, pi = UncollapsedMetropolis(GROUPS["mean"]), exact_law(state)
    worst = 0.0
    for i in range(state.data.n_rows):
        update_law(kernel, state, i)
        q = np.exp(kernel.sweeper(state).handle.log_prob(i, 0, np.arange(state.K)))
        P = q[None] * np.minimum(1.0, pi[i][None] / pi[i][:, None])
        np.fill_diagonal(P, 0.0)
        P += np.diag(1.0 - P.sum(axis=1))
        worst = max(worst, np.abs(pi[i] @ P - pi[i]).max())
    assert worst > 1e-2


# ---- the proposal ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("proposal", GROUPS)
@pytest.mark.parametrize("name", ["multinomial_csr", "diagonal"])
def test_the_law_is_normalised_positive_and_that_of_draws(name, proposal):
    state = make_state(name)
    view = Snapshot.of_parameters(state.model.family, state.Theta, state.G, state.log_pi, n_rows=14)
    handle = ProposalHandle(GROUPS[proposal].bind(state.model, state.data, seed=3), "prototype")
    handle.refresh(view)
    rng, names = np.random.default_rng(0), np.arange(state.K)
    for i in (0, 3, 13):
        log_q = handle.log_prob(i, 0, names)
        assert np.exp(log_q).sum() == pytest.approx(1.0, abs=1e-12)
        assert (np.exp(log_q) >= 0.9 * GROUPS[proposal].floor * 0.1 / state.K).all()
        draws = [handle.draw(i, 0, rng) for _ in range(8000)]
        counts = np.bincount([k for k, _ in draws], minlength=state.K)
        assert stats.chisquare(counts, 8000 * np.exp(log_q)).pvalue > 1e-4
        assert all(back == pytest.approx(log_q[0] - log_q[k], abs=1e-12) for k, back in draws[:50])


def test_the_law_is_the_mean_of_the_members_laws():
    # groups no larger than the anchors and the mean: all members speak
    state = make_state("spherical", N=30)
    group = np.arange(30) % 10
    proposal = PrototypeProposal(data_cells=DataCells(group), n_anchors=2, floor=0.01)
    handle = ProposalHandle(proposal.bind(state.model, state.data, seed=0), "prototype")
    handle.refresh(Snapshot.of_parameters(state.model.family, state.Theta, state.G, state.log_pi, n_rows=30))
    p = exact_law(state)
    by_weight = 0.9 * np.exp(state.log_pi) + 0.1 / state.K
    for i in range(30):
        mean = p[group == group[i]].mean(axis=0)
        q = np.exp(handle.log_prob(i, 0, np.arange(state.K)))
        # what is left to the floor: laws below a tenth of it, and whole clusters below their share of it
        np.testing.assert_allclose(q, 0.99 * mean + 0.01 * by_weight, rtol=1e-3, atol=0.01 * by_weight.max())
        assert np.abs(q / by_weight - 1).max() > 0.1


def test_anchors_change_with_the_step_and_not_with_labels():
    state = make_state("spherical", N=60)
    parts = (state.model.family, state.Theta, state.G, state.log_pi)

    def law(step):
        handle = ProposalHandle(PrototypeProposal(max_group=30, n_anchors=1).bind(state.model, state.data, seed=1), "p")
        handle.refresh(Snapshot.of_parameters(*parts, n_rows=60, step=step))
        return np.stack([handle.log_prob(i, 0, np.arange(state.K)) for i in range(60)])

    first = law(0)
    state.labels = np.zeros(60, dtype=np.int32)
    assert np.array_equal(first, law(0))
    assert not np.array_equal(first, law(1))


def test_tables_that_do_not_fit_make_larger_groups(monkeypatch):
    import expfam.samplers.proposals.prototype as prototype

    monkeypatch.setattr(prototype, "_memory_limit", lambda: 3000)
    state = make_state("spherical", N=200)
    view = Snapshot.of_parameters(state.model.family, state.Theta, state.G, state.log_pi, n_rows=200)
    owner = PrototypeProposal(max_group=2).bind(state.model, state.data, seed=0)
    with pytest.warns(UserWarning, match="larger|groups of up to"):
        owner.refresh(view)
    assert owner.table_bytes <= 3000
    again = PrototypeProposal(max_group=2).bind(state.model, state.data, seed=0)
    again.from_arrays(owner.to_arrays())
    again.refresh(view)
    assert np.array_equal(again.data_cells.group, owner.data_cells.group)


def view_of(state, Theta=None):
    Theta = state.Theta if Theta is None else Theta
    return Snapshot.of_parameters(state.model.family, Theta, state.G, state.log_pi, n_rows=len(state.labels))


def laws_of(owner, state):
    handle = ProposalHandle(owner, "prototype")
    return np.stack([handle.log_prob(i, 0, np.arange(state.K)) for i in range(len(state.labels))])


@pytest.mark.parametrize("name", ["spherical", "poisson"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_tables_in_memory_that_was_used_before_are_those_of_new_memory(name, n_threads, monkeypatch):
    import expfam.samplers.proposals.prototype as prototype

    monkeypatch.setattr(prototype, "_most_rows", lambda n_clusters: 5)  # several blocks
    state = make_state(name, N=90, K=70)
    settings = PrototypeProposal(max_group=4, n_anchors=1)
    flat = np.repeat(state.Theta.mean(axis=0)[None], state.K, axis=0)  # all clusters are listed
    used, new = (settings.bind(state.model, state.data, seed=2) for _ in range(2))
    used.n_threads = n_threads
    used.refresh(view_of(state))
    least = used.table_bytes
    used.refresh(view_of(state, flat))
    assert used.table_bytes >= least
    used.refresh(view_of(state))
    new.refresh(view_of(state))
    assert np.array_equal(laws_of(used, state), laws_of(new, state))


@pytest.mark.parametrize("name", ["spherical", "poisson"])
def test_tables_are_made_again_after_parameters_without_a_score(name):
    state = make_state(name, N=60, K=5)
    owner, new = (PrototypeProposal(max_group=10).bind(state.model, state.data, seed=2) for _ in range(2))
    owner.refresh(view_of(state))
    with pytest.raises(FloatingPointError, match="no finite score"):
        owner.refresh(view_of(state, 1e36 * state.Theta))
    with pytest.raises(PluginError, match="slot 0"):  # nothing is drawn from what is left
        ProposalHandle(owner, "prototype").draw(0, 0, np.random.default_rng(0))
    owner.refresh(view_of(state))
    new.refresh(view_of(state))
    assert np.array_equal(laws_of(owner, state), laws_of(new, state))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"data_cells": "forest"}, "data_cells"),
        ({"max_group": 0}, "max_group"),
        ({"n_anchors": -1}, "n_anchors"),
        ({"floor": 0.0}, "floor"),
        ({"data_cells": DataCells([0, 1])}, "2 data"),
    ],
)
def test_bad_settings_are_named(settings, match):
    state = make_state("poisson")
    with pytest.raises((ValueError, DataError), match=match):
        UncollapsedMetropolis(PrototypeProposal(**settings)).init(state.model, state.data, seed=0)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"steps": 0}, "steps"),
        ({"refresh": 0}, "refresh"),
        ({"refresh": "often"}, "refresh"),
        ({"theta": "x"}, "theta"),
    ],
)
def test_bad_settings_of_the_kernel_are_named(settings, match):
    state = make_state("poisson")
    with pytest.raises(ValueError, match=match):
        UncollapsedMetropolis(**settings).init(state.model, state.data, seed=0)


def test_proposals_that_read_statistics_are_refused():
    # they would know the labels that they are to move
    state = make_state("poisson")
    for proposal in (TableProposal(), Int8Proposal()):
        kernel = UncollapsedMetropolis(proposal)
        chain = kernel.init(state.model, state.data, seed=0)
        with pytest.raises(CapabilityError, match="statistics S"):
            kernel.step(chain)


def test_a_grouped_proposal_of_an_author_works():
    state = make_state("poisson", N=40)
    data_cells = DataCells(np.arange(40) % 4, phi=state.data.phi(0, 40))
    kernel, pi = UncollapsedMetropolis(ByMean(data_cells)), exact_law(state)
    for i in (0, 7):
        flow = pi[i][:, None] * update_law(kernel, state, i)
        np.testing.assert_allclose(flow, flow.T, rtol=1e-8, atol=1e-14)


def test_sweeps_of_another_proposal_leave_the_law_of_labels():
    """The steps of a proposal that is no table of prototypes, with far from equal probabilities there and back."""
    state = make_state("poisson", N=400, K=4)
    pi = exact_law(state)
    data_cells = DataCells(np.arange(400) % 4, phi=state.data.phi(0, 400))
    kernel = UncollapsedMetropolis(ByMean(data_cells), steps=2, redraw=False)
    counts_after_sweeps(kernel, state, pi, 100, n_threads=1, redraw=False)


# ---- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2])
def test_groups_of_means(n_threads):
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(4000, 8)) + 8 * np.eye(8)[np.arange(4000) % 8]).astype(np.float32)
    group = means_groups(points, 60, 5, n_threads=n_threads)
    sizes = np.bincount(group)
    assert sizes.min() > 0
    assert sizes.max() <= 60
    assert np.array_equal(group, means_groups(points, 60, 5))
    mixed = [np.unique(np.arange(4000)[group == g] % 8).size for g in range(len(sizes))]
    assert np.mean(np.array(mixed) == 1) > 0.95
    assert np.bincount(means_groups(np.ones((50, 2), np.float32), 8, 0)).max() <= 8


@pytest.mark.parametrize("name", CASES)
def test_coordinates_keep_neighbours(name):
    points = neighbourhood(make_state(name, N=200).data, 0)
    assert points.dtype == np.float32
    kind = np.arange(200) % 4
    near = np.array([np.argsort(((points - p) ** 2).sum(axis=1))[1] for p in points])
    assert (kind[near] == kind).mean() > 0.4


def test_wide_sparse_rows_are_projected():
    X = sparse.random_array(
        (300, 5000), density=0.01, rng=np.random.default_rng(0), data_sampler=lambda size: np.ones(size)
    )
    data = Dataset(sparse.csr_array(X), Multinomial())
    points = neighbourhood(data, 0)
    assert points.shape == (300, 64)
    assert np.array_equal(points, neighbourhood(data, 0))
    whole = neighbourhood(Dataset(sparse.csr_array(X)[:, :60].tocsr(), Poisson()), 0)
    assert whole.shape == (300, 60)


# ---- chains ----------------------------------------------------------------------------------------------------------


CHAINS = {
    "steps": ("spherical", {"redraw": False}),
    "redraw": ("spherical", {"steps": 1}),
    "never": ("spherical", {"refresh": "never", "steps": 3}),
    "sparse": ("multinomial_csr", {"redraw": False, "steps": 1}),
}


def visits_of(kernel, model, data, n_steps, size=100):
    """How often each labelling is visited, by batches: (n_steps / size, 2^N)."""
    chain = kernel.init(model, data, seed=4, start=np.zeros(data.n_rows, dtype=int))
    visits = np.zeros((n_steps // size, 2**data.n_rows))
    for step in range(n_steps):
        kernel.step(chain)
        visits[step // size, int("".join(map(str, chain.labels)), 2)] += 1.0 / size
    return visits


def worst_t(visits, pi):
    """Largest |t| of a partition's frequency: a labelling and its opposite are one partition."""
    half = len(pi) // 2
    visits, pi = (np.asarray(a)[..., :half] + np.asarray(a)[..., : half - 1 : -1] for a in (visits, pi))
    common = pi > 0.02
    groups = np.column_stack([visits[:, common], visits[:, ~common].sum(axis=1)])
    expected = np.append(pi[common], pi[~common].sum())
    error = np.maximum(groups.std(axis=0, ddof=1) / np.sqrt(len(groups)), 1e-3)
    return (np.abs(groups.mean(axis=0) - expected) / error).max()


def enumerated(case):
    family, X = (
        CASES[case][0],
        np.array([[3.0, 0, 1, 0], [2, 1, 0, 0], [0, 0, 2, 1], [1, 1, 1, 0], [1, 0, 2, 1], [0, 2, 0, 1]]),
    )
    data = Dataset(CASES[case][1](X), family)
    model = MixtureModel(data.family, SymmetricDirichlet(2, alpha=1.0))
    # one cluster or two: two ways to name them
    log_p = np.array([model.log_joint(data, np.array(z)) for z in itertools.product((0, 1), repeat=6)])
    pi = np.exp(log_p - log_p.max())
    return model, data, pi / pi.sum()


@pytest.mark.parametrize("chain", CHAINS)
def test_chains_visit_labellings_as_the_posterior_says(chain):
    case, settings = CHAINS[chain]
    model, data, pi = enumerated(case)
    kernel = UncollapsedMetropolis(PrototypeProposal(max_group=3, n_anchors=1), **settings)
    assert worst_t(visits_of(kernel, model, data, 3000), pi) < 5


def test_a_chain_of_modes_is_found_out():
    model, data, pi = enumerated("spherical")
    kernel = UncollapsedMetropolis(PrototypeProposal(max_group=3, n_anchors=1), theta="map")
    assert worst_t(visits_of(kernel, model, data, 1500), pi) > 8


def test_refreshing_now_and_then_has_a_bias():
    # two labels, one datum's worth of law: enumerated over the pair (label, parameter of the last refresh)
    rng = np.random.default_rng(0)
    joint = rng.dirichlet(np.full(9, 0.5)).reshape(3, 3)  # p(z, theta)
    theta_of, z_of, q = (
        joint / joint.sum(axis=1, keepdims=True),
        joint / joint.sum(axis=0),
        rng.dirichlet(np.ones(3), 3),
    )

    def step(theta, old):
        p = z_of[:, theta]
        P = q[old][None] * np.minimum(1.0, p[None] * q[old][:, None] / (p[:, None] * q[old][None]))
        np.fill_diagonal(P, 0.0)
        return P + np.diag(1.0 - P.sum(axis=1))

    def sweep(old):
        return sum(np.diag(theta_of[:, theta]) @ step(theta, old) for theta in range(3))

    def cycle(m):
        first = (np.diag(theta_of[:, old]) @ step(old, old) for old in range(3))
        return sum(one @ np.linalg.matrix_power(sweep(old), m - 1) for old, one in enumerate(first))

    pi = joint.sum(axis=1)
    assert np.abs(pi @ cycle(1) - pi).max() < 1e-15
    assert max(np.abs(pi @ sweep(old) - pi).max() for old in range(3)) < 1e-15
    assert np.abs(pi @ cycle(2) - pi).max() > 1e-3
    state = make_state("poisson")
    kernel = UncollapsedMetropolis(refresh=3)
    with pytest.warns(ExactnessWarning, match="refresh=3"):
        kernel.step(kernel.init(state.model, state.data, seed=0))


@pytest.mark.parametrize("name", CASES)
def test_statistics_after_many_sweeps_equal_a_recount(name):
    state = make_state(name, N=60)
    kernel = UncollapsedMetropolis(steps=2)
    chain = kernel.init(state.model, state.data, seed=0)
    moved = 0
    for _ in range(200):
        info = kernel.step(chain)
        moved += info.accepted
        assert 0 <= info.accepted <= info.proposed <= 2 * 60
        assert set(info.extra) == {"differing", "acceptance", "changed"}
    assert moved > 100
    n, S = chain.data.statistics(chain.labels, chain.K)
    assert np.array_equal(n, chain.n)
    assert abs(S - chain.S).max() <= 1e-9 * (1 + abs(S).max())
    assert chain.log_joint == pytest.approx(chain.compute_log_joint(), rel=1e-9)


@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("name", ["spherical", "multinomial_csr", "gaussian"])
def test_labels_do_not_depend_on_threads(name, redraw, monkeypatch):
    state = make_state(name, N=20_000 if name == "spherical" else 300)

    def labels(n_threads):
        kernel = UncollapsedMetropolis(steps=3, redraw=redraw, n_threads=n_threads)
        chain = kernel.init(state.model, state.data, seed=7)
        for _ in range(3):
            kernel.step(chain)
        return chain.labels

    assert np.array_equal(labels(1), labels(2))


@pytest.mark.parametrize("name", ["gaussian", "diagonal", "plain_poisson"])
def test_statistics_made_on_the_way_give_the_same_labels(name, monkeypatch):
    import expfam.samplers.uncollapsed.metropolis as module

    state = make_state(name, N=500)

    def labels(redraw):
        kernel = UncollapsedMetropolis(steps=2, redraw=redraw)
        chain = kernel.init(state.model, state.data, seed=7)
        for _ in range(3):
            kernel.step(chain)
        return chain.labels

    held = [labels(False), labels(True)]
    monkeypatch.setattr(module, "_LEAST_HELD", 0)
    assert np.array_equal(held, [labels(False), labels(True)])
    monkeypatch.setattr(module, "_WIDE", 0)
    monkeypatch.setattr(module, "_NARROW", 0)
    assert np.array_equal(held, [labels(False), labels(True)])


@pytest.mark.parametrize("refresh", ["always", "never"])
def test_a_chain_resumes_with_the_same_bits(refresh):
    state = make_state("spherical", N=200)
    kernel = UncollapsedMetropolis(PrototypeProposal(max_group=20), refresh=refresh, steps=2)
    whole = kernel.init(state.model, state.data, seed=2)
    for _ in range(3):
        kernel.step(whole)
    arrays = whole.to_arrays()
    resumed = kernel.init(state.model, state.data, seed=2)
    resumed.from_arrays(arrays)
    for _ in range(3):
        kernel.step(whole)
        kernel.step(resumed)
    assert np.array_equal(whole.labels, resumed.labels)


def test_clusters_are_found():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 20, 4000)
    X = 6 * rng.normal(size=(20, 8))[truth] + rng.normal(size=(4000, 8))
    data = Dataset(X, SphericalGaussian(variance=1.0))
    model = MixtureModel(data.family, SymmetricDirichlet(30, alpha=0.1))
    kernel = UncollapsedMetropolis()
    chain = kernel.init(model, data, seed=0)
    for _ in range(15):
        kernel.step(chain)
    table = np.zeros((30, 20))
    np.add.at(table, (chain.labels, truth), 1)
    assert table.max(axis=1).sum() > 0.9 * 4000


# ---- by name ---------------------------------------------------------------------------------------------------------


def test_the_system_by_name():
    assert load_sampler("canopy", n_threads=2) == Canopy(n_threads=2)
    assert Canopy().variant == 2
    state = make_state("poisson")
    for variant, settings in ((1, {}), (1, {"proposal": PrototypeProposal(n_anchors=0)})):
        kernel = Canopy(variant=variant, **settings)
        chain = kernel.init(state.model, state.data, seed=0)
        assert kernel.step(chain).step == 1
    with pytest.raises(ValueError, match="variant"):
        Canopy(variant=3).init(state.model, state.data, seed=0)


def test_a_frozen_collapsed_sweep_takes_prototypes():
    from expfam.samplers import CollapsedMetropolis

    family, X = FAMILIES["poisson"]
    model = MixtureModel(family, SymmetricDirichlet(3))
    kernel = CollapsedMetropolis(PrototypeProposal(max_group=2), mode="frozen")
    chain = kernel.init(model, X, seed=0)
    for _ in range(5):
        kernel.step(chain)
    chain.check()


def test_cells_of_one_datum_each_ask_for_no_more_means_than_data():
    points = np.eye(3, dtype=np.float32)
    assert sorted(means_groups(points, 1, seed=0)) == [0, 1, 2]


def test_what_a_run_will_hold_is_foretold():
    X = np.random.default_rng(0).normal(size=(60_000, 8))
    data = Dataset(X, SphericalGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(64)).bind(data)
    kernel = UncollapsedMetropolis()
    state = kernel.init(model, data, seed=0, start="random")
    tracemalloc.start()
    kernel.step(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 8 * X.size < peak < kernel.memory(model, data, 64) < 4 * peak
