"""The command line as a user types it: results on standard output, one clear line for an error, exit codes."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from expfam import Mixture
from expfam.cli import main, outputs
from expfam.cli.outputs import write_labels
from expfam.io.readers import read
from expfam.plugins import registry
from expfam.samplers import Allocator


@pytest.fixture
def documents(tmp_path):
    """A file of counts with labels and words, in the layout of many text collections."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), 4)
    labels = rng.integers(0, 4, 200)
    X = sparse.csr_array(np.array([rng.multinomial(20, topics[k]) for k in labels]))
    path = tmp_path / "documents.npz"
    vocab = np.array([f"word{w}" for w in range(30)])
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, labels=labels, vocab=vocab)
    return path


def run(*args):
    return main([str(a) for a in args])


QUICK = ("--family", "multinomial", "-k", "6", "--steps", "5", "--seed", "0")


def test_fit_predict_round_trip(documents, tmp_path, capsys):
    model, labels = tmp_path / "model", tmp_path / "labels.csv"
    assert run("fit", documents, *QUICK, "--output", model, "--labels", labels) == 0
    out = capsys.readouterr().out
    assert "200 rows, 30 columns" in out
    assert "memory" in out
    assert "NMI" in out
    assert "word" in out
    rows = list(csv.DictReader(labels.read_text().splitlines()))
    assert list(rows[0]) == ["row_id", "label"]
    mixture = Mixture.load(model)
    assert len(rows) == 200
    assert {int(row["label"]) for row in rows} == set(range(mixture.n_components_))

    predicted = tmp_path / "predicted.npy"
    assert run("predict", model, documents, "--output", predicted) == 0
    with np.load(documents) as f:
        X = sparse.csr_array((f["data"], f["indices"], f["indptr"]), shape=tuple(f["shape"]))
    np.testing.assert_array_equal(np.load(predicted), mixture.predict(X))

    proba = tmp_path / "proba.npz"
    assert run("predict", model, documents, "--proba", 2, "--output", proba) == 0
    top = sparse.load_npz(proba)
    assert (np.diff(top.indptr) == 2).all()
    np.testing.assert_array_equal(top.toarray(), mixture.predict_proba(X, n_top=2).toarray())
    capsys.readouterr()
    assert run("predict", model, documents, "--proba", 2) == 0
    printed = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert list(printed[0]) == ["row_id", "label", "cluster_1", "probability_1", "cluster_2", "probability_2"]
    assert all(row["label"] == row["cluster_1"] for row in printed)


def test_coarsen_merges_the_clusters_of_a_saved_model(documents, tmp_path, capsys):
    model, coarse = tmp_path / "model", tmp_path / "coarse"
    assert run("fit", documents, *QUICK, "--output", model) == 0
    capsys.readouterr()
    assert run("coarsen", model, coarse, "-k", 2, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    expected = Mixture.load(model).coarsen(n_clusters=2)
    assert result["n_clusters"] == 2
    assert result["sizes"] == expected.cluster_sizes_.tolist()
    assert result["log_joint"] == expected.log_joint_
    np.testing.assert_array_equal(Mixture.load(coarse).n_, expected.n_)
    assert run("coarsen", model, coarse, "--robust", 0.01) == 0
    number = Mixture.load(model).coarsen(robust=0.01).n_components_
    assert f"{number} clusters of {Mixture.load(model).n_components_}" in capsys.readouterr().out
    for wrong, said in (
        (("-k", 99), "--n-clusters 99: the model has 4 clusters: write --n-clusters 4"),
        (("--robust", 2), "robust must be a number above 0 and at most 1; got 2.0"),
        ((), "write expfam coarsen"),
        (("-k", 2, "--tree", "known"), "those that halves of the data find again"),
        (("-k", 2, "--robust", 0.5), "not allowed with argument"),
    ):
        assert run("coarsen", model, tmp_path / "none", *wrong) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    assert run("coarsen", model, model, "-k", 2) == 2
    assert "is read by this command, as the model" in capsys.readouterr().err
    assert Mixture.load(model).n_components_ > 2


def test_coarsen_finds_the_groups_of_halves_of_the_rows(documents, tmp_path, capsys):
    model, coarse = tmp_path / "model", tmp_path / "coarse"
    assert run("fit", documents, *QUICK, "--output", model) == 0
    capsys.readouterr()
    loaded, rows = Mixture.load(model), read(documents).X
    for options, settings in (
        ((), {}),
        (("--tree", "known", "-k", 2), {"tree": "known", "n_clusters": 2}),
        (("--overlap", 0.2), {"overlap": 0.2}),
    ):
        assert run("coarsen", model, coarse, documents, *options, "--threads", 1, "--json") == 0
        found, expected = Mixture.load(coarse), loaded.coarsen(X=rows, **settings)
        assert json.loads(capsys.readouterr().out)["n_clusters"] == expected.n_components_
        np.testing.assert_array_equal(found.labels_, expected.labels_)
        np.testing.assert_array_equal(found.n_, expected.n_)
    assert run("coarsen", model, coarse, documents) == 0
    assert f"clusters of {loaded.n_components_}" in capsys.readouterr().out


def test_json_is_one_object(documents, tmp_path, capsys):
    assert run("fit", documents, *QUICK, "--json", "--output", tmp_path / "model") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["command"] == "fit"
    assert result["n_rows"] == 200
    assert result["seed"] == 0
    assert result["n_steps"] == 10
    assert set(result["scores"]) >= {"normalized_mutual_information", "adjusted_rand_index"}
    assert result["clusters"][0]["words"]
    assert run("predict", tmp_path / "model", documents, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["labels"]) == 200


def test_one_seed_one_answer_and_settings_arrive(documents, tmp_path, capsys):
    for name, threads in (("a", 1), ("b", 2)):
        assert run("fit", documents, *QUICK, "--labels", tmp_path / f"{name}.npy", "--threads", threads, "--quiet") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))
    assert not capsys.readouterr().out
    code = run(
        "fit", documents, "--family", "multinomial", "--hyper", "concentration=0.3", "--infinite", "--alpha", 2.5,
        "--steps", 3, "--warmup", 1, "--sampler", "uncollapsed_gibbs", "--start", "one", "--json",
    )  # fmt: skip
    assert code == 0
    result = json.loads(capsys.readouterr().out)
    assert result["hyper"]["concentration"] == 0.3
    assert "2.5" in result["weights"]
    assert result["n_steps"] == 4


def test_demo(tmp_path, capsys):
    figure = tmp_path / "digits.png"
    assert run("demo", "--figure", figure, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["scores"]["normalized_mutual_information"] > 0.65
    assert sum(entry["size"] for entry in result["clusters"]) == 1797
    assert figure.read_bytes()[:4] == b"\x89PNG"


def test_demo_without_matplotlib_says_how_to_get_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run("demo", "--figure", tmp_path / "digits.png") == 0
    assert "pip install 'expfam[plot]'" in capsys.readouterr().out


def test_plugins(capsys):
    assert run("plugins") == 0
    listed = capsys.readouterr().out
    for name in ("multinomial", "gaussian_diag", "bernoulli"):
        assert name in listed
    assert run("plugins", "--json") == 0
    entries = json.loads(capsys.readouterr().out)["plugins"]
    assert {entry["kind"] for entry in entries} == {"family", "proposal"}


def test_check_reports_law_by_law(capsys):
    assert run("check", "geometric", "expfam:table", "--json") == 0
    family, proposal = json.loads(capsys.readouterr().out)["reports"]
    assert family["plugin"].startswith("Geometric(")
    of_family = {result["name"]: result["status"] for result in family["results"]}
    assert of_family["clusters_follow_the_posterior"] == of_family["weights_of_new_groups_sum_to_one"] == "passed"
    assert {result["name"]: result["status"] for result in proposal["results"]}["refresh_forgets"] == "passed"
    assert run("check", "geometrik") == 2
    assert "did you mean 'geometric'" in capsys.readouterr().err


class SilentAboutQ(Allocator):
    """Coins, whose probability it does not tell."""

    def assign(self, bound, Phi, rng, forced):
        return (rng.integers(2, size=len(Phi)) if forced is None else forced), 0.0


@pytest.mark.parametrize("name", ["coin", "far_anchors", "silent_about_q"])
def test_check_judges_parts_of_split_merge_moves_alone_and_with_a_move_in_each_step(name, capsys, monkeypatch):
    monkeypatch.setattr(registry._registry, "registered", {})
    monkeypatch.setattr("expfam.cli.plugins._KERNEL_STARTS", 60)
    registry.register("silent_about_q", SilentAboutQ, kind="proposal")
    code = run("check", name, "--json")
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    results = {result["name"]: result["status"] for result in report["results"]}
    assert results["steps_propose[gaussian_pitman_yor]"] == "passed"
    assert ("failed" in results.values()) == (name == "silent_about_q") == bool(code), report
    if name == "silent_about_q":
        assert results["probabilities_of_all_divisions_sum_to_one"] == "failed"


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
def test_plugins_check_tries_the_laws(capsys, monkeypatch):
    plugins = [p for p in registry.list_plugins() if p.name in ("poisson", "gaussian_spherical")]
    monkeypatch.setattr(registry, "check_all", lambda: [(plugins[0], None), (plugins[1], "will not import")])
    assert run("plugins", "--check") == 1
    out = capsys.readouterr().out
    assert "ok" in out
    assert "FAILED will not import" in out


BAD = {
    "no command": ([], "required"),
    "unknown family": (["fit", "{documents}", "--family", "poison"], "poisson"),
    "no file": (["fit", "nothing.npy", "--family", "poisson"], "nothing.npy"),
    "unknown hyper-parameter": (["fit", "{documents}", "--family", "poisson", "--hyper", "rat=1"], "has no 'rat'"),
    "bad hyper-parameter": (["fit", "{documents}", "--family", "poisson", "--hyper", "rate=-1"], "rate"),
    "not name=value": (["fit", "{documents}", "--family", "poisson", "--hyper", "rate"], "name=value"),
    "zero components": (["fit", "{documents}", "--family", "poisson", "-k", "0"], "at least 1"),
    "unknown sampler": (["fit", "{documents}", "--family", "poisson", "--sampler", "gibs"], "sampler must be"),
    "labels of an unknown kind": (["fit", "{documents}", "--family", "poisson", "--labels", "x.txt"], "x.txt"),
    "foreign output": (["fit", "{documents}", "--family", "poisson", "--output", "{directory}"], "exists"),
    "no such model": (["predict", "nothing", "{documents}"], "nothing"),
}


def test_sparse_counts_need_no_family(documents, capsys):
    assert run("fit", documents, "-k", "6", "--steps", "5", "--seed", "0") == 0
    assert "word26" in capsys.readouterr().out


def test_sparse_fractions_need_a_family(tmp_path, capsys):
    sparse.save_npz(tmp_path / "weights.npz", sparse.csr_matrix([[0.25, 0.0], [0.0, 1.5]]))
    assert run("fit", tmp_path / "weights.npz") == 2
    assert "the sparse rows hold 0.25, which is no count: name the family" in capsys.readouterr().err


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case, documents, capsys):
    arguments, message = BAD[case]
    places = {"documents": documents, "directory": documents.parent}
    assert run(*(a.format(**places) for a in arguments)) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not captured.out or "data" in captured.out
    last = captured.err.strip().splitlines()[-1]
    assert last.startswith("expfam")


@pytest.mark.filterwarnings("default::expfam.errors.DataWarning")
def test_from_where_columns_of_svmlight_are_counted(tmp_path, capsys):
    path = tmp_path / "x.svm"
    path.write_text("1 1:5 2:6\n0 2:7\n1 1:4\n")
    common = ("fit", path, "--family", "poisson", "-k", "2", "--steps", "2", "--seed", "0")
    assert run(*common, "--json") == 0
    told = capsys.readouterr()
    assert "--no-zero-based or --zero-based" in told.err
    assert json.loads(told.out)["n_columns"] == 2
    for options, n_columns in (
        (["--no-zero-based"], 2),
        (["--zero-based"], 3),
        (["--zero-based", "--n-features", "7"], 7),
    ):
        assert run(*common, "--json", *options) == 0
        told = capsys.readouterr()
        assert json.loads(told.out)["n_columns"] == n_columns
        assert "warning" not in told.err
    assert run(*common, "--zero-based", "--n-features", "2") == 2
    assert "n_features=2" in capsys.readouterr().err
    assert run(*common, "--zero-based", "--n-features", "4", "--output", tmp_path / "model", "--quiet") == 0
    assert run("predict", tmp_path / "model", path, "--zero-based", "--json") == 0  # the model knows how many there are
    assert len(json.loads(capsys.readouterr().out)["labels"]) == 3
    assert run("tree", path, "--family", "poisson", "--zero-based", "--json") == 0
    assert json.loads(capsys.readouterr().out)["n_columns"] == 3


def test_what_a_file_unpacks_to_counts_against_the_memory_limit(tmp_path, capsys):
    import gzip

    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 500_000))
    assert run("fit", tmp_path / "x.csv.gz", "--family", "poisson", "--memory-limit", "1MB") == 2
    assert "unpacks to more than" in capsys.readouterr().err


def test_debug_shows_the_traceback(capsys):
    assert run("fit", "nothing.npy", "--family", "poisson", "--debug") == 2
    assert "Traceback" in capsys.readouterr().err


def test_too_little_memory_is_a_failure_of_the_run(documents, capsys):
    assert run("fit", documents, "--family", "poisson", "-k", "50", "--memory-limit", "1MB") == 1
    assert "memory_limit" in capsys.readouterr().err


def test_a_path_that_standard_output_cannot_write_is_shown_by_its_bytes(documents, capsysbinary):
    """Names of files are bytes; those that are no UTF-8 came back as an error in place of the result."""
    odd = documents.with_name(os.fsdecode(b"docu\xf4ments.npz"))
    documents.rename(odd)
    assert run("fit", odd, *QUICK) == 0
    assert b"docu\\udcf4ments.npz: 200 rows" in capsysbinary.readouterr().out


AS_PROCESS = [sys.executable, "-c", "import sys; from expfam.cli import main; sys.exit(main())"]


def test_as_a_process(documents, tmp_path):
    command = [*AS_PROCESS, "fit", str(documents), *QUICK, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_rows"] == 200
    assert not done.stderr


@pytest.mark.usefixtures("default_interrupt")
def test_ctrl_c_keeps_the_result_so_far(documents, tmp_path):
    model = tmp_path / "model"
    command = [*AS_PROCESS, "fit", str(documents)]
    command += [
        "--family",
        "multinomial",
        "--steps",
        "100000000",
        "--warmup",
        "0",
        "--seed",
        "0",
        "--output",
        str(model),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    for line in process.stdout:
        if line.startswith("memory"):
            break
    time.sleep(3.0)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopped" in out
    assert "Traceback" not in err
    mixture = Mixture.load(model)
    assert mixture.interrupted_
    assert mixture.n_iter_ > 0


# ---- places to write -------------------------------------------------------------------------------------------------

UNWRITABLE = {  # below a file, in a directory of the kernel's own, or by a name that no file can have
    "below a file": "{documents}/x{suffix}",
    "where nothing can be made": "/proc/x{suffix}",
    "too long a name": "{directory}/" + 300 * "x" + "{suffix}",
}
WRITING = {
    "fit --output": (["fit", "{documents}", "--family", "multinomial"], "--output", ""),
    "fit --labels": (["fit", "{documents}", "--family", "multinomial"], "--labels", ".csv"),
    "tree --output": (["tree", "{documents}", "--family", "multinomial"], "--output", ""),
    "tree --labels": (["tree", "{documents}", "--family", "multinomial"], "--labels", ".npy"),
    "tree --linkage": (["tree", "{documents}", "--family", "multinomial"], "--linkage", ".npy"),
    "tree --newick": (["tree", "{documents}", "--family", "multinomial"], "--newick", ".nwk"),
    "tree --figure": (["tree", "{documents}", "--family", "multinomial"], "--figure", ".png"),
    "predict --output": (["predict", "{directory}", "{documents}"], "--output", ".csv"),
    "demo --figure": (["demo"], "--figure", ".png"),
}


def listing(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("place", UNWRITABLE)
@pytest.mark.parametrize("command", WRITING)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(command, place, documents, capsys, monkeypatch):
    def read_nothing(*args, **options):
        raise AssertionError("the place is tried before anything is read")

    monkeypatch.setattr("expfam.io.readers.read", read_nothing)
    monkeypatch.setattr("sklearn.datasets.load_digits", read_nothing)
    arguments, option, suffix = WRITING[command]
    places = {"documents": documents, "directory": documents.parent, "suffix": suffix}
    before = listing(documents.parent)
    assert run(*(a.format(**places) for a in [*arguments, option, UNWRITABLE[place]])) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"expfam {arguments[0]}: error: {option}: ")
    assert len(error.splitlines()) == 1
    assert listing(documents.parent) == before


def test_trying_a_place_leaves_nothing_there(documents, capsys):
    before = listing(documents.parent)
    places = ("--output", documents.parent / "new" / "model", "--labels", documents.parent / "labels.csv")
    assert run("fit", documents, "--family", "poisson", "--hyper", "rate=-1", *places) == 2
    assert "rate" in capsys.readouterr().err
    assert listing(documents.parent) == before


def test_a_folder_without_leave_to_write_is_refused(documents, capsys, monkeypatch):
    """As root may write everywhere, the refusal is the system's own error from its own calls."""
    folder = documents.parent / "locked"
    folder.mkdir()
    really_open, really_mkdir = open, Path.mkdir

    def refused(path):
        if Path(path).parent == folder:
            raise PermissionError(13, "Permission denied", str(path))

    def guarded_open(path, *args, **options):
        refused(path)
        return really_open(path, *args, **options)

    def guarded_mkdir(self, *args, **options):
        refused(self)
        return really_mkdir(self, *args, **options)

    monkeypatch.setattr("builtins.open", guarded_open)
    monkeypatch.setattr(Path, "mkdir", guarded_mkdir)
    for option, name in (("--output", "model"), ("--labels", "labels.csv")):
        assert run("fit", documents, "--family", "poisson", option, folder / name) == 2
        error = capsys.readouterr().err
        assert option in error
        assert "Permission denied" in error


def test_what_save_would_refuse_is_refused_before_any_work(documents, tmp_path, capsys):
    """A model with a stranger's file beside it is not overwritten; that is known before the fit."""
    model = tmp_path / "model"
    assert run("fit", documents, *QUICK, "--output", model) == 0
    (model / "notes.txt").write_text("mine")
    capsys.readouterr()
    assert run("fit", documents, *QUICK, "--output", model) == 2
    captured = capsys.readouterr()
    assert "notes.txt" in captured.err
    assert not captured.out


def test_outputs_that_would_overwrite_each_other_or_an_input_are_refused(documents, tmp_path, capsys):
    model, words = tmp_path / "model", tmp_path / "words.csv"
    words.write_text("\n".join(f"word{w}" for w in range(30)))
    assert run("fit", documents, *QUICK, "--output", model) == 0
    before = (model / "arrays.npz").read_bytes()
    both = ("--labels", tmp_path / "x.npy", "--linkage", tmp_path / "." / "x.npy")
    assert run("tree", documents, "--family", "multinomial", *both) == 2
    assert run("predict", model, documents, "--proba", "1", "--output", model / "arrays.npz") == 2
    assert run("fit", documents, *QUICK, "--vocab", words, "--labels", words) == 2
    errors = capsys.readouterr().err.splitlines()
    assert "--linkage" in errors[0]
    assert "same file" in errors[0]
    assert "directory of a saved model" in errors[1]
    assert "words.csv is read" in errors[2]
    assert (model / "arrays.npz").read_bytes() == before


def test_drawing_without_matplotlib_is_refused_before_any_work(documents, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run("tree", documents, "--family", "multinomial", "--figure", tmp_path / "x.png") == 2
    captured = capsys.readouterr()
    assert "expfam[plot]" in captured.err
    assert not captured.out


def full_disk(*args, **options):
    raise OSError(28, "No space left on device")


def test_labels_are_saved_where_the_model_cannot_be(documents, tmp_path, capsys, monkeypatch):
    labels = tmp_path / "labels.csv"
    monkeypatch.setattr("expfam.io.models.write_archive", full_disk)
    places = ("--output", tmp_path / "model", "--labels", labels)
    assert run("fit", documents, *QUICK, *places) == 1
    captured = capsys.readouterr()
    assert len(labels.read_text().splitlines()) == 201
    assert "--output: nothing was saved at" in captured.err
    assert "No space left" in captured.err
    assert f"saved     {labels}" in captured.out
    assert "clusters, log joint" in captured.out
    assert run("fit", documents, *QUICK, *places, "--json") == 1
    result = json.loads(capsys.readouterr().out)
    assert result["output"] is None
    assert result["labels"] == str(labels)
    assert "No space left" in result["not_saved"]["output"]


def test_the_model_is_saved_where_the_labels_cannot_be(documents, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("expfam.cli.outputs.write_csv", full_disk)
    assert run("fit", documents, *QUICK, "--output", tmp_path / "model", "--labels", tmp_path / "labels.csv") == 1
    assert "--labels: nothing was saved at" in capsys.readouterr().err
    assert Mixture.load(tmp_path / "model").n_components_ > 0
    assert listing(tmp_path) == ["arrays.npz", "documents.npz", "header.json", "model"]


def test_the_other_forms_of_a_tree_are_saved_where_one_cannot_be(documents, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("expfam.io.models.write_archive", full_disk)
    monkeypatch.setattr("expfam.BayesianHierarchy.to_newick", full_disk)
    names = {"output": "tree", "labels": "l.csv", "linkage": "z.npy", "newick": "t.nwk", "figure": "t.png"}
    places = [part for option, name in names.items() for part in (f"--{option}", tmp_path / name)]
    assert run("tree", documents, "--family", "multinomial", "--json", *places) == 1
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert set(result["not_saved"]) == {"output", "newick"}
    saved = {option: result[option] for option in names if result[option] is not None}
    assert saved == {option: str(tmp_path / names[option]) for option in ("labels", "linkage", "figure")}
    assert listing(tmp_path) == ["documents.npz", "l.csv", "t.png", "z.npy"]
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


HOSTILE_NAMES = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "''x", "plain", "a=b", "é", "", "3"]


def test_names_of_rows_are_no_formulas_and_can_be_read_back(tmp_path):
    path, labels = tmp_path / "labels.csv", np.arange(len(HOSTILE_NAMES))
    write_labels(path, labels, np.array(HOSTILE_NAMES))
    with open(path, newline="", encoding="utf-8") as file:
        written = [row["row_id"] for row in csv.DictReader(file)]
    assert not [name for name in written if name[:1] and name[0] in "=+-@\t\r\n"]
    assert [name.removeprefix("'") for name in written] == HOSTILE_NAMES
    assert [name for name in written if name[:1] != "'"] == ["plain", "a=b", "é", "", "3"]


@pytest.mark.parametrize("command", ["predict", "coarsen"])
def test_classes_of_other_modules_are_imported_with_trust_alone(command, tmp_path, monkeypatch, capsys):
    (tmp_path / "stranger.py").write_text("from expfam import Poisson\nclass Strange(Poisson):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    rows = tmp_path / "rows.npy"
    np.save(rows, np.arange(20.0).reshape(10, 2))
    stranger = import_module("stranger")
    mixture = Mixture(stranger.Strange(), 3, n_steps=2, random_state=0).fit(np.load(rows))
    mixture.save(tmp_path / "model")
    monkeypatch.delitem(sys.modules, "stranger")
    more = [rows] if command == "predict" else [tmp_path / "coarse", "-k", "1"]
    assert run(command, tmp_path / "model", *more) == 2
    assert "load it with trust=True (--trust on the command line)" in capsys.readouterr().err
    assert "stranger" not in sys.modules
    assert run(command, tmp_path / "model", *more, "--trust", "--json") == 0
    if command == "predict":
        assert json.loads(capsys.readouterr().out)["labels"] == mixture.predict(np.load(rows)).tolist()
    monkeypatch.delitem(sys.modules, "stranger")


def test_predictions_on_standard_output_are_no_formulas(tmp_path, capsys):
    X, rows = np.array([[1, 2], [30, 40]]), tmp_path / "rows.csv"
    rows.write_text("name,a,b\n\"=cmd|'/c calc'!A1\",1,2\n-2,30,40\n")
    Mixture("poisson", 2, n_steps=2, random_state=0).fit(X).save(tmp_path / "model")
    for more in ((), ("--proba", "1")):
        assert run("predict", tmp_path / "model", rows, "--id-column", "name", *more) == 0
        names = [row["row_id"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))]
        assert names == ["'=cmd|'/c calc'!A1", "'-2"]


def test_numbered_rows_keep_their_numbers(tmp_path):
    write_labels(tmp_path / "l.csv", np.array([7, 8]), np.array([-3, 4]))
    assert (tmp_path / "l.csv").read_text() == "row_id,label\n-3,7\n4,8\n"


def test_a_link_laid_at_the_temporary_name_is_not_followed(tmp_path, monkeypatch):
    """The old name was told by the process number; whoever may write to the folder could lay a link there."""
    path, victim = tmp_path / "labels.csv", tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".{path.name}.{os.getpid()}").symlink_to(victim)
    write_labels(path, np.array([0, 1]), None)
    assert victim.read_text() == "precious"
    assert path.read_text() == "row_id,label\n0,0\n1,1\n"
    monkeypatch.setattr("os.urandom", lambda size: b"known")  # even where it could be guessed
    with outputs.replacing(path, "w") as file:
        (temporary,) = {p.name for p in tmp_path.iterdir()} - {"labels.csv", "victim", f".{path.name}.{os.getpid()}"}
        file.write("mine")
    (tmp_path / temporary).symlink_to(victim)
    with pytest.raises(FileExistsError), outputs.replacing(path, "w"):
        pass
    assert victim.read_text() == "precious"
    assert (tmp_path / temporary).is_symlink()
    assert path.read_text() == "mine"


def test_every_write_takes_another_temporary_name_and_leaves_none(tmp_path):
    seen = set()

    def fail_while_writing():
        with outputs.replacing(tmp_path / "x.npy", "wb"):
            seen.update(path.name for path in tmp_path.iterdir())
            raise KeyError

    for _ in range(3):
        with pytest.raises(KeyError):
            fail_while_writing()
    assert len(seen) == 3
    assert not list(tmp_path.iterdir())


def test_files_have_the_rights_that_new_files_have(tmp_path):
    before = os.umask(0o027)
    try:
        write_labels(tmp_path / "labels.csv", np.array([0]), None)
    finally:
        os.umask(before)
    assert (tmp_path / "labels.csv").stat().st_mode & 0o777 == 0o640
