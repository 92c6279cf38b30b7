"""Tables of the posterior of topics in exp-space, a row for each word."""

import numpy as np

from libc.math cimport INFINITY

from expfam.samplers.topics._functions cimport topic_digammas, topic_exps_f32, topic_exps_f64

ctypedef fused real:
    float
    double


def expected_table(const double[:, ::1] word_counts, const double[::1] eta, const double[::1] expected_sums,
                   real[:, ::1] B, double[::1] shift, Py_ssize_t start, Py_ssize_t stop):
    """Fill the rows start..stop-1 of B = exp(E log phi - shift), and of shift.

    The shift of a row is its largest E log phi. `expected_sums` (K,) is psi of the sum of a topic's pseudo-counts.
    """
    cdef Py_ssize_t v, k, K = word_counts.shape[1]
    work = np.empty((2, K))
    cdef double[:, ::1] row = work
    with nogil:
        for v in range(start, stop):
            for k in range(K):
                row[0, k] = eta[v]
            topic_digammas(&row[0, 0], &word_counts[v, 0], &row[1, 0], K)
            shift[v] = -INFINITY
            for k in range(K):
                row[1, k] -= expected_sums[k]
                shift[v] = max(shift[v], row[1, k])
            if real is float:
                topic_exps_f32(&row[1, 0], shift[v], &B[v, 0], K)
            else:
                topic_exps_f64(&row[1, 0], shift[v], &B[v, 0], K)
