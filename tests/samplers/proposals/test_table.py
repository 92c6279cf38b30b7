"""Tables of counts follow data that are added and removed, however many these are."""

import numpy as np
import pytest

from expfam import Dataset, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.samplers import TableProposal
from expfam.samplers.proposals.handle import ProposalHandle
from expfam.samplers.proposals.snapshot import Snapshot

K = 5


def view(data, model, labels):
    """Snapshot of the data whose label is not negative."""
    n, S = data.statistics(labels, K)
    log_weight = np.log(n + model.weights.offset)
    return Snapshot(data.family, n, np.arange(K), lambda: S, log_weight=log_weight, log_weight_new=-np.inf)


@pytest.mark.parametrize("n_rows", [40, 2500])  # many are sorted by their slot first
@pytest.mark.parametrize("n_threads", [1, 2])
def test_shifts_agree_with_a_refresh(n_rows, n_threads):
    rng = np.random.default_rng(0)
    data = Dataset(rng.poisson(0.4, size=(n_rows, 30)) + np.eye(n_rows, 30, dtype=int), Multinomial(0.1))
    model = MixtureModel(data.family, SymmetricDirichlet(K)).bind(data)
    moved, fresh = (ProposalHandle(TableProposal().bind(model, data, seed=0), "table") for _ in range(2))
    moved.owner.n_threads = n_threads
    labels, former = rng.integers(K, size=n_rows), np.zeros(0, dtype=np.intp)
    moved.refresh(view(data, model, labels))
    for block in np.array_split(rng.permutation(n_rows), 3):  # each is left out in turn, and comes back elsewhere
        added, removed = (former, labels[former]), (block, labels[block].copy())
        outside = labels.copy()
        outside[block] = -1
        moved.shift(view(data, model, outside), added, removed)
        fresh.refresh(view(data, model, labels))
        fresh.shift(view(data, model, outside), (former[:0], former[:0]), removed)
        for i in block[:20]:
            a, b = (handle.log_prob(i, -1, np.arange(K)) for handle in (moved, fresh))
            np.testing.assert_array_equal(a, b)
        labels[block] = rng.integers(K, size=len(block))
        former = block
