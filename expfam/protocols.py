"""Typing protocols of the objects that work together in a run.

Nothing in this file is needed at run time. Shapes: N data, K clusters, F features of phi, V columns of the data; i is
a datum, k a slot. Arrays are C-contiguous float64 unless stated otherwise. Log densities are in nats and leave out the
log base measure. There are two kinds of objects. *Configurations* (Family, Weights, Kernel, Proposal, Anchors,
Allocator) are frozen values whose constructors do no work. *Working objects* (State, and what the `bind` of a proposal
returns) belong to one run and have `to_arrays` and `from_arrays`. `isinstance` with these protocols only checks that
the names exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.intp]
    Arrays = dict[str, NDArray[Any]]


class Info(NamedTuple):
    """Result of one step of a kernel.

    Attributes
    ----------
    step : int
        Number of the step, from 1.
    objective : float
        Log joint or evidence bound (ELBO) after the step, nats.
    n_clusters : int
        Clusters that hold data.
    proposed, accepted : int
        Number of proposed and of accepted moves; equal for kernels that draw exactly.
    seconds : float
        Wall time of the step.
    extra : Mapping
        Further diagnostics of the kernel, by name.
    """

    step: int
    objective: float
    n_clusters: int
    proposed: int
    accepted: int
    seconds: float
    extra: Mapping[str, Any]


@runtime_checkable
class Family(Protocol):
    """Likelihood with its conjugate prior.

    `expfam.families.base.Family` implements all methods except the first two.
    """

    api_version: int
    name: str

    def sufficient_statistics(self, X: Any) -> Any:
        """Return phi of each row: (N, F), dense or CSR."""

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence A(n, S) of each cluster: (K,), nats; 0 for an empty cluster.

        See `expfam.families.base.Family.log_marginal`.
        """

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row: (N,), nats."""

    def bind(self, X: Any) -> Family:
        """Return a frozen copy that knows the number of columns and its hyper-parameters.

        With a further parameter ``weight=None`` it gets the multiplicities of the rows.
        """

    def validate(self, X: Any) -> Any:
        """Return the data after checking that all values lie in the support."""

    def resolve(self, X: Any) -> dict[str, Any]:
        """Return the values that `bind` sets.

        With a further parameter ``weight=None`` it gets the multiplicities of the rows.
        """

    def components(self, data: Any, capacity: int, *, layout: str = "features") -> Any:
        """Return the owner of a `components_v1` struct over the data.

        See `expfam.families.base.Family.components`.
        """


@runtime_checkable
class Weights(Protocol):
    """Prior of Gibbs type on the partition.

    An old cluster of n data has mass n + offset; a new cluster has a mass that depends on the number of clusters.
    """

    offset: float
    max_components: int | None

    def log_new_mass(self, n_total: int, n_clusters: int) -> Floats:
        """Return the log mass of a new cluster for 0..n_clusters clusters: (n_clusters + 1,) nats.

        It is -inf where no further cluster is allowed. `n_total` is the number of data of all clusters together.
        """

    def log_prior(self, counts: Any) -> float:
        """Return the normalised log probability of the set partition with these sizes."""

    def expected_log(self, n: Floats) -> Floats:
        """Return the posterior mean of log pi given counts: (K,)."""

    def log_evidence(self, n: Floats) -> float:
        """Return log p(z) of labels with these counts; fractions are allowed."""

    def draw_log(self, n: Floats, rng: Any) -> Floats:
        """Draw log pi from its posterior given counts: (K,).

        Parameters
        ----------
        n : (K,) float64 ndarray
            Number of data of each component; fractions are allowed.
        rng : numpy Generator
        """

    def map_log(self, n: Floats) -> Floats:
        """Return log pi at its posterior mode given counts: (K,)."""


@runtime_checkable
class Snapshot(Protocol):
    """Statistics of the clusters that a proposal may read; it contains no labels."""

    n: Floats  # (K,)
    S: Floats  # (K, F) read-only view of any strides
    log_weight: Floats  # (K,)
    Theta: Floats  # (K, F), made on first use
    G: Floats  # (K,), made on first use
    slots: Indices  # (K,) name of each row
    log_weight_new: float  # -inf where no cluster can be opened


@runtime_checkable
class BoundProposal(Protocol):
    """Working object of a proposal for one data set."""

    capsule: Any  # PyCapsule "expfam.proposal_v1"

    def refresh(self, snapshot: Snapshot) -> None:
        """Replace the cluster statistics by those of the snapshot."""

    def to_arrays(self) -> Arrays:
        """Return every number that a later call reads."""

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore what `to_arrays` returned, bit for bit."""


@runtime_checkable
class Proposal(Protocol):
    """Proposal law q(k | i) of the cluster of a datum, with exact probabilities."""

    api_version: int
    kind: str  # "assignment"
    modes: frozenset[str]  # of "frozen", "crossfit", "removed", "included"

    def bind(self, model: Any, data: Any, *, seed: int) -> BoundProposal:
        """Return the working object for a bound model and its data.

        All that the proposal draws must follow from the seed of the chain, 64 bits.
        """


@runtime_checkable
class CellProposal(Proposal, Protocol):
    """Proposal in NumPy whose law depends only on the group of the datum."""

    def groups(self, data: Any) -> Indices:
        """Return the group of each datum: (N,)."""

    def probabilities(self, snapshot: Snapshot) -> Any:
        """Return (n_groups, K) non-negative weights, dense or CSR, not necessarily normalised."""


@runtime_checkable
class BoundAnchors(Protocol):
    """Working object of an anchor law for one data set."""

    def draw_pairs(self, size: int, rng: Any) -> Indices:
        """Draw pairs of data.

        Parameters
        ----------
        size : int
            Number of pairs.
        rng : numpy Generator

        Returns
        -------
        (size, 2) intp ndarray
            Numbers of the data; (-1, -1) stands for no move.
        """

    def refresh(self, epoch: int) -> None:
        """Draw the random parts of the law again."""


@runtime_checkable
class Anchors(Protocol):
    """Law of the two anchor data of a split-merge move.

    It does not receive labels, so it cannot depend on them.
    """

    api_version: int
    kind: str  # "anchors"

    def bind(self, data: Any, *, seed: int) -> BoundAnchors:
        """Return the working object for these data; the seed of the chain has 64 bits."""


@runtime_checkable
class BoundAllocator(Protocol):
    """Working object of an allocator for one data set."""

    def sides(self, Phi: Floats, rng: Any, forced: Any = None) -> tuple[Any, float]:
        """Draw the sides of some rows, or score given ones.

        Parameters
        ----------
        Phi : (m, F) float64 ndarray or CSR
            Sufficient statistics of the rows. Rows 0 and 1 are the anchors.
        rng : numpy Generator
        forced : (m,) int8 ndarray, optional
            Sides that are scored and not drawn.

        Returns
        -------
        sides : (m,) int8 ndarray
            0 or 1 for each row.
        log_q : float
            Log probability of these sides, at most 0, nats.
        """


@runtime_checkable
class Allocator(Protocol):
    """Rule that divides the data of a cluster between two anchors."""

    api_version: int
    kind: str  # "allocator"

    def bind(self, model: Any, data: Any, *, seed: int) -> BoundAllocator:
        """Return the working object for a bound model and its data; the seed has 64 bits."""


@runtime_checkable
class State(Protocol):
    """Everything that a later step of the chain reads."""

    model: Any
    data: Any
    seed: int
    n_steps: int
    labels: Any  # (N,) int32 slot of each datum
    stamp: int  # raised whenever labels change
    memory: dict[str, Any]  # working object of each kernel, by its key in the composition

    def check(self) -> None:
        """Recompute the state from the labels and compare."""

    def to_arrays(self) -> Arrays:
        """Return the whole state as arrays."""

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore what `to_arrays` returned, bit for bit."""

    def as_type(self, state_type: type) -> State:
        """Return the same chain as another type of state, if the conversion is exact."""


@runtime_checkable
class Kernel(Protocol):
    """Frozen settings of a transition of the chain, or of a step of an optimiser."""

    state_type: Any

    def check(self, model: Any, data: Any) -> None:
        """Raise an error if the kernel does not work with this model or these data.

        Parameters
        ----------
        model : MixtureModel, AdmixtureModel or HierarchicalProcess
            Bound to the data.
        data : Dataset
        """

    def init(self, model: Any, data: Any, *, seed: int, start: Any = "auto") -> State:
        """Return the first state of a chain.

        Parameters
        ----------
        model : MixtureModel, AdmixtureModel or HierarchicalProcess
            Bound to the data here if it is not bound yet.
        data : Dataset or array_like
        seed : int
            Seed of the chain, 64 bits.
        start : str or (N,) array_like of int
            Name of a start, or labels.
        """

    def step(self, state: State) -> Info:
        """Run one sweep, pass, batch of moves or merge; the state is changed in place."""


Callback = Callable[[Info, State], "bool | None"]
"""Called after each step; True stops the run."""
