"""Chains over parts of tiny data visit all partitions as often as the enumerated posterior says; wrong ones do not."""

import numpy as np
import pytest
from enumeration import exact_posterior
from shards_data import cut
from tiny import FAMILIES
from visits import LIMIT, visited, worst_t

from expfam import MixtureModel, SymmetricDirichlet
from expfam.errors import CapabilityError
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    Cycle,
    FastEx,
    ShardedData,
    SparseVariational,
    SplitMerge,
    StochasticEM,
    UncollapsedGibbs,
    UncollapsedKernel,
    UncollapsedMetropolis,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")
WEIGHTS = SymmetricDirichlet(3, alpha=0.6)
N_STEPS = 1500


def visits(kernel, family, X, bounds, n_steps=N_STEPS):
    family = family.bind(X)
    model = MixtureModel(family, WEIGHTS)
    state = kernel.init(model, ShardedData(cut(X, bounds), family), seed=1, start="one")
    return visited(kernel, state, n_steps)


@pytest.mark.parametrize("name", ["multinomial", "poisson", "gaussian", "gaussian_diag", "categorical", "bernoulli"])
def test_visits_of_parts(name):
    family, X = FAMILIES[name]
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    two = visits(UncollapsedGibbs(), family, X, [2])
    assert worst_t(two, partitions, pi) < LIMIT
    assert two[:200] == visits(UncollapsedGibbs(), family, X, [1, 4], n_steps=200)
    frequency = np.bincount([partitions.index(p) for p in two], minlength=len(partitions)) / len(two)
    assert 0.5 * np.abs(frequency - pi).sum() < 0.15  # total variation; independent draws have about .07


class StaleCollapsed(UncollapsedKernel):
    """Collapsed sweeps in each part with the counts that the other parts had before the sweep: not exact."""

    def draw_labels(self, state):
        family, labels, rng = (
            state.model.family,
            state.labels.copy(),
            np.random.default_rng([state.seed, state.n_steps]),
        )
        n, S, phi = state.n.copy(), np.array(state.S), state.data.phi(0, state.data.n_rows)
        for i in range(len(labels)):
            n[labels[i]] -= 1
            S[labels[i]] -= phi[i]
            score = family.log_marginal(n + 1, S + phi[i]) - family.log_marginal(n, S) + np.log(n + 0.6)
            labels[i] = np.argmax(score + rng.gumbel(size=score.shape))
            n[labels[i]] += 1
            S[labels[i]] += phi[i]
        return labels, {}


def test_counts_that_are_out_of_date_are_found_out():
    family, X = FAMILIES["gaussian_diag"]
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    assert worst_t(visits(StaleCollapsed(), family, X, [2]), partitions, pi) > 2 * LIMIT
    assert worst_t(visits(StaleCollapsed(), family, X, []), partitions, pi) < LIMIT  # one part: a collapsed sweep


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (CollapsedGibbs(), "out of date"),
        (FastEx(), "out of date"),
        (SplitMerge(), "out of date"),
        (UncollapsedMetropolis(), "groups of a part"),
        (Canopy(), "groups of the rows"),
        (Canopy(variant=1), "groups of the rows"),
        (StochasticEM("prototype"), "groups of a part"),
        (SparseVariational(), "sums of responsibilities"),
        (Cycle(UncollapsedGibbs(), CollapsedGibbs()), "CollapsedGibbs .* out of date"),
    ],
)
def test_kernels_that_need_all_rows_are_refused_with_their_reason(kernel, why):
    family, X = FAMILIES["gaussian_diag"]
    family = family.bind(X)
    with pytest.raises(CapabilityError, match=rf"(?s)(?=.*{why}).*cannot run on data in parts.*write UncollapsedGibbs"):
        kernel.init(MixtureModel(family, WEIGHTS), ShardedData(cut(X, [2]), family), seed=0)
