"""Families are bound to rows in parts by sums that are added up: the same bits as on one machine."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from shards_data import BOUNDS, COUNTS, DATA, REAL, N

from expfam import (
    Categorical,
    Columns,
    DiagonalGaussian,
    Exponential,
    Gaussian,
    LogNormal,
    Multinomial,
    Poisson,
    VonMises,
    VonMisesFisher,
)
from expfam.engines import Part, SerialEngine
from expfam.errors import DataError, DataWarning, SupportError
from expfam.families import column_summaries as summaries
from expfam.samplers.shards.sample import bound_to_parts, check_kinds
from expfam.samplers.shards.shard import Shard, WeightedRows

RNG = np.random.default_rng(14)
BY_SUMS = {name: case for name, case in DATA.items() if type(case[0]).resolves_from_rows()}
WEIGHTS = {
    "fractions": RNG.gamma(2.0, size=N) * (RNG.random(N) < 0.8),
    "repeats": RNG.integers(0, 4, N).astype(float),
    "ones": np.ones(N),
    "chosen": (RNG.random(N) < 0.7).astype(float),
}


class FarEngine(SerialEngine):
    """An engine whose questions and answers go through pickle, as between processes."""

    def each(self, method, *values):
        answers = super().each(method, *pickle.loads(pickle.dumps(values)))
        return pickle.loads(pickle.dumps(answers))


def bound(family, X, bounds, weight=None):
    engine, bounds = FarEngine(), [0, *bounds, X.shape[0]]
    rows = [X[a:b] if weight is None else WeightedRows(X[a:b], weight[a:b]) for a, b in pairwise(bounds)]
    engine.place([Part(a, b - a, part) for (a, b), part in zip(pairwise(bounds), rows)], Shard)
    return bound_to_parts(engine, family, check_kinds(engine))


def assert_same(found, expected):
    assert found.__dict__.keys() == expected.__dict__.keys()
    for name, value in expected.__dict__.items():
        own = found.__dict__[name]
        if name == "parts":
            assert [part[1:] for part in own] == [part[1:] for part in value]
            for (one, *_), (other, *_) in zip(own, value):
                assert_same(one, other)
            continue
        assert np.asarray(own).tobytes() == np.asarray(value).tobytes(), name


def test_all_families_are_bound_by_sums():
    assert set(DATA) == set(BY_SUMS)


def holes(X, *columns):
    """Rows in which the first column lacks cells, and the second one lacks them in the same rows."""
    X = X.astype(float)
    gone = RNG.random(N) < 0.3
    gone[:3] = True
    X[np.ix_(gone, columns)] = np.nan
    return X


CODES = RNG.integers(0, 4, (N, 2)).astype(float)
TABLE = holes(
    np.column_stack([REAL[:, :3], np.exp(REAL[:, :2]), CODES, COUNTS[:, :2], 360 * RNG.random(N)]), 0, 1, 5, 7
)
TABLE = holes(TABLE, 3, 9)
REST = [(LogNormal(), (3, 4)), (Categorical(), (5, 6)), (Poisson(), (7, 8)), (VonMises(), (9,))]
TABLES = {
    "by patterns": Columns([(DiagonalGaussian(), (0, 1, 2)), *REST]),
    "any hole": Columns([(DiagonalGaussian(), (0, 1, 2)), *REST], holes="any"),
    "complete rows": Columns([(Gaussian(), (0, 1, 2)), *REST], rows="complete"),
    "with presence": Columns([(DiagonalGaussian(), (0, 1, 2)), *REST], missing="informative"),
}


@pytest.mark.parametrize("weight", [None, *WEIGHTS])
@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
@pytest.mark.parametrize("name", TABLES)
def test_tables_with_holes_in_parts_bind_to_the_bits_of_one_machine(name, n_parts, weight):
    weight = None if weight is None else WEIGHTS[weight]
    found = bound(TABLES[name], TABLE, BOUNDS.get(n_parts, []), weight)
    assert_same(found, TABLES[name].bind(TABLE, weight))


def test_a_table_in_parts_without_a_cell_is_refused_by_name():
    X = TABLE.copy()
    X[:, 6] = np.nan
    X[:, 9] = np.nan
    with pytest.raises(DataError, match=r"no row has column 9, so there is nothing to learn from"):
        bound(TABLES["by patterns"], X, BOUNDS[3])
    X[N - 1, 8] = -1.0
    with pytest.raises(SupportError, match=rf"columns: poisson.*row {N - 1}, column 8"):
        bound(TABLES["by patterns"], X, BOUNDS[3])


@pytest.mark.parametrize("n_parts", [1, *BOUNDS])
@pytest.mark.parametrize("name", BY_SUMS)
def test_parts_bind_to_the_bits_of_one_machine(name, n_parts):
    family, X = BY_SUMS[name]
    assert_same(bound(family, X, BOUNDS.get(n_parts, [])), family.bind(X))


@pytest.mark.parametrize("few", [0, 1 << 15], ids=["counted", "sorted"])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("name", BY_SUMS)
def test_weighted_parts_bind_to_the_bits_of_one_machine(monkeypatch, name, weight, few):
    monkeypatch.setattr(summaries, "_FEW_ROWS", few)
    (family, X), weight = BY_SUMS[name], WEIGHTS[weight]
    with np.errstate(all="raise", under="ignore"):
        assert_same(bound(family, X, BOUNDS[7], weight), family.bind(X, weight))


def rounded(n):
    """Columns with few values, with many and repeats, without repeats, constant, and with a few hundred."""
    few, many = RNG.integers(0, 30, n) * 0.1, np.repeat(RNG.normal(size=n // 3 + 1), 3)[:n]
    return np.column_stack([few, many, RNG.normal(size=n), np.full(n, 2.5), RNG.integers(0, 900, n) / 8.0])


@pytest.mark.filterwarnings("ignore:gaussian_diag. column 3 is constant")
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_gaps_of_many_rows_are_those_of_sorted_columns(monkeypatch, kind):
    X = RNG.permutation(rounded(12_000)).astype(kind)
    expected = DiagonalGaussian().bind(X)
    unique = [np.unique(column.astype(float)) for column in X.T]
    gaps = [np.diff(values).min() if 2 * values.size <= len(X) and values.size > 1 else 0.0 for values in unique]
    assert expected.resolution_.tolist() == gaps
    assert gaps[1] > 0 == gaps[2]
    monkeypatch.setattr(summaries, "_FEW_ROWS", 0)
    for bounds in ([], [5000], [1, 700, 5000, 11_999]):
        assert_same(bound(DiagonalGaussian(), X, bounds), expected)
    monkeypatch.setattr(summaries, "_MOST_DISTINCT", 3000)
    assert bound(DiagonalGaussian(), X, [5000]).resolution_[1] == 0.0


def test_many_sums_reach_the_same_as_the_largest_values():
    X = np.concatenate([REAL * 1e200, REAL * 1e-3])[:, :1]
    with pytest.raises(Exception, match="column 0 has a standard deviation") as here:
        DiagonalGaussian().bind(X)
    with pytest.raises(type(here.value)) as there:
        bound(DiagonalGaussian(), X, [100])
    assert str(there.value) == str(here.value)


@pytest.mark.parametrize(
    ("family", "X", "row", "value"),
    [(Poisson(), COUNTS, 650, -1), (Exponential(), np.exp(REAL), 699, -2.0), (Gaussian(), REAL, 512, np.inf)],
)
def test_errors_count_rows_among_all(family, X, row, value):
    X = X.astype(float)
    X[row, 1] = value
    with pytest.raises(Exception, match=f"row {row}\\b") as there:
        bound(family, X, [300, 512])
    assert "part" not in str(there.value)


def test_unknown_levels_are_named_by_their_row():
    X = RNG.integers(0, 3, (40, 2))
    X[[33, 35], 1] = [7, 9]
    with pytest.raises(SupportError, match=r"row 33 holds the unknown code 7: write .*n_levels=\[3, 10\]"):
        bound(Categorical(n_levels=3), X, [10, 34])
    X[33, 1] = X[35, 1] = 2
    X[20, 0] = 8  # only one part has it
    assert bound(Categorical(), X, [10, 34]).levels_.tolist() == [9, 3]


def test_empty_documents_are_named_by_their_row():
    X = sparse.csr_array(np.vstack([COUNTS[:30], np.zeros((2, COUNTS.shape[1]), dtype=int), COUNTS[30:40]]))
    with pytest.warns(DataWarning, match="2 of 42 rows are empty, the first is row 30"):
        found = bound(Multinomial(), X, [25])
    with pytest.warns(DataWarning, match="2 of 42 rows are empty, the first is row 30"):
        assert_same(found, Multinomial().bind(X))


def test_whole_numbers_of_directions_are_normalised():
    X = RNG.integers(1, 9, (50, 3))
    assert_same(bound(VonMisesFisher(), X, [20]), VonMisesFisher().bind(X))
    half = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float16)
    assert_same(bound(VonMisesFisher(), half, [20]), VonMisesFisher().bind(half))


def test_a_family_that_reads_all_rows_at_once_gets_them():
    class Median(DiagonalGaussian):
        def resolve(self, X, weight=None):
            return super().resolve(X, weight) | {"mean": np.median(X, axis=0)}

    assert not Median.resolves_from_rows()
    assert_same(bound(Median(), REAL, [100, 400]), Median().bind(REAL))
