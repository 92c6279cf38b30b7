"""Numbers of labels, labels fitted into components, and counts of pairs, against plain loops."""

import numpy as np
import pytest

from expfam.errors import CapabilityError
from expfam.model.first_appearance import renumbered
from expfam.model.partitions import (
    by_first_appearance,
    compact_labels,
    contingency,
    division_of,
    fitted_labels,
    slots_by_first_appearance,
)


class OwnKernel:
    """A kernel for the message of `fitted_labels`."""


def by_loop(labels):
    names = {}
    return [names.setdefault(label, len(names)) for label in labels]


def drawn(seed, low=0, high=9, size=40):
    return np.random.default_rng(seed).integers(low, high, size)


LABELS = {
    "few": drawn(0),
    "gaps": drawn(1, high=6) * 7,
    "one cluster": np.full(5, 3),
    "one datum": np.array([4]),
    "all alone, backwards": np.arange(12)[::-1],
    "int32": drawn(2).astype(np.int32),
    "int8": drawn(3, high=120).astype(np.int8),
    "uint64": drawn(4).astype(np.uint64),
}
OTHERS = {
    "negative": drawn(5, low=-4, high=4),
    "below the size and above": np.array([-1, 1162, -1, 0]),
    "first label that needs no table": np.array([1023 + 4 * 3, 0, 5]),
    "first label that is too large": np.array([1024 + 4 * 3, 0, 5]),
    "huge": np.array([2**62, 1, 2**62, 0]),
    "numbers that are no integers": np.array([0.5, 0.25, 0.5]),
    "bool": np.array([True, False, True]),
    "text": np.array(["b", "a", "b", "c"]),
}


def test_a_label_beyond_the_table_is_refused():
    for labels in (np.array([0, 3]), np.array([0, -1], dtype=np.int32)):
        with pytest.raises(IndexError, match=rf"label {labels[1]} of datum 1 is not one of 0 to 2"):
            renumbered(labels, 3)


@pytest.mark.parametrize("labels", [*LABELS.values(), *OTHERS.values()], ids=[*LABELS, *OTHERS])
def test_clusters_are_numbered_by_first_appearance(labels):
    before = labels.copy()
    n_clusters, found = by_first_appearance(labels)
    assert found.dtype == np.int32
    assert found.tolist() == by_loop(labels.tolist())
    assert n_clusters == len(set(labels.tolist()))
    assert (labels == before).all()
    assert by_first_appearance(labels.tolist())[1].tolist() == found.tolist()
    assert not np.shares_memory(found, labels)


def test_a_table_is_used_only_for_labels_near_the_number_of_data(monkeypatch):
    def refused(*args, **kwargs):
        raise AssertionError("labels were sorted")

    monkeypatch.setattr(np, "unique", refused)
    assert by_first_appearance(OTHERS["first label that needs no table"])[0] == 3
    for name in ("first label that is too large", "negative", "bool"):
        with pytest.raises(AssertionError, match="sorted"):
            by_first_appearance(OTHERS[name])


@pytest.mark.parametrize("empty", [[], np.empty(0, dtype=np.int64)])
def test_no_labels_are_no_clusters(empty):
    n_clusters, found = by_first_appearance(empty)
    assert (n_clusters, found.shape, found.dtype) == (0, (0,), np.int32)


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_slots_stand_in_the_order_of_their_first_datum(labels):
    assert slots_by_first_appearance(labels).tolist() == list(dict.fromkeys(labels.tolist()))


@pytest.mark.parametrize("name", [name for name in LABELS if name != "uint64"])
def test_compact_labels_keep_their_order(name):
    labels = LABELS[name]
    used = sorted(set(labels.tolist()))
    found = compact_labels(labels)
    assert found.dtype == np.int32
    assert found.tolist() == [used.index(label) for label in labels.tolist()]


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint16])
def test_compact_labels_are_places_among_the_distinct_ones(kind):
    for labels in ([5], [3, 0, 3, 9], [], [7, 7, 1, 2, 2, 40]):
        found = compact_labels(np.array(labels, dtype=kind))
        assert found.dtype == np.int32
        assert found.tolist() == np.unique(labels, return_inverse=True)[1].tolist()


@pytest.mark.parametrize("name", [*OTHERS])
def test_divisions_are_equal_where_rows_are_together(name):
    labels = np.asarray(OTHERS[name])
    own = by_first_appearance(labels)[1]
    assert division_of(labels) == own.tobytes()
    assert division_of(own) == division_of(own.astype(np.int64)) == division_of(own.max() - own) == own.tobytes()
    assert division_of(np.append(own, own.max())) != division_of(np.append(own, own.max() + 1))


def test_compact_labels_of_negative_ones_are_refused():
    with pytest.raises(ValueError, match="negative"):
        compact_labels([0, -1, 2])


def test_labels_below_the_number_of_components_stay_as_they_are():
    labels = np.array([5, 0, 5, 2])
    assert fitted_labels(labels, 6, OwnKernel()) is labels


@pytest.mark.parametrize("n_components", [3, 5])
def test_larger_labels_are_renumbered_in_their_order(n_components):
    assert fitted_labels(np.array([5, 0, 5, 2]), n_components, OwnKernel()).tolist() == [2, 0, 2, 1]


def test_more_clusters_than_components_are_refused():
    with pytest.raises(CapabilityError, match="3 starting clusters, but OwnKernel has 2 components"):
        fitted_labels(np.array([5, 0, 5, 2]), 2, OwnKernel())


@pytest.mark.parametrize("seed", range(4))
def test_counts_of_pairs_are_those_of_a_loop(seed):
    a, b = drawn(seed, high=5) + (seed == 3), drawn(seed + 10, high=4).astype(np.int32)  # once no datum has label 0
    pairs = sorted(set(zip(a.tolist(), b.tolist())))
    found = contingency(a, b)
    assert list(zip(found.a.tolist(), found.b.tolist())) == pairs
    assert found.n_ab.dtype == np.float64
    assert found.n_ab.tolist() == [sum(1 for x, y in zip(a, b) if (x, y) == pair) for pair in pairs]
    assert found.n_a.tolist() == [int((a == k).sum()) for k in range(a.max() + 1)]
    assert found.n_b.tolist() == [int((b == k).sum()) for k in range(b.max() + 1)]


def test_pairs_of_one_cluster_and_of_single_data():
    one, alone = np.zeros(6, dtype=np.int64), np.arange(6)
    assert contingency(one, one).n_ab.tolist() == [6.0]
    assert contingency(one, alone).n_ab.tolist() == [1.0] * 6
    assert contingency(alone, one).n_b.tolist() == [6]


def test_negative_labels_have_no_pairs():
    with pytest.raises(ValueError, match="negative"):
        contingency(np.array([0, -1]), np.array([0, 1]))
