"""Where the clusters come from against which a variational pass scores a row, when it does not score it against all.

Each kind answers for a block of rows with clusters by number; the last clusters of a row are added by the pass, so the
bound never falls whichever kind it is. What differs is how far a pass can get: `ClusterTree` finds the best clusters of
all, the graph and the codes may miss some.
"""

import numpy as np
from scipy import sparse

from expfam.errors import ExpFamError, SupportError
from expfam.structures.cluster_tree.tree import ClusterTree, smoothed_means
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run
from expfam.structures.hashing.sign_hash import SignHash, nearest_codes

KINDS = ("graph", "tree", "hash")
_CODE_BITS = 256
_SAMPLED_ROWS = 1024
_BLOCK_ROWS = 1024
_SPREAD_FLOOR = 1e-12  # of a column, relative to the widest: constant columns say nothing


class GraphCandidates:
    """The clusters that take the place of a row's last first cluster best: the same for all rows of it.

    Parameters
    ----------
    near : (K, G) int32 ndarray
        Ascending, as of `Posterior.cluster_graph`.
    """

    def __init__(self, near):
        self.near, self.n_scores = near, near.shape[1]

    def of_block(self, phi, rows, last):
        """Candidates of a block of rows.

        Parameters
        ----------
        phi : (m, F) ndarray, or arrays (indptr, indices, values)
        rows : slice or (m,) int array
        last : (m, L) int32 ndarray
            Clusters that the rows had last, the first of them the most probable.

        Returns
        -------
        near : (B, G) int32 ndarray
            Ascending.
        buckets : (m,) int32 ndarray
            Row of `near` for each row.
        """
        return self.near, np.ascontiguousarray(last[:, 0])


class TreeCandidates:
    """The best clusters of each row among all of them, by branch and bound over a tree of the clusters.

    Parameters
    ----------
    tables : Tables
        What the pass scores against.
    posterior : Posterior
    phi : PhiBlocks
    labels : (N,) int32 ndarray
        The most probable cluster of each row as known so far: shapes the tree, not what it finds.
    n_near : int
        Clusters for each row.
    """

    def __init__(self, tables, posterior, phi, labels, n_near):
        self.n_columns, self.family = phi.n_statistics, phi.family
        theta = np.ascontiguousarray(tables.theta.T if phi.is_sparse else tables.theta, dtype=np.float64)
        center, means = smoothed_means(np.maximum(posterior.n, 0.0), posterior.S, theta)
        if phi.origin is not None:
            center, means = center - phi.origin, means - phi.origin
        if phi.is_sparse:
            center, spread = None, np.sqrt(np.abs(center))  # counts vary as much as their mean
        else:
            rows = _sampled(phi)
            spread = _root_mean_square(_rows(phi, rows) - means[labels[rows]])
        options = {"means": means, "center": center, "spread": spread}
        try:
            self.tree = ClusterTree(theta, np.zeros(len(theta)), tables.c, is_sparse=phi.is_sparse, **options)
        except ExpFamError as error:
            raise ExpFamError(
                f"SparseVariational(candidates='tree'): {error}; candidates='graph' serves them"
            ) from error
        self.n_scores = min(n_near, len(self.tree.order))

    def of_block(self, phi, rows, last):
        """As of `GraphCandidates`; each row has its own."""
        found = np.sort(self.tree.best(_matrix(phi, self.n_columns), self.n_scores)[0], axis=1)
        if found.size and found[:, 0].min() < 0:
            bad = int(np.argmax(found[:, 0] < 0))
            row = rows.start + bad if isinstance(rows, slice) else rows[bad]
            raise SupportError(f"family {self.family.name!r}: row {row} has no finite score under any cluster")
        return found, np.arange(len(found), dtype=np.int32)


class RowCodes:
    """Sign codes of the rows of a data set, about their mean and in units of their spread; made once.

    Parameters
    ----------
    phi : PhiBlocks
        Over the rows.
    seed : int
    n_threads : int or None

    Attributes
    ----------
    codes : (N, n_words) uint64 ndarray
    norms : (N,) float32 ndarray
    """

    bytes_a_row = _CODE_BITS // 8 + 4

    def __init__(self, phi, seed, *, n_threads=None):
        N = phi.data.n_rows
        self.hash = SignHash(_CODE_BITS, seed=int(generator(seed, "tables").integers(1 << 63)))
        self.centre, spread = _centre_and_spread(phi)
        known = spread > _SPREAD_FLOOR * spread.max()
        self.spread = np.where(known, spread, 0.0)
        self.scale = np.where(known, 1.0 / np.where(known, spread, 1.0), 0.0)
        self.codes = np.empty((N, self.hash.n_words), dtype=np.uint64)
        self.norms = np.empty(N, dtype=np.float32)

        def fill(start, stop):
            X = _rows(phi, slice(start, stop))
            self.codes[start:stop] = self.hash.codes(X, scale=self.scale, centre=self.centre, first_row=start)
            X = X.multiply(self.scale).tocsr() if phi.is_sparse else (X - self.centre) * self.scale
            squares = X.multiply(X).sum(axis=1) if phi.is_sparse else np.einsum("if,if->i", X, X)
            self.norms[start:stop] = np.sqrt(squares)

        run(fill, [(start, min(start + _BLOCK_ROWS, N)) for start in range(0, N, _BLOCK_ROWS)], n_threads)


class CodeCandidates:
    """The clusters with the largest scores of each row as far as sign codes of both tell.

    Parameters
    ----------
    tables : Tables
    row_codes : RowCodes
    n_near : int
    is_sparse : bool
        Whether the tables are those of sparse statistics.
    """

    def __init__(self, tables, row_codes, n_near, *, is_sparse):
        self.rows, self.n_scores = row_codes, n_near
        theta = np.asarray(tables.theta.T if is_sparse else tables.theta, dtype=np.float64)
        theta = theta - theta.mean(axis=0)  # the same for all clusters: no score changes by it
        self.bias = tables.c.astype(np.float64)
        if row_codes.centre is not None:
            self.bias += theta @ row_codes.centre
        self.bias -= self.bias.max()
        theta *= row_codes.spread
        self.codes = row_codes.hash.codes(theta)
        self.norms = np.sqrt(np.einsum("kf,kf->k", theta, theta))

    def of_block(self, phi, rows, last):
        """As of `GraphCandidates`; each row has its own."""
        mine = self.rows
        found = nearest_codes(mine.codes[rows], mine.norms[rows], self.codes, self.norms, self.bias, self.n_scores)
        return found, np.arange(len(found), dtype=np.int32)


def _matrix(phi, n_columns):
    """A block of statistics as a matrix: dense, or CSR of its arrays."""
    if isinstance(phi, np.ndarray):
        return phi
    indptr, indices, values = phi
    return sparse.csr_array((values, indices, indptr), shape=(len(indptr) - 1, n_columns))


def _rows(phi, rows):
    """Statistics of some rows, float64 or CSR."""
    if phi.is_sparse:
        return _matrix(phi.entries(rows), phi.n_statistics)
    m = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    return phi.fill(rows, np.empty((m, phi.n_statistics), dtype=phi.dtype)).astype(np.float64)


def _sampled(phi):
    """Numbers of some thousand rows at regular distances."""
    N = phi.data.n_rows
    return np.arange(0, N, max(1, N // _SAMPLED_ROWS))


def _root_mean_square(X):
    return np.sqrt((X**2).mean(axis=0))


def _centre_and_spread(phi):
    """What is taken off each column, and what it is divided by so that products of norms are small.

    The mean and standard deviation of a sample; for sparse rows nothing, and the root of the root mean square over all
    of them: parameters of counts vary by about as much in all columns, those of reals inversely to the data.
    """
    if not phi.is_sparse:
        X = _rows(phi, _sampled(phi))
        centre = X.mean(axis=0)
        return centre, _root_mean_square(X - centre)
    total, N = np.zeros(phi.n_statistics), phi.data.n_rows
    for start in range(0, N, _BLOCK_ROWS):
        _, columns, values = phi.entries(slice(start, min(start + _BLOCK_ROWS, N)))
        total += np.bincount(columns, weights=values**2, minlength=phi.n_statistics)
    return None, (total / N) ** 0.25
