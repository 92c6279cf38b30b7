"""Inverses of many positive definite matrices, by their Cholesky factors.

This takes a third of the work of general inverses.
"""

from libc.math cimport log
from scipy.linalg.cython_lapack cimport dpotrf, dpotri


def invert_definite(double[:, :, ::1] M, double[::1] log_dets):
    """Replace symmetric matrices (K, d, d) by inverses and write their log determinants (K,).

    Return -1, or the number of the first matrix that is not positive definite, at which the work stopped.
    """
    cdef Py_ssize_t k, i, j, d = M.shape[1], bad = -1
    cdef int size = <int> d, info = 0
    cdef char upper = b"U"  # LAPACK stores by columns: its upper triangle is the lower one of these rows
    cdef double total
    with nogil:
        for k in range(M.shape[0]):
            dpotrf(&upper, &size, &M[k, 0, 0], &size, &info)
            if info != 0:
                bad = k
                break
            total = 0.0
            for i in range(d):
                total += log(M[k, i, i])
            log_dets[k] = 2.0 * total
            dpotri(&upper, &size, &M[k, 0, 0], &size, &info)
            for i in range(d):
                for j in range(i):
                    M[k, j, i] = M[k, i, j]
    return bad
