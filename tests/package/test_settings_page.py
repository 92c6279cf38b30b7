"""The page of settings tells of every parameter of an estimator and a sampler when to change it, and of no other."""

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

import expfam.samplers
from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.samplers import HierarchicalClustering
from expfam.samplers.named import _BY_NAME

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")


def told(estimator):
    """Return what the page says of each parameter."""
    return items_under(f"Settings of `{estimator}`")


def items_under(title):
    """Return what each item of a section says, by its name."""
    section = re.split(r"\n##", PAGE[PAGE.index(f"\n### {title}\n") + 1 :], maxsplit=1)[0]
    items = re.split(r"\n(?=- \*\*)", section)[1:]
    return {re.match(r"- \*\*`(\w+)`\*\*", item)[1]: " ".join(item.split()) for item in items}


@pytest.mark.parametrize("estimator", [Mixture, GroupedMixture, TopicModel, BayesianHierarchy])
def test_each_parameter_says_when_to_change_it(estimator):
    parameters, page = list(inspect.signature(estimator).parameters), told(estimator.__name__)
    assert sorted(page) == sorted(parameters)
    assert [name for name in parameters if " Change it " not in page[name]] == []


def test_a_mixture_has_few_parameters():
    assert len(inspect.signature(Mixture).parameters) <= 17


NAMED = {sampler for by_name in _BY_NAME.values() for sampler in by_name.values()} | {HierarchicalClustering}
SHARED = "Settings that several samplers share"


def settings_told(sampler):
    """Return what the page says of a sampler's own parameters, and of shared ones that it has."""
    parameters = inspect.signature(sampler).parameters
    own = told(sampler.__name__) if f"### Settings of `{sampler.__name__}`" in PAGE else {}
    return {name: text for name, text in items_under(SHARED).items() if name in parameters} | own


@pytest.mark.parametrize("sampler", sorted(NAMED, key=lambda each: each.__name__))
def test_each_setting_of_a_named_sampler_says_when_to_change_it(sampler):
    page = settings_told(sampler)
    assert sorted(page) == sorted(inspect.signature(sampler).parameters)
    assert [name for name, text in page.items() if " Change it " not in text] == []


def test_shared_settings_are_those_of_two_samplers_and_more():
    count = Counter(name for sampler in NAMED for name in inspect.signature(sampler).parameters)
    assert [name for name in items_under(SHARED) if count[name] < 2] == []


def options(cls):
    """Return the parameters that have a default."""
    return [name for name, each in inspect.signature(cls).parameters.items() if each.default is not each.empty]


MADE_BY_KERNELS = ("State", "Stream", "Tree", "Snapshot", "Result")  # by kernels and not by users


def parts():
    """Return the public parts of samplers that have settings."""
    found = {name: getattr(expfam.samplers, name) for name in expfam.samplers.__all__}
    classes = {name: each for name, each in found.items() if isinstance(each, type) and each not in NAMED}
    ours = {name: each for name, each in classes.items() if not name.endswith(MADE_BY_KERNELS)}
    return {name: each for name, each in ours.items() if options(each)}


@pytest.mark.parametrize("name", sorted(parts()))
def test_each_setting_of_a_part_says_when_to_change_it(name):
    cls = parts()[name]
    shared = items_under(SHARED) | items_under("Settings that several parts share")
    own = told(name) if f"### Settings of `{name}`" in PAGE else {}
    assert set(own) <= set(inspect.signature(cls).parameters)
    page = {option: own.get(option, shared.get(option, "")) for option in options(cls)}
    assert [option for option, text in page.items() if " Change it " not in text] == []


def test_settings_shared_by_parts_are_those_of_two_and_more():
    count = Counter(option for cls in parts().values() for option in inspect.signature(cls).parameters)
    assert [name for name in items_under("Settings that several parts share") if count[name] < 2] == []
