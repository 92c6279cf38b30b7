"""Words of topics: their names, their pseudo-count, and the data set of documents."""

from __future__ import annotations

from typing import Any

import numpy as np

from expfam.amounts import counted
from expfam.estimators.loaded import names_of_fit
from expfam.families.counts.multinomial import Multinomial
from expfam.model.data import Dataset
from expfam.params import is_auto

_ETA = 0.01  # where learning begins


def pseudocount_of_words(topics: Any) -> Any:
    """Return `eta`, or what it stands for where it is None."""
    if isinstance(topics.eta, str) and topics.eta != "auto":
        raise ValueError(f"TopicModel: eta must be 'auto', a number or one a word; got {topics.eta!r}")
    if topics.eta is None:
        return "auto" if topics.n_components is None else _ETA
    return topics.eta


def learns_eta(topics: Any) -> bool:
    """Return whether the pseudo-count of words is learned."""
    by_default = is_auto(topics.learn_hyper)
    return is_auto(pseudocount_of_words(topics)) if by_default else bool(topics.learn_hyper)


def documents_of(topics: Any, X: Any, **options: Any) -> Dataset:
    """Return the data set of validated documents, as learning begins.

    Parameters
    ----------
    topics : TopicModel
    X : (D, V) ndarray or CSR
    **options
        Of the `Dataset`.
    """
    eta = pseudocount_of_words(topics)
    family = Multinomial(_ETA if is_auto(eta) else eta, allow_fractional=True)
    return Dataset(X, family, names=names_of_fit(topics), **options)


def names_of_words(topics: Any, n_words: int) -> Any:
    """Return the names of the words: (V,) ndarray, or None where there are none."""
    if topics.vocabulary is None:
        return getattr(topics, "feature_names_in_", None)
    names = np.asarray(topics.vocabulary)
    if names.shape != (n_words,):
        raise ValueError(f"vocabulary must name the {counted(n_words, 'column')} of the data; got shape {names.shape}")
    return names
