"""Rows in groups that lie in parts: the rows of one group may lie on several."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.engines.base import Engine
from expfam.engines.parts import cut_rows
from expfam.errors import DataError
from expfam.frames.names import rows_from
from expfam.model.groups import Groups
from expfam.model.label_sums import LabelSums
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.samplers.chain.kernel import check_sharded
from expfam.samplers.shards.data import ShardedData
from expfam.samplers.shards.shard import Parameters, PartState, Reply, Shard
from expfam.structures.ground.rng import resolve_seed


class GroupedRows(NamedTuple):
    """Rows of a part with their groups: the source of a `Part`, or what its function returns.

    Attributes
    ----------
    rows : (n, V) array_like or sparse matrix
    groups : (n,) array_like
        Number of the group of each row among all, from 0 on, or its name.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.shards.grouped import GroupedRows
    >>> GroupedRows(np.zeros((2, 3)), [0, 1]).shape
    (2, 3)
    """

    rows: Any
    groups: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows."""
        return tuple(int(size) for size in self.rows.shape)


class NamedGroups(NamedTuple):
    """Groups of which a part has rows.

    Attributes
    ----------
    numbers : (g,) int64 ndarray or None
        Their numbers, ascending, where rows have numbers of groups.
    names : list or None
        Their names, where rows have names.
    """

    numbers: npt.NDArray[np.int64] | None
    names: list[Any] | None


class GroupedReply(Reply):
    """Answer of shards to a sweep of rows in groups; ``a + b`` is that of the rows of both.

    Attributes
    ----------
    n_moved, sums, extra
        As of `Reply`.
    counts : (G, K) CSR array of int64
        Rows of each group in each cluster.
    """

    __slots__ = ("counts",)

    def __init__(self, n_moved: int, sums: LabelSums, extra: list[tuple[int, int, dict[str, Any]]], counts: Any):
        super().__init__(n_moved, sums, extra)
        self.counts = counts

    def __add__(self, other: GroupedReply) -> GroupedReply:  # type: ignore[override]
        parts = (self.n_moved + other.n_moved, self.sums + other.sums, self.extra + other.extra)
        return GroupedReply(*parts, self.counts + other.counts)

    def __getstate__(self):
        return self.n_moved, self.sums, self.extra, self.counts

    def __setstate__(self, state):
        self.n_moved, self.sums, self.extra, self.counts = state


class GroupedShard(Shard):
    """Rows of a part in groups, and the labels that a chain gives them.

    Engines ask it by the names of its methods. Beside those of `Shard`, `number` and `redraw_in_groups` change it.

    Parameters
    ----------
    X : GroupedRows
    first_row : int
        Global number of the first row.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.shards.grouped import GroupedRows, GroupedShard
    >>> shard = GroupedShard(GroupedRows(np.array([[1], [3]]), ["b", "a"]), 10)
    >>> shard.number(["a", "b", "c"])
    >>> shard.own_groups().tolist()
    [0, 1]
    """

    names: list[Any] | None
    own: npt.NDArray[np.int64]
    of_row: npt.NDArray[np.intp]

    def __init__(self, X: Any, first_row: int) -> None:
        if not isinstance(X, GroupedRows):
            raise DataError(f"the part that begins at row {first_row} has no groups: write GroupedRows(X, groups)")
        super().__init__(X.rows, first_row)
        self.groups = groups_of(X.groups, self.X.shape[0], self.first_row)

    def group_names(self) -> NamedGroups:
        """Return the groups of the rows."""
        found = self.groups
        if found.names is not None:
            return NamedGroups(None, list(found.names))
        return NamedGroups(np.flatnonzero(found.sizes), None)

    def number(self, names: list[Any] | None) -> None:
        """Number the groups as all parts do: named ones by their places among the names of all."""
        self.names = names
        numbers = numbers_of(self.groups, names)
        self.own, self.of_row = np.unique(numbers, return_inverse=True)

    def redraw_in_groups(
        self, kernel: Any, parameters: Parameters, n_groups: int, log_weights: npt.NDArray[np.float64]
    ) -> GroupedReply:
        """Draw new labels given parameters and log weights (g, K) of the groups of the part.

        Parameters
        ----------
        kernel : Kernel
        parameters : Parameters
        n_groups : int
            Number of groups of all parts.
        log_weights : (g, K) float64 ndarray
            Log weights of the clusters in the groups of the part, nats.
        """
        state = GroupedPartState(self, parameters, log_weights)
        reply = self.take_drawn(parameters.K, *kernel.new_labels(state))
        return GroupedReply(reply.n_moved, reply.sums, reply.extra, self.group_counts(n_groups, parameters.K))

    # ---- questions ---------------------------------------------------------------------------------------------------

    def own_groups(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the groups of which rows are here, ascending."""
        return self.own

    def group_counts(self, n_groups: int, n_clusters: int) -> Any:
        """Return the number of rows of each group in each cluster: (G, K) CSR array of int64."""
        cells = self.own[self.of_row] * n_clusters + self.labels
        found, counts = np.unique(cells, return_counts=True)
        return sparse.csr_array(
            (counts.astype(np.int64), (found // n_clusters, found % n_clusters)), shape=(n_groups, n_clusters)
        )

    def groups_at(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the groups of the rows with these global numbers that are here."""
        here = numbers[(numbers >= self.first_row) & (numbers < self.first_row + self.X.shape[0])]
        return self.own[self.of_row[here - self.first_row]]

    # ---- loss and resumption -----------------------------------------------------------------------------------------

    def saved(self) -> dict[str, Any]:
        """Return all that the rows and their groups do not hold."""
        return super().saved() | {"names": self.names}

    def restore(self, saved: dict[str, Any]) -> None:
        """Bring a new shard of the same rows to where another one was saved."""
        super().restore(saved)
        self.number(saved["names"])


class GroupedPartState(PartState):
    """State of a part in groups as a kernel reads it.

    Attributes
    ----------
    log_weights : (g, K) float64 ndarray
        Of the groups of the part.
    of_row : (n,) intp ndarray
        Place of the group of each row in `log_weights`.
    """

    def __init__(self, shard: GroupedShard, parameters: Parameters, log_weights: npt.NDArray[np.float64]) -> None:
        super().__init__(shard.data, shard.labels, parameters)
        self.log_weights, self.of_row = log_weights, shard.of_row


def groups_of(groups: Any, n_rows: int, first_row: int = 0) -> Groups:
    """Return the groups of the rows of a part.

    Parameters
    ----------
    groups : (n,) array_like
        Number or name of the group of each row.
    n_rows : int
        Number of rows of the part.
    first_row : int
        Number of its first row among all rows, for messages.

    Raises
    ------
    DataError
        A row has no group, a number is negative, or there are more or fewer groups than rows.

    Examples
    --------
    >>> from expfam.samplers.shards.grouped import groups_of
    >>> groups_of(["b", "a"], 2).names.tolist()
    ['a', 'b']
    """
    with rows_from(first_row):
        found = np.asarray(groups)
        made = Groups(found) if found.dtype.kind in "iu" else Groups.of_names(groups)
    if len(made.of_row) != n_rows:
        raise DataError(
            f"the part that begins at row {first_row} has {counted(n_rows, 'row')} and"
            f" {counted(len(made.of_row), 'group')}: give each row one, GroupedRows(X, groups)"
        )
    return made


def numbers_of(groups: Groups, names: list[Any] | None) -> npt.NDArray[np.int64]:
    """Return the number of the group of each row, by the names of all parts, if any.

    Examples
    --------
    >>> from expfam.model.groups import Groups
    >>> from expfam.samplers.shards.grouped import numbers_of
    >>> numbers_of(Groups.of_names(["b", "c", "b"]), ["a", "b", "c"])
    array([1, 2, 1])
    """
    if names is None:
        return groups.of_row.astype(np.int64)
    assert groups.names is not None
    places = {name: place for place, name in enumerate(names)}
    return np.array([places[name] for name in groups.names], dtype=np.int64)[groups.of_row]


class GroupedParts(ShardedData):
    """Rows in groups that stay where an engine has put them.

    Parameters
    ----------
    parts : iterable of Part, or GroupedRows
        Sources of parts are `GroupedRows`; an array with its groups is cut into `n_parts`.
    family : Family
    engine : Engine, optional
        `SerialEngine` if not given.
    n_parts : int

    Attributes
    ----------
    engine, family, n_rows, n_features, n_statistics, is_sparse, has_sparse_phi, scale
        As of `ShardedData`.
    n_groups : int
    names : list or None
        Names of the groups, sorted, where they have some.
    own_groups : list of (g,) int64 ndarray
        Numbers of the groups of which each part has rows.

    Raises
    ------
    DataError
        Some parts have numbers of groups, and others names.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> from expfam.samplers.shards.grouped import GroupedParts, GroupedRows
    >>> data = GroupedParts(GroupedRows(np.array([[1], [3], [8]]), ["b", "a", "b"]), Poisson(), n_parts=2)
    >>> data.n_groups, data.names
    (2, ['a', 'b'])
    """

    shard_type = GroupedShard

    def __init__(self, parts: Any, family: Any, *, engine: Engine | None = None, n_parts: int = 1) -> None:
        if isinstance(parts, GroupedRows):
            found = np.asarray(parts.groups)
            if len(found) != parts.shape[0]:
                groups_of(parts.groups, parts.shape[0])
            bounds = cut_rows(np.empty((parts.shape[0], 0)), n_parts)
            parts = [
                part._replace(
                    source=GroupedRows(
                        parts.rows[part.first_row : part.first_row + part.n_rows],
                        found[part.first_row : part.first_row + part.n_rows],
                    )
                )
                for part in bounds
            ]
        super().__init__(parts, family, engine=engine)
        self.names, self.n_groups = self._named()
        self.engine.change("number", self.names)
        self.own_groups: list[npt.NDArray[np.int64]] = self.engine.each("own_groups")

    def _named(self):
        """Return the names of the groups of all parts, or None, and their number."""
        found = self.engine.each("group_names")
        has_names = {groups.names is not None for groups in found}
        if len(has_names) > 1:
            raise DataError(
                "some parts have numbers of groups, and others names: give all parts one kind, groups.astype(str)"
            )
        if found[0].names is None:
            return None, 1 + int(max(groups.numbers.max(initial=0) for groups in found))
        merged = list(dict.fromkeys(name for groups in found for name in groups.names))
        names = list(Groups.of_names(merged).names)
        return names, len(names)

    def first_state(
        self, kernel: Any, model: Any, *, seed: Any = None, start: Any = "random", n_clusters: int | None = None
    ) -> Any:
        """Make the first state of a chain; `Kernel.init` calls it.

        Parameters
        ----------
        kernel : GroupedUncollapsedGibbs, or a Cycle with it
        model : AdmixtureModel
        seed : None, int, numpy Generator or RandomState
        start : str or (N,) array_like of int, or object with a method `labels`
            As of `ShardedData.first_state`; rows are looked at without their groups.
        n_clusters : int, optional
            Number of clusters to start with; K if not given.
        """
        check_sharded(kernel)
        model = model if model.is_bound else model.with_family(self.family)
        kernel.check(model, self)
        seed, K = resolve_seed(seed), model.n_components
        without_groups = MixtureModel(model.family, SymmetricDirichlet(K, 1.0))
        sums = self._begin(without_groups, start, min(n_clusters or K, K), K, seed)
        return kernel.state_type(model, self, sums, n_clusters=K, seed=seed)
