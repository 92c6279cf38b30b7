"""Eight-bit proposals: integer products, law of the draw, statistics followed through moves, exactness."""

import numpy as np
import pytest
from enumeration import exact_posterior, total_variation, update_matrix, visit_frequencies
from instruction_sets import output_under
from scipy import sparse, stats
from tiny import FAMILIES as TINY
from tiny import WEIGHTS, PlainPoisson

from expfam import (
    Categorical,
    Columns,
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    Gaussian,
    MixtureModel,
    Poisson,
    SphericalGaussian,
    SymmetricDirichlet,
    ZeroMeanGaussian,
)
from expfam.errors import ArchiveError, CapabilityError, PluginError, ResourceError
from expfam.families.natural import natural_law_of
from expfam.families.support import dense_rows
from expfam.samplers import CollapsedMetropolis, Int8Proposal
from expfam.samplers.proposals import int8
from expfam.samplers.proposals.handle import ProposalHandle
from expfam.samplers.proposals.snapshot import Snapshot
from expfam.samplers.states.collapsed import CollapsedState
from expfam.structures.ground.threads import team_of
from expfam.structures.simd import probe as _kernels

SPHERICAL = ["gaussian_spherical", "gaussian_spherical_known", "gaussian_spherical_shared"]
TABLES = ["table", "table_with_numpy"]
DENSE = [
    *("categorical", "poisson", "plain_poisson", "bernoulli", "negative_binomial"),
    *("gaussian", "gaussian_diag", *SPHERICAL, "gaussian_zero", *TABLES),
]
_CELLS = np.array([[0.3, 3, 0, 1], [np.nan, 2, 1, 2], [2.0, 0, 0, 0], [1.7, np.nan, -1, 0], [-0.4, 1, 1, 5]])
_REAL = DiagonalGaussian(mean=0.2, mean_strength=0.3, shape=1.5, rate=0.7)
_PARTS = [(_REAL, (0,)), (Poisson(shape=0.8, rate=0.5), (1,)), (Categorical(concentration=0.6), (2,))]
FAMILIES = TINY | {
    "table": (Columns([*_PARTS, (Poisson(shape=1.1, rate=0.7), (3,))]), _CELLS),
    "table_with_numpy": (Columns([*_PARTS, (PlainPoisson(shape=1.1, rate=0.7), (3,))]), _CELLS),
}


def make(X, family, weights):
    data = Dataset(X, family)
    return data, MixtureModel(data.family, weights)


def view(data, model, labels, n_slots):
    """Snapshot of the data whose label is not negative."""
    labels = np.asarray(labels)
    n, S = data.statistics(labels, n_slots)
    slots = np.flatnonzero(n > 0)
    weights = model.weights
    new = weights.log_new_mass(data.n_rows, data.n_rows)[len(slots)]
    return Snapshot(
        data.family, n[slots], slots, lambda: S[slots], log_weight=np.log(n[slots] + weights.offset), log_weight_new=new
    )


def handle_of(data, model, **settings):
    return ProposalHandle(Int8Proposal(**settings).bind(model, data, seed=0), "int8")


def blobs(seed=0, N=120, d=5, K=7, spread=4.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, N)
    return rng.normal(size=(K, d))[labels] * spread + rng.normal(size=(N, d)), labels


def every(n_slots):
    return np.append(np.arange(n_slots), -1)


def law(handle, i, n_slots, k_old=-1):
    return np.exp(handle.log_prob(i, k_old, every(n_slots)))


# ---- integers --------------------------------------------------------------------------------------------------------


def packed(V):
    K, F = V.shape
    rows = np.full((-(-K // 64), -(-F // 4), 64, 4), 128, dtype=np.uint8)
    for k in range(K):
        for f in range(F):
            rows[k // 64, f // 4, k % 64, f % 4] = V[k, f] + 128
    return rows


@pytest.mark.parametrize(("K", "F"), [(1, 1), (64, 4), (70, 37), (130, 1024)])
def test_products_are_those_of_integers(K, F):
    rng = np.random.default_rng(K)
    V, query = rng.integers(-127, 128, (K, F)), rng.integers(-127, 128, F)
    V[0], query[:] = (127, np.where(query < 0, -127, 127)) if K == 130 else (V[0], query)
    padded = np.zeros(-(-F // 4) * 4, dtype=np.int8)
    padded[:F] = query
    dots = _kernels.int8_dots(packed(V), padded)
    assert np.array_equal(dots[:K], V @ query)
    assert not dots[K:].any()


@pytest.mark.parametrize("entry", [(127, 127), (127, -127), (-127, 127), (-127, -127)])
def test_products_of_extreme_entries_do_not_saturate(entry):
    V, query = np.full((64, 1024), entry[0]), np.full(1024, entry[1], dtype=np.int8)
    assert (_kernels.int8_dots(packed(V), query) == 1024 * entry[0] * entry[1]).all()


def fingerprint():
    """Integer products and scores, for comparison between instruction sets."""
    rng = np.random.default_rng(3)
    dots = _kernels.int8_dots(
        rng.integers(1, 256, (3, 9, 64, 4)).astype(np.uint8), rng.integers(-127, 128, 36).astype(np.int8)
    )
    X, labels = blobs()
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=1.0))
    handle = handle_of(data, model, shortlist=0, temperature=0.5)
    handle.refresh(view(data, model, labels, 7))
    q = [handle.log_prob(i, 0, every(7)) for i in range(20)]
    return dots.tobytes().hex() + np.array(q).tobytes().hex()


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_instruction_sets_agree_to_the_bit(isa):
    code = "import test_int8 as t; print(t.fingerprint())"
    assert output_under(isa, code, file=__file__).strip() == fingerprint()


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "family",
    [
        *(DiagonalGaussian(), Gaussian(), ZeroMeanGaussian()),
        *(SphericalGaussian(variance) for variance in ("auto", "shared", 0.7)),
    ],
)
def test_natural_parameters_of_one_cluster_are_the_familys(family):
    X, labels = blobs(d=6)
    data = Dataset(X, family)
    n, S = data.statistics(labels, 9)  # two empty clusters
    Theta, G = data.family.expected_natural(n, S)
    for k in range(9):
        theta, g = natural_law_of(data.family)(n[k], S[k])
        assert np.allclose(theta, Theta[k], rtol=1e-10, atol=1e-10 * np.abs(Theta[k]).max())
        assert g == pytest.approx(G[k], rel=1e-10)


@pytest.mark.parametrize("variance", ["auto", "shared", 0.7])
def test_statistics_of_sparse_rows_are_followed_through_moves(variance):
    rng = np.random.default_rng(0)
    X = sparse.random_array((1500, 400), density=0.02, rng=rng, format="csr")
    data, model = make(X, SphericalGaussian(variance), SymmetricDirichlet(4))
    kernel = CollapsedMetropolis(proposal=Int8Proposal())
    state = kernel.init(model, data, seed=0, start="random")
    for _ in range(3):  # rows that were read as dense ones gave statistics that are not finite
        kernel.step(state)
    n, S = state.components.export()
    expected_n, expected_S = data.statistics(state.labels, len(n))
    assert np.array_equal(n, expected_n)
    assert np.allclose(S, expected_S.toarray(), atol=1e-10)


def test_natural_parameters_refuse_impossible_statistics():
    data = Dataset(blobs()[0], Gaussian())
    with pytest.raises(FloatingPointError):
        natural_law_of(data.family)(3.0, np.full(data.n_statistics, -1e6))


@pytest.mark.parametrize("name", [*DENSE, "wide"])
def test_scores_are_the_linear_ones_up_to_rounding(name):
    if name == "wide":
        X, labels = blobs(d=40, K=80, N=400)
        data, model = make(X, Gaussian(), DirichletProcess(alpha=1.0))
    else:
        family, X = FAMILIES[name]
        data, model = make(X, family, DirichletProcess(alpha=1.0))
        labels = np.array([0, 0, 1, 2, 1])
    n_slots = labels.max() + 1
    snapshot = view(data, model, labels, n_slots)
    handle = handle_of(data, model)
    handle.refresh(snapshot)
    arrays = handle.owner.to_arrays()
    inverse = np.where(arrays["varies"], 1 / arrays["balance"], 0)
    V = (snapshot.Theta - arrays["centre"]) * inverse
    for i in range(5):
        phi = data.phi(i, i + 1)[0]
        u = (phi - arrays["mean"]) * arrays["balance"]
        exact = snapshot.Theta @ phi - snapshot.G + snapshot.log_weight
        got = handle.owner.scores(i)[:n_slots].astype(float)
        step_u, step_v = np.abs(u).max() / 127, np.abs(V).max(axis=1) / 127
        bound = 0.5 * (step_u * np.abs(V).sum(axis=1) + step_v * np.abs(u).sum()) + 0.25 * step_u * step_v * len(phi)
        single = 1e-6 * (np.abs(exact).max() + np.abs(snapshot.G).max() + 1)
        # what all share is left out: compare differences
        error = (got - exact) - (got - exact)[0]
        assert (np.abs(error) <= bound + bound[0] + single).all()


def test_the_best_clusters_are_listed():
    X, labels = blobs(d=16, K=60, N=1200, spread=2.0)
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=1.0))
    snapshot = view(data, model, labels, 60)
    handle = handle_of(data, model)
    handle.refresh(snapshot)
    linear = data.phi(0, 300) @ snapshot.Theta.T - snapshot.G + snapshot.log_weight
    rounded = np.array([handle.owner.scores(i)[:60] for i in range(300)])
    assert (linear.argmax(axis=1) == rounded.argmax(axis=1)).mean() > 0.9
    assert all(linear[i].argmax() in np.argsort(-rounded[i])[:4] for i in range(300))


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"shortlist": 2, "floor": 0.2}, {"shortlist": 0}, {"temperature": 0.3}])
@pytest.mark.parametrize("name", DENSE)
def test_law_is_normalised_and_positive(name, settings):
    family, X = FAMILIES[name]
    data, model = make(X, family, DirichletProcess(alpha=0.7))
    handle = handle_of(data, model, **settings)
    handle.refresh(view(data, model, [3, -1, 0, 0, 3], 4))
    for i in range(5):
        q = law(handle, i, 4)
        assert q.sum() == pytest.approx(1.0, abs=1e-6)
        assert (q[[0, 3, 4]] > 0).all()
        assert (q[[1, 2]] == 0).all()


def test_shortlist_holds_exact_predictives():
    X, labels = blobs()
    data, model = make(X, Gaussian(), DirichletProcess(alpha=1.0))
    handle = handle_of(data, model, shortlist=7, floor=0.1)
    labels[5] = -1
    snapshot = view(data, model, labels, 7)
    handle.refresh(snapshot)
    n, S = np.append(snapshot.n, 0), np.vstack([snapshot.S, np.zeros(data.n_statistics)])
    exact = data.family.log_predictive(data.X[5:6], n, S)[0] + np.append(snapshot.log_weight, snapshot.log_weight_new)
    exact = np.exp(exact - exact.max())
    assert np.allclose(law(handle, 5, 7), 0.9 * exact / exact.sum() + 0.1 / 8, rtol=1e-5)


@pytest.mark.parametrize("settings", [{"shortlist": 3, "floor": 0.3}, {"shortlist": 0, "temperature": 0.02}])
def test_draws_follow_the_law(settings):
    X, labels = blobs(spread=0.7)
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=5.0))
    handle = handle_of(data, model, **settings)
    handle.refresh(view(data, model, labels, 7))
    rng = np.random.default_rng(1)
    q, counts, log_q = law(handle, 2, 7), np.zeros(8), handle.log_prob(2, 3, every(7))
    for _ in range(20000):
        k, back = handle.draw(2, 3, rng)
        counts[k] += 1
        assert back == pytest.approx(log_q[3] - log_q[k], abs=1e-9)
    assert stats.chisquare(counts, 20000 * q / q.sum()).pvalue > 1e-4
    wrong = np.roll(q, 1)
    assert stats.chisquare(counts, 20000 * wrong / wrong.sum()).pvalue < 1e-4


def test_a_new_cluster_is_not_proposed_where_none_can_be_opened():
    X, labels = blobs(K=3)
    data, model = make(X, SphericalGaussian(), SymmetricDirichlet(3))
    handle = handle_of(data, model)
    handle.refresh(view(data, model, labels, 3))
    assert law(handle, 0, 3, 1)[3] == 0
    assert law(handle, 0, 3, 1).sum() == pytest.approx(1)
    with pytest.raises(PluginError, match="slot"):
        handle.draw(0, -1, np.random.default_rng(0))


def test_empty_slots_of_a_frozen_snapshot_are_priors():
    X, labels = blobs(K=3)
    data, model = make(X, DiagonalGaussian(), SymmetricDirichlet(6, alpha=0.5))
    n, S = data.statistics(labels, 6)
    handle = handle_of(data, model)
    handle.refresh(Snapshot(data.family, n, np.arange(6), lambda: S, log_weight=np.log(n + 0.5)))
    q = law(handle, 0, 6, 1)
    assert q[6] == 0
    assert q.sum() == pytest.approx(1)
    assert np.allclose(q[3:6], q[3], rtol=1e-9)
    assert (q > 0).sum() == 6


@pytest.mark.parametrize("shortlist", [0, 1, 9])
def test_empty_slots_are_drawn_and_weighed_exactly(shortlist):
    X, labels = blobs(K=3)
    X[0] = 40.0
    data, model = make(X, DiagonalGaussian(), SymmetricDirichlet(6, alpha=0.5))
    n, S = data.statistics(np.where(np.arange(120) < 1, -1, labels), 6)
    handle = handle_of(data, model, shortlist=shortlist, temperature=1.0)
    handle.refresh(Snapshot(data.family, n, np.arange(6), lambda: S, log_weight=np.log(n + 0.5)))
    exact = data.family.log_predictive(data.X[:1], n, S)[0] + np.log(n + 0.5)
    q = law(handle, 0, 6)
    assert np.allclose(q[3:6], (1 - 0.01 * (shortlist > 0)) / 3, atol=0.01)
    assert exact[3:].max() > exact[:3].max() + 10
    rng = np.random.default_rng(0)
    counts = np.bincount([handle.draw(0, 1, rng)[0] for _ in range(6000)], minlength=6)
    assert stats.chisquare(counts[3:]).pvalue > 1e-4
    # without a shortlist: a cluster that takes a datum, against the linear score of another
    if not shortlist:
        phi = data.phi(7, 8)[0]
        Theta, G = data.family.expected_natural(n[:3], S[:3])
        linear = Theta @ phi - G + np.log(n[:3] + 0.5)
        alone = data.family.log_predictive(data.X[7:8], np.zeros(1), np.zeros((1, len(phi))))[0, 0] + np.log(0.5)
        log_q = handle.log_prob(7, 0, np.arange(6))
        assert log_q[3] - log_q[:3].max() == pytest.approx(max(alone - linear.max(), -80.0), abs=0.3)


def test_temperature_is_found_from_the_data():
    X, _ = blobs(N=2000, spread=3.0)
    data, model = make(X, SphericalGaussian(variance=1.0), DirichletProcess(alpha=1.0))
    assert 0.9 < handle_of(data, model, shortlist=0).owner.temperature <= 1
    few, model = make(X[:30], DiagonalGaussian(), DirichletProcess(alpha=1.0))
    assert handle_of(few, model, shortlist=0).owner.temperature < 0.9  # the linear score is too sure of small clusters
    assert handle_of(few, model).owner.temperature == 1
    assert handle_of(few, model, shortlist=0, temperature=0.25).owner.temperature == 0.25


def test_what_is_fixed_does_not_know_the_labels():
    X, labels = blobs()
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=1.0))
    a, b = (handle_of(data, model, shortlist=2) for _ in range(2))
    a.refresh(view(data, model, labels % 2, 7))
    for handle in (a, b):
        handle.refresh(view(data, model, labels, 7))
    assert np.array_equal([law(a, i, 7) for i in range(20)], [law(b, i, 7) for i in range(20)])


# ---- statistics through moves ----------------------------------------------------------------------------------------


def random_labels(rng, N, n_slots):
    return rng.integers(-1, n_slots, N)


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("shortlist", [0, 2, 16])
def test_shifts_agree_with_a_refresh(name, shortlist):
    family, X = FAMILIES[name]
    rng = np.random.default_rng(5)
    X = (X.toarray() if hasattr(X, "toarray") else X)[rng.integers(0, 5, 40)]
    X = X + rng.normal(size=X.shape) if name.startswith("gauss") else X
    data, model = make(X, family, DirichletProcess(alpha=1.0))
    handle, fresh = (handle_of(data, model, shortlist=shortlist, temperature=1.0) for _ in range(2))
    labels = random_labels(rng, 40, 4)
    handle.refresh(view(data, model, labels, 6))
    fresh.refresh(view(data, model, labels, 6))
    for step in range(8):
        other = np.where(rng.random(40) < 0.4, random_labels(rng, 40, 4 + (step > 3) * 66), labels)
        moved = np.flatnonzero(other != labels)
        added, removed = moved[other[moved] >= 0], moved[labels[moved] >= 0]
        snapshot = view(data, model, other, 80)
        handle.shift(snapshot, (added, other[added]), (removed, labels[removed]))
        fresh.refresh(snapshot)
        labels = other
        for i in range(5):
            a, b = law(handle, i, 80), law(fresh, i, 80)
            assert np.allclose(a, b, rtol=1e-5, atol=1e-12)
            assert a.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", ["gaussian_diag", *SPHERICAL, "von_mises_fisher_cluster"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_shift_has_the_bits_of_single_moves(name, n_threads):
    """A shift changes the sums of a slot row by row, but computes what follows from them only once."""
    family, width = FAMILIES[name][0], np.shape(FAMILIES[name][1])[1]
    X, labels = blobs(N=400, d=width)
    data, model = make(X, family, DirichletProcess(alpha=1.0))
    handle, single = (handle_of(data, model, shortlist=16) for _ in range(2))
    for each in (handle, single):
        each.refresh(view(data, model, labels, 7))
        each.reserve(16)
    rows = np.arange(0, 400, 3)
    other, targets = labels.copy(), 7 + rows % 5  # into slots that no row leaves
    other[rows] = targets
    assert np.bincount(other, minlength=12).all()
    with team_of(n_threads) as handle.owner.team:
        handle.shift(view(data, model, other, 12), (rows, targets), (rows, labels[rows].astype(np.intp)))
    for i, target in zip(rows, targets):
        single.hold_out(i, labels[i])
        single.moved(i, labels[i], target)
    for i in range(0, 400, 7):
        np.testing.assert_array_equal(law(handle, i, 12), law(single, i, 12))


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_a_shift_has_the_bits_of_single_moves_under_other_instructions(isa):
    code = """
from test_int8 import test_a_shift_has_the_bits_of_single_moves as check
check("gaussian_diag", 1)
print("same")
"""
    assert output_under(isa, code, file=__file__).strip() == "same"


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("shortlist", [0, 2])
def test_single_moves_agree_with_a_refresh(name, shortlist):
    family, X = FAMILIES[name]
    data, model = make(X, family, DirichletProcess(alpha=0.9))
    handle, fresh = (handle_of(data, model, shortlist=shortlist, temperature=1.0) for _ in range(2))
    labels = np.array([0, 0, 1, 3, 1])
    for d in (handle, fresh):
        d.refresh(view(data, model, labels, 4))
    handle.reserve(8)
    rng = np.random.default_rng(2)
    for _ in range(60):
        i = int(rng.integers(5))
        k = int(labels[i])
        before = [law(handle, j, 8) for j in range(5)]
        handle.hold_out(i, k)
        rest = labels.copy()
        rest[i] = -1
        fresh.refresh(view(data, model, rest, 8))
        assert np.allclose(law(handle, i, 8), law(fresh, i, 8), rtol=1e-5)
        if rng.random() < 0.4:
            handle.restore(i, k)
            assert all(np.array_equal(law(handle, j, 8), before[j]) for j in range(5))
            continue
        labels[i] = target = int(rng.integers(8))
        handle.moved(i, k, target)
        fresh.refresh(view(data, model, labels, 8))
        for j in range(5):
            assert np.allclose(law(handle, j, 8), law(fresh, j, 8), rtol=1e-5, atol=1e-12)


def test_single_moves_are_checked():
    X, labels = blobs(N=20)
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=1.0))
    handle = handle_of(data, model)
    handle.refresh(view(data, model, labels, 7))
    handle.hold_out(0, labels[0])
    for call in (
        lambda: handle.hold_out(1, labels[1]),
        lambda: handle.restore(1, labels[1]),
        lambda: handle.moved(0, labels[0], 10**6),
        lambda: handle.log_prob(1, 0, [0]),
    ):
        with pytest.raises(PluginError):
            call()
    handle.restore(0, labels[0])
    with pytest.raises(PluginError):
        handle.log_prob(20, 0, [0])


def test_an_exception_of_the_family_arrives():
    class Failing(Poisson):
        is_broken = False

        def expected_natural(self, n, S):
            if Failing.is_broken:
                raise RuntimeError("out of order")
            return super().expected_natural(n, S)

    data, model = make([[1, 2], [3, 0], [4, 4]], Failing(), DirichletProcess(alpha=1.0))
    handle = handle_of(data, model)
    handle.refresh(view(data, model, [0, 0, 1], 2))
    before = law(handle, 1, 2)
    Failing.is_broken = True
    with pytest.raises(RuntimeError, match="out of order"):
        handle.hold_out(0, 0)
    assert np.array_equal(law(handle, 1, 2), before)


def test_other_hyper_parameters_are_taken_from_the_snapshot():
    X, labels = blobs()
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=1.0))
    handle = handle_of(data, model)
    handle.refresh(view(data, model, labels, 7))
    before = law(handle, 0, 7)
    snapshot = view(data, model, labels, 7)
    snapshot.family = data.family.with_hyper(rate=data.family.rate * 30)
    handle.refresh(snapshot)
    n, S = np.append(snapshot.n, 0), np.vstack([snapshot.S, np.zeros(data.n_statistics)])
    exact = snapshot.family.log_predictive(data.X[:1], n, S)[0]
    exact = np.exp(exact + np.append(snapshot.log_weight, snapshot.log_weight_new) - exact.max())
    assert np.allclose(law(handle, 0, 7), 0.99 * exact / exact.sum() + 0.01 / 8, rtol=1e-5)
    assert not np.allclose(law(handle, 0, 7), before, rtol=1e-3)


# ---- exactness -------------------------------------------------------------------------------------------------------


CASES = [
    ("gaussian_diag", "dirichlet_process"),
    ("gaussian", "pitman_yor"),
    ("gaussian_spherical", "dirichlet_3"),
    ("gaussian_zero", "dirichlet_8"),
    ("categorical", "dirichlet_3"),
    ("plain_poisson", "pitman_yor"),
    ("poisson", "dirichlet_process"),
    ("bernoulli", "dirichlet_3"),
    ("table", "pitman_yor"),
    ("table_with_numpy", "dirichlet_process"),
]


@pytest.mark.parametrize(("name", "weights"), CASES)
@pytest.mark.parametrize("shortlist", [0, 1, 16])
@pytest.mark.parametrize("mode", ["crossfit", "removed", "included"])
def test_each_update_is_reversible(name, weights, shortlist, mode):
    family, X = FAMILIES[name]
    if mode == "included" and not weights.startswith("dirichlet_3"):
        weights = "dirichlet_3"
    data, model = make(X, family, WEIGHTS[weights])
    partitions, pi = exact_posterior(model, X)
    kernel = CollapsedMetropolis(Int8Proposal(shortlist=shortlist, floor=0.2), mode=mode)
    for i in (1, 4):
        P = update_matrix(kernel, model, data, partitions, i, np.arange(i % 2, 5, 2))
        flow = pi[:, None] * P
        assert np.abs(P.sum(axis=1) - 1).max() < 1e-12
        # members' and others' log predictives, and sums of real statistics, agree up to rounding
        assert np.abs(flow - flow.T).max() < 1e-9
        if shortlist:  # linear scores of clusters of one or two counts are of no use
            assert P.trace() < len(partitions) - 0.2


@pytest.mark.parametrize("mode", ["crossfit", "removed", "included", "frozen"])
@pytest.mark.parametrize("name", ["gaussian_diag", "categorical", "table"])
def test_chain_visits_partitions_as_the_posterior_does(name, mode):
    family, X = FAMILIES[name]
    data, model = make(X, family, WEIGHTS["dirichlet_3"])
    partitions, pi = exact_posterior(model, X)
    n_blocks = 2 if mode == "crossfit" else "auto"
    kernel = CollapsedMetropolis(Int8Proposal(shortlist=2, floor=0.1), mode=mode, n_blocks=n_blocks)
    state = CollapsedState(model, data, np.array([0, 0, 1, 2, 1]), seed=3)
    visited = visit_frequencies(kernel, state, partitions, 2000)
    assert total_variation(visited, pi) < 0.12  # Monte-Carlo error of a correlated chain


def test_a_proposal_that_knows_the_datums_label_is_found_out():
    family, X = FAMILIES["gaussian_diag"]
    data, model = make(X, family, WEIGHTS["dirichlet_process"])
    partitions, pi = exact_posterior(model, X)
    kernel = CollapsedMetropolis(Int8Proposal(), mode="crossfit")
    P = update_matrix(kernel, model, data, partitions, 0, rows=np.array([1, 2]))
    assert np.abs(pi @ P - pi).max() > 1e-3


def test_labels_do_not_depend_on_threads():
    X, labels = blobs(N=5000, K=20)
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=1.0))
    found = []
    for n_threads in (1, 2):
        state = CollapsedState(model, data, labels % 5, seed=1)
        kernel = CollapsedMetropolis(Int8Proposal(), mode="crossfit", n_threads=n_threads)
        for _ in range(3):
            kernel.step(state)
        found.append(state.labels.copy())
    assert np.array_equal(*found)
    assert not np.array_equal(found[0], labels % 5)


# ---- sizes, settings, arrays -----------------------------------------------------------------------------------------


def test_tables_grow():
    X, _ = blobs(N=300)
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=1.0))
    handle, fresh = handle_of(data, model), handle_of(data, model)
    labels = np.zeros(300, dtype=int)
    for d in (handle, fresh):
        d.refresh(view(data, model, labels, 1))
    for i in range(300):
        handle.reserve(i + 2)
        handle.hold_out(i, 0)
        handle.moved(i, 0, i + 1) if i < 299 else handle.restore(i, 0)
    labels[:299] = np.arange(1, 300)
    fresh.refresh(view(data, model, labels, 300))
    for i in (0, 100, 299):
        assert np.allclose(law(handle, i, 301), law(fresh, i, 301), rtol=1e-5)


def test_arrays_restore_what_was_fixed():
    X, labels = blobs()
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=1.0))
    for settings in ({}, {"shortlist": 0}):
        changed = model.with_family(data.family.with_hyper(rate=data.family.rate * 9))
        handle, other = handle_of(data, model, **settings), handle_of(data, changed, **settings)
        handle.refresh(view(data, model, np.roll(labels, 1) % 3, 7))
        other.owner.from_arrays(handle.owner.to_arrays())
        for d in (handle, other):
            d.refresh(view(data, model, labels, 7))
        assert all(np.array_equal(law(handle, i, 7), law(other, i, 7)) for i in range(9))
        assert other.owner.temperature == handle.owner.temperature
    with pytest.raises(ArchiveError, match="'centre' has shape"):
        other.owner.from_arrays({**handle.owner.to_arrays(), "centre": np.zeros(3)})


@pytest.mark.parametrize("X", [np.ones((6, 2)), np.c_[np.ones(6), np.arange(6.0)]])
def test_columns_that_do_not_vary(X):
    data, model = make(X, DiagonalGaussian(rate=1.0), DirichletProcess(alpha=1.0))
    handle = handle_of(data, model)
    handle.refresh(view(data, model, [0, 0, 1, 1, 1, -1], 2))
    assert law(handle, 5, 2).sum() == pytest.approx(1)


def test_no_cluster_at_all():
    X, _ = blobs(N=9)
    data, model = make(X, DiagonalGaussian(), DirichletProcess(alpha=1.0))
    handle = handle_of(data, model)
    handle.refresh(view(data, model, [-1] * 9, 1))
    assert law(handle, 0, 1).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"shortlist": -1}, "shortlist"),
        ({"shortlist": 2.5}, "shortlist"),
        ({"shortlist": True}, "shortlist"),
        ({"shortlist": 2000}, "shortlist"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": 1.5}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": np.nan}, "temperature"),
        ({"floor": 0}, "floor"),
        ({"floor": 1}, "floor"),
        ({"floor": "low"}, "floor"),
    ],
)
def test_bad_settings_are_named(settings, match):
    data, model = make(blobs(N=9)[0], DiagonalGaussian(), DirichletProcess(alpha=1.0))
    with pytest.raises(ValueError, match=match):
        Int8Proposal(**settings).bind(model, data, seed=0)


def test_what_it_cannot_take_is_refused(monkeypatch):
    data, model = make(np.eye(50) + 1.0, Gaussian(dof=60), DirichletProcess(alpha=1.0))
    with pytest.raises(CapabilityError, match="1325"):
        Int8Proposal().bind(model, data, seed=0)
    data, model = make(blobs(N=50)[0], DiagonalGaussian(), DirichletProcess(alpha=1.0))
    assert Int8Proposal().memory(model, data, 100) > 50 * 16
    monkeypatch.setattr(int8, "_TABLE_BUDGET", 999)
    with pytest.raises(ResourceError, match="1000 bytes"):
        Int8Proposal().bind(model, data, seed=0)


def test_settings_are_values():
    assert Int8Proposal() == Int8Proposal(shortlist=16)
    assert Int8Proposal(floor=0.2) != Int8Proposal()
    assert "floor=0.2" in repr(Int8Proposal(floor=0.2))
    assert Int8Proposal.modes == {"frozen", "crossfit", "removed", "included"}


def test_categories_and_sparse_counts_are_read():
    rng = np.random.default_rng(0)
    for family, X in ((Categorical(), rng.integers(-1, 4, (30, 6))), (Poisson(), rng.poisson(1.0, (30, 9)))):
        data, model = make(X, family, DirichletProcess(alpha=1.0))
        labels = np.arange(30) % 3
        snapshot = view(data, model, labels, 3)
        assert dense_rows(snapshot.S).shape[0] == 3
        handle = handle_of(data, model)
        handle.refresh(snapshot)
        assert law(handle, 0, 3).sum() == pytest.approx(1)
