"""Sign hashes: signs of random projections without a stored matrix.

The sign of the random matrix in row j and coordinate w is bit j mod 64 of a hash of (w, j div 64, seed): nothing is
stored, and one hash gives 64 entries. Two vectors at an angle t differ in each bit of their codes with probability
t/pi, so the Hamming distance h of codes of l bits estimates the angle by pi h/l (Charikar 2002; Ahmed et al. 2012). A
code costs O(l) for each nonzero coordinate: one addition for each bit.
"""

from functools import cache
from statistics import NormalDist

import numpy as np

from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from expfam.structures.simd.sign_codes cimport (
    EXPFAM_HASH_WORD, expfam_byte_add_32, expfam_byte_add_64, expfam_byte_add_real, expfam_entries_add, expfam_mix64,
    expfam_sign_add_32, expfam_sign_add_64, expfam_sign_add_real, expfam_sign_bits_real, expfam_sign_keys,
    expfam_sign_words,
)

from expfam.structures.ground.threads import run
from expfam.structures.hashing.code_rows import CodedRows, real_vector

cdef enum:
    CHUNK = 64                  # number of coordinates hashed together
    MAX_WORDS = 64              # largest size of a code: 4096 bits

_GAUSSIAN_SCALE = 44.0          # the largest of 256 quantiles, 2.885, becomes 127

ctypedef fused lane:
    uint32_t
    uint64_t
    double


cdef void accumulate(SignHash h, const int64_t *coordinates, const lane *v, Py_ssize_t n, lane *dots) noexcept nogil:
    """Add sum_i entry(j, coordinates[i]) v[i] to dots[j] for all bits j."""
    cdef uint64_t keys[CHUNK]
    cdef uint64_t words[CHUNK]
    cdef Py_ssize_t at, m, p, b
    for at in range(0, n, 64):  # CHUNK: a step must be a literal
        m = n - at if n - at < CHUNK else CHUNK
        expfam_sign_keys(coordinates + at, h.key, keys, m)
        for p in range(h.n_words):
            if h.by_bytes:
                for b in range(8):
                    expfam_sign_words(keys, 8 * p + b, words, m)
                    if lane is uint32_t:
                        expfam_byte_add_32(words, v + at, h.table_32, m, dots + 64 * p + 8 * b)
                    elif lane is uint64_t:
                        expfam_byte_add_64(words, v + at, h.table_64, m, dots + 64 * p + 8 * b)
                    else:
                        expfam_byte_add_real(words, v + at, h.table_real, m, dots + 64 * p + 8 * b)
            else:
                expfam_sign_words(keys, p, words, m)
                if lane is uint32_t:
                    expfam_sign_add_32(words, v + at, m, dots + 64 * p)
                elif lane is uint64_t:
                    expfam_sign_add_64(words, v + at, m, dots + 64 * p)
                else:
                    expfam_sign_add_real(words, v + at, m, dots + 64 * p)


@final
cdef class SignHash:
    """Random matrix of signs or quantiles that is computed by a hash function.

    It has any number of columns, and it is not stored.

    Parameters
    ----------
    n_bits : int in [1, 4096]
        Number of rows of the matrix and of bits of a code. It is rounded up to a multiple of 64, see the attribute.
    entries : {"rademacher", "gaussian8"}
        Signs, or 256 quantiles of the normal law as integers up to 127. Quantiles cost several times more, but their
        law is closer to spherical: with signs, all vectors with the same single coordinate have the same code.
    seed : int in [0, 2**64)

    Attributes
    ----------
    n_bits, n_words : int
        Length l of a code in bits and in 64-bit words.
    n_bits_asked : int
        The number of bits that was given.
    largest_entry : int
        Largest absolute value of an entry: 1 or 127.

    Notes
    -----
    The hash word p of coordinate w is mix(mix(w c1 + s) + p c2), where mix is the 64-bit finaliser of MurmurHash3. If a
    dot product equals that of the centre, its bit is a bit of another hash of (owner, j) and not a constant: ties are
    common with integer data, and a constant would make all these codes equal. Results are bitwise the same on all
    instruction sets.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures import SignHash
    >>> signs = SignHash(1000, seed=1)
    >>> signs.n_bits
    1024
    >>> codes = signs.codes(np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [2.0, 0.0, 1e-9]]))
    >>> codes.shape, codes.dtype
    ((3, 16), dtype('uint64'))
    """

    def __init__(self, n_bits, *, entries="rademacher", seed=0):
        cdef int b
        try:
            n_bits = n_bits.__index__()
        except AttributeError:
            raise TypeError(f"n_bits must be an integer; got {n_bits!r}") from None
        if not 1 <= n_bits <= 64 * MAX_WORDS:
            raise ValueError(f"n_bits must lie in [1, {64 * MAX_WORDS}]; got {n_bits}")
        if entries not in ("rademacher", "gaussian8"):
            raise ValueError(f"entries must be 'rademacher' or 'gaussian8'; got {entries!r}")
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed must lie in [0, 2**64); got {seed!r}")
        self.n_bits_asked, self.n_words = n_bits, (n_bits + 63) // 64
        self.n_bits = 64 * self.n_words
        self.entries, self.seed = entries, seed
        # mixed, because the finaliser maps 0 to 0: with seed 0, coordinate 0 would have a constant word
        self.key = expfam_mix64(self.seed + <uint64_t>0x2545f4914f6cdd1d)
        self.tie_key = expfam_mix64(self.key + <uint64_t>0x2545f4914f6cdd1d)
        self.by_bytes = entries == "gaussian8"
        self.largest_entry = 127 if self.by_bytes else 1
        for b, quantile in enumerate(_quantiles() if self.by_bytes else ()):
            self.table_64[b] = <uint64_t><int64_t>quantile
            self.table_32[b] = <uint32_t>self.table_64[b]
            self.table_real[b] = quantile

    def __reduce__(self):
        return _sign_hash, (self.n_bits_asked, self.entries, self.seed)

    def __repr__(self):
        return f"SignHash({self.n_bits_asked}, entries={self.entries!r}, seed={self.seed})"

    cdef void add_32(self, const int64_t *coordinates, const uint32_t *v, Py_ssize_t n, uint32_t *dots) noexcept nogil:
        accumulate(self, coordinates, v, n, dots)

    cdef void add_64(self, const int64_t *coordinates, const uint64_t *v, Py_ssize_t n, uint64_t *dots) noexcept nogil:
        accumulate(self, coordinates, v, n, dots)

    cdef void add_real(self, const int64_t *coordinates, const double *v, Py_ssize_t n, double *dots) noexcept nogil:
        accumulate(self, coordinates, v, n, dots)

    cdef uint64_t tie_word(self, int64_t owner, Py_ssize_t p) noexcept nogil:
        cdef uint64_t key
        expfam_sign_keys(&owner, self.tie_key, &key, 1)
        return expfam_mix64(key + <uint64_t>p * EXPFAM_HASH_WORD)

    def matrix(self, coordinates):
        """Return columns of the random matrix as an array.

        Parameters
        ----------
        coordinates : (n,) int64 array-like

        Returns
        -------
        (n_bits, n) int32 ndarray
            Signs, or integers in [-127, 127].
        """
        cdef const int64_t[::1] w = np.ascontiguousarray(coordinates, dtype=np.int64)
        cdef Py_ssize_t i
        cdef uint32_t one = 1
        columns = np.zeros((w.shape[0], self.n_bits), dtype=np.int32)
        cdef int32_t[:, ::1] out = columns
        for i in range(w.shape[0]):
            self.add_32(&w[i], &one, 1, <uint32_t *>&out[i, 0])
        return columns.T

    def tie_bits(self, owners):
        """Return the words whose bits break ties in the code of each owner.

        Parameters
        ----------
        owners : (n,) int64 array-like
            Row numbers of data; -1 - k for code k of a `SignCodes`.

        Returns
        -------
        (n, n_words) uint64 ndarray
        """
        cdef const int64_t[::1] owner = np.ascontiguousarray(owners, dtype=np.int64)
        cdef Py_ssize_t i, p
        words = np.empty((owner.shape[0], self.n_words), dtype=np.uint64)
        cdef uint64_t[:, ::1] out = words
        for i in range(owner.shape[0]):
            for p in range(self.n_words):
                out[i, p] = self.tie_word(owner[i], p)
        return words

    def project(self, X, *, scale=None, n_threads=1):
        """Compute the inner products of each row with each row of the random matrix.

        Parameters
        ----------
        X : (N, D) array or CSR matrix of real numbers
            CSR indices int32 or int64; each coordinate at most once in a row.
        scale : (D,) float64, optional
            Factor of each coordinate.
        n_threads : int or None

        Returns
        -------
        (N, n_bits) float64 ndarray
            Sums run in the order of the coordinates of a row. They are exact if all partial sums are integers below
            2**53.
        """
        rows = CodedRows(X, scale)
        out = np.empty((rows.n_rows, self.n_bits))

        def fill(start, stop):
            _project(self, *rows.block(start, stop), out[start:stop])

        run(fill, rows.tasks(), n_threads)
        return out

    def codes(self, X, *, scale=None, centre=None, factor=None, first_row=0, n_threads=1):
        """Compute the sign codes of the rows c o (x_i - f_i m).

        Parameters
        ----------
        X : (N, D) array or CSR matrix of real numbers
            CSR indices int32 or int64; each coordinate at most once in a row.
        scale : (D,) float64, optional
            c, factor of each coordinate.
        centre : (D,) float64, optional
            m, subtracted from each row before scaling.
        factor : (N,) float64, optional
            f, multiple of the centre that is subtracted, for example the length of a document; 1 by default.
        first_row : int
            Number of the first row among all data, because ties are broken by the number of the row.
        n_threads : int or None
            The result does not depend on it.

        Returns
        -------
        (N, n_words) uint64 ndarray
            Bit j mod 64 of word j div 64 says that the inner product with row j of the random matrix is positive.

        Raises
        ------
        DataError
            Values are not finite, or shapes are wrong.
        DataTypeError
            Values are not real numbers.

        Notes
        -----
        The centre is not subtracted from the rows. Its inner products are subtracted from those of the rows, so sparse
        rows cost O(nnz l).
        """
        rows = CodedRows(X, scale)
        dots = np.zeros(self.n_bits)
        if centre is not None:
            centre = real_vector("centre", centre, rows.n_columns)
            dots = self.project(centre[None, :], scale=scale)[0]
        factor = np.ones(rows.n_rows) if factor is None else real_vector("factor", factor, rows.n_rows)
        out = np.empty((rows.n_rows, self.n_words), dtype=np.uint64)

        entries = rows.entries(self)

        def fill(start, stop):
            block = rows.block(start, stop)
            _code(self, *block, entries, dots, factor[start:stop], first_row + start, out[start:stop])

        run(fill, rows.tasks(), n_threads)
        return out

    def angle(self, h):
        """Return the angle that a Hamming distance estimates.

        Parameters
        ----------
        h : int or array of int in [0, n_bits]

        Returns
        -------
        float64, radians
            pi h / n_bits.
        """
        return np.pi * np.asarray(h) / self.n_bits


def _sign_hash(n_bits, entries, seed):
    return SignHash(n_bits, entries=entries, seed=seed)


@cache      # they take as long as the codes of a hundred rows
def _quantiles():
    """Return the 256 midpoint quantiles of the normal law as integers in [-127, 127]."""
    law = NormalDist()
    upper = [round(_GAUSSIAN_SCALE * law.inv_cdf((b + 0.5) / 256)) for b in range(128, 256)]
    return *(-q for q in reversed(upper)), *upper


def _project(SignHash h not None, const double[::1] values, const int64_t[::1] coordinates, const int64_t[::1] bounds,
             double[:, ::1] out):
    """Compute the inner products of a block of rows."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(out.shape[0]):
            project_row(h, values, coordinates, bounds, NULL, i, &out[i, 0])


cdef void project_row(SignHash h, const double[::1] values, const int64_t[::1] coordinates, const int64_t[::1] bounds,
                      const double *entries, Py_ssize_t i, double *dots) noexcept nogil:
    cdef int64_t start = bounds[i], n = bounds[i + 1] - start
    memset(dots, 0, h.n_bits * sizeof(double))
    if n == 0:
        return
    if entries != NULL:
        expfam_entries_add(entries, &values[start], n, h.n_bits, dots)
        return
    # dense rows share their coordinates: there are fewer coordinates than values unless there is one row
    h.add_real(&coordinates[start if coordinates.shape[0] == values.shape[0] else 0], &values[start], n, dots)


def _code(SignHash h not None, const double[::1] values, const int64_t[::1] coordinates, const int64_t[::1] bounds,
          const double[:, ::1] entries, const double[::1] centre_dots, const double[::1] factor, int64_t first_row,
          uint64_t[:, ::1] out):
    """Compute the codes of a block of rows; `entries` is None or the matrix of dense rows."""
    cdef const double *matrix = NULL if entries is None else &entries[0, 0]
    cdef double dots[64 * MAX_WORDS]
    cdef double against[64]
    cdef Py_ssize_t i, p, j
    with nogil:
        for i in range(out.shape[0]):
            project_row(h, values, coordinates, bounds, matrix, i, dots)
            for p in range(h.n_words):
                for j in range(64):
                    against[j] = factor[i] * centre_dots[64 * p + j]
                out[i, p] = expfam_sign_bits_real(dots + 64 * p, against, h.tie_word(first_row + i, p))
