"""Labels and statistics are the same bits for any number of parts and any bounds of them."""

import numpy as np
import pytest
from scipy import sparse
from shards_data import BOUNDS, COUNTS, DATA, REAL, RNG, N, cut

from expfam import (
    DiagonalGaussian,
    MixtureModel,
    PitmanYor,
    Poisson,
    SphericalGaussian,
    SymmetricDirichlet,
    list_plugins,
)
from expfam.engines import SerialEngine
from expfam.errors import ArchiveError
from expfam.samplers import Cycle, ShardedData, StochasticEM, UncollapsedGibbs, UncollapsedState, UpdateHyper, sample
from expfam.samplers.starts.rules import starting_labels


def run(kernel, family, X, bounds, weights=None, n_steps=4, start="random"):
    """A chain over the parts, and its trace."""
    model = MixtureModel(family, SymmetricDirichlet(5) if weights is None else weights)
    state = kernel.init(model, ShardedData(cut(X, bounds), family, engine=SerialEngine()), seed=3, start=start)
    return state, sample(kernel, state, n_steps)


def bits(state):
    """All numbers of a state."""
    S = state.S.toarray() if sparse.issparse(state.S) else state.S
    return state.labels.tobytes() + state.n.tobytes() + S.tobytes() + state.Theta.tobytes()


def test_every_built_in_family_is_among_the_data():
    """Dense and, where it takes them, CSR: the tests below ask all of them."""
    names = {plugin.name for plugin in list_plugins("family") if plugin.distribution == "expfam"}
    assert {family.name for family, _ in DATA.values()} >= names
    for family, _ in DATA.values():
        own = [sparse.issparse(X) for other, X in DATA.values() if other.name == family.name]
        assert False in own
        assert True in own or not family.accepts_sparse


@pytest.mark.parametrize("name", DATA)
def test_any_parts_give_the_same_bits(name):
    family, X = DATA[name]
    family = family.bind(X)
    whole, trace = run(UncollapsedGibbs(), family, X, [])
    assert len(set(trace.column("objective"))) == 4  # the chain moves
    whole.check()
    for bounds in BOUNDS.values():
        state, other = run(UncollapsedGibbs(), family, X, bounds)
        assert bits(state) == bits(whole)
        np.testing.assert_array_equal(other.column("objective"), trace.column("objective"))


@pytest.mark.parametrize(
    "kernel", [StochasticEM(), StochasticEM(theta="mean"), Cycle(UncollapsedGibbs(), UpdateHyper())]
)
def test_any_kernel_gives_the_same_bits(kernel):
    family = DiagonalGaussian().bind(REAL)
    whole, _ = run(kernel, family, REAL, [], n_steps=6)
    for bounds in BOUNDS.values():
        state, _ = run(kernel, family, REAL, bounds, n_steps=6)
        assert bits(state) == bits(whole)
        assert state.model == whole.model


@pytest.mark.parametrize(("F", "K"), [(1, 2), (65, 300), (700, 16), (65, 1024)])
def test_tiles_of_any_size_give_the_same_bits(F, K):
    """Short products of matrices have other bits, so tiles are whole wherever parts end."""
    X = RNG.normal(size=(520, F)) + 3.0 * RNG.integers(0, 2, (520, 1))
    family = SphericalGaussian(variance=1.0).bind(X)
    whole, _ = run(UncollapsedGibbs(draw="dense"), family, X, [], weights=SymmetricDirichlet(K), n_steps=2)
    for bounds in ([1], [63, 64, 200, 519], [512]):
        state, _ = run(UncollapsedGibbs(draw="dense"), family, X, bounds, weights=SymmetricDirichlet(K), n_steps=2)
        assert bits(state) == bits(whole)


def test_rough_rows_give_the_same_bits():
    """Rows that single precision cannot hold are drawn in double precision."""
    X = REAL.copy()
    X[::50] *= 1e6
    family = SphericalGaussian(variance=1.0).bind(X)
    whole, _ = run(UncollapsedGibbs(), family, X, [])
    state, _ = run(UncollapsedGibbs(), family, X, [3, 99, 400])
    assert bits(state) == bits(whole)


def test_sticks_and_given_labels():
    family = Poisson().bind(COUNTS)
    kernel, weights = UncollapsedGibbs(truncation=8), PitmanYor(alpha=1.0, discount=0.2)
    start = RNG.integers(0, 8, N)
    whole, _ = run(kernel, family, COUNTS, [], weights, start=start)
    state, _ = run(kernel, family, COUNTS, [100, 101, 600], weights, start=start)
    assert bits(state) == bits(whole)


@pytest.mark.parametrize("kernel", [UncollapsedGibbs(), StochasticEM()])
@pytest.mark.parametrize("name", DATA)
def test_one_machine_gives_the_same_bits(name, kernel):
    """The plain state takes its sums by the same exact pieces, so parts change nothing."""
    family, X = DATA[name]
    family = family.bind(X)
    plain = kernel.init(MixtureModel(family, SymmetricDirichlet(5)), X, seed=3, start="random")
    assert type(plain) is UncollapsedState
    trace = sample(kernel, plain, 4)
    for bounds in ([], *BOUNDS.values()):
        state, other = run(kernel, family, X, bounds)
        assert bits(state) == bits(plain)
        np.testing.assert_array_equal(other.column("objective"), trace.column("objective"))


def test_chains_pass_from_one_machine_to_parts_and_back():
    family = DiagonalGaussian().bind(REAL)
    model, kernel = MixtureModel(family, SymmetricDirichlet(5)), UncollapsedGibbs()
    plain = kernel.init(model, REAL, seed=3, start="random")
    there = kernel.init(model, ShardedData(cut(REAL, [50, 300]), family), seed=3, start="one")
    sample(kernel, plain, 3)
    there.from_arrays(plain.to_arrays())
    assert bits(there) == bits(plain)
    sample(kernel, there, 3)
    back = kernel.init(model, REAL, seed=3, start="one")
    back.from_arrays(there.to_arrays())
    sample(kernel, plain, 3)
    assert bits(back) == bits(there) == bits(plain)
    spoilt = there.to_arrays()
    spoilt["n"] = spoilt["n"] + 1.0
    for state in (back, there):
        with pytest.raises(ArchiveError, match="not those of the labels"):
            state.from_arrays(spoilt)


def test_random_labels_of_parts_are_those_of_the_whole():
    family = Poisson().bind(COUNTS)
    data = ShardedData(cut(COUNTS, [77, 300]), family)
    model = MixtureModel(family, SymmetricDirichlet(5))
    state = UncollapsedGibbs().init(model, data, seed=1, start="random")
    whole = UncollapsedGibbs().init(model, COUNTS, seed=1, start="random")
    np.testing.assert_array_equal(state.labels, whole.labels)
    np.testing.assert_array_equal(starting_labels("random", model, whole.data, seed=1, n_clusters=5), whole.labels)


class Frozen(UncollapsedGibbs):
    """Sweep that draws no labels, with an attribute of its own."""

    def __init__(self, *, mark=0, **settings):
        super().__init__(**settings)
        self.mark = mark

    def draw_labels(self, state):
        return state.labels.copy(), {"mark": float(self.mark)}


def test_a_subclass_draws_labels_of_parts_in_its_own_way():
    kernel, X = Frozen(mark=3), np.arange(2000.0)[:, None]
    data = ShardedData(X, DiagonalGaussian(), n_parts=3)
    state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(4)), data, seed=0, start="random")
    before = state.labels
    info = kernel.step(state)
    assert info.extra["mark"] == 3.0
    np.testing.assert_array_equal(state.labels, before)
    assert (kernel.draw, kernel.of_parts().draw, type(kernel.of_parts())) == ("auto", "dense", Frozen)
