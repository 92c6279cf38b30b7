"""Sums by label are the same bits for any division of the rows, and those of exact fractions."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_sets import check_sets_agree
from scipy import sparse

from expfam import Dataset, DiagonalGaussian, Gaussian, Multinomial, Poisson
from expfam.errors import DataError
from expfam.model.label_sums import PhiBounds, label_sums, moved_sums, phi_bounds, updated_sums
from expfam.model.statistics import label_statistics

RNG = np.random.default_rng(5)
COUNTS = RNG.poisson(RNG.gamma(0.5, 3.0, size=(400, 7)))
COUNTS[:, 0] += 1  # no row is empty
REAL = RNG.normal(size=(400, 3)) * 10.0 ** RNG.integers(-4, 5, (400, 3))
DATA = {
    "diagonal": Dataset(REAL, DiagonalGaussian()),
    "diagonal_float32": Dataset(REAL.astype(np.float32), DiagonalGaussian()),
    "full": Dataset(REAL, Gaussian()),
    "poisson": Dataset(COUNTS, Poisson()),
    "poisson_sparse": Dataset(sparse.csr_array(COUNTS), Poisson()),
    "multinomial_tfidf": Dataset(sparse.csr_array(COUNTS * 0.1), Multinomial(allow_fractional=True)),
    "multinomial_fractions": Dataset(COUNTS * 0.1, Multinomial(allow_fractional=True)),
}
K = 4


def bits(sums):
    n, S = sums.total()
    S = S.toarray() if sparse.issparse(S) else S
    return n.tobytes() + S.tobytes()


def parts_of(data, labels, bounds, scale):
    return [label_sums(data.rows(a, b), labels[a:b], K, scale) for a, b in itertools.pairwise(bounds) if b > a]


@pytest.mark.parametrize("name", DATA)
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, 399), max_size=6), seed=st.integers(0, 99))
def test_any_division_and_order_of_parts_gives_the_same_bits(name, cuts, seed):
    data, rng = DATA[name], np.random.default_rng(seed)
    labels = rng.integers(-1, K, data.n_rows).astype(np.int32)
    scale = phi_bounds(data).scale(data.n_rows)
    parts = parts_of(data, labels, [0, *sorted(cuts), data.n_rows], scale)
    rng.shuffle(parts)
    total = parts[0]
    for part in parts[1:]:
        total = total + pickle.loads(pickle.dumps(part))
    assert bits(total) == bits(label_sums(data, labels, K, scale))


@pytest.mark.parametrize("name", DATA)
def test_sums_are_those_of_fractions(name):
    data = DATA[name]
    labels = RNG.integers(-1, K, data.n_rows).astype(np.int32)
    n, S = label_sums(data, labels, K, phi_bounds(data).scale(data.n_rows)).total()
    phi = data.phi(0, data.n_rows)
    S = S.toarray() if sparse.issparse(S) else S
    for k in range(K):
        assert n[k] == (labels == k).sum()
        for f in range(phi.shape[1]):
            exact = float(sum(map(Fraction, phi[labels == k, f].tolist()), Fraction(0)))
            assert S[k, f] == pytest.approx(exact, rel=4e-16, abs=abs(phi[:, f]).max() * 1e-30)


@pytest.mark.parametrize("name", DATA)
def test_differences_are_exact(name):
    data, rng = DATA[name], np.random.default_rng(2)
    scale = phi_bounds(data).scale(data.n_rows)
    old, new = (rng.integers(0, K, data.n_rows).astype(np.int32) for _ in range(2))
    new[: data.n_rows // 3] = old[: data.n_rows // 3]
    new[new == 2] = 0  # a cluster loses all its rows: its sums are exactly 0
    moved = label_sums(data, old, K, scale) + moved_sums(data, old, new, K, scale)
    assert bits(moved) == bits(label_sums(data, new, K, scale))
    few = np.append(old[:-100], new[-100:])  # and where few rows move, the rest is not read
    for after in (new, few):
        updated = updated_sums(data, label_sums(data, old, K, scale), old, after, scale)
        assert bits(updated) == bits(label_sums(data, after, K, scale))
    _, S = moved.total()
    assert not abs(S[[2]]).max()


def test_plain_sums_depend_on_the_division():
    """Else the tests above would prove nothing."""
    data, labels = DATA["diagonal"], np.zeros(400, dtype=np.int32)
    whole = label_statistics(data, labels, 1)[1]
    halves = sum(label_statistics(data.rows(a, a + 133), labels[:133], 1)[1] for a in (0, 133))
    halves = halves + label_statistics(data.rows(266, 400), labels[:134], 1)[1]
    assert (whole != halves).any()


def test_whole_numbers_need_one_piece():
    assert phi_bounds(DATA["poisson_sparse"]).scale(400).n_pieces == 1
    assert phi_bounds(DATA["poisson"]).scale(400).n_pieces == 1
    assert phi_bounds(DATA["diagonal"]).scale(400).n_pieces == 3
    assert PhiBounds(np.array([2.0**40]), True).scale(1 << 20).n_pieces == 3  # their sum passes 2^53


def test_bounds_of_parts_add_up():
    data = DATA["multinomial_tfidf"]
    both = phi_bounds(data.rows(0, 100)) + phi_bounds(data.rows(100, 400))
    np.testing.assert_array_equal(both.most, phi_bounds(data).most)
    assert not both.is_whole


def test_a_cell_beyond_the_range_is_refused():
    with pytest.raises(DataError, match=r"statistic 1 reaches 1e\+300"):
        PhiBounds(np.array([1.0, 1e300]), False).scale(10)


PIECES = """
import sys
import numpy as np
from expfam.model.piece_sums import add_rows_by_label, move_rows_by_label
from expfam.structures.rows.exact_sums import lifts

rng, found = np.random.default_rng(0), []
for width in (1, 7, 16, 65):
    phi = rng.normal(size=(400, width)) * 10.0 ** rng.integers(-6, 6, size=(400, width))
    phi[::9, 0] = np.nan
    old, new = rng.integers(0, 5, size=(2, 400)).astype(np.int32)
    lift = lifts(np.nanmax(np.abs(phi), axis=0), 400)
    added, moved = np.zeros((2, 5, 3, width))
    add_rows_by_label(added, phi, new, lift)
    add_rows_by_label(moved, phi, old, lift)
    move_rows_by_label(moved, phi, old, new, lift)
    np.testing.assert_array_equal(moved, added)
    found.append(added.ravel())
np.save(sys.argv[1], np.concatenate(found))
"""


def test_pieces_are_the_same_bits_on_all_instruction_sets(tmp_path):
    """Rows that move leave nothing behind, and cells that hold NaN are left out."""
    check_sets_agree(PIECES, tmp_path, rtol=0.0, atol=0.0)
