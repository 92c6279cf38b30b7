"""scikit-learn's own checks of estimators; each expected failure with its reason.

The checks bring real numbers of either sign, and no groups. Estimators that cannot take these say so by their tags, and
`check_estimator` leaves them alone. They are checked here as subclasses that bring what they are given into the
support of their family, or into groups.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.exceptions import SkipTestWarning
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from expfam import (
    BayesianHierarchy,
    DiagonalGaussian,
    Gaussian,
    GroupedMixture,
    Mixture,
    Multinomial,
    SphericalGaussian,
    TopicModel,
    list_plugins,
    load_family,
)
from expfam.errors import ExpFamError, SupportError
from expfam.families.columns.cells import may_lack_cells
from expfam.samplers import HierarchicalClustering, TopicVariational, UncollapsedMetropolis

QUICK = {"n_steps": 3, "n_warmup": 2}

# ---- data that a family can take -------------------------------------------------------------------------------------

_BRINGS = {
    "real": lambda X: X,
    "counts": lambda X: np.rint(20.0 * _both_ways(X)),
    "nonnegative": lambda X: _both_ways(X),
    "binary": lambda X: np.hstack([level < X for level in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)]),
    "categories": lambda X: np.clip(np.rint(X + 3.0), 0.0, 6.0),
    "unit": lambda X: (X + 1e-6) / np.linalg.norm(X + 1e-6, axis=1, keepdims=True),
    "gaussian_zero": lambda X: _both_ways(X),  # its clusters differ by scale alone
    "lognormal": lambda X: np.exp(np.clip(X, -300.0, 300.0)),
}


def _both_ways(X):
    return np.exp(2.0 * np.clip(np.hstack([X, -X]), -5.0, 5.0))


class _BringsToSupport:
    """Mixin: rows are brought into the support of the family, each by itself, once they are validated."""

    def _validate(self, X, *, reset, family=None, learns=False):
        X = super()._validate(X, reset=reset, family=family, learns=learns)
        family = self._family()
        brought = _BRINGS[family.name if family.name in _BRINGS else family.support]
        values = brought(X.toarray() if sparse.issparse(X) else np.asarray(X)).astype(float)
        return sparse.csr_array(values) if sparse.issparse(X) else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags._skip_test = tags.input_tags.positive_only = tags.input_tags.categorical = False
        return tags


class SupportedMixture(_BringsToSupport, Mixture):
    pass


class SupportedHierarchy(_BringsToSupport, BayesianHierarchy):
    pass


class OneRowGroups(GroupedMixture):
    """Each row is a group of its own; those of a score are one group."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, groups=_one_a_row(X), sample_weight=sample_weight)

    def transform(self, X):
        return super().transform(X, _one_a_row(X))

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)

    def predict(self, X):
        return super().predict(X, _one_a_row(X))

    def predict_proba(self, X):
        return super().predict_proba(X, groups=_one_a_row(X))

    def score_samples(self, X):
        return super().score_samples(X, groups=_one_a_row(X))

    def score(self, X, y=None):
        return super().score(X, groups=0 * _one_a_row(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags._skip_test = False
        return tags


class OneRowGroupsLearner(OneRowGroups):
    """Chunks too, under variational inference."""

    def partial_fit(self, X, y=None, sample_weight=None):
        return super().partial_fit(X, groups=_one_a_row(X), sample_weight=sample_weight)


def _one_a_row(X):
    return np.arange(X.shape[0] if sparse.issparse(X) else len(np.asarray(X)))


# ---- what is checked -------------------------------------------------------------------------------------------------

# "columns" needs parts of columns that it is told; the checks meet it by family="auto"
FAMILIES = sorted({plugin.name for plugin in list_plugins("family")} - {"columns"})
SAMPLERS = [
    "gibbs",
    "uncollapsed_gibbs",
    "fastex",
    "canopy",
    UncollapsedMetropolis(),
    "stochastic_em",
    "variational",
    "em",
]
ESTIMATORS = [
    Mixture(**QUICK),
    Mixture(sampler="split_merge", **QUICK),
    Mixture(Gaussian(), 4, partition="last", **QUICK),
    Mixture(SphericalGaussian(mean=0.0), n_threads=2, **QUICK),
    *(Mixture("gaussian_diag", 4, sampler=sampler, **QUICK) for sampler in SAMPLERS),
    *(SupportedMixture(family, 4, **QUICK) for family in FAMILIES),
    SupportedMixture(Multinomial(allow_fractional=True), 4, sampler="variational", **QUICK),
    SupportedMixture("poisson", 4, sampler="fastex", **QUICK),
    BayesianHierarchy(),
    BayesianHierarchy("gaussian", alpha="auto", sampler=HierarchicalClustering(order="best")),
    *(SupportedHierarchy(family) for family in FAMILIES),
    TopicModel(3, n_steps=5),
    TopicModel(3, sampler=TopicVariational(local="active"), n_threads=2, n_steps=5),
    OneRowGroups(n_components=3, **QUICK),
    OneRowGroupsLearner(n_components=3, sampler="variational", n_steps=3),
]

# ---- what cannot pass ------------------------------------------------------------------------------------------------
# pytest is told to be strict: a failure that is expected and does not come is an error

ONE_BY_ONE = "a sampler that moves one row at a time takes no weights but 1, and says so"
START_BY_ROWS = "the start is drawn from the rows, whatever they weigh, and results depend on the start"
READS_CLASSIFIER_TAGS = "the check takes whatever has predict_proba for a classifier and reads its tags"
CUT_BY_ODDS = "blobs brought to counts are 13 clusters by the odds; asked for three, the tree has the true ones"
NEW_ROWS_MAY_LACK_CELLS = "the check wants missing cells refused in predict, where they are integrated out"
EQUIVALENCE = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
WEIGHTS = ("check_sample_weights_list", "check_sample_weights_not_overwritten", *EQUIVALENCE)
SPARSE = ("check_estimator_sparse_array", "check_estimator_sparse_matrix")
TAKES_WEIGHTS = ("variational", "em")


def expected_failures(estimator):
    """One line of reason for each check that cannot pass."""
    return _by_kind(estimator) | ({"check_estimators_nan_inf": NEW_ROWS_MAY_LACK_CELLS} if _splits(estimator) else {})


def _splits(estimator):
    """Whether the family is named, and scores rows that lack cells: new rows may lack them, rows of a fit may not."""
    family = getattr(estimator, "family", "auto")
    family = load_family(family) if isinstance(family, str) and family != "auto" else family
    return not isinstance(family, str) and may_lack_cells(family, scored=True)


def _by_kind(estimator):
    if isinstance(estimator, BayesianHierarchy):
        failures = {"check_clustering": CUT_BY_ODDS} if estimator.family == "multinomial" else {}
    elif isinstance(estimator, TopicModel) or estimator.sampler in TAKES_WEIGHTS:
        failures = dict.fromkeys(EQUIVALENCE, START_BY_ROWS)
    else:
        failures = dict.fromkeys(WEIGHTS, ONE_BY_ONE)
    if hasattr(estimator, "predict_proba") and get_tags(estimator).input_tags.sparse:
        failures |= dict.fromkeys(SPARSE, READS_CLASSIFIER_TAGS)
    return failures


@pytest.mark.filterwarnings("ignore:.*y is ignored")  # the checks give classes to every estimator
@pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")
@pytest.mark.filterwarnings("ignore:.*rows? (is|are) distinct")  # positive rows of the checks are often equal
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_an_expected_failure_that_does_not_come_is_an_error(pytestconfig):
    assert pytestconfig.getini("xfail_strict")


def test_the_page_lists_every_check_that_cannot_pass():
    page = (Path(__file__).resolve().parents[2] / "docs" / "scikit_learn.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `check_")]
    told = {(name, reason.strip()) for names, _, reason in rows for name in re.findall(r"`(check_\w+)`", names)}
    assert told == {pair for estimator in ESTIMATORS for pair in expected_failures(estimator).items()}


def test_the_page_lists_what_is_routed():
    page = (Path(__file__).resolve().parents[2] / "docs" / "scikit_learn.md").read_text(encoding="utf-8")
    asked = dict(re.findall(r"^\| `(\w+)` \| (`\w+`(?:, `\w+`)*) \|", page, flags=re.M))
    with config_context(enable_metadata_routing=True):
        for kind in (Mixture, GroupedMixture, TopicModel, BayesianHierarchy):
            found = kind().get_metadata_routing().fit.requests
            assert re.findall(r"`(\w+)`", asked[kind.__name__]) == list(found)


# ---- what the tags say -----------------------------------------------------------------------------------------------

TAGS = {  # positive only, categorical, sparse, skipped
    "bernoulli": (True, False, True, True),
    "categorical": (False, True, True, True),
    "exponential": (True, False, True, True),
    "gaussian": (False, False, True, False),
    "gaussian_diag": (False, False, True, False),
    "gaussian_spherical": (False, False, True, False),
    "gaussian_zero": (False, False, True, False),
    "geometric": (True, False, True, True),
    "lognormal": (True, False, True, True),
    "multinomial": (True, False, True, True),
    "negative_binomial": (True, False, True, True),
    "poisson": (True, False, True, True),
    "von_mises": (False, False, True, False),
    "von_mises_fisher": (False, False, True, True),
}
CLASSES = [Mixture, BayesianHierarchy, GroupedMixture]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_tags_say_what_a_family_takes(kind, family):
    tags = get_tags(kind(family))
    found = (tags.input_tags.positive_only, tags.input_tags.categorical, tags.input_tags.sparse, tags._skip_test)
    assert found == (*TAGS[family][:3], TAGS[family][3] or kind is GroupedMixture)
    assert tags.transformer_tags is not None


def test_bounds_of_a_family_are_in_its_tags():
    class Positive(DiagonalGaussian):
        bounds = (0.0, np.inf)

    tags = get_tags(Mixture(Positive()))
    assert (tags.input_tags.positive_only, tags._skip_test) == (True, True)


@pytest.mark.parametrize(
    "estimator",
    [GroupedMixture(), GroupedMixture("poisson"), Mixture("poisson"), BayesianHierarchy("categorical")],
    ids=repr,
)
def test_the_common_checks_leave_alone_what_they_have_no_data_for(estimator):
    with pytest.warns(SkipTestWarning, match="_skip_test"):
        check_estimator(estimator)


# ---- refusals --------------------------------------------------------------------------------------------------------


def fits(family):
    groups = np.zeros(6, dtype=int)
    yield lambda X: Mixture(family, 2, **QUICK).fit(X)
    yield lambda X: BayesianHierarchy(family).fit(X)
    yield lambda X: GroupedMixture(family, 2, **QUICK).fit(X, groups=groups)
    if family == "multinomial":
        yield lambda X: TopicModel(2, n_steps=2).fit(X)


@pytest.mark.parametrize("family", [family for family in FAMILIES if TAGS[family][0]])
def test_families_without_negative_values_refuse_them_in_scikit_learn_s_words(family):
    X = np.ones((6, 3))
    X[4, 1] = -1.0
    for fit in fits(family):
        with pytest.raises(ValueError, match=r"row 4, column 1 holds -1|Negative values in data") as caught:
            fit(X)
        assert "Negative values in data" in str(caught.value)


@pytest.mark.parametrize("family", ["geometric", "multinomial", "negative_binomial", "poisson", "categorical"])
def test_families_of_whole_numbers_refuse_fractions_with_the_remedy(family):
    X = np.ones((6, 3))
    X[4, 1] = 0.5
    remedy = {"multinomial": r"family=Multinomial\(allow_fractional=True\)", "categorical": "OrdinalEncoder"}
    remedy = remedy.get(family, r"X = numpy\.rint\(X\); .* family='gaussian_diag'")
    for fit in list(fits(family))[:3]:
        with pytest.raises(SupportError, match=rf"integer.*row 4, column 1 holds 0\.5.*{remedy}"):
            fit(X)


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_setting_that_is_advised_exists(name):
    family = load_family(name)
    told = []
    for X in (np.full((6, 3), 0.5), sparse.csr_array(np.full((6, 3), 0.5))):
        try:
            family.bind(X)
        except ExpFamError as error:
            told.append(str(error))
    assert set(re.findall(r"(\w+)=True", " ".join(told))) <= set(family.get_params())


def test_fractions_of_a_sparse_matrix_have_their_own_line():
    X = sparse.csr_array(np.full((6, 3), 0.5))
    with pytest.raises(SupportError, match=r"X = X\.rint\(\)"):
        Mixture("poisson", 2).fit(X)
    with pytest.raises(SupportError, match=r"takes 0 and 1: write X = X > 0\.5"):
        Mixture("bernoulli", 2).fit(X)
