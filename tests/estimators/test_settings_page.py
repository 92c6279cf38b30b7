"""A docstring of an estimator is one screen; a page tells all its settings and results."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
KINDS = [Mixture, GroupedMixture, TopicModel, BayesianHierarchy]
SCREEN = 60


def section(kind, title):
    text = PAGE[PAGE.index(f"### {title} of `{kind.__name__}`") :]
    return re.split(r"\n##", text, maxsplit=1)[0]


def told(text):
    """Names of settings or results that have an entry of their own."""
    heads = re.findall(r"^- (\*\*.*?)(?: \(|:|$)", text, flags=re.M)
    return {name for head in heads for name in re.findall(r"`(\w+)`", head)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_docstring_is_one_screen(kind):
    lines = kind.__doc__.rstrip().splitlines()
    assert len(lines) <= SCREEN
    for part in ("Parameters", "Attributes", "See Also", "Examples"):
        assert f"    {part}" in lines
    for other in KINDS:
        assert other is kind or other.__name__ in kind.__doc__


@pytest.mark.parametrize("kind", KINDS)
def test_docstring_and_page_tell_the_same_settings(kind):
    names = set(inspect.signature(kind).parameters)
    parameters = inspect.cleandoc(kind.__doc__).split("Attributes\n---")[0]
    heads = re.findall(r"^(\w[\w, ]*)(?: : .*)?$", parameters.split("Parameters\n----------\n")[1], flags=re.M)
    assert {name for head in heads for name in head.split(", ")} == names
    assert told(section(kind, "Settings")) == names


@pytest.mark.parametrize("kind", KINDS)
def test_every_result_of_a_fit_is_told(kind):
    X = np.repeat([[9, 8, 1, 0], [0, 1, 7, 9]], 20, axis=0)
    about = {"groups": np.arange(40) % 4} if kind is GroupedMixture else {}
    model = kind("multinomial", 2) if kind is not TopicModel else kind(2)
    model.fit(X, **about)
    results = {name for name in dir(model) if name.endswith("_") and name[0] != "_"}
    assert results - told(section(kind, "Results")) == set()
    for name in ("labels_", "clusters_", "params_", "weights_", "log_joint_", "converged_"):
        assert name in kind.__doc__
