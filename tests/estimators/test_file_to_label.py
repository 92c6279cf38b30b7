"""From a file to labels: the same counts in every format that is read give the same labels."""

import gzip

import numpy as np
import pytest
from scipy import io, sparse
from sklearn.datasets import dump_svmlight_file

from expfam.cli import main

RNG = np.random.default_rng(5)
COUNTS = RNG.poisson(RNG.gamma(0.5, 3.0, (4, 9))[RNG.integers(0, 4, 120)])
COUNTS[3] = 0
COUNTS[3, 8] = 1
SPARSE = sparse.csr_array(COUNTS)


def npy(path):
    np.save(path.with_suffix(".npy"), COUNTS)
    return path.with_suffix(".npy")


def npz_dense(path):
    np.savez(path.with_suffix(".npz"), X=COUNTS, labels=np.zeros(120, dtype=int))
    return path.with_suffix(".npz")


def npz_csr(path):
    sparse.save_npz(path.with_suffix(".npz"), SPARSE)
    return path.with_suffix(".npz")


def npz_parts(path):
    np.savez(
        path.with_suffix(".npz"), data=SPARSE.data, indices=SPARSE.indices, indptr=SPARSE.indptr, shape=SPARSE.shape
    )
    return path.with_suffix(".npz")


def matrix_market(path):
    io.mmwrite(path.with_suffix(".mtx"), SPARSE)
    return path.with_suffix(".mtx")


def svmlight(path):
    dump_svmlight_file(sparse.csr_matrix(SPARSE), np.zeros(120), str(path.with_suffix(".svmlight")), zero_based=False)
    return path.with_suffix(".svmlight")


def docword(path):
    coo = SPARSE.tocoo()
    lines = ["120", "9", str(SPARSE.nnz)] + [f"{i + 1} {j + 1} {v}" for i, j, v in zip(*coo.coords, coo.data)]
    target = path.with_suffix(".txt.gz")
    target.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return target


def comma_separated(path):
    lines = [",".join(f"c{j}" for j in range(9))] + [",".join(map(str, row)) for row in COUNTS]
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n")
    return path.with_suffix(".csv")


def parquet(path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({f"c{j}": COUNTS[:, j] for j in range(9)}), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


FORMATS = [npy, npz_dense, npz_csr, npz_parts, matrix_market, svmlight, docword, comma_separated, parquet]


@pytest.fixture(scope="module")
def expected():
    from expfam import Mixture

    return Mixture("multinomial", 5, n_steps=5, random_state=3).fit(COUNTS).labels_


@pytest.mark.parametrize("write", FORMATS, ids=lambda f: f.__name__)
def test_same_labels(write, expected, tmp_path):
    data, labels = write(tmp_path / "counts"), tmp_path / "labels.npy"
    command = ["fit", str(data), "--family", "multinomial", "-k", "5", "--steps", "5", "--seed", "3", "--quiet"]
    command += ["--no-zero-based"] if write is svmlight else []
    assert main([*command, "--labels", str(labels)]) == 0
    np.testing.assert_array_equal(np.load(labels), expected)
