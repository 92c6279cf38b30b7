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


def test_texts_without_words_are_refused(tmp_path):
    path = tmp_path / "letters.txt"
    path.write_text("a b\nc d e\nf g\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"letters\.txt: none of 3 documents has a word of two letters"):
        read(path)
