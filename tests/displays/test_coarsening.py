"""The figure of the scores of all numbers of groups."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from expfam import Mixture, TopicModel
from expfam.coarsening.curve import CoarseningCurve
from expfam.displays import CoarseningDisplay


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 150)
    X = np.stack([12.0 * rng.uniform(size=450), rng.normal(size=450) + 30.0 * group], axis=1)
    return Mixture("gaussian_diag", start=2 * group + (X[:, 0] > 6.0), n_steps=0, n_warmup=0, partition="last").fit(X)


def test_the_answer_is_marked_beside_its_tree(mixture):
    curve = mixture.coarsening_curve_
    display = CoarseningDisplay.from_estimator(mixture).plot()
    title = display.ax_.get_title(loc="left")
    assert title == f"halves of the data agree on {curve.n_clusters} of 6 clusters"
    assert display.ax_.get_xlabel() == "number of groups"
    lines = {line.get_label(): line for line in display.ax_.get_lines()}
    drawn = lines["merges of least cost"]
    np.testing.assert_array_equal(drawn.get_xdata(), range(1, 7))
    np.testing.assert_array_equal(drawn.get_ydata(), curve.score["cost"])
    texts = [text.get_text() for text in display.ax_.texts]
    assert texts == [str(peak[1]) for peak in curve.peaks(3)]
    assert display.tree_ax_.get_title(loc="left").endswith(f"cut into {curve.n_clusters}")
    (height,) = set(display.tree_ax_.get_lines()[-1].get_ydata())
    tops = [points[1][1] for points in display.tree_ax_.collections[0].get_segments()]
    assert sum(top > height for top in tops) == curve.n_clusters - 1  # merges above the line
    plt.close("all")


def test_topics_are_counted_as_topics():
    X = np.random.default_rng(0).poisson([[5, 5, 5, 0, 0, 0], [0, 0, 0, 5, 5, 5]] * 30)
    display = CoarseningDisplay.from_estimator(TopicModel(3, n_steps=20, random_state=0).fit(X)).plot()
    assert display.ax_.get_xlabel() == "number of topics"
    assert display.tree_ax_.get_xlabel() == "topic"
    assert display.ax_.get_title(loc="left") == f"halves of the data agree on {display.curve.n_clusters} of 3 topics"
    assert {line.get_label() for line in display.ax_.get_lines()} >= {"merges of like words"}
    plt.close("all")


def test_axes_may_be_given(mixture):
    _, ax = plt.subplots()
    display = CoarseningDisplay(mixture.coarsening_curve_).plot(ax)
    assert display.ax_ is ax
    assert display.tree_ax_ is None
    plt.close("all")


def test_many_clusters_have_an_axis_of_logs():
    K = 60
    tree = np.column_stack([np.r_[0, K + np.arange(K - 2)], np.arange(1, K), np.arange(1, K), np.arange(2, K + 1)])
    values = {"cost": np.linspace(0.0, 1.0, K)}
    curve = CoarseningCurve(
        {"cost": tree.astype(float)},
        np.full(K, 5),
        values,
        {"cost": np.zeros(K)},
        values,
        values,
        0.5,
        "cost",
        K,
        np.ones(K),
    )
    display = CoarseningDisplay(curve).plot(n_tips=10)
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_xticklabels()[-1].get_text() == "50"
    plt.close("all")
