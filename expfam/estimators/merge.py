"""One model from models of disjoint parts of the data, without the data.

A fitted mixture is its bound family, its weights and the statistics (n, S) of its clusters, and statistics add. So
clusters put side by side are exactly those of a fit to all data that found the same partition, and chunks learned in
different places from one model add up to what a single place would have learned from all of them. O(K F), and
O(K**2 F) where clusters are compared. `topic_merge` merges topic models.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from expfam.amounts import counted
from expfam.coarsening.merges import hard_log_joint, united
from expfam.errors import CapabilityError
from expfam.estimators.classes import joined_classes, keep_classes
from expfam.estimators.lines import line_of
from expfam.estimators.mixture import Mixture
from expfam.estimators.mixture_results import set_model
from expfam.estimators.row_results import join_row_names
from expfam.estimators.topic_merge import merged_topics, topic_difference
from expfam.estimators.topics import TopicModel
from expfam.families.columns.cells import as_columns, may_lack_cells
from expfam.families.columns.family import Columns
from expfam.model.mixture import MixtureModel
from expfam.samplers.starts.greedy_merge import merged_clusters

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROUNDING = 1e-9


def merge(
    models: Iterable[Any], *, clusters: Literal["apart", "merged"] = "apart", common: Mixture | TopicModel | None = None
) -> Any:
    """Return one fitted model of all the data that several models were fitted to.

    Each datum was given to one of them.

    Parameters
    ----------
    models : sequence of Mixture, or of TopicModel
        Mixtures fitted with one and the same bound family (`family_` of the first one, given to the others, or
        ``family.bind(X)`` of some of the data, given to all) and prior on weights, by any samplers; or topic models of
        one vocabulary, number of topics, `alpha` and `eta`.
    clusters : {"apart", "merged"}
        "apart" keeps every cluster; "merged" joins those that are more probable as one: pairs are merged greedily while
        the log joint rises, and down to the largest number that the weights allow. Topics are a fixed number: "merged"
        pairs each with one of every other model, so that the evidence of the words is largest, model after model.
        Clusters of two classes are never joined; where ``labels="clusters"``, those of one class always are.
    common : Mixture or TopicModel, optional
        A model that all of `models` went on from by `partial_fit`, such as one that each machine has loaded: its
        clusters are the same in all of them, its own data are counted once, and what the others have learned since is
        added. Clusters that were opened since are treated as `clusters` says.

    Returns
    -------
    Mixture or TopicModel
        With the settings of the first one. `cluster_sizes_` are the sums of theirs: of weights, where one of them had
        weights. `classes_` are those of all of them. `labels_` are those of the parts, one part after the other, where
        all of these know them. `log_joint_` is that of the partition, and NaN where statistics are soft; of topic
        models the lower bound for all documents, and NaN where one of them was sampled or has an estimate alone. There
        is no `trace_`.

    Raises
    ------
    TypeError
        For models other than mixtures alone or topic models alone.
    CapabilityError
        For models that cannot be merged, with what differs.

    Notes
    -----
    Without `common` and with clusters apart, n, S and predictions are those of a fit to all data that found the same
    partition; topics that were paired, those of one that found the same topics of tokens up to their order, which is
    no optimum of a fit to all documents but a start near one. With `common` they are, to rounding, those of one
    `partial_fit` of all the chunks together, if each part has learned one: posterior = prior + sum of (posterior of a
    part - prior), as in Broderick, Boyd, Wibisono, Wilson and Jordan 2013, "Streaming variational Bayes".

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Mixture, merge
    >>> X = np.random.default_rng(0).poisson([[1.0], [50.0]] * 20)
    >>> first = Mixture("poisson", 2, random_state=0).fit(X[:20])
    >>> second = Mixture(first.family_, 2, random_state=0).fit(X[20:])
    >>> merge([first, second], clusters="merged").cluster_sizes_
    array([20, 20])
    """
    models = list(models)
    kind = _check_kinds(models, common)
    if kind is Mixture:
        opened, common = _of_one_layout(models, common)
        models = list(opened)
    _check_alike(models, common, _DIFFERENCES[kind])
    if clusters not in ("apart", "merged"):
        raise ValueError(f"clusters must be 'apart' or 'merged'; got {clusters!r}")
    merged = (_merged_mixture if kind is Mixture else merged_topics)(models, clusters, common)
    merged.n_iter_ = sum(part.n_iter_ for part in models)
    merged.interrupted_ = any(part.interrupted_ for part in models)
    merged.n_features_in_ = models[0].n_features_in_
    if hasattr(models[0], "feature_names_in_"):
        merged.feature_names_in_ = models[0].feature_names_in_
    if "_backend" in models[0].__dict__:
        merged._backend = models[0]._backend  # the library of its frames
    return merged


def _merged_mixture(models, clusters, common):
    n, S, sizes, homes = _side_by_side(models) if common is None else _since(models, common)
    model = MixtureModel(models[0].family_, models[0].model_.weights)
    if clusters == "merged":
        classes = _classes_of_clusters(models, homes, len(n))
        if models[0].labels == "clusters":  # a class is one cluster
            joined = _of_one_class(classes)
            n, S, sizes = united(joined, n, S, sizes)
            homes = [joined[home] for home in homes]
            classes = _classes_of_clusters(models, homes, len(n))
        joined = merged_clusters(model, n, S, classes=classes)
        n, S, sizes = united(joined, n, S, sizes)
        homes = [joined[home] for home in homes]
    _check_number(len(n), models[0])
    return _fitted(models, model, n, S, sizes, homes)


def _classes_of_clusters(models, homes, n_clusters):
    """Return the class of each cluster that those of the models became, -1 for none."""
    found = np.full(n_clusters, -1)
    for of_cluster, home in zip(joined_classes(models)[1], homes):
        np.maximum.at(found, home, of_cluster)
    return found


def _of_one_class(classes):
    """Return a number for each cluster, equal for those of one class; classes come first."""
    keys = np.where(classes >= 0, classes, len(classes) + np.arange(len(classes)))
    return np.unique(keys, return_inverse=True)[1]


# ---- what can be merged ----------------------------------------------------------------------------------------------


def _check_kinds(models, common):
    if not models:
        raise ValueError("merge needs at least one model; got none")
    kind = TopicModel if isinstance(models[0], TopicModel) else Mixture
    for model in [*models, *([] if common is None else [common])]:
        if not isinstance(model, kind):
            others = "" if kind is TopicModel else ", or fitted TopicModels alone"
            raise TypeError(
                f"merge takes fitted {kind.__name__}s; got {type(model).__name__}{others}{_in_chunks(model)}"
            )
        check_is_fitted(model)
        if hasattr(model, "rest_"):
            raise CapabilityError(
                "merge: a fit with an unknown number of topics has topics that are no partners of those of another"
                f" fit: give every fit the same number: write"
                f" {line_of(model, n_components=len(model.components_), alpha=0.1, eta=0.01)}"
            )
    return kind


def _in_chunks(model):
    """Return the line that fits rows in groups of all parts, as the end of a sentence."""
    if getattr(model, "saved_kind", None) != "grouped_mixture":
        return ""
    K = len(model.alpha_) if model.n_components is None and hasattr(model, "alpha_") else model.n_components or 10
    line = line_of(model, n_components=K, sampler="variational")
    return f". One fit to all groups in chunks: write {line}.fit_chunks([(X, groups), ...])"


def _check_alike(models, common, difference):
    """Refuse models that do not add up with the first one, or with the common one."""
    first, others = (models[0], models[1:]) if common is None else (common, models)
    what, expression = ("model 0", "models[0]") if common is None else ("`common`", "common")
    for place, model in enumerate(others, start=len(models) - len(others)):
        differs = _column_difference(first, model) or difference(first, model)
        if not differs:
            continue
        message = f"model {place} has {differs} than {what}, so their statistics do not add up"
        if isinstance(model, Mixture) and not _column_difference(first, model):
            message += f": fit it again with those of {what}: {_remedy(first, expression)}"
        raise CapabilityError(message)


def _remedy(first, expression):
    """Return the line that fits a part so that it adds up with the first model."""
    number = "" if first.n_components is None else f", {first.n_components}"
    weights = "" if first.weights is None else f", weights={expression}.model_.weights"
    return f"Mixture({expression}.family_{number}{weights}).fit(rows_of_this_part)"


def _of_one_layout(models, common):
    """Return mixtures of tables with the statistics that the holes of all of them need.

    A mixture of one family is that of a table where another one was opened for chunks that lack cells.
    """
    families = [model.family_ for model in [*models, *([] if common is None else [common])]]
    are_tables = any(isinstance(family, Columns) for family in families)
    if not are_tables or not all(map(may_lack_cells, families)) or len({f.n_features_in_ for f in families}) > 1:
        return models, common
    families = [as_columns(family) for family in families]
    layout = families[0]
    for family in families[1:]:
        layout = layout.opened_like(family)
    opened = [_opened(model, family, family.opened_like(layout)) for model, family in zip([*models, common], families)]
    return opened[: len(models)], None if common is None else opened[-1]


def _opened(model, table, family):
    """Return a mixture with its clusters in the layout of an opened family."""
    other = copy.copy(model)
    other.S_ = table.open_statistics(family, model.n_, model.S_)
    other.family_, other.model_ = family, model.model_.with_family(family)
    return other


def _column_difference(a, b):
    """Return what differs between the data of two models, in words; empty where nothing does."""
    if a.n_features_in_ != b.n_features_in_:
        return f"another number of features ({b.n_features_in_}, not {a.n_features_in_})"
    names = [getattr(model, "feature_names_in_", None) for model in (a, b)]
    if (names[0] is None) != (names[1] is None) or not np.array_equal(*names):
        return "other feature names"
    return ""


def _difference(a, b):
    """Return what differs between two mixtures, in words; empty where nothing does."""
    mine, theirs = a.family_, b.family_
    if type(mine) is not type(theirs):
        return f"another family ({theirs.name!r}, not {mine.name!r})"
    if mine != theirs:
        return f"other hyper-parameters of its family ({_hyper_difference(mine, theirs)})"
    if a.model_.weights != b.model_.weights:
        return f"another prior on weights ({b.model_.weights!r}, not {a.model_.weights!r})"
    return ""


def _hyper_difference(mine, theirs):
    """Return the names of what differs between two families of one class, by part of a table."""
    names = mine.differences(theirs)
    if not isinstance(mine, Columns) or "parts" not in names:
        return _without_learned(names)
    found = [name for name in _without_learned(names).split(", ") if name != "parts"]
    if len(mine.parts) != len(theirs.parts):
        return f"{counted(len(theirs.parts), 'part')} of the table, not {len(mine.parts)}"
    for own, other in zip(mine.parts, theirs.parts):
        if own[1:] != other[1:] or type(own[0]) is not type(other[0]):
            found.append(f"{own[3]}: its columns or family")
        elif own[0] != other[0]:
            found.append(f"{own[3]}: {_without_learned(own[0].differences(other[0]))}")
    return "; ".join(found)


def _without_learned(names):
    """Return names in one text, those that follow from data only where there are no others."""
    return ", ".join([name for name in names if not name.endswith("_")] or names)


_DIFFERENCES = {Mixture: _difference, TopicModel: topic_difference}


def _check_number(K, fitted):
    weights = fitted.model_.weights
    if weights.max_components is not None and weights.max_components < K:
        raise CapabilityError(
            f"{counted(K, 'cluster')} side by side are more than {weights!r} allows: write merge(models, "
            f"clusters='merged'), or fit the parts with room for all: write"
            f" {line_of(fitted, n_components=K, weights=None)}"
        )


# ---- statistics ------------------------------------------------------------------------------------------------------


def _side_by_side(models):
    """Return n, S and sizes of all clusters, and the new numbers of those of each model."""
    n = np.concatenate([model.n_ for model in models]).astype(np.float64)
    sizes = np.concatenate([model.cluster_sizes_ for model in models])
    starts = np.cumsum([0, *(len(model.n_) for model in models)])
    homes = [np.arange(*span) for span in pairwise(starts)]
    return n, _stacked([model.S_ for model in models]), sizes, homes


def _since(models, common):
    """Return the common clusters with all that was learned since, then those opened since."""
    K = len(common.n_)
    n, S = np.array(common.n_, dtype=np.float64), common.S_.copy()
    for place, model in enumerate(models):
        if len(model.n_) < K or (model.n_[:K] < _least(common.n_)).any():
            raise CapabilityError(
                f"model {place} did not go on from `common`: its first {counted(K, 'cluster does', 'clusters do')} not "
                "hold what those of `common` do. Models go on by loading it and partial_fit, under a memoized schedule"
            )
        n += model.n_[:K] - common.n_
        S = S + (model.S_[:K] - common.S_)
    opened = [(model.n_[K:], model.S_[K:]) for model in models]
    starts = K + np.cumsum([0, *(len(part) for part, _ in opened)])
    homes = [np.concatenate([np.arange(K), np.arange(*span)]) for span in pairwise(starts)]
    n = np.concatenate([n, *(part for part, _ in opened)])
    S = _stacked([S, *(part for _, part in opened)])
    return n, S, _whole(n, [common, *models]), homes


def _whole(n, models):
    """Return sizes of clusters with counts n: numbers of rows, or sums of weights.

    They are sums of weights where one of the models had weights.
    """
    is_weighted = any(model.cluster_sizes_.dtype.kind == "f" for model in models)
    return n.copy() if is_weighted else np.rint(n).astype(np.int64)


def _least(n):
    """Return the least counts that clusters have after learning more, but for rounding."""
    return n * (1.0 - _ROUNDING)


def _stacked(parts):
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts]))
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


# ---- the result ------------------------------------------------------------------------------------------------------


def _fitted(models, model, n, S, sizes, homes):
    first = models[0]
    merged = type(first)(**first.get_params(deep=False))
    merged.n_, merged.S_, merged.cluster_sizes_ = n, S, sizes
    set_model(merged, model)
    merged.log_joint_ = hard_log_joint(model, n, S, sizes)
    # after partial_fit labels are those of the last chunk only
    if all(hasattr(part, "labels_") and not hasattr(part, "stream_") for part in models):
        merged.labels_ = np.concatenate([home[part._labels] for home, part in zip(homes, models)]).astype(np.int32)
        join_row_names(merged, models)
    keep_classes(merged, models, homes)
    return merged
