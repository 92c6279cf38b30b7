"""Samplers with names: one table for all estimators, and recommended compositions.

For mixtures ``"auto"`` is exact: collapsed Gibbs sweeps with splits and merges, see `automatic_sampler`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError, ExpFamError
from expfam.near_names import near_names
from expfam.params import is_auto, refuse_unused
from expfam.samplers.chain.kernel import Cycle, Kernel
from expfam.samplers.collapsed.gibbs import CollapsedGibbs
from expfam.samplers.collapsed.metropolis import CollapsedMetropolis
from expfam.samplers.grouped.gibbs import GroupedGibbs
from expfam.samplers.grouped.variational import GroupedVariational
from expfam.samplers.hierarchy.kernel import HierarchicalClustering
from expfam.samplers.proposals.by_name import named_proposal
from expfam.samplers.shards.grouped_gibbs import GroupedUncollapsedGibbs
from expfam.samplers.split_merge.allocators import (
    CoinAllocator,
    DelayedAllocator,
    FrozenAllocator,
    RestrictedGibbsAllocator,
    SequentialAllocator,
    UrnAllocator,
)
from expfam.samplers.split_merge.anchors import FarAnchors, NearAnchors, UniformAnchors
from expfam.samplers.split_merge.kernel import CollapsedSplitMerge
from expfam.samplers.split_merge.moves import AnchoredMoves, BucketMoves, CutMoves, MemberMoves, SoftmaxMoves
from expfam.samplers.starts.many_exchanges import has_many_clusters
from expfam.samplers.starts.rules import default_n_clusters
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.samplers.topics.variational import TopicVariational
from expfam.samplers.uncollapsed.em import ExpectationMaximization
from expfam.samplers.uncollapsed.kernel import UncollapsedGibbs, UncollapsedKernel
from expfam.samplers.uncollapsed.metropolis import UncollapsedMetropolis
from expfam.samplers.uncollapsed.stochastic_em import StochasticEM
from expfam.samplers.variational.mixture import SparseVariational

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.proposals.base import Proposal

TABLE_BYTES = 1 << 30  # "auto" chooses tables of counts up to this size
SHORT_ROW = 12  # entries of a row of counts in the mean, up to which exact draws are as fast as proposals
WIDEST_INT8 = 1024  # "auto" chooses codes of one byte up to this number of statistics in a row


class FastEx(CollapsedMetropolis):
    """Fast and exact collapsed sweeps over many clusters, by cheap proposals.

    Parameters
    ----------
    proposal : str or Proposal
        ``"auto"``, the name of a registered proposal, or an object with its settings.
    mode, n_blocks, order, n_threads
        See `CollapsedMetropolis`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import FastEx, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = FastEx()
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(5)), X, seed=0)
    >>> trace = sample(kernel, state, 20)
    >>> state.n_clusters
    2

    Notes
    -----
    Ahmed, Ravi, Narayanamurthy and Smola 2012, "FastEx: hash clustering with exponential families". The choice of
    ``proposal="auto"`` depends on family and sizes. Multinomial and Poisson clusters get `TableProposal` if the table
    of logarithms uses at most 1 GiB. Other models with up to 1024 statistics in a row get `Int8Proposal`. All others
    get `HashProposal`, whose codes do not grow with the number of columns. A proposal that refuses the data is left
    out; for example, a table refuses fractions. The published proposal is ``HashProposal(n_bits=64, shortlist=0)``.

    Many short rows of counts (N K from 1,000,000 on, up to 12 entries a row in the mean) are drawn exactly, as by
    `CollapsedGibbs`, if proposal, mode and blocks are all "auto": scores of the live clusters then cost less than a
    proposal. `Info.extra` has the mode "exact".
    """

    def __init__(
        self,
        proposal: str | Proposal = "auto",
        *,
        mode: Literal["auto", "crossfit", "removed", "included", "frozen", "published", "asynchronous"] = "auto",
        n_blocks: int | Literal["auto"] = "auto",
        order: Literal["sequential", "backward"] = "sequential",
        n_threads: int | None = None,
    ) -> None:
        super().__init__(proposal, mode=mode, n_blocks=n_blocks, order=order, n_threads=n_threads)

    def choose_proposal(self, model: Any, data: Dataset) -> Any:
        """Return the proposal object; "auto" is resolved by the model and its data."""
        return named_proposal(proposal_for(model, data) if is_auto(self.proposal) else self.proposal)

    def draws_exactly(self, model: Any, data: Dataset) -> bool:
        """Return whether labels are drawn without a proposal, which sizes of the data decide.

        Parameters
        ----------
        model : MixtureModel
        data : Dataset
        """
        if not (is_auto(self.proposal) and is_auto(self.mode) and is_auto(self.n_blocks)):
            return False
        if getattr(model.family, "count_model", None) not in ("multinomial", "poisson"):
            return False
        return data.n_nonzero <= SHORT_ROW * data.n_rows and self.choose_mode(model, data) == "crossfit"

    def memory(self, model: Any, data: Dataset, n_clusters: int) -> int:
        """Return the bytes of the bound proposal, if there is one."""
        return 0 if self.draws_exactly(model, data) else int(super().memory(model, data, n_clusters))

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Run one sweep over all data; an interrupt leaves a valid state."""
        if not self.draws_exactly(state.model, state.data):
            return super().move(state)  # type: ignore[no-any-return]
        exact = CollapsedGibbs(order=self.order, n_threads=self.n_threads)
        n_proposed, n_moved, _ = exact.move(state)
        return n_proposed, n_moved, {"mode": "exact"}


def proposal_for(model: Any, data: Dataset) -> str:
    """Choose the name of the proposal that suits a model and its data.

    Family and sizes determine the order; the first proposal that does not refuse the data is chosen. If all refuse, it
    is the first one, whose error message is the most helpful.
    """
    names = ["int8", "hash"] if data.n_statistics <= WIDEST_INT8 else ["hash"]
    if getattr(model.family, "count_model", None) in ("multinomial", "poisson"):
        n_clusters = model.weights.max_components or 2 * default_n_clusters(model, data.n_rows)
        if named_proposal("table").memory(model, data, n_clusters) <= TABLE_BYTES:
            names.insert(0, "table")
    return next((name for name in names if _serves(named_proposal(name), model, data)), names[0])


def _serves(proposal, model, data):
    """Return whether a proposal accepts the model and its data."""
    try:
        proposal.check(model, data)
    except ExpFamError:
        return False
    return True


class _TreeOrDense(UncollapsedGibbs):
    """Sweep by a tree that draws densely if this costs less, from 32 clusters on."""

    _least_for_tree: ClassVar[int] = 32
    _few_clusters: ClassVar[Literal["dense", "tree"]] = "tree"


class Canopy(UncollapsedKernel):
    """Kernel that draws all labels in parallel given parameters, by a tree or by groups.

    Parameters
    ----------
    proposal : str or Proposal
        For variant 1: "prototype", the name of another registered proposal, or an object with its settings.
    variant : {2, 1}
        Variant 2 draws labels exactly. It takes branch and bound over a tree of the clusters where that saves time, and
        a dense pass over all clusters where not; ``UncollapsedGibbs(draw="tree")`` always takes the tree. Variant 1
        makes Metropolis steps with a law for each group of neighbouring data; it is `UncollapsedMetropolis`. Its sweeps
        are much cheaper and mix more slowly.
    steps : int
        For variant 1: number of Metropolis steps of each datum in a sweep, before its exact draw among the clusters
        that its group lists.
    theta : {"draw", "map", "mean"}
        How parameters and weights are made from labels. Only "draw" leaves the posterior invariant; the others are
        stochastic EM.
    truncation, n_threads
        See `UncollapsedKernel`.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.samplers import Canopy
    >>> X = [[0, 9]] * 20 + [[9, 0]] * 20
    >>> Mixture("poisson", 2, sampler=Canopy(variant=1), random_state=0).fit(X).cluster_sizes_
    array([20, 20])

    Notes
    -----
    The two variants replace the two samplers of Zaheer, Kottur, Ahmed, Moura and Smola 2017, "Canopy: fast sampling
    with cover trees". The published samplers are ``UncollapsedMetropolis(PrototypeProposal(data_cells="tree",
    n_anchors=0), steps=2, redraw=False, theta="map")`` and ``UncollapsedGibbs(draw="rejection", theta="map")``.
    """

    on_shards = False
    not_on_shards = "its tree or its groups of the rows of a part are others than those of all rows"

    def __init__(
        self,
        proposal: str | Proposal = "prototype",
        *,
        variant: Literal[1, 2] = 2,
        steps: int = 2,
        theta: Literal["draw", "map", "mean"] = "draw",
        truncation: int = 100,
        n_threads: int | None = None,
    ) -> None:
        super().__init__(theta=theta, truncation=truncation, n_threads=n_threads)
        self.variant, self.proposal, self.steps = variant, proposal, steps

    def kernel(self) -> UncollapsedKernel:
        """Make the kernel of the variant."""
        settings: dict[str, Any] = {"theta": self.theta, "truncation": self.truncation, "n_threads": self.n_threads}
        if self.variant == 2:
            refuse_unused(self, ["proposal", "steps"], why="variant=2, which draws exactly,", remedy="take variant=1")
            return _TreeOrDense(**settings)
        if self.variant != 1:
            raise ValueError(f"variant must be 1 or 2; got {self.variant!r}")
        return UncollapsedMetropolis(self.proposal, steps=self.steps, **settings)

    def check(self, model: Any, data: Dataset) -> None:
        """Run the check of the variant's kernel."""
        self.kernel().check(model, data)

    def memory(self, model: Any, data: Dataset, n_clusters: int) -> int:
        """Return the bytes of the working objects of the variant's kernel."""
        return self.kernel().memory(model, data, n_clusters)

    def reversed(self) -> Kernel | None:
        """Return the reversal of the variant's kernel, or None."""
        return self if self.kernel().reversed() else None

    def draw_labels(self, state: Any) -> tuple[npt.NDArray[np.int32], dict[str, Any]]:
        """Draw new labels of all data by the variant's kernel."""
        return self.kernel().draw_labels(state)

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Run a sweep of the variant's kernel."""
        return self.kernel().move(state)


class SplitMerge(CollapsedSplitMerge):
    """Split and merge moves of whole clusters, for an unknown number of clusters.

    They leave modes of the posterior that sweeps cannot leave. Use the kernel in a `Cycle` with sweeps, for example
    those of `CollapsedGibbs`: no preset moves single data well, and some presets alone do not reach all partitions.
    "near" only joins or separates data that share a bucket of a hash table. "mondrian" can neither separate nor join
    equal rows. The splits of "minsm" by buckets cannot separate data that share all buckets; only its rare splits of
    near data can. The law `partitions_are_reached` of `check_kernel` reports partitions that are not reached.

    Parameters
    ----------
    preset : str
        - "auto": splits of the cluster of a random datum by a sequential pass, half of them with early tests (delayed
          acceptance), and merges of near data, by cheap moves and by sequential passes. For families written in NumPy
          the splits draw all data together, and all merges are cheap moves;
        - "near": only the cheap merges of near data; it does not reach all partitions;
        - "lshsm": splits of far data by a sequential pass, and merges of near data;
        - "minsm": splits by a bucket of a hash table, and merges of near data; alone it reaches some partitions rarely;
        - "sdds": splits by a sequential pass with random merges, and random splits with merges chosen by Bayes factors;
        - "rgsm": uniform anchors and restricted Gibbs scans;
        - "random": uniform anchors and a coin for each datum;
        - "mondrian": cuts of one column; it does not reach all partitions.
    anchors : str or Anchors, optional
        Law of the two data of a move. It replaces the preset: all moves are then between anchors. If only `allocator`
        is given, anchors are uniform.
    allocator : str or Allocator, optional
        How a cluster is divided between two anchors. It replaces the preset too. If only `anchors` are given, it is a
        sequential pass.
    rho : float in (0, 1], optional
        Probability that a split is tried for two anchors in one cluster; it replaces the value of the preset.
    n_moves, every, n_threads
        See `CollapsedSplitMerge`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedGibbs, Cycle, SplitMerge, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = Cycle(SplitMerge(), CollapsedGibbs())
    >>> state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), X, seed=0, start="one")
    >>> trace = sample(kernel, state, 20)
    >>> state.n_clusters
    2

    Notes
    -----
    Jain and Neal 2004 ("random", "rgsm"), Dahl 2005 (the sequential pass), Wang and Russell 2015 ("sdds"). The moves
    differ from these papers in three points. The anchors are part of the move and are not summed out. The buckets of
    the present tables are used in place of average collision probabilities. A random split draws its sizes from urns,
    not from coins, except in "random".
    """

    def __init__(
        self,
        preset: str = "auto",
        *,
        anchors: Any = None,
        allocator: Any = None,
        rho: float | None = None,
        n_moves: int | Literal["auto"] = "auto",
        every: int | Literal["auto"] = "auto",
        n_threads: int | None = None,
    ) -> None:
        self.preset, self.anchors, self.allocator, self.rho = preset, anchors, allocator, rho
        self.n_moves, self.every, self.n_threads = n_moves, every, n_threads

    def choose_moves(self, model: Any, data: Dataset) -> list[Any]:
        """Return the moves of the preset, or moves between the given anchors."""
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {sorted(PRESETS)}; got {self.preset!r}")
        if self.anchors is not None or self.allocator is not None:
            why = "a law of anchors or an allocator, which stands in place of the preset,"
            refuse_unused(self, ["preset"], why=why, remedy="leave out anchors and allocator")
            rho = 1.0 if self.rho is None else self.rho
            return [AnchoredMoves(named_proposal(self.anchors), named_proposal(self.allocator), rho=rho)]
        in_numpy = not model.family.is_compiled and "variational" in model.family.capabilities
        moves = list(_preset_moves(self.preset, self.n_threads, in_numpy))
        return moves if self.rho is None else _thinned(moves, self.rho, self.preset)


def _thinned(moves, rho, preset):
    """Replace rho in the moves between anchors."""
    if not any(isinstance(move, AnchoredMoves) for move in moves):
        raise ValueError(f"preset {preset!r} has no moves between anchors, so it cannot use rho; leave it out")
    return [
        AnchoredMoves(**(move.get_params() | {"rho": rho})) if isinstance(move, AnchoredMoves) else move
        for move in moves
    ]


def _near(n_threads, n_candidates=1, weight=1.0, allocator=None):
    # cheap merges; a split of n data is tried with probability 10 / n at most, so that the cost is bounded
    anchors = NearAnchors(n_candidates=n_candidates, n_threads=n_threads)
    return AnchoredMoves(anchors, allocator or UrnAllocator(), rho=0.05, most=10.0, weight=weight)


def _near_merges(n_threads, passes):
    """Make moves that merge near data, by urns and by sequential passes.

    Urns are cheap and merge clusters whose data are mixed. Passes also merge clusters that lie side by side. Passes in
    Python are left out, because they would take much longer than all other moves.
    """
    allocators = [UrnAllocator(), *(each for each in passes if isinstance(each, SequentialAllocator))]
    return [_near(n_threads, _CANDIDATES, 40.0 / len(allocators), allocator) for allocator in allocators]


@lru_cache(maxsize=64, typed=True)  # they are asked for at each check, and settings never change
def _preset_moves(preset, n_threads, in_numpy):
    """Return the moves of a preset.

    Their allocators are sequential; for a family in NumPy there is one that works on all rows.
    """
    passes = [FrozenAllocator()] if in_numpy else [SequentialAllocator(), DelayedAllocator()]
    return tuple(PRESETS[preset](n_threads, passes))


_CANDIDATES = 64  # maximal number of data of which the nearest one becomes the anchor

PRESETS: dict[str, Callable[[int | None, Sequence[Any]], list[Any]]] = {
    "auto": lambda n_threads, passes: [
        *(MemberMoves(allocator, weight=2.0 / len(passes)) for allocator in passes),
        *_near_merges(n_threads, passes),
    ],
    "near": lambda n_threads, passes: [_near(n_threads, _CANDIDATES)],
    "lshsm": lambda n_threads, passes: [
        AnchoredMoves(FarAnchors(n_threads=n_threads), passes[0]),
        _near(n_threads),
    ],
    "minsm": lambda n_threads, passes: [BucketMoves(), _near(n_threads)],
    "sdds": lambda n_threads, passes: [MemberMoves(SequentialAllocator()), SoftmaxMoves()],
    "rgsm": lambda n_threads, passes: [AnchoredMoves(UniformAnchors(), RestrictedGibbsAllocator())],
    "random": lambda n_threads, passes: [AnchoredMoves(UniformAnchors(), CoinAllocator())],
    "mondrian": lambda n_threads, passes: [CutMoves()],
}


# one name for one method; the kernel of a method depends on the model
_BY_NAME: dict[str, dict[str, type]] = {
    "Mixture": {
        "gibbs": CollapsedGibbs,
        "uncollapsed_gibbs": UncollapsedGibbs,
        "fastex": FastEx,
        "canopy": Canopy,  # variant 2, the exact one
        "split_merge": SplitMerge,
        "stochastic_em": StochasticEM,
        "em": ExpectationMaximization,
        "variational": SparseVariational,
    },
    "GroupedMixture": {
        "gibbs": GroupedGibbs,
        "uncollapsed_gibbs": GroupedUncollapsedGibbs,
        "variational": GroupedVariational,
    },
    "TopicModel": {"gibbs": TopicGibbs, "documents": DocumentGibbs, "variational": TopicVariational},
    "BayesianHierarchy": {},
}
_SYNONYMS = {
    **dict.fromkeys(("mcmc", "collapsed", "collapsed_gibbs", "gibbs_sampling", "cgs"), ("gibbs",)),
    **dict.fromkeys(("uncollapsed", "blocked_gibbs", "block_gibbs"), ("uncollapsed_gibbs",)),
    **dict.fromkeys(
        ("vb", "vi", "svi", "variational_bayes", "variational_inference", "online", "batch"), ("variational",)
    ),
    **dict.fromkeys(("expectation_maximization", "expectation_maximisation", "ml", "map"), ("em",)),
    **dict.fromkeys(("sem", "stochastic", "cem"), ("stochastic_em",)),
    **dict.fromkeys(("fast_ex", "metropolis", "hash"), ("fastex",)),
    **dict.fromkeys(("sams", "lshsm", "jain_neal"), ("split_merge",)),
}  # words of other libraries and papers: names of this package
_KERNELS: dict[str, tuple[type, ...]] = {
    "Mixture": (Kernel,),
    "GroupedMixture": (GroupedGibbs, GroupedUncollapsedGibbs, GroupedVariational),
    "TopicModel": (DocumentGibbs, TopicGibbs, TopicVariational),
    "BayesianHierarchy": (HierarchicalClustering,),
}


def find_sampler(sampler: Any, *, model: str = "Mixture") -> Any:
    """Return the class of a named sampler, a given kernel unchanged, or None for "auto".

    `model` is the estimator whose names and kernels are taken. Anything else raises a ValueError that lists these
    names.

    >>> from expfam.samplers.named import find_sampler
    >>> find_sampler("gibbs").__name__, find_sampler("gibbs", model="TopicModel").__name__
    ('CollapsedGibbs', 'TopicGibbs')
    """
    kernels, by_name = _KERNELS[model], _BY_NAME[model]
    if isinstance(sampler, kernels):
        return sampler
    if is_auto(sampler):
        return None
    if isinstance(sampler, str) and sampler in by_name:
        return by_name[sampler]
    names = ", ".join(map(repr, ["auto", *by_name]))
    examples = " or ".join(f"{kernel.__name__}(...)" for kernel in (kernels if model != "Mixture" else (FastEx,)))
    found, line = f"{sampler!r}", "'auto'"
    if isinstance(sampler, type):
        found = f"the class {sampler.__name__}"
        line = f"{sampler.__name__}()" if issubclass(sampler, kernels) else line
    elif isinstance(sampler, str):
        line = repr(next(iter(near_names(sampler, ["auto", *by_name], _SYNONYMS)), "auto"))
    raise ValueError(
        f"{model}: sampler must be {names}, or a kernel such as {examples}; got {found}: write {model}(sampler={line})"
    )


_ROWS_FOR_MOVES = 1000  # from which each step makes splits and merges
_FEW_MOVES = 42  # of a step with moves where rows are fewer and the number of clusters is given
_FEW_ROWS = 500  # up to which a collapsed sampler of a family in NumPy is quick enough


def automatic_sampler(model: Any, data: Dataset, *, n_threads: int | None = None) -> Kernel:
    """Return the kernel that ``sampler="auto"`` stands for.

    Steps of splits and merges alternate with collapsed Gibbs sweeps. Labels of all rows are drawn together, given
    drawn parameters, where clusters and their statistics are many, see
    `expfam.samplers.starts.many_exchanges.has_many_clusters`. A family written in NumPy makes single steps
    of a collapsed sampler slow: above 500 rows, labels are drawn for all rows together where the family can draw
    parameters, and variational passes are made where it cannot.

    Parameters
    ----------
    model, data : bound MixtureModel and Dataset
    n_threads : int or None

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers.named import automatic_sampler
    >>> data = Dataset([[0], [1], [30]], Poisson())
    >>> automatic_sampler(MixtureModel(data.family, DirichletProcess()), data).kernels[-1]
    CollapsedGibbs(order='sequential', n_threads=None)
    """
    if not model.family.is_compiled and data.n_rows > _FEW_ROWS:
        abilities = model.family.capabilities
        if "draw" in abilities:
            return UncollapsedGibbs(n_threads=n_threads)
        if "variational" in abilities:
            return SparseVariational(n_threads=n_threads)
    if has_many_clusters(model, data):
        return UncollapsedGibbs(n_threads=n_threads)
    # where rows are few, the moves of a step would take longer than the sweep
    few: dict[str, Any] = {"every": 5} if data.n_rows < _ROWS_FOR_MOVES else {}
    if few and model.weights.max_components is not None:  # an open number of clusters would never settle
        few["n_moves"] = _FEW_MOVES
    kernel = Cycle(SplitMerge(**few, n_threads=n_threads), CollapsedGibbs(n_threads=n_threads))
    try:
        kernel.check(model, data)
    except CapabilityError:  # weights for which splits and merges are not defined
        return CollapsedGibbs()
    return kernel


def load_sampler(
    sampler: Any = "auto",
    *,
    model: Any = None,
    data: Dataset | None = None,
    n_threads: int | None = None,
    weights: None = None,
) -> Kernel:
    """Return the kernel of a name; a kernel is returned as it is.

    Parameters
    ----------
    sampler : str or Kernel
        ``"auto"``, ``"gibbs"``, ``"uncollapsed_gibbs"``, ``"fastex"``, ``"canopy"``, ``"split_merge"``,
        ``"stochastic_em"``, ``"em"``, ``"variational"``, or a kernel.
    model : MixtureModel, optional
        Bound to `data`. Both are needed for ``"auto"`` alone, which is then the kernel that ``Mixture(sampler="auto")``
        and the command line take.
    data : Dataset, optional
    n_threads : int or None
        Number of threads, for kernels that can use several.
    weights : None
        No longer used: `model` has them. Anything else is refused.

    Raises
    ------
    ValueError
        The name is unknown, or "auto" lacks `model` and `data`.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import load_sampler
    >>> load_sampler("gibbs")
    CollapsedGibbs(order='sequential', n_threads=None)
    >>> data = Dataset([[0], [1], [30]], Poisson())
    >>> load_sampler("auto", model=MixtureModel(data.family, DirichletProcess()), data=data).kernels[-1]
    CollapsedGibbs(order='sequential', n_threads=None)
    """
    if weights is not None:
        raise TypeError(
            "load_sampler takes the model in place of its weights: write load_sampler('auto', model=model, data=data)"
        )
    kind: Any = find_sampler(sampler)
    if isinstance(kind, Kernel):
        return kind
    if kind is not None:
        return kind(n_threads=n_threads) if "n_threads" in kind._parameter_names() else kind()
    if model is None or data is None:
        raise ValueError(
            "load_sampler: what 'auto' stands for depends on the model and its rows: write load_sampler('auto',"
            " model=model, data=data), or load_sampler('gibbs')"
        )
    return automatic_sampler(model, data, n_threads=n_threads)
