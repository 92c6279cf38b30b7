"""Data with missing values, NaN, for a family that takes them: every sampler, every start, and what is refused."""

import numpy as np
import pytest
from holes import HoledGaussian, three_clusters
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import get_tags

from expfam import (
    BayesianHierarchy,
    Dataset,
    DiagonalGaussian,
    GroupedMixture,
    Mixture,
    MixtureModel,
    SymmetricDirichlet,
)
from expfam.errors import CapabilityError, DataError
from expfam.samplers import (
    Canopy,
    CollapsedMetropolis,
    CutMoves,
    FastEx,
    HierarchicalClustering,
    NearAnchors,
    PrototypeProposal,
    SplitMerge,
    UncollapsedMetropolis,
    starting_labels,
)

X, LABELS = three_clusters()
SAMPLERS = {name: name for name in (
    "auto", "gibbs", "fastex", "uncollapsed_gibbs", "canopy", "em", "stochastic_em", "variational", "split_merge",
)}  # fmt: skip
SAMPLERS |= {f"canopy {variant}": Canopy(variant=variant) for variant in (1, 2)}
SAMPLERS |= {f"fastex {proposal}": FastEx(proposal) for proposal in ("int8", "hash")}
SAMPLERS |= {"metropolis": UncollapsedMetropolis()}
SAMPLERS |= {"prototype": CollapsedMetropolis(PrototypeProposal(), mode="frozen")}
SAMPLERS |= {
    f"split_merge {name}": SplitMerge(name) for name in ("minsm", "lshsm", "sdds", "rgsm", "random", "mondrian", "auto")
}


def agreement(labels):
    """Rand index over the rows that have a value."""
    return adjusted_rand_score(LABELS[:-1], labels[:-1])


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_finds_clusters_in_data_with_holes(name):
    mixture = Mixture(HoledGaussian(), 3, sampler=SAMPLERS[name], n_steps=20, random_state=0).fit(X)
    assert agreement(mixture.labels_) == 1.0
    assert agreement(mixture.predict(X)) == 1.0
    assert np.isfinite(mixture.score_samples(X)).all()
    assert mixture.score_samples(X)[-1] == pytest.approx(0.0, abs=1e-12)  # no value: probability 1


SEARCHES = {name: sampler for name, sampler in SAMPLERS.items() if name.startswith(("split", "gibbs", "fastex"))}


@pytest.mark.parametrize("name", SEARCHES)
def test_an_open_number_of_clusters_with_holes(name):
    mixture = Mixture(HoledGaussian(), sampler=SEARCHES[name], n_steps=10, random_state=0).fit(X)
    assert agreement(mixture.labels_) > 0.8


@pytest.mark.parametrize("start", ["kmeans++", "kmeans", "tree", "tree_point", "buckets", "variational"])
def test_every_start_takes_holes(start):
    data = Dataset(X, HoledGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(8))
    labels = starting_labels(start, model, data, seed=0, n_clusters=8)
    assert labels.shape == (90,)
    assert agreement(labels) > 0.3


@pytest.mark.parametrize("settings", [{}, {"candidates": "knn"}, {"candidates": "hash"}, {"order": "best"},
                                      {"duplicates": "collapse"}])  # fmt: skip
def test_hierarchies_with_holes(settings):
    hierarchy = BayesianHierarchy(HoledGaussian(), sampler=HierarchicalClustering(**settings)).fit(X)
    assert agreement(hierarchy.labels_) > 0.9
    assert agreement(hierarchy.predict(X)) > 0.9


def test_chunks_and_groups_with_holes():
    mixture = Mixture(HoledGaussian(), 3, sampler="variational", random_state=0)
    for part in np.array_split(X, 3):
        mixture.partial_fit(part)
    assert agreement(mixture.predict(X)) == 1.0
    groups = np.arange(len(X)) % 5
    grouped = GroupedMixture(HoledGaussian(), 3, n_steps=20, random_state=0).fit(X, groups=groups)
    assert agreement(grouped.predict(X, groups=groups)) == 1.0


def test_a_saved_model_takes_holes(tmp_path):
    mixture = Mixture(HoledGaussian(), 3, n_steps=3, random_state=0).fit(X)
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model", trust=True)
    assert np.array_equal(loaded.score_samples(X), mixture.score_samples(X))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused_with_its_place(value):
    bad = X.copy()
    bad[7, 2] = value
    mixture = Mixture(HoledGaussian(), 3, n_steps=2, random_state=0)
    fitted = Mixture(HoledGaussian(), 3, n_steps=2, random_state=0).fit(X)
    found = r"holed_gaussian needs finite values or NaN for missing ones; row 7, column 2 holds -?inf \(infinity\)"
    for call in (mixture.fit, fitted.predict, fitted.score_samples, BayesianHierarchy(HoledGaussian()).fit):
        with pytest.raises(DataError, match=found):
            call(bad)


def test_other_families_refuse_nan_as_before():
    with pytest.raises(ValueError, match="Input X contains NaN"):
        Mixture("gaussian_diag", n_steps=2).fit(X)
    with pytest.raises(DataError, match=r"gaussian_diag needs finite values; row \d+, column \d holds nan"):
        Dataset(X, DiagonalGaussian())


def test_scikit_learn_reads_that_nan_is_allowed():
    assert get_tags(Mixture(HoledGaussian())).input_tags.allow_nan
    assert get_tags(Mixture()).input_tags.allow_nan
    assert not get_tags(Mixture("gaussian_diag")).input_tags.allow_nan


def test_min_hash_refuses_what_may_be_missing():
    sampler = SplitMerge(anchors=NearAnchors(method="minhash"))
    with pytest.raises(CapabilityError, match="never negative and never missing; those of 'holed_gaussian' may be"):
        Mixture(HoledGaussian(), sampler=sampler, n_steps=2).fit(X)


def test_cuts_between_rows_with_holes_have_the_probability_that_they_are_drawn_with():
    rows = np.array([[0.0, np.nan], [1.0, 4.0], [np.nan, 1.0], [3.0, np.nan], [np.nan, np.nan]])
    move, rng, n = CutMoves(), np.random.default_rng(0), 20_000
    sides, times = np.unique([move.draw(rows, rng) for _ in range(n)], axis=0, return_counts=True)
    q = np.exp([move.log_q(rows[side == 0], rows[side == 1]) for side in sides])
    assert q.sum() == pytest.approx(1.0)
    assert np.abs(times / n - q).max() < 4 * np.sqrt(0.25 / n)
