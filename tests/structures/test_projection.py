"""Sparse random signs: their shape, what they keep, and a draw that would not."""

import numpy as np
import pytest

from expfam.structures import sign_projection


def test_every_row_has_one_sign_in_each_block():
    matrix = sign_projection(500, np.random.default_rng(0), n_columns=32, n_signs=4)
    assert matrix.shape == (500, 32)
    np.testing.assert_array_equal(matrix.indices.reshape(500, 4) // 8, np.tile(np.arange(4), (500, 1)))
    np.testing.assert_allclose(np.abs(matrix.data), 0.5)
    use = np.bincount(matrix.indices, minlength=32)
    assert ((use - 62.5) ** 2 / 62.5).sum() < 68  # at most chi-square of 31 degrees, 1e-4
    assert abs((matrix.data > 0).sum() - 1000) < 3.9 * np.sqrt(500)


def test_squared_lengths_are_kept_in_the_mean_and_within_their_spread():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3, 40))
    squares = np.array([((X @ sign_projection(40, rng)) ** 2).sum(axis=1) for _ in range(2000)]) / (X**2).sum(axis=1)
    spread = np.sqrt(2 / 64)
    assert (np.abs(squares.mean(axis=0) - 1) < 3.9 * spread / np.sqrt(2000)).all()
    assert (squares.std(axis=0) < 1.1 * spread).all()
    assert (squares.std(axis=0) > 0.8 * spread).all()


def test_rows_of_one_entry_stay_apart():
    rows = sign_projection(20_000, np.random.default_rng(2)).toarray()
    assert np.unique(rows, axis=0).shape[0] == 20_000  # a single sign would leave 128 of them
    single = sign_projection(20_000, np.random.default_rng(2), n_signs=1).toarray()
    assert np.unique(single, axis=0).shape[0] == 128


@pytest.mark.parametrize(("n_columns", "n_signs"), [(64, 7), (64, 0), (0, 1)])
def test_signs_that_do_not_divide_the_columns_are_refused(n_columns, n_signs):
    with pytest.raises(ValueError, match=f"got {n_signs} and {n_columns}"):
        sign_projection(10, np.random.default_rng(0), n_columns=n_columns, n_signs=n_signs)
