"""`GroupedMixture.partial_fit` and `fit_chunks`: chunks of whole groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.estimators.chunks import ChunkLearner, tell_of_covariances
from expfam.estimators.group_names import grouped_rows
from expfam.estimators.lines import line_of
from expfam.estimators.loaded import names_of_fit
from expfam.fitted.scoring import opened_rows
from expfam.fitting.grouped_starts import start_of_groups
from expfam.fitting.weighted_rows import start_of_counted
from expfam.forecast.memory import check_memory
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.params import is_auto
from expfam.samplers.grouped.variational import GroupedVariational
from expfam.samplers.warm_starts.sample_rows import rows_for_start

if TYPE_CHECKING:
    from expfam.model.data import Dataset


def learns_groups(mixture: Any) -> bool:
    """Return True; AttributeError says what to write where no chunks are learned."""
    if mixture.n_components is None:
        raise AttributeError(
            "chunks are learned with a given number of clusters, and n_components is None: write"
            f" {line_of(mixture, n_components=10, sampler='variational')}"
        )
    if not (isinstance(mixture.sampler, GroupedVariational) or mixture.sampler == "variational"):
        raise AttributeError(
            "sampling needs all groups at once; chunks are learned with sampler='variational' or"
            f" GroupedVariational(...): write {line_of(mixture, sampler='variational')}"
        )
    return True


class GroupedChunks(ChunkLearner):
    """What a mixture of rows in groups does with chunks."""

    of_rows: ClassVar[tuple[str, ...]] = ("labels_", "group_counts_", "group_names_")

    def kernel(self) -> Any:
        """Return the kernel that learns chunks."""
        return self.estimator._kernel()

    def part_names(self, n_parts: int) -> tuple[str, ...]:
        """Return the names of the parts of a chunk beside the rows."""
        return ("groups", "sample_weight")

    def parts(self, chunk: Any) -> tuple[Any, dict[str, Any]]:
        """Return the rows of a chunk, and options of their `Dataset`."""
        n_parts = len(chunk) if isinstance(chunk, tuple) else 1
        if n_parts not in (2, 3):
            raise DataError(
                f"a chunk is a tuple (rows, groups) or (rows, groups, sample_weight); got {counted(n_parts, 'part')}"
            )
        X, groups, *weight = chunk
        X, _, groups = grouped_rows(X, groups)
        return X, {"groups": groups, "weight": weight[0] if weight else None}

    def open(self, X: Any, options: dict[str, Any], *, is_first: bool, in_passes: bool = False) -> tuple[Any, Dataset]:
        """Return the stream of a first chunk, or one that goes on from a fit; and the chunk."""
        mixture = self.estimator
        kernel, seed = mixture._kernel(), mixture._seed()
        if is_first:
            data = self.first_data(X, options)
            model = mixture._model(data.family)
            weighted, start = data.counted(), start_of_counted(data, mixture.start)
            check_memory(mixture._forecast(weighted, kernel=kernel, model=model, start=start), mixture.memory_limit)
            options = {"learn_hyper": mixture.learn_hyper, "seed": seed, "n_threads": mixture.n_threads}
            labels, family = start_of_groups(kernel, model, weighted, start, mixture._family(), **options)
            tell_of_covariances(mixture, weighted, labels, seed=seed)
            return kernel.stream(model.with_family(family), weighted, seed=seed, start=labels), data
        data, S = opened_rows(X, mixture.family_, mixture.n_, mixture.S_, names=names_of_fit(mixture), **options)
        fit = (mixture.n_, S, mixture.group_counts_, mixture.log_joint_)
        return kernel.resumed_stream(mixture._fitted_model().with_family(data.family), data, *fit, seed=seed), data

    @property
    def keeps_first(self) -> bool:
        """Whether the start of chunks is searched, so that first chunks are kept for it."""
        return is_auto(self.estimator.start)

    def rows_for_start(self, data: Dataset) -> int:
        """Return the number of rows that the search for a start looks at; `data` is the first chunk."""
        weights = SymmetricDirichlet(self.estimator._check_components(), 1.0)
        return rows_for_start(MixtureModel(data.family, weights), data)

    def read(self, stream: Any) -> None:
        """Set the results of the estimator."""
        mixture = self.estimator
        mixture.n_, mixture.S_, mixture.alpha_ = stream.n.copy(), soft_sums(stream), stream.model.pseudocounts
        mixture.labels_, mixture.group_counts_ = stream.labels, stream.group_counts
        mixture.family_, mixture.log_joint_ = stream.model.family, float(stream.log_joint)
        mixture.cluster_sizes_ = np.rint(mixture.n_).astype(np.int64)

    def counted(self, data: Dataset) -> Dataset:
        """Return the rows of weight above 0."""
        return data.counted()

    def label_all(self, data: Dataset) -> None:
        """Extend the labels of the rows that were learned to all rows of a chunk."""
        self.estimator._label_all(data)


def soft_sums(state: Any) -> Any:
    """Return sums of statistics of a variational run: (K, F), CSR where those of the data are."""
    return sparse.csr_array(state.S) if state.phi.is_sparse else state.S


__all__ = ["GroupedChunks", "learns_groups", "soft_sums"]
