"""`expfam check MODEL DATA` and its exit codes."""

import json

import numpy as np
import pytest

from expfam import GroupedMixture, Mixture, TopicModel
from expfam.cli import main
from expfam.evaluation import certificate

FEW = ("--replicates", "20", "--rows", "12", "--checks", "rows,truth")


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "counts.npy"
    np.save(path, rng.poisson(rng.choice([1, 6], size=(40, 1)), size=(40, 2)))
    return path


def run(*arguments):
    return main(["check", *map(str, arguments)])


def test_a_family_with_data(data, tmp_path, capsys):
    output = tmp_path / "certificate.json"
    assert run("poisson", data, "--n-components", 2, "--alpha", 0.5, *FEW, "--output", output) == 0
    shown = capsys.readouterr()
    assert "verdict: no error found by rows, truth" in shown.out
    assert str(output) in shown.err
    read = json.loads(output.read_text())
    assert read["passed"]
    assert "SymmetricDirichlet(n_components=2, alpha=0.5)" in read["model"]


def test_a_saved_model(data, tmp_path, capsys):
    Mixture("poisson", 2, random_state=0).fit(np.load(data)).save(tmp_path / "model")
    assert run(tmp_path / "model", data, "--sampler", "gibbs", *FEW, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["command"] == "check"
    assert found["sampler"] == "CollapsedGibbs(order='sequential', n_threads=None)"
    assert run(tmp_path / "model", data, "--alpha", 1) == 2
    assert "--alpha is for the name of a family" in capsys.readouterr().err


def test_what_is_no_sampler_cannot_be_checked(data, capsys):
    assert run("poisson", data, "--sampler", "em", *FEW) == 2
    assert "verdict: NOTHING CHECKED: ExpectationMaximization is no sampler" in capsys.readouterr().out


def test_a_sampler_that_does_not_pass(data, monkeypatch, capsys):

    wrong = certificate.Certificate(
        "s", "m", (certificate.CheckedQuantity("rows", "clusters", 0.0, "failed", 20, 0, 1.0),)
    )
    monkeypatch.setattr(certificate, "check_model", lambda *args, **settings: wrong)
    assert run("poisson", data, *FEW) == 1
    assert "verdict: NOT EXACT: check 'rows', clusters" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("poisson", "absent.npy"), "absent.npy"),
        (("poisson", "--sampler", "gibbs"), "--sampler is for the certificate of a sampler"),
        (("poisson", "DATA", "--checks", "rows,all"), "checks must be some of"),
        (("poisson", "DATA", "--output", "c.txt"), "--output: c.txt must end in .json"),
        (("poisson", "DATA", "--sampler", "nope"), "sampler must be"),
        (("FOLDER",), "is a directory: to certify its sampler, write expfam check"),
        (("poissons", "DATA"), "poissons"),
    ],
)
def test_bad_usage(arguments, message, data, tmp_path, capsys):
    places = {"DATA": data, "FOLDER": tmp_path}
    assert run(*(places.get(each, each) for each in arguments)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_table_with_its_model(suffix, tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"u": rng.normal(size=40), "kind": rng.choice(["a", "b"], 40)})
    table.loc[3, "u"] = np.nan
    path = tmp_path / f"table{suffix}"
    table.to_csv(path, index=False, sep="," if suffix == ".csv" else "\t")
    Mixture(n_components=2, random_state=0).fit(table).save(tmp_path / "model")
    assert run(tmp_path / "model", path, "--sampler", "gibbs", *FEW[:4], "--checks", "rows,data") == 0
    assert "no error found by rows, data" in capsys.readouterr().out
    numbers = tmp_path / f"numbers{suffix}"
    table[["u"]].fillna(0.0).to_csv(numbers, index=False, sep="," if suffix == ".csv" else "\t")
    assert run("gaussian_diag", numbers, "--n-components", 2, *FEW[:4], "--checks", "rows") == 0


SHORT = {"n_steps": 4, "n_warmup": 4, "random_state": 0}


def test_a_family_with_a_column_of_groups(tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"u": rng.normal(size=40), "v": rng.normal(size=40), "home": list("abcd") * 10})
    path = tmp_path / "homes.csv"
    table.to_csv(path, index=False)
    options = ("--groups", "home", "--alpha", 0.5, *FEW[:4], "--checks", "rows")
    assert run("gaussian_diag", path, "--n-components", 2, *options) == 0
    assert "GroupedGibbs" in capsys.readouterr().out
    assert run("gaussian_diag", path, *options) == 2
    assert "--groups home --n-components 10" in capsys.readouterr().err


def test_a_saved_mixture_of_rows_in_groups(data, tmp_path, capsys):
    groups, links = np.arange(40) % 5, np.where(np.arange(40) < 3, 0, -1)
    np.save(tmp_path / "groups.npy", groups)
    np.save(tmp_path / "links.npy", links)
    fitted = GroupedMixture("poisson", 2, alpha=0.5, **SHORT).fit(np.load(data), groups=groups, links=links)
    fitted.save(tmp_path / "model")
    few = (*FEW[:4], "--checks", "rows")
    assert run(tmp_path / "model", data, *few) == 2
    assert "--groups COLUMN" in capsys.readouterr().err
    assert run(tmp_path / "model", data, "--groups", tmp_path / "groups.npy", *few) == 2
    assert "was fitted with links of rows" in capsys.readouterr().err
    given = ("--groups", tmp_path / "groups.npy", "--links", tmp_path / "links.npy")
    assert run(tmp_path / "model", data, *given, *few) == 0
    assert "verdict: no error found by rows" in capsys.readouterr().out
    assert run(tmp_path / "model", data, "--groups", tmp_path / "none.npy", *few) == 2
    assert "none.npy cannot be read as an array of numbers or names" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
def test_a_saved_topic_model(data, tmp_path, capsys):
    TopicModel(2, alpha=0.5, **SHORT).fit(np.load(data)).save(tmp_path / "topics")
    assert run(tmp_path / "topics", data, *FEW[:4], "--checks", "rows") == 0
    assert "TopicGibbs" in capsys.readouterr().out
    assert run(tmp_path / "topics", data, "--sampler", "variational", *FEW[:4], "--checks", "rows") == 2
    assert "TopicVariational is no sampler" in capsys.readouterr().out


FEW_ROWS = (*FEW[:4], "--checks", "rows")


def test_columns_of_numbers_written_with_commas(tmp_path, capsys):
    path = tmp_path / "prices.csv"
    rows = "\n".join(f'"{k},5";{k % 3}' for k in range(30))
    path.write_text(f"price;kind\n{rows}\n")
    given = ("gaussian_diag", path, "--n-components", 2, *FEW_ROWS)
    assert run(*given) == 2
    assert "column 'price' holds text" in capsys.readouterr().err
    assert run(*given, "--numbers", "price") == 0
    assert "no error found by rows" in capsys.readouterr().out
    assert run("poisson", "--numbers", "price") == 2
    assert "--numbers is for the certificate of a sampler" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
def test_texts_of_a_column(tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    texts = ["sun and sea", "sea and sand", "tax and rent"] * 8
    table = pd.DataFrame({"note": texts, "home": list("abcd") * 6, "price": range(24)})
    path = tmp_path / "notes.csv"
    table.to_csv(path, index=False)
    given = ("multinomial", path, "--n-components", 2, *FEW_ROWS)
    assert run(*given, "--text", "note") == 0
    assert run(*given, "--text", "note", "--groups", "home", "--alpha", 0.5) == 0
    assert "GroupedGibbs" in capsys.readouterr().out
    assert run(*given, "--text", "notes") == 2
    assert "--text: " in capsys.readouterr().err

    Mixture("multinomial", 2, **SHORT).fit(texts).save(tmp_path / "model")
    assert run(tmp_path / "model", path, *FEW_ROWS, "--text", "note", "--sampler", "gibbs") == 0
    assert "verdict: no error found by rows" in capsys.readouterr().out
    assert run(tmp_path / "model", path, *FEW_ROWS) == 2
    assert "--text note" in capsys.readouterr().err


def test_an_array_of_an_archive(tmp_path, capsys):
    X = np.random.default_rng(0).poisson(3.0, (30, 2))
    np.savez(tmp_path / "two.npz", a=X, b=-X)
    given = ("poisson", tmp_path / "two.npz", "--n-components", 2, *FEW_ROWS)
    assert run(*given) == 2
    assert "--key" in capsys.readouterr().err
    assert run(*given, "--key", "a") == 0
