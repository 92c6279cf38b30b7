"""The goals of topics of unknown number: which means over seeds they compare, and the exit status."""

import pytest
from protocol_modules import imported


@pytest.fixture(scope="module")
def hdp():
    with imported("hdp", "hdp_rivals") as module:
        yield module


def table(hdp, name="news", **changes):
    """Rows of two seeds; `changes` are means, draws and seconds by label."""
    figures = {
        hdp.UNKNOWN: (-6.9, -6.4, 5.0),
        hdp.AS_MANY: (-6.6, "", 4.0),
        hdp.SHORT: (-6.9, -6.7, 1.0),
        "K=50, eta auto": (-6.5, -6.3, 2.0),
        "K=5, eta 0.01": (-7.0, -6.9, 1.0),
        "tomotopy": (-6.8, "", 9.0),
        "tomotopy, initial_k=100": (-6.75, "", 6.0),
        "gensim": (-6.0, "", 0.1),
    } | {getattr(hdp, label, label): values for label, values in changes.items()}
    rows = []
    for seed, shift in ((0, -0.2), (1, 0.2)):
        for label, (means, draws, seconds) in figures.items():
            scores = (means + shift, draws if draws == "" else draws + shift)
            rows.append(hdp.row_of(name, label, seed, *scores, 9, 8, seconds))
    return rows


def test_means_over_seeds_are_compared_with_the_best_of_each_kind(hdp):
    goals = hdp.goals_of_quality(table(hdp))
    assert [row["reached"] for row in goals] == ["yes"] * 4
    assert [row["of"] for row in goals][::2] == ["means of K=50, eta auto", "tomotopy, initial_k=100"]
    assert [row["ours"] for row in goals] == pytest.approx([-6.4, 5.0, -6.7, 1.0])
    assert [row["bound"] for row in goals] == pytest.approx([-6.5, 5.2, -6.75, 1.2])


@pytest.mark.parametrize(
    ("label", "values", "missed"),
    [
        ("UNKNOWN", (-6.0, -6.51, 5.0), 0),
        ("UNKNOWN", (-6.0, -6.4, 5.3), 1),
        ("SHORT", (-6.0, -6.76, 1.0), 2),
        ("SHORT", (-6.9, -6.7, 1.3), 3),
    ],
)
def test_a_goal_that_is_missed_is_shown_and_sets_the_exit_status(hdp, capsys, label, values, missed):
    rows = table(hdp, "good") + table(hdp, "news", **{label: values})
    reached = [row["reached"] for row in hdp.goals_of_quality(rows[len(rows) // 2 :])]
    assert reached.index("NO") == missed
    assert reached.count("NO") == 1
    assert hdp.has_missed("quality", rows)
    assert capsys.readouterr().out.count("NO") == 1
    assert not hdp.has_missed("quality", table(hdp))
    assert not hdp.has_missed("kernels", [{}])


def test_no_rivals_leave_their_goals_out(hdp):
    rows = [row for row in table(hdp) if not row["model"].startswith("tomotopy")]
    assert len(hdp.goals_of_quality(rows)) == 2


def test_generated_numbers_may_be_off_by_one(hdp):
    assert not hdp.has_missed("generated", [{"large": 6, "true": 5}])
    assert hdp.has_missed("generated", [{"large": 6, "true": 5}, {"large": 7, "true": 5}])
