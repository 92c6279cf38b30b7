"""Rows in the plane, coloured by cluster; every display is made from an estimator by one name."""

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from expfam import BayesianHierarchy, Mixture, displays
from expfam.displays import ScatterDisplay, SimilarityDisplay
from expfam.errors import DataError

X = np.random.default_rng(0).normal(size=(90, 4)) + 12.0 * np.repeat(np.eye(3, 4), 30, axis=0)


def shown(display):
    """Return the rows of each label of the legend."""
    return {item.get_label(): len(item.get_offsets()) for item in display.plot().ax_.collections}


@pytest.mark.parametrize("name", displays.__all__)
def test_every_display_is_made_from_an_estimator(name):
    assert inspect.ismethod(getattr(displays, name).from_estimator)


def test_components_keep_the_clusters_apart():
    mixture = Mixture("gaussian_diag", 3, random_state=0).fit(X)
    display = ScatterDisplay.from_estimator(mixture, X)
    centres = [display.points[mixture.labels_ == k].mean(axis=0) for k in range(3)]
    spread = max(display.points[mixture.labels_ == k].std() for k in range(3))
    assert min(np.linalg.norm(centres[a] - centres[b]) for a, b in [(0, 1), (0, 2), (1, 2)]) > 2 * spread
    assert sorted(shown(display).values()) == [30, 30, 30]
    assert display.ax_.get_title(loc="left") == "90 rows in 3 clusters"


def test_two_columns_are_the_axes_and_columns_can_be_chosen():
    frame = pd.DataFrame(X, columns=list("abcd"))
    mixture = Mixture("gaussian_diag", 3, random_state=0).fit(frame)
    chosen = ScatterDisplay.from_estimator(mixture, frame, columns=("c", "a"))
    np.testing.assert_array_equal(chosen.points, X[:, [2, 0]])
    assert (chosen.plot().ax_.get_xlabel(), chosen.ax_.get_ylabel()) == ("c", "a")
    by_number = ScatterDisplay.from_estimator(Mixture("gaussian_diag", 3, random_state=0).fit(X), X, columns=(2, 0))
    np.testing.assert_array_equal(by_number.points, X[:, [2, 0]])
    two = frame[["a", "b"]]
    plane = ScatterDisplay.from_estimator(Mixture("gaussian_diag", 3, random_state=0).fit(two), two)
    np.testing.assert_array_equal(plane.points, X[:, :2])
    assert plane.names == ("a", "b")
    with pytest.raises(DataError, match="no column 'z'; it has"):
        ScatterDisplay.from_estimator(mixture, frame, columns=("z", "a"))


def test_counts_tables_and_trees():
    counts = np.random.default_rng(0).poisson([[1, 20, 3], [20, 1, 3]] * 20)
    dense = ScatterDisplay.from_estimator(Mixture("multinomial", 2, random_state=0).fit(counts), counts)
    csr = sparse.csr_matrix(counts)
    other = ScatterDisplay.from_estimator(Mixture("multinomial", 2, random_state=0).fit(csr), csr)
    np.testing.assert_allclose(np.abs(other.points), np.abs(dense.points), atol=1e-6)
    table = pd.DataFrame({"x": X[:, 0], "job": np.repeat(["a", "b", "c"], 30)})
    table.loc[::7, "x"] = np.nan
    assert np.isfinite(ScatterDisplay.from_estimator(Mixture(random_state=0).fit(table), table).points).all()
    tree = ScatterDisplay.from_estimator(BayesianHierarchy("gaussian_diag", 3).fit(X), X)
    assert sum(shown(tree).values()) == 90


def test_many_clusters_share_a_colour_and_one_column_has_no_second_component():
    display = ScatterDisplay(np.zeros((26, 2)), [*np.repeat(np.arange(12), 2), -1, -1])
    assert shown(display)["others"] == 6
    single = X[:, :1]
    points = ScatterDisplay.from_estimator(Mixture("gaussian_diag", 2, random_state=0).fit(single), single).points
    assert not points[:, 1].any()


def test_wrong_shapes_are_refused():
    with pytest.raises(DataError, match=r"got \(4, 3\) and \(4,\)"):
        ScatterDisplay(np.zeros((4, 3)), np.zeros(4))


def test_displays_of_a_posterior_come_from_the_estimator():
    mixture = Mixture("gaussian_diag", 3, n_draws=20, random_state=0).fit(X)
    np.testing.assert_array_equal(
        SimilarityDisplay.from_estimator(mixture, 40).similarity, SimilarityDisplay(mixture.posterior_, 40).similarity
    )
    assert displays.ClusterCountDisplay.from_estimator(mixture).values.tolist() == [3]
    assert displays.BallDisplay.from_estimator(mixture).plot().ax_ is not None
