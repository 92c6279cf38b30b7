"""What ArviZ is installed, and the groups of what `to_arviz` returns: a DataTree, or an InferenceData below 1.0."""

import warnings
from importlib.util import find_spec

import pytest


def skip_without_arviz():
    """Skip a test where neither ArviZ nor arviz-base is installed."""
    if not any(find_spec(name) for name in ("arviz", "arviz_base")):
        pytest.skip("ArviZ is not installed")


def whole_arviz():
    """ArviZ itself, of any version; the test is skipped where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its first import
        return pytest.importorskip("arviz")


def groups_of(tree):
    """Names of the groups."""
    return set(tree.groups()) if callable(tree.groups) else set(tree.children)
