"""Weights of fixed topics in documents, from collapsed responsibilities.

Each responsibility is computed given all others.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t

cdef extern from *:
    """
    #include "dispatch.h"
    /* One pass of collapsed responsibilities, each given all others: r_uk ~ B_uk (a_k + N_k - r_uk). They are those of
     * one token of each word type; the counts N are updated. Sizes are padded to whole vectors. */
    #define TOPIC_COLLAPSED(NAME, TARGET, TYPE)                                                             \\
        TARGET static void NAME(const TYPE *block, TYPE *r, ptrdiff_t stride, ptrdiff_t n_rows, ptrdiff_t size, \\
                                const double *c, const TYPE *a, TYPE *n, TYPE *work) {                      \\
            for (ptrdiff_t u = 0; u < n_rows; u++) {                                                        \\
                const TYPE *row = block + u * stride;                                                       \\
                TYPE *old = r + u * stride;                                                                 \\
                TYPE sum = 0, scale, count = (TYPE)c[u];                                                    \\
                EXPFAM_SIMD_SUM(sum)                                                                        \\
                for (ptrdiff_t k = 0; k < size; k++) {                                                      \\
                    TYPE rest = n[k] - old[k];                                                              \\
                    TYPE x = row[k] * (a[k] + (rest > 0 ? rest : 0));                                       \\
                    work[k] = x;                                                                            \\
                    sum += x;                                                                               \\
                }                                                                                           \\
                scale = 1 / sum;                                                                            \\
                EXPFAM_SIMD                                                                                 \\
                for (ptrdiff_t k = 0; k < size; k++) {                                                      \\
                    TYPE x = work[k] * scale;                                                               \\
                    n[k] += count * (x - old[k]);                                                           \\
                    old[k] = x;                                                                             \\
                }                                                                                           \\
            }                                                                                               \\
        }
    #define TOPIC_COLLAPSED_F32(NAME, TARGET) TOPIC_COLLAPSED(NAME, TARGET, float)
    #define TOPIC_COLLAPSED_F64(NAME, TARGET) TOPIC_COLLAPSED(NAME, TARGET, double)
    EXPFAM_INSTANCES(TOPIC_COLLAPSED_F32, void, topic_collapsed_f32, (const float *, float *, ptrdiff_t, ptrdiff_t,
                     ptrdiff_t, const double *, const float *, float *, float *))
    EXPFAM_INSTANCES(TOPIC_COLLAPSED_F64, void, topic_collapsed_f64, (const double *, double *, ptrdiff_t, ptrdiff_t,
                     ptrdiff_t, const double *, const double *, double *, double *))
    """
    void (*topic_collapsed_f32)(const float *block, float *r, Py_ssize_t stride, Py_ssize_t n_rows, Py_ssize_t size,
                                const double *c, const float *a, float *n, float *work) noexcept nogil
    void (*topic_collapsed_f64)(const double *block, double *r, Py_ssize_t stride, Py_ssize_t n_rows, Py_ssize_t size,
                                const double *c, const double *a, double *n, double *work) noexcept nogil

ctypedef fused real:
    float
    double

cdef enum:
    LANES = 16                          # columns of a block are padded to a multiple of this


def collapsed_counts(documents, const real[:, ::1] B, const double[::1] alpha, Py_ssize_t start, Py_ssize_t stop,
                     Py_ssize_t n_iterations, double tol, double[:, ::1] N):
    """Compute the expected counts of topics in the documents start..stop-1 at fixed topics.

    `documents` are as in `LocalStep.run`. `B` (V, K) is the probability of each word in each topic, up to a factor of
    the word. A document has converged where no count changes by more than `tol`. The counts are written to `N` (stop -
    start, K).
    """
    cdef const int64_t[::1] indptr
    cdef const int32_t[::1] indices
    cdef const double[::1] counts
    indptr, indices, counts = documents
    cdef Py_ssize_t K = B.shape[1], stride = (K + LANES - 1) // LANES * LANES, i, u, k, _t, n_rows
    cdef Py_ssize_t most = int(np.diff(np.asarray(indptr)[start : stop + 1]).max(initial=1))
    dtype = np.float32 if real is float else np.float64
    blocks, lines = np.zeros((2, most, stride), dtype=dtype), np.zeros((4, stride), dtype=dtype)
    cdef real[:, :, ::1] block = blocks
    cdef real[:, ::1] line = lines      # alpha, N, work, N before
    cdef real total, change
    for k in range(K):
        line[0, k] = <real> alpha[k]
    with nogil:
        for i in range(start, stop):
            n_rows = indptr[i + 1] - indptr[i]
            for k in range(K):
                line[1, k] = 0
            for u in range(n_rows):
                total = 0
                for k in range(K):
                    block[0, u, k] = B[indices[indptr[i] + u], k]
                    block[1, u, k] = block[0, u, k] * line[0, k]
                    total += block[1, u, k]
                for k in range(K):
                    block[1, u, k] /= total
                    line[1, k] += <real> counts[indptr[i] + u] * block[1, u, k]
            for _t in range(n_iterations if n_rows else 0):
                for k in range(K):
                    line[3, k] = line[1, k]
                if real is float:
                    topic_collapsed_f32(&block[0, 0, 0], &block[1, 0, 0], stride, n_rows, stride,
                                        &counts[0] + indptr[i], &line[0, 0], &line[1, 0], &line[2, 0])
                else:
                    topic_collapsed_f64(&block[0, 0, 0], &block[1, 0, 0], stride, n_rows, stride,
                                        &counts[0] + indptr[i], &line[0, 0], &line[1, 0], &line[2, 0])
                change = 0
                for k in range(K):
                    change = max(change, line[1, k] - line[3, k], line[3, k] - line[1, k])
                if change <= tol:
                    break
            for k in range(K):
                N[i - start, k] = max(<double> line[1, k], 0.0)
