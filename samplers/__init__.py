"""Kernels that move a state of a model, and the one loop that drives them."""

from importlib import import_module

_HOMES = {
    "expfam.samplers.kernel": ["Kernel", "Cycle", "RandomScan"],
    "expfam.samplers.state": ["CollapsedState", "UncollapsedState"],
    "expfam.samplers.sampling": ["sample", "steps"],
    "expfam.samplers.gibbs": ["CollapsedGibbs", "GroupedGibbs"],
    "expfam.samplers.grouped_state": ["GroupedState"],
    "expfam.samplers.uncollapsed": ["UncollapsedKernel", "UncollapsedGibbs", "StochasticEM"],
    "expfam.samplers.em": ["ExpectationMaximization", "ExpectationState"],
    "expfam.samplers.uncollapsed_metropolis": ["UncollapsedMetropolis"],
    "expfam.samplers.metropolis": ["CollapsedMetropolis"],
    "expfam.samplers.proposals.proposal": ["Proposal"],
    "expfam.samplers.proposals.snapshot": ["Snapshot"],
    "expfam.samplers.proposals.table": ["TableProposal"],
    "expfam.samplers.hyper": ["UpdateHyper"],
    "expfam.samplers.hierarchy": ["HierarchicalClustering", "MergeState"],
    "expfam.samplers.hierarchy_tree": ["HierarchyTree"],
    "expfam.samplers.trace": ["Trace"],
    "expfam.samplers.callbacks": ["Stop", "Checkpoint", "Progress", "Collect"],
    "expfam.samplers.starts": ["starting_labels"],
    "expfam.samplers.progressive": ["Progressive"],
    "expfam.samplers.merging": ["merged_clusters", "merged_labels"],
    "expfam.samplers.split_merge": ["CollapsedSplitMerge"],
    "expfam.samplers.split_moves": ["AnchoredMoves", "MemberMoves", "BucketMoves", "SoftmaxMoves", "CutMoves"],
    "expfam.samplers.proposals.anchors": ["Anchors", "UniformAnchors", "NearAnchors", "FarAnchors"],
    "expfam.samplers.proposals.allocators": [
        "Allocator",
        "CoinAllocator",
        "UrnAllocator",
        "SequentialAllocator",
        "RestrictedGibbsAllocator",
        "CodeAllocator",
        "DelayedAllocator",
        "FrozenAllocator",
    ],
    "expfam.samplers.systems": ["FastEx", "Canopy", "SplitMerge", "load_sampler"],
    "expfam.samplers.proposals.prototype": ["PrototypeProposal"],
    "expfam.samplers.proposals.hash": ["HashProposal"],
    "expfam.samplers.proposals.int8": ["Int8Proposal"],
    "expfam.samplers.proposals.grouped": ["GroupedProposal", "BucketProposal"],
    "expfam.samplers.proposals.nearest": ["NearestProposal"],
    "expfam.samplers.proposals.cover_tree": ["CoverTreeProposal"],
    "expfam.structures.cluster_tree.tree": ["ClusterTree"],
    "expfam.samplers.variational": ["SparseVariational"],
    "expfam.samplers.variational_state": ["VariationalState"],
    "expfam.samplers.cluster_moves": ["ClusterMoves"],
    "expfam.samplers.stream": ["VariationalStream"],
    "expfam.samplers.topic_gibbs": ["TopicGibbs", "TokenState"],
    "expfam.samplers.topics": ["TopicVariational", "TopicState"],
    "expfam.samplers.grouped": ["GroupedVariational", "GroupedVariationalState"],
    "expfam.samplers.grouped_stream": ["GroupedStream"],
    "expfam.samplers.topic_stream": ["TopicStream"],
    "expfam.samplers.schedules": ["Full", "Memoized", "Stochastic"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = list(_HOME_OF)


def __getattr__(name):
    if name in _HOME_OF:
        value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
        return value
    raise AttributeError(f"module 'expfam.samplers' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
