"""The shapes of the objects that meet in a run, as typing protocols; nothing here is needed at run time.

Shapes: N data, K clusters, F features of phi, V columns of the data; i a datum, k a slot. Arrays are C-contiguous
float64 unless said; logs are natural and without log-base. Two kinds of objects: *configurations* (Family, Weights,
Kernel, Proposal, Anchors, Allocator) are frozen values that do no work when made; *working objects* (State, and what
the `bind` of a proposal returns) belong to one run and have `to_arrays` / `from_arrays`.
`isinstance` against these protocols looks at the presence of names only.
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

__all__ = [
    "Allocator",
    "Anchors",
    "BoundAllocator",
    "BoundAnchors",
    "BoundProposal",
    "Callback",
    "CellProposal",
    "Family",
    "Info",
    "Kernel",
    "Proposal",
    "Snapshot",
    "State",
    "Weights",
]


class Info(NamedTuple):
    """What one step of a kernel did.

    Attributes
    ----------
    step : int
        Number of the step, from 1.
    objective : float
        Log joint or evidence bound after it, nats.
    n_clusters : int
        Clusters that hold data.
    proposed, accepted : int
        Moves; equal for kernels that draw exactly.
    seconds : float
        Wall time of the step.
    extra : Mapping
        What else a kernel has to say, by name.
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
    """Likelihood with its conjugate prior; `expfam.families.base.Family` derives all but the two first methods."""

    api_version: int
    name: str

    def sufficient_statistics(self, X: Any) -> Any:
        """Phi of each row: (N, F), dense or CSR."""

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Log evidence A(n, S) of each cluster: (K,); 0 for an empty one."""

    def log_base(self, X: Any) -> Floats:
        """Log base measure of each row: (N,)."""

    def bind(self, X: Any) -> Family:
        """Frozen copy that knows the data's width and its hyper-parameters."""

    def validate(self, X: Any) -> Any:
        """Data checked against the support."""

    def resolve(self, X: Any) -> dict[str, Any]:
        """Values that `bind` sets."""

    def components(self, data: Any, capacity: int, *, layout: str = "features") -> Any:
        """Owner of a `components_v1` struct over the data."""


@runtime_checkable
class Weights(Protocol):
    """Prior of Gibbs type on the partition: an old cluster weighs n + offset, a new one a table over their number."""

    offset: float
    max_components: int | None

    def log_new_mass(self, n_total: int, n_clusters: int) -> Floats:
        """Log mass of a new cluster when 0..n_clusters of them hold n_total data: (n_clusters + 1,), -inf when full."""

    def log_prior(self, counts: Any) -> float:
        """Log probability of the set partition with these sizes, normalised."""

    def expected_log(self, n: Floats) -> Floats:
        """E log pi given counts: (K,)."""

    def log_evidence(self, n: Floats) -> float:
        """Log p(z | counts), fractions allowed."""

    def draw_log(self, n: Floats, rng: Any) -> Floats:
        """Log pi drawn given counts: (K,)."""

    def map_log(self, n: Floats) -> Floats:
        """Log pi at its mode given counts: (K,)."""


@runtime_checkable
class Snapshot(Protocol):
    """All that a proposal may know of the clusters; there are no labels in it."""

    n: Floats  # (K,)
    S: Floats  # (K, F) read-only view of any strides
    log_weight: Floats  # (K,)
    Theta: Floats  # (K, F), made on first use
    G: Floats  # (K,), made on first use
    slots: Indices  # (K,) name of each row
    log_weight_new: float  # -inf where no cluster can be opened


@runtime_checkable
class BoundProposal(Protocol):
    """A proposal at work on one data set."""

    capsule: Any  # PyCapsule "expfam.proposal_v1"

    def refresh(self, snapshot: Snapshot) -> None:
        """Take up new statistics."""

    def to_arrays(self) -> Arrays:
        """Every number a later call reads."""

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore `to_arrays`, bit for bit."""


@runtime_checkable
class Proposal(Protocol):
    """Where a datum may go, q(k | i), with its exact probability."""

    api_version: int
    kind: str  # "assignment"
    modes: frozenset[str]  # of "frozen", "crossfit", "removed", "included"

    def bind(self, model: Any, data: Any, *, seed: int) -> BoundProposal:
        """Working object over the data."""


@runtime_checkable
class CellProposal(Proposal, Protocol):
    """The NumPy road: q depends on the datum's group only."""

    def groups(self, data: Any) -> Indices:
        """Group of each datum: (N,)."""

    def probabilities(self, snapshot: Snapshot) -> Any:
        """(n_groups, K), non-negative, dense or CSR; rows need not be normalised."""


@runtime_checkable
class BoundAnchors(Protocol):
    """An anchor law at work on one data set."""

    def draw_pairs(self, size: int, rng: Any) -> Indices:
        """(size, 2) data that meet; (-1, -1) is no move."""

    def refresh(self, epoch: int) -> None:
        """Renew what is random about the law."""


@runtime_checkable
class Anchors(Protocol):
    """Which two data a split-merge move is about; it is not given labels, hence cannot depend on them."""

    api_version: int
    kind: str  # "anchors"

    def bind(self, data: Any, *, seed: int) -> BoundAnchors:
        """Working object over the data."""


@runtime_checkable
class BoundAllocator(Protocol):
    """An allocator at work on one data set."""

    def sides(self, Phi: Floats, rng: Any, forced: Any = None) -> tuple[Any, float]:
        """Side (m,) int8 of each row of Phi, of which 0 and 1 are the anchors, and log q <= 0 of that choice.

        `forced` sides are scored, not drawn.
        """


@runtime_checkable
class Allocator(Protocol):
    """How the data of a cluster are divided between two anchors."""

    api_version: int
    kind: str  # "allocator"

    def bind(self, model: Any, data: Any, *, seed: int) -> BoundAllocator:
        """Working object over the data."""


@runtime_checkable
class State(Protocol):
    """Every bit that a later step reads."""

    model: Any
    data: Any
    seed: int
    n_steps: int
    labels: Any  # (N,) int32 slot of each datum
    stamp: int  # raised whenever labels change
    memory: dict[str, Any]  # a kernel's key in the composition -> its working object

    def check(self) -> None:
        """Recompute from labels and compare."""

    def to_arrays(self) -> Arrays:
        """All of it as arrays."""

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore `to_arrays`, bit for bit."""

    def as_type(self, state_type: type) -> State:
        """The same chain as another kind of state, where that is exact."""


@runtime_checkable
class Kernel(Protocol):
    """A transition of the chain, or a step of an optimiser: frozen settings."""

    state_type: type

    def check(self, model: Any, data: Any) -> None:
        """Name kernel, missing ability and family before any work."""

    def init(self, model: Any, data: Any, *, seed: int, start: Any = "auto") -> State:
        """State to begin with; `start` is (N,) labels or the name of a start."""

    def step(self, state: State) -> Info:
        """One sweep, pass, batch of moves or merge, in place."""


Callback = Callable[[Info, State], "bool | None"]
"""Called after each step; True stops the run."""
