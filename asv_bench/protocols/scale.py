"""One fit of more rows than memory should hold: rows on disk, the forecast, and beside it what was seen.

Run by hand on idle cores: `python -m asv_bench.protocols.scale --rows 1e8 --clusters 100 --folder DIR`. The rows are
float32 of 32 columns about K centres, in a file of DIR, which 1e8 rows make 12.8 GB large. It is written in blocks
where there is none, and stays for the next run unless `--remove` is given; `--only-write` ends there. A run over 1 %
of the rows, though not fewer than 200,000, gives the forecast of a pass and of the start; that of the memory is the
plan's for the rows among which a start is searched, and the sums that are kept of each chunk. `--way map` fits the
mapped file in one call instead of chunks, which holds labels and responsibilities of all rows.

The exit status is 1 where the fit needs more memory than was forecast, where a pass of two CPU seconds and more takes
more than 1.5 times its forecast, or where the normalised mutual information of 200,000 rows with their true clusters is
below .9. Memory is that of the process without pages of mapped files, which the system takes back when it needs them
(Linux).
"""

import argparse
import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
from sklearn.metrics import normalized_mutual_info_score
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).resolve().parent))  # for `python -m`, which knows the working folder alone

from reports import print_table, report, with_peak_beside_files

from expfam import Mixture
from expfam.forecast.memory import format_bytes
from expfam.samplers.warm_starts.sample_rows import rows_for_start
from expfam.structures.ground.memory import available_memory

FEATURES = 32
BLOCK = 100_000  # rows that are generated together; each block has a random stream of its own
SPREAD = 3.0  # standard deviation of the centres; that of a cluster is 1
LEAST_SAMPLE = 200_000
OF_SAMPLE = 0.01
TESTED = 200_000
LEAST_NMI = 0.9
MOST_OF_FORECAST = 1.5
LEAST_SECONDS = 2.0  # CPU seconds of a pass that are compared with their forecast


class Rows:
    """Rows about K centres in a file, whose true clusters are generated anew when they are asked for."""

    def __init__(self, folder, n_rows, n_clusters, seed=0):
        self.n_rows, self.n_clusters, self.seed = n_rows, n_clusters, seed
        self.path = Path(folder) / f"rows-{n_rows}-{n_clusters}-{seed}.npy"
        self.centres = np.random.default_rng(seed).normal(scale=SPREAD, size=(n_clusters, FEATURES)).astype(np.float32)

    def block(self, number):
        """Random stream of a block, after its first draw: the clusters of its rows."""
        rng = np.random.default_rng([self.seed, number])
        return rng, rng.integers(0, self.n_clusters, min(BLOCK, self.n_rows - number * BLOCK))

    def write(self):
        """Write the file, under another name until it is complete."""
        if self.path.exists():
            return
        begun = self.path.with_suffix(".part")
        X = np.lib.format.open_memmap(begun, mode="w+", dtype=np.float32, shape=(self.n_rows, FEATURES))
        for number in range(-(-self.n_rows // BLOCK)):
            rng, labels = self.block(number)
            at = slice(number * BLOCK, number * BLOCK + len(labels))
            X[at] = self.centres[labels] + rng.standard_normal((len(labels), FEATURES), dtype=np.float32)
        X.flush()
        begun.rename(self.path)

    def mapped(self):
        """The rows, as the file has them."""
        return np.load(self.path, mmap_mode="r")

    def sample(self, n_rows):
        """Slices of whole blocks, evenly over the file, of about so many rows, and the true clusters of each."""
        n_blocks = -(-self.n_rows // BLOCK)
        numbers = np.unique(np.linspace(0, n_blocks - 1, min(n_blocks, max(1, n_rows // BLOCK))).astype(int)).tolist()
        return [(slice(i * BLOCK, (i + 1) * BLOCK), self.block(i)[1]) for i in numbers]


class Chunks:
    """Chunks of rows that can be read again and again; tells of each tenth of a pass."""

    def __init__(self, X, size, *, tells=False):
        self.X, self.size, self.tells = X, size, tells

    def __len__(self):
        return -(-len(self.X) // self.size)

    def __iter__(self):
        begin, n = perf_counter(), len(self)
        for i in range(n):
            yield self.X[i * self.size : (i + 1) * self.size]
            if self.tells and n >= 10 and (i + 1) % max(1, n // 10) == 0:
                print(f"  {i + 1} of {n} chunks, {perf_counter() - begin:.0f} s", flush=True)


class Passes:
    """Seconds of each pass of a fit, CPU and wall; a callback."""

    def __init__(self):
        self.cpu, self.wall = [], []
        self.begin()

    def begin(self):
        """The first pass begins."""
        self.last = process_time(), perf_counter()

    def __call__(self, info, state):
        """Note a pass."""
        now = process_time(), perf_counter()
        self.cpu.append(now[0] - self.last[0])
        self.wall.append(now[1] - self.last[1])
        self.last = now
        print(f"  pass {len(self.cpu)}: CPU {self.cpu[-1]:.1f} s, wall {self.wall[-1]:.1f} s", flush=True)

    def later(self, kind):
        """Median of the passes after the first one; the first if it is alone."""
        seconds = getattr(self, kind)
        return median(seconds[1:] or seconds)


def learner(args, passes):
    """The mixture that is fitted."""
    steps = {"n_steps": args.passes} if args.passes else {}
    if args.way == "map":
        steps |= {"n_warmup": 0, "learn_hyper": False}  # as chunks are learned
    return Mixture("gaussian_diag", args.clusters, sampler="variational", random_state=args.seed,
                   n_threads=args.threads, callbacks=[passes], **steps)  # fmt: skip


def fitted(X, size, args, *, tells=False):
    """A fit of rows in its way: the mixture and its passes."""
    passes = Passes()
    mixture = learner(args, passes)
    passes.begin()
    if args.way == "map":
        return mixture.fit(X), passes
    return mixture.fit_chunks(Chunks(X, size, tells=tells)), passes


def forecast_bytes(X, size, args):
    """Forecast of the memory beside the data, and its words."""
    if args.way == "map":
        found = learner(args, Passes()).plan_fit(X).forecast()
        return found.beside_data, str(found)
    plan = learner(args, Passes()).plan_fit(X[:size])
    n_start = min(len(X), size * -(-rows_for_start(plan.model, plan.data) // size))  # whole chunks, held for the start
    found = learner(args, Passes()).plan_fit(X[:n_start]).forecast()
    kept = 8 * args.clusters * (plan.data.n_statistics + 1) * len(Chunks(X, size))
    joined = 2 * plan.data.X.itemsize * FEATURES * n_start  # the chunks as one, and those that are read
    words = f"{found}; sums of all chunks {format_bytes(kept)}, rows of the start {format_bytes(joined)}"
    return found.beside_data + kept + joined, words


def agreement(mixture, X, rows):
    """Normalised mutual information of the predicted and true clusters of some blocks."""
    found = [(mixture.predict(X[at]), true) for at, true in rows.sample(TESTED)]
    return float(normalized_mutual_info_score(*(np.concatenate(each) for each in zip(*found))))


def written(args):
    """The rows, and their file, which is written if there is none."""
    rows = Rows(args.folder, args.rows, args.clusters, args.seed)
    begin = perf_counter()
    rows.write()
    X, seconds = rows.mapped(), perf_counter() - begin
    print(f"{len(X):,} x {FEATURES} of float32, {format_bytes(X.nbytes)}, in {rows.path}: {seconds:.0f} s;"
          f" {format_bytes(available_memory())} of memory are free", flush=True)  # fmt: skip
    return rows, X


def run(args):
    """Write, forecast, fit, and compare."""
    rows, X = written(args)
    size = min(args.chunk, len(X))
    n_bytes, words = forecast_bytes(X, size, args)
    print(f"forecast of the memory: {words}", flush=True)
    (expected, mixture, passes), peak = with_peak_beside_files(lambda: forecast_and_fitted(X, size, args))
    begin = perf_counter()
    nmi = agreement(mixture, X, rows)
    result = {
        "rows": len(X), "K": args.clusters, "passes": len(passes.cpu),
        "CPU s/pass": passes.later("cpu"), "forecast CPU s/pass": expected["cpu"],
        "wall s/pass": passes.later("wall"), "forecast wall s/pass": expected["wall"],
        "first pass, CPU s": passes.cpu[0], "all passes, minutes": sum(passes.wall) / 60,
        "peak MB": peak / 1e6, "forecast MB": n_bytes / 1e6, "NMI": nmi,
        "clusters": int((mixture.cluster_sizes_ > 0).sum()), "counted rows": int(mixture.cluster_sizes_.sum()),
        "labels, s": perf_counter() - begin,
    }  # fmt: skip
    print()
    print_table([{"what": key, "seen": value} for key, value in result.items()])
    if args.remove:
        rows.path.unlink()
    return result | {"CPU s of passes": passes.cpu}


def forecast_and_fitted(X, size, args):
    """Forecast seconds of a pass, and the mixture of all rows and its passes."""
    n_sample = min(len(X), max(LEAST_SAMPLE, int(OF_SAMPLE * len(X))))
    print(f"a fit of {n_sample:,} rows, for the forecast of the time", flush=True)
    _, small = fitted(X[:n_sample], max(1, n_sample // max(2, min(10, len(Chunks(X, size))))), args)
    share = len(X) / n_sample
    expected = {kind: share * small.later(kind) for kind in ("cpu", "wall")}
    start = max(0.0, small.wall[0] - small.later("wall"))
    print(f"forecast: {expected['wall']:.0f} s a pass by the clock, CPU {expected['cpu']:.0f} s, and {start:.0f} s for"
          " the start", flush=True)  # fmt: skip
    return expected, *fitted(X, size, args, tells=True)


def missed(result):
    """What is not as it should be."""
    lines = []
    if result["peak MB"] > result["forecast MB"]:
        lines.append("the fit needed more memory than was forecast")
    if result["CPU s/pass"] > max(LEAST_SECONDS, MOST_OF_FORECAST * result["forecast CPU s/pass"]):
        lines.append(f"a pass took more than {MOST_OF_FORECAST} times its forecast")
    if not result["NMI"] >= LEAST_NMI:
        lines.append(f"an NMI of {result['NMI']:.3f} is below {LEAST_NMI}")
    if result["counted rows"] != result["rows"]:
        lines.append(f"the clusters have {result['counted rows']:,} rows together")
    return lines


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000, help="1e6 if not given")
    command.add_argument("--clusters", type=lambda text: int(float(text)), default=100)
    command.add_argument("--folder", type=Path, default=Path(), help="where the file is written; here if not given")
    command.add_argument("--way", choices=["chunks", "map"], default="chunks")
    command.add_argument("--chunk", type=lambda text: int(float(text)), default=1_000_000, help="rows of a chunk")
    command.add_argument("--passes", type=int, help="most passes; until the bound has converged if not given")
    command.add_argument("--threads", type=int, default=os.cpu_count())
    command.add_argument("--seed", type=int, default=0)
    kept = command.add_mutually_exclusive_group()
    kept.add_argument("--only-write", action="store_true", help="write the file of rows if there is none, and end")
    kept.add_argument("--remove", action="store_true", help="remove the file at the end")
    command.add_argument("--json", type=Path)
    command.set_defaults(run=run)
    return command


def main(arguments=None):
    """Exit status."""
    args = parser().parse_args(arguments)
    if args.only_write:
        written(args)
        return 0
    with threadpool_limits(1, user_api="blas"):
        lines = missed(report(args))
    for line in lines:
        print(f"MISSED: {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
