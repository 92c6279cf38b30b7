"""Samplers by name: one table for all estimators, and compositions of kernels with recommended settings.

The rule of ``"auto"`` for mixtures: exact collapsed Gibbs, for every family and size, with splits and merges where the
number of clusters is open.
"""

from __future__ import annotations

from typing import Any

from expfam.errors import ExpFamError
from expfam.families.base import Family
from expfam.params import refuse_unused
from expfam.samplers.chain.kernel import Cycle, Kernel
from expfam.samplers.collapsed.gibbs import CollapsedGibbs
from expfam.samplers.collapsed.metropolis import CollapsedMetropolis
from expfam.samplers.grouped.gibbs import GroupedGibbs
from expfam.samplers.grouped.variational import GroupedVariational
from expfam.samplers.hierarchy.kernel import HierarchicalClustering
from expfam.samplers.proposals.by_name import named_proposal
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
from expfam.samplers.starts.rules import default_n_clusters
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.samplers.topics.variational import TopicVariational
from expfam.samplers.uncollapsed.em import ExpectationMaximization
from expfam.samplers.uncollapsed.kernel import UncollapsedGibbs, UncollapsedKernel
from expfam.samplers.uncollapsed.metropolis import UncollapsedMetropolis
from expfam.samplers.uncollapsed.stochastic_em import StochasticEM
from expfam.samplers.variational.mixture import SparseVariational

TABLE_BYTES = 1 << 30  # largest table of counts that is chosen unasked
WIDEST_INT8 = 1024  # statistics a row up to which codes of one byte each are chosen


class FastEx(CollapsedMetropolis):
    """Fast collapsed sweeps over many clusters: cheap proposals over all of them, corrected to be exact.

    Parameters
    ----------
    proposal : str or Proposal
        ``"auto"``, the name of a registered proposal, or one with its settings.
    mode, n_blocks, n_threads
        As of `CollapsedMetropolis`.

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
    Ahmed, Ravi, Narayanamurthy and Smola 2012, "FastEx: hash clustering with exponential families". The rule of
    ``proposal="auto"``, by family and sizes: multinomial and Poisson clusters whose table of logarithms takes at
    most 1 GiB get `TableProposal`; else up to 1024 statistics a row `Int8Proposal`; else `HashProposal`, whose codes
    do not grow with the number of columns. One that refuses the data, as a table refuses fractions, is passed over.
    The published proposal is ``HashProposal(n_bits=64, shortlist=0)``.
    """

    def __init__(self, proposal="auto", *, mode="auto", n_blocks="auto", n_threads=None):
        super().__init__(proposal, mode=mode, n_blocks=n_blocks, n_threads=n_threads)

    def choose_proposal(self, model, data):
        """The proposal of a name, or what the rule of "auto" picks."""
        is_auto = isinstance(self.proposal, str) and self.proposal == "auto"
        return named_proposal(proposal_for(model, data) if is_auto else self.proposal)


def proposal_for(model, data):
    """Name of the proposal that suits a model and its data: by family and sizes the first that does not refuse them.

    Parameters
    ----------
    model : MixtureModel
    data : Dataset

    Returns
    -------
    str
        The first choice where all refuse: its reason is the one to tell.
    """
    names = ["int8", "hash"] if data.n_statistics <= WIDEST_INT8 else ["hash"]
    if getattr(model.family, "count_model", None) in ("multinomial", "poisson"):
        n_clusters = model.weights.max_components or 2 * default_n_clusters(model, data.n_rows)
        if named_proposal("table").memory(model, data, n_clusters) <= TABLE_BYTES:
            names.insert(0, "table")
    return next((name for name in names if _serves(named_proposal(name), model, data)), names[0])


def _serves(proposal, model, data):
    """Whether a proposal takes the model and its data."""
    try:
        proposal.check(model, data)
    except ExpFamError:
        return False
    return True


class Canopy(UncollapsedKernel):
    """All labels in parallel given parameters, by trees: exact over a tree of clusters, or by groups of data.

    Parameters
    ----------
    proposal : str or Proposal
        Of variant 1: "prototype", the name of a registered proposal, or one with its settings.
    variant : {2, 1}
        2: exact draws of the labels by branch and bound over a tree of the clusters, `UncollapsedGibbs` with
        ``draw="tree"``. 1: Metropolis steps with a law for each group of neighbouring data, `UncollapsedMetropolis`;
        sweeps are far cheaper and mix slower.
    steps : int
        Of variant 1: Metropolis steps of each datum in a sweep, before its exact draw among the clusters that its
        group lists.
    theta : {"draw", "map", "mean"}
        Parameters and weights given labels: only "draw" leaves the posterior invariant, the others are stochastic EM.
    truncation : int
        Number of sticks kept under a Dirichlet process or Pitman-Yor prior; a symmetric Dirichlet has its own number.
    n_threads : int or None
        Threads for the labels; the result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import Canopy, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = Canopy(variant=1)
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(5)), X, seed=0)
    >>> trace = sample(kernel, state, 30)
    >>> len(set(state.labels[:20])), len(set(state.labels[20:]))
    (1, 1)

    Notes
    -----
    Zaheer, Kottur, Ahmed, Moura and Smola 2017, "Canopy: fast sampling with cover trees", whose two samplers these
    replace. As published they are ``UncollapsedMetropolis(PrototypeProposal(data_cells="tree", n_anchors=0), steps=2,
    redraw=False, theta="map")`` and ``UncollapsedGibbs(draw="rejection", theta="map")``.
    """

    def __init__(self, proposal="prototype", *, variant=2, steps=2, theta="draw", truncation=100, n_threads=None):
        super().__init__(theta=theta, truncation=truncation, n_threads=n_threads)
        self.variant, self.proposal, self.steps = variant, proposal, steps

    def kernel(self):
        """The kernel that the variant stands for."""
        settings = {"theta": self.theta, "truncation": self.truncation, "n_threads": self.n_threads}
        if self.variant == 2:
            refuse_unused(self, ["proposal", "steps"], why="variant=2, which draws exactly,", remedy="take variant=1")
            return UncollapsedGibbs(draw="tree", **settings)
        if self.variant != 1:
            raise ValueError(f"variant must be 1 or 2; got {self.variant!r}")
        return UncollapsedMetropolis(self.proposal, steps=self.steps, **settings)

    def check(self, model, data):
        """That of the variant's kernel."""
        self.kernel().check(model, data)

    def memory(self, model, data, n_clusters):
        """That of the variant's kernel."""
        return self.kernel().memory(model, data, n_clusters)

    def draw_labels(self, state):
        """New labels of all data, by the variant's kernel."""
        return self.kernel().draw_labels(state)

    def move(self, state):
        """A sweep of the variant's kernel."""
        return self.kernel().move(state)


class SplitMerge(CollapsedSplitMerge):
    """Splits and merges of whole clusters, for an unknown number of them: they leave modes that sweeps cannot leave.

    Use it in a `Cycle` with sweeps, such as those of `CollapsedGibbs`: no preset moves single data well, and alone some
    are reducible. "near" joins or parts only data that share a bucket of a hash table; "mondrian" cannot part equal
    rows, nor join them; "minsm" cannot part by its buckets what no bucket parts, and leaves that to the rare splits of
    near data. The law `partitions_are_reached` of `check_kernel` says so where it happens.

    Parameters
    ----------
    preset : str
        - "auto": splits of the cluster of a random datum by a sequential pass, half of them with early tests (delayed
          acceptance), and merges of near data, cheap ones and such by a sequential pass; for families written in NumPy
          the splits draw all data at once, and merges are the cheap ones;
        - "near": the cheap merges of near data alone; reducible;
        - "lshsm": far data split by a sequential pass, near data merged;
        - "minsm": splits by a bucket of a hash table, near data merged; alone it reaches some partitions rarely;
        - "sdds": splits by a sequential pass with random merges, random splits with merges chosen by Bayes factors;
        - "rgsm": uniform data, restricted Gibbs scans;
        - "random": uniform data, a coin for each datum;
        - "mondrian": cuts of one column; reducible.
    anchors : str or Anchors, optional
        Law of the two data of a move. In place of the preset: then all moves are between anchors, uniform if not given.
    allocator : str or Allocator, optional
        Division between anchors, likewise in place of the preset; a sequential pass if only `anchors` are given.
    rho : float in (0, 1], optional
        Probability with which a split of two anchors in one cluster is tried; in place of the preset's.
    n_moves, every, n_threads
        As of `CollapsedSplitMerge`.

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
    Departs from the papers: anchors stay part of the move and are not summed out; buckets count as they stand in place
    of average collision probabilities; the random split draws its sizes from urns, not from coins, but for "random".
    Jain and Neal 2004 ("random", "rgsm"), Dahl 2005 (the sequential pass), Wang and Russell 2015 ("sdds").
    """

    def __init__(
        self, preset="auto", *, anchors=None, allocator=None, rho=None, n_moves="auto", every="auto", n_threads=None
    ):
        self.preset, self.anchors, self.allocator, self.rho = preset, anchors, allocator, rho
        self.n_moves, self.every, self.n_threads = n_moves, every, n_threads

    def choose_moves(self, model, data):
        """The moves of the preset, or those between the given anchors."""
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {sorted(PRESETS)}; got {self.preset!r}")
        if self.anchors is not None or self.allocator is not None:
            why = "a law of anchors or an allocator, which stands in place of the preset,"
            refuse_unused(self, ["preset"], why=why, remedy="leave out anchors and allocator")
            rho = 1.0 if self.rho is None else self.rho
            return [AnchoredMoves(named_proposal(self.anchors), named_proposal(self.allocator), rho=rho)]
        moves = PRESETS[self.preset](self.n_threads, _passes(model.family))
        return moves if self.rho is None else _thinned(moves, self.rho, self.preset)


def _thinned(moves, rho, preset):
    """The moves, those between anchors with another rho."""
    if not any(isinstance(move, AnchoredMoves) for move in moves):
        raise ValueError(f"rho is of moves between anchors, which preset {preset!r} has none of; leave it out")
    return [
        AnchoredMoves(**(move.get_params() | {"rho": rho})) if isinstance(move, AnchoredMoves) else move
        for move in moves
    ]


def _near(n_threads, n_candidates=1, weight=1.0, allocator=None):
    # cheap merges; splits of n data are tried with probability 10 / n at most, so that their cost is bounded
    anchors = NearAnchors(n_candidates=n_candidates, n_threads=n_threads)
    return AnchoredMoves(anchors, allocator or UrnAllocator(), rho=0.05, most=10.0, weight=weight)


def _near_merges(n_threads, passes):
    """Merges of near data: urns undo pieces that lie among each other at no cost, passes also those side by side.

    A pass that Python makes would take far longer than all the rest.
    """
    allocators = [UrnAllocator(), *(each for each in passes if isinstance(each, SequentialAllocator))]
    return [_near(n_threads, _CANDIDATES, 40.0 / len(allocators), allocator) for allocator in allocators]


def _passes(family):
    """Allocators of the sequential kind; for a family in NumPy one that works on all rows at once."""
    if type(family).components is Family.components and "variational" in family.capabilities:
        return [FrozenAllocator()]
    return [SequentialAllocator(), DelayedAllocator()]


_CANDIDATES = 64  # of which a near anchor is the nearest, at most

PRESETS = {
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
    "GroupedMixture": {"gibbs": GroupedGibbs, "variational": GroupedVariational},
    "TopicModel": {"gibbs": TopicGibbs, "variational": TopicVariational},
    "BayesianHierarchy": {},
}
_KERNELS: dict[str, tuple[type, ...]] = {
    "Mixture": (Kernel,),
    "GroupedMixture": (GroupedGibbs, GroupedVariational),
    "TopicModel": (TopicGibbs, TopicVariational),
    "BayesianHierarchy": (HierarchicalClustering,),
}


def find_sampler(sampler: Any, *, model: str = "Mixture") -> Any:
    """Return the class of a named sampler, a given kernel as it is, and None for "auto".

    Parameters
    ----------
    sampler : str or Kernel
    model : {"Mixture", "GroupedMixture", "TopicModel", "BayesianHierarchy"}
        The estimator, whose names and kernels are taken.

    Returns
    -------
    type, Kernel or None

    Raises
    ------
    ValueError
        For anything else; the message lists the names that the estimator takes.

    Examples
    --------
    >>> from expfam.samplers.named import find_sampler
    >>> find_sampler("gibbs").__name__, find_sampler("gibbs", model="TopicModel").__name__
    ('CollapsedGibbs', 'TopicGibbs')
    """
    kernels, by_name = _KERNELS[model], _BY_NAME[model]
    if isinstance(sampler, kernels):
        return sampler
    if isinstance(sampler, str) and sampler == "auto":
        return None
    if isinstance(sampler, str) and sampler in by_name:
        return by_name[sampler]
    names = ", ".join(map(repr, ["auto", *by_name]))
    examples = " or ".join(f"{kernel.__name__}(...)" for kernel in (kernels if model != "Mixture" else (FastEx,)))
    found = f"{sampler!r}"
    if isinstance(sampler, type):
        found = f"the class {sampler.__name__}; write {sampler.__name__}()"
    raise ValueError(f"{model}: sampler must be {names}, or a kernel such as {examples}; got {found}")


def load_sampler(sampler: Any = "auto", *, n_threads: int | None = None, weights: Any = None) -> Kernel:
    """Return the kernel of a name; a kernel is returned as it is.

    Parameters
    ----------
    sampler : str or Kernel
        ``"auto"``, ``"gibbs"``, ``"uncollapsed_gibbs"``, ``"fastex"``, ``"canopy"``, ``"split_merge"``,
        ``"stochastic_em"``, ``"em"``, ``"variational"``, or a kernel.
    n_threads : int or None
        For the kernels that can use several threads.
    weights : Weights, optional
        Those of the model: where they leave the number of clusters open, ``"auto"`` adds splits and merges.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> from expfam.samplers import load_sampler
    >>> load_sampler("auto")
    CollapsedGibbs(order='sequential')
    """
    kind: Any = find_sampler(sampler)
    if isinstance(kind, Kernel):
        return kind
    if kind is None and weights is not None and weights.max_components is None:
        return Cycle(SplitMerge(n_threads=n_threads), CollapsedGibbs())
    kind = CollapsedGibbs if kind is None else kind
    return kind(n_threads=n_threads) if "n_threads" in kind._parameter_names() else kind()
