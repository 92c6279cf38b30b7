"""What the displays of a posterior hold and draw."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from expfam import Mixture, PartitionPosterior
from expfam.displays import BallDisplay, ClusterCards, ClusterCountDisplay, SimilarityDisplay, TraceDisplay
from expfam.errors import DataError
from expfam.samplers.chain.diagnostics import rhat


@pytest.fixture(scope="module")
def iris():
    return load_iris(as_frame=True).data


@pytest.fixture(scope="module")
def mixture(iris):
    return Mixture("gaussian", n_draws=60, n_steps=60, n_warmup=10, random_state=0).fit(iris)


def test_cluster_counts(mixture):
    posterior = mixture.posterior_
    display = ClusterCountDisplay.from_posterior(posterior)
    found = {int(k): float(p) for k, p in zip(display.values, display.shares[0]) if p}
    assert found == pytest.approx(posterior.n_clusters_probability)
    ax = display.plot().ax_
    assert [bar.get_height() for bar in ax.patches] == display.shares[0].tolist()
    assert str(mixture.n_components_) in ax.get_title(loc="left")


def test_cluster_counts_of_chains():
    display = ClusterCountDisplay([2, 2, 3, 5], chain=[0, 0, 7, 7])
    assert display.values.tolist() == [2, 3, 4, 5]
    assert display.shares.tolist() == [[1, 0, 0, 0], [0, 0.5, 0, 0.5]]
    assert len(display.plot().ax_.patches) == 8
    with pytest.raises(DataError, match="chains"):
        ClusterCountDisplay([2, 3], chain=[0])


@pytest.mark.parametrize("n_rows", [400, 30])
def test_similarity(mixture, n_rows):
    posterior = mixture.posterior_
    display = SimilarityDisplay(posterior, n_rows)
    rows = display.rows
    assert len(rows) == 150 if n_rows == 400 else 25 <= len(rows) <= 35
    assert (np.diff(posterior.point[rows]) >= 0).all()
    i, j = np.meshgrid(rows, rows, indexing="ij")
    pairs = np.stack([i.ravel(), j.ravel()], axis=1)
    np.testing.assert_allclose(display.similarity.ravel(), posterior.together(pairs))
    np.testing.assert_array_equal(np.diff(display.ends, prepend=0), np.bincount(posterior.point[rows]))
    image = display.plot().ax_.images[0]
    np.testing.assert_array_equal(image.get_array(), display.similarity)
    with pytest.raises(ValueError, match="n_rows"):
        SimilarityDisplay(posterior, 0)


def test_ball(mixture):
    posterior = mixture.posterior_
    display = BallDisplay.from_posterior(posterior, 0.5)
    ball = posterior.ball(0.5)
    assert display.radius == ball.radius
    for sizes, labels in zip(display.sizes, (ball.upper, posterior.point, ball.lower)):
        assert sizes.tolist() == sorted(np.bincount(labels), reverse=True)
    ax = display.plot().ax_
    assert len(ax.patches) == sum(map(len, display.sizes))
    assert [label.get_text().split(":")[0] for label in ax.get_yticklabels()] == ["upper bound", "point", "lower bound"]
    assert f"{ball.radius:.3g} nats" in ax.get_title(loc="left")
    with pytest.raises(DataError, match="three"):
        BallDisplay([[1]], radius=0, probability=0.9)


def test_cards(mixture, iris):
    cards = ClusterCards(mixture, iris)
    assert len(cards.cards) == mixture.n_components_
    first = "\n".join(cards.cards[0]["lines"])
    assert cards.cards[0]["title"] == "cluster 0: 50 rows"
    assert "petal width (cm)" in first
    assert "covariance (diagonal)" in first
    assert repr(cards).count("cohesion") == mixture.n_components_
    assert cards._repr_html_().count("<div") == mixture.n_components_
    mean = mixture.posterior_.parameters(iris)["mean"]
    np.testing.assert_array_equal(cards.intervals["mean"].low, mean.low)
    assert f"{mean.mean[0, 0]:.3g}  ({mean.low[0, 0]:.3g} to {mean.high[0, 0]:.3g})" in first


def test_cards_escape_names_of_columns_and_cut_long_parameters():
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, (30, 9)).astype(float)
    mixture = Mixture("poisson", 1, n_draws=5, n_steps=5, n_warmup=1, random_state=0).fit(X)
    mixture.feature_names_in_ = np.array(["<b>"] * 9)
    cards = ClusterCards(mixture, X)
    assert "rate, 6 largest of 9" in repr(cards)
    assert "nearest" not in repr(cards)
    assert "&lt;b&gt;" in cards._repr_html_()


def test_trace_of_chains(mixture):
    trace = mixture.trace_
    display = TraceDisplay.from_estimator(mixture)
    assert display.n_warmup == trace.n_warmup == 10
    # equal partitions have equal values here, up to rounding errors in the trace
    assert display.rhat == pytest.approx(rhat(trace.counted("objective")), rel=1e-4)
    above, below = display.plot().axes_
    assert f"R-hat of the log joint {display.rhat:.2f}" in above.get_title(loc="left")
    assert len(above.patches) == len(below.patches) == 1  # the warm-up
    step = np.tile(np.arange(1, 9), 2)
    objective = np.random.default_rng(0).normal(size=16)
    display = TraceDisplay(step, objective, step, step, chain=np.repeat([0, 1], 8), n_warmup=3)
    assert display.rhat == rhat(objective.reshape(2, 8)[:, 3:])
    above, below = display.plot().axes_
    assert [line.get_ydata().tolist() for line in above.lines] == objective.reshape(2, 8).tolist()
    assert len(below.lines) == 2
    assert above.get_title(loc="left").startswith("2 chains")
    with pytest.raises(DataError, match="chain"):
        TraceDisplay([1, 2], [0.0, 1.0], [1, 1], [1.0, 1.0], chain=[0])
    assert np.isnan(TraceDisplay([1, 2], [0.0, 1.0], [1, 1], [1.0, 1.0]).rhat)


def test_displays_take_draws_of_other_packages():
    posterior = PartitionPosterior([[0, 0, 1], [0, 1, 1], [0, 0, 1]])
    assert SimilarityDisplay(posterior).similarity.shape == (3, 3)
    assert ClusterCountDisplay.from_posterior(posterior).shares.tolist() == [[1.0]]
