"""Files: reading data in each format, saving and loading fitted models, and checkpoints of a chain."""

import csv
import tempfile
from pathlib import Path

import numpy as np
from scipy import io, sparse
from sklearn.datasets import dump_svmlight_file

from expfam import BayesianHierarchy, Dataset, Mixture, MixtureModel, Multinomial, SymmetricDirichlet, TopicModel
from expfam.io.readers import read
from expfam.samplers import Checkpoint, CollapsedGibbs, HierarchicalClustering
from expfam.samplers.chain.callbacks import restore_checkpoint

from . import data

N_ROWS, N_COLUMNS = 20_000, 20


class _Folder:
    """A folder that lives as long as one benchmark."""

    def open_folder(self):
        self.held = tempfile.TemporaryDirectory()
        self.folder = Path(self.held.name)

    def teardown(self, *params):
        self.held.cleanup()


class Read(_Folder):
    """Twenty thousand rows from a file."""

    params = ["npy", "npz", "csv", "mtx", "svmlight", "docword"]  # noqa: RUF012
    param_names = ("format",)
    timeout = 300

    def setup(self, kind):
        self.open_folder()
        X = data.sparse_counts(N_ROWS, 50)[0] if kind in ("npz", "mtx", "svmlight", "docword") else None
        dense = data.gaussians(N_ROWS, 50, n_features=N_COLUMNS)[0]
        self.path = self.folder / {"svmlight": "rows.svm", "docword": "docword.rows.txt"}.get(kind, f"rows.{kind}")
        getattr(self, f"write_{kind}")(dense if X is None else X.astype(np.float64))

    def write_npy(self, X):
        np.save(self.path, X)

    def write_npz(self, X):
        sparse.save_npz(self.path, X)

    def write_csv(self, X):
        with self.path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([f"x{j}" for j in range(X.shape[1])])
            writer.writerows(X.tolist())

    def write_mtx(self, X):
        io.mmwrite(self.path, X.astype(np.int64), field="integer")

    def write_svmlight(self, X):
        dump_svmlight_file(sparse.csr_matrix(X), np.zeros(X.shape[0]), str(self.path))

    def write_docword(self, X):
        X = X.tocoo()
        entries = np.column_stack([X.row + 1, X.col + 1, X.data]).astype(np.int64)
        head = "\n".join(str(size) for size in (*X.shape, X.nnz))
        np.savetxt(self.path, entries, fmt="%d", header=head, comments="")

    def time_read(self, kind):
        read(self.path)

    def peakmem_read(self, kind):
        read(self.path)


MODELS = {
    "mixture": lambda X, rows: Mixture("multinomial", 200, n_steps=2, n_warmup=0, random_state=0).fit(X),
    "variational": lambda X, rows: Mixture(
        "multinomial", 200, sampler="variational", n_steps=3, n_warmup=0, learn_hyper=False, random_state=0
    ).fit(X),
    "topics": lambda X, rows: TopicModel(50, n_steps=2, n_warmup=1, random_state=0).fit(X),
    "hierarchy": lambda X, rows: BayesianHierarchy(
        "gaussian_diag", sampler=HierarchicalClustering(candidates="knn")
    ).fit(rows),
}


class SaveAndLoad(_Folder):
    """A fitted model written and read, with its size."""

    params = list(MODELS)  # noqa: RUF012
    param_names = ("model",)
    timeout = 300

    def setup(self, model):
        self.open_folder()
        X, rows = data.sparse_counts(5000, 50)[0], data.gaussians(2000, 20)[0]
        self.model = MODELS[model](X, rows)
        self.path = self.folder / "model.expfam"
        self.model.save(self.path)

    def time_save(self, model):
        self.model.save(self.path)

    def time_load(self, model):
        type(self.model).load(self.path)

    def track_bytes(self, model):
        return sum(file.stat().st_size for file in [self.path, *self.path.rglob("*")] if file.is_file())

    track_bytes.unit = "bytes"


class ChainCheckpoint(_Folder):
    """The state of a chain over twenty thousand rows, written and restored."""

    def setup(self):
        self.open_folder()
        rows = Dataset(data.sparse_counts(N_ROWS, 50)[0], Multinomial(concentration=0.1))
        model = MixtureModel(rows.family, SymmetricDirichlet(200))
        kernel = CollapsedGibbs()
        self.state = kernel.init(model, rows, seed=0)
        kernel.step(self.state)
        self.path = self.folder / "run"
        self.checkpoint = Checkpoint(self.path)
        self.checkpoint.write(self.state)

    def time_write(self):
        self.checkpoint.write(self.state)

    def time_restore(self):
        restore_checkpoint(self.path, self.state)
