"""What there is to look at after a fit, on all four estimators: a summary, the steps as a frame, a picture."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import expfam
from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.displays import ClusterMeansDisplay, DendrogramDisplay, PairsDisplay, ScatterDisplay, SizesDisplay
from expfam.errors import CapabilityError, DataError

TEXTS = ["match team goal player final coach"] * 8 + ["bank shares profit bond rates loan"] * 8


def rows(n_columns=6):
    rng = np.random.default_rng(0)
    return rng.normal(size=(90, n_columns)) + 9.0 * np.repeat(np.eye(3, n_columns), 30, axis=0)


def table():
    rng, kind = np.random.default_rng(1), np.arange(80) % 2
    town = np.where(rng.random(80) < 0.9, np.array(["oslo", "rome"])[kind], "bonn")
    return pd.DataFrame({"age": rng.normal(30 + 30 * kind, 3), "town": town, "home": np.arange(80) % 4})


@pytest.fixture(scope="module")
def fitted():
    df = table()
    return {
        "numbers": Mixture(n_components=3, random_state=0).fit(rows()),
        "table": Mixture(n_components=2, random_state=0).fit(df[["age", "town"]]),
        "texts": Mixture(random_state=0).fit(TEXTS),
        "topics": TopicModel(2, random_state=0).fit(TEXTS),
        "groups": GroupedMixture("gaussian_diag", 3, random_state=0).fit(rows(), groups=np.arange(90) % 5),
        "groups of a table": GroupedMixture(n_components=2, random_state=0).fit(df, groups="home"),
        "tree": BayesianHierarchy("gaussian_diag", random_state=0).fit(rows()),
        "directions": Mixture("von_mises_fisher", 2, random_state=0).fit(directions()),
        "wide": Mixture("gaussian_diag", 2, random_state=0).fit(directions()),
    }


def directions():
    X = np.random.default_rng(2).normal(size=(60, 90)) + np.repeat([[2.0], [-2.0]], 30, axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


PICTURES = {
    "numbers": "ClusterMeansDisplay",
    "table": "ColumnEvidenceDisplay",
    "texts": "ClusterMeansDisplay",
    "topics": "ClusterMeansDisplay",
    "groups": "ClusterMeansDisplay",
    "groups of a table": "ColumnEvidenceDisplay",
    "tree": "DendrogramDisplay",
    "directions": "ScatterDisplay",
    "wide": "ScatterDisplay",
}


@pytest.mark.parametrize("name", PICTURES)
def test_plot_chooses_the_picture(name, fitted, tmp_path):
    pytest.importorskip("matplotlib")
    display = fitted[name].plot()
    assert type(display).__name__ == PICTURES[name]
    display.figure_.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 3000
    if name in ("texts", "topics"):
        assert display.kind_ == "words"
        words = {frozenset(words) for words in display.top_words(6)}
        assert words == {frozenset(text.split()) for text in (TEXTS[0], TEXTS[-1])}


def test_a_model_without_rows_is_drawn_by_its_sizes(fitted, tmp_path):
    pytest.importorskip("matplotlib")
    fitted["directions"].save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    assert type(loaded.plot()).__name__ == "SizesDisplay"
    assert type(loaded.plot(directions())).__name__ == "ScatterDisplay"
    with pytest.raises(DataError, match=r"kept no rows of its fit: write ScatterDisplay\.from_estimator"):
        ScatterDisplay.from_estimator(loaded)


def test_means_of_embeddings_are_refused_with_the_way_on(fitted):
    with pytest.raises(CapabilityError, match=r"embeddings have no meaning of their own: write ScatterDisplay"):
        ClusterMeansDisplay.from_estimator(fitted["directions"])
    wide = ClusterMeansDisplay.from_estimator(fitted["wide"])
    with pytest.raises(CapabilityError, match=r"90 columns without names.*write ScatterDisplay"):
        wide.plot()
    assert wide.plot(kind="heat").kind_ == "heat"


@pytest.mark.parametrize("kind", [Mixture, GroupedMixture])
def test_rows_of_two_columns_are_drawn_below_their_ellipses(kind):
    X = rows(2)
    about = {"groups": np.arange(90) % 5} if kind is GroupedMixture else {}
    model = kind("gaussian", 3, random_state=0).fit(X, **about)
    display = model.plot()
    assert display.kind_ == "ellipses"
    np.testing.assert_array_equal(np.asarray(display.names)[display.point_labels], model.labels_)
    np.testing.assert_array_equal(display.points, X)


def test_topics_without_rows_are_counted_in_tokens(fitted):
    pytest.importorskip("matplotlib")
    ax = SizesDisplay.from_estimator(fitted["topics"]).plot().ax_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("topic, largest first", "tokens")
    title = DendrogramDisplay.from_estimator(fitted["topics"]).plot().ax_.get_title(loc="left")
    assert title.endswith("tokens in 2 topics")


def test_the_displays_are_reached_from_the_package():
    assert expfam.displays.ScatterDisplay is ScatterDisplay
    assert {"displays", "samplers", "errors"} <= set(dir(expfam))


def test_chosen_clusters_are_shown_in_their_order(fitted):
    display = ClusterMeansDisplay.from_estimator(fitted["numbers"], clusters=[2, 0])
    assert display.names == [2, 0]
    np.testing.assert_allclose(display.means, fitted["numbers"].params_["mean"][[2, 0]])


@pytest.mark.parametrize("name", ["numbers", "groups", "table", "groups of a table"])
def test_rows_of_the_fit_are_scattered_without_giving_them(name, fitted):
    display = ScatterDisplay.from_estimator(fitted[name])
    np.testing.assert_array_equal(np.bincount(display.labels), fitted[name].cluster_sizes_)
    assert np.isfinite(display.points).all()


def test_pairs_show_the_telling_columns(fitted, tmp_path):
    pytest.importorskip("matplotlib")
    pairs = PairsDisplay.from_estimator(fitted["numbers"], n_max=3)
    assert pairs.names == ("0", "1", "2")
    assert pairs.values.shape == (90, 3)
    named = PairsDisplay.from_estimator(fitted["table"], columns=["town", "age"])
    assert named.names == ("town", "age")
    assert named.levels["town"] == ["bonn", "oslo", "rome"]
    axes = named.plot().axes_
    assert [tick.get_text() for tick in axes[1, 0].get_xticklabels()] == ["bonn", "oslo", "rome"]
    assert axes[1, 0].get_xlabel() == "town"
    given = PairsDisplay.from_estimator(fitted["tree"], rows(), columns=[5, 0])
    np.testing.assert_array_equal(given.values, rows()[:, [5, 0]])
    with pytest.raises(DataError, match="there is no column 'size'"):
        PairsDisplay.from_estimator(fitted["table"], columns=["size"])
    with pytest.raises(DataError, match="pairs of columns need values"):
        PairsDisplay(np.zeros((4, 2)), np.zeros(4), ["a"])


@pytest.mark.parametrize("name", PICTURES)
def test_a_summary_is_a_text_with_facts_and_a_frame(name, fitted):
    model = fitted[name]
    summary = model.summary()
    assert isinstance(summary, str)
    assert repr(summary) == str(summary)
    assert summary.splitlines()[0].startswith(f"{model.n_components_} {model.of_clusters}")
    assert summary.facts[f"n_{model.of_clusters}s"] == model.n_components_
    assert summary.facts["family"] == model.family_.name
    assert summary.facts["interrupted"] is False
    assert len(summary.to_frame()) == len(model.cluster_sizes_)
    assert pickle.loads(pickle.dumps(summary)) == copy.copy(summary) == str(summary)
    html = summary._repr_html_()
    assert "<table" in html
    assert f"<td style='text-align:left'>{model.family_.name}</td>" in html


def test_the_summary_has_the_interval_of_draws():
    mixture = Mixture("gaussian_diag", n_draws=20, random_state=0).fit(rows())
    low, high = mixture.summary().facts["n_clusters_interval"]
    assert low <= 3 <= high


def test_an_interrupted_run_is_said_to_be_so():
    def stop(info, state):
        raise KeyboardInterrupt

    mixture = Mixture("gaussian_diag", 3, n_steps=5, callbacks=[stop], random_state=0).fit(rows())
    assert "Ctrl-C ended the run early" in mixture.summary().splitlines()
    assert mixture.summary().facts["interrupted"]


@pytest.mark.parametrize("name", ["numbers", "topics", "groups"])
def test_the_steps_are_a_frame(name, fitted):
    trace = fitted[name].trace_
    frame = trace.to_frame()
    np.testing.assert_array_equal(frame["objective"], trace.column("objective"))
    assert len(frame) == len(trace)
    assert frame["is_warmup"].sum() == min(trace.n_warmup, len(trace))


def test_the_steps_of_a_loaded_model_are_a_frame_of_polars(fitted, tmp_path):
    polars = pytest.importorskip("polars")
    fitted["numbers"].save(tmp_path / "model")
    frame = Mixture.load(tmp_path / "model").trace_.to_frame(backend="polars")
    assert isinstance(frame, polars.DataFrame)
    assert frame["objective"].to_list() == fitted["numbers"].trace_.column("objective").tolist()
