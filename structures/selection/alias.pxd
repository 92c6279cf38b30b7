# Alias tables for samplers: draws from 64-bit words, and the exact law of the cells.

from libc.stdint cimport uint32_t, uint64_t

cdef extern from "philox.h" nogil:
    uint64_t expfam_mulhilo(uint64_t a, uint64_t b, uint64_t *high) noexcept


ctypedef struct alias_cell:             # eight bytes: a draw reads one cache line
    uint32_t threshold                  # out of 2**32: below it the outcome is the cell's own number, else `alias`
    uint32_t alias


ctypedef struct alias_arena:            # views of the arrays of an AliasArena
    alias_cell *cells                   # (n_tables, size)
    double *probability                 # (n_tables, size) law of `cells`, or NULL
    Py_ssize_t n_tables
    Py_ssize_t size


cdef enum:
    ALIAS_OK = -1                       # results of a build; a number from 0 on is the position of an invalid weight
    ALIAS_NO_MASS = -2


# Build one table from weights (is_log 0) or log weights; `floor` is the share of the uniform law. `work` (size,) and
# `queue` (size,) are scratch. `cells` is written only if the result is ALIAS_OK.
ctypedef fused weight_t:
    float
    double

cdef Py_ssize_t alias_check(const weight_t *weights, Py_ssize_t size, bint is_log, double *largest) noexcept nogil
cdef Py_ssize_t alias_build(const weight_t *weights, Py_ssize_t size, bint is_log, double floor, alias_cell *cells,
                            double *work, uint32_t *queue) noexcept nogil
# Compute the law of one table, probability (size,); `mass` (size,) is scratch.
cdef void alias_law(const alias_cell *cells, Py_ssize_t size, uint64_t *mass, double *probability) noexcept nogil


cdef inline Py_ssize_t alias_draw(const alias_cell *cells, Py_ssize_t size, uint64_t word) noexcept nogil:
    """Return the outcome of one 64-bit word.

    In the product of the word and `size`, the upper half is the cell and the lower half is the position in the cell.
    """
    cdef uint64_t cell
    cdef uint64_t place = expfam_mulhilo(word, <uint64_t> size, &cell)
    cdef alias_cell read = cells[cell]
    # Masks and no branch: a branch would be mispredicted every few draws and cost more than all other work here.
    cdef uint32_t own = <uint32_t> 0 - <uint32_t> ((place >> 32) < read.threshold)
    return <Py_ssize_t> (read.alias ^ ((read.alias ^ <uint32_t> cell) & own))


cdef inline Py_ssize_t alias_arena_draw(const alias_arena *a, Py_ssize_t table, uint64_t word) noexcept nogil:
    return alias_draw(a.cells + table * a.size, a.size, word)


cdef inline double alias_arena_probability(const alias_arena *a, Py_ssize_t table, Py_ssize_t j) noexcept nogil:
    return a.probability[table * a.size + j]


cdef inline Py_ssize_t alias_mixture_draw(const alias_arena *a, const Py_ssize_t *tables, const double *shares,
                                          Py_ssize_t m, uint64_t choice, uint64_t word) noexcept nogil:
    """Draw an outcome of the mixture sum_c shares[c] law(tables[c]).

    The shares sum to 1; `choice` and `word` are independent words.
    """
    cdef double rest = <double> (choice >> 11) * (1.0 / 9007199254740992.0)
    cdef Py_ssize_t c, taken = 0
    for c in range(m):
        if shares[c] > 0.0:
            taken = c                   # after rounding, `rest` can be positive beyond the last table with a share
            rest -= shares[c]
            if rest < 0.0:
                break
    return alias_draw(a.cells + tables[taken] * a.size, a.size, word)


cdef class AliasTable:
    cdef readonly object cells          # (size, 2) uint32, thresholds and aliases, read-only
    cdef alias_cell *view
    cdef readonly Py_ssize_t size
    cdef object law                     # (size,) float64, made on first use


cdef class AliasArena:
    cdef object cells                   # (n_tables, size, 2) uint32
    cdef object law                     # (n_tables, size) float64 or None
    cdef object is_filled               # (n_tables,) bool
    cdef readonly double floor
    cdef readonly Py_ssize_t n_tables, size
    cdef alias_arena arena
