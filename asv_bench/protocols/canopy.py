"""Canopy beside its rivals: run by hand, `python asv_bench/protocols/canopy.py --help`.

Protocols: draws of a label for each datum, exact and approximate; held-out log likelihood and purity against CPU
seconds; seconds of a sweep as data, clusters and columns grow; peak of memory beside the data; and the table of
initialisations of Zaheer, Kottur, Ahmed, Moura and Smola 2017, "Canopy: fast sampling with cover trees".

Seconds are never printed without the quality reached in them: a sweep that moves nothing is fast. "Canopy I, printed"
is the published recipe, one prototype for a cell of the tree and two steps a sweep; "Canopy I" is what `Canopy` does by
default with variant 1. All kernels but scikit-learn's have the same prior, weights Dirichlet(1, ..., 1), and parameters
at the mode given labels; all start from the same labels. scikit-learn's models are its own: maximum likelihood, and for
"spherical" a variance for each component where `SphericalGaussian` knows its one. CPU seconds are those of the process,
all threads together.

Generated data are mixtures in three nested scales with unit noise, `nested_gaussians` in benchmarks/data.py. Real ones
are not shipped: DIR holds dense/*.npz (X, labels); digits and patches are made from what scikit-learn brings.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from figures import draw_curves, draw_scaling
from generated import data as generated
from real_data import load
from reports import clocks, print_table, report, resident, timed_step, with_peak
from sklearn.datasets import load_sample_images
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from expfam import Dataset, DiagonalGaussian, MixtureModel, SphericalGaussian, SymmetricDirichlet, purity, samplers
from expfam.forecast.memory import forecast_memory, format_bytes

try:
    import faiss
except ImportError:  # one row of one table needs it
    faiss = None

STARTS = ["random", "kmeans++", "tree", "tree_point"]
SKLEARN = {"sklearn_diag": "diag", "sklearn_spherical": "spherical"}
TITLES = {
    "sem_dense": "SEM, dense",
    "sem_tree": "SEM, tree",
    "printed": "Canopy I, printed",
    "anchored": "Canopy I",
    "em": "EM",
    "sklearn_diag": "scikit-learn EM, diag",
    "sklearn_spherical": "scikit-learn EM, spherical",
}
SWEEPERS = ["sem_dense", "sem_tree", "printed", "anchored"]  # those whose sweeps are compared as sizes grow
UNEVEN = ("birch1", "patches")  # sets whose clusters have variances far from a tenth of the whole
MOST_SKLEARN_BYTES = 8 << 30  # of its three tables of data x components
MOST_JUDGED = 1 << 27  # held-out rows x clusters: a second or two for each point of a curve


# ---- what the protocols share ----------------------------------------------------------------------------------------


def make_kernel(name, n_threads):
    """Kernel of a name, all with parameters at the mode."""
    if name == "printed":
        proposal = samplers.PrototypeProposal(data_cells="tree", n_anchors=0)
        return samplers.UncollapsedMetropolis(proposal, steps=2, redraw=False, theta="map", n_threads=n_threads)
    if name == "anchored":
        return samplers.Canopy(variant=1, theta="map", n_threads=n_threads)
    if name == "em":
        return samplers.ExpectationMaximization(tol=0.0, n_threads=n_threads)
    return samplers.StochasticEM(draw=name.removeprefix("sem_"), n_threads=n_threads)


def problem(X, n_clusters, args):
    """Bound model and data."""
    data = Dataset(X, make_family(X, n_clusters, args))
    return MixtureModel(data.family, SymmetricDirichlet(n_clusters, alpha=1.0)).bind(data), data


def make_family(X, n_clusters, args):
    """Family of the option --family, without it the one that suits the data.

    The variance that the spherical one knows is that of generated noise, or what k-means++ labels leave of real data.
    """
    data_set = getattr(args, "data_set", "nested")
    if (args.family or ("diagonal" if data_set in UNEVEN else "spherical")) == "diagonal":
        return DiagonalGaussian()
    if data_set == "nested":
        return SphericalGaussian(variance=1.0)
    data = Dataset(X, SphericalGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(n_clusters))
    labels = samplers.starting_labels("kmeans++", model, data, seed=0)
    return SphericalGaussian(variance=within(X, labels, n_clusters)[2])


def within(X, labels, n_clusters):
    """Sizes and means of labels, the mean of all data where there is none, and the variance of columns about them."""
    n = np.bincount(labels, minlength=n_clusters)
    sums = np.zeros((n_clusters, X.shape[1]))
    np.add.at(sums, labels, X)
    means = np.where(n[:, None] > 0, sums / np.maximum(n, 1)[:, None], X.mean(axis=0, dtype=np.float64))
    squares = [((X[a : a + 4096] - means[labels[a : a + 4096]]) ** 2).sum() for a in range(0, len(X), 4096)]
    return n, means, float(sum(squares) / X.size)


def generate(args, *, n_rows=None, n_clusters=None, n_features=None, separation=None):
    """Generated mixture of the options, of which some are replaced."""
    return generated.nested_gaussians(
        n_rows or args.rows,
        n_clusters or args.clusters,
        n_features=n_features or args.features,
        separation=separation or args.separation,
    )


def read_or_make(args):
    """Data matrix, and gold labels where there are any."""
    if args.data_set == "nested":
        return generate(args)
    X, gold = patches() if args.data_set == "patches" else load(args.data, args.data_set)
    X = np.ascontiguousarray(X[:, X.std(axis=0) > 0], dtype=np.float32)  # columns without spread tell nothing
    order = np.random.default_rng(0).permutation(len(X))[: args.rows]
    return X[order], None if gold is None else np.asarray(gold)[order]


def patches(side=8):
    """Grey patches of scikit-learn's photographs, each without its mean: (., 64); no labels."""
    found = []
    for image in load_sample_images().images:
        grey = image.mean(axis=2, dtype=np.float32) / 255
        windows = np.lib.stride_tricks.sliding_window_view(grey, (side, side)).reshape(-1, side * side)
        found.append(windows - windows.mean(axis=1, keepdims=True))
    return np.concatenate(found), None


def split(X, gold, n_clusters):
    """Rows to fit and a fifth of them, 20 000 at most, to judge by; fewer where clusters are many."""
    order = np.random.default_rng(1).permutation(len(X))
    test, train = np.split(order, [min(len(X) // 5, 20_000, MOST_JUDGED // n_clusters)])
    return (X[train], None if gold is None else gold[train]), (X[test], None if gold is None else gold[test])


def judge(test, gold, parameters):
    """Mean log density of held-out rows, nats, and purity of their likeliest components where there is a gold."""
    log_density, best = generated.mixture_scores(test, *parameters)
    return float(log_density.mean()), None if gold is None else purity(gold, best)


def parameters_of(state):
    """Log weights and natural parameters that a state has drawn labels with."""
    return state.log_pi, state.Theta, state.G


# ---- one draw for each datum -----------------------------------------------------------------------------------------


def draws(args):
    """One label for each datum: exact draws, an E step of scikit-learn, and faiss's nearest centre as the floor."""
    if faiss is None:
        print("faiss is not installed (pip install faiss-cpu): no row of its own\n")
    rows = []
    for K, d, separation in args.cases:
        rows.extend(found := draws_of(K, d, separation, args))
        print_table(found)
    return {"rows": rows}


def draws_of(K, d, separation, args):
    """Rows of the table for one mixture; contestants take turns, the least of several repeats counts."""
    state = fitted_state(K, d, separation, args)
    contestants = exact_drawers(state, args) | rival_drawers(state, args)
    least, results = {}, {}
    for _ in range(args.repeats):
        for name, (draw, n_rows) in contestants.items():
            begin = clocks()
            results[name] = draw()
            spent = 1e6 * (clocks() - begin) / n_rows
            least[name] = np.minimum(least.get(name, np.inf), spent)
    likeliest = generated.mixture_scores(state.data, *parameters_of(state))[1]
    return [
        {
            "draw": name,
            "K": K,
            "d": d,
            "sep": separation,
            "CPU us": float(cpu),
            "wall us": float(wall),
            "x dense, CPU": float(least["dense"][0] / cpu),
            "x dense, wall": float(least["dense"][1] / wall),
            "likeliest": float(np.mean(results[name][0] == likeliest[: len(results[name][0])])),
            "visits": results[name][1].get("visits", ""),
        }
        for name, (cpu, wall) in least.items()
    ]


def fitted_state(K, d, separation, args):
    """State over --rows rows whose parameters are the modes given the true labels of 25 rows a cluster or more."""
    X, labels = generate(args, n_rows=max(args.rows, 25 * K), n_clusters=K, n_features=d, separation=separation)
    model, data = problem(X, K, args)
    kernel = make_kernel("sem_dense", args.threads)
    whole = kernel.init(model, data, seed=0, start=labels)
    whole.draw_parameters("map")
    state = kernel.init(model, Dataset(X[: args.rows], data.family), seed=0, start=labels[: args.rows])
    state.log_pi, state.Theta, state.G = parameters_of(whole)
    return state


def exact_drawers(state, args):
    """Function that draws labels, and how many, by each exact method."""
    found = {}
    pruned = [] if state.data.has_sparse_phi else ["pruned"]
    for method in ["dense", *pruned, "tree", *(["rejection"] if args.rejection else [])]:
        kernel = samplers.StochasticEM(draw=method, n_threads=args.threads)
        found[method] = (partial(kernel.draw_labels, state), state.data.n_rows)
    return found


def rival_drawers(state, args):
    """Responsibilities of scikit-learn, on few enough rows for its memory, and the nearest mean by faiss."""
    K, X = state.K, np.asarray(state.data.X)
    usual = state.model.family.to_params(state.Theta, state.G)
    mean = usual["mean"].astype(X.dtype)
    n_rows = min(len(X), max(256, (1 << 24) // K))
    found = {}
    for kind in SKLEARN.values():
        shape = (K, X.shape[1]) if kind == "diag" else (K,)
        variance = (
            usual["variance"] if np.shape(usual["variance"]) == shape else np.full(shape, usual["variance"].mean())
        )
        mixture = GaussianMixture(K, covariance_type=kind)
        mixture.weights_, mixture.means_ = np.exp(state.log_pi).astype(X.dtype), mean
        mixture.covariances_ = variance.astype(X.dtype)
        mixture.precisions_cholesky_ = 1 / np.sqrt(mixture.covariances_)

        def e_step(mixture=mixture):
            with threadpool_limits(args.threads):
                return mixture.predict_proba(X[:n_rows]).argmax(axis=1), {}

        found[f"scikit-learn {kind}"] = (e_step, n_rows)
    if faiss is not None:
        faiss.omp_set_num_threads(args.threads)
        index = faiss.IndexFlatL2(X.shape[1])
        index.add(mean.astype(np.float32))
        found["faiss"] = (lambda: (index.search(X.astype(np.float32, copy=False), 1)[1][:, 0], {}), len(X))
    return found


# ---- quality against time --------------------------------------------------------------------------------------------


def quality(args):
    """Held-out log likelihood and purity against CPU seconds, a curve for each kernel."""
    X, gold = read_or_make(args)
    (X, gold), (X_test, gold_test) = split(X, gold, args.clusters)
    model, data = problem(X, args.clusters, args)
    test = Dataset(X_test, data.family)
    print(
        f"{args.data_set}: {data}, K={args.clusters}, start {args.start}; {test.n_rows} rows to judge by\n", flush=True
    )
    curves, rows = [], []
    for seed in range(args.seeds):
        begin = clocks()
        start = samplers.starting_labels(
            args.start, model, data, seed=seed, n_clusters=args.clusters, n_threads=args.threads
        )
        cpu, wall = clocks() - begin
        print(f"seed {seed}: start {args.start} in {cpu:.1f} CPU s, {wall:.1f} s", flush=True)
        of_seed = {}
        for name in args.kernels:
            print(f"{TITLES[name]}: up to {args.seconds:g} CPU s", flush=True)
            curve = sklearn_curve if name in SKLEARN else kernel_curve
            of_seed[name] = curve(name, model, data, start, (test, gold_test), seed, args)
            gc.collect()
        curves.append(of_seed)
        rows.append(quality_rows(of_seed))
        print(f"\nseed {seed}")
        if rows[-1]:
            print_table(rows[-1])
    if args.figure:
        draw_curves(curves, TITLES, args.figure)
    return {"rows": rows, "curves": curves}


def kernel_curve(name, model, data, start, held_out, seed, args):
    """Points after the sweeps of one kernel.

    The clocks run while its state is made and while it sweeps, not while it is judged: after each of eight sweeps and
    then ever more rarely.
    """
    kernel, points, next_point = make_kernel(name, args.threads), [], 1
    begin = clocks()
    state = kernel.init(model, data, seed=seed, start=start)
    spent, is_over = clocks() - begin, False
    while not is_over:
        info, took = timed_step(kernel, state)
        spent += took
        is_over = spent[0] >= args.seconds or info.step >= args.sweeps or bool(info.extra.get("converged"))
        if info.step >= next_point or is_over:
            points.append(point(info.step, spent, judge(*held_out, parameters_of(state))))
            next_point = max(info.step + 1, int(1.25 * info.step))
            show(points[-1])
    return points


def point(sweep, spent, judged):
    """What is known after so many sweeps and (CPU, wall) seconds."""
    log_likelihood, share = judged
    if not np.isfinite(log_likelihood):
        raise FloatingPointError(f"held-out log likelihood {log_likelihood} after {sweep} sweeps")
    return {
        "sweep": sweep,
        "cpu": float(spent[0]),
        "wall": float(spent[1]),
        "log_likelihood": log_likelihood,
        "purity": share,
    }


def show(reached):
    """Print a point as soon as it is known."""
    share = "" if reached["purity"] is None else f", purity {reached['purity']:.3f}"
    print(
        f"  sweep {reached['sweep']}, {reached['cpu']:.2f} CPU s, {reached['wall']:.2f} s:"
        f" {reached['log_likelihood']:.4f} nats{share}",
        flush=True,
    )


def sklearn_curve(name, model, data, start, held_out, seed, args):
    """Points of scikit-learn's EM: a whole fit from the same labels for each number of iterations, 1, 2, 4, ...

    The next one is not begun where twice the seconds of the last are more than there are.

    A fit ends with an E step more than it has iterations, as a sweep of the others ends with labels.
    """
    K, X = model.weights.max_components, data.X
    if (need := 3 * X.dtype.itemsize * len(X) * K) > MOST_SKLEARN_BYTES:
        print(f"  left out: its tables of data x components would need about {format_bytes(need)}", flush=True)
        return []
    sklearn_fit(name, X, start, K, 1, seed, args)  # not counted: the first fit of a process takes up to twice as long
    points, n_iterations = [], 1
    while not points or (2 * points[-1]["cpu"] <= args.seconds and points[-1]["sweep"] < args.sweeps):
        mixture, spent = sklearn_fit(name, X, start, K, n_iterations, seed, args)
        log_density, best = mixture.score_samples(held_out[0].X), mixture.predict(held_out[0].X)
        share = None if held_out[1] is None else purity(held_out[1], best)
        points.append(point(n_iterations, spent, (float(log_density.mean()), share)))
        show(points[-1])
        n_iterations *= 2
    return points


def sklearn_fit(name, X, labels, K, n_iterations, seed, args):
    """Mixture after so many iterations, from the means of labels and one variance within; (CPU, wall) seconds.

    To each variance it adds a thousandth of the columns' mean: with its default 1e-6 components collapse on digits.
    """
    n, means, variance = within(X, labels, K)
    shape = (K, X.shape[1]) if SKLEARN[name] == "diag" else (K,)
    mixture = GaussianMixture(
        K,
        covariance_type=SKLEARN[name],
        tol=0.0,
        max_iter=n_iterations,
        reg_covar=1e-3 * float(X.var(axis=0, dtype=np.float64).mean()),
        weights_init=((n + 1) / (n + 1).sum()).astype(X.dtype),
        means_init=means.astype(X.dtype),
        precisions_init=np.full(shape, 1 / variance, dtype=X.dtype),
        random_state=seed,
    )
    with threadpool_limits(args.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        begin = clocks()
        mixture.fit(X)
        return mixture, clocks() - begin


def quality_rows(curves):
    """One row a kernel: likelihoods on the way, where it ended, and when it was where dense SEM was after 5 sweeps."""
    mark = at_sweep(curves.get("sem_dense", []), 5)
    target = None if mark is None else mark["log_likelihood"]
    rows = []
    for name, points in curves.items():
        if not points:
            continue
        last = points[-1]
        there = next((p for p in points if target is not None and p["log_likelihood"] >= target), None)
        rows.append(
            {"kernel": TITLES[name], "sweeps": last["sweep"], "CPU s/sweep": last["cpu"] / last["sweep"]}
            | {f"after {n}": (at_sweep(points, n) or {}).get("log_likelihood", "") for n in (1, 5, 10, 20)}
            | {
                "last": last["log_likelihood"],
                "purity": "" if last["purity"] is None else last["purity"],
                "CPU s": last["cpu"],
                "CPU s to SEM's 5": None if there is None else there["cpu"],
                "x SEM": None if there is None else mark["cpu"] / there["cpu"],
            }
        )
    return rows


def at_sweep(points, sweep):
    """Last point of at most so many sweeps, None if the run did not come that far."""
    reached = [p for p in points if p["sweep"] <= sweep]
    return reached[-1] if reached and points[-1]["sweep"] >= sweep else None


# ---- growing sizes ---------------------------------------------------------------------------------------------------


def scaling(args):
    """Seconds of a sweep in data, clusters and columns separately, from the true labels, with the level held."""
    base = {"n": args.rows, "K": args.clusters, "d": args.features}
    print(f"base: {base}, separation {args.separation}\n", flush=True)
    rows = []
    for axis, sizes in (("n", args.rows_grid), ("K", args.clusters_grid), ("d", args.features_grid)):
        for size in sizes:
            rows.extend(of_size := scaling_rows(axis, base | {axis: size}, args))
            print(f"{axis} = {size}:", *(f"{row['kernel']} {row['CPU s']:.3g} CPU s" for row in of_size), flush=True)
        print_table([row for row in rows if row["grows"] == axis])
    print("exponents of the growth of CPU seconds")
    print_table(exponents(rows, args.kernels))
    if args.figure:
        draw_scaling(rows, TITLES, args.figure)
    return {"rows": rows}


def scaling_rows(axis, sizes, args):
    """Kernels on one mixture: the first sweep, which binds proposals, is not counted."""
    n_test = min(sizes["n"] // 5, 20_000)
    X, labels = generate(args, n_rows=sizes["n"] + n_test, n_clusters=sizes["K"], n_features=sizes["d"])
    model, data = problem(X[n_test:], sizes["K"], args)
    test, rows = Dataset(X[:n_test], data.family), []
    for name in args.kernels:
        kernel, took = make_kernel(name, args.threads), []
        state = kernel.init(model, data, seed=0, start=labels[n_test:])
        timed_step(kernel, state)
        for _ in range(args.repeats):
            took.append(timed_step(kernel, state)[1])
        cpu, wall = np.median(took, axis=0)
        log_likelihood, share = judge(test, labels[:n_test], parameters_of(state))
        rows.append(
            {"kernel": name, "grows": axis}
            | sizes
            | {"CPU s": float(cpu), "wall s": float(wall), "log likelihood": log_likelihood, "purity": share}
        )
        del state
        gc.collect()
    return rows


def exponents(rows, kernels):
    """Slopes of log seconds against log size, least squares."""
    found = []
    for name in kernels:
        row = {"kernel": TITLES[name]}
        for axis in ("n", "K", "d"):
            of_axis = [(r[axis], r["CPU s"]) for r in rows if r["kernel"] == name and r["grows"] == axis]
            sizes, seconds = np.log(np.array(of_axis)).T
            row[axis] = float(np.polyfit(sizes, seconds, 1)[0]) if len(of_axis) > 1 else ""
        found.append(row)
    return found


# ---- memory ----------------------------------------------------------------------------------------------------------


def memory(args):
    """Peak of memory beside the data, each kernel in a process of its own."""
    if args.child:
        return memory_of(args.child, args)
    rows = []
    for name in args.kernels:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            sizes = [
                f"--{key}={getattr(args, key)}" for key in ("rows", "clusters", "features", "separation", "threads")
            ]
            sizes += [f"--family={args.family}"] if args.family else []
            command = [sys.executable, __file__, "memory", *sizes, f"--child={name}", f"--json={result}"]
            subprocess.run(command, check=True)
            rows.append(json.loads(result.read_text())["row"])
    print_table(rows)
    return {"rows": rows}


def memory_of(name, args):
    """One kernel: making its state and two sweeps, after a warm-up whose imports and buffers are no part of a fit."""
    kernel = make_kernel(name, args.threads)
    small, labels = generate(args, n_rows=200, n_clusters=2)
    model, data = problem(small, 2, args)
    run_sweeps(kernel, model, data, labels)
    X, labels = generate(args)
    model, data = problem(X, args.clusters, args)
    forecast = forecast_memory(data, n_components=args.clusters, kernel=kernel, model=model)
    gc.collect()
    before = resident("VmRSS")
    state, peak = with_peak(lambda: run_sweeps(kernel, model, data, labels))
    used = peak - before
    test = Dataset(X[:20_000], data.family)
    row = {
        "kernel": TITLES[name],
        "data": format_bytes(X.nbytes),
        "beside": format_bytes(used),
        "beside / data": used / X.nbytes,
        "forecast": format_bytes(forecast.beside_data),
        "log likelihood": judge(test, labels[:20_000], parameters_of(state))[0],
    }
    return {"row": row}


def run_sweeps(kernel, model, data, labels):
    """State after two sweeps."""
    state = kernel.init(model, data, seed=0, start=labels)
    for _ in range(2):
        timed_step(kernel, state)
    return state


# ---- the paper's table -----------------------------------------------------------------------------------------------


def table1(args):
    """Purity, log likelihood of the data and seconds an iteration by kernel and initialisation, mean and spread."""
    X, gold = read_or_make(args)
    rows, runs = [], []
    for n_clusters in args.clusters_grid:
        model, data = problem(X, n_clusters, args)
        print(f"{args.data_set}: {data}, K={n_clusters}, {args.sweeps} iterations, {args.seeds} runs\n", flush=True)
        for name in args.kernels:
            for start in STARTS:
                of_case = [table1_run(name, model, data, gold, start, seed, args) for seed in range(args.seeds)]
                runs.append({"kernel": name, "K": n_clusters, "start": start, "runs": of_case})
                rows.append(
                    {"kernel": TITLES[name], "K": n_clusters, "start": start}
                    | {key: mean_and_spread([run[key] for run in of_case]) for key in of_case[0]}
                )
        print_table([row for row in rows if row["K"] == n_clusters])
    return {"rows": rows, "runs": runs}


def table1_run(name, model, data, gold, start, seed, args):
    """Where one run ends."""
    K = model.weights.max_components
    begin = clocks()
    labels = samplers.starting_labels(start, model, data, seed=seed, n_clusters=K, n_threads=args.threads)
    of_start = clocks() - begin
    if name in SKLEARN:
        mixture, spent = sklearn_fit(name, data.X, labels, K, args.sweeps, seed, args)
        n_iterations = mixture.n_iter_
        found, log_likelihood = mixture.predict(data.X), float(mixture.score(data.X))
    else:
        kernel = make_kernel(name, args.threads)
        state, spent, is_over = kernel.init(model, data, seed=seed, start=labels), np.zeros(2), False
        while not is_over:
            info, took = timed_step(kernel, state)
            spent += took
            is_over = info.step >= args.sweeps or bool(info.extra.get("converged"))
        n_iterations = info.step
        found, log_likelihood = state.labels, judge(data, None, parameters_of(state))[0]
    return {
        "purity of start": purity(gold, labels),
        "purity": purity(gold, found),
        "log likelihood": log_likelihood,
        "iterations": n_iterations,
        "CPU ms/iteration": float(1e3 * spent[0] / n_iterations),
        "CPU ms of start": float(1e3 * of_start[0]),
    }


def mean_and_spread(values):
    """Four digits of the mean, two of the standard deviation."""
    spread = f" +- {statistics.stdev(values):.2g}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4g}{spread}"


# ---- command line ----------------------------------------------------------------------------------------------------


def case(text):
    """K, d and separation of one mixture."""
    K, d, separation = text.split(",")
    return int(K), int(d), float(separation)


CASES = ["256,16,1", "1024,32,1", "1024,64,1", "4096,32,.5", "4096,64,.7", "4096,128,1", "8192,64,.7", "16384,64,1"]
SETS = ["nested", "birch1", "letter_recognition", "digits", "patches"]


def parser():
    """Sub-commands and their options."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data", type=Path, default=Path("data"), help="directory with dense/")
    common.add_argument(
        "--family", choices=["spherical", "diagonal"], help="default: diagonal for birch1 and patches, else spherical"
    )
    common.add_argument("--threads", type=int, default=1)
    common.add_argument("--separation", type=float, default=1.0, help="finest scale of generated centres")
    common.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="protocol", required=True)

    def add(protocol, *, kernels=None, fits=False, rows=None, clusters=None, features=None, figure=False):
        """Parser of a protocol; `fits` where it has its own way to run scikit-learn."""
        command = commands.add_parser(protocol.__name__, parents=[common], help=protocol.__doc__)
        command.set_defaults(run=protocol)
        command.add_argument("--rows", type=int, default=rows)
        if clusters:
            command.add_argument("--clusters", type=int, default=clusters)
        if features:
            command.add_argument("--features", type=int, default=features, help="of generated data")
        if kernels:
            known = [name for name in TITLES if fits or name not in SKLEARN]
            command.add_argument("--kernels", nargs="+", choices=known, default=kernels)
        if figure:
            command.add_argument("--figure", type=Path, metavar="PATH", help="draw the results there")
        return command

    command = add(draws, rows=20_000)
    command.add_argument("--cases", type=case, nargs="+", default=[case(text) for text in CASES], metavar="K,d,sep")
    command.add_argument("--repeats", type=int, default=3)
    command.add_argument("--rejection", action="store_true", help="also by rejection from the bounds of the tree")
    command = add(quality, kernels=list(TITLES), fits=True, clusters=1024, features=32, figure=True, rows=190_000)
    command.add_argument("--data-set", choices=SETS, default="nested")
    command.add_argument("--start", choices=STARTS, default="kmeans++")
    command.add_argument("--seconds", type=float, default=30.0, help="CPU seconds of each kernel")
    command.add_argument("--sweeps", type=int, default=10_000, help="at most")
    command.add_argument("--seeds", type=int, default=1)
    command = add(scaling, kernels=SWEEPERS, rows=100_000, clusters=1024, features=32, figure=True)
    command.add_argument("--rows-grid", type=int, nargs="+", default=[25_000, 50_000, 100_000, 200_000, 400_000])
    command.add_argument("--clusters-grid", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096])
    command.add_argument("--features-grid", type=int, nargs="+", default=[8, 16, 32, 64, 128])
    command.add_argument("--repeats", type=int, default=3)
    command = add(memory, kernels=[*SWEEPERS, "em"], rows=1_000_000, clusters=1024, features=32)
    command.add_argument("--child", choices=list(TITLES), help=argparse.SUPPRESS)
    command = add(table1, kernels=["em", "sem_dense", "printed", "anchored", "sklearn_spherical"], fits=True)
    command.add_argument("--data-set", choices=["digits", "letter_recognition", "birch1"], default="digits")
    command.add_argument("--clusters-grid", type=int, nargs="+", default=[10, 100])
    command.add_argument("--sweeps", type=int, default=50, help="iterations of a run")
    command.add_argument("--seeds", type=int, default=5)
    return top


def main():
    """Run one of the protocols."""
    args = parser().parse_args()
    if args.threads < 1:
        raise SystemExit(f"--threads is a positive number; got {args.threads}")
    report(args)


if __name__ == "__main__":
    main()
