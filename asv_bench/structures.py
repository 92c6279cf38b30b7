"""Structures beside what a user would take instead: run by hand, `python asv_bench/structures.py --help`.

One thread, CPU seconds of the process, the least of several repeats; rivals take turns in one process.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from sklearn.neighbors import BallTree, KDTree
from threadpoolctl import threadpool_limits

from expfam.structures import CoverTree, SignCodes, SignHash, select_top


def least(function, seconds=0.5):
    """Least CPU seconds of a call, over calls for at least so long."""
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
    with threadpool_limits(1):
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


def top(args):
    """The L largest of K, a row, beside argpartition."""
    rng = np.random.default_rng(0)
    for K, L in [(50, 4), (200, 4), (200, 32), (800, 32), (800, 100), (3200, 100)]:
        x = rng.normal(size=(4000, K)).astype(np.float32)
        ours, theirs = least(partial(select_top, x, L)), least(partial(np.argpartition, x, -L, axis=1))
        print(f"K {K:4d}, L {L:3d}: {ours / 4e-6:6.0f} ns; argpartition {theirs / 4e-6:6.0f} ns, {theirs / ours:.2f}")


def codes(args):
    """A draw among K clusters by their sign codes."""
    rng = np.random.default_rng(0)
    for K, bits in [(100, 128), (1000, 64), (1000, 128), (1000, 512)]:
        code = SignCodes(SignHash(bits), K, bound=np.full(20, 9.0))
        code.rebuild(rng.normal(size=(K, 20)))
        words, u, norms = code.hash.codes(rng.normal(size=(2000, 20))), rng.random(2000), rng.random(2000)
        bias = rng.normal(size=K).astype(np.float32)
        seconds = least(partial(code.draws, words, u, norms=norms, bias=bias))
        print(f"K {K:4d}, {bits:3d} bits: {seconds / 2e-3:.3f} us")


def main():
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function in (trees, top, codes):
        command = commands.add_parser(function.__name__, help=function.__doc__)
        command.set_defaults(run=function)
        if function is trees:
            for option, value in {
                "rows": 100_000,
                "features": 64,
                "clusters": 256,
                "queries": 60,
                "repeats": 3,
            }.items():
                command.add_argument(f"--{option}", type=int, default=value)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.run(args)


if __name__ == "__main__":
    main()
