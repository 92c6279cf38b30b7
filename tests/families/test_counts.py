"""Count families: evidences against independent references, compiled components against NumPy, named errors."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from instruction_sets import output_under
from scipy import sparse
from scipy.special import gammaln
from scipy.stats import dirichlet_multinomial, nbinom

from expfam import Categorical, Dataset, Multinomial, Poisson
from expfam.errors import DataError, DataTypeError, DataWarning, SupportError
from expfam.families.base import Family
from expfam.families.components import Components
from expfam.families.counts import categorical, pseudocounts
from expfam.families.counts.components import CountComponents

N, V, K = 60, 12, 7


def documents(seed=0, *, n_rows=N, n_words=V):
    """Counts with single, repeated and often repeated words; no empty row."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.4, (n_rows, n_words)).astype(np.float64)
    X[np.arange(n_rows), rng.integers(0, n_words, n_rows)] += rng.choice([1, 1, 1, 3, 30, 500], n_rows)
    return X


def codes(seed=0):
    return np.random.default_rng(seed).integers(-1, 4, (N, 9)).astype(np.float64)


def weights(seed=0):
    X = documents(seed)
    return X * np.random.default_rng(seed).uniform(0.1, 2.0, X.shape)


CASES = {
    "multinomial": (Multinomial(), documents()),
    "multinomial-vector": (Multinomial(concentration=np.geomspace(1e-3, 30, V)), documents()),
    "multinomial-small": (Multinomial(concentration=1e-6), documents()),
    "multinomial-fractional": (Multinomial(concentration=0.3, allow_fractional=True), weights()),
    "poisson": (Poisson(), documents()),
    "poisson-scalar": (Poisson(shape=0.7, rate=3.0), documents()),
    "categorical": (Categorical(), codes()),
    "categorical-scalar": (Categorical(concentration=2.5), codes()),
}
cases = pytest.mark.parametrize("case", CASES)
layouts = pytest.mark.parametrize("layout", ["features", "clusters"])
integer_cases = pytest.mark.parametrize("case", [c for c in CASES if c != "multinomial-fractional"])


def bound(case):
    family, X = CASES[case]
    return Dataset(X, family)


def some_statistics(data, seed=1):
    """Counts and dense sums of K clusters, one of them empty."""
    labels = np.random.default_rng(seed).integers(0, K - 1, data.n_rows)
    n, S = data.statistics(labels, K)
    return n, S.toarray() if sparse.issparse(S) else S


def reference(family, n, S):
    """Log evidence by plain definition."""
    if family.name == "poisson":
        a = np.broadcast_to(family.shape, S.shape[1])
        b = family.rate
        parts = gammaln(a + S) - gammaln(a) + a * np.log(b) - (a + S) * np.log(b + n)[:, None]
        return parts.sum(axis=1)
    if family.name == "multinomial":
        a = np.broadcast_to(family.concentration, S.shape[1])
        return _dirichlet(a, S)
    edges = family.offsets_
    a = np.broadcast_to(family.concentration, edges[-1])
    return sum(_dirichlet(a[i:j], S[:, i:j]) for i, j in pairwise(edges))


def _dirichlet(a, S):
    return (gammaln(a + S) - gammaln(a)).sum(axis=1) - gammaln(a.sum() + S.sum(axis=1)) + gammaln(a.sum())


# ---- the families in NumPy -----------------------------------------------------------------------------------------


@cases
def test_evidence_is_the_definition_dense_and_sparse(case):
    data = bound(case)
    n, S = some_statistics(data)
    A = data.family.log_marginal(n, S)
    np.testing.assert_allclose(A, reference(data.family, n, S), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(A, data.family.log_marginal(n, sparse.csr_array(S)), rtol=1e-13)
    assert A[K - 1] == 0.0
    if data.family.separable() is not None:
        np.testing.assert_allclose(data.family.total_log_marginal(n, sparse.csr_array(S)), A.sum(), rtol=1e-12)


def test_predictive_of_the_multinomial_is_dirichlet_multinomial():
    data = bound("multinomial-vector")
    n, S = some_statistics(data)
    predictive = data.family.log_predictive(data.X, n, S) + data.log_base[:, None]
    alpha = data.family.concentration + S
    expected = [[dirichlet_multinomial.logpmf(x, a, x.sum()) for a in alpha] for x in data.X]
    np.testing.assert_allclose(predictive, expected, rtol=1e-10, atol=1e-9)


def test_predictive_of_the_poisson_is_negative_binomial():
    data = bound("poisson-scalar")
    n, S = some_statistics(data)
    predictive = data.family.log_predictive(data.X, n, S) + data.log_base[:, None]
    b = data.family.rate + n
    expected = nbinom.logpmf(data.X[:, None, :], 0.7 + S, (b / (b + 1))[:, None]).sum(axis=2)
    np.testing.assert_allclose(predictive, expected, rtol=1e-10, atol=1e-9)


def test_missing_codes_are_integrated_out():
    family = Categorical(concentration=1.5).bind([[0, 2], [1, 0]])
    n, S = np.array([2.0]), family.sufficient_statistics(np.array([[0.0, 2.0], [1.0, -1.0]])).sum(axis=0)[None]
    both = [family.log_predictive([[1, level]], n, S)[0, 0] for level in range(3)]
    np.testing.assert_allclose(np.logaddexp.reduce(both), family.log_predictive([[1, -1]], n, S)[0, 0], rtol=1e-13)


@cases
def test_fast_predictive_is_the_derived_one(case):
    data = bound(case)
    n, S = some_statistics(data)
    fast = data.family.log_predictive(data.X, n, S)
    np.testing.assert_allclose(fast, Family.log_predictive(data.family, data.X, n, S), rtol=1e-11, atol=1e-9)
    np.testing.assert_array_equal(fast, data.family.log_predictive(data.X, n, sparse.csr_array(S)))
    assert data.family.log_predictive(data.X, n[:0], S[:0]).shape == (N, 0)


@cases
def test_gradient_of_the_evidence_is_the_posterior_mean(case):
    data = bound(case)
    n, S = some_statistics(data)
    theta, g = data.family.expected_natural(n, S)
    rng = np.random.default_rng(2)
    phi = data.phi(0, data.n_rows)
    direction = phi[rng.integers(0, N, K)]  # a feasible one: the gauge does not matter
    step = 1e-5
    up = data.family.log_marginal(n + step, S + step * direction)
    middle = data.family.log_marginal(n, S)
    up2 = data.family.log_marginal(n + 2 * step, S + 2 * step * direction)
    inside = n > 0
    numeric = (4 * up - 3 * middle - up2) / (2 * step)
    analytic = (direction * theta).sum(axis=1) - g
    np.testing.assert_allclose(numeric[inside], analytic[inside], rtol=1e-4, atol=1e-4)


@cases
def test_draws_average_to_the_posterior_mean(case):
    data = bound(case)
    n, S = some_statistics(data)
    k, size = 2, 4000
    theta, g = data.family.draw_natural(np.full(size, n[k]), np.tile(S[k], (size, 1)), np.random.default_rng(3))
    assert np.isfinite(theta).all()
    x = data.phi(0, 5)
    values = x @ theta.T - g
    mean_theta, mean_g = data.family.expected_natural(n[k : k + 1], S[k : k + 1])
    expected = x @ mean_theta[0] - mean_g[0]
    error = values.std(axis=1) / np.sqrt(size) + 1e-9 * (1 + np.abs(expected))
    assert (np.abs(values.mean(axis=1) - expected) < 5 * error).all()
    again, _ = data.family.draw_natural(np.full(size, n[k]), np.tile(S[k], (size, 1)), np.random.default_rng(3))
    np.testing.assert_array_equal(theta, again)


@cases
def test_map_is_the_mode_in_natural_coordinates(case):
    data = bound(case)
    family = data.family
    n, S = some_statistics(data)
    theta, g = family.map_natural(n, S)
    best = (S * theta).sum(axis=1) - n * g + family.log_prior(theta, g)
    np.testing.assert_allclose(family.log_partition(theta), g, rtol=1e-12, atol=1e-9)
    rng = np.random.default_rng(4)
    for _ in range(30):
        # perturbed parameters stay in the gauge through the usual parameters
        params = family.to_params(theta + 0.1 * rng.standard_normal(theta.shape), g)
        other, other_g = family.from_params(**params)
        value = (S * other).sum(axis=1) - n * other_g + family.log_prior(other, other_g)
        assert (value <= best + 1e-8 * (1 + np.abs(best))).all()


@integer_cases
def test_sampled_rows_have_the_gradient_of_the_log_partition_as_mean(case):
    data = bound(case)
    family = data.family
    n, S = some_statistics(data)
    theta, _ = family.map_natural(n[:1] + 50, S[:1] + 5)
    X = family.sample(theta, 6000, np.random.default_rng(5))
    phi = family.sufficient_statistics(X)
    phi = phi.toarray() if sparse.issparse(phi) else phi
    F, step = theta.shape[1], 1e-5
    shifts = step * np.eye(F)
    gradient = (family.log_partition(theta + shifts) - family.log_partition(theta - shifts)) / (2 * step)
    error = phi.std(axis=0) / np.sqrt(len(phi))
    assert (np.abs(phi.mean(axis=0) - gradient) < 5 * error + 1e-3).all()
    np.testing.assert_allclose(family.log_partition(theta), family.map_natural(n[:1] + 50, S[:1] + 5)[1], atol=1e-9)


def test_automatic_hyper_parameters():
    X = documents()
    assert Multinomial().bind(X).concentration == 0.5
    assert Multinomial().bind(sparse.csr_array((3, 2000)) + sparse.eye_array(3, 2000)).concentration == 0.25
    family = Poisson().bind(X)
    np.testing.assert_allclose(family.shape, X.mean(axis=0) + 1 / N, rtol=1e-15)
    assert family.rate == 1.0
    np.testing.assert_allclose(Poisson(rate=4.0).bind(X).shape, 4 * family.shape, rtol=1e-15)
    order = np.random.default_rng(0).permutation(N)
    assert Poisson().bind(X[order]) == family
    assert Multinomial(allow_fractional=True).bind(weights()[order]) == Multinomial(allow_fractional=True).bind(
        weights()
    )
    assert family.bind(X) is family


def test_hyper_parameters_are_learned_near_their_truth():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(50, 0.2), size=40)
    S = np.array([rng.multinomial(2000, row) for row in p], dtype=np.float64)
    family = Multinomial(concentration=1.0).bind(S)
    for _ in range(5):
        family = family.update_hyper(np.full(40, 20.0), sparse.csr_array(S), rng)
    assert 0.15 < family.concentration < 0.26


def test_values_equality_and_pickle():
    for case in CASES:
        family = bound(case).family
        assert pickle.loads(pickle.dumps(family)) == family
        assert {"collapsed", "variational", "draw", "map", "sample", "compiled"} == family.capabilities
    assert repr(Multinomial(0.25)) == "Multinomial(concentration=0.25, allow_fractional=False)"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Multinomial(-1.0), ValueError, "multinomial: concentration must be positive.* got -1.0"),
        (lambda: Multinomial([1.0, np.nan]), ValueError, r"concentration\[1\] must be positive.* got nan"),
        (
            lambda: Multinomial([1.0, 2.0]).bind(documents()),
            ValueError,
            "concentration must .* length 12; got length 2",
        ),
        (lambda: Multinomial("big"), ValueError, "concentration must be \"auto\" or positive; got 'big'"),
        (lambda: Poisson(rate=[1.0, 2.0]), ValueError, "poisson: rate must be a number"),
        (lambda: Poisson(shape=0.0), ValueError, "poisson: shape must be positive.* got 0.0"),
        (
            lambda: Multinomial().bind([[1, 0.5]]),
            SupportError,
            r"row 0, column 1 holds 0.5; .* take family=Multinomial\(allow_fractional=True\)",
        ),
        (lambda: Poisson().bind([[1, -2]]), SupportError, "poisson.* row 0, column 1 holds -2"),
        (lambda: Poisson().bind([[1, np.nan]]), DataError, "poisson.* row 0, column 1 holds nan"),
        (lambda: Poisson().bind([1, 2]), DataError, "poisson needs a two-dimensional"),
        (lambda: Poisson().bind(documents()).validate(np.ones((2, 3))), DataError, "3 features, but poisson.* 12"),
        (
            lambda: Categorical().bind([[0], [1]]).validate([[0], [2]]),
            SupportError,
            "column 0 .* row 1 .* unknown code 2",
        ),
        (
            lambda: Categorical().bind([[0.5]]),
            SupportError,
            "categorical needs integer codes.* row 0, column 0 holds 0.5",
        ),
        (lambda: Categorical().bind([[-2]]), SupportError, "row 0, column 0 holds -2"),
        (lambda: Categorical().bind(sparse.eye_array(3)), DataTypeError, "categorical works on dense data only"),
        (lambda: Categorical(n_levels=0), ValueError, "n_levels must be positive"),
        (lambda: Categorical(n_levels=[2]).bind([[2]]), SupportError, "column 0 has the levels 0..1"),
    ],
)
def test_refused_arguments_and_data_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_empty_documents_are_legal_and_warned_about_once(recwarn):
    with pytest.warns(DataWarning, match="1 of 3 rows is empty, the first is row 1"):
        family = Multinomial().bind([[1, 2], [0, 0], [3, 0]])
    recwarn.clear()
    family.bind([[0, 0]])
    assert not len(recwarn)
    assert family.log_predictive([[0, 0]], np.array([2.0]), np.array([[3.0, 1.0]]))[0, 0] == 0.0


def test_log_rising_factorials():
    z = np.array([1e-4, 0.5, 15.9, 16.1, 1e3, 1e8])
    for m in (0, 1, 2, 7, 40):
        exact = sum((np.log(z + t) for t in range(m)), np.zeros(6))
        for part in (slice(None), slice(3), slice(3, None)):  # both formulas, and each alone
            np.testing.assert_allclose(pseudocounts.log_rising(z[part], m), exact[part], rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(
            pseudocounts.log_rising(0.5, np.full((2, 3), m)), np.full((2, 3), exact[1]), atol=1e-13
        )


# ---- compiled components -------------------------------------------------------------------------------------------


class Mirror:
    """Statistics kept by plain NumPy beside the components."""

    def __init__(self, data, capacity):
        self.family, self.phi = data.family, data.phi(0, data.n_rows)
        self.n, self.S = np.zeros(capacity), np.zeros((capacity, self.phi.shape[1]))

    def evidence(self, n, S):
        return self.family.log_marginal(np.atleast_1d(n), np.atleast_2d(S))

    def predictive(self, i):
        return self.evidence(self.n + 1, self.S + self.phi[i]) - self.evidence(self.n, self.S)


def check_readings(components, mirror, i, members):
    rng = np.random.default_rng(i)
    tolerance = {"rtol": 1e-11, "atol": 2e-9}
    everything = components.log_predictive(i)
    np.testing.assert_allclose(everything, mirror.predictive(i), **tolerance)
    some = rng.integers(0, len(mirror.n), 5)
    np.testing.assert_allclose(components.log_predictive(i, some), everything[some], rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(components.log_marginal(), mirror.evidence(mirror.n, mirror.S), **tolerance)
    k = int(rng.integers(len(mirror.n)))
    merged = mirror.evidence(mirror.n + mirror.n[k], mirror.S + mirror.S[k])
    np.testing.assert_allclose(components.log_merged(k, range(len(mirror.n))), merged, **tolerance)
    for k, inside in enumerate(members):
        if inside:
            j = inside[-1]
            rest = mirror.evidence(mirror.n[k] - 1, mirror.S[k] - mirror.phi[j])
            expected = mirror.evidence(mirror.n[k], mirror.S[k]) - rest
            np.testing.assert_allclose(components.log_predictive_self(j, k), expected[0], **tolerance)
            np.testing.assert_allclose(components.log_remainder(k, k), 0.0)


def random_changes(components, mirror, rng, steps, members):
    """Changes of every kind, and what they do to lists of members; yields after each."""
    size = len(mirror.n)
    for _ in range(steps):
        kind = rng.choice(
            ["add", "remove", "absorb", "subtract", "swap", "clear"], p=[0.5, 0.25, 0.08, 0.05, 0.1, 0.02]
        )
        k, other = rng.integers(0, size, 2)
        if kind == "add":
            i = int(rng.integers(len(mirror.phi)))
            components.add(i, k)
            members[k].append(i)
            mirror.n[k] += 1
            mirror.S[k] += mirror.phi[i]
        elif kind == "remove" and members[k]:
            i = members[k].pop(int(rng.integers(len(members[k]))))
            components.remove(i, k)
            mirror.n[k] -= 1
            mirror.S[k] = mirror.phi[members[k]].sum(axis=0)
        elif kind == "absorb" and k != other:
            components.absorb(k, other)
            members[k] += members[other]
            members[other].clear()
            mirror.n[k] += mirror.n[other]
            mirror.S[k] += mirror.S[other]
            mirror.n[other], mirror.S[other] = 0, 0
        elif kind == "subtract" and k != other and len(members[k]) > 1:
            # other becomes a part of k, as in a split, and is then taken out of it
            part = members[k][: len(members[k]) // 2]
            components.clear(other)
            for i in part:
                components.add(i, other)
            expected = mirror.evidence(mirror.n[k] - len(part), mirror.S[k] - mirror.phi[part].sum(axis=0))
            np.testing.assert_allclose(components.log_remainder(k, other), expected[0], rtol=1e-11, atol=2e-9)
            components.subtract(k, other)
            members[other][:] = part
            members[k][:] = members[k][len(part) :]
            for c in (k, other):
                mirror.n[c], mirror.S[c] = len(members[c]), mirror.phi[members[c]].sum(axis=0)
        elif kind == "swap":
            components.swap(k, other)
            members[k], members[other] = members[other], members[k]
            mirror.n[[k, other]], mirror.S[[k, other]] = mirror.n[[other, k]], mirror.S[[other, k]]
        elif kind == "clear":
            components.clear(k)
            members[k].clear()
            mirror.n[k], mirror.S[k] = 0, 0
        yield


@layouts
@cases
def test_components_are_the_numpy_family_through_2000_changes(case, layout):
    data = bound(case)
    components, mirror = Components(data.family, data, K, layout=layout), Mirror(data, K)
    rng, members = np.random.default_rng(6), [[] for _ in range(K)]
    for step, _ in enumerate(random_changes(components, mirror, rng, 2000, members)):
        if step % 100 == 0:
            check_readings(components, mirror, int(rng.integers(N)), members)
    n, S = components.export()
    np.testing.assert_array_equal(n, mirror.n)
    np.testing.assert_allclose(S.toarray(), mirror.S, rtol=1e-9, atol=1e-9)
    if case != "multinomial-fractional":
        np.testing.assert_array_equal(S.toarray(), mirror.S)
    fresh = Components(data.family, data, 1, layout=layout)
    for k in range(K):
        for i in rng.permutation(members[k]):
            components.remove(int(i), k)
    n, S = components.export()
    assert not n.any()
    assert S.nnz == 0
    for i in range(5):
        np.testing.assert_array_equal(components.log_predictive(i), np.repeat(fresh.log_predictive(i), K))
    np.testing.assert_array_equal(components.log_marginal(), np.zeros(K))


@pytest.mark.parametrize("layout", ["features", "clusters"])
@pytest.mark.parametrize("concentration", [1e-6, 0.1, 20.0])
def test_predictives_are_exact_to_rounding(concentration, layout):
    data = Dataset(documents(), Multinomial(concentration))
    components = Components(data.family, data, K, layout=layout)
    components.refresh((np.arange(N) % K).astype(np.int32))
    _, S = components.export()
    S = S.toarray()
    for i in range(N):
        for k in range(K):
            terms = [math.log(concentration + S[k, w] + t) for w in range(V) for t in range(int(data.X[i, w]))]
            total = concentration * V + S[k].sum()
            terms += [-math.log(total + t) for t in range(int(data.X[i].sum()))]
            # a rounding error for each term of the sum, and as many again for products
            bound = 4e-16 * sum(abs(term) for term in terms) + 1e-14 * len(terms)
            assert abs(components.log_predictive(i, [k])[0] - math.fsum(terms)) <= bound


@cases
def test_sequential_predictives_multiply_to_the_evidence(case):
    data = bound(case)
    for order in (range(N), np.random.default_rng(7).permutation(N)):
        components = Components(data.family, data, 3)
        total = 0.0
        for i in order:
            total += components.log_predictive(int(i), [1])[0]
            components.add(int(i), 1)
        np.testing.assert_allclose(total, components.log_marginal([1])[0], rtol=1e-12, atol=1e-9)


@layouts
@cases
def test_saved_components_continue_with_the_same_bits(case, layout):
    data = bound(case)
    rng = np.random.default_rng(8)
    first, mirror, members = Components(data.family, data, K, layout=layout), Mirror(data, K), [[] for _ in range(K)]
    for _ in random_changes(first, mirror, rng, 300, members):
        pass
    second = Components(data.family, data, 2, layout=layout)
    second.from_arrays(first.to_arrays())
    assert second.capacity == first.capacity
    for step in range(500):
        i, k = int(rng.integers(N)), int(rng.integers(K))
        for components in (first, second):
            if members[k] and step % 2:
                components.remove(members[k][-1], k)
            else:
                components.add(i, k)
        if members[k] and step % 2:
            members[k].pop()
        else:
            members[k].append(i)
        np.testing.assert_array_equal(first.log_predictive(i), second.log_predictive(i))
        np.testing.assert_array_equal(first.log_marginal(), second.log_marginal())
        np.testing.assert_array_equal(first.log_merged(k, range(K)), second.log_merged(k, range(K)))
        assert first.log_predictive_self(i, k) == second.log_predictive_self(i, k) if i in members[k] else True


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.int32])
def test_every_kind_of_sparse_data_equals_dense_data(kind, index):
    dense = documents()
    X = sparse.csr_array(dense.astype(kind))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    for family in (Multinomial(0.5), Poisson(1.0, 1.0)):
        results = []
        for given in (dense, dense.astype(np.float32), X):
            data = Dataset(given, family)
            components = Components(data.family, data, 5)
            components.refresh(np.arange(N, dtype=np.int32) % 5)
            results.append(components.log_predictive_block(0, N, 5))
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])
    assert Dataset(X, Poisson()).X.dtype == kind


@pytest.mark.parametrize("count", [1, 2, 8, 9, 24, 25, 31, 32, 33, 500, 100000])
@pytest.mark.parametrize("concentration", [1e-4, 0.5, 40.0])
def test_words_repeated_any_number_of_times(count, concentration):
    X = np.zeros((4, 3))
    X[:, 0] = [count, 1, count, 0]
    X[:, 1] = [0, 1, 3, 5]
    data = Dataset(X, Multinomial(concentration))
    components = Components(data.family, data, 40)
    components.refresh(np.array([0, 1, 20, 39], dtype=np.int32))
    n, S = components.export()
    expected = Family.log_predictive(data.family, X, n, S)
    np.testing.assert_allclose(components.log_predictive_block(0, 4, 40), expected, rtol=1e-12, atol=1e-9)
    single = [[components.log_predictive(i, [k])[0] for k in range(40)] for i in range(4)]
    rounding = 1e-9 + 4e-14 * count  # of differences of terms of about count log(count)
    np.testing.assert_allclose(single, expected, rtol=1e-12, atol=rounding)
    rest = Family.log_predictive(data.family, X[[0]], np.zeros(1), np.zeros((1, 3)))
    np.testing.assert_allclose(components.log_predictive_self(0, 0), rest[0, 0], rtol=1e-12, atol=rounding)


def test_long_documents_over_many_slots():
    rng = np.random.default_rng(9)
    X = sparse.csr_array(rng.poisson(0.3, (50, 700)).astype(np.int32))
    for family in (Multinomial(1e-3), Multinomial(1e-90), Poisson(0.01, 0.1)):
        data = Dataset(X, family)
        components = Components(data.family, data, 2100)
        labels = rng.integers(0, 2100, 50).astype(np.int32)
        components.refresh(labels)
        n, S = components.export()
        chosen = np.unique(np.concatenate([labels[:10], [0, 1023, 1024, 2047, 2048, 2099]]))
        expected = Family.log_predictive(data.family, X[:8], n[chosen], S[chosen])
        scanned = components.log_predictive_block(0, 8, 2100)
        np.testing.assert_allclose(scanned[:, chosen], expected, rtol=1e-11, atol=1e-8)
        single = [[components.log_predictive(i, [k])[0] for k in chosen] for i in range(8)]
        np.testing.assert_allclose(single, expected, rtol=1e-11, atol=1e-8)
        gathered = np.array([components.log_predictive(i, rng.permutation(2100)) for i in range(8)])
        np.testing.assert_allclose(np.sort(gathered), np.sort(scanned), rtol=1e-12, atol=1e-10)


@layouts
@cases
def test_refused_calls_change_nothing(case, layout):
    data = bound(case)
    components = Components(data.family, data, 4, layout=layout)
    components.refresh(np.where(np.arange(N) < 20, np.arange(N) % 2, -1).astype(np.int32))
    before = components.to_arrays()
    for refused in (
        lambda: components.remove(0, 2),  # an empty slot
        lambda: components.log_predictive_self(0, 3),
        lambda: components.subtract(2, 0),  # more data than there are
        lambda: components.subtract(0, 0),
        lambda: components.log_remainder(2, 1),
        lambda: components.absorb(1, 1),
    ):
        with pytest.raises(SupportError, match=f"family '{data.family.name}'"):
            refused()
    with pytest.raises(IndexError):
        components.add(0, 4)
    after = components.to_arrays()
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name])


def test_removing_a_document_whose_words_are_not_there_is_refused():
    data = Dataset([[1, 0, 0], [0, 2, 0], [0, 1, 0], [5, 0, 0]], Multinomial(1.0))
    components = Components(data.family, data, 2)
    components.add(0, 0)
    components.add(2, 0)
    before = components.to_arrays()
    for i in (1, 3):
        with pytest.raises(SupportError, match=f"datum {i}, slot 0"):
            components.remove(i, 0)
    for name, array in components.to_arrays().items():
        np.testing.assert_array_equal(array, before[name])


@layouts
@cases
def test_reserve_and_rebind_keep_the_statistics(case, layout):
    data = bound(case)
    components = Components(data.family, data, 3, layout=layout)
    components.refresh((np.arange(N) % 3).astype(np.int32))
    before = components.log_predictive_block(0, N, 3)
    components.reserve(40)
    assert components.capacity >= 40
    np.testing.assert_array_equal(components.log_predictive_block(0, N, 3), before)
    name = next(iter(data.family.hyper))
    other = data.family.with_hyper(**{name: np.multiply(getattr(data.family, name), 3.0)})
    components.rebind(other)
    n, S = components.export()
    expected = Family.log_predictive(other, data.X, n[:5], S[:5])
    np.testing.assert_allclose(components.log_predictive_block(0, N, 5), expected, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(components.log_marginal(), other.log_marginal(n, S), rtol=1e-11, atol=1e-9)


@layouts
@cases
def test_soft_statistics_can_be_loaded(case, layout):
    data = bound(case)
    rng = np.random.default_rng(10)
    R = rng.dirichlet(np.ones(K), size=N)
    n, S = R.sum(axis=0), R.T @ data.phi(0, N)
    components = Components(data.family, data, 2, layout=layout)
    components.load(n, S)
    assert components.owner.is_float64
    expected = Family.log_predictive(data.family, data.X, n, S)
    np.testing.assert_allclose(components.log_predictive_block(0, N, K), expected, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(components.log_marginal(range(K)), data.family.log_marginal(n, S), rtol=1e-11)
    back_n, back_S = components.export()
    np.testing.assert_array_equal(back_n[:K], n)
    np.testing.assert_array_equal(back_S[:K].toarray(), S)
    with pytest.raises(SupportError, match="finite and non-negative"):
        components.load(n, -S)
    with pytest.raises(DataError, match="must have shape"):
        components.load(n, S[:, :3])


def test_totals_beyond_int32_use_doubles():
    X = np.array([[2**31 + 5, 3], [2**31, 0], [1, 2]], dtype=np.int64)
    data = Dataset(sparse.csr_array(X), Multinomial(0.5))
    components = Components(data.family, data, 2)
    assert components.owner.is_float64
    components.add(0, 0)
    components.add(1, 0)
    np.testing.assert_array_equal(components.export()[1].toarray()[0], [2**32 + 5, 3])
    total = 2.0**32 + 8 + 1
    expected = np.log(2.0**32 + 5.5) + np.log(3.5 * 4.5) - np.log([total, total + 1, total + 2]).sum()
    np.testing.assert_allclose(components.log_predictive(2, [0]), expected, rtol=1e-13)
    components.add(2, 0)
    components.remove(0, 0)
    components.remove(1, 0)  # what is left is 1e-9 of what was removed, and exact
    np.testing.assert_array_equal(components.export()[1].toarray()[0], [1, 2])


def test_a_count_that_would_overflow_is_refused():
    data = Dataset(np.array([[1500000000, 1]]), Multinomial(0.5))
    components = Components(data.family, data, 2)
    components.add(0, 0)
    components.add(0, 1)
    for refused in (lambda: components.add(0, 0), lambda: components.absorb(0, 1)):
        with pytest.raises(SupportError):
            refused()
    np.testing.assert_array_equal(components.export()[1].toarray(), [[1500000000, 1]] * 2)


@layouts
def test_lists_of_words_do_not_grow_without_end(layout):
    rng = np.random.default_rng(11)
    X = sparse.random_array((400, 5000), density=0.002, rng=rng)
    X.data[:] = 1
    data = Dataset(sparse.csr_array(X)[np.diff(sparse.csr_array(X).indptr) > 0], Multinomial(0.1))
    components = Components(data.family, data, 1, layout=layout)
    components.add(0, 0)
    for i in range(1, data.n_rows):  # one datum stays, all others pass through
        components.add(i, 0)
        components.remove(i, 0)
        assert len(components.to_arrays()["words"]) <= 3 * data.X[[0]].nnz + 64


@layouts
@cases
def test_threads_read_the_same_bits(case, layout):
    data = bound(case)
    components = Components(data.family, data, K, layout=layout)
    components.refresh((np.arange(N) % K).astype(np.int32))
    alone = components.log_predictive_block(0, N, K)
    fresh = Components(data.family, data, K, layout=layout)
    fresh.from_arrays(components.to_arrays())
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda i: fresh.log_predictive_block(i, i + 1, K), np.tile(np.arange(N), 5).tolist()))
    np.testing.assert_array_equal(np.concatenate(parts), np.tile(alone, (5, 1)))


def test_arrays_of_other_data_are_refused():
    data = bound("multinomial")
    components = Components(data.family, data, K)
    components.refresh((np.arange(N) % K).astype(np.int32))
    narrow = Dataset(documents()[:, :5] + 1, Multinomial())
    with pytest.raises(DataError, match="not of these 5 columns"):
        Components(narrow.family, narrow, 2).from_arrays(components.to_arrays())


def test_loading_leaves_the_given_statistics_alone():
    data = bound("multinomial")
    S = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([4, 0, 4]), np.array([0, 3])), shape=(1, V))
    components = Components(data.family, data, 1)
    components.load(np.array([2.0]), S)
    np.testing.assert_array_equal(S.indices, [4, 0, 4])
    np.testing.assert_array_equal(components.export()[1].toarray(), S.toarray())


def test_a_subclass_keeps_the_compiled_components():
    class Strong(Multinomial):
        def resolve(self, X):
            return {**super().resolve(X), "concentration": 7.0}

    data = Dataset(documents(), Strong())
    n, S = some_statistics(data)
    expected = Family.log_predictive(Multinomial(7.0).bind(data.X), data.X, n, S)
    np.testing.assert_allclose(data.family.log_predictive(data.X, n, S), expected, rtol=1e-11, atol=1e-9)


def test_an_unknown_layout_is_refused():
    data = bound("multinomial")
    with pytest.raises(ValueError, match="layout"):
        CountComponents(data.family, data, 2, layout="rows")


SCRIPT = """
import pickle
import sys
import numpy as np
from expfam import Dataset
from expfam.families.components import Components

def scores(cases):
    for family, X in cases:
        data = Dataset(X, family)
        components = Components(data.family, data, 37)
        components.refresh((np.arange(data.n_rows) % 29).astype(np.int32))
        yield components.log_predictive_block(0, data.n_rows, 37).ravel()
        yield components.log_marginal()

def main(source, target):
    with open(source, "rb") as file:
        np.save(target, np.concatenate(list(scores(pickle.load(file)))))
"""


def test_instruction_sets_agree(tmp_path):
    cases_path, paths = tmp_path / "cases.pickle", {isa: tmp_path / f"{isa}.npy" for isa in ("base", "avx2")}
    cases_path.write_bytes(pickle.dumps(list(CASES.values())))
    here = {}
    exec(SCRIPT, here)
    here["main"](cases_path, tmp_path / "best.npy")
    best = np.load(tmp_path / "best.npy")
    for isa, path in paths.items():
        output_under(isa, SCRIPT + "\nmain(*sys.argv[1:])", cases_path, path)
        np.testing.assert_allclose(np.load(path), best, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_row_sums_have_double_precision(dtype):
    X = sparse.csr_array((np.random.default_rng(0).random((20, 500)) * 50).astype(dtype))
    exact = [math.fsum(row.astype(float)) for row in X.toarray()]
    np.testing.assert_allclose(pseudocounts.row_sums(X), exact, rtol=1e-14)
    np.testing.assert_allclose(pseudocounts.row_sums(X.toarray()), exact, rtol=1e-14)


def test_frequencies_of_categories_are_their_prior():
    X = np.array([[0, 1], [0, -1], [0, 0], [1, 1]], dtype=float)
    family = Categorical(n_levels=[3, 2]).bind(X)
    expected = [4 * 3.5 / 5.5, 4 * 1.5 / 5.5, 4 * 0.5 / 5.5, 4 * 1.5 / 4, 4 * 2.5 / 4]
    np.testing.assert_allclose(family.concentration, expected, rtol=1e-14)
    with pytest.raises(ValueError, match="categorical: concentration must be"):
        Categorical(concentration="frequencies")


@pytest.mark.parametrize("cells", [1, 7, 1 << 17])
@pytest.mark.parametrize("least", [-1, 0])
def test_levels_are_counted_in_blocks_of_any_size(monkeypatch, cells, least):
    monkeypatch.setattr(categorical, "_BLOCK_CELLS", cells)
    X = np.random.default_rng(5).integers(least, 4, size=(83, 3))
    X[0] = [3, 6, 1]
    sizes = X.max(axis=0) + 1
    weight = np.random.default_rng(6).gamma(2.0, size=83)
    whole = Categorical().bind(X).concentration
    weighted = Categorical().bind(X, weight).concentration
    for found, own in ((whole, np.ones(83)), (weighted, weight)):
        masses = [np.bincount(x[x >= 0], own[x >= 0], minlength=size) + 0.5 for x, size in zip(X.T, sizes)]
        np.testing.assert_allclose(found, np.concatenate([4 * mass / mass.sum() for mass in masses]), rtol=1e-14)
