"""Words of topics: their names, their pseudo-count, and the data set of documents."""

from __future__ import annotations

from typing import Any

import numpy as np

from expfam.amounts import counted
from expfam.estimators.loaded import names_of_fit
from expfam.families.counts.multinomial import Multinomial
from expfam.model.data import Dataset
from expfam.params import is_auto
from expfam.samplers.topics.corpus import LEAST_ETA

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


def sampled_eta(topics: Any) -> dict[str, Any]:
    """Return what a sampler of a given number of topics learns of the pseudo-count of words.

    By default it is learned, but for topics with seeds, and never below `LEAST_ETA`.
    """
    has_seeds = topics.seeds is not None and any(len(words) > 0 for words in topics.seeds.values())
    is_open = topics.eta is None and not has_seeds and is_auto(topics.learn_hyper)
    learns = is_open or learns_eta(topics)
    return {"learn_eta": learns, "least_eta": LEAST_ETA if learns and topics.eta is None else 0.0}


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
