"""Alias tables: the law of the cells counted word by word, draws that follow it, and weights that are none."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from expfam.errors import DataError
from expfam.structures import AliasArena, AliasTable
from expfam.structures.ground.rng import generator, stream_words

WORD = 1 << 64


def ceil_div(a, b):
    return -(-a // b)


def exact_law(cells):
    """Law of a table by whole numbers: the words of each cell, below and above its threshold."""
    size = len(cells)
    law = [0] * size
    for k, (threshold, other) in enumerate(cells.tolist()):
        start, end = ceil_div(k * WORD, size), ceil_div((k + 1) * WORD, size)
        middle = ceil_div(k * WORD + (threshold << 32), size)
        law[k] += middle - start
        law[other] += end - middle
    return [Fraction(words, WORD) for words in law]


def slow_draw(cells, word):
    """One draw with integers of any length."""
    size = len(cells)
    cell, place = divmod(word * size, WORD)
    return cell if place >> 32 < int(cells[cell, 0]) else int(cells[cell, 1])


def weights_of_all_kinds():
    rng = np.random.default_rng(0)
    return {
        "one": [3.0],
        "two": [1.0, 2.0],
        "zeros": [0.0, 0.0, 5.0, 0.0, 1.0, 0.0],
        "only the last": [0.0] * 99 + [1e-300],
        "denormals": [5e-324] * 3,
        "overflowing sum": [1.7e308] * 3,
        "all equal": [0.1] * 1000,
        "all equal, power of two": [0.7] * 1024,
        "one huge": [1e300, *([1.0] * 50)],
        "one ordinary": [*([1e-300] * 50), 1.0],
        "dirichlet": rng.dirichlet(np.full(5000, 0.01)),
        "gamma": rng.gamma(0.3, size=777),
        "integers": rng.integers(0, 4, 1000),
        "half zero, half equal": [0.0, 1.0] * 501,
        "geometric": 0.5 ** np.arange(60),
    }


KINDS = weights_of_all_kinds()


def law_error(size):
    """Each of the cells of an outcome, at most `size` in all, is rounded to 2**-33 of its width; p itself to 1e-15."""
    return 2.0**-33 / size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cells_have_the_wanted_law(kind, dtype):
    w = np.asarray(KINDS[kind], dtype=np.float64)
    if dtype == np.float32 and (w.max() > 3e38 or w.max() < 1e-30):
        w = w / w.max()
    w = w.astype(dtype)
    table = AliasTable(w)
    scaled = [Fraction(float(x)) for x in w]
    total = sum(scaled)
    wanted = np.array([float(x / total) for x in scaled])
    law = table.probability()
    shared = np.bincount(table.cells[:, 1], minlength=len(w)) + 1
    # every light outcome of a chain passes its rounding on: the remainder carries K roundings of a double
    bound = shared * (2 * law_error(len(w)) + 2.0**-50)
    assert (np.abs(law - wanted) <= bound).all()
    assert (law[w == 0] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_probability_is_counted_exactly(kind):
    table = AliasTable(KINDS[kind])
    exact = exact_law(table.cells)
    assert sum(exact) == 1
    np.testing.assert_array_equal(table.probability(), [float(p) for p in exact])


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 1e-300, 1e-12, 0.1, 0.25, 1.0, 3.0, 1e9]), min_size=1, max_size=40))
def test_any_small_table_is_counted_exactly_and_close(w):
    if not any(w):
        with pytest.raises(DataError, match="all weights are zero"):
            AliasTable(w)
        return
    table = AliasTable(w)
    exact = exact_law(table.cells)
    assert [float(p) for p in exact] == table.probability().tolist()
    total = sum(Fraction(x) for x in w)
    for x, p in zip(w, exact):
        assert abs(p - Fraction(x) / total) <= 2.0**-31
        assert x > 0 or p == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_draws_of_words_follow_the_cells(size):
    rng = np.random.default_rng(size)
    table = AliasTable(rng.gamma(0.5, size=size))
    words = np.r_[rng.integers(0, WORD, 3000, dtype=np.uint64), np.array([0, WORD - 1], dtype=np.uint64)]
    edges = [ceil_div(k * WORD, size) for k in range(1, size)]
    edges += [ceil_div(k * WORD + (int(t) << 32), size) for k, t in enumerate(table.cells[:, 0])]
    around = [e + d for e in edges for d in (-1, 0) if 0 <= e + d < WORD]
    words = np.r_[words, np.array(around, dtype=np.uint64)]
    assert table.draw_words(words).tolist() == [slow_draw(table.cells, int(w)) for w in words]


def pvalue(draws, p):
    counts = np.bincount(draws, minlength=len(p))
    kept = p * len(draws) >= 5
    if (~kept).any():
        counts = np.r_[counts[kept], counts[~kept].sum()]
        p = np.r_[p[kept], p[~kept].sum()]
        if p[-1] == 0:
            assert counts[-1] == 0
            counts, p = counts[:-1], p[:-1]
    return stats.chisquare(counts, len(draws) * p / p.sum()).pvalue


@pytest.mark.parametrize("kind", ["two", "zeros", "gamma", "dirichlet", "geometric"])
def test_law_of_draws(kind):
    w = np.asarray(KINDS[kind], dtype=float)
    draws = AliasTable(w).draw(np.random.default_rng(1), 1_000_000)
    assert pvalue(draws, w / w.sum()) > 1e-4
    assert (w[draws] > 0).all()


def test_the_chi_square_sees_a_wrong_law():
    w = np.asarray(KINDS["gamma"])
    p = w / w.sum()
    cells = AliasTable(w).cells.copy()
    cells[:, 1] = np.roll(cells[:, 1], 1)  # aliases of the neighbours
    wrong = AliasTable.from_arrays({"cells": cells})
    assert pvalue(wrong.draw(np.random.default_rng(1), 1_000_000), p) < 1e-10


def test_the_same_law_as_numpy_choice():
    p = np.random.default_rng(3).dirichlet(np.ones(20))
    theirs = np.random.default_rng(4).choice(20, size=200_000, p=p)
    ours = AliasTable(p).draw(np.random.default_rng(5), 200_000)
    table = [np.bincount(theirs, minlength=20), np.bincount(ours, minlength=20)]
    assert stats.chi2_contingency(table).pvalue > 1e-4


def test_log_weights():
    x = np.array([-1000.0, -1001.0, -np.inf, -1003.5])
    law = AliasTable(x, is_log=True).probability()
    np.testing.assert_allclose(law[law > 0], np.exp(x[[0, 1, 3]] + 1000) / np.exp(x[[0, 1, 3]] + 1000).sum(), rtol=1e-8)
    assert law[2] == 0
    assert AliasTable(x, is_log=True).log_probability(2) == -np.inf
    high = AliasTable(np.array([700.0, 710.0, 720.0], dtype=np.float32), is_log=True).probability()
    np.testing.assert_allclose(high, np.exp([-20, -10, 0]) / np.exp([-20.0, -10, 0]).sum(), atol=2.0**-32)


def test_floor_is_in_the_law_and_leaves_nothing_at_zero():
    w = np.array([0.0, 1.0, 3.0, 0.0, 0.0])
    for floor in (2.0**-31, 0.01, 0.5, 1.0):
        law = AliasTable(w, floor=floor).probability()
        np.testing.assert_allclose(law, (1 - floor) * w / 4 + floor / 5, atol=2.0**-33)
        assert (law > 0).all()
    for floor in (-0.1, 1.1, 1e-12, np.nan):
        with pytest.raises(ValueError, match="floor"):
            AliasTable(w, floor=floor)


@pytest.mark.parametrize(
    ("weights", "is_log", "message"),
    [
        ([1.0, 2.0, -0.25], False, "position 2: weight -0.25"),
        ([1.0, np.nan, -1.0], False, "position 1: weight nan"),
        ([np.inf, 1.0], False, "position 0: weight inf"),
        ([0.0, 0.0], False, "all weights are zero"),
        ([-np.inf, -np.inf], True, "all log-weights are -inf"),
        ([0.0, np.inf], True, "position 1: log-weight inf"),
        ([0.0, -1.0, np.nan], True, "position 2: log-weight nan"),
        ([], False, "at least one entry"),
        ([[1.0]], False, "1 dimension"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_no_law_is_refused(weights, is_log, message, dtype):
    with pytest.raises(DataError, match=message):
        AliasTable(np.array(weights, dtype=dtype), is_log=is_log)


def test_denormals_are_not_flushed():
    assert np.float32(1e-45) * np.float32(1) != 0
    np.testing.assert_allclose(AliasTable(np.full(3, 1e-45, dtype=np.float32)).probability(), 1 / 3, atol=2.0**-33)


# ---- arenas ----------------------------------------------------------------------------------------------------------


def an_arena(n_tables=7, size=13, **options):
    weights = np.random.default_rng(6).gamma(0.4, size=(n_tables, size))
    arena = AliasArena(n_tables, size, keep_probability=True, **options)
    arena.fill(weights)
    return arena, weights


def test_rows_of_an_arena_are_tables():
    arena, weights = an_arena()
    lean = AliasArena(7, 13)
    lean.fill(weights.astype(np.float32)[:3])
    lean.fill(np.log(weights[3:]), first=3, is_log=True)
    for g in range(7):
        table = AliasTable(weights[g])
        np.testing.assert_array_equal(arena.to_arrays()["cells"][g], table.cells)
        np.testing.assert_array_equal(arena.probability(g), table.probability())
        np.testing.assert_allclose(lean.probability(g), table.probability(), atol=1e-6)
    words = generator(5, "tables").integers(0, WORD, 50, dtype=np.uint64)
    tables = np.arange(50) % 7
    drawn = arena.draw(tables, generator(5, "tables"))
    assert drawn.tolist() == [AliasTable(weights[g]).draw_words([w])[0] for g, w in zip(tables, words)]


def test_no_table_changes_when_a_row_is_refused():
    arena, weights = an_arena()
    before = arena.to_arrays()["cells"]
    weights = weights + 1
    weights[4, 11] = np.nan
    with pytest.raises(DataError, match="row 4, position 11: weight nan"):
        arena.fill(weights)
    np.testing.assert_array_equal(arena.to_arrays()["cells"], before)
    weights[4] = 0
    with pytest.raises(DataError, match="row 6, all weights are zero"):
        arena.fill(weights[3:5], first=5)


@pytest.mark.parametrize("shares", [None, [0.2, 0.5, 0.3]])
def test_streams_are_the_same_for_all_threads_and_blocks(shares):
    weights = np.random.default_rng(8).gamma(0.4, size=(40, 5000))
    one, two = (AliasArena(40, 5000, keep_probability=True) for _ in range(2))
    one.fill(weights, n_threads=1)
    two.fill(weights, n_threads=2)
    np.testing.assert_array_equal(one.to_arrays()["cells"], two.to_arrays()["cells"])
    n = 150_000
    tables = np.random.default_rng(9).integers(0, 40, n if shares is None else (n, 3))
    a = one.draw_streams(tables, 7, shares=shares, step=3, n_threads=1)
    b = two.draw_streams(tables, 7, shares=shares, step=3, n_threads=2)
    c = two.draw_streams(tables[1000:1100], 7, shares=shares, step=3, first_unit=1000)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a[1000:1100], c)
    if shares is None:
        word = stream_words(7, 7, 42, 3, 1)
        assert a[42] == AliasTable(weights[tables[42]]).draw_words(word)[0]


def test_law_of_a_mixture():
    arena, _ = an_arena(size=6, floor=0.01)
    shares = np.array([0.1, 0.0, 0.6, 0.3])
    tables = [2, 3, 5, 6]
    law = sum(c * arena.probability(g) for c, g in zip(shares, tables))
    n = 400_000
    drawn = arena.draw_streams(np.tile(tables, (n, 1)), 11, shares=shares)
    assert pvalue(drawn, law) > 1e-4
    assert pvalue(drawn, arena.probability(5)) < 1e-10  # the law of one chosen table is another one
    log_law = arena.log_probability(np.tile(tables, (6, 1)), np.arange(6), shares=10 * shares)
    np.testing.assert_allclose(log_law, np.log(law), rtol=1e-14)
    single = arena.log_probability(np.full(6, 5), np.arange(6))
    np.testing.assert_allclose(np.exp(single), arena.probability(5), rtol=1e-14)


def test_bad_arguments_of_an_arena():
    arena, weights = an_arena()
    rng = np.random.default_rng(0)
    with pytest.raises(IndexError, match="table 7 does not exist"):
        arena.draw([0, 7], rng)
    with pytest.raises(IndexError, match="outcome -1"):
        arena.log_probability([0], [-1])
    with pytest.raises(TypeError, match="integers"):
        arena.draw([0.0], rng)
    with pytest.raises(TypeError, match="Generator"):
        arena.draw([0], np.random.RandomState(0))
    with pytest.raises(DataError, match="do not fit"):
        arena.fill(weights[:, 1:])
    with pytest.raises(DataError, match="do not fit"):
        arena.fill(weights, first=1)
    with pytest.raises(DataError, match="shares"):
        arena.log_probability([[0, 1]], [0], shares=[1.0, -1.0])
    with pytest.raises(ValueError, match="shares"):
        arena.draw_streams([[0, 1]], 0)
    with pytest.raises(ValueError, match="keep_probability"):
        AliasArena(1, 1).log_probability([0], [0])
    part = AliasArena(2, 13)
    part.fill(weights[:1])
    with pytest.raises(ValueError, match="table 1 has not been filled"):
        part.draw([0, 1], rng)
    for n_tables, size in [(0, 3), (3, 0), (1, 2**31 + 1)]:
        with pytest.raises(ValueError, match="arena"):
            AliasArena(n_tables, size)


def test_pickles_draw_the_same():
    arena, weights = an_arena(floor=0.25)
    table = AliasTable(weights[0])
    for original in (arena, table):
        copy = pickle.loads(pickle.dumps(original))
        assert repr(copy) == repr(original)
        for name, value in original.to_arrays().items():
            np.testing.assert_array_equal(copy.to_arrays()[name], value)
    copy = pickle.loads(pickle.dumps(arena))
    np.testing.assert_array_equal(copy.log_probability([1, 2], [3, 4]), arena.log_probability([1, 2], [3, 4]))
    assert copy.floor == 0.25


def test_damaged_archives_are_refused():
    cells = AliasTable([1.0, 2.0]).cells.copy()
    cells[0, 1] = 2
    with pytest.raises(DataError, match="damaged"):
        AliasTable.from_arrays({"cells": cells})
    with pytest.raises(DataError, match="uint32"):
        AliasTable.from_arrays({"cells": cells.astype(np.int64)})
    arrays = an_arena()[0].to_arrays()
    with pytest.raises(DataError, match="is_filled"):
        AliasArena.from_arrays({**arrays, "is_filled": np.ones(3, dtype=bool)})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
def test_a_bad_weight_is_found_wherever_it_is(bad, dtype):
    for size in (1, 7, 8, 9, 19):
        for position in range(size):
            weights = np.ones(size, dtype=dtype)
            weights[position:] = bad
            with pytest.raises(DataError, match=f"position {position}: weight"):
                AliasTable(weights)


@pytest.mark.parametrize("size", [1, 127, 128, 129, 700])
def test_draws_read_one_word_each_in_turn(size):
    w = np.random.default_rng(0).gamma(0.3, size=(3, 50))
    words = np.random.default_rng(1).bit_generator.random_raw(size)
    table, arena = AliasTable(w[2]), AliasArena(3, 50)
    arena.fill(w)
    np.testing.assert_array_equal(table.draw(np.random.default_rng(1), size), table.draw_words(words))
    g = np.arange(size) % 3
    expected = [AliasTable(w[k]).draw_words([word])[0] for k, word in zip(g, words)]
    np.testing.assert_array_equal(arena.draw(g, np.random.default_rng(1)), expected)
