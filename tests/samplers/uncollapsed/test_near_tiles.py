"""Soft steps whose far scores are bounds: the steps of all scores, with the same bits for any threads and parts."""

import numpy as np
import pytest
from shards_data import cut

import expfam as ef
from expfam.engines import SerialEngine
from expfam.samplers import ExpectationMaximization, Full, ShardedData, SparseVariational
from expfam.samplers.uncollapsed import near_tiles
from expfam.samplers.uncollapsed.dense import DenseScores
from expfam.structures.rows import near_scores

FAMILIES = {
    "spherical": ef.SphericalGaussian(),
    "diagonal": ef.DiagonalGaussian(),
    "von Mises-Fisher": ef.load_family("von_mises_fisher", normalize=True),
}


@pytest.fixture(params=[True, False], ids=["integers", "all scores"])
def has_codes(monkeypatch, request):
    monkeypatch.setattr(near_scores, "has_byte_products", lambda: request.param)
    return request.param


def rows_of(spread, n=5000, K=140, d=52):
    rng = np.random.default_rng(0)
    labels = rng.integers(K, size=n)
    X = rng.normal(size=(K, d))[labels] + spread * rng.normal(size=(n, d))
    X[::9] = rng.normal(size=(len(X[::9]), d)) * 0.4  # rows between clusters, of which many scores are near
    return X.astype(np.float32), labels


def stepped(kernel, name, data, labels, n_steps=3):
    model = ef.MixtureModel(FAMILIES[name].bind(data) if isinstance(data, np.ndarray) else data.family, WEIGHTS)
    state = kernel.init(model, data, seed=0, start=labels)
    for _ in range(n_steps):
        kernel.step(state)
    return state


WEIGHTS = ef.SymmetricDirichlet(140)
KERNELS = {
    "em": lambda n_threads=1: ExpectationMaximization(tol=0.0, n_threads=n_threads),
    "sparse": lambda n_threads=1: SparseVariational(4, n_candidates=None, schedule=Full(), n_threads=n_threads),
    "dense": lambda n_threads=1: SparseVariational(None, n_candidates=None, schedule=Full(), n_threads=n_threads),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("spread", [0.1, 0.6, 3.0])
def test_steps_are_those_of_all_scores(monkeypatch, kernel, name, spread):
    X, labels = rows_of(spread)
    found = []
    for has in (True, False):
        monkeypatch.setattr(near_scores, "has_byte_products", lambda has=has: has)
        state = stepped(kernel(), name, X, labels)
        found.append((state.log_joint, state.n))
    assert abs(found[0][0] - found[1][0]) <= 1e-6 * abs(found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-3, atol=2e-3)


@pytest.mark.usefixtures("has_codes")
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_bits_do_not_depend_on_threads(kernel):
    X, labels = rows_of(0.6)
    found = []
    for n_threads in (1, 2, 3):
        state = stepped(kernel(n_threads), "diagonal", X, labels)
        found.append((state.n.tobytes(), state.S.tobytes(), state.log_joint))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("spread", [0.1, 0.6])
def test_em_has_the_same_bits_for_any_parts(has_codes, spread):
    X, labels = rows_of(spread)
    family = FAMILIES["diagonal"].bind(X)
    found = []
    for bounds in ([], [1], [63, 64, 2000, 4999], [512, 1024]):
        data = ShardedData(cut(X, bounds), family, engine=SerialEngine())
        state = stepped(KERNELS["em"](), "diagonal", data, labels)
        found.append((state.n.tobytes(), state.S.tobytes()))
    whole = stepped(KERNELS["em"](), "diagonal", X, labels)
    assert all(each == (whole.n.tobytes(), whole.S.tobytes()) for each in found), has_codes


@pytest.mark.parametrize(("spread", "is_used"), [(0.1, True), (0.6, True), (30.0, False)])
def test_parameters_alone_decide_whether_bounds_are_tried(monkeypatch, spread, is_used):
    monkeypatch.setattr(near_scores, "has_byte_products", lambda: True)
    X, labels = rows_of(spread)
    state = stepped(KERNELS["em"](), "spherical", X, labels, n_steps=1)
    scores = DenseScores(state.data, state.Theta, state.G, state.log_pi, state.n, state.S)
    assert (near_tiles.near_scores(scores, state) is not None) is is_used
    state.n = state.n / 2.0  # fewer rows than it takes to code the parameters
    assert near_tiles.near_scores(scores, state) is None
