"""Statistics of the parts of a table side by side, as one CSR matrix.

SciPy makes coordinates of each part first, and sorts them; most of a pass over many rows of a table went there.
"""

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, int64_t

from expfam.amounts import counted

ctypedef fused index_kind:
    int32_t
    int64_t


def stacked_rows(blocks, Py_ssize_t n_rows):
    """Return blocks of columns side by side.

    Parameters
    ----------
    blocks : list of (N, w) ndarray or CSR
        Zeros of dense blocks are not stored; CSR blocks have sorted indices.
    n_rows : int
        Number N of rows.

    Returns
    -------
    (N, sum of w) csr_array of float64
        With sorted indices.

    Raises
    ------
    ValueError
        A block has another number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam.families.columns.stacked import stacked_rows
    >>> stacked_rows([np.array([[0.5, 0.0], [1.0, 2.0]]), sparse.csr_array([[3.0], [0.0]])], 2).toarray()
    array([[0.5, 0. , 3. ],
           [1. , 2. , 0. ]])
    """
    for block in blocks:
        if block.ndim != 2 or block.shape[0] != n_rows:
            raise ValueError(f"blocks of {counted(n_rows, 'row')} are stacked; got one of shape {block.shape}")
    blocks = [_prepared(block) for block in blocks]
    ends = np.zeros(n_rows + 1, dtype=np.int64)
    for block in blocks:
        if sparse.issparse(block):
            ends[1:] += np.diff(block.indptr)
        else:
            count_stored(block, ends[1:])
    np.cumsum(ends, out=ends)
    width = sum(block.shape[1] for block in blocks)
    kind = np.int32 if max(width, int(ends[n_rows])) < 1 << 31 else np.int64
    columns, values, place, first = np.empty(ends[n_rows], dtype=kind), np.empty(ends[n_rows]), ends[:n_rows].copy(), 0
    for block in blocks:
        if sparse.issparse(block):
            indptr, indices = block.indptr.astype(kind, copy=False), block.indices.astype(kind, copy=False)
            fill_sparse(indptr, indices, block.data, columns, values, place, first)
        else:
            fill_dense(block, columns, values, place, first)
        first += block.shape[1]
    return sparse.csr_array((values, columns, ends.astype(kind, copy=False)), shape=(n_rows, width))


def _prepared(block):
    """Return a block in double precision, sorted by rows."""
    if not sparse.issparse(block):
        return np.ascontiguousarray(block, dtype=np.float64)
    block = sparse.csr_array(block, dtype=np.float64)
    if not block.has_sorted_indices:
        block = block.sorted_indices()
    return block


def count_stored(const double[:, ::1] block, int64_t[::1] counts):
    """Add the number of values of each row that are not 0."""
    cdef Py_ssize_t i, f
    with nogil:
        for i in range(block.shape[0]):
            for f in range(block.shape[1]):
                counts[i] += block[i, f] != 0.0


def fill_dense(const double[:, ::1] block, index_kind[::1] columns, double[::1] values, int64_t[::1] place,
               Py_ssize_t first):
    """Write the values of a block that are not 0, each row from its place on, which moves."""
    cdef Py_ssize_t i, f, t
    with nogil:
        for i in range(block.shape[0]):
            t = place[i]
            for f in range(block.shape[1]):
                if block[i, f] != 0.0:
                    columns[t], values[t] = <index_kind> (first + f), block[i, f]
                    t += 1
            place[i] = t


def fill_sparse(const index_kind[::1] indptr, const index_kind[::1] indices, const double[::1] stored,
                index_kind[::1] columns, double[::1] values, int64_t[::1] place, Py_ssize_t first):
    """Write the stored values of a CSR block, each row from its place on, which moves."""
    cdef Py_ssize_t i, j, t
    with nogil:
        for i in range(place.shape[0]):
            t = place[i]
            for j in range(indptr[i], indptr[i + 1]):
                columns[t], values[t] = <index_kind> (first + indices[j]), stored[j]
                t += 1
            place[i] = t
