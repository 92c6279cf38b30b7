"""Data in parts: exact sums beside plain ones, sweeps of one and of several parts, orders to processes.

Run by hand: `python -m asv_bench.protocols.many_machines`; `--quick` takes small sizes. The exit status is 1 where
labels depend on the parts, or where a sweep of one part takes more than 1.1 times that of one machine. CPU milliseconds
of one thread, medians. An order to two processes is measured in the process that gives it.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).resolve().parent))  # for `python -m`, which knows the working folder alone

from reports import print_table

from expfam import Dataset, DiagonalGaussian, MixtureModel, SymmetricDirichlet
from expfam.engines import ProcessEngine, SerialEngine
from expfam.model.label_sums import label_sums, phi_bounds
from expfam.model.statistics import label_statistics
from expfam.samplers import ShardedData, UncollapsedGibbs

SIZES = [(20_000, 8, 100), (20_000, 32, 1000)]  # rows, columns, clusters
COLUMNS = ("data", "plain sums", "exact sums", "one machine", "1 part", "4 parts", "2 processes, client")
MOST_OF_ONE_MACHINE = 1.1


def milliseconds(function, n=9):
    """Median CPU time of a function."""
    times = []
    for _ in range(n):
        begin = process_time()
        function()
        times.append(process_time() - begin)
    return 1e3 * median(times)


def chain(model, data, K):
    """A chain after five steps, and the function that makes one more."""
    kernel = UncollapsedGibbs(draw="dense")
    state = kernel.init(model, data, seed=0, start="random")
    for _ in range(5):
        kernel.step(state)
    return state, lambda: kernel.step(state)


def compare(n_rows, n_columns, K):
    """One row of the table, and whether the goals are reached."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns)) + 5.0 * rng.integers(0, 9, (n_rows, 1))
    data = Dataset(X, DiagonalGaussian())
    labels = rng.integers(0, K, n_rows).astype(np.int32)
    scale, model = phi_bounds(data).scale(n_rows), MixtureModel(data.family, SymmetricDirichlet(K))
    plain = milliseconds(lambda: label_statistics(data, labels, K))
    exact = milliseconds(lambda: label_sums(data, labels, K, scale))
    _, one_machine = chain(model, data, K)
    times, found = [milliseconds(one_machine)], []
    with ProcessEngine(2) as processes:
        for engine, n_parts in ((SerialEngine(), 1), (SerialEngine(), 4), (processes, 4)):
            state, step = chain(model, ShardedData(X, data.family, engine=engine, n_parts=n_parts), K)
            found.append(state.labels.tobytes())
            times.append(milliseconds(step))
    row = dict(zip(COLUMNS, (f"{n_rows:,} x {n_columns}, K = {K}", plain, exact, *times)))
    return row, len(set(found)) == 1 and times[1] <= MOST_OF_ONE_MACHINE * times[0]


def main():
    """Print the table; exit with 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2,000 rows")
    sizes = [(2000, 8, 20)] if parser.parse_args().quick else SIZES
    with threadpool_limits(1):
        rows, reached = zip(*(compare(*size) for size in sizes))
    print_table(rows)
    sys.exit(0 if all(reached) else 1)


if __name__ == "__main__":
    main()
