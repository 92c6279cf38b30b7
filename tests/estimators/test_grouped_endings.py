"""Default fits of rows in groups are not below simple partitions, each moved to its own mode."""

import numpy as np
import pytest
from count_shapes import (
    binary,
    codes_of_noise,
    overdispersed,
    poisson_blob,
    strains,
    strong_count,
    table_of_noise,
    telling_category,
    words,
)
from dominance import tolerance
from grouped_dominance import best_numbered, judge_groups
from scipy import sparse

from expfam import AdmixtureModel, Dataset, GroupedMixture, load_family
from expfam.fitting.grouped_endings import grouped_ending, slots_joined
from expfam.samplers import GroupedGibbs
from expfam.samplers.grouped.ascent import ascend_groups, counts_of_groups
from expfam.samplers.grouped.merges import merged_slots

N = 400
FAMILIES = ["poisson", "negative_binomial", "geometric", "bernoulli", "multinomial", "categorical", "gaussian_diag"]


def leaning(truth, seed):
    """Groups of about 25 rows, most of them with rows of one kind."""
    rng, n = np.random.default_rng(seed), len(truth)
    n_groups, kinds = n // 25, truth.max() + 1
    own = (rng.integers(0, n_groups // kinds, n) * kinds + truth) % n_groups
    groups = np.where(rng.random(n) < 0.8, own, rng.integers(0, n_groups, n))
    return np.unique(groups, return_inverse=True)[1]


def mixed(truth, seed):
    """Groups of about 25 rows of all kinds."""
    return np.unique(np.random.default_rng(seed).integers(0, len(truth) // 25, len(truth)), return_inverse=True)[1]


@pytest.mark.parametrize("grouped", [leaning, mixed])
@pytest.mark.parametrize("K", [None, 10])
@pytest.mark.parametrize(
    ("family", "make"),
    [
        ("poisson", strong_count(N, 30)),
        ("negative_binomial", strong_count(N, 30)),
        ("geometric", overdispersed(N, 30, 2)),
        ("poisson", poisson_blob(N, 5)),
        ("multinomial", words(N, 8, 40, 100)),
        ("poisson", words(N, 8, 40, 100)),
        ("categorical", binary(N)),
        ("categorical", codes_of_noise(N, 6)),
        ("bernoulli", strains(N, 6, 60)),
        ("auto", telling_category(N)),
    ],
)
def test_default_fits_are_not_below_simple_partitions(family, make, K, grouped):
    for seed in (0, 1):
        X, truth = make(seed)
        groups = grouped(truth, seed)
        mixture = GroupedMixture(family, K or truth.max() + 1, random_state=seed).fit(X, groups=groups)
        judgement = judge_groups(mixture, X, groups, truth=truth, seed=seed)
        assert judgement.below <= tolerance(N), judgement


@pytest.mark.parametrize("grouped", [leaning, mixed])
def test_tables_of_noise_are_not_below_simple_partitions(grouped):
    X, truth = table_of_noise(N)(1)
    for K in (1, 10):
        mixture = GroupedMixture("auto", K, random_state=1).fit(X, groups=grouped(truth, 1))
        judgement = judge_groups(mixture, X, grouped(truth, 1), truth=truth)
        assert judgement.below <= tolerance(N), judgement


def test_counts_as_csr_end_as_the_dense_ones_do():
    X, truth = words(N, 8, 40, 100)(1)
    groups = mixed(truth, 1)
    dense = GroupedMixture("multinomial", 8, random_state=0).fit(X, groups=groups)
    rows = GroupedMixture("multinomial", 8, random_state=0).fit(sparse.csr_array(X), groups=groups)
    np.testing.assert_array_equal(dense.labels_, rows.labels_)
    np.testing.assert_allclose(rows.group_counts_.toarray().sum(axis=1), np.bincount(groups))


def test_random_clusters_start_where_only_the_groups_tell():
    """A row is one draw from ten categories: rows alone tell nothing, groups of 50 rows do."""
    rng = np.random.default_rng(0)
    kind = np.repeat(np.arange(40) % 2, 50)
    X = (rng.integers(0, 5, 2000) + 5 * kind)[:, None]
    mixture = GroupedMixture("categorical", 2, random_state=0).fit(X, groups=np.repeat(np.arange(40), 50))
    assert (mixture.group_weights_.max(axis=1) > 0.9).all()
    assert len(np.unique(mixture.labels_ * 2 + kind)) == 2


def tiny(name, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (60, 4)) + 4 * (np.arange(60) % 3 == 0)[:, None]
    X = X > 1 if name == "bernoulli" else X + rng.random(X.shape) if name == "gaussian_diag" else X + 1
    data = Dataset(X, load_family(name), groups=rng.integers(0, 6, 60))
    return data, AdmixtureModel(data.family, 5, alpha=[0.1, 0.2, 0.3, 1.0, 2.0]), rng.integers(0, 5, 60)


@pytest.mark.parametrize("name", FAMILIES)
def test_ascents_and_merges_end_where_nothing_gains(name):
    for seed in range(3):
        data, model, labels = tiny(name, seed)
        risen = ascend_groups(model, data, labels)
        np.testing.assert_array_equal(risen, ascend_groups(model, data, labels, n_threads=2))
        assert model.log_joint(data, risen) >= model.log_joint(data, labels)
        home = merged_slots(model, data, labels)
        merged = home[labels]
        assert model.log_joint(data, merged) > model.log_joint(data, labels)
        every = [
            model.log_joint(data, np.where(merged == b, a, merged))
            for a in np.unique(merged)
            for b in np.unique(merged)
        ]
        assert max(every) <= model.log_joint(data, merged) + 1e-6


def test_a_better_division_is_taken_and_the_chain_is_kept_where_none_is():
    X, truth = words(N, 4, 40, 100)(0)
    data = Dataset(X, load_family("multinomial"), groups=mixed(truth, 0))
    model = AdmixtureModel(data.family, 4, alpha=0.5)
    two = ascend_groups(model, data, np.minimum(truth, 1))  # three of the four
    better = grouped_ending(model, data, two, seed=0, n_threads=None)
    assert better.name != "chain"
    kept = grouped_ending(model, data, better.labels, seed=0, n_threads=None)
    assert kept.name == "chain"
    np.testing.assert_array_equal(kept.labels, better.labels)
    assert model.log_joint(data, better.labels) >= model.log_joint(data, best_numbered(model, data, truth))


def test_statistics_are_those_of_the_clusters_of_the_labels():
    X, truth = codes_of_noise(N, 6)(0)
    mixture = GroupedMixture("categorical", 10, random_state=0).fit(X, groups=leaning(truth, 0))
    assert mixture.n_.argmax() == np.bincount(mixture.labels_).argmax()
    assert mixture.n_.sum() == pytest.approx(N)
    np.testing.assert_allclose(mixture.group_counts_.sum(axis=0), mixture.n_)
    data = Dataset(X, mixture.family_, groups=leaning(truth, 0))
    model = AdmixtureModel(mixture.family_, 10, mixture.alpha_)
    assert mixture.log_joint_ == pytest.approx(model.log_joint(data, mixture.labels_))
    one = max(model.log_joint(data, np.full(N, k, dtype=np.int32)) for k in range(10))
    assert mixture.log_joint_ >= one - tolerance(N)  # rounding decides whether it is one of ten clusters, or two


def test_a_bad_start_is_left():
    """Sweeps hardly leave two of eight topics; the run begins again from the division that is better."""
    X, truth = words(N, 8, 40, 100)(1)
    groups = mixed(truth, 1)
    mixture = GroupedMixture("multinomial", 8, start=np.minimum(truth, 1), random_state=0).fit(X, groups=groups)
    assert judge_groups(mixture, X, groups, truth=truth).below <= tolerance(N)
    short = GroupedMixture("multinomial", 8, start=np.minimum(truth, 1), n_steps=0, n_warmup=0, random_state=0)
    short.fit(X, groups=groups)
    assert short.n_iter_ == 0
    np.testing.assert_allclose(short.n_, np.bincount(short.labels_, minlength=8))


def test_counts_of_groups_are_those_of_the_state():
    data, model, labels = tiny("poisson", 0)
    state = GroupedGibbs().init(model, data, seed=0, start=labels)
    np.testing.assert_array_equal(counts_of_groups(data, labels, 5), state.group_counts().toarray())
    np.testing.assert_array_equal(
        slots_joined(np.array([0, 0]), sparse.csr_array(np.eye(2)))[0].toarray(), [[1, 1], [0, 0]]
    )
