"""What the fuzzer attacks: every reader, every `load`, checkpoints of every kernel, and the command line.

A target has small seeds made by code, a way to change them, and a function that gives bytes to the package. Only the
errors in `REFUSALS` may come out of it.
"""

import contextlib
import functools
import gzip
import hashlib
import importlib.util
import io
import json
import linecache
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from fuzz_mutate import (
    mutate_archive,
    mutate_arguments,
    mutate_bytes,
    mutate_gzip,
    mutate_npy,
    mutate_text,
    mutate_zip,
    zipped,
)
from scipy import io as scipy_io
from scipy import sparse

from expfam.cli.errors import UsageError
from expfam.errors import ArchiveError, CapabilityError, DataError, ExpFamError, PluginError, ResourceError

ROOT = Path(__file__).resolve().parents[2]
REFUSALS = (DataError, ArchiveError, PluginError, ResourceError, UsageError)
HEADER, ARRAYS = "header.json", "arrays.npz"
_RNG = np.random.default_rng(0)
COUNTS = _RNG.poisson(np.array([[1.0, 6.0, 2.0, 0.3], [5.0, 0.5, 0.1, 3.0]])[_RNG.integers(2, size=24)])
REAL = COUNTS + _RNG.normal(size=COUNTS.shape)
SPARSE = sparse.csr_array(COUNTS)


def is_own(error):
    """Whether an error is a `ValueError` or `FloatingPointError` that the package itself raises, in its own words."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    name = Path(frame.f_code.co_filename)
    line = linecache.getline(str(name if name.is_absolute() else ROOT / name), trace.tb_lineno)
    is_inside = frame.f_globals.get("__name__", "").split(".")[0] == "expfam"
    return isinstance(error, (ValueError, FloatingPointError)) and is_inside and line.strip().startswith("raise ")


@contextlib.contextmanager
def allowing_own():
    """Errors that the package raises on purpose are refusals here, of whatever kind."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ExpFamError:
        pass
    except Exception as error:
        if not is_own(error):
            raise


class Target(NamedTuple):
    """One way into the package.

    Attributes
    ----------
    seeds : callable
        Inputs that are taken, list of bytes; made when they are first needed.
    mutate : callable
        Bytes and a `random.Random` to bytes.
    run : callable
        Gives bytes to the package; its second argument is a folder to write in.
    """

    seeds: object
    mutate: object
    run: object


# ---- readers ---------------------------------------------------------------------------------------------------------


def _run_reader(data, folder, *, name, **options):
    """Read a file of that name; what comes out must be a matrix that can be worked with."""
    from expfam.io.readers import read

    path = folder / name
    path.write_bytes(data)
    X = read(path, **options).X
    if sparse.issparse(X):
        X.check_format(full_check=True)
    if X.size < 1 << 20:
        with np.errstate(all="ignore"):
            X.sum()


def _run_vocabulary(data, folder):
    from expfam.io.readers import read

    np.save(folder / "X.npy", COUNTS)
    (folder / "words.txt").write_bytes(data)
    read(folder / "X.npy", vocab=folder / "words.txt")


def _saved(save, *args, **options):
    file = io.BytesIO()
    save(file, *args, **options)
    return file.getvalue()


def _npy_seeds():
    arrays = (
        REAL,
        COUNTS.astype(np.int32),
        COUNTS > 1,
        np.asfortranarray(REAL.astype(np.float32)),
        COUNTS.astype(">i2"),
    )
    return [_saved(np.save, array[:6]) for array in arrays]


def _npz_seeds():
    X = SPARSE[:6]
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    labels, words = np.arange(6) % 2, np.array(list("abcd"))
    seeds = [_saved(np.savez, X=REAL[:6], labels=labels), _saved(np.savez, data=COUNTS[:6]), _saved(np.savez, **parts)]
    seeds += [_saved(np.savez_compressed, **parts, labels=labels, vocab=words)]
    return seeds + [_saved(sparse.save_npz, X.asformat(layout)) for layout in ("csr", "csc", "coo", "bsr", "dia")]


def _mtx_seeds():
    square = sparse.coo_array(COUNTS[:4] + COUNTS[:4].T)
    seeds = [_saved(scipy_io.mmwrite, X) for X in (SPARSE[:6], REAL[:4], square, sparse.csr_array(REAL[:4]))]
    seeds += [_saved(scipy_io.mmwrite, square, symmetry="symmetric"), _saved(scipy_io.mmwrite, square, field="pattern")]
    return seeds


def _svmlight_seeds():
    from sklearn.datasets import dump_svmlight_file

    X = sparse.csr_matrix(SPARSE[:6])

    def dump(file, zero_based):
        dump_svmlight_file(X, np.arange(6), file, zero_based=zero_based)

    return [
        _saved(dump, True),
        _saved(dump, False),
        b"1.5 qid:1 1:0.5 3:2 # note\n-1 qid:1 2:1e3\n",
        b"1,2 1:1\n2 2:1\n",
    ]


def _table_text(delimiter, *, header=True, ids=False):
    rows = [[*([f"n{i}", str(i % 2)] if ids else []), *map(repr, row)] for i, row in enumerate(REAL[:6].tolist())]
    head = [[*(["name", "class"] if ids else []), "a", "b", "c", '"d e"']] if header else []
    return ("\n".join(delimiter.join(row) for row in head + rows) + "\n").encode()


def _docword():
    coo = SPARSE[:6].tocoo()
    lines = [*map(str, (*coo.shape, coo.nnz)), *(f"{i + 1} {j + 1} {v}" for i, j, v in zip(*coo.coords, coo.data))]
    return ("\n".join(lines) + "\n").encode()


def _parquet_seeds():
    import pyarrow
    from pyarrow import parquet

    columns = {"name": range(6), "class": [0, 1] * 3, "a": REAL[:6, 0], "b": COUNTS[:6, 1]}
    tables = [pyarrow.table(columns), pyarrow.table(columns | {"name": list("uvwxyz")})]
    kinds = [(table, how) for table in tables for how in ("none", "snappy")]
    return [_saved(lambda file: parquet.write_table(table, file, compression=how)) for table, how in kinds]  # noqa: B023


def _feather_seeds():
    import pyarrow
    from pyarrow import feather

    table = pyarrow.table({"name": list("uvwxyz"), "class": [0, 1] * 3, "a": REAL[:6, 0]})
    kinds = ("zstd", "uncompressed")
    return [_saved(lambda file: feather.write_feather(table, file, compression=how)) for how in kinds]  # noqa: B023


def _json_seeds():
    rows = [f'{{"name": "n{i}", "class": {i % 2}, "a": {x!r}, "b": null}}' for i, x in enumerate(REAL[:6, 0].tolist())]
    return [("\n".join(rows) + "\n").encode(), b'{"a": 1}\n{"a": 2.5, "b": [1, {"c": true}]}\n']


def _reader(name, seeds, mutate, **options):
    return Target(seeds, mutate, functools.partial(_run_reader, name=name, **options))


_WITH_ARROW = ("reader-parquet", "reader-feather", "reader-json")
_BY_NAME = {"id_column": "name", "label_column": "class"}
READERS = {
    "reader-npy": _reader("X.npy", _npy_seeds, mutate_npy),
    "reader-npz": _reader("X.npz", _npz_seeds, mutate_zip),
    "reader-npz-key": _reader("X.npz", _npz_seeds, mutate_zip, key="data"),
    "reader-mtx": _reader("X.mtx", _mtx_seeds, mutate_text),
    "reader-mtx-gz": _reader("X.mtx.gz", lambda: [gzip.compress(s, mtime=0) for s in _mtx_seeds()], mutate_gzip),
    "reader-svmlight": _reader("X.svmlight", _svmlight_seeds, mutate_text),
    "reader-svmlight-columns": _reader("X.svm", _svmlight_seeds, mutate_text, n_features=9, zero_based=False),
    "reader-csv": _reader("X.csv", lambda: [_table_text(",", header=h) for h in (True, False)], mutate_text),
    "reader-csv-names": _reader("X.csv", lambda: [_table_text(d, ids=True) for d in ",;"], mutate_text, **_BY_NAME),
    "reader-csv-numbers": _reader(
        "X.csv",
        lambda: [_table_text(",", ids=True, header=h) for h in (True, False)],
        mutate_text,
        id_column=0,
        label_column=1,
    ),
    "reader-csv-gz": _reader("X.csv.gz", lambda: [gzip.compress(_table_text(","), mtime=0)], mutate_gzip),
    "reader-tsv": _reader("X.tsv", lambda: [_table_text("\t")], mutate_text),
    "reader-txt": _reader("X.txt", lambda: [_docword(), _table_text(" ", header=False)], mutate_text),
    "reader-txt-gz": _reader("X.txt.gz", lambda: [gzip.compress(_docword(), mtime=0)], mutate_gzip),
    "reader-parquet": _reader("X.parquet", _parquet_seeds, mutate_bytes),
    "reader-parquet-names": _reader("X.parquet", _parquet_seeds, mutate_bytes, **_BY_NAME),
    "reader-feather": _reader("X.feather", _feather_seeds, mutate_bytes),
    "reader-json-lines": _reader("X.jsonl", _json_seeds, mutate_text),
    "reader-vocabulary": Target(lambda: [b"a\nb\nc\nd\n", b"a b\n\n\xc3\xa9\nx"], mutate_text, _run_vocabulary),
}
if importlib.util.find_spec("pyarrow") is None:  # the extra `arrow` is not installed
    READERS = {name: target for name, target in READERS.items() if not name.startswith(_WITH_ARROW)}
KINDS = {name: target.run.keywords["name"] for name, target in READERS.items() if name != "reader-vocabulary"}


# ---- archives --------------------------------------------------------------------------------------------------------


_mutate_archive = functools.partial(mutate_archive, header=HEADER, arrays=ARRAYS)


def _packed(write):
    """The archive that a function writes to the path it is given, as a zip file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "archive")
        write(path)
        return zipped({name: (path / name).read_bytes() for name in (HEADER, ARRAYS)})


def _unpacked(data, folder):
    """A packed archive as a directory, with the checksum that its arrays have now."""
    path = folder / "archive"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = {name: file.read(name) for name in (HEADER, ARRAYS) if name in file.namelist()}
    except Exception:  # the zip file is only how the fuzzer carries the two
        members = {}
    with contextlib.suppress(Exception):
        document = json.loads(members[HEADER])
        document["sha256"] = hashlib.sha256(members[ARRAYS]).hexdigest()
        members[HEADER] = json.dumps(document).encode()
    for name, content in members.items():
        (path / name).write_bytes(content)
    return path


def _estimators():
    """Small fitted estimators by the target's name: class, and functions that make them."""
    from expfam import BayesianHierarchy, DirichletProcess, GroupedMixture, Mixture, TopicModel
    from expfam.samplers import HierarchicalClustering

    quick = {"n_steps": 3, "n_warmup": 2, "random_state": 0}
    groups = np.arange(len(COUNTS)) % 3
    return {
        "mixture": (
            Mixture,
            (
                lambda: Mixture("poisson", 3, **quick).fit(COUNTS),
                lambda: Mixture("gaussian", weights=DirichletProcess(), **quick).fit(REAL),
                lambda: Mixture("gaussian_diag", 3, sampler="variational", **quick).fit(REAL),
                lambda: Mixture("multinomial", 3, sampler="variational", random_state=0).partial_fit(SPARSE),
                lambda: Mixture("categorical", 3, **quick).fit(COUNTS % 3),
            ),
        ),
        "hierarchy": (
            BayesianHierarchy,
            (
                lambda: BayesianHierarchy("poisson").fit(COUNTS),
                lambda: BayesianHierarchy(
                    "gaussian_spherical", sampler=HierarchicalClustering(duplicates="collapse")
                ).fit(np.vstack([REAL, REAL[:4]])),
            ),
        ),
        "topics": (
            TopicModel,
            (
                lambda: TopicModel(2, n_steps=3, random_state=0).fit(COUNTS),
                lambda: TopicModel(2, random_state=0).partial_fit(SPARSE),
            ),
        ),
        "grouped": (
            GroupedMixture,
            (
                lambda: GroupedMixture("poisson", 3, n_steps=3, n_warmup=2, random_state=0).fit(COUNTS, groups=groups),
                lambda: GroupedMixture("multinomial", 3, sampler="variational", random_state=0).partial_fit(
                    COUNTS, groups=groups
                ),
            ),
        ),
    }


def _model_seeds(name):
    return [_packed(make().save) for make in _estimators()[name][1]]


def _run_model(data, folder, name):
    """Load a model, and use what was taken for a model: that may refuse the rows, but not die of them."""
    model = _estimators()[name][0].load(_unpacked(data, folder))
    with allowing_own():
        if name == "grouped":
            model.predict(COUNTS, groups=np.arange(len(COUNTS)) % 3)
        elif name == "topics":
            model.transform(COUNTS)
        else:
            model.predict(COUNTS if model.family_.support == "counts" else REAL)


MODELS = {
    f"load-{name}": Target(
        functools.partial(_model_seeds, name), _mutate_archive, functools.partial(_run_model, name=name)
    )
    for name in ("mixture", "hierarchy", "topics", "grouped")
}


# ---- checkpoints -----------------------------------------------------------------------------------------------------

_ROWS = 40


def _started(name):
    """Kernel, and state at the start, of one of the runs that the tests of killed runs have."""
    from killed_runs import COUNTS as MANY_COUNTS
    from killed_runs import REAL as MANY_REAL
    from killed_runs import RUNS

    from expfam import MixtureModel, Poisson

    kernel, family, weights = RUNS[name]
    X = MANY_COUNTS if isinstance(family, Poisson) else MANY_REAL
    return kernel, kernel.init(MixtureModel(family, weights), X[:_ROWS], seed=3)


def _checkpoint_seeds(name):
    from expfam.samplers import Checkpoint, Trace, sample

    kernel, state = _started(name)
    trace = sample(kernel, state, 2)
    return [_packed(lambda path: Checkpoint(path, trace=trace if isinstance(trace, Trace) else None).write(state))]


def _run_checkpoint(data, folder, name):
    """Restore a state, and take steps from what was taken for a checkpoint: they may refuse it, but not die of it."""
    from expfam.samplers.chain.callbacks import restore_checkpoint

    kernel, state = _started(name)
    restore_checkpoint(_unpacked(data, folder), state)
    with allowing_own():
        for _ in range(2):
            kernel.step(state)
        state.log_joint  # noqa: B018 the statistics are read


def _checkpoints():
    from killed_runs import RUNS

    return {
        f"checkpoint-{name}": Target(
            functools.partial(_checkpoint_seeds, name), _mutate_archive, functools.partial(_run_checkpoint, name=name)
        )
        for name in RUNS
    }


# ---- command line ----------------------------------------------------------------------------------------------------

_WORDS = """fit tree predict plugins new check demo family proposal --json --debug --quiet --help --version --key X
--id-column 0 1 -1 name --label-column class --vocab words.txt --family poisson gaussian gaussian_diag
gaussian_spherical multinomial categorical von_mises_fisher nonsense numpy:x --hyper rate=1 shape=auto a=[1,2] a=[[1]]
alpha=-1 degrees=9**9 mean={} x=() scale=1e400 -k 1 3 0 1000000000000 --infinite --alpha 0.5 auto nan inf --steps 2
--warmup --sampler gibbs split_merge fastex variational canopy --start random tree kmeans++ buckets --seed 7 --threads
2 --memory-limit 1GB 1kB --time-limit 1s 1min --tune --order best odds --neighbors --candidates hash knn --clusters
--linkage l.npy --newick t.nwk --figure f.png --output out model --labels l.csv --proba --to sub --check X.npy X.npz
X.csv X.mtx no.npy sub/X.npy . - = --"""
_LARGEST = {"steps": 20, "warmup": 20, "threads": 8, "neighbors": 50, "proba": 50, "memory_limit": 1 << 30}
_SLOW_COMMANDS = ("demo", "check")
_LINES = (
    "fit X.npy --family poisson -k 3 --steps 2 --seed 0 --labels l.csv --output out",
    "fit X.npz --family multinomial --infinite --steps 2 --warmup 1 --alpha 0.5 --json --vocab words.txt",
    "fit X.csv --family gaussian_diag --id-column name --label-column class --hyper rate=auto --steps 1 --labels l.npy",
    "fit X.npy --family poisson --sampler split_merge --start tree --memory-limit 1GB --time-limit 1min --steps 2",
    "tree X.npy --family poisson -k 2 --labels l.csv --linkage l.npy --newick t.nwk --alpha auto",
    "tree X.npy --family gaussian_spherical --neighbors 3 --candidates knn --order best --output out --json",
    "predict model X.npy --proba 2 --output l.csv",
    "predict model X.npz --json --threads 2",
    "plugins --json",
    "new family my_family --to sub",
)


def _prepare_commands(folder):
    """Files that the command lines name, made anew."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for name, content in _command_files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


@functools.cache
def _command_files():
    files = {"X.npy": _npy_seeds()[1], "X.npz": _npz_seeds()[2], "X.csv": _table_text(",", ids=True)}
    files |= {"X.mtx": _mtx_seeds()[0], "words.txt": b"a\nb\nc\nd\n", "sub/X.npy": _npy_seeds()[0]}
    with zipfile.ZipFile(io.BytesIO(_model_seeds("mixture")[0])) as file:
        return files | {f"model/{name}": file.read(name) for name in file.namelist()}


def _within(argument):
    """An argument that names no place outside the current folder."""
    return argument.lstrip("/").replace("=/", "=_").replace("..", "__")


def _is_quick(arguments):
    """Whether no argument asks for much work or memory; what the parser refuses is quick."""
    from expfam.cli import build_parser

    try:
        args = build_parser().parse_args(arguments)
    except SystemExit:
        return True
    amounts = {name: getattr(args, name, None) or 0 for name in _LARGEST}
    is_slow = args.command in _SLOW_COMMANDS or getattr(args, "check", False)
    return not is_slow and all(amounts[name] <= most for name, most in _LARGEST.items())


def _run_command(data, folder):
    """Run a command line in a folder of small files; it ends with an exit code, and a refusal is one on purpose."""
    from expfam import cli

    arguments = [_within(os.fsdecode(argument)) for argument in data.split(b"\0")]
    _prepare_commands(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with (
            contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")),
            contextlib.redirect_stderr(io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")),
            mock.patch.object(cli, "fail", _reraise),
        ):
            if _is_quick(arguments) and cli.main(arguments) == 2:
                raise DataError("the parser refuses it")
    finally:
        os.chdir(before)


def _reraise(args, message, code):
    """In place of the line on standard error: the error itself, or that the command line was refused."""
    error = sys.exc_info()[1]
    if isinstance(error, (ExpFamError, CapabilityError, UsageError)) or is_own(error):
        raise DataError(message) from error
    raise error


COMMANDS = {
    "command-line": Target(
        lambda: [line.replace(" ", "\0").encode() for line in _LINES],
        functools.partial(mutate_arguments, words=_WORDS.split()),
        _run_command,
    )
}


@functools.cache
def targets():
    """Every target by name."""
    return READERS | MODELS | _checkpoints() | COMMANDS
