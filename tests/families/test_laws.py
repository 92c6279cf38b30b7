"""The families of the package keep the laws that plugins are held to, with default and with given hyper-parameters."""

import numpy as np
from scipy import sparse

from expfam import load_family
from expfam.families.columns.family import Columns
from expfam.families.counts.categorical import Categorical
from expfam.families.counts.multinomial import Multinomial
from expfam.families.counts.poisson import Poisson
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.full import Gaussian, ZeroMeanGaussian
from expfam.families.gaussian.lognormal import LogNormal
from expfam.families.gaussian.spherical import SphericalGaussian
from expfam.plugins.conformance import parametrize_with_checks


def sparse_counts(index, dtype, *, n_rows=30, n_columns=9):
    """A tenth to a half of the entries of three groups of rows; the last row is empty."""
    rng = np.random.default_rng(7)
    rate = np.repeat(rng.gamma(0.4, 1.0, size=(3, n_columns)), n_rows // 3, axis=0)
    X = rng.poisson(rate)
    X[-1] = 0
    X = sparse.csr_array(X.astype(dtype))
    return sparse.csr_array((X.data, X.indices.astype(index), X.indptr.astype(index)), shape=X.shape)


def wide_rows(n_columns, *, n_rows=60, offset=0.0):
    """Correlated real rows in three groups, more columns than a factor is made anew for."""
    rng = np.random.default_rng(3)
    mix = np.eye(n_columns) + 0.3 * rng.standard_normal((n_columns, n_columns))
    return offset + (rng.standard_normal((n_rows, n_columns)) + 2.0 * (np.arange(n_rows) % 3)[:, None]) @ mix


FAMILIES = [
    Multinomial(),
    Multinomial(concentration=0.2),
    Multinomial(concentration=[0.5, 2.0, 0.1, 1.0, 3.0, 0.02]),
    Categorical(),
    Categorical(concentration=0.3),
    Poisson(),
    Poisson(shape=0.4, rate=0.05),
    Poisson(shape=[0.5, 2.0, 0.1, 1.0, 3.0, 0.7], rate=2.5),
    Gaussian(),
    Gaussian(mean=[1.0, -2.0], mean_strength=0.7, dof=2.5, scale=[[2.0, 0.6], [0.6, 0.5]]),
    DiagonalGaussian(),
    DiagonalGaussian(mean=0.5, mean_strength=[0.03, 2.0], shape=[0.8, 3.0], rate=[0.2, 5.0]),
    LogNormal(),
    LogNormal(mean=0.5, mean_strength=[0.3, 2.0], shape=[2.5, 3.0], rate=[0.2, 5.0]),
    SphericalGaussian(),
    SphericalGaussian(mean=[1.0, -2.0], mean_strength=0.7, shape=2.5, rate=0.4),
    SphericalGaussian(variance="shared"),
    SphericalGaussian(variance="shared", shared_variance=0.6, mean=[1.0, -2.0], mean_variance=9.0),
    SphericalGaussian(variance=0.6, mean=[1.0, -2.0], mean_variance=9.0),
    ZeroMeanGaussian(),
    ZeroMeanGaussian(dof=1.7, scale=[0.4, 6.0]),
]

TABLES = [
    Columns([(DiagonalGaussian(), (0, 2)), (Poisson(), (1, 3)), (Categorical(), (4, 5))]),
    Columns([(LogNormal(), (0,)), (load_family("bernoulli"), (1, 3)), (load_family("negative_binomial"), (2,))]),
    Columns([(Poisson(), (0, 1)), (Categorical(), (2, 3))], missing="informative"),
    Columns([(Gaussian(), (0, 1)), (load_family("exponential"), (2,))], rows="complete"),
    Columns([(DiagonalGaussian(), (0, 1)), (Poisson(), (2,))], holes="any"),
]


def holey_rows(share, *, n_rows=40):
    """Rows of five columns with holes; with holes one row has no cell."""
    rng = np.random.default_rng(0)
    numbers = [rng.normal(size=(n_rows, 2)), np.exp(rng.normal(size=n_rows))]
    X = np.column_stack([*numbers, rng.poisson(3, n_rows), rng.integers(0, 3, n_rows)]).astype(float)
    X[rng.random(X.shape) < share] = np.nan
    X[3, :] = np.nan if share else X[3]
    return X


def mixed_table(**options):
    numbers = [(DiagonalGaussian(), (0, 1)), (LogNormal(), (2,))]
    return Columns([*numbers, (Poisson(), (3,)), (Categorical(n_levels=3), (4,))], **options)


ON_GIVEN_DATA = [
    *((mixed_table(), holey_rows(share)) for share in (0.0, 0.1, 0.5)),
    (mixed_table(missing="informative"), holey_rows(0.1)),
    (mixed_table(missing="informative"), holey_rows(0.5)),
    (Multinomial(), sparse_counts(np.int32, np.float64)),
    (Multinomial(concentration=0.2), sparse_counts(np.int64, np.int32)),
    (Poisson(), sparse_counts(np.int64, np.int64)),
    (Poisson(shape=0.4, rate=0.05), sparse_counts(np.int32, np.float32)),
    (SphericalGaussian(), sparse_counts(np.int32, np.float32)),
    (SphericalGaussian(mean_strength=0.7, shape=2.5, rate=0.4), sparse_counts(np.int64, np.int64)),
    (SphericalGaussian(variance="shared"), sparse_counts(np.int32, np.float32)),
    (SphericalGaussian(variance=0.6, mean=0.0, mean_variance=9.0), sparse_counts(np.int64, np.int64)),
    (Gaussian(), wide_rows(18)),
    (ZeroMeanGaussian(), wide_rows(18)),
    (DiagonalGaussian(), wide_rows(18)),
    (LogNormal(), np.exp(wide_rows(18)).astype(np.float32)),
    (SphericalGaussian(), wide_rows(18).astype(np.float32)),
    (SphericalGaussian(variance="shared"), wide_rows(18)),
    (SphericalGaussian(variance=0.6), wide_rows(18).astype(np.float32)),
]


@parametrize_with_checks(FAMILIES)
def test_laws(family, check):
    check(family)


@parametrize_with_checks(TABLES)
def test_laws_of_tables(family, check):
    check(family)


@parametrize_with_checks(ON_GIVEN_DATA)
def test_laws_on_given_data(family, check):
    check(family)
