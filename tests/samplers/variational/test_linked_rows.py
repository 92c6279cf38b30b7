"""Variational inference with rows that belong together: each link group is one item with the sums of its rows."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

from expfam import Dataset, DirichletProcess, Known, Mixture, MixtureModel, Poisson, SymmetricDirichlet
from expfam.errors import DataError
from expfam.samplers import Full, Memoized, SparseVariational, Stochastic, sample
from expfam.samplers.variational.features import phi_blocks
from expfam.samplers.variational.linked_rows import linked_rows

N, K = 60, 3
RNG = np.random.default_rng(0)
Z = RNG.integers(0, K, N)
X = RNG.poisson(np.array([[1.0, 8.0], [8.0, 1.0], [4.0, 4.0]])[Z])
LINKS = np.where(np.arange(N) < 24, np.arange(N) % 6, -1)  # rows of different clusters, far from each other
WEIGHT = RNG.random(N) + 0.5
Y = np.where(np.arange(N) > 50, Z, -1)
PRIORS = {"dirichlet": SymmetricDirichlet(K), "dp": DirichletProcess()}


def written_out(state, weight, known):
    """Counts, sums, entropy and log sum exp of all items under the present posterior, item by item."""
    posterior, phi = state.posterior, np.asarray(state.data.phi(0, N))
    scores = weight[:, None] * (phi @ posterior.theta.T + posterior.log_pi - posterior.g)
    n, S, entropy, value = np.zeros(state.K), np.zeros((state.K, phi.shape[1])), 0.0, 0.0
    for rows in [*known.groups, *(np.array([row]) for row in range(N) if row in known.free)]:
        copies = weight[rows[0]] if len(rows) == 1 else 1.0  # a row of weight w alone is w rows
        own = scores[rows].sum(axis=0) / copies
        total = logsumexp(own)
        r = np.exp(own - total)
        n += r * weight[rows].sum()
        S += np.outer(r, weight[rows] @ phi[rows])
        entropy -= copies * (r * np.log(np.where(r > 0, r, 1.0))).sum()
        value += copies * total
    for row in np.flatnonzero(known.classes >= 0) if known.classes is not None else ():
        n[known.classes[row]] += weight[row]
        S[known.classes[row]] += weight[row] * phi[row]
        value += scores[row, known.classes[row]]
    return n, S, entropy, value


def fitted(rows, known, weight, prior, kernel, n_steps=150, start="auto"):
    data = Dataset(rows, Poisson(), known=known, weight=weight)
    state = kernel.init(MixtureModel(data.family, prior), data, seed=0, start=start)
    return state, sample(kernel, state, n_steps).column("objective")


@pytest.mark.parametrize("schedule", [Full(), Memoized(n_batches=4)], ids=["full", "memoized"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["rows", "weights"])
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("rows", [X, sparse.csr_array(X.astype(float))], ids=["dense", "csr"])
def test_statistics_and_bound_are_those_of_the_items_written_out(schedule, weight, prior, rows):
    known = Known(links=LINKS)
    kernel = SparseVariational(None, schedule=schedule, dtype="float64", tol=0.0, truncation=4)
    state, bounds = fitted(rows, known, weight, prior, kernel)
    n, S, entropy, value = written_out(state, np.ones(N) if weight is None else weight, known)
    np.testing.assert_allclose(state.n, n, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(state.S, S, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(state.entropy, entropy, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(state.log_joint, value - state.posterior.divergence(), rtol=1e-6)
    assert (np.diff(bounds) >= -1e-9 * abs(bounds[-1])).all()
    assert known.agrees(state.labels)
    state.check()


def test_known_classes_and_links_go_together():
    known = Known(Y, links=LINKS)
    kernel = SparseVariational(None, schedule=Full(), dtype="float64", tol=0.0)
    state, _ = fitted(X, known, WEIGHT, SymmetricDirichlet(K), kernel)
    n, S, _, value = written_out(state, WEIGHT, known)
    np.testing.assert_allclose(state.n, n, rtol=1e-4)
    np.testing.assert_allclose(state.S, S, rtol=1e-4)
    np.testing.assert_allclose(state.log_joint, value - state.posterior.divergence(), rtol=1e-6)
    assert known.agrees(state.labels)


@pytest.mark.parametrize("schedule", [Full(), Memoized(n_batches=4), Stochastic(batch_size=16)])
@pytest.mark.parametrize("memo", ["statistics", "rows"])
def test_few_kept_clusters_keep_groups_together(schedule, memo):
    memo = memo if isinstance(schedule, Memoized) else "auto"
    known = Known(links=LINKS)
    kernel = SparseVariational(2, schedule=schedule, memo=memo, dtype="float64")
    state, bounds = fitted(X, known, None, SymmetricDirichlet(5), kernel, n_steps=20)
    kernel.finish(state)
    assert known.agrees(state.labels)
    if not isinstance(schedule, Stochastic):
        assert (np.diff(bounds) >= -1e-9 * abs(bounds[-1])).all()
        responsibilities = state.rows().toarray()
        for rows in known.groups:
            np.testing.assert_allclose(responsibilities[rows], responsibilities[rows[:1]].repeat(len(rows), axis=0))


def test_candidates_score_groups_as_passes_over_all_clusters_do():
    rng = np.random.default_rng(1)
    rows = rng.poisson(rng.gamma(2.0, 20.0, size=(12, 4))[rng.integers(0, 12, 400)])
    known = Known(links=np.where(np.arange(400) < 200, np.arange(400) // 2, -1))
    data = Dataset(rows, Poisson(), known=known)
    kernel = SparseVariational(3, n_candidates=6, schedule=Full(), dtype="float64", tol=1e-9, full_every=4)
    state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(12)), data, seed=0)
    bounds = sample(kernel, state, 40).column("objective")
    assert (np.diff(bounds) >= -1e-9 * abs(bounds[-1])).all()
    assert known.agrees(state.labels)


def test_links_change_the_fit_and_no_links_leave_it_as_it_is():
    kernel = SparseVariational(None, schedule=Full(), dtype="float64")
    start = Known(links=LINKS).agreeing(Z)
    states = [
        fitted(X, known, None, SymmetricDirichlet(K), kernel, n_steps=10, start=start)[0]
        for known in (None, Known(links=np.full(N, -1)), Known(links=LINKS))
    ]
    np.testing.assert_array_equal(states[0].S, states[1].S)
    assert abs(states[0].n - states[2].n).max() > 0.1


@pytest.mark.parametrize("rows", [X, sparse.csr_array(X.astype(float))], ids=["dense", "csr"])
def test_statistics_of_linked_rows_are_the_means_of_their_groups(rows):
    data = Dataset(rows, Poisson(), known=Known(links=LINKS), weight=WEIGHT)
    phi = phi_blocks(data, data.family, dtype="float64")
    linked, chosen = linked_rows(phi, data), np.array([0, 40, 6, 25])
    found = linked.entries(chosen) if phi.is_sparse else linked.fill(chosen, np.empty((4, phi.n_statistics)))
    if phi.is_sparse:
        found = sparse.csr_array((found[2], found[1], found[0]), shape=(4, phi.n_statistics)).toarray()
    own = data.phi(0, N)
    own = own.toarray() if sparse.issparse(own) else np.asarray(own)
    mean = np.average(own[LINKS == 0], axis=0, weights=WEIGHT[LINKS == 0])
    np.testing.assert_allclose(found, [mean, own[40], mean, own[25]])


@pytest.mark.parametrize("family", ["poisson", "gaussian", "gaussian_diag"])
def test_a_mixture_is_the_same_with_any_number_of_threads(family):
    rows = X if family == "poisson" else X.astype(float)
    found = [
        Mixture(family, 3, sampler="variational", n_threads=n, random_state=0).fit(rows, links=LINKS) for n in (1, 2)
    ]
    np.testing.assert_array_equal(found[0].labels_, found[1].labels_)
    assert found[0].log_joint_ == found[1].log_joint_
    assert Known(links=LINKS).agrees(found[0].labels_)


@pytest.mark.parametrize("labels", [None, "clusters"])
@pytest.mark.parametrize("n_components", [3, None])
def test_links_of_a_chunk_keep_its_rows_together(labels, n_components):
    if labels and n_components is None:
        pytest.skip("classes on ordered sticks are refused")
    mixture = Mixture("poisson", n_components, sampler="variational", labels=labels, random_state=0)
    y = None if labels is None else Y
    for batch in (0, 1, 0, 1):
        mixture.partial_fit(X, y, batch=batch, links=LINKS)
        assert Known(None if y is None else Y, links=LINKS).agrees(mixture.labels_)
    np.testing.assert_allclose(mixture.n_.sum(), 2 * N, rtol=0.02)
    free = Mixture("poisson", n_components, sampler="variational", labels=labels, random_state=0).partial_fit(X, y)
    assert not Known(links=LINKS).agrees(free.labels_)


def test_links_of_another_length_than_the_chunk_are_refused():
    mixture = Mixture("poisson", 3, sampler="variational")
    with pytest.raises(DataError, match="links has 24 values, the chunk has 60 rows"):
        mixture.partial_fit(X, links=LINKS[:24])


@pytest.mark.parametrize("labels", [None, "clusters"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["rows", "weights"])
def test_chunks_of_tuples_with_links_are_learned_as_by_partial_fit(labels, weight):
    y = None if labels is None else Y
    settings = {"sampler": "variational", "labels": labels, "random_state": 0, "start": Known(links=LINKS).agreeing(Z)}
    settings["start"] = Known(Y, links=LINKS).agreeing(Z) if labels else settings["start"]
    whole = Mixture("poisson", K, **settings).fit_chunks(iter([(X, y, weight, LINKS)]))
    single = Mixture("poisson", K, **settings).partial_fit(X, y, weight, links=LINKS)
    np.testing.assert_array_equal(whole.S_, single.S_)
    unlinked = Mixture("poisson", K, **settings).partial_fit(X, y, weight)
    assert abs(unlinked.n_ - single.n_).max() > 0.01


def test_a_chunk_of_other_parts_names_the_tuple_with_links():
    with pytest.raises(DataError, match=r"got 3 parts; with links it is \(rows, y, sample_weight, links\)"):
        Mixture("poisson", K, sampler="variational").fit_chunks([(X, WEIGHT, LINKS)])
