"""Mixin for states of variational runs that hold their rows and the sums of each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.samplers.states.storage import UnsharedState
from expfam.samplers.variational.local_step import Sums
from expfam.structures.ground.stored import numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.samplers.variational.features import PhiBlocks


class HeldRows(UnsharedState):
    """Mixin for a `SoftState` that holds `labels` of its rows and `batch_sums`."""

    labels: npt.NDArray[np.int32]
    batches: Any
    batch_sums: Any
    converged: bool
    model: Any  # attributes and methods of a `SoftState`, from here on
    K: int
    phi: PhiBlocks
    sums: Sums
    log_joint: float
    update: Any
    compute_log_joint: Any

    @property
    def partition(self) -> npt.NDArray[np.int32]:
        """Return the labels, renumbered 0..B-1 by first appearance: (N,) int32, a copy."""
        _, first, labels = np.unique(self.labels, return_index=True, return_inverse=True)
        rank = np.empty(first.size, dtype=np.int32)
        rank[np.argsort(first)] = np.arange(first.size)
        return rank[labels]

    def set_model(self, model: Any) -> None:
        """Use another model with the same statistics, and set the posterior from them.

        The model may have other hyper-parameters, other weights of the same kind, or other pseudo-counts.
        """
        self.model = model
        self.phi.with_family(model.family)
        self.converged = False
        self.update()
        self.log_joint = self.compute_log_joint()

    def total_of_batches(self) -> Sums:
        """Return the sums of all rows, added up from the sums of the batches."""
        total = Sums.zeros(self.K, self.phi.n_statistics)
        for sums in self.batch_sums:
            total.add(sums)
        return total

    def batch_arrays(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the sums of the batches, without their entropies, as a dict of arrays."""
        return {
            "batch_n": np.stack([sums.n for sums in self.batch_sums]),
            "batch_S": np.stack([sums.S for sums in self.batch_sums]),
        }

    def batches_of_arrays(self, arrays: dict[str, Any]) -> list[Sums]:
        """Return the sums of the batches from the arrays of `batch_arrays` and ``batch_entropy``.

        Raises
        ------
        ArchiveError
            For arrays that do not fit this state.
        """
        B = len(self.batches)
        n, S = numbers(arrays, "batch_n", (B, self.K), low=0.0), numbers(arrays, "batch_S", (B, *self.sums.S.shape))
        entropy = numbers(arrays, "batch_entropy", (B,))
        return [Sums(n[b], S[b], float(entropy[b])) for b in range(B)]


__all__ = ["HeldRows"]
