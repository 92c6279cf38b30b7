# Readers of the rows of a CSR matrix in the caller's memory, for all types of values, at one predictable branch per
# entry. The owner of a `csr_rows` must keep its three arrays alive. Columns and starts may each be int32 or int64.
# Families that take both kinds of data keep dense rows in the same struct: `starts` is then NULL.

from libc.stdint cimport int32_t, int64_t

cdef enum:
    ROWS_FLOAT64 = 0
    ROWS_FLOAT32 = 1
    ROWS_INT64 = 2
    ROWS_INT32 = 3
    ROWS_ONES = 4           # no values: every stored entry is 1
    ROWS_FLOAT16 = 5        # this and the following: dense rows only
    ROWS_INT8 = 6
    ROWS_UINT8 = 7
    ROWS_INT16 = 8
    ROWS_UINT16 = 9

ctypedef struct csr_rows:
    const void *values      # (nnz,) of `kind`; NULL for ROWS_ONES
    const void *columns     # (nnz,) int32 or int64
    const void *starts      # (N + 1,) int32 or int64
    int kind
    int wide_columns
    int wide_starts


cdef inline Py_ssize_t row_start(const csr_rows *x, Py_ssize_t i) noexcept nogil:
    """Return the first entry of row i; row i ends where row i + 1 starts."""
    if x.wide_starts:
        return (<const int64_t *> x.starts)[i]
    return (<const int32_t *> x.starts)[i]


cdef inline Py_ssize_t entry_column(const csr_rows *x, Py_ssize_t p) noexcept nogil:
    """Return the column of entry p."""
    if x.wide_columns:
        return (<const int64_t *> x.columns)[p]
    return (<const int32_t *> x.columns)[p]


cdef inline double entry_value(const csr_rows *x, Py_ssize_t p) noexcept nogil:
    """Return the value of entry p."""
    if x.kind == ROWS_FLOAT64:
        return (<const double *> x.values)[p]
    if x.kind == ROWS_INT64:
        return <double> (<const int64_t *> x.values)[p]
    if x.kind == ROWS_INT32:
        return (<const int32_t *> x.values)[p]
    if x.kind == ROWS_FLOAT32:
        return (<const float *> x.values)[p]
    return 1.0


cdef inline Py_ssize_t entry_size(int kind) noexcept nogil:
    """Return the number of bytes of an entry of a kind."""
    if kind == ROWS_FLOAT64 or kind == ROWS_INT64:
        return 8
    if kind == ROWS_FLOAT32 or kind == ROWS_INT32:
        return 4
    if kind == ROWS_INT8 or kind == ROWS_UINT8:
        return 1
    return 0 if kind == ROWS_ONES else 2


cdef inline int kind_of(values) except -1:
    """Return the code of the type of an array."""
    kinds = {"float64": ROWS_FLOAT64, "float32": ROWS_FLOAT32, "int64": ROWS_INT64, "int32": ROWS_INT32}
    return kinds[values.dtype.name]


cdef inline int dense_kind_of(values) except -1:
    """Return the code of the type of a matrix of real numbers."""
    kinds = {"float64": ROWS_FLOAT64, "float32": ROWS_FLOAT32, "float16": ROWS_FLOAT16, "int8": ROWS_INT8,
             "uint8": ROWS_UINT8, "int16": ROWS_INT16, "uint16": ROWS_UINT16}
    return kinds[values.dtype.name]


cdef inline int open_dense_rows(csr_rows *x, values) except -1:
    """Point `x` at a C-contiguous matrix, which may be read-only; it has neither columns nor starts."""
    x.kind, x.values = dense_kind_of(values), <const void *> <size_t> values.ctypes.data
    x.columns = x.starts = NULL
    x.wide_columns = x.wide_starts = 0
    return 0


cdef inline int open_rows(csr_rows *x, values, columns, starts) except -1:
    """Point `x` at three NumPy arrays, which may be read-only; `values` None means ones."""
    for array in (values, columns, starts):
        if array is not None and not array.flags.c_contiguous:
            raise ValueError("the arrays of a CSR matrix must be contiguous")
    x.kind = ROWS_ONES if values is None else kind_of(values)
    x.values = NULL if values is None else <const void *> <size_t> values.ctypes.data
    x.wide_columns = {"int64": 1, "int32": 0}[columns.dtype.name]
    x.columns = <const void *> <size_t> columns.ctypes.data
    x.wide_starts = {"int64": 1, "int32": 0}[starts.dtype.name]
    x.starts = <const void *> <size_t> starts.ctypes.data
    return 0
