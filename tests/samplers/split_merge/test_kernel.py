"""Split-merge kernels as users run them: presets, parts, compositions, files, threads, interrupts, bad input."""

import os
import signal
import threading

import numpy as np
import pytest
from planted import CLASSES, POINTS, TEXT
from scipy import stats
from scipy.special import comb
from stepping import assert_resumes, assert_threads_agree, stepped
from tiny import FAMILIES, WEIGHTS, PlainPoisson

import expfam as ef
from expfam.errors import CapabilityError, PluginError
from expfam.plugins.registry import load_proposal
from expfam.samplers import (
    Allocator,
    AnchoredMoves,
    Anchors,
    BucketMoves,
    CodeAllocator,
    CoinAllocator,
    CollapsedGibbs,
    CollapsedSplitMerge,
    CutMoves,
    Cycle,
    DelayedAllocator,
    FarAnchors,
    FastEx,
    FrozenAllocator,
    MemberMoves,
    NearAnchors,
    RandomScan,
    RestrictedGibbsAllocator,
    SequentialAllocator,
    SoftmaxMoves,
    SplitMerge,
    UniformAnchors,
    UpdateHyper,
    UrnAllocator,
    load_sampler,
    sample,
)
from expfam.samplers.geometry.hash_tables import HashTables
from expfam.samplers.named import PRESETS
from expfam.samplers.split_merge.allocators import urn_log_q
from expfam.samplers.split_merge.moves import moves_of
from expfam.structures.ground.rng import generator
from expfam.structures.hashing.lsh import LshTables

DATA = {
    "multinomial": (ef.Multinomial(concentration=0.1), TEXT),
    "poisson": (ef.Poisson(), TEXT),
    "gaussian_diag": (ef.DiagonalGaussian(), POINTS),
    "gaussian": (ef.Gaussian(), POINTS),
    "plain_poisson": (PlainPoisson(), TEXT.toarray()[:60, :10]),
}


def start_of(kernel, case="gaussian_diag", weights=None, **options):
    family, X = DATA[case]
    return kernel.init(ef.MixtureModel(family, weights or ef.DirichletProcess()), X, **({"seed": 3} | options))


def walk(kernel, n_steps, **options):
    return stepped(kernel, start_of(kernel, **options), n_steps)


# ---- what moves keep consistent --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", DATA)
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_leave_a_consistent_state(preset, case):
    weights = {"plain_poisson": ef.SymmetricDirichlet(5), "poisson": ef.PitmanYor(alpha=1.0, discount=0.4)}.get(case)
    slow = case == "plain_poisson" or preset == "mondrian"
    kernel = SplitMerge(preset, n_moves=8 if slow else 400)
    state = start_of(kernel, case, weights, start="random", n_clusters=4)
    for _ in range(3):
        info = kernel.step(state)
        state.check()
    runner = kernel.runner(state)
    runner.open()
    lists = runner.to_arrays()["lists"]
    assert info.proposed >= info.accepted >= 0
    np.testing.assert_array_equal(np.sort(lists["items"]), np.arange(len(state.labels)))
    sizes = np.diff(lists["offsets"])
    np.testing.assert_array_equal(sizes[: len(state.counts)], state.counts[: len(sizes)])


def test_many_moves_leave_exact_statistics():
    kernel = SplitMerge(n_moves=50_000)
    state = start_of(kernel, start="random", n_clusters=30)
    kernel.step(state)
    state.check()
    n, S = state.components.export()
    exact = ef.Dataset(POINTS, state.model.family).statistics(state.labels, len(n))
    np.testing.assert_array_equal(n, exact[0])
    np.testing.assert_allclose(S, exact[1], rtol=1e-9, atol=1e-9 * abs(exact[1]).max())


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_splits_find_the_clusters_of_one_start_and_merges_those_of_another(seed):
    model = ef.MixtureModel(ef.DiagonalGaussian(), ef.DirichletProcess())
    truth = model.log_joint(ef.Dataset(POINTS, ef.DiagonalGaussian()), CLASSES)
    for start in (np.zeros(600, dtype=int), np.arange(600)):
        kernel = Cycle(SplitMerge(), CollapsedGibbs())
        state = start_of(kernel, start=start, seed=seed)
        assert sample(kernel, state, 30).column("objective").max() > truth - 20.0


@pytest.mark.parametrize("seed", range(3))
def test_pieces_that_lie_side_by_side_are_merged(seed):
    """An urn would hardly ever cut a cluster in halves, and so cannot undo such a cut either."""
    labels, noise = np.arange(6000) % 30, np.random.default_rng(0).normal(size=(6000, 2))
    X = noise + 12.0 * np.column_stack([labels % 6, labels // 6])
    family = ef.DiagonalGaussian(mean=0.0, mean_strength=0.01, shape=2.0, rate=1.0)
    model = ef.MixtureModel(family, ef.DirichletProcess())
    state = SplitMerge().init(model, X, seed=seed, start=2 * labels + (noise[:, 0] > 0))
    sample(SplitMerge(), state, 3)
    assert state.n_clusters <= 32
    assert state.log_joint > model.log_joint(ef.Dataset(X, family), labels) - 60.0


MOVES_LAZY = [SequentialAllocator(), RestrictedGibbsAllocator(), UrnAllocator(), CoinAllocator(), CodeAllocator()]


@pytest.mark.parametrize("allocator", [*MOVES_LAZY, DelayedAllocator(first=2, factor=2)], ids=repr)
def test_merges_refused_early_are_those_that_would_be_refused(allocator):
    """Each move has its own stream, so both chains draw the same anchors, sides and uniforms."""
    kernel = CollapsedSplitMerge([MemberMoves(allocator)], n_moves=1)
    results = []
    for eager in (False, True):
        answers = []
        for seed in range(150):
            labels = np.random.default_rng(seed).integers(3, size=16)
            model = ef.MixtureModel(ef.DiagonalGaussian(), ef.DirichletProcess())
            state = kernel.init(model, POINTS[:16] % 3.0, seed=seed, start=labels)
            kernel.runner(state)._set_eager(eager)
            info = kernel.step(state)
            answers.append((info.proposed, info.accepted, *state.partition))
        results.append(np.array(answers))
    np.testing.assert_array_equal(*results)
    assert results[0][:, 1].sum() > 0


def test_few_data_and_equal_data():
    for X in ([[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]], np.ones((20, 2))):
        for preset in PRESETS:
            kernel = SplitMerge(preset, n_moves=60)
            model = ef.MixtureModel(ef.DiagonalGaussian(mean=0.0, shape=2.0, rate=1.0), ef.DirichletProcess())
            state = kernel.init(model, np.asarray(X), seed=1, start="one")
            for _ in range(3):
                kernel.step(state)
                state.check()
            if len(X) == 1:
                assert state.n_clusters == 1


def test_finite_weights_never_have_too_many_clusters():
    kernel = Cycle(SplitMerge(n_moves=300), CollapsedGibbs())
    state = start_of(kernel, weights=ef.SymmetricDirichlet(3), start="one")
    for _ in range(10):
        kernel.step(state)
        assert state.n_clusters <= 3
        state.check()
    assert state.n_clusters == 3


def test_the_start_suits_an_open_number_of_clusters_of_vectors():
    kernel = Cycle(SplitMerge(), CollapsedGibbs())
    state, named = start_of(kernel), start_of(kernel, start="variational")
    np.testing.assert_array_equal(state.labels, named.labels)
    truth = named.model.log_joint(ef.Dataset(POINTS, ef.DiagonalGaussian()), CLASSES)
    assert state.log_joint > truth
    assert start_of(kernel, start="kmeans++").log_joint < truth - 200.0
    np.testing.assert_array_equal(start_of(CollapsedGibbs()).labels, named.labels)  # one rule for all kernels
    for options in ({"case": "multinomial"}, {"weights": ef.SymmetricDirichlet(5)}, {"case": "plain_poisson"}):
        expected = start_of(CollapsedGibbs(), **options).labels
        np.testing.assert_array_equal(start_of(kernel, **options).labels, expected)


class CountedAnchors(UniformAnchors):
    n_bound = 0

    def bind(self, data, *, seed):
        type(self).n_bound += 1
        return super().bind(data, seed=seed)

    def memory_per_row(self, data):
        return 1000


def test_moves_of_one_anchor_law_share_what_it_makes():
    laws = [CountedAnchors(), CountedAnchors(), UniformAnchors()]
    allocators = [UrnAllocator(), SequentialAllocator(), UrnAllocator()]
    moves = [AnchoredMoves(*parts) for parts in zip(laws, allocators, strict=True)]
    kernel = CollapsedSplitMerge(moves, n_moves=30)
    walk(kernel, 3)
    assert CountedAnchors.n_bound == 1
    state = start_of(kernel)
    needs = [CollapsedSplitMerge(some, n_moves=30).memory(state.model, state.data, 5) for some in (moves, moves[:1])]
    assert needs[0] == needs[1]


# ---- the same bits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["multinomial", "gaussian_diag"])
@pytest.mark.parametrize(
    "kernel",
    [
        SplitMerge(n_moves=100),
        SplitMerge("minsm", n_moves=100),
        Cycle(SplitMerge(), CollapsedGibbs()),
        Cycle(SplitMerge("sdds"), FastEx(), UpdateHyper(family=False)),
        RandomScan(SplitMerge("lshsm", n_moves=50), CollapsedGibbs()),
        SplitMerge(allocator="frozen", n_moves=30),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_a_chain_resumed_from_its_file_gives_the_same_bits(kernel, case, tmp_path):
    state = walk(kernel, 4, case=case)
    assert_resumes(kernel, state, start_of(kernel, case), tmp_path / "run", 4)


@pytest.mark.parametrize("case", ["multinomial", "gaussian_diag"])
@pytest.mark.parametrize("preset", ["auto", "lshsm", "minsm"])
def test_labels_do_not_depend_on_the_number_of_threads(preset, case):
    assert_threads_agree(lambda n: walk(SplitMerge(preset, n_threads=n), 5, case=case).labels)


def test_two_kernels_on_one_state_do_not_share_what_they_keep():
    a, b = SplitMerge("rgsm", n_moves=50), SplitMerge("sdds", n_moves=50)
    state = walk(a, 3)
    b.step(state)
    assert [type(move) for move in b.runner(state).moves] == [MemberMoves, SoftmaxMoves]
    state.check()


@pytest.mark.usefixtures("default_interrupt")
def test_interrupt_within_a_step_leaves_a_valid_state():
    kernel = SplitMerge("rgsm", n_moves=10_000_000)
    state = start_of(kernel, "multinomial", start="random", n_clusters=5)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    trace = sample(kernel, state, 3)
    timer.join()
    assert trace.interrupted
    state.check()
    CollapsedGibbs().step(state)
    SplitMerge(n_moves=100).step(state)
    state.check()


# ---- numbers of moves --------------------------------------------------------------------------------------------


def test_the_number_of_moves_is_adapted_early_and_then_stays():
    kernel = SplitMerge()
    state = start_of(kernel)
    numbers = [kernel.step(state).extra["n_moves"] for _ in range(700)]
    assert len(set(numbers[:20])) > 1
    late = numbers[550:]
    assert set(late) == {0, max(late)}  # few data: only each so-manieth step makes moves
    assert len({*np.diff(np.flatnonzero(late))}) == 1
    frozen = kernel.frozen(state)
    assert frozen.n_moves == max(late)
    assert frozen.every == np.diff(np.flatnonzero(late))[0]
    assert frozen.frozen(state) is frozen
    with_gibbs = Cycle(kernel, CollapsedGibbs())
    state = walk(with_gibbs, 5)
    settled = with_gibbs.frozen(state)
    assert isinstance(settled.kernels[0].n_moves, int)
    assert settled.kernels[1] == CollapsedGibbs()


def test_the_estimator_counts_only_steps_of_a_fixed_number_of_moves():
    assert load_sampler("split_merge", n_threads=2) == SplitMerge(n_threads=2)

    # below 1000 rows only every fifth step makes moves
    many = np.concatenate([POINTS] * -(-1000 // len(POINTS)))
    seen = []

    def watch(info, state):
        parts = info.extra.get("parts")  # none in the first half of the warm-up, which is of sweeps alone
        seen.append((parts[0].extra.get("parts") or parts)[0].extra["n_moves"] if parts else None)

    for learn in (False, True):
        seen.clear()
        mixture = ef.Mixture(ef.DiagonalGaussian(), n_steps=15, n_warmup=10, random_state=0, callbacks=[watch])
        mixture.set_params(learn_hyper=learn).fit(many)
        assert set(seen[:5]) == {None}
        assert len({*seen[5:10]} - {0}) > 1
        assert len({*seen[10:]} - {0}) == 1
    assert mixture.n_components_ >= 12


def test_moves_go_on_while_they_are_accepted_early_in_a_chain():
    rng = np.random.default_rng(0)
    labels = np.arange(3000) % 60
    X = rng.normal(size=(3000, 8)) + 4.0 * rng.normal(size=(60, 8))[labels]
    model = ef.MixtureModel(ef.DiagonalGaussian(), ef.DirichletProcess())
    pieces = labels * 5 + rng.integers(5, size=3000)
    kernel = SplitMerge()
    state = kernel.init(model, X, seed=1, start=pieces)
    first = kernel.step(state).extra
    assert first["n_moves"] >= 1500  # several runs, of which none is longer than a quarter of the data
    assert first["merges_accepted"] > 200
    assert state.n_clusters < 75
    state.check()
    settled = Cycle(kernel, CollapsedGibbs()).init(model, X, seed=1, start=labels)
    for _ in range(80):
        last = kernel.step(settled).extra
    assert last["n_moves"] in (0, kernel.frozen(settled).n_moves)
    assert kernel.frozen(settled).n_moves < 750


def agreement(X, kernels, n_steps):
    """Mean number of clusters of each kernel, and by how many standard errors the two differ."""
    model = ef.MixtureModel(
        ef.DiagonalGaussian(mean=0.0, mean_strength=0.2, shape=2.0, rate=1.0), ef.DirichletProcess(1.0)
    )
    means, errors = [], []
    for kernel in kernels:
        state = kernel.init(model, X, seed=2, start="kmeans++", n_clusters=8)
        sample(kernel, state, 200)
        K = sample(kernel.frozen(state), state, n_steps).column("n_clusters")
        batches = K.reshape(20, -1).mean(axis=1)
        means.append(batches.mean())
        errors.append(batches.std(ddof=1) / np.sqrt(20))
    return means, abs(means[0] - means[1]) / np.hypot(*errors)


def overlapping(n_rows):
    rng = np.random.default_rng(1)
    return rng.normal(size=(n_rows, 2)) + 2.0 * rng.normal(size=(5, 2))[rng.integers(5, size=n_rows)]


def test_the_posterior_number_of_clusters_is_that_of_gibbs():
    kernels = CollapsedGibbs(), Cycle(SplitMerge(n_moves=150), CollapsedGibbs())
    assert agreement(overlapping(400), kernels, 1200)[1] < 4.0


@pytest.mark.slow
def test_the_default_agrees_with_gibbs_on_a_thousand_data():
    X = overlapping(1000)
    kernels = CollapsedGibbs(), Cycle(SplitMerge(), CollapsedGibbs())
    (gibbs, default), z = agreement(X, kernels, 8000)
    assert z < 4.0
    assert abs(gibbs - default) < 0.6  # the standard errors are small enough to say something

    family = ef.DiagonalGaussian(mean=0.0, mean_strength=0.2, shape=2.0, rate=1.0)
    mixture = ef.Mixture(family, n_components=None, n_steps=2300, n_warmup=300, random_state=3).fit(X)
    K = mixture.trace_.column("n_clusters")[-2000:]
    assert len(mixture.trace_) >= 2000
    error = K.reshape(20, -1).mean(axis=1).std(ddof=1) / np.sqrt(20)
    assert abs(K.mean() - gibbs) < 5.0 * error + 0.3


# ---- parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["dirichlet_process", "pitman_yor", "dirichlet_3"])
@pytest.mark.parametrize(
    "allocator",
    [
        CoinAllocator(),
        UrnAllocator(),
        SequentialAllocator(),
        RestrictedGibbsAllocator(n_scans=1),
        RestrictedGibbsAllocator(n_scans=0, launch="sequential"),
        FrozenAllocator(),
    ],
    ids=repr,
)
def test_probabilities_of_all_sides_sum_to_one_and_are_those_of_draws(allocator, weights):
    family, X = FAMILIES["gaussian_diag"]
    data = ef.Dataset(X, family)
    bound = allocator.bind(ef.MixtureModel(data.family, WEIGHTS[weights]), data, seed=0)
    Phi = data.phi(0, 5)
    total = 0.0
    for bits in range(8):
        forced = np.array([0, 1, *((bits >> j) & 1 for j in range(3))], dtype=np.int8)
        sides, log_q = bound.sides(Phi, np.random.default_rng(7), forced=forced)
        np.testing.assert_array_equal(sides, forced)
        total += np.exp(log_q)
    if not isinstance(allocator, RestrictedGibbsAllocator):  # forced rows change which numbers the launch takes
        assert abs(total - 1.0) < 1e-10
    drawn = [bound.sides(Phi, np.random.default_rng(seed)) for seed in range(20)]
    for seed, (sides, log_q) in enumerate(drawn):
        if not isinstance(allocator, RestrictedGibbsAllocator):
            order = np.random.default_rng(seed)
            assert abs(bound.sides(Phi, order, forced=sides)[1] - log_q) < 1e-12


def test_urns_give_every_size_the_same_probability_under_a_dirichlet_process():
    n = 12
    sizes = np.arange(1, n)
    by_size = np.exp(urn_log_q(sizes, n - sizes, 0.0)) * comb(n - 2, sizes - 1)
    np.testing.assert_allclose(by_size, 1.0 / (n - 1), rtol=1e-12)
    bound = UrnAllocator().bind(ef.MixtureModel(ef.Poisson(), ef.DirichletProcess()), None, seed=0)
    rng = np.random.default_rng(0)
    sizes = [bound.sides(np.zeros((n, 1)), rng)[0].sum() for _ in range(4000)]
    assert stats.chisquare(np.bincount(sizes, minlength=n)[1:]).pvalue > 1e-4


def test_near_pairs_have_the_law_of_the_tables():
    data = ef.Dataset(POINTS[:30], ef.DiagonalGaussian())
    law = NearAnchors(n_bits=3, n_tables=4).bind(data, seed=5)
    law.refresh(2)
    pairs = law.draw_pairs(200_000, np.random.default_rng(0))
    tables = LshTables(HashTables(n_bits=3, n_tables=4).keys(data, seed=5, epoch=2))
    expected = tables.lss_probability(np.arange(30)[:, None], np.arange(30)) / 30 * len(pairs)
    counts = np.zeros((30, 30))
    found = pairs[pairs[:, 0] >= 0]
    np.add.at(counts, (found[:, 0], found[:, 1]), 1)
    assert (counts[expected == 0] == 0).all()
    keep = expected > 5
    assert stats.chi2.sf((((counts - expected) ** 2 / np.maximum(expected, 1e-9))[keep]).sum(), keep.sum()) > 1e-4


@pytest.mark.parametrize("method", ["sign", "minhash"])
def test_near_pairs_share_their_cluster_more_often_and_far_pairs_less(method):
    data = ef.Dataset(TEXT, ef.Multinomial())
    rng = np.random.default_rng(0)
    same = {}
    for law in (UniformAnchors(), NearAnchors(method=method), FarAnchors(method=method, n_bits=1)):
        pairs = law.bind(data, seed=1).draw_pairs(20_000, rng)
        pairs = pairs[pairs[:, 0] >= 0]
        assert (pairs[:, 0] != pairs[:, 1]).all()
        same[type(law).__name__] = (CLASSES[pairs[:, 0]] == CLASSES[pairs[:, 1]]).mean()
    assert same["NearAnchors"] > 2.5 * same["UniformAnchors"] > 2.5 * same["FarAnchors"]


@pytest.mark.parametrize("method", ["sign", "minhash"])
def test_the_nearest_of_several_is_of_the_same_cluster_more_often(method):
    data = ef.Dataset(TEXT, ef.Multinomial())
    same = []
    for n_candidates in (1, 2, 32):
        law = NearAnchors(n_candidates=n_candidates, method=method, n_bits=2).bind(data, seed=1)
        pairs = law.draw_pairs(20_000, np.random.default_rng(0))
        assert (pairs[:, 0] != pairs[:, 1]).all()
        same.append((CLASSES[pairs[:, 0]] == CLASSES[pairs[:, 1]]).mean())
    assert same[1] > same[0] + 0.02
    assert same[2] > same[1] + 0.05


def test_codes_of_several_words_hold_the_bits_of_all_keys():
    data = ef.Dataset(POINTS, ef.DiagonalGaussian())
    settings = HashTables(n_bits=23, n_tables=6)
    keys = settings.keys(data, seed=5, epoch=1)
    assert keys.max() < 1 << 23
    words, by_bits = settings.compared(data, keys)
    assert by_bits
    assert words.shape == (600, 3)
    for i, j in ((0, 1), (17, 400), (3, 3)):
        ones = [sum(int(x).bit_count() for x in codes[i] ^ codes[j]) for codes in (keys, words)]
        assert ones[0] == ones[1]
    assert settings.keys(data, seed=5, epoch=2).tolist() != keys.tolist()
    signs = HashTables(n_bits=1, n_tables=138).keys(data, seed=5, epoch=1)
    np.testing.assert_array_equal((signs.reshape(600, 6, 23) << np.arange(23, dtype=np.uint64)).sum(axis=2), keys)


def test_anchors_are_renewed_by_the_epoch_alone():
    data = ef.Dataset(POINTS, ef.DiagonalGaussian())
    a, b = (NearAnchors().bind(data, seed=5) for _ in range(2))
    first = a.draw_pairs(50, np.random.default_rng(1))
    a.refresh(3)
    other = a.draw_pairs(50, np.random.default_rng(1))
    b.refresh(3)
    np.testing.assert_array_equal(other, b.draw_pairs(50, np.random.default_rng(1)))
    assert not np.array_equal(first, other)


def test_a_table_that_tells_nothing_apart_is_reported():
    X = np.ones((200, 2))
    X[:50] = 2.0
    data = ef.Dataset(X, ef.DiagonalGaussian())
    with pytest.warns(UserWarning, match="take more bits, or other anchors"):
        NearAnchors(n_bits=2).bind(data, seed=0).draw_pairs(3, np.random.default_rng(0))


# ---- other people's parts ----------------------------------------------------------------------------------------


class NextAnchors(Anchors):
    """A datum and the next one."""

    def bind(self, data, *, seed):
        return _Next(data.n_rows)


class _Next:
    def __init__(self, n):
        self.n = n

    def refresh(self, epoch):
        pass

    def draw_pairs(self, size, rng):
        u = rng.integers(self.n, size=size)
        return np.column_stack([u, (u + 1) % self.n])


class HalfAllocator(Allocator):
    """Sides by the parity of a row's place: all coins, written as a third party would."""

    def assign(self, bound, Phi, rng, forced):
        sides = (rng.random(Phi.shape[0]) < 0.5).astype(np.int8) if forced is None else forced
        return sides, (Phi.shape[0] - 2) * np.log(0.5)


class BadAllocator(Allocator):
    def __init__(self, what="shape"):
        self.what = what

    def assign(self, bound, Phi, rng, forced):
        if self.what == "raise":
            raise ZeroDivisionError("a bug of the plugin's author")
        n = Phi.shape[0] - (self.what == "shape")
        return np.arange(n) % 2, 0.5 if self.what == "positive" else -1.0

    def bind(self, model, data, *, seed):
        bound = super().bind(model, data, seed=seed)
        if self.what == "shape":
            bound.sides = lambda Phi, rng, forced=None: (np.zeros(3), -1.0)
        return bound


def test_parts_of_a_third_party_work_by_kind():
    kernel = SplitMerge(anchors=NextAnchors(), allocator=HalfAllocator(), n_moves=60)
    state = walk(Cycle(kernel, CollapsedGibbs()), 3, case="plain_poisson", start="random", n_clusters=3)
    assert state.n_clusters >= 1
    assert load_proposal("near_anchors").kind == "anchors"
    assert load_proposal("urn").kind == "allocator"
    assert SplitMerge(anchors="far_anchors", allocator="urn").choose_moves(None, None) == [
        AnchoredMoves(FarAnchors(), UrnAllocator())
    ]


FAULTS = {"shape": PluginError, "positive": PluginError, "raise": ZeroDivisionError}


@pytest.mark.parametrize(("what", "error"), FAULTS.items(), ids=FAULTS)
def test_a_failing_allocator_is_named_and_leaves_a_valid_state(what, error):
    kernel = SplitMerge(allocator=BadAllocator(what), n_moves=200)
    state = start_of(kernel, start="one")
    with pytest.raises(error):
        kernel.step(state)
    state.check()
    CollapsedGibbs().step(state)
    state.check()


def test_anchors_out_of_range_are_refused():
    class Wrong(NextAnchors):
        def bind(self, data, *, seed):
            return _Next(data.n_rows + 5)

    kernel = SplitMerge(anchors=Wrong(), n_moves=5000)
    with pytest.raises(PluginError, match="anchors must be data below 600"):
        kernel.step(start_of(kernel))


# ---- bad input ---------------------------------------------------------------------------------------------------

BAD = [
    (lambda: SplitMerge("smart"), ValueError, "preset must be one of"),
    (lambda: SplitMerge(n_moves=0), ValueError, "n_moves must be"),
    (lambda: SplitMerge(rho=0.0), ValueError, r"rho must be a number in \(0, 1\]; got 0.0"),
    (lambda: SplitMerge(rho=1.5), ValueError, "rho must be"),
    (lambda: SplitMerge("mondrian", rho=0.5), ValueError, "preset 'mondrian' has no moves between anchors"),
    (lambda: SplitMerge(anchors=NearAnchors(n_bits=63)), ValueError, "n_bits must be .* got 63"),
    (lambda: SplitMerge(anchors=NearAnchors(n_candidates=0)), ValueError, "n_candidates must be .* got 0"),
    (lambda: SplitMerge(anchors=NearAnchors(n_tables=0)), ValueError, "n_tables must be .* got 0"),
    (lambda: SplitMerge(anchors=NearAnchors(method="cosine")), ValueError, "method must be"),
    (lambda: SplitMerge(anchors=NearAnchors(method="minhash")), CapabilityError, "MinHash needs data"),
    (lambda: SplitMerge(anchors=UrnAllocator()), CapabilityError, "needs anchors of kind 'anchors'"),
    (lambda: SplitMerge(allocator=UniformAnchors()), CapabilityError, "needs allocator of kind 'allocator'"),
    (lambda: SplitMerge(allocator=RestrictedGibbsAllocator(n_scans=-1)), ValueError, "n_scans"),
    (lambda: SplitMerge(allocator=RestrictedGibbsAllocator(launch="x")), ValueError, "launch"),
    (lambda: SplitMerge(allocator=DelayedAllocator(factor=1)), ValueError, "factor"),
    (lambda: SplitMerge(allocator=CodeAllocator(beta=0.0)), ValueError, "beta"),
    (lambda: SplitMerge(allocator=FrozenAllocator(n_rounds=-1)), ValueError, "n_rounds"),
    (lambda: CollapsedSplitMerge([]), ValueError, "at least one kind"),
    (lambda: CollapsedSplitMerge([MemberMoves(weight=0.0)]), ValueError, "MemberMoves: weight must be a positive"),
    (lambda: CollapsedSplitMerge([AnchoredMoves(most=0.0)]), ValueError, "most must be a positive"),
    (lambda: CollapsedSplitMerge([UniformAnchors()]), CapabilityError, "needs moves of the kinds"),
    (lambda: SplitMerge(n_threads=0), ValueError, "n_threads"),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[message for *_, message in BAD])
def test_bad_settings_are_refused_before_any_work(make, error, message):
    with pytest.raises(error, match=message):
        start_of(make())


def test_cuts_of_categories_are_refused():
    with pytest.raises(CapabilityError, match="have no order"):
        SplitMerge("mondrian").init(ef.MixtureModel(ef.Categorical(), ef.DirichletProcess()), [[0, 1], [1, 0]])


def test_rho_alone_thins_the_moves_of_the_preset():
    model = ef.MixtureModel(ef.DiagonalGaussian(), ef.DirichletProcess())
    usual, thinned = (SplitMerge("lshsm", rho=rho).choose_moves(model, None) for rho in (None, 0.3))
    assert [move.rho for move in usual] == [1.0, 0.05]
    assert [move.rho for move in thinned] == [0.3, 0.3]
    assert [(m.anchors, m.allocator, m.most) for m in usual] == [(m.anchors, m.allocator, m.most) for m in thinned]


def test_settings_are_values():
    for move in (AnchoredMoves(), MemberMoves(), BucketMoves(), SoftmaxMoves(), CutMoves()):
        assert type(move)(**move.get_params()) == move
        assert moves_of(move) == [move]
    assert SplitMerge() == SplitMerge("auto")
    assert SplitMerge() != SplitMerge("rgsm")


class Fragile(ef.Poisson):
    """Evidence that fails for large sums."""

    def components(self, data, capacity, *, layout="features"):
        from expfam.families.generic import GenericComponents

        return GenericComponents(self, data, capacity)

    def log_marginal(self, n, S):
        A = super().log_marginal(n, S)
        return np.where((np.asarray(S) > 25).any(axis=1), np.nan, A)


def test_an_evidence_that_is_not_a_number_is_raised():
    X = np.array([[9], [1], [8], [7], [9], [2], [1]])
    kernel = SplitMerge("random", n_moves=500)
    state = kernel.init(ef.MixtureModel(Fragile(), ef.DirichletProcess()), X, seed=0, start=np.arange(7))
    with pytest.raises(FloatingPointError, match="log_marginal returned nan for cluster 0"):
        sample(kernel, state, 50)
    counts = np.bincount(state.labels, minlength=len(state.counts))
    np.testing.assert_array_equal(counts, state.counts)


def test_streams_of_plans_are_those_of_choices_not_of_scans():
    a = generator(1, "choice", unit=0, step=3).random()
    assert a != generator(1, "choice", unit=1, step=3).random()


def test_uniform_anchors_are_every_ordered_pair_of_different_data_alike():
    data = ef.Dataset(np.arange(5)[:, None], ef.Poisson())
    pairs = UniformAnchors().bind(data, seed=0).draw_pairs(20_000, np.random.default_rng(0))
    seen = np.bincount(pairs @ [5, 1], minlength=25).reshape(5, 5)
    assert seen.trace() == 0, "a datum is paired with itself"
    assert stats.chisquare(seen[~np.eye(5, dtype=bool)]).pvalue > 1e-4


def test_every_move_of_two_data_proposes_something():
    """Two data are either apart or together: a move in vain would have drawn one of them twice."""
    kernel = CollapsedSplitMerge([AnchoredMoves(UniformAnchors(), CoinAllocator())], n_moves=200)
    state = kernel.init(ef.MixtureModel(ef.Poisson(), ef.DirichletProcess()), [[3], [4]], seed=0)
    assert kernel.step(state).proposed == 200
