"""Known rows in variational inference: all of their responsibility is in the cluster of their class."""

import numpy as np
import pytest

from expfam import (
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    Known,
    Mixture,
    MixtureModel,
    Poisson,
    SymmetricDirichlet,
)
from expfam.errors import CapabilityError, DataError, DataWarning
from expfam.samplers import ClusterMoves, Cycle, Full, Memoized, SparseVariational, Stochastic

RNG = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
Z = RNG.integers(0, 3, 300)
X = CENTRES[Z] + RNG.normal(size=(300, 2))
Y = np.where(RNG.random(300) < 0.2, Z, -1)
CHUNKS = [(X[start : start + 100], Y[start : start + 100]) for start in (0, 100, 200)]
LABELLED = {"labels": "clusters", "sampler": "variational", "random_state": 0}


@pytest.mark.parametrize("schedule", [Full(), Memoized(4)])
@pytest.mark.parametrize(("n_active", "n_candidates", "K"), [(None, None, 5), (1, None, 5), (2, None, 5), (2, 6, 20)])
@pytest.mark.parametrize("objective", ["vb", "map"])
def test_the_bound_never_falls_and_known_rows_are_whole_in_their_class(schedule, n_active, n_candidates, K, objective):
    kernel = SparseVariational(
        n_active,
        schedule=schedule,
        objective=objective,
        n_candidates=n_candidates,
        full_every=3,
        dtype="float64",
        tol=0.0,
    )
    data = Dataset(X, DiagonalGaussian(), known=Known(Y))
    state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(K, 2.0)), data, seed=0, start="kmeans++")
    bounds = [kernel.step(state).objective for _ in range(15)]
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1])
    state.check()
    held = Y >= 0
    np.testing.assert_array_equal(state.labels[held], Y[held])
    local = state.passes.local_step(slice(0, 300), state.tables(), keep=True)
    if not state.passes.is_dense:
        np.testing.assert_array_equal(local.indices[held, 0], Y[held])
        np.testing.assert_array_equal(local.values[held, 0], 1.0)
    assert (state.n[:3] >= np.bincount(Y[held]) - 1e-9).all()


def test_the_bound_is_that_of_the_responsibilities():
    """The bound by its definition: weights' and clusters' evidence at soft statistics, and the rows' entropy."""
    data = Dataset([[0], [1], [9], [10], [4]], Poisson(shape=1.0, rate=0.1), known=Known([0, -1, 1, -1, -1]))
    weights = SymmetricDirichlet(3, 1.0)
    kernel = SparseVariational(None, dtype="float64", tol=0.0)
    state = kernel.init(MixtureModel(data.family, weights), data, seed=0, start=[0, 0, 1, 1, 2])
    for _ in range(20):
        before = state.posterior
        kernel.step(state)
    scores = data.phi(0, 5) @ before.theta.T + before.log_pi - before.g
    r = np.exp(scores - scores.max(axis=1, keepdims=True))
    r[0], r[2] = [1, 0, 0], [0, 1, 0]
    r /= r.sum(axis=1, keepdims=True)
    n, S = r.sum(axis=0), r.T @ data.phi(0, 5)
    np.testing.assert_allclose(state.n, n, rtol=1e-9)
    entropy = -(r * np.log(np.where(r > 0, r, 1.0))).sum()
    bound = weights.log_evidence(n) + data.family.log_marginal(n, S).sum() + entropy
    assert state.log_joint == pytest.approx(bound, rel=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_mixture_numbers_clusters_by_class(dtype):
    mixture = Mixture("gaussian_diag", 5, **LABELLED | {"sampler": SparseVariational(dtype=dtype)}).fit(X, Y)
    np.testing.assert_array_equal(mixture.labels_[Y >= 0], Y[Y >= 0])
    assert mixture.cluster_classes_[:3].tolist() == [0, 1, 2]
    assert (mixture.predict_class(X) == Z).mean() > 0.95


def test_passes_over_chunks_are_those_over_all_rows():
    options = {"schedule": Memoized(3), "dtype": "float64", "tol": 0.0}
    start, names = np.arange(100) % 3, np.array(["ape", "bear", "cat", None], dtype=object)
    start = np.where(Y[:100] >= 0, Y[:100], start)
    counts = RNG.poisson(np.exp(CENTRES[Z] / 2))
    settings = LABELLED | {"sampler": SparseVariational(**options), "n_steps": 60}
    streamed = Mixture(Poisson(shape=1.0, rate=0.1), 3, **settings).set_params(start=start)
    streamed.fit_chunks([(counts[a : a + 100], names[Y[a : a + 100]]) for a in (0, 100, 200)])
    whole = Mixture(Poisson(shape=1.0, rate=0.1), 3, **settings)
    whole.set_params(start=np.where(Y >= 0, Y, np.arange(300) % 3)).fit(counts, names[Y])
    np.testing.assert_allclose(streamed.n_, whole.n_, rtol=1e-6)
    np.testing.assert_allclose(streamed.S_, whole.S_, rtol=1e-5)
    assert streamed.log_joint_ == pytest.approx(whole.log_joint_, rel=1e-9)
    assert streamed.classes_.tolist() == ["ape", "bear", "cat"]
    assert streamed.cluster_classes_.tolist() == [0, 1, 2]
    assert not hasattr(streamed, "n_known_")


def late_chunks():
    first = Z[:100] != 2
    return [(CHUNKS[0][0][first], CHUNKS[0][1][first]), *CHUNKS[1:]]


@pytest.mark.parametrize("schedule", [Memoized(), Stochastic(batch_size=100)])
def test_chunks_one_by_one_with_classes_that_come_later(schedule):
    mixture = Mixture("gaussian_diag", 6, **LABELLED | {"sampler": SparseVariational(schedule=schedule)})
    for rows, y in late_chunks():
        mixture.partial_fit(rows, y, classes=[0, 1, 2])
        assert mixture.cluster_classes_[:3].tolist() == [0, 1, 2]
        np.testing.assert_array_equal(mixture.labels_[y >= 0], y[y >= 0])
    mixture.partial_fit(X[:50])  # nothing is known of this chunk
    assert set(mixture.predict_class(X)) <= {-1, 0, 1, 2}


def test_a_class_that_comes_later_is_learned_in_passes():
    mixture = Mixture("gaussian_diag", 3, **LABELLED).fit_chunks(late_chunks(), classes=[0, 1, 2])
    assert (mixture.predict_class(X) == Z).mean() > 0.95


def test_learning_goes_on_after_a_fit_and_a_file(tmp_path):
    mixture = Mixture("gaussian_diag", 4, **LABELLED).fit(X, Y)
    mixture.partial_fit(*CHUNKS[0])
    assert mixture.cluster_classes_[:3].tolist() == [0, 1, 2]
    assert (mixture.predict_class(X) == Z).mean() > 0.9
    mixture.save(tmp_path / "m")
    loaded = Mixture.load(tmp_path / "m").partial_fit(*CHUNKS[1])
    mixture.partial_fit(*CHUNKS[1])
    np.testing.assert_allclose(loaded.n_, mixture.n_, rtol=1e-9)
    np.testing.assert_array_equal(loaded.predict_class(X), mixture.predict_class(X))


def test_a_fit_without_classes_forgets_those_before():
    mixture = Mixture("gaussian_diag", 4, **LABELLED).fit_chunks(CHUNKS)
    assert list(mixture.classes_) == [0, 1, 2]
    mixture.set_params(labels=None).fit_chunks([X])
    assert not hasattr(mixture, "classes_")
    assert not hasattr(mixture, "cluster_classes_")


@pytest.mark.parametrize(
    ("labels", "chunks", "options", "error", "words"),
    [
        ("clusters", [X], {}, DataError, r"a chunk is a tuple \(rows, y\).*got ndarray"),
        ("clusters", [(X, Y[:-1])], {}, DataError, "y has 299 values, the chunk has 300 rows"),
        ("clusters", [(X, np.full(300, -1))], {}, ValueError, "needs the classes: y of the first chunk, or classes="),
        ("clusters", [(X, np.minimum(Y, 1)), (X, Y)], {}, DataError, r"row \d+ of the chunk is of class 2, which the"),
        ("clusters", [(X, Y)], {"classes": [0, 1, 2, 3, 4, 5, 6]}, DataError, "y has 7 classes"),
        ("classes", [(X, Y)], {}, CapabilityError, "chunks are learned with labels='clusters'"),
    ],
)
def test_chunks_that_are_refused(labels, chunks, options, error, words):
    with pytest.raises(error, match=words):
        Mixture("gaussian_diag", 5, **LABELLED | {"labels": labels}).fit_chunks(chunks, **options)


def test_classes_are_set_once():
    mixture = Mixture("gaussian_diag", 5, **LABELLED).partial_fit(*CHUNKS[0])
    with pytest.raises(ValueError, match="are not those of the first chunk"):
        mixture.partial_fit(*CHUNKS[1], classes=[0, 1])
    plain = Mixture("gaussian_diag", 5, sampler="variational", random_state=0).fit(X)
    with pytest.raises(CapabilityError, match="the fit before had no classes"):
        plain.set_params(labels="clusters").partial_fit(*CHUNKS[0])
    with pytest.warns(DataWarning, match="y is ignored"):
        Mixture("gaussian_diag", 5, sampler="variational", random_state=0).partial_fit(*CHUNKS[0])


def test_what_variational_inference_refuses():
    data = Dataset(X, DiagonalGaussian(), known=Known(Y))
    with pytest.raises(CapabilityError, match="classes on ordered sticks are another model"):
        SparseVariational().init(MixtureModel(data.family, DirichletProcess()), data, seed=0)
    weights = SymmetricDirichlet(5, 1.0)
    with pytest.raises(CapabilityError, match="ClusterMoves cannot use labels='clusters'"):
        Cycle(SparseVariational(), ClusterMoves()).init(MixtureModel(data.family, weights), data, seed=0)
    linked = Dataset(X, DiagonalGaussian(), known=Known(links=np.zeros(300, dtype=int)))
    with pytest.raises(CapabilityError, match="ClusterMoves cannot use links"):
        Cycle(SparseVariational(), ClusterMoves()).init(MixtureModel(linked.family, weights), linked, seed=0)
