"""Keywords and attributes of other libraries, with the lines that do the same here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from expfam.estimators.known_doubts import OF_DOUBTS
from expfam.estimators.lines import arguments_of, call_of, completed, settings_of, text_of
from expfam.near_names import did_you_mean

_COMPONENTS = "K k n_clusters n_topics n_components n_mixtures num_topics num_clusters clusters components topics"
_SHOWN = "verbose verbosity verbose_interval progress progress_bar show_progress"
_FAMILIES = {"full": "gaussian", "tied": "gaussian", "diag": "gaussian_diag", "spherical": "gaussian_spherical"}
_STARTS = {"k-means++": "kmeans++", "kmeans": "kmeans", "random": "random", "random_from_data": "random"}

_Keywords = dict[str, Callable[[Any], str]]  # name: value to the arguments that take its place


def _renamed(name: str) -> Callable[[Any], str]:
    return lambda value: f"{name}={value!r}"


def _named(words: str, arguments: Callable[[Any], str]) -> _Keywords:
    return dict.fromkeys(words.split(), arguments)


_OF_ALL: _Keywords = {
    **_named(_COMPONENTS, _renamed("n_components")),
    "n_jobs": lambda value: f"n_threads={value!r}",
    **_named("seed rng random_seed", _renamed("random_state")),
    **_named(_SHOWN, lambda value: f"callbacks={'progress' if value else None!r}"),
}
_WITH_STEPS: _Keywords = {
    **_named("max_iter n_iter n_iterations iterations num_iterations max_steps epochs passes", _renamed("n_steps")),
    **_named("tol n_iter_no_change", lambda value: "n_steps='auto'"),
    **_named("batch_size learning_method", lambda value: "sampler='variational'"),
    **_named("burn_in burnin n_burn warmup tune", _renamed("n_warmup")),
}
_WITH_ROWS: _Keywords = {
    "covariance_type": lambda value: f"family={_FAMILIES.get(str(value), 'gaussian')!r}",
    **_named("init init_params", lambda value: f"start={_STARTS.get(str(value), 'auto')!r}"),
    "n_init": lambda value: "start='auto'",  # which tries several and keeps the best
    **_named("likelihood distribution model", _renamed("family")),
}
_KEYWORDS: Mapping[str, _Keywords] = {
    "Mixture": {
        **_WITH_STEPS,
        **_WITH_ROWS,
        **_named("alpha concentration weight_concentration_prior", lambda value: f"weights=DirichletProcess({value})"),
        "weight_concentration_prior_type": lambda value: "weights=DirichletProcess()",
        **_named("chains num_chains", _renamed("n_chains")),
        **_named("draws num_samples num_draws", _renamed("n_draws")),
        "reg_covar": lambda value: "family='gaussian'",
    },
    "GroupedMixture": {**_WITH_STEPS, **_WITH_ROWS},
    "TopicModel": {
        **_WITH_STEPS,
        **_named("doc_topic_prior theta_prior", _renamed("alpha")),
        **_named("topic_word_prior beta", _renamed("eta")),
        "id2word": _renamed("vocabulary"),
        **_named("draws num_samples num_draws", _renamed("n_draws")),
        **_named("init init_params", lambda value: "start='auto'"),
    },
    "BayesianHierarchy": {
        **_WITH_ROWS,
        **_named("linkage metric affinity method criterion", lambda value: "family='gaussian_diag'"),
    },
}


def unknown_keyword(
    owner: type,
    name: str,
    given: Mapping[str, Any],
    known: Iterable[str],
    own: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the message about a keyword that an estimator does not have.

    Parameters
    ----------
    owner : type
        Class of the estimator.
    name : str
    given : mapping of str to object
        All arguments that were given, by name; the line keeps them.
    known : iterable of str
        Keywords that the estimator has.
    own : mapping of str to str, optional
        Texts of the settings that the estimator has already.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.estimators.foreign_names import unknown_keyword
    >>> unknown_keyword(Mixture, "max_iter", {"max_iter": 20, "n_clusters": 3}, ["n_components", "n_steps"])
    "Mixture has no keyword 'max_iter': write Mixture(n_components=3, n_steps=20)"
    """
    known = list(known)
    if name == "labels":
        return (
            f"{owner.__name__} has no keyword 'labels': Mixture(labels='clusters') and Mixture(labels='classes') use"
            " the classes of some rows"
        )
    texts = _translated(owner, given, known, own)
    if name in _OF_FRAMES:
        return f"{owner.__name__} has no keyword {name!r}: {_of_frames(owner, name, given[name], known, texts)}"
    instead = arguments_for(owner, name, given[name])
    if instead is not None and instead.partition("=")[0] in known:
        return f"{owner.__name__} has no keyword {name!r}: write {call_of(owner.__name__, known, texts)}"
    return f"{owner.__name__} has no keyword {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})"


def _translated(owner, given, known, own):
    """Return the texts of all arguments, those of other libraries in the words of this one."""
    texts = dict(own) | {name: text_of(name, value) for name, value in given.items() if name in known}
    for name, value in given.items():
        instead = None if name in known else arguments_for(owner, name, value)
        if instead is None:
            continue
        new, _, text = instead.partition("=")
        if new in known and texts.get(new, "'auto'") == "'auto'":
            texts[new] = text
    if "n_components" in texts and texts.get("weights", "").startswith("DirichletProcess("):  # at most so many
        alpha = texts["weights"].removeprefix("DirichletProcess(").removesuffix(")")
        texts["weights"] = f"SymmetricDirichlet({texts['n_components']}{', ' * bool(alpha)}{alpha})"
    return texts


# ---- keywords of tables ----------------------------------------------------------------------------------------------

# what belongs to the columns of a table, and the argument of `Columns.from_frame` that says it
_OF_FRAMES = {
    **dict.fromkeys(("missing_values", "missing_value", "na_values", "null_values"), "missing_values"),
    **dict.fromkeys(("roles", "role", "column_roles", "column_types"), "roles"),
    **dict.fromkeys(("missing", "nan_policy", "missing_data"), "missing"),
    **dict.fromkeys(("categorical_features", "categorical", "cat_features", "cat_cols", "categories"), "category"),
    "max_levels": "max_levels",
    "holes": "missing",
}


def _of_frames(owner, name, value, known, texts):
    """Return the line that says it of the columns of a table."""
    argument = _OF_FRAMES[name]
    if argument == "category":
        names = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else []
        argument, value = "roles", {each: "category" for each in names if isinstance(each, str)}
    if argument == "roles" and not (value and isinstance(value, (dict, list))):
        value = {"NAME": "category"}
    if argument == "missing" and not (isinstance(value, str) and value in ("ignorable", "informative")):
        value = "informative"
    family = f"Columns.from_frame(df, {argument}={text_of(argument, value)})"
    if "family" not in known:
        line = f"Mixture({family}).fit(df)"
        return (
            f"it takes counts, of which none is missing; a mixture reads tables: write {line}, with the data frame df"
        )
    line = call_of(owner.__name__, known, dict(texts) | {"family": family}, n_unnamed=1)
    groups = ", groups=groups" * (owner.__name__ == "GroupedMixture")
    return f"it belongs to the columns of a table: write {line}.fit(df{groups}), with the data frame df"


def arguments_for(owner: type, name: str, value: Any) -> str | None:
    """Return the arguments that do what a keyword of another library does, or None.

    Parameters
    ----------
    owner : type
        Class of the estimator.
    name : str
        The keyword.
    value : object
        Its value.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.estimators.foreign_names import arguments_for
    >>> arguments_for(Mixture, "covariance_type", "diag")
    "family='gaussian_diag'"
    """
    arguments = _table(owner, _KEYWORDS).get(name, _OF_ALL.get(name))
    return None if arguments is None else arguments(value)


# ---- arguments of methods --------------------------------------------------------------------------------------------

_ARGUMENTS = {  # of methods that do not take them: a line with one that does, and what it is for
    "groups": "GroupedMixture(n_components=10).fit(X, groups=groups), where groups of rows share their clusters",
    "links": "Mixture().fit(X, links=links), which keeps linked rows in one cluster",
    "sample_weight": "Mixture(n_components=10, sampler='em').fit(X, sample_weight=sample_weight)",
    "given": "Mixture().fit(X).score_samples(X, given=[0]), the density of the other columns given these",
    "classes": "Mixture(n_components=len(classes), sampler='variational', labels='clusters').partial_fit(X, y,"
    " classes=classes)",
    "y": "Mixture(n_components=None, labels='classes').fit(X, y).predict_class(X), which learns the classes of rows",
}


def unknown_argument(estimator: Any, method: str, name: str, value: Any, known: Iterable[str]) -> str:
    """Return the message about an argument that a method of an estimator does not take.

    Parameters
    ----------
    estimator : Estimator
        The line to type keeps its settings.
    method, name : str
    value : object
        Value that was given.
    known : iterable of str
        Arguments that the method takes.

    Examples
    --------
    >>> from expfam import GroupedMixture
    >>> from expfam.estimators.foreign_names import unknown_argument
    >>> unknown_argument(GroupedMixture("poisson", 3), "score", "sample_weight", [2, 1], ["X"])
    "GroupedMixture.score takes no sample_weight: write Mixture(family='poisson', n_components=3, sampler='em').fit(X, \
sample_weight=sample_weight)"
    """
    known, owner = list(known), type(estimator)
    told = f"{owner.__name__}.{method} takes no {name}"
    if name in _OF_FRAMES:
        return f"{told}: {_of_frames(owner, name, value, arguments_of(owner), settings_of(estimator))}"
    if name in _ARGUMENTS and not any(name in each for each in known):
        return completed(f"{told}: write {_ARGUMENTS[name]}", estimator)
    return f"{told}{did_you_mean(name, known)} (it takes {', '.join(known)})"


# ---- attributes ------------------------------------------------------------------------------------------------------

_CENTRES = ("params_['mean']", "params_['rate']", "params_['probability']")
_WIDTHS = ("params_['covariance']", "params_['variance']")
_SCORES = ("score(X)",)
_ATTRIBUTES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Estimator": {
        **dict.fromkeys(("means_", "cluster_centers_", "centers_", "centroids_"), _CENTRES),
        **dict.fromkeys(("covariances_", "covars_", "variances_"), _WIDTHS),
        **dict.fromkeys(("score_sample", "log_likelihood"), _SCORES),
        "top_words": ("clusters_",),
        **dict.fromkeys(("inertia_", "lower_bound_", "bound_", "loss_"), ("log_joint_",)),
        "decision_function": ("predict_proba(X)",),
        **dict.fromkeys(("lower_bounds_", "loss_curve_", "history_"), ("trace_.column('objective')",)),
    },
    "Mixture": {
        "weight_concentration_": ("weights_",),
    },
    "TopicModel": {
        "exp_dirichlet_component_": ("components_",),
        "doc_topic_prior_": ("alpha_",),
        "topic_word_prior_": ("eta_",),
        **dict.fromkeys(("print_topics", "show_topics", "get_topics", "get_topic_words"), ("top_words()",)),
    },
    "GroupedMixture": {
        "decision_function": ("predict_proba(X, groups=groups)",),
        **dict.fromkeys(("score_sample", "log_likelihood"), ("score(X, groups=groups)",)),
    },
    "BayesianHierarchy": {
        **dict.fromkeys(("distances_", "linkage_", "linkage"), ("linkage_matrix()",)),
        **dict.fromkeys(("inertia_", "lower_bound_"), ("log_evidence_",)),
        "n_clusters": ("n_clusters_",),
    },
}


_NO_PENALTY = (
    "its parameters are integrated out, so that their number needs no penalty: write model.log_joint_ to compare fits"
    " of one family to the same rows, or model.score({}) with rows that were left out to compare families"
)
_WITHOUT: Mapping[str, Mapping[str, str]] = {  # results that other estimators have: why there is none, and what to do
    "Estimator": {
        **dict.fromkeys(("bic", "aic"), _NO_PENALTY.format("X")),
        "classes_": "the fit used no classes of rows: write Mixture(labels='classes').fit(X, y)",
        "roles_": "only columns of a table have roles: write Mixture().fit(X) with a frame X",
    },
    "Mixture": {
        "aic": "its penalty does not grow with the rows, so that of many rows it finds too many clusters: write"
        " model.bic(X), or model.score(X) with rows that were left out",
    },
    "TopicModel": {
        "posterior_": "it keeps no draws of labels, and its topics are means over the counted sweeps: see trace_",
        "score_documents": "write document_completion(model.components_, model.alpha_, X, per='document')[0], after"
        " from expfam.evaluation.held_out import document_completion",
        "impute": "counts of words are never missing: write transform(X) for the topics of new documents",
        "sample": "the numbers of words of documents are no part of it: draw from params_['probability']",
    },
    "GroupedMixture": {
        **dict.fromkeys(("bic", "aic"), _NO_PENALTY.format("X, groups=groups")),
        "posterior_": "it keeps no draws of labels: write Mixture(n_draws=100).fit(X) for rows without their groups",
    },
    "BayesianHierarchy": {
        "posterior_": "it is one tree, without draws: log_odds_ has the odds of each merge",
        "trace_": "its steps are the merges of the tree: log_odds_ has the odds of each",
        "coarsen": "the tree has a cut into each number of clusters: write BayesianHierarchy(n_components=3).fit(X)",
    },
}


def lacks_after_chunks(estimator: Any, name: str) -> str | None:
    """Return why an estimator that has learned chunks lacks an attribute, or None."""
    owner, given = type(estimator).__name__, estimator.__dict__
    if "stream_" in given and name in OF_DOUBTS and "classes_" in given:
        return (
            f"this {owner} has learned chunks, whose rows are not kept, so that it has no {name}; for the rows of a"
            " chunk with classes y, write np.flatnonzero((y != -1) & (model.predict_class(X) != y))"
        )
    if "stream_" in given and name == "labels_":  # of a TopicModel; mixtures have those of the last chunk
        return (
            f"this {owner} has learned chunks, whose rows are not kept, so that it has no labels_; for the rows of a"
            " chunk X, write model.predict(X)"
        )
    if "stream_" in given and name == "probabilities_":
        return (
            f"this {owner} has learned chunks, whose rows are not kept, so that it has no probabilities_; they come"
            " with fit"
        )
    return None


def missing_attribute(estimator: Any, name: str) -> str | None:
    """Return the message about an attribute that an estimator lacks; None for other names.

    It is one of another library, or a result of other estimators. Of several lines the first one that works on a fitted
    estimator is named.
    """
    why = _table(type(estimator), _WITHOUT).get(name, _WITHOUT["Estimator"].get(name))
    if why is not None:
        return f"{type(estimator).__name__} has no {name}: {why}"
    lines = _table(type(estimator), _ATTRIBUTES).get(name, _ATTRIBUTES["Estimator"].get(name))
    if lines is None:
        return None
    line = next((each for each in lines if _has_parameter(estimator, each)), lines[0])
    return f"{type(estimator).__name__} has no attribute {name!r}: write model.{line}, where `model` is the fitted one"


def _has_parameter(estimator, line):
    """Return whether a line is about a usual parameter that the clusters have."""
    if not line.startswith("params_["):
        return False
    try:
        return line.removeprefix("params_['").removesuffix("']") in estimator.params_
    except (AttributeError, ValueError, TypeError):  # not fitted, or a family without usual parameters
        return False


def _table(owner, tables):
    """Return the table of the class, or of the nearest base that has one."""
    return next((tables[base.__name__] for base in owner.__mro__ if base.__name__ in tables), {})
