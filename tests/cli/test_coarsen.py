"""`expfam coarsen` of rows in groups and of topics: the estimators of Python, figures, and wrong words."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.amounts import counted
from expfam.cli import main

WORDS = ("match team goal player final coach", "bank shares profit bond rates loan", "rain wind sun storm snow fog")


def texts(n_texts=90):
    """Texts of three topics."""
    rng, kinds = np.random.default_rng(0), [words.split() for words in WORDS]
    return [" ".join(rng.choice(kinds[row % 3], 12)) for row in range(n_texts)]


def cells():
    """Cells of three kinds in ten patients."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, 300)
    sizes = rng.normal(size=(300, 2)) + 14.0 * np.eye(3, 2)[kind]
    return pd.DataFrame({"width": sizes[:, 0], "height": sizes[:, 1], "patient": np.arange(300) // 30})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(texts()) + "\n", encoding="utf-8")
    pd.DataFrame({"title": texts(), "year": range(90)}).to_csv("texts.csv", index=False)
    cells().to_csv("cells.csv", index=False)
    TopicModel(7, random_state=0, n_steps=30, n_warmup=30).fit(texts()).save("topics")
    grouped = GroupedMixture("gaussian_diag", 6, random_state=0, n_steps=20, n_warmup=20)
    grouped.fit(cells().drop(columns="patient"), groups=cells()["patient"]).save("groups")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ((), {}),
        (("--tree", "known"), {"tree": "known"}),
        (("-k", 4, "--tree", "words"), {"n_clusters": 4, "tree": "words"}),
    ],
    ids=["found again", "known", "four"],
)
@pytest.mark.parametrize("data", [("texts.txt",), ("texts.csv", "--text", "title")], ids=["lines", "column"])
def test_topics_are_merged_as_in_python(data, options, settings, folder, said):
    result = said("coarsen", "topics", "out", *data, *options)
    loaded = TopicModel.load("topics")
    expected, found = loaded.coarsen(X=texts(), **settings), TopicModel.load("out")
    assert result["n_clusters"] == len(expected.components_)
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    assert result["sizes"] == expected.cluster_sizes_.tolist()
    if not settings:
        assert result["other_numbers"] == [peak[1] for peak in loaded.coarsening_curve_.peaks(3)[1:]]
        assert result["n_clusters"] == 3


def test_topics_are_joined_without_documents(folder, capsys):
    assert main(["coarsen", "topics", "out", "-k", "3"]) == 0
    assert "3 topics of 7" in capsys.readouterr().out
    np.testing.assert_array_equal(
        TopicModel.load("out").components_, TopicModel.load("topics").coarsen(n_clusters=3).components_
    )


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ((), {}),
        (("-k", 4), {"n_clusters": 4}),
        (("--overlap", 0.05), {"overlap": 0.05}),
        (("--robust", 0.5), {"robust": 0.5}),
    ],
    ids=["found again", "four", "overlap", "robust"],
)
def test_rows_in_groups_are_merged_as_in_python(options, settings, folder, said):
    result = said("coarsen", "groups", "out", "cells.csv", "--groups", "patient", *options)
    rows = {"X": cells().drop(columns="patient"), "groups": cells()["patient"]}
    expected, found = GroupedMixture.load("groups").coarsen(**rows, **settings), GroupedMixture.load("out")
    assert result["n_clusters"] == expected.n_components_
    np.testing.assert_array_equal(found.group_weights_, expected.group_weights_)
    np.testing.assert_array_equal(found.labels_, expected.labels_)


def test_the_agreement_of_halves_is_drawn(folder, said):
    result = said("coarsen", "topics", "out", "texts.txt", "--figure", "curve.svg")
    assert result["figure"] == "curve.svg"
    drawn = (folder / "curve.svg").read_text()
    assert "number of topics" in drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topics", "out"], "write expfam coarsen topics out DATA, or give --n-clusters K"),
        (["groups", "out"], "write expfam coarsen groups out DATA --groups COLUMN, or give --n-clusters K or --robust"),
        (["groups", "out", "cells.csv"], "write --groups COLUMN, the group of each new row"),
        (["topics", "out", "texts.txt", "--groups", "x"], "is no model of rows in groups: leave out --groups"),
        (["topics", "out", "-k", "8"], "--n-clusters 8: the model has 7 topics: write --n-clusters 7, or fewer"),
        (["topics", "out", "--robust", "0.5"], "--robust: topics is a model of topics, which has no such rule"),
        (
            ["topics", "out", "--tree", "cost", "-k", "2"],
            "--tree cost: topics is a model of topics: write --tree words",
        ),
        (["groups", "out", "--tree", "words", "-k", "2"], "is a model of clusters: write --tree cost"),
        (["topics", "out", "-k", "2", "--text", "title"], "--text: it tells of the rows of DATA, and no DATA"),
        (["topics", "out", "-k", "2", "--figure", "a.png"], "or give --n-clusters K without --figure"),
        (["topics", "out", "texts.txt", "--figure", "a.gif"], "--figure: a.gif must end in .png or .pdf or .svg"),
        (["tree", "out", "-k", "2"], "tree is a tree already: write expfam tree DATA --clusters K"),
    ],
)
def test_wrong_words_are_answered(arguments, message, folder, capsys):
    if arguments[0] == "tree":
        BayesianHierarchy("gaussian_diag").fit(cells().drop(columns="patient")[:20]).save("tree")
    assert main(["coarsen", *arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert not (folder / "out").exists()


# ---- after a fit -----------------------------------------------------------------------------------------------------


def test_a_fit_is_merged_and_saved_at_once(folder, capsys, said):
    """Wines have more clusters than groups; all outputs are of the groups."""
    wines = load_wine(as_frame=True).data
    wines.to_csv("wines.csv", index=False)
    options = ["wines.csv", "--seed", 0]
    result = said("fit", *options, "--coarsen", "--output", "model", "--labels", "labels.npy")
    fine = Mixture(random_state=0).fit(wines)
    expected = fine.coarsen()
    assert result["n_clusters"] == expected.n_components_ < fine.n_components_ == result["n_clusters_of_fit"]
    assert result["log_joint"] == expected.log_joint_
    assert sum(entry["size"] for entry in result["clusters"]) == len(wines)
    np.testing.assert_array_equal(np.load("labels.npy"), expected.labels_)
    np.testing.assert_array_equal(Mixture.load("model").n_, expected.n_)
    assert main(["fit", *map(str, options), "--coarsen"]) == 0
    said_of_groups = f"groups    {counted(expected.n_components_, 'cluster')} of {fine.n_components_}, on which halves"
    assert said_of_groups in capsys.readouterr().out
    assert main(["fit", *map(str, options)]) == 0
    assert "groups    add --coarsen to merge the clusters" in capsys.readouterr().out
    assert main(["fit", *map(str, options), "-k", "2"]) == 0
    assert "--coarsen" not in capsys.readouterr().out


def test_topics_and_rows_in_groups_are_merged_at_once(folder, said):
    fast = ["--steps", 30, "--seed", 0, "--coarsen", "--output", "model"]
    topics = said("topics", "texts.txt", "-k", 7, *fast)
    model = TopicModel(7, n_steps=30, random_state=0).fit(texts())
    np.testing.assert_array_equal(TopicModel.load("model").components_, model.coarsen().components_)
    assert (topics["n_clusters"], topics["n_clusters_of_fit"]) == (model.coarsen().n_components_, 7)
    assert len(topics["topics"]) == topics["n_clusters"]
    groups = said("groups", "cells.csv", "--groups", "patient", "-k", 6, *fast[:-1], "grouped")
    mixture = GroupedMixture(n_components=6, n_steps=30, random_state=0).fit(cells(), groups="patient")
    expected = mixture.coarsen()
    assert groups["n_clusters"] == expected.n_components_
    np.testing.assert_array_equal(GroupedMixture.load("grouped").group_weights_, expected.group_weights_)
    assert groups["groups"][0]["weights"] == expected.group_weights_[0].tolist()
