"""Weights of rows are multiplicities: a fit with weights is that of the rows repeated."""

import re

import numpy as np
import pytest
from scipy import sparse

from expfam import Columns, DiagonalGaussian, GroupedMixture, Mixture, Poisson
from expfam.errors import CapabilityError, SupportError
from expfam.samplers import SplitMerge

RNG = np.random.default_rng(0)
CLASSES = np.repeat([0, 1, 2], 40)
POINTS = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])[CLASSES] + RNG.normal(size=(120, 2))
COUNTS = RNG.poisson(np.array([[30, 2, 2], [2, 30, 2], [2, 2, 30]])[CLASSES])
TIMES = RNG.integers(1, 4, 120)
ORDER = RNG.permutation(120)
CLASSES, POINTS, COUNTS = CLASSES[ORDER], POINTS[ORDER], COUNTS[ORDER]
HOLES = np.where(RNG.random((120, 2)) < 0.1, np.nan, POINTS)
FAR = 50  # place of the row that does not count
DATA = {
    "gaussian": (POINTS, [1e6, -1e6]),
    "gaussian_diag": (POINTS, [1e6, -1e6]),
    "gaussian_spherical": (POINTS, [1e6, -1e6]),
    "lognormal": (np.exp(POINTS), [1e-200, 1e200]),
    "poisson": (COUNTS, [10**6, 0, 0]),
    "multinomial": (COUNTS, [10**6, 0, 0]),
    "multinomial, CSR": (sparse.csr_array(COUNTS), [10**6, 0, 0]),
    "negative_binomial": (COUNTS, [10**6, 0, 0]),
    "table": (np.column_stack([HOLES, COUNTS]), [1e6, np.nan, 10**6, 0, 0]),
}
SAMPLERS = ["em", "variational"]


def family_of(name):
    if name == "table":
        return Columns([(DiagonalGaussian(), (0, 1)), (Poisson(), (2, 3, 4))])
    return name.split(",")[0]


def with_far_row(X, row):
    """Return the rows with one more at the place FAR, and the weights: 0 for it and TIMES for the others."""
    if sparse.issparse(X):
        X = sparse.csr_array(sparse.vstack([X[:FAR], sparse.csr_array([row]), X[FAR:]]))
    else:
        X = np.concatenate([X[:FAR], [row], X[FAR:]])
    return X, np.insert(TIMES.astype(float), FAR, 0.0)


def assert_same_fit(a, b):
    for name in ("log_joint_", "n_", "weights_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert (abs(a.S_ - b.S_)).sum() == 0
    assert {k: np.asarray(v).tolist() for k, v in a.family_.get_params().items() if k != "parts"} == {
        k: np.asarray(v).tolist() for k, v in b.family_.get_params().items() if k != "parts"
    }


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", DATA)
def test_a_row_of_weight_0_has_no_influence(name, sampler):
    X, row = DATA[name]
    Z, weight = with_far_row(X, row)
    kept = np.flatnonzero(weight)
    with_it, without = (Mixture(family_of(name), 3, sampler=sampler, random_state=0) for _ in range(2))
    with_it.fit(Z, sample_weight=weight)
    without.fit(X, sample_weight=TIMES)
    if name == "table":  # the hole of that row opens the layout of the statistics
        assert with_it.log_joint_ == pytest.approx(without.log_joint_, rel=1e-12)
    else:
        assert_same_fit(with_it, without)
    np.testing.assert_array_equal(with_it.labels_[kept], without.labels_)
    assert with_it.labels_[FAR] == with_it.predict(Z)[FAR] == without.predict(Z)[FAR]
    assert with_it.cluster_sizes_.sum() == TIMES.sum()
    assert with_it.n_components_ == 3
    assert with_it.probabilities_.shape == (121,)


@pytest.mark.parametrize("start", ["auto", "kmeans", "kmeans++", "random", "tree", "buckets", "variational", CLASSES])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_start_sees_a_row_of_weight_0(start, sampler):
    Z, weight = with_far_row(*DATA["gaussian_diag"])
    given = np.insert(start, FAR, 0) if isinstance(start, np.ndarray) else start
    with_it = Mixture("gaussian_diag", 3, sampler=sampler, start=given, random_state=0).fit(Z, sample_weight=weight)
    without = Mixture("gaussian_diag", 3, sampler=sampler, start=start, random_state=0).fit(POINTS, sample_weight=TIMES)
    assert_same_fit(with_it, without)


@pytest.mark.parametrize("start", ["auto", "kmeans", "kmeans++"])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", DATA)
def test_whole_weights_are_repeated_rows(name, sampler, start):
    X, _ = DATA[name]
    rows = np.repeat(np.arange(120), TIMES)
    a = Mixture(family_of(name), 3, sampler=sampler, start=start, random_state=0).fit(X, sample_weight=TIMES)
    b = Mixture(family_of(name), 3, sampler=sampler, start=start, random_state=0).fit(X[rows])
    np.testing.assert_array_equal(a.labels_[rows], b.labels_)
    assert a.log_joint_ == pytest.approx(b.log_joint_, rel=1e-5)
    np.testing.assert_allclose(a.n_, b.n_, atol=0.05)


@pytest.mark.parametrize("name", ["gaussian_diag", "poisson", "multinomial, CSR", "table"])
def test_chunks_do_not_see_rows_of_weight_0(name):
    X, row = DATA[name]
    Z, weight = with_far_row(X, row)

    def mixture():
        return Mixture(family_of(name), 3, sampler="variational", start="kmeans", random_state=0)

    with_it, without = mixture().partial_fit(Z, sample_weight=weight), mixture().partial_fit(X, sample_weight=TIMES)
    assert with_it.log_joint_ == pytest.approx(without.log_joint_, rel=1e-12)
    np.testing.assert_array_equal(with_it.labels_[np.flatnonzero(weight)], without.labels_)
    assert len(with_it.labels_) == 121
    assert with_it.labels_[FAR] == with_it.predict(Z)[FAR]
    chunks = [(Z[:70], weight[:70]), (Z[70:], weight[70:])], [(X[:69], TIMES[:69]), (X[69:], TIMES[69:])]
    with_it, without = (mixture().fit_chunks(each) for each in chunks)
    assert with_it.log_joint_ == pytest.approx(without.log_joint_, rel=1e-12)
    np.testing.assert_array_equal(with_it.predict(X), without.predict(X))


def test_groups_do_not_see_rows_of_weight_0():
    Z, weight = with_far_row(*DATA["gaussian_diag"])
    groups = np.arange(121) // 30
    groups[FAR] = 9  # the only row of its group
    kept = np.flatnonzero(weight)

    def mixture():
        return GroupedMixture("gaussian_diag", 3, sampler="variational", random_state=0)

    with_it = mixture().fit(Z, groups=groups, sample_weight=weight)
    without = mixture().fit(POINTS, groups=groups[kept], sample_weight=TIMES)
    assert_same = np.testing.assert_array_equal
    assert_same(with_it.labels_[kept], without.labels_)
    assert_same(with_it.n_, without.n_)
    assert with_it.group_weights_.shape == (10, 3)
    np.testing.assert_allclose(with_it.group_weights_[:5], without.group_weights_[:5], rtol=1e-12)
    assert len(with_it.labels_) == 121
    assert with_it.probabilities_.shape == (121,)
    learned = mixture().partial_fit(Z, groups=groups, sample_weight=weight)
    alone = mixture().partial_fit(POINTS, groups=groups[kept], sample_weight=TIMES)
    np.testing.assert_allclose(learned.n_, alone.n_)
    assert_same(learned.labels_[kept], alone.labels_)


def test_rows_of_weight_0_join_their_class_and_their_links():
    Z, weight = with_far_row(*DATA["gaussian_diag"])
    y = np.insert(np.where(np.arange(120) % 4 == 0, CLASSES, -1), FAR, 2)
    mixture = Mixture("gaussian_diag", 3, sampler="em", labels="clusters", random_state=0)
    mixture.fit(Z, y, sample_weight=weight)
    assert mixture.labels_[FAR] == mixture.labels_[np.flatnonzero(y == 2)[0]]
    assert mixture.n_known_ == 31


def test_a_row_of_weight_0_is_checked_like_the_others():
    Z, weight = with_far_row(COUNTS, [3, -1, 0])
    for fit in (lambda m: m.fit(Z, sample_weight=weight), lambda m: m.partial_fit(Z, sample_weight=weight)):
        with pytest.raises(SupportError, match=f"row {FAR}, column 1 holds -1"):
            fit(Mixture("poisson", 3, sampler="variational"))


# ---- samplers that take no weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mixture",
    [
        Mixture("gaussian_diag", 3, random_state=0),
        Mixture(n_components=3, sampler="gibbs", random_state=0),
        Mixture("gaussian_diag", random_state=0),
        Mixture("gaussian_diag", sampler=SplitMerge(), random_state=0),
    ],
    ids=["auto", "gibbs", "open", "kernel"],
)
def test_the_refusal_of_weights_has_the_line_to_type(mixture):
    with pytest.raises(CapabilityError, match="cannot use sample_weight") as raised:
        mixture.fit(POINTS, sample_weight=TIMES)
    message = str(raised.value)
    given = mixture.sampler if isinstance(mixture.sampler, str) else "SplitMerge"
    assert f"Mixture with sampler={given!r}".replace("'SplitMerge'", "SplitMerge") in message
    line = re.search(r"type (Mixture\(.*?sample_weight=sample_weight\))", message)[1]
    assert ("sampler='em'" if mixture.n_components else "sampler='variational'") in line
    fitted = eval(line, {"Mixture": Mixture, "X": POINTS, "sample_weight": TIMES})
    assert fitted.cluster_sizes_.sum() == TIMES.sum()
    line = re.search(r"repeat the rows: write (rows = .*; X = X\[rows\])", message)[1]
    names = {"X": POINTS, "numpy": np, "sample_weight": TIMES}
    exec(line, names)  # the line of a message, which is ours
    np.testing.assert_array_equal(names["X"], np.repeat(POINTS, TIMES.astype(int), axis=0))


def test_the_refusal_of_weights_of_rows_in_groups_has_the_line_to_type():
    groups = np.arange(120) // 30
    with pytest.raises(CapabilityError, match="GroupedMixture with sampler='gibbs' cannot use sample_weight") as raised:
        GroupedMixture("poisson", 3, sampler="gibbs").fit(COUNTS, groups=groups, sample_weight=TIMES)
    line = re.search(r"type (GroupedMixture\(.*?sample_weight=sample_weight\))", str(raised.value))[1]
    names = {"GroupedMixture": GroupedMixture, "X": COUNTS, "groups": groups, "sample_weight": TIMES}
    assert eval(line, names).n_.sum() == pytest.approx(TIMES.sum())
