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

from expfam.errors import ArchiveError
from expfam.families.base import Family
from expfam.families.columns.family import Columns
from expfam.families.columns.parts import PRESENCE, READINGS
from expfam.families.components import Components
from expfam.model.data import Dataset
from expfam.structures.ground.stored import TINY, integers, matrix, numbers

_MOST_COLUMNS = 1 << 31
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
        numbers({name: value}, name, (), low=TINY)
    if not _is_own(family):
        return
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        reference = type(family)(**family.get_params()).bind(_rows_for(family, columns))
    _compare(found, vars(reference), columns)


def _check_parts(table):
    """Refuse parts of a table that are not bound families of distinct columns."""
    if not isinstance(table.parts, tuple) or not table.parts:
        raise ArchiveError("'parts' of the family is no tuple of parts: the file was altered")
    for place, part in enumerate(table.parts):
        is_part = isinstance(part, tuple) and len(part) == 4 and isinstance(part[1], tuple)
        if not is_part or part[2] not in READINGS or not isinstance(part[3], str):
            raise ArchiveError(f"part {place} of the family is not a part of a table: the file was altered")
        check_family(part[0])
        width = 1 if part[2] == PRESENCE else len(part[1])
        if part[0].n_features_in_ != width or not all(isinstance(j, int) and j >= 0 for j in part[1]):
            raise ArchiveError(f"part {place} of the family does not fit its {len(part[1])} columns: it was altered")


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
                    f" {columns} columns: the file was altered"
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
    """Refuse counts (K,) and sums (K, F) that do not fit a family; return K."""
    K = len(numbers(results, n, (None,), low=0.0))
    if K < 1:
        raise ArchiveError("there are no clusters: the file was altered")
    matrix(results, S, (K, family.n_statistics_))
    if _is_own(family):
        data = Dataset(_rows_for(family, family.n_features_in_), family)
        Components(family, data, K).load(results[n], results[S])  # refuses impossible sums
    return K


def check_mixture(results: Mapping[str, Any], family: Any) -> None:
    """Refuse results of a `Mixture` that do not fit each other or the family."""
    check_family(family)
    K = check_statistics(results, family)
    numbers(results, "weights_", (K,), low=0.0)
    numbers(results, "log_weight_new_", (), finite=False, high=0.0)
    numbers(results, "cluster_sizes_", (K,), low=0.0)  # not whole numbers if rows had weights
    if "n_warmup" in results:
        integers(results, "n_warmup", (), 0)
    integers(results, "n_components_", (), K, K + 1)
    _check_run(results, family.n_features_in_, K)
    if "_draws" in results:
        _check_draws(results["_draws"], np.size(results.get("labels_", ())))
    if "trace_" in results:
        lengths = {name: numbers(results["trace_"], name, (None,), finite=False).size for name in results["trace_"]}
        if len(set(lengths.values())) != 1:
            raise ArchiveError(f"the columns of the trace have the lengths {lengths}: the file was altered")


def _check_draws(draws, n_rows):
    """Refuse draws of a partition that do not fit each other or the labels."""
    check_names(draws, ["draws", "chain", "log_joint", "acceptance_rate", "seconds"])
    M = len(integers(draws, "draws", (None, n_rows), 0, max(n_rows, 1), dtype=np.uint32))
    integers(draws, "chain", (M,))
    for name in ("log_joint", "acceptance_rate", "seconds"):
        numbers(draws, name, (M,), finite=False)


def check_grouped(results: Mapping[str, Any], family: Any) -> None:
    """Refuse results of a `GroupedMixture` that do not fit each other or the family."""
    check_family(family)
    K = check_statistics(results, family)
    numbers(results, "alpha_", (K,), low=TINY)
    matrix(results, "group_counts_", (None, K), low=0.0)
    _check_run(results, family.n_features_in_, K)


def check_topics(results: Mapping[str, Any]) -> None:
    """Refuse results of a `TopicModel` that do not fit each other."""
    K, V = numbers(results, "components_", (None, None), low=0.0).shape
    if K < 1 or V < 1:
        raise ArchiveError("there are no topics or no words: the file was altered")
    numbers(results, "alpha_", (K,), low=TINY)
    numbers(results, "eta_", () if np.ndim(results["eta_"]) == 0 else (V,), low=TINY)
    if "seeds_" in results:
        matrix(results, "seeds_", (V, K), low=1)
    _check_run(results, V, K)


def check_hierarchy(results: Mapping[str, Any], family: Any) -> None:
    """Refuse results of a `BayesianHierarchy` that do not fit each other or the family."""
    check_family(family)
    L = check_statistics(results, family, "n", "S")
    M = len(integers(results, "children", (None, 2), 0, 2 * L))
    counts = integers(results, "counts", (L + M,), 1, 1 << 40)
    numbers(results, "log_block", (L + M,))
    numbers(results, "leaf_weight", (L,))
    numbers(results, "alpha_", (), low=TINY)
    leaf = integers(results, "leaf_", (None,), 0, L)
    integers(results, "labels_", leaf.shape, 0, max(len(leaf), 1))
    below = np.concatenate([np.bincount(leaf, minlength=L), counts[results["children"]].sum(axis=1)])
    if not np.array_equal(below, counts):
        raise ArchiveError("the counts of the tree are not those of its leaves: the file was altered")
    _check_run(results, family.n_features_in_, L)


def _check_run(results, columns, n_clusters):
    integers(results, "n_features_in_", (), columns, columns + 1)
    for name in ("n_iter_", "n_scores_"):
        if name in results:
            integers(results, name, ())
    if "log_joint_" in results:
        numbers(results, "log_joint_", (), finite=False)
    if "labels_" in results and np.size(results["labels_"]):
        integers(results, "labels_", (None,), -1, max(n_clusters, np.size(results["labels_"])))
    if "probabilities_" in results:
        numbers(results, "probabilities_", np.shape(results.get("labels_", ())), low=0.0, high=1.0 + _ROUNDING)
    names = results.get("feature_names_in_")
    if names is not None and np.shape(names) != (columns,):
        raise ArchiveError(f"there are {np.size(names)} names for {columns} columns: the file was altered")
