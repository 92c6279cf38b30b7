# Scores of rows of counts under clusters, and evidences of clusters: the functions of the struct, and what they share.

from libc.math cimport NAN, log, log1p

from expfam.families.counts._table cimport MULTINOMIAL, POISSON, count_table, get
from expfam.structures.simd.elementary cimport expfam_log1

cdef enum:
    MAX_FACTORS = 32        # largest number of factors in one product
    TILE = 1024             # slots scored together: two buffers of 8 KiB fit in the first-level cache
    N_TABLED = 256          # size of the table of rising factorials under a symmetric prior


cdef inline double log_column_totals(const count_table *t, Py_ssize_t k) noexcept nogil:
    """Return the sum of the logarithms of a slot's totals, pseudo-counts included, over the categorical columns."""
    cdef double product = 1.0, total = 0.0
    cdef Py_ssize_t w
    cdef int n = 0
    for w in range(t.n_columns, t.n_words):
        if n == t.max_factors:
            total += expfam_log1(product)
            product, n = 1.0, 0
        product *= get(t, w, k) + t.prior[w]
        n += 1
    return total + expfam_log1(product)


cdef inline void set_totals(count_table *t, Py_ssize_t k, double n, double total) noexcept nogil:
    """Set number of data and total count of a slot, and the numbers that follow from them."""
    if t.lists[k].present == 0:
        total = 0.0
    t.n[k] = n
    t.total[k] = total
    t.evidence[k] = NAN
    if t.model == MULTINOMIAL:
        t.level[k] = total + t.prior_total
    elif t.model == POISSON:
        t.level[k] = -(t.prior_total + total) * log1p(1.0 / (t.rate + n))
        t.slope[k] = log(t.rate + n + 1.0)
    elif not t.by_cluster:
        t.level[k] = log_column_totals(t, k)


cdef int counts_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                               double *out, double *work) noexcept nogil
cdef int counts_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil
cdef int counts_log_marginal(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil
cdef int counts_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                           double *out, double *work) noexcept nogil
cdef int counts_log_remainder(void *self, Py_ssize_t k, Py_ssize_t l, double *out, double *work) noexcept nogil
