"""`expfam explain` and `expfam impute`."""

import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

from expfam import Mixture
from expfam.cli import main


def table():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 80)
    df = pd.DataFrame(
        {"size": rng.normal(8 * z, 1), "kind": np.array(["x", "=y"])[z], "eggs": rng.poisson(30 + 40 * z)}
    )
    df.loc[::9, "size"] = np.nan
    df.loc[::7, "kind"] = None
    return df


@pytest.fixture
def files(tmp_path):
    table().to_csv(tmp_path / "table.csv", index=False)
    Mixture(n_components=2, n_steps=5, n_warmup=5, random_state=0).fit(table()).save(tmp_path / "model")
    return tmp_path


def run(*args):
    return main([str(arg) for arg in args])


def test_a_table_is_filled(files, capsys):
    assert run("impute", files / "model", files / "table.csv", "--output", files / "filled.csv") == 0
    assert "21 cells filled" in capsys.readouterr().err
    filled = pd.read_csv(files / "filled.csv")
    expected = Mixture.load(files / "model").impute(table())
    assert set(filled["kind"]) == {"x", "'=y"}  # guarded, so that no spreadsheet takes it for a formula
    np.testing.assert_allclose(filled["size"], expected["size"])


def test_a_table_is_read_from_standard_input_and_written_to_standard_output(files, capsys, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO((files / "table.csv").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert run("impute", files / "model", "-", "--draw", "--seed", "1") == 0
    filled = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert filled.shape == (80, 3)
    assert not filled.isna().any().any()


def test_json_of_a_filled_table(files, capsys):
    assert run("impute", files / "model", files / "table.csv", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_missing"] == {"size": 9, "kind": 12, "eggs": 0}
    assert len(found["table"]["kind"]) == 80


def test_clusters_are_explained(files, capsys):
    assert run("explain", files / "model") == 0
    text = capsys.readouterr().out
    of_columns = "size (column)  size (column)_sd  kind  kind_probability  eggs  eggs_sd"
    assert text.splitlines()[0].split() == ["cluster", "size", "weight", *of_columns.split()]
    assert "log Bayes factor of each column, nats" in text
    assert run("explain", files / "model", "--cluster", "1", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)["evidence"]["column"]) == {"size", "kind", "eggs"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("explain", "{}/model", "--cluster", "7"), "there are 2 clusters; got k=7"),
        (("impute", "{}/model", "{}/table.csv", "--seed", "1"), "--seed needs --draw"),
        (("impute", "{}/model", "{}/table.csv", "--output", "{}/filled.txt"), "must end in .csv"),
        (("impute", "{}/model", "{}/X.npy"), "give a CSV, TSV or Parquet file"),
    ],
)
def test_bad_use_is_named(files, capsys, args, message):
    np.save(files / "X.npy", np.eye(3))
    assert run(*(arg.format(files) for arg in args)) == 2
    assert message in capsys.readouterr().err
