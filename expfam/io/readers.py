"""Tables from files: the format follows from the suffix and the content.

For each format the result is a `Table`: X as (N, V) array or CSR, and what the file holds about its rows, columns and
classes. Reading is O(size of the file); `.npy` files are memory-mapped and read when they are used. Nothing is
unpickled. Whatever a file holds, the only error is `DataError`. The declared and unpacked sizes are compared with the
allowed memory before a parser reads the file. `Dataset` applies the family's own checks later.
"""

from __future__ import annotations

import gzip
import io
import re
import shlex
import zipfile
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import DataError, DataWarning
from expfam.families.support import check_structure
from expfam.frames.frame import Frame, as_frame
from expfam.frames.texts import count_words
from expfam.io.arrow_files import KINDS, arrow_table
from expfam.io.cells import read_cells, standard_input
from expfam.io.quotes import check_quotes, ends_in_quotes, rows_of
from expfam.structures.ground.memory import available_memory, format_bytes, parse_bytes
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_CSR_KEYS = {"data", "indices", "indptr", "shape"}
_SIDE_KEYS = {
    "labels": ("labels", "label", "y", "target"),
    "column_names": ("vocab", "column_names", "feature_names"),
    "row_ids": ("row_ids", "ids"),
}
_COMPRESSED = {".gz"}
_LINES_OF_TEXTS, _SHARE_OF_TEXTS = 200, 0.9  # lines that are looked at, and the share that reads as text
_CHUNK = 1 << 20  # bytes that are read together
_MTX_BYTES = b"0123456789+-.eEdDnNaAiIfFtTyY \t\r\n"  # bytes of numbers, with NaN and infinity


class Table(NamedTuple):
    """Contents of a file; all but X are None if the file does not hold them.

    Attributes
    ----------
    X : (N, V) ndarray, csr_array or Frame
    row_ids : (N,) ndarray or None
        Name of each row.
    column_names : (V,) ndarray of str or None
    labels : (N,) ndarray or None
        Known class of each row; never used for fitting.
    links : (N,) ndarray or None
        Cells of `link_column`, which say which rows belong together.
    documents : list of str or None
        Texts, one a line of the file; X has the counts of their words, which `column_names` names.
    """

    X: Any
    row_ids: npt.NDArray[Any] | None = None
    column_names: npt.NDArray[Any] | None = None
    labels: npt.NDArray[Any] | None = None
    links: npt.NDArray[Any] | None = None
    documents: list[str] | None = None


class NoColumnError(DataError):
    """A file has no column of the name or number that was asked for, `column`; it has `names`."""

    def __init__(self, message: str, column: int | str = "", names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.column, self.names = column, tuple(names)


class NoOptionError(DataError):
    """The format of a file does not take an option that was given, `option`."""

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option


def read(
    path: str | PathLike[str],
    *,
    vocab: str | PathLike[str] | None = None,
    memory_limit: float | str | None = None,
    frame: bool = False,
    texts: bool = False,
    **options: Any,
) -> Table:
    """Read a table of data from a file.

    Parameters
    ----------
    path : path_like
        Its suffix names the format: `.npy` (memory-mapped); `.npz` with one dense array, with CSR parts
        ``data, indices, indptr, shape``, or as written by `scipy.sparse.save_npz`; `.mtx` (Matrix Market);
        `.svm`, `.svmlight`, `.libsvm`; `.csv`, `.tsv`; `.parquet`; `.feather`, `.arrow`; `.jsonl`, `.ndjson`, an
        object of JSON in each line; `.txt`, either UCI bag of words (three header
        lines D, W, NNZ, then "document word count", counted from 1), or texts, one a line, or a delimited table. Text
        may be gzipped.
        ``"-"`` is standard input: a delimited table, gzipped or not, or a Parquet file.
    vocab : path_like, optional
        Text file with the names of the columns in order, one name per line.
    memory_limit : int, float or str, optional
        Bytes, or text like ``"4GB"``. It limits the unpacked size of the file, and the size of the table that the
        file declares. By default it is the free memory of the machine.
    frame : bool
        Read delimited text and Parquet as a `Frame`, whose columns may hold text and missing cells: "", NA, NaN, null
        and None. Without it they are refused, and X is an array of numbers.
    texts : bool
        Whether texts are expected: then lines of words in a `.txt` are texts where they could be rows of a table too,
        because all have the same number of words or commas.
    **options
        Options of a format. ``key``: array of an `.npz` file. ``delimiter``, ``header`` (bool): delimited text, both
        guessed by default. ``id_column``, ``label_column``, ``link_column`` (name, or number from 0): delimited text
        and Parquet.
        svmlight: ``n_features``, the number of columns, for files whose last columns are empty; ``zero_based`` (bool),
        whether columns are counted from 0. By default they are counted from 0 if the file names a column 0, and
        otherwise from 1. You are warned if `n_features` does not prove the latter, because the first column may be
        empty.

    Raises
    ------
    DataError
        The file cannot be read. The message names the file, the line if it is known, and what to do. No other error is
        raised for the contents of a file.

    Warns
    -----
    DataWarning
        If it is not clear whether an svmlight file counts columns from 0 or from 1.

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
    if str(path) == "-":
        with standard_input() as copy, _named(copy, "standard input"):
            return read(copy, vocab=vocab, memory_limit=memory_limit, frame=frame, texts=texts, **options)
    path = Path(path)
    limit = _limit(memory_limit)
    reader, known = _reader_of(path, limit, frame, texts)
    options = {name: value for name, value in options.items() if value is not None}
    unknown = sorted(set(options) - known)
    if unknown:
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        message = f"{path}: option {unknown[0]!r} has no meaning for this format; {takes}"
        raise NoOptionError(message, unknown[0])
    with _parsing(path, "cannot be read"):
        table = reader(path, limit, **options)
    if vocab is not None:
        table = table._replace(column_names=read_vocabulary(vocab, memory_limit=memory_limit))
    return _checked(path, table, limit)


def read_vocabulary(path: str | PathLike[str], *, memory_limit: float | str | None = None) -> npt.NDArray[np.str_]:
    """Read the names of columns from a text file, one name per line: (V,) array of str.

    Empty lines at the end are ignored.
    """
    path, limit = Path(path), _limit(memory_limit)
    _require_file(path)
    _require_unpacked(path, limit)
    with _parsing(path, "the vocabulary cannot be read as UTF-8 text, one word a line"), _open_text(path) as file:
        return _as_strings(path, file.read().rstrip("\n").split("\n"), limit)


# ---- errors and sizes ------------------------------------------------------------------------------------------------


@contextmanager
def _parsing(path, what, advice=""):
    """Turn every error of a parser into a DataError that names the file.

    Files may hold anything, and parsers may raise anything.
    """
    try:
        yield
    except (DataError, DataWarning):
        raise
    except MemoryError as error:
        raise DataError(f"{path}: reading it takes more memory than there is ({_plain(error)})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: {what}: {_encoding_advice(path, error)}") from error
    except Exception as error:
        raise DataError(f"{path}: {what} ({_plain(error)}){advice}") from error


def _encoding_advice(path, error):
    """Return which byte is no UTF-8, and the line that makes text of another encoding UTF-8."""
    with _open_bytes(path) as file:
        head = file.read(_CHUNK)
    found = f"byte 0x{error.object[error.start]:02x} is no UTF-8"
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"{found}, and the file is no text: give a file of text, or one of a known format by its suffix"
    encoding = "UTF-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "LATIN1"
    whose = "the byte order mark of UTF-16" if encoding == "UTF-16" else "as in files of older spreadsheets"
    text = shlex.quote(str(path))
    return f"{found} ({whose}): type iconv -f {encoding} -t UTF-8 {text} > utf8.csv, and read utf8.csv"


@contextmanager
def _named(path, name):
    """Name a temporary copy by what it is a copy of."""
    try:
        yield
    except DataError as error:
        named = type(error)(str(error).replace(str(path), name))
        vars(named).update(vars(error))
        raise named from error


def _limit(memory_limit):
    """Return the bytes allowed: the given ones, or the free ones; infinity if unknown."""
    allowed = available_memory() if memory_limit is None else parse_bytes(memory_limit)
    return float("inf") if allowed is None else allowed


def _require_room(path, n_bytes, limit, what, *, is_all=True):
    """Refuse what does not fit; `is_all` tells whether `n_bytes` are all that are needed."""
    if n_bytes > limit:
        enough = f"memory_limit={n_bytes}" if is_all else "memory_limit='1TB'"
        raise DataError(
            f"{path}: {what} {format_bytes(n_bytes)}; {format_bytes(limit)} are free, or allowed by memory_limit: if"
            f" you expect this size, write read({str(path)!r}, {enough})"
        )


def _require_unpacked(path, limit):
    """Refuse compressed text that unpacks to more than the limit.

    The text is read once and not kept.
    """
    if path.suffix.lower() not in _COMPRESSED:
        return
    size = 0
    with _parsing(path, "cannot be read as UTF-8 text: it cannot be decompressed"), gzip.open(path, "rb") as file:
        while block := file.read(_CHUNK):
            size += len(block)
            _require_room(path, size, limit, "unpacks to more than", is_all=False)


def _require_table(path, limit, n_rows, n_columns, n_entries=None):
    """Refuse declared sizes of a table that do not fit in memory.

    Without `n_entries` the table is dense.
    """
    n_bytes = 8 * n_rows * n_columns if n_entries is None else 8 * (n_rows + n_columns) + 12 * n_entries
    _require_room(
        path,
        n_bytes,
        limit,
        f"names a table of {counted(n_rows, 'row')} and {counted(n_columns, 'column')}, which takes",
    )


def _as_strings(path, values, limit):
    """Return an (N,) array of str; refuse it if it does not fit in memory.

    Each string needs as many bytes as the longest.
    """
    width = max((len(value) for value in values), default=0)
    _require_room(
        path, 4 * width * len(values), limit, (f"a column of names up to {counted(width, 'character')} long takes")
    )
    return np.array(values, dtype=str)


# ---- which reader ----------------------------------------------------------------------------------------------------


def _suffix(path):
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _reader_of(path, limit, frame, texts):
    _require_file(path)
    suffix = _suffix(path)
    readers = _READERS | _FRAME_READERS if frame else _READERS
    if suffix == ".txt" or suffix in _READERS:
        _require_unpacked(path, limit)
    if suffix == ".txt":
        if _is_docword(path):
            return _read_docword, set()
        return (_read_documents, set()) if _holds_documents(path, texts) else readers[".csv"]
    if suffix not in _READERS:
        known = ", ".join(sorted([*_READERS, ".txt"]))
        raise DataError(f"{path}: unknown format {suffix!r}; known suffixes are {known} (text also .gz)")
    return readers[suffix]


def _require_file(path):
    with _parsing(path, "is not the path of a readable file"):
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
    """Return the table if X is a numeric matrix and the other parts have its lengths."""
    X = table.X
    if isinstance(X, Frame):
        return table
    if X.ndim != 2:
        raise DataError(f"{path}: holds an array of shape {X.shape}; a table needs two dimensions (rows, columns)")
    if X.dtype.kind not in "buif":
        raise DataError(f"{path}: holds {X.dtype} values; a table needs real numbers")
    if sparse.issparse(X):
        _require_table(path, limit, *X.shape, X.nnz)
    for name, axis in (("row_ids", 0), ("labels", 0), ("links", 0), ("column_names", 1)):
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
        raise DataError(f"{path}: is not a readable .npz file (no zip archive, or truncated)")
    # the file is opened here, because NumPy closes a broken archive too late
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
    """Arrays of an open .npz file by name; arrays above the memory limit are refused."""

    def __init__(self, path: Path, file: Any, limit: float) -> None:
        self.path, self.file, self.limit = path, file, limit
        self.names = list(file.files)

    def __getitem__(self, name):
        members = set(self.file.zip.namelist())
        size = self.file.zip.getinfo(name if name in members else f"{name}.npy").file_size
        _require_room(self.path, size, self.limit, f"array {name!r} unpacks to")
        array = self.file[name]
        if not isinstance(array, np.ndarray):
            raise DataError(f"{self.path}: the entry {name!r} is not an array")
        return array

    def first(self, keys: Any, names: set[str]) -> npt.NDArray[Any] | None:
        """Return the array of the first key that is in `names`, or None."""
        found = [name for name in keys if name in names]
        return self[found[0]] if found else None


def _matrix_of_npz(path, arrays, key):
    """Return X of an open .npz file, and the names of the arrays that make it."""
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
        raise DataError(
            f"{path}: it is not clear which array holds the data; choose one with key=: {sorted(names)}, for example"
            f" read({str(path)!r}, key={min(names)!r}), or --key {min(names)}"
        )
    return arrays[candidates[0]], {candidates[0]}


def _scipy_matrix(path, arrays):
    """Return the CSR matrix of an .npz file that `scipy.sparse.save_npz` wrote."""
    for name in arrays.names:
        arrays[name]  # check that each entry is an array within the limit
    return _as_csr(path, sparse.load_npz(path), arrays.limit)


def _as_csr(path, X, limit):
    """Return any sparse matrix as CSR.

    All indices are checked before, because SciPy's conversions do not check them.
    """
    check_structure(X, owner=str(path))
    _require_table(path, limit, *X.shape, X.nnz)
    X = sparse.csr_array(X)
    check_structure(X, owner=str(path))
    return X


def _plain(error):
    """Return the first line of an error's text, without NumPy's advice to unpickle."""
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
        else:  # SciPy's reader reads past the end of the file after an error in a last line without a newline
            with _open_bytes(path) as file:
                X = mmread(io.BytesIO(file.read() + b"\n"))
        return Table(_as_csr(path, X, limit) if sparse.issparse(X) else np.ascontiguousarray(X))


def _check_mtx(path, limit):
    """Refuse a file that crashes SciPy's reader: bytes of no number, or impossible sizes.

    Return whether the last line has an end.
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
                    f"{path}: line {at} holds the byte 0x{foreign[0]:02x}, which does not occur in numbers: the file is"
                    " damaged or not a Matrix Market file"
                )
            size, last = size + len(block), block[-1:]
    half = n_rows * (n_rows + (1 if symmetry == b"symmetric" else -1)) // 2  # symmetric files hold one triangle only
    promised = n_entries[0] if n_entries else n_rows * n_columns if is_general else half
    if size + 1 < promised * (4 if n_entries else 2):  # an entry has at least "1 1" or "1", and the end of the line
        raise DataError(
            f"{path}: line {number} promises {counted(promised, 'entry', 'entries')}, more than the file holds: it is "
            "truncated"
        )
    return last == b"\n"


def _lines_before(path, position):
    """Return the number of line ends among the first bytes of a file."""
    count = 0
    with _open_bytes(path) as file:
        while position > 0 and (block := file.read(min(_CHUNK, position))):
            count, position = count + block.count(b"\n"), position - len(block)
    return count


def _read_svmlight(path, limit, *, n_features=None, zero_based="auto"):
    from sklearn.datasets import load_svmlight_file

    with _parsing(path, "is not a readable svmlight file", "; a line reads 'label column:value ...'"):
        X, y = load_svmlight_file(str(path), zero_based=True)  # keep the column numbers of the file
        check_structure(X, owner=str(path))
        X = _columns_of_svmlight(path, X, n_features, zero_based, limit)
        whole = np.rint(y)
        with np.errstate(invalid="ignore"):
            is_whole = np.array_equal(whole, y) and np.all(np.abs(y) < 2.0**63)
        return Table(X, labels=whole.astype(np.int64) if is_whole else y)


def _columns_of_svmlight(path, X, n_features, zero_based, limit):
    """Return the matrix with columns counted from 0; the file may count from 0 or 1."""
    low, high = (int(X.indices.min()), int(X.indices.max())) if X.nnz else (0, -1)
    if n_features is not None and not (isinstance(n_features, (int, np.integer)) and n_features >= 1):
        raise DataError(f"{path}: n_features must be a positive whole number; got {n_features!r}")
    if zero_based not in (True, False, "auto"):
        raise DataError(f"{path}: zero_based must be True, False or 'auto'; got {zero_based!r}")
    if zero_based is False and X.nnz and low == 0:
        raise DataError(
            f"{path}: names a column 0, so that columns are counted from 0: write read({str(path)!r}, zero_based=True)"
        )
    from_one = X.nnz > 0 and low > 0 and zero_based in (False, "auto")
    if from_one and zero_based == "auto" and n_features != high:
        warn(
            f"{path}: no entry is in a column 0, so columns are assumed to be counted from 1; if they are counted from"
            " 0 and the first one is empty, all columns are wrong by one: give zero_based=False or True (on the command"
            f" line --no-zero-based or --zero-based), as in read({str(path)!r}, zero_based=True)",
            DataWarning,
        )
    needed = max(high + 1 - from_one, 1)
    if n_features is not None and n_features < needed:
        raise DataError(
            f"{path}: names column {high}, counted from {int(from_one)}, but n_features={n_features}: write"
            f" read({str(path)!r}, n_features={needed}, zero_based={not from_one}), or say whether columns are counted"
            " from 0 (zero_based)"
        )
    shape = (X.shape[0], needed if n_features is None else int(n_features))
    _require_table(path, limit, *shape, X.nnz)
    return _as_csr(path, sparse.csr_array((X.data, X.indices - int(from_one), X.indptr), shape=shape), limit)


def _is_docword(path):
    lines = _first_lines(path, 3)
    return len(lines) == 3 and all(re.fullmatch(r"\s*[0-9]{1,18}\s*", line) for line in lines)


def _holds_documents(path, are_expected):
    """Tell whether a file holds texts, one a line, and no table."""
    lines = [line for line in _first_lines(path, _LINES_OF_TEXTS) if line.strip()]
    if len(lines) < 2 or sum(map(_is_prose, lines)) < _SHARE_OF_TEXTS * len(lines):
        return False
    if are_expected:
        return True
    has_columns = any(min(counts) == max(counts) > 0 for counts in ([line.count(c) for line in lines] for c in "\t;|,"))
    return not has_columns and len({len(line.split()) for line in lines}) > 1


def _is_prose(line):
    """Tell whether most words of a line are of letters, and there are two or more."""
    words = line.split()
    return len(words) > 1 and 2 * sum(any(map(str.isalpha, word)) for word in words) > len(words)


def _read_documents(path, limit):
    """Read texts, one a line, and count their words; empty lines are left out."""
    with _parsing(path, "cannot be read as UTF-8 text"), _open_text(path) as file:
        documents = [line.strip() for line in file if line.strip()]
    counts, words = count_words(documents, "texts", owner=str(path))
    return Table(counts, column_names=_as_strings(path, words.tolist(), limit), documents=documents)


def _read_docword(path, limit):
    """Read a UCI bag of words.

    Reading needs 12 bytes for each stored entry; documents in order are not sorted.
    """
    n_rows, n_columns, nnz = (int(line) for line in _first_lines(path, 3))
    _require_table(path, limit, n_rows, n_columns, nnz)
    table = _load_text(path, lines_before=3, dtype=np.int32, delimiter=None)
    if table.size and table.shape[1] != 3:
        raise DataError(f"{path}: line 4 holds {counted(table.shape[1], 'number')}; a line reads 'document word count'")
    table = table.reshape(-1, 3)
    if len(table) != nnz:
        raise DataError(
            f"{path}: line 3 promises {counted(nnz, 'entry', 'entries')}, {len(table)} follow: the file is truncated "
            "or damaged"
        )
    for column, noun, high in ((0, "document", n_rows), (1, "word", n_columns)):
        bad = np.flatnonzero((table[:, column] < 1) | (table[:, column] > high))
        if bad.size:
            raise DataError(
                f"{path}: line {bad[0] + 4} names {noun} {table[bad[0], column]}; the header allows 1 to {high}"
            )
    document, word, count = table[:, 0] - 1, table[:, 1] - 1, table[:, 2].copy()
    if np.all(document[1:] >= document[:-1]):
        # indptr has the type of the indices: with a wider indptr SciPy would copy the indices to the wider type
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
        raise DataError(f"{path}: {_with_line(path, error, lines_before)}") from error


def _with_line(path, error, lines_before):
    """Return a parser's message with the line of the file that it is about.

    The parser counts rows without the header.
    """
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
    number = int(column.group(1)) - 1 if column else 0
    return (
        f"{where} holds {value.group(1)!r}, which is not a number: if it names the row, write read({str(path)!r},"
        f" id_column={number}); for columns of several kinds, write read({str(path)!r}, frame=True), or at the command"
        " line leave out --family"
    )


def _read_delimited(path, limit, *, delimiter=None, header=None, id_column=None, label_column=None, link_column=None):
    special = {"row_ids": id_column, "labels": label_column, "links": link_column}
    delimiter, header, names, special = _head(path, delimiter, header, special, _is_header)
    kept = [column for column in range(len(names)) if column not in special.values()]
    if not kept:
        raise DataError(f"{path}: no column of numbers is left beside {names}")
    load = {"lines_before": int(header), "delimiter": delimiter}
    X = _load_text(path, dtype=np.float64, usecols=kept if special else None, **load)
    if X.shape[1] != len(kept):
        raise DataError(f"{path}: the header names {counted(len(kept), 'column')} of data, the rows have {X.shape[1]}")
    # load objects first: each item of a string array is as wide as the longest string
    side = {part: _load_text(path, dtype=object, usecols=[column], **load)[:, 0] for part, column in special.items()}
    side = _side(path, side, limit)
    return Table(X, column_names=np.array([names[column] for column in kept]) if header else None, **side)


def _side(path, columns, limit):
    """Return names of rows and labels from columns of objects."""
    side = {part: _as_strings(path, list(values), limit) for part, values in columns.items()}
    return {part: values if part == "row_ids" else _whole_numbers(values) for part, values in side.items()}


def _head(path, delimiter, header, special, is_header):
    """Return delimiter, whether there is a header, names of columns, numbers of special ones."""
    lines = [line for line in _first_lines(path, 2) if line.strip()]
    if not lines:
        raise DataError(f"{path}: the file has no rows")
    if delimiter is None:
        delimiter = "\t" if _suffix(path) == ".tsv" else _guess_delimiter(lines, _suffix(path) == ".csv")
    with _parsing(path, "cannot be read as UTF-8 text"):
        check_quotes(path, delimiter)
    if ends_in_quotes(lines[0], delimiter):
        raise DataError(
            f"{path}: a cell in quotes of the first line, {lines[0][:40]!r}, ends in a later line: write the first"
            " line, which has the names of the columns or the first row, without a line end in it"
        )
    rows = [next(rows_of([line], delimiter)) for line in lines]
    if header is None:
        named = any(isinstance(column, str) for column in special.values())
        header = named or is_header(rows, {column for column in special.values() if isinstance(column, int)})
    names = [name.strip() for name in rows[0]] if header else [str(column) for column in range(len(rows[0]))]
    if header and len(rows) < 2:
        raise DataError(f"{path}: the file has a header line and no rows")
    numbers = {part: _column_number(path, names, column) for part, column in special.items() if column is not None}
    return delimiter, header, names, numbers


def _guess_delimiter(lines, is_csv):
    """Return the most frequent of comma, semicolon and tab in the first line.

    If there is none of them, return a vertical bar that is there, or else None, for any white space. A CSV file is
    one column, whose cells may be texts, unless its first two lines have the same number of words, two or more.
    """
    best = max(",;\t|", key=lambda each: lines[0].count(each) if each != "|" else 0.5)
    if best in lines[0]:
        return best
    counts = {len(line.split()) for line in lines}
    return "," if is_csv and (len(counts) > 1 or counts == {1}) else None


def _is_number(text):
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def _is_header(rows, text_columns):
    """Tell whether the first row is a header.

    It is one if it has text in a column in which the next row has a number. A single row is a header if it has text.
    """
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
    message = f"{path}: has no column {column!r}; it has {names[:20]}{' ...' if len(names) > 20 else ''}"
    raise NoColumnError(message, column, names)


def _whole_numbers(values):
    """Return strings as int64 if all are whole numbers, else unchanged."""
    try:
        return values.astype(np.int64)
    except (ValueError, OverflowError):
        return values


# ---- Arrow -----------------------------------------------------------------------------------------------------------


def _read_parquet(path, limit, *, id_column=None, label_column=None, link_column=None):
    table, special, kept = _parquet_columns(
        path, limit, {"row_ids": id_column, "labels": label_column, "links": link_column}
    )
    names = table.column_names
    columns = [_numeric_column(path, names[column], table.column(column)) for column in kept]
    if not columns:
        raise DataError(f"{path}: no column of numbers is left beside {names}")
    X = np.empty((table.num_rows, len(kept)), dtype=np.result_type(*{values.dtype for values in columns}))
    for position, values in enumerate(columns):
        X[:, position] = values
    return Table(
        X, column_names=np.array([names[column] for column in kept]), **_parquet_side(path, table, special, limit)
    )


def _parquet_columns(path, limit, special):
    """Return the Arrow table, numbers of special columns, and those of the others.

    The index of a pandas frame, which is stored as columns, is no feature.
    """
    suffix = _suffix(path)
    with _parsing(path, f"is not a readable {KINDS[suffix]} file"):
        table = arrow_table(path, suffix, partial(_require_table, path, limit))
    names = table.column_names
    special = {part: _column_number(path, names, column) for part, column in special.items() if column is not None}
    index = [entry for entry in (table.schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(entry, str)]
    kept = [at for at, name in enumerate(names) if at not in special.values() and name not in index]
    return table, special, kept


def _parquet_side(path, table, special, limit):
    side = {part: table.column(column).to_numpy() for part, column in special.items()}
    return {
        part: _as_strings(path, [str(value) for value in values], limit) if values.dtype == object else values
        for part, values in side.items()
    }


def _numeric_column(path, name, column):
    if column.null_count:
        raise DataError(
            f"{path}: column {name!r} has {counted(column.null_count, 'missing value')}: fill or drop them first"
        )
    values = column.to_numpy()
    if values.dtype.kind not in "buif":
        raise DataError(
            f"{path}: column {name!r} is of type {column.type}, not numbers: "
            f"if it names the rows, write read({str(path)!r}, id_column={name!r}); for columns of several kinds, write"
            f" read({str(path)!r}, frame=True), or at the command line leave out --family"
        )
    return values


# ---- tables with text and missing cells ------------------------------------------------------------------------------


def _read_delimited_frame(
    path, limit, *, delimiter=None, header=None, id_column=None, label_column=None, link_column=None
):
    special = {"row_ids": id_column, "labels": label_column, "links": link_column}
    delimiter, header, names, special = _head(path, delimiter, header, special, _has_names)
    with _parsing(path, "cannot be read as a table of text"):
        cells = read_cells(path, names, delimiter=delimiter, has_header=header)
    kept = [column for column in range(len(names)) if column not in special.values()]
    if not kept:
        raise DataError(f"{path}: no column of data is left beside {names}")
    side = _side(path, {part: cells.column(column) for part, column in special.items()}, limit)
    named = [names[column] for column in kept if names[column]]
    repeated = next((name for name in named if named.count(name) > 1), None) if len(set(named)) < len(named) else None
    if repeated is not None:
        raise DataError(
            f"{path}: there is more than one column named {repeated!r}: give each a name of its own in the first line"
        )
    with _parsing(path, "has no usable header"):
        frame = cells.frame(kept)
    return Table(frame, column_names=np.array(frame.names), **side)


def _has_names(rows, text_columns):
    """Tell whether the first row of a table is a header: also if it has distinct words alone."""
    first = rows[0]
    is_words = len(rows) > 1 and len(set(first)) == len(first) and not any(cell and _is_number(cell) for cell in first)
    return is_words or _is_header(rows, text_columns)


def _read_parquet_frame(path, limit, *, id_column=None, label_column=None, link_column=None):
    table, special, kept = _parquet_columns(
        path, limit, {"row_ids": id_column, "labels": label_column, "links": link_column}
    )
    if not kept:
        raise DataError(f"{path}: no column of data is left beside {table.column_names}")
    with _parsing(path, "cannot be read as a table"):
        frame = as_frame(table.select(kept), owner=str(path))
    return Table(frame, column_names=np.array(frame.names), **_parquet_side(path, table, special, limit))


_DELIMITED = (_read_delimited, {"delimiter", "header", "id_column", "label_column", "link_column"})
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
    **dict.fromkeys(KINDS, (_read_parquet, {"id_column", "label_column", "link_column"})),
}
_DELIMITED_FRAME = (_read_delimited_frame, _DELIMITED[1])
_FRAME_READERS = {
    ".csv": _DELIMITED_FRAME,
    ".tsv": _DELIMITED_FRAME,
    **dict.fromkeys(KINDS, (_read_parquet_frame, _READERS[".parquet"][1])),
}
