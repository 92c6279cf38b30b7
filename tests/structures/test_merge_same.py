"""The merge queue with all pairs as partners makes the merges of the merge table: same pairs, same scores to the bit."""

import numpy as np
import pytest

from expfam import DirichletProcess, MixtureModel
from expfam.structures import MergeQueue, MergeTable, WardPartners, WardScores
from tests.structures.test_merge_table import BetaBinary, Forbidding, Hashed, Means, items


def partners_of(clusters):
    def partners(k, ids):
        slots = np.flatnonzero((ids >= 0) & (ids < ids[k]))
        return slots, clusters.score(k, slots) if slots.size else np.empty(0), -np.inf

    return partners


@pytest.mark.parametrize("kind", [Hashed, Forbidding, BetaBinary, Means])
@pytest.mark.parametrize("n_patterns", [1, 2, 5, None])
def test_same_merges_of_scores(kind, n_patterns):
    for seed in range(60):
        n, n_kept = 2 + seed % 45, 1 + seed % 5
        table, queue = items(kind, n, seed, n_patterns), items(kind, n, seed, n_patterns)
        old = MergeTable(n, table.score, n_kept=n_kept).run(table.absorb)
        new = MergeQueue(n, partners_of(queue), n_kept=n_kept)
        children, scores = new.run(queue.absorb)
        np.testing.assert_array_equal(children, old[0])
        np.testing.assert_array_equal(scores, old[1])
        new.check(queue.score)


@pytest.mark.parametrize("n_patterns", [1, 2, 7, None])
@pytest.mark.parametrize("is_rounded", [False, True])
def test_same_merges_of_ward(n_patterns, is_rounded):
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 90))
        X = rng.normal(size=(n_patterns or n, 1 + seed % 4))[rng.integers(n_patterns or n, size=n)]
        X = X.round() if is_rounded else X
        size = rng.integers(1, 4, size=n) if seed % 2 else None
        old = MergeTable(n, WardScores(X, size=size)).run()
        partners = WardPartners(X, size=size)
        new = MergeQueue(n, partners, n_threads=1 + seed % 2).run(partners.absorb)
        np.testing.assert_array_equal(new[0], old[0])
        np.testing.assert_array_equal(new[1], old[1])
