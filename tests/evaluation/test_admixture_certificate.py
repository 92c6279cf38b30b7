"""`check_model` of topic models and of rows in groups: what it takes, refuses and says; its parts by definition."""

import numpy as np
import pytest
from certified_data import ALPHA, GROUPED, GROUPS, LINKS, RNG, ROWS, TOPICS, WORDS
from scipy import sparse

from expfam import AdmixtureModel, Dataset, GroupedMixture, Known, Mixture, Multinomial, Poisson, TopicModel
from expfam.errors import CapabilityError, DataError
from expfam.evaluation.admixture_checks import AdmixtureProblem, Few
from expfam.evaluation.admixture_quantities import SLOPE_ALPHA, SLOPE_ETA, AdmixtureQuantities
from expfam.evaluation.certificate import check_model
from expfam.evaluation.units import RowUnits, TokenUnits, some_clusters
from expfam.model.grouped_simulation import draw_clusters, draw_words, probability_of_links
from expfam.samplers import GroupedGibbs, TopicGibbs

pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")

SEEDS = sparse.csr_array(np.eye(6, 3, dtype=int) * 2)
FEW = {"n_replicates": 20, "n_rows": 15}
FIT = {"n_steps": 4, "random_state": 0}
SHORT = {"n_steps": 4, "n_warmup": 4, "random_state": 0}


# ---- estimators ------------------------------------------------------------------------------------------------------


def test_a_topic_model_has_a_certificate_with_all_checks():
    model = TopicModel(2, alpha=0.5, eta=0.3, **SHORT)
    found = check_model(model, WORDS, **FEW)
    assert not hasattr(model, "components_")
    assert found.is_exact
    assert {row.check for row in found.table if row.p is not None} == {"rows", "truth", "data", "cold"}
    assert "TopicGibbs(learn_alpha=False" in found.sampler


def test_pseudo_counts_that_are_learned_come_from_their_prior():
    found = check_model(TopicModel(2, eta="auto", **SHORT), WORDS, checks=["rows", "truth"], **FEW)
    names = {row.quantity for row in found.table if row.check == "truth"}
    assert names >= {"hyper-parameter alpha, sum", "hyper-parameter eta", "log joint by these hyper-parameters"}
    assert "pseudo-counts from their prior: alpha, eta" in str(found)
    assert "the kernel at fixed pseudo-counts" in str(found)
    assert found.is_exact


def test_by_default_the_pseudo_count_of_words_is_checked_as_it_is_learned():
    found = check_model(TopicModel(2, **SHORT), WORDS, checks=["rows", "truth"], **FEW)
    assert "learn_eta=True, least_eta=0.015" in found.sampler
    assert "pseudo-counts from their prior: alpha, eta" in str(found)
    assert found.is_exact
    for settings in ({"eta": 0.3}, {"learn_hyper": False}, {"seeds": {0: [1]}}):
        found = check_model(TopicModel(2, **settings, **SHORT), WORDS, checks=["rows"], **FEW)
        assert "learn_eta=True" not in found.sampler


def test_seeds_and_many_topics():
    model = AdmixtureModel(Multinomial(0.4), 3, 0.5, SEEDS)
    assert check_model(model, sparse.csr_array(WORDS), checks=["rows", "truth", "data"], **FEW).is_exact
    found = check_model(AdmixtureModel(Multinomial(0.4), 40, 0.1), WORDS, checks=["rows", "truth"], **FEW)
    assert "with 4 of the 40 clusters" in str(found)
    assert found.is_exact


def test_a_grouped_mixture_is_checked_with_its_groups_and_links():
    fitted = GroupedMixture("poisson", 2, alpha=0.5, **SHORT).fit(ROWS, groups=GROUPS, links=LINKS)
    with pytest.raises(CapabilityError, match=r"check_model\(mixture, X, groups=groups, links=links\)"):
        check_model(fitted, ROWS, groups=GROUPS, **FEW)
    assert check_model(fitted, ROWS, groups=GROUPS, links=LINKS, checks=["rows", "truth"], **FEW).is_exact
    new = GroupedMixture("poisson", 2, **SHORT)
    found = check_model(new, ROWS, groups=GROUPS, **FEW)
    assert found.is_exact
    assert {row.check for row in found.table if row.p is not None} == {"rows", "truth", "data", "cold"}


def test_a_frame_with_a_column_of_groups():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(
        {"u": RNG.normal(size=40), "v": RNG.normal(size=40), "home": np.array(list("abcd"))[np.arange(40) % 4]}
    )
    found = check_model(GroupedMixture("gaussian_diag", 2, **SHORT), table, groups="home", checks="rows", **FEW)
    assert found.is_exact
    with pytest.raises(DataError, match="X has no column 'house': write groups= with one of"):
        check_model(GroupedMixture("gaussian_diag", 2), table, groups="house", **FEW)


def test_the_same_seed_gives_the_same_certificate_on_any_number_of_threads():
    options = {"groups": GROUPS, "links": LINKS, "checks": ["rows", "truth", "data"]} | FEW
    once, again = (check_model(GROUPED, ROWS, n_threads=n, **options) for n in (None, 2))
    assert [(row.quantity, row.p) for row in once.table] == [(row.quantity, row.p) for row in again.table]


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "options", "name"),
    [
        (TopicModel(2, sampler="variational", **FIT), {}, "TopicVariational"),
        (
            GroupedMixture("poisson", 2, sampler="variational", **FIT),
            {"groups": GROUPS},
            "GroupedV",
        ),
    ],
)
def test_variational_inference_is_no_sampler(estimator, options, name):
    X = ROWS if options else WORDS
    found = check_model(estimator, X, **options, **FEW)
    assert found.is_exact is None
    assert found.verdict.startswith(f"NOTHING CHECKED: {name}")
    assert "sampler='gibbs'" in found.verdict
    assert check_model(estimator, X, sampler="gibbs", checks="rows", **options, **FEW).is_exact


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (GroupedMixture("poisson", 2), {}, ValueError, r"needs groups=.*check_model\(mixture, X, groups=groups\)"),
        (TopicModel(2), {"groups": GROUPS}, CapabilityError, r"write check_model\(model, X\)"),
        (TopicModel(2), {"links": LINKS}, CapabilityError, "tokens of a TopicModel have no links"),
        (GroupedMixture("poisson", 2, labels="clusters"), {"groups": GROUPS}, CapabilityError, "labels='clusters'"),
        (Mixture("poisson", 2), {"groups": GROUPS}, CapabilityError, r"check_model\(GroupedMixture\(family, K\), X,"),
        (Mixture("poisson", 2), {"links": LINKS}, CapabilityError, r"write check_model\(mixture, X\)"),
        (GROUPED, {"groups": "home"}, DataError, "names a column, and X has no names"),
        (TOPICS, {"sampler": "em"}, ValueError, "sampler"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_line_that_works(model, options, error, message):
    with pytest.raises(error, match=message):
        check_model(model, ROWS, **options, **FEW)


def test_a_kernel_that_begins_with_another_model_is_named():
    class Other(TopicGibbs):
        def init(self, model, data, **options):
            return super().init(model.with_alpha(2.0), data, **options)

    found = check_model(TOPICS, WORDS, sampler=Other(), checks="rows", **FEW)
    assert "Other.init has put another model into the state" in found.verdict


# ---- parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [None, SEEDS])
def test_few_tokens_are_enumerated_with_the_log_joint_of_the_model(seeds):
    model = AdmixtureModel(Multinomial(0.6), 3, ALPHA, seeds).bind(WORDS)
    problem = AdmixtureProblem(model, TopicGibbs(), TokenUnits(WORDS), 15)
    few = Few(problem, np.random.default_rng(0))
    assert len(few.labels) == 3 ** len(few.units)
    assert int(few.units.groups.max()) >= 1  # several documents
    for row in (0, 100, 500):
        assert few.log_joint[row] == pytest.approx(model.log_joint(few.data, few.labels[row]), abs=1e-10)
        assert few.row(few.labels[row]) == row


@pytest.mark.parametrize("links", [None, LINKS])
def test_few_rows_are_enumerated_with_the_log_joint_of_the_model(links):
    known = None if links is None else Known(links=links)
    data = Dataset(ROWS, GROUPED.family, groups=GROUPS, known=known)
    model = AdmixtureModel(data.family, 3, ALPHA)
    for seed in range(5):
        few = Few(AdmixtureProblem(model, GroupedGibbs(), RowUnits(data, 3), 15), np.random.default_rng(seed))
        assert len(few.labels) == 3 ** len(few.units.blocks)
        assert (links is None) == (few.data.known is None)
        for row in (0, 100, len(few.labels) - 1):
            assert few.log_joint[row] == pytest.approx(model.log_joint(few.data, few.labels[row]), abs=1e-10)
        if links is not None:
            apart = few.labels[0].copy()
            apart[few.data.known.groups[0][0]] = 1
            assert few.row(apart) == -1


def test_slopes_are_derivatives_of_the_log_joint():
    model = AdmixtureModel(Multinomial(0.6), 3, ALPHA, SEEDS).bind(WORDS)
    kind = TokenUnits(WORDS)
    few = Few(AdmixtureProblem(model, TopicGibbs(), kind, 15), np.random.default_rng(2))
    quantities = AdmixtureQuantities(few.model, kind, few.units)
    table = dict(zip(quantities.names, quantities.values(few.labels[[7, 300]]).T))
    h = 1e-5
    for name, changed in (
        (SLOPE_ALPHA, lambda s: model.with_alpha(s * model.pseudocounts)),
        (SLOPE_ETA, lambda s: model.with_family(model.family.with_hyper(concentration=0.6 * s))),
    ):
        for place, labels in enumerate(few.labels[[7, 300]]):
            up, down = (changed(np.exp(side)).log_joint(few.data, labels) for side in (h, -h))
            assert table[name][place] == pytest.approx((up - down) / (2 * h), abs=1e-5)


def test_clusters_of_linked_rows_are_drawn_by_their_prior():
    alpha, groups, links = np.array([0.7, 0.3]), np.array([0, 0, 1, 1]), np.array([4, -1, 4, -1])
    data = Dataset(np.zeros((4, 1)), Poisson(shape=1.0, rate=1.0), groups=groups)
    model = AdmixtureModel(data.family, 2, alpha)
    states = [z for z in np.ndindex(2, 2, 2, 2) if z[0] == z[2]]
    prior = AdmixtureModel(data.family, 2, alpha)
    # rows of zeros: their evidence depends on the sizes of the clusters alone, and is taken away
    n = [np.bincount(z, minlength=2).astype(float) for z in states]
    evidence = [data.family.log_marginal_of_rows(each, np.zeros((2, 1))).sum() for each in n]
    p = np.exp([prior.log_joint(data, np.array(z)) - e for z, e in zip(states, evidence)])
    rng = np.random.default_rng(0)
    drawn = [tuple(draw_clusters(model.pseudocounts, groups, rng, links=links).tolist()) for _ in range(4000)]
    found = np.array([drawn.count(z) for z in states]) / 4000
    assert probability_of_links(alpha, groups, links) == pytest.approx(p.sum(), abs=1e-10)
    assert found.sum() == 1.0
    np.testing.assert_allclose(found, p / p.sum(), atol=5 * np.sqrt(0.25 / 4000))


def test_words_are_drawn_by_the_evidence_of_topics():
    topics, eta = np.array([0, 0, 1]), np.array([0.4, 0.8])
    model = AdmixtureModel(Multinomial(eta), 2, 1.0, sparse.csr_array([[2, 0], [0, 1]])).bind(np.ones((1, 2)))
    rng = np.random.default_rng(0)
    drawn = [tuple(draw_words(eta, topics, rng, seeds=model.seeds).tolist()) for _ in range(4000)]
    first = [(2.4 / 3.2), (0.8 / 3.2)]
    for a, b in np.ndindex(2, 2):
        seeded = np.array([2.4, 0.8])
        second = (seeded[b] + (a == b)) / 4.2
        found = np.mean([word[:2] == (a, b) for word in drawn])
        assert found == pytest.approx(first[a] * second, abs=0.04)
    assert np.mean([word[2] for word in drawn]) == pytest.approx(1.8 / 2.2, abs=0.04)


def test_some_clusters_keep_their_own_counts_and_seeds():
    model = AdmixtureModel(
        Multinomial(0.4), 6, np.arange(1.0, 7.0), sparse.csr_array(np.arange(6)[None] * np.ones((4, 1)))
    )
    small = some_clusters(model, 4, np.random.default_rng(0))
    np.testing.assert_array_equal(small.seeds.toarray()[0], small.pseudocounts - 1)
    assert some_clusters(model, 6, np.random.default_rng(0)) is model
