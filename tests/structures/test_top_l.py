"""Selection of the largest values of each row against a stable sort, with ties, infinities and NaN."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_sets import SETS, output_under

from expfam.errors import DataError, SupportError
from expfam.structures import select_top


def by_sorting(values, n_top):
    clean = np.where(np.isnan(values), -np.inf, values)
    order = np.argsort(-clean, axis=1, kind="stable")[:, :n_top]
    return np.take_along_axis(clean, order, axis=1), order


def compare(values, n_top):
    top, indices = select_top(values, n_top)
    expected, order = by_sorting(values, n_top)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(top, expected)
    assert top.dtype == values.dtype
    assert indices.dtype == np.int32


SIZES = [1, 2, 3, 15, 16, 17, 31, 32, 33, 50, 63, 64, 65, 100, 200, 257, 800]
COUNTS = [1, 2, 4, 8, 9, 15, 16, 17, 31, 32, 33, 60, 800]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_a_stable_sort(size, dtype):
    rng = np.random.default_rng(size)
    normal = rng.normal(size=(40, size))
    kinds = [
        normal,
        np.round(normal),  # many ties
        np.sort(normal, axis=1),
        -np.sort(normal, axis=1),
        np.ones((3, size)),
        np.where(rng.random(normal.shape) < 0.7, -np.inf, normal),
        np.where(rng.random(normal.shape) < 0.3, np.nan, np.round(normal)),
        np.where(rng.random(normal.shape) < 0.1, np.inf, normal),
        np.where(rng.random(normal.shape) < 0.5, np.nan, -np.inf),
    ]
    for values in kinds:
        values = values.astype(dtype)
        values[:, rng.integers(size)] = 0.5  # no row without a value
        for n_top in {min(n, size) for n in COUNTS} | {size}:
            compare(values, n_top)


@pytest.mark.parametrize(
    ("size", "rows"), [(1, 30_000), (3, 26_000), (17, 20_000), (200, 18_000), (1000, 5000), (5000, 1000)]
)
def test_a_hundred_thousand_rows(size, rows):
    rng = np.random.default_rng(size)
    normal = rng.normal(size=(rows, size)).astype(np.float32)
    normal[rows // 4 : rows // 2] = np.round(normal[rows // 4 : rows // 2])  # ties
    normal[rows // 2 : 3 * rows // 4].sort(axis=1)
    normal[3 * rows // 4 :] = -np.sort(normal[3 * rows // 4 :], axis=1)
    for n_top in {1, min(size, 4), min(size, 40)}:
        compare(normal, n_top)


@settings(deadline=None)
@given(st.data())
def test_any_row(data):
    element = st.sampled_from([-np.inf, np.nan, -1.0, 0.0, -0.0, 2.0, 3.5, np.inf])
    row = data.draw(st.lists(element, min_size=1, max_size=90))
    values = np.array([[*row, 1.0]])
    compare(values, data.draw(st.integers(1, values.shape[1])))


@pytest.mark.parametrize("n_top", [5, 100, 300, 1500, 2999])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_rows_of_which_many_are_kept(n_top, dtype):
    rng = np.random.default_rng(n_top)
    normal = rng.normal(size=(4, 3000))
    sampled = np.zeros((2, 3000))  # what a sample at regular places sees is the least there is
    sampled[0] = rng.permutation(3000) + 1.0
    sampled[1] = np.round(sampled[0], -1)
    sampled[:, (2 * np.arange(32) + 1) * 3000 // 64] = 0.5
    few = np.full((3, 3000), -np.inf)
    few[:, rng.permutation(3000)[:150]] = rng.normal(size=(3, 150))
    for values in (normal, np.round(normal), np.sort(normal), -np.sort(normal), np.ones((2, 3000)), sampled, few):
        compare(values.astype(dtype), n_top)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_that_never_help(dtype):
    """Every round of sampling is spoilt: the places it looks at hold the least of what is left."""
    left, values = np.arange(1000), np.empty(1000)
    level = 0.0
    while len(left):
        places = np.unique((2 * np.arange(32) + 1) * len(left) // 64)
        values[left[places]] = level + np.arange(len(places)) / 64
        left = np.delete(left, places)
        level += 1.0
    for n_top in (40, 100):
        compare(values[None].astype(dtype), n_top)


def test_the_sort_sees_ties_resolved_the_other_way():
    values = np.array([[1.0, 2.0, 2.0, 0.0]])
    wrong = np.argsort(values, axis=1, kind="stable")[:, ::-1][:, :1]
    assert (wrong != by_sorting(values, 1)[1]).any()
    assert select_top(values, 1)[1] == 1


INPUTS = """
import hashlib, json
import numpy as np
from expfam.structures.simd import probe as _kernels
from expfam.structures import select_top
out = {"set": _kernels.instruction_set()}
rng = np.random.default_rng(4)
for size in (1, 31, 33, 64, 100, 257, 1000):
    values = rng.normal(size=(50, size))
    values[::2] = np.round(values[::2])
    values[::3, 1::2] = -np.inf
    values[::5, 1::3] = np.nan
    for dtype in ("float32", "float64"):
        for n_top in {1, min(4, size), min(20, size), size // 2 + 1, size}:
            for what, result in zip(("values", "indices"), select_top(values.astype(dtype), n_top)):
                out[f"{what} {dtype} {size} {n_top}"] = hashlib.sha256(result.tobytes()).hexdigest()
print(json.dumps(out))
"""


def test_every_instruction_set_selects_the_same():
    found = {}
    for forced in SETS:
        found[forced] = json.loads(output_under(forced, INPUTS))
        assert len(found[forced]) > 90
    assert found["base"].pop("set") == "base"
    for forced in ("avx2", "avx512"):
        if found[forced].pop("set") == forced:  # else this machine has none
            assert found[forced] == found["base"]


@pytest.mark.parametrize("n_top", [1, 4, 40, 100])
@pytest.mark.parametrize("nothing", [-np.inf, np.nan])
def test_a_row_without_a_value_is_named(n_top, nothing):
    values = np.random.default_rng(0).normal(size=(6000, 100))
    values[[4321, 5000]] = nothing
    for n_threads in (1, 2):
        with pytest.raises(SupportError, match="row 4321 has no value above -inf"):
            select_top(values, n_top, n_threads=n_threads)


def test_threads_and_layouts_make_no_difference():
    values = np.random.default_rng(1).normal(size=(9000, 64))
    one = select_top(values, 5)
    for other in (select_top(values, 5, n_threads=2), select_top(np.asfortranarray(values), 5)):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
    whole = select_top(np.arange(6).reshape(2, 3), 2)
    assert whole[0].dtype == np.float64
    assert select_top(np.empty((0, 3)), 2)[0].shape == (0, 2)


def test_bad_arguments():
    for n_top in (0, 4, 1.5):
        with pytest.raises(ValueError, match="from 1 to the 3 columns"):
            select_top(np.ones((2, 3)), n_top)
    for values in (np.ones(3), np.ones((2, 0))):
        with pytest.raises(DataError, match="matrix"):
            select_top(values, 1)
