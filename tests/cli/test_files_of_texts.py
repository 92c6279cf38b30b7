"""Files of texts, one a line: they are told from tables, counted, fitted, and read by the saved model."""

import json

import numpy as np
import pytest

from expfam import Mixture
from expfam.cli import main
from expfam.errors import DataError
from expfam.io.readers import read

PETS = ("The cat sat on the mat, and slept", "A kitten and a cat slept", "Dogs, cats and one kitten sat on mats")
MONEY = ("Stocks fell on the market", "The market, and all bonds, rose today", "Bonds gained while stocks fell again")
TEXTS = [*PETS, *MONEY] * 8


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n\n", encoding="utf-8")
    return path


def run(*args):
    return main([str(a) for a in args])


def test_texts_are_read_as_counts_of_words(texts):
    table = read(texts)
    assert table.documents == TEXTS  # the empty line at the end is no document
    assert table.X.shape == (len(TEXTS), len(table.column_names))
    assert table.X[[0]].sum() == 8  # "the" twice
    assert "kitten" in table.column_names


def test_fit_predict_and_tree(texts, tmp_path, capsys):
    assert run("fit", texts, "--seed", 0, "--output", tmp_path / "model", "--labels", tmp_path / "labels.npy") == 0
    printed = capsys.readouterr().out
    assert "stocks" in printed
    assert "48 rows" in printed
    mixture = Mixture.load(tmp_path / "model")
    assert mixture.documents_ == "texts"
    assert np.load(tmp_path / "labels.npy").tolist() == Mixture(random_state=0).fit(TEXTS).labels_.tolist()
    new = tmp_path / "new.txt"
    new.write_text("A cat and zebras sat\nBonds fell on the big market\n", encoding="utf-8")
    assert run("predict", tmp_path / "model", new, "--output", tmp_path / "new.npy") == 0
    expected = mixture.predict(["A cat and zebras sat", "Bonds fell on the big market"])
    assert np.load(tmp_path / "new.npy").tolist() == expected.tolist()
    capsys.readouterr()
    assert run("tree", texts, "--json") == 0
    assert json.loads(capsys.readouterr().out)["family"] == "multinomial"


@pytest.mark.parametrize(
    "table",
    [
        "1.5 2\n3 4\n5 6.5\n",
        "red blue\nred small\nlarge small\n",
        "name\tsize of it\na b\t1 m\nc d\t2 m\n",
        "a b,c d e\nf g h,i j\nk l,m n o p\n",
        "kind\nold\nnew\n",
    ],
    ids=["numbers", "words in columns", "tabs", "commas", "one column"],
)
def test_tables_stay_tables(table, tmp_path):
    path = tmp_path / "table.txt"
    path.write_text(table, encoding="utf-8")
    assert read(path, frame=True).documents is None


@pytest.fixture
def table(tmp_path):
    """A table whose second column holds the texts, one of them missing."""
    path = tmp_path / "table.csv"
    rows = [f'{row},"{text}",{"pets" if row % 6 < 3 else "money"}' for row, text in enumerate(TEXTS)]
    path.write_text("\n".join(["name,review,kind", *rows, "last,,pets"]) + "\n", encoding="utf-8")
    return path


@pytest.mark.filterwarnings("ignore:.*rows? is empty", "ignore:.*no word of the fit")
def test_a_column_of_texts_gives_the_model_of_the_texts(table, said, tmp_path):
    model, labels = tmp_path / "model", tmp_path / "labels.csv"
    read = ["--text", "review", "--id-column", "name", "--label-column", "kind"]
    result = said("fit", table, *read, "--seed", 0, "--output", model, "--labels", labels)
    expected = Mixture(random_state=0).fit([*TEXTS, ""])
    assert result["log_joint"] == expected.log_joint_
    assert result["n_rows"] == len(TEXTS) + 1
    assert set(result["clusters"][0]["words"]) <= set(expected.feature_names_in_)
    assert result["scores"] is not None  # against the column of labels
    assert labels.read_text().splitlines()[1:] == [
        f"{name},{label}" for name, label in zip([*range(len(TEXTS)), "last"], expected.labels_)
    ]
    predicted = said("predict", model, table, "--text", "review")
    assert predicted["labels"] == expected.predict([*TEXTS, ""]).tolist()
    number = said("predict", model, table, "--text", 1)
    assert number["labels"] == predicted["labels"]


@pytest.mark.filterwarnings("ignore:.*rows? is empty", "ignore:.*no word of the fit")
@pytest.mark.parametrize("command", [["tree"], ["groups", "--groups", "kind", "-k", "2"]], ids=["tree", "groups"])
def test_other_commands_take_a_column_of_texts(table, command, said, tmp_path):
    model = tmp_path / "model"
    result = said(*command, table, "--text", "review", "--seed", 0, "--output", model)
    assert result["family"] == "multinomial"
    if command[0] == "groups":
        predicted = said("predict", model, table, "--text", "review", "--groups", "kind")
        assert len(predicted["labels"]) == len(TEXTS) + 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["fit"], "--text review counts its words"),
        (["fit", "--text", "review", "--drop", "kind"], "--drop: with --text the words of one column are the data"),
        (["fit", "--text", "review", "--vocab", "w.txt"], "--vocab: with --text the words of one column are the data"),
        (["fit", "--text", "review", "--family", "gaussian"], "write --family multinomial"),
        (["fit", "--text", "text"], "table.csv has no column 'text' (it has name, review, kind)"),
        (["predict", "model"], "write --text review"),
        (["predict", "counts", "--text", "review"], "is no model of texts: leave out --text"),
        (["roles"], "table.csv --text review counts its words"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_said_of_columns_of_texts(table, given, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.txt").write_text("a\nb\n")
    rows = [f'"{text} {row}"' for row, text in enumerate(TEXTS)]
    table.write_text("\n".join(["name,review,kind", *(f"{row},{text},a" for row, text in enumerate(rows))]) + "\n")
    Mixture(n_steps=2, n_warmup=2, random_state=0).fit(TEXTS).save("model")
    Mixture("poisson", 2, n_steps=2, random_state=0).fit(np.repeat([[1], [40]], 20, axis=0)).save("counts")
    command, *options = given
    run(command, *options[:1], table, *options[1:]) if command == "predict" else run(command, table, *options)
    assert told in capsys.readouterr().err


def test_texts_without_words_are_refused(tmp_path):
    path = tmp_path / "letters.txt"
    path.write_text("a b\nc d e\nf g\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"letters\.txt: none of 3 documents has a word of two letters"):
        read(path)
