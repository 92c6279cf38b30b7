"""Starting labels by repeated division of the data.

A few thousand rows show the large clusters at a cost that does not grow with N. These rows are cut into many small
pieces, moved by a few steps of a kernel and merged greedily, in rounds, until the log joint stops growing. Each other
row joins the cluster of the highest predictive in one pass; rows that fit no cluster become a cluster together. Then
each cluster is divided in the same way, until no division is better. At the end all clusters are merged greedily once
more. If clusters have few rows each, a sample of all rows cannot show them. So if clustering one region of near rows by
itself is much better, all rows are cut into pieces together; a few variational passes improve the pieces before they
are merged.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError
from expfam.families.components import Components
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess
from expfam.params import NON_NEGATIVE, Integer, Settings, check_settings
from expfam.samplers.chain.driver import advance
from expfam.samplers.collapsed.gibbs import CollapsedGibbs
from expfam.samplers.starts.greedy_merge import merged_labels
from expfam.samplers.starts.rules import starting_labels
from expfam.samplers.states.collapsed import CollapsedState
from expfam.samplers.variational.mixture import SparseVariational
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run

_LEAST_ROWS = 4000
_PIECE = 8  # mean number of rows of a piece
_PIECE_WITHIN = 32  # the same within a cluster that was found, which mostly is one cluster or a few
_FEW_PIECES = 16
_COARSE = 0.03  # a division that misses more than this share of the gain by clusters is too coarse
_LEAST_PIECES = 1024
_PIECES_EACH = 4  # pieces for each expected cluster
_ACTIVE, _PASSES = 4, 10
_BLOCK_SCORES = 1 << 17


class Progressive(Settings):
    """Settings of ``start="progressive"``, which divides the data repeatedly.

    A few rows are clustered first, and the others join them. The same is then done within each cluster.

    Parameters
    ----------
    kernel : Kernel, optional
        Kernel of a collapsed state that moves the few rows; exact Gibbs sweeps if not given.
    n_rows : int, optional
        Number of rows that are clustered together: max(4000, 16 sqrt N) if not given.
    steps : int
        Number of steps of the kernel before each round of merges.
    tol : float
        The rounds end when one increases the log joint by less than this share of it.
    max_rounds : int
        Maximal number of rounds.

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
    The result is a function of the data, the seed and the settings. It need not be exact, because kernels forget their
    start.
    """

    _constraints: ClassVar = {
        "n_rows": (Integer(1), None),
        "steps": Integer(1),
        "tol": NON_NEGATIVE,
        "max_rounds": Integer(1),
    }

    def __init__(
        self,
        *,
        kernel: Any = None,
        n_rows: int | None = None,
        steps: int = 2,
        tol: float = 1e-4,
        max_rounds: int = 20,
    ) -> None:
        self.kernel, self.n_rows, self.steps, self.tol, self.max_rounds = kernel, n_rows, steps, tol, max_rounds

    def labels(
        self,
        model: Any,
        data: Dataset,
        *,
        seed: int,
        n_clusters: int | None = None,
        n_threads: int | None = None,
    ) -> npt.NDArray[np.int32]:
        """Compute the cluster of each datum: (N,) int32 ndarray.

        The parameters are those of `starting_labels`.
        """
        self.check(model, data)
        return _Division(self, model, data, seed, n_threads).labels(n_clusters)

    def check(self, model: Any, data: Dataset) -> None:
        """Refuse settings out of range, and models that the kernel refuses."""
        check_settings(self)
        self.runner().check(model, data)

    def runner(self) -> Any:
        """Return the kernel that moves the few rows."""
        return CollapsedGibbs() if self.kernel is None else self.kernel

    def rows_at_a_time(self, n_rows: int) -> int:
        """Return how many of `n_rows` rows are clustered before the others join."""
        return max(_LEAST_ROWS, 16 * math.isqrt(n_rows)) if self.n_rows is None else int(self.n_rows)


def named_start(
    model: Any, data: Dataset, seed: int, limit: int | None, n_threads: int | None
) -> npt.NDArray[np.int32]:
    """Return the labels of ``start="progressive"``: (N,) int32 ndarray.

    There are at most `limit` clusters, if it is given. See `Progressive`.
    """
    return Progressive().labels(model, data, seed=seed, n_clusters=limit, n_threads=n_threads)


class _Division:
    """Repeated division of the data into clusters."""

    def __init__(self, start: Progressive, model: Any, data: Dataset, seed: int, n_threads: int | None) -> None:
        self.start, self.model, self.data, self.seed, self.n_threads = start, model, data, seed, n_threads
        self.kernel, self.n_few = start.runner(), start.rows_at_a_time(data.n_rows)

    def labels(self, n_clusters):
        """Divide all rows, then merge the clusters, to at most `n_clusters` if it is given."""
        N = self.data.n_rows
        # in random order the first rows of each cluster are a sample of it
        order = generator(self.seed, "start", unit=3).permutation(N)
        labels = self.divide_all([order])
        if self.n_few < N:
            regions = self.regions(order)
            n_found = self.finer(labels, regions[0])
            if n_found:
                labels = self.of_pieces(regions, n_found * N / min(len(regions[0]), self.n_few))
        return merged_labels(self.model, self.data, labels, n_clusters=self.most(n_clusters))

    def of_pieces(self, regions, n_guessed):
        """Cut all rows into a few pieces for each expected cluster; improve and merge the pieces.

        Variational passes, greedy merges and steps of the kernel improve them. If the family does not support
        variational passes, the regions are divided one by one.
        """
        n_pieces = math.ceil(min(max(_PIECES_EACH * n_guessed, _LEAST_PIECES), self.data.n_rows / _PIECE))
        kernel = SparseVariational(_ACTIVE, truncation=n_pieces, n_threads=self.n_threads)
        free = MixtureModel(self.model.family, DirichletProcess())
        try:
            kernel.check(free, self.data)
        except CapabilityError:
            return self.divide_all(regions)
        state = kernel.init(free, self.data, seed=self.seed, start="kmeans++", n_clusters=n_pieces)
        advance(kernel, state, _PASSES)
        pieces = merged_labels(self.model, self.data, state.labels, n_clusters=self.most(None))
        return self.stepped(self.data, pieces, 0)

    def divide_all(self, waiting):
        """Divide sets of rows, and divide large parts again; return the cluster of each datum.

        A part is divided again if it comes from more rows than are clustered together.
        """
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
        """Divide the rows into sets of near rows, the largest set first.

        A set has about as many rows as are clustered together.
        """
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
        """Return the number of clusters of a region, or 0 if clustering it alone gains little."""
        rows = region[: self.n_few]
        part = self.part(rows)
        own = self.converged_labels(part, self.pieces(rows.size))
        found = merged_labels(self.model, part, labels[rows])
        one, as_found, by_itself = (self.log_joint(part, z) for z in (np.zeros_like(own), found, own))
        return own.max() + 1 if by_itself - as_found > _COARSE * max(by_itself - one, 0.0) else 0

    def most(self, n_clusters):
        """Return the smaller of `n_clusters` and the limit of the weights; each may be None."""
        limits = [n for n in (n_clusters, self.model.weights.max_components) if n is not None]
        return min(limits, default=None)

    def pieces(self, n_rows):
        """Return into how many pieces `n_rows` rows are cut at first."""
        return math.ceil(min(n_rows, self.n_few) / _PIECE)

    def pieces_within(self, n_rows):
        """Return into how many pieces a cluster of `n_rows` rows is cut."""
        return min(self.pieces(n_rows), max(_FEW_PIECES, math.ceil(min(n_rows, self.n_few) / _PIECE_WITHIN)))

    def divided(self, rows, n_pieces):
        """Divide rows into parts that keep their order; return one part if no division is better."""
        few = self.part(rows[: self.n_few])
        labels = self.converged_labels(few, n_pieces)
        K = int(labels.max()) + 1
        if K > 1 and rows.size > few.n_rows:
            labels = np.concatenate([labels, self.joined(few, labels, self.part(rows[few.n_rows :]))])
        order = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels, minlength=K) if K > 1 else [rows.size]
        return [part for part in np.split(rows[order] if K > 1 else rows, np.cumsum(sizes)[:-1]) if part.size]

    def log_joint(self, part, labels):
        """Compute the log joint of labels, in nats."""
        return CollapsedState(self.model, part, labels, seed=0).log_joint

    def part(self, rows):
        """Return the data of some rows, with the family that is bound to all rows."""
        return Dataset(self.data.X[rows], self.model.family)

    def converged_labels(self, few, n_pieces):
        """Label a few rows by rounds of steps and merges; return only 0 if nothing is better."""
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
        """Return the candidates of the first round: pieces merged without steps and after steps.

        Overlapping clusters need pieces without steps; for separate clusters steps improve the pieces. If all pieces
        merge into one, there are no separate clusters, and the second candidate is left out.
        """
        pieces = starting_labels("kmeans++", self.model, few, seed=self.seed, n_clusters=self.most(n_pieces))
        merged = merged_labels(self.model, few, pieces)
        return [merged, self.stepped(few, pieces, 0)] if merged.any() else [merged]

    def stepped(self, few, labels, turn):
        """Return labels after a few steps of the kernel and greedy merges."""
        state = self.kernel.init(self.model, few, seed=self.seed + turn, start=labels)
        advance(self.kernel, state, self.start.steps)
        return merged_labels(self.model, few, state.partition, n_clusters=self.most(None))

    def joined(self, few, labels, others):
        """Find the cluster with the highest weighted predictive for each other row.

        Rows that fit no cluster get the new cluster K.
        """
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
