"""Von Mises-Fisher clusters: Bessel functions, the law by its definition, rows of every kind, and exact chains."""

import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
import von_mises_fisher_slow as slow
from enumeration import exact_posterior
from instruction_sets import SETS, output_under
from scipy import sparse, stats
from visits import LIMIT, run_chain, worst_t

from expfam import Dataset, DirichletProcess, Mixture, MixtureModel, SymmetricDirichlet
from expfam.errors import DataError
from expfam.families.components import Components
from expfam.families.directions._von_mises_fisher import bessel_ratio, log_bessel
from expfam.families.directions.von_mises_fisher import VonMisesFisher, log_constant
from expfam.plugins.conformance import parametrize_with_checks
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    ExpectationMaximization,
    FastEx,
    SplitMerge,
    UncollapsedGibbs,
    UncollapsedMetropolis,
)


def unit(X):
    return X / np.sqrt((X**2).sum(axis=1, keepdims=True))


def clusters(n_rows=300, d=12, K=4, spread=0.35, seed=0):
    """Directions about K random ones, and their clusters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(K, size=n_rows)
    return unit(unit(rng.normal(size=(K, d)))[labels] + spread * rng.normal(size=(n_rows, d)) / d**0.5), labels


# ---- Bessel functions ------------------------------------------------------------------------------------------------

TWICE_ORDERS = (0, 1, 2, 3, 8, 21, 62, 63, 64, 65, 128, 252, 253, 254, 255, 382, 766, 4094)


@pytest.mark.parametrize("twice", TWICE_ORDERS)
def test_bessel_functions_have_twelve_digits(twice):
    """Against a power series of 60 digits, at orders around those where the method changes."""
    for z in (0.0, 1e-3, 0.3, 5.0, 20.0, 80.0, 400.0, 3e3):
        expected = slow.log_bessel(twice, z)
        found = log_bessel(twice / 2, [z * z])[0]
        size = max(1.0, abs(float(expected) + (twice / 2 * np.log(z) if z else 0.0)))  # of log I itself
        assert abs(float(Decimal(float(found)) - expected)) < 1e-12 * size, (twice, z)
        ratio = float((slow.log_bessel(twice + 2, z) - expected).exp())
        assert bessel_ratio(twice / 2, [z * z])[0] == pytest.approx(ratio, rel=1e-11), (twice, z)


@pytest.mark.parametrize("twice", [1, 64, 382])
def test_bessel_functions_of_large_arguments(twice):
    z = 1e5
    expected = slow.log_bessel(twice, z)
    assert float(log_bessel(twice / 2, [z * z])[0]) == pytest.approx(float(expected), rel=1e-12)


def test_bessel_functions_keep_their_recurrence_far_beyond_the_series():
    """I_{v-1} - I_{v+1} = (2 v / z) I_v, where no series can be summed."""
    for v in (1.0, 31.0, 32.5, 126.5, 500.0):
        squares = np.logspace(8, 22, 15)
        z = np.sqrt(squares)
        low, high = (z * bessel_ratio(order, squares) for order in (v - 1, v))
        np.testing.assert_allclose(low * (2 * v / z + high), 1.0, rtol=1e-11)


def test_shapes_of_bessel_arguments_stay():
    assert log_bessel(3.0, np.zeros((2, 0))).shape == (2, 0)
    squares = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(log_bessel(3.0, squares).ravel(), log_bessel(3.0, squares.ravel()))
    assert squares[1, 2] == 5.0


_INSTANCE = """
import json
import numpy as np
from expfam import Dataset
from expfam.families.components import Components
from expfam.families.directions._von_mises_fisher import bessel_ratio, log_bessel
from expfam.families.directions.von_mises_fisher import VonMisesFisher

squares = np.logspace(-4, 12, 77)
out = [f(nu, squares).tolist() for f in (log_bessel, bessel_ratio) for nu in (0.0, 7.5, 40.0, 200.0)]
X = np.random.default_rng(0).normal(size=(30, 21)) + 1.0
family = VonMisesFisher(normalize=True).bind(X)
components = Components(family, Dataset(X, family), 7)
components.refresh((np.arange(30) % 6).astype(np.int32))
out.append(components.log_predictive_block(0, 30, 7).ravel().tolist())
print(json.dumps(out))
"""


def test_every_instance_of_the_loops_gives_the_same_numbers():
    found = [json.loads(output_under(isa, _INSTANCE)) for isa in SETS]
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-12, atol=1e-11)


# ---- the law ---------------------------------------------------------------------------------------------------------

MEAN = np.array([0.6, 0.0, 0.8])
SETTINGS = [
    VonMisesFisher(),
    VonMisesFisher(strength=0.4, mean=MEAN, normalize=True),
    VonMisesFisher(kappa=4.0, mean=[0.6, 0.8], strength=0.5),
    VonMisesFisher(kappa="auto"),
    VonMisesFisher(kappa="shared"),
    VonMisesFisher(kappa="shared", shared_kappa=7.0, strength=2.0),
]


@parametrize_with_checks(SETTINGS)
def test_laws(family, check):
    check(family)


def few_nodes(family, most=20):
    """The bound family with the first nodes alone: series of decimals are slow at large arguments."""
    other = family._copy()
    if family.kappa == "cluster":
        weights = np.exp(family.kappa_log_weights_[:most])
        other.__dict__["kappa_nodes_"] = family.kappa_nodes_[:most]
        other.__dict__["kappa_log_weights_"] = np.log(weights / weights.sum())
    return other


@pytest.mark.parametrize(
    "family", [VonMisesFisher(strength=1.3), VonMisesFisher(kappa=8.0), VonMisesFisher(kappa="shared")]
)
@pytest.mark.parametrize("d", [2, 3, 7])
def test_evidence_is_that_of_the_definition(family, d):
    X, _ = clusters(30, d, seed=d)
    family = few_nodes(family.bind(X))
    nodes, log_weights = family.nodes()
    for rows in (X[:1], X[:2], X[:9], np.concatenate([X[:2], -X[:2]])):
        expected = slow.log_evidence(rows, family.mean, family.strength, nodes, log_weights)
        found = family.log_marginal(np.array([float(len(rows))]), rows.sum(axis=0)[None])[0]
        assert found == pytest.approx(float(expected), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("d", [2, 3, 10, 70, 384])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_scores_leave_out_no_node_that_matters(d, is_sparse):
    """Clusters from one row to many, tight and wide, and data from the same direction to the opposite one."""
    rng = np.random.default_rng(d)
    pole = np.eye(1, d)
    tight = unit(pole + 1e-3 * rng.normal(size=(40, d)))
    wide = unit(pole + 0.7 * rng.normal(size=(40, d)) / d**0.5)
    around = (
        np.cos(np.linspace(0, np.pi, 30))[:, None] * pole
        + np.sin(np.linspace(0, np.pi, 30))[:, None] * np.eye(2, d)[1:]
    )
    X = np.concatenate([tight, wide, around])
    family = VonMisesFisher(mean=unit(rng.normal(size=(1, d)))[0]).bind(X)
    members = [[], [0], [40], [0, 1], [0, 40], [0, 109], range(8), range(40, 60), range(40), range(40, 80), range(110)]
    copies = np.array([1] * len(members) + [10_000] * len(members))
    n = copies * np.array([len(m) for m in members] * 2, dtype=np.float64)
    S = copies[:, None] * np.stack([X[list(m)].sum(axis=0) if len(m) else np.zeros(d) for m in members] * 2)
    data = Dataset(sparse.csr_array(X) if is_sparse else X, family)
    components = Components(family, data, len(n))
    components.load(n, S)
    found = components.log_predictive_block(0, len(X), len(n))
    expected = family.log_predictive(X, n, S)
    # sums of doubles cannot tell more of a tight cluster of many rows
    rounding = 1e-9 + 1e-15 * n * family.kappa_nodes_[-1]
    assert (np.abs(found - expected) <= rounding + 1e-9 * np.abs(expected)).all()
    one_by_one = np.stack([components.log_predictive(i, np.arange(len(n))) for i in range(len(X))])
    assert (np.abs(one_by_one - found) <= rounding + 1e-9 * np.abs(expected)).all()
    np.testing.assert_allclose(components.log_marginal(), family.log_marginal(n, S), rtol=1e-11, atol=1e-5)


def test_nodes_reach_from_wide_to_tight_and_lose_little():
    for d in (2, 3, 100, 384, 2000):
        X, _ = clusters(60, d, seed=1)
        family = VonMisesFisher().bind(X)
        nodes, log_weights = family.nodes()
        assert np.exp(log_weights).sum() == pytest.approx(1.0)
        assert nodes[-1] / nodes[0] == pytest.approx(4e4)
        assert len(nodes) == 512 if d >= 384 else len(nodes) < 512
        if d <= 384:
            assert (np.diff(np.log(nodes)).max() / 2) ** 2 * (d - 1) / 4 <= 0.0105  # nats a row


def test_draws_of_the_concentration_follow_its_posterior():
    X, _ = clusters(6, 3, seed=3)
    family = few_nodes(VonMisesFisher().bind(X))
    nodes, _ = family.nodes()
    m = 20_000
    theta, g = family.draw_natural(np.full(m, 6.0), np.tile(X.sum(axis=0), (m, 1)), np.random.default_rng(0))
    kappa = family.to_params(theta, g)["kappa"]
    logs = [
        float(slow.log_evidence(X, family.mean, family.strength, [node], [weight]))
        for node, weight in zip(nodes, family.kappa_log_weights_)
    ]
    share = np.exp(np.array(logs) - max(logs))
    share /= share.sum()
    found = np.bincount(np.searchsorted((nodes[1:] * nodes[:-1]) ** 0.5, kappa), minlength=len(nodes))
    many = share * m > 10
    assert (
        stats.chisquare(
            np.append(found[many], found[~many].sum()), m * np.append(share[many], share[~many].sum())
        ).pvalue
        > 1e-4
    )


# ---- chains ----------------------------------------------------------------------------------------------------------

KERNELS = {
    "gibbs": (CollapsedGibbs(), 3000),
    "fast_ex": (FastEx(mode="crossfit"), 3000),
    "split_merge": (SplitMerge(n_moves=10), 3000),
    "uncollapsed": (UncollapsedGibbs(), 1200),
    "metropolis": (UncollapsedMetropolis(redraw=False), 1200),
    "canopy": (Canopy(variant=1), 1200),
}


def few_rows(is_sparse=False):
    X = unit(np.array([[1.0, 0.1, 0.0], [0.9, -0.2, 0.1], [0.8, 0.1, 0.5], [-0.2, 1.0, 0.1], [0.0, 0.0, 1.0]]))
    X = np.concatenate([X, X[:1]])
    return few_nodes(VonMisesFisher(mean=[0.0, 0.6, 0.8], strength=0.5).bind(X)), sparse.csr_array(
        X
    ) if is_sparse else X


def test_partitions_have_the_probabilities_of_the_definition():
    """Six rows, all 203 partitions, the concentration of each cluster summed out."""
    family, X = few_rows()
    nodes, log_weights = family.nodes()
    expected = slow.partition_posterior(X, 0.9, family.mean, family.strength, nodes, log_weights)
    partitions, pi = exact_posterior(MixtureModel(family, DirichletProcess(0.9)), X)
    assert len(partitions) == len(expected) == 203
    for labels, share in zip(partitions, pi):
        labels = np.asarray(labels)
        blocks = frozenset(frozenset(np.flatnonzero(labels == k).tolist()) for k in np.unique(labels))
        assert share == pytest.approx(expected[blocks], rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_chains_visit_partitions_as_often_as_the_law_says(name, is_sparse):
    family, X = few_rows(is_sparse)
    model = MixtureModel(family, DirichletProcess(0.9))
    kernel, n_steps = KERNELS[name]
    partitions, pi = exact_posterior(model, X)
    assert worst_t(run_chain(kernel, model, X, n_steps), partitions, pi) < LIMIT


@pytest.mark.parametrize(
    "sampler", ["gibbs", "split_merge", "fastex", "em", "variational", "uncollapsed_gibbs", "auto"]
)
def test_every_sampler_finds_plain_clusters(sampler):
    X, labels = clusters()
    found = Mixture(VonMisesFisher(), n_components=4, sampler=sampler, n_steps=30, random_state=0).fit(X)
    pairs = Counter(zip(labels.tolist(), found.labels_.tolist()))
    assert sum(count for _, count in pairs.most_common(4)) >= 290


def test_clusters_of_other_concentrations_are_told_apart_by_them():
    """About one direction: a tight cluster within a wide one, which one concentration for all cannot describe."""
    rng = np.random.default_rng(0)
    pole = np.eye(1, 20)
    tight, wide = (unit(pole + s * rng.normal(size=(200, 20))) for s in (0.02, 0.2))
    X = np.concatenate([tight, wide])
    found = Mixture(VonMisesFisher(), n_components=2, n_steps=60, random_state=0).fit(X).labels_
    assert max((found[:200] == k).mean() for k in (0, 1)) > 0.99
    assert abs((found[:200] == found[0]).mean() - (found[200:] == found[0]).mean()) > 0.97


def test_em_raises_its_objective():
    X, _ = clusters(400, 30, 5, spread=3.0)
    model = MixtureModel(VonMisesFisher(), SymmetricDirichlet(5, 1.0)).bind(X)
    kernel = ExpectationMaximization()
    state = kernel.init(model, X, seed=0, n_clusters=5)
    values = np.array([kernel.step(state).objective for _ in range(25)])
    assert (np.diff(values) > -1e-9 * np.abs(values[1:])).all()
    assert values[-1] > values[0]


def test_a_saved_mixture_predicts_the_same(tmp_path):
    X, _ = clusters()
    mixture = Mixture(VonMisesFisher(), n_components=4, n_steps=10, random_state=0).fit(X)
    mixture.save(tmp_path / "model")
    again = Mixture.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), mixture.predict_proba(X))
    assert again.family_ == mixture.family_


def test_hyper_parameters_of_each_choice():
    assert VonMisesFisher().learned_by_default == ("strength",)
    assert VonMisesFisher(kappa="shared").learned_by_default == ("shared_kappa", "strength")
    assert VonMisesFisher(kappa="auto").learned_by_default == VonMisesFisher(kappa=2.0).learned_by_default == ()
    assert set(VonMisesFisher(kappa=2.0).hyper) == {"kappa", "strength"}
    X, _ = clusters(200, 8)
    shared = Mixture(VonMisesFisher(kappa="shared"), n_components=4, n_steps=40, random_state=0).fit(X)
    assert shared.family_.shared_kappa != VonMisesFisher(kappa="shared").bind(X).shared_kappa


# ---- rows ------------------------------------------------------------------------------------------------------------


def test_rows_of_any_length_are_read_without_being_rewritten():
    X, _ = clusters(100, 9)
    lengths = np.random.default_rng(0).uniform(0.1, 40.0, size=(100, 1))
    scaled = X * lengths
    kept = scaled.copy()
    plain, normalised = VonMisesFisher(normalize=False).bind(X), VonMisesFisher(normalize=True).bind(scaled)
    np.testing.assert_allclose(normalised.sufficient_statistics(scaled), X, atol=1e-15)
    assert normalised.strength == pytest.approx(plain.strength, rel=1e-10)
    data = Dataset(scaled, normalised)
    assert np.shares_memory(data.X, scaled)
    for given in (scaled, sparse.csr_array(scaled), scaled.astype(np.float32)):
        one = Components(plain, Dataset(X, plain), 2)
        two = Components(normalised, Dataset(given, normalised), 2)
        for i in range(20):
            one.add(i, i % 2)
            two.add(i, i % 2)
        tolerance = 1e-4 if given.dtype == np.float32 else 1e-9
        found = two.log_predictive_block(0, 100, 2)
        np.testing.assert_allclose(found, one.log_predictive_block(0, 100, 2), atol=tolerance, rtol=tolerance)
    np.testing.assert_array_equal(scaled, kept)


def test_sparse_rows_give_the_labels_of_dense_rows():
    rng = np.random.default_rng(0)
    X = sparse.random_array((150, 60), density=0.1, rng=rng, format="csr") + sparse.csr_array(
        np.eye(150, 60, k=-3) * 0.1
    )
    X = sparse.csr_array(X[np.asarray(X.sum(axis=1)).ravel() > 0])
    dense = X.toarray()
    make = VonMisesFisher(normalize=True)
    one, two = (Mixture(make, n_components=5, n_steps=15, random_state=0).fit(given) for given in (X, dense))
    np.testing.assert_array_equal(one.labels_, two.labels_)


def test_long_sparse_chains_keep_the_lengths_of_sums():
    rng = np.random.default_rng(1)
    X = sparse.csr_array(
        sparse.random_array((40, 30), density=0.3, rng=rng) + sparse.csr_array(np.eye(40, 30) + np.eye(40, 30, k=-20))
    )
    family = VonMisesFisher(normalize=True).bind(X)
    components = Components(family, Dataset(X, family), 3)
    labels = rng.integers(3, size=40)
    for i, k in enumerate(labels):
        components.add(i, k)
    for _ in range(20_000):
        i, k = int(rng.integers(40)), int(rng.integers(3))
        components.remove(i, labels[i])
        components.add(i, k)
        labels[i] = k
    n, S = components.export()
    np.testing.assert_allclose(components.log_marginal(), family.log_marginal(n, S), rtol=1e-11)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.float16])
def test_narrow_rows_are_normalised_unless_told_otherwise(kind):
    X, _ = clusters(80, 16, spread=0.2)
    given = X.astype(kind) if kind == np.float16 else np.rint(np.abs(X) * 100).astype(kind)
    family = VonMisesFisher().bind(given)
    assert family.normalize is True
    wide = VonMisesFisher(normalize=True).bind(given.astype(np.float32))
    narrow, same = (Dataset(rows, f) for rows, f in ((given, family), (given.astype(np.float32), wide)))
    assert narrow.X.dtype == (np.float64 if kind == np.int32 else kind)
    np.testing.assert_array_equal(narrow.phi(0, 80), same.phi(0, 80))
    np.testing.assert_allclose((narrow.phi(0, 80) ** 2).sum(axis=1), 1.0)
    a, b = (Mixture(VonMisesFisher(normalize=True), n_components=4, n_steps=5, random_state=0).fit(rows).labels_
            for rows in (given, given.astype(np.float32)))  # fmt: skip
    np.testing.assert_array_equal(a, b)


def test_floats_are_checked_unless_told_otherwise():
    X, _ = clusters(20, 5)
    assert VonMisesFisher().bind(X).normalize is False
    with pytest.raises(DataError, match=r"rows of unit length; row 3 has length 2.*: pass normalize=True, or"):
        VonMisesFisher().bind(np.where(np.arange(20)[:, None] == 3, 2 * X, X))
    with pytest.raises(DataError, match=r"rows of unit length; row 3 has length 2"):
        VonMisesFisher().bind(sparse.csr_array(np.where(np.arange(20)[:, None] == 3, 2 * X, X)))
    with pytest.raises(DataError, match="row 0 has length"):
        VonMisesFisher().bind((1.1 * X).astype(np.float16))
    with pytest.raises(DataError, match=r"row 2 is zero, so it has no direction .1 row is zero"):
        VonMisesFisher(normalize=True).bind(np.where(np.arange(20)[:, None] == 2, 0.0, X))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kappa": "big"}, "von_mises_fisher: kappa must be 'cluster', 'shared', 'auto' or a positive number"),
        ({"kappa": -1.0}, "von_mises_fisher: kappa must be positive and finite"),
        ({"shared_kappa": 3.0}, "von_mises_fisher: shared_kappa belongs to kappa='shared'; got kappa='cluster'"),
        ({"normalize": "yes"}, "von_mises_fisher: normalize must be 'auto', True or False; got 'yes'"),
        ({"strength": [1.0, 2.0]}, "von_mises_fisher: strength must be positive and finite"),
    ],
)
def test_settings_are_checked_when_given(settings, said):
    with pytest.raises(ValueError, match=said):
        VonMisesFisher(**settings)


def test_the_constant_of_the_sphere_is_scipy_s():
    for d, kappa in ((2, 1e-6), (3, 2.0), (5, 2e3), (40, 30.0)):
        mean = np.eye(1, d)[0]
        expected = stats.vonmises_fisher(mean, kappa).logpdf(mean) - kappa
        assert log_constant(d, kappa) == pytest.approx(expected, rel=1e-9, abs=1e-9)
