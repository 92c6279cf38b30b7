"""Laws of what a family says about its data: it must be true of the data and of phi."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.plugins.laws.data_case import Inapplicable, agree, dense, law, statistics

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.plugins.laws.data_case import Case

_TAGS = {"sparse", "allow_nan", "positive_only", "categorical", "string", "real"}
_HOLES = 0.2  # share of the values that a law leaves out


@law()
def answers_about_data_are_true(case: Case) -> None:
    """What the family says about its data and statistics is true of these."""
    family, X, phi = case.family, dense(case.X), case.phi
    for name in ("is_discrete", "has_counts", "has_exact_sums", "is_metric", "allows_missing"):
        answer = getattr(family, name)
        assert isinstance(answer, (bool, np.bool_)), f"{name} must be True or False; got {answer!r}"
    assert family.is_discrete or not family.has_counts, "counts are discrete: is_discrete must be True"
    nonnegative = family.nonnegative_statistics
    assert np.shape(nonnegative) == (phi.shape[1],), (
        f"nonnegative_statistics has shape {np.shape(nonnegative)}; there are {counted(phi.shape[1], 'statistic')}"
    )
    assert np.asarray(nonnegative).dtype == bool, "nonnegative_statistics must be an array of bool"
    negative = np.flatnonzero((phi < 0).any(axis=0) & nonnegative)
    assert not negative.size, f"nonnegative_statistics is True for statistic {negative[0]}, which is {phi.min():.4g}"
    if family.has_exact_sums and _are_whole(X):
        assert _are_whole(phi), "has_exact_sums is True, but phi of whole numbers has fractions"
    tags = family.tags()
    assert set(tags) >= _TAGS, f"tags() lacks {sorted(_TAGS - set(tags))}"
    assert all(isinstance(value, (bool, np.bool_)) for value in tags.values()), f"tags must be bool; got {tags}"
    assert not (tags["positive_only"] and (X < 0).any()), "the tag positive_only is True, but data are negative"
    for tag, name in (("allow_nan", "allows_missing"), ("sparse", "accepts_sparse")):
        assert tags[tag] == getattr(family, name), f"the tag {tag} is {tags[tag]}, but {name} is not"


def _are_whole(values):
    values = values[~np.isnan(values)]
    return bool((values == np.rint(values)).all())


@law()
def free_parameters_are_counted(case: Case) -> None:
    """The number of free parameters is a positive integer; each cluster adds equally many."""
    try:
        found = [case.family.n_free_parameters(n_clusters) for n_clusters in (1, 2, 3)]
    except CapabilityError:
        raise Inapplicable("n_free_parameters is not written, so that Mixture.bic is refused") from None
    one, two, three = found
    assert one > 0, f"n_free_parameters(1) must be a positive integer; got {one}"
    assert one <= two, f"two clusters have {two} free parameters, and one has {one}"
    assert three - two == two - one, f"one, two and three clusters have {one}, {two} and {three} free parameters"


@law()
def coordinates_are_finite_and_by_row(case: Case) -> None:
    """Coordinates are finite, and those of a block of rows are the same rows of all coordinates."""
    family, X = case.family, case.X
    for name in ("coordinate_map", "neighbour_map"):
        _check_map(getattr(family, name)(X), X, name)
    if type(family).__dict__.get("coordinates"):
        _check_map(family.coordinates, X, "coordinates")


def _check_map(of_rows, X, name):
    points = of_rows(X)
    assert sparse.issparse(points) or isinstance(points, np.ndarray), f"{name} must give an ndarray or CSR"
    assert points.ndim == 2, f"{name} must give a matrix; got shape {points.shape}"
    assert points.shape[0] == X.shape[0], f"{name} gives {counted(points.shape[0], 'row')} for {X.shape[0]}"
    points = dense(points)
    for rows in (slice(0, 1), slice(3, 8)):
        agree(dense(of_rows(X[rows])), points[rows], f"{name} of a block of rows", rel=1e-6, abs=1e-6)


@law()
def missing_values_are_left_out(case: Case) -> None:
    """NaN is accepted where the family says so; a row without any value tells nothing."""
    if not case.family.allows_missing:
        raise Inapplicable(f"{case.family.name} says that no value may be missing")
    X = _with_holes(case)
    family: Any = (case.family if case.given.is_bound else case.given).bind(X)
    phi = statistics(family, family.validate(X))
    assert np.isfinite(phi).all(), "phi of rows with missing values is not finite"
    n, S = np.array([0.0, len(X)]), np.stack([np.zeros(phi.shape[1]), phi.sum(axis=0)])
    scores = family.log_predictive(X, n, S) + np.asarray(family.log_base(X))[:, None]
    assert np.isfinite(scores).all(), "the predictive of rows with missing values is not finite"
    if getattr(family, "missing", None) != "informative":  # then absence itself is modelled
        agree(scores[-1], np.zeros(2), "log predictive of a row without any value", abs=1e-9)
        assert not phi[-1].any(), "phi of a row without any value is not zero: it must add nothing to a cluster"
    for name in ("coordinate_map", "neighbour_map"):
        found = dense(getattr(family, name)(X)(X))
        assert np.isfinite(found).all(), f"{name} gives {found[~np.isfinite(found)][0]} for rows with missing values"


def _with_holes(case: Case) -> npt.NDArray[Any]:
    """Return the rows with a fifth of the values missing, and all values of the last row."""
    X = dense(case.X)
    X[case.rng("holes").random(X.shape) < _HOLES] = np.nan
    X[-1] = np.nan
    return X
