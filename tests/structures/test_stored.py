"""Checks of matrices that were read from a file."""

import numpy as np
import pytest
from scipy import sparse

from expfam.errors import ArchiveError
from expfam.structures.ground.stored import matrix

WHOLE = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])


@pytest.mark.parametrize("layout", [np.array, sparse.csr_array])
def test_a_matrix_of_a_file_is_copied_in_its_layout(layout):
    stored = layout(WHOLE)
    found = matrix({"S": stored}, "S", (None, 3), low=0.0)
    assert sparse.issparse(found) == sparse.issparse(stored)
    (found.data if sparse.issparse(found) else found)[:] = 7.0
    np.testing.assert_array_equal(stored.toarray() if sparse.issparse(stored) else stored, WHOLE)


@pytest.mark.parametrize("layout", [np.array, sparse.csr_array])
@pytest.mark.parametrize(
    ("value", "match"),
    [
        (WHOLE[:, :2], r"'S' has shape \(2, 2\); \(any, 3\) is expected"),
        (WHOLE * np.nan, "'S' holds numbers that are not finite"),
        (-WHOLE, "'S' holds numbers outside 0 to 1e.200: the file was altered"),
        (WHOLE > 0, "'S' has dtype bool"),
    ],
)
def test_another_matrix_is_refused_by_its_name(layout, value, match):
    with pytest.raises(ArchiveError, match=match):
        matrix({"S": layout(value)}, "S", (None, 3), low=0.0)


@pytest.mark.parametrize("arrays", [{}, {"S": WHOLE}, {"S": {"data": WHOLE}}])
def test_where_a_sparse_matrix_is_expected_all_else_is_refused(arrays):
    with pytest.raises(ArchiveError, match="'S' is no CSR matrix"):
        matrix(arrays, "S", (2, 3), allow_dense=False)
    assert sparse.issparse(matrix({"S": sparse.csr_array(WHOLE)}, "S", (2, 3), allow_dense=False))


def test_a_missing_matrix_is_named():
    with pytest.raises(ArchiveError, match="'S' is missing"):
        matrix({}, "S", (2, 3))
