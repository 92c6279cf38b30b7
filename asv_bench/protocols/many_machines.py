"""Data in parts: exact sums, sweeps, EM, slices, splits, exchanges, gain of two processes, memory against the forecast.

Run by hand on idle cores: `python -m asv_bench.protocols.many_machines`; `--quick` takes small sizes, and asks neither
for the share of exact sums nor for the gain of two processes. The exit status is 1 where labels depend on the parts,
where a sweep of one part takes more than 1.1 times that of one machine, where splits and merges do not find the groups
from one cluster, where exact sums take more than 3 % of a dense sweep of one machine in which most rows move, where two
processes are less than 1.6 times as fast as one at a second of work, where an exchange takes more CPU of the client
than 1 ms and 4 ms a megabyte that is moved, or where a worker needs more memory than was forecast. CPU times are
medians of one thread; an order to two processes is measured in the process that gives it. Wall times are named as such.
"""

import argparse
import multiprocessing
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).resolve().parent))  # for `python -m`, which knows the working folder alone

from reports import print_table

from expfam import Dataset, DiagonalGaussian, DirichletProcess, Mixture, MixtureModel, SymmetricDirichlet
from expfam.engines import ProcessEngine, SerialEngine, cut_rows
from expfam.forecast.workers import forecast_workers
from expfam.model.label_sums import label_sums, phi_bounds
from expfam.model.statistics import label_statistics
from expfam.samplers import Cycle, ExpectationMaximization, FrozenSplitMerge, ShardedData, UncollapsedGibbs

SWEEPS = [(20_000, 8, 100), (20_000, 32, 1000)]  # rows, columns, clusters
QUICK_SWEEP = (40_000, 8, 50)  # smaller ones measure what a call costs, which is the same for any number of rows
SUMS = [(100_000, 8, 100), (50_000, 32, 1000), (50_000, 32, 10_000)]
EXCHANGES = [(10, 2), (100, 16), (1000, 64), (10_000, 64), (10_000, 128)]  # clusters, statistics
WORK = (400_000, 32, 1000)  # about a second a sweep
MEMORY = (1_000_000, 16, 200)
SHARES = [(20_000, 8, 100), (20_000, 32, 1000)]  # rows, columns, clusters
KERNELS = {
    "Gibbs": UncollapsedGibbs(draw="dense", n_threads=1),
    "EM": ExpectationMaximization(tol=0.0, n_threads=1),
    "slices": UncollapsedGibbs(sticks="slice", n_threads=1),
    "slices, splits and merges": Cycle(FrozenSplitMerge(), UncollapsedGibbs(sticks="slice", n_threads=1)),
}
STARTS = [(20_000, 8, 20, n_first) for n_first in (1, 20, 60)]  # rows, columns, groups, clusters of the start
MOST_OF_ONE_MACHINE = 1.1
MOST_OF_SUMS = 0.03
LEAST_GAIN = 1.6
FIXED_MS, MS_A_MEGABYTE = 1.0, 4.0  # CPU of the client in an exchange, twice what was measured


def times_of(function, n, clock):
    """Times of a function, in milliseconds."""
    times = []
    for _ in range(n):
        begin = clock()
        function()
        times.append(1e3 * (clock() - begin))
    return times


def milliseconds(function, n=9):
    """Median CPU time of a function."""
    return median(times_of(function, n, process_time))


def rows_of(n_rows, n_columns):
    """Rows of nine clusters."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_rows, n_columns)) + 5.0 * rng.integers(0, 9, (n_rows, 1))


def chain(model, data, K, n_first=5, kernel=KERNELS["Gibbs"]):
    """A chain after some steps, and the function that makes one more."""
    state = kernel.init(model, data, seed=0, start="random", n_clusters=K)
    for _ in range(n_first):
        kernel.step(state)
    return state, lambda: kernel.step(state)


def sums(n_rows, n_columns, K):
    """Nanoseconds a number of plain and of exact sums."""
    data = Dataset(rows_of(n_rows, n_columns), DiagonalGaussian())
    labels = np.random.default_rng(1).integers(0, K, n_rows).astype(np.int32)
    scale, numbers = phi_bounds(data).scale(n_rows), n_rows * data.n_statistics / 1e6
    plain = milliseconds(lambda: label_statistics(data, labels, K))
    exact = milliseconds(lambda: label_sums(data, labels, K, scale))
    row = {"sums": f"F = {data.n_statistics}, K = {K:,}", "plain, ns": plain / numbers, "exact, ns": exact / numbers}
    return row, True


def share_of_sums(n_rows, n_columns, K, *, is_asked):
    """CPU time that exact sums add to a dense sweep in which most rows move, over that of plain sums."""
    X = rows_of(n_rows, n_columns)
    data, rng = Dataset(X, DiagonalGaussian()), np.random.default_rng(2)
    _, step = chain(MixtureModel(data.family, SymmetricDirichlet(K)), data, K, n_first=2)
    labels = rng.integers(0, K, n_rows).astype(np.int32)
    exact = milliseconds(lambda: label_sums(data, labels, K, data.scale))
    plain = milliseconds(lambda: label_statistics(data, labels, K))
    row = {"sums of a sweep": f"{n_rows:,} x {n_columns}, K = {K:,}", "plain, ms": plain, "exact, ms": exact}
    sweep = milliseconds(step)
    share = (exact - plain) / sweep
    row |= {"sweep, ms": sweep, "more, %": 100.0 * share}
    return row, not is_asked or share <= MOST_OF_SUMS


def sweeps(name, n_rows, n_columns, K):
    """CPU times of a sweep on one machine and on parts, and whether labels are the same."""
    X = rows_of(n_rows, n_columns)
    family = DiagonalGaussian().bind(X)
    model = MixtureModel(family, DirichletProcess() if "slices" in name else SymmetricDirichlet(K))
    state, step = chain(model, X, K, kernel=KERNELS[name])
    found, times = [state.labels.tobytes()], [milliseconds(step)]
    with ProcessEngine(2) as processes:
        for engine, n_parts in ((SerialEngine(), 1), (SerialEngine(), 4), (processes, 4)):
            data = ShardedData(X, family, engine=engine, n_parts=n_parts)
            state, step = chain(model, data, K, kernel=KERNELS[name])
            found.append(state.labels.tobytes())
            times.append(milliseconds(step))
    columns = ("one machine", "1 part", "4 parts", "2 processes, client")
    row = {"sweep, CPU ms": f"{name}: {n_rows:,} x {n_columns}, K = {K:,}"} | dict(zip(columns, times))
    return row, len(set(found)) == 1 and times[1] <= MOST_OF_ONE_MACHINE * times[0]


def starts(n_rows, n_columns, n_groups, n_first):
    """Clusters of more than 20 rows after 60 sweeps from a start, without and with splits and merges."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(n_groups, n_columns))
    X = rng.normal(size=(n_rows, n_columns)) + centres[rng.integers(0, n_groups, n_rows)]
    family = DiagonalGaussian().bind(X)
    model, row, found = MixtureModel(family, DirichletProcess()), {"start": f"{n_groups} groups, from {n_first}"}, []
    for name, kernel in (("slices", KERNELS["slices"]), ("with moves", KERNELS["slices, splits and merges"])):
        data = ShardedData(X, family, n_parts=3)
        rule = "one" if n_first == 1 else "kmeans++"
        state = kernel.init(model, data, seed=0, start=rule, n_clusters=n_first)
        begin = process_time()
        for _ in range(60):
            kernel.step(state)
        found.append((int(np.count_nonzero(state.n > 20)), state.log_joint))
        row |= (
            {f"{name}: clusters": found[-1][0], "log joint": round(state.log_joint)}
            if name == "slices"
            else {
                f"{name}: clusters": found[-1][0],
                "their log joint": round(state.log_joint),
                "CPU s": process_time() - begin,
            }
        )
    default = Mixture(family, weights=DirichletProcess(), random_state=0, learn_hyper=False, n_threads=1).fit(X)
    row |= {
        "default fit": int(np.count_nonzero(default.cluster_sizes_ > 20)),
        "its log joint": round(default.log_joint_),
    }
    return row, found[1][1] >= found[0][1] and (n_first > 1 or n_groups <= found[1][0] <= 1.25 * n_groups)


class Answers:
    """Part that answers a table of parameters with the pieces of sums of the same shape."""

    def __init__(self, rows, first_row):
        self.table = None

    def sweep(self, table):
        """Return pieces (K, 3, F)."""
        self.table = table
        return np.repeat(table[:, None, :], 3, axis=1)

    def seconds(self):
        """Return the CPU time of the worker."""
        return process_time()

    def saved(self):
        """Return nothing: the table comes with each order."""
        return {}


def exchanges(K, F):
    """An exchange with two processes alone: parameters out, pieces of sums back."""
    table = np.ones((K, F))
    with ProcessEngine(2) as engine:
        engine.place(cut_rows(np.zeros((2, 1)), 2, grain=1), Answers)
        engine.change("sweep", table)
        wall = times_of(lambda: engine.change("sweep", table), 20, perf_counter)
        before = engine.each("seconds")
        client = milliseconds(lambda: engine.change("sweep", table), 20)
        worker = 1e3 * max(after - first for first, after in zip(before, engine.each("seconds"))) / 20
    row = {"exchange": f"{K:,} x {F}", "wall, least ms": min(wall), "wall, median ms": median(wall)}
    row |= {"client, CPU ms": client, "worker, CPU ms": worker}
    return row, client <= FIXED_MS + MS_A_MEGABYTE * 7 * table.nbytes / 1e6  # a table out, and 3 back from each of 2


def gain(n_rows, n_columns, K, *, is_asked):
    """Wall times of sweeps of one and of two processes, and whether the gain is reached."""
    X = rows_of(n_rows, n_columns)
    family = DiagonalGaussian().bind(X[:10_000])
    model, found, wall = MixtureModel(family, SymmetricDirichlet(K)), [], []
    for n_workers in (1, 2):
        with ProcessEngine(n_workers) as engine:
            data = ShardedData(X, family, engine=engine, n_parts=n_workers)
            state, step = chain(model, data, K, n_first=2)
            wall.append(min(times_of(step, 5, perf_counter)))
            found.append(state.n.tobytes() + np.asarray(state.S).tobytes())
    row = {"two processes": f"{n_rows:,} x {n_columns}, K = {K:,}", "one, wall ms": wall[0], "two, wall ms": wall[1]}
    row["times as fast"] = wall[0] / wall[1]
    return row, found[0] == found[1] and (not is_asked or wall[0] >= LEAST_GAIN * wall[1])


def peak_of_workers(n_rows, n_columns, K):
    """Largest memory that one of two worker processes has had in three sweeps, in MB, from /proc."""
    X = rows_of(n_rows, n_columns)
    family = DiagonalGaussian().bind(X[:10_000])
    with ProcessEngine(2) as engine:
        data = ShardedData(X, family, engine=engine, n_parts=2)
        chain(MixtureModel(family, SymmetricDirichlet(K)), data, K, n_first=3)
        status = [Path(f"/proc/{child.pid}/status").read_text() for child in multiprocessing.active_children()]
    return max(int(text.split("VmHWM:")[1].split()[0]) for text in status if "VmHWM:" in text) / 1e3


def memory(n_rows, n_columns, K):
    """Memory of a worker beside that of one with few rows, and the forecast."""
    forecast = forecast_workers(
        row_bytes=8 * n_rows * n_columns, n_rows=n_rows, n_statistics=2 * n_columns, n_components=K, n_workers=2
    )
    peak, empty = peak_of_workers(n_rows, n_columns, K), peak_of_workers(1000, n_columns, 2)
    row = {"memory of a worker": f"{n_rows:,} x {n_columns}, K = {K:,}", "empty, MB": empty, "more, MB": peak - empty}
    return row | {"forecast, MB": forecast.of_worker / 1e6}, peak - empty <= forecast.of_worker / 1e6


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--quick", action="store_true", help="small sizes, and no goal for times of two processes")
    return command


def main():
    """Print the tables; exit with 1 where a goal is missed."""
    quick = parser().parse_args().quick
    tables = [
        (sums, SUMS[:1] if quick else SUMS),
        (lambda *size: share_of_sums(*size, is_asked=not quick), [(20_000, 8, 100)] if quick else SHARES),
        (sweeps, [(name, *size) for name in KERNELS for size in ([QUICK_SWEEP] if quick else SWEEPS)]),
        (starts, [(2000, 8, 6, 1)] if quick else STARTS),
        (exchanges, EXCHANGES[:2] if quick else EXCHANGES),
        (lambda *size: gain(*size, is_asked=not quick), [(20_000, 8, 50)] if quick else [WORK]),
        (memory, [(100_000, 16, 50)] if quick else [MEMORY]),
    ]
    goals = []
    with threadpool_limits(1):
        for measure, sizes in tables:
            rows, reached = zip(*(measure(*size) for size in sizes))
            print_table(rows)
            goals.extend(reached)
    sys.exit(0 if all(goals) else 1)


if __name__ == "__main__":
    main()
