"""Each line that a message tells to type is typed, and it works."""

import inspect
import pickle
import re
from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import expfam
from expfam import (
    BayesianHierarchy,
    DirichletProcess,
    GroupedMixture,
    Mixture,
    MixtureModel,
    PartitionPosterior,
    Poisson,
    TopicModel,
    merge,
    samplers,
)
from expfam.errors import DataError, DataWarning, ResourceError
from expfam.evaluation.held_out import split_documents
from expfam.fitting import slow_fits
from expfam.forecast.memory import check_memory, forecast_sizes
from expfam.forecast.time import Duration, check_duration
from expfam.io.readers import read
from expfam.near_names import near_names
from expfam.samplers import FastEx, TopicGibbs
from expfam.structures.ground.rng import resolve_seed

X = np.random.default_rng(0).normal(size=(30, 3))
COUNTS = np.random.default_rng(0).poisson(3.0, (30, 4))
GROUPS = np.arange(30) // 10
NAMES = {name: getattr(expfam, name) for name in expfam.__all__} | {
    "FastEx": FastEx,
    "TopicGibbs": TopicGibbs,
    "X": X,
    "C": COUNTS,
    "binary": (COUNTS > 2).astype(int),
    "groups": GROUPS,
    "labels": np.arange(30) % 2,
    "family": Poisson(),
    "np": np,
}
QUICK = {"n_steps": 3, "random_state": 0}


def typed(line, **more):
    """What a line gives in a session that has the public names."""
    return eval(line, NAMES | more)  # the line of a message, which is ours


def message_of(call):
    """The message of the error of a line."""
    with pytest.raises((ValueError, TypeError, AttributeError, ImportError, MemoryError)) as caught:
        typed(call)
    return str(caught.value)


def line_of(message):
    """The whole line after the word "write", with its brackets."""
    found = re.search(r"\b[Ww]rite (\w[\w.]*(?:\[.*\]|\(.*?\)+)?(?:\.\w+\([^)]*\))*)", message)
    assert found, f"no line to type: {message}"
    line = found[1]
    return line[: len(line) - max(0, line.count(")") - line.count("("))]


# ---- names -----------------------------------------------------------------------------------------------------------

FAMILIES = {
    "normal": ("gaussian_diag", "X"),
    "Normal": ("gaussian_diag", "X"),
    "Gaussian": ("gaussian", "X"),
    "GMM": ("gaussian_diag", "X"),
    "diag": ("gaussian_diag", "X"),
    "spherical": ("gaussian_spherical", "X"),
    "poison": ("poisson", "C"),
    "counts": ("poisson", "C"),
    "bernouli": ("bernoulli", "binary"),
    "binary": ("bernoulli", "binary"),
    "categorial": ("categorical", "C"),
    "Negative-Binomial": ("negative_binomial", "C"),
    "text": ("multinomial", "C"),
    "vMF": ("von_mises_fisher", "X / np.linalg.norm(X, axis=1, keepdims=True)"),
}


@pytest.mark.parametrize("estimator", ["Mixture", "GroupedMixture", "BayesianHierarchy"])
@pytest.mark.parametrize("name", FAMILIES)
def test_families_of_other_names(estimator, name):
    meant, data = FAMILIES[name]
    arguments = f"{data}, groups=groups" if estimator == "GroupedMixture" else data
    line = line_of(message_of(f"{estimator}({name!r}).fit({arguments})"))
    assert line == f"{estimator}({meant!r})"
    model = typed(line).set_params(n_components=2, random_state=0)
    if estimator != "BayesianHierarchy":
        model.set_params(n_steps=2)
    assert typed(f"model.fit({arguments})", model=model).family_.name == meant


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("Mixture('poisson', sampler='Gibbs').fit(C)", "Mixture(family='poisson', sampler='gibbs')"),
        ("Mixture('poisson', sampler='mcmc').fit(C)", "Mixture(family='poisson', sampler='gibbs')"),
        ("Mixture('poisson', sampler='vb').fit(C)", "Mixture(family='poisson', sampler='variational')"),
        ("Mixture('poisson', sampler='Fast-Ex').fit(C)", "Mixture(family='poisson', sampler='fastex')"),
        ("Mixture('poisson', sampler=FastEx).fit(C)", "Mixture(family='poisson', sampler=FastEx())"),
        ("Mixture('poisson', sampler=None).fit(C)", "Mixture(family='poisson', sampler='auto')"),
        (
            "GroupedMixture('poisson', 2, sampler='gibs').fit(C, groups=groups)",
            "GroupedMixture(family='poisson', n_components=2, sampler='gibbs')",
        ),
        (
            "GroupedMixture('poisson', 2, sampler=FastEx).fit(C, groups=groups)",
            "GroupedMixture(family='poisson', n_components=2, sampler='auto')",
        ),
        ("TopicModel(2, sampler='VB').fit(C)", "TopicModel(n_components=2, sampler='variational')"),
        ("TopicModel(2, sampler=TopicGibbs).fit(C)", "TopicModel(n_components=2, sampler=TopicGibbs())"),
        ("BayesianHierarchy('poisson', sampler='gibbs').fit(C)", "BayesianHierarchy(family='poisson', sampler='auto')"),
        ("Mixture('poisson', weights='dp').fit(C)", "Mixture(family='poisson', weights=DirichletProcess())"),
        (
            "Mixture('poisson', weights='Dirichlet-Process').fit(C)",
            "Mixture(family='poisson', weights=DirichletProcess())",
        ),
        ("Mixture('poisson', weights='py').fit(C)", "Mixture(family='poisson', weights=PitmanYor(discount=0.25))"),
        ("Mixture('poisson', weights='dirichlet').fit(C)", "Mixture(family='poisson', weights=SymmetricDirichlet(10))"),
        ("Mixture('poisson', weights=3).fit(C)", "Mixture(family='poisson', weights=SymmetricDirichlet(3))"),
        ("Mixture('poisson', weights=PitmanYor).fit(C)", "Mixture(family='poisson', weights=PitmanYor(discount=0.25))"),
        ("Mixture('poisson', 4, weights=SymmetricDirichlet(3)).fit(C)", "Mixture(family='poisson', n_components=4)"),
        ("Mixture(3).fit(X)", "Mixture(n_components=3)"),
        ("Mixture(n_components='3').fit(X)", "n_components=3"),
        ("Mixture(Poisson).fit(C)", "Mixture(Poisson())"),
    ],
)
def test_arguments_of_other_names(call, line):
    message = message_of(call)
    assert line_of(message) == ("n_components" if line == "n_components=3" else line), message
    estimator = call.partition("(")[0]
    model = typed(line if "(" in line else f"{estimator}({line})")
    settings = {name: value for name, value in QUICK.items() if name in model.get_params()}
    if estimator in ("GroupedMixture", "TopicModel"):
        settings["n_components"] = 2
    if "family" in model.get_params() and model.family == "auto":
        settings["family"] = "poisson"
    options = {"groups": GROUPS} if estimator == "GroupedMixture" else {}
    model.set_params(**settings).fit(COUNTS, **options)


@pytest.mark.parametrize(
    ("estimator", "start"),
    [("Mixture", "k-means++"), ("Mixture", "K-Means"), ("Mixture", "Random"), ("TopicModel", "Variational")],
)
def test_starts_of_other_names(estimator, start):
    settings = f"n_components=2, random_state=0, n_steps=2{', family=family' * (estimator == 'Mixture')}"
    message = message_of(f"{estimator}({settings}, start={start!r}).fit(C)")
    keyword = re.search(r"write (start='[^']+')", message)[1]
    typed(f"{estimator}({settings}, {keyword}).fit(C)")


def test_a_model_without_a_prior_names_the_call():
    line = line_of(message_of("MixtureModel(family, 'crp')"))
    assert isinstance(typed(line), MixtureModel)
    with pytest.raises(TypeError, match=r"weights must be a prior"):
        MixtureModel(Poisson(), None)


def test_names_are_compared_without_case_and_hyphens():
    assert near_names("Two Words", ["two_words", "two"]) == ("two_words",)
    assert near_names("zzz", ["two_words"]) == ()
    assert near_names("other", ["mine"], {"other": ("mine", "not installed")}) == ("mine",)
    assert near_names(3, ["mine"]) == ()


# ---- keywords and attributes of scikit-learn -------------------------------------------------------------------------

KEYWORDS = {
    "Mixture": {
        "covariance_type": ["full", "tied", "diag", "spherical"],
        "reg_covar": [1e-6],
        "n_jobs": [2, -1, None],
        "max_iter": [100],
        "tol": [1e-3],
        "k": [3],
        "K": [3],
        "n_clusters": [3],
        "init": ["k-means++", "random"],
        "init_params": ["kmeans", "k-means++", "random", "random_from_data"],
        "weight_concentration_prior": [0.5],
        "weight_concentration_prior_type": ["dirichlet_process"],
        "alpha": [2.0],
        "batch_size": [1024],
        "seed": [0],
        "verbose_interval": [10],
        "verbose": [0, 1],
    },
    "GroupedMixture": {"covariance_type": ["diag"], "n_jobs": [2], "max_iter": [5], "n_clusters": [2], "seed": [1]},
    "TopicModel": {
        "n_topics": [3],
        "num_topics": [3],
        "doc_topic_prior": [0.1],
        "topic_word_prior": [0.01],
        "learning_method": ["online", "batch"],
        "max_iter": [10],
        "n_jobs": [1],
        "passes": [3],
    },
    "BayesianHierarchy": {
        "n_clusters": [3],
        "linkage": ["ward"],
        "metric": ["euclidean"],
        "covariance_type": ["full"],
        "n_jobs": [2],
    },
}


@pytest.mark.parametrize(
    ("estimator", "keyword", "value"),
    [(name, key, value) for name, table in KEYWORDS.items() for key, values in table.items() for value in values],
)
def test_keywords_of_scikit_learn(estimator, keyword, value):
    message = message_of(f"{estimator}({keyword}={value!r})")
    line = line_of(message)
    model = typed(line)
    assert type(model).__name__ == estimator
    settings = {name: given for name, given in QUICK.items() if name in model.get_params() and f"{name}=" not in line}
    if "n_components" not in line and "weights" not in line:
        settings["n_components"] = 2
    options = {"groups": GROUPS} if estimator == "GroupedMixture" else {}
    model.set_params(**settings).fit(COUNTS if estimator == "TopicModel" else X, **options)
    with pytest.raises(ValueError, match=re.escape(message)):  # scikit-learn's word for the same is an error of values
        typed(f"{estimator}()").set_params(**{keyword: value})


ATTRIBUTES = {
    "Mixture": [
        "means_",
        "cluster_centers_",
        "covariances_",
        "aic",
        "inertia_",
        "lower_bound_",
        "decision_function",
    ],
    "GroupedMixture": ["means_", "cluster_centers_", "lower_bound_", "bic", "decision_function", "top_words"],
    "TopicModel": ["bound_", "exp_dirichlet_component_", "doc_topic_prior_", "print_topics", "bic"],
    "BayesianHierarchy": ["cluster_centers_", "covariances_", "distances_", "inertia_", "bic", "top_words"],
}


@pytest.fixture(scope="module")
def fitted():
    return {
        "Mixture": Mixture("gaussian_diag", 2, n_steps=3, random_state=0).fit(X),
        "GroupedMixture": GroupedMixture("gaussian", 2, n_steps=3, random_state=0).fit(X, groups=GROUPS),
        "TopicModel": TopicModel(2, n_steps=3, random_state=0).fit(COUNTS),
        "BayesianHierarchy": BayesianHierarchy("gaussian_diag").fit(X),
    }


@pytest.mark.parametrize(("estimator", "name"), [(key, name) for key, names in ATTRIBUTES.items() for name in names])
def test_attributes_of_scikit_learn(fitted, estimator, name):
    model = fitted[estimator]
    with pytest.raises(AttributeError) as caught:
        getattr(model, name)
    data = COUNTS if estimator == "TopicModel" else X
    assert typed(line_of(str(caught.value)), model=model, X=data, groups=GROUPS) is not None
    assert not hasattr(model, name)
    assert name not in dir(model)


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_centres_are_named_as_the_family_names_them(family):
    model = Mixture(family, 2, n_steps=2, random_state=0).fit(NAMES["binary"])
    with pytest.raises(AttributeError) as caught:
        _ = model.cluster_centers_
    assert typed(line_of(str(caught.value)), model=model).shape[1] == 4


def test_hints_leave_the_rest_as_it_is(fitted):
    for model in fitted.values():
        with pytest.raises(AttributeError, match="object has no attribute 'zzz'"):
            _ = model.zzz
        again = pickle.loads(pickle.dumps(model))
        assert again.get_params().keys() == model.get_params().keys()
        assert not hasattr(clone(model), "labels_")
    with pytest.raises(AttributeError, match="no roles: the model was fitted to numbers alone"):
        _ = fitted["Mixture"].roles_
    assert not hasattr(Mixture(), "means_")
    with pytest.raises(ValueError, match="has no keyword 'zzz'"):
        Mixture().set_params(zzz=1)
    assert Mixture("poisson").set_params(n_components=4).n_components == 4


# ---- limits and seeds ------------------------------------------------------------------------------------------------


def test_the_advised_memory_is_enough():
    call = "Mixture('poisson', 2, sampler='fastex', n_steps=2, random_state=0, memory_limit={}).fit(C)"
    advice = re.search(r"write (memory_limit='[^']+')", message_of(call.format("1000")))[1]
    typed(call.replace("memory_limit={}", advice))
    for n_rows in (10**3, 10**6, 10**9):
        forecast = forecast_sizes("gaussian", n_rows=n_rows, n_features=30)
        with pytest.raises(ResourceError) as caught:
            check_memory(forecast, 1)
        check_memory(forecast, re.search(r"write memory_limit='([^']+)'", str(caught.value))[1])


@pytest.mark.parametrize("high", [1e-3, 0.4, 59.0, 3e3, 1e6])
def test_the_advised_time_is_enough(high):
    duration = Duration(low=high / 2, high=high, probe_rows=10, probe_seconds=1e-4, n_steps=3)
    with pytest.raises(ResourceError) as caught:
        check_duration(duration, 1e-9)
    check_duration(duration, re.search(r"write time_limit='([^']+)'", str(caught.value))[1])


def test_seeds():
    np.random.seed(5)  # noqa: NPY002
    first = resolve_seed(np.random)
    np.random.seed(5)  # noqa: NPY002
    assert resolve_seed(np.random) == first == resolve_seed(np.random.RandomState(5))
    assert resolve_seed(np.random) != first
    for estimator in (Mixture("poisson", 2, n_steps=2), TopicModel(2, n_steps=2)):
        results = []
        for _ in range(2):
            np.random.seed(3)  # noqa: NPY002
            results.append(clone(estimator).set_params(random_state=np.random).fit(COUNTS).log_joint_)
        assert results[0] == results[1]
    for wrong in ("0", -3, 2**70, 1.5):
        keyword = re.search(
            r"write (random_state=\d+)$", message_of(f"Mixture('poisson', 2, random_state={wrong!r}).fit(C)")
        )[1]
        typed(f"Mixture('poisson', 2, n_steps=2, {keyword}).fit(C)")


# ---- lines about data, files and chunks ------------------------------------------------------------------------------


CALLS = {
    "groups": ("GroupedMixture('poisson', 2, n_steps=2).fit(C)", "model.{}", GroupedMixture("poisson", 2, n_steps=2)),
    "chunks of groups": ("GroupedMixture('poisson', 2).partial_fit(C, groups=groups)", "{}", None),
    "chunks of documents": ("TopicModel(2, sampler='gibbs').partial_fit(C)", "{}", None),
    "chunks": ("Mixture('poisson', 2, sampler='gibbs').partial_fit(C)", "{}", None),
    "learned from chunks": (
        "Mixture('poisson', 2, sampler='variational', learn_hyper=True).partial_fit(C)",
        "{}.partial_fit(C)",
        None,
    ),
    "classes": ("Mixture('poisson', 2, n_steps=2).fit(C).predict_class(C)", "{}", None),
    "alpha": ("TopicModel(2, alpha='learned').fit(C)", "{}.fit(C)", None),
    "chains": (
        "Mixture('poisson', 2, sampler='em', n_chains=3).fit(C)",
        "{}.fit(C)",
        None,
    ),
    "leaves": (
        "BayesianHierarchy('gaussian_diag', 5, start=labels).fit(X)",
        "{}.fit(X)",
        None,
    ),
    "levels": (
        "Categorical().bind([[0, 1], [1, 0]]).validate([[0.0, 3.0]])",
        "{}.bind([[0, 1], [1, 0]]).validate([[0.0, 3.0]])",
        None,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_lines_about_data_and_chunks(name):
    call, use, model = CALLS[name]
    with_classes = {"X": COUNTS, "y": GROUPS, "groups": GROUPS}
    line = line_of(message_of(call))
    assert typed(use.format(line), model=model, start=NAMES["labels"], **with_classes) is not None


def read_line(message):
    return re.search(r"\bread\('.*?\)", message)[0]


def test_lines_about_files(tmp_path):
    np.savez(tmp_path / "two.npz", a=X, b=X)
    (tmp_path / "zero.svm").write_text("1 0:5 2:6\n")
    (tmp_path / "one.svm").write_text("1 1:5 2:6\n")
    np.save(tmp_path / "large.npy", X)
    (tmp_path / "large.mtx").write_text("%%MatrixMarket matrix array real general\n3 1\n1.0\n2.0\n3.0\n")
    for file, options in [
        ("two.npz", ""),
        ("zero.svm", ", zero_based=False"),
        ("one.svm", ", n_features=1, zero_based=True"),
        ("large.mtx", ", memory_limit=1"),
    ]:
        with pytest.raises(DataError) as caught:
            typed(f"read({str(tmp_path / file)!r}{options})", read=read)
        assert typed(read_line(str(caught.value)), read=read).X.shape[0] in (1, 3, 30)
    with pytest.warns(DataWarning, match="counted from 1") as warned:
        read(tmp_path / "one.svm")
    assert typed(read_line(str(warned[0].message)), read=read).X.shape == (1, 3)


def test_the_faster_sampler_of_a_slow_fit(monkeypatch):
    monkeypatch.setattr(slow_fits, "_MOST_MOVES", 10)
    with pytest.warns(DataWarning, match="is many times faster") as warned:
        Mixture("exponential", 2, sampler="gibbs", n_steps=2, random_state=0).fit(COUNTS + 0.5)
    line = line_of(str(warned[0].message))
    assert line.startswith("Mixture(family='exponential', n_components=2, sampler=")
    typed(line).fit(COUNTS + 0.5)


def test_the_steps_of_a_run_that_was_still_rising(monkeypatch):
    monkeypatch.setattr("expfam.samplers.chain.callbacks.Plateau.__call__", lambda self, info, state: False)
    with pytest.warns(ConvergenceWarning, match="still rising") as warned:
        first = Mixture("gaussian_diag", 2, n_warmup=2, random_state=0).fit(COUNTS)
    assert line_of(str(warned[0].message)).startswith("Mixture(family='gaussian_diag', n_components=2, n_steps=")
    assert typed(line_of(str(warned[0].message))).fit(COUNTS).n_iter_ > 3 * first.n_iter_


# ---- arguments of methods --------------------------------------------------------------------------------------------

MODELS = {
    "Mixture": "Mixture('poisson', 2, n_steps=2, random_state=0)",
    "GroupedMixture": "GroupedMixture('poisson', 2, n_steps=2, random_state=0)",
    "TopicModel": "TopicModel(2, n_steps=2, random_state=0)",
    "BayesianHierarchy": "BayesianHierarchy('poisson')",
}
OF_METHODS = {"sample_weight": np.ones(30), "links": np.arange(30) // 2, "y": GROUPS, "classes": np.arange(3)}
SESSION = {"X": COUNTS, "groups": GROUPS, "given": [0], **OF_METHODS}


def model_of(estimator, method):
    model = typed(MODELS[estimator])
    if method in ("partial_fit", "fit_chunks") and estimator != "BayesianHierarchy":
        model.set_params(sampler="variational")
    return model


def untaken():
    """Estimators, methods, and arguments that only other estimators or methods take."""
    methods = ["fit", "fit_chunks", "partial_fit", "predict", "score_samples", "score", "transform"]
    for estimator, method in product(MODELS, methods):
        found = getattr(model_of(estimator, method), method) if hasattr(typed(estimator), method) else None
        taken = () if found is None else inspect.signature(found).parameters
        for name in ["groups", "links", "sample_weight", "given", "classes", "y"] if found else []:
            if name not in taken:
                yield estimator, method, name


@cache
def works(line):
    """Whether a line gives something in the session; many messages have the same line."""
    return typed(line, **SESSION) is not None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "method", "name"), list(untaken()))
def test_arguments_that_a_method_does_not_take(estimator, method, name):
    with pytest.raises(TypeError, match=rf"{estimator}\.{method} takes no {name}") as caught:
        getattr(model_of(estimator, method), method)(COUNTS, **{name: SESSION[name]})
    line = str(caught.value).partition("write ")[2].partition(", wh")[0].partition(", the density")[0]
    assert works(line)


def test_arguments_with_a_typing_error():
    with pytest.raises(TypeError, match=re.escape("Mixture.fit takes no sample_weights; did you mean 'sample_weight'")):
        Mixture().fit(COUNTS, sample_weights=np.ones(30))
    with pytest.raises(TypeError, match=re.escape("Mixture.predict takes no zzz (it takes X)")):
        Mixture().predict(COUNTS, zzz=1)


# ---- lines about kernels, families and results -----------------------------------------------------------------------

MORE = {
    "classes on sticks": "Mixture('poisson', labels='clusters', sampler='variational').fit(X, y)",
    "classes on fixed sticks": "Mixture('poisson', labels='clusters', sampler='uncollapsed_gibbs').fit(X, y)",
    "classes that a sampler does not take": "Mixture('poisson', 3, labels='classes', sampler='em').fit(X, y)",
    "more classes than clusters": "Mixture('poisson', 2, labels='clusters').fit(X, y)",
    "truncation": "Mixture('poisson', sampler=UncollapsedGibbs(truncation=0)).fit(X)",
    "memo": "Mixture('poisson', 3, sampler=SparseVariational(memo='rows', n_active=3)).fit(X)",
    "start of a hierarchy": "HierarchicalClustering().init(model, data, start='random')",
    "duplicates with labels": "HierarchicalClustering(duplicates='collapse').init(model, data, start=labels)",
    "no draws": "Mixture('poisson', 2, partition='vi', n_draws=0, n_steps=2).fit(X)",
    "no draws by EM": "Mixture('poisson', 2, sampler='em', n_steps=2).fit(X).posterior_",
    "classes of chunks": "Mixture('poisson', 3, labels='classes', sampler='variational').partial_fit(X, y)",
    "room for all": "merge([narrow, narrow], clusters='apart')",
    "seeds without names": "TopicModel(2, seeds={0: ['goal']}).fit(X)",
    "labels of a file": "load(path).labels_",
    "family of a posterior": "PartitionPosterior([labels, labels]).parameters(X)",
    "kind of variance": "SphericalGaussian(variance='shared').bind(X).with_hyper(variance=2.0)",
    "kind of kappa": "VonMisesFisher(kappa=3.0, shared_kappa=1.0)",
    "whole counts": "split_documents(X + 0.5, unit='token')",
}


KERNELS = ("UncollapsedGibbs", "SparseVariational", "HierarchicalClustering")


@pytest.mark.parametrize("name", MORE)
def test_lines_about_kernels_families_and_results(name, tmp_path):
    names = {
        **SESSION,
        **{
            each: getattr(samplers, each)
            for each in ("UncollapsedGibbs", "SparseVariational", "HierarchicalClustering")
        },
        "model": MixtureModel(Poisson(), DirichletProcess()),
        "data": COUNTS,
        "labels": np.arange(30) % 2,
        "few": Mixture("poisson", 2, n_steps=2, random_state=0).fit(COUNTS),
        "narrow": Mixture("poisson", 2, n_steps=2, random_state=0).fit(COUNTS + 30 * GROUPS[:, None] % 60),
        "merge": merge,
        "load": Mixture.load,
        "PartitionPosterior": PartitionPosterior,
        "split_documents": split_documents,
        "path": tmp_path / "model.expfam",
        "family": Poisson(),
        "posterior": PartitionPosterior([np.arange(30) % 2] * 2),
    }
    names["few"].save(names["path"])
    with pytest.raises((ValueError, AttributeError, TypeError)) as caught:
        typed(MORE[name], **names)
    line = line_of(str(caught.value))
    if "model.save" in line:
        names["model"] = names["few"]
    if "models" in line:
        names["models"] = [names["few"], names["few"]]
    found = typed(line, **names)
    if isinstance(found, Mixture) and not hasattr(found, "labels_"):
        settings = {"family": "poisson", "n_components": found.n_components or 3, "n_steps": 2}
        assert len(found.set_params(**settings).fit(COUNTS, GROUPS if found.labels else None).n_) <= 3
