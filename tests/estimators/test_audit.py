"""Every estimator, with every sampler: what is saved comes back, what is damaged is refused, weights are repetitions.

A new estimator or sampler fails `test_the_table_is_complete` until it has a line in the table.
"""

import dataclasses
import inspect
import json
import shutil
from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import expfam
from expfam import BayesianHierarchy, GroupedMixture, Mixture, Poisson, TopicModel
from expfam.errors import ArchiveError, CapabilityError
from expfam.samplers.named import _BY_NAME

RNG = np.random.default_rng(0)
X = RNG.poisson(np.array([[1.0, 20.0, 5.0], [20.0, 1.0, 5.0], [8.0, 8.0, 1.0]])[np.arange(60) % 3])
LABELS = (np.arange(60) % 3).astype(np.int32)
WEIGHT = np.array([1, 2, 0, 3, 1])[np.arange(60) % 5].astype(np.float64)
FAMILY = Poisson().bind(X)
OF_ROWS = ("labels_", "probabilities_", "trace_")


@dataclasses.dataclass(frozen=True)
class Case:
    """How an estimator is made and fitted, and what is expected of it.

    make : estimator for data whose first clusters are given labels (other estimators ignore them)
    fit : fits an estimator to rows with weights or None
    weights : "equal" to repetition to `rtol`, "refused" by name, "none" where `fit` has no such argument, or "seeded"
        where a fit begins at rows drawn whatever they weigh, so that only one of repeated rows begins elsewhere
    lost : fitted attributes that a file without labels does not hold
    grows : whether the file grows with the number of rows
    """

    make: Callable
    weights: str
    fit: Callable = lambda estimator, rows, **weight: estimator.fit(rows, **weight)
    lost: tuple = ("labels_", "probabilities_", "traces_")
    grows: bool = False
    rtol: float = 1e-5


def mixture(sampler):
    return lambda labels: Mixture(
        FAMILY, 3, sampler=sampler, start=labels, n_steps=4, random_state=0, learn_hyper=False, partition="last"
    )


def by_chunks(estimator, rows, **weight):
    return estimator.partial_fit(rows, **weight).partial_fit(rows[::-1], **{k: v[::-1] for k, v in weight.items()})


def from_a_chunk(estimator, rows, **weight):
    """Learning from rows that begins at topics of others."""
    return estimator.partial_fit(X).partial_fit(rows, **weight)


def groups_of(rows):
    return rows[:, 0] % 4


def in_groups(estimator, rows, **weight):
    """Fit to rows whose group is told by what they hold."""
    return estimator.fit(rows, groups=groups_of(rows), **weight)


def grouped(sampler):
    return lambda labels: GroupedMixture(FAMILY, 3, sampler=sampler, start=labels, n_steps=4, random_state=0)


def topics(**settings):
    return lambda labels: TopicModel(3, n_steps=6, random_state=0, alpha=0.1, eta=np.full(3, 0.02), **settings)


CASES = {
    **{f"Mixture {name}": Case(mixture(name), "refused") for name in ("auto", *_BY_NAME["Mixture"])},
    "Mixture variational": Case(mixture("variational"), "equal"),
    "Mixture em": Case(mixture("em"), "equal"),
    "Mixture by chunks": Case(mixture("variational"), "equal", by_chunks, lost=("labels_",)),
    "TopicModel gibbs": Case(topics(sampler="gibbs"), "refused", lost=OF_ROWS),
    "TopicModel dense": Case(topics(sampler="variational"), "seeded", lost=OF_ROWS),
    "TopicModel by chunks": Case(topics(sampler="variational"), "equal", from_a_chunk, lost=("trace_",)),
    "GroupedMixture gibbs": Case(grouped("gibbs"), "refused", in_groups, lost=OF_ROWS),
    "GroupedMixture variational": Case(grouped("variational"), "equal", in_groups, lost=OF_ROWS),
    "BayesianHierarchy": Case(lambda labels: BayesianHierarchy(FAMILY), "none", lost=(), grows=True),
}
FITTED = {}


def fitted(name):
    """The fitted estimator of a case, made once."""
    if name not in FITTED:
        case = CASES[name]
        FITTED[name] = case.fit(case.make(LABELS), X)
    return FITTED[name]


cases = pytest.mark.parametrize("name", CASES)


def outputs(model, rows):
    """What the methods of an estimator say about rows."""
    said = {}
    for method in ("predict", "predict_proba", "score_samples", "transform", "score", "perplexity"):
        if hasattr(model, method):
            groups = {"groups": groups_of(rows)} if isinstance(model, GroupedMixture) else {}
            value = getattr(model, method)(rows, **groups)
            said[method] = value.toarray() if sparse.issparse(value) else np.asarray(value)
    for method in ("top_words", "linkage_matrix", "to_newick"):
        if hasattr(model, method):
            said[method] = np.asarray(getattr(model, method)())
    assert len(said) >= 3
    return said


def same_outputs(a, b):
    return all(np.array_equal(a[method], b[method]) for method in b)


def attributes(model):
    return {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}


def same_value(a, b):
    if sparse.issparse(a) or isinstance(a, np.ndarray):
        a, b = (np.asarray(v.toarray() if sparse.issparse(v) else v) for v in (a, b))
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if hasattr(a, "column"):
        return all(np.array_equal(a.column(c), b.column(c)) for c in ("step", "objective", "n_clusters"))
    if hasattr(a, "to_arrays"):
        arrays = [{**value.to_arrays(), "labels": None} for value in (a, b)]  # of the last chunk only
        return repr(arrays[0]) == repr(arrays[1])
    if hasattr(a, "children"):
        return same_value(a.children, b.children) and same_value(a.log_odds, b.log_odds)
    return type(a) is type(b) and (a == b or a != a)


def members(path):
    """Files of an archive by name."""
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_the_table_is_complete():
    public = {
        value
        for value in (getattr(expfam, name) for name in expfam.__all__)
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
    }
    assert {type(case.make(LABELS)) for case in CASES.values()} == public
    samplers = {case.make(LABELS).sampler for name, case in CASES.items() if name.startswith("Mixture")}
    assert samplers == {"auto", *_BY_NAME["Mixture"]}
    for name, case in CASES.items():
        takes = "sample_weight" in inspect.signature(type(case.make(LABELS)).fit).parameters
        assert takes == (case.weights != "none"), name


# ---- saved and read back ---------------------------------------------------------------------------------------------


@cases
def test_a_saved_model_says_the_same_and_loses_only_what_is_listed(name, tmp_path):
    model, case = fitted(name), CASES[name]
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    before, after = outputs(model, X), outputs(again, X)
    for method, value in before.items():
        np.testing.assert_array_equal(after[method], value, err_msg=method)
    assert attributes(model) - attributes(again) == set(case.lost)
    unlike = [a for a in attributes(again) if not same_value(getattr(model, a), getattr(again, a))]
    assert unlike == []
    kept, params = again.get_params(deep=False), model.get_params(deep=False)
    assert [key for key in params if not same_value(params[key], kept[key]) and key != "start"] == []
    again.save(tmp_path / "again")
    assert_same_archive(tmp_path / "model", tmp_path / "again")


def assert_same_archive(first, second):
    headers = [json.loads((path / "header.json").read_text())["header"] for path in (first, second)]
    for header in headers:
        header["not_kept"].pop("start", None)  # labels: told as text by the first, a default in the second
        header["params"].pop("start", None)
    assert headers[0] == headers[1]
    with np.load(first / "arrays.npz") as a, np.load(second / "arrays.npz") as b:
        assert set(a.files) == set(b.files)
        assert all(np.array_equal(a[key], b[key]) and a[key].dtype == b[key].dtype for key in a.files)


@cases
def test_files_are_json_and_arrays_with_a_format_number_and_no_pickle(name, tmp_path):
    fitted(name).save(tmp_path / "model")
    assert set(members(tmp_path / "model")) == {"header.json", "arrays.npz"}
    header = json.loads((tmp_path / "model" / "header.json").read_text())
    assert header["format"] == 1
    with np.load(tmp_path / "model" / "arrays.npz", allow_pickle=False) as arrays:
        assert all(arrays[key].dtype.kind in "biufUS" for key in arrays.files)


@cases
def test_the_size_of_a_file_does_not_depend_on_the_number_of_rows(name, tmp_path):
    case, sizes = CASES[name], []
    for times in (6, 60):
        rows = np.repeat(X, times, axis=0)
        case.fit(case.make(np.repeat(LABELS, times)), rows).save(tmp_path / str(times))
        sizes.append(sum(map(len, members(tmp_path / str(times)).values())))
    if case.grows:
        assert sizes[1] > 3 * sizes[0]
    else:
        assert sizes[1] < sizes[0] + 500  # digits of larger numbers; labels alone would take 13 kB


def test_labels_are_kept_when_asked_for(tmp_path):
    model = fitted("Mixture auto")
    model.save(tmp_path / "model", labels=True)
    np.testing.assert_array_equal(Mixture.load(tmp_path / "model").labels_, model.labels_)


@cases
def test_an_unfitted_estimator_is_not_saved(name, tmp_path):
    with pytest.raises(NotFittedError):
        CASES[name].make(LABELS).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


# ---- damage ----------------------------------------------------------------------------------------------------------


@cases
def test_truncated_files_are_refused_and_left_alone(name, tmp_path):
    model, path = fitted(name), tmp_path / "model"
    model.save(path)
    for file, whole in members(path).items():
        for size in (0, 1, len(whole) // 2, len(whole) - 2):
            (path / file).write_bytes(whole[:size])
            with pytest.raises(ArchiveError, match=str(path)):
                type(model).load(path)
            assert (path / file).read_bytes() == whole[:size]
        (path / file).unlink()
        with pytest.raises(ArchiveError, match=str(path)):
            type(model).load(path)
        (path / file).write_bytes(whole)
    type(model).load(path)


@cases
def test_an_archive_of_another_kind_is_refused_by_name(name, tmp_path):
    model, path = fitted(name), tmp_path / "model"
    model.save(path)
    for kind in {type(case.make(LABELS)) for case in CASES.values()} - {type(model)}:
        with pytest.raises(ArchiveError, match=r"is an archive of kind .* was asked for"):
            kind.load(path)
    header = json.loads((path / "header.json").read_text())
    (path / "header.json").write_text(json.dumps({**header, "format": 2}))
    with pytest.raises(ArchiveError, match=r"has format 2.*upgrade"):
        type(model).load(path)
    (path / "header.json").write_text(json.dumps({**header, "header": {}}))
    with pytest.raises(ArchiveError, match="does not describe a model"):
        type(model).load(path)


@cases
def test_nothing_is_overwritten_when_saving_fails(name, tmp_path, monkeypatch):
    model, path = fitted(name), tmp_path / "model"
    model.save(path)
    before = members(path)

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("expfam.archive.np.savez", full)
        with pytest.raises(OSError, match="no space"):
            model.save(path)
        with pytest.raises(OSError, match="no space"):
            model.save(tmp_path / "new")
    assert members(path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    shutil.rmtree(path)
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")
    with pytest.raises(ArchiveError, match="nothing was overwritten"):
        model.save(path)
    assert members(path) == {"thesis.txt": b"years of work"}


# ---- weights ---------------------------------------------------------------------------------------------------------


@cases
def test_weights_are_repetitions_or_refused_by_name(name):
    case = CASES[name]
    times = WEIGHT.astype(int)
    if case.weights == "none":
        with pytest.raises(TypeError, match="sample_weight"):
            case.fit(case.make(LABELS), X, sample_weight=WEIGHT)
        return
    if case.weights == "refused":
        with pytest.raises(CapabilityError, match="cannot use sample_weight"):
            case.fit(case.make(LABELS), X, sample_weight=WEIGHT)
        ones, plain = (case.fit(case.make(LABELS), X, **w) for w in ({"sample_weight": np.ones(60)}, {}))
        assert same_outputs(outputs(ones, X), outputs(plain, X))
        return
    if case.weights == "seeded":
        ones, twice = (case.fit(case.make(LABELS), X, sample_weight=np.full(60, w)) for w in (1.0, 2.0))
        assert same_outputs(outputs(ones, X), outputs(fitted(name), X))
        assert not same_outputs(outputs(twice, X), outputs(fitted(name), X))
        return
    weighted = case.fit(case.make(LABELS), X, sample_weight=WEIGHT)
    repeated = case.fit(case.make(np.repeat(LABELS, times)), np.repeat(X, times, axis=0))
    plain = fitted(name)
    said, expected, other = (outputs(model, X) for model in (weighted, repeated, plain))
    for method, value in expected.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(said[method], value, rtol=case.rtol, atol=1e-6, err_msg=method)
        else:
            np.testing.assert_array_equal(said[method], value, err_msg=method)
    assert any(
        not np.allclose(other[method], expected[method], rtol=case.rtol)
        for method in ("score_samples", "score")
        if method in expected
    )
    if hasattr(repeated, "n_"):
        np.testing.assert_allclose(weighted.n_, repeated.n_, rtol=case.rtol)
        assert weighted.log_joint_ == pytest.approx(repeated.log_joint_, rel=case.rtol)


@cases
def test_bad_weights_are_refused(name):
    case = CASES[name]
    if case.weights == "none":
        pytest.skip("takes no weights")
    for bad in (-WEIGHT, np.full(60, np.nan), np.zeros(60)):
        with pytest.raises(ValueError, match="sample_weight"):
            case.fit(case.make(LABELS), X, sample_weight=bad)
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        case.fit(case.make(LABELS), X, sample_weight=WEIGHT[:5])
