"""Figures of single pages that no other protocol gives.

Run by hand: `python asv_bench/protocols/asides.py draws --data DIR`; DIR holds text/*.npz and dense/*.npz as for
real_data.py, and is not shipped; rows that need a file of it are left out where the file is absent.

`draws`, of docs/how_sure.md: log density of a held-out fifth of the rows, standardised, nats a row, under the partition
of `labels_` and as a mean over draws, beside scikit-learn's mixture; and the root mean square error of a fifth of its
cells, which `impute` fills. Means of three divisions; whole numbers are spread within their unit. `merged`, of
docs/coarsening.md: adjusted Rand index of texts as they are fitted, of `coarsen` down to the number of classes, and of
`coarsen(robust=)`, each also with the rows given. `topics`, of the same page: topics that `coarsen()` keeps of 1,000
documents of ten topics. `frame`, of docs/tables.md: a small table of mixed columns with missing cells, beside other
tools and what they need; it needs the extra `bench`.
"""

import argparse
import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

sys.path.append(str(Path(__file__).resolve().parent))  # for `python -m`, which knows the working folder alone

from hdp import documents_of
from real_data import load, places
from reports import print_growing

from expfam import Mixture, TopicModel

PEN = "pen_based_recognition_of_handwritten_digits"
COVARIANCES = {"gaussian": "full", "gaussian_diag": "diag"}
ROBUST = {"tweet": 0.8, "stackoverflow": 0.8, "bbc_news": 0.25, "searchsnippets": 0.35}
DIVISIONS, N_DRAWS = 3, 200


def is_there(args, name):
    """Whether the file of a data set is there."""
    return any(path.exists() for path in places(args.data, name))


# ---- means over draws ------------------------------------------------------------------------------------------------


def draws(args):
    """Scores and filled cells of one partition and of the mean over draws."""
    yield divisions("wine, diagonal, 3", load_wine().data, "gaussian_diag", 3)
    yield divisions("breast cancer, full, 2", load_breast_cancer().data, "gaussian", 2)
    if is_there(args, PEN):
        X = load(args.data, PEN)[0]
        rng = np.random.default_rng(0)
        X = X[np.sort(rng.permutation(len(X))[:3000])]
        X = X + rng.uniform(-0.5, 0.5, size=X.shape)  # the density of a whole number that repeats has no bound
        yield divisions("pen digits (3,000 rows), full, 10", X, "gaussian", 10)


def divisions(name, X, family, K):
    """Means of some divisions into rows to fit and a held-out fifth."""
    found = [division(np.asarray(X, dtype=np.float64), family, K, seed) for seed in range(DIVISIONS)]
    return {"data": name} | {key: float(np.mean([row[key] for row in found])) for key in found[0]}


def division(X, family, K, seed):
    """One division."""
    rng = np.random.default_rng(seed)
    test, train = np.split(rng.permutation(len(X)), [len(X) // 5])
    scaler = StandardScaler().fit(X[train])
    train, test = scaler.transform(X[train]), scaler.transform(X[test])
    mixture = Mixture(family, K, n_draws=N_DRAWS, random_state=seed).fit(train)
    rival = GaussianMixture(K, covariance_type=COVARIANCES[family], random_state=seed).fit(train)
    is_hidden = rng.random(test.shape) < 0.2
    holes = np.where(is_hidden, np.nan, test)

    def error(average):
        return np.sqrt(np.mean((mixture.impute(holes, average=average) - test)[is_hidden] ** 2))

    return {
        "one partition": mixture.score_samples(test, average=False).mean(),
        "mean over draws": mixture.score_samples(test).mean(),
        "scikit-learn": rival.score(test),
        "error, one partition": error(False),
        "error, mean": error(True),
    }


# ---- merged clusters and topics --------------------------------------------------------------------------------------


def merged(args):
    """Agreement with the classes of texts, before and after merging."""
    for name in filter(lambda name: is_there(args, name), ROBUST):
        X, classes = load(args.data, name)
        mixture, n_classes = Mixture("multinomial", random_state=0).fit(X), len(np.unique(classes))

        def ari(labels, classes=classes):
            return adjusted_rand_score(classes, labels)

        row = {"texts": f"{name}, {n_classes} classes", "fit": ari(mixture.labels_), "clusters": mixture.n_components_}
        for word, settings in {"to the classes": {"n_clusters": n_classes}, "robust": {"robust": ROBUST[name]}}.items():
            fits = mixture.n_components_ >= settings.get("n_clusters", 0)
            row[word] = ari(mixture.coarsen(**settings).labels_) if fits else None
            row[f"{word}, rows given"] = ari(mixture.coarsen(**settings, X=X).labels_) if fits else None
        yield row | {"robust clusters": mixture.coarsen(robust=ROBUST[name]).n_components_}


def topics(args):
    """Topics that `coarsen()` keeps."""
    X = documents_of(10, 1000, 0)
    for K in (20, 40):
        for seed in range(2):
            model = TopicModel(K, random_state=seed).fit(X)
            groups = model.coarsen()
            again = np.sort(model.coarsening_curve_.found_again)[::-1]
            row = {"topics": K, "seed": seed, "kept": groups.n_components_}
            yield row | {"tenth found again": again[9], "eleventh": again[10]}


# ---- a frame beside other tools --------------------------------------------------------------------------------------


def frame(args):
    """Agreement of two clusters with the two kinds of rows."""
    df, kind = frame_of_the_page()
    numbers, words = ["age", "income"], ["owner", "job"]
    codes = df.assign(owner=df["owner"].astype(int), job=df["job"].astype("category").cat.codes)
    filled = df.assign(age=df["age"].fillna(df["age"].mean()))
    scaled = filled.assign(**{name: StandardScaler().fit_transform(filled[[name]])[:, 0] for name in numbers})
    pipeline = ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(), StandardScaler()), numbers), ("w", OneHotEncoder(), words)]
    )
    matrix = pipeline.fit_transform(df)
    tools = {
        "Mixture": lambda: Mixture(random_state=1).fit(df).labels_,
        "StepMix": lambda: stepmix(codes),
        "KPrototypes": lambda: prototypes(filled, words),
        "KPrototypes, standardised": lambda: prototypes(scaled, words),
        "scikit-learn, k-means": lambda: KMeans(2, n_init=10, random_state=0).fit_predict(matrix),
        "scikit-learn, diagonal": lambda: GaussianMixture(2, covariance_type="diag", random_state=0).fit_predict(
            matrix
        ),
    }
    for name, labels in tools.items():
        yield {"tool": name, "ARI": adjusted_rand_score(kind, labels())}


def frame_of_the_page():
    """The frame of docs/tables.md, and the kinds of its rows."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 500)
    df = import_module("pandas").DataFrame(
        {
            "age": rng.normal(30 + 25 * kind, 4),
            "owner": rng.random(500) < 0.2 + 0.6 * kind,
            "job": rng.choice(["clerk", "nurse", "driver"], 500),
            "income": np.exp(rng.normal(7 + kind, 0.5)),
        }
    )
    df.loc[rng.random(500) < 0.2, "age"] = np.nan
    return df, kind


def stepmix(codes):
    """Labels of StepMix with a descriptor of each column."""
    kinds = {"age": "continuous_nan", "owner": "binary", "job": "categorical", "income": "continuous"}
    descriptor = {name: {"model": model, "n_columns": 1} for name, model in kinds.items()}
    settings = {"n_init": 10, "random_state": 0, "verbose": 0, "progress_bar": 0}
    return import_module("stepmix").StepMix(2, measurement=descriptor, **settings).fit(codes).predict(codes)


def prototypes(df, words):
    """Labels of k-prototypes, which is told where the categories stand."""
    found = import_module("kmodes.kprototypes").KPrototypes(2, n_init=10, random_state=0)
    return found.fit_predict(df.to_numpy(dtype=object), categorical=[df.columns.get_loc(name) for name in words])


PROTOCOLS = {"draws": draws, "merged": merged, "topics": topics, "frame": frame}


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("protocol", choices=PROTOCOLS)
    command.add_argument("--data", type=Path, default=Path("data"), help="directory with text/ and dense/")
    return command


def main():
    """Run one of the protocols."""
    args = parser().parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print_growing(PROTOCOLS[args.protocol](args), first=34)


if __name__ == "__main__":
    main()
