"""scikit-learn's own checks of estimators; each expected failure with its reason."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from expfam import Gaussian, Mixture, Multinomial, SphericalGaussian

QUICK = {"n_steps": 5, "n_warmup": 5}
ESTIMATORS = [
    Mixture(**QUICK),
    Mixture("gaussian_diag", 4, sampler="uncollapsed_gibbs", **QUICK),
    Mixture(Gaussian(), 4, partition="last", **QUICK),
    Mixture(SphericalGaussian(mean=0.0), n_threads=2, **QUICK),
    Mixture(Multinomial(allow_fractional=True), 4, **QUICK),
]


READS_CLASSIFIER_TAGS = "the check takes whatever has predict_proba for a classifier and reads its tags"
EXPECTED = {
    "sparse": {
        "check_estimator_sparse_array": READS_CLASSIFIER_TAGS,
        "check_estimator_sparse_matrix": READS_CLASSIFIER_TAGS,
    },
    "counts": {"check_clustering": "the check's own data are standardised, hence negative, whatever the tags say"},
}


def expected_failures(estimator):
    """One line of reason for each check that cannot pass."""
    failures = {}
    if getattr(estimator.family, "accepts_sparse", False):
        failures |= EXPECTED["sparse"]
    if getattr(estimator.family, "support", "real") == "counts":
        failures |= EXPECTED["counts"]
    return failures


@pytest.mark.filterwarnings("ignore:.*rows are empty")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn(estimator, check):
    check(estimator)
