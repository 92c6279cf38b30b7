"""Laws of a family's NumPy methods; all follow from A(n, S) being a log evidence.

A(n, S) is the log evidence of an exponential family with a conjugate prior. Tolerances are rounding bounds, or 5
standard errors of fixed draws. Sources: Ahmed et al. 2012, eqs. 4-5 and 10 (A and its gradient); Diaconis and Ylvisaker
1979 (conjugate priors of natural exponential families).
"""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import re
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import SupportError
from expfam.families.base import bound_family
from expfam.families.support import YES_NO
from expfam.families.weighing import takes_weight
from expfam.plugins.laws.data_case import (
    Inapplicable,
    agree,
    bounds_of,
    changed,
    dense,
    law,
    read_only,
    scores,
    slope,
    statistics,
    within,
)

if TYPE_CHECKING:
    from expfam.plugins.laws.data_case import Case

_DRAWS = 20_000
_SUPPORTS = {"real", "counts", "categories", "binary", "nonnegative", "unit", "mixed"}


# ---- form ----------------------------------------------------------------------------------------------------------


@law()
def is_a_value(case: Case) -> None:
    """Keywords are stored unchanged, copies and pickles are equal, a bound family is frozen."""
    family, given = case.family, case.given
    cls = type(family)
    assert isinstance(family.api_version, int), f"api_version must be an integer; got {family.api_version!r}"
    assert re.fullmatch(r"[a-z0-9_]+", family.name), f"name {family.name!r} is not lower snake case"
    assert family.support in _SUPPORTS, f"support {family.support!r} is none of {sorted(_SUPPORTS)}"
    params = given.get_params()
    unknown = sorted(
        name for name in family.hyper if name not in params and not ("." in name and hasattr(family, name))
    )
    assert not unknown, f"hyper names {unknown}, which are no keywords of the constructor and of no part"
    again = cls(**params)
    for name, value in params.items():
        assert getattr(again, name) is value, f"the constructor must store {name} unchanged"
    for what, twin in (("copy", copy.deepcopy(family)), ("pickle", pickle.loads(pickle.dumps(family)))):
        assert twin == family, f"a {what} of the family differs from it"
    assert family.bind(case.X) is family, "binding a bound family must return itself"
    assert cls.__name__ in repr(family), "repr must name the class"
    defaults = {p.name: p.default for p in list(inspect.signature(cls.__init__).parameters.values())[1:]}
    if inspect.Parameter.empty not in defaults.values():
        for name, value in cls().get_params().items():
            assert value is defaults[name], f"the constructor must store {name} unchanged"
    try:
        family.some_attribute = 1
    except AttributeError:
        return
    raise AssertionError("a bound family must be frozen")


@law()
def shapes_and_types(case: Case) -> None:
    """Methods return C-contiguous float64 of the stated shapes, for 0, 1 and 5 clusters."""
    family, (N, F) = case.family, case.phi.shape
    assert family.n_statistics_ == F
    _is_float64(case.log_base, (N,), "log_base")
    rng = case.rng("shapes")
    for K in (0, 1, 5):
        n, S = case.of(case.weights(rng, K))
        _is_float64(family.log_marginal(n, S), (K,), "log_marginal")
        for ability, method, extra in (
            ("variational", "expected_natural", ()),
            ("draw", "draw_natural", (rng,)),
            ("map", "map_natural", ()),
        ):
            if ability in family.capabilities:
                theta, g = getattr(family, method)(n, S, *extra)
                _is_float64(theta, (K, F), f"{method}'s theta")
                _is_float64(g, (K,), f"{method}'s g")
                for optional, arguments in (("log_prior", (theta, g)), ("log_partition", (theta,))):
                    if hasattr(family, optional):
                        _is_float64(getattr(family, optional)(*arguments), (K,), optional)
                if hasattr(family, "to_params"):
                    params = family.to_params(theta, g)
                    assert isinstance(params, dict), f"to_params must return a dict; got {type(params).__name__}"
                    for name, value in params.items():
                        assert np.shape(value)[:1] == (K,), f"to_params: {name} has shape {np.shape(value)}, K = {K}"
        if hasattr(family, "to_params") and "map" in family.capabilities:
            params = family.cluster_params(n, S)
            assert isinstance(params, dict), f"cluster_params must return a dict; got {type(params).__name__}"


def _is_float64(array, shape, what):
    assert isinstance(array, np.ndarray), f"{what} must return an ndarray; got {type(array).__name__}"
    assert array.dtype == np.float64, f"{what} must be float64; got {array.dtype}"
    assert array.shape == shape, f"{what} has shape {array.shape}, expected {shape}"
    assert array.flags.c_contiguous, f"{what} must be C-contiguous"
    assert np.isfinite(array).all(), f"{what} is not finite"


@law()
def arguments_are_left_alone(case: Case) -> None:
    """Methods do not write to their arguments and do not return views of them."""
    family = case.family
    n, S = (np.array(a) for a in case.of(case.weights(case.rng("arguments"), 4)))
    kept_n, kept_S = n.copy(), S.copy()
    results = {"log_marginal": (family.log_marginal(n, S),)}
    if "variational" in family.capabilities:
        results["expected_natural"] = family.expected_natural(n, S)
    if "draw" in family.capabilities:
        results["draw_natural"] = family.draw_natural(n, S, np.random.default_rng(0))
    if "map" in family.capabilities:
        results["map_natural"] = family.map_natural(n, S)
    X = case.X.copy()
    family.sufficient_statistics(X)
    family.log_base(X)
    family.validate(X)
    assert np.array_equal(n, kept_n), "a method changed n"
    assert np.array_equal(S, kept_S), "a method changed S"
    assert not _differs(X, case.X), "a method changed X"
    for method, arrays in results.items():
        for array in arrays:
            assert not np.shares_memory(array, n), f"{method} returns a view of n"
            assert not np.shares_memory(array, S), f"{method} returns a view of S"


def _differs(X, Y):
    return (X != Y).nnz if sparse.issparse(X) else not np.array_equal(X, Y, equal_nan=np.result_type(X).kind == "f")


# ---- statistics and A ----------------------------------------------------------------------------------------------


@law()
def statistics_are_additive(case: Case) -> None:
    """Phi of a batch is phi row by row, and a batch without rows is allowed."""
    family, X, phi = case.family, case.X, case.phi
    exact = np.array_equal(phi, np.rint(phi))
    rows = np.concatenate([statistics(family, X[i : i + 1]) for i in range(X.shape[0])])
    agree(rows, phi, "phi row by row", rel=0.0 if exact else 1e-13)
    base = np.concatenate([np.asarray(family.log_base(X[i : i + 1])) for i in range(X.shape[0])])
    agree(base, case.log_base, "log_base row by row", rel=1e-13, abs=1e-13)
    empty = X[:0]
    assert statistics(family, empty).shape == (0, phi.shape[1]), "phi of no rows must have shape (0, F)"
    assert np.shape(family.log_base(empty)) == (0,), "log_base of no rows must have shape (0,)"


@law()
def empty_cluster_has_no_evidence(case: Case) -> None:
    """A(0, 0) = 0: an empty cluster has no evidence."""
    A = case.family.log_marginal(np.zeros(3), np.zeros((3, case.phi.shape[1])))
    agree(A, np.zeros(3), "A(0, 0)", abs=1e-12)


@law()
def clusters_do_not_interact(case: Case) -> None:
    """A of several clusters equals A of each alone, in any order."""
    family, rng = case.family, case.rng("clusters")
    n, S = case.of(case.weights(rng, 7, fractional=True))
    A, order = family.log_marginal(n, S), rng.permutation(7)
    agree(family.log_marginal(n[order], S[order]), A[order], "A of permuted clusters", rel=1e-12, abs=1e-12)
    alone = [family.log_marginal(n[k : k + 1], S[k : k + 1])[0] for k in range(7)]
    agree(alone, A, "A one by one", rel=1e-12, abs=1e-12)


@law()
def predictive_is_a_difference(case: Case) -> None:
    """log_predictive(x | n, S) = A(n + 1, S + phi(x)) - A(n, S)."""
    family = case.family
    n, S = case.of(case.weights(case.rng("predictive"), 3))
    found = family.log_predictive(case.X, n, S)
    expected = np.stack([family.log_marginal(n + 1, S + row) for row in case.phi]) - family.log_marginal(n, S)
    agree(found, expected, "log_predictive", rel=1e-9, abs=1e-9)


@law()
def data_are_exchangeable(case: Case) -> None:
    """The product of predictives, in three random orders, is the evidence of all data."""
    family, rng = case.family, case.rng("exchange")
    N = min(25, case.X.shape[0])
    total = float(family.log_marginal(np.array([float(N)]), case.phi[:N].sum(axis=0)[None])[0])
    for _ in range(3):
        order = rng.permutation(N)
        S = np.cumsum(case.phi[order], axis=0) - case.phi[order]  # of the data before each
        found = family.log_predictive(case.X[order], np.arange(float(N)), S)
        agree(np.trace(found), total, "product of predictives", abs=1e-9 * (1 + N))


@law()
def predictive_is_normalised(case: Case) -> None:
    """Predictives times the base measure sum or integrate to 1, given 0, 1 and 5 data."""
    narrow, points, log_volume, tolerance = _support_points(case)
    for n_data in (0, 1, 5):
        n, S = np.array([float(n_data)]), narrow.phi[:n_data].sum(axis=0)[None]
        for name, X, volume in zip(points, points.values(), log_volume):
            total = _total(narrow.family, X, volume, n, S)
            assert abs(total - 1.0) <= tolerance, (
                f"given {counted(n_data, 'datum', 'data')} the predictive {name} is {total:.12g}, off by "
                f"{total - 1.0:.3g}"
            )


def _log_density(family, X, n, S):
    phi = statistics(family, X)
    before = family.log_marginal(n, S)[0]
    after = [
        family.log_marginal(np.full(len(block), n[0] + 1.0), S + block)
        for block in np.array_split(phi, max(1, phi.size // 1_000_000))
    ]
    return np.concatenate(after) - before + np.asarray(family.log_base(X))


def _total(family, X, volume, n, S):
    with np.errstate(under="ignore"):
        terms = np.exp(_log_density(family, X, n, S) + (0.0 if volume is None else volume))
    if volume is not None or X.shape[1] > 1 or not _is_ladder(X):
        return float(terms.sum())
    partial = np.cumsum(terms)
    return _limit(partial[[2**power - 1 for power in range(4, int(np.log2(len(partial))) + 1)]])


def _is_ladder(X):
    return X.shape[0] == 1 << 16


def _limit(partial):
    """Return the limit of partial sums at doubling lengths, by Wynn's epsilon algorithm.

    The algorithm also sums tails that fall like a power.
    """
    if abs(partial[-1] - partial[-2]) < 1e-13:
        return float(partial[-1])
    previous, row = np.zeros(len(partial) + 1), np.asarray(partial, dtype=np.float64)
    best, change = row[-1], np.inf
    for column in range(1, len(partial)):
        steps = np.diff(row)
        if (steps == 0).any():
            break
        previous, row = row, previous[1:-1] + 1.0 / steps
        if column % 2 == 0 and len(row) > 1:
            if abs(row[-1] - row[-2]) >= change:
                break
            best, change = row[-1], abs(row[-1] - row[-2])
    return float(best)


def _support_points(case):
    """Return (case, points by name, log volume of each point, tolerance).

    The log volume is None if the points are counted.
    """
    support, V = case.family.support, case.X.shape[1]
    if hasattr(case.family, "support_grid"):
        case = case.narrow(1)
        X, log_volume = case.family.support_grid(case.X)
        return case, {"on its own grid": X}, [log_volume], 1e-6
    if support == "mixed":
        raise Inapplicable("columns of several kinds: the families of the parts are tried by themselves")
    if support == "binary":
        case = case.narrow(min(V, 8))
        points = np.array(list(itertools.product((0.0, 1.0), repeat=case.X.shape[1])))
        return case, {"sum": points}, [None], 1e-8
    if support == "categories":
        case = case.narrow(min(V, 4))
        levels = [np.arange(column.max() + 1.0) for column in dense(case.X).T]
        if np.prod([len(level) for level in levels]) > 1 << 16:
            raise Inapplicable("too many combinations of levels to enumerate")
        return case, {"sum": np.array(list(itertools.product(*levels)))}, [None], 1e-8
    if support == "counts":
        return _count_points(case)
    if support == "unit":
        return _sphere_points(case)
    return _line_points(case.narrow(1))


def _count_points(case):
    low, high = bounds_of(case.family)
    if (low, high) != (0.0, np.inf):
        low = np.ceil(low)
        return case.narrow(1), {"sum": np.arange(low, min(high + 1.0, low + (1 << 16)))[:, None]}, [None], 1e-8
    nothing = np.zeros((1, case.X.shape[1]))
    zero = np.zeros((1, case.phi.shape[1]))
    if abs(_log_density(case.family, nothing, np.zeros(1), zero)[0]) > 1e-12:
        return case.narrow(1), {"sum": np.arange(float(1 << 16))[:, None]}, [None], 1e-8
    # A datum without counts has probability 1: the family conditions on the total, so each total is a distribution.
    V = case.X.shape[1]
    if V > 400:
        case, V = case.narrow(400), 400
    totals = [total for total in (1, 2, 4) if total == 1 or V**total <= 20_000]
    return case, {f"sum over totals of {m}": _compositions(m, V) for m in totals}, [None] * len(totals), 1e-8


def _compositions(total, V):
    """Return every row of V counts with this total."""
    chosen = np.array(list(itertools.combinations_with_replacement(range(V), total)))
    rows = np.zeros((len(chosen), V))
    np.add.at(rows, (np.arange(len(chosen))[:, None], chosen), 1.0)
    return rows


def _line_points(case):
    """Return points of a trapezoidal rule on the line.

    A substitution makes every tail fall exponentially.
    """
    column, step = dense(case.X).ravel(), 0.01
    low, high = bounds_of(case.family)
    if np.isfinite(low) and np.isfinite(high):  # beyond these ends of t, X rounds to a bound
        t = np.arange(-300.0 if low == 0 else -36.0, 36.0, step)
        X = low + (high - low) / (1.0 + np.exp(-t))
        log_volume = np.log((high - low) * step) - np.logaddexp(0.0, t) - np.logaddexp(0.0, -t)
    elif np.isfinite(low) or np.isfinite(high):
        t = np.arange(-300.0, 300.0, step)
        end, sign = (low, 1.0) if np.isfinite(low) else (high, -1.0)
        log_scale = np.log(np.abs(column - end).mean() or 1.0)
        X, log_volume = end + sign * np.exp(t + log_scale), t + log_scale + np.log(step)
    else:
        t = np.arange(-25.0, 25.0, step)
        scale = column.std() or 1.0
        X, log_volume = column.mean() + scale * np.sinh(t), np.log(np.cosh(t)) + np.log(scale * step)
    return case, {"integral": X[:, None]}, [log_volume], 1e-6


def _sphere_points(case):
    case = case.narrow(3)
    if case.X.shape[1] == 2:
        angle = np.arange(4000) * (2 * np.pi / 4000)
        return case, {"integral": np.stack([np.cos(angle), np.sin(angle)], 1)}, [np.log(2 * np.pi / 4000)], 1e-6
    height, weight = np.polynomial.legendre.leggauss(300)
    angle = np.arange(300) * (2 * np.pi / 300)
    z, a = (part.ravel() for part in np.meshgrid(height, angle, indexing="ij"))
    radius = np.sqrt(1 - z**2)
    volume = np.repeat(np.log(weight * (2 * np.pi / 300)), 300)
    return case, {"integral": np.stack([radius * np.cos(a), radius * np.sin(a), z], 1)}, [volume], 1e-6


# ---- gradient and curvature of A -----------------------------------------------------------------------------------


@law()
def evidence_is_convex(case: Case) -> None:
    """A at a midpoint is at most the mean of A at the two ends."""
    family, rng = case.family, case.rng("convex")
    first, second = (case.of(case.weights(rng, 50, low=1, fractional=True)) for _ in range(2))
    ends = 0.5 * (family.log_marginal(*first) + family.log_marginal(*second))
    middle = family.log_marginal(0.5 * (first[0] + second[0]), 0.5 * (first[1] + second[1]))
    excess = (middle - ends) / (1.0 + np.abs(ends))
    assert excess.max() <= 1e-9, f"A exceeds its chord by {excess.max():.3g} (relative)"


@law("variational")
def gradient_is_expected_natural(case: Case) -> None:
    """<s, E theta> - E g is the derivative of A along (1, s), also for fractional data."""
    family, rng = case.family, case.rng("gradient")
    for fractional in (False, True):
        W = case.weights(rng, 12, fractional=fractional)
        n, S = case.of(W)
        theta, g = family.expected_natural(n, S)
        for _ in range(4):
            share = np.where(W > 0, rng.exponential(size=W.shape), 0.0)
            share /= share.sum(axis=1, keepdims=True)
            s = share @ case.phi
            found = np.einsum("kf,kf->k", s, theta) - g
            # Twice the step is below the least membership along s, so all memberships stay non-negative.
            step = 1e-3 * np.minimum((W / np.maximum(share, 1e-300)).min(axis=1, where=W > 0, initial=np.inf), n)
            expected, _ = slope(family, n, S, np.ones_like(n), s, step=step)
            rounding = 4e-15 * np.abs(family.log_marginal(n, S)) / step
            agree(found, expected, "<s, E theta> - E g", rel=1e-6, abs=1e-6 + rounding.max())


@law("variational")
def expectation_bounds_the_predictive(case: Case) -> None:
    """E[<phi, theta> - g] before and after adding a datum encloses its log predictive."""
    family, phi, N = case.family, case.phi, case.X.shape[0]
    for n_data in (0, 2, N):
        n, S = np.full(N, float(n_data)), np.tile(phi[:n_data].sum(axis=0), (N, 1))
        before, after = family.expected_natural(n, S), family.expected_natural(n + 1, S + phi)
        value = family.log_marginal(n + 1, S + phi) - family.log_marginal(n, S)
        low, high = (np.einsum("kf,kf->k", phi, theta) - g for theta, g in (before, after))
        slack = 1e-9 * (1 + np.abs(value))
        assert (low <= value + slack).all(), f"n = {n_data}: the lower bound exceeds by {(low - value).max():.3g}"
        assert (value <= high + slack).all(), f"n = {n_data}: the upper bound falls short by {(value - high).max():.3g}"


# ---- draws, mode, samples ------------------------------------------------------------------------------------------


def _posterior_draws(case, name, *, n_data):
    """Return scores <phi, theta> - g of members under many draws, with n, S and phi.

    The scores are (m, c): m draws for c members of one cluster with `n_data` data; phi is (c, F).
    """
    rng, family = case.rng(name), case.family
    n, S = np.array([float(n_data)]), case.phi[:n_data].sum(axis=0)[None]
    phi = case.phi[rng.choice(n_data, size=min(6, n_data), replace=False)] if n_data else case.phi[:3]
    m = int(min(_DRAWS, max(1000, 1_000_000 // case.phi.shape[1])))  # a draw may cost far more than O(F)
    theta, g = family.draw_natural(np.full(m, n[0]), np.repeat(S, m, axis=0), rng)
    return theta @ phi.T - g[:, None], n, S, phi


@law("draw")
def draws_have_the_posterior_moments(case: Case) -> None:
    """Over draws, <phi, theta> - g has the mean and variance that derivatives of A give."""
    for n_data in (3, case.X.shape[0]):
        values, n, S, phi = _posterior_draws(case, "draw moments", n_data=n_data)
        steps = [slope(case.family, n, S, np.ones(1), row[None], step=np.full(1, 1e-2)) for row in phi]
        mean, variance = (np.array([step[order][0] for step in steps]) for order in (0, 1))
        within(scores(values, mean, 1e-7 * (1 + np.abs(mean))), 5.0, f"n = {n_data}: mean over draws")
        squares = (values - values.mean(axis=0)) ** 2
        z = scores(squares, variance, 1e-6 * (1 + np.abs(variance)))
        within(z, 6.0, f"n = {n_data}: variance over draws")


@law("draw")
def draws_make_the_predictive(case: Case) -> None:
    """The mean of exp(<phi, theta> - g) over draws is the predictive."""
    tried = 0
    for n_data in (0, 2, 8):
        values, n, S, phi = _posterior_draws(case, "draw predictive", n_data=min(n_data, case.X.shape[0]))
        expected = case.family.log_marginal(np.full(len(phi), n[0] + 1), S + phi) - case.family.log_marginal(n, S)
        ratio = np.exp(np.minimum(values - expected, 50.0))
        # The standard error of a heavy-tailed mean cannot be trusted: these columns are left out.
        effective = ratio.sum(axis=0) ** 2 / np.maximum((ratio**2).sum(axis=0), 1e-300)
        honest = (effective > 500) & (ratio.max(axis=0) < 0.01 * len(ratio))
        tried += honest.sum()
        if honest.any():
            within(scores(ratio[:, honest], 1.0, 1e-7), 5.0, f"n = {n_data}: predictive over draws")
    if not tried:
        raise Inapplicable("the mean over draws depends on too few of them for a standard error")


@law("draw")
def draws_obey_their_generator(case: Case) -> None:
    """Equal generators give equal draws; NumPy's global state is not used."""
    family = case.family
    n, S = case.of(case.weights(case.rng("generator"), 3))
    before = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002  (looking, not drawing)
    first, again, other = (family.draw_natural(n, S, np.random.default_rng(seed)) for seed in (7, 7, 8))
    after = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
    assert np.array_equal(before, after), "draw_natural uses NumPy's global state"
    assert all(np.array_equal(a, b) for a, b in zip(first, again)), "equal generators give different draws"
    assert not np.array_equal(first[0], other[0]), "draws do not depend on the generator"


@law("map")
def map_is_a_mode(case: Case) -> None:
    """No mode of nearby statistics scores higher in <S, theta> - n g + log_prior."""
    family = case.family
    if not hasattr(family, "log_prior"):
        raise Inapplicable(f"{family.name} has no log_prior")
    rng = case.rng("map")
    W = case.weights(rng, 4, low=5)
    n, S = case.of(W)

    def objective(theta, g):
        return np.einsum("kf,kf->k", S, theta) - n * g + family.log_prior(theta, g)

    best = objective(*family.map_natural(n, S))
    for attempt in range(50):
        share = (1.0, 0.1, 0.01)[attempt % 3]
        rival = objective(*family.map_natural(*case.of(W + share * (case.weights(rng, 4, low=5) - W))))
        assert (rival <= best + 1e-8 * (1 + np.abs(best))).all(), (
            f"the mode scores {best[np.argmax(rival - best)]:.12g}; another parameter scores {(rival - best).max():.3g}"
            " more"
        )


@law("map")
def map_follows_many_data(case: Case) -> None:
    """With a million copies of the data, the mode is where the likelihood is stationary."""
    family, rng = case.family, case.rng("map many")
    # Every row has a positive share, so that the cluster is as far from degenerate as the data allow.
    own, other = (rng.uniform(0.5, 1.0, size=(4, case.X.shape[0])) for _ in range(2))
    own, other = (W / W.sum(axis=1, keepdims=True) for W in (own, other))
    mean, many = own @ case.phi, np.full(4, 1e6 * case.X.shape[0])

    def likelihood(share):
        theta, g = family.map_natural(many, many[:, None] * (share @ case.phi))
        return np.einsum("kf,kf->k", mean, theta) - g

    best = likelihood(own)
    for h in (-1e-2, -1e-3, 1e-3, 1e-2):
        rival = likelihood(own + h * (other - own))
        assert (rival <= best + 1e-9 * (1 + np.abs(best))).all(), (
            f"near the mode of many copies of the data the likelihood is {(rival - best).max():.3g} higher than at it"
        )


@law("sample")
def samples_have_the_family_s_law(case: Case) -> None:
    """The score of samples, d/dt (<phi(x), theta_t> - g_t), has mean zero."""
    family, rng = case.family, case.rng("sample")
    n, S = case.of(case.weights(rng, 1, low=8))
    theta, scores_of = _scores_of_samples(case, n, S, rng)
    X = family.sample(theta, _DRAWS, rng)
    assert np.shape(X) == (_DRAWS, case.X.shape[1]), (
        f"sample: shape {np.shape(X)}, expected {(_DRAWS, case.X.shape[1])}"
    )
    again = [family.sample(theta, 5, np.random.default_rng(3)) for _ in range(2)]
    assert not _differs(*again), "equal generators give different samples"
    values = scores_of(statistics(family, family.validate(X)))
    within(scores(values, 0.0, 1e-9), 5.0, "score of the samples")


def _scores_of_samples(case, n, S, rng):
    """Return a parameter (1, F), and a function of phi of its samples with mean zero.

    The function returns (m, 5) columns.
    """
    family, h = case.family, 1e-4
    if "map" in family.capabilities:
        curve = family.map_natural
    elif hasattr(family, "log_partition") and "variational" in family.capabilities:

        def curve(n, S):
            theta = family.expected_natural(n, S)[0]
            return theta, family.log_partition(theta)

    elif "draw" in family.capabilities:
        return _ratios_of_samples(family, n, S, rng)
    else:
        raise Inapplicable(f"{family.name} offers no parameter to sample from: neither map_natural nor draw_natural")
    members = case.phi[rng.choice(case.X.shape[0], size=min(5, case.X.shape[0]), replace=False)]
    ends = [[curve(n + t, S + t * row) for t in (h, -h)] for row in members]
    d_theta = np.concatenate([(up[0] - down[0]) / (2 * h) for up, down in ends])
    d_g = np.concatenate([(up[1] - down[1]) / (2 * h) for up, down in ends])
    return curve(n, S)[0], lambda phi: phi @ d_theta.T - d_g


def _ratios_of_samples(family, n, S, rng):
    """Return a parameter, and a function of phi from density ratios minus one.

    It serves families without a smooth curve of parameters: ratios of densities to those of nearby parameters have mean
    one.
    """
    m = 6
    theta, g = family.draw_natural(np.full(m, 100 * n[0]), np.repeat(100 * S, m, axis=0), rng)
    return theta[:1], lambda phi: np.expm1(phi @ (theta[1:] - theta[:1]).T - (g[1:] - g[0]))


@law()
def log_partition_is_g(case: Case) -> None:
    """log_partition(theta) equals the g that draws and modes return with theta."""
    family = case.family
    if not hasattr(family, "log_partition"):
        raise Inapplicable(f"{family.name} has no log_partition")
    n, S = case.of(case.weights(case.rng("partition"), 4, low=5))
    pairs = []
    if "draw" in family.capabilities:
        pairs.append(family.draw_natural(n, S, case.rng("partition draws")))
    if "map" in family.capabilities:
        pairs.append(family.map_natural(n, S))
    if not pairs:
        raise Inapplicable(f"{family.name} makes no parameters")
    for theta, g in pairs:
        agree(family.log_partition(theta), g, "log_partition", rel=1e-9, abs=1e-9)


# ---- hyper-parameters and structure --------------------------------------------------------------------------------


@law()
def binding_does_not_see_the_order_of_rows(case: Case) -> None:
    """Hyper-parameters set by `bind`, and A under them, do not depend on the row order."""
    if case.given.is_bound:
        raise Inapplicable("the family was given already bound")
    rng, N = case.rng("row order"), case.X.shape[0]
    n, S = case.of(case.weights(rng, 3))
    for order in (np.arange(N)[::-1], rng.permutation(N), rng.permutation(N)):
        other = case.given.bind(case.X[order])
        agree(statistics(other, case.X), case.phi, "phi after binding to permuted rows", rel=1e-11, abs=1e-11)
        A = case.family.log_marginal(n, S)
        agree(other.log_marginal(n, S), A, "A after binding to permuted rows", rel=1e-10, abs=1e-10)


@law()
def weights_are_repeats_of_rows(case: Case) -> None:
    """Binding to whole weights gives the A of the rows repeated."""
    if case.given.is_bound:
        raise Inapplicable("the family was given already bound")
    rng, N = case.rng("repeats"), case.X.shape[0]
    n, S = case.of(case.weights(rng, 3))
    times = np.where(np.arange(N) < 2, 1, rng.integers(0, 4, N))
    # a family that reads no weights has rows of weight 0 left out
    if not takes_weight(case.given.resolve) or not takes_weight(case.given.bind):
        times = np.minimum(times, 1)
    weighted = bound_family(case.given, case.X, times)
    repeated = case.given.bind(case.X[np.repeat(np.arange(N), times)])
    if weighted.n_statistics_ != repeated.n_statistics_ or repeated.n_statistics_ != case.family.n_statistics_:
        raise Inapplicable("the rows that were left out change the number of statistics")
    agree(
        statistics(weighted, case.X), statistics(repeated, case.X), "phi after binding to weights", rel=1e-9, abs=1e-9
    )
    agree(weighted.log_marginal(n, S), repeated.log_marginal(n, S), "A after binding to weights", rel=1e-8, abs=1e-8)


@law()
def hyper_parameters_can_be_learned(case: Case) -> None:
    """`update_hyper` changes the declared hyper-parameters and keeps A finite."""
    family = case.family
    if not family.hyper:
        raise Inapplicable(f"{family.name} declares no hyper-parameter to learn")
    n, S = case.of(case.weights(case.rng("hyper"), 4))
    other = family.update_hyper(n, S, case.rng("hyper draws"))
    assert other.is_bound
    for name in family.hyper:
        if family.hyper[name] == YES_NO:  # a choice may stay
            assert np.isin(getattr(other, name), (0.0, 1.0)).all(), f"{name} is not 0 or 1"
            continue
        assert not np.array_equal(getattr(other, name), getattr(family, name)), f"{name} did not move"
        assert (np.asarray(getattr(other, name)) > 0).all() or np.ndim(getattr(other, name)) == 2, (
            f"{name} not positive"
        )
    A = other.log_marginal(n, S)
    assert np.isfinite(A).all(), "A is not finite under learned hyper-parameters"
    assert not np.array_equal(A, family.log_marginal(n, S)), "A does not depend on the learned hyper-parameters"


@law()
def separable_parts_make_the_evidence(case: Case) -> None:
    """If separable, A(n, S) = a(n, sum_w S_w) + sum_w f(w, S_w), with f(w, 0) = 0."""
    family = case.family
    parts = family.separable()
    if parts is None:
        raise Inapplicable(f"{family.name} is not separable over features")
    a, f = parts
    n, S = case.of(case.weights(case.rng("separable"), 5))
    columns = np.broadcast_to(np.arange(S.shape[1]), S.shape)
    agree(a(n, S.sum(axis=1)) + f(columns, S).sum(axis=1), family.log_marginal(n, S), "a + sum f", rel=1e-10, abs=1e-10)
    agree(f(columns[0], np.zeros(S.shape[1])), np.zeros(S.shape[1]), "f(w, 0)", abs=1e-14)
    agree(
        family.total_log_marginal(n, sparse.csr_array(S)),
        family.log_marginal(n, S).sum(),
        "total over CSR",
        rel=1e-10,
        abs=1e-9,
    )


# ---- data as they come ---------------------------------------------------------------------------------------------


@law()
def sparse_is_dense(case: Case) -> None:
    """Every sparse format, also unsorted or with stored zeros, gives the dense results."""
    family = case.family
    X = case.X.toarray() if sparse.issparse(case.X) else np.array(case.X)
    if not family.accepts_sparse:
        _refused(family, sparse.csr_array(X), "sparse data", (TypeError,))
        return
    case = case.sparse()
    family = case.family
    n, S = case.of(case.weights(case.rng("sparse"), 3))
    expected = family.log_predictive(X, n, S)
    base = np.asarray(family.log_base(family.validate(X)))
    for name, given in _sparse_forms(X, case.rng("shuffle")):
        kept = given.copy()
        checked = family.validate(given)
        agree(statistics(family, checked), statistics(family, family.validate(X)), f"phi of {name}", abs=1e-12)
        agree(np.asarray(family.log_base(checked)), base, f"log_base of {name}", rel=1e-12, abs=1e-12)
        agree(family.log_predictive(given, n, S), expected, f"log_predictive of {name}", rel=1e-12, abs=1e-12)
        assert not (given != kept).nnz, f"validate changed the caller's {name}"


def _sparse_forms(X, rng):
    csr = sparse.csr_array(X)
    yield "CSR", csr
    yield "CSC", csr.tocsc()
    yield "COO", csr.tocoo()
    yield "CSR matrix", sparse.csr_matrix(X)
    for kind in (np.float32, np.int64, np.int32):
        if np.array_equal(X, X.astype(kind)):
            yield f"CSR of {np.dtype(kind).name}", csr.astype(kind)
    wide = csr.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    yield "CSR with int64 indices", wide
    coo = csr.tocoo()
    zeros = rng.integers(0, X.shape[0], 5), rng.integers(0, X.shape[1], 5)
    row, column = np.concatenate([coo.row, zeros[0]]), np.concatenate([coo.col, zeros[1]])
    data, order = np.concatenate([coo.data, np.zeros(5)]), rng.permutation(coo.nnz + 5)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=X.shape[0]))])
    by_row = order[np.argsort(row[order], kind="stable")]
    yield (
        "CSR, shuffled, with zeros and duplicates",
        sparse.csr_array((data[by_row], column[by_row], indptr), shape=X.shape),
    )


@law()
def layout_does_not_matter(case: Case) -> None:
    """Strided, Fortran-ordered, read-only, float32 and one-row data give the same results."""
    family = case.family
    X = case.X.toarray() if sparse.issparse(case.X) else np.array(case.X)
    n, S = case.of(case.weights(case.rng("layout"), 3))
    expected = family.log_predictive(X, n, S)
    forms = {
        "strided": np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
        "Fortran-ordered": np.asfortranarray(X),
        "read-only": read_only(X.copy()),
        "a list": X.tolist(),
    }
    for name, given in forms.items():
        agree(family.log_predictive(given, n, S), expected, f"log_predictive of {name} data", rel=1e-12, abs=1e-12)
    agree(family.log_predictive(X[:1], n, S), expected[:1], "log_predictive of one row", rel=1e-12, abs=1e-12)
    single = X.astype(np.float32)
    wide = single.astype(np.float64)
    agree(family.log_predictive(single, n, S), family.log_predictive(wide, n, S), "float32 data", rel=1e-6, abs=1e-6)


@law()
def bad_data_are_refused_by_name(case: Case) -> None:
    """Bad data raise ValueError or TypeError that names the family and the place."""
    family = case.family
    X = dense(case.X)
    row, column = 3 % X.shape[0], X.shape[1] - 1
    values = {"infinity": np.inf} if family.allows_missing else {"NaN": np.nan, "infinity": np.inf}
    if family.support in ("counts", "binary", "nonnegative"):
        values["a negative value"] = -2.0
    for what, value in zip(("below", "above"), np.add(family.bounds, (-1.0, 1.0))):
        if np.isfinite(value):
            values[f"a value {what} its bounds"] = value
    if family.support == "categories":
        values["a negative code"] = -2.0
        values["an unseen code"] = 1e6
    if family.support == "binary":
        values["a two"] = 2.0
    if family.support in ("counts", "binary", "categories") and not getattr(family, "allow_fractional", False):
        values["a fraction"] = 0.5
    for what, value in values.items():
        bad = X.copy()
        bad[row, column] = value
        text = _refused(family, bad, what, (ValueError, TypeError))
        numbers = re.findall(r"\d+", text)
        assert str(row) in numbers, f"the message about {what} does not name row {row}: {text}"
        if family.support != "unit":
            assert str(column) in numbers, f"the message about {what} does not name column {column}: {text}"
        if family.accepts_sparse and np.isfinite(value):
            _refused(family, sparse.csr_array(bad), f"{what} in CSR", (ValueError, TypeError))
    _refused(family, np.hstack([X, X[:, :1]]), "another width", (ValueError,))
    _refused(family, X[0], "one-dimensional data", (ValueError,))
    _refused(family, X.astype(object), "object dtype", (TypeError, ValueError))
    _refused(family, X[:0], "no rows", (ValueError,))
    _refused(family, X.astype(np.complex128), "complex dtype", (TypeError, ValueError))


def _refused(family, X, what, errors):
    try:
        family.validate(X)
    except errors as error:
        assert family.name in str(error), f"the message about {what} does not name {family.name!r}: {error}"
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__} instead of {errors[0].__name__}: {error}") from error
    raise AssertionError(f"{what} was accepted")


@law()
def extremes_are_finite(case: Case) -> None:
    """A, its gradient and draws stay finite for extreme data and hyper-parameters."""
    family, phi = case.family, case.phi
    ones = np.ones(phi.shape[0])
    _finite(family, 1e6 * ones[:5], 1e6 * phi[:5], "one datum 1e6 times")
    _finite(family, ones, phi, "one datum")
    _finite(family, 1e-3 * ones, 1e-3 * phi, "a thousandth of a datum")
    n, S = case.of(case.weights(case.rng("extremes"), 4))
    for name in family.hyper:
        for factor in (1e-4, 1e4):
            other = family.with_hyper(**{name: changed(family, name, factor)})
            _finite(other, n, S, f"{name} times {factor:g}", moments=False)
    for what, X in _extreme_data(case):
        if case.given.is_bound and family.support == "real":
            continue  # a family bound to other data may subtract another centre
        try:
            bound = case.given.bind(X)
            bound.validate(X)
        except SupportError:
            continue  # outside the support of this family, for example zeros where only positive values are allowed
        if case.given.is_bound:
            bound = family
        rows = statistics(bound, bound.validate(X))
        _finite(bound, np.full(1, float(len(rows))), rows.sum(axis=0)[None], what)
        assert np.isfinite(bound.log_predictive(X[:3], np.zeros(1), np.zeros((1, rows.shape[1])))).all(), what


def _extreme_data(case):
    X = dense(case.X)
    if case.family.support in ("counts", "binary", "nonnegative"):
        yield "rows of zeros", np.zeros_like(X)
    if case.family.support == "counts":
        yield "counts of a million", np.where(X > 0, 1e6, X)
    if case.family.support == "real":
        yield "an offset of 1e6", X + 1e6
        constant = X.copy()
        constant[:, 0] = 3.0
        yield "one constant column", constant


def _finite(family, n, S, what, *, moments=True):
    assert np.isfinite(family.log_marginal(n, S)).all(), f"A is not finite for {what}"
    if moments and "variational" in family.capabilities:
        assert all(np.isfinite(part).all() for part in family.expected_natural(n, S)), (
            f"{what}: E theta, E g not finite"
        )
    if moments and "draw" in family.capabilities:
        drawn = family.draw_natural(n, S, np.random.default_rng(1))
        assert all(np.isfinite(part).all() for part in drawn), f"{what}: draws not finite"
