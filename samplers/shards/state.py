"""State of a chain whose labels lie in the parts of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError
from expfam.model.label_sums import LabelSums
from expfam.model.partitions import by_first_appearance
from expfam.samplers.shards.sample import gathered
from expfam.samplers.shards.shard import NO_ROW, Parameters
from expfam.samplers.states.uncollapsed import UncollapsedState

if TYPE_CHECKING:
    from expfam.protocols import Floats
    from expfam.samplers.shards.data import ShardedData
    from expfam.samplers.states.divisions import Division, Labels, Sides


class ShardedState(UncollapsedState):
    """Drawn parameters and weights of K components; the labels stay with the rows.

    `ShardedData.first_state` makes it. Every number is the same for any number of parts, engines and workers: counts
    and sums are exact, see `expfam.model.label_sums`, and random numbers belong to global row numbers.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data.
    data : ShardedData
        Its parts have labels in 0..K-1.
    sums : LabelSums
        Exact statistics of these labels.
    n_clusters : int
    seed : int
    n_steps : int
    is_open : bool
        See `UncollapsedState`.

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Fetched from the parts at each use.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.engines import SerialEngine
    >>> from expfam.samplers import ShardedData, UncollapsedGibbs
    >>> with SerialEngine() as engine:
    ...     data = ShardedData(np.array([[0], [1], [40], [41]]), Poisson(), engine=engine, n_parts=2)
    ...     kernel = UncollapsedGibbs()
    ...     state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(2)), data, seed=0, start=[0, 0, 1, 1])
    ...     info = kernel.step(state)
    ...     state.labels.shape
    (4,)
    """

    def __init__(
        self,
        model: Any,
        data: ShardedData,
        sums: LabelSums,
        *,
        n_clusters: int,
        seed: int,
        n_steps: int = 0,
        is_open: bool = False,
    ) -> None:
        self.is_open = is_open
        self.model, self.data, self.seed, self.n_steps = model, data, int(seed), n_steps
        self.stamp, self.memory, self.K = 0, {}, int(n_clusters)
        self.Theta = self.G = self.log_pi = None
        self._take(sums)

    # ---- labels ------------------------------------------------------------------------------------------------------

    @property
    def labels(self) -> npt.NDArray[np.int32]:  # type: ignore[override]
        """Labels of all rows in their order, fetched from the parts."""
        return np.concatenate(self.data.engine.each("labels_now"))

    @labels.setter
    def labels(self, labels: npt.NDArray[np.int32]) -> None:
        self.set_labels(labels)

    @property
    def partition(self) -> npt.NDArray[np.int32]:
        """Labels renumbered 0..B-1 by first appearance: (N,) int32 ndarray."""
        return by_first_appearance(self.labels)[1]

    def set_labels(self, labels: npt.NDArray[np.int32]) -> None:
        """Replace the labels of all rows."""
        self._take(self._sums_of_rows(labels))

    def _sums_of_rows(self, labels):
        """Give the parts labels; return their sums."""
        own = self.data.by_part(labels, self.K)
        return self.data.engine.change("set_labels", self.K, self.data.scale, by_part=own)

    def _hold(self, labels):
        """Do nothing: the parts have the labels since their sums were made."""

    def statistics(self) -> tuple[Floats, Any]:
        """Return counts (B,) and sums (B, F) of components with data, in the order of `partition`."""
        first = self.data.engine.total("first_rows").values
        order = np.argsort(first, kind="stable")[: np.count_nonzero(first < NO_ROW)]
        return self.n[order], self.S[order]

    # ---- sweeps ------------------------------------------------------------------------------------------------------

    def parameters(self) -> Parameters:
        """Return what shards need for a sweep."""
        return Parameters(
            self.model, self.n, self.S, self.Theta, self.G, self.log_pi, seed=self.seed, n_steps=self.n_steps
        )

    def least_slice(self, log_pi: npt.NDArray[np.float64]) -> float:
        """Return the least log slice of all data at this step."""
        return float(self.data.engine.total("least_slice", log_pi, self.seed, self.n_steps).values)

    def redraw(self, kernel: Any) -> tuple[int, dict[str, Any]]:
        """Have the parts draw all labels; return how many changed, and mean diagnostics."""
        reply = self.data.engine.change("redraw", kernel.of_parts(), self.parameters())
        self._take(self.sums + reply.sums)
        return reply.n_moved, reply.means()

    def rows_at(self, numbers: npt.NDArray[np.int64]) -> Any:
        """Return rows by their numbers among all rows, which must ascend: ndarray or CSR."""
        return gathered(self.data.engine, numbers)

    def labels_at(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the labels of the rows with these global numbers, which ascend."""
        return np.concatenate(self.data.engine.each("labels_at", numbers))

    def sides(self, division: Division) -> Sides:
        """Have the parts draw the sides of a division of clusters; return the sums over all rows."""
        return self.data.engine.total("sides", division)

    def divide(self, division: Division | None, relabelled: Labels, target: Labels, sums: LabelSums) -> None:
        """Have the parts make splits and merges; `sums` are those of the new labels."""
        self.data.engine.change("divide", division, relabelled, target, sums.n.size)
        self._take_divided(sums)

    def move_labels(self, labels: npt.NDArray[np.int32]) -> int:
        """Replace the labels of all rows; return how many changed."""
        before = self.labels
        self.set_labels(labels)
        return int(np.count_nonzero(before != labels))

    # ---- checks and storage ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Recompute the statistics from the labels; raise AssertionError if any bit differs."""
        n, S = self.data.engine.total("sums").total()
        assert np.array_equal(n, self.n), "counts differ from the labels"
        assert abs(S - self.S).max() == 0.0, "sums differ from the labels"

    def take(self, other: Any) -> None:
        """Copy labels, model and step number of another state of these data."""
        if isinstance(other, ShardedState):
            raise CapabilityError("a ShardedState takes no labels of another one: both would change the same parts")
        super().take(other)

    def as_type(self, state_type: type) -> Any:
        """Return the state itself if an `UncollapsedState` is wanted; refuse other types."""
        if state_type is UncollapsedState:
            return self
        raise CapabilityError(
            f"data in parts have no {state_type.__name__}: take UncollapsedGibbs or StochasticEM, write"
            " UncollapsedGibbs().init(model, data)"
        )

    def label_statistics(self) -> tuple[Floats, Any]:
        """Return counts (K,) and sums (K, F) of the labels."""
        return self.n, self.S
