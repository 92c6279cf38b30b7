"""Exact splits and merges for an unknown number of clusters of rows in groups.

Sweeps move one row at a time, so a cluster of two kinds of rows hardly divides, and pieces of one cluster stay apart
for long. A move changes all rows of a cluster at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from expfam.samplers.nonparametric.groups import GroupedProcessGibbs
from expfam.samplers.nonparametric.pairs import CONSTRAINTS, Tries, number_of_pairs, try_pairs
from expfam.samplers.nonparametric.row_moves import RowMoves
from expfam.samplers.states.large import count_large
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    import numpy.typing as npt

WORK = 0.5  # rows that the tries of a step visit by default, over all rows
_TRIED = 50  # rows of a pair's clusters up to which it is always tried
_SPARE = 3  # free slots that a move needs


class GroupedProcessSplitMerge(GroupedProcessGibbs):
    """Exact splits and merges for an unknown number of clusters of rows in groups.

    Two rows are drawn, whatever their clusters. Where both are in one cluster, its other rows are divided between them,
    group by group; where they are in two, the clusters become one. Parameters and weights of the groups are integrated
    out, and the weights that all groups share are part of the move. A cluster with known rows takes part too, and keeps
    them. Use this kernel in a `Cycle` with `GroupedProcessGibbs`, which draws the shared weights and the
    concentrations. It works with any family.

    Parameters
    ----------
    n_tries : int or "auto"
        Pairs of rows of a step.
    work : float
        Rows that all tries of a step visit at most on average, as a share of all rows: a pair whose clusters hold n of
        the N rows is tried with probability min(1, work N / (n_tries n)), which is the same before and after a move.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, HierarchicalProcess, Poisson
    >>> from expfam.samplers import Cycle, GroupedProcessGibbs, GroupedProcessSplitMerge, sample
    >>> X = np.repeat([[0, 90], [90, 0]], 20, axis=0)
    >>> data = Dataset(X, Poisson(shape=1.0, rate=0.02), groups=np.arange(40) % 4)
    >>> kernel = Cycle(GroupedProcessSplitMerge(), GroupedProcessGibbs())
    >>> state = kernel.init(HierarchicalProcess(data.family), data, seed=0, start=np.zeros(40, dtype=int))
    >>> trace = sample(kernel, state, 40)
    >>> int(np.median(trace.column("n_clusters")[20:]))
    2

    Notes
    -----
    Jain and Neal 2004, Dahl 2005; see `expfam.samplers.nonparametric.pairs`.
    """

    _constraints: ClassVar = CONSTRAINTS

    def __init__(self, *, n_tries: int | Literal["auto"] = "auto", work: float = WORK) -> None:
        super().__init__(learn_alpha=False)
        self.n_tries, self.work = n_tries, work

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Propose splits and merges of clusters, and accept or refuse each by Metropolis-Hastings."""
        N, tries = state.data.n_rows, Tries(0, 0, 0)
        if N > 1:
            rng = generator(state.seed, "choice", step=state.n_steps)
            _make_room(state)
            moves = RowMoves(state, order_by_groups(state.data.groups.of_row, rng))
            pairs = rng.integers(N, size=(number_of_pairs(self.n_tries, self.work, N, _TRIED), 2))
            attempt = partial(_try, state, moves, rng)
            tries = try_pairs(pairs, attempt, size_of=moves.size_of, most=self.work * N, rng=rng)
        return tries.n_tried, tries.n_accepted, {"n_large": count_large(state.counts), "n_splits": tries.n_split}


def order_by_groups(of_row: npt.NDArray[np.intp], rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Return the place of each row in a random order of groups, and of the rows of each: (N,)."""
    rows = rng.permutation(len(of_row))
    groups = rng.permutation(int(of_row.max(initial=0)) + 1)
    place = np.empty(len(of_row), dtype=np.int32)
    place[rows[np.argsort(groups[of_row[rows]], kind="stable")]] = np.arange(len(of_row), dtype=np.int32)
    return place


def _make_room(state):
    """Have enough free slots for a move."""
    while len(state.shared.free) < _SPARE:
        state.add_slots()


def _try(state, moves, rng, u, v, log_u, unit):
    """Try one move; return 1 for a split, -1 for a merge, 0 where nothing changes."""
    shared, gamma = state.shared, state.model.gamma
    a, b = int(state.labels[u]), int(state.labels[v])
    is_known = a < state.model.n_known
    # a known cluster is that of the first row; the other one is free, or the second row can leave
    if b < state.model.n_known and (a != b or moves.is_fixed(v)):
        return 0
    if a != b:
        one, two = float(shared.pseudocounts[a]), float(shared.pseudocounts[b])
        if not moves.merge(u, v, one, two, gamma, log_u, is_known):
            return 0
        kept, left = shared.by_age(a, b)
        n_moved = int(state.counts[left])
        moves.join(kept, left)
        shared.pseudocounts[kept], shared.pseudocounts[left] = one + two, 0.0
    else:
        mass = float(shared.pseudocounts[a])
        accepted, share = moves.split(u, v, mass, gamma, rng, state.seed, unit, state.n_steps, log_u, is_known)
        if not accepted:
            moves.leave()
            return 0
        new, is_second = moves.adopt()
        part = mass * (1.0 - share if is_second else share)
        shared.pseudocounts[new], shared.pseudocounts[a] = part, mass - part
        n_moved = int((state.labels == new).sum())
    state.adopt_moves(n_moved)
    _make_room(state)
    moves.sort()
    return 1 if a == b else -1
