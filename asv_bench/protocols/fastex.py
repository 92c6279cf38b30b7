"""The FastEx sampler beside its rivals: run by hand, `python asv_bench/protocols/fastex.py --help`.

Protocols: the paper's comparison by variation of information and log joint against time; its table of microseconds a
document; two threads against one; a corpus copied many times. Ahmed, Ravi, Narayanamurthy and Smola 2012, "FastEx: hash
clustering with exponential families", had other corpora and the machines of its day: its figures are printed beside
ours to compare orders of magnitude.

Real data are not shipped: DIR holds text/*.npz (data, indices, indptr, shape, labels). All models are multinomial
mixtures with alpha = 0.1 for each component and, but for table1, concentration 0.1 for each word. CPU seconds are those
of the process, all threads together. Each protocol prints a table and, with --json, writes all it knows, curves too.
"""

import argparse
import gc
import math
import statistics
from pathlib import Path
from time import process_time

import numpy as np
from generated import data as generated
from real_data import load
from reports import clocks, print_table, report, resident, timed_step, with_peak
from scipy import sparse

from expfam import Dataset, MixtureModel, Multinomial, SymmetricDirichlet, variation_of_information
from expfam.forecast.memory import forecast_memory, format_bytes
from expfam.samplers import (
    CollapsedGibbs,
    CollapsedMetropolis,
    FastEx,
    HashProposal,
    TableProposal,
    UncollapsedGibbs,
    starting_labels,
)
from expfam.structures.ground.team import Team

BASELINE, GIBBS, FLOAT_TABLE = "uncollapsed", "gibbs", "float32 table"
PAPER_PROPOSAL = {100: "2.34-2.90", 1000: "18.80-29.12"}  # microseconds a document, l = 8..128
PAPER_TOTAL = {100: "69.5-82.2", 1000: "103.9-114.6"}
PAPER_SPEED_UP = {100: 9.25, 1000: 37.37}
PUBLISHED_MINUTES = 23.2  # dense collapsed Gibbs, googlenews copied 256 times, K = 300, ten sweeps


# ---- what the protocols share ----------------------------------------------------------------------------------------


def problem(X, n_clusters, *, concentration=0.1):
    """Bound model and data, by default of the paper's hyper-parameters."""
    data = Dataset(X, Multinomial(concentration=concentration))
    return MixtureModel(data.family, SymmetricDirichlet(n_clusters, alpha=0.1)).bind(data), data


def drift(state):
    """Log joint recomputed from the statistics, and how far the running one is from it, relative; errors if not finite.

    A figure of a run that has gone wrong is worse than none, hence the error.
    """
    exact = state.compute_log_joint()
    if not (math.isfinite(exact) and math.isfinite(state.log_joint)):
        raise FloatingPointError(f"log joint {exact}, running {state.log_joint}, after {state.n_steps} sweeps")
    return exact, abs(exact - state.log_joint) / max(1.0, abs(exact))


def read_or_make(args):
    """Data matrix and gold labels, of which --documents keeps the first."""
    if args.data_set == "zipf":
        return generated.zipf_documents(args.documents or 100_000, args.clusters)
    X, labels = load(args.data, args.data_set)
    return X[: args.documents], labels[: args.documents]


# ---- the paper's comparison ------------------------------------------------------------------------------------------


def rivals(n_threads):
    """Kernels of the comparison by name; all of one thread but the one that says otherwise."""
    return {
        BASELINE: UncollapsedGibbs(n_threads=1),
        GIBBS: CollapsedGibbs(),
        FLOAT_TABLE: CollapsedMetropolis(TableProposal(dtype="float32"), mode="removed"),
        "FastEx": FastEx(),
        f"FastEx, {n_threads} threads": FastEx(n_threads=n_threads),
        "uint8 table, removed": CollapsedMetropolis(TableProposal(), mode="removed"),
        "hash": CollapsedMetropolis(HashProposal()),
        "hash, published": CollapsedMetropolis(HashProposal(n_bits=64, shortlist=0), mode="published"),
    }


def compare(args):
    """The paper's comparison: the same start and hyper-parameters for all kernels, a curve of each."""
    X, gold = read_or_make(args)
    model, data = problem(X, args.clusters)
    print(f"{args.data_set}: {data}, K={args.clusters}, {args.seconds:g} CPU s a kernel\n", flush=True)
    curves, rows = [], []
    kernels = {name: kernel for name, kernel in rivals(args.threads).items() if chosen(name, args.kernels)}
    for seed in range(args.seeds):
        start = starting_labels("random", model, data, seed=seed)
        of_seed = {
            name: curve_of(kernel, model, data, start, gold, seed, args.seconds) for name, kernel in kernels.items()
        }
        curves.append(of_seed)
        rows.append(summary(of_seed))
        print(f"seed {seed}")
        print_table(rows[-1])
        print_table(speed_ups(rows[-1]))
        if BASELINE in of_seed:
            warn_of_standstill(of_seed[BASELINE], data.n_rows)
    if args.seeds > 1:
        print("medians over seeds, among those that reached the target")
        print_table(medians([speed_ups(of_seed) for of_seed in rows]))
    published = PAPER_SPEED_UP.get(args.clusters)
    print(f"published: {published} times the baseline in CPU time to its final VI (other corpora)")
    return {"rows": rows, "curves": curves, "published": published}


def chosen(name, wanted):
    """Whether a kernel was asked for, by the beginning of its name; exact Gibbs, which sets the mark, always is."""
    return wanted is None or name == GIBBS or any(name.startswith(begin) for begin in wanted)


def curve_of(kernel, model, data, start, gold, seed, seconds):
    """Points after each sweep until `seconds` of CPU are spent; scores are computed while the clocks stand.

    The baseline's own step computes the log joint: it is timed, a small part of its draws of parameters.
    """
    state = kernel.init(model, data, seed=seed, start=start)
    spent, points = np.zeros(2), [point(state, gold, np.zeros(2), accepted=0)]
    while spent[0] < seconds:
        info, took = timed_step(kernel, state)
        spent += took
        points.append(point(state, gold, spent, accepted=info.accepted))
    del state
    gc.collect()
    return points


def point(state, gold, spent, *, accepted):
    """What is known of a state after so many (CPU, wall) seconds."""
    log_joint, error = drift(state)
    return {
        "sweep": state.n_steps,
        "cpu": float(spent[0]),
        "wall": float(spent[1]),
        "log_joint": log_joint,
        "vi": variation_of_information(gold, state.labels),
        "clusters": state.n_clusters,
        "moved": int(accepted),
        "drift": error,
    }


def summary(curves):
    """One row a kernel: where it ended, and when it reached the two targets; the baseline's VI only if that was run."""
    vi = curves[BASELINE][-1]["vi"] if BASELINE in curves else -math.inf
    best = max(p["log_joint"] for p in curves[GIBBS])
    enough = best - 0.001 * abs(best)
    rows = []
    for name, points in curves.items():
        last = points[-1]
        to_vi = first(points, lambda p: p["vi"] <= vi)
        to_joint = first(points, lambda p: p["log_joint"] >= enough)
        rows.append(
            {
                "kernel": name,
                "sweeps": last["sweep"],
                "ms/sweep": 1e3 * last["wall"] / last["sweep"],
                "clusters": last["clusters"],
                "log joint": last["log_joint"],
                "VI": last["vi"],
                f"CPU s to VI {vi:.3f}": to_vi["cpu"],
                "wall s to it": to_vi["wall"],
                f"CPU s to {enough:.0f}": to_joint["cpu"],
                "wall s to that": to_joint["wall"],
                "drift": max(p["drift"] for p in points),
            }
        )
    return rows


def warn_of_standstill(points, n_rows):
    """Say so where the baseline's VI is that of its start: long documents keep its labels in place."""
    moved = sum(p["moved"] for p in points)
    if moved < n_rows:
        print(
            f"note: {moved} moves of the baseline in {points[-1]['sweep']} sweeps over {n_rows} documents: its VI,"
            f" {points[-1]['vi']:.3f}, is near that of the start, {points[0]['vi']:.3f}: a weak target\n"
        )


def first(points, is_there):
    """First point after the start that satisfies a condition; one without times if there is none."""
    return next((p for p in points[1:] if is_there(p)), {"cpu": None, "wall": None})


def speed_ups(rows):
    """How many times faster than the baseline to its VI, and than the faster exact rival to its log joint."""
    columns = list(rows[0])[6:10]
    times = {row["kernel"]: [row[column] for column in columns] for row in rows}
    baseline = times.get(BASELINE, [None] * 4)
    exact = [faster(*(times[name][j] for name in (GIBBS, FLOAT_TABLE) if name in times)) for j in (2, 3)]
    return [
        {
            "kernel": name,
            "x baseline, CPU": ratio(baseline[0], own[0]),
            "x baseline, wall": ratio(baseline[1], own[1]),
            "x faster exact, CPU": ratio(exact[0], own[2]),
            "x faster exact, wall": ratio(exact[1], own[3]),
        }
        for name, own in times.items()
    ]


def faster(*times):
    """The least of the times that there are."""
    return min((t for t in times if t is not None), default=None)


def ratio(reference, own):
    """Speed-up, None where one of the two did not get there."""
    return None if reference is None or own is None else reference / max(own, 1e-9)


def medians(tables):
    """Median of each cell over tables of the same shape, leaving out what was not reached."""
    rows = []
    for same in zip(*tables):
        reached = {key: [row[key] for row in same if row[key] is not None] for key in same[0] if key != "kernel"}
        rows.append(
            {"kernel": same[0]["kernel"]} | {key: statistics.median(v) if v else None for key, v in reached.items()}
        )
    return rows


# ---- microseconds a document -----------------------------------------------------------------------------------------


def table1(args):
    """Proposal and total microseconds a document by length of the codes, beside the paper's."""
    rows = []
    for n_clusters in args.clusters:
        for length in args.lengths:
            fitted = fitted_problem(n_clusters, length, args)
            rows.extend(
                table1_row(name, proposal, fitted, args) for name, proposal in table1_proposals(args.bits).items()
            )
            print_table(rows[-len(args.bits) * 2 - 2 :])
    print("paper: l = 8..128, a machine of 2012, other documents; here l is rounded up to a multiple of 64")
    return {"rows": rows}


def table1_proposals(bits):
    """Proposals by the names of their rows; none for exact Gibbs."""
    proposals = {
        f"hash l={n}, shortlist {shortlist}": HashProposal(n_bits=n, shortlist=shortlist)
        for shortlist in (0, 32)
        for n in bits
    }
    return {GIBBS: None} | proposals | {"uint8 table": TableProposal()}


def fitted_problem(n_clusters, length, args):
    """Generated documents, and labels after a few Gibbs sweeps from the true topics: a state late in a run."""
    n_rows = args.documents or max(20_000, 20 * n_clusters)  # with much fewer most components stand empty
    # distinct topics and little smoothing, which cost no time: else few clusters keep their data, and all is faster
    X, topics = generated.zipf_documents(n_rows, n_clusters, mean_length=length, mass=30)
    model, data = problem(X, n_clusters, concentration=0.01)
    state = CollapsedGibbs().init(model, data, seed=0, start=topics)
    for _ in range(args.sweeps):
        CollapsedGibbs().step(state)
    words = data.X.sum() / data.n_rows
    return {"model": model, "data": data, "labels": state.partition, "words": float(words), "K": n_clusters}


def table1_row(name, proposal, fitted, args):
    """One kernel on one problem."""
    kernel = CollapsedGibbs() if proposal is None else CollapsedMetropolis(proposal, mode="removed")
    total, moved, n_live = sweep_microseconds(kernel, fitted, args)
    return {
        "kernel": name,
        "K": fitted["K"],
        "clusters": n_live,
        "W": fitted["words"],
        "proposal us": "" if proposal is None else proposal_microseconds(proposal, fitted, args),
        "paper's": PAPER_PROPOSAL.get(fitted["K"], "") if name.startswith("hash") else "",
        "total us": total,
        "paper's total": PAPER_TOTAL.get(fitted["K"], "") if name.startswith("hash") else "",
        "moved": moved,
    }


def sweep_microseconds(kernel, fitted, args):
    """CPU microseconds a document of a sweep and the share of documents that moved, medians; clusters that hold data.

    The first sweep binds the proposal and codes the data; it is not counted. Exact Gibbs scores the clusters that hold
    data, draws from the codes are over the same ones: compare rows with about the same number of them.
    """
    N, times, moved = fitted["data"].n_rows, [], []
    for seed in range(args.seeds):
        state = kernel.init(fitted["model"], fitted["data"], seed=seed, start=fitted["labels"])
        timed_step(kernel, state)
        for _ in range(args.repeats):
            info, (cpu, _) = timed_step(kernel, state)
            times.append(1e6 * cpu / N)
            moved.append(info.accepted / N)
        drift(state)
    return statistics.median(times), statistics.median(moved), state.n_clusters


def proposal_microseconds(proposal, fitted, args):
    """CPU microseconds of a draw over all clusters, without the predictives that test it; median.

    The frozen mode is taken for it: all data can then be drawn for at once, with no Python between them. Its draws are
    over all K components, empty ones too.
    """
    kernel = CollapsedMetropolis(proposal, mode="frozen")
    state = kernel.init(fitted["model"], fitted["data"], seed=0, start=fitted["labels"])
    kernel.step(state)
    worker, rows, times = kernel.worker(state, "frozen"), np.arange(state.data.n_rows), []
    for _ in range(args.repeats * args.seeds):
        begin = process_time()
        worker.draw(rows, Team(), by_block=False)
        times.append(1e6 * (process_time() - begin) / len(rows))
    return statistics.median(times)


# ---- threads ---------------------------------------------------------------------------------------------------------


def threads(args):
    """Cross-fitted sweeps with several threads against one, in turns from one start; are the labels the same."""
    X, topics = generated.zipf_documents(args.documents, args.clusters)
    model, data = problem(X, args.clusters)
    print(f"zipf: {data}, K={args.clusters}, start: {args.start}\n", flush=True)
    kernels = [FastEx(mode="crossfit", n_threads=n) for n in (1, args.threads)]
    rows, is_same = [], True
    for seed in range(args.seeds):
        start = topics if args.start == "truth" else "random"
        states = [kernel.init(model, data, seed=seed, start=start) for kernel in kernels]
        for sweep in range(1, args.sweeps + 1):
            rows.append(threads_row(kernels, states, seed, sweep, args.threads))
            is_same &= rows[-1]["same labels"]
    print_table(rows)
    later = [row["wall ratio"] for row in rows if row["sweep"] > 1] or [row["wall ratio"] for row in rows]
    result = statistics.median(later)
    print(f"median ratio after the first sweep {result:.2f}; labels {'are the same' if is_same else 'DIFFER'}")
    return {"rows": rows, "ratio": result, "same_labels": is_same}


def threads_row(kernels, states, seed, sweep, n_threads):
    """One sweep of both chains; the one that goes first changes, as a busy machine may favour either."""
    took = [None, None]
    for j in (0, 1) if sweep % 2 else (1, 0):
        info, took[j] = timed_step(kernels[j], states[j])
    log_joint, error = drift(states[0])
    return {
        "seed": seed,
        "sweep": sweep,
        "wall s, 1": float(took[0][1]),
        f"wall s, {n_threads}": float(took[1][1]),
        "wall ratio": float(took[0][1] / took[1][1]),
        "CPU s, 1": float(took[0][0]),
        f"CPU s, {n_threads}": float(took[1][0]),
        "moved": info.accepted,
        "log joint": log_joint,
        "drift": error,
        "same labels": bool(np.array_equal(states[0].labels, states[1].labels)),
    }


# ---- a corpus copied many times --------------------------------------------------------------------------------------


def copies(args):
    """Short texts stacked many times: time, quality and memory of FastEx, with exact Gibbs as the mark."""
    X, gold = load(args.data, "googlenews")
    X, gold = sparse.vstack([X] * args.copies, format="csr"), np.tile(gold, args.copies)
    model, data = problem(X, args.clusters)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    print(f"googlenews x {args.copies}: {data}, {format_bytes(size)}, K={args.clusters}\n", flush=True)
    warm_up()
    runs = []
    for seed in range(args.seeds):
        for name, kernel, n_sweeps in (
            (f"FastEx, {args.threads} threads", FastEx(n_threads=args.threads), args.sweeps),
            (GIBBS, CollapsedGibbs(), args.gibbs_sweeps),
        ):
            if n_sweeps:
                runs.append(copies_run(name, kernel, model, data, gold, seed, n_sweeps))
                print_table(runs[-1]["rows"])
                print(runs[-1]["memory"], "\n", flush=True)
    print(f"published: dense Gibbs {PUBLISHED_MINUTES} minutes for 256 copies, K = 300, ten sweeps (another machine)")
    return {"runs": runs, "published_minutes": PUBLISHED_MINUTES}


def warm_up():
    """Imports, pools and buffers are no part of a memory figure."""
    X, labels = generated.documents(500, 5)
    model, data = problem(X, 5)
    for kernel in (FastEx(n_threads=2, mode="crossfit"), CollapsedGibbs()):
        kernel.step(kernel.init(model, data, seed=0, start=labels))


def copies_run(name, kernel, model, data, gold, seed, n_sweeps):
    """Sweeps of one kernel from random labels, with the peak of memory that they needed beside the data."""
    forecast = forecast_memory(data, n_components=model.weights.max_components, kernel=kernel, model=model)
    gc.collect()
    before, begin = resident("VmRSS"), clocks()
    state, peak = with_peak(lambda: kernel.init(model, data, seed=seed, start="random"))
    spent = clocks() - begin
    rows = [copies_row(name, state, gold, spent, 0)]
    for _ in range(n_sweeps):
        (info, took), peak_of_step = with_peak(lambda: timed_step(kernel, state))
        spent, peak = spent + took, max(peak, peak_of_step)
        rows.append(copies_row(name, state, gold, spent, info.accepted))
    used = peak - before
    memory = f"{name}: peak {format_bytes(used)} beside the data; forecast of a fit: {forecast}"
    return {
        "rows": rows,
        "minutes": float(spent[1] / 60),
        "peak_beside_data": used,
        "forecast_beside_data": forecast.beside_data,
        "memory": memory,
    }


def copies_row(name, state, gold, spent, accepted):
    """State of a run after so many (CPU, wall) seconds; those of the start include the first statistics."""
    log_joint, error = drift(state)
    return {
        "kernel": name,
        "sweep": state.n_steps,
        "CPU s": float(spent[0]),
        "wall s": float(spent[1]),
        "NMI": generated.normalized_mutual_information(gold, state.labels),
        "log joint": log_joint,
        "clusters": state.n_clusters,
        "moved": int(accepted),
        "drift": error,
    }


# ---- command line ----------------------------------------------------------------------------------------------------


def parser():
    """Sub-commands and their options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data", type=Path, default=Path("data"), help="directory with text/")
    common.add_argument("--seeds", type=int, default=1, help="number of repetitions")
    common.add_argument("--threads", type=int, default=2, help="where a protocol uses more than one")
    common.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="protocol", required=True)

    def add(protocol):
        command = commands.add_parser(protocol.__name__, parents=[common], help=protocol.__doc__)
        command.set_defaults(run=protocol)
        return command

    command = add(compare)
    command.add_argument("--data-set", choices=["searchsnippets", "stackoverflow", "googlenews", "zipf"], required=True)
    command.add_argument("--clusters", type=int, default=1000)
    command.add_argument("--seconds", type=float, default=60.0, help="CPU seconds of each kernel")
    command.add_argument("--documents", type=int, help="how many; all, or 100 000 generated ones, if not given")
    command.add_argument("--kernels", nargs="+", help="beginnings of names: only these, and exact Gibbs")
    command = add(table1)
    command.add_argument("--clusters", type=int, nargs="+", default=[100, 1000, 10_000])
    command.add_argument("--lengths", type=int, nargs="+", default=[14, 100], help="mean words of a document")
    command.add_argument("--bits", type=int, nargs="+", default=[8, 16, 32, 64, 128, 512])
    command.add_argument("--documents", type=int, help="20 for each cluster, 20 000 at least, if not given")
    command.add_argument("--sweeps", type=int, default=2, help="Gibbs sweeps before anything is timed")
    command.add_argument("--repeats", type=int, default=3, help="timed sweeps")
    command = add(threads)
    command.add_argument("--documents", type=int, default=1_000_000)
    command.add_argument("--clusters", type=int, default=1000)
    command.add_argument("--sweeps", type=int, default=5)
    command.add_argument("--start", choices=["random", "truth"], default="random")
    command = add(copies)
    command.add_argument("--copies", type=int, default=256)
    command.add_argument("--clusters", type=int, default=300)
    command.add_argument("--sweeps", type=int, default=10)
    command.add_argument("--gibbs-sweeps", type=int, default=0, help="sweeps of exact Gibbs, the mark; 0: none")
    return top


def main():
    """Run one of the protocols."""
    args = parser().parse_args()
    if args.seeds < 1 or args.threads < 1:
        raise SystemExit(f"--seeds and --threads are positive numbers; got {args.seeds} and {args.threads}")
    report(args)


if __name__ == "__main__":
    main()
