"""Lines to type keep the settings of the user, and what belongs to the rows; each line is typed."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import expfam
from expfam import (
    BayesianHierarchy,
    Columns,
    DiagonalGaussian,
    DirichletProcess,
    GroupedMixture,
    Mixture,
    NegativeBinomial,
    Poisson,
    SymmetricDirichlet,
    TopicModel,
)
from expfam.errors import DataError, ExpFamError
from expfam.estimators.lines import changes_alone, completed, line_of, text_of
from expfam.estimators.row_lines import aligned
from expfam.model.groups import Groups
from expfam.samplers import CollapsedGibbs, Cycle, FastEx, GroupedVariational, SplitMerge, TopicVariational

N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)) + 5.0 * (np.arange(N) % 2)[:, None]
COUNTS = RNG.poisson(3.0, (N, 4))
GROUPS = np.arange(N) // 10
HALVES = np.arange(N) % 2
ODD = 100 + np.arange(N)[::-1]  # an index that is no place
BAD = 7
HOLE = np.where((np.arange(N) == BAD)[:, None] & (np.arange(3) == 1), np.nan, X)
HUGE = np.where(np.isnan(HOLE), np.inf, HOLE)
PUBLIC = {name: getattr(expfam, name) for name in expfam.__all__} | {"FastEx": FastEx, "numpy": np, "pandas": pd}


def message_of(call):
    with pytest.raises((ExpFamError, ValueError, TypeError, AttributeError)) as caught:
        call()
    return str(caught.value)


def made(message, **names):
    """What the first call after the word "write" makes."""
    begin = re.search(r"\b[Ww]rite (?=[A-Z])", message).end()
    stop = begin + message[begin:].index("(") + 1
    while message[begin:stop].count("(") > message[begin:stop].count(")"):
        stop += 1
    return eval(message[begin:stop], PUBLIC | names)  # the line of a message, which is ours


# ---- settings --------------------------------------------------------------------------------------------------------


def no_callback(info, state):
    return False


SETTINGS = {
    "numbers": {"n_components": 3, "n_steps": 7, "random_state": 1, "callbacks": "progress", "n_threads": 2},
    "prior": {"weights": SymmetricDirichlet(4, 0.5), "family": NegativeBinomial(), "memory_limit": "1GB"},
    "arguments of a family": {"family": Poisson(shape=2.0, rate=0.5), "n_components": np.int64(2)},
    "values without a text": {"family": "poisson", "n_components": 2, "start": HALVES, "callbacks": [no_callback]},
    "a bound family": {"family": Poisson().bind(COUNTS), "n_components": 2},
    "columns": {"family": Columns([(Poisson(), range(4))]), "n_components": 2},
}


def same(one, other):
    found, asked = one.get_params(deep=False), other.get_params(deep=False)
    return [name for name in asked if name != "sampler" and text_of("", found[name]) != text_of("", asked[name])]


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("sampler", ["gibbs", "auto", FastEx(mode="crossfit"), Cycle(SplitMerge(), CollapsedGibbs())])
def test_the_sampler_that_learns_chunks_keeps_the_settings(name, sampler):
    mixture = Mixture(sampler=sampler, **SETTINGS[name])
    other = made(message_of(lambda: mixture.partial_fit(COUNTS)), **mixture.get_params(deep=False))
    assert same(other, mixture) == []
    assert other.partial_fit(COUNTS).n_components_ <= 4
    assert "fit_chunks" not in dir(mixture)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (GroupedMixture("poisson", 3, sampler="gibbs", alpha=0.5, random_state=2), {"groups": GROUPS}),
        (GroupedMixture("poisson", None, random_state=2), {"groups": GROUPS}),
        (TopicModel(3, sampler="gibbs", alpha=0.2, eta=0.1, random_state=2), {}),
        (TopicModel(None, sampler="gibbs", eta=0.1, random_state=2), {}),
        (Mixture("poisson", 2, learn_hyper=True, random_state=2), {}),
        (Mixture("poisson", 2, sampler="variational", learn_hyper=True, random_state=2), {}),
    ],
)
def test_chunks_of_other_estimators(model, given):
    other = made(message_of(lambda: model.partial_fit(COUNTS, **given)))
    assert set(same(other, model)) <= {"n_components", "learn_hyper"}
    assert other.n_components == model.n_components or model.n_components is None
    other.partial_fit(COUNTS, **given)


FULL = {"random_state": 3, "n_threads": 2, "n_steps": 4}
CALLS = {
    "another number": (Mixture("poisson", 4, weights=SymmetricDirichlet(3), **FULL), lambda m: m.fit(COUNTS)),
    "a prior by name": (Mixture("poisson", weights="dp", **FULL), lambda m: m.fit(COUNTS)),
    "a finite prior by name": (Mixture("poisson", 4, weights="dirichlet", **FULL), lambda m: m.fit(COUNTS)),
    "a sampler by another name": (Mixture(Poisson(rate=0.5), 2, sampler="Gibs", **FULL), lambda m: m.fit(COUNTS)),
    "a number as a family": (Mixture(3, **FULL), lambda m: m.fit(X)),
    "a family by another name": (Mixture("normal", 3, **FULL), lambda m: m.fit(X)),
    "chains": (
        Mixture("poisson", 2, sampler="em", n_chains=2, start=["one", "random"], **FULL),
        lambda m: m.fit(COUNTS),
    ),
    "draws": (Mixture("poisson", 2, partition="vi", n_draws=0, **FULL), lambda m: m.fit(COUNTS)),
    "classes": (Mixture("poisson", 2, labels="clusters", sampler="fastex", **FULL), lambda m: m.fit(COUNTS, GROUPS)),
    "more classes": (Mixture("poisson", 2, labels="clusters", **FULL), lambda m: m.fit(COUNTS, GROUPS)),
    "holes": (Mixture("gaussian", 2, **FULL), lambda m: m.fit(HOLE)),
    "weights": (TopicModel(3, sampler="gibbs", **FULL), lambda m: m.fit(COUNTS, sample_weight=np.full(N, 2.0))),
    "weights of an unknown number": (
        TopicModel(None, sampler="gibbs", **FULL),
        lambda m: m.fit(COUNTS, sample_weight=np.full(N, 2.0)),
    ),
    "topics of an unknown number": (TopicModel(None, sampler=TopicVariational(), **FULL), lambda m: m.fit(COUNTS)),
    "groups of an unknown number": (
        GroupedMixture("poisson", None, sampler=GroupedVariational(), **FULL),
        lambda m: m.fit(COUNTS, groups=GROUPS),
    ),
    "no groups": (GroupedMixture("poisson", 3, **FULL), lambda m: m.fit(COUNTS)),
    "leaves": (
        BayesianHierarchy("gaussian_diag", 5, start=HALVES, random_state=3, cut="odds"),
        lambda m: m.fit(X),
    ),
}
MENDED = {"no groups": lambda m: m.fit(COUNTS)}  # by another estimator


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_a_line_mends_the_fault_and_keeps_the_rest(name):
    model, call = CALLS[name]
    message = message_of(lambda: call(model))
    other = made(message, **model.get_params(deep=False))
    assert other.random_state == 3, message
    if type(other) is type(model):
        assert len(same(other, model)) <= 3, message
        assert getattr(other, "n_threads", 2) in (2, None)
    if name == "more classes":
        assert other.n_components == 4
    assert MENDED.get(name, call)(other) is not None


@pytest.mark.filterwarnings("ignore")
def test_lines_of_attributes_and_warnings_keep_the_settings():
    model = Mixture("poisson", 2, n_steps=3, n_draws=0, random_state=5).fit(COUNTS)
    other = made(message_of(lambda: model.posterior_))
    assert (other.family, other.n_components, other.random_state) == ("poisson", 2, 5)
    assert other.fit(COUNTS).posterior_.n_draws > 0
    asked = made(
        message_of(lambda: Mixture("poisson", 3, sampler="em", random_state=5).fit(COUNTS).predict_class(COUNTS))
    )
    assert (asked.sampler, asked.n_components, asked.labels) == ("em", 3, "clusters")
    open_kinds = made(message_of(lambda: model.predict_class(COUNTS)))
    assert open_kinds.fit(COUNTS, GROUPS).predict_class(COUNTS).shape == (N,)


def test_lines_about_other_estimators_take_what_both_have():
    message = message_of(lambda: Mixture("poisson", 3, random_state=1).fit(COUNTS, groups=GROUPS))
    assert made(message).get_params(deep=False) == GroupedMixture("poisson", 3, random_state=1).get_params(deep=False)
    message = message_of(lambda: TopicModel(7, random_state=1).fit(COUNTS, links=GROUPS))
    assert "write Mixture(n_components=7, random_state=1).fit(X, links=links)" in message


def test_texts():
    assert text_of("a", [1.5, None, ("x",)]) == "[1.5, None, ('x',)]"
    assert text_of("family", DiagonalGaussian(mean=[0.0, 1.0])) == "DiagonalGaussian(mean=[0.0, 1.0])"
    for value in (np.zeros(3), np.random.default_rng(0), no_callback, Poisson, "x" * 100, [...], float("nan")):
        assert text_of("a", value) == "a"
    model = Mixture("poisson", 3)
    for text in ("write nothing(at all", "Mixture(sampler='em')", "write Mixture(sampler='em'", "write Mixture(a b)"):
        assert completed(text, model) == text
    with changes_alone():
        assert line_of(model, sampler="em") == "Mixture(sampler='em')"
        assert completed("write Mixture(sampler='em')", model) == "write Mixture(sampler='em')"


def test_bases_are_named_as_the_class_of_the_user():
    class Mine(Mixture):
        pass

    assert made(message_of(lambda: Mine("poisson", 3, sampler="gibs").fit(COUNTS)), Mine=Mine).n_components == 3


# ---- keywords --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"n_clusters": 3, "max_iter": 20, "random_state": 0}, {"n_components": 3, "n_steps": 20, "random_state": 0}),
        ({"tol": 1e-3, "max_iter": 20, "covariance_type": "full"}, {"n_steps": 20, "family": "gaussian"}),
        ({"n_components": 3, "alpha": 2.0}, {"n_components": 3, "weights": SymmetricDirichlet(3, 2.0)}),
        ({"weight_concentration_prior": 0.5, "n_components": 4}, {"weights": SymmetricDirichlet(4, 0.5)}),
        ({"weight_concentration_prior_type": "dirichlet_process"}, {"weights": DirichletProcess()}),
        ({"family": "poisson", "seed": 3, "n_jobs": 2}, {"family": "poisson", "random_state": 3, "n_threads": 2}),
    ],
)
def test_keywords_of_other_libraries_are_all_kept(given, kept):
    message = message_of(lambda: Mixture(**given))
    assert {name: made(message).get_params(deep=False)[name] for name in kept} == kept
    model = Mixture(n_chains=2)
    known = {name: value for name, value in given.items() if name in model.get_params(deep=False)}
    message = message_of(
        lambda: model.set_params(**known).set_params(**{k: v for k, v in given.items() if k not in known})
    )
    assert {name: made(message).get_params(deep=False)[name] for name in kept} == kept
    assert made(message).n_chains == 2


TABLE = pd.DataFrame({"a": X[:, 0], "b": np.where(HALVES > 0, "red", "blue"), "c": X[:, 1]})
TABLE.loc[3, "c"] = -99.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("owner", [Mixture, GroupedMixture, BayesianHierarchy, TopicModel])
@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("missing_values", [-99]),
        ("missing_values", "?"),
        ("na_values", {"c": [-99]}),
        ("roles", {"c": "real"}),
        ("roles", "count"),
        ("max_levels", 5),
        ("missing", "informative"),
        ("nan_policy", "omit"),
        ("categorical_features", ["b"]),
    ],
)
def test_keywords_of_tables(owner, keyword, value):
    settings = {"n_components": 2, "random_state": 4}
    table = TABLE.rename(columns={"b": "NAME"}) if (keyword, value) == ("roles", "count") else TABLE
    for call in (
        lambda: owner(**settings, **{keyword: value}),
        lambda: owner(**settings).fit(table, **{keyword: value}),
    ):
        message = message_of(call)
        line = re.search(r"write (.*), with the data frame df", message)[1]
        assert f"{keyword!r}" in message or f"takes no {keyword}" in message
        fitted = eval(line, PUBLIC | {"df": table, "groups": GROUPS})
        assert isinstance(fitted, Mixture if owner is TopicModel else owner)
        assert owner is TopicModel or (fitted.n_components, fitted.random_state) == (2, 4)
        if keyword in ("missing_values", "na_values") and value != "?":
            assert fitted.family.roles[2]["missing"] == 1


# ---- rows ------------------------------------------------------------------------------------------------------------


def frame(values):
    return pd.DataFrame(values, columns=list("abc"), index=ODD)


KINDS = {
    "array": lambda values: values,
    "list": lambda values: values.tolist(),
    "pandas": lambda values: pd.Series(values, index=ODD),
    "polars": pl.Series,
    "arrow": lambda values: pa.chunked_array([values[:9], values[9:]]),
}
LISTS_OF_ROWS = {
    "array": (HOLE, HUGE),
    "list": (HOLE.tolist(), HUGE.tolist()),
    "pandas": (frame(HOLE), frame(HUGE)),
    "polars": (pl.DataFrame(HOLE, schema=list("abc")), pl.DataFrame(HUGE, schema=list("abc"))),
    "arrow": (pa.table(dict(zip("abc", HOLE.T))), pa.table(dict(zip("abc", HUGE.T)))),
}


def typed_rows(message, **names):
    """The names after the statements about rows of a message."""
    found = re.search(r"(?<=write )(?:keep|rows) = .*?; X.*? = .*?(?=$|, or |; or |; a model)", message)
    assert found, message
    scope = {"numpy": np, "pandas": pd} | names
    exec(found[0], scope)  # the line of a message, which is ours
    return scope


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rows", "fault"),  # of frames, infinite cells are said to be missing ones
    [(rows, fault) for rows in LISTS_OF_ROWS for fault in (0, 1) if not fault or rows in ("array", "list")],
)
def test_rows_that_are_left_out_take_all_else_along(rows, kind, fault):
    data, of = LISTS_OF_ROWS[rows][fault], KINDS[kind]
    given = {"y": of(np.where(HALVES > 0, "u", "v")), "links": of(np.where(np.arange(N) % 8 == 0, 0, -1))}
    mixture = Mixture("gaussian", 2, labels="clusters", start=HALVES, n_steps=2, random_state=0)
    message = message_of(lambda: mixture.fit(data, **given))
    left = typed_rows(message, X=data, start=mixture.start, **given)
    assert [len(left[name]) for name in ("X", "y", "links", "start")] == [N - 1] * 4
    mixture.set_params(start=left["start"]).fit(left["X"], left["y"], links=left["links"])
    labels = np.delete(np.where(HALVES > 0, "u", "v"), BAD)
    assert np.asarray(left["y"]).tolist() == labels.tolist()
    assert len(mixture.labels_) == N - 1
    assert len(set(zip(labels, np.asarray(mixture.labels_)))) == 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["array", "list", "pandas", "polars"])
@pytest.mark.parametrize(
    ("model", "names"),
    [
        (GroupedMixture("gaussian", 2, n_steps=2, random_state=0), ["groups"]),
        (GroupedMixture("gaussian", 2, sampler="variational", n_steps=2, random_state=0), ["groups", "sample_weight"]),
        (Mixture("gaussian", 2, sampler="em", random_state=0), ["sample_weight"]),
        (Mixture("gaussian", 2, sampler="variational", random_state=0), ["sample_weight"]),
        (BayesianHierarchy("gaussian", random_state=0), []),
    ],
)
def test_groups_and_weights_go_with_the_rows(model, names, kind):
    given = {name: KINDS[kind](GROUPS if name == "groups" else np.linspace(1.0, 2.0, N)) for name in names}
    methods = ["fit"] + ["partial_fit"] * hasattr(model, "partial_fit")
    for method in methods:
        message = message_of(lambda method=method: getattr(model, method)(HUGE, **given))
        left = typed_rows(message, X=HUGE, **given)
        again = getattr(model, method)(left["X"], **{name: left[name] for name in names})
        assert len(again.labels_) == N - 1
        for name in names:
            assert np.asarray(left[name]).tolist() == np.delete(np.asarray(given[name]), BAD).tolist()


def test_rows_of_new_data_of_groups():
    data = sparse.csr_array(COUNTS.astype(float))
    model = GroupedMixture("multinomial", 2, n_steps=2, random_state=0).fit(data, groups=GROUPS)
    data.data[-1] = np.inf
    for method in ("predict", "score_samples", "score"):
        message = message_of(lambda method=method: getattr(model, method)(data, groups=GROUPS))
        left = typed_rows(message, X=data, groups=GROUPS)
        getattr(model, method)(left["X"], groups=left["groups"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "chunk", "names"),
    [
        (Mixture("gaussian", 2), (HOLE, np.ones(N)), ["sample_weight"]),
        (Mixture("gaussian", 2, labels="clusters"), (HOLE, HALVES, np.ones(N)), ["y", "sample_weight"]),
        (Mixture("gaussian", 2, labels="clusters"), (HOLE, HALVES, None, HALVES), ["y", "sample_weight", "links"]),
        (GroupedMixture("gaussian", 2), (HOLE, GROUPS.tolist()), ["groups"]),
    ],
)
def test_parts_of_a_chunk_go_with_its_rows(model, chunk, names):
    model.set_params(sampler="variational", random_state=0, n_steps=2)
    whole = (X, *chunk[1:])
    for chunks in ([chunk, whole], [whole, whole, chunk]):
        message = message_of(lambda chunks=chunks: model.fit_chunks(iter(chunks)))
        left = typed_rows(message, X=HOLE, **dict(zip(names, chunk[1:])))
        mended = (left["X"], *(left[name] for name in names))
        assert {len(part) for part in mended if part is not None} == {N - 1}
        model.fit_chunks([mended if part is chunk else part for part in chunks])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
def test_sparse_rows(form):
    values = COUNTS.astype(float)
    values[BAD, 2] = np.inf
    data = sparse.coo_array(values).asformat(form)
    mixture = Mixture("multinomial", 2, start=HALVES, n_steps=2, random_state=0)
    left = typed_rows(message_of(lambda: mixture.fit(data)), X=data, start=HALVES)
    assert mixture.set_params(start=left["start"]).fit(left["X"]).labels_.shape == (N - 1,)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "data", "names"),
    [
        (Mixture("poisson", 2, sampler="gibbs", labels="clusters", n_steps=2), COUNTS, ["y", "links"]),
        (Mixture("poisson", 2, sampler="gibbs", labels="clusters", n_steps=2), COUNTS.tolist(), ["y"]),
        (Mixture("poisson", 2, sampler="gibbs", n_steps=2), pd.DataFrame(COUNTS, index=ODD), []),
        (Mixture("poisson", 2, sampler="gibbs", n_steps=2), pl.DataFrame(COUNTS), []),
        (Mixture("poisson", 2, sampler="gibbs", n_steps=2), sparse.csr_array(COUNTS), []),
        (GroupedMixture("poisson", 2, sampler="gibbs", n_steps=2), COUNTS, ["groups"]),
        (TopicModel(2, sampler="gibbs", n_steps=2), COUNTS, []),
        (TopicModel(None, sampler="gibbs", n_steps=2), sparse.coo_array(COUNTS), []),
    ],
)
def test_rows_that_are_repeated_take_all_else_along(model, data, names):
    weight = 1.0 + HALVES
    given = {"y": HALVES.tolist(), "links": HALVES, "groups": pd.Series(GROUPS, index=ODD)}
    given = {name: given[name] for name in names}
    message = message_of(lambda: model.fit(data, sample_weight=weight, **given))
    left = typed_rows(message, X=data, sample_weight=weight, **given)
    n = int(weight.sum())
    assert {left["X"].shape[0], *(len(left[name]) for name in names)} == {n}
    model.fit(left["X"], **{name: left[name] for name in names})
    for name in names:
        assert np.asarray(left[name]).tolist() == np.repeat(np.asarray(given[name]), weight.astype(int)).tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("family", "data"),
    [
        ("lognormal", np.where(np.isnan(HOLE), -1.0, np.exp(HOLE / 9))),
        ("von_mises_fisher", np.where((np.arange(N) == BAD)[:, None], 0.0, X)),
        ("von_mises_fisher", sparse.csr_array(np.where((np.arange(N) == BAD)[:, None], 0.0, X))),
    ],
)
def test_rows_that_a_family_cannot_take(family, data):
    settings = {"normalize": True} if family == "von_mises_fisher" else {}
    mixture = Mixture(expfam.load_family(family, **settings), 2, start=HALVES, n_steps=2, random_state=0)
    left = typed_rows(message_of(lambda: mixture.fit(data)), X=data, start=HALVES)
    assert len(mixture.set_params(start=left["start"]).fit(left["X"]).labels_) == N - 1


@pytest.mark.parametrize("hole", [None, np.nan, pd.NA])
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_rows_without_a_group(hole, library):
    names = [f"home {place}" for place in GROUPS]
    names[BAD] = hole
    model = GroupedMixture("gaussian_diag", 2, n_steps=2, random_state=0)
    left = typed_rows(message_of(lambda: model.fit(X, groups=names)), X=X, groups=names)
    assert len(model.fit(left["X"], groups=left["groups"]).labels_) == N - 1
    names[BAD] = None
    table = {"a": X[:, 0], "b": X[:, 1], "home": names}
    data = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[library](table)
    left = typed_rows(message_of(lambda: model.fit(data, groups="home")), X=data)
    assert len(model.fit(left["X"], groups="home").labels_) == N - 1


def test_names_of_columns_and_short_values_stay():
    given = {"groups": "home", "y": None, "links": [1, 2], "start": "kmeans", "sample_weight": Groups([0, 1, 1])}
    assert aligned("; X = X[keep]", np.ones((3, 1)), given).endswith(
        "X, sample_weight = X[keep], sample_weight.of_row[keep]"
    )
    assert aligned("no line", np.ones((3, 1)), given) == "no line"


def test_masked_cells():
    masked = np.ma.masked_invalid(HOLE)
    mixture = Mixture("gaussian", 2, start=HALVES, n_steps=2, random_state=0)
    with pytest.raises(DataError, match="masked") as caught:
        mixture.fit(masked)
    left = typed_rows(str(caught.value), X=masked, start=HALVES)
    assert mixture.set_params(start=left["start"]).fit(left["X"]).labels_.shape == (N - 1,)
