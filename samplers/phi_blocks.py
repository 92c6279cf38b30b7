"""Statistics of the data as a variational pass reads them: block by block, in coordinates that suit single precision.

A family's <phi, theta> - g loses digits in float32 where large terms cancel. Two changes of coordinates keep them, and
both are exact: whitening of the data, for families that can say what their prior becomes under a linear map; and
an origin for phi, whose product with the parameters is put into the constant of each cluster. A block costs O(rows F),
and O(rows d^2) more where it is whitened.
"""

import numpy as np

from expfam.samplers._sparse_pass import pack_outer

_SAMPLED_ROWS = 4096
_LEAST_SHARE = 1e-8  # of the largest eigenvalue: directions with less are taken to have this much
_BLOCK_ROWS = 8192


class DensePhi:
    """Blocks of dense statistics, as the family makes them.

    Parameters
    ----------
    data : Dataset
    family : Family
        Bound; the one of the model, which may have learned since the data were read.
    dtype : dtype

    Attributes
    ----------
    family : Family
        Whose statistics the blocks are; posteriors are computed with it.
    origin : (F,) float64 ndarray or None
        What is subtracted from phi.
    log_det : float
        log |det| of the map of each row: what a log density in these coordinates lacks, nats.
    """

    is_sparse = False
    log_det = 0.0

    def __init__(self, data, family, *, dtype):
        self.data, self.family, self.dtype = data, family, np.dtype(dtype)
        self.n_statistics = data.n_statistics
        self.origin = None
        if self.dtype == np.float32:
            step = max(1, data.n_rows // _SAMPLED_ROWS)
            self.origin = np.ascontiguousarray(self._statistics(slice(None, None, step)).mean(axis=0))

    def _statistics(self, rows):
        return np.asarray(self.family.sufficient_statistics(self.data.X[rows]))

    def fill(self, rows, out):
        """Statistics of some rows minus the origin, written to `out` (len(rows), F)."""
        phi = self._statistics(rows)
        if self.origin is None:
            out[:] = phi
        else:
            np.subtract(phi, self.origin, out=out, casting="same_kind")
        return out

    def with_family(self, family):
        """Take other hyper-parameters of the same family."""
        self.family = family

    def to_data(self, S):
        """Sums of statistics (K, F) in the coordinates of the data."""
        return S


class PackedPhi(DensePhi):
    """Blocks of (x, svec xx') or svec xx', made from whitened rows.

    Whitening makes the pooled second moments of the data the identity. The posterior is the same, by the family's
    own account of its prior in other coordinates (`in_coordinates`).
    """

    def __init__(self, data, family, *, dtype, whiten):
        d = data.n_features
        self.map, self.log_det = whitening_map(data, family) if whiten else (np.eye(d), 0.0)
        self.is_identity = not whiten
        self.of_data = family
        self.inverse = np.linalg.inv(self.map)
        super().__init__(data, self._family_here(family), dtype=dtype)

    def _family_here(self, family):
        return family.in_coordinates(self.map)

    def _statistics(self, rows):
        return np.asarray(self.family.sufficient_statistics(self._rows(rows)))

    def _rows(self, rows):
        X = np.asarray(self.data.X[rows], dtype=np.float64)
        X = X - self.of_data.center_ if self.family.has_linear_part else X
        return np.ascontiguousarray(X) if self.is_identity else X @ self.map.T

    def fill(self, rows, out):
        """As of `DensePhi`."""
        origin = np.zeros(self.n_statistics) if self.origin is None else self.origin
        block = self._rows(rows).astype(self.dtype, copy=False)
        pack_outer(block, self.family.has_linear_part, origin.astype(self.dtype, copy=False), out)
        return out

    def with_family(self, family):
        """Take other hyper-parameters of the same family."""
        self.of_data, self.family = family, self._family_here(family)

    def to_data(self, S):
        """Sums of statistics (K, F) in the coordinates of the data."""
        return S if self.is_identity else self.family.mapped_statistics(S, self.inverse)


class SparsePhi:
    """Blocks of CSR statistics: row starts, columns and float64 values."""

    is_sparse = True
    log_det = 0.0
    origin = None

    def __init__(self, data, family, *, dtype):
        self.data, self.family, self.dtype = data, family, np.dtype(dtype)
        self.n_statistics = data.n_statistics

    def entries(self, rows):
        """Arrays (indptr, indices, values) of some rows."""
        phi = self.family.sufficient_statistics(self.data.X[rows]).tocsr()
        indptr = phi.indptr.astype(np.int64, copy=False)
        return indptr, phi.indices, phi.data.astype(np.float64, copy=False)

    def with_family(self, family):
        """Take other hyper-parameters of the same family."""
        self.family = family

    def to_data(self, S):
        """Sums of statistics (K, F) in the coordinates of the data."""
        return S


def phi_blocks(data, family, *, dtype, whiten=None):
    """Statistics of the data for a pass.

    Parameters
    ----------
    data : Dataset
    family : Family
        Bound.
    dtype : {"float64", "float32"}
    whiten : bool, optional
        Whether to whiten where the family allows it; if not given, in float32.

    Returns
    -------
    DensePhi, PackedPhi or SparsePhi
    """
    if data.has_sparse_phi:
        return SparsePhi(data, family, dtype=dtype)
    if getattr(family, "in_coordinates", None) is not None:
        whiten = np.dtype(dtype) == np.float32 if whiten is None else whiten
        return PackedPhi(data, family, dtype=dtype, whiten=whiten)
    return DensePhi(data, family, dtype=dtype)


def whitening_map(data, family):
    """Matrix (d, d) that makes the second moments of the rows, about the family's centre, the identity; its log |det|.

    Directions with less than 1e-8 of the largest moment are scaled as if they had that much: a constant direction
    stays small.
    """
    d = data.n_features
    moments = np.zeros((d, d))
    center = family.center_ if family.has_linear_part else np.zeros(d)
    for start in range(0, data.n_rows, _BLOCK_ROWS):
        block = np.asarray(data.X[start : start + _BLOCK_ROWS], dtype=np.float64) - center
        moments += block.T @ block
    values, vectors = np.linalg.eigh(moments / data.n_rows)
    if not values[-1] > 0:
        return np.eye(d), 0.0
    scales = 1.0 / np.sqrt(np.maximum(values, _LEAST_SHARE * values[-1]))
    return np.ascontiguousarray(scales[:, None] * vectors.T), float(np.log(scales).sum())
