"""Base of the streams that learn soft statistics of K clusters from chunks of data.

A stream keeps no chunk. The first chunk fixes the coordinates of the passes. Memory beside one chunk: O(K F), and the
contributions of named chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import ArchiveError, CapabilityError, DataError, DataWarning, ExpFamError
from expfam.families.columns.cells import as_columns
from expfam.families.columns.family import Columns
from expfam.families.support import dense_rows
from expfam.samplers.variational.features import restored_phi
from expfam.samplers.variational.learner import weight_of
from expfam.samplers.variational.local_step import Sums
from expfam.samplers.variational.soft_state import SoftState
from expfam.samplers.variational.state import stored_order
from expfam.samplers.variational.stream_base import ChunkStream
from expfam.structures.ground.stored import integers, numbers
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.variational.learner import Pass

_Stream = TypeVar("_Stream", bound="SoftStream")


class SoftStream(ChunkStream, SoftState):
    """Base of the streams of soft statistics.

    Subclasses write `step_of`, `contribution`, `sums_of_contribution`, `noisy_bound` and `room`. The first chunk,
    `data`, may bind the family and fixes the coordinates of the stream; it is not learned here.
    """

    def __init__(self, model: Any, data: Dataset, *, n_clusters: int, settings: Any, seed: int) -> None:
        super().__init__(model, data, n_clusters=n_clusters, settings=settings, seed=seed)
        self.phi = self.phi.over(None)
        self.start_stream(settings.stream_schedule())

    # ---- beginnings --------------------------------------------------------------------------------------------------

    @staticmethod
    def room(model: Any, settings: Any) -> int:
        """Return the number of clusters of a stream of this model.

        Parameters
        ----------
        model : MixtureModel or AdmixtureModel
        settings : StreamKernel
            Kernel of the stream.
        """
        raise NotImplementedError

    def begin(self, data: Dataset, labels: npt.ArrayLike) -> None:
        """Begin with the statistics of starting labels; the first learned chunk replaces them.

        Parameters
        ----------
        data : Dataset
            The first chunk.
        labels : (N,) array_like of int
            Cluster of each of its rows.
        """
        passes = self.passes_over(self.phi.over(data), data.weight)
        ones = np.ones((data.n_rows, 1), dtype=self.phi.dtype)
        hard = np.ascontiguousarray(labels, dtype=np.int32)[:, None]
        found, sums = passes.sums_of(slice(0, data.n_rows), hard, ones), self.empty_sums()
        sums.n, sums.S = found.n, found.S
        self.start_from(sums, weight_of(data))

    def sums_of_fit(self, n: npt.NDArray[np.float64], S: Any) -> Sums:
        """Return the sums of the statistics (n, S) of a finished fit, whose rows are not known.

        Parameters
        ----------
        n : (B,) float64 ndarray
            Weight of each cluster.
        S : (B, F) float64 ndarray or CSR
            Sums of statistics in the coordinates of the data.

        Returns
        -------
        Sums
            Of K clusters, in the coordinates of the passes; those without data are last.

        Raises
        ------
        CapabilityError
            There are more than K clusters.
        """
        if len(n) > self.K:
            raise CapabilityError(
                f"the fit has {counted(len(n), 'cluster')}, but the sampler has room for {self.K}: allow more clusters"
            )
        sums = self.empty_sums()
        sums.n[: len(n)] = n
        sums.S[: len(n)] = self.phi.from_data(np.ascontiguousarray(dense_rows(S)))
        return sums

    # ---- chunks ------------------------------------------------------------------------------------------------------

    def open_for(self, data: Dataset, done: Pass) -> None:
        """Take over the family of a chunk that lacks cells which earlier chunks had.

        It is the same model in another layout of statistics: all sums of the stream get this layout.
        """
        if not self._is_opened(data):
            return
        before, phi, opened = self.model.family, self.phi, data.family
        table, has_sparse_phi = as_columns(before), data.has_sparse_phi

        def in_layout(n: Any, S: Any) -> Any:
            return dense_rows(table.open_statistics(opened, n, S))

        origin = None if phi.origin is None or phi.log_det else in_layout(np.ones(1), phi.origin[None])[0]
        coordinates = {} if origin is None else {"origin": origin}
        self.phi = restored_phi(opened, coordinates, dtype=self.settings.dtype, is_sparse=has_sparse_phi)
        kept = [self.sums, done.sums, *(getattr(last, "sums", None) for last in self.memo.values())]
        for sums in {id(sums): sums for sums in kept if sums is not None}.values():  # some are one object
            sums.S = self.phi.from_data(in_layout(sums.n, phi.to_data(sums.S)))
        self.model = self.model.with_family(opened)
        self.update(keep_order=True)

    def _is_opened(self, data):
        """Return whether the family of a chunk is that of the stream, opened for missing cells."""
        before, family = self.model.family, data.family
        if not isinstance(family, Columns):
            return False
        return not isinstance(before, Columns) or family.n_statistics_ != before.n_statistics_

    def check_kind(self, data: Dataset) -> None:
        """Raise DataError for sparse chunks after a dense first one, and the other way round."""
        if self._is_opened(data):
            return  # the chunk decides the kind
        if data.has_sparse_phi != self.phi.is_sparse:
            raise DataError(mixed_kinds(self.phi.is_sparse))

    # ---- storage -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return all that later learning reads, as a dict of arrays."""
        return {
            "coordinates": self.phi.to_arrays(),
            **self.sums.to_arrays(),
            "order": self.order.copy(),
            "labels": self.labels.copy(),
            "scalars": np.array([self.entropy, self.log_joint, self.total_weight]),
            "counters": np.array([self.n_steps, self.n_updates, self.is_guess, self.phi.is_sparse], dtype=np.int64),
            "seed": np.array(self.seed, dtype=np.uint64),
        } | self.memo_arrays()

    @classmethod
    def from_arrays(cls: type[_Stream], model: Any, settings: Any, arrays: dict[str, Any]) -> _Stream:
        """Return the stream that `to_arrays` stored, for the same model and settings.

        Parameters
        ----------
        model : MixtureModel or AdmixtureModel
            With the bound family of the stored stream.
        settings : StreamKernel
            Kernel of the stored stream.
        arrays : dict of ndarrays
            Result of `to_arrays`.

        Raises
        ------
        ExpFamError
            If the arrays have another number of clusters.
        """
        self = cls.__new__(cls)
        self.model, self.settings, self.K = model, settings, len(arrays["n"])
        self.seed = int(integers(arrays, "seed", (), 0, 2**64, dtype=np.uint64))
        if cls.room(model, settings) != self.K:
            raise ExpFamError(
                f"the stored stream has {counted(self.K, 'cluster')}, the sampler {cls.room(model, settings)}: load it "
                "with the same sampler"
            )
        self.schedule = settings.stream_schedule()
        entropy, self.log_joint, self.total_weight = numbers(arrays, "scalars", (3,), finite=False).tolist()
        self.n_steps, self.n_updates, is_guess, is_sparse = integers(arrays, "counters", (4,)).tolist()
        coordinates = arrays.get("coordinates", {})
        _check_coordinates(coordinates, model.family)
        self.phi = restored_phi(model.family, coordinates, dtype=settings.dtype, is_sparse=bool(is_sparse))
        self.is_guess, self.order = bool(is_guess), stored_order(arrays, self.K)
        self.n_sweeps, self._repeats = 0, False
        self.sums = cls.sums_type.from_arrays(arrays, entropy, (self.K, self.phi.n_statistics))
        self.labels = integers(arrays, "labels", (None,), 0, self.K, dtype=np.int32)
        self.restore_memo(arrays)
        self.update(keep_order=True)
        return self


def _check_coordinates(arrays, family):
    """Raise ArchiveError for coordinates whose shapes do not fit the family's columns."""
    d, F = family.n_features_in_, family.n_statistics_
    for name, value in arrays.items():
        found = numbers(arrays, name, np.shape(value))
        if not set(found.shape) <= {d, F}:
            raise ArchiveError(
                f"{name!r} of the coordinates has shape {found.shape}, for {counted(d, 'column')}: the file was altered"
            )


def mixed_kinds(was_sparse: bool) -> str:
    """Return the message for a chunk of another kind than the first one."""
    was, now = ("sparse", "dense") if was_sparse else ("dense", "sparse")
    return f"the first chunk was {was}, this one is {now}: give chunks of one kind"


def warn_of_few(n_clusters: int, data: Dataset) -> None:
    """Warn if the first chunk has fewer rows than there are clusters.

    Call it from `_stream_start` only: the warning names the line that called the caller of `StreamKernel.stream`.
    """
    if data.n_rows < n_clusters:
        warn(
            f"{counted(n_clusters, 'cluster')} for {counted(data.n_rows, 'datum', 'data')} in the first chunk: "
            "clusters without a row at the start stay equal; begin with more rows",
            DataWarning,
        )
