"""Bounds that leave out pairs: they hold and are narrow, and the merges are those of all scores."""

import numpy as np
import pytest
from instruction_sets import SETS, output_under

from expfam import Dataset, DiagonalGaussian, DirichletProcess, LogNormal, MixtureModel, SphericalGaussian
from expfam.samplers import HierarchicalClustering
from expfam.samplers.hierarchy import kernel as hierarchy
from expfam.samplers.hierarchy.bounded_pairs import BoundedPartners
from expfam.samplers.hierarchy.pairs import AllPartners
from expfam.structures import MergeQueue, WardPartners


def blobs(n, d, *, n_clusters=6, spread=5.0, seed=0):
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=(n_clusters, d))[rng.integers(n_clusters, size=n)] + rng.normal(size=(n, d))


def outliers(n, d, *, far):
    X = blobs(n, d)
    X[::37] *= far
    return X


ROWS = {
    "groups": blobs(300, 5),
    "one column": blobs(300, 1),
    "seventeen columns": blobs(200, 17),
    "noise": blobs(300, 8, n_clusters=1),
    "single precision": blobs(300, 4).astype(np.float32),
    "units": blobs(250, 3) * [1e-9, 1.0, 1e9] + [1.0, 1e6, -1e11],
    "outliers": outliers(260, 4, far=20.0),
    "rounded": blobs(300, 3).round(1),
    "two sizes": np.concatenate([blobs(150, 4), 0.01 * blobs(150, 4, seed=1)]),
}
FAMILIES = {
    "auto": DiagonalGaussian(),
    "own strengths": DiagonalGaussian(mean_strength=0.03, shape=4.0),
    "far prior": DiagonalGaussian(mean=30.0, mean_strength=2.0, rate=0.5),
}


def problem(rows, family=None):
    data = Dataset(rows, family or DiagonalGaussian())
    return MixtureModel(data.family, DirichletProcess()).bind(data), data


def grown(model, data, *, n_merges=None, **settings):
    kernel = HierarchicalClustering(**settings)
    state = kernel.init(model, data)
    while (n_merges is None or len(state.children) < n_merges) and state.merge():
        pass
    return state


def slack_of(state):
    """How far bounds are above the scores, of each pair of live clusters."""
    slack = []
    for k in state.queue.slots.tolist():
        slots, upper = state.partners.upper(k)
        if len(slots):
            slack.append(upper - state.partners.score(k, slots))
    return np.concatenate(slack)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("order", ["odds", "odds_size"])
def test_bounds_hold_and_are_narrow_at_every_size(name, family, order):
    model, data = problem(ROWS[name], FAMILIES[family])
    for share in (0.0, 0.5, 0.9, 0.99):
        state = grown(model, data, order=order, n_merges=int(share * data.n_rows))
        assert isinstance(state.partners, BoundedPartners) == (name != "units" or family != "far prior")
        if isinstance(state.partners, BoundedPartners):
            slack = slack_of(state)
            assert slack.min() >= 0.0, (share, slack.min())
            assert np.median(slack) < 0.2, (share, np.median(slack))


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("n_kept", [1, 8, 40])
def test_merges_are_those_of_all_scores_to_the_bit(name, n_kept, monkeypatch):
    model, data = problem(ROWS[name])
    for order in ("odds", "odds_size"):
        bounded = grown(model, data, order=order, n_kept=n_kept)
        with monkeypatch.context() as context:
            context.setattr(hierarchy, "all_partners", AllPartners)
            plain = grown(model, data, order=order, n_kept=n_kept)
        assert isinstance(bounded.partners, BoundedPartners)
        assert isinstance(plain.partners, AllPartners)
        assert bounded.children == plain.children
        assert bounded.log_block == plain.log_block
        if n_kept < 40:  # longer lists are made of all scores
            assert bounded.n_scores < 0.5 * plain.n_scores


def test_many_rows_cost_few_scores():
    model, data = problem(blobs(3000, 10, n_clusters=20))
    assert grown(model, data).n_scores < 0.03 * data.n_rows**2


@pytest.mark.parametrize("name", ["groups", "rounded", "outliers"])
def test_a_search_goes_on_from_its_arrays(name):
    model, data = problem(ROWS[name])
    kernel = HierarchicalClustering(n_merges=40, n_threads=2)
    whole, state = grown(model, data), kernel.init(model, data)
    while kernel.step(state).accepted:
        state.check()
        other = kernel.init(model, data)
        other.from_arrays(state.to_arrays())
        assert isinstance(other.partners, BoundedPartners)
        state = other
    assert state.children == whole.children
    assert state.log_block == whole.log_block


def test_rows_beyond_single_precision_are_scored_in_double():
    assert isinstance(grown(*problem(outliers(260, 4, far=1e6), DiagonalGaussian(rate=1e-3))).partners, AllPartners)
    assert isinstance(grown(*problem(ROWS["groups"], SphericalGaussian())).partners, AllPartners)
    different = DiagonalGaussian(shape=np.array([1.0, 2.0, 2.0, 2.0, 2.0]))
    assert isinstance(grown(*problem(ROWS["groups"], different)).partners, AllPartners)
    alike = DiagonalGaussian(alike=np.array([True, False, False, False, False]))
    assert isinstance(grown(*problem(ROWS["groups"], alike)).partners, AllPartners)


def test_leaves_of_several_rows_and_of_logarithms():
    model, data = problem(np.exp(ROWS["groups"]), LogNormal())
    kernel = HierarchicalClustering()
    state = kernel.init(model, data, start=np.arange(data.n_rows) // 3)
    while state.n_clusters > 2:
        assert state.merge()
        assert slack_of(state).min() >= 0.0
    assert isinstance(state.partners, BoundedPartners)


# ---- Ward's criterion ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_bounds_of_wards_scores(name):
    center = np.array(ROWS[name], dtype=np.float64)
    size = np.random.default_rng(0).integers(1, 5, len(center)).astype(float)
    partners = WardPartners(center, size=size)
    queue = MergeQueue(len(center), partners)
    while queue.n_live > 3:
        if queue.n_live in (len(center), len(center) // 2, len(center) // 10, 4):
            check_ward_bounds(partners, center, size, queue.slots)
        k, l, _ = queue.best()
        center[k] = (size[k] * center[k] + size[l] * center[l]) / (size[k] + size[l])
        size[k] += size[l]
        partners.absorb(k, l)
        queue.merge(k, l)


def check_ward_bounds(partners, center, size, live):
    for place, k in enumerate(live.tolist()):
        slots, upper = partners.upper(k)
        assert np.array_equal(slots, live[:place])
        weight = size[k] * size[slots] / (size[k] + size[slots])
        scores = -weight * ((center[slots] - center[k]) ** 2).sum(axis=1)
        assert (upper >= scores).all()
        far = scores < 1e-5 * np.ptp(center, axis=0).max() ** 2 * -weight
        assert (upper[far] <= 0.999 * scores[far]).all()


@pytest.mark.parametrize("name", ROWS)
def test_wards_merges_are_those_of_all_scores_to_the_bit(name):
    X = np.array(ROWS[name], dtype=np.float64)
    size = np.ones(len(X))
    found = []
    for factor in (1.0, 2.0**-80):  # too small for bounds; the scores are those of 1, times this power of 2
        partners = WardPartners(X, size=factor * size)
        queue = MergeQueue(len(X), partners)
        children, scores = queue.run(partners.absorb)
        found.append((children.tolist(), (scores / factor).tolist(), queue.n_scores))
    assert found[0][:2] == found[1][:2]
    assert found[0][2] < 0.5 * found[1][2]


# ---- instruction sets ------------------------------------------------------------------------------------------------

TREES = """
import hashlib
import numpy as np
from test_bounded_pairs import ROWS, grown, problem, slack_of
from expfam.structures import MergeQueue, WardPartners

found = hashlib.sha256()
for name in ("groups", "seventeen columns", "outliers"):
    model, data = problem(ROWS[name])
    half = grown(model, data, n_merges=data.n_rows // 2)
    assert slack_of(half).min() >= 0.0
    state = grown(model, data)
    partners = WardPartners(data.X)
    children, scores = MergeQueue(data.n_rows, partners).run(partners.absorb)
    found.update(np.array(state.children).tobytes() + children.tobytes())
print(found.hexdigest())
"""


def test_every_instruction_set_makes_the_same_trees():
    assert len({output_under(isa, TREES, file=__file__) for isa in SETS}) == 1
