"""What a mixture says about itself."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from expfam import Mixture
from expfam.fitted.summary import Summary, summary_text

X = np.random.default_rng(0).normal(size=(90, 2)) + 20 * np.repeat(np.eye(3, 2), 30, axis=0)


def lines(*args, **fitting):
    return Mixture(*args, random_state=0).fit(X, **fitting).summary().splitlines()


def test_an_open_number_of_clusters_names_the_way_to_fewer():
    assert lines() == [
        "3 clusters; coarsen() merges them",
        "90 rows: 30 in the largest cluster, 30 in the smallest",
        "family gaussian_diag: held-out rows do not clearly have less than under gaussian",
    ]


def test_a_given_number_does_not():
    assert lines("gaussian_diag", 3)[0] == "3 clusters"
    assert lines("gaussian_diag", 1) == ["1 cluster", "90 rows"]


def test_sizes_are_sums_of_weights_where_there_are_weights():
    mixture = Mixture("gaussian_diag", 3, sampler="em", random_state=0).fit(X, sample_weight=np.full(90, 1.5))
    assert mixture.summary().splitlines()[1] == "135 rows: 45 in the largest cluster, 45 in the smallest"


@pytest.mark.parametrize(
    ("sizes", "line"),
    [
        ([600_000, 400_000], "1,000,000 rows: 600,000 in the largest cluster, 400,000 in the smallest"),
        ([12_345_678], "12,345,678 rows"),
        ([6951.48, 5146.8], "12,098 rows: 6,951 in the largest cluster, 5,147 in the smallest"),
        ([2.5, 2.0], "4.5 rows: 2.5 in the largest cluster, 2 in the smallest"),
        ([], "0 rows"),
    ],
)
def test_rows_are_written_out(sizes, line):
    assert summary_text(np.array(sizes)).splitlines()[1] == line


def test_numbers_of_the_table_are_written_out():
    summary = Summary("", {"log_joint": -6_992_870.6, "score": -14.5, "n_clusters": (4, 1_000_000)}, list)
    assert all(f">{text}<" in summary._repr_html_() for text in ("-6,992,871", "-14.5", "4 to 1,000,000"))


def test_a_loaded_model_has_one_too(tmp_path):
    mixture = Mixture(random_state=0).fit(X)
    mixture.save(tmp_path / "model")
    assert Mixture.load(tmp_path / "model").summary() == mixture.summary()


def test_it_needs_a_fit():
    with pytest.raises(NotFittedError):
        Mixture().summary()
