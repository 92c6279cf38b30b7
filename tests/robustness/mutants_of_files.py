"""Small files of every format, mutated and read: `python mutants_of_files.py FOLDER COUNT`; run by test_readers.py.

Prints each file's number before it is read, so that the last line names the one that ended the process; at the end how
many were read and how many were refused. Anything but a `DataError` ends it with a traceback.
"""

import gzip
import io
import random
import resource
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from expfam.errors import DataError
from expfam.io.readers import read

MTX = b"%%MatrixMarket matrix "
PIECES = (
    b"9999999999",
    b"2000000000",
    b"-1",
    b"\n",
    b"1 1 1\n",
    b"0",
    b"\x00",
    b"\xff",
    b'"',
    b"(" * 400,
    b"nan",
    b",",
    b":",
)
OPTIONS = {
    ".npz": ({}, {"key": "X"}, {"key": "data"}),
    ".csv": ({}, {"id_column": 0}, {"id_column": "id", "label_column": "class"}, {"header": True}),
    ".parquet": ({}, {"id_column": "name"}),
    ".svm": ({}, {"zero_based": True}, {"zero_based": False, "n_features": 5}),
}


def seeds():
    """Pairs of suffix and content."""
    X = np.random.default_rng(0).poisson(1.0, (4, 5)).astype(np.float64)

    def written(write, *args, **kwargs):
        file = io.BytesIO()
        write(file, *args, **kwargs)
        return file.getvalue()

    parts = sparse.csr_array(X)
    found = [
        (".npy", written(np.save, X)),
        (".npz", written(np.savez, X=X, labels=np.arange(4), vocab=np.array(list("abcde")))),
        (".npz", written(np.savez, data=parts.data, indices=parts.indices, indptr=parts.indptr, shape=parts.shape)),
        *((".npz", written(sparse.save_npz, parts.asformat(kind))) for kind in ("csr", "csc", "coo", "bsr", "dia")),
        (".mtx", MTX + b"coordinate real general\n% c\n3 3 4\n1 1 1.5\n2 2 2.0\n3 1 -4e3\n3 3 1\n"),
        (".mtx", MTX + b"array integer symmetric\n2 2\n1\n2\n3\n"),
        (".mtx", MTX + b"coordinate pattern general\n3 3 2\n2 1\n3 3\n"),
        (".svm", b"1 1:2 3:4\n-1 2:1 # c\n2 qid:3 1:5\n"),
        (".txt", b"2\n3\n3\n1 1 1\n1 3 2\n2 2 4\n"),
        (".csv", b'id,x,class,y\n"a, 1",1,3,2\nb,3,4,4\n'),
        (".csv", b"1,2\n3,4\n"),
        (".tsv", b"a\tb\n1\t2\n"),
    ]
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return found
    table = pyarrow.table({"name": ["a", "b"], "x": np.float32([1, 2]), "y": [3, 4]})
    return [*found, (".parquet", written(lambda file: parquet.write_table(table, file)))]


def mutated(rng, content):
    """One to four bytes or pieces changed, put in or left out."""
    content = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        content = content or bytearray(b"1")
        at, kind = rng.randrange(len(content)), rng.randrange(5)
        if kind == 0:
            content[at] = rng.randrange(256)
        elif kind == 1:
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del content[at : at + rng.randint(1, 8)]
        elif kind == 3:
            content[at:at] = rng.choice(PIECES)
        else:
            content[at:at] = content[rng.randrange(len(content)) :][:20]
    return bytes(content)


def mutated_archive(rng, content):
    """One array of an archive mutated, whose checksums are right again."""
    file, archive = io.BytesIO(), zipfile.ZipFile(io.BytesIO(content))
    chosen = rng.choice(archive.namelist())
    with zipfile.ZipFile(file, "w") as out:
        for name in archive.namelist():
            part = archive.read(name)
            out.writestr(name, mutated(rng, part) if name == chosen else part)
    return file.getvalue()


def main(folder, count):
    """Read so many mutants."""
    rng, told = random.Random(0), {True: 0, False: 0}
    originals = seeds()
    limit = 4 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    warnings.simplefilter("ignore")
    for number in range(count):
        suffix, content = rng.choice(originals)
        is_archive, is_text = suffix == ".npz" and rng.random() < 0.7, suffix in (".csv", ".txt", ".mtx", ".svm")
        content = mutated_archive(rng, content) if is_archive else mutated(rng, content)
        compressed = is_text and rng.random() < 0.2
        path = folder / f"mutant{suffix}{'.gz' * compressed}"
        path.write_bytes(gzip.compress(content) if compressed else content)
        print(number, suffix, content[:200], flush=True)
        try:
            X = read(path, memory_limit="1GB", **rng.choice(OPTIONS.get(suffix, ({},)))).X
        except DataError:
            told[False] += 1
            continue
        told[True] += 1
        if sparse.issparse(X):
            X.check_format(full_check=True)
        else:
            X.sum()
    print(told[True], told[False])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
