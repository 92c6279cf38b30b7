"""Sweeps by proposals beside exact Gibbs sweeps: draws over all codes, a whole sweep, two threads, memory."""

from statistics import median
from time import perf_counter

import numpy as np

from expfam import Mixture, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.samplers import CollapsedGibbs, CollapsedMetropolis, FastEx, HashProposal, TableProposal
from expfam.structures.ground.team import Team

from . import data

N_CLUSTERS = 1000
PROPOSALS = {
    "hash": HashProposal(n_bits=128, shortlist=0),
    "hash_shortlist": HashProposal(n_bits=128, shortlist=32),
    "table": TableProposal(),
}


def made():
    """Documents of 14 words in the mean with their topics, which short documents tell apart."""
    return data.zipf_documents(10_000, N_CLUSTERS, mean_length=14, mass=30)


def chain(kernel, X, labels, n_warm=2):
    """A state near its end: from the true topics, after sweeps that bind the proposal."""
    model = MixtureModel(Multinomial(concentration=0.1), SymmetricDirichlet(N_CLUSTERS, alpha=0.1))
    state = kernel.init(model, X, seed=0, start=labels)
    for _ in range(n_warm):
        kernel.step(state)
    return state


class Draw:
    """One draw over a thousand components by each proposal, without the test that follows."""

    params = list(PROPOSALS)  # noqa: RUF012
    param_names = ("proposal",)
    timeout = 300

    def setup_cache(self):
        return made()

    setup_cache.timeout = 300

    def setup(self, cache, proposal):
        # frozen: all data can be drawn for at once, with no Python between them
        kernel = CollapsedMetropolis(PROPOSALS[proposal], mode="frozen")
        self.state = chain(kernel, *cache, n_warm=1)
        self.worker, self.rows = kernel.worker(self.state, "frozen"), np.arange(self.state.data.n_rows)

    def draw(self):
        self.worker.draw(self.rows, Team(), by_block=False)

    def time_draws(self, cache, proposal):
        self.draw()

    def track_draw(self, cache, proposal):
        return 1e-3 * data.nanoseconds_per_pair(self.draw, len(self.rows))

    track_draw.unit = "us per document, K = 1000"


class Crossfit:
    """Cross-fitted sweeps by the table of the default sampler, beside exact Gibbs sweeps from the same labels."""

    timeout = 300

    setup_cache = Draw.setup_cache

    def setup(self, cache):
        self.gibbs, self.fast = CollapsedGibbs(), FastEx(mode="crossfit")
        self.exact, self.state = chain(self.gibbs, *cache), chain(self.fast, *cache)

    def time_sweep(self, cache):
        self.fast.step(self.state)

    def track_ratio_to_gibbs(self, cache):
        ratios = []
        for _ in range(7):  # in turns: a busy machine slows both
            begin = perf_counter()
            self.gibbs.step(self.exact)
            middle = perf_counter()
            self.fast.step(self.state)
            ratios.append((middle - begin) / (perf_counter() - middle))
        return median(ratios)

    track_ratio_to_gibbs.unit = "Gibbs sweep / crossfit sweep, wall"


class Memory:
    """Peak of a fit with each sampler: what the proposals keep beside the statistics."""

    params = ("gibbs", "table", "hash")
    param_names = ("sampler",)
    timeout = 300

    setup_cache = Draw.setup_cache

    def peakmem_fit(self, cache, sampler):
        kernel = sampler if sampler == "gibbs" else FastEx(proposal=sampler)
        Mixture(
            Multinomial(concentration=0.1),
            weights=SymmetricDirichlet(N_CLUSTERS, alpha=0.1),
            sampler=kernel,
            n_steps=2,
            n_warmup=0,
            start=cache[1],
            partition="last",
            random_state=0,
        ).fit(cache[0])
