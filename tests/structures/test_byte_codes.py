"""Products of integers of eight bits: bounds that hold and are close, under every instruction set."""

import numpy as np
import pytest
from instruction_sets import SETS, output_under

from expfam.structures.rows.byte_codes import CodedPoints, CodedRows, coded_products, has_byte_products

SHAPES = [(1, 1, 1), (9, 33, 5), (8, 32, 4), (100, 70, 64), (40, 257, 385), (3, 5, 1003)]


def shares_of_errors(X, W):
    """Errors of the products of codes, as shares of their bounds."""
    products, errors = coded_products(np.float32(X), np.float32(W))
    exact = np.asarray(np.float32(X), dtype=np.longdouble) @ np.asarray(np.float32(W), dtype=np.longdouble).T
    gaps = np.abs(products.astype(np.longdouble) - exact)
    assert ((gaps == 0) | (errors > 0)).all()
    return np.divide(gaps, errors, out=np.zeros_like(gaps), where=errors > 0)


@pytest.mark.parametrize("scale", [1e-25, 1e-13, 1.0, 1e12])
@pytest.mark.parametrize(("N", "m", "d"), SHAPES)
def test_bounds_hold_at_every_scale(N, m, d, scale):
    rng = np.random.default_rng(N + d)
    X, W = scale * rng.normal(size=(N, d)), rng.standard_t(2.0, size=(m, d))
    X[0], W[0] = 0.0, W[0] * (1e-20 if m > 1 else 1.0)
    X[-1, 1:] = 0.0
    assert shares_of_errors(X, W).max() <= 1.0


def test_no_bound_of_a_million_pairs_fails():
    rng = np.random.default_rng(0)
    for d, law in ((3, rng.normal), (17, rng.standard_cauchy), (129, rng.exponential)):
        assert shares_of_errors(law(size=(1000, d)), law(size=(400, d))).max() <= 1.0


def test_bounds_could_not_be_a_tenth_closer():
    """What is lost of a row may lie along a point: then the bound is reached."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 8)).astype(np.float32)
    step = np.abs(X).max(axis=1, keepdims=True) / 127
    lost = X - step * np.rint(X / step)
    assert shares_of_errors(X, 1e3 * lost).max() > 0.9


def test_entries_that_have_no_codes_have_bounds():
    X = np.float32([[np.inf, 1.0], [1e-30, -1e-30], [1.0, 2.0]])
    products, errors = coded_products(X, np.float32([[1.0, 1.0]]))
    assert np.isinf(errors[0]).all()
    assert not products[:2].any()
    assert 2e-30 < errors[1, 0] < 1e-10


@pytest.mark.parametrize("isa", SETS)
def test_every_instruction_set_has_the_same_products(isa):
    code = """
import numpy as np
from expfam.structures.rows.byte_codes import coded_products
rng = np.random.default_rng(0)
X, W = rng.integers(-127, 128, size=(50, 203)), rng.integers(-127, 128, size=(77, 203))
X[:, 0] = W[:, 0] = 127     # integers are their own codes
products = coded_products(X.astype(np.float32), W.astype(np.float32))[0]
assert (products == X @ W.T).all()
from test_byte_codes import test_bounds_hold_at_every_scale as check
for scale in (1e-13, 1.0):
    check(40, 257, 385, scale)
print('same')
"""
    assert output_under(isa, code, file=__file__).strip() == "same"


def test_the_baseline_has_no_fast_products():
    code = "from expfam.structures.rows.byte_codes import has_byte_products as has; print(has())"
    assert output_under("base", code).strip() == "False"
    assert isinstance(has_byte_products(), bool)


@pytest.mark.parametrize("made", [lambda d: CodedRows(3, d), lambda d: CodedPoints(3, d)])
@pytest.mark.parametrize("d", [0, 65_537])
def test_columns_that_codes_cannot_have_are_refused(made, d):
    with pytest.raises(ValueError, match=f"codes have 1 to 65536 columns; got {d}"):
        made(d)


def test_rows_and_points_of_other_columns_are_refused():
    with pytest.raises(ValueError, match="columns differ: 3 and 2"):
        coded_products(np.ones((1, 3), np.float32), np.ones((1, 2), np.float32))
