"""What is refused where data come in, by every estimator, before a library below takes it wrongly or crashes on it."""

import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from source_tree import import_path

from expfam import (
    BayesianHierarchy,
    Categorical,
    Dataset,
    DiagonalGaussian,
    Gaussian,
    GroupedMixture,
    Mixture,
    Multinomial,
    Poisson,
    SphericalGaussian,
    TopicModel,
    ZeroMeanGaussian,
)
from expfam.errors import DataError, DataTypeError, SupportError
from expfam.samplers import HierarchicalClustering

GROUPS = np.arange(6) % 2
COUNTS = np.random.default_rng(0).poisson(1.0, (6, 5)).astype(np.float64)


def grouped(**settings):
    return GroupedMixture("poisson", 2, n_steps=2, random_state=0, **settings)


@cache
def fitted(kind):
    """Return an estimator with results: one for all lies, as none of them gets so far that it could change it."""
    return {
        "mixture": lambda: Mixture("poisson", 2, n_steps=2).fit(COUNTS),
        "topics": lambda: TopicModel(2, n_steps=2).fit(COUNTS),
        "groups": lambda: grouped().fit(COUNTS, groups=GROUPS),
        "hierarchy": lambda: BayesianHierarchy("poisson").fit(COUNTS),
    }[kind]()


# every way into every estimator: what is called with a bad X
ENTRIES = {
    "Mixture.fit": lambda X: Mixture("multinomial", 2, n_steps=2).fit(X),
    "Mixture.fit variational": lambda X: Mixture("poisson", 2, n_steps=2, sampler="variational").fit(X),
    "Mixture.fit spherical": lambda X: Mixture("gaussian_spherical", 2, n_steps=2).fit(X),
    "Mixture.partial_fit": lambda X: Mixture("poisson", 2, sampler="variational").partial_fit(X),
    "Mixture.predict": lambda X: fitted("mixture").predict(X),
    "Mixture.score_samples": lambda X: fitted("mixture").score_samples(X),
    "TopicModel.fit": lambda X: TopicModel(2, n_steps=2).fit(X),
    "TopicModel.fit gibbs": lambda X: TopicModel(2, n_steps=2, sampler="gibbs").fit(X),
    "TopicModel.partial_fit": lambda X: TopicModel(2).partial_fit(X),
    "TopicModel.transform": lambda X: fitted("topics").transform(X),
    "GroupedMixture.fit": lambda X: grouped().fit(X, groups=GROUPS),
    "GroupedMixture.partial_fit": lambda X: grouped(sampler="variational").partial_fit(X, groups=GROUPS),
    "GroupedMixture.predict": lambda X: fitted("groups").predict(X, groups=GROUPS),
    "BayesianHierarchy.fit": lambda X: BayesianHierarchy("poisson").fit(X),
    "BayesianHierarchy.predict": lambda X: fitted("hierarchy").predict(X),
    "Dataset": lambda X: Dataset(X, Poisson()),
    "Family.bind": lambda X: Multinomial().bind(X),
    "Family.log_predictive": lambda X: Poisson().bind(COUNTS).log_predictive(X, np.zeros(1), np.zeros((1, 5))),
}


def lies():
    """Sparse matrices of shape (6, 5) whose parts do not fit it, by name."""
    for kind in (sparse.csr_matrix, sparse.csr_array):
        for bits in (np.int32, np.int64):
            far = {np.int32: 2**31 - 1, np.int64: 2**62}[bits]
            for part, at, value in (
                ("indices", 3, 5),
                ("indices", 3, far),
                ("indices", 0, -1),
                ("indptr", 6, far),
                ("indptr", 2, -3),
                ("indptr", 2, far),
                ("indptr", 0, 1),
            ):
                X = kind(COUNTS)
                X.indices, X.indptr = X.indices.astype(bits), X.indptr.astype(bits)
                getattr(X, part)[at] = value
                yield f"{kind.__name__} {bits.__name__} {part}[{at}]={value}", X


def refuses_lies():
    for entry in ENTRIES:
        print(entry, flush=True)
        for name, X in lies():
            with pytest.raises(DataError, match=r"indptr|stored entry") as caught:
                ENTRIES[entry](X)
            assert "build the matrix again" in str(caught.value), (entry, name)
    print("end")


# A process of its own: a entry that believes the indices ends it by a signal, and the last line tells which one it was.
def test_indices_and_row_starts_are_checked_at_every_entry():
    arguments = [sys.executable, "-P", "-c", "import test_data_at_the_border as t; t.refuses_lies()"]
    environment = os.environ | {"PYTHONPATH": import_path(__file__)}
    told = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=120)
    assert told.stdout.splitlines()[-1:] == ["end"], f"{told.returncode}: {told.stdout[-200:]} {told.stderr[-2000:]}"
    assert told.stdout.splitlines() == [*ENTRIES, "end"]


def test_other_sparse_formats_are_checked_before_they_are_converted():
    for format in ("csc", "coo", "bsr"):
        X = sparse.csr_array(COUNTS).asformat(format)
        indices = X.row if format == "coo" else X.indices
        indices[1] = 10**9
        for call in (lambda X=X: Dataset(X, Poisson()), lambda X=X: Mixture("poisson", 2, n_steps=2).fit(X)):
            with pytest.raises(DataError, match=r"names (row|column) 1000000000; the matrix has [156] (row|column)s"):
                call()


def test_candidates_of_a_hierarchy_are_checked():
    graph = sparse.csr_array(np.ones((6, 6)))
    graph.indptr[3] = 2**30
    with pytest.raises(DataError, match="candidates: indptr"):
        BayesianHierarchy("poisson", sampler=HierarchicalClustering(candidates=graph)).fit(COUNTS)


def test_a_remembered_flag_of_order_is_not_believed():
    X = sparse.csr_array(np.float64([[1, 2, 0], [0, 0, 3]]))
    assert X.has_canonical_format
    X.indices[:2] = 1, 1  # twice the same column, and SciPy still remembers that all was well
    given = X.copy()
    data = Dataset(X, Poisson())
    np.testing.assert_array_equal(data.X.toarray(), [[0, 3, 0], [0, 0, 3]])
    assert data.X.nnz == 2
    np.testing.assert_array_equal(X.indices, given.indices)  # the caller's own stay as they were


@pytest.mark.parametrize("seed", range(5))
def test_sorted_columns_are_recognised_across_blocks(monkeypatch, seed):
    from expfam.families import support

    monkeypatch.setattr(support, "_BLOCK", 3)
    rng = np.random.default_rng(seed)
    X = sparse.random_array((9, 4), density=0.5, format="csr", rng=rng)
    assert np.shares_memory(
        Dataset(X, SphericalGaussian()).X.data, X.data
    )  # nothing had to change, in rows of any length
    row = int(np.flatnonzero(np.diff(X.indptr) > 1)[0])
    at = X.indptr[row]
    Y = X.copy()
    Y.indices[at : at + 2] = Y.indices[at : at + 2][::-1]
    other = Dataset(Y, SphericalGaussian()).X
    assert not np.shares_memory(other.data, Y.data)
    np.testing.assert_array_equal(other.toarray(), Y.toarray())
    assert (np.diff(other.indices)[np.setdiff1d(np.arange(other.nnz - 1), other.indptr[1:-1] - 1)] > 0).all()


# ---- codes and counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((10, 4), 2**62), r"column 0 holds the code 4611686018427387904; a column may have 1048576 levels"),
        ([[0, 1], [1, 10**9]], "column 1 holds the code 1000000000"),
        ([[0, 2**63 - 1]], "column 1 holds the code"),
        (np.array([[0, 2**64 - 1]], dtype=np.uint64), "column 1 holds the code"),
        ([[0, 2**20]], "column 1 holds the code 1048576;"),
        (np.full((1, 17), 2**20 - 1), r"all columns together may have 16777216 levels"),
    ],
)
def test_huge_codes_are_refused_by_column_before_anything_is_allocated(X, message):
    import tracemalloc

    for fit in (Categorical().bind, Mixture("categorical", 2, n_steps=2).fit):
        tracemalloc.start()
        with pytest.raises(SupportError, match=message):
            fit(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3e6


def test_the_most_codes_that_are_taken():
    assert Categorical().bind([[0, 2**20 - 1]]).n_statistics_ == 2**20 + 1
    with pytest.raises(SupportError, match="all columns together"):
        Categorical(n_levels=2**20).bind(np.zeros((1, 17)))
    for n_levels in (2**20 + 1, 2**63, [3, 10**9]):
        with pytest.raises(ValueError, match=r"n_levels must be at most 1048576 \(2\*\*20\)"):
            Categorical(n_levels=n_levels)


BIG = {
    "one count": np.array([[2**53, 1, 1], [0, 3, 2], [1, 1, 1]]),
    "all together": np.full((3, 3), 2**50 + 2**51),
    "an overflow of int64": np.full((3, 3), 2**62),
    "a float": np.array([[1e300, 1, 0], [2, 3, 1], [1, 1, 1]]),
}


@pytest.mark.parametrize("name", BIG)
@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_counts_whose_sums_are_not_exact_are_refused(name, as_given):
    X = as_given(BIG[name])
    for fit in (
        Mixture("poisson", 2, n_steps=2).fit,
        Mixture("multinomial", 2, n_steps=2).fit,
        Mixture(Multinomial(allow_fractional=True), 2, n_steps=2, sampler="variational").fit,
        TopicModel(2, n_steps=2).fit,
        TopicModel(2, n_steps=2, sampler="gibbs").fit,
        BayesianHierarchy("poisson").fit,
    ):
        with pytest.raises(SupportError, match=r"less than 2\*\*53.*row 0, column 0 holds .*divide the counts"):
            fit(X)


def test_counts_just_below_are_added_exactly():
    X = np.array([[2**52, 1], [2**51, 2], [5, 2**50], [1, 1]])
    mixture = Mixture("multinomial", 2, n_steps=20, random_state=0).fit(X)
    np.testing.assert_array_equal(mixture.S_.sum(axis=0), X.sum(axis=0))


# ---- masks, dates, weights -------------------------------------------------------------------------------------------


USES = (  # of rows
    Mixture("gaussian_diag", 2, n_steps=2).fit,
    BayesianHierarchy("gaussian").fit,
    TopicModel(2, n_steps=2).fit,
    lambda X: grouped().fit(X, groups=GROUPS),
    lambda X: Dataset(X, DiagonalGaussian()),
)
MASKED = np.ma.array(np.arange(12.0).reshape(6, 2), mask=np.arange(12).reshape(6, 2) == 3)


@pytest.mark.parametrize("X", [MASKED, list(MASKED)])
def test_masks_are_not_dropped(X):
    for use in USES:
        with pytest.raises(DataError, match=r"row 1.* masked.*X\.filled"):
            use(X)


def test_an_empty_mask_and_a_full_array_are_the_same():
    plain = Mixture("gaussian_diag", 2, n_steps=2, random_state=0).fit(MASKED.data)
    unmasked = Mixture("gaussian_diag", 2, n_steps=2, random_state=0).fit(np.ma.array(MASKED.data))
    np.testing.assert_array_equal(plain.labels_, unmasked.labels_)


def test_masks_of_weights_and_groups_are_not_dropped():
    mask = np.arange(6) == 2
    with pytest.raises(DataError, match="sample_weight: row 2 is masked"):
        Mixture("poisson", 2, sampler="variational").fit(COUNTS, sample_weight=np.ma.array(np.ones(6), mask=mask))
    with pytest.raises(DataError, match="groups: row 2 is masked"):
        grouped().fit(COUNTS, groups=np.ma.array(GROUPS, mask=mask))


@pytest.mark.parametrize("weight", [1e300, 2.0**53, 1e-300])
def test_weights_far_from_one_are_refused_by_row(weight):
    with pytest.raises(DataError, match=r"sample_weight must lie within.*row 3 holds.*multiply or divide"):
        Mixture("gaussian_diag", 2, sampler="variational").fit(
            COUNTS, sample_weight=np.where(np.arange(6) == 3, weight, 0)
        )


DAYS = np.array(["2020-01-01", "2020-02-01", "2020-01-04", "2021-01-01", "2021-01-02", "2021-01-03"], dtype="M8[D]")


@pytest.mark.parametrize(
    "X",
    [
        DAYS[:, None],
        (DAYS - DAYS[0])[:, None],
        [[day] for day in DAYS],
        np.array([[0.5, day] for day in DAYS - DAYS[0]], dtype=object),
    ],
)
def test_dates_and_durations_are_no_numbers(X):
    for use in (*USES, Mixture("gaussian_diag", 2, n_steps=2).fit(COUNTS[:, :1]).predict):
        with pytest.raises(DataTypeError, match=r"dates? or .*durations?.*turn it into numbers of a unit"):
            use(X)


@pytest.mark.parametrize("kind", ["date", "duration", "zone", "period"])
@pytest.mark.parametrize("alone", [True, False])
def test_dates_in_frames_are_refused_by_the_name_of_the_column(kind, alone):
    pandas = pytest.importorskip("pandas", reason="frames of pandas")
    values = {
        "date": DAYS,
        "duration": DAYS - DAYS[0],
        "zone": pandas.Series(DAYS.astype("M8[s]")).dt.tz_localize("UTC"),
        "period": pandas.period_range("2020", periods=6, freq="D"),
    }[kind]
    frame = pandas.DataFrame({"when": values} if alone else {"x": np.arange(6.0), "when": values})
    for use in (Mixture("gaussian_diag", 2, n_steps=2).fit, lambda X: Dataset(X, DiagonalGaussian())):
        with pytest.raises(DataTypeError, match=r"column 'when' holds .*turn it into numbers of a unit"):
            use(frame)


def test_dates_in_arrow_tables_are_refused_by_the_name_of_the_column():
    pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need the extra `arrow`")
    table = pyarrow.table({"x": np.arange(6.0), "when": DAYS})
    with pytest.raises(DataTypeError, match="column 'when' holds date32"):
        Mixture("gaussian_diag", 2, n_steps=2).fit(table)


# ---- scales ----------------------------------------------------------------------------------------------------------


FAMILIES = (DiagonalGaussian, Gaussian, SphericalGaussian, ZeroMeanGaussian)
SAMPLERS = ("auto", "variational", "em", "uncollapsed_gibbs")


def two_clouds():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(-4, 1, (20, 2)), rng.normal(4, 1, (20, 2))])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scales", [(1, 1e-20), (1, 1e20), (1, 1e160), (1, 1e-200)])
def test_columns_of_impossible_scales_are_refused_by_column(family, scales):
    X = two_clouds() * scales
    for fit in (*(Mixture(family(), 2, sampler=sampler).fit for sampler in SAMPLERS), BayesianHierarchy(family()).fit):
        with pytest.raises(DataError, match=r"column 1 (has a standard|holds).*StandardScaler"):
            fit(X)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scales", [(1e-10, 1e10), (1e14, 1e14), (1e-14, 1e-14), (1, 1e-14), (1e14, 1)])
def test_all_other_scales_run_in_every_sampler(family, scales):
    X = two_clouds() * scales
    for sampler in SAMPLERS:
        mixture = Mixture(family(), 2, n_steps=5, sampler=sampler, random_state=0).fit(X)
        assert np.isfinite(mixture.log_joint_)
        assert np.isfinite(mixture.predict_proba(X)).all()


def test_scales_too_different_for_a_full_covariance_are_refused_by_column():
    X = two_clouds() * (1e-12, 1e12)
    for family in (Gaussian, ZeroMeanGaussian):
        with pytest.raises(DataError, match=r"column 1 is .*e\+23 times that of column 0.*StandardScaler"):
            Mixture(family(), 2, sampler="variational").fit(X)
    assert np.isfinite(Mixture(DiagonalGaussian(), 2, n_steps=5, sampler="variational").fit(X).log_joint_)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_waiting_times_of_impossible_scales_are_refused_by_column(scale):
    X = np.random.default_rng(0).exponential(size=(9, 2)) * (1, scale)
    with pytest.raises(DataError, match=r"exponential: column 1 has a standard deviation"):
        Mixture("exponential", 2, sampler="variational").fit(X)
