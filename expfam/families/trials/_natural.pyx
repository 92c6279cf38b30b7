"""Posterior means (E theta, E g) of one cluster of columns with Beta priors, computed in C."""

import numpy as np

from expfam.contracts cimport EXPFAM_OK
from expfam.families.natural cimport NaturalLaw, digamma, natural_law, positive

ctypedef struct beta_law:
    natural_law base
    Py_ssize_t d
    const double *a                 # (d,) pseudo-counts
    const double *b
    double r                        # of the negative binomial


cdef int bernoulli_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                      double *work) noexcept nogil:
    cdef const beta_law *law = <const beta_law *> base
    cdef Py_ssize_t f
    cdef double no
    g[0] = 0.0
    for f in range(law.d):
        no = digamma(law.b[f] + positive(n - S[f]))
        theta[f] = digamma(law.a[f] + positive(S[f])) - no
        g[0] += digamma(law.a[f] + law.b[f] + n) - no
    return EXPFAM_OK


cdef int negative_binomial_at(const natural_law *base, double n, const double *S, double *theta, double *g,
                              double *work) noexcept nogil:
    cdef const beta_law *law = <const beta_law *> base
    cdef Py_ssize_t f
    cdef double both, m = law.r * n, total = 0.0
    for f in range(law.d):
        both = digamma(law.a[f] + law.b[f] + positive(S[f]) + m)
        theta[f] = digamma(law.a[f] + positive(S[f])) - both
        total += both - digamma(law.b[f] + m)
    g[0] = law.r * total
    return EXPFAM_OK


cdef class BetaLaw(NaturalLaw):
    """The law of a bound negative binomial family of size `r`, or Bernoulli if it is None."""

    cdef beta_law own

    def __init__(self, family, r):
        cdef beta_law *law = &self.own
        self.law = &law.base
        law.d, law.base.work_size = family.n_statistics_, 0
        law.base.at = bernoulli_at if r is None else negative_binomial_at
        law.r = 1.0 if r is None else r
        a, b = (np.broadcast_to(np.asarray(v, dtype=np.float64), law.d) for v in (family.a, family.b))
        law.a, law.b = self.keep(a), self.keep(b)
