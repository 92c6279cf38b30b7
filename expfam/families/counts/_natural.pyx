"""Posterior means (E theta, E g) of one cluster of a count family, computed in C.

The cost is one digamma for each statistic, and one for each column of categories.
"""

import numpy as np

from libc.math cimport log
from libc.stdint cimport int64_t

from expfam.contracts cimport EXPFAM_OK
from expfam.families.natural cimport NaturalLaw, digamma, natural_law, positive

ctypedef struct count_law:
    natural_law base
    Py_ssize_t F
    Py_ssize_t n_blocks
    const double *a                 # (F,) pseudo-counts
    const double *total             # (n_blocks,) sums of the pseudo-counts of each block
    const int64_t *offset           # (n_blocks + 1,) first column of phi of each block
    double rate                     # of the Poisson family


cdef int shares_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                   double *work) noexcept nogil:
    """Compute theta of probabilities that sum to one in each block."""
    cdef const count_law *law = <const count_law *> base
    cdef Py_ssize_t b, f
    cdef double total, level
    for b in range(law.n_blocks):
        total = 0.0
        for f in range(law.offset[b], law.offset[b + 1]):
            total += positive(S[f])
        level = digamma(law.total[b] + total)
        for f in range(law.offset[b], law.offset[b + 1]):
            theta[f] = digamma(law.a[f] + positive(S[f])) - level
    g[0] = 0.0
    return EXPFAM_OK


cdef int poisson_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                    double *work) noexcept nogil:
    cdef const count_law *law = <const count_law *> base
    cdef Py_ssize_t f
    cdef double total = law.total[0], level = log(law.rate + n)
    for f in range(law.F):
        total += positive(S[f])
        theta[f] = digamma(law.a[f] + positive(S[f])) - level
    g[0] = total / (law.rate + n)
    return EXPFAM_OK


cdef class CountLaw(NaturalLaw):
    """The law of a bound multinomial, Poisson or categorical family."""

    cdef count_law own
    cdef object offsets

    def __init__(self, family):
        cdef count_law *law = &self.own
        cdef const int64_t[::1] offsets
        self.law = &law.base
        law.F, law.base.work_size, law.n_blocks = family.n_statistics_, 0, 1
        law.base.at = poisson_at if family.count_model == "poisson" else shares_at
        if family.count_model == "categorical":
            a, totals = family.pseudocounts()
            law.n_blocks = len(totals)
            self.offsets = np.ascontiguousarray(family.offsets_, dtype=np.int64)
        else:
            given = family.shape if family.count_model == "poisson" else family.concentration
            a = np.ascontiguousarray(np.broadcast_to(np.asarray(given, dtype=np.float64), law.F))
            totals, self.offsets = a.sum(), np.array([0, law.F], dtype=np.int64)
            law.rate = family.rate if family.count_model == "poisson" else 0.0
        law.a, law.total = self.keep(a), self.keep(totals)
        offsets = self.offsets
        law.offset = &offsets[0]
