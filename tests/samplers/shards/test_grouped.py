"""Rows in groups that lie in parts: the enumerated posterior, and the same bits for any parts."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse

from expfam import (
    AdmixtureModel,
    Categorical,
    Dataset,
    DiagonalGaussian,
    MixtureModel,
    Multinomial,
    Poisson,
    SphericalGaussian,
    SymmetricDirichlet,
)
from expfam.engines import Part, ProcessEngine
from expfam.errors import CapabilityError, DataError
from expfam.samplers import Cycle, UpdateHyper, sample
from expfam.samplers.shards.grouped import GroupedParts, GroupedRows, GroupedShard
from expfam.samplers.shards.grouped_gibbs import GroupedUncollapsedGibbs

RNG = np.random.default_rng(4)
FEW, FEW_GROUPS = np.array([[0.0], [0.4], [2.0], [2.3], [1.1]]), np.array([0, 1, 0, 1, 1])
REAL = RNG.normal(size=(500, 3)) + 4.0 * RNG.integers(0, 3, (500, 1))
GROUPS = RNG.integers(0, 9, 500)  # the rows of a group lie on all parts
COUNTS = RNG.poisson(RNG.choice([0.3, 5.0], size=(500, 6)))


def parts_of(X, groups, bounds):
    bounds = [0, *bounds, X.shape[0]]
    return [Part(a, b - a, GroupedRows(X[a:b], groups[a:b])) for a, b in itertools.pairwise(bounds)]


def law(model, X, groups):
    """Exact posterior of the labels of all rows, from the definition of the model."""
    logs = [model.log_joint(X, labels, groups) for labels in itertools.product((0, 1), repeat=len(X))]
    p = np.exp(np.array(logs) - max(logs))
    return p / p.sum()


def visits(kernel, model, data, n_steps):
    """Share of each assignment of clusters to the rows."""
    state, counts = kernel.init(model, data, seed=3), np.zeros(2**data.n_rows)
    for _ in range(n_steps):
        kernel.step(state)
        counts[int("".join(map(str, state.labels)), 2)] += 1
    return counts / n_steps


def distance(p, q):
    """Total variation."""
    return 0.5 * abs(p - q).sum()


MODEL = AdmixtureModel(SphericalGaussian(variance=0.5, mean=1.0, mean_variance=2.0), 2, alpha=[0.5, 0.9]).bind(FEW)


@pytest.mark.parametrize("bounds", [[2], [1, 3]], ids=["2", "3"])
def test_visits_follow_the_enumerated_posterior(bounds):
    data, expected = GroupedParts(parts_of(FEW, FEW_GROUPS, bounds), MODEL.family), law(MODEL, FEW, FEW_GROUPS)
    found = visits(GroupedUncollapsedGibbs(learn_alpha=False), MODEL, data, 6_000)
    independent = RNG.multinomial(1_500, expected) / 1_500  # a step is worth a quarter of an independent draw or more
    assert distance(found, expected) < 1.5 * distance(independent, expected)


def test_one_weight_for_all_groups_has_another_law():
    """Weights of the first group in the place of those of each."""

    class Shared(GroupedUncollapsedGibbs):
        def new_labels(self, state):
            state.log_weights = np.repeat(state.log_weights[:1], len(state.log_weights), axis=0)
            return super().new_labels(state)

    data, expected = GroupedParts(parts_of(FEW, FEW_GROUPS, [2]), MODEL.family), law(MODEL, FEW, FEW_GROUPS)
    assert distance(visits(Shared(learn_alpha=False), MODEL, data, 3_000), expected) > 0.05


@pytest.mark.parametrize(
    ("family", "X"),
    [
        (DiagonalGaussian(), REAL),
        (Poisson(), COUNTS),
        (Multinomial(0.1), COUNTS + 1),
        (Multinomial(0.1), sparse.csr_array(COUNTS + (np.arange(6) == 0))),
        (Categorical(), np.minimum(COUNTS, 4)),
    ],
    ids=["real", "counts", "words", "csr", "categories"],
)
def test_parts_do_not_matter(family, X):
    found = []
    for bounds in ([], [250], [1, 300], [1, 2, 80, 200, 333, 499]):
        data = GroupedParts(parts_of(X, GROUPS, bounds), family)
        kernel = Cycle(GroupedUncollapsedGibbs(learn_every=3), UpdateHyper(weights=False))
        state = kernel.init(AdmixtureModel(data.family, 4, alpha=0.3), data, seed=11, start="random")
        trace = sample(kernel, state, 12)
        state.check()
        found.append((state.labels.tobytes(), state.model.pseudocounts.tobytes(), trace.column("objective").tobytes()))
    assert len(set(found)) == 1


def test_one_machine_has_the_labels_of_parts():
    data = GroupedParts(parts_of(REAL, GROUPS, [77]), DiagonalGaussian())
    model, kernel, labels = AdmixtureModel(data.family, 4), GroupedUncollapsedGibbs(), []
    whole = Dataset(REAL, DiagonalGaussian(), groups=GROUPS)
    for rows in (data, whole):
        state = kernel.init(model, rows, seed=2)
        sample(kernel, state, 6)
        labels.append(state.labels.tobytes())
    with ProcessEngine(2) as engine:
        state = kernel.init(model, GroupedParts(data.engine.parts, data.family, engine=engine), seed=2)
        sample(kernel, state, 6)
        labels.append(state.labels.tobytes())
    assert len(set(labels)) == 1


def test_names_are_those_of_numbers():
    names = np.array(list("cabdefghi"))[GROUPS]
    numbers = np.unique(names, return_inverse=True)[1]
    found = []
    for groups in (names, numbers):
        data, kernel = GroupedParts(parts_of(REAL, groups, [100, 101]), DiagonalGaussian()), GroupedUncollapsedGibbs()
        state = kernel.init(AdmixtureModel(data.family, 3), data, seed=2)
        sample(kernel, state, 4)
        found.append((state.labels.tobytes(), state.group_counts().toarray().tobytes()))
    assert found[0] == found[1]
    assert GroupedParts(parts_of(REAL, names, [1]), DiagonalGaussian()).names == sorted("cabdefghi")


def test_log_joint_is_that_of_the_model():
    state = GroupedUncollapsedGibbs().init(MODEL, GroupedParts(parts_of(FEW, FEW_GROUPS, [2]), MODEL.family), seed=0)
    gap = state.log_joint - MODEL.log_joint(FEW, state.labels, FEW_GROUPS)
    state.set_labels(np.array([0, 1, 1, 0, 0], dtype=np.int32))  # the base measure of the rows does not change
    assert state.log_joint - MODEL.log_joint(FEW, state.labels, FEW_GROUPS) == pytest.approx(gap, abs=1e-10)


def test_a_lost_part_is_made_again():
    names = np.array(list("cabdefghi"))[GROUPS]
    data, kernel = GroupedParts(parts_of(REAL, names, [200]), DiagonalGaussian()), GroupedUncollapsedGibbs()
    state = kernel.init(AdmixtureModel(data.family, 3), data, seed=2)
    kernel.step(state)
    saved = [pickle.loads(pickle.dumps(part)) for part in data.engine.each("saved")]
    counts = 0
    for part, kept in zip(data.engine.parts, saved):
        again = GroupedShard(part.source, part.first_row)
        again.restore(kept)
        counts = counts + again.group_counts(9, 3)
    np.testing.assert_array_equal(counts.toarray(), state.group_counts().toarray())


def test_what_cannot_be_used_is_refused():
    with pytest.raises(DataError, match="groups must be non-negative; row 3 holds -1"):
        GroupedParts(parts_of(FEW, np.array([0, 0, 0, -1, 0]), [2]), MODEL.family)
    with pytest.raises(DataError, match="row 3 has no group"):
        GroupedParts(parts_of(FEW, np.array(["a", "b", "a", None, "b"], dtype=object), [2]), MODEL.family)
    with pytest.raises(DataError, match=r"begins at row 0 has 5 rows and 2 groups"):
        GroupedParts(GroupedRows(FEW, [0, 1]), MODEL.family)
    with pytest.raises(DataError, match=r"begins at row 0 has no groups: write GroupedRows\(X, groups\)"):
        GroupedParts([Part(0, 5, FEW)], MODEL.family)
    mixed = [Part(0, 2, GroupedRows(FEW[:2], [0, 1])), Part(2, 3, GroupedRows(FEW[2:], ["a", "b", "a"]))]
    with pytest.raises(DataError, match=r"numbers of groups, and others names.*groups\.astype\(str\)"):
        GroupedParts(mixed, MODEL.family)
    kernel = GroupedUncollapsedGibbs()
    with pytest.raises(CapabilityError, match=r"write AdmixtureModel\(family, n_components=10\)"):
        kernel.init(MixtureModel(MODEL.family, SymmetricDirichlet(2)), Dataset(FEW, MODEL.family, groups=FEW_GROUPS))
    with pytest.raises(CapabilityError, match=r"write Dataset\(X, family, groups=groups\)"):
        kernel.init(MODEL, FEW)
