"""Starting labels by division: a few rows are clustered well, the others join them, and so on within each cluster.

A few thousand rows show the large clusters at a cost that does not grow with N. They are cut into many small pieces,
moved by a few steps of a kernel and merged greedily, in rounds, until the log joint stalls. The other rows go to the
cluster of highest predictive in one pass; those that fit nowhere make a cluster together. Then each cluster is treated
as the whole was, until one is the best division; at last all are merged greedily once more. Where clusters have few
rows each, a sample of all rows cannot show them: if a region of near rows does better by itself, all rows are cut into
pieces at once, which a few variational passes mend before they are merged.
"""

import math

import numpy as np

from expfam.errors import CapabilityError
from expfam.families.components import Components
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess
from expfam.params import Settings
from expfam.samplers.collapsed.gibbs import CollapsedGibbs
from expfam.samplers.starts.greedy_merge import merged_labels
from expfam.samplers.starts.rules import starting_labels
from expfam.samplers.states.collapsed import CollapsedState
from expfam.samplers.variational.mixture import SparseVariational
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run

_LEAST_ROWS = 4000
_PIECE = 8  # rows of a piece, on average
_PIECE_WITHIN = 32  # within a cluster that was found, which is mostly one or a few
_FEW_PIECES = 16
_COARSE = 0.03  # of what clusters gain at all: a division that misses more is too coarse
_LEAST_PIECES = 1024
_PIECES_EACH = 4  # for each cluster that there may be
_ACTIVE, _PASSES = 4, 10
_BLOCK_SCORES = 1 << 17


class Progressive(Settings):
    """Start on a few rows and let the others join, cluster within cluster: ``start="progressive"`` with settings.

    Parameters
    ----------
    kernel : Kernel, optional
        Moves the few rows, any kernel of a collapsed state; exact Gibbs sweeps if not given.
    n_rows : int, optional
        How many rows are clustered at a time: max(4000, 16 sqrt N) if not given.
    steps : int
        Steps of the kernel before each round of merges.
    tol : float
        The log joint has stalled when a round gains less than this share of it.
    max_rounds : int

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.samplers import CollapsedGibbs, Progressive
    >>> X = np.random.default_rng(0).normal(size=(3000, 2)) + 20 * np.repeat(np.eye(2), 1500, axis=0)
    >>> model = MixtureModel(DiagonalGaussian(), DirichletProcess())
    >>> state = CollapsedGibbs().init(model, X, seed=0, start=Progressive(n_rows=200))
    >>> state.n_clusters
    2

    Notes
    -----
    The result is a function of the data, the seed and the settings. Nothing of it needs to be exact: kernels forget
    their start.
    """

    def __init__(self, *, kernel=None, n_rows=None, steps=2, tol=1e-4, max_rounds=20):
        self.kernel, self.n_rows, self.steps, self.tol, self.max_rounds = kernel, n_rows, steps, tol, max_rounds

    def labels(self, model, data, *, seed, n_clusters=None, n_threads=None):
        """Cluster of each datum: (N,) int32 ndarray; arguments as of `starting_labels`."""
        self.check(model, data)
        return _Division(self, model, data, seed, n_threads).labels(n_clusters)

    def check(self, model, data):
        """Refuse settings out of their ranges."""
        for name in ("n_rows", "steps", "max_rounds"):
            value = getattr(self, name)
            if name == "n_rows" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"Progressive: {name} must be an integer of at least 1; got {value!r}")
        if not 0 <= self.tol < math.inf:
            raise ValueError(f"Progressive: tol must be finite and non-negative; got {self.tol!r}")
        self.runner().check(model, data)

    def runner(self):
        """The kernel that moves the few rows."""
        return CollapsedGibbs() if self.kernel is None else self.kernel

    def rows_at_a_time(self, n_rows):
        """How many of so many rows are clustered before the others join."""
        return max(_LEAST_ROWS, 16 * math.isqrt(n_rows)) if self.n_rows is None else int(self.n_rows)


def named_start(model, data, seed, limit, n_threads):
    """Give the labels of ``start="progressive"``, (N,) int32; see `Progressive`, at most `limit` clusters if given."""
    return Progressive().labels(model, data, seed=seed, n_clusters=limit, n_threads=n_threads)


class _Division:
    """One division of the data into clusters, and of these into further ones."""

    def __init__(self, start, model, data, seed, n_threads):
        self.start, self.model, self.data, self.seed, self.n_threads = start, model, data, seed, n_threads
        self.kernel, self.n_few = start.runner(), start.rows_at_a_time(data.n_rows)

    def labels(self, n_clusters):
        """All rows divided, then merged, to at most `n_clusters` if that is given."""
        N = self.data.n_rows
        # rows in random order: the first ones of each cluster are then a sample of it
        order = generator(self.seed, "start", unit=3).permutation(N)
        labels = self.divide_all([order])
        if self.n_few < N:
            regions = self.regions(order)
            n_found = self.finer(labels, regions[0])
            if n_found:
                labels = self.of_pieces(regions, n_found * N / min(len(regions[0]), self.n_few))
        return merged_labels(self.model, self.data, labels, n_clusters=self.most(n_clusters))

    def of_pieces(self, regions, n_guessed):
        """All rows cut into a few pieces for each cluster that there may be, after passes, merges and steps.

        A family that variational passes do not serve has its regions divided one by one.
        """
        n_pieces = math.ceil(min(max(_PIECES_EACH * n_guessed, _LEAST_PIECES), self.data.n_rows / _PIECE))
        kernel = SparseVariational(_ACTIVE, truncation=n_pieces, n_threads=self.n_threads)
        free = MixtureModel(self.model.family, DirichletProcess())
        try:
            kernel.check(free, self.data)
        except CapabilityError:
            return self.divide_all(regions)
        state = kernel.init(free, self.data, seed=self.seed, start="kmeans++", n_clusters=n_pieces)
        for _ in range(_PASSES):
            kernel.step(state)
        pieces = merged_labels(self.model, self.data, state.labels, n_clusters=self.most(None))
        return self.stepped(self.data, pieces, 0)

    def divide_all(self, waiting):
        """Cluster of each datum: parts of sets of rows, and parts of these where not all their rows were looked at."""
        labels, n_found = np.zeros(self.data.n_rows, dtype=np.int32), 0
        waiting = [(rows, self.pieces(rows.size)) for rows in waiting]
        while waiting:
            rows, n_pieces = waiting.pop()
            parts = self.divided(rows, n_pieces)
            if len(parts) > 1 and rows.size > self.n_few:
                waiting.extend((part, self.pieces_within(part.size)) for part in parts)
                continue
            for part in parts:
                labels[part] = n_found
                n_found += 1
        return labels

    def regions(self, order):
        """Sets of near rows that cover the data, each about what is clustered at a time; the largest first."""
        n_regions = math.ceil(self.data.n_rows / self.n_few)
        region = starting_labels(
            "kmeans++",
            MixtureModel(self.model.family, DirichletProcess()),
            self.data,
            seed=self.seed,
            n_clusters=n_regions,
        )[order]
        sizes = np.bincount(region)
        sets = np.split(order[np.argsort(region, kind="stable")], np.cumsum(sizes)[:-1])
        return sorted(sets, key=len, reverse=True)

    def finer(self, labels, region):
        """Clusters of a region where clustering it by itself gains much, else 0."""
        rows = region[: self.n_few]
        part = self.part(rows)
        own = self.settled(part, self.pieces(rows.size))
        found = merged_labels(self.model, part, labels[rows])
        one, as_found, by_itself = (self.log_joint(part, z) for z in (np.zeros_like(own), found, own))
        return own.max() + 1 if by_itself - as_found > _COARSE * max(by_itself - one, 0.0) else 0

    def most(self, n_clusters):
        """The smaller of two limits of which each may be None."""
        limits = [n for n in (n_clusters, self.model.weights.max_components) if n is not None]
        return min(limits, default=None)

    def pieces(self, n_rows):
        """Into how many pieces so many rows are cut before anything is known of them."""
        return math.ceil(min(n_rows, self.n_few) / _PIECE)

    def pieces_within(self, n_rows):
        """Into how many a cluster is cut."""
        return min(self.pieces(n_rows), max(_FEW_PIECES, math.ceil(min(n_rows, self.n_few) / _PIECE_WITHIN)))

    def divided(self, rows, n_pieces):
        """Parts of the rows, each in their order; one part where no division is better."""
        few = self.part(rows[: self.n_few])
        labels = self.settled(few, n_pieces)
        K = int(labels.max()) + 1
        if K > 1 and rows.size > few.n_rows:
            labels = np.concatenate([labels, self.joined(few, labels, self.part(rows[few.n_rows :]))])
        order = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels, minlength=K) if K > 1 else [rows.size]
        return [part for part in np.split(rows[order] if K > 1 else rows, np.cumsum(sizes)[:-1]) if part.size]

    def log_joint(self, part, labels):
        """Log joint of labels, nats."""
        return CollapsedState(self.model, part, labels, seed=0).log_joint

    def part(self, rows):
        """Data of some rows, under the family that is bound to all."""
        return Dataset(self.data.X[rows], self.model.family)

    def settled(self, few, n_pieces):
        """Labels of a few rows, by rounds of steps and merges; all 0 where nothing is better."""
        kept = np.zeros(few.n_rows, dtype=np.int32)
        best = self.log_joint(few, kept)
        if few.n_rows == 1:
            return kept
        for turn in range(self.start.max_rounds):
            candidates = [self.stepped(few, kept, turn)] if turn else self.first(few, n_pieces)
            log_joint, place = max((self.log_joint(few, z), place) for place, z in enumerate(candidates))
            gain = log_joint - best
            if gain > 0:
                kept, best = candidates[place], log_joint
            if gain <= self.start.tol * abs(log_joint):
                break
        return kept

    def first(self, few, n_pieces):
        """Pieces merged as they are, which overlapping clusters need, and after steps, which mend those of far ones.

        Pieces that merge into one are of no far ones.
        """
        pieces = starting_labels("kmeans++", self.model, few, seed=self.seed, n_clusters=self.most(n_pieces))
        merged = merged_labels(self.model, few, pieces)
        return [merged, self.stepped(few, pieces, 0)] if merged.any() else [merged]

    def stepped(self, few, labels, turn):
        """Labels after a few steps of the kernel and greedy merges."""
        state = self.kernel.init(self.model, few, seed=self.seed + turn, start=labels)
        for _ in range(self.start.steps):
            self.kernel.step(state)
        return merged_labels(self.model, few, state.partition, n_clusters=self.most(None))

    def joined(self, few, labels, others):
        """Cluster of highest weight and predictive for each of the others; one more for those that fit none."""
        K, weights = int(labels.max()) + 1, self.model.weights
        n, S = few.statistics(labels, K)
        components = Components(self.model.family, others, K + 1)
        components.load(n, S)
        log_mass = np.append(np.log(n + weights.offset), weights.log_new_mass(few.n_rows, K)[K])
        rows = max(1, _BLOCK_SCORES // (K + 1))

        def block(start):
            scores = components.log_predictive_block(start, min(start + rows, others.n_rows), K + 1)
            return (scores + log_mass).argmax(axis=1)

        n_threads = 1 if components.needs_gil else self.n_threads
        return np.concatenate(run(block, [(start,) for start in range(0, others.n_rows, rows)], n_threads))
