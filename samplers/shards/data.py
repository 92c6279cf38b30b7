"""Data in parts, as kernels and states see them: sizes and the bound family, without rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.engines.base import Engine
from expfam.engines.parts import Part, cut_rows
from expfam.engines.serial import SerialEngine
from expfam.errors import CapabilityError, DataTypeError
from expfam.model.label_sums import Scale
from expfam.samplers.chain.kernel import check_sharded
from expfam.samplers.shards.shard import Shard
from expfam.samplers.shards.state import SHARDED_STATES, ShardedState
from expfam.samplers.starts.rules import default_n_clusters
from expfam.structures.ground.rng import resolve_seed

STARTS = ("one", "random")  # rules that need no row but its number


class ShardedData:
    """Rows that stay where an engine has put them.

    Kernels whose labels are independent given parameters run on them: ``kernel.init(model, data)`` makes the state.

    Parameters
    ----------
    parts : iterable of Part, or (N, V) ndarray or CSR
        An array is cut into `n_parts`.
    family : Family
        Bound to the data.
    engine : Engine, optional
        The parts are placed in it. `SerialEngine` if not given.
    n_parts : int
        Number of parts of an array.

    Attributes
    ----------
    engine : Engine
    family : Family
    n_rows, n_features, n_statistics : int
    scale : Scale
        How terms of sums are split into pieces, see `expfam.model.label_sums`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import ShardedData, UncollapsedGibbs, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 600, axis=0)
    >>> def labels_of(n_parts):
    ...     data, kernel = ShardedData(X, Poisson().bind(X), n_parts=n_parts), UncollapsedGibbs()
    ...     state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(5)), data, seed=0)
    ...     trace = sample(kernel, state, 10)
    ...     return state.labels
    >>> bool((labels_of(1) == labels_of(2)).all())
    True
    """

    weight = None
    known = None
    groups = None
    row_offset = 0

    def __init__(
        self, parts: Iterable[Part] | Any, family: Any, *, engine: Engine | None = None, n_parts: int = 1
    ) -> None:
        self.engine = SerialEngine() if engine is None else engine
        self.engine.place(cut_rows(parts, n_parts) if hasattr(parts, "shape") else parts, Shard)
        if not family.is_bound:
            raise CapabilityError(f"{family!r} is not bound: write ShardedData(parts, family.bind(X))")
        self.family = family
        bounds = self.engine.change("bind", family)
        self.n_rows, self.n_features = self.engine.n_rows, int(family.n_features_in_)
        self.n_statistics = int(family.n_statistics_)
        self.scale: Scale = bounds.scale(self.n_rows)
        facts = self.engine.each("facts")
        self.is_sparse, self.has_sparse_phi = facts[0]["is_sparse"], facts[0]["has_sparse_phi"]
        for part, fact in zip(self.engine.parts, facts):
            if fact["is_sparse"] != self.is_sparse:
                raise DataTypeError(
                    f"the part that begins at row {part.first_row} is {'sparse' if fact['is_sparse'] else 'dense'}, the"
                    " first part is not: give all parts one kind, scipy.sparse.csr_array(X)"
                )

    def __len__(self):
        return self.n_rows

    def __repr__(self):
        n_parts = len(self.engine.parts)
        return f"ShardedData({self.n_rows} x {self.n_features}, {n_parts} parts, family={self.family.name!r})"

    def first_state(
        self, kernel: Any, model: Any, *, seed: Any = None, start: Any = "random", n_clusters: int | None = None
    ) -> ShardedState:
        """Make the first state of a chain; `Kernel.init` calls it.

        Parameters
        ----------
        kernel : Kernel
        model : MixtureModel
        seed : None, int, numpy Generator or RandomState
        start : {"random", "one"} or (N,) array_like of int
        n_clusters : int, optional
            Number of clusters of a random start.

        Raises
        ------
        CapabilityError
            The kernel moves labels that depend on each other given parameters, so it cannot run on parts.
        """
        check_sharded(kernel)
        model = model if model.is_bound else model.with_family(self.family)
        kernel.check(model, self)
        K = kernel.max_clusters(model)
        seed = resolve_seed(seed)
        if isinstance(start, str):
            start = "random" if start == "auto" else start
            if start not in STARTS:
                raise CapabilityError(f"start={start!r} needs all rows in one place: write start='random', or labels")
            n_first = min(K, default_n_clusters(model, self.n_rows)) if n_clusters is None else n_clusters
            labels = None
        else:
            n_first, labels = K, self.by_part(start, K)
        rule = (model, start if labels is None else None, n_first, K, self.scale, seed)
        sums = self.engine.change("begin", *rule, by_part=labels)
        return SHARDED_STATES[kernel.state_type](model, self, sums, n_clusters=K, seed=seed)

    def by_part(self, labels: npt.ArrayLike, n_clusters: int) -> list[Any]:
        """Cut labels of all rows into those of the parts, (n,) int32 each."""
        labels = np.asarray(labels)
        if labels.shape != (self.n_rows,) or labels.dtype.kind not in "iu":
            raise ValueError(f"labels must be integers of shape ({self.n_rows},); got {labels.dtype} {labels.shape}")
        if labels.min() < 0 or labels.max() >= n_clusters:
            raise ValueError(f"labels must lie in 0..{n_clusters - 1}; got {labels.min()}..{labels.max()}")
        bounds = [(part.first_row, part.first_row + part.n_rows) for part in self.engine.parts]
        return [labels[start:stop].astype(np.int32) for start, stop in bounds]
