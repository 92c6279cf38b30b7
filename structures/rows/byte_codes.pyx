"""Rows and points as small integers, whose products are bounds of products of real numbers.

With the codes x^ of a row and w^ of a point, whose entries are integers from -127 to 127 times one scale each,

    <x, w> = <x^, w^> + <x - x^, w> + <x^, w - w^>,

so by Cauchy and Schwarz the product of the codes is at most |x - x^| |w| + |x^| |w - w^| away. The bounds cover all
rounding in single precision, too. Machines with instructions for products of bytes compute <x^, w^> in a fourth of the
time of a product in single precision; `has_byte_products` tells whether this one has them.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int8_t, int32_t, uint8_t
from libc.string cimport memset

from expfam.structures.simd.byte_products cimport (
    EXPFAM_CODE_GROUP, EXPFAM_CODE_POINTS, EXPFAM_CODE_ROWS, expfam_byte_isa, expfam_byte_products, expfam_coded,
    expfam_largest_entry,
)
from expfam.structures.simd.dense_scores cimport expfam_code_bounds, expfam_places_above

MOST_COLUMNS = 1 << 16                  # whose products stay within 32 bits
LEAST_COLUMNS = 48                      # to code a row of fewer takes what its products save
LEAST_POINTS = 64                       # the same of points
_LEAST_SOFT_POINTS = 128                # where all scores are written too, be they bounds or not

cdef enum:
    OFFSET = 128                        # of stored entries of points
    BLOCK_BYTES = 1 << 15               # points that stay in a near cache while rows are multiplied
cdef float LARGEST_CODE = 127.0
cdef float LEAST_SCALE = 1e-15          # products and squares of smaller ones could underflow
cdef double ROUNDING = 2.0 ** -19       # more than all roundings of a product and of the codes, relative to |x| |w|
cdef double UNIT = 2.0 ** -24           # rounding of single precision
cdef double UP = 1.0 + 2.0 ** -22       # makes a number in single precision an upper bound
cdef double OWN_ROUNDING = 2.0 ** -20   # more than all roundings of a bias, relative to it
cdef double WIDEST = 1e6                # scales of columns lie within this factor of 1
cdef float NEVER = -1e30                # bias of places without a point


def has_byte_products():
    """Tell whether products of bytes take less time here than products in single precision."""
    return expfam_byte_isa() > 0


def suits_codes(n_points, n_columns, *, is_soft=False):
    """Tell whether points are many and wide enough for codes to save time.

    Each row saves alike; those who code points for a few hundred rows alone look at the number of rows themselves.

    Parameters
    ----------
    n_points, n_columns : int
    is_soft : bool
        Whether scores of all points are asked for, not only those of the best.

    Examples
    --------
    >>> from expfam.structures.rows.byte_codes import suits_codes
    >>> suits_codes(64, 48), suits_codes(64, 48, is_soft=True), suits_codes(1000, 10)
    (True, False, False)
    """
    least = _LEAST_SOFT_POINTS if is_soft else LEAST_POINTS
    return n_points >= least and LEAST_COLUMNS <= n_columns <= MOST_COLUMNS


cdef Py_ssize_t _width(Py_ssize_t d) except -1:
    if not 1 <= d <= MOST_COLUMNS:
        raise ValueError(f"codes have 1 to {MOST_COLUMNS} columns; got {d}")
    return (d + 3) // 4 * 4


ctypedef struct coded_vector:
    float scale
    int32_t sum         # of the codes
    double error        # bounds of |x - code|, |x| and |code|
    double length
    double kept


cdef coded_vector coded(const float *x, Py_ssize_t d, int8_t *codes) noexcept nogil:
    """Code the finite entries of x; where they are very small, all codes are 0."""
    cdef coded_vector found
    cdef double squares[3], above
    above = 1.0 + 2.0 * (d + 8) * UNIT              # sums of squares in single precision are wrong by less
    found.scale = expfam_largest_entry(x, d) / LARGEST_CODE
    if not LEAST_SCALE <= found.scale < INFINITY:
        memset(codes, 0, d)
        found.sum, found.kept = 0, 0.0
        found.error = INFINITY if found.scale == INFINITY else sqrt(<double> d) * LEAST_SCALE * 2.0 * LARGEST_CODE
        found.length = found.error
        found.scale = 0.0
        return found
    found.sum = expfam_coded(x, found.scale, d, codes, squares)
    found.length, found.kept = sqrt(squares[1]) * above, sqrt(squares[2]) * above
    found.error = sqrt(squares[0]) * above + ROUNDING * found.length
    return found


def column_scales(reach, spread):
    """Return factors of rows and divisors of points with which codes are closest: (d,) float64.

    An error is a share of the largest entry of a row times the length of a point, and the other way round. With these
    factors rows and points have the same sizes in each column: what is lost are entries that matter least.

    Parameters
    ----------
    reach : (d,) ndarray
        Largest sizes of the entries of points.
    spread : (d,) ndarray
        Sizes of the entries of rows.
    """
    is_even = (reach > 0.0) & (spread > 0.0)
    ratio = np.divide(reach, spread, out=np.ones(len(reach)), where=is_even)
    return np.clip(np.sqrt(ratio), 1.0 / WIDEST, WIDEST)


cdef class CodedRows:
    """Room for rows of numbers and their codes.

    Parameters
    ----------
    n_rows : int
        Largest number of rows.
    d : int
        Number of columns, at most 65,536.
    """

    def __init__(self, Py_ssize_t n_rows, Py_ssize_t d):
        self.room = (n_rows + EXPFAM_CODE_ROWS - 1) // EXPFAM_CODE_ROWS * EXPFAM_CODE_ROWS
        self.d, self.row_bytes = d, _width(d)
        self.arrays = (
            np.zeros(self.room * self.row_bytes, dtype=np.int8), np.zeros(self.room, dtype=np.float32),
            np.zeros(self.room, dtype=np.int32), np.zeros(self.room), np.zeros(self.room),
        )
        self.codes, self.scales, self.sums, self.errors, self.lengths = self.arrays

    cdef void put(self, Py_ssize_t i, const float *x) noexcept nogil:
        """Code row i, whose entries are finite."""
        cdef coded_vector row = coded(x, self.d, &self.codes[i * self.row_bytes])
        self.scales[i], self.sums[i] = row.scale, row.sum
        self.errors[i], self.lengths[i] = row.error, row.kept


cdef class CodedPoints:
    """Codes of points, with which rows are multiplied.

    Parameters
    ----------
    m : int
        Number of points.
    d : int
        Number of columns, at most 65,536.

    Attributes
    ----------
    width : int
        Number of products of a row: m, up to whole vectors of the machine. Those beyond m are 0.
    """

    def __init__(self, Py_ssize_t m, Py_ssize_t d):
        self.m, self.d, self.n_groups = m, d, _width(d) // 4
        self.width = (m + EXPFAM_CODE_POINTS - 1) // EXPFAM_CODE_POINTS * EXPFAM_CODE_POINTS
        self.arrays = (
            np.full(self.width * 4 * self.n_groups, OFFSET, dtype=np.uint8), np.zeros(4 * self.n_groups, dtype=np.int8),
            np.zeros(self.width, dtype=np.float32), np.zeros(m), np.zeros(m),
        )
        self.codes, self.code, self.scales, self.errors, self.lengths = self.arrays

    cdef void put(self, Py_ssize_t k, const float *w) noexcept nogil:
        """Code point k, whose entries are finite."""
        cdef Py_ssize_t g, t, lane = k % EXPFAM_CODE_POINTS
        cdef uint8_t *block = &self.codes[(k - lane) * 4 * self.n_groups + 4 * lane]
        cdef coded_vector point = coded(w, self.d, &self.code[0])
        for g in range(self.n_groups):
            for t in range(4):
                block[EXPFAM_CODE_GROUP * g + t] = <uint8_t> (self.code[4 * g + t] + OFFSET)
        self.scales[k], self.errors[k], self.lengths[k] = point.scale, point.error, point.length

    cdef void multiply(self, CodedRows rows, Py_ssize_t n, float *out, Py_ssize_t stride) noexcept nogil:
        cdef Py_ssize_t i, b = 0, n_blocks = self.width // EXPFAM_CODE_POINTS, step
        step = max(1, BLOCK_BYTES // (EXPFAM_CODE_GROUP * self.n_groups))
        while b < n_blocks:
            i = 0
            while i < n:
                expfam_byte_products(&rows.codes[i * rows.row_bytes], &rows.scales[i], &rows.sums[i],
                                     &self.codes[b * EXPFAM_CODE_GROUP * self.n_groups],
                                     &self.scales[b * EXPFAM_CODE_POINTS], self.n_groups, min(step, n_blocks - b),
                                     out + i * stride + b * EXPFAM_CODE_POINTS, stride)
                i += EXPFAM_CODE_ROWS
            b += step


cdef class ScoredPoints(CodedPoints):
    """Codes of points and their biases, for the highest scores <x, w> + bias of rows.

    Parameters
    ----------
    m, d : int
        As of `CodedPoints`.
    """

    def __init__(self, Py_ssize_t m, Py_ssize_t d):
        CodedPoints.__init__(self, m, d)
        self.terms = np.zeros((4, self.width), dtype=np.float32)
        self.terms[0, :] = NEVER

    cdef void put_scored(self, Py_ssize_t k, const float *w, float bias, double rounding) noexcept nogil:
        self.put(k, w)
        self.terms[0, k] = bias
        self.terms[1, k], self.terms[2, k] = <float> (self.lengths[k] * UP), <float> (self.errors[k] * UP)
        self.terms[3, k] = <float> ((fabs(bias) * OWN_ROUNDING + rounding) * UP)

    cdef Py_ssize_t near(self, CodedRows rows, Py_ssize_t i, float *products, float depth, double rounding,
                         int32_t *places) noexcept nogil:
        cdef float row[2]
        cdef float low
        cdef double length = rows.errors[i] + rows.lengths[i]       # at least |x|
        row[0] = <float> ((rows.errors[i] + rounding * length) * UP)
        row[1] = <float> (rows.lengths[i] * UP)
        low = expfam_code_bounds(products, &self.terms[0, 0], &self.terms[1, 0], &self.terms[2, 0], &self.terms[3, 0],
                                 row, self.width)
        if not 0.5 * NEVER < low < INFINITY:
            return 0
        low -= depth + <float> ((fabs(low) + depth) * OWN_ROUNDING)
        return expfam_places_above(products, low, self.width, places)


def coded_products(const float[:, ::1] X, const float[:, ::1] W):
    """Compute the products of rows and points by their codes, and bounds of their errors.

    Parameters
    ----------
    X : (N, d) float32 ndarray
    W : (m, d) float32 ndarray

    Returns
    -------
    products : (N, m) float32 ndarray
    errors : (N, m) float64 ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.rows.byte_codes import coded_products
    >>> X = np.array([[1.0, 0.5]], dtype=np.float32)
    >>> products, errors = coded_products(X, np.array([[0.2, 1.0]], dtype=np.float32))
    >>> bool(abs(products[0, 0] - 0.7) <= errors[0, 0] < 0.01)
    True
    """
    cdef Py_ssize_t i, N = X.shape[0], m = W.shape[0]
    if W.shape[1] != X.shape[1]:
        raise ValueError(f"columns differ: {X.shape[1]} and {W.shape[1]}")
    cdef CodedRows rows = CodedRows(N, X.shape[1])
    cdef CodedPoints points = CodedPoints(m, X.shape[1])
    found = np.empty((rows.room, points.width), dtype=np.float32)
    cdef float[:, ::1] out = found
    for i in range(N):
        rows.put(i, &X[i, 0])
    for i in range(m):
        points.put(i, &W[i, 0])
    if N and m:
        points.multiply(rows, N, &out[0, 0], points.width)
    errors = np.multiply.outer(np.asarray(rows.errors)[:N], np.asarray(points.lengths))
    errors += np.multiply.outer(np.asarray(rows.lengths)[:N], np.asarray(points.errors))
    return found[:N, :m], errors
