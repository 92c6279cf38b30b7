"""Diagonal Gaussian clusters of rows that lack cells: the law of the observed cells, exactly."""

import numpy as np
import pytest
from instruction_sets import check_sets_agree, numbers_of_families

from expfam import Dataset, DiagonalGaussian, LogNormal, MixtureModel, SymmetricDirichlet
from expfam.errors import DataError, SupportError
from expfam.families.components import Components
from expfam.families.natural import natural_law_of
from expfam.plugins.conformance import check_family
from expfam.samplers import CollapsedGibbs, sample

N, V, K = 60, 9, 11
RNG = np.random.default_rng(11)
WHOLE = RNG.normal(size=(N, V)) + 3.0 * (np.arange(N) % 3)[:, None] + 20.0
LABELS = RNG.integers(0, K, N).astype(np.int32)


def with_holes(share, X=WHOLE):
    X = X.copy()
    X[np.random.default_rng(4).random(X.shape) < share] = np.nan
    if share:
        X[5] = np.nan
        X[LABELS == 2, 3] = np.nan
    return X


def column(family, X, j):
    """The plain family of one column, on the rows that have it, with the same prior."""
    cut = {name: getattr(family, name)[[j]] for name in ("mean", "mean_strength", "shape", "rate")}
    return type(family)(**cut), X[~np.isnan(X[:, j])][:, [j]]


CASES = [
    (DiagonalGaussian(missing=True), 0.1),
    (DiagonalGaussian(missing=True), 0.5),
    (DiagonalGaussian(mean=19.0, mean_strength=0.4, shape=np.linspace(0.8, 3.0, V), rate=2.0, missing=True), 0.5),
    (LogNormal(missing=True), 0.3),
]


@pytest.mark.parametrize(("family", "share"), CASES)
def test_evidence_is_that_of_plain_families_on_observed_cells(family, share):
    X = with_holes(share)
    data = Dataset(X, family)
    bound = data.family
    n, S = data.statistics(LABELS, K)
    expected, base = np.zeros(K), np.zeros(N)
    for j in range(V):
        plain, cells = column(bound, X, j)
        seen = ~np.isnan(X[:, j])
        one = Dataset(cells, plain)
        expected += one.family.log_marginal(*one.statistics(LABELS[seen], K))
        base[seen] += one.log_base
    np.testing.assert_allclose(bound.log_marginal(n, S), expected, rtol=1e-11)
    np.testing.assert_allclose(data.log_base, base, rtol=1e-13)


@pytest.mark.parametrize("make", [DiagonalGaussian, LogNormal])
def test_without_holes_scores_are_those_of_the_plain_family(make):
    plain, opened = Dataset(WHOLE, make()), Dataset(WHOLE, make(missing=True))
    for name in ("mean", "mean_strength", "shape", "rate", "center_", "resolution_"):
        np.testing.assert_array_equal(getattr(plain.family, name), getattr(opened.family, name))
    found, expected = (Components(data.family, data, K) for data in (opened, plain))
    for each in (found, expected):
        each.refresh(LABELS)
    for call in (
        lambda c: c.log_predictive_block(0, N, K),
        lambda c: np.array([c.log_predictive(i, [3, 0, 7]) for i in range(N)]),
        lambda c: np.array([c.log_predictive_self(i, LABELS[i]) for i in range(N)]),
        lambda c: c.log_marginal(),
        lambda c: c.log_merged(1, np.arange(K)),
    ):
        np.testing.assert_allclose(call(found), call(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("family", "share"), CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_components_are_the_law_after_many_calls(family, share, dtype):
    data = Dataset(with_holes(share).astype(dtype), family)
    rng, labels = np.random.default_rng(0), LABELS.copy()
    found = Components(data.family, data, K)
    found.refresh(labels)
    for i in rng.integers(0, N, 2000):
        found.remove(i, labels[i])
        labels[i] = rng.integers(0, 3) if rng.random() < 0.9 else rng.integers(0, K)
        found.add(i, labels[i])
    n, S = data.statistics(labels, K)
    np.testing.assert_array_equal(found.export()[0], n)
    counts = found.export()[1]
    np.testing.assert_array_equal(counts[:, :V], S[:, :V])
    assert not counts[:, V:][np.tile(S[:, :V] == 0, 2)].any()
    np.testing.assert_allclose(found.log_marginal(), data.family.log_marginal(n, S), rtol=1e-9, atol=1e-9)
    after = data.family.log_marginal(n + 1.0, S + data.phi(7, 8))
    expected = after - data.family.log_marginal(n, S)
    np.testing.assert_allclose(found.log_predictive(7), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.log_predictive(7, np.arange(K)), expected, rtol=1e-9, atol=1e-9)
    alone = found.log_predictive_self(7, labels[7])
    found.remove(7, labels[7])
    assert alone == pytest.approx(found.log_predictive(7)[labels[7]], rel=1e-9)
    np.testing.assert_array_equal(found.log_predictive(5), 0.0)  # a row without cells tells nothing


def test_posterior_means_in_c_are_those_of_the_family():
    data = Dataset(with_holes(0.4), DiagonalGaussian(missing=True))
    n, S = data.statistics(LABELS, K)
    theta, g = data.family.expected_natural(n, S)
    law = natural_law_of(data.family)
    for k in range(K):
        own, nothing = law(n[k], S[k])
        np.testing.assert_allclose(own, theta[k], rtol=1e-11, atol=1e-12)
        assert nothing == g[k] == 0.0


def test_outliers_among_holes_have_finite_scores():
    X = with_holes(0.3)
    data = Dataset(X, DiagonalGaussian(missing=True))
    far = X[:4].copy()
    far[:, 1] = [1e160, -1e200, 1e155, 3.0]
    found = data.family.log_predictive(far, *data.statistics(LABELS, K))
    assert np.isfinite(found).all()
    assert (found[:3] < -300).all()
    other = Dataset(far, data.family)
    components = Components(data.family, other, K)
    components.load(*data.statistics(LABELS, K))
    chosen = np.array([components.log_predictive(i, [2, 9]) for i in range(4)])
    np.testing.assert_allclose(chosen, found[:, [2, 9]], rtol=1e-12)


def test_the_wrong_member_is_refused_and_nothing_changes():
    data = Dataset(np.array([[np.nan, 1.0], [2.0, np.nan], [3.0, 3.0]]), DiagonalGaussian(missing=True))
    components = Components(data.family, data, 2)
    components.add(0, 0)
    components.add(0, 0)
    before = components.export()
    with pytest.raises(SupportError, match="removing what is not there"):
        components.remove(1, 0)
    with pytest.raises(SupportError, match="removing what is not there"):
        components.log_predictive_self(1, 0)
    for old, new in zip(before, components.export()):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("make", [DiagonalGaussian, LogNormal])
def test_the_laws_hold(make):
    X = np.exp(0.3 * with_holes(0.3)[:, :2])
    report = check_family(make(missing=True), X, raises=False)
    known = {"arguments_are_left_alone", "predictive_is_normalised", "bad_data_are_refused_by_name"}
    assert set(report.named("failed")) <= known  # these compare NaN with NaN, or expect that NaN is refused
    assert check_family(make(missing=True), np.exp(0.3 * WHOLE[:, :2]), raises=False).named("failed") in (
        [],
        ["bad_data_are_refused_by_name"],
    )


def test_binding_ignores_holes():
    X = np.array([[1.0, 5.0], [np.nan, 5.0], [3.0, np.nan], [np.nan, 7.0], [2.0, 5.0]])
    bound = DiagonalGaussian(missing=True).bind(X)
    np.testing.assert_allclose(bound.center_, [2.0, 5.5])
    np.testing.assert_allclose(bound.rate, [0.1 * 2 / 3, 0.1 * 0.75])
    np.testing.assert_allclose(bound.resolution_, [0.0, 2.0])
    assert bound.nonnegative_statistics.tolist() == [True, True, False, False, False, False]


def test_columns_and_rows_that_cannot_be_used_are_named():
    X = with_holes(0.2)
    X[:, [4, 6]] = np.nan
    with pytest.raises(DataError, match="gaussian_diag: columns 4, 6 without a value in any row: leave out"):
        DiagonalGaussian(missing=True).bind(X)
    X = with_holes(0.2)
    X[3, 1] = np.inf
    with pytest.raises(DataError, match=r"gaussian_diag needs finite values.*row 3, column 1 holds inf"):
        DiagonalGaussian(missing=True).bind(X)
    with pytest.raises(DataError, match="gaussian_diag needs finite values; row 0, column 3 holds nan"):
        DiagonalGaussian().bind(with_holes(0.2))
    with pytest.raises(ValueError, match="missing must be True or False; got 'yes'"):
        DiagonalGaussian(missing="yes")


def test_a_chain_on_holes_finds_the_clusters():
    X = with_holes(0.3)
    state = (kernel := CollapsedGibbs()).init(
        MixtureModel(DiagonalGaussian(missing=True), SymmetricDirichlet(3, 1.0)), X, seed=0, start="random"
    )
    sample(kernel, state, 30)
    table = np.zeros((3, 3), dtype=int)
    np.add.at(table, (state.labels, np.arange(N) % 3), 1)
    assert table.max(axis=0).sum() >= N - 4  # a row without any cell may be anywhere


# ---- instruction sets ------------------------------------------------------------------------------------------------

ROWS = """
    X = np.exp(rng.normal(size=(60, V)))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:11] = 1.5
    X[1] = 2.5
"""


def test_instruction_sets_agree(tmp_path):
    families = "DiagonalGaussian(missing=True), LogNormal(missing=True)"
    check_sets_agree(numbers_of_families("DiagonalGaussian, LogNormal", families, ROWS), tmp_path)
