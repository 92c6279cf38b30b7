"""Mixtures of mixed columns with holes: every sampler, chunks, merging, saving, hierarchies and learning."""

import numpy as np
import pytest

from expfam import BayesianHierarchy, Categorical, Columns, DiagonalGaussian, Mixture, Poisson, merge
from expfam.samplers import (
    CollapsedGibbs,
    CollapsedMetropolis,
    FastEx,
    HashProposal,
    Int8Proposal,
    Memoized,
    SparseVariational,
    tuned_family,
)


def table(n_rows=240, *, share=0.15, seed=0):
    """Three clusters of two real columns, a count and two categories, with holes; their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 3
    X = np.column_stack(
        [
            rng.normal(8.0 * labels, 1.0),
            rng.normal(-5.0 * labels, 1.0),
            rng.poisson(np.array([1.0, 15.0, 50.0])[labels]),
            np.where(rng.random(n_rows) < 0.9, labels, rng.integers(0, 3, n_rows)),
            rng.integers(0, 2, n_rows),
        ]
    )
    X[rng.random(X.shape) < share] = np.nan
    return X, labels


def mixed(**options):
    return Columns([(DiagonalGaussian(), (0, 1)), (Poisson(), (2,)), (Categorical(n_levels=[3, 2]), (3, 4))], **options)


def agreement(found, labels):
    """Share of rows in the largest class of their cluster."""
    return sum(np.bincount(labels[found == k]).max() for k in np.unique(found)) / len(labels)


SAMPLERS = {
    "auto": "auto",
    "gibbs": "gibbs",
    "uncollapsed_gibbs": "uncollapsed_gibbs",
    "fastex": "fastex",
    "canopy": "canopy",
    "split_merge": "split_merge",
    "stochastic_em": "stochastic_em",
    "em": "em",
    "variational": "variational",
    "gibbs_random_order": CollapsedGibbs(order="random"),
    "fastex_hash": FastEx("hash"),
    "metropolis_int8": CollapsedMetropolis(Int8Proposal()),
    "metropolis_hash": CollapsedMetropolis(HashProposal()),
}


@pytest.mark.parametrize("missing", ["ignorable", "informative"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_finds_the_clusters_of_a_table_with_holes(name, missing):
    X, labels = table()
    mixture = Mixture(mixed(missing=missing), 6, sampler=SAMPLERS[name], n_steps=20, random_state=0).fit(X)
    assert agreement(mixture.labels_, labels) > 0.9
    assert np.isfinite(mixture.log_joint_)
    assert np.isfinite(mixture.score_samples(X)).all()
    assert agreement(mixture.predict(X), labels) > 0.9


@pytest.mark.parametrize("sampler", ["gibbs", "variational", "uncollapsed_gibbs"])
def test_wide_categories_have_sparse_statistics(sampler):
    X, labels = table()
    X[:, 4] = np.random.default_rng(1).integers(0, 200, len(X))
    family = Columns([(DiagonalGaussian(), (0, 1)), (Poisson(), (2,)), (Categorical(n_levels=[3, 200]), (3, 4))])
    mixture = Mixture(family, 6, sampler=sampler, n_steps=20, random_state=0).fit(X)
    assert hasattr(mixture.family_.sufficient_statistics(X[:2]), "indptr")
    assert agreement(mixture.labels_, labels) > 0.9
    assert np.isfinite(mixture.score_samples(X)).all()


@pytest.mark.parametrize("name", ["gibbs", "variational", "em", "canopy"])
def test_learned_hyper_parameters_stay_within_their_bounds(name):
    X, _ = table()
    mixture = Mixture(mixed(), 4, sampler=name, n_steps=10, learn_hyper=True, random_state=0).fit(X)
    factors = mixture.family_.hyper_factors_
    assert {*factors, "gaussian_diag.alike"} == set(mixture.family_.hyper)
    bound = mixed().bind(X)
    for key, factor in factors.items():
        low, high = bound.hyper_bounds(key)
        assert np.all(factor >= low)
        assert np.all(factor <= high)
        factor = np.repeat(factor, [3, 2]) if np.ndim(factor) else factor  # levels of two columns
        assert np.allclose(getattr(mixture.family_, key), getattr(bound, key) * factor)


# ---- new rows, chunks, merging ---------------------------------------------------------------------------------------


def test_rows_may_lack_what_the_rows_of_the_fit_have():
    X, labels = table(share=0.0)
    holes, _ = table(share=0.3)
    mixture = Mixture(mixed(), 3, sampler="gibbs", n_steps=20, learn_hyper=False, random_state=0).fit(X)
    assert agreement(mixture.predict(holes), labels) > 0.85
    assert np.array_equal(mixture.predict(X), mixture.labels_)
    one = mixture.score_samples(np.where(np.arange(5) == 0, X[:1], np.nan))
    alone = Columns([(DiagonalGaussian(), (0,))]).bind(X[:, :1])
    n, S = mixture.n_, np.ascontiguousarray(mixture.S_[:, [0, 2]])
    scores = alone.log_predictive(X[:1, :1], np.append(n, 0.0), np.vstack([S, np.zeros(2)])) + alone.log_base(X[:1, :1])
    weights = np.append(mixture.weights_, np.exp(mixture.log_weight_new_))
    assert np.allclose(one, np.log(np.exp(scores) @ weights), rtol=1e-9)


@pytest.mark.parametrize("method", ["fit_chunks", "partial_fit"])
def test_chunks_may_lack_cells_that_the_first_chunk_has(method):
    X, labels = table(900, share=0.0)
    X[300:600, 1] = np.nan
    X[700:, 0] = np.nan
    chunks = [X[:300], X[300:600], X[600:]]

    def learned(family):
        mixture = Mixture(family, 6, sampler=SparseVariational(schedule=Memoized(n_batches=3)), random_state=0)
        if method == "fit_chunks":
            return mixture.fit_chunks(chunks)
        for chunk in chunks:
            mixture.partial_fit(chunk)
        return mixture

    assert agreement(learned(mixed()).predict(X), labels) > 0.9
    assert np.array_equal(learned(mixed(holes="any")).predict(X), learned(mixed()).predict(X))


def test_merged_mixtures_of_other_patterns_are_a_fit_to_all():
    X, _ = table(share=0.0)
    X[130:, 0] = np.where(np.random.default_rng(0).random(110) < 0.4, np.nan, X[130:, 0])
    X[:120, 2] = np.where(np.random.default_rng(1).random(120) < 0.4, np.nan, X[:120, 2])
    family = mixed().bind(X[np.random.default_rng(2).permutation(240)[:200]]).with_hyper(**{"poisson.rate": 0.5})
    closed = mixed().bind(table(share=0.0)[0])
    for shared in (family, closed):
        parts = [
            Mixture(shared, 3, sampler="gibbs", n_steps=20, random_state=0).fit(rows) for rows in (X[:120], X[120:])
        ]
        merged = merge(parts, clusters="merged")
        every = merged.family_.bind(X)
        n, S = _statistics(every, X, merged.labels_, len(merged.n_))
        assert np.array_equal(merged.n_, n)
        assert np.allclose(merged.family_.log_marginal(merged.n_, merged.S_), every.log_marginal(n, S), rtol=1e-10)


def _statistics(family, X, labels, n_clusters):
    from expfam import Dataset

    return Dataset(X, family).statistics(labels, n_clusters)


# ---- files, trees, tuning --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["ignorable", "informative"])
def test_saved_mixtures_score_to_the_bit(tmp_path, missing):
    X, _ = table()
    mixture = Mixture(mixed(missing=missing), 4, sampler="gibbs", n_steps=10, random_state=0).fit(X)
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    assert loaded.family_ == mixture.family_
    assert np.array_equal(loaded.score_samples(X), mixture.score_samples(X))


def test_hierarchies_of_tables():
    X, labels = table(120)
    tree = BayesianHierarchy(mixed(), random_state=0).fit(X)
    assert agreement(tree.labels_, labels) > 0.9
    assert np.isfinite(tree.score_samples(table(30, share=0.5, seed=3)[0])).all()


@pytest.mark.filterwarnings("ignore:.*lies at the edge of the grid")
def test_parts_are_tuned_one_after_the_other():
    X, _ = table(90)
    family = Columns([(DiagonalGaussian(), (0, 1)), (DiagonalGaussian(), (2,)), (Categorical(), (3, 4))]).bind(X)
    tuned = tuned_family(family, X, subsample=60, seed=0)
    changed = [name for name in family.hyper if not np.array_equal(getattr(tuned, name), getattr(family, name))]
    assert {name.partition(".")[0] for name in changed} <= {"gaussian_diag", "gaussian_diag_2", "categorical"}
    assert changed


def test_samples_of_a_table_are_whole_rows():
    X, _ = table()
    mixture = Mixture(mixed(), 3, sampler="gibbs", n_steps=10, random_state=0).fit(X)
    rows, found = mixture.sample(500)
    assert np.isfinite(rows).all()
    assert set(np.unique(rows[:, 4])) <= {0.0, 1.0}
    assert agreement(mixture.predict(rows), found) > 0.9


# ---- invariances -----------------------------------------------------------------------------------------------------


def test_order_of_columns_and_units_change_no_label():
    X, _ = table()
    first = Mixture(mixed(), 6, sampler="gibbs", n_steps=10, random_state=0).fit(X)
    order = [4, 2, 0, 3, 1]
    family = Columns([(DiagonalGaussian(), (2, 4)), (Poisson(), (1,)), (Categorical(n_levels=[3, 2]), (3, 0))])
    other = Mixture(family, 6, sampler="gibbs", n_steps=10, random_state=0, start=first.labels_ % 3).fit(X[:, order])
    same = Mixture(mixed(), 6, sampler="gibbs", n_steps=10, random_state=0, start=first.labels_ % 3).fit(X)
    assert np.array_equal(other.labels_, same.labels_)
    scaled = X * [1000.0, 1, 1, 1, 1] + [5.0, 0, 0, 0, 0]
    assert np.array_equal(
        Mixture(mixed(), 6, sampler="gibbs", n_steps=10, random_state=0, start=first.labels_ % 3).fit(scaled).labels_,
        same.labels_,
    )


def test_opening_before_the_fit_changes_no_label():
    X, _ = table()
    start = np.arange(len(X)) % 5
    bound = mixed().bind(X)
    found = [
        Mixture(family, 6, sampler="gibbs", n_steps=10, learn_hyper=False, random_state=0, start=start).fit(X)
        for family in (bound, bound.opened(), mixed(holes="any"))
    ]
    for other in found[1:]:
        assert np.array_equal(other.labels_, found[0].labels_)
        assert np.allclose(other.score_samples(X), found[0].score_samples(X), rtol=1e-10)


def test_narrow_floats_give_the_same_labels():
    X, _ = table()
    X[:, :2] = X[:, :2].astype(np.float32)
    found = [Mixture(mixed(), 4, sampler="gibbs", n_steps=10, random_state=0).fit(X.astype(kind)) for kind in "fd"]
    assert np.array_equal(found[0].labels_, found[1].labels_)
