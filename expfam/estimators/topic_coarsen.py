"""`TopicModel.coarsen`: merged topics, and those that halves of documents find again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.coarsening.linkages import cut
from expfam.coarsening.rows import some_rows
from expfam.coarsening.topic_halves import topics_found_again, tree_of_words
from expfam.errors import DataError
from expfam.estimators.coarsen import carried, rename_labels
from expfam.estimators.loaded import rows_of_fit
from expfam.estimators.row_results import keep_row_names
from expfam.estimators.topic_results import set_main_topics
from expfam.estimators.unknown_numbers import set_weights
from expfam.model.data import Dataset
from expfam.params import check_value

if TYPE_CHECKING:
    from expfam.coarsening.curve import CoarseningCurve
    from expfam.protocols import Floats

_FEWEST_DOCUMENTS = 4
_CLEAR = 0.5  # Jaccard index above which a topic is found again: it is of no other then
_NAMED = 10  # topics that a line names


def coarser_topics(model: Any, n_clusters: int | None, X: Any, tree: str | None) -> Any:
    """Return a fitted topic model whose topics are unions of those of another.

    Parameters
    ----------
    model : TopicModel
    n_clusters : int or None
        Number of topics; None: those that halves of the documents find again.
    X : object or None
        Documents, of which the result has labels.
    tree : {None, "words", "known"}
    """
    K = len(model.components_)
    check_value("coarsen: tree", tree, (None, "words", "known"))
    is_number = isinstance(n_clusters, (int, np.integer)) and not isinstance(n_clusters, bool)
    if n_clusters is not None and not (is_number and 1 <= n_clusters <= K):
        raise ValueError(
            f"coarsen: n_clusters must be an integer from 1 to {K}, the number of topics of the fit; got {n_clusters!r}"
        )
    data = None if X is None else model._validate(X, reset=False)
    if n_clusters is not None and tree != "known":
        home = cut(words_tree(model), int(n_clusters))
    else:
        home = topic_curve(model, data).home(tree, n_clusters)
    coarse = _united(model, home)
    if data is not None:
        keep_row_names(coarse, X)
        set_main_topics(coarse, data)
    return coarse


def words_tree(model: Any) -> Floats:
    """Return merges of the topics whose words tell them apart least: (K - 1, 4)."""
    return _kept(model, "tree", lambda: tree_of_words(model._word_counts().T))


def topic_curve(model: Any, X: Any = None) -> CoarseningCurve:
    """Return how halves of the documents agree on every cut."""

    def made():
        data = _documents(model, X)
        return topics_found_again(
            model._fitted_model(),
            data,
            model.components_,
            np.ascontiguousarray(model._word_counts().T),
            is_sampled=model.method_ == "gibbs",
            seed=model._seed(),
            n_threads=model.n_threads,
        )

    return _kept(model, "curve", made, is_new=X is not None)


def topics_text(model: Any) -> tuple[str, list[str]]:
    """Return the end of a line, and a line: what halves of documents say."""
    held = model.__dict__.get("_topic_merges")
    if held is None or held[0] is not model.components_ or "curve" not in held[1]:
        return "", []
    curve = held[1]["curve"]
    n_groups, K = curve.n_clusters, len(curve.sizes)
    more = (
        ", on which halves of the documents agree"
        if n_groups == K
        else f", of which halves of the documents agree on {n_groups:,}: coarsen()"
    )
    lost = np.flatnonzero(curve.found_again <= _CLEAR)
    if not lost.size:
        return more, ["each topic is found again by halves of the documents"]
    named = ", ".join(map(str, lost[:_NAMED])) + ", ..." * (lost.size > _NAMED)
    return more, [f"not found again by halves of the documents: {counted(lost.size, 'topic')} ({named})"]


def _kept(model, name, make, *, is_new=False):
    """Return what was made of the topics of a fit, or make it."""
    held = model.__dict__.get("_topic_merges")
    if held is None or held[0] is not model.components_:
        held = model.__dict__["_topic_merges"] = (model.components_, {})
    if is_new or name not in held[1]:
        held[1][name] = make()
    return held[1][name]


def _documents(model, X):
    if X is not None:
        data = _some_documents(model, X)
    else:
        kept = rows_of_fit(model)
        data = None if kept is None else kept.data
    if data is None:
        raise DataError(
            "coarsen: halves of the documents need documents, and this TopicModel holds none, because it was loaded,"
            " copied, merged, coarsened or learned from chunks: write coarsen(X=X), or coarsen(n_clusters=...)"
        )
    if data.n_rows < _FEWEST_DOCUMENTS:
        raise DataError(
            f"coarsen: halves of {counted(data.n_rows, 'document')} tell nothing, and at least {_FEWEST_DOCUMENTS} are"
            " needed: write coarsen(n_clusters=...)"
        )
    return data


def _united(model: Any, home: npt.NDArray[np.integer]) -> Any:
    """Return a topic model whose topics are unions: all counts are sums."""
    coarse, K = carried(model), int(home.max()) + 1
    member = sparse.csr_array((np.ones(len(home)), (np.arange(len(home)), home)), shape=(len(home), K))
    counts = np.asarray(model._word_counts() @ member)
    prior = model._fitted_model()
    seeds = getattr(model, "seeds_", None)
    if seeds is not None:
        coarse.seeds_ = sparse.csr_array(seeds @ member)
        counts = counts + coarse.seeds_.toarray()
        coarse.seeds = _united_seeds(model.seeds, home)
    coarse.components_ = np.ascontiguousarray((counts + prior.family.pseudocounts()[0][:, None]).T)
    pseudocounts = np.bincount(home, weights=model.alpha_, minlength=K).astype(np.float64)
    if hasattr(model, "rest_"):
        set_weights(coarse, pseudocounts, model.concentration_, model.gamma_)
        coarse.sizes_ = np.bincount(home, weights=model.sizes_, minlength=K).astype(model.sizes_.dtype)
    else:
        coarse.alpha_, coarse.n_components = pseudocounts, K
        coarse.alpha = pseudocounts if np.ndim(model.alpha) else model.alpha
    coarse.eta_, coarse.method_, coarse.n_documents_ = np.copy(model.eta_)[()], model.method_, model.n_documents_
    coarse.log_joint_ = model.log_joint_ if len(home) == K else np.nan  # topics are means over sweeps
    coarse._n_features_out = K
    rename_labels(coarse, model, home)
    return coarse


def _united_seeds(seeds, home):
    """Return the words of joined topics; None where no words were given."""
    if seeds is None:
        return None
    found: dict[int, list[Any]] = {}
    for topic, words in seeds.items():
        into = found.setdefault(int(home[topic]), [])
        into += [word for word in words if word not in into]
    return found


def _some_documents(model: Any, X: Any) -> Dataset:
    """Return some of the documents of a matrix as data of a model's family."""
    data = Dataset(X, model._fitted_model().family)
    return some_rows(data, np.zeros(data.n_rows, dtype=np.int32), seed=model._seed()).data
