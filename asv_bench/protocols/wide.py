"""Wide rows: von Mises-Fisher clusters beside spherical Gaussians and k-means, on generated directions.

Run by hand: `python -m asv_bench.protocols.wide [vmf blocks embeddings noisy narrow counts levels draws lists em]`.
`--quick` takes few rows. The exit status is 1 where a goal is missed. Real rows have K isotropic centres in 384 columns
and unit length, float32. CPU seconds of one thread.

`vmf`: three collapsed sweeps from the true labels, which take turns with those of the spherical Gaussian; the goal is
1.2 times its time. Then the default call with K clusters, at most 90 s for 100,000 rows and K = 100, and its NMI beside
that of scikit-learn's k-means with one start.

`blocks`: collapsed sweeps from the true labels with 100 and 1,024 clusters beside the matrix products of all rows with
as many directions; the goal is 3 times their time.

`embeddings`: the default call with a given number of clusters beside faiss' spherical k-means of ten passes and
superkmeans (both of the extra `bench`). They take turns; medians. Goals: at most the time of faiss and an NMI of .995
at 20,000 x 384 and K = 1,024, and 1.1 times its time with at least its NMI at 50,000 x 384 and K = 256.

`noisy`: 50,000 rows in 1,000 groups that lie near each other, under one variance for all clusters, under variances of
their own and beside faiss; the goal of both is its NMI. Then a million such rows on two threads.

`narrow`: memory beside 150,000 rows of float32, float16 and int8 in 256 clusters, by tracemalloc: binding, a sweep, a
draw, a default fit and `predict`; the goal is that none makes the copy of float16 and int8 in single precision.

`counts`: collapsed sweeps, and steps of variational inference and EM, from the true labels over 100,000 rows of 20 of
1,000,000 words, with 200 and with 2,000 clusters; at most 60 MB beside the data by tracemalloc.

`draws`: exact draws of labels by all scores, by bounds of integers and by what the default chooses, beside faiss'
nearest centres; see `wide_draws.py`.

`lists`: the same draws where rows keep lists of their clusters from step to step; see `wide_lists.py`.

`em`: steps of EM with diagonal and with full covariances beside scikit-learn's; see `wide_em.py`.

`levels`: a tree of 500 categorical rows of 1,619 columns, of which 2 % of the cells are off the most frequent level.
"""

import argparse
import sys
import tracemalloc
import warnings
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).resolve().parent))  # for `python -m`, which knows the working folder alone

from reports import asked_for, print_table, timed_step
from wide_draws import draws
from wide_em import em
from wide_lists import lists

from expfam import (
    Categorical,
    Dataset,
    DirichletProcess,
    Mixture,
    MixtureModel,
    Multinomial,
    SphericalGaussian,
    SymmetricDirichlet,
    load_family,
)
from expfam.samplers import (
    CollapsedGibbs,
    ExpectationMaximization,
    HierarchicalClustering,
    SparseVariational,
    UncollapsedGibbs,
)

COLUMNS = 384
SWEEPS = 3
MOST_OF_SPHERICAL = 1.2
MOST_OF_PRODUCT = 3.0
MOST_SECONDS = 90.0
MOST_MB = 60  # beside the data
MOST_TREE_SECONDS = 0.1


def directions(n_rows, n_clusters, spread=2.5, seed=0):
    """Unit rows about random centres, float32, and their clusters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_clusters, size=n_rows, dtype=np.int32)
    X = rng.normal(size=(n_clusters, COLUMNS))[labels] + spread * rng.normal(size=(n_rows, COLUMNS))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), labels


def sweeps(X, labels, n_clusters):
    """Median CPU seconds of a sweep of both families; their sweeps take turns."""
    kernel, states = CollapsedGibbs(), {}
    for family in (load_family("von_mises_fisher"), SphericalGaussian()):
        model = MixtureModel(family, SymmetricDirichlet(n_clusters, 1.0)).bind(X)
        states[family.name] = kernel.init(model, X, seed=0, start=labels)
    times = {name: [] for name in states}
    for _ in range(SWEEPS):
        for name, state in states.items():
            times[name].append(timed_step(kernel, state)[1][0])
    return {name: median(each) for name, each in times.items()}


def fits(X, labels, n_clusters):
    """CPU seconds and NMI of the default call and of k-means."""
    made = {
        "von_mises_fisher": Mixture("von_mises_fisher", n_components=n_clusters, random_state=0),
        "k-means": KMeans(n_clusters, n_init=1, random_state=0),
    }
    found = {}
    for name, estimator in made.items():
        begin = process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(X)
        found[name] = process_time() - begin, normalized_mutual_info_score(labels, estimator.labels_)
    return found


def vmf(is_quick):
    """Print both tables and return whether all goals are reached."""
    n_rows, n_clusters = (10_000, 20) if is_quick else (100_000, 100)
    X, labels = directions(n_rows, n_clusters)
    times = sweeps(X, labels, n_clusters)
    ratio = times["von_mises_fisher"] / times["gaussian_spherical"]
    each = {name: 1e9 * seconds / n_rows / n_clusters for name, seconds in times.items()}
    print_table(
        [{"sweep": name, "CPU s": times[name], "ns a row and cluster": each[name], "goal": ""} for name in times]
        + [{"sweep": "ratio", "CPU s": ratio, "ns a row and cluster": ratio, "goal": f"<= {MOST_OF_SPHERICAL}"}]
    )
    found = fits(X, labels, n_clusters)
    print_table([{"fit": name, "CPU s": seconds, "NMI": nmi} for name, (seconds, nmi) in found.items()])
    seconds, nmi = found["von_mises_fisher"]
    return ratio <= MOST_OF_SPHERICAL and seconds <= MOST_SECONDS and nmi >= found["k-means"][1] - 0.01


def product_seconds(X, n_clusters, n_block=256):
    """Median CPU seconds of the products of all rows with as many directions, in single precision."""
    W = directions(n_clusters, n_clusters)[0]
    out, times = np.empty((n_block, n_clusters), np.float32), []
    for _ in range(SWEEPS):
        begin = process_time()
        for first in range(0, len(X) - n_block + 1, n_block):
            np.matmul(X[first : first + n_block], W.T, out=out)
        times.append(process_time() - begin)
    return median(times)


def blocks(is_quick):
    """Print a line for each sweep and return whether all are within their goal."""
    lines, goal = [], f"<= {MOST_OF_PRODUCT}"
    for n_clusters in (100,) if is_quick else (100, 1024):
        X, labels = directions(5_000 if is_quick else 20_000, n_clusters)
        product = product_seconds(X, n_clusters)
        for name, seconds in sweeps(X, labels, n_clusters).items():
            us, ratio = 1e6 * seconds / len(X), seconds / product
            lines.append({"sweep": name, "clusters": n_clusters, "us a row": us, "products": ratio, "goal": goal})
    print_table(lines)
    return all(line["products"] <= MOST_OF_PRODUCT for line in lines)


class Embeddings(NamedTuple):
    """A shape of data, and what the default call has to reach there."""

    n_rows: int
    n_clusters: int
    least_nmi: float | None  # that of faiss if None
    most_of_faiss: float


SHAPES = (Embeddings(20_000, 1024, 0.995, 1.0), Embeddings(50_000, 256, None, 1.1))
QUICK_SHAPES = (Embeddings(4_000, 256, 0.995, 15.0),)  # much of a fit does not grow with the rows
ROUNDS = 3


def fitted_labels(family, X, n_clusters):
    return Mixture(family, n_components=n_clusters, random_state=0, n_threads=1).fit(X).labels_


def faiss_labels(X, n_clusters):
    import faiss

    faiss.omp_set_num_threads(1)
    kmeans = faiss.Kmeans(X.shape[1], n_clusters, niter=10, spherical=True, seed=1, min_points_per_centroid=1)
    kmeans.train(X)
    return kmeans.index.search(X, 1)[1][:, 0]


def superkmeans_labels(X, n_clusters):
    from superkmeans import SuperKMeans

    kmeans = SuperKMeans(n_clusters, X.shape[1], n_threads=1, seed=1, angular=True)
    return kmeans.assign(X, kmeans.train(X))


SIDES = {
    "gaussian_spherical": partial(fitted_labels, "gaussian_spherical"),
    "von_mises_fisher": partial(fitted_labels, "von_mises_fisher"),
    "faiss": faiss_labels,
    "superkmeans": superkmeans_labels,
}


def in_turns(X, labels, n_clusters):
    """Median CPU seconds and NMI of each side."""
    found = {name: [] for name in SIDES}
    for _ in range(ROUNDS):
        for name, side in SIDES.items():
            found[name].append(timed_labels(side, X, labels, n_clusters))
    return {name: tuple(map(median, zip(*each))) for name, each in found.items()}


def timed_labels(side, X, labels, n_clusters):
    """CPU seconds and NMI of one side."""
    begin = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = side(X, n_clusters)
    return process_time() - begin, normalized_mutual_info_score(labels, found)


def embeddings(is_quick):
    """Print a table for each shape and return whether the spherical default call reaches all goals."""
    are_reached = [_embeddings_of(shape) for shape in (QUICK_SHAPES if is_quick else SHAPES)]
    return all(are_reached)  # after all of them: each prints its table


def _embeddings_of(shape):
    X, labels = directions(shape.n_rows, shape.n_clusters, spread=1.0)
    found = in_turns(X, labels, shape.n_clusters)
    faiss_seconds, faiss_nmi = found["faiss"]
    least = faiss_nmi if shape.least_nmi is None else shape.least_nmi
    goals = {"gaussian_spherical": f"<= {shape.most_of_faiss} faiss, NMI >= {least:.3f}"}
    size = f"{shape.n_rows:,} x {COLUMNS}, K = {shape.n_clusters:,}"
    print_table(
        [
            {size: name, "CPU s": seconds, "faiss": seconds / faiss_seconds, "NMI": nmi, "goal": goals.get(name, "")}
            for name, (seconds, nmi) in found.items()
        ]
    )
    seconds, nmi = found["gaussian_spherical"]
    return nmi >= least and seconds <= shape.most_of_faiss * faiss_seconds


NOISY_SIDES = {
    "one variance": partial(fitted_labels, SphericalGaussian(variance="shared")),
    "gaussian_spherical": partial(fitted_labels, "gaussian_spherical"),
    "faiss": faiss_labels,
}


def noisy(is_quick):
    """Print a table of small groups that lie near each other, and one of a million rows; return whether goals hold."""
    n_rows, n_clusters = (5_000, 100) if is_quick else (50_000, 1000)
    X, labels = directions(n_rows, n_clusters)
    found = {name: timed_labels(side, X, labels, n_clusters) for name, side in NOISY_SIDES.items()}
    size = f"{n_rows:,} x {COLUMNS}, K = {n_clusters:,}"
    ours = ("one variance", "gaussian_spherical")
    print_table(
        [
            {size: name, "CPU s": seconds, "NMI": nmi, "goal": "NMI >= that of faiss" if name in ours else ""}
            for name, (seconds, nmi) in found.items()
        ]
    )
    if not is_quick:
        print_table([million()])
    return min(found[name][1] for name in ours) >= found["faiss"][1]


def million(n_clusters=1000, n_block=50_000):
    """Seconds by the clock, memory and NMI of the default call with one variance, a million rows, two threads."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_clusters, COLUMNS)).astype(np.float32)
    labels = rng.integers(n_clusters, size=1_000_000)
    X = np.empty((labels.size, COLUMNS), np.float32)
    for first in range(0, labels.size, n_block):  # in blocks: no copy in double precision
        own = slice(first, first + n_block)
        X[own] = centres[labels[own]] + 2.5 * rng.standard_normal((n_block, COLUMNS), dtype=np.float32)
        X[own] /= np.linalg.norm(X[own], axis=1, keepdims=True)
    mixture = Mixture(SphericalGaussian(variance="shared"), n_clusters, random_state=0, n_threads=2)
    begin = perf_counter()
    peak = megabytes(lambda: mixture.fit(X))
    nmi = normalized_mutual_info_score(labels, mixture.labels_)
    seconds = perf_counter() - begin
    return {"rows": labels.size, "MB of data": X.nbytes / 1e6, "seconds": seconds, "MB beside": peak, "NMI": nmi}


def narrow_rows(X, kind):
    """Unit rows as integers of up to 127 in size, or as floats of a kind."""
    return np.clip(np.rint(600 * X), -127, 127).astype(kind) if kind == "int8" else X.astype(kind)


def megabytes(call):
    """Peak of the memory that a call takes."""
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def narrow(is_quick):
    """Print a line for each family and kind, and return whether narrow rows are never copied in single precision."""
    n_rows, n_clusters = (20_000, 64) if is_quick else (150_000, 256)
    wide, labels = directions(n_rows, n_clusters, spread=1.0)
    lines = []
    for family in (SphericalGaussian(), load_family("von_mises_fisher", normalize=True)):
        for kind in ("float32", "float16", "int8"):
            X = narrow_rows(wide, kind)
            data = Dataset(X, family)
            model = MixtureModel(data.family, SymmetricDirichlet(n_clusters)).bind(data)
            mixture = Mixture(family, n_clusters, random_state=0, n_threads=1)
            calls = {
                "binding": partial(Dataset, X, family),
                "sweep": partial(first_step, CollapsedGibbs(), model, data, labels),
                "draw": partial(first_step, UncollapsedGibbs(), model, data, labels),
                "fit": partial(mixture.fit, X),
                "predict": lambda mixture=mixture, X=X: mixture.predict(X),
            }
            found = {name: megabytes(call) for name, call in calls.items()}
            lines.append({"rows": f"{family.name}, {kind}", "MB of data": X.nbytes / 1e6, **found})
    print_table(lines)
    return all(max(list(line.values())[2:]) < wide.nbytes / 1e6 for line in lines if "float32" not in line["rows"])


def first_step(kernel, model, data, labels):
    """Begin a chain and make one step."""
    kernel.step(kernel.init(model, data, seed=0, start=labels))


def documents(n_rows, n_clusters, n_words=1_000_000, length=20, seed=0):
    """CSR counts: 12 of 20 words are of the 2,000 of a cluster, the others have log-uniform ranks; and the clusters."""
    rng = np.random.default_rng(seed)
    labels, shape = rng.integers(n_clusters, size=n_rows), (n_rows, length)
    own = rng.integers(n_words, size=(n_clusters, 2000))[labels[:, None], (2000 * rng.random(shape) ** 2).astype(int)]
    common = np.minimum(np.exp(np.log(n_words) * rng.random(shape)).astype(int), n_words - 1)
    words = np.where(rng.random(shape) < 0.6, own, common).astype(np.int32).ravel()
    starts = np.arange(0, words.size + 1, length, dtype=np.int32)
    X = sparse.csr_array((np.ones(words.size, dtype=np.int32), words, starts), shape=(n_rows, n_words))
    X.sum_duplicates()
    return X, labels


WIDE_KERNELS = {
    "CollapsedGibbs": CollapsedGibbs,
    "SparseVariational": partial(SparseVariational, n_threads=1),
    "ExpectationMaximization": partial(ExpectationMaximization, tol=0.0, n_threads=1),
}


def counts(is_quick):
    """Print a line for each kernel and number of clusters; return whether memory is within its goal."""
    lines, reached = [], True
    for n_clusters in (200,) if is_quick else (200, 2000):
        X, labels = documents(10_000 if is_quick else 100_000, n_clusters)
        for name, make in WIDE_KERNELS.items():
            megabytes, seconds = wide_run(make(), X, labels, n_clusters)
            line = {"kernel": name, "clusters": n_clusters, "MB": megabytes, "us a row": 1e6 * seconds / X.shape[0]}
            lines.append(line | {"goal": f"<= {MOST_MB} MB"})
            reached &= megabytes <= MOST_MB
    print_table(lines)
    return reached


def wide_run(kernel, X, labels, n_clusters):
    """Largest memory of the first steps, MB beside the data, and median CPU seconds of them in another run."""
    data = Dataset(X, Multinomial(concentration=0.01))
    model = MixtureModel(data.family, SymmetricDirichlet(n_clusters)).bind(data)
    tracemalloc.start()
    state = kernel.init(model, data, seed=0, start=labels)
    for _ in range(2):
        kernel.step(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    state = kernel.init(model, data, seed=0, start=labels)
    return peak / 1e6, median(timed_step(kernel, state)[1][0] for _ in range(SWEEPS))


def levels(is_quick):
    """Print the time of a tree of nearly constant categorical columns and return whether its goal is reached."""
    rng, (n_rows, n_columns) = np.random.default_rng(0), (250 if is_quick else 500, 1619)
    base, labels = rng.integers(4, size=n_columns), rng.integers(8, size=n_rows)
    own = np.where(rng.random((8, n_columns)) < 0.02, rng.integers(4, size=(8, n_columns)), base)
    X = np.where(rng.random((n_rows, n_columns)) < 0.01, rng.integers(4, size=(n_rows, n_columns)), own[labels])
    data, times = Dataset(X, Categorical()), []
    model = MixtureModel(data.family, DirichletProcess())
    for _ in range(ROUNDS):
        begin = process_time()
        state = HierarchicalClustering(n_threads=1).init(model, data)
        while state.merge():
            pass
        times.append(process_time() - begin)
    print_table([{"tree": f"{n_rows} x {n_columns}", "CPU s": median(times), "goal": f"<= {MOST_TREE_SECONDS} s"}])
    return median(times) <= MOST_TREE_SECONDS


PROTOCOLS = {
    "vmf": vmf,
    "blocks": blocks,
    "embeddings": embeddings,
    "noisy": noisy,
    "narrow": narrow,
    "counts": counts,
    "levels": levels,
    "draws": draws,
    "lists": lists,
    "em": em,
}


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("subjects", nargs="*", help=f"of {', '.join(PROTOCOLS)}; all if none is named")
    command.add_argument("--quick", action="store_true", help="few rows: 10,000, and 4,000 of embeddings")
    return command


def main():
    """Run what is asked for."""
    arguments = asked_for(parser(), PROTOCOLS)
    with threadpool_limits(1):
        are_reached = [PROTOCOLS[name](arguments.quick) for name in arguments.subjects]
    sys.exit(0 if all(are_reached) else 1)


if __name__ == "__main__":
    main()
