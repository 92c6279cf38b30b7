"""Sparse variational mixtures of image patches: run by hand, `python asv_bench/variational.py --help`.

Protocols after Hughes and Sudderth 2016, "Fast learning of clusters and topics via sparse posteriors": 8 x 8 patches
without their mean, mixtures of zero-mean Gaussians with full covariance, held-out log likelihood against time by the
number L of responsibilities kept. Patches are those of scikit-learn's two sample images, or the rows of --patches FILE,
an .npy array (N, 64). All of them are taken to the 63 directions beside the constant one, so that densities of all
methods compare. Held-out scores are log densities at posterior means, nats a patch. CPU seconds are those of the
process, all threads together. Each protocol prints a table and, with --json, writes all it knows.
"""

import argparse
import json
import platform
import warnings
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from scipy.special import logsumexp

from expfam import Dataset, MixtureModel, SymmetricDirichlet, ZeroMeanGaussian
from expfam.samplers import Full, Memoized, SparseVariational, Stochastic, starting_labels

PARTS = ("statistics", "weights", "select", "summary", "global")


# ---- what the protocols share ----------------------------------------------------------------------------------------


def patches(args):
    """Training and held-out patches (rows, 63), shuffled."""
    P = sample_patches(args.stride) if args.patches is None else np.load(args.patches)
    P = P[np.random.default_rng(args.seed).permutation(len(P))][: args.rows + args.held].astype(np.float64)
    if len(P) < args.rows + args.held:
        raise SystemExit(f"{len(P)} patches are fewer than --rows + --held; take a smaller --stride, or --patches")
    P = (P - P.mean(axis=1, keepdims=True)) @ without_constant(P.shape[1])
    return P[: args.rows], P[args.rows :]


def sample_patches(stride):
    """All 8 x 8 patches of scikit-learn's sample images in grey, (N, 64)."""
    from sklearn.datasets import load_sample_images

    blocks = []
    for image in load_sample_images().images:
        windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64).mean(axis=2), (8, 8))
        blocks.append(windows[::stride, ::stride].reshape(-1, 64))
    return np.concatenate(blocks)


def without_constant(d):
    """Orthonormal basis (d, d - 1) of what is left beside the constant direction."""
    basis = np.eye(d)[:, :-1] - 1.0 / d
    return np.linalg.qr(basis)[0]


def begin(X, K, args, **settings):
    """Kernel and state, from the same labels for all settings."""
    kernel = SparseVariational(tol=0.0, n_threads=args.threads, **settings)
    data = Dataset(X, ZeroMeanGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(K))
    labels = starting_labels("kmeans++", model, data, seed=args.seed, n_clusters=K)
    return kernel, kernel.init(model, data, seed=args.seed, start=labels)


def clocks():
    """CPU seconds of the process and wall clock."""
    return np.array([process_time(), perf_counter()])


def held_out(state, H):
    """Mean log density of patches at posterior means, nats."""
    family = state.model.family
    live = state.n > 1e-3
    theta, g = family.map_natural(state.n[live], state.S[live])
    log_pi = np.log(state.n[live] + state.model.weights.offset) - np.log(state.n.sum() + state.model.weights.strength)
    total = 0.0
    for start in range(0, len(H), 2000):
        phi = family.sufficient_statistics(H[start : start + 2000])
        total += logsumexp(family.log_likelihood(phi, theta, g) + log_pi, axis=1).sum()
    return float(total / len(H) + family.log_base(H[:1])[0])


def bound(state):
    """Lower bound of the log evidence, nats a patch."""
    return float((state.log_joint + state.data.log_base.sum()) / len(state.data))


def schedule_of(args):
    """The schedule that the command line names."""
    if args.schedule == "full":
        return Full()
    if args.schedule == "memoized":
        return Memoized(args.batches)
    return Stochastic(max(1, args.rows // args.batches))


def active(text):
    """A number of responsibilities, or None for "dense"."""
    return None if text == "dense" else int(text)


def print_table(rows):
    """Dictionaries of the same keys as a table."""
    names = list(rows[0])
    cells = [names] + [[shown(row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))


def shown(value):
    """A cell."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---- protocols -------------------------------------------------------------------------------------------------------


def passes(args):
    """Microseconds a patch of one pass and its parts, by K and L."""
    X, _ = patches(args)
    rows = []
    for K in args.clusters:
        for L in args.active:
            kernel, state = begin(X, K, args, n_active=L, schedule=Full(), dtype=args.dtype, n_candidates=None)
            kernel.step(state)
            rows.append({"K": K, "L": "dense" if L is None else L} | least_pass(kernel, state, args))
    print_table(rows)
    return {"passes": rows}


def least_pass(kernel, state, args):
    """CPU and wall microseconds a patch of the fastest of a few passes, and its parts (wall, all threads)."""
    best = None
    for _ in range(args.repeats):
        before = clocks()
        info = kernel.step(state)
        cpu, wall = (clocks() - before) * 1e6 / len(state.data)
        if best is None or cpu < best["CPU"]:
            best = {"CPU": cpu, "wall": wall}
            best |= {name: info.extra[f"seconds_{name}"] * 1e6 / len(state.data) for name in PARTS}
    return best


def candidates(args):
    """A pass over G candidates against one over all clusters, from the same start: time and bound a patch."""
    X, _ = patches(args)
    rows = []
    for K in args.clusters:
        for G in [None, *(G for G in args.candidates if G < K)]:
            kernel, state = begin(
                X, K, args, schedule=Full(), dtype=args.dtype, n_candidates=G, full_every=args.full_every
            )
            before = clocks()
            infos = [kernel.step(state) for _ in range(args.passes)]
            cpu = float((clocks() - before)[0])
            narrow = [info for info in infos if not info.extra["all_clusters"]] or infos
            row = {"K": K, "G": "all" if G is None else G, "CPU s": cpu, "bound": bound(state)}
            row["us a patch"] = 1e6 * min(info.seconds for info in narrow) / len(X)
            row["stragglers"] = np.mean([info.extra["n_stragglers"] for info in narrow]) / (4 * len(X))
            rows.append(row)
    print_table(rows)
    return {"candidates": rows}


def curve(args):
    """Held-out log likelihood against CPU seconds, by L; a figure with --figure."""
    X, H = patches(args)
    curves = []
    for K in args.clusters:
        for L in args.active:
            kernel, state = begin(
                X, K, args, n_active=L, schedule=schedule_of(args), dtype=args.dtype, n_candidates=args.candidate_count
            )
            name, spent, points = "dense" if L is None else f"L={L}", 0.0, []
            for _ in range(args.passes):
                before = clocks()
                kernel.step(state)
                spent += float((clocks() - before)[0])
                points.append({"CPU": spent, "held-out": held_out(state, H), "bound": bound(state)})
            curves.append({"K": K, "L": name, "points": points})
    print_table([{"K": c["K"], "L": c["L"]} | c["points"][-1] for c in curves])
    if args.figure:
        draw(curves, args)
    return {"curves": curves}


def draw(curves, args):
    """One panel for each K."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = sorted({c["K"] for c in curves})
    figure, axes = plt.subplots(1, len(sizes), figsize=(5 * len(sizes), 4), squeeze=False, sharey=True)
    for axis, K in zip(axes[0], sizes):
        for c in (c for c in curves if c["K"] == K):
            axis.plot([p["CPU"] for p in c["points"]], [p["held-out"] for p in c["points"]], label=c["L"], marker=".")
        axis.set(title=f"K = {K}", xlabel="CPU seconds", xscale="log")
    axes[0, 0].set_ylabel("held-out log likelihood, nats a patch")
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(args.figure, dpi=120)


def peers(args):
    """Ours by L beside scikit-learn's Gaussian mixtures, from the same labels: time and held-out score."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
    from threadpoolctl import threadpool_limits

    X, H = patches(args)
    K, rows = args.clusters[0], []
    for L in args.active:
        kernel, state = begin(X, K, args, n_active=L, schedule=schedule_of(args), dtype=args.dtype)
        before = clocks()
        for _ in range(args.passes):
            kernel.step(state)
        rows.append(peer_row("ours, dense" if L is None else f"ours, L={L}", before, len(X), args, held_out(state, H)))
    for kind in (GaussianMixture, BayesianGaussianMixture):
        fit = kind(
            n_components=K, max_iter=args.passes, init_params="random_from_data", reg_covar=1.0, random_state=args.seed
        )
        with warnings.catch_warnings(), threadpool_limits(args.threads):
            warnings.simplefilter("ignore", ConvergenceWarning)
            before = clocks()
            fit.fit(X)
            rows.append(peer_row(kind.__name__, before, len(X), args, float(fit.score(H))))
    print_table(rows)
    return {"peers": rows}


def peer_row(name, before, n_rows, args, score):
    cpu, wall = clocks() - before
    scale = 1e6 / (n_rows * args.passes)
    return {"method": name, "CPU us a patch and pass": cpu * scale, "wall": wall * scale, "held-out": score}


def sparsity(args):
    """What L responsibilities lose after training: total variation from the dense ones, and nats a patch."""
    X, _ = patches(args)
    kernel, state = begin(X, args.clusters[0], args, n_active=8, schedule=schedule_of(args), dtype="float64")
    for _ in range(args.passes):
        kernel.step(state)
    family, q = state.model.family, state.posterior
    scores = family.sufficient_statistics(X[:4096]) @ q.theta.T + (q.log_pi - q.g)
    r = np.sort(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)), axis=1)[:, ::-1]
    mass = np.minimum(np.cumsum(r, axis=1), 1.0)
    rows = []
    for L in (1, 2, 4, 8, 16):
        lost = 1.0 - mass[:, L - 1]
        rows.append(
            {
                "L": L,
                "mean": float(lost.mean()),
                "99 %": float(np.quantile(lost, 0.99)),
                "nats": float(-np.log(mass[:, L - 1]).mean()),
            }
        )
    print_table(rows)
    return {"sparsity": rows}


# ---- command line ----------------------------------------------------------------------------------------------------


def parser():
    """All options of all protocols."""
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--patches", type=Path, help=".npy array (N, 64) in place of the sample images'")
    common.add_argument("--stride", type=int, default=2, help="pixels between patches of the sample images")
    common.add_argument("--rows", type=int, default=100_000)
    common.add_argument("--held", type=int, default=10_000, help="patches held out")
    common.add_argument("--clusters", type=int, nargs="+", default=[200, 400, 800])
    common.add_argument("--active", type=active, nargs="+", default=[1, 2, 4, 8, 16, None], help='numbers, or "dense"')
    common.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    common.add_argument("--threads", type=int, default=1)
    common.add_argument("--seed", type=int, default=0)
    common.add_argument("--passes", type=int, default=10)
    common.add_argument("--schedule", choices=["full", "memoized", "stochastic"], default="memoized")
    common.add_argument("--batches", type=int, default=20, help="of a pass, unless it is full")
    common.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
    commands = top.add_subparsers(required=True)
    for protocol in (passes, candidates, curve, peers, sparsity):
        command = commands.add_parser(protocol.__name__, parents=[common], help=protocol.__doc__)
        command.set_defaults(run=protocol)
        if protocol is passes:
            command.add_argument("--repeats", type=int, default=3)
        elif protocol is candidates:
            command.add_argument("--candidates", type=int, nargs="+", default=[16, 32, 48, 64])
            command.add_argument("--full-every", type=int, default=10)
        elif protocol is curve:
            command.add_argument("--figure", type=Path, metavar="PATH")
            command.add_argument("--candidate-count", type=int, help="all clusters if not given")
    return top


def main():
    """Run one of the protocols."""
    args = parser().parse_args()
    result = args.run(args)
    if args.json:
        settings = {key: value for key, value in vars(args).items() if key not in ("run", "json", "patches", "figure")}
        result = {"settings": settings, "machine": platform.processor() or platform.machine()} | result
        args.json.write_text(json.dumps(result, indent=1, allow_nan=False))


if __name__ == "__main__":
    main()
