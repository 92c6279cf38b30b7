"""State of expectation maximisation whose rows and labels lie in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import CapabilityError
from expfam.families.support import dense_rows
from expfam.samplers.shards.shard import NO_ROW
from expfam.samplers.shards.soft import lend
from expfam.samplers.shards.state import ShardedState
from expfam.samplers.uncollapsed.em import ExpectationState, sizes_of
from expfam.samplers.uncollapsed.soft_sums import Bounds

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.label_sums import LabelSums
    from expfam.protocols import Floats
    from expfam.samplers.shards.data import ShardedData


class ShardedExpectationState(ShardedState, ExpectationState):
    """Expected statistics of rows in parts, and the parameters and weights behind them.

    `ShardedData.first_state` makes it for `ExpectationMaximization`. Every number is that of one machine, for any
    number of parts.

    Parameters
    ----------
    model : MixtureModel
    data : ShardedData
        Its parts have labels in 0..K-1.
    sums : LabelSums
        Not read: EM begins with sums of weighted rows.
    n_clusters, seed, n_steps : int
    is_open : bool
        Not used: the number of components of EM is given.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import ExpectationMaximization, ShardedData
    >>> data = ShardedData(np.array([[0], [1], [40], [41]]), Poisson(), n_parts=2)
    >>> kernel = ExpectationMaximization()
    >>> state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(2)), data, seed=0, start=[0, 0, 1, 1])
    >>> info = kernel.step(state)
    >>> state.n.round(3)
    array([2., 2.])
    """

    def __init__(self, model: Any, data: ShardedData, sums: LabelSums, *, n_clusters: int, **options: Any) -> None:
        self._used: int | None = None
        most = data.weighted_bounds
        lend(data.engine, sizes_of(data, n_clusters), Bounds.of(most), is_weighted=data.is_weighted)
        self._scale = most.scale(data.n_rows)
        super().__init__(model, data, sums, n_clusters=n_clusters, **options)

    def _is_by_column(self) -> bool:
        """Return False: the parts give pieces of all sums."""
        return False

    def _take(self, sums: LabelSums) -> None:
        """Begin with the labels that the parts have now."""
        self._used = None
        self._begin(self._weighted_sums(None))

    def _weighted_sums(self, labels: Any) -> LabelSums:
        """Return the exact sums of the labels that the parts have."""
        return self.data.engine.total("weighted_sums", self.K, self._scale)

    def set_labels(self, labels: npt.NDArray[np.int32]) -> None:
        """Start again from labels of all rows."""
        ShardedState.set_labels(self, labels)

    @property
    def n_clusters(self) -> int:
        """Number of components that are the most probable one for at least one datum."""
        if self._used is None:
            self._used = self._count(self.data.engine.total("first_rows"))
        return self._used

    def _count(self, first):
        return int(np.count_nonzero(first.values < NO_ROW))

    def label_statistics(self) -> tuple[Floats, Floats]:
        """Return weights (K,) and sums (K, F) of the most probable labels."""
        S = dense_rows(self._weighted_sums(None).total()[1])
        return S[:, -1].copy(), np.ascontiguousarray(S[:, :-1])

    def statistics(self) -> tuple[Floats, Floats]:
        """Return weights (B,) and sums (B, F) of the most probable labels.

        Clusters are in the order of `partition`.
        """
        first = self.data.engine.total("first_rows").values
        order = np.argsort(first, kind="stable")[: np.count_nonzero(first < NO_ROW)]
        n, S = self.label_statistics()
        return n[order], S[order]

    def move_labels(self, labels: npt.NDArray[np.int32]) -> int:
        """Raise a `CapabilityError`: labels follow from the parameters and cannot be moved."""
        return ExpectationState.move_labels(self, labels)

    def expect(self, n_threads: int | None = None) -> int:
        """Have the parts compute soft statistics, labels and log likelihood.

        Returns
        -------
        int
            Number of labels that changed.
        """
        reply = self.data.engine.change("expect", self.parameters(), n_threads)
        self._used = self._count(reply.first)
        self._take_soft(*reply.sums.total())
        return reply.n_moved

    def _expected(self, n_threads):
        """Return soft statistics, log likelihood and labels, which the parts compute anew."""
        sums = self.data.engine.total("expected", self.parameters(), n_threads)
        return *sums.total(), None

    def check(self) -> None:
        """Recompute the soft statistics and compare; raise AssertionError if they differ."""
        ExpectationState.check(self)

    def _checked_sums(self, sums_of_labels, n, S):
        """Have the parts take the stored labels; their sums are not those of soft statistics."""
        self._used = None
        sums_of_labels()

    def as_type(self, state_type: type) -> Any:
        """Return the state itself; refuse other types, because EM is not part of a chain."""
        if state_type in (ExpectationState, ShardedExpectationState):
            return self
        raise CapabilityError(f"a ShardedExpectationState cannot become a {state_type.__name__}: start from its labels")
