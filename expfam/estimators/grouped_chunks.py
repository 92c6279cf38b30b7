"""`GroupedMixture.partial_fit` and `fit_chunks`: chunks of whole groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.estimators.chunks import ChunkWays, settings_of_plan
from expfam.estimators.group_names import grouped_rows
from expfam.estimators.grouped_plan import kernel_of_groups, model_of_groups
from expfam.estimators.grouped_results import label_all
from expfam.estimators.lines import line_of
from expfam.fitting.chunk_models import FitOfGroups, GroupChunks
from expfam.samplers.grouped.variational import GroupedVariational, soft_sums


def learns_groups(mixture: Any) -> bool:
    """Return True; AttributeError says what to write where no chunks are learned."""
    if mixture.n_components is None:
        raise AttributeError(
            "chunks are learned with a given number of clusters, and n_components is None: write"
            f" {line_of(mixture, n_components=10, sampler='variational')}.fit_chunks(chunks), or with all rows in"
            f" memory {line_of(mixture, sampler='variational')}.fit(X, groups=groups)"
        )
    if not (isinstance(mixture.sampler, GroupedVariational) or mixture.sampler == "variational"):
        raise AttributeError(
            "sampling needs all groups at once; chunks are learned with sampler='variational' or"
            f" GroupedVariational(...): write {line_of(mixture, sampler='variational')}"
        )
    return True


def _plan(mixture, *, is_first, **of_chunk):
    asked = mixture._asked()
    options = {"learn_hyper": mixture.learn_hyper, "model": model_of_groups(mixture, asked.family)}
    if not is_first and not hasattr(mixture, "stream_"):
        fit = (mixture.n_, mixture.S_, mixture.group_counts_, mixture.log_joint_)
        options = {"fit": FitOfGroups(mixture._fitted_model(), *fit)}
    return GroupChunks(**settings_of_plan(mixture, kernel_of_groups(mixture)), asked=asked, **options)


def _part_names(mixture, n_parts):
    return ("groups", "sample_weight")


def _parts(mixture, chunk):
    """Return the rows of a chunk, and options of their `Dataset`."""
    n_parts = len(chunk) if isinstance(chunk, tuple) else 1
    if n_parts not in (2, 3):
        raise DataError(
            f"a chunk is a tuple (rows, groups) or (rows, groups, sample_weight); got {counted(n_parts, 'part')}"
        )
    X, groups, *weight = chunk
    X, _, groups = grouped_rows(X, groups)
    return X, {"groups": groups, "weight": weight[0] if weight else None}


def _read(mixture, stream):
    """Set the results of a mixture."""
    mixture.n_, mixture.S_, mixture.alpha_ = stream.n.copy(), soft_sums(stream), stream.model.pseudocounts
    mixture.labels_, mixture.group_counts_ = stream.labels, stream.group_counts
    mixture.family_, mixture.log_joint_ = stream.model.family, float(stream.log_joint)
    mixture.cluster_sizes_ = np.rint(mixture.n_).astype(np.int64)


def _finish(mixture, data):
    """Extend the labels of the rows that were learned to all rows of the last chunk."""
    label_all(mixture, data)


GROUPS = ChunkWays(_plan, _read, _parts, _part_names, _finish, of_rows=("labels_", "group_counts_", "group_names_"))
