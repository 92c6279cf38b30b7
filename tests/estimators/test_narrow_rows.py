"""Rows of float16 and of small integers are read in single precision, whatever the estimator."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import BayesianHierarchy, GroupedMixture, Mixture

KINDS = [np.float16, np.int8, np.uint8, np.int16, np.uint16]


def narrow_rows(kind, n_rows=120, n_columns=6, seed=0):
    """Three far groups, as whole numbers or as halves of unit length; and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 3
    X = 40 * np.eye(3, n_columns)[labels] + 50 + rng.normal(scale=3, size=(n_rows, n_columns))
    if kind == np.float16:
        X -= 60
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    return (X if kind == np.float16 else np.rint(X)).astype(kind), labels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["gaussian_diag", "gaussian_spherical", "gaussian", "von_mises_fisher"])
def test_the_answer_is_that_of_single_precision(family, kind):
    X, labels = narrow_rows(kind)
    wide = X.astype(np.float32)
    if family == "von_mises_fisher":  # rows of single precision are refused unless they are asked to be divided
        wide = (wide / np.linalg.norm(wide.astype(np.float64), axis=1, keepdims=True)).astype(np.float64)
    found, expected = (Mixture(family, 3, random_state=0).fit(rows) for rows in (X, wide))
    assert len({(a, b) for a, b in zip(found.labels_, labels)}) == 3
    assert np.array_equal(found.labels_, expected.labels_)
    assert np.array_equal(found.predict(X), expected.predict(wide))
    if family != "von_mises_fisher":
        assert found.log_joint_ == expected.log_joint_
        assert np.array_equal(found.score_samples(X), expected.score_samples(wide))


@pytest.mark.parametrize("kind", KINDS)
def test_other_estimators_and_chunks_read_them_too(kind):
    X, labels = narrow_rows(kind)
    tree = BayesianHierarchy("gaussian_spherical").fit(X)
    assert np.array_equal(tree.labels_, BayesianHierarchy("gaussian_spherical").fit(X.astype(np.float32)).labels_)
    groups = GroupedMixture("gaussian_diag", 3, random_state=0).fit(X, groups=np.repeat([0, 1], 60))
    assert len({(a, b) for a, b in zip(groups.labels_, labels)}) == 3
    chunks = Mixture("gaussian_diag", 3, sampler="variational", random_state=0)
    for part in np.array_split(X, 3):
        chunks.partial_fit(part)
    assert len(np.unique(chunks.predict(X))) == 3


def test_counts_in_small_integers_are_counts():
    rng = np.random.default_rng(1)
    X = rng.poisson(np.where(np.arange(200)[:, None] % 2, 2.0, 20.0), size=(200, 4))
    answers = [Mixture("poisson", random_state=0).fit(X.astype(kind)) for kind in (np.uint8, np.int16, np.int64)]
    assert len({mixture.n_components_ for mixture in answers}) == 1
    assert all(np.array_equal(mixture.labels_, answers[0].labels_) for mixture in answers)


def test_a_default_fit_of_half_precision_warns_of_nothing():
    X, labels = np.random.default_rng(0).normal(size=(90, 4)), np.repeat(np.arange(3), 30)
    mixture = Mixture(random_state=0).fit((X + 8.0 * labels[:, None]).astype(np.float16))  # a warning is an error here
    assert adjusted_rand_score(labels, mixture.labels_) == 1.0
