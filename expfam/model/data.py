"""The data of a run: validated once, frozen afterwards, the only owner of X.

Sufficient statistics are made block by block; they are kept only where they are X itself. Nothing of size N x K or
N x F is held. Validation costs one pass over the data.
"""

import numpy as np
from scipy import sparse

from expfam.errors import DataError
from expfam.families.counts.components import count_rows
from expfam.families.support import check_unmasked
from expfam.model.groups import as_groups
from expfam.model.statistics import label_statistics

_MOST_WEIGHT = 2.0**53


class Dataset:
    """Rows to be clustered, checked against one family.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (N, V)
    family : Family
        Bound to X here if it is not bound yet.
    weight : (N,) array_like of non-negative float, optional
    row_offset : int
        Global number of the first row; keys its random numbers when the data are one shard of several.
    row_ids : sequence, optional
        The user's name of each row.
    groups : (N,) array_like of non-negative int, or Groups, optional
        Group of each row, for models whose weights differ from group to group.

    Attributes
    ----------
    X : (N, V) ndarray or CSR
        The caller's own memory where nothing had to change.
    family : Family
        The bound family.
    n_rows, n_features, n_statistics : int
    has_sparse_phi : bool
        Whether the family makes CSR statistics of these data.
    weight : (N,) float64 ndarray or None
    groups : Groups or None
    log_base : (N,) float64 ndarray
        Log base measure of each row, nats.

    Examples
    --------
    >>> from expfam import Dataset, Poisson
    >>> data = Dataset([[0, 2], [3, 1]], Poisson())
    >>> data.phi(0, 2)
    array([[0., 2.],
           [3., 1.]])
    """

    def __init__(self, X, family, *, weight=None, row_offset=0, row_ids=None, groups=None):
        self.family = family.bind(X)
        self.X = self.family.validate(X)
        self.n_rows, self.n_features = (int(size) for size in self.X.shape)
        self.n_statistics = self.family.n_statistics_
        self.row_offset = int(row_offset)
        self.row_ids = row_ids
        self.weight = None if weight is None else _check_weight(weight, self.n_rows)
        self.groups = None if groups is None else as_groups(groups, self.n_rows)
        self.has_sparse_phi = sparse.issparse(self.family.sufficient_statistics(self.X[:1]))
        self._log_base = self._whole_counts = None

    def __len__(self):
        return self.n_rows

    def __repr__(self):
        kind = f"CSR, {self.X.nnz} stored" if sparse.issparse(self.X) else str(self.X.dtype)
        return f"Dataset({self.n_rows} x {self.n_features}, {kind}, family={self.family.name!r})"

    @property
    def is_sparse(self):
        """Whether X is CSR."""
        return sparse.issparse(self.X)

    @property
    def log_base(self):
        """Log base measure of each row: (N,) float64, nats; computed on first use."""
        if self._log_base is None:
            self._log_base = np.asarray(self.family.log_base(self.X), dtype=np.float64)
        return self._log_base

    @property
    def whole_counts(self):
        """Whether all values are whole to 1e-9, and the largest sum of a column: (bool, float); found on first use."""
        if self._whole_counts is None:
            *_, is_fractional, heaviest = count_rows(self.X)
            self._whole_counts = not is_fractional, heaviest
        return self._whole_counts

    def phi(self, start, stop, *, out=None, dtype=np.float64):
        """Dense block of sufficient statistics of the rows start..stop-1.

        Parameters
        ----------
        start, stop : int
        out : (stop - start, F) ndarray, optional
        dtype : dtype

        Returns
        -------
        (stop - start, F) ndarray
        """
        block = self.family.sufficient_statistics(self.X[start:stop])
        block = block.toarray() if sparse.issparse(block) else np.asarray(block)
        if out is None:
            return np.ascontiguousarray(block, dtype=dtype)
        out[:] = block
        return out

    def phi_csr(self, start, stop):
        """Block of sufficient statistics as CSR; only where the family makes sparse ones from this X."""
        if not self.has_sparse_phi:
            raise DataError(f"{self.family.name} makes dense statistics of these data; use phi")
        whole = start == 0 and stop == self.n_rows
        return self.family.sufficient_statistics(self.X if whole else self.X[start:stop]).tocsr()

    def statistics(self, labels, n_clusters):
        """Counts and sums of phi by label: n (K,) and S (K, F), dense or CSR as phi is; negative labels are left out.

        Sums run over 64 contiguous segments of the rows, in order, so they are the same however the work is divided.
        """
        return label_statistics(self, labels, n_clusters)


def _check_weight(weight, n_rows):
    check_unmasked(weight, owner="sample_weight")
    weight = np.ascontiguousarray(weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise DataError(f"sample_weight must have shape ({n_rows},); got {weight.shape}")
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        raise DataError(f"sample_weight must be finite and non-negative; row {bad[0]} holds {weight[bad[0]]}")
    if not weight.any():
        raise DataError("sample_weight is zero in all rows: at least one must count")
    if not weight.max() * n_rows < _MOST_WEIGHT or weight.max() < 1 / _MOST_WEIGHT:
        row = int(np.argmax(weight))
        raise DataError(
            f"sample_weight must lie within 2**-53 and 2**53 divided by the number of rows; row {row} holds"
            f" {weight[row]}, the largest: multiply or divide all weights by one number"
        )
    return weight
