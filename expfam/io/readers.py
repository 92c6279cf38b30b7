"""Tables from files: one function, the format found by suffix and content, text parsed by compiled readers.

Whatever the format, the result is a `Table`: X as (N, V) array or CSR, and what the file knows of its rows, columns
and classes. Reading is O(size of the file); `.npy` files are memory-mapped and cost nothing until they are used.
Nothing is ever unpickled. Whatever a file holds, the only error is `DataError`: what it declares, and what it unpacks
to, is compared with the memory allowed before a parser sees it. A family's own checks come later, in `Dataset`.
"""

import csv
import gzip
import io
import re
import warnings
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from expfam.errors import DataError, DataWarning
from expfam.families.support import check_structure
from expfam.structures.ground.memory import available_memory, format_bytes, parse_bytes

_CSR_KEYS = {"data", "indices", "indptr", "shape"}
_SIDE_KEYS = {
    "labels": ("labels", "label", "y", "target"),
    "column_names": ("vocab", "column_names", "feature_names"),
    "row_ids": ("row_ids", "ids"),
}
_COMPRESSED = {".gz"}
_CHUNK = 1 << 20  # bytes, or stored entries, looked at in one go
_MTX_BYTES = b"0123456789+-.eEdDnNaAiIfFtTyY \t\r\n"  # of numbers, NaN and infinity included


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


def read(path, *, vocab=None, memory_limit=None, **options):
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
    memory_limit : int, float or str, optional
        Bytes, or text such as ``"4GB"``, that the file may unpack to, and that the table may take whose sizes it
        declares; what the machine has free if not given.
    **options
        By format. ``key``: array of an `.npz` file. ``delimiter``, ``header`` (bool): delimited text, both guessed
        otherwise. ``id_column``, ``label_column`` (name, or number from 0): delimited text and Parquet.
        svmlight: ``n_features``, the number of columns, for files whose last columns are empty; ``zero_based`` (bool),
        whether columns are counted from 0. If it is not given, they are counted from 0 where the file names a column
        0, and else from 1, with a warning where `n_features` does not prove it: the first column may be empty.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        Naming the file, the line where it is known, and what to do; nothing else is raised, whatever a file holds.

    Warns
    -----
    DataWarning
        For svmlight files that leave open whether columns are counted from 0 or from 1.

    Examples
    --------
    >>> import os, tempfile
    >>> from expfam.io.readers import read
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
    limit = _limit(memory_limit)
    reader, known = _reader_of(path, limit)
    options = {name: value for name, value in options.items() if value is not None}
    unknown = sorted(set(options) - known)
    if unknown:
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise DataError(f"{path}: option {unknown[0]!r} has no meaning for this format; {takes}")
    with _parsing(path, "cannot be read"):
        table = reader(path, limit, **options)
    if vocab is not None:
        table = table._replace(column_names=read_vocabulary(vocab, memory_limit=memory_limit))
    return _checked(path, table, limit)


def read_vocabulary(path, *, memory_limit=None):
    """Column names of a text file, one a line: (V,) array of str; trailing empty lines are dropped."""
    path, limit = Path(path), _limit(memory_limit)
    _require_file(path)
    _require_unpacked(path, limit)
    with _parsing(path, "the vocabulary cannot be read as UTF-8 text, one word a line"), _open_text(path) as file:
        return _as_strings(path, file.read().rstrip("\n").split("\n"), limit)


# ---- errors and sizes ------------------------------------------------------------------------------------------------


@contextmanager
def _parsing(path, what, advice=""):
    """The border to a parser: whatever it raises about a stranger's bytes becomes a DataError."""
    try:
        yield
    except (DataError, DataWarning):
        raise
    except MemoryError as error:
        raise DataError(f"{path}: reading it takes more memory than there is ({_plain(error)})") from error
    except Exception as error:
        raise DataError(f"{path}: {what} ({_plain(error)}){advice}") from error


def _limit(memory_limit):
    """Bytes allowed: those given, or else those that are free; infinity where the system does not say."""
    allowed = available_memory() if memory_limit is None else parse_bytes(memory_limit)
    return float("inf") if allowed is None else allowed


def _require_room(path, n_bytes, limit, what):
    if n_bytes > limit:
        raise DataError(
            f"{path}: {what} {format_bytes(n_bytes)}; {format_bytes(limit)} are free, or allowed by memory_limit: is"
            " the file what it seems to be? if so, read it with a higher memory_limit"
        )


def _require_unpacked(path, limit):
    """Refuse compressed text that unpacks to more than the limit, in one pass that keeps nothing of it."""
    if path.suffix.lower() not in _COMPRESSED:
        return
    size = 0
    with _parsing(path, "cannot be read as UTF-8 text: it cannot be decompressed"), gzip.open(path, "rb") as file:
        while block := file.read(_CHUNK):
            size += len(block)
            _require_room(path, size, limit, "unpacks to more than")


def _require_table(path, limit, n_rows, n_columns, n_entries=None):
    """Refuse declared sizes of a table that do not fit in memory; dense without a number of stored entries."""
    n_bytes = 8 * n_rows * n_columns if n_entries is None else 8 * (n_rows + n_columns) + 12 * n_entries
    _require_room(path, n_bytes, limit, f"names a table of {n_rows} rows and {n_columns} columns, which takes")


def _as_strings(path, values, limit):
    """(N,) array of str: each takes as many bytes as the longest, which must fit in memory."""
    width = max((len(value) for value in values), default=0)
    _require_room(path, 4 * width * len(values), limit, f"a column of names up to {width} characters long takes")
    return np.array(values, dtype=str)


# ---- which reader ----------------------------------------------------------------------------------------------------


def _suffix(path):
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _reader_of(path, limit):
    _require_file(path)
    suffix = _suffix(path)
    if suffix == ".txt" or suffix in _READERS:
        _require_unpacked(path, limit)
    if suffix == ".txt":
        return (_read_docword, set()) if _is_docword(path) else _READERS[".csv"]
    if suffix not in _READERS:
        known = ", ".join(sorted([*_READERS, ".txt"]))
        raise DataError(f"{path}: unknown format {suffix!r}; known suffixes are {known} (text also .gz)")
    return _READERS[suffix]


def _require_file(path):
    with _parsing(path, "is no name of a file that can be read"):
        if not path.exists():
            raise DataError(f"{path}: no such file")
        if not path.is_file():
            raise DataError(f"{path}: is not a file; give the data file itself")
        if path.stat().st_size == 0:
            raise DataError(f"{path}: the file is empty")


def _open_bytes(path):
    return (gzip.open if path.suffix.lower() in _COMPRESSED else open)(path, "rb")


def _open_text(path):
    return io.TextIOWrapper(_open_bytes(path), encoding="utf-8-sig")


def _first_lines(path, count):
    with _parsing(path, "cannot be read as UTF-8 text"), _open_text(path) as file:
        return [line.rstrip("\r\n") for line, _ in zip(file, range(count))]


def _checked(path, table, limit):
    """The table, after its parts were compared in length and X was found to be a numeric matrix."""
    X = table.X
    if X.ndim != 2:
        raise DataError(f"{path}: holds an array of shape {X.shape}; a table needs two dimensions (rows, columns)")
    if X.dtype.kind not in "buif":
        raise DataError(f"{path}: holds {X.dtype} values; a table needs real numbers")
    if sparse.issparse(X):
        _require_table(path, limit, *X.shape, X.nnz)
    for name, axis in (("row_ids", 0), ("labels", 0), ("column_names", 1)):
        part = getattr(table, name)
        if part is not None and np.shape(part) != (X.shape[axis],):
            noun = ("rows", "columns")[axis]
            raise DataError(
                f"{path}: {name.replace('_', ' ')} of shape {np.shape(part)} do not fit {X.shape[axis]} {noun}"
            )
    return table


# ---- NumPy -----------------------------------------------------------------------------------------------------------


_NO_OBJECTS = "; arrays of objects are refused"


def _read_npy(path, limit):
    with _parsing(path, "is not a readable .npy array", _NO_OBJECTS):
        return Table(np.load(path, mmap_mode="r", allow_pickle=False))


def _read_npz(path, limit, *, key=None):
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: is not a readable .npz file (no zip archive, or cut off)")
    # NumPy closes what it opened itself too late when the archive is broken
    with (
        _parsing(path, "is not a readable .npz file", _NO_OBJECTS),
        open(path, "rb") as stream,
        np.load(stream, allow_pickle=False) as file,
    ):
        arrays = _Arrays(path, file, limit)
        X, used = _matrix_of_npz(path, arrays, key)
        side = {part: arrays.first(keys, set(arrays.names) - used) for part, keys in _SIDE_KEYS.items()}
        return Table(X, **side)


class _Arrays:
    """Arrays of an open .npz file by name; each is refused where it unpacks to more than the limit."""

    def __init__(self, path, file, limit):
        self.path, self.file, self.limit = path, file, limit
        self.names = list(file.files)

    def __getitem__(self, name):
        members = set(self.file.zip.namelist())
        size = self.file.zip.getinfo(name if name in members else f"{name}.npy").file_size
        _require_room(self.path, size, self.limit, f"array {name!r} unpacks to")
        array = self.file[name]
        if not isinstance(array, np.ndarray):
            raise DataError(f"{self.path}: {name!r} is no array")
        return array

    def first(self, keys, names):
        """The first of these arrays that is there, or None."""
        found = [name for name in keys if name in names]
        return self[found[0]] if found else None


def _matrix_of_npz(path, arrays, key):
    """X of an open .npz file, and the names of the arrays that it is made of."""
    names = set(arrays.names)
    if key is not None:
        if key not in names:
            raise DataError(f"{path}: has no array {key!r}; it has {sorted(names)}")
        return arrays[key], {key}
    if "format" in names:
        return _scipy_matrix(path, arrays), names - {key for keys in _SIDE_KEYS.values() for key in keys}
    if names >= _CSR_KEYS:
        parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
        return _as_csr(path, sparse.csr_array(parts, shape=tuple(arrays["shape"].tolist())), arrays.limit), _CSR_KEYS
    side = {name for keys in _SIDE_KEYS.values() for name in keys}
    candidates = [name for name in ("X", "data") if name in names] or sorted(names - side)
    if len(candidates) != 1 and candidates[:1] != ["X"]:
        raise DataError(f"{path}: which array is the data? choose one with key=: {sorted(names)}")
    return arrays[candidates[0]], {candidates[0]}


def _scipy_matrix(path, arrays):
    """CSR of an .npz file as `scipy.sparse.save_npz` writes it."""
    for name in arrays.names:
        arrays[name]  # each within the limit, and an array
    return _as_csr(path, sparse.load_npz(path), arrays.limit)


def _as_csr(path, X, limit):
    """CSR of any sparse matrix, after all of its indices were checked: SciPy's conversions believe them."""
    check_structure(X, owner=str(path))
    _require_table(path, limit, *X.shape, X.nnz)
    X = sparse.csr_array(X)
    check_structure(X, owner=str(path))
    return X


def _plain(error):
    """First line of an error's text, without the advice to unpickle that NumPy adds."""
    return str(error).split("\n")[0].replace(" when allow_pickle=False", "").strip("'\"") or type(error).__name__


# ---- sparse text -----------------------------------------------------------------------------------------------------


_MTX_BANNER = re.compile(
    rb"%%MatrixMarket[ \t]+matrix[ \t]+(coordinate|array)[ \t]+(real|double|integer|unsigned-integer|pattern)[ \t]+"
    rb"(general|symmetric|skew-symmetric)[ \t]*\r?\n",
    re.IGNORECASE,
)


def _read_mtx(path, limit):
    from scipy.io import mmread

    with _parsing(path, "is not a readable Matrix Market file"):
        ends = _check_mtx(path, limit)
        if ends:
            X = mmread(path)
        else:  # an error in a last line that has no end would have SciPy's reader read on behind it
            with _open_bytes(path) as file:
                X = mmread(io.BytesIO(file.read() + b"\n"))
        return Table(_as_csr(path, X, limit) if sparse.issparse(X) else np.ascontiguousarray(X))


def _check_mtx(path, limit):
    """Refuse what crashes SciPy's reader: bytes that are of no number, and sizes that its header should not declare.

    Returns
    -------
    bool
        Whether the last line has an end.
    """
    with _open_bytes(path) as file:
        banner = _MTX_BANNER.fullmatch(file.readline(_CHUNK))
        if banner is None:
            raise DataError(
                f"{path}: is not a readable Matrix Market file: line 1 must read '%%MatrixMarket matrix' with"
                " coordinate or array, real, integer or pattern, and general, symmetric or skew-symmetric"
            )
        layout, kind, symmetry = (part.lower() for part in banner.groups())
        number, line = 2, file.readline(_CHUNK)
        while line.startswith(b"%") or (line and not line.strip()):
            number, line = number + 1, file.readline(_CHUNK)
        sizes = line.split()
        wanted = 3 if layout == b"coordinate" else 2
        if len(sizes) != wanted or not all(re.fullmatch(rb"[0-9]{1,18}", size) for size in sizes):
            raise DataError(
                f"{path}: is not a readable Matrix Market file: line {number} must hold {wanted} whole numbers, rows,"
                " columns and, where it is coordinate, entries"
            )
        n_rows, n_columns, *n_entries = (int(size) for size in sizes)
        is_general = symmetry == b"general"
        if not is_general and n_rows != n_columns:
            raise DataError(
                f"{path}: line {number}: a {symmetry.decode()} matrix must be square; got {n_rows} x {n_columns}"
            )
        if layout == b"array" and not n_rows * n_columns:  # SciPy's reader would divide by zero
            raise DataError(f"{path}: line {number}: an array needs rows and columns; got {n_rows} x {n_columns}")
        if layout == b"array" and kind == b"pattern":
            raise DataError(f"{path}: line 1: a pattern has no values, which an array needs")
        _require_table(path, limit, n_rows, n_columns, *(n if is_general else 2 * n for n in n_entries))
        size, last = 0, line[-1:]
        while block := file.read(_CHUNK):
            if foreign := block.translate(None, _MTX_BYTES):
                at = 1 + _lines_before(path, file.tell() - len(block) + block.index(foreign[:1]))
                raise DataError(
                    f"{path}: line {at} holds the byte 0x{foreign[0]:02x}, which is of no number: the file is damaged"
                    " or no Matrix Market file"
                )
            size, last = size + len(block), block[-1:]
    half = n_rows * (n_rows + (1 if symmetry == b"symmetric" else -1)) // 2  # the triangle that stands for the whole
    promised = n_entries[0] if n_entries else n_rows * n_columns if is_general else half
    if size + 1 < promised * (4 if n_entries else 2):  # "1 1" or "1", and the end of the line
        raise DataError(f"{path}: line {number} promises {promised} entries, more than the file holds: it is truncated")
    return last == b"\n"


def _lines_before(path, position):
    """Ends of lines among the first bytes of a file."""
    count = 0
    with _open_bytes(path) as file:
        while position > 0 and (block := file.read(min(_CHUNK, position))):
            count, position = count + block.count(b"\n"), position - len(block)
    return count


def _read_svmlight(path, limit, *, n_features=None, zero_based="auto"):
    from sklearn.datasets import load_svmlight_file

    with _parsing(path, "is not a readable svmlight file", "; a line reads 'label column:value ...'"):
        X, y = load_svmlight_file(str(path), zero_based=True)  # column numbers as they stand
        check_structure(X, owner=str(path))
        X = _columns_of_svmlight(path, X, n_features, zero_based, limit)
        whole = np.rint(y)
        with np.errstate(invalid="ignore"):
            is_whole = np.array_equal(whole, y) and np.all(np.abs(y) < 2.0**63)
        return Table(X, labels=whole.astype(np.int64) if is_whole else y)


def _columns_of_svmlight(path, X, n_features, zero_based, limit):
    """The matrix with columns counted from 0, whose numbers in the file begin with 0 or 1."""
    low, high = (int(X.indices.min()), int(X.indices.max())) if X.nnz else (0, -1)
    if n_features is not None and not (isinstance(n_features, (int, np.integer)) and n_features >= 1):
        raise DataError(f"{path}: n_features must be a positive whole number; got {n_features!r}")
    if zero_based not in (True, False, "auto"):
        raise DataError(f"{path}: zero_based must be True, False or 'auto'; got {zero_based!r}")
    if zero_based is False and X.nnz and low == 0:
        raise DataError(f"{path}: names a column 0, so that columns are counted from 0: read it with zero_based=True")
    from_one = X.nnz > 0 and low > 0 and zero_based in (False, "auto")
    if from_one and zero_based == "auto" and n_features != high:
        warnings.warn(
            f"{path}: no entry is in a column 0, so columns are taken to be counted from 1; if they are counted from 0"
            " and the first one is empty, this is wrong by one: say which it is, zero_based=False or True"
            " (--no-zero-based or --zero-based)",
            DataWarning,
            stacklevel=2,
        )
    needed = max(high + 1 - from_one, 1)
    if n_features is not None and n_features < needed:
        raise DataError(
            f"{path}: names column {high}, counted from {int(from_one)}, but n_features={n_features}: give a larger"
            " number of columns, or say from where they are counted (zero_based)"
        )
    shape = (X.shape[0], needed if n_features is None else int(n_features))
    _require_table(path, limit, *shape, X.nnz)
    return _as_csr(path, sparse.csr_array((X.data, X.indices - int(from_one), X.indptr), shape=shape), limit)


def _is_docword(path):
    lines = _first_lines(path, 3)
    return len(lines) == 3 and all(re.fullmatch(r"\s*[0-9]{1,18}\s*", line) for line in lines)


def _read_docword(path, limit):
    """UCI bag of words; 12 bytes a stored entry while reading, and no sorting where the documents are in order."""
    n_rows, n_columns, nnz = (int(line) for line in _first_lines(path, 3))
    _require_table(path, limit, n_rows, n_columns, nnz)
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
    except MemoryError:
        raise
    except Exception as error:
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


def _read_delimited(path, limit, *, delimiter=None, header=None, id_column=None, label_column=None):
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
    # as objects first: an array of strings is as wide as the longest of them
    side = {part: _load_text(path, dtype=object, usecols=[column], **load)[:, 0] for part, column in special.items()}
    side = {part: _as_strings(path, values.tolist(), limit) for part, values in side.items()}
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
    except (ValueError, OverflowError):
        return values


# ---- Parquet ---------------------------------------------------------------------------------------------------------


def _read_parquet(path, limit, *, id_column=None, label_column=None):
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError(f"{path}: reading Parquet needs pyarrow: pip install 'expfam[arrow]'") from error
    with _parsing(path, "is not a readable Parquet file"):
        with parquet.ParquetFile(path) as file:
            sizes = file.metadata
            _require_table(path, limit, sizes.num_rows, sizes.num_columns)
        table = parquet.read_table(path)
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
    side = {
        part: _as_strings(path, [str(value) for value in values], limit) if values.dtype == object else values
        for part, values in side.items()
    }
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
