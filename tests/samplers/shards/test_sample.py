"""Families are bound, and starts are made, by rows that are chosen by their global numbers."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from expfam import Categorical, DiagonalGaussian, MixtureModel, Multinomial, Poisson, SymmetricDirichlet
from expfam.engines import Part, SerialEngine, cut_rows
from expfam.errors import DataError, DataTypeError, SupportError
from expfam.samplers import ShardedData, UncollapsedGibbs
from expfam.samplers.shards import sample
from expfam.samplers.shards.shard import Shard

RNG = np.random.default_rng(3)
REAL = RNG.normal(size=(300, 2)) + 6.0 * RNG.integers(0, 3, (300, 1))
LEVELS = RNG.integers(0, 3, size=(300, 2))
LEVELS[[17, 260], [0, 1]] = [6, 9]  # levels that a sample rarely holds
KERNEL = UncollapsedGibbs()


class RealAtOnce(DiagonalGaussian):
    """A family that reads all rows at once."""

    def resolve(self, X, weight=None):
        return super().resolve(X, weight)


class LevelsAtOnce(Categorical):
    """A family that reads all rows at once."""

    def resolve(self, X, weight=None):
        return super().resolve(X, weight)


def at_once(base):
    return RealAtOnce() if base is DiagonalGaussian else LevelsAtOnce()


def bound(X, bounds, family):
    engine, bounds = SerialEngine(), [0, *bounds, len(X)]
    engine.place([Part(a, b - a, X[a:b]) for a, b in pairwise(bounds)], Shard)
    return sample.bound_to_parts(engine, family, sample.check_kinds(engine))


@pytest.mark.parametrize(
    ("family", "X"),
    [(DiagonalGaussian(), REAL), (Categorical(), LEVELS), (Poisson(), np.abs(LEVELS)), (Multinomial(), LEVELS + 1)],
)
def test_few_rows_bind_as_on_one_machine(family, X):
    assert ShardedData(X, family, n_parts=1).family == family.bind(X)
    assert bound(X, [10, 150], family) == family.bind(X)


@pytest.mark.parametrize(("base", "X"), [(DiagonalGaussian, REAL), (Categorical, LEVELS)])
def test_many_rows_bind_by_sums(monkeypatch, base, X):
    monkeypatch.setattr(sample, "MOST_BINDING_ROWS", 50)
    assert bound(X, [1, 100, 299], base()) == base().bind(X)


def test_a_family_that_reads_rows_at_once_is_bound_to_some_of_many(monkeypatch):
    monkeypatch.setattr(sample, "MOST_BINDING_ROWS", 50)
    whole = bound(REAL, [], at_once(DiagonalGaussian))
    assert whole == bound(REAL, [1, 100, 299], at_once(DiagonalGaussian))
    assert whole.mean.tolist() != DiagonalGaussian().bind(REAL).mean.tolist()
    family = bound(LEVELS, [99], at_once(Categorical))
    assert family.levels_.tolist() == [7, 10]
    assert family == bound(LEVELS, [5, 17, 260], at_once(Categorical))


@pytest.mark.parametrize("start", ["kmeans++", "tree", "one", "random"])
def test_starts_of_few_rows_are_those_of_one_machine(start):
    family = DiagonalGaussian().bind(REAL)
    model = MixtureModel(family, SymmetricDirichlet(5))
    plain = KERNEL.init(model, REAL, seed=2, start=start)
    data = ShardedData(cut_rows(REAL, 4, grain=1), family)
    state = KERNEL.init(model, data, seed=2, start=start)
    np.testing.assert_array_equal(state.labels, plain.labels)


def test_starts_of_many_rows_are_alike_for_any_parts(monkeypatch):
    monkeypatch.setattr(sample, "_SEEDING_ROWS", 20)
    monkeypatch.setattr(sample, "_ROWS_A_CLUSTER", 4)
    family = DiagonalGaussian().bind(REAL)
    model = MixtureModel(family, SymmetricDirichlet(3))
    found = []
    for n_parts in (1, 2, 7):
        data = ShardedData(cut_rows(REAL, n_parts, grain=1), family)
        state = KERNEL.init(model, data, seed=2, start="kmeans++")
        state.check()
        found.append(state.labels)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert len(set(found[0])) == 3


def test_parts_of_several_kinds_are_refused():
    family = Poisson()
    mixed = [Part(0, 5, LEVELS[:5]), Part(5, 5, sparse.csr_array(LEVELS[5:10]))]
    with pytest.raises(DataTypeError, match=r"begins at row 5 is sparse, the first part is not.*csr_array\(X\)"):
        ShardedData(mixed, family)
    with pytest.raises(DataError, match="begins at row 5 has 1 column, the first part 2"):
        ShardedData([Part(0, 5, LEVELS[:5]), Part(5, 5, LEVELS[5:10, :1])], family)
    with pytest.raises(DataError, match="begins at row 5 has 4 rows, not 5 as was said"):
        ShardedData([Part(0, 5, LEVELS[:5]), Part(5, 5, LEVELS[6:10])], family)


def test_all_rows_are_checked(monkeypatch):
    monkeypatch.setattr(sample, "MOST_BINDING_ROWS", 20)
    X = np.abs(LEVELS).astype(float)
    X[260, 1] = -1.0
    assert 260 not in sample.chosen_rows(300, 20, 0, 1)
    with pytest.raises(SupportError):
        ShardedData(cut_rows(X, 3, grain=1), Poisson())


@pytest.mark.parametrize("labels", [np.zeros(299, int), np.full(300, 3), np.full(300, -1), np.zeros(300)])
def test_labels_that_cannot_be_used_are_refused(labels):
    data = ShardedData(cut_rows(REAL, 2, grain=1), DiagonalGaussian())
    with pytest.raises(ValueError, match="labels must"):
        KERNEL.init(MixtureModel(data.family, SymmetricDirichlet(3)), data, seed=0, start=labels)


def test_a_state_goes_on_over_other_parts():
    """A checkpoint of three parts goes on over two, and from a state of one machine."""
    family = DiagonalGaussian().bind(REAL)
    model = MixtureModel(family, SymmetricDirichlet(4))
    states = [KERNEL.init(model, ShardedData(cut_rows(REAL, n, grain=1), family), seed=5) for n in (3, 2)]
    for _ in range(4):
        KERNEL.step(states[0])
    states[1].from_arrays(states[0].to_arrays())
    for state in states:
        for _ in range(4):
            KERNEL.step(state)
        state.check()
    np.testing.assert_array_equal(states[0].labels, states[1].labels)
    assert states[0].S.tobytes() == states[1].S.tobytes()
