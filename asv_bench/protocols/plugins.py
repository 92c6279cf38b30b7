"""A family written in NumPy beside the built-in one of the same law: `python asv_bench/protocols/plugins.py --help`.

Samplers that keep parameters, and variational inference, score with inner products of phi and never call the family
in a loop, so a stranger's NumPy family should run at their full speed; collapsed samplers call it for each datum, where
compiled components are worth their lines. CPU seconds of a step, one thread, medians; the two take turns.
"""

import argparse
from pathlib import Path

import numpy as np
from generated import NumpyPoisson, data
from reports import print_table, report, timed_step

from expfam import Dataset, MixtureModel, Poisson, SymmetricDirichlet, samplers

KERNELS = {
    "UncollapsedGibbs, dense": lambda: samplers.UncollapsedGibbs(draw="dense", n_threads=1),
    "StochasticEM, dense": lambda: samplers.StochasticEM(draw="dense", n_threads=1),
    "UncollapsedMetropolis": lambda: samplers.UncollapsedMetropolis(n_threads=1),
    "ExpectationMaximization": lambda: samplers.ExpectationMaximization(n_threads=1),
    "SparseVariational": lambda: samplers.SparseVariational(n_threads=1),
    "CollapsedGibbs": lambda: samplers.CollapsedGibbs(),
    "FastEx, int8": lambda: samplers.FastEx(proposal="int8", n_threads=1),
}
COLLAPSED = ("CollapsedGibbs", "FastEx, int8")  # one call of the family for each datum: fewer rows


def compare(args):
    """Seconds of a step with the built-in family and with the one in NumPy, and their ratio."""
    rows = []
    for name in args.kernels:
        n_rows = args.collapsed_rows if name in COLLAPSED else args.rows
        X = data.counts(n_rows, args.clusters, n_features=args.features, seed=1)[0]
        seconds = step_seconds(KERNELS[name](), X, args)
        rows.append(
            {
                "kernel": name,
                "rows": n_rows,
                "built-in s": seconds["built-in"],
                "NumPy s": seconds["NumPy"],
                "speed of the built-in": seconds["built-in"] / seconds["NumPy"],
            }
        )
    print_table(rows)
    return {"rows": rows}


def step_seconds(kernel, X, args):
    """Median CPU seconds of a step with each family, in turns, after one step that is not counted."""
    families = {"built-in": Poisson(shape=1.0, rate=1.0), "NumPy": NumpyPoisson()}
    start = np.random.default_rng(0).integers(args.clusters, size=len(X))
    states = {
        word: kernel.init(
            MixtureModel(family, SymmetricDirichlet(args.clusters)), Dataset(X, family), seed=0, start=start
        )
        for word, family in families.items()
    }
    times = {word: [] for word in families}
    for _ in range(args.steps + 1):
        for word, state in states.items():
            times[word].append(timed_step(kernel, state)[1][0])
    return {word: float(np.median(of_word[1:])) for word, of_word in times.items()}


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--rows", type=int, default=50_000)
    command.add_argument("--collapsed-rows", type=int, default=1000)
    command.add_argument("--clusters", type=int, default=200)
    command.add_argument("--features", type=int, default=32)
    command.add_argument("--steps", type=int, default=5)
    command.add_argument("--kernels", nargs="+", choices=list(KERNELS), default=list(KERNELS))
    command.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
    command.set_defaults(run=compare)
    return command


def main():
    """Parse the arguments and compare."""
    report(parser().parse_args())


if __name__ == "__main__":
    main()
