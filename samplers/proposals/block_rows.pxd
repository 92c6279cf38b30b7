# Rows of counts with what a draw reads of them, of all data or of one block.

from libc.stdint cimport int32_t

from expfam.families.rows cimport csr_rows


ctypedef struct counted_rows:
    csr_rows x
    const double *length            # (n,) sum of each row
    const int32_t *length_place     # (n,) place of the length among those with a row of their own, or NULL
    const float *length_part        # (n,) position of the length between this one (0) and the next (1)


cdef void expect_row(const csr_rows *x, Py_ssize_t i) noexcept nogil
cdef void expect_start(const counted_rows *all, Py_ssize_t i) noexcept nogil


cdef class BlockRows:
    cdef counted_rows c             # the copies, in the order of the block
    cdef const counted_rows *source
    cdef const Py_ssize_t *row      # (n,) data of the block
    cdef Py_ssize_t n
    cdef readonly object rows
    cdef object firsts, starts, columns, values, lengths
    cdef readonly object places, parts
    cdef int copy(self, const counted_rows *source, rows, n_threads) except -1
    cdef int _point(self) except -1
