"""One seed, one answer: for every number of threads, after a resume at any step, and whatever was run before."""

import json
import sys

import numpy as np
import pytest
from scipy import sparse
from tiny import FAMILIES

import expfam as ef
from expfam.samplers import (
    CollapsedGibbs,
    Cycle,
    GroupedGibbs,
    Memoized,
    RandomScan,
    SparseVariational,
    SplitMerge,
    Stochastic,
    TopicGibbs,
    UncollapsedGibbs,
    UpdateHyper,
)
from expfam.structures.ground import rng as _rng

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")


def blobs(family, n=700, seed=0):
    """Rows like a family's tiny data, many more of them."""
    _, X = FAMILIES[family]
    X = X.toarray() if sparse.issparse(X) else X
    rng = np.random.default_rng(seed)
    rows = X[rng.integers(0, X.shape[0], n)]
    return (
        rows
        if family == "categorical"
        else rows + (rng.poisson(1.0, rows.shape) if rows.dtype.kind == "i" else rng.normal(size=rows.shape))
    )


@pytest.mark.parametrize(
    "family", ["multinomial", "poisson", "categorical", "gaussian", "gaussian_diag", "plain_poisson"]
)
def test_labels_of_the_uncollapsed_sweep_do_not_depend_on_threads(family):
    model = ef.MixtureModel(FAMILIES[family][0], ef.SymmetricDirichlet(30))
    X = blobs(family)
    runs = []
    for n_threads in (1, 2, 4):
        kernel = UncollapsedGibbs(n_threads=n_threads)
        state = kernel.init(model, X, seed=9)
        runs.append([kernel.step(state).objective for _ in range(4)] + list(state.labels))
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("family", ["multinomial", "gaussian"])
def test_predictions_do_not_depend_on_threads(family):
    X = blobs(family)
    mixture = ef.Mixture(FAMILIES[family][0], 20, n_steps=3, random_state=1).fit(X)
    results = [mixture.set_params(n_threads=n).predict_proba(X) for n in (1, 2, 4)]
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


def test_labels_of_a_shard_are_those_of_its_rows_in_the_whole():
    X = blobs("poisson")
    family = ef.Poisson(shape=1.0, rate=1.0).bind(X)
    model = ef.MixtureModel(family, ef.SymmetricDirichlet(5))
    kernel = UncollapsedGibbs()
    whole = kernel.init(model, ef.Dataset(X, family), seed=4, start=np.zeros(len(X), dtype=int))
    shard = kernel.init(
        model, ef.Dataset(X[300:], family, row_offset=300), seed=4, start=np.zeros(len(X) - 300, dtype=int)
    )
    whole.draw_parameters()
    shard.Theta, shard.G, shard.log_pi = whole.Theta, whole.G, whole.log_pi
    from expfam.samplers.uncollapsed.dense import draw_labels

    assert (draw_labels(whole, 1)[300:] == draw_labels(shard, 1)).all()


KERNELS = {
    "collapsed": (CollapsedGibbs(), ef.DirichletProcess()),
    "random_order": (CollapsedGibbs(order="random"), ef.PitmanYor(alpha=1.0, discount=0.5)),
    "uncollapsed": (UncollapsedGibbs(), ef.SymmetricDirichlet(12)),
    "truncated": (UncollapsedGibbs(truncation=14), ef.DirichletProcess()),
    "learning": (Cycle(CollapsedGibbs(), UpdateHyper()), ef.DirichletProcess()),
    "mixed": (RandomScan(CollapsedGibbs(), Cycle(UncollapsedGibbs(), UpdateHyper())), ef.SymmetricDirichlet(12)),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("family", ["multinomial", "gaussian", "gaussian_diag", "plain_poisson"])
def test_a_resumed_chain_continues_bit_for_bit(name, family):
    kernel, weights = KERNELS[name]
    X = blobs(family, n=120)
    model = ef.MixtureModel(FAMILIES[family][0], weights)
    rng = np.random.default_rng(3)
    stop = int(rng.integers(1, 8))

    def start():
        return kernel.init(model, X, seed=5, start="random", n_clusters=10 if weights.max_components is None else None)

    straight = start()
    path = [kernel.step(straight)[:5] for _ in range(12)]
    broken = start()
    for _ in range(stop):
        kernel.step(broken)
    arrays = broken.to_arrays()
    resumed = kernel.init(model, broken.data, seed=5, start=np.zeros(len(X), dtype=int))
    resumed.from_arrays(arrays)
    assert [kernel.step(resumed)[:5] for _ in range(12 - stop)] == path[stop:]
    assert (resumed.labels == straight.labels).all()
    assert resumed.log_joint == straight.log_joint


def test_arrays_of_a_state_hold_no_objects():
    kernel, weights = KERNELS["collapsed"]
    state = kernel.init(ef.MixtureModel(FAMILIES["poisson"][0], weights), blobs("poisson"), seed=0)

    def leaves(node):
        for value in node.values():
            yield from leaves(value) if isinstance(value, dict) else [value]

    for leaf in leaves(state.to_arrays()):
        assert isinstance(leaf, np.ndarray)
        assert leaf.dtype.kind in "iufb"
    json.dumps([state.seed, state.n_steps])


def test_fits_do_not_disturb_each_other():
    X = blobs("gaussian_diag", n=200)
    first = ef.Mixture(n_steps=5, random_state=3).fit(X).labels_
    np.random.default_rng().random(10)
    ef.Mixture("gaussian", n_steps=2, random_state=8).fit(X)
    assert (ef.Mixture(n_steps=5, random_state=3).fit(X).labels_ == first).all()


DRAWING = {
    "hyper": (Cycle(CollapsedGibbs(), UpdateHyper()), ef.DirichletProcess()),
    "random order": (CollapsedGibbs(order="random"), ef.DirichletProcess()),
    "parameters": (UncollapsedGibbs(), ef.SymmetricDirichlet(4)),
    "scan": (RandomScan(CollapsedGibbs(), UpdateHyper()), ef.DirichletProcess()),
    "memoized": (SparseVariational(n_active=2, schedule=Memoized(4)), ef.SymmetricDirichlet(4)),
    "stochastic": (SparseVariational(n_active=2, schedule=Stochastic(10)), ef.SymmetricDirichlet(4)),
    "splits": (SplitMerge(n_moves=4, every=1), ef.DirichletProcess()),
    "topics": (TopicGibbs(learn_alpha=True, learn_eta=True, learn_every=1), None),
    "groups": (GroupedGibbs(order="random"), None),
}


@pytest.mark.parametrize("name", DRAWING)
def test_no_two_draws_share_their_random_numbers(name, monkeypatch):
    """Each stream is opened for one draw of one step: none begins again at numbers that were used before."""
    kernel, weights = DRAWING[name]
    X = np.random.default_rng(0).poisson(np.repeat([[1.0, 6.0], [6.0, 1.0]], 15, axis=0))
    if weights is not None:
        model, data = ef.MixtureModel(ef.Poisson(), weights), X
    else:
        family = (ef.Multinomial(0.5) if name == "topics" else ef.Poisson()).bind(X)
        model = ef.AdmixtureModel(family, 3, alpha=0.5)
        data = X if name == "topics" else ef.Dataset(X, family, groups=np.arange(30) // 6)
    state = kernel.init(model, data, seed=3)
    opened, right = [], _rng.generator

    def noted(seed, purpose, unit=0, step=0):
        opened.append((str(getattr(purpose, "name", purpose)).lower(), int(unit), int(step)))
        return right(seed, purpose, unit=unit, step=step)

    for module in [module for key, module in sys.modules.items() if key.startswith("expfam.")]:
        if getattr(module, "generator", None) is right:
            monkeypatch.setattr(module, "generator", noted)
    for _ in range(4):
        kernel.step(state)
    assert len(opened) >= 4
    assert len(set(opened)) == len(opened), f"opened more than once: {sorted(k for k in opened if opened.count(k) > 1)}"


def test_a_restored_state_stores_what_it_was_restored_from():
    """Also what a few steps would not show: how many moves the sums of real data have drifted by."""
    kernel, X = CollapsedGibbs(), blobs("gaussian_diag", n=60)
    state = kernel.init(ef.MixtureModel(FAMILIES["gaussian_diag"][0], ef.DirichletProcess()), X, seed=5, start="random")
    for _ in range(3):
        kernel.step(state)
    arrays = state.to_arrays()
    assert arrays["scalars"][1] > 0
    other = kernel.init(state.model, state.data, seed=5, start=np.zeros(len(X), dtype=int))
    other.from_arrays(arrays)
    for name in ("scalars", "counters", "labels", "slots"):
        np.testing.assert_array_equal(other.to_arrays()[name], arrays[name])
