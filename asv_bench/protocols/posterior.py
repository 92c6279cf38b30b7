"""Posterior of partitions: time, memory and coverage, `python -m asv_bench.protocols.posterior --help`.

Draws of 100,000 rows are made, not sampled: each row has a cluster, and the uncertain ones move among some near
clusters from draw to draw. Times are wall and CPU seconds of the process; memory is the growth of its peak.
"""

import argparse
import resource
import time

import numpy as np

from expfam import DirichletProcess, Poisson, variation_of_information
from expfam.evaluation.posterior import PartitionPosterior
from expfam.structures.partitions.draw_table import narrow_labels
from expfam.structures.partitions.search import search_partition

PROTOCOLS = ("search", "readings", "coverage")


def draws_of(n_rows, n_draws, n_clusters, *, share, n_near, seed=0):
    """Draws in which a share of the rows lies between its own cluster and `n_near` - 1 next ones: narrow (M, N)."""
    rng = np.random.default_rng(seed)
    own = rng.integers(n_clusters, size=n_rows)
    uncertain = np.flatnonzero(rng.random(n_rows) < share)
    weight = rng.dirichlet(np.ones(n_near), size=uncertain.size).cumsum(axis=1)
    draws = np.empty((n_draws, n_rows), dtype=np.int32)
    for z in draws:
        z[:] = own
        z[uncertain] += (rng.random(uncertain.size)[:, None] > weight[:, :-1]).sum(axis=1)
    return narrow_labels(draws % n_clusters)


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Clock:
    """Wall and CPU seconds, and growth of the peak, of a block."""

    def __enter__(self):
        self.peak, self.wall, self.cpu = peak_mb(), time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        self.wall, self.cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        self.peak = peak_mb() - self.peak

    def __str__(self):
        return f"{self.wall:6.2f} s wall  {self.cpu:6.2f} s CPU  {self.peak:4.0f} MB more at the peak"


def search(args):
    """Goal: at most 10 s on 2 threads with 16 starts, and 64 MB beside the draws; worst: 40 s with 4 starts."""
    cases = [(50, 50, 1.0, 4)] if args.worst else [(50, 4, 0.3, 16), (1000, 4, 0.3, 16)]
    for n_clusters, n_near, share, n_starts in cases:
        draws = draws_of(args.rows, args.draws, n_clusters, share=share, n_near=n_near)
        for loss in args.losses:
            with Clock() as clock:
                labels, value = search_partition(draws, loss=loss, n_starts=n_starts, n_threads=args.threads)
            print(
                f"{loss:6} K = {n_clusters:4}, {share:.0%} uncertain between {n_near}, {n_starts} starts: {clock};"
                f" {labels.max() + 1} clusters, loss {value:.6g}; draws {draws.nbytes / 2**20:.0f} MB",
                flush=True,
            )


def readings(args):
    """Goal: ball, certainty and between in at most 1 s together."""
    for n_clusters, n_near in ((50, 4), (1000, 4)):
        draws = draws_of(args.rows, args.draws, n_clusters, share=0.3, n_near=n_near)
        posterior = PartitionPosterior(draws, n_threads=args.threads)
        posterior.labels(n_starts=1)
        posterior = posterior.about(posterior.labels(n_starts=1))
        total = 0.0
        for name in ("ball", "certainty", "between"):
            with Clock() as clock:
                found = getattr(posterior, name)
                found = found() if callable(found) else found
            total += clock.wall
            print(f"K = {n_clusters:4} {name:10} {clock}")
        print(f"K = {n_clusters:4} together   {total:6.2f} s wall", flush=True)


def coverage(args):
    """Share of simulated truths inside their ball: .9 is asked of 30 Poisson rows under a Dirichlet process."""
    from expfam.model.mixture import MixtureModel
    from expfam.samplers import CollapsedGibbs, sample

    rng = np.random.default_rng(0)
    inside = 0
    for replicate in range(args.replicates):
        truth, X = poisson_truth(rng, 30, 0.9)
        model = MixtureModel(Poisson(shape=2.0, rate=0.5), DirichletProcess(alpha=0.9))
        kernel = CollapsedGibbs()
        state = kernel.init(model, X, seed=replicate, start=truth)  # the truth is a draw of the posterior
        trace = sample(kernel, state, 800, keep_every=4, max_kept=200)
        posterior = PartitionPosterior(trace.partitions)
        centre = posterior.labels(n_starts=4)
        ball = posterior.ball(0.9, centre)
        inside += variation_of_information(centre, truth) <= ball.radius * (1 + 1e-9)
    share = inside / args.replicates
    print(f"coverage of .9: {share:.3f} +- {np.sqrt(share * (1 - share) / args.replicates):.3f}")


def poisson_truth(rng, n_rows, alpha):
    """A partition of a Chinese restaurant process and counts with a rate for each cluster: (N,), (N, 1)."""
    labels = np.zeros(n_rows, dtype=int)
    for i in range(1, n_rows):
        sizes = np.append(np.bincount(labels[:i]), alpha)
        labels[i] = rng.choice(len(sizes), p=sizes / sizes.sum())
    rates = rng.gamma(2.0, 2.0, size=labels.max() + 1)
    return labels, rng.poisson(rates[labels])[:, None].astype(float)


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("what", choices=PROTOCOLS)
    command.add_argument("--worst", action="store_true", help="all rows uncertain between all of 50 clusters")
    command.add_argument("--rows", type=int, default=100_000)
    command.add_argument("--draws", type=int, default=100)
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--losses", nargs="+", default=["vi"], choices=["vi", "binder", "omari"])
    command.add_argument("--replicates", type=int, default=2000)
    return command


def main():
    """Run one protocol."""
    args = parser().parse_args()
    {"search": search, "readings": readings, "coverage": coverage}[args.what](args)


if __name__ == "__main__":
    main()
