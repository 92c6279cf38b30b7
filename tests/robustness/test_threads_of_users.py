"""Threads of a user: fits side by side, and questions to one fitted estimator, have the bits of one after the other."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3)) + 4.0 * RNG.normal(size=(4, 3))[RNG.integers(4, size=150)]
WORDS = RNG.poisson(1.0, size=(80, 20))
GROUPS = np.arange(150) // 15
FITS = {
    "diagonal": lambda seed: Mixture("gaussian_diag", random_state=seed).fit(X).labels_,
    "full, two threads": lambda seed: Mixture("gaussian", 4, n_threads=2, random_state=seed).fit(X).labels_,
    "counts": lambda seed: Mixture("multinomial", 3, random_state=seed).fit(WORDS).labels_,
    "variational": lambda seed: Mixture("gaussian_diag", sampler="variational", random_state=seed).fit(X).weights_,
    "topics": lambda seed: TopicModel(3, random_state=seed).fit(WORDS).components_,
    "groups": lambda seed: GroupedMixture("gaussian_diag", 3, random_state=seed).fit(X, groups=GROUPS).labels_,
    "tree": lambda seed: BayesianHierarchy("gaussian_diag").fit(X[seed:]).children_,
}


@pytest.mark.filterwarnings("ignore")
def test_fits_side_by_side_are_those_of_one_after_the_other():
    calls = [(name, seed) for seed in range(2) for name in FITS]
    expected = {call: FITS[call[0]](call[1]).tobytes() for call in calls}
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda call: (call, FITS[call[0]](call[1]).tobytes()), calls * 2))
    assert [call for call, labels in found if labels != expected[call]] == []


def test_threads_that_ask_one_estimator_have_its_answers():
    mixture = Mixture("gaussian", 4, random_state=0).fit(X)
    expected = mixture.predict_proba(X).tobytes(), mixture.score_samples(X).tobytes()
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: (mixture.predict_proba(X).tobytes(), mixture.score_samples(X).tobytes()), range(40))
    assert set(found) == {expected}
