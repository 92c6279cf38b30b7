"""Numbers in a model file that no fit writes: the ArchiveError names the field, and nothing gives NaN later."""

import copy
import re

import numpy as np
import pytest
from scipy import sparse

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.archive import read_archive, write_archive
from expfam.errors import ArchiveError
from expfam.samplers import Checkpoint, CollapsedGibbs, sample
from expfam.samplers.chain.callbacks import restore_checkpoint
from expfam.structures.ground.stored import numbers

RNG = np.random.default_rng(0)
X = np.r_[RNG.normal(size=(30, 2)), RNG.normal(6.0, 1.0, size=(30, 2))]
COUNTS = RNG.poisson(3.0, (40, 4)).astype(float)


def directions():
    return X / np.linalg.norm(X, axis=1, keepdims=True)


FITS = {
    "mixture": lambda: Mixture("gaussian", 2, random_state=0).fit(X),
    "diagonal": lambda: Mixture("gaussian_diag", 2, random_state=0).fit(X),
    "words": lambda: Mixture("multinomial", 2, random_state=0).fit(sparse.csr_array(COUNTS)),
    "directions": lambda: Mixture("von_mises_fisher", 2, random_state=0).fit(directions()),
    "topics": lambda: TopicModel(2, random_state=0, n_steps=4, vocabulary=list("abcd")).fit(COUNTS),
    "grouped": lambda: GroupedMixture("gaussian", 2, random_state=0, n_steps=4).fit(X, groups=np.arange(60) // 10),
    "tree": lambda: BayesianHierarchy("gaussian").fit(X),
}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    found = {}
    for name, fit in FITS.items():
        estimator, path = fit(), tmp_path_factory.mktemp("model") / name
        estimator.save(path, **({} if name in ("topics", "tree") else {"labels": True}))
        found[name] = (type(estimator), *read_archive(path, estimator.saved_kind))
    return found


def changed(node, place, value):
    """A copy with one value, or one number of an array, replaced."""
    node = copy.deepcopy(node)
    *parents, last = place.split(".")
    inner = node
    for name in parents:
        inner = inner[int(name)] if isinstance(inner, list) else inner[name]
    old = inner[last]
    if isinstance(old, np.ndarray):
        old = old.astype(np.float64)
        old.flat[0] = value
        value = old
    elif sparse.issparse(old):
        old.data[0] = value
        value = old
    inner[last] = value
    return node


ARRAYS = [
    ("topics", "results.alpha_", 1e300, "alpha_"),
    ("topics", "results.alpha_", 1e-300, "alpha_"),
    ("topics", "results.alpha_", 1e40, "alpha_"),
    ("topics", "results.components_", 1e308, "components_"),
    ("topics", "results.components_", 0.0, "components_"),
    ("grouped", "results.alpha_", 1e300, "alpha_"),
    ("grouped", "results.alpha_", 1e-300, "alpha_"),
    ("grouped", "results.group_counts_", 1e300, "group_counts_"),
    ("grouped", "results.n_", 0.0, "n_"),
    ("mixture", "results.n_", 1e308, "n_"),
    ("mixture", "results.n_", 0.0, "n_"),
    ("mixture", "results.S_", 1e300, "S_"),
    ("mixture", "results.weights_", 0.0, "weights_"),
    ("mixture", "results.weights_", 0.3, "weights_"),
    ("mixture", "results.labels_", 7.0, "labels_"),
    ("mixture", "results.cluster_sizes_", 1e300, "cluster_sizes_"),
    ("mixture", "family.params.scale", 1e300, "scale"),
    ("mixture", "family.learned.center_", -1e308, "center_"),
    ("diagonal", "family.params.rate", 1e300, "rate"),
    ("words", "results.S_", 1e300, "S_"),
    ("directions", "family.learned.kappa_nodes_", -5.0, "kappa_nodes_"),
    ("directions", "family.learned.kappa_nodes_", 0.0, "kappa_nodes_"),
    ("directions", "family.learned.kappa_nodes_", 1e99, "kappa_nodes_"),
    ("directions", "family.learned.kappa_log_weights_", 1e308, "kappa_log_weights_"),
    ("tree", "results.log_block", 1e300, "log_block"),
    ("tree", "results.n", 0.0, "n"),
]
VALUES = [
    ("topics", "results.$dict.n_documents_", -5, "n_documents_"),
    ("topics", "results.$dict.method_", "x", "method_"),
    ("topics", "results.$dict.eta_", 1e300, "eta_"),
    ("topics", "results.$dict.eta_", 1e-300, "eta_"),
    ("topics", "results.$dict.n_iter_", -5, "n_iter_"),
    ("topics", "results.$dict.interrupted_", "x", "interrupted_"),
    ("topics", "params.vocabulary", ["a", "b"], "vocabulary"),
    ("topics", "params.n_threads", -5, "n_threads"),
    ("mixture", "params.n_threads", 1e300, "n_threads"),
    ("mixture", "params.n_threads", {"$float": "nan"}, "n_threads"),
    ("mixture", "results.$dict.converged_", 3, "converged_"),
    ("mixture", "results.$dict.n_init_chosen_", 3, "n_init_chosen_"),
    ("mixture", "results.$dict.log_weight_new_", {"$float": "nan"}, "log_weight_new_"),
    ("mixture", "results.$dict.log_weight_new_", -3.0, "log_weight_new_"),
    ("mixture", "weights.$weights.params.$dict.alpha", 1e308, "alpha"),
    ("mixture", "family.$family.params.$dict.dof", 1e308, "dof"),
    ("mixture", "family.$family.params.$dict.mean_strength", 1e300, "mean_strength"),
    ("mixture", "results.$dict.log_joint_", {"$float": "nan"}, "log_joint_"),
    ("grouped", "results.$dict.log_joint_", {"$float": "inf"}, "log_joint_"),
    ("topics", "results.$dict.log_joint_", {"$float": "-inf"}, "log_joint_"),
    ("grouped", "results.$dict.n_iter_", 1e300, "n_iter_"),
    ("tree", "results.$dict.alpha_", 1e300, "alpha_"),
    ("tree", "results.$dict.order_", "x", "order_"),
]


def test_the_files_load_unchanged(archives, tmp_path):
    for name, (kind, header, arrays) in archives.items():
        write_archive(tmp_path / name, kind.saved_kind, header=header, arrays=arrays)
        kind.load(tmp_path / name)


@pytest.mark.parametrize(("name", "place", "value", "field"), ARRAYS)
def test_numbers_of_arrays(name, place, value, field, archives, tmp_path):
    kind, header, arrays = archives[name]
    write_archive(tmp_path / "m", kind.saved_kind, header=header, arrays=changed(arrays, place, value))
    with pytest.raises(ArchiveError, match=field):
        kind.load(tmp_path / "m")


@pytest.mark.parametrize(("name", "place", "value", "field"), VALUES)
def test_values_of_the_header(name, place, value, field, archives, tmp_path):
    kind, header, arrays = archives[name]
    write_archive(tmp_path / "m", kind.saved_kind, header=changed(header, place, value), arrays=arrays)
    with pytest.raises(ArchiveError, match=field):
        kind.load(tmp_path / "m")


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999"])
def test_numbers_that_no_header_holds(text, archives, tmp_path):
    kind, header, arrays = archives["mixture"]
    write_archive(tmp_path / "m", kind.saved_kind, header=header, arrays=arrays)
    path = tmp_path / "m" / "header.json"
    path.write_text(re.sub(r'"log_joint_": [-0-9.]+', f'"log_joint_": {text}', path.read_text()))
    with pytest.raises(ArchiveError, match=f"{text}, which is no finite number"):
        kind.load(tmp_path / "m")


def test_settings_of_a_schedule(tmp_path):
    TopicModel(2, random_state=0).partial_fit(COUNTS).save(tmp_path / "m")
    header, arrays = read_archive(tmp_path / "m", "topic_model")
    header = changed(header, "schedule.$settings.params.$dict.kappa", "x")
    write_archive(tmp_path / "m", "topic_model", header=header, arrays=arrays)
    with pytest.raises(ArchiveError, match="Stochastic: kappa must be a number"):
        TopicModel.load(tmp_path / "m")


def test_roles_of_a_table(tmp_path):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"u": X[:, 0], "kind": np.where(X[:, 1] > 3, "a", "b")})
    Mixture(n_components=2, random_state=0).fit(table).save(tmp_path / "m")
    header, arrays = read_archive(tmp_path / "m", "mixture")
    at = "family.$family.params.$dict.roles"
    for entry, value, said in (
        ("column", 5, "name of its column"),
        ("levels", -5, "levels of column 'kind'"),
        ("role", "x", "role 'x' of column 'kind'"),
    ):
        other = copy.deepcopy(header)
        roles = other
        for name in at.split("."):
            roles = roles[name]
        roles = roles.get("$tuple", roles) if isinstance(roles, dict) else roles
        role = roles[1]["$dict"]
        role[entry] = value
        write_archive(tmp_path / "other", "mixture", header=other, arrays=arrays)
        with pytest.raises(ArchiveError, match=said):
            Mixture.load(tmp_path / "other")


def test_checkpoints(tmp_path):
    model = Mixture("gaussian", 2, random_state=0).fit(X).model_
    state = CollapsedGibbs().init(model, X, seed=0)
    sample(CollapsedGibbs(), state, 2, callbacks=[Checkpoint(tmp_path / "c", every_seconds=0)])
    header, arrays = read_archive(tmp_path / "c", "checkpoint")
    scalars = changed(arrays, "state.scalars", 1e300)
    write_archive(tmp_path / "c", "checkpoint", header=header, arrays=scalars)
    with pytest.raises(ArchiveError, match="'scalars' holds numbers outside"):
        restore_checkpoint(tmp_path / "c", state)
    assert state.n_steps == 2


def test_stored_numbers_have_a_largest_one_where_they_must_be_finite():
    with pytest.raises(ArchiveError, match="'a' holds numbers outside -1e"):
        numbers({"a": np.array([1.0, 1e300])}, "a", (2,))
    assert numbers({"a": np.array([np.inf, np.nan])}, "a", (2,), finite=False).size == 2


def test_a_tree_of_a_huge_concentration_scores_rows():
    tree = BayesianHierarchy("gaussian", alpha=1e15).fit(X)
    assert np.isfinite(tree.score_samples(X)).all()


def test_a_name_that_no_directory_has(tmp_path):
    with pytest.raises(ArchiveError, match="null character"):
        Mixture.load("a\0b")
    with pytest.raises(ArchiveError, match="null character"):
        Mixture("gaussian", 2, random_state=0).fit(X).save(f"{tmp_path}\0b")
