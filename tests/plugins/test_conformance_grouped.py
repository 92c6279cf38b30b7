"""Families under rows in groups: ours and the worked plugins keep the laws, and each seeded fault is seen."""

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from expfam import Categorical, DiagonalGaussian, list_plugins, load_family
from expfam.families.columns.family import Columns
from expfam.families.generic import GenericComponents
from expfam.families.trials.bernoulli import Bernoulli
from expfam.plugins.conformance import check_grouped
from expfam.plugins.laws.grouped import GROUPED_LAWS

DOCS = Path(__file__).resolve().parents[2] / "docs"
SLOW = {"von_mises": pytest.mark.slow}  # its evidence is an integral
OWN = [
    pytest.param(plugin.name, marks=SLOW.get(plugin.name, ()))
    for plugin in list_plugins("family")
    if plugin.distribution == "expfam" and plugin.name != "columns"
]


@pytest.mark.parametrize("name", OWN)
def test_our_own_families_keep_the_laws(name):
    report = check_grouped(load_family(name), n_moves=800)
    assert len(report.named("passed")) >= len(GROUPED_LAWS) - 1
    assert set(report.named("skipped")) <= {"weights_are_repeats_in_groups"}


def test_a_table_keeps_them():
    table = Columns([(DiagonalGaussian(missing=True), [0]), (Categorical(), [1])])
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 40)
    X = np.column_stack([rng.normal(3.0 * kind), rng.integers(0, 2 + kind)])
    X[rng.random(X.shape) < 0.1] = np.nan
    report = check_grouped(table, X, n_moves=800)
    assert len(report.named("passed")) >= len(GROUPED_LAWS) - 1


def test_the_guides_family_keeps_them(monkeypatch):
    guide = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", guide)  # where a file of the model looks for the class
    code = re.findall(r"```python\n(.*?)```", (DOCS / "plugins.md").read_text(encoding="utf-8"), flags=re.S)[0]
    exec(compile(code, "plugins.md", "exec"), vars(guide))
    report = check_grouped(guide.Coin(), n_moves=800)
    assert report.named("failed") == []
    assert "files_keep_the_groups" in report.named("passed")


# ---- faults ----------------------------------------------------------------------------------------------------------


class Doubled(Bernoulli):
    """Components of another prior than the evidence."""

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self.with_hyper(a=2.0 * np.asarray(self.a)), data, capacity)


class Late:
    """Components that tell other sums than they hold."""

    pending = property(lambda self: self.inner.pending, lambda self, value: setattr(self.inner, "pending", value))

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.__dict__["inner"], name)

    def export(self):
        n, S = self.inner.export()
        return n, 0.999 * S


class Shifted(Bernoulli):
    """Sums that drift from the labels."""

    def components(self, data, capacity, *, layout="features"):
        return Late(GenericComponents(self, data, capacity))


class Restless(Bernoulli):
    """Evidence with random numbers of its own."""

    rng = np.random.default_rng(0)

    def log_marginal(self, n, S):
        return super().log_marginal(n, S) + 0.5 * self.rng.normal(size=len(n)) * (n > 0)

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self, data, capacity)


class Batched(Bernoulli):
    """Statistics that depend on the other rows of a call."""

    def sufficient_statistics(self, X):
        phi = np.asarray(super().sufficient_statistics(X), dtype=np.float64)
        return phi * (1.0 - 0.01 * (len(phi) < 20))

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self, data, capacity)


class Forgetful(Bernoulli):
    """Something of the binding that no file keeps."""

    def bind(self, X, **options):
        bound = super().bind(X, **options)
        vars(bound)["_slope"] = 0.1
        return bound

    def log_marginal(self, n, S):
        return super().log_marginal(n, S) - vars(self).get("_slope", 0.0) * S.sum(axis=1)

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self, data, capacity)


class Squared(Bernoulli):
    """Hyper-parameters by the squares of the weights."""

    def resolve(self, X, weight=None):
        return super().resolve(X, weight=None if weight is None else weight**2)


FAULTS = [
    (Doubled, "clusters_follow_the_posterior"),
    (Doubled, "scores_are_sums_over_clusters"),
    (Shifted, "sums_follow_every_move"),
    (Restless, "seeds_decide_groups"),
    (Batched, "weights_of_new_groups_sum_to_one"),
    (Forgetful, "files_keep_the_groups"),
    (Squared, "weights_are_repeats_in_groups"),
]


@pytest.mark.parametrize(("family", "law"), FAULTS, ids=[f"{family.__name__}-{law}" for family, law in FAULTS])
def test_a_seeded_fault_is_seen_by_its_law(family, law):
    report = check_grouped(family(), raises=False, only=[law])
    assert report.named("failed") == [law], str(report)
    assert check_grouped(Bernoulli(), only=[law]).passed


def test_every_law_has_a_fault():
    assert {law for _, law in FAULTS} == set(GROUPED_LAWS)


def test_what_is_not_declared_is_skipped_and_failures_are_raised_together():
    with pytest.raises(AssertionError, match=r"breaks 2 of its laws:\n  clusters_follow.*\(p = .*\n  scores_are"):
        check_grouped(Doubled(), only=["clusters_follow_the_posterior", "scores_are_sums_over_clusters"])
    with pytest.raises(ValueError, match="only names no check: no_such_law"):
        check_grouped(Bernoulli(), only=["no_such_law"])
