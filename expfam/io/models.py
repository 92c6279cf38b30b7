"""Saved estimators: statistics and settings in files, without the data and without pickle.

A fitted mixture is (bound family, weights, n, S). So a saved model has O(K F) bytes for any number of rows, plus the
trace; the labels are added on request. Families and weights are named by entry point and class. Their parameters and
learned attributes are stored as JSON and arrays, and the plugin registry makes them again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.archive import read_archive, write_archive
from expfam.errors import ArchiveError
from expfam.families.base import Family
from expfam.io.saved_classes import WEIGHTS_METHODS, SavedClasses, class_at, class_path
from expfam.io.saved_drawn import packed_drawn, unpacked_drawn, unpacked_topics
from expfam.io.saved_values import (
    check_grouped,
    check_hierarchy,
    check_keywords,
    check_mixture,
    check_names,
    check_threads,
    check_topics,
)
from expfam.model.mixture import MixtureModel
from expfam.params import Settings, check_settings
from expfam.samplers.chain.trace import WarmedColumns
from expfam.samplers.hierarchy.tree import HierarchyTree
from expfam.samplers.variational.schedules import Schedule
from expfam.structures.ground.stored import restoring

if TYPE_CHECKING:
    import numpy.typing as npt

MIXTURE = "mixture"
HIERARCHY = "hierarchy"
TOPICS = "topic_model"
GROUPED = "grouped_mixture"
_RESULTS = {
    MIXTURE: "n_components_ weights_ log_weight_new_ cluster_sizes_ n_ S_ log_joint_ n_iter_ interrupted_"
    " n_features_in_ converged_ n_init_chosen_ classes_ cluster_classes_ n_known_",
    HIERARCHY: "alpha_ leaf_ labels_ probabilities_ row_names_ order_ n_scores_ interrupted_ n_features_in_",
    TOPICS: "components_ alpha_ eta_ seeds_ log_joint_ n_iter_ interrupted_ method_ n_features_in_ n_documents_"
    " beta_ rest_ concentration_ gamma_ sizes_ converged_",
    GROUPED: "group_counts_ alpha_ n_ S_ log_joint_ n_iter_ interrupted_ n_features_in_ classes_ n_known_"
    " beta_ rest_ concentration_ gamma_ converged_ cluster_sizes_",
}
_OTHER_RESULTS = {
    MIXTURE: "labels_ probabilities_ row_names_ doubtful_known_ likelier_classes_ trace_ n_warmup stream_ _draws"
    " _drawn",
    HIERARCHY: "children log_block counts leaf_weight n S",
    TOPICS: "labels_ probabilities_ row_names_ stream_ _drawn",
    GROUPED: "labels_ probabilities_ row_names_ doubtful_known_ likelier_classes_ stream_ group_names_",
}
_OF_COLUMNS = ("feature_names_in_", "documents_", "family_scores_", "family_agreement_")
_OF_ROWS = ("probabilities_", "doubtful_known_", "likelier_classes_")  # beside labels
_NOT_KEPT = {
    "labels_": "write model.save(path, labels=True), or model.predict(X)",
    "probabilities_": "write model.save(path, labels=True)",
    "doubtful_known_": "write model.save(path, labels=True)",
    "likelier_classes_": "write model.save(path, labels=True)",
    "trace_": "read it from the model that was fitted, before it is saved",
    "converged_": "files of former versions do not hold it; read trace_ of a new fit",
}
_TRACE_COLUMNS = ("step", "objective", "n_clusters", "seconds")
_PARTS = ("family", "weights", "schedule")
_TREE = ("children", "log_block", "counts")


class StoredTrace(WarmedColumns):
    """Columns of a trace that was read from a file, without kept partitions.

    `columns` holds step, objective (nats), number of clusters and seconds, each (T,). The first `n_warmup` steps were a
    warm-up; summaries leave them out.
    """

    def __init__(self, columns: Mapping[str, npt.NDArray[Any]], *, n_warmup: int = 0) -> None:
        self.columns, self.n_warmup = dict(columns), int(n_warmup)

    def __len__(self):
        return len(next(iter(self.columns.values()), ()))

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.columns)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column by name: (T,) ndarray."""
        if name not in self.columns:
            raise KeyError(f"the stored trace has no column {name!r}; it has {list(self.columns)}")
        return self.columns[name]


def save_estimator(estimator: Any, path: str | PathLike[str], *, labels: bool = False) -> None:
    """Write a fitted estimator to the directory `path`.

    Some settings cannot be saved: callbacks, starting labels, generators, and all that are not plain values, families,
    weights, or samplers with plain settings. They are written as text to the header's ``not_kept``, and a loaded model
    has their defaults; predictions do not depend on them. If an estimator learned from chunks, the loaded one can go on
    learning.

    Parameters
    ----------
    estimator : Mixture, GroupedMixture, TopicModel or BayesianHierarchy
        Fitted.
    path : path-like
        An earlier model at this path is replaced.
    labels : bool
        Whether to save `labels_` of a mixture, too: 4 bytes for each datum, names of rows, and kept draws. Those of a
        hierarchy are always saved.

    Raises
    ------
    ArchiveError
        Something else is at `path`, or a part cannot be saved without pickle.
    """
    kind = estimator.saved_kind
    results, parts = _SAVED[kind](estimator)
    if labels:
        results["labels_"] = estimator._labels
        for name in _OF_ROWS:
            if name in vars(estimator):
                results[name] = vars(estimator)[name]
        if hasattr(estimator, "row_names_"):
            results["row_names_"] = estimator.row_names_
        if hasattr(estimator, "_draws"):
            results["_draws"] = estimator._draws
    if hasattr(estimator, "stream_"):
        results["stream_"] = estimator.stream_.to_arrays()
        if not labels:  # those of the last chunk, which nothing goes on from
            results["stream_"]["labels"] = np.empty(0, dtype=np.int32)
    _write(estimator, path, kind, results, parts)


def load_estimator(estimator_class: type[Any], path: str | PathLike[str], *, trust: bool = False) -> Any:
    """Load a fitted estimator that `save_estimator` wrote; it needs no training data.

    Parameters
    ----------
    estimator_class : type
        The class that was saved, or one derived from it.
    path : path-like
    trust : bool
        Whether to import modules that the file names although they are not part of expfam or of an installed
        distribution that offers plugins: importing runs their code. Classes that were given to `expfam.register` are
        found without trust.

    Raises
    ------
    ArchiveError
        There is no usable model at `path`.
    PluginError
        A class is not installed, or needs `trust`.
    """
    kind: str = estimator_class.saved_kind  # type: ignore[attr-defined]
    estimator, results, parts = _read(path, kind, estimator_class, trust)
    with restoring(path):
        stream = results.pop("stream_", None)
        _LOADED[kind](estimator, results, parts)
        if kind != HIERARCHY:
            of_known = _OF_ROWS[1:] if "n_known_" in results else ()
            of_chunks = () if stream is not None else ("converged_",)
            _miss(estimator, "labels_", "probabilities_", "trace_", *of_chunks, *of_known)
        if stream is not None:
            options = (parts["schedule"],) if kind == TOPICS else ()
            estimator.stream_ = estimator.restore_stream(stream, *options)
    return estimator


# ---- what is its own of each -----------------------------------------------------------------------------------------


def _saved_mixture(estimator):
    results = {}
    if hasattr(estimator, "trace_"):
        results["trace_"] = {name: np.asarray(estimator.trace_.column(name)) for name in _TRACE_COLUMNS}
        results["n_warmup"] = int(estimator.trace_.n_warmup)
    n, draws = getattr(estimator, "_drawn", (None, ()))
    if draws and n is estimator.n_:
        results["_drawn"] = packed_drawn(draws)
    return results, {"family": estimator.family_, "weights": estimator.model_.weights}


def _load_mixture(estimator, results, parts):
    model = MixtureModel(parts["family"], parts["weights"])
    check_mixture(results, model.family, model.weights)
    if "trace_" in results:
        # files of older versions do not have the length of the warm-up
        results["trace_"] = StoredTrace(results["trace_"], n_warmup=results.pop("n_warmup", 0))
    if "_drawn" in results:
        draws = unpacked_drawn(results["_drawn"], model.family, len(results["n_"]))
        results["_drawn"] = (results["n_"], tuple(draws))
    _set(estimator, results | {"model_": model, "family_": model.family})


def _saved_hierarchy(estimator):
    tree = estimator.tree_
    results = {name: getattr(tree, name) for name in _TREE}
    results |= {"leaf_weight": tree.log_weight[: tree.n_leaves], "n": estimator._n, "S": estimator._S}
    return results, {"family": estimator.family_}


def _load_hierarchy(estimator, results, parts):
    check_hierarchy(results, parts["family"])
    leaf_weight = results.pop("leaf_weight")
    tree = HierarchyTree(*(results.pop(name) for name in _TREE), alpha=results["alpha_"], leaf_weight=leaf_weight)
    estimator._n, estimator._S = results.pop("n"), results.pop("S")
    _set(estimator, results)
    estimator._set_tree(tree, estimator.leaf_, parts["family"], labels=estimator._labels)


def _saved_topics(estimator):
    components, draws = getattr(estimator, "_drawn", (None, ()))
    is_of_fit = draws and components is estimator.components_
    results = {"_drawn": [draw._asdict() for draw in draws]} if is_of_fit else {}
    return results, {"schedule": estimator.stream_.schedule} if hasattr(estimator, "stream_") else {}


def _load_topics(estimator, results, parts):
    check_topics(results)
    if "_drawn" in results:
        results["_drawn"] = (
            results["components_"],
            unpacked_topics(results["_drawn"], results["components_"].shape[1]),
        )
    _set(estimator, results)
    estimator._names(estimator.components_.shape[1])  # refuses a vocabulary of another length
    estimator._n_features_out = len(estimator.components_)


def _saved_grouped(estimator):
    names = getattr(estimator, "group_names_", None)
    return ({} if names is None else {"group_names_": _stored_names(names)}), {"family": estimator.family_}


def _stored_names(names):
    """Return names of groups as an array of integers or of text: files hold no objects."""
    cells = list(names)
    is_whole = all(isinstance(cell, (int, np.integer)) and not isinstance(cell, bool) for cell in cells)
    if is_whole and cells and max(map(abs, map(int, cells))) < 1 << 63:
        return np.array(cells, dtype=np.int64)
    return np.array([str(cell) for cell in cells], dtype=str)


def _load_grouped(estimator, results, parts):
    check_grouped(results, parts["family"])
    if "group_names_" in results:
        results["group_names_"] = results["group_names_"].astype(object)
    if "cluster_sizes_" not in results:  # a file of a former version
        results["cluster_sizes_"] = np.rint(results["n_"]).astype(np.int64)
    _set(estimator, results | {"family_": parts["family"]})


_SAVED = {MIXTURE: _saved_mixture, HIERARCHY: _saved_hierarchy, TOPICS: _saved_topics, GROUPED: _saved_grouped}
_GONE_SETTINGS = {MIXTURE: ("n_init", "verbose")} | dict.fromkeys((HIERARCHY, TOPICS, GROUPED), ("verbose",))
_LOADED = {MIXTURE: _load_mixture, HIERARCHY: _load_hierarchy, TOPICS: _load_topics, GROUPED: _load_grouped}


# ---- shared by all estimators ----------------------------------------------------------------------------------------


def _write(estimator, path, kind, results, parts=None):
    """Write settings, results and parts of a fitted estimator as an archive."""
    arrays = {}
    params, not_kept = _pack_settings(estimator.get_params(deep=False), arrays)
    header = {"estimator": type(estimator).__name__, "params": params, "not_kept": not_kept}
    header |= {name: _pack(part, (name,), arrays) for name, part in (parts or {}).items()}
    kept = {name: getattr(estimator, name) for name in _RESULTS[kind].split() if hasattr(estimator, name)}
    if hasattr(estimator, "feature_names_in_"):
        kept["feature_names_in_"] = np.asarray(estimator.feature_names_in_, dtype=str)
    if hasattr(estimator, "documents_"):
        kept["documents_"] = estimator.documents_
    for name in ("family_scores_", "family_agreement_"):
        if hasattr(estimator, name):
            kept[name] = dict(getattr(estimator, name))
    header["results"] = _pack(kept | results, ("results",), arrays)
    write_archive(path, kind, header=header, arrays=arrays)


def _read(path, kind, estimator_class, trust):
    """Return an estimator with its settings, its results, and its parts, which `_write` wrote."""
    header, arrays = read_archive(path, kind)
    classes = SavedClasses(path, trust)
    with restoring(path):
        if not {"params", "results"} <= header.keys():
            raise ArchiveError("the header does not describe a model that this version can make: fit and save again")
        check_keywords(header.get("not_kept", {}), estimator_class, "settings that were not kept")
        settings = _present_settings(header["params"], kind)
        estimator = _made(estimator_class, settings, arrays, classes, "settings")
        results = _unpack(header["results"], arrays, classes)
        check_threads(getattr(estimator, "n_threads", None))
        parts = {name: _unpack(header[name], arrays, classes) for name in _PARTS if name in header}
        check_names(results, [*_RESULTS[kind].split(), *_OTHER_RESULTS[kind].split(), *_OF_COLUMNS])
        if "feature_names_in_" in results:
            # scikit-learn compares names of this dtype
            results["feature_names_in_"] = results["feature_names_in_"].astype(object)
    return estimator, results, parts


def _present_settings(settings, kind):
    """Return the settings of a file without those that only earlier versions had."""
    gone = _GONE_SETTINGS.get(kind, ())
    return (
        {name: value for name, value in settings.items() if name not in gone}
        if isinstance(settings, dict)
        else settings
    )


def _set(estimator, results):
    for name, value in results.items():
        setattr(estimator, name, value)


def _miss(estimator, *names):
    """Set which attributes of a fitted estimator are missing, for its messages."""
    estimator._not_kept = {name: _NOT_KEPT[name] for name in names if not hasattr(estimator, name)}


# ---- values to JSON and arrays ---------------------------------------------------------------------------------------


def _pack_settings(params, arrays):
    """Return the constructor's keywords that can be saved, and the text of the others."""
    kept, not_kept = {}, {}
    for name, value in params.items():
        is_model = isinstance(value, Family) or _is_weights(value) or _is_plain_settings(value)
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in "biufUS"
        # with labels the file would grow with the data
        is_long = name == "start" and value is not None and not isinstance(value, str)
        if is_model or ((is_array or _is_plain(value)) and not is_long):
            kept[name] = _pack(value, ("params", name), arrays)
        else:
            not_kept[name] = repr(value)[:1000]
    return kept, not_kept


def _is_plain(value):
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    return value is None or isinstance(value, (bool, int, float, str, np.integer, np.floating, np.bool_))


def _is_plain_settings(value):
    """Tell whether a kernel or schedule has only values that can be saved.

    A value may be a kernel itself.
    """
    if not isinstance(value, Settings) or class_at(class_path(value)) is not type(value):
        return False
    named = value._parameter_names() == list(value.get_params())
    return named and all(_is_plain(item) or _is_plain_settings(item) for item in value.get_params().values())


def _is_weights(value):
    return not isinstance(value, type) and all(hasattr(value, name) for name in WEIGHTS_METHODS)


def _pack(value, where, arrays):
    """Return the JSON form of a value; arrays go to the nested dict `arrays` at `where`.

    Plain values stay the same. Any other value becomes an object with one key that begins with ``$``.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        inner = arrays
        for name in where[:-1]:
            inner = inner.setdefault(name, {})
        inner[where[-1]] = value
        return {"$array": list(where)}
    if isinstance(value, list):
        return [_pack(item, (*where, str(i)), arrays) for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": _pack(list(value), where, arrays)}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"$dict": {key: _pack(item, (*where, key), arrays) for key, item in value.items()}}
    if isinstance(value, dict):
        return {"$items": _pack([list(pair) for pair in value.items()], where, arrays)}
    if isinstance(value, Family):
        return {"$family": _pack_family(value, where, arrays)}
    if _is_weights(value):
        return {"$weights": {"class": class_path(value), "params": _pack(value.get_params(), where, arrays)}}
    if isinstance(value, Settings):
        return {"$settings": {"class": class_path(value), "params": _pack(value.get_params(), where, arrays)}}
    raise ArchiveError(
        f"{'.'.join(where)} is a {type(value).__name__}, which cannot be saved: numbers, strings, arrays, and lists and"
        " dicts of these can"
    )


def _pack_family(family, where, arrays):
    learned = {name: value for name, value in vars(family).items() if name.endswith("_") and name[0] != "_"}
    return {
        "name": family.name,
        "class": class_path(family),
        "params": _pack(family.get_params(), (*where, "params"), arrays),
        "learned": _pack(learned, (*where, "learned"), arrays),
    }


def _unpack(value, arrays, classes):
    if isinstance(value, list):
        return [_unpack(item, arrays, classes) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or not next(iter(value)).startswith("$"):
        return {key: _unpack(item, arrays, classes) for key, item in value.items()}
    ((tag, inner),) = value.items()
    if tag == "$array":
        for name in inner:
            arrays = arrays[name]
        return arrays
    if tag == "$float":
        return float(inner)
    if tag == "$tuple":
        return tuple(_unpack(inner, arrays, classes))
    if tag == "$dict":
        return {key: _unpack(item, arrays, classes) for key, item in inner.items()}
    if tag == "$items":
        return {key: _unpack(item, arrays, classes) for key, item in inner}
    if tag == "$family":
        return _unpack_family(inner, arrays, classes)
    if tag == "$weights":
        return _made(classes.weights(inner["class"]), inner["params"], arrays, classes, "parameters of the weights")
    if tag == "$settings":
        made = _made(classes.settings(inner["class"]), inner["params"], arrays, classes, "settings of the sampler")
        if isinstance(made, Schedule):  # kernels are checked when they are used
            check_settings(made)
        return made
    raise ArchiveError(f"the header holds the unknown mark {tag!r}: it is damaged, or a newer expfam wrote it")


def _made(cls, packed, arrays, classes, what):
    """Return an object of the class with the packed keywords, which `what` names in messages."""
    params = _unpack(packed, arrays, classes)
    check_keywords(params, cls, what)
    return cls(**params)


def _unpack_family(packed, arrays, classes):
    cls = classes.family(packed["name"], packed["class"])
    family = _made(cls, packed["params"], arrays, classes, "parameters of the family")
    learned = _unpack(packed["learned"], arrays, classes)
    check_names(learned, [name for name in learned if name.endswith("_") and name[0] != "_"])
    vars(family).update(learned)
    if family.is_bound:
        family.complete_saved()
    return family
