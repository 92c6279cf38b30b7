"""Sweeps by proposals as users run them: threads, checkpoints, compositions, limits, the rule of auto."""

import numpy as np
import pytest
from planted import CLASSES, POINTS, RNG, TEXT
from scipy import sparse
from scipy.special import gammaln
from stepping import assert_resumes, assert_threads_agree, stepped

import expfam as ef
from expfam.errors import CapabilityError, DataError, ExactnessWarning, PluginError, ResourceError
from expfam.samplers import (
    CollapsedGibbs,
    CollapsedMetropolis,
    Cycle,
    FastEx,
    HashProposal,
    Int8Proposal,
    Snapshot,
    TableProposal,
    UncollapsedGibbs,
    UpdateHyper,
    load_sampler,
    sample,
)
from expfam.samplers.named import proposal_for
from expfam.samplers.proposals.handle import ProposalHandle

CASES = {
    "table": (ef.Multinomial(), TEXT, TableProposal()),
    "table_poisson": (ef.Poisson(), TEXT, TableProposal()),
    "table_float": (ef.Multinomial(), TEXT, TableProposal(dtype="float32")),
    "hash": (ef.Multinomial(), TEXT, HashProposal(n_bits=64, shortlist=8)),
    "int8": (ef.DiagonalGaussian(), POINTS, Int8Proposal()),
    "int8_full": (ef.Gaussian(), POINTS, Int8Proposal(shortlist=4)),
}


def walk(kernel, model, X, n_steps, seed=3, **options):
    return stepped(kernel, kernel.init(model, X, seed=seed, **options), n_steps)


@pytest.mark.parametrize("weights", [ef.DirichletProcess(), ef.SymmetricDirichlet(30)], ids=["dp", "finite"])
@pytest.mark.parametrize("case", CASES)
def test_labels_do_not_depend_on_the_number_of_threads(case, weights):
    family, X, proposal = CASES[case]
    model = ef.MixtureModel(family, weights)

    def labels_of(n_threads):
        kernel = CollapsedMetropolis(proposal, mode="crossfit", n_blocks=3, n_threads=n_threads)
        return walk(kernel, model, X, 4).labels

    assert len(np.unique(assert_threads_agree(labels_of))) > 1


@pytest.mark.parametrize("mode", ["crossfit", "removed", "included", "frozen"])
@pytest.mark.parametrize("case", CASES)
def test_a_chain_resumed_from_its_file_gives_the_same_bits(case, mode, tmp_path):
    family, X, proposal = CASES[case]
    model = ef.MixtureModel(family, ef.SymmetricDirichlet(20))
    kernel = CollapsedMetropolis(proposal, mode=mode, n_blocks=5 if mode == "crossfit" else "auto")
    if case == "table" and mode != "frozen":
        kernel = Cycle(kernel)
    state = walk(kernel, model, X, 3)
    assert_resumes(kernel, state, kernel.init(model, X, seed=3), tmp_path / "run", 3)


@pytest.mark.parametrize("mode", ["crossfit", "removed"])
@pytest.mark.parametrize("case", CASES)
def test_proposals_find_what_gibbs_finds(case, mode):
    family, X, proposal = CASES[case]
    model = ef.MixtureModel(family, ef.SymmetricDirichlet(30))
    exact = walk(CollapsedGibbs(), model, X, 30, seed=1)
    state = walk(CollapsedMetropolis(proposal, mode=mode), model, X, 30, seed=1)
    assert state.log_joint > exact.log_joint - 0.03 * abs(exact.log_joint)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("concentration", [0.3, "vector"])
def test_shifts_and_single_moves_of_a_table_give_the_bits_of_a_refresh(dtype, concentration):
    rng = np.random.default_rng(8)
    a = rng.uniform(0.1, 2.0, size=60) if concentration == "vector" else concentration
    data = ef.Dataset(TEXT * 3, ef.Multinomial(concentration=a))
    model = ef.MixtureModel(data.family, ef.DirichletProcess())
    labels = rng.integers(4, size=600).astype(np.int32)

    def view(labels, inside):
        n, S = data.statistics(np.where(inside, labels, -1).astype(np.int32), 200)
        used = np.flatnonzero(n)
        return Snapshot(data.family, n[used], used, lambda: S[used], log_weight=np.log(n[used]), log_weight_new=0.0)

    def fresh(snapshot):
        handle = ProposalHandle(TableProposal(dtype=dtype).bind(model, data, seed=0), "table")
        handle.refresh(snapshot)
        return handle

    def law(handle, i, snapshot):
        return handle.log_prob(i, -1, [-1, *snapshot.slots])

    inside = np.arange(600) >= 100
    handle, former = fresh(view(labels, inside)), np.arange(100)
    for most in (8, 40, 150):  # beyond the first width
        rows = rng.choice(600, size=80, replace=False)
        labels[former] = rng.integers(most, size=former.size)
        inside = ~np.isin(np.arange(600), rows)
        snapshot = view(labels, inside)
        handle.shift(snapshot, (former, labels[former].astype(np.intp)), (rows, labels[rows].astype(np.intp)))
        other = fresh(snapshot)
        for i in rows[:10]:
            np.testing.assert_allclose(law(handle, i, snapshot), law(other, i, snapshot), rtol=0, atol=0.02)
        former = rows
    inside[:] = True
    handle.shift(view(labels, inside), (former, labels[former].astype(np.intp)), (np.zeros(0, np.intp),) * 2)
    handle.reserve(200)
    for i in rng.choice(600, size=60, replace=False):
        before = law(handle, i, view(labels, inside))
        handle.hold_out(i, labels[i])
        handle.restore(i, labels[i])
        np.testing.assert_array_equal(law(handle, i, view(labels, inside)), before)
        target = rng.integers(190)
        handle.hold_out(i, labels[i])
        handle.moved(i, labels[i], target)
        labels[i] = target
    snapshot = view(labels, inside)
    other = fresh(snapshot)
    other.hold_out(0, labels[0]), handle.hold_out(0, labels[0])  # length terms made alike
    np.testing.assert_array_equal(law(handle, 5, snapshot), law(other, 5, snapshot))


def test_words_of_any_count_are_scored_to_the_step_of_a_byte():
    X = np.zeros((8, 3), dtype=np.int64)
    X[:, 0], X[:, 1] = [50_000, 40_000, 3, 0, 1, 2, 3, 0], [0, 3, 1, 2, 600, 257, 258, 9]
    X[:, 2] = [1, 0, 2, 0, 5, 0, 7, 1]
    family = ef.Multinomial(concentration=0.5)
    data = ef.Dataset(X, family)
    model = ef.MixtureModel(data.family, ef.DirichletProcess())
    labels = np.array([0, 0, 1, 2, -1, -1, -1, -1], dtype=np.int32)

    def view(labels):
        n, S = data.statistics(labels, 3)
        return Snapshot(data.family, n, [0, 1, 2], lambda: S, log_weight=np.log(n), log_weight_new=0.0)

    table = TableProposal().bind(model, data, seed=0)
    handle = ProposalHandle(table, "table")
    nothing = (np.zeros(0, np.intp),) * 2
    one, slots = np.array([1], dtype=np.intp), np.array([1], dtype=np.intp)
    handle.refresh(view(np.array([0, 1, 1, 2, -1, -1, -1, -1], dtype=np.int32)))
    handle.shift(view(np.array([0, -1, 1, 2, -1, -1, -1, -1], dtype=np.int32)), nothing, (one, slots))
    handle.shift(view(labels), (one, slots - 1), nothing)
    step = np.log1p(X.sum(axis=0).max() / 0.5) / 255
    n, S = data.statistics(labels, 3)
    S = S.toarray() if hasattr(S, "toarray") else S
    for i in (4, 5, 6, 7):
        exact = np.log(n) + data.family.log_marginal(n + 1, S + X[i]) - data.family.log_marginal(n, S)
        ours = handle.log_prob(i, -1, [0, 1, 2])
        near = exact > exact.max() - 60  # a weight has a floor
        np.testing.assert_allclose((ours - ours[near][0])[near], (exact - exact[near][0])[near], rtol=0, atol=12 * step)
        assert not near.all() or i == 7
    other = ProposalHandle(TableProposal().bind(model, data, seed=0), "table")
    other.refresh(view(labels))
    laws = []
    for each in (handle, other):
        each.hold_out(0, 0)  # length terms made alike
        each.restore(0, 0)
        laws.append([each.log_prob(i, -1, [-1, 0, 1, 2]) for i in range(8)])
    np.testing.assert_array_equal(laws[0], laws[1])


@pytest.mark.parametrize("mode", ["crossfit", "removed"])
def test_composes_with_hyper_parameters_and_other_kernels(mode):
    fast = CollapsedMetropolis(TableProposal(), mode=mode)
    model = ef.MixtureModel(ef.Multinomial(concentration=0.5), ef.SymmetricDirichlet(20))
    state = walk(Cycle(fast, UpdateHyper(), CollapsedGibbs(), fast), model, TEXT, 4)
    assert state.model.family.concentration != 0.5
    assert set(state.memory) == {"0", "1", "2", "3"}
    walk(Cycle(UncollapsedGibbs(), fast), ef.MixtureModel(ef.Multinomial(), ef.SymmetricDirichlet(20)), TEXT, 3)


def test_a_frozen_proposal_is_not_combined_with_moves_it_does_not_see():
    frozen = CollapsedMetropolis(TableProposal(), mode="frozen")
    model = ef.MixtureModel(ef.Multinomial(concentration=0.5), ef.SymmetricDirichlet(20))
    with pytest.raises(CapabilityError, match="names of the components"):
        walk(Cycle(frozen, CollapsedGibbs()), model, TEXT, 3)
    with pytest.raises(CapabilityError, match="change of hyper-parameters"):
        walk(Cycle(frozen, UpdateHyper()), model, TEXT, 3)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("case", ["table", "hash"])
def test_the_asynchronous_mode_keeps_its_statistics(case, n_threads):
    family, X, proposal = CASES[case]
    kernel = CollapsedMetropolis(proposal, mode="asynchronous", n_threads=n_threads)
    with pytest.warns(ExactnessWarning):
        state = walk(kernel, ef.MixtureModel(family, ef.SymmetricDirichlet(30)), X, 8)
    assert state.n_clusters < 30


def test_auto_picks_by_family_and_sizes():
    def pick(family, X, K=20):
        data = ef.Dataset(X, family)
        return proposal_for(ef.MixtureModel(data.family, ef.SymmetricDirichlet(K)), data)

    assert pick(ef.Multinomial(), TEXT) == pick(ef.Poisson(), TEXT) == "table"
    assert pick(ef.DiagonalGaussian(), POINTS) == pick(ef.Gaussian(), POINTS) == "int8"
    assert pick(ef.Categorical(), CLASSES[:, None]) == "int8"
    wide = sparse.csr_array((np.ones(600, np.int32), np.arange(600) * 700, np.arange(601)), shape=(600, 420_000))
    assert pick(ef.Multinomial(), wide, K=1500) == "hash"
    assert pick(ef.DiagonalGaussian(), RNG.normal(size=(30, 600))) == "hash"


class Plain(ef.Family):
    """Poisson columns in plain NumPy, with nothing but the evidence."""

    support = "counts"

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        return (gammaln(1.0 + S) - (1.0 + S) * np.log1p(n)[:, None]).sum(axis=1)


@pytest.mark.parametrize(
    ("family", "X"),
    [
        (ef.Poisson(), np.full((6, 3), 2**30)),  # a column sums to more than a table's counters hold
        (ef.Multinomial(), np.full((6, 3), 2**30)),
        (ef.Multinomial(), np.full((6, 1200), 2**30)),  # and wide
        (ef.Multinomial(allow_fractional=True), TEXT[:30] * 0.5),
        (Plain(), RNG.poisson(3.0, size=(20, 3))),  # no posterior means but numeric ones
    ],
    ids=["large", "large_multinomial", "wide", "fractions", "plain"],
)
@pytest.mark.filterwarnings("ignore:.*differentiated numerically", "ignore:.*but 1 row is distinct")
def test_auto_passes_over_a_proposal_that_refuses_the_data(family, X):
    mixture = ef.Mixture(family, 3, sampler="fastex", n_steps=3, random_state=0).fit(X)
    assert mixture.labels_.shape == (X.shape[0],)


def test_auto_tells_the_first_reason_where_every_proposal_refuses():
    model = ef.MixtureModel(Plain(), ef.SymmetricDirichlet(3))
    with pytest.raises(CapabilityError, match=r"Int8Proposal needs expected_natural\(\)"):
        FastEx().init(model, RNG.poisson(3.0, size=(5, 70)), seed=0)


def test_mode_and_blocks_follow_the_sizes_not_the_threads():
    data = ef.Dataset(TEXT, ef.Multinomial())
    for n_threads in (None, 2):
        kernel = FastEx(n_threads=n_threads)
        assert kernel.choose_mode(ef.MixtureModel(data.family, ef.SymmetricDirichlet(1000)), data) == "removed"
        assert kernel.choose_mode(ef.MixtureModel(data.family, ef.SymmetricDirichlet(2000)), data) == "crossfit"


@pytest.mark.parametrize("weights", [None, ef.PitmanYor(alpha=1.0, discount=0.2)])
def test_mixture_by_name(weights):
    for sampler in ("fastex", FastEx(mode="crossfit")):
        mixture = ef.Mixture("multinomial", weights=weights, sampler=sampler, n_steps=15, random_state=0).fit(TEXT)
        assert 6 <= mixture.n_components_ <= 40
    assert load_sampler("fastex", n_threads=2) == FastEx(n_threads=2)


def test_memory_is_told_before_it_is_taken():
    data = ef.Dataset(TEXT, ef.Multinomial())
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(50))
    assert TableProposal().memory(model, data, 50) >= 60 * 64 * 3
    with pytest.raises(ResourceError, match="proposals"):
        ef.Mixture("multinomial", 100_000, sampler=CollapsedMetropolis(TableProposal()), memory_limit="8MB").fit(TEXT)


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        (CollapsedMetropolis(TableProposal(), mode="sideways"), ValueError, "mode must be"),
        (CollapsedMetropolis(TableProposal(), n_blocks=0), ValueError, "n_blocks must be"),
        (CollapsedMetropolis(TableProposal(), n_threads=0), ValueError, "n_threads must be"),
        (CollapsedMetropolis(TableProposal(dtype="int4")), ValueError, "dtype must be"),
        (CollapsedMetropolis("coin"), CapabilityError, "kind 'assignment'"),
        (CollapsedMetropolis("tabel"), ImportError, "did you mean 'table'"),
        (FastEx(proposal="tabel"), ImportError, "did you mean 'table'"),
    ],
)
def test_bad_settings_are_named(kernel, error, words):
    with pytest.raises(error, match=words):
        kernel.init(ef.MixtureModel(ef.Multinomial(), ef.SymmetricDirichlet(4)), TEXT, seed=0)


def test_data_that_a_table_cannot_hold_are_refused():
    model = ef.MixtureModel(ef.DiagonalGaussian(), ef.SymmetricDirichlet(4))
    with pytest.raises(CapabilityError, match="multinomial and poisson"):
        CollapsedMetropolis(TableProposal()).init(model, POINTS, seed=0)
    kernel = CollapsedMetropolis(TableProposal())
    with pytest.raises(DataError, match="whole counts"):
        walk(kernel, ef.MixtureModel(ef.Multinomial(allow_fractional=True), ef.SymmetricDirichlet(4)), TEXT * 0.5, 1)


def test_a_struct_of_another_kind_is_refused():
    data = ef.Dataset(TEXT, ef.Multinomial())
    with pytest.raises(PluginError, match=r"proposal 'other' must hand over a capsule named 'expfam.proposal_v1'"):
        ProposalHandle(data.family.components(data, 4), "'other'")


def test_one_component_and_empty_rows():
    X = TEXT.toarray()
    X[:5] = 0
    with pytest.warns(UserWarning, match="empty"):
        data = ef.Dataset(X, ef.Multinomial())
    for K in (1, 7):
        for mode in ("crossfit", "removed", "frozen"):
            model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(K))
            walk(CollapsedMetropolis(TableProposal(), mode=mode), model, data, 2)


def test_asynchronous_draws_may_compete_for_the_last_cluster():
    X = np.array([[3, 0, 1], [2, 1, 0], [0, 0, 4], [0, 2, 0], [1, 0, 9]])
    model = ef.MixtureModel(ef.Multinomial(concentration=0.4), ef.SymmetricDirichlet(3, alpha=0.4))
    kernel = CollapsedMetropolis(TableProposal(), mode="asynchronous")
    state = kernel.init(model, X, seed=0, start="random")
    with pytest.warns(ExactnessWarning):
        sample(kernel, state, 20)
    state.check()


def test_many_short_rows_are_drawn_exactly():
    X = sparse.csr_array(RNG.multinomial(5, np.full(40, 1 / 40), size=1200))
    data = ef.Dataset(X, ef.Multinomial(0.1))
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(1000, alpha=0.1))
    start = np.arange(1200) % 60
    kernels = (FastEx(), CollapsedGibbs(), FastEx(n_threads=2))
    states = [kernel.init(model, data, seed=3, start=start) for kernel in kernels]
    for kernel, state in zip(kernels, states):
        infos = [kernel.step(state) for _ in range(3)]
        assert state.labels.tolist() == states[0].labels.tolist()
        if isinstance(kernel, FastEx):
            assert infos[-1].extra["mode"] == "exact"
            assert kernel.memory(model, data, 1000) == 0
    for other in (FastEx(mode="crossfit"), FastEx("table"), FastEx(n_blocks=20)):
        assert not other.draws_exactly(model, data)
    few = ef.MixtureModel(data.family, ef.SymmetricDirichlet(100))
    assert not FastEx().draws_exactly(few, data)
    long = ef.Dataset(sparse.csr_array(RNG.poisson(1.0, (1200, 40))), ef.Multinomial(0.1))
    assert not FastEx().draws_exactly(model, long)
    real = ef.Dataset(RNG.normal(size=(1200, 3)), ef.DiagonalGaussian())
    assert not FastEx().draws_exactly(ef.MixtureModel(real.family, model.weights), real)
