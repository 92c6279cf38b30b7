"""`expfam fit` and `Mixture` are one program: the same estimator, defaults and labels for the same file."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from expfam import Columns, Dataset, DiagonalGaussian, DirichletProcess, Mixture, MixtureModel, SymmetricDirichlet
from expfam.cli import main
from expfam.samplers import load_sampler


def table(n_rows=120):
    """Two plain clusters with text, truth values and holes."""
    rng = np.random.default_rng(0)
    kind = np.arange(n_rows) % 2
    df = pd.DataFrame(
        {
            "age": np.round(rng.normal(30 + 25 * kind, 3), 1),
            "town": np.where(rng.random(n_rows) < 0.85, np.array(["oslo", "rome"])[kind], "bonn"),
            "owner": rng.random(n_rows) < np.where(kind, 0.9, 0.2),
            "visits": rng.poisson(4 + 30 * kind),
        }
    )
    for name in ("age", "town"):
        df.loc[rng.random(n_rows) < 0.1, name] = None
    return df


def numbers():
    rng = np.random.default_rng(1)
    return rng.normal(size=(90, 3)) + 6.0 * np.repeat(np.eye(3), 30, axis=0)


def counts():
    rng = np.random.default_rng(2)
    return rng.poisson(np.repeat([[6.0, 5.0, 0.1, 0.2], [0.2, 0.1, 5.0, 7.0]], 40, axis=0))


def written(folder, kind):
    """Write a file of a kind, and return its path and what a user of Python reads of it."""
    if kind == "table":
        table().to_csv(folder / "x.csv", index=False)
        return folder / "x.csv", pd.read_csv(folder / "x.csv")
    if kind == "numbers in a table":
        pd.DataFrame(numbers(), columns=["a", "b", "c"]).to_csv(folder / "x.csv", index=False)
        return folder / "x.csv", pd.read_csv(folder / "x.csv")
    if kind == "array":
        np.save(folder / "x.npy", numbers())
        return folder / "x.npy", numbers()
    if kind == "array with holes":
        X = np.where(np.random.default_rng(3).random((90, 3)) < 0.1, np.nan, numbers())
        np.save(folder / "x.npy", X)
        return folder / "x.npy", X
    if kind == "dense counts":
        np.savez(folder / "x.npz", X=counts())
        return folder / "x.npz", counts()
    X = sparse.csr_array(counts())
    sparse.save_npz(folder / "x.npz", X)
    return folder / "x.npz", X


CASES = {
    "table": ("table", [], {}),
    "table, three clusters": ("table", ["-k", "3"], {"n_components": 3}),
    "numbers in a table": ("numbers in a table", [], {}),
    "array": ("array", [], {}),
    "array, three clusters": ("array", ["-k", "3"], {"n_components": 3}),
    "array, full covariances": ("array", ["--family", "gaussian"], {"family": "gaussian"}),
    "array with holes": ("array with holes", ["-k", "3"], {"n_components": 3}),
    "dense counts": ("dense counts", ["--family", "multinomial"], {"family": "multinomial"}),
    "sparse counts": ("sparse counts", ["-k", "2"], {"n_components": 2}),
    "a named sampler": ("array", ["-k", "3", "--sampler", "em"], {"n_components": 3, "sampler": "em"}),
    "numbers of steps": ("array", ["--steps", "7", "--warmup", "4"], {"n_steps": 7, "n_warmup": 4}),
    "a concentration": ("array", ["--alpha", "3"], {"weights": DirichletProcess(3.0)}),
    "at most 9": ("array", ["-k", "9", "--alpha", "0.1"], {"weights": SymmetricDirichlet(9, 0.1)}),
    "hyper-parameters": (
        "array",
        ["--family", "gaussian_diag", "--hyper", "mean_strength=0.5"],
        {"family": DiagonalGaussian(mean_strength=0.5)},
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_the_labels_are_those_of_the_estimator(case, tmp_path, capsys):
    kind, options, settings = CASES[case]
    path, X = written(tmp_path, kind)
    labels = tmp_path / "labels.npy"
    assert main(["fit", str(path), "--seed", "5", "--labels", str(labels), "--json", *options]) == 0
    said = json.loads(capsys.readouterr().out)
    mixture = Mixture(**settings, random_state=5).fit(X)
    np.testing.assert_array_equal(np.load(labels), mixture.labels_)
    assert said["log_joint"] == pytest.approx(mixture.log_joint_, rel=1e-12)
    assert said["n_steps"] == mixture.n_iter_
    assert said["weights"] == repr(mixture.model_.weights)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ["table", "array, three clusters", "array, full covariances", "a concentration"])
def test_the_line_of_python_that_is_printed_does_the_same(case, tmp_path, capsys):
    kind, options, _ = CASES[case]
    path, X = written(tmp_path, kind)
    labels = tmp_path / "labels.npy"
    assert main(["fit", str(path), "--seed", "5", "--labels", str(labels), *options]) == 0
    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith("python"))
    names = {"Mixture": Mixture, "DirichletProcess": DirichletProcess, "X": X}
    found = eval(line.removeprefix("python").strip(), names)
    np.testing.assert_array_equal(np.load(labels), found.labels_)


@pytest.mark.filterwarnings("ignore")
def test_options_of_columns_are_those_of_the_table_in_python(tmp_path):
    path, X = written(tmp_path, "table")
    labels = tmp_path / "labels.npy"
    options = ["--drop", "owner", "--column", "visits=poisson", "-k", "2"]
    assert main(["fit", str(path), "--seed", "5", "--labels", str(labels), "--quiet", *options]) == 0
    family = Columns.from_frame(X, owner="drop", visits="poisson")
    np.testing.assert_array_equal(np.load(labels), Mixture(family, 2, random_state=5).fit(X).labels_)


def test_one_table_says_what_the_automatic_sampler_is():
    X = numbers()
    for weights in (DirichletProcess(), SymmetricDirichlet(3, 1.0)):
        mixture = Mixture(weights=weights, random_state=0)
        plan = mixture.plan_fit(X)
        model = MixtureModel(plan.model.family, weights)
        assert load_sampler("auto", model=model, data=Dataset(X, model.family)) == plan.kernel
    with pytest.raises(ValueError, match=r"write load_sampler\('auto', model=model, data=data\)"):
        load_sampler("auto")
    with pytest.raises(TypeError, match=r"write load_sampler\('auto', model=model, data=data\)"):
        load_sampler("auto", weights=DirichletProcess())
