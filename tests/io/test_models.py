"""Saved models predict the same bits without the training data; what is not a saved model is refused."""

import io
import json
import pickle
import sys
import types
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln
from tiny import FAMILIES

import expfam
from expfam import DirichletProcess, Family, Mixture, PitmanYor, Poisson, SymmetricDirichlet
from expfam.errors import ArchiveError, PluginError
from expfam.plugins import registry
from expfam.samplers import (
    CollapsedGibbs,
    Cycle,
    Memoized,
    SparseVariational,
    Stochastic,
    TopicVariational,
    UpdateHyper,
)
from expfam.samplers.chain.diagnostics import diagnose

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")


def rows_of(name):
    X = FAMILIES[name][1]
    return np.repeat(X.toarray() if sparse.issparse(X) else X, 8, axis=0)


def assert_same_model(a, b, X):
    assert a.family_ == b.family_
    assert a.model_.weights == b.model_.weights
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    np.testing.assert_array_equal(a.score_samples(X), b.score_samples(X))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    np.testing.assert_array_equal(a.weights_, b.weights_)
    np.testing.assert_array_equal(a.cluster_sizes_, b.cluster_sizes_)
    assert a.log_joint_ == b.log_joint_
    assert a.n_iter_ == b.n_iter_
    np.testing.assert_array_equal(a.trace_.column("objective"), b.trace_.column("objective"))


@pytest.mark.parametrize("name", [n for n in FAMILIES if n != "plain_poisson"])
def test_every_built_in_family(name, tmp_path):
    X = rows_of(name)
    mixture = Mixture(FAMILIES[name][0], weights=PitmanYor(alpha=1.0, discount=0.2), n_steps=4, random_state=0).fit(X)
    mixture.save(tmp_path / "model")
    assert_same_model(mixture, Mixture.load(tmp_path / "model"), X)
    assert_same_model(mixture, pickle.loads(pickle.dumps(mixture)), X)
    joblib.dump(mixture, tmp_path / "model.joblib")
    assert_same_model(mixture, joblib.load(tmp_path / "model.joblib"), X)


@pytest.mark.parametrize(
    "name", ["multinomial", "poisson", "gaussian", "gaussian_diag", "gaussian_spherical", "bernoulli"]
)
def test_automatic_and_learned_hyper_parameters(name, tmp_path):
    rng = np.random.default_rng(0)
    X = {"bernoulli": rng.integers(0, 2, (60, 5)), "multinomial": rng.poisson(2.0, (60, 5)) + 1}.get(name)
    X = rng.poisson(2.0, (60, 5)) + 1 if name == "poisson" else rng.normal(size=(60, 5)) if X is None else X
    mixture = Mixture(name, 3, n_steps=5, random_state=0, learn_hyper=True).fit(X)
    mixture.save(tmp_path / "model")
    assert_same_model(mixture, Mixture.load(tmp_path / "model"), X)


@pytest.mark.parametrize("sampler", ["auto", "variational"])
def test_a_loaded_trace_knows_its_warm_up(sampler, tmp_path):
    X = rows_of("poisson")
    mixture = Mixture("poisson", 5, sampler=sampler, n_steps=6, n_warmup=4, start="one", random_state=0).fit(X)
    mixture.save(tmp_path / "model")
    trace = Mixture.load(tmp_path / "model").trace_
    assert trace.n_warmup == mixture.trace_.n_warmup > 0
    assert trace.n_clusters_interval(1.0) == mixture.trace_.n_clusters_interval(1.0)
    np.testing.assert_array_equal(trace.counted("objective"), mixture.trace_.counted("objective"))
    if sampler == "auto":
        np.testing.assert_equal(diagnose([trace]), diagnose([mixture.trace_]))
    header = tmp_path / "model" / "header.json"
    content = json.loads(header.read_text())
    del content["header"]["results"]["$dict"]["n_warmup"]  # a file of a version whose traces did not know it
    header.write_text(json.dumps(content))
    assert Mixture.load(tmp_path / "model").trace_.n_warmup == 0


def test_chunks_have_no_warm_up_also_after_a_fit_that_had_one(tmp_path):
    X = rows_of("poisson")
    mixture = Mixture("poisson", 5, sampler="variational", n_steps=6, n_warmup=4, random_state=0).fit(X)
    mixture.save(tmp_path / "model")
    for learner in (mixture, Mixture.load(tmp_path / "model")):
        n_before = learner.n_iter_
        learner.partial_fit(X).partial_fit(X)
        assert (learner.trace_.n_warmup, len(learner.trace_), learner.n_iter_) == (0, 2, n_before + 2)
        learner.trace_.n_clusters_interval()
    assert mixture.fit_chunks([X, X]).trace_.n_warmup == 0


def test_a_registered_family_of_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setattr(registry._registry, "registered", {})
    expfam.register("halved_of_the_user", Halved)
    mixture = Mixture(Halved(), 3, n_steps=4, random_state=0).fit(rows_of("poisson"))
    mixture.save(tmp_path / "model")
    assert_same_model(mixture, Mixture.load(tmp_path / "model"), rows_of("poisson"))


def test_a_class_that_is_gone_is_named(tmp_path):
    mixture = Mixture(Halved(), 3, n_steps=4, random_state=0).fit(rows_of("poisson"))
    mixture.save(tmp_path / "model")
    header = tmp_path / "model" / "header.json"
    header.write_text(header.read_text().replace("Halved", "Vanished"))
    with pytest.raises(PluginError, match="Vanished"):
        Mixture.load(tmp_path / "model")


class Halved(Family):
    """Poisson counts with a fixed prior, in NumPy."""

    support = "counts"

    def __init__(self, shape=0.5):
        self.shape = shape

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        a = self.shape
        return (gammaln(a + S) - gammaln(a) - (a + S) * np.log(1.0 + n[:, None])).sum(axis=1)


def test_files_hold_no_pickle_and_no_data(tmp_path):
    X = rows_of("poisson")
    sizes = []
    for copies in (1, 50):
        mixture = Mixture("poisson", 3, n_steps=4, random_state=0, start="one").fit(np.repeat(X, copies, axis=0))
        path = tmp_path / f"model{copies}"
        mixture.save(path)
        sizes.append(sum(file.stat().st_size for file in path.iterdir()))
        with np.load(path / "arrays.npz", allow_pickle=False) as arrays:
            assert all(arrays[name].dtype.kind in "iufbUS" for name in arrays.files)
        json.loads((path / "header.json").read_text())
    assert sizes[1] < sizes[0] + 2000
    loaded = Mixture.load(tmp_path / "model1")
    assert not hasattr(loaded, "labels_")
    mixture.save(tmp_path / "with_labels", labels=True)
    np.testing.assert_array_equal(Mixture.load(tmp_path / "with_labels").labels_, mixture.labels_)


def test_settings_come_back_where_they_are_plain(tmp_path):
    mixture = Mixture(
        Poisson(shape=0.7, rate=0.2),
        weights=DirichletProcess(alpha=2.0),
        sampler=CollapsedGibbs(order="random"),
        n_steps=3,
        start=np.zeros(40, dtype=int),
        random_state=5,
    ).fit(rows_of("poisson"))
    mixture.save(tmp_path / "model")
    params = Mixture.load(tmp_path / "model").get_params()
    assert params["family"] == Poisson(shape=0.7, rate=0.2)
    assert params["weights"] == DirichletProcess(alpha=2.0)
    assert (params["n_steps"], params["random_state"]) == (3, 5)
    assert params["sampler"] == CollapsedGibbs(order="random")
    assert params["start"] == "auto"


def test_samplers_come_back_where_they_are_plain(tmp_path):
    sampler = SparseVariational(2, schedule=Stochastic(20, kappa=0.7), n_candidates=None)
    Mixture("poisson", 3, sampler=sampler, n_steps=2, random_state=0).fit(rows_of("poisson")).save(tmp_path / "model")
    assert Mixture.load(tmp_path / "model").sampler == sampler
    cycle = Cycle(CollapsedGibbs(), UpdateHyper())  # its constructor takes no names
    Mixture("poisson", 3, sampler=cycle, n_steps=2, random_state=0).fit(rows_of("poisson")).save(tmp_path / "cycle")
    assert Mixture.load(tmp_path / "cycle").sampler == "auto"
    header = json.loads((tmp_path / "cycle" / "header.json").read_text())
    assert "CollapsedGibbs(order='sequential', n_threads=None)" in json.dumps(header)


def test_column_names_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows_of("poisson"), columns=list("abcd"))
    Mixture("poisson", 3, n_steps=2, random_state=0).fit(frame).save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    loaded.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))


@pytest.fixture
def saved(tmp_path):
    Mixture("poisson", 3, n_steps=2, random_state=0).fit(rows_of("poisson")).save(tmp_path / "model")
    return tmp_path / "model"


def damage_truncate(path):
    arrays = path / "arrays.npz"
    arrays.write_bytes(arrays.read_bytes()[:-40])


def damage_one_byte(path):
    arrays = path / "arrays.npz"
    content = bytearray(arrays.read_bytes())
    content[len(content) // 2] ^= 0xFF
    arrays.write_bytes(bytes(content))


def damage_swap_an_array(path):
    with np.load(path / "arrays.npz") as f:
        arrays = dict(f)
    name = next(n for n in arrays if arrays[n].size)
    arrays[name] = np.zeros_like(arrays[name])
    np.savez(path / "arrays.npz", **arrays)


def damage_newer(path):
    header = json.loads((path / "header.json").read_text())
    header["format"] = 999
    (path / "header.json").write_text(json.dumps(header))


def damage_other_kind(path):
    header = json.loads((path / "header.json").read_text())
    header["kind"] = "checkpoint"
    (path / "header.json").write_text(json.dumps(header))


def damage_header(path):
    (path / "header.json").write_text("{")


def damage_pickle(path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path / "arrays.npz", "a") as archive:
        archive.writestr("extra.npy", buffer.getvalue())


@pytest.mark.parametrize(
    "damage",
    [
        damage_truncate,
        damage_one_byte,
        damage_swap_an_array,
        damage_newer,
        damage_other_kind,
        damage_header,
        damage_pickle,
    ],
)
def test_damaged_files_are_refused(saved, damage):
    damage(saved)
    with pytest.raises(ArchiveError, match=str(saved)):
        Mixture.load(saved)


def test_nothing_foreign_is_overwritten(tmp_path, saved):
    mixture = Mixture.load(saved)
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    with pytest.raises(ArchiveError, match="mine"):
        mixture.save(foreign)
    assert (foreign / "thesis.txt").read_text() == "years of work"
    with pytest.raises(ArchiveError):
        Mixture.load(tmp_path / "nothing")
    mixture.save(saved)  # its own earlier model is replaced
    Mixture.load(saved)


def test_an_unfitted_mixture_is_not_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        Mixture().save(tmp_path / "model")
    assert expfam.__version__


# ---- classes that a file names -------------------------------------------------------------------------------------

PAYLOAD = """
from pathlib import Path
Path({mark!r}).write_text("the module was run")
from expfam.families.base import Family
from expfam.model.weights import DirichletProcess
from expfam.samplers import CollapsedGibbs, SparseVariational, TopicVariational, GroupedVariational
from expfam.samplers.variational.schedules import Memoized
from tiny import FAMILIES
from test_models import Halved as Base

class Halved(Base): pass
class Weights(DirichletProcess): pass
class Sampler(CollapsedGibbs): pass
class Schedule(Memoized): pass
"""


@pytest.fixture
def payload(tmp_path, monkeypatch):
    """A module `payload` in the current folder that tells when it is run; and its mark."""
    folder, mark = tmp_path / "current", tmp_path / "mark"
    folder.mkdir()
    (folder / "payload.py").write_text(PAYLOAD.format(mark=str(mark)))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("payload", None)
    yield mark
    sys.modules.pop("payload", None)


def named_in(path, old, new):
    header = path / "header.json"
    text = header.read_text()
    assert old in text
    header.write_text(text.replace(old, new))


def counts_of(rows=40):
    return np.random.default_rng(0).poisson(3.0, (rows, 4)) + 1


def change_settings(saved, place, change):
    """Change the keywords at a place of the header's settings in place."""
    path = saved / "header.json"
    content = json.loads(path.read_text())
    found = content["header"]
    for name in place:
        found = found[name]
    change(found)
    path.write_text(json.dumps(content))


PLACES = {
    "settings": (("params",), "Mixture"),
    "settings that were not kept": (("not_kept",), "Mixture"),
    "parameters of the family": (("params", "family", "$family", "params", "$dict"), "Poisson"),
    "parameters of the weights": (("params", "weights", "$weights", "params", "$dict"), "SymmetricDirichlet"),
    "settings of the sampler": (("params", "sampler", "$settings", "params", "$dict"), "CollapsedGibbs"),
}


@pytest.mark.parametrize("what", PLACES)
def test_settings_of_other_names_are_refused(what, tmp_path):
    place, owner = PLACES[what]
    mixture = Mixture(
        Poisson(), weights=SymmetricDirichlet(3, 0.5), sampler=CollapsedGibbs(), n_steps=2, random_state=0
    ).fit(counts_of())
    mixture.save(tmp_path / "model")
    change_settings(tmp_path / "model", place, lambda params: params.update(n_stepz=3))
    with pytest.raises(ArchiveError, match=rf"model: the {what} hold 'n_stepz', which {owner} does not have: the head"):
        Mixture.load(tmp_path / "model")


def test_renamed_and_replaced_settings_are_refused(tmp_path):
    mixture = Mixture("poisson", 3, n_steps=2, random_state=0).fit(counts_of())
    mixture.save(tmp_path / "model")
    change_settings(tmp_path / "model", ("params",), lambda params: params.update(fit=params.pop("n_steps")))
    with pytest.raises(ArchiveError, match="the settings hold 'fit', which Mixture does not have"):
        Mixture.load(tmp_path / "model")
    mixture.save(tmp_path / "model")
    change_settings(tmp_path / "model", (), lambda header: header.update(params=["poisson", 3]))
    with pytest.raises(ArchiveError, match="the settings are a list, not keywords and values"):
        Mixture.load(tmp_path / "model")
    mixture.save(tmp_path / "model")
    change_settings(tmp_path / "model", ("params",), lambda params: params.pop("n_steps"))  # newer than the file
    assert Mixture.load(tmp_path / "model").n_steps == Mixture().n_steps


@pytest.mark.parametrize("part", ["weights", "sampler", "family"])
def test_a_file_runs_no_module_of_the_current_folder(part, tmp_path, payload):
    family = Halved() if part == "family" else "poisson"
    prior = DirichletProcess(alpha=1.0)
    sampler = CollapsedGibbs() if part == "sampler" else "auto"
    mixture = Mixture(family, weights=prior, sampler=sampler, n_steps=2, random_state=0).fit(counts_of())
    mixture.save(tmp_path / "model")
    old, new = {
        "weights": ("expfam:DirichletProcess", "payload:Weights"),
        "sampler": ("expfam.samplers:CollapsedGibbs", "payload:Sampler"),
        "family": (f"{__name__}:Halved", "payload:Halved"),
    }[part]
    named_in(tmp_path / "model", old, new)
    with pytest.raises(PluginError, match=r"payload:.*trust=True"):
        Mixture.load(tmp_path / "model")
    assert not payload.exists()
    assert "payload" not in sys.modules
    loaded = Mixture.load(tmp_path / "model", trust=True)
    assert payload.exists()
    np.testing.assert_array_equal(loaded.predict(counts_of()), mixture.predict(counts_of()))


@pytest.mark.parametrize("estimator", ["topics", "grouped", "hierarchy"])
def test_other_estimators_run_no_module_either(estimator, tmp_path, payload):
    X, path = counts_of(), tmp_path / "model"
    if estimator == "topics":
        kind = expfam.TopicModel
        kind(2, sampler=TopicVariational(schedule=Memoized()), n_steps=2, random_state=0).partial_fit(X).save(path)
        old, new = "expfam.samplers:Memoized", "payload:Schedule"
    elif estimator == "grouped":
        kind = expfam.GroupedMixture
        kind(Halved(), 2, n_steps=2, n_warmup=1, random_state=0).fit(X, groups=np.arange(40) % 4).save(path)
        old, new = f"{__name__}:Halved", "payload:Halved"
    else:
        kind = expfam.BayesianHierarchy
        kind(Halved()).fit(X).save(path)
        old, new = f"{__name__}:Halved", "payload:Halved"
    named_in(path, old, new)
    with pytest.raises(PluginError, match=r"payload:.*trust=True"):
        kind.load(path)
    assert not payload.exists()
    kind.load(path, trust=True)
    assert payload.exists()


def test_a_registered_class_needs_no_trust_and_is_not_imported_anew(tmp_path, monkeypatch):
    """As in a notebook: the class lives in a module that cannot be imported, or in one whose file has changed."""
    home = types.ModuleType("payload_of_notebook")
    monkeypatch.setitem(sys.modules, "payload_of_notebook", home)
    home.Noted = type("Noted", (Halved,), {"__module__": "payload_of_notebook"})
    home.Walk = type("Walk", (CollapsedGibbs,), {"__module__": "payload_of_notebook"})
    mixture = Mixture(home.Noted(), 3, n_steps=2, random_state=0).fit(counts_of())
    mixture.save(tmp_path / "model")
    with pytest.raises(PluginError, match="trust=True"):
        Mixture.load(tmp_path / "model")
    found = Mixture.load(tmp_path / "model", trust=True)
    assert type(found.family_) is home.Noted  # the class of the module as it is, not a new one
    monkeypatch.setattr(registry._registry, "registered", {})
    expfam.register("noted_in_a_notebook", home.Noted)
    monkeypatch.delitem(sys.modules, "payload_of_notebook")
    loaded = Mixture.load(tmp_path / "model")
    assert type(loaded.family_) is home.Noted
    assert_same_model(mixture, loaded, counts_of())


def test_modules_of_a_distribution_that_offers_plugins_are_trusted(monkeypatch):
    plugin = registry.Plugin("expfam.families", "erlang", "expfam_erlang", "1.0", "expfam_erlang.family:Erlang")
    bare = registry.Plugin("expfam.proposals", "lone", "lone", "1.0", "lone_module:Lone")
    by_hand = registry.Plugin("expfam.proposals", "mine", registry.NOTEBOOK, "", "my_notebook:Mine")
    monkeypatch.setattr(registry._registry, "offers", lambda group: [plugin, bare, by_hand])
    offered = ["expfam_erlang", "expfam_erlang.samplers", "lone_module"]
    assert [registry.is_offered(module) for module in offered] == [True] * 3
    strange = ["expfam_erlang2", "expfam", "lone", "my_notebook", "", "os"]
    assert [registry.is_offered(module) for module in strange] == [False] * 6


def test_a_loaded_model_says_what_it_lacks(tmp_path, saved):
    loaded = Mixture.load(saved)
    with pytest.raises(AttributeError, match=r"does not hold labels_: write model.save\(path, labels=True\)"):
        _ = loaded.labels_
    with pytest.raises(AttributeError, match="has no attribute 'label_'"):
        _ = loaded.label_
    with pytest.raises(AttributeError, match="partial_fit"):  # an error of its own is not replaced
        _ = loaded.partial_fit
    assert not hasattr(loaded, "labels_")
    loaded.fit(rows_of("poisson"))
    assert loaded.labels_.shape == (40,)
    again = pickle.loads(pickle.dumps(Mixture.load(saved)))
    with pytest.raises(AttributeError, match="read from a file"):
        _ = again.labels_
    topics = expfam.TopicModel(2, n_steps=2, random_state=0).fit(counts_of())
    topics.save(tmp_path / "topics")
    with pytest.raises(AttributeError, match="does not hold trace_"):
        _ = expfam.TopicModel.load(tmp_path / "topics").trace_
