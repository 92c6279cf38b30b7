"""Rows that a user gave, as the matrix that a fitted model reads."""

from __future__ import annotations

from typing import Any

from expfam.families.columns.roles import Roles
from expfam.families.foreign import documents_in
from expfam.frames.dense_copies import dense_copy
from expfam.frames.frame import as_frame, is_frame
from expfam.frames.numbers import numbers_of_frame
from expfam.frames.texts import count_known_words, refuse_texts_of_table


def matrix_of(X: Any, family: Any, estimator: Any = None) -> Any:
    """Return rows as a matrix: frames by roles of columns, documents by the words of a fit.

    Parameters
    ----------
    X : array_like, sparse matrix, frame or sequence of documents
    family : Family
        Of the model that reads the rows; it may have roles of columns.
    estimator : Estimator, optional
        Fitted; it may know words.

    Returns
    -------
    (N, V) ndarray or CSR array

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.evaluation.given_rows import matrix_of
    >>> mixture = Mixture("multinomial", 1, random_state=0).fit(["a sea", "the sun", "sun and sea"])
    >>> matrix_of(["sea and sea"], mixture.family_, mixture).toarray()
    array([[1, 2, 0, 0]])
    """
    kind = None if estimator is None else estimator.__dict__.get("documents_")
    if kind is not None and documents_in(X, are_expected=kind == "tokens") is not None:
        return count_known_words(X, kind, estimator.feature_names_in_, owner="check_model")
    if not is_frame(X):
        if family.accepts_sparse:
            return X
        return dense_copy(X, owner="check_model", family=family.name, memory_limit=None, may_choose=False)
    if kind is not None:
        refuse_texts_of_table(X, estimator.feature_names_in_, owner="check_model")
    roles = getattr(family, "roles", None)
    if roles:
        return Roles(roles).encode(X, owner="check_model")
    return numbers_of_frame(as_frame(X, owner="check_model"), of_fit=True)
