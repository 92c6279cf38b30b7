"""Data that are no matrix yet: texts, lists of tokens, and objects that hold a matrix.

NumPy makes arrays of them that mean nothing, or fails after seconds with an error that names no remedy. They are known
by their first entry, so that the error comes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from os import PathLike
from typing import Any, Literal

import numpy as np

from expfam.errors import DataTypeError

_IMPORT = "from sklearn.feature_extraction.text import CountVectorizer"
OF_TOKENS = f"{_IMPORT}; X = CountVectorizer(analyzer=list).fit_transform(X)"
OF_TEXTS = f"{_IMPORT}; X = CountVectorizer().fit_transform(X)"
_OF_PAIRS = "from gensim.matutils import corpus2csc; X = corpus2csc(X, num_terms=len(dictionary)).T.tocsr()"
_OF_DICTS = "from sklearn.feature_extraction import DictVectorizer; X = DictVectorizer().fit_transform(X)"
_LISTS = (list, tuple, set, frozenset, np.ndarray)
_MOST_LOOKED_AT = 1000  # rows whose kinds are compared; later ones are left to NumPy
_LONGEST_PATH = 500  # characters; what is longer is hardly a path


def refuse_foreign(X: Any, *, owner: str) -> None:
    """Raise DataTypeError for data that are no matrix, with the line that makes one of them.

    Parameters
    ----------
    X : object
        What the user gave.
    owner : str
        Named in the message.

    Raises
    ------
    DataTypeError
        `X` is an AnnData object, a path, a dict, a list of texts, of lists of tokens, of bags of words or of dicts, or
        an object of which NumPy makes no array.

    Examples
    --------
    >>> from expfam.families.foreign import refuse_foreign
    >>> refuse_foreign([["a"], ["b", "a"]], owner="Mixture")
    Traceback (most recent call last):
        ...
    expfam.errors.DataTypeError: Mixture: row 0 is a list of tokens ('a'), and a matrix of their counts is needed: \
write from sklearn.feature_extraction.text import CountVectorizer; X = \
CountVectorizer(analyzer=list).fit_transform(X)
    """
    if isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype.kind not in "OUT"):
        return
    if hasattr(X, "obs") and hasattr(X, "X"):
        groups = ", groups=groups" if owner == "GroupedMixture" else ""
        call = f"write {owner}().fit(adata.X{groups})" if owner[:1].isupper() else "adata.X"
        raise DataTypeError(
            f"{owner}: the data are an {type(X).__name__} object: give the matrix that it holds, {call}, or another one"
            " such as adata.obsm['X_pca']"
        )
    if isinstance(X, (str, bytes, PathLike)):
        raise DataTypeError(
            f"{owner}: the data are {_short(X)}, which is no matrix: to read a file, write from expfam.io.readers"
            f" import read; {_of_file(X)}"
        )
    if isinstance(X, Mapping):
        raise DataTypeError(f"{owner}: the data are a {type(X).__name__}, which is no matrix: {_of_mapping(X)}")
    if isinstance(X, Iterator):
        raise DataTypeError(
            f"{owner}: the data are a {type(X).__name__}, which is read once only: write X = list(X) first"
        )
    if _is_sequence(X):
        _refuse_rows(X, owner)


def _short(value):
    text = repr(value if isinstance(value, bytes) else str(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _of_file(path):
    """Return the line that reads a file, whose lines may be texts."""
    name = _short(path) if isinstance(path, bytes) or len(str(path)) > _LONGEST_PATH else repr(str(path))
    if str(path).endswith((".txt", ".txt.gz")):
        return f"table = read({name}, frame=True, texts=True); X = table.documents or table.X"
    return f"X = read({name}, frame=True).X"


def _of_mapping(X):
    if "data" in X and "target" in X:
        return "it is a data set of scikit-learn: write X = X.data"
    return "where it holds columns by name, write X = pandas.DataFrame(X)"


def documents_in(X: Any, *, are_expected: bool = False) -> Literal["texts", "tokens"] | None:
    """Return what kind of documents the data are: texts, lists of tokens, or none.

    Lists of tokens are sets, differ in length, or are the cells of a column; other lists of one length are the rows of
    a table.

    Parameters
    ----------
    X : object
        What the user gave.
    are_expected : bool
        Whether lists with a word are no table even where all have one length, as for a model of words.

    Returns
    -------
    str or None

    Examples
    --------
    >>> from expfam.families.foreign import documents_in
    >>> documents_in(["a cat", "a dog"]), documents_in([["a"], ["b", "a"]]), documents_in([[1.0], [2.0]])
    ('texts', 'tokens', None)
    """
    if not _is_sequence(X):
        return None
    rows, _, first = _first_rows(X)
    if is_word(first) and all(isinstance(row, str) or _is_missing(row) for row in rows):
        return "texts"
    if not isinstance(first, _LISTS) or not len(first) or not all(isinstance(cell, str) for cell in first):
        return None
    is_list = all(hasattr(row, "__len__") or _is_missing(row) for row in rows)
    is_no_table = (are_expected and any(map(is_word, first))) or _is_column(X) or _is_set(first)
    return "tokens" if is_list and (is_no_table or _are_of_lengths(X, len(first))) else None


def _is_sequence(X):
    """Return whether the data are a sequence of rows that NumPy does not read as a matrix."""
    if isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype.kind not in "OUT"):
        return False
    if isinstance(X, (str, bytes, PathLike, Mapping, Iterator)):
        return False
    # of the class: the columns of a lazy frame of Polars are work, of which it warns
    is_frame = hasattr(type(X), "columns") or hasattr(type(X), "column_names")
    return not is_frame and getattr(X, "ndim", 1) == 1 and isinstance(X, Iterable)


def _first_rows(X):
    """Return the first rows, and the place and value of the first that holds something."""
    rows = [_row(row) for row in islice(X, _MOST_LOOKED_AT)]
    return rows, *next(((at, row) for at, row in enumerate(rows) if _holds_something(row)), (0, None))


def _refuse_rows(X, owner):
    """Refuse a sequence whose rows are texts, lists of tokens, bags of words or dicts."""
    rows, at, first = _first_rows(X)
    kind = documents_in(X)
    if kind == "texts":
        raise DataTypeError(
            f"{owner}: row {at} is the text {_short(first)}, and a matrix of counts of words is needed: write"
            f" {OF_TEXTS}"
        )
    if kind == "tokens":
        tokens = ", ".join(repr(str(cell)) for cell in islice(first, 2)) + (", ..." if len(first) > 2 else "")
        raise DataTypeError(
            f"{owner}: row {at} is a list of tokens ({tokens}), and a matrix of their counts is needed: write"
            f" {OF_TOKENS}"
        )
    if isinstance(first, Mapping):
        raise DataTypeError(
            f"{owner}: row {at} is a {type(first).__name__}, and a matrix is needed: where it holds counts by word,"
            f" write {_OF_DICTS}; where it is a row of a table, write X = pandas.DataFrame(X)"
        )
    is_list = isinstance(first, _LISTS) and all(hasattr(row, "__len__") for row in rows)
    if is_list and len(first) and all(_is_pair(cell) for row in rows for cell in row):
        raise DataTypeError(
            f"{owner}: row {at} is a list of pairs such as {first[0]!r}, and a matrix is needed: where the pairs are"
            f" words and counts of gensim, write {_OF_PAIRS}"
        )


def is_word(cell):
    """Return whether a cell is text that NumPy would not read as a number."""
    if not isinstance(cell, str):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def _row(row):
    """Return a scalar of Arrow, or a list of Arrow or Polars, as a value of Python."""
    for name in ("as_py", "to_list"):
        if hasattr(row, name):
            return getattr(row, name)()
    return row


def _is_missing(row):
    return row is None or type(row).__name__ == "NAType" or (isinstance(row, float) and row != row)


def _holds_something(row):
    return not _is_missing(row) and (not hasattr(row, "__len__") or len(row) > 0)


def _are_of_lengths(X, length):
    """Return whether rows have other lengths than this one: they are no rows of a table."""
    return any(hasattr(row, "__len__") and len(row) != length for row in X)


def _is_column(X):
    """Return whether the data are one column, such as a series of pandas, and no list of rows."""
    return not isinstance(X, (list, tuple, np.ndarray)) and (hasattr(X, "dtype") or hasattr(X, "type"))


def _is_set(row):
    return isinstance(row, (set, frozenset))


def _is_pair(cell):
    return isinstance(cell, tuple) and len(cell) == 2
