"""Groups that halves of the rows find again, beside what a user would take instead, on data with known classes."""

import warnings
from multiprocessing import get_context
from statistics import mean
from time import process_time

import numpy as np
from answer_evidence import evidence_of
from answer_rivals import ari
from answer_sets import DENSE, TEXTS, Labelled, sets, tables
from scipy.sparse import issparse
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from expfam import Mixture

BELOW = 0.05  # of ARI by which an answer may be below the open fit
BELOW_GIVEN = 0.02  # of ARI by which a fit of embeddings with the true number may be below k-means
LEAST_OF_TABLES = 0.60
ONE_IN = 20  # of the sets may be below
COVARIANCES, NUMBERS = ("full", "tied", "diag", "spherical"), range(1, 13)
KEYS = ("set", "kind", "rows", "classes", "open", "better open", "groups", "answer", "best cut", "s")
KEYS += ("K given", "BIC", "k-means", "Ward", "reached")
FAMILIES = {"texts": ("multinomial",), "embeddings": ("auto",)}  # of the others several
MOST_FILLED = 400  # columns of scikit-learn's mixtures
MOST_OF_FULL = 100  # columns of a fit with full covariances, for the better open fit


def row_of(labelled, seeds):
    """One set: ARI of the fit, of the answer and of the rivals, means of the seeds; CPU seconds of the answer."""
    families = FAMILIES.get(labelled.kind, ("auto", "gaussian_diag", "gaussian"))
    families = families[: 1 if issparse(labelled.X) else 3 if labelled.X.shape[1] <= MOST_OF_FULL else 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fits = {family: [fit_of(labelled, family, seed) for seed in range(seeds)] for family in families}
            answers = [answer_of(fit, labelled) for fit in fits[families[0]]]
        except Exception as error:
            return {**dict.fromkeys(KEYS), "set": labelled.name, "kind": labelled.kind, "reached": type(error).__name__}
        opens = {name: mean(ari(labelled.classes, fit.labels_) for fit in of_seeds) for name, of_seeds in fits.items()}
        row = {
            "set": labelled.name,
            "kind": labelled.kind,
            "rows": labelled.X.shape[0],
            "classes": len(np.unique(labelled.classes)),
            "open": opens[families[0]],
            "better open": max(opens.values()),
            "groups": " ".join(str(answer["k"]) for answer in answers),
            "answer": mean(answer["ari"] for answer in answers),
            "best cut": mean(answer["best"] for answer in answers),
            "s": mean(answer["s"] for answer in answers),
            "K given": given_number(labelled, seeds) if labelled.kind == "embeddings" else None,
            **rivals_of(labelled),
        }
    row["reached"] = outcome(row)
    return row


def outcome(row):
    """Return "yes", "no", or the evidence that a set's goal is out of reach, where its answer is the best known one."""
    if row["answer"] >= row["better open"] - BELOW:
        return "yes"
    known = evidence_of(row["set"])
    return f"not reached: {known}" if known and row["answer"] >= known.best - BELOW else "no"


def rows_of_sets(data, most_rows, names, seeds, limit=None):
    """Yield the row of each set; with a limit each is made in a process of its own, which ends after these seconds."""
    for labelled in sets(data, most_rows, names):
        yield row_of(labelled, seeds) if limit is None else row_within(labelled, seeds, limit)


def row_within(labelled: Labelled, seeds, limit, make=row_of):
    """Return the row that a process of its own makes, or one that says that it did not come to its end."""
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(there, make, labelled, seeds))
    process.start()
    there.close()
    try:
        if here.poll(limit):
            return here.recv()
        said = f"no answer within {limit} s"
    except EOFError:
        said = "the process ended without an answer"
    finally:
        process.kill()
        process.join()
    return {**dict.fromkeys(KEYS), "set": labelled.name, "kind": labelled.kind, "reached": said}


def _send(pipe, make, labelled, seeds):
    pipe.send(make(labelled, seeds))


def fit_of(labelled, family, seed):
    return Mixture(family, random_state=seed).fit(labelled.X)


def given_number(labelled, seeds):
    """ARI of fits with the true number of classes, the mean of the seeds."""
    K = len(np.unique(labelled.classes))
    fits = [Mixture(n_components=K, random_state=seed).fit(labelled.X) for seed in range(seeds)]
    return mean(ari(labelled.classes, fit.labels_) for fit in fits)


def answer_of(mixture, labelled):
    """ARI and number of groups of the answer, and ARI of the best cut of both trees."""
    begin = process_time()
    coarse = mixture.coarsen()
    seconds = process_time() - begin
    curve = mixture.coarsening_curve_
    cuts = [curve.home(tree, k)[mixture.labels_] for tree in curve.trees for k in range(1, len(curve.sizes) + 1)]
    return {
        "k": coarse.n_components_,
        "ari": ari(labelled.classes, coarse.labels_),
        "best": max(ari(labelled.classes, cut) for cut in cuts),
        "s": seconds,
    }


def rivals_of(labelled):
    """ARI of scikit-learn's mixture of the best BIC, and of k-means and Ward with the true number of classes."""
    X, k = labelled.X, len(np.unique(labelled.classes))
    if labelled.kind == "embeddings":
        return {"BIC": None, "k-means": ari(labelled.classes, kmeans_of(X, k)), "Ward": ward(labelled, X)}
    if issparse(X) or labelled.kind == "texts":
        Z = TfidfTransformer(sublinear_tf=True).fit_transform(X)
        Z.indices, Z.indptr = Z.indices.astype(np.int32), Z.indptr.astype(np.int32)  # KMeans takes no others
        return {"BIC": None, "k-means": ari(labelled.classes, kmeans_of(Z, k)), "Ward": None}
    Z = StandardScaler().fit_transform(X)
    return {
        "BIC": ari(labelled.classes, best_bic(Z)) if Z.shape[1] <= MOST_FILLED else None,
        "k-means": ari(labelled.classes, kmeans_of(Z, k)),
        "Ward": ward(labelled, Z),
    }


def ward(labelled, Z):
    return ari(labelled.classes, AgglomerativeClustering(len(np.unique(labelled.classes))).fit_predict(Z))


def kmeans_of(Z, k):
    return KMeans(k, n_init=4, random_state=0).fit_predict(Z)


def best_bic(Z):
    """Labels of the mixture of the best BIC of four kinds of covariances and 1 to 12 components."""
    best, labels = np.inf, None
    for kind in COVARIANCES:
        for k in NUMBERS:
            try:
                fit = GaussianMixture(k, covariance_type=kind, random_state=0, max_iter=60, reg_covar=1e-5).fit(Z)
            except ValueError:  # too few rows for as many components
                continue
            if (bic := fit.bic(Z)) < best:
                best, labels = bic, fit.predict(Z)
    return labels


def summaries(rows):
    """Lines of means by kind and by halves of the sets by lot, and the goals that are missed without evidence."""
    missed = [f"{row['set']} {row['reached']}" for row in rows if row["answer"] is None]
    rows = [row for row in rows if row["answer"] is not None]
    lines, lots = [], lots_of_sets(row["set"] for row in rows)
    for lot in (None, 0, 1):
        part = [row for row in rows if lot is None or lots[row["set"]] == lot]
        if part:
            lines.append(f"every kind, {'all' if lot is None else f'lot {lot}'}: {means(part)}")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        for lot in (None, 0, 1):
            part = [row for row in of_kind if lot is None or lots[row["set"]] == lot]
            if part:
                lines.append(f"{kind}, {'all' if lot is None else f'lot {lot}'}: {means(part)}")
        answer = mean(row["answer"] for row in of_kind)
        if kind == "tables" and answer < LEAST_OF_TABLES:
            missed.append(f"mean of tables {answer:.3f} < {LEAST_OF_TABLES}")
        rivals = [row for row in of_kind if row["BIC"] is not None]
        beside, rival = (mean(row[key] for row in rivals) if rivals else 0.0 for key in ("answer", "BIC"))
        if beside < rival:
            missed.append(f"mean of {kind} {beside:.3f} < {rival:.3f} of BIC")
    lines += [f"{row['set']}: {row['reached']}" for row in rows if row["reached"].startswith("not reached")]
    for row in rows:
        if row["K given"] is not None and row["K given"] < row["k-means"] - BELOW_GIVEN:
            missed.append(f"{row['set']} with K given {row['K given']:.3f} < {row['k-means']:.3f} of k-means")
    below = [row["set"] for row in rows if row["reached"] == "no"]
    if len(below) > len(rows) // ONE_IN:
        missed.append(f"below the better open fit by more than {BELOW}: {', '.join(below)}")
    return lines, missed


def lots_of_sets(others=()):
    """Return in which half of all sets each one is, by lot, whichever of them are asked for; other sets come last."""
    known = {*tables(), *DENSE, *TEXTS}
    order = np.random.default_rng(0).permutation(sorted(known)).tolist()
    return {name: place % 2 for place, name in enumerate([*order, *(name for name in others if name not in known)])}


def means(rows):
    keys = ("open", "better open", "answer", "best cut", "K given", "BIC", "k-means", "Ward")
    found = {key: [row[key] for row in rows if row[key] is not None] for key in keys}
    return ", ".join(f"{key} {mean(values):.3f}" for key, values in found.items() if values)
