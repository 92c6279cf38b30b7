"""Sums over responsibilities of documents, and topics of tokens drawn from them."""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.samplers.topics._functions cimport topic_digamma
from expfam.structures.ground.rng cimport START, philox_aim, philox_double, philox_init, philox_stream

ctypedef fused real:
    float
    double


def add_rows(documents, const int64_t[::1] rows, const double[::1] weight, const int32_t[::1] sizes,
             const int32_t[::1] topics, const real[::1] values, double[:, ::1] total, double sign):
    """Add the responsibilities of documents to the sums over words `total` (V, K).

    Each responsibility is multiplied by `sign`, by the count of its word and by the weight of its document, if `weight`
    (D,) is given. `documents` are as in `LocalStep.run`, `rows` (R,) those of the responsibilities; `sizes`, `topics`
    and `values` are results of a task, see `Outputs`.
    """
    cdef const int64_t[::1] indptr
    cdef const int32_t[::1] indices
    cdef const double[::1] counts
    cdef Py_ssize_t place, i, u, k, size, n_pairs = 0, n_values = 0
    cdef double c
    cdef double *row
    indptr, indices, counts = documents
    with nogil:
        for place in range(rows.shape[0]):
            i, size = rows[place], sizes[place]
            for u in range(indptr[i], indptr[i + 1]):
                c = sign * counts[u]
                if weight is not None:
                    c *= weight[i]
                row = &total[indices[u], 0]
                for k in range(size):
                    row[topics[n_pairs + k]] += c * values[n_values + k]
                n_values += size
            n_pairs += size


def draw_tokens(const int64_t[::1] indptr, const int64_t[::1] rows, const int32_t[::1] sizes, const int32_t[::1] topics,
                const real[::1] values, const int64_t[::1] token_start, uint64_t seed, int32_t[::1] out):
    """Draw a topic for each token of documents from its responsibilities.

    `rows`, `sizes`, `topics` and `values` are as in `add_rows`. `indptr` (D + 1,) is the first entry of each document,
    `token_start` (E + 1,) the first token of each entry. Topics of these documents' tokens are written to `out` (T,).
    """
    cdef Py_ssize_t place, i, e, k, size, n_pairs = 0, n_values = 0
    cdef int64_t t
    cdef double rest
    cdef philox_stream rng
    with nogil:
        philox_init(&rng, seed, START)
        for place in range(rows.shape[0]):
            i, size = rows[place], sizes[place]
            philox_aim(&rng, <uint64_t> i, 1)
            for e in range(indptr[i], indptr[i + 1]):
                for t in range(token_start[e], token_start[e + 1]):
                    rest, k = philox_double(&rng), 0
                    while k < size - 1 and rest >= values[n_values + k]:
                        rest -= values[n_values + k]
                        k += 1
                    out[t] = topics[n_pairs + k]
                n_values += size
            n_pairs += size


def expected_inner(documents, const int64_t[::1] rows, const double[::1] weight, const int32_t[::1] sizes,
                   const int32_t[::1] topics, const real[::1] values, const real[:, ::1] B, tables):
    """Return the sum of E log phi under the tables over responsibilities, counts and weights.

    `B` (V, K) is the first of the `tables`; see `LocalStep`. The other arguments are those of `add_rows`.
    """
    cdef const int64_t[::1] indptr
    cdef const int32_t[::1] indices
    cdef const double[::1] counts, shift, sums, eta
    cdef const double[:, ::1] word_counts
    cdef Py_ssize_t place, i, u, j, k, v, size, n_pairs = 0, n_values = 0
    cdef double total = 0.0, part, c, r, least = 1e-19 if real is float else 1e-150
    indptr, indices, counts = documents
    _, shift, sums, word_counts, eta, _ = tables
    with nogil:
        for place in range(rows.shape[0]):
            i, size = rows[place], sizes[place]
            for u in range(indptr[i], indptr[i + 1]):
                v, part = indices[u], 0.0
                for j in range(size):
                    r, k = values[n_values + j], topics[n_pairs + j]
                    if r > 0.0:
                        if B[v, k] >= least:
                            part += r * (log(B[v, k]) + shift[v])
                        else:
                            part += r * (topic_digamma(eta[v] + word_counts[v, k]) - sums[k])
                c = counts[u]
                if weight is not None:
                    c *= weight[i]
                total += c * part
                n_values += size
            n_pairs += size
    return total
