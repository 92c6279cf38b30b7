"""Documents given to an estimator: their words are counted, and name the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import DataTypeError
from expfam.estimators.row_results import keep_row_names
from expfam.families.foreign import documents_in, refuse_foreign
from expfam.frames.frame import is_frame
from expfam.frames.texts import count_known_words, count_words, refuse_texts_of_table, vectorizer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.feature_extraction.text import CountVectorizer


def validated_documents(
    estimator: Any,
    X: Any,
    validate: Callable[[Any], Any],
    *,
    reset: bool,
    is_chunk: bool = False,
    takes_counts: bool = True,
    takes_nothing_else: bool = False,
) -> Any:
    """Return data checked by `validate`; of documents the counts of their words.

    Parameters
    ----------
    estimator : Estimator
        After the data of a fit it has the names of their rows; after documents also `documents_`, and the words in
        `feature_names_in_`.
    X : object
        What the user gave.
    validate : callable
        Checks a matrix, and learns its columns where `reset` is true.
    reset : bool
        Whether X are the data of a fit, whose words are learned.
    is_chunk : bool
        Whether other chunks follow X.
    takes_counts : bool
        Whether the family of the estimator takes sparse rows of counts.
    takes_nothing_else : bool
        Whether words can be nothing but documents, also where lists of them have one length.

    Returns
    -------
    (N, V) ndarray or CSR

    Raises
    ------
    DataTypeError
        X is a first chunk of documents, which does not know the words of the others; the model has no words, or its
        family takes no counts of words.
    """
    owner, known = type(estimator).__name__, None if reset else estimator.__dict__.get("documents_")
    kind = documents_in(X, are_expected=takes_nothing_else or known == "tokens")
    if reset:
        estimator.__dict__.pop("documents_", None)
        keep_row_names(estimator, None if is_chunk else X)
    if kind is None:
        if known is not None and is_frame(X):
            refuse_texts_of_table(X, estimator.feature_names_in_, owner=owner)
        return validate(X)
    if not reset:
        if known is None:
            refuse_foreign(X, owner=owner)
        return count_known_words(X, estimator.documents_, estimator.feature_names_in_, owner=owner)
    if is_chunk:
        raise DataTypeError(
            f"{owner}: a first chunk of documents does not hold the words of the other chunks: count all words first,"
            " from sklearn.feature_extraction.text import CountVectorizer; words = CountVectorizer().fit(all_texts),"
            " and learn from words.transform(X)"
        )
    if not takes_counts:
        raise DataTypeError(
            f"{owner}: the data are documents, and family={estimator.family!r} takes no sparse rows of counts of their"
            f" words: write {owner}('multinomial')"
        )
    counts, words = count_words(X, kind, owner=owner)
    found = validate(counts)
    estimator.documents_, estimator.feature_names_in_ = kind, np.asarray(words, dtype=object)
    return found


def vectorizer(estimator: Any) -> CountVectorizer:
    """Return what counts the words of new documents as the model does.

    Raises
    ------
    NotFittedError, AttributeError
        The model was not fitted, or not to documents.
    """
    estimator._check_fitted()
    kind = estimator.__dict__.get("documents_")
    if kind is None:
        raise AttributeError(
            f"{type(estimator).__name__} has no vectorizer_: it was not fitted to texts or lists of tokens"
        )
    return vectorizer_of(kind, estimator.feature_names_in_)
