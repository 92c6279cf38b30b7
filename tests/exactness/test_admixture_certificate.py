"""Certificates of topic and grouped chains: each wrong sampler fails by the check that finds it."""

import numpy as np
import pytest
from certified_data import GROUPED, GROUPS, LINKS, ROWS, TOPICS, WORDS
from wrong_admixture_samplers import OtherGroups, OtherTopics, PlainSweep, StaleTopics, mass_of_one_more, tempered

from expfam.evaluation.certificate import check_model
from expfam.samplers import Cycle, GroupedGibbs, TopicGibbs

pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")


def certificate(kernel, checks, n_replicates, *, of_groups=False, **options):
    model, data = (GROUPED, (ROWS,)) if of_groups else (TOPICS, (WORDS,))
    given = {"groups": GROUPS} if of_groups else {}
    settings = {"n_rows": 30, "random_state": 1} | given | options
    return check_model(model, *data, sampler=kernel, checks=checks, n_replicates=n_replicates, **settings)


# name: (wrong sampler, check that must fail, replicates, whether it is of groups)
FAULTS = {
    "topics, alpha times 1.1": (OtherTopics(alpha=1.1), "rows", 200, False),
    "topics, eta times 0.9": (OtherTopics(eta=0.9), "rows", 300, False),
    "topics, eta times 1.6, by ranks": (OtherTopics(eta=1.6), "truth", 200, False),
    "topics, alpha times 1.6, given tokens": (OtherTopics(alpha=1.6), "data", 300, False),
    "topics, statistics out of date": (StaleTopics(), "truth", 40, False),
    "topics, counts of the last sweep": (PlainSweep(is_stale=True), "rows", 40, False),
    "topics, mass of one more": (PlainSweep(fault=mass_of_one_more), "rows", 40, False),
    "groups, mass of one more": (PlainSweep(fault=mass_of_one_more), "rows", 40, True),
    "groups, alpha times 1.1": (OtherGroups(alpha=1.1), "rows", 300, True),
    "groups, alpha times 1.6, by ranks": (OtherGroups(alpha=1.6), "truth", 200, True),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_sampler_fails(name):
    wrong, check, n_replicates, of_groups = FAULTS[name]
    found = certificate(wrong, [check], n_replicates, of_groups=of_groups)
    assert found.is_exact is False
    assert found.verdict.startswith(f"NOT EXACT: check {check!r}")


@pytest.mark.parametrize("of_groups", [False, True])
def test_the_right_twins_of_slow_sweeps_pass(of_groups):
    assert certificate(PlainSweep(), ["rows"], 40, of_groups=of_groups).passed


def test_statistics_out_of_date_are_named():
    found = certificate(StaleTopics(), ["truth"], 20)
    assert "statistics of the state: they are not those of its labels" in found.verdict


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (TopicGibbs(), {}),
        (TopicGibbs(learn_alpha=False), {}),
        (TopicGibbs(learn_eta=True), {}),
        (TopicGibbs(learn_eta=True, least_eta=0.4), {}),
        (Cycle(TopicGibbs(learn_alpha=False)), {}),
        (GroupedGibbs(learn_alpha=False), {"of_groups": True}),
        (GroupedGibbs(order="random"), {"of_groups": True}),
        (GroupedGibbs(order="random", learn_alpha=False), {"of_groups": True, "links": LINKS}),
        (GroupedGibbs(), {"of_groups": True, "links": LINKS}),
    ],
    ids=lambda value: repr(value) if not isinstance(value, dict) else "-".join(value) or "topics",
)
def test_right_samplers_pass(kernel, options):
    found = certificate(kernel, ["rows", "truth", "data"], 40, **options)
    assert found.passed, str(found)


class LinksForgotten(GroupedGibbs):
    """Moves linked rows with the probability of their first row alone."""

    def __init__(self, *, backward=False):
        super().__init__(learn_alpha=False, backward=backward)

    def reversed(self):
        return type(self)(backward=not self.backward)

    def move(self, state):
        rng = np.random.default_rng([state.seed, state.n_steps])
        for rows in state.data.known.groups if state.data.known else ():
            labels = state.labels.copy()
            labels[rows] = rng.integers(3)
            p = [state.model.log_joint(state.data, each) for each in (labels, state.labels)]
            if np.log(rng.random()) < (p[0] - p[1]) / len(rows):
                state.labels[:] = labels
                state.components.refresh(state.labels)
                state.adopt_labels()
        return super().move(state)


def test_a_wrong_law_of_linked_rows_fails():
    found = certificate(LinksForgotten(), ["rows"], 50, of_groups=True, links=LINKS)
    assert found.is_exact is False


# ---- long runs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "of_groups"),
    [(OtherTopics(alpha=1.03), False), (OtherTopics(eta=1.05), False), (OtherGroups(alpha=1.05), True)],
)
def test_errors_of_3_to_5_per_cent_are_found_by_enumeration(kernel, of_groups):
    assert certificate(kernel, ["rows"], 2000, of_groups=of_groups).is_exact is False
    assert certificate(type(kernel)(), ["rows"], 2000, of_groups=of_groups).passed


@pytest.mark.slow
@pytest.mark.parametrize("of_groups", [False, True])
def test_a_temperature_off_by_3_per_cent_is_found(of_groups):
    assert certificate(PlainSweep(fault=tempered), ["rows"], 3000, of_groups=of_groups).is_exact is False


@pytest.mark.slow
@pytest.mark.parametrize("of_groups", [False, True])
@pytest.mark.parametrize("name", ["rows", "truth", "data", "cold"])
def test_right_samplers_fail_at_most_once_in_fifty_runs(name, of_groups):
    kernel = GroupedGibbs(learn_alpha=False) if of_groups else TopicGibbs(learn_alpha=False)
    runs = (certificate(kernel, [name], 60, of_groups=of_groups, random_state=seed) for seed in range(50))
    assert sum(not found.passed for found in runs) <= 1
