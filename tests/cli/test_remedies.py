"""Each option that an error on the command line tells to type is typed, and it works."""

import re
import shlex
from argparse import Namespace

import numpy as np
import pytest
from scipy import sparse

from expfam import Mixture
from expfam.cli import main
from expfam.cli.lines import in_shell


@pytest.fixture
def counts(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).poisson(3.0, (30, 4)))
    return tmp_path / "x.npy"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("--family normal", "--family gaussian_diag"),
        ("--family Poison", "--family poisson"),
        ("--family poisson --sampler vb", "--sampler variational"),
        ("--family poisson --sampler Gibbs", "--sampler gibbs"),
        ("--family poisson --sampler fastex --memory-limit 1000", "--memory-limit '11 MB'"),
        ("--family poisson --time-limit 1e-9", "--time-limit '1 s'"),
    ],
)
def test_an_option_of_a_message_works(counts, capsys, given, told):
    fixed = ["fit", str(counts), "--steps", "2", "--seed", "0", "-k", "2"]
    assert main([*fixed, *given.split()]) in (1, 2)
    said = capsys.readouterr().err
    found = re.search(r"[wW]rite ((?:--[\w-]+ (?:'[^']*'|\w+))+)", said)
    assert found, said
    if "memory" not in told and "time" not in told:
        assert found[1] == told
    options = shlex.split(found[1])
    name = options[0]
    rest = re.sub(rf"{name} \S+", "", given).split()
    assert main([*fixed, *rest, *options]) == 0, capsys.readouterr().err


def test_the_key_of_an_archive(tmp_path, capsys):
    X = np.random.default_rng(0).poisson(3.0, (30, 4))
    np.savez(tmp_path / "two.npz", a=X, b=X)
    line = ["fit", str(tmp_path / "two.npz"), "--family", "poisson", "--steps", "2", "-k", "2"]
    assert main(line) == 2
    option = re.search(r"or (--key \w+)", capsys.readouterr().err)[1]
    assert main([*line, *option.split()]) == 0


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("write read('x.svm', zero_based=True)", "write --zero-based"),
        ("write read('x.svm', n_features=3, zero_based=False), or say", "write --n-features 3 --no-zero-based, or say"),
        ("write Mixture(n_components=4)", "write --components 4"),
        ("write Mixture(n_chains=4)", "write Mixture(n_chains=4)"),  # the command has no such option
        ("write GroupedMixture(n_components=None, sampler='auto')", "write --infinite --sampler auto"),
        ("or write TopicModel(None, sampler='gibbs').fit(X)", "or write --infinite --sampler gibbs"),
        ("or write Columns.from_frame(df, missing_values=['?', '1e9']), x", "or write --missing-values '?' 1e9, x"),
        ("write Columns.from_frame(df, missing_values=['-1.5'])", "write --missing-values -1.5"),
        ("texts write X = X['a b'], whose words are counted", "texts write --text 'a b'"),
        ("text: fit(df['a b']) counts its words, or", "text: --text 'a b' counts its words, or"),
        *[  # as words of their own they would be options
            (f"write Columns.from_frame(df, missing_values=['{word}'])", f"write --missing-values={word}")
            for word in ("-inf", "-1e9", "--")
        ],
        ("write X.columns = X.columns.astype(str)", "write X.columns = X.columns.astype(str)"),
    ],
)
def test_lines_become_options_that_the_command_has(message, said):
    options = {"text": None, "zero_based": None, "n_features": None, "components": 3, "missing_values": []}
    assert in_shell(message, Namespace(**options, infinite=False, sampler="auto")) == said
    if "None" in message:
        assert in_shell(message, Namespace(**options, sampler="auto")).endswith(message[-9:])  # as of `expfam tree`


@pytest.mark.filterwarnings("default")
def test_an_option_of_a_warning_works(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 64))[np.arange(100) % 5] + 2.0 * rng.normal(size=(100, 64))
    np.save(tmp_path / "x.npy", rows / np.linalg.norm(rows, axis=1)[:, None])
    line = ["tree", str(tmp_path / "x.npy"), "--family", "gaussian_diag"]
    assert main(line) == 0
    said = capsys.readouterr().err
    assert "write --tune;" in said
    assert "write --clusters 5" in said
    for option in ("--tune", "--clusters 5"):
        assert main([*line, *option.split()]) == 0
        printed = capsys.readouterr()
        assert "one cluster" not in printed.err
        assert int(re.search(r" (\d+) clusters,", printed.out)[1]) > 1


def test_more_clusters_than_a_model_has(tmp_path, capsys):
    Mixture("poisson", 2, n_steps=2, random_state=0).fit(np.repeat([[1], [40]], 20, axis=0)).save(tmp_path / "m")
    assert main(["coarsen", str(tmp_path / "m"), str(tmp_path / "out"), "-k", "5"]) == 2
    assert "--n-clusters 5: the model has 2 clusters: write --n-clusters 2, or fewer" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "tree", "roles", "impute", "predict"])
@pytest.mark.parametrize("option", ["--label-column y", "--id-column 0", "--key a", "--zero-based", "--n-features 4"])
def test_an_option_of_another_format_is_named_as_it_is_typed(tmp_path, counts, capsys, command, option):
    model = tmp_path / "model"
    Mixture("poisson", 2, n_steps=2, random_state=0).fit(np.load(counts)).save(model)
    before = [str(model)] if command in ("impute", "predict") else []
    assert main([command, *before, str(counts), *option.split()]) == 2
    flag = option.split()[0]
    assert f"{flag}: {counts} is of a format that does not take it: leave out {flag}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "tree", "check"])
def test_a_sparse_file_serves_a_family_of_dense_rows(command, tmp_path, capsys):
    X = np.where(np.arange(60).reshape(20, 3) % 4, 0.0, 1.5) + np.eye(20, 3)
    path = str(tmp_path / "sparse.npz")
    sparse.save_npz(path, sparse.csr_matrix(X))
    options = ["--steps", "2", "-k", "2"] if command == "fit" else []
    line = [command, path, "--family", "gaussian_diag", *options]
    if command == "check":
        line = ["check", "gaussian_diag", path, "--checks", "rows", "--replicates", "20", "--rows", "12"]
    assert main(line) == 0
    if command == "fit":
        assert main([*line, "--memory-limit", "400B"]) == 1
        told = capsys.readouterr().err
        assert "write --family gaussian_spherical" in told
        assert "write --memory-limit '1 MB'" in told
