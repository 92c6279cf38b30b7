"""Inverted index over clusters: from a term to the clusters that contain it.

Every stored value is one entry of a pool. The entries of a term are contiguous; they are its posting list. The entries
of a cluster are linked in ascending order of terms. Clusters are only merged or removed, so a posting list never grows:
its place is fixed when the index is built, and the last entry of the list immediately fills every gap. So lists contain
no dead entries. Merging k and l costs O(terms of k and l). The sums over shared terms of one cluster with all others
cost O(postings of its terms), for any number of clusters. Sums run in ascending order of terms, so they are bitwise
symmetric and do not depend on the history of the clusters.
"""

import numpy as np

from expfam.amounts import counted


cdef double product(const void *context, Py_ssize_t term, double x, double y) noexcept nogil:
    return x * y


cdef double minimum(const void *context, Py_ssize_t term, double x, double y) noexcept nogil:
    return x if x < y else y


cdef double one(const void *context, Py_ssize_t term, double x, double y) noexcept nogil:
    return 1.0


cdef shared_term function_of(str name) except NULL:
    if name == "product":
        return product
    if name == "minimum":
        return minimum
    if name == "count":
        return one
    raise ValueError(f"function must be 'product', 'minimum', 'count' or a callable; got {name!r}")


cdef class InvertedIndex:
    """Index from terms to clusters and their values, for clusters that merge.

    Parameters
    ----------
    X : (n_slots, n_terms) scipy.sparse matrix or array of finite numbers
        One row for each cluster. Every stored entry counts as present, also a zero. Duplicate entries are added.

    Attributes
    ----------
    n_slots, n_terms : int
        Shape of X; a slot is a numbered place for one cluster.
    n_entries : int
        Present number of stored values.

    Raises
    ------
    TypeError
        X is not sparse, or its values are not real numbers.
    ValueError
        X contains a value that is not finite (the message names the first one), or indices beyond its shape.

    Notes
    -----
    Each entry of X needs 32 bytes; `compact` frees the memory of removed entries. Building costs O(entries), merging
    and removing cost O(terms of these clusters). Any number of threads may read while no thread writes (callers of
    `c_accumulate` pass their own scratch arrays). The sum over shared terms of f(x + y) - f(x) - f(y), with
    f(x) = lgamma(a + x) - lgamma(a), is the part of the log evidence of two merged multinomial or Poisson clusters that
    comes from shared terms.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from expfam.structures.selection.inverted_index import InvertedIndex
    >>> index = InvertedIndex(csr_array(np.array([[1.0, 2, 0], [0, 3, 0], [0, 0, 5]])))
    >>> index.scores(0)
    (array([1]), array([6.]))
    >>> index.merge(1, 2)
    >>> index.row(1)
    (array([1, 2], dtype=int32), array([3., 5.]))
    >>> index.postings(2)
    (array([1], dtype=int32), array([5.]))
    """

    def __init__(self, X):
        if not all(hasattr(X, name) for name in ("tocsr", "nnz", "shape")):
            raise TypeError(f"X must be a scipy.sparse matrix or array; got {type(X).__name__}")
        if len(X.shape) != 2:
            raise ValueError(f"X must have two dimensions; got shape {X.shape}")
        if X.dtype.kind not in "biuf":
            raise TypeError(f"X must hold real numbers; got {X.dtype}")
        X = X.tocsr(copy=True)  # the two calls below can change X
        X.check_format(full_check=True)
        X.sum_duplicates()
        self._build(X.shape, X.indptr, X.indices, X.data)

    def _build(self, shape, indptr, indices, data):
        if max(shape) > 2**31 - 1:
            raise ValueError(f"at most 2**31 - 1 clusters and terms; got shape {shape}")
        cdef const Py_ssize_t[::1] ptr = np.ascontiguousarray(indptr, dtype=np.intp)
        cdef const int32_t[::1] terms = np.ascontiguousarray(indices, dtype=np.int32)
        values = np.ascontiguousarray(data, dtype=np.float64)
        finite = np.isfinite(values)
        if not finite.all():
            first = int(np.argmin(finite))
            row = int(np.searchsorted(np.asarray(ptr), first, side="right")) - 1
            raise ValueError(f"X[{row}, {indices[first]}] is {values[first]}: values must be finite")
        cdef double[::1] x = values
        cdef Py_ssize_t k, e, i, last, size = terms.shape[0]
        self.n_slots, self.n_terms = shape
        self.n_entries = size
        begin = np.zeros(self.n_terms + 1, dtype=np.intp)
        np.cumsum(np.bincount(np.asarray(terms), minlength=self.n_terms), out=begin[1:])
        self._begin = begin
        self._size = np.zeros(self.n_terms, dtype=np.intp)
        self._head = np.full(self.n_slots, -1, dtype=np.intp)
        self._row_size = np.diff(np.asarray(ptr))
        self._sums = np.zeros(self.n_slots)
        self._mark = np.zeros(self.n_slots, dtype=np.int64)
        self._touched = np.empty(self.n_slots, dtype=np.intp)
        self._stamp = 0
        self._allocate(size)
        for k in range(self.n_slots):
            last = -1
            for i in range(ptr[k], ptr[k + 1]):
                e = self._begin[terms[i]] + self._size[terms[i]]
                self._size[terms[i]] += 1
                self._slot[e] = <int32_t>k
                self._term[e] = terms[i]
                self._value[e] = x[i]
                self._previous[e] = last
                self._next[e] = -1
                if last < 0:
                    self._head[k] = e
                else:
                    self._next[last] = e
                last = e

    cdef void _allocate(self, Py_ssize_t size):
        self._slot = np.empty(size, dtype=np.int32)
        self._term = np.empty(size, dtype=np.int32)
        self._value = np.empty(size)
        self._next = np.empty(size, dtype=np.intp)
        self._previous = np.empty(size, dtype=np.intp)

    # ---- C interface -------------------------------------------------------------------------------------------------

    cdef void _drop(self, Py_ssize_t e) noexcept nogil:
        """Move the last entry of a posting list to the place of entry e.

        Entry e has already been removed from its row.
        """
        cdef Py_ssize_t w = self._term[e], last
        self._size[w] -= 1
        self.n_entries = self.n_entries - 1  # no `-=`: with checks for None, Cython needs the gil for it
        last = self._begin[w] + self._size[w]
        if last == e:
            return
        self._slot[e] = self._slot[last]
        self._value[e] = self._value[last]
        self._next[e] = self._next[last]
        self._previous[e] = self._previous[last]
        if self._previous[e] < 0:
            self._head[self._slot[e]] = e
        else:
            self._next[self._previous[e]] = e
        if self._next[e] >= 0:
            self._previous[self._next[e]] = e

    cdef void c_merge(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
        """Add row l to row k and make l empty; k != l."""
        cdef Py_ssize_t a = self._head[k], b = self._head[l], last = -1, e, twin, place
        self._row_size[k] += self._row_size[l]
        self._row_size[l] = 0
        self._head[l] = -1
        while a >= 0 or b >= 0:
            twin = -1
            if a < 0 or (b >= 0 and self._term[b] < self._term[a]):
                e = b
                b = self._next[b]
                self._slot[e] = <int32_t>k
            else:
                e = a
                a = self._next[a]
                if b >= 0 and self._term[b] == self._term[e]:
                    twin = b
                    b = self._next[b]
            self._previous[e] = last
            if last < 0:
                self._head[k] = e
            else:
                self._next[last] = e
            if twin >= 0:
                self._value[e] += self._value[twin]
                self._row_size[k] -= 1
                self._drop(twin)
                place = self._begin[self._term[e]] + self._size[self._term[e]]
                if e == place:  # e was the last of its list and is now at the place of its twin in l
                    e = twin
            last = e
        if last >= 0:
            self._next[last] = -1

    cdef void c_remove(self, Py_ssize_t k) noexcept nogil:
        """Remove all entries of row k."""
        cdef Py_ssize_t e = self._head[k], following
        while e >= 0:
            following = self._next[e]
            self._drop(e)
            e = following
        self._head[k] = -1
        self._row_size[k] = 0

    cdef Py_ssize_t c_accumulate(self, Py_ssize_t k, shared_term term, const void *context, double *sums,
                                 int64_t *mark, int64_t stamp, Py_ssize_t *touched) noexcept nogil:
        """Sum over shared terms of row k with each other row; return the number of these rows.

        Only rows that share a term with k are written: their slots to `touched` in no special order, their sums to
        sums[slot]. `mark` and `sums` have n_slots entries each. No entry of `mark` may be equal to `stamp` before the
        call.
        """
        cdef Py_ssize_t e = self._head[k], j, first, s, n_touched = 0
        cdef double x
        while e >= 0:
            x = self._value[e]
            first = self._begin[self._term[e]]
            for j in range(first, first + self._size[self._term[e]]):
                s = self._slot[j]
                if s == k:
                    continue
                if mark[s] != stamp:
                    mark[s] = stamp
                    sums[s] = 0
                    touched[n_touched] = s
                    n_touched += 1
                sums[s] += term(context, self._term[e], x, self._value[j])
            e = self._next[e]
        return n_touched

    cdef Py_ssize_t _n_postings(self, Py_ssize_t k) noexcept nogil:
        cdef Py_ssize_t e = self._head[k], total = 0
        while e >= 0:
            total += self._size[self._term[e]]
            e = self._next[e]
        return total

    # ---- Python interface --------------------------------------------------------------------------------------------

    cdef int _check_slot(self, Py_ssize_t k) except -1:
        if not 0 <= k < self.n_slots:
            raise IndexError(f"slot {k} does not exist: the index has slots 0 to {self.n_slots - 1}")
        return 0

    def merge(self, Py_ssize_t k, Py_ssize_t l):
        """Add row l to row k and make l empty. O(terms of k and l).

        Parameters
        ----------
        k, l : int
            Two different slots.
        """
        self._check_slot(k)
        self._check_slot(l)
        if k == l:
            raise ValueError(f"a cluster cannot be merged with itself: both slots are {k}")
        with nogil:
            self.c_merge(k, l)

    def remove(self, Py_ssize_t k):
        """Remove all entries of slot k. O(terms of k)."""
        self._check_slot(k)
        with nogil:
            self.c_remove(k)

    def row(self, Py_ssize_t k):
        """Return the terms of cluster k, ascending, (m,) int32, and their values, (m,) float64."""
        self._check_slot(k)
        terms, values = np.empty(self._row_size[k], dtype=np.int32), np.empty(self._row_size[k])
        cdef int32_t[::1] w = terms
        cdef double[::1] x = values
        cdef Py_ssize_t e = self._head[k], i = 0
        while e >= 0:
            w[i] = self._term[e]
            x[i] = self._value[e]
            i += 1
            e = self._next[e]
        return terms, values

    def postings(self, Py_ssize_t term):
        """Return the clusters with a term, ascending, (m,) int32, and their values, (m,) float64."""
        if not 0 <= term < self.n_terms:
            raise IndexError(f"term {term} does not exist: the index has terms 0 to {self.n_terms - 1}")
        place = slice(self._begin[term], self._begin[term] + self._size[term])
        slots = np.asarray(self._slot)[place]
        order = np.argsort(slots)
        return slots[order], np.asarray(self._value)[place][order]

    def scores(self, Py_ssize_t k, *, function="product"):
        """Sum a function over the terms that one cluster shares with each other cluster.

        This costs O(postings of the terms of k).

        Parameters
        ----------
        k : int
        function : {"product", "minimum", "count"} or callable
            Contribution of a shared term: x * y, min(x, y), or 1. A callable ``function(terms, x, y)`` gets three
            arrays of one length (int terms, values in k, values in the other cluster) and returns a float64 array.

        Returns
        -------
        slots : (m,) intp ndarray
            Clusters that share a term with k, ascending, without k.
        sums : (m,) float64 ndarray
            Sum for each of these clusters, in ascending order of terms. It is bitwise symmetric if the function is.
        """
        self._check_slot(k)
        if callable(function):
            return self._scores_of_callable(k, function)
        cdef shared_term term = function_of(function)
        cdef Py_ssize_t m
        self._stamp += 1
        with nogil:
            m = self.c_accumulate(k, term, NULL, &self._sums[0], &self._mark[0], self._stamp, &self._touched[0])
        slots = np.sort(np.asarray(self._touched)[:m])
        return slots, np.asarray(self._sums)[slots]

    def shared(self, Py_ssize_t k):
        """Return the values of other clusters for the terms of cluster k, by ascending term.

        Parameters
        ----------
        k : int

        Returns
        -------
        slots : (m,) int32 ndarray
            The other clusters.
        terms : (m,) int32 ndarray
        x, y : (m,) float64 ndarray
            Values in k and in the other cluster.
        """
        self._check_slot(k)
        size = self._n_postings(k)
        slots, terms = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
        own, other = np.empty(size), np.empty(size)
        cdef int32_t[::1] s = slots, w = terms
        cdef double[::1] x = own, y = other
        cdef Py_ssize_t e = self._head[k], i = 0, j, first
        while e >= 0:
            first = self._begin[self._term[e]]
            for j in range(first, first + self._size[self._term[e]]):
                if self._slot[j] != k:
                    s[i] = self._slot[j]
                    w[i] = self._term[e]
                    x[i] = self._value[e]
                    y[i] = self._value[j]
                    i += 1
            e = self._next[e]
        return slots[:i], terms[:i], own[:i], other[:i]

    def _scores_of_callable(self, k, function):
        slots, terms, x, y = self.shared(k)
        added = np.asarray(function(terms, x, y), dtype=np.float64)
        if added.shape != x.shape:
            raise ValueError(
                f"the function returned shape {added.shape} for {counted(x.size, 'shared value')}: it needs one each"
            )
        touched, place = np.unique(slots, return_inverse=True)
        # bincount adds in the given order, which is the order of the terms
        return touched.astype(np.intp), np.bincount(place, weights=added, minlength=touched.size)

    def compact(self):
        """Free the memory of merged and removed entries. O(entries + terms)."""
        arrays = self.to_arrays()
        self._build(tuple(arrays["shape"]), arrays["indptr"], arrays["terms"], arrays["values"])

    def to_arrays(self):
        """Return the state as a dict of arrays: ``shape``, ``indptr``, ``terms``, ``values``.

        The last three are the rows in CSR form.
        """
        indptr = np.zeros(self.n_slots + 1, dtype=np.intp)
        np.cumsum(np.asarray(self._row_size), out=indptr[1:])
        rows = [self.row(k) for k in range(self.n_slots)]
        terms = np.concatenate([row[0] for row in rows] or [np.empty(0, dtype=np.int32)])
        values = np.concatenate([row[1] for row in rows] or [np.empty(0)])
        shape = np.array([self.n_slots, self.n_terms], dtype=np.int64)
        return {"shape": shape, "indptr": indptr, "terms": terms, "values": values}

    @classmethod
    def from_arrays(cls, arrays):
        """Make the index from the arrays of `to_arrays`; its sums are bitwise the same."""
        from scipy.sparse import csr_array

        shape = tuple(int(size) for size in arrays["shape"])
        return cls(csr_array((arrays["values"], arrays["terms"], arrays["indptr"]), shape=shape))

    def __reduce__(self):
        return type(self).from_arrays, (self.to_arrays(),)

    def __repr__(self):
        return f"InvertedIndex(n_slots={self.n_slots}, n_terms={self.n_terms}, n_entries={self.n_entries})"
