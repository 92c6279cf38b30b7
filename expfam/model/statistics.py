"""Sums of sufficient statistics by cluster, in an order that the size of the data defines and nothing else.

Rows are cut into 64 contiguous segments; within a segment sums run in row order by blocks, then over segments in
order. Dense statistics cost O(N F) time and O(K F + block) memory, sparse ones O(nnz).
"""

import numpy as np
from scipy import sparse

from expfam.structures._threads import segments

_BLOCK_BYTES = 1 << 23


def label_statistics(data, labels, n_clusters):
    """Counts and sums of phi of the data in each cluster.

    Parameters
    ----------
    data : Dataset
    labels : (N,) int
        Cluster of each datum; negative for none.
    n_clusters : int

    Returns
    -------
    n : (K,) float64 ndarray
    S : (K, F) float64 ndarray, or CSR where phi is sparse
    """
    labels = np.asarray(labels)
    n = np.bincount(labels[labels >= 0], minlength=n_clusters).astype(np.float64)
    if data.is_sparse and sparse.issparse(data.family.sufficient_statistics(data.X[:1])):
        member = np.flatnonzero(labels >= 0)
        choose = sparse.csr_array(
            (np.ones(member.size), (labels[member], member)), shape=(n_clusters, data.n_rows), dtype=np.float64
        )
        S = (choose @ sparse.csr_array(data.family.sufficient_statistics(data.X))).tocsr()
        S.sort_indices()
        return n, S
    F = data.n_statistics
    S = np.zeros((n_clusters, F))
    rows = max(1, _BLOCK_BYTES // (8 * F))
    for first, last in segments(data.n_rows):
        part = np.zeros((n_clusters, F))
        for start in range(first, last, rows):
            stop = min(last, start + rows)
            block, label = data.phi(start, stop), labels[start:stop]
            inside = label >= 0
            choose = sparse.csr_array(
                (np.ones(inside.sum()), (label[inside], np.flatnonzero(inside))), shape=(n_clusters, stop - start)
            )
            part += choose @ block
        S += part
    return n, S
