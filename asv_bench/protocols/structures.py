"""Structures beside what a user would take instead: run by hand, `python asv_bench/protocols/structures.py --help`.

One thread, CPU seconds of the process, the least of several repeats; rivals take turns in one process. Builds by two
threads are timed on the wall.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.neighbors import BallTree, KDTree
from threadpoolctl import threadpool_limits

from expfam.structures import AliasTable, CoverTree, CoverTreeWarning, SignCodes, SignHash, WeightedMinHash, select_top
from expfam.structures.hashing.min_hash import column_bounds

ROWS = {"rows": 100_000, "features": 64, "clusters": 256, "repeats": 3}


LEAST_SECONDS = 0.5


def least(function, times=1.0):
    """Least CPU seconds of a call, over calls for at least so many times LEAST_SECONDS."""
    seconds = times * LEAST_SECONDS
    best, begin = np.inf, time.process_time()
    while time.process_time() - begin < seconds:
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def clustered(n_rows, n_features, n_clusters):
    """Unit Gaussian noise about centres drawn with a standard deviation of 3: float32."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    X += 3.0 * rng.normal(size=(n_clusters, n_features))[rng.integers(n_clusters, size=n_rows)]
    return X.astype(np.float32)


def trees(args):
    """Build, and the ten nearest neighbours of further rows."""
    X = clustered(args.rows + args.queries, args.features, args.clusters)
    X, Q = X[: args.rows].copy(), X[args.rows :].copy()
    makers = {
        "cover tree, base 1.3": lambda: CoverTree(X, base=1.3),
        "cover tree, base 2": lambda: CoverTree(X, base=2.0),
        "BallTree": lambda: BallTree(X),
        "KDTree": lambda: KDTree(X),
    }
    build, query = dict.fromkeys(makers, np.inf), dict.fromkeys(makers, np.inf)
    for _ in range(args.repeats):
        for name, make in makers.items():
            start = time.process_time()
            tree = make()
            middle = time.process_time()
            tree.knn(Q, 10) if isinstance(tree, CoverTree) else tree.query(Q, 10)
            query[name] = min(query[name], (time.process_time() - middle) / args.queries)
            build[name] = min(build[name], middle - start)
    for name in makers:
        ratios = (
            f"BallTree / this {build['BallTree'] / build[name]:.2f}; KDTree / this {query['KDTree'] / query[name]:.2f}"
        )
        print(f"{name:22s} build {build[name]:.3f} s; query {1e6 * query[name]:.0f} us; {ratios}")


def threads(args):
    """Build by one thread and by two: seconds on the wall."""
    X = clustered(args.rows, args.features, args.clusters)
    wall = {1: np.inf, 2: np.inf}
    for _ in range(args.repeats):
        for n_threads in wall:
            start = time.perf_counter()
            CoverTree(X, n_threads=n_threads)
            wall[n_threads] = min(wall[n_threads], time.perf_counter() - start)
    print(f"{args.rows} x {args.features}: {wall[1]:.3f} s; two threads {wall[2]:.3f} s, {wall[1] / wall[2]:.2f}")


def scanned(X, Q, k):
    """The k nearest rows by products of 256 queries with all rows, not exact."""
    norms = np.einsum("ij,ij->i", X, X)
    for start in range(0, len(Q), 256):
        scores = Q[start : start + 256] @ X.T
        scores *= -2.0
        scores += norms
        np.argpartition(scores, k, axis=1)


def noise(args):
    """Build from rows without any structure, which warns; and nearest neighbours of further rows beside flat scans."""
    X = np.random.default_rng(0).normal(size=(args.rows + args.queries, args.features)).astype(np.float32)
    X, Q = X[: args.rows].copy(), X[args.rows :].copy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CoverTreeWarning)
        start = time.process_time()
        CoverTree(X, n_threads=1)
        seconds = time.process_time() - start
    n_warnings = sum(issubclass(warning.category, CoverTreeWarning) for warning in caught)
    ball = least(partial(BallTree, X))
    print(f"{args.rows} x {args.features}: {seconds:.2f} s, CoverTreeWarning: {n_warnings}; BallTree {ball:.2f} s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverTreeWarning)
        tree = CoverTree(X, n_threads=1)
    for k in (1, 10):
        ours, flat = least(partial(tree.knn, Q, k)), least(partial(scanned, X, Q, k))
        line = f"{k} nearest: {1e6 * ours / args.queries:.1f} us; NumPy products {1e6 * flat / args.queries:.1f} us"
        try:
            import faiss
        except ImportError:
            print(f"{line}; faiss is not installed")
            continue
        faiss.omp_set_num_threads(1)
        index = faiss.IndexFlatL2(args.features)
        index.add(X)
        print(f"{line}; faiss {1e6 * least(partial(index.search, Q, k)) / args.queries:.1f} us")


def top(args):
    """The L largest of K, a row, beside argpartition."""
    rng = np.random.default_rng(0)
    for K, L in [(50, 4), (200, 4), (200, 32), (800, 32), (800, 100), (3200, 100)]:
        x = rng.normal(size=(4000, K)).astype(np.float32)
        ours, theirs = least(partial(select_top, x, L)), least(partial(np.argpartition, x, -L, axis=1))
        print(f"K {K:4d}, L {L:3d}: {ours / 4e-6:6.0f} ns; argpartition {theirs / 4e-6:6.0f} ns, {theirs / ours:.2f}")


def alias(args):
    """A draw from a discrete law and the building of its table, beside Generator.choice(p=)."""
    rng, n_draws = np.random.default_rng(0), 100_000
    for size in (100, 1000, 65536):
        p = rng.dirichlet(np.ones(size))
        draw, build = least(partial(AliasTable(p).draw, rng, n_draws)), least(partial(AliasTable, p))
        theirs = least(partial(rng.choice, size, n_draws, p=p))
        print(
            f"{size:5d} outcomes: draw {1e9 * draw / n_draws:.1f} ns, build {1e9 * build / size:.1f} ns an entry; "
            f"choice {1e9 * theirs / n_draws:.1f} ns, {theirs / draw:.1f}"
        )


def minhash(args):
    """64 weighted min-hashes of each of 2000 rows, dense and sparse, beside datasketch."""
    rng, n_hashes = np.random.default_rng(0), 64
    columns = np.sort((100_000 * rng.random((2000, 60)) ** 3).astype(np.int32), axis=1)
    counts = rng.poisson(1.0, columns.size) + 1.0
    thin = sparse.csr_matrix((counts, columns.ravel(), np.arange(0, columns.size + 1, 60)), shape=(2000, 100_000))
    thin.sum_duplicates()
    dense = rng.gamma(1.0, size=(2000, 64))
    for name, X, method in [("dense", dense, "icws"), ("dense", dense, "rejection"), ("CSR", thin, "icws")]:
        upper = column_bounds(X) if method == "rejection" else None
        ours = WeightedMinHash(X.shape[1], n_tables=n_hashes, method=method, upper=upper)
        seconds = least(partial(ours.keys, X, n_threads=1))
        try:
            from datasketch import WeightedMinHashGenerator
        except ImportError:
            print(f"{name:5s} {method:9s}: {seconds:.4f} s; datasketch is not installed")
            continue
        generator = WeightedMinHashGenerator(X.shape[1], sample_size=n_hashes)
        theirs = least(partial(generator.minhash_many, sparse.csr_matrix(X)))
        print(f"{name:5s} {method:9s}: {seconds:.4f} s; datasketch {theirs:.3f} s, {theirs / seconds:.1f}")


def codes(args):
    """A draw among K clusters by their sign codes, of vectors with few and with many coordinates."""
    rng = np.random.default_rng(0)
    for K, bits, D in [(100, 128, 20), (1000, 64, 20), (1000, 128, 20), (1000, 64, 1000), (1000, 128, 1000)]:
        code = SignCodes(SignHash(bits), K, bound=np.full(D, 9.0))
        code.rebuild(rng.normal(size=(K, D)))
        words, u, norms = code.hash.codes(rng.normal(size=(2000, D))), rng.random(2000), rng.random(2000)
        bias = rng.normal(size=K).astype(np.float32)
        seconds = least(partial(code.draws, words, u, norms=norms, bias=bias), 2.0)
        print(f"K {K:4d}, {bits:3d} bits, {D:4d} coordinates: {seconds / 2e-3:.3f} us")


def updates(args):
    """A vector added to one of ten coded vectors: dense of 64 coordinates, sparse of 100 among 20,000."""
    rng = np.random.default_rng(0)
    for n, D in [(64, 64), (100, 20_000)]:
        w = np.sort(rng.permutation(D)[:n])
        x, zero = rng.integers(1, 9, n).astype(float), np.zeros(n)
        for bits in (64, 128, 512):
            code = SignCodes(SignHash(bits), 10, bound=np.full(D, 9.0))
            one, none = code.quantise(w, x), code.quantise(w, zero)

            def turns(m, code=code, w=w, one=one, none=none):
                for _ in range(500):  # in and out again, without the checks and the rounding to the grid
                    code._move(0, w[:m], none[:m], one[:m])
                    code._move(0, w[:m], one[:m], none[:m])

            bare = (least(partial(turns, n)) - least(partial(turns, 0))) / 1000
            call = least(partial(code.update, 0, w, old=x, new=x))
            print(f"{n:3d} of {D:5d}, {bits:3d} bits: {1e6 * bare:.3f} us; called from Python {1e6 * call:.1f} us")


COMMANDS = {
    trees: ROWS | {"queries": 60},
    threads: ROWS,
    noise: {"rows": 100_000, "features": 64, "queries": 1024},
    top: {},
    alias: {},
    minhash: {},
    codes: {},
    updates: {},
}


def everything(args):
    """All commands in turn."""
    global LEAST_SECONDS
    LEAST_SECONDS = args.seconds
    for function, options in COMMANDS.items():
        print(f"-- {function.__name__}: {function.__doc__}")
        function(argparse.Namespace(**options | ({"rows": args.rows} if "rows" in options else {})))


def parser():
    """Options."""
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(required=True)
    for function, options in {**COMMANDS, everything: {}}.items():
        name = "all" if function is everything else function.__name__
        command = commands.add_parser(name, help=function.__doc__)
        command.set_defaults(run=function)
        for option, value in options.items():
            command.add_argument(f"--{option}", type=int, default=value)
        if function is everything:
            command.add_argument("--rows", type=int, default=ROWS["rows"])
            command.add_argument(
                "--seconds", type=float, default=LEAST_SECONDS, help="CPU seconds of a figure, at least"
            )
    return top


def main():
    """Parse the command line."""
    args = parser().parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        args.run(args)


if __name__ == "__main__":
    main()
