"""Different systems together: run by hand, `python asv_bench/protocols/composing.py --help`.

`moves`: sweeps of FastEx with split-merge moves between them, the number of clusters unknown, beside each part alone;
the kernel that is named first takes the first step.
`starts`: a sparse variational start, then exact sampling, beside exact sampling from other starts; the seconds of a
start count. `candidates`: variational passes over near clusters, beside passes over all clusters.
`hierarchy`: a tree over the clusters that a sampler found. Seconds are wall clock of starts and steps alone, CPU
seconds where said; scores and pictures are not timed. Generated data are those of benchmarks/data.py; real ones are not
shipped: DIR holds text/*.npz and dense/*.npz.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from generated import data as generated
from real_data import load
from reports import clocks, print_table, report, timed_step
from sklearn.metrics import normalized_mutual_info_score
from split_merge import Problem

from expfam import (
    BayesianHierarchy,
    Dataset,
    DiagonalGaussian,
    MixtureModel,
    Multinomial,
    SphericalGaussian,
    SymmetricDirichlet,
    ZeroMeanGaussian,
)
from expfam.samplers import (
    CollapsedGibbs,
    Cycle,
    FastEx,
    Full,
    SparseVariational,
    SplitMerge,
    merged_labels,
    starting_labels,
)

KERNELS = {
    "Gibbs": CollapsedGibbs,
    "FastEx": FastEx,
    "split-merge": SplitMerge,
    "split-merge and Gibbs": lambda: Cycle(SplitMerge(), CollapsedGibbs()),
    "split-merge and FastEx": lambda: Cycle(SplitMerge(), FastEx()),
    "FastEx and split-merge": lambda: Cycle(FastEx(), SplitMerge()),
}
TEXTS, VECTORS = (
    ("documents", "googlenews", "searchsnippets", "stackoverflow", "tweet"),
    ("vectors", "birch1", "letter_recognition"),
)


# ---- what the protocols share ----------------------------------------------------------------------------------------


def problem_of(name, args):
    """Model under a Dirichlet process, data and true labels of a named data set."""
    if name == "documents":
        X, labels = generated.zipf_documents(args.rows, args.clusters, n_words=5000, mean_length=30)
    elif name == "vectors":
        X, labels = generated.gaussians(args.rows, args.clusters, separation=1.5, exponent=0.0)
    else:
        X, labels = load(args.data, name)
    return Problem(X, labels, Multinomial(concentration=0.1) if name in TEXTS else DiagonalGaussian())


def run(kernel, problem, labels, seconds, *, spent=0.0, seed=0):
    """Log joint and clusters after each step for so many seconds; those of the start are counted before them."""
    begin = clocks()
    state = kernel.init(problem.model, problem.data, seed=seed, start=labels)
    spent += float((clocks() - begin)[1])
    points, end = [point(state, spent)], spent + seconds
    while spent < end:
        spent += float(timed_step(kernel, state)[1][1])
        points.append(point(state, spent))
    return points, state


def point(state, spent):
    """What is known now."""
    if not np.isfinite(state.log_joint):
        raise FloatingPointError(f"log joint {state.log_joint} after {state.n_steps} steps")
    return {"seconds": spent, "log joint": state.log_joint, "clusters": state.n_clusters}


def with_times(rows, curves, share):
    """The rows with the seconds until the best log joint of all runs is nearer than a share of its size."""
    best = max(p["log joint"] for points in curves for p in points)
    level = best - share * abs(best)
    word = f"s to {share:.1%} of the best"
    for row, points in zip(rows, curves):
        row[word] = next((p["seconds"] for p in points if p["log joint"] >= level), None)
    return rows


def row_of(points, state, problem):
    """What a run ended with."""
    nmi = normalized_mutual_info_score(problem.labels, state.partition)
    return {"log joint": points[-1]["log joint"], "clusters": points[-1]["clusters"], "NMI": float(nmi)} | {
        "steps": len(points) - 1
    }


def timed(name, rows, curves, problem, args):
    """Rows of one data set with the times of `with_times`."""
    print(f"{name}: {problem.data}; log joint of the true classes {problem.truth:.0f}")
    return with_times(rows, curves, args.share)


def drawn(table, panels, args):
    """Print and draw all data sets; return what the report keeps."""
    print_table(table)
    draw(args, panels, "clusters")
    return {"rows": table, "curves": panels}


# ---- protocols -------------------------------------------------------------------------------------------------------


def moves(args):
    """Log joint and clusters against seconds, K unknown: Gibbs, FastEx, split-merge, and these in cycles."""
    table, panels = [], {}
    for name in args.data_sets:
        problem, rows = problem_of(name, args), []
        labels = starting_labels(args.start, problem.model, problem.data, seed=args.seed)
        panels[name] = {}
        for title in args.kernels:
            points, state = run(KERNELS[title](), problem, labels, args.seconds, seed=args.seed)
            panels[name][title] = points
            rows.append({"data": name, "kernel": title} | row_of(points, state, problem))
            print_table(rows[-1:])
        table += timed(name, rows, panels[name].values(), problem, args)
    return drawn(table, panels, args)


def starts(args):
    """Time to a log joint from a sparse variational start, its clusters merged or not, and from other starts."""
    table, panels = [], {}
    for name in args.data_sets:
        problem, rows = problem_of(name, args), []
        panels[name] = {}
        for start in args.starts:
            labels, spent = made_start(start, problem, args)
            kernel = Cycle(SplitMerge(), CollapsedGibbs()) if args.split_merge else CollapsedGibbs()
            points, state = run(kernel, problem, labels, args.seconds, spent=spent, seed=args.seed)
            panels[name][start] = points
            first = {"s of the start": spent, "log joint of it": points[0]["log joint"], "its K": points[0]["clusters"]}
            rows.append({"data": name, "start": start} | first | row_of(points, state, problem))
            print_table(rows[-1:])
        table += timed(name, rows, panels[name].values(), problem, args)
    return drawn(table, panels, args)


def made_start(start, problem, args):
    """Labels and their wall seconds."""
    begin, model, data = clocks(), problem.model, problem.data
    if not start.startswith("variational"):
        n_clusters = args.truncation if start in ("random", "kmeans++") else None
        labels = starting_labels(start, model, data, seed=args.seed, n_clusters=n_clusters)
        return labels, float((clocks() - begin)[1])
    passes = SparseVariational(truncation=args.truncation, schedule=Full())
    state = passes.init(model, data, seed=args.seed, n_clusters=args.truncation)
    for _ in range(args.passes):
        passes.step(state)
        if passes.is_done(state):
            break
    passes.finish(state)
    labels = merged_labels(model, data, state.labels) if start.endswith("merged") else state.labels
    return labels, float((clocks() - begin)[1])


KINDS = {
    "dense": {"n_active": None, "n_candidates": None},
    "all": {"n_candidates": None},
    "graph": {},
}


def candidates(args):
    """Measure the bound against CPU seconds of passes over all or over near clusters; L = 4 but for "dense"."""
    table, panels = [], {}
    for K in args.clusters:
        X, family = matrix_of(args.data_set, args.rows, K, args)
        data = Dataset(X, family)
        model = MixtureModel(data.family, SymmetricDirichlet(K)).bind(data)
        labels = starting_labels("kmeans++", model, data, seed=args.seed, n_clusters=K)
        panels[f"{args.data_set}, K = {K}"] = curves = {}
        of_size = []
        for kind in args.kinds:
            settings = {"n_candidates": args.near} | KINDS[kind]
            kernel = SparseVariational(tol=0.0, schedule=Full(), n_threads=args.threads, **settings)
            state = kernel.init(model, data, seed=args.seed, start=labels)
            curves[kind], last_outside = [], []
            spent = 0.0
            for _ in range(args.passes):
                info, took = timed_step(kernel, state)
                spent += float(took[0])
                curves[kind].append({"seconds": spent, "bound": info.objective / data.n_rows})
                last_outside.append(info.extra["n_last_outside"] / (4 * data.n_rows))
            last = np.diff([p["seconds"] for p in curves[kind]])[-args.passes // 2 :]
            kernel.finish(state)
            row = {"data": args.data_set, "N": data.n_rows, "K": K, "F": data.n_statistics, "clusters": kind}
            row |= {"CPU us a row, later passes": 1e6 * float(np.median(last)) / data.n_rows, "CPU s": spent}
            row |= {"bound": curves[kind][-1]["bound"], "last last_outside": last_outside[-1]}
            of_size.append(row | {"after a full pass": state.log_joint / data.n_rows})
            print_table(of_size[-1:])
        for key in ("bound", "after a full pass"):
            best = max(row[key] for row in of_size)
            for row in of_size:
                row[f"{key}, below the best"] = best - row.pop(key)
        table += of_size
    print_table(table)
    if args.figure:
        from figures import draw_systems

        draw_systems(panels, {"bound": "lower bound (nats a row)"}, "CPU seconds", args.figure)
    return {"rows": table, "curves": panels}


def matrix_of(name, n_rows, K, args):
    """Rows and family."""
    if name == "documents":
        return generated.zipf_documents(n_rows, K, n_words=args.words, mean_length=60)[0], Multinomial(
            concentration=0.1
        )
    if name == "patches":
        from variational import sample_patches, without_constant

        P = sample_patches(1)
        P = P[np.random.default_rng(args.seed).permutation(len(P))[:n_rows]]
        return (P - P.mean(axis=1, keepdims=True)) @ without_constant(P.shape[1]), ZeroMeanGaussian()
    X = generated.nested_gaussians(n_rows, K, n_features=args.features, separation=args.separation)[0]
    return X, SphericalGaussian(variance="shared") if name == "spherical" else DiagonalGaussian()


def hierarchy(args):
    """Trees over the clusters of samplers: seconds, evidence, and cuts of many rows, which alone would be too many."""
    rows, best = [], None
    problem = problem_of(args.data_set, args)
    for title in args.kernels:
        labels = starting_labels("variational", problem.model, problem.data, seed=args.seed)
        points, state = run(KERNELS[title](), problem, labels, args.seconds, seed=args.seed)
        tree = BayesianHierarchy(problem.data.family, start=state.partition, n_threads=args.threads)
        begin = clocks()
        tree.fit(problem.data.X)
        took = float((clocks() - begin)[1])
        row = {"leaves from": title, "rows": problem.data.n_rows, "s of sampling": points[-1]["seconds"]}
        row |= {"leaves": state.n_clusters, "s of the tree": took, "log joint of leaves": state.log_joint}
        row |= {"log evidence of the tree": tree.log_evidence_}
        rows.append(row | cuts_of(tree, state, problem))
        print_table(rows[-1:])
        if best is None or tree.log_evidence_ > best.log_evidence_:
            best = tree
    print_table(rows)
    if args.figure:
        from figures import draw_dendrogram

        draw_dendrogram(best, args.figure)
    return {"rows": rows}


def cuts_of(tree, state, problem):
    """Clusters and agreement with the classes of the leaves and of three cuts."""
    of_leaf = tree.leaf_
    K = len(np.unique(problem.labels))
    found = {"leaves": state.partition, "odds": tree.labels_, "map": tree.tree_.cut("map")[of_leaf]}
    if tree.tree_.n_leaves >= K:
        found["true K"] = tree.tree_.cut(n_clusters=K)[of_leaf]
    row = {f"K, {name}": len(np.unique(labels)) for name, labels in found.items() if name not in ("leaves", "true K")}
    return row | {f"NMI, {name}": normalized_mutual_info_score(problem.labels, v) for name, v in found.items()}


def draw(args, panels, second):
    if args.figure:
        from figures import draw_systems

        draw_systems(panels, {"log joint": "log joint (nats)", second: second}, "seconds", args.figure)


# ---- command line ----------------------------------------------------------------------------------------------------


def parser():
    """Sub-commands and their options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data", type=Path, default=Path("data"), help="directory with text/ and dense/")
    common.add_argument("--seed", type=int, default=0)
    common.add_argument("--threads", type=int, default=1)
    common.add_argument("--figure", type=Path, metavar="PATH", help="draw the results there")
    common.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="protocol", required=True)

    def add(protocol, *, rows, seconds=None, sets=None, clusters=None):
        command = commands.add_parser(protocol.__name__, parents=[common], help=protocol.__doc__)
        command.set_defaults(run=protocol)
        command.add_argument("--rows", type=int, default=rows, help="of generated data")
        if seconds:
            command.add_argument("--seconds", type=float, default=seconds, help="of each run, start not counted")
        if clusters:
            command.add_argument("--clusters", type=int, default=clusters, help="of generated data")
        if sets:
            choices = [*TEXTS, *VECTORS]
            command.add_argument("--data-sets", nargs="+", choices=choices, default=sets)
            command.add_argument("--share", type=float, default=0.001, help="of the best log joint, for the times")
        return command

    command = add(moves, rows=20_000, seconds=5.0, sets=["documents", "vectors"], clusters=200)
    command.add_argument("--kernels", nargs="+", choices=list(KERNELS), default=list(KERNELS))
    command.add_argument("--start", default="auto", help="name of a start")
    command = add(starts, rows=20_000, seconds=5.0, sets=["documents", "vectors"], clusters=200)
    names = ["variational", "variational, merged", "kmeans++", "random", "one"]
    command.add_argument("--starts", nargs="+", choices=[*names, "sequential"], default=names)
    command.add_argument("--truncation", type=int, default=400, help="components of the variational and other starts")
    command.add_argument("--passes", type=int, default=15, help="variational passes at most")
    command.add_argument("--split-merge", action="store_true", help="sample with split-merge moves too")
    command = add(candidates, rows=40_000)
    command.add_argument("--clusters", type=int, nargs="+", default=[1000, 4096])
    command.add_argument("--data-set", choices=["spherical", "diagonal", "documents", "patches"], default="spherical")
    command.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    command.add_argument("--near", type=int, default=48, help="candidates of a row")
    command.add_argument("--passes", type=int, default=8)
    command.add_argument("--features", type=int, default=32)
    command.add_argument("--words", type=int, default=20_000)
    command.add_argument("--separation", type=float, default=1.0, help="finest scale of generated centres")
    command = add(hierarchy, rows=100_000, seconds=10.0, clusters=200)
    command.add_argument("--data-set", choices=[*TEXTS, *VECTORS], default="vectors")
    kernels = ["Gibbs", "split-merge and FastEx"]
    command.add_argument("--kernels", nargs="+", choices=list(KERNELS), default=kernels)
    return top


def main():
    """Run one of the protocols."""
    warnings.filterwarnings("ignore", message=".*rows? (is|are) empty")
    report(parser().parse_args())


if __name__ == "__main__":
    main()
