"""Rows of float16 and of small integers have the answers of single precision, whatever the estimator."""

import tracemalloc

import numpy as np
import pytest
from instruction_sets import SETS, output_under
from sklearn.metrics import adjusted_rand_score

from expfam import (
    BayesianHierarchy,
    Dataset,
    GroupedMixture,
    Mixture,
    MixtureModel,
    SphericalGaussian,
    SymmetricDirichlet,
    VonMisesFisher,
)
from expfam.families.row_statistics import RowStatistics
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    Cycle,
    ExpectationMaximization,
    FastEx,
    SparseVariational,
    SplitMerge,
    StochasticEM,
    UncollapsedGibbs,
)

KINDS = [np.float16, np.int8, np.uint8, np.int16, np.uint16]


def narrow_rows(kind, n_rows=120, n_columns=6, seed=0):
    """Three far groups, as whole numbers or as halves of unit length; and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 3
    X = 40 * np.eye(3, n_columns)[labels] + 50 + rng.normal(scale=3, size=(n_rows, n_columns))
    if kind == np.float16:
        X -= 60
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    return (X if kind == np.float16 else np.rint(X)).astype(kind), labels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["gaussian_diag", "gaussian_spherical", "gaussian", "von_mises_fisher"])
def test_the_answer_is_that_of_single_precision(family, kind):
    X, labels = narrow_rows(kind)
    wide = X.astype(np.float32)
    if family == "von_mises_fisher":  # rows of single precision are refused unless they are asked to be divided
        wide = (wide / np.linalg.norm(wide.astype(np.float64), axis=1, keepdims=True)).astype(np.float64)
    found, expected = (Mixture(family, 3, random_state=0).fit(rows) for rows in (X, wide))
    assert len({(a, b) for a, b in zip(found.labels_, labels)}) == 3
    assert np.array_equal(found.labels_, expected.labels_)
    assert np.array_equal(found.predict(X), expected.predict(wide))
    if family != "von_mises_fisher":
        assert found.log_joint_ == expected.log_joint_
        assert np.array_equal(found.score_samples(X), expected.score_samples(wide))


@pytest.mark.parametrize("kind", KINDS)
def test_other_estimators_and_chunks_read_them_too(kind):
    X, labels = narrow_rows(kind)
    tree = BayesianHierarchy("gaussian_spherical").fit(X)
    assert np.array_equal(tree.labels_, BayesianHierarchy("gaussian_spherical").fit(X.astype(np.float32)).labels_)
    groups = GroupedMixture("gaussian_diag", 3, random_state=0).fit(X, groups=np.repeat([0, 1], 60))
    assert len({(a, b) for a, b in zip(groups.labels_, labels)}) == 3
    chunks = Mixture("gaussian_diag", 3, sampler="variational", random_state=0)
    for part in np.array_split(X, 3):
        chunks.partial_fit(part)
    assert len(np.unique(chunks.predict(X))) == 3


def test_counts_in_small_integers_are_counts():
    rng = np.random.default_rng(1)
    X = rng.poisson(np.where(np.arange(200)[:, None] % 2, 2.0, 20.0), size=(200, 4))
    answers = [Mixture("poisson", random_state=0).fit(X.astype(kind)) for kind in (np.uint8, np.int16, np.int64)]
    assert len({mixture.n_components_ for mixture in answers}) == 1
    assert all(np.array_equal(mixture.labels_, answers[0].labels_) for mixture in answers)


def test_a_default_fit_of_half_precision_warns_of_nothing():
    X, labels = np.random.default_rng(0).normal(size=(90, 4)), np.repeat(np.arange(3), 30)
    mixture = Mixture(random_state=0).fit((X + 8.0 * labels[:, None]).astype(np.float16))  # a warning is an error here
    assert adjusted_rand_score(labels, mixture.labels_) == 1.0


# ---- families that read narrow rows where they lie -------------------------------------------------------------------

OWN = {"gaussian_spherical": SphericalGaussian(), "von_mises_fisher": VonMisesFisher(normalize=True)}
KERNELS = {
    "sweeps": CollapsedGibbs(),
    "dense draws": UncollapsedGibbs(),
    "stochastic EM": StochasticEM(),
    "EM": ExpectationMaximization(),
    "prototypes": Canopy(variant=1),
    "tree": Canopy(variant=2),
    "proposals": FastEx("int8"),
    "variational": SparseVariational(),
    "cycle": Cycle(SplitMerge(), CollapsedGibbs()),
}


def all_results(mixture, X):
    return [mixture.labels_, mixture.log_joint_, mixture.predict_proba(X), mixture.score_samples(X)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", list(OWN))
def test_rows_are_kept_and_all_samplers_have_the_bits_of_single_precision(family, kind):
    X, _ = narrow_rows(kind)
    wide = X.astype(np.float32)
    data = Dataset(X, OWN[family])
    assert data.X is X or np.shares_memory(data.X, X)
    np.testing.assert_array_equal(data.phi(0, 120), Dataset(wide, OWN[family]).phi(0, 120))
    for name, kernel in KERNELS.items():
        fits = [
            Mixture(OWN[family], 5, sampler=kernel, random_state=0, n_warmup=2, n_steps=2).fit(Z) for Z in (X, wide)
        ]
        for found, expected in zip(all_results(fits[0], X), all_results(fits[1], wide)):
            np.testing.assert_array_equal(found, expected, err_msg=name)


def test_a_subclass_with_its_own_statistics_gets_single_precision_unless_it_says_otherwise():
    class Squares(SphericalGaussian):
        def sufficient_statistics(self, X):
            return super().sufficient_statistics(X**2)

    class Renamed(SphericalGaussian):
        name = "renamed"

    X, _ = narrow_rows(np.uint8)
    kinds = [Dataset(X, family).X.dtype for family in (Squares(), Renamed(), SphericalGaussian())]
    assert kinds == [np.float32, np.uint8, np.uint8]


def all_values(kind):
    """All finite numbers of a kind, in rows of 64 that are not all zero."""
    bits = np.arange(1 << 8 * np.dtype(kind).itemsize, dtype=f"u{np.dtype(kind).itemsize}")
    values = bits.view(kind)
    rows = np.resize(values[np.isfinite(values)], (-(-values.size // 64), 64))
    return rows[(rows != 0).any(axis=1)]


def test_every_number_is_read_as_numpy_reads_it():
    for family in OWN.values():
        for kind in KINDS:
            data = Dataset(rows := all_values(kind), family)
            statistics = RowStatistics(data.family.components(data, 2), data)
            found = [statistics.added(i, 1.0, np.zeros(data.n_statistics))[:64] for i in range(len(rows))]
            expected = Dataset(rows.astype(np.float32), data.family).phi(0, len(rows))[:, :64]
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("isa", SETS)
def test_other_instructions_read_the_same_numbers(isa):
    code = "from test_narrow_rows import test_every_number_is_read_as_numpy_reads_it as check\ncheck()\nprint('same')"
    assert output_under(isa, code, file=__file__).strip() == "same"


@pytest.mark.parametrize("family", list(OWN))
def test_sweeps_draws_fits_and_predictions_make_no_wide_copy(family):
    rng = np.random.default_rng(0)
    labels = rng.integers(8, size=60_000, dtype=np.int32)
    X = (20 * rng.normal(size=(8, 300))[labels] + 15 * rng.normal(size=(60_000, 300))).clip(-127, 127).astype(np.int8)
    data = Dataset(X, OWN[family])
    model = MixtureModel(data.family, SymmetricDirichlet(8)).bind(data)

    def stepped(kernel):
        state = kernel.init(model, data, seed=0, start=labels)
        kernel.step(state)

    mixture = Mixture(OWN[family], 8, random_state=0, n_warmup=1, n_steps=1).fit(X[:1000])
    for call in (
        lambda: stepped(CollapsedGibbs()),
        lambda: stepped(UncollapsedGibbs()),
        lambda: mixture.predict(X),
    ):
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < X.nbytes  # a copy in single precision has four times as many bytes
