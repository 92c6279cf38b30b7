"""Statistics of the data in blocks, in coordinates that suit single precision.

A family's <phi, theta> - g loses digits in float32 where large terms cancel. Two exact changes of coordinates keep the
digits. One is whitening of the data, for families that know their prior under a linear map of the data. The other is an
origin for phi: its product with the parameters goes into the constant of each cluster. A block costs O(rows F), and
O(rows d^2) more where it is whitened.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.families.dense_source import DenseSource, dense_source
from expfam.families.support import chosen_rows
from expfam.samplers.variational.sparse_rows import centre_rows, pack_outer

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_Phi = TypeVar("_Phi", bound="PhiBlocks")

_SAMPLED_ROWS = 4096
_SAMPLED_BLOCK = 512  # rows whose statistics are made together
_STATISTICS_AT_ONCE, _LEAST_ROWS_AT_ONCE = 1 << 17, 32  # of a block that is in the cache while it is made
_LEAST_SHARE = 1e-8  # share of the largest eigenvalue: smaller eigenvalues are raised to it
_BLOCK_ROWS = 8192
_ROUNDING = {"float64": 1e-11, "float32": 1e-5}  # share of the largest sum of a column


class PhiBlocks:
    """Statistics of rows in blocks, in coordinates that are the same for all rows.

    The family is bound; its hyper-parameters may have changed since the data were read. Without `data` the object only
    holds the coordinates.

    Attributes
    ----------
    family : Family
        The family in these coordinates: it makes the statistics and the posteriors.
    origin : (F,) float64 ndarray or None
        Vector that is subtracted from phi.
    log_det : float
        log |det| of the map of each row, nats: log density of a row minus log density in these coordinates.
    """

    is_sparse = False
    log_det: float = 0.0
    origin: npt.NDArray[np.float64] | None = None
    data: Any

    def __init__(self, family: Any, *, dtype: npt.DTypeLike, data: Dataset | None = None) -> None:
        self.family, self.dtype, self.data = family, np.dtype(dtype), data
        self.n_statistics = family.n_statistics_

    def over(self: _Phi, data: Dataset | None) -> _Phi:
        """Return the same coordinates for the rows of other data, or without rows."""
        other = copy.copy(self)
        other.data = data
        return other

    def with_family(self, family: Any) -> None:
        """Use other hyper-parameters of the same family, in place."""
        self.family = family

    def mend_sums(self, n: npt.NDArray[np.float64], S: Any) -> None:
        """Correct sums, in place, that rounding has made impossible for any rows.

        Sums of non-negative statistics are set to 0 where they are negative, which families of counts refuse. Sums of
        squares in single precision are raised to those of equal rows.
        """
        if self.dtype == np.float32:
            self.family.raise_squares(n, S)
        clipped = self.family.nonnegative_statistics
        if not clipped.any():
            return
        if sparse.issparse(S):
            negative = np.flatnonzero(S.data < 0.0)
            columns = S.indices[negative]
            most = _largest_sizes(S, columns)
            S.data[negative[self._is_mended(S.data[negative], most, clipped[columns])]] = 0.0
            S.eliminate_zeros()
        else:
            S[self._is_mended(S, np.maximum(S.max(axis=0), -S.min(axis=0)), clipped)] = 0.0

    def _is_mended(self, values, most, clipped):
        """Say which values are negative by rounding; `most` is the largest size in their column."""
        return (values < 0.0) & (-_ROUNDING[self.dtype.name] * most <= values) & clipped

    def to_data(self, S: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return sums of statistics (K, F) in the coordinates of the data."""
        return S

    def from_data(self, S: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return sums (K, F), given in the coordinates of the data, in these coordinates."""
        return S

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the coordinates as a dict of arrays."""
        return {}


def _largest_sizes(S, columns):
    """Return the largest size in some columns of CSR sums, which may be named several times."""
    named, place = np.unique(columns, return_inverse=True)
    is_named = np.zeros(S.shape[1], dtype=bool)
    is_named[named] = True
    entries = np.flatnonzero(is_named[S.indices])
    most = np.zeros(named.size)
    np.maximum.at(most, np.searchsorted(named, S.indices[entries]), np.abs(S.data[entries]))
    return most[place]


class DensePhi(PhiBlocks):
    """Blocks of dense statistics as the family makes them, minus `origin`."""

    def __init__(
        self,
        family: Any,
        *,
        dtype: npt.DTypeLike,
        origin: npt.NDArray[np.float64] | None = None,
        data: Dataset | None = None,
    ) -> None:
        super().__init__(family, dtype=dtype, data=data)
        self.origin = origin

    def _statistics(self, rows):
        return np.asarray(self.family.sufficient_statistics(chosen_rows(self.data.X, rows)))

    def set_origin(self) -> None:
        """Set the origin to the mean statistics of some thousand rows at regular distances.

        Rows of weight 0 are passed over.
        """
        rows, weight = self.data.counted_rows, self.data.weight
        rows = np.arange(self.data.n_rows) if rows is None else rows
        rows = rows[:: max(1, rows.size // _SAMPLED_ROWS)]
        blocks = np.array_split(rows, -(-rows.size // _SAMPLED_BLOCK))
        if weight is None:
            total, size = sum(self._statistics(block).sum(axis=0, dtype=np.float64) for block in blocks), rows.size
        else:
            total, size = sum(weight[block] @ self._statistics(block) for block in blocks), weight[rows].sum()
        self.origin = np.ascontiguousarray(total / size, dtype=np.float64)

    def source(self) -> DenseSource | None:
        """Return what writes the statistics without Python; None if there are no compiled ones."""
        return dense_source(self.family, self.data.X, self.origin)

    def fill(self, rows: slice | npt.NDArray[np.integer], out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Write the statistics of some rows, minus the origin, to `out` (m, F); return it."""
        source = self.source()
        if source is not None:
            source.fill(rows, out)
            return out
        step = max(_LEAST_ROWS_AT_ONCE, _STATISTICS_AT_ONCE // self.n_statistics)
        for first in range(0, len(out), step):
            part = out[first : first + step]
            start = rows.start + first if isinstance(rows, slice) else first
            at = slice(start, start + len(part))
            phi = self._statistics(at if isinstance(rows, slice) else rows[at])
            if self.origin is None:
                part[:] = phi
            else:
                centre_rows(np.ascontiguousarray(phi, dtype=np.float64), self.origin, part)
        return out

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the coordinates as a dict of arrays."""
        return {} if self.origin is None else {"origin": self.origin.copy()}


class PackedPhi(DensePhi):
    """Blocks of (x, svec xx') or svec xx' of rows x, after a linear map if there is one.

    Whitening is the map after which the pooled second moments of the data are the identity. The posterior stays the
    same, since the family converts its prior to the new coordinates (`in_coordinates`).
    """

    def __init__(
        self,
        family: Any,
        *,
        dtype: npt.DTypeLike,
        linear_map: npt.NDArray[np.float64] | None = None,
        log_det: float = 0.0,
        origin: npt.NDArray[np.float64] | None = None,
        data: Dataset | None = None,
    ) -> None:
        super().__init__(family, dtype=dtype, origin=origin, data=data)
        self.is_identity, self.log_det = linear_map is None, float(log_det)
        self.map: npt.NDArray[np.float64] = np.eye(family.n_features_in_) if linear_map is None else linear_map
        self.inverse = np.linalg.inv(self.map)
        self.with_family(family)

    def source(self) -> None:
        """Return None: `fill` packs the rows after their map."""

    def _statistics(self, rows):
        return np.asarray(self.family.sufficient_statistics(self._rows(rows)))

    def _rows(self, rows):
        X = np.asarray(chosen_rows(self.data.X, rows), dtype=np.float64)
        X = X - self.of_data.center_ if self.family.has_linear_part else X
        return np.ascontiguousarray(X) if self.is_identity else X @ self.map.T

    def fill(self, rows: slice | npt.NDArray[np.integer], out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Write the statistics of some rows, minus the origin, to `out` (m, F); return it."""
        origin = np.zeros(self.n_statistics) if self.origin is None else self.origin
        block = self._rows(rows).astype(self.dtype, copy=False)
        pack_outer(block, self.family.has_linear_part, origin.astype(self.dtype, copy=False), out)
        return out

    def with_family(self, family: Any) -> None:
        """Use other hyper-parameters of the same family, in place."""
        self.of_data, self.family = family, family.in_coordinates(self.map)

    def to_data(self, S: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return sums of statistics (K, F) in the coordinates of the data."""
        return S if self.is_identity else self.family.mapped_statistics(S, self.inverse)

    def from_data(self, S: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return sums (K, F), given in the coordinates of the data, in these coordinates."""
        return S if self.is_identity else self.family.mapped_statistics(S, self.map)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the coordinates as a dict of arrays."""
        arrays = super().to_arrays()
        return arrays if self.is_identity else {**arrays, "map": self.map.copy(), "log_det": np.array(self.log_det)}


class SparsePhi(PhiBlocks):
    """Blocks of CSR statistics: row starts, columns and float64 values."""

    is_sparse = True

    def entries(
        self, rows: slice | npt.NDArray[np.integer]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.integer], npt.NDArray[np.float64]]:
        """Return the CSR arrays (indptr, indices, values) of some rows."""
        phi = self.family.sufficient_statistics(self.data.X[rows]).tocsr()
        indptr = phi.indptr.astype(np.int64, copy=False)
        return indptr, phi.indices, phi.data.astype(np.float64, copy=False)


def phi_blocks(
    data: Dataset, family: Any, *, dtype: npt.DTypeLike, whiten: bool | None = None
) -> DensePhi | PackedPhi | SparsePhi:
    """Return statistics of the data for passes, in coordinates computed from the data.

    Parameters
    ----------
    data : Dataset
    family : Family
        Bound to the data.
    dtype : float64 or float32
    whiten : bool, optional
        Whether to whiten where the family allows it; if not given, in float32.
    """
    if data.has_sparse_phi:
        return SparsePhi(family, dtype=dtype, data=data)
    phi = DensePhi(family, dtype=dtype, data=data)
    if _is_packed(family):
        linear_map, log_det = None, 0.0
        if phi.dtype == np.float32 if whiten is None else whiten:
            linear_map, log_det = whitening_map(data, family)
        phi = PackedPhi(family, dtype=dtype, linear_map=linear_map, log_det=log_det, data=data)
    if phi.dtype == np.float32:
        phi.set_origin()
    return phi


def restored_phi(
    family: Any, arrays: dict[str, Any], *, dtype: npt.DTypeLike, is_sparse: bool
) -> DensePhi | PackedPhi | SparsePhi:
    """Return blocks without data in the coordinates that `to_arrays` gave.

    Parameters
    ----------
    family : Family
        Bound.
    arrays : dict of ndarrays
        Result of `to_arrays` of the blocks.
    dtype : float64 or float32
    is_sparse : bool
        Whether the statistics are CSR.
    """
    if is_sparse:
        return SparsePhi(family, dtype=dtype)
    if not _is_packed(family):
        return DensePhi(family, dtype=dtype, origin=arrays.get("origin"))
    settings = {"linear_map": arrays.get("map"), "log_det": arrays.get("log_det", 0.0)}
    return PackedPhi(family, dtype=dtype, origin=arrays.get("origin"), **settings)


def _is_packed(family):
    return getattr(family, "in_coordinates", None) is not None


def whitening_map(data: Dataset, family: Any) -> tuple[npt.NDArray[np.float64], float]:
    """Return the matrix (d, d) that whitens the rows, and its log |det|.

    After the map the second moments of the weighted rows about the family's centre are the identity. Directions with
    less than 1e-8 of the largest moment are scaled as if they had that much, so a constant direction stays small.
    """
    d = data.n_features
    moments = np.zeros((d, d))
    center = family.center_ if family.has_linear_part else np.zeros(d)
    for start in range(0, data.n_rows, _BLOCK_ROWS):
        block = np.asarray(data.X[start : start + _BLOCK_ROWS], dtype=np.float64) - center
        own = block if data.weight is None else block * data.weight[start : start + _BLOCK_ROWS, None]
        moments += own.T @ block
    values, vectors = np.linalg.eigh(moments / (data.n_rows if data.weight is None else data.weight.sum()))
    if not values[-1] > 0:
        return np.eye(d), 0.0
    scales = 1.0 / np.sqrt(np.maximum(values, _LEAST_SHARE * values[-1]))
    return np.ascontiguousarray(scales[:, None] * vectors.T), float(np.log(scales).sum())
