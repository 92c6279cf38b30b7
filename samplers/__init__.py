"""Kernels that move the state of a model, and the loop that runs them."""

from typing import Any

from expfam.lazy import load_name

_HOMES = {
    "expfam.samplers.chain.kernel": ["Kernel", "Cycle", "RandomScan"],
    "expfam.samplers.states.collapsed": ["CollapsedState"],
    "expfam.samplers.states.uncollapsed": ["UncollapsedState"],
    "expfam.samplers.chain.driver": ["sample", "steps"],
    "expfam.samplers.collapsed.gibbs": ["CollapsedGibbs"],
    "expfam.samplers.collapsed.linked": ["LinkedGibbs"],
    "expfam.samplers.grouped.gibbs": ["GroupedGibbs"],
    "expfam.samplers.grouped.gibbs_state": ["GroupedState"],
    "expfam.samplers.uncollapsed.kernel": ["UncollapsedKernel", "UncollapsedGibbs"],
    "expfam.samplers.uncollapsed.stochastic_em": ["StochasticEM"],
    "expfam.samplers.uncollapsed.em": ["ExpectationMaximization", "ExpectationState"],
    "expfam.samplers.uncollapsed.metropolis": ["UncollapsedMetropolis"],
    "expfam.samplers.collapsed.metropolis": ["CollapsedMetropolis"],
    "expfam.samplers.proposals.base": ["Proposal"],
    "expfam.samplers.proposals.snapshot": ["Snapshot"],
    "expfam.samplers.proposals.table": ["TableProposal"],
    "expfam.samplers.shards.data": ["ShardedData"],
    "expfam.samplers.shards.grouped_gibbs": ["GroupedUncollapsedGibbs", "GroupedPartsState"],
    "expfam.samplers.shards.shard": ["WeightedRows"],
    "expfam.samplers.shards.split_merge": ["FrozenSplitMerge"],
    "expfam.samplers.shards.soft_state": ["ShardedExpectationState"],
    "expfam.samplers.shards.state": ["ShardedState"],
    "expfam.samplers.hyper.slice": ["UpdateHyper"],
    "expfam.samplers.hierarchy.kernel": ["HierarchicalClustering", "MergeState"],
    "expfam.samplers.hierarchy.tree": ["HierarchyTree"],
    "expfam.samplers.hierarchy.tuning": ["tuned_alpha", "tuned_family"],
    "expfam.samplers.chain.trace": ["Trace"],
    "expfam.samplers.chain.callbacks": ["Stop", "Checkpoint", "Progress", "Collect"],
    "expfam.samplers.starts.rules": ["starting_labels"],
    "expfam.samplers.starts.greedy_merge": ["merged_clusters", "merged_labels"],
    "expfam.samplers.split_merge.kernel": ["CollapsedSplitMerge"],
    "expfam.samplers.split_merge.moves": ["AnchoredMoves", "MemberMoves", "BucketMoves", "SoftmaxMoves", "CutMoves"],
    "expfam.samplers.split_merge.anchors": ["Anchors", "UniformAnchors", "NearAnchors", "FarAnchors"],
    "expfam.samplers.split_merge.allocators": [
        "Allocator",
        "CoinAllocator",
        "UrnAllocator",
        "SequentialAllocator",
        "RestrictedGibbsAllocator",
        "CodeAllocator",
        "DelayedAllocator",
        "FrozenAllocator",
    ],
    "expfam.samplers.named": ["FastEx", "Canopy", "SplitMerge", "load_sampler"],
    "expfam.samplers.proposals.prototype": ["PrototypeProposal"],
    "expfam.samplers.proposals.hash": ["HashProposal"],
    "expfam.samplers.proposals.int8": ["Int8Proposal"],
    "expfam.samplers.proposals.by_cell": ["CellProposal"],
    "expfam.structures.cluster_tree.tree": ["ClusterTree"],
    "expfam.samplers.variational.mixture": ["SparseVariational"],
    "expfam.samplers.variational.state": ["VariationalState"],
    "expfam.samplers.variational.cluster_moves": ["ClusterMoves"],
    "expfam.samplers.variational.stream": ["VariationalStream"],
    "expfam.samplers.topics.gibbs": ["TopicGibbs", "TokenState"],
    "expfam.samplers.topics.document_gibbs": ["DocumentGibbs", "DocumentState"],
    "expfam.samplers.nonparametric.groups": ["GroupedProcessGibbs"],
    "expfam.samplers.nonparametric.group_moves": ["GroupedProcessSplitMerge"],
    "expfam.samplers.nonparametric.group_variational": ["GroupedProcessVariational", "GroupedProcessVariationalState"],
    "expfam.samplers.nonparametric.group_sweep": ["GroupedProcessState"],
    "expfam.samplers.nonparametric.topic_moves": ["TopicProcessSplitMerge"],
    "expfam.samplers.nonparametric.topic_search": ["TopicProcessMerges"],
    "expfam.samplers.nonparametric.topic_variational": ["TopicProcessVariational", "TopicProcessVariationalState"],
    "expfam.samplers.nonparametric.topic_stream": ["TopicProcessStream"],
    "expfam.samplers.nonparametric.topics": ["TopicProcessGibbs", "TopicProcessState"],
    "expfam.samplers.topics.variational": ["TopicVariational", "TopicState"],
    "expfam.samplers.grouped.variational": ["GroupedVariational", "GroupedVariationalState"],
    "expfam.samplers.grouped.stream": ["GroupedStream"],
    "expfam.samplers.topics.stream": ["TopicStream"],
    "expfam.samplers.variational.schedules": ["Full", "Memoized", "Stochastic"],
}

__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    return load_name(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
