"""Groups as users give them: names, a column of a frame, and by place; kept in results, files and chunks."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from expfam import Dataset, GroupedMixture, Groups
from expfam.errors import ArchiveError, DataError
from expfam.io.saved_values import check_grouped

RNG = np.random.default_rng(0)
N = 90
NUMBER = RNG.integers(0, 3, N)
SHARES = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
KIND = (RNG.random(N) < SHARES[NUMBER, 1]).astype(int)
X = np.array([[0.0, 0.0], [9.0, 9.0]])[KIND] + RNG.normal(size=(N, 2))
NAMES = np.array(["ann", "bob", "cat"])
QUICK = {"n_components": 2, "random_state": 0, "n_steps": 8, "n_warmup": 4}
VARIATIONAL = {"n_components": 2, "random_state": 0, "sampler": "variational"}
DATES = [datetime.date(2020, 1, day) for day in (1, 2, 3)]


def fitted(groups, **settings):
    return GroupedMixture("gaussian_diag", **QUICK | settings).fit(X, groups=groups)


GIVEN = {
    "text": (NAMES[NUMBER], NAMES.tolist()),
    "a list": (NAMES[NUMBER].tolist(), NAMES.tolist()),
    "tuples": ([("home", name) for name in NAMES[NUMBER].tolist()], [("home", name) for name in NAMES.tolist()]),
    "dates": ([DATES[k] for k in NUMBER], DATES),
    "a series of pandas": (pd.Series(NAMES[NUMBER], index=np.arange(N) + 7), NAMES.tolist()),
    "categories": (pd.Series(NAMES[NUMBER], dtype="category"), NAMES.tolist()),
    "Polars": (pl.Series(NAMES[NUMBER].tolist()), NAMES.tolist()),
    "floats": (NUMBER + 0.5, [0.5, 1.5, 2.5]),
    "truth values": (NUMBER > 0, [False, True]),
}


@pytest.mark.parametrize(("groups", "names"), GIVEN.values(), ids=GIVEN)
def test_names_are_kept(groups, names):
    mixture = fitted(groups)
    numbers = fitted(np.minimum(NUMBER, len(names) - 1))
    assert mixture.group_names_.tolist() == names
    np.testing.assert_array_equal(mixture.labels_, numbers.labels_)
    np.testing.assert_array_equal(mixture.group_weights_, numbers.group_weights_)
    assert not hasattr(numbers, "group_names_")
    np.testing.assert_array_equal(
        mixture.transform(X, groups), numbers.transform(X, np.minimum(NUMBER, len(names) - 1))
    )


def test_names_of_several_types_are_numbered_by_first_appearance():
    groups = Groups.of_names(["b", 3, ("a", 1), 3])
    assert groups.names.tolist() == ["b", 3, ("a", 1)]
    assert groups.of_row.tolist() == [0, 1, 2, 1]
    assert Dataset(X[:4], fitted(NUMBER).family_, groups=["b", "a", "b", "a"]).groups.n_groups == 2


FRAMES = {
    "pandas": pd.DataFrame({"u": X[:, 0], "who": NAMES[NUMBER], "v": X[:, 1]}),
    "Polars": pl.DataFrame({"u": X[:, 0], "who": NAMES[NUMBER].tolist(), "v": X[:, 1]}),
    "Arrow": pa.table({"u": X[:, 0], "who": NAMES[NUMBER].tolist(), "v": X[:, 1]}),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("family", ["gaussian_diag", "auto"])
def test_a_column_of_the_frame_is_groups_and_no_data(frame, family):
    expected = fitted(NUMBER)
    mixture = GroupedMixture(family, **QUICK).fit(frame, groups="who")
    assert mixture.feature_names_in_.tolist() == ["u", "v"]
    assert mixture.group_names_.tolist() == NAMES.tolist()
    np.testing.assert_array_equal(mixture.labels_, expected.labels_)
    np.testing.assert_array_equal(mixture.predict(frame, "who"), expected.predict(X, NUMBER))
    np.testing.assert_array_equal(mixture.transform(frame, groups="who"), expected.transform(X, NUMBER))
    np.testing.assert_allclose(mixture.score(frame, groups="who"), expected.score(X, groups=NUMBER))
    np.testing.assert_allclose(mixture.score_samples(frame, "who"), expected.score_samples(X, NUMBER))


def test_a_column_of_numbers_has_no_empty_groups():
    frame = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "id": NUMBER + 1000})
    mixture = GroupedMixture("gaussian_diag", **QUICK).fit(frame, "id")
    assert mixture.group_names_.tolist() == [1000, 1001, 1002]
    assert mixture.group_weights_.shape == (3, 2)


@pytest.mark.parametrize("groups", [NUMBER, NAMES[NUMBER]], ids=["numbers", "names"])
def test_groups_by_place(groups):
    expected = fitted(groups)
    mixture = GroupedMixture("gaussian_diag", **QUICK).fit(X, groups)
    np.testing.assert_array_equal(mixture.labels_, expected.labels_)
    np.testing.assert_array_equal(GroupedMixture("gaussian_diag", **QUICK).fit_predict(X, groups), expected.labels_)
    np.testing.assert_array_equal(
        GroupedMixture("gaussian_diag", **QUICK).fit_predict(X, groups=groups), expected.labels_
    )
    assert mixture.score(X, groups) == expected.score(X, groups=groups)
    stream = GroupedMixture("gaussian_diag", **VARIATIONAL).partial_fit(X, groups)
    assert stream.labels_.shape == (N,)


def test_classes_are_not_taken_for_groups():
    y = np.where(np.arange(N) < 10, KIND, -1)
    mixture = GroupedMixture("gaussian_diag", labels="clusters", **QUICK)
    with pytest.raises(ValueError, match=r"write fit\(X, y, groups=groups\)"):
        mixture.fit(X, y)
    assert mixture.fit(X, y, groups=NAMES[NUMBER]).n_known_ == 10


def test_frames_of_weights_have_the_names():
    mixture = fitted(NAMES[NUMBER]).set_output(transform="pandas")
    assert mixture.transform(X, NAMES[NUMBER]).index.tolist() == NAMES.tolist()
    assert mixture.transform(X, NUMBER).index.tolist() == [0, 1, 2]


@pytest.mark.parametrize("names", [NAMES, np.array([7, 8, 900]), np.array(DATES, dtype=object)], ids=["a", "b", "c"])
def test_files_keep_the_names(tmp_path, names):
    mixture = fitted(Groups.of_names(names[NUMBER]))
    mixture.save(tmp_path / "m")
    loaded = GroupedMixture.load(tmp_path / "m")
    kept = names.tolist() if names.dtype != object else [str(name) for name in names]
    assert loaded.group_names_.tolist() == kept
    results = {"alpha_": mixture.alpha_, "n_": mixture.n_, "S_": mixture.S_, "group_counts_": mixture.group_counts_}
    results |= {"n_features_in_": 2, "n_iter_": 3, "interrupted_": False, "log_joint_": 0.0}
    for wrong in (np.array(["a"]), "abc", np.zeros(3), None):
        if wrong is not None:
            with pytest.raises(ArchiveError, match="'group_names_' are no names"):
                check_grouped(results | {"group_names_": wrong}, mixture.family_)


def test_chunks_have_names_of_their_own():
    stream = GroupedMixture("gaussian_diag", **VARIATIONAL)
    frame = FRAMES["pandas"]
    halves = [frame.iloc[:45], frame.iloc[45:]]
    for half in halves:
        stream.partial_fit(half, groups="who")
        if stream.group_counts_.shape[0] == 3:
            assert stream.group_names_.tolist() == NAMES.tolist()
    passes = GroupedMixture("gaussian_diag", **VARIATIONAL).fit_chunks([(half, "who") for half in halves])
    by_number = GroupedMixture("gaussian_diag", **VARIATIONAL).fit_chunks(
        [(X[:45], NUMBER[:45]), (X[45:], NUMBER[45:])]
    )
    np.testing.assert_array_equal(passes.n_, by_number.n_)
    assert not hasattr(passes, "group_names_")


@pytest.mark.parametrize(
    ("data", "groups", "words"),
    [
        (X, "who", r"X is a ndarray, which has no names of columns: write fit\(X, groups=groups\)"),
        (FRAMES["pandas"], "home", r"X has no column of this name; it has \['u', 'who', 'v'\]"),
        (X, ["a", None] * 45, "row 1 has no group, but None"),
        (X, pd.Series(["a", pd.NA] * 45, dtype=object), "row 1 has no group, but <NA>"),
        (X, np.where(NUMBER == 1, np.nan, NUMBER), "has no group, but nan"),
        (X, pd.Series([["a"], ["b"]] * 45), r"row 0 holds a list, \['a'\], which cannot be a name"),
        (X, ["a", "b"], "each of the 90 rows; got 2"),
        (X, np.where(NUMBER == 1, -2, NUMBER), "non-negative"),
        (X, np.ones((N, 2), dtype=int), "one-dimensional"),
        (X, 3, "groups must have the number or name"),
    ],
)
def test_groups_that_are_none(data, groups, words):
    with pytest.raises(DataError, match=words):
        GroupedMixture("gaussian_diag", **QUICK).fit(data, groups=groups)
