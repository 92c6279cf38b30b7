"""What the displays hold and draw; matplotlib is imported by `plot` alone."""

import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt

from expfam import Mixture
from expfam.displays.evidence import ColumnEvidenceDisplay
from expfam.displays.means import ClusterMeansDisplay
from expfam.displays.sizes import SizesDisplay
from expfam.displays.trace import TraceDisplay
from expfam.errors import CapabilityError, DataError


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 6.0, (3, 16))[rng.integers(0, 3, 90)])
    return Mixture("poisson", 6, n_steps=8, random_state=0).fit(X)


def test_trace(counts):
    display = TraceDisplay.from_estimator(counts)
    np.testing.assert_array_equal(display.objective, counts.trace_.column("objective"))
    above, below = display.plot().axes_
    np.testing.assert_array_equal(above.lines[0].get_ydata(), display.objective)
    np.testing.assert_array_equal(above.lines[0].get_xdata(), display.step)
    np.testing.assert_array_equal(below.lines[0].get_ydata(), display.n_clusters)
    assert "nats" in above.get_ylabel()
    assert below.get_xlabel() == "step"
    above, below = display.plot(against="seconds").axes_
    np.testing.assert_allclose(above.lines[0].get_xdata(), np.cumsum(display.seconds))
    assert below.get_xlabel() == "seconds"
    with pytest.raises(ValueError, match="against"):
        display.plot(against="time")
    with pytest.raises(DataError, match="one length"):
        TraceDisplay([1, 2], [0.0], [1], [1.0])


def test_trace_on_given_axes(counts):
    figure, axes = plt.subplots(2)
    display = TraceDisplay.from_estimator(counts).plot(ax=axes)
    assert display.figure_ is figure


@pytest.mark.parametrize(
    ("sizes", "scale"), [([5, 40, 12], "linear"), ([1, 4000, 12], "log"), (range(1, 90), "linear")]
)
def test_sizes(sizes, scale):
    ax = SizesDisplay(sizes).plot().ax_
    assert ax.get_yscale() == scale
    if len(sizes) <= 60:
        assert [bar.get_height() for bar in ax.patches] == sorted(sizes, reverse=True)
    assert f"{sum(sizes):,} rows in {len(sizes)} clusters" == ax.get_title(loc="left")


def test_means_as_images(counts):
    display = ClusterMeansDisplay.from_estimator(counts, n_max=2)
    order = np.argsort(-counts.n_, kind="stable")[:2]
    rates = counts.family_.to_params(*counts.family_.map_natural(counts.n_, counts.S_))["rate"]
    np.testing.assert_allclose(display.means, rates[order])
    assert display.names == order.tolist()
    display.plot(image_shape=(4, 4))
    assert display.kind_ == "image"
    images = [image for ax in display.figure_.axes for image in ax.get_images()]
    images += [image for ax in display.ax_.child_axes for image in ax.get_images()]
    assert len(images) == 2
    assert images[0].get_array().shape == (4, 4)


def test_means_as_words(counts):
    words = [f"word{w}" for w in range(16)]
    display = ClusterMeansDisplay.from_estimator(counts, feature_names=words, n_max=3)
    top = display.top_words(4)
    share = display.means / display.means.sum(axis=1, keepdims=True)
    background = display.background / display.background.sum()
    for listed, row in zip(top, share):
        assert len(listed) == 4
        assert set(listed) <= set(words)
        assert all(row[words.index(word)] > background[words.index(word)] for word in listed[:1])
    display.plot(kind="words")
    drawn = {text.get_text() for ax in [display.ax_, *display.ax_.child_axes] for text in ax.texts}
    assert set(top[0]) <= drawn


def test_means_as_ellipses():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 2)) + 9 * rng.integers(0, 3, (90, 1))
    mixture = Mixture("gaussian", 5, n_steps=8, random_state=0).fit(X)
    display = ClusterMeansDisplay.from_estimator(mixture, X)
    np.testing.assert_array_equal(display.points, X)
    assert display.covariances.shape == (mixture.n_components_, 2, 2)
    display.plot()
    assert display.kind_ == "ellipses"
    assert len(display.ax_.patches) >= mixture.n_components_


def test_wrong_shapes_are_refused():
    with pytest.raises(DataError, match="as many sizes"):
        ClusterMeansDisplay(np.eye(3), sizes=[1, 2])
    with pytest.raises(DataError, match="feature_names"):
        ClusterMeansDisplay(np.eye(3), sizes=[1, 2, 3], feature_names=["a"])


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"expfam\[plot\]"):
        SizesDisplay([1, 2]).plot()


def test_evidence_of_columns_is_drawn_and_means_of_tables_are_refused():
    X = np.repeat([[0.0, 0.0], [9.0, 0.1]], 20, axis=0) + 0.1 * np.random.default_rng(0).normal(size=(40, 2))
    X[3, 1] = np.nan
    mixture = Mixture(n_components=2, n_steps=3, n_warmup=3, random_state=0).fit(X)
    display = ColumnEvidenceDisplay.from_estimator(mixture).plot()
    assert [float(text.get_text()) for text in display.ax_.texts] == np.round(mixture.explain().ravel()).tolist()
    near_zero = ColumnEvidenceDisplay([[-0.2, 0.4]], [9], feature_names=["a", "b"]).plot()
    assert [text.get_text() for text in near_zero.ax_.texts] == ["0", "0"]  # not "-0"
    with pytest.raises(DataError, match="evidence of 1 cluster and 2 columns needs 1 size and 2 feature_names"):
        ColumnEvidenceDisplay([[1.0, 2.0]], [1, 2])
    with pytest.raises(CapabilityError, match="the clusters of a table are in `clusters_`"):
        ClusterMeansDisplay.from_estimator(mixture)
