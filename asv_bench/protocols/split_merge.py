"""Split-merge samplers beside each other, plain Gibbs and scikit-learn.

Run by hand: `python asv_bench/protocols/split_merge.py --help`.

Kernels are named: "gibbs", or a preset of `SplitMerge` ("auto", "minsm", "lshsm", "sdds", "rgsm", "random",
"mondrian"), which takes turns with Gibbs sweeps so that these get a share of the seconds; every kernel is reported at
the best of the shares that are tried. "cycle" is Cycle(SplitMerge(), CollapsedGibbs()), which sets its own share by
counted work, as `Mixture` uses it. All models are mixtures under a Dirichlet process with alpha = 1: the number of
clusters is unknown. The gap of a state is (truth - now) / (truth - one cluster) in log joint. Seconds are wall clock of
start and steps alone, CPU seconds where said. Luo and Shrivastava's table 1 is printed beside ours: other data of the
same kind. Real data are not shipped: DIR holds text/*.npz and dense/*.npz.
"""

import argparse
import math
import statistics
import warnings
from pathlib import Path

import numpy as np
from generated import data as generated
from real_data import load
from reports import clocks, print_table, report, timed_step
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score

from expfam import Dataset, DiagonalGaussian, DirichletProcess, Gaussian, MixtureModel, Multinomial
from expfam.samplers import (
    CollapsedGibbs,
    CollapsedState,
    Cycle,
    SparseVariational,
    SplitMerge,
    merged_labels,
    starting_labels,
)
from expfam.samplers.chain.diagnostics import bulk_ess, rhat

GIBBS, CYCLE = "gibbs", "cycle"
RIVAL = "BayesianGaussianMixture, 2 K"
PRESETS = ("auto", "minsm", "lshsm", "sdds", "rgsm", "random", "mondrian")
LEVELS = (0.1, 0.01, 0.001)
_FEWEST_DRAWS = 4  # of a chain, for an effective sample size
_N_SETTLING = 200  # steps before those that count, more than kernels adapt in
PAPER = {  # NMI and accuracy on its own S1, S2, S3
    "rgsm": ((0.96, 0.95), (0.93, 0.92), (0.88, 0.87)),
    "sdds": ((0.97, 0.98), (0.96, 0.97), (0.95, 0.94)),
    "lshsm": ((0.96, None), (0.95, None), (0.96, None)),
    "minsm": ((0.96, None), (0.94, None), (0.96, None)),
}


# ---- what the protocols share ----------------------------------------------------------------------------------------


class Problem:
    """Bound model and data, true labels, and the two log joints that the gap is measured with."""

    def __init__(self, X, labels, family=None):
        self.data = Dataset(X, family or DiagonalGaussian())
        self.model = MixtureModel(self.data.family, DirichletProcess()).bind(self.data)
        self.labels = np.unique(labels, return_inverse=True)[1]
        self.truth, self.one = self.log_joint(self.labels), self.log_joint(np.zeros_like(self.labels))

    def log_joint(self, labels):
        """Log joint of labels, nats."""
        return CollapsedState(self.model, self.data, labels, seed=0).log_joint

    def gap(self, log_joint):
        """Share of what the true labels gain over one cluster that is still missing."""
        return (self.truth - log_joint) / (self.truth - self.one)

    def start(self, name, seed):
        """Labels of a start by name, "truth" and "shattered" among them, and (CPU, wall) seconds of making them."""
        if name == "truth":
            return self.labels, np.zeros(2)
        if name == "shattered":
            return generated.shattered(self.labels, 4, seed=seed), np.zeros(2)
        begin = clocks()
        return starting_labels(name, self.model, self.data, seed=seed), clocks() - begin


def generate(args, seed):
    """Generated rows of equally likely clusters, by the sizes in the arguments."""
    X, labels = generated.gaussians(
        args.rows,
        args.clusters,
        n_features=args.features,
        separation=args.separation,
        exponent=0.0,
        seed=seed,
    )
    return Problem(X, labels)


def build(name, n_moves="auto"):
    """The kernel of a name that takes turns with sweeps, None for sweeps alone; presets make `n_moves` at a time."""
    if name == GIBBS:
        return None
    if name == CYCLE:
        return Cycle(SplitMerge(), CollapsedGibbs())
    if name not in PRESETS:
        raise SystemExit(f"--kernels are {GIBBS!r}, {CYCLE!r} and the presets {', '.join(PRESETS)}; got {name!r}")
    return SplitMerge(name, n_moves=n_moves)


class Chain:
    """A kernel and Gibbs sweeps in turns on one state.

    Sweeps get `share` of the seconds; the kernels of a cycle follow each other. The clock is the key of a point that
    counts them, "seconds" of the wall or "cpu".
    """

    def __init__(self, name, problem, labels, *, seed, share, n_moves="auto", spent=0.0, clock="seconds"):
        self.clock = clock
        kernel = build(name, n_moves)
        self.turns = kernel.kernels if name == CYCLE else None
        self.other, self.gibbs = kernel, CollapsedGibbs()
        maker = self.gibbs if kernel is None else kernel
        begin = clocks()
        self.state = maker.init(problem.model, problem.data, seed=seed, start=labels)
        self.share, self.problem = share, problem
        self.spent = spent + clocks() - begin
        self.in_gibbs = self.in_other = 0.0
        self.moves = self.n_steps = 0

    def next_kernel(self):
        """Whose turn it is: one sweep or one batch of moves, so that all are looked at equally often."""
        if self.turns is not None:
            return self.turns[self.n_steps % len(self.turns)]
        is_sweep = self.other is None or self.in_gibbs < self.share * (self.in_gibbs + self.in_other)
        return self.gibbs if is_sweep else self.other

    def step(self):
        """One sweep or one batch of moves: its Info."""
        kernel = self.next_kernel()
        info, took = timed_step(kernel, self.state)
        self.spent = self.spent + took
        counted = took[0] if self.clock == "cpu" else took[1]
        if kernel is self.gibbs:
            self.in_gibbs += counted
        else:
            self.in_other += counted
        self.moves += info.proposed
        self.n_steps += 1
        return info

    def point(self):
        """What is known now."""
        log_joint = self.state.log_joint
        if not math.isfinite(log_joint):
            raise FloatingPointError(f"log joint {log_joint} after {self.state.n_steps} steps")
        return {
            "seconds": float(self.spent[1]),
            "cpu": float(self.spent[0]),
            "moves": self.moves,
            "log_joint": log_joint,
            "clusters": self.state.n_clusters,
            "gap": self.problem.gap(log_joint),
        }

    def climb(self, seconds, level=None):
        """Points after each step until so many seconds are spent, or the gap is at most `level`."""
        points = [self.point()]
        while points[-1][self.clock] < seconds and (level is None or points[-1]["gap"] > level):
            self.step()
            points.append(self.point())
        return points


def turns(args):
    """How a kernel and sweeps take turns, and how long, by the arguments."""
    return {"share": args.share, "n_moves": args.moves or "auto", "seconds": args.seconds}


def climb(name, problem, start, *, seed, share, seconds, n_moves="auto", level=None, clock="seconds"):
    """A chain from a named start: its points and its last state; `seconds` are by the wall clock, or of the "cpu"."""
    labels, spent = problem.start(start, seed)
    chain = Chain(name, problem, labels, seed=seed, share=share, n_moves=n_moves, spent=spent, clock=clock)
    return chain.climb(seconds, level), chain.state


def time_to(points, level, key="seconds"):
    """When the gap first was at most `level`; None if never."""
    return next((p[key] for p in points if p["gap"] <= level), None)


def median_of(times):
    """Median with those that never arrived as the longest; None if it is one of them."""
    middle = statistics.median(math.inf if t is None else t for t in times)
    return middle if math.isfinite(middle) else None


def spread(times):
    """Shortest and longest of the times, and how many arrived, as text."""
    there = [t for t in times if t is not None]
    return f"{min(there):.3g}-{max(there):.3g} ({len(there)}/{len(times)})" if there else f"0/{len(times)}"


def shares_of(name, shares):
    """Shares of Gibbs sweeps to try for a kernel; the cycle has its own."""
    return {GIBBS: [1.0], CYCLE: [0.0]}.get(name, shares)


def scores(found, labels):
    """NMI over the geometric mean of the entropies, and accuracy under the best matching of clusters to classes."""
    nmi = normalized_mutual_info_score(labels, found, average_method="geometric")
    table = np.zeros((labels.max() + 1, found.max() + 1))
    np.add.at(table, (labels, found), 1)
    rows, columns = linear_sum_assignment(-table)
    return {"NMI": float(nmi), "accuracy": float(table[rows, columns].sum() / len(labels))}


# ---- protocols -------------------------------------------------------------------------------------------------------


def table1(args):
    """The paper's table: agreement with the classes on S1, S2, S3-like data after a budget of seconds."""
    rows = []
    for place, n_rows in enumerate(args.sizes):
        args.rows = n_rows
        for name in args.kernels:
            found = []
            for seed in range(args.seeds):
                problem = generate(args, seed)
                points, state = climb(name, problem, args.start, seed=seed, **turns(args))
                to_1 = time_to(points, 0.01)
                found.append(scores(state.partition, problem.labels) | {"clusters": state.n_clusters, "s to 1 %": to_1})
            paper = PAPER.get(name, ((None, None),) * 3)
            rows.append(
                {"N": n_rows, "kernel": name}
                | {key: statistics.median(f[key] for f in found) for key in ("NMI", "accuracy", "clusters")}
                | {"s to 1 %": median_of([f["s to 1 %"] for f in found])}
                | {
                    f"paper's {what}": "" if value is None else value
                    for what, value in zip(("NMI", "accuracy"), paper[min(place, 2)])
                }
            )
    print_table(rows)
    return {"rows": rows}


def gap(args):
    """Seconds to 10, 1 and .1 % of the gap, median and range over seeds, each kernel at its best Gibbs share."""
    rows, tried = [], []
    problems = [generate(args, seed) for seed in range(args.seeds)]
    for name in args.kernels:
        of_name = []
        for share in shares_of(name, args.shares):
            settings = turns(args) | {"share": share, "level": min(LEVELS)}
            curves = [climb(name, p, args.start, seed=seed, **settings)[0] for seed, p in enumerate(problems)]
            of_name.append(gap_row(name, share, curves))
        tried += of_name
        rows.append(
            min(
                of_name,
                key=lambda row: [
                    math.inf if row[f"s to {x:.1%}"] is None else row[f"s to {x:.1%}"] for x in (0.01, 0.1, 0.001)
                ],
            )
        )
    print(f"{problems[0].data}, K={args.clusters}, start {args.start}, {args.seconds:g} s a run, {args.seeds} seeds")
    print_table(rows)
    if len(tried) > len(rows):
        print("all shares")
        print_table(tried)
    return {"rows": rows, "tried": tried}


def gap_row(name, share, curves):
    """One kernel at one share."""
    row = {"kernel": name, "Gibbs share": share}
    for level in LEVELS:
        times = [time_to(points, level) for points in curves]
        row |= {f"s to {level:.1%}": median_of(times), f"range, {level:.1%}": spread(times)}
    last = [points[-1] for points in curves]
    rate = statistics.median(p["moves"] / max(p["seconds"], 1e-9) for p in last)
    return row | {"moves/s": rate, "last gap": statistics.median(p["gap"] for p in last)}


def twin(args):
    """A generated twin of KDDCUP04Bio, from one cluster, from shattered ones, and from the variational start."""
    problem, rows = generate(args, 0), []
    print(f"{problem.data}, K={args.clusters}, log joint of the truth {problem.truth:.0f}", flush=True)
    for start in args.starts:
        for name in args.kernels:
            points, state = climb(name, problem, start, seed=0, **turns(args), level=min(LEVELS))
            row = {"start": start, "kernel": name, "s of the start": points[0]["seconds"]}
            row |= {f"s to {level:.1%}": time_to(points, level) for level in LEVELS}
            row |= {"gap at first": points[0]["gap"], "last gap": points[-1]["gap"], "clusters": state.n_clusters}
            rows.append(row | scores(state.partition, problem.labels))
            print_table(rows[-1:])
    print_table(rows)
    return {"rows": rows}


def real(args):
    """Real data with the number of clusters unknown: log joint, clusters, NMI, seconds, effective samples a second.

    The gap is measured from the best log joint that any run of the data set has reached: people's classes are passed
    by all. Effective samples are of the second half of the steps; chains that still climb have hardly any.
    """
    rows = []
    for data_set in args.names:
        X, labels = load(args.data, data_set)
        is_text = (args.data / "text" / f"{data_set}.npz").exists()
        family = Multinomial(concentration=0.1) if is_text else Gaussian() if args.full else DiagonalGaussian()
        problem = Problem(X, labels, family)
        print(
            f"{data_set}: log joint of the gold classes {problem.truth:.0f}, K={problem.labels.max() + 1}", flush=True
        )
        runs = {}
        for start in args.starts:
            for name in args.kernels:
                climbs = [climb(name, problem, start, seed=seed, **turns(args)) for seed in range(args.seeds)]
                ends = [scores(state.partition, problem.labels)["NMI"] for _, state in climbs]
                runs[start, name] = [points for points, _ in climbs], statistics.median(ends)
                print_table([{"start": start, "kernel": name} | climbs[0][0][-1]])
        best = max(p["log_joint"] for curves, _ in runs.values() for points in curves for p in points)
        of_set = [{"data": data_set} | real_row(*key, *run, best, problem.one) for key, run in runs.items()]
        print_table(of_set)
        rows += of_set
    print_table(rows)
    return {"rows": rows}


def real_row(start, name, curves, nmi, best, one):
    """Medians over the runs of one start and kernel; `best` is the log joint without a gap."""
    last = [points[-1] for points in curves]
    row = {"start": start, "kernel": name, "NMI": nmi}
    row |= {key: statistics.median(p[key] for p in last) for key in ("log_joint", "clusters", "seconds")}
    row["s of the start"] = statistics.median(points[0]["seconds"] for points in curves)
    for level in LEVELS:
        enough = best - level * (best - one)
        times = [next((p["seconds"] for p in points if p["log_joint"] >= enough), None) for points in curves]
        row[f"s to {level:.1%}"] = median_of(times)
    chains = second_halves(curves)
    for place, what in enumerate(("log joint", "clusters")):
        row[f"ESS/s of {what}"] = effective_rate(chains, place) if chains else None
    return row


def second_halves(curves):
    """Log joint and number of clusters in the second half of the steps, as long for all, and their CPU seconds.

    None of any where one has fewer steps than an effective sample size can be of.
    """
    n = min(len(points) // 2 for points in curves)
    if n < _FEWEST_DRAWS:
        return []
    halves = [points[len(points) - n - 1 :] for points in curves]
    return [
        (
            np.array([[p["log_joint"] for p in half[1:]], [p["clusters"] for p in half[1:]]]),
            half[-1]["cpu"] - half[0]["cpu"],
        )
        for half in halves
    ]


def equilibrium(args):
    """Effective samples a CPU second of log joint and number of clusters, beside plain Gibbs, on data where it mixes.

    All chains are of one posterior and begin at the truth, each with the settings it has adapted. Kernels take turns
    chain by chain. The effective sample size is that of all chains of a kernel together (Vehtari et al. 2021);
    intervals of 95 % are by the jackknife over chains, which for the ratio leaves out one of each kernel. Where means
    differ or R-hat is above 1.01 Gibbs does not mix, and its rate is of the modes that it never leaves.
    """
    if args.seeds < 2:
        raise SystemExit(
            f"equilibrium: intervals are by leaving out chains, so --seeds must be at least 2; got {args.seeds}"
        )
    problem, rows = easy_problem(args), []
    chains = {name: [settled_chain(name, problem, seed) for seed in range(args.seeds)] for name in args.kernels}
    n_steps = {name: steps_within(chains[name][0], args.seconds) for name in args.kernels}
    draws = {name: [] for name in args.kernels}
    for seed in range(args.seeds):
        for name in args.kernels:
            draws[name].append(recorded(*chains[name][seed], n_steps[name]))
    for name in args.kernels:
        for place, what in enumerate(("log joint", "clusters")):
            row = {"kernel": name, "of": what, "steps a chain": n_steps[name]}
            row |= {"us a step": 1e6 * sum(took for _, took in draws[name]) / (args.seeds * n_steps[name])}
            values = [points[place] for points, _ in draws[name]]
            row |= {"mean": float(np.mean(values)), "R-hat": rhat(values), "ESS/s": effective_rate(draws[name], place)}
            if GIBBS in draws:
                ratio, low, high = jackknifed(draws[name], draws[GIBBS], place)
                row |= {f"x {GIBBS}": ratio, "from": low, "to": high}
            rows.append(row)
    print(f"{problem.data}, K={args.clusters}, overlap {args.overlap:g}, {args.seeds} chains")
    print_table(rows)
    return {"rows": rows}


def easy_problem(args):
    """Generated rows of clusters that lie apart, but for two with means at the distance `--overlap`; 0 for none."""
    X, labels = generated.gaussians(
        args.rows, args.clusters, n_features=args.features, separation=args.separation, exponent=0.0, seed=0
    )
    if args.overlap > 0:
        shift = args.overlap / math.sqrt(args.features)
        X[labels == 1] += X[labels == 0].mean(axis=0) - X[labels == 1].mean(axis=0) + shift
    return Problem(X, labels)


def settled_chain(name, problem, seed):
    """A chain from the truth after its adaptation: the kernel with what it has adapted, and the state."""
    kernel = build(name) or CollapsedGibbs()
    state = kernel.init(problem.model, problem.data, seed=seed, start=problem.labels)
    for _ in range(_N_SETTLING):
        kernel.step(state)
    return kernel.frozen(state), state


def steps_within(chain, seconds):
    """How many steps a chain makes in so many CPU seconds; at least 20."""
    spent = sum(timed_step(*chain)[1][0] for _ in range(_N_SETTLING))
    return max(20, int(_N_SETTLING * seconds / max(spent, 1e-9)))


def recorded(kernel, state, n_steps):
    """Log joint and number of clusters after each step, (2, n_steps), and CPU seconds."""
    points, begin = np.empty((2, n_steps)), clocks()[0]
    for step in range(n_steps):
        kernel.step(state)
        points[:, step] = state.log_joint, state.n_clusters
    return points, clocks()[0] - begin


def effective_rate(chains, place):
    """Effective samples a second of all chains together; 0 where nothing ever changes."""
    size = bulk_ess([points[place] for points, _ in chains])
    return float(np.nan_to_num(size)) / sum(took for _, took in chains)


def jackknifed(chains, others, place):
    """Ratio of two kernels' effective samples a second, and the ends of its 95 % interval."""
    logs = []
    for left_out in range(-1, len(chains)):
        of = [[c for n, c in enumerate(kind) if n != left_out] for kind in (chains, others)]
        logs.append(np.log(effective_rate(of[0], place)) - np.log(effective_rate(of[1], place)))
    whole, parts = logs[0], np.array(logs[1:])
    n = len(parts)
    half = 1.96 * math.sqrt((n - 1) / n * ((parts - parts.mean()) ** 2).sum())
    return tuple(float(x) for x in np.exp([whole, whole - half, whole + half]))


def peer(args):
    """CPU and wall seconds until the log joint of the truth is passed: scikit-learn's rival, and our starts.

    Of all seeds, then medians, those that never arrive as the longest; `x rival` above 1 is sooner than the rival.
    """
    rows = []
    for seed in range(args.seeds):
        problem = generate(args, seed)
        rows.append({"seed": seed, "method": RIVAL} | rival(problem, args, seed))
        rows.append({"seed": seed, "method": "SparseVariational, 2 K"} | variational(problem, args, seed))
        for start in args.starts:
            for name in args.kernels:
                points, state = climb(name, problem, start, seed=seed, **turns(args), level=0.0)
                reached = {"CPU s": time_to(points, 0.0, "cpu"), "wall s": time_to(points, 0.0)}
                rest = {"last gap": points[-1]["gap"], "clusters": state.n_clusters}
                rows.append({"seed": seed, "method": f"{start}, then {name}"} | reached | rest)
    print(f"{problem.data}, K={args.clusters}; seconds until the truth's log joint is passed")
    print_table(rows)
    medians = medians_of(rows)
    print(f"medians of {args.seeds} seeds")
    print_table(medians)
    return {"rows": rows, "medians": medians}


def medians_of(rows):
    """Of each method over its seeds: median and range of CPU seconds, last gap, clusters, and how much sooner it is."""
    medians = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        times = [row["CPU s"] for row in own]
        row = {"method": method, "CPU s": median_of(times), "range": spread(times)}
        medians.append(row | {key: statistics.median(r[key] for r in own) for key in ("last gap", "clusters")})
    theirs = next(row["CPU s"] for row in medians if row["method"] == RIVAL)
    for row in medians:
        row["x rival"] = None if None in (row["CPU s"], theirs) else theirs / row["CPU s"]
    return medians


def rival(problem, args, seed):
    """Variational iterations, five at a time, until their labels have the truth's log joint; labels are not timed."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    mixture = BayesianGaussianMixture(
        n_components=2 * args.clusters,
        covariance_type="diag",
        init_params="k-means++",
        warm_start=True,
        max_iter=5,
        random_state=seed,
    )
    spent, gap_now, n_clusters = np.zeros(2), math.inf, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        while gap_now > 0 and spent[0] < args.seconds and not getattr(mixture, "converged_", False):
            begin = clocks()
            mixture.fit(problem.data.X)
            spent += clocks() - begin
            found = mixture.predict(problem.data.X)
            gap_now, n_clusters = problem.gap(problem.log_joint(found)), np.unique(found).size
    cpu, wall = (float(s) if gap_now <= 0 else None for s in spent)
    return {"CPU s": cpu, "wall s": wall, "last gap": gap_now, "clusters": n_clusters}


def variational(problem, args, seed):
    """Passes of our own variational sampler from k-means++, until labels merged greedily have the truth's log joint."""
    kernel, begin = SparseVariational(truncation=2 * args.clusters), clocks()
    state = kernel.init(problem.model, problem.data, seed=seed, n_clusters=2 * args.clusters)
    spent = clocks() - begin
    while True:
        spent += timed_step(kernel, state)[1]
        begin = clocks()
        found = merged_labels(problem.model, problem.data, state.labels)
        merging = clocks() - begin
        gap_now = problem.gap(problem.log_joint(found))
        if gap_now <= 0 or spent[0] > args.seconds or kernel.is_done(state):
            break
    cpu, wall = (float(s) if gap_now <= 0 else None for s in spent + merging)
    return {"CPU s": cpu, "wall s": wall, "last gap": gap_now, "clusters": np.unique(found).size}


def figure(args):
    """Log joint against moves and against seconds, as a PNG."""
    from figures import draw_climbs

    problem, curves = generate(args, 0), []
    for seed in range(args.seeds):
        curves.append({name: climb(name, problem, args.start, seed=seed, **turns(args))[0] for name in args.kernels})
    draw_climbs(curves, problem.truth, args.png)
    print(f"{args.png}: {problem.data}, K={args.clusters}, start {args.start}")
    return {"curves": curves, "truth": problem.truth}


# ---- command line ----------------------------------------------------------------------------------------------------


def parser():
    """Sub-commands and their options."""
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="protocol", required=True)
    presets = ["gibbs", "random", "rgsm", "sdds", "lshsm", "minsm", "auto", "cycle"]

    def add(protocol, *, seconds, kernels=presets, seeds=5, sizes=None):
        command = commands.add_parser(protocol.__name__, help=protocol.__doc__.replace("%", "%%"))
        command.set_defaults(run=protocol)
        command.add_argument("--kernels", nargs="+", default=kernels)
        command.add_argument("--seconds", type=float, default=seconds, help="of each run")
        command.add_argument("--seeds", type=int, default=seeds, help="number of repetitions")
        command.add_argument("--share", type=float, default=0.8, help="of the seconds that Gibbs sweeps get")
        command.add_argument(
            "--moves", type=int, metavar="N", help="moves of a preset's batch; its own number if left out"
        )
        command.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
        for name, value in (sizes or {}).items():
            command.add_argument(f"--{name}", type=type(value), default=value)
        return command

    plain = {"rows": 10_000, "clusters": 50, "features": 16, "separation": 1.5}
    paper = {"clusters": 10, "features": 25, "separation": 2.0}
    command = add(table1, seconds=2.0, sizes=paper)
    command.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000])
    command.add_argument("--start", default="one")
    command = add(gap, seconds=8.0, sizes=plain)
    command.add_argument("--shares", type=float, nargs="+", default=[0.8], help="Gibbs shares to choose the best of")
    command.add_argument("--start", default="one", help="name of a start, truth or shattered")
    command = add(
        twin,
        seconds=60.0,
        kernels=["gibbs", "cycle"],
        seeds=1,
        sizes={"rows": 145_751, "clusters": 2000, "features": 74, "separation": 1.0},
    )
    command.add_argument("--starts", nargs="+", default=["one", "shattered", "variational"])
    command = add(real, seconds=20.0, kernels=["gibbs", "cycle"], seeds=1)
    command.add_argument("--names", nargs="+", default=["birch1", "letter_recognition", "googlenews", "tweet"])
    command.add_argument("--starts", nargs="+", default=["auto", "variational"])
    command.add_argument("--full", action="store_true", help="full covariances for vectors")
    command.add_argument("--data", type=Path, default=Path("data"), help="directory with text/ and dense/")
    add(
        equilibrium,
        seconds=8.0,
        kernels=["gibbs", "cycle"],
        seeds=12,
        sizes={"rows": 1000, "clusters": 8, "features": 4, "separation": 6.0, "overlap": 0.0},
    )
    command = add(peer, seconds=120.0, kernels=["cycle"], seeds=3, sizes=plain)
    command.add_argument("--starts", nargs="+", default=["kmeans++", "variational"])
    command = add(figure, seconds=5.0, seeds=3, sizes={"rows": 1000} | paper)
    command.add_argument("--start", default="one")
    command.add_argument("--png", type=Path, default=Path("split_merge.png"))
    return top


def main(arguments=None):
    """Run one of the protocols."""
    args = parser().parse_args(arguments)
    if args.seeds < 1:
        raise SystemExit(f"--seeds is a positive number; got {args.seeds}")
    report(args)


if __name__ == "__main__":
    main()
