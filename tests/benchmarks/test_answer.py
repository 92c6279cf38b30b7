"""The table of dominance finds fits that are below a simple partition, and says so in its exit status."""

import copy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dominance import SPREADS, WatchedMixture, dataset_of, judge, judged_rows, tolerance
from planted import planted
from simple_partitions import by_first_row, coordinates, simple_partitions
from vector_shapes import with_binary

from expfam import Dataset, Mixture, Multinomial

HERE = Path(__file__).resolve().parents[2] / "asv_bench" / "protocols"
sys.path.insert(0, str(HERE))
import answer  # noqa: E402
import answer_drawn  # noqa: E402
import answer_search  # noqa: E402
from answer_shapes import Shape, shapes  # noqa: E402

SECONDS = ("s", "km s", "GMM s")


def three_groups(seed=0, n=120):
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 3
    return 20.0 * np.eye(3)[z] + rng.normal(size=(n, 3)), z


EASY = Shape("easy", three_groups, ("gaussian_diag",), 120, 3)


@pytest.fixture
def run(monkeypatch):
    def made(*arguments, shapes=(EASY,)):
        for module in (answer, answer_search):
            monkeypatch.setattr(module, "shapes", lambda: list(shapes))
        return answer.main(["search", *arguments])

    return made


# ---- judgement -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [None, 3])
def test_a_fit_at_the_truth_is_below_nothing(K):
    X, z = three_groups()
    judgement = judge(Mixture("gaussian_diag", K, random_state=0).fit(X), X, truth=z)
    assert judgement.below == 0.0
    assert judgement.own < 10.0  # the fit has learned hyper-parameters too; each is one draw of them


@pytest.mark.parametrize("K", [None, 3])
def test_a_fit_that_missed_the_groups_is_below_them(K):
    X, z = three_groups()
    mixture = Mixture("gaussian_diag", K, random_state=0).fit(X)
    mixture.labels_ = (np.arange(120) // 40).astype(np.int32)
    gap = mixture.model_.log_joint(X, z) - mixture.model_.log_joint(X, mixture.labels_)
    judgement = judge(mixture, X, truth=z)
    assert judgement.best == "k-means 3 raw"
    assert judgement.below == pytest.approx(gap)
    assert judgement.own >= gap - 1.0


@pytest.mark.parametrize("K", [None, 3])
def test_a_fit_of_repeated_values_that_missed_the_groups_is_below_them(K):
    """The rows as they are prefer the values of a column of 0 and 1 to the groups beside it."""
    X, z = with_binary(600)(0)
    mixture = Mixture("gaussian_diag", K, random_state=0).fit(X)
    assert judge(mixture, X, truth=z).below <= tolerance(600)
    of_values = 2 * X[:, 3].astype(np.int32) + (X[:, 0] > 1.5) if K is None else np.minimum(2 * X[:, 3] + z // 2, 2)
    mixture.labels_ = by_first_row(of_values).astype(np.int32)
    assert mixture.model_.log_joint(X, mixture.labels_) > mixture.model_.log_joint(X, z)
    judgement = judge(mixture, X, truth=z)
    assert judgement.below > 100.0
    assert judgement.own > 50.0
    mixture.labels_ = np.where(np.arange(600) % 20 == 0, (z + 1) % 3, z).astype(np.int32)  # the labels are not moved
    assert judge(mixture, X, truth=z).below > 50.0


def test_rows_are_judged_as_the_fit_has_seen_them():
    X = three_groups()[0]
    for rows, sampler, n_judged, are_spread in (
        (X, "auto", 1, False),
        (X.round(), "auto", SPREADS, True),
        (X.round(), "gibbs", 1, False),
        (np.repeat(np.eye(3), 40, axis=0), "auto", 1, False),
    ):
        mixture = Mixture("gaussian_diag", 3, sampler=sampler, n_steps=5, random_state=0).fit(rows)
        found = judged_rows(mixture, dataset_of(mixture, rows))
        assert (len(found.judged), found.are_spread) == (n_judged, are_spread)
        assert not any(np.array_equal(each.X, found.seen.X) for each in found.judged if are_spread)


def test_the_model_of_the_fit_is_the_judge():
    X, z = planted("poisson")[1:]
    mixture = WatchedMixture("poisson", random_state=0).fit(X)
    data = dataset_of(mixture, X)
    assert mixture.model_.log_joint(data, mixture.labels_) == pytest.approx(mixture.log_joint_)
    assert {*mixture.passed_} == {"start", "best draw"}
    assert all(len(labels) == len(z) for labels in mixture.passed_.values())
    assert mixture.callbacks is None


def test_a_watched_fit_has_the_same_labels():
    X = three_groups()[0]
    watched, plain = (kind("gaussian_diag", random_state=0).fit(X) for kind in (WatchedMixture, Mixture))
    np.testing.assert_array_equal(watched.labels_, plain.labels_)


def test_a_frame_is_judged_by_its_roles():
    X, z = three_groups()
    df = pd.DataFrame(X, columns=list("abc")).assign(level=np.array(["u", "v", "w"])[z])
    df.loc[3, "a"] = np.nan
    mixture = Mixture(random_state=0).fit(df)
    assert judge(mixture, df, truth=z).below <= tolerance(120)
    mixture = copy.copy(mixture)
    mixture.labels_ = np.zeros(120, dtype=np.int32)
    judgement = judge(mixture, df, truth=z)
    assert judgement.below > 100.0
    names = [name for name, _ in simple_partitions(dataset_of(mixture, df), [3], seed=0)]
    assert {"one cluster", "k-means 3 codes"} <= {*names}
    assert judgement.best in names


# ---- simple partitions -----------------------------------------------------------------------------------------------


def test_metrics_of_counts_are_those_of_rows_logs_and_roots():
    X = np.array([[4, 0], [1, 0], [0, 9]])
    found = coordinates(Dataset(X, Multinomial()))
    np.testing.assert_allclose(found["log1p"].toarray(), np.log1p(X))
    mean = X.sum() / 3
    np.testing.assert_allclose(found["roots"].toarray(), np.sqrt([[mean, 0], [mean, 0], [0, mean]]))


def test_whitened_columns_have_no_covariance():
    X = three_groups()[0] @ np.array([[1.0, 5.0, 0.0], [0.0, 1.0, 1e-3], [0.0, 0.0, 2.0]])
    Z = coordinates(Dataset(X, Mixture("gaussian")._family()))["whitened"]
    np.testing.assert_allclose(np.cov(Z.T, ddof=0), np.eye(3), atol=1e-8)


def test_no_partition_comes_twice():
    X, z = three_groups()
    found = simple_partitions(Dataset(X, Mixture("gaussian_diag")._family()), [3, 3], seed=0)
    assert [name for name, _ in found] == ["one cluster", "k-means 3 raw"]  # every metric finds the same groups
    np.testing.assert_array_equal(by_first_row(found[1][1]), z)


# ---- the table -------------------------------------------------------------------------------------------------------


def test_an_easy_shape_passes(run, capsys, tmp_path):
    assert run("--seeds", "2", "--markdown", str(tmp_path / "table.md")) == 0
    assert "2 of 2 rows are not below a simple partition" in capsys.readouterr().out
    text = (tmp_path / "table.md").read_text()
    assert text.count("\n") == 4
    assert "| easy gaussian_diag K open | 0 |" in text


def test_a_fit_that_is_below_fails(run, capsys, monkeypatch):
    def spoiled(mixture, X, **options):
        mixture.labels_ = np.arange(len(X), dtype=np.int32) % 2 * (mixture.labels_ > 0)
        return judge(mixture, X, **options)

    monkeypatch.setattr(answer_search, "judge", spoiled)
    assert run("--quick") == 1
    assert "below: easy gaussian_diag K open; easy gaussian_diag K given" in capsys.readouterr().out


def test_a_call_that_raises_fails(run, capsys):
    def no_data(seed):
        raise OSError("gone")

    assert run(shapes=[EASY, EASY._replace(name="broken", make=no_data)]) == 1
    out = capsys.readouterr().out
    assert "OSError" in out
    assert "2 of 4 rows are not below" in out


def test_a_figure_that_is_no_number_fails():
    row = answer_search.Row("easy", "gaussian_diag", False, 2)
    figures = {"own": 0.0, "best": "truth", "s": 1.0, "ARI": 1.0, "clusters": 3, "done": True}
    figures |= {"km ARI": 1.0, "km s": 1.0, "GMM ARI": None, "GMM s": None}
    line = answer_search.summed_up(row, EASY, [figures | {"below": 0.0}, figures | {"below": np.nan}])
    assert line["reached"] == "NO"
    assert line["GMM ARI"] == "-"
    assert answer_search.summed_up(row, EASY, [figures | {"below": 2.0}] * 2)["reached"] == "yes"
    assert answer_search.summed_up(row, EASY, [figures | {"below": 2.1}] * 2)["reached"] == "NO"
    assert answer_search.summed_up(row, EASY, [])["reached"] == "NO"


def test_the_table_does_not_depend_on_the_number_of_processes():
    name = "blob-500x1"
    rows = list(answer_search.rows_of([shape for shape in shapes() if shape.name == name], 1))
    tables = [
        [{key: cell for key, cell in line.items() if key not in SECONDS} for line in answer_search.lines(rows, jobs)]
        for jobs in (1, 2)
    ]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 6


def test_shapes_are_chosen_by_name_and_size(run):
    big = EASY._replace(name="big", n_rows=10**6)
    with pytest.raises(SystemExit, match="--shape blog: no such shape; there are easy big"):
        run("--shape", "blog", shapes=[EASY, big])
    with pytest.raises(SystemExit, match="no shape is left"):
        run("--quick", "--shape", "big", shapes=[EASY, big])
    assert run("--rows-limit", "1000", shapes=[EASY, big]) == 0
    with pytest.raises(SystemExit):
        run("--seeds", "0")


def test_every_shape_has_the_rows_that_it_says():
    every = shapes()
    assert len({shape.name for shape in every}) == len(every)
    for shape in every:
        if shape.is_small:
            X, z = shape.make(0)
            again = shape.make(0)[0]
            assert len(z) == shape.n_rows == X.shape[0], shape.name
            assert X.equals(again) if isinstance(X, pd.DataFrame) else np.array_equal(X, again), shape.name
            assert 1 <= shape.given <= shape.n_rows


# ---- groups that are drawn by lot ------------------------------------------------------------------------------------

SMALL = 129  # seed of a set of 400 rows in 3 columns, 5 groups


def test_drawn_groups_are_found(capsys):
    assert answer.main(["drawn", "--sets", "1", "--first", str(SMALL)]) == 0
    out = capsys.readouterr().out
    assert "nested" in out
    assert "not found" not in out


def test_drawn_groups_that_a_fit_joins_are_missed(monkeypatch, capsys):
    class Joining(Mixture):
        def fit(self, X):
            super().fit(X)
            self.labels_ = np.zeros_like(self.labels_)
            return self

    monkeypatch.setattr(answer_drawn, "Mixture", Joining)
    assert answer.main(["drawn", "--sets", "1", "--first", str(SMALL)]) == 1
    assert f"not found: {SMALL}: nested" in capsys.readouterr().out


def test_drawn_sets_have_groups_that_their_densities_tell():
    sets = [one for one in map(answer_drawn.drawn_set, range(40)) if one is not None]
    assert len({one.kind for one in sets}) >= 6
    for one in sets:
        assert one.oracle >= answer_drawn.TOLD
        assert np.bincount(one.truth).min() >= answer_drawn.FEWEST_ROWS
    assert answer.main(["drawn", "--sets", "1", "--first", "0"]) == 1  # the first set is left out: nothing was judged
