"""EM over parts: soft statistics, labels and objective are the bits of one machine, with weights of rows too."""

import numpy as np
import pytest
from scipy import sparse
from shards_data import BOUNDS, DATA, cut

from expfam import (
    Dataset,
    DiagonalGaussian,
    MixtureModel,
    Multinomial,
    PitmanYor,
    SphericalGaussian,
    SymmetricDirichlet,
)
from expfam.engines import ProcessEngine, SerialEngine, cut_rows
from expfam.errors import CapabilityError, DataError
from expfam.samplers import ExpectationMaximization, ShardedData, StochasticEM, UncollapsedGibbs, WeightedRows, sample
from expfam.samplers.shards.data import with_weights
from expfam.samplers.shards.soft import Cuts, cuts_of
from expfam.samplers.uncollapsed.soft_sums import Sizes

KERNEL = ExpectationMaximization(tol=0.0)
FEW, MANY = SymmetricDirichlet(3), SymmetricDirichlet(16)  # clusters: rows are weighed in double precision, or in tiles
RNG = np.random.default_rng(4)
LONG = RNG.normal(size=(3300, 3)) + 3.0 * RNG.integers(0, 4, (3300, 1))
LONG_COUNTS = sparse.csr_array(RNG.poisson(np.exp(RNG.normal(size=(4, 9)))[RNG.integers(0, 4, 3300)]))
LONG_BOUNDS = {2: [2048], 3: [1, 3299], 7: [100, 1023, 1024, 1500, 2049, 2500]}


def on_parts(kernel, family, X, bounds, weights, weight=None, n_steps=3, engine=None):
    """A chain over parts with the given bounds."""
    parts = cut(X, bounds)
    parts = parts if weight is None else with_weights(parts, weight)
    data = ShardedData(parts, family, engine=engine or SerialEngine())
    state = kernel.init(MixtureModel(family, weights), data, seed=3, start="random")
    return state, sample(kernel, state, n_steps)


def on_one_machine(kernel, family, X, weights, weight=None, n_steps=3):
    """The same chain without parts."""
    data = Dataset(X, family, weight=weight)
    state = kernel.init(MixtureModel(family, weights), data, seed=3, start="random")
    return state, sample(kernel, state, n_steps)


def bits(state):
    numbers = (state.labels, state.n, state.S, state.Theta, np.array([state.log_joint, state.log_likelihood]))
    return tuple(array.tobytes() for array in numbers)


@pytest.mark.parametrize("weights", [FEW, MANY])
@pytest.mark.parametrize("name", [name for name in DATA if hasattr(DATA[name][0], "log_prior")])
def test_any_parts_give_the_bits_of_one_machine(name, weights):
    family, X = DATA[name]
    family = family.bind(X)
    whole, trace = on_one_machine(KERNEL, family, X, weights)
    assert len(set(trace.column("objective"))) == 3  # the objective moves
    for bounds in ([], *BOUNDS.values()):
        state, other = on_parts(KERNEL, family, X, bounds, weights)
        assert bits(state) == bits(whole)
        np.testing.assert_array_equal(other.column("objective"), trace.column("objective"))
        np.testing.assert_array_equal(other.column("n_clusters"), trace.column("n_clusters"))
        state.check()


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("family", "X"), [(DiagonalGaussian(), LONG), (Multinomial(), LONG_COUNTS)])
def test_rows_of_a_segment_lie_in_several_parts(family, X, is_weighted):
    family = family.bind(X)
    weight = RNG.integers(0, 4, X.shape[0]) * 0.5 if is_weighted else None
    whole, _ = on_one_machine(KERNEL, family, X, MANY, weight)
    assert Sizes(3300, family.n_statistics_, None, False).segment_rows == 1024  # the bounds cut segments
    for bounds in LONG_BOUNDS.values():
        state, _ = on_parts(KERNEL, family, X, bounds, MANY, weight)
        assert bits(state) == bits(whole)


@pytest.mark.parametrize("weights", [FEW, MANY])
def test_weights_are_multiplicities(weights):
    family, X = DATA["diagonal"]
    family = family.bind(X)
    times = np.arange(X.shape[0]) % 4
    whole, _ = on_one_machine(KERNEL, family, X, weights, times)
    repeated, _ = on_one_machine(KERNEL, family, np.repeat(X, times, axis=0), weights)
    for bounds in BOUNDS.values():
        state, _ = on_parts(KERNEL, family, X, bounds, weights, times)
        assert bits(state) == bits(whole)
        n, _ = state.label_statistics()
        of_rows = np.bincount(state.labels, weights=times, minlength=n.size)
        np.testing.assert_array_equal(n, of_rows)
        assert np.isclose(state.n.sum(), times.sum(), rtol=1e-6)
    # the same start by rows: from here on repetitions and weights are one chain
    again = KERNEL.init(
        MixtureModel(family, weights),
        Dataset(np.repeat(X, times, axis=0), family),
        seed=3,
        start=np.repeat(np.arange(X.shape[0]) % 3, times),
    )
    data = ShardedData(with_weights(cut(X, [300]), times), family)
    state = KERNEL.init(MixtureModel(family, weights), data, seed=3, start=np.arange(X.shape[0]) % 3)
    np.testing.assert_allclose(state.S, again.S, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(
        sample(KERNEL, state, 4).column("objective"), sample(KERNEL, again, 4).column("objective"), rtol=1e-6
    )
    assert repeated.n.sum() == pytest.approx(times.sum())


def test_sums_without_borrowed_rows_would_differ(monkeypatch):
    """Parts that sum the rows they have get other bits: the tests above can fail."""
    family = DiagonalGaussian().bind(LONG)
    whole, _ = on_one_machine(KERNEL, family, LONG, MANY)
    monkeypatch.setattr("expfam.samplers.shards.soft.cuts_of", lambda part, *_: Cuts(0, part.n_rows, 0))
    state, _ = on_parts(KERNEL, family, LONG, [1500], MANY)
    assert bits(state) != bits(whole)


def test_every_segment_is_summed_once():
    for bounds in ([], [1], [1023, 1024], [500, 700, 3000], [1024, 2048]):
        parts, seen = cut(np.zeros((3300, 1)), bounds), []
        for part in parts:
            cuts = cuts_of(part, 3300, 1024)
            rows = range(part.first_row + cuts.first, part.first_row + part.n_rows + cuts.n_borrowed)
            assert not len(rows) or rows.start % 1024 == 0
            assert not len(rows) or rows.stop % 1024 == 0 or rows.stop == 3300
            seen.extend(rows)
        assert sorted(seen) == list(range(3300))


def test_rough_rows_and_sticks():
    """Rows that single precision cannot hold are weighed in double precision."""
    X = LONG.copy()
    X[::50] *= 1e6
    family = SphericalGaussian(variance=1.0).bind(X)
    kernel = ExpectationMaximization(tol=0.0, truncation=16)
    whole, _ = on_one_machine(kernel, family, X, PitmanYor(alpha=1.0, discount=0.2))
    for bounds in LONG_BOUNDS.values():
        state, _ = on_parts(kernel, family, X, bounds, PitmanYor(alpha=1.0, discount=0.2))
        assert bits(state) == bits(whole)


def test_processes_give_the_same_bits_and_bind_weighted_rows():
    weight = RNG.integers(0, 3, len(LONG)).astype(float)
    one = Dataset(LONG, DiagonalGaussian(), weight=weight)
    state = KERNEL.init(MixtureModel(one.family, MANY), one, seed=1, start="kmeans++")
    sample(KERNEL, state, 3)
    with ProcessEngine(2) as engine:
        data = ShardedData(WeightedRows(LONG, weight), DiagonalGaussian(), engine=engine, n_parts=3)
        assert data.family == one.family
        there = KERNEL.init(MixtureModel(data.family, MANY), data, seed=1, start="kmeans++")
        sample(KERNEL, there, 3)
        assert bits(there) == bits(state)


def test_a_run_converges_and_goes_on_elsewhere():
    family = DiagonalGaussian().bind(LONG)
    kernel = ExpectationMaximization(tol=1e-4)
    whole, trace = on_one_machine(kernel, family, LONG, MANY, n_steps=200)
    state, other = on_parts(kernel, family, LONG, [1, 1500], MANY, n_steps=200)
    assert whole.converged
    assert len(trace) == len(other) < 200
    back = KERNEL.init(MixtureModel(family, MANY), LONG, seed=3, start="one")
    back.from_arrays(state.to_arrays())
    again, _ = on_parts(kernel, family, LONG, [700], MANY, n_steps=0)
    again.from_arrays(whole.to_arrays())
    assert bits(back) == bits(again) == bits(whole)
    n, _ = again.statistics()
    np.testing.assert_array_equal(n, np.bincount(again.partition))
    with pytest.raises(CapabilityError, match="not moved"):
        again.move_labels(again.labels)


def test_what_cannot_be_done_is_refused_with_a_line_to_type():
    family = DiagonalGaussian().bind(LONG)
    data = ShardedData(LONG, family, n_parts=2, weight=np.ones(len(LONG)))
    for kernel in (UncollapsedGibbs(), StochasticEM()):
        with pytest.raises(CapabilityError, match=r"cannot use weights.*write ExpectationMaximization\(\)\.init"):
            kernel.init(MixtureModel(family, FEW), data, seed=0)
    with pytest.raises(DataError, match=r"one number for each of 3,?300 rows"):
        ShardedData(LONG, family, weight=np.ones(3))
    parts = cut_rows(LONG, 2)
    mixed = [parts[0], parts[1]._replace(source=WeightedRows(parts[1].source, np.ones(parts[1].n_rows)))]
    with pytest.raises(DataError, match=r"begins at row 1536 has weights.*write WeightedRows\(X"):
        ShardedData(mixed, family)
    with pytest.raises(ValueError, match=r"WeightedRows\(X, weight\)"):
        ShardedData(parts, family, weight=np.ones(len(LONG)))
    spoilt = with_weights(parts, np.where(np.arange(len(LONG)) == 2000, -1.0, 1.0))
    with pytest.raises(DataError, match=r"row 2000 holds -1\.0"):
        ShardedData(spoilt, family)
    with pytest.raises(DataError, match="zero in all rows"):
        ShardedData(LONG, family, n_parts=2, weight=np.zeros(len(LONG)))


def test_bounds_of_parts_do_not_matter_where_rows_have_no_finite_score():
    family, X = DATA["multinomial_sparse"]
    family = family.bind(X)
    for bounds in ([], [100, 600]):
        state, _ = on_parts(KERNEL, family, X, bounds, MANY, n_steps=1)
        state.Theta[:] = -np.inf
        with pytest.raises(FloatingPointError, match="datum 0: no component"):
            state.expect()
