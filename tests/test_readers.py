"""Every format gives back the table that was written, and every broken file says where and what to do."""

import gzip
import sys

import numpy as np
import pytest
from scipy import io, sparse

from expfam.errors import DataError
from expfam.model.readers import read

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
    with pytest.raises(DataError, match="column 'x' has 1 missing values"):
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
        ("x.weird", b"1", "unknown format '.weird'; known suffixes are .csv"),
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
