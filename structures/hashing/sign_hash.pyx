"""Sign hashes: signs of random projections without a stored matrix.

The module also keeps the sign codes of K vectors, which updates change exactly.

The sign of the random matrix in row j and coordinate w is bit j mod 64 of a hash of (w, j div 64, seed): nothing is
stored, and one hash gives 64 entries. Two vectors at an angle t differ in each bit of their codes with probability
t/pi, so the Hamming distance h of codes of l bits estimates the angle by pi h/l (Charikar 2002; Ahmed et al. 2012). Dot
products of the K vectors are stored as integers on a fixed-point grid. An update adds integers, so after any updates in
any order, dots, bits and norms are bitwise those of a rebuild. Codes and updates cost O(l) for each nonzero coordinate
(one addition for each bit). The distances of a code to K codes cost O(K l/64), and a draw costs O(K) more.
"""

import math
from statistics import NormalDist

import numpy as np

from cython cimport final
from libc.math cimport ldexp, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from expfam.structures.simd.float_softmax cimport expfam_float_exp_blocks, expfam_float_pick
from expfam.structures.simd.hamming cimport expfam_hamming, expfam_sign_scores
from expfam.structures.simd.sign_codes cimport (
    EXPFAM_HASH_WORD, expfam_byte_add_32, expfam_byte_add_64, expfam_byte_add_real, expfam_entries_add, expfam_mix64,
    expfam_sign_add_32, expfam_sign_add_64, expfam_sign_add_real, expfam_sign_bits_32, expfam_sign_bits_64,
    expfam_sign_bits_real, expfam_sign_keys, expfam_sign_words,
)

from expfam.errors import DataError, DataTypeError
from expfam.structures.ground.threads import run

cdef enum:
    CHUNK = 64                  # number of coordinates hashed together
    MAX_WORDS = 64              # largest size of a code: 4096 bits

_ROWS = 512                     # rows in a task
_MOST_ENTRIES = 1 << 17         # of a random matrix that is made for dense rows: more do not fit into the cache
_GAUSSIAN_SCALE = 44.0          # the largest of 256 quantiles, 2.885, becomes 127
_NARROW_BITS = 31               # int32 dots are below 2^31 in absolute value
_COARSE = 6                     # an exponent below this would round too much: then the dots are int64

ctypedef fused lane:
    uint32_t
    uint64_t
    double


# ---- bounds ----------------------------------------------------------------------------------------------------------


def hoeffding_bound(n_bits, n_codes, delta):
    """Return a bound of the deviation of K fractions of differing bits from their means.

    With probability 1 - delta it holds for all K fractions together.

    Parameters
    ----------
    n_bits : int
        Length l of the codes.
    n_codes : int
        Number K of codes that are compared with one code.
    delta : float in (0, 1)

    Returns
    -------
    float
        sqrt(log(K / delta) / (2 l)), one-sided.

    Notes
    -----
    This is Hoeffding's inequality with a union bound. In Ahmed et al. 2012, remark 5, the factor 2 is missing.

    Examples
    --------
    >>> from expfam.structures.hashing.sign_hash import hoeffding_bound
    >>> round(hoeffding_bound(128, 10_000, 1e-4), 3)
    0.268
    """
    _check_bound(n_bits, n_codes, delta)
    return math.sqrt(math.log(n_codes / delta) / (2 * n_bits))


def kl_bound(n_bits, n_codes, delta):
    """Return lower confidence limits of the probability of a differing bit.

    There is one limit for each Hamming distance.

    Parameters
    ----------
    n_bits, n_codes, delta
        As in `hoeffding_bound`.

    Returns
    -------
    (n_bits + 1,) float64 ndarray
        For each distance h the smallest p <= h/l with l kl(h/l || p) <= log(K / delta), where kl is the divergence of
        two Bernoulli laws in nats.

    Notes
    -----
    This is Chernoff's bound in its relative-entropy form with a union bound. It is never looser than Hoeffding's. O(l).

    Examples
    --------
    >>> from expfam.structures.hashing.sign_hash import kl_bound
    >>> round(float(0.25 - kl_bound(128, 1000, 0.01)[32]), 3)
    0.149
    """
    _check_bound(n_bits, n_codes, delta)
    z = np.arange(n_bits + 1) / n_bits
    limit = math.log(n_codes / delta) / n_bits
    low, high = np.zeros_like(z), z.copy()
    for _ in range(60):
        middle = (low + high) / 2
        far = _bernoulli_kl(z, middle) > limit
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    return high


def cosine_table(n_bits, *, beta=1.0, bound=None, n_codes=1, delta=0.01):
    """Return the cosine of the angle that each Hamming distance estimates, times beta.

    Parameters
    ----------
    n_bits : int
        Length l of the codes.
    beta : float in (0, 1]
        Factor of all entries: the inverse temperature of a proposal by noisy scores.
    bound : {None, "hoeffding", "kl"}
        Whether to use the lower end of a confidence interval of the angle, for pruning, in place of the estimate.
    n_codes, delta
        Arguments of the bound, see `hoeffding_bound`.

    Returns
    -------
    (n_bits + 1,) float32 ndarray
        beta cos(pi h / l).

    Examples
    --------
    >>> from expfam.structures.hashing.sign_hash import cosine_table
    >>> cosine_table(64)[[0, 32, 64]].round(6).tolist()
    [1.0, 0.0, -1.0]
    """
    if not 0 < beta <= 1:
        raise ValueError(f"beta must lie in (0, 1]; got {beta!r}")
    if n_bits < 1:
        raise ValueError(f"n_bits must be at least 1; got {n_bits!r}")
    z = np.arange(n_bits + 1) / n_bits
    if bound == "hoeffding":
        z = np.maximum(z - hoeffding_bound(n_bits, n_codes, delta), 0.0)
    elif bound == "kl":
        z = kl_bound(n_bits, n_codes, delta)
    elif bound is not None:
        raise ValueError(f"bound must be None, 'hoeffding' or 'kl'; got {bound!r}")
    # With sin the middle is exactly 0 and the ends are symmetric; cos(pi z) would round pi
    return (beta * np.sin(np.pi * (0.5 - z))).astype(np.float32)


def _check_bound(n_bits, n_codes, delta):
    if n_bits < 1 or n_codes < 1:
        raise ValueError(f"n_bits and n_codes must be at least 1; got {n_bits!r} and {n_codes!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1); got {delta!r}")


def _bernoulli_kl(z, p):
    """Return kl(z || p) in nats, elementwise, with 0 log 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        differ = np.where(z > 0, z * np.log(z / p), 0.0)
        agree = np.where(z < 1, (1 - z) * np.log((1 - z) / (1 - p)), 0.0)
    return differ + agree


# ---- the hash --------------------------------------------------------------------------------------------------------


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
        rows = _Rows(X, scale)
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
        rows = _Rows(X, scale)
        dots = np.zeros(self.n_bits)
        if centre is not None:
            centre = _vector("centre", centre, rows.n_columns)
            dots = self.project(centre[None, :], scale=scale)[0]
        factor = np.ones(rows.n_rows) if factor is None else _vector("factor", factor, rows.n_rows)
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


def _quantiles():
    """Return the 256 midpoint quantiles of the normal law as integers in [-127, 127]."""
    law = NormalDist()
    upper = [round(_GAUSSIAN_SCALE * law.inv_cdf((b + 0.5) / 256)) for b in range(128, 256)]
    return [-q for q in reversed(upper)] + upper


def _vector(name, values, n):
    values = np.ascontiguousarray(values, dtype=np.float64)
    if values.shape != (n,):
        raise DataError(f"{name} has shape {values.shape}; expected ({n},)")
    if not np.isfinite(values).all():
        raise DataError(f"{name}[{np.flatnonzero(~np.isfinite(values))[0]}] is not finite")
    return values


class _Rows:
    """Blocks of rows of a dense array or CSR matrix.

    A block has float64 values and int64 coordinates.
    """

    def __init__(self, X, scale=None):
        self.is_sparse = hasattr(X, "indptr")
        if self.is_sparse and getattr(X, "format", None) != "csr":
            raise DataTypeError(f"sparse data must be CSR; got {X.format!r}: convert with .tocsr()")
        self.X = X if self.is_sparse else np.asarray(X)
        if self.X.dtype.kind not in "fiub":
            raise DataTypeError(f"data must be real numbers; got dtype {self.X.dtype}")
        if self.X.ndim != 2:
            raise DataError(f"data must have two dimensions (rows, coordinates); got shape {self.X.shape}")
        self.n_rows, self.n_columns = self.X.shape
        self.scale = None if scale is None else _vector("scale", scale, self.n_columns)
        self.columns = np.arange(0 if self.is_sparse else self.n_columns, dtype=np.int64)

    def entries(self, hash):
        """Return the random matrix (n_columns, n_bits) if it saves time to have it, or None."""
        is_small = not self.is_sparse and 0 < self.n_columns * hash.n_bits <= _MOST_ENTRIES
        if not is_small or hash.entries != "gaussian8" or self.n_rows < 2:
            return None
        return np.ascontiguousarray(hash.matrix(self.columns).T, dtype=np.float64)

    def tasks(self):
        return [(start, min(start + _ROWS, self.n_rows)) for start in range(0, self.n_rows, _ROWS)]

    def block(self, start, stop):
        """Return values, coordinates and bounds of some rows.

        Dense rows share their coordinates, which are returned once.
        """
        if self.is_sparse:
            bounds = np.asarray(self.X.indptr[start : stop + 1], dtype=np.int64)
            inside = slice(bounds[0], bounds[stop - start])
            coordinates = np.ascontiguousarray(self.X.indices[inside], dtype=np.int64)
            values, bounds = np.array(self.X.data[inside], dtype=np.float64), bounds - bounds[0]
            if len(coordinates) and not (coordinates.min() >= 0 and coordinates.max() < self.n_columns):
                raise DataError(f"rows {start} to {stop - 1} have column indices outside [0, {self.n_columns})")
            if self.scale is not None:
                values *= self.scale[coordinates]
        else:
            bounds = np.arange(stop - start + 1, dtype=np.int64) * self.n_columns
            coordinates = self.columns
            values = np.array(self.X[start:stop], dtype=np.float64)
            if self.scale is not None:
                values *= self.scale
            values = values.reshape(-1)
        if not np.isfinite(values).all():
            bad = start + np.searchsorted(bounds, np.flatnonzero(~np.isfinite(values))[0], side="right") - 1
            raise DataError(f"row {bad} has a value that is not finite")
        return values, coordinates, bounds


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


# ---- codes of K vectors ----------------------------------------------------------------------------------------------


@final
cdef class SignCodes:
    """Sign codes, norms and one inner product of K vectors v_k - m.

    They are exact after any sequence of updates.

    Parameters
    ----------
    hash : SignHash
    n_codes : int
        Number K of vectors. All vectors are zero at first.
    bound : (D,) float64
        Largest absolute value that each coordinate of any vector will ever have. It defines the grid: values are stored
        as multiples of 2**-exponent, the finest grid on which no sum can overflow.
    centre : (D,) float64, optional
        m, subtracted from all vectors. A bit says that the inner product of a vector is above that of the centre.
    direction : (D,) float64, optional
        a; if given, the inner products <a, v_k - m> are stored too, as `slopes`.
    dots : {"auto", "int32", "int64"}
        Type of the inner products; "auto" chooses int64 where the grid of int32 would be coarser than 2**-6.

    Attributes
    ----------
    exponent : int
        log2 of the number of grid points per unit.
    n_padded : int
        K rounded up to a multiple of 64, the length of weights.

    Raises
    ------
    DataError
        A bound is negative or not finite, or a value is above its bound.
    ValueError
        `n_codes` is below 1, or `dots` is another name.

    Notes
    -----
    An update replaces round(2^s old) by round(2^s new) in each coordinate. The sums of these integers telescope, so
    dots, bits, norms and slopes are those of a rebuild from the present vectors, for any sequence of updates. For each
    word position, the words of all K codes are contiguous. Memory: K (4 l + l/8 + 24) + 12 D bytes with int32. Layout
    and temperature of the proposal follow Ahmed et al. 2012, sections 3 and 4; the centre is an addition.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures import SignCodes, SignHash
    >>> codes = SignCodes(SignHash(64, seed=1), 3, bound=np.full(5, 4.0))
    >>> codes.update(1, [0, 3], old=[0.0, 0.0], new=[1.5, 2.0])
    >>> codes.norms.tolist()
    [0.0, 2.5, 0.0]
    >>> codes.hamming(codes.code(1))[1]
    np.int32(0)
    """

    def __init__(self, SignHash hash not None, n_codes, *, bound, centre=None, direction=None, dots="auto"):
        if n_codes < 1:
            raise ValueError(f"n_codes must be at least 1; got {n_codes!r}")
        if dots not in ("auto", "int32", "int64"):
            raise ValueError(f"dots must be 'auto', 'int32' or 'int64'; got {dots!r}")
        n = len(np.asarray(bound).ravel())
        bound = _vector("bound", bound, n)
        if (bound < 0).any():
            raise DataError(f"bound[{np.flatnonzero(bound < 0)[0]}] is negative: bounds are of absolute values")
        centre = np.zeros(n) if centre is None else _vector("centre", centre, n)
        exponent = _narrow_exponent(bound, centre, hash.largest_entry)
        wide = dots == "int64" or (dots == "auto" and exponent < _COARSE)
        if wide:
            exponent = _wide_exponent(bound, centre, hash.largest_entry)
        limit, centre = _fixed(bound, exponent), _fixed(centre, exponent)
        slope_exponent = 0
        if direction is not None:
            direction = _vector("direction", direction, n)
            slope_exponent = _slope_exponent(direction, limit, centre)
            direction = _fixed(direction, slope_exponent)
        self._set_up(hash, n_codes, wide, exponent, slope_exponent, limit, centre, direction)
        for k in range(n_codes):
            self._clear(k)

    cdef _set_up(self, SignHash hash, Py_ssize_t n_codes, bint wide, int exponent, int slope_exponent, limit, centre,
                 direction):
        """Allocate memory and compute the values that depend only on the centre."""
        cdef const int32_t[::1] ints
        cdef uint64_t[:, ::1] planes
        cdef int64_t[::1] longs
        cdef float[::1] reals
        cdef const int64_t[::1] columns
        self.hash, self.n_codes, self.n_padded, self.n_features = hash, n_codes, (n_codes + 63) // 64 * 64, len(limit)
        self.wide, self.exponent, self.slope_exponent = wide, exponent, slope_exponent
        self._limit, self._centre, self._direction = limit, centre, direction
        dtype = np.int64 if wide else np.int32
        self._dots = np.zeros((n_codes, hash.n_bits), dtype=dtype)
        self._centre_dots = np.zeros(hash.n_bits, dtype=dtype)
        self._planes = planes = np.zeros((hash.n_words, self.n_padded), dtype=np.uint64)
        self.planes = &planes[0, 0]
        self._squares = longs = np.zeros(n_codes, dtype=np.int64)
        self.squares = &longs[0]
        self._slopes = longs = np.zeros(n_codes, dtype=np.int64)
        self.slopes = &longs[0]
        self._norms_32 = reals = np.zeros(self.n_padded, dtype=np.float32)
        self.norms_32 = &reals[0]
        self._slopes_32 = reals = np.zeros(self.n_padded, dtype=np.float32)
        self.slopes_32 = &reals[0]
        self.dots, self.centre_dots = address(self._dots), address(self._centre_dots)
        self.limit = self.centre = self.direction = NULL
        self.empty_square = self.empty_slope = 0
        if self.n_features == 0:
            return
        ints = limit
        self.limit = &ints[0]
        ints = centre
        self.centre = &ints[0]
        self.empty_square = int((self._centre.astype(np.int64) ** 2).sum())
        if direction is not None:
            ints = direction
            self.direction = &ints[0]
            self.empty_slope = -int((direction.astype(np.int64) * centre).sum())
        values = centre.astype(np.uint64 if wide else np.uint32)  # modulo 2^64 or 2^32, like the sums
        columns = np.arange(self.n_features)
        if wide:
            hash.add_64(&columns[0], <uint64_t *>address(values), self.n_features, <uint64_t *>self.centre_dots)
        else:
            hash.add_32(&columns[0], <uint32_t *>address(values), self.n_features, <uint32_t *>self.centre_dots)

    cdef _clear(self, Py_ssize_t k):
        self._dots[k] = 0
        self.squares[k], self.slopes[k] = self.empty_square, self.empty_slope
        self.sign(k)

    # -- C interface --

    cdef void move(self, Py_ssize_t k, const int64_t *coordinates, const int32_t *old, const int32_t *new,
                   Py_ssize_t n) noexcept nogil:
        cdef uint32_t step_32[CHUNK]
        cdef uint64_t step_64[CHUNK]
        cdef int64_t step, w, square = 0, slope = 0
        cdef Py_ssize_t at, m, i
        for at in range(0, n, 64):  # CHUNK: a step must be a literal
            m = n - at if n - at < CHUNK else CHUNK
            for i in range(m):
                w = coordinates[at + i]
                step = <int64_t>new[at + i] - old[at + i]
                # (new - m)^2 - (old - m)^2
                square += step * (<int64_t>new[at + i] + old[at + i] - 2 * <int64_t>self.centre[w])
                if self.direction != NULL:
                    slope += step * self.direction[w]
                step_64[i] = <uint64_t>step
                step_32[i] = <uint32_t>step_64[i]
            if self.wide:
                self.hash.add_64(coordinates + at, step_64, m, (<uint64_t *>self.dots) + k * self.hash.n_bits)
            else:
                self.hash.add_32(coordinates + at, step_32, m, (<uint32_t *>self.dots) + k * self.hash.n_bits)
        self.squares[k] = self.squares[k] + square  # no `+=`: with checks it needs the gil
        self.slopes[k] = self.slopes[k] + slope
        self.sign(k)

    cdef void sign(self, Py_ssize_t k) noexcept nogil:
        cdef Py_ssize_t p, at
        cdef uint64_t tie
        for p in range(self.hash.n_words):
            at = k * self.hash.n_bits + 64 * p
            tie = self.hash.tie_word(-1 - k, p)
            if self.wide:
                self.planes[p * self.n_padded + k] = expfam_sign_bits_64(
                    (<int64_t *>self.dots) + at, (<int64_t *>self.centre_dots) + 64 * p, tie)
            else:
                self.planes[p * self.n_padded + k] = expfam_sign_bits_32(
                    (<int32_t *>self.dots) + at, (<int32_t *>self.centre_dots) + 64 * p, tie)
        self.norms_32[k] = <float>ldexp(sqrt(<double>self.squares[k]), -self.exponent)
        self.slopes_32[k] = <float>ldexp(<double>self.slopes[k], -self.exponent - self.slope_exponent)

    cdef Py_ssize_t record_size(self) noexcept nogil:
        return self.hash.n_bits * (8 if self.wide else 4) + 8 * self.hash.n_words + 24

    cdef void save(self, Py_ssize_t k, char *record) noexcept nogil:
        cdef Py_ssize_t p, size = self.hash.n_bits * (8 if self.wide else 4)
        memcpy(record, self.dots + k * size, size)
        record += size
        for p in range(self.hash.n_words):
            memcpy(record + 8 * p, self.planes + p * self.n_padded + k, 8)
        record += 8 * self.hash.n_words
        memcpy(record, self.squares + k, 8)
        memcpy(record + 8, self.slopes + k, 8)
        memcpy(record + 16, self.norms_32 + k, 4)
        memcpy(record + 20, self.slopes_32 + k, 4)

    cdef void restore(self, Py_ssize_t k, const char *record) noexcept nogil:
        cdef Py_ssize_t p, size = self.hash.n_bits * (8 if self.wide else 4)
        memcpy(self.dots + k * size, record, size)
        record += size
        for p in range(self.hash.n_words):
            memcpy(self.planes + p * self.n_padded + k, record + 8 * p, 8)
        record += 8 * self.hash.n_words
        memcpy(self.squares + k, record, 8)
        memcpy(self.slopes + k, record + 8, 8)
        memcpy(self.norms_32 + k, record + 16, 4)
        memcpy(self.slopes_32 + k, record + 20, 4)

    cdef void hamming_to(self, const uint64_t *code, int32_t *out) noexcept nogil:
        expfam_hamming(self.planes, self.n_padded, code, self.hash.n_words, out, self.n_codes)

    cdef Py_ssize_t draw_one(self, const uint64_t *code, float norm, float factor, const float *bias,
                             const float *table, double uniform, float *weights, float *sums,
                             double *total) noexcept nogil:
        cdef float best = expfam_sign_scores(
            self.planes, self.n_padded, code, self.hash.n_words, table, self.norms_32, norm,
            self.slopes_32 if factor != 0 else NULL, factor, bias, weights, self.n_codes)
        if not -3.4e38 < best < 3.4e38:
            total[0] = 0.0
            return -1
        total[0] = expfam_float_exp_blocks(weights, best, sums, self.n_padded // 64)
        if not 0 < total[0] < 1e300:
            return -1
        return expfam_float_pick(weights, sums, total[0], uniform, self.n_codes)

    # -- Python interface --

    @property
    def dots(self):
        """Return the inner products on the grid: (K, n_bits) int32 or int64, read-only.

        The centre is not subtracted.
        """
        return _frozen(self._dots)

    @property
    def planes(self):
        """Return the codes: (n_words, K) uint64, read-only; row p has word p of all codes."""
        return _frozen(self._planes[:, : self.n_codes])

    @property
    def squares(self):
        """Return |v_k - m|^2 in units of 4**-exponent: (K,) int64, read-only."""
        return _frozen(self._squares)

    @property
    def norms(self):
        """Return the norms of v_k - m from the exact squares: (K,) float64."""
        return np.ldexp(np.sqrt(self._squares.astype(np.float64)), -self.exponent)

    @property
    def slopes(self):
        """Return the inner products of v_k - m with the direction: (K,) float64.

        They are zeros without a direction.
        """
        return np.ldexp(self._slopes.astype(np.float64), -self.exponent - self.slope_exponent)

    def code(self, k):
        """Return the code of vector k: (n_words,) uint64."""
        self._check_code(k)
        return self._planes[:, k].copy()

    def quantise(self, coordinates, values):
        """Return values on the grid, as updates use them.

        Parameters
        ----------
        coordinates : (n,) int64 array-like in [0, D)
        values : (n,) float64 array-like

        Returns
        -------
        (n,) int32 ndarray
            round(2**exponent value), ties to even.

        Raises
        ------
        DataError
            A coordinate is outside [0, D), or a value is above its bound or not finite.
        """
        coordinates, values = np.asarray(coordinates, dtype=np.int64), np.asarray(values, dtype=np.float64)
        if coordinates.ndim != 1 or coordinates.shape != values.shape:
            raise DataError(f"coordinates, values have shapes {coordinates.shape}, {values.shape}; expected (n,) twice")
        if len(coordinates) and not (coordinates.min() >= 0 and coordinates.max() < self.n_features):
            low, high = coordinates.min(), coordinates.max()
            raise DataError(f"coordinates must lie in [0, {self.n_features}); got {low}..{high}")
        grid = np.rint(np.ldexp(values, self.exponent))
        bad = np.flatnonzero(~(np.abs(grid) <= self._limit[coordinates]))
        if len(bad):
            w = coordinates[bad[0]]
            raise DataError(
                f"value {values[bad[0]]} of coordinate {w} exceeds its bound "
                f"{np.ldexp(float(self._limit[w]), -self.exponent)}: give a larger `bound` at construction"
            )
        return grid.astype(np.int32)

    def update(self, k, coordinates, *, old, new):
        """Replace values of some coordinates of vector k.

        Parameters
        ----------
        k : int
        coordinates : (n,) int64 array-like in [0, D)
        old : (n,) float64 array-like
            Present values of the coordinates, as they were given. They are not stored, so you must keep the vectors.
        new : (n,) float64 array-like
            New values.

        Raises
        ------
        DataError
            As in `quantise`; nothing is changed then.
        IndexError
            k is outside [0, K).

        Notes
        -----
        O(n l).
        """
        self._check_code(k)
        coordinates = np.ascontiguousarray(coordinates, dtype=np.int64)
        self._move(k, coordinates, self.quantise(coordinates, old), self.quantise(coordinates, new))

    def _move(self, Py_ssize_t k, const int64_t[::1] coordinates, const int32_t[::1] old, const int32_t[::1] new):
        if coordinates.shape[0]:
            with nogil:
                self.move(k, &coordinates[0], &old[0], &new[0], coordinates.shape[0])

    def clear(self, k):
        """Set vector k to zero."""
        self._check_code(k)
        self._clear(k)

    def save_code(self, k):
        """Return a record of vector k, to undo updates of it. O(l), no hashing.

        Parameters
        ----------
        k : int

        Returns
        -------
        bytes
            Record for `restore_code` of the same object and vector k.
        """
        self._check_code(k)
        cdef bytes record = bytes(self.record_size())
        self.save(k, record)
        return record

    def restore_code(self, k, bytes record not None):
        """Restore vector k from the record of `save_code`.

        Parameters
        ----------
        k : int
        record : bytes
        """
        self._check_code(k)
        if len(record) != self.record_size():
            raise DataError(f"a record has {self.record_size()} bytes; got {len(record)}: give what save_code returned")
        self.restore(k, record)

    def rebuild(self, V):
        """Replace all vectors.

        Parameters
        ----------
        V : (K, D) array or CSR matrix of real numbers

        Notes
        -----
        O(nnz l). The result is bitwise that of any sequence of updates to the same vectors.
        """
        if hasattr(V, "indptr") and not V.has_canonical_format:
            V = V.copy()
            V.sum_duplicates()
        rows = _Rows(V)
        if (rows.n_rows, rows.n_columns) != (self.n_codes, self.n_features):
            raise DataError(f"V has shape {V.shape}; expected ({self.n_codes}, {self.n_features})")
        vectors = []
        for k in range(self.n_codes):  # check all rows before the first change
            values, coordinates, _ = rows.block(k, k + 1)
            kept = np.flatnonzero(values)
            vectors.append((coordinates[kept], self.quantise(coordinates[kept], values[kept])))
        for k, (coordinates, values) in enumerate(vectors):
            self._clear(k)
            self._move(k, coordinates, np.zeros_like(values), values)

    def hamming(self, code):
        """Return the number of differing bits between one code and each of the K codes.

        Parameters
        ----------
        code : (n_words,) uint64

        Returns
        -------
        (K,) int32 ndarray
        """
        cdef const uint64_t[::1] words = self._check_words(code, 1)[0]
        h = np.empty(self.n_codes, dtype=np.int32)
        cdef int32_t[::1] out = h
        self.hamming_to(&words[0], &out[0])
        return h

    def propose(self, code, uniform, *, norm, bias, factor=0.0, table=None):
        """Draw one of the K codes; return it with the weights of the draw.

        Parameters
        ----------
        code : (n_words,) uint64
            Code of the datum.
        uniform : float in [0, 1)
        norm : float
            Norm of the datum's vector.
        bias : (K,) float32 array-like, nats
            Exact part of the score; -inf excludes a code.
        factor : float
            Multiple of `slopes` that is added to the scores.
        table : (n_bits + 1,) float32, optional
            Cosine of each distance, `cosine_table(n_bits)` by default.

        Returns
        -------
        k : int
        weights : (K,) float32 ndarray
            exp(max(score - largest score, -80)): at least 1.8e-35, and 0 where excluded.
        total : float

        Raises
        ------
        ValueError
            No code has a finite score, or one is NaN.

        Notes
        -----
        score_k = norm * norms_k * table[h_k] + factor * slopes_k + bias_k in float32. The exponential has a relative
        error of up to 8e-5. A Metropolis-Hastings test is exact nevertheless, because it uses these same weights.
        """
        words = self._check_words(code, 1)
        labels, weights, totals = self._draw(words, [norm], bias, [factor], table, [uniform], True)
        return int(labels[0]), weights, float(totals[0])

    def draws(self, codes, uniforms, *, norms, bias, factors=None, table=None):
        """Draw one code for each of many data, independently, with one bias for all.

        Parameters
        ----------
        codes : (N, n_words) uint64
        uniforms : (N,) float64 in [0, 1)
        norms : (N,) float32 array-like
        bias, table
            As in `propose`.
        factors : (N,) float32 array-like, optional

        Returns
        -------
        labels : (N,) int64 ndarray
        q : (N,) float64 ndarray
            Probability of each drawn label.
        """
        words = self._check_words(codes, 2)
        factors = np.zeros(len(words)) if factors is None else factors
        return self._draw(words, norms, bias, factors, table, uniforms, False)

    def _draw(self, const uint64_t[:, ::1] words, norms, bias, factors, table, uniforms, bint keep):
        cdef Py_ssize_t i, n = words.shape[0], failed = -1
        cdef const float[::1] norm = self._check_reals("norms", norms, n)
        cdef const float[::1] factor = self._check_reals("factors", factors, n)
        uniforms = _vector("uniforms", uniforms, n)
        cdef const double[::1] uniform = uniforms
        cdef const float[::1] exact = np.ascontiguousarray(bias, dtype=np.float32)
        table = self._cosines() if table is None else np.ascontiguousarray(table, dtype=np.float32)
        cdef const float[::1] cosines = table
        if exact.shape[0] != self.n_codes or cosines.shape[0] != self.hash.n_bits + 1:
            raise DataError(
                f"bias and table have lengths {exact.shape[0]} and {cosines.shape[0]}; "
                f"expected {self.n_codes} and {self.hash.n_bits + 1}"
            )
        if n and not (uniforms.min() >= 0 and uniforms.max() < 1):
            raise ValueError("uniforms must lie in [0, 1)")
        scratch, labels, q = np.empty(self.n_padded, np.float32), np.empty(n, np.int64), np.empty(n)
        cdef float[::1] weights = scratch
        cdef float[::1] sums = np.empty(self.n_padded // 64, np.float32)
        cdef int64_t[::1] label = labels
        cdef double[::1] out = q
        with nogil:
            for i in range(n):
                label[i] = self.draw_one(&words[i, 0], norm[i], factor[i], &exact[0], &cosines[0], uniform[i],
                                         &weights[0], &sums[0], &out[i])
                if label[i] < 0:
                    failed = i
                    break
                if not keep:
                    out[i] = weights[label[i]] / out[i]
        if failed >= 0:
            raise ValueError(f"datum {failed}: no code has a finite score, or one is NaN; see bias, norms and table")
        return (labels, scratch[: self.n_codes], q) if keep else (labels, q)

    def to_arrays(self):
        """Return the state as arrays; `from_arrays` needs them and the hash."""
        arrays = {
            "dots": self._dots.copy(),
            "squares": self._squares.copy(),
            "slopes": self._slopes.copy(),
            "limit": self._limit.copy(),
            "centre": self._centre.copy(),
            "exponents": np.array([self.exponent, self.slope_exponent], dtype=np.int64),
        }
        if self._direction is not None:
            arrays["direction"] = self._direction.copy()
        return arrays

    @staticmethod
    def from_arrays(SignHash hash not None, arrays):
        """Make the codes from the arrays of `to_arrays` and a hash with the same parameters.

        Parameters
        ----------
        hash : SignHash
        arrays : mapping of str to ndarray

        Returns
        -------
        SignCodes
        """
        cdef SignCodes codes = SignCodes.__new__(SignCodes)
        dots = arrays["dots"]
        if dots.ndim != 2 or dots.shape[1] != hash.n_bits or dots.dtype not in (np.int32, np.int64):
            raise DataError(f"dots are {dots.dtype} {dots.shape}; expected int32 or int64 (K, {hash.n_bits})")
        for name in ("squares", "slopes"):
            if arrays[name].shape != dots.shape[:1]:
                raise DataError(f"{name} has shape {arrays[name].shape}; expected {dots.shape[:1]}")
        fixed = [arrays["limit"], arrays["centre"], arrays.get("direction", arrays["centre"])]
        if len({values.shape for values in fixed}) != 1 or fixed[0].ndim != 1:
            shapes = [values.shape for values in fixed]
            raise DataError(f"limit, centre and direction have shapes {shapes}; expected (D,)")
        limit, centre, direction = (np.array(values, dtype=np.int32) for values in fixed)
        exponent, slope_exponent = (int(e) for e in arrays["exponents"])
        codes._set_up(hash, len(dots), dots.dtype == np.int64, exponent, slope_exponent, limit, centre,
                      direction if "direction" in arrays else None)
        codes._dots[:], codes._squares[:], codes._slopes[:] = dots, arrays["squares"], arrays["slopes"]
        for k in range(len(dots)):
            codes.sign(k)
        return codes

    def __reduce__(self):
        return SignCodes.from_arrays, (self.hash, self.to_arrays())

    def _cosines(self):
        if self._table is None:
            self._table = cosine_table(self.hash.n_bits)
        return self._table

    def _check_code(self, k):
        if not 0 <= k < self.n_codes:
            raise IndexError(f"code {k} does not exist: n_codes is {self.n_codes}")

    def _check_words(self, code, ndim):
        words = np.ascontiguousarray(code)
        if words.dtype != np.uint64:
            raise DataTypeError(f"codes are uint64 words; got {words.dtype}")
        if words.ndim != ndim or words.shape[ndim - 1] != self.hash.n_words:
            expected = ", ".join(["N", f"{self.hash.n_words} words"][2 - ndim :])
            raise DataError(f"codes have shape {words.shape}; expected ({expected})")
        return words.reshape(-1, self.hash.n_words)

    def _check_reals(self, name, values, n):
        return _vector(name, values, n).astype(np.float32)


cdef char *address(array):
    """Return the memory of a contiguous array, which the caller keeps alive."""
    cdef size_t where = array.ctypes.data
    return <char *>where


def _frozen(array):
    view = array.view()
    view.flags.writeable = False
    return view


def _fixed(values, exponent):
    return np.rint(np.ldexp(values, exponent)).astype(np.int32)


def _descend(exponent, fits):
    """Return the largest exponent, at most a guess, for which no sum overflows.

    Rounding may add half a unit to each value.
    """
    while not fits(exponent):
        exponent -= 1
    return exponent


def _narrow_exponent(bound, centre, largest_entry):
    """Return the exponent of the finest grid with largest_entry * sum(|v| + |m|) < 2^31."""
    largest, total = 2**_NARROW_BITS - 1, float((bound + np.abs(centre)).sum()) * largest_entry
    if total == 0:
        return 0

    def fits(exponent):
        sizes = np.rint(np.ldexp(bound, exponent)) + np.abs(np.rint(np.ldexp(centre, exponent)))
        return largest_entry * sizes.sum() <= largest

    return _descend(math.frexp(largest / total)[1], fits)


def _wide_exponent(bound, centre, largest_entry):
    """Return the exponent of the finest grid for int64 dots.

    sum((|v| + |m|)^2) and all dots are below 2^62; each value is then below 2^31.
    """
    norm = float(np.linalg.norm(bound + np.abs(centre)))
    if norm == 0:
        return 0

    def fits(exponent):
        sizes = np.rint(np.ldexp(bound, exponent)) + np.abs(np.rint(np.ldexp(centre, exponent)))
        return (sizes**2).sum() < 0.99 * 2.0**62 and largest_entry * sizes.sum() < 0.99 * 2.0**62

    return _descend(math.frexp(2.0**31 / norm)[1], fits)


def _slope_exponent(direction, limit, centre):
    """Return the exponent of the finest grid of a direction.

    sum(|a| (|v| + |m|)) is below 2^62, and |a| is below 2^31.
    """
    sizes = limit.astype(np.float64) + np.abs(centre.astype(np.float64))
    largest = float(np.abs(direction).max(initial=0.0))
    if largest == 0:
        return 0

    def fits(exponent):
        grid = np.abs(np.rint(np.ldexp(direction, exponent)))
        return grid.max() < 2.0**31 and (grid * sizes).sum() < 0.99 * 2.0**62

    return _descend(math.frexp(2.0**31 / largest)[1], fits)
