"""Bayesian hierarchical clustering beside its rivals: run by hand, `python asv_bench/protocols/hierarchy.py --help`.

Protocols: sparse documents, with the claim of the implementation that ours began from (20,000 sparse points, about 25
million candidate merges, several minutes; duplicates collapsed first and pairs without a common term left out); real
columns; candidates at N = 100,000; labelled data that are not shipped; growth of the number of scores; and the peak of
memory beside the data.

Seconds are never printed without what was found in them: log evidence of the tree (a lower bound of that of the
Dirichlet process mixture, comparable between trees over the same data), adjusted Rand of its default cut against the
classes. Ward's trees, by fastcluster and SciPy over standardised columns or projected square roots of counts, are
rescored by `BayesianHierarchy.from_linkage`, and cut by the same odds; the rescoring is not in their seconds, nor in
those of randomised Bayesian hierarchical clustering, whose "scores" are those of the rescoring alone. DIR holds
text/*.npz and dense/*.npz as for real_data.py.
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from generated import data as generated
from real_data import load
from reports import clocks, print_growing, print_table, report, resident, with_peak
from scipy import sparse
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import adjusted_rand_score

from expfam import BayesianHierarchy, Dataset, DiagonalGaussian, DirichletProcess, Gaussian, MixtureModel, Multinomial
from expfam.errors import DataWarning
from expfam.forecast.memory import format_bytes
from expfam.samplers import HierarchicalClustering
from expfam.samplers.geometry.coordinates import Rows
from expfam.samplers.geometry.graphs import hash_graph, neighbour_graph
from expfam.samplers.hierarchy import kernel as hierarchy

try:
    import fastcluster
except ImportError:  # some rows of the tables need it
    fastcluster = None

TITLES = {
    "exact": "odds",
    "all pairs": "odds, all pairs",
    "overlap": "odds, common terms first",
    "collapse": "odds, copies first",
    "odds_size": "odds less log size",
    "knn": "odds, 10 neighbours",
    "hash": "odds, 10 by hashes",
    "knn size": "odds less log size, 10 neighbours",
    "randomised": "odds, randomised, subsets of 500",
    "fastcluster": "Ward, fastcluster",
    "scipy": "Ward, SciPy",
}
OPTIONS = {
    "exact": {},
    "all pairs": {"index": None},
    "overlap": {"index": "overlap"},
    "collapse": {"duplicates": "collapse"},
    "odds_size": {"order": "odds_size"},
    "knn": {"candidates": "knn"},
    "hash": {"candidates": "hash"},
    "knn size": {"candidates": "knn", "order": "odds_size"},
}
GRAPHS = {"knn": neighbour_graph, "hash": hash_graph}
FAMILIES = {"diagonal": DiagonalGaussian, "full": Gaussian}
SETS = {
    "tweet": lambda: Multinomial(concentration=0.1),
    "googlenews": lambda: Multinomial(concentration=0.1),
    "letter_recognition": Gaussian,
    "digits": lambda: Multinomial(concentration=1.0),
}
SUBSET = 500  # rows of which the randomised search makes a tree
MOST_SQUARE = 15_000  # rows of which SciPy holds all distances: 0.9 GB
SEVERAL_MINUTES = "source's claim: 20,000 points, about 2.5e+07 scores, several minutes"


# ---- what the protocols share ----------------------------------------------------------------------------------------


def mixture(n, d, args):
    """Generated columns of the options."""
    sizes = {"n_features": d, "separation": args.separation, "exponent": args.exponent, "seed": args.seed}
    return generated.gaussians(n, args.clusters, **sizes)


def grown(name, family, X, args):
    """Finished search, (CPU, wall) seconds of the graph, if there is one, and of all else."""
    data = Dataset(X, family)
    model = MixtureModel(data.family, DirichletProcess(args.alpha)).bind(data)
    options, begin = dict(OPTIONS[name]), clocks()
    if "candidates" in options:
        options["candidates"] = GRAPHS[options["candidates"]](data, args.neighbors, n_threads=args.threads)
    graph = clocks() - begin
    kernel = HierarchicalClustering(**{"order": "odds"} | options, n_threads=args.threads)
    begin = clocks()
    state = kernel.init(model, data)
    while kernel.step(state).accepted:
        pass
    return state, graph, clocks() - begin


def row_of(name, family, X, classes, args):
    """One line of a table: what a method found, and what it cost."""
    n = X.shape[0]
    if name in LINKAGES:
        return linkage_row(name, family, X, classes, args)
    state, graph, rest = grown(name, family, X, args)
    return {
        "tree": TITLES[name],
        "n": n,
        "CPU s": rest[0],
        "wall s": rest[1],
        "graph s": graph[0],
        "scores": float(state.n_scores),
        "/ (n - 1)^2": state.n_scores / max(n - 1, 1) ** 2,
        "log evidence": state.log_joint,
        "clusters": state.tree().cut().max().item() + 1,
        "Rand": adjusted_rand_score(classes, state.labels),
    }


def linkage_row(name, family, X, classes, args):
    """The same of a tree that others made, or ours of subsets; its odds are worked out afterwards."""
    seconds, Z = LINKAGES[name](family, X, args)
    tree = BayesianHierarchy.from_linkage(Z, X, family, alpha=args.alpha)
    return {
        "tree": TITLES[name],
        "n": X.shape[0],
        "CPU s": seconds[0],
        "wall s": seconds[1],
        "graph s": 0.0,
        "scores": float(X.shape[0] - 1),
        "/ (n - 1)^2": 1.0 / X.shape[0],
        "log evidence": tree.log_evidence_,
        "clusters": tree.n_clusters_,
        "Rand": adjusted_rand_score(classes, tree.labels_),
    }


def ward(link, family, X, args):
    """Seconds and linkage of a program for Ward's method."""
    points = Rows(Dataset(X, family)).embedding(0, args.threads).astype(np.float64)
    begin = clocks()
    Z = link(points)
    return clocks() - begin, Z


def randomised(family, X, args):
    """Seconds and linkage of randomised Bayesian hierarchical clustering (Heller and Ghahramani 2005, section 4).

    The tree of a random subset splits all rows in two, each by the more probable side; both are split again, down to
    what is no larger than the subset, or one cluster by it: there the exact search goes on, since the last merges of
    a cluster take single rows. A side's density is that of its clusters in the subset's cut.
    """
    family, rng = Dataset(X, family).family, np.random.default_rng(args.seed)
    begin, children = clocks(), []
    roots, tasks, n_sides = {}, [(0, np.arange(X.shape[0]), None)], 1  # the root of each side that is done
    while tasks:
        side, rows, halves = tasks.pop()
        if halves is not None:  # both are done
            roots[side] = joined(children, X.shape[0], *(roots.pop(half) for half in halves))
            continue
        parts = split_by_subset(family, X, rows, args, rng) if len(rows) > SUBSET else None
        if parts is None:
            roots[side] = joined_rows(family, X, rows, args, children)
        else:
            halves = (n_sides, n_sides + 1)
            n_sides += 2
            tasks += [(side, None, halves), (halves[0], parts[0], None), (halves[1], parts[1], None)]
    return clocks() - begin, np.array(children)


def joined(children, n, i, j):
    """Number of the node over two others."""
    children.append((min(i, j), max(i, j)))
    return n + len(children) - 1


def _of_rows(family, args):
    """Exact tree of single rows by their odds, not fitted."""
    kernel = HierarchicalClustering(order="odds", n_threads=args.threads)
    return BayesianHierarchy(family, alpha=args.alpha, sampler=kernel, leaves="rows", n_threads=args.threads)


def joined_rows(family, X, rows, args, children):
    """Number of the node over all of some rows, by their exact tree."""
    nodes = rows.tolist()
    if len(rows) > 1:
        tree = _of_rows(family, args).fit(X[rows])
        for i, j in tree.children_.tolist():
            nodes.append(joined(children, X.shape[0], nodes[i], nodes[j]))
    return nodes[-1]


def split_by_subset(family, X, rows, args, rng):
    """Rows of the two sides of the last merge of a random subset's tree; None where that is one cluster."""
    chosen = rng.choice(len(rows), SUBSET, replace=False)
    model = _of_rows(family, args).fit(X[rows[chosen]])
    if model.n_clusters_ == 1:
        return None
    right = np.zeros(SUBSET, dtype=bool)
    right[model.tree_.leaves(model.children_[-1][1])] = True
    is_right = np.zeros(model.n_clusters_, dtype=bool)
    is_right[model.labels_[right]] = True
    found = is_right[model.predict(X[rows])]
    found[chosen] = right
    return rows[~found], rows[found]


LINKAGES = {
    "fastcluster": lambda *given: ward(lambda points: fastcluster.linkage_vector(points, method="ward"), *given),
    "scipy": lambda *given: ward(lambda points: linkage(points, "ward"), *given),
    "randomised": randomised,
}


def possible(names, X, args):
    """Those of the methods that can be had here, and that so many rows allow."""
    few = X.shape[0] <= args.most_pairs
    by_index = sparse.issparse(X)
    fits = {"scipy": X.shape[0] <= MOST_SQUARE, "fastcluster": fastcluster is not None and few, "all pairs": few}
    fits["randomised"] = few
    return [name for name in names if fits.get(name, "candidates" in OPTIONS.get(name, ()) or few or by_index)]


def table_of(names, family, X, classes, args):
    """Print a table, each row when it is found, and return the rows."""
    rows = (row_of(name, family, X, classes, args) for name in possible(names, X, args))
    return print_growing(rows, first=max(map(len, TITLES.values())))


# ---- protocols -------------------------------------------------------------------------------------------------------


def documents(args):
    """Short documents by their number: exact index, all pairs, heuristics."""
    rows = []
    print(SEVERAL_MINUTES + "\n", flush=True)
    for n in args.rows:
        X, classes = generated.short_documents(n, args.topics, seed=args.seed)
        rows += table_of(args.trees, Multinomial(concentration=args.concentration), X, classes, args)
    return {"rows": rows, "claim": SEVERAL_MINUTES}


def columns(args):
    """Real columns about centres: diagonal and full covariances beside Ward."""
    rows = []
    for kind, n, d in args.cases:
        X, classes = mixture(n, d, args)
        print(f"{kind}, {n} rows, {d} columns\n", flush=True)
        rows += [
            {"family": kind, "columns": d, **row} for row in table_of(args.trees, FAMILIES[kind](), X, classes, args)
        ]
    return {"rows": rows}


def sets(args):
    """Labelled data."""
    rows = []
    for name in args.sets:
        X, classes = load(args.data, name)
        X, classes = X[: args.most_rows], classes[: args.most_rows]
        print(f"{name}: {X.shape[0]} rows, {X.shape[1]} columns, {len(np.unique(classes))} classes\n", flush=True)
        rows += [{"data": name, **row} for row in table_of(args.trees, SETS[name](), X, classes, args)]
    return {"rows": rows}


def neighbours(args):
    """Evidence against the number of neighbours: the nearest ones, and what hashes find of them."""
    rows = []
    for n in args.rows:
        if args.family == "multinomial":
            family = Multinomial(concentration=0.01)
            X, classes = generated.short_documents(n, 200, seed=args.seed)
        else:
            family = FAMILIES[args.family]()
            X, classes = mixture(n, args.features, args)
        exact = possible(["exact"], X, args)
        found = [row_of(name, family, X, classes, args) | {"recall": 1.0} for name in exact]
        for n_neighbors in args.grid:
            args.neighbors = n_neighbors
            for name in GRAPHS:
                row = row_of(name, family, X, classes, args) | {"tree": f"odds, {args.neighbors} by {name}"}
                found.append(row | {"recall": recall(name, family, X, args)})
        print_table(found)
        rows += found
    return {"rows": rows}


def recall(name, family, X, args):
    """Share of the nearest rows that a graph has; ties of documents count as missed."""
    data = Dataset(X, family)
    nearest, graph = (GRAPHS[kind](data, args.neighbors, n_threads=args.threads) for kind in ("knn", name))
    return graph.multiply(nearest).sum() / max(nearest.sum(), 1)


def copies(args):
    """Columns of which each row stands several times: copies that share their scores, or are merged first."""
    rows = []
    for n in args.rows:
        X, classes = (each[np.arange(n) % (n // args.copies)] for each in mixture(n, args.features, args))
        found = [row_of(name, FAMILIES[args.family](), X, classes, args) for name in ("exact", "collapse")]
        with mock.patch.object(hierarchy, "_FEWER", 0.0):
            alone = row_of("exact", FAMILIES[args.family](), X, classes, args)
        found.insert(0, alone | {"tree": "odds, each copy scored"})
        print_table(found)
        rows += found
    return {"rows": rows}


def rescoring(args):
    """Odds of every merge of a given linkage."""
    rows = []
    for n in args.rows:
        X, _ = mixture(n, args.features, args)
        older = np.concatenate([[0], np.arange(n, 2 * n - 2)])
        chain = np.column_stack([older, np.arange(1, n), np.arange(1.0, n), np.arange(2, n + 1)])
        begin = clocks()
        tree = BayesianHierarchy.from_linkage(chain, X, DiagonalGaussian())
        seconds = clocks() - begin
        rows.append({"n": n, "columns": args.features, "CPU s": seconds[0], "log evidence": tree.log_evidence_})
    print_table(rows)
    return {"rows": rows}


def memory(args):
    """Peak of memory beside the data, each size in a process of its own."""
    if args.child:
        return memory_of(args)
    rows = []
    for name in args.trees:
        for n in args.rows:
            with tempfile.TemporaryDirectory() as folder:
                result = Path(folder) / "result.json"
                command = [sys.executable, __file__, "memory", f"--rows={n}", f"--child={name}", f"--json={result}"]
                subprocess.run(command, check=True)
                rows.append(json.loads(result.read_text())["row"])
    print_table(rows)
    return {"rows": rows}


def memory_of(args):
    """One search in this process, after a small one whose imports and buffers are no part of it."""
    kind, name = args.child.split(":")

    def make(n):
        if kind == "documents":
            return Multinomial(concentration=0.01), generated.short_documents(n, 200, seed=0)[0]
        return DiagonalGaussian(), generated.gaussians(n, 50, n_features=10, seed=0)[0]

    grown(name, *make(200), args)
    family, X = make(args.rows[0])
    size = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    gc.collect()
    before = resident("VmRSS")
    (state, *_), peak = with_peak(lambda: grown(name, family, X, args))
    used = peak - before
    row = {"data": kind, "tree": TITLES[name], "n": X.shape[0], "size": format_bytes(size)}
    row |= {"beside": format_bytes(used), "bytes / n": used / X.shape[0], "log evidence": state.log_joint}
    return {"row": row}


# ---- command line ----------------------------------------------------------------------------------------------------


def case(text):
    """Family, rows and columns."""
    kind, n, d = text.split(",")
    if kind not in FAMILIES:
        raise ValueError(kind)
    return kind, int(n), int(d)


def add_mixture(command):
    command.add_argument("--clusters", type=int, default=50)
    command.add_argument("--separation", type=float, default=3.0)
    command.add_argument("--exponent", type=float, default=1.0, help="sizes of clusters fall as rank ** -exponent")


def parser():
    """Sub-commands and their options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--threads", type=int, default=1)
    common.add_argument("--alpha", type=float, default=1.0)
    common.add_argument("--neighbors", type=int, default=10)
    common.add_argument("--seed", type=int, default=0)
    common.add_argument("--most-pairs", type=int, default=20_000, help="rows of which all pairs are scored")
    common.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="protocol", required=True)

    def add(protocol, *, rows=None, trees=None):
        command = commands.add_parser(protocol.__name__, parents=[common], help=protocol.__doc__)
        command.set_defaults(run=protocol)
        if rows:
            command.add_argument("--rows", type=int, nargs="+", default=rows)
        if trees:
            command.add_argument("--trees", nargs="+", choices=list(TITLES), default=trees)
        return command

    of_documents = ["exact", "all pairs", "overlap", "knn", "hash"]
    command = add(documents, rows=[5000, 20_000, 50_000, 100_000], trees=of_documents)
    command.add_argument("--topics", type=int, default=200)
    command.add_argument("--concentration", type=float, default=0.01)
    command = add(
        columns, trees=["exact", "odds_size", "knn", "knn size", "hash", "randomised", "fastcluster", "scipy"]
    )
    cases = ["diagonal,20000,10", "diagonal,20000,2", "full,4000,10", "full,10000,2", "diagonal,100000,10"]
    command.add_argument("--cases", type=case, nargs="+", default=[case(text) for text in cases], metavar="FAMILY,n,d")
    add_mixture(command)
    command = add(sets, trees=["exact", "odds_size", "collapse", "knn", "fastcluster", "scipy"])
    command.add_argument("--data", type=Path, default=Path("data"), help="directory with text/ and dense/")
    command.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    command.add_argument("--most-rows", type=int, default=20_000, help="of each set")
    command = add(neighbours, rows=[10_000])
    command.add_argument("--grid", type=int, nargs="+", default=[3, 5, 10, 20])
    command.add_argument("--features", type=int, default=10)
    add_mixture(command)
    command.add_argument("--family", choices=[*FAMILIES, "multinomial"], default="diagonal")
    command = add(copies, rows=[5000, 20_000])
    command.add_argument("--copies", type=int, default=10, help="of each row")
    command.add_argument("--features", type=int, default=10)
    add_mixture(command)
    command.add_argument("--family", choices=list(FAMILIES), default="diagonal")
    command = add(rescoring, rows=[10_000, 100_000])
    command.add_argument("--features", type=int, default=10)
    add_mixture(command)
    command = add(memory, rows=[10_000, 20_000, 40_000])
    of_data = ["documents:exact", "documents:knn", "columns:knn"]
    command.add_argument(
        "--trees", nargs="+", default=of_data, metavar="DATA:TREE", help="documents or columns, a tree"
    )
    command.add_argument("--child", help=argparse.SUPPRESS)
    return top


def main():
    """Run one of the protocols."""
    args = parser().parse_args()
    if args.threads < 1:
        raise SystemExit(f"--threads is a positive number; got {args.threads}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # constant columns of digits, many pairs
        report(args)


if __name__ == "__main__":
    main()
