"""The kit checks what a family says about its data against the data and phi."""

import sys

import numpy as np
import pytest
from holes import HoledGaussian, three_clusters

from expfam import Categorical, DiagonalGaussian, Poisson, SphericalGaussian
from expfam.families.trials.bernoulli import Bernoulli
from expfam.families.waiting.exponential import Exponential
from expfam.plugins.conformance import check_family

TRUE, FREE, FINITE, MISSING = (
    "answers_about_data_are_true",
    "free_parameters_are_counted",
    "coordinates_are_finite_and_by_row",
    "missing_values_are_left_out",
)


@pytest.mark.parametrize(
    "family",
    [DiagonalGaussian(), SphericalGaussian(), Poisson(), Categorical(), Bernoulli(), Exponential(), HoledGaussian()],
    ids=lambda family: family.name,
)
def test_true_answers_pass(family):
    report = check_family(family, only=[TRUE, FREE, FINITE, MISSING])
    skipped = [FREE] if isinstance(family, HoledGaussian) else []  # whose author says nothing of free parameters
    assert report.named("skipped") == (skipped if family.allows_missing else [*skipped, MISSING])


def test_a_family_with_holes_passes_the_kit():
    assert check_family(HoledGaussian()).passed
    assert check_family(HoledGaussian(), three_clusters()[0], only=[TRUE, FINITE, MISSING]).passed


def _holes_for_zeros(self, X):
    # what a hole is easily taken for: the value 0 of a datum that counts
    return np.concatenate([np.ones(X.shape), np.nan_to_num(X), np.nan_to_num(X) ** 2], axis=1)


FAULTS = [
    (DiagonalGaussian, {"nonnegative_statistics": property(lambda self: np.ones(4, dtype=bool))}, TRUE, "statistic 0"),
    (DiagonalGaussian, {"nonnegative_statistics": np.zeros(3, dtype=bool)}, TRUE, r"shape \(3,\); there are 4"),
    (Poisson, {"nonnegative_statistics": property(lambda self: np.ones(self.n_statistics_))}, TRUE, "array of bool"),
    (Poisson, {"is_discrete": False}, TRUE, "counts are discrete"),
    (Poisson, {"is_discrete": "yes"}, TRUE, "is_discrete must be True or False"),
    (DiagonalGaussian, {"tags": lambda self: {"sparse": False}}, TRUE, r"tags\(\) lacks \['allow_nan', "),
    (DiagonalGaussian, {"tags": lambda self: dict.fromkeys(Poisson().tags(), 1)}, TRUE, "tags must be bool"),
    (DiagonalGaussian, {"tags": lambda self: Exponential().tags()}, TRUE, "positive_only"),
    (HoledGaussian, {"tags": lambda self: DiagonalGaussian().tags()}, TRUE, "allow_nan is False, but allows_missing"),
    (Poisson, {"tags": lambda self: Poisson().tags() | {"sparse": False}}, TRUE, "accepts_sparse is not"),
    (Poisson, {"sufficient_statistics": lambda self, X: X * 0.3}, TRUE, "has fractions"),
    (Poisson, {"n_free_parameters": lambda self, K: float(K)}, FREE, "an integer of at least 0; got float 1.0"),
    (Poisson, {"n_free_parameters": lambda self, K: K - 1}, FREE, r"\(1\) must be a positive integer; got 0"),
    (Poisson, {"n_free_parameters": lambda self, K: 9 - K}, FREE, "two clusters have 7 free parameters, and one has 8"),
    (Poisson, {"n_free_parameters": lambda self, K: K * K}, FREE, "have 1, 4 and 9 free parameters"),
    (DiagonalGaussian, {"coordinates": lambda self, X: X - X.mean(axis=0)}, FINITE, "of a block of rows"),
    (DiagonalGaussian, {"coordinates": lambda self, X: X + np.nan}, FINITE, "nan, expected nan"),
    (DiagonalGaussian, {"coordinates": lambda self, X: X[0]}, FINITE, "must give a matrix"),
    (DiagonalGaussian, {"coordinates": lambda self, X: X[:2]}, FINITE, "gives 2 rows for 40"),
    (DiagonalGaussian, {"coordinates": lambda self, X: X.tolist()}, FINITE, "an ndarray or CSR"),
    (DiagonalGaussian, {"neighbour_map": lambda self, X: lambda rows: rows - rows[0]}, FINITE, "neighbour_map of a b"),
    (HoledGaussian, {"sufficient_statistics": _holes_for_zeros}, MISSING, "log predictive of a row without any value"),
    (HoledGaussian, {"log_base": lambda self, X: np.full(len(X), -1.0)}, MISSING, "log predictive of a row without"),
    (HoledGaussian, {"coordinates": lambda self, X: X}, MISSING, "coordinate_map gives nan"),
]


@pytest.mark.parametrize(("base", "overrides", "law", "message"), FAULTS)
def test_false_answers_are_found(base, overrides, law, message):
    cls = type("Faulty", (base,), {"__module__": __name__, **overrides})
    sys.modules[__name__].Faulty = cls
    with pytest.raises(AssertionError, match=message):
        check_family(cls(), only=[law])
