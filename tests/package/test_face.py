"""The four estimators stay thin: whole classes, few bases, few methods."""

import ast
import inspect
import textwrap

import pytest

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.estimators.base import Estimator

ESTIMATORS = [Mixture, GroupedMixture, TopicModel, BayesianHierarchy]


def own(cls):
    return [base for base in cls.__mro__ if base.__module__.startswith("expfam.")]


def methods(cls):
    return [name for name, _ in inspect.getmembers(cls, callable) if not name.startswith("__")]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_estimator_is_made_of_halves(estimator):
    bases = own(estimator)
    assert len(bases) <= 3
    assert all(issubclass(base, Estimator) for base in bases)


def test_a_mixture_has_few_methods():
    assert len(methods(Mixture)) <= 57


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fit_is_read_from_top_to_bottom(estimator):
    """It is planned, run and adopted in a dozen lines; a plan says what "auto" stands for."""
    (fit,) = ast.parse(textwrap.dedent(inspect.getsource(estimator.fit))).body
    first, *_, last = fit.body[1:]  # after the docstring
    assert last.end_lineno - first.lineno + 1 <= 12
