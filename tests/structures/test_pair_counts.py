"""The hash table of counts against a dictionary: the same counts after any sequence of steps, also in a full table."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expfam.structures.hashing.pair_counts import PairCounts, table_size

KEYS = st.integers(0, 90) | st.integers(0, 2**62)
STEPS = st.lists(st.tuples(KEYS, st.integers(-2, 2)), max_size=300)


def compare(table, expected):
    assert len(table) == sum(count != 0 for count in expected.values())
    assert {key: table.count(key) for key in expected} == dict(expected)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_counts_are_those_of_a_dictionary(steps):
    table, expected = PairCounts(1000), Counter()
    for key, step in steps:
        expected[key] += step
        assert table.add(key, step) == expected[key]
    compare(table, expected)
    assert table.count(91) == expected[91]


@pytest.mark.parametrize("seed", range(4))
def test_deletion_in_a_full_table_leaves_the_other_counts(seed):
    rng = np.random.default_rng(seed)
    table, expected = PairCounts(1), Counter()
    for key in rng.choice(10_000, table.n_places - 1, replace=False).tolist():
        expected[key] = table.add(key, 1 + key % 5)
    compare(table, expected)
    with pytest.raises(IndexError, match="full"):
        table.add(10_001, 1)
    for key in rng.permutation(list(expected)).tolist():  # long runs of places without a gap, over the end of the table
        assert table.add(key, -expected[key]) == 0
        expected[key] = 0
        compare(table, expected)
    assert len(table) == 0


def test_the_table_is_cleared():
    table = PairCounts(3)
    table.add(5, 2)
    table.clear()
    assert (len(table), table.count(5)) == (0, 0)
    assert table.add(5, 1) == 1


def test_negative_keys_are_refused():
    for call in (lambda table: table.count(-1), lambda table: table.add(-1, 1)):
        with pytest.raises(IndexError, match="negative"):
            call(PairCounts(3))


@pytest.mark.parametrize("n_pairs", [0, 1, 47, 48, 49, 1000, 12345])
def test_a_quarter_of_the_places_stays_free(n_pairs):
    size = table_size(n_pairs)
    assert size == PairCounts(n_pairs).n_places
    assert size & (size - 1) == 0
    assert n_pairs <= 3 * size / 4
