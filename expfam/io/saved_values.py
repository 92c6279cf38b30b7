"""Checks of a saved model before compiled code uses it: shapes, types and ranges.

A file may be altered on purpose, with a correct checksum. So every shape that a prediction relies on is compared with
the shapes of the family; numbers must be finite, and labels and nodes in range.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import ArchiveError
from expfam.families.base import Family
from expfam.families.columns.family import Columns
from expfam.families.columns.kinds.registry import role_names
from expfam.families.columns.roles import Roles
from expfam.families.columns.table import PRESENCE, READINGS
from expfam.families.components import Components
from expfam.families.support import dense_rows
from expfam.model.data import Dataset
from expfam.model.hyper_prior import WEIGHT_NAMES, factor_names, recorded_name
from expfam.structures.ground.stored import MOST, TINY, integers, matrix, numbers

_MOST_COLUMNS = 1 << 31
_LARGEST, _SMALLEST = 1e100, 1e-100  # of what families and weights take, and so of all numbers that follow
_LARGEST_SINGLE = 1e30  # of numbers that are also kept in single precision
_METHODS = ("gibbs", "active", "dense", "tokens")  # that find topics
_ORDERS = ("odds", "odds_size", "ward", "linkage")  # that make trees
_ROUNDING = 1e-6  # of probabilities in single precision


def check_family(family: Any) -> None:
    """Refuse a bound family whose learned values have wrong shapes for its columns.

    Only the numbers of columns and statistics, and finiteness, are checked for families of other packages: they are
    written in Python and check their own values.
    """
    if not isinstance(family, Family):
        raise ArchiveError(f"the family is a {type(family).__name__}: the header was altered")
    if isinstance(family, Columns):
        _check_parts(family)
    found = vars(family)
    columns = int(integers(found, "n_features_in_", (), 1, _MOST_COLUMNS))
    integers(found, "n_statistics_", (), 1, _MOST_COLUMNS)
    for name, value in found.items():
        if name in family.get_params() or name == "hyper_factors_":
            continue
        if not isinstance(value, (int, float, np.ndarray)) or not np.isfinite(value).all():
            raise ArchiveError(f"{name!r} of the family is not a finite number or array: the file was altered")
    for name, value in found.get("hyper_factors_", {}).items():
        if name not in family.hyper:
            raise ArchiveError(f"{name!r} is no hyper-parameter of {family.name}: the file was altered")
        numbers({name: value}, name, family.factor_shape(name) if np.ndim(value) else (), low=TINY)
    if not _is_own(family):
        return
    _check_sizes(found, "family")
    family.check_learned()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        reference = type(family)(**family.get_params()).bind(_rows_for(family, columns))
    _compare(found, vars(reference), columns)


def check_weights(weights: Any) -> None:
    """Refuse a prior on weights with parameters that no number of its formulas holds."""
    if _is_own(weights):
        _check_sizes(weights.get_params(), "weights")


def _check_sizes(found, owner):
    """Refuse numbers whose products or logarithms would be infinite or NaN."""
    for name, value in found.items():
        array = np.asarray(value) if isinstance(value, (int, float, np.ndarray)) else np.zeros(0)
        if array.dtype.kind in "iuf" and array.size and not (np.abs(array) <= _LARGEST).all():
            raise ArchiveError(
                f"{name!r} of the {owner} holds numbers beyond {_LARGEST:g} or NaN: the file was altered"
            )


def check_threads(n_threads: Any) -> None:
    """Refuse a setting `n_threads` that is no number of threads."""
    is_number = isinstance(n_threads, (int, float)) and not isinstance(n_threads, bool)
    is_whole = is_number and (n_threads == -1 or 1 <= n_threads < 1 << 31) and n_threads == int(n_threads)
    if n_threads is not None and not is_whole:
        raise ArchiveError(f"the setting 'n_threads' is {n_threads!r}: the file was altered")


def _check_parts(table):
    """Refuse parts of a table that are not bound families of distinct columns."""
    for role in Roles(table.roles or ()).roles:
        if role.role not in role_names():
            raise ArchiveError(
                f"the role {role.role!r} of column {role.column!r} is of no installed kind of columns: install the"
                " distribution that has it; else the file was altered"
            )
    if not isinstance(table.parts, tuple) or not table.parts:
        raise ArchiveError("'parts' of the family is no tuple of parts: the file was altered")
    for place, part in enumerate(table.parts):
        is_part = isinstance(part, tuple) and len(part) == 4 and isinstance(part[1], tuple)
        if not is_part or part[2] not in READINGS or not isinstance(part[3], str):
            raise ArchiveError(f"part {place} of the family is not a part of a table: the file was altered")
        check_family(part[0])
        width = 1 if part[2] == PRESENCE else len(part[1])
        if part[0].n_features_in_ != width or not all(isinstance(j, int) and j >= 0 for j in part[1]):
            raise ArchiveError(
                f"part {place} of the family does not fit its {counted(len(part[1]), 'column')}: it was altered"
            )


def _is_own(family):
    return type(family).__module__.partition(".")[0] == "expfam"


def _rows_for(family, columns):
    """Return two rows within the family's support whose columns are not constant."""
    if family.tags()["categorical"] and not isinstance(family, Columns):
        integers(vars(family), "levels_", (columns,), 1, 1 << 31)
    return family.example_rows(columns)


def _compare(found, wanted, columns):
    for name, value in wanted.items():
        if name not in found:
            raise ArchiveError(f"{name!r} of the family is missing: the file was altered")
        if isinstance(value, np.ndarray) or isinstance(found[name], np.ndarray):
            if np.shape(found[name]) != np.shape(value) and np.ndim(value):
                raise ArchiveError(
                    f"{name!r} of the family has shape {np.shape(found[name])}; {np.shape(value)} is expected for"
                    f" {counted(columns, 'column')}: the file was altered"
                )
            is_whole = np.asarray(value).dtype.kind in "iu"
            if is_whole and not np.array_equal(found[name], value):
                raise ArchiveError(f"{name!r} of the family is not what its columns have: the file was altered")
            numbers({name: found[name]}, name, np.shape(value))
        elif name == "n_statistics_" and found[name] != value:
            raise ArchiveError(f"{name!r} of the family is {found[name]!r}, not {value!r}: the file was altered")


def check_names(results: Collection[str], allowed: Collection[str]) -> None:
    """Refuse attributes that no saved model has, because they could replace methods."""
    strange = sorted(set(results) - set(allowed))
    if strange:
        raise ArchiveError(f"the header holds {strange[0]!r}, which is no result of a fit: it was altered")


def check_keywords(params: Any, made: type, what: str) -> None:
    """Refuse keywords that the constructor of the class to be made does not have.

    `what` names them in the message. Keywords may be missing: they are newer than the file, and have their defaults.
    """
    if not isinstance(params, dict):
        raise ArchiveError(f"the {what} are a {type(params).__name__}, not keywords and values: the header was altered")
    known = inspect.signature(made).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return
    strange = sorted(set(params) - set(known))
    if strange:
        raise ArchiveError(
            f"the {what} hold {strange[0]!r}, which {made.__name__} does not have: the header was altered, or another"
            " version of its package wrote it"
        )


def check_statistics(results: Mapping[str, Any], family: Any, n: str = "n_", S: str = "S_") -> int:
    """Refuse counts (K,) and sums (K, F) that do not fit a family; return K.

    Parameters
    ----------
    results : mapping of str to object
        Attributes that were read from a file.
    family : Family
        Bound.
    n, S : str
        Names of the counts and of the sums.

    Raises
    ------
    ArchiveError
    """
    most = _LARGEST if _is_own(family) else MOST
    K = len(numbers(results, n, (None,), low=0.0, high=most))
    if K < 1:
        raise ArchiveError("there are no clusters: the file was altered")
    sums = matrix(results, S, (K, family.n_statistics_), low=-most, high=most)
    is_empty = np.asarray(results[n]) == 0
    if is_empty.any() and np.any(dense_rows(sums[np.flatnonzero(is_empty)])):
        raise ArchiveError(f"{S!r} has sums of clusters whose {n!r} is 0: the file was altered")
    with np.errstate(all="ignore"):
        if not np.isfinite(family.log_marginal_of_rows(results[n], sums)).all():
            raise ArchiveError(f"the evidence of {n!r} and {S!r} is not finite under the family: the file was altered")
    if _is_own(family):
        data = Dataset(_rows_for(family, family.n_features_in_), family)
        Components(family, data, K).load(results[n], results[S])  # refuses impossible sums
    return K


def check_mixture(results: Mapping[str, Any], family: Any, weights: Any) -> None:
    """Refuse results of a `Mixture` that do not fit each other, the family or the weights."""
    check_family(family)
    check_weights(weights)
    K = check_statistics(results, family)
    _check_mass(results, weights, K)
    numbers(results, "cluster_sizes_", (K,), low=0.0)  # not whole numbers if rows had weights
    if "n_warmup" in results:
        integers(results, "n_warmup", (), 0)
    integers(results, "n_components_", (), K, K + 1)
    is_fit = "trace_" in results  # what was merged has none
    _check_run(results, family.n_features_in_, K, may_lack_log_joint=not is_fit)
    if "_draws" in results:
        _check_draws(results["_draws"], np.size(results.get("labels_", ())), family)
    if "trace_" in results:
        lengths = {name: numbers(results["trace_"], name, (None,), finite=False).size for name in results["trace_"]}
        if len(set(lengths.values())) != 1:
            raise ArchiveError(f"the columns of the trace have the lengths {lengths}: the file was altered")


def _check_mass(results, weights, K):
    """Refuse weights of clusters that do not follow from their counts and the prior."""
    mass = numbers(results, "weights_", (K,), low=0.0, high=1.0 + _ROUNDING)
    new = numbers(results, "log_weight_new_", (), finite=False, high=0.0)
    wanted, wanted_new = weights.posterior_mean(np.asarray(results["n_"], dtype=np.float64))
    if not np.allclose(mass, wanted, rtol=_ROUNDING, atol=0.0):
        raise ArchiveError("'weights_' do not follow from 'n_' and the prior on weights: the file was altered")
    if not np.isclose(np.exp(new), wanted_new, rtol=_ROUNDING, atol=0.0):
        raise ArchiveError("'log_weight_new_' does not follow from 'n_' and the prior on weights: the file was altered")


def _check_draws(draws, n_rows, family):
    """Refuse draws of a partition that do not fit each other or the labels."""
    check_names(draws, ["draws", "chain", "log_joint", "acceptance_rate", "seconds", "hyper"])
    M = len(integers(draws, "draws", (None, n_rows), 0, max(n_rows, 1), dtype=np.uint32))
    integers(draws, "chain", (M,))
    for name in ("log_joint", "acceptance_rate", "seconds"):
        numbers(draws, name, (M,), finite=False)
    hyper = draws.get("hyper", {})
    learned = [recorded_name(family, name) for name in factor_names(family, family.hyper)]
    check_names(hyper, [*learned, *WEIGHT_NAMES])
    for name in hyper:
        numbers(hyper, name, (M,), low=0.0)


def check_grouped(results: Mapping[str, Any], family: Any) -> None:
    """Refuse results of a `GroupedMixture` that do not fit each other or the family."""
    check_family(family)
    K = check_statistics(results, family)
    numbers(results, "alpha_", (K,), low=_SMALLEST, high=_LARGEST)
    if "group_counts_" in results:
        matrix(results, "group_counts_", (None, K), low=0.0, high=_LARGEST)
    if "rest_" in results:
        check_unknown_number(results, K)
    names, counts = results.get("group_names_"), results.get("group_counts_")
    is_array = isinstance(names, np.ndarray) and names.dtype.kind in "iU" and names.ndim == 1
    if names is not None and not (is_array and counts is not None and len(names) == counts.shape[0]):
        raise ArchiveError("'group_names_' are no names of the groups of 'group_counts_': the file was altered")
    _check_run(results, family.n_features_in_, K, may_lack_log_joint=True)  # clusters that were merged have none


def check_topics(results: Mapping[str, Any]) -> None:
    """Refuse results of a `TopicModel` that do not fit each other."""
    K, V = numbers(results, "components_", (None, None), low=_SMALLEST, high=_LARGEST).shape
    if K < 1 or V < 1:
        raise ArchiveError("there are no topics or no words: the file was altered")
    numbers(results, "alpha_", (K,), low=_SMALLEST, high=_LARGEST_SINGLE)
    shape = () if np.ndim(results.get("eta_", 0)) == 0 else (V,)
    eta = numbers(results, "eta_", shape, low=_SMALLEST, high=_LARGEST)
    if "seeds_" in results:
        matrix(results, "seeds_", (V, K), low=1, high=(1 << 30) - 1)
    if (results["components_"] < eta * (1.0 - _ROUNDING)).any():
        raise ArchiveError("'components_' holds numbers below 'eta_', which is a part of each: the file was altered")
    if "n_documents_" in results:
        numbers(results, "n_documents_", (), low=0.0, high=_LARGEST)
    _check_choice(results, "method_", _METHODS)
    if "rest_" in results:
        check_unknown_number(results, K)
        numbers(results, "sizes_", (K,), low=0.0, high=_LARGEST)
    _check_run(results, V, K, may_lack_log_joint=True)  # merged topics may not know it


def check_unknown_number(results: Mapping[str, Any], n_clusters: int) -> None:
    """Refuse weights of clusters of an unknown number that do not fit each other."""
    alpha = numbers(results, "concentration_", (), low=_SMALLEST, high=_LARGEST_SINGLE)
    numbers(results, "gamma_", (), low=_SMALLEST, high=_LARGEST_SINGLE)
    beta, rest = numbers(results, "beta_", (n_clusters,), low=0.0), numbers(results, "rest_", (), low=0.0)
    fits = abs(beta.sum() + rest - 1.0) < _ROUNDING and np.allclose(results["alpha_"], alpha * beta, rtol=_ROUNDING)
    if not fits:
        raise ArchiveError("'beta_' and 'rest_' are no weights, or 'alpha_' is not of them: the file was altered")


def check_hierarchy(results: Mapping[str, Any], family: Any) -> None:
    """Refuse results of a `BayesianHierarchy` that do not fit each other or the family."""
    check_family(family)
    L = check_statistics(results, family, "n", "S")
    M = len(integers(results, "children", (None, 2), 0, 2 * L))
    counts = integers(results, "counts", (L + M,), 1, 1 << 40)
    numbers(results, "log_block", (L + M,), low=-_LARGEST, high=_LARGEST)
    numbers(results, "leaf_weight", (L,), low=-_LARGEST, high=_LARGEST)
    numbers(results, "alpha_", (), low=_SMALLEST, high=_LARGEST)
    _check_choice(results, "order_", _ORDERS)
    leaf = integers(results, "leaf_", (None,), 0, L)
    integers(results, "labels_", leaf.shape, 0, max(len(leaf), 1))
    below = np.concatenate([np.bincount(leaf, minlength=L), counts[results["children"]].sum(axis=1)])
    if not np.array_equal(below, counts):
        raise ArchiveError("the counts of the tree are not those of its leaves: the file was altered")
    _check_run(results, family.n_features_in_, L)


def _check_choice(results, name, allowed):
    """Refuse a text that is none of those that a fit writes."""
    if name in results and not (isinstance(results[name], str) and results[name] in allowed):
        raise ArchiveError(
            f"{name!r} is {results[name]!r}; one of {', '.join(map(repr, allowed))} is expected: the file was altered"
        )


def _check_flags(results):
    """Refuse flags that are no booleans, and a start that is no text."""
    for name in ("interrupted_", "converged_"):
        if name in results and not isinstance(results[name], (bool, np.bool_)):
            raise ArchiveError(f"{name!r} is {results[name]!r}; True or False is expected: the file was altered")
    start = results.get("n_init_chosen_")
    if start is not None and not isinstance(start, str):
        raise ArchiveError(f"'n_init_chosen_' is {start!r}; text or None is expected: the file was altered")


def _check_classes(results, n_clusters):
    """Refuse classes of clusters and rows that do not fit each other."""
    if "classes_" in results and np.ndim(results["classes_"]) != 1:
        raise ArchiveError(f"'classes_' has shape {np.shape(results['classes_'])}, not one axis: the file was altered")
    if "cluster_classes_" in results:
        integers(results, "cluster_classes_", (n_clusters,), -1, max(np.size(results.get("classes_", ())), 0))
    if "n_known_" in results:
        integers(results, "n_known_", ())
    if "doubtful_known_" in results:
        doubtful = integers(results, "doubtful_known_", (None,), 0, max(np.size(results.get("labels_", ())), 1))
        if np.shape(results.get("likelier_classes_")) != doubtful.shape:
            raise ArchiveError("'doubtful_known_' and 'likelier_classes_' differ in length: the file was altered")


def _check_row_names(results):
    """Refuse names of rows that are not one text for each label."""
    n_rows = np.size(results.get("labels_", ()))
    names = results.get("row_names_", np.empty(n_rows, dtype=str))
    if not isinstance(names, np.ndarray) or names.dtype.kind != "U" or names.shape != (n_rows,):
        raise ArchiveError(f"'row_names_' are no names of {counted(n_rows, 'row')}: the file was altered")


def _check_run(results, columns, n_clusters, *, may_lack_log_joint=False):
    _check_flags(results)
    _check_classes(results, n_clusters)
    integers(results, "n_features_in_", (), columns, columns + 1)
    for name in ("n_iter_", "n_scores_"):
        if name in results:
            integers(results, name, ())
    if "log_joint_" in results:
        found = numbers(results, "log_joint_", (), finite=False)
        if not (np.isfinite(found) or (may_lack_log_joint and np.isnan(found))):
            raise ArchiveError(f"'log_joint_' is {float(found)}, no finite number: the file was altered")
    if "labels_" in results and np.size(results["labels_"]):
        integers(results, "labels_", (None,), 0, n_clusters)
    _check_row_names(results)
    if "probabilities_" in results:
        numbers(results, "probabilities_", np.shape(results.get("labels_", ())), low=0.0, high=1.0 + _ROUNDING)
    names = results.get("feature_names_in_")
    if "documents_" in results and (results["documents_"] not in ("texts", "tokens") or names is None):
        raise ArchiveError(f"'documents_' is {results['documents_']!r}, or there are no words: the file was altered")
    if names is not None and np.shape(names) != (columns,):
        raise ArchiveError(
            f"there are {counted(np.size(names), 'name')} for {counted(columns, 'column')}: the file was altered"
        )
