"""Labels drawn from their exact law given parameters and weights, every cluster of every datum scored.

Blocks of rows go through the shared thread pool: one matrix product and one fused exponential and draw a block.
Nothing of size N x K is ever held; each datum has its own random stream, so labels are the same for every number of
threads.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.structures._kernels cimport EXPFAM_BLOCK, expfam_add_row, expfam_exp_blocks, expfam_max, expfam_pick
from expfam.structures._rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

from expfam.structures._threads import run


def draw_labels(state, n_threads):
    """Labels of all data drawn from their exact law given Theta, G and log pi: (N,) int32."""
    data, K = state.data, state.K
    labels = np.empty(data.n_rows, dtype=np.int32)
    bias = np.ascontiguousarray(state.log_pi - state.G)
    rows = max(64, min(4096, (1 << 17) // K))       # scores of a block near 1 MiB
    table = np.ascontiguousarray(state.Theta.T)     # (F, K)

    def draw_block(start, stop):
        if data.has_sparse_phi:
            scores = csr_scores(data.phi_csr(start, stop), table, bias)
        else:
            scores = data.phi(start, stop) @ table
            scores += bias
        bad = draw_rows(scores, labels[start:stop], state.seed, state.n_steps, data.row_offset + start)
        if bad >= 0:
            raise FloatingPointError(
                f"family {data.family.name!r}, datum {start + bad}: no component has a finite score under"
                " the drawn parameters"
            )

    blocks = [(start, min(start + rows, data.n_rows)) for start in range(0, data.n_rows, rows)]
    run(draw_block, blocks, n_threads)
    return labels


def csr_scores(phi, const double[:, ::1] table, const double[::1] bias):
    """<phi, Theta> + bias of CSR rows: (rows, K), one pass over the rows of `table` (F, K) for each stored entry."""
    cdef Py_ssize_t i, j, K = table.shape[1], n_rows = phi.shape[0]
    cdef const int64_t[::1] indptr = phi.indptr.astype(np.int64, copy=False)
    cdef const int64_t[::1] indices = phi.indices.astype(np.int64, copy=False)
    cdef const double[::1] values = phi.data.astype(np.float64, copy=False)
    scores = np.empty((n_rows, K))
    cdef double[:, ::1] out = scores
    with nogil:
        for i in range(n_rows):
            out[i, :] = bias
            for j in range(indptr[i], indptr[i + 1]):
                expfam_add_row(&out[i, 0], &table[indices[j], 0], values[j], K)
    return scores


def draw_rows(double[:, ::1] scores, int32_t[::1] labels, uint64_t seed, uint64_t step, uint64_t first_row):
    """Draw a label for each row of log weights, which are overwritten; -1 or the first row without a finite maximum."""
    cdef Py_ssize_t i, bad = -1, n_rows = scores.shape[0], K = scores.shape[1]
    cdef double best, total
    cdef philox_stream rng
    block_sums = np.empty(K // EXPFAM_BLOCK + 1)
    cdef double[::1] sums = block_sums
    with nogil:
        philox_init(&rng, seed, MOVE)
        for i in range(n_rows):
            best = expfam_max(&scores[i, 0], K)
            if not -INFINITY < best < INFINITY:
                bad = i
                break
            total = expfam_exp_blocks(&scores[i, 0], best, &sums[0], K)
            if not 0.5 <= total < INFINITY:
                bad = i
                break
            philox_aim(&rng, first_row + <uint64_t> i, step)
            labels[i] = <int32_t> expfam_pick(&scores[i, 0], &sums[0], total, philox_double(&rng), K)
    return bad
