"""Two threads beside one: steps of the samplers that take `n_threads`, binding of a model, starts, and topics.

Run by hand on an idle machine: `python -m asv_bench.protocols.two_threads [rows binding starts topics]`. With `--quick`
there is a tenth of the data. Seconds by the clock: steps with one and with two threads take turns, medians. A round
times seven steps of each from the first labels on, and there are five rounds, in which all samplers take turns: a slow
minute of the machine then lowers no single line. The labels at the end of a round are compared, and have to be the
same. The exit status is 1 where two threads are less than 1.8 times as fast, or labels differ.

The rows are 400,000 x 16 float32 in 100 diagonal Gaussian clusters; a third of the starting labels are random. A model
is bound to these, and to 10,000,000 such rows, 640 MB. "sum" is that of all 10,000,000 rows, the half of each thread by
NumPy: it shows what the memory allows, and has no goal. A start is one run of k-means for such rows,
400,000 x 64. The documents are 40,000 with 60 words each of 5,000, from 100 topics.

"cores" is the same ratio of products of small matrices that stay in the cache of a core, half of them by each thread,
taken in turns with the steps. Virtual machines may have two cores at one time, and two threads of one core at another.
"""

import argparse
import sys
import warnings
from functools import cache, partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).resolve().parent))  # for `python -m`, which knows the working folder alone

from reports import asked_for, print_table

from expfam import AdmixtureModel, Dataset, DiagonalGaussian, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.samplers import (
    Canopy,
    DocumentGibbs,
    ExpectationMaximization,
    FastEx,
    SparseVariational,
    TopicVariational,
    UncollapsedGibbs,
)
from expfam.samplers.starts.kmeans import kmeans_labels
from expfam.structures.ground.threads import run

LEAST = 1.8
K = 100


@cache
def rows(n_rows, n_columns=16):
    """Rows around centres, and starting labels of which a third are random."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(K, n_columns)).astype(np.float32)
    labels = rng.integers(K, size=n_rows)
    X = centres[labels] + rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    moved = rng.random(n_rows) < 1 / 3
    labels[moved] = rng.integers(K, size=int(moved.sum()))
    return X, labels


@cache
def documents(n_documents, n_words=5000, length=60):
    """CSR counts of documents with three topics each, half of whose words are among 50 words of the topic."""
    rng = np.random.default_rng(0)
    topics = rng.integers(K, size=(n_documents, 3))[np.arange(n_documents)[:, None], rng.integers(3, size=length)]
    own = rng.integers(n_words, size=(K, 50))[topics, rng.integers(50, size=topics.shape)]
    words = np.where(rng.random(topics.shape) < 0.5, own, rng.integers(n_words, size=topics.shape)).astype(np.int32)
    starts = np.arange(0, words.size + 1, length, dtype=np.int32)
    X = sparse.csr_array((np.ones(words.size, np.int32), words.ravel(), starts), shape=(n_documents, n_words))
    X.sum_duplicates()
    return X


def stepper(kernel, model, data, start=None):
    """A call that makes a step, and one that returns the labels."""
    options = {} if start is None else {"start": start}
    state = kernel.init(model, data, seed=0, **options)
    return partial(kernel.step, state), lambda: state.labels


def of_rows(make, scale, n_threads):
    """Steps of a sampler of mixtures."""
    X, start = rows(int(400_000 * scale))
    data = Dataset(X, DiagonalGaussian(), n_threads=n_threads)
    return stepper(make(n_threads=n_threads), MixtureModel(data.family, SymmetricDirichlet(K)), data, start)


def of_documents(make, scale, n_threads):
    """Steps of a sampler of topics."""
    data = Dataset(documents(int(40_000 * scale)), Multinomial(concentration=0.05))
    return stepper(make(n_threads=n_threads), AdmixtureModel(data.family, K, 0.1), data)


def binding(n_rows, scale, n_threads):
    """Binding of a model; what is compared is the rate of the family."""
    X, model, found = rows(int(n_rows * scale))[0], MixtureModel(DiagonalGaussian(), SymmetricDirichlet(K)), []

    def bind():
        found.append(model.bind(X, n_threads=n_threads).family.rate)

    return bind, lambda: found[-1]


def kmeans(scale, n_threads):
    """Labels of all rows by one run of k-means on some of them."""
    data, found = Dataset(rows(int(400_000 * scale), 64)[0], DiagonalGaussian()), []
    return lambda: found.append(kmeans_labels(data, K, seed=0, n_threads=n_threads)), lambda: found[-1]


def sums(scale, n_threads):
    """Sum of all rows, in halves."""
    X, found = rows(int(10_000_000 * scale))[0], []
    halves = [(X[: len(X) // 2],), (X[len(X) // 2 :],)]
    return lambda: found.append(sum(run(np.sum, halves, n_threads))), lambda: found[-1]


def products(scale, n_threads):
    """Products of small matrices, in halves."""
    A, n = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32), max(1, int(200 * scale))
    halves = [(A, n, np.empty_like(A)), (A, n, np.empty_like(A))]
    return lambda: run(_multiply, halves, n_threads), lambda: halves[1][2]


def _multiply(A, n, out):
    for _ in range(n):
        np.matmul(A, A, out=out)


PROTOCOLS = {
    "rows": {
        "uncollapsed": partial(of_rows, UncollapsedGibbs),
        "em": partial(of_rows, partial(ExpectationMaximization, tol=0.0)),
        "variational": partial(of_rows, SparseVariational),
        "canopy": partial(of_rows, partial(Canopy, variant=1)),
        "fastex": partial(of_rows, FastEx),
    },
    "binding": {
        "binding": partial(binding, 400_000),
        "binding, 10M rows": partial(binding, 10_000_000),
        "sum, 10M rows": sums,
    },
    "starts": {"k-means": kmeans},
    "topics": {
        "topics, variational": partial(of_documents, TopicVariational),
        "topics, documents": partial(of_documents, DocumentGibbs),
    },
}
NO_GOAL = ("sum, 10M rows",)


class Comparison:
    """A step with one and with two threads, beside products that stay in the cache."""

    def __init__(self, name, make, scale):
        self.name, self.make, self.scale = name, make, scale
        self.times, self.is_same = [[], [], [], []], True  # of products and of the step, by one and by two threads

    def take(self, n_steps):
        """Begin with the first labels, make a step that is not timed, and time so many, in turns."""
        (one, of_one), (two, of_two) = (self.make(self.scale, n_threads) for n_threads in (1, 2))
        calls = [*(products(0.1, n_threads)[0] for n_threads in (1, 2)), one, two]
        for call in (one, two):
            call()  # it makes what is kept
        for _ in range(n_steps):
            for call, taken in zip(calls, self.times):
                begin = perf_counter()
                call()
                taken.append(perf_counter() - begin)
        self.is_same = self.is_same and bool(np.array_equal(of_one(), of_two()))

    def line(self):
        """The line of the step, and whether it reaches its goal."""
        *cores, one, two = (median(taken) for taken in self.times)
        goal = "" if self.name in NO_GOAL else f">= {LEAST}"
        line = {"step": self.name, "one, s": one, "two, s": two, "ratio": one / two, "goal": goal}
        is_reached = self.is_same and (self.name in NO_GOAL or one / two >= LEAST)
        return line | {"cores": cores[0] / cores[1], "same": self.is_same}, is_reached


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("subjects", nargs="*", help=f"of {', '.join(PROTOCOLS)}; all if none is named")
    command.add_argument("--quick", action="store_true", help="a tenth of the data, one round of three steps")
    command.add_argument("--rounds", type=int, help="rounds; 5 by default")
    return command


def main():
    """Print a table of the steps that are asked for."""
    arguments = asked_for(parser(), PROTOCOLS)
    scale, n_rounds, n_steps = (0.1, 1, 3) if arguments.quick else (1.0, 5, 7)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = [step for subject in arguments.subjects for step in PROTOCOLS[subject].items()]
        comparisons = [Comparison(*step, scale) for step in steps]
        for _ in range(arguments.rounds or n_rounds):
            for comparison in comparisons:
                comparison.take(n_steps)
        lines = [comparison.line() for comparison in comparisons]
    print_table([line for line, _ in lines])
    sys.exit(0 if all(is_reached for _, is_reached in lines) else 1)


if __name__ == "__main__":
    main()
