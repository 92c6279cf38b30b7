"""Sums of dense rows by label, in pieces whose sums are the same in any order.

A table (K, 3, F) holds, for each cluster and column, three sums of pieces, see `expfam.structures.rows.exact_sums`.
Whole numbers need one piece, (K, 1, F): their sums are exact as they are.
"""

from libc.math cimport rint
from libc.stdint cimport int32_t

from expfam.structures.simd.column_sums cimport expfam_label_terms

from expfam.amounts import counted


def add_rows_by_label(double[:, :, ::1] table, const double[:, ::1] phi, const int32_t[::1] labels,
                      const double[:, ::1] lift):
    """Add the pieces of each row of `phi` (n, F) to those of its label.

    Rows of negative labels are left out. `table` is (K, P, F) with P = 1 or 3, `lift` (P, F). The terms of a column
    must be within the bounds from which `lift` was made.
    """
    cdef Py_ssize_t i, F = table.shape[2], P = table.shape[1]
    check_shapes(table, phi, lift, labels.shape[0])
    if F == 0 or phi.shape[0] == 0:
        return
    with nogil:
        if P == 3:
            expfam_label_terms(&phi[0, 0], phi.shape[0], F, NULL, &labels[0], &lift[0, 0], &table[0, 0, 0])
        else:
            for i in range(phi.shape[0]):
                if labels[i] >= 0:
                    add_row(&table[labels[i], 0, 0], &phi[i, 0], F, 1.0)


def move_rows_by_label(double[:, :, ::1] table, const double[:, ::1] phi, const int32_t[::1] old,
                       const int32_t[::1] new, const double[:, ::1] lift):
    """Move the pieces of each row of `phi` (n, F) from the sums of its old label to the new.

    See `add_rows_by_label`; labels are not negative.
    """
    cdef Py_ssize_t i, F = table.shape[2], P = table.shape[1]
    check_shapes(table, phi, lift, min(old.shape[0], new.shape[0]))
    if F == 0 or phi.shape[0] == 0:
        return
    with nogil:
        if P == 3:
            expfam_label_terms(&phi[0, 0], phi.shape[0], F, &old[0], &new[0], &lift[0, 0], &table[0, 0, 0])
        else:
            for i in range(phi.shape[0]):
                add_row(&table[old[i], 0, 0], &phi[i, 0], F, -1.0)
                add_row(&table[new[i], 0, 0], &phi[i, 0], F, 1.0)


cdef int check_shapes(double[:, :, ::1] table, const double[:, ::1] phi, const double[:, ::1] lift,
                      Py_ssize_t n_labels) except -1:
    """Refuse rows that do not fit the table."""
    cdef Py_ssize_t F = table.shape[2], P = table.shape[1]
    if phi.shape[1] != F or lift.shape[0] != P or lift.shape[1] != F or phi.shape[0] > n_labels:
        raise ValueError(f"a table of shape {(table.shape[0], P, F)} cannot take rows of"
                         f" {counted(phi.shape[1], 'column')}")
    if P not in (1, 3):
        raise ValueError(f"a table has one piece or three; got {P}")
    return 0


cdef inline void add_row(double *sums, const double *row, Py_ssize_t F, double sign) noexcept nogil:
    """Add or subtract a row (F,) of whole numbers."""
    cdef Py_ssize_t f
    for f in range(F):
        sums[f] += sign * row[f]


def has_whole_cells(const double[:, ::1] phi):
    """Tell whether all cells are whole numbers.

    >>> import numpy as np
    >>> from expfam.model.piece_sums import has_whole_cells
    >>> has_whole_cells(np.array([[1.0, -3.0]])), has_whole_cells(np.array([[0.5, 2.0]]))
    (True, False)
    """
    cdef Py_ssize_t i, f
    cdef bint whole = True
    with nogil:
        for i in range(phi.shape[0]):
            for f in range(phi.shape[1]):
                if phi[i, f] != rint(phi[i, f]):
                    whole = False
            if not whole:
                break
    return whole
