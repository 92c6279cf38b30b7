"""Names of rows in trees: in Newick's format, in figures, in files and on the command line."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import linkage

mpl.use("Agg")
from matplotlib import pyplot as plt

from expfam import BayesianHierarchy, Mixture
from expfam.cli import main
from expfam.displays import DendrogramDisplay
from expfam.errors import ArchiveError
from expfam.estimators.leaf_names import leaf_names
from expfam.estimators.row_results import row_names
from expfam.io.saved_values import check_hierarchy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 2)) + np.repeat([[0.0, 0.0], [9.0, 9.0]], 4, axis=0)
NAMES = ["ann", "bob", "cat", "dan", "eve", "fay", "gil", "hal h"]
FRAME = pd.DataFrame(X, columns=["u", "v"], index=NAMES)
LINKS = [0, 0, 0, -1, 1, 1, -1, -1]
LINKED = ["ann+bob+cat", "dan", "eve+fay", "gil", "hal h"]


def tips(newick):
    """Names of the leaves in a text of Newick's format, without quotes."""
    parts = newick.replace("(", ",").replace(")", ",").replace(";", "").split(",")
    return sorted(part.partition(":")[0].strip("'") for part in parts if part.partition(":")[0])


def written(estimator, names=None):
    """Names that a figure of all leaves shows."""
    ax = DendrogramDisplay.from_estimator(estimator, names=names).plot(n_tips=100).ax_
    found = sorted(label.get_text() for label in ax.get_xticklabels())
    plt.close("all")
    return found


def test_names_of_rows_are_those_of_the_leaves():
    tree = BayesianHierarchy("gaussian_diag").fit(FRAME)
    assert tips(tree.to_newick()) == written(tree) == NAMES
    assert tree.leaf_names_.tolist() == NAMES
    table = FRAME.assign(kind=list("abababab"))
    assert tips(BayesianHierarchy().fit(table).to_newick()) == NAMES


def test_names_of_linked_rows_are_joined():
    tree = BayesianHierarchy("gaussian_diag").fit(FRAME, links=LINKS)
    assert tips(tree.to_newick()) == written(tree) == LINKED
    assert [tree.leaf_names_[k] for k in tree.leaf_[:4]] == ["ann+bob+cat"] * 3 + ["dan"]


def test_names_of_clusters_are_joined_and_shortened_in_a_figure():
    tree = BayesianHierarchy("gaussian_diag", start=[0, 0, 0, 0, 0, 1, 1, 1]).fit(FRAME)
    assert tips(tree.to_newick()) == ["ann+bob+cat+dan+eve", "fay+gil+hal h"]
    assert written(tree) == ["ann+bob+cat+2 more", "fay+gil+hal h"]


@pytest.mark.parametrize("names", [list("ABCDEFGH"), np.arange(10, 18)])
def test_given_names_are_of_rows_or_of_leaves(names):
    tree = BayesianHierarchy("gaussian_diag").fit(FRAME, links=LINKS)
    own = [str(name) for name in names]
    joined = ["+".join(own[:3]), own[3], "+".join(own[4:6]), own[6], own[7]]
    assert tips(tree.to_newick(names)) == written(tree, names) == sorted(joined)
    assert tips(tree.to_newick(list("vwxyz"))) == written(tree, list("vwxyz")) == list("vwxyz")
    for give in (tree.to_newick, lambda names: DendrogramDisplay.from_estimator(tree, names=names)):
        with pytest.raises(
            ValueError, match="3 names for 8 rows and 5 leaves: give one name for each row, or for each"
        ):
            give(["a", "b", "c"])


def test_a_linkage_of_scipy_keeps_the_names():
    tree = BayesianHierarchy.from_linkage(linkage(X), FRAME, "gaussian_diag")
    assert tips(tree.to_newick()) == NAMES


def test_rows_without_names_have_numbers():
    for data in (X, pd.DataFrame(X), FRAME.reset_index(drop=True)):
        tree = BayesianHierarchy("gaussian_diag").fit(data)
        assert tips(tree.to_newick()) == list("01234567")
        assert not hasattr(tree, "row_names_")
        with pytest.raises(AttributeError, match="the rows of the fit had no names"):
            _ = tree.leaf_names_
    again = BayesianHierarchy("gaussian_diag").fit(FRAME).fit(X)
    assert not hasattr(again, "row_names_")


@pytest.mark.parametrize(
    ("index", "names"),
    [
        ([3, 7], ["3", "7"]),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), ["a 1", "b 2"]),
        (pd.Index(["x", None], dtype=object), ["x", "None"]),
        ([0, 1], None),
    ],
)
def test_an_index_of_any_kind(index, names):
    found = row_names(pd.DataFrame({"u": [0.0, 1.0]}, index=index))
    assert (None if found is None else found.tolist()) == names


def test_four_names_are_not_shortened():
    assert leaf_names(list("abcd"), np.zeros(4, dtype=int), 1, is_short=True) == ["a+b+c+d"]
    assert leaf_names(list("abcde"), np.zeros(5, dtype=int), 1, is_short=True) == ["a+b+c+2 more"]


def test_a_file_keeps_the_names(tmp_path):
    tree = BayesianHierarchy("gaussian_diag").fit(FRAME, links=LINKS)
    tree.save(tmp_path / "tree")
    loaded = BayesianHierarchy.load(tmp_path / "tree")
    assert loaded.to_newick() == tree.to_newick()
    assert loaded.row_names_.tolist() == NAMES


@pytest.mark.parametrize("names", [np.array(["a", "b"]), np.arange(8), "abcdefgh", np.full((8, 1), "a")])
def test_names_that_no_fit_writes_are_refused(names):
    tree = BayesianHierarchy("gaussian_diag").fit(FRAME)
    forest = tree.tree_
    results = {name: getattr(forest, name) for name in ("children", "log_block", "counts")}
    results |= {name: getattr(tree, name) for name in ("leaf_", "labels_", "alpha_", "order_", "n_scores_")}
    results |= {"leaf_weight": forest.log_block[:8], "n": tree._n, "S": tree._S, "n_features_in_": 2}
    check_hierarchy(results | {"row_names_": np.array(NAMES)}, tree.family_)
    with pytest.raises(ArchiveError, match="'row_names_' are no names of 8 rows"):
        check_hierarchy(results | {"row_names_": names}, tree.family_)


@pytest.mark.parametrize("leaves", ["rows", "clusters"])
def test_the_command_writes_names_of_rows(tmp_path, leaves):
    FRAME.to_csv(tmp_path / "t.csv", index_label="who")
    options = ["--family", "gaussian_diag", "--id-column", "who", "--leaves", leaves, "--quiet"]
    command = ["tree", str(tmp_path / "t.csv"), *options, "--newick", str(tmp_path / "t.nwk")]
    assert main([*command, "--figure", str(tmp_path / "t.png")]) == 0
    found = tips((tmp_path / "t.nwk").read_text().strip())
    assert sorted("+".join(found).split("+")) == NAMES
    assert (len(found) == 8) == (leaves == "rows")


def test_a_mixture_has_names_of_clusters():
    mixture = Mixture("gaussian_diag", 2, random_state=0).fit(FRAME)
    assert written(mixture, ["low", "high"]) == ["high", "low"]
