"""Tables of counts follow data that are added and removed, however many these are."""

import numpy as np
import pytest
from scipy import sparse

from expfam import Dataset, MixtureModel, Multinomial, Poisson, SymmetricDirichlet
from expfam.samplers import TableProposal
from expfam.samplers.proposals.handle import ProposalHandle
from expfam.samplers.proposals.snapshot import Snapshot


def view(data, model, labels, K):
    """Snapshot of the data whose label is not negative."""
    n, S = data.statistics(labels, K)
    log_weight = np.log(n + model.weights.offset)
    return Snapshot(data.family, n, np.arange(K), lambda: S, log_weight=log_weight, log_weight_new=-np.inf)


def counts(n_rows, *, heavy=False):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.4, size=(n_rows, 30)) + np.eye(n_rows, 30, dtype=int)
    if heavy:
        X[:, 0] += 70_000  # more than 16 bits of a count
    return X


FAMILIES = {
    "multinomial": Multinomial(0.1),
    "uneven": Multinomial(np.linspace(0.05, 2.0, 30)),  # bytes are not tabled by count
    "poisson": Poisson(),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(
    ("n_rows", "K", "heavy", "kind"),
    [
        (40, 5, False, "dense"),  # few for each column: one by one
        (2500, 5, False, "float32"),  # many: sums of copied rows
        (2500, 5, True, "int64"),
        (6000, 160, False, "float64"),  # and several parts of the columns
    ],
)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_shifts_agree_with_a_refresh(n_rows, K, heavy, kind, n_threads, dtype, family):
    rng = np.random.default_rng(0)
    X = counts(n_rows, heavy=heavy)
    data = Dataset(X if kind == "dense" else sparse.csr_array(X, dtype=kind), FAMILIES[family])
    model = MixtureModel(data.family, SymmetricDirichlet(K)).bind(data)
    moved, fresh = (ProposalHandle(TableProposal(dtype=dtype).bind(model, data, seed=0), "table") for _ in range(2))
    moved.owner.n_threads = n_threads
    labels, former = rng.integers(K, size=n_rows), np.zeros(0, dtype=np.intp)
    moved.refresh(view(data, model, labels, K))
    for block in np.array_split(rng.permutation(n_rows), 3):  # each is left out in turn, and comes back elsewhere
        added, removed = (former, labels[former]), (block, labels[block].copy())
        outside = labels.copy()
        outside[block] = -1
        moved.shift(view(data, model, outside, K), added, removed)
        if family == "poisson":  # without rows of lengths, which only a shift makes
            fresh.refresh(view(data, model, outside, K))
        else:
            fresh.refresh(view(data, model, labels, K))
            fresh.shift(view(data, model, outside, K), (former[:0], former[:0]), removed)
        for i in block[:20]:
            a, b = (handle.log_prob(i, -1, np.arange(K)) for handle in (moved, fresh))
            np.testing.assert_array_equal(a, b)
        labels[block] = rng.integers(K, size=len(block))
        former = block


def test_a_shift_by_all_data_is_a_refresh():
    """Copies are made of some data at a time; blocks of other sizes follow, and rows that were not copied."""
    n_rows, K = 70_000, 5  # more than are copied at a time
    rng = np.random.default_rng(1)
    data = Dataset(rng.poisson(0.5, size=(n_rows, 3)).astype(np.int32), Poisson())
    model = MixtureModel(data.family, SymmetricDirichlet(K)).bind(data)
    moved, fresh = (ProposalHandle(TableProposal().bind(model, data, seed=0), "table") for _ in range(2))
    labels = rng.integers(K, size=n_rows)
    moved.refresh(view(data, model, np.full(n_rows, -1), K))
    added = np.arange(n_rows), labels
    for size in (9000, 20, 30, 4000, n_rows):  # summed, one by one, one by one, summed, and nothing stays
        block = np.sort(rng.choice(n_rows, size, replace=False))
        outside = labels.copy()
        outside[block] = -1
        moved.shift(view(data, model, outside, K), added, (block, labels[block]))
        fresh.refresh(view(data, model, outside, K))
        for i in (*block[:5], *block[-5:], *np.setdiff1d(np.arange(100), block)[:3]):
            a, b = (handle.log_prob(i, -1, np.arange(K)) for handle in (moved, fresh))
            np.testing.assert_array_equal(a, b)
        added = block, labels[block]
