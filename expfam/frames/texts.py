"""Documents: texts and lists of tokens, and the counts of their words.

Documents are counted by scikit-learn's `CountVectorizer` with its default settings. The words become the names of the
columns, so that results name words; a model keeps the words and the kind of the documents, from which the same
vectorizer is made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError, DataWarning
from expfam.frames.frame import as_frame
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from sklearn.feature_extraction.text import CountVectorizer

    Documents = Literal["texts", "tokens"]

_OF_OTHER_KIND = {
    "texts": "[one if isinstance(one, str) else ' '.join(one) for one in X]",
    "tokens": "[one.split() if isinstance(one, str) else one for one in X]",
}
_AS_LIST = ("to_pylist", "to_list", "tolist")  # of Arrow, of Polars and pandas, of NumPy


def vectorizer_of(kind: Documents, words: Sequence[str] | None = None) -> CountVectorizer:
    """Return what counts documents of a kind.

    Parameters
    ----------
    kind : {"texts", "tokens"}
        Whether a document is text, or a list of tokens, which are counted as they are.
    words : sequence of str, optional
        The words that are counted, in the order of the columns; others are left out. If not given, `fit_transform`
        learns them.

    Examples
    --------
    >>> from expfam.frames.texts import vectorizer_of
    >>> vectorizer_of("texts", ["cat", "dog"]).transform(["A cat, a dog, a cat."]).toarray().tolist()
    [[2, 1]]
    """
    from sklearn.feature_extraction.text import CountVectorizer  # half a second, which other data need not wait

    analyzer = list if kind == "tokens" else "word"
    vectorizer = CountVectorizer(analyzer=analyzer, vocabulary=None if words is None else list(words))
    if words is not None:
        vectorizer.fit([])  # makes the table of the words
    return vectorizer


def count_words(X: Any, kind: Documents, *, owner: str) -> tuple[sparse.csr_array, npt.NDArray[Any]]:
    """Count the words of the documents of a fit.

    Parameters
    ----------
    X : sequence
        Documents.
    kind : {"texts", "tokens"}
    owner : str
        Named in messages.

    Returns
    -------
    (N, V) CSR array of int64, (V,) ndarray of str
        Counts, and the words in alphabetical order.

    Raises
    ------
    DataError
        No document has a word.
    DataTypeError
        A document is missing, or is of another kind.

    Examples
    --------
    >>> from expfam.frames.texts import count_words
    >>> counts, words = count_words([["b", "a"], ["b", "b"]], "tokens", owner="Mixture")
    >>> words.tolist(), counts.toarray().tolist()
    (['a', 'b'], [[1, 1], [0, 2]])
    """
    documents, vectorizer = listed(X, kind, owner=owner), vectorizer_of(kind)
    try:
        counts = vectorizer.fit_transform(documents)
    except ValueError as error:
        if "empty vocabulary" not in str(error):
            raise
        least = "a token" if kind == "tokens" else "a word of two letters or more"
        raise DataError(
            f"{owner}: none of {counted(len(documents), 'document')} has {least}: to count other parts of texts, such"
            " as single letters, write from sklearn.feature_extraction.text import CountVectorizer; X ="
            " CountVectorizer(analyzer='char').fit_transform(X)"
        ) from None
    return sparse.csr_array(counts), vectorizer.get_feature_names_out()


def count_known_words(X: Any, kind: Documents, words: Sequence[str], *, owner: str) -> sparse.csr_array:
    """Count the words of a fit in new documents; other words are left out.

    Parameters
    ----------
    X : sequence
        Documents.
    kind : {"texts", "tokens"}
    words : (V,) sequence of str
    owner : str
        Named in messages.

    Returns
    -------
    (N, V) CSR array of int64

    Raises
    ------
    DataTypeError
        A document is missing, or is of another kind.

    Warns
    -----
    DataWarning
        Some documents hold no word of the fit.

    Examples
    --------
    >>> from expfam.frames.texts import count_known_words
    >>> count_known_words(["dog and cat"], "texts", ["cat", "dog"], owner="Mixture").toarray().tolist()
    [[1, 1]]
    """
    documents = listed(X, kind, owner=owner)
    counts = sparse.csr_array(vectorizer_of(kind, words).transform(documents))
    n_without = int((np.diff(counts.indptr) == 0).sum())
    if n_without:
        verb = "holds" if n_without == 1 else "hold"
        warn(
            f"{owner}: {n_without} of {counted(len(documents), 'document')} {verb} no word of the fit: nothing is known"
            " of them but the sizes of the clusters",
            DataWarning,
        )
    return counts


def listed(X: Any, kind: Documents, *, owner: str) -> list[Any]:
    """Return documents as a list, all of one kind: list of str, or of lists of str.

    Parameters
    ----------
    X : sequence
    kind : {"texts", "tokens"}
    owner : str
        Named in messages.

    Raises
    ------
    DataTypeError
        A document is missing, or is of another kind.

    Examples
    --------
    >>> from expfam.frames.texts import listed
    >>> listed(("one", "two"), "texts", owner="Mixture")
    ['one', 'two']
    """
    method = next((name for name in _AS_LIST if hasattr(X, name)), None)
    documents = list(X) if method is None else getattr(X, method)()
    is_fine = _is_text if kind == "texts" else _is_tokens
    at = next((at for at, document in enumerate(documents) if not is_fine(document)), None)
    if at is None:
        return documents
    document, expected = documents[at], "text" if kind == "texts" else "list of tokens"
    found = f"a {type(document).__name__} ({document!r:.40})"
    is_other = _is_tokens if kind == "texts" else _is_text
    if is_other(document):
        raise DataTypeError(
            f"{owner}: row {at} is {found}, and documents are to be of one kind, here each a {expected}: write X ="
            f" {_OF_OTHER_KIND[kind]}"
        )
    empty = "''" if kind == "texts" else "[]"
    if document is None or type(document).__name__ == "NAType" or document != document:
        found = "missing"
    test = "isinstance(one, str)" if kind == "texts" else "isinstance(one, list)"
    raise DataTypeError(
        f"{owner}: row {at} is {found}, and the other rows are documents, each a {expected}: to take it as a document"
        f" without words, write X = [one if {test} else {empty} for one in X]"
    )


def _is_text(document):
    return isinstance(document, str)


def _is_tokens(document):
    return isinstance(document, (list, tuple, set, frozenset, np.ndarray)) and all(isinstance(t, str) for t in document)


def refuse_texts_of_table(X: Any, words: Sequence[str], *, owner: str) -> None:
    """Refuse a table with a column of text, which no column of counts is, for a model of texts.

    Parameters
    ----------
    X : frame
    words : (V,) sequence of str
        Of the fit; columns of these names are counts.
    owner : str
        Named in the message.

    Raises
    ------
    DataTypeError
        The message has the line that takes the column.
    """
    frame, known = as_frame(X, owner=owner), set(words)
    for name in frame.names:
        if name not in known and frame.column(name).kind in ("text", "category"):
            raise DataTypeError(
                f"{owner}: the model was fitted to texts, and this is a table of"
                f" {counted(len(frame.names), 'column')}: write X = X[{name!r}], whose words are counted"
            )
