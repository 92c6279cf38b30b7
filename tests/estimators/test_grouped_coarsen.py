"""Fewer clusters of a mixture of rows in groups."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import GroupedMixture
from expfam.errors import DataError


def twins(seed=0, n=480):
    """Rows of three places, each with two forms that overlap; groups differ in what they hold."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n) % 8
    shares = rng.dirichlet(np.full(3, 0.7), size=8)
    place = np.array([rng.choice(3, p=shares[group]) for group in groups])
    form = rng.integers(0, 2, size=n)
    X = rng.normal(size=(n, 2)) * np.where(form == 0, 0.5, 2.0)[:, None]
    return X + 30.0 * place[:, None], groups, place


@pytest.fixture(scope="module", params=[None, 9])
def fitted(request):
    X, groups, place = twins()
    return GroupedMixture("gaussian_diag", request.param, random_state=0).fit(X, groups=groups), X, groups, place


def test_no_division_of_the_rows_is_named_twice(fitted):
    mixture = fitted[0]
    curve = mixture.coarsening_curve_
    peaks = curve.peaks(len(mixture.n_))
    assert len({n_groups for _, n_groups, _ in peaks}) == len(peaks)
    divisions = [curve.home(tree, n_groups)[mixture.labels_].tolist() for tree, n_groups, _ in peaks]
    assert all(
        adjusted_rand_score(one, other) < 1.0 for at, one in enumerate(divisions) for other in divisions[at + 1 :]
    )
    assert peaks[0] == (curve.tree, curve.n_clusters, curve.score[curve.tree][curve.n_clusters - 1])


def test_clusters_of_all_groups_are_merged_together(fitted):
    mixture, X, groups, place = fitted
    K = len(mixture.n_)
    assert K > 3
    coarse = mixture.coarsen(n_clusters=3)
    assert adjusted_rand_score(place, coarse.labels_) == 1.0
    home = np.array([coarse.labels_[mixture.labels_ == k][0] if (mixture.labels_ == k).any() else -1 for k in range(K)])
    for k in range(3):
        part = home == k
        assert coarse.alpha_[k] >= mixture.alpha_[part].sum() - 1e-9
        assert coarse.cluster_sizes_[k] == mixture.cluster_sizes_[part].sum()
    assert coarse.n_.sum() == pytest.approx(mixture.n_.sum())
    assert coarse.alpha_.sum() == pytest.approx(mixture.alpha_.sum())
    np.testing.assert_allclose(coarse.S_.sum(axis=0), mixture.S_.sum(axis=0), atol=1e-6)
    np.testing.assert_allclose(coarse.group_counts_.sum(axis=1), mixture.group_counts_.sum(axis=1))
    assert coarse.group_weights_.shape == (8, 3)
    np.testing.assert_allclose(coarse.group_weights_.sum(axis=1), 1.0)
    assert adjusted_rand_score(place, coarse.predict(X, groups)) == 1.0
    assert np.isnan(coarse.log_joint_)
    assert coarse.n_components == (None if mixture.n_components is None else 3)
    if mixture.n_components is None:
        np.testing.assert_allclose(coarse.beta_.sum() + coarse.rest_, 1.0)
    assert mixture.coarsening_.shape == (K - 1, 4)


def test_groups_of_clusters_that_halves_find_again(fitted):
    mixture, _, _, place = fitted
    curve = mixture.coarsening_curve_
    coarse = mixture.coarsen()
    assert coarse.n_components_ == curve.n_clusters
    assert curve.agreement[curve.tree][curve.n_clusters - 1] > 0.7
    for k in range(len(coarse.n_)):
        assert len(set(place[coarse.labels_ == k])) <= 1
    overlap = mixture.coarsen(overlap=0.05)
    assert 3 <= len(overlap.n_) < len(mixture.n_)
    if mixture.n_components is None:
        assert "halves of the data agree" in mixture.summary()
    with pytest.raises(ValueError, match="rows and groups come together"):
        mixture.coarsen(X=np.zeros((2, 2)))


def test_files_need_rows_and_keep_what_was_merged(fitted, tmp_path):
    mixture, X, groups, place = fitted
    mixture.save(tmp_path / "fit")
    loaded = GroupedMixture.load(tmp_path / "fit")
    with pytest.raises(DataError, match=r"GroupedMixture holds none.*write coarsen\(X=X, groups=groups\)"):
        loaded.coarsen()
    assert adjusted_rand_score(place, loaded.coarsen(n_clusters=3, X=X, groups=groups).labels_) == 1.0
    again = loaded.coarsen(X=X[::2], groups=groups[::2])
    assert len(again.labels_) == len(X[::2])
    coarse = mixture.coarsen(n_clusters=3)
    coarse.save(tmp_path / "coarse")
    restored = GroupedMixture.load(tmp_path / "coarse")
    np.testing.assert_array_equal(restored.predict(X, groups), coarse.predict(X, groups))


def test_clusters_of_two_classes_stay_apart():
    X, groups, place = twins()
    y = np.where(np.arange(len(X)) % 10 == 0, np.array([0, 1, -1])[place], -1)
    mixture = GroupedMixture("gaussian_diag", 6, labels="clusters", random_state=0).fit(X, y, groups=groups)
    coarse = mixture.coarsen(n_clusters=2)
    assert coarse.classes_.tolist() == [0, 1]
    for label in (0, 1):
        assert set(coarse.labels_[y == label]) == {label}
    with pytest.raises(ValueError, match="clusters of two classes are never merged"):
        mixture.coarsen(n_clusters=1)
