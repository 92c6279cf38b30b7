"""When a variational pass makes the graph of near clusters, and when it scores all clusters."""

import numpy as np
from scipy import sparse

from expfam import Dataset, MixtureModel, Multinomial, SphericalGaussian, SymmetricDirichlet
from expfam.samplers import Full, SparseVariational
from expfam.samplers.variational import local_step
from expfam.samplers.variational.candidate_passes import cheaper_than_bounds, graph_pays


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


def test_counts_decide_where_integers_bound_the_scores_of_all_clusters(monkeypatch):
    X = np.random.default_rng(0).normal(size=(3000, 60))
    choices = {}
    for has in (False, True):
        monkeypatch.setattr(local_step, "may_code", lambda n_points, n_columns, has=has: has)
        for dtype in ("float32", "float64"):
            kernel = SparseVariational(2, schedule=Full(), tol=0.0, dtype=dtype)
            model = MixtureModel(SphericalGaussian(), SymmetricDirichlet(150)).bind(X)
            state = kernel.init(model, X, seed=0, start=np.arange(3000) % 150)
            assert state.passes.has_bounds == (has and dtype == "float32")
            state.share_moved = 0.0
            choices[has, dtype] = kernel.step(state).extra["all_clusters"]
    assert choices == {(False, "float32"): 0, (False, "float64"): 0, (True, "float32"): 1, (True, "float64"): 0}


def test_more_rows_of_each_cluster_make_candidates_pay():
    for n_clusters, n_statistics in ((256, 65), (1024, 385), (4096, 128)):
        pays = [cheaper_than_bounds(n, n_clusters, n_statistics, 48) for n in (n_clusters, 100 * n_clusters, 10**8)]
        assert pays == [False, True, True]
