"""Splits and merges whose rows are independent, so that they run on data in parts.

A move begins with two rows, its anchors, that are drawn without a look at labels. If they share a cluster, its rows are
divided between them, each by itself, and the split is accepted or not. If they do not, their clusters may be merged;
the probability of the split that would undo this is needed then. The anchors and their law are the same at both ends of
a move, so they cancel from the acceptance ratio (Jain and Neal 2004). There are three laws of the sides:

- "frozen": log-odds come from rounds of hard assignment to two sides, over the rows of a sample that are in the
  cluster. They are a function of these rows and of the anchors alone, so they are the same at both ends.
- "pass": the rows of the sample are drawn first, in blocks that grow, by the parameters of the sides so far; then all
  other rows by those of the sides of the sample. The given sides of a merge teach these parameters, so it is probable
  that the split finds the two clusters again.
- "urn": each row tosses a coin whose bias is drawn from a beta distribution. The log probability depends on the sizes
  of the sides alone. So a merge costs two evidences and asks no row.

Near anchors, for passes and urns, rarely make good splits; few of them are tried, which is a factor of the ratio.

The coordinator holds the sample, which is the same for the whole chain. A split asks all rows of the cluster once for
the sums of side 1, and once more to move if it is accepted. A merge that cannot be accepted, whatever the probability
of the split, asks nothing. Moves of different clusters ask together, with the outcome of one move after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from expfam.errors import CapabilityError
from expfam.families.support import dense_rows
from expfam.model.data import Dataset
from expfam.params import Integer
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.shards.sample import chosen_rows
from expfam.samplers.split_merge.allocators import urn_log_q
from expfam.samplers.states.divisions import Division
from expfam.samplers.states.uncollapsed import UncollapsedState, converted
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from expfam.protocols import Floats

_SAMPLED_ROWS = 20_000
_LEAST_ROWS = 512
_SAMPLED_CELLS = 1 << 24  # of dense statistics: 128 MB
_DENSE_CELLS = 1 << 22  # up to which a sparse sample is held as a dense one, which is faster
_CANDIDATES = 64  # rows among which the second of two near anchors is the nearest
_NEAR_SHARE = 0.05  # share of the splits of near anchors that are tried
_GROWTH = 8  # a block of a pass has an eighth of the rows before it


class FrozenSplitMerge(Kernel):
    """Exact split and merge moves that draw rows independently, also of data in parts.

    Alone it is exact but mixes slowly. In a `Cycle` with slices it makes a chain whose number of clusters does not
    depend on its start.

    Parameters
    ----------
    n_moves : int
        Number of pairs of rows that a step draws uniformly. Rounds of hard assignment divide the rows of their clusters
        between two sides. These pairs find splits.
    n_merges : int
        Number of pairs of near rows that a step tries. Passes and urns divide the rows in turn. They find merges.
    n_rounds : int
        Rounds of hard assignment after the first one.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import Cycle, FrozenSplitMerge, ShardedData, UncollapsedGibbs, sample
    >>> X = np.repeat([[0, 9], [9, 0], [9, 9]], 200, axis=0)
    >>> kernel = Cycle(FrozenSplitMerge(), UncollapsedGibbs(sticks="slice"))
    >>> data = ShardedData(X, Poisson(), n_parts=2)
    >>> state = kernel.init(MixtureModel(data.family, DirichletProcess()), data, seed=0, start="one")
    >>> trace = sample(kernel, state, 10)
    >>> state.n_clusters
    3

    Notes
    -----
    Jain and Neal 2004, "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model". The
    anchors are rows of a sample of at most 20,000, drawn once for a chain. `Info.extra` counts the splits and merges
    that were tried and accepted, and how often the parts of the data were asked. For weights with a given number of
    components, moves are made one at a time, as the prior of a split depends on the number of clusters.
    """

    state_type = UncollapsedState
    on_shards = True
    _constraints: ClassVar = {"n_moves": Integer(0), "n_merges": Integer(0), "n_rounds": Integer(0)}

    def __init__(self, *, n_moves: int = 8, n_merges: int = 96, n_rounds: int = 2) -> None:
        self.n_moves, self.n_merges, self.n_rounds = n_moves, n_merges, n_rounds

    def check(self, model: Any, data: Any) -> None:
        """Refuse settings out of range, and families without expected parameters."""
        super().check(model, data)
        model.family.require("variational", type(self).__name__)

    def max_clusters(self, model: Any) -> int | None:
        """Return the number of components of finite weights; None for a process."""
        return model.weights.max_components  # type: ignore[no-any-return]

    def init_state(self, model: Any, data: Any, labels: Any, *, seed: int) -> Any:
        """Make a state with labels, whose sticks are open under a process."""
        K = model.weights.max_components
        n_clusters = int(np.max(labels)) + 1 if K is None else K
        return UncollapsedState(model, data, labels, n_clusters=n_clusters, seed=seed, is_open=K is None)

    def own_state(self, state: Any) -> Any:
        """Return the state that the kernel moves; open sticks are those of a process."""
        return converted(state, is_open=self.max_clusters(state.model) is None)

    def memory(self, model: Any, data: Any, n_clusters: int) -> int:
        """Return the bytes of the sample."""
        return 8 * (data.n_statistics + 1) * _sample_size(data)

    def reversed(self) -> FrozenSplitMerge:
        """Return the kernel itself: moves are alike in law, and each is reversible."""
        return self

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Make the moves of a step."""
        if state.is_open != (self.max_clusters(state.model) is None):
            raise CapabilityError(
                "splits and merges need open sticks under a process: write"
                " Cycle(FrozenSplitMerge(), UncollapsedGibbs(sticks='slice'))"
            )
        kept = state.memory.get("sample")
        if not isinstance(kept, SampledRows):
            kept = state.memory["sample"] = SampledRows(state)
        step = _Step(state, kept, self.n_rounds)
        if kept.numbers.size > 1:
            step.make(_drawn_moves(state, kept, self.n_moves, self.n_merges))
        counts = step.counts
        proposed = counts["splits_proposed"] + counts["merges_proposed"]
        return proposed, counts["splits_accepted"] + counts["merges_accepted"], counts


class SampledRows:
    """Rows that the coordinator holds: the anchors, and those that make log-odds of sides.

    They are chosen by their global numbers, without a look at labels, and are the same for the whole chain.

    Attributes
    ----------
    numbers : (R,) int64 ndarray
        Global numbers of the rows, in order.
    phi : (R, F) float64 ndarray or CSR
    """

    def __init__(self, state: Any) -> None:
        data = state.data
        self.numbers = chosen_rows(data.n_rows, _sample_size(data), state.seed, 4)
        rows = Dataset(state.rows_at(self.numbers), data.family)
        is_small = rows.n_rows * rows.n_statistics <= _DENSE_CELLS
        self.phi = rows.phi(0, rows.n_rows) if is_small or not rows.has_sparse_phi else rows.phi_csr(0, rows.n_rows)

    def to_arrays(self) -> dict[str, Any]:
        """Return nothing: the rows follow from the seed and the data."""
        return {}


def _sample_size(data):
    most = _SAMPLED_ROWS if data.has_sparse_phi else _SAMPLED_CELLS // max(data.n_statistics, 1)
    return min(data.n_rows, _SAMPLED_ROWS, max(_LEAST_ROWS, most))


class _Odds(NamedTuple):
    """Log-odds of the sides of a move, and the rows of the sample whose sides are fixed."""

    theta: Floats
    constant: float
    members: npt.NDArray[np.intp]  # places in the sample
    sides: npt.NDArray[np.int8]
    log_q: float  # of the sides of members, but for the anchors


@dataclass(eq=False)
class _Move:
    """A move before its outcome: its anchors, as places in the sample, and random numbers."""

    number: int
    first: int
    second: int
    law: str  # "frozen", "pass" or "urn"
    log_u: float  # of acceptance
    log_try: float  # of a split of near anchors
    log_odds: float  # of side 0, in a split by an urn
    clusters: tuple[int, int] = (-1, -1)  # when the move is made
    gain: float = 0.0  # of a merge, without log q
    odds: _Odds | None = None

    @property
    def is_split(self) -> bool:
        """Whether both anchors are in one cluster."""
        return self.clusters[0] == self.clusters[1]


def _drawn_moves(state, sample, n_moves, n_merges):
    """Draw the moves of a step, without a look at labels."""
    rng, n, R = generator(state.seed, "move", step=state.n_steps), n_moves + n_merges, sample.numbers.size
    first, second = rng.integers(R, size=n), rng.integers(R - 1, size=n)
    second += second >= first
    log_u, log_try = np.log1p(-rng.random((2, n)))
    a = 1.0 + state.model.weights.offset
    bias = np.clip(rng.beta(a, a, size=n), 1e-300, 1.0 - 1e-16)
    log_odds = np.log(bias) - np.log1p(-bias)
    if n_merges:
        others = rng.integers(R - 1, size=(n_merges, _CANDIDATES))
        others += others >= first[n_moves:, None]
        second[n_moves:] = _nearest(state.model.family, sample.phi, first[n_moves:], others)
    drawn = zip(first.tolist(), second.tolist(), log_u.tolist(), log_try.tolist(), log_odds.tolist())
    laws = ["frozen"] * n_moves + [("pass", "urn")[m % 2] for m in range(n_merges)]
    return [_Move(m, *drawn_of_one[:2], laws[m], *drawn_of_one[2:]) for m, drawn_of_one in enumerate(drawn)]


def _nearest(family, phi, first, others):
    """Return the candidate of each row that is most probable under the parameters of this row."""
    Theta, _ = family.expected_natural(np.ones(first.size), np.ascontiguousarray(dense_rows(phi[first])))
    fits = [dense_rows(phi[rows]) @ theta for rows, theta in zip(others, Theta)]
    return others[np.arange(first.size), np.argmax(fits, axis=1)]


class _Step:
    """The moves of one step: which clusters there are by now, and what no row knows yet."""

    def __init__(self, state, sample, n_rounds):
        self.state, self.sample, self.n_rounds = state, sample, n_rounds
        self.family, self.weights = state.model.family, state.model.weights
        names = ("splits_proposed", "splits_accepted", "merges_proposed", "merges_accepted", "exchanges")
        self.counts = dict.fromkeys(names, 0)
        self._begin()
        self.mass = self.weights.log_new_mass(state.data.n_rows - 1, self._most_clusters())

    def _begin(self):
        """Take the clusters and labels as the rows have them."""
        state = self.state
        self.n, self.changed, self.evidences = state.n.copy(), {}, {}  # counts, and pieces of changed clusters
        self.relabelled = np.arange(state.K, dtype=np.int32)  # of the labels that the rows have

    def _most_clusters(self):
        most, n_moves = self.weights.max_components, 1
        n_clusters = int(np.count_nonzero(self.n)) + self.sample.numbers.size + n_moves
        return min(self.state.data.n_rows, n_clusters if most is None else most)

    # ---- one move after the other ------------------------------------------------------------------------------------

    def make(self, moves):
        """Make the moves, each as if those before it were made."""
        self.at = self._labels_of_sample()
        one_by_one = self.weights.max_components is not None or self.weights.offset != 0.0
        while moves:
            asked, moves = self._next(moves, one_by_one)
            if asked:
                self._ask(asked)
        if (self.relabelled != np.arange(self.relabelled.size)).any():
            self._tell(None, np.empty(0, dtype=np.int32))

    def _labels_of_sample(self):
        self.counts["exchanges"] += 1
        return self.state.labels_at(self.sample.numbers)

    def _next(self, moves, one_by_one):
        """Return the moves that ask the rows now, and those that wait for their outcome.

        A move waits if an earlier one that waits or asks may change its clusters. All others are decided here.
        """
        asked, waiting, busy = [], [], set()
        for move in moves:
            clusters = (int(self.at[move.first]), int(self.at[move.second]))
            if (one_by_one and asked) or not busy.isdisjoint(clusters):
                busy.update(clusters)
                waiting.append(move)
                continue
            move.clusters = clusters
            if self._needs_rows(move):
                asked.append(move)
                busy.update(clusters)
        return asked, waiting

    def _needs_rows(self, move):
        """Decide a move as far as the coordinator can; return whether rows must be asked."""
        if move.is_split:
            if move.log_try >= _log_share(move):
                return False
            self.counts["splits_proposed"] += 1
            move.odds = self._odds(move)
            return True
        self.counts["merges_proposed"] += 1
        move.gain = self._gain_of_merge(move)
        if move.law == "urn" and self._accepts(move, move.gain):
            self._merge(move)
        if move.law == "urn" or move.log_u >= move.gain:  # log q of the other laws is at most 0
            return False
        move.odds = self._odds(move)
        return move.odds is not None

    def _accepts(self, move, log_ratio):
        """Return whether a move is accepted, given its log acceptance ratio."""
        return move.log_u < log_ratio

    def _gain_of_merge(self, move):
        """Return the log acceptance ratio of a merge, without the log q of laws that ask rows."""
        a, b = move.clusters
        n_a, n_b = self.n[a], self.n[b]
        joint = self._evidence_of(n_a + n_b, self._pieces(a) + self._pieces(b))
        gain = joint - self._evidence(a) - self._evidence(b) - self._log_prior(n_a, n_b, self._n_clusters - 1)
        if move.law == "urn":
            gain += urn_log_q(n_a, n_b, self.weights.offset)
        return gain + _log_share(move)

    # ---- moves that ask the rows -------------------------------------------------------------------------------------

    def _ask(self, moves):
        """Have the rows divide the clusters of some moves; decide these in their order."""
        division = self._division(moves)
        sides = self.state.sides(division)
        self.counts["exchanges"] += 1
        log_q, target = sides.log_q(), np.full(len(moves), -1, dtype=np.int32)
        for m, move in enumerate(moves):
            log_q_of_all = move.odds.log_q + float(log_q[m])
            if not move.is_split:
                if self._accepts(move, move.gain + log_q_of_all):
                    self._merge(move)
                continue
            n_one, ones = sides.sums.n[m], sides.sums.row(m)
            if self._accepts(move, self._log_ratio(move, n_one, ones, log_q_of_all)):
                target[m] = self._split(move.clusters[0], n_one, ones)
        if (target >= 0).any():
            self._tell(division, target)
            self.at = self._labels_of_sample()

    def _log_ratio(self, move, n_one, ones, log_q):
        """Return the log acceptance ratio of a split off of the rows with the pieces `ones`."""
        k = move.clusters[0]
        n_zero = self.n[k] - n_one
        if move.law == "urn":
            log_q = urn_log_q(n_zero, n_one, self.weights.offset)
        gain = self._evidence_of(n_zero, self._pieces(k) - ones) + self._evidence_of(n_one, ones) - self._evidence(k)
        return gain + self._log_prior(n_zero, n_one, self._n_clusters) - log_q - _log_share(move)

    def _division(self, moves):
        """Return what the rows need to divide the clusters of some moves."""
        by_slot, given_by_slot = np.full(self.n.size, -1, dtype=np.int32), np.full(self.n.size, -1, dtype=np.int8)
        for m, move in enumerate(moves):
            by_slot[list(move.clusters)] = m
            if not move.is_split:
                given_by_slot[list(move.clusters)] = 0, 1
        members = np.concatenate([move.odds.members for move in moves])
        order = np.argsort(members)
        return Division(
            by_slot[self.relabelled],
            given_by_slot[self.relabelled],
            np.stack([move.odds.theta for move in moves]),
            np.array([move.odds.constant for move in moves]),
            self.sample.numbers[members[order]],
            np.concatenate([move.odds.sides for move in moves])[order],
            np.array([move.number for move in moves], dtype=np.int64),
            n_rows=self.state.data.n_rows,
            seed=self.state.seed,
            step=self.state.n_steps,
        )

    # ---- laws of the sides -------------------------------------------------------------------------------------------

    def _odds(self, move):
        """Return the law of the sides of a move; None for a merge that is refused already."""
        anchors, sides = np.array([move.first, move.second]), np.array([0, 1], dtype=np.int8)
        if move.law == "urn":
            return _Odds(np.zeros(self.state.data.n_statistics), move.log_odds, anchors, sides, 0.0)
        a, b = move.clusters
        members = np.flatnonzero((self.at == a) | (self.at == b))
        if move.law == "pass":
            return self._pass(move, np.append(anchors, members[(members != anchors[0]) & (members != anchors[1])]))
        theta, constant = self._frozen(self.sample.phi[members], np.searchsorted(members, anchors))
        return _Odds(theta, constant, anchors, sides, 0.0)

    def _frozen(self, phi, anchors):
        """Return log-odds from rounds of hard assignment over the rows of the sample."""
        hard = np.full(phi.shape[0], -1, dtype=np.int8)
        hard[anchors] = 0, 1
        theta, constant = self._log_odds(*_sums_of_sides(phi, hard))
        for _ in range(self.n_rounds):
            hard = (phi @ theta + constant < 0.0).astype(np.int8)
            hard[anchors] = 0, 1
            theta, constant = self._log_odds(*_sums_of_sides(phi, hard))
        return theta, constant

    def _pass(self, move, members):
        """Return log-odds from a pass over the rows of the sample, of which the anchors come first.

        A merge forces the sides. It ends the pass when it cannot be accepted any more.
        """
        rng = generator(self.state.seed, "order", unit=move.number, step=self.state.n_steps)
        members[2:] = members[2:][rng.permutation(members.size - 2)]
        phi, draws = self.sample.phi[members], np.log1p(-rng.random(members.size))
        forced = None if move.is_split else (self.at[members] == move.clusters[1]).astype(np.int8)
        sides = np.zeros(members.size, dtype=np.int8) if forced is None else forced
        sides[:2] = 0, 1
        (n, S), log_q, start = _sums_of_sides(phi[:2], sides[:2]), 0.0, 2
        while start < members.size:
            rows = slice(start, start + max(1, start // _GROWTH))
            theta, constant = self._log_odds(n, S)
            scores = np.clip(phi[rows] @ theta + constant, -600.0, 600.0)
            if forced is None:
                sides[rows] = draws[rows] > -np.log1p(np.exp(-scores))
            log_q -= float(np.log1p(np.exp(np.where(sides[rows] == 0, -scores, scores))).sum())
            if forced is not None and move.log_u >= move.gain + log_q:
                return None
            more_n, more_S = _sums_of_sides(phi[rows], sides[rows])
            n, S, start = n + more_n, S + more_S, rows.stop
        return _Odds(*self._log_odds(n, S), members, sides, log_q)

    def _log_odds(self, n, S):
        """Return the log-odds of side 0 given expected parameters of sides with these statistics."""
        Theta, G = self.family.expected_natural(n, S)
        c = self.weights.offset
        return Theta[0] - Theta[1], float(G[1] - G[0] + np.log((n[0] + c) / (n[1] + c)))

    # ---- clusters ----------------------------------------------------------------------------------------------------

    @property
    def _n_clusters(self):
        return int(np.count_nonzero(self.n))

    def _pieces(self, k):
        """Return the pieces (P, F) of the sums of a cluster."""
        return self.changed[k] if k in self.changed else self.state.sums.row(k)

    def _evidence(self, k):
        if k not in self.evidences:
            self.evidences[k] = self._evidence_of(self.n[k], self._pieces(k))
        return self.evidences[k]

    def _evidence_of(self, n, pieces):
        S = pieces[0] if pieces.shape[0] == 1 else pieces[0] + (pieces[1] + pieces[2])
        return float(self.family.log_marginal(np.array([n]), S[None])[0])

    def _log_prior(self, n_a, n_b, n_clusters):
        """Return the log ratio of the priors with and without a split of one of `n_clusters`."""
        c = self.weights.offset
        sizes = gammaln(n_a + c) + gammaln(n_b + c) - gammaln(n_a + n_b + c) - gammaln(1.0 + c)
        return self.mass[n_clusters] + sizes if n_clusters < self.mass.size else -np.inf

    def _put(self, k, n, pieces):
        """Replace count and sums of a cluster."""
        self.n[k], self.changed[k] = n, pieces
        self.evidences.pop(k, None)

    def _merge(self, move):
        a, b = move.clusters
        both = self._pieces(a) + self._pieces(b)
        self._put(a, self.n[a] + self.n[b], both)
        self._put(b, 0.0, np.zeros_like(both))
        self.at[self.at == b] = a
        self.relabelled[self.relabelled == b] = a
        self.counts["merges_accepted"] += 1

    def _split(self, k, n_one, ones):
        """Put the rows of side 1 into the first free slot; return it."""
        free = np.flatnonzero(self.n == 0.0)
        slot = int(free[0]) if free.size else self.n.size
        if not free.size:
            self.n = np.append(self.n, 0.0)
        self._put(k, self.n[k] - n_one, self._pieces(k) - ones)
        self._put(slot, n_one, ones)
        self.counts["splits_accepted"] += 1
        return slot

    def _tell(self, division, target):
        """Have the rows take the labels of the moves that were accepted."""
        sums = self.state.sums.with_rows(self.n, self.changed)
        self.state.divide(division, self.relabelled, target, sums)
        self.counts["exchanges"] += 1
        self._begin()


def _log_share(move):
    """Return the log probability with which a split is tried."""
    return 0.0 if move.law == "frozen" else np.log(_NEAR_SHARE)


def _sums_of_sides(phi, sides):
    """Return counts (2,) and sums (2, F) of the rows on each side."""
    groups = [phi[np.flatnonzero(sides == side)] for side in (0, 1)]
    n = np.array([group.shape[0] for group in groups], dtype=np.float64)
    return n, np.stack([np.asarray(group.sum(axis=0), dtype=np.float64).ravel() for group in groups])
