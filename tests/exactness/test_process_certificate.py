"""The certificate of an unknown number of topics, or of clusters of groups: right samplers pass, wrong ones fail."""

import numpy as np
import pytest

from expfam import GroupedMixture, HierarchicalProcess, Multinomial, Poisson, TopicModel, check_model
from expfam.errors import CapabilityError
from expfam.samplers import GroupedGibbs, GroupedProcessGibbs, TopicProcessGibbs, TopicProcessMerges
from expfam.samplers.nonparametric import groups as of_groups
from expfam.samplers.nonparametric import topics as of_topics
from expfam.samplers.nonparametric.weights import draw_shared_weights

GROUPS = np.arange(48) % 8
ROWS = np.random.default_rng(0).poisson(3.0, (48, 2))
DOCUMENTS = np.random.default_rng(1).poisson(1.0, (12, 5))
QUICK = {"checks": ["truth"], "random_state": 0, "n_threads": 1}


def forgetful(*args, learn, n_known):
    """The weights of a table more for each cluster."""
    found = draw_shared_weights(*args, learn=learn, n_known=n_known)
    return found._replace(beta=found.beta / (1.0 + found.rest), rest=2.0 * found.rest / (1.0 + found.rest))


CASES = {
    "rows": (HierarchicalProcess(Poisson(shape=1.0, rate=0.3), 1.0, 1.5), ROWS, GroupedProcessGibbs, of_groups),
    "words": (HierarchicalProcess(Multinomial(0.4), 1.0, 1.5), DOCUMENTS, TopicProcessGibbs, of_topics),
}


@pytest.mark.parametrize("name", CASES)
def test_right_samplers_pass_and_wrong_ones_fail(name, monkeypatch):
    model, X, kernel, module = CASES[name]
    given = {"groups": GROUPS} if name == "rows" else {}
    right = check_model(model, X, sampler=kernel(learn_alpha=False), n_replicates=60, n_rows=12, **given, **QUICK)
    assert right.passed, right
    monkeypatch.setattr(module, "draw_shared_weights", forgetful)
    wrong = check_model(model, X, sampler=kernel(learn_alpha=False), n_replicates=60, n_rows=12, **given, **QUICK)
    assert not wrong.passed
    assert min(row.p for row in wrong.table if row.p is not None) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_estimators_with_learned_concentrations_pass(name):
    _, X, _, _ = CASES[name]
    estimator = TopicModel(None, random_state=0) if name == "words" else GroupedMixture("poisson", None, random_state=0)
    given = {"groups": GROUPS} if name == "rows" else {}
    found = check_model(estimator, X, n_replicates=200, n_rows=16, **given, **QUICK)
    assert found.passed, found
    names = {row.quantity for row in found.table}
    assert {"concentration alpha", "concentration gamma", "weight of the rest"} <= names
    assert ("pseudo-count eta" in names) == (name == "words")


def test_other_checks_say_why_they_are_not_made():
    model, X, kernel, _ = CASES["words"]
    found = check_model(model, X, sampler=kernel(learn_alpha=False), n_replicates=20, n_rows=8, random_state=0)
    skipped = {row.check: row.note for row in found.table if row.p is None}
    assert set(skipped) == {"rows", "data", "cold"}
    assert all("number of clusters is unknown" in note for note in skipped.values())
    merging = check_model(model, X, sampler=TopicProcessMerges(), n_replicates=20, n_rows=8, **QUICK)
    assert "is no sampler" in merging.table[0].note


def test_what_it_does_not_take():
    _, X, _, _ = CASES["words"]
    with pytest.raises(CapabilityError, match=r"without seeds: write check_model\(TopicModel\(n_components=None\), X"):
        check_model(TopicModel(None, seeds={0: [1]}), X)
    with pytest.raises(CapabilityError, match=r"write check_model\(model, X, sampler=GroupedProcessGibbs\(\)\)"):
        check_model(CASES["rows"][0], ROWS, groups=GROUPS, sampler=GroupedGibbs())
    with pytest.raises(CapabilityError, match=r"write check_model\(model, X, sampler=TopicProcessGibbs\(\)\)"):
        check_model(TopicModel(None, sampler="variational"), X)
    with pytest.raises(CapabilityError, match="another posterior"):
        check_model(GroupedMixture("poisson", None, labels="clusters"), ROWS, groups=GROUPS)
