"""State of an uncollapsed chain: labels with drawn parameters and weights of K components."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.errors import ArchiveError, CapabilityError, ExpFamError
from expfam.families.support import dense_rows
from expfam.model.label_sums import LabelSums, label_sums, updated_sums
from expfam.model.partitions import by_first_appearance, slots_by_first_appearance
from expfam.samplers.states.collapsed import CollapsedState
from expfam.samplers.states.divisions import Division, Sides, divided_labels, sides_of
from expfam.samplers.states.sticks import live_weights, log_slices, with_new_sticks
from expfam.samplers.states.storage import (
    MOST_GAP,
    matrix_arrays,
    memory_arrays,
    model_arrays,
    stored_matrix,
    stored_memory,
    with_model_arrays,
)
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers, numbers

if TYPE_CHECKING:
    from expfam.samplers.states.divisions import Labels

_MOST_TOGETHER, _BLOCK_CELLS = 1 << 22, 1 << 20  # parameters that are made together; of a block where there are more
BLOCK_BYTES = 48 * _BLOCK_CELLS  # of a block, with what its parameters are made from
_LOG_ONE = 1e-9  # largest log of a probability, with rounding error


class UncollapsedState:
    """Labels of the data with drawn parameters and weights of K components.

    Parameters
    ----------
    model : MixtureModel
        Its family must be bound to the data.
    data : Dataset
    labels : (N,) array_like of int in 0..K-1
    n_clusters : int
        Number K of components; the truncation if the weights allow any number of clusters.
    seed : int
        Seed of 64 bits.
    n_steps : int
        Number of steps that the chain has made.
    is_open : bool
        Whether the number of components grows with the chain, under a Dirichlet process that is not truncated.

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Component of each datum.
    n : (K,) float64 ndarray
        Number of data in each component.
    S : (K, F) float64 ndarray or CSR
        Sums of the sufficient statistics in each component, the same bits however the labels were reached.
    sums : LabelSums
        The pieces of `n` and `S`, see `expfam.model.label_sums`.
    Theta : (K, F) float64 ndarray or None
        Natural parameters that were drawn last.
    G : (K,) float64 ndarray or None
        Log partition function of each component.
    log_pi : (K,) float64 ndarray or None
        Log weight of each component.
    log_joint : float
        Collapsed log joint of the labels, nats, without log-base. It can be compared with that of collapsed states.

    Examples
    --------
    >>> from expfam import Dataset, MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import UncollapsedState
    >>> data = Dataset([[0], [1], [40]], Poisson())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(4))
    >>> state = UncollapsedState(model, data, [0, 0, 3], n_clusters=4, seed=0)
    >>> state.draw_parameters()
    >>> state.Theta.shape, state.log_pi.shape
    ((4, 1), (4,))
    """

    model: Any
    memory: dict[str, Any]
    labels: npt.NDArray[np.int32]
    n: npt.NDArray[np.float64]
    S: Any
    sums: LabelSums
    Theta: npt.NDArray[np.float64] | None
    G: npt.NDArray[np.float64] | None
    log_pi: npt.NDArray[np.float64] | None
    _log_joint: float | None

    def __init__(
        self,
        model: Any,
        data: Any,
        labels: npt.ArrayLike,
        *,
        n_clusters: int,
        seed: int,
        n_steps: int = 0,
        is_open: bool = False,
    ) -> None:
        self.model, self.data, self.seed, self.n_steps = model, data, int(seed), n_steps
        self.is_open = is_open
        self.stamp = 0
        self.memory = {}
        self.K = int(n_clusters)
        labels = np.ascontiguousarray(labels, dtype=np.int32)
        if labels.min() < 0 or labels.max() >= self.K:
            raise ExpFamError(f"labels must lie in 0..{self.K - 1}; got {labels.min()}..{labels.max()}")
        self.Theta = self.G = self.log_pi = None
        self.set_labels(labels)

    def set_labels(self, labels: npt.NDArray[np.int32]) -> None:
        """Replace the labels, and compute their statistics from all data."""
        sums = self._sums_of_rows(labels)
        self.labels = labels
        self._take(sums)

    def _take(self, sums: LabelSums) -> None:
        """Make `sums` the statistics of the labels."""
        self.sums = sums
        self.n, self.S = sums.total()
        self._log_joint = None
        self.stamp += 1

    @property
    def log_joint(self) -> float:
        """Collapsed log joint of the labels, computed when it is first read."""
        if self._log_joint is None:
            self._log_joint = self.compute_log_joint()
        return self._log_joint

    @property
    def n_clusters(self) -> int:
        """Number of components that hold data."""
        return int(np.count_nonzero(self.n))

    @property
    def partition(self) -> npt.NDArray[np.int32]:
        """Labels renumbered 0..B-1 by first appearance: (N,) int32 ndarray, a copy."""
        return by_first_appearance(self.labels)[1]

    def statistics(self) -> tuple[npt.NDArray[np.float64], Any]:
        """Return counts (B,) and sums (B, F) of components with data, in the order of `partition`."""
        order = slots_by_first_appearance(self.labels)
        return self.n[order], self.S[order]

    def compute_log_joint(self) -> float:
        """Compute the collapsed log joint of partition and data: nats, without log-base."""
        live = np.flatnonzero(self.n > 0)
        prior = self.model.weights.log_prior(self.n[live].astype(np.int64))
        return float(prior + self.model.family.total_log_marginal(self.n[live], self.S[live]))

    def draw_parameters(self, theta: str = "draw") -> None:
        """Make weights and parameters from the statistics of the labels.

        Parameters
        ----------
        theta : {"draw", "map", "mean"}
            "draw" draws both from their posterior, each with its own random stream of this step; "map" uses the mode of
            the posterior, "mean" its mean.
        """
        family, weights = self.model.family, self.model.weights
        if theta == "draw":
            rng = generator(self.seed, "posterior", unit=0, step=self.n_steps)
            self.Theta, self.G = family.draw_natural(self.n, dense_rows(self.S), rng)
            self.log_pi = weights.draw_log(self.n, generator(self.seed, "posterior", unit=1, step=self.n_steps))
        elif theta == "map":
            self._set_natural(family.map_natural)
            self.log_pi = weights.map_log(self.n)
        elif theta == "mean":
            self._set_natural(family.expected_natural)
            self.log_pi = weights.expected_log(self.n)
        else:
            raise ValueError(f"theta must be 'draw', 'map' or 'mean'; got {theta!r}")

    def _set_natural(self, natural):
        """Set the parameters from the statistics; of many cells they are made by blocks of clusters."""
        blocks = cluster_blocks((self.K, self.data.n_statistics))
        if len(blocks) == 1:
            self.Theta, self.G = natural(self.n, dense_rows(self.S))
            return
        self.Theta = None  # its memory is for the new ones
        Theta, G = np.empty((self.K, self.data.n_statistics)), np.empty(self.K)
        for block in blocks:
            Theta[block], G[block] = natural(self.n[block], dense_rows(self.S[block]))
        self.Theta, self.G = Theta, G

    def draw_open_parameters(self) -> None:
        """Draw weights and parameters of clusters with data, and of some without.

        There are as many of these as slices ask for. The weights are those of a Dirichlet process that is not
        truncated. Slots that no slice asks for have the weight 0. The number of slots grows where there are too few.
        """
        rng, alpha = generator(self.seed, "posterior", unit=1, step=self.n_steps), self.model.weights.alpha
        log_pi, log_rest = live_weights(self.n, alpha, rng)
        self.log_pi = with_new_sticks(log_pi, log_rest, self.least_slice(log_pi), alpha, rng)
        self._widen(self.log_pi.size)
        used, S = np.flatnonzero(self.log_pi > -np.inf), dense_rows(self.S)
        self.Theta, self.G = np.zeros(S.shape), np.zeros(self.K)
        rng = generator(self.seed, "posterior", unit=0, step=self.n_steps)
        self.Theta[used], self.G[used] = self.model.family.draw_natural(self.n[used], S[used], rng)

    def least_slice(self, log_pi: npt.NDArray[np.float64]) -> float:
        """Return the least log slice of all data at this step, given log weights (K,)."""
        return float(log_slices(self.data.row_offset, self.labels, log_pi, self.seed, self.n_steps).min())

    def _widen(self, n_clusters: int) -> None:
        """Add components without data up to `n_clusters`."""
        if n_clusters > self.K:
            self.K, self.sums = n_clusters, self.sums.widened(n_clusters)
            self.n, self.S = self.sums.total()

    def redraw(self, kernel: Any) -> tuple[int, dict[str, Any]]:
        """Have a kernel draw all labels given the parameters.

        Parameters
        ----------
        kernel : UncollapsedKernel
            Its method `new_labels` draws them.

        Returns
        -------
        int
            Number of data whose label changed.
        dict
            Diagnostics of the kernel.
        """
        labels, extra = kernel.new_labels(self)
        return self.move_labels(labels), extra

    def move_labels(self, labels: npt.NDArray[np.int32]) -> int:
        """Replace the labels and update their statistics.

        Parameters
        ----------
        labels : (N,) int32 ndarray
            New labels.

        Returns
        -------
        int
            Number of data whose label changed.

        Notes
        -----
        Sums are exact: they are updated by the data that change, and are the same bits as those of all data.
        """
        moved = np.flatnonzero(labels != self.labels)
        sums = updated_sums(self.data, self.sums, self.labels, labels, self.data.scale, moved=moved)
        self.labels = labels
        self._take(sums)
        return int(moved.size)

    # ---- splits and merges -------------------------------------------------------------------------------------------

    def rows_at(self, numbers: npt.NDArray[np.int64]) -> Any:
        """Return the rows with these global numbers, which ascend: ndarray or CSR."""
        return self.data.X[numbers - self.data.row_offset]

    def labels_at(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the labels of the rows with these global numbers, which ascend."""
        return self.labels[numbers - self.data.row_offset]

    def sides(self, division: Division) -> Sides:
        """Return the sums of a division of clusters over all rows."""
        return sides_of(self.data, self.labels, division, self.data.scale)

    def divide(self, division: Division | None, relabelled: Labels, target: Labels, sums: LabelSums) -> None:
        """Make splits and merges, see `expfam.samplers.states.divisions`.

        Parameters
        ----------
        division : Division or None
        relabelled : (K,) int32 ndarray
            New label of the rows of each label.
        target : (M,) int32 ndarray
            New label of the rows on side 1 of each division; -1 where there is none.
        sums : LabelSums
            Of the new labels.
        """
        self.labels = divided_labels(self.data, self.labels, division, relabelled, target)
        self._take_divided(sums)

    def _take_divided(self, sums):
        """Make `sums` the statistics, with as many components as they have; parameters are dropped."""
        self.K, self.Theta, self.G, self.log_pi = sums.n.size, None, None, None
        self._take(sums)

    def set_model(self, model: Any) -> None:
        """Replace the model by one of the same kind with other hyper-parameters; keep the labels."""
        self.model, self._log_joint = model, None

    def take(self, other: Any) -> None:
        """Copy labels, model and step number of `other`, a state that was made from this one.

        Its type may differ.
        """
        self.model, self.n_steps = other.model, other.n_steps
        self.Theta = self.G = self.log_pi = None
        labels = other.partition
        if self.is_open:
            self.K = max(self.K, int(labels.max()) + 1)  # slots of an open state have no order
        else:
            labels = _into_slots(labels, self.K, other)
        self.set_labels(np.ascontiguousarray(labels, dtype=np.int32))

    def check(self) -> None:
        """Recompute the statistics from the labels; raise AssertionError if any bit differs."""
        n, S = self._sums_of_rows(self.labels).total()
        assert np.array_equal(n, self.n), "counts differ from the labels"
        assert abs(S - self.S).max() == 0.0, "sums differ from the labels"

    def _sums_of_rows(self, labels: npt.NDArray[np.int32]) -> LabelSums:
        """Compute the statistics of labels from all data."""
        return label_sums(self.data, labels, self.K, self.data.scale)

    def _hold(self, labels: npt.NDArray[np.int32]) -> None:
        """Replace the labels alone."""
        self.labels = labels

    def to_arrays(self) -> dict[str, Any]:
        """Return everything that a later step reads as a dict of arrays."""
        return {"labels": self.labels.copy()} | self.arrays_without_labels()

    def arrays_without_labels(self) -> dict[str, Any]:
        """Return what `to_arrays` returns, but for the labels."""
        arrays = {
            "model": self._model_arrays(),
            "n": self.n.copy(),
            "S": matrix_arrays(self.S),
            "counters": np.array([self.n_steps, self.stamp], dtype=np.int64),
            "memory": memory_arrays(self.memory),
        }
        if self.Theta is not None and self.G is not None and self.log_pi is not None:
            arrays |= {"Theta": self._theta_arrays(), "G": self.G.copy(), "log_pi": self.log_pi.copy()}
        return arrays

    def _model_arrays(self) -> dict[str, Any]:
        """Return the numbers of the model that the chain may have learned."""
        return model_arrays(self.model)

    def _stored_model(self, arrays: dict[str, Any]) -> Any:
        """Return the model with the numbers from `_model_arrays`."""
        return with_model_arrays(self.model, arrays)

    def _theta_arrays(self) -> Any:
        """Return a copy of the parameters, which are not None, as an array or a dict of arrays."""
        return np.array(self.Theta)

    def _stored_theta(self, arrays: dict[str, Any], model: Any) -> Any:
        """Return the parameters of stored arrays, under the model that they have."""
        return numbers(arrays, "Theta", (self.K, self.data.n_statistics))

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore the state from the arrays of `to_arrays`.

        Raises
        ------
        ArchiveError
            The arrays do not belong to a chain of this type over these data.
        """
        self._open_to(arrays)
        # a copy: moves are in place
        labels = integers(arrays, "labels", (self.data.n_rows,), 0, self.K, dtype=np.int32)
        self.restore(arrays, lambda: self._sums_of_rows(labels))
        self._hold(labels)

    def _open_to(self, arrays: dict[str, Any]) -> None:
        """Take the number of components of stored arrays where it is open."""
        if self.is_open:
            self.K = numbers(arrays, "n", (None,), low=0.0).size

    def restore(self, arrays: dict[str, Any], sums_of_labels: Callable[[], LabelSums]) -> None:
        """Restore the state from the arrays of `arrays_without_labels`.

        Parameters
        ----------
        arrays : dict
        sums_of_labels : callable
            Returns the sums of the labels, which the caller restores. It is called when all else was checked.

        Raises
        ------
        ArchiveError
            The arrays are of another chain, or their sums are not those of the labels.
        """
        K, F = self.K, self.data.n_statistics
        model = self._stored_model(arrays["model"])
        n, S = numbers(arrays, "n", (K,), low=0.0), stored_matrix(arrays, "S", (K, F))
        self._check_kind(S)
        Theta = G = log_pi = None
        if "Theta" in arrays:
            Theta, G = self._stored_theta(arrays, model), numbers(arrays, "G", (K,))
            log_pi = numbers(arrays, "log_pi", (K,), finite=False, high=_LOG_ONE)
            if np.isnan(log_pi).any():
                raise ArchiveError("'log_pi' holds NaN: the file was altered")
        counters = integers(arrays, "counters", (None,)).tolist()
        memory, sums = stored_memory(arrays), self._checked_sums(sums_of_labels, n, S)
        self.n_steps, self.stamp, *_ = counters  # earlier files have two more
        self.n, self.S = (n, S) if sums is None else sums.total()
        self.model, self.sums = model, sums
        self.Theta, self.G, self.log_pi, self._log_joint = Theta, G, log_pi, None
        self.memory = memory

    def _check_kind(self, S):
        """Refuse stored statistics that are not dense or sparse as those of the data."""
        if sparse.issparse(S) != sparse.issparse(self.S):
            raise ArchiveError("the statistics are sparse where those of the data are dense, or the reverse")

    def _checked_sums(self, sums_of_labels, n, S):
        """Return the exact sums of stored labels; refuse stored statistics that are others.

        Expected statistics of subclasses depend on parameters, so they have none.
        """
        sums = sums_of_labels()
        exact_n, exact_S = sums.total()
        if not np.array_equal(n, exact_n) or abs(S - exact_S).max() > MOST_GAP * (1.0 + abs(exact_S).max()):
            raise ArchiveError("the statistics are not those of the labels: the file was altered, or is of other data")
        return sums

    def as_type(self, state_type: type) -> Any:
        """Convert the chain to a state of another type; parameters are dropped, which is exact."""
        if state_type is UncollapsedState:
            return self
        if state_type is not CollapsedState:
            raise CapabilityError(f"an UncollapsedState cannot become a {state_type.__name__}")
        if not self.is_open:
            _refuse_truncation(self.model.weights)
        state = CollapsedState(self.model, self.data, self.labels, seed=self.seed, n_steps=self.n_steps)
        state.stamp = self.stamp + 1
        return state

    @classmethod
    def open_of(cls, state: CollapsedState) -> UncollapsedState:
        """Make the state of a collapsed chain whose number of components is open.

        Components without data hold no part of the law, so the clusters keep their order.
        """
        labels = state.partition
        K = int(labels.max()) + 1
        made = cls(state.model, state.data, labels, n_clusters=K, seed=state.seed, n_steps=state.n_steps, is_open=True)
        made.stamp = state.stamp + 1
        return made

    @classmethod
    def _of_collapsed(cls, state: CollapsedState) -> UncollapsedState:
        """Make the state of a collapsed chain, with the clusters in random components.

        `CollapsedState.as_type` calls it.
        """
        if cls is not UncollapsedState:
            raise CapabilityError(f"a CollapsedState cannot become a {cls.__name__}")
        _refuse_truncation(state.model.weights)
        K = state.model.weights.max_components
        made = cls(
            state.model,
            state.data,
            _into_slots(state.partition, K, state),
            n_clusters=K,
            seed=state.seed,
            n_steps=state.n_steps,
        )
        made.stamp = state.stamp + 1
        return made


def cluster_blocks(shape: tuple[int, int]) -> list[slice]:
    """Return blocks of clusters whose parameters are made together.

    There is one unless the parameters are very many.

    Parameters
    ----------
    shape : (int, int)
        Clusters and statistics of each.

    Examples
    --------
    >>> from expfam.samplers.states.uncollapsed import cluster_blocks
    >>> cluster_blocks((3, 10)), len(cluster_blocks((200, 100_000)))
    ([slice(0, 3, None)], 20)
    """
    K, F = shape
    size = K if K * F <= _MOST_TOGETHER else max(1, _BLOCK_CELLS // F)
    return [slice(first, min(first + size, K)) for first in range(0, max(K, 1), max(size, 1))]


def converted(state: Any, *, is_open: bool) -> UncollapsedState:
    """Return a chain as an `UncollapsedState` with open or closed sticks.

    Raises
    ------
    CapabilityError
        Its sticks are of the other kind, or it cannot become such a state.
    """
    if is_open and isinstance(state, CollapsedState):
        return UncollapsedState.open_of(state)
    own: UncollapsedState = state.as_type(UncollapsedState)
    if own.is_open != is_open:
        raise CapabilityError(
            "closed and open sticks have other posteriors and cannot take turns: write"
            " UncollapsedGibbs(sticks='slice') in the place of each kernel with closed sticks"
        )
    return own


def _refuse_truncation(weights):
    if weights.max_components is None:
        raise CapabilityError(
            f"{weights!r} cut off at some number of components is another posterior than the collapsed one:"
            " collapsed and uncollapsed kernels combine under a SymmetricDirichlet only"
        )


def _into_slots(partition, K, state):
    """Put the clusters of a partition into different random components of K: (N,) labels.

    The model with labelled components has the same law only if each choice is equally likely.
    """
    rng = generator(state.seed, "posterior", unit=2, step=state.n_steps)
    return rng.permutation(K)[partition]
