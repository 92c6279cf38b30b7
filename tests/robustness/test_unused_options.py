"""An option that the chosen algorithm does not use is refused by its name and value, with the remedy."""

import numpy as np
import pytest
from scipy import sparse

from expfam import (
    BayesianHierarchy,
    Dataset,
    DirichletProcess,
    GroupedMixture,
    Mixture,
    MixtureModel,
    Poisson,
    SymmetricDirichlet,
    TopicModel,
)
from expfam.errors import CapabilityError
from expfam.params import refuse_unused
from expfam.samplers import (
    Canopy,
    CollapsedMetropolis,
    FastEx,
    Full,
    GroupedVariational,
    HierarchicalClustering,
    Memoized,
    SparseVariational,
    SplitMerge,
    StochasticEM,
    TableProposal,
    UncollapsedGibbs,
    UrnAllocator,
)

X = np.random.default_rng(0).poisson([[4.0, 1.0, 1.0], [1.0, 4.0, 1.0]] * 15)
GROUPS = np.arange(30) % 3
TF_IDF = X + 0.5


def topics(X=X, **options):
    return lambda: TopicModel(3, n_steps=2, random_state=0, **options).fit(X)


def chunk_of_topics(**options):
    return lambda: TopicModel(3, random_state=0, **options).partial_fit(X)


def grouped(**options):
    return lambda: GroupedMixture("poisson", 2, n_steps=2, random_state=0, **options).fit(X, groups=GROUPS)


def tree(**options):
    return lambda: BayesianHierarchy("poisson", **options).fit(X)


def mixture(sampler):
    return lambda: Mixture("poisson", 3, sampler=sampler, n_steps=2, n_warmup=0, random_state=0).fit(X)


GRAPH = sparse.csr_array(np.ones((30, 30)))
REFUSED = {
    "schedule=Memoized(n_batches=20, run_length=1)": topics(local="gibbs", schedule=Memoized()),
    "n_active=2, documents='warm', n_restarts=0": topics(local="gibbs", n_active=2, documents="warm", n_restarts=0),
    "n_active=2": topics(local="gibbs", n_active=2, alpha=0.1),
    "n_warmup=3": topics(local="active", n_warmup=3),
    "n_warmup=4": topics(TF_IDF, n_warmup=4),
    "total_documents=90": topics(total_documents=90),
    "total_documents=91": topics(local="dense", schedule=Memoized(), total_documents=91),
    "total_documents=92": chunk_of_topics(schedule=Memoized(), total_documents=92),
    "n_warmup=5": grouped(sampler="variational", n_warmup=5),
    "n_warmup=6": grouped(sampler=GroupedVariational(), n_warmup=6),
    "cut='map'": tree(cut="map", n_clusters=2),
    "n_neighbors=4": tree(n_neighbors=4),
    "n_neighbors=5": tree(n_neighbors=5, candidates=GRAPH),
    "index=None": tree(index=None, candidates="knn"),
    "memo='statistics'": mixture(SparseVariational(schedule=Full(), memo="statistics")),
    "preset='near'": mixture(SplitMerge("near", allocator=UrnAllocator())),
    "steps=3": mixture(Canopy(steps=3)),
    "tau=3.0": mixture(UncollapsedGibbs(draw="dense", tau=3.0)),
    "draw='tree'": mixture(StochasticEM(draw="tree", proposal=TableProposal())),
    "n_blocks=3": mixture(FastEx(mode="removed", n_blocks=3)),
    "n_blocks=4": mixture(CollapsedMetropolis(TableProposal(), mode="frozen", n_blocks=4)),
}


@pytest.mark.parametrize("named", REFUSED)
def test_an_option_without_use_is_refused_by_name_with_the_remedy(named):
    with pytest.raises(CapabilityError, match=r": leave (it|them) out, or \w+") as caught:
        REFUSED[named]()
    assert f"does not use {named}: leave" in str(caught.value)


TAKEN = {
    "defaults written out": topics(n_active=None, documents="cold", schedule=None, n_restarts=5, n_warmup=2),
    "numpy numbers": topics(n_restarts=np.int64(5)),
    "a remedy": topics(local="active", schedule=Memoized(), n_active=2),
    "weights without copies": topics(TF_IDF, schedule=Memoized(), n_active=2),
    "no warm-up": topics(local="active", n_warmup=0),
    "chunks are never sampled": chunk_of_topics(n_active=2, documents="warm", n_restarts=0),
    "total of chunks": chunk_of_topics(total_documents=900),
    "groups without warm-up": grouped(sampler="variational", n_warmup=0),
    "groups with it": grouped(n_warmup=3),
    "a cut": tree(cut="map"),
    "neighbours": tree(candidates="knn", n_neighbors=4),
    "blocks": mixture(FastEx(mode="crossfit", n_blocks=3)),
    "blocks of what is chosen by size": mixture(FastEx(n_blocks=3)),
    "canopy": mixture(Canopy(variant=1, steps=3)),
}


def test_auto_takes_variational_inference_where_an_option_of_it_is_given():
    assert topics()().method_ == "gibbs"
    for options in ({"schedule": Memoized()}, {"n_active": 2}, {"documents": "warm"}, {"n_restarts": 0}):
        assert topics(**options)().method_ != "gibbs"


@pytest.mark.parametrize("case", TAKEN)
def test_an_option_that_is_used_is_taken(case):
    assert TAKEN[case]().n_features_in_ == 3


def test_a_hierarchy_refuses_before_it_tunes(monkeypatch):
    monkeypatch.setattr("expfam.estimators.hierarchy.tuned_family", None)
    with pytest.raises(CapabilityError, match="n_neighbors=4"):
        BayesianHierarchy("poisson", tune=True, n_neighbors=4).fit(X)


def test_a_kernel_refuses_by_itself():
    data = Dataset(X, Poisson())
    kernel = HierarchicalClustering(n_neighbors=3)
    with pytest.raises(CapabilityError, match="HierarchicalClustering: candidates=None does not use n_neighbors=3"):
        kernel.init(MixtureModel(data.family, DirichletProcess()), data)
    kernel = SplitMerge("near", anchors="uniform_anchors")
    with pytest.raises(CapabilityError, match=r"SplitMerge: .* does not use preset='near'"):
        kernel.init(MixtureModel(data.family, SymmetricDirichlet(2)), data, seed=0)


def test_an_array_is_no_default():
    model = TopicModel(3)
    model.n_warmup = np.array([1, 2])
    with pytest.raises(CapabilityError, match=r"does not use n_warmup=array\(\[1, 2\]\)"):
        refuse_unused(model, ["n_warmup", "schedule"], why="a test", remedy="nothing")
