"""The check of real rows notes the extremes of their columns, so binding does not read the rows for them again."""

import numpy as np
import pytest

import expfam
from expfam.errors import DataError
from expfam.families import column_summaries, support
from expfam.families.support import NOTED_EXTREMES

FAMILIES = [
    expfam.DiagonalGaussian(),
    expfam.SphericalGaussian(),
    expfam.Gaussian(),
    expfam.DiagonalGaussian(missing=True),
]


def rows(kind=np.float64):
    return np.random.default_rng(0).normal(5.0, 2.0, size=(300, 4)).astype(kind)


@pytest.fixture
def calls(monkeypatch):
    """How often each module asks for extremes."""
    found = {"check": 0, "question": 0}

    def counted(name, function):
        def call(*args):
            found[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(support, "column_extremes", counted("check", support.column_extremes))
    monkeypatch.setattr(column_summaries, "column_extremes", counted("question", column_summaries.column_extremes))
    return found


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: repr(family))
def test_rows_are_read_once_for_their_extremes(family, kind, calls):
    family.bind(rows(kind))
    assert calls == {"check": 1, "question": 0}


@pytest.mark.parametrize("n_threads", [1, 2])
def test_what_is_learned_is_the_same(n_threads, monkeypatch):
    X = np.random.default_rng(1).normal(size=(300_000, 8)).astype(np.float32)
    model = expfam.MixtureModel(expfam.DiagonalGaussian(), expfam.SymmetricDirichlet(3))
    noted = model.bind(X, n_threads=n_threads).family
    monkeypatch.setattr(expfam.DiagonalGaussian, "asks_for_extremes", False)
    read = model.bind(X, n_threads=n_threads).family
    assert all(np.array_equal(noted.__dict__[name], read.__dict__[name]) for name in ("center_", "spread_", "rate"))


@pytest.mark.parametrize("weight", [None, np.arange(300) % 3, np.ones(300)])
def test_rows_that_do_not_count_are_not_in_the_extremes(weight, monkeypatch):
    X = rows()
    X[0] = 1e6  # weight 0 in the second case
    noted = expfam.DiagonalGaussian().bind(X, weight=weight)
    monkeypatch.setattr(expfam.DiagonalGaussian, "asks_for_extremes", False)
    assert noted == expfam.DiagonalGaussian().bind(X, weight=weight)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [(0, 0), (299, 3), (150, 1)])
def test_a_bad_cell_is_refused_as_before(at, bad, kind):
    X = rows(kind)
    X[at] = bad
    with pytest.raises(DataError, match=f"row {at[0]}, column {at[1]} holds {bad}") as bound:
        expfam.DiagonalGaussian().bind(X)
    with pytest.raises(DataError) as checked:
        expfam.DiagonalGaussian().validate(X)
    assert str(bound.value) == str(checked.value)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_cells_may_miss_but_not_be_infinite(bad):
    X = rows()
    X[::2, 1] = np.nan
    assert expfam.DiagonalGaussian(missing=True).bind(X).is_bound
    X[7, 1] = bad
    with pytest.raises(DataError, match="row 7, column 1"):
        expfam.DiagonalGaussian(missing=True).bind(X)


def test_logarithms_have_extremes_of_their_own(calls):
    expfam.LogNormal().bind(np.exp(rows() / 5))
    assert calls["check"] == 0
    assert calls["question"] > 0


def test_notes_end_with_the_binding():
    seen = []

    class Watching(expfam.DiagonalGaussian):
        def resolve(self, X):
            seen.append(list(NOTED_EXTREMES.get()))
            return super().resolve(X)

    X = rows()
    Watching().bind(X)
    ((noted, extremes),) = seen[0]
    assert noted.base is X
    assert [each.tolist() for each in extremes[:2]] == [X.min(axis=0).tolist(), X.max(axis=0).tolist()]
    assert NOTED_EXTREMES.get() is None


def test_notes_of_other_rows_are_not_taken(calls):
    class Doubled(expfam.DiagonalGaussian):
        def validate(self, X):
            return 2.0 * super().validate(X)

    X = rows()
    assert np.allclose(Doubled().bind(X).center_, 2.0 * X.mean(axis=0))
    assert calls == {"check": 1, "question": 1}
