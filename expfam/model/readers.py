"""Tables from files: one function, the format found by suffix and content, text parsed by compiled readers.

Whatever the format, the result is a `Table`: X as (N, V) array or CSR, and what the file knows of its rows, columns
and classes. Reading is O(size of the file); `.npy` files are memory-mapped and cost nothing until they are used.
Nothing is ever unpickled. A family's own checks come later, in `Dataset`.
"""

import gzip
import re
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from expfam.errors import DataError

_CSR_KEYS = {"data", "indices", "indptr", "shape"}
_SIDE_KEYS = {
    "labels": ("labels", "label", "y", "target"),
    "column_names": ("vocab", "column_names", "feature_names"),
    "row_ids": ("row_ids", "ids"),
}
_COMPRESSED = {".gz"}
_READ_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    EOFError,
    OSError,
    zlib.error,
    zipfile.BadZipFile,
)


class Table(NamedTuple):
    """What a file holds; the last three are None where it does not say.

    Attributes
    ----------
    X : (N, V) ndarray or csr_array
    row_ids : (N,) ndarray or None
        Name of each row.
    column_names : (V,) ndarray of str or None
    labels : (N,) ndarray or None
        Known class of each row; never used for fitting.
    """

    X: object
    row_ids: object = None
    column_names: object = None
    labels: object = None


def read(path, *, vocab=None, **options):
    """Table of the data in a file.

    Parameters
    ----------
    path : path_like
        Its suffix names the format: `.npy` (memory-mapped); `.npz` with one dense array, with CSR parts
        ``data, indices, indptr, shape``, or as written by `scipy.sparse.save_npz`; `.mtx` (Matrix Market);
        `.svm`, `.svmlight`, `.libsvm`; `.csv`, `.tsv`; `.parquet`; `.txt`, either UCI bag of words (three header
        lines D, W, NNZ, then "document word count", counted from 1) or a delimited table. Text may be gzipped.
    vocab : path_like, optional
        Text file with one column name a line, in order.
    **options
        By format. ``key``: array of an `.npz` file. ``delimiter``, ``header`` (bool): delimited text, both guessed
        otherwise. ``id_column``, ``label_column`` (name, or number from 0): delimited text and Parquet.
        ``n_features``, ``zero_based``: svmlight.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        Naming the file, the line where it is known, and what to do.

    Examples
    --------
    >>> import os, tempfile
    >>> from expfam.model.readers import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "points.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("name,x,y\\na,1,2\\nb,3,4\\n")
    ...     table = read(path, id_column="name")
    >>> table.X
    array([[1., 2.],
           [3., 4.]])
    >>> table.row_ids.tolist(), table.column_names.tolist()
    (['a', 'b'], ['x', 'y'])
    """
    path = Path(path)
    reader, known = _reader_of(path)
    options = {name: value for name, value in options.items() if value is not None}
    unknown = sorted(set(options) - known)
    if unknown:
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise DataError(f"{path}: option {unknown[0]!r} has no meaning for this format; {takes}")
    table = reader(path, **options)
    if vocab is not None:
        table = table._replace(column_names=read_vocabulary(vocab))
    return _checked(path, table)


def read_vocabulary(path):
    """Column names of a text file, one a line: (V,) array of str; trailing empty lines are dropped."""
    path = Path(path)
    _require_file(path)
    try:
        with _open_text(path) as file:
            words = file.read().rstrip("\n").split("\n")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{path}: the vocabulary cannot be read as UTF-8 text, one word a line ({error})") from error
    return np.array(words, dtype=str)


# ---- which reader ----------------------------------------------------------------------------------------------------


def _suffix(path):
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _reader_of(path):
    _require_file(path)
    suffix = _suffix(path)
    if suffix == ".txt":
        return (_read_docword, set()) if _is_docword(path) else _READERS[".csv"]
    if suffix not in _READERS:
        known = ", ".join(sorted([*_READERS, ".txt"]))
        raise DataError(f"{path}: unknown format {suffix!r}; known suffixes are {known} (text also .gz)")
    return _READERS[suffix]


def _require_file(path):
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if not path.is_file():
        raise DataError(f"{path}: is not a file; give the data file itself")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")


def _open_text(path):
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig")


def _first_lines(path, count):
    try:
        with _open_text(path) as file:
            return [line.rstrip("\r\n") for line, _ in zip(file, range(count))]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text ({error})") from error


def _checked(path, table):
    """The table, after its parts were compared in length and X was found to be a numeric matrix."""
    X = table.X
    if X.ndim != 2:
        raise DataError(f"{path}: holds an array of shape {X.shape}; a table needs two dimensions (rows, columns)")
    if X.dtype.kind not in "buif":
        raise DataError(f"{path}: holds {X.dtype} values; a table needs real numbers")
    for name, axis in (("row_ids", 0), ("labels", 0), ("column_names", 1)):
        part = getattr(table, name)
        if part is not None and np.shape(part) != (X.shape[axis],):
            noun = ("rows", "columns")[axis]
            raise DataError(
                f"{path}: {name.replace('_', ' ')} of shape {np.shape(part)} do not fit {X.shape[axis]} {noun}"
            )
    return table


# ---- NumPy -----------------------------------------------------------------------------------------------------------


def _read_npy(path):
    try:
        return Table(np.load(path, mmap_mode="r", allow_pickle=False))
    except _READ_ERRORS as error:
        raise DataError(
            f"{path}: is not a readable .npy array ({_plain(error)}); arrays of objects are refused"
        ) from error


def _read_npz(path, *, key=None):
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: is not a readable .npz file (no zip archive, or cut off)")
    try:
        # NumPy closes what it opened itself too late when the archive is broken
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            names = set(file.files)
            X, used = _matrix_of_npz(path, file, names, key)
            side = {part: _side_array(file, names - used, keys) for part, keys in _SIDE_KEYS.items()}
    except DataError:
        raise
    except _READ_ERRORS as error:
        raise DataError(
            f"{path}: is not a readable .npz file ({_plain(error)}); arrays of objects are refused"
        ) from error
    return Table(X, **side)


def _side_array(file, names, keys):
    found = [name for name in keys if name in names]
    return file[found[0]] if found else None


def _matrix_of_npz(path, file, names, key):
    """X of an open .npz file, and the names of the arrays that it is made of."""
    if key is not None:
        if key not in names:
            raise DataError(f"{path}: has no array {key!r}; it has {sorted(names)}")
        return file[key], {key}
    if "format" in names:
        return _as_csr(sparse.load_npz(path)), _CSR_KEYS | {"format"}
    if names >= _CSR_KEYS:
        parts = tuple(file[name] for name in ("data", "indices", "indptr"))
        X = sparse.csr_array(parts, shape=tuple(file["shape"].tolist()))
        X.check_format(full_check=True)
        return X, _CSR_KEYS
    side = {name for keys in _SIDE_KEYS.values() for name in keys}
    candidates = [name for name in ("X", "data") if name in names] or sorted(names - side)
    if len(candidates) != 1 and candidates[:1] != ["X"]:
        raise DataError(f"{path}: which array is the data? choose one with key=: {sorted(names)}")
    return file[candidates[0]], {candidates[0]}


def _as_csr(X):
    return sparse.csr_array(X)


def _plain(error):
    """First line of an error's text, without the advice to unpickle that NumPy adds."""
    return str(error).split("\n")[0].replace(" when allow_pickle=False", "").strip("'\"") or type(error).__name__


# ---- sparse text -----------------------------------------------------------------------------------------------------


def _read_mtx(path):
    from scipy.io import mmread

    try:
        X = mmread(path)
    except _READ_ERRORS as error:
        raise DataError(f"{path}: is not a readable Matrix Market file ({_plain(error)})") from error
    return Table(_as_csr(X) if sparse.issparse(X) else np.ascontiguousarray(X))


def _read_svmlight(path, *, n_features=None, zero_based="auto"):
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), n_features=n_features, zero_based=zero_based)
    except _READ_ERRORS as error:
        raise DataError(
            f"{path}: is not a readable svmlight file ({_plain(error)}); a line reads 'label column:value ...'"
        ) from error
    whole = np.rint(y)
    return Table(_as_csr(X), labels=whole.astype(np.int64) if np.array_equal(whole, y) else y)


def _is_docword(path):
    lines = _first_lines(path, 3)
    return len(lines) == 3 and all(re.fullmatch(r"\s*\d+\s*", line) for line in lines)


def _read_docword(path):
    """UCI bag of words; 12 bytes a stored entry while reading, and no sorting where the documents are in order."""
    n_rows, n_columns, nnz = (int(line) for line in _first_lines(path, 3))
    table = _load_text(path, lines_before=3, dtype=np.int32, delimiter=None)
    if table.size and table.shape[1] != 3:
        raise DataError(f"{path}: line 4 holds {table.shape[1]} numbers; a line reads 'document word count'")
    table = table.reshape(-1, 3)
    if len(table) != nnz:
        raise DataError(f"{path}: line 3 promises {nnz} entries, {len(table)} follow: the file is truncated or damaged")
    for column, noun, high in ((0, "document", n_rows), (1, "word", n_columns)):
        bad = np.flatnonzero((table[:, column] < 1) | (table[:, column] > high))
        if bad.size:
            raise DataError(
                f"{path}: line {bad[0] + 4} names {noun} {table[bad[0], column]}; the header allows 1 to {high}"
            )
    document, word, count = table[:, 0] - 1, table[:, 1] - 1, table[:, 2].copy()
    if np.all(document[1:] >= document[:-1]):
        # indices and indptr share one type: a wider indptr would have SciPy copy the indices into wider ones
        indptr = np.zeros(n_rows + 1, dtype=np.int32 if nnz <= np.iinfo(np.int32).max else np.int64)
        np.cumsum(np.bincount(document, minlength=n_rows), out=indptr[1:])
        X = sparse.csr_array((count, word, indptr), shape=(n_rows, n_columns))
        X.sum_duplicates()
    else:
        X = sparse.coo_array((count, (document, word)), shape=(n_rows, n_columns)).tocsr()
    return Table(X)


# ---- delimited text --------------------------------------------------------------------------------------------------


def _load_text(path, *, lines_before, dtype, delimiter, usecols=None):
    try:
        return np.loadtxt(
            str(path),
            dtype=dtype,
            comments=None,
            delimiter=delimiter,
            skiprows=lines_before,
            usecols=usecols,
            ndmin=2,
            quotechar='"',
            encoding="utf-8-sig",
        )
    except _READ_ERRORS as error:
        raise DataError(f"{path}: {_with_line(error, lines_before)}") from error


def _with_line(error, lines_before):
    """A parser's message with the row that it names (counted without the header) turned into a line of the file."""
    text = _plain(error)
    row = re.search(r"at row (\d+)", text)
    if row is None:
        return f"cannot be read as a table of numbers ({text})"
    # NumPy counts rows from 0 in failed conversions, and from 1 where the number of columns changes
    line = int(row.group(1)) + lines_before + (1 if "could not convert" in text else 0)
    value = re.search(r"could not convert string '(.*)' to \w+", text)
    if value is None:
        return f"line {line} has another number of columns than the lines before it ({text})"
    column = re.search(r"column (\d+)", text)
    where = f"line {line}, column {column.group(1)}" if column else f"line {line}"
    if not value.group(1).strip():
        return f"{where} is empty: fill or drop missing values first"
    return f"{where} holds {value.group(1)!r}, which is not a number: name text columns with id_column or label_column"


def _read_delimited(path, *, delimiter=None, header=None, id_column=None, label_column=None):
    import csv

    lines = [line for line in _first_lines(path, 2) if line.strip()]
    if not lines:
        raise DataError(f"{path}: the file has no rows")
    if delimiter is None:
        delimiter = "\t" if _suffix(path) == ".tsv" else _guess_delimiter(lines[0])
    rows = [line.split() if delimiter is None else next(csv.reader([line], delimiter=delimiter)) for line in lines]
    text_columns = {column for column in (id_column, label_column) if isinstance(column, int)}
    if header is None:
        named = any(isinstance(column, str) for column in (id_column, label_column))
        header = named or _is_header(rows, text_columns)
    names = [name.strip() for name in rows[0]] if header else [str(column) for column in range(len(rows[0]))]
    if header and len(rows) < 2:
        raise DataError(f"{path}: the file has a header line and no rows")
    special = {"row_ids": id_column, "labels": label_column}
    special = {part: _column_number(path, names, column) for part, column in special.items() if column is not None}
    kept = [column for column in range(len(names)) if column not in special.values()]
    if not kept:
        raise DataError(f"{path}: no column of numbers is left beside {names}")
    load = {"lines_before": int(header), "delimiter": delimiter}
    X = _load_text(path, dtype=np.float64, usecols=kept if special else None, **load)
    if X.shape[1] != len(kept):
        raise DataError(f"{path}: the header names {len(kept)} columns of data, the rows have {X.shape[1]}")
    side = {part: _load_text(path, dtype=str, usecols=[column], **load)[:, 0] for part, column in special.items()}
    side = {part: _whole_numbers(values) if part == "labels" else values for part, values in side.items()}
    return Table(X, column_names=np.array([names[column] for column in kept]) if header else None, **side)


def _guess_delimiter(line):
    """The most frequent of comma, semicolon and tab in a line; None, any white space, where there is none of them."""
    best = max(",;\t", key=line.count)
    return best if best in line else None


def _is_number(text):
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def _is_header(rows, text_columns):
    """Whether the first row is text in a column where the next row is a number; one row alone: where it has text."""
    below = rows[1] if len(rows) > 1 else [""] * len(rows[0])
    return any(
        not _is_number(top) and _is_number(under)
        for column, (top, under) in enumerate(zip(rows[0], below))
        if column not in text_columns
    )


def _column_number(path, names, column):
    if isinstance(column, str):
        if column in names:
            return names.index(column)
    elif 0 <= column < len(names):
        return int(column)
    raise DataError(f"{path}: has no column {column!r}; it has {names[:20]}{' ...' if len(names) > 20 else ''}")


def _whole_numbers(values):
    """Strings as int64 where all of them are whole numbers; else as they are."""
    try:
        return values.astype(np.int64)
    except ValueError:
        return values


# ---- Parquet ---------------------------------------------------------------------------------------------------------


def _read_parquet(path, *, id_column=None, label_column=None):
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError(f"{path}: reading Parquet needs pyarrow: pip install 'expfam[arrow]'") from error
    try:
        table = parquet.read_table(path)
    except _READ_ERRORS as error:
        raise DataError(f"{path}: is not a readable Parquet file ({_plain(error)})") from error
    names = table.column_names
    special = {"row_ids": id_column, "labels": label_column}
    special = {part: _column_number(path, names, column) for part, column in special.items() if column is not None}
    kept = [column for column in range(len(names)) if column not in special.values()]
    columns = [_numeric_column(path, names[column], table.column(column)) for column in kept]
    if not columns:
        raise DataError(f"{path}: no column of numbers is left beside {names}")
    X = np.empty((table.num_rows, len(kept)), dtype=np.result_type(*{values.dtype for values in columns}))
    for position, values in enumerate(columns):
        X[:, position] = values
    side = {part: table.column(column).to_numpy() for part, column in special.items()}
    side = {part: values.astype(str) if values.dtype == object else values for part, values in side.items()}
    return Table(X, column_names=np.array([names[column] for column in kept]), **side)


def _numeric_column(path, name, column):
    if column.null_count:
        raise DataError(f"{path}: column {name!r} has {column.null_count} missing values: fill or drop them first")
    values = column.to_numpy()
    if values.dtype.kind not in "buif":
        raise DataError(
            f"{path}: column {name!r} is of type {column.type}, not numbers: "
            "name text columns with id_column or label_column, or leave them out of the file"
        )
    return values


_DELIMITED = (_read_delimited, {"delimiter", "header", "id_column", "label_column"})
_SVMLIGHT = (_read_svmlight, {"n_features", "zero_based"})
_READERS = {
    ".npy": (_read_npy, set()),
    ".npz": (_read_npz, {"key"}),
    ".mtx": (_read_mtx, set()),
    ".svm": _SVMLIGHT,
    ".svmlight": _SVMLIGHT,
    ".libsvm": _SVMLIGHT,
    ".csv": _DELIMITED,
    ".tsv": _DELIMITED,
    ".parquet": (_read_parquet, {"id_column", "label_column"}),
}
