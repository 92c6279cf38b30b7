"""Weighted min-hash: non-negative vectors collide with probability sum min / sum max.

The same formula holds for k vectors. There are two methods. "icws" (Ioffe 2010) needs no bounds and costs O(non-zeros)
for each hash; its random numbers are functions of (seed, feature, hash), so nothing is stored, for any number of
features. "rejection" (Shrivastava 2016) throws darts at the line of the columns' upper bounds until one falls below the
vector; a hash needs O(sum upper / sum x) darts on average. It is the faster method if rows are dense and close to their
bounds. The key of a table combines `n_hashes` hashes.

Invariant: a hash is a function of the settings and of the numbers in the row alone. It does not depend on storage, on
other rows in a call, or on the number of threads. All vectors of zeros have the key 0, and no other vector has it.
"""

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY, fabs, isfinite, log
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from expfam.structures.hashing._buckets cimport scramble
from expfam.structures.simd.elementary cimport expfam_log1
from expfam.structures.simd.min_hash cimport expfam_icws
from expfam.structures.ground.rng cimport Purpose, philox_aim, philox_double, philox_init, philox_next64, philox_stream

from expfam.structures.ground.threads import resolve_n_threads, run

cdef enum:
    ROWS = 512                  # rows in a task
    TABLE_BYTES = 1 << 26       # bytes of tabulated draws
    READY_DARTS = 512           # darts of each hash that are thrown before the rows are read
    MOST_DARTS = 1 << 16        # largest expected number for a row

cdef uint64_t ICWS = <uint64_t> 1 << 40         # added to the number of the hash: the two methods use different streams
cdef uint64_t REJECTION = <uint64_t> 2 << 40


cdef inline double open_uniform(uint64_t half) noexcept nogil:
    """Return a number in the open interval (0, 1) from 32 bits."""
    return (<double> (half & <uint64_t> 0xffffffff) + 0.5) * (1.0 / 4294967296.0)


cdef inline double log_weight(double x) noexcept nogil:
    return log(x) if x < 2.3e-308 else expfam_log1(x)  # expfam_log1 is wrong for denormal numbers


cdef void icws_draws(uint64_t seed, uint64_t feature, Py_ssize_t first, Py_ssize_t size, double *out) noexcept nogil:
    """Draw r, b and log c for `size` hashes; each hash uses one block of four words.

    r and c have the law Gamma(2, 1), and b is uniform.
    """
    cdef philox_stream stream
    cdef Py_ssize_t h
    cdef uint64_t w0, w1, w2
    philox_init(&stream, seed, Purpose.TABLES)
    for h in range(size):
        philox_aim(&stream, feature, ICWS + <uint64_t> (first + h))
        w0 = philox_next64(&stream)
        w1 = philox_next64(&stream)
        w2 = philox_next64(&stream)
        out[h] = -expfam_log1(open_uniform(w0) * open_uniform(w0 >> 32))
        out[size + h] = open_uniform(w2)
        out[2 * size + h] = expfam_log1(-expfam_log1(open_uniform(w1) * open_uniform(w1 >> 32)))


cdef class WeightedMinHash:
    """Weighted min-hash of non-negative (or signed) vectors.

    For each hash, two vectors have the same value with probability sum min / sum max.

    Parameters
    ----------
    n_features : int
        Number of columns of the data, D.
    n_tables : int
        Number of keys of each row.
    n_hashes : int
        Number of hashes in one key. Two rows of similarity J have the same key with probability J ** n_hashes.
    method : {"icws", "rejection"}
        Rejection needs `upper`. It is faster for dense rows that are close to their bounds.
    upper : (D,) float64 array_like, or (D, 2) if signed
        Upper bound of each column; with signs, the bounds of its positive part and of its negative part.
        `column_bounds` computes them from data. A row that exceeds them is refused.
    is_signed : bool
        Whether x stands for the 2 D weights max(x, 0), max(-x, 0), which are not stored. Otherwise negative numbers are
        refused.
    seed : int in [0, 2**64)
        Two objects with equal settings and seed give the same keys.

    Attributes
    ----------
    n_features, n_tables, n_hashes, method, upper, is_signed, seed
        Arguments of the constructor.

    Raises
    ------
    ValueError
        A setting is out of range, or `upper` is missing, not needed, or of a wrong shape.

    Notes
    -----
    ICWS: for every feature j of weight x > 0 draw r, c ~ Gamma(2, 1) and b ~ U(0, 1), and compute
    t = floor(log x / r + b) and log a = log c - r (t - b + 1). The hash is (j, t) of the smallest a (Ioffe 2010,
    "Improved consistent sampling, weighted minhash and L1 sketching", algorithm 1). Uniform numbers have 32 bits, and
    the pair is mixed into 64 bits. Rejection: darts are uniform on [0, sum upper), and the hash is the number of the
    first dart that falls below x in its column (Shrivastava 2016, "Simple and efficient weighted minwise hashing").
    On machines with different instruction sets, an ICWS key can differ by rounding, about once in 10^15 weights.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.hashing.min_hash import WeightedMinHash, collision
    >>> X = np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    >>> keys = WeightedMinHash(3, n_tables=4000, seed=3).keys(X)
    >>> bool(abs((keys[0] == keys[1]).mean() - collision(X[:2])) < 0.03)
    True
    >>> int(keys[2].max())
    0
    """

    def __init__(self, n_features, *, n_tables=10, n_hashes=1, method="icws", upper=None, is_signed=False, seed=0):
        for name, value in [("n_features", n_features), ("n_tables", n_tables), ("n_hashes", n_hashes)]:
            if value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}")
        if n_tables * n_hashes >= 2**31 or n_features >= 2**30:
            raise ValueError(f"n_tables * n_hashes ({n_tables * n_hashes}) and n_features ({n_features}) are too large")
        if method not in ("icws", "rejection"):
            raise ValueError(f"method must be 'icws' or 'rejection'; got {method!r}")
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed must lie in [0, 2**64); got {seed}")
        self.n_features, self.n_tables, self.n_hashes = n_features, n_tables, n_hashes
        self.method, self.is_signed, self.seed = method, is_signed, seed
        self.is_icws = method == "icws"
        self.n_weights = n_features * (2 if is_signed else 1)
        self.upper = self._bounds(upper)
        # The sizes alone define blocks, so that the position of a hash in its block, and its rounding, never depend on
        # the data.
        self.block = max(1, min(n_tables * n_hashes, 64, TABLE_BYTES // (24 * self.n_weights)))
        self.work_size = 6 * self.block if self.is_icws else self.n_weights

    def _bounds(self, upper):
        if self.is_icws:
            if upper is not None:
                raise ValueError("method 'icws' has no bounds: leave upper out")
            return None
        cdef object shape = tuple([self.n_features, 2] if self.is_signed else [self.n_features])
        if upper is None:
            raise ValueError(f"method 'rejection' needs upper of shape {shape}: see column_bounds")
        bounds = np.array(upper, dtype=np.float64, order="C")
        if bounds.shape != shape:
            raise ValueError(f"upper must have shape {shape}; got {bounds.shape}")
        if not np.isfinite(bounds).all() or bounds.min() < 0 or bounds.max() == 0:
            raise ValueError("upper must be finite and not negative, and positive somewhere")
        bounds.flags.writeable = False
        self.ends = np.cumsum(bounds.ravel())
        self.bounds = bounds.ravel().copy()
        return bounds

    def _settings(self):
        return {
            "n_tables": self.n_tables,
            "n_hashes": self.n_hashes,
            "method": self.method,
            "upper": self.upper,
            "is_signed": self.is_signed,
            "seed": self.seed,
        }

    def __reduce__(self):
        return make_hash, (self.n_features, self._settings())

    def __eq__(self, other):
        if type(other) is not WeightedMinHash:
            return NotImplemented
        mine, theirs = self._settings(), other._settings()
        bounds = [settings.pop("upper") for settings in (mine, theirs)]
        return self.n_features == other.n_features and mine == theirs and np.array_equal(*bounds)

    def __hash__(self):
        return hash((self.n_features, self.n_tables, self.n_hashes, self.method, self.is_signed, self.seed))

    def __repr__(self):
        settings = self._settings()
        if self.upper is None:
            del settings["upper"]
        return f"WeightedMinHash({self.n_features}, {', '.join(f'{k}={v!r}' for k, v in settings.items())})"

    cdef Py_ssize_t hash_row(self, const int64_t *columns, const double *values, Py_ssize_t n, uint64_t *codes,
                             double *work) noexcept nogil:
        """Compute the codes of one row without tabulated draws, as streaming inserts need."""
        cdef Py_ssize_t first = 0, size, code = MIN_HASH_FINE
        if not self.is_icws:
            return self.rejection_row(columns, values, n, NULL, NULL, 0, codes, work)
        while first < self.n_tables * self.n_hashes and code == MIN_HASH_FINE:
            size = min(self.block, self.n_tables * self.n_hashes - first)
            code = self.icws_row(columns, values, n, first, size, NULL, codes + first, work)
            first += size
        return code

    cdef Py_ssize_t icws_row(self, const int64_t *columns, const double *values, Py_ssize_t n, Py_ssize_t first,
                             Py_ssize_t size, const double *table, uint64_t *codes, double *work) noexcept nogil:
        """Compute the codes of the hashes first..first+size-1.

        `table` (n_weights, 3, size) contains their draws, or is NULL.
        """
        cdef double *best = work
        cdef double *level = work + size
        cdef double *winner = work + 2 * size
        cdef double *fresh = work + 3 * size
        cdef const double *draws
        cdef Py_ssize_t p, h, j, n_used = 0
        cdef uint64_t bits
        cdef double x
        for h in range(size):
            best[h] = INFINITY
        for p in range(n):
            x = values[p]
            if x == 0.0:
                continue
            if not isfinite(x) or (x < 0.0 and not self.is_signed):
                return p
            j = columns[p] if columns != NULL else p
            if self.is_signed:
                j = 2 * j + (x < 0.0)
            if table == NULL:
                icws_draws(self.seed, <uint64_t> j, first, size, fresh)
                draws = fresh
            else:
                draws = table + 3 * size * j
            expfam_icws(draws, log_weight(fabs(x)), <double> j, best, level, winner, size)
            n_used += 1
        for h in range(size):
            if n_used == 0:
                codes[h] = 0
                continue
            memcpy(&bits, level + h, 8)
            bits = scramble(scramble(<uint64_t> winner[h] + 1) + bits)
            codes[h] = bits if bits else 1
        return MIN_HASH_FINE

    cdef int32_t dart(self, Py_ssize_t h, Py_ssize_t number, double *offset) noexcept nogil:
        """Return the column of a dart of hash h; `offset` receives the distance from its left end."""
        cdef philox_stream stream
        cdef Py_ssize_t low = 0, high = self.n_weights - 1, middle, _word
        cdef double at
        philox_init(&stream, self.seed, Purpose.TABLES)
        philox_aim(&stream, <uint64_t> (number >> 2), REJECTION + <uint64_t> h)
        for _word in range(number & 3):
            philox_next64(&stream)
        at = philox_double(&stream) * self.ends[high]
        while low < high:
            middle = (low + high) >> 1
            if self.ends[middle] > at:
                high = middle
            else:
                low = middle + 1
        offset[0] = at - (self.ends[low - 1] if low else 0.0)
        return <int32_t> low

    cdef Py_ssize_t rejection_row(self, const int64_t *columns, const double *values, Py_ssize_t n,
                                  const int32_t *components, const double *offsets, Py_ssize_t n_ready,
                                  uint64_t *codes, double *work) noexcept nogil:
        """Compute all codes; arrays (hashes, n_ready) may contain the first darts of each."""
        cdef Py_ssize_t p, h, d, j, code = MIN_HASH_FINE, n_used = 0
        cdef double x, offset, total = 0.0
        for p in range(n):
            x = values[p]
            if x == 0.0:
                continue
            if not isfinite(x) or (x < 0.0 and not self.is_signed):
                code = p
                break
            j = columns[p] if columns != NULL else p
            if self.is_signed:
                j = 2 * j + (x < 0.0)
            x = fabs(x)
            if x > self.bounds[j]:
                code = p
                break
            work[j] = x
            total += x
            n_used += 1
        if code == MIN_HASH_FINE and n_used and total * MOST_DARTS < self.ends[self.n_weights - 1]:
            code = MIN_HASH_SCARCE
        if code == MIN_HASH_FINE:
            for h in range(self.n_tables * self.n_hashes):
                codes[h] = 0
                if n_used == 0:
                    continue
                d = 0
                while True:
                    if d < n_ready:
                        j, offset = components[h * n_ready + d], offsets[h * n_ready + d]
                    else:
                        j = self.dart(h, d, &offset)
                    d += 1
                    if offset < work[j]:
                        break
                codes[h] = <uint64_t> d
        for p in range(n):
            j = columns[p] if columns != NULL else p
            if self.is_signed:
                work[2 * j] = work[2 * j + 1] = 0.0
            else:
                work[j] = 0.0
        return code

    cdef void fold(self, const uint64_t *codes, Py_ssize_t first, Py_ssize_t size, Py_ssize_t n_hashes,
                   uint64_t *keys) noexcept nogil:
        """Mix the codes of the hashes first..first+size-1 into the keys of a row.

        Each key combines `n_hashes` codes in order.
        """
        cdef Py_ssize_t h, which
        cdef uint64_t mixed
        for h in range(size):
            which = (first + h) // n_hashes
            if (first + h) % n_hashes == 0 or codes[h] == 0:
                keys[which] = codes[h]
            else:
                mixed = scramble(scramble(keys[which]) + codes[h])
                keys[which] = mixed if mixed else 1

    def keys(self, X, *, n_threads=None):
        """Return the key of each row in each table.

        Parameters
        ----------
        X : (N, D) array_like or CSR
            Finite, and not negative unless signed.
        n_threads : int or None
            Results do not depend on it.

        Returns
        -------
        (N, n_tables) uint64 ndarray
            0 for a row of zeros and for no other row.

        Raises
        ------
        ValueError
            X has a wrong shape, or a value is refused; the message names its row and column.
        """
        return self._hash(X, self.n_hashes, n_threads)

    def hashes(self, X, *, n_threads=None):
        """Return the single hashes of each row, which `keys` combines.

        Parameters
        ----------
        X : (N, D) array_like or CSR
        n_threads : int or None

        Returns
        -------
        (N, n_tables * n_hashes) uint64 ndarray
            The key of table l combines the columns l * n_hashes to (l + 1) * n_hashes - 1.

        Raises
        ------
        ValueError
            As in `keys`.
        """
        return self._hash(X, 1, n_threads)

    def _hash(self, X, Py_ssize_t n_hashes, n_threads):
        cdef Py_ssize_t total = self.n_tables * self.n_hashes, first, size
        X, n_threads = self._matrix(X), resolve_n_threads(n_threads)
        out = np.empty((X.shape[0], total // n_hashes), dtype=np.uint64)
        for first in range(0, total, self.block if self.is_icws else total):
            size = min(self.block, total - first) if self.is_icws else total
            self._take_in(X, out, (first, size, n_hashes), n_threads)
        return out

    def _take_in(self, X, out, part, n_threads):
        """Mix a block of hashes into the keys of all rows.

        `part` is (first hash, number of hashes, hashes in each key).
        """
        ready = None
        if not self.is_icws:
            ready = self._throw(min(X.shape[0], READY_DARTS))
        elif 24 * part[1] * self.n_weights <= TABLE_BYTES:
            used = np.ones(self.n_features, dtype=np.uint8)
            if sparse.issparse(X):
                used[:] = np.bincount(X.indices, minlength=self.n_features)[: self.n_features] > 0
            # tabulated draws save time if each is read more than once; results are bitwise the same
            if (X.nnz if sparse.issparse(X) else X.size) > np.count_nonzero(used) * (self.n_weights // self.n_features):
                ready = self._tabulate(part[0], part[1], used, n_threads)

        def work(start, stop):
            return self._chunk(X, start, stop, ready, out[start:stop], part)

        run(work, [(start, min(start + ROWS, X.shape[0])) for start in range(0, X.shape[0], ROWS)], n_threads)

    def _matrix(self, X):
        if sparse.issparse(X):
            X = X.tocsr()
            if X.nnz and not (0 <= X.indices.min() and X.indices.max() < X.shape[1]):
                raise ValueError(f"X has column numbers outside [0, {X.shape[1]})")
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
        else:
            X = np.asarray(X)
        if X.dtype.kind not in "buif":
            raise ValueError(f"{type(self).__name__} needs real numbers; got dtype {X.dtype}")
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"{type(self).__name__} was made for shape (N, {self.n_features}); got {X.shape}")
        return X

    def _tabulate(self, Py_ssize_t first, Py_ssize_t size, const uint8_t[::1] used, n_threads):
        table = np.empty((self.n_weights, 3, size))
        cdef double[:, :, ::1] view = table

        def fill(start, stop):
            cdef Py_ssize_t a = start, b = stop, j
            with nogil:
                for j in range(a, b):
                    if used[j >> 1 if self.is_signed else j]:
                        icws_draws(self.seed, <uint64_t> j, first, size, &view[j, 0, 0])

        run(fill, [(j, min(j + ROWS, self.n_weights)) for j in range(0, self.n_weights, ROWS)], n_threads)
        return table

    def _throw(self, Py_ssize_t n_ready):
        cdef Py_ssize_t h, d
        components = np.empty((self.n_tables * self.n_hashes, n_ready), dtype=np.int32)
        offsets = np.empty(components.shape)
        cdef int32_t[:, ::1] component = components
        cdef double[:, ::1] offset = offsets
        with nogil:
            for h in range(component.shape[0]):
                for d in range(n_ready):
                    component[h, d] = self.dart(h, d, &offset[h, d])
        return components, offsets

    def _chunk(self, X, start, stop, ready, uint64_t[:, ::1] keys, part):
        """Hash some rows.

        `ready` is the result of `_tabulate` or `_throw`; `part` is as in `_take_in`.
        """
        cdef Py_ssize_t first = part[0], size = part[1], n_hashes = part[2]
        cdef Py_ssize_t i, p, n_ready = 0, code = MIN_HASH_FINE
        cdef const int64_t *columns = NULL
        cdef const double *table = NULL
        cdef const int32_t *components = NULL
        cdef const double *offsets = NULL
        pointers, indices, numbers = entries(X, start, stop)
        cdef const int64_t[::1] indptr = pointers
        cdef const double[::1] values = numbers
        cdef const int64_t[::1] column
        cdef const double[:, :, ::1] draws
        cdef const int32_t[:, ::1] component
        cdef const double[:, ::1] offset
        cdef uint64_t[::1] codes = np.empty(size, dtype=np.uint64)
        cdef double[::1] scratch = np.zeros(self.work_size)
        if values.shape[0] == 0:
            keys[:, :] = 0
            return
        if indices is not None:
            column = indices
            columns = &column[0]
        if self.is_icws and ready is not None:
            draws = ready
            table = &draws[0, 0, 0]
        elif ready is not None and ready[0].size:
            component, offset = ready
            components, offsets, n_ready = &component[0, 0], &offset[0, 0], component.shape[1]
        with nogil:
            for i in range(indptr.shape[0] - 1):
                p = indptr[i]
                if self.is_icws:
                    code = self.icws_row(columns + p if columns != NULL else NULL, &values[0] + p, indptr[i + 1] - p,
                                         first, size, table, &codes[0], &scratch[0])
                else:
                    code = self.rejection_row(columns + p if columns != NULL else NULL, &values[0] + p,
                                              indptr[i + 1] - p, components, offsets, n_ready, &codes[0], &scratch[0])
                if code != MIN_HASH_FINE:
                    break
                self.fold(&codes[0], first, size, n_hashes, &keys[i, 0])
        if code == MIN_HASH_SCARCE:
            total = float(np.abs(numbers[p : indptr[i + 1]]).sum())
            raise ValueError(
                f"row {start + i} has a total weight of {total} beside bounds of {self.ends[self.n_weights - 1]}:"
                " rejection would take too long, use method='icws'"
            )
        if code >= 0:
            at = int(code if indices is None else column[p + code])
            self._refuse(start + i, at, numbers[p + code])

    def _refuse(self, row, column, value):
        rule = "finite numbers" if self.is_signed else "finite numbers that are not negative (or is_signed=True)"
        if np.isfinite(value) and (self.is_signed or value > 0):
            bound = self.upper[column, int(value < 0)] if self.is_signed else self.upper[column]
            rule = f"absolute values up to upper = {bound} there: make the hash anew with wider bounds"
        raise ValueError(f"weighted min-hash needs {rule}; row {row}, column {column} holds {value}")


def make_hash(n_features, settings):
    """Make a hash from its settings, for pickling."""
    return WeightedMinHash(n_features, **settings)


def entries(X, start, stop):
    """Return row pointers, columns and values of some rows in the types of the loops.

    Columns are None if all are present.
    """
    if not sparse.issparse(X):
        values = np.ascontiguousarray(X[start:stop], dtype=np.float64).ravel()
        return np.arange(stop - start + 1, dtype=np.int64) * X.shape[1], None, values
    a, b = X.indptr[start], X.indptr[stop]
    columns = X.indices[a:b].astype(np.int64)
    return X.indptr[start : stop + 1].astype(np.int64) - a, columns, X.data[a:b].astype(np.float64)


def column_bounds(X, *, is_signed=False):
    """Return the upper bound of each column of some data, for the rejection hash.

    Parameters
    ----------
    X : (N, D) array_like or CSR
    is_signed : bool
        Whether to bound the positive and the negative parts separately.

    Returns
    -------
    (D,) float64 ndarray, or (D, 2) when signed

    Examples
    --------
    >>> from expfam.structures.hashing.min_hash import column_bounds
    >>> column_bounds([[1.0, -2.0], [3.0, 0.5]], is_signed=True).tolist()
    [[3.0, 0.0], [0.5, 2.0]]
    """
    if sparse.issparse(X):
        X = X.tocsr()
        high, low = X.max(axis=0).toarray().ravel(), X.min(axis=0).toarray().ravel()
    else:
        X = np.asarray(X)
        high, low = X.max(axis=0), X.min(axis=0)
    high, low = (np.asarray(part, dtype=np.float64) for part in (high, low))
    if not is_signed:
        return high
    return np.stack([np.maximum(high, 0.0), np.maximum(-low, 0.0)], axis=1)


def weights_of(W, is_signed, name):
    """Return rows as dense non-negative weights, 2 D columns if signed."""
    W = np.asarray(W.toarray() if sparse.issparse(W) else W, dtype=np.float64)
    W = W[None] if W.ndim == 1 else W
    if W.ndim != 2 or W.shape[0] < 1:
        raise ValueError(f"{name} must hold at least one row of weights; got shape {W.shape}")
    bad = np.argwhere(~np.isfinite(W) | ((W < 0) & (not is_signed)))
    if bad.size:
        row, column = bad[0]
        raise ValueError(
            f"weights must be finite{'' if is_signed else ' and not negative (or is_signed=True)'};"
            f" row {row}, column {column} of {name} holds {W[row, column]}"
        )
    return np.concatenate([np.maximum(W, 0.0), np.maximum(-W, 0.0)], axis=1) if is_signed else W


def collision(W, *, is_signed=False):
    """Return the probability that all rows have the same hash, sum min / sum max.

    Parameters
    ----------
    W : (m, D) float64 array_like or CSR
        One or more rows; for one row the probability is 1.
    is_signed : bool

    Returns
    -------
    float
        1.0 if all rows are zeros, because they have the same key. The cost is O(m D).

    Notes
    -----
    Luo and Shrivastava 2018, eq. 1.

    Examples
    --------
    >>> from expfam.structures.hashing.min_hash import collision
    >>> collision([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]])
    0.5
    """
    W = weights_of(W, is_signed, "W")
    return ratio(W.min(axis=0), W.max(axis=0))


cdef double ratio(low, high) except -1.0:
    cdef double mass = high.sum()
    return 1.0 if mass == 0.0 else low.sum() / mass


def first_dart(A, B, *, is_signed=False):
    """Return the probability that the first dart below any row is below A and above B.

    "Below A" means below all rows of A, and "above B" means above all rows of B.

    Parameters
    ----------
    A, B : (a, D) and (b, D) float64 array_like or CSR
    is_signed : bool

    Returns
    -------
    float
        0.0 if all rows are zeros. The cost is O((a + b) D).

    Notes
    -----
    sum_j max(0, min_A x_j - max_B x_j) / sum_j max x_j: Luo and Shrivastava 2018, eq. 4. The paper takes this for
    `split_probability`, but it is only a lower bound of it, because a row of B whose own first dart comes later may
    differ from A as well.

    Examples
    --------
    >>> from expfam.structures.hashing.min_hash import first_dart, split_probability
    >>> first_dart([[2.0, 1.0]], [[1.0, 2.0]]), split_probability([[2.0, 1.0]], [[1.0, 2.0]])
    (0.25, 0.5)
    """
    A, B = weights_of(A, is_signed, "A"), weights_of(B, is_signed, "B")
    gap = np.maximum(A.min(axis=0) - B.max(axis=0), 0.0).sum()
    mass = np.maximum(A.max(axis=0), B.max(axis=0)).sum()
    return float(gap / mass) if mass else 0.0


def split_probability(A, B, *, is_signed=False):
    """Return the probability that one hash separates A from B.

    A hash separates them if all rows of A have the same value and every row of B has another one.

    Parameters
    ----------
    A : (a, D) float64 array_like or CSR
    B : (b, D) float64 array_like or CSR
        At most 20 rows, because the cost is O(2**b D).
    is_signed : bool

    Returns
    -------
    float
        The error is at most 2**b rounding errors.

    Raises
    ------
    ValueError
        B has more than 20 rows.

    Notes
    -----
    Inclusion and exclusion over the subsets T of B: the sum over T of (-1)^|T| collision(A and T).

    Examples
    --------
    >>> from expfam.structures import split_probability
    >>> split_probability([[1.0, 0.0]], [[0.0, 1.0]])
    1.0
    """
    A, B = weights_of(A, is_signed, "A"), weights_of(B, is_signed, "B")
    if B.shape[0] > 20:
        raise ValueError(f"B may have at most 20 rows, each doubles the cost; got {B.shape[0]}")

    def signed_sum(low, high, first):
        total = ratio(low, high)
        for b in range(first, B.shape[0]):
            total -= signed_sum(np.minimum(low, B[b]), np.maximum(high, B[b]), b + 1)
        return total

    return signed_sum(A.min(axis=0), A.max(axis=0), 0)
