"""Tables of buckets against a dictionary of lists, and drawn neighbours against the law that is stated for them."""

import pickle
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from expfam.structures.ground.rng import generator
from expfam.structures.hashing.lsh import LshTables

SMALLEST_P = 1e-4


def random_keys(n_items, n_tables, n_values, seed):
    return np.random.default_rng(seed).integers(0, n_values, (n_items, n_tables)).astype(np.uint64)


def law(keys, i, n_tries):
    """P(j | i) for all j and P(none), by following every sequence of events: plain recursion over the tries."""
    n_items, n_tables = keys.shape
    row, none = np.zeros(n_items), 1.0
    for _ in range(n_tries):
        still = 0.0
        for l in range(n_tables):
            others = [j for j in range(n_items) if j != i and keys[j, l] == keys[i, l]]
            for j in others:
                row[j] += none / n_tables / len(others)
            if not others:
                still += none / n_tables
        none = still
    return row, none


def p_value(counts, probabilities):
    """Of a chi-square test of draws against a law; a draw that the law excludes gives 0."""
    counts, probabilities = np.asarray(counts), np.asarray(probabilities)
    if counts[probabilities == 0].any():
        return 0.0
    kept = probabilities > 0
    return stats.chisquare(counts[kept], probabilities[kept] / probabilities[kept].sum() * counts.sum()).pvalue


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_tries", [1, 2, 5, None])
@pytest.mark.parametrize(("n_tables", "n_values"), [(1, 3), (3, 4), (4, 9), (5, 2)])
def test_probability_is_that_of_every_sequence_of_events(n_tables, n_values, n_tries):
    keys = random_keys(9, n_tables, n_values, seed=n_tables)
    tables = LshTables(keys, n_tries=n_tries)
    items = np.arange(9)
    for i in items:
        row, none = law(keys, i, tables.n_tries)
        np.testing.assert_allclose(tables.lss_probability(i, items), row, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(tables.found_probability([i]), [1.0 - none], rtol=1e-12, atol=1e-12)
        total = tables.lss_probability(i, items, given_found=True).sum()
        assert total == pytest.approx(1.0 if none < 1 else 0.0, abs=1e-12)


@pytest.mark.parametrize("n_tries", [1, 3, None])
def test_draws_follow_the_law(n_tries):
    keys = random_keys(12, 4, 6, seed=5)
    tables = LshTables(keys, n_tries=n_tries)
    rng = generator(3, "tables", unit=tables.n_tries)
    values = []
    for i in range(12):
        drawn = tables.draw_neighbours(np.full(20_000, i), rng)
        counts = np.bincount(drawn + 1, minlength=13)
        row = tables.lss_probability(i, np.arange(12))
        values.append(p_value(counts, np.concatenate([[1.0 - row.sum()], row]) * (np.r_[1.0 - row.sum(), row] > 1e-14)))
    assert min(values) > SMALLEST_P
    assert max(values) > 0.05  # a test whose p-values are all small would hide behind the bound above


def test_draws_follow_the_law_after_removals_and_insertions():
    keys = random_keys(14, 3, 4, seed=8)
    tables = LshTables(keys)
    for item in (3, 9, 0, 13):
        tables.remove(item)
    tables.insert(9, keys[9])
    tables.insert(20, keys[3])
    present = [i for i in range(21) if i in tables]
    rng = generator(4, "tables")
    for i in (1, 9, 20):
        drawn = tables.draw_neighbours(np.full(20_000, i), rng)
        row = tables.lss_probability(i, present)
        none = tables.found_probability([i])[0]
        assert none == pytest.approx(row.sum(), rel=1e-12)
        counts = np.array([np.count_nonzero(drawn == j) for j in present])
        assert counts.sum() + np.count_nonzero(drawn == -1) == drawn.size
        assert p_value(counts, row) > SMALLEST_P


def uniform_over_union(keys, i):
    union = (keys == keys[i]).any(axis=1)
    union[i] = False
    return union / max(union.sum(), 1)


def itself_counted(keys, i):
    row = sum((keys[:, l] == keys[i, l]) / np.count_nonzero(keys[:, l] == keys[i, l]) for l in range(keys.shape[1]))
    row[i] = 0.0
    return row / row.sum()


def published(keys, i):
    """1 - (1 - p)^L over the bucket's size, p estimated by the share of tables in which the pair meets."""
    same = keys == keys[i]
    row = (1 - (1 - same.mean(axis=1)) ** keys.shape[1]) * (same / same.sum(axis=0)).mean(axis=1)
    row[i] = 0.0
    return row / row.sum()


@pytest.mark.parametrize("wrong", [uniform_over_union, itself_counted, published])
def test_wrong_laws_are_refused_by_the_same_test(wrong):
    keys = random_keys(12, 4, 3, seed=6)
    tables = LshTables(keys)
    rng = generator(6, "tables")
    values = []
    for i in range(12):
        drawn = tables.draw_neighbours(np.full(20_000, i), rng)
        counts = np.bincount(drawn[drawn >= 0], minlength=12)
        assert p_value(counts, tables.lss_probability(i, np.arange(12))) > SMALLEST_P
        values.append(p_value(counts, wrong(keys, i)))
    assert np.sum(np.array(values) < SMALLEST_P) >= 8


def test_a_draw_is_a_function_of_the_words_of_its_stream():
    keys = random_keys(30, 3, 5, seed=1)
    tables = LshTables(keys)
    words = [int(word) for word in generator(9, "move", unit=2, step=7).bit_generator.random_raw(400)]
    drawn = tables.draw_neighbours(np.arange(30), generator(9, "move", unit=2, step=7))
    at = 0
    for i in range(30):
        expected = -1
        for _ in range(tables.n_tries):
            word = words[at]
            at += 1
            # the uneven rest of 2^32 is below 1e-8 of the words here
            members = tables.bucket(i, table=((word >> 32) * 3) >> 32).tolist()
            members.remove(i)
            if members:
                expected = members[((word & (2**32 - 1)) * len(members)) >> 32]
                break
        assert drawn[i] == expected


def test_alone_means_no_neighbour():
    tables = LshTables([[1, 2], [3, 4], [3, 5]])
    assert tables.draw_neighbours([0, 0, 0], np.random.default_rng(0)).tolist() == [-1, -1, -1]
    assert tables.found_probability([0, 1, 2])[0] == 0.0
    assert tables.lss_probability(0, [0, 1, 2]).tolist() == [0.0, 0.0, 0.0]
    assert tables.lss_probability(1, 2, given_found=True) == 1.0
    assert tables.lss_probability(1, 1) == 0.0


# ---- the tables ------------------------------------------------------------------------------------------------------


class Model:
    """The same operations on dictionaries of sets."""

    def __init__(self, keys):
        self.keys = {i: tuple(row) for i, row in enumerate(keys.tolist())}

    def buckets(self, table):
        found = defaultdict(set)
        for item, keys in self.keys.items():
            found[keys[table]].add(item)
        return dict(found)


def agree(tables, model, n_tables):
    tables.check()
    assert len(tables) == len(model.keys)
    for l in range(n_tables):
        members, sizes, keys = tables.buckets(table=l)
        runs = np.split(members, np.cumsum(sizes)[:-1]) if sizes.size else []
        assert {int(key): set(run.tolist()) for key, run in zip(keys, runs)} == model.buckets(l)
        assert all(len(set(run.tolist())) == run.size for run in runs)


@settings(max_examples=60, deadline=None)
@given(
    n_items=st.integers(0, 40),
    n_tables=st.integers(1, 4),
    n_values=st.sampled_from([1, 2, 7, 1000]),
    seed=st.integers(0, 2**32 - 1),
    n_steps=st.integers(0, 300),
    insertion=st.sampled_from([0.3, 0.5, 0.8]),
)
def test_random_operations_against_dictionaries_of_sets(n_items, n_tables, n_values, seed, n_steps, insertion):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, n_values, (n_items, n_tables)).astype(np.uint64) * np.uint64(2**61 + 1)
    tables, model = LshTables(keys), Model(keys)
    agree(tables, model, n_tables)
    for step in range(n_steps):
        item = int(rng.integers(0, 80))
        if item in model.keys and rng.random() > insertion:
            tables.remove(item)
            del model.keys[item]
        elif item not in model.keys:
            row = rng.integers(0, n_values, n_tables).astype(np.uint64)
            tables.insert(item, row)
            model.keys[item] = tuple(row.tolist())
        if step % 50 == 0:
            agree(tables, model, n_tables)
    agree(tables, model, n_tables)
    for item in model.keys:
        expected = {j for l in range(n_tables) for j in model.buckets(l)[model.keys[item][l]]} - {item}
        assert tables.neighbours(item).tolist() == sorted(expected)


def test_memory_stays_bounded_while_keys_come_and_go():
    tables = LshTables(random_keys(200, 2, 50, seed=0))
    rng = np.random.default_rng(1)
    for turn in range(20_000):
        item = turn % 200
        tables.remove(item)
        tables.insert(item, rng.integers(0, 2**63, 2))
    tables.check()
    # 800 + 64 members with half again in reserve, under 300 buckets in arrays of twice that, an index of 2048
    assert tables.nbytes < 2 * (200 * 8 + 1300 * 4 + 700 * 24 + 2048 * 4 + 100)


def test_removing_and_inserting_restores_the_buckets():
    keys = random_keys(50, 4, 10, seed=3)
    tables, model = LshTables(keys), Model(keys)
    before = tables.lss_probability(np.arange(50)[:, None], np.arange(50))
    order = np.random.default_rng(0).permutation(50)
    for item in order:
        tables.remove(item)
    assert tables.n_items == 0
    for item in order[::-1]:
        tables.insert(item, keys[item])
    agree(tables, model, 4)
    np.testing.assert_array_equal(tables.lss_probability(np.arange(50)[:, None], np.arange(50)), before)


@pytest.mark.parametrize(
    "copy", [lambda t: LshTables.from_arrays(t.to_arrays()), lambda t: pickle.loads(pickle.dumps(t))]
)
def test_copies_draw_the_same(copy):
    keys = random_keys(60, 3, 12, seed=2)
    tables = LshTables(keys, n_tries=4)
    for item in (5, 6, 50):
        tables.remove(item)
    tables.insert(70, keys[5])
    other = copy(tables)
    other.check()
    items = [i for i in range(71) if i in tables]
    assert [i for i in range(71) if i in other] == items
    np.testing.assert_array_equal(
        tables.draw_neighbours(items * 20, generator(1, "tables")),
        other.draw_neighbours(items * 20, generator(1, "tables")),
    )
    tables.remove(70)
    other.remove(70)
    np.testing.assert_array_equal(
        tables.draw_neighbours(items[:-1], generator(2, "tables")),
        other.draw_neighbours(items[:-1], generator(2, "tables")),
    )


def test_threads_change_nothing():
    keys = random_keys(3000, 6, 400, seed=4)
    one, two = LshTables(keys, n_threads=1).to_arrays(), LshTables(keys, n_threads=2).to_arrays()
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name])


def test_looking_things_up():
    tables = LshTables([[7, 1], [7, 2], [8, 2**64 - 1]])
    assert tables.find(7, table=0).tolist() == [0, 1]
    assert tables.find(9, table=0).tolist() == []
    assert tables.find(2**64 - 1, table=1).tolist() == [2]
    assert tables.bucket(1, table=0).tolist() == [0, 1]
    found = tables.statistics()
    assert found["n_buckets"].tolist() == [2, 3]
    assert found["n_alone"].tolist() == [1, 3]
    assert found["largest"].tolist() == [2, 1]
    np.testing.assert_allclose(found["mean_others"], [2 / 3, 0.0])
    assert repr(tables) == "LshTables(n_items=3, n_tables=2, n_tries=6)"


def test_no_items_at_all():
    tables = LshTables(np.empty((0, 2), dtype=np.uint64))
    tables.check()
    assert len(tables) == 0
    assert tables.find(3, table=1).size == 0
    assert tables.draw_neighbours(np.empty(0, dtype=np.int64), np.random.default_rng(0)).size == 0
    copy = pickle.loads(pickle.dumps(tables))
    copy.insert(4, [1, 2])
    copy.insert(2, [1, 3])
    assert copy.neighbours(4).tolist() == [2]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (np.zeros(3, dtype=np.uint64), "shape"),
        (np.zeros((3, 0), dtype=np.uint64), "at least one table"),
        (np.zeros((3, 2)), "float64"),
        (np.array([[1, 2], [3, -4]]), "row 1, table 1 holds -4"),
    ],
)
def test_bad_keys_are_named(keys, message):
    with pytest.raises(ValueError, match=message):
        LshTables(keys)


def test_bad_arguments_are_named():
    tables = LshTables([[1, 2], [3, 4]])
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="n_tries must be at least 1; got 0"):
        LshTables([[1, 2]], n_tries=0)
    with pytest.raises(ValueError, match="item 1 is in the tables already"):
        tables.insert(1, [1, 2])
    with pytest.raises(ValueError, match="needs 2 keys"):
        tables.insert(2, [1])
    with pytest.raises(ValueError, match="got -1"):
        tables.insert(-1, [1, 2])
    for call in (lambda: tables.remove(2), lambda: tables.bucket(5, table=0), lambda: tables.lss_probability(0, 2)):
        with pytest.raises(ValueError, match="is not in the tables"):
            call()
    for items in ([2], [-1], [2**40]):
        with pytest.raises(ValueError, match="is not in the tables"):
            tables.draw_neighbours(items, rng)
    with pytest.raises(ValueError, match="vector of integers"):
        tables.draw_neighbours([0.5], rng)
    with pytest.raises(ValueError, match=r"table must lie in \[0, 2\); got 2"):
        tables.buckets(table=2)
    tables.check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("members", [0, 1, 2, 0, 1, 1]),
        ("members", [0, 1, 9, 0, 1, 2]),
        ("keys", [5, 5, 5, 6]),
        ("sizes", [2, 1, 4, -1]),
        ("sizes", [2, 1, 1, 1]),
        ("n_buckets", [1, 2]),
    ],
)
def test_contradictory_arrays_are_refused(name, value):
    arrays = LshTables([[5, 5], [5, 6], [6, 6]]).to_arrays()
    LshTables.from_arrays(arrays).check()
    arrays[name] = np.array(value, dtype=arrays[name].dtype)
    with pytest.raises(ValueError):
        LshTables.from_arrays(arrays)


def test_keys_that_differ_in_high_bits_only_do_not_crowd_the_index():
    keys = (np.arange(20_000, dtype=np.uint64) << np.uint64(40))[:, None]
    tables = LshTables(keys)  # linear probing over equal low bits would take 2e8 steps here
    assert tables.statistics()["n_buckets"].tolist() == [20_000]


# ---- the nearest of several ------------------------------------------------------------------------------------------


def test_one_candidate_is_any_other_of_a_random_bucket_that_has_others():
    keys = np.array([[1, 1], [1, 2], [1, 3], [2, 1], [9, 9]], dtype=np.uint64)
    tables = LshTables(keys)
    M = 30_000
    drawn = tables.draw_nearest(
        np.zeros(M, dtype=int), keys, np.ones(M, dtype=int), np.random.default_rng(0), by_bits=False
    )
    expected = np.array([0, 0.25, 0.25, 0.5, 0])
    np.testing.assert_allclose(np.bincount(drawn, minlength=5) / M, expected, atol=4 * 0.5 / np.sqrt(M))
    assert tables.draw_nearest([4], keys, [8], np.random.default_rng(0), by_bits=False).tolist() == [-1]
    assert tables.draw_nearest([], keys, [], np.random.default_rng(0), by_bits=True).size == 0


@pytest.mark.parametrize("by_bits", [True, False])
def test_many_candidates_give_the_nearest_of_all_buckets(by_bits):
    rng = np.random.default_rng(1)
    keys = rng.integers(4, size=(200, 3)).astype(np.uint64)
    codes = rng.integers(1 << 63, size=(200, 2), dtype=np.uint64) if by_bits else rng.integers(3, size=(200, 6))
    codes = codes.astype(np.uint64)
    tables = LshTables(keys)
    drawn = tables.draw_nearest(np.arange(200), codes, np.full(200, 3 * 200), rng, by_bits=by_bits)

    def distance(i, j):
        return sum(int(a ^ b).bit_count() if by_bits else a != b for a, b in zip(codes[i].tolist(), codes[j].tolist()))

    for i, j in enumerate(drawn):
        others = tables.neighbours(i)
        assert j in others
        assert distance(i, j) == min(distance(i, other) for other in others)


def test_more_candidates_give_nearer_ones_and_every_place_of_a_run_is_as_probable():
    rng = np.random.default_rng(2)
    keys = np.zeros((40, 1), dtype=np.uint64)
    codes = (np.uint64(1) << np.arange(40, dtype=np.uint64)[:, None]) - np.uint64(1)  # distance |i - j|
    tables = LshTables(keys)
    who = np.full(20_000, 7)
    means = []
    for n in (1, 4, 16):
        drawn = tables.draw_nearest(who, codes, np.full(who.size, n), rng, by_bits=True)
        assert 7 not in drawn
        means.append(np.abs(drawn - 7).mean())
        if n == 1:
            counts = np.delete(np.bincount(drawn, minlength=40), 7)
            assert np.abs(counts / who.size - 1 / 39).max() < 5 * np.sqrt(1 / 39 / who.size)
    assert means[0] > means[1] > means[2]


def test_bad_codes_and_numbers_of_candidates_are_named():
    keys = np.zeros((4, 2), dtype=np.uint64)
    tables, rng = LshTables(keys), np.random.default_rng(0)
    for bad in ([0], [-2], [1, 1]):
        with pytest.raises(ValueError, match="n_candidates must be 1 positive number;"):
            tables.draw_nearest([0], keys, bad, rng, by_bits=True)
    with pytest.raises(ValueError, match="a row for each of 4"):
        tables.draw_nearest([0], keys[:3], [1], rng, by_bits=True)
    with pytest.raises(ValueError, match="item 9 is not"):
        tables.draw_nearest([9], keys, [1], rng, by_bits=True)
