"""Member lists against plain sets under random operations; uniform members; damaged and bad input."""

import pickle

import numpy as np
import pytest
from scipy import stats

from expfam.errors import DataError
from expfam.structures import MemberLists
from expfam.structures.ground.rng import stream_words


def same(lists, sets):
    lists.check()
    assert lists.n_clusters == sum(map(bool, sets.values()))
    for k in range(lists.n_slots):
        members = lists.members(k).tolist()
        assert len(members) == len(set(members)) == lists.size(k)
        assert set(members) == sets.get(k, set())


def same_empty_slots(one, other):
    """Both take the same slot for a member that leaves its cluster; it returns."""
    k = next((k for k in one.clusters() if one.size(k) > 1), None)
    if k is not None:
        i = one.members(k)[0]
        assert one.split([i]) == other.split([i])
        one.move(i, k)
        other.move(i, k)


@pytest.mark.parametrize("seed", range(8))
def test_random_operations_against_sets(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    labels = rng.integers(-1, 6, n)
    lists = MemberLists(labels, n_slots=7)
    sets = {k: set(np.flatnonzero(labels == k).tolist()) for k in range(7)}
    same(lists, sets)
    for _ in range(400):
        action = rng.integers(5)
        occupied = sorted(lists.clusters().tolist())
        if action <= 1:
            i, k = int(rng.integers(n)), int(rng.integers(-1, lists.n_slots))
            lists.move(i, k)
            for members in sets.values():
                members.discard(i)
            if k >= 0:
                sets.setdefault(k, set()).add(i)
            assert lists.label(i) == k
        elif action == 2 and len(occupied) > 1:
            a, b = rng.choice(occupied, 2, replace=False).tolist()
            larger = a if len(sets[a]) >= len(sets[b]) else b
            assert lists.merge(a, b) == larger
            smaller = a + b - larger
            sets[larger] |= sets[smaller]
            sets[smaller] = set()
        elif action == 3 and occupied:
            k = int(rng.choice(occupied))
            if len(sets[k]) > 1:
                leaving = rng.permutation(sorted(sets[k]))[: int(rng.integers(1, len(sets[k])))]
                new = lists.split(leaving)
                assert not sets.get(new)
                sets[new] = set(leaving.tolist())
                sets[k] -= sets[new]
        elif action == 4:
            copy = pickle.loads(pickle.dumps(lists))
            for k in range(lists.n_slots):
                np.testing.assert_array_equal(copy.members(k), lists.members(k))
            np.testing.assert_array_equal(copy.clusters(), lists.clusters())
            same_empty_slots(copy, lists)
            lists = copy
        same(lists, sets)
    lists.rebuild(labels)
    np.testing.assert_array_equal(lists.labels(), labels)
    lists.check()


def test_a_random_member_is_uniform_whatever_came_before():
    lists = MemberLists(np.zeros(12, dtype=int), n_slots=3)
    lists.split([3, 4, 5])
    lists.move(3, 0)
    lists.move(0, -1)
    members = lists.members(0)
    rng = np.random.default_rng(0)
    counts = np.bincount([lists.random_member(0, rng) for _ in range(20_000)], minlength=12)
    assert stats.chisquare(counts[members]).pvalue > 1e-4
    assert counts.sum() == counts[members].sum()
    assert (
        stats.chisquare(
            counts[members], np.r_[0.8, 1.2, np.ones(len(members) - 2)] * counts.sum() / len(members)
        ).pvalue
        < 1e-10
    )


def test_members_drawn_from_a_stream():
    lists = MemberLists([0, 1, 0, 0, 1, 0, 0, 0, 0])
    words = stream_words(3, 1, 5, 2, 20_000)
    drawn = lists._drawn_members(0, 20_000, 3, unit=5, step=2)
    members = lists.members(0)
    assert drawn.tolist() == [members[int(w) * 7 >> 64] for w in words]
    assert stats.chisquare(np.bincount(drawn, minlength=9)[members]).pvalue > 1e-4
    with pytest.raises(ValueError, match="slot 2 is empty"):
        MemberLists([0], n_slots=3)._drawn_members(2, 1, 0)


def test_empty_slots_and_growth():
    lists = MemberLists([0, 0, 0])
    assert lists.n_slots == 1
    assert lists.split([1]) >= 1
    assert lists.n_slots >= 2
    lists.move(1, 0)
    n_slots = lists.n_slots
    assert lists.split([1]) < n_slots == lists.n_slots  # the slot that became empty is taken again
    with pytest.raises(ValueError, match="only ever added"):
        lists.grow(1)
    empty = MemberLists([])
    assert empty.n_clusters == 0
    assert empty.labels().shape == (0,)
    empty.check()


def test_damage_is_found():
    lists = MemberLists([0, 1, 1, 2])
    arrays = lists.to_arrays()
    wrong = [
        {"items": arrays["items"][[0, 0, 2, 3]]},
        {"items": arrays["items"] + 1},
        {"offsets": arrays["offsets"][:3]},
        {"slots": np.array([0, 1, 1], dtype=np.int32)},
    ]
    for change in wrong:
        with pytest.raises(DataError, match="no member lists"):
            MemberLists.from_arrays({**arrays, **change})


def test_bad_arguments():
    lists = MemberLists([0, 0, 1, -1], n_slots=3)
    for bad in ([0.5, 1.0], [[0]]):
        with pytest.raises(DataError, match="vector of integers"):
            MemberLists(bad)
    with pytest.raises(DataError, match="label -2 of item 1"):
        MemberLists([0, -2])
    with pytest.raises(ValueError, match="at least 4"):
        MemberLists([3], n_slots=3)
    for k in (-2, 3):
        with pytest.raises(IndexError, match=f"slot {k} does not exist"):
            lists.move(0, k)
    with pytest.raises(IndexError, match="item 4"):
        lists.move(4, 0)
    with pytest.raises(ValueError, match="slot 2 is empty"):
        lists.random_member(2, np.random.default_rng(0))
    with pytest.raises(ValueError, match="itself"):
        lists.merge(1, 1)
    for leaving in ([0, 2], [0, 0], [3]):
        with pytest.raises(ValueError, match="members of one cluster"):
            lists.split(leaving)
    with pytest.raises(ValueError, match="all 2 members"):
        lists.split([0, 1])
    with pytest.raises(ValueError, match="at least one item"):
        lists.split([])
    with pytest.raises(DataError, match="4 numbers below 3"):
        lists.rebuild([0, 0, 3, 0])
    lists.check()
    np.testing.assert_array_equal(lists.labels(), [0, 0, 1, -1])
