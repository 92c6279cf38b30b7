"""Agreement of chains on a partition: pooled R-hat, pairs, and the record of steps."""

from types import SimpleNamespace

import numpy as np
import pytest

from expfam import PartitionPosterior
from expfam.errors import DataError
from expfam.protocols import Info
from expfam.samplers.chain.agreement import (
    PartitionRecorder,
    choose_pairs,
    pooled_rhat,
    record_of_draws,
    record_of_steps,
    rows_of_chains,
)


def slow_pooled_rhat(together):
    """Compute the pooled R-hat pair by pair, as the formula is written."""
    C, T, P = together.shape
    n, between, within = T // 2, 0.0, 0.0
    for p in range(P):
        halves = [part for c in range(C) for part in (together[c, :n, p], together[c, T - n :, p])]
        between += np.var([np.mean(half) for half in halves], ddof=1)
        within += np.mean([np.var(half, ddof=1) for half in halves])
    return np.sqrt((n - 1) / n + between / within)


@pytest.mark.parametrize("n_draws", [4, 9, 30])
def test_the_pooled_value_is_its_formula(n_draws):
    together = np.random.default_rng(n_draws).random((3, n_draws, 7)) < np.linspace(0.1, 0.9, 7)
    assert pooled_rhat(together) == pytest.approx(slow_pooled_rhat(together.astype(float)), rel=1e-12)


def independent_draws(rng, *, chains, draws, rows=40, doubt=0.3):
    """Draw partitions in two halves, in which every second row is with the other half at random."""
    z = np.repeat([0, 1], rows // 2)
    flips = rng.random((chains * draws, rows)) < np.where(np.arange(rows) % 2, doubt, 0.0)
    return np.abs(z - flips), np.repeat(np.arange(chains), draws)


def test_it_is_near_one_for_independent_draws():
    rng, values = np.random.default_rng(0), []
    for _ in range(400):
        draws, chain = independent_draws(rng, chains=4, draws=50)
        values.append(record_of_draws(draws, chain, None).diagnose().rhat_pairs)
    assert min(values) > 0.99
    assert max(values) < 1.02
    assert np.mean(values) == pytest.approx(1.0, abs=0.002)


def test_it_finds_two_modes_with_equal_numbers_and_log_joint():
    rng = np.random.default_rng(1)
    draws, chain = independent_draws(rng, chains=2, draws=60, doubt=0.1)
    draws[chain == 1] = np.roll(draws[chain == 1], 10, axis=1)  # the same sizes of other rows
    log_joint = rng.normal(size=len(draws))
    found = PartitionPosterior(draws, chain=chain, log_joint=log_joint).diagnostics
    assert found.rhat_pairs > 1.3
    assert np.isnan(found.scalars["n_clusters"].rhat)
    assert found.scalars["log_joint"].rhat < 1.05
    assert found.scalars["vi_first"].rhat > 1.3
    assert not found.have_agreed
    assert found.widest[1] - found.widest[0] > 0.5
    assert found.deviation_max > 0.4


def test_what_never_changes_has_agreed():
    draws = np.tile([0, 0, 1, 1], (20, 1))
    found = PartitionPosterior(draws, chain=np.repeat([0, 1], 10)).diagnostics
    assert np.isnan(found.rhat_pairs)
    assert found.have_agreed
    draws[10:] = [0, 1, 0, 1]
    found = PartitionPosterior(draws, chain=np.repeat([0, 1], 10)).diagnostics
    assert found.rhat_pairs == np.inf
    assert not found.have_agreed


def test_names_of_labels_do_not_matter():
    rng = np.random.default_rng(2)
    draws, chain = independent_draws(rng, chains=2, draws=30)
    renamed = np.where(rng.random((len(draws), 1)) < 0.5, draws, 5 - draws)
    one, other = (str(PartitionPosterior(z, chain=chain).diagnostics) for z in (draws, renamed))
    assert one == other


def test_steps_and_draws_give_the_same_numbers():
    draws, chain = independent_draws(np.random.default_rng(3), chains=2, draws=20)
    log_joint = np.arange(40) % 7.0
    expected = record_of_draws(draws, chain, log_joint)
    recorders = [PartitionRecorder(expected.pairs) for _ in range(2)]
    for z, c, value in zip(draws, chain, log_joint):
        info = Info(1, value, len(np.unique(z)), 1, 1, 0.0, {})
        assert recorders[c](info, SimpleNamespace(labels=z)) is False
    found = record_of_steps(recorders)
    assert str(found.diagnose()) == str(expected.diagnose())
    np.testing.assert_array_equal(found.together, expected.together)


def test_chains_are_cut_to_the_shortest():
    np.testing.assert_array_equal(rows_of_chains([0, 0, 3, 0, 3]), [[0, 1], [2, 4]])
    posterior = PartitionPosterior(np.tile([0, 1, 1], (9, 1)), chain=[0] * 5 + [1] * 4)
    assert posterior.diagnostics.n_draws == 4
    with pytest.raises(DataError, match="chain must have shape"):
        rows_of_chains([])


def test_few_draws_say_nothing():
    found = PartitionPosterior([[0, 1, 1], [0, 0, 1]], chain=[0, 1]).diagnostics
    assert np.isnan([found.rhat_pairs, found.scalars["n_clusters"].rhat]).all()
    with pytest.raises(ValueError, match="at least 4 draws"):
        pooled_rhat(np.ones((2, 3, 5)))


def test_half_of_the_pairs_are_within_clusters():
    labels = np.arange(1000) % 50
    pairs = choose_pairs(labels, seed=1)
    assert pairs.shape == (1000, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    is_within = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    assert is_within[1::2].all()
    assert is_within[::2].mean() < 0.1
    np.testing.assert_array_equal(pairs, choose_pairs(labels, seed=1))
    assert choose_pairs([0], seed=0).shape == (0, 2)
    assert (np.diff(choose_pairs([0, 1], seed=0), axis=1) != 0).all()  # clusters of one row have no pair within
