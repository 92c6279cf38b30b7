"""Every format gives back the table that was written, and every broken file says where and what to do."""

import gzip
import io as memory
import re
import shlex
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from scipy import io, sparse
from source_tree import TESTS

from expfam.errors import DataError, DataWarning
from expfam.io.readers import read

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def dense():
    return np.random.default_rng(0).normal(size=(7, 3))


@pytest.fixture
def counts():
    values = np.random.default_rng(1).poisson(0.7, size=(9, 6)).astype(np.int32)
    values[3] = 0  # an empty row
    values[:, 5] = 0  # and an empty last column
    return sparse.csr_array(values)


def same(X, expected):
    assert X.shape == expected.shape
    assert sparse.issparse(X) == sparse.issparse(expected)
    np.testing.assert_array_equal(
        X.toarray() if sparse.issparse(X) else X, expected.toarray() if sparse.issparse(expected) else expected
    )


def write_docword(path, X, order=None):
    entries = X.tocoo()
    rows = np.column_stack([entries.row + 1, entries.col + 1, entries.data])
    rows = rows if order is None else rows[order]
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt") as file:
        file.write(f"{X.shape[0]}\n{X.shape[1]}\n{X.nnz}\n")
        np.savetxt(file, rows, fmt="%d")
    return path


# ---- round trips -----------------------------------------------------------------------------------------------------


def test_npy_is_memory_mapped(tmp_path, dense):
    np.save(tmp_path / "x.npy", dense)
    X = read(tmp_path / "x.npy").X
    assert isinstance(X, np.memmap)
    same(X, dense)


@pytest.mark.parametrize("name", ["X", "data", "something"])
def test_npz_with_one_dense_array(tmp_path, dense, name):
    np.savez(tmp_path / "x.npz", **{name: dense})
    same(read(tmp_path / "x.npz").X, dense)


def test_npz_dense_with_labels_keeps_type(tmp_path, dense):
    labels = np.arange(7) % 2
    np.savez(tmp_path / "x.npz", X=dense.astype(np.float32), labels=labels)
    table = read(tmp_path / "x.npz")
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(table.labels, labels)
    assert table.column_names is None
    assert table.row_ids is None


def test_npz_key_chooses(tmp_path, dense):
    np.savez(tmp_path / "x.npz", a=dense, b=dense + 1)
    same(read(tmp_path / "x.npz", key="b").X, dense + 1)
    with pytest.raises(DataError, match=r"x\.npz.*choose one with key=.*'a', 'b'"):
        read(tmp_path / "x.npz")
    with pytest.raises(DataError, match="no array 'c'"):
        read(tmp_path / "x.npz", key="c")


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
def test_npz_as_scipy_writes_it(tmp_path, counts, kind):
    sparse.save_npz(tmp_path / "x.npz", kind(counts))
    table = read(tmp_path / "x.npz")
    assert table.X.format == "csr"
    same(table.X, counts)


def test_npz_of_csr_parts_with_labels_and_vocabulary(tmp_path, counts):
    words = np.array(list("abcdef"))
    parts = {name: getattr(counts, name) for name in ("data", "indices", "indptr")}
    np.savez(tmp_path / "x.npz", **parts, shape=np.array(counts.shape), labels=np.arange(9), vocab=words)
    table = read(tmp_path / "x.npz")
    same(table.X, counts)
    assert table.X.dtype == np.int32
    assert table.column_names.tolist() == list("abcdef")
    assert table.labels.tolist() == list(range(9))


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
def test_matrix_market(tmp_path, dense, counts, suffix):
    for X in (counts, dense):
        plain = tmp_path / "x.mtx"
        io.mmwrite(plain, X)
        if suffix.endswith(".gz"):
            (tmp_path / "x.mtx.gz").write_bytes(gzip.compress(plain.read_bytes()))
        same(read(tmp_path / f"x{suffix}").X, X)


@pytest.mark.parametrize("suffix", [".svm", ".svmlight", ".libsvm"])
def test_svmlight(tmp_path, counts, suffix):
    from sklearn.datasets import dump_svmlight_file

    path = tmp_path / f"x{suffix}"
    dump_svmlight_file(counts, np.arange(9) % 3, str(path), zero_based=False)
    table = read(path, n_features=6, zero_based=False)
    same(table.X, counts.astype(float))
    assert table.labels.dtype == np.int64
    assert table.labels.tolist() == [0, 1, 2] * 3


@pytest.mark.parametrize("name", ["docword.txt", "docword.txt.gz"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_docword(tmp_path, counts, name, shuffled):
    order = np.random.default_rng(2).permutation(counts.nnz) if shuffled else None
    path = write_docword(tmp_path / name, counts, order)
    (tmp_path / "vocab.txt").write_text("\n".join("abcdef") + "\n")
    table = read(path, vocab=tmp_path / "vocab.txt")
    same(table.X, counts)
    assert table.X.dtype == np.int32
    assert table.X.indices.dtype == np.int32
    assert table.column_names.tolist() == list("abcdef")


def test_docword_without_entries(tmp_path):
    (tmp_path / "d.txt").write_text("2\n3\n1\n2 3 4\n")
    same(read(tmp_path / "d.txt").X, sparse.csr_array([[0, 0, 0], [0, 0, 4]]))


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".csv", ";"), (".tsv", "\t"), (".txt", " ")])
@pytest.mark.parametrize("header", [False, True])
def test_delimited(tmp_path, dense, suffix, delimiter, header):
    path = tmp_path / f"x{suffix}"
    names = ["first", "second", "third"]
    np.savetxt(path, dense, delimiter=delimiter, header=delimiter.join(names) if header else "", comments="")
    table = read(path)
    np.testing.assert_array_equal(table.X, np.loadtxt(path, delimiter=delimiter, skiprows=int(header)))
    assert (None if table.column_names is None else table.column_names.tolist()) == (names if header else None)


def test_csv_needs_no_pandas(tmp_path, dense, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    np.savetxt(tmp_path / "x.csv", dense, delimiter=",")
    assert read(tmp_path / "x.csv").X.shape == (7, 3)


@pytest.mark.parametrize("by_name", [False, True])
def test_csv_with_ids_and_labels(tmp_path, by_name):
    (tmp_path / "x.csv").write_text('id,x,class,y\n"a, 1",1,3,2\nb,3,4,4\n')
    columns = {"id_column": "id", "label_column": "class"} if by_name else {"id_column": 0, "label_column": 2}
    table = read(tmp_path / "x.csv", **columns)
    same(table.X, np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert table.row_ids.tolist() == ["a, 1", "b"]
    assert table.labels.tolist() == [3, 4]
    assert table.column_names.tolist() == ["x", "y"]


def test_csv_ids_without_header(tmp_path):
    (tmp_path / "x.csv").write_text("a,1,2\nb,3,4\n")
    table = read(tmp_path / "x.csv", id_column=0)
    same(table.X, np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert table.row_ids.tolist() == ["a", "b"]


def test_csv_numeric_header_can_be_forced(tmp_path):
    (tmp_path / "x.csv").write_text("2019,2020\n1,2\n3,4\n")
    assert read(tmp_path / "x.csv").X.shape == (3, 2)
    assert read(tmp_path / "x.csv", header=True).X.shape == (2, 2)


def test_csv_of_one_row_and_byte_order_mark(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbfx,y\r\n1,2\r\n")
    table = read(tmp_path / "x.csv")
    same(table.X, np.array([[1.0, 2.0]]))
    assert table.column_names.tolist() == ["x", "y"]


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra `arrow`")
    import pyarrow.parquet as parquet

    columns = {"name": ["a", "b"], "x": np.float32([1, 2]), "y": np.float32([3, 4]), "class": [7, 8]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    table = read(tmp_path / "x.parquet", id_column="name", label_column="class")
    same(table.X, np.float32([[1, 3], [2, 4]]))
    assert table.X.dtype == np.float32
    assert table.X.flags.c_contiguous
    assert table.row_ids.tolist() == ["a", "b"]
    assert table.labels.tolist() == [7, 8]
    with pytest.raises(DataError, match=r"x\.parquet: column 'name' is of type .*id_column"):
        read(tmp_path / "x.parquet")
    parquet.write_table(pyarrow.table({"x": [1.0, None]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="column 'x' has 1 missing value:"):
        read(tmp_path / "x.parquet")


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"pip install 'expfam\[arrow\]'"):
        read(tmp_path / "x.parquet")


# ---- broken files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_nothing_is_unpickled(tmp_path, name):
    array = np.array([[1, "a"]], dtype=object)
    (np.save if name == "x.npy" else np.savez)(tmp_path / name, array)
    with pytest.raises(DataError, match="arrays of objects are refused") as caught:
        read(tmp_path / name)
    assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.npy", b"nothing of the kind", "not a readable .npy"),
        ("x.npz", b"PK\x03\x04 cut off", "not a readable .npz"),
        ("x.mtx", b"1 2 3\n", "not a readable Matrix Market"),
        (
            "x.mtx",
            b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n9 1 1.0\n",
            "Matrix Market.*[Ll]ine 4",
        ),
        ("x.svm", b"1 a:b\n", "not a readable svmlight"),
        ("x.parquet", b"PAR1", "not a readable Parquet"),
        ("x.csv.gz", b"not compressed", "cannot be read as UTF-8"),
        ("x.csv", b"x,y\n1,2\n3,oops\n", "line 3, column 2 holds 'oops'.*id_column"),
        ("x.csv", b"x,y\n1,2\n3,4\n5,\n", "line 4, column 2 is empty: fill or drop"),
        ("x.csv", b"1,2\n3,4\n5,6,7\n", "line 3 has another number of columns"),
        ("x.csv", b"x,y\n1,2\n3,4\n5,6,7\n", "line 4 has another number of columns"),
        ("x.csv", b"x,y\n", "a header line and no rows"),
        ("x.csv", b"x,y,z\n1,2\n3,4\n", "header names 3 columns of data, the rows have 2"),
        ("x.txt", b"2\n3\n2\n1 1 1\n", "promises 2 entries, 1 follow"),
        ("x.txt", b"2\n3\n2\n1 1 1\n3 1 1\n", "line 5 names document 3; the header allows 1 to 2"),
        ("x.txt", b"2\n3\n2\n1 1 1\n2 0 1\n", "line 5 names word 0; the header allows 1 to 3"),
        ("x.txt", b"2\n3\n2\n1 1 1\n2 2 x\n", "line 5, column 3 holds 'x'"),
        ("x.txt", b"2\n3\n1\n1 1\n", "line 4 holds 2 numbers"),
        ("x.weird", b"1", "unknown format '.weird'; known suffixes are .arrow, .csv"),
        ("x.csv", b"", "the file is empty"),
    ],
)
def test_broken_files_say_where(tmp_path, name, content, message):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_truncated_gzip(tmp_path, counts):
    whole = write_docword(tmp_path / "d.txt.gz", counts).read_bytes()
    (tmp_path / "d.txt.gz").write_bytes(whole[:-12])
    with pytest.raises(DataError, match=r"d\.txt\.gz"):
        read(tmp_path / "d.txt.gz")


def test_parts_must_fit(tmp_path, dense, counts):
    np.savez(tmp_path / "x.npz", X=dense, labels=np.arange(6))
    with pytest.raises(DataError, match=r"labels of shape \(6,\) do not fit 7 rows"):
        read(tmp_path / "x.npz")
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(DataError, match=r"column names of shape \(2,\) do not fit 6 columns"):
        read(write_docword(tmp_path / "d.txt", counts), vocab=tmp_path / "vocab.txt")
    np.save(tmp_path / "x.npy", dense[0])
    with pytest.raises(DataError, match=r"shape \(3,\); a table needs two dimensions"):
        read(tmp_path / "x.npy")
    bad = {"data": counts.data, "indices": counts.indices + 3, "indptr": counts.indptr, "shape": counts.shape}
    np.savez(tmp_path / "x.npz", **bad)
    with pytest.raises(DataError, match=r"x\.npz"):
        read(tmp_path / "x.npz")


def test_options_of_other_formats_are_refused(tmp_path, dense):
    np.save(tmp_path / "x.npy", dense)
    with pytest.raises(DataError, match="option 'key' has no meaning for this format; it takes none"):
        read(tmp_path / "x.npy", key="X")
    np.savetxt(tmp_path / "x.csv", dense, delimiter=",")
    with pytest.raises(DataError, match=r"no column 'name'; it has \['"):
        read(tmp_path / "x.csv", id_column="name")
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="is not a file"):
        read(tmp_path)


# ---- hostile files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.bsr_array])
@pytest.mark.parametrize(
    ("part", "at", "value"),
    [("indices", 2, 2**31 - 1), ("indices", 0, -7), ("indptr", 1, 2**30), ("indptr", -1, 2**30)],
)
def test_indices_of_files_that_scipy_wrote_are_checked(tmp_path, counts, kind, part, at, value):
    X = kind(counts)
    getattr(X, part)[at] = value
    sparse.save_npz(tmp_path / "x.npz", X)
    with pytest.raises(DataError, match=r"x\.npz"):
        read(tmp_path / "x.npz")


MTX = b"%%MatrixMarket matrix coordinate real general\n"


def npz_with(name, content):
    file = memory.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def npy_with(header):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


HOSTILE = {
    "a header whose text has no end": ("x.npy", npy_with(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2L, (")),
    "a header that is nested too deep": ("x.npy", npy_with(b"-" * 5000 + b"1")),
    "a header of many brackets": ("x.npy", npy_with(b"(" * 5000)),
    "a member that is no array": ("x.npz", npz_with("X", b"text")),
    "a member that is no array, by another name": ("x.npz", npz_with("format.npy", b"text")),
    "a format that SciPy does not know": ("x.npz", None),
    "a document number beyond all memory": ("x.txt", b"2000000000000\n3\n1\n1 1 1\n"),
    "more documents than memory, in 24 bytes": ("x.txt", b"2000000000\n3\n1\n1 1 1\n"),
    "more words than memory": ("x.txt", b"3\n2000000000\n1\n1 1 1\n"),
    "more digits than Python converts": ("x.txt", b"9" * 5000 + b"\n3\n1\n1 1 1\n"),
    "more rows than memory": ("x.mtx", MTX + b"2000000000 2 1\n1 1 1.0\n"),
    "a dense table beyond memory": ("x.mtx", b"%%MatrixMarket matrix array real general\n90000 90000\n1.0\n"),
    "more entries than the file holds": ("x.mtx", MTX + b"2 2 1000000\n1 1 1.0\n"),
    "a column beyond memory": ("x.svm", b"1 0:1 2000000000:1\n"),
    "a field that the parser of CSV refuses": ("x.csv", b"a" * 200_000 + b",1\n2,3\n"),
    "a quote without end": ("x.csv", b'"1,2\n3,4\n'),
    "a NUL": ("x.csv", b"1,2\n3,\x00\n"),
    "a line of NUL": ("x.csv", b"\x00" * 100),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_nothing_but_a_data_error_comes_out(tmp_path, case):
    name, content = HOSTILE[case]
    path = tmp_path / name
    if content is None:
        np.savez(path, format=np.array(b"strange"), data=np.zeros(1), shape=np.array([1, 1]))
    else:
        path.write_bytes(content)
    with pytest.raises(DataError, match=path.name.replace(".", r"\.")):
        read(path, memory_limit="1GB")


def test_labels_beyond_int64_stay_text(tmp_path):
    (tmp_path / "x.csv").write_text("class,x\n99999999999999999999,1\n3,4\n")
    assert read(tmp_path / "x.csv", label_column="class").labels.tolist() == ["99999999999999999999", "3"]


def test_names_of_rows_take_memory_by_the_longest(tmp_path):
    long = "n" * 100_000
    (tmp_path / "x.csv").write_text(f"{long},1\n" + "b,2\n" * 500)
    with pytest.raises(DataError, match="names up to 100000 characters long takes 200 MB; 100 MB are free, or allowed"):
        read(tmp_path / "x.csv", id_column=0, memory_limit="100MB")
    assert read(tmp_path / "x.csv", id_column=0, memory_limit="1GB").row_ids[1] == "b"


@pytest.mark.parametrize("name", ["x.csv.gz", "x.mtx.gz", "x.svm.gz", "x.txt.gz", "x.npz", "vocab.gz"])
def test_what_unpacks_to_more_than_the_limit_is_refused(tmp_path, counts, name):
    path, size = tmp_path / name, 30_000_000
    if name == "x.npz":
        np.savez_compressed(path, X=np.zeros((size // 8, 1)))
    else:
        path.write_bytes(gzip.compress(b"0" * size, compresslevel=1))
    assert path.stat().st_size < size / 100
    options = {}
    if name == "vocab.gz":
        np.save(tmp_path / "x.npy", np.zeros((2, 2)))
        path, options = tmp_path / "x.npy", {"vocab": path}
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(DataError, match=r"unpacks to .* 5 MB are free, or allowed by memory_limit"):
        read(path, memory_limit="5MB", **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_compressed_text_below_the_limit_is_read(tmp_path, dense):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress("\n".join(",".join(map(repr, row)) for row in dense.tolist()).encode()))
    same(read(path, memory_limit="1MB").X, dense)


# each ended SciPy's reader by a signal, or may on another machine: read in a process of its own
CRASHES = {
    "NUL": MTX + b"3 3 1\n3 3 1\x00",
    "NUL within": MTX + b"3 3 2\n2 2 2\x000\n3 1 -4e3\n",
    "not ASCII": b"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n2 1\n3 3\xff",
    "an error in a last line without end": MTX + b"3 3 1\n3 3 +",
    "symmetric, and not square": b"%%MatrixMarket matrix array real symmetric\n2 3\n1\n2\n3\n4\n5\n6\n",
    "symmetric, narrow": b"%%MatrixMarket matrix array integer symmetric\n2 1\n2e31",
}


def test_matrix_market_files_that_crash_the_reader_of_scipy(tmp_path):
    for number, content in enumerate(CRASHES.values()):
        (tmp_path / f"{number}.mtx").write_bytes(content)
    code = (
        "import sys; from expfam.errors import DataError; from expfam.io.readers import read\n"
        "for path in sys.argv[1:]:\n"
        "    try: read(path)\n"
        "    except DataError as error: print('refused', error, flush=True)"
    )
    paths = [str(tmp_path / f"{number}.mtx") for number in range(len(CRASHES))]
    done = subprocess.run([sys.executable, "-P", "-c", code, *paths], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.returncode} after {done.stdout}"
    told = done.stdout.splitlines()
    assert [line.split()[0] for line in told] == ["refused"] * len(CRASHES)
    assert "line 3 holds the byte 0x00" in told[0]
    assert "line 3 holds the byte 0x00" in told[1]
    assert "line 4 holds the byte 0xff" in told[2]
    assert "must be square; got 2 x 3" in told[4]


def test_matrix_market_without_an_end_of_the_last_line_and_with_names_in_comments(tmp_path):
    (tmp_path / "x.mtx").write_bytes(MTX + "% café\n2 2 2\n1 1 1.5\n2 1 -inf".encode())
    same(read(tmp_path / "x.mtx").X, sparse.csr_array([[1.5, 0], [-np.inf, 0]]))


# ---- svmlight: where columns are counted from ------------------------------------------------------------------------


def test_an_empty_first_column_is_not_read_shifted_without_a_word(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1 1:5 2:6\n0 2:7\n")
    with pytest.warns(DataWarning, match=r"x\.svm: .*counted from 1.*zero_based=False or True"):
        same(read(path).X, sparse.csr_array([[5.0, 6], [0, 7]]))
    same(read(path, zero_based=False).X, sparse.csr_array([[5.0, 6], [0, 7]]))
    same(read(path, zero_based=True).X, sparse.csr_array([[0.0, 5, 6], [0, 0, 7]]))
    same(read(path, zero_based=True, n_features=4).X, sparse.csr_array([[0.0, 5, 6, 0], [0, 0, 7, 0]]))
    same(read(path, n_features=2).X, sparse.csr_array([[5.0, 6], [0, 7]]))  # proven: there is no column 2 from 0


def test_a_column_0_proves_from_where_columns_are_counted(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1 0:5 2:6\n0 2:7\n")
    same(read(path).X, sparse.csr_array([[5.0, 0, 6], [0, 0, 7]]))
    with pytest.raises(DataError, match=r"names a column 0.*zero_based=True"):
        read(path, zero_based=False)
    with pytest.raises(DataError, match="names column 2, counted from 0, but n_features=2"):
        read(path, n_features=2)
    for options in ({"n_features": 0}, {"n_features": "3"}, {"zero_based": "yes"}):
        with pytest.raises(DataError, match="must be"):
            read(path, **options)


def test_mutated_files_of_every_format(tmp_path):
    """A short net: 1,000 mutants, read in one process with 4 GB; whatever is read is of a valid matrix."""
    pytest.importorskip("resource", reason="limits of memory are those of Unix")
    script = TESTS / "robustness" / "mutants_of_files.py"
    done = subprocess.run([sys.executable, "-P", str(script), str(tmp_path), "1000"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-500:]} {done.stderr[-2000:]}"
    n_read, n_refused = map(int, done.stdout.split()[-2:])
    assert n_read + n_refused == 1000
    assert n_read > 30


@pytest.mark.parametrize(
    ("encoding", "codec", "found"),
    [
        ("UTF-16", "utf-16", "0xff is no UTF-8 .the byte order mark of UTF-16"),
        ("UTF-16", "utf-16-be", "0xfe is no UTF-8 .the byte order mark of UTF-16"),
        ("LATIN1", "latin-1", "0xe9 is no UTF-8 .as in files of older spreadsheets"),
    ],
)
def test_text_of_another_encoding_is_read_after_the_line_to_type(tmp_path, encoding, codec, found):
    path, text = tmp_path / "my table.csv", "caf\xe9,size\n1,2\n3,4\n"
    path.write_bytes((b"\xfe\xff" if codec == "utf-16-be" else b"") + text.encode(codec))
    with pytest.raises(DataError, match=found) as told:
        read(path)
    words = shlex.split(re.search(r"type (iconv .*?), and read", str(told.value))[1])
    assert words == ["iconv", "-f", encoding, "-t", "UTF-8", str(path), ">", "utf8.csv"]
    (tmp_path / "utf8.csv").write_text(path.read_bytes().decode(words[2]), encoding="utf-8")  # what iconv does
    assert read(tmp_path / "utf8.csv").column_names.tolist() == ["caf\xe9", "size"]
    path.write_bytes(b"a,b\n\x80\x00,1\n")
    with pytest.raises(DataError, match="the file is no text"):
        read(path)


def test_cells_between_vertical_bars(tmp_path):
    (tmp_path / "x.csv").write_text("a|b\n1|2\n3|4\n")
    assert read(tmp_path / "x.csv").X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    (tmp_path / "y.csv").write_text("a,b|c\n1,2\n3,4\n")
    assert read(tmp_path / "y.csv").column_names.tolist() == ["a", "b|c"]
