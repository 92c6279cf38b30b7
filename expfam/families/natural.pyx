"""Posterior means (E theta, E g) of one cluster.

They are computed in C where the family has a compiled form, and equal the results of `Family.expected_natural`.
Proposals whose tables follow single moves use them, because a call of NumPy for one cluster would cost more than the
rest of a move.
"""

import numpy as np

from expfam.contracts cimport EXPFAM_OK, EXPFAM_PYTHON


cdef class NaturalLaw:
    """Function from statistics to posterior means of theta and g, for one bound family.

    Subclasses set the pointer `law`. Families make them by a method `_natural_law`.

    >>> from expfam import SphericalGaussian
    >>> from expfam.families.natural import natural_law_of
    >>> family = SphericalGaussian(variance=1.0, mean=0.0, mean_variance=1.0).bind([[-1.0], [1.0]])
    >>> natural_law_of(family)(1.0, [2.0])
    (array([1.]), 0.75)
    """

    @property
    def is_compiled(self):
        """Return whether the law needs no call of NumPy."""
        return True

    @property
    def pending(self):
        """Return the exception behind a result EXPFAM_PYTHON, or None."""
        return None

    @pending.setter
    def pending(self, error):
        pass

    cdef const double *keep(self, values) except? NULL:
        """Keep a copy of numbers and return a pointer to it."""
        cdef const double[::1] view = np.array(values, dtype=np.float64).ravel()
        if self.arrays is None:
            self.arrays = []
        self.arrays.append(view)
        return &view[0]

    def __call__(self, double n, S):
        """Return the posterior means of theta (F,) and g of one cluster."""
        cdef const double[::1] statistics = np.ascontiguousarray(S, dtype=np.float64)
        out = np.empty(statistics.shape[0])
        cdef double[::1] theta = out
        cdef double[::1] work = np.empty(self.law.work_size + 1)
        cdef double g = 0.0
        cdef int code = self.law.at(self.law, n, &statistics[0], &theta[0], &g, &work[0])
        if code == EXPFAM_PYTHON:
            error, self.pending = self.pending, None
            raise error
        if code:
            raise FloatingPointError("the statistics of the cluster are not finite or not positive definite")
        return out, g


def natural_law_of(family):
    """Return the `NaturalLaw` of a bound family.

    It is compiled if the class that defines the family's `expected_natural` also has a compiled form, or if a class
    derived from that one has. For all other families it calls `expected_natural`.
    """
    for ancestor in type(family).__mro__:
        if "_natural_law" in ancestor.__dict__:
            return family._natural_law()
        if "expected_natural" in ancestor.__dict__:
            break
    return NumpyLaw(family)


# ---- families without a compiled form --------------------------------------------------------------------------------

ctypedef struct numpy_law:
    natural_law base
    void *owner


cdef int numpy_at(const natural_law *law, double n, const double *S, double *theta, double *g,
                  double *work) noexcept with gil:
    cdef NumpyLaw owner = <NumpyLaw> (<const numpy_law *> law).owner
    try:
        owner.compute(n, S, theta, g)
        return EXPFAM_OK
    except BaseException as error:      # interrupts too; the caller raises the error later
        owner.raised = error
        return EXPFAM_PYTHON


cdef class NumpyLaw(NaturalLaw):
    """The law of a family that is written in NumPy."""

    cdef numpy_law own
    cdef object family, raised
    cdef Py_ssize_t F

    def __init__(self, family):
        self.family, self.F = family, family.n_statistics_
        self.own.base.at, self.own.base.work_size = numpy_at, 0
        self.own.owner = <void *> self
        self.law = &self.own.base

    @property
    def is_compiled(self):
        """Return False: each call is one of NumPy."""
        return False

    @property
    def pending(self):
        """Return the exception behind a result EXPFAM_PYTHON, or None."""
        return self.raised

    @pending.setter
    def pending(self, error):
        self.raised = error

    cdef object compute(self, double n, const double *S, double *theta, double *g):
        cdef const double[:, ::1] found
        cdef Py_ssize_t f
        sums = np.asarray(<const double[:1, :self.F]> S).copy()
        first, second = self.family.expected_natural(np.array([n]), sums)
        found = np.ascontiguousarray(first, dtype=np.float64)
        for f in range(self.F):
            theta[f] = found[0, f]
        g[0] = second[0]
