"""scikit-learn's own checks of estimators; each expected failure with its reason."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from expfam import Gaussian, Mixture, Multinomial, SphericalGaussian, TopicModel

QUICK = {"n_steps": 5, "n_warmup": 5}
ESTIMATORS = [
    Mixture(**QUICK),
    Mixture("gaussian_diag", 4, sampler="uncollapsed_gibbs", **QUICK),
    Mixture(Gaussian(), 4, partition="last", **QUICK),
    Mixture(SphericalGaussian(mean=0.0), n_threads=2, **QUICK),
    Mixture(Multinomial(allow_fractional=True), 4, **QUICK),
    Mixture(Gaussian(), 4, sampler="variational", **QUICK),
    Mixture(Multinomial(allow_fractional=True), 4, sampler="variational", **QUICK),
    TopicModel(3, **QUICK),
    TopicModel(3, local="active", n_threads=2, **QUICK),
]


READS_CLASSIFIER_TAGS = "the check takes whatever has predict_proba for a classifier and reads its tags"
ONE_BY_ONE = "a sampler that moves one row at a time takes no weights but 1, and says so"
START_BY_ROWS = "the start is drawn from the rows, whatever they weigh, and results depend on the start"
TOPICS_START = "starting topics are drawn from the rows, and without weights the default is a sampler"
EQUIVALENCE = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
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
    if isinstance(estimator, TopicModel):
        return dict.fromkeys(EQUIVALENCE, TOPICS_START)
    if getattr(estimator.family, "accepts_sparse", False):
        failures |= EXPECTED["sparse"]
    if getattr(estimator.family, "support", "real") == "counts":
        failures |= EXPECTED["counts"]
    failures |= dict.fromkeys(EQUIVALENCE, START_BY_ROWS)
    if estimator.sampler != "variational":
        refused = ("check_sample_weights_list", "check_sample_weights_not_overwritten", *EQUIVALENCE)
        failures |= dict.fromkeys(refused, ONE_BY_ONE)
    return failures


@pytest.mark.filterwarnings("ignore:.*rows are empty")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn(estimator, check):
    check(estimator)
