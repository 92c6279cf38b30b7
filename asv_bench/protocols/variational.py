"""Sparse variational mixtures of image patches: run by hand, `python asv_bench/protocols/variational.py --help`.

Protocols after Hughes and Sudderth 2016, "Fast learning of clusters and topics via sparse posteriors": 8 x 8 patches
without their mean, mixtures of zero-mean Gaussians with full covariance, held-out log likelihood against time by the
number L of responsibilities kept. Patches are those of scikit-learn's two sample images, or the rows of --patches FILE,
an .npy array (N, 64). All of them are taken to the 63 directions beside the constant one, so that densities of all
methods compare. Held-out scores are log densities at posterior means, nats a patch. CPU seconds are those of the
process, all threads together. Defaults end within three minutes; --rows, --stride and --passes make them larger. Each
protocol prints a table and, with --json, writes all it knows.
"""

import argparse
import tempfile
import tracemalloc
import warnings
from functools import lru_cache
from pathlib import Path
from time import perf_counter

import numpy as np
from generated import data as generated
from reports import clocks, print_table, report, resident, with_peak
from scipy.special import logsumexp

from expfam import (
    AdmixtureModel,
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    Mixture,
    MixtureModel,
    SymmetricDirichlet,
    ZeroMeanGaussian,
)
from expfam.samplers import (
    ClusterMoves,
    Cycle,
    Full,
    GroupedVariational,
    Memoized,
    SparseVariational,
    Stochastic,
    starting_labels,
)
from expfam.samplers.variational.sparse_rows import select_rows, soft_rows, work_size
from expfam.structures.ground.threads import run

PARTS = ("statistics", "weights", "select", "summary", "global")


# ---- what the protocols share ----------------------------------------------------------------------------------------


def patches(args):
    """Training and held-out patches (rows, 63), shuffled."""
    P = sample_patches(args.stride) if args.patches is None else np.load(args.patches, mmap_mode="r")
    chosen = np.random.default_rng(args.seed).permutation(len(P))[: args.rows + args.held]
    if len(chosen) < args.rows + args.held:
        raise SystemExit(f"{len(P)} patches are fewer than --rows + --held; take a smaller --stride, or --patches")
    P = P[chosen].astype(np.float64)
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


def model_of(X, K):
    """Data and model of so many clusters."""
    data = Dataset(X, ZeroMeanGaussian())
    return data, MixtureModel(data.family, SymmetricDirichlet(K))


class Starts:
    """Labels to begin with by number of clusters, the same for all settings."""

    def __init__(self, X, args):
        self.X, self.args = X, args
        self.seeded, self.settled = lru_cache(self._seeded), lru_cache(self._settled)

    def _seeded(self, K):
        data, model = model_of(self.X, K)
        return starting_labels("kmeans++", model, data, seed=self.args.seed, n_clusters=K)

    def _settled(self, K):
        kernel, state = self.begin(K, n_active=4, schedule=schedule_of(self.args), dtype=self.args.dtype)
        for _ in range(self.args.settle):
            kernel.step(state)
        kernel.finish(state)
        return state.labels.copy()

    def begin(self, K, labels=None, **settings):
        """Kernel and state."""
        data, model = model_of(self.X, K)
        kernel = SparseVariational(tol=0.0, n_threads=self.args.threads, **settings)
        labels = self.seeded(K) if labels is None else labels
        return kernel, kernel.init(model, data, seed=self.args.seed, start=labels)


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


def named(L):
    """A number of responsibilities in words."""
    return "dense" if L is None else f"L={L}"


# ---- protocols -------------------------------------------------------------------------------------------------------


def passes(args):
    """Microseconds a patch of one pass over all data and its parts: dense, by L, and with candidates at L = 4."""
    X, _ = patches(args)
    starts, rows = Starts(X, args), []
    for K in args.clusters:
        choices = [(L, None) for L in args.active] + [(4, G) for G in args.candidates if G < K]
        dense = None
        for L, G in sorted(choices, key=lambda choice: choice[0] is not None):
            settings = {"n_active": L, "n_candidates": G, "full_every": 10**6, "dtype": args.dtype}
            kernel, state = starts.begin(K, starts.settled(K), schedule=Full(), **settings)
            kernel.step(state)
            moved = state.share_moved
            state.share_moved = 0.0  # candidates from here on, where there are any
            best = least_pass(kernel, state, args)
            dense = best["CPU"] if L is None else dense
            row = {"K": K, "kept": named(L), "candidates": "all" if G is None else G} | best
            row |= {"dense over it": dense / best["CPU"] if dense else None, "moved before": moved}
            rows.append(row | {"bound": bound(state)})
    print_table(rows)
    return {"passes": rows}


def least_pass(kernel, state, args):
    """CPU and wall microseconds a patch of the fastest of a few passes, and its parts (wall, all threads)."""
    best, N = None, len(state.data)
    for _ in range(args.repeats):
        before = clocks()
        info = kernel.step(state)
        cpu, wall = (clocks() - before) * 1e6 / N
        if best is None or cpu < best["CPU"]:
            best = {"CPU": cpu, "wall": wall}
            best |= {name: info.extra[f"seconds_{name}"] * 1e6 / N for name in PARTS}
            best["last_outside"] = info.extra["n_last_outside"] / (4 * N)
    return best


def curve(args):
    """Held-out log likelihood against CPU seconds, by L; a figure with --figure."""
    X, H = patches(args)
    starts, curves = Starts(X, args), []
    for K in args.clusters:
        for L in args.active:
            settings = {"n_active": L, "schedule": schedule_of(args), "dtype": args.dtype}
            kernel, state = starts.begin(K, n_candidates=args.candidate_count, **settings)
            spent, points = 0.0, []
            for _ in range(args.passes):
                before = clocks()
                kernel.step(state)
                spent += float((clocks() - before)[0])
                points.append({"CPU": spent, "held-out": held_out(state, H), "bound": bound(state)})
            curves.append({"K": K, "L": named(L), "points": points})
    print_table([{"K": c["K"], "L": c["L"], "passes": args.passes} | c["points"][-1] for c in curves])
    if args.figure:
        from figures import draw_by_sparsity

        draw_by_sparsity(curves, args.figure)
    return {"curves": curves}


def peers(args):
    """Held-out score against CPU seconds: ours by L beside scikit-learn's Gaussian mixtures.

    Each begins with its own seeding, whose seconds count: k-means++ on directions, and k-means. --seconds is what a
    method may take before its last doubling of passes.
    """
    from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
    from threadpoolctl import threadpool_limits

    X, H = patches(args)
    K, rows, starts = args.clusters[0], [], Starts(X, args)
    before = clocks()
    starts.seeded(K)
    seeding = clocks() - before
    with threadpool_limits(args.threads):
        for L in args.active:
            walk = ours_by_pass(starts, K, L, H, args)
            rows += peer_rows(f"ours, {named(L)}", walk, seeding, K, args)
        for kind in (GaussianMixture, BayesianGaussianMixture):
            rows += peer_rows(kind.__name__, theirs_by_pass(kind, X, H, K, args), np.zeros(2), K, args)
    print_table(rows)
    return {"peers": rows}


def ours_by_pass(starts, K, L, H, args):
    """Passes and held-out score each time that the passes have doubled."""
    kernel, state = starts.begin(K, n_active=L, schedule=schedule_of(args), dtype=args.dtype)
    done = 0
    for n_passes in doublings(args.passes):
        before = clocks()
        for _ in range(n_passes - done):
            kernel.step(state)
        done = n_passes
        yield done, clocks() - before, held_out(state, H)


def theirs_by_pass(kind, X, H, K, args):
    """The same of a mixture of scikit-learn, which makes one more half of a pass at the end of each fit."""
    from sklearn.exceptions import ConvergenceWarning

    settings = {"reg_covar": args.ridge, "random_state": args.seed, "tol": 0.0, "warm_start": True}
    if kind.__name__ == "BayesianGaussianMixture":
        settings["weight_concentration_prior_type"] = "dirichlet_distribution"
    fit, done = kind(n_components=K, **settings), 0
    for n_passes in doublings(args.passes):
        fit.set_params(max_iter=n_passes - done)
        before = clocks()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit.fit(X)
        done = n_passes
        yield done, clocks() - before, float(fit.score(H))


def doublings(most):
    """1, 2, 4 and so on, and the most."""
    return [2**j for j in range(most.bit_length()) if 2**j < most] + [most]


def peer_rows(name, walk, spent, K, args):
    """Points of a method until twice what it took would be more than it may."""
    rows = []
    for done, seconds, score in walk:
        spent = spent + seconds
        row = {"method": name, "patches": args.rows, "K": K, "passes": done, "CPU s": spent[0], "wall s": spent[1]}
        rows.append(row | {"us a patch and pass": spent[0] * 1e6 / (args.rows * done), "held-out": score})
        if 2 * spent[0] > args.seconds:
            break
    return rows


def sparsity(args):
    """What L responsibilities lose after training: total variation from the dense ones, and nats a patch."""
    X, _ = patches(args)
    kernel, state = Starts(X, args).begin(args.clusters[0], n_active=8, schedule=schedule_of(args), dtype="float64")
    for _ in range(args.passes):
        kernel.step(state)
    mass, rows = kept_mass(state, X[:4096]), []
    for L in (1, 2, 4, 8, 16):
        lost = 1.0 - mass[:, L - 1]
        nats = float(-np.log(mass[:, L - 1]).mean())
        rows.append({"L": L, "mean": float(lost.mean()), "99 %": float(np.quantile(lost, 0.99)), "nats": nats})
    print_table(rows)
    return {"sparsity": rows}


def kept_mass(state, X):
    """Mass of the 1, 2, ... largest responsibilities of each row; what is left of 1 is their total variation."""
    family, q = state.model.family, state.posterior
    scores = family.sufficient_statistics(X) @ q.theta.T + (q.log_pi - q.g)
    r = np.sort(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)), axis=1)[:, ::-1]
    return np.minimum(np.cumsum(r, axis=1), 1.0)


def select(args):
    """Nanoseconds a row of choosing L of K scores and their softmax, beside the dense softmax and NumPy's partition."""
    rng, rows = np.random.default_rng(args.seed), []
    for K in args.clusters:
        scores = rng.normal(scale=3.0, size=(args.rows, K)).astype(args.dtype)
        for L in (L for L in args.active if L is None or L < K):
            row = {"K": K, "kept": named(L), "ours": least_select(scores, L, args.repeats)}
            rows.append(row | {"NumPy": least_partition(scores, L, args.repeats)})
    print_table(rows)
    return {"select": rows}


def least_select(scores, L, repeats):
    """Nanoseconds a row of the passes' own routine; a dense softmax is written over its scores."""
    m, K = scores.shape
    values, indices = np.empty((m, L or 1), dtype=scores.dtype), np.empty((m, L or 1), dtype=np.int32)
    objective, entropy = np.empty(m), np.empty(m)
    work = np.empty(work_size(K), dtype=np.float64 if L is None else scores.dtype)
    best = np.inf
    for _ in range(repeats):
        S = scores.copy()
        begin = perf_counter()
        if L is None:
            soft_rows(S, indices, objective, entropy, work)
        else:
            select_rows(S, None, None, None, values, indices, objective, entropy, work)
        best = min(best, perf_counter() - begin)
    return best * 1e9 / m


def least_partition(scores, L, repeats):
    """Nanoseconds a row with NumPy."""
    best = np.inf
    for _ in range(repeats):
        begin = perf_counter()
        kept = scores if L is None else -np.partition(-scores, L - 1, axis=1)[:, :L]
        r = np.exp(kept - kept.max(axis=1, keepdims=True))
        r /= r.sum(axis=1, keepdims=True)
        best = min(best, perf_counter() - begin)
    return best * 1e9 / len(scores)


def memory(args):
    """Most memory beside the data that starts and passes take, against 8 N L + 200 MB; generated rows in float32."""
    K, L = args.clusters[0], 4
    X = np.empty((args.rows, args.features), dtype=np.float32)
    run(fill_block, [(X, a, args.seed) for a in range(0, args.rows, 100_000)], args.threads)
    labels = np.random.default_rng(args.seed).integers(0, K, args.rows, dtype=np.int32)
    rows, allowed = [], (8.0 * args.rows * L + 200e6) / 1e6
    for name in args.schedules:
        for G in (None, 48):
            kernel = SparseVariational(
                L, schedule=schedule_named(name, args), n_candidates=G, n_threads=args.threads, tol=0.0
            )
            data, model = model_of(X, K)
            held = resident("VmRSS")
            state, first = with_peak(lambda k=kernel, m=model, d=data: k.init(m, d, seed=args.seed, start=labels))
            state.share_moved = 0.0 if G else np.inf  # candidates at once
            info, second = with_peak(lambda k=kernel, s=state: k.step(s))
            row = {"schedule": name, "candidates": "all" if G is None else G, "start MB": (first - held) / 1e6}
            row |= {"pass MB": (second - held) / 1e6, "allowed MB": allowed, "pass s": info.seconds}
            rows.append(row | {"forecast MB": kernel.memory(model, data, K) / 1e6})
            del state
    print_table(rows)
    return {"memory": rows}


def fill_block(X, start, seed):
    block = X[start : start + 100_000]
    block[:] = np.random.default_rng([seed, start]).standard_normal(block.shape, dtype=np.float32)


def disk(args):
    """Most memory that a fit to rows on disk allocates, and its score: a memory map, chunks of it, all of it read."""
    K = args.clusters[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(args.rows, args.features))
        centres = 3.0 * np.random.default_rng(args.seed).standard_normal((K, args.features), dtype=np.float32)
        for start in range(0, args.rows, 100_000):
            fill_block(X, start, args.seed)
            X[start : start + 100_000] += centres[np.arange(start, min(start + 100_000, args.rows)) % K]
        X.flush()
        mapped, size = np.load(path, mmap_mode="r"), args.rows // args.batches
        runs = {
            "memory map": lambda mixture: mixture.fit(mapped),
            "chunks": lambda mixture: mixture.fit_chunks(
                [mapped[a : a + size] for a in range(0, args.rows, size)] if args.passes > 1 else iter_of(mapped, size)
            ),
            "read whole": lambda mixture: mixture.fit(np.load(path)),
        }
        rows = []
        for name, fit in runs.items():
            sampler = SparseVariational(4, schedule=Memoized(args.batches, run_length=1000), n_threads=args.threads)
            settings = {"n_steps": args.passes, "n_warmup": 0, "learn_hyper": False, "random_state": args.seed}
            mixture = Mixture("gaussian_diag", K, sampler=sampler, **settings)
            before = clocks()
            tracemalloc.start()
            fit(mixture)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            cpu, wall = clocks() - before
            row = {
                "data": name,
                "data MB": mapped.nbytes / 1e6,
                "allocated MB": peak / 1e6,
                "CPU s": cpu,
                "wall s": wall,
            }
            rows.append(row | {"score": mixture.score(mapped[:: max(1, args.rows // 20_000)])})
    print_table(rows)
    return {"disk": rows}


def moves(args):
    """Clusters of a Dirichlet process that passes alone and passes with moves find, from poor starts; planted data."""
    from sklearn.metrics import normalized_mutual_info_score

    K, rows = args.clusters[0], []
    X, truth = generated.gaussians(args.rows, K, n_features=args.features, seed=args.seed)
    data = Dataset(X, DiagonalGaussian())
    model = MixtureModel(data.family, DirichletProcess())
    for start, n_clusters in (("one", None), ("kmeans++", K // 2), ("kmeans++", K), ("kmeans++", 3 * K)):
        for name in ("passes", "with moves"):
            passes = SparseVariational(truncation=4 * K, n_threads=args.threads, tol=0.0, schedule=schedule_of(args))
            kernel = passes if name == "passes" else Cycle(passes, ClusterMoves(n_trials=args.trials))
            state = kernel.init(model, data, seed=args.seed, start=start, n_clusters=n_clusters)
            before = clocks()
            for _ in range(args.passes):
                kernel.step(state)
            kernel.finish(state)
            row = {"start": f"{start} {n_clusters or ''}", "kernel": name, "CPU s": float((clocks() - before)[0])}
            row |= {"planted": K, "found": state.n_clusters, "bound": bound(state)}
            rows.append(row | {"NMI": normalized_mutual_info_score(truth, state.labels)})
    print_table(rows)
    return {"moves": rows}


def groups(args):
    """Passes over rows in groups of several sizes, all clusters scored or candidates; planted data."""
    K, rows = args.clusters[0], []
    for size in args.sizes:
        X, of_row, truth = rows_in_groups(args.rows, size, K, args.features, args.seed)
        rng = np.random.default_rng(args.seed + 1)
        start = np.where(rng.random(args.rows) < 0.3, rng.integers(0, K, args.rows), truth)
        data = Dataset(X, DiagonalGaussian(), groups=of_row)
        model, reached = AdmixtureModel(data.family, K, 8.0 / K), []
        for G in (None, *args.candidates):
            options = {"n_candidates": G, "full_every": 1000, "bound_tol": 0.0, "n_threads": args.threads}
            kernel = GroupedVariational(schedule=schedule_of(args), **options)
            state = kernel.init(model, data, seed=args.seed, start=start)
            for _ in range(args.settle):
                kernel.step(state)
            state.share_moved = 0.0  # candidates from now on, where there are any
            before = clocks()
            for _ in range(args.passes):
                kernel.step(state)
            cpu = float((clocks() - before)[0]) / args.passes
            reached.append(state.log_joint)
            row = {"rows of a group": size, "candidates": "all" if G is None else G, "CPU s a pass": cpu}
            rows.append(row | {"rows / s": args.rows / cpu, "behind, nats": reached[0] - state.log_joint})
    print_table(rows)
    return {"groups": rows}


def rows_in_groups(n_rows, size, n_clusters, n_features, seed):
    """Rows of Gaussian clusters in groups that have eight of them each; groups and clusters of the rows."""
    rng, n_groups = np.random.default_rng(seed), -(-n_rows // size)
    of_row = np.arange(n_rows) // size
    shares = rng.dirichlet(np.full(8, 0.7), n_groups).cumsum(axis=1)
    chosen = (rng.random((n_rows, 1)) > shares[of_row]).sum(axis=1).clip(0, 7)
    truth = rng.integers(0, n_clusters, (n_groups, 8))[of_row, chosen]
    return 1.5 * rng.normal(size=(n_clusters, n_features))[truth] + rng.normal(size=(n_rows, n_features)), of_row, truth


def iter_of(X, size):
    """Chunks that come once."""
    return (X[a : a + size] for a in range(0, len(X), size))


def schedule_named(name, args):
    return Full() if name == "full" else Memoized(args.batches)


# ---- command line ----------------------------------------------------------------------------------------------------

SIZES = {  # rows, clusters, passes: what ends within three minutes
    passes: (100_000, [200, 1000], 0),
    curve: (20_000, [200, 400, 800], 5),
    peers: (20_000, [200], 16),
    sparsity: (30_000, [200], 10),
    select: (20_000, [50, 200, 800, 3200], 0),
    memory: (1_000_000, [1000], 0),
    disk: (1_000_000, [50], 5),
    moves: (20_000, [40], 20),
    groups: (100_000, [1000], 4),
}


def parser():
    """All options of all protocols."""
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(required=True)
    for protocol, (rows, clusters, n_passes) in SIZES.items():
        command = commands.add_parser(protocol.__name__, help=protocol.__doc__, description=protocol.__doc__)
        command.set_defaults(run=protocol)
        command.add_argument("--rows", type=int, default=rows)
        command.add_argument("--clusters", type=int, nargs="+", default=clusters)
        command.add_argument("--threads", type=int, default=1)
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--batches", type=int, default=4, help="of a pass, unless it is full")
        command.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
        if protocol in (memory, disk):
            command.add_argument("--features", type=int, default=16 if protocol is memory else 64)
        if protocol is disk:
            command.add_argument("--passes", type=int, default=n_passes, help="1: chunks come from an iterator")
            continue
        if protocol is moves:
            command.add_argument("--features", type=int, default=16)
            command.add_argument("--passes", type=int, default=n_passes)
            command.add_argument("--trials", type=int, default=5, help="deletions and births of a step")
            command.add_argument("--schedule", choices=["full", "memoized", "stochastic"], default="memoized")
            continue
        if protocol is groups:
            command.add_argument("--features", type=int, default=16)
            command.add_argument("--sizes", type=int, nargs="+", default=[20, 200, 2000], help="rows of a group")
            command.add_argument("--candidates", type=int, nargs="*", default=[48])
            command.add_argument("--settle", type=int, default=2, help="passes before anything is timed")
            command.add_argument("--passes", type=int, default=n_passes)
            command.add_argument("--schedule", choices=["full", "memoized"], default="full")
            continue
        if protocol is memory:
            command.add_argument("--schedules", choices=["full", "memoized"], nargs="+", default=["full", "memoized"])
            continue
        kept = [1, 2, 4, 8, 16, None] if protocol is not passes else [4, None]
        command.add_argument("--active", type=active, nargs="+", default=kept, help='numbers, or "dense"')
        command.add_argument("--dtype", choices=["float32", "float64"], default="float32")
        if protocol in (passes, select):
            command.add_argument("--repeats", type=int, default=2)
        if protocol is select:
            continue
        command.add_argument("--patches", type=Path, dest="patches", help=".npy array (N, 64), in place of the images'")
        command.add_argument("--stride", type=int, default=2, help="pixels between patches of the sample images")
        command.add_argument("--held", type=int, default=5_000, help="patches held out")
        command.add_argument("--schedule", choices=["full", "memoized", "stochastic"], default="memoized")
        if protocol is passes:
            command.add_argument("--settle", type=int, default=3, help="passes of L = 4 before anything is timed")
            command.add_argument("--candidates", type=int, nargs="*", default=[32, 48, 64])
        else:
            command.add_argument("--passes", type=int, default=n_passes)
        if protocol is curve:
            command.add_argument("--figure", type=Path, metavar="PATH")
            command.add_argument("--candidate-count", type=int, help="all clusters if not given")
        elif protocol is peers:
            command.add_argument("--seconds", type=float, default=50.0, help="CPU seconds of a method")
            command.add_argument("--ridge", type=float, default=1e-3, help="scikit-learn's reg_covar")
    return top


if __name__ == "__main__":
    report(parser().parse_args())
