"""The conformance kit accepts families that keep the laws and rejects each seeded fault by the right check."""

import ctypes
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from expfam import (
    DiagonalGaussian,
    DirichletProcess,
    MixtureModel,
    Multinomial,
    Poisson,
    list_plugins,
    load_family,
)
from expfam.errors import PluginError
from expfam.families.base import Family
from expfam.families.generic import GenericComponents
from expfam.families.trials.bernoulli import Bernoulli
from expfam.families.trials.negative_binomial import NegativeBinomial
from expfam.families.waiting.exponential import Exponential
from expfam.plugins.conformance import Report, check_family, checks, parametrize_with_checks
from expfam.plugins.laws.data_case import Case, Inapplicable, Law
from expfam.samplers import CollapsedMetropolis, TableProposal


class Normal(Family):
    """Unit variance, normal prior of the mean; written here so that its faults can be seeded."""

    support = "real"
    hyper = {"strength": "positive"}  # noqa: RUF012

    def __init__(self, strength=0.2):
        self.strength = strength

    def resolve(self, X):
        return {"center_": np.sort(X, axis=0).mean(axis=0)}

    def sufficient_statistics(self, X):
        return X - self.center_

    def log_base(self, X):
        x = X - self.center_
        return -0.5 * (x**2).sum(axis=1) - 0.5 * X.shape[1] * np.log(2 * np.pi)

    def log_marginal(self, n, S):
        k = self.strength + n
        return 0.5 * S.shape[1] * np.log(self.strength / k) + 0.5 * (S**2).sum(axis=1) / k

    def expected_natural(self, n, S):
        k = self.strength + n
        mean = S / k[:, None]
        return mean, 0.5 * (mean**2).sum(axis=1) + self._spread(S.shape[1], k)

    def _spread(self, d, k):
        return 0.5 * d / k


class Words(Family):
    """Multinomial documents with a symmetric Dirichlet prior."""

    support = "counts"
    accepts_sparse = True

    def __init__(self, concentration=0.5):
        self.concentration = concentration

    def sufficient_statistics(self, X):
        return X

    def log_base(self, X):
        X = (X.toarray() if hasattr(X, "toarray") else np.asarray(X)).astype(np.float64)
        return gammaln(X.sum(axis=1) + 1.0) - gammaln(X + 1.0).sum(axis=1)

    def log_marginal(self, n, S):
        a, total = self.concentration, self.concentration * S.shape[1]
        each = (gammaln(a + S) - gammaln(a)).sum(axis=1)
        return each - gammaln(total + S.sum(axis=1)) + gammaln(total)

    def expected_natural(self, n, S):
        a = self.concentration
        theta = digamma(a + S) - digamma(a * S.shape[1] + S.sum(axis=1))[:, None]
        return theta, np.zeros(len(n))


GOOD = [Normal(), Words(), Bernoulli(a=0.5, b=2.0), NegativeBinomial(r=2.0, a=1.5, b=3.0)]


def fault(base, name, **overrides):
    """Instance of a subclass of `base` with methods replaced; it can be pickled, so that it has no other fault."""
    class_name = "_".join([base.__name__, name, *overrides])
    cls = type(base)(class_name, (base,), {"name": name, "__module__": __name__, **overrides})
    globals()[class_name] = cls
    return cls()


def _normal_without_spread(self, d, k):
    return np.zeros_like(k)


def _extra_log(self, n, S):
    return Bernoulli.log_marginal(self, n, S) + 0.01 * np.log1p(n)


def _slope(self, n, S):
    return Bernoulli.log_marginal(self, n, S) + 1e-6 * n


def _draw_the_mean(self, n, S, rng):
    return self.expected_natural(n, S)


def _log_of_mean(self, n, S):
    theta = np.log(self.a + S) - np.log(self.b + n[:, None] - S)
    return theta, Bernoulli.expected_natural(self, n, S)[1]


def _no_coefficient(self, X):
    return np.zeros(X.shape[0])


def _draw_with_one_less(self, n, S, rng):
    return Bernoulli.draw_natural(self, np.maximum(n - 1.0, S.max(axis=1)), S, rng)


def _g_off(self, n, S):
    theta, g = Bernoulli.expected_natural(self, n, S)
    return theta, 1.001 * g


SEEDED = [
    ("E g without d / k", Normal, {"_spread": _normal_without_spread}, "gradient_is_expected_natural"),
    (".01 log1p(n) in A", Bernoulli, {"log_marginal": _extra_log}, "predictive_is_normalised"),
    ("deterministic draw", Bernoulli, {"draw_natural": _draw_the_mean}, "draws_have_the_posterior_moments"),
    ("log of mean for mean of log", Bernoulli, {"expected_natural": _log_of_mean}, "gradient_is_expected_natural"),
    ("no multinomial coefficient", Words, {"log_base": _no_coefficient}, "predictive_is_normalised"),
    ("slope of 1e-6 in A", Bernoulli, {"log_marginal": _slope}, "predictive_is_normalised"),
    ("draws with n - 1", Bernoulli, {"draw_natural": _draw_with_one_less}, "draws_have_the_posterior_moments"),
    ("E g off by 0.1 %", Bernoulli, {"expected_natural": _g_off}, "gradient_is_expected_natural"),
]


@pytest.mark.parametrize(("what", "base", "overrides", "check"), SEEDED, ids=[row[0] for row in SEEDED])
def test_a_seeded_fault_is_caught_by_the_check_that_should_see_it(what, base, overrides, check):
    report = check_family(fault(base, "faulty", **overrides), raises=False, only=[check])
    assert check in report.named("failed"), str(report)


@pytest.mark.parametrize("family", GOOD, ids=lambda family: family.name)
@pytest.mark.parametrize("seed", [0, 1])
def test_good_families_pass(family, seed):
    report = check_family(family, seed=seed)
    assert report.passed
    assert len(report.named("passed")) >= 15


# ---- further faults, each with the check that must notice ----------------------------------------------------------


def _global_random(self, n, S, rng):
    return Bernoulli.draw_natural(self, n, S, np.random.default_rng(np.random.randint(1 << 30)))  # noqa: NPY002


def _fixed_random(self, n, S, rng):
    return Bernoulli.draw_natural(self, n, S, np.random.default_rng(0))


def _changes_arguments(self, n, S):
    S[:] = np.maximum(S, 0.0)
    n += 0.0
    S += 1e-3
    return Bernoulli.log_marginal(self, n, S)


def _returns_a_view(self, n, S):
    theta = Exponential.map_natural(self, n, S)[0]
    S.setflags(write=S.flags.owndata)
    return S[:], theta.sum(axis=1)


def _accepts_anything(self, X):
    return np.ascontiguousarray(X, dtype=np.float64)


def _sum_over_clusters(self, n, S):
    return Bernoulli.log_marginal(self, n, S) - 1e-6 * (n.sum() - n)


def _row_dependent(self, X):
    return {"a": 1.0 + X[0], "b": np.ones(X.shape[1])}


def _mode_with_n_plus_one(self, n, S):
    return Exponential.map_natural(self, n + 1.0, S)


def _mode_of_half(self, n, S):
    return Exponential.map_natural(self, n, 0.5 * S)


def _wrong_samples(self, theta, size, rng):
    return Exponential.sample(self, 0.9 * theta, size, rng)


def _wrong_partition(self, theta):
    return 1.0 + Exponential.log_partition(self, theta)


def _nonzero_when_empty(self, n, S):
    return Bernoulli.log_marginal(self, n, S) + 1e-9


def _overflows(self, n, S):
    with np.errstate(over="ignore"):
        return Bernoulli.log_marginal(self, n, S) + np.where(n > 1e5, np.inf, 0.0)


def _float32(self, n, S):
    return Bernoulli.log_marginal(self, n, S).astype(np.float32)


def _separable_but_not(self):
    return (lambda n, total: -n), (lambda w, s: np.asarray(s) * 0.1)


def _other_components(self, data, capacity, *, layout="features"):
    return GenericComponents(self.with_hyper(a=2.0 * np.asarray(self.a)), data, capacity)


def _squared_weights(self, X, weight=None):
    return Bernoulli.resolve(self, X, weight=None if weight is None else weight**2)


def _first_row_matters(self, X):
    return np.asarray(X, dtype=np.float64) + 1e-9 * np.arange(X.shape[0])[:, None]


def _does_work(self, a=1.0, b=1.0):
    self.a, self.b = np.asarray(a), b


def _predictive_with_base(self, X, n, S):
    return Words.log_base(self, self.validate(X))[:, None] + Family.log_predictive(self, X, n, S)


def _ignores_zeros(self, X):
    return (
        np.bincount(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), minlength=X.shape[0]) * 1.0
        if hasattr(X, "indptr")
        else np.zeros(X.shape[0])
    )


OTHERS = [
    ("global random state", Bernoulli, {"draw_natural": _global_random}, "draws_obey_their_generator"),
    ("generator ignored", Bernoulli, {"draw_natural": _fixed_random}, "draws_obey_their_generator"),
    ("arguments changed", Bernoulli, {"log_marginal": _changes_arguments}, "arguments_are_left_alone"),
    ("view returned", Exponential, {"expected_natural": _returns_a_view}, "arguments_are_left_alone"),
    ("no validation", Bernoulli, {"validate": _accepts_anything}, "bad_data_are_refused_by_name"),
    ("clusters interact", Bernoulli, {"log_marginal": _sum_over_clusters}, "clusters_do_not_interact"),
    ("row order matters", Bernoulli, {"resolve": _row_dependent}, "binding_does_not_see_the_order_of_rows"),
    ("weights squared", Bernoulli, {"resolve": _squared_weights}, "weights_are_repeats_of_rows"),
    ("mode not a mode", Exponential, {"map_natural": _mode_with_n_plus_one}, "map_is_a_mode"),
    ("mode far from data", Exponential, {"map_natural": _mode_of_half}, "map_follows_many_data"),
    ("samples of another rate", Exponential, {"sample": _wrong_samples}, "samples_have_the_family_s_law"),
    ("log_partition off", Exponential, {"log_partition": _wrong_partition}, "log_partition_is_g"),
    ("A(0, 0) not 0", Bernoulli, {"log_marginal": _nonzero_when_empty}, "empty_cluster_has_no_evidence"),
    ("A overflows", Bernoulli, {"log_marginal": _overflows}, "extremes_are_finite"),
    ("A in float32", Bernoulli, {"log_marginal": _float32}, "shapes_and_types"),
    ("separable claim", Bernoulli, {"separable": _separable_but_not}, "separable_parts_make_the_evidence"),
    ("other components", Bernoulli, {"components": _other_components}, "components_are_numpy"),
    ("phi by position", Exponential, {"sufficient_statistics": _first_row_matters}, "statistics_are_additive"),
    ("work in constructor", Bernoulli, {"__init__": _does_work}, "is_a_value"),
    ("base in predictive", Words, {"log_predictive": _predictive_with_base}, "predictive_is_a_difference"),
    ("base of CSR", Words, {"log_base": _ignores_zeros}, "sparse_is_dense"),
]


@pytest.mark.parametrize(("what", "base", "overrides", "check"), OTHERS, ids=[row[0] for row in OTHERS])
def test_other_faults_are_caught_too(what, base, overrides, check):
    report = check_family(fault(base, "faulty", **overrides), raises=False, only=[check])
    assert check in report.named("failed"), str(report)


# ---- hyper-parameters away from their defaults ---------------------------------------------------------------------

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
TEMPLATE = PLUGINS / "templates" / "family" / "src" / "expfam_template_name" / "__init__.py"
_EVIDENCE, _MEANS = "empty_cluster_has_no_evidence", "gradient_is_expected_natural"
_DRAWS, _MODE = "draws_have_the_posterior_moments", "map_is_a_mode"
HIDDEN = [  # faults of the template that its defaults a = b = 1 hide, each with the law that finds it elsewhere
    ("no lgamma(a) in A", "gammaln(shape) - gammaln(self.a) +", "gammaln(shape) +", _EVIDENCE),
    ("no a log b in A", " + self.a * np.log(self.b)", "", _EVIDENCE),
    ("log b for a log b", "self.a * np.log(self.b)", "np.log(self.b)", _EVIDENCE),
    ("no normaliser at all", " - gammaln(self.a) + self.a * np.log(self.b)", "", _EVIDENCE),
    ("a forgotten in A", "shape = self.a + S\n        ratio", "shape = 1.0 + S\n        ratio", _EVIDENCE),
    ("b forgotten in A", "np.log(self.b + n[:, None])).sum", "np.log(1.0 + n[:, None])).sum", _EVIDENCE),
    ("a forgotten in E theta", "shape, rate = self.a + S", "shape, rate = 1.0 + S", _MEANS),
    ("b forgotten in E g", "rate = self.a + S, self.b + n", "rate = self.a + S, 1.0 + n", _MEANS),
    ("a forgotten in draws", "shape = self.a + S\n        # log G", "shape = 1.0 + S\n        # log G", _DRAWS),
    ("b forgotten in draws", "log_gamma - np.log(self.b", "log_gamma - np.log(1.0", _DRAWS),
    ("a forgotten in the mode", "theta = np.log(self.a + S)", "theta = np.log(1.0 + S)", _MODE),
    ("b forgotten in the mode", "S) - np.log(self.b + n[:, None])", "S) - np.log(1.0 + n[:, None])", _MODE),
    ("a forgotten in log_prior", "return self.a * theta", "return theta", _MODE),
    ("b forgotten in log_prior", "theta.sum(axis=1) - self.b * g", "theta.sum(axis=1) - g", _MODE),
]


def family_from(source):
    """The family that a text defines; it can be pickled, as a law demands."""
    module = sys.modules["made_of_text"] = types.ModuleType("made_of_text")
    exec(source, module.__dict__)
    (cls,) = (kind for kind in vars(module).values() if getattr(kind, "__module__", "") == "made_of_text")
    return cls()


@pytest.mark.parametrize(("what", "found", "wrong", "law"), HIDDEN, ids=[row[0] for row in HIDDEN])
def test_what_the_defaults_hide_is_found_at_other_hyper_parameters(what, found, wrong, law):
    source = TEMPLATE.read_text()
    assert source.count(found) == 1
    report = check_family(family_from(source.replace(found, wrong)), raises=False, only=[law])
    assert report.named("failed") == [law], str(report)
    assert report[law].message.startswith("with a = "), str(report)


RAYLEIGH = PLUGINS / "reference" / "rayleigh" / "src" / "expfam_rayleigh" / "__init__.py"


@pytest.mark.parametrize("path", [TEMPLATE, RAYLEIGH], ids=["template", "rayleigh"])
def test_templates_and_references_pass_at_other_hyper_parameters(path):
    assert check_family(family_from(path.read_text())).passed


# tables have no columns before they are given data: their cases are in tests/families/test_laws.py
OWN = [p.name for p in list_plugins("family") if p.distribution == "expfam" and p.name != "columns"]


@pytest.mark.parametrize("name", OWN)
def test_our_own_families_are_tried_with_each_hyper_parameter_above_and_below_its_value(name):
    case = Case(load_family(name), seed=1)
    assert len(case.others) == 2
    for hyper, kind in case.family.hyper.items():
        if kind == "yes_no":  # each column is once what it is, and once the opposite
            found = [getattr(other.family, hyper) for _, other in case.others]
            np.testing.assert_array_equal(found[0], 1.0 - found[1])
            continue
        own = np.asarray(getattr(case.family, hyper))
        ratio = np.array(
            [np.asarray(getattr(other.family, hyper)) / np.where(own == 0, np.nan, own) for _, other in case.others]
        )
        low, high = (
            np.nanmin(ratio, axis=tuple(range(1, ratio.ndim))),
            np.nanmax(ratio, axis=tuple(range(1, ratio.ndim))),
        )
        np.testing.assert_allclose(low, high)  # a vector or matrix as a whole
        is_least = case.family.hyper_bounds(hyper)[0] == 1.0  # then both are above, and not the same
        assert sorted(low > 1) == [is_least, True]
        assert abs(np.log(low[0] / low[1])) >= 0.2 - 1e-12
        assert (np.abs(np.log(low)) >= 0.2 - 1e-12).all()


def test_a_law_that_applies_nowhere_is_skipped_and_one_that_applies_somewhere_is_not():
    found = []

    def applies_where_strength_is_small(case):
        found.append(case.family.strength)
        if case.family.strength > 0.2:
            raise Inapplicable("too strong")

    law = Law("small", (), applies_where_strength_is_small)
    law(Case(Normal()))
    assert min(found) < 0.2 == found[0] < max(found)
    with pytest.raises(Inapplicable, match="too strong"):
        law(Case(Normal(strength=5.0)))


# ---- components from plain C, good and bad ------------------------------------------------------------------------

_READ = ("log_predictive", "log_predictive_self", "log_marginal", "log_merged", "log_remainder")
_WRITE = ("add", "remove", "absorb", "subtract", "clear", "swap")
_SIZE, _PLACE = ctypes.c_ssize_t, ctypes.c_void_p
_SIGNATURES = {
    "log_predictive": (_SIZE, _PLACE, _SIZE, _PLACE, _PLACE),
    "log_predictive_self": (_SIZE, _SIZE, _PLACE, _PLACE),
    "log_marginal": (_PLACE, _SIZE, _PLACE, _PLACE),
    "log_merged": (_SIZE, _PLACE, _SIZE, _PLACE, _PLACE),
    "log_remainder": (_SIZE, _SIZE, _PLACE, _PLACE),
    **dict.fromkeys(_WRITE, (_SIZE, _SIZE)),
    "clear": (_SIZE,),
}
_TYPES = {name: ctypes.CFUNCTYPE(ctypes.c_int, _PLACE, *types) for name, types in _SIGNATURES.items()}
_HEAD = [(name, ctypes.c_uint32) for name in ("abi_version", "struct_size", "flags", "reserved")]


class _Struct(ctypes.Structure):
    _fields_ = [*_HEAD, ("self", _PLACE), ("work_size", _SIZE), *_TYPES.items()]


_get = ctypes.pythonapi.PyCapsule_GetPointer
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_CAPSULE = b"expfam.components_v1"


class Around:
    """An owner of components that passes on whatever it does not change."""

    pending = property(lambda self: self.inner.pending, lambda self, value: setattr(self.inner, "pending", value))

    def __getattr__(self, name):
        return getattr(self.__dict__["inner"], name)


class PlainC(Around):
    """An owner made without Cython: the generic one behind a struct of its own, in which functions can be replaced."""

    def __init__(self, family, data, capacity, replaced=None, *, work_size=4):
        self.inner = GenericComponents(family, data, capacity)
        self.inner_struct = _Struct.from_address(_get(self.inner.capsule, _CAPSULE))
        self.struct = _Struct.from_buffer_copy(self.inner_struct)
        self.struct.struct_size = ctypes.sizeof(_Struct)  # of the first version: what was appended since is missing
        self.struct.work_size = work_size
        self.kept = []
        for name, function in (replaced or {}).items():
            original = getattr(self.inner_struct, name)
            self.kept.append(_TYPES[name](lambda *a, f=function, o=original: f(self, o, *a)))
            setattr(self.struct, name, self.kept[-1])
        self.capsule = _new(ctypes.addressof(self.struct), _CAPSULE, None)


def with_components(**options):
    def components(self, data, capacity, *, layout="features"):
        return PlainC(self, data, capacity, **options)

    return fault(Bernoulli, "plain_c", components=components)


def _writes_too_far(owner, original, self, i, ks, m, out, work):
    ctypes.cast(work, ctypes.POINTER(ctypes.c_double))[4] = 1.0
    return original(self, i, ks, m, out, work)


def _refuses_too_late(owner, original, self, i, k):
    result = original(self, i, k)
    if result < 0:
        owner.inner.load(*_nudged(owner))
    return result


def _nudged(owner):
    n, S = owner.inner.export()
    return n, S + 1e-3 * (n > 0)[:, None]


def _leaves_dust(owner, original, self, i, k):
    result = original(self, i, k)
    n, S = owner.inner.export()
    if result == 0 and n[k] == 0:
        S[k, 0] = 1e-18
        arrays = owner.inner.to_arrays()
        owner.inner.from_arrays({**arrays, "S": S})
    return result


def _swap_half(owner, original, self, k, l):
    arrays = owner.inner.to_arrays()
    result = original(self, k, l)
    owner.inner.from_arrays({**owner.inner.to_arrays(), "A": arrays["A"]})
    return result


def _always_fine(owner, original, *arguments):
    original(*arguments)
    return 0


def test_an_owner_without_cython_passes():
    report = check_family(with_components(), raises=False)
    assert report.passed, str(report)
    assert "compiled" in with_components().capabilities


@pytest.mark.parametrize(
    ("what", "replaced", "check"),
    [
        ("work", {"log_predictive": _writes_too_far}, "components_keep_to_their_work_buffer"),
        ("late refusal", {"remove": _refuses_too_late}, "refused_calls_change_nothing"),
        ("no refusal", {"absorb": _always_fine}, "refused_calls_change_nothing"),
        ("dust", {"remove": _leaves_dust}, "components_are_numpy"),
        ("half a swap", {"swap": _swap_half}, "components_are_numpy"),
    ],
)
def test_faults_of_components_are_caught(what, replaced, check):
    report = check_family(with_components(replaced=replaced), raises=False, only=[check])
    assert check in report.named("failed"), str(report)


def _forgets_evidence(self):
    arrays = self.inner.to_arrays()
    return {**arrays, "A": arrays["A"].astype(np.float32)}


def test_an_archive_that_loses_bits_is_caught(monkeypatch):
    monkeypatch.setattr(PlainC, "to_arrays", _forgets_evidence, raising=False)
    report = check_family(with_components(), raises=False, only=["components_restore_bit_for_bit"])
    assert not report.passed, str(report)


class FirstVersion(Around):
    """Count components behind a struct as a plugin of the first version would hand it over, with garbage behind it."""

    def __init__(self, inner, size):
        self.inner = inner
        self.memory = ctypes.create_string_buffer(b"\xff" * 1024)
        ctypes.memmove(self.memory, _get(inner.capsule, _CAPSULE), ctypes.sizeof(_Struct))
        _Struct.from_buffer(self.memory).struct_size = size
        self.capsule = _new(ctypes.addressof(self.memory), _CAPSULE, None)


class OlderMultinomial(Multinomial):
    struct_size = ctypes.sizeof(_Struct)

    def components(self, data, capacity, *, layout="features"):
        return FirstVersion(super().components(data, capacity, layout=layout), self.struct_size)


def crossfit_labels(family):
    X = np.random.default_rng(0).poisson(0.3, (150, 40))
    X[:, 0] += 1
    kernel = CollapsedMetropolis(TableProposal(), mode="crossfit", n_blocks=3)
    state = kernel.init(MixtureModel(family, DirichletProcess(3.0)), X, seed=1)
    moved = sum(kernel.step(state).accepted for _ in range(4))
    return state.labels.copy(), moved


def test_functions_appended_since_are_not_called_where_the_struct_ends_before_them():
    labels, moved = crossfit_labels(Multinomial())
    older, _ = crossfit_labels(OlderMultinomial())
    np.testing.assert_array_equal(labels, older)
    assert moved > 100


def test_less_than_the_first_version_is_refused(monkeypatch):
    size = OlderMultinomial.struct_size
    monkeypatch.setattr(OlderMultinomial, "struct_size", size - 8)
    with pytest.raises(PluginError, match=f"a struct of {size - 8} bytes, the first version has {size}"):
        crossfit_labels(OlderMultinomial())


# ---- bounds of growth, handed over in C ------------------------------------------------------------------------------

_GROWTH = b"expfam.log_growth_v1"
_LINE = ctypes.CFUNCTYPE(ctypes.c_int, _PLACE, _SIZE, _SIZE, ctypes.c_double, ctypes.POINTER(ctypes.c_double))


class _Growth(ctypes.Structure):
    _fields_ = [("abi_version", ctypes.c_uint32), ("struct_size", ctypes.c_uint32), ("place", _PLACE), ("line", _LINE)]


class Lines(Around):
    """Components whose lines of growth stand higher by so many nats than they need to, or lower than they may."""

    def __init__(self, inner, raised, version):
        self.inner, own = inner, _Growth.from_address(_get(inner.growth, _GROWTH))

        def line(place, k, l, depth, out):
            code = own.line(own.place, k, l, depth, out)
            out[1] += raised
            return code

        self.struct = _Growth(own.abi_version + version, own.struct_size, None, _LINE(line))
        self.growth = _new(ctypes.addressof(self.struct), _GROWTH, None)


class Raised(DiagonalGaussian):
    raised, version = 0.25, 0

    def components(self, data, capacity, *, layout="features"):
        return Lines(super().components(data, capacity, layout=layout), self.raised, self.version)


def test_lines_of_growth_of_a_plugin_are_asked_and_judged(monkeypatch):
    law = ["growth_bounds_densities"]
    X = np.repeat(np.random.default_rng(0).normal(size=(3, 2)), 20, axis=0)  # no datum is far from where a line is low
    assert check_family(Raised(), X, only=law).passed
    monkeypatch.setattr(Raised, "raised", -25.0)
    with pytest.raises(AssertionError, match=r"growth_bounds_densities: slot 0 took in .* nats above the line"):
        check_family(Raised(), X, only=law)
    monkeypatch.setattr(Raised, "version", 1)
    with pytest.raises(AssertionError, match="bounds of growth of family 'raised' were built for interface"):
        check_family(Raised(), X, only=law)
    assert check_family(Poisson(), raises=False, only=law)[law[0]].status == "skipped"


# ---- the kit's own manners -----------------------------------------------------------------------------------------


def test_failures_are_raised_together_with_their_names():
    with pytest.raises(AssertionError, match=r"(?s)breaks \d+ of its laws.*predictive_is_normalised: given 0 data"):
        check_family(fault(Bernoulli, "faulty", log_marginal=_extra_log), only=["predictive_is_normalised"])


def test_expected_failures_need_a_reason_that_stays_true():
    family = fault(Exponential, "faulty", log_partition=_wrong_partition)
    name = "log_partition_is_g"
    report = check_family(family, expected_failures={name: "known"}, only=[name])
    assert report["log_partition_is_g"].status == "expected"
    report = check_family(Exponential(), raises=False, expected_failures={name: "known"}, only=[name])
    assert report.named("failed") == [name]
    with pytest.raises(ValueError, match="expected_failures names no check: no_such_law"):
        check_family(Exponential(), expected_failures={"no_such_law": "known"})
    with pytest.raises(ValueError, match="only names no check: no_such_law"):
        check_family(Exponential(), only=["no_such_law"])


def test_what_is_not_declared_is_skipped_with_the_reason():
    report = check_family(Normal())
    assert report["map_is_a_mode"] == (
        "map_is_a_mode",
        "skipped",
        "normal does not declare the ability 'map'",
        report["map_is_a_mode"].seconds,
    )
    assert isinstance(report, Report)
    assert "skipped  map_is_a_mode" in str(report)
    with pytest.raises(KeyError, match="no check is called"):
        report["no_such_law"]


def test_reports_are_the_same_for_the_same_seed():
    first, second = (
        check_family(Bernoulli(), seed=3, only=["draws_have_the_posterior_moments", "is_a_value"]) for _ in range(2)
    )
    assert [r[:3] for r in first.results] == [r[:3] for r in second.results]


def test_bound_families_and_given_data_are_taken():
    X = np.random.default_rng(0).exponential(size=(30, 4))
    kept = X.copy()
    assert check_family(Exponential().bind(X)).passed
    assert check_family(Exponential(), X, only=["shapes_and_types", "components_are_numpy"]).passed
    assert X.flags.writeable
    assert np.array_equal(X, kept)


def test_every_check_has_a_claim_of_one_line():
    listed = checks()
    assert len(listed) >= 25
    assert all(claim.endswith(".") and "\n" not in claim for _, _, claim in listed)


@parametrize_with_checks([Normal(), (Words(), np.random.default_rng(1).poisson(1.0, size=(20, 5)))])
def test_parametrised(family, check):
    check(family)


def test_parametrised_ids_name_family_and_check():
    mark = parametrize_with_checks([Normal()], expected_failures={"is_a_value": "known"}).mark
    by_id = {parameter.id: parameter for parameter in mark.args[1]}
    assert [m.name for m in by_id["normal-is_a_value"].marks] == ["xfail"]
    assert [m.name for m in by_id["normal-map_is_a_mode"].marks] == ["skip"]
