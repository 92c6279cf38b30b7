"""Clustering of real labelled data, beside published figures.

Run by hand: `python asv_bench/protocols/real_data.py --help`.

The data are not shipped. DIR holds text/*.npz (data, indices, indptr, shape, labels) and dense/*.npz (X, labels).
NMI, homogeneity, completeness and adjusted Rand are scikit-learn's, against the gold classes; they play no part in
the fit. Seconds are wall clock of the sweeps alone.
"""

import argparse
import gc
import statistics
from pathlib import Path

import numpy as np
from reports import resident
from scipy import sparse
from sklearn import metrics
from sklearn.datasets import load_digits

from expfam import DiagonalGaussian, Gaussian, Mixture, Multinomial, Poisson, SymmetricDirichlet

TEXTS = ["googlenews", "tweet", "searchsnippets", "stackoverflow", "bbc_news"]


def places(directory, name):
    """Where the file of a data set may be."""
    return [directory / folder / f"{name}.npz" for folder in ("text", "dense")]


def load(directory, name):
    """Data matrix and gold classes of one file."""
    if name == "digits":
        digits = load_digits()
        return digits.data, digits.target
    paths = places(directory, name)
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise SystemExit(f"{name}: neither {paths[0]} nor {paths[1]} is there; see --data")
    with np.load(path, allow_pickle=False) as f:
        if "X" in f:
            return f["X"], f["labels"]
        return sparse.csr_array((f["data"], f["indices"], f["indptr"]), shape=tuple(f["shape"])), f["labels"]


def scores(labels, mixture):
    """Agreement with the classes, and what the run cost."""
    found = mixture.labels_
    homogeneity, completeness, _ = metrics.homogeneity_completeness_v_measure(labels, found)
    return {
        "nmi": metrics.normalized_mutual_info_score(labels, found),
        "ari": metrics.adjusted_rand_score(labels, found),
        "homogeneity": homogeneity,
        "completeness": completeness,
        "clusters": mixture.n_components_,
        "log_joint": mixture.log_joint_,
        "s/sweep": statistics.median(mixture.trace_.column("seconds")),
        "s": float(mixture.trace_.column("seconds").sum()),
    }


def report(name, rows, settings=""):
    """One line: mean and spread over seeds."""
    parts = []
    for key in rows[0]:
        values = [row[key] for row in rows]
        digits = 0 if key in ("clusters", "log_joint") else 3
        spread = f" +- {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        parts.append(f"{key} {statistics.mean(values):.{digits}f}{spread}")
    print(f"{name:16s} {settings}{'; '.join(parts)}", flush=True)


def published(args):
    """Collapsed Dirichlet-multinomial mixture, K = 500, alpha = beta = 0.1, ten sweeps (Yin and Wang 2014, table 2)."""
    X, labels = load(args.data, "googlenews")
    rows = []
    for seed in range(args.seeds):
        mixture = Mixture(
            Multinomial(concentration=0.1),
            weights=SymmetricDirichlet(500, alpha=0.1),
            sampler="gibbs",
            start="random",
            n_steps=10,
            n_warmup=0,
            partition="last",
            random_state=seed,
        ).fit(X)
        rows.append(scores(labels, mixture))
    report("googlenews", rows)
    print("published        nmi 0.928 +- 0.004; ari 0.789; homogeneity 0.911; completeness 0.945 (20 runs)")


def default(args):
    """The family and, in a second row, the number of components are given; the total mass is learned."""
    for name in args.names or TEXTS:
        X, labels = load(args.data, name)
        for n_components in (None, {"googlenews": 300, "tweet": 300}.get(name, 100)):
            rows = []
            for seed in range(args.seeds):
                mixture = Mixture("multinomial", n_components, learn_hyper=True, random_state=seed).fit(X)
                rows.append(scores(labels, mixture))
            mass = mixture.family_.concentration * X.shape[1]
            report(name, rows, f"K={n_components}, learned total mass {mass:.0f}: ")


def dense(args):
    """Gaussian families on vectors, Poisson on the pixels of digits."""
    digits = load_digits()
    runs = {
        "birch1 full": (load(args.data, "birch1"), Gaussian(), 100),
        "birch1 diag": (load(args.data, "birch1"), DiagonalGaussian(), 100),
        "letters full": (load(args.data, "letter_recognition"), Gaussian(), 100),
        "letters diag": (load(args.data, "letter_recognition"), DiagonalGaussian(), 100),
        "digits Poisson": ((digits.data, digits.target), Poisson(), 30),
        "digits multin.": ((digits.data, digits.target), Multinomial(), 30),
    }
    for name, ((X, labels), family, K) in runs.items():
        rows = []
        for seed in range(args.seeds):
            mixture = Mixture(family, K, n_steps=args.steps, n_warmup=args.steps, random_state=seed).fit(X)
            rows.append(scores(labels, mixture))
        report(name, rows, f"K={K}: ")


def memory(args):
    """Peak memory of a fit beyond the data: N = 1e6 documents, K = 1000."""
    rng = np.random.default_rng(0)
    N, V, length, K = args.rows, 5000, 10, 1000
    words = np.minimum(rng.zipf(1.3, size=N * length) - 1, V - 1).astype(np.int32)
    X = sparse.csr_array((np.ones(N * length), words, np.arange(N + 1, dtype=np.int64) * length), shape=(N, V))
    del words
    X.sum_duplicates()
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    Mixture("multinomial", 2, n_steps=1, n_warmup=0).fit(X[:100])  # imports and pools are no part of the figure
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins here
    before = resident("VmRSS")
    mixture = Mixture(
        Multinomial(concentration=0.1),
        K,
        sampler="gibbs",
        start="random",
        n_steps=1,
        n_warmup=0,
        partition="last",
        random_state=0,
    ).fit(X)
    peak = resident("VmHWM")
    print(
        f"N={N} V={V} K={K}: data {size / 1e6:.0f} MB, process before {before / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB:"
        f" the fit needs {(peak - before) / 1e6:.0f} MB beside the data; 8 K F is {8e-6 * K * V:.0f} MB, 8 N"
        f" {8e-6 * N:.0f} MB; {mixture.trace_.column('seconds')[-1]:.1f} s a sweep"
    )


def threads(args):
    """Labels of one, two and four threads, compared."""
    X, _ = load(args.data, "tweet")
    for sampler in ("gibbs", "uncollapsed_gibbs"):
        fits = [
            Mixture("multinomial", 100, sampler=sampler, n_steps=20, n_threads=n, random_state=0).fit(X).labels_
            for n in (1, 2, 4)
        ]
        same = all(np.array_equal(fits[0], other) for other in fits[1:])
        print(f"{sampler}: labels with 1, 2, 4 threads {'are the same' if same else 'DIFFER'}")


PROTOCOLS = {protocol.__name__: protocol for protocol in (published, default, dense, memory, threads)}


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("protocol", choices=PROTOCOLS)
    command.add_argument("--data", type=Path, default=Path("data"), help="directory with text/ and dense/")
    command.add_argument("--seeds", type=int, default=3)
    command.add_argument("--steps", type=int, default=50)
    command.add_argument("--rows", type=int, default=1_000_000)
    command.add_argument("--names", nargs="*", help="data sets of the protocol `default`")
    return command


def main():
    """Run one of the protocols."""
    args = parser().parse_args()
    PROTOCOLS[args.protocol](args)


if __name__ == "__main__":
    main()
