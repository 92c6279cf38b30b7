"""The law of mixed columns with holes: a product of plain families, each over the rows that it sees."""

import numpy as np
import pytest
from scipy import sparse

from expfam import Categorical, Columns, Dataset, DiagonalGaussian, Gaussian, Mixture, Poisson, load_family
from expfam.errors import CapabilityError, DataError, SupportError
from expfam.families.columns.stacked import stacked_rows
from expfam.families.components import Components
from expfam.families.generic import GenericComponents

FAMILIES = {
    "gaussian_diag": lambda: DiagonalGaussian(),
    "lognormal": lambda: load_family("lognormal"),
    "poisson": lambda: Poisson(),
    "categorical": lambda: Categorical(),
    "bernoulli": lambda: load_family("bernoulli"),
    "exponential": lambda: load_family("exponential"),
    "negative_binomial": lambda: load_family("negative_binomial", r=2.0),
}


def cells(name, shape, rng):
    """Cells of one family, as floats."""
    draw = {
        "gaussian_diag": lambda: rng.normal(3.0, 2.0, shape),
        "lognormal": lambda: rng.lognormal(1.0, 1.0, shape),
        "poisson": lambda: rng.poisson(3.0, shape),
        "categorical": lambda: rng.integers(0, 3, shape),
        "bernoulli": lambda: rng.integers(0, 2, shape),
        "exponential": lambda: rng.exponential(2.0, shape),
        "negative_binomial": lambda: rng.poisson(3.0, shape),
    }
    return draw[name]().astype(np.float64)


def with_holes(X, share, rng):
    """The rows with a share of their cells missing; one row without cells, no column without any."""
    X = X.copy()
    X[rng.random(X.shape) < share] = np.nan
    X[0] = np.nan if share else X[0]
    return X


def two_parts(first, second, share, *, n_rows=40, seed=0):
    """Two columns of each of two families, with holes."""
    rng = np.random.default_rng(seed)
    X = np.hstack([cells(first, (n_rows, 2), rng), cells(second, (n_rows, 2), rng)])
    return Columns([(FAMILIES[first](), (0, 2)), (FAMILIES[second](), (1, 3))]), with_holes(
        X[:, [0, 2, 1, 3]], share, rng
    )


def plain_evidence(family, X, labels, n_clusters):
    """Evidence of each cluster, column by column, from plain families over the observed rows."""
    total = np.zeros(n_clusters)
    for given, columns in family.parts:
        for j in columns:
            seen = ~np.isnan(X[:, j])
            bound = given.bind(X[seen][:, [j]])
            for k in range(n_clusters):
                rows = X[seen & (labels == k)][:, [j]]
                if len(rows):
                    phi = bound.sufficient_statistics(rows)
                    S = np.asarray(phi.sum(axis=0), dtype=np.float64).reshape(1, -1)
                    total[k] += bound.log_marginal(np.array([float(len(rows))]), S)[0]
    return total


PAIRS = [(a, b) for place, a in enumerate(FAMILIES) for b in list(FAMILIES)[place:]]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_evidence_is_that_of_plain_families_on_their_observed_rows(first, second, share):
    family, X = two_parts(first, second, share)
    labels = np.random.default_rng(1).integers(0, 4, len(X))
    X[labels == 2, 1] = np.nan if share else X[labels == 2, 1]  # a column without cells in one cluster
    bound = family.bind(X)
    n, S = Dataset(X, bound).statistics(labels, 4)
    expected = plain_evidence(family, X, labels, 4)
    assert np.allclose(bound.log_marginal(n, S), expected, rtol=1e-12, atol=1e-12)
    assert np.allclose(bound.log_marginal_of_rows(n, sparse.csr_array(S)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_components_are_the_law(first, second, share):
    family, X = two_parts(first, second, share)
    bound, labels = family.bind(X), np.random.default_rng(1).integers(0, 4, len(X))
    data = Dataset(X, bound)
    n, S = data.statistics(labels, 4)
    components = Components(bound, data, 4)
    components.refresh(labels)
    assert np.allclose(components.log_marginal(), bound.log_marginal(n, S), rtol=1e-10, atol=1e-10)
    phi = data.phi(0, len(X))
    for i in (0, 5, 11):
        after = bound.log_marginal(n + 1.0, S + phi[i])
        assert np.allclose(components.log_predictive(i), after - bound.log_marginal(n, S), rtol=1e-9, atol=1e-9)
    assert np.array_equal(components.export()[0], n)
    assert np.allclose(components.export()[1], S)


def test_a_row_without_cells_is_ruled_by_the_weights_alone():
    family, X = two_parts("gaussian_diag", "poisson", 0.2)
    mixture = Mixture(family, 2, sampler="gibbs", n_steps=5, random_state=0).fit(X)
    assert np.isnan(X[0]).all()
    found = mixture.predict_proba(X[:1])[0]
    assert np.allclose(found, mixture.weights_ / mixture.weights_.sum(), atol=1e-9)


# ---- opening ---------------------------------------------------------------------------------------------------------


def test_opening_keeps_the_clusters_and_scores_holes_that_the_data_did_not_have():
    family, X = two_parts("gaussian_diag", "poisson", 0.0)
    bound, labels = family.bind(X), np.random.default_rng(1).integers(0, 3, len(X))
    n, S = Dataset(X, bound).statistics(labels, 3)
    opened = bound.opened()
    wide = bound.open_statistics(opened, n, S)
    assert opened.n_statistics_ == bound.n_statistics_ + 4
    assert np.allclose(opened.log_marginal(n, wide), bound.log_marginal(n, S), rtol=1e-12)
    assert np.allclose(opened.log_predictive(X, n, wide), bound.log_predictive(X, n, S), rtol=1e-10)
    holes = with_holes(X, 0.4, np.random.default_rng(2))
    assert np.allclose(opened.log_predictive(holes, n, wide), bound.log_predictive(holes, n, S), rtol=1e-10)
    assert np.allclose(Dataset(X, opened).statistics(labels, 3)[1], wide)


def test_a_bound_family_is_opened_for_other_holes_and_keeps_its_prior():
    family, X = two_parts("gaussian_diag", "poisson", 0.0)
    bound = family.bind(X)
    assert bound.bind(X) is bound
    holes = with_holes(X, 0.3, np.random.default_rng(2))
    opened = bound.bind(holes)
    assert len(opened.parts) == 3
    assert getattr(opened, "gaussian_diag.rate").tolist() == getattr(bound, "gaussian_diag.rate").tolist()
    assert opened.bind(holes) is opened
    with pytest.raises(DataError, match="row 0 lacks column 0, which the data of"):
        bound.sufficient_statistics(holes)


def test_holes_any_opens_every_part():
    family, X = two_parts("gaussian_diag", "poisson", 0.0)
    bound = Columns(family.parts, holes="any").bind(X)
    assert [(part.columns, part.reading) for part in bound.parts] == [
        ((0, 2), "cells"),
        ((1,), "observed"),
        ((3,), "observed"),
    ]
    assert bound.parts[0].family.missing
    assert bound.bind(with_holes(X, 0.5, np.random.default_rng(0))) is bound


# ---- informative holes -----------------------------------------------------------------------------------------------


def test_informative_holes_tell_clusters_apart():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 2, 60)]).astype(float)
    X[:30] = np.nan
    parts = [(DiagonalGaussian(), (0,)), (Categorical(), (1,))]
    ignorable, informative = Columns(parts).bind(X), Columns(parts, missing="informative").bind(X)
    labels = np.repeat([0, 1], 30)

    def gain(family):
        n, S = Dataset(X, family).statistics(labels, 2)
        return family.log_marginal(n, S).sum() - family.log_marginal(n.sum()[None], S.sum(axis=0)[None])[0]

    assert abs(gain(ignorable)) < 1e-9
    assert gain(informative) > 30.0
    n, S = Dataset(X, informative).statistics(labels, 2)
    drawn = informative.sample(informative.draw_natural(n, S, rng)[0], 400, rng)
    assert np.isnan(drawn[:400]).mean() > 0.9
    assert np.isnan(drawn[400:]).mean() < 0.1


# ---- hyper-parameters ------------------------------------------------------------------------------------------------


def test_hyper_parameters_are_routed_by_part():
    family, X = two_parts("gaussian_diag", "poisson", 0.3)
    bound = family.bind(X)
    own = [f"gaussian_diag.{name}" for name in ("mean_strength", "rate", "alike")]
    assert list(bound.hyper) == [*own, "poisson.shape", "poisson.rate"]
    assert family.hyper == bound.hyper
    assert family.learned_by_default == tuple(own)
    other = bound.with_hyper(**{"gaussian_diag.rate": [1.0, 2.0], "poisson.rate": 3.0})
    assert getattr(other, "gaussian_diag.rate").tolist() == [1.0, 2.0]
    assert getattr(other, "poisson.rate") == 3.0
    assert getattr(bound, "poisson.rate") == 1.0
    learned = bound.update_hyper(
        np.array([40.0]), Dataset(X, bound).phi(0, 40).sum(axis=0)[None], np.random.default_rng(0)
    )
    assert set(learned.hyper_factors_) == set(bound.hyper) - {"gaussian_diag.alike"}
    for part in learned.parts:
        assert set(part.family.hyper_factors_) <= {"mean_strength", "rate", "shape"}
    with pytest.raises(TypeError, match="columns has no part 'other'"):
        bound.with_hyper(**{"other.rate": 1.0})


# ---- messages --------------------------------------------------------------------------------------------------------


def test_full_covariance_with_holes_is_refused_by_name():
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[17, 1] = np.nan
    parts = [(Gaussian(), (0, 1, 2))]
    with pytest.raises(
        CapabilityError, match=r"gaussian: row 17 lacks column 1 \('height'\); a covariance over columns"
    ):
        Columns(parts, names=["weight", "height", "age"]).bind(X)
    bound = Columns(parts, rows="complete").bind(X)
    data = Dataset(X, bound)
    assert data.phi(17, 18).tolist() == [[0.0] * 10]
    assert data.phi(16, 17)[0, 0] == 1.0


def test_a_covariance_whose_columns_are_missing_together_is_no_trouble():
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[5:9, :2] = np.nan
    bound = Columns([(Gaussian(), (0, 1)), (DiagonalGaussian(), (2,))]).bind(X)
    assert [part.reading for part in bound.parts] == ["observed", "cells"]


@pytest.mark.parametrize(
    ("value", "column", "kind", "message"),
    [
        (np.inf, 0, DataError, "row 7, column 0 holds inf"),
        (-2.0, 1, SupportError, r"poisson needs non-negative integer counts; row 7, column 1 \('visits'\) holds -2.0"),
        (0.5, 1, SupportError, r"row 7, column 1 \('visits'\) holds 0.5"),
        (9.0, 2, SupportError, r"column 2 \('colour'\) has the levels 0..1; row 7 holds the unknown code 9"),
    ],
)
def test_messages_name_row_and_column_of_the_table(value, column, kind, message):
    X = np.tile([[0.0, 1.0, 0.0], [1.5, 2.0, 1.0]], (6, 1))
    X[2] = np.nan
    parts = [(DiagonalGaussian(), (0,)), (Poisson(), (1,)), (Categorical(n_levels=2), (2,))]
    family = Columns(parts, names=["size", "visits", "colour"])
    bound = family.bind(X)
    X[7, column] = value
    for each in (family, bound):
        with pytest.raises(kind, match=message):
            each.bind(X)


def test_wrong_parts_are_refused():
    X = np.zeros((4, 3))
    for parts, kind, message in [
        ([], ValueError, "at least one pair"),
        ([Poisson()], TypeError, r"parts\[0\] must be a pair"),
        ([("poisson", (0, 1, 2))], TypeError, r"parts\[0\] must be a pair"),
        ([(Poisson(), (0, 1))], DataError, "column 2 belongs to no part"),
        ([(Poisson(), (0, 1, 2)), (Poisson(), (1,))], DataError, r"column 1 belongs to parts\[0\] and parts\[1\]"),
        ([(Poisson(), (0, 1, 3))], DataError, r"parts\[0\] names column 3; X has 3 columns"),
    ]:
        with pytest.raises(kind, match=message):
            Columns(parts).bind(X)
    with pytest.raises(DataError, match="no row has column 1"):
        Columns([(Poisson(), (0, 1, 2))]).bind(np.array([[1.0, np.nan, 0.0]]))
    with pytest.raises(ValueError, match="missing must be"):
        Columns([], missing="no")


# ---- evidence by column ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_evidence_by_column_adds_up(first, second, share):
    family, X = two_parts(first, second, share)
    bound, labels = family.bind(X), np.random.default_rng(1).integers(0, 3, len(X))
    n, S = Dataset(X, bound).statistics(labels, 3)
    found = bound.log_marginal_by_column(n, S)
    assert np.allclose(found.sum(axis=1), bound.log_marginal(n, S), rtol=1e-12, atol=1e-12)
    for k in range(3):
        for given, columns in family.parts:
            for j in columns:
                alone = Columns([(given, (0,))])
                assert np.isclose(found[k, j], plain_evidence(alone, X[:, [j]], labels, 3)[k], rtol=1e-11, atol=1e-11)


def test_evidence_of_a_covariance_is_that_of_the_block():
    X = np.random.default_rng(0).normal(size=(30, 3))
    bound = Columns([(Gaussian(), (0, 2)), (DiagonalGaussian(), (1,))]).bind(X)
    n, S = Dataset(X, bound).statistics(np.zeros(30, dtype=int), 1)
    found = bound.log_marginal_by_column(n, S)
    assert np.isnan(found[0, 2])
    assert np.isclose(np.nansum(found), bound.log_marginal(n, S)[0])


# ---- failures inside a part ------------------------------------------------------------------------------------------


class Failing(Poisson):
    """A family in NumPy whose evidence of some counts cannot be computed."""

    limit = np.inf

    def log_marginal(self, n, S):
        A = super().log_marginal(n, S)
        return np.where(np.asarray(S).sum(axis=1) > Failing.limit, -np.inf, A)

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self, data, capacity)


def test_a_failure_in_the_second_part_of_three_leaves_the_counts(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=20), rng.poisson(3.0, 20), rng.integers(0, 3, 20)]).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:4] = [[0.5, 90.0, 1.0], [0.2, 1.0, 2.0], [0.1, 2.0, 0.0], [0.3, 1.0, 1.0]]
    bound = Columns([(DiagonalGaussian(), (0,)), (Failing(), (1,)), (Categorical(), (2,))]).bind(X)
    components = Components(bound, Dataset(X, bound), 3)
    components.refresh(np.where(np.arange(20) < 4, -1, np.arange(20) % 2).astype(np.int32))
    components.add(1, 2)
    n, S = components.export()
    monkeypatch.setattr(Failing, "limit", 80.0)
    for call, arguments in [("add", (0, 1)), ("add", (0, 2))]:
        with pytest.raises(FloatingPointError):
            getattr(components, call)(*arguments)
        assert np.array_equal(components.export()[0], n)
        assert np.allclose(components.export()[1], S, rtol=1e-13)
    monkeypatch.setattr(Failing, "limit", 3.0)
    for call, arguments in [("absorb", (0, 1)), ("subtract", (0, 2)), ("remove", (4, 0))]:
        with pytest.raises(FloatingPointError):
            getattr(components, call)(*arguments)
        assert np.array_equal(components.export()[0], n)
        assert np.allclose(components.export()[1], S, rtol=1e-13)
    monkeypatch.setattr(Failing, "limit", np.inf)
    components.absorb(0, 1)
    assert components.export()[0].tolist() == [16.0, 0.0, 1.0]


def test_rows_that_the_layout_has_no_count_for_are_scored_and_not_added():
    family, X = two_parts("gaussian_diag", "poisson", 0.0)
    bound = family.bind(X)
    holes = X.copy()
    holes[3, 1] = np.nan
    components = Components(bound, Dataset(holes, bound), 2)
    components.add(0, 0)
    assert np.isfinite(components.log_predictive(3)).all()
    with pytest.raises(DataError, match="row 3 lacks columns 1, 3 or one of them"):
        components.add(3, 0)
    assert components.export()[0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_blocks_are_stacked_as_scipy_stacks_them(kind):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(40, 3)) * (rng.random((40, 3)) < 0.5)
    codes = sparse.csr_array((np.ones(40), rng.integers(0, 6, 40), np.arange(41)), shape=(40, 6))
    codes.indices, codes.indptr = codes.indices.astype(kind), codes.indptr.astype(kind)
    unsorted = sparse.csr_array(([2.0, 1.0], [3, 0], np.repeat([0, 2], [1, 40])), shape=(40, 4))
    blocks = [dense, codes, np.zeros((40, 2)), unsorted, np.asfortranarray(dense[:, :2])]
    stacked = stacked_rows(blocks, 40)
    expected = sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks]))
    expected.sort_indices()
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(stacked, name), getattr(expected, name))
    assert stacked.shape == expected.shape
    assert stacked.indices.dtype == stacked.indptr.dtype == np.int32
    assert stacked_rows([np.zeros((0, 2)), codes[:0]], 0).shape == (0, 8)
    with pytest.raises(ValueError, match=r"blocks of 40 rows are stacked; got one of shape \(39, 3\)"):
        stacked_rows([codes, dense[1:]], 40)
