"""Kernels that draw parameters given labels, then all labels in parallel given these.

A sweep of these kernels calls `UncollapsedState.draw_parameters`, draws a label for every datum, and calls
`UncollapsedState.move_labels`. The kernels differ in how labels are drawn: exactly by a dense pass over all clusters,
exactly by branch and bound over a tree of the clusters, or by Metropolis steps. The setting `theta` alone determines
the stationary law: drawn parameters leave the posterior invariant; their modes or means make stochastic EM.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError
from expfam.model.partitions import fitted_labels
from expfam.params import Real, refuse_unused
from expfam.samplers.chain.kernel import Kernel, check_sticks
from expfam.samplers.states.uncollapsed import UncollapsedState, converted
from expfam.samplers.uncollapsed import slices
from expfam.samplers.uncollapsed.known import with_known
from expfam.samplers.uncollapsed.pruned import check_pruned, draw_densely, draw_pruned, preferred_codes
from expfam.samplers.uncollapsed.remembered import bytes_of_lists
from expfam.samplers.uncollapsed.tree import draw_labels, preferred_tree

if TYPE_CHECKING:
    from expfam.model.data import Dataset

GROUPS_OF_ROWS = "it proposes labels by groups of rows, and the groups of a part are others than those of all rows"
_ABILITY = {"draw": "draw", "map": "map", "mean": "variational"}  # ability of the family that each `theta` needs


class UncollapsedKernel(Kernel):
    """Base class of the kernels over an `UncollapsedState`.

    Subclasses write ``draw_labels(state)``.

    Parameters
    ----------
    theta : {"draw", "map", "mean"}
        How parameters and weights are made from labels: "draw" draws them from their posterior (a Gibbs step), "map"
        uses its mode in natural coordinates, "mean" its mean.
    truncation : int
        Number of sticks under a Dirichlet process or Pitman-Yor prior. A symmetric Dirichlet prior has its own number
        of components.
    n_threads : int or None
        Number of threads that draw labels; the result does not depend on it.

    Examples
    --------
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import UncollapsedKernel
    >>> class HardEM(UncollapsedKernel):
    ...     def draw_labels(self, state):
    ...         phi = state.data.phi(0, state.data.n_rows)
    ...         scores = state.log_pi + state.model.family.log_likelihood(phi, state.Theta, state.G)
    ...         return scores.argmax(axis=1).astype("int32"), {}
    >>> kernel = HardEM(theta="map")
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(3)), [[0], [1], [40]], seed=0, start=[0, 2, 2])
    >>> kernel.step(state).accepted
    1

    Notes
    -----
    ``draw_labels(state)`` returns new labels, (N,) int32, and a dict for `Info.extra`. It reads the labels and the
    parameters of the state and does not change them.
    """

    state_type = UncollapsedState
    on_shards = True
    takes_known = frozenset({"clusters", "links"})
    _constraints: ClassVar = {"theta": tuple(_ABILITY)}

    def __init__(
        self,
        *,
        theta: Literal["draw", "map", "mean"] = "draw",
        truncation: int = 100,
        n_threads: int | None = None,
    ) -> None:
        self.theta, self.truncation, self.n_threads = theta, truncation, n_threads

    def check(self, model: Any, data: Dataset) -> None:
        """Refuse settings out of range, and families that cannot make parameters from statistics."""
        super().check(model, data)
        model.family.require(_ABILITY[self.theta], type(self).__name__)
        if model.weights.max_components is None and (self.truncation is None or self.truncation < 1):
            raise CapabilityError(
                f"truncation must be at least 1 for {model.weights!r}; got {self.truncation!r}: write"
                f" {type(self).__name__}(truncation=100)"
            )
        check_sticks(self, model, data.known)

    def max_clusters(self, model: Any) -> int | None:
        """Return the number of components of finite weights, or else the truncation."""
        return model.weights.max_components or self.truncation

    def init_state(self, model: Any, data: Dataset, labels: Any, *, seed: int) -> Any:
        """Make a state with labels in 0..K-1; the first step makes its parameters."""
        K = model.weights.max_components or self.truncation
        return UncollapsedState(model, data, fitted_labels(labels, K, self), n_clusters=K, seed=seed)

    def own_state(self, state: Any) -> Any:
        """Return the state that the kernel moves, with sticks closed or open as its own."""
        if self.state_type is not UncollapsedState:
            return super().own_state(state)
        return converted(state, is_open=self.max_clusters(state.model) is None)

    def memory(self, model: Any, data: Dataset, n_clusters: int) -> int:
        """Return the bytes of the parameters and of the statistics from which they are made.

        The parameters are held in double precision, and in single precision for the scores; of dense statistics also as
        integers, beside a copy. Exact sums are held in three pieces, before and after a step, and added up.
        """
        codes = 0 if data.has_sparse_phi else 9
        return 20 * n_clusters * (data.n_statistics + 1) + (56 + codes) * n_clusters * data.n_statistics

    @property
    def is_sampler(self) -> bool:
        """Tell whether parameters are drawn; with their mode or mean the chain has another law."""
        return self.theta == "draw"

    def draw_labels(self, state: Any) -> tuple[npt.NDArray[np.int32], dict[str, Any]]:
        """Draw new labels of all data, (N,) int32; return them and diagnostics."""
        raise NotImplementedError(f"{type(self).__name__} must write draw_labels(state)")

    def of_parts(self) -> UncollapsedKernel:
        """Return the kernel that draws labels of data in parts; the default is the kernel itself."""
        return self

    def new_labels(self, state: Any) -> tuple[npt.NDArray[np.int32], dict[str, Any]]:
        """Draw labels that agree with what is known of the data; return them and diagnostics."""
        labels, extra = self.draw_labels(state)
        return (labels if state.data.known is None else with_known(state, labels)), extra

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Draw parameters and weights given the labels, or take the best; then draw all labels."""
        state.draw_parameters(self.theta)
        n_moved, extra = state.redraw(self)
        return state.data.n_rows, n_moved, extra


class UncollapsedGibbs(UncollapsedKernel):
    """Exact Gibbs sweep over parameters, weights and labels, with labels drawn in parallel.

    Parameters
    ----------
    draw : {"auto", "dense", "pruned", "tree", "rejection"}
        How labels are drawn from their exact law. "dense" scores all clusters; "pruned" bounds all scores by products
        of integers of eight bits and computes those that matter, for dense data, and where clusters have many rows it
        keeps for each row a list of those that matter from step to step; "tree" is branch and bound over a tree
        of the clusters; "rejection" is rejection sampling from the bounds of this tree. "auto" is dense below 64
        clusters; above it depends on how many clusters the others would score for a few data: "pruned" is tried where
        the machine has products of bytes, a tree from 512 clusters on.
    tau : float
        Nats below the best cluster at which branch and bound leaves a cell to its exact tail. It changes only the cost.
    theta : {"draw", "map", "mean"}
        How parameters and weights are made from labels. Only "draw" leaves the posterior invariant; the others are
        stochastic EM.
    sticks : {"closed", "slice"}
        How weights of a process are held. "closed" cuts it off at `truncation` sticks, which is another posterior.
        "slice" breaks as many sticks as the slices of the data ask for, at each step anew: the posterior of a
        `DirichletProcess` itself, with any number of clusters.
    truncation : int
        Number of closed sticks under a Dirichlet process or Pitman-Yor prior. A symmetric Dirichlet prior has its own
        number of components.
    n_threads : int or None
        Number of threads that draw labels; the result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import UncollapsedGibbs, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = UncollapsedGibbs()
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(5)), X, seed=0)
    >>> trace = sample(kernel, state, 30)
    >>> len(set(state.labels[:20])), len(set(state.labels[20:]))
    (1, 1)
    >>> kernel = UncollapsedGibbs(sticks="slice")
    >>> state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), X, seed=0)
    >>> trace = sample(kernel, state, 30)
    >>> state.n_clusters
    2

    Notes
    -----
    For slices see `expfam.samplers.states.sticks`. For the truncated stick-breaking prior see Ishwaran and James 2001,
    "Gibbs sampling methods for stick-breaking priors". The chain mixes more slowly than collapsed sweeps, much more
    slowly on short documents.
    """

    _constraints: ClassVar = {
        "draw": ("auto", "dense", "pruned", "tree", "rejection"),
        "tau": Real(0, ends="(]"),
        "sticks": ("closed", "slice"),
    }

    _least_for_tree: ClassVar[int] = 512  # clusters from which "auto" tries a tree
    _few_clusters: ClassVar[Literal["dense", "tree"]] = "dense"  # how it draws with fewer

    def __init__(
        self,
        *,
        draw: Literal["auto", "dense", "pruned", "tree", "rejection"] = "auto",
        tau: float = 12.0,
        theta: Literal["draw", "map", "mean"] = "draw",
        sticks: Literal["closed", "slice"] = "closed",
        truncation: int = 100,
        n_threads: int | None = None,
    ) -> None:
        super().__init__(theta=theta, truncation=truncation, n_threads=n_threads)
        self.draw, self.tau, self.sticks = draw, tau, sticks

    def check(self, model: Any, data: Dataset) -> None:
        """Refuse settings out of range, and families that cannot make parameters from statistics."""
        super().check(model, data)
        if self.draw in ("dense", "pruned"):
            refuse_unused(self, ["tau"], why=f"draw={self.draw!r}", remedy="take draw='tree'")
        if self.draw == "pruned":
            check_pruned(self, data)
        if self.sticks == "slice":
            self._check_slices(model, data)

    def _check_slices(self, model: Any, data: Dataset) -> None:
        """Refuse what slices cannot be used with."""
        why, line = "", f"{type(self).__name__}(sticks='slice')"
        if model.weights.max_components is not None:
            why, line = f"{model.weights!r} has a given number of components", f"{type(self).__name__}()"
        elif model.weights.offset != 0.0:
            why, line = f"{model.weights!r} needs sticks without end", f"DirichletProcess(alpha={model.weights.alpha})"
        elif self.theta != "draw" or self.draw not in ("auto", "dense"):
            why = "it draws parameters, and labels densely"
        elif data.known is not None:
            why, line = "it cannot use what is known of rows", "UncollapsedGibbs() with SymmetricDirichlet(n)"
        if why:
            raise CapabilityError(f"{type(self).__name__}(sticks='slice') cannot be used: {why}: write {line}")
        refuse_unused(self, ["truncation"], why="sticks='slice'", remedy="leave out truncation")

    def max_clusters(self, model: Any) -> int | None:
        """Return the number of components; None if it is open."""
        return None if self.sticks == "slice" else super().max_clusters(model)

    def memory(self, model: Any, data: Dataset, n_clusters: int) -> int:
        """Return the bytes of the parameters, and of lists that draws by integers keep."""
        may_keep = self.draw in ("auto", "pruned") and not data.has_sparse_phi
        return super().memory(model, data, n_clusters) + may_keep * bytes_of_lists(data, n_clusters)

    def init_state(self, model: Any, data: Dataset, labels: Any, *, seed: int) -> Any:
        """Make a state with labels; the first step makes its parameters."""
        if self.sticks == "closed":
            return super().init_state(model, data, labels, seed=seed)
        K = int(np.max(labels)) + 1
        return UncollapsedState(model, data, labels, n_clusters=K, seed=seed, is_open=True)

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Draw parameters and weights given the labels, or take the best; then draw all labels."""
        if self.sticks == "slice":
            state.draw_open_parameters()
            n_moved, extra = state.redraw(self)
            return state.data.n_rows, n_moved, extra
        return super().move(state)

    def of_parts(self) -> UncollapsedGibbs:
        """Return the kernel for data in parts: it draws densely, as a part cannot try a tree."""
        if self.draw != "auto":
            return self
        dense = copy.copy(self)  # of the same class, with all that a subclass has
        dense.draw = "dense"
        return dense

    def reversed(self) -> UncollapsedGibbs | None:
        """Return the kernel itself: alternate draws of labels and parameters are reversible."""
        return self if self.is_sampler else None

    def draw_labels(self, state: Any) -> tuple[npt.NDArray[np.int32], dict[str, Any]]:
        """Draw new labels of all data from their exact law given the state's parameters."""
        if self.sticks == "slice":
            return slices.draw_labels(state, self.n_threads), {}
        if self.draw == "auto":
            return self._cheapest(state)
        if self.draw == "dense":
            return draw_densely(state, self.n_threads)
        if self.draw == "pruned":
            return draw_pruned(state, self.n_threads)
        return draw_labels(state, self.n_threads, tau=self.tau, method=self.draw)

    def _cheapest(self, state: Any) -> tuple[npt.NDArray[np.int32], dict[str, Any]]:
        """Draw labels in the way that should take the least time."""
        has_tree = self._least_for_tree <= state.K
        if not has_tree and self._few_clusters == "tree":
            return draw_labels(state, self.n_threads, tau=self.tau)
        coded, cost = preferred_codes(state)
        if has_tree:
            tree = preferred_tree(state, least_clusters=self._least_for_tree, at_most=cost, n_threads=self.n_threads)
            if tree is not None:
                return draw_labels(state, self.n_threads, tau=self.tau, tree=tree)
        return draw_densely(state, self.n_threads) if coded is None else draw_pruned(state, self.n_threads, coded)
