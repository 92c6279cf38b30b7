"""One dialect for all estimators: names, order and defaults of keywords, names of samplers, and errors that help."""

import inspect
import re

import numpy as np
import pytest
from sklearn.base import clone

from expfam import (
    BayesianHierarchy,
    Dataset,
    DirichletProcess,
    GroupedMixture,
    Mixture,
    MixtureModel,
    Multinomial,
    Poisson,
    TopicModel,
    load_family,
)
from expfam.errors import CapabilityError, PluginError
from expfam.estimators.base import step_numbers
from expfam.samplers import (
    CollapsedGibbs,
    FastEx,
    GroupedGibbs,
    HierarchicalClustering,
    Memoized,
    TopicGibbs,
    TopicVariational,
)

ORDER = ["family", "n_components", "weights", "alpha", "eta", "sampler"]
ORDER += ["n_steps", "n_warmup", "n_chains", "n_draws", "learn_hyper"]
ORDER += ["seeds", "seed_tokens", "vocabulary", "start", "leaves"]
ORDER += [
    "partition",
    "labels",
    "cut",
    "n_threads",
    "random_state",
    "callbacks",
    "memory_limit",
    "time_limit",
]
DEFAULTS = {"sampler": "auto", "n_steps": "auto", "n_warmup": "auto", "learn_hyper": "auto", "start": "auto"}
DEFAULTS |= {"n_threads": None, "random_state": None, "callbacks": None}
DEFAULTS |= {"memory_limit": None, "time_limit": None}
ESTIMATORS = [Mixture, GroupedMixture, TopicModel, BayesianHierarchy]
X = np.random.default_rng(0).poisson([[4.0, 1.0, 1.0], [1.0, 4.0, 1.0]] * 15)
GROUPS = {"groups": np.arange(30) % 3}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_shared_keywords_have_one_order_and_one_default(estimator):
    parameters = inspect.signature(estimator).parameters
    assert [*parameters] == [name for name in ORDER if name in parameters]
    assert sorted(parameters) == sorted(estimator().get_params())
    for name in DEFAULTS.keys() & parameters.keys():
        assert parameters[name].default == DEFAULTS[name]
    positional = [name for name, parameter in parameters.items() if parameter.kind is not parameter.KEYWORD_ONLY]
    assert positional == [name for name in ("family", "n_components") if name in parameters]
    missing = {BayesianHierarchy: {"n_steps", "n_warmup"}}.get(estimator, set())
    assert DEFAULTS.keys() - parameters.keys() == missing


def test_automatic_numbers_of_steps():
    assert step_numbers(Mixture()) == (50, 50)
    assert step_numbers(TopicModel()) == step_numbers(GroupedMixture()) == (100, 100)
    for estimator in (Mixture, TopicModel, GroupedMixture):
        assert step_numbers(estimator(n_steps=30)) == (30, 30)
        assert step_numbers(estimator(n_steps=300)) == (300, 100)
        assert step_numbers(estimator(n_steps=np.int64(9), n_warmup=0)) == (9, 0)
        for bad in ({"n_steps": 5.0}, {"n_steps": True}, {"n_warmup": -1}, {"n_steps": "many"}):
            said = f"{estimator.__name__}: {next(iter(bad))} must be 'auto' or an integer of at least 0"
            with pytest.raises(ValueError, match=said):
                step_numbers(estimator(**bad))
    assert Mixture("poisson", 2, n_steps=120).fit(X).trace_.n_warmup == 100


# ---- first guesses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", ["K", "n_clusters", "n_topics"])
def test_other_names_for_the_number_of_components(estimator, name):
    said = rf"{estimator.__name__} has no keyword '{name}': write {estimator.__name__}\(n_components=3\)"
    with pytest.raises(TypeError, match=said):
        estimator(**{name: 3})


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_unknown_keywords(estimator):
    with pytest.raises(TypeError, match=r"has no keyword 'n_thread'; did you mean 'n_threads'\? \(known: .*callbacks"):
        estimator(n_thread=2)
    with pytest.raises(TypeError, match=r"has no keyword 'zzz' \(known: "):
        estimator(zzz=2)

    class Own(estimator):
        def __init__(self, n_components=3, *, own=1):
            super().__init__(n_components=n_components)
            self.own = own

    assert clone(Own(4, own=2)).get_params()["own"] == 2
    with pytest.raises(TypeError, match="Own has no keyword 'sampler'"):
        Own(sampler="gibbs")


@pytest.mark.parametrize("estimator", [Mixture, GroupedMixture, BayesianHierarchy])
@pytest.mark.parametrize(
    ("family", "error", "said"),
    [
        (3, TypeError, r"got 3\. To ask for three clusters, write {name}\(n_components=3\)"),
        (30, TypeError, r"got 30\. To ask for 30 clusters, write {name}\(n_components=30\)"),
        (Poisson, TypeError, r"got <class .*Poisson'>\. Write {name}\(Poisson\(\)\)"),
        (None, TypeError, r"family must be a name or a Family; got None"),
        ("poison", PluginError, r"did you mean 'poisson'\?"),
    ],
)
def test_wrong_families(estimator, family, error, said):
    options = GROUPS if estimator is GroupedMixture else {}
    with pytest.raises(error, match=said.replace("{name}", estimator.__name__)):
        estimator(family).fit(X, **options)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("K", "said"), [(0, "got 0"), ("3", "got '3': write n_components=3"), (2.0, "got 2.0"), (True, "")]
)
def test_wrong_numbers_of_components(estimator, K, said):
    settings = {} if estimator is TopicModel else {"family": "poisson"}
    options = GROUPS if estimator is GroupedMixture else {}
    with pytest.raises(
        ValueError, match=f"{estimator.__name__}: n_components must be an integer of at least 1.*{said}"
    ):
        estimator(n_components=K, **settings).fit(X, **options)


# ---- samplers --------------------------------------------------------------------------------------------------------

OF_MIXTURES = ["gibbs", "uncollapsed_gibbs", "fastex", "canopy", "split_merge", "stochastic_em", "em", "variational"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_wrong_samplers_get_the_names_that_there_are(estimator):
    names = {
        Mixture: OF_MIXTURES,
        GroupedMixture: ["gibbs", "uncollapsed_gibbs", "variational"],
        TopicModel: ["gibbs", "documents", "variational"],
        BayesianHierarchy: [],
    }[estimator]
    settings = {} if estimator is TopicModel else {"family": "poisson"}
    options = GROUPS if estimator is GroupedMixture else {}
    said = f"{estimator.__name__}: sampler must be {', '.join(map(repr, ['auto', *names]))}, or a kernel such as "
    for wrong in ("gibs", "collapsed_gibbs", None, 3):
        with pytest.raises(ValueError, match=f"{said}.*; got {wrong!r}"):
            estimator(sampler=wrong, **settings).fit(X, **options)
    line, given = "FastEx()" if estimator is Mixture else "'auto'", "family='poisson', " if settings else ""
    found = re.escape(f"got the class FastEx: write {estimator.__name__}({given}sampler={line})")
    with pytest.raises(ValueError, match=found):
        estimator(sampler=FastEx, **settings).fit(X, **options)


def test_the_wrong_kernel_is_named():
    with pytest.raises(ValueError, match=r"TopicGibbs\(...\) or TopicVariational\(...\); got GroupedGibbs\("):
        TopicModel(sampler=GroupedGibbs()).fit(X)
    with pytest.raises(ValueError, match=r"a kernel such as HierarchicalClustering\(...\); got CollapsedGibbs\("):
        BayesianHierarchy("poisson", sampler=CollapsedGibbs()).fit(X)


def test_names_and_kernels_are_the_same():
    def bits(estimator):
        return estimator.fit(X).components_

    quick = {"n_steps": 8, "random_state": 0}
    sampled, learned = bits(TopicModel(2, eta=0.01, **quick)), bits(TopicModel(2, **quick))
    for same in ("gibbs", TopicGibbs(), TopicGibbs(learn_every=10)):
        np.testing.assert_array_equal(bits(TopicModel(2, eta=0.01, sampler=same, **quick)), sampled)
    for same in ("gibbs", TopicGibbs(learn_eta=True, least_eta=0.015)):
        np.testing.assert_array_equal(bits(TopicModel(2, sampler=same, **quick)), learned)
    passed = bits(TopicModel(2, sampler="variational", **quick))
    for same in (TopicVariational(), TopicVariational(local="dense", n_threads=2)):
        np.testing.assert_array_equal(bits(TopicModel(2, sampler=same, **quick)), passed)
    assert (bits(TopicModel(2, sampler=TopicGibbs(learn_every=3), **quick)) != sampled).any()


def test_a_kernel_that_is_given_stays_as_it_is():
    kernel = TopicVariational(documents="best")
    before = repr(kernel)
    model = TopicModel(2, sampler=kernel, random_state=0)
    model.partial_fit(X, batch=0)  # memoized, as the documents are remembered
    assert isinstance(model.stream_.schedule, Memoized)
    assert repr(kernel) == before
    with pytest.raises(
        CapabilityError, match=r"does not use learn_hyper=True: .*give the kernel learn_alpha and learn_eta"
    ):
        model.set_params(learn_hyper=True).fit(X)


# ---- starts and what is learned --------------------------------------------------------------------------------------


def test_starts_of_topics():
    n_tokens, counts = int(X.sum()), np.ones((3, 2)) + np.eye(3, 2)
    quick = {"n_steps": 2, "random_state": 0}
    auto = TopicModel(2, start="variational", **quick).fit(X).components_
    for start in ("random", np.arange(n_tokens) % 2):
        other = TopicModel(2, start=start, time_limit="1h", **quick).fit(X)
        assert (other.components_ != auto).any()
    divided = TopicModel(2, sampler="variational", **quick).fit(X).components_
    for start in ("documents", "corpus"):
        other = TopicModel(2, sampler="variational", start=start, **quick).fit(X)
        assert (other.components_ != divided).any()
    for learn in (TopicModel.fit, TopicModel.partial_fit):
        given = learn(TopicModel(2, sampler="variational", start=counts, time_limit="1h", **quick), X)
        assert given.components_.shape == (2, 3)
    with pytest.raises(ValueError, match="TopicGibbs: start must be 'random', 'variational'"):
        TopicModel(2, start="documents", **quick).fit(X)
    with pytest.raises(ValueError, match="TopicVariational: start must be 'documents', 'corpus'"):
        TopicModel(2, start="random", **quick).partial_fit(X)


def test_groups_learn_alpha_where_it_is_auto():
    def alpha(**settings):
        mixture = GroupedMixture("poisson", 2, n_steps=8, random_state=0, **settings).fit(X, **GROUPS)
        return mixture.alpha_.round(12).tolist()

    assert alpha() == alpha(sampler=GroupedGibbs())
    assert alpha(learn_hyper=False) != [0.5, 0.5]
    for learn_hyper in ("auto", True, False):
        assert alpha(alpha=0.3, learn_hyper=learn_hyper) == [0.3, 0.3]


def test_learn_hyper_is_about_the_family_everywhere():
    """Hyper-parameters of the family are learned as it says, and nothing else is."""

    def plain(family):
        return {name: np.asarray(value).tolist() for name, value in family.get_params().items()}

    def hyper(kind, learn_hyper, family):
        about = GROUPS if kind is GroupedMixture else {}
        return plain(kind(family, 2, n_steps=8, random_state=0, learn_hyper=learn_hyper).fit(X, **about).family_)

    for kind in (Mixture, GroupedMixture):
        given = plain(load_family("gaussian_diag").bind(X))
        assert hyper(kind, False, "gaussian_diag") == given
        assert hyper(kind, "auto", "gaussian_diag")["rate"] != given["rate"]
        fixed = Multinomial(0.5)
        assert hyper(kind, "auto", fixed) == hyper(kind, False, fixed) == plain(fixed.bind(X))
        assert hyper(kind, True, fixed)["concentration"] != 0.5
    for learn_hyper in ("auto", True, False):
        model = TopicModel(2, alpha=0.3, eta=0.2, learn_hyper=learn_hyper, n_steps=8, random_state=0).fit(X)
        assert (model.alpha_.round(12) == 0.3).all()
        assert (model.eta_ != 0.2) == (learn_hyper is True)


def test_trees_depend_on_the_seed_only_by_subsamples():
    trees = [BayesianHierarchy("poisson", random_state=seed, alpha="auto").fit(X) for seed in (None, 1)]
    np.testing.assert_array_equal(*(tree.children_ for tree in trees))
    grid = {"rate": [0.1, 0.2]}
    learned, auto, none = (BayesianHierarchy("poisson", learn_hyper=learn).fit(X) for learn in (grid, "auto", False))
    assert auto.log_evidence_ == none.log_evidence_ != learned.log_evidence_
    with pytest.raises(ValueError, match="learn_hyper must be 'auto', True, False or a grid"):
        BayesianHierarchy("poisson", learn_hyper="much").fit(X)


def test_the_best_of_several_trees_is_for_the_estimator():
    data = Dataset(X, Poisson())
    with pytest.raises(ValueError, match=r"order='best' makes several trees .*BayesianHierarchy\(sampler=...\)"):
        HierarchicalClustering(order="best").init(MixtureModel(data.family, DirichletProcess()), data)
