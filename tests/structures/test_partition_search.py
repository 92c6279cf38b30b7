"""The search for the partition of least expected loss, against enumeration, its own starts, and itself."""

import numpy as np
import pytest
from posterior_slow import expected_loss, least_loss

from expfam.structures.partitions.draw_table import DrawItems, DrawTable, narrow_labels
from expfam.structures.partitions.search import count_values, loss_value, search_partition

LOSSES = [("vi", 0.5), ("vi", 1.0), ("vi", 2.0), ("binder", 0.5), ("binder", 1.0), ("binder", 2.0), ("omari", 1.0)]


def noisy(n_rows, n_draws, n_clusters, seed, share=0.3):
    """Draws in which some rows move to a random cluster."""
    rng = np.random.default_rng(seed)
    own = rng.integers(n_clusters, size=n_rows)
    p = np.where(rng.random(n_rows) < share, rng.random(n_rows), 0.0)
    moved = rng.random((n_draws, n_rows)) < p
    return np.where(moved, rng.integers(n_clusters + 1, size=(n_draws, n_rows)), own)


def canonical(labels):
    return narrow_labels(np.asarray(labels)[None])[0].tolist()


@pytest.mark.parametrize(("loss", "split_cost"), LOSSES)
def test_it_finds_the_optimum_of_small_data(loss, split_cost):
    rng = np.random.default_rng(3)
    for case in range(24):
        n_rows, n_draws = int(rng.integers(1, 7)), int(rng.choice([1, 5, 20]))
        draws = rng.integers(0, rng.integers(1, n_rows + 1), (n_draws, n_rows))
        labels, value = search_partition(draws, loss=loss, split_cost=split_cost, seed=case)
        least, _ = least_loss(draws, loss, split_cost)
        assert value == pytest.approx(least, abs=1e-12)
        assert expected_loss(labels, draws, loss, split_cost) == pytest.approx(value, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "split_cost"), LOSSES)
@pytest.mark.parametrize("n_rows", [7, 8])
def test_it_finds_the_optimum_of_eight_rows(loss, split_cost, n_rows):
    rng = np.random.default_rng(n_rows)
    for case in range(15):
        draws = rng.integers(0, rng.integers(2, n_rows + 1), (int(rng.choice([5, 20])), n_rows))
        assert search_partition(draws, loss=loss, split_cost=split_cost, seed=case)[1] == pytest.approx(
            least_loss(draws, loss, split_cost)[0], abs=1e-12
        )


@pytest.mark.parametrize(("loss", "split_cost"), LOSSES)
@pytest.mark.parametrize("most", [1, 2])
def test_with_a_limit_it_finds_the_optimum_within_it(loss, split_cost, most):
    rng = np.random.default_rng(most)
    for case in range(10):
        draws = rng.integers(0, 4, (7, 6))
        labels, value = search_partition(draws, loss=loss, split_cost=split_cost, max_clusters=most, seed=case)
        assert labels.max() < most
        assert value == pytest.approx(least_loss(draws, loss, split_cost, max_clusters=most)[0], abs=1e-12)


@pytest.mark.parametrize("loss", ["vi", "binder", "omari"])
def test_it_is_never_worse_than_the_best_draw(loss):
    rng = np.random.default_rng(0)
    for seed in range(34):
        n_rows = int(rng.integers(50, 600))
        draws = noisy(n_rows, 20, int(rng.integers(2, 30)), seed)
        _, value = search_partition(draws, loss=loss, n_starts=1, seed=seed)
        assert value <= min(losses_of(draws, loss)) + 1e-12


def losses_of(draws, loss):
    """Expected loss of each draw from dense tables of counts."""
    n_rows = len(draws[0])
    f = count_values(loss, n_rows)
    sizes = [f[np.bincount(z)].sum() for z in draws]
    both = np.zeros((len(draws), len(draws)))
    for a, z in enumerate(draws):
        for b, y in enumerate(draws):
            table = np.zeros((z.max() + 1, y.max() + 1), dtype=np.int64)
            np.add.at(table, (z, y), 1)
            both[a, b] = f[table].sum()
    return loss_value(loss, np.array(sizes), both.mean(axis=1), np.mean(sizes), n_rows)


@pytest.mark.parametrize("loss", ["vi", "binder", "omari"])
def test_more_starts_are_at_least_as_good(loss):
    draws = noisy(400, 30, 12, 5, share=0.9)
    values = [search_partition(draws, loss=loss, n_starts=n)[1] for n in (1, 4, 12)]
    assert values == sorted(values, reverse=True)


def test_draws_are_compared_with_some_others_where_all_pairs_would_take_too_long():
    draws = noisy(20_000, 160, 5, 1, share=0.5)
    items = DrawItems(narrow_labels(draws))
    assert items.n_items * 160**2 > 2e8
    labels, value = search_partition(draws, n_starts=1)
    f = count_values("vi", 20_000)
    Q = f[items.block_sizes()].sum() / 160
    for m in range(0, 160, 20):
        C = f[np.bincount(draws[m])].sum()
        assert value <= loss_value("vi", C, items.overlaps(items.labels[:, m], f).mean(), Q, 20_000)
    assert labels.max() == 4


# ---- what the result does not depend on ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["vi", "binder", "omari"])
def test_threads_names_and_order_of_the_draws_change_nothing(loss):
    draws = noisy(300, 25, 8, 2, share=0.6)
    labels, value = search_partition(draws, loss=loss, n_starts=8)
    rng = np.random.default_rng(0)
    names = np.array([rng.permutation(10) for _ in draws])
    renamed = np.take_along_axis(names, draws, axis=1)[rng.permutation(len(draws))]
    for others, n_threads in ((draws, 2), (draws, 8), (renamed, None)):
        again = search_partition(others, loss=loss, n_starts=8, n_threads=n_threads)
        np.testing.assert_array_equal(again[0], labels)
        assert again[1] == value


def test_labels_are_numbered_by_first_appearance():
    labels, _ = search_partition(noisy(200, 10, 9, 4))
    assert labels.dtype == np.int32
    assert canonical(labels) == labels.tolist()


def test_one_cluster_is_compared_as_well():
    draws = [[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 0], [0, 1, 1, 0]]  # from [0 1 1 2] no merge helps
    assert search_partition(draws, seed=4)[0].tolist() == [0, 0, 0, 0]


def test_equal_draws_are_the_answer():
    z = np.array([4, 4, 1, 0, 1, 7])
    for loss in ("vi", "binder", "omari"):
        labels, value = search_partition([z, z, z], loss=loss)
        assert labels.tolist() == [0, 0, 1, 2, 1, 3]
        assert value == pytest.approx(0.0, abs=1e-12)


def test_an_unknown_loss_is_refused():
    with pytest.raises(ValueError, match=r"loss must be one of .* got 'rand'"):
        search_partition([[0, 1]], loss="rand")


# ---- items and counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "split_cost"), [case for case in LOSSES if case[0] != "omari"])
def test_an_optimum_splits_no_item(loss, split_cost):
    rng = np.random.default_rng(8)
    n_shared = 0
    for _ in range(30):
        draws = rng.integers(0, 3, (3, 6))
        items = DrawItems(narrow_labels(draws)).item_of_row
        _, best = least_loss(draws, loss, split_cost)
        n_shared += len(items) - len(set(items.tolist()))
        # several optima may tie: the one of whole items is among them
        whole = best[np.unique(items, return_index=True)[1]][items]
        assert expected_loss(whole, draws, loss, split_cost) == pytest.approx(
            expected_loss(best, draws, loss, split_cost), abs=1e-12
        )
    assert n_shared > 10


@pytest.mark.parametrize("n_clusters", [3, 300, 70_000])
def test_items_are_the_distinct_columns(n_clusters):
    rng = np.random.default_rng(0)
    n_rows = 100 if n_clusters < 1000 else 80_000
    draws = rng.integers(0, n_clusters, (2, n_rows))
    draws[:, 50:100] = draws[:, :50]
    narrow = narrow_labels(draws)
    items = DrawItems(narrow)
    np.testing.assert_array_equal(items.item_of_row[50:100], items.item_of_row[:50])
    np.testing.assert_array_equal(items.labels[items.item_of_row].T, narrow)
    assert items.weight.sum() == n_rows
    assert len(np.unique(items.labels, axis=0)) == items.n_items
    assert items.block_sizes().sum() == 2 * n_rows


def test_labels_take_one_two_or_four_bytes():
    for n, dtype in ((256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.uint32)):
        narrow = narrow_labels(np.arange(n)[None] * 7)
        assert narrow.dtype == dtype
        np.testing.assert_array_equal(narrow[0], np.arange(n))
    assert search_partition(np.arange(65_600)[None].repeat(2, axis=0), n_starts=1)[0][-1] == 65_599


def test_rows_of_one_hash_that_differ_are_told_apart(monkeypatch):
    draws = narrow_labels([[0, 1, 0, 1], [0, 0, 1, 1]])
    monkeypatch.setattr("expfam.structures.partitions.draw_table._ODD", np.uint64(0))  # every row has the hash 0
    assert DrawItems(draws).item_of_row.tolist() == [0, 1, 2, 3]


def test_a_table_has_the_counts_of_its_partition():
    draws = narrow_labels(noisy(120, 9, 5, 3))
    labels = np.random.default_rng(1).integers(0, 4, 120)
    labels[:4] = np.arange(4)
    items = DrawItems(draws, labels=labels)
    clusters = np.empty(items.n_items, dtype=np.int32)
    clusters[items.item_of_row] = labels
    starts, cluster, count = DrawTable(items, clusters).counts()
    for m, z in enumerate(draws):
        for b in range(z.max() + 1):
            block = items.first[m] + b
            found = dict(zip(cluster[starts[block] : starts[block + 1]], count[starts[block] : starts[block + 1]]))
            assert found == {k: n for k, n in enumerate(np.bincount(labels[z == b], minlength=4)) if n}
