"""The page of settings tells of every parameter of an estimator when to change it, and of no other."""

import inspect
import re
from pathlib import Path

import pytest

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")


def told(estimator):
    """Return what the page says of each parameter."""
    section = PAGE[PAGE.index(f"### Settings of `{estimator}`") : PAGE.index(f"### Results of `{estimator}`")]
    items = re.split(r"\n(?=- \*\*)", section)[1:]
    return {re.match(r"- \*\*`(\w+)`\*\*", item)[1]: " ".join(item.split()) for item in items}


@pytest.mark.parametrize("estimator", [Mixture, GroupedMixture, TopicModel, BayesianHierarchy])
def test_each_parameter_says_when_to_change_it(estimator):
    parameters, page = list(inspect.signature(estimator).parameters), told(estimator.__name__)
    assert sorted(page) == sorted(parameters)
    assert [name for name in parameters if " Change it " not in page[name]] == []


def test_a_mixture_has_few_parameters():
    assert len(inspect.signature(Mixture).parameters) <= 18
