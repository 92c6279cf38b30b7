"""When a variational pass makes the graph of near clusters, and when it scores all clusters."""

import numpy as np
from scipy import sparse

from expfam import Dataset, MixtureModel, Multinomial, SphericalGaussian, SymmetricDirichlet
from expfam.samplers import Full, SparseVariational
from expfam.samplers.variational.candidate_passes import graph_pays


def begin(X, family, **settings):
    """Return a kernel of 150 clusters and its state at a start."""
    start = settings.pop("start", "random")
    kernel = SparseVariational(2, schedule=Full(), tol=0.0, dtype="float64", **settings)
    data = Dataset(X, family)
    return kernel, kernel.init(MixtureModel(data.family, SymmetricDirichlet(150)), data, seed=0, start=start)


def test_a_graph_that_would_cost_more_than_a_pass_is_not_made():
    rng = np.random.default_rng(0)
    words = sparse.random_array((300, 4000), density=0.002, rng=rng, data_sampler=lambda size: np.ones(size))
    kernel, state = begin(words.tocsr(), Multinomial(0.1), start=np.arange(300) % 150)
    assert not graph_pays(state)
    state.share_moved = 0.0
    assert kernel.step(state).extra["all_clusters"] == 1
    kernel, state = begin(rng.normal(size=(3000, 2)), SphericalGaussian())
    assert graph_pays(state)
    state.share_moved = 0.0
    assert kernel.step(state).extra["all_clusters"] == 0
