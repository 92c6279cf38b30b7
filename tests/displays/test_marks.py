"""What the displays hold and draw: arrays, marks, texts and limits of the axes, not only the lack of errors."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import sparse

from expfam import BayesianHierarchy, Mixture
from expfam.displays.dendrogram import DendrogramDisplay
from expfam.displays.evidence import ColumnEvidenceDisplay
from expfam.displays.means import ClusterMeansDisplay
from expfam.displays.pairs import PairsDisplay
from expfam.displays.posterior import BallDisplay, ClusterCountDisplay, SimilarityDisplay
from expfam.displays.scatter import ScatterDisplay
from expfam.displays.sizes import SizesDisplay
from expfam.displays.trace import TraceDisplay
from expfam.errors import CapabilityError, DataError
from expfam.evaluation.posterior import PartitionPosterior
from expfam.families.base import Family


@pytest.fixture(scope="module")
def plane():
    """Two well separated clusters of 30 and 10 points, and their mixture."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(30, 1, (10, 2))])
    return X, Mixture("gaussian", 2, n_steps=5, random_state=0).fit(X)


@pytest.fixture(scope="module")
def documents():
    """Sparse counts over 70 words: 20 rows on the first ten of them, 8 rows on the next ten."""
    X = np.zeros((28, 70))
    X[:20, :10], X[20:, 10:20] = 4, 6
    X[:, 20] = 9  # a word of all, which tells nothing
    return sparse.csr_array(X), Mixture("multinomial", 2, n_steps=10, random_state=0).fit(sparse.csr_array(X))


def texts(ax):
    return [text.get_text() for text in ax.texts]


# ---- trace -----------------------------------------------------------------------------------------------------------


def test_trace_draws_the_run_by_step_and_by_seconds(plane):
    _, mixture = plane
    display = TraceDisplay.from_estimator(mixture)
    for name in ("step", "objective", "n_clusters", "seconds"):
        np.testing.assert_array_equal(getattr(display, name), mixture.trace_.column(name))
    for against, x in (("step", display.step), ("seconds", np.cumsum(display.seconds))):
        above, below = display.plot(against=against).axes_
        for axes, y in ((above, display.objective), (below, display.n_clusters)):
            (line,) = axes.get_lines()
            np.testing.assert_array_equal(line.get_xdata(), x)
            np.testing.assert_array_equal(line.get_ydata(), y)
        assert below.get_xlabel() == against
        assert above.get_title(loc="left").startswith(f"{len(x)} steps in ")


def test_trace_does_not_let_the_first_climb_flatten_the_rest():
    objective = np.concatenate([[-1e6, -1e5], np.linspace(-110, -100, 38)])
    above, _ = TraceDisplay(np.arange(40), objective, np.ones(40), np.ones(40)).plot().axes_
    low, high = above.get_ylim()
    assert -200 < low < -110
    assert -100 < high < 0
    level = np.linspace(-110, -100, 40)
    low, high = TraceDisplay(np.arange(40), level, np.ones(40), np.ones(40)).plot().axes_[0].get_ylim()
    assert low < -110  # nothing is cut where nothing stands out
    assert high > -100


def test_trace_uses_the_axes_that_it_is_given():
    _, pair = plt.subplots(2)
    display = TraceDisplay([1, 2], [-2.0, -1.0], [3, 2], [0.5, 0.5]).plot(pair)
    assert display.axes_ == tuple(pair)
    assert len(plt.get_fignums()) == 1


def test_trace_refuses_what_does_not_fit():
    with pytest.raises(DataError, match="four columns of one length"):
        TraceDisplay([1, 2], [0.0], [1, 1], [0.1, 0.1])
    with pytest.raises(ValueError, match="against must be"):
        TraceDisplay([1], [0.0], [1], [0.1]).plot(against="days")


# ---- sizes -----------------------------------------------------------------------------------------------------------


def test_sizes_are_bars_by_rank(plane):
    _, mixture = plane
    display = SizesDisplay.from_estimator(mixture).plot()
    assert [bar.get_height() for bar in display.ax_.patches] == [30, 10]
    assert [round(bar.get_x() + bar.get_width() / 2) for bar in display.ax_.patches] == [1, 2]
    assert display.ax_.get_yscale() == "linear"
    assert display.ax_.get_title(loc="left") == "40 rows in 2 clusters"


def test_sizes_of_many_clusters_are_one_area_on_a_logarithmic_axis():
    ax = SizesDisplay(np.arange(1, 201)).plot().ax_
    assert not ax.patches
    assert len(ax.collections) == 1
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == 200
    assert ax.get_yscale() == "log"


# ---- means -----------------------------------------------------------------------------------------------------------


def test_images_form_a_grid_with_sizes():
    means = np.arange(6 * 64, dtype=float).reshape(6, 64)
    display = ClusterMeansDisplay(means, [600, 50, 40, 30, 20, 1000], names="abcdef").plot()
    assert display.kind_ == "image"
    images = display.ax_.get_images()
    for k, image in enumerate(images):
        np.testing.assert_array_equal(image.get_array(), means[k].reshape(8, 8))
    corners = np.array([image.get_extent() for image in images])  # left, right, bottom, top
    assert len({tuple(corner) for corner in corners}) == 6
    assert set((corners[:, 1] - corners[:, 0]).round(9)) == {8.0}
    assert set(corners[:, 3]) == {0.0, 8 + 0.38 * 8}  # two rows
    (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
    assert left <= corners[:, 0].min() < corners[:, 1].max() <= right
    assert top <= corners[:, 3].min() < corners[:, 2].max() <= bottom
    assert texts(display.ax_) == ["a  ·  600", "b  ·  50", "c  ·  40", "d  ·  30", "e  ·  20", "f  ·  1,000"]


@pytest.mark.parametrize("K", [1, 2, 5, 6, 20, 33])
def test_titles_of_images_lie_within_the_axes_and_apart(K):
    display = ClusterMeansDisplay(np.tile(np.arange(64.0), (K, 1)), np.full(K, 123)).plot()
    display.figure_.canvas.draw()
    boxes = [text.get_window_extent() for text in display.ax_.texts]
    inside = display.figure_.bbox
    assert all(box.x0 >= inside.x0 and box.x1 <= inside.x1 and box.y1 <= inside.y1 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_words_tell_a_cluster_from_the_others(documents):
    _, mixture = documents
    names = np.array([f"w{column}" for column in range(70)])
    display = ClusterMeansDisplay.from_estimator(mixture, feature_names=names)
    np.testing.assert_array_equal(display.sizes, [20, 8])
    theta = mixture.family_.to_params(*mixture.family_.map_natural(mixture.n_, mixture.S_.toarray()))
    np.testing.assert_array_equal(display.means, theta["probability"][display.names])
    first, second = display.top_words(10)
    assert set(first) == set(names[:10])
    assert set(second) == set(names[10:20])
    display.plot(n_words=3)
    assert display.kind_ == "words"
    assert texts(display.ax_) == [f"{display.names[0]}  ·  20", *first[:3], f"{display.names[1]}  ·  8", *second[:3]]
    widths = [bar.get_width() for bar in display.ax_.patches]
    np.testing.assert_allclose(widths, 0.9, rtol=1e-12)  # the three words are equally probable


def test_words_of_probability_zero_are_left_out():
    display = ClusterMeansDisplay([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], [1, 1], feature_names=["a", "b", "c"])
    assert display.top_words(3) == [["a"], ["b", "c"]]


def test_heat_map_scales_each_column():
    means = np.array([[0.0, 5.0, 100.0], [2.0, 5.0, 300.0]])
    display = ClusterMeansDisplay(means, [3, 4], feature_names=["x", "constant", "z"]).plot()
    assert display.kind_ == "heat"
    (image,) = display.ax_.get_images()
    np.testing.assert_allclose(image.get_array(), [[-1, 0, -1], [1, 0, 1]], atol=1e-15)
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["x", "constant", "z"]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["0  ·  3", "1  ·  4"]


def test_ellipses_have_the_covariance_and_points_the_colour_of_their_cluster(plane):
    X, mixture = plane
    display = ClusterMeansDisplay.from_estimator(mixture, X).plot()
    assert display.kind_ == "ellipses"
    for k, ellipse in enumerate(display.ax_.patches):
        # points of the drawn ellipse lie two standard deviations from the mean
        points = ellipse.get_patch_transform().transform(np.array([[1.0, 0], [0, 1], [0.6, -0.8]])) - display.means[k]
        squares = np.einsum("pi,pi->p", points @ np.linalg.inv(display.covariances[k]), points)
        np.testing.assert_allclose(squares, 4.0, rtol=1e-9)
    dots, centres = display.ax_.collections
    np.testing.assert_array_equal(dots.get_offsets(), X)
    np.testing.assert_array_equal(centres.get_offsets(), display.means)
    colours = dots.get_facecolors()[:, :3]
    assert len(np.unique(colours, axis=0)) == 2
    same = mixture.labels_ == mixture.labels_[0]
    assert (colours[same] == colours[0]).all()
    assert not (colours[~same] == colours[0]).all(axis=1).any()


def test_points_of_clusters_that_are_not_shown_are_grey(plane):
    X, mixture = plane
    display = ClusterMeansDisplay.from_estimator(mixture, X, n_max=1)
    assert display.names == [0]
    np.testing.assert_array_equal(display.point_labels, np.repeat([0, -1], [30, 10]))
    colours = display.plot().ax_.collections[0].get_facecolors()[:, :3]
    assert (colours[30:] == 0.8).all()


def test_diagonal_and_spherical_covariances_are_filled_up(plane):
    X, _ = plane
    for family in ("gaussian_diag", "gaussian_spherical"):
        mixture = Mixture(family, 2, n_steps=2, random_state=0).fit(X)
        display = ClusterMeansDisplay.from_estimator(mixture)
        assert display.covariances.shape == (mixture.n_components_, 2, 2)
        assert (display.covariances[:, 0, 1] == 0).all()
        assert (display.covariances[:, [0, 1], [0, 1]] > 0).all()


def test_means_refuse_what_does_not_fit(plane):
    means = np.ones((2, 6))
    with pytest.raises(DataError, match="as many sizes and names"):
        ClusterMeansDisplay(means, [1, 2, 3])
    with pytest.raises(DataError, match="as many feature_names"):
        ClusterMeansDisplay(means, [1, 2], feature_names=["a"])
    display = ClusterMeansDisplay(means, [1, 2])
    for options, message in (
        ({"kind": "pie"}, "kind must be"),
        ({"kind": "words"}, "give the vocabulary"),
        ({"kind": "ellipses"}, "need two columns"),
        ({"image_shape": (4, 4)}, r"no image of shape \(4, 4\)"),
    ):
        with pytest.raises(ValueError, match=message):
            display.plot(**options)

    class Bare(Family):
        def sufficient_statistics(self, X):
            return X

        def log_marginal(self, n, S):
            return -0.5 * np.log1p(n) * S.shape[1] + 0.5 * (S**2).sum(axis=1) / (1 + n)

    mixture = Mixture(Bare(), 2, n_steps=1, random_state=0).fit(plane[0])
    with pytest.raises(CapabilityError, match="bare"):
        ClusterMeansDisplay.from_estimator(mixture)


def test_sizes_may_be_sums_of_weights():
    assert SizesDisplay([0.25, 0.5]).plot().ax_.get_title(loc="left") == "0.75 rows in 2 clusters"
    assert SizesDisplay([1200.0, 34.0]).plot().ax_.get_title(loc="left") == "1,234 rows in 2 clusters"


# ---- axes ------------------------------------------------------------------------------------------------------------


def test_every_axis_has_a_name(plane):
    X, mixture = plane
    labels = mixture.labels_
    names = ["a", "b", "c"]
    draws = PartitionPosterior([labels, labels, np.zeros_like(labels)])
    hierarchy = BayesianHierarchy("gaussian_diag").fit(X)
    pictures = [
        ClusterMeansDisplay.from_estimator(mixture, X),
        ClusterMeansDisplay(np.eye(3), [1, 2, 3]),
        ClusterMeansDisplay(np.eye(3), [1, 2, 3], feature_names=names),
        ColumnEvidenceDisplay(np.eye(3), [1, 2, 3], feature_names=names),
        ScatterDisplay(X, labels),
        SizesDisplay([5, 3]),
        TraceDisplay.from_estimator(mixture),
        DendrogramDisplay.from_estimator(hierarchy),
        PairsDisplay(np.eye(3), [0, 0, 1], names),
        ClusterCountDisplay.from_posterior(draws),
        SimilarityDisplay(draws),
        BallDisplay.from_posterior(draws),
    ]
    for picture in pictures:
        figure = picture.plot().figure_
        for ax in figure.axes:
            if ax.get_label() == "<colorbar>" or not ax.axison:
                continue
            place = ax.get_subplotspec()
            assert ax.get_xlabel() or not place.is_last_row(), type(picture).__name__
            assert ax.get_ylabel() or not place.is_first_col(), type(picture).__name__
