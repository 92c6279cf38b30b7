"""States of variational runs that hold their rows, with what each batch of them contributed."""

import numpy as np

from expfam.samplers.states.storage import UnsharedState
from expfam.samplers.variational.local_step import Sums
from expfam.structures.ground.stored import numbers


class HeldRows(UnsharedState):
    """Part of the states that have `labels` and `batch_sums` beside what a `SoftState` has."""

    @property
    def partition(self):
        """Labels renumbered 0..B-1 by first appearance: (N,) int32 ndarray, a copy."""
        _, first, labels = np.unique(self.labels, return_index=True, return_inverse=True)
        rank = np.empty(first.size, dtype=np.int32)
        rank[np.argsort(first)] = np.arange(first.size)
        return rank[labels]

    def set_model(self, model):
        """Use other hyper-parameters, weights of the same kind or pseudo-counts with the same statistics."""
        self.model = model
        self.phi.with_family(model.family)
        self.converged = False
        self.update()
        self.log_joint = self.compute_log_joint()

    def total_of_batches(self):
        """Sums of all batches together, which are remembered as sums."""
        total = Sums.zeros(self.K, self.phi.n_statistics)
        for sums in self.batch_sums:
            total.add(sums)
        return total

    def batch_arrays(self):
        """Sums of the batches without their entropies, as a dict of arrays."""
        return {
            "batch_n": np.stack([sums.n for sums in self.batch_sums]),
            "batch_S": np.stack([sums.S for sums in self.batch_sums]),
        }

    def batches_of_arrays(self, arrays):
        """Sums of the batches from what `batch_arrays` gave, and ``batch_entropy``; ArchiveError if they do not fit."""
        B = len(self.batches)
        n, S = numbers(arrays, "batch_n", (B, self.K), low=0.0), numbers(arrays, "batch_S", (B, *self.sums.S.shape))
        entropy = numbers(arrays, "batch_entropy", (B,))
        return [Sums(n[b], S[b], float(entropy[b])) for b in range(B)]


__all__ = ["HeldRows"]
