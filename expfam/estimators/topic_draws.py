"""Draws of topics that `TopicModel` keeps: its probabilities of words are means over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.estimators.unknown_numbers import rest_pseudocount
from expfam.fitting.kept import MOST_BYTES
from expfam.fitting.kept_topics import KeptTopics
from expfam.params import Integer, check_value, is_auto, refuse_unused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expfam.model.drawn import DrawnTopics
    from expfam.protocols import Floats

_AUTOMATIC = 50  # draws of an unknown number of topics: half as many predict short documents less well


def draws_to_keep(model: Any, n_steps: int) -> KeptTopics:
    """Return the callback that keeps the draws that a model asks for, of so many steps.

    Examples
    --------
    >>> from expfam import TopicModel
    >>> from expfam.estimators.topic_draws import draws_to_keep
    >>> [draws_to_keep(TopicModel(K, n_draws=n), 100).n_draws for K in (2, None) for n in ("auto", 25)]
    [0, 25, 50, 25]
    """
    check_value("TopicModel: n_draws", model.n_draws, ("auto", Integer(0)))
    if is_auto(model.n_draws):
        return KeptTopics(_AUTOMATIC if model.n_components is None else 0, n_steps, MOST_BYTES)
    return KeptTopics(int(model.n_draws), n_steps)


def refuse_draws(model: Any, why: str) -> None:
    """Refuse draws of topics where nothing is drawn.

    Parameters
    ----------
    model : TopicModel
    why : str
        What makes no draws.

    Raises
    ------
    CapabilityError
    """
    check_value("TopicModel: n_draws", model.n_draws, ("auto", Integer(0)))
    if model.n_draws not in ("auto", 0):
        remedy = "for whole counts without weights that are in memory write TopicModel(sampler='gibbs').fit(X)"
        refuse_unused(model, ["n_draws"], why=why, remedy=remedy)


def all_topics(estimator: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the pseudo-counts of words in topics and of topics in documents.

    Where the number of topics was unknown, the last topic stands for all that the fit does not list.
    """
    if not hasattr(estimator, "rest_"):
        return estimator.components_, estimator.alpha_
    eta = np.broadcast_to(np.asarray(estimator.eta_, dtype=np.float64), estimator.components_.shape[1])
    return np.vstack([estimator.components_, eta]), np.append(estimator.alpha_, rest_pseudocount(estimator))


def keep_topics(model: Any, kept: KeptTopics | None) -> None:
    """Keep the draws of a fit, in the place of those of an earlier one."""
    model.__dict__.pop("_drawn", None)
    draws = () if kept is None else kept.draws()
    if draws:
        model._drawn = (model.components_, draws)


def drawn_topics(model: Any) -> tuple[DrawnTopics, ...]:
    """Return the draws of the topics: none if none were kept, or more was learned since."""
    components, draws = model.__dict__.get("_drawn", (None, ()))
    return draws if components is model.__dict__.get("components_") else ()


def predicting_topics(model: Any, X: Any) -> tuple[Any, Iterable[tuple[Floats, Floats]]]:
    """Return documents, and the pseudo-counts under which their words are predicted.

    The pseudo-counts are those of `all_topics` where no draws were kept. Draws are read only for words of the
    documents; all others are one word more, which no document has.

    Parameters
    ----------
    model : TopicModel
        Fitted.
    X : (D, V) array_like or sparse matrix
    """
    draws = drawn_topics(model)
    if not draws:
        return X, [all_topics(model)]
    X = sparse.csr_array(X)
    words, places = np.unique(X.indices, return_inverse=True)
    narrow = sparse.csr_array((X.data, places.ravel(), X.indptr), shape=(X.shape[0], len(words) + 1))
    return narrow, ((draw.components(words), draw.alpha) for draw in draws)
