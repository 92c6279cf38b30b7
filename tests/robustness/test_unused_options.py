"""An option that the chosen algorithm does not use is refused by its name and value, with the remedy."""

import numpy as np
import pytest
from scipy import sparse

import expfam as ef
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
    Stochastic,
    StochasticEM,
    TableProposal,
    TopicGibbs,
    TopicVariational,
    UncollapsedGibbs,
    UrnAllocator,
)

X = np.random.default_rng(0).poisson([[4.0, 1.0, 1.0], [1.0, 4.0, 1.0]] * 15)
GROUPS = np.arange(30) % 3
TF_IDF = X + 0.5


def topics(X=X, **options):
    return lambda: ef.TopicModel(3, n_steps=2, random_state=0, **options).fit(X)


def chunk_of_topics(**options):
    return lambda: ef.TopicModel(3, random_state=0, **options).partial_fit(X)


def grouped(**options):
    return lambda: ef.GroupedMixture("poisson", 2, n_steps=2, random_state=0, **options).fit(X, groups=GROUPS)


def tree(**options):
    return lambda: ef.BayesianHierarchy("poisson", **options).fit(X)


def mixture(sampler):
    return lambda: ef.Mixture("poisson", 3, sampler=sampler, n_steps=2, n_warmup=0, random_state=0).fit(X)


GRAPH = sparse.csr_array(np.ones((30, 30)))
REFUSED = {
    "learn_hyper=True": topics(sampler=TopicGibbs(), learn_hyper=True),
    "learn_hyper=False": topics(sampler=TopicVariational(), learn_hyper=False),
    "n_warmup=3": topics(sampler="variational", n_warmup=3),
    "n_warmup=4": topics(TF_IDF, n_warmup=4),
    "n_draws=3": topics(sampler="variational", n_draws=3),
    "n_draws=4": topics(TF_IDF, n_draws=4),
    "n_draws=5": chunk_of_topics(n_draws=5),
    "n_total=90": topics(sampler=TopicVariational(schedule=Stochastic(n_total=90))),
    "n_warmup=5": grouped(sampler="variational", n_warmup=5),
    "n_warmup=6": grouped(sampler=GroupedVariational(), n_warmup=6),
    "cut='map'": tree(cut="map", n_components=2),
    "n_neighbors=4": tree(sampler=HierarchicalClustering(n_neighbors=4)),
    "n_neighbors=5": tree(sampler=HierarchicalClustering(n_neighbors=5, candidates=GRAPH)),
    "index=None": tree(sampler=HierarchicalClustering(index=None, candidates="knn")),
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
    "defaults written out": topics(learn_hyper="auto", start="auto", n_warmup=2),
    "numpy numbers": topics(sampler=TopicVariational(n_restarts=np.int64(5))),
    "weights without copies": topics(TF_IDF, sampler=TopicVariational(2, schedule=Memoized())),
    "no warm-up": topics(sampler="variational", n_warmup=0),
    "no draws": topics(sampler="variational", n_draws=0),
    "draws": topics(n_draws=2),
    "chunks are never sampled": chunk_of_topics(sampler=TopicVariational(2, documents="warm", n_restarts=0)),
    "total of chunks": chunk_of_topics(sampler=TopicVariational(schedule=Stochastic(n_total=900))),
    "groups without warm-up": grouped(sampler="variational", n_warmup=0),
    "groups with it": grouped(n_warmup=3),
    "a cut": tree(cut="map"),
    "neighbours": tree(sampler=HierarchicalClustering(candidates="knn", n_neighbors=4)),
    "blocks": mixture(FastEx(mode="crossfit", n_blocks=3)),
    "blocks of what is chosen by size": mixture(FastEx(n_blocks=3)),
    "canopy": mixture(Canopy(variant=1, steps=3)),
}


def test_auto_samples_whole_counts_and_a_kernel_says_what_it_is():
    assert topics()().method_ == "gibbs"
    assert topics(TF_IDF)().method_ == topics(sampler=TopicVariational())().method_ == "dense"


@pytest.mark.parametrize("case", TAKEN)
def test_an_option_that_is_used_is_taken(case):
    assert TAKEN[case]().n_features_in_ == 3


def test_a_hierarchy_refuses_before_it_tunes(monkeypatch):
    monkeypatch.setattr("expfam.estimators.tree_run.tuned_family", None)
    with pytest.raises(CapabilityError, match="n_neighbors=4"):
        ef.BayesianHierarchy("poisson", learn_hyper=True, sampler=HierarchicalClustering(n_neighbors=4)).fit(X)


def test_a_kernel_refuses_by_itself():
    data = ef.Dataset(X, ef.Poisson())
    kernel = HierarchicalClustering(n_neighbors=3)
    with pytest.raises(CapabilityError, match="HierarchicalClustering: candidates=None does not use n_neighbors=3"):
        kernel.init(ef.MixtureModel(data.family, ef.DirichletProcess()), data)
    kernel = SplitMerge("near", anchors="uniform_anchors")
    with pytest.raises(CapabilityError, match=r"SplitMerge: .* does not use preset='near'"):
        kernel.init(ef.MixtureModel(data.family, ef.SymmetricDirichlet(2)), data, seed=0)


def test_an_array_is_no_default():
    model = ef.TopicModel(3)
    model.n_warmup = np.array([1, 2])
    with pytest.raises(CapabilityError, match=r"does not use n_warmup=array\(\[1, 2\]\)"):
        refuse_unused(model, ["n_warmup", "start"], why="a test", remedy="nothing")
