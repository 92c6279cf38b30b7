"""How many values of some rows are repeats, column by column, and which rows to look at.

Among N rows of which half hold repeats, n that are drawn at random hold n^2 / 2N repeats or more: as many rows as the
square root of their number are enough to see them.
"""

import numpy as np

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from expfam.structures.ground.arrays cimport address, in_lines
from expfam.structures.ground.team cimport Team
from expfam.structures.rows.row_copies cimport checked_numbers, rows_ahead
from expfam.structures.simd.prefetch cimport EXPFAM_PREFETCH
from expfam.structures.simd.sign_codes cimport expfam_mix64
from expfam.structures.simd.value_hashes cimport expfam_low_cells

from expfam.structures.rows.distinct_values import STEPS

cdef enum:
    DRAWS = 16              # of a stretch of rows
    GROUP = 16              # most columns that are read together

cdef uint32_t FREE = 0xFFFFFFFF     # steps of the grid are below 2^30

ctypedef fused real:
    float
    double

ctypedef struct counting:
    const char *rows
    Py_ssize_t n, row_bytes, ahead
    const Py_ssize_t *numbers   # of the rows that are read, or NULL for all
    bint is_single
    Py_ssize_t F
    Py_ssize_t group            # columns that are read together
    const Py_ssize_t *columns   # (F,)
    const double *origin        # (F,), and so are those below
    const double *scale
    const double *enough
    int64_t *repeats
    int64_t *values
    uint32_t *steps             # (threads, GROUP, n) steps of the grid, FREE for NaN
    uint32_t *tables            # (threads, mask + 1) steps that were seen, FREE in the other places
    Py_ssize_t mask


def drawn_rows(Py_ssize_t first, Py_ssize_t stop, double share):
    """Return which of the rows first..stop-1 are drawn: (n,) intp ndarray, ascending.

    Of all rows about `share` are drawn, less those that are drawn twice. Parts of the rows draw what the whole does.

    >>> import numpy as np
    >>> from expfam.structures.rows.repeats import drawn_rows
    >>> parts = [drawn_rows(0, 2500, 0.01), drawn_rows(2500, 7000, 0.01)]
    >>> bool((np.concatenate(parts) == drawn_rows(0, 7000, 0.01)).all()), 60 < len(drawn_rows(0, 7000, 0.01)) < 75
    (True, True)
    """
    # Stretches of rows have as many draws each, at random: rows that lie side by side are drawn as seldom as others.
    cdef Py_ssize_t stretch = max(DRAWS, <Py_ssize_t> (DRAWS / share)), begin = first // stretch * stretch
    cdef Py_ssize_t n = 0, i, row, _draw
    cdef uint64_t t
    drawn = np.zeros((stretch + 7) // 8 * 8, dtype=np.uint8)
    found = np.empty(((stop - begin) // stretch + 1) * DRAWS, dtype=np.intp)
    cdef unsigned char[::1] is_drawn = drawn
    cdef uint32_t[::1] places = np.empty(drawn.size, dtype=np.uint32)
    cdef Py_ssize_t[::1] numbers = found
    with nogil:
        while begin < stop:
            t = <uint64_t> (begin // stretch * DRAWS)
            for _draw in range(DRAWS):
                t += 1
                is_drawn[<Py_ssize_t> ((expfam_mix64(t) >> 32) * <uint64_t> stretch >> 32)] = 1
            for i in range(expfam_low_cells(&is_drawn[0], stretch, &places[0])):
                row = begin + places[i]
                is_drawn[places[i]] = 0
                if first <= row < stop:
                    numbers[n] = row
                    n += 1
            begin += stretch
    return found[:n]


def repeats(const real[:, ::1] rows, numbers, columns, low, high, enough, Team team=None):
    """Return how many values of each column equal an earlier one, and how many values it has.

    Values are equal if they are in one of 1e9 steps between the least and the largest value, as in `DistinctValues`.
    NaN is no value.

    Parameters
    ----------
    rows : (N, V) float32 or float64 ndarray, C-contiguous
    numbers : (n,) intp ndarray or None
        The rows that are read; None for all.
    columns : (F,) intp ndarray
        The columns that are read.
    low, high : (F,) float64 ndarrays
        No value lies outside.
    enough : (F,) float64 ndarray
        From this number of repeats on those of a column are not counted further.
    team : Team, optional
        Its threads share the columns.

    Returns
    -------
    two (F,) int64 ndarrays

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.rows.repeats import repeats
    >>> rows, enough = np.array([[0.5, 1.0], [0.5, np.nan], [0.5, 2.0]]), np.full(2, 9.0)
    >>> low, high = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    >>> [found.tolist() for found in repeats(rows, None, np.arange(2), low, high, enough)]
    [[2, 0], [3, 2]]
    """
    cdef Team readers = Team(1) if team is None else team
    cdef counting job
    cdef Py_ssize_t F = len(columns), n = rows.shape[0] if numbers is None else len(numbers)
    cdef const Py_ssize_t[::1] chosen = None if numbers is None else checked_numbers(numbers, rows.shape[0])
    cdef const Py_ssize_t[::1] of_columns = checked_numbers(columns, rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = STEPS / (high - low)
    given = np.array([low, np.where((high > low) & np.isfinite(scale), scale, 0.0), enough], dtype=np.float64)
    found = np.zeros((2, F), dtype=np.int64)
    if not (n and F):
        return found[0], found[1]
    group = min(GROUP, (F + readers.n_threads - 1) // readers.n_threads)
    places = 1 << (n + n // 2).bit_length()
    tables = in_lines((readers.n_threads, places), np.uint32)
    steps = in_lines((readers.n_threads, group * n), np.uint32)
    job.rows, job.n, job.row_bytes, job.is_single = <const char *> &rows[0, 0], n, rows.strides[0], real is float
    job.ahead, job.numbers = rows_ahead(group * sizeof(real)), NULL if chosen is None else &chosen[0]
    job.F, job.group, job.columns, job.origin = F, group, &of_columns[0], <double *> address(given)
    job.scale, job.enough, job.repeats = job.origin + F, job.origin + 2 * F, <int64_t *> address(found)
    job.values, job.steps, job.tables = job.repeats + F, <uint32_t *> address(steps), <uint32_t *> address(tables)
    job.mask = places - 1
    with nogil:
        readers.share(count_group, &job, (F + job.group - 1) // job.group)
    return found[0], found[1]


cdef void count_group(void *work, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    """Count the repeats in a few columns; those that lie side by side are read together."""
    cdef counting *job = <counting *> work
    cdef Py_ssize_t first = item * job.group, F = min(job.group, job.F - first), i, j, row
    cdef uint32_t *steps = job.steps + thread * job.group * job.n
    cdef const char *cells
    cdef double x, step
    for i in range(job.n):
        row = i if job.numbers == NULL else job.numbers[i]
        if job.numbers != NULL and i + job.ahead < job.n:
            EXPFAM_PREFETCH(job.rows + job.numbers[i + job.ahead] * job.row_bytes
                            + job.columns[first] * (4 if job.is_single else 8))
        cells = job.rows + row * job.row_bytes
        for j in range(F):
            if job.is_single:
                x = (<const float *> cells)[job.columns[first + j]]
            else:
                x = (<const double *> cells)[job.columns[first + j]]
            steps[j * job.n + i] = FREE
            if x == x:
                step = (x - job.origin[first + j]) * job.scale[first + j] + 0.5
                steps[j * job.n + i] = <uint32_t> step if step == step else 0   # inf times 0 in an endless column
    for j in range(F):
        count_column(job, first + j, steps + j * job.n, job.tables + thread * (job.mask + 1))


cdef void count_column(counting *job, Py_ssize_t j, const uint32_t *steps, uint32_t *table) noexcept nogil:
    """Count the repeats among the steps of a column."""
    cdef Py_ssize_t i, h
    cdef int64_t n_repeats = 0, n_values = 0
    memset(table, 0xFF, (job.mask + 1) * sizeof(uint32_t))
    for i in range(job.n):
        n_values += steps[i] != FREE
        if steps[i] == FREE or n_repeats >= job.enough[j]:
            continue
        h = <Py_ssize_t> (expfam_mix64(<uint64_t> steps[i]) & <uint64_t> job.mask)
        while table[h] != FREE and table[h] != steps[i]:
            h = (h + 1) & job.mask
        n_repeats += table[h] == steps[i]
        table[h] = steps[i]
    job.repeats[j], job.values[j] = n_repeats, n_values
