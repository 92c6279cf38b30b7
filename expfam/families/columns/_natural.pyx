"""Posterior means (E theta, E g) of one cluster of a table.

They are those of its parts, each by its own law. Parts with a compiled law need no call of NumPy.
"""

import numpy as np

from cpython.mem cimport PyMem_Free, PyMem_Malloc

from expfam.contracts cimport EXPFAM_OK
from expfam.families.natural cimport NaturalLaw, natural_law

from expfam.families.natural import natural_law_of

ctypedef struct part_law:
    const natural_law *law
    Py_ssize_t start                # first column of phi of the part, its indicator if it has one
    bint has_indicator

ctypedef struct columns_law:
    natural_law base
    part_law *parts
    Py_ssize_t n_parts
    const double *zeros             # (widest part,)


cdef int columns_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                    double *work) noexcept nogil:
    """Compute theta part by part.

    -g of a part with an indicator is the parameter of the indicator. Sums of clusters that no observed row is in are
    taken as 0, whatever rounding has left.
    """
    cdef const columns_law *law = <const columns_law *> base
    cdef const part_law *part
    cdef const double *sums
    cdef double count, own = 0.0
    cdef Py_ssize_t p, first
    cdef int code
    g[0] = 0.0
    for p in range(law.n_parts):
        part = law.parts + p
        first = part.start + part.has_indicator
        count, sums = n, S + first
        if part.has_indicator:
            count = S[part.start] if S[part.start] > 0.0 else 0.0
            if count == 0.0:
                sums = law.zeros
        code = part.law.at(part.law, count, sums, theta + first, &own, work)
        if code:
            return code
        if part.has_indicator:
            theta[part.start] = -own
        else:
            g[0] += own
    return EXPFAM_OK


cdef class ColumnsLaw(NaturalLaw):
    """The law of a bound `Columns`."""

    cdef columns_law own
    cdef list laws                  # the NaturalLaw of each part

    def __dealloc__(self):
        PyMem_Free(self.own.parts)

    def __init__(self, family):
        cdef columns_law *law = &self.own
        cdef NaturalLaw own
        cdef Py_ssize_t p
        parts = family._parts
        self.law = &law.base
        self.laws = [natural_law_of(part.family) for part in parts]
        law.n_parts = len(parts)
        PyMem_Free(law.parts)
        law.parts = <part_law *> PyMem_Malloc(law.n_parts * sizeof(part_law))
        if law.parts == NULL:
            raise MemoryError()
        law.base.at, law.base.work_size = columns_at, 0
        for p in range(law.n_parts):
            own = self.laws[p]
            law.parts[p].law = own.law
            law.parts[p].start, law.parts[p].has_indicator = family.offsets_[p], parts[p].has_indicator
            law.base.work_size = max(law.base.work_size, own.law.work_size)
        law.zeros = self.keep(np.zeros(max(part.width for part in parts)))

    @property
    def is_compiled(self):
        """Return whether the laws of all parts are compiled."""
        return all(law.is_compiled for law in self.laws)

    @property
    def pending(self):
        """Return the exception behind a result EXPFAM_PYTHON, or None."""
        return next((law.pending for law in self.laws if law.pending is not None), None)

    @pending.setter
    def pending(self, error):
        for law in self.laws:
            law.pending = error
