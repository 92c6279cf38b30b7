"""Functions of authors: their arguments cannot be written to, wrong results are named, their exceptions arrive."""

import ctypes

import numpy as np
import pytest
from scipy import sparse
from scipy.special import digamma, gammaln

from expfam import (
    BayesianHierarchy,
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    Family,
    Mixture,
    MixtureModel,
    Poisson,
    SymmetricDirichlet,
)
from expfam.errors import PluginError
from expfam.families.components import Components
from expfam.families.generic import GenericComponents
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    CollapsedMetropolis,
    HashProposal,
    HierarchicalClustering,
    Int8Proposal,
    SplitMerge,
    TableProposal,
    sample,
)
from expfam.samplers.proposals.handle import ProposalHandle
from expfam.structures.merging.queue import MergeQueue

X = np.repeat([[9.0, 1.0], [0.0, 7.0], [3.0, 3.0]], 4, axis=0)


class Counts(Family):
    """Poisson columns with a Gamma(1, 1) prior in plain NumPy; every method of its own."""

    support = "counts"
    accepts_sparse = True

    def sufficient_statistics(self, X):
        return X

    def log_base(self, X):
        return -gammaln((X.toarray() if sparse.issparse(X) else X) + 1.0).sum(axis=1)

    def log_marginal(self, n, S):
        return (gammaln(1.0 + S) - (1.0 + S) * np.log1p(n)[:, None]).sum(axis=1)

    def expected_natural(self, n, S):
        return digamma(1.0 + S) - np.log1p(n)[:, None], ((1.0 + S) / (1.0 + n)[:, None]).sum(axis=1)

    def draw_natural(self, n, S, rng):
        rate = rng.standard_gamma(1.0 + S) / (1.0 + n)[:, None]
        return np.log(rate), rate.sum(axis=1)

    def map_natural(self, n, S):
        rate = (1.0 + S) / (1.0 + n)[:, None]
        return np.log(rate), rate.sum(axis=1)

    def log_prior(self, theta, g):
        return theta.sum(axis=1) - g


def with_methods(name, **methods):
    """A family of `Counts` with other methods."""
    return type(name, (Counts,), {"__module__": __name__, **methods})()


# ---- results ---------------------------------------------------------------------------------------------------------

WRONG = {
    "one_for_all": (lambda A: A[:1] * 1.0, PluginError, r"must return real numbers, float64, of shape \(\d+,\)"),
    "one_too_many": (lambda A: np.append(A, 0.0), PluginError, r"of shape \(\d+,\); got float64 of shape \(\d+,\)"),
    "a_number": (lambda A: float(A.sum()), PluginError, "got float"),
    "complex": (lambda A: A + 0j, PluginError, "got complex128"),
    "nan": (lambda A: np.full_like(A, np.nan), FloatingPointError, "returned nan for cluster 0"),
    "infinite": (lambda A: np.full_like(A, np.inf), FloatingPointError, "returned inf for cluster 0"),
}
SAMPLERS = ["gibbs", "uncollapsed_gibbs", "canopy", "variational", "split_merge", "fastex", "auto"]


def fit(family, sampler):
    return Mixture(family, 3, sampler=sampler, n_steps=2, n_warmup=0, random_state=0).fit(X)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("wrong", [name for name in WRONG if name != "one_too_many"])
def test_a_wrong_evidence_is_named_whatever_the_sampler(wrong, sampler):
    change, error, words = WRONG[wrong]

    def log_marginal(self, n, S):
        A = Counts.log_marginal(self, n, S)
        return A if len(A) == 1 and wrong == "one_for_all" else change(A)

    with pytest.raises(error, match=f"family 'wrong': log_marginal.*{words}"):
        fit(with_methods("Wrong", log_marginal=log_marginal), sampler)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_predictive_is_named(wrong):
    change, error, _ = WRONG[wrong]

    def log_predictive(self, X, n, S):
        out = change(Family.log_predictive(self, X, n, S).ravel())
        return out.reshape(-1, len(n)) if np.size(out) == len(X) * len(n) else np.atleast_2d(out)

    family = with_methods("Wrong", log_predictive=log_predictive).bind(X)
    n, S = np.array([4.0, 8.0]), np.array([[36.0, 4.0], [12.0, 40.0]])
    with pytest.raises(error, match="family 'wrong': log_predictive"):
        family.log_predictive(X, n, S)


@pytest.mark.parametrize("method", ["expected_natural", "draw_natural", "map_natural"])
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda theta, g: theta, PluginError, r"{} must return a pair \(theta, g\)"),
        (lambda theta, g: (theta[:, :1], g), PluginError, r"theta of {}.*of shape \(2, 2\); got float64 of shape"),
        (lambda theta, g: (theta, g[0]), PluginError, r"g of {}.*of shape \(2,\)"),
        (lambda theta, g: (theta + 0j, g), PluginError, "theta of {}.*got complex128"),
        (lambda theta, g: (theta, g * np.nan), FloatingPointError, "g of {} returned nan for cluster 0"),
        (lambda theta, g: (theta * np.nan, g), FloatingPointError, "theta of {} returned nan for cluster 0, 0"),
    ],
    ids=["alone", "narrow", "scalar", "complex", "nan_g", "nan_theta"],
)
def test_wrong_natural_parameters_are_named(method, change, error, words):
    right = getattr(Counts, method)
    family = with_methods("Wrong", **{method: lambda self, *args: change(*right(self, *args))}).bind(X)
    rng = [np.random.default_rng(0)] if method == "draw_natural" else []
    with pytest.raises(error, match="family 'wrong': " + words.format(method)):
        getattr(family, method)(np.array([4.0, 8.0]), np.array([[36.0, 4.0], [12.0, 40.0]]), *rng)


def test_natural_parameters_of_any_layout_are_taken():
    def draw_natural(self, n, S, rng):
        theta, g = Counts.draw_natural(self, n, S, rng)
        return np.asfortranarray(theta), g

    found = [
        fit(family, "uncollapsed_gibbs") for family in (Counts(), with_methods("Turned", draw_natural=draw_natural))
    ]
    np.testing.assert_array_equal(*(each.labels_ for each in found))


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"sufficient_statistics": lambda self, X: X[:, 0]}, r"sufficient_statistics.*of shape \(12, F\)"),
        ({"sufficient_statistics": lambda self, X: X + 0j}, "sufficient_statistics.*got complex128"),
        ({"log_base": lambda self, X: 0.0}, r"log_base.*of shape \(12,\); got float"),
    ],
)
def test_wrong_statistics_and_bases_are_named(methods, words):
    with pytest.raises(PluginError, match=words.replace("12, F", r"1, F")):
        Mixture(with_methods("Wrong", **methods), 3, n_steps=1, random_state=0).fit(X).score_samples(X)


def test_values_that_are_impossible_but_not_wrong_pass():
    family = with_methods("Bounded", log_marginal=lambda self, n, S: np.full(len(n), -np.inf)).bind(X)
    assert family.log_marginal(np.ones(2), np.ones((2, 2))).tolist() == [-np.inf, -np.inf]
    assert family.log_marginal(np.zeros(0), np.zeros((0, 2))).shape == (0,)


def test_arguments_by_name_are_judged_in_their_places():
    family = Counts().bind(X)
    n, S = np.array([4.0, 8.0]), np.array([[36.0, 4.0], [12.0, 40.0]])
    np.testing.assert_array_equal(family.log_marginal(S=S, n=n), family.log_marginal(n, S))
    assert repr(family) == "Counts()"


def test_methods_of_a_mixin_are_checked_too():
    class Evidence:
        def log_marginal(self, n, S):
            return np.zeros(1)

    family = type("Mixed", (Evidence, Counts), {"__module__": __name__})().bind(X)
    with pytest.raises(PluginError, match="family 'mixed': log_marginal"):
        family.log_marginal(np.ones(2), np.ones((2, 2)))


# ---- arguments -------------------------------------------------------------------------------------------------------


def _writes_to_data(self, data):
    (data.data if sparse.issparse(data) else data)[:] = 0


def _writes_to_statistics(self, n, S, *rng):
    S += 1.0
    return Counts.expected_natural(self, n, S)


@pytest.mark.parametrize(
    "make", [np.array, sparse.csr_array, sparse.csr_matrix], ids=["dense", "csr_array", "csr_matrix"]
)
@pytest.mark.parametrize("method", ["sufficient_statistics", "log_base", "resolve", "validate"])
def test_an_author_cannot_change_the_users_data(method, make):
    def writes(self, X):
        _writes_to_data(self, X)
        return getattr(Counts, method)(self, X)

    given = make(X)
    with pytest.raises(ValueError, match="read-only"):
        Mixture(with_methods("Writes", **{method: writes}), 3, n_steps=1, random_state=0).fit(given).score_samples(
            given
        )
    np.testing.assert_array_equal(given.toarray() if sparse.issparse(given) else given, X)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array], ids=["dense", "csr"])
def test_an_author_cannot_change_what_a_dataset_holds(make):
    data = Dataset(make(X), Counts())
    for part in (data.X.data, data.X.indices, data.X.indptr) if data.is_sparse else (data.X,):
        assert not np.asarray(part).flags.writeable
    given = make(X)
    assert np.shares_memory(Dataset(given, Counts()).X.data, given.data) or not data.is_sparse


@pytest.mark.parametrize("sampler", ["gibbs", "split_merge", "fastex"])
def test_an_author_cannot_change_the_statistics_of_clusters(sampler):
    def log_marginal(self, n, S):
        n += 0.0
        return Counts.log_marginal(self, n, S)

    def of_one(self, n, S):
        if len(n) == 1:
            S[:] = 0.0
        return Counts.log_marginal(self, n, S)

    for written in (log_marginal, of_one):
        given = X.copy()
        with pytest.raises(ValueError, match="read-only"):
            Mixture(with_methods("Writes", log_marginal=written), 3, sampler=sampler, n_steps=2, random_state=0).fit(
                given
            )
        np.testing.assert_array_equal(given, X)


def test_an_author_cannot_change_the_statistics_of_a_state():
    for method, sampler in (("expected_natural", "variational"), ("draw_natural", "canopy")):
        with pytest.raises(ValueError, match="read-only"):
            fit(with_methods("Writes", **{method: _writes_to_statistics}), sampler)


# ---- exceptions ------------------------------------------------------------------------------------------------------


class Failing(Counts):
    """Fails once as many evidences as `after` were asked for; families are values, so the count is the class's."""

    n_calls, after, name = 0, 10**9, "failing"

    def log_marginal(self, n, S):
        type(self).n_calls += 1
        if type(self).n_calls > type(self).after:
            raise ZeroDivisionError("a bug of the author")
        return super().log_marginal(n, S)


@pytest.mark.parametrize("mode", ["removed", "included", "crossfit"])
@pytest.mark.parametrize(
    "proposal", [Int8Proposal(shortlist=4), Int8Proposal(shortlist=0), HashProposal(n_bits=64, shortlist=4)], ids=repr
)
def test_the_authors_exception_arrives_whenever_it_is_raised(monkeypatch, mode, proposal):
    model = MixtureModel(Failing(), SymmetricDirichlet(6))
    kernel = CollapsedMetropolis(proposal, mode=mode)
    monkeypatch.setattr(Failing, "n_calls", 0)
    state = kernel.init(model, X, seed=0)
    kernel.step(state)
    first = Failing.n_calls
    kernel.step(state)
    last = Failing.n_calls
    assert last > first
    for after in range(first, last, max(1, (last - first) // 12)):
        monkeypatch.setattr(Failing, "n_calls", 0)
        monkeypatch.setattr(Failing, "after", 10**9)
        state = kernel.init(model, X, seed=0)
        kernel.step(state)
        monkeypatch.setattr(Failing, "after", after)
        with pytest.raises(ZeroDivisionError, match="a bug of the author"):
            sample(kernel, state, 3)


# ---- structs without functions ---------------------------------------------------------------------------------------

_get = ctypes.pythonapi.PyCapsule_GetPointer
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_HEAD = [(name, ctypes.c_uint32) for name in ("abi_version", "struct_size", "flags", "reserved")]
_BODY = [("self", ctypes.c_void_p), ("work_size", ctypes.c_ssize_t)]
_FUNCTIONS = [
    "log_predictive",
    "log_predictive_self",
    "log_marginal",
    "log_merged",
    "log_remainder",
    "add",
    "remove",
    "absorb",
    "subtract",
    "clear",
    "swap",
]


def struct_of(fields):
    return type("Struct", (ctypes.Structure,), {"_fields_": fields})


def pointers(names):
    return [(name, ctypes.c_void_p) for name in names]


class Around:
    """An owner whose struct is a copy in which some functions are missing."""

    def __init__(self, inner, name, fields, missing):
        self.inner, self.name, self.pending = inner, name.encode(), None
        self.struct = struct_of(fields).from_buffer_copy(struct_of(fields).from_address(_get(inner.capsule, self.name)))
        self.struct.struct_size = ctypes.sizeof(self.struct)
        for each in missing:
            setattr(self.struct, each, None)
        self.capsule = _new(ctypes.addressof(self.struct), self.name, None)

    def __getattr__(self, name):
        return getattr(self.__dict__["inner"], name)


@pytest.mark.parametrize("missing", _FUNCTIONS)
def test_components_that_lack_a_function_are_refused(missing):
    def components(self, data, capacity, *, layout="features"):
        owner = GenericComponents(self, data, capacity)
        return Around(owner, "expfam.components_v1", [*_HEAD, *_BODY, *pointers(_FUNCTIONS)], [missing])

    family = with_methods("Partial", components=components)
    with pytest.raises(PluginError, match=f"components of family 'partial' lack {missing}: fill in"):
        CollapsedGibbs().init(MixtureModel(family, DirichletProcess()), X, seed=0)


@pytest.mark.parametrize("missing", ["draw", "log_prob"])
def test_a_proposal_that_lacks_a_function_is_refused(missing):
    data = Dataset(X, Poisson())
    owner = TableProposal().bind(MixtureModel(data.family, DirichletProcess()), data, seed=0)
    names = ["draw", "log_prob", "hold_out", "restore", "moved"]
    around = Around(owner, "expfam.proposal_v1", [*_HEAD, *_BODY, *pointers(names)], [missing])
    with pytest.raises(PluginError, match=f"functions of proposal 'partial' lack {missing}"):
        ProposalHandle(around, "'partial'")


def test_bounds_of_growth_that_lack_their_function_are_refused():
    class Owner:
        def __init__(self, inner):
            fields = [*_HEAD[:2], *pointers(["self", "line"])]
            self.__dict__["inner"] = inner
            self.kept = Around(_Named(inner.growth), "expfam.log_growth_v1", fields, ["line"])
            self.growth = self.kept.capsule

        def __getattr__(self, name):
            return getattr(self.__dict__["inner"], name)

    class Partial(DiagonalGaussian):
        def components(self, data, capacity, *, layout="features"):
            return Owner(super().components(data, capacity, layout=layout))

    points = np.random.default_rng(0).normal(size=(8, 2))
    data = Dataset(points, Partial())
    components = Components(data.family, data, 4)
    with pytest.raises(PluginError, match="bounds of growth of family 'partial' lack line"):
        components.growth_line(0, 1, -1.0)
    with pytest.raises(PluginError, match="bounds of growth of family 'partial' lack line"):
        BayesianHierarchy(Partial(), sampler=HierarchicalClustering(candidates="knn")).fit(points)


class _Named:
    """An owner of nothing but a capsule."""

    def __init__(self, capsule):
        self.capsule = capsule


def test_partners_that_lack_their_function_are_refused():
    struct = struct_of(pointers(["self", "partners"]))()
    with pytest.raises(TypeError, match="merge_partners_v1 has no function partners"):
        MergeQueue(3, _Named(_new(ctypes.addressof(struct), b"expfam.merge_partners_v1", None)))


# ---- kernels that the checks must not disturb ------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [CollapsedGibbs(), SplitMerge(), Canopy()], ids=lambda kernel: type(kernel).__name__)
def test_a_right_family_runs(kernel):
    state = kernel.init(MixtureModel(Counts(), DirichletProcess()), X, seed=0)
    sample(kernel, state, 3)
    state.check()
