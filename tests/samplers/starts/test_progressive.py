"""Greedy merges are those of the plain search; starts by division find clusters and merge none that differ."""

import numpy as np
import pytest
from scipy import sparse
from tiny import FAMILIES, WEIGHTS

from expfam import (
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    MixtureModel,
    Multinomial,
    Poisson,
    SphericalGaussian,
    SymmetricDirichlet,
)
from expfam.errors import CapabilityError
from expfam.families.components import Components
from expfam.samplers import CollapsedGibbs, FastEx, Kernel, Progressive, merged_labels, starting_labels
from expfam.samplers.starts.greedy_merge import near_clusters
from expfam.samplers.warm_starts.progressive import _Division

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")


def clusters(N, K, *, d=8, separation=3.0, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(K, size=N)
    return rng.normal(scale=separation, size=(K, d))[z] + rng.normal(size=(N, d)), z


def bound(X, family=None, weights=None):
    data = Dataset(X, family or DiagonalGaussian())
    return MixtureModel(data.family, weights or DirichletProcess()), data


def same_partition(a, b):
    pairs = len(set(zip(a.tolist(), b.tolist())))
    return pairs == len(set(a.tolist())) == len(set(b.tolist()))


# ---- merges ------------------------------------------------------------------------------------------------------


def plain_merges(model, data, labels, n_clusters=None):
    """The pair whose merge leaves the highest log joint, by the model's definition, while it rises."""
    labels = np.array(labels)
    while (names := np.unique(labels)).size > 1:
        now = model.log_joint(data, labels)
        tried = [np.where(labels == b, a, labels) for i, a in enumerate(names) for b in names[i + 1 :]]
        values = [model.log_joint(data, z) for z in tried]
        must = n_clusters is not None and names.size > n_clusters
        if max(values) <= now and not must and np.isfinite(now):
            break
        labels = tried[int(np.argmax(values))]
    return labels


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", FAMILIES)
def test_merges_are_those_of_the_plain_search(name, weights):
    family, X = FAMILIES[name]
    model, data = bound(X, family, WEIGHTS[weights])
    for start in (np.arange(5), np.array([0, 1, 1, 2, 0])):
        if weights == "dirichlet_3" and start.max() > 2:
            continue  # more clusters than components: no log joint to compare before the first merges
        for n_clusters in (None, 1, 2):
            found = merged_labels(model, data, start, n_clusters=n_clusters)
            plain = plain_merges(model, data, start, n_clusters)
            # a row without values fits every cluster alike
            is_tie = model.log_joint(data, found) == pytest.approx(model.log_joint(data, plain), abs=1e-12)
            assert same_partition(found, plain) or (family.allows_missing and is_tie)


def test_merges_stop_at_the_components_of_finite_weights():
    X, _ = clusters(40, 8, separation=30.0)
    model, data = bound(X, weights=SymmetricDirichlet(3))
    labels = merged_labels(model, data, np.arange(40))
    assert labels.max() == 2


def test_merges_never_lower_the_log_joint():
    X, _ = clusters(300, 6, separation=1.0)
    model, data = bound(X)
    rng = np.random.default_rng(0)
    for K in (1, 2, 20, 150):
        start = rng.integers(K, size=300)
        assert model.log_joint(data, merged_labels(model, data, start)) >= model.log_joint(data, start)


def test_merges_with_near_clusters_alone_find_what_all_pairs_find():
    X, z = clusters(1500, 20, separation=4.0)
    model, data = bound(X)
    pieces = 20 * np.arange(1500) // 1500 * 100 + z  # three hundred or so
    assert np.unique(pieces).size > 250
    found = merged_labels(model, data, pieces, n_compared=100)
    assert same_partition(found, z)
    assert same_partition(
        merged_labels(model, data, pieces, n_compared=30, n_clusters=7), merged_labels(model, data, found, n_clusters=7)
    )


def test_what_has_to_be_merged_is_merged_where_no_near_cluster_is_left():
    X, _ = clusters(300, 3, separation=0.0)
    X = np.concatenate([X, X + 1e4])
    pieces = np.arange(600) // 6  # hundred clusters in two far groups, whose near ones are in their own
    model, data = bound(X, weights=SymmetricDirichlet(1))
    assert merged_labels(model, data, pieces, n_compared=1).max() == 0
    model, data = bound(X)
    assert merged_labels(model, data, pieces, n_compared=1, n_clusters=1).max() == 0


def test_near_clusters_are_symmetric_and_near():
    X, z = clusters(900, 90, separation=4.0)
    _, data = bound(X)
    near = near_clusters(data, z)
    assert all(k in near[other] for k, others in enumerate(near) for other in others)
    assert all(k not in others for k, others in enumerate(near))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    means = np.stack([Z[z == k].mean(axis=0) for k in range(90)])
    distance = ((means[:, None] - means) ** 2).sum(axis=2)
    for k in range(90):
        assert set(np.argsort(distance[k])[1:33]) <= set(near[k])


def test_copies_of_clusters_are_joined_again():
    X, z = clusters(600, 5, separation=4.0)
    model, data = bound(X)
    copies = z * 4 + np.arange(600) % 4
    assert same_partition(merged_labels(model, data, copies), z)


# ---- progressive -------------------------------------------------------------------------------------------------


def test_separated_clusters_are_found_whatever_the_number_of_rows_at_a_time():
    X, z = clusters(3000, 12, separation=4.0)
    model, data = bound(X)
    for n_rows in (None, 300, 3000, 10**6):
        assert same_partition(Progressive(n_rows=n_rows).labels(model, data, seed=1), z)


def test_the_truths_log_joint_is_passed_where_gibbs_sweeps_stay_behind():
    X, z = clusters(6000, 40, separation=1.5, d=16)
    model, data = bound(X)
    truth = model.log_joint(data, z)
    kernel, found = CollapsedGibbs(), {}
    for start in ("kmeans++", "progressive"):
        state = kernel.init(model, data, seed=0, start=start)
        for _ in range(6):
            kernel.step(state)
        found[start] = state.log_joint
    one = model.log_joint(data, np.zeros(6000, dtype=int))
    assert (truth - found["progressive"]) < 1e-3 * (truth - one) < (truth - found["kmeans++"])


def test_small_clusters_that_no_sample_shows_are_found_by_region():
    X, z = clusters(6000, 150, separation=2.0, d=16)
    model, data = bound(X)
    start = Progressive(n_rows=400)
    truth, one = model.log_joint(data, z), model.log_joint(data, np.zeros(6000, dtype=int))
    division = _Division(start, model, data, 1, None)
    order = np.random.default_rng(0).permutation(6000)
    coarse = model.log_joint(data, division.divide_all([order]))
    assert division.finer(np.zeros(6000, dtype=int), division.regions(order)[0]) > 5
    assert not division.finer(z, division.regions(order)[0])
    found = model.log_joint(data, start.labels(model, data, seed=0))
    assert truth - found < 0.1 * (truth - max(coarse, one))
    by_region = model.log_joint(data, division.divide_all(division.regions(order)))
    assert by_region > max(coarse, one)  # what families get that variational passes do not serve


def test_overlapping_clusters_are_merged_before_sweeps_scatter_them():
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(6)), axis=2).reshape(-1, 2)
    z = rng.integers(36, size=9000)
    X = grid[z] + 0.2 * rng.normal(size=(9000, 2))
    model, data = bound(X)
    found = model.log_joint(data, starting_labels("progressive", model, data, seed=0))
    one, truth = (model.log_joint(data, labels) for labels in (np.zeros_like(z), z))
    assert found - one > 0.7 * (truth - one)


def test_sparse_counts():
    rng = np.random.default_rng(4)
    z = np.arange(2500) % 5
    X = sparse.csr_array(rng.poisson(np.where(np.arange(40)[None] % 5 == z[:, None], 3.0, 0.05)))
    for family in (Multinomial(concentration=0.3), Poisson()):
        model, data = bound(X, family)
        assert same_partition(Progressive(n_rows=500).labels(model, data, seed=0), z)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_all_weights_and_limits(weights):
    X, z = clusters(500, 3, separation=8.0)
    model, data = bound(X, weights=WEIGHTS[weights])
    start = Progressive(n_rows=100)
    assert same_partition(start.labels(model, data, seed=0), z)
    assert start.labels(model, data, seed=0, n_clusters=2).max() == 1
    assert starting_labels(start, model, data, seed=0, n_clusters=1).max() == 0


def test_a_family_of_one_scale_that_overflows_the_components():
    X, _ = clusters(400, 9, separation=10.0)
    model, data = bound(X, SphericalGaussian(variance=1.0), SymmetricDirichlet(4))
    assert Progressive(n_rows=100).labels(model, data, seed=0).max() == 3


def test_the_same_bits_for_any_threads_and_for_the_same_seed():
    X, _ = clusters(3000, 30, separation=1.5)
    model, data = bound(X)
    start = Progressive(n_rows=300)
    first = start.labels(model, data, seed=3)
    np.testing.assert_array_equal(first, start.labels(model, data, seed=3, n_threads=2))
    assert not np.array_equal(first, start.labels(model, data, seed=4))


def test_the_others_join_the_cluster_of_highest_predictive():
    X, z = clusters(200, 3, separation=2.0)
    X = np.concatenate([X, [[500.0] * 8]])  # fits none of them
    model, data = bound(X)
    division = _Division(Progressive(), model, data, 0, None)
    few, others = division.part(np.arange(60)), division.part(np.arange(60, 201))
    joined = division.joined(few, z[:60], others)
    components = Components(model.family, others, 4)
    components.load(*few.statistics(z[:60], 3))
    n = np.bincount(z[:60], minlength=3)
    expected = [
        np.argmax(components.log_predictive(i, np.arange(4)) + np.log([*n, model.weights.alpha])) for i in range(141)
    ]
    np.testing.assert_array_equal(joined, expected)
    assert joined[-1] == 3
    assert (joined[:-1] == z[60:]).mean() > 0.9


@pytest.mark.filterwarnings("ignore:.*constant")
@pytest.mark.parametrize("N", [1, 2, 3, 17])
def test_few_and_equal_rows(N):
    model, data = bound(np.ones((N, 2)), SphericalGaussian(variance=1.0))
    labels = starting_labels("progressive", model, data, seed=0)
    assert labels.shape == (N,)
    assert not labels.any()
    model, data = bound(np.arange(2.0 * N).reshape(N, 2) * 100, SphericalGaussian(variance=1.0))
    assert Progressive(n_rows=2).labels(model, data, seed=0).max() <= N - 1


def test_the_kernel_of_the_few_rows_is_a_setting():
    class Watched(Kernel):
        state_type = CollapsedGibbs.state_type
        sizes = []  # noqa: RUF012

        def init_state(self, model, data, labels, *, seed):
            return CollapsedGibbs().init_state(model, data, labels, seed=seed)

        def move(self, state):
            self.sizes.append(state.data.n_rows)
            return 1, 0, {}

    X, z = clusters(900, 3, separation=9.0)
    kernel = FastEx()
    state = kernel.init(
        MixtureModel(DiagonalGaussian(), DirichletProcess()), X, seed=0, start=Progressive(kernel=Watched(), n_rows=200)
    )
    assert Watched.sizes[:2] == [200, 200]
    assert max(Watched.sizes) <= 200
    assert same_partition(state.labels, z)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_rows": 0}, "n_rows .* got 0"),
        ({"steps": 1.5}, "steps .* got 1.5"),
        ({"max_rounds": True}, "got True"),
        ({"tol": -1.0}, "tol .* got -1.0"),
    ],
)
def test_unusable_settings_are_named(settings, words):
    model, data = bound(np.arange(3.0)[:, None], SphericalGaussian(variance=1.0))
    with pytest.raises(ValueError, match=words):
        Progressive(**settings).labels(model, data, seed=0)


def test_the_inner_kernel_is_checked_first():
    from expfam.samplers import CollapsedMetropolis, TableProposal

    model, data = bound(*clusters(50, 2)[:1])
    start = Progressive(kernel=CollapsedMetropolis(TableProposal(), mode="frozen"))
    with pytest.raises(CapabilityError):
        start.labels(model, data, seed=0)


# ---- buckets -----------------------------------------------------------------------------------------------------


def test_buckets_are_sides_of_planes_through_the_middle():
    X, z = clusters(400, 2, separation=50.0)
    model, data = bound(X + 1e4)
    labels = starting_labels("buckets", model, data, seed=0, n_clusters=8)
    assert 2 <= labels.max() + 1 <= 8
    assert (np.bincount(labels) > 0).all()
    # two far clusters on opposite sides of the mean: no plane through the middle cuts one of them
    assert all(len(set(z[labels == k])) == 1 for k in range(labels.max() + 1))
    assert not starting_labels("buckets", model, data, seed=0, n_clusters=1).any()
    np.testing.assert_array_equal(labels, starting_labels("buckets", model, data, seed=0, n_clusters=15, n_threads=2))
    assert starting_labels("buckets", model, data, seed=0).max() + 1 <= 20  # the default: sqrt N
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(labels, starting_labels("buckets", model, data, seed=1, n_clusters=8))


def test_buckets_of_sparse_counts():
    X = sparse.random_array((300, 500), density=0.05, rng=np.random.default_rng(0), data_sampler=None)
    X.data = np.ceil(10 * X.data)
    model, data = bound(X.tocsr(), Multinomial(concentration=0.1))
    labels = starting_labels("buckets", model, data, seed=0, n_clusters=16)
    assert 8 <= labels.max() + 1 <= 16
