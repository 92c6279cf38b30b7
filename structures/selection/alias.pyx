"""Alias tables: draws from a discrete law of K outcomes in O(1).

`AliasTable` is one table, and `AliasArena` holds many. A table (Walker 1977; Vose 1991) cuts the law into K cells of
equal width. Cell k belongs to outcome k up to a threshold, and to one other outcome, its alias, above the threshold.
One 64-bit word gives one draw: in the product of the word and K, the upper 64 bits are the cell and the lower 64 bits
are the position in the cell (Lemire 2019). So the exact probability of every outcome is a number of words over 2**64,
and `probability` counts these words. A table is built in O(K), in one sweep over light and heavy outcomes without
stacks (Huebschle-Schneider and Sanders 2022). It needs 8 bytes for each outcome, and 16 if probabilities are stored.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport INFINITY, frexp, ldexp
from libc.stdint cimport uint32_t, uint64_t
from numpy.random cimport bitgen_t

from expfam.amounts import counted
from expfam.structures.simd.elementary cimport expfam_exp1
from expfam.structures.ground.rng cimport TABLES, philox_aim, philox_init, philox_next64, philox_stream

from expfam.errors import DataError
from expfam.structures.ground.threads import run

cdef extern from *:
    """
    #include "dispatch.h"
    /* Say whether all weights lie in [lowest, inf); find the largest. Only comparisons: the order does not matter. */
    #define ALIAS_RANGE(NAME, TYPE)                                                                 \
        static int NAME(const TYPE *w, ptrdiff_t n, TYPE lowest, TYPE *largest) {                   \
            TYPE tops[8], bad[8];                                                                   \
            ptrdiff_t k = 0;                                                                        \
            int any = 0;                                                                            \
            for (int j = 0; j < 8; j++) tops[j] = lowest, bad[j] = 0;                               \
            for (; k + 8 <= n; k += 8) {                                                            \
                EXPFAM_SIMD                                                                         \
                for (int j = 0; j < 8; j++) {                                                       \
                    const TYPE x = w[k + j];                                                        \
                    tops[j] = x > tops[j] ? x : tops[j];                                            \
                    bad[j] = x >= lowest ? bad[j] : (TYPE)1; /* NaN too */                          \
                }                                                                                   \
            }                                                                                       \
            for (; k < n; k++) {                                                                    \
                tops[0] = w[k] > tops[0] ? w[k] : tops[0];                                          \
                any |= !(w[k] >= lowest);                                                           \
            }                                                                                       \
            for (int j = 0; j < 8; j++) {                                                           \
                *largest = tops[j] > *largest ? tops[j] : *largest;                                 \
                any |= bad[j] > 0;                                                                  \
            }                                                                                       \
            return !any && *largest < (TYPE)INFINITY;                                               \
        }
    ALIAS_RANGE(alias_range_f32, float)
    ALIAS_RANGE(alias_range_f64, double)
    /* Set out = factor w and return its sum. Eight lanes: the same order on every machine, and short dependencies. */
    #define ALIAS_SCALE(NAME, TYPE)                                                                 \
        static double NAME(const TYPE *w, ptrdiff_t n, double factor, double *out) {                \
            double sums[8] = {0};                                                                   \
            ptrdiff_t k = 0;                                                                        \
            for (; k + 8 <= n; k += 8) {                                                            \
                EXPFAM_SIMD                                                                         \
                for (int j = 0; j < 8; j++) {                                                       \
                    const double x = factor * (double)w[k + j];                                     \
                    out[k + j] = x;                                                                 \
                    sums[j] += x;                                                                   \
                }                                                                                   \
            }                                                                                       \
            for (; k < n; k++) sums[0] += out[k] = factor * (double)w[k];                           \
            return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])); \
        }
    ALIAS_SCALE(alias_scale_f32, float)
    ALIAS_SCALE(alias_scale_f64, double)
    """
    bint alias_range_f32(const float *w, Py_ssize_t n, float lowest, float *largest) noexcept nogil
    bint alias_range_f64(const double *w, Py_ssize_t n, double lowest, double *largest) noexcept nogil
    double alias_scale_f32(const float *w, Py_ssize_t n, double factor, double *out) noexcept nogil
    double alias_scale_f64(const double *w, Py_ssize_t n, double factor, double *out) noexcept nogil

cdef double WHOLE = 4294967296.0                # 2**32
cdef double UNIT = 1.0 / 18446744073709551616.0   # 2**-64
cdef Py_ssize_t LARGEST_SIZE = 2**31            # cells are numbered by 32 bits
cdef double SMALLEST_FLOOR = 2.0**-31           # below it the share of one outcome could round to 0
_BLOCK_ENTRIES = 1 << 17                         # entries of a task that builds tables: about a millisecond
_BLOCK_DRAWS = 1 << 16


# ---- building --------------------------------------------------------------------------------------------------------


cdef Py_ssize_t alias_check(const weight_t *weights, Py_ssize_t size, bint is_log, double *largest) noexcept nogil:
    """Check one row of weights and store the largest weight in `largest`.

    Returns ALIAS_OK, ALIAS_NO_MASS, or the position of the first invalid weight.
    """
    cdef weight_t lowest = <weight_t> (-INFINITY if is_log else 0.0)
    cdef weight_t top = lowest
    cdef bint all_weights
    cdef Py_ssize_t k = 0
    if weight_t is float:
        all_weights = alias_range_f32(weights, size, lowest, &top)
    else:
        all_weights = alias_range_f64(weights, size, lowest, &top)
    if not all_weights:
        while lowest <= weights[k] < INFINITY:
            k += 1
        return k
    largest[0] = top
    return ALIAS_OK if top > lowest else ALIAS_NO_MASS


cdef double scale_weights(const weight_t *weights, Py_ssize_t size, bint is_log, double largest,
                          double *out) noexcept nogil:
    """Divide weights by about the largest one into `out` and return their sum.

    This prevents overflow and denormal numbers for every scale of the weights.
    """
    cdef double x, power
    cdef Py_ssize_t k
    cdef int exponent
    if is_log:
        for k in range(size):
            x = weights[k] - largest
            out[k] = expfam_exp1(x) if x > -80.0 else 0.0   # much smaller than the resolution of a threshold
        return alias_scale_f64(out, size, 1.0, out)
    frexp(largest, &exponent)
    # A power of 2 does not round. If the exponent is clipped, the largest weight is about 2**-74 or 2**24: no harm.
    power = ldexp(1.0, min(max(-exponent, -1000), 1000))
    if weight_t is float:
        return alias_scale_f32(weights, size, power, out)
    else:
        return alias_scale_f64(weights, size, power, out)


cdef inline uint32_t threshold_of(double part) noexcept nogil:
    """Round to the nearest multiple of 2**-32, but at most 1 - 2**-32.

    A threshold of 1 cannot be stored: the alias of a full cell gets 2**-32 of it.
    """
    cdef double t = part * WHOLE + 0.5
    return <uint32_t> 0xFFFFFFFF if t >= WHOLE - 1.0 else <uint32_t> 0 if t < 1.0 else <uint32_t> t


cdef Py_ssize_t alias_build(const weight_t *weights, Py_ssize_t size, bint is_log, double floor, alias_cell *cells,
                            double *work, uint32_t *queue) noexcept nogil:
    """Build one table from weights; returns the same as `alias_check`.

    The sweep reads light outcomes (below one cell) from the left end of one queue and heavy ones from the right end.
    """
    cdef double largest = 0.0, scale, part, rest
    cdef Py_ssize_t k, light = 0, n_light = 0, heavy = size, status
    cdef uint32_t i, j, following, fallback = 0
    cdef bint is_light
    status = alias_check(weights, size, is_log, &largest)
    if status != ALIAS_OK:
        return status
    scale = (1.0 - floor) * <double> size / scale_weights(weights, size, is_log, largest, work)
    for k in range(size):
        part = work[k] * scale + floor
        work[k] = part
        queue[n_light] = <uint32_t> k   # write at both ends and keep one: there is no branch to mispredict
        queue[heavy - 1] = <uint32_t> k
        is_light = part < 1.0
        n_light += is_light
        heavy -= not is_light
    if heavy == size:                   # all weights are one cell up to rounding, and all were rounded down
        for k in range(size):
            cells[k].threshold, cells[k].alias = <uint32_t> 0xFFFFFFFF, <uint32_t> k
        return ALIAS_OK
    heavy = size - 1
    j = queue[heavy]
    fallback = j
    rest = work[j]
    while True:
        if rest >= 1.0:
            if light == n_light:        # all others are heavy: one cell each, up to rounding
                break
            i = queue[light]
            light += 1
            cells[i].threshold, cells[i].alias = threshold_of(work[i]), j
            rest -= 1.0 - work[i]
        elif heavy > n_light:           # outcome j has become light: the next heavy one fills its cell
            heavy -= 1
            following = queue[heavy]
            cells[j].threshold, cells[j].alias = threshold_of(rest), following
            rest = work[following] - (1.0 - rest)
            j = following
        else:
            break
    # The remaining outcomes are one cell wide up to rounding; but an outcome without weight must never be drawn.
    while light < n_light:
        i = queue[light]
        light += 1
        if work[i] > 0.0:
            cells[i].threshold, cells[i].alias = <uint32_t> 0xFFFFFFFF, i
        else:
            cells[i].threshold, cells[i].alias = 0, fallback
    cells[j].threshold, cells[j].alias = <uint32_t> 0xFFFFFFFF, j
    while heavy > n_light:
        heavy -= 1
        i = queue[heavy]
        cells[i].threshold, cells[i].alias = <uint32_t> 0xFFFFFFFF, i
    return ALIAS_OK


cdef void alias_law(const alias_cell *cells, Py_ssize_t size, uint64_t *mass, double *probability) noexcept nogil:
    """Compute the probability of each outcome: its number of words over 2**64.

    Cell k contains the words w with k 2**64 <= w size < (k + 1) 2**64. The words below k 2**64 + threshold 2**32 belong
    to outcome k. These numbers are differences of quotients rounded up; remainders are carried from cell to cell.
    """
    cdef uint64_t K = <uint64_t> size, ones = <uint64_t> 0 - 1, width, own, lack = 0, quotient, remainder, total = 0
    cdef Py_ssize_t k
    quotient = ones // K
    remainder = ones - quotient * K + 1
    if remainder == K:
        quotient += 1                   # size 1: 2**64 wraps to 0; corrected below
        remainder = 0
    for k in range(size):
        mass[k] = 0
    for k in range(size):
        # start_k: first word of cell k; lack = size start_k - k 2**64, which is below size
        own = 0
        if cells[k].threshold:
            own = (((<uint64_t> cells[k].threshold) << 32) - lack - 1) // K + 1
        if remainder > lack:
            width = quotient + 1
            lack = K - (remainder - lack)
        else:
            width = quotient
            lack = lack - remainder
        mass[k] += own
        mass[cells[k].alias] += width - own
    for k in range(size):
        total |= mass[k]
        probability[k] = <double> mass[k] * UNIT
    if total == 0:                      # 2**64 wrapped to 0: one outcome has all words
        k = 0 if cells[0].alias == 0 or cells[0].threshold else cells[0].alias
        probability[k] = 1.0


# ---- between Python and C --------------------------------------------------------------------------------------------


cdef bitgen_t *bitgen_of(rng) except NULL:
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, such as numpy.random.default_rng(0); got {rng!r}")
    return <bitgen_t *> PyCapsule_GetPointer(rng.bit_generator.capsule, "BitGenerator")


cdef enum:
    WORDS = 128                         # words drawn in one batch, so that reads of cells overlap


cdef inline void fill_words(bitgen_t *bitgen, uint64_t *words, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        words[i] = bitgen.next_uint64(bitgen.state)


cdef double checked_floor(floor) except -1.0:
    if not (floor == 0.0 or SMALLEST_FLOOR <= floor <= 1.0):
        raise ValueError(f"floor, the share of the uniform law, must be 0 or lie in [2**-31, 1]; got {floor!r}")
    return floor


def _as_weights(weights, n_dimensions):
    """Return weights as a contiguous float32 or float64 array after checking the dimensions.

    float32 weights stay float32; all others become float64.
    """
    weights = np.asarray(weights)
    if weights.dtype != np.float32:
        weights = weights.astype(np.float64, copy=False)
    if weights.ndim != n_dimensions or 0 in weights.shape:
        raise DataError(f"weights must have {n_dimensions} dimension(s) and at least one entry; got {weights.shape}")
    size = weights.shape[n_dimensions - 1]
    if size > LARGEST_SIZE:
        raise DataError(f"a table has at most {LARGEST_SIZE} outcomes; got {size}")
    return np.ascontiguousarray(weights)


def _refuse(row, status, weights, is_log, first_row):
    """Raise a DataError for a row that is not a law; it names position and value."""
    where = f"row {first_row + row}, " if first_row is not None else ""
    kind = "log-weight" if is_log else "weight"
    if status == ALIAS_NO_MASS:
        nothing = "-inf" if is_log else "zero"
        raise DataError(f"{where}all {kind}s are {nothing}: give at least one outcome some probability")
    wanted = "below +inf and not NaN" if is_log else "finite and not negative"
    raise DataError(f"{where}position {status}: {kind} {weights[row, status]} must be {wanted}")


cdef tuple check_rows(weights, bint is_log, Py_ssize_t begin, Py_ssize_t end):
    """Return the first row in [begin, end) that is not a law and its status, or None."""
    cdef Py_ssize_t g, status = ALIAS_OK, size = weights.shape[1]
    cdef double largest
    cdef const float[:, ::1] single
    cdef const double[:, ::1] double_
    if weights.dtype == np.float32:
        single = weights
        with nogil:
            for g in range(begin, end):
                status = alias_check(&single[g, 0], size, is_log, &largest)
                if status != ALIAS_OK:
                    break
    else:
        double_ = weights
        with nogil:
            for g in range(begin, end):
                status = alias_check(&double_[g, 0], size, is_log, &largest)
                if status != ALIAS_OK:
                    break
    return None if status == ALIAS_OK else (g, status)


cdef void build_rows(weights, bint is_log, double floor, Py_ssize_t begin, Py_ssize_t end, alias_cell *cells,
                     double *law):
    """Build tables of checked rows: row g of `weights` into row g of `cells` and `law`.

    `law` may be NULL.
    """
    cdef Py_ssize_t g, size = weights.shape[1]
    cdef double[::1] work = np.empty(size)
    cdef uint32_t[::1] queue = np.empty(size, dtype=np.uint32)
    cdef uint64_t[::1] mass = np.empty(size, dtype=np.uint64)
    cdef const float[:, ::1] single
    cdef const double[:, ::1] double_
    if weights.dtype == np.float32:
        single = weights
        with nogil:
            for g in range(begin, end):
                alias_build(&single[g, 0], size, is_log, floor, cells + g * size, &work[0], &queue[0])
    else:
        double_ = weights
        with nogil:
            for g in range(begin, end):
                alias_build(&double_[g, 0], size, is_log, floor, cells + g * size, &work[0], &queue[0])
    if law != NULL:
        with nogil:
            for g in range(begin, end):
                alias_law(cells + g * size, size, &mass[0], law + g * size)


def _check_cells(cells, n_dimensions):
    """Return cells from an archive after checking shape, type and aliases."""
    cells = np.array(cells, order="C")
    shape = cells.shape
    if cells.dtype != np.uint32 or cells.ndim != n_dimensions or 0 in shape or shape[n_dimensions - 1] != 2:
        wanted = "(size, 2)" if n_dimensions == 2 else "(n_tables, size, 2)"
        raise DataError(f"cells must be uint32 of shape {wanted}; got {cells.dtype} of shape {shape}")
    largest, size = cells[..., 1].max(), shape[n_dimensions - 2]
    if largest >= size:
        raise DataError(f"an alias is {largest}, outcomes are below {size}: damaged cells")
    return cells


cdef alias_cell *pointer_of(cells):
    cdef uint32_t[::1] flat = cells.reshape(-1)
    return <alias_cell *> &flat[0]


# ---- one table -------------------------------------------------------------------------------------------------------


cdef class AliasTable:
    """Table of one discrete law; a draw costs O(1).

    Parameters
    ----------
    weights : (K,) array_like of float
        Finite, not negative, not all zero. They need not sum to 1. float32 is read without a copy.
    is_log : bool
        Whether the weights are logarithms (nats). An outcome with -inf is never drawn.
    floor : float
        Share of the uniform law in the mixture with it: 0, or in [2**-31, 1]. With a positive share every outcome has
        positive probability.

    Attributes
    ----------
    size : int
        Number of outcomes K.
    cells : (K, 2) uint32 ndarray
        Threshold (of 2**32) and alias of each cell, read-only.

    Raises
    ------
    DataError
        A weight is negative, infinite or NaN (the message gives its position), or there is no weight.

    Notes
    -----
    Building costs O(K), a draw O(1) (Vose 1991). The probability of an outcome differs from its normalised weight by at
    most about 2**-33 / K for each cell that contains the outcome. An outcome whose share is below 2**-33 / K may never
    be drawn. `probability` returns the exact law of the cells.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures import AliasTable
    >>> table = AliasTable([1.0, 0.0, 3.0])
    >>> table.probability().round(6)
    array([0.25, 0.  , 0.75])
    >>> table.draw(np.random.default_rng(0), 6).shape
    (6,)
    """

    def __init__(self, weights, *, is_log=False, floor=0.0):
        cdef double share = checked_floor(floor)
        rows = _as_weights(weights, 1)[None]
        self.size = rows.shape[1]
        found = check_rows(rows, is_log, 0, 1)
        if found is not None:
            _refuse(*found, rows, is_log, None)
        cells = np.empty((self.size, 2), dtype=np.uint32)
        self.view = pointer_of(cells)
        build_rows(rows, is_log, share, 0, 1, self.view, NULL)
        cells.flags.writeable = False
        self.cells = cells

    def draw(self, rng, size=None):
        """Draw independent outcomes; each draw uses one 64-bit word.

        Parameters
        ----------
        rng : numpy.random.Generator
        size : int, tuple or None
            Shape of the result; None for a single int.

        Returns
        -------
        int or intp ndarray
        """
        cdef bitgen_t *bitgen = bitgen_of(rng)
        out = np.empty(1 if size is None else size, dtype=np.intp)
        cdef Py_ssize_t[::1] flat = out.reshape(-1)
        cdef uint64_t words[WORDS]
        cdef Py_ssize_t at = 0, i, n
        with rng.bit_generator.lock, nogil:
            while at < flat.shape[0]:
                n = min(<Py_ssize_t> WORDS, flat.shape[0] - at)
                fill_words(bitgen, words, n)
                for i in range(n):
                    flat[at + i] = alias_draw(self.view, self.size, words[i])
                at += n
        return int(out[0]) if size is None else out

    def draw_words(self, words):
        """Return the outcomes of given 64-bit words.

        Parameters
        ----------
        words : array_like of uint64

        Returns
        -------
        intp ndarray of the same shape
        """
        words = np.ascontiguousarray(words, dtype=np.uint64)
        out = np.empty(words.shape, dtype=np.intp)
        cdef const uint64_t[::1] given = words.reshape(-1)
        cdef Py_ssize_t[::1] flat = out.reshape(-1)
        cdef Py_ssize_t i
        with nogil:
            for i in range(flat.shape[0]):
                flat[i] = alias_draw(self.view, self.size, given[i])
        return out

    def probability(self, j=None):
        """Return the exact probability of each outcome, counted from the cells.

        Parameters
        ----------
        j : int, array_like of int or None
            Outcomes; None for all.

        Returns
        -------
        float64 ndarray, or float for one outcome
        """
        cdef double[::1] law
        cdef uint64_t[::1] mass
        if self.law is None:
            law = made = np.empty(self.size)
            mass = np.empty(self.size, dtype=np.uint64)
            with nogil:
                alias_law(self.view, self.size, &mass[0], &law[0])
            self.law = made
        return self.law.copy() if j is None else self.law[_checked_index(j, self.size, "outcome")]

    def log_probability(self, j=None):
        """Return the log of `probability`, nats; -inf for an outcome that is never drawn."""
        with np.errstate(divide="ignore"):
            return np.log(self.probability(j))

    def to_arrays(self):
        """Return the state as arrays: ``{"cells": (K, 2) uint32}``."""
        return {"cells": self.cells}

    @classmethod
    def from_arrays(cls, arrays):
        """Make the table from the arrays of `to_arrays` after checking them."""
        cdef AliasTable table = cls.__new__(cls)
        cells = _check_cells(arrays["cells"], 2)
        table.size = cells.shape[0]
        table.view = pointer_of(cells)
        cells.flags.writeable = False
        table.cells = cells
        return table

    def __reduce__(self):
        return type(self).from_arrays, (self.to_arrays(),)

    def __repr__(self):
        return f"AliasTable of {counted(self.size, 'outcome')}"


def _checked_index(index, bound, noun):
    """Return integers in [0, bound) as contiguous intp; raise an IndexError otherwise."""
    index = np.asarray(index)
    if index.dtype.kind not in "iu":
        raise TypeError(f"{noun} numbers must be integers; got {index.dtype}")
    if index.size and (index.min() < 0 or index.max() >= bound):
        bad = index.min() if index.min() < 0 else index.max()
        raise IndexError(f"{noun} {bad} does not exist: there are {bound}")
    return np.ascontiguousarray(index, dtype=np.intp).reshape(index.shape)


# ---- many tables -----------------------------------------------------------------------------------------------------


cdef class AliasArena:
    """Many alias tables over the same outcomes, in one block of memory.

    Parameters
    ----------
    n_tables, size : int
        Number of tables G and number of outcomes K.
    floor : float
        Share of the uniform law that is mixed into every table: 0, or in [2**-31, 1].
    keep_probability : bool
        Whether to store the law of every table. Acceptance ratios and log probabilities of mixtures need it. It takes
        16 instead of 8 bytes for each entry, and twice the time to build.

    Notes
    -----
    A draw from a mixture sum_m c_m q_m of tables uses two words, one for the table and one for the outcome. Its log
    probability is the one under the whole mixture, not under the table that was chosen. Rows are built in parallel, and
    draws use counter-based streams, so results do not depend on `n_threads`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures import AliasArena
    >>> arena = AliasArena(2, 3, keep_probability=True)
    >>> arena.fill([[1.0, 1.0, 2.0], [0.0, 0.0, 1.0]])
    >>> arena.draw([1, 1], np.random.default_rng(0))
    array([2, 2])
    >>> arena.log_probability([[0, 1]], [2], shares=[0.5, 0.5]).round(4)
    array([-0.2877])
    """

    def __cinit__(self, n_tables, size, *, floor=0.0, keep_probability=False):
        if n_tables < 1 or not 1 <= size <= LARGEST_SIZE:
            raise ValueError(f"an arena has at least one table of 1 to 2**31 outcomes; got {n_tables} of {size}")
        self.floor = checked_floor(floor)
        self.cells = np.zeros((n_tables, size, 2), dtype=np.uint32)
        self.is_filled = np.zeros(n_tables, dtype=bool)
        self.arena.cells = pointer_of(self.cells)
        self.n_tables, self.size = n_tables, size
        self.arena.n_tables, self.arena.size = n_tables, size
        self.arena.probability = NULL
        cdef double[:, ::1] law
        if keep_probability:
            self.law = law = np.zeros((n_tables, size))
            self.arena.probability = &law[0, 0]

    def fill(self, weights, *, first=0, is_log=False, n_threads=1):
        """Build the tables ``first, first + 1, ...`` again, one from each row of weights.

        Parameters
        ----------
        weights : (G, K) array_like of float, or fewer rows
            Each row is finite, not negative and not all zero. Logarithms (nats) are below +inf and not all -inf.
        first : int
            Number of the table that the first row builds.
        is_log : bool
            Whether the weights are logarithms.
        n_threads : int or None

        Raises
        ------
        DataError
            A row has other weights; the message names the first such row and position. No table has been changed.
        """
        weights = _as_weights(weights, 2)
        n_rows, size = weights.shape
        if size != self.size or not 0 <= first <= self.n_tables - n_rows:
            raise DataError(
                f"weights of shape {weights.shape} from table {first} on do not fit {counted(self.n_tables, 'table')} "
                f"of {counted(self.size, 'outcome')}"
            )
        step = max(1, _BLOCK_ENTRIES // size)
        blocks = [(weights, is_log, b, min(b + step, n_rows)) for b in range(0, n_rows, step)]
        for found in run(check_rows, blocks, n_threads):
            if found is not None:
                _refuse(*found, weights, is_log, first)
        run(self._build, [(*block, first) for block in blocks], n_threads)
        self.is_filled[first : first + n_rows] = True

    def _build(self, weights, is_log, begin, end, first):
        cdef Py_ssize_t offset = first * self.arena.size
        cdef double *law = NULL if self.arena.probability == NULL else self.arena.probability + offset
        build_rows(weights, is_log, self.floor, begin, end, self.arena.cells + offset, law)

    def _checked_tables(self, tables):
        tables = _checked_index(tables, self.n_tables, "table")
        if not self.is_filled.all() and not self.is_filled[tables].all():
            missing = tables[~self.is_filled[tables]]
            raise ValueError(f"table {missing.flat[0]} has not been filled: call fill first")
        return tables

    def draw(self, tables, rng):
        """Draw one outcome from each of the given tables.

        Parameters
        ----------
        tables : array_like of int
        rng : numpy.random.Generator

        Returns
        -------
        intp ndarray of the shape of `tables`
        """
        cdef bitgen_t *bitgen = bitgen_of(rng)
        tables = self._checked_tables(tables)
        out = np.empty(tables.shape, dtype=np.intp)
        cdef const Py_ssize_t[::1] g = tables.reshape(-1)
        cdef Py_ssize_t[::1] flat = out.reshape(-1)
        cdef uint64_t words[WORDS]
        cdef Py_ssize_t at = 0, i, n
        with rng.bit_generator.lock, nogil:
            while at < flat.shape[0]:
                n = min(<Py_ssize_t> WORDS, flat.shape[0] - at)
                fill_words(bitgen, words, n)
                for i in range(n):
                    flat[at + i] = alias_arena_draw(&self.arena, g[at + i], words[i])
                at += n
        return out

    def draw_streams(self, tables, seed, *, shares=None, first_unit=0, step=0, n_threads=1):
        """Draw one outcome for each datum from its own counter-based stream.

        The result is the same for any number of threads.

        Parameters
        ----------
        tables : (N,) array_like of int, or (N, M)
            Table of each datum. With `shares`: the M tables of the mixture of each datum.
        seed : int in [0, 2**64)
        shares : (M,) or (N, M) array_like of float, optional
            Weight of each table in the mixture, not negative. Each row is normalised.
        first_unit, step : int
            Datum i reads the stream (seed, "tables"; unit ``first_unit + i``, step). It uses the first word of the
            stream, or for a mixture the first two words (table, outcome).
        n_threads : int or None

        Returns
        -------
        (N,) intp ndarray
        """
        tables = self._checked_tables(tables)
        if tables.ndim != (1 if shares is None else 2):
            raise ValueError(f"tables must be (N,), or (N, M) with shares; got {tables.shape}")
        tables = tables.reshape(len(tables), -1)
        given = None if shares is None else _checked_shares(shares, tables.shape)
        out = np.empty(len(tables), dtype=np.intp)
        blocks = range(0, len(tables), _BLOCK_DRAWS)
        tasks = []
        for b in blocks:
            part = slice(b, b + _BLOCK_DRAWS)
            tasks.append((tables[part], None if given is None else given[part], seed, first_unit + b, step, out[part]))
        run(self._draw_block, tasks, n_threads)
        return out

    def _draw_block(self, const Py_ssize_t[:, ::1] tables, shares, uint64_t seed, uint64_t unit, uint64_t step,
                    Py_ssize_t[::1] out):
        cdef philox_stream stream
        cdef uint64_t choice
        cdef const double[:, ::1] share
        cdef uint64_t words[WORDS]
        cdef Py_ssize_t at = 0, i, n, m = tables.shape[1]
        philox_init(&stream, seed, TABLES)
        if shares is None:
            with nogil:
                while at < out.shape[0]:
                    n = min(<Py_ssize_t> WORDS, out.shape[0] - at)
                    for i in range(n):
                        philox_aim(&stream, unit + <uint64_t> (at + i), step)
                        words[i] = philox_next64(&stream)
                    for i in range(n):
                        out[at + i] = alias_arena_draw(&self.arena, tables[at + i, 0], words[i])
                    at += n
            return
        share = shares
        with nogil:
            for i in range(out.shape[0]):
                philox_aim(&stream, unit + <uint64_t> i, step)
                choice = philox_next64(&stream)
                out[i] = alias_mixture_draw(&self.arena, &tables[i, 0], &share[i, 0], m, choice,
                                            philox_next64(&stream))

    def probability(self, table):
        """Return the exact probabilities (K,) with which table number `table` draws, from its cells."""
        cdef Py_ssize_t g = self._checked_tables(table)
        cdef double[::1] law
        cdef uint64_t[::1] mass
        if self.law is not None:
            return self.law[g].copy()
        law = out = np.empty(self.size)
        mass = np.empty(self.size, dtype=np.uint64)
        with nogil:
            alias_law(self.arena.cells + g * self.arena.size, self.arena.size, &mass[0], &law[0])
        return out

    def log_probability(self, tables, outcomes, *, shares=None):
        """Return the log probability (nats) of one outcome for each datum.

        It is the log probability under the table of the datum, or under its whole mixture.

        Parameters
        ----------
        tables : (N,) array_like of int, or (N, M) with shares
        outcomes : (N,) array_like of int
        shares : (M,) or (N, M) array_like of float, optional

        Returns
        -------
        (N,) float64 ndarray
            Log probability under the exact law of the cells; -inf for an outcome that is never drawn.

        Raises
        ------
        ValueError
            The arena was made without `keep_probability`.
        """
        if self.law is None:
            raise ValueError("this arena keeps no probabilities: make it with keep_probability=True")
        tables = self._checked_tables(tables)
        outcomes = _checked_index(outcomes, self.size, "outcome")
        if outcomes.ndim != 1 or tables.shape[:1] != outcomes.shape or tables.ndim != (1 if shares is None else 2):
            raise ValueError(
                "tables must be (N,), or (N, M) with shares, and outcomes (N,); "
                f"got {tables.shape} and {outcomes.shape}"
            )
        with np.errstate(divide="ignore"):
            if shares is None:
                return np.log(self.law[tables, outcomes])
            return np.log((_checked_shares(shares, tables.shape) * self.law[tables, outcomes[:, None]]).sum(axis=1))

    def to_arrays(self):
        """Return the state as arrays: cells, is_filled, floor and keep_probability."""
        return {
            "cells": self.cells.copy(),
            "is_filled": self.is_filled.copy(),
            "floor": np.float64(self.floor),
            "keep_probability": np.bool_(self.law is not None),
        }

    @classmethod
    def from_arrays(cls, arrays):
        """Make the arena from the arrays of `to_arrays` after checking them.

        Stored laws are counted again from the cells.
        """
        cdef AliasArena arena
        cells = _check_cells(arrays["cells"], 3)
        if np.shape(arrays["is_filled"]) != cells.shape[:1]:
            raise DataError(f"is_filled must be ({len(cells)},); got {np.shape(arrays['is_filled'])}")
        keep = bool(arrays["keep_probability"])
        arena = cls(cells.shape[0], cells.shape[1], floor=float(arrays["floor"]), keep_probability=keep)
        arena.cells[:] = cells
        arena.is_filled[:] = arrays["is_filled"]
        cdef uint64_t[::1] mass = np.empty(arena.arena.size, dtype=np.uint64)
        cdef Py_ssize_t g, size = arena.arena.size
        if keep:
            with nogil:
                for g in range(arena.arena.n_tables):
                    alias_law(arena.arena.cells + g * size, size, &mass[0], arena.arena.probability + g * size)
        return arena

    def __reduce__(self):
        return type(self).from_arrays, (self.to_arrays(),)

    def __repr__(self):
        return f"AliasArena of {counted(self.n_tables, 'table')} of {counted(self.size, 'outcome')}"


def _checked_shares(shares, shape):
    """Return the shares of mixtures as (N, M) float64 with rows that sum to 1."""
    shares = np.asarray(shares, dtype=np.float64)
    try:
        shares = np.broadcast_to(shares, shape)
    except ValueError:
        raise ValueError(f"shares must be (M,) or (N, M) = {shape}; got {shares.shape}") from None
    totals = shares.sum(axis=1)
    if not ((shares >= 0).all() and (totals > 0).all() and np.isfinite(totals).all()):
        raise DataError("shares must be finite, not negative, and not all zero in a row")
    return np.ascontiguousarray(shares / totals[:, None])
