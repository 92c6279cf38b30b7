"""Families on a part of their support keep all laws of the conformance kit within it, and refuse what lies outside."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import betaln, gammaln

from expfam import Family, Mixture
from expfam.errors import SupportError
from expfam.plugins.conformance import check_family


class Rate(Family):
    """Laws with a density rate * exp(-rate t) of some t >= 0, with a gamma prior on the rate."""

    def __init__(self, shape=3.0, rate=1.0, least=2.0):
        self.shape, self.rate, self.least = shape, rate, least

    @property
    def bounds(self):
        return (self.least, np.inf)

    def log_marginal(self, n, S):
        shape, rate = self.shape + n[:, None], self.rate + S
        terms = gammaln(shape) - shape * np.log(rate) - gammaln(self.shape) + self.shape * np.log(self.rate)
        return terms.sum(axis=1)


class Later(Rate):
    """Waiting times that begin at a moment."""

    def sufficient_statistics(self, X):
        return X - self.least


class Earlier(Later):
    """Its mirror image."""

    @property
    def bounds(self):
        return (-np.inf, self.least)

    def sufficient_statistics(self, X):
        return self.least - X


class PowerLaw(Rate):
    """Pareto: log(x / least) is exponential."""

    support = "nonnegative"

    def sufficient_statistics(self, X):
        return np.log(X / self.least)

    def log_base(self, X):
        return -np.log(X).sum(axis=1)

    def support_grid(self, X):
        t = np.arange(-40.0, 6.4, 0.005)  # of the log of the log: predictives fall as powers of the log
        return self.least * np.exp(np.exp(t))[:, None], np.log(self.least) + np.exp(t) + t + np.log(0.005)


class Share(Rate):
    """Powers of a variable between 0 and 1."""

    bounds = (0.0, 1.0)

    def sufficient_statistics(self, X):
        return -np.log(X)

    def log_base(self, X):
        return -np.log(X).sum(axis=1)


class Trials(Family):
    """Trials up to the first success, that one counted."""

    support = "counts"
    bounds = (1, np.inf)

    def __init__(self, a=2.0, b=1.5):
        self.a, self.b = a, b

    def sufficient_statistics(self, X):
        return X - 1.0

    def log_marginal(self, n, S):
        return (betaln(self.a + n[:, None], self.b + S) - betaln(self.a, self.b)).sum(axis=1)


FAMILIES = [Later(), Later(least=-3.0), Earlier(), PowerLaw(shape=9.0), Share(), Trials()]


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_laws_hold_within_the_bounds(family):
    report = check_family(family)
    assert report.passed
    assert report["predictive_is_normalised"].status == "passed"


def test_a_wrong_density_within_the_bounds_is_found():
    class Heavier(Later):
        def log_base(self, X):
            return np.full(X.shape[0], 0.01)

    class Fewer(Trials):
        bounds = (2, np.inf)

    for family in (Heavier(), Fewer()):
        with pytest.raises(AssertionError, match="predictive_is_normalised"):
            check_family(family)


def test_values_outside_are_refused_by_place():
    X = np.array([[3.0, 4.0], [2.0, 1.5]])
    with pytest.raises(SupportError, match=r"later needs values in \[2\.0, inf\]; row 1, column 1 holds 1\.5"):
        Mixture(Later()).fit(X)
    with pytest.raises(SupportError, match=r"share needs values in \[0\.0, 1\.0\]; row 0, column 0 holds 3"):
        Share().bind(X)

    class SparseTrials(Trials):
        accepts_sparse = True

    with pytest.raises(SupportError, match="the sparse matrix holds zeros"):
        SparseTrials().bind(sparse.csr_array([[1.0, 0.0], [2.0, 3.0]]))
    assert SparseTrials().validate(sparse.csr_array([[1.0, 1.0], [2.0, 3.0]])).nnz == 4


def test_a_family_with_bounds_clusters():
    X = 5.0 + np.random.default_rng(0).exponential(np.array([0.1, 50.0])[np.arange(60) % 2])[:, None]
    found = Mixture(Later(least=5.0), 2, random_state=0).fit(X).labels_
    assert max(np.mean(found == np.arange(60) % 2), np.mean(found != np.arange(60) % 2)) > 0.9
