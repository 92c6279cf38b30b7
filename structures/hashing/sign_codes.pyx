"""Sign codes, norms and inner products of K vectors, exact after any sequence of updates.

Dot products of the K vectors with the rows of a random matrix are stored as integers on a fixed-point grid. An update
adds integers, so after any updates in any order, dots, bits and norms are bitwise those of a rebuild. Updates cost O(l)
for each nonzero coordinate. The distances of a code to K codes cost O(K l/64), and a draw costs O(K) more.
"""

import math

import numpy as np

from cython cimport final
from libc.math cimport ldexp, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from expfam.structures.hashing.sign_hash cimport SignHash
from expfam.structures.simd.float_softmax cimport expfam_float_exp_blocks, expfam_float_pick
from expfam.structures.simd.hamming cimport expfam_hamming, expfam_sign_scores
from expfam.structures.simd.sign_codes cimport expfam_sign_bits_32, expfam_sign_bits_64

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError
from expfam.structures.hashing.angle_bounds import cosine_table
from expfam.structures.hashing.code_rows import CodedRows, real_vector

cdef enum:
    CHUNK = 64                  # number of coordinates that an update hashes together

_NARROW_BITS = 31               # int32 dots are below 2^31 in absolute value
_COARSE = 6                     # an exponent below this would round too much: then the dots are int64


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
        bound = real_vector("bound", bound, n)
        if (bound < 0).any():
            raise DataError(f"bound[{np.flatnonzero(bound < 0)[0]}] is negative: bounds are of absolute values")
        centre = np.zeros(n) if centre is None else real_vector("centre", centre, n)
        exponent = _narrow_exponent(bound, centre, hash.largest_entry)
        wide = dots == "int64" or (dots == "auto" and exponent < _COARSE)
        if wide:
            exponent = _wide_exponent(bound, centre, hash.largest_entry)
        limit, centre = _fixed(bound, exponent), _fixed(centre, exponent)
        slope_exponent = 0
        if direction is not None:
            direction = real_vector("direction", direction, n)
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

        The record, bytes, is for `restore_code` of the same object and vector k.
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
            raise DataError(
                f"a record has {counted(self.record_size(), 'byte')}; got {len(record)}: give what save_code returned"
            )
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
        rows = CodedRows(V)
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
        """Return in how many bits a code (n_words,) differs from each of the codes: (K,) int32."""
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
        uniforms = real_vector("uniforms", uniforms, n)
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
            expected = ", ".join(["N", counted(self.hash.n_words, "word")][2 - ndim :])
            raise DataError(f"codes have shape {words.shape}; expected ({expected})")
        return words.reshape(-1, self.hash.n_words)

    def _check_reals(self, name, values, n):
        return real_vector(name, values, n).astype(np.float32)


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
