"""Partners of a `MergeQueue` by Ward's criterion: all pairs, compiled, in O(N) memory."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int64_t

import numpy as np

from expfam.amounts import counted
from expfam.structures.merging.queue cimport merge_partners_v1


ctypedef struct ward_state:
    double *center                  # (n_items, n_features)
    double *size                    # (n_items,)
    Py_ssize_t n_features
    Py_ssize_t *live                # (n_items,) the first n_live are the live slots by ascending id
    Py_ssize_t n_live


cdef Py_ssize_t ward_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                              double *scores, double *rest) noexcept nogil:
    cdef ward_state *s = <ward_state *> self
    cdef Py_ssize_t i, f, d = s.n_features
    cdef const double *x = s.center + k * d
    cdef const double *y
    cdef double square, n = s.size[k], other
    for i in range(s.n_live):
        if ids[s.live[i]] >= ids[k]:
            return i
        slots[i] = s.live[i]
        y = s.center + s.live[i] * d
        square = 0
        for f in range(d):
            square += (x[f] - y[f]) * (x[f] - y[f])
        other = s.size[s.live[i]]
        scores[i] = -(n * other / (n + other)) * square
    return s.n_live


cdef void add_center(ward_state *s, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Move the centre of slot k to that of both clusters; the size of slot l becomes 0."""
    cdef Py_ssize_t f, d = s.n_features
    cdef double *x = s.center + k * d
    cdef const double *y = s.center + l * d
    cdef double n = s.size[k], other = s.size[l]
    for f in range(d):
        x[f] = (n * x[f] + other * y[f]) / (n + other)
    s.size[k] = n + other
    s.size[l] = 0


cdef class WardPartners:
    """Partners of a `MergeQueue` by Ward's method, with the scores of all pairs.

    A score is minus the growth of the within-cluster sum of squares.

    Parameters
    ----------
    X : (n_items, n_features) array of finite float64
        First centres; they are copied.
    size : (n_items,) array, optional
        Positive weights; all 1 by default.

    Attributes
    ----------
    capsule : PyCapsule
        ``"expfam.merge_partners_v1"``.

    Notes
    -----
    score(k, l) = -n_k n_l / (n_k + n_l) |m_k - m_l|^2 (Ward 1963). SciPy's height is sqrt(-2 score). The memory is the
    size of X, whereas `scipy.cluster.hierarchy.linkage` stores n_items**2 / 2 distances.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures import MergeQueue, WardPartners
    >>> partners = WardPartners(np.array([[0.0], [1.0], [9.0]]))
    >>> children, scores = MergeQueue(3, partners).run(partners.absorb)
    >>> np.sqrt(-2 * scores)
    array([1.        , 9.81495458])
    """

    cdef readonly object capsule
    cdef merge_partners_v1 _functions
    cdef ward_state _state
    cdef double[:, ::1] _center             # owners of what _state points into
    cdef double[::1] _size
    cdef Py_ssize_t[::1] _live

    def __init__(self, X, *, size=None):
        center = np.array(X, dtype=np.float64, order="C")
        if center.ndim != 2 or 0 in center.shape or not np.isfinite(center).all():
            raise ValueError(f"X must be a non-empty (n_items, n_features) array of finite numbers; got {center.shape}")
        sizes = np.ones(len(center)) if size is None else np.array(size, dtype=np.float64)
        if sizes.shape != (len(center),) or not (np.isfinite(sizes) & (sizes > 0)).all():
            raise ValueError(f"size must hold {counted(len(center), 'positive finite number')}")
        self._center, self._size, self._live = center, sizes, np.arange(len(center), dtype=np.intp)
        self._state.center = &self._center[0, 0]
        self._state.size = &self._size[0]
        self._state.live = &self._live[0]
        self._state.n_features, self._state.n_live = center.shape[1], center.shape[0]
        self._functions.self = &self._state
        self._functions.partners = ward_partners
        self.capsule = PyCapsule_New(&self._functions, "expfam.merge_partners_v1", NULL)

    def fork(self):
        """Return the object itself: scans of several threads share it, because they write nothing."""
        return self

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Add the cluster in slot l to slot k, which holds the youngest cluster now.

        Parameters
        ----------
        k, l : int
            Slots of the two clusters; slot l is empty afterwards.

        Raises
        ------
        IndexError
            If one of the slots holds no live cluster.
        ValueError
            If both slots are the same.
        """
        cdef ward_state *s = &self._state
        cdef Py_ssize_t slot, i, m = 0
        for slot in (k, l):
            if not 0 <= slot < self._size.shape[0] or s.size[slot] == 0:
                raise IndexError(f"slot {slot} holds no live cluster")
        if k == l:
            raise ValueError(f"a cluster cannot absorb itself; got slot {k} twice")
        add_center(s, k, l)
        for i in range(s.n_live):
            if s.live[i] != k and s.live[i] != l:
                s.live[m] = s.live[i]
                m += 1
        s.live[m] = k
        s.n_live = m + 1
