"""Readings of a posterior of partitions, against N x N arrays; bad input; files; ArviZ."""

import builtins
import json
import sys

import matplotlib as mpl
import numpy as np
import posterior_slow as slow
import pytest
from arviz_groups import groups_of, skip_without_arviz, whole_arviz
from scipy.special import betaln

from expfam import Family, PartitionPosterior, Poisson, variation_of_information
from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.evaluation import posterior as module

N, M = 40, 25


@pytest.fixture(scope="module")
def draws():
    rng = np.random.default_rng(0)
    own = rng.integers(5, size=N)
    own[0] = 7  # often alone
    moved = rng.random((M, N)) < 0.2
    return np.where(moved, rng.integers(6, size=(M, N)), own)


@pytest.fixture(scope="module")
def posterior(draws):
    return PartitionPosterior(draws)


@pytest.fixture(params=["point", "other", "singletons", "one"])
def about(request, posterior):
    """A posterior about some partition, and that partition."""
    labels = {
        "point": posterior.point,
        "other": slow_first(np.random.default_rng(1).integers(4, size=N)),
        "singletons": np.arange(N),
        "one": np.zeros(N, dtype=int),
    }[request.param]
    return posterior.about(labels), labels


def slow_first(labels):
    """Numbers of labels by first appearance."""
    names = list(dict.fromkeys(labels.tolist()))
    return np.array([names.index(label) for label in labels.tolist()])


# ---- readings, by brute force ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "split_cost"), [("vi", 1.0), ("vi", 2.0), ("binder", 0.5), ("omari", 1.0)])
def test_expected_losses(about, draws, loss, split_cost):
    posterior, labels = about
    found = posterior.expected_loss(labels, loss, split_cost=split_cost)
    assert found == pytest.approx(slow.expected_loss(labels, draws, loss, split_cost), abs=1e-12)


def test_distances(posterior, draws):
    c = posterior.point
    np.testing.assert_allclose(posterior.distances(c), [slow.vi(c, z) for z in draws], atol=1e-12)
    np.testing.assert_allclose(posterior.distances(c), [variation_of_information(c, z) for z in draws], atol=1e-12)
    binder = [slow.weighted_binder(c, z, 1.0) for z in draws]
    np.testing.assert_allclose(posterior.distances(c, "binder"), binder, atol=1e-12)
    np.testing.assert_allclose(posterior.distances(c, "omari"), [slow.omari(c, [z]) for z in draws], atol=1e-12)


def test_certainty_and_the_second_cluster(about, draws):
    posterior, labels = about
    np.testing.assert_allclose(posterior.certainty, slow.certainty(labels, draws), atol=1e-6)
    others = slow.mean_with(labels, draws)
    others[np.arange(N), labels] = 0.0
    np.testing.assert_allclose(posterior.second_certainty, others.max(axis=1), atol=1e-6)
    assert (posterior.second[others.max(axis=1) == 0] == -1).all()
    known = posterior.second >= 0
    np.testing.assert_allclose(others[known, posterior.second[known]], others.max(axis=1)[known], atol=1e-6)
    assert (posterior.second != labels).all()


def test_between(about, draws):
    posterior, labels = about
    np.testing.assert_allclose(posterior.between, slow.between(labels, draws), atol=1e-12)


@pytest.mark.parametrize("probability", [0.01, 0.5, 0.9, 1.0])
def test_ball(about, draws, probability):
    posterior, labels = about
    ball = posterior.ball(probability)
    radius, *parts = slow.ball(labels, draws, probability, slow.vi)
    assert ball.radius == pytest.approx(radius, abs=1e-12)
    assert np.mean(posterior.distances(labels) <= ball.radius * (1 + 1e-9)) >= probability
    for found, m in zip((ball.horizontal, ball.upper, ball.lower), parts):
        d, K = slow.vi(labels, found), len(set(found.tolist()))
        assert d == pytest.approx(slow.vi(labels, draws[m]), abs=1e-12)
        assert len(set(draws[m].tolist())) == K
        assert any(variation_of_information(found, z) < 1e-12 for z in draws)


def test_together(posterior, draws):
    pairs = np.random.default_rng(2).integers(N, size=(30, 2))
    np.testing.assert_allclose(posterior.together(pairs), slow.similarity(draws)[pairs[:, 0], pairs[:, 1]])
    assert posterior.together(np.empty((0, 2), dtype=int)).shape == (0,)


def test_numbers_and_sizes_of_clusters(posterior, draws):
    K = np.array([len(set(z.tolist())) for z in draws])
    np.testing.assert_array_equal(posterior.n_clusters, K)
    assert posterior.n_clusters_probability == {int(k): (k == K).mean() for k in sorted(set(K.tolist()))}
    low, high = posterior.n_clusters_interval(0.8)
    assert ((low <= K) & (high >= K)).mean() >= 0.8
    sizes = np.zeros((M, K.max()), dtype=int)
    for row, z in zip(sizes, draws):
        counts = sorted(np.unique(z, return_counts=True)[1], reverse=True)
        row[: len(counts)] = counts
    intervals = posterior.sizes_interval(1.0)
    np.testing.assert_array_equal(intervals, np.stack([sizes.min(axis=0), sizes.max(axis=0)], axis=1))


def test_sizes_around(about, draws):
    posterior, labels = about
    around = np.array([slow.same(z).sum(axis=1) for z in draws])  # rows with each row
    means = np.array([[row[labels == k].mean() for k in range(labels.max() + 1)] for row in around])
    found = posterior.sizes_around(0.8)
    np.testing.assert_allclose(found.mean, means.mean(axis=0))
    np.testing.assert_allclose(found.low, np.quantile(means, 0.1, axis=0))
    np.testing.assert_allclose(found.high, np.quantile(means, 0.9, axis=0))


def test_the_searched_partition_is_not_worse_than_any_draw(posterior):
    for loss in ("vi", "binder", "omari"):
        best = posterior.expected_loss(posterior.labels(loss), loss)
        assert all(best <= posterior.expected_loss(z, loss) + 1e-12 for z in posterior.draws())
    fewer = posterior.labels(split_cost=4.0).max()
    assert fewer <= posterior.labels(split_cost=0.25).max()
    assert posterior.labels(max_clusters=2).max() <= 1


def test_clusters_keep_their_numbers(posterior, draws):
    labels = 3 - posterior.labels(max_clusters=4) if posterior.labels(max_clusters=4).max() == 3 else None
    assert labels is not None
    other = posterior.about(labels)
    np.testing.assert_array_equal(other.point, labels)
    np.testing.assert_allclose(other.between, slow.between(labels, draws), atol=1e-12)
    named = posterior.about(np.array(list("dcba"))[labels])
    np.testing.assert_array_equal(named.point, slow_first(labels))


def test_results_are_copies(posterior):
    first = posterior.labels()
    posterior.labels()[:] = 9
    posterior.draws()[:] = 9
    np.testing.assert_array_equal(posterior.labels(), first)


# ---- parameters ------------------------------------------------------------------------------------------------------


def test_parameters_of_one_known_cluster_are_those_of_its_posterior():
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, size=(30, 2)).astype(float)
    family = Poisson(shape=2.0, rate=1.0).bind(X)
    posterior = PartitionPosterior(np.zeros((4000, 30), dtype=int), family=family)
    found = posterior.parameters(X, probability=0.8)["rate"]
    assert found.mean.shape == (1, 2)
    drawn = rng.gamma(2.0 + X.sum(axis=0), 1.0 / 31.0, size=(200_000, 2))
    np.testing.assert_allclose(found.mean[0], drawn.mean(axis=0), rtol=0.01)
    np.testing.assert_allclose(found.low[0], np.quantile(drawn, 0.1, axis=0), rtol=0.02)
    np.testing.assert_allclose(found.high[0], np.quantile(drawn, 0.9, axis=0), rtol=0.02)


def test_parameters_are_means_over_the_rows_of_a_cluster(monkeypatch):
    X = np.repeat([[0.0], [40.0]], 20, axis=0)
    family = Poisson(shape=1.0, rate=1.0).bind(X)
    apart, whole = np.repeat([0, 1], 20), np.zeros(40, dtype=int)
    posterior = PartitionPosterior([apart] * 40 + [whole] * 40, family=family).about(whole)
    rates = posterior.parameters(X)["rate"]
    assert rates.mean[0, 0] == pytest.approx(20.0, rel=0.05)  # the mean over the rows, whether they are apart or not
    halves = posterior.about(apart).parameters(X)["rate"]
    assert halves.low[0, 0] < 1.0 < 15.0 < halves.high[0, 0]  # wide, as the halves are together in half of the draws
    monkeypatch.setattr(module, "_PARAMETER_BYTES", 1)  # one cluster at a time
    again = posterior.about(apart).parameters(X)["rate"]
    for one, other in zip(halves, again):
        np.testing.assert_array_equal(one, other)


def test_parameters_want_the_rows_and_a_family(posterior):
    X = np.ones((N, 2))
    with pytest.raises(ValueError, match="needs the family of the data, bound: write"):
        posterior.parameters(X)
    family = Poisson().bind(X)
    for wrong in (X[:-1], X[:, :1], X[0]):
        with pytest.raises(DataError, match=r"X has shape .*40 rows .* 2 columns"):
            posterior.parameters(wrong, family=family)
    with pytest.raises(ValueError, match="probability"):
        posterior.parameters(X, family=family, probability=0)


class Plain(Family):
    """Coins, without draws of parameters."""

    name = "plain"

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        return betaln(1.0 + S, 1.0 + n[:, None] - S).sum(axis=1)


def test_a_family_without_draws_of_parameters_is_refused(posterior):
    X = np.ones((N, 2))
    with pytest.raises(CapabilityError, match="parameters needs draw_natural"):
        posterior.parameters(X, family=Plain().bind(X))


class Drawing(Plain):
    """Coins whose natural parameters can be drawn, but have no usual names."""

    name = "drawing"

    def draw_natural(self, n, S, rng):
        p = rng.beta(1.0 + S, 1.0 + n[:, None] - S)
        return np.log(p / (1 - p)), -np.log1p(-p).sum(axis=1)


def test_a_family_that_names_no_parameters_has_its_natural_ones(posterior):
    X = np.ones((N, 2))
    found = posterior.parameters(X, family=Drawing().bind(X))
    assert list(found) == ["natural"]
    assert found["natural"].low.shape == (posterior.point.max() + 1, 2)


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ([0, 1, 1], r"shape \(M, N\).*\(3,\)"),
        (np.zeros((0, 3), dtype=int), "at least one draw"),
        (np.zeros((3, 0), dtype=int), "and one row"),
        ([[0, 1], [0, -2]], "got -2 in draw 1 of row 1"),
        ([[0.0, 1.5]], "float64.*astype"),
        ([[0, 1], [0]], "matrix"),
        ([["a", "b"]], "non-negative integers; got <U1"),
    ],
)
def test_draws_that_are_none_are_refused(draws, message):
    with pytest.raises(DataError, match=message):
        PartitionPosterior(draws)


def test_other_bad_input(posterior):
    with pytest.raises(DataError, match="chain must be 2 non-negative"):
        PartitionPosterior([[0], [0]], chain=[0])
    with pytest.raises(DataError, match="log_joint must have shape"):
        PartitionPosterior([[0], [0]], log_joint=[0.0])
    with pytest.raises(ValueError, match=r"loss must be one of .* got 'rand'"):
        posterior.labels("rand")
    with pytest.raises(ValueError, match="split_cost must be a positive"):
        posterior.labels(split_cost=0)
    with pytest.raises(ValueError, match="split_cost must be 1 for loss='omari'"):
        posterior.expected_loss(posterior.point, "omari", split_cost=2)
    for name, value in (("n_starts", 0), ("n_starts", 2.5), ("max_clusters", 0)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            posterior.labels(**{name: value})
    for probability in (0, 1.5, -1, "high"):
        for read in (posterior.ball, posterior.n_clusters_interval, posterior.sizes_interval):
            with pytest.raises(ValueError, match="probability must be"):
                read(probability)
    with pytest.raises(DataError, match=r"labels must have shape \(40,\).*\(3,\)"):
        posterior.about([0, 1, 2])
    with pytest.raises(ValueError, match=r"shape \(P, 2\)"):
        posterior.together([0, 1])
    with pytest.raises(ValueError, match="rows from 0 to 39"):
        posterior.together([[0, 40]])
    with pytest.raises(ValueError, match="there is no chain 3"):
        posterior.draws(chain=3)


def test_one_draw_has_no_spread():
    posterior = PartitionPosterior([[0, 0, 1]])
    assert posterior.labels().tolist() == [0, 0, 1]
    for read in ("ball", "sizes_around", "summary"):
        with pytest.raises(ValueError, match="one draw has no spread"):
            getattr(posterior, read)()
    for read in ("certainty", "second", "between"):
        with pytest.raises(ValueError, match="one draw has no spread"):
            getattr(posterior, read)


# ---- other forms -----------------------------------------------------------------------------------------------------


def test_chains():
    posterior = PartitionPosterior([[0, 0], [0, 1], [1, 1]], chain=[0, 4, 0])
    assert posterior.draws(chain=4).tolist() == [[0, 1]]
    assert posterior.draws(chain=0).tolist() == [[0, 0], [0, 0]]
    assert posterior.draws().dtype == np.uint8
    assert "3 draws of 2 rows, 1 to 2 clusters" in repr(posterior)


def test_summary_with_pandas_and_without(posterior, monkeypatch):
    table = posterior.summary()
    K = posterior.point.max() + 1
    assert list(table.index) == list(range(K))
    np.testing.assert_array_equal(table["size"], np.bincount(posterior.point))
    np.testing.assert_array_equal(table["cohesion"], np.diag(posterior.between))
    assert table["in_doubt"].sum() == (posterior.certainty < 0.5).sum()
    real = builtins.__import__

    def without_pandas(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    text = posterior.summary()
    assert text.split("\n")[0].split() == ["cluster", *table.columns]
    assert len(text.split("\n")) == K + 1
    assert PartitionPosterior([[0, 0], [0, 0]]).summary().split("\n")[1].split()[:2] == ["0", "2"]


def test_save_and_load(posterior, draws, tmp_path):
    chain = np.arange(M) % 2
    stats = {"seconds": np.linspace(0, 1, M)}
    one = PartitionPosterior(draws, chain=chain, log_joint=np.arange(M) - 5.0, sample_stats=stats)
    one.save(tmp_path / "p")
    two = PartitionPosterior.load(tmp_path / "p")
    np.testing.assert_array_equal(one.draws(), two.draws())
    assert two.draws().dtype == np.uint8
    np.testing.assert_array_equal(two.chain, chain)
    np.testing.assert_array_equal(two.log_joint, one.log_joint)
    np.testing.assert_array_equal(two.sample_stats["seconds"], stats["seconds"])
    posterior.save(tmp_path / "p")
    assert PartitionPosterior.load(tmp_path / "p").log_joint is None
    header = json.loads((tmp_path / "p" / "header.json").read_text())
    (tmp_path / "p" / "header.json").write_text(json.dumps({**header, "kind": "mixture"}))
    with pytest.raises(ArchiveError):
        PartitionPosterior.load(tmp_path / "p")


def test_to_arviz(draws):
    skip_without_arviz()
    chain = np.repeat([0, 1], [12, 13])
    posterior = PartitionPosterior(draws, chain=chain, log_joint=np.arange(25.0), sample_stats={"seconds": np.ones(M)})
    tree = posterior.to_arviz(pairs=[[0, 1], [5, 3]], labels=True, X=np.ones((N, 2)))
    assert dict(tree["posterior"].sizes) == {"chain": 2, "draw": 12, "pair": 2, "row": N}
    np.testing.assert_array_equal(tree["posterior"]["n_clusters"].values.ravel(), posterior.n_clusters[:24])
    together = tree["posterior"]["together"].values.reshape(24, 2)
    np.testing.assert_array_equal(together[:, 1], draws[:24, 5] == draws[:24, 3])
    assert tree["posterior"]["labels"].dtype == np.uint8
    assert tree["posterior"]["pair"].values.tolist() == ["0,1", "5,3"]
    np.testing.assert_array_equal(tree["sample_stats"]["lp"].values, np.arange(24.0).reshape(2, 12))
    assert set(tree["sample_stats"].data_vars) == {"lp", "seconds"}
    assert tree["observed_data"]["X"].shape == (N, 2)
    assert tree["posterior"].attrs["inference_library"] == "expfam"
    shares = np.unique(draws[3], return_counts=True)[1] / N
    assert tree["posterior"]["largest_share"].values[0, 3] == shares.max()
    assert tree["posterior"]["entropy"].values[0, 3] == pytest.approx(-(shares * np.log(shares)).sum())
    drawn = posterior.to_arviz(pairs=6)["posterior"]["pair"].values.tolist()
    assert len(drawn) == 6
    assert all(i != j for i, j in (pair.split(",") for pair in drawn))
    with pytest.raises(ValueError, match="pairs must be"):
        posterior.to_arviz(pairs=-1)
    with pytest.raises(DataError, match="40 rows"):
        posterior.to_arviz(X=np.ones((3, 2)))


@pytest.mark.filterwarnings("ignore")  # of ArviZ, beside new versions of matplotlib and NumPy
def test_arviz_summarises_and_draws_what_it_is_given(draws):
    az = whole_arviz()
    mpl.use("Agg")
    chain = np.repeat([0, 1], [12, 13])
    tree = PartitionPosterior(draws, chain=chain, log_joint=np.arange(25.0)).to_arviz(pairs=[[0, 1], [5, 3]])
    table = az.summary(tree, var_names=["n_clusters", "together"])
    assert list(table.index) == ["n_clusters", "together[0,1]", "together[5,3]"]
    assert float(table["mean"].iloc[0]) == pytest.approx(tree["posterior"]["n_clusters"].values.mean(), abs=0.1)
    found = az.rhat(tree)
    found = found if "n_clusters" in found else found["posterior"]
    assert np.isfinite(float(found["n_clusters"]))
    plot = az.plot_trace if hasattr(az, "plot_trace") else az.plot_trace_dist
    plot(tree, var_names=["n_clusters"])


def test_old_versions_of_arviz_get_inference_data(draws):
    az = whole_arviz()
    tree = PartitionPosterior(draws).to_arviz(X=np.ones((N, 2)))
    is_old = int(az.__version__.partition(".")[0]) < 1
    assert type(tree).__name__ == ("InferenceData" if is_old else "DataTree")
    assert groups_of(tree) == {"posterior", "observed_data"}


def test_to_arviz_without_it_names_the_extra(posterior, monkeypatch):
    monkeypatch.setattr("expfam.evaluation.arviz._reads_no_trees", lambda: False)
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match=r'pip install "expfam\[arviz\]"'):
        posterior.to_arviz()
