"""Data in parts, as kernels and states see them: sizes and the bound family, without rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.engines.base import Engine
from expfam.engines.parts import Part, cut_rows
from expfam.engines.serial import SerialEngine
from expfam.errors import DataError
from expfam.model.data import Dataset
from expfam.model.label_sums import PhiBounds, Scale
from expfam.model.statistics import weighted_statistics
from expfam.samplers.chain.kernel import check_sharded, refuse_weights
from expfam.samplers.shards.sample import bound_to_parts, check_kinds, gathered, gathered_weights, starting_rows
from expfam.samplers.shards.shard import Shard, WeightedRows
from expfam.samplers.shards.soft_state import ShardedExpectationState
from expfam.samplers.shards.state import ShardedState
from expfam.samplers.starts.rules import automatic_rule, default_n_clusters, starting_labels
from expfam.samplers.states.uncollapsed import UncollapsedState
from expfam.samplers.uncollapsed.em import ExpectationState
from expfam.structures.ground.rng import resolve_seed

SHARDED_STATES = {UncollapsedState: ShardedState, ExpectationState: ShardedExpectationState}  # by a kernel's state_type
STARTS = ("one", "random")  # rules that need no row but its number


class ShardedData:
    """Rows that stay where an engine has put them.

    Kernels whose labels are independent given parameters run on them: ``kernel.init(model, data)`` makes the state.

    Parameters
    ----------
    parts : iterable of Part, or (N, V) ndarray or CSR, or WeightedRows
        An array is cut into `n_parts`.
    family : Family
        If it is not bound, it is bound to the rows of all parts, by their sums; a family that reads all rows at once,
        by its method `resolve`, to 100,000 of them, drawn at random.
    engine : Engine, optional
        The parts are placed in it. `SerialEngine` if not given.
    n_parts : int
        Number of parts of an array.
    weight : (N,) array_like of non-negative float, optional
        How often each row of an array counts. Sources of parts are `WeightedRows` where rows have weights.

    Attributes
    ----------
    engine : Engine
    family : Family
    n_rows, n_features, n_statistics : int
    is_sparse, has_sparse_phi, is_weighted : bool
        Whether rows and their statistics are sparse, and whether rows have weights.
    scale : Scale
        How terms of sums are split into pieces, see `expfam.model.label_sums`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import ShardedData, UncollapsedGibbs, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 600, axis=0)
    >>> def labels_of(n_parts):
    ...     data, kernel = ShardedData(X, Poisson(), n_parts=n_parts), UncollapsedGibbs()
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
    shard_type = Shard

    def __init__(
        self,
        parts: Iterable[Part] | Any,
        family: Any,
        *,
        engine: Engine | None = None,
        n_parts: int = 1,
        weight: npt.ArrayLike | None = None,
    ) -> None:
        self.engine = SerialEngine() if engine is None else engine
        if isinstance(parts, WeightedRows):
            parts, weight = parts.rows, parts.weight
        if hasattr(parts, "shape"):
            cut = cut_rows(parts, n_parts)
            parts = cut if weight is None else with_weights(cut, weight)
        elif weight is not None:
            raise ValueError("weight= goes with an array; give parts WeightedRows as sources, WeightedRows(X, weight)")
        self.engine.place(parts, self.shard_type)
        family = self._placed(family)
        kinds = check_kinds(self.engine)
        self.is_sparse, self.is_weighted = bool(kinds["is_sparse"]), bool(kinds["is_weighted"])
        self.family = family = bound_to_parts(self.engine, family, kinds)
        bounds = self.engine.change("bind", family)
        self.n_rows, self.n_features = self.engine.n_rows, int(family.n_features_in_)
        self.n_statistics = int(family.n_statistics_)
        self.scale: Scale = bounds.scale(self.n_rows)
        self.has_sparse_phi: bool = self.engine.each("has_sparse_phi")[0]
        self._weighted_bounds: PhiBounds | None = None

    def _placed(self, family: Any) -> Any:
        """Make numbers of the rows, where they are none yet; return their family."""
        return family

    def __len__(self):
        return self.n_rows

    def __repr__(self):
        n_parts = counted(len(self.engine.parts), "part")
        return f"ShardedData({self.n_rows} x {self.n_features}, {n_parts}, family={self.family.name!r})"

    @property
    def weighted_bounds(self) -> PhiBounds:
        """Return the bounds of the weighted statistics, found out once.

        They have F + 1 columns; the last is that of the weights.
        """
        if self._weighted_bounds is None:
            self._weighted_bounds = self.engine.total("weighted_bounds")
        return self._weighted_bounds

    @property
    def n_nonzero(self) -> int:
        """Return how many entries of the rows are not 0."""
        return int(self.engine.total("n_nonzero"))

    def first_state(
        self, kernel: Any, model: Any, *, seed: Any = None, start: Any = "auto", n_clusters: int | None = None
    ) -> ShardedState:
        """Make the first state of a chain; `Kernel.init` calls it.

        Parameters
        ----------
        kernel : Kernel
        model : MixtureModel
        seed : None, int, numpy Generator or RandomState
        start : str or (N,) array_like of int
            Rules other than "random" and "one" work on 20,000 rows and 20 for each cluster, drawn at random; the other
            rows get their most probable cluster.
        n_clusters : int, optional
            Number of clusters to start with.

        Raises
        ------
        CapabilityError
            The kernel moves labels that depend on each other given parameters, so it cannot run on parts.
        """
        check_sharded(kernel)
        if self.is_weighted and not kernel.takes_weight:
            refuse_weights(kernel, ["ExpectationMaximization"])
        model = model if model.is_bound else model.with_family(self.family)
        kernel.check(model, self)
        K = kernel.max_clusters(model)
        seed = resolve_seed(seed)
        is_open = K is None
        if n_clusters is None:
            n_clusters = default_n_clusters(model, self.n_rows)
            n_clusters = n_clusters if is_open else min(K, n_clusters)
        if is_open:
            given = not isinstance(start, str) and not hasattr(start, "labels")
            K = max(n_clusters, int(np.max(start)) + 1) if given else n_clusters
        sums = self._begin(model, start, n_clusters, K, seed)
        return SHARDED_STATES[kernel.state_type](model, self, sums, n_clusters=K, seed=seed, is_open=is_open)

    def _begin(self, model, start, n_first, K, seed):
        """Give all rows their first labels; return the sums."""
        if isinstance(start, str) and start == "auto":
            start = automatic_rule(model)
        if isinstance(start, str) and start in STARTS:
            return self.engine.change("begin", model, start, n_first, K, self.scale, seed)
        if not isinstance(start, str) and not hasattr(start, "labels"):
            return self.engine.change("set_labels", K, self.scale, by_part=self.by_part(start, K))
        numbers = starting_rows(self.n_rows, n_first, seed)
        weight = gathered_weights(self.engine, numbers) if self.is_weighted else None
        rows = Dataset(gathered(self.engine, numbers), self.family, weight=weight)
        labels = starting_labels(start, model, rows, seed=seed, n_clusters=n_first)
        if rows.n_rows == self.n_rows:
            return self.engine.change("set_labels", K, self.scale, by_part=self.by_part(labels, K))
        return self.engine.change("begin_near", model, *weighted_statistics(rows, labels, K), K, self.scale)

    def by_part(self, labels: npt.ArrayLike, n_clusters: int) -> list[Any]:
        """Cut labels of all rows into those of the parts, (n,) int32 each.

        Parameters
        ----------
        labels : (N,) array_like of int
            Labels of all rows, in the order of the parts.
        n_clusters : int
            K, above all labels; ValueError for others, and for labels of another shape or type.
        """
        labels = np.asarray(labels)
        if labels.shape != (self.n_rows,) or labels.dtype.kind not in "iu":
            raise ValueError(f"labels must be integers of shape ({self.n_rows},); got {labels.dtype} {labels.shape}")
        if labels.min() < 0 or labels.max() >= n_clusters:
            raise ValueError(f"labels must lie in 0..{n_clusters - 1}; got {labels.min()}..{labels.max()}")
        bounds = [(part.first_row, part.first_row + part.n_rows) for part in self.engine.parts]
        return [labels[start:stop].astype(np.int32) for start, stop in bounds]


def with_weights(parts: Iterable[Part], weight: npt.ArrayLike) -> list[Part]:
    """Return parts of an array whose rows have weights.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.engines import cut_rows
    >>> from expfam.samplers.shards.data import with_weights
    >>> with_weights(cut_rows(np.zeros((2, 1)), 1), [1.0, 3.0])[0].source.weight
    array([1., 3.])
    """
    parts, weight = list(parts), np.asarray(weight)
    n_rows = sum(part.n_rows for part in parts)
    if weight.shape != (n_rows,):
        raise DataError(f"weight must have one number for each of {counted(n_rows, 'row')}; got shape {weight.shape}")
    bounds = [(part.first_row, part.first_row + part.n_rows) for part in parts]
    return [
        part._replace(source=WeightedRows(part.source, weight[start:stop]))
        for part, (start, stop) in zip(parts, bounds)
    ]
